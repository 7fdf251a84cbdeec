//! `nandlab mount --rw` of JFFS2: what programs write in the directory is in the image afterwards.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;

use super::files::{listing, shell};
use super::jffs2::{comes_back, mkfs, small_tree};
use super::mount::{Mount, refused};
use super::support::{Bench, noise, with_oob};

/// Panics if jffs2dump of mtd-utils finds a wrong CRC.
fn is_whole(bench: &Bench, order: &str, image: &str) {
    let said = shell(bench, &format!("jffs2dump -c {order} {image} 2>&1"));
    assert!(said.contains("Inode ") && !said.contains("Wrong"), "{image}: {said}");
}

/// The tree is copied into empty file systems by `cp`, and extracted from what is left in the image.
#[test]
fn what_is_copied_into_a_mount_is_in_the_image() {
    let bench = Bench::new("mount-jffs2-copy");
    small_tree(&bench);
    shell(&bench, "mkdir empty; find tree -type s -delete; find tree -type d -exec touch -d @1234567890 {} +");
    let expected = listing(&bench, "tree");
    bench.run("pack empty -o nor.jffs2 --jffs2 --pad 4MiB").ended(0);
    bench.run("pack empty -o big.jffs2 --jffs2 --big-endian -p 16KiB").ended(0);
    bench.run("pack empty -o nand.jffs2 --jffs2 -n -p 128KiB --pad").ended(0);
    bench.run("pack empty -o base.jffs2 --jffs2 --pad 4MiB").ended(0);
    // A clean marker in the OOB, as Linux writes it.
    let marker = [&[0xff, 0xff, 0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0][..], &[0xff; 54]].concat();
    let block = bench.get("nand.jffs2");
    let dump = [with_oob(&block[..2048], 2048, &marker), with_oob(&block[2048..], 2048, &[0xff; 64])].concat();
    bench.put("oob.bin", dump);
    let sizes = "--peb-size 128KiB --page-size 2048";
    for (image, geometry, options, order, unit) in [
        ("nor.jffs2", "", "", "-l", "of 64 eraseblocks changed, written to nor.jffs2"),
        ("big.jffs2", "--peb-size 16KiB", "--pebs 256", "-b", "of 256 eraseblocks changed, written to big.jffs2"),
        ("nand.jffs2", sizes, "--pebs 32", "-l", "of 32 eraseblocks changed"),
        ("oob.bin", &format!("{sizes} --oob-size 64"), "--pebs 32", "", "of 32 eraseblocks changed"),
        ("base.jffs2", "", "--overlay o.ov", "", "of 64 eraseblocks changed, written to o.ov"),
    ] {
        let mount = Mount::new(&bench, &format!("{image} m --rw {geometry} {options}"));
        shell(&bench, "cp -a tree/. m/; sync m/text");
        mount.umount();
        let (code, said, errors) = mount.ended();
        assert!(code == Some(0) && !errors.contains("error"), "{image}: {errors}");
        assert!(said.contains(unit), "{image}: {said}");
        if options.contains("overlay") {
            let before = bench.get(image);
            let mount = Mount::new(&bench, &format!("{image} m --overlay o.ov"));
            shell(&bench, "cmp tree/text m/text; cmp tree/random m/random; test \"$(cat m/a/b/third)\" = short");
            mount.umount();
            mount.ends();
            assert!(bench.get(image) == before);
            continue;
        }
        comes_back(&bench, image, geometry, &expected);
        if !order.is_empty() {
            is_whole(&bench, order, image);
        }
    }
}

/// What a shell changes in images of mkfs.jffs2 and sumtool is what it changes in the tree.
#[test]
fn images_of_mkfs_are_changed() {
    let bench = Bench::new("mount-jffs2-change");
    for (order, block, summary) in [("-l", "64KiB", false), ("-b", "16KiB", true), ("-b", "64KiB", false)] {
        shell(&bench, "rm -rf tree");
        small_tree(&bench);
        mkfs(&bench, &format!("{order} -e {block} -p3MiB"), "i.jffs2");
        if summary {
            shell(&bench, &format!("sumtool {order} -e {block} -p -i i.jffs2 -o s.jffs2; mv s.jffs2 i.jffs2"));
        }
        let changes = "rm many/file1* random; rm -r a/b; mv text a/moved; echo more >>short; chmod 600 nothing
            ln nothing a/other; mkdir -p new/deep; seq 20000 >new/deep/numbers; ln -s ../a new/link; truncate -s 5 a/second
            printf x | dd of=a/moved bs=1 seek=100000 conv=notrunc 2>/dev/null; rm 'just-below'; mkfifo new/fifo
            find . -exec touch -h -d @1234567890 {} +; touch -d @0 .";
        let mount = Mount::new(&bench, &format!("i.jffs2 m --rw --peb-size {block} --pebs 256"));
        shell(&bench, &format!("cd m; {changes}"));
        mount.umount();
        let (code, _, errors) = mount.ended();
        assert!(code == Some(0) && errors.is_empty(), "{order}: {errors}");
        shell(&bench, &format!("cd tree; {changes}"));
        comes_back(&bench, "i.jffs2", &format!("--peb-size {block}"), &listing(&bench, "tree"));
        is_whole(&bench, order, "i.jffs2");
    }
}

/// More is written than the flash has, so that garbage is collected, while the mount is used and while it is idle.
#[test]
fn garbage_is_collected() {
    let bench = Bench::new("mount-jffs2-garbage");
    shell(&bench, "mkdir tree; echo stays >tree/old; touch -d @1 tree tree/old");
    bench.run("pack tree -o i.jffs2 --jffs2 --pad 1MiB").ended(0);
    let mount = Mount::new(&bench, "i.jffs2 m --rw");
    for round in 0..8 {
        bench.put("random", noise(400_001, round));
        shell(&bench, "cp random m/file; sync m/file; cmp random m/file; sleep 0.2");
    }
    let said = shell(&bench, "cat random random random 2>&1 >m/full || true");
    assert!(said.contains("No space left on device"), "{said}");
    shell(&bench, "rm m/full; cmp random m/file; test $(cat m/old) = stays");
    mount.signal("-INT");
    let (code, said, errors) = mount.ended();
    assert!(code == Some(0) && said.contains("of 16 eraseblocks changed"), "{said} {errors}");
    bench.run("extract i.jffs2 -o out").ended(0);
    shell(&bench, "cmp random out/file; test $(cat out/old) = stays; test ! -e out/full");
    assert!(bench.run("check i.jffs2").ended(0).stdout.contains("0 errors, 0 warnings"));
    is_whole(&bench, "-l", "i.jffs2");
}

/// A signal in the middle of writing: what was written until then is there, and the file system is whole.
#[test]
fn a_mount_that_is_taken_away_from_a_writer_is_unmounted_cleanly() {
    let bench = Bench::new("mount-jffs2-taken");
    shell(&bench, "mkdir empty");
    bench.run("pack empty -o i.jffs2 --jffs2 -n -p 128KiB --pad 2MiB").ended(0);
    let mut mount = Mount::new(&bench, "i.jffs2 m --rw --peb-size 128KiB --page-size 2048");
    let open = File::create(bench.dir.join("m/log")).unwrap();
    open.write_all_at(b"written", 0).unwrap();
    fs::write(bench.dir.join("m/gone"), "x").unwrap();
    let unnamed = File::open(bench.dir.join("m/gone")).unwrap();
    fs::remove_file(bench.dir.join("m/gone")).unwrap();
    mount.signal("-INT");
    let mut errors = BufReader::new(mount.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("is still mounted") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0);
    }
    mount.signal("-TERM");
    assert_eq!(mount.child.wait().unwrap().code(), Some(0));
    assert!(open.write_all_at(b"lost", 0).is_err());
    drop((open, unnamed));
    assert_eq!(bench.run("cat i.jffs2 /log --peb-size 128KiB").ended(0).stdout, "written");
    bench.run("cat i.jffs2 /gone --peb-size 128KiB").refused("found no \"/gone\"");
    let checked = bench.run("check i.jffs2 --peb-size 128KiB").ended(0).stdout;
    assert!(checked.contains("0 errors, 0 warnings"), "{checked}");
}

#[test]
fn what_cannot_be_written_is_named_with_a_remedy() {
    let bench = Bench::new("mount-jffs2-refusals");
    shell(&bench, "mkdir tree");
    bench.put("tree/random", noise(700_000, 1));
    bench.run("pack tree -o cut.jffs2 --jffs2").ended(0);
    bench.run("pack tree -o full.jffs2 --jffs2 --pad").ended(0);
    bench.run("pack tree -o nand.jffs2 --jffs2 -n --pad 2MiB").ended(0);
    shell(&bench, "rm tree/random; echo 1 >tree/a");
    bench.run("pack tree -o small.jffs2 --jffs2 --pad 192KiB").ended(0);
    let whole = bench.get("cut.jffs2");
    bench.put("torn.jffs2", &whole[..whole.len() - 30]);
    for (args, expected) in [
        ("cut.jffs2 m --rw", "it ends inside eraseblock 10, as mkfs.jffs2 writes it, and has no room for changes"),
        ("cut.jffs2 m --rw --pebs 5", "--pebs: found 5, expected at least the 11 eraseblocks of the image"),
        ("cut.jffs2 m --rw --pebs 65536", "--pebs: found 65536 of 65536 bytes, expected less than 4 GiB together"),
        ("cut.jffs2 m --rw --pebs 20 --page-size 3", "page_bytes"),
        ("cut.jffs2 m --rw --pebs 20 --page-size 128KiB", "expected whole pages"),
        ("cut.jffs2 m --rw --pebs 11", "found 0 free eraseblocks: JFFS2 writes with 3 or more"),
        ("full.jffs2 m --rw", "found 0 free eraseblocks"),
        ("nand.jffs2 m --rw --peb-size 64KiB", "found no clean markers and no OOB"),
        ("small.jffs2 m --rw", "found 3 eraseblocks of 65536 bytes, expected 5 eraseblocks"),
        ("torn.jffs2 m --rw --pebs 20", "the image is cut off: 30 bytes of its last node are missing"),
        ("small.jffs2 m --rw --pebs 9 --bad-blocks 30", "found block 30, expected less than the 9"),
        ("small.jffs2 m --rw --pebs 9 --ecc bch", "expected an image that is only read"),
    ] {
        refused(&bench, args, expected);
    }
    assert!(bench.get("cut.jffs2") == whole);
    let mount = Mount::new(&bench, "cut.jffs2 m --rw --pebs 20");
    shell(&bench, "echo 2 >m/b");
    mount.umount();
    mount.ends();
    assert_eq!(bench.get("cut.jffs2").len(), 20 << 16);
    assert_eq!(bench.run("cat cut.jffs2 b").ended(0).stdout, "2\n");
}
