//! What an operation says when something went wrong under it: no error of the flash is swallowed, whatever operation met
//! it, and everything that was done is counted.

use std::fmt::Debug;

use sim::seam::{Flash, LebVolume, Payload};
use sim::{Cx, Lnum, Peb, VolId};
use ubi::media::VtblRecord;
use ubi::wl::PebState;
use ubi::{Config, Policy, Ubi, VolumeRequest};

use crate::faulty::Faulty;
use crate::media::{LAYOUT, edit_record, peb_of, rewrite, vid_hdr};
use crate::rig::{Rig, dynamic, fastmap_grid, fixed, grid, pattern, small_lebs};

type Outcome = Result<(), String>;

fn told<T, E: Debug>(outcome: Result<T, E>) -> Outcome {
    outcome.map(drop).map_err(|error| format!("{error:?}"))
}

type Work = (&'static str, fn(&mut Ubi<Faulty>, &mut Cx) -> Outcome);

fn leb<T, E: Debug>(
    ubi: &mut Ubi<Faulty>,
    cx: &mut Cx,
    work: impl FnOnce(&mut ubi::Volume<'_, Faulty>, &mut Cx) -> Result<T, E>,
) -> Outcome {
    told(work(&mut ubi.volume(VolId(0)).unwrap(), cx))
}

/// Every operation of a device, on volume 0 "d", dynamic, and volume 1 "s", static.
const WORKS: [Work; 24] = [
    ("write", |ubi, cx| leb(ubi, cx, |v, cx| v.write(cx, Lnum(9), 0, Payload::Bytes(&pattern(9, 512))))),
    ("append", |ubi, cx| leb(ubi, cx, |v, cx| v.write(cx, Lnum(9), 512, Payload::Bytes(&pattern(9, 256))))),
    ("recover", |ubi, cx| {
        ubi.flash_mut().fail_programs(1);
        leb(ubi, cx, |v, cx| v.write(cx, Lnum(9), 768, Payload::Bytes(&pattern(9, 256))))
    }),
    ("change", |ubi, cx| leb(ubi, cx, |v, cx| v.change(cx, Lnum(1), Payload::Bytes(&pattern(1, 512))))),
    ("change a LEB to nothing", |ubi, cx| leb(ubi, cx, |v, cx| v.change(cx, Lnum(2), Payload::Bytes(&[])))),
    ("map", |ubi, cx| leb(ubi, cx, |v, cx| v.map(cx, Lnum(8)))),
    ("unmap", |ubi, cx| leb(ubi, cx, |v, cx| v.unmap(cx, Lnum(3)))),
    ("read", |ubi, cx| leb(ubi, cx, |v, cx| v.read(cx, Lnum(4), 0, &mut [0; 700]))),
    ("read, tired", |ubi, cx| {
        let peb = peb_of(&mut ubi.flash().clone().restore(), VolId(0), 4);
        ubi.flash_mut().tired.insert(peb.0);
        leb(ubi, cx, |v, cx| v.read(cx, Lnum(4), 0, &mut [0; 700]))
    }),
    ("step", |ubi, cx| told(ubi.step_background(cx))),
    ("step again", |ubi, cx| told(ubi.step_background(cx))),
    ("a third step", |ubi, cx| told(ubi.step_background(cx))),
    ("sync", |ubi, cx| leb(ubi, cx, |v, cx| v.sync(cx))),
    ("update", |ubi, cx| told(ubi.update_volume(cx, VolId(1), &pattern(5, 5000)))),
    ("check", |ubi, cx| told(ubi.check_volume(cx, VolId(1)))),
    ("read checked", |ubi, cx| told(ubi.volume(VolId(1)).unwrap().read_checked(cx, Lnum(1), 0, &mut [0; 100]))),
    ("create", |ubi, cx| told(ubi.create_volume(cx, &dynamic("new", 2)))),
    ("write to it", |ubi, cx| {
        told(ubi.volume(VolId(2)).unwrap().write(cx, Lnum(0), 0, Payload::Bytes(&pattern(2, 512))))
    }),
    ("grow", |ubi, cx| told(ubi.resize_volume(cx, VolId(0), 14))),
    ("shrink", |ubi, cx| told(ubi.resize_volume(cx, VolId(0), 7))),
    ("rename over another", |ubi, cx| told(ubi.rename_volumes(cx, &[(VolId(0), "new")]))),
    ("remove", |ubi, cx| told(ubi.remove_volume(cx, VolId(1)))),
    ("update a dynamic volume", |ubi, cx| told(ubi.update_volume(cx, VolId(0), &pattern(6, 6000)))),
    ("flush", |ubi, cx| told(ubi.flush(cx))),
];

/// A flash with both volumes, LEBs 0 to 6 of which are written.
fn base(config: &Config, pebs: u32) -> Faulty {
    let mut rig = Rig::attach(Faulty::new(small_lebs(pebs)), config);
    let vol_id = rig.create(&dynamic("d", 10)).unwrap();
    let fixed = rig.create(&fixed("s", 3)).unwrap();
    (0..7).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
    rig.update(fixed, &pattern(3, 4000)).unwrap();
    rig.detach()
}

fn attach(mut flash: Faulty, config: &Config, ops: u64) -> Result<Ubi<Faulty>, Box<(bool, Faulty, String)>> {
    (flash.ops_left, flash.reads_count) = (ops, true);
    Ubi::attach(flash, &mut Cx::new(), config).map_err(|failure| {
        let error = format!("{:?}", failure.error);
        Box::new((failure.flash.was_lost, failure.flash, error))
    })
}

fn check_lost(was_lost: bool, outcome: &Outcome, place: &str) {
    match outcome {
        Ok(()) => assert!(!was_lost, "{place}: power was lost, and nothing was said"),
        Err(error) => assert!(was_lost && error.contains("PowerLost"), "{place}: {error}"),
    }
}

#[test]
fn whatever_power_is_lost_under_says_so() {
    for config in grid() {
        let config = Config { wl_threshold: 2, ..config };
        let flash = base(&config, 80);
        let whole = attach(flash.clone(), &config, u64::MAX).ok().unwrap();
        let spent_by_attach = u64::MAX - whole.flash().ops_left;
        let mut lost = std::collections::BTreeSet::new();
        for ops in (0..spent_by_attach).step_by(7) {
            let Err(failure) = attach(flash.clone(), &config, ops) else { panic!("attached by {ops} reads") };
            assert!(failure.0);
        }
        for at in 0.. {
            let mut ubi = whole.clone();
            ubi.flash_mut().ops_left = at;
            let mut cx = Cx::new();
            let stopped = WORKS.iter().find(|(what, work)| {
                let outcome = work(&mut ubi, &mut cx);
                check_lost(ubi.flash().was_lost, &outcome, &format!("{what}, after {at} operations, {config:?}"));
                outcome.is_err()
            });
            if let Some((what, _)) = stopped {
                lost.insert(*what);
                continue;
            }
            let left = ubi.flash().ops_left;
            let (flash, outcome) = ubi.detach(&mut cx);
            check_lost(flash.was_lost, &told(outcome), "detach");
            if !flash.was_lost || left > 100 {
                break;
            }
        }
        // All but those that touch no flash.
        assert!(lost.len() >= 18, "{lost:?}");
    }
}

/// Linux sets the update marker before it unmaps a LEB (`ubi_start_update`), so that nobody takes half of the old contents for whole.
#[test]
fn an_update_that_loses_power_has_set_the_marker_or_lost_nothing() {
    for config in grid() {
        let whole = attach(base(&config, 80), &config, u64::MAX).ok().unwrap();
        let (mut kept, mut marked) = (0, 0);
        for ops in 0.. {
            let mut ubi = whole.clone();
            ubi.flash_mut().ops_left = ops;
            if ubi.begin_update(&mut Cx::new(), VolId(0), 2000).is_ok() && ubi.flush(&mut Cx::new()).is_ok() {
                break;
            }
            let mut rig = Rig::attach(ubi.detach(&mut Cx::new()).0.restore(), &config);
            if rig.info(VolId(0)).record.upd_marker {
                marked += 1;
                continue;
            }
            kept += 1;
            for lnum in 0..7 {
                let found = rig.read(VolId(0), lnum, 0, 512);
                assert_eq!(found.unwrap(), pattern(lnum, 512), "after {ops} operations, {config:?}");
            }
        }
        assert!(kept > 0 && marked > 5, "{kept}, {marked}, {config:?}");
    }
}

/// Attach repairs a copy of the volume table, grows a volume, erases old fastmaps and formats: each is cut everywhere.
#[test]
fn an_attach_under_which_power_is_lost_says_so_and_the_next_one_does_its_work() {
    for config in grid() {
        let mut autoresized = base(&config, 80);
        edit_record(&mut autoresized, VolId(0), |record| record.flags |= VtblRecord::AUTORESIZE);
        let torn = [0, 1].map(|lnum| {
            let mut flash = base(&config, 80);
            let peb = peb_of(&mut flash, LAYOUT, lnum);
            rewrite(&mut flash, peb, |bytes| bytes[600..900].fill(0));
            flash
        });
        let without_fastmap = Config { fastmap: false, ..config.clone() };
        let cases = [
            ("blank", Faulty::new(small_lebs(80)), &config, 0),
            ("autoresize", autoresized, &config, 7),
            ("copy 0 torn", torn[0].clone(), &config, 7),
            ("copy 1 torn", torn[1].clone(), &config, 7),
            ("without fastmap", base(&config, 80), &without_fastmap, 7),
        ];
        for (what, flash, config, lebs) in cases {
            let mut cuts = 0;
            for ops in (0..).step_by(5) {
                let place = format!("{what}, after {ops} operations, {config:?}");
                let flash = match attach(flash.clone(), config, ops) {
                    Ok(ubi) => {
                        check_lost(ubi.flash().was_lost, &Ok(()), &place);
                        break;
                    }
                    Err(failure) => {
                        let (was_lost, flash, error) = *failure;
                        check_lost(was_lost, &Err(error), &place);
                        flash
                    }
                };
                cuts += 1;
                let mut rig = Rig::attach(flash.restore(), config);
                for lnum in 0..lebs {
                    assert_eq!(rig.read(VolId(0), lnum, 0, 512).unwrap(), pattern(lnum, 512), "{place}");
                }
                let [first, second] = [0, 1].map(|lnum| {
                    let peb = peb_of(rig.flash(), LAYOUT, lnum);
                    crate::media::peb_bytes(rig.flash(), peb)[512..].to_vec()
                });
                assert!(first == second, "{place}: the copies of the table differ");
                if what == "autoresize" {
                    assert_eq!(rig.ubi().available_pebs(), 0, "{place}");
                }
            }
            assert!(cuts > 10, "{what}: {cuts}");
        }
    }
}

/// Linux: `ubi_eba_write_leb` and its like try four PEBs (one, and `UBI_IO_RETRIES` = 3 again). Three failures are borne.
#[test]
fn a_write_tries_four_pebs() {
    for config in grid() {
        for failures in 1..=4 {
            let mut rig = Rig::attach(base(&config, 80), &config);
            // The pools are filled first.
            rig.change(VolId(0), 3, &pattern(3, 512)).unwrap();
            rig.flash().fail_programs(failures);
            let outcome = rig.change(VolId(0), 2, &pattern(77, 512));
            assert_eq!(outcome.is_ok(), failures < 4, "{failures} failures, {config:?}: {outcome:?}");
            assert_eq!(rig.ubi().read_only().is_some(), failures == 4);
            assert_eq!(rig.ubi().stats().recoveries, failures);
            let expected = if failures < 4 { 77 } else { 2 };
            assert_eq!(rig.read(VolId(0), 2, 0, 512).unwrap(), pattern(expected, 512));
        }
    }
}

/// The flash counts its erases, the device its own: no erasure is uncounted, and none is counted twice.
#[test]
fn every_erasure_is_counted_and_so_is_every_peb_for_a_leb() {
    for config in grid() {
        let mut rig = Rig::attach(base(&config, 80), &config);
        let uncounted = rig.flash().erases - rig.ubi().stats().erases;
        let mut pebs = rig.ubi().stats().user_pebs;
        for round in 0..300u32 {
            match round % 10 {
                3 => {
                    rig.flash().fail_programs(1);
                    rig.change(VolId(0), 0, &pattern(round, 256)).unwrap();
                    pebs += 2;
                }
                4 => {
                    rig.resize(VolId(0), 10 + round / 10 % 2).unwrap();
                    pebs += 2;
                }
                5 => rig.sync(VolId(0)).unwrap(),
                6 => rig.write(VolId(0), 0, 256, &pattern(round, 256)).unwrap(),
                7 => {
                    rig.unmap(VolId(0), 5).unwrap();
                    rig.map(VolId(0), 5).unwrap();
                    pebs += 1;
                }
                _ => {
                    rig.change(VolId(0), round % 4, &pattern(round, 256)).unwrap();
                    pebs += 1;
                }
            }
            let (stats, erases) = (rig.ubi().stats().clone(), rig.flash().erases);
            assert_eq!(erases - stats.erases, uncounted, "round {round}, {config:?}");
            assert_eq!(stats.user_pebs, pebs, "round {round}, {config:?}");
            let triggered: u64 = stats.fastmap_triggers.iter().sum();
            assert_eq!(stats.fastmap_writes, triggered, "none failed");
            for sizes in [&stats.user_pool_sizes, &stats.wl_pool_sizes] {
                assert_eq!(sizes.iter().sum::<u64>(), triggered, "a refill for each");
            }
        }
    }
}

/// A fastmap of three PEBs whose writing fails at one of its six programs: VID headers first, anchor before data, then the data.
#[test]
fn a_fastmap_that_cannot_be_written_is_gone_with_its_predecessor_and_its_blocks_are_tested() {
    for config in fastmap_grid() {
        for failing in 0..6 {
            let whole = Rig::attach(base(&config, 200), &config);
            let mut count = whole.clone();
            count.create(&dynamic("w", 1)).unwrap();
            let end = count.flash().programs;
            let blocks = count.ubi().fastmap_pebs().to_vec();
            let mut rig = whole;
            let old = rig.ubi().fastmap_pebs().to_vec();
            rig.flash().failing_programs.insert(end - 6 + failing);
            let ecs: Vec<u32> = count.ubi().wear().erase_counts().iter().map(|ec| ec.0).collect();
            rig.create(&dynamic("w", 1)).unwrap();
            assert!(rig.ubi().fastmap_pebs().is_empty(), "{config:?}, program {failing}");
            let (_, by_fastmap) = rig.both_ways();
            assert!(by_fastmap.is_none(), "neither the new nor the old one is found");
            rig.run(|ubi, cx| {
                while ubi.has_background_work() {
                    ubi.step_background(cx).map(drop).unwrap();
                }
            });
            // Blocks among the first 64 are erased at once and not tested: attach must not find them.
            for &peb in &blocks {
                let erased = rig.ubi().erase_count(peb).0 - ecs[peb.at()];
                assert_eq!(erased, if peb.0 < 64 { 1 } else { 4 }, "PEB {peb}, program {failing}, {config:?}");
            }
            for &peb in &old {
                let erased = rig.ubi().erase_count(peb).0 - ecs[peb.at()];
                assert!(erased <= 1, "the old blocks did not fail: {erased}");
            }
            assert!(blocks[0].0 < 64 && blocks[1..].iter().all(|peb| peb.0 >= 64), "{blocks:?}");
            // The next occasion writes one again.
            rig.create(&dynamic("x", 1)).unwrap();
            assert_eq!(rig.ubi().fastmap_pebs().len(), 3);
            (0..7).for_each(|lnum| assert_eq!(rig.read(VolId(0), lnum, 0, 512).unwrap(), pattern(lnum, 512)));
            rig.pull_plug();
            (0..7).for_each(|lnum| assert_eq!(rig.read(VolId(0), lnum, 0, 512).unwrap(), pattern(lnum, 512)));
        }
    }
}

/// On a full device the fastmap's blocks are erased and written again in place. If such an erase fails, there is no fastmap,
/// neither the old nor the new, and the device runs on.
#[test]
fn a_fastmap_block_that_cannot_be_erased_in_place_ends_the_fastmap() {
    let config = Config { beb_per_1024: 60, ..Config::linux(Policy::LINUX_6_1) };
    let mut met = 0;
    for victim in 0..3 {
        let mut rig = Rig::attach(Faulty::new(small_lebs(68)), &config);
        let lebs = rig.ubi().available_pebs();
        let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
        let mut held: Vec<u32> = (0..lebs).collect();
        (0..lebs).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 256)).unwrap());
        for round in 0..30 * lebs {
            let before = (rig.ubi().stats().data_blocks_in_place, rig.ubi().stats().anchors_in_place);
            let marked = rig.ubi().fastmap_pebs().get(victim).copied();
            if round > 5 * lebs && met < victim as u32 + 1 {
                rig.flash().unerasable.extend(marked.map(|peb| peb.0));
            }
            let lnum = round * 7 % lebs;
            rig.change(vol_id, lnum, &pattern(round, 256)).unwrap();
            held[lnum as usize] = round;
            let after = (rig.ubi().stats().data_blocks_in_place, rig.ubi().stats().anchors_in_place);
            let bad = marked.is_some_and(|peb| rig.ubi().wear().state(peb) == PebState::Bad);
            if after != before && bad {
                met += 1;
            }
            rig.flash().unerasable.clear();
            rig.both_ways_agree();
        }
        for (lnum, &serial) in (0..).zip(&held) {
            assert_eq!(rig.read(vol_id, lnum, 0, 256).unwrap(), pattern(serial, 256));
        }
        rig.pull_plug();
        for (lnum, &serial) in (0..).zip(&held) {
            assert_eq!(rig.read(vol_id, lnum, 0, 256).unwrap(), pattern(serial, 256));
        }
    }
    assert!(met >= 2, "{met}");
}

/// A volume tells what it is made of; a new static one has no data, and nothing to check.
#[test]
fn a_new_volume_is_what_was_asked_for() {
    for config in grid() {
        let mut rig = Rig::attach(Faulty::new(small_lebs(80)), &config);
        let request = VolumeRequest { alignment: 512, ..fixed("s", 3) };
        let vol_id = rig.create(&request).unwrap();
        let info = rig.info(vol_id);
        // 3584 bytes of a LEB are 7 times 512.
        assert_eq!((info.leb_bytes, info.mapped, info.data_bytes, info.corrupted), (3584, 0, 0, false));
        rig.flash().reads_count = true;
        rig.flash().ops_left = 0;
        rig.open(vol_id).expect("nothing is read");
        rig.flash().ops_left = u64::MAX;
        rig.run(|ubi, _| {
            let volume = ubi.volume(vol_id).unwrap();
            assert_eq!((volume.lebs(), volume.leb_bytes(), volume.min_io_bytes()), (3, 3584, 256));
        });
        let hdr = |rig: &mut Rig<Faulty>, lnum| {
            let peb: Peb = peb_of(rig.flash(), LAYOUT, lnum);
            vid_hdr(rig.flash(), peb)
        };
        let (first, second) = (hdr(&mut rig, 0), hdr(&mut rig, 1));
        assert_eq!((first.compat, second.compat), (5, 5));
        assert!(second.sqnum > first.sqnum, "the first copy is written first");
        assert!(Flash::geometry(rig.ubi().flash()).pebs == 80);
    }
}
