//! The fastmap: when and where it is written, what its pools hold, and that attaching by it finds what a scan finds.

use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{Geometry, RamFlash};
use sim::{Cx, Peb, VolId};
use ubi::attach::{AttachedBy, attach_by_fastmap, attach_by_scan, choose};
use ubi::media::EcHdr;
use ubi::{Config, FastmapTrigger, Policy, Ubi, user_pool_max};

use crate::faulty::Faulty;
use crate::media::{peb_bytes, peb_of, rewrite};
use crate::rig::{Rig, dynamic, fastmap_grid, fixed, grid, large_lebs, pattern, small_lebs};

fn device(config: &Config, pebs: u32) -> (Rig<RamFlash>, VolId) {
    let mut rig = Rig::blank(large_lebs(pebs), config);
    let vol_id = rig.create(&dynamic("v", 30)).unwrap();
    rig.sync(vol_id).unwrap();
    rig.reattach();
    (rig, vol_id)
}

fn triggered(rig: &Rig<RamFlash>, trigger: FastmapTrigger) -> u64 {
    rig.ubi().stats().fastmap_triggers[trigger as usize]
}

#[test]
fn a_change_of_the_volume_table_writes_one_and_so_does_detaching() {
    for config in fastmap_grid() {
        let (mut rig, vol_id) = device(&config, 120);
        assert_eq!(*rig.ubi().attached_by(), AttachedBy::Fastmap);
        let mut expected = triggered(&rig, FastmapTrigger::Volumes);
        let mut one_more = |rig: &Rig<RamFlash>, what: &str| {
            expected += 1;
            assert_eq!(triggered(rig, FastmapTrigger::Volumes), expected, "{what}, {config:?}");
            let (_, fastmap) = rig.both_ways();
            let names = |info: &ubi::attach::AttachInfo| {
                info.volumes.iter().flatten().map(|volume| volume.record.name.clone()).collect::<Vec<_>>()
            };
            assert_eq!(names(&fastmap.unwrap()), rig.ubi().volume_infos().map(|i| i.record.name).collect::<Vec<_>>());
        };
        let other = rig.create(&fixed("w", 2)).unwrap();
        one_more(&rig, "create");
        rig.resize(vol_id, 31).unwrap();
        one_more(&rig, "resize");
        rig.rename(&[(other, "x")]).unwrap();
        one_more(&rig, "rename");
        rig.remove(other).unwrap();
        one_more(&rig, "remove");
        rig.write(vol_id, 3, 0, &pattern(3, 512)).unwrap();
        rig.reattach();
        assert_eq!(*rig.ubi().attached_by(), AttachedBy::Fastmap);
        assert_eq!(rig.read(vol_id, 3, 0, 512).unwrap(), pattern(3, 512));
    }
}

/// Whoever looked at a flash both ways already need not read it again to attach it.
#[test]
fn what_was_found_on_a_flash_makes_the_same_device_as_reading_it() {
    for config in fastmap_grid() {
        let (mut rig, vol_id) = device(&config, 120);
        for round in 0..4 {
            rig.change(vol_id, round, &pattern(round, 512)).unwrap();
            rig.unmap(vol_id, round / 2).unwrap();
            let layout = *rig.ubi().layout();
            let mut flash = rig.ubi().flash().clone();
            if round == 3 {
                // A fastmap that cannot be used: the reason is among the notes.
                let anchor = rig.ubi().fastmap_pebs()[0];
                rewrite(&mut flash, anchor, |cells| cells[layout.data_offset as usize + 20] ^= 1);
            }
            let by_fastmap = attach_by_fastmap(&mut flash.clone(), &mut Cx::new(), &layout);
            assert_eq!(by_fastmap.is_ok(), round < 3);
            let found = choose(by_fastmap, || attach_by_scan(&mut flash.clone(), &mut Cx::new(), &layout)).unwrap();
            let read = Ubi::attach(flash.clone(), &mut Cx::new(), &config).unwrap();
            let made = Ubi::attach_found(flash, &mut Cx::new(), &config, found).unwrap();
            assert_eq!(format!("{read:?}"), format!("{made:?}"));
            assert_eq!(read.notes().iter().any(|note| note.contains("fastmap not used")), round == 3);
        }
    }
}

#[test]
fn a_pool_that_is_used_up_writes_one_and_is_filled_to_its_maximum() {
    for config in fastmap_grid() {
        for pebs in [100, 200, 330] {
            let (mut rig, vol_id) = device(&config, pebs);
            let max = user_pool_max(pebs);
            assert_eq!(max, (pebs / 100 * 5).clamp(8, 256));
            rig.create(&dynamic("w", 1)).unwrap();
            let pools = |rig: &Rig<RamFlash>| (rig.ubi().wear().user_pool.size(), rig.ubi().wear().wl_pool.size());
            assert_eq!(pools(&rig), (max, max / 2), "{pebs} PEBs, {config:?}");
            let by_pool = |rig: &Rig<RamFlash>| {
                let all = [FastmapTrigger::UserPool, FastmapTrigger::BothPools, FastmapTrigger::WlPool];
                all.map(|trigger| triggered(rig, trigger)).iter().sum::<u64>()
            };
            let (before, writes) = (by_pool(&rig), rig.ubi().stats().fastmap_writes);
            let left = rig.ubi().wear().user_pool.size() - rig.ubi().wear().user_pool.used();
            for round in 0..left {
                rig.change(vol_id, round % 30, &pattern(round, 512)).unwrap();
            }
            assert_eq!((by_pool(&rig), rig.ubi().stats().fastmap_writes), (before, writes), "the pool lasts so long");
            rig.change(vol_id, 0, &pattern(7, 512)).unwrap();
            assert_eq!((by_pool(&rig), rig.ubi().stats().fastmap_writes), (before + 1, writes + 1));
            assert_eq!(pools(&rig), (max, max / 2));
        }
    }
}

#[test]
fn the_anchor_is_among_the_first_64_and_the_fastmap_has_the_blocks_it_should_have() {
    for config in fastmap_grid() {
        let config = Config { wl_threshold: 10, ..config };
        for (geometry, blocks) in [(large_lebs(150), 1), (small_lebs(150), 3)] {
            let mut rig = Rig::blank(geometry, &config);
            let lebs = rig.ubi().available_pebs();
            let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
            for round in 0..1200 {
                rig.change(vol_id, (round * 11 + round / lebs) % lebs, &pattern(round, 512)).unwrap();
                rig.step().unwrap();
                let fastmap = rig.ubi().fastmap_pebs();
                assert!(fastmap.is_empty() || fastmap[0].0 < 64, "{fastmap:?}");
                assert!(fastmap.is_empty() || fastmap.len() == blocks, "{fastmap:?}");
                if round % 50 == 0 {
                    assert_eq!(rig.both_ways_agree(), !rig.ubi().fastmap_pebs().is_empty());
                }
            }
            assert!(rig.ubi().stats().fastmap_writes > 10);
            rig.reattach();
            assert_eq!(*rig.ubi().attached_by(), AttachedBy::Fastmap, "{config:?}");
        }
    }
}

#[test]
fn what_was_written_from_the_pools_after_the_fastmap_is_found_by_it() {
    for config in fastmap_grid() {
        let (mut rig, vol_id) = device(&config, 150);
        (0..10).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
        rig.reattach();
        let writes = rig.ubi().stats().fastmap_writes;
        rig.create(&dynamic("w", 1)).unwrap();
        // Both orders of the old copy's erasure, a fresh LEB, an unmapped one.
        rig.change(vol_id, 2, &pattern(102, 512)).unwrap();
        rig.write(vol_id, 20, 0, &pattern(120, 512)).unwrap();
        rig.unmap(vol_id, 5).unwrap();
        rig.map(vol_id, 5).unwrap();
        assert_eq!(rig.ubi().stats().fastmap_writes, writes + 2, "one for the pools, one for the new volume");
        assert!(rig.both_ways_agree());
        rig.pull_plug();
        assert_eq!(*rig.ubi().attached_by(), AttachedBy::Fastmap, "{:?}", rig.ubi().notes());
        for (lnum, expected) in [(2, 102), (20, 120), (9, 9)] {
            assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), pattern(expected, 512), "LEB {lnum}");
        }
        assert_eq!(rig.read(vol_id, 5, 0, 512).unwrap(), vec![0xff; 512]);
    }
}

#[test]
fn without_fastmap_none_is_written_and_one_that_is_there_is_removed() {
    for config in grid() {
        let (mut rig, vol_id) = device(&config, 120);
        rig.write(vol_id, 1, 0, &pattern(1, 512)).unwrap();
        assert_eq!(rig.both_ways_agree(), config.fastmap);
        rig.config.fastmap = false;
        rig.pull_plug();
        assert_eq!((rig.ubi().attached_by(), rig.both_ways_agree()), (&AttachedBy::Scan, false));
        for round in 0..60 {
            rig.change(vol_id, round % 30, &pattern(round, 512)).unwrap();
        }
        assert_eq!(rig.ubi().stats().fastmap_writes, 0);
        // If the old one were still there, it would be found now, and its contents would be outdated.
        rig.config.fastmap = true;
        rig.pull_plug();
        assert_eq!(*rig.ubi().attached_by(), AttachedBy::Scan);
        for round in 30..60 {
            assert_eq!(rig.read(vol_id, round % 30, 0, 512).unwrap(), pattern(round, 512));
        }
    }
}

#[test]
fn a_damaged_fastmap_is_not_used_and_the_scan_finds_everything() {
    for config in fastmap_grid() {
        for damage in [16, 512 + 8, 1024 + 4, 1024 + 12, 1024 + 400, 1024 + 3000] {
            let (mut rig, vol_id) = device(&config, 120);
            rig.write(vol_id, 1, 0, &pattern(1, 512)).unwrap();
            let mut flash = rig.detach();
            let anchor = peb_of(&mut flash, VolId(ubi::media::FM_SB_VOLUME_ID), 0);
            rewrite(&mut flash, anchor, |bytes| bytes[damage] ^= 0x10);
            let mut rig = Rig::attach(flash, &config);
            assert_eq!(*rig.ubi().attached_by(), AttachedBy::Scan, "byte {damage}");
            let told = rig.ubi().notes().iter().any(|note| note.starts_with("fastmap not used: "));
            assert!(told, "byte {damage}: {:?}", rig.ubi().notes());
            assert_eq!(rig.read(vol_id, 1, 0, 512).unwrap(), pattern(1, 512));
            rig.reattach();
            assert_eq!(rig.read(vol_id, 1, 0, 512).unwrap(), pattern(1, 512));
            // Behind a broken VID header there are data: the block is kept, and no fastmap may be trusted beside it.
            let again = if damage == 512 + 8 { AttachedBy::Scan } else { AttachedBy::Fastmap };
            assert_eq!(*rig.ubi().attached_by(), again, "byte {damage}: {:?}", rig.ubi().notes());
        }
    }
}

#[test]
fn wherever_power_goes_while_one_is_written_both_ways_find_the_same_contents() {
    for config in fastmap_grid() {
        let base = {
            let mut rig = Rig::attach(Faulty::new(small_lebs(80)), &config);
            let vol_id = rig.create(&dynamic("v", 20)).unwrap();
            (0..15).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
            rig.reattach();
            rig.unmap(vol_id, 14).unwrap();
            rig.change(vol_id, 1, &pattern(101, 512)).unwrap();
            rig
        };
        let vol_id = VolId(0);
        let mut cuts = 0;
        for at in 0.. {
            let mut rig = base.clone();
            rig.power_may_go = true;
            rig.flash().ops_left = at;
            let created = rig.create(&dynamic("w", 3));
            let mut flash = rig.into_flash();
            flash.ops_left = u64::MAX;
            for fastmap in [true, false] {
                let config = Config { fastmap, ..config.clone() };
                let mut rig = Rig::attach(flash.clone(), &config);
                for lnum in 0..14 {
                    let seed = if lnum == 1 { 101 } else { lnum };
                    assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), pattern(seed, 512), "cut {at}, LEB {lnum}");
                }
                for round in 0..40 {
                    rig.change(vol_id, round % 14, &pattern(round, 512)).unwrap();
                }
                rig.reattach();
                assert_eq!(rig.read(vol_id, 39 % 14, 0, 512).unwrap(), pattern(39, 512));
            }
            if created.is_ok() {
                break;
            }
            cuts += 1;
        }
        assert!(cuts > 10, "{cuts} cuts");
    }
}

#[test]
fn erasing_in_place_on_a_full_device_returns_its_count_under_one_policy_only() {
    let counts_agree = |policy: Policy| {
        let config = Config { beb_per_1024: 0, ..Config::linux(policy) };
        let mut rig = Rig::blank(small_lebs(68), &config);
        let lebs = rig.ubi().available_pebs();
        let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
        for round in 0..12 * lebs {
            rig.change(vol_id, round % lebs, &pattern(round, 256)).unwrap();
        }
        let in_place = rig.ubi().stats().data_blocks_in_place;
        let (scan, _) = rig.both_ways();
        let same = scan.erase_counts.iter().zip(rig.ubi().wear().erase_counts()).all(|(a, b)| a == b);
        (in_place > 0, same)
    };
    let (in_place, same) = counts_agree(Policy::LINUX_6_1);
    assert!(in_place && !same, "6.1 forgets erasures in place: {in_place}, {same}");
    let (_, same) = counts_agree(Policy::LINUX_6_7);
    assert!(same, "6.7 does not");
}

/// Offsets by hand, from the table of the format: super block 312 bytes, header 32, two pools of 1048, 8 for each listed
/// PEB, then for each volume 32 and 8 and 4 for each LEB.
#[test]
fn a_volume_header_on_flash_has_type_3_for_a_dynamic_volume_and_4_for_a_static_one() {
    let (mut rig, _) = device(&Config::linux(Policy::LINUX_6_7), 100);
    rig.create(&fixed("s", 5)).unwrap();
    let anchor = rig.ubi().fastmap_pebs()[0];
    let bytes = peb_bytes(rig.flash(), anchor);
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(512), word(512 + 8)), (0x5542_4921, 0x7fff_f000), "the VID header of the super block");
    let stream = 1024;
    let listed: u32 = (0..3).chain([4]).map(|count| word(stream + 312 + 4 + 4 * count)).sum();
    let first = stream + 312 + 32 + 2 * 1048 + 8 * listed as usize;
    let second = first + 32 + 8 + 4 * 30;
    let third = second + 32 + 8 + 4 * 5;
    let hdr = |at: usize| (word(at), word(at + 4), bytes[at + 8]);
    assert_eq!(hdr(first), (0xfa37_0ed1, 0, 3));
    assert_eq!(hdr(second), (0xfa37_0ed1, 1, 4));
    assert_eq!(hdr(third), (0xfa37_0ed1, 0x7fff_efff, 3), "the layout volume");
}

/// If no PEB is free for a data block of the fastmap, the old one is erased and rewritten in place. Its counter on
/// flash includes that under every policy; the count in memory does not under 6.1.
#[test]
fn a_data_block_erased_in_place_has_the_right_counter_on_flash() {
    for policy in [Policy::LINUX_6_1, Policy { count_in_place_erases: true, ..Policy::LINUX_6_1 }] {
        let config = Config { beb_per_1024: 0, ..Config::linux(policy) };
        let mut rig = Rig::attach(Array::new(ArrayConfig::plain(small_lebs(120)), Bytes::new()), &config);
        let lebs = rig.ubi().available_pebs();
        let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
        let on_flash = |rig: &mut Rig<Array<Bytes>>, peb: Peb| {
            let bytes = peb_bytes(rig.flash(), peb);
            EcHdr::decode(bytes.first_chunk().unwrap()).expect("an EC header").ec as u32
        };
        let mut forgotten = 0;
        for round in 0..2000 {
            let kept: Vec<_> = rig.ubi().fastmap_pebs()[1..].to_vec();
            let erases = |rig: &Rig<Array<Bytes>>, peb: Peb| rig.ubi().flash().erase_counts()[peb.at()];
            let before: Vec<_> = kept.iter().map(|&peb| (on_flash(&mut rig, peb), erases(&rig, peb))).collect();
            rig.change(vol_id, round * 7 % lebs, &pattern(round, 256)).unwrap();
            for (&peb, (ec, erased)) in kept.iter().zip(before) {
                if !rig.ubi().fastmap_pebs()[1..].contains(&peb) {
                    continue;
                }
                let now = on_flash(&mut rig, peb);
                assert_eq!(now - ec, erases(&rig, peb) - erased, "round {round}, PEB {peb}");
                forgotten = forgotten.max(now - rig.ubi().erase_count(peb).0);
            }
        }
        assert!(rig.ubi().stats().data_blocks_in_place > 100, "{}", rig.ubi().stats().data_blocks_in_place);
        assert_eq!(forgotten > 0, !policy.count_in_place_erases, "{forgotten} erasures missing in memory");
    }
}

/// As Linux 6.12.117 formats 64 and 65 PEBs of 16 KiB with pages of 1 KiB: 56 PEBs are available on the first, 57 on the other, two more
/// are kept for bad blocks, and only the other is attached by a fastmap. "More than 64 PEBs are needed for fastmap, sorry."
#[test]
fn up_to_64_pebs_there_is_no_fastmap_but_the_room_for_two() {
    let geometry = |pebs| Geometry { page_bytes: 1024, subpage_bytes: 1024, ..large_lebs(pebs) };
    for (pebs, available, by_fastmap) in [(64, 56, false), (65, 57, true)] {
        let mut rig = Rig::blank(geometry(pebs), &Config::linux(Policy::LINUX_6_7));
        assert_eq!((rig.ubi().available_pebs(), rig.ubi().beb_reserved()), (available, 2));
        rig.create(&dynamic("v", 2)).unwrap();
        assert_eq!(rig.ubi().stats().fastmap_writes > 0, by_fastmap);
        rig.reattach();
        let ubi = rig.ubi();
        assert_eq!((ubi.available_pebs(), *ubi.attached_by() == AttachedBy::Fastmap), (available - 2, by_fastmap));
        assert_eq!(ubi.fastmap_pebs().is_empty(), !by_fastmap);
        ubi.check();
    }
    // Layout volume, levelling, changes and two fastmaps: six PEBs, and none is left.
    let config = Config { beb_per_1024: 0, ..Config::linux(Policy::LINUX_6_7) };
    assert_eq!(Rig::blank(geometry(6), &config).ubi().available_pebs(), 0);
    assert!(Rig::try_attach(RamFlash::new(geometry(5)), &config).is_err());
}
