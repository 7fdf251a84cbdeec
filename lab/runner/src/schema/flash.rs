//! Raw flash, and UBI on it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

words! {
    /// Type of flash.
    pub enum Medium {
        /// Pages are programmed in order; ECC corrects bits; blocks go bad.
        Nand,
        /// Any byte may be programmed; no ECC, no bad blocks. `page_bytes` is 1.
        Nor,
    }
}

words! {
    /// Source of the times of flash operations.
    pub enum Delays {
        /// nandsim without `do_delays`: only the processor's work (`copy_ps_per_byte`, `erase_ns`) takes time.
        Off,
        /// nandsim with `do_delays`: its default cell and bus delays.
        On,
        /// The data sheet of `nand.part`.
        Part,
    }
}

section! {
    /// The raw flash.
    pub struct Nand {
        /// Name of a NAND or NOR part, whose geometry, rules and times apply where the file sets none.
        #[serde(skip_serializing_if = "Option::is_none")]
        part: Option<String> = None,
        /// Type of flash.
        medium: Medium = Medium::Nand,
        /// Physical eraseblocks (PEBs); at least 16 where UBI has the flash.
        #[schemars(range(min = 4, max = 1_048_576))]
        pebs: u32 = 1024,
        /// Bytes per PEB, without OOB.
        #[schemars(range(min = 1024, max = 16_777_216))]
        peb_bytes: u32 = 128 << 10,
        /// Bytes per page, the write unit; 1 on NOR.
        #[schemars(range(min = 1, max = 65_536))]
        page_bytes: u32 = 2048,
        /// Bytes per sub-page; 0: the part has none, and a page can be programmed only once.
        #[schemars(range(min = 0, max = 65_536))]
        subpage_bytes: u32 = 0,
        /// Source of the times of flash operations.
        delays: Delays = Delays::Off,
        /// Processor time to copy a byte to or from the simulated cells, in picoseconds.
        #[schemars(range(max = 1_000_000_000))]
        copy_ps_per_byte: u64 = 100,
        /// Processor time to erase a block, in nanoseconds.
        #[schemars(range(max = 1_000_000_000))]
        erase_ns: u64 = 15_000,
        /// Erasures for which blocks are rated; 0: not stated. Shown in the report, not simulated.
        endurance: u32 = 0,
    }
}

words! {
    /// Kernel whose wear-levelling and fastmap rules apply.
    pub enum Wl {
        /// Linux 6.1 up to 6.1.187, before the fastmap wear-levelling series. Stable 6.1.188 took the series' counting,
        /// waiting and reservation over: set these in `ubi.changes` for it.
        #[serde(rename = "linux-6.1")]
        Linux61,
        /// Linux 6.7 and later, with the series.
        #[serde(rename = "linux-6.7")]
        Linux67,
    }
}

section! {
    /// UBI.
    pub struct Ubi {
        /// Kernel whose wear-levelling and fastmap rules apply.
        wl: Wl = Wl::Linux67,
        /// Difference of erase counters at which data are moved (`CONFIG_MTD_UBI_WL_THRESHOLD`).
        #[schemars(range(min = 2, max = 65_536))]
        wl_threshold: u32 = 4096,
        /// PEBs reserved for bad-block handling per 1024 (`CONFIG_MTD_UBI_BEB_LIMIT`).
        #[schemars(range(max = 768))]
        beb_per_1024: u32 = 20,
        /// Whether fastmaps are used and written. On up to 64 PEBs neither is done, as in Linux.
        fastmap: bool = true,
        /// Whether PEBs for the fastmap pools are reserved at attach, out of the space of volumes.
        fastmap_reserve_pools: bool = false,
        /// Byte offset of the VID header in a PEB [default: as Linux chooses it].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 64, max = 65_536))]
        vid_hdr_offset: Option<u32> = None,
        /// Single changes of the fastmap series, over what `wl` says.
        changes: Changes = Changes::default(),
    }
}

section! {
    /// Single changes of the fastmap wear-levelling series; a change that is not set follows `ubi.wl`.
    pub struct Changes {
        /// A fastmap data block erased in place updates its erase counter in memory.
        #[serde(skip_serializing_if = "Option::is_none")]
        count_in_place_erases: Option<bool> = None,
        /// Queued erasures are done before a refill, until enough PEBs are free.
        #[serde(skip_serializing_if = "Option::is_none")]
        wait_for_free_pebs: Option<bool> = None,
        /// Pools may use the PEBs reserved for bad-block handling, but not those that the fastmap itself needs.
        #[serde(skip_serializing_if = "Option::is_none")]
        pools_use_beb_reserve: Option<bool> = None,
        /// When the last PEB is taken, wear levelling may use one worn beyond its usual limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        wl_beyond_limit: Option<bool> = None,
        /// A medium-worn PEB among the first 64 is skipped only while there is no spare anchor.
        #[serde(skip_serializing_if = "Option::is_none")]
        pass_over_unless_anchor: Option<bool> = None,
    }
}
