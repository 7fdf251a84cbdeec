//! UBIFS: the nodes of files in the order of their sequence numbers.

use std::path::Path;
use std::time::{Duration, Instant};

use fs::cache::{self, PageCache};
use fs::ubifs::media::Compression;
use fs::ubifs::{Options, Ubifs, mkfs};
use sim::seam::{LebVolume, RamVolume, Timestamp};
use sim::{Cx, Lnum, Ns};

use super::{Course, Step, System, since_second};
use crate::ops::{At, Fill, Kind, MAX_OPENED, Op, PRESENT, Which};

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

/// Of the first 80 seeds nothing is compressed.
fn compression(seed: u64) -> Compression {
    if seed <= 80 { Compression::None } else { Compression::Lzo }
}

fn guest(seed: u64) -> String {
    let name = if compression(seed) == Compression::None { "none" } else { "lzo" };
    format!("nand = {{ pebs = 420 }}\nguest.fs = {{ kind = 'ubifs', mount = 'compr={name}' }}")
}

const COURSE: Course =
    Course { steps: STEPS, parts: 1, gap_before, set, suit: |_, _| {}, after: Duration::ZERO, xattrs: true };

/// Makes the calls in a directory of Linux: in the middle of a second, as ours.
fn on_linux(top: &Path, at: (u64, usize)) {
    std::thread::sleep(Duration::from_millis(1_500).saturating_sub(since_second()));
    COURSE.on_linux(top, at, Instant::now());
}

/// Makes them on ours. Returns the volume.
fn on_ours(seed: u64) -> Vec<u8> {
    let cx = &mut Cx::new();
    let make = mkfs::Options::first_mount(2048, LEB, LEBS);
    let epoch = Timestamp { seconds: 2 * PRESENT, nanos: 500_000_000 };
    let options = Options { compression: Some(compression(seed)), epoch, ..Options::default() };
    let inner = Ubifs::format(RamVolume::new(LEBS, LEB, 2048), cx, &make, options).unwrap();
    let mut fs = PageCache::new(inner, cache::Config::linux(1 << 30));
    COURSE.on_ours(&mut fs, cx, (seed, 0), idle_until);
    // The guest unmounts.
    let mut volume = fs.into_inner().unmount(cx).unwrap();
    let mut bytes = Vec::new();
    for lnum in 0..LEBS {
        let mut leb = vec![0; LEB as usize];
        volume.read(cx, Lnum(lnum), 0, &mut leb).unwrap();
        bytes.extend_from_slice(&leb);
    }
    bytes
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

#[test]
fn nodes_are_those_of_linux_where_linux_writes_them() {
    let system = System {
        course: |_| COURSE,
        guest,
        mount: |_| "false".to_owned(),
        on_linux,
        on_ours,
        nodes,
        fixture: include_str!("../../images/nodes.txt"),
    };
    system.compare();
}
