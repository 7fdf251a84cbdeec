//! Joins requests with their completions: block-layer events in, records with latencies out.
//!
//! Records are returned in the order of issue. A record is held until its completion comes, until [`HELD`] later ones
//! are held, or until the trace ends; so memory is bounded. Per device, a request begins with its issue to the driver
//! (`D`) if the trace has such events, else with its queueing (`Q`), as for stacked devices.
//!
//! Invariant: `waiting` has the keys of exactly those held records whose completion has not come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sim::Ns;
use sim::seam::{BlockOp, SECTOR_BYTES};

use super::TraceRecord;

/// Most records that wait behind one whose completion does not come.
pub const HELD: usize = 1 << 14;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The request was queued (`Q`).
    Queued,
    /// The request was issued to the driver (`D`).
    Issued,
    /// The driver returned the request (`R`).
    Requeued,
    /// The request or part of it completed (`C`).
    Completed,
}

/// An event of the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub kind: Kind,
    pub at: Ns,
    pub device: u32,
    pub op: BlockOp,
    pub sector: u64,
    pub sectors: u32,
    pub fua: bool,
    /// A flush must precede the data, so there are two requests.
    pub flush_before: bool,
    pub process: Option<u32>,
}

/// Which event begins the requests of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Unknown,
    Queue,
    Driver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Done,
    Dropped,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    record: TraceRecord,
    state: State,
    /// A flush with the same time precedes it.
    flush_before: bool,
    /// First sector that has not completed.
    sector: u64,
    sectors: u32,
}

/// Device, first sector that has not completed, operation, number of the record.
type Key = (u32, u64, BlockOp, u64);

#[derive(Debug, Default)]
pub(super) struct Pairing {
    held: VecDeque<Held>,
    /// Record number of `held[0]`.
    first: u64,
    waiting: BTreeSet<Key>,
    begins: BTreeMap<u32, Begin>,
    ended: bool,
}

/// How an event was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// Ignored, because another event of the same request counts.
    Passed,
    LoneCompletion,
    LateIssue,
}

impl Pairing {
    /// Processes the next event.
    pub fn push(&mut self, event: Event) -> Taken {
        let begin = self.begins.get(&event.device).copied().unwrap_or(Begin::Unknown);
        match (event.kind, begin) {
            (Kind::Queued, Begin::Driver) => return Taken::Passed,
            (Kind::Queued, Begin::Unknown | Begin::Queue) => self.hold(event),
            (Kind::Issued, Begin::Queue) => return Taken::LateIssue,
            (Kind::Issued, Begin::Unknown | Begin::Driver) => {
                if begin == Begin::Unknown {
                    self.drop_all(event.device);
                    self.begins.insert(event.device, Begin::Driver);
                }
                self.hold(event);
            }
            (Kind::Requeued, Begin::Driver) => {
                if let Some(key) = self.oldest(&event) {
                    self.settle(key, State::Dropped);
                }
            }
            (Kind::Requeued, _) => return Taken::Passed,
            (Kind::Completed, _) => return self.complete(&event),
        }
        Taken::Yes
    }

    fn hold(&mut self, event: Event) {
        let unit = u64::from(SECTOR_BYTES);
        let record = TraceRecord {
            at: event.at,
            op: event.op,
            device: event.device,
            offset_bytes: event.sector * unit,
            len_bytes: u64::from(event.sectors) * unit,
            fua: event.fua,
            latency: None,
            process: event.process,
        };
        let number = self.first + self.held.len() as u64;
        let (sector, sectors) = (event.sector, event.sectors);
        self.held.push_back(Held { record, state: State::Waiting, flush_before: event.flush_before, sector, sectors });
        self.waiting.insert((event.device, sector, event.op, number));
    }

    /// The oldest request that waits for such an event.
    fn oldest(&self, event: &Event) -> Option<Key> {
        let from = (event.device, event.sector, event.op, 0);
        let to = (event.device, event.sector, event.op, u64::MAX);
        self.waiting.range(from..=to).next().copied()
    }

    fn settle(&mut self, key: Key, state: State) {
        self.waiting.remove(&key);
        self.held[(key.3 - self.first) as usize].state = state;
    }

    fn drop_all(&mut self, device: u32) {
        let from = (device, 0, BlockOp::Read, 0);
        let keys: Vec<Key> = self.waiting.range(from..).take_while(|key| key.0 == device).copied().collect();
        for key in keys {
            self.settle(key, State::Dropped);
        }
    }

    fn complete(&mut self, event: &Event) -> Taken {
        let Some(key) = self.oldest(event) else { return Taken::LoneCompletion };
        self.begins.entry(event.device).or_insert(Begin::Queue);
        let held = &mut self.held[(key.3 - self.first) as usize];
        if event.sectors < held.sectors && event.sectors > 0 {
            held.sector += u64::from(event.sectors);
            held.sectors -= event.sectors;
            let rest = (key.0, held.sector, key.2, key.3);
            self.waiting.remove(&key);
            self.waiting.insert(rest);
        } else {
            held.record.latency = event.at.0.checked_sub(held.record.at.0).map(Ns);
            self.settle(key, State::Done);
        }
        Taken::Yes
    }

    /// Ends the trace: no more events come.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The next record that is complete, or no longer waits.
    pub fn pop(&mut self) -> Option<TraceRecord> {
        loop {
            let gives_up = self.ended || self.held.len() > HELD;
            let front = self.held.front_mut()?;
            if front.state == State::Waiting {
                if !gives_up {
                    return None;
                }
                front.state = State::Done;
                let key = (front.record.device, front.sector, front.record.op, self.first);
                self.waiting.remove(&key);
                self.begins.entry(key.0).or_insert(Begin::Queue);
            }
            if front.state == State::Done && front.flush_before {
                front.flush_before = false;
                let data = front.record;
                return Some(TraceRecord {
                    op: BlockOp::Flush,
                    offset_bytes: 0,
                    len_bytes: 0,
                    fua: false,
                    latency: None,
                    ..data
                });
            }
            let held = self.held.pop_front().expect("there is a front");
            self.first += 1;
            if held.state == State::Done {
                return Some(held.record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, at: u64, sector: u64, sectors: u32) -> Event {
        let (device, op) = (8 << 20, BlockOp::Write);
        Event { kind, at: Ns(at), device, op, sector, sectors, fua: false, flush_before: false, process: None }
    }

    fn records(events: &[Event]) -> Vec<(u64, u64, Option<u64>)> {
        let mut pairing = Pairing::default();
        let mut records = Vec::new();
        let mut drain = |pairing: &mut Pairing| {
            while let Some(record) = pairing.pop() {
                records.push((record.at.0, record.offset_bytes / 512, record.latency.map(|it| it.0)));
            }
        };
        for &event in events {
            pairing.push(event);
            drain(&mut pairing);
        }
        pairing.end();
        drain(&mut pairing);
        assert!(pairing.waiting.is_empty() && pairing.held.is_empty());
        records
    }

    use Kind::{Completed, Issued, Queued, Requeued};

    #[test]
    fn the_hand_over_to_the_driver_counts_where_there_is_one() {
        let events =
            [event(Queued, 1, 8, 8), event(Issued, 3, 8, 8), event(Completed, 10, 8, 8), event(Queued, 11, 0, 8)];
        assert_eq!(records(&events), [(3, 8, Some(7))]);
    }

    #[test]
    fn the_queue_counts_where_there_is_no_driver() {
        let events = [event(Queued, 1, 8, 8), event(Completed, 10, 8, 8), event(Queued, 11, 0, 8)];
        assert_eq!(records(&events), [(1, 8, Some(9)), (11, 0, None)]);
    }

    #[test]
    fn records_leave_in_the_order_in_which_they_were_handed_over() {
        let events =
            [event(Issued, 1, 8, 8), event(Issued, 2, 16, 8), event(Completed, 5, 16, 8), event(Completed, 9, 8, 8)];
        assert_eq!(records(&events), [(1, 8, Some(8)), (2, 16, Some(3))]);
    }

    #[test]
    fn a_request_that_completes_in_parts_is_done_with_the_last() {
        let events = [event(Issued, 1, 8, 8), event(Completed, 5, 8, 4), event(Completed, 9, 12, 4)];
        assert_eq!(records(&events), [(1, 8, Some(8))]);
    }

    #[test]
    fn a_request_that_is_taken_back_begins_when_it_is_handed_over_again() {
        let events =
            [event(Issued, 1, 8, 8), event(Requeued, 2, 8, 8), event(Issued, 7, 8, 8), event(Completed, 9, 8, 8)];
        assert_eq!(records(&events), [(7, 8, Some(2))]);
    }

    #[test]
    fn a_completion_from_before_the_trace_is_noticed() {
        let mut pairing = Pairing::default();
        assert_eq!(pairing.push(event(Completed, 1, 8, 8)), Taken::LoneCompletion);
        assert_eq!(pairing.push(event(Issued, 2, 8, 8)), Taken::Yes);
        assert_eq!(pairing.push(event(Queued, 3, 8, 8)), Taken::Passed);
    }

    #[test]
    fn data_that_waits_for_a_flush_are_two_requests() {
        let mut pairing = Pairing::default();
        pairing.push(Event { flush_before: true, fua: true, ..event(Queued, 1, 8, 8) });
        assert_eq!(pairing.pop(), None);
        pairing.push(event(Completed, 4, 8, 8));
        let got: Vec<_> = std::iter::from_fn(|| pairing.pop()).map(|it| (it.op, it.fua, it.latency)).collect();
        assert_eq!(got, [(BlockOp::Flush, false, None), (BlockOp::Write, true, Some(Ns(3)))]);
    }

    #[test]
    fn a_trace_without_completions_takes_bounded_memory() {
        let mut pairing = Pairing::default();
        let mut popped = 0;
        for at in 0..3 * HELD as u64 {
            pairing.push(event(Issued, at, 8 * at, 8));
            popped += std::iter::from_fn(|| pairing.pop()).count();
            assert!(pairing.held.len() <= HELD && pairing.waiting.len() <= HELD);
        }
        assert_eq!(popped, 2 * HELD);
    }
}
