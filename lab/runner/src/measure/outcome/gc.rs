//! Garbage collection of a file system, and how long programs waited for it.

use serde::{Deserialize, Serialize};
use sim::{Spent, Work};

use super::flash::Latency;

/// Time by what it was spent on, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Processor.
    pub cpu_ns: u64,
    /// Reads of the flash, and the bus.
    pub bus_ns: u64,
    /// Programs.
    pub program_ns: u64,
    /// Erases.
    pub erase_ns: u64,
    /// Anything else, as a chip that works for somebody else.
    pub other_ns: u64,
}

impl From<Spent> for Split {
    fn from(spent: Spent) -> Split {
        let on = |work| spent.on(work).0;
        Split {
            cpu_ns: on(Work::Processor),
            bus_ns: on(Work::Read) + on(Work::Transfer),
            program_ns: on(Work::Program),
            erase_ns: on(Work::Erase),
            other_ns: on(Work::Busy) + on(Work::Wait),
        }
    }
}

impl Split {
    /// All of it.
    pub fn ns(&self) -> u64 {
        let Split { cpu_ns, bus_ns, program_ns, erase_ns, other_ns } = *self;
        [cpu_ns, bus_ns, program_ns, erase_ns, other_ns].into_iter().fold(0, u64::saturating_add)
    }

    /// Its parts by name.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        let Split { cpu_ns, bus_ns, program_ns, erase_ns, other_ns } = *self;
        [("processor", cpu_ns), ("reads", bus_ns), ("programs", program_ns), ("erases", erase_ns), ("others", other_ns)]
    }

    /// The sum with another.
    pub fn plus(self, other: Split) -> Split {
        Split {
            cpu_ns: self.cpu_ns.saturating_add(other.cpu_ns),
            bus_ns: self.bus_ns.saturating_add(other.bus_ns),
            program_ns: self.program_ns.saturating_add(other.program_ns),
            erase_ns: self.erase_ns.saturating_add(other.erase_ns),
            other_ns: self.other_ns.saturating_add(other.other_ns),
        }
    }

    /// Such a part of it as `ns` nanoseconds are.
    pub fn part(self, ns: u64) -> Split {
        let whole = self.ns().max(1);
        let part = |span: u64| (u128::from(span) * u128::from(ns) / u128::from(whole)) as u64;
        Split {
            cpu_ns: part(self.cpu_ns),
            bus_ns: part(self.bus_ns),
            program_ns: part(self.program_ns),
            erase_ns: part(self.erase_ns),
            other_ns: part(self.other_ns),
        }
    }
}

/// Passes of one kind, done by one actor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passes {
    /// Who did them: `thread`, or `writer`, which waited for them.
    pub by: String,
    /// What they did: `check`, `move` or `erase`.
    pub kind: String,
    /// Their number.
    pub count: u64,
    /// The time that they took.
    pub split: Split,
    /// Nodes that they wrote.
    pub nodes: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
}

/// The passes that emptied one eraseblock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// The eraseblock, or the LEB.
    pub victim: u32,
    /// When the first of them began.
    pub start_ns: u64,
    /// When the last of them ended.
    pub end_ns: u64,
    /// Their number.
    pub passes: u64,
    /// How long they worked.
    pub work_ns: u64,
    /// How much of that a program waited for.
    pub waited_ns: u64,
    /// Nodes that they wrote.
    pub nodes: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
}

/// An operation that waited for garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// The operation.
    pub op: String,
    /// When it was ready.
    pub start_ns: u64,
    /// How long it waited.
    pub split: Split,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// When it began.
    pub t_ns: u64,
    /// How long the thread collected in it.
    pub thread_ns: u64,
    /// How long programs waited for garbage collection in it.
    pub waited_ns: u64,
    /// The longest of these waits.
    pub longest_ns: u64,
    /// Free bytes at its end.
    pub free_bytes: u64,
    /// Bytes at its end that can only be used again after garbage collection.
    pub dirty_bytes: u64,
}

/// Garbage collection of a file system in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GcOutcome {
    /// Passes by who did them and what they did.
    pub passes: Vec<Passes>,
    /// Lengths of the passes that moved or erased, the distribution; without any if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lengths: Option<Latency>,
    /// Waits of operations that waited for passes; without any if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Latency>,
    /// Their sum.
    pub stalled: Split,
    /// The longest waits, the longest first.
    pub worst: Vec<Stall>,
    /// The first eraseblocks that were emptied, in order.
    pub collections: Vec<Collection>,
    /// All eraseblocks that were emptied.
    pub collected: u64,
    /// The longest emptying of an eraseblock: how long it was worked on.
    pub longest_collection_ns: u64,
    /// The run over time, in parts of the same length.
    pub moments: Vec<Moment>,
    /// The length of such a part.
    pub moment_ns: u64,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOutcome {
    /// Which one: `first`, `last`.
    pub name: String,
    /// Its parts, in order, with what they took. What a thread does after it is `check`.
    pub parts: Vec<(String, u64)>,
}

impl MountOutcome {
    /// What programs wait for: all parts but the check.
    pub fn ns(&self) -> u64 {
        self.parts
            .iter()
            .filter(|(name, _)| name != "check")
            .map(|(_, ns)| ns)
            .fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}
