//! The master node: where the index and the LPT are, and how the space is used, as of a commit.

use super::{MediaError, put32, put64, u32_at, u64_at};

/// Flags of a master node.
pub mod master_flags {
    /// The file system was not unmounted cleanly.
    pub const DIRTY: u32 = 1;
    /// There are no orphans.
    pub const NO_ORPHANS: u32 = 2;
    /// Written by a recovery.
    pub const RECOVERY: u32 = 4;
}

/// Master node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Master {
    /// Highest inode number in use.
    pub highest_ino: u64,
    /// Number of the commit.
    pub commit: u64,
    /// See [`master_flags`].
    pub flags: u32,
    /// LEB in which the log begins.
    pub log_lnum: u32,
    /// LEB of the root of the index.
    pub root_lnum: u32,
    /// Its offset.
    pub root_offset: u32,
    /// Its length in bytes.
    pub root_len: u32,
    /// LEB kept free for garbage collection.
    pub gc_lnum: u32,
    /// LEB to which index nodes are appended.
    pub index_head_lnum: u32,
    /// Offset of the next one.
    pub index_head_offset: u32,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Free bytes in the main area.
    pub total_free: u64,
    /// Dirty bytes in the main area.
    pub total_dirty: u64,
    /// Used bytes in the main area.
    pub total_used: u64,
    /// Dead bytes: free or dirty, in pieces too small to use.
    pub total_dead: u64,
    /// Dark bytes: free or dirty, and perhaps too small to use.
    pub total_dark: u64,
    /// LEB of the root of the LPT.
    pub lpt_lnum: u32,
    /// Its offset.
    pub lpt_offset: u32,
    /// LEB to which LPT nodes are appended.
    pub lpt_head_lnum: u32,
    /// Offset of the next one.
    pub lpt_head_offset: u32,
    /// LEB of the table of LPT LEBs.
    pub ltab_lnum: u32,
    /// Its offset.
    pub ltab_offset: u32,
    /// LEB of the save table; 0 in the small model.
    pub lsave_lnum: u32,
    /// Its offset.
    pub lsave_offset: u32,
    /// LEB from which the last scan of the LPT went on.
    pub lscan_lnum: u32,
    /// Empty LEBs of the main area.
    pub empty_lebs: u32,
    /// LEBs of the index.
    pub index_lebs: u32,
    /// LEBs of the file system.
    pub lebs: u32,
}

impl Master {
    /// Bytes on flash.
    pub const BYTES: usize = 512;

    /// Decodes a node whose header and checksum are right.
    pub fn decode(node: &[u8]) -> Result<Master, MediaError> {
        if node.len() < Master::BYTES {
            return Err(MediaError::Short { what: "master node", len: node.len() });
        }
        Ok(Master {
            highest_ino: u64_at(node, 24),
            commit: u64_at(node, 32),
            flags: u32_at(node, 40),
            log_lnum: u32_at(node, 44),
            root_lnum: u32_at(node, 48),
            root_offset: u32_at(node, 52),
            root_len: u32_at(node, 56),
            gc_lnum: u32_at(node, 60),
            index_head_lnum: u32_at(node, 64),
            index_head_offset: u32_at(node, 68),
            index_bytes: u64_at(node, 72),
            total_free: u64_at(node, 80),
            total_dirty: u64_at(node, 88),
            total_used: u64_at(node, 96),
            total_dead: u64_at(node, 104),
            total_dark: u64_at(node, 112),
            lpt_lnum: u32_at(node, 120),
            lpt_offset: u32_at(node, 124),
            lpt_head_lnum: u32_at(node, 128),
            lpt_head_offset: u32_at(node, 132),
            ltab_lnum: u32_at(node, 136),
            ltab_offset: u32_at(node, 140),
            lsave_lnum: u32_at(node, 144),
            lsave_offset: u32_at(node, 148),
            lscan_lnum: u32_at(node, 152),
            empty_lebs: u32_at(node, 156),
            index_lebs: u32_at(node, 160),
            lebs: u32_at(node, 164),
        })
    }

    /// Encodes the fields into `node`, but for the header.
    pub fn encode(&self, node: &mut [u8; Master::BYTES]) {
        node[super::HEADER_BYTES..].fill(0);
        for (at, value) in [
            (24, self.highest_ino),
            (32, self.commit),
            (72, self.index_bytes),
            (80, self.total_free),
            (88, self.total_dirty),
            (96, self.total_used),
            (104, self.total_dead),
            (112, self.total_dark),
        ] {
            put64(node, at, value);
        }
        for (at, value) in [
            (40, self.flags),
            (44, self.log_lnum),
            (48, self.root_lnum),
            (52, self.root_offset),
            (56, self.root_len),
            (60, self.gc_lnum),
            (64, self.index_head_lnum),
            (68, self.index_head_offset),
            (120, self.lpt_lnum),
            (124, self.lpt_offset),
            (128, self.lpt_head_lnum),
            (132, self.lpt_head_offset),
            (136, self.ltab_lnum),
            (140, self.ltab_offset),
            (144, self.lsave_lnum),
            (148, self.lsave_offset),
            (152, self.lscan_lnum),
            (156, self.empty_lebs),
            (160, self.index_lebs),
            (164, self.lebs),
        ] {
            put32(node, at, value);
        }
    }
}
