//! The write buffer in the drive: pages that are complete for the host and not yet in the cells.
//!
//! A write completes when its last page is in the buffer. Pages leave when room is short, by the buffer's policy, and
//! all of them on a flush, which is complete when every page that left before or for it is in the cells. A slot stays
//! readable until then. Keys of the buffer are the unit's number and the page's number in it, so that a group of BPLRU
//! is a logical block of one unit: what a log-block layer below merges.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use sim::seam::Flash;
use sim::{Cause, Ns};

use super::{Ssd, WORN_OUT};
use crate::ShapeError;
use crate::cache::{BufferConfig, BufferCounts, Evicted, Inserted, Policy, WriteBuffer};
use crate::dispatch::Dispatcher;
use crate::dispatch::io::{IoKind, Owner, overlay};
use crate::ftl::{NONE, UnitFtl};

/// A write buffer's size and policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Which page leaves first.
    pub policy: Policy,
    /// Pages that it holds.
    pub pages: u32,
}

/// The buffer, what its slots hold, and who waits for it.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    slots: WriteBuffer,
    /// Sectors of each slot that were written, one bit each.
    masks: Vec<u128>,
    /// Contents of each slot, where the flash keeps bytes.
    contents: Vec<Vec<u8>>,
    /// Number of the eviction by which each slot left; and how many there were.
    left: Vec<u64>,
    evictions: u64,
    /// Writes that wait for room: tag, next page, one past the last.
    waiting: VecDeque<(u32, u32, u32)>,
    /// Flushes under way: tag, numbers of the evictions that count, and how many of those are not in the cells.
    flushes: Vec<(u32, RangeInclusive<u64>, u32)>,
    /// Pages trimmed while an older write of theirs was under way.
    trim_after: Vec<(u32, u32)>,
    /// Logical pages of a unit, rounded up to whole blocks.
    stride: u32,
    /// Free slots below which pages leave.
    reserve: u32,
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

    pub(super) fn counts(&self) -> BufferCounts {
        *self.slots.counts()
    }

    pub(super) fn dirty(&self) -> u32 {
        self.slots.dirty()
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Puts the pages of a write into the buffer, behind writes that wait for room already.
    pub(super) fn buffer_write_in_turn(&mut self, tag: u32, next: u32, end: u32) {
        match &mut self.buffer {
            Some(buffer) if !buffer.waiting.is_empty() => buffer.waiting.push_back((tag, next, end)),
            _ => self.buffer_write(tag, next, end),
        }
    }

    /// Puts the pages of a write into the buffer, as far as there is room.
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
            // The page as a whole is known now, and is written after whatever is under way.
            buffer.trim_after.retain(|&place| place != (unit, local));
            let below = base.map_or(if trimmed { buffer.full } else { 0 }, |base| buffer.masks[base]);
            buffer.masks[at] = mask | below;
            if F::KEEPS_BYTES {
                let written = self.page_of_request(tag, &asked, next, None);
                let Some(buffer) = &mut self.buffer else { return };
                let mut page =
                    base.map_or_else(|| vec![fill.unwrap_or(0); written.len()], |base| buffer.contents[base].clone());
                overlay(&mut page, &written, mask);
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

    /// Lets pages leave while room is short.
    fn write_out(&mut self) {
        while let Some(buffer) = &mut self.buffer {
            let short = buffer.slots.free() < buffer.reserve || buffer.slots.config().policy == Policy::None;
            // What is under way makes room by itself.
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

    /// Hands evicted pages to their dies.
    fn push_out(&mut self, out: &mut Vec<Evicted>, cause: Cause) {
        for evicted in out.drain(..) {
            let Some(buffer) = &mut self.buffer else { return };
            let (unit, local) = (evicted.lpn / buffer.stride, evicted.lpn % buffer.stride);
            if evicted.padding && self.striping.lpn(unit, local) >= self.config.pages {
                // No page of the host's: the group is the last of its unit.
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

    /// A page that left is in the cells.
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

    /// Writes that wait for room go on, in their order.
    fn admit_waiting(&mut self) {
        while let Some(buffer) = &mut self.buffer {
            if buffer.slots.free() == 0 {
                return;
            }
            let Some((tag, next, end)) = buffer.waiting.pop_front() else { return };
            self.buffer_write(tag, next, end);
        }
    }

    /// A flush: everything leaves, and the request is complete when it is in the cells.
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

    /// What waits for room in the buffer, or for its pages to be in the cells, will wait for ever: it fails.
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

    /// Whether the buffer has all that a read wants of page `lpn`; what it has goes into, or over, the request.
    pub(super) fn read_buffered(&mut self, tag: u32, lpn: u32, unit: u32, local: u32) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        let Some(slot) = buffer.slots.lookup(buffer.key(unit, local)) else {
            // Trimmed, though the cells do not know it yet.
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
            let page = buffer.contents[slot as usize].clone();
            if whole {
                self.sectors_into_request(tag, lpn, &page);
            } else {
                // Kept as it is now: what the flash gives lies below it, whatever is written meanwhile.
                self.requests[tag as usize].over.push((lpn, held, page));
            }
        }
        whole
    }

    /// A trimmed page leaves the buffer. Whether the layer below is to be trimmed now, and not later.
    pub(super) fn trim_buffered(&mut self, unit: u32, local: u32) -> bool {
        let Some(buffer) = &mut self.buffer else { return true };
        let key = buffer.key(unit, local);
        let later = buffer.slots.trim(key);
        if later {
            buffer.trim_after.push((unit, local));
        }
        !later
    }

    /// What the buffer did; all zero without one.
    pub fn buffer_counts(&self) -> BufferCounts {
        self.buffer.as_ref().map_or_else(BufferCounts::default, Buffer::counts)
    }

    /// Dirty pages in the buffer.
    pub fn dirty_pages(&self) -> u32 {
        self.buffer.as_ref().map_or(0, Buffer::dirty)
    }
}
