//! What is enumerated: the device, UBI on it, the workload, and how cells look after a cut. Read from TOML.

use nand::{ArrayConfig, Geometry, Medium, presets};
use ubi::{Config, KnownBad, Policy};

use super::workload::{Kind, Mix};
use crate::cuts::keys::{Keys, PlanError};
use crate::cuts::rules::Rules;

/// An enumeration, every choice explicit.
#[derive(Clone, Debug)]
pub struct UbiPlan {
    /// What a cut does.
    pub rules: Rules,
    /// The flash.
    pub array: ArrayConfig,
    /// UBI's parameters.
    pub ubi: Config,
    /// How many operations of the workload run.
    pub operations: u32,
    /// What the workload is made of.
    pub mix: Mix,
    /// Deliberate mistakes of UBI.
    pub known_bad: KnownBad,
}

const GOOD: KnownBad = KnownBad {
    erase_before_change: false,
    change_without_copy_flag: false,
    hand_out_before_fastmap: false,
    forget_erase_count: false,
    trust_old_mappings: false,
};

/// Mistakes by the names that `cuts.known_bad` takes.
pub const KNOWN_BAD: [(&str, KnownBad); 6] = [
    ("none", GOOD),
    ("erase-before-change", KnownBad { erase_before_change: true, ..GOOD }),
    ("change-without-copy-flag", KnownBad { change_without_copy_flag: true, ..GOOD }),
    ("hand-out-before-fastmap", KnownBad { hand_out_before_fastmap: true, ..GOOD }),
    ("forget-erase-count", KnownBad { forget_erase_count: true, ..GOOD }),
    ("trust-old-mappings", KnownBad { trust_old_mappings: true, ..GOOD }),
];

impl UbiPlan {
    /// Reads what is of UBI. The caller has read everything else, and finishes `cuts`.
    pub(in crate::cuts) fn resolve(top: &mut Keys, rules: Rules, cuts: &mut Keys) -> Result<UbiPlan, PlanError> {
        let array = device(top.table("device")?)?;
        let ubi = ubi_config(top.table("ubi")?)?;
        let mut workload = top.table("workload")?;
        let operations = workload.small("operations", 1, 1 << 24, 1000)?;
        let mut mix = Mix { volumes: workload.small("volumes", 1, 16, 4)?, weights: Mix::WEIGHTS };
        let mut weights = workload.table("mix")?;
        for kind in Kind::ALL {
            let weight = &mut mix.weights[kind as usize];
            *weight = weights.small(kind.name(), 0, 1_000_000, *weight)?;
        }
        if mix.weights.iter().all(|&weight| weight == 0) {
            return Err(PlanError::new(workload.path("mix"), "every weight 0", "one above 0"));
        }
        weights.finish()?;
        workload.finish()?;
        let known_bad = cuts.choice("known_bad", &KNOWN_BAD, GOOD)?;
        Ok(UbiPlan { rules, array, ubi, operations, mix, known_bad })
    }
}

fn device(mut keys: Keys) -> Result<ArrayConfig, PlanError> {
    let preset = match keys.text("preset")? {
        None => None,
        Some(name) => match presets::by_name(&name) {
            Ok(part) => Some(part.config()),
            Err(_) => {
                return Err(PlanError::new(
                    keys.path("preset"),
                    format!("{name:?}"),
                    "a part that `nand::presets` knows",
                ));
            }
        },
    };
    let nand =
        Geometry { medium: Medium::Nand, pebs: 96, peb_bytes: 8192, page_bytes: 512, subpage_bytes: 512, oob_bytes: 0 };
    let mut geometry = preset.as_ref().map_or(nand, |config| config.geometry);
    geometry.medium = keys.choice("medium", &[("nand", Medium::Nand), ("nor", Medium::Nor)], geometry.medium)?;
    if geometry.medium == Medium::Nor && preset.is_none() {
        (geometry.page_bytes, geometry.subpage_bytes) = (1, 1);
    }
    geometry.pebs = keys.small("pebs", 16, 1 << 16, geometry.pebs)?;
    geometry.peb_bytes = keys.small("peb_bytes", 1024, 1 << 24, geometry.peb_bytes)?;
    let page_bytes = keys.optional("page_bytes", 1, 1 << 16)?;
    geometry.page_bytes = page_bytes.unwrap_or(geometry.page_bytes);
    let unit = if page_bytes.is_some() { geometry.page_bytes } else { geometry.subpage_bytes };
    geometry.subpage_bytes = keys.small("subpage_bytes", 1, 1 << 16, unit)?;
    let mut config = ArrayConfig::plain(geometry);
    if let Some(preset) = preset {
        config.rules = preset.rules;
    }
    config.validate().map_err(|error| {
        let key = error.field.rsplit('.').next().unwrap_or(error.field);
        PlanError::new(keys.path(key), error.found, error.expected)
    })?;
    keys.finish()?;
    Ok(config)
}

fn ubi_config(mut keys: Keys) -> Result<Config, PlanError> {
    let policies = [("linux-6.1", Policy::LINUX_6_1), ("linux-6.7", Policy::LINUX_6_7)];
    let mut config = Config::linux(keys.choice("policy", &policies, Policy::LINUX_6_7)?);
    config.fastmap = keys.switch("fastmap", true)?;
    config.fastmap_reserve_pools = keys.switch("fastmap_reserve_pools", false)?;
    config.wl_threshold = keys.small("wl_threshold", 2, 65_536, 4)?;
    config.beb_per_1024 = keys.small("beb_per_1024", 0, 768, 20)?;
    config.vid_hdr_offset = keys.optional("vid_hdr_offset", 64, 1 << 16)?;
    keys.finish()?;
    Ok(config)
}
