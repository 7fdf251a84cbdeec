//! Randomly generated drives: shape, FTL, timing, write buffer, map cache, front end, HPB.

use nand::{PrefixBytes, Tear};
use proptest::prelude::*;
use sim::seam::{BlockOp, BlockRequest};
use sim::{Ns, Rng, Seed};
use ssd::cache::Policy;
use ssd::device::hpb::{Control, HpbConfig, LuConfig, Params, Version};
use ssd::ftl::UnitFtl;
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::hybrid::{Hybrid, HybridConfig, LogPolicy};
use ssd::ftl::map_cache::{Grain, MapCacheConfig};
use ssd::ftl::page::{Foreground, PageConfig, PageFtl};
use ssd::power::Scan;
use ssd::{
    BusOrder, CacheConfig, DispatchConfig, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Timing,
    TrimmedReads,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layer {
    Page(GcPolicy, Foreground, bool),
    Bast,
    Fast,
    Block,
}

/// HPB of a generated drive. The sizes of its logical units are fractions of the drive.
#[derive(Clone, Debug)]
pub struct Hpb {
    pub config: HpbConfig,
    /// Where the second logical unit begins, in percent of the drive, and whether it has HPB; 100: there is only one
    /// unit.
    pub second_lu: (u32, bool),
    /// One of this many recommendations is lost; 0: none.
    pub lose_every: u32,
    /// Number of requests between two resets of the device's HPB state; 0: no resets.
    pub reset_every: u32,
}

impl Hpb {
    /// The configuration for a drive of `pages` pages; `None` if it is not valid for that size.
    fn over(&self, pages: u32) -> Option<HpbConfig> {
        let first = (u64::from(pages) * u64::from(self.second_lu.0) / 100) as u32;
        let mut lus = vec![LuConfig { pages: first, hpb: true }];
        if first < pages {
            lus.push(LuConfig { pages: pages - first, hpb: self.second_lu.1 });
        }
        let config = HpbConfig { lus, ..self.config.clone() };
        config.check().is_ok().then_some(config)
    }
}

fn hpbs() -> impl Strategy<Value = Hpb> {
    let numbers = (0u32..4, 0u32..3, 1u32..6, prop::option::of(0u32..3), 1u32..5);
    let lus = prop_oneof![2 => Just((100, true)), 1 => (20u32..90, any::<bool>())];
    let params = (1u32..5, 1u32..4, 1u32..4, 1u32..4);
    (numbers, any::<[bool; 3]>(), 1u32..6, lus, params, (0u32..4, prop::option::of(3u32..60))).prop_map(
        |(
            (pages, subs, active, pinned, advise),
            [v2, host, pre_requests],
            single,
            second_lu,
            params,
            (lost, reset),
        )| {
            let pinned = pinned.filter(|_| active > 1).map_or((0, 0), |first| (first, 1));
            let (thld, exit, enter, inflight) = params;
            Hpb {
                config: HpbConfig {
                    version: if v2 { Version::V2 } else { Version::V1 },
                    control: if host { Control::Host } else { Control::Device },
                    subregion_pages: 2 << pages,
                    region_subregions: 1 << subs,
                    max_active_regions: active,
                    pinned,
                    single_command_pages: single,
                    pre_requests,
                    entry_check: Ns(u64::from(single) - 1),
                    recommend_after: advise,
                    params: Params {
                        activation_thld: thld,
                        eviction_thld_exit: thld + exit,
                        eviction_thld_enter: thld + exit + enter,
                        inflight_map_req: inflight,
                        read_timeout_ms: 2,
                        timeout_polling_interval_ms: 1,
                        read_timeout_expiries: 2,
                        ..Params::LINUX
                    },
                    ..HpbConfig::plain(1)
                },
                second_lu,
                lose_every: lost,
                reset_every: reset.unwrap_or(0),
            }
        },
    )
}

/// A generated drive and the load on it.
#[derive(Clone, Debug)]
pub struct Case {
    pub shape: Shape,
    pub layer: Layer,
    pub timing: Timing,
    pub scheduling: Scheduling,
    pub bus_order: BusOrder,
    pub background: bool,
    pub cache: Option<CacheConfig>,
    /// The map cache: its capacity in entries, and whether it caches single entries instead of map pages.
    pub dftl: Option<(u32, bool)>,
    pub front: FrontConfig,
    pub hpb: Option<Hpb>,
    pub seed: u64,
    pub requests: u32,
    /// Free blocks that the host may not open ([`PageConfig::gc_low`]).
    pub gc_low: u32,
    /// Host pages in a unit between two checkpoints; `None`: no checkpoints.
    pub checkpoints: Option<u32>,
    /// Lives of the drive: programs and erases until power is lost, kind of tear, whether ECC detects it, and its seed.
    pub lives: Vec<(u64, Tear, bool, u64)>,
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
    let trimmed = prop::sample::select(TrimmedReads::ALL.to_vec());
    (1u32..9, 0u64..20, any::<[bool; 4]>(), prop::collection::vec(1u32..4, 1..4), trimmed).prop_map(
        |(depth, command, [sata, ufs, half_duplex, write_cache], weights, trimmed_reads)| FrontConfig {
            protocol: match (ufs, sata) {
                (true, _) => Protocol::Ufs,
                (false, true) => Protocol::Sata,
                (false, false) => Protocol::Nvme { weights },
            },
            depth,
            command: Ns(command),
            read_latency: Ns(command / 3),
            write_latency: Ns(command / 2),
            link_bytes_per_s: if depth % 2 == 0 { 0 } else { 20_000_000_000 },
            half_duplex,
            write_cache,
            trimmed_reads,
        },
    )
}

pub fn cases() -> impl Strategy<Value = Case> {
    let cache = prop::option::of((prop::sample::select(Policy::ALL.to_vec()), 1u32..40));
    let dftl = prop::option::weighted(0.3, (4u32..40, any::<bool>()));
    let tears = vec![Tear::Clean, Tear::Prefix(PrefixBytes::Drawn), Tear::RandomBits];
    let life = (0u64..400, prop::sample::select(tears), any::<bool>(), any::<u64>());
    let lives = prop::collection::vec(life, 1..5);
    let numbers = (any::<u64>(), 50u32..400, prop::option::of(1u32..80));
    let hpb = prop::option::of(hpbs());
    ((shapes(), layers(), timings(), fronts()), (cache, dftl, hpb), any::<[bool; 4]>(), numbers, lives).prop_map(
        |(
            (shape, layer, timing, front),
            (cache, dftl, hpb),
            [in_order, background, independent_reads, data_first],
            (seed, requests, checkpoints),
            lives,
        )| Case {
            shape,
            layer,
            timing: Timing { independent_reads: if independent_reads { shape.planes } else { 1 }, ..timing },
            bus_order: if data_first { BusOrder::DataFirst } else { BusOrder::CommandsFirst },
            scheduling: if in_order { Scheduling::InOrder } else { Scheduling::ReadsFirst },
            background,
            cache: cache.map(|(policy, pages)| CacheConfig { policy, pages }),
            dftl,
            front,
            hpb,
            seed,
            requests,
            gc_low: 1,
            checkpoints,
            lives,
        },
    )
}

/// Logical pages of a unit for which the FTL has room; `None` if the shape is too small for the FTL.
pub fn lpns(case: &Case) -> Option<u32> {
    let (blocks, pages) = (case.shape.blocks, case.shape.unit_pages());
    let most = match case.layer {
        Layer::Page(gc, foreground, separate) => {
            let config =
                PageConfig { gc, foreground, separate, gc_low: case.gc_low, ..PageConfig::new(blocks, pages, 1) };
            u32::try_from(config.most_lpns()).ok()?
        }
        // Data blocks, log blocks and one block for merges.
        _ => blocks.checked_sub(4)? * pages,
    };
    let planes = case.shape.unit_planes();
    // A mapping table in flash is written when pages move, which with little spare space would leave none for the host.
    let most = if case.dftl.is_some() { most / 2 } else { most };
    (most / planes > 0).then_some(most / planes * planes)
}

/// An FTL that a case can use.
pub trait Make: UnitFtl + Clone {
    /// Makes the FTL over erased blocks, without those that are `kept` for checkpoints.
    fn fresh(case: &Case, lpns: u32, kept: &[u32]) -> Self;
    /// Rebuilds the FTL after a loss of power.
    fn again(case: &Case, lpns: u32, kept: &[u32], scan: Scan) -> Self;
}

fn page_config(case: &Case, lpns: u32, kept: &[u32]) -> PageConfig {
    let Layer::Page(gc, foreground, separate) = case.layer else { unreachable!("asked of page-level layers") };
    let (blocks, pages, planes) = (case.shape.blocks, case.shape.unit_pages(), case.shape.unit_planes());
    let config =
        PageConfig { gc, foreground, separate, planes, gc_low: case.gc_low, ..PageConfig::new(blocks, pages, lpns) };
    PageConfig { bad: kept.to_vec(), ..config }
}

fn hybrid_config(case: &Case, lpns: u32, kept: &[u32]) -> HybridConfig {
    let (blocks, pages, planes) = (case.shape.blocks, case.shape.unit_pages(), case.shape.unit_planes());
    HybridConfig { planes, bad: kept.to_vec(), ..HybridConfig::new(blocks, pages, lpns, 2) }
}

impl Make for PageFtl {
    fn fresh(case: &Case, lpns: u32, kept: &[u32]) -> PageFtl {
        PageFtl::new(page_config(case, lpns, kept), Seed(case.seed).stream("gc")).expect("a legal geometry")
    }

    fn again(case: &Case, lpns: u32, kept: &[u32], scan: Scan) -> PageFtl {
        let rng = Seed(case.seed).stream("gc/again");
        PageFtl::rebuild(page_config(case, lpns, kept), rng, scan.erases, &scan.bad, scan.pages).expect("what it wrote")
    }
}

impl<P: LogPolicy> Make for Hybrid<P> {
    fn fresh(case: &Case, lpns: u32, kept: &[u32]) -> Self {
        Hybrid::new(hybrid_config(case, lpns, kept)).expect("a legal geometry")
    }

    fn again(case: &Case, lpns: u32, kept: &[u32], scan: Scan) -> Self {
        Hybrid::rebuild(hybrid_config(case, lpns, kept), scan.erases, &scan.closed, scan.pages).expect("what it wrote")
    }
}

impl Case {
    pub fn dispatch(&self) -> DispatchConfig {
        DispatchConfig {
            timing: self.timing,
            scheduling: self.scheduling,
            bus_order: self.bus_order,
            background_after: self.background.then_some(Ns(100)),
        }
    }

    /// The configuration of a drive over FTLs of `total` logical pages; `None` if the mapping table takes them all.
    pub fn drive(&self, total: u32) -> Option<DriveConfig> {
        let mut pages = total;
        let map = self.dftl.map(|(entries, one_by_one)| {
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
        let hpb = self.hpb.as_ref().and_then(|hpb| hpb.over(pages));
        (pages > 0).then(|| DriveConfig { pages, front: self.front.clone(), cache: self.cache, map, hpb })
    }
}

/// Contents of a sector in one of its versions; zeroes in version 0.
pub fn sector(number: u64, version: u32) -> [u8; 512] {
    let mut bytes = [0; 512];
    if version > 0 {
        let mark = number.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(version) << 32);
        bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&mark.to_le_bytes()));
    }
    bytes
}

/// Whether sector `number`, trimmed when its newest version was `version`, may read as `found`.
pub fn may_be(found: &[u8], reads: TrimmedReads, number: u64, version: u32) -> bool {
    let zeroes = found.iter().all(|&byte| byte == 0);
    match reads {
        TrimmedReads::Zeroes => zeroes,
        TrimmedReads::Deterministic => found.iter().all(|&byte| byte == 0xff),
        TrimmedReads::Undefined => zeroes || (1..=version).any(|old| found == sector(number, old)),
    }
}

/// A random request.
pub fn ask(rng: &mut Rng, sectors: u64, page: u64) -> BlockRequest {
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
    // Nearly a third of the requests go to the first sectors, so that pages are written again while older writes are in
    // progress.
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
