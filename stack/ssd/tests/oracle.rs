//! What was written comes back: under every translation layer, write buffer and front end, over random shapes down to the
//! smallest, with several requests under way.

use nand::{Array, ArrayConfig, Bytes};
use proptest::prelude::*;
use sim::seam::{BlockDevice, BlockOp, BlockRequest, Payload};
use sim::{Ns, Rng, Seed};
use ssd::cache::Policy;
use ssd::ftl::UnitFtl;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::hybrid::HybridConfig;
use ssd::ftl::map_cache::{Grain, MapCacheConfig};
use ssd::ftl::page::{Foreground, PageConfig, PageFtl};
use ssd::{
    CacheConfig, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd,
    Timing,
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Layer {
    Page(GcPolicy, Foreground, bool),
    Bast,
    Fast,
    Block,
}

/// A drive and the load on it.
#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    layer: Layer,
    timing: Timing,
    scheduling: Scheduling,
    background: bool,
    cache: Option<CacheConfig>,
    /// Entries that a map cache holds, and whether it keeps them one by one.
    dftl: Option<(u32, bool)>,
    front: FrontConfig,
    seed: u64,
    requests: u32,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let orders = vec![Order::CHANNEL_FIRST, Order::WAY_FIRST, Order::PLANE_FIRST, Order::DIE_FIRST];
    let numbers = (1u32..4, 1u32..3, 1u32..3, 1u32..3, 4u32..14, prop::sample::select(vec![1u32, 2, 4, 7]));
    (numbers, prop::sample::select(vec![512u32, 1024, 4096]), prop::sample::select(orders), any::<bool>()).prop_map(
        |((channels, ways, dies, planes, blocks, pages), page_bytes, order, multi_plane)| Shape {
            channels,
            ways,
            dies,
            planes,
            blocks,
            pages,
            page_bytes,
            order,
            multi_plane,
        },
    )
}

fn layers() -> impl Strategy<Value = Layer> {
    let gc = prop::sample::select(vec![
        GcPolicy::Greedy,
        GcPolicy::CostBenefit,
        GcPolicy::Fifo,
        GcPolicy::Random,
        GcPolicy::DChoices { d: 2 },
        GcPolicy::Windowed { window: 3 },
    ]);
    prop_oneof![
        3 => (gc, any::<bool>(), any::<bool>()).prop_map(|(gc, paced, apart)| {
            Layer::Page(gc, if paced { Foreground::Paced } else { Foreground::Block }, apart)
        }),
        1 => Just(Layer::Bast),
        1 => Just(Layer::Fast),
        1 => Just(Layer::Block),
    ]
}

fn timings() -> impl Strategy<Value = Timing> {
    (any::<[bool; 5]>(), 1u32..4).prop_map(|([cache_read, cache_program, copyback, suspends, slow_bus], levels)| {
        Timing {
            levels,
            read: [Ns(50), Ns(60), Ns(70), Ns(80)],
            program: [Ns(200), Ns(300), Ns(500), Ns(900)],
            suspend_program: suspends.then_some(Ns(5)),
            suspend_erase: suspends.then_some(Ns(9)),
            resume: Ns(3),
            cache_read,
            cache_program,
            copyback,
            ..Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(if slow_bus { 150 } else { 10 }))
        }
    })
}

fn fronts() -> impl Strategy<Value = FrontConfig> {
    (1u32..9, 0u64..20, any::<[bool; 3]>(), prop::collection::vec(1u32..4, 1..4)).prop_map(
        |(depth, command, [sata, half_duplex, write_cache], weights)| FrontConfig {
            protocol: if sata { Protocol::Sata } else { Protocol::Nvme { weights } },
            depth,
            command: Ns(command),
            link_bytes_per_s: if depth % 2 == 0 { 0 } else { 20_000_000_000 },
            half_duplex,
            write_cache,
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let cache = prop::option::of((prop::sample::select(Policy::ALL.to_vec()), 1u32..40));
    let dftl = prop::option::weighted(0.3, (4u32..40, any::<bool>()));
    ((shapes(), layers(), timings(), fronts()), (cache, dftl), any::<[bool; 2]>(), any::<u64>(), 50u32..400).prop_map(
        |((shape, layer, timing, front), (cache, dftl), [in_order, background], seed, requests)| Case {
            shape,
            layer,
            timing,
            scheduling: if in_order { Scheduling::InOrder } else { Scheduling::ReadsFirst },
            background,
            cache: cache.map(|(policy, pages)| CacheConfig { policy, pages }),
            dftl,
            front,
            seed,
            requests,
        },
    )
}

/// Logical pages of a unit for which a layer has room, or `None` where the shape is too small for it.
fn lpns(case: &Case) -> Option<u32> {
    let (blocks, pages) = (case.shape.blocks, case.shape.unit_pages());
    let most = match case.layer {
        Layer::Page(gc, foreground, separate) => {
            let config = PageConfig { gc, foreground, separate, gc_low: 1, ..PageConfig::new(blocks, pages, 1) };
            u32::try_from(config.most_lpns()).ok()?
        }
        // Data blocks, log blocks and one to merge into.
        _ => blocks.checked_sub(4)? * pages,
    };
    let planes = case.shape.unit_planes();
    // A table in flash is written when pages move: with little room to spare that leaves none for the host.
    let most = if case.dftl.is_some() { most / 2 } else { most };
    (most / planes > 0).then_some(most / planes * planes)
}

fn run(case: &Case) -> Result<(), TestCaseError> {
    let Some(lpns) = lpns(case) else { return Ok(()) };
    let shape = &case.shape;
    let (blocks, pages, planes) = (shape.blocks, shape.unit_pages(), shape.unit_planes());
    let seed = Seed(case.seed);
    let units = 0..shape.units();
    let hybrid = HybridConfig { planes, ..HybridConfig::new(blocks, pages, lpns, 2) };
    match case.layer {
        Layer::Page(gc, foreground, separate) => {
            let config =
                PageConfig { gc, foreground, separate, planes, gc_low: 1, ..PageConfig::new(blocks, pages, lpns) };
            let made: Result<Vec<_>, _> = units.map(|_| PageFtl::new(config.clone(), seed.stream("gc"))).collect();
            drive(case, made.map_err(|error| TestCaseError::fail(error.to_string()))?)
        }
        Layer::Bast => drive(case, units.map(|_| Bast::new(hybrid.clone()).unwrap()).collect()),
        Layer::Fast => drive(case, units.map(|_| Fast::new(hybrid.clone()).unwrap()).collect()),
        Layer::Block => drive(case, units.map(|_| BlockFtl::new(hybrid.clone()).unwrap()).collect()),
    }
}

fn sector(number: u64, version: u32) -> [u8; 512] {
    let mut bytes = [0; 512];
    if version > 0 {
        let mark = number.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(version) << 32);
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&mark.to_le_bytes()));
    }
    bytes
}

fn ask(rng: &mut Rng, sectors: u64, page: u64) -> BlockRequest {
    let len = match rng.below(4) {
        0 => 1 + rng.below(3),
        1 => page,
        2 => page * (1 + rng.below(4)),
        _ => 1 + rng.below(4 * page),
    }
    .min(sectors);
    let mut first = rng.below(sectors - len + 1);
    if rng.chance(0.5) {
        first -= first % page;
    }
    // A third of the requests go to the first sectors: pages are written again while they are under way.
    if rng.chance(0.3) {
        first = first.min(sectors - len) % (4 * page).min(sectors - len + 1);
    }
    let mut request = match rng.below(10) {
        0..=4 => BlockRequest::write(first, len as u32),
        5..=7 => BlockRequest::read(first, len as u32),
        8 => BlockRequest::trim(first, len as u32),
        _ => BlockRequest::flush(),
    };
    request.fua = request.op == BlockOp::Write && rng.chance(0.1);
    request.queue = rng.below(4) as u16;
    request
}

fn drive<M: UnitFtl>(case: &Case, units: Vec<M>) -> Result<(), TestCaseError> {
    let shape = &case.shape;
    let total: u32 = units.iter().map(UnitFtl::lpns).sum();
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(shape, 0)), Bytes::default());
    let config = DispatchConfig {
        timing: case.timing,
        scheduling: case.scheduling,
        background_after: case.background.then_some(Ns(100)),
    };
    let dispatcher = Dispatcher::new(shape, config, Cells::new(shape, array), units);
    let mut pages = total;
    let map = case.dftl.map(|(entries, one_by_one)| {
        let sized = |lpns| MapCacheConfig {
            entry_bytes: 4,
            map_page_bytes: 16,
            capacity_bytes: u64::from(entries) * 8,
            grain: if one_by_one { Grain::Entry } else { Grain::Page },
            ..MapCacheConfig::pages(lpns, 0)
        };
        pages = total - sized(total).map_pages();
        sized(pages)
    });
    if pages == 0 {
        return Ok(());
    }
    let drive_config = DriveConfig { pages, front: case.front.clone(), cache: case.cache, map };
    let mut drive = Ssd::new(drive_config, shape, dispatcher).unwrap();
    let mut rng = Seed(case.seed).stream("requests");
    let sectors = drive.sectors();
    let page = u64::from(shape.page_bytes / 512);
    let mut versions = vec![0u32; sectors as usize];
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
                    data.extend_from_slice(&sector(number, issued + 1));
                }
            }
            drive.submit(now, tag as u32, next, Payload::Bytes(&data)).unwrap();
            under_way[tag] = Some((next, now));
            issued += 1;
            next = ask(&mut rng, sectors, page);
            continue;
        }
        // Background work may go on for ever: it is not waited for.
        if under_way.iter().all(Option::is_none) {
            break;
        }
        let Some(done) = drive.next_done(Ns(u64::MAX)) else { break };
        prop_assert_eq!(&done.result, &Ok(()));
        prop_assert!(done.at >= now);
        now = done.at;
        let (request, submitted) = under_way[done.tag as usize].take().expect("a request that was under way");
        prop_assert_eq!(
            drive.split_of(done.tag).total(),
            (now - submitted).0,
            "heads of {:?}",
            drive.split_of(done.tag)
        );
        match request.op {
            BlockOp::Read => {
                let mut data = vec![0xee; request.bytes() as usize];
                drive.take(done.tag, &mut data);
                for (number, found) in (request.sector..).zip(data.chunks_exact(512)) {
                    let expected = sector(number, versions[number as usize]);
                    prop_assert!(found == expected, "sector {} of {:?}", number, request);
                }
            }
            BlockOp::Trim => {
                let first = request.sector.next_multiple_of(page);
                let end = request.end() / page * page;
                (first..end.max(first)).for_each(|number| versions[number as usize] = 0);
            }
            _ => {}
        }
        drive.dispatcher().check();
    }
    prop_assert_eq!(issued, case.requests, "the drive stands still");
    prop_assert!(under_way.iter().all(Option::is_none), "a request never ended");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn what_was_written_comes_back(case in cases()) {
        run(&case)?;
    }
}
