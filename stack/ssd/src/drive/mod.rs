//! The drive: requests in, completions out.
//!
//! Knows requests, the link, the controller's time and pages of requests; the dispatcher below knows dies. A request is
//! fetched by the controller, its data cross the link, its pages go to their dies (or to the write buffer), and it is
//! complete when the last of them is.

mod buffer;
mod hpb;
mod map;
mod trim;

use std::collections::VecDeque;

use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Flash, Payload, SECTOR_BYTES};
use sim::{Cause, Ns};

use crate::device::hpb::{Advice, HpbConfig, HpbDevice, MAP_COMMANDS, ReadCommand};
use crate::device::{Front, FrontConfig};
use crate::dispatch::io::{Breakdown, IoKind, Owner, overlay};
use crate::dispatch::{CheckpointRegions, Dispatcher};
use crate::ftl::UnitFtl;
use crate::ftl::map_cache::MapCacheConfig;
use crate::{KnownBad, Shape, ShapeError, Striping};
use buffer::Buffer;
pub use buffer::CacheConfig;
use hpb::HpbState;
use map::MapLayer;
use trim::Trimmed;

/// A page of the buffer cannot be written out: from then on the drive takes no write and no flush.
const WORN_OUT: BlockError = BlockError::WornOut { why: "a page of the write buffer found no free block" };

/// What a drive is, beside its flash and its layers.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveConfig {
    /// Logical pages of the drive.
    pub pages: u32,
    /// Link, queues and commands.
    pub front: FrontConfig,
    /// The write buffer; `None`: writes go straight to their dies.
    pub cache: Option<CacheConfig>,
    /// The cached part of a mapping table that lies in flash, behind the host's pages; `None`: all of it is in memory.
    pub map: Option<MapCacheConfig>,
    /// Host Performance Booster; `None`: the device has none. The host's half is [`Hpb`](crate::host::Hpb).
    pub hpb: Option<HpbConfig>,
}

/// A request in the drive.
#[derive(Clone, Debug)]
struct Request {
    asked: BlockRequest,
    submitted: u64,
    /// When its work in the drive began, or its wait for the cells.
    started: u64,
    /// Pages that are not finished.
    pending: u32,
    in_use: bool,
    /// Of a read: the command that the host sent it as.
    sent_as: ReadCommand,
    /// What its response advises a host of HPB.
    advice: Option<Advice>,
    /// Components of its latency so far.
    latency: Breakdown,
    result: Result<(), BlockError>,
    /// Data, where the flash keeps bytes.
    data: Vec<u8>,
    /// What lies in the buffer over pages that it reads from the flash: page, sectors, contents.
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

/// A solid-state drive over a raw flash `F`, whose units are managed by layers `M`.
#[derive(Clone, Debug)]
pub struct Ssd<F, M> {
    config: DriveConfig,
    striping: Striping,
    /// `log2` of the sectors of a page.
    page_shift: u32,
    dispatcher: Dispatcher<F, M>,
    front: Front,
    buffer: Option<Buffer>,
    map: Option<MapLayer>,
    hpb: Option<Box<HpbState>>,
    trimmed: Trimmed,
    requests: Vec<Request>,
    now: u64,
    /// Writes whose data are on the link, and reads whose data are: when they are over, and the tag.
    incoming: VecDeque<(u64, u32)>,
    outgoing: VecDeque<(u64, u32)>,
    done: VecDeque<BlockDone>,
    /// A page of the buffer found no place on the flash: nothing more is taken.
    worn_out: bool,
    known_bad: KnownBad,
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// A drive. Panics when the layers have fewer logical pages than the drive.
    /// Errors: a write buffer of an impossible size; HPB that no device has.
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
        if config.map.is_some() {
            dispatcher.report_moves();
        }
        Ok(Ssd {
            front: Front::new(&config.front),
            striping: Striping::new(shape),
            page_shift: sectors.trailing_zeros(),
            dispatcher,
            buffer: buffer.transpose()?,
            map: config.map.map(|map| MapLayer::new(map, config.pages)).transpose()?,
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

    /// Its configuration.
    pub fn config(&self) -> &DriveConfig {
        &self.config
    }

    /// The dispatcher, for what it counted.
    pub fn dispatcher(&self) -> &Dispatcher<F, M> {
        &self.dispatcher
    }

    /// The flash, to cut its power or read its contents.
    pub fn flash_mut(&mut self) -> &mut F {
        self.dispatcher.flash_mut()
    }

    pub(crate) fn dispatcher_mut(&mut self) -> &mut Dispatcher<F, M> {
        &mut self.dispatcher
    }

    /// See [`Dispatcher::write_checkpoints`].
    pub fn write_checkpoints(&mut self, every: u32, regions: Vec<CheckpointRegions>) {
        self.dispatcher.write_checkpoints(every, regions);
    }

    /// Power was lost: see [`Dispatcher::tear_under_way`].
    pub fn tear_under_way(&mut self, again: impl FnMut(&mut F)) {
        self.dispatcher.tear_under_way(Ns(self.now), again);
    }

    /// Makes deliberate mistakes from now on: for tests of tests.
    pub fn set_known_bad(&mut self, known_bad: KnownBad) {
        self.known_bad = known_bad;
        self.dispatcher.set_known_bad(known_bad);
    }

    /// The dispatcher alone.
    pub fn into_dispatcher(self) -> Dispatcher<F, M> {
        self.dispatcher
    }

    /// Components of the latency of the request that completed last under `tag`: they sum to its time in the drive.
    #[inline]
    pub fn breakdown_of(&self, tag: u32) -> &Breakdown {
        &self.requests[tag as usize].latency
    }

    /// The drive's own clock: the time of the last event.
    pub fn now(&self) -> Ns {
        Ns(self.now)
    }

    /// Whether a request can be taken now.
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

    /// Takes a request that was checked: the controller fetches it now, or it waits in its queue.
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

    /// The slot of `tag` is taken by a request, or by a command of the host's driver.
    #[inline]
    fn hold(&mut self, tag: u32, asked: BlockRequest) {
        let held = &mut self.requests[tag as usize];
        held.asked = asked;
        held.submitted = self.now;
        held.pending = 0;
        held.in_use = true;
    }

    /// Lets what comes first happen: an event of the dispatcher or of the front.
    fn step(&mut self) {
        let (at, what) = self.next_event().expect("called when something is to come");
        self.now = at;
        match what {
            What::Flash => {
                self.dispatcher.step();
                if self.map.is_some() {
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
        // The flash's comes first on a tie.
        if let Some(at) = self.dispatcher.next_time()
            && at.0 <= first.0
        {
            first = (at.0, What::Flash);
        }
        (first.0 != u64::MAX).then_some(first)
    }

    /// What comes next beside the flash; at `u64::MAX`: nothing.
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

    /// Lets the flash work up to `until`, or to the first page operation that finishes. Whether there was anything to do.
    /// Nothing else changes meanwhile, so nobody else is asked.
    #[inline]
    fn run_flash(&mut self, until: u64) -> bool {
        let until = until.min(self.next_own_event().0);
        let Some(now) = self.dispatcher.run(Ns(until)) else { return false };
        self.now = now.0;
        if self.map.is_some() {
            self.map_events();
        }
        if !self.dispatcher.finished.is_empty() {
            self.collect();
            self.fetch_all();
        }
        true
    }

    /// Takes from the queues what the controller can begin now.
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

    /// The controller knows what the request asks.
    fn fetched_tag(&mut self, tag: u32) {
        self.fetched_request(tag, self.requests[tag as usize].asked);
    }

    #[inline]
    fn fetched_request(&mut self, tag: u32, asked: BlockRequest) {
        let request = &mut self.requests[tag as usize];
        let (barrier, controller) = self.front.waits(request.submitted, self.now);
        request.latency = Breakdown { flush: barrier, controller, ..Breakdown::default() };
        if asked.op == BlockOp::Write {
            let at = self.front.link_in(self.now, asked.bytes());
            if at > self.now {
                request.latency.link = at - self.now;
                self.incoming.push_back((at, tag));
                return;
            }
        }
        self.start(tag, &asked);
    }

    /// The request begins its work in the drive.
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
            // Without a buffer what completed is in the cells.
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
            if self.known_bad.trust_entries && self.read_believed(tag, lpn, unit) {
                continue;
            }
            if self.trimmed.is_marked(lpn) {
                self.blank_into_request(tag, lpn);
                continue;
            }
            if self.buffer.is_some() && self.read_buffered(tag, lpn, unit, local) {
                continue;
            }
            if self.dispatcher.is_unmapped(unit, local) {
                self.blank_into_request(tag, lpn);
                continue;
            }
            pending += 1;
            let mut io = Dispatcher::<F, M>::io(IoKind::Read, Cause::Host, unit, local, Owner::Request { tag, lpn });
            if lpn - first < by_entry {
                io.checked = true;
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

    /// First page of a request, and one past the last.
    #[inline]
    fn pages_of(&self, asked: &BlockRequest) -> (u32, u32) {
        let last = asked.end() + (1 << self.page_shift) - 1;
        ((asked.sector >> self.page_shift) as u32, (last >> self.page_shift) as u32)
    }

    /// Sectors of page `lpn` that a request covers, counted from the page's first.
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

    /// Sectors of page `lpn` that a request covers, one bit each.
    #[inline]
    fn mask_of(&self, asked: &BlockRequest, lpn: u32) -> u128 {
        let (first, end) = self.covered(asked, lpn);
        u128::MAX >> (128 - (end - first)) << first
    }

    /// A page as the request writes it; `below` where it does not, zeroes if that is nothing.
    fn page_of_request(&self, tag: u32, asked: &BlockRequest, lpn: u32, below: Option<u8>) -> Vec<u8> {
        let mut page = vec![below.unwrap_or(0); 512 << self.page_shift];
        let (first, end) = self.covered(asked, lpn);
        let from = (((u64::from(lpn) << self.page_shift) + u64::from(first) - asked.sector) * 512) as usize;
        let len = usize::from(end - first) * 512;
        let at = usize::from(first) * 512;
        page[at..at + len].copy_from_slice(&self.requests[tag as usize].data[from..from + len]);
        page
    }

    /// Puts a page into the request that reads it, under what the buffer had when it began.
    fn sectors_into_request(&mut self, tag: u32, lpn: u32, page: &[u8]) {
        let mut page = page.to_vec();
        let asked = self.requests[tag as usize].asked;
        let (first, end) = self.covered(&asked, lpn);
        let request = &mut self.requests[tag as usize];
        for (_, mask, over) in request.over.iter().filter(|over| over.0 == lpn) {
            overlay(&mut page, over, *mask);
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

    /// Takes finished page operations to their requests, or to the buffer.
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
                let page = self.dispatcher.ios.page(at).to_vec();
                if page.is_empty() {
                    // Trimmed between its request and its turn.
                    self.blank_into_request(tag, lpn);
                } else {
                    self.sectors_into_request(tag, lpn, &page);
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

    /// A page operation that no request waits for is finished.
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

    /// The drive's work on the request is over; a read's data cross the link.
    #[inline]
    fn finish(&mut self, tag: u32) {
        let request = &mut self.requests[tag as usize];
        if request.asked.op == BlockOp::Read {
            let at = self.front.link_out(self.now, request.asked.bytes());
            if at > self.now {
                request.latency.link += at - self.now;
                self.outgoing.push_back((at, tag));
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
                // Most requests succeed: their result is made anew, which is cheaper than moving an error's fields.
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
