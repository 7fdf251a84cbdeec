//! What a host asks of a device with HPB, beside reads and writes: HPB READ, HPB READ BUFFER and HPB WRITE BUFFER.
//!
//! Regions and sub-regions are numbered through over all logical units here ([`Layout`](super::layout::Layout)); as
//! bytes the commands are those of [`cdb`](super::cdb).

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockRequest, Payload};

use super::HpbConfig;
use super::advisor::Advice;

/// Commands of the host's driver that a device holds at a time, beside the requests of its queue.
pub const MAP_COMMANDS: u32 = 32;

/// How a read is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadCommand {
    /// READ(10): the device looks its pages up.
    #[default]
    Plain,
    /// HPB READ with the entry of its first page.
    Entry(u64),
    /// HPB READ with the READ ID of a pre-request, 1 to 126, which carried its entries.
    ReadId(u8),
}

/// A command of the driver's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapCommand {
    /// HPB READ BUFFER 01h: gives the entries of sub-region `sub` to the host.
    Load {
        /// Number of the sub-region.
        sub: u32,
    },
    /// HPB WRITE BUFFER 01h: region `region` is no longer active.
    Inactivate {
        /// Number of the region.
        region: u32,
    },
    /// HPB WRITE BUFFER 03h: no region but the pinned ones is active.
    InactivateAll,
    /// HPB WRITE BUFFER 02h: entries for a read that follows.
    PreRequest {
        /// READ ID by which the read names them.
        id: u8,
        /// First page of the read.
        page: u32,
    },
}

/// A block device with HPB, as its host sees it.
///
/// A completion is that of a request (its tag is below [`queue_depth`](BlockDevice::queue_depth)) or of a
/// [`MapCommand`] (the [`MAP_COMMANDS`] tags from there on). What its response carries is asked for by tag, before the
/// tag is used again.
///
/// Implementor: [`Ssd`](crate::Ssd).
pub trait HpbDevice: BlockDevice {
    /// What its descriptors say of HPB; `None`: it has none, and takes no command of HPB.
    fn hpb_config(&self) -> Option<&HpbConfig>;

    /// Sectors of a logical page, to which one entry belongs.
    fn page_sectors(&self) -> u32;

    /// Whether [`submit`](BlockDevice::submit) would take a request now. Changes nothing.
    /// Errors: those of `submit`.
    fn would_take(&self, tag: u32, request: &BlockRequest) -> Result<(), BlockError>;

    /// Hands over a request, as [`submit`](BlockDevice::submit) does; a read is sent as `command`, which others ignore.
    /// Errors: those of `submit`.
    fn submit_with(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        command: ReadCommand,
        data: Payload<'_>,
    ) -> Result<(), BlockError>;

    /// Hands over a command of the driver's. `entries` go with a pre-request; other commands bring none.
    /// Errors: `QueueFull`, `PowerLost`; the command is not taken then.
    fn submit_map(&mut self, at: Ns, tag: u32, command: MapCommand, entries: &[u64]) -> Result<(), BlockError>;

    /// The next completion that has happened already; the device is not run for it.
    fn completed(&mut self) -> Option<BlockDone>;

    /// What the response of the completion under `tag` advises; `None` the second time.
    fn take_advice(&mut self, tag: u32) -> Option<Advice>;

    /// Entries that the [`MapCommand::Load`] completed under `tag` gives: one for each page of its sub-region.
    fn entries(&self, tag: u32) -> &[u64];
}
