//! JFFS2: all nodes, where they lie.

use std::path::Path;
use std::time::{Duration, Instant};

use fs::jffs2::{Boot, Compress, Jffs2, Options, Packer, media};
use sim::seam::{FileType, Flash, Geometry, Medium, RamFlash, RenameFlags, SetXattr, Timestamp};
use sim::{Cx, Ns, Peb};

use super::{Course, Step, System, since_second};
use crate::Oracle;
use crate::ops::{MAX_OPENED, Op, PRESENT};

const PAGE: usize = 4096;
/// In each of the parts.
const STEPS: usize = 500;
const PARTS: usize = 3;
/// Linux's ticks.
const TICK: u64 = 10_000_000;
/// After so many ticks their count modulo 128, which decides what is collected, and the present second are as they were.
const ROUND: u64 = 3_200;
/// When the first call is made: in a round, in the middle of a tick and of a second.
const BEGIN: Ns = Ns(505_000_000);

fn gap_before(number: usize) -> Ns {
    Ns(if number.is_multiple_of(7) { 6_600_000_000 } else { 1_200_000_000 })
}

fn set(number: usize) -> Option<Step> {
    (number % STEPS + MAX_OPENED >= STEPS).then_some(Step::Call(Op::Release(0)))
}

/// JFFS2 neither exchanges names nor leaves whiteouts, and its names and symbolic links are shorter.
///
/// In Linux garbage collection, and with it an fsync, never ends once a directory has replaced one from which a name was removed: the node
/// of the removal stays in use, and its directory is not found. No directory is replaced here.
fn suit(op: &mut Op, oracle: &mut Oracle) {
    for at in op.places() {
        at.path.iter_mut().filter(|name| name.len() == 255).for_each(|name| name.truncate(254));
    }
    match op {
        Op::Rename(_, to, flags) => {
            *flags = RenameFlags(flags.0 & RenameFlags::NO_REPLACE.0);
            if oracle.find(to) == Some(FileType::Directory) {
                *flags = RenameFlags::NO_REPLACE;
            }
        }
        Op::Symlink(_, length @ 255..=4095) => *length = 254,
        _ => {}
    }
}

/// An attribute whose value was replaced is not removed as in Linux (docs/decisions/0010-jffs2.md): either is drawn, not both.
fn replaces(op: &mut Op, oracle: &mut Oracle) {
    suit(op, oracle);
    if let Op::Removexattr(which, name) = op {
        *op = Op::Getxattr(which.clone(), name);
    }
}

fn removes(op: &mut Op, oracle: &mut Oracle) {
    suit(op, oracle);
    match op {
        Op::Setxattr(.., how) => *how = SetXattr::Create,
        // Between two pages Linux's thread may work, ours does not.
        Op::Write(_, offset, data) => data.length = data.length.min(PAGE - *offset as usize % PAGE),
        _ => {}
    }
}

/// On NAND an fsync writes the attributes of an inode, and not in Linux: none are drawn there.
fn course(seed: u64) -> Course {
    let suit = if seed % 4 == 1 { replaces } else { removes };
    Course {
        steps: STEPS,
        parts: PARTS,
        gap_before,
        set,
        suit,
        after: Duration::from_secs(7),
        xattrs: seed % 2 == 1,
        most_blocks: None,
    }
}

/// By the seed: NAND of large or small pages, NOR of which little garbage is collected, or much.
fn geometry(seed: u64) -> Geometry {
    let nor = |pebs, peb_bytes| Geometry {
        medium: Medium::Nor,
        pebs,
        peb_bytes,
        page_bytes: 1,
        subpage_bytes: 1,
        oob_bytes: 0,
    };
    let nand = |pebs, peb_bytes, page_bytes| Geometry {
        medium: Medium::Nand,
        pebs,
        peb_bytes,
        page_bytes,
        subpage_bytes: page_bytes,
        oob_bytes: page_bytes / 32,
    };
    match seed % 4 {
        0 => nand(128, 32_768, 2048),
        1 => nor(64, 65_536),
        2 => nand(256, 16_384, 512),
        _ => nor(16, 32_768),
    }
}

/// Nothing is compressed, or what LZO makes shorter. Of zlib Linux makes other bytes.
fn compress(seed: u64) -> Compress {
    if (seed / 4).is_multiple_of(2) { Compress::None } else { Compress::Priority(&[Packer::Lzo]) }
}

fn options_of(seed: u64) -> &'static str {
    if compress(seed) == Compress::None { "compr=none" } else { "compr=lzo" }
}

fn guest(seed: u64) -> String {
    let Geometry { medium, pebs, peb_bytes, page_bytes, .. } = geometry(seed);
    let medium = if medium == Medium::Nor { "nor" } else { "nand" };
    let mount = options_of(seed);
    format!(
        "nand = {{ medium = '{medium}', pebs = {pebs}, peb_bytes = {peb_bytes}, page_bytes = {page_bytes}, subpage_bytes = {page_bytes} }}\n\
         guest.fs = {{ kind = 'jffs2', mount = '{mount}' }}"
    )
}

/// Makes the calls in a directory of Linux, from the beginning of a round of its clock since it booted.
fn on_linux(top: &Path, (seed, part): (u64, usize)) {
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = uptime.tv_sec as u64 * 1_000_000_000 + uptime.tv_nsec as u64;
    let begin = (now.next_multiple_of(ROUND * TICK) + BEGIN.0) - now;
    let begin = Instant::now() + Duration::from_nanos(begin);
    std::thread::sleep(begin.saturating_duration_since(Instant::now()));
    eprintln!("uptime {uptime:?}, begins {:?} after a second", since_second());
    course(seed).on_linux(top, (seed, part), begin);
}

/// Linux's thread: it sleeps for 50 ms before each pass for which there is work. A signal ends its sleep.
#[derive(Default)]
struct Thread {
    /// When it makes its next pass. Without one it waits for a signal.
    due: Option<Ns>,
    /// A signal waits that came while it waited for the lock.
    another: bool,
}

impl Thread {
    /// It begins, or has made a pass.
    fn sleep(&mut self, fs: &Jffs2<RamFlash>, cx: &Cx) {
        self.due = fs.has_work().then(|| fs.timer_ends(cx.now(), Ns(50_000_000)));
    }

    fn idle_until(&mut self, fs: &mut Jffs2<RamFlash>, cx: &mut Cx, until: Ns) {
        loop {
            let signals = fs.take_signals() + u32::from(std::mem::take(&mut self.another));
            if signals > 0 {
                self.due = Some(cx.now());
                self.another = signals > 1;
            }
            let flush = fs.flush_due(Ns(5_000_000_000));
            let Some(next) = self.due.into_iter().chain(flush).min().filter(|&next| next <= until) else { break };
            cx.wait_until(next);
            if self.due == Some(next) {
                fs.collect(cx).unwrap();
                // What it sends itself is one signal.
                self.another |= fs.take_signals() > 0;
                self.sleep(fs, cx);
            } else {
                fs.flush_waiting(cx).unwrap();
            }
        }
        cx.wait_until(until);
    }
}

/// Makes them on ours. Returns the flash.
fn on_ours(seed: u64) -> Vec<u8> {
    let cx = &mut Cx::new();
    let geometry = geometry(seed);
    let epoch = Timestamp { seconds: 2 * PRESENT, nanos: 0 };
    let mut options = Options {
        boot: Some(Boot::default()),
        summary: true,
        compress: compress(seed),
        epoch,
        page_cache_bytes: 1 << 26,
        ..Options::default()
    };
    let mut flash = RamFlash::new(geometry);
    for part in 0..PARTS {
        let mut fs = Jffs2::mount(flash, cx, options).unwrap();
        let mut thread = Thread::default();
        thread.sleep(&fs, cx);
        let begin = Ns((cx.now().0 + 1).next_multiple_of(ROUND * TICK)) + BEGIN;
        thread.idle_until(&mut fs, cx, begin);
        course(seed).on_ours(&mut fs, cx, (seed, part), |fs, cx, until| thread.idle_until(fs, cx, until));
        options.boot = Some(fs.boot());
        flash = fs.unmount(cx).unwrap();
    }
    let mut bytes = vec![0; geometry.bytes() as usize];
    for (peb, block) in (0..).zip(bytes.chunks_mut(geometry.peb_bytes as usize)) {
        flash.read(cx, Peb(peb), 0, block).unwrap();
    }
    bytes
}

/// All nodes: where, kind, length, inode, version, and a checksum of all but times of the run, which count from the first.
fn nodes(flash: &[u8]) -> Vec<String> {
    let short = |at: usize| u16::from_le_bytes(flash[at..at + 2].try_into().unwrap());
    let word = |at: usize| u32::from_le_bytes(flash[at..at + 4].try_into().unwrap());
    const INODE: u16 = 0xe002;
    const DIRENT: u16 = 0xe001;
    const XATTR: u16 = 0xe008;
    const XREF: u16 = 0xe009;
    let times = |kind: u16| -> &[usize] {
        match kind {
            INODE => &[32, 36, 40],
            DIRENT => &[24],
            _ => &[],
        }
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at + 12 <= flash.len() {
        let len = word(at + 4) as usize;
        if short(at) != 0x1985 || len < 12 || at + len > flash.len() {
            at += 4;
            continue;
        }
        found.push((at, short(at + 2), len));
        at += len.next_multiple_of(4);
    }
    let all_times = found.iter().flat_map(|&(at, kind, _)| times(kind).iter().map(move |&time| word(at + time)));
    let first = all_times.filter(|&time| u64::from(time) >= PRESENT).min().unwrap_or_default();
    let line = |&(at, kind, len): &(usize, u16, usize)| {
        let mut node = flash[at..at + len].to_vec();
        // Its checksum has the times in it: each side's must be right by itself.
        let checked = match kind {
            INODE => 60,
            DIRENT => 32,
            XREF => 24,
            _ => 0,
        };
        let stored = if kind == INODE { at + 64 } else { at + checked };
        let is_right = checked == 0 || media::crc(&node[..checked]) == word(stored);
        for &time in times(kind) {
            let seconds = word(at + time);
            if u64::from(seconds) >= PRESENT {
                node[time..time + 4].copy_from_slice(&(seconds - first).to_le_bytes());
            }
        }
        match kind {
            INODE => node[64..68].fill(0),
            DIRENT => node[32..36].fill(0),
            // The number is another after garbage collection: docs/decisions/0010-jffs2.md.
            XREF => node[20..28].fill(0),
            _ => {}
        }
        let text = match kind {
            INODE => format!(
                "inode {} version {} size {} offset {} {}->{} times {:?}",
                word(at + 12),
                word(at + 16),
                word(at + 28),
                word(at + 44),
                word(at + 52),
                word(at + 48),
                [32, 36, 40].map(|time| u32::from_le_bytes(node[time..time + 4].try_into().unwrap())),
            ),
            DIRENT => format!(
                "dirent of {} version {} to {} time {} {:.10}",
                word(at + 12),
                word(at + 16),
                word(at + 20),
                u32::from_le_bytes(node[24..28].try_into().unwrap()),
                node[40..].escape_ascii().to_string()
            ),
            XATTR => {
                format!("xattr {} version {} of {} and {}", word(at + 12), word(at + 16), node[21], short(at + 22))
            }
            XREF => format!("xref of {} to {} deleted {}", word(at + 12), word(at + 16), word(at + 20) & 1),
            0x2006 => node[12..].iter().map(|b| format!("{b:02x}")).collect(),
            _ => format!("{kind:04x}"),
        };
        let wrong = if is_right { "" } else { " with a wrong checksum" };
        format!("node {at:x} {len} {text}{wrong} {:08x}", crc32fast::hash(&node))
    };
    found.iter().map(line).collect()
}

#[test]
fn nodes_are_those_of_linux_where_linux_writes_them() {
    let system = System {
        course,
        guest,
        mount: |seed| format!("mount -t jffs2 -o {} mtd0 /mnt", options_of(seed)),
        on_linux,
        on_ours,
        nodes,
        fixture: include_str!("../../images/jffs2/nodes.txt"),
    };
    system.compare();
}
