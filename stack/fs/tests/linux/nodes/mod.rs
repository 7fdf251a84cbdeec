//! What Linux and ours write for the same calls: which nodes, in which order, with which contents.
#![expect(clippy::disallowed_methods, reason = "one side of the comparison is Linux, with its clock and its files")]

mod dentries;
mod jffs2;
mod ubifs;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sim::seam::FileSystem;
use sim::{Cx, Ns};

use self::dentries::Dentries;
use crate::host::Host;
use crate::ops::draw::{self, Allowed};
use crate::ops::{self, At, Caller, Kind, MAX_OPENED, Op, Session, Which};
use crate::{Oracle, Outcome};

#[derive(Clone, Debug)]
enum Step {
    Call(Op),
    Fsync(At),
    Sync,
}

/// Which calls are made, and when.
#[derive(Clone, Copy)]
struct Course {
    /// In each part. Between two the file system is mounted anew.
    steps: usize,
    parts: usize,
    /// Before the call of this number.
    gap_before: fn(usize) -> Ns,
    /// Calls that are not drawn.
    set: fn(usize) -> Option<Step>,
    /// Makes an operation one that the file system can do.
    suit: fn(&mut Op, &mut Oracle),
    /// Before the last `sync`.
    after: Duration,
    /// Extended attributes are drawn.
    xattrs: bool,
    /// Blocks that files may hold; with a limit they come to hold as many, and much is written anew.
    most_blocks: Option<u64>,
}

impl Course {
    fn step(&self) -> impl Strategy<Value = Step> {
        let op = draw::op(Allowed { root: true, xattr_bytes: self.xattrs.then_some(200) });
        let few = prop_oneof![
            30 => op.prop_map(Step::Call),
            3 => draw::there().prop_map(Step::Fsync),
            1 => Just(Step::Sync),
        ];
        match self.most_blocks {
            None => few.boxed(),
            Some(_) => prop_oneof![1 => few, 2 => much().prop_map(Step::Call)].boxed(),
        }
    }

    /// The steps, with names that exist where they were drawn, and what each returns: the oracle makes the calls for that.
    fn steps(&self, seed: u64) -> Vec<(Step, Outcome)> {
        let drawn = self.step();
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let mut oracle = Oracle::new(0, 0);
        let all = variable("NANDLAB_STEPS").map_or(self.parts * self.steps, |steps| steps + MAX_OPENED);
        (0..all)
            .map(|number| {
                let drawn = drawn.new_tree(&mut runner).expect("nothing is refused").current();
                let is_last = number + MAX_OPENED >= all;
                let release = is_last.then_some(Step::Call(Op::Release(0)));
                let mut step = release.or_else(|| (self.set)(number)).unwrap_or(drawn);
                let names = ops::names(&mut oracle.fs, &mut oracle.cx).expect("a model");
                let outcome = match &mut step {
                    Step::Call(op) => {
                        op.find(&names);
                        match op {
                            Op::Setxattr(Which::Opened(at), ..) if oracle.is_unlinked(*at) => *op = Op::Release(0),
                            Op::Write(.., data) if data.length == 0 => *op = Op::Release(0),
                            _ => (self.suit)(op, &mut oracle),
                        }
                        if let Some(most) = self.most_blocks {
                            keep_below(most, op, &mut oracle);
                        }
                        oracle.apply(op)
                    }
                    Step::Fsync(at) => {
                        at.find(&names);
                        Ok(Vec::new())
                    }
                    Step::Sync => Ok(Vec::new()),
                };
                (step, outcome)
            })
            .collect()
    }

    /// The steps of a part with their numbers.
    fn part(&self, seed: u64, part: usize) -> impl Iterator<Item = (usize, (Step, Outcome))> {
        self.steps(seed).into_iter().enumerate().skip(part * self.steps).take(self.steps)
    }

    /// Makes the calls of a part in a directory of Linux, each at its time. `begin` is when the first is made.
    fn on_linux(&self, top: &Path, (seed, part): (u64, usize), begin: Instant) {
        let mut host = Host::at(top);
        let mut at = Ns::ZERO;
        for (number, (step, expected)) in self.part(seed, part) {
            at += (self.gap_before)(number);
            sleep_until(begin + Duration::from_nanos(at.0));
            match step {
                Step::Call(op) => assert_eq!(host.apply(&op), expected, "step {number}: {op:?}"),
                Step::Fsync(at) => host.fsync(&at),
                Step::Sync => host.sync(),
            }
        }
        sleep_until(Instant::now() + self.after);
        host.sync();
        // What was written stays.
        std::mem::forget(host);
    }

    /// Makes them on ours, which works between two of them in `idle_until`.
    fn on_ours<F: FileSystem>(
        &self,
        fs: &mut F,
        cx: &mut Cx,
        (seed, part): (u64, usize),
        mut idle_until: impl FnMut(&mut F, &mut Cx, Ns),
    ) {
        let (mut session, mut dentries) = (Session::new(fs.root(), 0, 0), Dentries::default());
        let mut at = cx.now();
        for (number, (step, expected)) in self.part(seed, part) {
            at += (self.gap_before)(number);
            idle_until(fs, cx, at);
            let mut caller = Caller { fs, cx, session: &mut session };
            match step {
                Step::Call(op) => {
                    let outcome = dentries.call(&mut caller, &op);
                    assert_eq!(outcome, expected, "step {number}: {op:?}");
                }
                Step::Fsync(name) => {
                    if let Ok((ino, file_type)) = caller.find(&name)
                        && ops::has_xattrs(file_type)
                    {
                        fs.fsync(cx, ino, false).unwrap();
                    }
                }
                Step::Sync => fs.sync(cx).unwrap(),
            }
        }
        idle_until(fs, cx, at + Ns(self.after.as_nanos() as u64));
        fs.sync(cx).unwrap();
    }

    /// A list of nodes in a line: how many, and their checksum. That of the steps says whether they are still those of the fixture.
    fn summary(&self, seed: u64, nodes: &[String]) -> String {
        let steps = crc32fast::hash(format!("{:?}", self.steps(seed)).as_bytes());
        format!("{seed} {steps:08x} {} {:08x}", nodes.len(), crc32fast::hash(nodes.join("\n").as_bytes()))
    }
}

/// Sixteen files of their own that come to have half a megabyte each: long writes, mostly in what is there.
fn much() -> impl Strategy<Value = Op> {
    let at = || (0..16u8).prop_map(|number| At::new(&[b'g' + number]));
    let offset = || prop_oneof![3 => (0..125u64).prop_map(|block| block * 4096), 1 => 0..500_000u64];
    let length = prop_oneof![2 => 1..9000usize, 6 => (1..=32usize).prop_map(|blocks| blocks * 4096)];
    let write = (at(), offset(), draw::fill(length));
    prop_oneof![
        2 => (at(), draw::mode()).prop_map(|(at, mode)| Op::Create(at, mode)),
        12 => write.prop_map(|(at, offset, data)| Op::Write(Which::Named(at), offset, data)),
        1 => (at(), offset()).prop_map(|(at, size)| Op::Truncate(Which::Named(at), size)),
    ]
}

/// Of a write for which there is no room the file is emptied instead.
fn keep_below(most: u64, op: &mut Op, oracle: &mut Oracle) {
    let Op::Write(which, _, data) = op else { return };
    if matches!(data.kind, Kind::Zeroes) {
        data.kind = Kind::Noise;
    }
    let found = oracle.fs.statfs(&mut oracle.cx).expect("a model");
    if found.blocks - found.free + data.length as u64 / 4096 + 2 > most {
        *op = Op::Truncate(which.clone(), 0);
    }
}

/// A number of the environment.
fn variable(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

/// Sleeps, and has Linux's tick run at least every second meanwhile. Some of its timers, such as the one that halves what a device has
/// written, do not wake an idle processor, and are behind by any time on one that has nothing else to do. A timeout of a socket ends
/// with a tick, a sleep does not.
fn sleep_until(end: Instant) {
    const SECOND: Duration = Duration::from_secs(1);
    let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
    socket.set_read_timeout(Some(SECOND * 8 / 10)).expect("a timeout");
    while end.saturating_duration_since(Instant::now()) > SECOND {
        socket.recv(&mut [0]).expect_err("nobody sends anything");
    }
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

/// Nanoseconds of the present second.
fn since_second() -> Duration {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Duration::from_nanos(time.subsec_nanos().into())
}

/// A file system of which both sides are made.
struct System {
    course: fn(u64) -> Course,
    /// Lines of the guest's experiment: its device and its file system.
    guest: fn(u64) -> String,
    /// The command of a guest that mounts it anew.
    mount: fn(u64) -> String,
    /// Makes the calls of a part in a directory of Linux.
    on_linux: fn(&Path, (u64, usize)),
    /// Makes all of them on ours. Returns the medium.
    on_ours: fn(u64) -> Vec<u8>,
    /// The nodes of a medium.
    nodes: fn(&[u8]) -> Vec<String>,
    /// A line of [`Course::summary`] of Linux for each of some seeds: `tests/images/README.md` says how they were made.
    fixture: &'static str,
}

impl System {
    /// The experiment of a guest that makes the calls, for `.ci/kernel-nodes`, which puts the command in the place of PROGRAM.
    fn experiment(&self, seed: u64) -> String {
        let parts: Vec<String> =
            (0..(self.course)(seed).parts).map(|part| format!("NANDLAB_PART={part} PROGRAM")).collect();
        let leave = "cd / && umount /mnt";
        let again = format!(" && {leave} && {} && ", (self.mount)(seed));
        // UBI has time to erase what the unmount left to it. Then the guest unmounts what is there.
        let end = format!("{leave} && sleep 1 && mount -t tmpfs none /mnt");
        let (device, parts) = ((self.guest)(seed), parts.join(&again));
        format!("title = 'nodes'\nguest.memory_mib = 256\n{device}\nguest.job = \"{parts} && {end}\"")
    }

    /// Holds ours against the fixture. With the environment variable `NANDLAB_SEED` it prints the guest's experiment, each step, and the
    /// nodes of ours; with `NANDLAB_FLASH` too the nodes of that dump instead; with `NANDLAB_DIR` too it makes the calls in that directory of
    /// Linux. `NANDLAB_STEPS` has fewer of them made.
    fn compare(&self) {
        let text = |name| std::env::var(name).ok();
        let summary = |seed, nodes: &[String]| (self.course)(seed).summary(seed, nodes);
        let print = |seed, nodes: Vec<String>| println!("\n{}\n{}", nodes.join("\n"), summary(seed, &nodes));
        match (variable("NANDLAB_SEED").map(|seed| seed as u64), text("NANDLAB_DIR"), text("NANDLAB_FLASH")) {
            (Some(seed), Some(top), _) => {
                (self.on_linux)(top.as_ref(), (seed, variable("NANDLAB_PART").expect("which part")));
            }
            (Some(seed), _, Some(flash)) => print(seed, (self.nodes)(&std::fs::read(flash).expect("a dump"))),
            (Some(seed), ..) => {
                println!("\n{}", self.experiment(seed));
                (self.course)(seed)
                    .steps(seed)
                    .iter()
                    .enumerate()
                    .for_each(|(at, (step, _))| println!("step {at}: {step:?}"));
                print(seed, (self.nodes)(&(self.on_ours)(seed)));
            }
            (None, ..) => {
                let (mut seeds, mut differ) = (0, Vec::new());
                for line in self.fixture.lines().filter(|line| !line.starts_with('#')) {
                    let seed = line.split(' ').next().and_then(|seed| seed.parse().ok()).expect("a seed");
                    let ours = summary(seed, &(self.nodes)(&(self.on_ours)(seed)));
                    if ours != line {
                        differ.push(format!("{ours}, of Linux {line}"));
                    }
                    seeds += 1;
                }
                assert!(
                    seeds >= 60 && differ.is_empty(),
                    "of {seeds} seeds differ: {differ:#?}; see tests/images/README.md"
                );
            }
        }
    }
}
