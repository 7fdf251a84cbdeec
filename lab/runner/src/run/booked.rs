//! A device whose requests are counted: what a guest and clients in real time have in common.

use std::collections::VecDeque;

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload};
use workload::drive::{Ended, JobTotals, Observer, Report, Span};

/// A request that is outstanding, or was the last of its tag.
#[derive(Clone, Copy, Debug)]
struct Asked {
    request: BlockRequest,
    at: Ns,
    process: usize,
}

/// A completion that is booked.
pub(crate) struct Done {
    /// What the device says.
    pub done: BlockDone,
    /// When its request was submitted.
    pub submitted: Ns,
    /// Whether it counts.
    pub counts: bool,
}

/// A device and the counters of its requests.
pub(crate) struct Booked<'a, D, O: Observer> {
    device: &'a mut D,
    observer: &'a mut O,
    /// By tag.
    asked: Vec<Asked>,
    totals: JobTotals,
    issued: u64,
    most: u64,
    last_done: Ns,
    zeroes: Vec<u8>,
    stop: Option<O::Stop>,
    limited: bool,
    /// First error with which the device refused to go on.
    worn_out: Option<(Ns, BlockRequest, BlockError)>,
    powerless: bool,
    /// Completions that were met on the way to a submission, in order. They are booked.
    met: VecDeque<Done>,
}

impl<'a, D: BlockDevice, O: Observer> Booked<'a, D, O> {
    /// Books requests with tags below `depth`; the run is over after `most` that count.
    pub(crate) fn new(device: &'a mut D, observer: &'a mut O, depth: u32, most: u64) -> Booked<'a, D, O> {
        let none = Asked { request: BlockRequest::flush(), at: Ns::ZERO, process: 0 };
        Booked {
            device,
            observer,
            asked: vec![none; depth as usize],
            totals: JobTotals::default(),
            issued: 0,
            most,
            last_done: Ns::ZERO,
            zeroes: Vec::new(),
            stop: None,
            limited: false,
            worn_out: None,
            powerless: false,
            met: VecDeque::new(),
        }
    }

    /// Submits a request of a process. `data` is that of a write, `None` for zeroes.
    /// Errors: the device refuses it.
    pub(crate) fn submit(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        data: Option<&[u8]>,
        (process, counts): (usize, bool),
    ) -> Result<(), BlockError> {
        // What the device does of itself up to then: nobody asked while no request was outstanding.
        // Each is booked before the device does more: the observer asks it for the latest.
        while let Some(done) = self.device.next_done(at) {
            let done = self.book(done, counts);
            self.met.push_back(done);
        }
        let payload = match (request.op, data) {
            (BlockOp::Write, Some(data)) => Payload::Bytes(data),
            (BlockOp::Write, None) => {
                self.zeroes.resize(request.bytes() as usize, 0);
                Payload::Bytes(&self.zeroes)
            }
            _ => Payload::Length(0),
        };
        let result = self.device.submit(at, tag, request, payload);
        if counts {
            self.issued += 1;
            self.limited |= self.issued >= self.most;
        }
        self.asked[tag as usize] = Asked { request, at, process };
        result.inspect_err(|error| self.failed(at, request, error))
    }

    /// The next completion up to `until`.
    pub(crate) fn next_done(&mut self, until: Ns, counts: bool) -> Option<Done> {
        match self.met.pop_front() {
            Some(met) => Some(met),
            None => self.device.next_done(until).map(|done| self.book(done, counts)),
        }
    }

    fn book(&mut self, done: BlockDone, counts: bool) -> Done {
        let Asked { request, at: submitted, process } = self.asked[done.tag as usize];
        self.last_done = done.at;
        if let Err(error) = &done.result {
            self.observer.on_error(process, &request, error);
            self.failed(done.at, request, error);
        }
        let span = Span { issued: submitted, submitted, done: done.at };
        self.totals.book(&request, span, counts, done.result.is_err());
        self.observer.on_done(process, &request, span, counts);
        if self.stop.is_none() {
            self.stop = self.observer.stop();
        }
        Done { done, submitted, counts }
    }

    fn failed(&mut self, at: Ns, request: BlockRequest, error: &BlockError) {
        match error {
            BlockError::PowerLost => self.powerless = true,
            BlockError::WornOut { .. } => drop(self.worn_out.get_or_insert((at, request, error.clone()))),
            _ => {}
        }
    }

    /// Copies the data of a completed read.
    pub(crate) fn take(&mut self, tag: u32, data: &mut [u8]) {
        self.device.take(tag, data);
    }

    /// Time of the last completion.
    pub(crate) fn last_done(&self) -> Ns {
        self.last_done
    }

    /// Whether the run should end: the observer or the limit stops it, or the device has no power.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_some() || self.limited || self.powerless
    }

    /// The totals, measured from `from` to `to`. `cut_short` if something other than the load ended it.
    pub(crate) fn report(self, from: Ns, to: Ns, cut_short: bool) -> Report<O::Stop> {
        let ended = match (self.stop, self.worn_out) {
            (Some(why), _) => Ended::Stopped { at: self.last_done, why },
            (None, Some((at, request, error))) => Ended::Device { at, job: 0, request, error },
            (None, None) if cut_short => Ended::Limit,
            (None, None) => Ended::Done,
        };
        let totals = JobTotals { from, to, ..self.totals };
        Report { jobs: vec![totals], from, to, issued: self.issued, max_waiting: 0, disordered: 0, ended }
    }

    /// Whether the limit of requests is reached.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use sim::seam::RamDisk;

    use super::*;

    /// A disk that shows which sector's request it completed last, as a metered drive shows the parts of its latency.
    struct Showing<'a>(RamDisk, Vec<u64>, &'a Cell<u64>);

    impl BlockDevice for Showing<'_> {
        const KEEPS_BYTES: bool = RamDisk::KEEPS_BYTES;

        fn sectors(&self) -> u64 {
            self.0.sectors()
        }

        fn queue_depth(&self) -> u32 {
            self.0.queue_depth()
        }

        fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
            self.1[tag as usize] = request.sector;
            self.0.submit(at, tag, request, data)
        }

        fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
            let done = self.0.next_done(until)?;
            self.2.set(self.1[done.tag as usize]);
            Some(done)
        }

        fn take(&mut self, tag: u32, buf: &mut [u8]) {
            self.0.take(tag, buf);
        }
    }

    struct Looking<'a>(&'a Cell<u64>, Vec<(u64, u64)>);

    impl Observer for Looking<'_> {
        type Stop = Infallible;

        fn on_done(&mut self, _job: usize, request: &BlockRequest, _span: Span, _counted: bool) {
            self.1.push((request.sector, self.0.get()));
        }
    }

    #[test]
    fn each_completion_is_observed_while_it_is_the_devices_last() {
        let last = Cell::new(u64::MAX);
        let mut disk = Showing(RamDisk::new(64, 4, 1, Ns(10)), vec![0; 4], &last);
        let mut looking = Looking(&last, Vec::new());
        let mut booked = Booked::new(&mut disk, &mut looking, 4, u64::MAX);
        // The first two are done at 10 and 20; the third is submitted later.
        for (at, tag) in [(0, 0), (0, 1), (25, 2)] {
            booked.submit(Ns(at), tag, BlockRequest::read(8 * u64::from(tag), 8), None, (0, true)).unwrap();
        }
        let done: Vec<_> = std::iter::from_fn(|| booked.next_done(Ns(100), true)).map(|it| it.done.at.0).collect();
        assert_eq!(done, [10, 20, 35]);
        assert_eq!(looking.1, [(0, 0), (8, 8), (16, 16)]);
    }

    /// What ended a run after one request, by whether something other than its load ended it.
    fn ended(cut_short: bool) -> Ended<Infallible> {
        let last = Cell::new(u64::MAX);
        let mut disk = Showing(RamDisk::new(64, 4, 1, Ns(10)), vec![0; 4], &last);
        let mut looking = Looking(&last, Vec::new());
        let mut booked = Booked::new(&mut disk, &mut looking, 4, u64::MAX);
        booked.submit(Ns(0), 0, BlockRequest::read(0, 8), None, (0, true)).unwrap();
        booked.next_done(Ns(100), true).unwrap();
        booked.report(Ns(0), Ns(10), cut_short).ended
    }

    #[test]
    fn a_run_that_was_cut_short_is_not_done() {
        assert!(matches!(ended(true), Ended::Limit) && matches!(ended(false), Ended::Done));
    }
}
