//! Whole flashes and OOB. What `ubiformat` and `nanddump` write is in `tests/guest.rs`.

use super::support::{Bench, TWO_VOLUMES, noise, with_oob};

fn bench(name: &str) -> Bench {
    let bench = Bench::new(name);
    bench.put("rootfs.bin", noise(60_000, 1));
    bench.put("boot.bin", noise(30_000, 2));
    bench.put("u.ini", TWO_VOLUMES.replace("4MiB", "128KiB"));
    bench
}

#[test]
fn a_part_gives_the_sizes_and_an_old_dump_the_counters() {
    let bench = bench("whole-part");
    let ran = bench.run("pack --whole-flash K9F1G08U0E --pebs 40 -Q 1 u.ini -o f.bin --json").ended(0).json();
    assert_eq!((&ran["whole_flash"]["pebs"], &ran["whole_flash"]["counters"]), (&40.into(), &"zero".into()));
    assert_eq!(bench.get("f.bin").len(), 40 << 17);
    // With OOB, and a bad block by its mark.
    bench.run("convert f.bin oob.bin --to oob --part K9F1G08U0E --bad-blocks 7").ended(0);
    let ran =
        bench.run("pack --whole-flash K9F1G08U0E --pebs 40 --keep-ec oob.bin u.ini -o g.bin --json").ended(0).json();
    assert_eq!(ran["whole_flash"]["bad_pebs"], serde_json::json!([7]));
    assert_eq!((&ran["whole_flash"]["counters"], &ran["whole_flash"]["kept_counters"]), (&"own".into(), &39.into()));
    let wear = bench.run("wear g.bin --json").ended(0).json();
    let counters = wear["erase_counters"].as_array().unwrap();
    assert!(
        counters.iter().enumerate().all(|(peb, ec)| *ec == if peb == 7 { serde_json::Value::Null } else { 1.into() })
    );
    // `nanddump` pads or skips the block.
    bench.run("convert oob.bin raw.bin --to raw --part K9F1G08U0E").ended(0);
    let raw = bench.get("raw.bin");
    assert!(raw[7 << 17..8 << 17].iter().all(|&byte| byte == 0xff) && raw[8 << 17..] == bench.get("f.bin")[8 << 17..]);
    bench.run("convert oob.bin skip.bin --to raw --part K9F1G08U0E --bb skipbad").ended(0);
    assert!(bench.get("skip.bin") == [&raw[..7 << 17], &raw[8 << 17..]].concat());
    bench.run("convert oob.bin same.bin --to raw --bb dumpbad").ended(0);
    assert!(bench.get("same.bin") == bench.get("f.bin"), "the sizes of a UBI dump are seen");
}

#[test]
fn what_does_not_fit_is_refused() {
    let bench = bench("whole-refusals");
    let sizes = "-p 16KiB -m 512";
    bench.run(&format!("pack {sizes} -Q 1 u.ini -o i.ubi")).ended(0);
    bench.run("pack -p 16KiB -m 512 -s 256 -Q 1 u.ini -o sub.ubi").ended(0);
    bench.put("torn.ubi", {
        let mut bytes = bench.get("i.ubi");
        bytes[16384] ^= 1;
        bytes
    });
    bench.put("short.bin", [0; 5]);
    for (args, expected) in [
        (format!("{sizes} --keep-ec i.ubi u.ini"), "--keep-ec: found it without a whole flash"),
        (format!("{sizes} --pebs 5 u.ini"), "PEBs, expected at most the 5 good ones"),
        (format!("{sizes} --pebs 0 u.ini"), "found 0 PEBs"),
        (format!("{sizes} --pebs 64 --bad-blocks 64 u.ini"), "found PEB 64, expected less than the 64"),
        (format!("{sizes} --pebs 64 --keep-ec short.bin u.ini"), "found 5 bytes, expected the 1048576 of the flash"),
        (
            format!("{sizes} --pebs 64 sub.ubi"),
            "the image has VID headers at 256 and data at 512, expected 512 and 1024",
        ),
        (format!("{sizes} --pebs 64 torn.ubi"), "PEB 1 (byte 16384) has no valid EC header"),
        ("--whole-flash K9F1G u.ini".to_owned(), "--whole-flash: found K9F1G"),
    ] {
        bench.run(&format!("pack {args} -o out.bin")).refused(expected);
    }
    let ran = bench.run(&format!("pack {sizes} --pebs 13 u.ini -o few.bin")).ended(0);
    assert!(ran.stderr.contains("Linux will not attach it"), "{}", ran.stderr);
    for (args, expected) in [
        ("short.bin out.bin --to raw", "the sizes of PEB, page and OOB are not known"),
        ("short.bin out.bin --to oob --part K9F1G08U0E", "expected whole pages of 2048 bytes"),
        ("i.ubi out.bin --to raw --peb-size 16KiB --page-size 512 --oob-size 0", "OOB of 0, expected those of a NAND"),
        ("i.ubi out.bin --to oob --peb-size 16KiB --page-size 512 --oob-size 16 --bad-blocks 99", "found PEB 99"),
    ] {
        bench.run(&format!("convert {args}")).refused(expected);
    }
    bench.put("oob.bin", with_oob(&bench.get("i.ubi"), 512, &[0xff; 16]));
    bench.run("convert i.ubi o.bin --to oob --peb-size 16KiB --page-size 512 --oob-size 16").ended(0);
    assert!(bench.get("o.bin") == bench.get("oob.bin"));
    assert!(!bench.dir.join("out.bin").exists());
}
