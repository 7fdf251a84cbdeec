//! The thread between the operations of a program: when it is woken, and who has the lock.

use fs::jffs2::Jffs2;
use nand::Bytes;
use sim::seam::{FileSystem, Ino, NewInode, Payload};

use super::*;
use crate::run::Prepared;
use crate::subject::Subject as AnySubject;
use crate::subject::flash::Bare;

type Files<'a> = OnFlash<'a, Jffs2<Array<Bytes>>>;
/// 50 ms, which are five ticks, and the one that is under way.
const PAUSE: Ns = Ns(60_000_000);
/// A pause before a tick at which the thread first looks for a block of which all is obsolete: 80 and 6,202 are 49 times 128, and
/// 10, which is less than 50.
const BEGIN: Ns = Ns(62_020_000_000 - PAUSE.0);

/// JFFS2 on a NOR of 16 blocks, where nothing takes time, after a minute.
fn files(test: impl FnOnce(&mut Files<'_>, Ino)) {
    let text = "title = 't'\n[nand]\nmedium = 'nor'\npebs = 16\npeb_bytes = 8192\npage_bytes = 1\n[fs]\nkind = 'jffs2'\n\
                jffs2.compressors = []\n[logger]\nstatic_files = 0\nlogs = 1\nlog_bytes = 100\nentries = 1\n";
    let prepared = Prepared::resolve(text, &[]).expect("it is right");
    let AnySubject::Flash(flash) = &prepared.subject else { panic!("raw flash") };
    let Some(Bare::Jffs2(of)) = &flash.bare else { panic!("JFFS2") };
    let cx = &mut Cx::new();
    let array = Array::new(flash.array.clone(), Bytes::new());
    let mut files = Files::make(&prepared.experiment, flash, of, array, cx).expect("it is large enough");
    // Linux's thread erases a new flash as soon as it is mounted, and not only once somebody writes.
    assert_eq!((files.work_done().erased, cx.now() >= MINUTE), (16, true), "the whole flash, in a minute");
    let root = files.fs().root();
    let ino = files.fs().create(cx, root, b"file", NewInode::of_root(0o644)).expect("there is space").ino;
    let now = files.thread.now() + PAUSE + PAUSE;
    files.passes_until(now, None).expect("there is power");
    files.passes_until(now + PAUSE, None).expect("there is power");
    assert!(!files.fs().has_work() && files.turns.due.is_none() && !files.turns.signal);
    assert!(now + PAUSE <= BEGIN);
    (files.ended, files.gc) = (BEGIN, Gc::new(now));
    test(&mut files, ino);
}

/// Overwrites until the thread has work, in a tick that is a multiple of 128: a block of which all is obsolete then waits for
/// garbage collection to find it.
fn fill(files: &mut Files<'_>, ino: Ino) {
    let cx = &mut Cx::new();
    cx.wait_until(Ns(480_000_000));
    for block in 0.. {
        if files.fs().has_work() {
            break;
        }
        files.fs().write(cx, ino, block % 7 * 1000, Payload::Bytes(&[block as u8; 900])).expect("there is space");
    }
}

/// As [`fill`], for a thread that has seen the signal and pauses before its next pass.
fn fill_in_a_pause(files: &mut Files<'_>, ino: Ino) {
    fill(files, ino);
    files.fs().take_signals();
    files.turns.asleep = false;
}

fn passes(files: &Files<'_>) -> u64 {
    files.gc.outcome().passes.iter().map(|passes| passes.count).sum()
}

/// The thread sleeps for 50 ms before a pass, but after an erasure it goes on at once. Passes here take microseconds: those
/// for twelve blocks, two for each, would take 1.2 s else.
#[test]
fn the_thread_goes_on_at_once_after_an_erasure() {
    files(|files, ino| {
        fill_in_a_pause(files, ino);
        let (start, erased) = (files.ended, files.work_done().erased);
        files.passes_until(start + PAUSE - Ns(1), None).expect("there is power");
        assert_eq!(passes(files), 0);
        files.passes_until(start + PAUSE + PAUSE - Ns(1), None).expect("there is power");
        assert_eq!((passes(files), files.work_done().erased - erased), (24, 12));
        assert!(!files.fs().has_work());
    });
}

/// A change that leaves work sends a signal, and so does an erasure that a program did itself. Without one a thread that found nothing to do
/// sleeps on, though there is work now.
#[test]
fn a_change_that_leaves_work_wakes_the_thread_at_once() {
    files(|files, ino| {
        let cx = &mut Cx::new();
        let idle = files.work_done();
        files.fs().write(cx, ino, 0, Payload::Bytes(b"x")).expect("there is space");
        files.notice(idle);
        assert_eq!((files.turns.signal, files.turns.due), (false, None), "there is nothing to do");
        fill(files, ino);
        let work = files.work_done();
        files.notice(idle);
        assert_eq!((files.turns.signal, files.turns.due), (true, Some(files.ended)), "something was changed");
        (files.turns.signal, files.turns.due, files.turns.asleep) = (false, None, true);
        files.notice(work);
        assert_eq!((files.turns.signal, files.turns.due), (false, None), "nobody sent a signal");
        while files.work_done().erased == work.erased {
            files.fs().take_signals();
            files.fs().collect(cx).expect("there is power");
        }
        files.notice(work);
        assert_eq!((files.turns.signal, files.turns.due), (true, Some(files.ended)), "a block was erased");
    });
}

/// By hand: a block of 8,192 bytes is read by two calls and marked by a third, and on NOR each write of a node is two calls of
/// the program's. So it writes two nodes while the thread looks at a block that it has erased. The second time the thread has
/// waited while the program worked, so that one more is written before it has the lock.
#[test]
fn a_program_writes_while_the_thread_looks_at_an_erased_block() {
    files(|files, ino| {
        fill_in_a_pause(files, ino);
        let cx = &mut Cx::new();
        let mut now = files.ended + PAUSE;
        files.passes_until(now, None).expect("there is power");
        assert_eq!((passes(files), files.turns.signal), (2, true), "a block was emptied, and erased");
        let size = files.fs().getattr(cx, ino).expect("it is there").size.next_multiple_of(4);
        let mut nodes = 0;
        while passes(files) == 2 {
            let before = files.work_done();
            files.fs().write(cx, ino, size + 4 * nodes, Payload::Bytes(b"node")).expect("there is space");
            assert_eq!(files.work_done().ops - before.ops, 1, "nothing becomes obsolete");
            now = now.max(files.thread.now()) + Ns(1000);
            files.ended = now;
            files.notice(before);
            files.passes_until(now, None).expect("there is power");
            nodes += 1;
        }
        assert_eq!(nodes, 2 + 1);
    });
}

/// A program that is back at once takes the lock before the thread that waits for it, and once more, since the thread is
/// only then woken for the second time and has it handed over. A thread that woke while the program worked has waited
/// through one of the two.
#[test]
fn a_program_that_is_back_at_once_is_first_twice_and_no_more() {
    for (wakes_before, turns) in [(false, 2), (true, 1)] {
        files(|files, ino| {
            fill_in_a_pause(files, ino);
            files.turns.takes_lock = true;
            files.turns.due = Some(if wakes_before { files.ended - Ns(1) } else { files.ended });
            for turn in 0..turns {
                files.passes_until(files.ended, None).expect("there is power");
                assert_eq!(passes(files), 0, "turn {turn} is the program's");
            }
            files.passes_until(files.ended, None).expect("there is power");
            assert!(passes(files) > 0, "the thread has waited for {turns}");
        });
    }
    // A program that was away lets it in at once.
    files(|files, ino| {
        fill_in_a_pause(files, ino);
        files.turns.due = Some(files.ended);
        files.passes_until(files.ended + Ns(1), None).expect("there is power");
        assert!(passes(files) > 0);
    });
}

/// A program that reads flash does not hold the lock.
#[test]
fn a_program_that_reads_lets_the_thread_in_at_once() {
    for reads in [0, 1] {
        files(|files, ino| {
            fill_in_a_pause(files, ino);
            files.turns.takes_lock = true;
            let work = files.work_done();
            files.notice(Work { reads: work.reads - reads, ..work });
            files.turns.due = Some(files.ended);
            files.passes_until(files.ended, None).expect("there is power");
            assert_eq!(passes(files) > 0, reads > 0, "{reads}");
        });
    }
}

/// By hand: of the two turns that a program has while the thread waits, a write that takes the lock for each of its nodes takes
/// one for each node behind the first. A turn that it had too many is one of the next two.
#[test]
fn a_write_of_several_nodes_takes_as_many_turns() {
    for (nodes, turns, had) in [(1, 2, 0), (2, 1, 0), (3, 0, 0), (4, 0, 1)] {
        files(|files, ino| {
            fill(files, ino);
            let work = files.work_done();
            files.notice(Work { ops: work.ops - nodes, locked: work.locked - nodes, ..work });
            for turn in 0..turns {
                files.passes_until(files.ended, None).expect("there is power");
                assert_eq!(passes(files), 0, "{nodes} nodes: turn {turn} is the program's");
            }
            files.passes_until(files.ended, None).expect("there is power");
            assert!(passes(files) > 0, "{nodes} nodes: the thread has waited for {turns}");
            assert_eq!(
                files.turns.left,
                Some(1 - had),
                "{nodes} nodes: passes take no time here, and it waits once more"
            );
        });
    }
}
