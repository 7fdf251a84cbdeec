//! Requests of a UFS device as the bytes of the link: Command UPIUs, built by the host and read by the device.
//!
//! Where the flash keeps bytes, a device with the UFS front end does what it reads out of the UPIU, not what was asked
//! of it: a wrong field of a command is a wrong byte in the end. It costs no virtual time, and nothing where the flash
//! keeps no bytes.
//!
//! Knows commands and logical units. Does not know when they begin or how they end.

use sim::seam::{BlockOp, BlockRequest, Flash};

use super::Ssd;
use super::hpb::By;
use crate::front::Protocol;
use crate::front::hpb::cdb::HpbRead;
use crate::front::ufs::cdb::{Read10, SynchronizeCache10, Unmap, UnmapList, UnmapRange, Write10};
use crate::front::ufs::upiu::{TaskAttribute, Transfer};
use crate::front::ufs::{CommandUpiu, Nexus, ScsiCommand, WireError};
use crate::ftl::UnitFtl;

/// Sectors of a logical block, which has 4 KiB.
const BLOCK_SECTORS: u64 = 8;

/// A Command UPIU and the list that goes with an UNMAP.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    command: [u8; CommandUpiu::BYTES],
    list: Vec<u8>,
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// A request as a UFS device reads it out of its bytes. A request that UFS has no words for is passed as it is:
    /// parts of logical blocks, ranges over the end of a unit, more blocks than fit into the field.
    #[inline]
    pub(super) fn as_received(&mut self, tag: u32, asked: BlockRequest) -> BlockRequest {
        if !F::KEEPS_BYTES || self.config.front.protocol != Protocol::Ufs {
            return asked;
        }
        let by = self.requests[tag as usize].by;
        let blocks = |pages: u32| (u64::from(pages) << self.page_shift) / BLOCK_SECTORS;
        let units: Vec<u64> = match &self.hpb {
            Some(hpb) => hpb.units().iter().map(|lu| blocks(lu.first_page)).collect(),
            None => vec![0],
        };
        let Some(sent) = send(tag as u8, &asked, by, &units) else { return asked };
        let (received, by) = receive(&sent, &units).expect("a command that was just written is read");
        self.requests[tag as usize].by = by;
        received
    }
}

/// The command of a request to one of the units, which begin at these blocks. `None`: there is no such command.
fn send(tag: u8, asked: &BlockRequest, by: By, units: &[u64]) -> Option<Sent> {
    let (sector, sectors) = (asked.sector, u64::from(asked.sectors));
    if sector % BLOCK_SECTORS != 0 || sectors % BLOCK_SECTORS != 0 {
        return None;
    }
    let (first, blocks) = (sector / BLOCK_SECTORS, sectors / BLOCK_SECTORS);
    let lun = units.partition_point(|&start| start <= first).checked_sub(1)?;
    if units.get(lun + 1).is_some_and(|&next| first + blocks > next) {
        return None;
    }
    let lba = u32::try_from(first - units[lun]).ok()?;
    let (count, fua) = (u16::try_from(blocks).ok(), asked.fua);
    let mut list = Vec::new();
    let (transfer, cdb) = match (asked.op, by) {
        (BlockOp::Read, By::Map) => {
            let read = Read10 { lba, blocks: count?, fua, ..Read10::default() };
            (Transfer::Read, ScsiCommand::Read(read).encode())
        }
        (BlockOp::Read, by) => {
            let (entry, read_id) = match by {
                By::Entry(entry) => (entry, 0),
                By::PreRequest(id) => (0, id),
                By::Map => unreachable!("matched above"),
            };
            let blocks = u8::try_from(blocks).ok()?;
            let read = HpbRead { lba, entry: entry.to_be_bytes(), blocks, read_id, fua, ..HpbRead::default() };
            (Transfer::Read, read.encode())
        }
        (BlockOp::Write, _) => {
            let write = Write10 { lba, blocks: count?, fua, ..Write10::default() };
            (Transfer::Write, ScsiCommand::Write(write).encode())
        }
        // No range: the whole unit.
        (BlockOp::Flush, _) => (Transfer::None, ScsiCommand::SynchronizeCache(SynchronizeCache10::default()).encode()),
        (BlockOp::Trim, _) => {
            list = UnmapList::encode(&[UnmapRange { lba: lba.into(), blocks: blocks as u32 }]);
            let unmap = Unmap { list_bytes: list.len() as u16, ..Unmap::default() };
            (Transfer::Write, ScsiCommand::Unmap(unmap).encode())
        }
    };
    let expected_bytes = match asked.op {
        BlockOp::Trim => list.len() as u32,
        _ => u32::try_from(asked.bytes()).ok()?,
    };
    let upiu = CommandUpiu {
        nexus: Nexus { lun: lun as u8, task_tag: tag, initiator: 0 },
        transfer,
        attribute: TaskAttribute::Simple,
        has_priority: false,
        expected_bytes,
        cdb,
    };
    Some(Sent { command: upiu.encode(), list })
}

/// What a device is to do that gets this. Errors: bytes that are no command.
fn receive(sent: &Sent, units: &[u64]) -> Result<(BlockRequest, By), WireError> {
    let upiu = CommandUpiu::decode(&sent.command)?;
    let start = units[usize::from(upiu.nexus.lun)];
    let sector = |lba: u32| (start + u64::from(lba)) * BLOCK_SECTORS;
    let sectors = |blocks: u32| blocks * BLOCK_SECTORS as u32;
    if upiu.cdb[0] == HpbRead::OPCODE {
        let read = HpbRead::decode(&upiu.cdb)?;
        let by = match read.read_id {
            0 => By::Entry(u64::from_be_bytes(read.entry)),
            id => By::PreRequest(id),
        };
        let mut request = BlockRequest::read(sector(read.lba), sectors(read.blocks.into()));
        request.fua = read.fua;
        return Ok((request, by));
    }
    let request = match ScsiCommand::decode(&upiu.cdb)? {
        ScsiCommand::Read(read) => {
            BlockRequest { fua: read.fua, ..BlockRequest::read(sector(read.lba), sectors(read.blocks.into())) }
        }
        ScsiCommand::Write(write) => {
            BlockRequest { fua: write.fua, ..BlockRequest::write(sector(write.lba), sectors(write.blocks.into())) }
        }
        ScsiCommand::SynchronizeCache(_) => BlockRequest::flush(),
        ScsiCommand::Unmap(_) => {
            let range = UnmapList::decode(&sent.list)?.iter().next().unwrap_or_default();
            let mut request = BlockRequest::read(sector(range.lba as u32), sectors(range.blocks));
            request.op = BlockOp::Trim;
            request
        }
    };
    Ok((request, By::Map))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three units of 100, 50 and 70 blocks.
    const UNITS: [u64; 3] = [0, 100, 150];

    fn trim(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest { op: BlockOp::Trim, ..BlockRequest::read(sector, sectors) }
    }

    #[test]
    fn every_request_comes_over_as_it_was() {
        let forced = BlockRequest { fua: true, ..BlockRequest::write(8 * 120, 8 * 30) };
        for (asked, by) in [
            (BlockRequest::read(8 * 99, 8), By::Map),
            (BlockRequest::read(8 * 100, 8 * 255), By::Entry(0x0123_4567_89ab_cdef)),
            (BlockRequest::read(8 * 160, 8 * 9), By::PreRequest(77)),
            (BlockRequest::write(8 * 150, 8 * 70), By::Map),
            (forced, By::Map),
            (BlockRequest::flush(), By::Map),
            (trim(8 * 149, 8), By::Map),
        ] {
            let units = if asked.sectors > 8 * 70 { &UNITS[..2] } else { &UNITS[..] };
            let sent = send(5, &asked, by, units).expect("UFS has words for it");
            assert_eq!(receive(&sent, units), Ok((asked, by)), "{asked:?}");
        }
    }

    #[test]
    fn a_read_of_the_second_unit_is_these_bytes() {
        let sent = send(0x1f, &BlockRequest::read(8 * 102, 16), By::Map, &UNITS).unwrap();
        // COMMAND, flag R, unit 1, tag 1f; 8,192 bytes expected; READ(10) of block 2, 2 blocks.
        let head = [0x01, 0x40, 0x01, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0];
        let cdb = [0x28, 0, 0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!((&sent.command[..16], &sent.command[16..]), (&head[..], &cdb[..]));
    }

    #[test]
    fn what_ufs_has_no_words_for_is_not_sent() {
        let of = |asked: &BlockRequest| send(0, asked, By::Map, &UNITS);
        assert_eq!(of(&BlockRequest::read(4, 8)), None, "half a block");
        assert_eq!(of(&BlockRequest::write(8 * 90, 8 * 20)), None, "over the end of a unit");
        assert_eq!(of(&BlockRequest::read(8 * 150, 8 * 65_536)), None, "more than the field holds");
    }
}
