//! A ubiblock under Linux: its ext4 on ours, and mainline's read-only ubiblock on what ours wrote.

use std::path::Path;

use super::{Command, TOP, experiment, fresh, json, nandlab, text};

/// A volume of 12 MiB on a flash of 16 MiB.
const DEVICE: &str = "[nand]\npart = 'MT29F1G08ABAFA'\npebs = 128\ndelays = 'part'\n[ubiblock]\ncache_lebs = 2";
const FLASH: &str = "[nand]\npart = 'MT29F1G08ABAFA'\npebs = 128\ndelays = 'part'";

fn sha256(dir: &Path, name: &str) -> String {
    text(&Command::new("sha256sum").arg(name).current_dir(dir).output().unwrap().stdout)[..64].to_owned()
}

fn tool(dir: &Path, name: &str, args: &[&str]) -> (Option<i32>, String) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let said = Command::new(name).args(args).current_dir(dir).env("PATH", path).output().unwrap();
    (said.status.code(), text(&said.stdout) + &text(&said.stderr))
}

/// Our ubiblock's sectors, as `linux` reads them by its own.
#[track_caller]
fn mainline_reads(linux: &str) {
    let dir = fresh(&format!("ubiblock-mainline-{linux}"));
    let job =
        "for i in 1 2 3 4 5 6 7; do head -c $((i * 31013)) /dev/urandom >f$i; sync f$i; done; rm f2; fstrim . || true";
    let file = experiment(&dir, "ours", DEVICE, "ext4", job);
    let found = json(&dir, &["run", &file, "--flash", "flash.bin", "--disk", "disk.img", "--json"]);
    assert_eq!((&found["kind"], &found["guest"]["exit"]), (&"ubiblock".into(), &0.into()));
    let (code, said) = tool(&dir, "e2fsck", &["-fn", "disk.img"]);
    assert_eq!(code, Some(0), "{said}");
    let bytes = std::fs::metadata(dir.join("disk.img")).unwrap().len();
    let ours = sha256(&dir, "disk.img");
    let read = "ubiattach -m 0 >/dev/null && ubiblock --create /dev/ubi0_0 && blockdev --getsize64 /dev/ubiblock0_0 && sha256sum </dev/ubiblock0_0";
    let file = experiment(&dir, "theirs", FLASH, "none", read);
    let set = format!("guest.linux=\"{linux}\"");
    let found = json(&dir, &["run", &file, "--set", &set, "--from", "flash.bin", "--json"]);
    let said = found["guest"]["output"].as_str().unwrap();
    assert_eq!(said, format!("{bytes}\n{ours}  -\n"), "Linux {linux}");
    // What a guest begins with is what another ended with.
    let file = experiment(&dir, "again", DEVICE, "ext4", "cat f7 | wc -c; test ! -e f2");
    let found = json(&dir, &["run", &file, "--from", "disk.img", "--json"]);
    assert_eq!(found["guest"]["output"].as_str().unwrap().trim(), "217091");
}

#[test]
fn mainline_reads_what_ours_wrote_sector_for_sector() {
    mainline_reads("6.12");
}

#[test]
#[ignore = "needs Linux 6.1, which `make thorough` builds"]
fn linux_6_1_reads_what_ours_wrote_sector_for_sector() {
    mainline_reads("6.1");
}

#[test]
fn a_run_repeats_and_records_requests() {
    let dir = fresh("ubiblock-run");
    let file = experiment(&dir, "ours", DEVICE, "vfat", "head -c 300000 /dev/urandom >a; sync; cat a | wc -c");
    let run = |trace: &str| json(&dir, &["run", &file, "--trace", trace, "--json"]);
    let (first, second) = (run("a.ntrace"), run("b.ntrace"));
    assert_eq!(first, second);
    assert!(std::fs::read(dir.join("a.ntrace")).unwrap() == std::fs::read(dir.join("b.ntrace")).unwrap());
    let info = nandlab(&dir, &["trace", "info", "a.ntrace"]);
    assert!(info.status.success(), "{}", text(&info.stderr));
}

#[test]
fn ext4_keeps_what_fsync_promised_on_an_atomic_ubiblock_and_not_on_one_that_unmaps_first() {
    let dir = fresh("cuts-ubiblock");
    let file = format!("{TOP}/experiments/cuts-guest-ubiblock.toml");
    let found = json(&dir, &["cuts", &file, "--count", "12", "--json"]);
    assert!(found["cuts"].as_u64().unwrap() >= 12 && found["failed"] == 0, "{found}");
    let said = nandlab(&dir, &["cuts", &file, "--set", "ubiblock.form=unmap-first", "--count", "12", "--json"]);
    assert_eq!(said.status.code(), Some(1), "{}{}", text(&said.stdout), text(&said.stderr));
}
