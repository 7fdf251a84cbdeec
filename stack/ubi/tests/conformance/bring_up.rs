//! What a device is right after attach, and what it makes of a fastmap that is older than the flash.

use sim::seam::RamFlash;
use sim::{Peb, VolId};
use ubi::attach::AttachedBy;
use ubi::media::{EcHdr, VidHdr, VolType, compat};
use ubi::wl::PebState;
use ubi::{Background, Config, Policy};

use crate::faulty::Faulty;
use crate::media::{LAYOUT, edit_record, peb_bytes, peb_of, rewrite, vid_hdr};
use crate::rig::{Rig, dynamic, fastmap_grid, fixed, grid, large_lebs, nor, pattern, small_lebs};

/// Formatting writes both copies of an empty table, at once: the next attach needs no repair.
#[test]
fn a_blank_flash_has_two_copies_of_the_volume_table_after_its_first_attach() {
    for config in grid() {
        let config = Config { image_seq: 0x1234, ..config };
        let mut rig = Rig::blank(large_lebs(70), &config);
        let pebs = [0, 1].map(|lnum| peb_of(rig.flash(), LAYOUT, lnum));
        assert!(pebs[0] != pebs[1]);
        let sqnums = pebs.map(|peb| {
            assert_eq!(rig.ubi().wear().state(peb), PebState::Used);
            vid_hdr(rig.flash(), peb).sqnum
        });
        assert!(sqnums[0] < sqnums[1], "the first copy first");
        let [first, second] = pebs.map(|peb| peb_bytes(rig.flash(), peb)[1024..].to_vec());
        assert!(first == second && first[168..172] == [0xf1, 0x16, 0xc3, 0x6b], "records that are not used");
        let (scan, fastmap) = rig.both_ways();
        assert_eq!((scan.empty, scan.image_seq, fastmap.is_some()), (false, 0x1234, false));
        rig.pull_plug();
        assert!(rig.ubi().notes().iter().all(|note| !note.contains("repaired")), "{:?}", rig.ubi().notes());
        assert_eq!(rig.ubi().volume_infos().count(), 0);
    }
}

#[test]
fn a_repaired_copy_is_noted_and_the_old_one_is_erased() {
    for config in grid() {
        for lnum in 0..2 {
            let mut rig = Rig::attach(Faulty::new(small_lebs(80)), &config);
            let vol_id = rig.create(&dynamic("v", 5)).unwrap();
            rig.write(vol_id, 2, 0, &pattern(2, 512)).unwrap();
            let mut flash = rig.detach();
            let damaged = peb_of(&mut flash, LAYOUT, lnum);
            rewrite(&mut flash, damaged, |bytes| bytes[512 + 9] ^= 1);
            let mut rig = Rig::attach(flash, &config);
            let told = format!("copy {lnum} of the volume table was repaired");
            assert!(rig.ubi().notes().contains(&told), "{:?}", rig.ubi().notes());
            assert_ne!(peb_of(rig.flash(), LAYOUT, lnum), damaged);
            let states = [PebState::Erasing, PebState::Free, PebState::Pooled, PebState::SpareAnchor];
            assert!(states.contains(&rig.ubi().wear().state(damaged)), "{:?}", rig.ubi().wear().state(damaged));
            assert!(rig.ubi().fastmap_pebs().is_empty(), "the repair took PEBs that the fastmap lists as free");
            rig.pull_plug();
            assert!(!rig.ubi().notes().contains(&told));
            assert_eq!(rig.read(vol_id, 2, 0, 512).unwrap(), pattern(2, 512));
        }
    }
}

/// Without fastmap nothing of it is there: no pool, no anchor, no block.
#[test]
fn without_fastmap_no_peb_is_kept_for_one() {
    for config in grid().into_iter().filter(|config| !config.fastmap) {
        let config = Config { wl_threshold: 3, ..config };
        let mut rig = Rig::blank(small_lebs(80), &config);
        let vol_id = rig.create(&dynamic("v", 30)).unwrap();
        for round in 0..400 {
            rig.change(vol_id, round * 7 % 30, &pattern(round, 256)).unwrap();
            if round % 3 == 0 {
                rig.step().unwrap();
            }
            let wear = rig.ubi().wear();
            assert_eq!((wear.spare_anchor(), wear.user_pool.size(), wear.wl_pool.size()), (None, 0, 0));
            assert!(rig.ubi().fastmap_pebs().is_empty());
            if round % 100 == 99 {
                rig.reattach();
            }
        }
        assert_eq!(rig.ubi().stats().anchor_moves, 0);
    }
}

/// With fastmap and room for it, there is a spare anchor among the first 64 as soon as the device is attached.
#[test]
fn with_fastmap_an_anchor_is_held_from_the_start() {
    for config in fastmap_grid() {
        let mut rig = Rig::blank(large_lebs(120), &config);
        rig.create(&dynamic("v", 5)).unwrap();
        rig.reattach();
        assert!(rig.ubi().wear().spare_anchor().is_some_and(|peb| peb.0 < 64));
        assert!(rig.ubi().attached_by() == &AttachedBy::Fastmap);
    }
}

/// A device whose LEB 3 was unmapped and its PEB erased after the last fastmap, which still lists it. Of the other LEBs none is
/// less worn.
fn stale(config: &Config) -> (Rig<Faulty>, VolId, Peb) {
    let mut rig = Rig::attach(Faulty::new(small_lebs(120)), &Config { wl_threshold: 4096, ..config.clone() });
    let vol_id = rig.create(&dynamic("v", 6)).unwrap();
    rig.write(vol_id, 3, 0, &pattern(3, 256)).unwrap();
    for round in 0..700 {
        rig.change(vol_id, round % 3, &pattern(round, 256)).unwrap();
        rig.step().unwrap();
    }
    rig.reattach();
    let peb = peb_of(rig.flash(), vol_id, 3);
    let writes = rig.ubi().stats().fastmap_writes;
    rig.unmap(vol_id, 3).unwrap();
    rig.run(|ubi, cx| while ubi.step_background(cx).unwrap() != Background::Idle {});
    assert_eq!(rig.ubi().stats().fastmap_writes, writes, "the fastmap is older");
    rig.config = config.clone();
    rig.pull_plug();
    assert_eq!(*rig.ubi().attached_by(), AttachedBy::Fastmap);
    (rig, vol_id, peb)
}

#[test]
fn a_leb_that_was_unmapped_after_the_fastmap_is_found_unmapped_at_its_first_use() {
    for config in fastmap_grid() {
        for using in 0..4 {
            let (mut rig, vol_id, peb) = stale(&config);
            assert!(rig.is_mapped(vol_id, 3), "the fastmap says so");
            let ec = rig.ubi().erase_count(peb);
            match using {
                0 => assert_eq!(rig.read(vol_id, 3, 0, 256).unwrap(), [0xff; 256]),
                1 => rig.write(vol_id, 3, 0, &pattern(9, 256)).unwrap(),
                2 => rig.map(vol_id, 3).unwrap(),
                _ => rig.change(vol_id, 3, &pattern(9, 256)).unwrap(),
            }
            assert_eq!(rig.is_mapped(vol_id, 3), using > 0);
            let expected = if using % 2 == 1 { pattern(9, 256) } else { vec![0xff; 256] };
            assert_eq!(rig.read(vol_id, 3, 0, 256).unwrap(), expected);
            rig.sync(vol_id).unwrap();
            // Erased once, and not tortured: it did not fail.
            assert_eq!(rig.ubi().erase_count(peb).0, ec.0 + 1);
            rig.pull_plug();
            assert_eq!(rig.read(vol_id, 3, 0, 256).unwrap(), expected);
        }
    }
}

/// Levelling wants to move that LEB first, because its PEB is the least worn: it finds nothing there, and the target stays free.
#[test]
fn levelling_finds_out_that_there_is_nothing_to_move() {
    for config in fastmap_grid() {
        let (mut rig, vol_id, peb) = stale(&Config { wl_threshold: 2, ..config.clone() });
        // The pools are filled first.
        rig.change(vol_id, 0, &pattern(1000, 256)).unwrap();
        for _ in 0..40 {
            rig.step().unwrap();
        }
        assert!(!rig.is_mapped(vol_id, 3), "{config:?}");
        assert!(!matches!(rig.ubi().wear().state(peb), PebState::Used | PebState::Moving));
        assert_eq!(rig.read(vol_id, 3, 0, 256).unwrap(), [0xff; 256]);
        assert_eq!(rig.read(vol_id, 0, 0, 256).unwrap(), pattern(1000, 256));
        rig.sync(vol_id).unwrap();
        rig.reattach();
        assert!(!rig.is_mapped(vol_id, 3));
    }
}

/// `nor_erase_prepare` of `io.c`: the EC header is invalidated first, then the VID header, and then the block is erased, so that
/// an interrupted erase leaves neither. On NAND there is no such step.
#[test]
fn on_nor_both_headers_are_invalidated_before_a_block_is_erased() {
    for (ops, ec_magic, vid_magic) in [(0, *b"UBI#", *b"UBI!"), (1, [0; 4], *b"UBI!"), (2, [0; 4], [0; 4])] {
        let config = Config { fastmap: false, ..Config::linux(Policy::LINUX_6_7) };
        let mut rig = Rig::attach(Faulty::new(nor(72)), &config);
        let vol_id = rig.create(&dynamic("v", 4)).unwrap();
        rig.write(vol_id, 1, 0, &pattern(1, 100)).unwrap();
        rig.sync(vol_id).unwrap();
        let peb = peb_of(rig.flash(), vol_id, 1);
        rig.unmap(vol_id, 1).unwrap();
        rig.power_may_go = true;
        rig.flash().ops_left = ops;
        rig.step().unwrap_err();
        let mut flash = rig.into_flash().restore();
        let bytes = peb_bytes(&mut flash, peb);
        assert_eq!((&bytes[..4], &bytes[64..68]), (&ec_magic[..], &vid_magic[..]), "after {ops} operations");
        assert_eq!(bytes[128..228], pattern(1, 100), "the data are there still");
        let mut rig = Rig::attach(flash, &config);
        let expected = if ops < 2 { pattern(1, 100) } else { vec![0xff; 100] };
        assert_eq!(rig.read(vol_id, 1, 0, 100).unwrap(), expected);
    }
    let mut rig =
        Rig::attach(Faulty::new(small_lebs(40)), &Config { fastmap: false, ..Config::linux(Policy::LINUX_6_7) });
    let vol_id = rig.create(&dynamic("v", 4)).unwrap();
    rig.write(vol_id, 1, 0, &pattern(1, 256)).unwrap();
    rig.sync(vol_id).unwrap();
    rig.unmap(vol_id, 1).unwrap();
    let (programs, erases) = (rig.flash().programs, rig.flash().erases);
    rig.step().unwrap();
    assert_eq!((rig.flash().programs - programs, rig.flash().erases - erases), (1, 1), "the new EC header");
}

/// An update ends with a volume that was just written: nothing is checked when it is opened. After an attach it is.
#[test]
fn an_updated_volume_is_checked_after_the_next_attach_only() {
    for config in grid() {
        let mut rig = Rig::attach(Faulty::new(small_lebs(80)), &config);
        let vol_id = rig.create(&fixed("s", 3)).unwrap();
        let opens_without_reading = |rig: &mut Rig<Faulty>| {
            (rig.flash().reads_count, rig.flash().ops_left) = (true, 0);
            let opened = rig.run(|ubi, cx| ubi.open_volume(cx, vol_id).is_ok());
            let flash = rig.flash();
            (flash.reads_count, flash.ops_left, flash.was_lost) = (false, u64::MAX, false);
            opened
        };
        rig.update(vol_id, &pattern(1, 5000)).unwrap();
        assert!(opens_without_reading(&mut rig));
        // 5,000 bytes are a LEB of 3,584 and 1,416 bytes.
        for (lnum, data) in (0..).zip(pattern(1, 5000).chunks(3584)) {
            let peb = peb_of(rig.flash(), vol_id, lnum);
            let hdr = vid_hdr(rig.flash(), peb);
            assert_eq!((hdr.copy_flag, hdr.compat, hdr.used_ebs, hdr.data_pad), (false, 0, 2, 0));
            assert_eq!((hdr.data_size as usize, hdr.data_crc), (data.len(), ubi::media::crc(data)));
        }
        let nobody = rig.run(|ubi, cx| ubi.end_update(cx, VolId(9), 10));
        assert_eq!(nobody, Err(ubi::UbiError::NoSuchVolume(VolId(9))));
        rig.reattach();
        assert!(!opens_without_reading(&mut rig), "{config:?}");
        rig.open(vol_id).unwrap();
        assert!(opens_without_reading(&mut rig), "once");
        rig.reattach();
        rig.update(vol_id, &pattern(2, 100)).unwrap();
        assert!(opens_without_reading(&mut rig), "what was just written needs no check");
        assert_eq!(rig.info(vol_id).data_bytes, 100);
        let mut flash = rig.flash().clone();
        edit_record(&mut flash, vol_id, |record| record.flags |= ubi::media::VtblRecord::SKIP_CHECK);
        let mut rig = Rig::attach(flash, &config);
        assert!(opens_without_reading(&mut rig), "its flags skip it");
    }
}

/// The rest of the last write unit of an update reads as erased flash, for every length.
#[test]
fn an_update_is_filled_up_with_erased_bytes() {
    for config in grid() {
        let mut rig = Rig::<RamFlash>::blank(small_lebs(80), &config);
        let vol_id = rig.create(&dynamic("d", 3)).unwrap();
        for len in [1, 255, 256, 257, 700, 3583, 3584, 3585, 7000] {
            rig.update(vol_id, &pattern(7, len)).unwrap();
            let mut found = Vec::new();
            (0..3).for_each(|lnum| found.extend(rig.read_leb(vol_id, lnum).unwrap()));
            assert_eq!(found[..len], pattern(7, len), "{len} bytes");
            assert!(found[len..].iter().all(|&byte| byte == 0xff), "{len} bytes");
            let mapped = (0..3).filter(|&lnum| rig.is_mapped(vol_id, lnum)).count();
            assert_eq!(mapped, len.div_ceil(3584), "{len} bytes");
        }
    }
}

/// The counter of a PEB stops at the largest that a header may hold.
#[test]
fn an_erase_counter_does_not_pass_its_largest_value() {
    let config = Config { fastmap: false, ..Config::linux(Policy::LINUX_6_7) };
    for (before, after) in [(0x7fff_fffd, 0x7fff_fffe), (0x7fff_fffe, 0x7fff_ffff), (0x7fff_ffff, 0x7fff_ffff)] {
        let mut rig = Rig::attach(Faulty::new(small_lebs(72)), &config);
        let vol_id = rig.create(&dynamic("v", 4)).unwrap();
        rig.write(vol_id, 1, 0, &pattern(1, 256)).unwrap();
        let mut flash = rig.detach();
        let peb = peb_of(&mut flash, vol_id, 1);
        rewrite(&mut flash, peb, |bytes| {
            let hdr = EcHdr::decode(bytes.first_chunk().unwrap()).unwrap();
            bytes[..64].copy_from_slice(&EcHdr { ec: before, ..hdr }.encode());
        });
        let mut rig = Rig::attach(flash, &config);
        rig.unmap(vol_id, 1).unwrap();
        rig.step().unwrap();
        assert_eq!(rig.ubi().erase_count(peb).0, after);
        let bytes = peb_bytes(rig.flash(), peb);
        assert_eq!(EcHdr::decode(bytes.first_chunk().unwrap()).unwrap().ec, u64::from(after));
    }
}

/// Attached without fastmap, the blocks of an old one are erased, once each; they did not fail.
#[test]
fn blocks_of_an_old_fastmap_are_erased_and_not_tortured() {
    for config in fastmap_grid() {
        let mut rig = Rig::attach(Faulty::new(small_lebs(120)), &config);
        let vol_id = rig.create(&dynamic("v", 4)).unwrap();
        rig.reattach();
        let blocks = rig.ubi().fastmap_pebs().to_vec();
        assert_eq!(blocks.len(), 3);
        let ecs: Vec<u32> = blocks.iter().map(|&peb| rig.ubi().erase_count(peb).0).collect();
        rig.config.fastmap = false;
        rig.pull_plug();
        rig.sync(vol_id).unwrap();
        assert_eq!(rig.flash().breaches, Vec::<String>::new());
        for (&peb, ec) in blocks.iter().zip(ecs) {
            assert_eq!(rig.ubi().erase_count(peb).0, ec + 1, "PEB {peb}");
            assert_eq!(rig.ubi().wear().state(peb), PebState::Free);
        }
    }
}

/// Some other UBI left an internal volume that this one must not write beside. Old fastmaps cannot be erased then, and are found
/// again, in their place, by every attach.
#[test]
fn a_read_only_device_keeps_what_it_would_erase() {
    for config in fastmap_grid() {
        let mut rig = Rig::blank(small_lebs(96), &config);
        let vol_id = rig.create(&dynamic("v", 4)).unwrap();
        (0..4).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 256)).unwrap());
        rig.sync(vol_id).unwrap();
        let mut flash = rig.detach();
        let other = (64..96).map(Peb).find(|&peb| peb_bytes(&mut flash, peb)[256..].iter().all(|&byte| byte == 0xff));
        let hdr = VidHdr {
            vol_type: VolType::Dynamic,
            copy_flag: false,
            compat: compat::READ_ONLY,
            vol_id: 0x7fff_ff00,
            lnum: 0,
            data_size: 0,
            used_ebs: 0,
            data_pad: 0,
            data_crc: 0,
            sqnum: 1,
        };
        rewrite(&mut flash, other.expect("a free PEB"), |bytes| {
            bytes[256..256 + VidHdr::BYTES].copy_from_slice(&hdr.encode());
        });
        let whole: Vec<Vec<u8>> = (0..96).map(|peb| peb_bytes(&mut flash, Peb(peb))).collect();
        // The checks of `attach` count every PEB.
        let mut rig = Rig::attach(flash, &Config { fastmap: false, ..config.clone() });
        assert!(rig.ubi().read_only().is_some_and(|why| why.contains("internal volume")), "{config:?}");
        let waiting = (0..96).filter(|&peb| rig.ubi().wear().state(Peb(peb)) == PebState::Erasing).count();
        let blocks = (0..64).filter(|&peb| rig.ubi().wear().state(Peb(peb)) == PebState::Erasing).count();
        assert!(blocks > 0 && waiting > 0, "{config:?}: the old fastmap waits");
        assert_eq!(rig.step().unwrap(), Background::Idle);
        for lnum in 0..4 {
            assert_eq!(rig.read(vol_id, lnum, 0, 256).unwrap(), pattern(lnum, 256));
        }
        let mut flash = rig.into_flash();
        let left: Vec<Vec<u8>> = (0..96).map(|peb| peb_bytes(&mut flash, Peb(peb))).collect();
        assert!(whole == left, "{config:?}: a read-only device has written");
    }
}

/// The header behind a mapping of a fastmap is read at the first use of the LEB, and at no later one.
#[test]
fn a_mapping_of_a_fastmap_is_checked_once() {
    for config in fastmap_grid() {
        let mut rig = Rig::attach(Faulty::new(small_lebs(96)), &config);
        let vol_id = rig.create(&dynamic("v", 4)).unwrap();
        (0..4).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap());
        rig.sync(vol_id).unwrap();
        rig.reattach();
        assert_eq!(*rig.ubi().attached_by(), AttachedBy::Fastmap);
        rig.flash().reads_count = true;
        let reads = |rig: &mut Rig<Faulty>, lnum| {
            let before = rig.flash().ops_left;
            assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), pattern(lnum, 512));
            before - rig.flash().ops_left
        };
        for lnum in 0..4 {
            let counts = [0; 3].map(|_| reads(&mut rig, lnum));
            assert!(counts[0] > 1 && counts[1..] == [1, 1], "{config:?}, LEB {lnum}: {counts:?} reads");
        }
    }
}
