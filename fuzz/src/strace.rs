//! Traces of strace: any bytes are calls or an error, in bounded memory, and whatever is read can be replayed.

use std::sync::Arc;

use fs::model::Model;
use sim::seam::Timestamp;
use sim::{Cx, Seed};
use workload::file::strace::{Options, Replay, Trace};

use crate::memory;

/// The buffer of the input and a line.
const FIXED: usize = 4 << 20;
/// Two bytes of a path can become a name with its place in a table.
const TIMES: usize = 200;
/// Longest write that is replayed: the model keeps bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Reads, and replays what is small, twice.
pub fn strace(data: &[u8]) {
    let mut found = None;
    memory::bounded(data.len(), TIMES, FIXED, || found = Trace::read(data, "/data").ok());
    let Some(trace) = found else { return };
    let summary = trace.summary();
    if summary.written_bytes + summary.bytes_before > MOST_BYTES {
        return;
    }
    let options = Options { loops: 2, speed: Some(2.0), compressible_percent: 50 };
    let (mut fs, mut cx) = (Model::new(Timestamp::default()), Cx::new());
    let mut load = Replay::new(Arc::new(trace), options, Seed(1));
    let mut steps = 0u64;
    while load.step(&mut fs, &mut cx).is_some() {
        if let Some(due) = load.due() {
            cx.idle_until(due);
        }
        steps += 1;
    }
    assert!(steps >= 2 * summary.calls, "{steps} steps of {} calls", summary.calls);
}
