//! Faults that a run met, and what became of the data.

use nand::FaultCounts;
use serde::{Deserialize, Serialize};

use crate::measure::Metrics;

/// Faults from the beginning of the load on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultFigures {
    /// Bits that ECC corrected, summed over reads.
    pub corrected_bits: u64,
    /// Page reads with wrong bits, all of which ECC corrected.
    pub corrected_pages: u64,
    /// Wrong bits that reached the reader because there is no ECC, summed over reads.
    pub unnoticed_bits: u64,
    /// Page reads that ECC could not correct.
    pub uncorrectable_pages: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Raw flash: PEBs that UBI scrubbed; 0 under a guest, which does not tell.
    pub scrubbed: u64,
    /// Blocks that became bad.
    pub retired: u64,
    /// Raw flash: LEBs that a reader could not read; under a guest, page reads that failed. Drive: pages that could not be read when they were moved, and reads
    /// of the host that failed.
    pub lost: u64,
}

impl FaultFigures {
    /// From the counts of the flash.
    pub fn new(counts: FaultCounts, scrubbed: u64, retired: u64, lost: u64) -> FaultFigures {
        FaultFigures {
            corrected_bits: counts.corrected_bits,
            corrected_pages: counts.corrected_pages,
            unnoticed_bits: counts.unnoticed_bits,
            uncorrectable_pages: counts.uncorrectable_pages,
            program_failures: counts.program_failures,
            erase_failures: counts.erase_failures,
            scrubbed,
            retired,
            lost,
        }
    }

    /// Adds the metrics.
    pub fn put(&self, metrics: &mut Metrics) {
        for (id, value) in [
            ("faults.corrected_bits", self.corrected_bits),
            ("faults.corrected_pages", self.corrected_pages),
            ("faults.unnoticed_bits", self.unnoticed_bits),
            ("faults.uncorrectable_pages", self.uncorrectable_pages),
            ("faults.program_failures", self.program_failures),
            ("faults.erase_failures", self.erase_failures),
            ("faults.scrubbed", self.scrubbed),
            ("faults.retired", self.retired),
            ("faults.lost", self.lost),
        ] {
            metrics.put(id, value as f64);
        }
    }
}
