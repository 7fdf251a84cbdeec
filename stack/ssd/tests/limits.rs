//! Numbers that a configuration accepts and those that it refuses, each at its limit; and the sizes that follow from them
//! by arithmetic.

use ssd::Shape;
use ssd::ftl::bast::Bast;
use ssd::ftl::fast::Fast;
use ssd::ftl::gc::GcPolicy;
use ssd::ftl::hybrid::HybridConfig;
use ssd::ftl::map_cache::{Grain, MapCache, MapCacheConfig, Replacement};
use ssd::ftl::page::{Foreground, PageConfig, SlcCache, SlcFull};
use ssd::ftl::wear::Wear;

/// What is set, and the values that are accepted and refused.
type Limits<C> = (&'static str, fn(&mut C, u32), &'static [u32], &'static [u32]);

fn hold<C: Clone + std::fmt::Debug>(
    plain: &C,
    limits: &[Limits<C>],
    refusal: impl Fn(&C) -> Option<(&'static str, u64)>,
) {
    for (what, set, good, bad) in limits {
        for (value, refused) in good.iter().map(|&value| (value, false)).chain(bad.iter().map(|&value| (value, true))) {
            let mut config = plain.clone();
            set(&mut config, value);
            let found = refusal(&config);
            assert_eq!(found.map(|found| found.0), refused.then_some(*what), "{value}: {config:?}");
        }
    }
}

const SLC: SlcCache = SlcCache { blocks: 2, pages: 4, when_full: SlcFull::Direct, folds_idle: false };

#[test]
fn a_page_level_unit() {
    // 16 blocks of 8 pages; two are kept free, and one is open for copies: 13 of 8 pages, less one.
    let plain = PageConfig::new(16, 8, 40);
    let limits: &[Limits<PageConfig>] = &[
        ("blocks of a unit", |c, v| (c.blocks, c.lpns) = (v, 1), &[4, 5, 1 << 20], &[0, 3]),
        ("pages of a unit's block", |c, v| (c.pages, c.lpns) = (v, 1), &[1, 2, (1 << 27) - 1], &[0, 1 << 27]),
        ("planes of a unit", |c, v| c.planes = v, &[1, 2, 4, 8], &[0, 3, 16]),
        ("bad block", |c, v| c.bad = vec![3, v], &[0, 3, 15], &[16]),
        ("gc_low", |c, v| c.gc_low = v, &[1, 2, 9], &[0]),
        ("gc_background_gain", |c, v| c.gc_background_gain = v, &[1, 8], &[0]),
        ("gc d", |c, v| c.gc = GcPolicy::DChoices { d: v }, &[1, 9], &[0]),
        ("gc window", |c, v| c.gc = GcPolicy::Windowed { window: v }, &[1, 9], &[0]),
        ("wear every", |c, v| c.wear = Wear::Static { threshold: 0, every: v }, &[1, 9], &[0]),
        (
            "pages of an SLC block",
            |c, v| (c.planes, c.slc) = (2, Some(SlcCache { pages: v, ..SLC })),
            &[2, 4, 8],
            &[0, 1, 3, 7, 10],
        ),
        ("logical pages of a unit", |c, v| c.lpns = v, &[1, 103], &[0, 104]),
        ("logical pages of a unit", |c, v| (c.gc_low, c.lpns) = (1, v), &[111], &[112]),
        ("logical pages of a unit", |c, v| (c.separate, c.lpns) = (false, v), &[111], &[112]),
        (
            "logical pages of a unit",
            |c, v| (c.wear, c.lpns) = (Wear::Static { threshold: 1, every: 1 }, v),
            &[95],
            &[96],
        ),
        ("logical pages of a unit", |c, v| (c.slc, c.lpns) = (Some(SLC), v), &[87], &[88]),
        // A block named twice is one block.
        ("logical pages of a unit", |c, v| (c.bad, c.lpns) = (vec![7, 2, 7], v), &[87], &[88]),
        ("logical pages of a unit", |c, v| (c.gc_low, c.lpns) = (20, v), &[], &[1]),
    ];
    hold(&plain, limits, |config| config.check().err().map(|error| (error.what, error.found)));
}

#[test]
fn the_plain_page_level_unit_is_femu_s() {
    for (pages, gain) in [(1, 1), (7, 1), (8, 1), (16, 2), (256, 32)] {
        let plain = PageConfig::new(16, pages, 1);
        let numbers = (plain.planes, plain.gc_low, plain.gc_background, plain.gc_background_gain);
        assert_eq!(numbers, (1, 2, 4, gain), "{pages} pages");
        let choices = (plain.gc, plain.foreground, plain.separate, plain.wear, plain.slc);
        assert_eq!(choices, (GcPolicy::Greedy, Foreground::Block, true, Wear::Dynamic, None));
    }
    // Of the spare, these pages hold nothing when a victim is chosen.
    for (foreground, separate, gc_low, blocks) in [
        (Foreground::Block, true, 2, 2.5),
        (Foreground::Block, false, 2, 2.0),
        (Foreground::Paced, true, 2, 4.0),
        (Foreground::Paced, false, 3, 5.0),
    ] {
        let config = PageConfig { foreground, separate, gc_low, ..PageConfig::new(16, 8, 1) };
        assert!((config.reserved_pages() - 8.0 * blocks).abs() < 1e-9, "{config:?}");
    }
}

#[test]
fn a_log_block_unit() {
    // 32 logical pages in four blocks, two log blocks, and spare ones to merge into.
    let plain = HybridConfig::new(16, 8, 32, 2);
    let limits: &[Limits<HybridConfig>] = &[
        ("pages of a unit's block", |c, v| (c.pages, c.lpns) = (v, 1), &[1, (1 << 27) - 1], &[0, 1 << 27]),
        ("planes of a unit", |c, v| c.planes = v, &[1, 2, 4, 8], &[0, 3, 16]),
        ("bad block", |c, v| c.bad = vec![v], &[0, 15], &[16]),
        ("logical pages of a unit", |c, v| c.lpns = v, &[1, 32], &[0]),
        ("log blocks of a unit", |c, v| c.logs = v, &[1, 2], &[0]),
        // Four data blocks, two logs and one to merge into.
        ("good blocks of a unit", |c, v| c.blocks = v, &[7], &[6]),
        ("good blocks of a unit", |c, v| c.lpns = v, &[13 * 8], &[13 * 8 + 1]),
        ("good blocks of a unit", |c, v| c.logs = v, &[11], &[12]),
        ("good blocks of a unit", |c, v| c.bad = (0..v).flat_map(|bad| [bad, 0]).collect(), &[9], &[10]),
    ];
    hold(&plain, limits, |config| Bast::check_config(config).err().map(|error| (error.what, error.found)));
    let limits: &[Limits<HybridConfig>] = &[("log blocks of a unit", |c, v| c.logs = v, &[2, 3], &[0, 1])];
    hold(&plain, limits, |config| Fast::check_config(config).err().map(|error| (error.what, error.found)));
    for (lpns, blocks) in [(1, 1), (8, 1), (9, 2), (32, 4)] {
        assert_eq!(HybridConfig { lpns, ..plain.clone() }.logical_blocks(), blocks);
    }
}

#[test]
fn a_map_cache() {
    let plain = MapCacheConfig { map_page_bytes: 64, ..MapCacheConfig::pages(1000, 640) };
    let limits: &[Limits<MapCacheConfig>] = &[
        ("logical pages", |c, v| c.lpns = v, &[1, 1000], &[0, u32::MAX]),
        ("bytes of a map entry", |c, v| c.entry_bytes = v, &[4, 8], &[0, 2, 5, 16]),
        (
            "bytes of a map page",
            |c, v| (c.map_page_bytes, c.capacity_bytes) = (v, 1 << 20),
            &[16, 1 << 20],
            &[0, 8, 24, 1 << 21],
        ),
        (
            "protected percent of a map cache",
            |c, v| c.replacement = Replacement::Segmented { protected_percent: v },
            &[1, 99],
            &[0, 100],
        ),
        ("bytes of a map cache", |c, v| c.capacity_bytes = v.into(), &[64, 65], &[0, 63]),
        // An entry and its number.
        ("bytes of a map cache", |c, v| (c.grain, c.capacity_bytes) = (Grain::Entry, v.into()), &[8, 9], &[0, 7]),
        (
            "bytes of a map cache",
            |c, v| (c.grain, c.entry_bytes, c.capacity_bytes) = (Grain::Entry, 8, v.into()),
            &[12],
            &[11],
        ),
    ];
    hold(&plain, limits, |config| MapCache::new(*config).err().map(|error| (error.what, error.found)));
    // 16 entries in a page of 64 bytes: 1000 pages take 63 of them, of which 10 fit.
    let cache = MapCache::new(plain).expect("a legal cache");
    assert_eq!((plain.entries_per_page(), plain.map_pages(), cache.capacity()), (16, 63, 10));
    for (lpns, pages) in [(16, 1), (17, 2), (1008, 63), (1009, 64)] {
        assert_eq!(MapCacheConfig { lpns, ..plain }.map_pages(), pages);
    }
    for (grain, lpns, capacity_bytes, slots) in [
        (Grain::Entry, 1000, 87, 10),
        (Grain::Entry, 1000, 88, 11),
        // Never more than there are.
        (Grain::Entry, 5, 1 << 20, 5),
        (Grain::Page, 33, 1 << 20, 3),
        (Grain::Page, 1000, 127, 1),
    ] {
        let config = MapCacheConfig { grain, lpns, capacity_bytes, ..plain };
        assert_eq!(MapCache::new(config).expect("a legal cache").capacity(), slots, "{config:?}");
    }
}

/// The limits of a drive's shape; ATA and UFS have room for more.
#[test]
fn a_shape() {
    let plain = Shape {
        channels: 2,
        ways: 2,
        dies: 2,
        planes: 2,
        blocks: 64,
        pages: 64,
        page_bytes: 4096,
        order: ssd::Order::CHANNEL_FIRST,
        multi_plane: true,
    };
    let limits: &[Limits<Shape>] = &[
        ("channels", |c, v| c.channels = v, &[1, 64], &[0, 65]),
        ("ways", |c, v| (c.ways, c.dies) = (v, 1), &[1, 64], &[0, 65]),
        ("dies", |c, v| (c.ways, c.dies) = (1, v), &[1, 16], &[0, 17]),
        ("planes", |c, v| c.planes = v, &[1, 4], &[0, 5]),
        ("dies of a channel", |c, v| (c.ways, c.dies) = (v, 16), &[4], &[5]),
        ("blocks of a plane", |c, v| c.blocks = v, &[2, 1 << 20], &[0, 1, (1 << 20) + 1]),
        ("pages of a block", |c, v| c.pages = v, &[1, 1 << 14], &[0, (1 << 14) + 1]),
        ("page_bytes", |c, v| c.page_bytes = v, &[512, 1 << 16], &[0, 256, 1536, 1 << 17]),
        // Of 16 planes; a die alone has an eighth of the pages.
        ("pages in all", |c, v| (c.blocks, c.pages) = (1 << 20, v), &[255], &[256, 1 << 14]),
        // A single die of one plane.
        (
            "pages in all",
            |c, v| (c.channels, c.ways, c.dies, c.planes, c.blocks, c.pages) = (1, 1, 1, 1, 1 << 20, v),
            &[4095],
            &[4096],
        ),
    ];
    hold(&plain, limits, |shape| shape.check().err().map(|error| (error.what, error.found)));
}

/// Products of different primes, so that no other product is the same.
#[test]
fn the_sizes_of_a_shape_are_products_of_its_numbers() {
    let shape = |multi_plane| Shape {
        channels: 3,
        ways: 5,
        dies: 7,
        planes: 2,
        blocks: 11,
        pages: 13,
        page_bytes: 512,
        order: ssd::Order::CHANNEL_FIRST,
        multi_plane,
    };
    for (multi_plane, units, units_per_die, unit_planes, unit_pages) in [(true, 105, 1, 2, 26), (false, 210, 2, 1, 13)]
    {
        let shape = shape(multi_plane);
        assert_eq!((shape.all_dies(), shape.units(), shape.units_per_die()), (105, units, units_per_die));
        assert_eq!((shape.unit_planes(), shape.unit_pages()), (unit_planes, unit_pages));
        // 210 planes of 143 pages.
        assert_eq!((shape.raw_pages(), shape.raw_bytes()), (30_030, 15_375_360));
        // A block of 13 pages in each of 210 planes.
        assert_eq!(shape.effective_block_bytes(), 1_397_760);
        let last = shape.units() - 1;
        assert_eq!((shape.die_of_unit(last), shape.channel_of_die(shape.die_of_unit(last))), (104, 2));
        assert_eq!((shape.die_of_unit(0), shape.channel_of_die(3)), (0, 0));
    }
}
