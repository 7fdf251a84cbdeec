//! `nandlab parts` as a user runs it, and the built-in list compared with the folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use runner::parts::FILES;
use serde_json::Value;

fn parts(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).arg("parts").args(args).output().expect("nandlab runs")
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(&parts(&[args, &["--json"]].concat()))).expect("one JSON document")
}

/// A directory with one file.
fn dir(name: &str, text: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).expect("the temporary directory can be written");
    std::fs::write(dir.join("mine.toml"), text).expect("the temporary directory can be written");
    dir
}

const MINE: &str = "name = 'mine'\ntitle = 'My drive'\n[sources]\nsheet = 'My sheet, p. 3'\n[ssd]\nchannels = { value = 4, source = 'sheet' }\n";

#[test]
fn every_file_of_the_folder_is_embedded_as_it_is() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../parts");
    let mut found = Vec::new();
    for side in ["drive", "nand"] {
        for entry in std::fs::read_dir(top.join(side)).expect("the folder is there") {
            let path = entry.expect("it can be listed").path();
            let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
            found.push((format!("{side}/{name}"), std::fs::read_to_string(&path).expect("it is text")));
        }
    }
    found.sort();
    let mut embedded: Vec<_> = FILES.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    embedded.sort();
    assert!(found.len() >= 49);
    assert_eq!(embedded, found);
}

#[test]
fn all_parts_are_listed_and_one_is_shown_with_its_provenance() {
    let list = text(&parts(&[]));
    assert!(list.contains("K9F1G08U0D") && list.contains("970-evo") && list.lines().count() == 1 + FILES.len());
    let shown = text(&parts(&["970-evo"]));
    for part in
        ["also called nvme-tlc", "calibrated: 50,000 random writes", "recalled: the spread", "from the drive `base`"]
    {
        assert!(shown.contains(part), "{shown}");
    }
    assert_eq!(json(&[])["parts"].as_array().map(Vec::len), Some(FILES.len()));
    let document = json(&["nvme-tlc"]);
    assert_eq!(document["name"], "970-evo");
    let value = |key: &str| document["values"].as_array().unwrap().iter().find(|it| it["key"] == key).unwrap().clone();
    assert_eq!(value("ssd.cache.mib")["provenance"], "recalled");
    assert_eq!(value("ssd.timing.read_us")["value"], serde_json::json!([52.0, 58.0, 64.0]));
}

#[test]
fn a_part_of_one_s_own_stands_beside_the_others() {
    let dir = dir("parts-good", MINE);
    let document = json(&["mine", "--parts", dir.to_str().unwrap()]);
    assert_eq!(document["values"][0]["text"], "My sheet, p. 3");
    assert!(document["from_base"].as_array().unwrap().len() > 30);
}

#[test]
fn a_wrong_part_names_file_and_key() {
    for (name, from, to, key) in [
        (
            "parts-key",
            "channels",
            "chanels",
            "ssd.chanels: found an unknown key, expected a known one; did you mean `ssd.channels`?",
        ),
        ("parts-type", "value = 4", "value = 'four'", "ssd.channels: found four, expected an integer of at least 1"),
        ("parts-source", "source = 'sheet'", "source = 'shet'", "one of sheet, recalled"),
        ("parts-bare", "{ value = 4, source = 'sheet' }", "4", "ssd.channels: found 4 without a source"),
        ("parts-name", "'mine'", "'660p'", "name: found \"660p\", which drive/660p.toml has"),
    ] {
        let dir = dir(name, &MINE.replace(from, to));
        let output = parts(&["--parts", dir.to_str().unwrap()]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("mine.toml: ") && error.contains(key), "{name}: {error}");
    }
    let output = parts(&["970-evoo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `970-evo`?"));
}

#[test]
fn an_experiment_runs_on_a_part_of_one_s_own() {
    let parts = dir("parts-run", MINE);
    let experiment =
        dir("parts-experiment", "title = 't'\n[ssd]\npart = 'MINE'\n[workload]\nrequests = 10\n").join("mine.toml");
    let nandlab =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_nandlab")).args(args).output().expect("nandlab runs");
    let (file, own) = (experiment.to_str().unwrap(), parts.to_str().unwrap());
    let found: Value =
        serde_json::from_str(&text(&nandlab(&["run", file, "--json", "--parts", own]))).expect("one JSON document");
    assert_eq!((&found["experiment"]["ssd"]["channels"], &found["experiment"]["ssd"]["ways"]), (&4.into(), &4.into()));
    for command in ["run", "cuts", "identify"] {
        let output = nandlab(&[command, file]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("key `ssd.part`: found `MINE`") && error.contains("--parts DIR"), "{error}");
    }
}

#[test]
fn a_drive_that_cannot_be_built_is_refused_where_it_is_read() {
    let dir =
        dir("parts-built", &MINE.replace("channels = { value = 4", "over_provisioning_percent = { value = 0.001"));
    let output = parts(&["--parts", dir.to_str().unwrap()]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("mine.toml: ssd.over_provisioning_percent: found"), "{error}");
}
