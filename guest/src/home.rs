//! One processor of the host for a guest, its kernel, its processes and who answers their calls.
//!
//! They work in turns: a system call of the guest stops its process and wakes its kernel, a request stops that and wakes
//! nandlab. A turn between two processors waits for an interrupt; on one it is a switch. A guest that may move takes two
//! to five times the processor time of one that stays.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// A processor of the host; `None` where the host does not say which there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home(pub Option<usize>);

impl Home {
    /// Chooses a processor for a guest. Guests that start one after another get different ones in turn, beginning with the
    /// processor on which the first is started.
    pub fn choose() -> Home {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let Ok(allowed) = sched_getaffinity(None) else { return Home(None) };
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        if allowed.is_empty() {
            return Home(None);
        }
        let here = allowed.iter().position(|&cpu| cpu == sched_getcpu()).unwrap_or(0);
        let first = match STARTED.fetch_add(1, Ordering::Relaxed) {
            0 => *FIRST.get_or_init(|| here),
            turn => FIRST.get().copied().unwrap_or(here) + turn,
        };
        Home(Some(allowed[first % allowed.len()]))
    }

    /// Keeps the calling thread, and the processes that it starts, on the processor until the guard is dropped.
    pub fn stay(self) -> Stay {
        let before = sched_getaffinity(None).ok();
        if let Some(cpu) = self.0 {
            let mut set = CpuSet::new();
            set.set(cpu);
            // A host that refuses makes the guest slower, not wrong.
            let _ = sched_setaffinity(None, &set);
        }
        Stay { before }
    }
}

/// Where the first guest was started, as a place among the allowed processors.
static FIRST: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

/// Keeps a thread on its processor.
pub(crate) struct Stay {
    before: Option<CpuSet>,
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}
