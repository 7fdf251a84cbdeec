//! One client of an NBD server: its bytes, its session and its requests.

use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

use runner::export::nbd::{self, Command, Export, Request, Session, Step};
use sim::seam::BlockOp;

use super::socket::Stream;

/// Most bytes of a piece, which is what the drive gets of a longer request.
pub const PIECE: u32 = 1 << 20;
/// Bytes that are read ahead of a client: a piece with its header, and some requests.
const AHEAD: usize = PIECE as usize + (64 << 10);
/// No request is read of a client that has left this many bytes of replies unread.
const UNREAD: usize = 4 << 20;
/// Most requests of a client at a time.
pub const REQUESTS: usize = 256;

/// A request under way.
#[derive(Debug)]
pub struct Exchange {
    /// What the client wants.
    pub request: Request,
    /// Bytes that the drive was asked for.
    submitted: u64,
    /// Pieces that the drive has.
    outstanding: u32,
    error: Option<nbd::Error>,
    /// Data of a read of several pieces.
    data: Vec<u8>,
}

/// A piece for the drive.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Place of its exchange.
    pub exchange: usize,
    /// What the drive does.
    pub op: BlockOp,
    /// First byte on the drive.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// Whether it is durable when it completes.
    pub fua: bool,
    /// Whether its data are the next bytes of the client; a write without them writes zeroes.
    pub carried: bool,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    stream: Stream,
    session: Session,
    /// When it came.
    pub came: Instant,
    received: Vec<u8>,
    /// What is used of `received`.
    used: usize,
    /// Length of what is there of `received`.
    there: usize,
    sent: Vec<u8>,
    /// What the client has of `sent`.
    taken: usize,
    exchanges: Vec<Option<Exchange>>,
    free: Vec<usize>,
    /// The exchange whose pieces are not all submitted.
    open: Option<usize>,
    /// Bytes of data that nobody wants.
    skip: u64,
    /// Its last byte was read.
    ended: bool,
    /// Why it is let go, once its requests are done.
    over: Option<String>,
}

impl Client {
    /// Greets a client.
    pub fn new(stream: Stream) -> Client {
        let mut sent = Vec::new();
        Client {
            stream,
            session: Session::greet(&mut sent),
            came: Instant::now(),
            received: vec![0; AHEAD],
            used: 0,
            there: 0,
            sent,
            taken: 0,
            exchanges: Vec::new(),
            free: Vec::new(),
            open: None,
            skip: 0,
            ended: false,
            over: None,
        }
    }

    /// Its connection.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether its handshake is over.
    pub fn is_open(&self) -> bool {
        self.session.is_open()
    }

    /// Whether there is room for more of its bytes.
    pub fn listens(&self) -> bool {
        self.over.is_none() && !self.ended && self.there - self.used < AHEAD && self.unread() < UNREAD
    }

    /// Bytes of replies that it did not read.
    pub fn unread(&self) -> usize {
        self.sent.len() - self.taken
    }

    /// Whether it can be forgotten, and why.
    pub fn is_gone(&self) -> Option<&str> {
        let why = self.over.as_deref()?;
        (self.unread() == 0 && self.exchanges.len() == self.free.len()).then_some(why)
    }

    /// Lets it go.
    pub fn close(&mut self, why: &str) {
        self.over.get_or_insert_with(|| why.to_owned());
    }

    fn lost(&mut self, why: &str) {
        self.close(why);
        self.sent.clear();
        self.taken = 0;
    }

    /// Reads what it has sent.
    pub fn receive(&mut self) {
        if self.used > 0 {
            self.received.copy_within(self.used..self.there, 0);
            self.there -= self.used;
            self.used = 0;
        }
        match self.stream.read(&mut self.received[self.there..]) {
            Ok(0) => self.ended = true,
            Ok(bytes) => self.there += bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => self.lost(&error.to_string()),
        }
    }

    /// Sends what it can take.
    pub fn send(&mut self) {
        while self.taken < self.sent.len() {
            match self.stream.write(&self.sent[self.taken..]) {
                Ok(bytes) => self.taken += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.lost(&error.to_string()),
            }
        }
        self.sent.clear();
        self.taken = 0;
        // A long reply is no reason to keep its memory.
        if self.sent.capacity() > 2 * UNREAD {
            self.sent = Vec::new();
        }
    }

    /// The next piece for the drive, whose data [`carried`](Self::carried) has; `None` if more bytes are needed.
    pub fn next(&mut self, export: &Export) -> Option<Piece> {
        loop {
            if self.over.is_some() {
                return None;
            }
            if self.skip > 0 {
                let skipped = self.skip.min((self.there - self.used) as u64);
                self.used += skipped as usize;
                self.skip -= skipped;
                if self.skip > 0 {
                    return self.needs_more();
                }
            }
            if let Some(exchange) = self.open {
                return self.piece(exchange).or_else(|| self.needs_more());
            }
            if self.unread() >= UNREAD || self.exchanges.len() - self.free.len() >= REQUESTS {
                return None;
            }
            let bytes = &self.received[self.used..self.there];
            let (used, step) = self.session.step(export, bytes, &mut self.sent);
            self.used += used;
            match step {
                Step::More => return self.needs_more(),
                Step::On => {}
                Step::Close(why) => self.close(why),
                Step::Request(request) => self.begin(request),
            }
        }
    }

    fn needs_more(&mut self) -> Option<Piece> {
        if self.ended {
            let inside = self.there > self.used || self.open.is_some() || self.skip > 0;
            if let Some(exchange) = self.open.take() {
                self.drop_rest(exchange);
            }
            self.close(if inside { "it left in the middle of a request" } else { "it left" });
        }
        None
    }

    /// A client left before the data of its write came: what the drive has of it completes, and the rest never was.
    fn drop_rest(&mut self, exchange: usize) {
        if let Some(open) = &mut self.exchanges[exchange] {
            open.submitted = u64::from(open.request.length);
            if open.outstanding == 0 {
                self.exchanges[exchange] = None;
                self.free.push(exchange);
            }
        }
    }

    fn begin(&mut self, request: Request) {
        if let Some(error) = request.refused {
            self.skip = u64::from(request.data);
            return match request.command {
                Command::Read => nbd::read_failed(&mut self.sent, self.session.is_structured(), request.cookie, error),
                _ => nbd::reply(&mut self.sent, request.cookie, Some(error)),
            };
        }
        if request.command == Command::Disconnect {
            return self.close("it is done");
        }
        let data = if request.command == Command::Read && request.length > PIECE {
            vec![0; request.length as usize]
        } else {
            Vec::new()
        };
        let exchange = Exchange { request, submitted: 0, outstanding: 0, error: None, data };
        let at = self.free.pop().unwrap_or_else(|| {
            self.exchanges.push(None);
            self.exchanges.len() - 1
        });
        self.exchanges[at] = Some(exchange);
        self.open = Some(at);
    }

    /// The next piece of an exchange, if its data are there.
    fn piece(&self, at: usize) -> Option<Piece> {
        let Exchange { request, submitted, .. } = self.exchanges[at].as_ref()?;
        let left = u64::from(request.length) - submitted;
        let (op, most) = match request.command {
            Command::Read => (BlockOp::Read, PIECE),
            Command::Write | Command::WriteZeroes => (BlockOp::Write, PIECE),
            Command::Flush | Command::Disconnect => (BlockOp::Flush, 0),
            Command::Trim => (BlockOp::Trim, u32::MAX),
        };
        let length = left.min(u64::from(most)) as u32;
        let carried = request.command == Command::Write;
        let is_there = !carried || self.there - self.used >= length as usize;
        let fua = request.fua && op == BlockOp::Write;
        is_there.then_some(Piece { exchange: at, op, offset: request.offset + submitted, length, fua, carried })
    }

    /// Data of a piece.
    pub fn carried(&self, piece: &Piece) -> Option<&[u8]> {
        piece.carried.then(|| &self.received[self.used..][..piece.length as usize])
    }

    /// The drive has a piece, or refuses it.
    pub fn submitted(&mut self, piece: &Piece, refused: Option<nbd::Error>) {
        if piece.carried {
            self.used += piece.length as usize;
        }
        let Some(exchange) = &mut self.exchanges[piece.exchange] else { return };
        exchange.submitted += u64::from(piece.length);
        exchange.outstanding += u32::from(refused.is_none());
        exchange.error = exchange.error.or(refused);
        if piece.op == BlockOp::Flush || exchange.submitted == u64::from(exchange.request.length) {
            self.open = None;
            self.finish(piece.exchange);
        }
    }

    /// The drive has completed a piece; `take` copies what it has read.
    pub fn done(&mut self, piece: &Piece, error: Option<nbd::Error>, take: impl FnOnce(&mut [u8])) {
        let Some(exchange) = &mut self.exchanges[piece.exchange] else { return };
        exchange.outstanding -= 1;
        exchange.error = exchange.error.or(error);
        let Request { command, offset, length, cookie, .. } = exchange.request;
        if command == Command::Read && exchange.error.is_none() {
            if length <= PIECE {
                // Straight into what is sent.
                nbd::read_done(&mut self.sent, self.session.is_structured(), cookie, (offset, length));
                let at = self.sent.len();
                self.sent.resize(at + length as usize, 0);
                take(&mut self.sent[at..]);
                self.exchanges[piece.exchange] = None;
                self.free.push(piece.exchange);
                return;
            }
            take(&mut exchange.data[(piece.offset - offset) as usize..][..piece.length as usize]);
        }
        self.finish(piece.exchange);
    }

    /// Replies to an exchange, if all its pieces are done.
    fn finish(&mut self, at: usize) {
        let Some(exchange) = &self.exchanges[at] else { return };
        if exchange.outstanding > 0 || self.open == Some(at) {
            return;
        }
        let Some(Exchange { request, error, data, .. }) = self.exchanges[at].take() else { return };
        self.free.push(at);
        match (request.command, error) {
            (Command::Read, None) => {
                let range = (request.offset, request.length);
                nbd::read_done(&mut self.sent, self.session.is_structured(), request.cookie, range);
                self.sent.extend(data);
            }
            (Command::Read, Some(error)) => {
                nbd::read_failed(&mut self.sent, self.session.is_structured(), request.cookie, error);
            }
            (_, error) => nbd::reply(&mut self.sent, request.cookie, error),
        }
    }
}
