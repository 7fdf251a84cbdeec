//! Random operations on JFFS, compared with the model, with mounts, a thread that collects garbage, space that ends, and
//! power cuts of every shape.

#[path = "../ops/mod.rs"]
mod ops;
mod run;

use fs::jffs1::media::{Endian, RawInode, checksum};
use fs::jffs1::{Jffs1, KnownBad, MountGc, Options, Waiting};
use nand::{PrefixBytes, Tear};
use ops::draw::{self, Allowed};
use ops::{At, Fill, Kind, Op, Which};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use run::{Shared, Step, judge, run};
use sim::Cx;
use sim::seam::{FileSystem, FsError, NewInode, Payload, RenameFlags};

/// What JFFS has: no extended attributes.
const ALLOWED: Allowed = Allowed { root: true, xattr_bytes: None };

fn tear() -> impl Strategy<Value = Tear> {
    prop_oneof![
        1 => Just(Tear::Clean),
        3 => Just(Tear::Prefix(PrefixBytes::Drawn)),
        1 => Just(Tear::Prefix(PrefixBytes::Exactly(u32::MAX))),
        2 => Just(Tear::RandomBits),
    ]
}

/// Steps of every kind; `cuts` of 100 are power cuts, each after up to 120 operations of the flash.
fn steps(cuts: u32, count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        60 => draw::op(ALLOWED).prop_map(Step::Op),
        30 => busy().prop_map(Step::Op),
        4 => Just(Step::Idle),
        1 => Just(Step::Collect),
        3 => Just(Step::Remount),
        cuts => (0..120u64, tear(), prop::bool::weighted(0.1)).prop_map(|(ops, tear, unstable)| Step::Cut(ops, tear, unstable)),
    ];
    prop::collection::vec(step, count)
}

/// Operations on a few files that are written again and again, so that the log goes round.
fn busy() -> impl Strategy<Value = Op> {
    let file = || (0..6u8).prop_map(|number| At::new(&[b'g', b'a' + number]));
    let named = move || file().prop_map(Which::Named);
    let fill = |most: usize| {
        let kind = prop::sample::select(vec![Kind::Zeroes, Kind::Text, Kind::Noise]);
        (kind, 1..most, any::<u64>()).prop_map(|(kind, length, seed)| Fill { kind, length, seed })
    };
    prop_oneof![
        30 => (named(), 0..5u64, fill(9000)).prop_map(|(which, block, fill)| Op::Write(which, block * 4096, fill)),
        20 => (named(), 0..20_000u64, fill(300)).prop_map(|(which, at, fill)| Op::Write(which, at, fill)),
        3 => (named(), 0..200u64, fill(4097)).prop_map(|(which, at, fill)| Op::Write(which, at * 50_000, fill)),
        5 => (named(), 0..25_000u64).prop_map(|(which, size)| Op::Truncate(which, size)),
        5 => file().prop_map(Op::Unlink),
        14 => file().prop_map(|at| Op::Create(at, 0o644)),
        4 => (file(), file()).prop_map(|(from, to)| Op::Rename(from, to, RenameFlags::NONE)),
        2 => (named(), 0..25_000u64).prop_map(|(which, at)| Op::Read(which, at, 6000)),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let endian = prop::sample::select(vec![Endian::Little, Endian::Big]);
    let mount_gc = prop_oneof![3 => Just(MountGc::None), 1 => Just(MountGc::Full)];
    (endian, mount_gc, 2..5u32, any::<bool>()).prop_map(|(endian, mount_gc, min_free_sectors, mark_obsolete)| Options {
        endian,
        mount_gc,
        min_free_sectors,
        mark_obsolete,
        ..Options::default()
    })
}

fn config() -> ProptestConfig {
    let standard = ProptestConfig::default();
    ProptestConfig { cases: standard.cases / 4, failure_persistence: None, max_shrink_iters: 0, ..standard }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn jffs_is_as_the_model(
        steps in steps(1, 20..400),
        options in options(),
        sectors in 8..20u32,
        sector in prop::sample::select(vec![8192, 16_384, 65_536]),
    ) {
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Cut(..))).collect();
        let met = judge(sectors, sector, options, &steps);
        prop_assert!(met.is_ok(), "{}", met.unwrap_err());
    }

    #[test]
    fn jffs_has_after_a_power_cut_what_was_there_before_or_after_the_operation(
        steps in steps(6, 20..300),
        options in options(),
        sectors in 8..16u32,
    ) {
        let met = judge(sectors, 8192, options, &steps);
        prop_assert!(met.is_ok(), "{}", met.unwrap_err());
    }
}

/// Steps for runs of a twin.
fn drawn(runs: u32, cuts: u32) -> impl Iterator<Item = Vec<Step>> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[11; 32]);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    (0..runs).map(move |_| steps(cuts, 800).new_tree(&mut runner).expect("nothing is refused").current())
}

/// What was drawn must have met what is rare.
#[test]
fn drawn_steps_fill_the_flash_go_round_the_log_and_lose_power() {
    let options = Options { min_free_sectors: 2, ..Options::default() };
    let all: Vec<_> =
        drawn(20, 4).map(|steps| judge(9, 8192, options, &steps).unwrap_or_else(|why| panic!("{why}"))).collect();
    let sum = |of: fn(&run::Met) -> u64| all.iter().map(of).sum::<u64>();
    let (refused, cuts) = (sum(|met| met.refused.into()), sum(|met| met.cuts.into()));
    let (passes, erased) = (sum(|met| met.passes as u64), sum(|met| met.erased));
    assert!(refused > 100 && cuts > 100 && passes > 300 && erased > 20 * 9 * 3, "{refused} {cuts} {passes} {erased}");
}

/// Each deliberate mistake is found by power cuts.
#[test]
fn known_bad_twins_are_found() {
    let none = KnownBad::default();
    for known_bad in [none, KnownBad { forget_replaced: true, ..none }, KnownBad { trust_data: true, ..none }] {
        let options = Options { min_free_sectors: 2, known_bad, ..Options::default() };
        let is_found = drawn(60, 6).any(|steps| {
            let attempt = || run(9, 8192, options, &steps).is_err();
            std::panic::catch_unwind(attempt).unwrap_or(true)
        });
        assert_eq!(is_found, known_bad != none, "{known_bad:?}");
    }
}

const SECTOR: u32 = 8192;
/// Most operations of the flash in a garbage collection of these flashes.
const MOST: u64 = 60;

/// Files "a" and "b" of a node each, and as many more of "b" as end 20 bytes before the first sector does. Nodes have 60 bytes, 4 of
/// the name, and their data.
fn up_to_the_end_of_a_sector(options: Options) -> (Jffs1<Shared>, Cx) {
    let mut cx = Cx::new();
    let mut fs = Jffs1::mount(Shared::new(8, SECTOR), &mut cx, options).expect("an erased flash");
    let [_, b] = [b"a", b"b"].map(|name| fs.create(&mut cx, fs.root(), name, NewInode::of_root(0o644)).unwrap().ino);
    for bytes in [4000, 3916] {
        fs.write(&mut cx, b, 0, Payload::Bytes(&vec![7; bytes])).unwrap();
    }
    assert_eq!(fs.space().free_bytes, u64::from(8 * SECTOR - (SECTOR - 20)));
    (fs, cx)
}

/// Lets power fail in each operation of a garbage collection in turn, and mounts.
fn cut_in_garbage_collection(fs: &Jffs1<Shared>, cx: &Cx, mut each: impl FnMut(Jffs1<Shared>, Cx)) {
    let mut cuts = 0;
    for at in 0..MOST {
        let (flash, mut cx) = (fs.flash().copy(), cx.clone());
        let mut fs = Jffs1::mount(flash.clone(), &mut cx, *fs.options()).expect("it was mounted before");
        flash.cut_after(at, Tear::Clean, false);
        if !fs.collect_all(&mut cx, Waiting::Nobody).is_err_and(|error| error.is_power_loss()) {
            break;
        }
        flash.power_on();
        each(Jffs1::mount(flash, &mut cx, *fs.options()).expect("it can be mounted"), cx);
        cuts += 1;
    }
    assert!((5..MOST).contains(&cuts), "{cuts} cuts");
}

/// The node that deletes "b" begins in the first sector and ends in the next: its rest is cleared before the sector is erased, in
/// which the nodes of "b" are. Linux leaves them valid.
#[test]
fn a_file_whose_deletion_is_half_erased_stays_away() {
    for clear_first in [false, true] {
        let known_bad = KnownBad { clear_first, ..KnownBad::default() };
        let (mut fs, mut cx) =
            up_to_the_end_of_a_sector(Options { min_free_sectors: 2, known_bad, ..Options::default() });
        fs.unlink(&mut cx, fs.root(), b"b").unwrap();
        let mut is_back = false;
        cut_in_garbage_collection(&fs, &cx, |mut fs, mut cx| {
            is_back |= fs.lookup(&mut cx, fs.root(), b"b").is_ok();
            assert!(fs.lookup(&mut cx, fs.root(), b"a").is_ok());
        });
        assert_eq!(is_back, clear_first);
    }
}

/// As before with the node by which "b" gets the name of "a", after which power failed: what it replaces has no deletion of its own.
#[test]
fn a_file_whose_replacement_is_half_erased_stays_away() {
    for clear_first in [false, true] {
        let known_bad = KnownBad { clear_first, ..KnownBad::default() };
        let (mut fs, mut cx) =
            up_to_the_end_of_a_sector(Options { min_free_sectors: 2, known_bad, ..Options::default() });
        // Two programs for the raw inode, one each for name and number; then the deletion.
        fs.flash().cut_after(4, Tear::Clean, false);
        let cut = fs.rename(&mut cx, (fs.root(), b"b"), (fs.root(), b"a"), RenameFlags::NONE);
        assert!(cut.is_err_and(|error| error.is_power_loss()));
        fs.flash().power_on();
        let options = *fs.options();
        let fs = Jffs1::mount(fs.unmount(), &mut cx, options).expect("it can be mounted");
        let mut is_back = false;
        cut_in_garbage_collection(&fs, &cx, |mut fs, mut cx| {
            let size = fs.lookup(&mut cx, fs.root(), b"a").map(|attr| attr.size);
            let is_sound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fs.check())).is_ok();
            is_back |= size != Ok(4000) || !is_sound;
            assert!(matches!(fs.lookup(&mut cx, fs.root(), b"b"), Err(FsError::NoEntry { .. })));
        });
        assert_eq!(is_back, clear_first);
    }
}

/// Contents of "b" look like nodes, and the node that has them has 20 bytes of its header in the first sector. Its rest is cleared
/// before that is erased: without its header and its name, what looks like nodes would be some.
#[test]
fn contents_that_look_like_nodes_are_none_while_their_node_is_half_erased() {
    let (mut fs, mut cx) = up_to_the_end_of_a_sector(Options { min_free_sectors: 2, ..Options::default() });
    let b = fs.lookup(&mut cx, fs.root(), b"b").unwrap().ino;
    let name = b"trap";
    let raw =
        RawInode { ino: 9, pino: 1, version: 1, mode: 0o100_644, nlink: 1, accurate: 0xff, ..RawInode::default() };
    let raw = RawInode { name_bytes: name.len() as u8, name_sum: checksum(name) as u16, ..raw };
    let trap = [&raw.encode(Endian::Little)[..], name].concat();
    fs.write(&mut cx, b, 0, Payload::Bytes(&trap.repeat(30))).unwrap();
    fs.unlink(&mut cx, fs.root(), b"b").unwrap();
    cut_in_garbage_collection(&fs, &cx, |mut fs, mut cx| {
        assert!(fs.lookup(&mut cx, fs.root(), b"a").is_ok());
        assert!(matches!(fs.lookup(&mut cx, fs.root(), name), Err(FsError::NoEntry { .. })));
    });
}

/// A power cut tears a node that goes on in the next sector, whose rest stays erased: at the end of the flash that is the whole
/// last sector. Both sectors are erased in one go later, and power fails in the first: what is erased behind it must not look
/// like the end of the log, which is elsewhere.
#[test]
fn the_erased_rest_of_a_torn_node_does_not_hide_where_the_log_begins() {
    for clear_first in [false, true] {
        let known_bad = KnownBad { clear_first, ..KnownBad::default() };
        let options = Options { min_free_sectors: 2, known_bad, ..Options::default() };
        let mut cx = Cx::new();
        let mut fs = Jffs1::mount(Shared::new(8, SECTOR), &mut cx, options).expect("an erased flash");
        let file = fs.create(&mut cx, fs.root(), b"a", NewInode::of_root(0o644)).unwrap().ino;
        let write = |fs: &mut Jffs1<Shared>, cx: &mut Cx| fs.write(cx, file, 0, Payload::Bytes(&[7; 3000]));
        let (mut torn, mut is_lost) = (0, false);
        for _ in 0..120 {
            // Raw inode, name and data are three programs, and more where one of them goes on in the next sector.
            let flash = fs.flash().copy();
            let mut other = Jffs1::mount(flash.clone(), &mut cx, options).expect("it can be mounted");
            flash.cut_after(3, Tear::Clean, false);
            let is_torn = write(&mut other, &mut cx).is_err();
            flash.power_on();
            write(&mut fs, &mut cx).unwrap();
            if !is_torn {
                continue;
            }
            torn += 1;
            for at in 0..MOST {
                let (flash, mut cx) = (flash.copy(), cx.clone());
                let mut fs = Jffs1::mount(flash.clone(), &mut cx, options).expect("it can be mounted");
                flash.cut_after(at, Tear::RandomBits, false);
                if !fs.collect_all(&mut cx, Waiting::Nobody).is_err_and(|error| error.is_power_loss()) {
                    break;
                }
                flash.power_on();
                is_lost |= Jffs1::mount(flash, &mut cx, options).is_err();
            }
        }
        assert!(torn > 10, "{torn}");
        assert_eq!(is_lost, clear_first);
    }
}
