//! An experiment's numbers as configurations of the drive's parts.
//!
//! Knows which key makes which number, and which numbers make no drive. Everything that the parts would panic on is
//! refused here, with the key.

use nand::{ArrayConfig, FaultPlan, WearOut};
use sim::{Ns, Seed};
use ssd::cache::Policy;
use ssd::dispatch::CheckpointRegions;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::hybrid::HybridConfig;
use ssd::ftl::map_cache::{Grain, MapCache, MapCacheConfig, Replacement};
use ssd::ftl::page::{Foreground, PageConfig, SlcCache, SlcFull};
use ssd::ftl::wear::Wear;
use ssd::timing::MAX_LEVELS;
use ssd::{
    CacheConfig, DispatchConfig, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Timing, TrimmedReads,
    untimed,
};

use super::experiment::{Bus, SsdExperiment, SsdSection, wrong};
use super::ufs;
use crate::experiment::ExperimentError;

/// Translation layers by name.
pub const MAPPINGS: [&str; 5] = ["page", "dftl", "bast", "fast", "block"];

const NS_PER_US: f64 = 1e3;
/// Planes of one operation, as the dispatcher has room for.
const MOST_PLANES_IN_STEP: u32 = 4;

fn ns(us: f64) -> Ns {
    Ns((us * NS_PER_US).round() as u64)
}

/// An amount of time that may be left out: 0.
fn optional(us: f64) -> Option<Ns> {
    (us > 0.0).then(|| ns(us))
}

/// The drive's shape. It has been checked.
pub fn shape(ssd: &SsdSection) -> Shape {
    Shape {
        channels: ssd.channels,
        ways: ssd.ways,
        dies: ssd.dies,
        planes: ssd.planes,
        blocks: ssd.blocks,
        pages: ssd.pages,
        page_bytes: (ssd.page_kib * 1024.0) as u32,
        order: Order::by_name(&ssd.order).unwrap_or(Order::CHANNEL_FIRST),
        multi_plane: ssd.multi_plane,
    }
}

/// Logical pages of the drive: whole stripes over all planes.
pub fn logical_pages(ssd: &SsdSection) -> u32 {
    let shape = shape(ssd);
    let pages = match (ssd.capacity_bytes, ssd.over_provisioning_percent) {
        (Some(bytes), _) => bytes / u64::from(shape.page_bytes),
        (None, percent) => (shape.raw_pages() as f64 / (1.0 + percent.unwrap_or(0.0) / 100.0)) as u64,
    };
    let stripe = u64::from(shape.all_dies() * shape.planes);
    u32::try_from(pages / stripe * stripe).unwrap_or(u32::MAX)
}

/// Mega-transfers a second of an ONFI mode. Source: ONFI timing modes as in Linux 6.12 `nand_timings.c`: 1/tRC, and 2/tCK.
fn bus_rate(bus: &Bus) -> Option<u32> {
    match bus {
        Bus::Rate(rate) => Some(*rate),
        Bus::Mode(name) => {
            let (kind, mode) = name.rsplit_once('-')?;
            let mode: usize = mode.parse().ok()?;
            match kind {
                "sdr" => [10, 20, 28, 33, 40, 50].get(mode).copied(),
                "nv-ddr" => [40, 66, 100, 133, 166, 200].get(mode).copied(),
                _ => None,
            }
        }
    }
}

/// Times of the flash.
pub fn timing(ssd: &SsdSection) -> Timing {
    let section = &ssd.timing;
    let levels = section.read_us.len().clamp(1, MAX_LEVELS);
    let of = |values: &[f64]| std::array::from_fn(|at| ns(values.get(at % levels).copied().unwrap_or_default()));
    let page_bytes = shape(ssd).page_bytes;
    Timing {
        levels: levels as u32,
        read: of(&section.read_us),
        program: of(&section.program_us),
        erase: ns(section.erase_us),
        slc: [section.slc_read_us, section.slc_program_us, section.slc_erase_us].map(ns),
        command: Ns(section.command_ns),
        transfer: Timing::transfer_of(page_bytes, section.oob_bytes, bus_rate(&section.bus).unwrap_or(1)),
        suspend_program: optional(section.suspend_program_us),
        suspend_erase: optional(section.suspend_erase_us),
        resume: ns(section.resume_us),
        max_suspends: section.max_suspends,
        cache_read: section.cache_read,
        cache_program: section.cache_program,
        entry_check: ufs::entry_check(ssd),
        copyback: section.copyback,
    }
}

fn scheduling(name: &str) -> Option<Scheduling> {
    match name {
        "reads-first" => Some(Scheduling::ReadsFirst),
        "in-order" => Some(Scheduling::InOrder),
        _ => None,
    }
}

/// How dies work.
pub fn dispatch(ssd: &SsdSection) -> DispatchConfig {
    DispatchConfig {
        timing: timing(ssd),
        scheduling: scheduling(&ssd.timing.scheduling).unwrap_or(Scheduling::ReadsFirst),
        background_after: optional(ssd.ftl.background_after_us),
    }
}

/// The host's side.
pub fn front(ssd: &SsdSection) -> FrontConfig {
    let front = &ssd.front;
    FrontConfig {
        protocol: match front.protocol.as_str() {
            "sata" => Protocol::Sata,
            "ufs" => Protocol::Ufs,
            _ => Protocol::Nvme { weights: front.queue_weights.clone() },
        },
        depth: front.depth,
        command: ns(front.command_us),
        link_bytes_per_s: (front.link_mb_s * 1e6) as u64,
        half_duplex: front.half_duplex,
        write_cache: front.write_cache,
        trimmed_reads: TrimmedReads::by_name(&front.trimmed_reads).unwrap_or_default(),
    }
}

/// The drive.
pub fn drive(ssd: &SsdSection) -> DriveConfig {
    DriveConfig { pages: logical_pages(ssd), front: front(ssd), cache: cache(ssd), map: map(ssd), hpb: ufs::hpb(ssd) }
}

/// The write buffer, if the drive has one.
fn cache(ssd: &SsdSection) -> Option<CacheConfig> {
    let pages = (ssd.cache.mib * f64::from(1 << 20) / f64::from(shape(ssd).page_bytes)) as u32;
    let policy = Policy::by_name(&ssd.cache.policy).unwrap_or(Policy::None);
    (pages > 0).then_some(CacheConfig { policy, pages })
}

fn gc(ssd: &SsdSection) -> Option<GcPolicy> {
    Some(match ssd.ftl.gc.as_str() {
        "greedy" => GcPolicy::Greedy,
        "cost-benefit" => GcPolicy::CostBenefit,
        "d-choices" => GcPolicy::DChoices { d: ssd.ftl.gc_choices },
        "fifo" => GcPolicy::Fifo,
        "windowed" => GcPolicy::Windowed { window: ssd.ftl.gc_window },
        "random" => GcPolicy::Random,
        _ => return None,
    })
}

fn wear(ssd: &SsdSection) -> Option<Wear> {
    Some(match ssd.ftl.wear.as_str() {
        "none" => Wear::None,
        "dynamic" => Wear::Dynamic,
        "static" => Wear::Static { threshold: ssd.ftl.wear_threshold, every: ssd.ftl.wear_every },
        _ => return None,
    })
}

/// Blocks of a unit in SLC mode: the share asked for, or WriteBooster's size, rounded; at least one if any is.
fn slc(ssd: &SsdSection) -> Option<SlcCache> {
    let shape = shape(ssd);
    let rows = (shape.pages / ssd.timing.read_us.len().max(1) as u32).max(1);
    let pages = rows * shape.unit_planes();
    let blocks = match &ssd.write_booster {
        Some(booster) => {
            let block = u64::from(pages) * u64::from(shape.page_bytes) * u64::from(shape.units());
            booster.mib * f64::from(1 << 20) / block as f64
        }
        None => f64::from(ssd.blocks) * ssd.ftl.slc_percent / 100.0,
    };
    if blocks <= 0.0 {
        return None;
    }
    let when_full = if ssd.ftl.slc_when_full == "fold" { SlcFull::Fold } else { SlcFull::Direct };
    let folds_idle = ssd.write_booster.is_none_or(|booster| booster.flush);
    Some(SlcCache { blocks: (blocks.round() as u32).max(1), pages, when_full, folds_idle })
}

/// The cached part of a mapping table that lies in flash, with `dftl`.
pub fn map(ssd: &SsdSection) -> Option<MapCacheConfig> {
    let percent = ssd.ftl.map_protected_percent;
    (ssd.ftl.mapping == "dftl").then(|| MapCacheConfig {
        map_page_bytes: shape(ssd).page_bytes,
        grain: if ssd.ftl.map_grain == "entry" { Grain::Entry } else { Grain::Page },
        replacement: if percent > 0 { Replacement::Segmented { protected_percent: percent } } else { Replacement::Lru },
        ..MapCacheConfig::pages(logical_pages(ssd), u64::from(ssd.ftl.map_cache_kib) << 10)
    })
}

/// Pages of the mapping table in flash, behind the host's.
pub fn map_pages(ssd: &SsdSection) -> u32 {
    map(ssd).map_or(0, |map| map.map_pages())
}

/// Blocks of each unit in which its mapping is written every so often, if it is. Too few blocks leave none.
pub fn checkpoints(ssd: &SsdSection) -> Option<CheckpointRegions> {
    let shape = shape(ssd);
    let lpns = untimed::lpns_per_unit(&shape, logical_pages(ssd).saturating_add(map_pages(ssd)));
    (ssd.ftl.checkpoint_every > 0).then(|| CheckpointRegions::of(&shape, lpns, &[]))?
}

/// Blocks that a layer does not manage.
fn kept(ssd: &SsdSection) -> Vec<u32> {
    checkpoints(ssd).iter().flat_map(CheckpointRegions::blocks).collect()
}

/// A unit with page-level mapping.
pub fn page_config(ssd: &SsdSection) -> PageConfig {
    let shape = shape(ssd);
    let lpns = untimed::lpns_per_unit(&shape, logical_pages(ssd).saturating_add(map_pages(ssd)));
    PageConfig {
        bad: kept(ssd),
        planes: shape.unit_planes(),
        gc: gc(ssd).unwrap_or(GcPolicy::Greedy),
        gc_low: ssd.ftl.gc_low,
        gc_background: ssd.ftl.gc_background,
        foreground: if ssd.ftl.foreground == "paced" { Foreground::Paced } else { Foreground::Block },
        separate: ssd.ftl.hot_cold,
        wear: wear(ssd).unwrap_or_default(),
        slc: slc(ssd),
        ..PageConfig::new(shape.blocks, shape.unit_pages(), lpns)
    }
}

/// A unit with block-level or log-block mapping.
pub fn hybrid_config(ssd: &SsdSection) -> HybridConfig {
    let shape = shape(ssd);
    let lpns = untimed::lpns_per_unit(&shape, logical_pages(ssd));
    HybridConfig {
        bad: kept(ssd),
        planes: shape.unit_planes(),
        ..HybridConfig::new(shape.blocks, shape.unit_pages(), lpns, ssd.ftl.log_blocks)
    }
}

/// The cells.
pub fn array_config(experiment: &SsdExperiment) -> ArrayConfig {
    let shape = shape(&experiment.ssd);
    let mut config = ArrayConfig::plain(ssd::cells::geometry(&shape, 0));
    if experiment.ssd.endurance > 0 {
        let wear_out = Some(WearOut::by_rating(experiment.ssd.endurance));
        config.faults = Some(FaultPlan { wear_out, ..FaultPlan::none(Seed(experiment.seed)) });
    }
    config
}

/// Errors: the first key whose value makes no drive.
pub fn check(experiment: &SsdExperiment) -> Result<(), ExperimentError> {
    let ssd = &experiment.ssd;
    check_shape(ssd)?;
    check_timing(ssd)?;
    check_front(ssd)?;
    check_names(ssd)?;
    check_layer(ssd)?;
    ufs::check(ssd)?;
    array_config(experiment)
        .validate()
        .or_else(|error| wrong(&format!("ssd ({})", error.field), error.found, error.expected))
}

fn check_shape(ssd: &SsdSection) -> Result<(), ExperimentError> {
    let bytes = ssd.page_kib * 1024.0;
    if !(512.0..=65_536.0).contains(&bytes) || !(bytes as u32).is_power_of_two() || bytes.fract() != 0.0 {
        return wrong("ssd.page_kib", ssd.page_kib, "a power of two from 0.5 to 64");
    }
    if Order::by_name(&ssd.order).is_none() {
        return wrong("ssd.order", &ssd.order, "the letters c, w, d and p (channel, way, die, plane), each once");
    }
    let key = |what: &str| match what {
        "channels" | "ways" | "dies" | "planes" => format!("ssd.{what}"),
        "blocks of a plane" => "ssd.blocks".to_owned(),
        "pages of a block" => "ssd.pages".to_owned(),
        _ => "ssd".to_owned(),
    };
    shape(ssd).check().or_else(|error| wrong(&key(error.what), error.found, error.expected))?;
    if ssd.multi_plane && ssd.planes > MOST_PLANES_IN_STEP {
        let expected = format!("1 to {MOST_PLANES_IN_STEP} where planes work in step");
        return wrong("ssd.planes", ssd.planes, &expected);
    }
    let raw = shape(ssd).raw_bytes();
    if ssd.capacity_bytes.is_some_and(|bytes| bytes >= raw) {
        let expected = format!("below the {raw} bytes of flash");
        return wrong("ssd.capacity_bytes", ssd.capacity_bytes.unwrap_or_default(), &expected);
    }
    if ssd.over_provisioning_percent.is_some_and(|percent| !(0.0..=100_000.0).contains(&percent)) {
        let found = ssd.over_provisioning_percent.unwrap_or_default();
        return wrong("ssd.over_provisioning_percent", found, "0 to 100,000");
    }
    if logical_pages(ssd) == 0 {
        let stripe = u64::from(shape(ssd).all_dies() * ssd.planes) * u64::from(shape(ssd).page_bytes);
        return wrong(
            "ssd.capacity_bytes",
            "no whole stripe",
            &format!("at least {stripe} bytes, a page on each plane"),
        );
    }
    if !["tags", "bytes"].contains(&ssd.store.as_str()) {
        return wrong("ssd.store", &ssd.store, "tags or bytes");
    }
    Ok(())
}

fn check_timing(ssd: &SsdSection) -> Result<(), ExperimentError> {
    let timing = &ssd.timing;
    let levels = timing.read_us.len();
    if !(1..=MAX_LEVELS).contains(&levels) {
        return wrong("ssd.timing.read_us", format!("{levels} values"), "1 to 4, one for each bit of a cell");
    }
    if timing.program_us.len() != levels {
        let found = format!("{} values", timing.program_us.len());
        return wrong("ssd.timing.program_us", found, &format!("{levels}, as many as read_us"));
    }
    let singles = [
        ("ssd.timing.erase_us", timing.erase_us),
        ("ssd.timing.slc_read_us", timing.slc_read_us),
        ("ssd.timing.slc_program_us", timing.slc_program_us),
        ("ssd.timing.slc_erase_us", timing.slc_erase_us),
        ("ssd.timing.suspend_program_us", timing.suspend_program_us),
        ("ssd.timing.suspend_erase_us", timing.suspend_erase_us),
        ("ssd.timing.resume_us", timing.resume_us),
        ("ssd.ftl.background_after_us", ssd.ftl.background_after_us),
        ("ssd.front.command_us", ssd.front.command_us),
    ];
    let lists = [("ssd.timing.read_us", &timing.read_us), ("ssd.timing.program_us", &timing.program_us)];
    let listed = lists.iter().flat_map(|&(key, values)| values.iter().map(move |&value| (key, value)));
    for (key, value) in listed.chain(singles) {
        if !(0.0..=1e7).contains(&value) {
            return wrong(key, value, "0 to 1e7 µs");
        }
    }
    if timing.command_ns > 1_000_000 {
        return wrong("ssd.timing.command_ns", timing.command_ns, "0 to 1,000,000");
    }
    if timing.oob_bytes > 1 << 16 {
        return wrong("ssd.timing.oob_bytes", timing.oob_bytes, "0 to 65,536");
    }
    if !bus_rate(&timing.bus).is_some_and(|rate| (1..=100_000).contains(&rate)) {
        let found = match &timing.bus {
            Bus::Rate(rate) => rate.to_string(),
            Bus::Mode(mode) => mode.clone(),
        };
        return wrong("ssd.timing.bus", found, "1 to 100,000 MT/s, or sdr-0 to sdr-5, nv-ddr-0 to nv-ddr-5");
    }
    if scheduling(&timing.scheduling).is_none() {
        return wrong("ssd.timing.scheduling", &timing.scheduling, "reads-first or in-order");
    }
    Ok(())
}

fn check_front(ssd: &SsdSection) -> Result<(), ExperimentError> {
    let front = &ssd.front;
    let most = match front.protocol.as_str() {
        "sata" | "ufs" => 32,
        "nvme" => 65_535,
        _ => return wrong("ssd.front.protocol", &front.protocol, "sata, nvme or ufs"),
    };
    if TrimmedReads::by_name(&front.trimmed_reads).is_none() {
        let known = TrimmedReads::ALL.map(TrimmedReads::name).join(", ");
        return wrong("ssd.front.trimmed_reads", &front.trimmed_reads, &format!("one of {known}"));
    }
    if !(1..=most).contains(&front.depth) {
        return wrong("ssd.front.depth", front.depth, &format!("1 to {most} with {}", front.protocol));
    }
    if !(0.0..=1e6).contains(&front.link_mb_s) || front.link_mb_s > 0.0 && front.link_mb_s < 0.001 {
        return wrong("ssd.front.link_mb_s", front.link_mb_s, "0, or 0.001 to 1e6");
    }
    if front.queue_weights.is_empty() || front.queue_weights.len() > 128 || front.queue_weights.contains(&0) {
        let found = format!("{:?}", front.queue_weights);
        return wrong("ssd.front.queue_weights", found, "1 to 128 weights of 1 or more");
    }
    Ok(())
}

fn check_names(ssd: &SsdSection) -> Result<(), ExperimentError> {
    let ftl = &ssd.ftl;
    let one_of = |key: &str, found: &str, known: &[&str]| {
        if known.contains(&found) { Ok(()) } else { wrong(key, found, &format!("one of {}", known.join(", "))) }
    };
    one_of("ssd.ftl.mapping", &ftl.mapping, &MAPPINGS)?;
    one_of("ssd.ftl.gc", &ftl.gc, &["greedy", "cost-benefit", "d-choices", "fifo", "windowed", "random"])?;
    one_of("ssd.ftl.foreground", &ftl.foreground, &["block", "paced"])?;
    one_of("ssd.ftl.wear", &ftl.wear, &["none", "dynamic", "static"])?;
    one_of("ssd.ftl.slc_when_full", &ftl.slc_when_full, &["direct", "fold"])?;
    one_of("ssd.ftl.map_grain", &ftl.map_grain, &["page", "entry"])?;
    if ftl.map_protected_percent > 99 {
        return wrong("ssd.ftl.map_protected_percent", ftl.map_protected_percent, "0 to 99");
    }
    one_of("ssd.cache.policy", &ssd.cache.policy, &Policy::ALL.map(Policy::name))?;
    if !(0.0..=90.0).contains(&ftl.slc_percent) {
        return wrong("ssd.ftl.slc_percent", ftl.slc_percent, "0 to 90");
    }
    if !(0.0..=65_536.0).contains(&ssd.cache.mib) {
        return wrong("ssd.cache.mib", ssd.cache.mib, "0 to 65,536");
    }
    Ok(())
}

/// Key of a number that a layer refuses.
fn layer_key(what: &str) -> &'static str {
    match what {
        "blocks of a unit" => "ssd.blocks",
        "pages of a unit's block" => "ssd.pages",
        "gc_low" => "ssd.ftl.gc_low",
        "gc d" => "ssd.ftl.gc_choices",
        "gc window" => "ssd.ftl.gc_window",
        "wear every" => "ssd.ftl.wear_every",
        "logical pages of a unit" => "ssd.over_provisioning_percent",
        "pages of an SLC block" => "ssd.ftl.slc_percent",
        "log blocks of a unit" => "ssd.ftl.log_blocks",
        "good blocks of a unit" => "ssd.blocks",
        _ => "ssd.ftl",
    }
}

fn check_layer(ssd: &SsdSection) -> Result<(), ExperimentError> {
    if ssd.cache.policy != "none" && cache(ssd).is_none() && ssd.cache.mib > 0.0 {
        return wrong("ssd.cache.mib", ssd.cache.mib, "0, or a page at least");
    }
    if let Some(map) = map(ssd) {
        MapCache::new(map).map(drop).or_else(|error| {
            let found = format!("{}: {}", error.what, error.found);
            wrong("ssd.ftl.map_cache_kib", found, error.expected)
        })?;
    }
    if ssd.ftl.checkpoint_every > 0 && checkpoints(ssd).is_none() {
        let expected = "0: a unit has no room for two images of its mapping";
        return wrong("ssd.ftl.checkpoint_every", ssd.ftl.checkpoint_every, expected);
    }
    // Layers of blocks check their numbers as they are made; one that is as large as a unit is cheap.
    let refused = match ssd.ftl.mapping.as_str() {
        "page" | "dftl" => page_config(ssd).check(),
        "bast" => Bast::new(hybrid_config(ssd)).map(drop),
        "fast" => Fast::new(hybrid_config(ssd)).map(drop),
        _ => BlockFtl::new(hybrid_config(ssd)).map(drop),
    };
    refused.or_else(|error| {
        let found = format!("{}: {}", error.what, error.found);
        wrong(layer_key(error.what), found, &error.expected)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(sets: &[(&str, &str)]) -> SsdSection {
        let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        SsdExperiment::resolve("title = 't'\n[ssd]\n[workload]\nrequests = 1\n", &sets).unwrap().ssd
    }

    /// Over-provisioning is spare over logical capacity, not over raw.
    #[test]
    fn over_provisioning_is_spare_over_logical_capacity() {
        let ssd = section(&[]);
        let (raw, logical) = (shape(&ssd).raw_pages() as f64, f64::from(logical_pages(&ssd)));
        assert_eq!(raw, 4_194_304.0);
        assert!((100.0 * (raw - logical) / logical - 12.5).abs() < 1e-3);
    }

    #[test]
    fn onfi_modes_are_rates() {
        for (mode, rate) in [("sdr-0", 10), ("sdr-5", 50), ("nv-ddr-5", 200)] {
            let ssd = section(&[("ssd.timing.bus", mode), ("ssd.timing.oob_bytes", "0")]);
            assert_eq!(timing(&ssd).transfer, Timing::transfer_of(4096, 0, rate), "{mode}");
        }
        assert_eq!(timing(&section(&[("ssd.timing.bus", "4096"), ("ssd.timing.oob_bytes", "0")])).transfer, Ns(1_000));
    }

    #[test]
    fn levels_take_their_times_in_turn() {
        let ssd = section(&[("ssd.timing.read_us", "[1.0, 2.5]"), ("ssd.timing.program_us", "[3, 4]")]);
        let timing = timing(&ssd);
        assert_eq!((timing.levels, timing.read[1], timing.program[0]), (2, Ns(2_500), Ns(3_000)));
    }

    #[test]
    fn what_is_left_out_is_no_time() {
        assert_eq!(timing(&section(&[])).suspend_program, None);
        let ssd = section(&[("ssd.timing.suspend_program_us", "20")]);
        assert_eq!(timing(&ssd).suspend_program, Some(Ns::from_us(20)));
    }
}
