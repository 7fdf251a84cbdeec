//! HPB commands that a host sends beside ordinary reads and writes: HPB READ, HPB READ BUFFER and HPB WRITE BUFFER.
//!
//! Here regions and sub-regions are numbered consecutively over all logical units ([`Layout`](super::layout::Layout)).
//! Module [`cdb`](super::cdb) encodes the commands as CDBs.

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockRequest, Payload};

use super::HpbConfig;
use super::advisor::Advice;

/// HPB commands that a device accepts at a time, in addition to the requests of its queue.
pub const MAP_COMMANDS: u32 = 32;

/// Command with which a read is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadCommand {
    /// READ(10): the device looks up the mapping.
    #[default]
    Plain,
    /// HPB READ with the HPB entry of its first page.
    Entry(u64),
    /// HPB READ with the READ ID, 1 to 126, of the pre-request that carried its entries.
    ReadId(u8),
}

/// Command that the host's HPB driver issues by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapCommand {
    /// HPB READ BUFFER 01h: transfers the entries of a sub-region to the host.
    Load {
        /// Sub-region, numbered over all logical units.
        sub: u32,
    },
    /// HPB WRITE BUFFER 01h: inactivates a region.
    Inactivate {
        /// Region, numbered over all logical units.
        region: u32,
    },
    /// HPB WRITE BUFFER 03h: inactivates all regions except the pinned ones.
    InactivateAll,
    /// HPB WRITE BUFFER 02h (pre-request): transfers the entries for a following HPB READ to the device.
    PreRequest {
        /// READ ID by which the HPB READ refers to the entries.
        id: u8,
        /// First page of the read.
        page: u32,
    },
}

/// A block device with HPB, as its host sees it.
///
/// A completion belongs to a request (its tag is below [`queue_depth`](BlockDevice::queue_depth)) or to a
/// [`MapCommand`] (the [`MAP_COMMANDS`] tags from there on). The data of its response are retrieved by tag, before the
/// tag is reused.
///
/// Implementor: [`Ssd`](crate::Ssd).
pub trait HpbDevice: BlockDevice {
    /// HPB parameters in its descriptors. `None`: the device has no HPB and rejects HPB commands.
    fn hpb_config(&self) -> Option<&HpbConfig>;

    /// Sectors per logical page; each page has one HPB entry.
    fn page_sectors(&self) -> u32;

    /// Checks that [`submit`](BlockDevice::submit) would accept a request now. Changes nothing.
    /// Errors: those of `submit`.
    fn would_take(&self, tag: u32, request: &BlockRequest) -> Result<(), BlockError>;

    /// Submits a request like [`submit`](BlockDevice::submit). A read is sent as `command`; other requests ignore it.
    /// Errors: those of `submit`.
    fn submit_with(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        command: ReadCommand,
        data: Payload<'_>,
    ) -> Result<(), BlockError>;

    /// Submits a command of the HPB driver. `entries` are the data of a pre-request; other commands have none.
    /// Errors: `QueueFull`, `PowerLost`; the command is not accepted then.
    fn submit_map(&mut self, at: Ns, tag: u32, command: MapCommand, entries: &[u64]) -> Result<(), BlockError>;

    /// The next completion that has already happened; does not advance the device.
    fn completed(&mut self) -> Option<BlockDone>;

    /// Takes the recommendation from the response of the completion under `tag`. A second call returns `None`.
    fn take_advice(&mut self, tag: u32) -> Option<Advice>;

    /// Entries that the [`MapCommand::Load`] completed under `tag` transferred: one for each page of its sub-region.
    fn entries(&self, tag: u32) -> &[u64];
}
