//! CDBs of the three HPB commands. Their operation codes are in the range that SCSI reserves for vendors.
//!
//! Source: Linux 6.1 `ufshpb.c`. The driver changes a READ(10) in place, so byte 1 of HPB READ is that of READ(10). It
//! writes all bytes that are not listed here as zero.

use crate::device::ufs::WireError;
use crate::device::ufs::cdb::{CDB_BYTES, DPO, FUA, access_flags};
use crate::device::ufs::wire::{Field, Reader, byte_enum, fills};

const OPCODE: usize = 0;
/// Size of an HPB entry in bytes.
const ENTRY_BYTES: usize = 8;

const READ_FLAGS: usize = 1;
const READ_LBA: usize = 2;
const READ_ENTRY: usize = 6;
const READ_LENGTH: usize = 14;
const READ_READ_ID: usize = 15;
const _: () = assert!(fills(
    &[(OPCODE, 1), (READ_FLAGS, 1), (READ_LBA, 4), (READ_ENTRY, ENTRY_BYTES), (READ_LENGTH, 1), (READ_READ_ID, 1)],
    HpbRead::BYTES
));

/// HPB READ: a read that carries the HPB entry of its first block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HpbRead {
    /// First logical block (LBA).
    pub lba: u32,
    /// HPB entry of the first block, byte for byte as HPB READ BUFFER returned it.
    pub entry: [u8; ENTRY_BYTES],
    /// Transfer length in logical blocks of 4 KiB; HPB 1.0 allows 1 only.
    pub blocks: u8,
    /// HPB READ ID of the pre-request that carried the entries; 0: none.
    pub read_id: u8,
    /// Disable page out (DPO): the data need not stay in a cache.
    pub dpo: bool,
    /// Force unit access (FUA): the data are read from the medium, not from a cache.
    pub fua: bool,
}

impl HpbRead {
    /// Size of the CDB in bytes.
    pub const BYTES: usize = 16;
    /// Operation code.
    pub const OPCODE: u8 = 0xf8;
    /// READ IDs of Linux start at 1 and are below this value.
    pub const READ_ID_END: u8 = 0x7f;

    /// Encodes the CDB.
    pub fn encode(&self) -> [u8; HpbRead::BYTES] {
        let mut bytes = [0; HpbRead::BYTES];
        bytes[OPCODE] = HpbRead::OPCODE;
        bytes[READ_FLAGS] = access_flags(self.dpo, self.fua);
        self.lba.put(&mut bytes, READ_LBA);
        self.entry.put(&mut bytes, READ_ENTRY);
        bytes[READ_LENGTH] = self.blocks;
        bytes[READ_READ_ID] = self.read_id;
        bytes
    }

    /// Decodes a CDB. Errors: too short, another operation code, a bit of byte 1 that must be zero.
    pub fn decode(bytes: &[u8]) -> Result<HpbRead, WireError> {
        let reader = Reader::new("HPB READ", bytes, HpbRead::BYTES)?;
        reader.expect(OPCODE, "OPERATION CODE", HpbRead::OPCODE, "0xf8")?;
        reader.expect_clear(READ_FLAGS, "byte 1 beside its flags", !(DPO | FUA))?;
        Ok(HpbRead {
            lba: reader.get(READ_LBA),
            entry: reader.get(READ_ENTRY),
            blocks: reader.get(READ_LENGTH),
            read_id: reader.get(READ_READ_ID),
            dpo: reader.bit(READ_FLAGS, DPO),
            fua: reader.bit(READ_FLAGS, FUA),
        })
    }
}

const BUFFER_ID: usize = 1;
const REGION: usize = 2;
const CONTROL: usize = 9;

const READ_SUBREGION: usize = 4;
const READ_ALLOCATION: usize = 6;
const READ_BUFFER_ID: u8 = 0x01;
const _: () = assert!(fills(
    &[(OPCODE, 1), (BUFFER_ID, 1), (REGION, 2), (READ_SUBREGION, 2), (READ_ALLOCATION, 3), (CONTROL, 1)],
    HpbReadBuffer::BYTES
));

/// HPB READ BUFFER: reads the entries of a subregion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HpbReadBuffer {
    /// Region number within the logical unit.
    pub region: u16,
    /// Subregion number within the region.
    pub subregion: u16,
    /// ALLOCATION LENGTH in bytes, 8 for each block; less than 2^24.
    pub allocation_bytes: u32,
}

impl HpbReadBuffer {
    /// Size of the CDB in bytes.
    pub const BYTES: usize = 10;
    /// Operation code.
    pub const OPCODE: u8 = 0xf9;

    /// Encodes the CDB. Panics: an allocation length of 2^24 bytes or more.
    pub fn encode(&self) -> [u8; HpbReadBuffer::BYTES] {
        let [0, allocation @ ..] = self.allocation_bytes.to_be_bytes() else {
            panic!("an allocation length of {} bytes", self.allocation_bytes)
        };
        let mut bytes = [0; HpbReadBuffer::BYTES];
        bytes[OPCODE] = HpbReadBuffer::OPCODE;
        bytes[BUFFER_ID] = READ_BUFFER_ID;
        self.region.put(&mut bytes, REGION);
        self.subregion.put(&mut bytes, READ_SUBREGION);
        allocation.put(&mut bytes, READ_ALLOCATION);
        bytes
    }

    /// Decodes a CDB. Errors: too short, another operation code or BUFFER ID, a CONTROL byte that is not zero.
    pub fn decode(bytes: &[u8]) -> Result<HpbReadBuffer, WireError> {
        let reader = Reader::new("HPB READ BUFFER", bytes, HpbReadBuffer::BYTES)?;
        reader.expect(OPCODE, "OPERATION CODE", HpbReadBuffer::OPCODE, "0xf9")?;
        reader.expect(BUFFER_ID, "BUFFER ID", READ_BUFFER_ID, "0x01")?;
        reader.expect(CONTROL, "CONTROL", 0u8, "0")?;
        let [high, middle, low] = reader.get(READ_ALLOCATION);
        Ok(HpbReadBuffer {
            region: reader.get(REGION),
            subregion: reader.get(READ_SUBREGION),
            allocation_bytes: u32::from_be_bytes([0, high, middle, low]),
        })
    }
}

byte_enum! {
    /// BUFFER ID of HPB WRITE BUFFER, which selects its function.
    pub enum WriteBufferId {
        /// Inactivates one region.
        InactivateRegion = 0x01,
        /// Pre-request: sends the entries for a following HPB READ.
        Prefetch = 0x02,
        /// Inactivates all regions.
        InactivateAll = 0x03,
    }
}

const WRITE_LBA: usize = 2;
const WRITE_READ_ID: usize = 6;
const WRITE_LENGTH: usize = 7;
const _: () = assert!(fills(
    &[(OPCODE, 1), (BUFFER_ID, 1), (WRITE_LBA, 4), (WRITE_READ_ID, 1), (WRITE_LENGTH, 2), (CONTROL, 1)],
    HpbWriteBuffer::BYTES
));

/// HPB WRITE BUFFER (HPB 2.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpbWriteBuffer {
    /// Inactivates a region (host control mode).
    InactivateRegion {
        /// Region number within the logical unit.
        region: u16,
    },
    /// Pre-request: sends the entries for the HPB READ with the same READ ID.
    Prefetch {
        /// First logical block of the read.
        lba: u32,
        /// HPB READ ID.
        read_id: u8,
        /// Number of entries in the data, 8 bytes each: one for each block of 4 KiB; at most 8191.
        entries: u16,
    },
    /// Inactivates all regions of the logical unit. The Linux driver does not show whether that includes pinned ones.
    InactivateAll,
}

impl HpbWriteBuffer {
    /// Size of the CDB in bytes.
    pub const BYTES: usize = 10;
    /// Operation code.
    pub const OPCODE: u8 = 0xfa;
    /// Maximum number of entries that the 16-bit parameter list length allows.
    pub const MAX_ENTRIES: u16 = u16::MAX / ENTRY_BYTES as u16;

    /// BUFFER ID of the command.
    pub const fn id(&self) -> WriteBufferId {
        match self {
            HpbWriteBuffer::InactivateRegion { .. } => WriteBufferId::InactivateRegion,
            HpbWriteBuffer::Prefetch { .. } => WriteBufferId::Prefetch,
            HpbWriteBuffer::InactivateAll => WriteBufferId::InactivateAll,
        }
    }

    /// Encodes the CDB. Panics: more than [`HpbWriteBuffer::MAX_ENTRIES`] entries.
    pub fn encode(&self) -> [u8; HpbWriteBuffer::BYTES] {
        let mut bytes = [0; HpbWriteBuffer::BYTES];
        bytes[OPCODE] = HpbWriteBuffer::OPCODE;
        bytes[BUFFER_ID] = self.id().byte();
        match *self {
            HpbWriteBuffer::InactivateRegion { region } => region.put(&mut bytes, REGION),
            HpbWriteBuffer::Prefetch { lba, read_id, entries } => {
                assert!(entries <= HpbWriteBuffer::MAX_ENTRIES, "{entries} entries in one buffer");
                lba.put(&mut bytes, WRITE_LBA);
                bytes[WRITE_READ_ID] = read_id;
                (entries * ENTRY_BYTES as u16).put(&mut bytes, WRITE_LENGTH);
            }
            HpbWriteBuffer::InactivateAll => {}
        }
        bytes
    }

    /// Decodes a CDB. Errors: too short, another operation code, an unknown BUFFER ID, a length that is not a multiple
    /// of the entry size, a byte that must be zero.
    pub fn decode(bytes: &[u8]) -> Result<HpbWriteBuffer, WireError> {
        let reader = Reader::new("HPB WRITE BUFFER", bytes, HpbWriteBuffer::BYTES)?;
        reader.expect(OPCODE, "OPERATION CODE", HpbWriteBuffer::OPCODE, "0xfa")?;
        reader.expect(CONTROL, "CONTROL", 0u8, "0")?;
        let zeroes = |range: std::ops::Range<usize>| {
            range.into_iter().try_for_each(|at| reader.expect_clear(at, "a reserved byte", 0xff))
        };
        match WriteBufferId::read(&reader, BUFFER_ID, "BUFFER ID", reader.get(BUFFER_ID))? {
            WriteBufferId::InactivateRegion => {
                zeroes(REGION + 2..CONTROL)?;
                Ok(HpbWriteBuffer::InactivateRegion { region: reader.get(REGION) })
            }
            WriteBufferId::Prefetch => {
                let length: u16 = reader.get(WRITE_LENGTH);
                if !usize::from(length).is_multiple_of(ENTRY_BYTES) {
                    return reader.refuse(WRITE_LENGTH, "PARAMETER LIST LENGTH", length.into(), "a multiple of 8");
                }
                let entries = length / ENTRY_BYTES as u16;
                Ok(HpbWriteBuffer::Prefetch { lba: reader.get(WRITE_LBA), read_id: reader.get(WRITE_READ_ID), entries })
            }
            WriteBufferId::InactivateAll => {
                zeroes(REGION..CONTROL)?;
                Ok(HpbWriteBuffer::InactivateAll)
            }
        }
    }
}

const _: () = assert!(HpbRead::BYTES == CDB_BYTES);

/// Any HPB command, selected by its operation code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpbCommand {
    /// HPB READ.
    Read(HpbRead),
    /// HPB READ BUFFER.
    ReadBuffer(HpbReadBuffer),
    /// HPB WRITE BUFFER.
    WriteBuffer(HpbWriteBuffer),
}

impl HpbCommand {
    /// Encodes the CDB, padded with zeroes to 16 bytes. Panics: as the command's own encoder.
    pub fn encode(&self) -> [u8; CDB_BYTES] {
        let mut bytes = [0; CDB_BYTES];
        match self {
            HpbCommand::Read(command) => bytes = command.encode(),
            HpbCommand::ReadBuffer(command) => command.encode().put(&mut bytes, 0),
            HpbCommand::WriteBuffer(command) => command.encode().put(&mut bytes, 0),
        }
        bytes
    }

    /// Decodes a CDB by its operation code. Errors: an unknown operation code; those of the command's own decoder.
    pub fn decode(bytes: &[u8]) -> Result<HpbCommand, WireError> {
        let reader = Reader::new("HPB CDB", bytes, 1)?;
        match reader.get(OPCODE) {
            HpbRead::OPCODE => HpbRead::decode(bytes).map(HpbCommand::Read),
            HpbReadBuffer::OPCODE => HpbReadBuffer::decode(bytes).map(HpbCommand::ReadBuffer),
            HpbWriteBuffer::OPCODE => HpbWriteBuffer::decode(bytes).map(HpbCommand::WriteBuffer),
            other => reader.refuse(OPCODE, "OPERATION CODE", other.into(), "one of 0xf8 0xf9 0xfa"),
        }
    }
}
