//! Files of UBIFS images that mkfs.ubifs made: extracted, listed, printed, checked; whole, damaged and hostile.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use super::support::{Bench, noise};

const COMPRESSIONS: [&str; 4] = ["none", "lzo", "zlib", "zstd"];

pub fn shell(bench: &Bench, script: &str) -> String {
    let said = Command::new("sh").args(["-ec", script]).current_dir(&bench.dir).output().expect("there is a shell");
    assert!(said.status.success(), "{script}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).into_owned()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A tree with every type of file that a user may make, names that are not UTF-8, links, holes and old times.
pub fn tree(bench: &Bench) {
    shell(
        bench,
        "mkdir -p tree/a/b/c tree/empty tree/many; cd tree
        printf 'short' >short; : >nothing; printf 'x%.0s' $(seq 1 127) >just-below
        ln short a/second; ln short a/b/third
        ln -s ../short a/link; ln -s \"$(printf 'y%.0s' $(seq 1 3000))\" long-link
        mkfifo a/fifo; chmod 4751 just-below; chmod 1777 empty
        dd if=/dev/zero of=hole bs=1 count=1 seek=3000000 2>/dev/null; truncate -s 5000000 hole; truncate -s 12345 all-hole
        for i in $(seq 1 300); do echo $i >many/file$i; done
        yes 'compressible text' | head -c 200000 >text",
    );
    bench.put("tree/random", noise(150_001, 7));
    let odd = std::ffi::OsStr::from_bytes(b"tree/\xff\xfe odd\nname");
    std::fs::write(bench.dir.join(odd), b"odd").unwrap();
    std::fs::write(bench.dir.join(format!("tree/{}", "n".repeat(255))), b"long").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.dir.join("tree/socket")).unwrap();
    if is_root() {
        shell(bench, "cd tree; mknod block b 8 1; mknod char c 300 70000; chown 1234:65534 text; chown -h 7:8 a/link");
    }
    // mkfs.ubifs keeps no fractions of seconds.
    shell(bench, "find tree -exec touch -h -d @1234567890 {} +; touch -d @86400 tree/short");
}

/// Everything about the files below a directory but contents, and the contents of regular ones. By find and md5sum.
pub fn listing(bench: &Bench, dir: &str) -> String {
    shell(
        bench,
        &format!(
            "cd {dir}; export LC_ALL=C; find . \\( -type d -printf '%P %y %m %U %G %T@\\n' \\) -o -printf '%P %y %m %U %G %s %T@ %n %l\\n' | sort
            find . -type f -print0 | sort -z | xargs -0 md5sum; find . -type b -o -type c | sort | xargs -r stat -c '%n %t %T'"
        ),
    )
}

pub fn mkfs(bench: &Bench, options: &str, image: &str) {
    shell(bench, &format!("mkfs.ubifs -r tree -m 2048 -e 126976 -c 400 {options} -o {image}"));
}

pub fn ubi(bench: &Bench, image: &str, out: &str) {
    bench.put("u.ini", format!("[v]\nmode=ubi\nimage={image}\nvol_id=0\nvol_name=rootfs\nvol_size=40MiB\n"));
    bench.ubinize(&format!("-p 128KiB -m 2048 -o {out} u.ini")).ended(0);
}

#[test]
fn every_file_of_an_image_of_mkfs_comes_back() {
    let bench = Bench::new("files-round");
    tree(&bench);
    let expected = listing(&bench, "tree");
    for compression in COMPRESSIONS {
        let (bare, whole) = (format!("{compression}.ubifs"), format!("{compression}.ubi"));
        mkfs(&bench, &format!("-x {compression}"), &bare);
        ubi(&bench, &bare, &whole);
        for (image, out) in [(&bare, format!("{compression}-a")), (&whole, format!("{compression}-b"))] {
            let ran = bench.run(&format!("extract {image} -o {out}")).ended(0);
            assert!(ran.stderr.is_empty(), "{}", ran.stderr);
            assert_eq!(listing(&bench, &out), expected, "{image}");
            bench.run(&format!("check {image}")).ended(0);
        }
    }
    // A hole takes no room.
    assert!(shell(&bench, "du -k none-a/hole none-a/all-hole").lines().all(|line| line.starts_with(['0', '4', '8'])));
    let refused = bench.run("extract none.ubifs -o none-a").refused("found files in the directory");
    assert!(refused.stderr.contains("--force"));
    bench.run("extract none.ubifs -o none-a --force").ended(0);
    assert_eq!(listing(&bench, "none-a"), expected);
    // The contents of the volume, as they are.
    bench.run("extract zstd.ubi -o raw --raw").ended(0);
    assert!(bench.get("raw/0-rootfs.img").starts_with(&bench.get("zstd.ubifs")));
}

#[test]
fn the_fanout_the_geometry_and_the_big_model_make_no_difference() {
    let bench = Bench::new("files-geometry");
    tree(&bench);
    let expected = listing(&bench, "tree");
    for (at, options) in [
        "-m 512 -e 15872 -c 2000 -f 3",
        "-m 2048 -e 129024 -c 300 -f 64 -l 3",
        "-m 4096 -e 253952 -c 100 -F",
        "-m 1 -e 65408 -c 20000 -k test",
        "-m 2048 -e 126976 -c 20000 -R 100000",
    ]
    .into_iter()
    .enumerate()
    {
        let unit =
            if options.starts_with("-m 1 ") { options.replacen("-m 1 ", "-m 8 ", 1) } else { options.to_owned() };
        let image = format!("{at}.ubifs");
        shell(&bench, &format!("mkfs.ubifs -r tree {unit} -o {image}"));
        bench.run(&format!("extract {image} -o out{at}")).ended(0);
        assert_eq!(listing(&bench, &format!("out{at}")), expected, "{options}");
        let ran = bench.run(&format!("check {image}")).ended(0);
        assert!(ran.stdout.contains("0 errors, 0 warnings, 0 notes"), "{options}: {}", ran.stdout);
    }
}

#[test]
fn files_are_listed_and_printed() {
    let bench = Bench::new("files-list");
    tree(&bench);
    mkfs(&bench, "-x lzo", "l.ubifs");
    ubi(&bench, "l.ubifs", "l.ubi");
    for image in ["l.ubifs", "l.ubi"] {
        let all = bench.run(&format!("ls {image} / --recursive --json")).ended(0).json();
        let files = all["files"].as_array().unwrap().clone();
        let found = shell(&bench, "find tree -mindepth 1 -printf x").len();
        assert_eq!(files.len(), found);
        let of = |path: &str| files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!((&of("/short")["nlink"], &of("/short")["size"]), (&3.into(), &5.into()));
        assert_eq!(of("/a/second")["inode"], of("/short")["inode"]);
        assert_eq!(of("/a/link")["target"], "../short");
        assert_eq!((&of("/just-below")["mode"], &of("/empty")["mode"]), (&"4751".into(), &"1777".into()));
        assert_eq!(of("/text")["mtime"]["seconds"], 1_234_567_890);
        if is_root() {
            assert_eq!(of("/char")["device"], serde_json::json!([300, 70000]));
        }
        let ran = bench.run(&format!("ls {image} a")).ended(0);
        assert!(ran.stdout.lines().any(|line| line.starts_with("l 0777") && line.ends_with("link -> ../short")));
        assert!(bench.run(&format!("cat {image} a/b/third")).ended(0).stdout == "short");
        assert!(bench.run(&format!("cat {image} text")).ended(0).stdout.as_bytes() == bench.get("tree/text"));
        assert_eq!(bench.run(&format!("cat {image} a/link")).ended(0).stdout, "../short\n");
        bench.run(&format!("cat {image} a/b")).refused("found a directory");
        bench.run(&format!("cat {image} a/none")).refused("found no \"a/none\"");
        bench.run(&format!("cat {image} short/x")).refused("found no \"short/x\"");
    }
    let info = bench.run("info l.ubi --json").ended(0).json();
    assert_eq!(
        (&info["volumes"][0]["holds"], &info["volumes"][0]["ubifs"]["compression"]),
        (&"ubifs".into(), &"lzo".into())
    );
    assert_eq!(info["volumes"][0]["ubifs"]["clean"], true);
    assert_eq!(bench.run("ls l.ubi --json").ended(0).json()["volumes"][0]["holds"], "ubifs");
    bench.run("ls l.ubi / --volume boot").refused("found no volume \"boot\", expected one of: rootfs");
}

/// A node in an image of UBIFS without UBI.
struct Node {
    at: usize,
    len: usize,
    kind: u8,
}

/// Nodes by their magic number. Written for the test: the code under test takes no part.
fn nodes(image: &[u8]) -> Vec<Node> {
    let magic = [0x31, 0x18, 0x10, 0x06];
    let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let begins = (0..image.len() - 24).step_by(8).filter(|&at| image[at..at + 4] == magic);
    begins.map(|at| Node { at, len: word(at + 16), kind: image[at + 20] }).collect()
}

/// Corrects the checksum of a node.
fn seal(image: &mut [u8], node: &Node) {
    let sum = !crc32fast::hash(&image[node.at + 8..node.at + node.len]);
    image[node.at + 4..node.at + 8].copy_from_slice(&sum.to_le_bytes());
}

/// The node of the entry with this name.
fn entry(image: &[u8], name: &[u8]) -> Node {
    let is = |node: &Node| {
        node.kind == 2 && image[node.at + 56..].starts_with(name) && image[node.at + 56 + name.len()] == 0
    };
    nodes(image).into_iter().find(is).expect("there is an entry of this name")
}

#[test]
fn nothing_is_written_outside_of_the_directory() {
    let bench = Bench::new("files-attack");
    // Names that an attacker changes in place, each as long as it was.
    shell(
        &bench,
        "mkdir -p tree/ab tree/dir; echo evil >tree/ab/cd; echo evil >tree/dir/abcdefghi; echo fine >tree/good; ln -s /tmp tree/to",
    );
    mkfs(&bench, "-x none", "good.ubifs");
    let good = bench.get("good.ubifs");
    for (case, old, new, from) in [
        ("parent", &b"ab"[..], &b".."[..], "/.."),
        ("path", b"abcdefghi", b"../../bad", "/dir/../../bad"),
        ("absolute", b"abcdefghi", b"/tmp/bad1", "/dir//tmp/bad1"),
        ("link", b"abcdefghi", b"../to/bad", "/dir/../to/bad"),
    ] {
        let mut image = good.clone();
        let node = entry(&image, old);
        image[node.at + 56..][..new.len()].copy_from_slice(new);
        seal(&mut image, &node);
        bench.put("bad.ubifs", &image);
        std::fs::create_dir_all(bench.dir.join(case)).unwrap();
        let ran = bench.run(&format!("extract bad.ubifs -o {case}/in/out")).ended(1);
        assert!(ran.stderr.contains(&format!("not restored: {from}: its name is no name of a file")), "{}", ran.stderr);
        assert_eq!(bench.names(case), ["in"]);
        assert_eq!(bench.names(&format!("{case}/in")), ["out"]);
        assert!(bench.get(&format!("{case}/in/out/good")) == b"fine\n");
        assert!(!Path::new("/tmp/bad1").exists() && !Path::new("/tmp/bad").exists());
        let ran = bench.run("check bad.ubifs").ended(1);
        assert!(ran.stdout.contains("error[ubifs-files]") && ran.stdout.contains("has hash"), "{}", ran.stdout);
    }
}

#[test]
fn what_is_damaged_is_named_and_the_rest_comes_back() {
    let bench = Bench::new("files-damage");
    shell(&bench, "mkdir tree; echo fine >tree/good; ln -s to tree/link");
    bench.put("tree/data", noise(20_000, 3));
    mkfs(&bench, "-x none", "good.ubifs");
    let good = bench.get("good.ubifs");
    let found = nodes(&good);
    let word = |at: usize| u32::from_le_bytes(good[at..at + 4].try_into().unwrap());
    // The third block of the file of five.
    let is_block = |node: &&Node| node.kind == 1 && node.len == 48 + 4096 && word(node.at + 28) == 1 << 29 | 2;
    let node = found.iter().find(is_block).unwrap();
    let mut image = good.clone();
    image[node.at + 1000] ^= 1;
    bench.put("data.ubifs", &image);
    let ran = bench.run("extract data.ubifs -o data").ended(1);
    assert!(ran.stderr.contains("not restored: /data: bytes 8192 to 12287 are missing"), "{}", ran.stderr);
    let (whole, part) = (bench.get("tree/data"), bench.get("data/data"));
    assert!(whole[..8192] == part[..8192] && whole[12288..] == part[12288..] && part[8192..12288] == [0; 4096]);
    assert!(bench.get("data/good") == b"fine\n");
    let ran = bench.run("check data.ubifs").ended(1);
    let place = format!("error[ubifs-node] LEB {} offset {}: data node: CRC", node.at / 126_976, node.at % 126_976);
    assert!(ran.stdout.contains(&place), "{}", ran.stdout);

    // An entry that names no inode; one of another type; a wrong number of links.
    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>), errors: &[&str]| {
        let mut image = good.clone();
        change(&mut image);
        bench.put(name, &image);
        let ran = bench.run(&format!("check {name}")).ended(1);
        errors.iter().for_each(|error| assert!(ran.stdout.contains(error), "{name}: {}", ran.stdout));
        bench.run(&format!("extract {name} -o {name}.out"));
    };
    changed(
        "no-inode",
        &|image| {
            let node = entry(image, b"good");
            image[node.at + 40..node.at + 44].copy_from_slice(&9999_u32.to_le_bytes());
            seal(image, &node);
        },
        &["inode 9999 does not exist, though directory 1 names it", "has no name, and 1 links"],
    );
    changed(
        "type",
        &|image| {
            let node = entry(image, b"good");
            image[node.at + 49] = 2;
            seal(image, &node);
        },
        &["is a File, its entry names a Symlink"],
    );
    changed(
        "links",
        &|image| {
            let node = nodes(image).into_iter().find(|node| node.kind == 0 && node.len == 160 + 2).unwrap();
            image[node.at + 92] = 5;
            seal(image, &node);
        },
        &["has 5 links, expected 1"],
    );
    changed(
        "dir-size",
        &|image| {
            let is_root = |node: &Node| node.kind == 0 && image[node.at + 24..node.at + 28] == [1, 0, 0, 0];
            let node = nodes(image).into_iter().find(is_root).unwrap();
            image[node.at + 48] ^= 8;
            seal(image, &node);
        },
        &["directory 1 has size"],
    );
    // The master nodes count what is not there; the LPT too.
    changed(
        "lpt",
        &|image| {
            // Both master nodes name the root of the LPT; the first byte there is of its checksum.
            let node = nodes(image).into_iter().find(|node| node.kind == 7).unwrap();
            let word = |at: usize| u32::from_le_bytes(image[node.at + at..][..4].try_into().unwrap()) as usize;
            let lpt = word(120) * 126_976 + word(124);
            image[lpt] ^= 1;
        },
        &["error[ubifs-space]", "nnode: CRC"],
    );
}

#[test]
fn what_is_no_file_system_of_ours_is_refused_with_the_reason() {
    let bench = Bench::new("files-refused");
    shell(&bench, "mkdir tree; echo fine >tree/good");
    mkfs(&bench, "-x none", "good.ubifs");
    let good = bench.get("good.ubifs");
    let changed = |offset: usize, value: u32| {
        let mut image = good.clone();
        image[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        seal(&mut image, &Node { at: 0, len: 4096, kind: 6 });
        bench.put("bad.ubifs", &image);
    };
    for (offset, value, expected) in [
        (28, 0x20, "an authenticated image (flag 0x20), which is not supported"),
        (28, 0x10, "a file system with encrypted files (flag 0x10), which is not supported"),
        (28, 0x40, "unknown flags 0x40, which is not supported"),
        (80, 6, "format 6, which is not supported"),
        (80, 5, "super block: fmt_version = 5"),
        (40, 3_000_000, "super block: leb_cnt = 3000000, expected at most"),
        (72, 2, "super block: fanout = 2"),
        (56, u32::MAX, "super block: log_lebs = 4294967295"),
        (104, 0, "super block: time_gran = 0"),
    ] {
        changed(offset, value);
        bench.run("info bad.ubifs").refused(expected);
        bench.run("extract bad.ubifs -o out").refused(expected);
        let ran = bench.run("check bad.ubifs").ended(1);
        assert!(ran.stdout.contains(expected), "{}", ran.stdout);
    }
    // Both master nodes gone, and one of them.
    let mut image = good.clone();
    image[126_976 + 100] ^= 1;
    bench.put("bad.ubifs", &image);
    let ran = bench.run("info bad.ubifs");
    assert_eq!(ran.code, Some(2), "two LEBs of one master node each cannot come from a power cut: {ran:?}");
    image[2 * 126_976 + 100] ^= 1;
    bench.put("bad.ubifs", &image);
    bench.run("info bad.ubifs").refused("neither LEB has a valid one");
}
