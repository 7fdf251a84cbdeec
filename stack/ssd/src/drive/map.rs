//! A mapping table in flash, of which the controller's memory holds a part (DFTL).
//!
//! Map pages are logical pages behind the host's: they are striped, placed and garbage-collected as all pages are, and
//! each unit's own table is the directory that locates them. An operation on a page whose entry is not cached waits
//! until its map page is read. If a modified entry is evicted for it, the write of that entry's map page is queued
//! first. When garbage collection copies a page whose entry is not cached, the map page is written as well. The
//! simulator itself keeps the whole table in memory and models the flash operations that the drive would need.

use sim::seam::Flash;
use sim::{Cause, Ns};

use super::Ssd;
use crate::ShapeError;
use crate::dispatch::Dispatcher;
use crate::dispatch::io::{Io, IoKind, Owner};
use crate::ftl::UnitFtl;
use crate::ftl::map_cache::{Access, MapCache, MapCacheConfig, MapCacheCounts};

/// An operation that waits for a map page.
#[derive(Clone, Debug)]
// Few wait, and nearly all are operations: a box would be an allocation for each.
#[allow(clippy::large_enum_variant)]
enum Waiting {
    /// A page operation, with the time at which its wait began in nanoseconds, its contents, and the mask of their
    /// valid sectors.
    Io(Io, u64, Vec<u8>, u128),
    /// An HPB command that needs the map page itself, by its tag.
    Command(u32),
}

/// The map cache in the drive, and the operations that wait for map pages.
#[derive(Clone, Debug)]
pub(super) struct MapLayer {
    cache: MapCache,
    /// Logical page number, in the drive, of the first map page.
    first: u32,
    /// Map pages that are being read, each with the operations that wait for it.
    loading: Vec<(u32, Vec<Waiting>)>,
    /// Map pages read and written.
    reads: u64,
    writes: u64,
    /// Map pages whose write is in progress, by number. Changes meanwhile are part of it.
    queued: Vec<bool>,
    /// Erase count of the flash when the current batch of garbage collection began.
    erases: u64,
}

impl MapLayer {
    pub(super) fn new(config: MapCacheConfig, pages: u32) -> Result<MapLayer, ShapeError> {
        let queued = vec![false; config.map_pages() as usize];
        Ok(MapLayer {
            queued,
            cache: MapCache::new(config)?,
            first: pages,
            loading: Vec::new(),
            reads: 0,
            writes: 0,
            erases: 0,
        })
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Queues a page operation on its die as soon as the page's mapping entry is in memory.
    #[inline(always)]
    pub(super) fn push_io(&mut self, io: Io, contents: Vec<u8>, mask: u128) {
        if self.map.is_some() {
            return self.push_by_map(io, contents, mask);
        }
        self.push_now(io, contents, mask);
    }

    fn push_by_map(&mut self, io: Io, contents: Vec<u8>, mask: u128) {
        let lpn = self.striping.lpn(io.unit, io.lpn);
        if !self.entry_at_hand(lpn, io.kind != IoKind::Read) {
            return self.wait_for_map(lpn, Waiting::Io(io, self.now, contents, mask));
        }
        self.push_now(io, contents, mask);
    }

    /// Loads the mapping entries of pages `from..to` for a command, which continues when all their map pages are in
    /// memory.
    pub(super) fn load_map(&mut self, tag: u32, from: u32, to: u32) {
        let mut pending = 0;
        if let Some(map) = &self.map {
            let entries = map.cache.config().entries_per_page();
            for page in from / entries..to.div_ceil(entries) {
                let lpn = (page * entries).max(from);
                if !self.entry_at_hand(lpn, false) {
                    self.wait_for_map(lpn, Waiting::Command(tag));
                    pending += 1;
                }
            }
        }
        self.requests[tag as usize].pending = pending;
        if pending == 0 {
            self.map_is_here(tag);
        } else {
            self.kick();
        }
    }

    #[inline(always)]
    pub(super) fn push_now(&mut self, io: Io, contents: Vec<u8>, mask: u128) {
        let at = self.dispatcher.push(Ns(self.now), io);
        // A read keeps the memory of an earlier operation with its number.
        if F::KEEPS_BYTES && !contents.is_empty() {
            self.dispatcher.ios.set_page(at, contents, mask);
        }
    }

    /// Whether the mapping entry of a page is cached. If it is not, starts reading its map page.
    fn entry_at_hand(&mut self, lpn: u32, write: bool) -> bool {
        let Some(map) = &mut self.map else { return true };
        let page = lpn / map.cache.config().entries_per_page();
        match map.cache.access(lpn, write) {
            Access::Hit => !map.loading.iter().any(|(loading, _)| *loading == page),
            Access::Miss { load, evict_dirty } => {
                let at = map.first + load;
                if let Some(dirty) = evict_dirty {
                    self.write_map(dirty);
                }
                let (unit, local) = self.striping.locate(at);
                if self.dispatcher.is_unmapped(unit, local) {
                    return true; // the table's page was never written: all its entries are empty
                }
                let Some(map) = &mut self.map else { return true };
                map.reads += 1;
                map.loading.push((load, Vec::new()));
                let read = Dispatcher::<F, M>::io(IoKind::Read, Cause::Map, unit, local, Owner::MapRead { page: load });
                self.push_now(read, Vec::new(), 0);
                false
            }
        }
    }

    fn wait_for_map(&mut self, lpn: u32, who: Waiting) {
        let Some(map) = &mut self.map else { return };
        let page = lpn / map.cache.config().entries_per_page();
        match map.loading.iter_mut().find(|(loading, _)| *loading == page) {
            Some((_, waiting)) => waiting.push(who),
            None => unreachable!("an entry that is not at hand is being loaded"),
        }
    }

    /// Writes back a map page: it is read, modified and programmed. A write in progress is not repeated.
    fn write_map(&mut self, page: u32) {
        let Some(map) = &mut self.map else { return };
        if std::mem::replace(&mut map.queued[page as usize], true) {
            return;
        }
        map.writes += 1;
        let (unit, local) = self.striping.locate(map.first + page);
        let write = Dispatcher::<F, M>::io(IoKind::Merge, Cause::Map, unit, local, Owner::MapWrite { page });
        let contents = F::kept(|| vec![0; 512 << self.page_shift]).unwrap_or_default();
        self.push_now(write, contents, 0);
    }

    /// Notes that the write of a map page is complete.
    pub(super) fn map_written(&mut self, page: u32) {
        if let Some(map) = &mut self.map {
            map.queued[page as usize] = false;
        }
    }

    /// A map page is in memory: continues the operations that waited for it.
    pub(super) fn map_loaded(&mut self, page: u32) {
        let Some(map) = &mut self.map else { return };
        let Some(at) = map.loading.iter().position(|(loading, _)| *loading == page) else { return };
        let (_, waiting) = map.loading.remove(at);
        for who in waiting {
            match who {
                Waiting::Io(mut io, since, contents, mask) => {
                    io.latency.map += self.now - since;
                    self.push_now(io, contents, mask);
                }
                Waiting::Command(tag) => {
                    let request = &mut self.requests[tag as usize];
                    request.pending -= 1;
                    if request.pending == 0 {
                        self.map_is_here(tag);
                    }
                }
            }
        }
        self.dispatcher.kick(Ns(self.now));
    }

    /// Called after each event of the flash. Updates the entries of pages that garbage collection copied; the copies
    /// from one block form a batch.
    pub(super) fn map_events(&mut self) {
        if !self.dispatcher.moved.is_empty() {
            self.pages_moved();
        }
        let erases = self.dispatcher.counts().erases;
        if let Some(map) = &mut self.map
            && map.erases != erases
        {
            map.erases = erases;
            map.cache.new_batch();
        }
    }

    fn pages_moved(&mut self) {
        let moved = std::mem::take(&mut self.dispatcher.moved);
        let mut asked = false;
        for &(unit, local) in &moved {
            let lpn = self.striping.lpn(unit, local);
            if let Some(owners) = &mut self.owners {
                owners.moved(lpn);
            }
            let Some(map) = &mut self.map else { continue };
            if lpn < map.first
                && let Some(page) = map.cache.moved(lpn)
            {
                self.write_map(page);
                asked = true;
            }
        }
        self.dispatcher.moved = moved;
        self.dispatcher.moved.clear();
        if asked {
            self.dispatcher.kick(Ns(self.now));
        }
    }

    /// Counters of the map cache, map pages read and map pages written; all zero without a map cache.
    pub fn map_counts(&self) -> (MapCacheCounts, u64, u64) {
        self.map.as_ref().map_or_else(Default::default, |map| (*map.cache.counts(), map.reads, map.writes))
    }
}
