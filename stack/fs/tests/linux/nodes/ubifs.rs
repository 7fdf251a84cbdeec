//! UBIFS: everything on the volume.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use fs::cache::{self, PageCache};
use fs::ubifs::media::Compression;
use fs::ubifs::{Options, Ubifs, mkfs};
use sim::seam::{LebVolume, RamVolume, Timestamp};
use sim::{Cx, Lnum, Ns};

use super::{Course, Step, System, since_second};
use crate::ops::{At, Fill, Kind, Op, PRESENT, Which};

const LEB: u32 = 126_976;
/// The flash of the first seeds, of which little is in use, and that of the others, which are nearly full: PEBs of it, and LEBs of the volume.
const LARGE: (u32, u32) = (420, 405);
const SMALL: (u32, u32) = (96, 88);
/// Between two calls, so that each has a second of its own.
const GAP: Ns = Ns(1_030_000_000);
const BURST: usize = 4;
const STEPS: usize = 1_500;
const MOST_BLOCKS: u64 = 1_800;

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
        number if number % (2 * BURST) == 2 * BURST - 1 => Some(Step::Sync),
        _ => None,
    }
}

fn is_full(seed: u64) -> bool {
    seed > 200
}

fn size(seed: u64) -> (u32, u32) {
    if is_full(seed) { SMALL } else { LARGE }
}

/// Of the first 80 seeds nothing is compressed, and of the even ones that are nearly full.
fn compression(seed: u64) -> Compression {
    let is_plain = if is_full(seed) { seed.is_multiple_of(2) } else { seed <= 80 };
    if is_plain { Compression::None } else { Compression::Lzo }
}

fn guest(seed: u64) -> String {
    let name = if compression(seed) == Compression::None { "none" } else { "lzo" };
    format!("nand = {{ pebs = {} }}\nguest.fs = {{ kind = 'ubifs', mount = 'compr={name}' }}", size(seed).0)
}

fn course(seed: u64) -> Course {
    Course {
        steps: STEPS,
        parts: 1,
        gap_before,
        set,
        suit: |_, _| {},
        after: Duration::ZERO,
        xattrs: true,
        most_blocks: is_full(seed).then_some(MOST_BLOCKS),
    }
}

/// Makes the calls in a directory of Linux: in the middle of a second, as ours.
fn on_linux(top: &Path, at: (u64, usize)) {
    std::thread::sleep(Duration::from_millis(1_500).saturating_sub(since_second()));
    course(at.0).on_linux(top, at, Instant::now());
}

/// Makes them on ours. Returns the volume.
fn on_ours(seed: u64) -> Vec<u8> {
    let cx = &mut Cx::new();
    let lebs = size(seed).1;
    let make = mkfs::Options::first_mount(2048, LEB, lebs);
    let epoch = Timestamp { seconds: 2 * PRESENT, nanos: 500_000_000 };
    let options = Options { compression: Some(compression(seed)), epoch, ..Options::default() };
    let inner = Ubifs::format(RamVolume::new(lebs, LEB, 2048), cx, &make, options).unwrap();
    let mut fs = PageCache::new(inner, cache::Config::linux(1 << 30));
    course(seed).on_ours(&mut fs, cx, (seed, 0), idle_until);
    // The guest unmounts.
    let mut volume = fs.into_inner().unmount(cx).unwrap();
    let mut bytes = Vec::new();
    for lnum in 0..lebs {
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

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The LEBs of the volume: of a dump that has nothing but them, or of a flash with UBI. Of two PEBs with a LEB the later one has it.
fn lebs(dump: &[u8]) -> BTreeMap<u32, &[u8]> {
    const PEB: usize = 131_072;
    if dump.len().is_multiple_of(LEB as usize) {
        return (0..).zip(dump.chunks(LEB as usize)).collect();
    }
    let mut found = BTreeMap::<u32, (u64, &[u8])>::new();
    for peb in dump.chunks(PEB) {
        let header = &peb[2048..];
        let volume = u32::from_be_bytes(header[8..12].try_into().unwrap());
        if !header.starts_with(b"UBI!") || volume != 0 {
            continue;
        }
        let lnum = u32::from_be_bytes(header[12..16].try_into().unwrap());
        let sqnum = u64::from_be_bytes(header[40..48].try_into().unwrap());
        let leb = found.entry(lnum).or_insert((sqnum, &peb[PEB - LEB as usize..]));
        if leb.0 < sqnum {
            *leb = (sqnum, &peb[PEB - LEB as usize..]);
        }
    }
    found.into_iter().map(|(lnum, (_, leb))| (lnum, leb)).collect()
}

/// Everything on the volume, LEB by LEB: each node with its kind, place and length, and a checksum of all but what is a time of the run
/// or a random number. Of a LEB of the tree of LEB properties, which has no such nodes, how much is written, and the checksum of that.
fn nodes(dump: &[u8]) -> Vec<String> {
    const KINDS: [&str; 12] = [
        "inode",
        "data",
        "entry",
        "attribute",
        "truncation",
        "padding",
        "super block",
        "master",
        "reference",
        "index",
        "commit start",
        "orphans",
    ];
    let mut nodes = Vec::new();
    for (lnum, leb) in lebs(dump) {
        let found = nodes.len();
        for at in (0..leb.len()).step_by(8) {
            if word(leb, at) != 0x0610_1831 || usize::from(leb[at + 20]) >= KINDS.len() {
                continue;
            }
            let len = word(leb, at + 16) as usize;
            let mut node = leb[at..at + len].to_vec();
            assert_eq!(word(&node, 4), !crc32fast::hash(&node[8..]), "checksum of a node in LEB {lnum} at {at}");
            let kind = KINDS[usize::from(node[20])];
            mask(kind, &mut node);
            let crc = crc32fast::hash(&node[8..]);
            nodes.push(format!("{lnum} {at} {kind} {len} {crc:08x}"));
        }
        let used = leb.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
        if nodes.len() == found && used > 0 {
            nodes.push(format!("{lnum} 0 properties {used} {:08x}", crc32fast::hash(&leb[..used])));
        }
    }
    nodes
}

/// Leaves out of a node what is not the same in each run.
fn mask(kind: &str, node: &mut [u8]) {
    match kind {
        // A random number, which only NFS uses.
        "entry" | "attribute" => node[52..56].fill(0),
        "inode" => {
            // The compression of the root is that of nothing.
            if word(node, 24) == 1 {
                node[132..134].fill(0);
            }
            for (seconds, nanos) in [(56, 80), (64, 84), (72, 88)] {
                if long(node, seconds) >= PRESENT {
                    node[seconds..seconds + 8].fill(0);
                    node[nanos..nanos + 4].fill(0);
                }
            }
        }
        // Linux writes what was in that memory.
        "reference" => node[36..64].fill(0),
        // The format, which Linux makes 5, with doubly hashed names, and ours 4; the compression with which the file system was made; the
        // UUID.
        "super block" => {
            node[28] &= !8;
            node[80..86].fill(0);
            node[108..124].fill(0);
        }
        _ => {}
    }
}

#[test]
fn nodes_are_those_of_linux_where_linux_writes_them() {
    let system = System {
        course,
        guest,
        mount: |_| "false".to_owned(),
        on_linux,
        on_ours,
        nodes,
        fixture: include_str!("../../images/nodes.txt"),
    };
    system.compare();
}
