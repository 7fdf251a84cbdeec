//! JFFS2 on raw flash, NOR, or NAND by way of a write buffer, and on a volume of UBI ([`Gluebi`]).
//!
//! [`media`] is the format. A mount looks at every eraseblock, or at the summary at its end, and finds out which node is of
//! which inode; nothing on flash says so otherwise. `blocks` keeps the books, `space` grants room for nodes, `collect` moves
//! what is in use out of blocks that have obsolete nodes, so that they can be erased.

mod attributes;
mod blocks;
pub mod check;
mod collect;
mod damage;
mod device;
mod error;
mod files;
mod gluebi;
pub mod image;
mod inode;
mod load;
pub mod media;
pub mod mkfs;
mod mount;
mod names;
mod numbered;
mod retry;
mod runs;
mod scan;
mod seam;
mod space;
mod statistics;
#[cfg(test)]
mod tests;
mod write;
mod xattrs;

use sim::seam::{Flash, Timestamp};
use sim::{CpuPrice, Cx, Ns};

use self::blocks::{Blocks, NodeState, Owner};
use self::damage::Damages;
use self::device::Device;
use self::inode::Inode;
use self::media::Endian;
use self::numbered::Numbered;
use self::xattrs::Xattrs;
use crate::cache::{self, CleanPages};
use crate::compress::{Compressor, Decompressor, Unpacked};

pub use self::collect::Victim;
pub use self::damage::{Damage, Lost};
pub use self::error::{Jffs2Error, Result};
pub use self::gluebi::Gluebi;
pub use self::runs::Run;
pub use self::space::Levels;
pub use self::statistics::{BlockCounts, Packed, Statistics};

/// How data are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compress {
    /// Not at all.
    None,
    /// By the first of these that makes them shorter.
    Priority(&'static [Packer]),
    /// By the one of these that makes them shortest.
    Size(&'static [Packer]),
}

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packer {
    /// LZO1X.
    Lzo,
    /// zlib.
    Zlib,
    /// JFFS2's run-length code.
    Rtime,
}

impl Packer {
    /// Every one, in Linux's order of priority: 80, 60 and 50.
    pub const ALL: &'static [Packer] = &[Packer::Lzo, Packer::Zlib, Packer::Rtime];
}

/// Deliberate mistakes, to see whether tests find them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBad {
    /// An fsync leaves the write buffer alone.
    pub skip_write_buffer: bool,
    /// Data are obsolete on flash before those that replace them are written.
    pub obsolete_first: bool,
    /// A name that is removed leaves no node, though older nodes of it are on flash.
    pub no_deletion: bool,
    /// A page that waits in the write buffer is not padded for a sync or an fsync: it is written when it is full.
    pub no_padding: bool,
    /// A block is erased though the nodes that replace its own wait in the write buffer.
    pub erase_early: bool,
    /// A summary is believed though the nodes that it names are gone.
    pub trust_summary: bool,
    /// What waits in the write buffer is dropped when its program fails.
    pub drop_after_failure: bool,
}

/// What Linux keeps from one mount to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// When its clock began to tick.
    pub at: Ns,
    /// A sum of versions that mounts have found.
    pub versions: u32,
    /// Blocks that waited for the write buffer so far.
    pub awaited: u64,
}

/// How a file system is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Byte order of the nodes; `None`: that of the first one, little-endian if there is none.
    pub endian: Option<Endian>,
    /// Whether a full block gets a summary (`CONFIG_JFFS2_SUMMARY`). Nodes are then not marked obsolete on flash.
    pub summary: bool,
    /// Whether a summary is believed only where the first node that it names is there. Linux believes each: of a block whose
    /// erasure a loss of power cut short the summary may be left, and the nodes that it names, which are gone, replace those
    /// that garbage collection had moved elsewhere. Files are lost then.
    pub verify_summary: bool,
    /// How data are compressed.
    pub compress: Compress,
    /// Which block garbage is collected from next.
    pub victim: Victim,
    /// When virtual time 0 was.
    pub epoch: Timestamp,
    /// What Linux has kept since it booted; `None`: it boots with the mount.
    pub boot: Option<Boot>,
    /// Ticks of Linux's clock in a second: some of its choices go by the tick.
    pub hz: u32,
    /// Time of the processor.
    pub cpu: CpuPrice,
    /// Memory for pages of files, Linux's page cache, in bytes; 0: none, and every read is one of the flash.
    pub page_cache_bytes: u64,
    /// Nothing is written.
    pub read_only: bool,
    /// Whether anybody looks at what files hold. If not, programs need not make it: a write of a length is one of zeroes.
    pub has_contents: bool,
    /// Deliberate mistakes.
    pub known_bad: KnownBad,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            endian: None,
            summary: false,
            verify_summary: false,
            compress: Compress::Priority(Packer::ALL),
            victim: Victim::default(),
            epoch: Timestamp::default(),
            boot: None,
            hz: 100,
            cpu: CpuPrice::FREE,
            page_cache_bytes: 0,
            read_only: false,
            has_contents: true,
            known_bad: KnownBad::default(),
        }
    }
}

/// What was done since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// How often room was made for what a program writes; for each time Linux takes the lock.
    pub reserved: u64,
    /// Passes of garbage collection.
    pub passes: u64,
    /// Passes that a writer waited for.
    pub foreground: u64,
    /// Nodes that garbage collection copied as they were, and bytes of them.
    pub copied: u64,
    /// Bytes of nodes copied as they were.
    pub copied_bytes: u64,
    /// Nodes that garbage collection wrote anew.
    pub rewritten: u64,
    /// Nodes that garbage collection wrote, and thus moved, in either way.
    pub moved: u64,
    /// Bytes of nodes that garbage collection wrote.
    pub moved_bytes: u64,
    /// Blocks erased.
    pub erased: u64,
    /// Summaries written.
    pub summaries: u64,
    /// Programs that failed and were repeated elsewhere.
    pub failed_programs: u64,
    /// Nodes that were written again since the page in which they waited could not be programmed.
    pub rescued: u64,
    /// Nodes that a mount or a check of inodes found damaged.
    pub damaged: u64,
}

/// The time that a mount took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mounted {
    /// The look at the flash.
    pub scan: Ns,
    /// What follows from it: which names inodes have. Checks of data come later, by the thread.
    pub build: Ns,
}

/// Bytes of the flash by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Of nodes that are needed, and of such as nobody has checked since the mount.
    pub used: u64,
    /// Of what is obsolete or cannot be used.
    pub dirty: u64,
    /// Erased, or about to be.
    pub free: u64,
    /// Of bad blocks.
    pub bad: u64,
}

/// What flash has of an inode.
#[derive(Clone, Debug, Default)]
struct Cache {
    /// Nodes on flash, obsolete ones too where only an erasure takes them away.
    nodes: Vec<u32>,
    /// Names of a file; the directory above of a directory. 0: none, it goes.
    links: u32,
    is_dir: bool,
    /// The highest version of its nodes, obsolete ones too: an obsolete node may be found again by the next mount.
    version: u32,
    /// Its nodes have been checked since the mount.
    is_checked: bool,
}

/// What a summary of the block that is written will say.
#[derive(Clone, Debug, Default)]
struct Collected {
    entries: Vec<media::Entry>,
    bytes: u32,
    padding: u32,
    /// There is a node in the block that a summary cannot name.
    is_disabled: bool,
}

/// A file system that is mounted.
#[derive(Clone, Debug)]
pub struct Jffs2<F> {
    device: Device<F>,
    blocks: Blocks,
    caches: Numbered<Cache>,
    inodes: Numbered<Box<Inode>>,
    /// Pages of files that are in `inodes`.
    pages: CleanPages,
    xattrs: Xattrs,
    options: Options,
    boot: Boot,
    levels: Levels,
    highest_ino: u32,
    /// Inodes that are to be checked, the next one last.
    to_check: Vec<u32>,
    collected: Collected,
    /// The tick at which garbage collection chose a block last, and how often it had done so in that tick.
    last_draw: (u64, u64),
    /// Room was made for a node, and what it was made for is not known to be over.
    is_reserved: bool,
    /// Signals that were sent to the thread, and that it has not seen.
    signals: u32,
    counters: Counters,
    mounted: Mounted,
    damages: Damages,
    /// Blocks whose summary was not believed, since the first node that it names is not there.
    stale_summaries: Vec<u32>,
    packer: Compressor,
    unpacker: Decompressor,
    scratch: Vec<u8>,
    /// Data of a node that is read.
    unpacked: Vec<u8>,
    /// Part of a page that a write changes.
    to_write: Vec<u8>,
    node: Vec<u8>,
    /// Why nothing may be written any more.
    broken: Option<&'static str>,
    retries: retry::Retries,
}

/// Inodes kept in memory between two operations.
const MOST_INODES: usize = 1 << 14;

impl<F: Flash> Jffs2<F> {
    /// What was done since the mount.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What the page cache did since the mount.
    pub fn page_cache(&self) -> &cache::Counters {
        self.pages.counters()
    }

    /// The time that the mount took.
    pub fn mounted(&self) -> &Mounted {
        &self.mounted
    }

    /// Bytes of the flash by what they are.
    pub fn space(&self) -> Space {
        let blocks::Sizes { used, unchecked, dirty, wasted, free, .. } = self.blocks.totals;
        let bad = u64::from(self.blocks.count(blocks::List::Bad)) * u64::from(self.blocks.block_bytes);
        Space {
            used: u64::from(used) + u64::from(unchecked),
            dirty: u64::from(dirty) + u64::from(wasted),
            free: u64::from(free) + u64::from(self.blocks.erasing_bytes),
            bad,
        }
    }

    /// Whether everything on flash was checked since the mount.
    pub fn is_checked(&self) -> bool {
        self.blocks.totals.unchecked == 0
    }

    /// Whether there are blocks of which garbage collection would make others free.
    pub fn has_garbage(&self) -> bool {
        use blocks::List::{BadUsed, Dirty, Erasable, VeryDirty};
        [Dirty, VeryDirty, Erasable, BadUsed].iter().any(|&list| self.blocks.first(list).is_some())
    }

    /// Blocks that are free, or will be without garbage collection.
    pub fn free_blocks(&self) -> u32 {
        self.blocks.count(blocks::List::Free) + self.blocks.erasing
    }

    /// Shares blocks that were decompressed with others.
    pub fn know(&mut self, known: &Unpacked) {
        self.unpacker.know(known);
    }

    /// The flash below.
    pub fn flash(&self) -> &F {
        self.device.flash()
    }

    /// The flash below.
    pub fn flash_mut(&mut self) -> &mut F {
        self.device.flash_mut()
    }

    /// How it was mounted.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// For the next mount, if Linux does not boot before.
    pub fn boot(&self) -> Boot {
        self.boot
    }

    /// The thresholds of space.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Whether nothing is written: it was mounted so, or the flash failed.
    pub fn is_read_only(&self) -> bool {
        self.may_write().is_err()
    }

    /// Byte order of the numbers on flash.
    pub fn endian(&self) -> Endian {
        self.device.endian()
    }

    /// The flash, as a loss of power leaves it: what waits is not written.
    pub fn into_flash(self) -> F {
        self.device.into_flash()
    }

    /// Why nothing is written any more: programs failed, and what was not synchronized may be lost. `None`: all is well.
    pub fn failed(&self) -> Option<&'static str> {
        self.broken
    }

    /// Unmounts: what waits is written, unless programs [failed](Jffs2::failed).
    /// Errors: the flash's.
    pub fn unmount(mut self, cx: &mut Cx) -> Result<F> {
        if !self.options.read_only {
            self.flush(cx)?;
        }
        Ok(self.device.into_flash())
    }

    /// Seconds since 1970.
    fn now(&self, cx: &Cx) -> u32 {
        u32::try_from(self.options.epoch.after(cx.now()).seconds).unwrap_or(u32::MAX)
    }

    /// Linux's tick (`jiffies`). Modulo 128 it decides what garbage collection takes. It begins when the device is switched on, which
    /// is taken to be when it mounts, five minutes before its low 32 bits overflow.
    /// Source: Linux 6.12, `INITIAL_JIFFIES`.
    fn tick(&self, cx: &Cx) -> u64 {
        self.tick_at(cx.now())
    }

    fn tick_at(&self, time: Ns) -> u64 {
        let hz = self.options.hz;
        let since = u128::from(time.0.saturating_sub(self.boot.at.0)) * u128::from(hz) / 1_000_000_000;
        u64::from(hz.wrapping_mul(300).wrapping_neg()).wrapping_add(since as u64)
    }

    /// Whether nodes become obsolete on flash when they do.
    /// Source: Linux 6.12, `jffs2_can_mark_obsolete`.
    fn marks_obsolete(&self) -> bool {
        self.device.may_program_again() && !self.options.summary
    }

    fn bound_memory(&mut self) {
        if self.inodes.len() > MOST_INODES {
            self.inodes.retain(|inode| inode.opens > 0);
            self.pages.retain(|ino| self.inodes.has(ino));
        }
    }

    /// Bytes to the next node of all nodes of what is needed, and of all blocks: for reports.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.blocks.totals.used + self.blocks.totals.unchecked)
    }

    /// Bytes that are neither in use nor bad.
    pub fn free_bytes(&self) -> u64 {
        let blocks::Sizes { dirty, free, .. } = self.blocks.totals;
        u64::from(dirty + free + self.blocks.erasing_bytes)
    }

    /// A node that nobody needs any more.
    fn obsolete(&mut self, cx: &mut Cx, id: u32) -> Result<()> {
        if self.blocks.node(id).state == NodeState::Obsolete {
            return Ok(());
        }
        let how = self.obsoleting(cx);
        self.blocks.obsolete(id, how);
        if !self.marks_obsolete() || self.options.read_only {
            return Ok(());
        }
        self.mark_obsolete(cx, id)
    }

    /// A node is no longer on flash, or is marked obsolete there.
    fn forget_node(&mut self, id: u32, owner: Owner) {
        match owner {
            Owner::Inode(ino) => {
                if let Some(cache) = self.caches.get_mut(ino) {
                    if let Some(at) = cache.nodes.iter().position(|&other| other == id) {
                        cache.nodes.remove(at);
                    }
                    if cache.nodes.is_empty() && cache.links == 0 {
                        self.caches.remove(ino);
                    }
                }
            }
            Owner::Xattr(xid) => self.xattrs.forget_datum(xid, id),
            Owner::Xref(ino, xid) => self.xattrs.forget_ref(ino, xid, id),
            Owner::None => {}
        }
    }

    fn spend(&self, cx: &mut Cx, nodes: u64, bytes: u64) {
        let cpu = &self.options.cpu;
        let span: Ns = cpu.nodes(nodes) + cpu.crc(bytes);
        if span > Ns::ZERO {
            cx.spend(span);
        }
    }
}
