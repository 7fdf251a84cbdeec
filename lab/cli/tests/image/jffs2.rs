//! Files of JFFS2 images that mkfs.jffs2 and sumtool made: extracted, listed, printed, checked; whole, damaged and hostile.

use std::path::Path;

use super::files::{is_root, listing, shell, tree};
use super::support::{Bench, noise, with_oob};

/// Runs mkfs.jffs2, which must be installed, on the tree. Its options say the byte order.
pub fn mkfs(bench: &Bench, options: &str, image: &str) {
    shell(bench, &format!("mkfs.jffs2 -r tree {options} -o {image}"));
}

/// A tree that JFFS2 holds: names below 255 bytes, targets of links too.
pub fn small_tree(bench: &Bench) {
    tree(bench);
    shell(bench, &format!("cd tree; rm long-link; rm {}; echo long >{}", "n".repeat(255), "n".repeat(254)));
    shell(bench, "cd tree; ln -s \"$(printf 'y%.0s' $(seq 1 254))\" long-link");
    if is_root() {
        // mkfs.jffs2 writes numbers of devices in 2 bytes.
        shell(bench, "cd tree; rm char; mknod char c 250 255");
    }
    // JFFS2 has no fractions of seconds, and a directory the time of the newest of its names, which mkfs.jffs2 takes of the file.
    // Of the root it writes no node: Linux gives it mode 0755 and no time.
    shell(bench, "find tree -exec touch -h -d @1234567890 {} +; touch -d @0 tree");
}

pub fn xattrs(bench: &Bench, dir: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for name in ["text", "a", "nothing"] {
        let path = bench.dir.join(dir).join(name);
        for attribute in ["user.one", "user.two", "user.none"] {
            let mut value = vec![0; 70_000];
            if let Ok(len) = rustix::fs::getxattr(&path, attribute, &mut value[..]) {
                value.truncate(len);
                found.push((format!("{name} {attribute}"), value));
            }
        }
    }
    found
}

/// Extracts the image and compares the files with the tree.
pub fn comes_back(bench: &Bench, image: &str, options: &str, expected: &str) {
    let _ = std::fs::remove_dir_all(bench.dir.join("out"));
    let ran = bench.run(&format!("extract {image} -o out {options}")).ended(0);
    assert!(!ran.stderr.contains("not restored"), "{image}: {}", ran.stderr);
    assert_eq!(listing(bench, "out"), expected, "{image}");
    let ran = bench.run(&format!("check {image} {options}")).ended(0);
    assert!(ran.stdout.contains("0 errors, 0 warnings"), "{image}: {}", ran.stdout);
}

#[test]
fn every_file_of_an_image_of_mkfs_comes_back() {
    let bench = Bench::new("jffs2-round");
    small_tree(&bench);
    let expected = listing(&bench, "tree");
    for (options, endian, block, compression) in [
        ("-l -e 16KiB", "little", 16 << 10, "zlib"),
        ("-b -e 64KiB -p", "big", 64 << 10, "zlib"),
        ("-l -e 128KiB -n", "little", 128 << 10, "zlib"),
        ("-b -e 16KiB -n -p", "big", 16 << 10, "zlib"),
        ("-b -e 128KiB -m none", "big", 128 << 10, "none"),
        ("-l -e 64KiB -X lzo -x zlib", "little", 64 << 10, "lzo"),
        ("-b -e 64KiB -x zlib -x lzo -p", "big", 64 << 10, "rtime"),
        ("-l -e 126976 -n", "little", 126_976, "zlib"),
        ("-l -e 64KiB -s 16384 -p2MiB", "little", 64 << 10, "zlib"),
    ] {
        mkfs(&bench, options, "i.jffs2");
        comes_back(&bench, "i.jffs2", "", &expected);
        let said = bench.run("info i.jffs2 --json").ended(0).json();
        let info = &said["jffs2"];
        assert_eq!((&info["endian"], &info["block_bytes"]), (&endian.into(), &block.into()), "{options}");
        assert_eq!((&info["block_bytes_given"], &info["summaries"]), (&false.into(), &0.into()), "{options}");
        let packed = info["compression"].as_array().unwrap();
        assert!(packed.iter().any(|one| one["name"] == compression), "{options}: {packed:?}");
        // Bytes of files and targets of links; the number of a device takes 2.
        let sizes = "find tree \\( -type f -o -type l \\) -printf '%i %s\\n' -o -type b -printf '%i 2\\n' -o -type c -printf '%i 2\\n'";
        let whole = shell(&bench, &format!("{sizes} | sort -u | awk '{{sum += $2}} END {{print sum}}'"));
        let bytes = |key: &str| packed.iter().map(|one| one[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(bytes("bytes").to_string(), whole.trim(), "{options}");
        assert!((compression == "none") == (bytes("packed_bytes") == bytes("bytes")), "{options}");
        let found: u64 = shell(&bench, "find tree -mindepth 1 -printf x").len() as u64;
        assert_eq!(info["names"], found, "{options}");
        let inodes = shell(&bench, "find tree -printf '%i\\n' | sort -u | wc -l");
        assert_eq!(info["inodes"].to_string(), inodes.trim(), "{options}");
        // The size that was given counts, where it can.
        let given = bench.run(&format!("info i.jffs2 --peb-size {block}")).ended(0).stdout;
        assert!(given.contains(", given\n") && given.contains(&format!("{endian}-endian")), "{given}");
    }
    bench.run("info i.jffs2 --peb-size 100").refused("PEB size 100 was given, expected 4096 bytes to 16 MiB");
}

#[test]
fn summaries_are_read() {
    let bench = Bench::new("jffs2-summaries");
    small_tree(&bench);
    let expected = listing(&bench, "tree");
    for (order, block, more) in
        [("-l", "64KiB", ""), ("-b", "16KiB", "-p"), ("-l", "128KiB", "-n -p"), ("-b", "32KiB", "-n")]
    {
        mkfs(&bench, &format!("{order} -e {block}"), "i.jffs2");
        shell(&bench, &format!("sumtool {order} -e {block} {more} -i i.jffs2 -o s.jffs2"));
        comes_back(&bench, "s.jffs2", "", &expected);
        let info = bench.run("info s.jffs2 --json").ended(0).json()["jffs2"].clone();
        assert_eq!(info["block_bytes_why"], "by a summary", "{order} {block}");
        // The last block is not full, and has none.
        assert_eq!(info["summaries"].as_u64().unwrap() + 1, info["blocks"].as_u64().unwrap(), "{order} {block}");
        // A summary that is damaged: every node of its block is looked at.
        let mut bytes = bench.get("s.jffs2");
        let size = info["block_bytes"].as_u64().unwrap() as usize;
        bytes[size - 20] ^= 1;
        bench.put("d.jffs2", &bytes);
        let _ = std::fs::remove_dir_all(bench.dir.join("out"));
        bench.run("extract d.jffs2 -o out");
        assert_eq!(listing(&bench, "out"), expected, "{order} {block}");
    }
}

#[test]
fn extended_attributes_come_back() {
    let bench = Bench::new("jffs2-xattrs");
    small_tree(&bench);
    for (name, attribute, len) in [("text", "user.one", 300), ("text", "user.two", 0), ("a", "user.one", 5)] {
        let path = bench.dir.join("tree").join(name);
        rustix::fs::setxattr(&path, attribute, &noise(len, 4), rustix::fs::XattrFlags::empty()).expect("it takes them");
    }
    shell(&bench, "find tree -exec touch -h -d @1234567890 {} +; touch -d @0 tree");
    let (expected, values) = (listing(&bench, "tree"), xattrs(&bench, "tree"));
    assert_eq!(values.len(), 3);
    for order in ["-l", "-b"] {
        mkfs(&bench, &format!("{order} --with-xattr"), "i.jffs2");
        shell(&bench, &format!("sumtool {order} -e 64KiB -i i.jffs2 -o s.jffs2"));
        for image in ["i.jffs2", "s.jffs2"] {
            comes_back(&bench, image, "", &expected);
            assert_eq!(xattrs(&bench, "out"), values, "{order} {image}");
        }
        let all = bench.run("ls i.jffs2 / --json").ended(0).json();
        let text = all["files"].as_array().unwrap().iter().find(|file| file["path"] == "text").unwrap().clone();
        assert_eq!(text["xattrs"].as_array().unwrap().len(), 2);
    }
}

/// Access control lists are on flash in a format of JFFS2.
#[test]
fn access_control_lists_come_back() {
    let bench = Bench::new("jffs2-acl");
    shell(&bench, "mkdir -p tree/dir; echo 1 >tree/file; chmod 640 tree/file");
    let entry = |tag: u8, permissions: u8, id: u32| [&[tag, 0, permissions, 0][..], &id.to_le_bytes()].concat();
    let (all, named) = (u32::MAX, 1234);
    let list = [
        vec![2, 0, 0, 0],
        entry(1, 6, all),
        entry(2, 4, named),
        entry(4, 4, all),
        entry(16, 4, all),
        entry(32, 0, all),
    ];
    let (list, flags) = (list.concat(), rustix::fs::XattrFlags::empty());
    let attributes = [("file", "system.posix_acl_access"), ("dir", "system.posix_acl_default")];
    for (name, attribute) in attributes {
        if rustix::fs::setxattr(bench.dir.join("tree").join(name), attribute, &list, flags).is_err() {
            return;
        }
    }
    for order in ["-l", "-b"] {
        mkfs(&bench, &format!("{order} --with-posix-acl"), "i.jffs2");
        bench.run("extract i.jffs2 -o out --force").ended(0);
        for (name, attribute) in attributes {
            let mut value = vec![0; 1000];
            let len = rustix::fs::getxattr(bench.dir.join("out").join(name), attribute, &mut value[..]);
            assert_eq!(len.map(|len| value[..len].to_vec()), Ok(list.clone()), "{order} {name}");
        }
    }
}

#[test]
fn devices_of_a_table_come_back() {
    if !is_root() {
        return;
    }
    let bench = Bench::new("jffs2-table");
    shell(&bench, "mkdir -p tree/dev");
    let table = "/dev/console c 600 1 2 5 1 - - -\n/dev/sd b 640 0 6 8 0 0 1 3\n/dev/pipe p 622 3 4 - - - - -\n";
    bench.put("table", table);
    for order in ["l", "b"] {
        mkfs(&bench, &format!("-{order} -D table"), "i.jffs2");
        bench.run(&format!("extract i.jffs2 -o {order}")).ended(0);
        let found = shell(&bench, &format!("cd {order}/dev; stat -c '%n %F %a %u %g %t %T' *"));
        let expected = "console character special file 600 1 2 5 1\npipe fifo 622 3 4 0 0\nsd0 block special file 640 0 6 8 0\n\
                        sd1 block special file 640 0 6 8 1\nsd2 block special file 640 0 6 8 2\n";
        assert_eq!(found, expected);
        let all = bench.run("ls i.jffs2 dev --json").ended(0).json();
        let sd = all["files"].as_array().unwrap().iter().find(|file| file["path"] == "sd1").unwrap().clone();
        assert_eq!(sd["device"], serde_json::json!([8, 1]));
    }
}

#[test]
fn a_volume_of_ubi_with_jffs2_is_read() {
    let bench = Bench::new("jffs2-ubi");
    small_tree(&bench);
    let expected = listing(&bench, "tree");
    for order in ["-l", "-b"] {
        mkfs(&bench, &format!("{order} -e 126976 -n"), "i.jffs2");
        bench.put("u.ini", "[v]\nmode=ubi\nimage=i.jffs2\nvol_id=3\nvol_name=logs\nvol_size=4MiB\n");
        bench.ubinize("-p 128KiB -m 2048 -o u.ubi u.ini").ended(0);
        comes_back(&bench, "u.ubi", "", &expected);
        let info = bench.run("info u.ubi --json").ended(0).json();
        let volume = &info["volumes"][0];
        assert_eq!((&volume["holds"], &volume["ubifs"]), (&"jffs2".into(), &serde_json::Value::Null));
        assert_eq!(volume["jffs2"]["block_bytes"], 126_976);
        assert!(bench.run("info u.ubi").ended(0).stdout.contains("JFFS2 in volume 3 (logs)"));
        assert_eq!(bench.run("cat u.ubi a/b/third").ended(0).stdout, "short");
        bench.run("extract u.ubi -o raw --raw --force").ended(0);
        assert!(bench.get("raw/3-logs.img").starts_with(&bench.get("i.jffs2")));
        // The first LEB was erased since.
        let nodes = bench.get("i.jffs2");
        bench.put("late.jffs2", [vec![0xff; 126_976], nodes].concat());
        bench.put("u.ini", "[v]\nmode=ubi\nimage=late.jffs2\nvol_id=3\nvol_name=logs\nvol_size=4MiB\n");
        bench.ubinize("-p 128KiB -m 2048 -o late.ubi u.ini").ended(0);
        comes_back(&bench, "late.ubi", "", &expected);
    }
}

#[test]
fn a_dump_with_oob_or_a_part_of_one_is_read() {
    let bench = Bench::new("jffs2-dump");
    small_tree(&bench);
    let expected = listing(&bench, "tree");
    mkfs(&bench, "-b -e 128KiB -n -p", "i.jffs2");
    let (plain, block) = (bench.get("i.jffs2"), 128 << 10);
    // A clean marker in the OOB, and what ECC leaves there.
    let oob = [&[0xff, 0xff, 0x19, 0x85, 0x20, 0x03, 0, 0, 0, 8][..], &[0xaa; 54]].concat();
    bench.put("oob.bin", with_oob(&plain, 2048, &oob));
    comes_back(&bench, "oob.bin", "", &expected);
    comes_back(&bench, "oob.bin", "--page-size 2048 --oob-size 64 --peb-size 128KiB", &expected);
    assert!(bench.run("info oob.bin").ended(0).stdout.contains("OOB of 64 bytes per 2048-byte page"));
    // What is in a bad block does not count: its mark is in the OOB, or it is listed.
    let bad = [plain.clone(), vec![0xff; 8 * block], noise(block, 3)].concat();
    let number = bad.len() / block - 1;
    bench.put("bad.bin", &bad);
    bench.run("check bad.bin --peb-size 128KiB").ended(1);
    comes_back(&bench, "bad.bin", &format!("--peb-size 128KiB --bad-blocks {number}"), &expected);
    let mut dump = with_oob(&bad, 2048, &oob);
    bench.put("bad.bin", &dump);
    let options = "--page-size 2048 --oob-size 64 --peb-size 128KiB";
    bench.run(&format!("check bad.bin {options}")).ended(1);
    dump[number * 64 * 2112 + 2048] = 0;
    bench.put("bad.bin", &dump);
    comes_back(&bench, "bad.bin", options, &expected);
    let info = bench.run(&format!("info bad.bin --json {options}")).ended(0).json();
    assert_eq!((&info["jffs2"]["bad_blocks"], &info["jffs2"]["free_blocks"]), (&1.into(), &8.into()));
    bench.put("part.bin", [noise(3 * block, 1), vec![0xff; block], plain.clone(), noise(block, 2)].concat());
    comes_back(&bench, "part.bin", &format!("--offset {} --length {}", 3 * block, block + plain.len()), &expected);
    // Wrong bits that the code bytes correct.
    bench.put("erased.bin", [plain.clone(), vec![0xff; block]].concat());
    bench
        .run("convert --to oob --page-size 2048 --oob-size 64 --peb-size 128KiB --ecc bch:4 erased.bin ecc.bin")
        .ended(0);
    let mut dump = bench.get("ecc.bin");
    (0..40).for_each(|page| dump[page * 2112 + 300] ^= 0x11);
    bench.put("ecc.bin", &dump);
    comes_back(&bench, "ecc.bin", "--ecc bch:4 --page-size 2048 --oob-size 64", &expected);
    (0..6).for_each(|byte| dump[3 * 2112 + 100 + byte] ^= 0xff);
    bench.put("lost.bin", &dump);
    let ran = bench.run("info lost.bin --ecc bch:4 --page-size 2048 --oob-size 64").ended(1);
    assert!(ran.stderr.contains("more wrong bits than bch:4/512 corrects"), "{}", ran.stderr);
}

#[test]
fn files_are_listed_and_printed() {
    let bench = Bench::new("jffs2-list");
    small_tree(&bench);
    mkfs(&bench, "-l", "l.jffs2");
    let all = bench.run("ls l.jffs2 --recursive --json").ended(0).json();
    let files = all["files"].as_array().unwrap().clone();
    assert_eq!(files.len(), shell(&bench, "find tree -mindepth 1 -printf x").len());
    let of = |path: &str| files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("no {path}"));
    assert_eq!((&of("/short")["nlink"], &of("/short")["size"]), (&3.into(), &5.into()));
    assert_eq!(of("/a/second")["inode"], of("/short")["inode"]);
    assert_eq!(of("/a/link")["target"], "../short");
    assert_eq!((&of("/just-below")["mode"], &of("/empty")["mode"]), (&"4751".into(), &"1777".into()));
    assert_eq!(of("/text")["mtime"]["seconds"], 1_234_567_890);
    assert!(bench.run("cat l.jffs2 text").ended(0).stdout.as_bytes() == bench.get("tree/text"));
    assert_eq!(bench.run("cat l.jffs2 a/link").ended(0).stdout, "../short\n");
    bench.run("cat l.jffs2 a/b").refused("found a directory");
    bench.run("cat l.jffs2 a/none").refused("found no \"a/none\"");
    bench.run("cat l.jffs2 short/x").refused("found no \"short/x\"");
}

/// CRC-32 as JFFS2 has it, bit by bit: written for the test, the code under test takes no part.
pub fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}

/// A node of a little-endian image.
struct Node {
    at: usize,
    len: usize,
    kind: u16,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn nodes(image: &[u8]) -> Vec<Node> {
    let is_node =
        |at: &usize| image[*at..].starts_with(&[0x85, 0x19]) && crc(&image[*at..at + 8]) == word(image, at + 8);
    let begins = (0..image.len() - 12).step_by(4).filter(is_node);
    let kind = |at: usize| u16::from_le_bytes([image[at + 2], image[at + 3]]);
    begins.map(|at| Node { at, len: word(image, at + 4) as usize, kind: kind(at) }).collect()
}

fn entry(image: &[u8], name: &[u8]) -> Node {
    let is = |node: &Node| node.kind == 0xe001 && &image[node.at + 40..node.at + node.len] == name;
    nodes(image).into_iter().find(is).expect("there is an entry of this name")
}

fn seal_entry(image: &mut [u8], node: &Node) {
    for (from, to, at) in [(0, 32, 32), (40, node.len, 36)] {
        let sum = crc(&image[node.at + from..node.at + to]);
        image[node.at + at..node.at + at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

#[test]
fn nothing_is_written_outside_of_the_directory() {
    let bench = Bench::new("jffs2-attack");
    shell(
        &bench,
        "mkdir -p tree/ab tree/dir; echo evil >tree/ab/cd; echo evil >tree/dir/abcdefghi; echo fine >tree/good; ln -s /tmp tree/to",
    );
    mkfs(&bench, "-l", "good.jffs2");
    let good = bench.get("good.jffs2");
    for (case, old, new, from) in [
        ("parent", &b"ab"[..], &b".."[..], "/.."),
        ("path", b"abcdefghi", b"../../bad", "/dir/../../bad"),
        ("absolute", b"abcdefghi", b"/tmp/bad1", "/dir//tmp/bad1"),
        ("link", b"abcdefghi", b"../to/bad", "/dir/../to/bad"),
    ] {
        let mut image = good.clone();
        let node = entry(&image, old);
        image[node.at + 40..][..new.len()].copy_from_slice(new);
        seal_entry(&mut image, &node);
        bench.put("bad.jffs2", &image);
        std::fs::create_dir_all(bench.dir.join(case)).unwrap();
        let ran = bench.run(&format!("extract bad.jffs2 -o {case}/in/out")).ended(1);
        assert!(ran.stderr.contains(&format!("not restored: {from}: its name is no name of a file")), "{}", ran.stderr);
        assert_eq!(bench.names(case), ["in"]);
        assert_eq!(bench.names(&format!("{case}/in")), ["out"]);
        assert!(bench.get(&format!("{case}/in/out/good")) == b"fine\n");
        assert!(!Path::new("/tmp/bad1").exists() && !Path::new("/tmp/bad").exists());
    }
    // A directory that is its own child ends.
    let mut image = good;
    let node = entry(&image, b"ab");
    let dir = image[node.at + 12..node.at + 16].to_vec();
    image[node.at + 20..node.at + 24].copy_from_slice(&dir);
    seal_entry(&mut image, &node);
    bench.put("loop.jffs2", &image);
    bench.run("extract loop.jffs2 -o loop").ended(1);
    bench.run("check loop.jffs2").ended(1);
}

#[test]
fn what_is_damaged_is_named_and_the_rest_comes_back() {
    let bench = Bench::new("jffs2-damage");
    shell(&bench, "mkdir tree; echo fine >tree/good; ln -s to tree/link; echo 1 >tree/other");
    bench.put("tree/data", noise(20_000, 3));
    mkfs(&bench, "-l -e 64KiB -n -p", "good.jffs2");
    let good = bench.get("good.jffs2");
    // The third node of the file of five.
    let is_part = |node: &&Node| node.kind == 0xe002 && word(&good, node.at + 44) == 8192;
    let found = nodes(&good);
    let node = found.iter().find(is_part).unwrap();
    let place = |node: &Node| format!("eraseblock {} offset {}", node.at >> 16, node.at & 0xffff);
    let mut image = good.clone();
    image[node.at + 1000] ^= 1;
    bench.put("data.jffs2", &image);
    let ran = bench.run("extract data.jffs2 -o data").ended(1);
    assert!(ran.stderr.contains("not restored: /data: bytes 8192 to 12287 are missing"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("not restored").count(), 1, "{}", ran.stderr);
    let (whole, part) = (bench.get("tree/data"), bench.get("data/data"));
    assert!(whole[..8192] == part[..8192] && whole[12288..] == part[12288..] && part[8192..12288] == [0; 4096]);
    assert!(bench.get("data/good") == b"fine\n");
    bench.run("cat data.jffs2 data").refused("bytes 8192 to 12287 are missing");
    assert_eq!(bench.run("cat data.jffs2 good").ended(0).stdout, "fine\n");
    let ran = bench.run("check data.jffs2").ended(1);
    assert!(ran.stdout.contains(&format!("error[jffs2-data] {}: inode", place(node))), "{}", ran.stdout);

    let changed = |name: &str, change: &dyn Fn(&mut Vec<u8>), checked: &[&str], extracted: &[&str]| {
        let mut image = good.clone();
        change(&mut image);
        bench.put(name, &image);
        let ran = bench.run(&format!("check {name}")).ended(1);
        checked.iter().for_each(|error| assert!(ran.stdout.contains(error), "{name}: {}", ran.stdout));
        let ran = bench.run(&format!("extract {name} -o {name}.out")).ended(1);
        extracted.iter().for_each(|error| assert!(ran.stderr.contains(error), "{name}: {}", ran.stderr));
    };
    changed(
        "no-inode",
        &|image| {
            let node = entry(image, b"good");
            image[node.at + 20..node.at + 24].copy_from_slice(&9999_u32.to_le_bytes());
            seal_entry(image, &node);
        },
        &["name \"good\" leads to inode 9999, of which there is no node", "1 inodes have no name"],
        &["not restored: /good: inode 9999, which it names, has no node"],
    );
    changed(
        "type",
        &|image| {
            let node = entry(image, b"good");
            image[node.at + 29] = 10;
            seal_entry(image, &node);
        },
        &["is a Regular, its name says Symlink"],
        &["not restored: /good: its entry names a symlink, its inode is a file: restored as that"],
    );
    changed(
        "entry",
        &|image| {
            let node = entry(image, b"good");
            image[node.at + 41] ^= 1;
        },
        &["a directory entry whose CRC or length is wrong"],
        &["a directory entry whose CRC or length is wrong: what it said is missing"],
    );
    changed(
        "inode",
        &|image| image[node.at + 20] ^= 1,
        &["an inode node whose CRC or length is wrong"],
        &["an inode node whose CRC or length is wrong: what it said is missing"],
    );
    changed(
        "header",
        &|image| image[node.at + 5] ^= 1,
        &["bytes that are no node"],
        &["bytes that are no node: what it said is missing"],
    );
    changed(
        "compression",
        &|image| {
            image[node.at + 56] = 8;
            let sum = crc(&image[node.at..node.at + 60]).to_le_bytes();
            image[node.at + 64..node.at + 68].copy_from_slice(&sum);
        },
        &["data compressed by 8"],
        &["not restored: /data: bytes 8192 to 12287 are missing", "data compressed by 8"],
    );
}

/// The last node of a dump after a loss of power: its end was not written any more.
#[test]
fn an_image_whose_first_node_is_damaged_is_still_one_of_jffs2() {
    let bench = Bench::new("jffs2-first-node");
    shell(&bench, "mkdir tree; echo fine >tree/good");
    bench.put("tree/data", noise(9000, 5));
    // One block, so that no other one begins with a node either.
    for (order, first) in [("-l", 0), ("-b", 1)] {
        mkfs(&bench, &format!("{order} -e 64KiB -n"), "one.jffs2");
        let mut image = bench.get("one.jffs2");
        image[first] ^= 1;
        bench.put("one.jffs2", &image);
        let ran = bench.run("check one.jffs2").ended(1);
        assert!(ran.stdout.contains("error[jffs2-node] eraseblock 0 offset 0: "), "{}", ran.stdout);
    }
}

#[test]
fn a_node_that_was_cut_off_by_a_loss_of_power_is_a_warning() {
    let bench = Bench::new("jffs2-torn");
    shell(&bench, "mkdir tree");
    bench.put("tree/data", noise(20_000, 3));
    mkfs(&bench, "-l -e 64KiB -n -p", "i.jffs2");
    let mut image = bench.get("i.jffs2");
    let last = nodes(&image).into_iter().rfind(|node| node.kind == 0xe002).unwrap();
    image[last.at + 1000..].fill(0xff);
    bench.put("i.jffs2", &image);
    let ran = bench.run("check i.jffs2").ended(0);
    assert!(ran.stdout.contains("warning[jffs2-data]") && ran.stdout.contains("a loss of power"), "{}", ran.stdout);
    // What came before is there.
    bench.run("extract i.jffs2 -o out").ended(0);
    assert!(bench.get("out/data") == bench.get("tree/data")[..16_384]);
}

#[test]
fn an_image_that_is_cut_off_is_not_taken_for_a_loss_of_power() {
    let bench = Bench::new("jffs2-cut");
    shell(&bench, "mkdir tree");
    bench.put("tree/data", noise(20_000, 3));
    mkfs(&bench, "-l -e 64KiB", "i.jffs2");
    let image = bench.get("i.jffs2");
    let last = nodes(&image).into_iter().rfind(|node| node.kind == 0xe002).unwrap();
    bench.put("i.jffs2", &image[..last.at + 1000]);
    let missing = last.len - 1000;
    let ran = bench.run("check i.jffs2").ended(1);
    let expected =
        format!("error[jffs2-truncated]: the image ends inside a node, of which {missing} bytes are missing");
    assert!(ran.stdout.contains(&expected), "{}", ran.stdout);
    let ran = bench.run("extract i.jffs2 -o out").ended(1);
    assert!(ran.stderr.contains(&format!("not restored: /: the image is cut off: {missing} bytes")), "{}", ran.stderr);
    assert_eq!(bench.run("info i.jffs2 --json").ended(0).json()["jffs2"]["missing_bytes"], missing);
}

/// Random damage, with checksums that fit and without: every command ends in order.
#[test]
fn damaged_images_end_in_order() {
    let bench = Bench::new("jffs2-random");
    small_tree(&bench);
    mkfs(&bench, "-l -e 16KiB --with-xattr", "i.jffs2");
    shell(&bench, "sumtool -l -e 16KiB -i i.jffs2 -o s.jffs2");
    let mut rng = sim::Seed(3).stream("test/damage");
    for round in 0..16 {
        let mut image = bench.get(if round % 2 == 0 { "i.jffs2" } else { "s.jffs2" });
        let found = nodes(&image);
        for _ in 0..20 {
            let node = &found[rng.below(found.len() as u64) as usize];
            let field = 12 + 4 * rng.below(13) as usize;
            if node.at + field + 4 > image.len() {
                continue;
            }
            let value = [rng.bits() as u32, u32::MAX, 0, 1 << 31, 4096][rng.below(5) as usize];
            image[node.at + field..][..4].copy_from_slice(&value.to_le_bytes());
            let seals: &[(usize, usize)] = match node.kind {
                0xe001 => &[(32, 32)],
                0xe002 => &[(60, 64)],
                0xe008 => &[(28, 28)],
                0xe009 => &[(24, 24)],
                0x2006 => &[(24, 28)],
                _ => &[],
            };
            for &(covers, at) in seals.iter().filter(|(covers, at)| node.len >= covers.max(at) + 4) {
                let sum = crc(&image[node.at..node.at + covers]);
                image[node.at + at..][..4].copy_from_slice(&sum.to_le_bytes());
            }
        }
        bench.put("d.jffs2", &image);
        for command in ["info", "ls --recursive", "check", "extract -o out --force"] {
            let ran = bench.run(&format!("{command} d.jffs2"));
            assert!(matches!(ran.code, Some(0..=2)), "round {round}: {:?} {}", ran.code, ran.stderr);
        }
    }
}
