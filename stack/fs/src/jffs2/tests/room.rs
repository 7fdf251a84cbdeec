//! Room, memory and time of a file system that is in use.

use super::*;
use crate::jffs2::inode::Inode;
use sim::seam::FileType;

/// Closes the block that is written; what of it is free is of no use.
fn close(fs: &mut Jffs2<RamFlash>) -> u32 {
    let block = fs.blocks.first(List::Next).expect("it was written");
    fs.blocks.add_dirt(block, fs.blocks.at(block).sizes.free);
    fs.blocks.close(block);
    block
}

/// By hand, of `jffs2_reserve_space`: a block that waits for its erasure counts as free, so that what is obsolete in it does not count
/// among the 65,536 + 10,485 bytes that make garbage collection worth it.
#[test]
fn what_is_obsolete_in_a_block_that_is_to_be_erased_is_no_garbage() {
    for (dirty, expected) in [(10_484, false), (10_485, true)] {
        let (mut fs, mut cx) = erased(NAND);
        let pending = take(&mut fs, NodeState::Pristine, BLOCK);
        for dirty in [BLOCK, dirty] {
            take(&mut fs, NodeState::Pristine, dirty);
        }
        fs.blocks.put(pending, List::ErasePending);
        // With the one that waits two are free, where a write must leave three.
        take_all_but(&mut fs, 3);
        let open = fs.blocks.first(List::Free).expect("two are left");
        fs.blocks.put(open, List::Next);
        fs.blocks.add(open, BLOCK - 65_000, NodeState::Pristine, Owner::None);
        let room = fs.reserve(&mut cx, Wanted::inode(100), Purpose::Write);
        assert_eq!((room.is_ok(), fs.counters.foreground > 0), (expected, expected), "{dirty} bytes");
    }
}

/// Linux, `jffs2_find_nextblock`: where no block is free one that was left alone to spread wear is erased.
#[test]
fn a_block_that_was_left_alone_is_erased_when_none_is_free() {
    let (mut fs, mut cx) = erased(NAND);
    let left = take(&mut fs, NodeState::Pristine, BLOCK);
    fs.blocks.put(left, List::Erasable);
    take_all_but(&mut fs, 0);
    assert_eq!(fs.reserve_for_collection(&mut cx, Wanted::inode(100)).map_err(FsError::from), Ok(BLOCK));
    assert_eq!((fs.blocks.first(List::Next), fs.counters.erased), (Some(left), 17));
}

/// By hand, of `jffs2_statfs`: 16 blocks of 64 KiB are 256 pages. What is free or obsolete can be had, less the three blocks that
/// writes leave.
#[test]
fn free_space_is_what_writes_may_take() {
    let (mut fs, mut cx) = erased(NAND);
    let mut pages = |fs: &mut Jffs2<RamFlash>| {
        let found = fs.statfs(&mut cx).expect("it is counted");
        (found.blocks, found.free, found.available)
    };
    assert_eq!(pages(&mut fs), (256, 13 * 16, 13 * 16));
    take(&mut fs, NodeState::Pristine, 0);
    take(&mut fs, NodeState::Pristine, BLOCK / 2);
    assert_eq!(pages(&mut fs), (256, 11 * 16 + 8, 11 * 16 + 8));
    take_all_but(&mut fs, 2);
    assert_eq!(pages(&mut fs), (256, 0, 0));
}

/// Inodes that nobody has open leave memory when they are too many. One that is open stays: without a name it is nowhere else.
#[test]
fn an_open_file_without_a_name_stays_though_many_others_come() {
    let (mut fs, mut cx) = erased(NAND);
    let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    fs.write(&mut cx, file, 0, Payload::Bytes(b"data")).expect("there is space");
    fs.open(&mut cx, file).expect("it is there");
    fs.unlink(&mut cx, Ino(1), b"a").expect("it is there");
    for ino in 1_000..=1_000 + MOST_INODES as u32 {
        fs.inodes.insert(ino, Inode::new(ino, FileType::Regular).into());
    }
    let mut bytes = [0; 5];
    assert_eq!(fs.read(&mut cx, file, 0, ReadInto::Bytes(&mut bytes)), Ok(4));
    assert_eq!((&bytes[..4], fs.inodes.len()), (&b"data"[..], 1));
    let used = fs.space().used;
    fs.release(&mut cx, file).expect("it was open");
    assert!(fs.space().used < used, "its nodes are of no use any more");
}

/// By hand: a microsecond for each byte of a page that is unpacked, and none for data that are as they were.
#[test]
fn unpacking_takes_its_time() {
    for (compress, expected) in [(Compress::Priority(Packer::ALL), 4_096_000), (Compress::None, 0)] {
        let cpu = CpuPrice { unpack_ps_per_byte: 1_000_000, ..CpuPrice::FREE };
        let (mut fs, mut cx) = mount(RamFlash::new(NAND), Options { compress, cpu, ..Options::default() });
        let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
        fs.write(&mut cx, file, 0, Payload::Bytes(&[7; 4096])).expect("there is space");
        let before = cx.now();
        assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(vec![7; 4096]));
        assert_eq!(cx.now() - before, Ns(expected), "{compress:?}");
    }
}

/// Blocks of 4 KiB hold no page of a file, so that it takes two nodes. Where only the first finds space the write is as long as that,
/// and what is read is what a mount finds.
#[test]
fn a_page_whose_write_was_cut_short_is_read_as_it_is_on_flash() {
    let options = Options { page_cache_bytes: 1 << 20, compress: Compress::None, ..Options::default() };
    let (mut fs, mut cx) = mount(RamFlash::new(NOR), options);
    while fs.has_work() {
        fs.collect(&mut cx).expect("there is power");
    }
    let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    fs.write(&mut cx, file, 0, Payload::Bytes(&[7; 100])).expect("there is space");
    close(&mut fs);
    // Writes leave three: the first node takes the one that is more than that.
    take_all_but(&mut fs, 3);
    let written = fs.write(&mut cx, file, 0, Payload::Bytes(&[8; 4096])).expect("a part of it finds space");
    assert!((101..4096).contains(&written), "{written}");
    let expected = Ok(vec![8; written as usize]);
    assert_eq!(contents(&mut fs, &mut cx, b"a"), expected);
    let (mut fs, mut cx) = mount(fs.into_flash(), options);
    assert_eq!(contents(&mut fs, &mut cx, b"a"), expected);
}

/// Linux, `jffs2_garbage_collect_pristine` and `jffs2_garbage_collect_dnode`: data that are no longer what their CRC says are not
/// copied, and cannot be written anew. They stay where they are.
#[test]
fn damaged_data_are_not_copied() {
    for is_open in [false, true] {
        let (mut fs, mut cx, file) = spoiled(0, false);
        if !is_open {
            fs.inodes.remove(file.0 as u32);
        }
        let block = close(&mut fs);
        let error = (0..100).find_map(|_| fs.collect(&mut cx).err());
        assert!(error.is_some(), "the data cannot be moved");
        let places: Vec<u32> = fs.inodes[2].nodes.keys().map(|&id| fs.blocks.node(id).block).collect();
        assert_eq!(places, [block], "open: {is_open}");
    }
}

/// The same value once more: the file has the attribute once, and after its removal nobody needs its node.
#[test]
fn an_attribute_that_was_set_twice_is_of_no_use_once_it_is_removed() {
    let (mut fs, mut cx) = erased(NAND);
    let [one, two] = [b"a", b"b"].map(|name| fs.create(&mut cx, Ino(1), name, NEW).expect("there is space").ino);
    let mut set = |fs: &mut Jffs2<RamFlash>, ino| {
        fs.setxattr(&mut cx, ino, b"user.a", b"value", SetXattr::Set).expect("there is space");
    };
    (0..3).for_each(|_| set(&mut fs, one));
    set(&mut fs, two);
    let used: Vec<bool> = [one, two]
        .map(|ino| {
            fs.removexattr(&mut cx, ino, b"user.a").expect("it has it");
            !fs.xattrs.used().is_empty()
        })
        .into();
    assert_eq!(used, [true, false]);
}

/// By hand, of `jffs2_create`: the inode's node takes one block of the three that writes leave and one more, and its name is refused then.
/// What was written is of no use, before the next mount too.
#[test]
fn an_inode_whose_name_has_no_space_takes_none_either() {
    let (mut fs, mut cx) = erased(NAND);
    take_all_but(&mut fs, 3);
    let used = fs.space().used;
    assert_eq!(fs.create(&mut cx, Ino(1), b"a", NEW).map(drop), Err(FsError::NoSpace));
    assert_eq!((fs.free_blocks(), fs.space().used), (2, used));
    fs.check_memory().expect("the books are right");
}

/// Linux, `jffs2_do_setattr`: a file may be emptied with the last free blocks, as a name may be removed, but not shortened.
#[test]
fn a_file_may_be_emptied_where_it_may_not_be_shortened() {
    let (mut fs, mut cx) = erased(NAND);
    let file = fs.create(&mut cx, Ino(1), b"a", NEW).expect("there is space").ino;
    fs.write(&mut cx, file, 0, Payload::Bytes(&[7; 5000])).expect("there is space");
    fs.sync(&mut cx).expect("there is power");
    close(&mut fs);
    take_all_but(&mut fs, 2);
    assert_eq!(fs.setattr(&mut cx, file, &SetAttr::size(1)).map(drop), Err(FsError::NoSpace));
    assert_eq!(fs.setattr(&mut cx, file, &SetAttr::size(0)).map(|attr| attr.size), Ok(0));
}
