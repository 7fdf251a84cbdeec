//! Random operations on a file system that can be written, compared with the model after each, with clean mounts, power
//! cuts, and space that ends.
//!
//! A file system is a [`Subject`](run::Subject). Those made of models show that the comparison is right: the good one
//! loses in a power cut whatever it may lose, and each twin has a flaw that must be found.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

mod cut;
mod cut_flash;
mod fake;
mod jffs2;
#[path = "../ops/mod.rs"]
mod ops;
mod reduce;
mod run;
mod ubifs;

use ::fs::cache::Config;
use ::fs::jffs2::Gluebi;
use ::fs::jffs2::media::Endian;
use ::fs::model::Model;
use ::fs::ubifs::KnownBad;
use ::fs::ubifs::media::{Compression, KeyHash};
use cut::Cut;
use cut_flash::CutFlash;
use fake::{Fake, Flaw};
use ops::draw::{self, Allowed};
use ops::{At, Caller, Fill, Kind, Op, Session, Which};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use reduce::judge;
use run::{Outcome, Step, Subject, run};
use sim::Cx;
use sim::seam::{
    FileSystem, FileType, InodeFlags, NewInode, Payload, RamVolume, ReadInto, RenameFlags, SetXattr, Timestamp,
};
use ubifs::{Cached, OnFlash, Shape};

const ALL: Allowed = Allowed { root: true, xattr_bytes: Some(4097) };

/// Directories and files to begin with, some of them open.
fn first_steps() -> impl Strategy<Value = Vec<Step>> {
    let at = |path: &str| At::new(path.as_bytes());
    let directories = ["a", "b", "a/a", "a/b", "b/a"].map(|path| Op::Mkdir(at(path), 0o755));
    let files = ["c", "d", "a/c", "a/d", "b/c", "a/a/d"];
    let created = files.map(|path| Op::Create(at(path), 0o644));
    let opened = files.map(|path| Op::Open(at(path)));
    let all: Vec<_> = directories.into_iter().chain(created).chain(opened).map(Step::Op).collect();
    let count = all.len();
    prop::sample::subsequence(all, count / 2..=count)
}

fn steps(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Step>> {
    let flags =
        [InodeFlags::COMPRESSED, InodeFlags::SYNC, InodeFlags::IMMUTABLE, InodeFlags::APPEND, InodeFlags::DIR_SYNC];
    let flags = prop::sample::subsequence(flags.to_vec(), 0..3)
        .prop_map(|flags| flags.into_iter().fold(InodeFlags::default(), |all, flag| all | flag));
    let list = (prop::option::of(draw::at()), 0..4usize, prop::collection::vec(draw::op(ALL), 0..4));
    let step = prop_oneof![
        60 => draw::op(ALL).prop_map(Step::Op),
        1 => (draw::there(), flags).prop_map(|(at, flags)| Step::Flags(at, flags)),
        3 => list.prop_map(|(dir, first, ops)| Step::List(dir, first, ops)),
        5 => (draw::which(), any::<bool>()).prop_map(|(which, data_only)| Step::Fsync(which, data_only)),
        2 => Just(Step::Sync),
        1 => (0..40u64).prop_map(Step::Idle),
        1 => any::<bool>().prop_map(|clean| Step::Remount { clean }),
    ];
    (first_steps(), prop::collection::vec(step, count)).prop_map(|(first, then)| [first, then].concat())
}

/// A few files that are written again and again, in pieces, so that space is short, LEBs get dirty and the index grows.
fn busy_steps(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Step>> {
    let file = || (0..14u8).prop_map(|number| At::new(&[b'g', b'a' + number]));
    let named = move || file().prop_map(Which::Named);
    let fill = |most: usize| {
        let kind = prop::sample::select(vec![Kind::Text, Kind::Noise, Kind::Noise]);
        (kind, 1..most, any::<u64>()).prop_map(|(kind, length, seed)| Fill { kind, length, seed })
    };
    let step = prop_oneof![
        30 => (named(), 0..20u64, fill(9000)).prop_map(|(which, block, fill)| Op::Write(which, block * 4096, fill)),
        12 => (named(), 0..80_000u64, fill(300)).prop_map(|(which, at, fill)| Op::Write(which, at, fill)),
        12 => (named(), 0..200u64, fill(4097)).prop_map(|(which, at, fill)| Op::Write(which, at * 50_000, fill)),
        4 => (named(), 0..90_000u64).prop_map(|(which, size)| Op::Truncate(which, size)),
        4 => file().prop_map(Op::Unlink),
        14 => file().prop_map(|at| Op::Create(at, 0o644)),
        3 => (file(), file()).prop_map(|(from, to)| Op::Rename(from, to, RenameFlags::NONE)),
        3 => (named(), fill(2000)).prop_map(|(which, fill)| Op::Setxattr(which, "user.a", fill, SetXattr::Set)),
    ];
    let step = prop_oneof![
        80 => step.prop_map(Step::Op),
        4 => named().prop_map(|which| Step::Fsync(which, false)),
        2 => (0..40u64).prop_map(Step::Idle),
        12 => Just(Step::Sync),
    ];
    prop::collection::vec(step, count)
}

/// Runs `steps` once to count what a power cut can interrupt, and then with cuts, each after so many 1/256 of that.
fn judge_with_cuts<S: Subject>(make: impl Fn() -> S, steps: &[Step], cuts: &[u8]) -> Result<Outcome, String> {
    let events = judge(&make, steps, &[])?.events;
    let cuts: Vec<u64> = cuts.iter().map(|&cut| u64::from(cut) * events / 256).collect();
    judge(make, steps, &cuts)
}

fn config() -> ProptestConfig {
    let standard = ProptestConfig::default();
    ProptestConfig { cases: standard.cases / 4, failure_persistence: None, max_shrink_iters: 0, ..standard }
}

/// Flashes small enough that space ends and garbage is collected.
fn shape() -> impl Strategy<Value = Shape> {
    let sizes = vec![(15_872, 512, 512), (16_384, 2048, 4096), (15_360, 8, 64), (31_744, 256, 256)];
    let sizes = prop::sample::select(sizes);
    let compression = prop::sample::select(Compression::ALL.to_vec());
    (24..60u32, sizes, 3..10u32, compression, prop::bool::weighted(0.2)).prop_map(
        |(lebs, (leb_bytes, min_io, max_write), fanout, compression, is_of_linux)| match is_of_linux {
            true => {
                Shape { lebs: 48, leb_bytes: 31_744, min_io: 512, max_write: 512, fanout, compression, is_of_linux }
            }
            false => Shape { lebs, leb_bytes, min_io, max_write, fanout, compression, is_of_linux },
        },
    )
}

/// NOR and NAND of few small blocks.
fn jffs2_shape() -> impl Strategy<Value = jffs2::Shape> {
    let sizes = prop::sample::select(vec![(8192, 1), (16_384, 1), (8192, 512), (16_384, 2048), (12_288, 1)]);
    let endian = prop::sample::select(vec![Endian::Little, Endian::Big]);
    (10..40u32, sizes, any::<bool>(), endian, 0..6u64).prop_map(
        |(blocks, (block_bytes, page_bytes), summary, endian, compress)| {
            let compress = jffs2::Shape::compress(compress);
            jffs2::Shape { blocks, block_bytes, page_bytes, summary, endian, compress }
        },
    )
}

fn for_jffs2(steps: &[Step]) -> Vec<Step> {
    steps.iter().filter_map(jffs2::suited).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn jffs2_is_as_the_model(steps in steps(20..300), seed in any::<u64>(), shape in jffs2_shape()) {
        let steps: Vec<Step> =
            for_jffs2(&steps).into_iter().filter(|step| !matches!(step, Step::Remount { clean: false })).collect();
        let outcome = judge(|| jffs2::OnFlash::<CutFlash>::new(shape, seed), &steps, &[]);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn jffs2_keeps_in_a_power_cut_what_it_promised(
        steps in prop_oneof![steps(20..200), busy_steps(50..300)],
        seed in any::<u64>(),
        shape in jffs2_shape(),
        cuts in prop::collection::vec(any::<u8>(), 1..4),
    ) {
        let none = fs::jffs2::KnownBad::default();
        let outcome = judge_with_cuts(|| jffs2::OnFlash::<CutFlash>::cut(shape, seed, none), &for_jffs2(&steps), &cuts);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn jffs2_on_a_flash_whose_programs_fail_is_as_the_model(
        steps in prop_oneof![steps(20..200), busy_steps(50..300)],
        seed in any::<u64>(),
        shape in jffs2_shape(),
        cuts in prop::collection::vec(any::<u8>(), 0..3),
        per_mille in 5..40u64,
    ) {
        let none = fs::jffs2::KnownBad::default();
        let make = || jffs2::OnFlash::<CutFlash>::cut(shape, seed, none).failing(per_mille);
        let outcome = judge_with_cuts(make, &for_jffs2(&steps), &cuts);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn jffs2_that_is_nearly_full_is_as_the_model(
        steps in busy_steps(50..400),
        seed in any::<u64>(),
        shape in jffs2_shape(),
    ) {
        let outcome = judge(|| jffs2::OnFlash::<CutFlash>::new(shape, seed), &for_jffs2(&steps), &[]);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

/// Volumes of UBI on NAND and NOR, and with the least unit of a write that there is on NOR with a buffer.
fn jffs2_volume() -> impl Strategy<Value = jffs2::Shape> {
    let sizes = prop::sample::select(vec![(8064, 1), (8184, 8), (7680, 512), (12_288, 2048)]);
    (jffs2_shape(), sizes).prop_map(|(shape, (block_bytes, page_bytes))| jffs2::Shape {
        block_bytes,
        page_bytes,
        ..shape
    })
}

type OnVolume = jffs2::OnFlash<Gluebi<Cut<RamVolume>>>;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn jffs2_on_a_volume_is_as_the_model(
        steps in prop_oneof![steps(20..300), busy_steps(50..300)],
        seed in any::<u64>(),
        shape in jffs2_volume(),
    ) {
        let steps: Vec<Step> =
            for_jffs2(&steps).into_iter().filter(|step| !matches!(step, Step::Remount { clean: false })).collect();
        let outcome = judge(|| OnVolume::new(shape, seed), &steps, &[]);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn jffs2_on_a_volume_keeps_in_a_power_cut_what_it_promised(
        steps in prop_oneof![steps(20..200), busy_steps(50..300)],
        seed in any::<u64>(),
        shape in jffs2_volume(),
        cuts in prop::collection::vec(any::<u8>(), 1..4),
    ) {
        let none = fs::jffs2::KnownBad::default();
        let outcome = judge_with_cuts(|| OnVolume::cut(shape, seed, none), &for_jffs2(&steps), &cuts);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ubifs_is_as_the_model(steps in steps(20..300), seed in any::<u64>(), shape in shape()) {
        let outcome = judge(|| OnFlash::new(shape, seed), &steps, &[]);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn ubifs_that_is_nearly_full_is_as_the_model(steps in busy_steps(50..400), seed in any::<u64>(), shape in shape()) {
        let shape = Shape { lebs: 28 + shape.lebs % 20, is_of_linux: false, ..shape };
        let outcome = judge_with_cuts(|| OnFlash::new(shape, seed), &steps, &[seed.to_le_bytes()[0], 40]);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn ubifs_below_a_page_cache_is_as_the_model(
        steps in prop_oneof![steps(20..300), busy_steps(50..300)],
        seed in any::<u64>(),
        shape in shape(),
    ) {
        let steps: Vec<Step> =
            steps.into_iter().filter(|step| !matches!(step, Step::Remount { clean: false })).collect();
        let config = Config { read_ahead_bytes: 0, ..Config::linux(1 << 18) };
        let outcome = judge(|| Cached::new(shape, seed, config), &steps, &[]);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn ubifs_keeps_in_a_power_cut_what_it_promised(
        steps in steps(20..200),
        seed in any::<u64>(),
        shape in shape(),
        cuts in prop::collection::vec(any::<u8>(), 1..4),
    ) {
        let outcome = judge_with_cuts(|| OnFlash::new(shape, seed), &steps, &cuts);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn a_model_is_as_the_model(steps in steps(20..200), seed in any::<u64>(), is_tight in any::<bool>()) {
        let outcome = judge(|| Fake::new(seed, is_tight, None), &steps, &[]);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }

    #[test]
    fn what_a_power_cut_may_leave_is_accepted(
        steps in steps(20..120),
        seed in any::<u64>(),
        cuts in prop::collection::vec(any::<u8>(), 1..4),
    ) {
        let outcome = judge_with_cuts(|| Fake::new(seed, false, None), &steps, &cuts);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

/// Drawn runs of a twin: the twin, steps, and power cuts that come in the middle of them.
fn runs(flaw: Flaw) -> impl Iterator<Item = (impl Fn() -> Fake, Vec<Step>, Vec<u64>)> {
    const RUNS: u8 = 60;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    (0..RUNS).map(move |seed| {
        let steps = steps(100).new_tree(&mut runner).expect("nothing is refused").current();
        let make = move || Fake::new(seed.into(), flaw == Flaw::NoSpaceButDone, Some(flaw));
        (make, steps, vec![u64::from(seed), 30, 30])
    })
}

/// What is found in drawn runs of a twin.
fn found_in(flaw: Flaw) -> impl Iterator<Item = String> {
    runs(flaw).filter_map(|(make, steps, cuts)| run(&mut make(), &steps, &cuts, &mut Vec::new()).err())
}

#[test]
fn a_mistake_is_reduced_to_the_steps_that_it_needs() {
    for (flaw, most, last) in [
        (Flaw::Replaces, 4, "RenameFlags(1)"),
        (Flaw::LosesXattr, 4, "Setxattr"),
        (Flaw::NeitherName, 6, "Rename"),
        (Flaw::FsyncWithoutNames, 4, "Fsync"),
    ] {
        let mut told = runs(flaw).filter_map(|(make, steps, cuts)| judge(make, &steps, &cuts).err());
        let told = told.next().expect("it is found");
        let (why, left) = told.split_once("\nafter").expect("the steps are told");
        let left: Vec<&str> = left.trim().lines().collect();
        assert!(left.len() <= most && left.iter().any(|step| step.contains(last)), "{flaw:?}: {why}: {left:#?}");
    }
}

#[test]
fn each_flaw_is_found_and_named() {
    for (flaw, named) in [
        (Flaw::NoSync, "as they never were"),
        (Flaw::NoFsync, "an inode is as it never was"),
        (Flaw::FsyncWithoutData, "never had"),
        (Flaw::FsyncWithoutNames, "the names are as they never were"),
        (Flaw::LosesName, "is missing"),
        (Flaw::NeitherName, "the names are as they never were"),
        (Flaw::BothNames, "the names are as they never were"),
        (Flaw::StaleBlock, "has contents that it never had"),
        (Flaw::TornBlock, "has contents that it never had"),
        (Flaw::WrongSize, "a size that it never had"),
        (Flaw::TornAttributes, "attributes"),
        (Flaw::LosesXattr, "extended attributes that it never had"),
        (Flaw::Replaces, "instead of error 17"),
        (Flaw::DirtyHole, "crc"),
        (Flaw::SkipsEntry, "is not seen once"),
        (Flaw::NoSpaceButDone, "instead of"),
        (Flaw::UnmountLosesXattr, "user."),
        (Flaw::FailsCheck, "a flaw"),
    ] {
        let found: Vec<_> = found_in(flaw).take(20).collect();

        assert!(found.iter().any(|why| why.contains(named)), "{flaw:?} is not found by that: {found:?}");
    }
}

/// A small flash.
const SMALL: Shape = Shape {
    lebs: 40,
    leb_bytes: 15_872,
    min_io: 512,
    max_write: 512,
    fanout: 8,
    compression: Compression::None,
    is_of_linux: false,
};

/// Each deliberate mistake of UBIFS is found by power cuts.
#[test]
fn known_bad_twins_of_ubifs_are_found() {
    let shape = Shape { fanout: 4, ..SMALL };
    let none = KnownBad::default();
    for known_bad in [
        none,
        KnownBad { skip_write_buffer: true, ..none },
        KnownBad { write_one_master: true, ..none },
        KnownBad { forget_orphans: true, ..none },
        KnownBad { clean_log_first: true, ..none },
        KnownBad { trust_heads: true, ..none },
    ] {
        const RUNS: u64 = 150;
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
        let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
        let is_found = (0..RUNS).any(|seed| {
            let steps = steps(120).new_tree(&mut runner).expect("nothing is refused").current();
            let attempt = |cuts: &[u64]| {
                let run = || run(&mut OnFlash::known_bad(shape, seed, known_bad), &steps, cuts, &mut Vec::new());
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panics".to_owned()))
            };
            match attempt(&[]) {
                Err(_) => true,
                Ok(outcome) => attempt(&[outcome.events * (seed % 16) / 16, 3 + seed % 9, 3 + seed % 7]).is_err(),
            }
        });
        assert_eq!(is_found, known_bad != none, "{known_bad:?}");
    }
}

/// Power fails between the two nodes of a rename over another name, so that the entry that was replaced is not marked on
/// NOR. When the name is removed later, it must not come back.
#[test]
fn a_name_that_was_replaced_when_power_failed_does_not_come_back() {
    let shape = jffs2::Shape {
        blocks: 16,
        block_bytes: 8192,
        page_bytes: 1,
        summary: false,
        endian: Endian::Little,
        compress: fs::jffs2::Compress::None,
    };
    let (old, new) = (At::new(b"gb"), At::new(b"gd"));
    let mut cuts = 0;
    for events in 0..4 {
        for seed in 0..8 {
            let steps = [
                Step::Op(Op::Create(old.clone(), 0o644)),
                Step::Op(Op::Create(new.clone(), 0o644)),
                Step::Cut(vec![events]),
                Step::Op(Op::Rename(old.clone(), new.clone(), RenameFlags::NONE)),
                Step::Op(Op::Unlink(new.clone())),
            ];
            let mut subject = jffs2::OnFlash::<CutFlash>::cut(shape, seed, fs::jffs2::KnownBad::default());
            cuts += run(&mut subject, &steps, &[], &mut Vec::new()).expect("it stays removed").power_cuts;
        }
    }
    assert!(cuts > 20, "{cuts}");
}

/// Each deliberate mistake of JFFS2 is found by power cuts, or by a mount.
#[test]
fn known_bad_twins_of_jffs2_are_found() {
    let nor = jffs2::Shape {
        blocks: 16,
        block_bytes: 8192,
        page_bytes: 1,
        summary: false,
        endian: Endian::Little,
        compress: fs::jffs2::Compress::None,
    };
    let nand = jffs2::Shape { page_bytes: 512, ..nor };
    let none = fs::jffs2::KnownBad::default();
    for (shape, known_bad) in [
        (nor, none),
        (nand, none),
        (nand, fs::jffs2::KnownBad { skip_write_buffer: true, ..none }),
        (nand, fs::jffs2::KnownBad { no_deletion: true, ..none }),
        (nor, fs::jffs2::KnownBad { obsolete_first: true, ..none }),
    ] {
        const RUNS: u64 = 100;
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
        let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
        let is_found = (0..RUNS).any(|seed| {
            let steps = for_jffs2(&steps(120).new_tree(&mut runner).expect("nothing is refused").current());
            let attempt = |cuts: &[u64]| {
                let run =
                    || run(&mut jffs2::OnFlash::<CutFlash>::cut(shape, seed, known_bad), &steps, cuts, &mut Vec::new());
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panics".to_owned()))
            };
            match attempt(&[]) {
                Err(_) => true,
                Ok(outcome) => attempt(&[outcome.events * (seed % 16) / 16, 3 + seed % 9, 3 + seed % 7]).is_err(),
            }
        });
        assert_eq!(is_found, known_bad != none, "{known_bad:?}");
    }
}

/// A LEB that was used before becomes a bud and is named in the log while its first nodes wait in the write buffer. If
/// power fails then, what was in it must not be replayed.
#[test]
fn what_a_bud_held_before_does_not_come_back() {
    const ROUNDS: u64 = 300;
    const FILES: u64 = 12;
    let shape = Shape {
        lebs: 32,
        leb_bytes: 15_872,
        min_io: 512,
        max_write: 2048,
        fanout: 8,
        compression: Compression::None,
        is_of_linux: false,
    };
    let at = |file: u64| At::new(format!("file{file}").as_bytes());
    let mut steps: Vec<Step> = (0..FILES).map(|file| Step::Op(Op::Create(at(file), 0o644))).collect();
    for round in 0..ROUNDS {
        let fill = |length| Fill { kind: Kind::Noise, length, seed: round };
        let of = |file: u64| Which::Named(at(file % FILES));
        steps.extend([
            Step::Op(Op::Setxattr(of(round), "user.a", fill(300), SetXattr::Set)),
            // Events in which the value waits.
            Step::Op(Op::Write(of(round), 0, fill(4096))),
            // What was set in an earlier round is on flash, and must stay.
            Step::Fsync(of(round + 5), false),
        ]);
    }
    let run = |cuts: &[u64]| {
        let run = || run(&mut OnFlash::new(shape, 1), &steps, cuts, &mut Vec::new());
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panics".to_owned()))
    };
    let events = run(&[]).expect("it is as the model").events;
    let broken: Vec<u64> = (events / 3..events).step_by(5).filter(|&cut| run(&[cut]).is_err()).collect();
    assert!(broken.is_empty(), "of {events} events: {broken:?}");
}

/// Each commit lists a file that was opened and has lost its name; four of them are open at a time. When the area is full, a commit lists
/// these anew. Wherever power fails, the next mount deletes every one.
#[test]
fn no_file_without_a_name_is_left_when_their_list_is_written_anew() {
    // Of 15,872 bytes and pages of 512: with the 32nd commit.
    const ROUNDS: usize = 36;
    let mut steps = Vec::new();
    for round in 0..ROUNDS {
        let at = At::new(format!("file{round}").as_bytes());
        steps.extend([Op::Create(at.clone(), 0o644), Op::Open(at.clone()), Op::Unlink(at)].map(Step::Op));
        steps.push(Step::Sync);
        if round > 2 {
            steps.push(Step::Op(Op::Release(0)));
        }
    }
    // Each with one LEB for the lists.
    for seed in [3, 9, 15, 21] {
        let run = |cuts: &[u64]| {
            let run = || run(&mut OnFlash::new(SMALL, seed), &steps, cuts, &mut Vec::new());
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it panics".to_owned()))
        };
        let events = run(&[]).expect("it is as the model").events;
        let broken: Vec<u64> = (events / 2..events).filter(|&cut| run(&[cut]).is_err()).collect();
        assert!(broken.is_empty(), "of {events} events: {broken:?}");
    }
}

/// Power fails in the same moment of each of a dozen mounts, so that commits begin and do not end, until the log is full of them. Nothing is
/// lost.
#[test]
fn mounts_that_are_cut_short_again_and_again_lose_nothing() {
    let cx = &mut Cx::new();
    let mut cuts = 0;
    for events in 0.. {
        let mut flash = OnFlash::new(SMALL, 1);
        let (root, new) = (flash.fs().root(), NewInode::of_root(0o644));
        let ino = flash.fs().create(cx, root, b"file", new).expect("there is space").ino;
        flash.fs().write(cx, ino, 0, Payload::Bytes(&[7; 10_000])).expect("there is space");
        flash.fs().fsync(cx, ino, false).expect("power is on");
        let fails = (0..12).filter(|_| flash.cut_in_mount(cx, events)).count();
        let mounted = flash.remount(cx, false);
        assert!(mounted.is_ok(), "{fails} mounts failed after {events} events each");
        let mut bytes = [0; 10_001];
        assert_eq!(flash.fs().read(cx, ino, 0, ReadInto::Bytes(&mut bytes)), Ok(10_000), "{events} events");
        assert!(bytes[..10_000].iter().all(|&byte| byte == 7), "{events} events");
        flash.check(cx).expect("it is whole");
        if fails == 0 {
            break;
        }
        cuts += fails;
    }
    assert!(cuts > 40, "{cuts}");
}

/// What was drawn must have met what is rare.
#[test]
fn drawn_steps_collect_garbage_of_jffs2() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[6; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let mut met = fs::jffs2::Counters::default();
    let mut refused = 0;
    for seed in 0..12 {
        let steps = for_jffs2(&busy_steps(1000).new_tree(&mut runner).expect("nothing is refused").current());
        let shape = jffs2_shape().new_tree(&mut runner).expect("nothing is refused").current();
        let mut subject = jffs2::OnFlash::<CutFlash>::new(shape, seed);
        refused += run(&mut subject, &steps, &[], &mut Vec::new()).expect("it is as the model").refused;
        let counters = subject.before_unmount();
        met.copied += counters.copied;
        met.rewritten += counters.rewritten;
        met.erased += counters.erased;
        met.foreground += counters.foreground;
        met.summaries += counters.summaries;
    }
    assert!(refused > 100, "{refused}");
    let few =
        [met.copied, met.rewritten, met.erased, met.foreground, met.summaries].into_iter().any(|count| count < 100);
    assert!(!few, "{met:?}");
}

/// What was drawn must have met what is rare.
#[test]
fn drawn_steps_collect_garbage_and_write_the_index_into_gaps() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[5; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let mut met = fs::ubifs::Counters::default();
    for seed in 0..12 {
        let steps = busy_steps(1500).new_tree(&mut runner).expect("nothing is refused").current();
        let drawn = shape().new_tree(&mut runner).expect("nothing is refused").current();
        let mut subject = OnFlash::new(Shape { lebs: 28 + drawn.lebs % 20, is_of_linux: false, ..drawn }, seed);
        run(&mut subject, &steps, &[], &mut Vec::new()).expect("it is as the model");
        let counters = subject.before_unmount();
        met.collected += counters.collected;
        met.collected_index += counters.collected_index;
        met.index_nodes_in_gaps += counters.index_nodes_in_gaps;
        met.commits_required += counters.commits_required;
    }
    assert!(met.collected > 100 && met.collected_index > 0, "{met:?}");
    assert!(met.index_nodes_in_gaps > 100 && met.commits_required > 10, "{met:?}");
}

#[test]
fn two_names_collide_in_ubifs() {
    let [one, other] = draw::COLLIDING.map(|name| KeyHash::R5.of(name));
    assert_eq!(one, other);
}

/// What was drawn must have met what it is to be compared in.
#[test]
fn drawn_steps_succeed_often_enough() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[3; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let mut met = BTreeMap::<String, u32>::new();
    for _ in 0..60 {
        let (mut model, mut cx) = (Model::new(Timestamp::default()), Cx::new());
        let mut session = Session::new(model.root(), 0, 0);
        for step in steps(100).new_tree(&mut runner).expect("nothing is refused").current() {
            let Step::Op(mut op) = step else { continue };
            op.find(&ops::names(&mut model, &mut cx).expect("a model"));
            let mut caller = Caller { fs: &mut model, cx: &mut cx, session: &mut session };
            let Ok(told) = caller.call(&op) else { continue };
            let what = match &op {
                Op::Write(which, ..) | Op::Truncate(which, _) => {
                    let (ino, file_type) = caller.which(which).expect("just used");
                    let has_name = caller.fs.getattr(caller.cx, ino).expect("just used").nlink > 0;
                    if file_type != FileType::Regular {
                        continue;
                    }
                    let name = if matches!(op, Op::Write(..)) { "write" } else { "truncate" };
                    if has_name { name.to_owned() } else { format!("{name} of an orphan") }
                }
                Op::Rename(_, _, flags) => format!("rename with flags {}", flags.0),
                Op::Read(..) if told.is_empty() => continue,
                other => format!("{other:?}").split('(').next().unwrap_or_default().to_owned(),
            };
            *met.entry(what).or_default() += 1;
        }
    }
    for (what, least) in [
        ("Create", 180),
        ("Mkdir", 140),
        ("Mknod", 15),
        ("Symlink", 15),
        ("Readlink", 3),
        ("Link", 25),
        ("LinkOpened", 5),
        ("Unlink", 70),
        ("Rmdir", 20),
        ("rename with flags 0", 40),
        ("rename with flags 1", 5),
        ("rename with flags 2", 20),
        ("rename with flags 4", 8),
        ("rename with flags 5", 2),
        ("Chmod", 25),
        ("Chown", 25),
        ("Times", 50),
        ("write", 90),
        ("truncate", 50),
        ("write of an orphan", 15),
        ("truncate of an orphan", 8),
        ("Read", 15),
        ("Getxattr", 4),
        ("Setxattr", 50),
        ("Removexattr", 2),
        ("Open", 120),
        ("Release", 40),
    ] {
        let count = met.get(what).copied().unwrap_or_default();

        assert!(count >= least, "{what}: {count} times: {met:?}");
    }
}
