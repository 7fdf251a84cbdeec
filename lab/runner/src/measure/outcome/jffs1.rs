//! What JFFS did in a run.

use fs::jffs1::{Pass, Usage, Waiting, Work};
use serde::{Deserialize, Serialize};

/// Work, and the time that it took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkFigures {
    /// Time of the processor.
    pub cpu_ns: u64,
    /// Time of reads.
    pub bus_ns: u64,
    /// Time of programs.
    pub program_ns: u64,
    /// Time of erases.
    pub erase_ns: u64,
    /// Elements of lists that were visited.
    pub visited: u64,
    /// Bytes summed or compared.
    pub summed_bytes: u64,
    /// Bytes copied.
    pub copied_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes programmed.
    pub programmed_bytes: u64,
    /// Sectors erased.
    pub erased: u64,
}

impl From<Work> for WorkFigures {
    fn from(work: Work) -> WorkFigures {
        WorkFigures {
            cpu_ns: work.cpu.0,
            bus_ns: work.bus.0,
            program_ns: work.program.0,
            erase_ns: work.erase.0,
            visited: work.nodes,
            summed_bytes: work.summed,
            copied_bytes: work.copied,
            read_bytes: work.read,
            programmed_bytes: work.programmed,
            erased: work.erased,
        }
    }
}

impl WorkFigures {
    /// All the time that it took.
    pub fn ns(&self) -> u64 {
        [self.cpu_ns, self.bus_ns, self.program_ns, self.erase_ns].into_iter().fold(0, u64::saturating_add)
    }
}

/// A pass of garbage collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassFigures {
    /// Who waited for it: `nobody`, `writer` or `mount`.
    pub waiting: String,
    /// When it began, in nanoseconds of virtual time.
    pub start_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// The first sector that was erased at its end.
    pub victim: u32,
    /// Nodes written.
    pub nodes: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// What was done.
    pub work: WorkFigures,
}

impl From<&Pass> for PassFigures {
    fn from(pass: &Pass) -> PassFigures {
        let waiting = match pass.waiting {
            Waiting::Nobody => "nobody",
            Waiting::Writer => "writer",
            Waiting::Mount => "mount",
        };
        PassFigures {
            waiting: waiting.to_owned(),
            start_ns: pass.start.0,
            ns: pass.length.0,
            victim: pass.victim,
            nodes: pass.nodes,
            moved_bytes: pass.moved_bytes,
            work: pass.work.into(),
        }
    }
}

/// What is on the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageFigures {
    /// Live nodes.
    pub nodes: u32,
    /// Bytes of contents.
    pub data_bytes: u64,
    /// All other bytes of live nodes.
    pub header_bytes: u64,
    /// Bytes of dirt.
    pub dirty_bytes: u64,
    /// Erased bytes.
    pub free_bytes: u64,
}

impl From<Usage> for UsageFigures {
    fn from(usage: Usage) -> UsageFigures {
        let Usage { nodes, data_bytes, header_bytes, dirty_bytes, free_bytes } = usage;
        UsageFigures { nodes, data_bytes, header_bytes, dirty_bytes, free_bytes }
    }
}

/// What followed when the flash was full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// What was done.
    pub work: WorkFigures,
    /// Its parts: of a mount `reread`, `scan`, `build` and `collect`.
    pub parts: Vec<(String, WorkFigures)>,
    /// What was on the flash then.
    pub left: UsageFigures,
    /// Passes of garbage collection.
    pub passes: Vec<PassFigures>,
}

/// What JFFS did, from the first mount to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JffsOutcome {
    /// The mount of the erased flash.
    pub mount_empty: WorkFigures,
    /// The full flash.
    pub full: UsageFigures,
    /// Passes of garbage collection while it was filled.
    pub passes: Vec<PassFigures>,
    /// What followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Followed>,
}
