//! What the server asks of a client, whatever protocol it speaks.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use runner::run::live::LiveShape;
use rustix::event::PollFlags;
use sim::seam::{BlockError, BlockOp};

/// Most bytes of a piece, which is what the drive gets of a longer request.
pub const PIECE: u32 = 1 << 20;
/// Most bytes of a read or write of a client.
pub const MOST_BYTES: u32 = 32 << 20;

/// Where clients come from. What it displays is how they find it.
pub trait Endpoint: AsFd + fmt::Display {
    /// The next client, if one waits; the server asks when the descriptor can be read.
    /// Errors: the system has no room for it.
    fn accept(&mut self, shape: LiveShape) -> Result<Option<Box<dyn Client>>, String>;
}

/// A client.
pub trait Client {
    /// What becomes ready when it has something to say, or can take something.
    fn fd(&self) -> BorrowedFd<'_>;

    /// What of `fd` is worth waking up for.
    fn wants(&self) -> PollFlags;

    /// Takes in what it has said, when `fd` is ready.
    fn receive(&mut self);

    /// The next piece for the drive; `None` if there is none for now. [`submitted`](Self::submitted) follows at once.
    fn next(&mut self) -> Option<Piece>;

    /// Data of a piece that [`next`](Self::next) just returned.
    fn carried(&self, piece: &Piece) -> Option<&[u8]>;

    /// The drive has the piece, or refuses it.
    fn submitted(&mut self, piece: &Piece, refused: Option<&BlockError>);

    /// The drive has completed a piece; `take` copies what it has read.
    fn done(&mut self, piece: &Piece, error: Option<&BlockError>, take: &mut dyn FnMut(&mut [u8]));

    /// Sends it what it can take.
    fn send(&mut self);

    /// Whether it can be forgotten, and why.
    fn gone(&mut self) -> Option<Gone>;
}

/// Why a client is let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It was done.
    InOrder,
    /// Something went wrong.
    Because(String),
}

/// A piece of a request, for the drive.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Place of its request, among those of its client.
    pub exchange: usize,
    /// What the drive does.
    pub op: BlockOp,
    /// First byte on the drive.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
    /// Whether it is durable when it completes.
    pub fua: bool,
    /// The client's queue that it comes from.
    pub queue: u16,
    /// Whether the client has data for it; a write without them writes zeroes.
    pub carried: bool,
}

/// How far a request is that reaches the drive in pieces.
#[derive(Clone, Debug)]
pub struct Progress {
    /// What the drive does.
    pub op: BlockOp,
    /// What is not submitted of the range under way.
    left: Option<(u64, u32)>,
    /// Ranges after it, the next one last.
    rest: Vec<(u64, u32)>,
    /// Pieces that the drive has.
    outstanding: u32,
}

impl Progress {
    /// A request on one range, of which nothing is submitted.
    pub fn new(op: BlockOp, offset: u64, length: u32) -> Progress {
        Progress { op, left: Some((offset, length)), rest: Vec::new(), outstanding: 0 }
    }

    /// A request on ranges of offset and length, of which nothing is submitted.
    pub fn ranges(op: BlockOp, ranges: impl DoubleEndedIterator<Item = (u64, u32)>) -> Progress {
        let mut rest: Vec<_> = ranges.rev().collect();
        Progress { op, left: rest.pop(), rest, outstanding: 0 }
    }

    /// Offset and length of the next piece; `None` if all are submitted.
    pub fn next(&self) -> Option<(u64, u32)> {
        let most = match self.op {
            BlockOp::Read | BlockOp::Write => PIECE,
            _ => u32::MAX,
        };
        self.left.map(|(offset, length)| (offset, length.min(most)))
    }

    /// The drive has the next piece, or refuses it.
    pub fn submitted(&mut self, is_accepted: bool) {
        let (Some((offset, left)), Some((_, length))) = (self.left, self.next()) else { return };
        self.outstanding += u32::from(is_accepted);
        self.left = match left - length {
            0 => self.rest.pop(),
            left => Some((offset + u64::from(length), left)),
        };
    }

    /// The drive has completed a piece.
    pub fn done(&mut self) {
        self.outstanding -= 1;
    }

    /// Leaves out what is not submitted.
    pub fn stop(&mut self) {
        self.left = None;
        self.rest.clear();
    }

    /// Whether all pieces are submitted and completed.
    pub fn is_over(&self) -> bool {
        self.left.is_none() && self.outstanding == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_over_when_each_piece_of_each_range_is_done() {
        let ranges = [(0, PIECE + 512), (4 * u64::from(PIECE), 512)];
        let mut progress = Progress::ranges(BlockOp::Write, ranges.into_iter());
        let mut pieces = Vec::new();
        while let Some(piece) = progress.next() {
            pieces.push(piece);
            progress.submitted(true);
        }
        assert_eq!(pieces, [(0, PIECE), (u64::from(PIECE), 512), (4 * u64::from(PIECE), 512)]);
        for _ in pieces {
            assert!(!progress.is_over());
            progress.done();
        }
        assert!(progress.is_over());
        let mut flush = Progress::new(BlockOp::Flush, 0, 0);
        assert_eq!(flush.next(), Some((0, 0)));
        flush.submitted(false);
        assert!(flush.is_over() && flush.next().is_none());
    }

    #[test]
    fn what_a_client_did_not_send_is_left_out() {
        let mut progress = Progress::new(BlockOp::Write, 0, 3 * PIECE);
        progress.submitted(true);
        progress.stop();
        assert!(progress.next().is_none() && !progress.is_over());
        progress.done();
        assert!(progress.is_over());
    }
}
