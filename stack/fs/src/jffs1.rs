//! JFFS version 1, the journalling flash file system of Axis for Linux 2.0 to 2.6, on NOR.
//!
//! How does a file system survive a power cut on a flash of a few sectors? The whole flash is one circular log. Every
//! change is a node at its tail: the attributes and the name of an inode, and what is removed from its contents and what
//! is inserted. Memory knows every node. A mount reads the whole flash and plays the nodes of each inode in the order of
//! their versions. Garbage collection takes the oldest live node, at the head, and writes it anew at the tail, with as much
//! as possible of what follows in the file; sectors of dirt at the head are erased. So wear is even, and contents that
//! never change are copied again and again.
//!
//! The log is what makes it correct: of each inode an older version is always nearer to the head. It is erased first, so
//! what is on the flash is always the end of the history of an inode, and what a mount finds there beyond the live nodes
//! is played and superseded again.
//!
//! [`media`] is the format, `log` the places, `file` what nodes say of contents. `scan` is the mount, `collect` garbage
//! collection, `write` and `names` the operations.
//!
//! Behaviour as in Linux 2.6.12 (`fs/jffs`, the last but one of its makers' versions), except:
//!
//! - A hole is not filled with zeroes by garbage collection, which can fill the flash with them there. So a size must
//!   have a byte of data at its end: a truncation into a hole, or one that grows a file, writes a zero there. Linux forgets
//!   the size of a file that was grown.
//! - A directory has the number of links that `stat` has elsewhere in Linux; there and on the flash it is always 1.
//! - Who collects garbage gives up after a round of the log without a gain, where Linux goes on for ever: a writer has no
//!   space then, and the thread sleeps until something is written.
//! - A number of an inode that a node of a rename still names is not given to a new one.
//! - Before the rest of a node whose beginning is to be erased is cleared, sectors before its own are erased, and older nodes of
//!   its inode in its own are marked obsolete. Linux clears it first: if power fails then, a file that it deleted is back, and a
//!   file that it shortened has its old end.

mod collect;
mod file;
mod log;
pub mod media;
mod medium;
mod names;
mod scan;
mod seam;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

use sim::seam::{Flash, Timestamp};
use sim::{CpuPrice, Cx, Ns};

use file::File;
use log::Log;
use media::Endian;
use medium::Medium;
pub use medium::Work;

/// What a mount does before the file system can be used, besides the scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountGc {
    /// Nothing: the thread collects later. Linux 2.6.12.
    #[default]
    None,
    /// Garbage collection goes once round the log, past every node that the scan found: files become few large nodes.
    /// What the mailing list of June 2001 calls a full garbage collection.
    Full,
}

/// How a file system is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When virtual time 0 was.
    pub epoch: Timestamp,
    /// Byte order of the flash.
    pub endian: Endian,
    /// Sectors that must stay free for garbage collection: 4 in Linux 2.6.12. Before "people keep getting GC stuck" it was
    /// 2: one, and two times half a sector for nodes that cross its limits. Writers leave half a sector more.
    pub min_free_sectors: u32,
    /// Garbage collection of the mount.
    pub mount_gc: MountGc,
    /// Whether a node that becomes obsolete is marked so on the flash (`JFFS_MARK_OBSOLETE`, 0 in Linux 2.6.12).
    pub mark_obsolete: bool,
    /// Whether a mount reads the flash five times and erases sectors whose bits flip: an erase of them was interrupted.
    pub reread: bool,
    /// What the processor's work costs: `node_ps` for each element of a list that is visited, `crc_ps_per_byte` for each
    /// byte that is summed or compared, `copy_ps_per_byte` for each that is copied.
    pub cpu: CpuPrice,
    /// Deliberate mistakes. Only for testing tests.
    pub known_bad: KnownBad,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            epoch: Timestamp::default(),
            endian: Endian::default(),
            min_free_sectors: 4,
            mount_gc: MountGc::default(),
            mark_obsolete: false,
            reread: true,
            cpu: CpuPrice::FREE,
            known_bad: KnownBad::default(),
        }
    }
}

/// Deliberate mistakes, for testing the tests: each of them is caught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBad {
    /// A name that replaces another does not say which inode it replaces.
    pub forget_replaced: bool,
    /// The rest of a node whose beginning is erased stays as it is.
    pub keep_cut_nodes: bool,
    /// Data are believed without their checksum.
    pub trust_data: bool,
    /// The rest of a node whose beginning is to be erased is cleared before anything is erased, and the nodes before it stay
    /// valid, as in Linux.
    pub clear_first: bool,
}

/// Who waits for a pass of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nobody: it is the thread's.
    Nobody,
    /// A writer that needs space.
    Writer,
    /// The mount.
    Mount,
}

/// A pass of garbage collection: nodes are moved until sectors can be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Who waited for it.
    pub waiting: Waiting,
    /// When it began.
    pub start: Ns,
    /// How long it took, in which the thread may have slept.
    pub length: Ns,
    /// The first sector erased.
    pub victim: u32,
    /// Nodes written.
    pub nodes: u64,
    /// Bytes of these nodes.
    pub moved_bytes: u64,
    /// What was done.
    pub work: Work,
}

/// What a mount did, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountWork {
    /// Reads the flash again and again, to find bits that flip.
    pub reread: Work,
    /// Finds the nodes.
    pub scan: Work,
    /// Builds files and directories from them.
    pub build: Work,
    /// Collects garbage.
    pub collect: Work,
}

/// Bytes and nodes on the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Live nodes.
    pub nodes: u32,
    /// Bytes of contents that they hold: of files, targets of links, numbers of devices.
    pub data_bytes: u64,
    /// All other bytes of live nodes: raw inodes, names, padding, and contents that are superseded.
    pub header_bytes: u64,
    /// Bytes of dirt.
    pub dirty_bytes: u64,
    /// Erased bytes.
    pub free_bytes: u64,
}

/// Bytes on the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of live nodes.
    pub used_bytes: u64,
    /// Bytes of dirt.
    pub dirty_bytes: u64,
    /// Erased bytes.
    pub free_bytes: u64,
}

/// A mounted file system.
#[derive(Clone, Debug)]
pub struct Jffs1<F> {
    medium: Medium<F>,
    options: Options,
    log: Log,
    files: BTreeMap<u32, File>,
    next_ino: u32,
    next_cookie: u64,
    /// The pass that is under way.
    pass: Option<Pass>,
    passes: Vec<Pass>,
    mounted: MountWork,
    /// Chunks before this one are dirt that is one element of the list of chunks.
    passed: log::ChunkId,
    /// Sectors that the thread erased since something was written.
    futile: u32,
}

impl<F: Flash> Jffs1<F> {
    /// Largest node, in bytes: half a sector.
    fn max_chunk(&self) -> u32 {
        self.log.sector / 2
    }

    /// Bytes that stay free for garbage collection.
    fn min_free(&self) -> u32 {
        self.options.min_free_sectors * self.log.sector
    }

    /// Seconds since 1970.
    fn now(&self, cx: &Cx) -> u32 {
        self.options.epoch.after(cx.now()).seconds as u32
    }

    /// How it is mounted.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What was done since the mount began.
    pub fn work(&self) -> Work {
        self.medium.done
    }

    /// What the mount did.
    pub fn mounted(&self) -> &MountWork {
        &self.mounted
    }

    /// Passes of garbage collection since the mount began.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// What is on the flash.
    pub fn usage(&self) -> Usage {
        let held = self.files.values().flat_map(|file| file.nodes.values()).map(|node| u64::from(node.held));
        let data_bytes = held.sum();
        Usage {
            nodes: self.files.values().map(|file| file.nodes.len() as u32).sum(),
            data_bytes,
            header_bytes: u64::from(self.log.used) - data_bytes,
            dirty_bytes: self.log.dirty.into(),
            free_bytes: self.log.free().into(),
        }
    }

    /// Bytes on the flash, without a look at each node.
    pub fn space(&self) -> Space {
        let Log { used, dirty, .. } = self.log;
        Space { used_bytes: used.into(), dirty_bytes: dirty.into(), free_bytes: self.log.free().into() }
    }

    /// The flash, for its power.
    pub fn flash_mut(&mut self) -> &mut F {
        &mut self.medium.flash
    }

    /// The flash.
    pub fn flash(&self) -> &F {
        &self.medium.flash
    }

    /// Ends the mount. Nothing waits in memory.
    pub fn unmount(self) -> F {
        self.medium.flash
    }

    /// Holds what must always hold: log and files agree, directories form a tree. Panics where they do not.
    pub fn check(&self) {
        self.log.check();
        let live: Vec<_> = self.log.live().map(|(id, (ino, version))| (ino, version, id)).collect();
        for (ino, version, id) in &live {
            let node = self.files.get(ino).and_then(|file| file.nodes.get(version));
            assert_eq!(node.map(|node| node.chunk), Some(*id), "inode {ino}, version {version}");
        }
        let nodes: usize = self.files.values().map(|file| file.nodes.len()).sum();
        assert_eq!(nodes, live.len(), "nodes and live chunks");
        for (&ino, file) in &self.files {
            file.check(ino);
            assert!(!file.deleted || file.opens > 0, "inode {ino} is deleted and not open");
            assert_eq!(file.entries.len(), file.order.len(), "inode {ino}");
            for (cookie, name) in &file.order {
                let child = &self.files[&file.entries[name]];
                assert_eq!((child.pino, &child.name, child.cookie), (ino, name, *cookie), "in directory {ino}");
            }
            if ino != media::ROOT_INO && !file.deleted {
                assert_eq!(self.files[&file.pino].entries.get(&file.name), Some(&ino), "inode {ino}");
            }
        }
    }
}
