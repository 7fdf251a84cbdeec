//! Rules of JFFS2 at their limits: thresholds just before and at them, and nodes on flash that no call of this crate left so.

use sim::seam::{
    FileSystem, Flash, FsError, Geometry, Ino, Medium, NewInode, Payload, RamFlash, ReadInto, SetAttr, SetXattr,
    Timestamp,
};
use sim::{Cx, Ns, Peb};

mod found;
mod room;

use super::blocks::{List, NodeState};
use super::media::{DirentNode, HEADER_BYTES, Header, InodeNode, clean_marker};
use super::space::{Purpose, Wanted};
use super::*;

const BLOCK: u32 = 65_536;
const NAND: Geometry =
    Geometry { medium: Medium::Nand, pebs: 16, peb_bytes: BLOCK, page_bytes: 512, subpage_bytes: 512, oob_bytes: 16 };
const NOR: Geometry =
    Geometry { medium: Medium::Nor, pebs: 8, peb_bytes: 4096, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 };
const NEW: NewInode = NewInode::of_root(0o644);

fn mount(flash: RamFlash, options: Options) -> (Jffs2<RamFlash>, Cx) {
    let mut cx = Cx::new();
    let fs = Jffs2::mount(flash, &mut cx, options).expect("it can be mounted");
    (fs, cx)
}

/// A file system of which every block is free.
fn erased(geometry: Geometry) -> (Jffs2<RamFlash>, Cx) {
    let (mut fs, mut cx) = mount(RamFlash::new(geometry), Options { compress: Compress::None, ..Options::default() });
    while fs.has_work() {
        fs.collect(&mut cx).expect("there is power");
    }
    assert_eq!(fs.free_blocks(), geometry.pebs);
    (fs, cx)
}

/// Fills a free block: `dirty` bytes of it are obsolete, the others in use or unchecked.
fn take(fs: &mut Jffs2<RamFlash>, state: NodeState, dirty: u32) -> u32 {
    let block = fs.blocks.first(List::Free).expect("a block is free");
    let whole = fs.blocks.at(block).sizes.free;
    fs.blocks.put(block, List::Next);
    if dirty < whole {
        fs.blocks.add(block, whole - dirty, state, Owner::None);
    }
    fs.blocks.add_dirt(block, dirty);
    fs.blocks.close(block);
    block
}

fn take_all_but(fs: &mut Jffs2<RamFlash>, free: u32) {
    while fs.free_blocks() > free {
        take(fs, NodeState::Pristine, 0);
    }
}

/// Whether garbage is collected for a writer. `open`: free bytes of the block that is written; `blocks`: obsolete bytes of
/// others, the rest of which is in some state; as many are free as `free` says, and the last are in use.
fn collects(free: u32, open: u32, blocks: &[(NodeState, u32)]) -> Result<bool, FsError> {
    let (mut fs, mut cx) = erased(NAND);
    for &(state, dirty) in blocks {
        take(&mut fs, state, dirty);
    }
    take_all_but(&mut fs, free + u32::from(open > 0));
    if open > 0 {
        let block = fs.blocks.first(List::Free).expect("one is left");
        fs.blocks.put(block, List::Next);
        fs.blocks.add(block, BLOCK - open, NodeState::Pristine, Owner::None);
    }
    let room = fs.reserve(&mut cx, Wanted::inode(100), Purpose::Write);
    let collects = fs.counters.foreground > 0;
    if collects { Ok(true) } else { Ok(room.map(|_| false)?) }
}

/// By hand, of 16 blocks of 64 KiB: writes leave 3 free ones. With fewer than 65,536 + 10,485 obsolete bytes, or with 3 blocks
/// or less in all that are not in use, garbage collection is not worth it.
#[test]
fn garbage_is_collected_for_a_writer_if_there_is_enough_of_it() {
    use NodeState::{Pristine, Unchecked};
    assert_eq!(collects(3, 0, &[]), Ok(false));
    assert_eq!(collects(2, 0, &[]), Err(FsError::NoSpace));
    assert_eq!(collects(2, 65_000, &[(Pristine, BLOCK), (Pristine, 10_484)]), Err(FsError::NoSpace));
    assert_eq!(collects(2, 65_000, &[(Pristine, BLOCK), (Pristine, 10_485)]), Ok(true));
    // What no one has checked since the mount may turn out to be obsolete.
    assert_eq!(collects(2, 65_000, &[(Unchecked, 30_000), (Pristine, 10_485)]), Ok(true));
    assert_eq!(collects(2, 0, &[(Pristine, BLOCK), (Pristine, BLOCK - 1)]), Err(FsError::NoSpace));
    assert_eq!(collects(2, 0, &[(Pristine, BLOCK), (Pristine, BLOCK)]), Ok(true));
}

#[test]
fn a_deletion_may_take_all_but_two_free_blocks() {
    for (free, is_granted) in [(2, true), (1, false)] {
        let (mut fs, mut cx) = erased(NAND);
        take_all_but(&mut fs, free);
        let room = fs.reserve(&mut cx, Wanted::dirent(b"name"), Purpose::Deletion).map_err(FsError::from);
        assert_eq!(room, if is_granted { Ok(BLOCK) } else { Err(FsError::NoSpace) });
    }
}

/// By hand, of 16 blocks of 64 KiB: with fewer than 4 free ones and more than 76,021 obsolete bytes, or with 4 very dirty ones.
#[test]
fn the_thread_wakes_for_few_free_blocks_or_many_very_dirty_ones() {
    let has_work = |free: u32, dirt: &[u32]| {
        let (mut fs, _) = erased(NAND);
        for &dirty in dirt {
            take(&mut fs, NodeState::Pristine, dirty);
        }
        take_all_but(&mut fs, free);
        fs.has_work()
    };
    assert!(!has_work(3, &[BLOCK, 10_485]));
    assert!(has_work(3, &[BLOCK, 10_486]));
    assert!(!has_work(4, &[BLOCK, 10_486]));
    assert!(!has_work(8, &[BLOCK / 2; 3]));
    assert!(!has_work(8, &[BLOCK / 2 - 4; 4]));
    assert!(has_work(8, &[BLOCK / 2; 4]));
}

/// Linux empties a block with a failed program before others as long as any block is free.
#[test]
fn a_block_with_a_failed_program_is_collected_first_unless_no_block_is_free() {
    for free in [0, 1] {
        let (mut fs, mut cx) = erased(NAND);
        let failed = fs.blocks.first(List::Free).expect("all are");
        fs.blocks.put(failed, List::Next);
        fs.blocks.add(failed, 100, NodeState::Normal, Owner::None);
        let how = fs.obsoleting(&cx);
        fs.blocks.give_up(failed, how);
        assert_eq!(fs.blocks.at(failed).list, List::BadUsed);
        let dirty = take(&mut fs, NodeState::Normal, 40_000);
        take_all_but(&mut fs, free);
        fs.collect(&mut cx).expect("what nobody owns is just dropped");
        let collected = |block: u32| fs.blocks.at(block).list != List::BadUsed && fs.blocks.at(block).sizes.used == 0;
        assert_eq!((collected(failed), collected(dirty)), (free == 1, free == 0), "{free} free");
    }
}

/// By hand, of `calc_wheel_index`, with 100 ticks a second, the first of which is a multiple of 8: a timer of less than 63 ticks ends with the tick
/// behind its last, one of less than 504 with the next multiple of 8 behind it.
#[test]
fn timers_end_with_ticks_of_linux() {
    let (fs, _) = erased(NAND);
    let (ms, tick) = (|ms: u64| Ns(ms * 1_000_000), 10);
    for (from, span, end) in [
        (0, 50, 6 * tick),
        (9, 50, 6 * tick),
        (10, 50, 7 * tick),
        (0, 620, 63 * tick),
        (0, 630, 64 * tick),
        (10, 620, 64 * tick),
        (10, 630, 72 * tick),
        (0, 5_000, 504 * tick),
        (40, 5_000, 512 * tick),
    ] {
        assert_eq!(fs.timer_ends(ms(from), ms(span)), ms(end), "{span} ms from {from} ms on");
    }
}

/// What `jiffies % 128` was in a kernel of 100 ticks a second when it chose a block, so long after it had booted.
#[test]
fn the_tick_counts_from_the_boot_as_in_linux() {
    let mut cx = Cx::new();
    cx.wait_until(Ns(1_000_000_000_000));
    let fs = Jffs2::mount(RamFlash::new(NOR), &mut cx, Options::default()).expect("it can be mounted");
    let booted = cx.now();
    for (ns, tick) in [(360_000_187, 116), (1_795_054_844, 3), (2_893_794_558, 113), (3_839_997_888, 79)] {
        cx.wait_until(Ns(booted.0 + ns));
        assert_eq!(fs.tick(&cx) % 128, tick, "after {ns} ns");
    }
}

/// A node of an inode: a regular file with mode 0644, or its data.
fn inode_node(ino: u32, version: u32, offset: u32, data: &[u8]) -> Vec<u8> {
    let (mut out, len) = (Vec::new(), data.len() as u32);
    let node =
        InodeNode { ino, version, mode: 0o100_644, size: offset + len, offset, unpacked: len, ..InodeNode::default() };
    node.write(Endian::Little, data, &mut out);
    out
}

/// An entry of the root directory for a regular file.
fn entry(version: u32, name: &[u8], ino: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let node = DirentNode { dir: 1, version, ino, time: 100, kind: 8, ..DirentNode::default() };
    node.write(Endian::Little, name, &mut out);
    out
}

/// The same node, marked obsolete: bit 13 of its type is cleared.
fn obsolete(mut node: Vec<u8>) -> Vec<u8> {
    node[3] &= !0x20;
    node
}

/// A NOR flash with nodes behind the clean markers of its first blocks.
fn image(blocks: &[&[Vec<u8>]]) -> RamFlash {
    let mut flash = RamFlash::new(NOR);
    for (peb, nodes) in (0..).map(Peb).zip(blocks) {
        let (mut at, marker) = (0, clean_marker(Endian::Little, false));
        for node in std::iter::once(&marker).chain(*nodes) {
            flash.program(&mut Cx::new(), peb, at, Payload::Bytes(node)).expect("it is erased");
            at += (node.len() as u32).next_multiple_of(4);
        }
    }
    flash
}

fn contents(fs: &mut Jffs2<RamFlash>, cx: &mut Cx, name: &[u8]) -> Result<Vec<u8>, FsError> {
    let attr = fs.lookup(cx, Ino(1), name)?;
    let mut bytes = vec![0xee; attr.size as usize];
    fs.read(cx, attr.ino, 0, ReadInto::Bytes(&mut bytes))?;
    Ok(bytes)
}

/// Linux writes on in the block with most room, if it has more than two inode nodes need: 136 bytes. The first of two with as
/// much room stays.
#[test]
fn a_mount_writes_on_in_the_block_with_most_room_if_it_is_worth_it() {
    // 12 bytes of the marker, an entry of 44, an obsolete node of 100, one of 68 with its data, and what is free.
    let block = |ino: u32, free: usize| {
        let data = vec![7; 4096 - 12 - 44 - 100 - 68 - free];
        [entry(ino, &[b'a' + ino as u8], ino), obsolete(inode_node(9, 1, 0, &[0; 32])), inode_node(ino, 1, 0, &data)]
    };
    let next = |free: &[usize]| {
        let blocks: Vec<_> = (2..).zip(free).map(|(ino, &free)| block(ino, free)).collect();
        let blocks: Vec<&[Vec<u8>]> = blocks.iter().map(|nodes| &nodes[..]).collect();
        mount(image(&blocks), Options::default()).0.blocks.first(List::Next)
    };
    assert_eq!(next(&[136]), None);
    assert_eq!(next(&[140]), Some(0));
    assert_eq!(next(&[140, 140]), Some(0));
    assert_eq!(next(&[140, 144, 136]), Some(1));
}

/// Nobody reads the data of a node all of which newer ones have, so that nobody misses them either.
#[test]
fn an_older_node_that_is_covered_is_not_damage() {
    let mut old = inode_node(2, 1, 0, b"old bytes");
    old[68] ^= 1;
    for (new, damaged) in [(&b"new bytes"[..], 0), (b"new byte", 1)] {
        let flash = image(&[&[entry(1, b"a", 2), old.clone(), inode_node(2, 2, 0, new)]]);
        let (mut fs, mut cx) = mount(flash, Options::default());
        assert_eq!(contents(&mut fs, &mut cx, b"a").expect("it is there"), new);
        assert_eq!(fs.counters.damaged, damaged, "{} bytes are newer", new.len());
    }
}

/// `NAME_MAX` of Linux's VFS is 255, JFFS2 has 254, and as many for the target of a symbolic link.
#[test]
fn names_and_targets_have_254_bytes_at_most() {
    let (mut fs, mut cx) = erased(NAND);
    let long = [b'n'; 255];
    fs.create(&mut cx, Ino(1), &long[..254], NEW).expect("it is short enough");
    assert_eq!(fs.create(&mut cx, Ino(1), &long, NEW).unwrap_err().errno(), 36);
    fs.symlink(&mut cx, Ino(1), b"link", &long[..254], NEW).expect("it is short enough");
    assert_eq!(fs.symlink(&mut cx, Ino(1), b"long", &long, NEW).unwrap_err().errno(), 36);
}

/// Linux's limit for file systems without large files is 2^31 - 1 bytes: a write up to there is cut short, one from there on
/// fails with `EFBIG`.
#[test]
fn a_file_ends_below_two_gigabytes() {
    let (mut fs, mut cx) = erased(NAND);
    let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    assert_eq!(fs.write(&mut cx, file, 0x7fff_ffff, Payload::Bytes(b"x")).unwrap_err().errno(), 27);
    assert_eq!(fs.write(&mut cx, file, 0x7fff_fffd, Payload::Bytes(b"xyz")), Ok(2));
    assert_eq!(fs.getattr(&mut cx, file).map(|attr| attr.size), Ok(0x7fff_ffff));
}

/// By hand, of `jffs2_lzo_compress` and `jffs2_compress`: LZO's are kept if they are not longer, where the shortest is sought only if they
/// are shorter. Linux 6.12 writes 49 bytes of LZO for 49 (`tests/linux/nodes/jffs2.rs`).
#[test]
fn data_that_become_longer_are_left_as_they_are() {
    let mut as_long = 0;
    for (len, seed) in (32..64).flat_map(|len| (0..60).map(move |seed| (len, seed))) {
        let mut rng = sim::Seed(seed).stream("words");
        let words =
            std::iter::from_fn(|| Some([&b"journal "[..], b"index ", b"garbage ", b"leaf "][rng.below(4) as usize]));
        let data: Vec<u8> = words.flatten().copied().take(len).collect();
        let mut out = vec![0; 1000];
        let len =
            Compressor::of_linux().compress(crate::compress::Algorithm::Lzo, &data, &mut out).expect("there is room");
        const LZO: &[Packer] = &[Packer::Lzo];
        for (way, is_kept) in [(Compress::Priority(LZO), len <= data.len()), (Compress::Size(LZO), len < data.len())] {
            let packed = write::packed(&mut Compressor::of_linux(), way, &data, data.len() as u32, || {});
            assert_eq!(packed.compression == media::compression::LZO, is_kept, "{way:?}: {len} of {}", data.len());
        }
        as_long += u32::from(len == data.len());
    }
    assert!(as_long > 0);
}

/// Half of the block or more is obsolete: 2048 bytes of 4096.
#[test]
fn a_mount_tells_very_dirty_blocks_from_dirty_ones() {
    for (dirty, expected) in [(2048, List::VeryDirty), (2044, List::Dirty)] {
        // 12 bytes of the marker, an entry of 44, and 68 of each inode node beside its data.
        let data = vec![7; 4096 - 12 - 44 - 68 - dirty];
        let nodes =
            [entry(1, b"a", 2), obsolete(inode_node(9, 1, 0, &vec![0; dirty - 68])), inode_node(2, 1, 0, &data)];
        let (fs, _) = mount(image(&[&nodes]), Options::default());
        assert_eq!(fs.blocks.at(0).list, expected, "{dirty}");
    }
}

/// A node of an unknown type is to be kept, but its header can no longer be read: there is nothing left to keep.
#[test]
fn an_unknown_node_that_is_damaged_after_the_mount_does_not_hold_its_block_for_ever() {
    let mut unknown = vec![0; 100];
    Header { node_type: 0x6010, len: 100 }.write(Endian::Little, &mut unknown);
    let data = vec![7; 4096 - 12 - 44 - 100 - 68 - 2100];
    let rest = [entry(1, b"a", 2), obsolete(inode_node(9, 1, 0, &[0; 2100 - 68])), inode_node(2, 1, 0, &data)];
    let nodes: Vec<Vec<u8>> = std::iter::once(unknown).chain(rest).collect();
    for is_damaged in [false, true] {
        let (mut fs, mut cx) = mount(image(&[&nodes]), Options::default());
        if is_damaged {
            fs.flash_mut().program(&mut cx, Peb(0), 12, Payload::Bytes(&[0; 12])).expect("bits fall");
        }
        for _ in 0..100 {
            fs.collect(&mut cx).expect("there is power");
        }
        assert!(fs.blocks.at(0).nodes.len() <= 1, "nothing but a clean marker, damaged: {is_damaged}");
        assert_eq!(contents(&mut fs, &mut cx, b"a").expect("it was moved"), data);
        fs.check_memory().expect("the books are right");
    }
}

/// With more than 3 free blocks garbage collection writes what is in a page as one node.
#[test]
fn nodes_of_a_page_are_merged_if_more_than_three_blocks_are_free() {
    for (free, expected) in [(3, 2), (4, 1)] {
        let (mut fs, mut cx) = erased(NAND);
        let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
        for at in [0, 100] {
            fs.write(&mut cx, file, at, Payload::Bytes(&[7; 100])).expect("there is space");
        }
        fs.sync(&mut cx).expect("there is power");
        let block = fs.blocks.first(List::Next).expect("it was written");
        fs.blocks.add_dirt(block, fs.blocks.at(block).sizes.free);
        fs.blocks.close(block);
        take_all_but(&mut fs, free + 1);
        let next = fs.blocks.first(List::Free).expect("one more than should be free");
        fs.blocks.put(next, List::Next);
        while fs.blocks.at(block).sizes.used > 0 {
            fs.collect(&mut cx).expect("there is power");
        }
        assert_eq!(fs.inode(file.0 as u32).nodes.len(), expected, "{free} blocks are free");
        assert_eq!(contents(&mut fs, &mut cx, b"a").map(|bytes| bytes.len()), Ok(200));
    }
}

/// What waited is written to another page, where it still waits for a sync of its inode, and for no longer.
#[test]
fn what_was_withdrawn_from_a_bad_page_waits_as_before() {
    let (mut fs, mut cx) = erased(NAND);
    let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    fs.sync(&mut cx).expect("there is power");
    cx.idle_until(Ns(10));
    fs.setxattr(&mut cx, file, b"user.a", b"value", SetXattr::Set).expect("there is space");
    cx.idle_until(Ns(20));
    let block = fs.blocks.first(List::Next).expect("it was written");
    fs.retire(&mut cx, block).expect("another block is free");
    assert_ne!(fs.blocks.first(List::Next), Some(block));
    assert_eq!(fs.counters.rescued, 2, "the attribute, and that the file has it");
    assert!(fs.device.waits(Some(file.0 as u32)) && fs.device.waits(None));
    assert_eq!(fs.device.timer(), Some(Ns(10)));
    // The attribute itself may be of several inodes.
    assert!(fs.device.waits(Some(0)));
}

/// By hand, of `do_jffs2_setxattr` and `jffs2_do_reserve_space`: the node of an attribute may take a block but for its clean marker,
/// whether or not there are summaries. It has 32 bytes, the name behind its prefix, a zero and the value; 12 are the marker's. Linux
/// 6.12 with summaries takes 4,050 bytes on such a flash and refuses 4,051.
#[test]
fn an_attribute_may_fill_a_block_that_then_has_no_summary() {
    for summary in [false, true] {
        let options = Options { summary, compress: Compress::None, ..Options::default() };
        let (mut fs, mut cx) = mount(RamFlash::new(Geometry { pebs: 64, ..NOR }), options);
        while fs.has_work() {
            fs.collect(&mut cx).expect("there is power");
        }
        let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
        let most = 4096 - 12 - 32 - 2;
        for len in [most, most - 1, most - 40] {
            let value = vec![len as u8; len];
            fs.setxattr(&mut cx, file, b"user.a", &value, SetXattr::Set).expect("it fits in a block");
            assert_eq!(fs.getxattr(&mut cx, file, b"user.a"), Ok(value.clone()));
            // What follows goes into the next block.
            fs.write(&mut cx, file, 0, Payload::Bytes(&[7; 3000])).expect("there is space");
            let (again, mut cx) = mount(fs.unmount(&mut cx).expect("there is power"), options);
            fs = again;
            assert_eq!(fs.getxattr(&mut cx, file, b"user.a"), Ok(value), "{len} bytes, summary: {summary}");
            assert_eq!(contents(&mut fs, &mut cx, b"a").map(|bytes| bytes.len()), Ok(3000));
        }
        let found = fs.setxattr(&mut cx, file, b"user.a", &vec![1; most + 1], SetXattr::Set);
        assert_eq!(found, Err(FsError::Range { bytes: most + 1 }));
    }
}

/// Bytes of the file in each node of inode 2 on a flash of blocks of 4,096 bytes, by version.
fn lengths_on_flash(mut flash: RamFlash) -> Vec<u32> {
    let mut nodes = Vec::new();
    for block in 0..64 {
        let (mut bytes, mut at) = (vec![0; 4096], 0);
        flash.read(&mut Cx::new(), Peb(block), 0, &mut bytes).expect("it is there");
        while let Some(Ok(header)) = bytes.get(at..at + HEADER_BYTES).map(|bytes| Header::read(Endian::Little, bytes)) {
            let is_inode = header.node_type == media::node_type::INODE;
            let node = bytes.get(at..at + InodeNode::BYTES).filter(|_| is_inode);
            let node = node.and_then(|bytes| InodeNode::read(Endian::Little, bytes)).filter(|node| node.ino == 2);
            nodes.extend(node.map(|node| (node.version, node.unpacked)));
            at += media::padded(header.len) as usize;
        }
    }
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, bytes)| bytes).collect()
}

/// The lengths are those on a flash that Linux 6.12 wrote with the same calls, summaries and `compr=none`: it keeps room for a summary
/// in a block that follows one with a summary, and none in the first block after a mount.
#[test]
fn in_small_blocks_nodes_are_as_long_as_those_of_linux() {
    let options = Options { summary: true, compress: Compress::None, ..Options::default() };
    let begun = || {
        let (mut fs, mut cx) = mount(RamFlash::new(Geometry { pebs: 64, ..NOR }), options);
        while fs.has_work() {
            fs.collect(&mut cx).expect("there is power");
        }
        let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
        (fs, cx, file)
    };
    let write = |fs: &mut Jffs2<RamFlash>, cx: &mut Cx, file, at, len| {
        assert_eq!(fs.write(cx, file, at, Payload::Bytes(&vec![7; len])), Ok(len as u32));
    };
    let (mut fs, mut cx, file) = begun();
    (0..8).for_each(|page| write(&mut fs, &mut cx, file, page * 4096, 4096));
    let found = lengths_on_flash(fs.unmount(&mut cx).expect("there is power"));
    let of_linux = [0, 3800, 296, 3576, 520, 3352, 744, 3128, 968, 2904, 1192, 2680, 1416, 2456, 1640, 2232, 1864];
    assert_eq!(found, of_linux);

    for (is_mounted_again, of_linux) in
        [(true, [0, 3800, 4016, 80, 3792, 304]), (false, [0, 3800, 3956, 140, 3732, 364])]
    {
        let (mut fs, mut cx, file) = begun();
        write(&mut fs, &mut cx, file, 0, 3800);
        if is_mounted_again {
            (fs, cx) = mount(fs.unmount(&mut cx).expect("there is power"), options);
        }
        (0..2).for_each(|_| write(&mut fs, &mut cx, file, 0, 4096));
        assert_eq!(lengths_on_flash(fs.unmount(&mut cx).expect("there is power")), of_linux);
    }
}

/// Of two ways that make data as short, the first is taken.
#[test]
fn of_two_ways_to_compress_that_are_as_good_the_first_is_taken() {
    use crate::compress::Algorithm::{Lzo, Rtime};
    let (lzo, rtime) = (media::compression::LZO, media::compression::RTIME);
    let mut ties = 0;
    for zeroes in 0..200 {
        for distinct in 1..20 {
            let data: Vec<u8> = (1..=distinct).chain(std::iter::repeat_n(0, zeroes)).collect();
            let len = |way| {
                let mut out = vec![0; data.len()];
                Compressor::new().compress(way, &data, &mut out).filter(|&len| len < data.len())
            };
            let (Some(by_lzo), Some(by_rtime)) = (len(Lzo), len(Rtime)) else { continue };
            let compression = |ways| {
                let size = Compress::Size(ways);
                write::packed(&mut Compressor::new(), size, &data, data.len() as u32, || {}).compression
            };
            assert_eq!(compression(&[Packer::Lzo, Packer::Rtime]), if by_lzo <= by_rtime { lzo } else { rtime });
            assert_eq!(compression(&[Packer::Rtime, Packer::Lzo]), if by_rtime <= by_lzo { rtime } else { lzo });
            ties += u32::from(by_lzo == by_rtime);
        }
    }
    assert!(ties > 0);
}

/// Linux begins a write at a multiple of 4 bytes, or with the page if it goes to the page's end.
#[test]
fn a_write_begins_at_a_multiple_of_four_bytes_or_with_its_page() {
    let (mut fs, mut cx) = erased(NAND);
    let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    for (offset, bytes, expected) in [
        (0, 4001, &[(0, 4001)][..]),
        (4001, 3, &[(0, 4001), (4000, 4)]),
        (4004, 92, &[(0, 4096)]),
        (4103, 1, &[(0, 4096), (4096, 7), (4100, 4)]),
    ] {
        fs.write(&mut cx, file, offset, Payload::Bytes(&vec![7; bytes])).expect("there is space");
        let mut nodes: Vec<_> = fs.inode(file.0 as u32).nodes.values().map(|node| (node.offset, node.len)).collect();
        nodes.sort_unstable();
        assert_eq!(nodes, expected);
    }
}

/// Linux puts a file together from its end, so that the nodes between its first and its last fall into a hole, which makes them such
/// as garbage collection writes anew. In a flash that Linux 6.12 wrote it copies the last node of such a file as it is, and gives
/// the others new versions.
#[test]
fn a_mount_leaves_the_first_and_the_last_node_of_a_file_to_be_copied_and_the_others_to_be_written_anew() {
    let (mut fs, mut cx) = erased(NAND);
    let ino = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    for page in 0..5 {
        fs.write(&mut cx, ino, page * 4096, Payload::Bytes(&[7; 4096])).expect("there is space");
    }
    let states = |fs: &Jffs2<RamFlash>| {
        let mut nodes: Vec<_> = fs.inodes[2].nodes.iter().map(|(&id, node)| (node.offset, id)).collect();
        nodes.sort_unstable();
        nodes.into_iter().map(|(_, id)| fs.blocks.node(id).state).collect::<Vec<_>>()
    };
    use NodeState::{Normal, Pristine};
    assert_eq!(states(&fs), [Pristine; 5], "they were written one after the other");
    let (mut fs, mut cx) = mount(fs.unmount(&mut cx).expect("there is power"), Options::default());
    fs.getattr(&mut cx, ino).expect("it is there");
    assert_eq!(states(&fs), [Pristine, Normal, Normal, Normal, Pristine]);
}

/// By hand, of `jffs2_do_create`, `jffs2_write_inode_range`, `jffs2_do_setattr`, `jffs2_rename` and `jffs2_do_unlink`: a node is
/// written under the lock, and it is free between two. With room for 100 bytes less than the node of a page, that is written as two.
#[test]
fn a_program_takes_the_lock_for_each_node_that_it_writes() {
    // With summaries a name is removed by a node on NOR too.
    let options = Options { summary: true, compress: Compress::None, ..Options::default() };
    let (mut fs, mut cx) = mount(RamFlash::new(Geometry { peb_bytes: BLOCK, ..NOR }), options);
    while fs.has_work() {
        fs.collect(&mut cx).expect("there is power");
    }
    type Call<'a> = &'a mut dyn FnMut(&mut Jffs2<RamFlash>, &mut Cx) -> Result<(), FsError>;
    let mut locked = |fs: &mut Jffs2<RamFlash>, call: Call<'_>| {
        let before = fs.counters.reserved;
        call(fs, &mut cx).expect("there is space");
        fs.counters.reserved - before
    };
    let (root, ino) = (Ino(1), Ino(2));
    let page = Payload::Bytes(&[7; 4096]);
    assert_eq!(locked(&mut fs, &mut |fs, cx| fs.create(cx, root, b"a", NEW).map(|_| ())), 2);
    assert_eq!(locked(&mut fs, &mut |fs, cx| fs.write(cx, ino, 0, page).map(|_| ())), 1);
    let block = fs.blocks.first(List::Next).expect("it was written");
    fs.blocks.add_dirt(block, fs.blocks.at(block).sizes.free - 4064);
    assert_eq!(locked(&mut fs, &mut |fs, cx| fs.write(cx, ino, 4096, page).map(|_| ())), 2);
    assert_eq!(locked(&mut fs, &mut |fs, cx| fs.setattr(cx, ino, &SetAttr::size(0)).map(|_| ())), 1);
    let (from, to) = ((root, &b"a"[..]), (root, &b"b"[..]));
    assert_eq!(locked(&mut fs, &mut |fs, cx| fs.rename(cx, from, to, sim::seam::RenameFlags::NONE)), 2);
    assert_eq!(locked(&mut fs, &mut |fs, cx| fs.unlink(cx, root, b"b")), 1);
}

/// By hand: the end of the file comes first; of what overlaps the older comes first.
#[test]
fn nodes_are_put_together_from_the_end_of_the_file() {
    let node =
        |version: u32, offset, unpacked| (version, version, InodeNode { offset, unpacked, ..InodeNode::default() });
    let nodes = vec![node(1, 0, 100), node(2, 100, 100), node(3, 150, 100), node(4, 250, 50), node(5, 120, 10)];
    let order: Vec<u32> = load::as_linux_inserts(nodes).into_iter().map(|(version, ..)| version).collect();
    assert_eq!(order, [4, 2, 3, 5, 1]);
}

/// The time of an entry becomes that of its directory at the next mount, both of its change, if the entry is newer than the
/// directory's own node. One that garbage collection writes anew has none if the directory was given other times.
#[test]
fn a_directory_keeps_the_time_that_it_was_given_when_its_entries_are_moved() {
    let (mut fs, mut cx) = erased(NAND);
    cx.idle_until(Ns::from_ms(100_000));
    fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space");
    fs.flush(&mut cx).expect("there is power");
    let block = fs.blocks.first(List::Next).expect("it was written");
    fs.blocks.add_dirt(block, fs.blocks.at(block).sizes.free);
    fs.blocks.close(block);
    // The directory's own node is in another block, and stays there.
    let given = Timestamp { seconds: 5, nanos: 0 };
    fs.setattr(&mut cx, Ino(1), &SetAttr { mtime: Some(given), ..SetAttr::default() }).expect("there is space");
    let id = fs.inode(1).names[&b"a"[..]].node;
    fs.blocks.set(id, NodeState::Normal);
    while fs.blocks.at(block).sizes.used > 0 {
        fs.collect(&mut cx).expect("there is power");
    }
    assert!(fs.counters.rewritten > 0);
    let (mut fs, mut cx) = mount(fs.unmount(&mut cx).expect("there is power"), Options::default());
    let set_at = Timestamp { seconds: 100, nanos: 0 };
    assert_eq!(fs.getattr(&mut cx, Ino(1)).map(|attr| (attr.mtime, attr.ctime)), Ok((given, set_at)));
}

/// A file of 100 bytes in one node, whose data are then spoiled on flash; nobody has read it yet, or it was just written.
fn spoiled(page_cache_bytes: u64, is_written: bool) -> (Jffs2<RamFlash>, Cx, Ino) {
    let options = Options { page_cache_bytes, compress: Compress::None, ..Options::default() };
    let (mut fs, mut cx) = mount(image(&[&[entry(1, b"a", 2), inode_node(2, 1, 0, &[7; 100])]]), options);
    // The second node: behind the marker of 12 bytes and an entry of 44, a header of 68.
    let mut at = (0, 12 + 44 + 68);
    if is_written {
        fs.write(&mut cx, Ino(2), 0, Payload::Bytes(&[7; 100])).expect("there is space");
        let id = *fs.inode(2).nodes.keys().next().expect("it has data");
        at = (fs.blocks.node(id).block, fs.blocks.node(id).offset + 68);
    } else if page_cache_bytes > 0 {
        assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(vec![7; 100]));
    } else {
        fs.open(&mut cx, Ino(2)).expect("it is there");
    }
    fs.flash_mut().program(&mut cx, Peb(at.0), at.1, Payload::Bytes(&[0; 100])).expect("bits fall");
    (fs, cx, Ino(2))
}

/// Linux reads a page of a file once: what was read or written is in the page cache, where also the bytes come from that a node
/// has beside those of a write: from a multiple of 4 on, or from the beginning of the page.
#[test]
fn a_page_in_memory_is_not_read_again() {
    for is_written in [false, true] {
        let (mut fs, mut cx, file) = spoiled(1 << 20, is_written);
        assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(vec![7; 100]));
        fs.write(&mut cx, file, 99, Payload::Bytes(&[8; 3997])).expect("what it needs is in memory");
        let mut expected = vec![7; 4096];
        expected[99..].fill(8);
        assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(expected.clone()));
        // The whole page was written, as it is in memory.
        let (mut fs, mut cx) = mount(fs.into_flash(), Options::default());
        assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(expected));

        let (mut fs, mut cx, file) = spoiled(0, is_written);
        let read = contents(&mut fs, &mut cx, b"a");
        assert!(matches!(read, Err(FsError::Node { .. })), "{read:?}");
        assert!(fs.write(&mut cx, file, 99, Payload::Bytes(&[8; 3997])).is_err());
    }
}

/// Garbage collection writes what is in the page cache, and reads no page that is there.
#[test]
fn garbage_collection_takes_pages_from_memory() {
    let (mut fs, mut cx, file) = spoiled(1 << 20, false);
    // A second node of the page, so that both are written anew and not copied; and a block that is worth it.
    fs.write(&mut cx, file, 60, Payload::Bytes(&[8; 10])).expect("there is space");
    let block = fs.blocks.first(List::Next).expect("it was written");
    fs.blocks.add_dirt(block, fs.blocks.at(block).sizes.free);
    fs.blocks.close(block);
    for _ in 0..100 {
        fs.collect(&mut cx).expect("there is power");
    }
    assert!(fs.counters.rewritten > 0);
    let mut expected = vec![7; 100];
    expected[60..70].fill(8);
    let (mut fs, mut cx) = mount(fs.into_flash(), Options::default());
    assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(expected));
}

/// What was cut off stays zero when the file grows again, in memory and on flash, and a file that is gone leaves no pages.
#[test]
fn pages_follow_the_size_of_their_file() {
    let (mut fs, mut cx) = mount(RamFlash::new(NOR), Options { page_cache_bytes: 1 << 20, ..Options::default() });
    let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    fs.write(&mut cx, file, 0, Payload::Bytes(&[7; 6000])).expect("there is space");
    for size in [5000, 4500, 5500] {
        fs.setattr(&mut cx, file, &SetAttr::size(size)).expect("there is space");
    }
    fs.write(&mut cx, file, 5600, Payload::Bytes(&[8; 10])).expect("there is space");
    let mut expected = vec![7; 5610];
    expected[4500..5600].fill(0);
    expected[5600..].fill(8);
    assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(expected.clone()));
    let (mut again, mut cx_again) = mount(fs.flash().clone(), Options::default());
    assert_eq!(contents(&mut again, &mut cx_again, b"a"), Ok(expected));
    assert!(fs.pages.get(file.0 as u32, 1).is_some());
    fs.unlink(&mut cx, Ino(1), b"a").expect("it is there");
    assert!((0..2).all(|index| fs.pages.get(file.0 as u32, index).is_none()));
}

/// Three pages are written and read one after the other: with memory for two each is read from flash again when its turn comes.
#[test]
fn a_page_that_had_to_go_is_read_again() {
    for (memory, misses) in [(3, 0), (2, 6)] {
        let options = Options { page_cache_bytes: memory * 4096, ..Options::default() };
        let (mut fs, mut cx) = mount(RamFlash::new(Geometry { peb_bytes: BLOCK, ..NOR }), options);
        let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
        let data: Vec<u8> = (0..3 * 4096).map(|at: u32| (at / 97) as u8).collect();
        fs.write(&mut cx, file, 0, Payload::Bytes(&data)).expect("there is space");
        for _ in 0..2 {
            assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(data.clone()));
        }
        assert_eq!((fs.page_cache().misses, fs.page_cache().hits), (misses, 6 - misses));
    }
}
