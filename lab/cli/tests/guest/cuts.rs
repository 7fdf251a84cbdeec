//! Power cuts of Linux in the guest: a few on each file system, of which `make thorough` makes 250, and a twin whose
//! device lies, which must be caught.

use std::path::Path;

use serde_json::Value;

use super::{Command, TOP, fresh, json, nandlab, text};

/// Cuts of each file system.
const CUTS: &str = "6";
/// Cuts of each twin.
const TWINS: &str = "4";

/// Cuts power under an experiment's guest, and under the same one on a device with the known-bad `lie`.
#[track_caller]
fn hold(file: &str, fs: &str, lie: &str) {
    hold_with(file, fs, lie, &[]);
}

/// As [`hold`], with more keys.
#[track_caller]
fn hold_with(file: &str, fs: &str, lie: &str, sets: &[&str]) {
    let dir = fresh(&format!("cuts-{fs}"));
    let file = format!("{TOP}/experiments/{file}");
    let fs = format!("guest.fs.kind=\"{fs}\"");
    let sets: Vec<&str> = [&*fs].iter().chain(sets).flat_map(|&set| ["--set", set]).collect();
    let found = json(&dir, &[&["cuts", &file, "--count", CUTS, "--json"], &*sets].concat());
    assert!(found["cuts"].as_u64().unwrap() >= CUTS.parse().unwrap(), "{found}");
    assert_eq!(found["failed"], 0, "{found}");

    let lie = format!("cuts.known_bad=\"{lie}\"");
    let found = caught(&dir, &[&["cuts", &file, "--set", &lie, "--count", TWINS, "--json"], &*sets].concat());
    // The device loses what it holds whenever power fails, but not every cut comes when it holds a promise.
    assert!(2 * found["failed"].as_u64().unwrap() >= found["cuts"].as_u64().unwrap(), "{found}");
}

/// What cuts of a known-bad device say, which must be caught.
#[track_caller]
fn caught(dir: &Path, args: &[&str]) -> Value {
    let said = nandlab(dir, args);
    assert_eq!(said.status.code(), Some(1), "{}{}", text(&said.stdout), text(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
}

#[test]
fn ext4_keeps_what_fsync_promised_unless_a_flush_lies() {
    hold("cuts-guest-ext4.toml", "ext4", "flush-at-once");
}

#[test]
fn ext2_keeps_what_fsync_promised_once_e2fsck_repaired_it_unless_a_flush_lies() {
    hold("cuts-guest-ext4.toml", "ext2", "flush-at-once");
}

#[test]
fn ext3_keeps_what_fsync_promised_unless_a_flush_lies() {
    hold("cuts-guest-ext4.toml", "ext3", "flush-at-once");
}

#[test]
fn nilfs2_keeps_what_fsync_promised_unless_a_flush_lies() {
    hold_with("cuts-guest-ext4.toml", "nilfs2", "flush-at-once", &["guest.fs.mkfs=\"-B 16\""]);
}

#[test]
#[ignore = "needs Linux 6.1, which `make thorough` builds"]
fn reiserfs_keeps_what_fsync_promised_unless_a_flush_lies() {
    let sets = ["guest.linux=\"6.1\"", "ssd.blocks=120"];
    hold_with("cuts-guest-ext4.toml", "reiserfs", "flush-at-once", &sets);
}

#[test]
fn vfat_keeps_a_renamed_file_only_when_directories_are_synchronous() {
    let file = format!("{TOP}/experiments/cuts-guest-ext4.toml");
    hold_with("cuts-guest-ext4.toml", "vfat", "flush-at-once", &["guest.fs.mount=\"dirsync\""]);
    // Without, fsync of the file and of its directory leaves the renamed entry with a length of 0 on the drive.
    let args = ["cuts", &file, "--set", "guest.fs.kind=\"vfat\"", "--count", TWINS, "--json"];
    let found = caught(&fresh("cuts-vfat-plain"), &args);
    let empty = "has d41d8cd98f00b204e9800998ecf8427e, promised";
    assert!(found["failures"].to_string().contains(empty), "{found}");
}

#[test]
fn xfs_keeps_what_fsync_promised_unless_a_flush_lies() {
    hold("cuts-guest-xfs.toml", "xfs", "flush-at-once");
}

#[test]
fn btrfs_keeps_what_fsync_promised_unless_a_flush_lies() {
    hold("cuts-guest-xfs.toml", "btrfs", "flush-at-once");
}

#[test]
fn f2fs_keeps_what_fsync_promised_unless_a_flush_lies() {
    hold("cuts-guest-xfs.toml", "f2fs", "flush-at-once");
}

#[test]
fn ubifs_keeps_what_fsync_promised_unless_programs_are_held_back() {
    hold("cuts-guest-ubifs.toml", "ubifs", "program-at-once");
}

#[test]
fn jffs2_keeps_what_fsync_promised_unless_programs_are_held_back() {
    hold("cuts-guest-jffs2.toml", "jffs2", "program-at-once");
}

#[test]
fn jffs2_finds_its_clean_marker_beside_a_page_that_ecc_gives_up() {
    let dir = fresh("cuts-oob");
    let file = format!("{TOP}/experiments/cuts-guest-jffs2.toml");
    let said = nandlab(&dir, &["cuts", &file, "--at", "380"]);
    let story = text(&said.stdout);
    assert!(story.contains("at offset 0; left: random-bits; ECC sees it"), "the cut is another one: {story}");
    assert!(said.status.success(), "{story}");
}

#[test]
fn one_cut_has_a_story_and_leaves_an_image_that_e2fsck_mends() {
    let dir = fresh("cut");
    let file = format!("{TOP}/experiments/cuts-guest-ext4.toml");
    let said = nandlab(&dir, &["cuts", &file, "--at", "500", "--flash", "cut.img"]);
    let story = text(&said.stdout);
    assert!(said.status.success() && story.contains("power on: ") && story.contains("Linux boots"), "{story}");
    let tool = |name: &str, args: &[&str]| {
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
        Command::new(name).args(args).current_dir(&dir).env("PATH", path).output().unwrap()
    };
    let head = text(&tool("dumpe2fs", &["-h", "cut.img"]).stdout);
    assert!(head.contains("needs_recovery"), "mounted when power was cut: {head}");
    // The journal mends all but the free counts of the superblock, which Linux writes at the unmount only.
    let said = text(&tool("e2fsck", &["-fy", "cut.img"]).stdout);
    assert!(said.contains("recovering journal"), "{said}");
    let questions: Vec<_> = said.lines().filter(|line| line.contains('(')).collect();
    let free = |line: &&str| line.starts_with("Free ") || line.starts_with("cut.img: ");
    assert!(questions.iter().all(free) && !said.contains("/lost+found"), "{said}");
    assert_eq!(tool("e2fsck", &["-fn", "cut.img"]).status.code(), Some(0));
}

#[test]
fn the_experiment_of_the_lying_drive_is_caught() {
    let dir = fresh("cuts-lying");
    let lying = format!("{TOP}/experiments/cuts-guest-ext4-lying-flush.toml");
    let found = caught(&dir, &["cuts", &lying, "--count", "3", "--json"]);
    assert_eq!(found["failed"], found["cuts"], "{found}");
}
