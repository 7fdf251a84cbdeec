//! JFFS on raw flash: how it is mounted, and its load.

use fs::jffs1::{MountGc, Options};
use nand::ArrayConfig;
use sim::seam::{Medium, Timestamp};
use sim::{CpuPrice, Ns};

use super::jffs::{Jffs, JffsLoad, refuse_others};
use crate::report::grouped;
use crate::schema::fs::{Fs, Lebs, Whole};
use crate::schema::jffs::{self as words, Fill};
use crate::schema::limits::Stop;
use crate::schema::{Experiment, ExperimentError, wrong};

/// JFFS reads the flash in such pieces.
const PAGE_BYTES: u32 = 4096;

/// JFFS on a flash that is filled, ready to be run.
#[derive(Clone, Debug)]
pub struct Filled {
    /// How it is mounted.
    pub mount: Options,
    /// The load.
    pub fill: Fill,
}

impl Filled {
    /// Builds the JFFS of a section with the load `[fill]`.
    /// Errors: the first key whose value is impossible.
    pub(super) fn build(experiment: &Experiment, section: &Fs, array: &ArrayConfig) -> Result<Filled, ExperimentError> {
        let mount = options(experiment, section, array)?;
        let fill = experiment.fill.clone().unwrap_or_default();
        if fill.least_bytes > fill.most_bytes {
            return wrong("fill.least_bytes", fill.least_bytes, "at most fill.most_bytes");
        }
        if experiment.stop != Stop::default() {
            return wrong("stop", "a condition", "none: the load of JFFS ends when the flash is full");
        }
        Ok(Filled { mount, fill })
    }
}

impl Jffs<Options> {
    /// Builds the JFFS of a section with another load. Its thread goes on at once after each step, and lets programs in between.
    /// Errors: the first key whose value is impossible.
    pub(super) fn build(
        experiment: &Experiment,
        section: &Fs,
        array: &ArrayConfig,
    ) -> Result<Jffs<Options>, ExperimentError> {
        Ok(Jffs {
            lebs: None,
            mount: options(experiment, section, array)?,
            pass_interval: Ns::ZERO,
            yields: true,
            idle_gc: None,
            has_page_cache: false,
            writeback: Ns::ZERO,
            operation: Ns((section.operation_us * 1e3).round() as u64),
            unmount: section.unmount,
            mount_again: section.mount_again,
            load: JffsLoad::build(experiment)?,
        })
    }
}

/// How JFFS is mounted.
fn options(experiment: &Experiment, section: &Fs, array: &ArrayConfig) -> Result<Options, ExperimentError> {
    refuse_others(section)?;
    if section.page_cache.is_some() {
        return wrong(
            "fs.page_cache",
            "it",
            "no such table where fs.kind is `jffs1`: each write and read reaches the flash",
        );
    }
    if section.lebs != Lebs::Whole(Whole::All) {
        return wrong("fs.lebs", "it", "no such key where fs.kind is `jffs1`: it is on the flash itself");
    }
    let geometry = array.geometry;
    if geometry.medium != Medium::Nor {
        return wrong("nand.medium", "nand", "nor: JFFS programs single bytes, and some of them again");
    }
    if geometry.page_bytes != 1 {
        return wrong("nand.page_bytes", geometry.page_bytes, "1: JFFS programs single bytes");
    }
    if !geometry.peb_bytes.is_multiple_of(PAGE_BYTES) {
        return wrong("nand.peb_bytes", geometry.peb_bytes, "whole pages of 4096 bytes");
    }
    if geometry.bytes() > u32::MAX.into() {
        return wrong("nand.pebs", grouped(geometry.pebs.into()), "a flash below 4 GiB, which is all that JFFS counts");
    }
    let own = section.jffs1.clone().unwrap_or_default();
    if own.min_free_sectors >= geometry.pebs {
        return wrong("fs.jffs1.min_free_sectors", own.min_free_sectors, "fewer than nand.pebs");
    }
    if experiment.faults.is_some() {
        return wrong("faults", "it beside JFFS", "no such table: JFFS knows no faults but power cuts");
    }
    Ok(Options {
        epoch: Timestamp { seconds: section.starts_s, nanos: 0 },
        min_free_sectors: own.min_free_sectors,
        mount_gc: match own.mount_gc {
            words::MountGc::None => MountGc::None,
            words::MountGc::Full => MountGc::Full,
        },
        cpu: CpuPrice {
            copy_ps_per_byte: section.copy_ps_per_byte,
            crc_ps_per_byte: section.node_ps_per_byte,
            node_ps: section.node_ns * 1000,
            ..CpuPrice::FREE
        },
        ..Options::default()
    })
}
