//! Golden erase counts after a fixed run, to the last PEB. They change only with a modelled rule, together with
//! `MODEL_VERSION` and the changelog; a change made for speed must not change them.
//!
//! The load is defined here, so that calibrating a workload changes nothing.

use std::collections::VecDeque;

use nand::{Array, ArrayConfig, Tags};
use sim::seam::{Geometry, LebVolume, Medium, Payload};
use sim::{Cx, Lnum, Seed};
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};

type Device = Ubi<Array<Tags>>;

/// A volume of the whole device.
struct Run {
    pebs: u32,
    config: Config,
    /// LEBs that are unmapped at any time.
    empty: u32,
    steps: u32,
}

/// Each step writes the LEB that has been unmapped longest and unmaps another; after two steps of three the background
/// thread runs to the end of its queue.
fn worn(run: &Run) -> Device {
    let geometry = Geometry {
        medium: Medium::Nand,
        pebs: run.pebs,
        peb_bytes: 128 << 10,
        page_bytes: 2048,
        subpage_bytes: 512,
        oob_bytes: 64,
    };
    let mut cx = Cx::new();
    let array = Array::new(ArrayConfig::plain(geometry), Tags);
    let mut ubi = match Ubi::attach(array, &mut cx, &run.config) {
        Ok(ubi) => ubi,
        Err(failure) => panic!("{failure}"),
    };
    ubi.flush(&mut cx).expect("the medium has no faults");
    let vol_id = ubi.create_volume(&mut cx, &VolumeRequest::dynamic("data", VolumeSize::Max)).expect("it has room");
    let mut volume = ubi.volume(vol_id).expect("just made");
    let (lebs, whole) = (volume.lebs(), Payload::Length(volume.leb_bytes()));
    let mut full: Vec<Lnum> = (0..lebs - run.empty).map(Lnum).collect();
    let mut empty: VecDeque<Lnum> = (lebs - run.empty..lebs).map(Lnum).collect();
    for &lnum in &full {
        volume.write(&mut cx, lnum, 0, whole).expect("the medium has no faults");
    }
    let mut rng = Seed(1).stream("golden");
    for _ in 0..run.steps {
        let mut volume = ubi.volume(vol_id).expect("it stays");
        let new = empty.pop_front().expect("some are always empty");
        volume.write(&mut cx, new, 0, whole).expect("the medium has no faults");
        // The lower half is rewritten four times as often, so that wear levelling has something to do.
        let range = if rng.chance(0.6) { full.len() / 2 } else { full.len() };
        let at = rng.below(range as u64) as usize;
        let old = std::mem::replace(&mut full[at], new);
        volume.unmap(&mut cx, old).expect("it is mapped");
        empty.push_back(old);
        if rng.below(3) > 0 {
            ubi.flush(&mut cx).expect("the medium has no faults");
        }
    }
    ubi
}

/// FNV-1a over every erase count.
fn fingerprint(ubi: &Device) -> u64 {
    let bytes = ubi.wear().erase_counts().iter().flat_map(|ec| ec.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[test]
fn erase_counts_are_the_golden_ones() {
    let before = |wl_threshold| Config { wl_threshold, ..Config::linux(Policy::LINUX_6_1) };
    let after = |wl_threshold| Config { wl_threshold, ..Config::linux(Policy::LINUX_6_7) };
    let reserving = |wl_threshold| Config { fastmap_reserve_pools: true, ..after(wl_threshold) };
    let without = |wl_threshold| Config { fastmap: false, ..after(wl_threshold) };
    let runs = [
        Run { pebs: 1024, config: before(128), empty: 6, steps: 150_000 },
        Run { pebs: 1024, config: after(128), empty: 6, steps: 150_000 },
        Run { pebs: 1024, config: reserving(64), empty: 6, steps: 150_000 },
        Run { pebs: 1024, config: without(16), empty: 100, steps: 150_000 },
        Run { pebs: 4096, config: before(4096), empty: 2000, steps: 100_000 },
        Run { pebs: 16_384, config: after(8), empty: 12, steps: 400_000 },
    ];
    let found = runs.map(|run| {
        let ubi = worn(&run);
        ubi.check();
        (fingerprint(&ubi), ubi.stats().erases, ubi.stats().fastmap_writes, ubi.stats().moves)
    });
    // Fingerprint, erasures, fastmaps written, LEBs moved to level wear.
    let golden = [
        (1094291040483057159, 185382, 32801, 1553),
        (11615688263179405468, 164291, 10772, 1935),
        (16752510795557530041, 154280, 3027, 192),
        (1553254447568030261, 158222, 0, 7196),
        (18382402101961712524, 104609, 512, 0),
        (221731905823241733, 457422, 2323, 36156),
    ];
    assert_eq!(found, golden);
}
