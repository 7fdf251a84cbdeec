//! Drives with contents, compared with a model of what the host wrote: with every FTL, write buffer and front end, over
//! random shapes down to the smallest, with several requests in progress.

mod case;
mod cuts;

use case::{Case, Layer, Make, ask, cases, lpns, may_be, sector};
use nand::nandsim::Weak;
use nand::{Array, ArrayConfig, Bytes, FaultPlan, NandsimFaults, Store};
use proptest::prelude::*;
use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, Payload};
use sim::{Ns, Seed};
use ssd::ftl::UnitFtl;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::page::PageFtl;
use ssd::host::Hpb;
use ssd::host::hpb::Driver;
use ssd::{Cells, Dispatcher, Served, Ssd, TrimmedReads};

/// Calls a check with the FTL type of a case, if the shape has room for it.
macro_rules! with_layer {
    ($check:ident, $case:expr) => {
        match (lpns($case), ($case).layer) {
            (None, _) => Ok(()),
            (Some(lpns), Layer::Page(..)) => $check::<PageFtl>($case, lpns),
            (Some(lpns), Layer::Bast) => $check::<Bast>($case, lpns),
            (Some(lpns), Layer::Fast) => $check::<Fast>($case, lpns),
            (Some(lpns), Layer::Block) => $check::<BlockFtl>($case, lpns),
        }
    };
}

fn comes_back<M: Make>(case: &Case, lpns: u32) -> Result<(), TestCaseError> {
    reads_as_written::<M>(case, lpns, None)
}

/// Runs on a flash whose blocks wear out, whose programs fail, and some of whose pages become unreadable.
fn fails_loudly<M: Make>(case: &Case, lpns: u32) -> Result<(), TestCaseError> {
    let shape = &case.shape;
    let mut rng = Seed(case.seed).stream("faults");
    let pebs = u64::from(shape.all_dies() * shape.planes * shape.blocks);
    let pages = pebs * u64::from(shape.pages);
    let mut weak = |of: u64, most: u64| -> Vec<Weak> {
        let count = rng.below(most);
        (0..count).map(|_| Weak { at: rng.below(of) as u32, max: rng.below(4) as u32 }).collect()
    };
    let nandsim = NandsimFaults {
        weak_blocks: weak(pebs, 6),
        weak_pages: weak(pages, 8),
        grave_pages: weak(pages, 8),
        ..NandsimFaults::default()
    };
    reads_as_written::<M>(case, lpns, Some(FaultPlan { nandsim, ..FaultPlan::none(Seed(case.seed)) }))
}

/// Every successful read returns what was written last. Without faults every request succeeds.
fn reads_as_written<M: Make>(case: &Case, lpns: u32, faults: Option<FaultPlan>) -> Result<(), TestCaseError> {
    let shape = &case.shape;
    let layers: Vec<M> = (0..shape.units()).map(|_| M::fresh(case, lpns, &[])).collect();
    let Some(config) = case.drive(layers.iter().map(UnitFtl::lpns).sum()) else { return Ok(()) };
    let faulty = faults.is_some();
    let array = ArrayConfig { faults, ..ArrayConfig::plain(ssd::cells::geometry(shape, 0)) };
    let array = Array::new(array, Bytes::default());
    let dispatcher = Dispatcher::new(shape, case.dispatch(), Cells::new(shape, array), layers);
    let mut drive = Hpb::new(Ssd::new(config, shape, dispatcher).unwrap());
    let resets = case.hpb.as_ref().map_or(0, |hpb| hpb.reset_every);
    drive.lose_advice(case.hpb.as_ref().map_or(0, |hpb| hpb.lose_every));
    let mut rng = Seed(case.seed).stream("requests");
    let mut looked_at = Seed(case.seed).stream("looked at");
    let sectors = drive.sectors();
    let page = u64::from(shape.page_bytes / 512);
    let mut versions = vec![0u32; sectors as usize];
    // For each trimmed sector, the newest version that it had; `None` if never trimmed, or written since.
    let mut trimmed: Vec<Option<u32>> = vec![None; sectors as usize];
    let mut under_way: Vec<Option<(BlockRequest, Ns)>> = vec![None; case.front.depth as usize];
    let (mut now, mut issued) = (Ns(0), 0);
    let mut next = ask(&mut rng, sectors, page);
    loop {
        let free = under_way.iter().position(Option::is_none);
        let meets = |other: &BlockRequest| {
            let overlap = other.sector < next.end() && next.sector < other.end();
            overlap && (other.op != BlockOp::Read || next.op != BlockOp::Read)
        };
        let blocked = under_way.iter().flatten().any(|(other, _)| meets(other));
        if issued < case.requests
            && let Some(tag) = free
            && !blocked
        {
            let mut data = Vec::new();
            if next.op == BlockOp::Write {
                for number in next.sector..next.end() {
                    versions[number as usize] = issued + 1;
                    trimmed[number as usize] = None;
                    data.extend_from_slice(&sector(number, issued + 1));
                }
            }
            match drive.submit(now, tag as u32, next, Payload::Bytes(&data)) {
                Err(BlockError::WornOut { .. }) if faulty => return Ok(()),
                submitted => submitted.unwrap(),
            }
            under_way[tag] = Some((next, now));
            issued += 1;
            if resets > 0 && issued % resets == 0 {
                drive.device_mut().reset_hpb();
            }
            next = ask(&mut rng, sectors, page);
            continue;
        }
        // Background work may go on without end, so it is not waited for.
        if under_way.iter().all(Option::is_none) {
            break;
        }
        let Some(done) = drive.next_done(Ns(u64::MAX)) else { break };
        prop_assert!(done.at >= now);
        now = done.at;
        let (request, submitted) = under_way[done.tag as usize].take().expect("a request that was under way");
        match done.result {
            Ok(()) => {}
            Err(BlockError::WornOut { .. }) if faulty => return Ok(()),
            Err(BlockError::Uncorrectable { sector }) if faulty && request.op == BlockOp::Read => {
                let pages = request.sector / page * page..request.end().next_multiple_of(page);
                prop_assert!(pages.contains(&sector), "{:?} cannot be read at {}", request, sector);
                continue;
            }
            Err(error) => return Err(TestCaseError::fail(format!("{request:?}: {error}"))),
        }
        prop_assert_eq!(
            drive.device().breakdown_of(done.tag).total(),
            (now - submitted).0,
            "components of {:?}",
            drive.device().breakdown_of(done.tag)
        );
        match request.op {
            BlockOp::Read => {
                let mut data = vec![0xee; request.bytes() as usize];
                drive.take(done.tag, &mut data);
                for (number, found) in (request.sector..).zip(data.chunks_exact(512)) {
                    let ok = match trimmed[number as usize] {
                        Some(version) => may_be(found, case.front.trimmed_reads, number, version),
                        None => found == sector(number, versions[number as usize]),
                    };
                    prop_assert!(ok, "sector {} of {:?}", number, request);
                }
            }
            BlockOp::Trim => {
                let first = request.sector.next_multiple_of(page);
                let end = request.end() / page * page;
                for number in first..end.max(first) {
                    let number = number as usize;
                    trimmed[number] = Some(versions[number].max(trimmed[number].unwrap_or(0)));
                    versions[number] = 0;
                }
            }
            _ => {}
        }
        drive.device().dispatcher().check();
        check_hpb(&drive);
        // Not read: pages whose contents are about to change.
        let lpn = looked_at.below(sectors / page);
        let of_page = BlockRequest::read(lpn * page, page as u32);
        let changes = |other: &BlockRequest| {
            let overlap = other.sector < of_page.end() && of_page.sector < other.end();
            overlap && other.op != BlockOp::Read && other.op != BlockOp::Flush
        };
        if !under_way.iter().flatten().any(|(other, _)| changes(other))
            && let Some(contents) = served(drive.device(), lpn as u32)
        {
            for (number, found) in (of_page.sector..).zip(contents.chunks_exact(512)) {
                let ok = match trimmed[number as usize] {
                    Some(version) => may_be(found, case.front.trimmed_reads, number, version),
                    None => found == sector(number, versions[number as usize]),
                };
                prop_assert!(ok, "sector {} in {:?}", number, drive.device().served_from(lpn as u32));
            }
        }
    }
    prop_assert_eq!(issued, case.requests, "the drive stands still");
    prop_assert!(under_way.iter().all(Option::is_none), "a request never ended");
    // Given a second, all HPB loads have completed.
    prop_assert_eq!(drive.next_done(Ns(now.0 + 1_000_000_000)), None);
    check_hpb(&drive);
    prop_assert!(drive.driver().is_none_or(Driver::is_idle), "work of HPB is left over");
    Ok(())
}

/// Contents of the place that a read of a page would be served from, as the drive has it; `None` if it is neither cells
/// nor blank.
fn served<M: UnitFtl>(drive: &Ssd<Array<Bytes>, M>, lpn: u32) -> Option<Vec<u8>> {
    let cells = drive.dispatcher().cells();
    let page_bytes = cells.shape().page_bytes;
    let mut page = vec![0; page_bytes as usize];
    match drive.served_from(lpn) {
        Served::Otherwise => return None,
        Served::Blank(byte) => page.fill(byte),
        Served::Cells { unit, ppn } => {
            let peb = cells.peb(unit, cells.block(ppn), cells.plane(ppn));
            cells.flash().store().read(peb, cells.row(ppn) * page_bytes, &mut page);
        }
    }
    Some(page)
}

fn check_hpb<M: UnitFtl>(drive: &Hpb<Ssd<Array<Bytes>, M>>) {
    if let Some(driver) = drive.driver() {
        driver.check();
    }
    if let Some(advisor) = drive.device().hpb() {
        advisor.check();
    }
}

use cuts::survives;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn what_was_written_comes_back(case in cases()) {
        with_layer!(comes_back, &case)?;
    }

    #[test]
    fn on_a_failing_flash_a_read_gives_what_was_written_or_an_error(case in cases()) {
        let case = Case { gc_low: 2, ..case };
        with_layer!(fails_loudly, &case)?;
    }

    #[test]
    fn what_was_flushed_survives_every_loss_of_power(case in cases()) {
        let mut case = Case { gc_low: 2, ..case };
        if case.front.trimmed_reads == TrimmedReads::Deterministic {
            // The marks of trimmed sectors are lost with the power, but the rest of a partly written page keeps its
            // contents.
            case.front.trimmed_reads = TrimmedReads::Zeroes;
        }
        with_layer!(survives, &case)?;
    }
}
