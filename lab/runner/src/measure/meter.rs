//! Measures a running block device: latency of each request and its parts, and the run over time.
//!
//! [`MeteredDrive`] is between the driver and the device: it sees every request at the device's times. [`Meter`] gets
//! from the driver which requests count (those of a ramp do not) and how long they waited in the host.
//!
//! Invariant, asserted at every request: the parts of its latency sum to the whole.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload};
use workload::drive::{Observer, Span};
use workload::trace::pattern::PatternOptions;
use workload::trace::{Pattern, TraceRecord};

use super::books::Books;
use super::metered::{FlashSums, Metered, PARTS, Parts};
use crate::flame::Graph;
use crate::measure::outcome::drive::Point;
use crate::run::Progress;

/// Parts of a request's latency: the wait in the host, then those of the device.
pub const COMPONENTS: usize = 1 + PARTS;

/// Latencies of one operation and their parts.
#[derive(Clone, Debug)]
pub struct OpMeter {
    /// Nanoseconds from issue to completion, to three digits.
    pub latency: Histogram<u64>,
    /// Exact sum of the latencies, in nanoseconds.
    pub total_ns: u128,
    /// The sum by part of the latency, in nanoseconds.
    pub components_ns: [u128; COMPONENTS],
    /// Bytes transferred or discarded.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

impl OpMeter {
    fn new() -> OpMeter {
        OpMeter {
            latency: Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are valid"),
            total_ns: 0,
            components_ns: [0; COMPONENTS],
            bytes: 0,
            errors: 0,
        }
    }

    #[inline]
    fn book(&mut self, request: &BlockRequest, span: Span, parts: &[u64; PARTS], failed: bool) {
        let latency = span.latency().0;
        self.latency.saturating_record(latency.max(1));
        self.total_ns += u128::from(latency);
        self.bytes += request.bytes();
        self.errors += u64::from(failed);
        self.components_ns[0] += u128::from(span.host_wait().0);
        for (sum, &part) in self.components_ns[1..].iter_mut().zip(parts) {
            *sum += u128::from(part);
        }
    }
}

/// Meters of one flow, in the order of [`BlockOp::ALL`]; `None` for an operation that did not occur.
pub type FlowMeter = [Option<Box<OpMeter>>; 4];

/// Latencies of all requests that count, and of each flow.
#[derive(Clone, Debug)]
pub struct Meters {
    /// Meters in the order of [`BlockOp::ALL`].
    pub ops: [OpMeter; 4],
    /// Meters of each flow, if the load has several.
    pub flows: Vec<FlowMeter>,
}

/// Why a run ends before its load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The host has written as many capacities as `stop.drive_writes`.
    DriveWrites,
    /// A block was erased as often as `stop.max_erases`.
    MaxErases,
}

impl StopReason {
    /// Key of the condition in `[stop]`.
    pub const fn key(self) -> &'static str {
        match self {
            StopReason::DriveWrites => "drive_writes",
            StopReason::MaxErases => "max_erases",
        }
    }
}

/// What the metered device and the meter share: data of the last completion, and whether the ramp is over.
#[derive(Default)]
pub struct LastDone<P> {
    parts: Cell<P>,
    stop: Cell<Option<StopReason>>,
    /// Whether a request has counted yet.
    counts: Cell<bool>,
    /// Whether the metered device needs a copy of the meters.
    wanted: Cell<bool>,
    copy: RefCell<Option<Box<Meters>>>,
}

/// Latencies of the requests that count.
pub struct Meter<'a, P> {
    /// The latencies.
    pub meters: Meters,
    last: &'a LastDone<P>,
    failed: bool,
}

impl<'a, P: Parts> Meter<'a, P> {
    /// A meter that reads `last`, which the metered device writes, for a load of this number of flows; 0: it has only
    /// one.
    pub fn new(last: &'a LastDone<P>, flows: usize) -> Meter<'a, P> {
        let flows = std::iter::repeat_with(FlowMeter::default).take(flows).collect();
        Meter { meters: Meters { ops: std::array::from_fn(|_| OpMeter::new()), flows }, last, failed: false }
    }

    #[cold]
    fn copy(&self) {
        self.last.wanted.set(false);
        *self.last.copy.borrow_mut() = Some(Box::new(self.meters.clone()));
    }
}

impl<P: Parts> Observer for Meter<'_, P> {
    type Stop = StopReason;

    #[inline]
    fn on_done(&mut self, job: usize, request: &BlockRequest, span: Span, counted: bool) {
        let failed = std::mem::take(&mut self.failed);
        if !counted {
            return;
        }
        self.last.counts.set(true);
        let parts = self.last.parts.get().values();
        assert!(
            failed || parts.iter().sum::<u64>() == span.device().0,
            "the parts {parts:?} are not the {} ns of {request:?}",
            span.device().0
        );
        self.meters.ops[request.op as usize].book(request, span, &parts, failed);
        if let Some(flow) = self.meters.flows.get_mut(job) {
            let op = flow[request.op as usize].get_or_insert_with(|| Box::new(OpMeter::new()));
            op.book(request, span, &parts, failed);
        }
        if self.last.wanted.get() {
            self.copy();
        }
    }

    fn on_error(&mut self, _job: usize, _request: &BlockRequest, _error: &BlockError) {
        self.failed = true;
    }

    #[inline]
    fn stop(&mut self) -> Option<StopReason> {
        self.last.stop.get()
    }
}

/// Totals since a point in time.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requests: [u64; 4],
    bytes: [u64; 4],
    max_ns: u64,
}

/// The run over time in a bounded number of points: if there are too many, neighbours are merged and the window
/// doubles.
#[derive(Clone, Debug)]
pub struct Timeline {
    window: u64,
    /// End of the current window.
    next: u64,
    most: usize,
    points: Vec<Point>,
    open: Sums,
    before: FlashSums,
}

/// Length of the first window, in nanoseconds.
const FIRST_WINDOW: u64 = 1 << 16;

impl Timeline {
    fn new(most: u32, before: FlashSums) -> Timeline {
        Timeline {
            window: FIRST_WINDOW,
            next: FIRST_WINDOW,
            most: (most.max(2) as usize).next_multiple_of(2),
            points: Vec::new(),
            open: Sums::default(),
            before,
        }
    }

    #[inline]
    fn book(&mut self, op: BlockOp, bytes: u64, latency: u64) {
        self.open.requests[op as usize] += 1;
        self.open.bytes[op as usize] += bytes;
        self.open.max_ns = self.open.max_ns.max(latency);
    }

    /// Closes windows up to `now`.
    fn roll(&mut self, now: u64, flash: FlashSums) {
        while now >= self.next {
            let at = self.next;
            self.close(at, flash);
            if self.points.len() >= self.most {
                self.halve();
            }
            self.next = at + self.window;
        }
    }

    fn close(&mut self, at: u64, flash: FlashSums) {
        let Sums { requests, bytes, max_ns } = std::mem::take(&mut self.open);
        let before = std::mem::replace(&mut self.before, flash);
        self.points.push(Point {
            t_ns: at,
            requests,
            bytes,
            host_pages: flash.host_pages - before.host_pages,
            pages: flash.pages - before.pages,
            erases: flash.erases - before.erases,
            max_ns,
        });
    }

    fn halve(&mut self) {
        self.points =
            self.points.chunks(2).map(|pair| pair[1..].iter().fold(pair[0], |sum, next| sum.and(next))).collect();
        self.window *= 2;
    }

    /// The points; the last one ends at `now`.
    fn finish(mut self, now: u64, flash: FlashSums) -> Vec<Point> {
        self.roll(now, flash);
        if self.open.requests.iter().any(|&requests| requests > 0) || flash.pages > self.before.pages {
            self.close(now.max(1), flash);
        }
        self.points
    }
}

/// Limits that only the device's side can check.
#[derive(Clone, Copy, Debug)]
pub struct StopAt {
    /// Bytes written by the host; `u64::MAX` for no limit.
    pub written: u64,
    /// Erasures of the most worn block; 0 for no limit.
    pub max_erases: u32,
    /// Virtual time at which the run ends, for the progress; `u64::MAX` for no limit.
    pub until: u64,
    /// Requests at which the run ends, for the progress; `u64::MAX` for no limit.
    pub requests: u64,
}

/// Completions between two checks of limits that are slow to check.
const LOOK_EVERY: u64 = 1 << 12;
/// Checks between two reports of progress.
const WATCH_EVERY: u64 = 32;

/// Where a window of measurement begins: the device's counters, and the bytes that the host had written.
struct Opening {
    at: Ns,
    books: Books,
    written: u64,
    /// Pages moved by flow; empty if flows are not followed.
    moved: Vec<u64>,
}

/// A device with measurement of every request. Its time begins at 0 when the run begins, whatever the device did before.
pub struct MeteredDrive<'a, D: Metered> {
    device: D,
    last: &'a LastDone<D::Parts>,
    /// Operation and time of each tag's request.
    asked: Vec<(BlockOp, u64, u64)>,
    timeline: Timeline,
    pattern: Option<Pattern>,
    stop: StopAt,
    written: u64,
    done: u64,
    /// Time of the device at which the run begins.
    origin: Ns,
    start: Books,
    /// The window of measurement; `None` during the load's ramp.
    opening: Option<Opening>,
    watch: Watch<'a>,
}

/// Whoever watches a run on a block device.
pub struct Watch<'a> {
    /// Set while what was measured so far is wanted with a report.
    pub wanted: &'a AtomicBool,
    /// Gets the progress, and what was measured so far if it was wanted.
    pub report: &'a mut dyn FnMut(Progress, Option<(Window, Box<Meters>)>),
}

/// What a metered device counted.
pub struct Window {
    /// When the window of measurement opened.
    pub opened: Ns,
    /// What was counted in the window of measurement.
    pub books: Books,
    /// Bytes written by the host in it.
    pub host_bytes: u64,
    /// Time of the run, the ramp included.
    pub elapsed: Ns,
    /// The run over time.
    pub timeline: Vec<Point>,
    /// Pages moved in the window: those written before the run, then those of each flow. Empty if flows are not followed.
    pub moved: Vec<u64>,
}

/// Result of a metered run.
pub struct Closed<D> {
    /// The device.
    pub device: D,
    /// What was counted.
    pub window: Window,
    /// Pattern of the writes, if it was recorded.
    pub pattern: Option<Pattern>,
}

impl<'a, D: Metered> MeteredDrive<'a, D> {
    /// Wraps a device. With `has_ramp`, the window of measurement opens at the first request that counts, otherwise at
    /// once.
    pub fn new(
        device: D,
        last: &'a LastDone<D::Parts>,
        record: &crate::schema::limits::Record,
        stop: StopAt,
        has_ramp: bool,
        watch: Watch<'a>,
    ) -> MeteredDrive<'a, D> {
        let depth = device.queue_depth() as usize;
        let start = device.books();
        let origin = device.now();
        let flash = device.flash_sums(0);
        let opening =
            (!has_ramp).then(|| Opening { at: Ns::ZERO, books: start.clone(), written: 0, moved: device.moved() });
        MeteredDrive {
            device,
            last,
            asked: vec![(BlockOp::Flush, 0, 0); depth],
            timeline: Timeline::new(record.points, flash),
            pattern: record.pattern.then(|| Pattern::new(PatternOptions::default())),
            stop,
            written: 0,
            done: 0,
            origin,
            start,
            opening,
            watch,
        }
    }

    /// Bytes written by the host.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What was counted so far. Without a counted request the window has the whole run.
    fn window(&self) -> Window {
        let now = self.device.books();
        let elapsed = self.device.now() - self.origin;
        let mut moved = self.device.moved();
        let (opened, books, written) = match &self.opening {
            Some(opening) => {
                moved.iter_mut().zip(&opening.moved).for_each(|(now, before)| *now -= before);
                (opening.at, now.since(&opening.books), self.written - opening.written)
            }
            None => (Ns::ZERO, now.since(&self.start), self.written),
        };
        let timeline = self.timeline.clone().finish(elapsed.0, self.device.flash_sums(self.written));
        Window { opened, books, host_bytes: written, elapsed, timeline, moved }
    }

    /// Where the time went: that of the device's threads, or if it has none, of the requests, its dies and its buses.
    pub fn graph(&mut self, meters: &Meters) -> Graph {
        match &self.device.stop_recording()[..] {
            [] => {
                let mut graph = Graph::of_requests::<D::Parts>(meters);
                self.device.nand_time().iter().for_each(|time| graph.add_nand(time));
                graph
            }
            threads => Graph::of_threads(threads),
        }
    }

    /// Closes the window of measurement.
    pub fn close(self) -> Closed<D> {
        let window = self.window();
        Closed { device: self.device, window, pattern: self.pattern }
    }

    #[cold]
    fn open(&mut self) {
        let (books, moved) = (self.device.books(), self.device.moved());
        let at = self.device.now() - self.origin;
        self.opening = Some(Opening { at, books, written: self.written, moved });
        // Requests of a ramp, and what a guest does before its job, are no part of the pattern.
        self.pattern.iter_mut().for_each(|pattern| *pattern = Pattern::new(PatternOptions::default()));
    }

    #[cold]
    fn look(&mut self, now: Ns) {
        if self.stop.max_erases > 0 {
            let most = self.device.most_erased(self.start.erases());
            if most.is_some_and(|most| most >= self.stop.max_erases) {
                self.last.stop.set(Some(StopReason::MaxErases));
            }
        }
        if (self.done / LOOK_EVERY).is_multiple_of(WATCH_EVERY) {
            let progress = self.progress(now);
            (self.watch.report)(progress, None);
        }
    }

    fn progress(&self, now: Ns) -> Progress {
        let share = |value: u64, of: u64| if of == u64::MAX { 0.0 } else { value as f64 / of.max(1) as f64 };
        let done = share(self.written, self.stop.written)
            .max(share(now.0, self.stop.until))
            .max(share(self.done, self.stop.requests));
        Progress { done, virtual_ns: now.0, work: self.done, so_far: None }
    }

    /// Asks the meter for a copy, and reports what was measured once it is there.
    #[cold]
    fn sample(&mut self, now: Ns) {
        let copy = self.last.copy.take();
        match copy {
            None => self.last.wanted.set(true),
            Some(meters) => {
                let (progress, window) = (self.progress(now), self.window());
                self.watch.wanted.store(false, Ordering::Relaxed);
                (self.watch.report)(progress, Some((window, meters)));
            }
        }
    }
}

impl<D: Metered> BlockDevice for MeteredDrive<'_, D> {
    const KEEPS_BYTES: bool = D::KEEPS_BYTES;

    fn sectors(&self) -> u64 {
        self.device.sectors()
    }

    fn queue_depth(&self) -> u32 {
        self.device.queue_depth()
    }

    #[inline]
    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        self.device.submit(at + self.origin, tag, request, data)?;
        self.asked[tag as usize] = (request.op, request.bytes(), at.0);
        if let Some(pattern) = &mut self.pattern {
            pattern.add(&TraceRecord::new(at, request.op, request.sector * 512, request.bytes()));
        }
        Ok(())
    }

    #[inline]
    fn expect(&self, request: &BlockRequest) {
        self.device.expect(request);
    }

    #[inline]
    fn expect_next(&self, request: &BlockRequest) {
        self.device.expect_next(request);
    }

    #[inline]
    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        if self.opening.is_none() && self.last.counts.get() {
            self.open();
        }
        let mut done = self.device.next_done(Ns(until.0.saturating_add(self.origin.0)))?;
        done.at = done.at - self.origin;
        self.last.parts.set(self.device.parts_of(done.tag));
        if done.at.0 >= self.timeline.next {
            self.timeline.roll(done.at.0, self.device.flash_sums(self.written));
        }
        let (op, bytes, submitted) = self.asked[done.tag as usize];
        if done.result.is_ok() {
            self.timeline.book(op, bytes, done.at.0 - submitted);
            if op == BlockOp::Write {
                self.written += bytes;
                if self.written >= self.stop.written {
                    self.last.stop.set(Some(StopReason::DriveWrites));
                }
            }
        }
        self.done += 1;
        if self.done.is_multiple_of(LOOK_EVERY) {
            self.look(done.at);
        }
        if self.watch.wanted.load(Ordering::Relaxed) {
            self.sample(done.at);
        }
        Some(done)
    }

    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        self.device.take(tag, buf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_stays_short_and_loses_nothing() {
        let mut timeline = Timeline::new(8, FlashSums::default());
        let mut now = 0;
        for i in 0..10_000u64 {
            now += i % 977 * 1_000;
            timeline.roll(now, FlashSums { host_pages: i, pages: 2 * i, erases: i / 10 });
            timeline.book(BlockOp::Write, 4096, i);
        }
        let points = timeline.finish(now, FlashSums { host_pages: 10_000, pages: 20_000, erases: 1_000 });
        assert!((4..=9).contains(&points.len()), "{}", points.len());
        assert_eq!(points.iter().map(|point| point.requests[BlockOp::Write as usize]).sum::<u64>(), 10_000);
        assert_eq!(points.iter().map(|point| point.pages).sum::<u64>(), 20_000);
        assert_eq!(points.iter().map(|point| point.erases).sum::<u64>(), 1_000);
        assert_eq!(points.iter().map(|point| point.max_ns).max(), Some(9_999));
        assert!(points.is_sorted_by_key(|point| point.t_ns));
    }

    #[test]
    fn a_long_silence_costs_few_points() {
        let mut timeline = Timeline::new(8, FlashSums::default());
        timeline.book(BlockOp::Read, 1, 1);
        timeline.roll(u64::MAX / 4, FlashSums::default());
        assert!(timeline.finish(u64::MAX / 4, FlashSums::default()).len() <= 9);
    }
}
