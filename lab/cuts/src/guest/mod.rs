//! Power cuts under Linux: the guest runs its job once, with every call to its device recorded. At each cut the recording
//! is made again up to there on a clone of the device; then Linux boots on what is left.
//!
//! | promise | how it is checked |
//! |---|---|
//! | the file system mounts, and every file can be read | the guest, after the cut |
//! | what the job was promised is there | `guest.check`, with the marks that the job had made before the cut |
//! | the file system is whole | its own check program, after unmounting |
//! | the device's own promises: mapping, erase counts, no lost block | as for a drive without a guest |
//! | a cut while Linux recovers does no harm | `cuts.second_cut`: the boot is cut too, and Linux boots again |
//!
//! Cuts begin where the measured job does: making the file system and `guest.setup` are not cut.

mod device;
mod held;
#[cfg(test)]
mod twins;

use guest::protocol::{Request, Status};
use guest::{End, FlashCall, FlashDone, Kernel, Machine};
use nand::PowerCut;
use runner::run::guest::{BROKEN, Job, after_a_cut, installed, setup};
use runner::schema::guest::Guest;
use runner::schema::limits::KnownBad;
use runner::schema::{Experiment, ExperimentError, word, wrong};
use runner::subject::{self, RawFlash, Ubiblock};
use sim::Ns;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::page::PageFtl;

use super::check::{Broken, Check, at_the_end, second};
use super::engine::{Attempt, Cuts, Engine, Rig, described};
use super::rules::Rules;
use super::ssd::{SsdPlan, drive};
use super::tape::Tape;
use super::ubiblock::no_known_bad;
use device::{Block, Call, Device, OnVolume, Raw};

/// Calls in the description of a failure.
const HISTORY: usize = 8;
/// Most NAND operations of a boot before its cut.
const SECOND_CUT_WITHIN: u64 = 96;
/// Most recorded bytes.
const MOST_BYTES: usize = 1 << 30;
/// Most bytes of output in the description of a failure.
const MOST_OUTPUT: usize = 2000;

/// What the guest's device is.
#[derive(Clone, Debug)]
enum Under {
    Drive(Box<SsdPlan>),
    Ubiblock(Box<Ubiblock>),
    /// With `at_once`, the twin that answers a program at once.
    Flash {
        flash: Box<RawFlash>,
        at_once: bool,
    },
}

/// An enumeration under a guest.
#[derive(Clone, Debug)]
pub struct GuestPlan {
    rules: Rules,
    experiment: Experiment,
    section: Guest,
    under: Under,
    kernel: Option<Kernel>,
    program: Option<Vec<u8>>,
}

impl GuestPlan {
    /// Plans the cuts of a drive under a guest.
    pub(super) fn on_drive(experiment: Experiment, plan: SsdPlan) -> GuestPlan {
        GuestPlan::new(plan.rules.clone(), experiment, Under::Drive(Box::new(plan)))
    }

    /// Plans the cuts of a ubiblock under a guest.
    /// Errors: a known-bad: the forms of the device are the mistakes to be found.
    pub(super) fn on_ubiblock(
        experiment: Experiment,
        rules: Rules,
        subject: Ubiblock,
    ) -> Result<GuestPlan, ExperimentError> {
        experiment.cuts.iter().try_for_each(no_known_bad)?;
        Ok(GuestPlan::new(rules, experiment, Under::Ubiblock(Box::new(subject))))
    }

    /// Plans the cuts of raw flash under a guest.
    /// Errors: a known-bad that is none of raw flash; a load that nandlab generates.
    pub(super) fn on_flash(
        experiment: Experiment,
        rules: Rules,
        flash: RawFlash,
    ) -> Result<GuestPlan, ExperimentError> {
        if flash.for_guest.is_some() {
            let expected = "a program or commands of guest.job: the calls of `load` are no recording that can be cut";
            return wrong("guest.program", "load", expected);
        }
        let known_bad = experiment.cuts.as_ref().map_or(KnownBad::None, |cuts| cuts.known_bad);
        let at_once = match known_bad {
            KnownBad::None => false,
            KnownBad::ProgramAtOnce => true,
            _ => {
                let expected = "none or program-at-once: Linux's own UBI runs on the flash";
                return wrong("cuts.known_bad", word(&known_bad), expected);
            }
        };
        Ok(GuestPlan::new(rules, experiment, Under::Flash { flash: Box::new(flash), at_once }))
    }

    fn new(rules: Rules, experiment: Experiment, under: Under) -> GuestPlan {
        let section = experiment.guest.clone().unwrap_or_default();
        GuestPlan { rules, experiment, section, under, kernel: None, program: None }
    }

    /// The kernel that it boots.
    pub fn wanted(&self) -> guest::Wanted {
        runner::run::guest::wanted(&self.section)
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn contents(&self) -> (u64, u8) {
        match &self.under {
            Under::Drive(plan) => (plan.drive.bytes(), 0),
            Under::Ubiblock(subject) => (subject.bytes(), 0),
            Under::Flash { flash, .. } => (flash.array.geometry.bytes(), 0xff),
        }
    }

    /// The table `guest` of the experiment.
    pub fn section(&self) -> &Guest {
        &self.section
    }

    /// Sets the kernel, which the enumeration needs, and the program that the job calls, if it names one.
    pub fn boot(&mut self, kernel: Kernel, program: Option<Vec<u8>>) {
        self.kernel = Some(kernel);
        self.program = program;
    }
}

/// Runs the job once without a cut.
/// Errors: why it cannot run.
pub(super) fn prepare(plan: GuestPlan) -> Result<Box<dyn Cuts>, String> {
    fn on<M: drive::Layer>(plan: GuestPlan, under: SsdPlan) -> Result<Box<dyn Cuts>, String> {
        record(plan, Block::<M>::fresh(under)?)
    }
    match plan.under.clone() {
        Under::Flash { flash, at_once } => record(plan, Raw::fresh(*flash, at_once)),
        Under::Ubiblock(subject) => record(plan, OnVolume::fresh(*subject)?),
        Under::Drive(under) => match under.drive.layer {
            subject::Layer::Bast(_) => on::<Bast>(plan, *under),
            subject::Layer::Fast(_) => on::<Fast>(plan, *under),
            subject::Layer::Block(_) => on::<BlockFtl>(plan, *under),
            subject::Layer::Page(_) => on::<PageFtl>(plan, *under),
        },
    }
}

/// Calls of the guest, in order, and the bytes that they write.
#[derive(Default)]
struct Recording {
    calls: Vec<Call>,
    bytes: Vec<u8>,
    /// Number of calls when each mark was made.
    marks: Vec<usize>,
    /// Number of calls when the measured job began.
    began: Option<usize>,
}

impl Recording {
    fn keep(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }
}

/// A device that a guest is using.
struct Served<'j, D> {
    device: D,
    job: Job<'j>,
    recording: Option<Recording>,
}

impl<D: Device> guest::Devices for Served<'_, D> {
    fn submit(&mut self, request: &Request, data: &[u8]) -> Result<(), Status> {
        if let Some(recording) = &mut self.recording {
            let data = recording.keep(data);
            recording.calls.push(Call::Submit { request: *request, data });
        }
        self.device.submit(request, data)
    }

    fn next_done(&mut self, until: Ns) -> Option<(u32, Ns, Status)> {
        if let Some(recording) = &mut self.recording {
            recording.calls.push(Call::NextDone { until });
        }
        self.device.next_done(until)
    }

    fn take(&mut self, tag: u32, data: &mut [u8]) {
        self.device.take(tag, data);
    }

    fn flash(&mut self, now: Ns, _: &[u8], address: u64, call: FlashCall<'_>) -> FlashDone {
        if let Some(recording) = &mut self.recording {
            let call = match &call {
                FlashCall::Read { data, oob_at, oob } => {
                    Call::Read { now, address, bytes: data.len(), oob_at: *oob_at, oob: oob.len() }
                }
                FlashCall::Program { data, oob_at, oob } => {
                    let (data, oob) = (recording.keep(data), recording.keep(oob));
                    Call::Program { now, address, data, oob_at: *oob_at, oob }
                }
                FlashCall::Erase => Call::Erase { now, address },
                FlashCall::MarkBad => Call::MarkBad { now, address },
            };
            recording.calls.push(call);
        }
        self.device.flash(now, address, call)
    }

    fn is_bad(&mut self, address: u64) -> bool {
        self.device.is_bad(address)
    }

    fn output(&mut self, now: Ns, bytes: &[u8]) {
        self.job.output(now, bytes);
    }

    fn input(&mut self, now: Ns, buffer: &mut [u8]) -> usize {
        self.job.input(now, buffer)
    }

    fn mark(&mut self, now: Ns, text: &str) {
        let before = self.job.marks.len();
        self.job.mark(now, text);
        if let Some(recording) = &mut self.recording {
            if self.job.counts() && recording.began.is_none() {
                recording.began = Some(recording.calls.len());
            }
            if self.job.marks.len() > before {
                recording.marks.push(recording.calls.len());
            }
        }
    }

    fn stopped(&self) -> bool {
        let full = self.recording.as_ref().is_some_and(|recording| recording.bytes.len() > MOST_BYTES);
        self.job.exit.is_some() || !self.device.is_powered() || full
    }
}

/// The guest's job on a device of its own.
fn record<D: Device>(plan: GuestPlan, device: D) -> Result<Box<dyn Cuts>, String> {
    let mut stage = Stage { device: device.clone(), at: 0 };
    let mut silent = ();
    let job = Job::new(&plan.experiment, &plan.section, plan.program.as_deref(), true, &mut silent);
    let mut served = Served { device, job, recording: Some(Recording::default()) };
    let ended = boot(&plan, &mut served).map_err(|error| error.to_string())?;
    let Served { job, recording, .. } = served;
    let recording = recording.unwrap_or_default();
    let (said, exit) = (job.said(), job.exit.map(|(code, _)| code));
    if recording.bytes.len() > MOST_BYTES {
        return Err(format!("the job writes more than {} MiB; let it write less", MOST_BYTES >> 20));
    }
    if exit != Some(0) {
        let how = exit.map_or_else(|| format!("{ended:?}"), |code| format!("exit code {code}"));
        return Err(format!("without any cut, the job ended with {how}; its output:\n{}", end_of(&said)));
    }
    let marks = job.marks.iter().map(|mark| mark.text.clone()).zip(recording.marks.iter().copied()).collect();
    let began = recording.began.unwrap_or(0);
    for call in &recording.calls[..began] {
        stage.device.again(call, &recording.bytes);
    }
    stage.at = began;
    let (calls, bytes) = (recording.calls, recording.bytes);
    let rig = GuestRig { plan, calls, bytes, marks, began, device: std::marker::PhantomData };
    Ok(Box::new(Engine::prepare(rig, stage)))
}

/// Boots Linux on a device, until its job ends or power fails.
fn boot<D: Device>(plan: &GuestPlan, served: &mut Served<'_, D>) -> Result<End, guest::MachineError> {
    let Some(kernel) = &plan.kernel else {
        return Err(guest::MachineError::Protocol("an enumeration without a kernel".to_owned()));
    };
    let (block, flash) = served.device.shapes();
    Machine::start(kernel, &setup(&plan.experiment, &plan.section, block, flash))?.serve(served)
}

fn end_of(text: &str) -> &str {
    let from = text.len().saturating_sub(MOST_OUTPUT);
    let from = (from..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    text[from..].trim_end()
}

/// The device between two calls.
#[derive(Clone)]
struct Stage<D> {
    device: D,
    /// Number of the next call.
    at: usize,
}

struct GuestRig<D> {
    plan: GuestPlan,
    calls: Vec<Call>,
    bytes: Vec<u8>,
    /// Each mark of the job, and the number of calls before it.
    marks: Vec<(String, usize)>,
    /// Calls before the measured job.
    began: usize,
    device: std::marker::PhantomData<fn() -> D>,
}

impl<D: Device> Rig for GuestRig<D> {
    type Stage = Stage<D>;
    type Scene = ();
    // A stage keeps the contents of a whole device; making a call again costs little beside booting Linux.
    const CHUNK: usize = 2048;

    fn rules(&self) -> &Rules {
        &self.plan.rules
    }

    fn tape(stage: &Stage<D>) -> &Tape {
        stage.device.tape()
    }

    fn tape_mut(stage: &mut Stage<D>) -> &mut Tape {
        stage.device.tape_mut()
    }

    fn draw(&mut self, stage: &mut Stage<D>) -> bool {
        stage.at < self.calls.len()
    }

    fn advance(&self, mut stage: Stage<D>, _: usize) -> Result<Stage<D>, Broken> {
        stage.device.again(&self.calls[stage.at], &self.bytes);
        stage.at += 1;
        Ok(stage)
    }

    fn scene(&self, _: &mut Stage<D>, _: usize) {}

    fn cut(&self, stage: &Stage<D>, (): &(), cut: PowerCut, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
        let Stage { mut device, at } = stage.clone();
        device.tape_mut().array.set_power_cut(Some(cut));
        if attempt.story.is_written() {
            device.tape_mut().recording = Some(Vec::new());
        }
        match &self.calls[at] {
            Call::NextDone { until } => device.run(*until),
            call => {
                if let Call::Submit { request, .. } = call {
                    device.run(request.at);
                }
                if device.is_powered() {
                    device.again(call, &self.bytes);
                }
            }
        }
        if device.is_powered() {
            return Err(vec![Check::Power.broken("the cut did not trip: the run is not deterministic")]);
        }
        attempt.struck(device.tape_mut(), &cut);
        self.survive(device, at, attempt)
    }

    fn history(&self, step: usize) -> Vec<String> {
        let at = self.began + step;
        let mut lines: Vec<String> = self.calls[..=at].iter().rev().filter_map(Call::described).take(HISTORY).collect();
        lines.reverse();
        if let Some((mark, _)) = self.marks.iter().rfind(|(_, calls)| *calls <= at) {
            lines.insert(0, format!("the job's last mark: {mark}"));
        }
        lines
    }
}

/// What Linux says of what it found. Errors: it found something, or did not come to its end.
fn judged(job: &Job<'_>, ended: &impl std::fmt::Debug) -> Result<(), Broken> {
    let exit = job.exit.map(|(code, _)| code);
    if exit == Some(0) {
        return Ok(());
    }
    let what = job.marks.iter().find_map(|mark| mark.text.strip_prefix(BROKEN));
    let what = what.map_or_else(|| format!("the guest ended with {exit:?}, {ended:?}"), str::to_owned);
    Err(vec![Check::Guest.broken(format!("{what}: {}", end_of(&job.said())))])
}

impl<D: Device> GuestRig<D> {
    /// The marks that the job had made before a call.
    fn marks_by(&self, at: usize) -> impl Iterator<Item = &str> {
        self.marks.iter().filter(move |(_, calls)| *calls <= at).map(|(mark, _)| mark.as_str())
    }

    /// Restores power and boots Linux on what is left. The boot is cut too, if cuts may follow.
    fn survive(&self, device: D, at: usize, attempt: &mut Attempt<'_>) -> Result<(), Broken> {
        let rules = &self.plan.rules;
        let mut device = device.power_on(rules, attempt)?;
        if attempt.goes_on() {
            let cut = rules.second(&mut attempt.rng, SECOND_CUT_WITHIN);
            device.tape_mut().array.set_power_cut(Some(cut));
        }
        let marks = self.marks_by(at);
        let mut silent = ();
        let section = &self.plan.section;
        let program = installed(section, self.plan.program.as_deref());
        let job = Job::of(program + &after_a_cut(section, marks), &mut silent);
        let mut served = Served { device, job, recording: None };
        let ended = boot(&self.plan, &mut served).map_err(|error| vec![Check::Guest.broken(error.to_string())])?;
        let Served { mut device, job, .. } = served;
        if !device.is_powered() {
            let last = device.tape().last;
            attempt.story.tell(|| format!("second cut, while Linux boots: {}", described(last)));
            device.run(Ns(u64::MAX));
            return self.survive(device, at, attempt).map_err(second);
        }
        let said = job.said();
        attempt.story.tell(|| format!("Linux boots, mounts and checks:\n{}", said.trim_end()));
        judged(&job, &ended)?;
        device.tape_mut().array.set_power_cut(None);
        device.check().map_err(|broken| at_the_end("after the check", broken))
    }
}
