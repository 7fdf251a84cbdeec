//! App start-up as a load: readers work through the list of a launch's reads, through the page cache.
//!
//! The readers of a launch share its list: a free reader takes the next read. After each read, from the device or from
//! the cache, the reader works for the launch's processor time divided by its reads, rounded down to the nanosecond. A
//! launch is a group of users: it ends when every reader has done its last work, and the next launch begins then. A
//! cycle is a job of the report.
//!
//! Of a read's pages, those from the first to the last that the cache lacks are read from the device in one request.
//! They are in the cache when it is done. So is a written page.

use std::ops::Range;

use sim::Ns;
use sim::seam::{BlockOp, BlockRequest};

use super::{Ask, Installed, PAGE_SECTORS, PageCache};
use crate::drive::{InOrder, Load, Next, Report, Soon, Then, Turn};

/// A launch of an app and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Index in [`Installed::apps`].
    pub app: u32,
    /// When the launch began.
    pub from: Ns,
    /// When the launch ended.
    pub to: Ns,
}

/// One cycle: every app launched once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// When its first launch began.
    pub from: Ns,
    /// When its last launch ended.
    pub to: Ns,
    /// Reads that the apps made.
    pub reads: u64,
    /// Reads that the page cache served completely.
    pub hits: u64,
    /// Requests of the device.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
    /// Launches in order.
    pub launches: Vec<Launch>,
}

/// Launches every app in turn, cycle after cycle.
pub struct LaunchLoad<'a> {
    apps: &'a Installed,
    cache: PageCache,
    asks: Vec<Ask>,
    /// Index of the next read or write.
    next: usize,
    /// Index of the app that is starting.
    app: usize,
    /// Processor time after each read.
    work: Ns,
    /// When the launch began.
    from: Ns,
    /// When the last reader ended.
    over: Ns,
    cycles: Vec<Cycle>,
}

impl<'a> LaunchLoad<'a> {
    /// A load that starts with an empty page cache.
    pub fn new(apps: &'a Installed) -> LaunchLoad<'a> {
        LaunchLoad {
            apps,
            cache: PageCache::new(apps.pages(), apps.model.cache_pages),
            asks: Vec::new(),
            next: 0,
            app: 0,
            work: Ns::ZERO,
            from: Ns::ZERO,
            over: Ns::ZERO,
            cycles: Vec::new(),
        }
    }

    /// Results of the cycles that began, after the run.
    pub fn cycles(&self) -> &[Cycle] {
        &self.cycles
    }

    fn cycle(&mut self) -> &mut Cycle {
        self.cycles.last_mut().expect("a cycle is under way")
    }

    fn request(&self, ask: Ask) -> BlockRequest {
        let sector = self.apps.place(self.app, ask.page) * u64::from(PAGE_SECTORS);
        let sectors = ask.pages * PAGE_SECTORS;
        if ask.is_write { BlockRequest::write(sector, sectors) } else { BlockRequest::read(sector, sectors) }
    }

    /// The part of a read that the cache lacks, from the first to the last such page; cached pages count as used.
    fn lacking(&mut self, ask: Ask) -> Option<Ask> {
        let first_own = self.apps.apps[self.app].first_own;
        let mut lacking: Option<(u32, u32)> = None;
        for page in ask.page..ask.page + ask.pages {
            if !self.cache.touch(first_own + page) {
                lacking = Some((lacking.map_or(page, |(first, _)| first), page));
            }
        }
        lacking.map(|(first, last)| Ask { page: first, pages: last - first + 1, ..ask })
    }

    fn work(&self, now: Ns) -> Next {
        Then::At(Ns(now.0.saturating_add(self.work.0))).into()
    }
}

impl Load for LaunchLoad<'_> {
    /// The work after a read is the same for all reads of a launch.
    type Alarms = InOrder;

    fn jobs(&self) -> usize {
        self.apps.model.cycles as usize
    }

    #[inline]
    fn account(&self, _user: u32, _now: Ns) -> (usize, bool) {
        (self.cycles.len() - 1, true)
    }

    fn begin(&mut self, now: Ns) -> Option<Range<u32>> {
        let (from, model) = (self.from, &self.apps.model);
        if let Some(cycle) = self.cycles.last_mut() {
            cycle.launches.push(Launch { app: self.app as u32, from, to: now });
            cycle.to = now;
            self.app += 1;
        }
        if self.cycles.is_empty() || self.app == self.apps.apps.len() {
            if self.cycles.len() == model.cycles as usize {
                return None;
            }
            let launches = Vec::with_capacity(self.apps.apps.len());
            self.cycles.push(Cycle { from: now, to: now, reads: 0, hits: 0, requests: 0, bytes: 0, launches });
            self.app = 0;
        }
        let (app, cycle) = (self.app as u32, self.cycles.len() as u32 - 1);
        let (kind, _) = model.kind(app);
        self.apps.plan(app, cycle, &mut self.asks);
        self.work = Ns(kind.cpu.0 / model.reads(kind).max(1));
        (self.next, self.from, self.over) = (0, now, now);
        Some(0..model.readers)
    }

    /// A free reader takes the next read or write.
    fn next(&mut self, turn: Turn) -> Next {
        let mut then = Then::End;
        while let Some(&ask) = self.asks.get(self.next) {
            if turn.is_closed {
                then = Then::Cut;
                break;
            }
            self.next += 1;
            let wanted = if ask.is_write { Some(ask) } else { self.lacking(ask) };
            let cycle = self.cycle();
            cycle.reads += u64::from(!ask.is_write);
            if let Some(wanted) = wanted {
                return Next::issue(turn.user, self.request(wanted), Then::Wait);
            }
            cycle.hits += 1;
            if self.work > Ns::ZERO {
                return self.work(turn.now);
            }
        }
        self.over = self.over.max(turn.now);
        then.into()
    }

    fn done(&mut self, turn: Turn, request: &BlockRequest, failed: bool) -> Next {
        let cycle = self.cycle();
        cycle.requests += 1;
        cycle.bytes += request.bytes();
        if !failed {
            let place = request.sector / u64::from(PAGE_SECTORS);
            let page = self.apps.page_at(self.app, place) + self.apps.apps[self.app].first_own;
            (page..page + request.sectors / PAGE_SECTORS).for_each(|page| self.cache.put(page));
        }
        if self.work > Ns::ZERO && request.op == BlockOp::Read { self.work(turn.now) } else { self.next(turn) }
    }

    fn foresee(&mut self, _user: u32, mut announce: impl FnMut(Soon, &BlockRequest)) {
        if let Some(&after) = self.asks.get(self.next) {
            announce(Soon::Ahead, &self.request(after));
        }
    }

    fn finish<S>(&mut self, report: &mut Report<S>) {
        if let Some(cycle) = self.cycles.last_mut() {
            cycle.to = self.over.max(report.to);
        }
        report.jobs.truncate(self.cycles.len());
        for (job, cycle) in report.jobs.iter_mut().zip(&self.cycles) {
            (job.from, job.to) = (cycle.from, job.to.max(cycle.to));
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::Seed;
    use sim::seam::RamDisk;

    use super::super::tests::small;
    use super::super::{Apps, Kind, Order};
    use super::*;
    use crate::drive::{Ended, Limits, Span, run as drive};

    type Seen = Vec<(BlockRequest, Span)>;

    fn run(model: Apps, servers: usize, limits: Limits) -> (Report, Vec<Cycle>, Seen) {
        let installed = Installed::new(model, Seed(1)).unwrap();
        let mut disk = RamDisk::new(64 << 10, 32, servers, Ns::from_us(10));
        let mut seen = Vec::new();
        let mut see = |_: usize, request: &BlockRequest, span: Span, _: bool| seen.push((*request, span));
        let mut launches = LaunchLoad::new(&installed);
        let report = drive(&mut disk, &mut launches, Ns::ZERO, limits, &mut see);
        (report, launches.cycles().to_vec(), seen)
    }

    /// One app and one reader; only places are drawn, so times can be computed by hand.
    fn one() -> Apps {
        let app = Kind { pages: 400, random_reads: 0, sequential_pages: 40, cpu: Ns::from_us(35) };
        Apps { apps: 1, games: 0, cycles: 2, app, spread: 0.0, readers: 1, order: Order::SequentialFirst, ..small() }
    }

    #[test]
    fn launches_are_the_same_again() {
        let (one, again) = (run(small(), 2, Limits::NONE), run(small(), 2, Limits::NONE));
        assert_eq!(one.0.ended, Ended::Done);
        assert_eq!((one.1, one.2), (again.1, again.2));
    }

    #[test]
    fn a_launch_lasts_as_long_as_its_reads_and_its_work() {
        // Five requests of 8 pages, 10 us each, and 7 us of work after each.
        let (_, cycles, seen) = run(one(), 1, Limits::NONE);
        let issued: Vec<_> = seen.iter().map(|(_, span)| span.issued.0 / 1000).collect();
        assert_eq!(issued, [0, 17, 34, 51, 68]);
        assert_eq!((cycles[0].to, cycles[0].requests, cycles[0].bytes), (Ns::from_us(85), 5, 40 * 4096));
        // The second time everything is cached: only the work is left.
        let again = &cycles[1];
        assert_eq!((again.from, again.to, again.reads, again.hits), (Ns::from_us(85), Ns::from_us(120), 5, 5));
        assert_eq!((again.requests, again.launches[0].to), (0, Ns::from_us(120)));
    }

    #[test]
    fn without_a_cache_every_cycle_reads_all() {
        let (_, cycles, seen) = run(Apps { cache_pages: 0, ..one() }, 1, Limits::NONE);
        assert_eq!((cycles[1].hits, cycles[1].requests, seen.len()), (0, 5, 10));
        assert_eq!(cycles[1].to, Ns::from_us(170));
    }

    #[test]
    fn readers_share_the_list() {
        // Two readers and two servers: three rounds of 17 us; in the last, one reader is idle.
        let (_, cycles, _) = run(Apps { readers: 2, ..one() }, 2, Limits::NONE);
        assert_eq!(cycles[0].to, Ns::from_us(51));
    }

    #[test]
    fn a_read_asks_for_what_the_cache_lacks() {
        // The cache holds the last 36 of the 40 pages; the loop evicts each of them before it is needed again.
        let (_, cycles, _) = run(Apps { cache_pages: 36, ..one() }, 1, Limits::NONE);
        assert_eq!((cycles[1].hits, cycles[1].requests), (0, 5));
        // The first request lacks its first four pages, and each eviction removes as many.
        assert_eq!(cycles[1].bytes, 5 * 4 * 4096);
    }

    #[test]
    fn reads_and_hits_add_up_and_later_cycles_read_less() {
        let (report, cycles, seen) = run(small(), 2, Limits::NONE);
        for cycle in &cycles {
            assert_eq!((cycle.reads, cycle.launches.len()), (cycle.hits + cycle.requests, 6));
            assert!(cycle.launches.windows(2).all(|pair| pair[0].to == pair[1].from));
            assert_eq!(cycle.launches[5].to, cycle.to);
        }
        assert!(cycles[1].requests < cycles[0].requests && cycles[1].requests > 0);
        assert_eq!(cycles.iter().map(|cycle| cycle.reads).sum::<u64>(), small().all_reads());
        assert_eq!((report.jobs.len(), report.issued), (3, seen.len() as u64));
    }

    #[test]
    fn a_launch_may_write() {
        let (report, cycles, seen) = run(Apps { writes: 0.5, ..small() }, 2, Limits::NONE);
        let writes = seen.iter().filter(|(request, _)| request.op == BlockOp::Write).count() as u64;
        assert_eq!((report.ended, cycles[0].reads), (Ended::Done, small().all_reads() / 3));
        // Half of 24 or 22 reads.
        assert_eq!(writes, 3 * (4 * 12 + 2 * 11));
    }

    #[test]
    fn a_limit_ends_the_cycle_that_it_meets() {
        let (report, cycles, _) = run(small(), 2, Limits { requests: 30, ..Limits::NONE });
        assert_eq!((report.ended, report.issued, cycles.len()), (Ended::Limit, 30, 1));
        assert_eq!(cycles[0].launches.len(), 1);
    }
}
