//! One dialect: every command reads what `nandlab schema` describes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn nandlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).args(args).output().expect("nandlab runs")
}

fn tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_reference_page_is_what_the_schema_says() {
    let page = std::fs::read_to_string(tree("docs/format/experiment.md")).unwrap();
    let fresh = String::from_utf8(nandlab(&["schema", "--markdown"]).stdout).unwrap();
    assert!(page == fresh, "docs/format/experiment.md is out of date: run `make reference`");
}

#[test]
fn help_keys_lists_every_key_with_its_default() {
    let keys = String::from_utf8(nandlab(&["run", "--help-keys"]).stdout).unwrap();
    for line in ["ssd.ftl.gc\n", "nand.pebs\n", "cuts.mix.fua\n", "one of `greedy`"] {
        assert!(keys.contains(line), "{line}");
    }
}

/// Editors see that a key with a unit takes text too.
#[test]
fn the_json_schema_has_the_units_of_text() {
    let schema: serde_json::Value = serde_json::from_slice(&nandlab(&["schema"]).stdout).unwrap();
    let reference = |key: &str, kind: &str| {
        let node = key.split('.').fold(&schema, |node, part| {
            let mut table = node;
            while let Some(forms) = table["anyOf"].as_array() {
                table = &forms[0];
            }
            &table["properties"][part]
        });
        assert_eq!(node["anyOf"][1]["$ref"], format!("#/$defs/{kind}"), "{key}: {node}");
        assert!(node["description"].is_string(), "{key}");
    };
    reference("workload.block_bytes", "size");
    reference("ssd.cache.mib", "size");
    reference("stop.virtual_s", "time");
    reference("ssd.over_provisioning_percent", "share");
    for kind in ["size", "time", "share"] {
        assert!(schema["$defs"][kind]["pattern"].as_str().unwrap().starts_with("^[0-9]+"));
    }
}

/// A misspelt key or word is the same error in every command that reads an experiment.
#[test]
fn every_command_refuses_a_misspelt_key_and_a_wrong_word_alike() {
    let drive = tree("experiments/ssd-2008-random-write.toml").display().to_string();
    let trace = tree("lab/cli/tests/schema.rs").display().to_string();
    let commands: [Vec<&str>; 4] = [
        vec!["run", &drive],
        vec!["cuts", &drive],
        vec!["identify", &drive],
        vec!["trace", "replay", &trace, "--on", &drive],
    ];
    for command in commands {
        for (set, expected) in [
            ("ssd.chanels=2", "unknown key `ssd.chanels`; did you mean `ssd.channels`?"),
            ("ssd.ftl.gc=gredy", "key `ssd.ftl.gc`: found `gredy`, expected one of `greedy`, "),
        ] {
            let output = nandlab(&[&command[..], &["--set", set]].concat());
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{command:?}: {error}");
            assert!(error.contains(expected), "{command:?}: {error}");
        }
    }
}

#[test]
fn every_experiment_of_the_tree_asks_a_question_and_resolves() {
    let mut seen = 0;
    for entry in std::fs::read_dir(tree("experiments")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let experiment = runner::schema::Experiment::resolve(&text, &[]);
        let experiment = experiment.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let cuts = experiment.cuts.is_some();
        assert!(cuts || experiment.question.ends_with('?'), "{}", path.display());
        if !cuts {
            runner::run::Prepared::resolve(&text, &[]).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        seen += 1;
    }
    assert!(seen >= 20, "{seen}");
}
