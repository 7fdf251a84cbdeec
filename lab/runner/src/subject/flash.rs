//! Raw flash with UBI.

use fs::{jffs1, jffs2};
use nand::{Array, ArrayConfig, HostPrice, NandsimDelays, Tags, Timing};
use sim::seam::{Geometry, Medium};
use sim::{CpuPrice, Cx, Ns};
use ubi::{Policy, Ubi as Device};

use super::faults::{self, Endurance};
use super::jffs::{Jffs, JffsLoad};
use super::jffs1::Filled;
use super::{FileLoad, FileSystem, volumes};
use crate::parts::Library;
use crate::schema::flash::{Delays, Medium as MediumWord, Nand, Ubi, Wl};
use crate::schema::fs::FsKind;
use crate::schema::{Experiment, ExperimentError, wrong};

/// Raw flash with UBI and its load, ready to run.
#[derive(Clone, Debug)]
pub struct RawFlash {
    /// Configuration of the flash.
    pub array: ArrayConfig,
    /// Attach parameters of UBI.
    pub ubi: ubi::Config,
    /// Offsets in a PEB.
    pub layout: ubi::layout::Layout,
    /// Volumes that are written at a rate: the load, unless there are none.
    pub volumes: Vec<workload::volumes::Volume>,
    /// A file system with its load: the load, if there is one.
    pub file_system: Option<FileSystem>,
    /// JFFS or JFFS2 with its load: it has the flash to itself, and UBI and all that is on it are not there, unless JFFS2 is on
    /// a volume.
    pub bare: Option<Bare>,
    /// Linux in the guest: a load that nandlab generates, in place of a job.
    pub for_guest: Option<JffsLoad>,
    /// Time between the state in which the load begins and its begin.
    pub shelf: Ns,
}

/// Fewest PEBs of a flash with UBI.
const FEWEST_PEBS: u32 = 16;

/// A file system that is written for raw flash.
#[derive(Clone, Debug)]
pub enum Bare {
    /// JFFS version 1 on a flash that is filled.
    Filled(Box<Filled>),
    /// JFFS version 1 under another load.
    Jffs1(Box<Jffs<jffs1::Options>>),
    /// JFFS2.
    Jffs2(Box<Jffs<jffs2::Options>>),
}

impl RawFlash {
    pub(super) fn build(experiment: &Experiment, library: &Library) -> Result<RawFlash, ExperimentError> {
        let nand = experiment.nand.clone().unwrap_or_default();
        let ubi = experiment.ubi.clone().unwrap_or_default();
        if ubi.fastmap_reserve_pools && !ubi.fastmap {
            return wrong("ubi.fastmap_reserve_pools", true, "false where ubi.fastmap is false");
        }
        if experiment.jffs().is_none() && nand.pebs < FEWEST_PEBS {
            return wrong("nand.pebs", nand.pebs, format!("at least {FEWEST_PEBS} where UBI has the flash"));
        }
        let mut array = array(&nand, library)?;
        let mut shelf = Ns::ZERO;
        if let Some(section) = &experiment.faults {
            let endurance = Endurance { key: "nand.endurance", cycles: nand.endurance, wears_out: false };
            faults::add(section, &endurance, experiment.seed, &mut array)?;
            shelf = faults::shelf(section);
        }
        let ubi = ubi_config(&ubi);
        let layout = ubi::layout::Layout::new(&array.geometry, ubi.vid_hdr_offset).map_err(|error| {
            ExperimentError::value("nand", format!("{} of {}", error.what, error.found), error.expected)
        })?;
        let volumes = match experiment.volumes() {
            Some(load) => volumes::build(load, &array, &ubi)?,
            None => Vec::new(),
        };
        let bare = match &experiment.fs {
            Some(section) if section.kind == FsKind::Jffs1 && experiment.fill.is_some() => {
                Some(Bare::Filled(Box::new(Filled::build(experiment, section, &array)?)))
            }
            Some(section) if section.kind == FsKind::Jffs1 => {
                Some(Bare::Jffs1(Box::new(Jffs::<jffs1::Options>::build(experiment, section, &array)?)))
            }
            Some(section) if section.kind == FsKind::Jffs2 => Some(Bare::Jffs2(Box::new(
                Jffs::<jffs2::Options>::build(experiment, section, &array, (&ubi, &layout))?,
            ))),
            _ => None,
        };
        let for_guest = match &experiment.guest {
            Some(_) if experiment.logger.is_some() || experiment.reboots.is_some() => {
                Some(JffsLoad::build(experiment)?)
            }
            _ => None,
        };
        let file_system = match bare {
            Some(_) => None,
            None => FileSystem::build(experiment, &array, &ubi, &layout)?,
        };
        Ok(RawFlash { array, ubi, layout, volumes, file_system, bare, for_guest, shelf })
    }
}

impl RawFlash {
    /// Name of the program that is the load, or of what stands for one.
    pub fn program(&self) -> &'static str {
        match (&self.bare, &self.file_system) {
            (Some(Bare::Jffs2(fs)), _) => fs.load.name(),
            (Some(Bare::Jffs1(fs)), _) => fs.load.name(),
            (Some(Bare::Filled(_)), _) => "fill",
            (None, Some(fs)) => fs.load.name(),
            (None, None) => "volumes",
        }
    }

    /// Whether UBI is on the flash.
    pub fn has_ubi(&self) -> bool {
        match &self.bare {
            Some(Bare::Jffs2(fs)) => fs.lebs.is_some(),
            Some(Bare::Jffs1(_) | Bare::Filled(_)) => false,
            None => true,
        }
    }

    /// The program that is the load, if it is one.
    pub fn program_mut(&mut self) -> Option<&mut FileLoad> {
        match (&mut self.bare, &mut self.file_system) {
            (Some(Bare::Jffs2(fs)), _) => fs.load.program_mut(),
            (Some(Bare::Jffs1(fs)), _) => fs.load.program_mut(),
            (_, fs) => fs.as_mut().map(|fs| &mut fs.load),
        }
    }

    /// The same, if nobody needs to look at what files hold: nodes of JFFS2 without compression are as long whatever is in them.
    pub fn without_contents(&self) -> Option<RawFlash> {
        let Some(Bare::Jffs2(fs)) = &self.bare else { return None };
        let is_plain = fs.mount.compress == jffs2::Compress::None && matches!(fs.load, JffsLoad::Program(_));
        if !is_plain || self.array.faults.is_some() {
            return None;
        }
        let mut fs = fs.clone();
        fs.mount.has_contents = false;
        Some(RawFlash { bare: Some(Bare::Jffs2(fs)), ..self.clone() })
    }

    /// Whether its load ends by itself.
    pub fn may_end(&self) -> bool {
        match (&self.bare, &self.file_system) {
            (Some(Bare::Jffs2(fs)), _) => fs.load.has_end(),
            (Some(Bare::Jffs1(fs)), _) => fs.load.has_end(),
            (Some(Bare::Filled(_)), _) => true,
            (None, fs) => fs.as_ref().is_some_and(|fs| fs.repeat.is_none() && fs.load.has_end()),
        }
    }
}

/// UBI on a new flash without faults, which says how many LEBs are free.
/// Errors: a flash that UBI cannot use.
pub(super) fn attach_blank(array: &ArrayConfig, ubi: &ubi::Config) -> Result<Device<Array<Tags>>, ExperimentError> {
    let mut blank = Array::new(array.clone(), Tags);
    blank.suspend_faults(true);
    Device::attach(blank, &mut Cx::new(), ubi)
        .map_err(|failure| ExperimentError::value("nand", "a flash that UBI cannot use", failure.error.to_string()))
}

fn array(nand: &Nand, library: &Library) -> Result<ArrayConfig, ExperimentError> {
    let part = nand.part.as_ref().map(|name| library.nand(name)).transpose();
    let part = part.map_err(|error| ExperimentError::value("nand.part", error.found(), error.expected()))?;
    // OOB and ECC belong to the part's page size; another page size is another chip.
    let chip = part.map(|part| &part.config).filter(|chip| chip.geometry.page_bytes == nand.page_bytes);
    let geometry = Geometry {
        medium: match nand.medium {
            MediumWord::Nand => Medium::Nand,
            MediumWord::Nor => Medium::Nor,
        },
        pebs: nand.pebs,
        peb_bytes: nand.peb_bytes,
        page_bytes: nand.page_bytes,
        subpage_bytes: nand.subpage_bytes,
        oob_bytes: chip.map_or(nand.page_bytes / 32, |chip| chip.geometry.oob_bytes),
    };
    if geometry.medium == Medium::Nor && geometry.oob_bytes > 0 {
        let expected =
            "less than 32 on a NOR, which has no out-of-band bytes; 1 where each byte can be programmed alone";
        return wrong("nand.page_bytes", nand.page_bytes, expected);
    }
    let mut config = ArrayConfig::plain(geometry);
    let timing = match (part, nand.delays) {
        (_, Delays::Off) => Timing::NandsimOff,
        (_, Delays::On) => Timing::NandsimOn(NandsimDelays::DEFAULT),
        (None, Delays::Part) => return wrong("nand.delays", "part", "`off` or `on` where `nand.part` names no part"),
        (Some(part), Delays::Part) => part.config.timing,
    };
    if let Some(part) = part {
        config.rules = part.config.rules;
    }
    config.ecc = chip.and_then(|chip| chip.ecc);
    config.timing = timing;
    config.host = HostPrice {
        cpu: CpuPrice { copy_ps_per_byte: nand.copy_ps_per_byte, ..CpuPrice::FREE },
        erase: Ns(nand.erase_ns),
    };
    config.validate().map_err(|error| {
        let key = error.field.rsplit('.').next().unwrap_or(error.field);
        ExperimentError::value(format!("nand.{key}"), error.found, error.expected)
    })?;
    Ok(config)
}

fn ubi_config(ubi: &Ubi) -> ubi::Config {
    let mut policy = match ubi.wl {
        Wl::Linux61 => Policy::LINUX_6_1,
        Wl::Linux67 => Policy::LINUX_6_7,
    };
    let changes = &ubi.changes;
    for (value, change) in [
        (&mut policy.count_in_place_erases, changes.count_in_place_erases),
        (&mut policy.wait_for_free_pebs, changes.wait_for_free_pebs),
        (&mut policy.pools_use_beb_reserve, changes.pools_use_beb_reserve),
        (&mut policy.wl_beyond_limit, changes.wl_beyond_limit),
        (&mut policy.pass_over_unless_anchor, changes.pass_over_unless_anchor),
    ] {
        *value = change.unwrap_or(*value);
    }
    let mut config = ubi::Config::linux(policy);
    config.wl_threshold = ubi.wl_threshold;
    config.beb_per_1024 = ubi.beb_per_1024;
    config.fastmap = ubi.fastmap;
    config.fastmap_reserve_pools = ubi.fastmap_reserve_pools;
    config.vid_hdr_offset = ubi.vid_hdr_offset;
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;

    #[test]
    fn a_single_change_overrides_the_kernel_it_is_named_for() {
        let text = "title = 't'\n[nand]\npebs = 128\n[ubi]\nwl = 'linux-6.1'\nchanges.wait_for_free_pebs = true\n";
        let Subject::Flash(flash) = Subject::build(&Experiment::resolve(text, &[]).unwrap()).unwrap() else {
            panic!("a table `nand` is raw flash")
        };
        assert_eq!(flash.ubi.policy, Policy { wait_for_free_pebs: true, ..Policy::LINUX_6_1 });
    }
}
