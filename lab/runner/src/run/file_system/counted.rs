//! What a program did, operation by operation.

use std::collections::BTreeMap;

use sim::Ns;
use sim::seam::FsError;
use workload::fsstress::Outcome;

use super::program::Step;
use crate::measure::latencies::Latencies;
use crate::measure::outcome::file_system::{FileSystemOutcome, Operations, Throughput, errno_name};
use crate::measure::outcome::flash::Latency;
use crate::run::flash::latency;

/// Operations of one kind.
#[derive(Clone, Default)]
struct Kind {
    latency: Latencies,
    done: u64,
    nothing: u64,
    refused: u64,
    failed: u64,
    /// Operations during which a fastmap was written, and the longest of the others.
    with_fastmap: u64,
    longest_without: Ns,
}

/// Counts of operations.
#[derive(Clone, Default)]
pub(in crate::run) struct Counted {
    kinds: BTreeMap<&'static str, Kind>,
    failed: BTreeMap<i32, u64>,
    /// Operations.
    pub operations: u64,
    /// Operations that were repeated from a record.
    pub repeated: u64,
    /// Bytes written, those of the repeated among them.
    pub written: u64,
    /// Bytes read.
    pub read: u64,
    /// fio: what was done after the ramp.
    throughput: Option<Throughput>,
}

impl Counted {
    /// Counts an operation, during which fastmaps were written or not.
    /// Errors: one after which the file system only reads.
    pub fn add(&mut self, step: Step, ended: Ns, has_fastmap: bool) -> Result<(), FsError> {
        let Step { op, ready, outcome, read, written, counted_from } = step;
        let kind = self.kinds.entry(op).or_default();
        // What the file system did not see took no time of it.
        if matches!(outcome, Outcome::Done | Outcome::Failed(_)) {
            kind.latency.record((ended - ready).0);
            match has_fastmap {
                true => kind.with_fastmap += 1,
                false => kind.longest_without = kind.longest_without.max(ended - ready),
            }
        }
        self.operations += 1;
        self.read += read;
        self.written += written;
        if let Some(from) = counted_from {
            let throughput = self.throughput.get_or_insert_default();
            throughput.read_bytes += read;
            throughput.written_bytes += written;
            // Processes begin one after another.
            throughput.ns = throughput.ns.max((ended - from).0);
        }
        match outcome {
            Outcome::Done => kind.done += 1,
            Outcome::Nothing => kind.nothing += 1,
            Outcome::Refused => kind.refused += 1,
            Outcome::Failed(error) => {
                kind.failed += 1;
                *self.failed.entry(error.errno()).or_default() += 1;
                if matches!(error, FsError::Medium(_) | FsError::Corrupt { .. } | FsError::ReadOnly { .. }) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Latency of each kind of operation.
    pub fn latency(&self) -> Vec<Latency> {
        let timed = self.kinds.iter().filter(|(_, kind)| !kind.latency.is_empty());
        timed.map(|(op, kind)| latency(op, &kind.latency.histogram())).collect()
    }

    /// The counts of an outcome; everything else of it is 0.
    pub fn outcome(&self, kind: &str, load: &str) -> FileSystemOutcome {
        let operations = self.kinds.iter().map(|(op, kind)| Operations {
            op: (*op).to_owned(),
            done: kind.done,
            nothing: kind.nothing,
            refused: kind.refused,
            failed: kind.failed,
            with_fastmap: kind.with_fastmap,
            max_without_fastmap_ns: if kind.with_fastmap > 0 { kind.longest_without.0 } else { 0 },
        });
        let failed = self.failed.iter().map(|(&errno, &count)| (errno_name(errno).to_owned(), count));
        FileSystemOutcome {
            kind: kind.to_owned(),
            load: load.to_owned(),
            operations: operations.collect(),
            failed: failed.collect(),
            repeated_operations: self.repeated,
            written_bytes: self.written,
            read_bytes: self.read,
            throughput: self.throughput,
            ..FileSystemOutcome::default()
        }
    }
}
