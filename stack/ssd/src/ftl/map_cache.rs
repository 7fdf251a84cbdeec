//! A cache of the mapping table, for drives that keep the table itself in flash.
//!
//! The table is cut into *map pages* of `map_page_bytes / entry_bytes` entries each. The cache holds some of it, by
//! whole map pages or by single entries, and tells which map page has to be read for a logical page and which has to be
//! written before something can be dropped. What was changed is written back late: when it is dropped, when its map
//! page is written anyway, or on a flush.
//!
//! By entries with segmented LRU this is the cached mapping table of DFTL (Gupta, Kim and Urgaonkar, ASPLOS 2009),
//! whose directory of map pages is the caller's: dropping a changed entry writes back every changed entry of its map
//! page with it (batch update), and copies by garbage collection change cached entries only (lazy copying). The paper's
//! full text was not at hand: segmented LRU, batch update and lazy copying are recalled, unverified. Ours are the bytes
//! that an entry takes, how large the protected segment may be and what its overflow does, that a map page written for
//! any reason carries all its changed entries, and that a copied page whose entry is not cached has its map page
//! written. By map pages with LRU it is the map cache of a small controller, a UFS device for one.
//!
//! Knows: logical pages, map pages, an order. Does not know: physical pages, flash, time. All memory is taken at
//! construction, 4 bytes a map page among it.
//!
//! Invariants ([`MapCache::check`]): the index names exactly the slots in use; each is in one segment; by entries,
//! exactly the changed ones are in the list of their map page.

use super::NONE;
use crate::ShapeError;
use crate::cache::index::Index;
use crate::cache::ring::Rings;

/// What a slot of the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// A map page, which takes its own size.
    Page,
    /// An entry, which takes its own size and 4 bytes for its logical page number.
    Entry,
}

/// Which slot is evicted when the cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used.
    Lru,
    /// Segmented LRU: what is used again is protected. The least recently used of the others is dropped; when the
    /// protected are too many, their least recently used becomes the most recently used of the others.
    Segmented {
        /// Share of the cache that may be protected, in percent, 1 to 99.
        protected_percent: u32,
    },
}

/// A cache's size and rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapCacheConfig {
    /// Logical pages that the table maps.
    pub lpns: u32,
    /// Bytes of memory for cached entries.
    pub capacity_bytes: u64,
    /// Bytes of an entry: 4 or 8.
    pub entry_bytes: u32,
    /// Bytes of a map page: a power of two.
    pub map_page_bytes: u32,
    /// Whether map pages or single entries are cached.
    pub grain: Grain,
    /// Which of them is evicted first.
    pub replacement: Replacement,
}

impl MapCacheConfig {
    /// Whole map pages of 4 KiB with 4-byte entries, least recently used first.
    pub const fn pages(lpns: u32, capacity_bytes: u64) -> MapCacheConfig {
        let replacement = Replacement::Lru;
        MapCacheConfig { lpns, capacity_bytes, entry_bytes: 4, map_page_bytes: 4096, grain: Grain::Page, replacement }
    }

    /// Entries that a map page holds.
    pub const fn entries_per_page(&self) -> u32 {
        self.map_page_bytes / self.entry_bytes
    }

    /// Map pages of the whole table.
    pub const fn map_pages(&self) -> u32 {
        self.lpns.div_ceil(self.entries_per_page())
    }

    /// Bytes that a cached map page or entry takes.
    pub const fn slot_bytes(&self) -> u64 {
        match self.grain {
            Grain::Page => self.map_page_bytes as u64,
            Grain::Entry => self.entry_bytes as u64 + 4,
        }
    }

    /// Errors: numbers that make no cache; no room for a single map page or entry.
    pub fn check(&self) -> Result<(), ShapeError> {
        let refuse = |what, found: u64, expected| Err(ShapeError { what, found, expected });
        if self.lpns == 0 || self.lpns == NONE {
            return refuse("logical pages", self.lpns.into(), "1 to 2^32 - 2");
        }
        if !matches!(self.entry_bytes, 4 | 8) {
            return refuse("bytes of a map entry", self.entry_bytes.into(), "4 or 8");
        }
        if !self.map_page_bytes.is_power_of_two() || !(16..=1 << 20).contains(&self.map_page_bytes) {
            return refuse("bytes of a map page", self.map_page_bytes.into(), "a power of two from 16 to 2^20");
        }
        if let Replacement::Segmented { protected_percent } = self.replacement
            && !(1..=99).contains(&protected_percent)
        {
            return refuse("protected percent of a map cache", protected_percent.into(), "1 to 99");
        }
        if self.capacity_bytes < self.slot_bytes() {
            return refuse(
                "bytes of a map cache",
                self.capacity_bytes,
                "one map page, or one entry with its number, or more",
            );
        }
        Ok(())
    }
}

/// What an access to an entry needs from flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: the entry is cached.
    Hit,
    /// A map page is read, perhaps after another is written.
    Miss {
        /// The map page to be read.
        load: u32,
        /// The map page to be written before.
        evict_dirty: Option<u32>,
    },
}

/// Hits, misses and write-backs since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapCacheCounts {
    /// Accesses that needed nothing.
    pub hits: u64,
    /// Accesses that read a map page.
    pub misses: u64,
    /// Map pages or entries dropped.
    pub evictions: u64,
    /// Map pages written because something was dropped.
    pub dirty_evictions: u64,
    /// Entries written back with another one of their map page.
    pub batched: u64,
    /// Pages moved whose entry was cached.
    pub moved_cached: u64,
    /// Map pages written because a page was moved whose entry was not cached.
    pub moved_written: u64,
    /// Map pages written by flushes.
    pub flushed: u64,
}

#[derive(Clone, Debug)]
enum Keys {
    /// By map page.
    Dense(Vec<u32>),
    /// By logical page.
    Index(Index),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Map page or logical page.
    key: u32,
    dirty: bool,
    protected: bool,
}

/// A cache of the mapping table.
#[derive(Clone, Debug)]
pub struct MapCache {
    config: MapCacheConfig,
    /// `log2` of the entries of a map page.
    shift: u32,
    keys: Keys,
    slots: Vec<Slot>,
    /// Slots in use: the first so many.
    used: u32,
    /// Members are the slots; heads are those used once and the protected, most recently used first.
    segments: Rings,
    protected: u32,
    most_protected: u32,
    /// By entries: members are the slots, heads the map pages; the changed entries of each.
    changed: Rings,
    /// Slots changed since they were written.
    dirty: u32,
    /// The batch in which a map page was last asked to be written by [`moved`](Self::moved).
    batch_of: Vec<u32>,
    batch: u32,
    counts: MapCacheCounts,
}

impl MapCache {
    /// An empty cache. Errors: numbers that make none; no room for a single map page or entry.
    pub fn new(config: MapCacheConfig) -> Result<MapCache, ShapeError> {
        config.check()?;
        let map_pages = config.map_pages();
        let things = match config.grain {
            Grain::Page => map_pages,
            Grain::Entry => config.lpns,
        };
        let slots = (config.capacity_bytes / config.slot_bytes()).min(u64::from(things.min(1 << 28))) as u32;
        let most_protected = match config.replacement {
            Replacement::Lru => 0,
            Replacement::Segmented { protected_percent } => {
                ((u64::from(slots) * u64::from(protected_percent) / 100) as u32).min(slots - 1)
            }
        };
        Ok(MapCache {
            shift: config.entries_per_page().trailing_zeros(),
            keys: match config.grain {
                Grain::Page => Keys::Dense(vec![NONE; map_pages as usize]),
                Grain::Entry => Keys::Index(Index::new(slots)),
            },
            slots: vec![Slot { key: NONE, dirty: false, protected: false }; slots as usize],
            used: 0,
            segments: Rings::new(slots + 2),
            protected: 0,
            most_protected,
            changed: match config.grain {
                Grain::Page => Rings::new(0),
                Grain::Entry => Rings::new(slots + map_pages),
            },
            dirty: 0,
            batch_of: vec![0; map_pages as usize],
            batch: 1,
            counts: MapCacheCounts::default(),
            config,
        })
    }

    /// The configuration it was built with.
    pub const fn config(&self) -> &MapCacheConfig {
        &self.config
    }

    /// Hits, misses and write-backs so far.
    pub const fn counts(&self) -> &MapCacheCounts {
        &self.counts
    }

    /// Map pages or entries that it has room for.
    pub const fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Map pages or entries that it holds.
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Of those, the ones changed since they were read or written.
    pub const fn dirty(&self) -> u32 {
        self.dirty
    }

    /// The map page that has the entry of `lpn`.
    #[inline]
    pub const fn map_page(&self, lpn: u32) -> u32 {
        lpn >> self.shift
    }

    /// Whether the entry of `lpn` is there.
    #[inline]
    pub fn contains(&self, lpn: u32) -> bool {
        self.slot(lpn) != NONE
    }

    #[inline]
    fn slot(&self, lpn: u32) -> u32 {
        match &self.keys {
            Keys::Dense(slots) => slots[(lpn >> self.shift) as usize],
            Keys::Index(index) => index.get(lpn),
        }
    }

    const fn recent(&self) -> u32 {
        self.slots.len() as u32
    }

    const fn protected_head(&self) -> u32 {
        self.slots.len() as u32 + 1
    }

    /// Looks the entry of `lpn` up, and changes it if `write`.
    #[inline]
    pub fn access(&mut self, lpn: u32, write: bool) -> Access {
        debug_assert!(lpn < self.config.lpns, "page {lpn} of {}", self.config.lpns);
        let slot = self.slot(lpn);
        if slot == NONE {
            return self.miss(lpn, write);
        }
        self.counts.hits += 1;
        if self.most_protected == 0 {
            self.segments.move_front(self.recent(), slot);
        } else {
            self.use_again(slot);
        }
        if write {
            self.change(slot, lpn);
        }
        Access::Hit
    }

    /// A hit under segmented LRU: the slot is protected, perhaps in exchange for another.
    fn use_again(&mut self, slot: u32) {
        self.segments.move_front(self.protected_head(), slot);
        if !std::mem::replace(&mut self.slots[slot as usize].protected, true) {
            self.protected += 1;
            if self.protected > self.most_protected {
                let least = self.segments.prev(self.protected_head());
                self.slots[least as usize].protected = false;
                self.protected -= 1;
                self.segments.move_front(self.recent(), least);
            }
        }
    }

    #[inline]
    fn change(&mut self, slot: u32, lpn: u32) {
        if !std::mem::replace(&mut self.slots[slot as usize].dirty, true) {
            self.dirty += 1;
            if self.config.grain == Grain::Entry {
                self.changed.move_front(self.capacity() + self.map_page(lpn), slot);
            }
        }
    }

    fn miss(&mut self, lpn: u32, write: bool) -> Access {
        self.counts.misses += 1;
        let mut evict_dirty = None;
        let slot = if self.used < self.capacity() {
            self.used += 1;
            self.used - 1
        } else {
            // Fewer are protected than there are slots, so there is another.
            let slot = self.segments.prev(self.recent());
            let Slot { key, dirty, .. } = self.slots[slot as usize];
            self.counts.evictions += 1;
            if dirty {
                self.counts.dirty_evictions += 1;
                evict_dirty = Some(match self.config.grain {
                    Grain::Page => {
                        self.dirty -= 1;
                        key
                    }
                    Grain::Entry => {
                        self.counts.batched += self.written(self.map_page(key)) - 1;
                        self.map_page(key)
                    }
                });
            }
            match &mut self.keys {
                Keys::Dense(slots) => slots[key as usize] = NONE,
                Keys::Index(index) => index.remove(key),
            }
            slot
        };
        let load = self.map_page(lpn);
        let key = match &mut self.keys {
            Keys::Dense(slots) => {
                slots[load as usize] = slot;
                load
            }
            Keys::Index(index) => {
                index.set(lpn, slot);
                lpn
            }
        };
        self.slots[slot as usize] = Slot { key, dirty: false, protected: false };
        self.segments.move_front(self.recent(), slot);
        if write {
            self.change(slot, lpn);
        }
        Access::Miss { load, evict_dirty }
    }

    /// By entries: those of a map page are changed no more. Returns how many were.
    fn written(&mut self, map_page: u32) -> u64 {
        let head = self.capacity() + map_page;
        let mut count = 0;
        while !self.changed.is_empty(head) {
            let slot = self.changed.next(head);
            self.changed.unlink(slot);
            self.slots[slot as usize].dirty = false;
            self.dirty -= 1;
            count += 1;
        }
        count
    }

    /// What [`moved`](Self::moved) asks for from now on is written together: the copies of one victim, say.
    pub fn new_batch(&mut self) {
        self.batch = self.batch.checked_add(1).unwrap_or_else(|| {
            self.batch_of.fill(0);
            1
        });
    }

    /// The contents of `lpn` were moved, by garbage collection for one. Changes its entry if that is cached, without
    /// counting as a use. Else its map page has to be read and written: returned once in a [batch](Self::new_batch), to
    /// be written at its end with every change of the batch, and with the cached ones of that map page.
    pub fn moved(&mut self, lpn: u32) -> Option<u32> {
        let map_page = self.map_page(lpn);
        if self.batch_of[map_page as usize] == self.batch {
            return None;
        }
        let slot = self.slot(lpn);
        if slot != NONE {
            self.counts.moved_cached += 1;
            self.change(slot, lpn);
            return None;
        }
        self.batch_of[map_page as usize] = self.batch;
        self.counts.moved_written += 1;
        if self.config.grain == Grain::Entry {
            self.counts.batched += self.written(map_page);
        }
        Some(map_page)
    }

    /// Appends every map page that has changes, in ascending order, to `out`: they are to be written now.
    pub fn flush(&mut self, out: &mut Vec<u32>) {
        let before = out.len();
        for slot in 0..self.used {
            let Slot { key, dirty, .. } = self.slots[slot as usize];
            if self.dirty == 0 {
                break;
            }
            if !dirty {
                continue;
            }
            match self.config.grain {
                Grain::Page => {
                    self.slots[slot as usize].dirty = false;
                    self.dirty -= 1;
                    out.push(key);
                }
                Grain::Entry => {
                    self.written(self.map_page(key));
                    out.push(self.map_page(key));
                }
            }
        }
        out[before..].sort_unstable();
        self.counts.flushed += (out.len() - before) as u64;
    }

    /// Asserts the invariants, at a cost of every slot.
    pub fn check(&self) {
        let mut seen = vec![false; self.slots.len()];
        for (head, protected) in [(self.recent(), false), (self.protected_head(), true)] {
            let mut count = 0;
            for slot in self.segments.iter(head) {
                assert!(!std::mem::replace(&mut seen[slot as usize], true), "slot {slot} is in two segments");
                assert_eq!(self.slots[slot as usize].protected, protected, "slot {slot}");
                count += 1;
            }
            assert_eq!(count, if protected { self.protected } else { self.used - self.protected });
        }
        assert!(self.protected <= self.most_protected);
        let mut dirty = 0;
        for (at, slot) in (0..).zip(&self.slots[..self.used as usize]) {
            let first = match self.config.grain {
                Grain::Page => slot.key << self.shift,
                Grain::Entry => slot.key,
            };
            assert_eq!(self.slot(first), at, "the index does not name slot {at}");
            dirty += u32::from(slot.dirty);
            if self.config.grain == Grain::Entry {
                let head = self.capacity() + self.map_page(slot.key);
                assert_eq!(self.changed.iter(head).any(|own| own == at), slot.dirty, "slot {at}");
            }
        }
        assert_eq!(dirty, self.dirty);
        let named = match &self.keys {
            Keys::Dense(slots) => slots.iter().filter(|&&slot| slot != NONE).count() as u32,
            Keys::Index(index) => index.held(),
        };
        assert_eq!(named, self.used);
    }
}
