//! A guest on raw flash: its MTD layer, and Linux's own UBI, UBIFS and JFFS2 above it.

use std::collections::BTreeMap;

use guest::protocol::{Status, UbiCall};
use guest::{Devices, End, FlashCall, FlashDone, FlashShape, Machine, Setup};
use hdrhistogram::Histogram;
use nand::{Array, Bytes, FaultCounts, Store};
use sim::seam::{Flash, FlashError, Geometry, Medium, Payload};
use sim::{CauseCounts, Cx, Flame, Ns, Peb, Seed};

use super::load::Load;
use super::script::{first_start, next_start};
use super::ubi::Watch;
use super::{GuestError, Host, Job, Keep, installed, setup};
use crate::flame::Graph;
use crate::measure::outcome::faults::FaultFigures;
use crate::measure::outcome::file_system::FileSystemOutcome;
use crate::measure::outcome::flash::{FlashOutcome, Groups, HEAD_PEBS, Latency, Point};
use crate::measure::outcome::guest::GuestOutcome;
use crate::measure::outcome::table::WearTable;
use crate::measure::{self, Detail, Measured, cdf};
use crate::run::flash::FlashRunError;
use crate::run::{Progress, Reports, UbiDoes, UbiEvent, UbiLog};
use crate::schema::{Experiment, word};
use crate::subject::RawFlash;

/// Operations whose latency is measured, in the order of the result.
const OPS: [&str; 3] = ["read", "program", "erase"];

/// Erasures between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

struct Port<'j, 'l, 'r> {
    array: Array<Bytes>,
    log: Option<UbiLog<'l>>,
    geometry: Geometry,
    job: Job<'j>,
    /// When the guest started: its clock begins anew each time.
    base: Ns,
    /// The load that nandlab generates, if it does.
    load: Option<Load>,
    latency: [Histogram<u64>; 3],
    refused: Option<String>,
    last: Ns,
    /// Counters when the measurement began.
    before: Option<(CauseCounts, FaultCounts)>,
    timeline: Vec<Point>,
    next_point: Ns,
    max_erases: u32,
    /// Erasures of the PEBs outside the first 64, and how many end the run (0: none do).
    others: (u64, u64),
    watch: Watch,
    /// Where the time of the flash goes, by process, if that is wanted.
    flames: Option<BTreeMap<Vec<u8>, Flame>>,
    reports: Reports<'r>,
}

impl Port<'_, '_, '_> {
    /// The latest time so far.
    fn latest(&self) -> Ns {
        self.last.max(self.job.now)
    }

    /// Whether the guest starts again on what its device is, with this script: the device was switched off.
    /// Errors: the guest ended by itself.
    fn starts_again(&mut self, script: impl FnOnce() -> String) -> Result<bool, GuestError> {
        let now = self.latest();
        let Some(load) = self.load.as_mut().filter(|load| load.reboots()) else { return Ok(false) };
        if load.is_over() {
            self.job.exit = Some((0, now));
            return Ok(false);
        }
        let is_first = self.job.began.is_none();
        let ended = match self.job.exit {
            Some((code, _)) => code == 0 && is_first,
            None => load.is_off() || !self.array.is_powered(),
        };
        if !ended {
            // The time of the run is over, or the flash is worn as much as is wanted.
            return if self.stopped() && self.job.exit.is_none() {
                Ok(false)
            } else {
                Err(GuestError::Load(self.job.said()))
            };
        }
        load.switch_on();
        if is_first {
            self.job.began = Some(now);
        }
        self.array.set_power_cut(None);
        self.array.power_on();
        self.base = now;
        self.job.again(script());
        Ok(true)
    }

    fn note(&mut self, now: Ns, process: &[u8], what: UbiDoes) {
        if let (Some(log), Some(at)) = (&mut self.log, self.job.since_began(now)) {
            log(&UbiEvent { at, process, what });
        }
    }

    fn report(&mut self, now: Ns, with_sample: bool) {
        let worn = if self.others.1 > 0 { self.others.0 as f64 / self.others.1 as f64 } else { 0.0 };
        let made = self.load.as_ref().map_or(0.0, Load::share);
        let done = worn.max(made);
        let work = self.array.erases_by_cause().total();
        let elapsed = self.job.since_began(now).unwrap_or_default();
        let so_far = with_sample.then(|| {
            let found = found(&self.array, &self.latency, self.timeline.clone(), self.programmed());
            measured(found, self.array.erase_counts(), elapsed, "")
        });
        self.reports.report(Progress { done, virtual_ns: elapsed.0, work, so_far: None }, so_far);
    }

    fn others_are_worn(&self) -> bool {
        self.others.1 > 0 && self.others.0 >= self.others.1
    }

    fn programmed(&self) -> u64 {
        let before = self.before.as_ref().map_or(0, |(bytes, _)| bytes.total());
        self.array.programmed_bytes().total() - before
    }

    /// A point of the timeline; their distance doubles when there are too many.
    fn point(&mut self, now: Ns) {
        const MOST: usize = 400;
        let began = self.job.began.unwrap_or_default();
        self.timeline.push(Point {
            t_ns: now.0.saturating_sub(began.0),
            erases: self.array.erases_by_cause().total(),
            free: 0,
            waf: 0.0,
            groups: Groups::of(self.array.erase_counts()),
        });
        if self.timeline.len() >= MOST {
            let mut at = 0;
            self.timeline.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
        let step = self.timeline.last().map_or(0, |last| last.t_ns) / (MOST as u64 / 2);
        self.next_point = now + Ns(step.max(1_000_000));
    }
}

/// Does an operation of the guest's MTD layer, at `address` in bytes without OOB. Returns the most bits that ECC corrected
/// in a step.
/// Errors: the array's.
pub fn operate(array: &mut Array<Bytes>, cx: &mut Cx, address: u64, call: FlashCall<'_>) -> Result<u32, FlashError> {
    let Geometry { pebs, peb_bytes, page_bytes, .. } = *array.geometry();
    let peb_bytes = u64::from(peb_bytes);
    let (peb, offset) = (Peb((address / peb_bytes) as u32), (address % peb_bytes) as u32);
    if peb.0 >= pebs {
        return Err(FlashError::OutOfBounds { peb, offset, len: 0 });
    }
    match call {
        FlashCall::Read { data, oob_at, oob } => {
            let mut bits = 0;
            let mut failed = None;
            if !data.is_empty() {
                match array.read(cx, peb, offset, data) {
                    Ok(status) => bits = status.bitflips_corrected,
                    Err(error @ FlashError::Uncorrectable { .. }) => failed = Some(error),
                    Err(error) => return Err(error),
                }
            }
            if !oob.is_empty() {
                let mut whole = vec![0xff; oob_at as usize + oob.len()];
                let page = offset / page_bytes;
                match data.is_empty() {
                    true => match Flash::read_oob(array, cx, peb, offset, &mut whole) {
                        // Drivers of raw NAND read OOB alone without ECC (Linux `nand_read_oob_std`).
                        Err(FlashError::Uncorrectable { .. }) => array.read_oob(peb, page, &mut whole)?,
                        other => other?,
                    },
                    false => array.read_oob(peb, page, &mut whole)?,
                }
                oob.copy_from_slice(&whole[oob_at as usize..]);
            }
            failed.map_or(Ok(bits), Err)
        }
        FlashCall::Program { data, oob_at, oob } => {
            let mut whole = vec![0xff; if oob.is_empty() { 0 } else { oob_at as usize }];
            whole.extend_from_slice(oob);
            if data.is_empty() {
                array.program_oob(cx, peb, offset / page_bytes, &whole)?;
            } else if whole.is_empty() {
                array.program(cx, peb, offset, Payload::Bytes(data))?;
            } else {
                array.program_with_oob(cx, peb, offset, Payload::Bytes(data), &whole)?;
            }
            Ok(0)
        }
        FlashCall::Erase => array.erase(cx, peb).map(|()| 0),
        FlashCall::MarkBad => array.mark_bad(cx, peb).map(|()| 0),
    }
}

/// What the guest learns of the result of an operation: status and corrected bits.
pub fn status(result: &Result<u32, FlashError>) -> (Status, u32) {
    match result {
        Ok(bits) => (Status::Ok, *bits),
        Err(FlashError::Uncorrectable { .. }) => (Status::Uncorrectable, 0),
        Err(FlashError::BadBlock { .. }) => (Status::BadBlock, 0),
        Err(_) => (Status::Error, 0),
    }
}

impl Devices for Port<'_, '_, '_> {
    fn ubi(&mut self, now: Ns, process: &[u8], call: UbiCall) {
        let now = self.base + now;
        self.watch.call(process, call.op);
        self.note(now, process, UbiDoes::Call(call));
    }

    fn flash(&mut self, now: Ns, process: &[u8], address: u64, call: FlashCall<'_>) -> FlashDone {
        let now = self.base + now;
        if self.job.counts() && self.before.is_none() {
            self.before = Some((*self.array.programmed_bytes(), self.array.fault_counts()));
            self.point(now);
        }
        let op = match call {
            FlashCall::Read { .. } => Some(0),
            FlashCall::Program { .. } => Some(1),
            FlashCall::Erase => Some(2),
            FlashCall::MarkBad => None,
        };
        let peb = Peb((address / u64::from(self.geometry.peb_bytes)) as u32);
        if op == Some(2) {
            self.note(now, process, UbiDoes::Erase(peb));
            self.others.0 += u64::from(peb.at() >= HEAD_PEBS);
            let work = self.array.erases_by_cause().total();
            if work.is_multiple_of(PROGRESS_EVERY) {
                self.report(now, false);
            }
        }
        if self.reports.is_wanted() && self.job.counts() {
            self.report(now, true);
        }
        if let FlashCall::Program { data, .. } = &call {
            self.watch.program(process, peb, data, self.job.counts());
        }
        let mut cx = Cx::new();
        cx.wait_until(now);
        if self.flames.is_some() && self.job.counts() {
            cx.record();
        }
        let result = operate(&mut self.array, &mut cx, address, call);
        let at = cx.now();
        cx.file(op.map_or("mark bad", |op| OPS[op]));
        if let (Some(flames), Some(flame)) = (&mut self.flames, cx.stop_recording()) {
            flames.entry(process.to_vec()).or_default().merge(flame);
        }
        self.last = self.last.max(at);
        if let (Some(op), true) = (op, self.job.counts()) {
            self.latency[op].saturating_record((at - now).0.max(1));
            if now >= self.next_point {
                self.point(now);
            }
        }
        if let Err(
            error @ (FlashError::NotErased { .. } | FlashError::OutOfOrder { .. } | FlashError::OutOfBounds { .. }),
        ) = &result
        {
            self.refused.get_or_insert_with(|| error.to_string());
        }
        let (status, corrected) = status(&result);
        FlashDone { at: at - self.base, status, corrected }
    }

    fn is_bad(&mut self, address: u64) -> bool {
        self.array.is_bad(Peb((address / u64::from(self.geometry.peb_bytes)) as u32))
    }

    fn output(&mut self, now: Ns, bytes: &[u8]) {
        self.job.output(self.base + now, bytes);
    }

    fn input(&mut self, now: Ns, buffer: &mut [u8]) -> usize {
        let now = self.base + now;
        match &mut self.load {
            Some(load) if self.job.is_read() => {
                self.job.now = now;
                load.input(now, &mut self.array, buffer)
            }
            _ => self.job.input(now, buffer),
        }
    }

    fn mark(&mut self, now: Ns, text: &str) {
        let now = self.base + now;
        if !self.load.as_mut().is_some_and(|load| load.mark(now, text)) {
            self.job.mark(now, text);
        }
    }

    fn stopped(&self) -> bool {
        let worn = || self.array.erase_counts().iter().any(|&ec| ec >= self.max_erases);
        self.job.exit.is_some()
            || self.load.as_ref().is_some_and(|load| load.reboots() && (load.is_off() || load.is_over()))
            || self.job.is_over(self.latest())
            || !self.array.is_powered()
            || (self.max_erases > 0 && worn())
            || self.others_are_worn()
    }
}

/// The flash as the guest sees it.
pub fn shape(flash: &RawFlash) -> FlashShape {
    let geometry = flash.array.geometry;
    let ecc = flash.array.ecc;
    FlashShape {
        geometry,
        ecc_bits: ecc.map_or(0, |ecc| ecc.bits),
        ecc_step_bytes: ecc.map_or(0, |ecc| ecc.step_bytes),
        bitflip_threshold: ecc.map_or(0, |ecc| ecc.scrub_at),
    }
}

/// Runs the guest of an experiment on raw flash.
/// Errors: [`FlashRunError`].
pub fn run_flash(
    experiment: &Experiment,
    flash: &RawFlash,
    host: &mut Host<'_>,
    reports: Reports<'_>,
) -> Result<(Measured, GuestOutcome), FlashRunError> {
    let section = experiment.guest.clone().unwrap_or_default();
    let geometry = flash.array.geometry;
    let array = match host.image {
        None => {
            let store = if geometry.medium == Medium::Nand { Bytes::with_oob() } else { Bytes::new() };
            Array::new(flash.array.clone(), store)
        }
        Some(image) => Array::load(flash.array.clone(), image, false)
            .map_err(|_| GuestError::Image { image: image.len() as u64, device: geometry.bytes() })?,
    };
    let shape = shape(flash);
    let setup = Setup { log_ubi: true, ..setup(experiment, &section, None, Some(shape)) };
    let load = flash.for_guest.as_ref().map(|load| Load::new(load, Seed(experiment.seed)));
    let load = load.transpose().map_err(GuestError::Load)?;
    let program = host.program;
    let mut job = Job::new(experiment, &section, program, host.image.is_none(), host.terminal);
    if load.as_ref().is_some_and(Load::reboots) {
        if host.image.is_some() {
            return Err(GuestError::Load("`reboots` begins with an erased flash, not with an image".to_owned()).into());
        }
        job.again(installed(&section, program) + &first_start(&section));
    }
    let mut machine = Machine::start(host.kernel, &setup).map_err(GuestError::Machine)?;
    let bounds = || Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid");
    let mut port = Port {
        array,
        log: host.ubi.take(),
        geometry,
        job,
        base: Ns::ZERO,
        load,
        latency: [bounds(), bounds(), bounds()],
        refused: None,
        last: Ns::ZERO,
        before: None,
        timeline: Vec::new(),
        next_point: Ns::ZERO,
        max_erases: experiment.stop.max_erases,
        others: {
            let others = (geometry.pebs as usize).saturating_sub(HEAD_PEBS) as f64;
            (0, (experiment.stop.mean_erases_of_others * others) as u64)
        },
        watch: Watch::default(),
        flames: reports.wants_flame().then(BTreeMap::new),
        reports,
    };
    let mut end = machine.serve(&mut port).map_err(GuestError::Machine)?;
    while port.starts_again(|| installed(&section, program) + &next_start(&section))? {
        let setup = Setup { starts_ns: setup.starts_ns + port.base.0, ..setup.clone() };
        machine = Machine::start(host.kernel, &setup).map_err(GuestError::Machine)?;
        end = machine.serve(&mut port).map_err(GuestError::Machine)?;
    }
    let began = port.job.began.unwrap_or_default();
    let ended = port.job.exit.map_or(port.last, |(_, at)| at).max(began);
    port.point(ended);
    if let Some(keep) = host.keep.as_mut() {
        dump(&port.array, keep);
    }
    let stopped_by = match (port.job.exit.is_some(), end) {
        (true, _) | (_, End::Halted) => "workload",
        _ if port.job.is_over(port.latest()) => "virtual_s",
        _ if port.others_are_worn() => "mean_erases_of_others",
        _ => "max_erases",
    };
    let programmed = port.programmed();
    let Port { array, job, load, latency, refused, before, timeline, watch, flames, .. } = port;
    let mut guest = job.outcome(host.kernel, &mut machine)?;
    guest.refused = refused;
    let mut found = found(&array, &latency, timeline, programmed);
    found.file_system = load.as_ref().map(|load| FileSystemOutcome {
        programmed_bytes: found.programmed_bytes.clone(),
        ..load.outcome(&word(&section.fs.kind))
    });
    let files = found.file_system.clone();
    let mut measured = measured(found, array.erase_counts(), ended - began, stopped_by);
    measured.flame = flames.map(|flames| Box::new(graph(flames)));
    if let Some((load, found)) = load.as_ref().zip(files) {
        measure::of_load_in_guest(&mut measured.metrics, &load.latency(), programmed, found.written_bytes);
    }
    if let Some(seen) = watch.into_seen() {
        seen.put(&mut measured.metrics);
    }
    measured.faults = experiment.faults.as_ref().map(|_| {
        let since = before.map_or_else(FaultCounts::default, |(_, faults)| faults);
        let counts = array.fault_counts().since(&since);
        FaultFigures::new(counts, 0, array.bad_pebs().count() as u64, counts.uncorrectable_pages)
    });
    measured.faults.iter().for_each(|faults| faults.put(&mut measured.metrics));
    Ok((measured, guest))
}

/// The graph of the flash's time, by the process of the guest that had the flash work.
fn graph(flames: BTreeMap<Vec<u8>, Flame>) -> Graph {
    let named: Vec<_> =
        flames.into_iter().map(|(name, flame)| (String::from_utf8_lossy(&name).into_owned(), flame)).collect();
    let threads: Vec<_> = named.iter().map(|(name, flame)| (name.as_str(), flame.clone())).collect();
    Graph::of_threads(&threads)
}

/// What a flash shows. `programmed` has the bytes programmed in the measured part.
fn found(array: &Array<Bytes>, latency: &[Histogram<u64>; 3], timeline: Vec<Point>, programmed: u64) -> FlashOutcome {
    let named =
        |counts: &CauseCounts| counts.nonzero().map(|(cause, count)| (cause.name().to_owned(), count)).collect();
    let of_ops = OPS.iter().zip(latency).filter(|(_, hist)| !hist.is_empty());
    FlashOutcome {
        jffs: None,
        steps: latency[1].len(),
        volume_lebs: 0,
        host_bytes: programmed,
        failure: None,
        volumes: None,
        file_system: None,
        table: WearTable::of(array.erase_counts()),
        groups: Groups::of(array.erase_counts()),
        fastmap: None,
        user_pool_sizes: Vec::new(),
        programmed_bytes: named(array.programmed_bytes()),
        erases_by_cause: named(array.erases_by_cause()),
        latency: of_ops.map(|(op, hist)| figures(op, hist)).collect(),
        timeline,
    }
}

fn measured(found: FlashOutcome, erase_counts: &[u32], elapsed: Ns, stopped_by: &str) -> Measured {
    Measured {
        stopped_by: stopped_by.to_owned(),
        virtual_ns: elapsed.0,
        metrics: measure::of_raw_flash(&found, erase_counts, elapsed.0),
        erase_counts: erase_counts.to_vec(),
        faults: None,
        guest: None,
        flame: None,
        detail: Detail::Flash(Box::new(found)),
    }
}

fn figures(op: &str, hist: &Histogram<u64>) -> Latency {
    let at = |quantile: f64| hist.value_at_quantile(quantile);
    Latency {
        op: op.to_owned(),
        count: hist.len(),
        min_ns: hist.min(),
        mean_ns: hist.mean(),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: hist.max(),
        cdf: cdf(hist),
    }
}

/// The contents of raw flash without OOB, piece by piece; pieces of 0xFF are left out.
pub fn dump<S: Store>(array: &Array<S>, keep: Keep<'_>) {
    array.dump(false, &mut Pieces { at: &mut 0, keep }).expect("the sink does not fail");
}

/// Passes a dump on, piece by piece.
struct Pieces<'a, 'b> {
    at: &'a mut u64,
    keep: &'a mut (dyn FnMut(u64, &[u8]) + 'b),
}

impl std::io::Write for Pieces<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.iter().any(|&byte| byte != 0xff) {
            (self.keep)(*self.at, bytes);
        }
        *self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
