//! NBD: its clients, each with its bytes, its session and its requests.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use runner::export::nbd::{self, Command, Export, Request, Session, Step};
use runner::run::live::LiveShape;
use rustix::event::PollFlags;
use sim::seam::{BlockError, BlockOp, SECTOR_BYTES};

use super::client::{Client, Endpoint, Gone, MOST_BYTES, PIECE, Piece, Progress};
use super::socket::{Listener, Stream};

/// Bytes that are read ahead of a client: a piece with its header, and some requests.
const AHEAD: usize = PIECE as usize + (64 << 10);
/// No request is read of a client that has left this many bytes of replies unread.
const UNREAD: usize = 4 << 20;
/// Most requests of a client at a time.
const REQUESTS: usize = 256;
/// A client that has not finished its handshake by then is let go.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A socket that clients of NBD connect to.
#[derive(Debug)]
pub struct NbdEndpoint {
    listener: Listener,
    /// Name of the export.
    name: String,
}

impl NbdEndpoint {
    /// Lets clients in at a socket.
    pub fn new(listener: Listener, name: String) -> NbdEndpoint {
        NbdEndpoint { listener, name }
    }
}

impl AsFd for NbdEndpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// As a URI of NBD.
impl fmt::Display for NbdEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.listener {
            Listener::Unix(_, path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Listener::Tcp(_, address) => write!(f, "nbd://{address}"),
        }
    }
}

impl Endpoint for NbdEndpoint {
    fn accept(&mut self, shape: LiveShape) -> Result<Option<Box<dyn Client>>, String> {
        let Some(stream) = self.listener.accept().map_err(|error| error.to_string())? else { return Ok(None) };
        let export = Export {
            name: self.name.clone(),
            bytes: shape.bytes,
            least: SECTOR_BYTES,
            preferred: shape.preferred_bytes,
            most: MOST_BYTES,
            read_only: shape.read_only,
        };
        Ok(Some(Box::new(NbdClient::new(stream, Rc::new(export)))))
    }
}

/// A request under way.
#[derive(Debug)]
struct Exchange {
    request: Request,
    progress: Progress,
    error: Option<nbd::Error>,
    /// Data of a read of several pieces.
    data: Vec<u8>,
}

/// A client.
#[derive(Debug)]
struct NbdClient {
    stream: Stream,
    export: Rc<Export>,
    session: Session,
    came: Instant,
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

impl NbdClient {
    /// Greets a client.
    fn new(stream: Stream, export: Rc<Export>) -> NbdClient {
        let mut sent = Vec::new();
        NbdClient {
            stream,
            export,
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

    /// Whether there is room for more of its bytes.
    fn listens(&self) -> bool {
        self.over.is_none() && !self.ended && self.there - self.used < AHEAD && self.unread() < UNREAD
    }

    /// Bytes of replies that it did not read.
    fn unread(&self) -> usize {
        self.sent.len() - self.taken
    }

    /// Lets it go.
    fn close(&mut self, why: &str) {
        self.over.get_or_insert_with(|| why.to_owned());
    }

    fn lost(&mut self, why: &str) {
        self.close(why);
        self.sent.clear();
        self.taken = 0;
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
            open.progress.stop();
            if open.progress.is_over() {
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
        let (offset, length) = (request.offset, request.length);
        let progress = match request.command {
            Command::Disconnect => return self.close("it is done"),
            Command::Read => Progress::new(BlockOp::Read, offset, length),
            Command::Write | Command::WriteZeroes => Progress::new(BlockOp::Write, offset, length),
            Command::Trim => Progress::new(BlockOp::Trim, offset, length),
            Command::Flush => Progress::new(BlockOp::Flush, 0, 0),
        };
        let data = if request.command == Command::Read && request.length > PIECE {
            vec![0; request.length as usize]
        } else {
            Vec::new()
        };
        let exchange = Exchange { request, progress, error: None, data };
        let at = self.free.pop().unwrap_or_else(|| {
            self.exchanges.push(None);
            self.exchanges.len() - 1
        });
        self.exchanges[at] = Some(exchange);
        self.open = Some(at);
    }

    /// The next piece of an exchange, if its data are there.
    fn piece(&self, at: usize) -> Option<Piece> {
        let Exchange { request, progress, .. } = self.exchanges[at].as_ref()?;
        let (offset, length) = progress.next()?;
        let carried = request.command == Command::Write;
        let is_there = !carried || self.there - self.used >= length as usize;
        let op = progress.op;
        let fua = request.fua && op == BlockOp::Write;
        is_there.then_some(Piece { exchange: at, op, offset, length, fua, queue: 0, carried })
    }

    /// Replies to an exchange, if all its pieces are done.
    fn finish(&mut self, at: usize) {
        let Some(exchange) = &self.exchanges[at] else { return };
        if !exchange.progress.is_over() {
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

/// What a client learns of an error.
fn wire(error: &BlockError) -> nbd::Error {
    match error {
        BlockError::ReadOnly { .. } => nbd::Error::Permission,
        BlockError::WornOut { .. } => nbd::Error::NoSpace,
        BlockError::OutOfBounds { .. } => nbd::Error::Invalid,
        _ => nbd::Error::Io,
    }
}

impl Client for NbdClient {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn wants(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.listens());
        flags.set(PollFlags::OUT, self.unread() > 0);
        flags
    }

    fn receive(&mut self) {
        if !self.listens() {
            return;
        }
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

    fn send(&mut self) {
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

    fn next(&mut self) -> Option<Piece> {
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
            let (used, step) = self.session.step(&self.export, bytes, &mut self.sent);
            self.used += used;
            match step {
                Step::More => return self.needs_more(),
                Step::On => {}
                Step::Close(why) => self.close(why),
                Step::Request(request) => self.begin(request),
            }
        }
    }

    fn carried(&self, piece: &Piece) -> Option<&[u8]> {
        piece.carried.then(|| &self.received[self.used..][..piece.length as usize])
    }

    fn submitted(&mut self, piece: &Piece, refused: Option<&BlockError>) {
        if piece.carried {
            self.used += piece.length as usize;
        }
        let Some(exchange) = &mut self.exchanges[piece.exchange] else { return };
        exchange.progress.submitted(refused.is_none());
        exchange.error = exchange.error.or(refused.map(wire));
        if exchange.progress.next().is_none() {
            self.open = None;
            self.finish(piece.exchange);
        }
    }

    fn done(&mut self, piece: &Piece, error: Option<&BlockError>, take: &mut dyn FnMut(&mut [u8])) {
        let Some(exchange) = &mut self.exchanges[piece.exchange] else { return };
        exchange.progress.done();
        exchange.error = exchange.error.or(error.map(wire));
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

    fn gone(&mut self) -> Option<Gone> {
        if !self.session.is_open() && self.came.elapsed() > HANDSHAKE {
            self.close("its handshake takes too long");
        }
        let why = self.over.as_deref()?;
        if self.unread() > 0 || self.exchanges.len() > self.free.len() {
            return None;
        }
        let is_in_order = matches!(why, "it is done" | "it left" | "it aborts the handshake");
        Some(if is_in_order { Gone::InOrder } else { Gone::Because(why.to_owned()) })
    }
}
