//! JFFS and JFFS2 as a run has them: a log on the flash, and a thread that collects garbage.

use fs::jffs2::Counters;
use fs::{cache, jffs1, jffs2};
use sim::seam::{FileSystem, FsError, Medium};
use sim::{Cx, Ns};

use super::ground::Ground;

/// Bytes of the flash by what they are.
#[derive(Clone, Copy)]
pub(in crate::run) struct Space {
    /// Of nodes that are needed.
    pub used: u64,
    /// Of what only garbage collection makes free.
    pub dirty: u64,
    /// Erased, or about to be.
    pub free: u64,
}

/// Pages that readers wanted from a page cache.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct PageReads {
    /// Were there.
    pub hits: u64,
    /// Were read from flash.
    pub misses: u64,
}

/// A file system that is mounted on flash itself.
pub(in crate::run) trait Jffs: FileSystem + Sized {
    /// What it is on.
    type Ground: Ground;
    /// How it is mounted.
    type Options: Copy;
    /// Its name in results.
    const KIND: &'static str;
    /// The name of its thread in flame graphs.
    const THREAD: &'static str;
    /// What Linux calls the same.
    const COMM: &'static str;

    /// Mounts what is on the flash.
    /// Errors: the file system's.
    fn mount(ground: Self::Ground, cx: &mut Cx, options: Self::Options) -> Result<Self, FsError>;

    /// Time of the processor to copy the bytes of a call, if the file system does not take it itself.
    fn copy(options: &Self::Options, bytes: u64) -> Ns;

    /// Parts of the mount, with the time that each took.
    fn parts(&self) -> Vec<(&'static str, Ns)>;

    /// What it is on.
    fn ground(&self) -> &Self::Ground;

    /// What it is on, for its power.
    fn ground_mut(&mut self) -> &mut Self::Ground;

    /// Ends it as a loss of power does.
    fn into_ground(self) -> Self::Ground;

    /// Unmounts it.
    /// Errors: the file system's.
    fn unmount(self, cx: &mut Cx) -> Result<Self::Ground, FsError>;

    /// Whether its thread is to be woken.
    fn has_work(&self) -> bool;

    /// Whether its thread could collect something if it was asked to.
    fn has_garbage(&self) -> bool;

    /// Whether everything was checked since the mount.
    fn is_checked(&self) -> bool;

    /// Whether it says itself when its thread is sent a signal. If not, a change that leaves work sends one.
    const SENDS_SIGNALS: bool;

    /// Signals that were sent to the thread since this was last asked.
    fn take_signals(&mut self) -> u32;

    /// When a sleep of the thread ends that is to take `span`.
    fn timer_ends(&self, from: Ns, span: Ns) -> Ns;

    /// Operations of the flash that a program has time for behind an erasure, while the thread looks at the block, and marks it,
    /// without the lock.
    fn looks_at_an_erased_block(ground: &Self::Ground) -> u64;

    /// A pass of its thread. Returns whether something was done.
    /// Errors: the file system's.
    fn pass(&mut self, cx: &mut Cx) -> Result<bool, FsError>;

    /// When a write buffer is to be written that may wait so long.
    fn flush_due(&self, interval: Ns) -> Option<Ns>;

    /// Writes it.
    /// Errors: the file system's.
    fn flush_waiting(&mut self, cx: &mut Cx) -> Result<(), FsError>;

    /// Blocks that are free.
    fn free_blocks(&self) -> u32;

    /// Bytes of the flash.
    fn space(&self) -> Space;

    /// What JFFS2 counted since the mount; nothing of another one.
    fn counters(&self) -> Counters;

    /// Pages that readers wanted since the mount; none without a page cache.
    fn page_reads(&self) -> PageReads;
}

impl<G: Ground> Jffs for jffs2::Jffs2<G> {
    type Ground = G;
    type Options = jffs2::Options;
    const KIND: &'static str = "jffs2";
    const THREAD: &'static str = "JFFS2";
    const COMM: &'static str = "jffs2_gcd_mtd1";

    fn mount(ground: G, cx: &mut Cx, options: jffs2::Options) -> Result<Self, FsError> {
        Ok(jffs2::Jffs2::mount(ground, cx, options)?)
    }

    fn copy(options: &jffs2::Options, bytes: u64) -> Ns {
        options.cpu.copy(bytes)
    }

    fn parts(&self) -> Vec<(&'static str, Ns)> {
        let mounted = self.mounted();
        vec![("scan", mounted.scan), ("build", mounted.build)]
    }

    fn ground(&self) -> &G {
        self.flash()
    }

    fn ground_mut(&mut self) -> &mut G {
        self.flash_mut()
    }

    fn into_ground(self) -> G {
        self.into_flash()
    }

    fn unmount(self, cx: &mut Cx) -> Result<G, FsError> {
        Ok(jffs2::Jffs2::unmount(self, cx)?)
    }

    fn has_work(&self) -> bool {
        jffs2::Jffs2::has_work(self)
    }

    fn has_garbage(&self) -> bool {
        jffs2::Jffs2::has_garbage(self)
    }

    fn is_checked(&self) -> bool {
        jffs2::Jffs2::is_checked(self)
    }

    const SENDS_SIGNALS: bool = true;

    fn take_signals(&mut self) -> u32 {
        jffs2::Jffs2::take_signals(self)
    }

    fn timer_ends(&self, from: Ns, span: Ns) -> Ns {
        jffs2::Jffs2::timer_ends(self, from, span)
    }

    fn looks_at_an_erased_block(ground: &G) -> u64 {
        if ground.ubi().is_some() {
            // UBI answers for a LEB that it has unmapped.
            return 0;
        }
        let geometry = ground.geometry();
        let calls = u64::from(geometry.peb_bytes.div_ceil(jffs2::media::PAGE_BYTES)) + 1;
        match geometry.medium {
            Medium::Nand => calls,
            // Linux writes a node's header by one call and its data by another, and one of the thread's comes before each.
            Medium::Nor => calls.div_ceil(2),
        }
    }

    fn pass(&mut self, cx: &mut Cx) -> Result<bool, FsError> {
        Ok(self.collect(cx)?)
    }

    fn flush_due(&self, interval: Ns) -> Option<Ns> {
        jffs2::Jffs2::flush_due(self, interval)
    }

    fn flush_waiting(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        Ok(jffs2::Jffs2::flush_waiting(self, cx)?)
    }

    fn free_blocks(&self) -> u32 {
        jffs2::Jffs2::free_blocks(self)
    }

    fn space(&self) -> Space {
        let jffs2::Space { used, dirty, free, .. } = jffs2::Jffs2::space(self);
        Space { used, dirty, free }
    }

    fn counters(&self) -> Counters {
        *jffs2::Jffs2::counters(self)
    }

    fn page_reads(&self) -> PageReads {
        let cache::Counters { hits, misses, .. } = *self.page_cache();
        PageReads { hits, misses }
    }
}

/// JFFS has no write buffer, and checks everything when it is mounted.
impl<G: Ground> Jffs for jffs1::Jffs1<G> {
    type Ground = G;
    type Options = jffs1::Options;
    const KIND: &'static str = "jffs1";
    const THREAD: &'static str = "JFFS";
    const COMM: &'static str = "jffs_gcd";

    fn mount(ground: G, cx: &mut Cx, options: jffs1::Options) -> Result<Self, FsError> {
        jffs1::Jffs1::mount(ground, cx, options)
    }

    fn copy(_: &jffs1::Options, _: u64) -> Ns {
        Ns::ZERO
    }

    fn parts(&self) -> Vec<(&'static str, Ns)> {
        let mounted = self.mounted();
        let parts = [
            ("reread", mounted.reread),
            ("scan", mounted.scan),
            ("build", mounted.build),
            ("collect", mounted.collect),
        ];
        parts.map(|(part, work)| (part, work.time())).to_vec()
    }

    fn ground(&self) -> &G {
        self.flash()
    }

    fn ground_mut(&mut self) -> &mut G {
        self.flash_mut()
    }

    fn into_ground(self) -> G {
        jffs1::Jffs1::unmount(self)
    }

    fn unmount(self, _: &mut Cx) -> Result<G, FsError> {
        Ok(jffs1::Jffs1::unmount(self))
    }

    fn has_work(&self) -> bool {
        self.next_wake().is_some()
    }

    fn has_garbage(&self) -> bool {
        false
    }

    fn is_checked(&self) -> bool {
        true
    }

    const SENDS_SIGNALS: bool = false;

    fn take_signals(&mut self) -> u32 {
        0
    }

    fn timer_ends(&self, from: Ns, span: Ns) -> Ns {
        from + span
    }

    fn looks_at_an_erased_block(_: &G) -> u64 {
        0
    }

    fn pass(&mut self, cx: &mut Cx) -> Result<bool, FsError> {
        self.wake(cx).map(|()| true)
    }

    fn flush_due(&self, _: Ns) -> Option<Ns> {
        None
    }

    fn flush_waiting(&mut self, _: &mut Cx) -> Result<(), FsError> {
        Ok(())
    }

    fn free_blocks(&self) -> u32 {
        (self.space().free_bytes / u64::from(self.ground().geometry().peb_bytes)) as u32
    }

    fn space(&self) -> Space {
        let jffs1::Space { used_bytes, dirty_bytes, free_bytes } = jffs1::Jffs1::space(self);
        Space { used: used_bytes, dirty: dirty_bytes, free: free_bytes }
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn page_reads(&self) -> PageReads {
        PageReads::default()
    }
}
