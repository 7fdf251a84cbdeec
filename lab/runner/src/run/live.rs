//! Clients in real time on a drive: requests come from outside, one by one, and the drive answers in virtual time.

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockRequest};
use workload::drive::{Observer, Report};

use super::DriveRunError;
use super::booked::Booked;
use super::guest::{self, Keep};
use crate::subject::block::BlockFacts;

/// Most clients whose requests are counted apart; those beyond are counted together, as the last.
pub const CLIENTS: usize = guest::PROCESSES;

/// The drive as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveShape {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Requests that may be outstanding at a time.
    pub depth: u32,
    /// Bytes that a write should have at least, and should be aligned to.
    pub preferred_bytes: u32,
    /// Most bytes of a read or write.
    pub request_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// A drive that serves clients.
pub trait LiveDrive {
    /// What clients need to know of it.
    fn shape(&self) -> LiveShape;

    /// Virtual time of the last submission or completion.
    fn now(&self) -> Ns;

    /// Submits a request of client `client` at `at`, or now if that is later. `tag` is below the depth and not in use.
    /// `data` is what a write writes, `None` for zeroes; other requests ignore it.
    /// Errors: the drive refuses the request, which is then not outstanding.
    fn submit(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        data: Option<&[u8]>,
        client: usize,
    ) -> Result<(), BlockError>;

    /// Runs the drive up to the next completion, or to `until` if there is none up to then.
    fn next_done(&mut self, until: Ns) -> Option<BlockDone>;

    /// Copies the data of a completed read, before its tag is used again. `data` has the request's length.
    fn take(&mut self, tag: u32, data: &mut [u8]);
}

/// Those who use the drive.
pub trait Clients {
    /// Serves until there is nobody to serve.
    /// Errors: why it cannot go on.
    fn serve(&mut self, drive: &mut dyn LiveDrive) -> Result<(), String>;

    /// A name of each client that [`LiveDrive::submit`] was given, by number.
    fn names(&self) -> Vec<String>;
}

/// What a live run needs of its caller.
pub struct Live<'a> {
    /// Those who use the drive.
    pub clients: &'a mut dyn Clients,
    /// A disk image with the drive's contents at the start; `None`: empty.
    pub image: Option<&'a [u8]>,
    /// Gets the contents at the end, piece by piece with their place in bytes; what it does not get is zero.
    pub keep: Option<Keep<'a>>,
    /// Of a ubiblock: gets the raw flash at the end, without OOB; what it does not get is 0xFF.
    pub keep_flash: Option<Keep<'a>>,
}

struct Port<'a, D, O: Observer> {
    booked: Booked<'a, D, O>,
    shape: LiveShape,
    first: Option<Ns>,
    now: Ns,
}

impl<D: BlockDevice, O: Observer> LiveDrive for Port<'_, D, O> {
    fn shape(&self) -> LiveShape {
        self.shape
    }

    fn now(&self) -> Ns {
        self.now
    }

    fn submit(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        data: Option<&[u8]>,
        client: usize,
    ) -> Result<(), BlockError> {
        self.now = self.now.max(at);
        self.first.get_or_insert(self.now);
        self.booked.submit(self.now, tag, request, data, (client.min(CLIENTS - 1), true))
    }

    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        let done = self.booked.next_done(until, true)?.done;
        self.now = self.now.max(done.at);
        Some(done)
    }

    fn take(&mut self, tag: u32, data: &mut [u8]) {
        self.booked.take(tag, data);
    }
}

/// Lets clients use a drive until they are done.
/// Errors: the clients' own.
pub(super) fn put<D: BlockDevice, O: Observer>(
    facts: &BlockFacts,
    live: &mut Live<'_>,
    device: &mut D,
    observer: &mut O,
) -> Result<Report<O::Stop>, DriveRunError> {
    let seen = guest::block_shape(facts, device);
    let shape = LiveShape {
        bytes: facts.bytes,
        depth: seen.depth,
        preferred_bytes: seen.physical_bytes,
        request_bytes: seen.request_bytes,
        read_only: facts.read_only.is_some(),
    };
    let booked = Booked::new(device, observer, shape.depth, u64::MAX);
    let mut port = Port { booked, shape, first: None, now: Ns::ZERO };
    live.clients.serve(&mut port).map_err(DriveRunError::Clients)?;
    let to = port.booked.last_done();
    Ok(port.booked.report(port.first.unwrap_or(to), to, false))
}
