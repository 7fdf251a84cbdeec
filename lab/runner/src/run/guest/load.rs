//! A load that nandlab generates and a program in the guest makes: the same calls as on a file system of nandlab's.
//!
//! The program asks for input when it has made the last calls. So the generator is never ahead of the file system, and the time from
//! one request to the next is that of an operation.
//!
//! Power is lost by a device that is switched off again and again. The guest is then started anew on the flash as it is.

use nand::{Array, Bytes};
use sim::{Cx, Ns, Seed};
use workload::file::calls::Calls;
use workload::file::logger::Logger;

use crate::measure::outcome::file_system::FileSystemOutcome;
use crate::measure::outcome::flash::Latency;
use crate::measure::outcome::gc::MountOutcome;
use crate::run::file_system::counted::Counted;
use crate::run::file_system::device::{Device, Ended};
use crate::run::file_system::program::Step;
use crate::schema::guest::Guest;
use crate::schema::{Experiment, ExperimentError, word, wrong};
use crate::subject::FileLoad;
use crate::subject::jffs::JffsLoad;

/// Mark before the mount of a device that is switched on.
pub(super) const MOUNTS: &str = "nandlab: mounts";
/// Mark after it.
pub(super) const MOUNTED: &str = "nandlab: mounted";

enum Kind {
    Logger(Box<Logger>),
    Reboots(Box<Device>),
}

/// What an input ends with, in place of calls.
enum NoCalls {
    /// What comes before the measurement is done.
    Prepared,
    /// Power is to be switched off.
    SwitchedOff,
    /// Everything is done.
    All,
}

/// A load under way.
pub(super) struct Load {
    kind: Kind,
    /// About how many operations it has, if it ends.
    operations: Option<u64>,
    calls: Calls,
    /// What the program has not read, from `at` on.
    text: Vec<u8>,
    at: usize,
    /// The operation that the program is at.
    under_way: Option<Step>,
    counted: Counted,
    is_prepared: bool,
    /// When the mount began.
    mounts: Ns,
    /// How long the mount after the load took.
    mounted_again: Option<Ns>,
    is_off: bool,
    is_over: bool,
}

impl Load {
    /// The load before its preparation.
    /// Errors: one that no generator makes.
    pub fn new(load: &JffsLoad, seed: Seed) -> Result<Load, String> {
        let kind = match load {
            JffsLoad::Program(FileLoad::Logger(options)) => {
                Logger::new(options, seed).map(|load| Kind::Logger(Box::new(load)))
            }
            JffsLoad::Reboots(options, reboots) => {
                Device::new(options, *reboots, seed).map(|device| Kind::Reboots(Box::new(device)))
            }
            JffsLoad::Program(other) => return Err(format!("no calls of {} are made in a guest", other.name())),
        };
        let operations = match load {
            JffsLoad::Program(load) => load.operations(),
            JffsLoad::Reboots(..) => None,
        };
        Ok(Load {
            operations,
            kind: kind.map_err(|error| error.to_string())?,
            calls: Calls::default(),
            text: Vec::new(),
            at: 0,
            under_way: None,
            counted: Counted::default(),
            is_prepared: false,
            mounts: Ns::ZERO,
            mounted_again: None,
            is_off: false,
            is_over: false,
        })
    }

    /// Whether it is a device that is switched off again and again.
    pub fn reboots(&self) -> bool {
        matches!(self.kind, Kind::Reboots(_))
    }

    /// Whether the device is to be switched off.
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Whether the load is done.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The guest starts anew.
    pub fn switch_on(&mut self) {
        self.calls.restart();
        (self.at, self.is_off, self.under_way) = (0, false, None);
        self.text.clear();
        self.is_prepared = true;
    }

    /// A mark of the guest's script. Returns whether it is meant for the load.
    pub fn mark(&mut self, now: Ns, text: &str) -> bool {
        match (text, &mut self.kind) {
            (MOUNTS, _) => self.mounts = now,
            (MOUNTED, Kind::Reboots(device)) => device.booted(now - self.mounts, now),
            (MOUNTED, Kind::Logger(_)) => self.mounted_again = Some(now - self.mounts),
            _ => return false,
        }
        true
    }

    /// Fills `buffer` with calls, and returns how much of it; 0 where a program ends. The calls before are done now.
    pub fn input(&mut self, now: Ns, array: &mut Array<Bytes>, buffer: &mut [u8]) -> usize {
        if self.at == self.text.len() {
            self.text.clear();
            self.at = 0;
            if let Some(step) = self.under_way.take() {
                // The calls of a generator succeed: a program whose call fails asks for no more.
                let _ = self.counted.add(step, now, false);
            }
            match self.next(now, array) {
                Ok(step) => self.under_way = step,
                Err(NoCalls::Prepared) => {
                    (self.is_prepared, self.counted) = (true, Counted::default());
                    return 0;
                }
                Err(NoCalls::SwitchedOff) => self.is_off = true,
                Err(NoCalls::All) => self.is_over = true,
            }
            self.calls.take(&mut self.text);
        }
        let length = buffer.len().min(self.text.len() - self.at);
        buffer[..length].copy_from_slice(&self.text[self.at..self.at + length]);
        self.at += length;
        length
    }

    /// Notes the next calls. Returns the operation that they are, if they are one.
    fn next(&mut self, now: Ns, array: &mut Array<Bytes>) -> Result<Option<Step>, NoCalls> {
        let mut cx = Cx::new();
        cx.wait_until(now);
        match &mut self.kind {
            Kind::Logger(load) => {
                if !self.is_prepared && load.is_prepared() {
                    return Err(NoCalls::Prepared);
                }
                if let Some(due) = load.due().filter(|&due| due > now) {
                    self.calls.sleep(due - now);
                    return Ok(None);
                }
                let step = load.step(&mut self.calls, &mut cx).ok_or(NoCalls::All)?;
                Ok(Some(Step::of(step, now)))
            }
            Kind::Reboots(device) => loop {
                if let Some(step) = device.step(&mut self.calls, &mut cx, now) {
                    return Ok(Some(step));
                }
                if !self.is_prepared {
                    return Err(NoCalls::Prepared);
                }
                match device.stage_ended(array, now) {
                    Ended::Stage => {}
                    Ended::SwitchedOff => return Err(NoCalls::SwitchedOff),
                    Ended::All => return Err(NoCalls::All),
                }
            },
        }
    }

    /// The share of it that is done.
    pub fn share(&self) -> f64 {
        match &self.kind {
            Kind::Reboots(device) => device.share(),
            Kind::Logger(_) => {
                self.operations.map_or(0.0, |all| (self.counted.operations as f64 / all as f64).min(1.0))
            }
        }
    }

    /// Latency of each kind of operation.
    pub fn latency(&self) -> Vec<Latency> {
        self.counted.latency()
    }

    /// What was done on a file system of this kind.
    pub fn outcome(&self, kind: &str) -> FileSystemOutcome {
        let (load, reboots) = match &self.kind {
            Kind::Logger(_) => ("logger", None),
            Kind::Reboots(device) => ("reboots", Some(device.outcome())),
        };
        let parts = |span: Ns| vec![("mount".to_owned(), span.0)];
        let again = self.mounted_again.map(|span| MountOutcome { name: "last".to_owned(), parts: parts(span) });
        FileSystemOutcome { reboots, mounts: again.into_iter().collect(), ..self.counted.outcome(kind, load) }
    }
}

/// Checks that a guest and a load of its experiment go together.
/// Errors: one without the other, or beside a job.
pub(crate) fn check(experiment: &Experiment, guest: &Guest, is_raw: bool) -> Result<(), ExperimentError> {
    use crate::schema::guest::{FsKind, Program};
    let (logger, reboots) = (experiment.logger.is_some(), experiment.reboots.is_some());
    let has_load = logger || reboots;
    if has_load != (guest.program == Program::Load) {
        let expected = match has_load {
            true => "`load`, which makes the calls of `logger` and `reboots`",
            false => "another program, or a table `logger` or `reboots` whose calls `load` makes",
        };
        return wrong("guest.program", word(&guest.program), expected);
    }
    if !has_load {
        return Ok(());
    }
    if !is_raw || guest.fs.kind == FsKind::None {
        return wrong(
            "guest.fs.kind",
            word(&guest.fs.kind),
            "`jffs2` or `ubifs` on raw flash: the load's files are there",
        );
    }
    for (key, text) in [("guest.setup", &guest.setup), ("guest.job", &guest.job)] {
        if !text.trim().is_empty() {
            return wrong(key, "commands", "none where `logger` or `reboots` is the load");
        }
    }
    if reboots && guest.fs.fsck {
        return wrong("guest.fs.fsck", true, "false with `reboots`, which never unmounts");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::run::Prepared;

    const NOR: &str = "title = 't'\n[nand]\npebs = 16\npeb_bytes = 65536\npage_bytes = 1\nmedium = 'nor'\n";

    #[test]
    fn a_load_in_a_guest_goes_with_its_program_and_with_no_job() {
        let refused = |text: &str| Prepared::resolve(&format!("{NOR}{text}"), &[]).unwrap_err().to_string();
        let fs = "fs = { kind = 'jffs2' }";
        for (text, key) in [
            (format!("[logger]\n[guest]\n{fs}"), "guest.program"),
            (format!("[guest]\nprogram = 'load'\n{fs}"), "guest.program"),
            ("[logger]\n[guest]\nprogram = 'load'".to_owned(), "guest.fs.kind"),
            (format!("[logger]\n[guest]\nprogram = 'load'\njob = 'ls'\n{fs}"), "guest.job"),
            (format!("[logger]\n[guest]\nprogram = 'load'\nsetup = 'ls'\n{fs}"), "guest.setup"),
            ("[reboots]\n[guest]\nprogram = 'load'\nfs = { kind = 'jffs2', fsck = true }".to_owned(), "guest.fs.fsck"),
            (format!("[logger]\n[reboots]\n[guest]\nprogram = 'load'\n{fs}"), "reboots"),
            (format!("[fsstress]\n[guest]\nprogram = 'load'\n{fs}"), "guest"),
            (format!("[logger]\nleast_bytes = 500\n[guest]\nprogram = 'load'\n{fs}"), "logger.least_bytes"),
        ] {
            let error = refused(&text);
            assert!(error.contains(key), "{text}: {error}");
        }
        for load in ["[logger]", "[reboots]"] {
            let text = format!("{NOR}{load}\n[guest]\nprogram = 'load'\n{fs}");
            let prepared = Prepared::resolve(&text, &[]).unwrap();
            // What is stored with a result resolves to the same.
            let stored = prepared.experiment.to_toml();
            assert_eq!(Prepared::resolve(&stored, &[]).unwrap().experiment, prepared.experiment);
        }
    }
}
