//! The order in which nodes reach the flash: the same calls on Linux's UBIFS and on ours.
#![expect(clippy::disallowed_methods, reason = "one side of the comparison is Linux, with its clock and its files")]

use std::time::Duration;

use fs::cache::{self, PageCache};
use fs::ubifs::media::Compression;
use fs::ubifs::{Options, Ubifs, mkfs};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sim::seam::{FileSystem, LebVolume, RamVolume, Timestamp};
use sim::{Cx, Lnum, Ns};

use crate::host::Host;
use crate::ops::draw::{self, Allowed};
use crate::ops::{self, At, Caller, Fill, Kind, MAX_OPENED, Op, PRESENT, Session, Which};
use crate::{Oracle, Outcome};

const LEB: u32 = 126_976;
const LEBS: u32 = 405;
/// Between two calls, so that each has a second of its own.
const GAP: Ns = Ns(1_030_000_000);
const BURST: usize = 4;
const STEPS: usize = 1_500;

/// The calls come in bursts of four, between which all is written: Linux's timers are not as exact as ours, and in a burst none ends.
/// What one burst leaves to them is dirty since one instant; the next has a second for each call, and ends with a `sync`.
fn gap_before(number: usize) -> Ns {
    match number % (2 * BURST) {
        0 | BURST => Ns(62_000_000_000),
        at if at < BURST => Ns::ZERO,
        _ => GAP,
    }
}

/// The first calls and those at the ends, which are not drawn.
fn set(number: usize) -> Option<Step> {
    let name = || At::new(b"a");
    match number {
        0 => Some(Step::Call(Op::Create(name(), 0o700))),
        // With fewer pages the device has no share of the background limit left later, and is written to at other times.
        1 => {
            let data = Fill { kind: Kind::Noise, length: 5 * 4096, seed: 1 };
            Some(Step::Call(Op::Write(Which::Named(name()), 0, data)))
        }
        2 => Some(Step::Sync),
        number if number + MAX_OPENED >= STEPS => Some(Step::Call(Op::Release(0))),
        number if number % (2 * BURST) == 2 * BURST - 1 => Some(Step::Sync),
        _ => None,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Call(Op),
    Fsync(At),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    let op = draw::op(Allowed { root: true, xattr_bytes: Some(200) });
    prop_oneof![
        30 => op.prop_map(Step::Call),
        3 => draw::there().prop_map(Step::Fsync),
        1 => Just(Step::Sync),
    ]
}

/// The steps, with names that exist where they were drawn: the oracle makes the calls for that.
fn steps(seed: u64) -> Vec<(Step, Outcome)> {
    let drawn = step();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let mut oracle = Oracle::new(0, 0);
    (0..STEPS)
        .map(|number| {
            let drawn = drawn.new_tree(&mut runner).expect("nothing is refused").current();
            let mut step = set(number).unwrap_or(drawn);
            let names = ops::names(&mut oracle.fs, &mut oracle.cx).expect("a model");
            let outcome = match &mut step {
                Step::Call(op) => {
                    op.find(&names);
                    match op {
                        Op::Setxattr(Which::Opened(at), ..) if oracle.is_unlinked(*at) => *op = Op::Release(0),
                        Op::Write(.., data) if data.length == 0 => *op = Op::Release(0),
                        _ => {}
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

/// Makes the calls in a directory of Linux, each at its time.
fn on_linux(top: &std::path::Path, seed: u64) {
    let mut host = Host::at(top);
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    // In the middle of a second, as ours.
    std::thread::sleep(Duration::from_millis(1_500).saturating_sub(Duration::from_nanos(time.subsec_nanos().into())));
    let begin = std::time::Instant::now();
    let mut at = Ns::ZERO;
    for (number, (step, expected)) in steps(seed).into_iter().enumerate() {
        at += gap_before(number);
        std::thread::sleep(Duration::from_nanos(at.0).saturating_sub(begin.elapsed()));
        match step {
            Step::Call(op) => assert_eq!(host.apply(&op), expected, "step {number}: {op:?}"),
            Step::Fsync(at) => host.fsync(&at),
            Step::Sync => host.sync(),
        }
    }
    host.sync();
    // What was written stays.
    std::mem::forget(host);
}

/// Makes them on ours. Returns the volume's nodes.
fn on_ours(seed: u64) -> Vec<String> {
    let cx = &mut Cx::new();
    let make = mkfs::Options::first_mount(2048, LEB, LEBS);
    let epoch = Timestamp { seconds: 2 * PRESENT, nanos: 500_000_000 };
    let options = Options { compression: Some(Compression::None), epoch, ..Options::default() };
    let inner = Ubifs::format(RamVolume::new(LEBS, LEB, 2048), cx, &make, options).unwrap();
    let mut fs = PageCache::new(inner, cache::Config::linux(1 << 30));
    let mut session = Session::new(fs.root(), 0, 0);
    let mut at = Ns::ZERO;
    for (number, (step, expected)) in steps(seed).into_iter().enumerate() {
        at += gap_before(number);
        idle_until(&mut fs, cx, at);
        let mut caller = Caller { fs: &mut fs, cx, session: &mut session };
        match step {
            Step::Call(op) => {
                let outcome = caller.call(&op).map_err(|error| error.errno());
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
    fs.sync(cx).unwrap();
    // The guest unmounts.
    let mut volume = fs.into_inner().unmount(cx).unwrap();
    let mut bytes = Vec::new();
    for lnum in 0..LEBS {
        let mut leb = vec![0; LEB as usize];
        volume.read(cx, Lnum(lnum), 0, &mut leb).unwrap();
        bytes.extend_from_slice(&leb);
    }
    nodes(&bytes)
}

fn idle_until(fs: &mut PageCache<Ubifs<RamVolume>>, cx: &mut Cx, until: Ns) {
    loop {
        let (cache, inner) = (fs.next_wake(), fs.inner().next_wake());
        let Some(next) = cache.into_iter().chain(inner).min().filter(|&next| next <= until) else { break };
        cx.wait_until(next);
        if cache == Some(next) { fs.wake(cx).unwrap() } else { fs.inner_mut().wake(cx).unwrap() }
    }
    cx.wait_until(until);
}

/// What files consist of, in the order of sequence numbers: kind, group, key, and a checksum of all but what counts nodes and what is a
/// time of the run.
fn nodes(flash: &[u8]) -> Vec<String> {
    const KINDS: [&str; 5] = ["inode", "data", "entry", "attribute", "truncation"];
    let word = |at: usize| u32::from_le_bytes(flash[at..at + 4].try_into().unwrap());
    let long = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let mut nodes = Vec::new();
    for at in (0..flash.len()).step_by(8) {
        if word(at) != 0x0610_1831 || usize::from(flash[at + 20]) >= KINDS.len() {
            continue;
        }
        let mut node = flash[at..at + word(at + 16) as usize].to_vec();
        let number = long(&node[8..16]);
        let kind = KINDS[usize::from(node[20])];
        match kind {
            // A random number, which only NFS uses.
            "entry" | "attribute" => node[52..56].fill(0),
            // Creation counts nodes. The compression of the root is that of nothing.
            "inode" => {
                node[40..48].fill(0);
                if word(at + 24) == 1 {
                    node[132..134].fill(0);
                }
            }
            _ => {}
        }
        if kind == "inode" {
            for (seconds, nanos) in [(56, 80), (64, 84), (72, 88)] {
                if long(&node[seconds..seconds + 8]) >= PRESENT {
                    node[seconds..seconds + 8].fill(0);
                    node[nanos..nanos + 4].fill(0);
                }
            }
        }
        let (ino, key) = (word(at + 24), word(at + 28));
        let crc = crc32fast::hash(&node[24..]);
        nodes.push((number, format!("{kind} {} {ino} {key:08x} {} {crc:08x}", node[21], node.len())));
    }
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// A list of nodes in a line: how many, and their checksum. That of the steps says whether they are still those of the fixture.
fn summary(seed: u64, nodes: &[String]) -> String {
    let steps = crc32fast::hash(format!("{:?}", steps(seed)).as_bytes());
    format!("{seed} {steps:08x} {} {:08x}", nodes.len(), crc32fast::hash(nodes.join("\n").as_bytes()))
}

/// `tests/images/nodes.txt` has what Linux 6.12 wrote for each of these seeds, and `tests/images/README.md` says how it was made. With the
/// environment variable `NANDLAB_UBIFS` the test makes the calls in that directory of Linux; with `NANDLAB_FLASH` it prints the nodes of that
/// dump, and with `NANDLAB_SEED` alone those of ours.
#[test]
fn nodes_are_those_of_linux_in_the_same_order() {
    let variable = |name| std::env::var(name).ok();
    let seed = variable("NANDLAB_SEED").map(|seed| seed.parse().expect("a number"));
    let print = |seed, nodes: Vec<String>| println!("\n{}\n{}", nodes.join("\n"), summary(seed, &nodes));
    match (seed, variable("NANDLAB_UBIFS"), variable("NANDLAB_FLASH")) {
        (Some(seed), Some(top), _) => on_linux(top.as_ref(), seed),
        (Some(seed), _, Some(flash)) => print(seed, nodes(&std::fs::read(flash).expect("a dump"))),
        (Some(seed), ..) => print(seed, on_ours(seed)),
        (None, ..) => {
            let fixture = include_str!("../images/nodes.txt").lines().filter(|line| !line.starts_with('#'));
            let (mut seeds, mut differ) = (0, Vec::new());
            for line in fixture {
                let seed = line.split(' ').next().and_then(|seed| seed.parse().ok()).expect("a seed");
                let ours = summary(seed, &on_ours(seed));
                if ours != line {
                    differ.push(format!("{ours}, of Linux {line}"));
                }
                seeds += 1;
            }
            assert!(
                seeds >= 40 && differ.is_empty(),
                "of {seeds} seeds differ: {differ:#?}; see tests/images/README.md"
            );
        }
    }
}
