//! `nandlab cuts` as a user runs it.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const UBI: &str = "title = 't'
[nand]
pebs = 96
peb_bytes = 8192
page_bytes = 512
[ubi]
wl_threshold = 4
";
const DRIVE: &str = "title = 't'
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 16
pages = 8
page_kib = 1.0
over_provisioning_percent = 50.0
[ssd.cache]
policy = 'lru'
pages = 12
[ssd.front]
protocol = 'sata'
depth = 8
write_cache = true
[ssd.ftl]
log_blocks = 3
";

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the temporary directory can be written");
    path
}

fn cuts(file: &PathBuf, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    command.arg("cuts").arg(file).args(args).output().expect("nandlab runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn a_good_ubi_exits_0_and_is_silent_in_a_pipe() {
    let good = file("cuts-good.toml", &format!("{UBI}[cuts]\noperations = 60\n"));
    let output = cuts(&good, &["--every", "5", "--json"]);
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
    let document = json(&output);
    assert!(document["cuts"].as_u64().unwrap() > 20, "{document}");
    assert_eq!(document["failures"], Value::Array(Vec::new()));
}

#[test]
fn a_count_of_cuts_is_spread_over_all_of_them_with_every_tear() {
    let bad = format!("{UBI}[cuts]\noperations = 60\nknown_bad = 'forget-erase-count'\n");
    let bad = file("cuts-count.toml", &bad);
    let all = json(&cuts(&bad, &["--json"]))["cuts"].as_u64().unwrap();
    let document = json(&cuts(&bad, &["--count", "40", "--json"]));
    assert!((40..60).contains(&document["cuts"].as_u64().unwrap()), "{document}");
    let at = document["failures"].as_array().unwrap().iter().map(|failure| failure["at"].as_u64().unwrap());
    let at: Vec<u64> = at.collect();
    assert!((0..3).all(|tear| at.iter().any(|at| at % 3 == tear)), "each of the three tears: {at:?}");
    assert!(*at.last().unwrap() > all / 2, "{at:?} of {all}");
    assert_eq!(json(&cuts(&bad, &["--count", &(2 * all).to_string(), "--json"]))["cuts"], all);
    // The hint repeats what the command line sets.
    let text = cuts(&bad, &["--count", "40", "--set", "cuts.ecc=\"sees\"", "--seed", "7"]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("--set 'cuts.ecc=\"sees\"' --seed 7 --at "), "{text}");
}

#[test]
fn a_known_bad_one_exits_1_and_its_cut_can_be_told() {
    let bad = file("cuts-bad.toml", &format!("{UBI}[cuts]\noperations = 60\nknown_bad = 'forget-erase-count'\n"));
    let output = cuts(&bad, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let at = json(&output)["failures"][0]["at"].to_string();
    let told = cuts(&bad, &["--at", &at]);
    assert_eq!(told.status.code(), Some(1));
    let text = String::from_utf8(told.stdout).expect("text");
    assert!(text.contains(&format!("cut {at} broke a promise")) && text.contains("broken: "), "{text}");
}

#[test]
fn a_good_drive_exits_0_and_a_known_bad_one_1_and_its_cut_can_be_told() {
    let good = file("cuts-drive.toml", &format!("{DRIVE}mapping = 'fast'\n[cuts]\noperations = 120\n"));
    let output = cuts(&good, &["--every", "7", "--json"]);
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
    assert!(json(&output)["cuts"].as_u64().unwrap() > 20);
    let bad = file("cuts-drive-bad.toml", &format!("{DRIVE}[cuts]\noperations = 120\nknown_bad = 'flush-at-once'\n"));
    let output = cuts(&bad, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let at = json(&output)["failures"][0]["at"].to_string();
    let told = String::from_utf8(cuts(&bad, &["--at", &at]).stdout).expect("text");
    assert!(told.contains("power on: ") && told.contains(&format!("cut {at} broke a promise")), "{told}");
}

/// The experiment of the tree, of which few cuts are run, and each deliberate mistake in a shorter one.
#[test]
fn a_good_ubifs_exits_0_and_each_known_bad_one_1() {
    let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let good = tree.join("cuts-ubifs.toml");
    let output = cuts(&good, &["--every", "997", "--json"]);
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
    let document = json(&output);
    assert!(document["cuts"].as_u64().unwrap() >= 60, "three for each of 20,000 operations, by 997: {document}");
    let bad = tree.join("cuts-ubifs-known-bad.toml");
    for known_bad in ["skip-write-buffer", "write-one-master", "forget-orphans", "trust-heads"] {
        let output = cuts(&bad, &["--set", &format!("cuts.known_bad='{known_bad}'"), "--every", "5", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{known_bad}");
    }
    let case = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cuts-ubifs.case");
    let case = case.to_str().expect("a path in Unicode");
    let heads = "cuts.known_bad='trust-heads'";
    let saved = cuts(&bad, &["--set", heads, "--set", "cuts.operations=60", "--save", case, "--force"]);
    assert_eq!(saved.status.code(), Some(1));
    let text = String::from_utf8(saved.stdout).expect("text");
    assert!(text.contains("saved, with "), "{text}");
    let again = Command::new(env!("CARGO_BIN_EXE_nandlab")).args(["cuts", "--replay", case]).output();
    assert_eq!(again.expect("nandlab runs").status.code(), Some(1));
}

/// On NAND, on NOR and on UBI a short run of the experiments of the tree; each deliberate mistake where it is one; a case that is saved, runs
/// again, and keeps the flash that the cut left.
#[test]
fn a_good_jffs2_exits_0_and_each_known_bad_one_1() {
    let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for name in ["cuts-jffs2.toml", "cuts-jffs2-nor.toml", "cuts-jffs2-ubi.toml"] {
        let args = ["--set", "cuts.operations=2500", "--every", "37", "--json"];
        let output = cuts(&tree.join(name), &args);
        let document = json(&output);
        assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{name}: {document}");
        assert!(document["cuts"].as_u64().unwrap() >= 60, "{name}: {document}");
        let phases = document["phases"].as_array().unwrap();
        let has = |operation: &str| phases.iter().any(|phase| phase["operation"] == operation);
        assert!(has("program") && has("erase"), "{name}: {phases:?}");
    }
    let bad = tree.join("cuts-jffs2-known-bad.toml");
    for known_bad in ["skip-write-buffer", "no-deletion", "no-padding", "erase-early"] {
        let output = cuts(&bad, &["--set", &format!("cuts.known_bad='{known_bad}'"), "--every", "5", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{known_bad}");
    }
    // Without a look behind summaries, as in Linux, an erasure that is cut short can cost names.
    let summaries = tree.join("cuts-jffs2-summary.toml");
    assert_eq!(cuts(&summaries, &["--every", "40", "--json"]).status.code(), Some(0));
    let torn = ["--set", "cuts.tear=['prefix']", "--cause", "gc", "--every", "4"];
    let trusting = cuts(&summaries, &[&["--set", "cuts.known_bad='trust-summary'"], &torn[..]].concat());
    let told = String::from_utf8(trusting.stdout).expect("text");
    assert!(trusting.status.code() == Some(1) && told.contains("no path leads to it"), "{told}");
    let first = ["--set", "cuts.known_bad='obsolete-first'", "--set", "cuts.operations=1500", "--json"];
    assert_eq!(cuts(&tree.join("cuts-jffs2-nor.toml"), &first).status.code(), Some(1));
    let at = |name: &str| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).to_str().expect("Unicode").to_owned();
    let (case, left) = (at("cuts-jffs2.case"), at("cuts-jffs2.bin"));
    let saved = cuts(&bad, &["--set", "cuts.operations=60", "--save", &case, "--force"]);
    assert_eq!(saved.status.code(), Some(1));
    let text = String::from_utf8(saved.stdout).expect("text");
    assert!(text.contains("saved, with "), "{text}");
    let mut again = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    let again = again.args(["cuts", "--replay", &case, "--flash", &left, "--force"]).output().expect("nandlab runs");
    let told = String::from_utf8(again.stdout).expect("text");
    assert_eq!(again.status.code(), Some(1), "{told}");
    assert!(told.contains("JFFS2 is mounted") && told.contains("broke a promise"), "{told}");
    assert_eq!(std::fs::read(&left).expect("what the cut left").len(), 16 * 8192);
}

#[test]
fn a_good_jffs_exits_0_and_each_known_bad_one_1() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments/cuts-jffs1.toml");
    for mount_gc in ["none", "full"] {
        let set = format!("fs.jffs1.mount_gc='{mount_gc}'");
        let output = cuts(&file, &["--set", &set, "--set", "cuts.operations=3000", "--every", "11", "--json"]);
        let document = json(&output);
        assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{mount_gc}: {document}");
        assert!(document["cuts"].as_u64().unwrap() >= 300, "{mount_gc}: {document}");
    }
    for known_bad in ["forget-replaced", "trust-data", "clear-first"] {
        let set = format!("cuts.known_bad='{known_bad}'");
        let output = cuts(&file, &["--set", &set, "--set", "cuts.operations=4000", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{known_bad}");
    }
    let fill = "title = 't'\n[nand]\nmedium = 'nor'\npage_bytes = 1\npebs = 16\n[fs]\nkind = 'jffs1'\n[fill]\n[cuts]\n";
    let output = cuts(&self::file("cuts-fill.toml", fill), &[]);
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.code() == Some(2) && said.contains("fill") && said.contains("fsstress"), "{said}");
}

#[test]
fn a_bad_file_exits_2_and_names_the_nearest_key() {
    let wrong = file("cuts-wrong.toml", &format!("{UBI}[cuts]\nteer = ['clean']\n"));
    let output = cuts(&wrong, &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("text");
    for part in ["cuts-wrong.toml", "cuts.teer", "unknown key", "`cuts.tear`"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(cuts(&PathBuf::from("no-such-file.toml"), &[]).status.code(), Some(2));
}

#[test]
fn every_enumeration_of_the_tree_is_a_good_file() {
    let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut found = 0;
    for entry in std::fs::read_dir(tree).expect("the experiments") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cuts-")) {
            let text = std::fs::read_to_string(&path).expect("text");
            cuts::Plan::resolve(&text, &[]).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found += 1;
        }
    }
    assert!(found >= 9);
}

/// `make thorough` runs every cut of them.
#[test]
fn every_enumeration_of_a_drive_is_as_good_as_its_name_says() {
    let tree = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut found = 0;
    for entry in std::fs::read_dir(tree).expect("the experiments") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if name.starts_with("cuts-ssd") || name.starts_with("cuts-ufs") {
            let output = cuts(&path, &["--every", "97", "--json"]);
            let expected = if name.contains("known-bad") { 1 } else { 0 };
            assert_eq!(output.status.code(), Some(expected), "{name}: {}", json(&output));
            found += 1;
        }
    }
    assert!(found >= 7);
}

#[test]
fn a_failure_is_saved_short_and_replayed_from_its_file() {
    let bad = format!("{UBI}[cuts]\noperations = 200\nknown_bad = 'erase-before-change'\n");
    let bad = file("cuts-case.toml", &bad);
    let case = file("cuts-saved.toml", "");
    let image = file("cuts-saved.bin", "");
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).expect("text");
    let refused = |output: &Output, words: &str| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(words), "no `{words}` in {error}");
    };
    let save = ["--save", case.to_str().unwrap()];
    refused(&cuts(&bad, &save), "cuts-saved.toml: found a file");
    let saved = cuts(&bad, &[&save[..], &["--force", "--seed", "3"]].concat());
    assert_eq!(saved.status.code(), Some(1));
    let hint = format!("saved, with 1 operation: nandlab cuts --replay {}\n", case.display());
    assert!(text(&saved).ends_with(&hint), "{}", text(&saved));

    let replay = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.args(["cuts", "--replay", case.to_str().unwrap()]).args(args).output().expect("nandlab runs")
    };
    let replayed = replay(&["--flash", image.to_str().unwrap(), "--force"]);
    assert_eq!(replayed.status.code(), Some(1), "{replayed:?}");
    let told = text(&replayed);
    assert!(told.starts_with("operation 0: create ") && told.contains("broke a promise"), "{told}");
    let left = std::fs::read(&image).expect("what the cut left");
    assert!(left.len() == 96 * 8192 && left.starts_with(b"UBI#"), "{} bytes", left.len());

    let whole = std::fs::read_to_string(&case).unwrap();
    assert!(whole.contains("erase-before-change") && whole.contains("\"seed\""), "{whole}");
    for (edited, words) in [
        (whole.replace("cuts-case/1", "cuts-case/9"), "its schema is \"nandlab/cuts-case/9\""),
        (whole.replace("create ", "remove "), "draws another workload"),
        (whole.replace("operations = 200", "operation = 200"), "did you mean `cuts.operations`?"),
        (UBI.to_owned(), "it is no case of `nandlab cuts`"),
    ] {
        assert_ne!(edited, whole, "{words}");
        std::fs::write(&case, edited).unwrap();
        refused(&replay(&[]), words);
    }
    std::fs::write(&case, b"UBI#\xff").unwrap();
    refused(&replay(&[]), "give a file that --save wrote");
}

#[test]
fn cuts_are_selected_by_time_by_chance_and_ever_wider_apart() {
    let drive =
        file("cuts-select.toml", &format!("{DRIVE}[cuts]\noperations = 120\nknown_bad = 'forget-erase-counts'\n"));
    let selected = |args: &[&str]| {
        let document = json(&cuts(&drive, &[args, &["--json"]].concat()));
        let failures = document["failures"].as_array().unwrap().clone();
        let at: Vec<u64> = failures.iter().map(|failure| failure["at"].as_u64().unwrap()).collect();
        (document["cuts"].as_u64().unwrap(), at)
    };
    assert_eq!(selected(&["--random", "20"]).0, 20);
    assert_eq!(selected(&["--random", "20"]), selected(&["--random", "20"]));
    assert_ne!(selected(&["--random", "20"]).1, selected(&["--random", "20", "--seed", "2"]).1);
    assert!((10..=20).contains(&selected(&["--log", "20"]).0));
    // One operation, with each of the three tears; a later one for a later time.
    let (early, late) = (selected(&["--time", "1ms"]), selected(&["--time", "20ms"]));
    assert_eq!((early.0, late.0), (3, 3));
    assert_ne!(early.1, late.1);
    assert_eq!(selected(&["--time", "1ms", "--time", "20ms"]).0, 6);

    let ubi = file("cuts-select-ubi.toml", &format!("{UBI}[cuts]\noperations = 20\n"));
    for (args, words) in [
        (["--time", "1ms"], "no operation is under way at these times"),
        (["--time", "1"], "a number and a unit"),
        (["--flash", "x"], "give --at or --replay too"),
        (["--cause", "gc"], "no operation of the workload is done for gc"),
        (["--cause", "scrubbing"], "expected one of host, header, layout"),
    ] {
        let output = cuts(&ubi, &args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(words), "no `{words}` in {error}");
    }
}
