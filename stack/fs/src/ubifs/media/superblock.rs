//! The super block: what does not change while the file system is used.

use super::{Compression, HEADER_BYTES, KeyHash, MediaError, field, put16, put32, put64, u16_at, u32_at, u64_at};

/// Flags of a super block.
pub mod sb_flags {
    /// The LPT does not fit into one LEB.
    pub const BIG_LPT: u32 = 0x02;
    /// Free space is to be rewritten at the first mount, because a programmer of flash has written it with 0xFF.
    pub const SPACE_FIXUP: u32 = 0x04;
    /// Entries carry a second, random hash, by which encrypted names are found (format 5). Linux makes its file systems so;
    /// unless names are encrypted, nothing else differs from format 4.
    pub const DOUBLE_HASH: u32 = 0x08;
    /// Files may be encrypted (format 5).
    pub const ENCRYPTION: u32 = 0x10;
    /// Nodes are authenticated.
    pub const AUTHENTICATED: u32 = 0x20;
    /// Every flag that is known.
    pub const ALL: u32 = 0x3e;
}

/// Super block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperBlock {
    /// How names are hashed.
    pub key_hash: KeyHash,
    /// See [`sb_flags`].
    pub flags: u32,
    /// Write unit in bytes.
    pub min_io_bytes: u32,
    /// Bytes of a LEB.
    pub leb_bytes: u32,
    /// LEBs of the file system.
    pub lebs: u32,
    /// LEBs to which it may grow.
    pub max_lebs: u32,
    /// Most bytes of the journal's buds.
    pub max_bud_bytes: u64,
    /// LEBs of the log.
    pub log_lebs: u32,
    /// LEBs of the LPT area.
    pub lpt_lebs: u32,
    /// LEBs of the orphan area.
    pub orphan_lebs: u32,
    /// Journal heads for data. Two more are not counted: for garbage collection, and for inodes and entries.
    pub data_heads: u32,
    /// Most branches of an index node.
    pub fanout: u32,
    /// LEB numbers in the LPT's save table.
    pub lsave_count: u32,
    /// Version of the format: 4, or 5 with flags that need it.
    pub version: u32,
    /// Compression of new files.
    pub compression: Compression,
    /// User and group who may use the reserve.
    pub reserve_owner: (u32, u32),
    /// Bytes kept for them.
    pub reserve_bytes: u64,
    /// Granularity of times, in nanoseconds.
    pub time_gran: u32,
    /// UUID.
    pub uuid: [u8; 16],
    /// Version up to which an older implementation may still mount it for reading.
    pub ro_compat: u32,
    /// Algorithm of hashes, 0xFFFF for none; mkfs.ubifs 2.1.5 writes 0.
    pub hash_algo: u16,
}

impl SuperBlock {
    /// Bytes on flash.
    pub const BYTES: usize = 4096;

    /// Decodes a node whose header and checksum are right. Errors: a hash, key format or compression that is unknown.
    pub fn decode(node: &[u8]) -> Result<SuperBlock, MediaError> {
        let key_hash = match node[26] {
            0 => KeyHash::R5,
            1 => KeyHash::Test,
            other => return field("key_hash", other, "0 or 1"),
        };
        if node[27] != 0 {
            return field("key_fmt", node[27], "0");
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&node[108..124]);
        Ok(SuperBlock {
            key_hash,
            flags: u32_at(node, 28),
            min_io_bytes: u32_at(node, 32),
            leb_bytes: u32_at(node, 36),
            lebs: u32_at(node, 40),
            max_lebs: u32_at(node, 44),
            max_bud_bytes: u64_at(node, 48),
            log_lebs: u32_at(node, 56),
            lpt_lebs: u32_at(node, 60),
            orphan_lebs: u32_at(node, 64),
            data_heads: u32_at(node, 68),
            fanout: u32_at(node, 72),
            lsave_count: u32_at(node, 76),
            version: u32_at(node, 80),
            compression: Compression::decode(u16_at(node, 84))?,
            reserve_owner: (u32_at(node, 88), u32_at(node, 92)),
            reserve_bytes: u64_at(node, 96),
            time_gran: u32_at(node, 104),
            uuid,
            ro_compat: u32_at(node, 124),
            hash_algo: u16_at(node, 256),
        })
    }

    /// Encodes the fields into `node`, but for the header.
    pub fn encode(&self, node: &mut [u8; SuperBlock::BYTES]) {
        node[HEADER_BYTES..].fill(0);
        node[26] = self.key_hash as u8;
        for (at, value) in [
            (28, self.flags),
            (32, self.min_io_bytes),
            (36, self.leb_bytes),
            (40, self.lebs),
            (44, self.max_lebs),
            (56, self.log_lebs),
            (60, self.lpt_lebs),
            (64, self.orphan_lebs),
            (68, self.data_heads),
            (72, self.fanout),
            (76, self.lsave_count),
            (80, self.version),
            (88, self.reserve_owner.0),
            (92, self.reserve_owner.1),
            (104, self.time_gran),
            (124, self.ro_compat),
        ] {
            put32(node, at, value);
        }
        put64(node, 48, self.max_bud_bytes);
        put16(node, 84, self.compression as u16);
        put64(node, 96, self.reserve_bytes);
        node[108..124].copy_from_slice(&self.uuid);
        put16(node, 256, self.hash_algo);
    }

    /// First LEB of the LPT area.
    pub fn lpt_first(&self) -> u32 {
        super::LOG_LNUM + self.log_lebs
    }

    /// First LEB of the orphan area.
    pub fn orphan_first(&self) -> u32 {
        self.lpt_first() + self.lpt_lebs
    }

    /// First LEB of the main area.
    pub fn main_first(&self) -> u32 {
        self.orphan_first() + self.orphan_lebs
    }

    /// LEBs of the main area.
    pub fn main_lebs(&self) -> u32 {
        self.lebs - self.main_first()
    }
}

#[cfg(test)]
impl SuperBlock {
    /// A super block of format 4 for tests: a log of 4 LEBs, an LPT of 2, one of orphans; the main area begins at LEB 10.
    pub(crate) fn of_test(lebs: u32, leb_bytes: u32, min_io_bytes: u32) -> SuperBlock {
        SuperBlock {
            key_hash: KeyHash::R5,
            flags: 0,
            min_io_bytes,
            leb_bytes,
            lebs,
            max_lebs: lebs,
            max_bud_bytes: 4 * u64::from(leb_bytes),
            log_lebs: 4,
            lpt_lebs: 2,
            orphan_lebs: 1,
            data_heads: 1,
            fanout: 8,
            lsave_count: 256,
            version: 4,
            compression: Compression::None,
            reserve_owner: (0, 0),
            reserve_bytes: 0,
            time_gran: 1,
            uuid: [0; 16],
            ro_compat: 0,
            hash_algo: 0,
        }
    }
}
