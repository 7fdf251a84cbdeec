//! ubiblock: a UBI volume as a block device.
//!
//! How does one put ext4 or vfat on raw flash? UBI levels wear and hides bad blocks, but a LEB is written once until it
//! is unmapped, and it is 250 sectors large. A file system that rewrites one sector in place makes the driver read the
//! LEB, change 512 bytes in memory and write all of it to another PEB: one erasure. So the driver keeps the LEB in
//! memory in the hope that the next write goes there too, and owes the flash a write-back. How it pays is the subject
//! of this module: [`Form`] names three ways, of which two lose a whole LEB in a power cut.
//!
//! It knows sectors, LEBs, and when requests come. It does not know PEBs, headers or wear: that is the volume's matter
//! ([`Backing`]). It does not know who sends requests.
//!
//! # What a request does
//!
//! | request | LEB in the cache | LEB not in the cache |
//! |---|---|---|
//! | read | from memory, no flash is touched | from the volume, which does not fill the cache; an unmapped LEB reads 0xFF |
//! | write | into memory, the LEB is dirty | the LEB that was not used for longest leaves, and is written back first if it is dirty; the LEB is read, unless the write covers it; then as on the left |
//! | flush | every dirty LEB is written back, lowest first; it stays, clean | |
//! | discard | LEBs that it covers leave, dirty or not, and are unmapped | are unmapped |
//!
//! A write with FUA writes its LEBs back before it completes. Dirty LEBs are also written back when no request came for
//! [`BlockConfig::idle`], and by [`UbiBlock::close`]. Always the whole LEB is written.
//!
//! A discard does nothing to a LEB that it covers in part, because the rest would have to be rewritten: Linux calls it
//! a hint and aligns it to the granularity, which is the LEB. A discarded sector reads 0xFF. After a power cut its old
//! contents may be back, even behind a flush, until its PEB is erased.
//!
//! What a flush promises holds sector by sector for LEBs that were mapped. The first write-back of an unmapped LEB has
//! no old copy to fall back on: a cut may tear it, and then sectors of this LEB that were never flushed read as
//! anything, or not at all.
//!
//! Capacity: the volume's bytes, in whole sectors; a rest of less than a sector is not addressed, as in Linux (6.1
//! `drivers/mtd/ubi/block.c`). A sector may lie in two LEBs where the LEB is no multiple of 512 bytes.
//!
//! Compared with Linux: mainline is [`Form::ReadOnly`]. Its driver takes requests from a work queue; so do we, one at a
//! time in the order of submission. That a read does not fill the cache is known of the driver of 2008. That a LEB
//! stays in the cache after its write-back is our choice.
//!
//! # Time
//!
//! Two actors: the driver, and the background thread of UBI, which wakes when an operation left it work. The next event
//! is the earliest beginning; at equal times the completion comes first, then a request that waits, the idle write-back,
//! the background, and last a request that is submitted at that time. An operation of one occupies the dies against the other. Levelling that feeds itself pauses until the
//! next request, so that an idle device comes to rest.
//!
//! # Errors
//!
//! A failed write-back leaves the LEB dirty in memory and fails the request that made it necessary, which may be one of
//! another LEB. `ReadOnly`: a write or discard on a read-only device. `Uncorrectable`: a LEB could not be read, for a
//! read or to be changed in part. `WornOut`: UBI takes no writes any more; reads go on. After `PowerLost` every request
//! fails, those that were waiting too.
//!
//! # Invariants
//!
//! - The contents of a sector are those of its LEB in the cache, if it is there, else those on the flash.
//! - A clean LEB of the cache equals the flash.
//! - With [`Form::Atomic`] a mapped LEB is never unmapped but by a discard.

mod backing;
mod cache;
mod config;
mod stats;

use std::collections::VecDeque;

use sim::seam::{
    BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, FlashError, LebError, Payload, SECTOR_BYTES,
};
use sim::{Cause, Cx, Flame, Lnum, Ns};

pub use backing::{Backing, OnUbi, OpenFailure};
pub use config::{BlockConfig, BlockConfigError, Form};
pub use stats::{Because, BlockStats, Breakdown};

use cache::Cache;

/// A request that waits for the driver.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    at: Ns,
    tag: u32,
    request: BlockRequest,
}

/// What begins next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Request,
    Idle,
    Background,
}

/// The part of a request that lies in one LEB.
#[derive(Clone, Copy, Debug)]
struct Piece {
    lnum: Lnum,
    /// Offset in the LEB, in bytes.
    offset: u32,
    /// Length in bytes.
    len: u32,
    /// Offset in the request's data, in bytes.
    at: usize,
    /// First sector of the request that the piece touches.
    sector: u64,
}

/// A volume as a block device.
#[derive(Clone, Debug)]
pub struct UbiBlock<V> {
    volume: V,
    config: BlockConfig,
    sectors: u64,
    leb_bytes: u32,
    /// Why no write is accepted.
    read_only: Option<&'static str>,
    cache: Cache,
    /// The driver. Its clock is at the end of the last request or idle write-back.
    driver: Cx,
    waiting: VecDeque<Waiting>,
    done: VecDeque<BlockDone>,
    /// By tag: data of its last request.
    data: Vec<Vec<u8>>,
    /// By tag: where the time of its last request went.
    breakdowns: Vec<Breakdown>,
    /// The same of the request that is served now.
    serving: Breakdown,
    /// The background thread.
    thread: Cx,
    /// When the thread begins its next work; `None` while it sleeps.
    thread_begins: Option<Ns>,
    /// Works that the thread may still do before the next request.
    thread_works: u64,
    /// Whether the last idle write-back failed and no request came since.
    idle_failed: bool,
    power_lost: bool,
    /// Where LEBs are read to if nobody keeps their bytes.
    scratch: Vec<u8>,
    stats: BlockStats,
}

impl<V: Backing> UbiBlock<V> {
    /// Makes a block device of a volume at `now`. A static volume makes a read-only device, whatever the form.
    /// Errors: a parameter that is impossible on this volume.
    pub fn new(volume: V, now: Ns, config: BlockConfig) -> Result<UbiBlock<V>, BlockConfigError> {
        let sectors = volume.data_bytes() / u64::from(SECTOR_BYTES);
        config.check(volume.lebs(), sectors)?;
        let read_only = match config.form {
            Form::ReadOnly => Some("it was opened for reading only"),
            _ => volume.read_only(),
        };
        let mut clock = Cx::new();
        clock.wait_until(now);
        let mut device = UbiBlock {
            sectors,
            leb_bytes: volume.leb_bytes(),
            read_only,
            cache: Cache::new(config.cache_lebs),
            driver: clock.clone(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            data: vec![Vec::new(); config.depth as usize],
            breakdowns: vec![Breakdown::default(); config.depth as usize],
            serving: Breakdown::default(),
            thread: clock,
            thread_begins: None,
            thread_works: 0,
            idle_failed: false,
            power_lost: false,
            scratch: Vec::new(),
            stats: BlockStats::default(),
            volume,
            config,
        };
        device.wake_thread(now);
        Ok(device)
    }

    /// The volume. What is dirty in the cache is not there.
    pub fn volume(&self) -> &V {
        &self.volume
    }

    /// The volume, to inject faults while the device runs.
    pub fn volume_mut(&mut self) -> &mut V {
        &mut self.volume
    }

    /// Parameters with which it was made.
    pub fn config(&self) -> &BlockConfig {
        &self.config
    }

    /// Counters since it was made.
    pub fn stats(&self) -> &BlockStats {
        &self.stats
    }

    /// LEBs whose newest contents are in memory only.
    pub fn dirty_lebs(&self) -> u32 {
        self.cache.dirty()
    }

    /// Why no write is accepted; `None` for a writable device. One that is worn out stays writable here.
    pub fn read_only(&self) -> Option<&'static str> {
        self.read_only
    }

    /// Whether power was lost.
    pub fn power_lost(&self) -> bool {
        self.power_lost
    }

    /// End of the driver's last request or write-back.
    pub fn now(&self) -> Ns {
        self.driver.now()
    }

    /// Where the time of the last completed request of a tag went.
    pub fn breakdown_of(&self, tag: u32) -> &Breakdown {
        &self.breakdowns[tag as usize]
    }

    /// Closes the device at `at`: serves what waits, writes back, and returns the volume and when it was done. The
    /// background is left to the volume's next user.
    /// Errors: a failed write-back; the volume is returned in any case.
    pub fn close(mut self, at: Ns) -> (V, Result<Ns, BlockError>) {
        let outcome = self.last_close(at);
        (self.volume, outcome)
    }

    /// What [`close`](Self::close) does at `at`, on a device that stays: as when the last of its users closes it. Returns
    /// when it was done.
    /// Errors: a failed write-back.
    pub fn last_close(&mut self, at: Ns) -> Result<Ns, BlockError> {
        while let Some((begins, _)) = self.next_event()
            && (begins <= at || !self.waiting.is_empty())
        {
            self.step();
        }
        if self.power_lost {
            return Err(BlockError::PowerLost);
        }
        self.driver.idle_until(at);
        let closed = self.drive(|device, cx| device.write_back_all(cx, Because::Closed));
        self.driver.file("close");
        closed.map(|()| self.driver.now())
    }

    /// The volume as after a power cut: what was in memory is lost.
    pub fn into_volume(self) -> V {
        self.volume
    }

    /// Records from now on where the time of the driver and of the background thread goes.
    pub fn record(&mut self) {
        self.driver.record();
        self.thread.record();
    }

    /// Ends the records of the driver, by request, and of the background thread; `None` without records.
    pub fn stop_recording(&mut self) -> Option<(Flame, Flame)> {
        self.driver.stop_recording().zip(self.thread.stop_recording())
    }

    /// What begins next, and when; nothing without power.
    fn next_event(&self) -> Option<(Ns, Event)> {
        if self.power_lost {
            return None;
        }
        let free = self.driver.now();
        let request = self.waiting.front().map(|waiting| (free.max(waiting.at), Event::Request));
        let thread = self.thread_begins.map(|begins| (begins, Event::Background));
        let events = [request, self.idle_begins().map(|begins| (begins, Event::Idle)), thread];
        events.into_iter().flatten().min()
    }

    /// When dirty LEBs will be written back if no request comes.
    fn idle_begins(&self) -> Option<Ns> {
        let span = self.config.idle?;
        let quiet = self.waiting.is_empty() && !self.idle_failed;
        (quiet && self.cache.first_dirty().is_some()).then(|| Ns(self.driver.now().0.saturating_add(span.0)))
    }

    /// Does what begins next.
    fn step(&mut self) {
        let Some((begins, event)) = self.next_event() else { return };
        match event {
            Event::Request => {
                let Some(Waiting { tag, at, request }) = self.waiting.pop_front() else { return };
                self.driver.idle_until(begins);
                self.driver.spend(self.config.per_request);
                self.serving = Breakdown {
                    queue: (begins - at).0,
                    driver: (self.driver.now() - begins).0,
                    ..Breakdown::default()
                };
                self.idle_failed = false;
                self.thread_works = self.volume.background_works();
                let result = self.drive(|device, cx| device.serve(cx, tag, &request));
                self.driver.file(request.op.name());
                self.breakdowns[tag as usize] = self.serving;
                self.done.push_back(BlockDone { tag, at: self.driver.now(), result });
            }
            Event::Idle => {
                self.driver.idle_until(begins);
                let written = self.drive(|device, cx| device.write_back_all(cx, Because::Idle));
                self.driver.file("write back");
                self.idle_failed = written.is_err();
            }
            Event::Background => {
                self.thread.idle_until(begins);
                // UBI counts other faults itself, and becomes read-only in the end.
                self.power_lost |= self.volume.step_background(&mut self.thread) == Err(FlashError::PowerLost.into());
                self.thread.file("work");
                self.thread_begins = None;
                self.thread_works = self.thread_works.saturating_sub(1);
                if self.thread_works > 0 && self.volume.background_works() > 0 {
                    self.thread_begins = Some(self.thread.now());
                }
            }
        }
        if self.power_lost {
            for Waiting { tag, at, .. } in std::mem::take(&mut self.waiting) {
                let at = self.driver.now().max(self.thread.now()).max(at);
                self.done.push_back(BlockDone { tag, at, result: Err(BlockError::PowerLost) });
            }
        }
    }

    /// Wakes the background thread if an operation that ended at `now` left it work.
    fn wake_thread(&mut self, now: Ns) {
        let works = self.volume.background_works();
        self.thread_works = self.thread_works.max(works);
        if works > 0 && self.thread_begins.is_none() {
            self.thread_begins = Some(now.max(self.thread.now()));
        }
    }

    /// Does work of the driver, from its clock on.
    fn drive(&mut self, work: impl FnOnce(&mut Self, &mut Cx) -> Result<(), BlockError>) -> Result<(), BlockError> {
        let mut cx = std::mem::take(&mut self.driver);
        let outcome = work(self, &mut cx);
        self.driver = cx;
        self.power_lost |= outcome == Err(BlockError::PowerLost);
        self.wake_thread(self.driver.now());
        outcome
    }

    fn serve(&mut self, cx: &mut Cx, tag: u32, request: &BlockRequest) -> Result<(), BlockError> {
        match (request.op, self.read_only) {
            (BlockOp::Read, _) => {
                let mut data = std::mem::take(&mut self.data[tag as usize]);
                let outcome = self.read(cx, request, &mut data);
                self.data[tag as usize] = data;
                outcome
            }
            (BlockOp::Flush, _) => cx.because(Cause::Flush, |cx| self.write_back_all(cx, Because::Flushed)),
            (_, Some(why)) => Err(BlockError::ReadOnly { why }),
            (BlockOp::Write, None) => {
                let data = std::mem::take(&mut self.data[tag as usize]);
                let outcome = self.write(cx, request, &data);
                self.data[tag as usize] = data;
                outcome
            }
            (BlockOp::Trim, None) if self.config.discard => self.discard(cx, request),
            (BlockOp::Trim, None) => Ok(()),
        }
    }

    /// The parts of a request, LEB by LEB.
    fn pieces(&self, request: &BlockRequest) -> impl Iterator<Item = Piece> + use<V> {
        let leb_bytes = u64::from(self.leb_bytes);
        let sector_bytes = u64::from(SECTOR_BYTES);
        let (start, end) = (request.sector * sector_bytes, request.end() * sector_bytes);
        let mut byte = start;
        std::iter::from_fn(move || {
            if byte >= end {
                return None;
            }
            let (leb, offset) = (byte / leb_bytes, byte % leb_bytes);
            let len = (leb_bytes - offset).min(end - byte);
            let piece = Piece {
                lnum: Lnum(leb as u32),
                offset: offset as u32,
                len: len as u32,
                at: (byte - start) as usize,
                sector: byte / sector_bytes,
            };
            byte += len;
            Some(piece)
        })
    }

    fn read(&mut self, cx: &mut Cx, request: &BlockRequest, data: &mut Vec<u8>) -> Result<(), BlockError> {
        data.clear();
        if V::KEEPS_BYTES {
            data.resize(request.bytes() as usize, 0);
        }
        for Piece { lnum, offset, len, at, sector } in self.pieces(request) {
            if let Some(slot) = self.cache.find(lnum) {
                self.stats.read_hits += 1;
                if V::KEEPS_BYTES {
                    data[at..][..len as usize].copy_from_slice(&slot.bytes[offset as usize..][..len as usize]);
                }
                continue;
            }
            self.stats.read_misses += 1;
            let buf = if V::KEEPS_BYTES { &mut data[at..][..len as usize] } else { nowhere(&mut self.scratch, len) };
            let began = cx.now();
            let outcome = self.volume.read(cx, lnum, offset, buf);
            self.serving.read += (cx.now() - began).0;
            outcome.map_err(|error| failed(error, sector))?;
        }
        Ok(())
    }

    fn write(&mut self, cx: &mut Cx, request: &BlockRequest, data: &[u8]) -> Result<(), BlockError> {
        for piece in self.pieces(request) {
            let Piece { len, at, .. } = piece;
            let bytes = if V::KEEPS_BYTES { &data[at..][..len as usize] } else { &[] };
            self.write_piece(cx, &piece, bytes)?;
        }
        if request.fua {
            let forced = |cx: &mut Cx| {
                self.pieces(request).try_for_each(|piece| self.write_back(cx, piece.lnum, Because::Forced))
            };
            cx.because(Cause::Flush, forced)?;
        }
        Ok(())
    }

    /// Writes the part of a request that lies in one LEB into the cache.
    fn write_piece(&mut self, cx: &mut Cx, piece: &Piece, data: &[u8]) -> Result<(), BlockError> {
        let &Piece { lnum, offset, len, sector, .. } = piece;
        let dirty = self.cache.find(lnum).map(|slot| slot.dirty);
        let mut loaded = None;
        if dirty.is_some() {
            self.stats.write_hits += 1;
        } else {
            if let Some(oldest) = self.cache.oldest().filter(|_| self.cache.is_full()) {
                self.write_back(cx, oldest, Because::Evicted)?;
                self.cache.remove(oldest);
            }
            loaded = Some(self.load(cx, lnum, len == self.leb_bytes, sector)?);
        }
        if self.config.form == Form::UnmapFirst && dirty != Some(true) {
            self.unmap(cx, lnum)?;
        }
        // From here on nothing fails: a LEB that is not fully read or written never stays in the cache.
        if let Some(bytes) = loaded {
            self.cache.insert(lnum, bytes);
        }
        if let Some(slot) = self.cache.peek(lnum) {
            slot.dirty = true;
            if V::KEEPS_BYTES {
                slot.bytes[offset as usize..][..len as usize].copy_from_slice(data);
            }
        }
        Ok(())
    }

    /// Contents of a LEB that is about to be written, in a buffer. It is not read if the `whole` of it is written.
    fn load(&mut self, cx: &mut Cx, lnum: Lnum, whole: bool, sector: u64) -> Result<Vec<u8>, BlockError> {
        let mut bytes = self.cache.buffer();
        if V::KEEPS_BYTES {
            bytes.resize(self.leb_bytes as usize, 0);
        }
        if whole {
            self.stats.whole_lebs += 1;
            return Ok(bytes);
        }
        let buf = if V::KEEPS_BYTES { &mut bytes[..] } else { nowhere(&mut self.scratch, self.leb_bytes) };
        let began = cx.now();
        let outcome = self.volume.read(cx, lnum, 0, buf);
        self.serving.load += (cx.now() - began).0;
        outcome.map_err(|error| failed(error, sector))?;
        self.stats.loads += 1;
        Ok(bytes)
    }

    fn write_back_all(&mut self, cx: &mut Cx, because: Because) -> Result<(), BlockError> {
        while let Some(lnum) = self.cache.first_dirty() {
            self.write_back(cx, lnum, because)?;
        }
        Ok(())
    }

    /// Writes a LEB of the cache back, if it is dirty. It stays dirty if that fails.
    fn write_back(&mut self, cx: &mut Cx, lnum: Lnum, because: Because) -> Result<(), BlockError> {
        let first_sector = self.first_sector(lnum);
        let Some(slot) = self.cache.peek(lnum).filter(|slot| slot.dirty) else { return Ok(()) };
        let data = if V::KEEPS_BYTES { Payload::Bytes(&slot.bytes) } else { Payload::Length(self.leb_bytes) };
        let began = cx.now();
        let written = match self.config.form {
            Form::Atomic => self.volume.change(cx, lnum, data),
            Form::ReadOnly | Form::V2Like | Form::UnmapFirst => {
                let mapped = self.volume.is_mapped(lnum);
                let unmapped = if mapped { self.volume.unmap(cx, lnum) } else { Ok(()) };
                unmapped.and_then(|()| self.volume.write(cx, lnum, 0, data))
            }
        };
        self.serving.write_back += (cx.now() - began).0;
        written.map_err(|error| failed(error, first_sector))?;
        slot.dirty = false;
        self.stats.write_backs[because as usize] += 1;
        Ok(())
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), BlockError> {
        if !self.volume.is_mapped(lnum) {
            return Ok(());
        }
        let began = cx.now();
        let outcome = self.volume.unmap(cx, lnum);
        self.serving.unmap += (cx.now() - began).0;
        outcome.map_err(|error| failed(error, self.first_sector(lnum)))
    }

    fn first_sector(&self, lnum: Lnum) -> u64 {
        u64::from(lnum.0) * u64::from(self.leb_bytes) / u64::from(SECTOR_BYTES)
    }

    /// Unmaps the LEBs that a request covers. The last sector of the device covers the rest of its LEB, which no sector
    /// addresses.
    fn discard(&mut self, cx: &mut Cx, request: &BlockRequest) -> Result<(), BlockError> {
        let (leb_bytes, sector_bytes) = (u64::from(self.leb_bytes), u64::from(SECTOR_BYTES));
        let first = (request.sector * sector_bytes).div_ceil(leb_bytes);
        let end = request.end() * sector_bytes;
        let end = if request.end() == self.sectors { end.div_ceil(leb_bytes) } else { end / leb_bytes };
        for lnum in (first..end).map(|lnum| Lnum(lnum as u32)) {
            let cached = self.cache.peek(lnum).is_some();
            if cached || self.volume.is_mapped(lnum) {
                self.unmap(cx, lnum)?;
                self.cache.remove(lnum);
                self.stats.discarded += 1;
            }
        }
        Ok(())
    }
}

/// Where `len` bytes are read to if nobody keeps them: for the time of the read, and its faults.
fn nowhere(scratch: &mut Vec<u8>, len: u32) -> &mut [u8] {
    scratch.resize(len as usize, 0);
    scratch
}

/// The error of a request, from that of a LEB. `sector` is the first one concerned.
fn failed(error: LebError, sector: u64) -> BlockError {
    match error {
        LebError::Flash(FlashError::PowerLost) => BlockError::PowerLost,
        LebError::Flash(FlashError::Uncorrectable { .. }) | LebError::Corrupt { .. } => {
            BlockError::Uncorrectable { sector }
        }
        LebError::ReadOnly { why, .. } => BlockError::WornOut { why },
        LebError::NoSpace { .. } => BlockError::WornOut { why: "no physical eraseblock is free" },
        LebError::Flash(_) => BlockError::WornOut { why: "the flash refused an operation" },
        LebError::NoSuchLeb { .. }
        | LebError::OutOfBounds { .. }
        | LebError::Mapped { .. }
        | LebError::Updating { .. } => {
            unreachable!("the device was bounded by its volume, and nobody else uses that: {error}")
        }
    }
}

impl<V: Backing> BlockDevice for UbiBlock<V> {
    const KEEPS_BYTES: bool = V::KEEPS_BYTES;

    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn queue_depth(&self) -> u32 {
        self.config.depth
    }

    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        while self.next_event().is_some_and(|(begins, _)| begins <= at) {
            self.step();
        }
        if self.power_lost {
            return Err(BlockError::PowerLost);
        }
        let (sectors, sector) = (self.sectors, request.sector);
        let end = sector.saturating_add(u64::from(request.sectors));
        if end > sectors {
            return Err(BlockError::OutOfBounds { sector, end, sectors });
        }
        if self.waiting.len() + self.done.len() >= self.config.depth as usize {
            return Err(BlockError::QueueFull { depth: self.config.depth });
        }
        if request.op == BlockOp::Write && V::KEEPS_BYTES {
            let kept = &mut self.data[tag as usize];
            kept.clear();
            match data {
                Payload::Bytes(bytes) => kept.extend_from_slice(bytes),
                Payload::Length(_) => kept.resize(request.bytes() as usize, 0),
            }
        }
        self.waiting.push_back(Waiting { at, tag, request });
        Ok(())
    }

    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        loop {
            let done = self.done.front().map(|done| done.at);
            match (done, self.next_event()) {
                (Some(at), event) if event.is_none_or(|(begins, _)| at <= begins) => {
                    return if at <= until { self.done.pop_front() } else { None };
                }
                (_, Some((begins, _))) if begins <= until => self.step(),
                _ => return None,
            }
        }
    }

    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        let data = &self.data[tag as usize];
        if data.len() == buf.len() {
            buf.copy_from_slice(data);
        } else {
            buf.fill(0);
        }
    }
}
