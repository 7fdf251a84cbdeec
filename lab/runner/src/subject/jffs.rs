//! JFFS and JFFS2 under a load: what is the same of both.

use sim::Ns;
use workload::file::reboots;

use super::FileLoad;
use super::file_system::refuse_keys;
use crate::schema::fs::Fs;
use crate::schema::jffs::Reboots;
use crate::schema::{Experiment, ExperimentError, wrong};

/// The file system and its load, ready to be run. `O`: the options of its mount.
#[derive(Clone, Debug)]
pub struct Jffs<O> {
    /// LEBs of the volume of UBI that it is on; `None`: it is on the flash itself.
    pub lebs: Option<u32>,
    /// How it is mounted.
    pub mount: O,
    /// How long its thread sleeps between two passes.
    pub pass_interval: Ns,
    /// Whether a program gets its turn between two passes.
    pub yields: bool,
    /// After how long without an operation the thread collects as long as there is garbage.
    pub idle_gc: Option<Ns>,
    /// Whether pages of files are kept in memory.
    pub has_page_cache: bool,
    /// How long the write buffer may wait.
    pub writeback: Ns,
    /// Time of the processor for each operation.
    pub operation: Ns,
    /// Whether it is unmounted at the end.
    pub unmount: bool,
    /// Whether it is mounted again after that.
    pub mount_again: bool,
    /// The load.
    pub load: JffsLoad,
}

/// The load.
#[derive(Clone, Debug)]
pub enum JffsLoad {
    /// A program.
    Program(FileLoad),
    /// A device that is switched on so many times.
    Reboots(reboots::Options, u32),
}

impl JffsLoad {
    /// The load of an experiment.
    /// Errors: the first key whose value is impossible.
    pub(super) fn build(experiment: &Experiment) -> Result<JffsLoad, ExperimentError> {
        Ok(match &experiment.reboots {
            Some(section) => JffsLoad::Reboots(of_reboots(section), section.reboots),
            None => JffsLoad::Program(FileLoad::build(experiment)?),
        })
    }

    /// Name of the program, or of what stands for one.
    pub fn name(&self) -> &'static str {
        match self {
            JffsLoad::Program(load) => load.name(),
            JffsLoad::Reboots(..) => "reboots",
        }
    }

    /// The program, if it is one.
    pub fn program_mut(&mut self) -> Option<&mut FileLoad> {
        match self {
            JffsLoad::Program(load) => Some(load),
            JffsLoad::Reboots(..) => None,
        }
    }

    /// Whether it ends by itself.
    pub fn has_end(&self) -> bool {
        match self {
            JffsLoad::Program(load) => load.has_end(),
            JffsLoad::Reboots(..) => true,
        }
    }
}

/// Keys of `[fs]` that one of the two has no use for. Errors: the first that is given.
pub(super) fn refuse_others(section: &Fs) -> Result<(), ExperimentError> {
    let default = Fs::default();
    let others = [
        ("fs.made_by", section.made_by != default.made_by),
        ("fs.compression", section.compression != default.compression),
        ("fs.fanout", section.fanout != default.fanout),
        ("fs.journal_bytes", section.journal_bytes.is_some()),
        ("fs.reserved_bytes", section.reserved_bytes.is_some()),
        ("fs.orphan_lebs", section.orphan_lebs.is_some()),
        ("fs.max_write_bytes", section.max_write_bytes.is_some()),
        ("fs.expire_s", section.expire_s != default.expire_s),
        ("fs.repeat", section.repeat.is_some()),
    ];
    refuse_keys(section, &others)?;
    if !section.keep_bytes {
        return wrong("fs.keep_bytes", false, "`true`: JFFS and JFFS2 find their files by the bytes of their nodes");
    }
    Ok(())
}

fn of_reboots(section: &Reboots) -> reboots::Options {
    reboots::Options {
        system: (section.system_files, section.system_bytes),
        read: section.read_files.min(section.system_files),
        state: (section.state_files, section.state_bytes),
        copied: (section.copied_files, section.copied_bytes),
        write_bytes: section.write_bytes,
        compressible_percent: section.compressible_percent,
    }
}
