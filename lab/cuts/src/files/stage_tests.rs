//! What a stage makes of calls, of what they made safe, and of what is on the flash.

use std::sync::{Arc, Mutex};

use fs::model::history::Rule;
use fs::model::view::{BLOCK, Everything};
use sim::Ns;
use sim::seam::{FileSystem, FsError, Ino, NewInode, Payload, RenameFlags, SetAttr, SetXattr, Timestamp};

use super::calls::{Call, Data, Kind};
use super::jffs2_twins;
use super::stage::{Down, Stage, at, bring_up};
use super::{FilesRig, Rig, System, twins};
use crate::tape::{BlackBox, Tape};
use crate::{Check, Enumeration, Plan, Selection};

/// After some calls; what they made safe is safe.
fn after<S: System>(system: &S, stage: Stage<S>, calls: &[Call]) -> Stage<S> {
    calls.iter().fold(stage, |stage, call| {
        let stage = after_any(system, stage, call);
        assert_eq!(stage.refused, None, "{call}");
        stage
    })
}

/// After a call that may be refused.
fn after_any<S: System>(system: &S, stage: Stage<S>, call: &Call) -> Stage<S> {
    let done = stage.step(system, call);
    let (mut stage, safe) = done.unwrap_or_else(|_| panic!("{call}: it works"));
    stage.made_safe(safe);
    stage
}

fn write(seed: u64, bytes: u32) -> Call {
    Call::Write { node: 1, offset: 0, data: Data { seed, bytes, is_text: false } }
}

/// A file of two blocks, `/a`, which is safe.
fn with_a_file<S: System>(system: &S) -> Stage<S> {
    let stage = Stage::fresh(system).expect("a device");
    let make = Call::Make { node: 1, at: (0, b"a".to_vec()), kind: Kind::File, mode: 0o644 };
    after(system, stage, &[make, write(1, 2 * BLOCK as u32), Call::Sync])
}

fn found<S: System>(stage: &Stage<S>) -> Everything {
    Everything::of(&mut stage.fs.clone(), &mut at(stage.known.now)).expect("there is power")
}

/// The checks that found something, each once.
fn checks<T>(result: Result<T, Down>) -> Vec<Check> {
    let mut checks: Vec<Check> = match result {
        Ok(_) => Vec::new(),
        Err(Down::Power) => vec![Check::Power],
        Err(Down::Broken(broken)) => broken.into_iter().map(|breach| breach.check).collect(),
    };
    checks.dedup();
    checks
}

/// An inode gets its times when it is written, which a call that takes seconds does seconds after it began; the model has one time
/// for each call. So nothing takes time, whatever it costs.
#[test]
fn what_processor_and_flash_cost_changes_nothing_in_cuts() {
    let found = |text: &str, prices: &str| {
        let text = text.replace("[fs]\n", &format!("[fs]\n{prices}"));
        let enumeration = Enumeration::prepare(Plan::resolve(&text, &[]).expect("a good file")).expect("a device");
        let every = enumeration.list(&Selection::Every(7)).expect("no times");
        enumeration.run(&every, 2, &|_| {})
    };
    let prices = "copy_ps_per_byte = 100000000\nnode_ps_per_byte = 100000000\nnode_ns = 1000000000\n";
    for (nand, kind) in [
        ("pebs = 72\npeb_bytes = 16384\npage_bytes = 512", "lebs = 37\n"),
        ("pebs = 20\npeb_bytes = 8192\npage_bytes = 512", "kind = 'jffs2'\n"),
        ("medium = 'nor'\npebs = 20\npeb_bytes = 8192\npage_bytes = 1", "kind = 'jffs1'\n"),
    ] {
        let text =
            format!("title = 't'\nseed = 5\n[nand]\n{nand}\ndelays = 'on'\n[fs]\n{kind}[cuts]\noperations = 300\n");
        let (free, dear) = (found(&text, ""), found(&text, prices));
        assert_eq!((free.failures.first(), dear.failures.first()), (None, None), "{text}");
        assert!(free.cuts > 50 && free == dear, "{text}: {} cuts", free.cuts);
    }
}

/// Of a name that the model does not know, and of one that it does.
#[test]
fn a_call_that_is_answered_otherwise_than_by_the_model_is_a_breach() {
    let system = twins::plan().system;
    let mut stage = with_a_file(&system);
    let root = stage.fs.root();
    let cx = &mut at(stage.known.now);
    stage.fs.create(cx, root, b"x", NewInode::of_root(0o644)).expect("there is space");
    let name = |name: &[u8]| (0, name.to_vec());
    let make = |name| Call::Make { node: 2, at: name, kind: Kind::File, mode: 0o644 };
    for (call, expected) in [
        (make(name(b"x")), vec![Check::Works]),
        (Call::Unlink { at: name(b"x") }, vec![Check::Works]),
        // Here it is no directory, there it is not.
        (Call::Rmdir { at: name(b"x") }, vec![Check::Works]),
        (make(name(b"a")), vec![]),
        (make(name(b"y")), vec![]),
        (Call::Rmdir { at: name(b"a") }, vec![]),
    ] {
        assert_eq!(checks(stage.clone().step(&system, &call)), expected, "{call}");
    }
}

#[test]
fn what_is_in_use_is_compared_with_the_model_in_every_part() {
    let system = twins::plan().system;
    let mut stage = with_a_file(&system);
    assert_eq!(stage.reads(), Ok(()));
    let (root, ino, now) = (stage.fs.root(), stage.known.inos[&1].0, stage.known.now);
    let attr = stage.fs.getattr(&mut at(now), ino).expect("it is there");
    // At the time at which it was written.
    let then = Ns((attr.ctime.seconds - system.epoch().seconds) * 1_000_000_000);
    type Change<F> = fn(&mut F, &mut sim::Cx, [Ino; 2]) -> Result<(), FsError>;
    let changes: [(Change<<super::UbifsOnUbi as System>::Fs>, &str); 7] = [
        (|fs, cx, [root, _]| fs.create(cx, root, b"x", NewInode::of_root(0o644)).map(drop), "/x is too much"),
        (|fs, cx, [root, _]| fs.unlink(cx, root, b"a"), "/a is missing"),
        (|fs, cx, [root, ino]| fs.link(cx, ino, root, b"b").map(drop), "/b is too much"),
        (
            |fs, cx, [_, ino]| {
                let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
                fs.setattr(cx, ino, &mode).map(drop)
            },
            "has attributes",
        ),
        (|fs, cx, [_, ino]| fs.setxattr(cx, ino, b"user.x", b"1", SetXattr::Set), "extended attributes"),
        (|fs, cx, [_, ino]| fs.write(cx, ino, BLOCK, Payload::Bytes(b"x")).map(drop), "contents in block 1"),
        (
            // The second block is gone, and reads as zeroes.
            |fs, cx, [_, ino]| {
                fs.setattr(cx, ino, &SetAttr::size(BLOCK))?;
                fs.setattr(cx, ino, &SetAttr::size(2 * BLOCK)).map(drop)
            },
            "contents in block 1",
        ),
    ];
    for (change, says) in changes {
        let mut changed = stage.clone();
        change(&mut changed.fs, &mut at(then), [root, ino]).expect(says);
        let broken = changed.reads().expect_err(says);
        assert!(broken.len() == 1 && broken[0].check == Check::Reads, "{broken:?}");
        assert!(broken[0].what.contains(says), "{says}: {broken:?}");
    }
}

/// Contents and attributes of before may be there until something made the new ones safe.
#[test]
fn what_each_call_makes_safe_may_not_be_older_from_then_on() {
    fn on<S: System>(system: &S) {
        let stage = with_a_file(system);
        let before = found(&stage);
        let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        let new_mode = after(system, stage.clone(), &[Call::SetAttr { node: 1, change: mode }]);
        let new_contents = after(system, stage, &[write(2, 2 * BLOCK as u32)]);
        // Its contents as they were, with the attributes that it has now.
        let mut old_contents = found(&new_contents);
        let ino = old_contents.names[&b"/a"[..]];
        old_contents.inodes.get_mut(&ino).unwrap().blocks = before.inodes[&before.names[&b"/a"[..]]].blocks.clone();
        for (call, mode_is_safe, contents_are) in [
            (Call::Idle(1), false, false),
            (Call::Background, false, false),
            (Call::Fsync { node: 0, data_only: false }, false, false),
            (Call::Fsync { node: 1, data_only: true }, false, true),
            (Call::Fsync { node: 1, data_only: false }, true, true),
            (Call::Sync, true, true),
            (Call::Remount, true, true),
        ] {
            let rule = |stage: &Stage<S>, found| {
                let stage = after(system, stage.clone(), std::slice::from_ref(&call));
                stage.known.history.check(found).err().map(|breach| breach.rule)
            };
            assert_eq!(rule(&new_mode, &before), mode_is_safe.then_some(Rule::Attributes), "{call}");
            assert_eq!(rule(&new_contents, &old_contents), contents_are.then_some(Rule::Contents), "{call}");
        }
    }
    on(&twins::plan().system);
    on(&jffs2_twins::plan().system);
}

/// Both names of a rename, a block that is half new, and a time of the last change that is older.
#[test]
fn what_a_cut_may_leave_of_jffs2_it_may_not_leave_of_ubifs() {
    fn rules<S: System>(system: &S) -> [Option<Rule>; 3] {
        let stage = with_a_file(system);
        let to = (0, b"b".to_vec());
        let rename = Call::Rename { from: (0, b"a".to_vec()), to, flags: RenameFlags::NONE, whiteout: 0 };
        let renamed = after(system, stage.clone(), &[rename]);
        let mut both = found(&renamed);
        let ino = both.names[&b"/b"[..]];
        both.names.insert(b"/a".to_vec(), ino);
        both.inodes.get_mut(&ino).unwrap().attr.nlink = 2;

        let written = after(system, stage.clone(), &[write(2, 2 * BLOCK as u32)]);
        let (mut half, old) = (found(&written), found(&stage));
        let blocks = &mut half.inodes.get_mut(&ino).unwrap().blocks;
        let mut block = *blocks[&0];
        block[1000..].copy_from_slice(&old.inodes[&ino].blocks[&0][1000..]);
        blocks.insert(0, Arc::new(block));

        let mut older = found(&stage);
        older.inodes.get_mut(&ino).unwrap().attr.ctime = Timestamp::default();
        let rule = |stage: &Stage<S>, found| stage.known.history.check(found).err().map(|breach| breach.rule);
        [rule(&renamed, &both), rule(&written, &half), rule(&stage, &older)]
    }
    let all = [Rule::Names, Rule::Contents, Rule::Attributes].map(Some);
    assert_eq!(rules(&twins::plan().system), all);
    assert_eq!(rules(&jffs2_twins::plan().system), [None; 3]);
}

#[test]
fn a_mount_that_goes_well_although_power_is_lost_is_a_breach() {
    let system = twins::plan().system;
    let mut tape = <super::UbifsOnUbi as System>::into_tape(with_a_file(&system).fs);
    tape.array.power_on();
    let mount = |tape, is_lost: bool| {
        let mut tape: Tape = tape;
        let left = is_lost.then(|| Box::new(tape.clone()));
        tape.black_box = Some(BlackBox { at: u64::MAX, left: Arc::new(Mutex::new(left)) });
        bring_up(&system, tape, Ns(1_000_000_000))
    };
    assert_eq!(checks(mount(tape.clone(), false)), []);
    let Err(Down::Broken(broken)) = mount(tape, true) else { panic!("it is a breach") };
    assert!(broken[0].check == Check::Power && broken[0].what.contains("although power was lost"), "{broken:?}");
}

/// What the load makes safe is safe when the next step is cut.
#[test]
fn what_the_load_synced_may_not_be_older_from_then_on() {
    let plan = twins::plan();
    let make = |node, name: &[u8]| Call::Make { node, at: (0, name.to_vec()), kind: Kind::File, mode: 0o644 };
    let steps = vec![make(1, b"a"), make(2, b"b"), Call::Sync, make(3, b"c")];
    let first = Stage::fresh(&plan.system).expect("a device");
    let rig = FilesRig { load: plan.load(), plan, steps, script: None };
    let mut stages = vec![first];
    for step in 0..4 {
        stages.push(rig.advance(stages[step].clone(), step).expect("it works"));
    }
    let found: Vec<Everything> = stages.iter().map(found).collect();
    for (at, stage) in stages.iter().enumerate() {
        let may_be: Vec<usize> =
            (0..5).filter(|&then| then <= at && stage.known.history.check(&found[then]).is_ok()).collect();
        let expected = [&[0][..], &[0, 1], &[0, 1, 2], &[2, 3], &[2, 3, 4]][at];
        assert_eq!(may_be, expected, "after step {at}");
    }
}

/// Names that say another type, of JFFS2, and data with wrong bits, of UBIFS, are found when it is unmounted.
#[test]
fn what_an_unmount_leaves_is_checked() {
    fn on<S: System>(system: &S, change: fn(&mut Tape)) {
        let mut stage = with_a_file(system);
        let remount = |stage: &Stage<S>| checks(stage.clone().step(system, &Call::Remount));
        assert_eq!(remount(&stage), []);
        change(stage.tape_mut());
        assert_eq!(remount(&stage), [Check::Structure], "{}", S::NAME);
    }
    on(&twins::plan().system, twins::flip_data);
    on(&jffs2_twins::plan().system, jffs2_twins::rename_types);
}

/// Every kind of a draw comes, and so do files that lose their name while they are open.
#[test]
fn a_load_draws_each_kind_of_call() {
    let plan = twins::plan();
    let mut stage = Stage::fresh(&plan.system).expect("a device");
    let (mut load, mut calls) = (plan.load(), Vec::new());
    for _ in 0..600 {
        let call = load.draw(&plan, &stage).expect("there is no end");
        stage = after_any(&plan.system, stage, &call);
        calls.push(call);
    }
    type Is = fn(&Call) -> bool;
    let kinds: [Is; 9] = [
        |call| matches!(call, Call::Make { .. }),
        |call| matches!(call, Call::Write { .. }),
        |call| matches!(call, Call::Fsync { data_only: false, .. }),
        |call| matches!(call, Call::Fsync { data_only: true, .. }),
        |call| matches!(call, Call::Sync),
        |call| matches!(call, Call::Close { .. }),
        |call| matches!(call, Call::Idle(_)),
        |call| matches!(call, Call::Background),
        |call| matches!(call, Call::Remount),
    ];
    for (at, is) in kinds.iter().enumerate() {
        assert!(calls.iter().any(is), "kind {at}");
    }
    let opened = calls.iter().filter(|call| matches!(call, Call::Open { .. })).count();
    let loses = |two: &&[Call]| matches!(two, [Call::Open { .. }, Call::Unlink { .. }]);
    let loses_its_name = calls.windows(2).filter(loses).count();
    assert!(loses_its_name > 0 && loses_its_name < opened, "{loses_its_name} of {opened}");
}
