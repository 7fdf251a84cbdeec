//! CDBs of the SCSI commands that a UFS host uses, and the UNMAP parameter list.
//!
//! Source: SBC-3 as restricted by JESD220 11.3, which requires RDPROTECT, WRPROTECT, FUA_NV, ANCHOR and CONTROL to be
//! zero; a CDB in which one is set is rejected. *Recalled* from SBC-3: IMMED of SYNCHRONIZE CACHE, and the rules for
//! the UNMAP parameter list.

use super::wire::{Field, Reader, WireError, fills};

/// Size of the CDB field of a Command UPIU in bytes.
pub const CDB_BYTES: usize = 16;

const OPCODE: usize = 0;
const FLAGS: usize = 1;
const LBA: usize = 2;
const GROUP: usize = 6;
/// Transfer length, number of blocks or parameter list length.
const LENGTH: usize = 7;
const CONTROL: usize = 9;
const _: () =
    assert!(fills(&[(OPCODE, 1), (FLAGS, 1), (LBA, 4), (GROUP, 1), (LENGTH, 2), (CONTROL, 1)], Read10::BYTES));

pub(crate) const DPO: u8 = 0x10;
pub(crate) const FUA: u8 = 0x08;
const IMMED: u8 = 0x02;
const GROUP_BITS: u8 = 0x1f;

/// Checks the fields that all 10-byte CDBs share. `allowed` is the mask of the bits of byte 1 that may be set.
fn open<'a>(
    format: &'static str,
    bytes: &'a [u8],
    opcode: u8,
    expected: &'static str,
    allowed: u8,
) -> Result<Reader<'a>, WireError> {
    let reader = Reader::new(format, bytes, Read10::BYTES)?;
    reader.expect(OPCODE, "OPERATION CODE", opcode, expected)?;
    reader.expect_clear(FLAGS, "byte 1 beside its flags", !allowed)?;
    reader.expect_clear(GROUP, "GROUP NUMBER's upper bits", !GROUP_BITS)?;
    reader.expect(CONTROL, "CONTROL", 0u8, "0")?;
    Ok(reader)
}

fn start(opcode: u8, flags: u8, group: u8, length: u16) -> [u8; Read10::BYTES] {
    assert!(group <= GROUP_BITS, "a group number has five bits");
    let mut bytes = [0; Read10::BYTES];
    bytes[OPCODE] = opcode;
    bytes[FLAGS] = flags;
    bytes[GROUP] = group;
    length.put(&mut bytes, LENGTH);
    bytes
}

pub(crate) fn access_flags(dpo: bool, fua: bool) -> u8 {
    (if dpo { DPO } else { 0 }) | (if fua { FUA } else { 0 })
}

/// READ(10).
pub type Read10 = Access10<0x28>;
/// WRITE(10).
pub type Write10 = Access10<0x2a>;

/// READ(10) or WRITE(10), selected by the operation code; both have the same fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access10<const CODE: u8> {
    /// First logical block (LBA).
    pub lba: u32,
    /// Transfer length in logical blocks.
    pub blocks: u16,
    /// Disable page out (DPO): the data need not stay in a cache.
    pub dpo: bool,
    /// Force unit access (FUA): a read comes from the medium; a write completes once its data are on the medium.
    pub fua: bool,
    /// Group number, 0 to 31: a context ID or none; for a write also system data (10h), or data pinned in the
    /// WriteBooster buffer (18h, from UFS 4.1).
    pub group: u8,
}

impl<const CODE: u8> Access10<CODE> {
    /// Size of the CDB in bytes.
    pub const BYTES: usize = 10;
    /// Operation code.
    pub const OPCODE: u8 = CODE;

    /// Encodes the CDB. Panics: a group number above 31.
    pub fn encode(&self) -> [u8; 10] {
        let mut bytes = start(CODE, access_flags(self.dpo, self.fua), self.group, self.blocks);
        self.lba.put(&mut bytes, LBA);
        bytes
    }

    /// Decodes a CDB. Errors: too short, another operation code, a bit that must be zero.
    pub fn decode(bytes: &[u8]) -> Result<Access10<CODE>, WireError> {
        let (format, expected) = if CODE == Read10::OPCODE { ("READ(10)", "0x28") } else { ("WRITE(10)", "0x2a") };
        let reader = open(format, bytes, CODE, expected, DPO | FUA)?;
        Ok(Access10 {
            lba: reader.get(LBA),
            blocks: reader.get(LENGTH),
            dpo: reader.bit(FLAGS, DPO),
            fua: reader.bit(FLAGS, FUA),
            group: reader.get(GROUP),
        })
    }
}

/// SYNCHRONIZE CACHE(10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynchronizeCache10 {
    /// First logical block (LBA).
    pub lba: u32,
    /// Number of logical blocks; 0: up to the last one.
    pub blocks: u16,
    /// IMMED: the command completes before the cache is synchronized.
    pub immediate: bool,
    /// Group number, 0 to 31.
    pub group: u8,
}

impl SynchronizeCache10 {
    /// Size of the CDB in bytes.
    pub const BYTES: usize = 10;
    /// Operation code.
    pub const OPCODE: u8 = 0x35;

    /// Encodes the CDB. Panics: a group number above 31.
    pub fn encode(&self) -> [u8; SynchronizeCache10::BYTES] {
        let flags = if self.immediate { IMMED } else { 0 };
        let mut bytes = start(SynchronizeCache10::OPCODE, flags, self.group, self.blocks);
        self.lba.put(&mut bytes, LBA);
        bytes
    }

    /// Decodes a CDB. Errors: too short, another operation code, a bit that must be zero.
    pub fn decode(bytes: &[u8]) -> Result<SynchronizeCache10, WireError> {
        let reader = open("SYNCHRONIZE CACHE(10)", bytes, SynchronizeCache10::OPCODE, "0x35", IMMED)?;
        Ok(SynchronizeCache10 {
            lba: reader.get(LBA),
            blocks: reader.get(LENGTH),
            immediate: reader.bit(FLAGS, IMMED),
            group: reader.get(GROUP),
        })
    }
}

/// UNMAP. Its ranges are in the parameter list: [`UnmapList`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmap {
    /// Group number, 0 to 31.
    pub group: u8,
    /// PARAMETER LIST LENGTH in bytes.
    pub list_bytes: u16,
}

impl Unmap {
    /// Size of the CDB in bytes.
    pub const BYTES: usize = 10;
    /// Operation code.
    pub const OPCODE: u8 = 0x42;

    /// Encodes the CDB. Panics: a group number above 31.
    pub fn encode(&self) -> [u8; Unmap::BYTES] {
        start(Unmap::OPCODE, 0, self.group, self.list_bytes)
    }

    /// Decodes a CDB. Errors: too short, another operation code, a bit that must be zero.
    pub fn decode(bytes: &[u8]) -> Result<Unmap, WireError> {
        let reader = open("UNMAP", bytes, Unmap::OPCODE, "0x42", 0)?;
        reader.expect(LBA, "bytes 2 to 5", 0u32, "0")?;
        Ok(Unmap { group: reader.get(GROUP), list_bytes: reader.get(LENGTH) })
    }
}

const _: () = assert!(Read10::BYTES <= CDB_BYTES && Write10::BYTES == Read10::BYTES && Unmap::BYTES == Read10::BYTES);
const _: () = assert!(SynchronizeCache10::BYTES == Read10::BYTES);

/// One range of an UNMAP (UNMAP block descriptor).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnmapRange {
    /// First logical block (LBA).
    pub lba: u64,
    /// Number of logical blocks; 0: none.
    pub blocks: u32,
}

const RANGE_LBA: usize = 0;
const RANGE_BLOCKS: usize = 8;
const _: () = assert!(fills(&[(RANGE_LBA, 8), (RANGE_BLOCKS, 4), (12, 4)], UnmapRange::BYTES));

impl UnmapRange {
    /// Size of a block descriptor in bytes.
    pub const BYTES: usize = 16;

    /// Encodes the block descriptor.
    pub fn encode(&self) -> [u8; UnmapRange::BYTES] {
        let mut bytes = [0; UnmapRange::BYTES];
        self.lba.put(&mut bytes, RANGE_LBA);
        self.blocks.put(&mut bytes, RANGE_BLOCKS);
        bytes
    }

    /// Decodes a block descriptor, ignoring its four reserved bytes. Errors: too short.
    pub fn decode(bytes: &[u8]) -> Result<UnmapRange, WireError> {
        let reader = Reader::new("UNMAP block descriptor", bytes, UnmapRange::BYTES)?;
        Ok(UnmapRange { lba: reader.get(RANGE_LBA), blocks: reader.get(RANGE_BLOCKS) })
    }
}

const DATA_LENGTH: usize = 0;
const DESCRIPTORS_LENGTH: usize = 2;
const _: () = assert!(fills(&[(DATA_LENGTH, 2), (DESCRIPTORS_LENGTH, 2), (4, 4)], UnmapList::HEADER_BYTES));

/// UNMAP parameter list: an 8-byte header and the ranges. It borrows the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmapList<'a> {
    ranges: &'a [[u8; UnmapRange::BYTES]],
}

impl<'a> UnmapList<'a> {
    /// Size of the header in bytes.
    pub const HEADER_BYTES: usize = 8;
    /// Maximum number of ranges that the 16-bit length allows.
    pub const MAX_RANGES: usize = (0xffff - 6) / UnmapRange::BYTES;

    /// Encodes the list of `ranges`. Panics: more than [`UnmapList::MAX_RANGES`].
    pub fn encode(ranges: &[UnmapRange]) -> Vec<u8> {
        assert!(ranges.len() <= UnmapList::MAX_RANGES, "{} ranges", ranges.len());
        let descriptors_bytes = (ranges.len() * UnmapRange::BYTES) as u16;
        let mut bytes = vec![0; UnmapList::HEADER_BYTES];
        (descriptors_bytes + 6).put(&mut bytes, DATA_LENGTH);
        descriptors_bytes.put(&mut bytes, DESCRIPTORS_LENGTH);
        ranges.iter().for_each(|range| bytes.extend_from_slice(&range.encode()));
        bytes
    }

    /// Decodes a list. Errors: too short, or the two lengths do not agree. An incomplete last range is ignored.
    pub fn decode(bytes: &'a [u8]) -> Result<UnmapList<'a>, WireError> {
        const FORMAT: &str = "UNMAP parameter list";
        let reader = Reader::new(FORMAT, bytes, UnmapList::HEADER_BYTES)?;
        let (data_bytes, descriptors_bytes): (u16, u16) = (reader.get(DATA_LENGTH), reader.get(DESCRIPTORS_LENGTH));
        if u32::from(data_bytes) != u32::from(descriptors_bytes) + 6 {
            let expected = "6 more than UNMAP BLOCK DESCRIPTOR DATA LENGTH";
            return reader.refuse(DATA_LENGTH, "UNMAP DATA LENGTH", data_bytes.into(), expected);
        }
        let expected = UnmapList::HEADER_BYTES + usize::from(descriptors_bytes);
        let short = WireError::Short { format: FORMAT, found: bytes.len(), expected };
        let (ranges, _) = bytes.get(UnmapList::HEADER_BYTES..expected).ok_or(short)?.as_chunks();
        Ok(UnmapList { ranges })
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are no ranges, which is not an error.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = UnmapRange> + 'a {
        self.ranges
            .iter()
            .map(|range| UnmapRange { lba: u64::get(range, RANGE_LBA), blocks: u32::get(range, RANGE_BLOCKS) })
    }
}

/// Any command of this module, selected by its operation code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScsiCommand {
    /// READ(10).
    Read(Read10),
    /// WRITE(10).
    Write(Write10),
    /// SYNCHRONIZE CACHE(10).
    SynchronizeCache(SynchronizeCache10),
    /// UNMAP.
    Unmap(Unmap),
}

impl ScsiCommand {
    /// Encodes the CDB, padded with zeroes to 16 bytes. Panics: a group number above 31.
    pub fn encode(&self) -> [u8; CDB_BYTES] {
        let short = match self {
            ScsiCommand::Read(command) => command.encode(),
            ScsiCommand::Write(command) => command.encode(),
            ScsiCommand::SynchronizeCache(command) => command.encode(),
            ScsiCommand::Unmap(command) => command.encode(),
        };
        let mut bytes = [0; CDB_BYTES];
        short.put(&mut bytes, 0);
        bytes
    }

    /// Decodes a CDB by its operation code. Errors: an unknown operation code; those of the command's own decoder.
    pub fn decode(bytes: &[u8]) -> Result<ScsiCommand, WireError> {
        let reader = Reader::new("SCSI CDB", bytes, 1)?;
        match reader.get(OPCODE) {
            Read10::OPCODE => Read10::decode(bytes).map(ScsiCommand::Read),
            Write10::OPCODE => Write10::decode(bytes).map(ScsiCommand::Write),
            SynchronizeCache10::OPCODE => SynchronizeCache10::decode(bytes).map(ScsiCommand::SynchronizeCache),
            Unmap::OPCODE => Unmap::decode(bytes).map(ScsiCommand::Unmap),
            other => reader.refuse(OPCODE, "OPERATION CODE", other.into(), "one of 0x28 0x2a 0x35 0x42"),
        }
    }
}
