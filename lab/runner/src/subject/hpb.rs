//! Host Performance Booster and WriteBooster of a UFS device.

use sim::Ns;
use ssd::Shape;
use ssd::device::hpb::{Control, HpbConfig, LuConfig, Params, Version};

use crate::schema::drive::{Hpb, HpbControl, HpbVersion, Protocol, Ssd};
use crate::schema::{ExperimentError, wrong};

const KIB: u32 = 1024;

/// HPB of a drive; `None` if it has none.
/// Errors: the first key whose value is impossible for a UFS device.
pub(super) fn config(ssd: &Ssd, shape: &Shape, pages: u32) -> Result<Option<HpbConfig>, ExperimentError> {
    if ssd.write_booster.is_some() && ssd.ftl.slc_percent > 0.0 {
        let expected = "0 where ssd.write_booster has the blocks with one bit per cell";
        return wrong("ssd.ftl.slc_percent", ssd.ftl.slc_percent, expected);
    }
    let Some(section) = &ssd.hpb else { return Ok(None) };
    if ssd.front.protocol != Protocol::Ufs {
        return wrong("ssd.front.protocol", crate::schema::word(&ssd.front.protocol), "`ufs`: HPB is a part of it");
    }
    let page_kib = ssd.page_kib;
    for (key, kib) in [("ssd.hpb.region_kib", section.region_kib), ("ssd.hpb.subregion_kib", section.subregion_kib)] {
        let pages = f64::from(kib) / page_kib;
        if pages.fract() != 0.0 || !(1.0..=f64::from(1 << 20)).contains(&pages) || !(pages as u32).is_power_of_two() {
            return wrong(key, kib, format!("a power of two of pages of {page_kib} KiB, 2^20 of them at most"));
        }
    }
    if section.subregion_kib > section.region_kib {
        return wrong("ssd.hpb.subregion_kib", section.subregion_kib, "region_kib at most");
    }
    if section.control == HpbControl::Off {
        return Ok(None);
    }
    let config = built(section, shape.page_bytes, pages);
    config.check().or_else(|error| {
        let key = match error.what {
            "pages of a sub-region" => "ssd.hpb.subregion_kib",
            "sub-regions of a region" | "regions" => "ssd.hpb.region_kib",
            "active regions" => "ssd.hpb.max_active_regions",
            "pinned regions" => "ssd.hpb.pinned_regions",
            "pages of a single command" => "ssd.hpb.single_command_kib",
            "reads until an advice" => "ssd.hpb.recommend_after",
            "logical units" | "logical units with HPB" => "ssd.hpb.lus",
            param => return wrong(format!("ssd.hpb.params.{param}"), error.found, error.expected),
        };
        wrong(key, format!("{}: {}", error.what, error.found), error.expected)
    })?;
    Ok(Some(config))
}

fn built(section: &Hpb, page_bytes: u32, pages: u32) -> HpbConfig {
    let pages_of = |kib: u32| (u64::from(kib) * u64::from(KIB) / u64::from(page_bytes)).min(u64::from(u32::MAX)) as u32;
    let version = match section.version {
        HpbVersion::V1 => Version::V1,
        HpbVersion::V2 => Version::V2,
    };
    let params = &section.params;
    let mut config = HpbConfig {
        version,
        control: if section.control == HpbControl::Host { Control::Host } else { Control::Device },
        subregion_pages: pages_of(section.subregion_kib),
        region_subregions: section.region_kib / section.subregion_kib.max(1),
        max_active_regions: section.max_active_regions,
        pinned: (section.pinned_first, section.pinned_regions),
        lus: lus(section, pages, page_bytes),
        single_command_pages: pages_of(section.single_command_kib).max(1),
        pre_requests: section.pre_requests && version == Version::V2,
        entry_check: Ns((section.entry_check_us * 1e3).round() as u64),
        reset: Ns((section.reset_ms * 1e6).round() as u64),
        recommend_after: section.recommend_after,
        params: Params {
            activation_thld: params.activation_thld,
            normalization_factor: params.normalization_factor,
            eviction_thld_enter: params.eviction_thld_enter,
            eviction_thld_exit: params.eviction_thld_exit,
            read_timeout_ms: params.read_timeout_ms,
            read_timeout_expiries: params.read_timeout_expiries,
            timeout_polling_interval_ms: params.timeout_polling_interval_ms,
            inflight_map_req: params.inflight_map_req,
            requeue_timeout_ms: params.requeue_timeout_ms,
        },
    };
    if section.max_active_regions == 0 && config.region_pages() > 0 {
        config.max_active_regions = config.lus.iter().map(|lu| config.regions(lu.pages)).sum();
    }
    config
}

fn lus(section: &Hpb, pages: u32, page_bytes: u32) -> Vec<LuConfig> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Experiment;
    use crate::subject::{Drive, Subject};

    const DRIVE: &str = "title = 't'\n[ssd]\nblocks = 64\n[ssd.front]\nprotocol = 'ufs'\ndepth = 32\n[ssd.hpb]\n";

    fn with(pairs: &[(&str, &str)]) -> Result<Drive, ExperimentError> {
        let sets: Vec<_> = pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        match Subject::build(&Experiment::resolve(DRIVE, &sets)?)? {
            Subject::Drive(drive) => Ok(*drive),
            _ => unreachable!("a table `ssd` is a drive"),
        }
    }

    #[test]
    fn an_empty_table_is_version_one_in_device_control_mode_over_the_whole_drive() {
        let config = with(&[]).unwrap().config.hpb.unwrap();
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
            let error = with(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(&format!("key `{key}")), "{key}: {error}");
        }
    }

    #[test]
    fn the_last_unit_has_what_is_left_of_the_drive() {
        let drive = with(&[("ssd.hpb.lus", "[{ mib = 16, hpb = false }, { mib = 0, hpb = true }]")]).unwrap();
        let config = drive.config.hpb.as_ref().unwrap();
        assert_eq!(config.lus[0], LuConfig { pages: 4096, hpb: false });
        assert_eq!(config.lus.iter().map(|lu| lu.pages).sum::<u32>(), drive.pages());
    }
}
