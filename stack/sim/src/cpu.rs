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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_its_rate_times_its_amount_in_whole_nanoseconds() {
        let price = CpuPrice {
            copy_ps_per_byte: 250,
            crc_ps_per_byte: 1_500,
            node_ps: 40_000,
            pack_ps_per_byte: 7_001,
            unpack_ps_per_byte: 3_999,
        };
        for (amount, copy, crc, nodes, pack, unpack) in [
            (0, 0, 0, 0, 0, 0),
            (1, 0, 1, 40, 7, 3),
            (3, 0, 4, 120, 21, 11),
            (4096, 1024, 6144, 163_840, 28_676, 16_379),
        ] {
            let found =
                [price.copy(amount), price.crc(amount), price.nodes(amount), price.pack(amount), price.unpack(amount)];
            assert_eq!(found, [copy, crc, nodes, pack, unpack].map(Ns), "{amount}");
            let free = CpuPrice::default();
            assert_eq!([free.copy(amount), free.crc(amount), free.nodes(amount), free.pack(amount)], [Ns::ZERO; 4]);
            assert_eq!(free.unpack(amount), Ns::ZERO);
        }
    }
}
