//! Threads of iozone's test 2: one outstanding request each, and a constant host time between requests.
//!
//! A phase is a group of users and a job of the report. As in iozone, a thread's measurement ends when its last record
//! is done, or when another thread's last record is (the *stonewall*); no record counts after that. A stopped reader
//! ends. A stopped writer flushes, its rate is taken, and it still writes the rest of its file.

use std::ops::Range;

use sim::Ns;
use sim::seam::{BlockOp, BlockRequest};

use super::{Iozone, Phase, order};
use crate::drive::{InOrder, Load, Next, Report, Soon, Then, Turn};

/// Results of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IozonePhase {
    /// The phase: reads or writes.
    pub phase: Phase,
    /// When its threads began.
    pub from: Ns,
    /// When its last thread ended.
    pub to: Ns,
    /// Records done.
    pub records: u64,
    /// Records that count: done before a thread stopped the others.
    pub counted: u64,
    /// Sum of the threads' rates in bytes per second: iozone's "children see throughput".
    pub bytes_per_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Stopped by another thread: the flush belongs to its time.
    FlushForRate,
    FlushAtEnd,
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    file: u32,
    first_sector: u64,
    /// Index of the next record in the order.
    next: u32,
    counted: u32,
    done: u32,
    stage: Stage,
    /// When its measurement ended; its rate is over this time.
    measured: Option<Ns>,
}

/// The threads of a test, in one phase after another.
pub struct IozoneLoad<'a> {
    test: &'a Iozone,
    order: Vec<u32>,
    quota: u32,
    threads: Vec<Thread>,
    phase: Phase,
    from: Ns,
    /// When the last thread ended.
    over: Ns,
    /// Whether a thread has finished and so ended the measurement of the others.
    stopped: bool,
    begun: usize,
    /// Results of the phases that ended.
    figures: Vec<IozonePhase>,
}

impl<'a> IozoneLoad<'a> {
    /// A test on files that nothing else writes.
    pub fn new(test: &'a Iozone) -> IozoneLoad<'a> {
        IozoneLoad {
            order: order(test.file_records),
            quota: test.quota(),
            threads: Vec::new(),
            phase: Phase::Read,
            from: Ns::ZERO,
            over: Ns::ZERO,
            stopped: false,
            begun: 0,
            figures: Vec::new(),
            test,
        }
    }

    /// Results of the phases that began, after the run.
    pub fn phases(&self) -> &[IozonePhase] {
        &self.figures
    }

    /// The next request of a thread; `None` if it has finished.
    #[inline(always)]
    fn request(&self, thread: &Thread) -> Option<BlockRequest> {
        if thread.next >= self.quota {
            return None;
        }
        let record = self.test.place(thread.file, self.order[thread.next as usize]);
        let sectors = self.test.record_sectors;
        let sector = thread.first_sector + u64::from(record) * u64::from(sectors);
        Some(match self.phase {
            Phase::Read => BlockRequest::read(sector, sectors),
            Phase::Write => BlockRequest::write(sector, sectors),
        })
    }

    /// Turn of a thread at an exceptional point: at its end, at the stonewall, at a limit.
    #[cold]
    fn turn_off(&mut self, turn: Turn, has_more: bool) -> Next {
        let writes = self.phase == Phase::Write;
        // A writer stops the others before its flush, a reader at its end, which is the same moment.
        self.stopped |= !has_more && self.test.stonewall;
        if turn.is_closed && (has_more || (writes && self.test.flush)) {
            self.end(turn, Then::Cut)
        } else if writes && self.test.flush {
            let stage = if has_more { Stage::FlushForRate } else { Stage::FlushAtEnd };
            self.threads[turn.user as usize].stage = stage;
            Next::issue(turn.user, BlockRequest::flush(), Then::Wait)
        } else if writes && has_more {
            self.threads[turn.user as usize].measured = Some(turn.now);
            self.next(turn)
        } else {
            self.end(turn, Then::End)
        }
    }

    #[cold]
    fn flushed(&mut self, turn: Turn) -> Next {
        let thread = &mut self.threads[turn.user as usize];
        thread.measured.get_or_insert(turn.now);
        if thread.stage == Stage::FlushAtEnd {
            return self.end(turn, Then::End);
        }
        thread.stage = Stage::Running;
        self.next(turn)
    }

    fn end(&mut self, turn: Turn, then: Then) -> Next {
        let thread = &mut self.threads[turn.user as usize];
        thread.measured.get_or_insert(turn.now);
        thread.stage = Stage::Ended;
        self.over = self.over.max(turn.now);
        then.into()
    }

    /// Ends the current phase, if any. Threads that have not ended are measured up to `last_done`.
    fn conclude(&mut self, last_done: Ns) {
        if self.figures.len() == self.begun {
            return;
        }
        let bytes = self.test.record_bytes() as f64;
        let rate = |thread: &Thread| {
            let seconds = (thread.measured.unwrap_or(last_done).0.saturating_sub(self.from.0)) as f64 / 1e9;
            if seconds > 0.0 { f64::from(thread.counted) * bytes / seconds } else { 0.0 }
        };
        let sum = |of: fn(&Thread) -> u32| self.threads.iter().map(|thread| u64::from(of(thread))).sum();
        let all_ended = self.threads.iter().all(|thread| thread.stage == Stage::Ended);
        self.figures.push(IozonePhase {
            phase: self.phase,
            from: self.from,
            to: if all_ended { self.over } else { last_done.max(self.from) },
            records: sum(|thread| thread.done),
            counted: sum(|thread| thread.counted),
            bytes_per_s: self.threads.iter().map(rate).sum(),
        });
    }
}

impl Load for IozoneLoad<'_> {
    /// The host time is constant.
    type Alarms = InOrder;

    fn jobs(&self) -> usize {
        self.test.phases.len()
    }

    #[inline]
    fn account(&self, _user: u32, _now: Ns) -> (usize, bool) {
        (self.begun - 1, true)
    }

    fn begin(&mut self, now: Ns) -> Option<Range<u32>> {
        self.conclude(now);
        self.phase = *self.test.phases.get(self.begun)?;
        self.begun += 1;
        (self.from, self.over, self.stopped) = (now, now, false);
        let file_sectors = u64::from(self.test.file_records) * u64::from(self.test.record_sectors);
        self.threads.clear();
        self.threads.extend((0..self.test.threads).map(|file| Thread {
            file,
            first_sector: self.test.first_sector + u64::from(file) * file_sectors,
            next: 0,
            counted: 0,
            done: 0,
            stage: Stage::Running,
            measured: None,
        }));
        Some(0..self.test.threads)
    }

    #[inline(always)]
    fn next(&mut self, turn: Turn) -> Next {
        let thread = &self.threads[turn.user as usize];
        match self.request(thread) {
            Some(request) if !turn.is_closed && (!self.stopped || thread.measured.is_some()) => {
                self.threads[turn.user as usize].next += 1;
                Next::issue(turn.user, request, Then::Wait)
            }
            next => self.turn_off(turn, next.is_some()),
        }
    }

    #[inline(always)]
    fn done(&mut self, turn: Turn, request: &BlockRequest, _failed: bool) -> Next {
        if request.op == BlockOp::Flush {
            return self.flushed(turn);
        }
        let thread = &mut self.threads[turn.user as usize];
        thread.done += 1;
        thread.counted += u32::from(!self.stopped);
        // A finished thread, or one without host time, continues at once.
        if self.test.host == Ns::ZERO || thread.next >= self.quota {
            return self.next(turn);
        }
        Then::At(Ns(turn.now.0.saturating_add(self.test.host.0))).into()
    }

    #[inline(always)]
    fn foresee(&mut self, user: u32, mut announce: impl FnMut(Soon, &BlockRequest)) {
        if let Some(request) = self.request(&self.threads[user as usize]) {
            announce(Soon::Ahead, &request);
        }
    }

    fn finish<S>(&mut self, report: &mut Report<S>) {
        self.conclude(report.to);
        report.jobs.truncate(self.begun);
        for (job, phase) in report.jobs.iter_mut().zip(&self.figures) {
            (job.from, job.to) = (phase.from, job.to.max(phase.from));
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::seam::{BlockDevice, BlockDone, BlockError, Payload, RamDisk};

    use super::*;
    use crate::drive::{Ended, Limits, Span, run as drive};

    const RECORDS: u32 = 64;

    fn load(phases: &[Phase]) -> Iozone {
        Iozone {
            threads: 4,
            record_sectors: 8,
            file_records: RECORDS,
            first_sector: 16,
            phases: phases.to_vec(),
            host: Ns::from_us(3),
            records: 0,
            stonewall: false,
            flush: false,
            mixed_records: 1,
        }
    }

    struct Seen {
        report: Report,
        phases: Vec<IozonePhase>,
        /// Phase, thread, operation, record, times in microseconds.
        requests: Vec<(usize, u64, BlockOp, u64, u64, u64)>,
    }

    fn run_on<D: BlockDevice>(device: &mut D, load: &Iozone, limits: Limits) -> Seen {
        let mut requests = Vec::new();
        let mut see = |job: usize, request: &BlockRequest, span: Span, _: bool| {
            let record = request.sector.saturating_sub(load.first_sector) / u64::from(load.record_sectors);
            let (thread, record) = (record / u64::from(load.file_records), record % u64::from(load.file_records));
            requests.push((job, thread, request.op, record, span.issued.0 / 1000, span.done.0 / 1000));
        };
        let mut threads = IozoneLoad::new(load);
        let report = drive(device, &mut threads, Ns::ZERO, limits, &mut see);
        Seen { report, phases: threads.phases().to_vec(), requests }
    }

    fn disk(depth: u32, servers: usize) -> RamDisk {
        RamDisk::new(4096, depth, servers, Ns::from_us(10))
    }

    fn run(servers: usize, load: &Iozone) -> Seen {
        run_on(&mut disk(32, servers), load, Limits::NONE)
    }

    #[test]
    fn every_thread_asks_for_every_record_once_in_the_same_order_in_both_phases() {
        let seen = run(2, &load(&[Phase::Read, Phase::Write]));
        assert_eq!((seen.report.ended, seen.requests.len()), (Ended::Done, 2 * 4 * 64));
        let wanted = order(RECORDS);
        for (phase, op) in [(0, BlockOp::Read), (1, BlockOp::Write)] {
            for thread in 0..4 {
                let of = seen.requests.iter().filter(|it| (it.0, it.1, it.2) == (phase, thread, op));
                assert!(of.map(|it| it.3 as u32).eq(wanted.iter().copied()), "thread {thread}");
            }
        }
        let (read, write) = (seen.phases[0], seen.phases[1]);
        assert_eq!((read.records, write.records, write.from), (256, 256, read.to));
    }

    #[test]
    fn the_host_time_passes_between_the_requests_of_a_thread_and_nowhere_else() {
        let seen = run(4, &load(&[Phase::Read]));
        for thread in 0..4 {
            let times: Vec<_> = seen.requests.iter().filter(|it| it.1 == thread).map(|it| (it.4, it.5)).collect();
            assert_eq!(times, (0..64).map(|at| (13 * at, 13 * at + 10)).collect::<Vec<_>>());
        }
        assert_eq!(seen.phases[0].to, Ns::from_us(63 * 13 + 10), "nothing passes after the last");
        let at_once = run(4, &Iozone { host: Ns::ZERO, ..load(&[Phase::Read]) });
        assert_eq!(at_once.phases[0].to, Ns::from_us(640));
    }

    #[test]
    fn children_see_the_sum_of_their_own_rates() {
        // Three servers for four threads of equal work: two ends, and a different rate for each.
        let load = Iozone { host: Ns::ZERO, ..load(&[Phase::Read]) };
        let seen = run(3, &load);
        let end = |thread| seen.requests.iter().filter(|it| it.1 == thread).map(|it| it.5).max().unwrap();
        let sum: f64 = (0..4).map(|thread| 64.0 * 4096.0 * 1e6 / end(thread) as f64).sum();
        assert!((seen.phases[0].bytes_per_s - sum).abs() < 1e-6 * sum, "{:?}", seen.phases);
        // Four servers: all end at 640 us.
        let seen = run(4, &load);
        assert!((seen.phases[0].bytes_per_s - 4.0 * 64.0 * 4096.0 / 640e-6).abs() < 1.0);
    }

    /// A disk that serves any number of requests at once, and takes three times as long beyond a sector.
    struct Uneven(Vec<(Ns, u32)>, u64);

    impl BlockDevice for Uneven {
        const KEEPS_BYTES: bool = false;
        fn sectors(&self) -> u64 {
            4096
        }
        fn queue_depth(&self) -> u32 {
            32
        }
        fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, _: Payload<'_>) -> Result<(), BlockError> {
            let slow = request.op != BlockOp::Flush && request.sector >= self.1;
            self.0.push((at + Ns::from_us(if slow { 30 } else { 10 }), tag));
            Ok(())
        }
        fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
            let next = (0..self.0.len()).min_by_key(|&at| self.0[at])?;
            if self.0[next].0 > until {
                return None;
            }
            let (at, tag) = self.0.swap_remove(next);
            Some(BlockDone { tag, at, result: Ok(()) })
        }
        fn take(&mut self, _: u32, buf: &mut [u8]) {
            buf.fill(0);
        }
    }

    /// Runs the test on a disk whose last two files are slow.
    fn run_unevenly(load: &Iozone) -> Seen {
        let slow_from = load.first_sector + 2 * u64::from(load.file_records * load.record_sectors);
        run_on(&mut Uneven(Vec::new(), slow_from), load, Limits::NONE)
    }

    #[test]
    fn the_first_thread_that_ends_stops_the_readers() {
        let load = Iozone { host: Ns::ZERO, stonewall: true, ..load(&[Phase::Read]) };
        let seen = run_unevenly(&load);
        // The fast two end at 640 us. The slow two have read 21 records by 630 us and end with the 22nd, which does not
        // count.
        let phase = seen.phases[0];
        assert_eq!((seen.report.ended, phase.records, phase.to), (Ended::Done, 2 * 64 + 2 * 22, Ns::from_us(660)));
        // The last record of the second does not count either: it is done after the first thread finished.
        assert_eq!(phase.counted, 64 + 63 + 2 * 21);
        let rate = 4096.0 * ((64.0 + 63.0) / 640e-6 + 2.0 * 21.0 / 660e-6);
        assert!((phase.bytes_per_s - rate).abs() < 1e-6 * rate, "{phase:?}");
        let to_the_end = run_unevenly(&Iozone { stonewall: false, ..load });
        assert_eq!((to_the_end.phases[0].counted, to_the_end.phases[0].to), (256, Ns::from_us(64 * 30)));
    }

    #[test]
    fn stopped_writers_flush_are_measured_and_write_their_files_to_the_end() {
        let load = Iozone { host: Ns::ZERO, stonewall: true, flush: true, ..load(&[Phase::Write]) };
        let seen = run_unevenly(&load);
        let phase = seen.phases[0];
        assert_eq!((seen.report.ended, phase.records, phase.counted), (Ended::Done, 256, 64 + 63 + 2 * 21));
        // One flush at the end of each thread, and one for each that was stopped, which belongs to its time.
        assert_eq!(seen.requests.iter().filter(|it| it.2 == BlockOp::Flush).count(), 4 + 2);
        let rate = 4096.0 * ((64.0 + 63.0) / 650e-6 + 2.0 * 21.0 / 670e-6);
        assert!((phase.bytes_per_s - rate).abs() < 1e-6 * rate, "{phase:?}");
        assert_eq!(phase.to, Ns::from_us(64 * 30 + 2 * 10));
        let without = run_unevenly(&Iozone { flush: false, ..load });
        assert_eq!((without.requests.len(), without.phases[0].counted), (256, 64 + 63 + 2 * 21));
    }

    #[test]
    fn a_short_run_takes_the_first_records_of_the_same_order() {
        let seen = run(4, &Iozone { records: 5, stonewall: true, ..load(&[Phase::Read, Phase::Write]) });
        for thread in 0..4 {
            let of = seen.requests.iter().filter(|it| (it.0, it.1) == (1, thread));
            assert!(of.map(|it| it.3 as u32).eq(order(RECORDS)[..5].iter().copied()));
        }
    }

    #[test]
    fn more_threads_than_tags_wait_in_the_host() {
        let seen = run_on(&mut disk(2, 2), &Iozone { host: Ns::ZERO, ..load(&[Phase::Read]) }, Limits::NONE);
        assert_eq!((seen.report.ended, seen.report.max_waiting, seen.phases[0].records), (Ended::Done, 2, 256));
    }

    #[test]
    fn limits_end_the_test_and_its_later_phases() {
        let load = load(&[Phase::Read, Phase::Write]);
        let seen = run_on(&mut disk(32, 4), &load, Limits { requests: 30, ..Limits::NONE });
        assert_eq!((seen.report.ended, seen.report.issued, seen.phases.len()), (Ended::Limit, 30, 1));
        let seen = run_on(&mut disk(32, 4), &load, Limits { until: Ns::from_us(900), ..Limits::NONE });
        assert_eq!((seen.report.ended, seen.phases.len()), (Ended::Limit, 2));
        assert!(seen.requests.iter().all(|it| it.4 < 900));
    }

    #[test]
    fn a_device_that_refuses_ends_the_test_with_what_came_of_it() {
        // The last file lies beyond the end of the disk.
        let load = Iozone { first_sector: 4096 - 3 * 512, ..load(&[Phase::Read]) };
        let seen = run_on(&mut disk(32, 4), &load, Limits::NONE);
        assert!(matches!(seen.report.ended, Ended::Device { error: BlockError::OutOfBounds { .. }, .. }));
        assert_eq!((seen.phases.len(), load.end_sector()), (1, 4096 + 512));
    }
}
