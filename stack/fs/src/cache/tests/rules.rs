//! When what is written. Expected times and counts follow from the rules of the module by arithmetic.

use sim::Ns;
use sim::seam::{FileSystem, FsError, NewInode, SetAttr};

use super::{Config, Inner, PAGE, ROOMY, World, ms, seconds};
use crate::cache::{Limits, WriteBack};

/// An inner file system that takes so long for a page.
fn slow(page: Ns) -> Inner {
    Inner { page, ..Inner::new(true) }
}

/// `Documentation/admin-guide/sysctl/vm.rst`: 10 and 20 percent, 30 and 5 s. `mm/page-writeback.c`: half of the limit
/// where the background limit is not below it; at least two pages.
#[test]
fn limits_are_those_of_linux() {
    let limits = |config| {
        let limits = Limits::new(&config);
        (limits.background, limits.dirty)
    };
    let config = Config::linux(1000 * PAGE);
    assert_eq!((config.expire, config.writeback_interval, limits(config)), (seconds(30), seconds(5), (100, 200)));
    let with = |background, dirty| limits(Config { dirty_background_bytes: background, dirty_bytes: dirty, ..config });
    assert_eq!(with(PAGE + 1, 4 * PAGE), (2, 4));
    assert_eq!(with(9 * PAGE, 9 * PAGE), (4, 9));
    assert_eq!(with(0, 1), (0, 2));
}

#[test]
fn a_file_is_written_at_the_first_look_after_it_has_expired() {
    let mut world = World::new(ROOMY);
    let first = world.create("f");
    world.write_pages(first, 0, 2);
    assert_eq!(world.fs.next_wake(), Some(seconds(5)));
    world.idle_until(seconds(1));
    let second = world.create("g");
    world.write_pages(second, 0, 1);
    world.idle_until(ms(29_999));
    assert_eq!(world.written(), []);
    world.idle_until(seconds(40));
    assert_eq!(world.written(), [(seconds(30), first, 0, 2), (seconds(35), second, 0, 1)]);
    assert_eq!(world.fs.counters().written[WriteBack::Periodic], 3);
    assert_eq!(world.fs.next_wake(), None);
}

/// Linux 6.12 `wb_over_bg_thresh`: a device that has written nothing has no share of the background limit. A guest's UBIFS wrote its
/// first pages 5.02 s after the first of its inodes became dirty, 4 s after these.
#[test]
fn the_first_pages_after_a_mount_are_written_at_the_first_look() {
    let mut world = World::after_mount(Inner::new(true), ROOMY);
    let file = world.create("f");
    world.write_pages(file, 0, 4);
    world.idle_until(seconds(20));
    assert_eq!(world.written(), [(seconds(5), file, 0, 4)]);
    assert_eq!(world.fs.counters().written[WriteBack::Background], 4);
    world.write_pages(file, 0, 4);
    world.idle_until(seconds(100));
    assert_eq!(world.written(), [(seconds(50), file, 0, 4)]);
}

/// The flusher's timer starts when the first inode becomes dirty: looks at 7, 12, … 32 s.
#[test]
fn the_flusher_sleeps_from_the_first_dirty_inode_on() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    world.idle_until(seconds(2));
    world.write_pages(file, 0, 1);
    world.idle_until(seconds(4));
    let second = world.create("g");
    world.write_pages(second, 0, 1);
    assert_eq!(world.fs.next_wake(), Some(seconds(7)));
    world.idle_until(seconds(60));
    assert_eq!(world.written(), [(seconds(32), file, 0, 1), (seconds(37), second, 0, 1)]);
}

#[test]
fn neither_writes_nor_fsync_make_an_inode_young_again() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    world.write_pages(file, 0, 3);
    world.idle_until(seconds(10));
    world.write_pages(file, 1, 1);
    world.fs.fsync(&mut world.cx, file, true).unwrap();
    assert_eq!(world.written(), [(seconds(10), file, 0, 3)]);
    assert_eq!(world.fs.inner().fsyncs, [(file, true)]);
    world.idle_until(seconds(20));
    world.write_pages(file, 2, 1);
    world.idle_until(seconds(40));
    assert_eq!(world.written(), [(seconds(30), file, 2, 1)]);
    world.write_pages(file, 0, 1);
    world.idle_until(seconds(100));
    assert_eq!(world.written(), [(seconds(70), file, 0, 1)], "once it was clean it is young");
}

/// A turn of ten pages is used up at 30 s. The next one, at 61 s, goes on after them, finds nothing, and begins anew at the next look.
#[test]
fn a_turn_does_not_wrap_to_the_beginning_of_the_file() {
    let mut world = World::new(Config { chunk_bytes: 10 * PAGE as u32, ..ROOMY });
    let file = world.create("f");
    world.write_pages(file, 0, 10);
    world.idle_until(seconds(31));
    assert_eq!(world.written(), [(seconds(30), file, 0, 10)]);
    world.write_pages(file, 0, 2);
    world.idle_until(seconds(100));
    assert_eq!(world.written(), [(seconds(66), file, 0, 2)]);
}

/// Linux 6.12 `writeback_iter`: where `fsync` ends is forgotten.
#[test]
fn a_turn_after_fsync_begins_with_the_first_page() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    world.write_pages(file, 0, 10);
    world.fs.fsync(&mut world.cx, file, false).unwrap();
    world.written();
    world.write_pages(file, 0, 2);
    world.idle_until(seconds(60));
    assert_eq!(world.written(), [(seconds(30), file, 0, 2)]);
}

/// A file as in the first of these, and a younger one. What is put off behind a younger one, at 61 s, counts as dirty since then.
#[test]
fn an_inode_that_is_put_off_behind_younger_ones_is_young_again() {
    let mut world = World::new(Config { chunk_bytes: 10 * PAGE as u32, ..ROOMY });
    let [file, younger] = ["f", "g"].map(|name| world.create(name));
    world.write_pages(file, 0, 10);
    world.idle_until(seconds(31));
    world.written();
    world.write_pages(file, 0, 2);
    world.idle_until(seconds(32));
    world.write_pages(younger, 0, 1);
    world.idle_until(seconds(100));
    assert_eq!(world.written(), [(seconds(66), younger, 0, 1), (seconds(91), file, 0, 2)]);
}

/// Turns of 2 pages. A page at the end of the first turn is written to again before the second, which begins after it.
#[test]
fn a_turn_begins_after_the_page_that_ended_the_one_before() {
    let config = Config { chunk_bytes: 2 * PAGE as u32, ..ROOMY };
    let mut world = World::over(slow(ms(1)), config);
    let file = world.create("f");
    world.write_pages(file, 0, 5);
    world.idle_until(seconds(30));
    assert_eq!(world.written(), [(seconds(30) + ms(2), file, 0, 2)]);
    world.write_pages(file, 1, 1);
    world.idle_until(seconds(31));
    let pages: Vec<_> = world.written().into_iter().map(|(_, _, first, pages)| (first, pages)).collect();
    assert_eq!(pages, [(2, 2), (4, 1), (1, 1)]);
}

/// At 30 s four pages and one inode are dirty, so at most 5 pages are written, in turns of 2 pages of 1 s each: 3 turns, in
/// spite of the pages that are written meanwhile. They have to wait for the next look, 5 s after the end.
#[test]
fn a_look_for_what_is_old_writes_no_more_than_was_dirty_when_it_began() {
    let config = Config { chunk_bytes: 2 * PAGE as u32, run_bytes: PAGE as u32, ..ROOMY };
    let mut world = World::over(slow(seconds(1)), config);
    let file = world.create("f");
    world.write_pages(file, 0, 4);
    world.idle_until(ms(31_500));
    world.write_pages(file, 4, 6);
    world.idle_until(seconds(100));
    let times: Vec<_> = world.written().into_iter().map(|written| written.0).collect();
    assert_eq!(times, [31, 32, 33, 34, 35, 36, 42, 43, 44, 45].map(seconds));
}

/// Three pages of three inodes are dirty, so at most 6 are written. The first inode grows to 8 pages in its turn: the
/// others wait for the next look.
#[test]
fn a_look_that_wrote_its_share_leaves_the_other_inodes_to_the_next() {
    let mut world = World::new(Config { chunk_bytes: 8 * PAGE as u32, run_bytes: PAGE as u32, ..ROOMY });
    let files = ["f", "g", "h"].map(|name| world.create(name));
    for file in files {
        world.write_pages(file, 0, 1);
    }
    world.idle_until(ms(29_999));
    world.fs.wake(&mut world.flusher).unwrap();
    assert_eq!(world.written(), [(seconds(30), files[0], 0, 1)]);
    world.cx.wait_until(seconds(30));
    world.write_pages(files[0], 1, 7);
    world.idle_until(seconds(35));
    let written: Vec<_> = world.written().into_iter().map(|(at, ino, ..)| (at, ino)).collect();
    let (now, [_, g, h]) = (seconds(30), files);
    let expected = [vec![(now, files[0]); 7], vec![(seconds(35), g), (seconds(35), h)]].concat();
    assert_eq!(written, expected);
}

#[test]
fn inodes_have_turns_in_the_order_in_which_they_became_dirty() {
    let config = Config { chunk_bytes: 4 * PAGE as u32, run_bytes: 3 * PAGE as u32, ..ROOMY };
    let mut world = World::new(config);
    let files = ["f", "g", "h"].map(|name| world.create(name));
    world.write_pages(files[2], 1, 6);
    world.write_pages(files[0], 0, 2);
    world.write_pages(files[2], 0, 1);
    world.write_pages(files[1], 7, 1);
    world.idle_until(seconds(30));
    let order: Vec<_> = world.written().into_iter().map(|(_, ino, first, pages)| (ino, first, pages)).collect();
    let [f, g, h] = files;
    assert_eq!(order, [(h, 0, 3), (h, 3, 1), (f, 0, 2), (g, 7, 1), (h, 4, 3)]);
}

/// Three files of 4, 4 and 3 pages; the background limit is 10. A look comes when 100 ms have passed and a file has had
/// its turn: at 60 ms a page after the first (240 ms), at 20 ms after the second (160 ms), at no time after all.
#[test]
fn background_write_back_stops_below_the_limit_at_the_next_look() {
    for (page, expected) in [(ms(60), 4), (ms(25), 4 + 4), (ms(20), 4 + 4), (Ns::ZERO, 11)] {
        let config = Config { dirty_background_bytes: 10 * PAGE, dirty_bytes: 1 << 20, ..ROOMY };
        let mut world = World::over(slow(page), config);
        let files = ["f", "g", "h"].map(|name| world.create(name));
        world.write_pages(files[0], 0, 4);
        world.write_pages(files[1], 0, 4);
        world.write_pages(files[2], 0, 2);
        assert_eq!(world.fs.next_wake(), Some(seconds(5)), "at the limit nothing starts");
        world.cx.spend(ms(7));
        world.write_pages(files[2], 2, 1);
        assert_eq!(world.fs.next_wake(), Some(ms(7)));
        world.idle_until(seconds(4));
        let written = world.fs.counters().written;
        assert_eq!((written[WriteBack::Background], written.total()), (expected, expected), "{page:?} a page");
        assert_eq!(world.written()[0], (ms(7) + Ns(4 * page.0), files[0], 0, 4));
    }
}

/// Limit of 20 pages, 1 ms a page: the writer of 25 pages waits at the 20th and each later one until one was written.
#[test]
fn a_writer_at_the_limit_waits_until_less_is_dirty() {
    let config = Config { dirty_background_bytes: 10 * PAGE, dirty_bytes: 20 * PAGE, run_bytes: PAGE as u32, ..ROOMY };
    let mut world = World::over(slow(ms(1)), config);
    let file = world.create("f");
    world.write_pages(file, 0, 19);
    assert_eq!((world.cx.now(), world.fs.counters().written.total()), (Ns::ZERO, 0));
    world.write_pages(file, 19, 6);
    assert_eq!(world.cx.now(), ms(6));
    assert_eq!(world.fs.counters().written[WriteBack::Limit], 6);
    assert_eq!(world.fs.dirty_bytes(), 19 * PAGE);
    // The flusher goes on with what is left of the file.
    world.idle_until(seconds(1));
    assert_eq!(world.fs.counters().written[WriteBack::Background], 19);
}

#[test]
fn fsync_writes_runs_in_the_order_of_offsets() {
    let mut world = World::new(Config { run_bytes: 2 * PAGE as u32, ..ROOMY });
    let [file, other] = ["f", "g"].map(|name| world.create(name));
    world.write_pages(other, 0, 1);
    for page in [70, 5, 1, 2, 3] {
        world.write_pages(file, page, 1);
    }
    world.fs.fsync(&mut world.cx, file, false).unwrap();
    let at = |first, pages| (Ns::ZERO, file, first, pages);
    assert_eq!(world.written(), [at(1, 2), at(3, 1), at(5, 1), at(70, 1)]);
    assert_eq!(world.fs.counters().written[WriteBack::Fsync], 5);
    assert_eq!(world.fs.counters().calls, 4);
    assert_eq!((world.fs.inner().fsyncs.as_slice(), world.fs.dirty_bytes()), ([(file, false)].as_slice(), PAGE));
}

/// Linux 6.12 `wb_do_writeback`: the flusher has moved all that is dirty to the inodes whose turn it is. What is left there after 16 pages
/// is written by the look for what is old, if the last one was 5 s ago.
#[test]
fn a_flusher_that_was_asked_for_space_goes_on_if_it_is_time_to_look_for_what_is_old() {
    for (begin, then) in [(seconds(4), 0), (seconds(6), 10)] {
        let mut world = World::over(Inner { most_promised: 30, ..slow(ms(1)) }, ROOMY);
        let files = ["a", "b", "c"].map(|name| world.create(name));
        world.idle_until(begin);
        for file in files {
            world.write_pages(file, 0, 10);
        }
        world.create("d");
        let written = world.fs.counters().written;
        assert_eq!((written[WriteBack::Space], written[WriteBack::Periodic]), (20, then), "at {begin:?}");
        assert_eq!(world.fs.next_wake().is_some(), then == 0);
    }
}

/// Linux 6.12 `shrink_liability`, `writeback_sb_inodes`: 16 pages of whole inodes, in the order in which they became dirty.
#[test]
fn a_call_without_space_waits_until_16_pages_of_whole_inodes_are_written() {
    let mut world = World::over(Inner { most_promised: 30, ..slow(ms(1)) }, ROOMY);
    let files = ["a", "b", "c"].map(|name| world.create(name));
    for file in files {
        world.write_pages(file, 0, 10);
    }
    assert_eq!(world.written(), []);
    world.create("d");
    assert_eq!(world.written(), [(ms(10), files[0], 0, 10), (ms(20), files[1], 0, 10)]);
    assert_eq!((world.fs.counters().written[WriteBack::Space], world.fs.inner().promised), (20, 10));
    // A page that was dirty when its space was wanted is clean when it is written to, and promised anew.
    world.write_pages(files[2], 10, 20);
    world.write_pages(files[2], 5, 1);
    assert_eq!(world.written(), [(ms(50), files[2], 0, 30)]);
    assert_eq!((world.fs.dirty_bytes(), world.fs.inner().promised), (PAGE, 1));
}

/// Linux 6.12 `writeback_chunk_size`: what is written for space (`tagged_writepages`) knows no share of an inode.
#[test]
fn what_is_written_for_space_does_not_take_turns() {
    let config = Config { chunk_bytes: 8 * PAGE as u32, run_bytes: 5 * PAGE as u32, ..ROOMY };
    let mut world = World::over(Inner { most_promised: 16, ..Inner::new(true) }, config);
    let [a, b] = ["a", "b"].map(|name| world.create(name));
    world.write_pages(a, 0, 12);
    world.write_pages(b, 0, 4);
    world.create("c");
    let pages: Vec<_> = world.written().into_iter().map(|(_, file, first, pages)| (file, first, pages)).collect();
    assert_eq!(pages, [(a, 0, 5), (a, 5, 5), (a, 10, 2), (b, 0, 4)]);
}

/// Linux 6.12 `__writeback_single_inode`: the inode after its pages, in a turn that leaves some as well, and in `sync`. `fsync` has its
/// own rule.
#[test]
fn an_inode_follows_its_pages() {
    let config = Config { chunk_bytes: 2 * PAGE as u32, ..ROOMY };
    let mut world = World::over(Inner { most_promised: 8, ..slow(ms(1)) }, config);
    let nodes = |world: &mut World| std::mem::take(&mut world.fs.inner_mut().nodes);
    let [a, b] = ["a", "b"].map(|name| world.create(name));
    world.write_pages(a, 0, 3);
    world.idle_until(seconds(1));
    world.write_pages(b, 0, 1);
    world.idle_until(seconds(40));
    let old = seconds(30);
    // Two turns of the first inode, three pages in all; the flusher looks again 5 s after their end.
    let (again, next) = (old + ms(2), seconds(35) + ms(3));
    assert_eq!(nodes(&mut world), [(again, a), (again + ms(1), a), (next + ms(1), b)]);
    let now = seconds(40);
    world.write_pages(a, 0, 3);
    world.write_pages(b, 0, 5);
    world.create("c");
    assert_eq!(nodes(&mut world), [(now + ms(3), a), (now + ms(8), b)], "for space");
    world.write_pages(a, 0, 1);
    world.fs.fsync(&mut world.cx, a, false).unwrap();
    assert_eq!(nodes(&mut world), []);
    world.write_pages(b, 0, 1);
    world.fs.sync(&mut world.cx).unwrap();
    assert_eq!(nodes(&mut world), [(now + ms(9), a), (now + ms(10), b)]);
}

/// An inode has one time at which it became dirty, with its pages. It stays in the list when something else has written it.
#[test]
fn an_inode_that_is_dirty_has_its_turn_with_its_pages() {
    let mut world = World::new(ROOMY);
    let [file, other] = ["f", "g"].map(|name| world.create(name));
    let chmod = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    world.fs.setattr(&mut world.cx, file, &chmod).unwrap();
    world.idle_until(seconds(1));
    world.write_pages(other, 0, 1);
    world.idle_until(seconds(20));
    world.write_pages(file, 0, 1);
    world.idle_until(seconds(100));
    assert_eq!(world.written(), [(seconds(30), file, 0, 1), (seconds(35), other, 0, 1)]);
    assert_eq!(world.fs.inner().nodes, [(seconds(30), file), (seconds(35), other)]);
    assert_eq!(world.fs.next_wake(), None);
    let root = world.fs.root();
    world.fs.setattr(&mut world.cx, root, &chmod).unwrap();
    world.fs.sync(&mut world.cx).unwrap();
    assert_eq!(world.fs.inner().nodes[2..], [(seconds(100), root)]);
}

/// Memory of four pages, all of them dirty: the list is emptied from its beginning, where an inode without pages is.
#[test]
fn an_inode_that_leaves_the_list_for_room_is_written() {
    let mut world = World::new(Config { memory_bytes: 4 * PAGE, ..ROOMY });
    let [file, other] = ["f", "g"].map(|name| world.create(name));
    let chmod = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    world.fs.setattr(&mut world.cx, other, &chmod).unwrap();
    world.write_pages(file, 0, 5);
    assert_eq!(world.fs.inner().nodes, [(Ns::ZERO, other)]);
    assert_eq!(world.fs.counters().written[WriteBack::Eviction], 4);
}

/// Who lacks space for another reason has it said at once.
#[test]
fn a_call_without_space_writes_nothing_unless_that_is_wanted() {
    let mut world = World::new(ROOMY);
    let file = world.create("a");
    world.write_pages(file, 0, 20);
    world.fs.inner_mut().is_full = true;
    let root = world.fs.root();
    let made = world.fs.create(&mut world.cx, root, b"b", NewInode::of_root(0o644));
    assert_eq!((made.map(drop), world.written()), (Err(FsError::NoSpace), vec![]));
}

#[test]
fn sync_writes_everything_and_puts_the_flusher_to_rest() {
    let mut world = World::new(ROOMY);
    let files = ["f", "g"].map(|name| world.create(name));
    world.write_pages(files[1], 0, 2);
    world.write_pages(files[0], 3, 2);
    world.fs.sync(&mut world.cx).unwrap();
    world.fs.check();
    assert_eq!(world.written(), [(Ns::ZERO, files[1], 0, 2), (Ns::ZERO, files[0], 3, 2)]);
    assert_eq!((world.fs.counters().written[WriteBack::Sync], world.fs.inner().syncs), (4, 1));
    world.idle_until(seconds(60));
    assert_eq!((world.written(), world.fs.next_wake()), (vec![], None));
}

/// `dirty_writeback_centisecs` of 0 switches the looks off; the background limit still counts.
#[test]
fn without_an_interval_nothing_is_written_because_it_is_old() {
    let config = Config { writeback_interval: Ns::ZERO, dirty_background_bytes: 3 * PAGE, ..ROOMY };
    let mut world = World::new(config);
    let file = world.create("f");
    world.write_pages(file, 0, 3);
    world.idle_until(seconds(1000));
    assert_eq!((world.written(), world.fs.next_wake()), (vec![], None));
    world.write_pages(file, 3, 1);
    world.idle_until(seconds(1001));
    assert_eq!(world.written(), [(seconds(1000), file, 0, 4)]);
}

/// A page that is written over and over is written once in 30 s.
#[test]
fn overwrites_are_absorbed() {
    let mut world = World::new(ROOMY);
    let file = world.create("f");
    for second in 0..=90 {
        world.idle_until(seconds(second));
        world.write_pages(file, 0, 1);
    }
    let times: Vec<_> = world.written().into_iter().map(|written| written.0).collect();
    assert_eq!(times, [seconds(30), seconds(60), seconds(90)]);
}
