//! Packing: byte for byte as `ubinize`, with better errors.

use super::support::{Bench, TWO_VOLUMES, noise};

/// One volume of each kind; alignment (put in by [`aligned`]), flags, empty volumes, odd spelling, not in the order of numbers.
const FOUR_VOLUMES: &str = "# comment\n; another\n\
    [B]\nMODE = ubi\nimage=boot.bin\nvol_id=1\nvol_type=static\nvol_name=\"boot; # one\"\nvol_alignment=ALIGNED\nvol_size=3MiB\n\
    [a]\nmode=ubi\nvol_id=0\nvol_size=300KiB\nvol_name='empty'\n\
    [c]\nmode=ubi ; comment\nimage=tiny.bin\nvol_id=2\nvol_name=data\nvol_flags=autoresize\n\
    [d]\nmode=ubi\nimage=rootfs.bin\nvol_id=0x1e\nvol_size=1 MiB\nvol_alignment=OCTAL\nvol_name=dd\\\n-x\n\
    [e]\r\nmode=ubi\r\nimage=boot.bin\r\nvol_id=5\r\nvol_type=static\r\nvol_flags=skip-check\r\nvol_name=e\r\n";

const GEOMETRIES: [&str; 22] = [
    "-p 16KiB -m 512",
    "-p 16KiB -m 512 -s 256",
    "-p 16384 -m 512 -e 77",
    "-p 128KiB -m 2048",
    "-p 128KiB -m 2048 -s 512",
    "-p 128KiB -m 2048 -s 64",
    "-p 128KiB -m 2048 -O 1984",
    "-p 128KiB -m 2048 -s 512 -O 1024",
    "-p 128KiB -m 2048 -O 2008",
    "-p 128KiB -m 2048 -O 72",
    "-p 128KiB -m 2048 -O 0",
    "-p 128KiB -m 2048 -x 3 -e 2147483647",
    "-p 256KiB -m 4096",
    "-p 256KiB -m 4096 -s 1024",
    "-p 256KiB -m 2048 -O 0x1000",
    "-p 1MiB -m 4096",
    "-p 1MiB -m 8192 -s 2048",
    "-p 2MiB -m 16384",
    "-p 64KiB -m 1",
    "-p 128KiB -m 1 -O 512",
    "-p 128KiB -m 8",
    "-p 100000 -m 1",
];

/// The volumes with alignments that fit the pages of a geometry.
fn aligned(text: &str, geometry: &str) -> String {
    let page: u32 = geometry.split(' ').nth(3).and_then(|page| page.parse().ok()).expect("-p PEB -m PAGE");
    let unit = if page == 1 { 32 } else { page };
    text.replace("ALIGNED", &(3 * unit).to_string()).replace("OCTAL", &format!("0{:o}", 2 * unit))
}

fn bench(name: &str) -> Bench {
    let bench = Bench::new(name);
    bench.put("rootfs.bin", noise(300_001, 1));
    bench.put("boot.bin", noise(130_000, 2));
    bench.put("tiny.bin", [7, 8, 9]);
    bench
}

#[test]
fn images_are_those_of_ubinize_byte_for_byte() {
    let bench = bench("pack-bytes");
    for (ini, text) in [("two.ini", TWO_VOLUMES), ("four.ini", FOUR_VOLUMES)] {
        for geometry in GEOMETRIES {
            bench.put(ini, aligned(text, geometry));
            for seq in ["1", "0xffffffff"] {
                bench.ubinize(&format!("{geometry} -Q {seq} -o theirs.ubi {ini}")).ended(0);
                bench.run(&format!("pack {geometry} -Q {seq} -o ours.ubi --force {ini}")).ended(0);
                assert!(bench.get("theirs.ubi") == bench.get("ours.ubi"), "{ini} {geometry} -Q {seq}: images differ");
            }
        }
    }
}

#[test]
fn long_options_are_those_of_ubinize() {
    let bench = bench("pack-long");
    bench.put("u.ini", TWO_VOLUMES);
    let options = "--peb-size=128KiB --min-io-size=2048 --sub-page-size=512 --vid-hdr-offset=512 --erase-counter=3 \
                   --ubi-ver=1 --image-seq=9";
    bench.ubinize(&format!("{options} --output=theirs.ubi u.ini")).ended(0);
    let ran = bench.run(&format!("pack {options} -o ours.ubi u.ini --json")).ended(0);
    assert!(bench.get("theirs.ubi") == bench.get("ours.ubi"));
    let json = ran.json();
    assert_eq!((&json["schema"], &json["leb_bytes"]), (&"nandlab/image-pack/1".into(), &129_024.into()));
    assert_eq!(json["volumes"][1]["name"], "boot");
}

#[test]
fn the_same_input_gives_the_same_image_without_a_number() {
    let bench = bench("pack-repeat");
    bench.put("u.ini", TWO_VOLUMES);
    let number = |out: &str| {
        bench.run(&format!("pack -p 128KiB -m 2048 -o {out} u.ini --json")).ended(0).json()["image_seq"].clone()
    };
    let first = number("1.ubi");
    assert_eq!(first, number("2.ubi"));
    assert!(bench.get("1.ubi") == bench.get("2.ubi"));
    bench.put("boot.bin", noise(130_000, 3));
    assert_ne!(first, number("3.ubi"));
}

#[test]
fn refusals_name_the_line_and_the_remedy() {
    let bench = bench("pack-refusals");
    bench.put("none.bin", []);
    let volume = |section: &str, more: &str| format!("[{section}]\nmode=ubi\nimage=boot.bin\n{more}");
    let cases = [
        (
            volume("v", "vol_id=0\nvol_nam=x\n"),
            "u.ini:5: [v] has an unknown key \"vol_nam\"\n  help: did you mean vol_name?",
        ),
        (volume("v", "vol_name=x\n"), "u.ini:1: [v] has no vol_id"),
        (
            volume("v", "vol_id=0\nvol_name=x\nvol_size=100KiB\n"),
            "u.ini:1: [v] has image boot.bin of 130000 bytes, expected at most vol_size, 102400",
        ),
        (
            volume("v", "vol_id=0\nvol_name=x\n") + &volume("w", "vol_id=0\nvol_name=y\n"),
            "u.ini:6: [w] has vol_id 0, as [v] in line 1 has",
        ),
        (
            volume("v", "vol_id=0\nvol_name=x\n") + &volume("w", "vol_id=1\nvol_name=x\n"),
            "u.ini:6: [w] has vol_name \"x\", as [v] in line 1 has",
        ),
        (
            volume("v", "vol_id=0\nvol_name=x\nvol_flags=autoresize\n")
                + &volume("w", "vol_id=1\nvol_name=y\nvol_flags=autoresize\n"),
            "u.ini:7: [w] has vol_flags autoresize, as [v] in line 1 has",
        ),
        (
            volume("v", "vol_id=0\nvol_name=x\nvol_alignment=126976\n"),
            "vol_alignment 126976, expected less than the LEB's 126976 bytes",
        ),
        (
            volume("v", "vol_id=0\nvol_name=x\nvol_alignment=1000\n"),
            "u.ini:1: [v] has vol_alignment 1000, expected 1 or a multiple of 2048",
        ),
        (
            "[v]\nmode=ubi\nvol_id=0\nvol_name=x\nimage=rootfs.bin\nvol_alignment=65536\n".to_owned(),
            "LEBs that Linux drops",
        ),
        (
            "[v]\nmode=ubi\nvol_id=0\nvol_name=x\nimage=nope.bin\n".to_owned(),
            "u.ini:1: [v] has image nope.bin: no such file",
        ),
        ("[v]\nmode=ubi\nvol_id=0\nvol_name=x\nimage=none.bin\n".to_owned(), "image none.bin, which is empty"),
        ("[v]\nmode=ubi\nvol_id=0\nvol_name=x\nimage=.\n".to_owned(), "found a directory or device"),
    ];
    for (text, expected) in cases {
        bench.put("u.ini", text);
        bench.run("pack -p 128KiB -m 2048 -o u.ubi u.ini").refused(expected);
    }
    bench.put("u.ini", TWO_VOLUMES);
    let cases = [
        ("-p 128KiB -m 100", "--min-io-size is 100, expected a power of two"),
        ("-p 100000 -m 2048", "--peb-size is 100000, expected a multiple of --min-io-size, 2048"),
        ("-p 4MiB -m 2048", "--peb-size is 4194304, expected 512 bytes to 2 MiB"),
        ("-p 128KiB -m 2048 -s 4096", "--sub-page-size is 4096, expected a power of two up to --min-io-size, 2048"),
        ("-p 128KiB -m 2048 -O 68", "--vid-hdr-offset is 68, expected a multiple of 8"),
        ("-p 128KiB -m 2048 -O 8", "--vid-hdr-offset is 8, expected a multiple of 8, at least 64"),
        ("-p 4KiB -m 2048", "--peb-size is 4096, expected headers that leave room"),
        ("-p 128KiB -m 2048 -O 4294967288", "--peb-size is 131072, expected headers that leave room"),
        ("-p 128KiB -m 2048 -e 2147483648", "--erase-counter is 2147483648, expected at most 2147483647"),
    ];
    for (options, expected) in cases {
        bench.run(&format!("pack {options} -o u.ubi u.ini")).refused(expected);
    }
    bench.run("pack -p 128KB -m 2048 -o u.ubi u.ini").ended(2);
    bench.run("pack -p 128KiB -m 2048 -o u.ubi nope.ini").refused("nope.ini: no such file");
    assert!(!bench.dir.join("u.ubi").exists());
}

#[test]
fn an_image_is_not_overwritten_unasked() {
    let bench = bench("pack-force");
    bench.put("u.ini", TWO_VOLUMES);
    bench.put("u.ubi", "mine");
    bench.run("pack -p 128KiB -m 2048 -o u.ubi u.ini").refused("u.ubi: found a file of that name");
    assert_eq!(bench.get("u.ubi"), b"mine");
    bench.run("pack -p 128KiB -m 2048 -o u.ubi u.ini --force").ended(0);
    assert_eq!(bench.names("."), ["boot.bin", "rootfs.bin", "tiny.bin", "u.ini", "u.ubi"]);
}
