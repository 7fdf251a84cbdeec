//! Loads that nandlab generates, made by Linux: afterwards its files are those of nandlab's own JFFS2 and UBIFS under the same load.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{fresh, json, nandlab, text};

/// A NOR of 20 sectors of 64 KiB.
const NOR: &str = "[nand]\npart = 'M29W400D'\nmedium = 'nor'\npebs = 20\ndelays = 'part'";
/// A NAND of 8 MiB.
const NAND: &str = "[nand]\npart = 'K9F1G08U0E'\npebs = 64\ndelays = 'part'";

const LOGGER: &str =
    "[logger]\nstatic_files = 6\nstatic_bytes = 9000\nlogs = 2\nlog_bytes = 3000\nentries = 300\nfsync = true";
const REBOOTS: &str = "[reboots]\nreboots = 4\nsystem_files = 5\nsystem_bytes = 9000\nread_files = 3\nstate_files = 2\n\
                       copied_files = 3\ncopied_bytes = 20000";

/// A metric of a result.
fn metric(result: &Value, id: &str) -> f64 {
    let all = result["metrics"].as_array().unwrap();
    let found = all.iter().find(|metric| metric["id"] == id);
    found.unwrap_or_else(|| panic!("no {id}"))["value"].as_f64().unwrap()
}

/// Runs a load in the guest and on nandlab's own file system. Returns both results; the files must be the same.
#[track_caller]
fn both(name: &str, device: &str, load: &str, kind: &str, fs: &str) -> [Value; 2] {
    both_with(name, device, load, &format!("kind = '{kind}'"), &format!("kind = '{kind}'\n{fs}"))
}

/// [`both`] with keys of the file system in the guest and of nandlab's own.
#[track_caller]
fn both_with(name: &str, device: &str, load: &str, linux: &str, fs: &str) -> [Value; 2] {
    let dir = fresh(name);
    let guest = format!("[guest]\nmemory_mib = 96\nprogram = 'load'\nfs = {{ {linux} }}");
    let own = format!("[fs]\noperation_us = 0.0\n{fs}");
    let run = |name: &str, rest: &str| {
        let file = format!("{name}.toml");
        std::fs::write(dir.join(&file), format!("title = 'x'\nseed = 3\n{device}\n{load}\n{rest}\n")).unwrap();
        json(&dir, &["run", &file, "--flash", name, "--json"])
    };
    let found = [run("linux", &guest), run("own", &own)];
    assert_eq!(found[0]["guest"]["exit"], 0, "{}", found[0]["guest"]["output"]);
    let files = ["linux", "own"].map(|flash| files(&dir, flash));
    assert!(files[0].len() > 8, "{:?}", files[0].keys());
    assert!(files[0] == files[1], "{:?} and {:?}", sizes(&files[0]), sizes(&files[1]));
    found
}

/// The files of a flash, as we extract them.
#[track_caller]
fn files(dir: &Path, flash: &str) -> BTreeMap<String, Vec<u8>> {
    let out = format!("{flash}.out");
    let said = nandlab(dir, &["image", "extract", flash, "-o", &out, "--no-owner"]);
    assert!(said.status.success(), "{flash}: {}", text(&said.stderr));
    // Of a flash with UBI each volume has a directory.
    let top = dir.join(&out);
    let top = if top.join("data").is_dir() { top.join("data") } else { top };
    let all = std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap().path());
    all.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())).collect()
}

fn sizes(files: &BTreeMap<String, Vec<u8>>) -> Vec<(&str, usize)> {
    files.iter().map(|(name, bytes)| (name.as_str(), bytes.len())).collect()
}

#[test]
fn logs_of_linux_on_nor_are_those_of_our_jffs2_and_each_entry_is_timed() {
    let [linux, own] = both("logger-nor", NOR, LOGGER, "jffs2", "");
    for id in ["fs.append.count", "fs.fsync.count", "fs.rename.count", "fs.create.count", "host.bytes"] {
        assert_eq!(metric(&linux, id), metric(&own, id), "{id}");
    }
    // The node of an entry has 68 bytes and some of its own, and a byte takes 10 µs (part M29W400D).
    assert!(metric(&linux, "fs.append.min_us") > 680.0);
    assert!(metric(&linux, "fs.mount.last.s") > 0.0);
}

#[test]
fn logs_of_linux_on_nand_are_those_of_our_jffs2_and_ubifs() {
    both("logger-nand", NAND, LOGGER, "jffs2", "");
    both("logger-ubifs", NAND, LOGGER, "ubifs", "");
}

#[test]
fn a_device_with_linux_that_loses_power_has_the_files_of_our_jffs2() {
    let [linux, own] = both("reboots", NOR, REBOOTS, "jffs2", "");
    assert_eq!((metric(&linux, "reboots.count"), metric(&own, "reboots.count")), (4.0, 4.0));
    assert_eq!(metric(&linux, "fs.open.count"), 4.0 * 3.0);
    // 60,000 bytes, of which half can be compressed away, take 10 µs for each byte that is left.
    let fresh = metric(&linux, "reboots.copy.first_s");
    assert!((0.3..3.0).contains(&fresh), "{fresh}");
}

/// A flash that is nearly full, after a boot: JFFS2's thread checks inodes, and then collects garbage, between the calls of the
/// program. No processor takes time and nothing is compressed, so both make the same operations of the flash, but for a node that
/// two passes come before or after.
#[test]
fn the_thread_of_our_jffs2_works_between_the_calls_of_a_program_as_that_of_linux() {
    let device = "[nand]\npart = 'M29W400D'\nmedium = 'nor'\npebs = 48\ndelays = 'part'\ncopy_ps_per_byte = 33000";
    let load = "[reboots]\nreboots = 1\nsystem_files = 48\nsystem_bytes = 40000\nread_files = 20\nstate_files = 10\n\
                state_bytes = 512\ncopied_files = 10\ncopied_bytes = 40000";
    let own = "page_cache.memory_bytes = 4194304\n[fs.jffs2]\nsummary = true\ncompressors = []";
    let guest = "kind = 'jffs2', mount = 'compr=none'";
    let [linux, own] = both_with("reboots-full", device, load, guest, &format!("kind = 'jffs2'\n{own}"));
    for (id, share) in
        [("reboots.boot.first_s", 0.01), ("reboots.init.first_s", 0.002), ("reboots.copy.first_s", 0.002)]
    {
        let (theirs, ours) = (metric(&linux, id), metric(&own, id));
        assert!((ours / theirs - 1.0).abs() < share, "{id}: Linux {theirs}, nandlab {ours}");
    }
    let erases = [&linux, &own].map(|found| metric(found, "wear.erases"));
    assert!((erases[0] - erases[1]).abs() <= 1.0, "{erases:?}");
}

#[test]
fn a_load_that_finds_no_space_ends_the_run_and_says_where() {
    let dir = fresh("full");
    let run = |load: &str| {
        let guest = "[guest]\nmemory_mib = 96\nprogram = 'load'\nfs = { kind = 'jffs2' }";
        std::fs::write(dir.join("full.toml"), format!("title = 'x'\n{NOR}\n{load}\n{guest}\n")).unwrap();
        let said = nandlab(Path::new(&dir), &["run", "full.toml"]);
        assert!(!said.status.success());
        text(&said.stderr)
    };
    let said = run("[logger]\nstatic_files = 60\nstatic_bytes = 40000\nentries = 1");
    assert!(said.contains("pwrite: No space left on device"), "{said}");
    let said = run("[reboots]\nreboots = 2\nsystem_files = 60\nsystem_bytes = 40000");
    assert!(said.contains("pwrite: No space left on device"), "{said}");
}
