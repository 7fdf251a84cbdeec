//! A device that is switched on, starts, copies files, and loses power, again and again, with the times of its stages.
//!
//! Power fails at a flash operation that is drawn, once the files are copied, while they are copied once more.

use nand::{Array, CutAt, PowerCut, PrefixBytes, Store, Tear};
use sim::seam::{FileSystem, FsError};
use sim::{Cx, Ns, Rng, Seed};
use workload::file::reboots::{Options, Reboots, Stage};

use super::program::Step;
use crate::measure::outcome::file_system::{Reboot, RebootOutcome};

/// Reboots of which the times are kept one by one.
const MOST_KEPT: usize = 5_000;

/// What the end of a stage was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum Ended {
    /// Another stage follows.
    Stage,
    /// Power is switched off.
    SwitchedOff,
    /// All reboots are done.
    All,
}

/// The device.
pub(in crate::run) struct Device {
    load: Reboots,
    reboots: u32,
    /// Reboots so far.
    done: u32,
    began: Ns,
    /// Programs and erases of the flash when the files began to be copied.
    ops: u64,
    now: Reboot,
    kept: Vec<Reboot>,
    sum: Reboot,
    longest: Reboot,
    rng: Rng,
}

impl Device {
    /// The device before its files are written.
    /// Errors: a load that writes nothing.
    pub fn new(options: &Options, reboots: u32, seed: Seed) -> Result<Device, FsError> {
        Ok(Device {
            load: Reboots::new(options, seed)?,
            reboots,
            done: 0,
            began: Ns::ZERO,
            ops: 0,
            now: Reboot::default(),
            kept: Vec::new(),
            sum: Reboot::default(),
            longest: Reboot::default(),
            rng: seed.stream("runner/reboots"),
        })
    }

    /// Whether its files are written.
    pub fn is_prepared(&self) -> bool {
        self.load.stage() != Stage::Setup
    }

    /// Whether the stage has no operation left.
    pub fn is_stage_over(&self) -> bool {
        self.load.is_stage_over()
    }

    /// Looks up the file that the next operation opens, if it opens one.
    /// Errors: the file system's, but for a file that is not there yet.
    pub fn look_up<F: FileSystem>(&self, fs: &mut F, cx: &mut Cx) -> Result<(), FsError> {
        let Some(name) = self.load.opens() else { return Ok(()) };
        match fs.lookup(cx, fs.root(), name.as_bytes()) {
            Ok(_) | Err(FsError::NoEntry { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next operation; `None`: a stage has ended.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, ready: Ns) -> Option<Step> {
        self.load.step(fs, cx).map(|step| Step::of(step, ready))
    }

    /// The share of reboots that are done.
    pub fn share(&self) -> f64 {
        f64::from(self.done) / f64::from(self.reboots)
    }

    /// It was mounted in so long a time, until `now`.
    pub fn booted(&mut self, boot: Ns, now: Ns) {
        self.load.switch_on();
        self.now = Reboot { boot_ns: boot.0, ..Reboot::default() };
        self.began = now;
    }

    /// A stage has ended at `now`.
    pub fn stage_ended<S: Store>(&mut self, flash: &mut Array<S>, now: Ns) -> Ended {
        let span = now - self.began;
        self.began = now;
        match self.load.stage() {
            Stage::Copy => {
                self.now.init_ns = span.0;
                self.ops = flash.ops();
            }
            // Power never failed in a whole copy: it had fewer operations than the one before.
            Stage::On if self.now.copy_ns > 0 => return Ended::SwitchedOff,
            Stage::On => {
                self.now.copy_ns = span.0;
                self.note();
                if self.done == self.reboots {
                    return Ended::All;
                }
                let (seed, ops) = (self.rng.bits(), (flash.ops() - self.ops).max(1));
                let bytes =
                    PrefixBytes::Exactly(self.rng.below(u64::from(flash.config().geometry.page_bytes) + 1) as u32);
                let tear = [Tear::Clean, Tear::Prefix(bytes), Tear::RandomBits][self.rng.below(3) as usize];
                let at = CutAt::Op(flash.ops() + self.rng.below(ops));
                flash.set_power_cut(Some(PowerCut { at, seed: Seed(seed), ..PowerCut::at_op(0, tear) }));
            }
            Stage::Setup | Stage::Init => {}
        }
        Ended::Stage
    }

    fn note(&mut self) {
        self.done += 1;
        let Reboot { boot_ns, init_ns, copy_ns } = self.now;
        for (sum, ns) in
            [(&mut self.sum.boot_ns, boot_ns), (&mut self.sum.init_ns, init_ns), (&mut self.sum.copy_ns, copy_ns)]
        {
            *sum = sum.saturating_add(ns);
        }
        let longest = &mut self.longest;
        for (most, ns) in
            [(&mut longest.boot_ns, boot_ns), (&mut longest.init_ns, init_ns), (&mut longest.copy_ns, copy_ns)]
        {
            *most = (*most).max(ns);
        }
        if self.kept.len() < MOST_KEPT {
            self.kept.push(self.now);
        }
    }

    /// The times so far.
    pub fn outcome(&self) -> RebootOutcome {
        RebootOutcome { count: self.done.into(), sum: self.sum, longest: self.longest, each: self.kept.clone() }
    }
}
