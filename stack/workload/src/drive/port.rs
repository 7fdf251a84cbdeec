//! The queue of the device, shared by all users: tags, and the host's own queue in front of it.
//!
//! Invariant: requests wait in the host only while every tag is in use, and are submitted in the order of issue.

use std::collections::VecDeque;

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload};

use super::report::Span;

/// An outstanding request; `owner` is the load's number of its user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub request: BlockRequest,
    pub owner: u32,
    pub issued: Ns,
    pub submitted: Ns,
}

impl Slot {
    pub(super) fn span(&self, done: Ns) -> Span {
        Span { issued: self.issued, submitted: self.submitted, done }
    }
}

/// A request that the device refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub at: Ns,
    pub slot: Slot,
    pub error: BlockError,
}

#[derive(Debug)]
pub(super) struct Port {
    /// Slots by tag.
    slots: Vec<Slot>,
    free: Vec<u32>,
    waiting: VecDeque<Slot>,
    depth: u32,
    pub max_waiting: usize,
}

impl Port {
    pub(super) fn new<D: BlockDevice>(device: &D) -> Port {
        let depth = device.queue_depth();
        Port { slots: Vec::new(), free: Vec::new(), waiting: VecDeque::new(), depth, max_waiting: 0 }
    }

    /// Requests in the device or waiting in the host.
    pub(super) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len() + self.waiting.len()
    }

    /// Submits a request to the device, or queues it in the host.
    #[inline(always)]
    pub(super) fn issue<D: BlockDevice>(
        &mut self,
        device: &mut D,
        now: Ns,
        owner: u32,
        request: BlockRequest,
    ) -> Result<(), Box<Refused>> {
        match self.free.pop() {
            Some(tag) => self.submit(device, tag, request, owner, now, now),
            None => self.issue_without_tag(device, Slot { request, owner, issued: now, submitted: now }),
        }
    }

    #[cold]
    fn issue_without_tag<D: BlockDevice>(&mut self, device: &mut D, slot: Slot) -> Result<(), Box<Refused>> {
        // Slots are created as needed: a deep queue costs memory only for the depth that is used.
        let tag = self.slots.len() as u32;
        if tag < self.depth {
            self.slots.push(slot);
            return self.submit(device, tag, slot.request, slot.owner, slot.issued, slot.submitted);
        }
        self.waiting.push_back(slot);
        self.max_waiting = self.max_waiting.max(self.waiting.len());
        Ok(())
    }

    /// Writes the parts of a slot in place, one by one: reading back as a whole what was just written in parts would
    /// stall the processor.
    #[inline(always)]
    fn submit<D: BlockDevice>(
        &mut self,
        device: &mut D,
        tag: u32,
        request: BlockRequest,
        owner: u32,
        issued: Ns,
        submitted: Ns,
    ) -> Result<(), Box<Refused>> {
        let bytes = if request.op == BlockOp::Write { request.bytes() } else { 0 };
        let slot = &mut self.slots[tag as usize];
        (slot.request, slot.owner) = (request, owner);
        (slot.issued, slot.submitted) = (issued, submitted);
        let outcome = match u32::try_from(bytes) {
            Ok(bytes) => device.submit(submitted, tag, request, Payload::Length(bytes)),
            // More than a request can express: report it as an out-of-bounds range.
            Err(_) => Err(BlockError::OutOfBounds {
                sector: request.sector,
                end: request.sector.saturating_add(u64::from(request.sectors)),
                sectors: device.sectors(),
            }),
        };
        outcome.map_err(|error| {
            Box::new(Refused { at: submitted, slot: Slot { request, owner, issued, submitted }, error })
        })
    }

    /// The slot of the completed request. [`pass_on`](Self::pass_on) must follow.
    #[inline(always)]
    pub(super) fn completed(&self, done: &BlockDone) -> Slot {
        self.slots[done.tag as usize]
    }

    /// Gives the tag of a completed request to the one that waits longest, if any.
    #[inline(always)]
    pub(super) fn pass_on<D: BlockDevice>(&mut self, device: &mut D, done: &BlockDone) -> Result<(), Box<Refused>> {
        match self.waiting.pop_front() {
            None => {
                self.free.push(done.tag);
                Ok(())
            }
            Some(next) => self.submit_waiting(device, done, next),
        }
    }

    #[inline(never)]
    fn submit_waiting<D: BlockDevice>(
        &mut self,
        device: &mut D,
        done: &BlockDone,
        next: Slot,
    ) -> Result<(), Box<Refused>> {
        self.submit(device, done.tag, next.request, next.owner, next.issued, done.at)
    }
}

/// Whether the run can continue after a request failed with `error`.
#[inline]
pub(super) fn is_survivable(error: &BlockError) -> bool {
    matches!(error, BlockError::Uncorrectable { .. })
}
