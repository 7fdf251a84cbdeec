//! The rules of a full scan, each on a flash built for it.

use sim::seam::{Flash, FlashError, Geometry, Payload, ReadStatus};
use sim::{Cx, EraseCount, Lnum, Peb, VolId};
use ubi::attach::{
    AttachError, AttachInfo, AttachedBy, Headers, PebFate, TableCopy, attach_by_fastmap, attach_by_fastmap_of,
    attach_by_scan, attach_by_scan_of,
};
use ubi::media::{
    EcHdr, FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, LAYOUT_COMPAT, LAYOUT_VOLUME_ID, MediaError, VidHdr, VolType,
    VtblRecord, compat, crc, vtbl_slots,
};

use crate::support::*;

fn leb(info: &AttachInfo, vol_id: usize, lnum: usize) -> Option<u32> {
    info.volumes[vol_id].as_ref().unwrap().eba[lnum].map(|peb| peb.0)
}

#[test]
fn every_peb_of_a_sound_flash_has_its_fate() {
    let info = lab(128).scan().unwrap();
    assert_eq!((&info.by, info.empty, info.read_only), (&AttachedBy::Scan, false, false));
    for peb in 0..128 {
        let fate = match peb {
            2 | 3 => used(LAYOUT_VOLUME_ID, peb - 2),
            70..90 => used(0, peb - 70),
            100..103 => used(1, peb - 100),
            _ => PebFate::Free,
        };
        assert_eq!(info.fates[peb as usize], fate, "PEB {peb}");
        assert_eq!(info.erase_counts[peb as usize], EraseCount(Image::ec_of(peb)), "PEB {peb}");
    }
    assert_eq!((info.max_sqnum, info.image_seq), (42, IMAGE_SEQ));
    assert_eq!(info.layout_eba, [Some(Peb(2)), Some(Peb(3))]);
    assert_eq!(info.table, [TableCopy::Good; 2]);
    assert_eq!(info.volumes.len(), vtbl_slots(15_360) as usize);
    assert_eq!(info.volumes.iter().flatten().count(), 2);
    let data = info.volumes[0].as_ref().unwrap();
    assert_eq!((data.eba.len(), data.used_ebs, data.last_eb_bytes), (40, 0, 0));
    assert_eq!((leb(&info, 0, 7), leb(&info, 0, 20)), (Some(77), None));
    let kernel = info.volumes[1].as_ref().unwrap();
    assert_eq!((kernel.used_ebs, kernel.last_eb_bytes), (3, 1000));
    assert!(info.notes.is_empty(), "{:?}", info.notes);
}

#[test]
fn bad_pebs_are_not_read() {
    let mut image = lab(128);
    image.bad.insert(75);
    let info = image.scan().unwrap();
    assert_eq!((info.fates[75], info.erase_counts[75], leb(&info, 0, 5)), (PebFate::Bad, EraseCount(0), None));
}

/// How a header or the data area of PEB 60 reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Whole,
    WholeTired,
    WholeRaw,
    Erased,
    ErasedTired,
    ErasedRaw,
    Broken,
    BrokenRaw,
}

impl State {
    fn apply(self, image: &mut Image, peb: u32, page: u32, offset: u32, whole: &[u8]) {
        use State::*;
        match self {
            Whole | WholeTired | WholeRaw => image.put(peb, offset, whole),
            Erased | ErasedTired | ErasedRaw => image.put(peb, offset, &vec![0xff; whole.len()]),
            Broken | BrokenRaw => image.put(peb, offset, &vec![0x5a; whole.len()]),
        }
        match self {
            WholeTired | ErasedTired => drop(image.tired.insert((peb, page))),
            WholeRaw | ErasedRaw | BrokenRaw => drop(image.raw.insert((peb, page))),
            _ => {}
        }
    }
}

#[test]
fn the_state_of_both_headers_and_of_the_data_decides() {
    use PebFate::{Corrupt, Free};
    use State::*;
    let lnum = 30;
    let rules = [
        // EC header, VID header, data; fate
        (Whole, Erased, Erased, Free),
        (WholeTired, Erased, Erased, ERASE),
        (WholeRaw, Erased, Erased, ERASE),
        (Whole, ErasedTired, Erased, ERASE),
        (Whole, ErasedRaw, Erased, ERASE),
        (Erased, Whole, Whole, ERASE), // the VID header is not even read
        (Erased, Erased, Erased, ERASE),
        (ErasedTired, Erased, Erased, ERASE),
        (Broken, Erased, Erased, ERASE),
        (BrokenRaw, Erased, Erased, ERASE),
        (Whole, Whole, Whole, used(0, lnum)),
        (Whole, Whole, BrokenRaw, used(0, lnum)), // data are not read
        (WholeTired, Whole, Whole, scrub(0, lnum)),
        (Whole, WholeTired, Whole, scrub(0, lnum)),
        (Whole, WholeRaw, Whole, scrub(0, lnum)),
        (Broken, Whole, Whole, scrub(0, lnum)),
        (BrokenRaw, Whole, Whole, scrub(0, lnum)),
        (ErasedRaw, Whole, Whole, scrub(0, lnum)),
        (Whole, Broken, Whole, Corrupt),
        (WholeTired, Broken, Whole, Corrupt),
        (Whole, BrokenRaw, Whole, Corrupt),
        (Whole, Broken, Erased, ERASE),
        (Whole, Broken, BrokenRaw, ERASE),
        (Whole, Broken, WholeTired, ERASE),
        (Broken, Broken, Whole, ERASE),
        (BrokenRaw, BrokenRaw, Whole, ERASE),
    ];
    for (ec, vid, data, fate) in rules {
        let mut image = lab(128);
        let (pages, layout) = (image.pages(), image.layout);
        let ec_hdr = image.ec_hdr(77).encode();
        ec.apply(&mut image, 60, pages[0], 0, &ec_hdr);
        vid.apply(&mut image, 60, pages[1], layout.vid_hdr_offset, &dynamic(0, lnum, 50).encode());
        data.apply(&mut image, 60, pages[2] + 3, layout.data_offset + 3 * 512, &[7; 512]);
        let info = image.scan().unwrap();
        assert_eq!(info.fates[60], fate, "EC {ec:?}, VID {vid:?}, data {data:?}");
        let known = matches!(ec, Whole | WholeTired | WholeRaw);
        assert_eq!(info.erase_counts[60] == EraseCount(77), known, "EC {ec:?}, VID {vid:?}, data {data:?}");
    }
}

#[test]
fn lost_erase_counts_are_the_mean_of_the_others() {
    let mut image = lab(128);
    for peb in 0..128 {
        image.ec(peb, if peb % 2 == 0 { 100 } else { 201 });
    }
    image.erase(10);
    image.spoil(71, 0);
    image.bad.insert(11);
    let info = image.scan().unwrap();
    // 63 times 100 and 62 times 201.
    let mean = EraseCount((63 * 100 + 62 * 201) / 125);
    assert_eq!((info.erase_counts[10], info.erase_counts[71], info.erase_counts[11]), (mean, mean, EraseCount(0)));
}

#[test]
fn the_higher_sequence_number_holds_the_leb() {
    for (low, high) in [(60, 61), (61, 60)] {
        let mut image = lab(128);
        image.vid(low, dynamic(0, 25, 50));
        image.vid(high, dynamic(0, 25, 51));
        let info = image.scan().unwrap();
        assert_eq!(leb(&info, 0, 25), Some(high));
        assert_eq!((info.fates[high as usize], info.fates[low as usize]), (used(0, 25), ERASE));
    }
}

#[test]
fn a_torn_copy_loses_to_its_original() {
    let data = [9; 2000];
    for (original, copy) in [(60, 61), (61, 60)] {
        for torn in [false, true] {
            let mut image = lab(128);
            image.vid(original, dynamic(0, 25, 50));
            image.vid(copy, copy_of(&data, dynamic(0, 25, 51)));
            image.data(copy, if torn { &data[..1999] } else { &data });
            let (winner, loser) = if torn { (original, copy) } else { (copy, original) };
            let info = image.scan().unwrap();
            assert_eq!((leb(&info, 0, 25), info.fates[loser as usize]), (Some(winner), ERASE), "torn: {torn}");
        }
    }
}

#[test]
fn only_a_newer_copy_is_checked() {
    // The newest of three, and not a copy: as after a rewrite that follows a move.
    let mut image = lab(128);
    image.vid(60, dynamic(0, 25, 50));
    image.vid(61, copy_of(&[1; 100], dynamic(0, 25, 51)));
    image.vid(62, dynamic(0, 25, 52));
    assert_eq!(leb(&image.scan().unwrap(), 0, 25), Some(62));
    // A copy whose original is erased holds its LEB unchecked; its data are not read.
    image.erase(60);
    image.erase(62);
    image.raw.insert((61, image.pages()[2]));
    let info = image.scan().unwrap();
    assert_eq!(info.fates[61], used(0, 25));
}

#[test]
fn a_copy_that_reads_with_correction_is_scrubbed() {
    let data = [9; 2000];
    for copy_first in [false, true] {
        let (original, copy) = if copy_first { (61, 60) } else { (60, 61) };
        let mut image = lab(128);
        image.vid(original, dynamic(0, 25, 50));
        image.vid(copy, copy_of(&data, dynamic(0, 25, 51)));
        image.data(copy, &data);
        image.tired.insert((copy, image.pages()[2]));
        assert_eq!(image.scan().unwrap().fates[copy as usize], scrub(0, 25));
    }
}

#[test]
fn the_same_sequence_number_twice_is_refused() {
    let mut image = lab(128);
    image.vid(60, dynamic(0, 7, 17));
    let error = image.scan().unwrap_err();
    let (vol_id, lnum) = (VolId(0), Lnum(7));
    assert_eq!(error, AttachError::SameSqnum { a: Peb(60), b: Peb(77), vol_id, lnum, sqnum: 17 });
}

#[test]
fn a_twentieth_of_corrupt_pebs_is_too_many() {
    let corrupt = |pebs: u32, bad: u32, preserved: u32, corrupt: u32| {
        let mut image = lab(pebs);
        image.bad.extend(104..104 + bad);
        (30..30 + preserved).for_each(|peb| image.vid(peb, internal(0x7fff_ff00, peb, compat::PRESERVE, 80)));
        for peb in 40..40 + corrupt {
            image.spoil_vid(peb);
            image.data(peb, b"somebody's");
        }
        image.scan()
    };
    let info = corrupt(200, 0, 0, 9).unwrap();
    assert_eq!(info.fates[48], PebFate::Corrupt);
    assert!(info.notes.iter().any(|note| note.contains("9 PEBs are corrupt")), "{:?}", info.notes);
    let error = corrupt(200, 0, 0, 10).unwrap_err();
    assert_eq!(error, AttachError::TooManyCorrupt { corrupt: 10, good: 200, limit: 10, first: Peb(40) });
    assert!(error.to_string().ends_with("(first: PEB 40): UBI refuses 10 or more"), "{error}");
    // Bad and preserved PEBs do not count as good ones.
    let error = corrupt(200, 10, 10, 9).unwrap_err();
    assert_eq!(error, AttachError::TooManyCorrupt { corrupt: 9, good: 180, limit: 9, first: Peb(40) });
}

#[test]
fn eight_corrupt_pebs_are_too_many_for_a_tiny_flash() {
    let corrupt = |pebs: u32, corrupt: u32| {
        let mut image = Image::formatted(geometry(pebs));
        image.table_copy(2, 0, 1, &[]);
        for peb in 5..5 + corrupt {
            image.spoil_vid(peb);
            image.data(peb, b"somebody's");
        }
        image.scan()
    };
    assert!(corrupt(19, 7).is_ok());
    let error = corrupt(19, 8).unwrap_err();
    assert_eq!(error, AttachError::TooManyCorrupt { corrupt: 8, good: 19, limit: 8, first: Peb(5) });
    // With one PEB more, one corrupt PEB is a twentieth.
    let error = corrupt(20, 1).unwrap_err();
    assert_eq!(error, AttachError::TooManyCorrupt { corrupt: 1, good: 20, limit: 1, first: Peb(5) });
}

#[test]
fn all_pebs_are_of_one_image() {
    let with_seq = |peb, image_seq| {
        let mut image = lab(128);
        let hdr = EcHdr { image_seq, ..image.ec_hdr(1) };
        image.put(peb, 0, &hdr.encode());
        image.scan()
    };
    assert_eq!(with_seq(0, 0).unwrap().image_seq, IMAGE_SEQ);
    assert_eq!(with_seq(60, 0).unwrap().image_seq, IMAGE_SEQ);
    let (found, expected) = (7, IMAGE_SEQ.into());
    let error = AttachError::Mismatch { peb: Peb(60), offset: 24, what: "image_seq", found, expected };
    assert_eq!(with_seq(60, 7), Err(error));
}

#[test]
fn offsets_other_than_the_layouts_are_named() {
    let mut image = lab(128);
    let hdr = EcHdr { vid_hdr_offset: 2048, ..image.ec_hdr(1) };
    image.put(9, 0, &hdr.encode());
    let error = image.scan().unwrap_err();
    assert_eq!(error.to_string(), "PEB 9, offset 16: vid_hdr_offset is 2048, expected 512");
    let mut image = lab(128);
    let hdr = EcHdr { data_offset: 4096, ..image.ec_hdr(1) };
    image.put(9, 0, &hdr.encode());
    let error = image.scan().unwrap_err();
    assert_eq!(error.to_string(), "PEB 9, offset 20: data_offset is 4096, expected 1024");
}

#[test]
fn a_whole_header_that_says_the_impossible_is_refused() {
    let refused = |image: &Image| match image.scan().unwrap_err() {
        AttachError::Header { peb: Peb(60), offset, why: MediaError::Field { what, .. } } => (offset, what),
        other => panic!("{other}"),
    };
    let mut image = lab(128);
    let hdr = EcHdr { ec: 0x8000_0000, ..image.ec_hdr(1) };
    image.put(60, 0, &hdr.encode());
    assert_eq!(refused(&image), (0, "ec"));
    let pages = 512;
    for (hdr, what) in [
        (internal(0x7fff_ff00, 0, 3, 50), "compat of an internal volume"),
        (internal(0, 25, compat::DELETE, 50), "compat of a user volume"),
        (VidHdr { data_pad: 7680, ..dynamic(0, 25, 50) }, "data_pad"),
        (VidHdr { data_pad: u32::MAX, ..dynamic(0, 25, 50) }, "data_pad"),
        (VidHdr { data_size: 15_361, ..dynamic(0, 25, 50) }, "data_size"),
        (VidHdr { data_size: 15_360, data_pad: 1, ..dynamic(0, 25, 50) }, "data_size"),
        (fixed(1, 3, 3, 100, 50), "lnum"),
        (fixed(1, 1, 3, 15_359, 50), "data_size"),
        (fixed(1, 2, 3, 0, 50), "data_size"),
        (VidHdr { used_ebs: 1, ..dynamic(0, 25, 50) }, "used_ebs"),
        (VidHdr { data_crc: 1, ..dynamic(0, 25, 50) }, "data_crc"),
        (dynamic(0, 1 << 31, 50), "lnum"),
    ] {
        let mut image = lab(128);
        image.vid(60, hdr);
        assert_eq!(refused(&image), (pages, what));
    }
}

#[test]
fn an_unknown_internal_volume_says_what_to_do_with_it() {
    let with = |compat| {
        let mut image = lab(128);
        image.vid(60, internal(0x7fff_ff00, 4, compat, 50));
        image.scan()
    };
    let outcome = |compat| with(compat).map(|info| (info.fates[60], info.read_only));
    assert_eq!(outcome(compat::DELETE), Ok((ERASE, false)));
    assert_eq!(outcome(compat::READ_ONLY), Ok((PebFate::Preserved, true)));
    assert_eq!(outcome(compat::PRESERVE), Ok((PebFate::Preserved, false)));
    assert_eq!(outcome(compat::REJECT), Err(AttachError::Rejected { peb: Peb(60), vol_id: VolId(0x7fff_ff00) }));
    assert_eq!(with(compat::PRESERVE).unwrap().max_sqnum, 50);
}

#[test]
fn fastmaps_are_old_to_a_scan() {
    let mut image = lab(128);
    image.vid(60, internal(FM_SB_VOLUME_ID, 0, compat::DELETE, 50));
    image.vid(61, internal(FM_DATA_VOLUME_ID, 1, compat::DELETE, 51));
    let info = image.scan().unwrap();
    assert_eq!(info.fates[60], PebFate::OldFastmap { super_block: true });
    assert_eq!(info.fates[61], PebFate::OldFastmap { super_block: false });
    assert_eq!(info.max_sqnum, 51);
}

#[test]
fn lebs_that_the_table_does_not_know_are_erased() {
    let mut image = lab(128);
    image.vid(60, dynamic(0, 39, 50));
    image.vid(61, dynamic(0, 40, 51));
    image.vid(62, dynamic(0, 0x7fff_ffff, 52));
    image.vid(63, dynamic(5, 0, 53));
    image.vid(64, dynamic(5, 0, 53)); // even twice
    let info = image.scan().unwrap();
    assert_eq!(info.fates[60..65], [used(0, 39), ERASE, ERASE, ERASE, ERASE]);
    assert_eq!((info.max_sqnum, info.volumes[5].is_none()), (53, true));
    assert!(info.notes.iter().any(|note| note.starts_with("4 PEBs")), "{:?}", info.notes);
}

#[test]
fn a_volume_number_beyond_the_table_is_refused() {
    let with = |vol_id| {
        let mut image = lab(128);
        image.vid(60, dynamic(vol_id, 0, 50));
        image.scan()
    };
    assert!(with(88).is_ok());
    let error = with(89).unwrap_err();
    assert!(matches!(error, AttachError::Volume { vol_id: VolId(89), .. }), "{error}");
}

#[test]
fn the_layout_volume_has_two_lebs() {
    let mut image = lab(128);
    image.vid(60, internal(LAYOUT_VOLUME_ID, 2, LAYOUT_COMPAT, 50));
    let error = image.scan().unwrap_err();
    assert!(matches!(error, AttachError::Volume { vol_id: VolId(LAYOUT_VOLUME_ID), .. }), "{error}");
}

#[test]
fn headers_agree_with_the_volume_table() {
    let refused = |hdr| {
        let mut image = lab(128);
        image.vid(60, hdr);
        match image.scan().unwrap_err() {
            AttachError::Volume { what, .. } => what,
            other => panic!("{other}"),
        }
    };
    assert!(refused(fixed(0, 25, 30, 15_360, 50)).contains("the header says static, the volume table says dynamic"));
    assert!(refused(dynamic(1, 5, 50)).contains("the header says dynamic, the volume table says static"));
    assert!(refused(VidHdr { data_pad: 4, ..dynamic(0, 25, 50) }).contains("data_pad = 4, 0 in the volume table"));
    assert!(refused(fixed(1, 1, 4, 15_360, 50)).contains("used_ebs = 3, 4 in another PEB"));
    assert!(refused(fixed(1, 1, 9, 15_360, 50)).contains("used_ebs = 9 of 8 reserved LEBs"));
}

#[test]
fn alignment_shortens_the_lebs_of_a_static_volume() {
    let mut image = Image::formatted(geometry(64));
    let aligned = VtblRecord { alignment: 4096, data_pad: 15_360 % 4096, ..record("fw", VolType::Static, 4) };
    image.table_copy(2, 0, 1, &[(0, aligned)]);
    image.vid(10, VidHdr { data_pad: 3072, ..fixed(0, 0, 2, 12_288, 5) });
    image.vid(11, VidHdr { data_pad: 3072, ..fixed(0, 1, 2, 12_288, 6) });
    let info = image.scan().unwrap();
    let volume = info.volumes[0].as_ref().unwrap();
    assert_eq!((volume.used_ebs, volume.last_eb_bytes), (2, 12_288));
}

#[test]
fn a_static_volume_that_lost_lebs_is_attached_and_noted() {
    let mut image = lab(128);
    image.erase(101);
    let info = image.scan().unwrap();
    let volume = info.volumes[1].as_ref().unwrap();
    assert_eq!((volume.used_ebs, volume.last_eb_bytes, leb(&info, 1, 1)), (3, 1000, None));
    assert!(info.notes.iter().any(|note| note.contains("1 of 3 LEBs are missing")), "{:?}", info.notes);
}

#[test]
fn an_interrupted_update_leaves_a_void_volume_that_still_attaches() {
    let mut image = lab(128);
    let mut records = lab_records();
    records[1].1.upd_marker = true;
    image.table_copy(2, 0, 1, &records);
    image.table_copy(3, 1, 2, &records);
    image.vid(60, fixed(1, 0, 5, 15_360, 50)); // of the update, beside LEBs 1 and 2 of what was before
    image.vid(61, fixed(1, 3, 9, 15_360, 51)); // sizes of a void volume are of no matter
    let info = image.scan().unwrap();
    let volume = info.volumes[1].as_ref().unwrap();
    assert_eq!((volume.record.upd_marker, volume.used_ebs, volume.last_eb_bytes), (true, 0, 0));
    assert_eq!([0, 1, 3].map(|lnum| leb(&info, 1, lnum)), [Some(60), Some(101), Some(61)]);
    assert_eq!(info.fates[100], ERASE);
}

#[test]
fn a_whole_copy_of_the_volume_table_is_enough() {
    use TableCopy::{Bad, Differs, Good};
    let other = vec![(0, record("data", VolType::Dynamic, 41)), (1, record("kernel", VolType::Static, 8))];
    type Damage<'a> = &'a dyn Fn(&mut Image);
    let rules: [(&str, Damage<'_>, [TableCopy; 2], usize); 6] = [
        ("both whole", &|_| {}, [Good, Good], 40),
        ("copy 1 differs", &|image| image.table_copy(3, 1, 2, &other), [Good, Differs], 40),
        ("copy 0 is newer", &|image| image.table_copy(2, 0, 50, &other), [Good, Differs], 41),
        ("copy 1 is damaged", &|image| image.peb(3)[1024 + 5000] ^= 1, [Good, Bad], 40),
        ("copy 0 is damaged", &|image| image.peb(2)[1024 + 5000] ^= 1, [Bad, Good], 40),
        ("copy 0 is missing", &|image| image.erase(2), [Bad, Good], 40),
    ];
    for (what, damage, table, lebs) in rules {
        let mut image = lab(128);
        damage(&mut image);
        let info = image.scan().unwrap();
        assert_eq!((info.table, info.volumes[0].as_ref().unwrap().eba.len()), (table, lebs), "{what}");
        assert_eq!(info.notes.is_empty(), table == [Good, Good], "{what}: {:?}", info.notes);
    }
}

#[test]
fn without_a_volume_table_nothing_is_attached() {
    let mut image = lab(128);
    image.peb(2)[1024 + 5000] ^= 1;
    image.erase(3);
    let error = image.scan().unwrap_err();
    let AttachError::NoVolumeTable { why } = &error else { panic!("{error}") };
    assert!(why.contains("copy 0: PEB 2: record 29: CRC") && why.contains("copy 1: missing"), "{why}");
    image.erase(2);
    let error = image.scan().unwrap_err();
    assert!(matches!(&error, AttachError::NoVolumeTable { why } if why.contains("copy 0: missing")), "{error}");
}

#[test]
fn a_table_that_contradicts_itself_is_no_table() {
    let with = |records: &[(usize, VtblRecord)]| {
        let mut image = Image::formatted(geometry(64));
        image.table_copy(2, 0, 1, records);
        image.scan()
    };
    let twins = [(0, record("a", VolType::Dynamic, 1)), (7, record("a", VolType::Dynamic, 1))];
    assert!(with(&twins).unwrap_err().to_string().contains("records 0 and 7 have one name, a"));
    let giant = [(0, record("a", VolType::Dynamic, 65))];
    assert!(with(&giant).unwrap_err().to_string().contains("reserved_pebs = 65, good PEBs: 64"));
    let pair = |second| [(0, record("a", VolType::Dynamic, 40)), (1, record("b", VolType::Dynamic, second))];
    assert!(with(&pair(22)).is_ok());
    assert_eq!(with(&pair(23)).unwrap_err(), AttachError::NoSpace { need: 65, have: 64 });
}

#[test]
fn a_tired_volume_table_is_scrubbed() {
    let mut image = lab(128);
    image.tired.insert((2, image.pages()[2]));
    image.raw.insert((3, image.pages()[2] + 1)); // its checksums are right all the same
    let info = image.scan().unwrap();
    assert_eq!(info.table, [TableCopy::Good; 2]);
    assert_eq!(info.fates[2..4], [scrub(LAYOUT_VOLUME_ID, 0), scrub(LAYOUT_VOLUME_ID, 1)]);
}

#[test]
fn a_flash_that_holds_nothing_is_empty() {
    let mut image = Image::blank(geometry(64));
    image.bad.insert(3);
    let info = image.scan().unwrap();
    assert!(info.empty);
    assert_eq!((info.fates[0], info.fates[3], info.layout_eba), (ERASE, PebFate::Bad, [None, None]));
    assert_eq!((info.volumes.len(), info.volumes.iter().flatten().count()), (89, 0));
    // Formatting was interrupted: some EC headers, one of them torn.
    (10..30).for_each(|peb| image.ec(peb, 4));
    image.spoil(30, 0);
    let info = image.scan().unwrap();
    assert_eq!((info.empty, info.fates[10], info.fates[30]), (true, PebFate::Free, ERASE));
    assert_eq!((info.erase_counts[10], info.erase_counts[31]), (EraseCount(4), EraseCount(4)));
}

#[test]
fn a_flash_that_holds_something_else_is_not_empty() {
    let refused = |image: &Image| matches!(image.scan(), Err(AttachError::NoVolumeTable { .. }));
    // Unreadable PEBs may be bad blocks not yet marked; three of them mean foreign data.
    let mut image = Image::blank(geometry(64));
    for peb in [4, 5] {
        image.put(peb, 0, &[0x5a; 4096]);
        image.raw.extend([(peb, 0), (peb, 1)]);
    }
    assert!(image.scan().unwrap().empty);
    let mut third = image.clone();
    third.put(6, 0, &[0x5a; 4096]);
    third.raw.extend([(6, 0), (6, 1)]);
    assert!(refused(&third));
    // Readable data without any header.
    image.put(6, 0, &[0x5a; 4096]);
    assert!(refused(&image));
    // A marker at the start of each block, as JFFS2 leaves it.
    let mut image = Image::blank(geometry(64));
    (0..64).for_each(|peb| image.put(peb, 0, b"\x19\x85\x20\x03"));
    assert!(refused(&image));
    // Data behind a broken VID header.
    let mut image = Image::formatted(geometry(64));
    image.spoil_vid(7);
    image.data(7, b"somebody's");
    assert!(refused(&image));
}

#[test]
fn power_loss_at_any_read_ends_the_attach() {
    let image = lab(128);
    let mut flash = image.flash();
    let mut reads = 0;
    loop {
        flash.reads_left = reads;
        match attach_by_scan(&mut flash, &mut Cx::new(), &image.layout) {
            Err(error) => assert_eq!(error, AttachError::Flash(FlashError::PowerLost), "after {reads} reads"),
            Ok(_) => break,
        }
        reads += 1;
    }
    assert_eq!(reads, 2 * 128 + 2, "two headers of each PEB, two tables");
}

#[test]
fn data_are_read_only_where_a_rule_asks_for_them() {
    let image = lab(128);
    let table_pages = u64::from(89u32 * 172).div_ceil(512);
    assert_eq!(image.pages_read(attach_by_scan), 2 * 128 + 2 * table_pages);
}

/// The headers of every PEB, each read alone.
fn headers_of(image: &Image) -> Vec<Option<Headers>> {
    (0..image.flash().geometry().pebs).map(|peb| Headers::read(&mut image.flash(), &image.layout, Peb(peb))).collect()
}

/// Who has read headers passes them on. They stand for what is there, and only the others are read.
#[test]
fn headers_that_were_read_are_not_read_again() {
    let cx = &mut Cx::new();
    let image = lab(128);
    let table_pages = u64::from(89u32 * 172).div_ceil(512);
    let headers = headers_of(&image);
    for every in [1, 3, 128] {
        let read: Vec<_> = (0..).zip(&headers).map(|(at, it)| it.as_ref().filter(|_| at % every == 0)).collect();
        let mut flash = image.flash();
        assert_eq!(attach_by_scan_of(&mut flash, cx, &image.layout, &read), image.scan());
        let others = read.iter().filter(|headers| headers.is_none()).count() as u64;
        assert_eq!(flash.pages_read, 2 * others + 2 * table_pages, "one of {every} is known");
    }
    let (mut image, _) = lab_with_fastmap();
    let last = image.flash().geometry().pebs - 1;
    image.spoil_vid(last);
    let headers = headers_of(&image);
    let read: Vec<_> = headers.iter().map(Option::as_ref).collect();
    assert_eq!(attach_by_scan_of(&mut image.flash(), cx, &image.layout, &read), image.scan());
    assert_eq!(attach_by_fastmap_of(&mut image.flash(), cx, &image.layout, &read), image.fastmap());
}

/// A header that is not read again is held against the others like one that is.
#[test]
fn headers_that_were_read_are_checked_like_others() {
    let image = lab(128);
    let mut other = lab(128);
    let ec_hdr = other.ec_hdr(7);
    other.put(9, 0, &EcHdr { image_seq: ec_hdr.image_seq + 1, ..ec_hdr }.encode());
    let headers = headers_of(&other);
    assert_eq!(headers.iter().map(|headers| headers.and_then(|it| it.erase_count())).nth(9), Some(Some(7)));
    let read: Vec<_> = headers.iter().map(Option::as_ref).collect();
    let found = attach_by_scan_of(&mut image.flash(), &mut Cx::new(), &image.layout, &read);
    assert!(matches!(found, Err(AttachError::Mismatch { peb: Peb(9), what: "image_seq", .. })), "{found:?}");
    assert_eq!(found, other.scan());
    // What cannot be read, or is valid and cannot be, is not known.
    other.put(9, 0, &EcHdr { ec: 1 << 40, ..ec_hdr }.encode());
    assert_eq!(headers_of(&other)[9], None);
    let mut flash = image.flash();
    flash.reads_left = 1;
    assert_eq!(Headers::read(&mut flash, &image.layout, Peb(9)), None);
}

/// A store without bytes.
struct Tags(Geometry);

impl Flash for Tags {
    const KEEPS_BYTES: bool = false;
    fn geometry(&self) -> &Geometry {
        &self.0
    }
    fn read(&mut self, _: &mut Cx, _: Peb, _: u32, _: &mut [u8]) -> Result<ReadStatus, FlashError> {
        unreachable!("there is nothing to read")
    }
    fn program(&mut self, _: &mut Cx, _: Peb, _: u32, _: Payload<'_>) -> Result<(), FlashError> {
        Ok(())
    }
    fn erase(&mut self, _: &mut Cx, _: Peb) -> Result<(), FlashError> {
        Ok(())
    }
    fn is_bad(&self, _: Peb) -> bool {
        false
    }
    fn mark_bad(&mut self, _: &mut Cx, _: Peb) -> Result<(), FlashError> {
        Ok(())
    }
}

#[test]
fn a_store_without_bytes_is_not_read() {
    let (mut flash, layout) = (Tags(geometry(64)), lab(128).layout);
    assert_eq!(attach_by_scan(&mut flash, &mut Cx::new(), &layout), Err(AttachError::NoBytes));
    let by_fastmap = attach_by_fastmap(&mut flash, &mut Cx::new(), &layout);
    assert_eq!(by_fastmap, Err(ubi::attach::FastmapUnusable::Fatal(AttachError::NoBytes)));
}

#[test]
fn the_layout_volume_follows_the_rules_of_copies() {
    // An atomic change of copy 0 of the table, torn and whole.
    let records = [(0, record("data", VolType::Dynamic, 41)), (1, record("kernel", VolType::Static, 8))];
    for torn in [false, true] {
        let mut image = lab(128);
        let bytes = image.table_bytes(&records);
        image.vid(60, copy_of(&bytes, internal(LAYOUT_VOLUME_ID, 0, LAYOUT_COMPAT, 50)));
        image.data(60, if torn { &bytes[..8000] } else { &bytes });
        assert_ne!(crc(&bytes), 0);
        let info = image.scan().unwrap();
        let (peb, lebs) = if torn { (2, 40) } else { (60, 41) };
        assert_eq!((info.layout_eba[0], info.volumes[0].as_ref().unwrap().eba.len()), (Some(Peb(peb)), lebs));
    }
}
