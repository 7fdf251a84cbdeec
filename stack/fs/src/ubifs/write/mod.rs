//! UBIFS that is mounted for writing.
//!
//! What changes is appended to the journal: nodes go through the write buffer of a journal *head* into LEBs of the main
//! area, its *buds*, which the *log* lists. A *commit* writes the index and the LEB properties that belong to them, and
//! empties the log. Before an operation its space is *budgeted*, so that what was accepted can always be written. *Garbage
//! collection* moves what is left in dirty LEBs.
//!
//! The rules are those of Linux 6.12: the order of writes, when a commit is due, which LEB is collected, how much is
//! reserved. What differs:
//!
//! - An operation runs to its end before the next one begins, and a commit too: Linux lets writers go on while it writes.
//! - All LEB properties are read at mount; Linux reads them as it needs them.
//! - Everybody is root, who may use the reserved space.
//!
//! A file system that met an error of the medium becomes read-only, as Linux's does.

mod attributes;
mod budget;
mod collect;
mod commit;
mod files;
mod index;
mod inodes;
mod journal;
mod log;
mod lpt;
mod mount;
mod names;
mod orphans;
mod seam;
mod space;
#[cfg(test)]
mod tests;

use sim::seam::{FsError, LebVolume, Timestamp};
use sim::{Cause, CpuPrice, Cx, Ns};

use super::error::{Result, UbifsError};
use super::index::{Index, NodeId};
use super::media::{BLOCK_BYTES, Compression, Master, SuperBlock, aligned, index_bytes, master_flags};
use super::nodes::{BASE_HEAD, DATA_HEAD, HEADS, Nodes, Stored};
use super::written::Written;
use crate::compress::{Compressor, Decompressor, Unpacked};
use budget::{Budget, Request};
use collect::Moving;
use inodes::Inodes;
use log::Log;
use lpt::Lpt;
use orphans::Orphans;
use space::Space;

/// How a file system is mounted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When virtual time 0 was.
    pub epoch: Timestamp,
    /// Largest write at once, in bytes, a power of two: the size of a write buffer. `None` is a write unit, as NAND has it.
    pub max_write_bytes: Option<u32>,
    /// How new data are compressed (mount option `compr`). `None` is what the super block says.
    pub compression: Option<Compression>,
    /// How long a write buffer may wait, and how often dirty inodes are looked at (`dirty_writeback_centisecs`).
    pub writeback_interval: Ns,
    /// How long an inode may be dirty (`dirty_expire_centisecs`).
    pub expire: Ns,
    /// What the processor's work costs once it is mounted: `node_ps` for each node written, read, or met by garbage collection,
    /// and for each index node written; `crc_ps_per_byte` for each of their bytes, and of a LEB that is scanned. Its
    /// `copy_ps_per_byte` is for those who call.
    pub cpu: CpuPrice,
    /// Deliberate mistakes. Only for testing tests.
    pub known_bad: KnownBad,
}

/// Deliberate mistakes, for testing the tests: a power-cut check must catch each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBad {
    /// `fsync` leaves what is in a write buffer there.
    pub skip_write_buffer: bool,
    /// The master node is written to its first LEB only.
    pub write_one_master: bool,
    /// A commit lists no orphans.
    pub forget_orphans: bool,
    /// A commit unmaps what the log held before the master node says that it is not needed.
    pub clean_log_first: bool,
    /// Recovery leaves what an unfinished commit wrote at the heads of the index and of the LEB properties.
    pub trust_heads: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            epoch: Timestamp::default(),
            max_write_bytes: None,
            compression: None,
            writeback_interval: Ns(5_000_000_000),
            expire: Ns(30_000_000_000),
            cpu: CpuPrice::FREE,
            known_bad: KnownBad::default(),
        }
    }
}

/// What was done since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits that wrote something.
    pub commits: u64,
    /// Of these, such as a writer had to wait for.
    pub commits_required: u64,
    /// LEBs from which garbage collection moved data.
    pub collected: u64,
    /// Bytes of nodes that it moved.
    pub moved_bytes: u64,
    /// LEBs of the index that it emptied.
    pub collected_index: u64,
    /// Index nodes written.
    pub index_nodes: u64,
    /// Of these, such as were written into gaps between others.
    pub index_nodes_in_gaps: u64,
    /// Data nodes written, and their bytes before compression.
    pub data_nodes: u64,
    /// Bytes of data before compression.
    pub data_bytes: u64,
}

/// When the next commit is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The journal has room.
    No,
    /// The background thread is to commit.
    Background,
    /// Nothing can be written before.
    Required,
}

/// A file system that is mounted for writing. Operations are those of [`FileSystem`](sim::seam::FileSystem).
#[derive(Clone, Debug)]
pub struct Ubifs<V> {
    nodes: Nodes<V>,
    sb: SuperBlock,
    options: Options,
    min_io: u32,
    leb_bytes: u32,
    master: Master,
    /// Offset of the newest master node in both LEBs.
    master_offset: u32,
    index: Index,
    /// Bytes of index nodes in use, and as of the last commit.
    index_bytes: u64,
    committed_index_bytes: u64,
    /// LEB and offset where the next index node goes.
    index_head: (u32, u32),
    /// Index nodes of the last commit that are no longer in use: LEB and offset.
    old_nodes: Vec<(u32, u32)>,
    /// LEBs of the index, as of the last commit, the dirtiest last.
    dirty_index: Vec<u32>,
    /// LEBs of the index that were emptied: they are unmapped when the next commit has ended.
    collected_index: Vec<u32>,
    /// LEBs of the index that the commit that runs has filled, still taken.
    full_index: Vec<u32>,
    space: Space,
    lpt: Lpt,
    log: Log,
    budget: Budget,
    orphans: Orphans,
    inodes: Inodes,
    /// Number of the last commit.
    commit: u64,
    due: Due,
    sqnum: u64,
    highest_ino: u32,
    /// The LEB that is kept empty for garbage collection.
    gc_lnum: Option<u32>,
    /// Why nothing can be written any more.
    broken: Option<&'static str>,
    pack: Compressor,
    unpack: Decompressor,
    /// Nodes of the operation that runs.
    batch: Vec<u8>,
    /// A block that is read or written, where bytes are kept.
    block: Box<[u8; BLOCK_BYTES as usize]>,
    /// The data node that is being made.
    packed: Vec<u8>,
    /// What is promised to the blocks that are being written.
    promised: Vec<Request>,
    /// Nodes of the LEB that is looked through, and those of them that garbage collection moves.
    found: Vec<Stored>,
    /// Nodes of the index that a commit writes.
    order: Vec<NodeId>,
    /// What these are on flash.
    stored: Vec<Stored>,
    moving: Moving,
    counters: Counters,
    /// When dirty inodes are looked at next.
    next_writeback: Ns,
    is_mounting: bool,
}

impl<V: LebVolume> Ubifs<V> {
    /// What was done since the mount.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes of the main area that are free, and bytes of what is obsolete.
    pub fn free_and_dirty(&self) -> (u64, u64) {
        let bytes = |total: i64| u64::try_from(total).unwrap_or(0);
        (bytes(self.space.totals.free), bytes(self.space.totals.dirty))
    }

    /// Bytes written to the volume since the mount began.
    pub fn written(&self) -> &Written {
        self.nodes.written()
    }

    /// Takes blocks that were decompressed before from `known`, and adds others.
    pub fn know(&mut self, known: &Unpacked) {
        self.unpack.know(known);
    }

    /// The volume.
    pub fn volume(&self) -> &V {
        self.nodes.volume()
    }

    /// The volume, for changes that UBIFS knows nothing of.
    pub fn volume_mut(&mut self) -> &mut V {
        self.nodes.volume_mut()
    }

    /// The super block.
    pub fn super_block(&self) -> &SuperBlock {
        &self.sb
    }

    /// Loses power: what is in memory is gone. Returns the volume.
    pub fn lose_power(self) -> V {
        self.nodes.into_volume()
    }

    fn next_sqnum(&mut self) -> u64 {
        self.sqnum += 1;
        self.sqnum
    }

    fn now(&self, cx: &Cx) -> (u64, u32) {
        let Timestamp { seconds, nanos } = self.options.epoch.after(cx.now());
        (seconds, nanos - nanos % self.sb.time_gran)
    }

    /// Whether a write up to `end` leaves an inode as it is: the file does not grow, and its times are already those of now,
    /// which are whole seconds where nobody made the file system otherwise (`time_gran`).
    fn is_as_before(&self, cx: &Cx, slot: u32, end: u64) -> bool {
        let (inode, now) = (self.inodes.at(slot), self.now(cx));
        end <= inode.size && (inode.mtime, inode.ctime) == (now, now)
    }

    fn compression(&self) -> Compression {
        self.options.compression.unwrap_or(self.sb.compression)
    }

    fn max_index_node(&self) -> u32 {
        aligned(index_bytes(self.sb.fanout as usize) as u32)
    }

    /// Refuses to go on after an error of the medium.
    fn is_whole(&self) -> Result<()> {
        match self.broken {
            Some(why) => Err(UbifsError::ReadOnly { why }),
            None => Ok(()),
        }
    }

    /// Runs a change. If it fails for another reason than space, the file system becomes read-only: what is in memory may
    /// no longer agree with itself.
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> std::result::Result<T, FsError> {
        self.is_whole()?;
        self.budget.begin();
        match change(self) {
            Ok(done) => Ok(done),
            Err(error @ (UbifsError::NoSpace | UbifsError::WriteBackFirst)) => Err(error.into()),
            Err(error) => {
                self.broken = Some("an earlier write failed");
                Err(error.into())
            }
        }
    }

    /// Counts what changes of the index made obsolete.
    fn settle(&mut self) {
        let gone = self.index.gone();
        for (lnum, _, len) in gone.leaves.drain(..) {
            self.space.add_dirt(lnum, len);
        }
        for (lnum, offset, len) in gone.nodes.drain(..) {
            self.space.add_dirt(lnum, len);
            self.index_bytes -= u64::from(aligned(len));
            self.old_nodes.push((lnum, offset));
        }
    }

    /// Writes a write buffer.
    fn flush_head(&mut self, cx: &mut Cx, head: usize) -> Result<()> {
        let lnum = self.nodes.head(head).lnum;
        if self.nodes.head(head).used() == 0 {
            return Ok(());
        }
        let padding = self.nodes.flush(cx, head)?;
        self.space.written(lnum, self.nodes.head(head).offset, padding);
        Ok(())
    }

    fn flush_heads(&mut self, cx: &mut Cx) -> Result<()> {
        (0..HEADS).try_for_each(|head| self.flush_head(cx, head))
    }

    /// When [`wake`](Self::wake) has something to do: a write buffer or an inode has waited long enough, or a commit is due.
    pub fn next_wake(&self) -> Option<Ns> {
        if self.broken.is_some() {
            return None;
        }
        if self.due != Due::No {
            return Some(Ns::ZERO);
        }
        let buffers = [BASE_HEAD, DATA_HEAD].into_iter().filter_map(|head| self.nodes.head(head).due);
        let inodes = (self.inodes.has_dirty() && !self.inodes.is_watched()).then_some(self.next_writeback);
        buffers.chain(inodes).min()
    }

    /// What Linux's background thread and its flusher do: writes what has waited long enough, and commits if that is due.
    /// Errors: as every operation.
    pub fn wake(&mut self, cx: &mut Cx) -> std::result::Result<(), FsError> {
        self.change(|fs| {
            let now = cx.now();
            for head in [BASE_HEAD, DATA_HEAD] {
                if fs.nodes.head(head).due.is_some_and(|due| due <= now) {
                    cx.because(Cause::Flush, |cx| fs.flush_head(cx, head))?;
                }
            }
            if fs.next_writeback <= now && !fs.inodes.is_watched() {
                let interval = fs.options.writeback_interval.0.max(1);
                fs.next_writeback = Ns((now.0 / interval + 1) * interval);
                let before = now.0.checked_sub(fs.options.expire.0);
                if let Some(before) = before {
                    fs.write_inodes(cx, Some(Ns(before)))?;
                }
            }
            if fs.due == Due::No { Ok(()) } else { fs.run_commit(cx) }
        })
    }

    /// Writes everything, commits and marks the file system as clean. Returns the volume.
    /// Errors: as every operation; the volume is then gone.
    pub fn unmount(mut self, cx: &mut Cx) -> std::result::Result<V, FsError> {
        self.finish(cx)?;
        Ok(self.nodes.into_volume())
    }

    /// Does what an unmount does, and writes nothing from then on: its counters can be asked for, then
    /// [`lose_power`](Self::lose_power) gives the volume.
    /// Errors: as every operation.
    pub fn finish(&mut self, cx: &mut Cx) -> std::result::Result<(), FsError> {
        self.change(|fs| {
            fs.sync_all(cx)?;
            fs.master.flags = fs.master.flags & !master_flags::DIRTY | master_flags::NO_ORPHANS;
            fs.master.gc_lnum = fs.gc_lnum.unwrap_or(fs.master.gc_lnum);
            fs.write_master(cx)?;
            fs.nodes.sync_volume(cx)
        })?;
        self.broken = Some("it was unmounted");
        Ok(())
    }

    fn sync_all(&mut self, cx: &mut Cx) -> Result<()> {
        self.write_inodes(cx, None)?;
        self.flush_heads(cx)?;
        self.run_commit(cx)?;
        self.nodes.sync_volume(cx)
    }

    /// Bytes of data in a block of the file system.
    const BLOCK: u64 = BLOCK_BYTES as u64;
}
