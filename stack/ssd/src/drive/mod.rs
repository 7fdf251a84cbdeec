//! The drive: requests in, completions out.
//!
//! Knows requests, the host's link, the controller's time and the pages of requests; the dispatcher below knows dies. A
//! request is fetched by the controller, its data cross the link, its pages go to their dies or into the write buffer,
//! and it completes when the last of them has. The firmware's latency delays a write before its pages are handled, and a
//! read after its data are in the controller.

mod buffer;
mod hpb;
mod map;
mod owners;
mod trim;

use std::collections::VecDeque;

use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Flash, Payload, SECTOR_BYTES};
use sim::{Cause, Ns};

use crate::device::hpb::{Advice, HpbConfig, HpbDevice, MAP_COMMANDS, ReadCommand};
use crate::device::{Front, FrontConfig};
use crate::dispatch::io::{Breakdown, ByEntry, IoKind, Owner, overlay};
use crate::dispatch::{CheckpointRegions, Dispatcher, NandTime};
use crate::ftl::map_cache::MapCacheConfig;
use crate::ftl::{NONE, UnitFtl};
use crate::{KnownBad, Shape, ShapeError, Striping};
use buffer::Buffer;
pub use buffer::CacheConfig;
use hpb::HpbState;
use map::MapLayer;
pub use owners::Owners;
use trim::Trimmed;

/// Error of every request but reads, after a page of the write buffer could not be written out.
const WORN_OUT: BlockError = BlockError::WornOut { why: "a page of the write buffer found no free block" };

/// Configuration of a drive above its flash and its FTLs.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveConfig {
    /// Logical pages that the host can address.
    pub pages: u32,
    /// Protocol, queues and link.
    pub front: FrontConfig,
    /// The write buffer; `None`: writes go to their dies at once.
    pub cache: Option<CacheConfig>,
    /// The cache of a mapping table that is kept in flash, behind the host's pages (DFTL); `None`: the whole table is
    /// in memory.
    pub map: Option<MapCacheConfig>,
    /// Host Performance Booster (HPB); `None`: the device does not support it. [`Hpb`](crate::host::Hpb) is the host's
    /// side.
    pub hpb: Option<HpbConfig>,
}

/// State of a request between submission and completion, in the slot of its tag. Times are in nanoseconds.
#[derive(Clone, Debug)]
struct Request {
    asked: BlockRequest,
    submitted: u64,
    /// When the drive started on it, after the fetch and the data transfer; of a write that flushes, when the flush
    /// began.
    started: u64,
    /// Page operations or map pages that it still waits for.
    pending: u32,
    in_use: bool,
    /// The command as which a read was sent: with or without HPB entries.
    sent_as: ReadCommand,
    /// HPB recommendation in its response.
    advice: Option<Advice>,
    /// Components of its latency so far.
    latency: Breakdown,
    result: Result<(), BlockError>,
    /// Data read or to be written, if the flash keeps contents.
    data: Vec<u8>,
    /// Buffered sectors to overlay on pages that it reads from the flash: logical page, mask of sectors, contents.
    over: Vec<(u32, u128, Vec<u8>)>,
}

impl Request {
    const NONE: Request = Request {
        asked: BlockRequest::flush(),
        submitted: 0,
        started: 0,
        pending: 0,
        in_use: false,
        sent_as: ReadCommand::Plain,
        advice: None,
        latency: Breakdown { controller: 0, link: 0, queue: 0, map: 0, bus: 0, die: 0, gc: 0, erase: 0, flush: 0 },
        result: Ok(()),
        data: Vec::new(),
        over: Vec::new(),
    };
}

/// A solid-state drive over a raw flash `F`. Each unit is managed by an FTL of type `M`.
#[derive(Clone, Debug)]
pub struct Ssd<F, M> {
    config: DriveConfig,
    striping: Striping,
    /// `log2` of the sectors of a logical page.
    page_shift: u32,
    dispatcher: Dispatcher<F, M>,
    front: Front,
    buffer: Option<Buffer>,
    map: Option<MapLayer>,
    owners: Option<Box<Owners>>,
    /// Whether moved pages concern the map cache or `owners`.
    watches_moves: bool,
    hpb: Option<Box<HpbState>>,
    trimmed: Trimmed,
    requests: Vec<Request>,
    now: u64,
    /// Transfers on the link and firmware latencies, to the drive and to the host: when each ends, and its tag.
    incoming: VecDeque<(u64, u32)>,
    outgoing: VecDeque<(u64, u32)>,
    done: VecDeque<BlockDone>,
    /// A page of the buffer could not be written out: the drive accepts only reads.
    worn_out: bool,
    known_bad: KnownBad,
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Makes a drive over `dispatcher`. Panics if the FTLs have fewer logical pages than `config` needs.
    /// Errors: an invalid configuration of the write buffer, the map cache or HPB.
    pub fn new(config: DriveConfig, shape: &Shape, dispatcher: Dispatcher<F, M>) -> Result<Ssd<F, M>, ShapeError> {
        let room: u64 = dispatcher.units().iter().map(|unit| u64::from(unit.lpns())).sum();
        let map_pages = config.map.as_ref().map_or(0, MapCacheConfig::map_pages);
        assert!(room >= u64::from(config.pages) + u64::from(map_pages), "{} pages over layers of {room}", config.pages);
        let depth = config.front.depth as usize;
        if let Some(hpb) = &config.hpb {
            hpb.check()?;
        }
        let hpb = config.hpb.as_ref().map(|hpb| Box::new(HpbState::new(hpb)));
        let commands = if hpb.is_some() { MAP_COMMANDS as usize } else { 0 };
        let sectors = shape.page_bytes / SECTOR_BYTES;
        let unit_lpns = dispatcher.units().iter().map(UnitFtl::lpns).max().unwrap_or(0);
        let buffer = config
            .cache
            .as_ref()
            .map(|cache| Buffer::new(cache, shape.units(), unit_lpns, shape.unit_pages(), sectors));
        let mut dispatcher = dispatcher;
        let watches_moves = config.map.is_some();
        if watches_moves {
            dispatcher.report_moves();
        }
        Ok(Ssd {
            front: Front::new(&config.front),
            striping: Striping::new(shape),
            page_shift: sectors.trailing_zeros(),
            dispatcher,
            buffer: buffer.transpose()?,
            map: config.map.map(|map| MapLayer::new(map, config.pages)).transpose()?,
            owners: None,
            watches_moves,
            trimmed: Trimmed::new(config.front.trimmed_reads, config.pages),
            hpb,
            requests: vec![Request::NONE; depth + commands],
            now: 0,
            incoming: VecDeque::with_capacity(depth),
            outgoing: VecDeque::with_capacity(depth),
            done: VecDeque::with_capacity(depth),
            worn_out: false,
            known_bad: KnownBad::default(),
            config,
        })
    }

    /// The configuration that the drive was made with.
    pub fn config(&self) -> &DriveConfig {
        &self.config
    }

    /// The dispatcher, with its counters and FTLs.
    pub fn dispatcher(&self) -> &Dispatcher<F, M> {
        &self.dispatcher
    }

    /// The raw flash, to cut its power or read its contents.
    pub fn flash_mut(&mut self) -> &mut F {
        self.dispatcher.flash_mut()
    }

    /// Lets the data in the cells age by `span`, as on a shelf: the drive's own clock stands still.
    pub fn age(&mut self, span: Ns) {
        self.dispatcher.age(span);
    }

    pub(crate) fn dispatcher_mut(&mut self) -> &mut Dispatcher<F, M> {
        &mut self.dispatcher
    }

    /// Enables checkpoints: see [`Dispatcher::write_checkpoints`].
    pub fn write_checkpoints(&mut self, every: u32, regions: Vec<CheckpointRegions>) {
        self.dispatcher.write_checkpoints(every, regions);
    }

    /// Tears the operations in progress after a loss of power: see [`Dispatcher::tear_under_way`].
    pub fn tear_under_way(&mut self, again: impl FnMut(&mut F)) {
        self.dispatcher.tear_under_way(Ns(self.now), again);
    }

    /// Counts from now on the pages that the drive moves, by the host's queue whose request wrote them.
    pub fn follow_queues(&mut self, queues: u16) {
        self.owners = Some(Box::new(Owners::new(self.config.pages, queues)));
        self.watches_moves = true;
        self.dispatcher.report_moves();
    }

    /// The pages moved by queue, if [`follow_queues`](Self::follow_queues) counts them.
    pub fn owners(&self) -> Option<&Owners> {
        self.owners.as_deref()
    }

    /// Enables deliberate defects, with which tests prove that the checks detect them.
    pub fn set_known_bad(&mut self, known_bad: KnownBad) {
        self.known_bad = known_bad;
        self.dispatcher.set_known_bad(known_bad);
    }

    /// Takes the drive apart and returns its dispatcher.
    pub fn into_dispatcher(self) -> Dispatcher<F, M> {
        self.dispatcher
    }

    /// What a read of logical page `lpn` without an HPB entry would return if it were done now.
    #[inline]
    pub fn served_from(&self, lpn: u32) -> Served {
        let (unit, local) = self.striping.locate(lpn);
        if self.trimmed.is_marked(lpn) || self.buffer.as_ref().is_some_and(|buffer| buffer.concerns(unit, local)) {
            return Served::Otherwise;
        }
        match self.dispatcher.in_cells(unit, local) {
            NONE if self.dispatcher.is_unmapped(unit, local) => Served::Blank(self.trimmed.blank(lpn)),
            NONE => Served::Otherwise,
            ppn => Served::Cells { unit, ppn },
        }
    }

    /// Latency components of the request that completed last under `tag`; they sum to its time in the drive.
    #[inline]
    pub fn breakdown_of(&self, tag: u32) -> &Breakdown {
        &self.requests[tag as usize].latency
    }

    /// Records from now on where the time of dies and buses goes. A drive is the same with and without.
    pub fn record(&mut self) {
        self.dispatcher.record();
    }

    /// Ends that record, if there is one.
    pub fn stop_recording(&mut self) -> Option<NandTime> {
        self.dispatcher.stop_recording()
    }

    /// The drive's clock: the time of its last event.
    pub fn now(&self) -> Ns {
        Ns(self.now)
    }

    /// Whether a request can be accepted now.
    /// Errors: those of [`submit`](BlockDevice::submit).
    #[inline]
    fn check_request(&self, tag: u32, request: &BlockRequest) -> Result<(), BlockError> {
        let sectors = self.sectors();
        let end = request.sector.checked_add(u64::from(request.sectors));
        if end.is_none_or(|end| end > sectors) {
            return Err(BlockError::OutOfBounds { sector: request.sector, end: end.unwrap_or(u64::MAX), sectors });
        }
        if tag >= self.config.front.depth || self.requests[tag as usize].in_use {
            return Err(BlockError::QueueFull { depth: self.config.front.depth });
        }
        if self.dispatcher.power_lost() {
            return Err(BlockError::PowerLost);
        }
        if self.worn_out && request.op != BlockOp::Read {
            return Err(WORN_OUT);
        }
        Ok(())
    }

    /// Accepts a checked request. The controller fetches it now, or it waits in its queue.
    #[inline]
    fn accept(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) {
        debug_assert!(at.0 >= self.now, "time runs forwards");
        self.now = at.0;
        self.hold(tag, request);
        if F::KEEPS_BYTES && request.op == BlockOp::Write {
            let held = &mut self.requests[tag as usize];
            held.data.clear();
            match data {
                Payload::Bytes(bytes) => held.data.extend_from_slice(bytes),
                Payload::Length(length) => held.data.resize(length as usize, 0),
            }
        }
        if self.front.take_at_once() {
            self.fetched_request(tag, request);
        } else {
            self.front.queue(tag, &request);
            self.fetch_all();
        }
    }

    /// Occupies the slot of `tag` with a request, or with an HPB command of the host's driver.
    #[inline]
    fn hold(&mut self, tag: u32, asked: BlockRequest) {
        let held = &mut self.requests[tag as usize];
        held.asked = asked;
        held.submitted = self.now;
        held.pending = 0;
        held.in_use = true;
        if asked.op == BlockOp::Write && self.owners.is_some() {
            self.book_owner(&asked);
        }
    }

    #[cold]
    fn book_owner(&mut self, asked: &BlockRequest) {
        let (first, end) = self.pages_of(asked);
        if let Some(owners) = &mut self.owners {
            owners.wrote(first, end, asked.queue);
        }
    }

    /// Handles the next event of the dispatcher, the link or the controller.
    fn step(&mut self) {
        let (at, what) = self.next_event().expect("called when something is to come");
        self.now = at;
        match what {
            What::Flash => {
                self.dispatcher.step();
                if self.watches_moves {
                    self.map_events();
                }
                self.collect();
            }
            What::Incoming => {
                let (_, tag) = self.incoming.pop_front().expect("its time was at the front");
                let asked = self.requests[tag as usize].asked;
                self.start(tag, &asked);
            }
            What::Outgoing => {
                let (_, tag) = self.outgoing.pop_front().expect("its time was at the front");
                self.complete(tag);
            }
            What::Fetch => self.fetched(),
        }
        self.fetch_all();
    }

    #[inline]
    fn next_event(&self) -> Option<(u64, What)> {
        let mut first = self.next_own_event();
        // On a tie the flash's event comes first.
        if let Some(at) = self.dispatcher.next_time()
            && at.0 <= first.0
        {
            first = (at.0, What::Flash);
        }
        (first.0 != u64::MAX).then_some(first)
    }

    /// The next event outside the flash; its time is `u64::MAX` if there is none.
    #[inline]
    fn next_own_event(&self) -> (u64, What) {
        let mut first = (u64::MAX, What::Flash);
        if let Some(&(at, _)) = self.incoming.front()
            && at < first.0
        {
            first = (at, What::Incoming);
        }
        if let Some(&(at, _)) = self.outgoing.front()
            && at < first.0
        {
            first = (at, What::Outgoing);
        }
        if let Some(at) = self.front.fetched_at()
            && at < first.0
        {
            first = (at, What::Fetch);
        }
        first
    }

    /// Runs the flash up to `until`, to the next other event, or to the first page operation that finishes. Returns
    /// whether it had an event. Nothing else in the drive changes meanwhile, so nothing else is examined.
    #[inline]
    fn run_flash(&mut self, until: u64) -> bool {
        let until = until.min(self.next_own_event().0);
        let Some(now) = self.dispatcher.run(Ns(until)) else { return false };
        self.now = now.0;
        if self.watches_moves {
            self.map_events();
        }
        if !self.dispatcher.finished.is_empty() {
            self.collect();
            self.fetch_all();
        }
        true
    }

    /// Fetches the queued commands that the controller can start now.
    #[inline]
    fn fetch_all(&mut self) {
        while let Some(tag) = self.front.fetch(self.now) {
            self.fetched_tag(tag);
        }
    }

    fn fetched(&mut self) {
        if let Some(tag) = self.front.take_fetched() {
            self.fetched_tag(tag);
        }
    }

    /// Starts a request that the controller has fetched: a write's data cross the link first.
    fn fetched_tag(&mut self, tag: u32) {
        self.fetched_request(tag, self.requests[tag as usize].asked);
    }

    #[inline]
    fn fetched_request(&mut self, tag: u32, asked: BlockRequest) {
        let request = &mut self.requests[tag as usize];
        let (barrier, controller) = self.front.waits(request.submitted, self.now);
        request.latency = Breakdown { flush: barrier, controller, ..Breakdown::default() };
        if asked.op != BlockOp::Read {
            let latency = self.config.front.write_latency.0;
            let at = match asked.op {
                BlockOp::Write => self.front.link_in(self.now, asked.bytes()),
                // The firmware handles them in order.
                _ if latency > 0 => self.incoming.back().map_or(0, |last| last.0 - latency).max(self.now),
                _ => self.now,
            };
            if at + latency > self.now {
                request.latency.link = at - self.now;
                request.latency.controller += latency;
                self.incoming.push_back((at + latency, tag));
                return;
            }
        }
        self.start(tag, &asked);
    }

    /// Starts the drive's work on a request.
    #[inline]
    fn start(&mut self, tag: u32, asked: &BlockRequest) {
        if self.is_map_command(tag) {
            return self.start_map_command(tag);
        }
        let request = &mut self.requests[tag as usize];
        request.started = self.now;
        if self.worn_out && matches!(asked.op, BlockOp::Write | BlockOp::Flush) {
            request.result = Err(WORN_OUT);
            return self.complete(tag);
        }
        match asked.op {
            BlockOp::Read => self.start_read(tag, asked),
            BlockOp::Write if self.buffer.is_some() => {
                let (first, end) = self.pages_of(asked);
                self.buffer_write_in_turn(tag, first, end);
            }
            BlockOp::Write => self.start_write(tag, asked),
            BlockOp::Flush if self.buffer.is_some() => self.buffer_flush(tag),
            // Without a buffer, a completed write is in the cells.
            BlockOp::Flush => self.finish(tag),
            BlockOp::Trim => {
                self.trim(asked);
                self.finish(tag);
            }
        }
        if !self.dispatcher.finished.is_empty() {
            self.collect();
        }
    }

    #[inline]
    fn start_read(&mut self, tag: u32, asked: &BlockRequest) {
        let (first, end) = self.pages_of(asked);
        if F::KEEPS_BYTES {
            let request = &mut self.requests[tag as usize];
            request.data.clear();
            request.data.resize(asked.bytes() as usize, 0);
            request.over.clear();
        }
        let by_entry = if self.hpb.is_some() { self.pages_by_entry(tag, first, end) } else { 0 };
        let mut pending = 0;
        for lpn in first..end {
            let (unit, local) = self.striping.locate(lpn);
            if self.trimmed.is_marked(lpn) {
                self.blank_into_request(tag, lpn);
                continue;
            }
            if self.buffer.is_some() && self.read_buffered(tag, lpn, unit, local) {
                continue;
            }
            let place = if lpn - first < by_entry { self.accepted(lpn - first) } else { None };
            if place.unwrap_or(NONE) == NONE && self.dispatcher.is_unmapped(unit, local) {
                self.blank_into_request(tag, lpn);
                continue;
            }
            pending += 1;
            let mut io = Dispatcher::<F, M>::io(IoKind::Read, Cause::Host, unit, local, Owner::Request { tag, lpn });
            if let Some(page) = place {
                let mapped = self.dispatcher.units()[unit as usize].lookup(local);
                (io.checked, io.by_entry) = (true, ByEntry { page, mapped });
                self.push_now(io, Vec::new(), 0);
            } else {
                self.push_io(io, Vec::new(), 0);
            }
        }
        self.requests[tag as usize].pending = pending;
        if pending == 0 {
            self.finish(tag);
        } else {
            self.kick();
        }
    }

    #[inline]
    fn start_write(&mut self, tag: u32, asked: &BlockRequest) {
        let (first, end) = self.pages_of(asked);
        self.requests[tag as usize].pending = end - first;
        for lpn in first..end {
            let (unit, local) = self.striping.locate(lpn);
            let kind = self.write_kind(asked, lpn);
            let io = Dispatcher::<F, M>::io(kind, Cause::Host, unit, local, Owner::Request { tag, lpn });
            let below = self.trimmed.written(lpn);
            let contents = F::kept(|| self.page_of_request(tag, asked, lpn, below)).unwrap_or_default();
            let mask = if below.is_some() { u128::MAX } else { self.mask_of(asked, lpn) };
            self.push_io(io, contents, mask);
        }
        if end == first {
            return self.finish(tag);
        }
        self.kick();
    }

    /// First logical page of a request, and one past the last.
    #[inline]
    fn pages_of(&self, asked: &BlockRequest) -> (u32, u32) {
        let last = asked.end() + (1 << self.page_shift) - 1;
        ((asked.sector >> self.page_shift) as u32, (last >> self.page_shift) as u32)
    }

    /// Sectors of page `lpn` that a request covers, counted from the page's first: first, and one past the last.
    #[inline]
    fn covered(&self, asked: &BlockRequest, lpn: u32) -> (u16, u16) {
        let page = u64::from(lpn) << self.page_shift;
        let first = asked.sector.max(page) - page;
        let end = asked.end().min(page + (1 << self.page_shift)) - page;
        (first as u16, end as u16)
    }

    #[inline]
    fn write_kind(&self, asked: &BlockRequest, lpn: u32) -> IoKind {
        match self.covered(asked, lpn) {
            (0, end) if end == 1 << self.page_shift => IoKind::Write,
            _ => IoKind::Merge,
        }
    }

    /// Sectors of page `lpn` that a request covers, as a mask with one bit each.
    #[inline]
    fn mask_of(&self, asked: &BlockRequest, lpn: u32) -> u128 {
        let (first, end) = self.covered(asked, lpn);
        u128::MAX >> (128 - (end - first)) << first
    }

    /// Page `lpn` with the request's data. Sectors that the request does not cover are filled with `below`, or zeroes.
    fn page_of_request(&self, tag: u32, asked: &BlockRequest, lpn: u32, below: Option<u8>) -> Vec<u8> {
        let mut page = vec![below.unwrap_or(0); 512 << self.page_shift];
        self.request_into_page(tag, asked, lpn, &mut page);
        page
    }

    /// Copies the request's data for page `lpn` into the sectors that they cover.
    fn request_into_page(&self, tag: u32, asked: &BlockRequest, lpn: u32, page: &mut [u8]) {
        let (first, end) = self.covered(asked, lpn);
        let from = (((u64::from(lpn) << self.page_shift) + u64::from(first) - asked.sector) * 512) as usize;
        let len = usize::from(end - first) * 512;
        let at = usize::from(first) * 512;
        page[at..at + len].copy_from_slice(&self.requests[tag as usize].data[from..from + len]);
    }

    /// Copies a page's contents into the data of a read, under the sectors that the buffer held when the read started.
    fn sectors_into_request(&mut self, tag: u32, lpn: u32, page: &mut [u8]) {
        let asked = self.requests[tag as usize].asked;
        let (first, end) = self.covered(&asked, lpn);
        let request = &mut self.requests[tag as usize];
        for (_, mask, over) in request.over.iter().filter(|over| over.0 == lpn) {
            overlay(page, over, *mask);
        }
        let to = (((u64::from(lpn) << self.page_shift) + u64::from(first) - asked.sector) * 512) as usize;
        let range = usize::from(first) * 512..usize::from(end) * 512;
        request.data[to..to + range.len()].copy_from_slice(&page[range]);
    }

    #[inline]
    fn kick(&mut self) {
        self.dispatcher.kick(Ns(self.now));
        if !self.dispatcher.finished.is_empty() {
            self.collect();
        }
    }

    /// Passes finished page operations to their requests, the buffer or the map cache.
    #[inline]
    fn collect(&mut self) {
        let mut next = 0;
        while next < self.dispatcher.finished.len() {
            let at = self.dispatcher.finished[next];
            next += 1;
            let io = &self.dispatcher.ios[at];
            let Owner::Request { tag, lpn } = io.owner else {
                let (owner, failed) = (io.owner, io.result.is_err());
                self.dispatcher.ios.release(at);
                self.internal_io_done(owner, failed);
                continue;
            };
            let latency = io.latency;
            if io.result.is_err() {
                let mut result = io.result.clone();
                if let Err(BlockError::Uncorrectable { sector }) = &mut result {
                    *sector = u64::from(lpn) << self.page_shift;
                }
                self.requests[tag as usize].result = result;
            } else if F::KEEPS_BYTES && io.kind == IoKind::Read {
                let mut page = self.dispatcher.ios.take_page(at);
                if page.is_empty() {
                    // Trimmed between its submission and the read on its die.
                    self.blank_into_request(tag, lpn);
                } else {
                    self.sectors_into_request(tag, lpn, &mut page);
                    self.dispatcher.ios.set_page(at, page, 0);
                }
            }
            self.dispatcher.ios.release(at);
            let request = &mut self.requests[tag as usize];
            request.pending -= 1;
            if request.pending == 0 {
                let own = &mut request.latency;
                own.queue += latency.queue;
                own.map += latency.map;
                own.bus += latency.bus;
                own.die += latency.die;
                own.gc += latency.gc;
                own.erase += latency.erase;
                self.finish(tag);
            }
        }
        self.dispatcher.finished.clear();
    }

    /// Handles a finished page operation of the buffer, the map cache or the dispatcher.
    fn internal_io_done(&mut self, owner: Owner, failed: bool) {
        match owner {
            Owner::MapRead { page } => return self.map_loaded(page),
            Owner::MapWrite { page } => self.map_written(page),
            Owner::Buffer { slot } if !failed => return self.written_out(slot),
            Owner::Buffer { .. } | Owner::BufferPadding => {}
            Owner::Recovery | Owner::Request { .. } => return,
        }
        if failed && !self.dispatcher.power_lost() {
            self.worn_out = true;
            self.fail_waiting();
        }
    }

    /// Ends the drive's work on a request; a read's data cross the link then.
    #[inline]
    fn finish(&mut self, tag: u32) {
        let request = &mut self.requests[tag as usize];
        if request.asked.op == BlockOp::Read {
            let at = self.front.link_out(self.now, request.asked.bytes());
            let latency = self.config.front.read_latency.0;
            if at + latency > self.now {
                request.latency.link += at - self.now;
                request.latency.controller += latency;
                self.outgoing.push_back((at + latency, tag));
                return;
            }
        }
        self.complete(tag);
    }

    #[inline]
    fn complete(&mut self, tag: u32) {
        let request = &mut self.requests[tag as usize];
        request.in_use = false;
        self.front.completed(request.asked.op, self.now);
        let went_well = request.result.is_ok();
        let result = if went_well { Ok(()) } else { std::mem::replace(&mut request.result, Ok(())) };
        if let Some(hpb) = &mut self.hpb {
            request.advice = if went_well { hpb.advice() } else { None };
        }
        self.done.push_back(BlockDone { tag, at: Ns(self.now), result });
    }
}

/// What a read of a page returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The cells of a physical page.
    Cells {
        /// The unit.
        unit: u32,
        /// The physical page of the unit.
        ppn: u32,
    },
    /// This byte everywhere: no physical page is mapped.
    Blank(u8),
    /// Anything else: contents of the write buffer, those of a program in progress, or an error.
    Otherwise,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Flash,
    Incoming,
    Outgoing,
    Fetch,
}

impl<F: Flash, M: UnitFtl> BlockDevice for Ssd<F, M> {
    const KEEPS_BYTES: bool = F::KEEPS_BYTES;

    fn sectors(&self) -> u64 {
        u64::from(self.config.pages) << self.page_shift
    }

    fn queue_depth(&self) -> u32 {
        self.config.front.depth
    }

    #[inline]
    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        self.submit_with(at, tag, request, ReadCommand::Plain, data)
    }

    #[inline]
    fn expect(&self, request: &BlockRequest) {
        let (unit, local) = self.striping.locate((request.sector >> self.page_shift) as u32);
        self.dispatcher.units()[unit as usize].expect(local);
    }

    #[inline]
    fn expect_next(&self, request: &BlockRequest) {
        if request.op == BlockOp::Write {
            let (unit, local) = self.striping.locate((request.sector >> self.page_shift) as u32);
            self.dispatcher.units()[unit as usize].expect_place(local);
        }
    }

    #[inline]
    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        loop {
            if let Some(done) = self.done.front() {
                // Most requests succeed: building their result anew is cheaper than moving an error's fields.
                if done.result.is_ok() {
                    let (tag, at) = (done.tag, done.at);
                    self.done.pop_front();
                    return Some(BlockDone { tag, at, result: Ok(()) });
                }
                return self.done.pop_front();
            }
            if self.run_flash(until.0) {
                continue;
            }
            match self.next_event() {
                Some((at, _)) if at <= until.0 => self.step(),
                _ => return None,
            }
        }
    }

    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        let data = &self.requests[tag as usize].data;
        if data.len() == buf.len() {
            buf.copy_from_slice(data);
        } else {
            buf.fill(0);
        }
    }
}
