//! A run whose load is Linux in a guest.
//!
//! The guest's clock is the run's: it starts at 0 with the guest's boot, and a call of the guest carries the time. What
//! boot and setup do to the device is not measured.

mod block;
mod contents;
mod file_system;
mod flash;
mod load;
pub mod log;
mod script;
mod ubi;

use std::time::Duration;

use guest::{BlockShape, FlashShape, Kernel, Machine, MachineError, Setup, Wanted};
use sim::Ns;
use thiserror::Error;
use workload::trace::TraceRecord;

pub use block::contents;
pub(super) use block::{PROCESSES, PutByGuest, check_image, pages_of, put};
pub use block::{shape as block_shape, status as block_status};
pub use contents::{Backing, may_be_outside};
pub(crate) use file_system::check;
pub use file_system::{Tool, tools};
pub(super) use flash::run_flash;
pub use flash::{dump, operate, shape as flash_shape, status as flash_status};
pub(crate) use load::check as check_load;
pub use script::{BROKEN, after_a_cut, installed};
pub use script::{CLEAN, DAMAGED, script};

use crate::measure::outcome::guest::{GuestOutcome, Mark};
use crate::run::UbiLog;
use crate::schema::Experiment;
use crate::schema::guest::{FsKind, Guest, Linux};

/// Most bytes of output and console that a result keeps: the end.
const MOST_OUTPUT: usize = 256 << 10;
/// Most marks that a result keeps.
const MOST_MARKS: usize = 100_000;

/// Who talks to the job while it runs.
pub trait Terminal {
    /// Output of the job.
    fn output(&mut self, bytes: &[u8]);

    /// Input for what reads `/dev/nandlab` after the job's script: fills `buffer` and returns how much of it, 0 at the
    /// end. No virtual time passes.
    fn input(&mut self, _buffer: &mut [u8]) -> usize {
        0
    }
}

/// Nobody listens.
impl Terminal for () {
    fn output(&mut self, _bytes: &[u8]) {}
}

/// What a run with a guest needs of its caller.
pub struct Host<'a> {
    /// The guest's kernel.
    pub kernel: &'a Kernel,
    /// Who talks to its job.
    pub terminal: &'a mut dyn Terminal,
    /// The program that the experiment names in `guest.program`, an executable file.
    pub program: Option<&'a [u8]>,
    /// Contents of the device at the start: a disk image, or a dump of raw flash without OOB; `None`: empty.
    pub image: Option<&'a [u8]>,
    /// Gets the contents of the device at the end, piece by piece with their place in bytes; what it does not get is
    /// zero on a drive and 0xFF on raw flash.
    pub keep: Option<Keep<'a>>,
    /// Of a ubiblock: gets the raw flash at the end, without OOB; what it does not get is 0xFF.
    pub keep_flash: Option<Keep<'a>>,
    /// Keeps what the guest writes to a drive, outside the flash, if the experiment allows it ([`may_be_outside`]); `None`:
    /// the flash keeps it.
    pub backing: Option<&'a mut dyn Backing>,
    /// Gets the measured requests to a drive, in the order of their submission.
    pub requests: Option<&'a mut dyn FnMut(&TraceRecord)>,
    /// Gets all requests to a drive since the guest's boot, in the order of their submission, with times since then, and
    /// whether each is measured.
    pub log: Option<Recorder<'a>>,
    /// Gets the measured calls of Linux's UBI, and erasures of raw flash.
    pub ubi: Option<UbiLog<'a>>,
}

/// Gets a request, and whether it is measured.
pub type Recorder<'a> = &'a mut dyn FnMut(&TraceRecord, bool);

/// Gets contents with their place in bytes.
pub type Keep<'a> = &'a mut dyn FnMut(u64, &[u8]);

/// Why a run with a guest failed.
#[derive(Debug, Error)]
pub enum GuestError {
    /// Nobody gave it a kernel.
    #[error("a guest runs with `nandlab run`, `cuts` and `guest` only")]
    NoHost,
    /// The machine failed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The image is longer than the device.
    #[error("the image has {image} bytes, the device {device}")]
    Image {
        /// Length of the image.
        image: u64,
        /// Length of the device.
        device: u64,
    },
    /// An image would not be there after preconditioning.
    #[error("an image and `precondition.kind = \"steady\"`, whose warm-up writes over it")]
    SteadyImage,
    /// What the guest wrote is lost.
    #[error("the guest's contents: {0}")]
    Contents(String),
    /// Setup failed.
    #[error("the guest's setup failed; its output:\n{0}")]
    Setup(String),
    /// Calls of a load cannot be made, or a device did not start again.
    #[error("the load in the guest: {0}")]
    Load(String),
}

/// The end of what was printed.
fn text(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(MOST_OUTPUT);
    String::from_utf8_lossy(&bytes[from..]).replace('\r', "")
}

/// Exit code of the script where setup failed.
const SETUP_FAILED: i32 = 120;

/// The kernel that a guest wants.
pub fn wanted(guest: &Guest) -> Wanted {
    let version = match guest.linux {
        Linux::V6_12 => guest::Version::V6_12,
        Linux::V6_1 => guest::Version::V6_1,
    };
    let large = [FsKind::Xfs, FsKind::Btrfs, FsKind::F2fs, FsKind::Nilfs2];
    Wanted { version, small: !large.contains(&guest.fs.kind) }
}

/// What a machine needs to boot for an experiment, whose disk or flash is this.
pub fn setup(experiment: &Experiment, section: &Guest, block: Option<BlockShape>, flash: Option<FlashShape>) -> Setup {
    let ns = |us: f64| Ns((us * 1e3).round() as u64);
    Setup {
        memory_mib: section.memory_mib,
        seed: experiment.seed,
        starts_ns: section.starts_s * 1_000_000_000,
        syscall: ns(section.cpu.syscall_us),
        request: ns(section.cpu.request_us),
        block,
        flash,
        log_ubi: false,
        arguments: format!("ubi.fm_autoconvert=1 ubi.wl_threshold={}", section.wl_threshold),
        hung_after: Duration::from_secs(section.hung_s.into()),
    }
}

/// The job: its script, and what it has said so far.
pub struct Job<'a> {
    script: Vec<u8>,
    /// Bytes of the script that were read; `None` after its end.
    read: Option<usize>,
    terminal: &'a mut dyn Terminal,
    output: Vec<u8>,
    /// What it marked.
    pub marks: Vec<Mark>,
    /// When the measurement began.
    began: Option<Ns>,
    /// When it ended, if the run goes on after it.
    ended: Option<Ns>,
    /// Its exit code, and when it ended.
    pub exit: Option<(i32, Ns)>,
    /// Time at which the run ends at the latest, since the measurement began.
    until: Ns,
    now: Ns,
}

impl<'a> Job<'a> {
    /// The job of an experiment; `fresh`: on a device that has no file system yet.
    pub fn new(
        experiment: &Experiment,
        section: &Guest,
        program: Option<&[u8]>,
        fresh: bool,
        terminal: &'a mut dyn Terminal,
    ) -> Job<'a> {
        let until = experiment.stop.first_time().map_or(Ns(u64::MAX), |(seconds, _)| Ns((seconds * 1e9) as u64));
        Job { until, ..Job::of(installed(section, program) + &script(section, fresh), terminal) }
    }

    /// A job of this script.
    pub fn of(script: String, terminal: &'a mut dyn Terminal) -> Job<'a> {
        Job {
            script: script.into_bytes(),
            read: Some(0),
            terminal,
            output: Vec::new(),
            marks: Vec::new(),
            began: None,
            ended: None,
            exit: None,
            until: Ns(u64::MAX),
            now: Ns::ZERO,
        }
    }

    /// The guest starts again, with this script.
    pub fn again(&mut self, script: String) {
        (self.script, self.read, self.exit) = (script.into_bytes(), Some(0), None);
    }

    /// Whether the guest has read the script.
    fn is_read(&self) -> bool {
        self.read.is_none()
    }

    /// Output so far, at most its end.
    pub fn said(&self) -> String {
        text(&self.output)
    }

    /// The guest has said `bytes`.
    pub fn output(&mut self, now: Ns, bytes: &[u8]) {
        self.now = now;
        self.terminal.output(bytes);
        self.output.extend_from_slice(bytes);
        if self.output.len() > 2 * MOST_OUTPUT {
            self.output.drain(..self.output.len() - MOST_OUTPUT);
        }
    }

    /// Fills `buffer` with what the guest reads next; returns how much, 0 at the end.
    pub fn input(&mut self, now: Ns, buffer: &mut [u8]) -> usize {
        self.now = now;
        let Some(at) = self.read else { return self.terminal.input(buffer) };
        let length = buffer.len().min(self.script.len() - at);
        buffer[..length].copy_from_slice(&self.script[at..at + length]);
        self.read = (length > 0).then_some(at + length);
        length
    }

    /// The guest has marked this moment: the beginning of what is measured, its end, an exit code, or a mark of the job's own.
    pub fn mark(&mut self, now: Ns, text: &str) {
        self.now = now;
        if text == "begin" && self.began.is_none() {
            self.began = Some(now);
        } else if text == script::END && self.counts() {
            self.ended = Some(now);
        } else if let Some(code) = text.strip_prefix("exit ") {
            self.exit = Some((code.parse().unwrap_or(-1), self.ended.unwrap_or(now)));
        } else if self.marks.len() < MOST_MARKS {
            self.marks.push(Mark { at_ns: now.0, text: text.to_owned() });
        }
    }

    /// Time since the measured job began; `None` before, and after its end.
    pub fn since_began(&self, now: Ns) -> Option<Ns> {
        self.began.filter(|_| self.counts()).map(|began| Ns(now.0.saturating_sub(began.0)))
    }

    /// When the measurement ended, if the last request was done at `last`.
    fn ended(&self, last: Ns) -> Ns {
        self.ended.unwrap_or_else(|| self.exit.map_or(last, |(_, at)| at.max(last)))
    }

    /// Whether requests at this time are measured.
    pub fn counts(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    /// Whether the time of the run is over.
    fn is_over(&self, now: Ns) -> bool {
        self.counts() && self.began.is_some_and(|began| now.0 - began.0 >= self.until.0)
    }

    /// What the result says of the guest. Errors: setup failed.
    fn outcome(self, kernel: &Kernel, machine: &mut Machine) -> Result<GuestOutcome, GuestError> {
        let output = self.said();
        if self.began.is_none() && self.exit.is_some_and(|(code, _)| code == SETUP_FAILED) {
            return Err(GuestError::Setup(output));
        }
        Ok(GuestOutcome {
            linux: kernel.name(),
            began_ns: self.began.unwrap_or_default().0,
            ended_ns: self.exit.map(|(_, at)| at.0),
            exit: self.exit.map(|(code, _)| code),
            output,
            marks: self.marks,
            refused: None,
            console: text(&machine.console().unwrap_or_default()),
        })
    }
}
