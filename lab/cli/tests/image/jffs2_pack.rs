//! Images that `nandlab image pack --jffs2` made, as mkfs.jffs2, sumtool and jffs2dump of mtd-utils see them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rustix::fs::{XattrFlags, setxattr};

use super::files::{is_root, listing, shell};
use super::jffs2::{comes_back, crc, mkfs, small_tree, xattrs};
use super::support::{Bench, noise};

/// The nodes that jffs2dump lists, by type; it must find no wrong CRC.
fn dumped(bench: &Bench, order: &str, image: &str) -> BTreeMap<String, Vec<String>> {
    let said = shell(bench, &format!("jffs2dump -c {order} {image} 2>&1"));
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in said.lines() {
        // What says nothing of a node is free space, or the rest of a name with a line feed.
        assert!(!["Wrong", "Invalid", "Unknown", "error"].iter().any(|word| line.contains(word)), "{image}: {line}");
        if let Some((kind, rest)) = line.split_once("node at ") {
            found.entry(kind.trim().to_owned()).or_default().push(rest.to_owned());
        }
    }
    found
}

/// Names of the entries that jffs2dump lists.
fn names(dump: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let name = |line: &String| line.split_once(", name ").expect("an entry has a name").1.to_owned();
    let mut names: Vec<String> = dump["Dirent"].iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn the_files_are_those_of_the_tree_and_of_the_image_of_mkfs() {
    let bench = Bench::new("jffs2-pack");
    small_tree(&bench);
    let expected = listing(&bench, "tree");
    for (ours, theirs, block) in [
        ("", "-l", 64 << 10),
        ("--big-endian -p 16KiB --pad", "-b -e 16KiB -p", 16 << 10),
        ("-p 128KiB --no-cleanmarkers", "-l -e 128KiB -n", 128 << 10),
        ("-b -n -p 126976 --compress smallest", "-b -n -e 126976 -m size -X lzo", 126_976),
        ("-p 16KiB --compress none --pad 2MiB", "-l -e 16KiB -m none -p2MiB", 16 << 10),
        ("-b -p 32KiB --compress lzo --cleanmarker-size 16", "-b -e 32KiB -X lzo -x zlib -x rtime -c 16", 32 << 10),
        ("--compress rtime --page-size 16384", "-l -x zlib -s 16384", 64 << 10),
        ("--compress lzo --page-size 65536 -p 128KiB", "-l -X lzo -x zlib -x rtime -e 128KiB", 128 << 10),
    ] {
        bench.run(&format!("pack tree -o o.jffs2 --jffs2 --force {ours}")).ended(0);
        mkfs(&bench, theirs, "t.jffs2");
        comes_back(&bench, "t.jffs2", "", &expected);
        // Where no node says how large a block is.
        let given = if ours.contains("-n") { format!("--peb-size {block}") } else { String::new() };
        comes_back(&bench, "o.jffs2", &given, &expected);
        let info = bench.run(&format!("info o.jffs2 --json {given}")).ended(0).json()["jffs2"].clone();
        assert_eq!(info["block_bytes"], block, "{ours}");
        let order = &theirs[..2];
        let (o, t) = (dumped(&bench, order, "o.jffs2"), dumped(&bench, order, "t.jffs2"));
        let found = shell(&bench, "find tree -mindepth 1 -printf x").len();
        assert!(names(&o).len() == found && names(&o) == names(&t), "{ours}");
    }
}

/// With summaries jffs2dump counts their entries, and sumtool writes the same files anew.
#[test]
fn summaries_are_those_of_sumtool() {
    let bench = Bench::new("jffs2-pack-summary");
    small_tree(&bench);
    let expected = listing(&bench, "tree");
    for (ours, order, block) in
        [("", "-l", "64KiB"), ("-b --pad 1MiB", "-b", "16KiB"), ("-n --pad", "-l", "128KiB"), ("-n -b", "-b", "32KiB")]
    {
        bench.run(&format!("pack tree -o o.jffs2 --jffs2 --force --summary -p {block} {ours}")).ended(0);
        comes_back(&bench, "o.jffs2", "", &expected);
        let info = bench.run("info o.jffs2 --json").ended(0).json()["jffs2"].clone();
        assert_eq!(info["block_bytes_why"], "by a summary", "{ours}");
        let markers = if ours.contains("-n") { "-n" } else { "" };
        shell(&bench, &format!("sumtool {order} -e {block} {markers} -i o.jffs2 -o s.jffs2"));
        comes_back(&bench, "s.jffs2", "", &expected);
        let (o, s) = (dumped(&bench, order, "o.jffs2"), dumped(&bench, order, "s.jffs2"));
        assert_eq!(info["summaries"].as_u64(), Some(o["Inode Sum"].len() as u64), "{ours}");
        // A summary counts the nodes that jffs2dump finds in its block.
        let bytes = info["block_bytes"].as_u64().unwrap();
        let place = |line: &str| u64::from_str_radix(&line[2..10], 16).expect("a line begins with its place");
        for line in &o["Inode Sum"] {
            let (_, count) = line.split_once(", sum_num").expect("a count");
            let count: usize = count.split(',').next().unwrap().trim().parse().unwrap();
            let is_in = |other: &&String| place(other) / bytes == place(line) / bytes;
            assert_eq!(count, o["Inode"].iter().chain(&o["Dirent"]).filter(is_in).count(), "{ours}: {line}");
        }
        assert_eq!(o["Inode"].len(), s["Inode"].len(), "{ours}");
    }
}

/// Inode nodes of files of one directory, whose times are all 0: byte for byte those of mkfs.jffs2.
#[test]
fn nodes_are_those_of_mkfs() {
    let bench = Bench::new("jffs2-pack-nodes");
    shell(&bench, "mkdir tree; cd tree; echo hi >a; : >b; ln -s a c; mkfifo d; chmod 4711 a; seq 3000 >e; chmod 600 e");
    bench.put("tree/f", noise(70_001, 3));
    if is_root() {
        shell(&bench, "cd tree; mknod g b 8 1; chown 5:6 b; chown -h 7:8 c");
    }
    shell(&bench, "find tree -exec touch -h -d @0 {} +");
    for (order, endian) in [("-l", ""), ("-b", "--big-endian")] {
        mkfs(&bench, &format!("{order} -f -m none -e 1MiB"), "t.jffs2");
        bench.run(&format!("pack tree -o o.jffs2 --jffs2 --force -p 1MiB --compress none {endian}")).ended(0);
        let [ours, theirs] = ["o.jffs2", "t.jffs2"].map(|image| inodes(&bench.get(image), order == "-b"));
        // Of the root directory mkfs.jffs2 writes no node, and of a device it says that it has bytes.
        let only: Vec<_> = ours.difference(&theirs).map(|node| (node[12..16].to_vec(), node.len())).collect();
        assert!(only.len() <= 2 && theirs.len() > 20, "{order}: {only:?} of {}", theirs.len());
        assert_eq!(theirs.difference(&ours).count(), only.len() - 1, "{order}");
    }
}

/// The inode nodes of an image.
fn inodes(image: &[u8], is_big: bool) -> BTreeSet<Vec<u8>> {
    let word = |at: usize| {
        let bytes = image[at..at + 4].try_into().unwrap();
        if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let magic: [u8; 4] = if is_big { [0x19, 0x85, 0xe0, 0x02] } else { [0x85, 0x19, 0x02, 0xe0] };
    let is_node = |&at: &usize| image[at..].starts_with(&magic) && crc(&image[at..at + 8]) == word(at + 8);
    let begins = (0..image.len() - 12).step_by(4).filter(is_node);
    begins.map(|at| image[at..at + word(at + 4) as usize].to_vec()).collect()
}

/// jffs2dump writes an image in the other byte order: as if it had been packed so.
#[test]
fn byte_orders_are_those_of_jffs2dump() {
    let bench = Bench::new("jffs2-pack-orders");
    small_tree(&bench);
    shell(&bench, "cd tree; rm -f block char");
    for more in ["", "--pad 2MiB", "-n --compress none"] {
        bench.run(&format!("pack tree -o little --jffs2 --force {more}")).ended(0);
        bench.run(&format!("pack tree -o big --jffs2 --force --big-endian {more}")).ended(0);
        // The image is read in the order that -l or -b says, and written in the other one.
        shell(&bench, "rm -f o*; jffs2dump -l -e o1 little; cmp o1 big; jffs2dump -b -e o2 big; cmp o2 little");
    }
}

#[test]
fn extended_attributes_and_access_control_lists_come_back() {
    let bench = Bench::new("jffs2-pack-xattrs");
    small_tree(&bench);
    let no_flags = XattrFlags::empty();
    for (name, attribute, len) in
        [("text", "user.one", 300), ("text", "user.two", 0), ("a", "user.one", 5), ("nothing", "user.one", 5)]
    {
        setxattr(bench.dir.join("tree").join(name), attribute, &noise(len, 4), no_flags).expect("it takes them");
    }
    let entry = |tag: u8, permissions: u8, id: u32| [&[tag, 0, permissions, 0][..], &id.to_le_bytes()].concat();
    let (all, named) = (u32::MAX, 1234);
    let list = [vec![2, 0, 0, 0], entry(1, 6, all), entry(2, 4, named), entry(4, 4, all), entry(0x10, 4, all)].concat();
    let list = [list, entry(0x20, 0, all)].concat();
    setxattr(bench.dir.join("tree/short"), "system.posix_acl_access", &list, no_flags).expect("it takes lists");
    setxattr(bench.dir.join("tree/a"), "system.posix_acl_default", &list, no_flags).expect("it takes lists");
    shell(&bench, "find tree -exec touch -h -d @1234567890 {} +; touch -d @0 tree");
    let (expected, values) = (listing(&bench, "tree"), xattrs(&bench, "tree"));
    assert_eq!(values.len(), 4);
    for (ours, order) in [("", "-l"), ("--big-endian --summary -p 16KiB", "-b")] {
        bench.run(&format!("pack tree -o o.jffs2 --jffs2 --force {ours}")).ended(0);
        comes_back(&bench, "o.jffs2", "", &expected);
        assert_eq!(xattrs(&bench, "out"), values, "{order}");
        if is_root() {
            for (name, attribute) in [("short", "system.posix_acl_access"), ("a", "system.posix_acl_default")] {
                let mut value = [0; 100];
                let len = rustix::fs::getxattr(bench.dir.join("out").join(name), attribute, &mut value[..]);
                assert_eq!(len.map(|len| value[..len].to_vec()), Ok(list.clone()), "{order} {name}");
            }
        }
        // Equal attributes are one node, as in mkfs.jffs2.
        mkfs(&bench, &format!("{order} --with-xattr"), "t.jffs2");
        let count = |image: &str, kind: u16| {
            let kind = if order == "-b" { kind.to_be_bytes() } else { kind.to_le_bytes() };
            let magic = if order == "-b" { [0x19, 0x85] } else { [0x85, 0x19] };
            bench.get(image).chunks(4).filter(|&word| word == [magic, kind].concat()).count()
        };
        assert_eq!(count("o.jffs2", 0xe008), count("t.jffs2", 0xe008), "{order}");
        // That a file has an attribute mkfs.jffs2 says once for each of its names.
        assert_eq!((count("o.jffs2", 0xe009), count("t.jffs2", 0xe009)), (6, 8), "{order}");
    }
}

#[test]
fn devices_of_a_table_are_packed() {
    if !is_root() {
        // To extract devices takes root.
        return;
    }
    let bench = Bench::new("jffs2-pack-table");
    shell(&bench, "mkdir -p tree/dev; echo 1 >tree/file");
    let table = "/dev/console c 600 1 2 5 1 - - -\n/dev/sd b 640 0 6 8 0 0 1 3\n/dev/pipe p 622 3 4 - - - - -\n\
                 /file f 640 9 8 - - - - -\n";
    bench.put("table", table);
    for (ours, theirs) in [("", "-l"), ("--big-endian", "-b")] {
        bench.run(&format!("pack tree -o o.jffs2 --jffs2 --force -D table {ours} --squash-uids")).ended(0);
        mkfs(&bench, &format!("{theirs} -D table -U"), "t.jffs2");
        let of = |image: &str| {
            let _ = fs::remove_dir_all(bench.dir.join("out"));
            bench.run(&format!("extract {image} -o out")).ended(0);
            shell(&bench, "cd out; find . -mindepth 1 | sort | xargs stat -c '%n %F %a %u %g %t %T'")
        };
        let found = of("o.jffs2");
        assert_eq!(found, of("t.jffs2"), "{theirs}");
        assert!(found.contains("console character special file 600 1 2 5 1"), "{found}");
    }
}

/// Holes stay, where mkfs.jffs2 writes zeroes.
#[test]
fn holes_stay_holes() {
    let bench = Bench::new("jffs2-pack-holes");
    shell(
        &bench,
        "mkdir tree; cd tree; truncate -s 30M hole; printf x | dd of=hole bs=1 seek=20000001 conv=notrunc 2>/dev/null
        head -c 20000 /dev/zero >zeroes; printf 'end' >>zeroes; find . -exec touch -d @99 {} +",
    );
    let expected = listing(&bench, "tree");
    bench.run("pack tree -o o.jffs2 --jffs2").ended(0);
    comes_back(&bench, "o.jffs2", "", &expected);
    assert!(bench.get("o.jffs2").len() < 2000, "{}", bench.get("o.jffs2").len());
    dumped(&bench, "-l", "o.jffs2");
}

#[test]
fn the_same_tree_gives_the_same_image() {
    let bench = Bench::new("jffs2-pack-same");
    small_tree(&bench);
    shell(&bench, "cp -a tree copy; find tree copy -name 'file1*' -exec cat {} + >/dev/null");
    for more in ["", "--summary --big-endian --pad 4MiB"] {
        bench.run(&format!("pack tree -o a.jffs2 --jffs2 --force {more}")).ended(0);
        bench.run(&format!("pack copy -o b.jffs2 --jffs2 --force {more}")).ended(0);
        assert!(bench.get("a.jffs2") == bench.get("b.jffs2"), "{more}");
    }
}

/// What follows the last node is as mkfs.jffs2 has it.
#[test]
fn padding_is_that_of_mkfs() {
    let bench = Bench::new("jffs2-pack-pad");
    shell(&bench, "mkdir tree; seq 9999 >tree/a; touch -d @0 tree/a tree");
    for (ours, theirs, len) in [
        ("--pad", "-p", 65_536),
        ("--pad 320KiB", "-p327680", 327_680),
        ("--pad 320KiB -n", "-p327680 -n", 327_680),
        ("--pad 320KiB --cleanmarker-size 20 -b", "-p327680 -c 20 -b", 327_680),
    ] {
        bench.run(&format!("pack tree -o o.jffs2 --jffs2 --force {ours}")).ended(0);
        mkfs(&bench, &format!("-l {theirs}"), "t.jffs2");
        let (o, t) = (bench.get("o.jffs2"), bench.get("t.jffs2"));
        assert_eq!((o.len(), t.len()), (len, len), "{ours}");
        assert!(o[65_536..] == t[65_536..], "{ours}");
    }
}

#[test]
fn refusals_name_the_place_and_the_remedy() {
    let bench = Bench::new("jffs2-pack-refusals");
    shell(&bench, "mkdir -p tree/d; seq 99999 >tree/d/a; mkdir names links; : >file");
    shell(&bench, "touch names/$(printf 'n%.0s' $(seq 1 255)); ln -s $(printf 'y%.0s' $(seq 1 255)) links/l");
    let pack = |args: &str| bench.run(&format!("pack {args} -o o.jffs2"));
    pack("tree --jffs2 -m 2048").refused("--min-io-size: found it with --jffs2");
    pack("tree --jffs2 --image-seq 3").refused("--image-seq: found it with --jffs2");
    pack("tree --jffs2 --fanout 8").refused("--fanout: found an option of UBIFS with --jffs2");
    pack("tree --jffs2 --compress zstd").refused("--compress: found what only UBIFS has");
    pack("tree -p 128KiB -m 2048 --compress rtime").refused("--compress: found what only JFFS2 has");
    pack("file --jffs2").refused("file: found no directory");
    pack("tree --jffs2 --pad 100000").refused("--pad: found 100000 bytes, expected whole eraseblocks of 65536");
    pack("tree --jffs2 --pad 64KiB").refused("expected at most 65536");
    pack("tree --jffs2 -p 2048").refused("peb_size is 2048, expected 4096 bytes to 16 MiB");
    pack("tree --jffs2 --page-size 5000").refused("page_size is 5000");
    pack("tree --jffs2 --cleanmarker-size 8").refused("cleanmarker_size is 8");
    pack("names --jffs2").refused("bytes of a name: found 255, expected at most 254");
    pack("links --jffs2").refused("links/l: bytes of a link's target: found 255, expected at most 254");
    bench.run("pack tree --jffs2 -o tree/o.jffs2").refused("inside of the tree");
    bench.run("pack tree --big-endian -p 64KiB -m 1 -o o.jffs2").ended(2);
    shell(&bench, "truncate -s 2G tree/large");
    pack("tree --jffs2").refused("tree/large: bytes of a file: found 2147483648, expected at most 2147483647");
    if is_root() {
        shell(&bench, "rm tree/large; chown 70000 tree/d/a");
        pack("tree --jffs2").refused("tree/d/a: number of an owner: found 70000, expected at most 65535");
        pack("tree --jffs2 --squash-uids").ended(0);
    }
    assert!(is_root() || !Path::new(&bench.dir.join("o.jffs2")).exists());
}
