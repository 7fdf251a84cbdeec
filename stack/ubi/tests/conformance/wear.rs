//! Which PEB is allocated, which is protected, which is moved.

use sim::seam::{Flash, RamFlash};
use sim::{Peb, VolId};
use ubi::wl::{PebState, Work};
use ubi::{Background, Config, Policy};

use crate::media::peb_of;
use crate::rig::{Rig, dynamic, fastmap_grid, grid, large_lebs, pattern};

fn device(config: &Config, lebs: u32) -> (Rig<RamFlash>, VolId) {
    let mut rig = Rig::blank(large_lebs(100), config);
    let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
    rig.sync(vol_id).unwrap();
    (rig, vol_id)
}

fn state_of(rig: &mut Rig<RamFlash>, vol_id: VolId, lnum: u32) -> PebState {
    let peb = peb_of(rig.flash(), vol_id, lnum);
    rig.ubi().wear().state(peb)
}

#[test]
fn a_peb_just_handed_out_is_protected_for_ten_erasures() {
    for config in grid() {
        let (mut rig, vol_id) = device(&config, 20);
        // Cause more than ten erasures.
        (1..16).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
        rig.sync(vol_id).unwrap();
        rig.write(vol_id, 0, 0, &pattern(0, 512)).unwrap();
        (1..16).for_each(|lnum| rig.unmap(vol_id, lnum).unwrap());
        let mut erased = 0;
        while erased < 10 {
            assert_eq!(state_of(&mut rig, vol_id, 0), PebState::Protected, "after {erased} erasures, {config:?}");
            let step = rig.step().unwrap();
            assert_ne!(step, Background::Idle, "after {erased} erasures");
            erased += u32::from(step == Background::Erased);
        }
        assert_eq!(state_of(&mut rig, vol_id, 0), PebState::Used, "{config:?}");
    }
}

/// Cold LEBs that are never written again, and a few hot ones; returns lowest and highest erase count.
fn cold_and_hot(config: &Config, rounds: u32) -> (Rig<RamFlash>, u32, u32) {
    let (mut rig, vol_id) = device(config, 50);
    (0..50).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
    for round in 0..rounds {
        rig.change(vol_id, 46 + round % 4, &pattern(round, 512)).unwrap();
        for _ in 0..3 {
            rig.step().unwrap();
        }
    }
    (0..46).for_each(|lnum| assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), pattern(lnum, 512)));
    let counts: Vec<u32> = rig.ubi().wear().erase_counts().iter().map(|ec| ec.0).collect();
    let (lowest, highest) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    (rig, lowest, highest)
}

#[test]
fn wear_stays_within_about_the_threshold_and_without_levelling_it_does_not() {
    for config in grid() {
        let config = Config { wl_threshold: 8, ..config };
        let (rig, lowest, highest) = cold_and_hot(&config, 2500);
        // The choice of targets allows twice the threshold; anchors and protected PEBs add some.
        assert!(highest - lowest <= 2 * 8 + 6, "{lowest} to {highest}, {config:?}");
        assert!(rig.ubi().stats().moves > 20, "{:?}", rig.ubi().stats().moves);
        let (rig, lowest, highest) = cold_and_hot(&Config { wl_threshold: 4096, ..config }, 2500);
        assert_eq!(rig.ubi().stats().moves, 0);
        assert!(highest - lowest > 40, "{lowest} to {highest}");
    }
}

#[test]
fn nothing_is_moved_while_the_difference_is_below_the_threshold() {
    for config in grid().into_iter().filter(|config| !config.fastmap) {
        let config = Config { wl_threshold: 30, ..config };
        let (mut rig, vol_id) = device(&config, 50);
        (0..50).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
        let mut widest = 0;
        for round in 0..6000 {
            let before = rig.ubi().stats().moves;
            let wear = rig.ubi().wear();
            let free = wear.free();
            let gap = free
                .last()
                .zip(wear.least_worn_used())
                .map_or(0, |((_, last), (_, used))| last.0.saturating_sub(used.0));
            widest = gap.max(widest);
            rig.change(vol_id, 46 + round % 4, &pattern(round, 512)).unwrap();
            rig.step().unwrap();
            rig.step().unwrap();
            if rig.ubi().stats().moves > before {
                assert!(gap + 2 >= 30, "moved at a difference of {gap}");
            }
        }
        assert!(rig.ubi().stats().moves > 0 && widest >= 28, "the threshold was reached: {widest}");
    }
}

#[test]
fn a_leb_gets_a_peb_of_middling_wear() {
    let config = Config { wl_threshold: 6, fastmap: false, ..Config::linux(Policy::LINUX_6_7) };
    let (mut rig, vol_id) = device(&config, 60);
    let (mut by_root, mut by_limit) = (0, 0);
    for round in 0..1500u32 {
        let free = rig.ubi().wear().free();
        let order: Vec<(u32, Peb)> = free.iter_with_ec().map(|(peb, ec)| (ec.0, peb)).collect();
        let (lowest, highest) = (order[0].0, order[order.len() - 1].0);
        let expected = if highest - lowest < 2 * 6 {
            by_root += 1;
            free.root().unwrap()
        } else {
            by_limit += 1;
            order.iter().rev().find(|&&(ec, _)| ec < lowest + 6).unwrap().1
        };
        assert!(order.is_sorted());
        let lnum = 55 + round % 5;
        rig.unmap(vol_id, lnum).unwrap();
        rig.write(vol_id, lnum, 0, &pattern(round, 512)).unwrap();
        assert_eq!(peb_of(rig.flash(), vol_id, lnum), expected, "round {round}");
        // Levelling is left out, so that wear spreads.
        while rig.ubi().wear().free().len() < 70 {
            rig.step().unwrap();
        }
    }
    assert!(by_root > 100, "{by_root} by the root, {by_limit} by the limit");
}

#[test]
fn levelling_takes_the_most_worn_free_peb_below_the_limit_and_the_least_worn_used_one() {
    let config = Config { wl_threshold: 5, fastmap: false, ..Config::linux(Policy::LINUX_6_1) };
    let (mut rig, vol_id) = device(&config, 50);
    (0..50).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
    let mut seen = 0;
    for round in 0..3000 {
        rig.change(vol_id, 45 + round % 5, &pattern(round, 512)).unwrap();
        loop {
            let wear = rig.ubi().wear();
            let (free, source) = (wear.free(), wear.least_worn_used());
            let order: Vec<(u32, Peb)> = free.iter_with_ec().map(|(peb, ec)| (ec.0, peb)).collect();
            let limit = order[0].0 + 2 * 5;
            let target = order.iter().rev().find(|&&(ec, _)| ec < limit).unwrap().1;
            let moves = rig.ubi().stats().moves;
            if rig.step().unwrap() == Background::Idle {
                break;
            }
            if rig.ubi().stats().moves > moves {
                let owner = rig.ubi().wear().owner(target);
                assert_eq!(rig.ubi().wear().state(target), PebState::Used, "the target holds the LEB");
                assert_eq!(peb_of(rig.flash(), owner.vol_id, owner.lnum.0), target);
                assert_ne!(rig.ubi().wear().state(source.unwrap().0), PebState::Used);
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen} moves");
}

#[test]
fn erase_counts_survive_detaching_and_power_loss() {
    for config in grid() {
        let (mut rig, vol_id) = device(&config, 40);
        for round in 0..300 {
            rig.change(vol_id, round % 40, &pattern(round, 512)).unwrap();
        }
        rig.sync(vol_id).unwrap();
        let counts = rig.ubi().wear().erase_counts().to_vec();
        let pebs = rig.flash().geometry().pebs;
        rig.config.fastmap = false;
        rig.pull_plug();
        let differ = (0..pebs).filter(|&peb| rig.ubi().erase_count(Peb(peb)) != counts[peb as usize]).count();
        // Blocks of the fastmap are erased at attach.
        assert!(differ <= 2, "{differ} counts differ, {config:?}");
    }
}

/// `wear_leveling_worker` of `wl.c`: a spare anchor that is worn beyond the least worn LEB among the first 64 PEBs by the threshold is
/// given up, and that LEB is moved out to make room for a better one. Otherwise a LEB is moved for an anchor only if there is none.
#[test]
fn a_worn_spare_anchor_is_given_up_for_the_least_worn_peb_among_the_first_64() {
    let (mut given_up, mut others) = (0, 0);
    for config in fastmap_grid() {
        let config = Config { wl_threshold: 4, ..config };
        let (mut rig, vol_id) = device(&config, 70);
        (0..70).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
        for round in 0..2500 {
            rig.change(vol_id, 60 + round % 5, &pattern(round, 512)).unwrap();
            for _ in 0..3 {
                let wear = rig.ubi().wear();
                let levels = wear.works().front() == Some(&Work::WearLevel) && !wear.wl_pool.is_used_up();
                let (anchor, head) = (wear.spare_anchor(), wear.least_worn_used_head());
                let is_worn = anchor.zip(head).is_some_and(|(anchor, (_, ec))| wear.ec(anchor).0 >= ec.0 + 4);
                let before = rig.ubi().stats().anchor_moves;
                let did = rig.step().unwrap();
                let moved = rig.ubi().stats().anchor_moves - before;
                if levels && is_worn && did == Background::WearLevelled {
                    given_up += 1;
                    assert_eq!(moved, 1, "round {round}, {config:?}");
                    assert_ne!(rig.ubi().wear().state(head.unwrap().0), PebState::Used, "round {round}");
                } else if moved > 0 {
                    others += 1;
                    assert_eq!((moved, anchor), (1, None), "round {round}, {config:?}");
                }
            }
        }
        (0..60).for_each(|lnum| assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), pattern(lnum, 512)));
    }
    assert!(given_up > 10, "{given_up} given up, {others} other moves");
}
