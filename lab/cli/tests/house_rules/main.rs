//! The house rules as tests: which crate may use which, how long a file may be, what a file may not contain.
//!
//! `rules.rs` has each rule as a function, tested with a bad sample; this file applies them to the tree.

mod rules;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Root directory of the tree.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("lab/cli is two below").to_owned()
}

/// Files tracked by git or not ignored: path from the root, and contents.
fn tree() -> Vec<(String, Vec<u8>)> {
    let listed = Command::new("git")
        .current_dir(top())
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .expect("git starts: it is in the package git");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    let read = |name: &str| Some((name.to_owned(), fs::read(top().join(name)).ok()?));
    let mut files: Vec<_> = names.split_terminator('\0').filter_map(read).collect();
    files.sort();
    files.dedup();
    assert!(files.len() > 100, "only {} files found", files.len());
    files
}

fn metadata() -> Value {
    let told = Command::new(env!("CARGO"))
        .current_dir(top())
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .expect("cargo starts: it runs this test");
    assert!(told.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&told.stderr));
    serde_json::from_slice(&told.stdout).expect("cargo writes JSON")
}

fn text(name: &str) -> String {
    fs::read_to_string(top().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[track_caller]
fn hold(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n  {}", broken.join("\n  "));
}

#[test]
fn crates_depend_only_along_the_arrows() {
    hold(
        "a stack crate depends on sim alone, runner on the stack, cuts and study on runner, cli on all, nothing on cli",
        &rules::arrows(&metadata()),
    );
}

#[test]
fn every_dependency_is_used() {
    let sources: Vec<(String, String)> = tree()
        .into_iter()
        .filter(|(name, _)| name.ends_with(".rs"))
        .map(|(name, bytes)| (name, String::from_utf8_lossy(&bytes).into_owned()))
        .collect();
    hold("a dependency that no source names goes", &rules::unused_dependencies(&metadata(), &top(), &sources));
}

#[test]
fn files_stay_short() {
    hold("a source file has at most 800 lines", &rules::long_files(&tree()));
}

#[test]
fn no_file_tells_where_it_was_written() {
    hold("no machine's paths and no registry's hosts in files", &rules::traces(&tree()));
}

#[test]
fn no_source_file_is_a_drawer() {
    let names: Vec<_> = tree().into_iter().map(|(name, _)| name).collect();
    hold("utils, common and misc are no names", &rules::drawers(&names));
}

#[test]
fn the_folder_is_the_policy() {
    let names: Vec<_> = tree().into_iter().map(|(name, _)| name).collect();
    hold("the bans stand above the stack, and nothing below lifts them", &rules::bans(&text("clippy.toml"), &names));
    let sources = tree();
    hold("no source of the stack excuses itself from a ban", &rules::excuses(&sources));
}

/// Every `Cargo.toml`: path and text.
fn manifests() -> Vec<(String, String)> {
    let files = tree().into_iter().filter(|(name, _)| name == "Cargo.toml" || name.ends_with("/Cargo.toml"));
    files.map(|(name, bytes)| (name, String::from_utf8_lossy(&bytes).into_owned())).collect()
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let mut manifests = manifests();
    manifests.retain(|(name, _)| name != "Cargo.toml");
    hold("[lints] workspace = true in every manifest", &rules::lints(&manifests));
}

#[test]
fn locked_packages_name_no_mirror() {
    for lock in ["Cargo.lock", "web/package-lock.json"] {
        hold("a lock file names packages, not where they were fetched", &rules::lock(lock, &text(lock)));
    }
}
