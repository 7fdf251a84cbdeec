//! Linux's page cache: a file system above another, which holds writes back.
//!
//! Contents of regular files are kept in pages of 4,096 bytes. A write makes pages dirty and returns; whether and when they
//! reach the inner file system decides how much a flash is worn: what is overwritten or deleted before is never written.
//!
//! What is modelled, as Linux 6.12 does it (`Documentation/admin-guide/sysctl/vm.rst`; `mm/page-writeback.c`,
//! `fs/fs-writeback.c`, `mm/readahead.c`, behaviour):
//!
//! - **Old pages.** The flusher wakes `writeback_interval` after the first inode became dirty, and again after each
//!   interval while there are any. It writes the inodes that became dirty `expire` ago or before, in that order, each from
//!   page to page. An inode that is written to again keeps the time at which it became dirty; `fsync` does not change it.
//!   An inode writes up to `chunk_bytes` and then lets others have their turn. The next turn goes on after the last page of
//!   that one; a turn does not wrap from the end of the file to its beginning. `fsync` and `sync` begin with the first page, and no turn goes on
//!   where they end: so since Linux 6.9 (`writeback_iter`).
//! - **Background limit.** Where more than `dirty_background_bytes` are dirty the flusher starts at once with every dirty
//!   inode. Where it wakes by itself the limit is the device's share of these, which is nothing before it has written a first page: that one is
//!   written after 5 s, not 30. It looks whether the limit is kept again after 100 ms, or when all have had a turn, and between two inodes
//!   only.
//! - **Limit.** A writer that reaches `dirty_bytes` waits while the flusher writes, until less is dirty.
//! - `fsync` writes the inode's pages and then calls the inner `fsync`; `sync` writes everything and then calls the inner
//!   `sync`. A write to an inode with [`InodeFlags::SYNC`](sim::seam::InodeFlags::SYNC) ends with an `fdatasync`.
//! - **Nothing is written** of pages that are cut off, punched out, or belong to an inode that lost its last name and its
//!   last opener. A page through which a cut goes is written before it, as by UBIFS.
//! - A write to part of a page that is not cached reads the page first, unless it begins at or beyond the end of the file.
//! - **Read-ahead** with the windows of Linux, where a file is read in sequence. UBIFS has none.
//! - **Budgets.** The inner file system learns whether a page that is written to was cached: UBIFS keeps space for an index node
//!   of one that was not, and of a hole ([`PageState`](sim::seam::PageState)).
//! - **Space.** A call for which the inner file system has no space waits while the flusher writes whole inodes, of at least 16 pages
//!   together, if that file system says that their promises are in the way, as UBIFS does
//!   ([`wants_write_back`](sim::seam::FileSystem::wants_write_back)).
//! - **Inodes.** The flusher has one list for pages and inodes: an inode that is dirty in the inner file system
//!   ([`next_dirtied`](sim::seam::FileSystem::next_dirtied)) has its turn as one with dirty pages has, and follows its pages
//!   ([`write_inode`](sim::seam::FileSystem::write_inode)). It stays in the list when something else has written it, as its `fsync`.
//! - **Failures.** A page whose write-back failed counts as clean: the next `fsync` of the inode and the next `sync` return
//!   the error, once each. The inner file system learns of a write by
//!   [`hold_back`](sim::seam::FileSystem::hold_back) when it is made, and may refuse it there: one that promises space
//!   needs no write-back to fail with `NoSpace`. One that does not implement it promises nothing.
//!
//! What is left out:
//!
//! - Linux slows writers down between the middle of both limits and the upper one; here they run freely up to it. It
//!   counts dirty pages of all file systems, this cache only its own. Limits are looked at after each page, in Linux after
//!   some.
//! - Linux lets an inode write more than 4 MiB at once on a fast device.
//! - Memory is a fixed number of pages, of which the clean one that was used longest ago is dropped. Linux has two lists,
//!   active and inactive, and other users of memory.
//! - Read-ahead takes place when a reader has used up the window before, not a little earlier; its state is the inode's,
//!   not the open file's.
//! - Attributes, names and extended attributes pass through.
//! - `O_DIRECT`, `mmap`, `sync_file_range`, `fallocate` that moves contents. Copying takes no time.
//!
//! JFFS2 holds no writes back. It keeps clean pages alone, and asks for them itself, in garbage collection too: `clean`.
//!
//! Where the inner file system keeps no bytes the cache keeps none either, and does all else the same.

mod clean;
mod flush;
mod inodes;
mod io;
mod pages;
mod seam;
mod share;
mod table;
#[cfg(test)]
mod tests;

use std::ops::Index;

use sim::Ns;
use sim::seam::{FileSystem, FsError};

pub(crate) use clean::CleanPages;
use flush::Flusher;
pub use flush::WriteBack;
use inodes::Inodes;
use pages::{PAGE, Pages};
use share::Share;

/// Sizes and times of a page cache. Sizes are rounded up to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Memory for pages, in bytes.
    pub memory_bytes: u64,
    /// Bytes above which the flusher starts (`vm.dirty_background_bytes`). As in Linux, a value that is not below
    /// `dirty_bytes` stands for half of it.
    pub dirty_background_bytes: u64,
    /// Bytes at which writers wait (`vm.dirty_bytes`); at least two pages.
    pub dirty_bytes: u64,
    /// Age from which a dirty inode is written (`vm.dirty_expire_centisecs`).
    pub expire: Ns,
    /// Time between two looks of the flusher (`vm.dirty_writeback_centisecs`); 0: it never looks for old inodes.
    pub writeback_interval: Ns,
    /// Largest window of read-ahead (`read_ahead_kb`); 0: none.
    pub read_ahead_bytes: u32,
    /// Bytes that an inode writes in a turn.
    pub chunk_bytes: u32,
    /// Most bytes of pages in sequence in a call of the inner file system.
    pub run_bytes: u32,
}

impl Config {
    /// Linux's defaults with so much memory available: `dirty_background_ratio` 10, `dirty_ratio` 20, expiry after 30 s,
    /// interval 5 s, read-ahead of 128 KiB, turns of 4 MiB.
    pub const fn linux(memory_bytes: u64) -> Config {
        Config {
            memory_bytes,
            dirty_background_bytes: memory_bytes / 10,
            dirty_bytes: memory_bytes / 5,
            expire: Ns(30_000_000_000),
            writeback_interval: Ns(5_000_000_000),
            read_ahead_bytes: 128 << 10,
            chunk_bytes: 4 << 20,
            run_bytes: 128 << 10,
        }
    }
}

/// The configuration in pages.
#[derive(Clone, Copy, Debug)]
struct Limits {
    memory: u64,
    background: u64,
    dirty: u64,
    read_ahead: u64,
    chunk: u64,
    run: u64,
}

impl Limits {
    fn new(config: &Config) -> Limits {
        let pages = |bytes: u64| bytes.div_ceil(PAGE.into());
        let (background, dirty) = (pages(config.dirty_background_bytes), pages(config.dirty_bytes).max(2));
        Limits {
            memory: pages(config.memory_bytes).max(1),
            background: if background >= dirty { dirty / 2 } else { background },
            dirty,
            read_ahead: pages(config.read_ahead_bytes.into()),
            chunk: pages(config.chunk_bytes.into()).max(1),
            run: pages(config.run_bytes.into()).max(1),
        }
    }
}

/// What the cache did, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages that a reader found.
    pub hits: u64,
    /// Pages that a reader did not find.
    pub misses: u64,
    /// Pages read from the inner file system.
    pub read: u64,
    /// Of these, such as nobody had asked for yet.
    pub read_ahead: u64,
    /// Of these, such as were read because a part of them was written.
    pub read_to_write: u64,
    /// Pages written back, by reason.
    pub written: Written,
    /// Calls in which they were written.
    pub calls: u64,
    /// Pages whose write-back failed.
    pub failed: u64,
    /// Dirty pages that were dropped and so never written.
    pub dropped: u64,
    /// Clean pages that were dropped to make room.
    pub evicted: u64,
}

/// Pages written back, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written([u64; WriteBack::ALL.len()]);

impl Written {
    /// The sum over all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<WriteBack> for Written {
    type Output = u64;
    fn index(&self, reason: WriteBack) -> &u64 {
        &self.0[reason as usize]
    }
}

/// A page cache over a file system. Numbers of inodes are dense: memory is needed for the highest one.
///
/// It is an actor too, the flusher: at [`next_wake`](Self::next_wake), [`wake`](Self::wake) is to be called with the
/// flusher's clock. So may the inner file system be, which the runner reaches by [`inner_mut`](Self::inner_mut).
#[derive(Clone, Debug)]
pub struct PageCache<F> {
    inner: F,
    config: Config,
    limits: Limits,
    keeps_bytes: bool,
    inodes: Inodes,
    pages: Pages,
    /// Dirty pages.
    dirty: u64,
    flusher: Flusher,
    share: Share,
    /// A failed write-back that no `sync` has reported.
    error: Option<FsError>,
    buffer: Vec<u8>,
    /// What was promised for pages that are written or dropped, page by page.
    are_new: Vec<bool>,
    counters: Counters,
}

impl<F: FileSystem> PageCache<F> {
    /// An empty cache.
    pub fn new(inner: F, config: Config) -> PageCache<F> {
        let keeps_bytes = inner.keeps_bytes();
        PageCache {
            inner,
            limits: Limits::new(&config),
            config,
            keeps_bytes,
            inodes: Inodes::default(),
            pages: Pages::new(keeps_bytes),
            dirty: 0,
            flusher: Flusher::default(),
            share: Share::default(),
            error: None,
            buffer: Vec::new(),
            are_new: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// The file system below.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The file system below, for what passes this cache by: files must not change there.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    /// Ends the cache; what is dirty is lost. Returns the file system below.
    pub fn into_inner(self) -> F {
        self.inner
    }

    /// What the cache did.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Dirty pages, in bytes.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty * u64::from(PAGE)
    }

    /// Pages, clean and dirty, in bytes.
    pub fn cached_bytes(&self) -> u64 {
        self.pages.len() * u64::from(PAGE)
    }

    /// Drops every clean page, as `vm.drop_caches` does.
    pub fn drop_clean(&mut self) {
        while let Some(owner) = self.pages.oldest() {
            self.drop_pages(owner.inode, owner.index, owner.index + 1);
            self.inodes.remove_if_idle(owner.inode);
        }
    }
}
