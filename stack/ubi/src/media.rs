//! The on-flash format of UBI, written once: headers, volume-table records and the fastmap's pieces.
//!
//! All integers are big-endian. Every checksum is [`crc`]. Source: Linux 6.12 `drivers/mtd/ubi/ubi-media.h` (layout);
//! verified against images made by mtd-utils 2.1.5. This module knows bytes only: no flash, no policy.

// What flash says is checked before it becomes narrower.
#![deny(clippy::cast_possible_truncation)]

mod fastmap;
mod vtbl;

pub use fastmap::{
    FM_DATA_VOLUME_ID, FM_MAX_BLOCKS, FM_MAX_POOL, FM_MAX_START, FM_MIN_POOL, FM_SB_VOLUME_ID, FmEba, FmHdr, FmPool,
    FmSb, FmVolHdr, UNMAPPED, fastmap_blocks, fastmap_bytes,
};
pub use vtbl::{
    LAYOUT_COMPAT, LAYOUT_LEBS, LAYOUT_VOLUME_ID, MAX_VOLUMES, VolType, VtblRecord, needed_pebs, vtbl_slots,
};

/// UBI's checksum: CRC-32 (reflected, polynomial 0xEDB88320), initial value all ones, *not* inverted at the end.
pub fn crc(bytes: &[u8]) -> u32 {
    !crc32fast::hash(bytes)
}

/// Format version that this module writes and accepts.
pub const VERSION: u8 = 1;

/// Largest erase counter that a header may hold.
pub const MAX_ERASE_COUNT: u64 = 0x7fff_ffff;

/// Volume numbers from here on are internal; the header's `compat` says how to treat an unknown one.
pub const INTERNAL_VOLUME_START: u32 = 0x7fff_ffff - 4096;

/// How an implementation must treat an internal volume that it does not know.
pub mod compat {
    /// Delete it.
    pub const DELETE: u8 = 1;
    /// Attach read-only.
    pub const READ_ONLY: u8 = 2;
    /// Keep its eraseblocks untouched.
    pub const PRESERVE: u8 = 4;
    /// Refuse to attach.
    pub const REJECT: u8 = 5;
}

/// Why bytes do not decode to the expected structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The magic number is wrong.
    #[error("magic {found:#010x}, expected {expected:#010x}")]
    Magic {
        /// Value found.
        found: u32,
        /// Value expected.
        expected: u32,
    },
    /// The checksum does not match.
    #[error("CRC {found:#010x}, computed {computed:#010x}")]
    Crc {
        /// Checksum stored.
        found: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
    /// The checksum is right, but a field is impossible.
    #[error("{what} = {found}, expected {expected}")]
    Field {
        /// Name of the field in the format.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Values allowed.
        expected: &'static str,
    },
    /// The buffer ends inside the structure.
    #[error("{what} ends after {len} bytes")]
    Short {
        /// Name of the structure.
        what: &'static str,
        /// Bytes available.
        len: usize,
    },
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn expect_magic(bytes: &[u8], expected: u32) -> Result<(), MediaError> {
    let found = u32_at(bytes, 0);
    if found == expected { Ok(()) } else { Err(MediaError::Magic { found, expected }) }
}

fn expect_crc(bytes: &[u8], covered: usize) -> Result<(), MediaError> {
    let (found, computed) = (u32_at(bytes, covered), crc(&bytes[..covered]));
    if found == computed { Ok(()) } else { Err(MediaError::Crc { found, computed }) }
}

/// Erase-counter header: at byte 0 of every good PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcHdr {
    /// Number of erasures of the PEB; at most [`MAX_ERASE_COUNT`].
    pub ec: u64,
    /// Offset of the VID header in the PEB.
    pub vid_hdr_offset: u32,
    /// Offset of the data in the PEB.
    pub data_offset: u32,
    /// Sequence number of the image, the same in all its PEBs; 0 in images of old tools.
    pub image_seq: u32,
}

impl EcHdr {
    /// Size on flash, in bytes.
    pub const BYTES: usize = 64;
    /// Magic number, "UBI#".
    pub const MAGIC: u32 = 0x5542_4923;

    /// Encodes the header as on flash.
    pub fn encode(&self) -> [u8; EcHdr::BYTES] {
        let mut bytes = [0; EcHdr::BYTES];
        put32(&mut bytes, 0, EcHdr::MAGIC);
        bytes[4] = VERSION;
        put64(&mut bytes, 8, self.ec);
        put32(&mut bytes, 16, self.vid_hdr_offset);
        put32(&mut bytes, 20, self.data_offset);
        put32(&mut bytes, 24, self.image_seq);
        let sum = crc(&bytes[..60]);
        put32(&mut bytes, 60, sum);
        bytes
    }

    /// Decodes the header. Errors: wrong magic, version or checksum; a counter above [`MAX_ERASE_COUNT`].
    pub fn decode(bytes: &[u8; EcHdr::BYTES]) -> Result<EcHdr, MediaError> {
        expect_magic(bytes, EcHdr::MAGIC)?;
        expect_crc(bytes, 60)?;
        expect_version(bytes[4])?;
        let ec = u64_at(bytes, 8);
        if ec > MAX_ERASE_COUNT {
            return Err(MediaError::Field { what: "ec", found: ec, expected: "at most 0x7fffffff" });
        }
        Ok(EcHdr {
            ec,
            vid_hdr_offset: u32_at(bytes, 16),
            data_offset: u32_at(bytes, 20),
            image_seq: u32_at(bytes, 24),
        })
    }
}

const _: () = assert!(EcHdr::BYTES == 4 + 1 + 3 + 8 + 4 + 4 + 4 + 32 + 4);

fn expect_version(found: u8) -> Result<(), MediaError> {
    if found == VERSION {
        return Ok(());
    }
    Err(MediaError::Field { what: "version", found: u64::from(found), expected: "1" })
}

/// Volume-identifier header: which LEB the PEB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VidHdr {
    /// Type of the volume.
    pub vol_type: VolType,
    /// Set on copies (wear levelling, atomic change). The data are valid only if `data_crc` matches, so that a copy
    /// torn by a power cut loses to its original.
    pub copy_flag: bool,
    /// How to treat an unknown internal volume; 0 for user volumes.
    pub compat: u8,
    /// Number of the volume.
    pub vol_id: u32,
    /// Number of the LEB.
    pub lnum: u32,
    /// Bytes of data; only for static volumes and copies.
    pub data_size: u32,
    /// LEBs in use; only for static volumes.
    pub used_ebs: u32,
    /// Unused bytes at the end of the LEB, due to the volume's alignment.
    pub data_pad: u32,
    /// Checksum over `data_size` bytes; only for static volumes and copies.
    pub data_crc: u32,
    /// Global sequence number, incremented for each VID header written: the higher of two claims to a LEB is newer.
    pub sqnum: u64,
}

impl VidHdr {
    /// Size on flash, in bytes.
    pub const BYTES: usize = 64;
    /// Magic number, "UBI!".
    pub const MAGIC: u32 = 0x5542_4921;

    /// Encodes the header as on flash.
    pub fn encode(&self) -> [u8; VidHdr::BYTES] {
        let mut bytes = [0; VidHdr::BYTES];
        put32(&mut bytes, 0, VidHdr::MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.vol_type as u8;
        bytes[6] = u8::from(self.copy_flag);
        bytes[7] = self.compat;
        put32(&mut bytes, 8, self.vol_id);
        put32(&mut bytes, 12, self.lnum);
        put32(&mut bytes, 20, self.data_size);
        put32(&mut bytes, 24, self.used_ebs);
        put32(&mut bytes, 28, self.data_pad);
        put32(&mut bytes, 32, self.data_crc);
        put64(&mut bytes, 40, self.sqnum);
        let sum = crc(&bytes[..60]);
        put32(&mut bytes, 60, sum);
        bytes
    }

    /// Decodes the header. The version is not looked at, as Linux does not.
    /// Errors: wrong magic or checksum; an unknown volume type; a copy flag above 1.
    pub fn decode(bytes: &[u8; VidHdr::BYTES]) -> Result<VidHdr, MediaError> {
        expect_magic(bytes, VidHdr::MAGIC)?;
        expect_crc(bytes, 60)?;
        Ok(VidHdr {
            vol_type: VolType::decode(bytes[5])?,
            copy_flag: match bytes[6] {
                0 => false,
                1 => true,
                other => {
                    return Err(MediaError::Field { what: "copy_flag", found: u64::from(other), expected: "0 or 1" });
                }
            },
            compat: bytes[7],
            vol_id: u32_at(bytes, 8),
            lnum: u32_at(bytes, 12),
            data_size: u32_at(bytes, 20),
            used_ebs: u32_at(bytes, 24),
            data_pad: u32_at(bytes, 28),
            data_crc: u32_at(bytes, 32),
            sqnum: u64_at(bytes, 40),
        })
    }

    /// Checks that the header can be one in a LEB of `leb_bytes`. Linux refuses a device where one with a right checksum
    /// is not. Errors: the first field that is impossible. Source: what Linux 6.12.117 did with each field changed
    /// (`tests/kernel`).
    pub fn check(&self, leb_bytes: u32) -> Result<(), MediaError> {
        let field = |what, found: u32, expected| Err(MediaError::Field { what, found: found.into(), expected });
        let VidHdr { vol_id, lnum, data_size, used_ebs, data_pad, .. } = *self;
        for (what, found) in [
            ("vol_id", vol_id),
            ("lnum", lnum),
            ("data_size", data_size),
            ("used_ebs", used_ebs),
            ("data_pad", data_pad),
        ] {
            if found > i32::MAX as u32 {
                return field(what, found, "less than 2^31");
            }
        }
        let is_internal = vol_id >= INTERNAL_VOLUME_START;
        if vol_id >= MAX_VOLUMES && !is_internal {
            return field("vol_id", vol_id, "below 128, or internal");
        }
        let known = [compat::DELETE, compat::READ_ONLY, compat::PRESERVE, compat::REJECT];
        if is_internal && !known.contains(&self.compat) {
            return field("compat of an internal volume", self.compat.into(), "1, 2, 4 or 5");
        }
        if !is_internal && self.compat != 0 {
            return field("compat of a user volume", self.compat.into(), "0");
        }
        if data_pad >= leb_bytes / 2 {
            return field("data_pad", data_pad, "less than half a LEB");
        }
        if data_size > leb_bytes {
            return field("data_size", data_size, "at most a LEB");
        }
        match self.vol_type {
            VolType::Static if used_ebs == 0 => field("used_ebs", 0, "not 0 in a static volume"),
            VolType::Static if data_size == 0 => field("data_size", 0, "not 0 in a static volume"),
            VolType::Static if lnum >= used_ebs => field("lnum", lnum, "below used_ebs in a static volume"),
            VolType::Static if lnum + 1 < used_ebs && data_size != leb_bytes - data_pad => {
                field("data_size", data_size, "a whole LEB in all but the last of a static volume")
            }
            VolType::Static => Ok(()),
            VolType::Dynamic if !self.copy_flag && self.data_crc != 0 => {
                field("data_crc", self.data_crc, "0 in a dynamic volume, but for a copy")
            }
            VolType::Dynamic if !self.copy_flag && data_size != 0 => {
                field("data_size", data_size, "0 in a dynamic volume, but for a copy")
            }
            VolType::Dynamic if self.copy_flag && data_size == 0 => field("data_size", 0, "not 0 in a copy"),
            VolType::Dynamic if used_ebs != 0 => field("used_ebs", used_ebs, "0 in a dynamic volume"),
            VolType::Dynamic => Ok(()),
        }
    }
}

const _: () = assert!(VidHdr::BYTES == 4 + 4 + 4 + 4 + 4 + 4 + 4 + 4 + 4 + 4 + 8 + 12 + 4);

#[cfg(test)]
mod tests {
    use super::*;

    const VID: VidHdr = VidHdr {
        vol_type: VolType::Static,
        copy_flag: true,
        compat: 0,
        vol_id: 3,
        lnum: 7,
        data_size: 4096,
        used_ebs: 9,
        data_pad: 16,
        data_crc: 0xdead_beef,
        sqnum: 0x0102_0304_0506_0708,
    };

    #[test]
    fn headers_come_back_as_written() {
        let ec = EcHdr { ec: 272_935, vid_hdr_offset: 2048, data_offset: 4096, image_seq: 0x1234_5678 };
        assert_eq!(EcHdr::decode(&ec.encode()), Ok(ec));
        assert_eq!(VidHdr::decode(&VID.encode()), Ok(VID));
    }

    /// The first PEB of `ubinize -Q 1` with a 2 KiB page, byte for byte.
    #[test]
    fn an_erase_counter_header_is_the_golden_one() {
        let ec = EcHdr { ec: 0, vid_hdr_offset: 2048, data_offset: 4096, image_seq: 1 };
        let mut golden = [0; 64];
        golden[..5].copy_from_slice(b"UBI#\x01");
        golden[18] = 0x08;
        golden[22] = 0x10;
        golden[27] = 0x01;
        let sum = crc(&golden[..60]);
        golden[60..].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(ec.encode(), golden);
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = VID.encode();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(VidHdr::decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_checksum_is_the_one_of_an_empty_volume_record() {
        assert_eq!(crc(&[0; 168]), 0xf116_c36b);
    }
}
