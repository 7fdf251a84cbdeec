//! Extraction: packed contents come back, and nothing else is written.

use std::process::Command;

use super::support::{Bench, noise, with_oob};
use sim::Seed;

const PEB: usize = 128 << 10;

#[test]
fn what_was_packed_comes_back() {
    let bench = Bench::with_image("extract-round");
    let oob = [&[0xff; 8][..], &[0xec; 56]].concat();
    bench.put("oob.bin", with_oob(&bench.get("u.ubi"), 2048, &oob));
    for (image, out) in [("u.ubi", "plain"), ("oob.bin", "oob")] {
        let ran = bench.run(&format!("extract {image} -o {out}")).ended(0);
        assert_eq!(ran.stderr.contains("contains OOB of 64 bytes per 2048-byte page"), image == "oob.bin");
        assert_eq!(bench.names(out), ["0-rootfs.img", "3-boot.img"]);
        assert!(bench.get(&format!("{out}/3-boot.img")) == bench.get("boot.bin"));
        let rootfs = bench.get(&format!("{out}/0-rootfs.img"));
        assert!(rootfs.starts_with(&bench.get("rootfs.bin")));
        assert_eq!(rootfs.len(), 3 * 126_976);
        assert!(rootfs[300_000..].iter().all(|&byte| byte == 0xff));
    }
}

/// An image by the real tool, with an alignment that leaves the end of each LEB unused.
#[test]
fn an_image_of_ubinize_comes_back() {
    let bench = Bench::new("extract-ubinize");
    bench.put("a.bin", noise(100_000, 5));
    bench.put("u.ini", "[a]\nmode=ubi\nimage=a.bin\nvol_id=7\nvol_type=static\nvol_name=a\nvol_alignment=3584\n");
    bench.ubinize("-p 16KiB -m 512 -o u.ubi u.ini").ended(0);
    bench.run("check u.ubi").ended(0);
    bench.run("extract u.ubi").ended(0);
    assert!(bench.get("7-a.img") == bench.get("a.bin"));
}

#[test]
fn one_volume_is_chosen_by_name_or_number() {
    let bench = Bench::with_image("extract-one");
    let ran = bench.run("extract u.ubi -o a --volume boot --json").ended(0).json();
    assert_eq!(
        (&ran["extracted"][0]["file"], &ran["extracted"][0]["bytes"]),
        (&"a/3-boot.img".into(), &130_000.into())
    );
    bench.run("extract u.ubi -o b --volume 0").ended(0);
    assert_eq!((bench.names("a"), bench.names("b")), (vec!["3-boot.img".to_owned()], vec!["0-rootfs.img".to_owned()]));
    bench.run("extract u.ubi --volume root").refused("found no volume \"root\", expected one of: rootfs, boot");
}

#[test]
fn nothing_is_overwritten_unasked() {
    let bench = Bench::with_image("extract-force");
    std::fs::create_dir(bench.dir.join("out")).unwrap();
    bench.put("out/3-boot.img", "mine");
    bench.run("extract u.ubi -o out").refused("out/3-boot.img: found a file of that name");
    assert_eq!(bench.names("out"), ["3-boot.img"]);
    bench.run("extract u.ubi -o out --force").ended(0);
    assert!(bench.get("out/3-boot.img") == bench.get("boot.bin"));
}

/// A link in the output directory is replaced, not followed.
#[test]
fn a_link_is_not_followed() {
    let bench = Bench::with_image("extract-link");
    bench.put("precious", "mine");
    std::fs::create_dir(bench.dir.join("out")).unwrap();
    std::os::unix::fs::symlink("../precious", bench.dir.join("out/3-boot.img")).unwrap();
    bench.run("extract u.ubi -o out --force").ended(0);
    assert_eq!(bench.get("precious"), b"mine");
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let bench = Bench::new("extract-names");
    bench.put("a.bin", noise(1000, 1));
    let names = ["../../etc/passwd", "/etc/passwd", "..", ".", "a\\b", "new\tline", "-rf", "\u{202e}gnp", "%2e%2e"];
    let volume =
        |(id, name): (usize, &&str)| format!("[v{id}]\nmode=ubi\nimage=a.bin\nvol_id={id}\nvol_name=\"{name}\"\n");
    bench.put("u.ini", names.iter().enumerate().map(volume).collect::<String>());
    bench.run("pack -p 16KiB -m 512 -o u.ubi u.ini").ended(0);
    let before = bench.names(".");
    let ran = bench.run("extract u.ubi -o out").ended(0);
    assert!(ran.stdout.contains("the volume is called \"../../etc/passwd\": what is unsafe in a file name became _"));
    let expected = [
        "0-.._.._etc_passwd.img",
        "1-_etc_passwd.img",
        "2-...img",
        "3-..img",
        "4-a_b.img",
        "5-new_line.img",
        "6--rf.img",
        "7-___gnp.img",
        "8-_2e_2e.img",
    ];
    assert_eq!(bench.names("out"), expected);
    let after: Vec<String> = bench.names(".").into_iter().filter(|name| name != "out").collect();
    assert_eq!(before, after);
}

/// The limit on the size of files kills the process in the middle of a volume.
#[test]
fn a_killed_extraction_leaves_no_file_under_its_name() {
    let bench = Bench::with_image("extract-killed");
    bench.put("rootfs.bin", noise(8 << 20, 4));
    bench.put("u.ini", "[v]\nmode=ubi\nimage=rootfs.bin\nvol_id=0\nvol_name=rootfs\n");
    bench.run("pack -p 128KiB -m 2048 -o u.ubi u.ini --force").ended(0);
    let script = format!("ulimit -f 4000; '{}' image extract u.ubi -o out", env!("CARGO_BIN_EXE_nandlab"));
    let status = Command::new("sh").args(["-c", &script]).current_dir(&bench.dir).output().unwrap().status;
    assert!(!status.success());
    assert!(!bench.dir.join("out/0-rootfs.img").exists());
}

#[test]
fn a_damaged_static_volume_is_refused_before_anything_is_written() {
    let bench = Bench::with_image("extract-damaged");
    bench.change(|bytes| bytes[5 * PEB + 4096 + 77] ^= 1);
    bench
        .run("extract u.ubi -o out")
        .refused("volume 3 is static and the data of LEB 0 (PEB 5) do not match their CRC");
    assert!(!bench.dir.join("out").exists());
    bench.run("extract u.ubi -o out --damaged").ended(0);
    assert_eq!(bench.get("out/3-boot.img").len(), 130_000);
}

/// Random damage: every command ends in order.
#[test]
fn damaged_images_end_in_order() {
    let bench = Bench::with_image("extract-random");
    let whole = bench.get("u.ubi");
    let mut rng = Seed(3).stream("test/damage");
    for round in 0..20 {
        let mut bytes = whole.clone();
        for _ in 0..30 {
            let at = rng.below(bytes.len() as u64 / PEB as u64) as usize * PEB + rng.below(8192) as usize;
            bytes[at] = rng.bits() as u8;
        }
        bytes.truncate(bytes.len() - rng.below(2) as usize * rng.below(3 * PEB as u64) as usize);
        bench.put("d.ubi", bytes);
        let commands =
            ["info", "ls", "check", "wear", "map", "pebs", "compare u.ubi", "extract -o out --force --damaged"];
        for command in commands {
            let ran = bench.run(&format!("{command} d.ubi"));
            assert!(matches!(ran.code, Some(0..=2)), "round {round}: {ran:#?}");
        }
    }
}
