//! A front end as a client of the server: takes requests off its queues, and answers them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use runner::export::vhost_blk::{Chain, HEADER_BYTES, Request, Segment, Span, Status, part};
use rustix::event::PollFlags;
use sim::seam::{BlockError, BlockOp};
use vhost_user_backend::{ShutdownHandle, VringRwLock, VringState, VringT};
use virtio_queue::{QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemory, GuestMemoryMmap, Permissions};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::{Link, QUEUES};
use crate::serve::client::{Client, Gone, PIECE, Piece, Progress};

/// Requests that are taken between two looks at the other clients.
const TURN: usize = 256;

/// A request under way.
struct Exchange {
    queue: usize,
    /// The first descriptor, which is the request's name.
    head: u16,
    /// The memory that it was made in.
    memory: Arc<GuestMemoryMmap>,
    chain: Chain,
    progress: Progress,
    /// First byte on the drive.
    offset: u64,
    /// Whether the chain has the data to write.
    carries: bool,
    status: Status,
}

/// A front end.
pub(super) struct FrontEnd {
    link: Arc<Link>,
    hang_up: Option<ShutdownHandle>,
    exchanges: Vec<Option<Exchange>>,
    free: Vec<usize>,
    /// The exchange whose pieces are not all submitted.
    open: Option<usize>,
    /// Data of one piece, between the drive and the guest's memory.
    data: Vec<u8>,
    /// A bit for each queue that may have requests.
    pending: u64,
    /// The queue that is asked next.
    turn: usize,
    /// Requests that may still be taken before others have their turn.
    left: usize,
    /// A bit for each queue with answers that its driver was not told of.
    answered: u64,
    /// Why it is let go.
    over: Option<String>,
    /// It has closed the connection.
    left_us: bool,
}

impl FrontEnd {
    pub(super) fn new(link: Arc<Link>, hang_up: Option<ShutdownHandle>) -> FrontEnd {
        FrontEnd {
            link,
            hang_up,
            exchanges: Vec::new(),
            free: Vec::new(),
            open: None,
            data: vec![0; PIECE as usize],
            pending: 0,
            turn: 0,
            left: TURN,
            answered: 0,
            over: None,
            left_us: false,
        }
    }

    /// Lets it go.
    fn close(&mut self, queue: usize, why: &dyn std::fmt::Display) {
        self.over.get_or_insert_with(|| format!("queue {queue}: {why}"));
        self.pending = 0;
        if let Some(hang_up) = &self.hang_up {
            hang_up.shutdown();
        }
    }

    fn queue(&self, queue: usize) -> Option<&VringRwLock> {
        self.link.queues.get()?.get(queue)
    }

    /// Takes a request off a queue; if it has none, the queue's driver is to kick.
    fn take(&mut self, at: usize) {
        let Some(queue) = self.queue(at).cloned() else { return self.pending &= !(1 << at) };
        let memory = self.link.memory.memory().into_inner();
        let mut vring = queue.get_mut();
        if !vring.is_enabled() || !vring.get_queue().ready() {
            self.pending &= !(1 << at);
            return;
        }
        let ring = vring.get_queue_mut();
        let taken = match ring.iter(&*memory) {
            Err(error) => return self.close(at, &error),
            Ok(mut chains) => chains.next(),
        };
        let Some(descriptors) = taken else {
            match ring.enable_notification(&*memory) {
                Ok(true) => {}
                Ok(false) => self.pending &= !(1 << at),
                Err(error) => self.close(at, &error),
            }
            return;
        };
        let head = descriptors.head_index();
        let mut is_whole = false;
        let mut chain = Chain::new(descriptors.map(|descriptor| {
            is_whole = !descriptor.has_next();
            let (address, bytes) = (descriptor.addr().0, descriptor.len());
            Segment { address, bytes, is_writable: descriptor.is_write_only() }
        }));
        if !is_whole {
            chain.fault = Some("its descriptors do not end");
        }
        // Before the queue is unlocked: who stops it then waits for this request.
        self.link.began(at);
        drop(vring);
        self.begin(at, head, memory, chain);
    }

    fn begin(&mut self, queue: usize, head: u16, memory: Arc<GuestMemoryMmap>, chain: Chain) {
        let mut progress = Progress::new(BlockOp::Flush, 0, 0);
        progress.stop();
        let (offset, carries, status) = (0, false, Status::Ok);
        let mut exchange = Exchange { queue, head, memory, chain, progress, offset, carries, status };
        if let Err(status) = self.understand(&mut exchange) {
            exchange.status = status;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.exchanges.push(None);
            self.exchanges.len() - 1
        });
        self.open = exchange.progress.next().map(|_| at);
        self.exchanges[at] = Some(exchange);
        self.finish(at);
    }

    /// What a request wants of the drive.
    fn understand(&self, exchange: &mut Exchange) -> Result<(), Status> {
        let disk = &self.link.disk;
        let Exchange { memory, chain, .. } = &*exchange;
        let mut header = [0; HEADER_BYTES];
        if chain.fault.is_some() {
            return Err(Status::IoErr);
        }
        read(memory, &chain.header, &mut header)?;
        let whole = |spans: &[Span], access| {
            let is_there = |span: &Span| memory.check_range(GuestAddress(span.address), span.bytes as usize, access);
            if spans.iter().all(is_there) { Ok(()) } else { Err(Status::IoErr) }
        };
        exchange.progress = match disk.request(&header, chain)? {
            Request::Read(range) => {
                whole(&chain.room, Permissions::Write)?;
                exchange.offset = range.offset;
                Progress::new(BlockOp::Read, range.offset, range.bytes)
            }
            Request::Write(range) => {
                whole(&chain.sent, Permissions::Read)?;
                exchange.offset = range.offset;
                exchange.carries = true;
                Progress::new(BlockOp::Write, range.offset, range.bytes)
            }
            Request::Flush => Progress::new(BlockOp::Flush, 0, 0),
            Request::Id { bytes } => return write(memory, part(&chain.room, 0, bytes as u64), &disk.id()[..bytes]),
            Request::Ranges { discards, bytes } => {
                let mut data = vec![0; bytes];
                read(memory, &chain.sent, &mut data)?;
                let ranges = disk.ranges(discards, &data)?;
                let op = if discards { BlockOp::Trim } else { BlockOp::Write };
                Progress::ranges(op, ranges.iter().map(|range| (range.offset, range.bytes)))
            }
        };
        Ok(())
    }

    /// The next piece of an exchange; `None` if its data are not there any more.
    fn piece(&mut self, at: usize) -> Option<Piece> {
        let Some(Some(exchange)) = self.exchanges.get_mut(at) else { return None };
        let op = exchange.progress.op;
        let (offset, length) = exchange.progress.next()?;
        if exchange.carries {
            let spans: Vec<Span> = part(&exchange.chain.sent, offset - exchange.offset, u64::from(length)).collect();
            if let Err(status) = read(&exchange.memory, &spans, &mut self.data[..length as usize]) {
                exchange.status = status;
                return None;
            }
        }
        let fua = op == BlockOp::Write && self.link.writes_through();
        let (queue, carried) = (exchange.queue as u16, exchange.carries);
        Some(Piece { exchange: at, op, offset, length, fua, queue, carried })
    }

    /// Leaves out what is not submitted of the open exchange.
    fn drop_rest(&mut self) {
        if let Some(at) = self.open.take() {
            if let Some(Some(exchange)) = self.exchanges.get_mut(at) {
                exchange.progress.stop();
            }
            self.finish(at);
        }
    }

    /// Answers an exchange, if all its pieces are done.
    fn finish(&mut self, at: usize) {
        let is_over = |exchange: &mut Exchange| exchange.progress.is_over();
        let Some(Exchange { queue, head, memory, chain, status, .. }) = self.exchanges[at].take_if(is_over) else {
            return;
        };
        self.free.push(at);
        // The bytes that the driver may believe, from the first on; the status is the last.
        let written = if status == Status::Ok || chain.room_bytes == 0 { chain.room_bytes as u32 + 1 } else { 0 };
        let told = chain.status.map(|place| memory.write_obj(status as u8, GuestAddress(place)));
        let answered = self.queue(queue).map(|ring| ring.add_used(head, written));
        self.link.ended(queue);
        match (told, answered) {
            (Some(Ok(())), Some(Ok(()))) => self.answered |= 1 << queue,
            (None, _) => self.close(queue, &"a request has no room for its status"),
            (Some(Err(error)), _) => self.close(queue, &format!("a status cannot be written: {error}")),
            (_, Some(Err(error))) => self.close(queue, &format!("an answer cannot be written: {error}")),
            (_, None) => {}
        }
    }
}

/// Reads the guest's memory.
fn read(memory: &GuestMemoryMmap, spans: &[Span], mut data: &mut [u8]) -> Result<(), Status> {
    for span in part(spans, 0, data.len() as u64) {
        let (now, rest) = data.split_at_mut(span.bytes as usize);
        memory.read_slice(now, GuestAddress(span.address)).map_err(|_| Status::IoErr)?;
        data = rest;
    }
    Ok(())
}

/// Writes the guest's memory.
fn write(memory: &GuestMemoryMmap, spans: impl Iterator<Item = Span>, mut data: &[u8]) -> Result<(), Status> {
    for span in spans {
        let (now, rest) = data.split_at(span.bytes as usize);
        memory.write_slice(now, GuestAddress(span.address)).map_err(|_| Status::IoErr)?;
        data = rest;
    }
    Ok(())
}

/// Tells a driver that its queue has answers. A front end can hand over anything as the event, so that writing could block
/// the server for ever: what takes no more has something to read anyway.
fn signal(vring: &VringState) {
    let Some(call) = vring.get_call() else { return };
    let Ok(epoll) = Epoll::new() else { return };
    let mut events = [EpollEvent::default()];
    let ready = epoll
        .ctl(ControlOperation::Add, call.as_raw_fd(), EpollEvent::new(EventSet::OUT, 0))
        .and_then(|()| epoll.wait(0, &mut events));
    if ready.is_ok_and(|ready| ready > 0) {
        let _ = call.notify();
    }
}

impl Client for FrontEnd {
    fn fd(&self) -> BorrowedFd<'_> {
        self.link.wake.as_fd()
    }

    fn wants(&self) -> PollFlags {
        PollFlags::IN
    }

    fn receive(&mut self) {
        let _ = rustix::io::read(&self.link.wake, &mut [0; 8]);
        self.left = TURN;
        self.left_us = self.link.state().gone.is_some();
        let kicked = self.link.kicked.swap(0, Ordering::Acquire) & !self.pending;
        if self.over.is_some() {
            return;
        }
        self.pending |= kicked;
        for at in (0..QUEUES).filter(|at| kicked >> at & 1 == 1) {
            if let Some(Err(error)) = self.queue(at).map(VringRwLock::disable_notification) {
                self.close(at, &error);
            }
        }
    }

    fn next(&mut self) -> Option<Piece> {
        loop {
            if self.over.is_some() || self.left_us {
                self.drop_rest();
                return None;
            }
            if let Some(at) = self.open {
                if let Some(piece) = self.piece(at) {
                    return Some(piece);
                }
                self.drop_rest();
                continue;
            }
            if self.pending == 0 {
                return None;
            }
            if self.left == 0 {
                // The others first.
                self.link.wake();
                return None;
            }
            self.left -= 1;
            let queues = (self.turn..QUEUES).chain(0..self.turn);
            let at = queues.into_iter().find(|at| self.pending >> at & 1 == 1)?;
            self.turn = (at + 1) % QUEUES;
            self.take(at);
        }
    }

    fn carried(&self, piece: &Piece) -> Option<&[u8]> {
        piece.carried.then(|| &self.data[..piece.length as usize])
    }

    fn submitted(&mut self, piece: &Piece, refused: Option<&BlockError>) {
        let Some(Some(exchange)) = self.exchanges.get_mut(piece.exchange) else { return };
        exchange.progress.submitted(refused.is_none());
        if refused.is_some() {
            exchange.status = Status::IoErr;
        }
        if exchange.progress.next().is_none() {
            self.open = None;
            self.finish(piece.exchange);
        }
    }

    fn done(&mut self, piece: &Piece, error: Option<&BlockError>, take: &mut dyn FnMut(&mut [u8])) {
        let Some(Some(exchange)) = self.exchanges.get_mut(piece.exchange) else { return };
        exchange.progress.done();
        if error.is_some() {
            exchange.status = Status::IoErr;
        } else if piece.op == BlockOp::Read {
            let data = &mut self.data[..piece.length as usize];
            take(data);
            let place = part(&exchange.chain.room, piece.offset - exchange.offset, u64::from(piece.length));
            if let Err(status) = write(&exchange.memory, place, data) {
                exchange.status = status;
            }
        }
        self.finish(piece.exchange);
    }

    fn send(&mut self) {
        for at in 0..QUEUES {
            if self.answered >> at & 1 == 0 {
                continue;
            }
            self.answered &= !(1 << at);
            let Some(queue) = self.queue(at).cloned() else { continue };
            let mut vring = queue.get_mut();
            match vring.needs_notification() {
                Ok(true) => signal(&vring),
                Ok(false) => {}
                Err(error) => self.close(at, &error),
            }
        }
    }

    fn gone(&mut self) -> Option<Gone> {
        if self.exchanges.len() > self.free.len() {
            return None;
        }
        let gone = self.link.state().gone.clone()?;
        Some(self.over.take().map_or(gone, Gone::Because))
    }
}

impl Drop for FrontEnd {
    fn drop(&mut self) {
        self.link.forget();
        if let Some(hang_up) = &self.hang_up {
            hang_up.shutdown();
        }
    }
}
