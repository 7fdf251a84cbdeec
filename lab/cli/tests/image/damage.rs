//! Damaged dumps: each gets a clear error.

use super::support::{Bench, noise, with_oob};

const PEB: usize = 128 << 10;
const RAW_PEB: usize = 64 * (2048 + 64);

#[test]
fn a_dump_with_oob_is_read_without_it() {
    let bench = Bench::with_image("damage-oob");
    bench.put("oob.bin", with_oob(&bench.get("u.ubi"), 2048, &[0xff; 64]));
    let ran = bench.run("info oob.bin").ended(0);
    assert!(ran.stdout.contains("this dump contains OOB of 64 bytes per 2048-byte page"), "{}", ran.stdout);
    bench.run("check oob.bin").ended(0);
    let [plain, oob] = ["u.ubi", "oob.bin"].map(|file| bench.run(&format!("ls {file}")).ended(0).stdout);
    assert_eq!(plain, oob);
    let [plain, oob] = ["u.ubi", "oob.bin"].map(|file| bench.run(&format!("wear {file}")).ended(0).stdout);
    assert_eq!(plain, oob);
}

#[test]
fn bad_blocks_are_named() {
    let bench = Bench::with_image("damage-bad");
    // Two more PEBs: one is marked bad in the OOB, one reads 0x00.
    bench.change(|bytes| bytes.extend([vec![0xff; PEB], vec![0; PEB]].concat()));
    bench.put("oob.bin", with_oob(&bench.get("u.ubi"), 2048, &[0xff; 64]));
    let mut dump = bench.get("oob.bin");
    dump[7 * RAW_PEB + 2048] = 0;
    bench.put("oob.bin", dump);
    let ran = bench.run("info oob.bin").ended(0);
    for expected in ["2 bad", "PEB 7: bad: marker 0x00 in the OOB of page 0", "PEB 8: bad: every byte is 0x00"] {
        assert!(ran.stdout.contains(expected), "{}\nexpected {expected}", ran.stdout);
    }
    let ran = bench.run("check oob.bin").ended(0);
    assert!(ran.stdout.contains("note[bad-peb] PEB 7 offset 0 (byte 946176): marked bad: 0x00 in the OOB of page 0"));
    let json = bench.run("info oob.bin --json").ended(0).json();
    assert_eq!((&json["pebs"]["bad"], &json["lost_pebs"][0]["peb"]), (&2.into(), &7.into()));
}

#[test]
fn a_cut_dump_says_how_much_is_missing() {
    let bench = Bench::with_image("damage-cut");
    bench.change(|bytes| bytes.truncate(bytes.len() - 5000));
    let ran = bench.run("info u.ubi").ended(0);
    assert!(ran.stdout.contains("126072 bytes of PEB 6 are there, 5000 bytes are missing"), "{}", ran.stdout);
    assert!(ran.stdout.contains("rootfs"), "info goes on with what is whole: {}", ran.stdout);
    let ran = bench.run("check u.ubi").ended(1);
    let expected = "error[truncated] PEB 6 offset 126072 (byte 912504): the dump ends inside PEB 6, after 126072 \
                    of its bytes: 5000 bytes are missing";
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    let ran = bench.run("extract u.ubi -o out --volume rootfs").ended(0);
    assert!(ran.stderr.contains("truncated"), "{}", ran.stderr);
}

#[test]
fn headers_that_lie_are_refused_with_their_place() {
    let bench = Bench::with_image("damage-lie");
    bench.change(|bytes| {
        for peb in bytes.chunks_mut(PEB) {
            peb[16..24].copy_from_slice(&[0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0x10]);
            let sum = ubi::media::crc(&peb[..60]).to_be_bytes();
            peb[60..64].copy_from_slice(&sum);
        }
    });
    for command in ["info", "ls", "check", "wear", "extract", "map", "pebs"] {
        let expected = "u.ubi: EC headers put the VID header at 4294967280 and data at 16, expected both inside a \
                        PEB of 131072 bytes";
        bench.run(&format!("{command} u.ubi")).refused(expected);
    }
}

#[test]
fn what_is_not_ubi_is_refused_by_every_command() {
    let bench = Bench::new("damage-random");
    bench.put("random.bin", noise(1 << 20, 7));
    bench.put("empty.bin", []);
    bench.put("erased.bin", vec![0xff; PEB]);
    for command in ["info", "ls", "check", "wear", "extract", "map", "pebs", "compare erased.bin", "info --json"] {
        if command.starts_with("compare") {
            bench.run(&format!("{command} random.bin")).refused("erased.bin: found only 0xFF");
            bench.run(&format!("{command} /dev/zero")).refused("/dev/zero: found a device or a pipe");
            continue;
        }
        bench.run(&format!("{command} random.bin")).refused("random.bin: found other data and no \"UBI#\" magic");
        bench.run(&format!("{command} empty.bin")).refused("empty.bin: found 0 bytes, expected a UBI image");
        bench.run(&format!("{command} erased.bin")).refused("erased.bin: found only 0xFF");
        bench.run(&format!("{command} nope.bin")).refused("nope.bin: no such file");
        bench.run(&format!("{command} .")).refused(".: found a directory");
        bench.run(&format!("{command} /dev/zero")).refused("/dev/zero: found a device or a pipe");
    }
}

#[test]
fn a_wrong_peb_size_is_refused() {
    let bench = Bench::with_image("damage-given");
    bench
        .run("info u.ubi --peb-size 100000")
        .refused("PEB size 100000 was given, but EC headers are 131072 bytes apart");
    bench.run("info u.ubi --peb-size 1").refused("PEB size 1 was given, expected 512 bytes to 16 MiB");
    bench.run("info u.ubi --peb-size 128KiB --oob-size 0 --page-size 2048").ended(0);
    bench.run("info u.ubi --offset 9GiB").refused("found 917504 bytes, expected more than --offset 9663676416");
}

#[test]
fn a_partition_inside_a_larger_dump_is_read_from_its_offset() {
    let bench = Bench::with_image("damage-offset");
    bench.change(|bytes| *bytes = [noise(3 * PEB, 9), bytes.clone(), vec![0xff; 100]].concat());
    bench.change(|bytes| bytes[5 * PEB + 16] ^= 1);
    let length = 7 * PEB;
    let ran = bench.run(&format!("check u.ubi --offset {} --length {length}", 3 * PEB)).ended(1);
    assert!(ran.stdout.contains("PEB 2 offset 0 (byte 655360)"), "{}", ran.stdout);
}

#[test]
fn a_check_that_finds_an_error_fails() {
    let bench = Bench::with_image("damage-check");
    let ran = bench.run("check u.ubi").ended(0);
    assert!(ran.stdout.ends_with("u.ubi: 0 errors, 0 warnings, 1 note\n"), "{}", ran.stdout);
    bench.change(|bytes| bytes[3 * PEB + 2048 + 30] ^= 1);
    let ran = bench.run("check u.ubi").ended(1);
    assert!(
        ran.stdout.contains("error[vid-header] PEB 3 offset 2048 (byte 395264): VID header: CRC 0x"),
        "{}",
        ran.stdout
    );
    let json = bench.run("check u.ubi --json").ended(1).json();
    assert_eq!((&json["errors"], &json["findings"][0]["class"]), (&1.into(), &"vid-header".into()));
    assert_eq!(json["findings"][0]["file_offset"], 395_264);
}

#[test]
fn bad_usage_is_refused() {
    let bench = Bench::new("damage-usage");
    for usage in ["", "inf", "info", "info a b", "wear --width 3 a", "pack", "info a --peb-size 12XB"] {
        bench.run(usage).ended(2);
    }
}
