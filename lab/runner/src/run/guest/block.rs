//! A guest on a block device.

use std::collections::VecDeque;

use guest::protocol::{Request, Status, feature};
use guest::{BlockShape, Devices, End, Machine};
use sim::Ns;
use sim::seam::{BlockDevice, BlockError, BlockOp, BlockRequest, Payload, SECTOR_BYTES};
use workload::drive::{Observer, Report};
use workload::trace::TraceRecord;

use super::contents::Outside;
use super::{GuestError, Host, Job, Keep, setup};
use crate::measure::outcome::guest::GuestOutcome;
use crate::run::DriveRunError;
use crate::run::booked::{Booked, Done};
use crate::schema::Experiment;
use crate::schema::load::PreconditionKind;
use crate::subject::block::BlockFacts;

/// Most processes whose requests are counted apart; those beyond are counted together, as the last.
pub const PROCESSES: usize = 32;
/// Most bytes of a read or write.
const REQUEST_BYTES: u32 = 1 << 20;
/// Most requests outstanding at a time: memory for their data is set aside.
const MOST_DEPTH: u32 = 256;

/// The device as the guest sees it.
pub fn shape<D: BlockDevice>(facts: &BlockFacts, device: &D) -> BlockShape {
    let given = [(facts.trims, feature::TRIM), (facts.caches, feature::CACHE), (facts.fua, feature::FUA)];
    let features = given.into_iter().filter(|(has, _)| *has).fold(0, |all, (_, feature)| all | feature);
    BlockShape {
        sectors: device.sectors(),
        logical_bytes: 512,
        physical_bytes: facts.page_bytes.clamp(512, 4096),
        depth: device.queue_depth().min(MOST_DEPTH),
        request_bytes: REQUEST_BYTES,
        features,
    }
}

struct Port<'a, 'j, 'l, D, O: Observer> {
    booked: Booked<'a, D, O>,
    job: Job<'j>,
    /// Processes by name, in the order of their first request.
    processes: Vec<Vec<u8>>,
    /// Of the measured requests, and of all.
    logs: [Option<Log<'l>>; 2],
    /// What the guest wrote, if the flash does not keep it.
    outside: Option<Outside<'l>>,
}

/// Gets a request, and whether it is measured.
type Put<'l> = Box<dyn FnMut(&TraceRecord, bool) + 'l>;

/// Requests on their way into a trace: in the order of their submission, with latency.
struct Log<'l> {
    put: Put<'l>,
    /// Those that are not written, from request number `first` on, and whether each is measured once it is complete.
    waiting: VecDeque<(TraceRecord, Option<bool>)>,
    first: u64,
    /// Number of each tag's request, if it is recorded.
    numbers: Vec<Option<u64>>,
}

impl<'l> Log<'l> {
    fn new(put: Put<'l>, depth: u32) -> Log<'l> {
        Log { put, waiting: VecDeque::new(), first: 0, numbers: vec![None; depth as usize] }
    }

    fn submitted(&mut self, at: Ns, request: &Request) {
        let asked = request.request;
        let bytes = if asked.op == BlockOp::Flush { 0 } else { asked.bytes() };
        let offset = if asked.op == BlockOp::Flush { 0 } else { asked.sector * u64::from(SECTOR_BYTES) };
        let record =
            TraceRecord { fua: asked.fua, process: Some(request.pid), ..TraceRecord::new(at, asked.op, offset, bytes) };
        self.numbers[request.tag as usize] = Some(self.first + self.waiting.len() as u64);
        self.waiting.push_back((record, None));
    }

    fn done(&mut self, tag: u32, latency: Ns, counts: bool) {
        let Some(number) = self.numbers[tag as usize].take() else { return };
        let (record, done) = &mut self.waiting[(number - self.first) as usize];
        record.latency = Some(latency);
        *done = Some(counts);
        while let Some((record, Some(counts))) = self.waiting.front() {
            (self.put)(record, *counts);
            self.waiting.pop_front();
            self.first += 1;
        }
    }

    /// Writes those that never completed, without latency.
    fn finish(mut self) {
        self.waiting.iter().for_each(|(record, counts)| (self.put)(record, counts.unwrap_or_default()));
    }
}

impl<D: BlockDevice, O: Observer> Port<'_, '_, '_, D, O> {
    fn process(&mut self, request: &Request) -> usize {
        // Kernel threads change their names with their work: kworker/0:1H.
        let name = request.process().split(|&byte| byte == b'/').next().unwrap_or_default();
        let known = self.processes.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            if self.processes.len() < PROCESSES - 1 {
                self.processes.push(name.to_vec());
            } else if self.processes.len() < PROCESSES {
                self.processes.push(b"others".to_vec());
            }
            self.processes.len() - 1
        })
    }
}

/// What the guest learns of an error.
pub fn status(error: &BlockError) -> Status {
    match error {
        BlockError::Uncorrectable { .. } => Status::Uncorrectable,
        _ => Status::Error,
    }
}

impl<D: BlockDevice, O: Observer> Devices for Port<'_, '_, '_, D, O> {
    fn submit(&mut self, request: &Request, data: &[u8]) -> Result<(), Status> {
        let process = self.process(request);
        let counted_at = self.job.since_began(request.at);
        let [measured, all] = &mut self.logs;
        if let (Some(log), Some(at)) = (measured, counted_at) {
            log.submitted(at, request);
        }
        all.iter_mut().for_each(|log| log.submitted(request.at, request));
        let data = (!request.zeroes).then_some(data);
        let booked = (process, counted_at.is_some());
        let submitted = self.booked.submit(request.at, request.tag, request.request, data, booked);
        if let (Ok(()), Some(outside)) = (&submitted, &mut self.outside) {
            let BlockRequest { op, sector, sectors, .. } = request.request;
            outside.asked(request.tag, sector);
            match op {
                BlockOp::Write => outside.write(sector, sectors, data),
                BlockOp::Trim => outside.trim(sector, sectors),
                BlockOp::Read | BlockOp::Flush => {}
            }
        }
        submitted.map_err(|error| status(&error))
    }

    fn next_done(&mut self, until: Ns) -> Option<(u32, Ns, Status)> {
        let Done { done, submitted, counts } = self.booked.next_done(until, self.job.counts())?;
        if let (Err(error), Some(outside)) = (&done.result, &mut self.outside) {
            outside.lost(&error.to_string());
        }
        self.logs.iter_mut().flatten().for_each(|log| log.done(done.tag, done.at - submitted, counts));
        Some((done.tag, done.at, done.result.as_ref().map_or_else(status, |()| Status::Ok)))
    }

    fn take(&mut self, tag: u32, data: &mut [u8]) {
        match &mut self.outside {
            Some(outside) => outside.take(tag, data),
            None => self.booked.take(tag, data),
        }
    }

    fn output(&mut self, now: Ns, bytes: &[u8]) {
        self.job.output(now, bytes);
    }

    fn input(&mut self, now: Ns, buffer: &mut [u8]) -> usize {
        self.job.input(now, buffer)
    }

    fn mark(&mut self, now: Ns, text: &str) {
        self.job.mark(now, text);
    }

    fn stopped(&self) -> bool {
        let over = self.job.is_over(self.booked.last_done().max(self.job.now));
        let lost = self.outside.as_ref().is_some_and(|outside| outside.failed().is_some());
        self.job.exit.is_some() || self.booked.is_over() || over || lost
    }
}

/// What comes of a guest on a block device.
pub struct PutByGuest<S> {
    /// What its requests did.
    pub report: Report<S>,
    /// The guest.
    pub guest: GuestOutcome,
    /// Names of its processes, by number.
    pub processes: Vec<String>,
}

/// Runs the guest of an experiment on a block device.
/// Errors: [`GuestError`].
pub fn put<D: BlockDevice, O: Observer>(
    experiment: &Experiment,
    facts: &BlockFacts,
    host: &mut Host<'_>,
    device: &mut D,
    observer: &mut O,
) -> Result<PutByGuest<O::Stop>, GuestError> {
    let section = experiment.guest.clone().unwrap_or_default();
    let shape = shape(facts, device);
    let mut machine = Machine::start(host.kernel, &setup(experiment, &section, Some(shape), None))?;
    let most = if experiment.stop.requests > 0 { experiment.stop.requests } else { u64::MAX };
    let mut outside = match host.backing.take() {
        Some(backing) if !D::KEEPS_BYTES => Some(Outside::new(backing, facts.page_bytes, shape.depth)),
        _ => None,
    };
    if let (Some(outside), Some(image)) = (&mut outside, host.image) {
        outside.take_in(image);
    }
    let mut port = Port {
        booked: Booked::new(device, observer, shape.depth, most),
        job: Job::new(experiment, &section, host.program, host.image.is_none(), host.terminal),
        processes: Vec::new(),
        logs: [
            host.requests.take().map(|put| Log::new(Box::new(move |record, _| put(record)), shape.depth)),
            host.log.take().map(|put| Log::new(Box::new(put), shape.depth)),
        ],
        outside,
    };
    let end = machine.serve(&mut port)?;
    let Port { booked, job, processes, logs, mut outside } = port;
    if let (Some(outside), Some(keep)) = (&mut outside, host.keep.as_mut().filter(|_| !D::KEEPS_BYTES)) {
        outside.hand_out(facts.bytes / u64::from(SECTOR_BYTES), keep);
        host.keep = None;
    }
    if let Some(why) = outside.as_ref().and_then(Outside::failed) {
        return Err(GuestError::Contents(why.to_owned()));
    }
    logs.into_iter().flatten().for_each(Log::finish);
    let began = job.began.unwrap_or_default();
    let to = job.ended(booked.last_done());
    let cut_short = job.exit.is_none() && (booked.is_limited() || end == End::Stopped);
    let report = booked.report(began, to, cut_short);
    let processes = processes.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    Ok(PutByGuest { report, guest: job.outcome(host.kernel, &mut machine)?, processes })
}

/// Checks that the image of the device at the start fits it.
/// Errors: it is longer; preconditioning would write over it.
pub fn check_image(experiment: &Experiment, facts: &BlockFacts, image: &[u8]) -> Result<(), GuestError> {
    if image.len() as u64 > facts.bytes {
        return Err(GuestError::Image { image: image.len() as u64, device: facts.bytes });
    }
    match &experiment.precondition {
        Some(section) if section.kind == PreconditionKind::Steady => Err(GuestError::SteadyImage),
        _ => Ok(()),
    }
}

/// Logical pages of which an image has more than zeroes.
pub fn pages_of(image: &[u8], page_bytes: u32) -> impl Iterator<Item = u32> + '_ {
    let holds = |page: &[u8]| page.iter().any(|&byte| byte != 0);
    (0..).zip(image.chunks(page_bytes as usize)).filter(move |(_, page)| holds(page)).map(|(lpn, _)| lpn)
}

/// Reads all of an idle device from `at` on, as its host sees it.
/// Errors: what cannot be read.
pub fn contents<D: BlockDevice>(device: &mut D, mut at: Ns, keep: Keep<'_>) -> Result<(), DriveRunError> {
    const SECTORS: u64 = 2048;
    let mut buffer = Vec::new();
    for sector in (0..device.sectors()).step_by(SECTORS as usize) {
        let request = BlockRequest::read(sector, SECTORS.min(device.sectors() - sector) as u32);
        let failed = |error| DriveRunError::device(at, &request, error);
        device.submit(at, 0, request, Payload::Length(0)).map_err(failed)?;
        let done = device.next_done(Ns(u64::MAX)).ok_or(BlockError::PowerLost).map_err(failed)?;
        done.result.map_err(failed)?;
        at = done.at;
        buffer.resize(request.bytes() as usize, 0);
        device.take(0, &mut buffer);
        if buffer.iter().any(|&byte| byte != 0) {
            keep(sector * 512, &buffer);
        }
    }
    Ok(())
}
