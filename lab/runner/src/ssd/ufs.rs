//! What UFS has beyond other drives: Host Performance Booster and WriteBooster, as tables of an experiment, and what a
//! host reads of them in sysfs.
//!
//! Knows keys and paths. Does not know how either works.

use serde::{Deserialize, Serialize};
use sim::Ns;
use ssd::TrimmedReads;
use ssd::device::hpb::{Advisor, Control, HpbConfig, LuConfig, Params, Version};
use ssd::device::ufs::{Attribute, Configuration, Flag, LuEnable, Unit, WriteBooster};
use ssd::host::hpb::Driver;

use super::experiment::{SsdSection, wrong};
use super::{compose, identify};
use crate::experiment::ExperimentError;

/// Host Performance Booster. A drive without the table has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HpbSection {
    /// `1.0` (single pages) or `2.0`, as a text or as a number.
    #[serde(deserialize_with = "version")]
    pub version: String,
    /// Who decides what is active: `device` or `host`; `off`: nothing ever is, and the table counts for nothing.
    pub control: String,
    /// KiB of a region: pages of a power of two.
    pub region_kib: u32,
    /// KiB of a sub-region, the same.
    pub subregion_kib: u32,
    /// Regions that may be active at a time; 0: all.
    pub max_active_regions: u32,
    /// First pinned region of logical unit 0.
    pub pinned_first: u32,
    /// Pinned regions.
    pub pinned_regions: u32,
    /// Version 2.0: KiB of a read that takes a single entry, at most.
    pub single_command_kib: u32,
    /// Version 2.0: whether longer reads are preceded by their entries.
    pub pre_requests: bool,
    /// How much longer a die is occupied by a read with an entry.
    pub entry_check_us: f64,
    /// How long the device takes to clear fHPBReset when HPB is brought up; beyond 10 ms its host does without.
    pub reset_ms: f64,
    /// Reads without a right entry at which the device advises to load a sub-region.
    pub recommend_after: u32,
    /// Logical units in order; empty: one over the whole drive, with HPB.
    pub lus: Vec<LuSection>,
    /// Parameters of the host, by their names in sysfs.
    #[serde(with = "ParamsSection")]
    pub params: Params,
}

/// A logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LuSection {
    /// Its size; 0: what is left, for the last.
    pub mib: f64,
    /// Whether it has HPB.
    pub hpb: bool,
}

/// How [`Params`] stand in an experiment: what is left out is as in Linux.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Params", deny_unknown_fields, default = "linux_params")]
struct ParamsSection {
    activation_thld: u32,
    normalization_factor: u32,
    eviction_thld_enter: u32,
    eviction_thld_exit: u32,
    read_timeout_ms: u32,
    read_timeout_expiries: u32,
    timeout_polling_interval_ms: u32,
    inflight_map_req: u32,
    requeue_timeout_ms: u32,
}

fn linux_params() -> Params {
    Params::LINUX
}

/// A version that may stand there as a number.
fn version<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match toml::Value::deserialize(deserializer)? {
        toml::Value::Float(number) => format!("{number:.1}"),
        toml::Value::Integer(number) => format!("{number}.0"),
        toml::Value::String(text) => text,
        other => other.to_string(),
    })
}

impl Default for HpbSection {
    fn default() -> HpbSection {
        HpbSection {
            version: "1.0".to_owned(),
            control: "device".to_owned(),
            region_kib: 16_384,
            subregion_kib: 4_096,
            max_active_regions: 0,
            pinned_first: 0,
            pinned_regions: 0,
            single_command_kib: 512,
            pre_requests: false,
            entry_check_us: 1.0,
            reset_ms: 0.0,
            recommend_after: 4,
            lus: Vec::new(),
            params: Params::LINUX,
        }
    }
}

/// WriteBooster: blocks used with one bit a cell take what the host writes. A drive without the table has none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WriteBoosterSection {
    /// Size of the buffer in MiB (10^2 of 2^20: `dNumSharedWriteBoosterBufferAllocUnits` in bytes).
    pub mib: f64,
    /// Whether the device empties it while it is idle (`fWBBufferFlushEn`).
    pub flush: bool,
}

impl Default for WriteBoosterSection {
    fn default() -> WriteBoosterSection {
        WriteBoosterSection { mib: 4096.0, flush: true }
    }
}

/// Keys of both tables.
pub const KEYS: [&str; 24] = [
    "ssd.hpb.version",
    "ssd.hpb.control",
    "ssd.hpb.region_kib",
    "ssd.hpb.subregion_kib",
    "ssd.hpb.max_active_regions",
    "ssd.hpb.pinned_first",
    "ssd.hpb.pinned_regions",
    "ssd.hpb.single_command_kib",
    "ssd.hpb.pre_requests",
    "ssd.hpb.entry_check_us",
    "ssd.hpb.reset_ms",
    "ssd.hpb.recommend_after",
    "ssd.hpb.lus",
    "ssd.hpb.params.activation_thld",
    "ssd.hpb.params.normalization_factor",
    "ssd.hpb.params.eviction_thld_enter",
    "ssd.hpb.params.eviction_thld_exit",
    "ssd.hpb.params.read_timeout_ms",
    "ssd.hpb.params.read_timeout_expiries",
    "ssd.hpb.params.timeout_polling_interval_ms",
    "ssd.hpb.params.inflight_map_req",
    "ssd.hpb.params.requeue_timeout_ms",
    "ssd.write_booster.mib",
    "ssd.write_booster.flush",
];

const KIB: u32 = 1024;
/// bLogicalBlockSize 0Ch: the smallest that UFS knows. A request of this laboratory counts sectors all the same.
const LOGICAL_BLOCK_BYTES: u32 = 4096;

/// HPB of a drive, if it has it. It has been checked.
pub fn hpb(ssd: &SsdSection) -> Option<HpbConfig> {
    let section = ssd.hpb.as_ref().filter(|section| section.control != "off")?;
    let page_bytes = compose::shape(ssd).page_bytes;
    let pages = |kib: u32| (u64::from(kib) * u64::from(KIB) / u64::from(page_bytes)).min(u64::from(u32::MAX)) as u32;
    let subregion_pages = pages(section.subregion_kib);
    let mut config = HpbConfig {
        version: if section.version == "2.0" { Version::V2 } else { Version::V1 },
        control: if section.control == "host" { Control::Host } else { Control::Device },
        subregion_pages,
        region_subregions: section.region_kib / section.subregion_kib.max(1),
        max_active_regions: section.max_active_regions,
        pinned: (section.pinned_first, section.pinned_regions),
        lus: lus(section, compose::logical_pages(ssd), page_bytes),
        single_command_pages: pages(section.single_command_kib).max(1),
        pre_requests: section.pre_requests && section.version == "2.0",
        entry_check: Ns((section.entry_check_us * 1e3).round() as u64),
        reset: Ns((section.reset_ms * 1e6).round() as u64),
        recommend_after: section.recommend_after,
        params: section.params,
    };
    if section.max_active_regions == 0 && config.region_pages() > 0 {
        config.max_active_regions = config.lus.iter().map(|lu| config.regions(lu.pages)).sum();
    }
    Some(config)
}

fn lus(section: &HpbSection, pages: u32, page_bytes: u32) -> Vec<LuConfig> {
    if section.lus.is_empty() {
        return vec![LuConfig { pages, hpb: true }];
    }
    let mut left = pages;
    let mut lus: Vec<LuConfig> = Vec::new();
    for lu in &section.lus {
        let asked = (lu.mib * f64::from(KIB * KIB) / f64::from(page_bytes)) as u32;
        let pages = if asked == 0 { left } else { asked.min(left) };
        left -= pages;
        lus.push(LuConfig { pages, hpb: lu.hpb });
    }
    if left > 0 {
        lus.push(LuConfig { pages: left, hpb: false });
    }
    lus.retain(|lu| lu.pages > 0);
    lus
}

/// How much longer a die is occupied by a read with an entry.
pub fn entry_check(ssd: &SsdSection) -> Ns {
    hpb(ssd).map_or(Ns::ZERO, |hpb| hpb.entry_check)
}

/// Errors: the first key whose value makes no UFS device.
pub fn check(ssd: &SsdSection) -> Result<(), ExperimentError> {
    if let Some(booster) = &ssd.write_booster {
        if !(0.0..=1e7).contains(&booster.mib) {
            return wrong("ssd.write_booster.mib", booster.mib, "0 to 1e7");
        }
        if ssd.ftl.slc_percent > 0.0 {
            return wrong(
                "ssd.ftl.slc_percent",
                ssd.ftl.slc_percent,
                "0 where ssd.write_booster has the blocks with one bit a cell",
            );
        }
    }
    let Some(section) = &ssd.hpb else { return Ok(()) };
    if !["1.0", "2.0"].contains(&section.version.as_str()) {
        return wrong("ssd.hpb.version", &section.version, "1.0 or 2.0");
    }
    if !["device", "host", "off"].contains(&section.control.as_str()) {
        return wrong("ssd.hpb.control", &section.control, "device, host or off");
    }
    if ssd.front.protocol != "ufs" {
        return wrong("ssd.front.protocol", &ssd.front.protocol, "ufs: HPB is a part of it");
    }
    let page_kib = ssd.page_kib;
    for (key, kib) in [("ssd.hpb.region_kib", section.region_kib), ("ssd.hpb.subregion_kib", section.subregion_kib)] {
        let pages = f64::from(kib) / page_kib;
        if pages.fract() != 0.0 || !(1.0..=f64::from(1 << 20)).contains(&pages) || !(pages as u32).is_power_of_two() {
            return wrong(key, kib, &format!("a power of two of pages of {page_kib} KiB, 2^20 of them at most"));
        }
    }
    if section.subregion_kib > section.region_kib {
        return wrong("ssd.hpb.subregion_kib", section.subregion_kib, "region_kib at most");
    }
    if !(0.0..=1e6).contains(&section.entry_check_us) {
        return wrong("ssd.hpb.entry_check_us", section.entry_check_us, "0 to 1e6 µs");
    }
    if !(0.0..=1e6).contains(&section.reset_ms) {
        return wrong("ssd.hpb.reset_ms", section.reset_ms, "0 to 1e6 ms");
    }
    if section.lus.iter().any(|lu| !(0.0..=1e9).contains(&lu.mib)) {
        return wrong("ssd.hpb.lus", "a size out of range", "mib from 0 to 1e9");
    }
    let Some(config) = hpb(ssd) else { return Ok(()) };
    config.check().or_else(|error| {
        let key = match error.what {
            "pages of a sub-region" => "ssd.hpb.subregion_kib",
            "sub-regions of a region" | "regions" => "ssd.hpb.region_kib",
            "active regions" => "ssd.hpb.max_active_regions",
            "pinned regions" => "ssd.hpb.pinned_regions",
            "pages of a single command" => "ssd.hpb.single_command_kib",
            "reads until an advice" => "ssd.hpb.recommend_after",
            "logical units" | "logical units with HPB" => "ssd.hpb.lus",
            param => return wrong(&format!("ssd.hpb.params.{param}"), error.found, error.expected),
        };
        wrong(key, format!("{}: {}", error.what, error.found), error.expected)
    })
}

/// wSpecVersion by the rate of the link, in MB/s: two lanes of HS-G3 have 1,166, of HS-G4 2,332, of HS-G5 more. A host
/// of Linux looks for HPB from 3.1 on, so a device with HPB says 3.1 at least, as parts of UFS 2.1 with HPB could not.
fn spec_version(ssd: &SsdSection, has_hpb: bool) -> u16 {
    let by_link = match ssd.front.link_mb_s {
        0.0 => 0x0310,
        rate if rate <= 1200.0 => 0x0210,
        rate if rate <= 2400.0 => 0x0310,
        _ => 0x0400,
    };
    if has_hpb { by_link.max(0x0310) } else { by_link }
}

/// What a UFS device answers queries from; `hpb` is that of [`hpb`].
pub fn configuration<'a>(ssd: &SsdSection, hpb: Option<&'a HpbConfig>) -> Configuration<'a> {
    let shape = compose::shape(ssd);
    let bytes = |pages: u32| u64::from(pages) * u64::from(shape.page_bytes);
    let capacity_bytes = bytes(compose::logical_pages(ssd));
    let units = match hpb {
        Some(hpb) => hpb.lus.iter().map(|lu| Unit { bytes: bytes(lu.pages), hpb: lu.hpb }).collect(),
        None => vec![Unit { bytes: capacity_bytes, hpb: false }],
    };
    Configuration {
        spec_version: spec_version(ssd, hpb.is_some()),
        capacity_bytes,
        logical_block_bytes: LOGICAL_BLOCK_BYTES,
        page_bytes: shape.page_bytes,
        erase_block_bytes: bytes(shape.unit_pages()),
        queue_depth: ssd.front.depth,
        unmapped_are_zeroes: compose::front(ssd).trimmed_reads == TrimmedReads::Zeroes,
        units,
        hpb,
        write_booster: booster(ssd).map(|booster| WriteBooster { bytes: (booster.mib * f64::from(KIB * KIB)) as u64 }),
    }
}

/// WriteBooster of a drive, if it has any.
pub fn booster(ssd: &SsdSection) -> Option<&WriteBoosterSection> {
    ssd.write_booster.as_ref().filter(|booster| booster.mib > 0.0)
}

/// What a host of Linux shows of the device in sysfs: path and value, in the order of their groups. Descriptors,
/// attributes and flags are read by queries. Empty without HPB.
pub fn sysfs(ssd: &SsdSection, sides: Option<(&Driver, &Advisor)>) -> Vec<(String, String)> {
    let (Some(config), Some((host, device))) = (hpb(ssd), sides) else { return Vec::new() };
    let Some(read) = identify::ufs::told(ssd).read() else { return Vec::new() };
    let mut tree: Vec<(String, String)> = Vec::new();
    let mut put = |path: String, value: String| tree.push((path, value));
    let hex = |value: u64, digits: usize| format!("0x{value:0digits$x}");
    let geometry = &read.geometry;
    put("device_descriptor/hpb_version".into(), hex(read.device.hpb_version.into(), 4));
    put("device_descriptor/hpb_control".into(), hex(read.device.hpb_control.into(), 2));
    put("geometry_descriptor/hpb_region_size".into(), hex(geometry.hpb_region_exponent.into(), 2));
    put("geometry_descriptor/hpb_number_lu".into(), hex(geometry.hpb_max_lus.into(), 2));
    put("geometry_descriptor/hpb_subregion_size".into(), hex(geometry.hpb_subregion_exponent.into(), 2));
    put("geometry_descriptor/hpb_max_active_regions".into(), hex(geometry.hpb_max_active_regions.into(), 4));
    if let Some(value) = read.attribute(Attribute::HpbSingleCommandSize) {
        put("attributes/max_data_size_hpb_single_cmd".into(), hex(value.into(), 2));
    }
    if let Some(value) = read.flag(Flag::Hpb) {
        put("flags/hpb_enable".into(), value.to_string());
    }
    for unit in read.units.iter().filter(|unit| unit.enabled() == Some(LuEnable::EnabledWithHpb)) {
        let mut put =
            |name: &str, value: u16| put(format!("lun{}/unit_descriptor/{name}", unit.unit), hex(value.into(), 4));
        put("hpb_lu_max_active_regions", unit.hpb_max_active_regions);
        put("hpb_pinned_region_start_offset", unit.hpb_pinned_start);
        put("hpb_number_pinned_regions", unit.hpb_pinned_regions);
    }
    for (name, value) in host.stats().named() {
        put(format!("hpb_stats/{name}"), value.to_string());
    }
    let host_mode = config.control == Control::Host;
    // Device control mode has the last one only.
    for (name, value) in
        config.params.named().into_iter().filter(|(name, _)| host_mode || *name == "requeue_timeout_ms")
    {
        put(format!("hpb_params/{name}"), value.to_string());
    }
    let device = device.stats();
    put("nandlab/entries_right".into(), device.entries_right.to_string());
    put("nandlab/entries_stale".into(), device.entries_stale.to_string());
    put("nandlab/entries_damaged".into(), device.entries_damaged.to_string());
    put("nandlab/map_bytes_to_host".into(), device.map_bytes.to_string());
    put("nandlab/pre_requests".into(), host.stats().pre_requests.to_string());
    put("nandlab/active_regions".into(), host.active_regions().to_string());
    tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::SsdExperiment;

    const DRIVE: &str = "title = 't'\n[ssd]\nblocks = 64\n[ssd.front]\nprotocol = 'ufs'\ndepth = 32\n[ssd.hpb]\n[workload]\nrequests = 10\n";

    fn with(pairs: &[(&str, &str)]) -> Result<SsdSection, String> {
        let sets: Vec<_> = pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        SsdExperiment::resolve(DRIVE, &sets).map(|experiment| experiment.ssd).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_table_is_version_one_in_device_control_mode_over_the_whole_drive() {
        let config = hpb(&with(&[]).unwrap()).unwrap();
        assert_eq!((config.version, config.control), (Version::V1, Control::Device));
        assert_eq!((config.subregion_pages, config.region_subregions), (1024, 4));
        assert_eq!(config.params, Params::LINUX);
        assert_eq!(config.max_active_regions, config.regions(config.lus[0].pages), "all may be active");
    }

    #[test]
    fn a_value_that_no_device_has_names_its_key() {
        for (key, value) in [
            ("ssd.hpb.version", "3.0"),
            ("ssd.hpb.control", "both"),
            ("ssd.hpb.region_kib", "100"),
            ("ssd.hpb.subregion_kib", "32768"),
            ("ssd.hpb.single_command_kib", "2048"),
            ("ssd.hpb.recommend_after", "0"),
            ("ssd.hpb.reset_ms", "-1"),
            ("ssd.hpb.pinned_regions", "9999"),
            ("ssd.hpb.params.normalization_factor", "11"),
            ("ssd.hpb.params.inflight_map_req", "0"),
            ("ssd.front.protocol", "nvme"),
            ("ssd.write_booster.mib", "-1"),
        ] {
            let error = with(&[(key, value)]).unwrap_err();
            assert!(error.contains(&format!("key `{key}")), "{key}: {error}");
        }
    }

    #[test]
    fn units_take_what_is_left_of_the_drive() {
        let ssd = with(&[("ssd.hpb.lus", "[{ mib = 16, hpb = false }, { mib = 0, hpb = true }]")]).unwrap();
        let config = hpb(&ssd).unwrap();
        assert_eq!(config.lus[0], LuConfig { pages: 4096, hpb: false });
        assert_eq!(config.lus.iter().map(|lu| lu.pages).sum::<u32>(), compose::logical_pages(&ssd));
    }
}
