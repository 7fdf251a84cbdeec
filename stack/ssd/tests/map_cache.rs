//! The cache of the mapping table, compared with a naive one.

use proptest::prelude::*;
use ssd::ftl::map_cache::{Access, Grain, MapCache, MapCacheConfig, MapCacheCounts, Replacement};
use std::collections::{BTreeSet, VecDeque};

/// Map pages of four 4-byte entries.
fn config(grain: Grain, replacement: Replacement, lpns: u32, slots: u64) -> MapCacheConfig {
    let config = MapCacheConfig { lpns, capacity_bytes: 0, entry_bytes: 4, map_page_bytes: 16, grain, replacement };
    MapCacheConfig { capacity_bytes: slots * config.slot_bytes(), ..config }
}

/// The model: lists with linear searches, the most recently used first.
struct Naive {
    config: MapCacheConfig,
    slots: usize,
    most_protected: usize,
    recent: VecDeque<u32>,
    protected: VecDeque<u32>,
    dirty: BTreeSet<u32>,
    batch: BTreeSet<u32>,
    counts: MapCacheCounts,
}

impl Naive {
    fn new(config: MapCacheConfig) -> Naive {
        let slots = (config.capacity_bytes / config.slot_bytes()) as usize;
        let things = if config.grain == Grain::Page { config.map_pages() } else { config.lpns };
        let slots = slots.min(things as usize);
        let most_protected = match config.replacement {
            Replacement::Lru => 0,
            Replacement::Segmented { protected_percent } => (slots * protected_percent as usize / 100).min(slots - 1),
        };
        Naive {
            config,
            slots,
            most_protected,
            recent: VecDeque::new(),
            protected: VecDeque::new(),
            dirty: BTreeSet::new(),
            batch: BTreeSet::new(),
            counts: MapCacheCounts::default(),
        }
    }

    fn key(&self, lpn: u32) -> u32 {
        if self.config.grain == Grain::Page { lpn / 4 } else { lpn }
    }

    fn page(&self, key: u32) -> u32 {
        if self.config.grain == Grain::Page { key } else { key / 4 }
    }

    fn holds(&self, key: u32) -> bool {
        self.recent.contains(&key) || self.protected.contains(&key)
    }

    /// Returns how many entries or map pages are clean now.
    fn clean(&mut self, page: u32) -> u64 {
        let grain = self.config.grain;
        let before = self.dirty.len();
        self.dirty.retain(|&key| page != if grain == Grain::Page { key } else { key / 4 });
        (before - self.dirty.len()) as u64
    }

    fn access(&mut self, lpn: u32, write: bool) -> Access {
        let key = self.key(lpn);
        let hit = self.holds(key);
        let mut evict_dirty = None;
        if !hit && self.recent.len() + self.protected.len() == self.slots {
            let victim = self.recent.pop_back().unwrap();
            self.counts.evictions += 1;
            if self.dirty.contains(&victim) {
                evict_dirty = Some(self.page(victim));
                self.counts.dirty_evictions += 1;
                self.counts.batched += self.clean(self.page(victim)) - 1;
            }
        }
        self.counts.hits += u64::from(hit);
        self.counts.misses += u64::from(!hit);
        self.recent.retain(|&own| own != key);
        self.protected.retain(|&own| own != key);
        if hit && self.most_protected > 0 {
            self.protected.push_front(key);
            if self.protected.len() > self.most_protected {
                let least = self.protected.pop_back().unwrap();
                self.recent.push_front(least);
            }
        } else {
            self.recent.push_front(key);
        }
        if write {
            self.dirty.insert(key);
        }
        if hit { Access::Hit } else { Access::Miss { load: lpn / 4, evict_dirty } }
    }

    fn moved(&mut self, lpn: u32) -> Option<u32> {
        let key = self.key(lpn);
        if self.batch.contains(&(lpn / 4)) {
            return None;
        }
        if self.holds(key) {
            self.counts.moved_cached += 1;
            self.dirty.insert(key);
            return None;
        }
        self.batch.insert(lpn / 4);
        self.counts.moved_written += 1;
        self.counts.batched += self.clean(lpn / 4);
        Some(lpn / 4)
    }
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Access(u32, bool),
    Moved(u32),
    NewBatch,
    Flush,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_map_cache_does_what_the_naive_one_does(
        by_page in any::<bool>(), percent in prop::option::of(1u32..100), lpns in 1u32..60, slots in 1u64..24,
        moves in prop::collection::vec(
            prop_oneof![
                12 => (0u32..60, any::<bool>()).prop_map(|(lpn, write)| Move::Access(lpn, write)),
                12 => (0u32..9, any::<bool>()).prop_map(|(lpn, write)| Move::Access(lpn, write)),
                6 => (0u32..60).prop_map(Move::Moved),
                2 => Just(Move::NewBatch),
                1 => Just(Move::Flush),
            ],
            1..300,
        ),
    ) {
        let grain = if by_page { Grain::Page } else { Grain::Entry };
        let replacement =
            percent.map_or(Replacement::Lru, |protected_percent| Replacement::Segmented { protected_percent });
        let config = config(grain, replacement, lpns, slots);
        let (mut cache, mut naive) = (MapCache::new(config).unwrap(), Naive::new(config));
        for one in moves {
            match one {
                Move::Access(lpn, write) => {
                    prop_assert_eq!(cache.access(lpn % lpns, write), naive.access(lpn % lpns, write));
                }
                Move::Moved(lpn) => prop_assert_eq!(cache.moved(lpn % lpns), naive.moved(lpn % lpns)),
                Move::NewBatch => {
                    cache.new_batch();
                    naive.batch.clear();
                }
                Move::Flush => {
                    let mut out = Vec::new();
                    cache.flush(&mut out);
                    let pages: BTreeSet<_> = naive.dirty.iter().map(|&key| naive.page(key)).collect();
                    naive.dirty.clear();
                    naive.counts.flushed += pages.len() as u64;
                    prop_assert_eq!(out, pages.into_iter().collect::<Vec<_>>());
                }
            }
            cache.check();
            prop_assert_eq!(*cache.counts(), naive.counts);
            prop_assert_eq!(cache.dirty() as usize, naive.dirty.len());
            for lpn in 0..lpns {
                prop_assert_eq!(cache.contains(lpn), naive.holds(naive.key(lpn)));
            }
        }
        let counts = cache.counts();
        prop_assert_eq!(counts.misses, u64::from(cache.used()) + counts.evictions);
    }
}

#[test]
fn dropping_a_changed_entry_writes_the_others_of_its_map_page_back_with_it() {
    let mut cache = MapCache::new(config(Grain::Entry, Replacement::Lru, 16, 3)).unwrap();
    for lpn in [0, 1, 8] {
        assert!(matches!(cache.access(lpn, true), Access::Miss { evict_dirty: None, .. }));
    }
    assert_eq!(cache.access(4, false), Access::Miss { load: 1, evict_dirty: Some(0) });
    assert_eq!((cache.counts().batched, cache.dirty()), (1, 1), "entry 1 is clean and still there");
    assert_eq!(cache.access(5, false), Access::Miss { load: 1, evict_dirty: None }, "entry 1 went without a write");
    assert_eq!(cache.access(5, false), Access::Hit);
}

#[test]
fn the_copies_of_one_victim_rewrite_a_map_page_once() {
    let mut cache = MapCache::new(config(Grain::Entry, Replacement::Lru, 16, 2)).unwrap();
    cache.access(1, true);
    assert_eq!([1, 2, 3, 5].map(|lpn| cache.moved(lpn)), [None, Some(0), None, Some(1)]);
    assert_eq!(cache.dirty(), 0, "entry 1 was written with its map page");
    cache.new_batch();
    assert_eq!([1, 3].map(|lpn| cache.moved(lpn)), [None, Some(0)]);
}

#[test]
fn segmented_lru_survives_a_scan() {
    let replacement = Replacement::Segmented { protected_percent: 50 };
    for (replacement, kept) in [(replacement, true), (Replacement::Lru, false)] {
        let mut cache = MapCache::new(config(Grain::Entry, replacement, 64, 4)).unwrap();
        for lpn in [0, 1, 0, 1].into_iter().chain(10..30) {
            cache.access(lpn, false);
        }
        assert_eq!([cache.contains(0), cache.contains(1)], [kept; 2], "{replacement:?}");
    }
}

#[test]
fn four_kib_map_pages_reach_four_mib_each() {
    // Covers 1.25 GiB of 4 KiB pages: 320 map pages in 1.25 MiB.
    let mut cache = MapCache::new(MapCacheConfig::pages(16 << 20, 320 * 4096)).unwrap();
    assert_eq!((cache.capacity(), cache.config().map_pages(), cache.map_page(1023)), (320, 16384, 0));
    for _ in 0..2 {
        for page in 0..320 {
            cache.access(page * 1024 + page, false);
        }
    }
    assert_eq!((cache.counts().hits, cache.counts().misses), (320, 320));
}

#[test]
fn a_cache_that_holds_nothing_is_refused_with_the_reason() {
    let good = config(Grain::Entry, Replacement::Lru, 16, 1);
    assert!(MapCache::new(good).is_ok());
    for (config, said) in [
        (MapCacheConfig { lpns: 0, ..good }, "logical pages: found 0, expected 1 to 2^32 - 2"),
        (MapCacheConfig { entry_bytes: 5, ..good }, "bytes of a map entry: found 5, expected 4 or 8"),
        (
            MapCacheConfig { map_page_bytes: 24, ..good },
            "bytes of a map page: found 24, expected a power of two from 16 to 2^20",
        ),
        (
            MapCacheConfig { capacity_bytes: 7, ..good },
            "bytes of a map cache: found 7, expected one map page, or one entry with its number, or more",
        ),
        (
            MapCacheConfig { replacement: Replacement::Segmented { protected_percent: 100 }, ..good },
            "protected percent of a map cache: found 100, expected 1 to 99",
        ),
    ] {
        assert_eq!(MapCache::new(config).unwrap_err().to_string(), said);
    }
}
