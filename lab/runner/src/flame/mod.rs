//! A flame graph of a run's virtual time: by thread, operation, cause and work.
//!
//! Each nanosecond of a thread's clock is in one frame, so the frames of a thread sum to the time of its clock. A drive
//! has no threads but requests, whose latencies have parts: there the frames sum to the latencies. Beside them are those
//! of its dies and of its buses, which sum to the time in which they worked, and name the cause of each.

mod svg;

use std::fmt::Write as _;

use sim::flame::{Filed, Flame, IDLE, Kind, Work};
use sim::seam::BlockOp;
use sim::{Cause, Ns};
use ssd::dispatch::NandTime;

use crate::measure::meter::{COMPONENTS, Meters};
use crate::measure::metered::{Parts, part_name};
use crate::report::drive::span;

pub use svg::svg;

/// Fewest operations of which the slowest are shown apart.
const LEAST_OPERATIONS: u64 = 200;
/// The slowest are those that take so many times the median or longer.
const SLOW: u64 = 2;

/// Names of the frames of all dies and of all buses of a drive.
const DIES: &str = "dies";
const BUSES: &str = "buses";

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A thread, or all requests, dies or buses of a drive.
    Thread,
    /// Operations of one name.
    Operation,
    /// The slowest operations of a name, or the others.
    Share,
    /// A cause.
    Cause(Cause),
    /// What the time is.
    Work(Work),
    /// A part of the latency of requests.
    Part,
}

/// A frame: a name, and those above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: FrameKind,
    /// Its time in nanoseconds without that of the frames above it.
    pub own_ns: u64,
    /// The frames above it.
    pub above: Vec<Frame>,
}

impl Frame {
    fn new(name: impl Into<String>, kind: FrameKind) -> Frame {
        Frame { name: name.into(), kind, own_ns: 0, above: Vec::new() }
    }

    /// Its time in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.own_ns + self.above.iter().map(Frame::total_ns).sum::<u64>()
    }

    /// The frame of this name and kind above it.
    fn child(&mut self, name: &str, kind: FrameKind) -> &mut Frame {
        let at = self.above.iter().position(|frame| frame.kind == kind && frame.name == name).unwrap_or_else(|| {
            self.above.push(Frame::new(name, kind));
            self.above.len() - 1
        });
        &mut self.above[at]
    }

    /// Adds time of work under its causes. The host's own is not named where another cause is.
    fn add(&mut self, kind: Kind, time: Ns) {
        let mut causes = kind.causes();
        causes.dedup();
        if causes.len() > 1 && causes[0] == Cause::Host {
            causes.remove(0);
        }
        let mut frame = self;
        for cause in causes {
            frame = frame.child(cause.name(), FrameKind::Cause(cause));
        }
        frame.child(kind.work.name(), FrameKind::Work(kind.work)).own_ns += time.0;
    }

    fn add_all(&mut self, filed: &Filed) {
        filed.time.iter().for_each(|(&kind, &time)| self.add(kind, time));
    }

    /// Orders what is above it: the widest first.
    fn sort(&mut self) {
        self.above.iter_mut().for_each(Frame::sort);
        self.above.sort_by_cached_key(|frame| (std::cmp::Reverse(frame.total_ns()), frame.name.clone()));
    }
}

/// Where the time of a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The threads. What took no time is left out.
    pub threads: Vec<Frame>,
    /// Time in nanoseconds for which each of them waited for its next operation.
    pub idle: Vec<(String, u64)>,
}

impl Graph {
    /// The graph of threads.
    pub(crate) fn of_threads(flames: &[(&str, Flame)]) -> Graph {
        let mut graph = Graph::default();
        for (name, flame) in flames {
            let (thread, idle) = of_thread(name, flame);
            if thread.total_ns() > 0 {
                graph.threads.push(thread);
            }
            if idle > 0 {
                graph.idle.push(((*name).to_owned(), idle));
            }
        }
        graph
    }

    /// The graph of a drive's requests.
    pub(crate) fn of_requests<P: Parts>(meters: &Meters) -> Graph {
        let mut all = Frame::new("requests", FrameKind::Thread);
        for (op, meter) in BlockOp::ALL.iter().zip(&meters.ops) {
            let mut operation = Frame::new(op.name(), FrameKind::Operation);
            for component in (0..COMPONENTS).filter(|&component| meter.components_ns[component] > 0) {
                let ns = u64::try_from(meter.components_ns[component]).unwrap_or(u64::MAX);
                operation.child(part_name::<P>(component), FrameKind::Part).own_ns = ns;
            }
            if !operation.above.is_empty() {
                all.above.push(operation);
            }
        }
        all.sort();
        Graph { threads: Some(all).filter(|all| all.total_ns() > 0).into_iter().collect(), idle: Vec::new() }
    }

    /// Adds the time of a drive's dies and buses, by cause.
    pub(crate) fn add_nand(&mut self, time: &NandTime) {
        let [mut dies, mut buses] = [DIES, BUSES].map(|name| Frame::new(name, FrameKind::Thread));
        for (cause, work, span) in time.dies() {
            dies.child(cause.name(), FrameKind::Cause(cause)).child(work.name(), FrameKind::Work(work)).own_ns = span.0;
        }
        for (cause, span) in time.buses() {
            let cause = buses.child(cause.name(), FrameKind::Cause(cause));
            cause.child(Work::Transfer.name(), FrameKind::Work(Work::Transfer)).own_ns = span.0;
        }
        for mut frame in [dies, buses].into_iter().filter(|frame| frame.total_ns() > 0) {
            frame.sort();
            self.threads.push(frame);
        }
    }

    /// The graph as text, a line a stack: frames with `;` between them, a space, nanoseconds. Other programs that draw
    /// flame graphs read it.
    pub fn folded(&self) -> String {
        let mut text = String::new();
        self.threads.iter().for_each(|thread| fold(&mut text, "", thread));
        for (thread, ns) in &self.idle {
            let _ = writeln!(text, "{thread};{IDLE} {ns}");
        }
        text
    }
}

fn fold(text: &mut String, below: &str, frame: &Frame) {
    let stack = if below.is_empty() { frame.name.clone() } else { format!("{below};{}", frame.name) };
    if frame.own_ns > 0 {
        let _ = writeln!(text, "{stack} {}", frame.own_ns);
    }
    frame.above.iter().for_each(|above| fold(text, &stack, above));
}

/// The frames of a thread, and its idle time in nanoseconds.
fn of_thread(name: &str, flame: &Flame) -> (Frame, u64) {
    let mut operations: Vec<(&str, Vec<(Ns, &Filed)>)> = Vec::new();
    for (operation, least, filed) in flame.filed() {
        match operations.last_mut().filter(|(last, _)| *last == operation) {
            Some((_, classes)) => classes.push((least, filed)),
            None => operations.push((operation, vec![(least, filed)])),
        }
    }
    let (mut thread, mut idle) = (Frame::new(name, FrameKind::Thread), 0);
    for (operation, classes) in operations {
        if operation == IDLE {
            idle = classes.iter().map(|(_, filed)| filed.total().0).sum();
            continue;
        }
        let mut frame = Frame::new(operation, FrameKind::Operation);
        match slowest_from(&classes) {
            None => classes.iter().for_each(|(_, filed)| frame.add_all(filed)),
            Some(from) => {
                let (others, slowest) = classes.split_at(from);
                let all: u64 = classes.iter().map(|(_, filed)| filed.operations).sum();
                let slow: u64 = slowest.iter().map(|(_, filed)| filed.operations).sum();
                let percent = 100.0 * slow as f64 / all as f64;
                let name = format!("slowest {percent:.2} %, from {} on", span(slowest[0].0.0 as f64));
                for (name, classes) in [("the others".to_owned(), others), (name, slowest)] {
                    let share = frame.child(&name, FrameKind::Share);
                    classes.iter().for_each(|(_, filed)| share.add_all(filed));
                }
            }
        }
        if frame.total_ns() > 0 {
            thread.above.push(frame);
        }
    }
    thread.sort();
    (thread, idle)
}

/// The class from which on operations are the slowest, if there are any.
fn slowest_from(classes: &[(Ns, &Filed)]) -> Option<usize> {
    let all: u64 = classes.iter().map(|(_, filed)| filed.operations).sum();
    let mut up_to = 0;
    let median = classes.iter().find(|(_, filed)| {
        up_to += filed.operations;
        2 * up_to >= all
    })?;
    let from = classes.iter().position(|(least, _)| least.0 >= (SLOW * median.0.0).max(1))?;
    (all >= LEAST_OPERATIONS).then_some(from)
}

#[cfg(test)]
mod tests {
    use sim::Cx;

    use super::*;

    /// 990 writes of 1 µs, and ten that write a fastmap for 100 µs in addition.
    fn writes() -> Cx {
        let mut cx = Cx::new();
        cx.record();
        for at in 0..1000 {
            cx.file(IDLE);
            cx.work_until(Work::Program, cx.now() + Ns(1_000));
            if at % 100 == 7 {
                cx.because(Cause::Fastmap, |cx| {
                    cx.because(Cause::Fastmap, |cx| cx.work_until(Work::Erase, cx.now() + Ns(90_000)));
                    cx.because(Cause::Header, |cx| cx.work_until(Work::Program, cx.now() + Ns(10_000)));
                });
            }
            cx.file("write");
            cx.wait_until(cx.now() + Ns(500));
        }
        cx
    }

    #[test]
    fn the_slowest_are_shown_apart_with_their_causes() {
        let mut cx = writes();
        let graph = Graph::of_threads(&[("writer", cx.stop_recording().unwrap()), ("none", Flame::default())]);
        // 101 µs are between 98.304 µs (12 * 2^13) and 106.496 µs.
        let expected = "\
writer;write;slowest 1.00 %, from 98.30 µs on;fastmap;erase 900000
writer;write;slowest 1.00 %, from 98.30 µs on;fastmap;header;program 100000
writer;write;slowest 1.00 %, from 98.30 µs on;host;program 10000
writer;write;the others;host;program 990000
writer;idle 500000
";
        assert_eq!(graph.folded(), expected);
        let idle: u64 = graph.idle.iter().map(|(_, ns)| ns).sum();
        assert_eq!(graph.threads[0].total_ns() + idle, cx.now().0);
    }

    #[test]
    fn operations_of_like_length_stay_together() {
        let mut cx = Cx::new();
        cx.record();
        for at in 0..1000 {
            cx.spend(Ns(if at < 5 { 1_200 } else { 1_000 }));
            cx.file("read");
        }
        let graph = Graph::of_threads(&[("writer", cx.stop_recording().unwrap())]);
        assert_eq!(graph.folded(), "writer;read;host;processor 1001000\n");
    }
}
