//! Emptying of blocks: collection, levelling, folding, retirement; and when the host waits for them.

use super::*;

/// A block whose valid pages are being copied out, and the progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) block: u32,
    /// Pages before this one are done.
    next: u32,
    end: u32,
    pub(super) cause: Cause,
    /// Whether the host waits for it, wholly or in shares.
    urgent: bool,
    /// Steps in all, as estimated when it began; steps done; host pages placed since it became urgent; and the number
    /// of host pages that it is spread over.
    steps: u64,
    done: u64,
    hosts: u64,
    share: u64,
    /// Steps due before the next host page, under [`Foreground::Paced`].
    due: u64,
}

impl Job {
    /// Pages not examined yet.
    pub(super) fn rest(&self) -> std::ops::Range<u32> {
        self.next..self.end
    }

    /// The job after all pages before `next` are done, `copies` more of them valid.
    pub(super) fn after(self, next: u32, copies: u32) -> Job {
        Job { next, done: self.done + u64::from(copies), ..self }
    }

    /// Whether the host waits for it.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Computes the steps due before the host's next row of `planes` pages.
    fn foresee(&mut self, planes: u32) {
        let planes = u64::from(planes);
        let hosts = (self.hosts / planes + 1) * planes;
        self.due = (hosts * self.steps).div_ceil(self.share);
    }
}

/// Result of one step of a job.
enum Progress {
    Work(Step),
    /// A failing block was empty and was retired, which needs no flash operation.
    Retired,
    /// There is no free page to copy to.
    Stuck,
}

impl PageFtl {
    /// Opens the frontier for the next host page and returns its index; or returns the work that must be done first.
    #[inline(always)]
    pub(super) fn make_room(&mut self) -> Result<usize, Place> {
        loop {
            self.begin_urgent();
            if let Some(job) = self.job
                && self.is_due(&job)
            {
                match self.advance() {
                    Progress::Work(step) => return Err(Place::Work(step)),
                    Progress::Retired => continue,
                    // The host may still have room; if not, that is reported below.
                    Progress::Stuck => {}
                }
            }
            if let Some(slc) = self.config.slc {
                if self.open(SLC) {
                    return Ok(SLC);
                }
                if slc.when_full == SlcFull::Fold && (self.fold.is_some() || self.begin_fold()) {
                    return Err(self.fold_step().map_or(Place::Full, Place::Work));
                }
            }
            if self.host_has_room() {
                self.open(HOST);
                return Ok(HOST);
            }
            if let Some(refusal) = self.collect_step() {
                return Err(refusal);
            }
        }
    }

    /// A step of collection that a host page waits for; `None` if a failing block was retired, which takes no step.
    #[inline(always)]
    fn collect_step(&mut self) -> Option<Place> {
        match &mut self.job {
            Some(job) => job.urgent = true,
            None => {
                if !self.begin_collection(true) {
                    return Some(Place::Full);
                }
            }
        }
        match self.advance() {
            Progress::Work(step) => Some(Place::Work(step)),
            Progress::Retired => None,
            Progress::Stuck => Some(Place::Full),
        }
    }

    /// Counts a host page that is about to be placed, for paced jobs.
    pub(super) fn host_page_comes(&mut self) {
        if let Some(job) = &mut self.job
            && job.urgent
        {
            job.hosts += 1;
            job.foresee(self.config.planes);
        }
    }

    /// The physical page that the next host page gets; `None` if work must be done first or no frontier is open.
    pub(super) fn undisturbed(&self) -> Option<u32> {
        let due = match self.job {
            Some(job) => self.is_due(&job) || (!job.urgent && self.pacing()),
            None => !self.failing.is_empty() || self.levelling_due() || self.pacing(),
        };
        let slc_takes = self.frontiers[SLC].room() > 0 || !self.slc_free.is_empty();
        let frontier = self.frontiers[if slc_takes { SLC } else { HOST }];
        let folds_first = self.config.slc.is_some_and(|slc| slc.when_full == SlcFull::Fold) && !slc_takes;
        let room = frontier.room() > 0 && (slc_takes || self.host_has_room());
        (!due && !folds_first && room).then_some(frontier.next)
    }

    /// Whether steps of a job come before the next host page.
    ///
    /// Paced steps come only before a row, a page on each plane, and in whole rows: one program operation then serves
    /// all planes, of host data and of copies alike.
    pub(super) fn is_due(&self, job: &Job) -> bool {
        let in_row = |frontier: Frontier| frontier.room() > 0 && self.by_planes.remainder(frontier.next) > 0;
        match self.config.foreground {
            Foreground::Block => job.urgent,
            Foreground::Paced => {
                let copies_left = job.done + 1 < job.steps;
                let begun = job.done > 0 && copies_left && in_row(self.frontiers[self.frontier_for(job.cause)]);
                job.urgent && self.is_before_row() && (job.done < job.due || begun)
            }
        }
    }

    /// Whether the next host page is the first of a row.
    fn is_before_row(&self) -> bool {
        let frontier = self.frontiers[if self.frontiers[SLC].room() > 0 { SLC } else { HOST }];
        frontier.room() == 0 || self.by_planes.remainder(frontier.next) == 0
    }

    /// Whether paced collection is under way. A victim is begun as soon as the last one is erased, so that the pages
    /// left, in free blocks and in frontiers, stay within a block's pages.
    fn pacing(&self) -> bool {
        self.config.foreground == Foreground::Paced && self.pages_left() <= self.paced_below() && self.is_before_row()
    }

    /// Pages that can be handed out before a block is erased.
    fn pages_left(&self) -> u32 {
        let copied = if self.config.separate { self.frontiers[COPIED].room() } else { 0 };
        self.free.len() * self.config.pages + self.frontiers[HOST].room() + copied
    }

    /// Pages left at which paced collection begins: the host's reserve, a block that the host fills and one that copies
    /// fill while the victim is emptied.
    fn paced_below(&self) -> u32 {
        (self.config.gc_low + 2) * self.config.pages
    }

    /// Host pages that may follow before a job begins.
    pub(super) fn pages_until_job(&self) -> u32 {
        match self.config.foreground {
            Foreground::Block => u32::MAX,
            Foreground::Paced => self.pages_left().saturating_sub(self.paced_below()),
        }
    }

    /// Whether a normal block has room for a host page, with `gc_low` blocks left free. If copies go to the same
    /// frontier, host data stay out of the last free block until the job that opened it has freed another. So if power
    /// is lost in between, everything in that block is also in the victim, and the block is free again.
    fn host_has_room(&self) -> bool {
        let (room, free) = (self.frontiers[HOST].room(), self.free.len());
        if room == 0 {
            return free > self.config.gc_low + self.promised();
        }
        self.job.is_none_or(|job| {
            let may_open = free > if job.cause == Cause::Gc { 0 } else { self.config.gc_low };
            self.frontier_for(job.cause) != HOST || may_open
        })
    }

    /// Free blocks beyond `gc_low` that the job in progress may open.
    fn promised(&self) -> u32 {
        match self.job {
            Some(job) if job.cause != Cause::Gc => {
                u32::from(self.index.valid(job.block) > self.frontiers[self.frontier_for(job.cause)].room())
            }
            _ => 0,
        }
    }

    pub(super) fn frontier_for(&self, cause: Cause) -> usize {
        if cause == Cause::WearLevel { LEVELLED } else { self.copied() }
    }

    /// Begins jobs that must keep up with the host: retirement, levelling, paced collection.
    fn begin_urgent(&mut self) {
        if self.job.is_none() && !self.begin_retirement(true) && self.levelling_due() {
            self.begin_levelling(true);
        }
        if self.pacing() {
            match &mut self.job {
                Some(job) => job.urgent = true,
                None => {
                    self.begin_collection(true);
                }
            }
        }
    }

    /// Whether `pages` copies that free no block fit without using the blocks reserved for collection.
    fn fits_beside(&self, frontier: usize, pages: u32) -> bool {
        self.frontiers[frontier].room() >= pages || self.free.len() > self.config.gc_low
    }

    fn begin_retirement(&mut self, urgent: bool) -> bool {
        let Some(&block) = self.failing.front() else {
            return false;
        };
        if !self.fits_beside(self.copied(), self.index.valid(block)) {
            return false;
        }
        self.failing.pop_front();
        self.begin(block, Cause::Recovery, urgent);
        true
    }

    /// Whether the host must wait for a block to be levelled.
    pub(super) fn levelling_due(&self) -> bool {
        self.levels().is_some_and(|(threshold, every)| {
            self.since_levelled >= every && self.spread.difference() > threshold && self.free.len() > self.config.gc_low
        })
    }

    fn begin_levelling(&mut self, urgent: bool) -> bool {
        let Some((threshold, _)) = self.levels() else {
            return false;
        };
        self.since_levelled = 0;
        let erases = |block: u32| self.erases[block as usize];
        let Some(coldest) = self.index.oldest_first().min_by_key(|&block| erases(block)) else {
            return false;
        };
        let most = self.free.iter().map(erases).max().unwrap_or(0);
        if most.saturating_sub(erases(coldest)) <= threshold || !self.fits_beside(LEVELLED, self.index.valid(coldest)) {
            return false;
        }
        self.index.remove(coldest);
        self.begin(coldest, Cause::WearLevel, urgent);
        true
    }

    /// Chooses a victim whose valid pages find room. Returns false if no block can be freed, or, of an idle unit, none
    /// with `gc_background_gain` invalid pages.
    fn begin_collection(&mut self, urgent: bool) -> bool {
        let pages = self.config.pages;
        let room = self.frontiers[self.copied()].room() + if self.free.is_empty() { 0 } else { pages };
        let least = if urgent { 0 } else { self.config.gc_background_gain };
        let suits = |block: &u32| self.index.valid(*block) <= room && pages - self.index.valid(*block) >= least;
        let gains = |block: &u32| suits(block) && self.index.valid(*block) < pages;
        let Some(greedy) = self.index.greedy().filter(gains) else {
            return false;
        };
        // If a policy keeps choosing blocks without an invalid page, or blocks that do not suit, greedy chooses instead.
        let chosen = if self.fruitless > self.index.candidates() {
            None
        } else {
            self.index.choose(self.config.gc, pages, self.clock, &mut self.rng).filter(suits)
        };
        let victim = chosen.unwrap_or(greedy);
        self.fruitless = if self.index.valid(victim) < pages { 0 } else { self.fruitless + 1 };
        self.index.remove(victim);
        self.begin(victim, Cause::Gc, urgent);
        true
    }

    fn begin(&mut self, block: u32, cause: Cause, urgent: bool) {
        self.become_state(block, BlockState::Victim);
        let valid = self.index.valid(block);
        let share = if cause == Cause::Gc { (self.config.pages - valid).max(1) } else { self.config.pages };
        let next = block * self.config.pages;
        let mut job = Job {
            block,
            next,
            end: next + self.capacity(block),
            cause,
            urgent,
            steps: u64::from(valid) + 1,
            done: 0,
            hosts: 0,
            share: u64::from(share),
            due: 0,
        };
        job.foresee(self.config.planes);
        self.job = Some(job);
    }

    /// The next step of the job in progress. Inlined, as are the functions that pass the step on: a step that goes
    /// through memory is read back in other pieces than it was written in, which stalls the processor.
    #[inline(always)]
    fn advance(&mut self) -> Progress {
        let job = self.job.as_ref().expect("a job is under way");
        let (victim, first, cause) = (job.block, job.next, job.cause);
        let frontier = self.frontier_for(cause);
        if let Some(from) = self.next_valid(first, job.end) {
            if !self.open(frontier) {
                return Progress::Stuck;
            }
            let to = self.hand_out_copy(frontier, victim, from, cause);
            if let Some(job) = &mut self.job {
                job.next = from + 1;
                job.done += 1;
            }
            self.expect_copies(first..from + 1, to);
            return Progress::Work(Step::Copy { from, to, cause });
        }
        self.finish_emptied().map_or(Progress::Retired, Progress::Work)
    }

    /// Prefetches table entries that later copies will use, after pages `seen` have been examined; between two steps of
    /// a unit, other units run. `l2p` is so large that even address translation of an entry takes a walk through
    /// memory, for which the processor waits. Walks that begin together overlap, so entries are prefetched in groups,
    /// and each once more shortly before its use, which costs little then.
    #[inline]
    fn expect_copies(&self, seen: std::ops::Range<u32>, to: u32) {
        const GROUP: usize = 8;
        /// Number of entries in a cache line.
        const LINE: usize = 16;
        let (start, end) = (seen.start as usize, seen.end as usize);
        let next = end.next_multiple_of(GROUP);
        // `seen` entered the group that ends at `next`: prefetch the one from `next` on.
        if next - start >= GROUP {
            prefetch(&self.p2l, next + GROUP + LINE - 1);
            for &lpn in self.p2l.get(next..next + GROUP).unwrap_or_default() {
                prefetch(&self.l2p, lpn as usize);
            }
        }
        if let Some(&soon) = self.p2l.get(end + 1) {
            prefetch(&self.l2p, soon as usize);
        }
        prefetch(&self.p2l, to as usize + LINE / 2);
    }

    /// Ends a job whose block has no valid page left: the block is erased, or retired without an erase.
    pub(super) fn finish_emptied(&mut self) -> Option<Step> {
        let job = self.job.take()?;
        if job.cause == Cause::Recovery {
            self.become_state(job.block, BlockState::Bad);
            self.retired += 1;
            self.spread = self.spread_of_good_blocks();
            return None;
        }
        Some(self.erase(job))
    }

    /// The first valid page of `first..end`.
    #[inline]
    fn next_valid(&self, first: u32, end: u32) -> Option<u32> {
        let rest = &self.p2l[first as usize..end as usize];
        rest.iter().position(|&lpn| lpn != NONE).map(|place| first + place as u32)
    }

    fn erase(&mut self, job: Job) -> Step {
        self.become_state(job.block, BlockState::Erasing);
        self.erased[job.cause] += 1;
        Step::Erase { block: job.block, cause: job.cause }
    }

    /// Begins to fold the oldest closed SLC block. Returns false if there is none.
    fn begin_fold(&mut self) -> bool {
        let Some(block) = self.slc_closed.pop_front() else {
            return false;
        };
        self.become_state(block, BlockState::Victim);
        let next = block * self.config.pages;
        let end = next + self.capacity(block);
        let steps = u64::from(self.index.valid(block)) + 1;
        let cause = Cause::Gc;
        self.fold = Some(Job { block, next, end, cause, urgent: true, steps, done: 0, hosts: 0, share: 1, due: steps });
        true
    }

    /// The next step of the fold in progress. Its pages go where host pages go, and wait for collection as they do.
    fn fold_step(&mut self) -> Option<Step> {
        let job = self.fold.expect("a fold is under way");
        let Some(from) = self.next_valid(job.next, job.end) else {
            self.fold = None;
            return Some(self.erase(job));
        };
        while !self.host_has_room() {
            match self.collect_step() {
                Some(Place::Work(step)) => return Some(step),
                Some(_) => return None,
                None => {}
            }
        }
        self.open(HOST);
        let to = self.hand_out_copy(HOST, job.block, from, job.cause);
        self.folded += 1;
        self.fold = Some(job.after(from + 1, 1));
        Some(Step::Copy { from, to, cause: job.cause })
    }

    /// Background work of an idle unit; see [`UnitFtl::housekeeping`].
    pub(super) fn idle_step(&mut self) -> Option<Step> {
        loop {
            if self.job.is_none() && !self.begin_retirement(false) {
                let folds = self.config.slc.is_some_and(|slc| slc.folds_idle);
                if self.fold.is_some() || folds && self.begin_fold() {
                    return self.fold_step();
                }
                let wanted = self.free.len() < self.config.gc_background && self.begin_collection(false);
                if !wanted && !self.begin_idle_levelling() {
                    return None;
                }
            }
            match self.advance() {
                Progress::Work(step) => return Some(step),
                Progress::Retired => {}
                Progress::Stuck => return None,
            }
        }
    }

    fn begin_idle_levelling(&mut self) -> bool {
        self.levels().is_some_and(|(threshold, _)| self.spread.difference() > threshold) && self.begin_levelling(false)
    }

    /// Withdraws `block` after a failed program: no more page of it is allocated, and it will be emptied and retired.
    pub(super) fn give_up(&mut self, block: u32) {
        match self.state[block as usize] {
            BlockState::Open => {
                let frontiers = self.frontiers;
                for (at, frontier) in frontiers.into_iter().enumerate() {
                    if self.is_frontier(frontier, block) {
                        self.written[block as usize] -= frontier.room();
                        self.frontiers[at] = Frontier::default();
                    }
                }
            }
            BlockState::Closed if self.slc[block as usize] => self.slc_closed.retain(|&other| other != block),
            BlockState::Closed => self.index.remove(block),
            BlockState::Victim => {
                if self.fold.is_some_and(|job| job.block == block) {
                    self.fold = None;
                } else {
                    self.job = None;
                }
            }
            BlockState::Erasing | BlockState::Failing | BlockState::Bad | BlockState::Free => return,
        }
        self.become_state(block, BlockState::Failing);
        self.failing.push_back(block);
    }
}
