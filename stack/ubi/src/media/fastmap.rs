//! The pieces of a fastmap, in the order of its byte stream: [`FmSb`], [`FmHdr`], two [`FmPool`]s (user, wear
//! levelling), an `(peb, ec)` pair per PEB, and an [`FmVolHdr`] and an [`FmEba`] per volume.

use super::{MediaError, expect_magic, put16, put32, put64, u16_at, u32_at, u64_at};

/// Internal volume of the super block. Its one PEB is the anchor.
pub const FM_SB_VOLUME_ID: u32 = 0x7fff_f000;
/// Internal volume of the other fastmap blocks.
pub const FM_DATA_VOLUME_ID: u32 = 0x7fff_f001;
/// The anchor is among PEBs `0..FM_MAX_START`, so that attach finds it without a scan.
pub const FM_MAX_START: u32 = 64;
/// Most PEBs of one fastmap.
pub const FM_MAX_BLOCKS: usize = 32;
/// Lower bound of the user pool's maximum size, in PEBs.
pub const FM_MIN_POOL: u32 = 8;
/// Upper bound of a pool's maximum size, in PEBs.
pub const FM_MAX_POOL: usize = 256;
/// Marks an unmapped LEB in [`FmEba`].
pub const UNMAPPED: u32 = u32::MAX;

/// Bytes of the fastmap's buffer on a device of `pebs` PEBs: room for every record, in whole LEBs.
pub const fn fastmap_bytes(pebs: u32, leb_bytes: u32) -> u64 {
    let records = FmSb::BYTES
        + FmHdr::BYTES
        + 2 * FmPool::BYTES
        + pebs as usize * 8
        + (FmEba::HEADER_BYTES + FmVolHdr::BYTES) * (super::MAX_VOLUMES as usize + 1)
        + pebs as usize * 4;
    (records as u64).div_ceil(leb_bytes as u64) * leb_bytes as u64
}

/// PEBs of one fastmap; 0 if the flash is too large for any.
pub fn fastmap_blocks(pebs: u32, leb_bytes: u32) -> u32 {
    let blocks = fastmap_bytes(pebs, leb_bytes) / u64::from(leb_bytes);
    u32::try_from(blocks).ok().filter(|&blocks| blocks as usize <= FM_MAX_BLOCKS).unwrap_or(0)
}

/// Super block: the fastmap's PEBs and its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FmSb {
    /// Checksum of the whole buffer with this field zero.
    pub data_crc: u32,
    /// PEB and erase count of each block; block 0 is the anchor.
    pub blocks: Vec<(u32, u32)>,
    /// Always written as 0; the VID header has the real sequence number.
    pub sqnum: u64,
}

impl FmSb {
    /// Size on flash, in bytes.
    pub const BYTES: usize = 312;
    /// Magic number, the first word.
    pub const MAGIC: u32 = 0x7b11_d69f;
    /// Offset of `data_crc`, in bytes.
    pub const DATA_CRC_AT: usize = 8;

    /// Encodes the super block at the start of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        put32(bytes, 0, FmSb::MAGIC);
        bytes[4] = super::VERSION;
        put32(bytes, FmSb::DATA_CRC_AT, self.data_crc);
        put32(bytes, 12, u32::try_from(self.blocks.len()).expect("FM_MAX_BLOCKS at most"));
        for (i, &(peb, ec)) in self.blocks.iter().enumerate() {
            put32(bytes, 16 + 4 * i, peb);
            put32(bytes, 144 + 4 * i, ec);
        }
        put64(bytes, 272, self.sqnum);
    }

    /// Decodes the super block. Errors: too short, wrong magic or version, no block or more than [`FM_MAX_BLOCKS`].
    pub fn decode(bytes: &[u8]) -> Result<FmSb, MediaError> {
        let bytes = whole(bytes, FmSb::BYTES, "fastmap super block")?;
        expect_magic(bytes, FmSb::MAGIC)?;
        if bytes[4] != super::VERSION {
            return Err(MediaError::Field { what: "fm_sb.version", found: u64::from(bytes[4]), expected: "1" });
        }
        let used = u32_at(bytes, 12);
        if used == 0 || used as usize > FM_MAX_BLOCKS {
            return Err(MediaError::Field { what: "used_blocks", found: u64::from(used), expected: "1 to 32" });
        }
        let blocks = (0..used as usize).map(|i| (u32_at(bytes, 16 + 4 * i), u32_at(bytes, 144 + 4 * i))).collect();
        Ok(FmSb { data_crc: u32_at(bytes, FmSb::DATA_CRC_AT), blocks, sqnum: u64_at(bytes, 272) })
    }
}

const _: () = assert!(FmSb::BYTES == 4 + 1 + 3 + 4 + 4 + 4 * 32 + 4 * 32 + 8 + 32);

/// Header of the fastmap: numbers of PEBs by kind, and of volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FmHdr {
    /// Free PEBs, without those in pools.
    pub free: u32,
    /// Used PEBs, protected ones included.
    pub used: u32,
    /// PEBs to be scrubbed.
    pub scrub: u32,
    /// Bad PEBs.
    pub bad: u32,
    /// PEBs waiting to be erased.
    pub erase: u32,
    /// User volumes.
    pub volumes: u32,
}

impl FmHdr {
    /// Size on flash, in bytes.
    pub const BYTES: usize = 32;
    /// Magic number, the first word.
    pub const MAGIC: u32 = 0xd4b8_2ef7;

    /// Encodes the header at the start of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        put32(bytes, 0, FmHdr::MAGIC);
        for (i, count) in [self.free, self.used, self.scrub, self.bad, self.erase, self.volumes].into_iter().enumerate()
        {
            put32(bytes, 4 + 4 * i, count);
        }
    }

    /// Decodes the header. Errors: too short, wrong magic.
    pub fn decode(bytes: &[u8]) -> Result<FmHdr, MediaError> {
        let bytes = whole(bytes, FmHdr::BYTES, "fastmap header")?;
        expect_magic(bytes, FmHdr::MAGIC)?;
        let count = |i: usize| u32_at(bytes, 4 + 4 * i);
        Ok(FmHdr { free: count(0), used: count(1), scrub: count(2), bad: count(3), erase: count(4), volumes: count(5) })
    }
}

const _: () = assert!(FmHdr::BYTES == 4 + 6 * 4 + 4);

/// A pool: PEBs that may have been used since the fastmap was written, so attach scans them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FmPool {
    /// Most PEBs that a refill may put into it.
    pub max_size: u16,
    /// PEBs of the pool.
    pub pebs: Vec<u32>,
}

impl FmPool {
    /// Size on flash, in bytes.
    pub const BYTES: usize = 1048;
    /// Magic number, the first word.
    pub const MAGIC: u32 = 0x67af_4d08;

    /// Encodes the pool at the start of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        put32(bytes, 0, FmPool::MAGIC);
        put16(bytes, 4, u16::try_from(self.pebs.len()).expect("FM_MAX_POOL at most"));
        put16(bytes, 6, self.max_size);
        for (i, &peb) in self.pebs.iter().enumerate() {
            put32(bytes, 8 + 4 * i, peb);
        }
    }

    /// Decodes the pool. Errors: too short, wrong magic, more PEBs than the pool has room for.
    pub fn decode(bytes: &[u8]) -> Result<FmPool, MediaError> {
        let bytes = whole(bytes, FmPool::BYTES, "fastmap pool")?;
        expect_magic(bytes, FmPool::MAGIC)?;
        let (size, max_size) = (u16_at(bytes, 4), u16_at(bytes, 6));
        for (what, found) in [("pool size", size), ("pool max_size", max_size)] {
            if usize::from(found) > FM_MAX_POOL {
                return Err(MediaError::Field { what, found: u64::from(found), expected: "at most 256" });
            }
        }
        Ok(FmPool { max_size, pebs: (0..usize::from(size)).map(|i| u32_at(bytes, 8 + 4 * i)).collect() })
    }
}

const _: () = assert!(FmPool::BYTES == 4 + 2 + 2 + 4 * FM_MAX_POOL + 16);

/// Header of one volume; its [`FmEba`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FmVolHdr {
    /// Number of the volume.
    pub vol_id: u32,
    /// Volume type in the numbers of [`VolType::in_fastmap`](super::VolType::in_fastmap), not those of the volume
    /// table.
    pub vol_type: u8,
    /// Unused bytes at the end of each LEB, as in the volume table.
    pub data_pad: u32,
    /// LEBs in use.
    pub used_ebs: u32,
    /// Bytes in the last used LEB.
    pub last_eb_bytes: u32,
}

impl FmVolHdr {
    /// Size on flash, in bytes.
    pub const BYTES: usize = 32;
    /// Magic number, the first word.
    pub const MAGIC: u32 = 0xfa37_0ed1;
    /// Offset of `vol_type`, in bytes.
    pub const VOL_TYPE_AT: usize = 8;

    /// Encodes the header at the start of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        put32(bytes, 0, FmVolHdr::MAGIC);
        put32(bytes, 4, self.vol_id);
        bytes[FmVolHdr::VOL_TYPE_AT] = self.vol_type;
        put32(bytes, 12, self.data_pad);
        put32(bytes, 16, self.used_ebs);
        put32(bytes, 20, self.last_eb_bytes);
    }

    /// Decodes the header. Errors: too short, wrong magic.
    pub fn decode(bytes: &[u8]) -> Result<FmVolHdr, MediaError> {
        let bytes = whole(bytes, FmVolHdr::BYTES, "fastmap volume header")?;
        expect_magic(bytes, FmVolHdr::MAGIC)?;
        Ok(FmVolHdr {
            vol_id: u32_at(bytes, 4),
            vol_type: bytes[FmVolHdr::VOL_TYPE_AT],
            data_pad: u32_at(bytes, 12),
            used_ebs: u32_at(bytes, 16),
            last_eb_bytes: u32_at(bytes, 20),
        })
    }
}

const _: () = assert!(FmVolHdr::BYTES == 4 + 4 + 1 + 3 + 4 + 4 + 4 + 8);

/// LEB table of the preceding volume: the PEB of each LEB, [`UNMAPPED`] for none. The PEB numbers follow the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FmEba {
    /// Number of PEB numbers that follow.
    pub reserved_pebs: u32,
}

impl FmEba {
    /// Size of the header on flash, in bytes.
    pub const HEADER_BYTES: usize = 8;
    /// Magic number, the first word.
    pub const MAGIC: u32 = 0xf0c0_40a8;

    /// Encodes the header at the start of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        put32(bytes, 0, FmEba::MAGIC);
        put32(bytes, 4, self.reserved_pebs);
    }

    /// Decodes the header. Errors: too short, wrong magic.
    pub fn decode(bytes: &[u8]) -> Result<FmEba, MediaError> {
        let bytes = whole(bytes, FmEba::HEADER_BYTES, "fastmap EBA header")?;
        expect_magic(bytes, FmEba::MAGIC)?;
        Ok(FmEba { reserved_pebs: u32_at(bytes, 4) })
    }
}

fn whole<'a>(bytes: &'a [u8], len: usize, what: &'static str) -> Result<&'a [u8], MediaError> {
    bytes.get(..len).ok_or(MediaError::Short { what, len: bytes.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that the kernel prints for the devices of the fastmap studies.
    #[test]
    fn a_fastmap_takes_as_many_blocks_as_the_kernel_says() {
        let blocks = |pebs, leb: u32| fastmap_bytes(pebs, leb) / u64::from(leb);
        assert_eq!((blocks(1024, 126_976), blocks(8192, 126_976), blocks(16_384, 126_976)), (1, 1, 2));
        assert_eq!(blocks(4096, 15_360), 4);
    }

    #[test]
    fn pieces_come_back_as_written() {
        let mut bytes = vec![0; FmPool::BYTES];
        let sb = FmSb { data_crc: 5, blocks: vec![(3, 9), (700, 11)], sqnum: 0 };
        sb.encode(&mut bytes);
        assert_eq!(FmSb::decode(&bytes), Ok(sb));
        bytes.fill(0);
        let hdr = FmHdr { free: 1, used: 2, scrub: 3, bad: 4, erase: 5, volumes: 6 };
        hdr.encode(&mut bytes);
        assert_eq!(FmHdr::decode(&bytes), Ok(hdr));
        bytes.fill(0);
        let pool = FmPool { max_size: 50, pebs: vec![7, 8, 9] };
        pool.encode(&mut bytes);
        assert_eq!(FmPool::decode(&bytes), Ok(pool));
        let vol = FmVolHdr { vol_id: 1, vol_type: 4, data_pad: 3, used_ebs: 4, last_eb_bytes: 5 };
        bytes.fill(0);
        vol.encode(&mut bytes);
        assert_eq!(FmVolHdr::decode(&bytes), Ok(vol));
    }

    #[test]
    fn a_pool_that_lies_about_its_size_is_refused() {
        let mut bytes = vec![0; FmPool::BYTES];
        FmPool { max_size: 8, pebs: vec![] }.encode(&mut bytes);
        put16(&mut bytes, 4, 257);
        assert!(matches!(FmPool::decode(&bytes), Err(MediaError::Field { what: "pool size", .. })));
    }
}
