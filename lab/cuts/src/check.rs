//! What is checked after a cut, by name.

use serde::Serialize;

/// A check of the laboratory. A failure names the checks that found something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The device comes up when power is back: it attaches, or powers on.
    ComesUp,
    /// Nothing succeeds without power.
    Power,
    /// The device does what it is asked, after a recovery as before.
    Works,
    /// A read while power is on returns what was written last.
    Reads,
    /// The layers' own invariants hold, and nothing panics.
    Invariants,
    /// The device is not read-only.
    Writable,
    /// No block is lost, bad or kept as corrupt.
    Blocks,
    /// The volume table is its old or its new state.
    Table,
    /// Contents that were promised are there.
    Contents,
    /// What was unmapped or trimmed is gone, or has contents that it had.
    Unmapped,
    /// What a cut program left is whole new pages, at most one torn one, then none.
    Torn,
    /// A static volume passes its checksums.
    StaticCrc,
    /// No erase counter falls.
    Counters,
    /// Every erasure since the attach is counted, once.
    Ledger,
    /// Attaching by fastmap and by scan agree.
    BothWays,
    /// What Linux says of its file system.
    Guest,
    /// A check of the whole file system finds no error.
    Structure,
    /// The names of a file system are those of one moment since they were promised.
    Names,
    /// The attributes of each inode are those of one moment since they were promised.
    Attributes,
    /// The extended attributes of each inode are those of one moment since they were promised.
    Xattrs,
}

impl Check {
    /// A promise that this check found broken.
    pub(super) fn broken(self, what: impl Into<String>) -> Breach {
        Breach { check: self, what: what.into() }
    }

    /// [`broken`](Check::broken), for each of a list.
    pub(super) fn each(self, what: impl IntoIterator<Item = String>) -> impl Iterator<Item = Breach> {
        what.into_iter().map(move |what| self.broken(what))
    }
}

/// A broken promise: the check that found it, and what it found, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Breach {
    pub check: Check,
    pub what: String,
}

/// Broken promises.
pub(super) type Broken = Vec<Breach>;

/// When a test may change the medium behind the layers' back, to find the check that notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    /// When the cut is set, before the operation that it strikes.
    Armed,
    /// After the cut, before anything is read.
    Cut,
    /// On the copy that is attached without fastmap.
    Copy,
    /// After a second cut, before anything is read.
    SecondCut,
    /// On the recovered device, before it is used.
    Recovered,
    /// On the flash of a device that went down after its recovery, before both ways of attaching are compared.
    Down,
    /// On the device that was used after its recovery, before it is compared.
    Used,
    /// On what is left in the end, or when power was switched off once more.
    End,
}

/// Adds to broken promises when they were found.
pub(super) fn at_the_end(when: &str, broken: Broken) -> Broken {
    broken.into_iter().map(|Breach { check, what }| check.broken(format!("{when}: {what}"))).collect()
}

/// Marks broken promises as those of a second cut.
pub(super) fn second(broken: Broken) -> Broken {
    at_the_end("after a second cut", broken)
}

/// Nothing, or the broken promises.
pub(super) fn verdict(broken: Broken) -> Result<(), Broken> {
    if broken.is_empty() { Ok(()) } else { Err(broken) }
}
