//! Attach by a correct fastmap: what it says, what happened since, and what attach costs.

use sim::Cx;
use sim::seam::FlashError;
use sim::{EraseCount, Peb};
use ubi::attach::{
    AttachError, AttachInfo, AttachedBy, FastmapUnusable, PebFate, TableCopy, attach_by_fastmap, attach_by_scan,
    compare,
};
use ubi::media::{FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, LAYOUT_COMPAT, LAYOUT_VOLUME_ID, VidHdr, VolType, compat, crc};

use crate::support::*;

/// Attaches both ways; they must agree.
fn both(image: &Image) -> AttachInfo {
    let info = image.fastmap().unwrap();
    assert_eq!(compare(&image.scan().unwrap(), &info), [] as [String; 0]);
    info
}

fn leb(info: &AttachInfo, vol_id: usize, lnum: usize) -> Option<u32> {
    info.volumes[vol_id].as_ref().unwrap().eba[lnum].map(|peb| peb.0)
}

fn why_not(image: &Image) -> String {
    match image.fastmap() {
        Err(error @ FastmapUnusable::Invalid { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fastmap_says_what_a_scan_says() {
    let (image, _) = lab_with_fastmap();
    let (scan, info) = (image.scan().unwrap(), both(&image));
    assert_eq!(info.by, AttachedBy::Fastmap);
    for peb in 0..128 {
        let fate = match peb {
            ANCHOR => PebFate::Fastmap { index: 0 },
            _ => scan.fates[peb as usize],
        };
        assert_eq!(info.fates[peb as usize], fate, "PEB {peb}");
    }
    assert_eq!(info.fates[90..93], [ERASE, ERASE, scrub(0, 30)]);
    assert_eq!(scan.fates[ANCHOR as usize], PebFate::OldFastmap { super_block: true });
    assert_eq!(info.erase_counts, scan.erase_counts);
    assert_eq!((&info.volumes, info.layout_eba, info.table), (&scan.volumes, scan.layout_eba, [TableCopy::Good; 2]));
    assert_eq!((info.max_sqnum, info.image_seq, info.empty), (FM_SQNUM, IMAGE_SEQ, false));
    assert_eq!(info.fastmap_blocks, [Peb(ANCHOR)]);
    assert_eq!(info.pools, [USER_POOL.map(Peb).to_vec(), WL_POOL.map(Peb).to_vec()]);
}

#[test]
fn without_an_anchor_there_is_no_fastmap() {
    assert_eq!(lab(128).fastmap(), Err(FastmapUnusable::NotFound));
    assert_eq!(Image::blank(geometry(16)).fastmap(), Err(FastmapUnusable::NotFound));
    // Anchors beyond the first 64 or in a bad block are not found.
    let mut image = lab(128);
    FmSpec::of(&image.scan().unwrap(), &[64], [&[], &[]]).write(&mut image, 100, |_| {});
    assert_eq!(image.fastmap(), Err(FastmapUnusable::NotFound));
    let (mut image, _) = lab_with_fastmap();
    image.bad.insert(ANCHOR);
    assert_eq!(image.fastmap(), Err(FastmapUnusable::NotFound));
}

#[test]
fn an_anchor_in_the_last_place_is_found() {
    let mut image = lab(128);
    FmSpec::of(&image.scan().unwrap(), &[63], [&[], &[]]).write(&mut image, 100, |_| {});
    assert_eq!(both(&image).fastmap_blocks, [Peb(63)]);
}

#[test]
fn the_newest_fastmap_is_used_and_the_old_one_is_erased() {
    for (old, new) in [(ANCHOR, 40), (40, ANCHOR)] {
        let mut image = lab(128);
        let mut spec = FmSpec::of(&image.scan().unwrap(), &[old], [&[50], &[51]]);
        spec.write(&mut image, 100, |_| {});
        image.vid(41, internal(FM_DATA_VOLUME_ID, 1, compat::DELETE, 101));
        spec = FmSpec::of(&image.scan().unwrap(), &[new], [&[52], &[53]]);
        assert_eq!(spec.erase, [(old.min(41), Image::ec_of(old.min(41))), (old.max(41), Image::ec_of(old.max(41)))]);
        spec.write(&mut image, 200, |_| {});
        let info = both(&image);
        assert_eq!((&info.fastmap_blocks[..], info.max_sqnum), (&[Peb(new)][..], 200));
        assert_eq!(info.fates[old as usize], PebFate::OldFastmap { super_block: true });
        assert_eq!(info.fates[41], PebFate::OldFastmap { super_block: false });
        // The newer one is torn: the older one is not trusted.
        image.peb(new)[1024 + 400] ^= 1;
        assert!(why_not(&image).starts_with(&format!("PEB {new}, offset 1032: CRC")), "{}", why_not(&image));
    }
}

#[test]
fn two_anchors_of_the_same_age_are_both_distrusted() {
    let (mut image, spec) = lab_with_fastmap();
    FmSpec { blocks: vec![6], ..spec }.write(&mut image, FM_SQNUM, |_| {});
    assert_eq!(why_not(&image), "PEB 6, offset 512: two anchors (the other is PEB 5) have sequence number 100");
}

#[test]
fn what_came_after_the_fastmap_is_found_in_the_pools() {
    let (mut image, _) = lab_with_fastmap();
    image.vid(USER_POOL[1], dynamic(0, 7, 120)); // rewritten
    image.vid(WL_POOL[0], copy_of(&[8; 600], dynamic(0, 8, 121))); // moved
    image.data(WL_POOL[0], &[8; 600]);
    image.vid(USER_POOL[0], dynamic(0, 39, 122)); // new
    let info = both(&image);
    assert_eq!([7, 8, 39, 9].map(|lnum| leb(&info, 0, lnum)), [Some(66), Some(21), Some(20), Some(79)]);
    assert_eq!(info.fates[77..80], [ERASE, ERASE, used(0, 9)]);
    assert_eq!((info.max_sqnum, &info.pools), (122, &[vec![Peb(110)], vec![Peb(111)]]));
    assert_eq!(info.erase_counts[66], EraseCount(Image::ec_of(66)));
}

#[test]
fn a_torn_copy_in_a_pool_loses_to_the_original() {
    let (mut image, _) = lab_with_fastmap();
    image.vid(WL_POOL[0], copy_of(&[8; 600], dynamic(0, 8, 121)));
    image.data(WL_POOL[0], &[8; 599]);
    let info = both(&image);
    assert_eq!((leb(&info, 0, 8), info.fates[21], info.pools[1].len()), (Some(78), ERASE, 1));
}

#[test]
fn two_pebs_of_pools_may_hold_one_leb() {
    let (mut image, _) = lab_with_fastmap();
    image.vid(USER_POOL[0], dynamic(0, 8, 125));
    image.vid(USER_POOL[1], dynamic(0, 8, 121));
    image.vid(WL_POOL[0], copy_of(&[1; 10], dynamic(0, 8, 130))); // torn
    let info = both(&image);
    assert_eq!((leb(&info, 0, 8), info.max_sqnum), (Some(20), 130));
    assert_eq!([78, 66, 21].map(|peb| info.fates[peb]), [ERASE; 3]);
    image.vid(WL_POOL[1], dynamic(0, 8, 125));
    assert!(why_not(&image).contains("both hold volume 0 LEB 8"), "{}", why_not(&image));
}

#[test]
fn a_tired_peb_of_a_pool_leaves_it() {
    let (mut image, _) = lab_with_fastmap();
    let pages = image.pages();
    image.tired.insert((USER_POOL[0], pages[0]));
    image.tired.insert((USER_POOL[1], pages[1]));
    image.vid(WL_POOL[0], dynamic(0, 8, 121));
    image.tired.insert((WL_POOL[0], pages[1]));
    let info = both(&image);
    assert_eq!([20, 66, 21].map(|peb| info.fates[peb]), [ERASE, ERASE, scrub(0, 8)]);
    assert_eq!(info.pools, [vec![Peb(110)], vec![Peb(111)]]);
}

#[test]
fn fastmap_blocks_in_a_pool_are_old() {
    let (mut image, _) = lab_with_fastmap();
    image.vid(USER_POOL[1], internal(FM_DATA_VOLUME_ID, 1, compat::DELETE, 90));
    image.vid(USER_POOL[2], internal(FM_SB_VOLUME_ID, 0, compat::DELETE, 91)); // not among the first 64
    let info = both(&image);
    assert_eq!(info.fates[66], PebFate::OldFastmap { super_block: false });
    assert_eq!(info.fates[110], PebFate::OldFastmap { super_block: true });
    assert_eq!(info.pools[0], [Peb(20)]);
}

#[test]
fn a_peb_of_a_pool_without_whole_headers_calls_for_a_scan() {
    let (image, _) = lab_with_fastmap();
    type Damage<'a> = &'a dyn Fn(&mut Image);
    let rules: [(Damage<'_>, &str); 7] = [
        (&|image| image.erase(66), "PEB 66, offset 0: a PEB of a pool has no EC header"),
        (&|image| image.spoil(66, 0), "PEB 66, offset 0: a PEB of a pool has a broken EC header"),
        (&|image| image.spoil_vid(66), "PEB 66, offset 512: a broken VID header, in a pool"),
        (&|image| image.vid(66, dynamic(5, 0, 120)), "PEB 66, offset 512: LEB 0 of volume 0x5, which the fastmap"),
        (&|image| image.vid(66, dynamic(0, 40, 120)), "PEB 66, offset 512: LEB 40 of volume 0x0, which the fastmap"),
        (&|image| image.vid(66, internal(0x7fff_ff00, 0, 4, 120)), "PEB 66, offset 512: LEB 0 of volume 0x7fffff00"),
        (
            &|image| image.vid(66, fixed(0, 7, 9, 15_360, 120)),
            "PEB 66, offset 512: volume 0: PEB 66, LEB 7: the header",
        ),
    ];
    for (damage, why) in rules {
        let mut image = image.clone();
        damage(&mut image);
        assert!(why_not(&image).starts_with(why), "{} instead of {why}", why_not(&image));
    }
}

/// A header with a right checksum that cannot be: a scan refuses it as well.
#[test]
fn an_impossible_header_is_fatal_to_an_attach_by_fastmap_too() {
    let (image, _) = lab_with_fastmap();
    let fatal = |damage: &dyn Fn(&mut Image)| {
        let mut image = image.clone();
        damage(&mut image);
        match image.fastmap() {
            Err(FastmapUnusable::Fatal(error)) => assert_eq!(image.scan().unwrap_err(), error),
            other => panic!("{other:?}"),
        }
    };
    for peb in [9, 66] {
        fatal(&|image| image.put(peb, 0, &ubi::media::EcHdr { image_seq: 3, ..image.ec_hdr(peb) }.encode()));
        fatal(&|image| image.put(peb, 0, &ubi::media::EcHdr { data_offset: 8192, ..image.ec_hdr(peb) }.encode()));
    }
    fatal(&|image| image.vid(66, VidHdr { used_ebs: 1, ..dynamic(0, 7, 120) }));
    fatal(&|image| image.vid(ANCHOR, VidHdr { data_crc: 1, ..internal(FM_SB_VOLUME_ID, 0, compat::DELETE, FM_SQNUM) }));
}

/// Linux takes no super block without a sequence number.
#[test]
fn a_fastmap_with_sequence_number_0_is_none() {
    let (mut image, _) = lab_with_fastmap();
    image.vid(ANCHOR, internal(FM_SB_VOLUME_ID, 0, compat::DELETE, 0));
    assert_eq!(image.fastmap().unwrap_err(), FastmapUnusable::NotFound);
}

#[test]
fn a_broken_vid_header_may_be_that_of_a_newer_anchor() {
    let (mut image, _) = lab_with_fastmap();
    image.spoil_vid(50);
    assert!(why_not(&image).starts_with("PEB 50, offset 512: a broken VID header among the first 64 PEBs"));
    // Not without an EC header: nothing was written there since an erase was interrupted.
    image.put(50, 0, &[0xff; 64]);
    assert!(image.fastmap().is_ok());
    // Further up it does not matter, because no anchor is there.
    let (mut image, _) = lab_with_fastmap();
    image.spoil_vid(64);
    assert!(image.fastmap().is_ok());
    // Without a fastmap there is nothing to distrust.
    let mut image = lab(128);
    image.spoil_vid(50);
    assert_eq!(image.fastmap(), Err(FastmapUnusable::NotFound));
}

#[test]
fn the_first_pebs_must_hold_what_the_fastmap_says() {
    let (mut image, _) = lab_with_fastmap();
    image.vid(50, dynamic(0, 35, 90));
    assert!(why_not(&image).starts_with("PEB 50, offset 512: holds LEB 35 of volume 0x0; in the fastmap: Free"));
    let (mut image, _) = lab_with_fastmap();
    image.vid(3, dynamic(0, 35, 90));
    assert!(why_not(&image).starts_with("PEB 3, offset 512: holds LEB 35 of volume 0x0; in the fastmap: Used"));
}

/// 4,096 PEBs of 16 KiB: the fastmap takes four.
fn of_four_blocks() -> Image {
    let mut image = lab(4096);
    let spec = FmSpec::of(&image.scan().unwrap(), &[ANCHOR, 700, 9, 4095], [&[300], &[301, 302]]);
    spec.write(&mut image, 100, |_| {});
    image
}

#[test]
fn a_fastmap_may_take_several_pebs() {
    let mut image = of_four_blocks();
    let info = both(&image);
    assert_eq!(info.fastmap_blocks, [5, 700, 9, 4095].map(Peb));
    assert_eq!((info.fates[9], info.fates[4095]), (PebFate::Fastmap { index: 2 }, PebFate::Fastmap { index: 3 }));
    assert_eq!(info.max_sqnum, 103);
    image.tired.insert((700, 2));
    assert!(image.fastmap().is_ok());
    image.raw.insert((700, 20));
    assert_eq!(why_not(&image), "PEB 700, offset 1024: a fastmap block is unreadable");
    let hdr = |vol_id, lnum| internal(vol_id, lnum, compat::DELETE, 99);
    for (peb, hdr, why) in [
        (9, hdr(FM_SB_VOLUME_ID, 2), "PEB 9, offset 512: fastmap block 2 says it is of volume 0x7ffff000"),
        (9, hdr(0x7fff_ff00, 2), "PEB 9, offset 512: fastmap block 2 says it is of volume 0x7fffff00"),
    ] {
        let mut image = of_four_blocks();
        image.vid(peb, hdr);
        assert!(why_not(&image).starts_with(why), "{}", why_not(&image));
    }
    let mut image = of_four_blocks();
    image.put(4095, 512, &[0xff; 64]);
    assert_eq!(why_not(&image), "PEB 4095, offset 512: fastmap block 3 has no VID header");
    let mut image = of_four_blocks();
    image.spoil_vid(4095);
    assert!(why_not(&image).starts_with("PEB 4095, offset 512: fastmap block 3 has a broken VID header"));
    let mut image = of_four_blocks();
    image.spoil(700, 0);
    assert!(why_not(&image).starts_with("PEB 700, offset 0: a fastmap block has a broken EC header"));
}

#[test]
fn blocks_have_the_counts_of_their_own_headers() {
    let (mut image, _) = lab_with_fastmap();
    image.ec(ANCHOR, 5000);
    assert_eq!(both(&image).erase_counts[ANCHOR as usize], EraseCount(5000));
}

#[test]
fn a_change_of_the_volume_table_may_be_newer_than_the_fastmap() {
    let change = |records: &[_]| {
        let (mut image, _) = lab_with_fastmap();
        let bytes = image.table_bytes(records);
        for (peb, copy) in [(20, 0), (66, 1)] {
            image.vid(peb, copy_of(&bytes, internal(LAYOUT_VOLUME_ID, copy, LAYOUT_COMPAT, 120 + u64::from(copy))));
            image.data(peb, &bytes);
        }
        (both(&image), image)
    };
    let [data, kernel] = [0, 1].map(|i| lab_records()[i].clone());
    // Created.
    let (info, _) = change(&[data.clone(), kernel.clone(), (4, record("new", VolType::Dynamic, 9))]);
    assert_eq!((leb(&info, 4, 8), leb(&info, 0, 3), info.fates[2]), (None, Some(73), ERASE));
    assert!(info.notes[0].contains("volume 4 was made"));
    // Removed.
    let (info, _) = change(std::slice::from_ref(&kernel));
    assert_eq!((&info.volumes[0], info.fates[70], info.fates[92]), (&None, ERASE, ERASE));
    assert!(info.notes[0].contains("volume 0 was removed"));
    // Shrunk, grown.
    let (info, _) = change(&[(0, record("data", VolType::Dynamic, 10)), kernel.clone()]);
    assert_eq!((leb(&info, 0, 9), info.fates[79], info.fates[80]), (Some(79), used(0, 9), ERASE));
    let (info, mut image) = change(&[(0, record("data", VolType::Dynamic, 50)), kernel]);
    assert_eq!((leb(&info, 0, 9), leb(&info, 0, 49)), (Some(79), None));
    // Only the first copy was changed before power went.
    image.vid(66, dynamic(0, 1, 121));
    assert_eq!(both(&image).table, [TableCopy::Good, TableCopy::Differs]);
}

#[test]
fn a_static_volume_moved_since_keeps_its_size() {
    let (mut image, _) = lab_with_fastmap();
    let data = [2; 1000];
    image.vid(66, copy_of(&data, fixed(1, 2, 3, 1000, 120)));
    image.data(66, &data);
    let info = both(&image);
    let volume = info.volumes[1].as_ref().unwrap();
    assert_eq!((volume.used_ebs, volume.last_eb_bytes, leb(&info, 1, 2)), (3, 1000, Some(66)));
}

#[test]
fn an_empty_static_volume_has_no_size() {
    let mut image = lab(128);
    (100..103).for_each(|peb| image.put(peb, 512, &[0xff; 64]));
    FmSpec::of(&image.scan().unwrap(), &[ANCHOR], [&[], &[]]).write(&mut image, FM_SQNUM, |_| {});
    let info = both(&image);
    let volume = info.volumes[1].as_ref().unwrap();
    assert_eq!((volume.used_ebs, volume.last_eb_bytes), (0, 0));
}

/// An update of a static volume writes no fastmap when it ends: Linux takes the size from the last LEB's header, in a pool.
/// `tests/kernel` has a flash on which Linux did so.
#[test]
fn a_static_volume_updated_since_to_as_many_lebs_has_the_size_of_its_last_one() {
    let (mut image, _) = lab_with_fastmap();
    image.vid(66, fixed(1, 2, 3, 999, 120));
    let info = both(&image);
    let volume = info.volumes[1].as_ref().unwrap();
    assert_eq!((volume.used_ebs, volume.last_eb_bytes, leb(&info, 1, 2)), (3, 999, Some(66)));
}

#[test]
fn a_static_volume_updated_since_to_fewer_lebs_is_left_to_a_scan() {
    let data = vec![7; 500];
    let hdr = VidHdr { data_crc: crc(&data), ..fixed(1, 0, 1, 500, 120) };
    // Updated to one LEB in a pool; the marker is off again.
    let (mut image, spec) = lab_with_fastmap();
    image.vid(66, hdr);
    image.data(66, &data);
    assert!(why_not(&image).starts_with("PEB 66, offset 512: used_ebs = 1, 3 in the fastmap"), "{}", why_not(&image));
    // Fewer or more LEBs are mapped than it says.
    for used_ebs in [0, 2, 4, 9, u32::MAX] {
        let (mut image, mut spec) = (image.clone(), spec.clone());
        image.put(66, 512, &[0xff; 64]);
        spec.volumes[1].0.used_ebs = used_ebs;
        spec.write(&mut image, FM_SQNUM, |_| {});
        assert!(why_not(&image).contains(&format!("volume 1: used_ebs = {used_ebs}")), "{}", why_not(&image));
    }
}

#[test]
fn a_static_volume_must_be_whole_and_end_where_it_says() {
    let (mut image, mut spec) = lab_with_fastmap();
    spec.volumes[1].1[1] = u32::MAX;
    spec.write(&mut image, FM_SQNUM, |_| {});
    assert!(why_not(&image).contains("volume 1: used_ebs = 3, and other LEBs are mapped"), "{}", why_not(&image));
    for hdr in [fixed(4, 2, 3, 1000, 42), fixed(1, 1, 2, 1000, 42), fixed(1, 2, 3, 1001, 42)] {
        let (mut image, _) = lab_with_fastmap();
        image.vid(102, hdr);
        assert!(why_not(&image).contains("the header of the last LEB says otherwise"), "{}", why_not(&image));
    }
    let (mut image, _) = lab_with_fastmap();
    image.put(102, 512, &[0xff; 64]);
    assert!(why_not(&image).contains("the last LEB has no VID header"), "{}", why_not(&image));
}

#[test]
fn an_interrupted_update_is_void_both_ways() {
    let mut image = lab(128);
    let mut records = lab_records();
    records[1].1.upd_marker = true;
    image.table_copy(2, 0, 1, &records);
    image.table_copy(3, 1, 2, &records);
    let mut spec = lab_spec(&image);
    spec.volumes[1].0.used_ebs = 3; // as before the update
    spec.volumes[1].0.last_eb_bytes = 1000;
    spec.write(&mut image, FM_SQNUM, |_| {});
    image.vid(66, fixed(1, 0, 5, 15_360, 120));
    let info = both(&image);
    let volume = info.volumes[1].as_ref().unwrap();
    assert_eq!((volume.used_ebs, volume.last_eb_bytes, leb(&info, 1, 0)), (0, 0, Some(66)));
}

#[test]
fn a_volume_table_that_is_gone_fails_the_fastmap_and_the_scan() {
    let (mut image, _) = lab_with_fastmap();
    image.data(2, b"junk");
    image.data(3, b"junk");
    assert!(why_not(&image).starts_with("PEB 2, offset 1024: no valid volume table"), "{}", why_not(&image));
    assert!(matches!(image.scan(), Err(AttachError::NoVolumeTable { .. })));
    let (mut image, _) = lab_with_fastmap();
    image.data(3, b"junk");
    image.tired.insert((2, 4));
    let info = image.fastmap().unwrap();
    assert_eq!((info.table, info.fates[2]), ([TableCopy::Good, TableCopy::Bad], scrub(LAYOUT_VOLUME_ID, 0)));
}

#[test]
fn power_loss_at_any_read_is_fatal() {
    let (image, _) = lab_with_fastmap();
    let mut flash = image.flash();
    let mut reads = 0;
    loop {
        flash.reads_left = reads;
        match attach_by_fastmap(&mut flash, &mut Cx::new(), &image.layout) {
            Ok(_) => break,
            Err(error) => assert_eq!(error, FastmapUnusable::Fatal(AttachError::Flash(FlashError::PowerLost))),
        }
        reads += 1;
    }
    // Headers of 64 PEBs, the fastmap with both headers, five PEBs of pools, the static volume's last LEB, two tables.
    assert_eq!(reads, 2 * 64 + 3 + 2 * 5 + 1 + 2);
}

/// 8,192 PEBs, as many as 1 GiB of 128 KiB PEBs has.
#[test]
fn a_fastmap_reads_a_fraction_of_the_pages() {
    let cost = |pools: [u32; 2]| {
        let mut image = lab(8192);
        let [user, wl] = [200..200 + pools[0], 1000..1000 + pools[1]].map(|pool| pool.collect::<Vec<_>>());
        let blocks: Vec<_> = (ANCHOR..ANCHOR + 7).collect();
        let spec = FmSpec::of(&image.scan().unwrap(), &blocks, [&user, &wl]);
        spec.write(&mut image, 100, |_| {});
        both(&image);
        let scan = image.pages_read(attach_by_scan);
        let fastmap = image.pages_read(attach_by_fastmap);
        (scan, fastmap)
    };
    // Fixed: headers of 64 PEBs, 7 blocks of 30 pages and 2 headers, a static volume, two tables of 30 pages.
    let fixed = 2 * 64 + 7 * 32 + 1 + 2 * 30;
    assert_eq!(cost([0, 0]), (2 * 8192 + 60, fixed));
    // Full pools: two headers of each PEB.
    assert_eq!(cost([256, 128]), (2 * 8192 + 60, fixed + 2 * 384));
}
