//! What is read, what is dropped, what fails.

use sim::seam::{FallocateMode, FileSystem, FsError, InodeFlags, NewInode, Payload, ReadInto, RenameFlags, SetAttr};
use sim::{Cx, Ns};

use super::{Config, Inner, PAGE, ROOMY, World, ms, seconds};
use crate::cache::{PageCache, WriteBack};
use crate::model::MAX_FILE_BYTES;

/// A file of 8 pages that is written, and nothing cached.
fn cold(config: Config) -> (World, sim::seam::Ino) {
    let mut world = World::new(config);
    let file = world.create("f");
    world.write(file, 0, 7 * PAGE + 100);
    world.fs.sync(&mut world.cx).unwrap();
    world.fs.drop_clean();
    assert_eq!(world.fs.cached_bytes(), 0);
    world.written();
    (world, file)
}

#[test]
fn part_of_a_page_that_is_in_the_file_is_read_first() {
    let cases: [(u64, u64, &[u64]); 7] = [
        (0, PAGE, &[]),
        (0, 100, &[0]),
        (PAGE - 1, 2, &[0, 1]),
        (100, PAGE, &[0, 1]),
        (7 * PAGE, 100, &[7]),
        (8 * PAGE, 100, &[]),
        (8 * PAGE + 5, 100, &[]),
    ];
    for (offset, length, read) in cases {
        let (mut world, file) = cold(ROOMY);
        let before = world.fs.counters().read_to_write;
        world.fs.inner_mut().read.clear();
        world.write(file, offset, length);
        let expected: Vec<_> = read.iter().map(|&page| (file, page, 1)).collect();
        assert_eq!(world.fs.inner().read, expected, "{length} bytes at {offset}");
        assert_eq!(world.fs.counters().read_to_write - before, read.len() as u64);
    }
}

#[test]
fn a_page_is_read_once_and_what_is_missing_in_one_call() {
    let (mut world, file) = cold(Config { read_ahead_bytes: 0, ..ROOMY });
    world.read(file, 2 * PAGE + 7, 10);
    let bytes = world.read(file, PAGE - 1, 4 * PAGE as u32);
    assert_eq!(world.fs.inner().read, [(file, 2, 1), (file, 0, 2), (file, 3, 2)]);
    assert_eq!(bytes[..2], [1, 2]);
    assert_eq!((bytes[PAGE as usize], bytes[4 * PAGE as usize - 1]), (2, 5));
    let counters = *world.fs.counters();
    assert_eq!((counters.hits, counters.misses, counters.read, counters.read_ahead), (1, 5, 5, 0));
    assert_eq!(world.read(file, 7 * PAGE, 4096).len(), 100);
}

/// 8 pages of read-ahead: a read of one page at the beginning takes a window of 2 (one page is at most a quarter of 8),
/// the next takes 4, the next 8, of which the file has 2.
#[test]
fn a_file_read_in_sequence_is_read_ahead() {
    let (mut world, file) = cold(Config { read_ahead_bytes: 8 * PAGE as u32, ..ROOMY });
    for page in 0..8 {
        world.read(file, page * PAGE, PAGE as u32);
    }
    assert_eq!(world.fs.inner().read, [(file, 0, 2), (file, 2, 4), (file, 6, 2)]);
    let counters = world.fs.counters();
    assert_eq!((counters.hits, counters.misses, counters.read, counters.read_ahead), (5, 3, 8, 5));
}

#[test]
fn a_file_deleted_before_it_is_old_is_never_written() {
    let mut world = World::new(ROOMY);
    let root = world.fs.root();
    let [file, twice, target] = ["f", "g", "t"].map(|name| world.create(name));
    for ino in [file, twice, target] {
        world.write_pages(ino, 0, 3);
    }
    world.fs.link(&mut world.cx, twice, root, b"h").unwrap();
    world.idle_until(ms(29_999));
    world.fs.unlink(&mut world.cx, root, b"f").unwrap();
    world.fs.unlink(&mut world.cx, root, b"g").unwrap();
    assert_eq!(world.fs.counters().dropped, 3);
    world.fs.rename(&mut world.cx, (root, b"h"), (root, b"t"), RenameFlags::NONE).unwrap();
    assert_eq!(world.fs.counters().dropped, 6);
    assert_eq!(world.fs.inner().promised, 3);
    world.fs.check();
    world.idle_until(seconds(100));
    assert_eq!(world.written(), [(seconds(30), twice, 0, 3)]);
}

#[test]
fn names_that_change_places_drop_nothing() {
    let mut world = World::new(ROOMY);
    let root = world.fs.root();
    for name in ["f", "g"] {
        let ino = world.create(name);
        world.write_pages(ino, 0, 1);
    }
    world.fs.rename(&mut world.cx, (root, b"f"), (root, b"g"), RenameFlags::EXCHANGE).unwrap();
    assert_eq!((world.fs.counters().dropped, world.fs.dirty_bytes()), (0, 2 * PAGE));
}

#[test]
fn a_file_that_is_open_is_dropped_when_it_is_closed() {
    let mut world = World::new(ROOMY);
    let root = world.fs.root();
    let file = world.create("f");
    world.write_pages(file, 0, 2);
    world.fs.open(&mut world.cx, file).unwrap();
    world.fs.unlink(&mut world.cx, root, b"f").unwrap();
    assert_eq!(world.read(file, PAGE, 1), [2]);
    assert_eq!(world.fs.counters().dropped, 0);
    world.fs.release(&mut world.cx, file).unwrap();
    world.fs.check();
    assert_eq!((world.fs.counters().dropped, world.fs.cached_bytes()), (2, 0));
    world.fs.sync(&mut world.cx).unwrap();
    assert_eq!(world.written(), []);
}

#[test]
fn a_cut_drops_what_lies_behind_and_writes_the_page_that_it_goes_through() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    world.write_pages(file, 0, 4);
    let cut = |world: &mut World, size| world.fs.setattr(&mut world.cx, file, &SetAttr::size(size)).unwrap();
    cut(&mut world, 2 * PAGE);
    assert_eq!((world.fs.counters().dropped, world.written()), (2, vec![]));
    cut(&mut world, PAGE + 10);
    assert_eq!(world.written(), [(Ns::ZERO, file, 1, 1)]);
    assert_eq!(world.fs.counters().written[WriteBack::Truncate], 1);
    cut(&mut world, 3 * PAGE);
    let bytes = world.read(file, PAGE, 2 * PAGE as u32);
    assert!(bytes[..10].iter().all(|&byte| byte == 2) && bytes[10..].iter().all(|&byte| byte == 0));
    cut(&mut world, 0);
    world.fs.sync(&mut world.cx).unwrap();
    assert_eq!((world.fs.counters().dropped, world.fs.counters().written.total()), (3, 1));
}

#[test]
fn a_hole_is_not_written() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    world.write_pages(file, 0, 5);
    let mode = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
    world.fs.fallocate(&mut world.cx, file, mode, PAGE - 1, 2 * PAGE + 2).unwrap();
    world.fs.check();
    assert_eq!(world.fs.counters().dropped, 2);
    world.written();
    world.fs.fsync(&mut world.cx, file, false).unwrap();
    assert_eq!(world.written(), [(Ns::ZERO, file, 0, 1), (Ns::ZERO, file, 3, 2)]);
    world.fs.drop_clean();
    let bytes = world.read(file, PAGE - 2, 2 * PAGE as u32 + 4);
    assert_eq!((bytes[0], bytes[bytes.len() - 1]), (1, 4));
    assert!(bytes[1..bytes.len() - 1].iter().all(|&byte| byte == 0));
    let moves = world.fs.fallocate(&mut world.cx, file, FallocateMode::COLLAPSE_RANGE, 0, PAGE);
    assert_eq!(moves.map_err(|error| error.errno()), Err(95));
}

#[test]
fn memory_keeps_what_was_used_last() {
    let (mut world, file) = cold(Config { memory_bytes: 3 * PAGE, read_ahead_bytes: 0, ..ROOMY });
    for page in [0, 1, 2, 0, 3, 0, 1] {
        world.read(file, page * PAGE, 1);
    }
    let pages: Vec<u64> = world.fs.inner().read.iter().map(|read| read.1).collect();
    assert_eq!(pages, [0, 1, 2, 3, 1]);
    assert_eq!(world.fs.counters().evicted, 7 - 3 + 2 + 1);
    assert_eq!(world.fs.cached_bytes(), 3 * PAGE);
}

/// Where every page is dirty one run of the inode that was dirty first makes room.
#[test]
fn memory_full_of_dirty_pages_is_written() {
    let config = Config { memory_bytes: 4 * PAGE, dirty_bytes: 8 * PAGE, run_bytes: 2 * PAGE as u32, ..ROOMY };
    let mut world = World::new(config);
    let files = ["f", "g"].map(|name| world.create(name));
    world.write_pages(files[0], 0, 3);
    world.write_pages(files[1], 0, 1);
    assert_eq!(world.written(), []);
    world.write_pages(files[1], 1, 1);
    assert_eq!(world.written(), [(Ns::ZERO, files[0], 0, 2)]);
    assert_eq!(world.fs.counters().written[WriteBack::Eviction], 2);
    assert_eq!(world.fs.counters().evicted, 1);
}

/// `errseq` of Linux: each error is reported once by `fsync` of the file, and once by `sync`. A write-back that writes nothing failed too.
#[test]
fn a_failed_write_back_is_reported_by_the_next_fsync_and_the_next_sync() {
    for is_short in [false, true] {
        let inner = Inner { space: 2, is_short, ..Inner::new(true) };
        let mut world = World::over(inner, Config { run_bytes: 4 * PAGE as u32, ..ROOMY });
        let [file, other] = ["f", "g"].map(|name| world.create(name));
        world.write_pages(file, 0, 5);
        world.idle_until(seconds(31));
        let counters = *world.fs.counters();
        assert_eq!((counters.written.total(), counters.failed, world.fs.dirty_bytes()), (2, 3, 0));
        assert_eq!(world.fs.inner().promised, 0);
        world.fs.fsync(&mut world.cx, other, false).unwrap();
        assert_eq!(world.fs.fsync(&mut world.cx, file, false), Err(FsError::NoSpace));
        assert_eq!(world.fs.fsync(&mut world.cx, file, false), Ok(()));
        assert_eq!(world.fs.sync(&mut world.cx), Err(FsError::NoSpace));
        assert_eq!(world.fs.sync(&mut world.cx), Ok(()));
    }
}

#[test]
fn writes_to_a_synchronous_inode_are_on_the_medium_at_once() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    let flags = SetAttr { flags: Some(InodeFlags::SYNC), ..SetAttr::default() };
    world.fs.setattr(&mut world.cx, file, &flags).unwrap();
    world.write_pages(file, 0, 2);
    assert_eq!(world.written(), [(Ns::ZERO, file, 0, 2)]);
    assert_eq!(world.fs.inner().fsyncs, [(file, true)]);
    assert_eq!(world.fs.counters().written[WriteBack::Fsync], 2);
}

/// A cache is a file system that knows nothing of writes that are kept above it: it has the size at once, and the times
/// of the write-back.
#[test]
fn a_file_system_that_does_not_see_kept_writes_has_sizes_at_once_and_times_later() {
    let mut cx = Cx::new();
    let mut fs = PageCache::new(PageCache::new(Inner::new(true), ROOMY), ROOMY);
    let file = fs.create(&mut cx, fs.root(), b"f", NewInode::of_root(0o644)).unwrap().ino;
    cx.spend(seconds(1));
    assert_eq!(fs.write(&mut cx, file, 10, Payload::Bytes(&[7; PAGE as usize])), Ok(PAGE as u32));
    let attr = fs.getattr(&mut cx, file).unwrap();
    assert_eq!((attr.size, attr.mtime.seconds, fs.inner().dirty_bytes()), (PAGE + 10, 1_001, 0));
    cx.spend(seconds(1));
    fs.sync(&mut cx).unwrap();
    let attr = fs.getattr(&mut cx, file).unwrap();
    assert_eq!((attr.size, attr.mtime.seconds, fs.inner().counters().written.total()), (PAGE + 10, 1_002, 2));
    let mut bytes = [0xee; PAGE as usize + 10];
    assert_eq!(fs.into_inner().into_inner().read(&mut cx, file, 0, ReadInto::Bytes(&mut bytes)), Ok(PAGE as u32 + 10));
    assert_eq!((bytes[..10].iter().max(), bytes[10..].iter().min()), (Some(&0), Some(&7)));
}

/// 2 TiB, as the model and UBIFS have it.
#[test]
fn a_write_ends_at_the_largest_size() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    let data = [7; 2 * PAGE as usize];
    let mut write = |offset| world.fs.write(&mut world.cx, file, offset, Payload::Bytes(&data));
    assert_eq!(write(MAX_FILE_BYTES - PAGE - 3), Ok(PAGE as u32 + 3));
    assert_eq!(write(MAX_FILE_BYTES).map_err(|error| error.errno()), Err(27));
    assert_eq!(world.fs.getattr(&mut world.cx, file).unwrap().size, MAX_FILE_BYTES);
    world.fs.sync(&mut world.cx).unwrap();
    assert_eq!(world.fs.counters().written.total(), 2);
}

#[test]
fn what_is_no_regular_file_is_left_to_the_file_system() {
    let mut world = World::new(ROOMY);
    let root = world.fs.root();
    let read = world.fs.read(&mut world.cx, root, 0, ReadInto::Length(1));
    let write = world.fs.write(&mut world.cx, root, 0, Payload::Length(1));
    assert_eq!((read, write), (Err(FsError::IsDir { ino: root }), Err(FsError::IsDir { ino: root })));
    world.fs.check();
}
