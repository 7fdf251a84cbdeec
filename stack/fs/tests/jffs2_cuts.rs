//! What the power cuts of `nandlab cuts experiments/cuts-jffs2.toml` found in JFFS2, each by itself.

use fs::jffs2::check::Class;
use fs::jffs2::media::{DirentNode, Endian, HEADER_BYTES, Header, InodeNode, node_type};
use fs::jffs2::{Compress, Jffs2, Options};
use sim::seam::{FileSystem, Flash, Geometry, Medium, NewInode, Payload, RamFlash, SetXattr};
use sim::{Cx, Peb};

const NAND: Geometry =
    Geometry { medium: Medium::Nand, pebs: 16, peb_bytes: 8192, page_bytes: 512, subpage_bytes: 512, oob_bytes: 16 };
const NOR: Geometry =
    Geometry { medium: Medium::Nor, pebs: 16, peb_bytes: 8192, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 };

/// With summaries nodes are not marked obsolete on NOR either.
fn options(summary: bool) -> Options {
    Options { endian: Some(Endian::Little), summary, compress: Compress::None, ..Options::default() }
}

fn mount(flash: RamFlash, summary: bool) -> Jffs2<RamFlash> {
    Jffs2::mount(flash, &mut Cx::new(), options(summary)).expect("a file system, or an erased flash")
}

/// Garbage collection moves the node that says that a file has an older value of an attribute, and power fails: after the next
/// mount the newer value counts, as before.
#[test]
fn an_older_value_does_not_become_the_newer_one_by_being_moved() {
    let cx = &mut Cx::new();
    let mut fs = mount(RamFlash::new(NAND), false);
    let (root, new) = (fs.root(), NewInode::of_root(0o644));
    let ino = fs.create(cx, root, b"file", new).expect("there is space").ino;
    for value in [&b"older"[..], b"newer"] {
        fs.setxattr(cx, ino, b"user.a", value, SetXattr::Set).expect("there is space");
    }
    // The block is full, and another is written.
    let other = fs.create(cx, root, b"other", new).expect("there is space").ino;
    fs.write(cx, other, 0, Payload::Bytes(&[0x5a; 20_000])).expect("there is space");
    let mut fs = mount(fs.unmount(cx).expect("there is power"), false);
    let mut moved = 0;
    for _ in 0..200 {
        if !fs.collect(cx).expect("there is power") {
            break;
        }
        moved = fs.counters().moved;
        let mut left = fs.clone();
        left.sync(cx).expect("there is power");
        let mut after = mount(left.into_flash(), false);
        let file = after.lookup(cx, root, b"file").expect("it is there").ino;
        assert_eq!(after.getxattr(cx, file, b"user.a").expect("it is there"), b"newer", "{moved} nodes were moved");
    }
    assert!(moved > 8, "{moved}");
}

/// A file and the directory that it was in were removed, and of the nodes of both only the oldest entry is left: its block is
/// erased last. Nobody misses the file.
#[test]
fn a_name_in_a_directory_that_is_gone_is_no_damage() {
    let findings = |is_dir_gone: bool| {
        let cx = &mut Cx::new();
        let mut fs = mount(RamFlash::new(NOR), true);
        let (root, new) = (fs.root(), NewInode::of_root(0o644));
        let dir = fs.mkdir(cx, root, b"dir", new).expect("there is space").ino;
        let file = fs.create(cx, dir, b"file", new).expect("there is space").ino;
        if is_dir_gone {
            fs.unlink(cx, dir, b"file").expect("there is space");
            fs.rmdir(cx, root, b"dir").expect("it is empty");
        }
        let mut flash = fs.unmount(cx).expect("there is power");
        let mut bytes = vec![0; NOR.peb_bytes as usize];
        for peb in (0..NOR.pebs).map(Peb) {
            flash.read(cx, peb, 0, &mut bytes).expect("there is power");
            for at in (0..bytes.len() - HEADER_BYTES).step_by(4) {
                let node = &bytes[at..];
                let is_erased = match Header::read(Endian::Little, node).map(|header| header.node_type) {
                    Ok(node_type::INODE) => {
                        InodeNode::read(Endian::Little, node).is_some_and(|node| u64::from(node.ino) == file.0)
                    }
                    // The removal of the file.
                    Ok(node_type::DIRENT) => DirentNode::read(Endian::Little, node)
                        .is_some_and(|node| node.ino == 0 && u64::from(node.dir) == dir.0),
                    _ => false,
                };
                if is_erased {
                    flash.program(cx, peb, at as u32, Payload::Bytes(&[0; 4])).expect("bits fall");
                }
            }
        }
        let mut fs = mount(flash, true);
        let report = fs.check(cx).expect("there is power");
        report.findings.into_iter().filter(|finding| finding.class == Class::Files).map(|found| found.what).collect()
    };
    let (none, some): (Vec<String>, Vec<String>) = (findings(true), findings(false));
    assert!(none.iter().all(|what| !what.contains("no node")), "{none:?}");
    assert!(some.iter().any(|what| what.contains("of which there is no node")), "{some:?}");
}

/// An erasure that was interrupted left the first bytes of the first page erased, and its clean marker: the block is not free.
#[test]
fn a_block_whose_first_page_is_half_erased_is_erased_again() {
    let cx = &mut Cx::new();
    let mut fs = mount(RamFlash::new(NAND), false);
    while fs.has_work() {
        fs.collect(cx).expect("there is power");
    }
    fs.create(cx, fs.root(), b"file", NewInode::of_root(0o644)).expect("there is space");
    let mut flash = fs.unmount(cx).expect("there is power");
    let mut page = [0xff; 512];
    page[400..].fill(0x0f);
    flash.program(cx, Peb(9), 0, Payload::Bytes(&page)).expect("it is erased");
    let mut fs = mount(flash, false);
    let counts = fs.statistics(cx).expect("there is power").blocks;
    assert_eq!((counts.obsolete, counts.unmarked), (1, 0), "{counts:?}");
    while fs.has_work() {
        fs.collect(cx).expect("there is power");
    }
    let mut erased = [0; 512];
    fs.flash_mut().read(cx, Peb(9), 0, &mut erased).expect("there is power");
    assert_eq!(erased, [0xff; 512]);
}

/// Linux looks at the out-of-band bytes of four pages before it takes a block for erased (`jffs2_check_oob_empty`), its clean
/// marker aside.
#[test]
fn a_block_with_something_out_of_band_is_erased_again() {
    let cx = &mut Cx::new();
    let mut fs = mount(RamFlash::new(NAND), false);
    while fs.has_work() {
        fs.collect(cx).expect("there is power");
    }
    fs.create(cx, fs.root(), b"file", NewInode::of_root(0o644)).expect("there is space");
    let flash = fs.unmount(cx).expect("there is power");
    for (page, at, waiting) in [(0, 7, 1), (1, 15, 1), (3, 0, 1), (4, 0, 0)] {
        let mut flash = flash.clone();
        let mut oob = [0xff; 16];
        oob[at] = 0x7f;
        flash.program_oob(cx, Peb(9), page * 512, &oob).expect("it is erased");
        let mut fs = mount(flash, false);
        let counts = fs.statistics(cx).expect("there is power").blocks;
        assert_eq!((counts.unmarked, counts.free), (waiting, 15 - waiting), "page {page}: {counts:?}");
    }
}

fn contents(flash: &mut RamFlash) -> Vec<Vec<u8>> {
    let all = (0..NAND.pebs).map(|peb| {
        let mut bytes = vec![0; NAND.peb_bytes as usize];
        flash.read(&mut Cx::new(), Peb(peb), 0, &mut bytes).expect("there is power");
        bytes
    });
    all.collect()
}

/// The number of names in the directory `dir` after a mount that does or does not look behind summaries.
fn names(flash: &RamFlash, verify_summary: bool) -> usize {
    let (cx, mut count) = (&mut Cx::new(), 0);
    let mut fs = Jffs2::mount(flash.clone(), cx, Options { verify_summary, ..options(true) }).expect("a file system");
    let dir = fs.lookup(cx, fs.root(), b"dir").expect("it stays where it is").ino;
    let mut add = |_: sim::seam::Dirent<'_>| {
        count += 1;
        true
    };
    fs.readdir(cx, dir, 0, &mut add).expect("there is power");
    count
}

/// An erasure leaves the second half of its block, and with it a summary of names that garbage collection copied elsewhere as
/// they are. Who believes it loses them, as Linux does
/// (`linux_loses_names_to_the_summary_of_a_block_that_is_half_erased` in `lab/cli/tests/guest`).
#[test]
fn the_summary_of_a_half_erased_block_costs_no_name_where_it_is_verified() {
    let cx = &mut Cx::new();
    let mut fs = mount(RamFlash::new(NAND), true);
    while fs.has_work() {
        fs.collect(cx).expect("there is power");
    }
    let (root, new) = (fs.root(), NewInode::of_root(0o644));
    let dir = fs.mkdir(cx, root, b"dir", new).expect("there is space").ino;
    let ino = fs.create(cx, root, b"file", new).expect("there is space").ino;
    for number in 0..30 {
        fs.create(cx, dir, format!("name {number:02}").as_bytes(), new).expect("there is space");
        fs.write(cx, ino, 0, Payload::Bytes(&[b'x'; 700])).expect("there is space");
    }
    // The directory is not in memory from now on, so that its names are copied with their versions.
    let mut fs = mount(fs.unmount(cx).expect("there is power"), true);
    let (mut halves, mut losses) = (0, 0);
    for _ in 0..600 {
        fs.write(cx, ino, 0, Payload::Bytes(&[b'x'; 700])).expect("there is space");
        let before = contents(fs.flash_mut());
        if fs.has_work() {
            fs.collect(cx).expect("there is power");
        }
        let after = contents(fs.flash_mut());
        let erased = (0..).zip(&before).zip(&after).find(|((_, before), after)| {
            before.iter().any(|&byte| byte != 0xff) && after.iter().all(|&byte| byte == 0xff)
        });
        let Some(((block, old), _)) = erased else { continue };
        let (mut flash, half) = (fs.flash().clone(), NAND.peb_bytes / 2);
        let left = Payload::Bytes(&old[half as usize..]);
        flash.erase(cx, Peb(block)).expect("there is power");
        flash.program(cx, Peb(block), half, left).expect("it is erased");
        assert_eq!(names(&flash, true), 30, "block {block}");
        halves += 1;
        losses += u32::from(names(&flash, false) < 30);
    }
    assert!(halves > 20 && losses > 0, "{halves} blocks were half erased, {losses} cost a name");
}
