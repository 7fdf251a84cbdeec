//! The cache against the model, and each rule of write-back by arithmetic.

mod contents;
mod inner;
mod random;
mod rules;

use sim::seam::{FileSystem, Ino, NewInode, Payload, ReadInto};
use sim::{Cx, Ns};

use super::pages::Owner;
use super::share::Share;
use super::{Config, PageCache};
use inner::Inner;

const PAGE: u64 = 4096;

const fn ms(count: u64) -> Ns {
    Ns(count * 1_000_000)
}

const fn seconds(count: u64) -> Ns {
    ms(1000 * count)
}

/// So much memory that nothing is written but what is old.
const ROOMY: Config = Config::linux(1 << 30);

impl<F: FileSystem> PageCache<F> {
    /// Holds what must always hold. Panics where it does not.
    fn check(&self) {
        let (mut cached, mut dirty, mut queued, mut clean) = (0, 0, 0, Vec::new());
        for (slot, inode) in self.inodes.iter() {
            assert_eq!(self.inodes.find(inode.ino), Some(slot));
            for (index, page, is_dirty) in inode.table.pages() {
                let owner = Owner { inode: slot, index };
                assert_eq!(self.pages.owner(page), owner);
                assert!(index * PAGE < inode.size, "a page beyond the end of inode {}", inode.ino);
                assert!(!is_dirty || inode.queued.is_some(), "inode {} will never be written", inode.ino);
                cached += 1;
                dirty += u64::from(is_dirty);
                if !is_dirty {
                    clean.push((slot, index));
                }
            }
            queued += u64::from(inode.queued.is_some());
            let is_idle = inode.table.is_empty() && inode.opens == 0 && inode.queued.is_none();
            assert!(!is_idle, "inode {} is known for nothing", inode.ino);
        }
        let mut listed: Vec<_> = self.pages.listed().into_iter().map(|owner| (owner.inode, owner.index)).collect();
        listed.sort_unstable();
        clean.sort_unstable();
        assert_eq!(listed, clean);
        assert_eq!((self.pages.len(), self.dirty, self.inodes.queued()), (cached, dirty, queued));
        assert!(cached <= self.limits.memory && dirty < self.limits.dirty);
        assert!(queued == 0 || self.next_wake().is_some() || self.config.writeback_interval == Ns::ZERO);
    }
}

/// A cache with the clocks of a writer and of the flusher.
struct World {
    fs: PageCache<Inner>,
    cx: Cx,
    flusher: Cx,
}

impl World {
    fn new(config: Config) -> World {
        World::over(Inner::new(true), config)
    }

    /// A device that has written before, and has the whole background limit.
    fn over(inner: Inner, config: Config) -> World {
        let mut world = World::after_mount(inner, config);
        world.fs.share = Share::whole();
        world
    }

    fn after_mount(inner: Inner, config: Config) -> World {
        World { fs: PageCache::new(inner, config), cx: Cx::new(), flusher: Cx::new() }
    }

    fn create(&mut self, name: &str) -> Ino {
        let root = self.fs.root();
        self.fs.create(&mut self.cx, root, name.as_bytes(), NewInode::of_root(0o644)).unwrap().ino
    }

    /// Writes bytes that differ from page to page.
    fn write(&mut self, ino: Ino, offset: u64, length: u64) {
        let bytes: Vec<u8> = (offset..offset + length).map(|at| 1 + (at / PAGE % 255) as u8).collect();
        let written = self.fs.write(&mut self.cx, ino, offset, Payload::Bytes(&bytes));
        assert_eq!(written, Ok(length as u32));
        self.fs.check();
    }

    fn write_pages(&mut self, ino: Ino, first: u64, pages: u64) {
        self.write(ino, first * PAGE, pages * PAGE);
    }

    fn read(&mut self, ino: Ino, offset: u64, length: u32) -> Vec<u8> {
        let mut bytes = vec![0xee; length as usize];
        let read = self.fs.read(&mut self.cx, ino, offset, ReadInto::Bytes(&mut bytes)).unwrap();
        bytes.truncate(read as usize);
        self.fs.check();
        bytes
    }

    /// Lets the flusher do what is due until `at`, which is then the writer's time.
    fn idle_until(&mut self, at: Ns) {
        while self.fs.next_wake().is_some_and(|due| due.max(self.flusher.now()) <= at) {
            self.fs.wake(&mut self.flusher).unwrap();
            self.fs.check();
        }
        self.cx.wait_until(at);
    }

    /// Pages that reached the inner file system: time of the end of the call, inode, first page, number of pages.
    fn written(&mut self) -> Vec<(Ns, Ino, u64, u64)> {
        std::mem::take(&mut self.fs.inner_mut().written)
    }
}
