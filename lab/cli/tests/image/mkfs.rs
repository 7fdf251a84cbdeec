//! Packing a directory: node by node what mkfs.ubifs makes of it, and an image that is what it says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use ::fs::compress::{Algorithm, Decompressor};

use super::files::shell;
use super::nodes::{Image, int};
use super::support::{Bench, Ran, noise};

/// Runs `mkfs.ubifs`, which must be installed.
fn mkfs(bench: &Bench, args: &str) -> Ran {
    match Command::new("mkfs.ubifs").args(args.split_whitespace()).current_dir(&bench.dir).output() {
        Ok(output) => Ran::new(&output),
        Err(error) => panic!("mkfs.ubifs is missing ({error}): apt-get install mtd-utils"),
    }
}

/// A tree with what both programs can pack without privileges.
fn tree(bench: &Bench) {
    let top = bench.dir.join("t");
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    fs::create_dir(top.join("empty")).unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(top.join(name), bytes).unwrap();
    put("noise", &noise(50_001, 5));
    let words: Vec<u8> = noise(90_000, 6).iter().flat_map(|byte| [b'a' + byte % 17, b' ']).collect();
    put("words", &words);
    put("a/nothing", b"");
    for size in [1, 127, 128, 129, 4095, 4096, 4097, 8192] {
        put(&format!("a/b/{size}"), &b"repeated, ".repeat(1000)[..size]);
    }
    let mut holes = vec![0; 300_000];
    holes[9000..9003].fill(3);
    holes[299_999] = 1;
    put("holes", &holes);
    put("zeroes", &[0; 20_000]);
    for number in 0..400 {
        put(&format!("a/b/c/f{number}"), format!("{number}").repeat(number / 4).as_bytes());
    }
    fs::hard_link(top.join("words"), top.join("a/again")).unwrap();
    std::os::unix::fs::symlink("over/there", top.join("link")).unwrap();
    std::os::unix::net::UnixListener::bind(top.join("a/socket")).unwrap();
    put("n\u{e4}me", b"1");
    put(&"l".repeat(255), b"2");
}

/// What a leaf says, without numbers that depend on the order in which a tree is read.
type Leaves = BTreeMap<(String, String), String>;

/// The leaves of an image, by the path of their inode.
fn leaves(image: &Image<'_>) -> Leaves {
    let (nodes, _) = image.main();
    let mut entries: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.kind == 2) {
        let name = String::from_utf8_lossy(&node.bytes[56..node.bytes.len() - 1]).into_owned();
        entries.entry(node.key().0).or_default().push((name, int(node.bytes, 40, 8)));
    }
    let mut paths = BTreeMap::from([(1, "/".to_owned())]);
    let mut open = vec![1];
    while let Some(dir) = open.pop() {
        for (name, ino) in entries.get(&dir).into_iter().flatten() {
            let path = format!("{}{name}/", paths[&dir]);
            // Of several names the first.
            let known = paths.entry(*ino).or_insert_with(|| path.clone());
            if path < *known {
                *known = path;
            }
            open.push(*ino);
        }
    }
    let mut unpack = Decompressor::new();
    let mut found = Leaves::new();
    for node in nodes.iter().filter(|node| node.kind != 9) {
        let b = node.bytes;
        let (ino, low) = node.key();
        let path = paths[&ino].clone();
        let (what, says) = match node.kind {
            0 => {
                // mkfs.ubifs writes device numbers in 8 bytes, Linux in 4; times without nanoseconds.
                let fields = [48, 72].map(|at| int(b, at, 8));
                let more = [92, 96, 100, 104, 108, 116, 120, 128].map(|at| int(b, at, 4));
                let inline = String::from_utf8_lossy(&b[160..]).trim_end_matches('\0').to_owned();
                ("inode".to_owned(), format!("{fields:?} {more:?} {} {inline:?}", int(b, 132, 2)))
            }
            1 => {
                let mut data = vec![0; int(b, 40, 4) as usize];
                let algorithm = [None, Some(Algorithm::Lzo), Some(Algorithm::Deflate), Some(Algorithm::Zstd)];
                match algorithm[int(b, 44, 2) as usize] {
                    None => data.copy_from_slice(&b[48..]),
                    Some(algorithm) => unpack.decompress(algorithm, &b[48..], &mut data).expect("it decompresses"),
                }
                // Where the gain decides, two compressors may differ.
                assert!(b.len() - 48 == data.len() || data.len() >= 128 && b.len() - 48 + 64 <= data.len());
                (format!("block {}", low & 0x1fff_ffff), format!("{data:?}"))
            }
            2 => {
                let name = String::from_utf8_lossy(&b[56..b.len() - 1]).into_owned();
                (format!("entry {name}"), format!("{low:#x} {} to {}", b[49], paths[&int(b, 40, 8)]))
            }
            other => panic!("node type {other}"),
        };
        assert!(found.insert((path, what.clone()), says).is_none(), "{what} comes twice");
    }
    found
}

/// The super block but for header, UUID and the algorithm of hashes, of which there are none (0 or 0xFFFF).
fn super_block(image: &[u8]) -> (&[u8], &[u8]) {
    assert!(matches!(int(image, 256, 2), 0 | 0xffff));
    (&image[24..108], &image[124..256])
}

/// Packs the tree with both programs.
fn both(bench: &Bench, min_io: &str, leb: &str, options: &str) -> [Vec<u8>; 2] {
    mkfs(bench, &format!("-r t -o theirs.img -m {min_io} -e {leb} {options}")).ended(0);
    let ours = options.replace("-x", "--compress").replace("-p ", "--orph-lebs ");
    bench.run(&format!("pack t -o ours.img --bare -m {min_io} --leb-size {leb} {ours} --force")).ended(0);
    ["theirs.img", "ours.img"].map(|name| bench.get(name))
}

#[test]
fn nodes_are_those_of_mkfs() {
    let bench = Bench::new("mkfs-nodes");
    tree(&bench);
    for (min_io, leb, options) in [
        ("2048", "126976", "-c 300 -x none"),
        ("2048", "126976", "-c 30000 -x lzo -F"),
        ("512", "15872", "-c 4000 -x zlib -f 3 -U"),
        ("4096", "253952", "-c 2000 -x zstd -f 64"),
        ("8", "65408", "-c 200 -x favor_lzo -k test"),
    ] {
        let images = both(&bench, min_io, leb, options);
        let [theirs, ours] = images.each_ref().map(|bytes| Image::new(bytes));
        theirs.check();
        ours.check();
        assert_eq!(super_block(theirs.bytes), super_block(ours.bytes), "{options}");
        let [theirs, ours] = [leaves(&theirs), leaves(&ours)];
        for (their, our) in theirs.iter().zip(&ours) {
            assert_eq!(their, our, "{options}");
        }
        assert_eq!(theirs.len(), ours.len(), "{options}");
    }
}

#[test]
fn areas_are_those_of_mkfs() {
    let bench = Bench::new("mkfs-areas");
    fs::create_dir(bench.dir.join("t")).unwrap();
    bench.put("t/file", noise(3000, 1));
    let mut cases = Vec::new();
    for lebs in [22, 25, 60, 100, 191, 192, 300, 2500, 4000, 33_000, 100_000] {
        cases.push(("2048", "126976", format!("-c {lebs}")));
        cases.push(("512", "15872", format!("-c {lebs}")));
    }
    for options in
        ["-j 400KiB", "-j 24MiB", "-j 100MiB", "-R 1MiB", "-R 10000 -f 16", "-R 4096 -f 3", "-R 1", "-l 3", "-l 9 -p 7"]
    {
        cases.push(("2048", "126976", format!("-c 1200 {options}")));
        cases.push(("16384", "1048576", format!("-c 1200 {options}").replace("400KiB", "4MiB")));
    }
    for (min_io, leb, options) in cases {
        let images = both(&bench, min_io, leb, &options);
        assert_eq!(super_block(&images[0]), super_block(&images[1]), "-m {min_io} -e {leb} {options}");
        images.iter().for_each(|image| Image::new(image).check());
    }
}

#[test]
fn a_tree_that_does_not_fit_needs_as_many_lebs_as_mkfs_says() {
    let bench = Bench::new("mkfs-small");
    fs::create_dir(bench.dir.join("t")).unwrap();
    bench.put("t/file", noise(4_000_000, 1));
    let theirs = mkfs(&bench, "-r t -o i.img -m 2048 -e 126976 -c 25 -x none").ended(255);
    let ours = "pack t -o i.ubi -p 128KiB -m 2048 -c 25 --compress none";
    let words = theirs.stderr.trim().strip_prefix("Error: ").expect("it says why").to_owned();
    assert!(words.starts_with("max_leb_cnt too low ("), "{words}");
    bench.run(ours).refused(&format!("i.ubi: {words}\n  help: give --max-leb-cnt"));
    bench.run("pack t -o i.ubi -p 128KiB -m 2048 --volume-size 3MiB --compress none").refused("max_leb_cnt too low");
    assert!(!bench.dir.join("i.ubi").exists());
}

#[test]
fn the_same_tree_gives_the_same_image() {
    let bench = Bench::new("mkfs-repeat");
    tree(&bench);
    let pack = "--compress zlib -p 128KiB -m 2048";
    bench.run(&format!("pack t -o 1.ubi {pack}")).ended(0);
    // A copy whose files have other numbers and other times of access.
    let copied = Command::new("cp").args(["-a", "t", "u"]).current_dir(&bench.dir).status().expect("cp runs");
    assert!(copied.success());
    let said = bench.run(&format!("pack u -o 2.ubi {pack} --json")).ended(0).json();
    assert!(bench.get("1.ubi") == bench.get("2.ubi"), "they differ");
    let uuid = said["ubifs"]["uuid"].as_str().unwrap().to_owned();
    bench.put("u/one more", "1");
    let other = bench.run(&format!("pack u -o 3.ubi {pack} --json")).ended(0).json();
    assert_ne!((&other["ubifs"]["uuid"], &other["image_seq"]), (&uuid.as_str().into(), &said["image_seq"]));
    let given = "00112233-4455-6677-8899-aabbccddeeff";
    let chosen = bench.run(&format!("pack u -o 4.ubi {pack} --uuid {given} -Q 7 --json")).ended(0).json();
    assert_eq!((&chosen["ubifs"]["uuid"], &chosen["image_seq"]), (&given.into(), &7.into()));
}

#[test]
fn the_volume_holds_the_bare_image() {
    let bench = Bench::new("mkfs-volume");
    tree(&bench);
    let options = "--compress zstd -m 2048";
    bench.run(&format!("pack t -o bare.img --bare --leb-size 129024 {options} -c 90")).ended(0);
    bench
        .run(&format!("pack t -o u.ubi -p 128KiB -s 512 {options} -c 90 --volume-name r --volume-size 12MiB -Q 1"))
        .ended(0);
    // ubinize makes the same of the bare image.
    let size = (12_u64 << 20).next_multiple_of(129_024);
    bench.put("u.ini", format!("[r]\nmode=ubi\nimage=bare.img\nvol_id=0\nvol_name=r\nvol_size={size}\n"));
    bench.ubinize("-o theirs.ubi -p 128KiB -m 2048 -s 512 -Q 1 u.ini").ended(0);
    let [ours, theirs] = ["u.ubi", "theirs.ubi"].map(|name| bench.get(name));
    assert_eq!(ours.len(), theirs.len());
    let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    assert!(differs.is_none(), "first at byte {differs:?}");
}

#[test]
fn refusals_of_a_tree_name_the_file_and_the_remedy() {
    let bench = Bench::new("mkfs-refusals");
    fs::create_dir(bench.dir.join("t")).unwrap();
    bench.put("t/file", "1");
    bench.put("u.ini", "[v]\nmode=ubi\nvol_id=0\nvol_name=x\n");
    let sizes = "-p 128KiB -m 2048";
    for (args, expected) in [
        (format!("t -o t/x.ubi {sizes}"), "t/x.ubi: found it inside of the tree"),
        (format!("t -o x.ubi {sizes} -c 16"), "--max-leb-cnt is 16, expected at least 17"),
        (format!("t -o x.ubi {sizes} --fanout 2"), "--fanout is 2"),
        (format!("t -o x.ubi {sizes} -j 100KiB"), "--jrn-size is 102400, expected at least 3 LEBs"),
        (format!("t -o x.ubi {sizes} -c 30 -j 6MiB"), "--jrn-size is 6291456, expected at most the main area"),
        (format!("t -o x.ubi {sizes} -c 30 -R 60MiB"), "--reserved is 62914560, expected less than the main area"),
        (format!("t -o x.ubi {sizes} --leb-size 1024"), "--leb-size is 1024, expected 126976"),
        ("t -o x.img --bare -m 2048".to_owned(), "found no --leb-size, which --bare needs"),
        ("t -o x.img --bare -m 2048 --leb-size 10000".to_owned(), "--leb-size is 10000, expected 15 KiB to 2 MiB"),
        (format!("t -o x.ubi {sizes} --favor-percent 30"), "found it without --compress favor-lzo"),
        (format!("t -o x.ubi {sizes} --pebs 100"), "found a directory, expected an ini file"),
        (format!("u.ini -o x.ubi {sizes} --squash-uids"), "u.ini: found no directory, expected one with --squash-uids"),
        (format!("t -o x.ubi {sizes} -D none"), "none: no such file"),
    ] {
        bench.run(&format!("pack {args}")).refused(expected);
    }
    for (table, expected) in [
        ("file c 644 0 0 1 2 - - -", "table:1: found path \"file\", expected an absolute one"),
        ("\n/x c 644 0 0 1 2 - - -\n/x p 644 0 0 - - - - -", "table:3: found a file that line 2 has"),
        ("/x c 888 0 0 1 2 - - -", "table:1: found mode \"888\""),
        ("/x c 644 root 0 1 2 - - -", "table:1: found \"root\", expected a number"),
        ("/x s 644 0 0 - - - - -", "table:1: found type \"s\""),
        ("/x c 644 0", "table:1: found 4 columns, expected 10"),
        ("/x c 644 0 0 5000 2 - - -", "found device 5000:2"),
        ("/../x c 644 0 0 1 2 - - -", "found . or .."),
        ("/x/y c 644 0 0 1 2 - - -", "t/x: found no such directory, expected one: line 1"),
        ("/x f 644 0 0 - - - - -", "t/x: found no such file, expected one: line 1"),
        ("/file d 755 0 0 - - - - -", "t/file: found it in the tree, and in line 1"),
        ("/file/x c 644 0 0 1 2 - - -", "t/file: found no directory, expected one: line 1"),
    ] {
        bench.put("table", table);
        bench.run(&format!("pack t -o x.ubi {sizes} -D table")).refused(expected);
    }
    assert!(!bench.dir.join("x.ubi").exists() && !Path::new("x.img").exists());
}

#[test]
fn owners_are_those_of_the_tree_unless_told_otherwise() {
    let bench = Bench::new("mkfs-owners");
    fs::create_dir(bench.dir.join("t")).unwrap();
    bench.put("t/file", "1");
    bench.put("table", "/file f 4711 12 34 - - - - -\n/dev d 700 5 6 - - - - -\n/dev/x c 600 7 8 10 3 0 2 2\n");
    let me = fs::metadata(bench.dir.join("t/file")).unwrap();
    let owners = |options: &str| {
        bench.run(&format!("pack t -o o.img --bare --leb-size 126976 -m 2048 --force {options}")).ended(0);
        let bytes = bench.get("o.img");
        let image = Image::new(&bytes);
        image.check();
        let (nodes, _) = image.main();
        let inodes = nodes.iter().filter(|node| node.kind == 0);
        inodes
            .map(|node| ([96, 100, 104].map(|at| int(node.bytes, at, 4)), node.bytes[160..].to_vec()))
            .collect::<Vec<_>>()
    };
    let (uid, gid, mode) = (u64::from(me.uid()), u64::from(me.gid()), u64::from(me.mode()));
    let (first, nothing) = (owners(""), Vec::<u8>::new());
    assert_eq!(first[0], ([uid, gid, mode], nothing.clone()));
    assert_eq!(owners("-U")[0], ([0, 0, mode], nothing.clone()));
    // Children first, names in order; minor numbers 3 and 5 of major 10, as `new_encode_dev` has them.
    let found = owners("-U -D table");
    let expected = [
        ([7, 8, 0o20600], vec![3, 10, 0, 0]),
        ([7, 8, 0o20600], vec![5, 10, 0, 0]),
        ([5, 6, 0o40700], nothing.clone()),
        ([12, 34, 0o104_711], nothing),
    ];
    assert_eq!(found[..4], expected);
}

/// A symbolic link has mode 0777, which the file it leads to does not get.
#[test]
fn the_mode_of_a_link_is_not_that_of_its_target() {
    let bench = Bench::new("mkfs-link-mode");
    shell(&bench, "mkdir -p tree/a; echo 1 >outside; chmod 600 outside; chmod 700 tree/a");
    shell(&bench, "ln -s \"$PWD/outside\" tree/z; ln -s a tree/link");
    bench.run("pack tree -o u.ubifs --bare --leb-size 126976 -m 2048 --max-leb-cnt 300").ended(0);
    bench.run("pack tree -o j.jffs2 --jffs2").ended(0);
    for image in ["u.ubifs", "j.jffs2"] {
        bench.run(&format!("extract {image} -o out-{image}"));
        assert_eq!(shell(&bench, &format!("stat -c %a outside out-{image}/a")), "600\n700\n", "{image}");
    }
}

#[test]
fn extended_attributes_are_counted_as_ubifs_counts_them() {
    let bench = Bench::new("mkfs-xattrs");
    fs::create_dir(bench.dir.join("t")).unwrap();
    bench.put("t/file", "1");
    let values = [("user.b", 0), ("user.long", 700), ("user.a", 8)];
    for (name, len) in values {
        let file = bench.dir.join("t/file");
        rustix::fs::setxattr(&file, name, &vec![7; len], rustix::fs::XattrFlags::empty()).expect("it takes attributes");
    }
    bench.run("pack t -o x.img --bare --leb-size 126976 -m 2048").ended(0);
    let bytes = bench.get("x.img");
    let image = Image::new(&bytes);
    image.check();
    let (nodes, _) = image.main();
    // By `ubifs.h` of Linux: an entry of 57 bytes and the name, an inode of 161 and the value, each rounded up to 8.
    let size: u64 = values
        .iter()
        .map(|(name, len)| (57 + name.len() as u64).next_multiple_of(8) + (161 + *len as u64).next_multiple_of(8))
        .sum();
    let host = nodes.iter().find(|node| node.kind == 0 && int(node.bytes, 116, 4) != 0).expect("the file");
    assert_eq!([116, 120, 128].map(|at| int(host.bytes, at, 4)), [3, size, 6 + 9 + 6]);
    let mut found = Vec::new();
    for entry in nodes.iter().filter(|node| node.kind == 3) {
        assert_eq!(entry.key().0, host.key().0);
        let ino = int(entry.bytes, 40, 8);
        let value = nodes.iter().find(|node| node.kind == 0 && node.key().0 == ino).expect("its inode");
        // Flag 0x20, a regular file with all permissions and one link.
        assert_eq!([92, 104, 108].map(|at| int(value.bytes, at, 4)), [1, 0o100_777, 0x20]);
        assert!(value.bytes[160..].iter().all(|&byte| byte == 7));
        assert_eq!(int(value.bytes, 48, 8), int(value.bytes, 112, 4));
        let name = String::from_utf8_lossy(&entry.bytes[56..entry.bytes.len() - 1]).into_owned();
        found.push((name, int(value.bytes, 112, 4)));
    }
    found.sort();
    assert_eq!(found, [("user.a".to_owned(), 8), ("user.b".to_owned(), 0), ("user.long".to_owned(), 700)]);
}
