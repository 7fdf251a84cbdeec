//! Cost of processor work. It bounds nandsim without delays and the measurements of the JFFS report.

use crate::Ns;

/// Costs of processor work, in picoseconds so that the cost of a byte is an integer.
///
/// A cost of zero makes the work free; [`CpuPrice::FREE`] is the default of studies that only count wear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPrice {
    /// Copying one byte between buffers, in ps.
    pub copy_ps_per_byte: u64,
    /// Checksumming one byte, in ps.
    pub crc_ps_per_byte: u64,
    /// Visiting one node of a tree or list, in ps.
    pub node_ps: u64,
    /// Compressing one byte, in ps, with each algorithm that is tried.
    pub pack_ps_per_byte: u64,
    /// Decompressing to one byte, in ps.
    pub unpack_ps_per_byte: u64,
}

impl CpuPrice {
    /// Processor work takes no time.
    pub const FREE: CpuPrice =
        CpuPrice { copy_ps_per_byte: 0, crc_ps_per_byte: 0, node_ps: 0, pack_ps_per_byte: 0, unpack_ps_per_byte: 0 };

    /// Time to copy `bytes`.
    #[inline]
    pub const fn copy(&self, bytes: u64) -> Ns {
        Ns(self.copy_ps_per_byte * bytes / 1_000)
    }

    /// Time to checksum `bytes`.
    #[inline]
    pub const fn crc(&self, bytes: u64) -> Ns {
        Ns(self.crc_ps_per_byte * bytes / 1_000)
    }

    /// Time to compress `bytes`.
    #[inline]
    pub const fn pack(&self, bytes: u64) -> Ns {
        Ns(self.pack_ps_per_byte * bytes / 1_000)
    }

    /// Time to decompress to `bytes`.
    #[inline]
    pub const fn unpack(&self, bytes: u64) -> Ns {
        Ns(self.unpack_ps_per_byte * bytes / 1_000)
    }

    /// Time to visit `nodes` nodes.
    #[inline]
    pub const fn nodes(&self, nodes: u64) -> Ns {
        Ns(self.node_ps * nodes / 1_000)
    }
}

impl Default for CpuPrice {
    fn default() -> Self {
        CpuPrice::FREE
    }
}
