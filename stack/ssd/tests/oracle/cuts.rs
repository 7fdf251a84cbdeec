//! Power is lost at any program or erase, several times: everything that the drive guarantees is there at power-on.
//!
//! | promise | when |
//! |---|---|
//! | a completed write is kept | no buffer, FUA or write cache off: at once; otherwise after the next completed flush |
//! | a sector has the contents of one write | always: no sector is torn, or older than the version that is kept |
//! | a trimmed sector is zeroes, or has old contents of its own | until it is written again and that write is kept |

use nand::{Array, ArrayConfig, Bytes, CutAt, PowerCut};
use proptest::prelude::*;
use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, Payload};
use sim::{Ns, Seed};
use ssd::dispatch::CheckpointRegions;
use ssd::ftl::UnitFtl;
use ssd::host::Hpb;
use ssd::power::{ScannedBlock, TestAids};
use ssd::{Cells, Dispatcher, Shape, Ssd};

use crate::case::{Case, Make, ask, sector};

/// The contents that a sector may have.
#[derive(Clone, Debug)]
struct Legal {
    /// Versions that it may have, oldest first.
    versions: Vec<u32>,
    /// All versions ever written.
    ever: Vec<u32>,
    /// The last version whose write completed.
    completed: u32,
    /// The number of the request that trimmed it last; 0 if none did or a later write is kept.
    trimmed: u32,
}

impl Legal {
    fn kept(&mut self, version: u32) {
        if version > 0 {
            self.versions.retain(|&other| other >= version);
            if self.trimmed < version {
                self.trimmed = 0;
            }
        }
    }

    fn find(&self, number: u64, contents: &[u8]) -> Option<u32> {
        let trimmed = self.trimmed > 0;
        let old = self.ever.iter().filter(|_| trimmed).chain(trimmed.then_some(&0));
        self.versions.iter().chain(old).copied().find(|&version| sector(number, version) == contents)
    }
}

/// The logical pages of a unit and, if the case has checkpoints, the regions reserved for them in each unit.
fn with_checkpoints(case: &Case, lpns: u32) -> Option<(u32, Vec<CheckpointRegions>)> {
    if case.checkpoints.is_none() {
        return Some((lpns, Vec::new()));
    }
    let regions = CheckpointRegions::of(&case.shape, lpns, &[])?;
    let left = case.shape.blocks - regions.blocks().count() as u32;
    let lpns = crate::lpns(&Case { shape: Shape { blocks: left, ..case.shape }, ..case.clone() })?;
    // `regions` were sized for more logical pages: they may have too many blocks, never too few.
    (left >= 4).then(|| (lpns, vec![regions; case.shape.units() as usize]))
}

pub fn survives<M: Make>(case: &Case, lpns: u32) -> Result<(), TestCaseError> {
    let shape = &case.shape;
    let Some((lpns, regions)) = with_checkpoints(case, lpns) else { return Ok(()) };
    let kept: Vec<u32> = regions.iter().take(1).flat_map(CheckpointRegions::blocks).collect();
    let layers: Vec<M> = (0..shape.units()).map(|_| M::fresh(case, lpns, &kept)).collect();
    let Some(config) = case.drive(layers.iter().map(UnitFtl::lpns).sum()) else { return Ok(()) };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(shape, 64)), Bytes::with_oob());
    let dispatcher = Dispatcher::new(shape, case.dispatch(), Cells::new(shape, array), layers);
    let mut drive = Hpb::new(Ssd::new(config.clone(), shape, dispatcher).unwrap());
    if let Some(every) = case.checkpoints {
        drive.device_mut().write_checkpoints(every, regions.clone());
    }
    let fresh = Legal { versions: vec![0], ever: Vec::new(), completed: 0, trimmed: 0 };
    let mut legal = vec![fresh; drive.sectors() as usize];
    let mut issued = 0;
    for (life, &(ops, tear, ecc_sees_torn, seed)) in (0..).zip(&case.lives) {
        let cut = PowerCut {
            at: CutAt::Op(ops),
            tear,
            ecc_sees_torn,
            unstable: false,
            pairing: nand::Pairing::None,
            seed: Seed(seed),
        };
        live(case, &mut drive, &mut legal, &mut issued, life, cut)?;
        let mut flash = drive.into_device().into_dispatcher().into_parts().0.into_flash();
        flash.set_power_cut(None);
        flash.power_on();
        let rebuild = |_, scan| Ok::<_, std::convert::Infallible>(M::again(case, lpns, &kept, scan));
        let (copy, reads_before) = (flash.clone(), flash.reads().ops);
        let again = Ssd::power_on(config.clone(), shape, case.dispatch(), flash, &regions, rebuild);
        let (again, recovered) = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
        // What was scanned before stands for its eraseblock; here some of them are, all, or none.
        let scanned = scanned(&copy, shape, seed);
        let earlier: Vec<_> = scanned.iter().map(Option::as_ref).collect();
        let aids = TestAids { earlier: &earlier, ..TestAids::default() };
        let same = Ssd::power_on_with(aids, config.clone(), shape, case.dispatch(), copy, &regions, rebuild);
        let (same, recovered_same) = same.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&recovered_same, &recovered);
        let state = |drive: &Ssd<Array<Bytes>, M>| -> Vec<_> {
            let units = drive.dispatcher().units().iter();
            units.map(|unit| ((0..lpns).map(|lpn| unit.lookup(lpn)).collect(), unit.erase_counts().to_vec())).collect()
        };
        let states: [Vec<(Vec<u32>, Vec<u32>)>; 2] = [state(&again), state(&same)];
        prop_assert_eq!(&states[0], &states[1]);
        if case.checkpoints.is_none() && earlier.iter().all(Option::is_some) {
            prop_assert_eq!(same.dispatcher().cells().flash().reads().ops, reads_before, "read again");
        }
        drive = Hpb::new(again);
        if let Some(every) = case.checkpoints {
            drive.device_mut().resume_checkpoints(every, regions.clone(), &recovered);
        }
        is_served_from_cells(drive.device(), &legal)?;
        hold_against(&mut drive, &mut legal)?;
    }
    Ok(())
}

/// What scans of some eraseblocks find, by PEB.
fn scanned(flash: &Array<Bytes>, shape: &Shape, seed: u64) -> Vec<Option<ScannedBlock>> {
    let mut cells = Cells::new(shape, flash.clone());
    let (planes, blocks) = (shape.unit_planes(), shape.blocks);
    let mut draws = Seed(seed).stream("scanned");
    let share = draws.below(3);
    let pebs = 0..shape.units() * planes * blocks;
    pebs.map(|peb| {
        let (unit, plane, block) = (peb / blocks / planes, peb / blocks % planes, peb % blocks);
        assert_eq!(cells.peb(unit, block, plane), sim::Peb(peb));
        let scanned = cells.scan_eraseblock(unit, block, plane).expect("there is power");
        (draws.below(2) < share).then_some(scanned)
    })
    .collect()
}

/// Issues requests until power is lost, or until there were enough.
fn live<M: Make>(
    case: &Case,
    drive: &mut Hpb<Ssd<Array<Bytes>, M>>,
    legal: &mut [Legal],
    issued: &mut u32,
    life: u64,
    cut: PowerCut,
) -> Result<(), TestCaseError> {
    drive.device_mut().flash_mut().set_power_cut(Some(cut));
    let mut rng = Seed(case.seed ^ life).stream("requests");
    let page = u64::from(case.shape.page_bytes / 512);
    let sectors = drive.sectors();
    let mut under_way: Vec<Option<(BlockRequest, u32, Vec<u32>)>> = vec![None; case.front.depth as usize];
    let mut now = drive.device().now();
    let end = *issued + case.requests;
    let mut next = ask(&mut rng, sectors, page);
    loop {
        let meets = |other: &BlockRequest| other.sector < next.end() && next.sector < other.end();
        let blocked = under_way.iter().flatten().any(|(other, ..)| meets(other));
        let free = under_way.iter().position(Option::is_none);
        if *issued < end
            && let Some(tag) = free
            && !blocked
        {
            *issued += 1;
            let mut data = Vec::new();
            let mut before = Vec::new();
            match next.op {
                BlockOp::Write => {
                    for number in next.sector..next.end() {
                        legal[number as usize].versions.push(*issued);
                        legal[number as usize].ever.push(*issued);
                        data.extend_from_slice(&sector(number, *issued));
                    }
                }
                BlockOp::Trim => {
                    let first = next.sector.next_multiple_of(page);
                    let end = next.end() / page * page;
                    (first..end.max(first)).for_each(|number| legal[number as usize].trimmed = *issued);
                }
                BlockOp::Flush => before = legal.iter().map(|sector| sector.completed).collect(),
                BlockOp::Read => {}
            }
            match drive.submit(now, tag as u32, next, Payload::Bytes(&data)) {
                Ok(()) => under_way[tag] = Some((next, *issued, before)),
                Err(BlockError::PowerLost) => return Ok(()),
                Err(error) => return Err(TestCaseError::fail(format!("{next:?}: {error}"))),
            }
            next = ask(&mut rng, sectors, page);
            continue;
        }
        if under_way.iter().all(Option::is_none) {
            return Ok(());
        }
        let Some(done) = drive.next_done(Ns(u64::MAX)) else {
            prop_assert!(drive.device().dispatcher().power_lost(), "the drive stands still");
            return Ok(());
        };
        now = done.at;
        let (request, version, before) = under_way[done.tag as usize].take().expect("a request that was under way");
        match done.result {
            Ok(()) => {}
            Err(BlockError::PowerLost) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{request:?}: {error}"))),
        }
        match request.op {
            BlockOp::Write => {
                let at_once = case.cache.is_none() || request.fua || !case.front.write_cache;
                for sector in &mut legal[request.sector as usize..request.end() as usize] {
                    sector.completed = version;
                    if at_once {
                        sector.kept(version);
                    }
                }
            }
            BlockOp::Flush => legal.iter_mut().zip(before).for_each(|(sector, version)| sector.kept(version)),
            BlockOp::Read | BlockOp::Trim => {}
        }
    }
}

/// Reads every sector and checks it. What was found is the only legal contents from now on.
fn hold_against<M: Make>(drive: &mut Hpb<Ssd<Array<Bytes>, M>>, legal: &mut [Legal]) -> Result<(), TestCaseError> {
    for (number, legal) in (0..).zip(legal) {
        drive.submit(drive.device().now(), 0, BlockRequest::read(number, 1), Payload::Length(0)).unwrap();
        let done = drive.next_done(Ns(u64::MAX)).expect("a read ends");
        prop_assert_eq!(&done.result, &Ok(()), "sector {}", number);
        let mut contents = [0xee; 512];
        drive.take(0, &mut contents);
        let Some(found) = legal.find(number, &contents) else {
            let known = (0..100_000).find(|&version| sector(number, version) == contents);
            return Err(TestCaseError::fail(format!("sector {number} is {known:?}, and may be {legal:?}")));
        };
        // `trimmed` stays: a trim that a checkpoint recorded can be forgotten together with that checkpoint.
        legal.versions = vec![found];
        legal.completed = found;
    }
    Ok(())
}

/// After a power-on a read is served from the cells, or there is nothing to serve: from which, and what they hold.
fn is_served_from_cells<M: Make>(drive: &Ssd<Array<Bytes>, M>, legal: &[Legal]) -> Result<(), TestCaseError> {
    for (lpn, legal) in (0..).zip(legal.chunks(drive.dispatcher().shape().page_bytes as usize / 512)) {
        let Some(page) = crate::served(drive, lpn) else {
            return Err(TestCaseError::fail(format!("page {lpn} is served from {:?}", drive.served_from(lpn))));
        };
        for ((number, legal), found) in (u64::from(lpn) * legal.len() as u64..).zip(legal).zip(page.chunks(512)) {
            prop_assert!(legal.find(number, found).is_some(), "sector {}", number);
        }
    }
    Ok(())
}
