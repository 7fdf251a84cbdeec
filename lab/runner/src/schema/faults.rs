//! Faults of the flash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::section;

section! {
    /// Faults of the flash, raw or in a drive. Without this table raw flash has none, and of a drive only blocks wear out,
    /// if `ssd.endurance` is set.
    pub struct Faults {
        /// Wrong bits that ECC corrects in a step; 0: no ECC, wrong bits reach the reader unnoticed. Default: the ECC that
        /// `nand.part` requires, else 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(max = 1024))]
        ecc_bits: Option<u32> = None,
        /// Bytes of an ECC step: a divisor of the page. Default: that of `nand.part`, else 512.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65536))]
        ecc_step_bytes: Option<u32> = None,
        /// With `bit_errors`: bits of the ECC for which the flash is rated. Another `ecc_bits` then reads the same cells.
        /// Default: those of `nand.part`, else `ecc_bits`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1024))]
        rated_ecc_bits: Option<u32> = None,
        /// Corrected bits in a step from which UBI scrubs the block, as Linux's `bitflip_threshold`. Default: three
        /// quarters of `ecc_bits`, rounded up, as in Linux.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1024))]
        bitflip_threshold: Option<u32> = None,
        /// Bits flip by wear, age and reads. At the rated endurance, data a year old reach the limit of the ECC for which the
        /// flash is rated (uncorrectable bit error rate 1e-15).
        bit_errors: bool = false,
        /// With `bit_errors`: reads of a block at the rated endurance that flip as many bits again.
        #[schemars(range(min = 1.0, max = 1e15))]
        reads_at_limit: f64 = 1e6,
        /// Blocks fail for good when they are worn out, some before the rated endurance, most after it. Default: for a drive
        /// true if `ssd.endurance` is set, else false.
        #[serde(skip_serializing_if = "Option::is_none")]
        wear_out: Option<bool> = None,
        /// Erasures of each block before the run; they wear, and are in no result.
        worn_cycles: u32 = 0,
        /// Age that the data written before the load have when it begins.
        #[schemars(range(min = 0.0, max = 1e10))]
        shelf_s: f64 = 0.0,
        /// Probability that the program of a page fails. UBI moves the block's data and tests the block; a drive retires it.
        #[schemars(range(min = 0.0, max = 1.0))]
        program_failure: f64 = 0.0,
        /// Probability that an erase fails. The block is retired.
        #[schemars(range(min = 0.0, max = 1.0))]
        erase_failure: f64 = 0.0,
        /// Blocks that are bad from the start, as nandsim's `badblocks`: numbers with commas.
        badblocks: String = String::new(),
        /// Blocks whose erases fail, as nandsim's `weakblocks`: `5:100` lets 100 erases of block 5 succeed, `5` three.
        weakblocks: String = String::new(),
        /// Pages whose programs fail, as nandsim's `weakpages`: `64:2` lets two programs of page 64 of the flash succeed.
        weakpages: String = String::new(),
        /// Pages that become unreadable, as nandsim's `gravepages`: `64:2` lets two reads of page 64 succeed.
        gravepages: String = String::new(),
        /// Most bits that flip in a read, as nandsim's `bitflips`: one read in 1,024 flips some.
        #[schemars(range(max = 65535))]
        bitflips: u32 = 0,
    }
}
