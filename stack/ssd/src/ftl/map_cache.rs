//! A cache of the mapping table, for drives that keep the table itself in flash.
//!
//! The table is divided into *map pages* of `map_page_bytes / entry_bytes` entries each. The cache holds part of it, as
//! whole map pages or as single entries. For an access it reports the map page that must be read, and the map page that
//! must be written because of the eviction. Modified entries are written back late: when they are evicted, when their
//! map page is written anyway, or on a flush.
//!
//! By entries with segmented LRU this is the cached mapping table of DFTL (Gupta, Kim and Urgaonkar, ASPLOS 2009); its
//! directory of map pages (global translation directory) is the caller's. Evicting a modified entry writes back every
//! modified entry of its map page with it (batch update), and copies by garbage collection change cached entries only
//! (lazy copying). The paper's full text was not available: segmented LRU, batch update and lazy copying are recalled,
//! unverified. Ours are: the bytes of an entry, the size of the protected segment and what happens when it overflows,
//! that a map page written for any reason carries all its modified entries, and that a copied page whose entry is not
//! cached has its map page written. By map pages with LRU it is the map cache of a small controller, for example in a
//! UFS device.
//!
//! Knows: logical pages, map pages, an order. Does not know: physical pages, flash, time. All memory is allocated at
//! construction, including 4 bytes for each map page.
//!
//! Invariants ([`MapCache::check`]): the index maps to exactly the slots in use; each is in one segment; by entries,
//! exactly the modified ones are in the list of their map page.

use super::NONE;
use crate::ShapeError;
use crate::cache::index::Index;
use crate::cache::ring::Rings;

/// Unit of caching: what a slot of the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// A map page. A slot takes its size.
    Page,
    /// A single entry. A slot takes its size plus 4 bytes for the logical page number.
    Entry,
}

/// Replacement policy: which slot is evicted when the cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used slot.
    Lru,
    /// Segmented LRU: a hit moves a slot into the protected segment. The least recently used slot of the other segment
    /// is evicted. When the protected segment is too large, its least recently used slot becomes the most recently used
    /// of the other.
    Segmented {
        /// Size of the protected segment, in percent of the slots, 1 to 99.
        protected_percent: u32,
    },
}

/// Configuration of a map cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapCacheConfig {
    /// Number of logical pages that the table maps.
    pub lpns: u32,
    /// Memory for cached entries, in bytes.
    pub capacity_bytes: u64,
    /// Size of an entry in bytes: 4 or 8.
    pub entry_bytes: u32,
    /// Size of a map page in bytes: a power of two.
    pub map_page_bytes: u32,
    /// Whether map pages or single entries are cached.
    pub grain: Grain,
    /// Replacement policy.
    pub replacement: Replacement,
}

impl MapCacheConfig {
    /// A cache of whole map pages of 4 KiB with 4-byte entries, with LRU.
    pub const fn pages(lpns: u32, capacity_bytes: u64) -> MapCacheConfig {
        let replacement = Replacement::Lru;
        MapCacheConfig { lpns, capacity_bytes, entry_bytes: 4, map_page_bytes: 4096, grain: Grain::Page, replacement }
    }

    /// Number of entries of a map page.
    pub const fn entries_per_page(&self) -> u32 {
        self.map_page_bytes / self.entry_bytes
    }

    /// Number of map pages of the whole table.
    pub const fn map_pages(&self) -> u32 {
        self.lpns.div_ceil(self.entries_per_page())
    }

    /// Memory that a slot takes, in bytes.
    pub const fn slot_bytes(&self) -> u64 {
        match self.grain {
            Grain::Page => self.map_page_bytes as u64,
            Grain::Entry => self.entry_bytes as u64 + 4,
        }
    }

    /// Errors: an invalid number; no room for a single map page or entry.
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

/// Result of an access: the flash operations that it requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The entry is cached: none.
    Hit,
    /// A map page must be read, perhaps after another is written.
    Miss {
        /// The map page to read.
        load: u32,
        /// The map page to write first, because a modified slot was evicted.
        evict_dirty: Option<u32>,
    },
}

/// Counters of a map cache since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapCacheCounts {
    /// Accesses whose entry was cached.
    pub hits: u64,
    /// Accesses whose entry was not cached: each requires that a map page be read.
    pub misses: u64,
    /// Map pages or entries evicted.
    pub evictions: u64,
    /// Map pages written because of an eviction.
    pub dirty_evictions: u64,
    /// Entries written back together with another one of their map page.
    pub batched: u64,
    /// Copied pages whose entry was cached.
    pub moved_cached: u64,
    /// Map pages written because of copied pages whose entry was not cached.
    pub moved_written: u64,
    /// Map pages written by flushes.
    pub flushed: u64,
}

#[derive(Clone, Debug)]
enum Keys {
    /// Slots by map page.
    Dense(Vec<u32>),
    /// Slots by logical page.
    Index(Index),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Number of the map page or logical page.
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
    /// Number of slots in use. They are the first ones.
    used: u32,
    /// Members are the slots; the two heads are those of the unprotected and the protected segment, most recently used
    /// first.
    segments: Rings,
    protected: u32,
    most_protected: u32,
    /// By entries: members are the slots, heads the map pages; each list has the modified entries of a map page.
    changed: Rings,
    /// Number of slots modified since they were last written.
    dirty: u32,
    /// The batch in which [`moved`](Self::moved) last returned each map page.
    batch_of: Vec<u32>,
    batch: u32,
    counts: MapCacheCounts,
}

impl MapCache {
    /// Makes an empty cache.
    /// Errors: an invalid number; no room for a single map page or entry.
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

    /// The configuration that the cache was built with.
    pub const fn config(&self) -> &MapCacheConfig {
        &self.config
    }

    /// Counters of hits, misses and write-backs.
    pub const fn counts(&self) -> &MapCacheCounts {
        &self.counts
    }

    /// Capacity in slots: map pages or entries.
    pub const fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Number of slots in use.
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Number of slots in use that were modified since they were last written.
    pub const fn dirty(&self) -> u32 {
        self.dirty
    }

    /// The map page that has the entry of `lpn`.
    #[inline]
    pub const fn map_page(&self, lpn: u32) -> u32 {
        lpn >> self.shift
    }

    /// Whether the entry of `lpn` is cached.
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

    /// Looks up the entry of `lpn`, and modifies it if `write`. On a miss the entry is cached, perhaps after an
    /// eviction.
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

    /// A hit under segmented LRU: moves the slot into the protected segment; if that is too large, another leaves it.
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
            // The protected segment is smaller than the cache, so the other one has a slot.
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

    /// By entries: marks the entries of a map page as not modified. Returns how many were modified.
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

    /// Begins a batch of copies, for example those of one victim, whose map pages [`moved`](Self::moved) returns only
    /// once.
    pub fn new_batch(&mut self) {
        self.batch = self.batch.checked_add(1).unwrap_or_else(|| {
            self.batch_of.fill(0);
            1
        });
    }

    /// Reports that the contents of `lpn` were copied, for example by garbage collection. Modifies its entry if that is
    /// cached, which does not count as a use. Otherwise its map page must be read and written: it is returned once in a
    /// [batch](Self::new_batch), to be written at the end with all changes of the batch, and with the cached modified
    /// entries of that map page.
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

    /// Appends every map page with modifications to `out`, in ascending order. The caller must write them now.
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

    /// Panics unless the invariants hold. Examines every slot.
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
