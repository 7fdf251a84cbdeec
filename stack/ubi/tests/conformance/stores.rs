//! The same device on two stores: wear and counters do not depend on whether the store keeps bytes.

use nand::{Array, ArrayConfig, Bytes, FaultPlan, Store, Tags, WearOut};
use sim::seam::Geometry;
use sim::{Cause, EraseCount, Seed};
use ubi::{Config, Policy, Stats};

use crate::rig::{Rig, dynamic, fixed, grid, large_lebs, nor, pattern, small_lebs, sub_pages};

struct Outcome {
    stats: Stats,
    counts: Vec<EraseCount>,
    array_counts: Vec<u32>,
    erases: u64,
}

fn run<S: Store + Clone>(store: S, geometry: Geometry, config: &Config, full: bool) -> Outcome {
    let array = Array::new(ArrayConfig::plain(geometry), store);
    let mut rig = Rig::attach(array, config);
    let lebs = if full { rig.ubi().available_pebs() } else { 20 };
    let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
    let mut rng = Seed(7).stream("test/stores");
    let unit = rig.ubi().layout().min_io_bytes.max(64);
    for round in 0..900 {
        let lnum = rng.below(u64::from(lebs)) as u32;
        match rng.below(8) {
            0..4 => rig.change(vol_id, lnum, &pattern(round, 2 * unit as usize)).unwrap(),
            4 => rig.unmap(vol_id, lnum).unwrap(),
            5 => {
                if !rig.is_mapped(vol_id, lnum) {
                    rig.write(vol_id, lnum, unit, &pattern(round, unit as usize)).unwrap();
                }
            }
            6 if round % 60 == 0 => rig.sync(vol_id).unwrap(),
            _ => {
                rig.step().unwrap();
            }
        }
    }
    if let Ok(other) = rig.create(&dynamic("w", 1)) {
        rig.change(other, 0, &pattern(1, unit as usize)).unwrap();
        rig.remove(other).unwrap();
    }
    rig.flash().check();
    let erases = rig.flash().erases_by_cause().total();
    Outcome {
        stats: rig.ubi().stats().clone(),
        counts: rig.ubi().wear().erase_counts().to_vec(),
        array_counts: rig.flash().erase_counts().to_vec(),
        erases,
    }
}

#[test]
fn tags_and_bytes_wear_and_count_alike() {
    for config in grid() {
        for (geometry, full) in [
            (small_lebs(72), false),
            (small_lebs(72), true),
            (large_lebs(72), true),
            (sub_pages(72), false),
            (nor(72), false),
        ] {
            let config = Config { wl_threshold: 12, ..config.clone() };
            let bytes = run(Bytes::new(), geometry, &config, full);
            let tags = run(Tags, geometry, &config, full);
            assert_eq!(bytes.stats, tags.stats, "{geometry:?}, {config:?}");
            assert_eq!((&bytes.counts, bytes.erases), (&tags.counts, tags.erases));
            assert_eq!(bytes.array_counts, tags.array_counts);
            assert!(bytes.erases > 100);
        }
    }
}

#[test]
fn the_layer_s_erase_counts_are_the_array_s() {
    for reserve in [false, true] {
        let config = Config { fastmap_reserve_pools: reserve, wl_threshold: 12, ..Config::linux(Policy::LINUX_6_7) };
        let outcome = run(Tags, small_lebs(72), &config, true);
        let counts: Vec<u32> = outcome.counts.iter().map(|ec| ec.0).collect();
        assert_eq!(counts, outcome.array_counts);
        assert_eq!(outcome.stats.erases, outcome.erases);
    }
}

/// Rewrites a dynamic volume's LEBs whole beside a static one that is rarely updated and so is moved about, on blocks
/// that wear out: writes fail, and what was written is taken elsewhere and its block tortured.
fn whole_lebs_that_fail<S: Store + Clone>(store: S, config: &Config) -> (Rig<Array<S>>, u64) {
    let mut faults = FaultPlan::none(Seed(3));
    let wear = WearOut { program_failure_at_rating: 0.04, program_failure_exponent: 1.0, ..WearOut::by_rating(100) };
    faults.wear_out = Some(wear);
    let array = Array::new(ArrayConfig { faults: Some(faults), ..ArrayConfig::plain(large_lebs(72)) }, store);
    let mut rig = Rig::attach(array, config);
    let at_attach = rig.flash().reads().ops;
    let (fixed, dynamic) = (rig.create(&fixed("s", 6)).unwrap(), rig.create(&dynamic("d", 12)).unwrap());
    let leb = rig.ubi().layout().leb_bytes as usize;
    let mut rng = Seed(9).stream("test/stores");
    for round in 0..1200 {
        if round % 300 == 0 {
            // Its last LEB is no whole write unit.
            rig.update(fixed, &pattern(round, 5 * leb + 700)).unwrap();
        }
        let lnum = rng.below(12) as u32;
        if round % 3 == 0 {
            rig.change(dynamic, lnum, &pattern(round, leb)).unwrap();
        } else {
            rig.unmap(dynamic, lnum).unwrap();
            rig.write(dynamic, lnum, 0, &pattern(round, 512)).unwrap();
            rig.write(dynamic, lnum, 512, &pattern(round, leb - 512)).unwrap();
        }
        rig.sync(dynamic).unwrap();
    }
    rig.open(fixed).unwrap();
    rig.run(|ubi, cx| ubi.check_volume(cx, fixed)).unwrap();
    let reads = rig.flash().reads().ops - at_attach;
    (rig, reads)
}

#[test]
fn every_byte_has_the_same_cause_in_tags_and_every_read_is_done() {
    for config in grid() {
        let config = Config { wl_threshold: 12, beb_per_1024: 150, ..config };
        let (mut bytes, read) = whole_lebs_that_fail(Bytes::new(), &config);
        let (mut tags, read_without) = whole_lebs_that_fail(Tags, &config);
        assert_eq!(bytes.ubi().stats(), tags.ubi().stats(), "{config:?}");
        assert_eq!(bytes.flash().erase_counts(), tags.flash().erase_counts());
        assert_eq!(bytes.flash().programmed_bytes(), tags.flash().programmed_bytes(), "{config:?}");
        assert_eq!(bytes.ubi().volume_infos().collect::<Vec<_>>(), tags.ubi().volume_infos().collect::<Vec<_>>());
        assert_eq!(read_without, read, "{config:?}");
        let stats = bytes.ubi().stats();
        assert!(stats.recoveries > 0 && stats.moves > 10, "{stats:?}");
        assert!(tags.flash().programmed_bytes()[Cause::Torture] > 0);
    }
}

/// Bytes that wear levelling programmed, after it moved a LEB of which half is written, and the rest came then.
fn moved_half_written<S: Store + Clone>(store: S, geometry: Geometry) -> u64 {
    let config = Config { fastmap: false, wl_threshold: 2, ..Config::linux(Policy::LINUX_6_7) };
    let mut rig = Rig::attach(Array::new(ArrayConfig::plain(geometry), store), &config);
    let vol_id = rig.create(&dynamic("v", 2)).unwrap();
    let half = (rig.info(vol_id).leb_bytes / 2).next_multiple_of(rig.ubi().layout().min_io_bytes);
    rig.write(vol_id, 0, 0, &pattern(1, half as usize)).unwrap();
    for round in 0..2000 {
        rig.change(vol_id, 1, &pattern(round, 512)).unwrap();
        rig.sync(vol_id).unwrap();
    }
    assert!(rig.ubi().stats().moves > 10, "{} moves", rig.ubi().stats().moves);
    rig.write(vol_id, 0, half, &pattern(2, 512)).unwrap();
    rig.flash().programmed_bytes()[Cause::WearLevel]
}

#[test]
fn a_leb_that_is_moved_half_written_takes_the_rest_on_either_store() {
    for geometry in [large_lebs(72), sub_pages(72), nor(72)] {
        let moved = moved_half_written(Tags, geometry);
        assert_eq!(moved, moved_half_written(Bytes::default(), geometry), "{geometry:?}");
    }
}
