//! The spike behind `docs/decisions/0001-time.md`: one small model under three time models.
//!
//! Eight writers share one bus and four dies. A write passes three layers: a volume sometimes maps its LEB to a new
//! block (an erase, then a header), and programs a page; the page crosses the bus, then occupies its die. Each variant
//! is written as its model wants it; the system, its prices and its random draws are the same. It prints host
//! nanoseconds per operation on a resource, lines of code, and the virtual result.
//!
//! `cargo run --release -p sim --example time_spike`

#![expect(clippy::disallowed_methods, reason = "a spike that measures this machine")]

use std::time::Instant;

use sim::{Ns, Rng, Seed};

const WRITERS: usize = 8;
const DIES: usize = 4;
const WRITES: u32 = 100_000;
const PAGES: u32 = 64;
const TRANSFER: Ns = Ns::from_us(25);
const PROGRAM: Ns = Ns::from_us(200);
const ERASE: Ns = Ns::from_us(1500);

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    /// Virtual time at which the last writer finished.
    end: Ns,
    /// Time from call to return, summed over all writes.
    waited: Ns,
    /// Operations on the bus and the dies.
    ops: u64,
}

fn draws(writer: usize) -> Rng {
    Seed(1).stream(&format!("spike/{writer}"))
}

fn pick_die(rng: &mut Rng) -> usize {
    rng.below(DIES as u64) as usize
}

// begin straight
/// The model that nandlab uses: an actor has a clock, a resource a timeline; the runner steps the actor whose clock is
/// earliest.
mod straight {
    use super::*;
    use sim::{Cx, Timeline, Work};

    #[derive(Default)]
    struct Flash {
        bus: Timeline,
        dies: [Timeline; DIES],
        ops: u64,
    }

    impl Flash {
        fn program(&mut self, cx: &mut Cx, die: usize) {
            self.ops += 2;
            self.bus.occupy(cx, TRANSFER, Work::Transfer);
            self.dies[die].occupy(cx, PROGRAM, Work::Program);
        }

        fn erase(&mut self, cx: &mut Cx, die: usize) {
            self.ops += 1;
            self.dies[die].occupy(cx, ERASE, Work::Erase);
        }
    }

    struct Volume {
        die: usize,
        page: u32,
        rng: Rng,
    }

    impl Volume {
        fn map(&mut self, flash: &mut Flash, cx: &mut Cx) {
            self.die = pick_die(&mut self.rng);
            flash.erase(cx, self.die);
            flash.program(cx, self.die);
        }

        fn write(&mut self, flash: &mut Flash, cx: &mut Cx) {
            if self.page.is_multiple_of(PAGES) {
                self.map(flash, cx);
            }
            self.page += 1;
            flash.program(cx, self.die);
        }
    }

    pub fn run() -> Outcome {
        let mut flash = Flash::default();
        let mut actors: Vec<(Cx, Volume)> =
            (0..WRITERS).map(|i| (Cx::new(), Volume { die: 0, page: 0, rng: draws(i) })).collect();
        let mut waited = Ns::ZERO;
        for _ in 0..WRITES * WRITERS as u32 {
            let next = actors.iter_mut().filter(|(_, volume)| volume.page < WRITES).min_by_key(|(cx, _)| cx.now());
            let (cx, volume) = next.expect("as many steps as writes");
            let began = cx.now();
            volume.write(&mut flash, cx);
            waited += cx.now() - began;
        }
        Outcome { end: actors.iter().map(|(cx, _)| cx.now()).max().unwrap_or_default(), waited, ops: flash.ops }
    }
}
// end straight

// begin events
/// A global queue of callbacks: a closure runs when its operation is done and starts the next.
mod events {
    use super::*;
    use std::cmp::Ordering;
    use std::collections::BinaryHeap;

    type Then = Box<dyn FnOnce(&mut World)>;

    struct Event {
        at: Ns,
        writer: usize,
        then: Then,
    }

    impl Ord for Event {
        fn cmp(&self, other: &Event) -> Ordering {
            (other.at, other.writer).cmp(&(self.at, self.writer))
        }
    }
    impl PartialOrd for Event {
        fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    impl PartialEq for Event {
        fn eq(&self, other: &Event) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }
    impl Eq for Event {}

    struct Writer {
        die: usize,
        page: u32,
        rng: Rng,
    }

    struct World {
        now: Ns,
        queue: BinaryHeap<Event>,
        bus_free: Ns,
        die_free: [Ns; DIES],
        writers: Vec<Writer>,
        waited: Ns,
        ops: u64,
    }

    impl World {
        fn at(&mut self, at: Ns, writer: usize, then: Then) {
            self.queue.push(Event { at, writer, then });
        }

        fn program(&mut self, writer: usize, die: usize, then: Then) {
            self.ops += 2;
            self.bus_free = self.bus_free.max(self.now) + TRANSFER;
            let crossed = self.bus_free;
            let keep_die = move |world: &mut World| {
                world.die_free[die] = world.die_free[die].max(world.now) + PROGRAM;
                let done = world.die_free[die];
                world.at(done, writer, then);
            };
            self.at(crossed, writer, Box::new(keep_die));
        }

        fn erase(&mut self, writer: usize, die: usize, then: Then) {
            self.ops += 1;
            self.die_free[die] = self.die_free[die].max(self.now) + ERASE;
            let done = self.die_free[die];
            self.at(done, writer, then);
        }

        fn map(&mut self, writer: usize, then: Then) {
            let die = pick_die(&mut self.writers[writer].rng);
            self.writers[writer].die = die;
            self.erase(writer, die, Box::new(move |world| world.program(writer, die, then)));
        }

        fn write(&mut self, writer: usize, then: Then) {
            let put_page = move |world: &mut World| {
                world.writers[writer].page += 1;
                let die = world.writers[writer].die;
                world.program(writer, die, then);
            };
            if self.writers[writer].page.is_multiple_of(PAGES) {
                self.map(writer, Box::new(put_page));
            } else {
                put_page(self);
            }
        }

        fn next_write(&mut self, writer: usize) {
            if self.writers[writer].page == WRITES {
                return;
            }
            let began = self.now;
            self.write(
                writer,
                Box::new(move |world| {
                    world.waited += world.now - began;
                    world.next_write(writer);
                }),
            );
        }
    }

    pub fn run() -> Outcome {
        let mut world = World {
            now: Ns::ZERO,
            queue: BinaryHeap::new(),
            bus_free: Ns::ZERO,
            die_free: [Ns::ZERO; DIES],
            writers: (0..WRITERS).map(|i| Writer { die: 0, page: 0, rng: draws(i) }).collect(),
            waited: Ns::ZERO,
            ops: 0,
        };
        (0..WRITERS).for_each(|writer| world.next_write(writer));
        while let Some(Event { at, then, .. }) = world.queue.pop() {
            world.now = at;
            then(&mut world);
        }
        Outcome { end: world.now, waited: world.waited, ops: world.ops }
    }
}
// end events

// begin coroutines
/// Processes as async functions: an operation is awaited, and an executor resumes the process whose time has come.
mod coroutines {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    #[derive(Default)]
    struct World {
        now: Cell<Ns>,
        timers: RefCell<BinaryHeap<Reverse<(Ns, usize)>>>,
        bus_free: Cell<Ns>,
        die_free: [Cell<Ns>; DIES],
        waited: Cell<Ns>,
        ops: Cell<u64>,
    }

    struct Until<'a> {
        world: &'a World,
        writer: usize,
        at: Ns,
        asked: bool,
    }

    impl Future for Until<'_> {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if self.asked {
                return Poll::Ready(());
            }
            self.asked = true;
            self.world.timers.borrow_mut().push(Reverse((self.at, self.writer)));
            Poll::Pending
        }
    }

    impl World {
        fn occupy<'a>(&'a self, writer: usize, resource: &'a Cell<Ns>, span: Ns) -> Until<'a> {
            let at = resource.get().max(self.now.get()) + span;
            resource.set(at);
            self.ops.set(self.ops.get() + 1);
            Until { world: self, writer, at, asked: false }
        }

        async fn program(&self, writer: usize, die: usize) {
            self.occupy(writer, &self.bus_free, TRANSFER).await;
            self.occupy(writer, &self.die_free[die], PROGRAM).await;
        }

        async fn erase(&self, writer: usize, die: usize) {
            self.occupy(writer, &self.die_free[die], ERASE).await;
        }
    }

    struct Volume {
        die: usize,
        page: u32,
        rng: Rng,
    }

    impl Volume {
        async fn map(&mut self, world: &World, writer: usize) {
            self.die = pick_die(&mut self.rng);
            world.erase(writer, self.die).await;
            world.program(writer, self.die).await;
        }

        async fn write(&mut self, world: &World, writer: usize) {
            if self.page.is_multiple_of(PAGES) {
                self.map(world, writer).await;
            }
            self.page += 1;
            world.program(writer, self.die).await;
        }
    }

    async fn process(world: &World, writer: usize) {
        let mut volume = Volume { die: 0, page: 0, rng: draws(writer) };
        while volume.page < WRITES {
            let began = world.now.get();
            volume.write(world, writer).await;
            world.waited.set(world.waited.get() + (world.now.get() - began));
        }
    }

    pub fn run() -> Outcome {
        let world = World::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut processes: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for writer in 0..WRITERS {
            processes.push(Box::pin(process(&world, writer)));
        }
        for process in &mut processes {
            let _ = process.as_mut().poll(&mut context);
        }
        loop {
            let next = world.timers.borrow_mut().pop();
            let Some(Reverse((at, writer))) = next else { break };
            world.now.set(at);
            let _ = processes[writer].as_mut().poll(&mut context);
        }
        Outcome { end: world.now.get(), waited: world.waited.get(), ops: world.ops.get() }
    }
}
// end coroutines

fn lines(name: &str) -> usize {
    let source = include_str!("time_spike.rs").lines();
    let inside = source.skip_while(|line| *line != format!("// begin {name}"));
    inside.take_while(|line| *line != format!("// end {name}")).filter(|line| !line.trim().is_empty()).count() - 1
}

type Model = (&'static str, fn() -> Outcome);

fn main() {
    println!("{:<12}{:>7}{:>12}{:>16}{:>18}", "model", "lines", "ns per op", "virtual end, s", "mean write, us");
    let mut outcomes = Vec::new();
    let models: [Model; 3] = [("straight", straight::run), ("events", events::run), ("coroutines", coroutines::run)];
    for (name, run) in models {
        // The best of five: other programs use the machine too.
        let timed = (0..5).map(|_| {
            let began = Instant::now();
            let outcome = run();
            (began.elapsed().as_nanos() as f64 / outcome.ops as f64, outcome)
        });
        let (ns, outcome) = timed.min_by(|a, b| a.0.total_cmp(&b.0)).expect("five runs");
        let mean_us = outcome.waited.0 as f64 / 1e3 / f64::from(WRITES) / WRITERS as f64;
        println!("{name:<12}{:>7}{ns:>12.1}{:>16.3}{mean_us:>18.2}", lines(name), outcome.end.as_s());
        outcomes.push(outcome);
    }
    assert_eq!(outcomes[1], outcomes[2], "events and coroutines are the same model");
    assert_eq!(outcomes[0].ops, outcomes[1].ops);
}
