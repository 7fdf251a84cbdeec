//! Power cuts: every flash operation of a history is cut in turn, and what a flush promised is looked for.
//!
//! A sector that was flushed and not written since must read as it was; one that was written since may also read as any
//! version since. What a discard covered may read as any version that it ever had. Nothing is promised of a LEB of which
//! nothing was flushed since it was made or discarded: its first copy on flash may be torn, for there is no other. The
//! forms that are known to lose a LEB are the twins that show that the check sees a loss.

use std::collections::BTreeSet;

use nand::{Array, Bytes, PowerCut, PrefixBytes, Tear};
use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, LebVolume};
use sim::{Cx, Lnum, Ns, Rng, Seed};
use ubi::block::{Form, OnUbi};
use ubi::{Config, Policy};

use crate::rig::{Host, NAND, SECTOR, attach_again, block, pattern, plain, without_fastmap};

type Volume = OnUbi<Array<Bytes>>;

const LEBS: u32 = 5;
const PER_LEB: u64 = 7;
const SECTORS: u64 = LEBS as u64 * PER_LEB;

/// How a LEB lost what a flush promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// The LEB is unmapped: its only copy was erased.
    Gone,
    /// A PEB holds the LEB, but what is read is no version that it may have, or cannot be read.
    Torn,
}

/// Versions that a sector may have after a cut; version 0 is erased.
#[derive(Clone)]
struct Sector {
    latest: u32,
    allowed: BTreeSet<u32>,
    ever: BTreeSet<u32>,
}

/// What the device promised.
#[derive(Clone)]
struct Promises {
    sectors: Vec<Sector>,
    /// By LEB: whether anything in it was flushed since it was made or discarded.
    flushed: [bool; LEBS as usize],
}

impl Promises {
    fn new() -> Promises {
        let blank = Sector { latest: 0, allowed: [0].into(), ever: [0].into() };
        Promises { sectors: vec![blank; SECTORS as usize], flushed: [false; LEBS as usize] }
    }

    fn of(&mut self, request: &BlockRequest) -> impl Iterator<Item = &mut Sector> {
        self.sectors[request.sector as usize..request.end() as usize].iter_mut()
    }

    /// A request is submitted: from now on it may have happened.
    fn asked(&mut self, request: &BlockRequest, version: u32) {
        match request.op {
            BlockOp::Write => self.of(request).for_each(|sector| {
                sector.latest = version;
                sector.allowed.insert(version);
                sector.ever.insert(version);
            }),
            BlockOp::Trim => {
                let (first, end) = (request.sector.div_ceil(PER_LEB), request.end() / PER_LEB);
                for leb in first..end {
                    self.flushed[leb as usize] = false;
                    for sector in &mut self.sectors[(leb * PER_LEB) as usize..][..PER_LEB as usize] {
                        sector.latest = 0;
                        sector.allowed = sector.ever.clone();
                    }
                }
            }
            BlockOp::Read | BlockOp::Flush => {}
        }
    }

    /// A request has completed.
    fn done(&mut self, request: &BlockRequest) {
        let settled = match (request.op, request.fua) {
            (BlockOp::Flush, _) => 0..SECTORS,
            (BlockOp::Write, true) => request.sector..request.end(),
            _ => return,
        };
        for at in settled {
            let sector = &mut self.sectors[at as usize];
            // What a discard erased may return until it is written.
            if sector.latest > 0 {
                sector.allowed = [sector.latest].into();
                self.flushed[(at / PER_LEB) as usize] = true;
            }
        }
    }

    /// Compares a volume after a cut.
    fn losses(&self, volume: &mut Volume) -> BTreeSet<Loss> {
        let mut losses = BTreeSet::new();
        let promised = |&(at, _): &(u64, &Sector)| self.flushed[(at / PER_LEB) as usize];
        for (at, sector) in (0..).zip(&self.sectors).filter(promised) {
            let (lnum, offset) = (Lnum((at / PER_LEB) as u32), (at % PER_LEB) as usize * SECTOR);
            let mut found = [0; SECTOR];
            let read = volume.read(&mut Cx::new(), lnum, offset as u32, &mut found);
            let is = |version: u32| match version {
                0 => found == [0xff; SECTOR],
                _ => found[..] == pattern(version, at, 1),
            };
            if read.is_err() || !sector.allowed.iter().any(|&version| is(version)) {
                losses.insert(if volume.is_mapped(lnum) { Loss::Torn } else { Loss::Gone });
            }
        }
        losses
    }
}

/// Requests and waits of a history.
fn draw(rng: &mut Rng) -> (BlockRequest, Ns) {
    let sectors = 1 + rng.below(9) as u32;
    let sector = rng.below(SECTORS - u64::from(sectors) + 1);
    let request = match rng.below(10) {
        0..6 => BlockRequest::write(sector, sectors),
        6 => BlockRequest { fua: true, ..BlockRequest::write(sector, sectors) },
        7 => BlockRequest::trim(sector, sectors),
        _ => BlockRequest::flush(),
    };
    (request, Ns([0, 0, 1, 2_000_000_000][rng.below(4) as usize]))
}

/// Runs the history of a seed up to a power cut or its end, and returns the volume without what was in memory.
fn run(volume: Volume, form: Form, cache_lebs: u32, seed: u64, promises: &mut Promises) -> (Volume, bool) {
    let mut host = Host::new(volume, block(form, cache_lebs));
    let mut rng = Seed(seed).stream("test/history");
    for version in 1..=40 {
        let (request, wait) = draw(&mut rng);
        promises.asked(&request, version);
        let data =
            if request.op == BlockOp::Write { pattern(version, request.sector, request.sectors) } else { vec![] };
        match host.ask(request, &data).result {
            Ok(()) => promises.done(&request),
            Err(BlockError::PowerLost) => return (host.device.into_volume(), true),
            Err(error) => panic!("{request:?}: {error}"),
        }
        // A cut may strike in the background: the next request tells.
        host.wait(wait);
    }
    let lost = host.device.submit(host.now, 0, BlockRequest::flush(), sim::seam::Payload::Length(0)).is_err();
    (host.device.into_volume(), lost)
}

const TEARS: [Tear; 4] = [
    Tear::Clean,
    Tear::Prefix(PrefixBytes::Exactly(700)),
    Tear::Prefix(PrefixBytes::Exactly(u32::MAX)),
    Tear::RandomBits,
];

/// Cuts every operation of a history, and returns the number of cuts and each kind of loss with how often it was found.
fn enumerate(form: Form, config: &Config, cache_lebs: u32, seed: u64) -> (u64, Vec<(Loss, u32)>) {
    let start = plain(NAND, config, LEBS);
    let first = start.ubi().flash().ops();
    let (whole, lost) = run(start.clone(), form, cache_lebs, seed, &mut Promises::new());
    assert!(!lost);
    let last = whole.ubi().flash().ops();
    let mut found: Vec<(Loss, u32)> = vec![(Loss::Gone, 0), (Loss::Torn, 0)];
    for op in first..last {
        for (tear, ecc_sees_torn) in TEARS.into_iter().flat_map(|tear| [(tear, false), (tear, true)]) {
            let mut volume = start.clone();
            let cut = PowerCut { ecc_sees_torn, seed: Seed(op), ..PowerCut::at_op(op, tear) };
            volume.flash_mut().set_power_cut(Some(cut));
            let mut promises = Promises::new();
            let (volume, lost) = run(volume, form, cache_lebs, seed, &mut promises);
            assert!(lost, "operation {op} is in the history");
            let mut volume = attach_again(volume, Array::power_on);
            let losses = promises.losses(&mut volume);
            found.iter_mut().filter(|(loss, _)| losses.contains(loss)).for_each(|(_, count)| *count += 1);
            if losses.is_empty() {
                works_on(volume, form, cache_lebs, promises);
            }
        }
    }
    (last - first, found)
}

/// The device that came back takes two whole LEBs, whatever is left of them, keeps the rest, and keeps both when it is
/// attached once more.
fn works_on(volume: Volume, form: Form, cache_lebs: u32, mut promises: Promises) {
    let mut host = Host::new(volume, block(form, cache_lebs));
    let request = BlockRequest { fua: true, ..BlockRequest::write(PER_LEB, 2 * PER_LEB as u32) };
    promises.asked(&request, 99);
    host.ask(request, &pattern(99, request.sector, request.sectors)).result.unwrap();
    promises.done(&request);
    let mut volume = attach_again(host.device.into_volume(), |_| {});
    assert_eq!(promises.losses(&mut volume), BTreeSet::new());
}

fn configs() -> [Config; 2] {
    [without_fastmap(), Config::linux(Policy::LINUX_6_7)]
}

#[test]
fn atomic_write_back_keeps_what_a_flush_promised_through_every_cut() {
    for config in configs() {
        for (cache_lebs, seed) in [(1, 1), (2, 2), (4, 3), (1, 4), (2, 5), (3, 6)] {
            let (cuts, found) = enumerate(Form::Atomic, &config, cache_lebs, seed);
            assert!(cuts > 60, "{cuts} cuts");
            assert_eq!(found, [(Loss::Gone, 0), (Loss::Torn, 0)], "{config:?}, seed {seed}");
        }
    }
}

#[test]
fn unmap_first_is_caught_losing_a_leb_that_was_erased_and_one_that_was_torn() {
    for config in configs() {
        let (_, found) = enumerate(Form::UnmapFirst, &config, 1, 1);
        assert!(found.iter().all(|&(_, count)| count > 0), "{found:?}");
    }
}

#[test]
fn v2_like_is_caught_with_a_torn_leb_and_under_fastmap_with_one_that_is_gone() {
    let older = Config::linux(Policy::LINUX_6_1);
    let [scanned, newer] = configs();
    let [scanned, older, newer] = [scanned, older, newer].map(|config| enumerate(Form::V2Like, &config, 1, 1).1);
    assert!(scanned[1].1 > 0, "{scanned:?}");
    assert_eq!(scanned[0], (Loss::Gone, 0), "a PEB is free: no erasure comes between unmapping and writing");
    // The PEB for the write may need a refill of the pools: the new fastmap lists the LEB as unmapped, and Linux 6.7
    // has erased the only copy before.
    assert!([older, newer].iter().flatten().all(|&(_, count)| count > 0));
}
