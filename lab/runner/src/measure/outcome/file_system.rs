//! What a file system did in a run.

use fs::cache::{Counters, WriteBack};
use fs::jffs2;
use serde::{Deserialize, Serialize};

use super::gc::{GcOutcome, MountOutcome};

/// Linux's error numbers that a file system may give, with their names.
const ERRNOS: [(i32, &str); 20] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (5, "EIO"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (34, "ERANGE"),
    (36, "ENAMETOOLONG"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (95, "EOPNOTSUPP"),
    (116, "ESTALE"),
    (117, "EUCLEAN"),
];

/// Name of an error number.
pub(crate) fn errno_name(errno: i32) -> &'static str {
    ERRNOS.iter().find(|(number, _)| *number == errno).map_or("EIO", |(_, name)| name)
}

/// Whether a text is the name of an error number, in small letters.
pub(crate) fn is_errno(text: &str) -> bool {
    ERRNOS.iter().any(|(_, name)| name.to_ascii_lowercase() == text)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Name in the program that is the load.
    pub op: String,
    /// Operations that the file system did.
    pub done: u64,
    /// fsstress: operations for which there was no file, and which the file system did not see.
    pub nothing: u64,
    /// fsstress: operations that Linux refuses on this file system.
    pub refused: u64,
    /// Operations that the file system failed.
    pub failed: u64,
    /// Operations during which a fastmap was written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub with_fastmap: u64,
    /// The longest of the others, if there are both.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_without_fastmap_ns: u64,
}

/// What a page cache did, in pages of 4,096 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCacheOutcome {
    /// Pages that a reader found.
    pub hits: u64,
    /// Pages that a reader did not find.
    pub misses: u64,
    /// Dirty pages that were dropped and so never written.
    pub dropped: u64,
    /// Pages written back, by reason.
    pub written: Vec<(String, u64)>,
}

impl PageCacheOutcome {
    /// Counts since `before`.
    pub fn new(now: &Counters, before: &Counters) -> PageCacheOutcome {
        let written = |why: WriteBack| (why.name().to_owned(), now.written[why] - before.written[why]);
        PageCacheOutcome {
            hits: now.hits - before.hits,
            misses: now.misses - before.misses,
            dropped: now.dropped - before.dropped,
            written: WriteBack::ALL.map(written).to_vec(),
        }
    }
}

/// What a load moved while its throughput was measured: fio's after the ramp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// How long that took.
    pub ns: u64,
}

/// What JFFS2 did, and what is on the flash in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jffs2Figures {
    /// Bytes of nodes that are needed.
    pub used_bytes: u64,
    /// Bytes of what is obsolete or cannot be used.
    pub dirty_bytes: u64,
    /// Erased bytes.
    pub free_bytes: u64,
    /// Nodes that garbage collection copied as they were.
    pub copied: u64,
    /// Nodes that it wrote anew.
    pub rewritten: u64,
    /// Blocks erased.
    pub erased: u64,
    /// Summaries written.
    pub summaries: u64,
    /// Nodes that were found damaged.
    pub damaged: u64,
    /// Programs that failed and were repeated elsewhere.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_programs: u64,
    /// Nodes that were written again since the page in which they waited could not be programmed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rescued: u64,
}

impl Jffs2Figures {
    /// Adds what was counted since a mount.
    pub fn add(&mut self, counters: &jffs2::Counters) {
        self.copied += counters.copied;
        self.rewritten += counters.rewritten;
        self.erased += counters.erased;
        self.summaries += counters.summaries;
        self.damaged += counters.damaged;
        self.failed_programs += counters.failed_programs;
        self.rescued += counters.rescued;
    }
}

/// The times of a device from when it is switched on, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reboot {
    /// The mount.
    pub boot_ns: u64,
    /// Reading the system's files and writing its state.
    pub init_ns: u64,
    /// Copying files.
    pub copy_ns: u64,
}

impl Reboot {
    /// The times of the stages, in nanoseconds, with their names.
    pub const fn stages(&self) -> [(&'static str, u64); 3] {
        [("boot", self.boot_ns), ("init", self.init_ns), ("copy", self.copy_ns)]
    }
}

/// A device that was switched on again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootOutcome {
    /// How often it came to the end of its copy.
    pub count: u64,
    /// The sums of these times.
    pub sum: Reboot,
    /// The longest of them.
    pub longest: Reboot,
    /// The first of them, one by one.
    pub each: Vec<Reboot>,
}

/// What a file system did, from the start of the load to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSystemOutcome {
    /// File system.
    pub kind: String,
    /// The program that is the load.
    pub load: String,
    /// LEBs of its volume.
    pub lebs: u32,
    /// Operations by kind, in the order of their names; a kind that was not drawn is left out.
    pub operations: Vec<Operations>,
    /// Operations that the file system failed, by the name of the error number.
    pub failed: Vec<(String, u64)>,
    /// Operations that were not simulated: what they asked of the volume was repeated from a record. Only they and
    /// [`written_bytes`](Self::written_bytes) go on after its end; everything else is of the file system as it ran.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated_operations: u64,
    /// Bytes that the load wrote to files.
    pub written_bytes: u64,
    /// Bytes that the load read from files.
    pub read_bytes: u64,
    /// fio: what was measured after the ramp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// Bytes in data nodes, before compression.
    pub data_bytes: u64,
    /// Data nodes written.
    pub data_nodes: u64,
    /// Commits.
    pub commits: u64,
    /// Of these, such as an operation waited for, because the journal was full or space was needed.
    pub commits_required: u64,
    /// Of these, those of the background thread.
    pub commits_background: u64,
    /// LEBs from which garbage collection moved nodes.
    pub collected_lebs: u64,
    /// Bytes of nodes that it moved.
    pub moved_bytes: u64,
    /// LEBs of the index that it emptied.
    pub collected_index_lebs: u64,
    /// Index nodes written.
    pub index_nodes: u64,
    /// Of these, such as were written into gaps between others.
    pub index_nodes_in_gaps: u64,
    /// Free bytes at the end, as `statfs` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// What its page cache did, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheOutcome>,
    /// Its garbage collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gc: Option<GcOutcome>,
    /// Its mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountOutcome>,
    /// JFFS2's own figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jffs2: Option<Jffs2Figures>,
    /// The times of a device that was switched on again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboots: Option<RebootOutcome>,
    /// Bytes that it wrote to its volume, by what they are for.
    #[serde(default)]
    pub written_parts: Vec<(String, u64)>,
    /// Bytes written to LEBs of its volume, what was repeated among them, by cause.
    #[serde(default)]
    pub volume_bytes: Vec<(String, u64)>,
    /// Bytes programmed by cause.
    pub programmed_bytes: Vec<(String, u64)>,
}

impl FileSystemOutcome {
    /// Number of operations of all kinds, by how they ended.
    pub fn count(&self, of: fn(&Operations) -> u64) -> u64 {
        self.operations.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use sim::seam::{FsError, Ino};

    use super::*;

    #[test]
    fn names_are_those_of_the_numbers() {
        let ino = Ino(1);
        assert_eq!(errno_name(FsError::NoEntry { dir: ino }.errno()), "ENOENT");
        assert_eq!(errno_name(FsError::NoSpace.errno()), "ENOSPC");
        assert_eq!(errno_name(FsError::NotSupported { what: "" }.errno()), "EOPNOTSUPP");
        assert_eq!((is_errno("enospc"), is_errno("ENOSPC"), is_errno("errno")), (true, false, false));
    }
}
