//! Linux as a guest, as a user runs it. The kernel is the one that `nandlab guest build` made.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[path = "guest/cuts.rs"]
mod cuts;
#[path = "guest/file_systems.rs"]
mod file_systems;
#[path = "guest/image.rs"]
mod image;
#[allow(dead_code, reason = "the example `kernel_ubi` uses the rest")]
#[path = "guest/kernel_ubi/mod.rs"]
mod kernel_ubi;
#[path = "guest/loads.rs"]
mod loads;
#[path = "guest/logs.rs"]
mod logs;
#[path = "guest/mtd.rs"]
mod mtd;
#[path = "guest/pack.rs"]
mod pack;
#[path = "guest/turns.rs"]
mod turns;
#[path = "guest/ubiblock.rs"]
mod ubiblock;
#[path = "guest/ubifs.rs"]
mod ubifs;
#[path = "guest/written.rs"]
mod written;
#[path = "guest/written_jffs2.rs"]
mod written_jffs2;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    command.current_dir(dir).args(args);
    command
}

fn nandlab(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a run that succeeds says with `--json`.
#[track_caller]
fn json(dir: &Path, args: &[&str]) -> Value {
    let said = nandlab(dir, args);
    assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
}

fn experiment(dir: &Path, name: &str, device: &str, fs: &str, job: &str) -> String {
    let file = format!("{name}.toml");
    let title =
        format!("title = 'x'\n{device}\n[guest]\nmemory_mib = 96\nfs = {{ kind = '{fs}' }}\njob = '''\n{job}\n'''\n");
    std::fs::write(dir.join(&file), title).unwrap();
    file
}

/// A drive of 32 MiB.
const DRIVE: &str = "[ssd]\nchannels = 2\nways = 1\ndies = 1\nplanes = 1\nblocks = 80\npages = 64\npage_kib = 4.0\nmulti_plane = false\n\
    over_provisioning_percent = 25\n[ssd.cache]\npolicy = 'lru'\nmib = 1.0\n[ssd.front]\nprotocol = 'nvme'\ndepth = 8\nwrite_cache = true";
/// A flash of 16 MiB.
const FLASH: &str = "[nand]\npart = 'MT29F1G08ABAFA'\npebs = 128\ndelays = 'part'";

#[test]
fn contents_beside_the_flash_change_no_result() {
    let dir = fresh("contents");
    // More is written than the drive holds, so that blocks are collected, and a second mount reads what was trimmed too.
    let job = "for i in 1 2 3 4 5 6; do head -c 4000000 /dev/urandom >f$((i % 3)); sync; done; rm f1; fstrim . || exit 3\n\
        cd /; umount /mnt; mount /dev/nandlab0 /mnt && cat /mnt/f0 /mnt/f2 | md5sum; fallocate -p -o 4096 -l 65536 /mnt/f2; md5sum /mnt/f2";
    let file = experiment(&dir, "drive", DRIVE, "ext4", job);
    let run = |store: &str, from: Option<&str>| {
        let (set, image, trace) = (format!("ssd.store='{store}'"), format!("{store}.img"), format!("{store}.ntrace"));
        let mut args = vec!["run", &file, "--set", &set, "--flash", &image, "--trace", &trace, "--force", "--json"];
        args.extend(from.iter().flat_map(|from| ["--from", from]));
        let mut found = json(&dir, &args);
        found.as_object_mut().unwrap().remove("fingerprint");
        assert_eq!(found["experiment"]["ssd"].as_object_mut().unwrap().remove("store"), Some(store.into()));
        (found, std::fs::read(dir.join(&image)).unwrap(), std::fs::read(dir.join(&trace)).unwrap())
    };
    let (beside, inside) = (run("tags", None), run("bytes", None));
    assert_eq!(beside.0, inside.0);
    assert!(beside.1 == inside.1, "the images differ");
    assert!(beside.2 == inside.2, "the traces differ");
    assert_eq!(beside.0["guest"]["exit"], 0, "{}", beside.0["guest"]["output"]);
    // From what is on it now.
    std::fs::write(dir.join("old.img"), &beside.1).unwrap();
    let (beside, inside) = (run("tags", Some("old.img")), run("bytes", Some("old.img")));
    assert!(beside == inside, "they differ from an image");
}

#[test]
fn a_graph_of_a_flash_names_the_processes_that_had_it_work_and_sums_to_its_latencies() {
    let dir = fresh("flame");
    let job = "for i in 1 2 3 4 5 6 7 8; do head -c 900000 /dev/urandom >f$i; sync; rm -f f$((i - 2)); done";
    let file = experiment(&dir, "flash", FLASH, "ubifs", job);
    let found = json(&dir, &["run", &file, "--json"]);
    assert_eq!(json(&dir, &["run", &file, "--json", "--flame", "x.folded"]), found);
    let folded = std::fs::read_to_string(dir.join("x.folded")).unwrap();
    let of = |id: &str| {
        let metrics = found["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["id"] == id).unwrap()["value"].as_f64().unwrap()
    };
    for op in ["read", "program", "erase"] {
        let lines = folded.lines().filter(|line| line.split(';').nth(1) == Some(op));
        let ns: f64 = lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum();
        // The mean is that of a histogram of three digits.
        let latencies = 1e3 * of(&format!("{op}.mean_us")) * of(&format!("{op}.count"));
        assert!((ns / latencies - 1.0).abs() < 1e-3, "{op}: {ns} and {latencies}\n{folded}");
    }
    // UBI's thread erases, and whoever writes has the pages programmed.
    assert!(folded.contains("ubi_bgt0d;erase;") && folded.contains(";program;host;program "), "{folded}");
}

#[test]
fn a_run_on_a_drive_repeats_to_the_byte() {
    let dir = fresh("drive");
    let job =
        "for i in 1 2 3 4 5; do head -c 30000 /dev/urandom >f$i; sync f$i; echo done $i >/dev/nandlab-mark; done; ls";
    let file = experiment(&dir, "drive", DRIVE, "ext4", job);
    let (first, second) = (
        json(&dir, &["run", &file, "--flash", "a.img", "--trace", "a.ntrace", "--json"]),
        json(&dir, &["run", &file, "--flash", "b.img", "--trace", "b.ntrace", "--json"]),
    );
    assert_eq!(first, second);
    let image = |name: &str| std::fs::read(dir.join(name)).unwrap();
    assert!(image("a.img") == image("b.img"), "the images differ");
    assert!(image("a.ntrace") == image("b.ntrace"), "the traces differ");
    let guest = &first["guest"];
    assert_eq!(guest["exit"], 0);
    assert_eq!(guest["output"], "f1\nf2\nf3\nf4\nf5\nlost+found\n");
    let marks: Vec<_> = guest["marks"].as_array().unwrap().iter().map(|mark| mark["text"].as_str().unwrap()).collect();
    assert_eq!(marks, ["done 1", "done 2", "done 3", "done 4", "done 5"]);
    assert!(guest["linux"].as_str().unwrap().starts_with("6.12."), "{guest}");
    // Another seed is another run: the random contents differ.
    json(&dir, &["run", &file, "--seed", "2", "--flash", "c.img", "--json"]);
    assert!(image("a.img") != image("c.img"));
    // The trace has what the run counted. Replayed on the same drive with the think time of its requests, it
    // takes as long.
    let info = json(&dir, &["trace", "info", "a.ntrace", "--json"]);
    let replayed = json(&dir, &["trace", "replay", "a.ntrace", "--on", &file, "--mode", "dependency", "--json"]);
    let requests: u64 = info["all"]["ops"].as_array().unwrap().iter().map(|op| op["requests"].as_u64().unwrap()).sum();
    assert_eq!((requests, &replayed["requests"]), (first["requests"].as_u64().unwrap(), &first["requests"]));
    let (recorded, again) = (info["all"]["duration_ns"].as_f64().unwrap(), replayed["virtual_ns"].as_f64().unwrap());
    // Four reads of what the first run wrote before its job find an empty drive, which answers at once.
    assert!((0.95..=1.0).contains(&(again / recorded)), "{again} ns for {recorded} ns");
    // e2fsck, not our own code, finds the image whole.
    let fsck = Command::new("e2fsck").args(["-fn", "a.img"]).current_dir(&dir).output().unwrap();
    assert!(fsck.status.success(), "{}{}", text(&fsck.stdout), text(&fsck.stderr));
    // The image starts another run, which mounts it.
    let again = experiment(&dir, "again", DRIVE, "ext4", "cat f3 | wc -c");
    let found = json(&dir, &["run", &again, "--from", "a.img", "--json"]);
    assert_eq!(found["guest"]["output"], "30000\n");
}

#[test]
fn linux_s_ubifs_on_our_nand_is_sound_by_our_check_and_goes_on_by_fastmap() {
    let dir = fresh("flash");
    let job = "for i in 1 2 3 4 5 6; do head -c 90000 /dev/urandom >f$((i % 4)); sync; done; md5sum f1";
    let file = experiment(&dir, "flash", FLASH, "ubifs", job);
    let first = json(&dir, &["run", &file, "--flash", "f.bin", "--ubi-log", "ubi.csv", "--json"]);
    assert_eq!(first["guest"]["exit"], 0);
    assert_eq!(json(&dir, &["run", &file, "--flash", "again.bin", "--ubi-log", "again.csv", "--json"]), first);
    let equal = |a: &str, b: &str| std::fs::read(dir.join(a)).unwrap() == std::fs::read(dir.join(b)).unwrap();
    assert!(equal("f.bin", "again.bin") && equal("ubi.csv", "again.csv"), "it does not repeat");
    let log = std::fs::read_to_string(dir.join("ubi.csv")).unwrap();
    let rows: Vec<Vec<&str>> = log.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "each row has the columns of the heading");
    let erasures = rows.iter().filter(|row| row[2] == "erase");
    let measured = first["metrics"].as_array().unwrap().iter().find(|metric| metric["id"] == "erase.count").unwrap();
    assert_eq!(erasures.clone().count() as f64, measured["value"].as_f64().unwrap());
    assert!(erasures.clone().any(|row| row[1] == "ubi_bgt0d"), "UBI's thread erases");
    // A LEB is 126,976 bytes: six files of 90,000 bytes need LEBs, and UBIFS writes its index and master.
    let written: u64 = rows.iter().filter(|row| row[2] == "write").map(|row| row[7].parse::<u64>().unwrap()).sum();
    assert!(written > 6 * 90_000, "{written} bytes");
    assert!(rows.iter().any(|row| row[2] == "map") && rows.iter().any(|row| row[2] == "unmap"));
    let checked = json(&dir, &["image", "check", "f.bin", "--json"]);
    assert_eq!((&checked["errors"], &checked["warnings"]), (&0.into(), &0.into()), "{checked}");
    assert_eq!(json(&dir, &["image", "info", "f.bin", "--json"])["fastmap"]["valid"], true);
    let again = experiment(&dir, "again", FLASH, "ubifs", "md5sum f1; dmesg | grep -o 'attached by fastmap'");
    let found = json(&dir, &["run", &again, "--from", "f.bin", "--json"]);
    let same = first["guest"]["output"].as_str().unwrap();
    assert_eq!(found["guest"]["output"].as_str().unwrap(), format!("{same}attached by fastmap\n"));
}

#[test]
fn a_shell_on_a_flash_of_ours_finds_it_attached_by_fastmap() {
    let dir = fresh("shell");
    let hello = format!("{TOP}/experiments/hello.toml");
    let ran = nandlab(&dir, &["run", &hello, "--set", "stop.virtual_s=5", "--flash", "f.bin"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let mut shell = command(&dir, &["guest", "shell", &hello, "--from", "f.bin"]);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let commands = b"ubiattach -m 0 >/dev/null\ndmesg | grep -ci 'ubi0 error'\ndmesg | grep -o 'attached by fastmap'\nubinfo /dev/ubi0 -a | grep -c Name\n";
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), commands).unwrap();
    let said = shell.wait_with_output().unwrap();
    let output = text(&said.stdout);
    assert!(output.starts_with("0\nattached by fastmap\n"), "{output}{}", text(&said.stderr));
}

#[test]
fn what_cannot_run_is_named_with_its_remedy() {
    let dir = fresh("errors");
    let file = experiment(&dir, "job", DRIVE, "none", "true");
    let mut no_kernel = command(&dir, &["run", &file]);
    let said = no_kernel.env("NANDLAB_CACHE", dir.join("empty")).output().unwrap();
    assert_eq!(said.status.code(), Some(3));
    assert!(text(&said.stderr).contains("build it: nandlab guest build --linux 6.12"), "{}", text(&said.stderr));

    let mut no_tools = command(&dir, &["guest", "build"]);
    let said = no_tools.env("NANDLAB_CACHE", dir.join("empty")).env("PATH", &dir).output().unwrap();
    assert_eq!(said.status.code(), Some(3));
    let error = text(&said.stderr);
    assert!(error.contains("found no make, gcc") && error.contains("flex bison bc"), "{error}");

    std::fs::write(dir.join("long.img"), vec![0; 64 << 20]).unwrap();
    let said = nandlab(&dir, &["run", &file, "--from", "long.img"]);
    assert!(!said.status.success());
    assert!(text(&said.stderr).contains("the image has 67108864 bytes, the device"), "{}", text(&said.stderr));

    let fails = experiment(&dir, "fails", DRIVE, "none", "echo last words; exit 9");
    let said = nandlab(&dir, &["run", &fails]);
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("the guest's job exited with 9"), "{}", text(&said.stderr));

    let said = nandlab(&dir, &["run", &file, "--set", "guest.setup='echo no such thing; false'"]);
    let error = text(&said.stderr);
    assert!(error.contains("the guest's setup failed") && error.contains("no such thing"), "{error}");
}

#[test]
fn a_guest_ends_with_its_nandlab() {
    let dir = fresh("killed");
    let file = experiment(&dir, "endless", DRIVE, "none", "echo ready; while :; do :; done");
    let mut run = command(&dir, &["run", &file]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut said = std::io::BufReader::new(run.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let children = |parent: u32| -> Vec<u32> {
        let processes =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let parent_of = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
        };
        processes.filter(|pid| parent_of(pid) == Some(parent)).collect()
    };
    let guests = children(run.id());
    assert_eq!(guests.len(), 1, "one process is the guest's kernel");
    let processes = children(guests[0]);
    run.kill().unwrap();
    run.wait().unwrap();
    let is_there = |pid: &u32| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    for _ in 0..100 {
        if !guests.iter().chain(&processes).any(is_there) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("still there: {guests:?} {processes:?}");
}
