//! The three commands of HPB, from the range of operation codes that SCSI leaves to vendors.
//!
//! Source: Linux 6.1 `ufshpb.c`. That byte 1 of HPB READ is the one of READ(10) follows from the driver, which changes
//! a READ(10) in place; that all other bytes are zero is what it writes.

use crate::device::ufs::WireError;
use crate::device::ufs::cdb::{CDB_BYTES, DPO, FUA, access_flags};
use crate::device::ufs::wire::{Field, Reader, byte_enum, fills};

const OPCODE: usize = 0;
/// Bytes of an HPB entry.
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

/// HPB READ: a read with the HPB entry of its first block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HpbRead {
    /// First logical block.
    pub lba: u32,
    /// The first block's entry, byte for byte as HPB READ BUFFER gave it.
    pub entry: [u8; ENTRY_BYTES],
    /// Logical blocks of 4 KiB; v1.0 knows 1 alone.
    pub blocks: u8,
    /// HPB READ ID: the pre-request whose entries go with it; 0: none.
    pub read_id: u8,
    /// Not worth caching.
    pub dpo: bool,
    /// From the medium, past caches.
    pub fua: bool,
}

impl HpbRead {
    /// Size.
    pub const BYTES: usize = 16;
    /// Operation code.
    pub const OPCODE: u8 = 0xf8;
    /// READ IDs of Linux run from 1 and stay below this.
    pub const READ_ID_END: u8 = 0x7f;

    /// As it stands in a Command UPIU.
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

    /// Errors: too short, another command, a bit of byte 1 that must be zero.
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

/// HPB READ BUFFER: the entries of a subregion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HpbReadBuffer {
    /// Region of the unit.
    pub region: u16,
    /// Subregion of the region.
    pub subregion: u16,
    /// Bytes that the host has room for: 8 for each block; fewer than 2^24.
    pub allocation_bytes: u32,
}

impl HpbReadBuffer {
    /// Size.
    pub const BYTES: usize = 10;
    /// Operation code.
    pub const OPCODE: u8 = 0xf9;

    /// As it stands in a Command UPIU. Panics: 2^24 bytes or more.
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

    /// Errors: too short, another command or buffer, a control byte.
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
    /// What an HPB WRITE BUFFER does.
    pub enum WriteBufferId {
        /// Gives up one region.
        InactivateRegion = 0x01,
        /// Sends entries for an HPB READ to come.
        Prefetch = 0x02,
        /// Gives up all regions.
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

/// HPB WRITE BUFFER (v2.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpbWriteBuffer {
    /// The host gives up a region (host control).
    InactivateRegion {
        /// Region of the unit.
        region: u16,
    },
    /// The pre-request: entries for an HPB READ that names the same READ ID.
    Prefetch {
        /// First logical block of the read.
        lba: u32,
        /// HPB READ ID.
        read_id: u8,
        /// Entries in the data, 8 bytes each: one for each block of 4 KiB; at most 8191.
        entries: u16,
    },
    /// The host gives up all regions of the unit. Linux's driver does not show whether pinned ones count.
    InactivateAll,
}

impl HpbWriteBuffer {
    /// Size.
    pub const BYTES: usize = 10;
    /// Operation code.
    pub const OPCODE: u8 = 0xfa;
    /// The most entries that the length of 16 bits leaves room for.
    pub const MAX_ENTRIES: u16 = u16::MAX / ENTRY_BYTES as u16;

    /// The buffer's number.
    pub const fn id(&self) -> WriteBufferId {
        match self {
            HpbWriteBuffer::InactivateRegion { .. } => WriteBufferId::InactivateRegion,
            HpbWriteBuffer::Prefetch { .. } => WriteBufferId::Prefetch,
            HpbWriteBuffer::InactivateAll => WriteBufferId::InactivateAll,
        }
    }

    /// As it stands in a Command UPIU. Panics: more than [`HpbWriteBuffer::MAX_ENTRIES`].
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

    /// Errors: too short, another command, an unknown buffer, a length that is no number of entries, a byte that must
    /// be zero.
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

/// Any of the commands of HPB, by its operation code.
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
    /// The CDB of a Command UPIU. Panics as the command's own encoder.
    pub fn encode(&self) -> [u8; CDB_BYTES] {
        let mut bytes = [0; CDB_BYTES];
        match self {
            HpbCommand::Read(command) => bytes = command.encode(),
            HpbCommand::ReadBuffer(command) => command.encode().put(&mut bytes, 0),
            HpbCommand::WriteBuffer(command) => command.encode().put(&mut bytes, 0),
        }
        bytes
    }

    /// Errors: an operation code that is none of these; what the command's own decoder refuses.
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
