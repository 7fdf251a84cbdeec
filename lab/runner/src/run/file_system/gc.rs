//! Garbage collection as the programs feel it: passes, the blocks that they emptied, and who waited for them.

use std::collections::BTreeMap;

use sim::{Ns, Pass, PassKind};

use crate::measure::latencies::Latencies;
use crate::measure::outcome::gc::{Collection, GcOutcome, Moment, Passes, Split, Stall};
use crate::run::flash::latency;

/// Blocks whose emptying is kept one by one.
const MOST_COLLECTIONS: usize = 2_000;
/// Waits that are kept one by one: the longest.
const MOST_STALLS: usize = 50;
/// Most parts of the run over time.
const MOST_MOMENTS: usize = 512;
/// The length of a part in the beginning.
const FIRST_MOMENT: u64 = 1_000_000;

/// Who did a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    Thread,
    Writer,
}

/// What is known so far.
#[derive(Clone)]
pub(super) struct Gc {
    began: Ns,
    passes: BTreeMap<(By, PassKind), Passes>,
    lengths: Latencies,
    stalls: Latencies,
    stalled: Split,
    worst: Vec<Stall>,
    collections: Vec<Collection>,
    open: Option<Collection>,
    collected: u64,
    longest: u64,
    moments: Vec<Moment>,
    moment_ns: u64,
}

impl Gc {
    /// Nothing happened before `now`.
    pub fn new(now: Ns) -> Gc {
        Gc {
            began: now,
            passes: BTreeMap::new(),
            lengths: Latencies::default(),
            stalls: Latencies::default(),
            stalled: Split::default(),
            worst: Vec::new(),
            collections: Vec::new(),
            open: None,
            collected: 0,
            longest: 0,
            moments: Vec::new(),
            moment_ns: FIRST_MOMENT,
        }
    }

    /// The part of the run at a time.
    fn moment(&mut self, at: Ns) -> &mut Moment {
        let since = at.0.saturating_sub(self.began.0);
        while since / self.moment_ns >= MOST_MOMENTS as u64 {
            self.moment_ns *= 2;
            let halves = self.moments.len().div_ceil(2);
            for at in 0..halves {
                let pair = &self.moments[2 * at..self.moments.len().min(2 * at + 2)];
                self.moments[at] = Moment {
                    t_ns: pair[0].t_ns,
                    thread_ns: pair.iter().map(|one| one.thread_ns).sum(),
                    waited_ns: pair.iter().map(|one| one.waited_ns).sum(),
                    longest_ns: pair.iter().map(|one| one.longest_ns).max().unwrap_or(0),
                    ..pair[pair.len() - 1]
                };
            }
            self.moments.truncate(halves);
        }
        let number = (since / self.moment_ns) as usize;
        while self.moments.len() <= number {
            let before = self.moments.last().copied().unwrap_or_default();
            let t_ns = self.moments.len() as u64 * self.moment_ns;
            let Moment { free_bytes, dirty_bytes, .. } = before;
            self.moments.push(Moment { t_ns, free_bytes, dirty_bytes, ..Moment::default() });
        }
        &mut self.moments[number]
    }

    /// What is on the flash at a time: free bytes, and such as only garbage collection makes free.
    pub fn space(&mut self, at: Ns, (free_bytes, dirty_bytes): (u64, u64)) {
        let moment = self.moment(at);
        (moment.free_bytes, moment.dirty_bytes) = (free_bytes, dirty_bytes);
    }

    /// Adds a pass.
    pub fn pass(&mut self, by: By, pass: &Pass) {
        let Pass { kind, start, end, victim, nodes, moved_bytes, spent } = *pass;
        let length = (end - start).0;
        let sum = self.passes.entry((by, kind)).or_default();
        sum.count += 1;
        sum.split = sum.split.plus(spent.into());
        sum.nodes += nodes;
        sum.moved_bytes += moved_bytes;
        if kind != PassKind::Check {
            self.lengths.record(length);
        }
        if by == By::Thread {
            self.moment(start).thread_ns += length;
        }
        if kind != PassKind::Move {
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.victim != victim) {
            self.close();
        }
        let start_ns = start.0.saturating_sub(self.began.0);
        let open = self.open.get_or_insert(Collection { victim, start_ns, ..Collection::default() });
        open.end_ns = end.0.saturating_sub(self.began.0);
        open.passes += 1;
        open.work_ns += length;
        open.waited_ns += if by == By::Writer { length } else { 0 };
        open.nodes += nodes;
        open.moved_bytes += moved_bytes;
    }

    /// A block is empty, as far as can be seen: another one is collected.
    fn close(&mut self) {
        let Some(closed) = self.open.take() else { return };
        self.collected += 1;
        self.longest = self.longest.max(closed.work_ns);
        if self.collections.len() < MOST_COLLECTIONS {
            self.collections.push(closed);
        }
    }

    /// An operation that was ready at a time waited for garbage collection.
    pub fn stall(&mut self, op: &str, ready: Ns, split: Split) {
        let ns = split.ns();
        if ns == 0 {
            return;
        }
        self.stalls.record(ns);
        self.stalled = self.stalled.plus(split);
        let start_ns = ready.0.saturating_sub(self.began.0);
        let moment = self.moment(ready);
        moment.waited_ns += ns;
        moment.longest_ns = moment.longest_ns.max(ns);
        let is_long = self.worst.len() < MOST_STALLS || self.worst.last().is_some_and(|last| last.split.ns() < ns);
        if is_long {
            let at = self.worst.partition_point(|other| other.split.ns() >= ns);
            self.worst.insert(at, Stall { op: op.to_owned(), start_ns, split });
            self.worst.truncate(MOST_STALLS);
        }
    }

    /// The outcome so far.
    pub fn outcome(&self) -> GcOutcome {
        let mut all = self.clone();
        all.close();
        let name = |by| match by {
            By::Thread => "thread",
            By::Writer => "writer",
        };
        let named = |(&(by, kind), passes): (&(By, PassKind), &Passes)| Passes {
            by: name(by).to_owned(),
            kind: kind.name().to_owned(),
            ..passes.clone()
        };
        let some = |op, of: &Latencies| (!of.is_empty()).then(|| latency(op, &of.histogram()));
        GcOutcome {
            passes: all.passes.iter().map(named).collect(),
            lengths: some("pass", &all.lengths),
            stalls: some("stall", &all.stalls),
            stalled: all.stalled,
            worst: all.worst,
            collections: all.collections,
            collected: all.collected,
            longest_collection_ns: all.longest,
            moments: all.moments,
            moment_ns: all.moment_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::{Cx, Spent};

    use super::*;

    fn pass(kind: PassKind, start: u64, end: u64, victim: u32) -> Pass {
        let spent = Spent::default();
        Pass { kind, start: Ns(start), end: Ns(end), victim, nodes: 1, moved_bytes: 100, spent }
    }

    /// By hand: two passes empty block 3, the second of which a writer waits for, and one empties block 5.
    #[test]
    fn passes_are_summed_by_block_and_by_who_waited() {
        let mut gc = Gc::new(Ns(1_000));
        gc.pass(By::Thread, &pass(PassKind::Move, 1_100, 1_200, 3));
        gc.pass(By::Writer, &pass(PassKind::Move, 1_300, 1_350, 3));
        gc.pass(By::Thread, &pass(PassKind::Erase, 1_400, 1_900, 3));
        gc.pass(By::Thread, &pass(PassKind::Move, 2_000, 2_010, 5));
        gc.stall("write", Ns(1_300), Split { cpu_ns: 20, program_ns: 30, ..Split::default() });
        gc.stall("read", Ns(1_300), Split::default());
        let found = gc.outcome();
        let blocks: Vec<_> =
            found.collections.iter().map(|one| (one.victim, one.passes, one.work_ns, one.waited_ns)).collect();
        assert_eq!(blocks, [(3, 2, 150, 50), (5, 1, 10, 0)]);
        assert_eq!((found.collections[0].start_ns, found.collections[0].end_ns, found.collected), (100, 350, 2));
        let counts: Vec<_> = found.passes.iter().map(|one| (&one.by[..], &one.kind[..], one.count)).collect();
        assert_eq!(counts, [("thread", "move", 2), ("thread", "erase", 1), ("writer", "move", 1)]);
        assert_eq!((found.lengths.unwrap().count, found.stalls.unwrap().count, found.stalled.ns()), (4, 1, 50));
        assert_eq!((found.worst.len(), &found.worst[0].op[..]), (1, "write"));
    }

    #[test]
    fn a_long_run_has_as_many_parts_as_a_short_one() {
        let mut gc = Gc::new(Ns::ZERO);
        let mut cx = Cx::new();
        for step in 0..10_000 {
            cx.wait_until(Ns(step * 3_000_000));
            gc.space(cx.now(), (step, 1));
            gc.stall("write", cx.now(), Split { cpu_ns: 7, ..Split::default() });
        }
        let found = gc.outcome();
        assert!((MOST_MOMENTS / 2..=MOST_MOMENTS).contains(&found.moments.len()), "{}", found.moments.len());
        assert!(found.moments.iter().zip(0..).all(|(one, number)| one.t_ns == number * found.moment_ns));
        assert_eq!(found.moments.iter().map(|one| one.waited_ns).sum::<u64>(), 70_000);
        assert!(found.moments.is_sorted_by_key(|one| one.free_bytes));
    }
}
