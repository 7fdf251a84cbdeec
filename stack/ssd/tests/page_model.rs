//! The page-level FTL against its rules written down without indices: every step of collection, levelling and retirement,
//! and every place, are those of a model that counts and searches anew each time.

use std::collections::{BTreeMap, VecDeque};

use sim::{Cause, Rng, Seed};
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::page::{BlockState, Foreground, PageConfig, PageFtl, SlcCache, SlcFull};
use ssd::ftl::wear::Wear;
use ssd::ftl::{NONE, Place, Step, UnitFtl};

const HOST: usize = 0;
const COPIED: usize = 1;
const LEVELLED: usize = 2;
const SLC: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Job {
    block: u32,
    next: u32,
    cause: Cause,
    urgent: bool,
    /// Its copies and its erase; those done; the host pages over which it is spread, and those placed since.
    steps: u64,
    done: u64,
    share: u64,
    hosts: u64,
}

#[derive(Clone)]
struct Model {
    config: PageConfig,
    rng: Rng,
    l2p: Vec<u32>,
    p2l: Vec<u32>,
    state: Vec<BlockState>,
    erases: Vec<u32>,
    closed_at: Vec<u64>,
    /// Free blocks in the order in which they became free.
    free: Vec<u32>,
    /// Next page of each open block, and one past its last.
    frontiers: [Option<(u32, u32)>; 4],
    job: Option<Job>,
    /// Which blocks are in SLC mode; those that are free, and those that are full, oldest first; the one being folded.
    slc: Vec<bool>,
    slc_free: Vec<u32>,
    slc_closed: VecDeque<u32>,
    fold: Option<Job>,
    folded: u64,
    failing: VecDeque<u32>,
    /// Victims in succession without an invalid page.
    fruitless: usize,
    since_levelled: u32,
    clock: u64,
    retired: u32,
    /// Pages that were programmed in blocks found half full at a power-on.
    half_full: BTreeMap<u32, u32>,
}

enum Progress {
    Work(Step),
    Retired,
    Stuck,
}

impl Model {
    fn new(config: &PageConfig, rng: Rng) -> Model {
        let blocks = config.blocks as usize;
        let mut state = vec![BlockState::Free; blocks];
        config.bad.iter().for_each(|&bad| state[bad as usize] = BlockState::Bad);
        let good = (0..config.blocks).filter(|block| !config.bad.contains(block));
        let (slc_free, free): (Vec<u32>, Vec<u32>) = {
            let most = config.slc.map_or(0, |slc| slc.blocks as usize);
            (good.clone().take(most).collect(), good.skip(most).collect())
        };
        let slc = (0..config.blocks).map(|block| slc_free.contains(&block)).collect();
        Model {
            config: config.clone(),
            rng,
            l2p: vec![NONE; config.lpns as usize],
            p2l: vec![NONE; blocks * config.pages as usize],
            free,
            slc,
            slc_free,
            slc_closed: VecDeque::new(),
            fold: None,
            folded: 0,
            state,
            erases: vec![0; blocks],
            closed_at: vec![0; blocks],
            frontiers: [None; 4],
            job: None,
            failing: VecDeque::new(),
            fruitless: 0,
            since_levelled: 0,
            clock: 0,
            retired: 0,
            half_full: BTreeMap::new(),
        }
    }

    /// After a loss of power: every block with a programmed page is closed, in the order of their newest pages. The
    /// newest page of a logical page counts. Of copies, which have their source's number, those of a block that has
    /// nothing but copies do not, lowest block first; then the lowest page counts.
    fn rebuild(config: &PageConfig, rng: Rng, erases: Vec<u32>, bad: &[u32], tags: &[Tag]) -> Model {
        let mut model = Model { erases, ..Model::new(config, rng) };
        let mut tags = tags.to_vec();
        for &block in bad {
            model.state[block as usize] = BlockState::Bad;
            tags[model.pages(block)].fill(None);
        }
        let seq_of = |lpn: u32| {
            let of_page = tags.iter().flatten().flatten().filter(move |tag| tag.0 == lpn);
            of_page.map(|tag| tag.1).max()
        };
        let newest: Vec<Option<u64>> = (0..config.lpns).map(seq_of).collect();
        let counts = |ppn: usize| tags[ppn].flatten().filter(|&(lpn, seq)| newest[lpn as usize] == Some(seq));
        let mut copies = vec![0; config.lpns as usize];
        (0..tags.len()).filter_map(counts).for_each(|(lpn, _)| copies[lpn as usize] += 1);
        let mut closed = Vec::new();
        for block in (0..config.blocks).filter(|&block| model.state[block as usize] != BlockState::Bad) {
            let pages = model.pages(block);
            let Some(last) = pages.clone().rev().find(|&ppn| tags[ppn].is_some()) else { continue };
            let highest = pages.clone().filter_map(|ppn| tags[ppn].flatten()).map(|tag| tag.1).max();
            closed.push((highest.unwrap_or(0), block));
            model.half_full.insert(block, (last - pages.start) as u32 + 1);
            let mut held: Vec<u32> = pages.clone().filter_map(counts).map(|(lpn, _)| lpn).collect();
            held.sort_unstable();
            let distinct = held.windows(2).all(|pair| pair[0] != pair[1]);
            if distinct && held.iter().all(|&lpn| copies[lpn as usize] > 1) {
                held.iter().for_each(|&lpn| copies[lpn as usize] -= 1);
                continue;
            }
            for ppn in pages {
                if let Some((lpn, _)) = counts(ppn)
                    && model.l2p[lpn as usize] == NONE
                {
                    (model.l2p[lpn as usize], model.p2l[ppn]) = (ppn as u32, lpn);
                }
            }
        }
        closed.sort_unstable();
        for (_, block) in closed {
            model.clock += u64::from(config.pages);
            (model.state[block as usize], model.closed_at[block as usize]) = (BlockState::Closed, model.clock);
            if model.slc[block as usize] {
                model.slc_closed.push_back(block);
            }
        }
        let is_free = |block: &u32| model.state[*block as usize] == BlockState::Free;
        (model.free, model.slc_free) = (
            model.free.iter().copied().filter(is_free).collect(),
            model.slc_free.iter().copied().filter(is_free).collect(),
        );
        model
    }

    fn pages(&self, block: u32) -> std::ops::Range<usize> {
        let pages = self.config.pages as usize;
        block as usize * pages..(block as usize + 1) * pages
    }

    fn valid(&self, block: u32) -> u32 {
        self.p2l[self.pages(block)].iter().filter(|&&lpn| lpn != NONE).count() as u32
    }

    fn capacity(&self, block: u32) -> u32 {
        self.config.slc.filter(|_| self.slc[block as usize]).map_or(self.config.pages, |slc| slc.pages)
    }

    fn free(&self) -> u32 {
        self.free.len() as u32
    }

    fn room(&self, frontier: usize) -> u32 {
        self.frontiers[frontier].map_or(0, |(next, end)| end - next)
    }

    fn copied(&self) -> usize {
        if self.config.separate { COPIED } else { HOST }
    }

    fn frontier_for(&self, cause: Cause) -> usize {
        if cause == Cause::WearLevel { LEVELLED } else { self.copied() }
    }

    fn handed_out(&self, block: u32) -> u32 {
        let open = self.frontiers.iter().flatten().find(|(next, _)| next / self.config.pages == block);
        match self.state[block as usize] {
            BlockState::Free | BlockState::Bad => 0,
            _ if self.half_full.contains_key(&block) => self.half_full[&block],
            _ => open.map_or(self.capacity(block), |(next, _)| next % self.config.pages),
        }
    }

    fn open(&mut self, frontier: usize) -> bool {
        if self.room(frontier) > 0 {
            return true;
        }
        let erases = |block: &u32| (self.erases[*block as usize], *block);
        let pool = if frontier == SLC { &self.slc_free } else { &self.free };
        let block = match (self.config.wear, frontier) {
            (Wear::None, _) => pool.first(),
            (_, HOST | SLC) => pool.iter().min_by_key(|block| erases(block)),
            _ => pool.iter().max_by_key(|block| erases(block)),
        };
        let Some(&block) = block else { return false };
        self.free.retain(|&other| other != block);
        self.slc_free.retain(|&other| other != block);
        self.state[block as usize] = BlockState::Open;
        let first = block * self.config.pages;
        self.frontiers[frontier] = Some((first, first + self.capacity(block)));
        true
    }

    fn put(&mut self, frontier: usize, lpn: u32) -> u32 {
        let (next, end) = self.frontiers[frontier].expect("an open block");
        self.forget(lpn);
        (self.l2p[lpn as usize], self.p2l[next as usize]) = (next, lpn);
        self.clock += 1;
        self.frontiers[frontier] = Some((next + 1, end)).filter(|_| next + 1 < end);
        if next + 1 == end {
            let block = (next / self.config.pages) as usize;
            (self.state[block], self.closed_at[block]) = (BlockState::Closed, self.clock);
            if frontier == SLC {
                self.slc_closed.push_back(block as u32);
            }
        }
        next
    }

    fn forget(&mut self, lpn: u32) {
        let old = std::mem::replace(&mut self.l2p[lpn as usize], NONE);
        if old != NONE {
            self.p2l[old as usize] = NONE;
        }
    }

    fn spread(&self) -> u32 {
        let good = || (0..self.state.len()).filter(|&at| self.state[at] != BlockState::Bad).map(|at| self.erases[at]);
        good().max().unwrap_or(0) - good().min().unwrap_or(0)
    }

    /// Closed blocks, in ascending order.
    fn candidates(&self) -> Vec<u32> {
        let closed = |&block: &u32| self.state[block as usize] == BlockState::Closed && !self.slc[block as usize];
        (0..self.config.blocks).filter(closed).collect()
    }

    fn oldest_first(&self) -> Vec<u32> {
        let mut all = self.candidates();
        all.sort_by_key(|&block| self.closed_at[block as usize]);
        all
    }

    fn choose(&mut self) -> Option<u32> {
        let all = self.candidates();
        let fewest = |blocks: &[u32]| blocks.iter().copied().min_by_key(|&block| (self.valid(block), block));
        match self.config.gc {
            GcPolicy::Greedy => fewest(&all),
            GcPolicy::Fifo => self.oldest_first().first().copied(),
            GcPolicy::Windowed { window } => {
                self.oldest_first().into_iter().take(window as usize).min_by_key(|&block| self.valid(block))
            }
            GcPolicy::CostBenefit => {
                if let Some(&empty) = all.iter().find(|&&block| self.valid(block) == 0) {
                    return Some(empty);
                }
                // (1 - u) / 2u * age, as a fraction; the first of equals.
                let mut best: Option<(u32, u64, u64)> = None;
                for block in self.oldest_first() {
                    let valid = u64::from(self.valid(block));
                    let gain = (u64::from(self.config.pages) - valid) * (self.clock - self.closed_at[block as usize]);
                    if best.is_none_or(|(_, other, cost)| gain * cost > other * valid) {
                        best = Some((block, gain, valid));
                    }
                }
                best.map(|(block, ..)| block)
            }
            GcPolicy::Random | GcPolicy::DChoices { .. } => {
                let draws = if let GcPolicy::DChoices { d } = self.config.gc { d } else { 1 };
                if all.is_empty() {
                    return None;
                }
                let mut drawn = Vec::new();
                for _ in 0..draws {
                    drawn.push(all[self.rng.below(all.len() as u64) as usize]);
                }
                drawn.into_iter().min_by_key(|&block| (self.valid(block), block))
            }
        }
    }

    fn host_has_room(&self) -> bool {
        let Some(job) = self.job else {
            return self.room(HOST) > 0 || self.free() > self.config.gc_low;
        };
        if self.room(HOST) > 0 {
            // Where copies share the host's block, the last free blocks stay for them.
            let last = if job.cause == Cause::Gc { 0 } else { self.config.gc_low };
            return self.frontier_for(job.cause) != HOST || self.free() > last;
        }
        // A job that frees no block may still have to open one.
        let opens = job.cause != Cause::Gc && self.valid(job.block) > self.room(self.frontier_for(job.cause));
        self.free() > self.config.gc_low + u32::from(opens)
    }

    fn fits_beside(&self, frontier: usize, block: u32) -> bool {
        self.room(frontier) >= self.valid(block) || self.free() > self.config.gc_low
    }

    fn begin(&mut self, block: u32, cause: Cause, urgent: bool) {
        self.state[block as usize] = BlockState::Victim;
        let valid = self.valid(block);
        let share = if cause == Cause::Gc { (self.config.pages - valid).max(1) } else { self.config.pages };
        let (steps, share) = (u64::from(valid) + 1, u64::from(share));
        self.job = Some(Job { block, next: block * self.config.pages, cause, urgent, steps, done: 0, share, hosts: 0 });
    }

    fn begin_retirement(&mut self, urgent: bool) -> bool {
        let Some(&block) = self.failing.front() else { return false };
        if !self.fits_beside(self.copied(), block) {
            return false;
        }
        self.failing.pop_front();
        self.begin(block, Cause::Recovery, urgent);
        true
    }

    fn begin_levelling(&mut self, threshold: u32, urgent: bool) -> bool {
        self.since_levelled = 0;
        let coldest = self.oldest_first().into_iter().min_by_key(|&block| self.erases[block as usize]);
        let Some(coldest) = coldest else { return false };
        let most = self.free.iter().map(|&block| self.erases[block as usize]).max().unwrap_or(0);
        if most <= self.erases[coldest as usize] + threshold || !self.fits_beside(LEVELLED, coldest) {
            return false;
        }
        self.begin(coldest, Cause::WearLevel, urgent);
        true
    }

    fn begin_collection(&mut self, urgent: bool) -> bool {
        let pages = self.config.pages;
        let room = self.room(self.copied()) + if self.free.is_empty() { 0 } else { pages };
        let least = if urgent { 0 } else { self.config.gc_background_gain };
        let suits = |model: &Model, block: u32| model.valid(block) <= room && pages - model.valid(block) >= least;
        let all = self.candidates();
        let Some(greedy) = all.iter().copied().min_by_key(|&block| (self.valid(block), block)) else { return false };
        if !suits(self, greedy) || self.valid(greedy) == pages {
            return false;
        }
        let chosen = if self.fruitless > all.len() { None } else { self.choose() };
        let victim = chosen.filter(|&block| suits(self, block)).unwrap_or(greedy);
        self.fruitless = if self.valid(victim) == pages { self.fruitless + 1 } else { 0 };
        self.begin(victim, Cause::Gc, urgent);
        true
    }

    fn advance(&mut self) -> Progress {
        let job = self.job.expect("a job");
        let from = (job.next as usize..self.pages(job.block).end).find(|&ppn| self.p2l[ppn] != NONE);
        let Some(from) = from else {
            self.job = None;
            if job.cause == Cause::Recovery {
                self.state[job.block as usize] = BlockState::Bad;
                self.retired += 1;
                return Progress::Retired;
            }
            self.state[job.block as usize] = BlockState::Erasing;
            return Progress::Work(Step::Erase { block: job.block, cause: job.cause });
        };
        let frontier = self.frontier_for(job.cause);
        if !self.open(frontier) {
            return Progress::Stuck;
        }
        let to = self.put(frontier, self.p2l[from]);
        let from = from as u32;
        self.job = Some(Job { next: from + 1, done: job.done + 1, ..job });
        Progress::Work(Step::Copy { from, to, cause: job.cause })
    }

    /// Whether the next host page is the first of a row, a page on each plane.
    fn is_before_row(&self) -> bool {
        let frontier = if self.room(SLC) > 0 { SLC } else { HOST };
        self.frontiers[frontier].is_none_or(|(next, _)| next % self.config.planes == 0)
    }

    /// Paced collection: fewer than `gc_low + 2` blocks of pages are left.
    fn paces(&self) -> bool {
        let copied = if self.config.separate { self.room(COPIED) } else { 0 };
        let left = self.free() * self.config.pages + self.room(HOST) + copied;
        let short = left <= (self.config.gc_low + 2) * self.config.pages;
        self.config.foreground == Foreground::Paced && short && self.is_before_row()
    }

    /// Whether a step of the job comes before the next host page.
    fn is_due(&self) -> bool {
        let Some(job) = self.job.filter(|job| job.urgent) else { return false };
        if self.config.foreground == Foreground::Block {
            return true;
        }
        let planes = u64::from(self.config.planes);
        // With the row that comes, so many host pages are placed: their share of the steps is due.
        let hosts = (job.hosts / planes + 1) * planes;
        let due = job.done * job.share < hosts * job.steps;
        // A row of copies that was begun is completed; the erase is not part of it.
        let in_row =
            self.frontiers[self.frontier_for(job.cause)].is_some_and(|(next, _)| next % self.config.planes > 0);
        self.is_before_row() && (due || in_row && job.done > 0 && job.done + 1 < job.steps)
    }

    fn begin_fold(&mut self) -> bool {
        let Some(block) = self.slc_closed.pop_front() else { return false };
        self.state[block as usize] = BlockState::Victim;
        let next = block * self.config.pages;
        self.fold = Some(Job { block, next, cause: Cause::Gc, urgent: true, steps: 0, done: 0, share: 1, hosts: 0 });
        true
    }

    fn fold_step(&mut self) -> Option<Step> {
        let job = self.fold.expect("a fold");
        let from = (job.next as usize..self.pages(job.block).end).find(|&ppn| self.p2l[ppn] != NONE);
        let Some(from) = from else {
            self.fold = None;
            self.state[job.block as usize] = BlockState::Erasing;
            return Some(Step::Erase { block: job.block, cause: Cause::Gc });
        };
        while !self.host_has_room() {
            match self.collect() {
                Some(Place::Work(step)) => return Some(step),
                Some(_) => return None,
                None => {}
            }
        }
        self.open(HOST);
        let to = self.put(HOST, self.p2l[from]);
        self.folded += 1;
        self.fold = Some(Job { next: from as u32 + 1, ..job });
        Some(Step::Copy { from: from as u32, to, cause: Cause::Gc })
    }

    /// A step of collection that the host waits for; `None`: a block was retired, which takes none.
    fn collect(&mut self) -> Option<Place> {
        if let Some(job) = &mut self.job {
            job.urgent = true;
        } else if !self.begin_collection(true) {
            return Some(Place::Full);
        }
        match self.advance() {
            Progress::Work(step) => Some(Place::Work(step)),
            Progress::Retired => None,
            Progress::Stuck => Some(Place::Full),
        }
    }

    fn host_page(&mut self, frontier: usize, lpn: u32) -> Place {
        if let Some(job) = self.job.as_mut().filter(|job| job.urgent) {
            job.hosts += 1;
        }
        Place::At(self.put(frontier, lpn))
    }

    fn place(&mut self, lpn: u32) -> Place {
        loop {
            if self.job.is_none()
                && !self.begin_retirement(true)
                && let Wear::Static { threshold, every } = self.config.wear
                && self.since_levelled >= every
                && self.spread() > threshold
                && self.free() > self.config.gc_low
            {
                self.begin_levelling(threshold, true);
            }
            if self.paces() {
                match &mut self.job {
                    Some(job) => job.urgent = true,
                    None => drop(self.begin_collection(true)),
                }
            }
            if self.is_due() {
                match self.advance() {
                    Progress::Work(step) => return Place::Work(step),
                    Progress::Retired => continue,
                    Progress::Stuck => {}
                }
            }
            if let Some(slc) = self.config.slc {
                if self.open(SLC) {
                    return self.host_page(SLC, lpn);
                }
                if slc.when_full == SlcFull::Fold && (self.fold.is_some() || self.begin_fold()) {
                    return self.fold_step().map_or(Place::Full, Place::Work);
                }
            }
            if self.host_has_room() {
                self.open(HOST);
                return self.host_page(HOST, lpn);
            }
            if let Some(refusal) = self.collect() {
                return refusal;
            }
        }
    }

    fn housekeeping(&mut self) -> Option<Step> {
        loop {
            if self.job.is_none() && !self.begin_retirement(false) {
                let folds = self.config.slc.is_some_and(|slc| slc.folds_idle);
                if self.fold.is_some() || folds && self.begin_fold() {
                    return self.fold_step();
                }
                let collects = self.free() < self.config.gc_background && self.begin_collection(false);
                let levels = match self.config.wear {
                    Wear::Static { threshold, .. } if !collects && self.spread() > threshold => {
                        self.begin_levelling(threshold, false)
                    }
                    _ => false,
                };
                if !collects && !levels {
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

    fn erased(&mut self, block: u32, ok: bool) {
        self.half_full.remove(&block);
        self.erases[block as usize] += 1;
        self.since_levelled += 1;
        if ok {
            self.state[block as usize] = BlockState::Free;
            if self.slc[block as usize] { &mut self.slc_free } else { &mut self.free }.push(block);
        } else {
            self.state[block as usize] = BlockState::Bad;
            self.retired += 1;
        }
    }

    fn program_failed(&mut self, ppn: u32) {
        if self.p2l[ppn as usize] != NONE {
            self.forget(self.p2l[ppn as usize]);
        }
        let block = ppn / self.config.pages;
        match self.state[block as usize] {
            BlockState::Open => {
                for frontier in &mut self.frontiers {
                    *frontier = frontier.filter(|(next, _)| next / self.config.pages != block);
                }
            }
            BlockState::Closed => self.slc_closed.retain(|&other| other != block),
            BlockState::Victim if self.fold.is_some_and(|fold| fold.block == block) => self.fold = None,
            BlockState::Victim => self.job = None,
            _ => return,
        }
        self.state[block as usize] = BlockState::Failing;
        self.failing.push_back(block);
    }
}

/// A programmed page's logical page and sequence number; `None` in it if it cannot be read.
type Tag = Option<Option<(u32, u64)>>;

/// Both, step by step.
struct Pair {
    ftl: PageFtl,
    model: Model,
    rng: Rng,
    /// Probability that a program or erase fails.
    failing: f64,
    told: [u64; 4],
    tags: Vec<Tag>,
    seq: u64,
}

impl Pair {
    fn step(&mut self, step: Step) -> Option<u32> {
        match step {
            Step::Erase { block, cause } => {
                let ok = !self.rng.chance(self.failing);
                self.ftl.erased(block, ok);
                self.model.erased(block, ok);
                self.tags[self.model.pages(block)].fill(None);
                self.told[usize::from(cause == Cause::WearLevel)] += 1;
                None
            }
            Step::Copy { from, to, .. } => {
                self.tags[to as usize] = self.tags[from as usize];
                self.program(to)
            }
            Step::Pad { .. } => panic!("a page-level layer pads nothing"),
        }
    }

    /// The logical page to write again, if the program failed.
    fn program(&mut self, ppn: u32) -> Option<u32> {
        if !self.rng.chance(self.failing) {
            return None;
        }
        self.tags[ppn as usize] = Some(None);
        let lpn = self.ftl.holds(ppn);
        self.ftl.program_failed(ppn);
        self.model.program_failed(ppn);
        self.told[2] += 1;
        (lpn != NONE).then_some(lpn)
    }

    /// Returns whether the unit has room.
    fn write(&mut self, lpn: u32) -> bool {
        let mut todo = vec![lpn];
        while let Some(&lpn) = todo.last() {
            let (found, expected) = (self.ftl.place(lpn), self.model.place(lpn));
            assert_eq!(found, expected, "page {lpn}");
            match found {
                Place::Full => return false,
                Place::Work(step) => todo.extend(self.step(step)),
                Place::At(ppn) => {
                    todo.pop();
                    self.seq += 1;
                    self.tags[ppn as usize] = Some(Some((lpn, self.seq)));
                    let planes = self.ftl.config().planes;
                    let next = self.model.clone().place(0);
                    let follows = (ppn + 1) % planes != 0 && next == Place::At(ppn + 1);
                    // While a block waits to be retired, the layer may say no although it would.
                    let found = self.ftl.follows(ppn, 0);
                    let plain = self.failing == 0.0 && self.ftl.config().foreground == Foreground::Block;
                    assert!(found == follows || follows && !plain, "after page {ppn}: {found}");
                    todo.extend(self.program(ppn));
                }
            }
        }
        true
    }

    fn rest(&mut self, most: u64) -> bool {
        for _ in 0..most {
            let (found, expected) = (self.ftl.housekeeping(), self.model.housekeeping());
            assert_eq!(found, expected, "background work");
            let Some(step) = found else { break };
            self.told[3] += 1;
            if let Some(lpn) = self.step(step)
                && !self.write(lpn)
            {
                return false;
            }
        }
        true
    }

    /// Power is lost between two operations.
    fn lose_power(&mut self, rng: &Rng) {
        let config = self.model.config.clone();
        let erases = self.model.erases.clone();
        let is_bad = |&block: &u32| self.model.state[block as usize] == BlockState::Bad;
        let bad: Vec<u32> = (0..config.blocks).filter(is_bad).collect();
        // In any order.
        let programmed = (0..self.tags.len()).rev().filter_map(|ppn| Some((ppn as u32, self.tags[ppn]?)));
        self.ftl =
            PageFtl::rebuild(config.clone(), rng.clone(), erases.clone(), &bad, programmed).expect("what it wrote");
        self.model = Model::rebuild(&config, rng.clone(), erases, &bad, &self.tags);
        self.check();
    }

    fn check(&self) {
        self.ftl.check();
        let lookups: Vec<u32> = (0..self.model.config.lpns).map(|lpn| self.ftl.lookup(lpn)).collect();
        assert_eq!(lookups, self.model.l2p);
        assert_eq!(self.ftl.erase_counts(), self.model.erases);
        assert_eq!((self.ftl.free_blocks(), self.ftl.retired_blocks()), (self.model.free(), self.model.retired));
        assert_eq!(self.ftl.folded_pages(), self.model.folded);
        for block in 0..self.model.config.blocks {
            assert_eq!(self.ftl.valid_pages(block), self.model.valid(block), "block {block}");
            assert_eq!(self.ftl.block_state(block), self.model.state[block as usize], "block {block}");
            if matches!(self.model.state[block as usize], BlockState::Free | BlockState::Open | BlockState::Closed) {
                assert_eq!(UnitFtl::handed_out(&self.ftl, block), self.model.handed_out(block), "block {block}");
            }
        }
        let good = self.model.state.iter().filter(|&&state| state != BlockState::Bad).count();
        assert_eq!(self.ftl.good_blocks(), good as u32);
    }
}

fn config(rng: &mut Rng, fails: bool) -> PageConfig {
    let mut below = |bound: u64| rng.below(bound) as u32;
    let planes = 1 + below(2);
    let pages = planes * (2 + below(4));
    let gc = [
        GcPolicy::Greedy,
        GcPolicy::Greedy,
        GcPolicy::CostBenefit,
        GcPolicy::Fifo,
        GcPolicy::Windowed { window: 1 + below(5) },
        GcPolicy::Random,
        GcPolicy::DChoices { d: 1 + below(3) },
    ][below(7) as usize];
    let wear = [Wear::None, Wear::Dynamic, Wear::Static { threshold: 1 + below(4), every: 1 + below(5) }];
    let config = PageConfig {
        planes,
        gc,
        gc_low: if fails { 2 + below(2) } else { 1 + below(3) },
        gc_background: below(8),
        gc_background_gain: 1 + below(pages.into()),
        separate: below(2) == 0,
        wear: wear[below(3) as usize],
        foreground: if below(3) == 0 { Foreground::Paced } else { Foreground::Block },
        slc: (below(4) == 0).then(|| SlcCache {
            blocks: 1 + below(3),
            pages: (pages / 2).next_multiple_of(planes),
            when_full: if below(2) == 0 { SlcFull::Fold } else { SlcFull::Direct },
            folds_idle: below(2) == 0,
        }),
        bad: (0..below(3)).map(|at| at * 3).collect(),
        ..PageConfig::new(12 + below(12), pages, 1)
    };
    let most = config.most_lpns();
    let lpns = if below(3) == 0 { 1 + u64::from(below(most)) } else { most };
    PageConfig { lpns: lpns as u32, ..config }
}

fn storm(seeds: std::ops::Range<u64>, failing: f64) -> [u64; 4] {
    let mut told = [0; 4];
    for seed in seeds {
        let mut rng = Seed(seed).stream("page model");
        let config = config(&mut rng, failing > 0.0);
        let draws = Seed(seed).stream("gc");
        let ftl = PageFtl::new(config.clone(), draws.clone()).expect("a legal geometry");
        let model = Model::new(&config, draws);
        let mut pair = Pair {
            ftl,
            model,
            rng: Seed(seed).stream("failures"),
            failing,
            told: [0; 4],
            tags: vec![None; (config.blocks * config.pages) as usize],
            seq: 0,
        };
        let lpns = u64::from(config.lpns);
        // Part of the pages is written most of the time, so that some blocks become cold.
        let hot = 1 + rng.below(lpns);
        for op in 0..900 {
            let goes_on = match rng.below(20) {
                _ if op < lpns => pair.write(op as u32),
                0 => pair.rest(1 + rng.below(12)),
                1 => {
                    let lpn = rng.below(lpns) as u32;
                    pair.ftl.trim(lpn);
                    pair.model.forget(lpn);
                    true
                }
                _ => {
                    let lpn = if rng.chance(0.8) { rng.below(hot) } else { rng.below(lpns) };
                    pair.write(lpn as u32)
                }
            };
            if !goes_on {
                break;
            }
            if op % 16 == 0 {
                pair.check();
            }
            // In the middle of a collection as well.
            if rng.chance(0.004) {
                pair.lose_power(&Seed(seed + op).stream("gc/again"));
            }
        }
        pair.check();
        (0..4).for_each(|at| told[at] += pair.told[at]);
    }
    told
}

#[test]
fn a_page_level_layer_does_step_by_step_what_its_rules_say() {
    let [collected, levelled, _, idle] = storm(0..200, 0.0);
    assert!(collected > 5_000 && levelled > 500 && idle > 1_000, "{collected} {levelled} {idle}");
}

#[test]
fn a_page_level_layer_retires_blocks_as_its_rules_say() {
    let [_, levelled, failed, _] = storm(1_000..1_150, 0.01);
    assert!(levelled > 50 && failed > 300, "{levelled} {failed}");
}
