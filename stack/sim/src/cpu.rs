//! What work of the processor costs. nandsim without delays, and the JFFS measurements, are bound by it.

use crate::Ns;

/// Prices of processor work, in picoseconds so that a byte's price is an integer.
///
/// A price of zero makes the work free; [`CpuPrice::FREE`] is the default of studies that count wear only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPrice {
    /// One byte copied between buffers, in ps.
    pub copy_ps_per_byte: u64,
    /// One byte checksummed, in ps.
    pub crc_ps_per_byte: u64,
    /// One visit of a tree or list node, in ps.
    pub node_ps: u64,
}

impl CpuPrice {
    /// Processor work takes no time.
    pub const FREE: CpuPrice = CpuPrice { copy_ps_per_byte: 0, crc_ps_per_byte: 0, node_ps: 0 };

    /// The price of copying `bytes`.
    #[inline]
    pub const fn copy(&self, bytes: u64) -> Ns {
        Ns(self.copy_ps_per_byte * bytes / 1_000)
    }

    /// The price of checksumming `bytes`.
    #[inline]
    pub const fn crc(&self, bytes: u64) -> Ns {
        Ns(self.crc_ps_per_byte * bytes / 1_000)
    }

    /// The price of visiting `nodes` nodes.
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
