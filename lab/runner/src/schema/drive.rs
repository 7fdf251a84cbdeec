//! A drive: flash behind a controller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

words! {
    /// Whether the simulated flash keeps contents.
    pub enum Contents {
        /// Only which pages are programmed: fast, and reads return zeroes.
        Tags,
        /// The data of each page too.
        Bytes,
    }
}

section! {
    /// A drive: an SSD, an eMMC or a UFS device.
    pub struct Ssd {
        /// Name of a drive, whose values apply where the file sets none.
        part: String = "base".to_owned(),
        /// Buses (channels).
        #[schemars(range(min = 1))]
        channels: u32 = 8,
        /// Chips per channel (ways).
        #[schemars(range(min = 1))]
        ways: u32 = 4,
        /// Dies per chip.
        #[schemars(range(min = 1))]
        dies: u32 = 1,
        /// Planes per die.
        #[schemars(range(min = 1))]
        planes: u32 = 2,
        /// Blocks per plane.
        #[schemars(range(min = 1))]
        blocks: u32 = 256,
        /// Pages per block.
        #[schemars(range(min = 1))]
        pages: u32 = 256,
        /// Size of a page, the unit of mapping, in KiB: a power of two.
        #[schemars(range(min = 0.5, max = 64.0))]
        page_kib: f64 = 4.0,
        /// Order of striping, the axis that changes fastest first: c (channel), w (way), d (die), p (plane), each once.
        #[schemars(length(min = 4, max = 4))]
        order: String = "cwdp".to_owned(),
        /// Whether the planes of a die are programmed, read and erased together.
        multi_plane: bool = false,
        /// Over-provisioning, (raw - logical) / logical, in per cent. Excludes the next two keys.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 100_000.0))]
        over_provisioning_percent: Option<f64> = None,
        /// Over-provisioning without the blocks that collection keeps free or open, which hold no data: (raw - kept -
        /// logical) / logical, in per cent. These are a few blocks of each unit, whatever its size (`gc_low` and a half,
        /// `gc_low` and two if `foreground` is `paced`). So a drive with fewer `blocks` has the same write amplification.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 100_000.0))]
        effective_over_provisioning_percent: Option<f64> = None,
        /// Logical capacity in bytes, rounded down to whole stripes. Without any of the three keys, the drive is
        /// over-provisioned by 12.5 %.
        #[serde(skip_serializing_if = "Option::is_none")]
        capacity_bytes: Option<u64> = None,
        /// Erasures for which blocks are rated; 0: blocks do not wear out. `nandlab cuts` ignores it.
        endurance: u32 = 0,
        /// Whether the simulated flash keeps contents. Power cuts always keep them. What a guest writes is kept beside the
        /// flash, in a file in the user's cache, if this is `tags`, there is no table `faults`, and trimmed sectors read as
        /// zeroes; otherwise in the flash.
        store: Contents = Contents::Tags,
        /// Times of the flash.
        timing: Timing = Timing::default(),
        /// The flash translation layer.
        ftl: Ftl = Ftl::default(),
        /// The write buffer.
        cache: Cache = Cache::default(),
        /// The host interface.
        front: Front = Front::default(),
        /// UFS: Host Performance Booster, a copy of the mapping table in the host's memory.
        #[serde(skip_serializing_if = "Option::is_none")]
        hpb: Option<Hpb> = None,
        /// UFS: WriteBooster, blocks used with one bit per cell that receive what the host writes.
        #[serde(skip_serializing_if = "Option::is_none")]
        write_booster: Option<WriteBooster> = None,
    }
}

words! {
    /// ONFI timing mode of the flash bus.
    #[allow(missing_docs)]
    pub enum OnfiMode {
        #[serde(rename = "sdr-0")] Sdr0,
        #[serde(rename = "sdr-1")] Sdr1,
        #[serde(rename = "sdr-2")] Sdr2,
        #[serde(rename = "sdr-3")] Sdr3,
        #[serde(rename = "sdr-4")] Sdr4,
        #[serde(rename = "sdr-5")] Sdr5,
        #[serde(rename = "nv-ddr-0")] NvDdr0,
        #[serde(rename = "nv-ddr-1")] NvDdr1,
        #[serde(rename = "nv-ddr-2")] NvDdr2,
        #[serde(rename = "nv-ddr-3")] NvDdr3,
        #[serde(rename = "nv-ddr-4")] NvDdr4,
        #[serde(rename = "nv-ddr-5")] NvDdr5,
    }
}

/// Rate of the flash bus.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Bus {
    /// Transfers of one byte, in millions per second.
    Rate(#[schemars(range(min = 1, max = 100_000))] u32),
    /// An ONFI timing mode.
    Mode(OnfiMode),
}

impl Bus {
    /// Mega-transfers per second. Source: ONFI timing modes as in Linux 6.12 `nand_timings.c`: 1/tRC, and 2/tCK.
    pub fn mega_transfers_per_s(self) -> u32 {
        const MODES: [u32; 12] = [10, 20, 28, 33, 40, 50, 40, 66, 100, 133, 166, 200];
        match self {
            Bus::Rate(rate) => rate,
            Bus::Mode(mode) => MODES[mode as usize],
        }
    }
}

words! {
    /// Which waiting operation a free die starts.
    pub enum Scheduling {
        /// Reads before programs and erases.
        ReadsFirst,
        /// The one that has waited longest.
        InOrder,
    }
}

words! {
    /// What a free bus serves first.
    pub enum BusOrder {
        /// Commands, which are short and each start an array; then data to the controller; then data to dies.
        CommandsFirst,
        /// Data to the controller, then commands, as MQSim does; then data to dies.
        DataFirst,
    }
}

section! {
    /// Times of the flash.
    pub struct Timing {
        /// Array read (tR) of the lower, middle, upper and top page: one value per bit of a cell.
        #[schemars(length(min = 1, max = 4), inner(range(min = 0.0, max = 1e7)))]
        read_us: Vec<f64> = vec![40.0],
        /// Array program (tPROG) of these pages: as many values as `read_us` has.
        #[schemars(length(min = 1, max = 4), inner(range(min = 0.0, max = 1e7)))]
        program_us: Vec<f64> = vec![200.0],
        /// Block erase (tBERS).
        #[schemars(range(min = 0.0, max = 1e7))]
        erase_us: f64 = 2000.0,
        /// Array read of blocks used with one bit per cell.
        #[schemars(range(min = 0.0, max = 1e7))]
        slc_read_us: f64 = 25.0,
        /// Array program of such blocks.
        #[schemars(range(min = 0.0, max = 1e7))]
        slc_program_us: f64 = 200.0,
        /// Erase of such blocks.
        #[schemars(range(min = 0.0, max = 1e7))]
        slc_erase_us: f64 = 2000.0,
        /// Command and address cycles of an operation on the bus.
        #[schemars(range(max = 1_000_000))]
        command_ns: u64 = 200,
        /// Rate of the bus: transfers of one byte in millions per second, or an ONFI timing mode.
        bus: Bus = Bus::Rate(333),
        /// Bytes transferred with each page besides its data.
        #[schemars(range(max = 65_536))]
        oob_bytes: u32 = 224,
        /// Time from a suspend command until the die can read, during a program; 0: programs cannot be suspended.
        #[schemars(range(min = 0.0, max = 1e7))]
        suspend_program_us: f64 = 0.0,
        /// Time from a suspend command until the die can read, during an erase; 0: erases cannot be suspended.
        #[schemars(range(min = 0.0, max = 1e7))]
        suspend_erase_us: f64 = 0.0,
        /// Time from a resume command until the array works again.
        #[schemars(range(min = 0.0, max = 1e7))]
        resume_us: f64 = 0.0,
        /// Most suspends of one operation.
        max_suspends: u32 = 8,
        /// Cache read: the next array read begins while data of the last one are transferred.
        cache_read: bool = false,
        /// Cache program: data of the next program are transferred while the array programs.
        cache_program: bool = false,
        /// Copyback: pages move within a plane without crossing the bus.
        copyback: bool = false,
        /// Reads that a die does at the same time, on planes that differ (independent plane reads; AIPR); a divisor of
        /// `planes`. 1: a read holds the die. Programs and erases always do.
        #[schemars(range(min = 1))]
        independent_reads: u32 = 1,
        /// Which waiting operation a free die starts.
        scheduling: Scheduling = Scheduling::ReadsFirst,
        /// What a free bus serves first.
        bus_order: BusOrder = BusOrder::CommandsFirst,
    }
}

words! {
    /// Flash translation layer.
    pub enum Mapping {
        /// Page-level mapping with the whole table in memory.
        Page,
        /// DFTL: page-level mapping with the table in flash and a part of it cached.
        Dftl,
        /// BAST: block-level mapping with a log block per data block.
        Bast,
        /// FAST: block-level mapping with log blocks that all data blocks share.
        Fast,
        /// Block-level mapping with replacement blocks.
        Block,
    }
}

words! {
    /// Which block garbage collection collects next (the victim).
    pub enum Gc {
        /// The block with the fewest valid pages.
        Greedy,
        /// The block with the greatest benefit over cost: age × (1 - u) / 2u, with u the share of valid pages.
        CostBenefit,
        /// D-choices: of `gc_choices` blocks drawn at random, the one with the fewest valid pages.
        DChoices,
        /// The block that was filled first.
        Fifo,
        /// Of the `gc_window` blocks that were filled first, the one with the fewest valid pages.
        Windowed,
        /// A block drawn at random.
        Random,
    }
}

words! {
    /// How the host's writes wait for garbage collection.
    pub enum Foreground {
        /// A victim is collected completely at once.
        Block,
        /// The copies are spread over the pages that the host writes.
        Paced,
    }
}

words! {
    /// Wear levelling.
    pub enum WearLevelling {
        /// Free blocks are used in the order in which they became free.
        None,
        /// Host data go to the least worn free block, copied data to the most worn.
        Dynamic,
        /// As `dynamic`; cold data are moved as well.
        Static,
    }
}

words! {
    /// What happens when the SLC cache is full.
    pub enum SlcWhenFull {
        /// The host writes to normal blocks.
        Direct,
        /// The oldest SLC block is emptied before the host continues.
        Fold,
    }
}

words! {
    /// Unit in which the map cache loads entries.
    pub enum MapGrain {
        /// A whole page of the mapping table.
        Page,
        /// A single entry.
        Entry,
    }
}

section! {
    /// The flash translation layer.
    pub struct Ftl {
        /// Flash translation layer.
        mapping: Mapping = Mapping::Page,
        /// Which block garbage collection collects next (the victim).
        gc: Gc = Gc::Greedy,
        /// Blocks drawn by `d-choices`.
        gc_choices: u32 = 10,
        /// Blocks considered by `windowed`.
        gc_window: u32 = 32,
        /// Free blocks of a unit reserved for garbage collection.
        gc_low: u32 = 2,
        /// An idle unit collects garbage while fewer blocks are free.
        gc_background: u32 = 0,
        /// The same, as a share of the unit's blocks in per cent, a block at least, on top of `gc_low`. Excludes
        /// `gc_background`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 90.0))]
        gc_background_percent: Option<f64> = None,
        /// Least share of invalid pages of a block that an idle unit collects, in per cent.
        #[schemars(range(min = 0.0, max = 100.0))]
        gc_background_gain_percent: f64 = 12.5,
        /// Pages written by the host to a unit between two checkpoints of its mapping; 0: no checkpoints.
        checkpoint_every: u32 = 0,
        /// Idle time of a die before background work begins; 0: no background work.
        #[schemars(range(min = 0.0, max = 1e7))]
        background_after_us: f64 = 0.0,
        /// How the host's writes wait for garbage collection.
        foreground: Foreground = Foreground::Block,
        /// Whether copied pages go to other blocks than pages that the host writes.
        hot_cold: bool = true,
        /// Wear levelling.
        wear: WearLevelling = WearLevelling::Dynamic,
        /// `static`: difference of erase counts at which cold data are moved.
        wear_threshold: u32 = 100,
        /// `static`: erasures of a unit between two moves.
        wear_every: u32 = 16,
        /// Share of blocks used with one bit per cell as a write cache, in per cent.
        #[schemars(range(min = 0.0, max = 90.0))]
        slc_percent: f64 = 0.0,
        /// What happens when the SLC cache is full.
        slc_when_full: SlcWhenFull = SlcWhenFull::Direct,
        /// `bast`, `fast`: log blocks per unit.
        log_blocks: u32 = 16,
        /// `dftl`: memory for mapping entries, in KiB.
        map_cache_kib: u32 = 1024,
        /// Unit in which the map cache loads entries.
        map_grain: MapGrain = MapGrain::Page,
        /// Share of the map cache that keeps entries used twice, in per cent; 0: plain LRU.
        #[schemars(range(max = 99))]
        map_protected_percent: u32 = 0,
    }
}

words! {
    /// Which page or block the write buffer evicts first.
    pub enum BufferPolicy {
        /// There is no write buffer.
        None,
        /// The page that was buffered first.
        Fifo,
        /// The page least recently written (LRU).
        Lru,
        /// BPLRU: the block least recently written, with page padding and LRU compensation.
        Bplru,
        /// BPLRU without page padding.
        BplruUnpadded,
        /// BPLRU without LRU compensation.
        BplruUncompensated,
    }
}

section! {
    /// The write buffer.
    pub struct Cache {
        /// Which page or block the write buffer evicts first.
        policy: BufferPolicy = BufferPolicy::None,
        /// Size in MiB.
        #[schemars(range(min = 0.0, max = 65_536.0))]
        mib: f64 = 0.0,
        /// Size in pages, instead of `mib`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pages: Option<u32> = None,
    }
}

words! {
    /// Protocol between host and drive.
    pub enum Protocol {
        /// Serial ATA with native command queueing.
        Sata,
        /// NVM Express.
        Nvme,
        /// Universal Flash Storage.
        Ufs,
    }
}

words! {
    /// What trimmed sectors read as.
    pub enum TrimmedReads {
        /// Zeroes (ATA's RZAT).
        Zeroes,
        /// The same data each time (ATA's DRAT).
        Deterministic,
        /// Anything: here the old data until they are erased.
        Undefined,
    }
}

section! {
    /// The host interface.
    pub struct Front {
        /// Protocol between host and drive.
        protocol: Protocol = Protocol::Nvme,
        /// Queue depth: at most 32 with SATA and UFS, 65,535 with NVMe.
        #[schemars(range(min = 1, max = 65_535))]
        depth: u32 = 1024,
        /// Time of the controller per command; it handles one at a time.
        #[schemars(range(min = 0.0, max = 1e7))]
        command_us: f64 = 0.0,
        /// Firmware latency of a read, pipelined: the controller goes on with other commands meanwhile.
        #[schemars(range(min = 0.0, max = 1e7))]
        read_latency_us: f64 = 0.0,
        /// Firmware latency of a write, flush or trim, pipelined as well.
        #[schemars(range(min = 0.0, max = 1e7))]
        write_latency_us: f64 = 0.0,
        /// Payload rate of the link in MB/s (10^6 bytes); 0: the link takes no time.
        #[schemars(range(min = 0.0, max = 1e6))]
        link_mb_s: f64 = 0.0,
        /// Whether both directions share the link.
        half_duplex: bool = false,
        /// Whether writes complete once they are in the write buffer.
        write_cache: bool = false,
        /// What trimmed sectors read as.
        trimmed_reads: TrimmedReads = TrimmedReads::Zeroes,
        /// NVMe: a weight per submission queue.
        #[schemars(length(min = 1, max = 128), inner(range(min = 1)))]
        queue_weights: Vec<u32> = vec![1],
    }
}

words! {
    /// Version of Host Performance Booster.
    pub enum HpbVersion {
        /// Version 1.0: reads of single pages.
        #[serde(rename = "1.0", alias = "1")]
        V1,
        /// Version 2.0: longer reads, by pre-requests.
        #[serde(rename = "2.0", alias = "2")]
        V2,
    }
}

words! {
    /// Who activates regions.
    pub enum HpbControl {
        /// The device, by recommendations in its responses.
        Device,
        /// The host, by counting reads.
        Host,
        /// HPB is disabled and this table is ignored.
        Off,
    }
}

section! {
    /// Host Performance Booster.
    pub struct Hpb {
        /// Version of the specification.
        version: HpbVersion = HpbVersion::V1,
        /// Who activates regions.
        control: HpbControl = HpbControl::Device,
        /// Size of a region in KiB: a power of two of pages.
        region_kib: u32 = 16_384,
        /// Size of a sub-region in KiB: a power of two of pages.
        subregion_kib: u32 = 4_096,
        /// Most active regions; 0: all.
        max_active_regions: u32 = 0,
        /// First pinned region of logical unit 0.
        pinned_first: u32 = 0,
        /// Number of pinned regions.
        pinned_regions: u32 = 0,
        /// Version 2.0: longest read with a single entry, in KiB.
        single_command_kib: u32 = 512,
        /// Version 2.0: whether the entries of longer reads are sent ahead of them (pre-requests).
        pre_requests: bool = false,
        /// Additional time on the die of a read with an entry.
        #[schemars(range(min = 0.0, max = 1e6))]
        entry_check_us: f64 = 1.0,
        /// Time that the device needs to clear fHPBReset; beyond 10 ms the host disables HPB.
        #[schemars(range(min = 0.0, max = 1e6))]
        reset_ms: f64 = 0.0,
        /// Reads without a valid entry after which the device recommends to load a sub-region.
        recommend_after: u32 = 4,
        /// Logical units in order; empty: one unit over the whole drive, with HPB.
        lus: Vec<LogicalUnit> = Vec::new(),
        /// Parameters of the host, by their names in sysfs.
        params: HpbParams = HpbParams::default(),
    }
}

/// A logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogicalUnit {
    /// Size in MiB; 0, for the last one: the remaining capacity.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub mib: f64,
    /// Whether HPB is enabled for it.
    pub hpb: bool,
}

section! {
    /// Parameters of the host's HPB driver, by their names in sysfs; defaults are Linux's.
    pub struct HpbParams {
        /// Reads of a sub-region after which the host activates it.
        activation_thld: u32 = 8,
        /// Bits by which all read counters are shifted right when one becomes too large.
        normalization_factor: u32 = 1,
        /// Reads from which a region may replace an active one.
        eviction_thld_enter: u32 = 256,
        /// Reads up to which an active region may be replaced.
        eviction_thld_exit: u32 = 128,
        /// Idle time after which an active region loses one of its expiries.
        read_timeout_ms: u32 = 1000,
        /// Expiries after which a region is inactivated; a dirty one at once.
        read_timeout_expiries: u32 = 100,
        /// Interval between checks of the timeouts.
        timeout_polling_interval_ms: u32 = 200,
        /// Sub-regions loaded at a time.
        inflight_map_req: u32 = 1,
        /// Accepted for completeness; it has no effect.
        requeue_timeout_ms: u32 = 0,
    }
}

section! {
    /// WriteBooster.
    pub struct WriteBooster {
        /// Size of the buffer in MiB (`dNumSharedWriteBoosterBufferAllocUnits` in bytes, over 2^20).
        #[schemars(range(min = 0.0, max = 1e7))]
        mib: f64 = 4096.0,
        /// Whether the device flushes the buffer while idle (`fWBBufferFlushEn`).
        flush: bool = true,
    }
}
