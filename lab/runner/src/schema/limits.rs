//! When a run ends, what it records, and how power cuts are enumerated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, weights, words};

/// Seconds per day.
pub const SECONDS_PER_DAY: f64 = 86_400.0;
/// Days per year: a quarter of a day more than 365.
pub const DAYS_PER_YEAR: f64 = 365.25;

section! {
    /// Conditions that end a run, whichever is met first; the load may end earlier. 0 disables a condition.
    pub struct Stop {
        /// Virtual seconds.
        #[schemars(range(min = 0.0, max = 1e9))]
        virtual_s: f64 = 0.0,
        /// Raw flash, also below a ubiblock: virtual days.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(max = 200_000.0), extend("exclusiveMinimum" = 0.0))]
        days: Option<f64> = None,
        /// Raw flash, also below a ubiblock: virtual years of 365.25 days.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(max = 500.0), extend("exclusiveMinimum" = 0.0))]
        years: Option<f64> = None,
        /// Raw flash: bytes that the load writes.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        host_bytes: Option<u64> = None,
        /// Erase count of the most worn block.
        max_erases: u32 = 0,
        /// Raw flash: mean erase count of the PEBs outside the first 64.
        #[schemars(range(min = 0.0, max = 1e9))]
        mean_erases_of_others: f64 = 0.0,
        /// Raw flash: steps of the load.
        steps: u64 = 0,
        /// Block device: requests.
        requests: u64 = 0,
        /// Block device: bytes written by the host, in units of its capacity.
        #[schemars(range(min = 0.0, max = 1e9))]
        drive_writes: f64 = 0.0,
    }
}

impl Stop {
    /// The condition in virtual time that is met first, in seconds, with its key.
    pub fn first_time(&self) -> Option<(f64, &'static str)> {
        let times = [
            (self.virtual_s, "virtual_s"),
            (self.days.unwrap_or(0.0) * SECONDS_PER_DAY, "days"),
            (self.years.unwrap_or(0.0) * DAYS_PER_YEAR * SECONDS_PER_DAY, "years"),
        ];
        times.into_iter().filter(|&(seconds, _)| seconds > 0.0).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

section! {
    /// What a run records.
    pub struct Record {
        /// Most points of the timeline.
        #[schemars(range(min = 2, max = 10_000))]
        points: u32 = 200,
        /// Block device: whether to measure the pattern of the writes (segmented sequentiality).
        pattern: bool = false,
    }
}

section! {
    /// Values of keys over which `nandlab sweep` runs the experiment.
    pub struct Sweep {
        /// Keys and their values, each as `KEY=VALUE,VALUE…`; every combination is run.
        vary: Vec<String> = Vec::new(),
        /// Run only so many combinations, drawn at random; 0: all.
        samples: u64 = 0,
    }
}

words! {
    /// How a cut leaves the operation that it interrupts.
    pub enum Tear {
        /// As if it had not begun.
        Clean,
        /// A prefix of the data is programmed; of an erase, a prefix of the block is erased.
        Prefix,
        /// A random subset of the bits is programmed or erased.
        RandomBits,
    }
}

words! {
    /// Whether a reader notices torn cells.
    pub enum CutEcc {
        /// ECC fails on torn cells.
        Sees,
        /// Torn cells read as if they were good.
        Blind,
        /// Either of the two, drawn for each cut.
        Drawn,
    }
}

words! {
    /// Pages that share cells.
    pub enum PairedPages {
        /// Each page has its own, as on SLC.
        None,
        /// Two bits a cell: page 0 is paired with 4, 1 with 5, 2 with 8, 3 with 9, 6 with 12, and so on.
        Mlc,
    }
}

words! {
    /// What the medium destroys while power is off.
    pub enum Destroys {
        /// Nothing.
        Nothing,
        /// One copy of the volume table, drawn: UBI keeps two.
        VolumeTable,
    }
}

words! {
    /// A deliberate mistake, to test the enumeration: it must be found.
    pub enum KnownBad {
        /// No mistake.
        None,
        /// UBI: an atomic change erases the old LEB first.
        EraseBeforeChange,
        /// UBI: an atomic change writes no copy flag.
        ChangeWithoutCopyFlag,
        /// UBI: PEBs of a new pool are used before the fastmap that lists them is written.
        HandOutBeforeFastmap,
        /// UBI: an erasure does not increase the erase counter.
        ForgetEraseCount,
        /// UBI: mappings of an old fastmap are used without reading the VID header.
        TrustOldMappings,
        /// UBI: a change of the volume table writes its first copy only.
        WriteOneTable,
        /// UBI: an erased PEB is forgotten.
        ForgetErased,
        /// Drive: a flush completes at once.
        FlushAtOnce,
        /// Drive: a flush waits only for the pages that it writes out itself.
        FlushOwnPagesOnly,
        /// Drive: FUA is ignored.
        IgnoreFua,
        /// Drive: a copied page gets a new version.
        CopiesAreNewVersions,
        /// Drive: torn pages are used at power-on.
        TrustTornPages,
        /// Drive: blocks that look erased are used without an erasure.
        TrustBlankBlocks,
        /// Drive: versions of pages are ignored at power-on.
        IgnoreVersions,
        /// Drive: versions start again at power-on.
        RestartVersions,
        /// Drive: erase counts are forgotten at power-on.
        ForgetEraseCounts,
        /// UBIFS, JFFS2: `fsync` leaves what is in a write buffer there.
        SkipWriteBuffer,
        /// UBIFS: the master node is written to one of its two LEBs only.
        WriteOneMaster,
        /// UBIFS: a commit lists no orphans.
        ForgetOrphans,
        /// UBIFS: what an unfinished commit wrote at the head of the index is left there.
        TrustHeads,
        /// JFFS2 on NOR: a node is marked obsolete before the one that replaces it is written.
        ObsoleteFirst,
        /// JFFS2 on NAND: the removal of a name writes no node.
        NoDeletion,
        /// JFFS2 on NAND: `sync` and `fsync` do not pad the page in the write buffer: it is written when it is full.
        NoPadding,
        /// JFFS2 on NAND: a block is erased while the nodes that replace its own are in the write buffer.
        EraseEarly,
        /// JFFS2 with summaries: one is believed though the nodes that it names are gone, as Linux does.
        TrustSummary,
        /// JFFS: a rename does not say which inode it replaces.
        ForgetReplaced,
        /// JFFS: data are used without their checksum.
        TrustData,
        /// JFFS: the rest of a node is cleared before the sector of its beginning is erased, and older nodes stay valid, as in Linux.
        ClearFirst,
        /// UFS: HPB entries are used without a check.
        TrustEntries,
        /// Raw flash of a guest: a program is answered at once, and the last 32 KiB are in a volatile buffer.
        ProgramAtOnce,
    }
}

section! {
    /// Power cuts (`nandlab cuts`): power is lost at every flash operation of a drawn sequence of operations in turn.
    pub struct Cuts {
        /// Operations in the sequence: of UBI's users on raw flash, calls of a file system, requests on a drive, requests and
        /// pauses on a ubiblock.
        #[schemars(range(min = 1, max = 16_777_216))]
        operations: u32 = 1000,
        /// Raw flash: most volumes.
        #[schemars(range(min = 1, max = 16))]
        volumes: u32 = 4,
        /// Drive: most outstanding requests.
        #[schemars(range(min = 1, max = 65_535))]
        depth: u32 = 8,
        /// Block device: most pages of a request.
        #[schemars(range(min = 1, max = 64))]
        most_pages: u32 = 4,
        /// How a cut leaves the operation that it interrupts: each operation is cut once with each tear.
        #[schemars(length(min = 1))]
        tear: Vec<Tear> = vec![Tear::Clean, Tear::Prefix, Tear::RandomBits],
        /// Whether a reader notices torn cells.
        ecc: CutEcc = CutEcc::Drawn,
        /// Whether recovery is cut too, at a drawn operation.
        second_cut: bool = true,
        /// With `second_cut`: most cuts in a row after the first. Each falls into the recovery from the one before, or
        /// into the first operations after it.
        #[schemars(range(min = 1, max = 16))]
        further_cuts: u32 = 1,
        /// Whether torn cells may read differently each time, drawn for each cut.
        unstable: bool = false,
        /// Pages that share cells, of which a torn one takes the other with it.
        paired_pages: PairedPages = PairedPages::None,
        /// UBI: what the medium destroys while power is off.
        destroys: Destroys = Destroys::Nothing,
        /// A deliberate mistake, to test the enumeration: it must be found.
        known_bad: KnownBad = KnownBad::None,
        /// Weights of the kinds of operations; a kind that is not set has its default weight.
        mix: Mix = Mix::default(),
    }
}

weights! {
    max = 1_000_000;
    /// Weights of the kinds of operations.
    pub struct Mix {
        /// UBI: create a volume.
        create,
        /// UBI: remove a volume.
        remove,
        /// UBI: grow or shrink a volume.
        resize,
        /// UBI: rename a volume, or exchange the names of two.
        rename,
        /// UBI: replace the contents of a volume.
        update,
        /// UBI: write to a LEB. Drive: write.
        write,
        /// UBI: change a LEB atomically.
        change,
        /// UBI: map an unmapped LEB.
        map,
        /// UBI: unmap a LEB.
        unmap,
        /// UBI: do all background work. File system: sync.
        sync,
        /// UBI: do one step of the background thread. File system: do all of UBI's background work, or JFFS2's.
        background,
        /// UBI: detach and attach again. File system: unmount it first, and mount it again.
        detach,
        /// File system: rename a file to the name of another, half of the time after a write and an `fsync`.
        replace,
        /// File system: an operation of fsstress, with its default weights.
        fsstress,
        /// File system: fsync of a file or directory, or fdatasync.
        fsync,
        /// File system: open a file, which stays so when its last name goes.
        open,
        /// File system: close a file that is open.
        close,
        /// File system: wait 1 to 40 seconds.
        idle,
        /// UBI: lose power between two flash operations and attach again.
        crash,
        /// Drive: write with FUA.
        fua,
        /// Drive: read.
        read,
        /// Drive: trim.
        trim,
        /// Drive: flush.
        flush,
    }
}
