//! Host Performance Booster, host side: a layer between the block layer and the device's queue, like Linux's `ufshpb`.
//!
//! [`Hpb`] is a block device over another one. It looks at each submitted request, sends a read with an entry if its
//! map cache has one, processes the recommendations in responses, and issues commands of its own (HPB READ BUFFER, HPB
//! WRITE BUFFER). To the device, a read without an entry is an ordinary read.
//!
//! | module | contents |
//! |---|---|
//! | [`driver`] | the map cache: active regions, dirty pages, how a read is sent |
//! | `activation` | which sub-regions are loaded next and which regions are inactivated |
//! | `timers` | polls and timeouts |
//! | [`state`] | states of logical units, regions and sub-regions, and their legal transitions |
//! | [`stats`] | counters, named as in sysfs |
//!
//! Decisions are made when a request is submitted and when one completes. All completions that have happened are
//! processed before the caller gets the first one, as in one interrupt.

mod activation;
pub mod driver;
pub mod state;
pub mod stats;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::VecDeque;

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload};

use crate::device::hpb::{Advice, HpbDevice, MAP_COMMANDS, MapCommand, ReadCommand};
pub use driver::Driver;

/// A block device with an HPB driver on the host. Over a device without HPB it passes every request through unchanged.
#[derive(Clone, Debug)]
pub struct Hpb<D> {
    device: D,
    depth: u32,
    /// `log2` of the sectors per page.
    page_shift: u32,
    driver: Option<Box<Driver>>,
    /// HPB commands in flight, by their tag minus the queue depth; `free` has the numbers that are not in use.
    commands: Vec<Option<MapCommand>>,
    free: Vec<u32>,
    /// READ ID of the read under each tag; 0: none.
    read_ids: Vec<u8>,
    /// Completions that the caller has not yet received.
    done: VecDeque<BlockDone>,
    /// Every n-th recommendation is lost; 0: none.
    lose_every: u32,
    advices: u32,
}

impl<D: HpbDevice> Hpb<D> {
    /// Driver over a device that was just powered on. Pinned regions are loaded with the first request.
    pub fn new(device: D) -> Hpb<D> {
        let depth = device.queue_depth();
        Hpb {
            depth,
            page_shift: device.page_sectors().trailing_zeros(),
            driver: device.hpb_config().map(|config| Box::new(Driver::new(config, depth))),
            commands: vec![None; MAP_COMMANDS as usize],
            free: (0..MAP_COMMANDS).rev().collect(),
            read_ids: vec![0; depth as usize],
            done: VecDeque::with_capacity(depth as usize),
            lose_every: 0,
            advices: 0,
            device,
        }
    }

    /// The device below.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device below, to cut its power or to reset it. Submit requests to [`Hpb`] instead.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// The device below. The state of the host is dropped, as at a power loss.
    pub fn into_device(self) -> D {
        self.device
    }

    /// The HPB driver, for its counters and states; `None` over a device without HPB.
    pub fn driver(&self) -> Option<&Driver> {
        self.driver.as_deref()
    }

    /// From now on every n-th recommendation is lost on its way to the host, where n is `every`; 0: none.
    pub fn lose_advice(&mut self, every: u32) {
        self.lose_every = every;
    }

    /// First page of a request, and number of pages that it touches.
    #[inline]
    fn pages_of(&self, request: &BlockRequest) -> (u32, u32) {
        let first = request.sector >> self.page_shift;
        let end = (request.end() + (1 << self.page_shift) - 1) >> self.page_shift;
        (first as u32, (end - first) as u32)
    }

    /// Issues the driver's commands while there are free tags.
    fn issue(&mut self, at: Ns) {
        while let Some(driver) = &mut self.driver
            && let Some(&number) = self.free.last()
            && let Some(command) = driver.next_command(at)
        {
            let entries = match command {
                MapCommand::PreRequest { id, .. } => driver.pre_requested(id),
                _ => &[],
            };
            match self.device.submit_map(at, self.depth + number, command, entries) {
                Ok(()) => {
                    self.free.pop();
                    self.commands[number as usize] = Some(command);
                }
                // Power is lost: nothing waits for a command that was not issued.
                Err(_) => {
                    if let MapCommand::Load { sub } = command {
                        driver.load_failed(sub);
                    }
                }
            }
        }
    }

    /// Processes the completion of a request or command. Returns whether it was a command of the HPB driver.
    #[inline(always)]
    fn handle(&mut self, tag: u32, at: Ns, went_well: bool) -> bool {
        let Some(driver) = &mut self.driver else { return false };
        let own = tag >= self.depth;
        if own {
            let number = tag - self.depth;
            match self.commands[number as usize].take() {
                Some(MapCommand::Load { sub }) if went_well => driver.loaded(sub, self.device.entries(tag)),
                Some(MapCommand::Load { sub }) => driver.load_failed(sub),
                _ => {}
            }
            self.free.push(number);
        } else {
            let id = std::mem::take(&mut self.read_ids[tag as usize]);
            if id > 0 {
                driver.pre_request_done(id);
            }
        }
        if let Some(advice) = self.device.take_advice(tag) {
            self.advised(&advice);
        }
        if self.driver.as_ref().is_some_and(|driver| !driver.is_idle()) {
            self.issue(at);
        }
        own
    }

    #[cold]
    fn advised(&mut self, advice: &Advice) {
        self.advices += 1;
        let lost = self.lose_every > 0 && self.advices.is_multiple_of(self.lose_every);
        if let Some(driver) = &mut self.driver
            && !lost
        {
            driver.advised(advice);
        }
    }

    /// Processes all completions up to now, so that the driver's next commands are issued at their time.
    #[inline]
    fn handle_all(&mut self) {
        while let Some(done) = self.device.completed() {
            self.handle_and_keep(done);
        }
    }

    /// Processes one completion. If it is that of a request, the caller gets it later.
    #[inline(never)]
    fn handle_and_keep(&mut self, done: BlockDone) {
        if !self.handle(done.tag, done.at, done.result.is_ok()) {
            self.done.push_back(done);
        }
    }

    /// Processes a request that the device would accept: how a read is sent, and which entries a write makes dirty.
    #[inline(never)]
    fn prepare(&mut self, at: Ns, tag: u32, request: &BlockRequest) -> ReadCommand {
        let (first, pages) = self.pages_of(request);
        let Some(driver) = &mut self.driver else { return ReadCommand::Plain };
        driver.poll(at);
        let mut command = ReadCommand::Plain;
        match request.op {
            BlockOp::Read => {
                command = driver.read(first, pages);
                self.read_ids[tag as usize] = if let ReadCommand::ReadId(id) = command { id } else { 0 };
            }
            BlockOp::Write | BlockOp::Trim => driver.write(first, pages),
            BlockOp::Flush => {}
        }
        if !driver.is_idle() {
            self.issue(at);
        }
        command
    }

    /// Processes a completion of the device and all others that have happened. Returns whether it was that of a command
    /// of the HPB driver.
    #[inline(never)]
    fn after(&mut self, done: &BlockDone) -> bool {
        let own = self.handle(done.tag, done.at, done.result.is_ok());
        self.handle_all();
        own
    }
}

impl<D: HpbDevice> BlockDevice for Hpb<D> {
    const KEEPS_BYTES: bool = D::KEEPS_BYTES;

    fn sectors(&self) -> u64 {
        self.device.sectors()
    }

    fn queue_depth(&self) -> u32 {
        self.depth
    }

    // `submit` and `next_done` call the device in one place each, so that its code is inlined there: a drive without
    // HPB must not pay for this layer.
    #[inline]
    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        let mut command = ReadCommand::Plain;
        if self.driver.is_some() {
            self.device.would_take(tag, &request)?;
            command = self.prepare(at, tag, &request);
        }
        self.device.submit_with(at, tag, request, command, data)?;
        if self.driver.is_some() {
            self.handle_all();
        }
        Ok(())
    }

    #[inline]
    fn expect(&self, request: &BlockRequest) {
        self.device.expect(request);
        if let Some(driver) = &self.driver {
            driver.expect(self.pages_of(request).0);
        }
    }

    #[inline]
    fn expect_next(&self, request: &BlockRequest) {
        self.device.expect_next(request);
    }

    #[inline]
    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        loop {
            if self.driver.is_some()
                && let Some(done) = self.done.pop_front()
            {
                return Some(done);
            }
            let next = self.device.next_done(until);
            if self.driver.is_none() {
                return next;
            }
            let done = next?;
            if !self.after(&done) {
                return Some(done);
            }
        }
    }

    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        self.device.take(tag, buf);
    }
}
