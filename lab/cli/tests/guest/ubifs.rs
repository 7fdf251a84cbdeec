//! UBIFS of Linux on our flash, read by us: after a clean unmount, and after power cuts, where Linux recovers the same flash
//! beside us.

use std::path::Path;

use super::{Command, TOP, fresh, json, nandlab, text};

const FLASH: &str = "[nand]\npart = 'MT29F1G08ABAFA'\npebs = 160\ndelays = 'part'";
pub const TREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/tree.py");

/// What only root can restore is left out for others.
pub fn plain() -> &'static str {
    if rustix::process::geteuid().is_root() { "" } else { "plain" }
}

fn toml(dir: &Path, name: &str, guest: &str, rest: &str) -> String {
    let file = format!("{name}.toml");
    let text = format!(
        "title = 'x'\nseed = 3\n{FLASH}\n[guest]\nmemory_mib = 128\nfs = {{ kind = 'ubifs' }}\n{guest}\n{rest}"
    );
    std::fs::write(dir.join(&file), text).unwrap();
    file
}

/// The files as we extract them from a flash, which our check finds whole.
#[track_caller]
pub fn ours(dir: &Path, flash: &str) -> String {
    let checked = nandlab(dir, &["image", "check", "-q", flash]);
    assert!(checked.status.success(), "{flash}: {}", text(&checked.stdout));
    assert!(
        text(&checked.stdout).contains("0 errors, 0 warnings, 1 note") || !flash.starts_with("cut"),
        "{flash}: {}",
        text(&checked.stdout)
    );
    extracted(dir, flash, None)
}

/// The files as we extract them from a flash. What is not restored must be for this reason.
#[track_caller]
pub fn extracted(dir: &Path, flash: &str, reason: Option<&str>) -> String {
    let out = format!("{flash}.out");
    let owner: &[&str] = if plain().is_empty() { &[] } else { &["--no-owner"] };
    let said = nandlab(dir, &[&["image", "extract", flash, "-o", &out], owner].concat());
    let lost = text(&said.stderr);
    let is_expected = reason.is_some_and(|reason| lost.lines().all(|line| line.contains(reason)));
    assert!(said.status.success() || is_expected || !plain().is_empty(), "{flash}: {lost}");
    let listed = Command::new("python3").args([TREE, &out, plain()]).current_dir(dir).output().unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    std::fs::remove_dir_all(dir.join(out)).unwrap();
    text(&listed.stdout)
}

/// The files as Linux mounts them, recovering what a power cut left.
#[track_caller]
fn linux(dir: &Path, flash: &str) -> String {
    let job = format!("job = \"python3 {TREE} /mnt {}; dmesg | grep -E 'UBIFS.*(bad|corrupt)' >&2; true\"", plain());
    let file = toml(dir, "mount", &job, "");
    let found = json(dir, &["run", &file, "--from", flash, "--json"]);
    let said = found["guest"]["output"].as_str().unwrap();
    assert!(said.len() < 250_000, "the output of a guest is cut off");
    said.lines().filter(|line| !line.starts_with('[')).map(|line| format!("{line}\n")).collect()
}

#[test]
fn we_recover_the_files_that_linux_recovers_from_the_same_cut() {
    let dir = fresh("ubifs-cuts");
    let guest = "program = 'fsstress'\njob = 'mkdir s; fsstress -p 3 -n 900 -s 7 s >/dev/null; sync'\ncheck = 'find s -type f -exec cat {} + >/dev/null'";
    let cuts = "[cuts]\ntear = ['clean', 'prefix', 'random-bits']\necc = 'drawn'\n";
    let file = toml(&dir, "stress", guest, cuts);
    let mut files = Vec::new();
    for at in ["451", "1403", "2201", "2942"] {
        let flash = format!("cut{at}.bin");
        let said = nandlab(&dir, &["cuts", &file, "--at", at, "--flash", &flash]);
        assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr));
        let (ours, linux) = (ours(&dir, &flash), linux(&dir, &flash));
        let differs = ours.lines().zip(linux.lines()).find(|(ours, linux)| ours != linux);
        assert!(
            ours == linux,
            "cut {at}: {} files, Linux has {}: first {differs:?}",
            ours.lines().count(),
            linux.lines().count()
        );
        files.push(ours.lines().count());
    }
    assert!(files.is_sorted() && files[0] > 5 && files[3] > 100, "{files:?}");
}

#[test]
fn we_read_what_linux_unmounted_with_every_compression() {
    let dir = fresh("ubifs-clean");
    for (compression, seed) in [("none", 1), ("lzo", 2), ("zlib", 3), ("zstd", 4)] {
        let job = format!(
            "program = 'fsstress'\njob = '''\ncd /; umount /mnt; mount -t ubifs -o compr={compression} ubi0:data /mnt || exit 3; cd /mnt\n\
             mkdir s; fsstress -p 2 -n 400 -s {seed} s >/dev/null; cat {TREE} {TREE} {TREE} >text; cd /; umount /mnt; mount -t ubifs ubi0:data /mnt; \
             python3 {TREE} /mnt {}'''",
            plain()
        );
        let file = toml(&dir, compression, &job, "");
        let flash = format!("{compression}.bin");
        let found = json(&dir, &["run", &file, "--flash", &flash, "--json"]);
        assert_eq!(found["guest"]["exit"], 0, "{found}");
        assert_eq!(ours(&dir, &flash), found["guest"]["output"].as_str().unwrap(), "{compression}");
        let info = json(&dir, &["image", "info", &flash, "--json"]);
        let ubifs = &info["volumes"][0]["ubifs"];
        assert_eq!((&ubifs["format"], &ubifs["clean"]), (&5.into(), &true.into()), "{ubifs}");
    }
}

/// fio's synchronized overwrites on the kernels that `fastmap-latency` has for its `columns`: how long the least and the mean
/// take, and how many fastmaps they need. fio of the guest counts whole microseconds.
fn overwrites_take_as_long_as_on_linux(case: &str, columns: &[&str]) {
    let dir = fresh(case);
    let study = dir.join("study");
    std::fs::create_dir(&study).unwrap();
    let source = format!("{TOP}/studies/fastmap-latency");
    for name in ["study.toml", "published.json", "SOURCE.md"] {
        std::fs::copy(format!("{source}/{name}"), study.join(name)).unwrap();
    }
    // Without the other kernels: a table of them begins each part but the first.
    let whole = std::fs::read_to_string(study.join("study.toml")).unwrap();
    let (rest, reason) = whole.split_once("[reason]").unwrap();
    let mut parts = rest.split("[[kernel.run]]");
    let first = parts.next().unwrap().to_owned();
    let kept = parts.filter(|part| columns.iter().any(|column| part.contains(&format!("of = \"{column}\""))));
    let edited = kept.fold(first, |text, part| text + "[[kernel.run]]" + part) + "[reason]" + reason;
    std::fs::write(study.join("study.toml"), edited).unwrap();

    // It misses claims of its document, which ends it with 1.
    let said = nandlab(&dir, &["study", "./study", "--kernel", "--quick", "--json"]);
    assert_eq!(said.status.code(), Some(1), "{}", text(&said.stderr));
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let tables = said["studies"][0]["tables"].as_array().unwrap();
    let beside: Vec<_> = tables.iter().filter(|table| table["title"].as_str().unwrap().contains("kernel")).collect();
    assert_eq!(beside.len(), columns.len(), "one table for each kernel");
    for table in beside {
        for (row, within) in [("least", 0.05), ("mean", 0.05), ("fastmap writes per PEB", 0.05)] {
            let rows = table["ours"].as_array().unwrap();
            let cells = rows.iter().find(|cells| cells[0] == row).unwrap_or_else(|| panic!("no row {row}: {table}"));
            let [linux, ours] = [1, 2].map(|at| cells[at].as_f64().unwrap());
            assert!((ours / linux - 1.0).abs() < within, "{row}: Linux {linux}, nandlab {ours}");
        }
    }
}

#[test]
fn a_synchronized_overwrite_takes_as_long_as_on_linux() {
    overwrites_take_as_long_as_on_linux("fastmap-latency", &["after"]);
}

#[test]
#[ignore = "needs Linux 6.1, which `make thorough` builds"]
fn a_synchronized_overwrite_takes_as_long_as_on_linux_6_1() {
    overwrites_take_as_long_as_on_linux("fastmap-latency-6.1", &["before", "after"]);
}

/// A load on the same flash under Linux 6.12's UBIFS and under ours. Of each: erasures, bytes programmed, and atomic LEB changes in
/// the measured part.
fn both(case: &str, linux: &str, ours: &str) -> [[u64; 3]; 2] {
    let dir = fresh(case);
    let flash = "title = 'x'\nseed = 1\n[nand]\npebs = 768\npeb_bytes = 65536\npage_bytes = 2048\n";
    let linux = format!("[guest]\nlinux = '6.12'\nfs = {{ kind = 'ubifs', mount = 'compr=none' }}\n{linux}");
    let ours = format!(
        "[ubi]\nwl = 'linux-6.7'\n[fs]\ncompression = 'none'\nmade_by = 'first-mount'\npage_cache = {{}}\nunmount = false\n\
         [fio]\nname = 'f'\nblock_bytes = 4096\nflush_every = 1\n{ours}"
    );
    [("linux", linux), ("ours", ours)].map(|(name, load)| {
        std::fs::write(dir.join(name), format!("{flash}{load}")).unwrap();
        let log = format!("{name}.csv");
        let found = json(&dir, &["run", name, "--ubi-log", &log, "--json"]);
        assert!(found["guest"]["exit"].as_i64().unwrap_or(0) == 0, "{}", found["guest"]);
        let sum = |counts: &serde_json::Value, at: fn(&serde_json::Value) -> u64| -> u64 {
            counts.as_array().unwrap().iter().map(at).sum()
        };
        let erasures = sum(&found["erase_counts"], |count| count.as_u64().unwrap());
        let log = std::fs::read_to_string(dir.join(log)).unwrap();
        let changes = log.lines().filter(|row| row.split(',').nth(2) == Some("change")).count() as u64;
        [erasures, sum(&found["programmed_bytes"], |by| by[1].as_u64().unwrap()), changes]
    })
}

#[track_caller]
fn close(linux: u64, ours: u64, within: f64) {
    assert!((ours as f64 / linux as f64 - 1.0).abs() < within, "Linux {linux}, nandlab {ours}");
}

/// With more dirty LEBs than the 256 of Linux's heap: a collector that always found the dirtiest erases a quarter less.
#[test]
fn a_full_file_system_wears_as_much_as_on_linux() {
    let job =
        "fio --name=f --ioengine=psync --rw=write --bs=4k --size=35m --fsync=1 --thread --directory=/mnt >/dev/null";
    let [linux, ours] =
        both("ubifs-full", &format!("job = '{job}'\n"), "rw = 'write'\nsize_bytes = 36700160\nrequests = 8960\n");
    close(linux[0], ours[0], 0.02);
    close(linux[1], ours[1], 0.02);
}

/// Pages that are in the page cache are no new ones for the budget, so that UBIFS keeps no LEBs for an index that does not grow: it
/// writes its nodes in the gaps of two LEBs with each commit, which are changes. With budgets of new pages they are half as many.
#[test]
fn an_index_that_does_not_grow_is_written_in_its_gaps_as_often_as_on_linux() {
    let fio = "fio --name=f --ioengine=psync --bs=4k --size=33m --thread --directory=/mnt";
    let linux = format!(
        "setup = '{fio} --rw=write --end_fsync=1 >/dev/null'\n\
         job = '{fio} --rw=randwrite --norandommap=1 --io_size=64m --fsync=1 >/dev/null'\n"
    );
    let ours = "rw = 'randwrite'\nnorandommap = true\noverwrite = true\nsize_bytes = 34603008\nrequests = 16384\n";
    let [linux, ours] = both("ubifs-gaps", &linux, ours);
    close(linux[0], ours[0], 0.02);
    close(linux[1], ours[1], 0.02);
    close(linux[2], ours[2], 0.05);
}
