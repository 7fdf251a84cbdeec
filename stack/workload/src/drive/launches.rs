//! App start-up: readers that take a launch's reads one after the other, through the page cache.
//!
//! The readers share the list of a launch: whoever is free takes what comes next. After a read, from the device or from
//! the cache, its reader works for the launch's processor time over its reads, rounded down to the nanosecond. It is
//! the same for all reads of a launch, so wake-ups come in the order in which they were set. A launch ends when every
//! reader has done its last work; the next begins then.
//!
//! Of a read's pages, those from the first to the last that the cache lacks are asked of the device, in one request.
//! They are in the cache when it is done. A written page is too.

use std::collections::VecDeque;

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockRequest};

use super::port::{Port, Refused, ended, is_survivable};
use super::report::{Ended, JobTotals, Limits, Observer, Report};
use crate::apps::{Ask, Installed, PAGE_SECTORS, PageCache};

/// A launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which app.
    pub app: u32,
    /// When it began.
    pub from: Ns,
    /// When it was over.
    pub to: Ns,
}

/// Every app launched once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// When its first launch began.
    pub from: Ns,
    /// When its last was over.
    pub to: Ns,
    /// Reads of the apps.
    pub reads: u64,
    /// How many of them the page cache had whole.
    pub hits: u64,
    /// Requests that the device did.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its launches.
    pub launches: Vec<Launch>,
}

struct Run<'a, 'd, D: BlockDevice> {
    device: &'d mut D,
    port: Port,
    apps: &'a Installed,
    cache: PageCache,
    asks: Vec<Ask>,
    next: usize,
    /// The app that starts.
    app: usize,
    /// Work after each read.
    work: Ns,
    wakes: VecDeque<(Ns, u32)>,
    active: u32,
    cycles: Vec<Cycle>,
    totals: Vec<JobTotals>,
    cut: bool,
    limits: Limits,
    issued: u64,
    last_done: Ns,
    /// When the last reader was through.
    over: Ns,
}

/// Launches every app in turn, cycle after cycle, from `start` on. In the report a cycle is a job.
pub fn launches<D: BlockDevice, O: Observer>(
    device: &mut D,
    apps: &Installed,
    start: Ns,
    limits: Limits,
    observer: &mut O,
) -> (Report, Vec<Cycle>) {
    let mut run = Run {
        port: Port::new(device),
        device,
        apps,
        cache: PageCache::new(apps.pages(), apps.model.cache_pages),
        asks: Vec::new(),
        next: 0,
        app: 0,
        work: Ns::ZERO,
        wakes: VecDeque::with_capacity(apps.model.readers as usize),
        active: 0,
        cycles: Vec::new(),
        totals: Vec::new(),
        cut: false,
        limits,
        issued: 0,
        last_done: start,
        over: start,
    };
    let ended = match run.run(observer) {
        Ok(()) => run.port.settle(run.last_done, if run.cut { Ended::Limit } else { Ended::Done }),
        Err(refused) => ended(&refused, run.cycles.len().saturating_sub(1)),
    };
    let report = Report {
        jobs: run.totals,
        from: start,
        to: run.last_done,
        issued: run.issued,
        max_waiting: run.port.max_waiting,
        disordered: 0,
        ended,
    };
    (report, run.cycles)
}

impl<D: BlockDevice> Run<'_, '_, D> {
    fn run<O: Observer>(&mut self, observer: &mut O) -> Result<(), Refused> {
        for cycle in 0..self.apps.model.cycles {
            let from = self.over;
            self.totals.push(JobTotals { from, to: from, ..JobTotals::default() });
            let launches = Vec::with_capacity(self.apps.apps.len());
            self.cycles.push(Cycle { from, to: from, reads: 0, hits: 0, requests: 0, bytes: 0, launches });
            for app in 0..self.apps.model.apps {
                let outcome = self.launch(app, cycle, observer);
                let to = self.over.max(self.last_done);
                self.cycle().to = to;
                let job = self.totals.last_mut().expect("a cycle is under way");
                job.to = job.to.max(to);
                outcome?;
                if self.cut || self.active > 0 {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn cycle(&mut self) -> &mut Cycle {
        self.cycles.last_mut().expect("a cycle is under way")
    }

    fn launch<O: Observer>(&mut self, app: u32, cycle: u32, observer: &mut O) -> Result<(), Refused> {
        let from = self.over;
        let (kind, _) = self.apps.model.kind(app);
        self.apps.plan(app, cycle, &mut self.asks);
        (self.app, self.next) = (app as usize, 0);
        self.work = Ns(kind.cpu.0 / self.apps.model.reads(kind).max(1));
        self.active = self.apps.model.readers;
        for reader in 0..self.apps.model.readers {
            self.advance(reader, from)?;
        }
        while self.active > 0 {
            let until = self.wakes.front().map_or(Ns(u64::MAX), |&(at, _)| at);
            match self.device.next_done(until) {
                Some(done) => self.complete(done, observer)?,
                None => match self.wakes.pop_front() {
                    Some((at, reader)) => self.advance(reader, at)?,
                    None => return Ok(()),
                },
            }
        }
        if !self.cut {
            let to = self.over;
            self.cycle().launches.push(Launch { app, from, to });
        }
        Ok(())
    }

    fn request(&self, ask: Ask) -> BlockRequest {
        let sector = self.apps.place(self.app, ask.page) * u64::from(PAGE_SECTORS);
        let sectors = ask.pages * PAGE_SECTORS;
        if ask.is_write { BlockRequest::write(sector, sectors) } else { BlockRequest::read(sector, sectors) }
    }

    /// What of a read the cache lacks, from the first to the last such page; what it has is used.
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

    /// Lets a free reader take what comes next.
    fn advance(&mut self, reader: u32, now: Ns) -> Result<(), Refused> {
        while let Some(&ask) = self.asks.get(self.next) {
            if self.issued >= self.limits.requests || now >= self.limits.until {
                self.cut = true;
                break;
            }
            self.next += 1;
            let wanted = if ask.is_write { Some(ask) } else { self.lacking(ask) };
            let cycle = self.cycle();
            cycle.reads += u64::from(!ask.is_write);
            if let Some(wanted) = wanted {
                let request = self.request(wanted);
                self.issued += 1;
                self.port.issue(self.device, now, reader, request)?;
                if let Some(&after) = self.asks.get(self.next) {
                    self.device.expect(&self.request(after));
                }
                return Ok(());
            }
            cycle.hits += 1;
            if self.work > Ns::ZERO {
                self.sleep(reader, now);
                return Ok(());
            }
        }
        self.active -= 1;
        self.over = self.over.max(now);
        Ok(())
    }

    fn sleep(&mut self, reader: u32, now: Ns) {
        self.wakes.push_back((Ns(now.0.saturating_add(self.work.0)), reader));
    }

    fn complete<O: Observer>(&mut self, done: BlockDone, observer: &mut O) -> Result<(), Refused> {
        let slot = self.port.completed(&done);
        self.port.pass_on(self.device, &done)?;
        let now = done.at;
        self.last_done = now;
        let job = self.cycles.len() - 1;
        let failed = done.result.is_err();
        if let Err(error) = done.result {
            observer.on_error(job, &slot.request, &error);
            if !is_survivable(&error) {
                return Err(Box::new((now, slot, error)));
            }
        }
        let span = slot.span(now);
        self.totals[job].book(&slot.request, span, true, failed);
        observer.on_done(job, &slot.request, span, true);
        let cycle = self.cycle();
        cycle.requests += 1;
        cycle.bytes += slot.request.bytes();
        if !failed {
            let place = slot.request.sector / u64::from(PAGE_SECTORS);
            let page = self.apps.page_at(self.app, place) + self.apps.apps[self.app].first_own;
            (page..page + slot.request.sectors / PAGE_SECTORS).for_each(|page| self.cache.put(page));
        }
        if self.work > Ns::ZERO && slot.request.op == sim::seam::BlockOp::Read {
            self.sleep(slot.owner, now);
            return Ok(());
        }
        self.advance(slot.owner, now)
    }
}

#[cfg(test)]
mod tests {
    use sim::Seed;
    use sim::seam::{BlockOp, RamDisk};

    use super::super::report::Span;
    use super::*;
    use crate::apps::tests::small;
    use crate::apps::{Apps, Kind, Order};

    type Seen = Vec<(BlockRequest, Span)>;

    fn run(model: Apps, servers: usize, limits: Limits) -> (Report, Vec<Cycle>, Seen) {
        let installed = Installed::new(model, Seed(1)).unwrap();
        let mut disk = RamDisk::new(64 << 10, 32, servers, Ns::from_us(10));
        let mut seen = Vec::new();
        let mut see = |_: usize, request: &BlockRequest, span: Span, _: bool| seen.push((*request, span));
        let (report, cycles) = launches(&mut disk, &installed, Ns::ZERO, limits, &mut see);
        (report, cycles, seen)
    }

    /// One app, one reader, no chance but in its places: times by hand.
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
        // The second time all is in the cache: the work is left.
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
        // Two readers and two servers: three rounds of 17 us, in the last of which one has nothing to do.
        let (_, cycles, _) = run(Apps { readers: 2, ..one() }, 2, Limits::NONE);
        assert_eq!(cycles[0].to, Ns::from_us(51));
    }

    #[test]
    fn a_read_asks_for_what_the_cache_lacks() {
        // The cache has 36 of the 40 pages, the last ones; the loop takes each of them before it comes round.
        let (_, cycles, _) = run(Apps { cache_pages: 36, ..one() }, 1, Limits::NONE);
        assert_eq!((cycles[1].hits, cycles[1].requests), (0, 5));
        // The first request lacks its first four pages, and each eviction moves on by as many.
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
