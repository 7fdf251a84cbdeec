//! Editing: what the readers of the same command find afterwards. Linux judges edited flashes in `tests/guest.rs`.

use super::support::{Bench, TWO_VOLUMES, noise, with_oob};

/// A whole flash of 68 PEBs of 16 KiB with two volumes.
fn bench(name: &str) -> Bench {
    let bench = Bench::new(name);
    bench.put("rootfs.bin", noise(60_000, 1));
    bench.put("boot.bin", noise(30_000, 2));
    bench.put("new.bin", noise(50_001, 3));
    bench.put("u.ini", TWO_VOLUMES.replace("4MiB", "128KiB").replace("vol_flags=autoresize\n", ""));
    bench.run("pack -p 16KiB -m 512 --pebs 68 -Q 1 -e 5 -o f.bin u.ini").ended(0);
    bench
}

/// Nothing to say about the image, and these volumes.
#[track_caller]
fn holds(bench: &Bench, image: &str, volumes: &[&str]) {
    let found = bench.run(&format!("check {image} --json")).ended(0).json();
    assert_eq!((&found["errors"], &found["warnings"]), (&0.into(), &0.into()), "{found}");
    let listed = bench.run(&format!("ls {image} --json")).ended(0).json();
    let names: Vec<_> = listed["volumes"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, volumes);
}

#[test]
fn every_edit_is_in_the_result_and_the_input_stays() {
    let bench = bench("edit-all");
    let before = bench.get("f.bin");
    let edits = "--remove boot --rename rootfs=system --resize system=12lebs --add data=100KiB --add fixed=4lebs,static,id=7 \
                 --write data=new.bin --write 7=boot.bin --ec all=100 --ec 3,40-41=70000 --fastmap";
    let ran = bench.run(&format!("edit f.bin -o out.bin {edits} --json")).ended(0).json();
    assert_eq!((&ran["schema"], &ran["fastmap"]), (&"nandlab/image-edit/1".into(), &true.into()));
    assert!(bench.get("f.bin") == before, "the input changed");
    assert_eq!(bench.get("out.bin").len(), before.len());
    holds(&bench, "out.bin", &["system", "data", "fixed"]);
    let info = bench.run("info out.bin --json").ended(0).json();
    assert_eq!(info["fastmap"]["valid"], true);
    let wear = bench.run("wear out.bin --json").ended(0).json();
    let counters = wear["erase_counters"].as_array().unwrap();
    let expected = |peb| if [3, 40, 41].contains(&peb) { 70_000 } else { 100 };
    assert!(counters.iter().enumerate().all(|(peb, ec)| *ec == expected(peb)), "{wear}");
    bench.run("extract out.bin -o v").ended(0);
    let system = bench.get("v/0-system.img");
    assert!(system.starts_with(&bench.get("rootfs.bin")), "its contents were kept");
    assert!(bench.get("v/1-data.img").starts_with(&bench.get("new.bin")));
    assert!(bench.get("v/7-fixed.img") == bench.get("boot.bin"), "a static volume has its length");
    // Once more, in place, without the fastmap.
    bench.run("edit out.bin --in-place --no-fastmap --resize fixed=all").ended(0);
    holds(&bench, "out.bin", &["system", "data", "fixed"]);
    assert_eq!(bench.run("info out.bin --json").ended(0).json()["fastmap"], serde_json::Value::Null);
    assert_eq!(bench.names("."), ["boot.bin", "f.bin", "new.bin", "out.bin", "rootfs.bin", "u.ini", "v"]);
}

#[test]
fn an_edit_repeats_to_the_byte_and_knows_oob_nor_and_short_images() {
    let bench = bench("edit-shapes");
    for out in ["a.bin", "b.bin"] {
        bench.run(&format!("edit f.bin -o {out} --write boot=boot.bin --fastmap")).ended(0);
    }
    assert!(bench.get("a.bin") == bench.get("b.bin"));
    // The same in a dump with OOB: the data are those of the dump without.
    bench.put("oob.bin", with_oob(&bench.get("f.bin"), 512, &[0xff; 16]));
    let ran = bench.run("edit oob.bin -o o.bin --write boot=boot.bin --fastmap").ended(0);
    assert!(ran.stderr.contains("OOB of 0xFF"), "{}", ran.stderr);
    assert!(bench.get("o.bin") == with_oob(&bench.get("a.bin"), 512, &[0xff; 16]));
    bench.run("convert o.bin raw.bin --to raw --peb-size 16KiB --page-size 512 --oob-size 16").ended(0);
    assert!(bench.get("raw.bin") == bench.get("a.bin"));
    // An image of the PEBs in use alone, for a larger flash.
    bench.run("pack -p 16KiB -m 512 -Q 1 -o short.ubi u.ini").ended(0);
    bench.run("edit short.ubi -o o.bin --remove boot --force").refused("give the PEBs of the flash with --pebs N");
    bench.run("edit short.ubi -o no.bin --pebs 64 --fastmap").refused("the flash has too few PEBs for a fastmap");
    // The first two PEBs have the volume table, the next ones the LEBs of the volumes.
    for (bad, held) in [("0", "LEB 0 of volume 2147479551"), ("40,3", "LEB 1 of volume 0")] {
        let said = format!("holds {held} in the image");
        bench.run(&format!("edit f.bin -o no.bin --ec all=7 --bad-blocks {bad}")).refused(&said);
    }
    assert!(!bench.dir.join("no.bin").exists());
    bench.run("edit short.ubi -o o.bin --remove boot --pebs 64 --bad-blocks 30 --force").ended(0);
    assert_eq!(bench.get("o.bin").len(), 64 << 14);
    bench.run("pack -p 16KiB -m 1 --pebs 80 -Q 1 -o nor.bin u.ini").ended(0);
    bench.run("edit nor.bin -o o.bin --remove 3 --add x=all --fastmap --force").ended(0);
    holds(&bench, "o.bin", &["rootfs", "x"]);
}

/// UBI would shrink the volume, and Linux would refuse to mount what is left.
#[test]
fn a_volume_does_not_shrink_below_the_ubifs_in_it() {
    let bench = Bench::new("edit-ubifs");
    std::fs::create_dir(bench.dir.join("t")).unwrap();
    bench.put("t/file", noise(50_000, 4));
    let said =
        bench.run("pack t -o r.ubi -p 16KiB -m 512 --volume-name r --volume-size 2MiB -Q 1 --json").ended(0).json();
    let [lebs, least] = ["lebs", "min_lebs"].map(|key| said["ubifs"][key].as_u64().unwrap());
    let edit = "edit r.ubi -o out.bin --pebs 200 --resize";
    bench.run(&format!("{edit} r={}lebs", lebs - 1)).refused(&format!("UBIFS in \"r\" has {lebs} LEBs"));
    bench.run(&format!("{edit} r={least}lebs")).ended(0);
    bench.run("check out.bin").ended(0);
    // What is in it goes anyway.
    bench.run(&format!("{edit} r=3lebs --write r=t/file --force")).refused("resize the volume first");
    bench.run(&format!("{edit} r=4lebs --write r=t/file --force")).ended(0);
}

#[test]
fn what_cannot_be_done_leaves_no_file() {
    let bench = bench("edit-refusals");
    for (edit, expected) in [
        ("", "found no edit to make"),
        ("--remove nope", "found no volume \"nope\", expected one of rootfs, boot"),
        ("--add boot=2lebs", "already has the name \"boot\""),
        ("--add x=2lebs,id=3", "volume 3 exists already"),
        ("--add x=9GiB", "are available\n  help: remove or shrink"),
        ("--add x=2lebs,align=100", "alignment is 100"),
        ("--resize boot=1lebs", "size is 1, expected at least the 2 LEBs"),
        ("--write boot=rootfs.bin", "help: resize the volume first"),
        ("--write boot=nope.bin", "nope.bin: no such file"),
        ("--ec 68=1", "found PEB 68, expected less than the 68"),
        ("--ec 1=4000000000", "above 2147483647"),
        ("--rename rootfs=x --rename boot=x", "each volume and each name once"),
        ("--pebs 10 --fastmap", "expected at least the 68 PEBs"),
        ("--page-size 2048 --fastmap", "give --page-size"),
    ] {
        bench.run(&format!("edit f.bin -o out.bin {edit}")).refused(expected);
    }
    bench.run("edit f.bin --remove boot").ended(2);
    bench.run("edit f.bin -o f.bin --remove boot --force").refused("never overwritten");
    bench.put("cut.bin", &bench.get("f.bin")[..100_000]);
    bench.run("edit cut.bin -o out.bin --remove boot").refused("truncated: it ends inside PEB 6");
    bench.run("edit new.bin -o out.bin --remove boot").ended(2);
    assert_eq!(bench.names("."), ["boot.bin", "cut.bin", "f.bin", "new.bin", "rootfs.bin", "u.ini"]);
}
