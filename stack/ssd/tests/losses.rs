//! Drives on a flash that loses pages, tears pages whose tag is whole, and has blocks that go bad: over power losses,
//! with and without checkpoints, a read returns what was written last, or fails because just these contents were lost.
//! No operation touches a block that is marked bad, and of two checkpoints one is always complete.
//!
//! The flash here is a layer over [`Array`] with rules of its own, so that the drive is not held against the fault
//! model that it was written with.

use std::collections::BTreeSet;

use nand::{Array, ArrayConfig, Bytes, FaultPlan};
use sim::seam::{BlockDevice, BlockError, BlockRequest, Flash, FlashError, Geometry, Payload, ReadStatus};
use sim::{Cx, Ns, Peb, Rng, Seed};
use ssd::dispatch::CheckpointRegions;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::hybrid::{Hybrid, HybridConfig, LogPolicy};
use ssd::ftl::page::{ConfigError, PageConfig, PageFtl};
use ssd::ftl::{NONE, UnitFtl};
use ssd::power::Scan;
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd, Timing,
    TrimmedReads,
};

const SECTORS: u32 = 2;
const PAGES: u32 = 8;

/// What an interrupted program leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    /// Nothing.
    Untouched,
    /// The first sector and the tag: only the contents show that the page is torn.
    WholeTag,
    /// All data and no tag.
    NoTag,
    /// Everything, although the caller sees that power is lost.
    Whole,
}

/// An array of which chosen pages cannot be read, and whose next operations are counted until power is lost.
#[derive(Clone)]
struct Hostile {
    array: Array<Bytes>,
    rotten: BTreeSet<(Peb, u32)>,
    /// Pages that were the last programmed ones of their blocks when power came back, and those before them: the last
    /// one may have no tag.
    were_last: BTreeSet<(Peb, u32)>,
    /// Programs and erases until one is interrupted, and how.
    cut: Option<(u32, Left)>,
    /// Operations on blocks that are marked bad.
    on_bad: Vec<String>,
}

impl Hostile {
    fn look(&mut self, what: &str, peb: Peb) -> Result<(), FlashError> {
        if !self.array.is_powered() {
            return Err(FlashError::PowerLost);
        }
        if self.array.is_bad(peb) {
            self.on_bad.push(format!("{what} of PEB {peb}"));
        }
        Ok(())
    }

    /// Whether this program or erase is interrupted.
    fn strikes(&mut self) -> Option<Left> {
        let (left, how) = self.cut?;
        self.cut = Some((left.saturating_sub(1), how));
        (left == 0).then(|| {
            self.cut = None;
            how
        })
    }

    fn page(&self, offset: u32) -> u32 {
        offset / self.array.geometry().page_bytes
    }
}

impl Flash for Hostile {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.array.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.look("a read", peb)?;
        let status = self.array.read(cx, peb, offset, buf)?;
        if self.rotten.contains(&(peb, self.page(offset))) {
            buf.iter_mut().for_each(|byte| *byte = !*byte);
            return Err(FlashError::Uncorrectable { peb, offset });
        }
        Ok(status)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.program_with_oob(cx, peb, offset, data, &[])
    }

    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        self.look("a program", peb)?;
        let Some(left) = self.strikes() else { return self.array.program_with_oob(cx, peb, offset, data, oob) };
        let Payload::Bytes(whole) = data else { panic!("the drive keeps bytes") };
        let mut torn = whole.to_vec();
        torn[512..].fill(0xff);
        match left {
            Left::Untouched => {}
            Left::WholeTag => drop(self.array.program_with_oob(cx, peb, offset, Payload::Bytes(&torn), oob)),
            Left::NoTag => drop(self.array.program(cx, peb, offset, data)),
            Left::Whole => drop(self.array.program_with_oob(cx, peb, offset, data, oob)),
        }
        self.array.power_off();
        Err(FlashError::PowerLost)
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        self.look("a read", peb)?;
        Flash::read_oob(&mut self.array, cx, peb, offset, buf)
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.look("an erase", peb)?;
        let struck = self.strikes();
        if struck.is_none_or(|left| left == Left::Whole) {
            self.rotten.retain(|&(of, _)| of != peb);
            self.were_last.retain(|&(of, _)| of != peb);
            let erased = self.array.erase(cx, peb);
            if struck.is_none() {
                return erased;
            }
        }
        self.array.power_off();
        Err(FlashError::PowerLost)
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.array.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.mark_bad(cx, peb)
    }
}

/// A drive and the hazards that it meets.
#[derive(Clone, Copy, Debug)]
struct Case {
    channels: u32,
    blocks: u32,
    lpns: u32,
    /// Host pages in a unit between two checkpoints; 0: none.
    every: u32,
    /// Probability that an erase fails.
    erase_failure: f64,
    /// Probability that a program fails. A program that fails and a loss of power before its data are elsewhere are a
    /// double fault, so one of the two excludes the other.
    program_failure: f64,
    cuts: bool,
    seed: u64,
}

trait Make: UnitFtl + Clone {
    fn make(case: &Case, kept: &[u32]) -> Result<Self, ConfigError>;
    fn again(case: &Case, kept: &[u32], scan: Scan) -> Result<Self, ConfigError>;
}

fn page_config(case: &Case, kept: &[u32]) -> PageConfig {
    let gc = [GcPolicy::Greedy, GcPolicy::CostBenefit, GcPolicy::Fifo, GcPolicy::Random][case.seed as usize % 4];
    let separate = !case.seed.is_multiple_of(3);
    PageConfig { bad: kept.to_vec(), gc, separate, ..PageConfig::new(case.blocks, PAGES, case.lpns) }
}

impl Make for PageFtl {
    fn make(case: &Case, kept: &[u32]) -> Result<PageFtl, ConfigError> {
        PageFtl::new(page_config(case, kept), Seed(case.seed).stream("gc"))
    }
    fn again(case: &Case, kept: &[u32], scan: Scan) -> Result<PageFtl, ConfigError> {
        let rng = Seed(case.seed).stream("gc/again");
        PageFtl::rebuild(page_config(case, kept), rng, scan.erases, &scan.bad, scan.pages)
    }
}

impl<P: LogPolicy> Make for Hybrid<P> {
    fn make(case: &Case, kept: &[u32]) -> Result<Self, ConfigError> {
        Hybrid::new(HybridConfig { bad: kept.to_vec(), ..HybridConfig::new(case.blocks, PAGES, case.lpns, 3) })
    }
    fn again(case: &Case, kept: &[u32], scan: Scan) -> Result<Self, ConfigError> {
        let bad = kept.iter().chain(&scan.bad).copied().collect();
        let config = HybridConfig { bad, ..HybridConfig::new(case.blocks, PAGES, case.lpns, 3) };
        Hybrid::rebuild(config, scan.erases, &scan.closed, scan.pages)
    }
}

/// What happened, so that a test can see that it was enough.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    failed_reads: u32,
    lost_after_power_on: u32,
    cuts: u32,
    checkpoints: u32,
    bad_blocks: u32,
    /// Pages whose contents were lost before they were copied.
    lost_copies: u64,
    /// Pages that were lost when no block was left.
    lost_when_worn_out: u32,
}

/// Contents of a sector, as request `version` wrote it.
fn sector(number: u32, version: u32) -> [u8; 512] {
    let mut bytes = [0; 512];
    if version > 0 {
        let mark = (u64::from(number) << 32 | u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&mark.to_le_bytes()));
    }
    bytes
}

struct Bench<M> {
    case: Case,
    shape: Shape,
    regions: Vec<CheckpointRegions>,
    drive: Ssd<Hostile, M>,
    /// Version of each sector, by number.
    versions: Vec<u32>,
    /// Pages whose contents are lost.
    lost: BTreeSet<u32>,
    /// A write that power interrupted, or for which there was no space: first page, its end, and the sectors' versions and lost pages before it.
    open: Option<(BlockRequest, Vec<u32>, BTreeSet<u32>)>,
    had_checkpoint: Vec<bool>,
    told: Told,
}

/// The drive cannot go on: too many blocks are bad.
struct WornOut;

impl<M: Make> Bench<M> {
    fn config(case: &Case, shape: &Shape) -> DriveConfig {
        let front = FrontConfig {
            protocol: Protocol::Sata,
            depth: 1,
            command: Ns(0),
            read_latency: Ns::ZERO,
            write_latency: Ns::ZERO,
            link_bytes_per_s: 0,
            half_duplex: false,
            write_cache: false,
            trimmed_reads: TrimmedReads::Zeroes,
        };
        DriveConfig { pages: case.lpns * shape.units(), front, cache: None, map: None, hpb: None }
    }

    fn dispatch() -> DispatchConfig {
        DispatchConfig {
            timing: Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10)),
            scheduling: Scheduling::ReadsFirst,
            bus_order: ssd::BusOrder::CommandsFirst,
            background_after: Some(Ns(3_000)),
        }
    }

    fn new(case: Case) -> Bench<M> {
        let shape = Shape {
            channels: case.channels,
            ways: 1,
            dies: 1,
            planes: 1,
            blocks: case.blocks,
            pages: PAGES,
            page_bytes: 512 * SECTORS,
            order: Order::CHANNEL_FIRST,
            multi_plane: false,
        };
        let regions = if case.every > 0 {
            let regions = CheckpointRegions::of(&shape, case.lpns, &[]).expect("room for two images");
            vec![regions; shape.units() as usize]
        } else {
            Vec::new()
        };
        let kept: Vec<u32> = regions.iter().take(1).flat_map(CheckpointRegions::blocks).collect();
        let faults = FaultPlan {
            erase_failure: case.erase_failure,
            program_failure: case.program_failure,
            ..FaultPlan::none(Seed(case.seed))
        };
        let array = ArrayConfig { faults: Some(faults), ..ArrayConfig::plain(ssd::cells::geometry(&shape, 64)) };
        let array = Array::new(array, Bytes::with_oob());
        let flash =
            Hostile { array, rotten: BTreeSet::new(), were_last: BTreeSet::new(), cut: None, on_bad: Vec::new() };
        let layers = (0..shape.units()).map(|_| M::make(&case, &kept).expect("a legal geometry")).collect();
        let dispatcher = Dispatcher::new(&shape, Self::dispatch(), Cells::new(&shape, flash), layers);
        let mut drive = Ssd::new(Self::config(&case, &shape), &shape, dispatcher).expect("a drive that can be");
        if case.every > 0 {
            drive.write_checkpoints(case.every, regions.clone());
        }
        let pages = case.lpns * shape.units();
        Bench {
            versions: vec![0; (pages * SECTORS) as usize],
            lost: BTreeSet::new(),
            open: None,
            had_checkpoint: vec![false; shape.units() as usize],
            told: Told::default(),
            case,
            shape,
            regions,
            drive,
        }
    }

    fn pages(&self) -> u32 {
        self.case.lpns * self.shape.units()
    }

    fn hostile(&mut self) -> &mut Hostile {
        self.drive.flash_mut()
    }

    /// Sends a request and waits for it. `None`: power is lost.
    fn ask(&mut self, request: BlockRequest, data: &[u8]) -> Option<Result<(), BlockError>> {
        let sent = self.drive.submit(self.drive.now(), 0, request, Payload::Bytes(data));
        let result = match sent {
            Ok(()) => self.drive.next_done(Ns(u64::MAX)).map(|done| done.result),
            Err(error) => Some(Err(error)),
        };
        result.filter(|result| *result != Err(BlockError::PowerLost))
    }

    fn write(&mut self, first: u32, sectors: u32, version: u32) -> Result<(), WornOut> {
        let request = BlockRequest::write(first.into(), sectors);
        let data: Vec<u8> = (first..first + sectors).flat_map(|number| sector(number, version)).collect();
        let before = (self.versions.clone(), self.lost.clone());
        self.versions[first as usize..(first + sectors) as usize].fill(version);
        for page in first.div_ceil(SECTORS)..(first + sectors) / SECTORS {
            self.lost.remove(&page);
        }
        match self.ask(request, &data) {
            Some(Ok(())) => Ok(()),
            None => {
                self.open = Some((request, before.0, before.1));
                Ok(())
            }
            Some(Err(BlockError::WornOut { .. })) => {
                self.open = Some((request, before.0, before.1));
                Err(WornOut)
            }
            Some(Err(error)) => panic!("{request:?}: {error}"),
        }
    }

    fn trim(&mut self, page: u32) {
        self.lost.remove(&page);
        self.versions[(page * SECTORS) as usize..((page + 1) * SECTORS) as usize].fill(0);
        let trimmed = self.ask(BlockRequest::trim(u64::from(page * SECTORS), SECTORS), &[]);
        assert_eq!(trimmed, Some(Ok(())), "a trim of page {page}");
    }

    /// Reads a page: exactly its sectors, or an error if and only if it is lost. Of an interrupted write a page may have
    /// either contents, and so the other is ruled out.
    fn read(&mut self, page: u32, after_power_on: bool) {
        let request = BlockRequest::read(u64::from(page * SECTORS), SECTORS);
        let Some(result) = self.ask(request, &[]) else { return };
        let mut data = [0xee; 512 * SECTORS as usize];
        self.drive.take(0, &mut data);
        let seen = match result {
            Ok(()) => Some(data),
            Err(BlockError::Uncorrectable { .. }) => None,
            Err(error) => panic!("page {page}: {error}"),
        };
        self.told.failed_reads += u32::from(seen.is_none());
        let whole = |versions: &[u32], lost: &BTreeSet<u32>| {
            let mut bytes = Vec::new();
            for number in page * SECTORS..(page + 1) * SECTORS {
                bytes.extend_from_slice(&sector(number, versions[number as usize]));
            }
            (!lost.contains(&page)).then_some(bytes)
        };
        let seen = seen.map(|data| data.to_vec());
        let now = whole(&self.versions, &self.lost);
        if seen == now {
            return;
        }
        if after_power_on && seen == whole(&self.versions, &BTreeSet::new()) {
            // An older copy, which was not erased yet, has the same contents.
            self.lost.remove(&page);
            return;
        }
        if let Some((request, versions, lost)) = &self.open
            && request.sector < u64::from((page + 1) * SECTORS)
            && u64::from(page * SECTORS) < request.end()
            && (seen == whole(versions, lost) || seen == whole(versions, &BTreeSet::new()))
        {
            let range = (page * SECTORS) as usize..((page + 1) * SECTORS) as usize;
            self.versions[range.clone()].copy_from_slice(&versions[range]);
            if seen.is_none() {
                self.lost.insert(page);
            } else {
                self.lost.remove(&page);
            }
            return;
        }
        let known = |bytes: &[u8]| {
            (0..self.versions.iter().copied().max().unwrap_or(0) + 1)
                .find(|&version| bytes[..512] == sector(page * SECTORS, version))
        };
        panic!(
            "page {page} reads as {:?}, lost: {}, expected version {}",
            seen.as_deref().map(known),
            self.lost.contains(&page),
            self.versions[(page * SECTORS) as usize],
        );
    }

    /// Makes the cells of a page unreadable. Not of a block's first page, nor of one that is or was the last programmed
    /// one at a power-on: by these the drive tells an interrupted operation.
    fn rot(&mut self, page: u32) {
        let (unit, lpn) = (page % self.shape.channels, page / self.shape.channels);
        let ppn = self.drive.dispatcher().units()[unit as usize].lookup(lpn);
        if ppn == NONE || self.lost.contains(&page) {
            return;
        }
        let (peb, row) = (self.drive.dispatcher().cells().peb(unit, ppn / PAGES, 0), ppn % PAGES);
        let programmed = self.hostile().array.mark(peb) / (512 * SECTORS);
        if row > 0 && row + 1 < programmed && !self.hostile().were_last.contains(&(peb, row)) {
            self.hostile().rotten.insert((peb, row));
            self.lost.insert(page);
        }
    }

    /// Power goes, at once or where it went, and comes back. `Err`: too few blocks are left.
    fn power_cycle(&mut self) -> Result<(), WornOut> {
        let shape = self.shape;
        let kept: Vec<u32> = self.regions.iter().take(1).flat_map(CheckpointRegions::blocks).collect();
        self.told.lost_copies += self.drive.dispatcher().counts().lost;
        let mut flash = self.drive.flash_mut().clone();
        flash.cut = None;
        flash.array.power_off();
        flash.array.power_on();
        for peb in (0..flash.array.geometry().pebs).map(Peb) {
            let programmed = flash.array.mark(peb) / (512 * SECTORS);
            flash.were_last.extend((programmed.saturating_sub(2)..programmed).map(|row| (peb, row)));
        }
        assert_eq!(flash.on_bad, Vec::<String>::new(), "while power was on");
        let case = self.case;
        let rebuild = |_, scan: Scan| M::again(&case, &kept, scan);
        let config = Self::config(&case, &shape);
        let up = Ssd::power_on(config, &shape, Self::dispatch(), flash, &self.regions, rebuild);
        let Ok((drive, recovered)) = up else {
            let error = up.map(drop).unwrap_err();
            assert!(self.case.erase_failure > 0.0, "{error}");
            return Err(WornOut);
        };
        self.drive = drive;
        assert_eq!(self.hostile().on_bad, Vec::<String>::new(), "at power-on");
        if case.every > 0 {
            self.drive.resume_checkpoints(case.every, self.regions.clone(), &recovered);
            for (unit, found) in recovered.checkpoints.iter().enumerate() {
                let region_is_whole = kept.iter().all(|&block| {
                    let peb = self.drive.dispatcher().cells().peb(unit as u32, block, 0);
                    !self.drive.dispatcher().cells().flash().is_bad(peb)
                });
                self.told.checkpoints += u32::from(found.is_some());
                if region_is_whole && self.had_checkpoint[unit] {
                    assert!(found.is_some(), "both checkpoints of unit {unit} are gone");
                }
                self.had_checkpoint[unit] = found.is_some();
            }
        }
        for page in 0..self.pages() {
            self.read(page, true);
        }
        self.open = None;
        self.told.lost_after_power_on += self.lost.len() as u32;
        Ok(())
    }

    fn run(&mut self, rng: &mut Rng, steps: u32) {
        if self.storm(rng, steps).is_err() {
            let bad = self.hostile().array.bad_pebs().count();
            assert!(bad > 0 || self.case.program_failure > 0.0, "worn out, with every block good");
            // It still has what it had, and of the last write what is in the cells or in memory: twice the same.
            self.told.lost_when_worn_out += self.lost.len() as u32;
            for _ in 0..2 {
                (0..self.pages()).for_each(|page| self.read(page, false));
                self.open = None;
            }
        }
        self.told.lost_copies += self.drive.dispatcher().counts().lost;
        self.told.bad_blocks += self.hostile().array.bad_pebs().count() as u32;
        assert_eq!(self.hostile().on_bad, Vec::<String>::new());
    }

    fn storm(&mut self, rng: &mut Rng, steps: u32) -> Result<(), WornOut> {
        let sectors = self.pages() * SECTORS;
        for step in 1..=steps {
            match rng.below(100) {
                // After a power loss a trimmed page may be what it was, so these runs have none.
                0..10 if self.case.program_failure > 0.0 => {
                    let page = rng.below(self.pages().into()) as u32;
                    let lost = self.lost.iter().nth(rng.below(8) as usize).copied();
                    self.trim(lost.unwrap_or(page));
                }
                0..70 => {
                    let len = if rng.chance(0.3) { 1 } else { SECTORS * (1 + rng.below(3) as u32) };
                    let first = rng.below(u64::from(sectors - len + 1)) as u32;
                    let first = if rng.chance(0.8) { first / SECTORS * SECTORS } else { first };
                    self.write(first, len, step)?;
                }
                70..90 => {
                    let page = rng.below(self.pages().into()) as u32;
                    self.read(page, false);
                }
                90..96 => {
                    let page = rng.below(self.pages().into()) as u32;
                    self.rot(page);
                }
                96..98 if self.case.cuts => {
                    let left = [Left::Untouched, Left::WholeTag, Left::NoTag, Left::Whole][rng.below(4) as usize];
                    self.hostile().cut = Some((rng.below(40) as u32, left));
                }
                98 if self.case.program_failure == 0.0 => self.power_cycle()?,
                _ => {}
            }
            if !self.hostile().array.is_powered() {
                self.told.cuts += 1;
                self.power_cycle()?;
            }
        }
        Ok(())
    }
}

fn storms<M: Make>(cases: impl Iterator<Item = Case>) -> Told {
    let mut told = Told::default();
    for case in cases {
        let run = std::panic::catch_unwind(|| {
            let mut bench: Bench<M> = Bench::new(case);
            bench.run(&mut Seed(case.seed).stream("losses"), 600);
            bench.told
        });
        let Ok(own) = run else { panic!("{case:?}") };
        told.failed_reads += own.failed_reads;
        told.lost_after_power_on += own.lost_after_power_on;
        told.cuts += own.cuts;
        told.checkpoints += own.checkpoints;
        told.bad_blocks += own.bad_blocks;
        told.lost_copies += own.lost_copies;
        told.lost_when_worn_out += own.lost_when_worn_out;
    }
    println!("{told:?}");
    told
}

/// Cuts and lost pages; half of them with checkpoints.
fn cuts(seeds: std::ops::Range<u64>) -> impl Iterator<Item = Case> {
    seeds.map(|seed| Case {
        channels: 1 + (seed / 2 % 2) as u32,
        blocks: 20,
        lpns: 72,
        every: if seed % 2 == 0 { 0 } else { 10 + (seed * 7 % 60) as u32 },
        erase_failure: 0.0,
        program_failure: 0.0,
        cuts: true,
        seed,
    })
}

fn everything_was_met(told: Told) {
    assert!(told.failed_reads > 100 && told.lost_after_power_on > 100 && told.cuts > 50, "{told:?}");
    assert!(told.lost_copies > 20 && told.checkpoints > 50, "{told:?}");
}

#[test]
fn what_a_page_level_drive_loses_it_never_makes_up() {
    everything_was_met(storms::<PageFtl>(cuts(0..60)));
}

#[test]
fn what_a_log_block_drive_loses_it_never_makes_up() {
    everything_was_met(storms::<Bast>(cuts(100..140)));
    everything_was_met(storms::<Fast>(cuts(200..240)));
    everything_was_met(storms::<BlockFtl>(cuts(300..340)));
}

#[test]
fn a_block_that_went_bad_is_left_alone_for_good() {
    let wearing = |seeds| cuts(seeds).map(|case| Case { blocks: 30, erase_failure: 0.01, ..case });
    let all = [
        storms::<PageFtl>(wearing(0..30)),
        storms::<Bast>(wearing(30..50)),
        storms::<Fast>(wearing(50..70)),
        storms::<BlockFtl>(wearing(70..90)),
    ];
    assert!(all.iter().all(|told| told.bad_blocks > 20), "{all:?}");
}

#[test]
fn a_program_that_fails_on_lost_contents_does_not_make_them_good() {
    let failing = |seeds| cuts(seeds).map(|case| Case { blocks: 40, program_failure: 0.004, cuts: false, ..case });
    storms::<PageFtl>(failing(0..30));
    storms::<Bast>(failing(30..50));
    storms::<Fast>(failing(50..70));
    storms::<BlockFtl>(failing(70..90));
}

/// With some blocks to spare only, of which failed programs take one after the other.
#[test]
fn what_is_lost_stays_lost_when_the_last_program_failed_and_no_block_is_left() {
    let failing =
        |seeds| cuts(seeds).map(|case| Case { blocks: 24, every: 0, program_failure: 0.03, cuts: false, ..case });
    let all = [
        storms::<PageFtl>(failing(0..200)),
        storms::<Bast>(failing(200..300)),
        storms::<Fast>(failing(300..400)),
        storms::<BlockFtl>(failing(400..500)),
    ];
    assert!(all.iter().all(|told| told.lost_when_worn_out > 50), "{all:?}");
}
