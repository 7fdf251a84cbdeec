//! Two devices in one file are never mixed, and a lost volume table is no success. The images are by `ubinize`.

use super::support::{Bench, noise};

const PEB: usize = 16 << 10;

/// An image by the real tool with one volume `name` that holds `contents`.
fn ubinized(bench: &Bench, name: &str, image_seq: &str, contents: &[u8]) -> Vec<u8> {
    bench.put("contents.bin", contents);
    bench.put("u.ini", format!("[v]\nmode=ubi\nimage=contents.bin\nvol_id=0\nvol_type=dynamic\nvol_name={name}\n"));
    bench.ubinize(&format!("-p 16KiB -m 512 -Q {image_seq} -o u.ubi u.ini")).ended(0);
    bench.get("u.ubi")
}

const COMMANDS: [&str; 7] = ["info", "ls", "wear", "map", "pebs", "extract -o mixed", "compare contents.bin"];

#[test]
fn two_partitions_of_one_dump_are_named_and_one_is_chosen() {
    let bench = Bench::new("devices-two");
    let (first, second) = (noise(100_000, 1), noise(60_000, 2));
    let [boot, root] = [("boot", "17", &first), ("root", "0x99", &second)].map(|it| ubinized(&bench, it.0, it.1, it.2));
    bench.put("flash.bin", [&boot[..], &root].concat());
    bench.put("contents.bin", &root);
    for command in COMMANDS {
        let ran = bench.run(&format!("{command} flash.bin"));
        let ran = ran.refused("flash.bin: found 2 UBI devices, expected one: image_seq 0x00000011 on ");
        let (pebs, from) = (root.len() / PEB, boot.len());
        let expected =
            format!("image_seq 0x00000099 on {pebs} PEBs, which begin at bytes {from} to {}", from + root.len() - PEB);
        assert!(ran.stderr.contains(&expected), "{}", ran.stderr);
        assert!(ran.stderr.contains("--image-seq 0x00000011"), "{}", ran.stderr);
    }
    let ran = bench.run("check flash.bin").ended(1);
    assert!(ran.stdout.contains("error[image-seq] PEB "), "{}", ran.stdout);
    assert_eq!(ran.stdout.matches("error[image-seq]").count(), 1, "{}", ran.stdout);
    for (seq, name, contents) in [("17", "boot", &first), ("0x99", "root", &second)] {
        bench.run(&format!("check flash.bin --image-seq {seq}")).ended(0);
        let json = bench.run(&format!("extract flash.bin --image-seq {seq} -o {name} --json")).ended(0).json();
        assert_eq!((&json["extracted"][0]["name"], json["extracted"].as_array().unwrap().len()), (&name.into(), 1));
        assert!(bench.get(&format!("{name}/0-{name}.img")).starts_with(contents));
    }
    let error = "found no EC header with image_seq 0x00000005, expected 0x00000011 or 0x00000099";
    bench.run("info flash.bin --image-seq 5").refused(error);
    bench.run("compare flash.bin u.ubi --image-seq 17 --image-seq-b 0x99").ended(1);
}

/// A new image was written over the beginning of an old one.
#[test]
fn leftovers_of_an_old_device_are_left_out() {
    let bench = Bench::new("devices-leftovers");
    let contents = noise(60_000, 2);
    let old = ubinized(&bench, "old", "1", &noise(200_000, 1));
    let new = ubinized(&bench, "new", "2", &contents);
    bench.put("flash.bin", [&new[..], &old[new.len()..]].concat());
    bench.run("ls flash.bin").refused("found 2 UBI devices");
    bench.run("extract flash.bin --image-seq 2 -o out").ended(0);
    assert_eq!(bench.names("out"), ["0-new.img"]);
    assert!(bench.get("out/0-new.img").starts_with(&contents));
    let json = bench.run("info flash.bin --image-seq 2 --json").ended(0).json();
    assert_eq!(json["pebs"]["used"], new.len() / PEB);
}

#[test]
fn extraction_without_a_volume_table_gives_what_there_is_and_fails() {
    let bench = Bench::new("devices-vtbl");
    let contents = noise(60_000, 2);
    let whole = ubinized(&bench, "v", "1", &contents);
    let mut missing = whole.clone();
    missing[..2 * PEB].fill(0xff);
    let mut broken = whole.clone();
    [0, PEB].iter().for_each(|peb| broken[peb + 1024 + 20] ^= 1);
    let mut half = whole;
    half[1024 + 20] ^= 1;
    let cases = [
        ("missing", missing, 1, "copy 0 is missing, copy 1 is missing"),
        ("broken", broken, 1, "copy 0 in PEB 0 has 1 broken records, copy 1 in PEB 1 has 1 broken records"),
        ("half", half, 0, ""),
    ];
    for (name, bytes, code, expected) in cases {
        bench.put("u.ubi", bytes);
        let ran = bench.run(&format!("extract u.ubi -o {name}")).ended(code);
        assert_eq!(ran.stderr.contains("no copy of the volume table is whole"), code == 1, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        let file = if code == 1 { "0-.img" } else { "0-v.img" };
        assert!(bench.get(&format!("{name}/{file}")).starts_with(&contents), "{name}");
        let json = bench.run(&format!("extract u.ubi -o {name} --force --json")).ended(code).json();
        assert_eq!(json["volume_table"].as_u64(), if code == 1 { None } else { Some(1) });
    }
}
