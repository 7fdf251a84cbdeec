//! The write buffer in the drive. It holds pages whose writes completed for the host but which are not yet in the
//! cells.
//!
//! A write completes when its last page is in the buffer. Pages are evicted (written out) when free slots run short, in
//! the order of the buffer's policy. A flush evicts all of them and completes when these and all earlier evictions are
//! in the cells. Until then a slot stays readable. Keys of the buffer combine the unit's number and the page's number
//! in it, so that a group of BPLRU is a logical block of one unit: the block that a log-block FTL below merges.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use sim::seam::Flash;
use sim::{Cause, Ns};

use super::{Ssd, WORN_OUT};
use crate::ShapeError;
use crate::cache::{BufferConfig, BufferCounts, Evicted, Inserted, Policy, WriteBuffer};
use crate::dispatch::Dispatcher;
use crate::dispatch::io::{IoKind, Owner};
use crate::ftl::{NONE, UnitFtl};

/// Size and policy of a write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Which pages are evicted first.
    pub policy: Policy,
    /// Capacity in pages.
    pub pages: u32,
}

/// The buffer, the contents of its slots, and the requests that wait for it.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    slots: WriteBuffer,
    /// Valid sectors of each slot, one bit each.
    masks: Vec<u128>,
    /// Contents of each slot, if the flash keeps contents.
    contents: Vec<Vec<u8>>,
    /// Number of the eviction by which each slot was last written out; and the number of evictions so far.
    left: Vec<u64>,
    evictions: u64,
    /// Writes that wait for a free slot: tag, next logical page, one past the last.
    waiting: VecDeque<(u32, u32, u32)>,
    /// Flushes in progress: tag, numbers of the evictions that it waits for, and how many of these are not in the
    /// cells.
    flushes: Vec<(u32, RangeInclusive<u64>, u32)>,
    /// Pages, as (unit, page), trimmed while an older write of them is in progress: the FTL is trimmed after it.
    trim_after: Vec<(u32, u32)>,
    /// Distance between the first keys of two units: a unit's logical pages, rounded up to whole blocks.
    stride: u32,
    /// Number of free slots below which pages are evicted.
    reserve: u32,
    /// Mask of all sectors of a page.
    full: u128,
    out: Vec<Evicted>,
}

impl Buffer {
    pub(super) fn new(
        config: &CacheConfig,
        units: u32,
        unit_lpns: u32,
        unit_pages: u32,
        sectors: u32,
    ) -> Result<Buffer, ShapeError> {
        let stride = unit_lpns.next_multiple_of(unit_pages);
        let slots = WriteBuffer::new(BufferConfig {
            policy: config.policy,
            capacity: config.pages,
            lpns: units.saturating_mul(stride),
            group_pages: unit_pages,
        })?;
        let room = config.pages as usize;
        Ok(Buffer {
            slots,
            masks: vec![0; room],
            contents: vec![Vec::new(); room],
            left: vec![0; room],
            evictions: 0,
            waiting: VecDeque::new(),
            flushes: Vec::new(),
            trim_after: Vec::new(),
            stride,
            reserve: (config.pages / 8).max(1),
            full: if sectors >= 128 { u128::MAX } else { (1 << sectors) - 1 },
            out: Vec::new(),
        })
    }

    #[inline]
    fn key(&self, unit: u32, local: u32) -> u32 {
        unit * self.stride + local
    }

    /// Whether reads of a page depend on the buffer.
    #[inline]
    pub(super) fn concerns(&self, unit: u32, local: u32) -> bool {
        self.slots.lookup(self.key(unit, local)).is_some() || self.trim_after.contains(&(unit, local))
    }

    pub(super) fn counts(&self) -> BufferCounts {
        *self.slots.counts()
    }

    pub(super) fn dirty(&self) -> u32 {
        self.slots.dirty()
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Puts the pages of a write into the buffer, after the writes that already wait for a free slot.
    pub(super) fn buffer_write_in_turn(&mut self, tag: u32, next: u32, end: u32) {
        match &mut self.buffer {
            Some(buffer) if !buffer.waiting.is_empty() => buffer.waiting.push_back((tag, next, end)),
            _ => self.buffer_write(tag, next, end),
        }
    }

    /// Puts the pages of a write into the buffer while it has free slots; the rest waits.
    pub(super) fn buffer_write(&mut self, tag: u32, mut next: u32, end: u32) {
        let asked = self.requests[tag as usize].asked;
        while next < end {
            let (unit, local) = self.striping.locate(next);
            let mask = self.mask_of(&asked, next);
            let Some(buffer) = &mut self.buffer else { return };
            let key = buffer.key(unit, local);
            let older = buffer.slots.lookup(key);
            let (slot, base) = match buffer.slots.insert(key) {
                Inserted::Hit(slot) => (slot, Some(slot)),
                Inserted::New(slot) => (slot, older),
                Inserted::Full => {
                    buffer.waiting.push_front((tag, next, end));
                    self.write_out();
                    return;
                }
            };
            let fill = self.trimmed.written(next);
            let (at, base) = (slot as usize, base.map(|base| base as usize));
            let trimmed = base.is_none() && (fill.is_some() || buffer.trim_after.contains(&(unit, local)));
            // The buffer now holds the whole page, and writes it after any write in progress.
            buffer.trim_after.retain(|&place| place != (unit, local));
            let below = base.map_or(if trimmed { buffer.full } else { 0 }, |base| buffer.masks[base]);
            buffer.masks[at] = mask | below;
            if F::KEEPS_BYTES {
                let mut page = std::mem::take(&mut buffer.contents[at]);
                match base {
                    Some(base) if base == at => {}
                    Some(base) => page.clone_from(&buffer.contents[base]),
                    None => {
                        page.clear();
                        page.resize(512 << self.page_shift, fill.unwrap_or(0));
                    }
                }
                self.request_into_page(tag, &asked, next, &mut page);
                let Some(buffer) = &mut self.buffer else { return };
                buffer.contents[at] = page;
            }
            next += 1;
            self.write_out();
        }
        let request = &mut self.requests[tag as usize];
        request.latency.flush += self.now - request.started;
        let fua = request.asked.fua && !self.known_bad.ignore_fua;
        if fua || !self.config.front.write_cache {
            self.buffer_flush(tag);
        } else {
            self.finish(tag);
        }
    }

    /// Evicts pages while free slots are short; under [`Policy::None`], at once.
    fn write_out(&mut self) {
        while let Some(buffer) = &mut self.buffer {
            let short = buffer.slots.free() < buffer.reserve || buffer.slots.config().policy == Policy::None;
            // Pages that are being written out free their slots by themselves.
            let through = buffer.slots.config().policy == Policy::None;
            if !short || !through && buffer.slots.free() + buffer.slots.under_way() >= buffer.reserve {
                break;
            }
            let mut out = std::mem::take(&mut buffer.out);
            if buffer.slots.victim(&mut out) == 0 {
                buffer.out = out;
                break;
            }
            self.push_out(&mut out, Cause::Host);
            if let Some(buffer) = &mut self.buffer {
                buffer.out = out;
            }
        }
        self.dispatcher.kick(Ns(self.now));
    }

    /// Queues evicted pages on their dies.
    fn push_out(&mut self, out: &mut Vec<Evicted>, cause: Cause) {
        for evicted in out.drain(..) {
            let Some(buffer) = &mut self.buffer else { return };
            let (unit, local) = (evicted.lpn / buffer.stride, evicted.lpn % buffer.stride);
            if evicted.padding && self.striping.lpn(unit, local) >= self.config.pages {
                // The group is the last of its unit and goes past the host's pages.
                continue;
            }
            let mask = evicted.slot.map_or(0, |slot| buffer.masks[slot as usize]);
            let owner = match evicted.slot {
                Some(slot) if !evicted.padding => {
                    buffer.evictions += 1;
                    buffer.left[slot as usize] = buffer.evictions;
                    Owner::Buffer { slot }
                }
                _ => Owner::BufferPadding,
            };
            let kind = if mask == buffer.full { IoKind::Write } else { IoKind::Merge };
            let page_bytes = 512 << self.page_shift;
            let contents = F::kept(|| {
                evicted.slot.map_or_else(|| vec![0; page_bytes], |slot| buffer.contents[slot as usize].clone())
            });
            let cause = if evicted.padding { Cause::Padding } else { cause };
            let io = Dispatcher::<F, M>::io(kind, cause, unit, local, owner);
            self.push_io(io, contents.unwrap_or_default(), mask);
        }
    }

    /// Releases the slot of an evicted page, which is in the cells now. Completes flushes that waited for it.
    pub(super) fn written_out(&mut self, slot: u32) {
        let Some(buffer) = &mut self.buffer else { return };
        let key = buffer.slots.page(slot).unwrap_or(NONE);
        let left = buffer.left[slot as usize];
        buffer.slots.release(slot);
        let (unit, local) = (key / buffer.stride, key % buffer.stride);
        if buffer.trim_after.contains(&(unit, local))
            && !buffer.slots.slots_under_way().any(|other| buffer.slots.page(other) == Some(key))
        {
            buffer.trim_after.retain(|&place| place != (unit, local));
            self.dispatcher.trim(unit, local, self.trimmed.shows_old());
        }
        let mut ended = Vec::new();
        for flush in &mut buffer.flushes {
            flush.2 -= u32::from(flush.1.contains(&left));
        }
        buffer.flushes.retain(|&(tag, _, remaining)| {
            if remaining == 0 {
                ended.push(tag);
            }
            remaining > 0
        });
        for tag in ended {
            self.flushed(tag);
        }
        self.admit_waiting();
    }

    /// Continues the writes that wait for a free slot, in order of arrival.
    fn admit_waiting(&mut self) {
        while let Some(buffer) = &mut self.buffer {
            if buffer.slots.free() == 0 {
                return;
            }
            let Some((tag, next, end)) = buffer.waiting.pop_front() else { return };
            self.buffer_write(tag, next, end);
        }
    }

    /// Starts a flush: evicts all pages. The request completes when they are in the cells.
    pub(super) fn buffer_flush(&mut self, tag: u32) {
        self.requests[tag as usize].started = self.now;
        let Some(buffer) = &mut self.buffer else { return };
        let first = if self.known_bad.flush_own_pages_only { buffer.evictions + 1 } else { 0 };
        let mut out = std::mem::take(&mut buffer.out);
        buffer.slots.drain(&mut out);
        self.push_out(&mut out, Cause::Flush);
        let Some(buffer) = &mut self.buffer else { return };
        buffer.out = out;
        let counts = first..=buffer.evictions;
        let under_way = match first {
            0 => buffer.slots.under_way(),
            _ => (buffer.evictions + 1 - first) as u32,
        };
        if under_way == 0 {
            return self.flushed(tag);
        }
        buffer.flushes.push((tag, counts, under_way));
        self.dispatcher.kick(Ns(self.now));
        if self.known_bad.flush_at_once
            && let Some(buffer) = &mut self.buffer
        {
            buffer.flushes.retain(|flush| flush.0 != tag);
            self.flushed(tag);
        }
    }

    /// Fails the writes that wait for a free slot and the flushes in progress, which cannot complete any more.
    pub(super) fn fail_waiting(&mut self) {
        let Some(buffer) = &mut self.buffer else { return };
        let waiting = buffer.waiting.drain(..).map(|(tag, ..)| tag);
        let tags: Vec<u32> = waiting.chain(buffer.flushes.drain(..).map(|(tag, ..)| tag)).collect();
        for tag in tags {
            let request = &mut self.requests[tag as usize];
            request.latency.flush += self.now - request.started;
            request.result = Err(WORN_OUT);
            self.complete(tag);
        }
    }

    fn flushed(&mut self, tag: u32) {
        let request = &mut self.requests[tag as usize];
        request.latency.flush += self.now - request.started;
        self.finish(tag);
    }

    /// Reads page `lpn` from the buffer. Returns whether that serves all requested sectors; if not, the buffered
    /// sectors are kept to be overlaid on the page from the flash.
    pub(super) fn read_buffered(&mut self, tag: u32, lpn: u32, unit: u32, local: u32) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        let Some(slot) = buffer.slots.lookup(buffer.key(unit, local)) else {
            // Trimmed, but the FTL does not know it yet.
            let trimmed = buffer.trim_after.contains(&(unit, local));
            if trimmed {
                self.blank_into_request(tag, lpn);
            }
            return trimmed;
        };
        let held = buffer.masks[slot as usize];
        let asked = self.requests[tag as usize].asked;
        let whole = self.mask_of(&asked, lpn) & !held == 0;
        if F::KEEPS_BYTES {
            let mut page = buffer.contents[slot as usize].clone();
            if whole {
                self.sectors_into_request(tag, lpn, &mut page);
            } else {
                // A copy as of now: it is overlaid on the flash's contents, whatever is written meanwhile.
                self.requests[tag as usize].over.push((lpn, held, page));
            }
        }
        whole
    }

    /// Removes a trimmed page from the buffer. Returns whether the FTL is to be trimmed now; otherwise it is trimmed
    /// when the page's write in progress ends.
    pub(super) fn trim_buffered(&mut self, unit: u32, local: u32) -> bool {
        let Some(buffer) = &mut self.buffer else { return true };
        let key = buffer.key(unit, local);
        let later = buffer.slots.trim(key);
        if later {
            buffer.trim_after.push((unit, local));
        }
        !later
    }

    /// Counters of the buffer; all zero without one.
    pub fn buffer_counts(&self) -> BufferCounts {
        self.buffer.as_ref().map_or_else(BufferCounts::default, Buffer::counts)
    }

    /// Dirty pages in the buffer; 0 without one.
    pub fn dirty_pages(&self) -> u32 {
        self.buffer.as_ref().map_or(0, Buffer::dirty)
    }
}
