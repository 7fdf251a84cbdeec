//! When a run ends, what it records, and how power cuts are enumerated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

section! {
    /// When a run ends: at the first of these conditions, or at the end of its load. 0 is no condition.
    pub struct Stop {
        /// Virtual seconds.
        #[schemars(range(min = 0.0, max = 1e9))]
        virtual_s: f64 = 0.0,
        /// Erase count of the most worn block.
        max_erases: u32 = 0,
        /// Raw flash: mean erase count of the PEBs outside the first 64.
        #[schemars(range(min = 0.0, max = 1e9))]
        mean_erases_of_others: f64 = 0.0,
        /// Raw flash: steps of the load.
        steps: u64 = 0,
        /// Drive: requests.
        requests: u64 = 0,
        /// Drive: capacities written by the host.
        #[schemars(range(min = 0.0, max = 1e9))]
        drive_writes: f64 = 0.0,
    }
}

section! {
    /// What a run records.
    pub struct Record {
        /// Points of the timeline at most.
        #[schemars(range(min = 2, max = 10_000))]
        points: u32 = 200,
        /// Drive: whether the pattern of the writes is measured (segmented sequentiality).
        pattern: bool = false,
    }
}

words! {
    /// What a cut leaves of the program that it interrupts.
    pub enum Tear {
        /// All or nothing: the operation before it is the last.
        Clean,
        /// A prefix of the page.
        Prefix,
        /// A random subset of the bits.
        RandomBits,
    }
}

words! {
    /// How a reader notices torn cells.
    pub enum CutEcc {
        /// ECC fails on them.
        Sees,
        /// They read as if they were good.
        Blind,
        /// Either, drawn per cut.
        Drawn,
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
        /// UBI: erase counters start at zero after an erasure.
        ForgetEraseCount,
        /// UBI: mappings of an old fastmap are used although the pools say otherwise.
        TrustOldMappings,
        /// Drive: a flush completes at once.
        FlushAtOnce,
        /// Drive: a flush waits only for pages of its own queue.
        FlushOwnPagesOnly,
        /// Drive: FUA is ignored.
        IgnoreFua,
        /// Drive: a copied page gets a new version.
        CopiesAreNewVersions,
        /// Drive: torn pages are used at power-on.
        TrustTornPages,
        /// Drive: blocks that look blank are used without an erasure.
        TrustBlankBlocks,
        /// Drive: versions of pages are ignored at power-on.
        IgnoreVersions,
        /// Drive: versions start again at power-on.
        RestartVersions,
        /// Drive: erase counts are forgotten at power-on.
        ForgetEraseCounts,
        /// UFS: HPB entries are used without a check.
        TrustEntries,
    }
}

section! {
    /// Power cuts (`nandlab cuts`): power is lost at every flash operation of a drawn sequence of operations in turn.
    pub struct Cuts {
        /// Operations in the sequence: of UBI's users on raw flash, requests on a drive.
        #[schemars(range(min = 1, max = 16_777_216))]
        operations: u32 = 1000,
        /// Raw flash: volumes at most.
        #[schemars(range(min = 1, max = 16))]
        volumes: u32 = 4,
        /// Drive: requests outstanding at most.
        #[schemars(range(min = 1, max = 65_535))]
        depth: u32 = 8,
        /// Drive: pages of a request at most.
        #[schemars(range(min = 1, max = 64))]
        most_pages: u32 = 4,
        /// What a cut leaves of the program that it interrupts: each operation is cut once for each.
        #[schemars(length(min = 1))]
        tear: Vec<Tear> = vec![Tear::Clean, Tear::Prefix, Tear::RandomBits],
        /// How a reader notices torn cells.
        ecc: CutEcc = CutEcc::Drawn,
        /// Whether recovery is cut again, at an operation that is drawn.
        second_cut: bool = true,
        /// A deliberate mistake, to test the enumeration: it must be found.
        known_bad: KnownBad = KnownBad::None,
        /// Weights of the kinds of operations; one that is left out has its default weight.
        mix: Mix = Mix::default(),
    }
}

macro_rules! mix {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        section! {
            /// Weights of the kinds of operations.
            pub struct Mix {
                $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] #[schemars(range(max = 1_000_000))] $kind: Option<u32> = None,)*
            }
        }

        impl Mix {
            /// The weights that are given, by name.
            pub fn given(&self) -> impl Iterator<Item = (&'static str, u32)> {
                [$((stringify!($kind), self.$kind)),*].into_iter().filter_map(|(kind, weight)| Some((kind, weight?)))
            }
        }
    };
}

mix! {
    /// UBI: makes a volume.
    create,
    /// UBI: removes a volume.
    remove,
    /// UBI: grows or shrinks a volume.
    resize,
    /// UBI: renames a volume, or exchanges the names of two.
    rename,
    /// UBI: replaces the contents of a volume.
    update,
    /// UBI: writes into a LEB. Drive: a write.
    write,
    /// UBI: changes a LEB atomically.
    change,
    /// UBI: maps an unmapped LEB.
    map,
    /// UBI: unmaps a LEB.
    unmap,
    /// UBI: does all background work.
    sync,
    /// UBI: a step of the background thread.
    background,
    /// UBI: detaches and attaches again.
    detach,
    /// UBI: loses power between two flash operations and attaches again.
    crash,
    /// Drive: a write with FUA.
    fua,
    /// Drive: a read.
    read,
    /// Drive: a trim.
    trim,
    /// Drive: a flush.
    flush,
}
