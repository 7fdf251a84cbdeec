//! A drive: the configurations of its layers, computed once from the experiment and checked.

use nand::{ArrayConfig, FaultPlan, WearOut};
use sim::{Ns, Seed};
use ssd::cache::Policy;
use ssd::dispatch::{CheckpointRegions, MAX_SLOTS};
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::hybrid::HybridConfig;
use ssd::ftl::map_cache::{Grain, MapCacheConfig, Replacement};
use ssd::ftl::page::{ConfigError, Foreground, PageConfig, SlcCache, SlcFull};
use ssd::ftl::wear::Wear;
use ssd::{
    BusOrder, CacheConfig, DispatchConfig, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Timing,
    TrimmedReads, untimed,
};

use super::block::{BlockFacts, BlockKind};
use super::faults::{self, Endurance};
use super::hpb;
use crate::schema::drive::{self as words, Ssd};
use crate::schema::faults::Faults;
use crate::schema::{ExperimentError, word, wrong};

const NS_PER_US: f64 = 1e3;
/// Most planes of one operation in the dispatcher.
const MOST_PLANES_IN_STEP: u32 = 4;

/// Translation layer of each unit.
#[derive(Clone, Debug)]
pub enum Layer {
    /// Page-level mapping, including DFTL.
    Page(PageConfig),
    /// BAST: a log block per data block.
    Bast(HybridConfig),
    /// FAST: log blocks shared by all data blocks.
    Fast(HybridConfig),
    /// Block-level mapping.
    Block(HybridConfig),
}

impl Layer {
    /// The first SLC block of each unit and the one behind the last; `None` without an SLC cache.
    pub fn slc_blocks(&self) -> Option<(u32, u32)> {
        let Layer::Page(config) = self else { return None };
        let good = (0..config.blocks).filter(|block| !config.bad.contains(block));
        let mut slc = good.take(config.slc?.blocks as usize);
        let first = slc.next()?;
        Some((first, slc.last().unwrap_or(first) + 1))
    }
}

/// Configuration of a drive.
#[derive(Clone, Debug)]
pub struct Drive {
    /// The values it was built from.
    pub section: Ssd,
    /// Channels, chips, dies, planes, blocks, pages.
    pub shape: Shape,
    /// Write buffer, map cache, host interface.
    pub config: DriveConfig,
    /// How operations are dispatched to dies.
    pub dispatch: DispatchConfig,
    /// Translation layer of each unit.
    pub layer: Layer,
    /// Blocks of each unit reserved for checkpoints of its mapping; `None` if it writes none.
    pub checkpoints: Option<CheckpointRegions>,
    /// The flash; OOB is not included.
    pub array: ArrayConfig,
    /// Time between preconditioning and the load.
    pub shelf: Ns,
}

impl Drive {
    /// Logical pages for the host.
    pub fn pages(&self) -> u32 {
        self.config.pages
    }

    /// Logical capacity in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.shape.page_bytes)
    }

    /// What its host knows of it.
    pub fn facts(&self) -> BlockFacts {
        let front = &self.config.front;
        let caches = front.write_cache && self.config.cache.is_some();
        BlockFacts {
            kind: BlockKind::Drive,
            bytes: self.bytes(),
            raw_bytes: self.shape.raw_bytes(),
            page_bytes: self.shape.page_bytes,
            block_bytes: u64::from(self.shape.unit_pages()) * u64::from(self.shape.page_bytes),
            queues: match &front.protocol {
                Protocol::Nvme { weights } => weights.len().max(1),
                Protocol::Sata | Protocol::Ufs => 1,
            },
            trims: true,
            caches,
            // libata does not use FUA by default.
            fua: caches && front.protocol != Protocol::Sata,
            read_only: None,
        }
    }

    /// Pages of the mapping table in flash, behind the host's.
    pub fn map_pages(&self) -> u32 {
        self.config.map.as_ref().map_or(0, MapCacheConfig::map_pages)
    }

    /// Builds a drive. Errors: the first key whose value is impossible.
    pub fn build(ssd: &Ssd, seed: u64) -> Result<Drive, ExperimentError> {
        let shape = shape(ssd)?;
        let Layout { pages, map, checkpoints, layer } =
            layout(ssd, &shape)?.map_err(|error| no_room(ssd, &shape, &error))?;
        let front = front(ssd)?;
        let hpb = hpb::config(ssd, &shape, pages)?;
        let entry_check = hpb.as_ref().map_or(Ns::ZERO, |hpb| hpb.entry_check);
        let dispatch = DispatchConfig {
            timing: timing(ssd, &shape, entry_check)?,
            scheduling: match ssd.timing.scheduling {
                words::Scheduling::ReadsFirst => Scheduling::ReadsFirst,
                words::Scheduling::InOrder => Scheduling::InOrder,
            },
            bus_order: match ssd.timing.bus_order {
                words::BusOrder::CommandsFirst => BusOrder::CommandsFirst,
                words::BusOrder::DataFirst => BusOrder::DataFirst,
            },
            background_after: optional(ssd.ftl.background_after_us),
        };
        let cache = cache(ssd, &shape)?;
        Ok(Drive {
            section: ssd.clone(),
            config: DriveConfig { pages, front, cache, map, hpb },
            dispatch,
            layer,
            checkpoints,
            array: array(ssd, &shape, seed)?,
            shelf: Ns::ZERO,
            shape,
        })
    }
}

impl Drive {
    /// Adds the faults of an experiment. Errors: a key without effect; a value that the flash cannot have.
    pub(super) fn add_faults(&mut self, section: &Faults, seed: u64) -> Result<(), ExperimentError> {
        if section.bitflip_threshold.is_some() {
            return wrong("faults.bitflip_threshold", "it on a drive", "none: a drive does not scrub");
        }
        if !section.badblocks.is_empty() {
            return wrong(
                "faults.badblocks",
                &section.badblocks,
                "none: a drive has its factory bad blocks among the spare ones",
            );
        }
        let cycles = self.section.endurance;
        let endurance = Endurance { key: "ssd.endurance", cycles, wears_out: cycles > 0 };
        faults::add(section, &endurance, seed, &mut self.array)?;
        self.shelf = faults::shelf(section);
        Ok(())
    }
}

/// How a drive's logical pages lie on its flash.
struct Layout {
    pages: u32,
    map: Option<MapCacheConfig>,
    checkpoints: Option<CheckpointRegions>,
    layer: Layer,
}

/// Lays out the logical pages. Errors: an impossible key; inside, a layer's reason that they do not fit.
fn layout(ssd: &Ssd, shape: &Shape) -> Result<Result<Layout, ConfigError>, ExperimentError> {
    let pages = logical_pages(ssd, shape)?;
    let map = map(ssd, shape, pages)?;
    let lpns = pages.saturating_add(map.as_ref().map_or(0, MapCacheConfig::map_pages));
    let lpns = untimed::lpns_per_unit(shape, lpns);
    let checkpoints = checkpoints(ssd, shape, lpns)?;
    let kept: Vec<u32> = checkpoints.iter().flat_map(CheckpointRegions::blocks).collect();
    let layer = layer(ssd, shape, lpns, kept);
    Ok(layer.map(|layer| Layout { pages, map, checkpoints, layer }))
}

/// The error for a layer that refuses its configuration. If it has no room for the logical pages, it says how much
/// over-provisioning or how many blocks would do.
fn no_room(ssd: &Ssd, shape: &Shape, error: &ConfigError) -> ExperimentError {
    let why = format!("{}: {}", error.what, error.found);
    if !["logical pages of a unit", "good blocks of a unit"].contains(&error.what) {
        return ExperimentError::value(layer_key(error.what), why, &error.expected);
    }
    let fits = |ssd: &Ssd| self::shape(ssd).and_then(|shape| layout(ssd, &shape)).is_ok_and(|layout| layout.is_ok());
    let with_percent = |hundredths: u64| {
        let over_provisioning_percent = Some(hundredths as f64 / 100.0);
        fits(&Ssd { over_provisioning_percent, capacity_bytes: None, ..ssd.clone() })
    };
    let with_blocks = |blocks: u64| fits(&Ssd { blocks: blocks as u32, ..ssd.clone() });
    let (key, found) = match (ssd.capacity_bytes, ssd.over_provisioning_percent) {
        (Some(bytes), _) => ("ssd.capacity_bytes", bytes.to_string()),
        (None, percent) => ("ssd.over_provisioning_percent", percent.unwrap_or(0.0).to_string()),
    };
    let mut ways = Vec::new();
    if let Some(hundredths) = least(10_000_000, with_percent) {
        let percent = hundredths as f64 / 100.0;
        ways.push(match ssd.capacity_bytes {
            Some(_) => {
                let most = (shape.raw_bytes() as f64 / (1.0 + percent / 100.0)) as u64;
                format!("at most {most} ({percent} % over-provisioning)")
            }
            None => format!("at least {percent}"),
        });
    }
    if let Some(blocks) = least(1 << 24, with_blocks) {
        ways.push(format!("ssd.blocks of at least {blocks}"));
    }
    ExperimentError::value(key, found, format!("{} ({why}, expected {})", ways.join(", or "), error.expected))
}

/// The least number up to `most` for which `holds`, if it holds for all greater ones too.
fn least(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let mut above = 1;
    while !holds(above) {
        above *= 2;
        if above > most {
            return None;
        }
    }
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        *(if holds(middle) { &mut above } else { &mut below }) = middle;
    }
    Some(above)
}

fn ns(us: f64) -> Ns {
    Ns((us * NS_PER_US).round() as u64)
}

/// Converts a time; 0 means `None`.
fn optional(us: f64) -> Option<Ns> {
    (us > 0.0).then(|| ns(us))
}

/// The geometry of a drive: channels, chips, dies, planes, blocks and pages.
/// Errors: the first key whose value is impossible.
pub fn shape(ssd: &Ssd) -> Result<Shape, ExperimentError> {
    let bytes = ssd.page_kib * 1024.0;
    if bytes.fract() != 0.0 || !(bytes as u32).is_power_of_two() {
        return wrong("ssd.page_kib", ssd.page_kib, "a power of two from 0.5 to 64");
    }
    let Some(order) = Order::by_name(&ssd.order) else {
        return wrong("ssd.order", &ssd.order, "the letters c, w, d and p (channel, way, die, plane), each once");
    };
    let shape = Shape {
        channels: ssd.channels,
        ways: ssd.ways,
        dies: ssd.dies,
        planes: ssd.planes,
        blocks: ssd.blocks,
        pages: ssd.pages,
        page_bytes: bytes as u32,
        order,
        multi_plane: ssd.multi_plane,
    };
    let key = |what: &str| match what {
        "channels" | "ways" | "dies" | "planes" => format!("ssd.{what}"),
        "blocks of a plane" => "ssd.blocks".to_owned(),
        "pages of a block" => "ssd.pages".to_owned(),
        _ => "ssd".to_owned(),
    };
    shape.check().or_else(|error| wrong(key(error.what), error.found, error.expected))?;
    if ssd.multi_plane && ssd.planes > MOST_PLANES_IN_STEP {
        let expected = format!("1 to {MOST_PLANES_IN_STEP} with multi_plane");
        return wrong("ssd.planes", ssd.planes, expected);
    }
    Ok(shape)
}

/// Logical pages, in whole stripes over all planes.
fn logical_pages(ssd: &Ssd, shape: &Shape) -> Result<u32, ExperimentError> {
    let raw = shape.raw_bytes();
    let pages = match (ssd.capacity_bytes, ssd.over_provisioning_percent) {
        (Some(bytes), _) if bytes >= raw => {
            return wrong("ssd.capacity_bytes", bytes, format!("less than the {raw} bytes of flash"));
        }
        (Some(bytes), _) => bytes / u64::from(shape.page_bytes),
        (None, percent) => {
            let kept = if ssd.effective_over_provisioning_percent.is_some() { kept_pages(ssd, shape) } else { 0.0 };
            let percent = percent.or(ssd.effective_over_provisioning_percent).unwrap_or(0.0);
            ((shape.raw_pages() as f64 - kept) / (1.0 + percent / 100.0)).max(0.0) as u64
        }
    };
    let stripe = u64::from(shape.all_dies() * shape.planes);
    match u32::try_from(pages / stripe * stripe).unwrap_or(u32::MAX) {
        0 => {
            let least = stripe * u64::from(shape.page_bytes);
            wrong("ssd.capacity_bytes", "no whole stripe", format!("at least {least} bytes, a page on each plane"))
        }
        pages => Ok(pages),
    }
}

/// Pages of all units that collection keeps free of data; 0 for mappings other than page-level.
fn kept_pages(ssd: &Ssd, shape: &Shape) -> f64 {
    match ssd.ftl.mapping {
        words::Mapping::Page | words::Mapping::Dftl => {
            f64::from(shape.units()) * page(ssd, shape, 0, Vec::new()).reserved_pages()
        }
        words::Mapping::Bast | words::Mapping::Fast | words::Mapping::Block => 0.0,
    }
}

fn timing(ssd: &Ssd, shape: &Shape, entry_check: Ns) -> Result<Timing, ExperimentError> {
    let section = &ssd.timing;
    let levels = section.read_us.len();
    if section.program_us.len() != levels {
        let found = format!("{} values", section.program_us.len());
        return wrong("ssd.timing.program_us", found, format!("{levels}, as many as read_us has"));
    }
    let groups = section.independent_reads;
    if !shape.planes.is_multiple_of(groups) || shape.ways * shape.dies * groups > MAX_SLOTS {
        let expected = format!("a divisor of the {} planes, and {MAX_SLOTS} at most on a channel", shape.planes);
        return wrong("ssd.timing.independent_reads", groups, expected);
    }
    let of = |values: &[f64]| std::array::from_fn(|at| ns(values.get(at % levels).copied().unwrap_or_default()));
    Ok(Timing {
        levels: levels as u32,
        read: of(&section.read_us),
        program: of(&section.program_us),
        erase: ns(section.erase_us),
        slc: [section.slc_read_us, section.slc_program_us, section.slc_erase_us].map(ns),
        command: Ns(section.command_ns),
        transfer: Timing::transfer_of(shape.page_bytes, section.oob_bytes, section.bus.mega_transfers_per_s()),
        suspend_program: optional(section.suspend_program_us),
        suspend_erase: optional(section.suspend_erase_us),
        resume: ns(section.resume_us),
        max_suspends: section.max_suspends,
        cache_read: section.cache_read,
        cache_program: section.cache_program,
        independent_reads: groups,
        entry_check,
        copyback: section.copyback,
    })
}

fn front(ssd: &Ssd) -> Result<FrontConfig, ExperimentError> {
    let front = &ssd.front;
    let most = if front.protocol == words::Protocol::Nvme { 65_535 } else { 32 };
    if front.depth > most {
        let expected = format!("1 to {most} with `{}`", word(&front.protocol));
        return wrong("ssd.front.depth", front.depth, expected);
    }
    if front.protocol != words::Protocol::Nvme && front.queue_weights.len() > 1 {
        let expected = format!("one weight with `{}`, which has one queue", word(&front.protocol));
        return wrong("ssd.front.queue_weights", format!("{} of them", front.queue_weights.len()), expected);
    }
    if front.link_mb_s > 0.0 && front.link_mb_s < 0.001 {
        return wrong("ssd.front.link_mb_s", front.link_mb_s, "0, or 0.001 to 1e6");
    }
    Ok(FrontConfig {
        protocol: match front.protocol {
            words::Protocol::Sata => Protocol::Sata,
            words::Protocol::Ufs => Protocol::Ufs,
            words::Protocol::Nvme => Protocol::Nvme { weights: front.queue_weights.clone() },
        },
        depth: front.depth,
        command: ns(front.command_us),
        read_latency: ns(front.read_latency_us),
        write_latency: ns(front.write_latency_us),
        link_bytes_per_s: (front.link_mb_s * 1e6) as u64,
        half_duplex: front.half_duplex,
        write_cache: front.write_cache,
        trimmed_reads: match front.trimmed_reads {
            words::TrimmedReads::Zeroes => TrimmedReads::Zeroes,
            words::TrimmedReads::Deterministic => TrimmedReads::Deterministic,
            words::TrimmedReads::Undefined => TrimmedReads::Undefined,
        },
    })
}

/// The write buffer, if the drive has one.
fn cache(ssd: &Ssd, shape: &Shape) -> Result<Option<CacheConfig>, ExperimentError> {
    let section = &ssd.cache;
    let of_mib = (section.mib * f64::from(1 << 20) / f64::from(shape.page_bytes)) as u32;
    // A buffer of several times the drive never fills, however large it is.
    let pages = section.pages.unwrap_or(of_mib).min(shape.raw_pages().saturating_mul(4).try_into().unwrap_or(u32::MAX));
    let policy = match section.policy {
        words::BufferPolicy::None => Policy::None,
        words::BufferPolicy::Fifo => Policy::Fifo,
        words::BufferPolicy::Lru => Policy::Lru,
        words::BufferPolicy::Bplru => Policy::Bplru,
        words::BufferPolicy::BplruUnpadded => Policy::BplruUnpadded,
        words::BufferPolicy::BplruUncompensated => Policy::BplruUncompensated,
    };
    if policy != Policy::None && pages == 0 && section.mib > 0.0 {
        return wrong("ssd.cache.mib", section.mib, "0, or a page at least");
    }
    Ok((pages > 0).then_some(CacheConfig { policy, pages }))
}

/// The cached part of a mapping table in flash, with `dftl`.
fn map(ssd: &Ssd, shape: &Shape, pages: u32) -> Result<Option<MapCacheConfig>, ExperimentError> {
    if ssd.ftl.mapping != words::Mapping::Dftl {
        return Ok(None);
    }
    let percent = ssd.ftl.map_protected_percent;
    let config = MapCacheConfig {
        map_page_bytes: shape.page_bytes,
        grain: match ssd.ftl.map_grain {
            words::MapGrain::Page => Grain::Page,
            words::MapGrain::Entry => Grain::Entry,
        },
        replacement: if percent > 0 { Replacement::Segmented { protected_percent: percent } } else { Replacement::Lru },
        ..MapCacheConfig::pages(pages, u64::from(ssd.ftl.map_cache_kib) << 10)
    };
    config
        .check()
        .or_else(|error| wrong("ssd.ftl.map_cache_kib", format!("{}: {}", error.what, error.found), error.expected))?;
    Ok(Some(config))
}

fn checkpoints(ssd: &Ssd, shape: &Shape, lpns: u32) -> Result<Option<CheckpointRegions>, ExperimentError> {
    if ssd.ftl.checkpoint_every == 0 {
        return Ok(None);
    }
    match CheckpointRegions::of(shape, lpns, &[]) {
        None => wrong(
            "ssd.ftl.checkpoint_every",
            ssd.ftl.checkpoint_every,
            "0: a unit has no room for two images of its mapping",
        ),
        areas => Ok(areas),
    }
}

/// Key of a value that a layer refuses.
fn layer_key(what: &str) -> &'static str {
    match what {
        "blocks of a unit" => "ssd.blocks",
        "pages of a unit's block" => "ssd.pages",
        "gc_low" => "ssd.ftl.gc_low",
        "gc d" => "ssd.ftl.gc_choices",
        "gc window" => "ssd.ftl.gc_window",
        "wear every" => "ssd.ftl.wear_every",
        "pages of an SLC block" => "ssd.ftl.slc_percent",
        "log blocks of a unit" => "ssd.ftl.log_blocks",
        _ => "ssd.ftl",
    }
}

fn layer(ssd: &Ssd, shape: &Shape, lpns: u32, kept: Vec<u32>) -> Result<Layer, ConfigError> {
    let hybrid = |kept| HybridConfig {
        bad: kept,
        planes: shape.unit_planes(),
        ..HybridConfig::new(shape.blocks, shape.unit_pages(), lpns, ssd.ftl.log_blocks)
    };
    let layer = match ssd.ftl.mapping {
        words::Mapping::Page | words::Mapping::Dftl => Layer::Page(page(ssd, shape, lpns, kept)),
        words::Mapping::Bast => Layer::Bast(hybrid(kept)),
        words::Mapping::Fast => Layer::Fast(hybrid(kept)),
        words::Mapping::Block => Layer::Block(hybrid(kept)),
    };
    match &layer {
        Layer::Page(config) => config.check(),
        Layer::Bast(config) => Bast::check_config(config),
        Layer::Fast(config) => Fast::check_config(config),
        Layer::Block(config) => BlockFtl::check_config(config),
    }?;
    Ok(layer)
}

fn page(ssd: &Ssd, shape: &Shape, lpns: u32, kept: Vec<u32>) -> PageConfig {
    let ftl = &ssd.ftl;
    PageConfig {
        bad: kept,
        planes: shape.unit_planes(),
        gc: match ftl.gc {
            words::Gc::Greedy => GcPolicy::Greedy,
            words::Gc::CostBenefit => GcPolicy::CostBenefit,
            words::Gc::DChoices => GcPolicy::DChoices { d: ftl.gc_choices },
            words::Gc::Fifo => GcPolicy::Fifo,
            words::Gc::Windowed => GcPolicy::Windowed { window: ftl.gc_window },
            words::Gc::Random => GcPolicy::Random,
        },
        gc_low: ftl.gc_low,
        gc_background: ftl.gc_background_percent.map_or(ftl.gc_background, |percent| {
            ftl.gc_low + ((f64::from(shape.blocks) * percent / 100.0).round() as u32).max(1)
        }),
        gc_background_gain: ((f64::from(shape.unit_pages()) * ftl.gc_background_gain_percent / 100.0) as u32).max(1),
        foreground: match ftl.foreground {
            words::Foreground::Block => Foreground::Block,
            words::Foreground::Paced => Foreground::Paced,
        },
        separate: ftl.hot_cold,
        wear: match ftl.wear {
            words::WearLevelling::None => Wear::None,
            words::WearLevelling::Dynamic => Wear::Dynamic,
            words::WearLevelling::Static => Wear::Static { threshold: ftl.wear_threshold, every: ftl.wear_every },
        },
        slc: slc(ssd, shape),
        ..PageConfig::new(shape.blocks, shape.unit_pages(), lpns)
    }
}

/// SLC blocks of a unit: the requested share or the size of WriteBooster, rounded; at least one if any.
fn slc(ssd: &Ssd, shape: &Shape) -> Option<SlcCache> {
    let rows = (shape.pages / ssd.timing.read_us.len().max(1) as u32).max(1);
    let pages = rows * shape.unit_planes();
    let blocks = match &ssd.write_booster {
        Some(booster) => {
            let block = u64::from(pages) * u64::from(shape.page_bytes) * u64::from(shape.units());
            booster.mib * f64::from(1 << 20) / block as f64
        }
        None => f64::from(ssd.blocks) * ssd.ftl.slc_percent / 100.0,
    };
    let when_full = match ssd.ftl.slc_when_full {
        words::SlcWhenFull::Direct => SlcFull::Direct,
        words::SlcWhenFull::Fold => SlcFull::Fold,
    };
    let folds_idle = ssd.write_booster.as_ref().is_none_or(|booster| booster.flush);
    (blocks > 0.0).then(|| SlcCache { blocks: (blocks.round() as u32).max(1), pages, when_full, folds_idle })
}

fn array(ssd: &Ssd, shape: &Shape, seed: u64) -> Result<ArrayConfig, ExperimentError> {
    let mut config = ArrayConfig::plain(ssd::cells::geometry(shape, 0));
    if ssd.endurance > 0 {
        let wear_out = Some(WearOut::by_rating(ssd.endurance));
        config.faults = Some(FaultPlan { wear_out, ..FaultPlan::none(Seed(seed)) });
    }
    config.validate().or_else(|error| wrong(format!("ssd ({})", error.field), error.found, error.expected))?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Experiment;

    fn drive(sets: &[(&str, &str)]) -> Drive {
        let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let experiment = Experiment::resolve("title = 't'\n[ssd]\n", &sets).unwrap();
        Drive::build(&experiment.ssd.unwrap(), 1).unwrap()
    }

    /// Over-provisioning is spare over logical capacity, not over raw.
    #[test]
    fn over_provisioning_is_spare_over_logical_capacity() {
        let drive = drive(&[]);
        let (raw, logical) = (drive.shape.raw_pages() as f64, f64::from(drive.pages()));
        assert_eq!(raw, 4_194_304.0);
        assert!((100.0 * (raw - logical) / logical - 12.5).abs() < 1e-3);
    }

    #[test]
    fn onfi_modes_are_rates() {
        let transfer = |bus| drive(&[("ssd.timing.bus", bus), ("ssd.timing.oob_bytes", "0")]).dispatch.timing.transfer;
        for (mode, rate) in [("sdr-0", 10), ("sdr-5", 50), ("nv-ddr-5", 200)] {
            assert_eq!(transfer(mode), Timing::transfer_of(4096, 0, rate), "{mode}");
        }
        assert_eq!(transfer("4096"), Ns(1_000));
    }

    #[test]
    fn pages_of_a_cell_have_their_times_in_turn() {
        let timing =
            drive(&[("ssd.timing.read_us", "[1.0, 2.5]"), ("ssd.timing.program_us", "[3, 4]")]).dispatch.timing;
        assert_eq!((timing.levels, timing.read[1], timing.program[0]), (2, Ns(2_500), Ns(3_000)));
    }

    #[test]
    fn a_time_of_zero_means_that_there_is_no_suspend() {
        assert_eq!(drive(&[]).dispatch.timing.suspend_program, None);
        let drive = drive(&[("ssd.timing.suspend_program_us", "20")]);
        assert_eq!(drive.dispatch.timing.suspend_program, Some(Ns::from_us(20)));
    }

    #[test]
    fn a_buffer_is_sized_in_pages_or_in_mib() {
        let sized = |sets: &[_]| drive(sets).config.cache.map(|cache| cache.pages);
        assert_eq!(sized(&[("ssd.cache.policy", "lru"), ("ssd.cache.pages", "3")]), Some(3));
        assert_eq!(sized(&[("ssd.cache.policy", "lru"), ("ssd.cache.mib", "0.03125")]), Some(8));
        assert_eq!(sized(&[]), None);
    }

    /// A buffer has memory for each of its pages: one of 64 GiB would need gigabytes for a drive of a few MiB.
    #[test]
    fn a_buffer_is_no_larger_than_four_drives() {
        let mut small = vec![("ssd.cache.policy", "lru"), ("ssd.blocks", "40"), ("ssd.cache.mib", "65536")];
        let pages = |sets: &[_]| {
            let drive = drive(sets);
            (u64::from(drive.config.cache.expect("a buffer").pages), drive.shape.raw_pages())
        };
        let (by_mib, raw) = pages(&small);
        assert_eq!(by_mib, 4 * raw);
        small[2] = ("ssd.cache.pages", "4000000000");
        assert_eq!(pages(&small).0, 4 * raw);
    }
}
