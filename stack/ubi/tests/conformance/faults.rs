//! Faults of the flash: no written data are lost, and the device reports when it can no longer promise that.

use nand::{Array, ArrayConfig, Bytes, FactoryBad, FaultPlan, Lifetime, WearOut};
use proptest::prelude::*;
use sim::seam::{Flash, LebError};
use sim::{Peb, Seed, VolId};
use ubi::wl::PebState;
use ubi::{Config, Policy, UbiError};

use crate::faulty::Faulty;
use crate::media::{peb_of, vid_hdr};
use crate::oracle::{Op, Twin, ops};
use crate::rig::{Rig, dynamic, fastmap_grid, grid, is_power_loss, large_lebs, pattern, small_lebs};

/// A device with one volume of `lebs` LEBs, each written.
fn written(config: &Config, lebs: u32) -> (Rig<Faulty>, VolId) {
    let mut rig = Rig::attach(Faulty::new(small_lebs(96)), config);
    let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
    for lnum in 0..lebs {
        rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap();
    }
    rig.sync(vol_id).unwrap();
    (rig, vol_id)
}

#[test]
fn an_append_that_fails_takes_what_was_written_along_and_the_block_is_tortured() {
    for config in grid() {
        let (mut rig, vol_id) = written(&config, 4);
        let was = peb_of(rig.flash(), vol_id, 2);
        let ec = rig.ubi().erase_count(was);
        rig.flash().fail_programs(1);
        rig.write(vol_id, 2, 512, &pattern(9, 256)).unwrap();
        let both = [pattern(2, 512), pattern(9, 256)].concat();
        assert_eq!(rig.read(vol_id, 2, 0, 768).unwrap(), both);
        assert_eq!(rig.ubi().stats().recoveries, 1);
        rig.sync(vol_id).unwrap();
        assert_eq!(rig.ubi().erase_count(was).0, ec.0 + 4, "three patterns and a last erasure");
        assert_eq!(rig.ubi().stats().retired, 0, "it passed");
        rig.pull_plug();
        assert_eq!(rig.read(vol_id, 2, 0, 768).unwrap(), both);
    }
}

/// Linux 6.12 (`try_recover_peb`) gives the new PEB the copy flag, and the length and checksum of all its data: an
/// interrupted recovery loses to the block that failed.
#[test]
fn a_recovery_that_is_cut_keeps_what_was_written_before() {
    for config in grid() {
        let (mut rig, vol_id) = written(&config, 4);
        let before = rig.flash().clone();
        rig.flash().fail_programs(1);
        rig.write(vol_id, 2, 512, &pattern(9, 256)).unwrap();
        let peb = peb_of(rig.flash(), vol_id, 2);
        let hdr = vid_hdr(rig.flash(), peb);
        let crc = ubi::media::crc(&[pattern(2, 512), pattern(9, 256)].concat());
        assert_eq!((hdr.copy_flag, hdr.data_size, hdr.data_crc), (true, 768, crc));

        let mut cuts = 0;
        for ops in 0.. {
            let mut rig = Rig::attach(before.clone(), &config);
            rig.power_may_go = true;
            rig.flash().fail_programs(1);
            rig.flash().ops_left = ops;
            let Err(error) = rig.write(vol_id, 2, 512, &pattern(9, 256)) else { break };
            assert!(is_power_loss(&error), "{error}");
            cuts += 1;
            let mut flash = rig.into_flash();
            flash.ops_left = u64::MAX;
            let mut rig = Rig::attach(flash, &config);
            assert_eq!(rig.read(vol_id, 2, 0, 512).unwrap(), pattern(2, 512), "after {ops} operations");
        }
        assert!(cuts >= 3, "the failed program, the header and the data: {cuts}");
    }
}

/// The write has to refill the pools before it gets another PEB, and does the works queued until then: one of them is
/// the scrubbing of the very block on which it failed.
#[test]
fn an_append_that_fails_on_the_block_that_levelling_wants_to_move_loses_nothing() {
    let mut attempted = 0;
    for config in fastmap_grid() {
        for round in 0..24 {
            let config = Config { beb_per_1024: 0, ..config.clone() };
            let mut rig = Rig::attach(Faulty::new(small_lebs(80)), &config);
            let lebs = rig.ubi().available_pebs();
            let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
            (0..lebs - round % 4).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 256)).unwrap());
            rig.sync(vol_id).unwrap();
            // Until the next PEB for a LEB needs new pools.
            for hot in (0..round + 30).map(|i| i % 3) {
                if rig.ubi().wear().user_pool.is_used_up() {
                    break;
                }
                rig.change(vol_id, hot, &pattern(hot, 256)).unwrap();
            }
            let of = 10 + round;
            let was = peb_of(rig.flash(), vol_id, of);
            rig.flash().tired.insert(was.0);
            rig.read(vol_id, of, 0, 256).unwrap();
            let moves = |rig: &Rig<Faulty>| rig.ubi().stats().scrubs;
            let before = moves(&rig);
            rig.flash().fail_programs(1);
            rig.write(vol_id, of, 256, &pattern(99, 256)).unwrap();
            attempted += moves(&rig) - before;
            let expected = [pattern(of, 256), pattern(99, 256)].concat();
            assert_eq!(rig.read(vol_id, of, 0, 512).unwrap(), expected);
            rig.sync(vol_id).unwrap();
            assert_eq!(rig.read(vol_id, of, 0, 512).unwrap(), expected);
            rig.pull_plug();
            assert_eq!(rig.read(vol_id, of, 0, 512).unwrap(), expected);
        }
    }
    assert!(attempted > 10, "the block was to be moved meanwhile in {attempted} cases");
}

#[test]
fn a_block_that_fails_its_torture_test_is_retired() {
    for config in grid() {
        let (mut rig, vol_id) = written(&config, 4);
        let was = peb_of(rig.flash(), vol_id, 2);
        let reserved = rig.ubi().beb_reserved();
        rig.flash().unwritable.insert(was.0);
        rig.write(vol_id, 2, 512, &pattern(9, 256)).unwrap();
        rig.sync(vol_id).unwrap();
        assert_eq!(rig.ubi().wear().state(was), PebState::Bad);
        assert!(rig.flash().is_bad(was));
        assert_eq!((rig.ubi().beb_reserved(), rig.ubi().stats().retired), (reserved - 1, 1));
        rig.reattach();
        assert_eq!(rig.ubi().wear().state(was), PebState::Bad);
        assert_eq!(rig.ubi().beb_reserved(), reserved - 1, "the bad block counts against the limit");
    }
}

#[test]
fn a_write_that_fails_on_four_blocks_makes_the_device_read_only_and_the_old_contents_stay() {
    for config in grid() {
        let (mut rig, vol_id) = written(&config, 4);
        let all: Vec<u32> = (0..96).collect();
        rig.flash().unwritable.extend(all);
        let refused = rig.change(vol_id, 1, &pattern(9, 256));
        assert!(matches!(refused, Err(LebError::ReadOnly { .. })), "{refused:?}");
        assert!(rig.ubi().read_only().is_some());
        assert_eq!(rig.read(vol_id, 1, 0, 512).unwrap(), pattern(1, 512));
        assert!(matches!(rig.unmap(vol_id, 1), Err(LebError::ReadOnly { .. })));
        assert!(matches!(rig.map(vol_id, 1), Err(LebError::Mapped { .. } | LebError::ReadOnly { .. })));
        assert!(matches!(rig.create(&dynamic("w", 1)), Err(UbiError::ReadOnly { .. })));
        assert!(matches!(rig.remove(vol_id), Err(UbiError::ReadOnly { .. })));
        assert!(matches!(rig.resize(vol_id, 9), Err(UbiError::ReadOnly { .. })));
        assert!(matches!(rig.rename(&[(vol_id, "w")]), Err(UbiError::ReadOnly { .. })));
        assert!(matches!(rig.update(vol_id, &[1]), Err(UbiError::ReadOnly { .. })));
        let erases = rig.flash().erases;
        rig.sync(vol_id).unwrap();
        assert_eq!(rig.flash().erases, erases, "a read-only device erases nothing");
        let mut flash = rig.into_flash();
        flash.unwritable.clear();
        let mut rig = Rig::attach(flash, &config);
        for lnum in 0..4 {
            assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), pattern(lnum, 512));
        }
    }
}

#[test]
fn an_erase_that_fails_costs_the_reserve_then_what_is_available_then_the_device() {
    for config in grid() {
        let mut rig = Rig::attach(Faulty::new(small_lebs(96)), &config);
        let room = rig.ubi().available_pebs();
        let vol_id = rig.create(&dynamic("v", room - 1)).unwrap();
        rig.sync(vol_id).unwrap();
        let reserved = rig.ubi().beb_reserved();
        assert_eq!((reserved, rig.ubi().available_pebs()), (2, 1));
        for failed in 0..3 {
            rig.write(vol_id, failed, 0, &pattern(failed, 256)).unwrap();
            let peb = peb_of(rig.flash(), vol_id, failed);
            rig.flash().unerasable.insert(peb.0);
            rig.unmap(vol_id, failed).unwrap();
            rig.sync(vol_id).unwrap();
            assert_eq!(rig.ubi().wear().state(peb), PebState::Bad);
        }
        assert_eq!((rig.ubi().beb_reserved(), rig.ubi().available_pebs()), (0, 0), "{config:?}");
        rig.write(vol_id, 5, 0, &pattern(5, 256)).unwrap();
        rig.write(vol_id, 6, 0, &pattern(6, 256)).unwrap();
        let peb = peb_of(rig.flash(), vol_id, 5);
        rig.flash().unerasable.insert(peb.0);
        rig.unmap(vol_id, 5).unwrap();
        assert!(rig.sync(vol_id).is_err());
        assert!(rig.ubi().read_only().is_some());
        assert_eq!(rig.read(vol_id, 6, 0, 256).unwrap(), pattern(6, 256));
    }
}

#[test]
fn the_bad_block_reserve_is_that_of_the_whole_chip_less_the_bad_blocks_of_the_device() {
    for config in grid() {
        for (chip_pebs, beb_per_1024, bad, expected) in [
            (None, 20, 0, 2),
            (None, 20, 1, 1),
            (None, 20, 5, 0),
            (Some(512), 20, 0, 10),
            (Some(512), 20, 4, 6),
            (None, 0, 0, 0),
        ] {
            let config = Config { chip_pebs, beb_per_1024, ..config.clone() };
            let list = (1..=bad).map(|peb| Peb(3 * peb)).collect();
            let plan = FaultPlan { factory_bad: FactoryBad::List(list), ..FaultPlan::none(Seed(1)) };
            let device = ArrayConfig { faults: Some(plan), ..ArrayConfig::plain(small_lebs(96)) };
            let mut rig = Rig::attach(Array::new(device, Bytes::new()), &config);
            assert_eq!((rig.ubi().beb_reserved(), rig.ubi().good_pebs()), (expected, 96 - bad));
            let vol_id = rig.create(&dynamic("v", 20)).unwrap();
            for round in 0..60 {
                rig.change(vol_id, round % 20, &pattern(round, 512)).unwrap();
            }
            rig.reattach();
            assert_eq!(rig.ubi().beb_reserved(), expected);
            // Bad blocks are counted in the fastmap, which would be refused otherwise.
            let by_fastmap = rig.ubi().attached_by() == &ubi::attach::AttachedBy::Fastmap;
            assert_eq!(by_fastmap, config.fastmap, "{:?}", rig.ubi().notes());
            assert_eq!(rig.read(vol_id, 19, 0, 512).unwrap(), pattern(59, 512));
        }
    }
}

#[test]
fn a_read_that_needs_correction_moves_the_leb() {
    for config in grid() {
        let (mut rig, vol_id) = written(&config, 6);
        let was = peb_of(rig.flash(), vol_id, 3);
        rig.flash().tired.insert(was.0);
        assert_eq!(rig.read(vol_id, 3, 0, 512).unwrap(), pattern(3, 512));
        rig.sync(vol_id).unwrap();
        assert_eq!(rig.ubi().stats().scrubs, 1, "{config:?}");
        assert_ne!(peb_of(rig.flash(), vol_id, 3), was);
        assert_eq!(rig.read(vol_id, 3, 0, 512).unwrap(), pattern(3, 512));
        rig.write(vol_id, 3, 512, &pattern(8, 256)).unwrap();
        rig.pull_plug();
        assert_eq!(rig.read(vol_id, 3, 0, 768).unwrap(), [pattern(3, 512), pattern(8, 256)].concat());
    }
}

#[test]
fn a_copy_that_needs_correction_at_once_is_given_up_and_the_original_stays() {
    for config in grid() {
        let (mut rig, vol_id) = written(&config, 6);
        let was = peb_of(rig.flash(), vol_id, 3);
        rig.flash().tired.insert(was.0);
        rig.read(vol_id, 3, 0, 1).unwrap();
        rig.flash().ages_at_once = true;
        // One attempt only: the LEB stays in the scrub set, and each attempt tortures a target.
        while rig.ubi().stats().scrubs == 0 {
            rig.step().unwrap();
        }
        rig.flash().ages_at_once = false;
        assert_eq!(peb_of(rig.flash(), vol_id, 3), was);
        assert_eq!(rig.read(vol_id, 3, 0, 512).unwrap(), pattern(3, 512));
        rig.sync(vol_id).unwrap();
        assert_ne!(peb_of(rig.flash(), vol_id, 3), was, "a later look succeeds");
        assert_eq!(rig.read(vol_id, 3, 0, 512).unwrap(), pattern(3, 512));
    }
}

#[test]
fn a_leb_that_cannot_be_read_is_left_alone_and_too_many_of_them_make_the_device_read_only() {
    for config in grid() {
        let (mut rig, vol_id) = written(&config, 24);
        let pebs: Vec<_> = (0..24).map(|lnum| peb_of(rig.flash(), vol_id, lnum)).collect();
        let damage = |rig: &mut Rig<Faulty>, lnum: usize| {
            rig.flash().tired.insert(pebs[lnum].0);
            rig.read(vol_id, lnum as u32, 0, 1).unwrap();
            rig.flash().unreadable.insert(pebs[lnum].0);
        };
        damage(&mut rig, 0);
        rig.sync(vol_id).unwrap();
        assert_eq!(rig.ubi().wear().state(pebs[0]), PebState::Erroneous);
        assert!(rig.read(vol_id, 0, 0, 512).is_err());
        assert_eq!(rig.ubi().wear().erroneous(), 1);
        assert!(rig.both_ways_agree() == config.fastmap);
        rig.run(|ubi, cx| ubi.resize_volume(cx, vol_id, 25)).unwrap();
        assert!(rig.both_ways_agree() == config.fastmap, "an erroneous block is in the fastmap");
        rig.change(vol_id, 0, &pattern(50, 512)).unwrap();
        rig.sync(vol_id).unwrap();
        assert_eq!((rig.ubi().wear().erroneous(), rig.read(vol_id, 0, 0, 512).unwrap()), (0, pattern(50, 512)));
        for lnum in 1..=17 {
            damage(&mut rig, lnum);
            rig.sync(vol_id).unwrap();
            assert!(rig.ubi().read_only().is_none(), "{lnum} of 16 and one");
        }
        damage(&mut rig, 18);
        rig.sync(vol_id).unwrap();
        assert!(rig.ubi().read_only().is_some());
        assert_eq!(rig.read(vol_id, 20, 0, 512).unwrap(), pattern(20, 512));
    }
}

/// `wl.c`: a tenth of the PEBs, and 16 at least, may hold a LEB that cannot be read; the move that finds more of them makes the
/// device read-only.
#[test]
fn a_tenth_of_the_pebs_may_be_unreadable_and_sixteen_at_least() {
    for (pebs, most) in [(90, 16), (169, 16), (170, 17), (230, 23)] {
        let config = Config { fastmap: false, ..Config::linux(Policy::LINUX_6_7) };
        let mut rig = Rig::attach(Faulty::new(small_lebs(pebs)), &config);
        let vol_id = rig.create(&dynamic("v", 40)).unwrap();
        (0..40).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 256)).unwrap());
        rig.sync(vol_id).unwrap();
        let lost = (0..40).take_while(|&lnum| {
            let peb = peb_of(rig.flash(), vol_id, lnum);
            rig.flash().tired.insert(peb.0);
            rig.read(vol_id, lnum, 0, 1).unwrap();
            rig.flash().unreadable.insert(peb.0);
            rig.sync(vol_id).unwrap();
            rig.ubi().read_only().is_none()
        });
        // One more than the limit is borne, since it is looked at before the PEB is counted.
        assert_eq!(lost.count(), most + 1, "{pebs} PEBs");
    }
}

/// A run that changes LEBs, appends, levels, and changes the volume table.
fn script() -> Vec<Op> {
    let mut ops = Vec::new();
    for round in 0..14 {
        ops.push(Op::Write { lnum: round % 5, skip: 0, units: 2 });
        ops.push(Op::Change { lnum: round * 3 % 5, units: 3 });
        ops.push(Op::Unmap { lnum: round % 4 });
        match round % 5 {
            0 => ops.push(Op::Passer { lebs: 1 }),
            1 => ops.push(Op::Steps { count: 5 }),
            2 => ops.push(Op::Map { lnum: round % 4 }),
            3 => ops.push(Op::Sync),
            _ => {}
        }
    }
    ops
}

fn scripted(config: &Config) -> Twin<Faulty> {
    let config = Config { wl_threshold: 3, ..config.clone() };
    Twin::new(Rig::attach(Faulty::new(small_lebs(72)), &config), 5)
}

#[test]
fn whichever_program_or_erase_fails_nothing_is_lost_even_if_power_goes_next() {
    for config in fastmap_grid() {
        let mut whole = scripted(&config);
        let start = (whole.rig.flash().programs, whole.rig.flash().erases);
        script().iter().for_each(|op| whole.apply(op).unwrap());
        let end = (whole.rig.flash().programs, whole.rig.flash().erases);
        let cases = (start.0..end.0).map(|at| (true, at)).chain((start.1..end.1).map(|at| (false, at)));
        for (program, at) in cases.filter(|case| case.1 % 3 == u64::from(config.fastmap_reserve_pools)) {
            let mut twin = scripted(&config);
            if program {
                twin.rig.flash().failing_programs.insert(at);
            } else {
                twin.rig.flash().failing_erases.insert(at);
            }
            for op in &script() {
                let count = |twin: &mut Twin<Faulty>| {
                    (twin.rig.flash().failing_programs.len(), twin.rig.flash().failing_erases.len())
                };
                let before = count(&mut twin);
                twin.apply(op).unwrap_or_else(|error| panic!("{op:?} with fault {at}: {error}"));
                if count(&mut twin) != before {
                    twin.pull_plug();
                }
            }
            twin.compare();
        }
    }
}

#[test]
fn wherever_power_goes_everything_before_is_there() {
    for config in fastmap_grid() {
        let mut cuts = 0;
        for at in (0..400).step_by(3) {
            let mut twin = scripted(&config);
            twin.rig.power_may_go = true;
            twin.rig.flash().ops_left = at + u64::from(config.fastmap_reserve_pools);
            let mut cut = false;
            for op in script().iter().filter(|op| !matches!(op, Op::Passer { .. } | Op::Steps { .. })) {
                let before = twin.clone();
                match twin.apply(op) {
                    Ok(()) => {}
                    Err(error) => {
                        assert!(is_power_loss(&error), "{error}");
                        let mut flash = twin.rig.into_flash();
                        flash.ops_left = u64::MAX;
                        twin = before;
                        twin.resume(flash, op);
                        cut = true;
                        cuts += 1;
                        break;
                    }
                }
            }
            if !cut {
                break;
            }
        }
        assert!(cuts > 40, "{cuts} cuts");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_that_wear_out_are_replaced_until_the_reserve_is_gone_and_nothing_is_lost(
        ops in ops(10, 200..500), seed in any::<u64>(), fastmap: bool,
    ) {
        let wear_out = WearOut { program_failure_at_rating: 0.01, lifetime: Lifetime::Normal { cv: 0.3 }, ..WearOut::by_rating(20) };
        let plan = FaultPlan { wear_out: Some(wear_out), ..FaultPlan::none(Seed(seed)) };
        let device = ArrayConfig { faults: Some(plan), ..ArrayConfig::plain(large_lebs(72)) };
        let config = Config { fastmap, beb_per_1024: 200, wl_threshold: 4, ..Config::linux(Policy::LINUX_6_7) };
        let mut twin = Twin::new(Rig::attach(Array::new(device, Bytes::new()), &config), 10);
        let quiet = |op: &&Op| matches!(op, Op::Write { .. } | Op::Change { .. } | Op::Unmap { .. } | Op::Read { .. });
        for op in ops.iter().filter(quiet) {
            match twin.apply(op) {
                Ok(()) => {}
                Err(LebError::ReadOnly { .. } | LebError::NoSpace { .. }) if twin.rig.ubi().read_only().is_some() => break,
                Err(error) => panic!("{op:?}: {error}"),
            }
        }
        twin.compare();
    }
}
