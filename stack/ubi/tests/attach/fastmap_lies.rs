//! Attach by a fastmap with a right checksum and wrong contents. Every lie is noticed, named and placed.

use sim::Peb;
use ubi::attach::FastmapUnusable;
use ubi::media::{FmHdr, FmPool, FmSb};

use crate::support::*;

const HDR_AT: usize = FmSb::BYTES;
const POOL_AT: usize = HDR_AT + FmHdr::BYTES;
const WL_POOL_AT: usize = POOL_AT + FmPool::BYTES;
const EC_AT: usize = WL_POOL_AT + FmPool::BYTES;
/// All of 128 PEBs but one bad one, the anchor and five of the pools.
const LISTED: usize = 128 - 1 - 1 - 5;
const VOLUMES_AT: usize = EC_AT + 8 * LISTED;
const EBA_AT: usize = VOLUMES_AT + 32;

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// PEB and message of the error for a fastmap whose bytes were changed before they were checksummed.
fn caught(lie: impl FnOnce(&mut [u8])) -> (u32, String) {
    let (mut image, spec) = lab_with_fastmap();
    spec.write(&mut image, FM_SQNUM, lie);
    match image.fastmap() {
        Err(FastmapUnusable::Invalid { peb: Peb(ANCHOR), offset, why }) => (offset - 1024, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_truth_is_not_caught() {
    let (mut image, spec) = lab_with_fastmap();
    spec.write(&mut image, FM_SQNUM, |_| {});
    image.fastmap().unwrap();
}

#[test]
fn every_lie_is_named_and_placed() {
    type Lie<'a> = (&'a dyn Fn(&mut [u8]), usize, &'a str);
    let put = |at, value| move |bytes: &mut [u8]| put32(bytes, at, value);
    let lies: &[Lie<'_>] = &[
        (&put(0, 0), 0, "magic"),
        (&|bytes| bytes[4] = 2, 0, "fm_sb.version = 2"),
        (&put(12, 0), 0, "used_blocks = 0"),
        (&put(12, 33), 0, "used_blocks = 33"),
        (&put(12, 2), 12, "used_blocks = 2, expected 1"),
        (&put(16, 6), 16, "block 0 is said to be in PEB 6"),
        (&put(16, 120), 16, "block 0 is in PEB 120, which is Bad"),
        (&put(16, 128), 16, "block 0 is in PEB 128, which does not exist"),
        (&put(16, u32::MAX), 16, "does not exist"),
        (&put(HDR_AT, 0), HDR_AT, "magic"),
        (&put(HDR_AT + 16, 0), POOL_AT, "0 bad PEBs listed, 1 PEBs are bad"),
        (&put(HDR_AT + 16, u32::MAX), POOL_AT, "bad PEBs listed"),
        (&put(HDR_AT + 24, 2), 0, "the layout volume is not listed"),
        (&put(HDR_AT + 24, 4), 0, "magic"),
        (&put(HDR_AT + 24, u32::MAX), 0, "magic"),
        (&put(POOL_AT, 0), POOL_AT, "magic"),
        (&|bytes| bytes[POOL_AT + 4] = 1, POOL_AT, "pool size = 259"),
        (&|bytes| bytes[POOL_AT + 4..POOL_AT + 6].fill(0xff), POOL_AT, "pool size = 65535"),
        (&|bytes| bytes[WL_POOL_AT + 4..WL_POOL_AT + 6].fill(0xff), WL_POOL_AT, "pool size = 65535"),
        (&|bytes| bytes[POOL_AT + 6..POOL_AT + 8].fill(0xff), POOL_AT, "pool max_size = 65535"),
        (&put(POOL_AT + 8, 66), WL_POOL_AT, "PEB 66 is listed as Pool, and is Pool"),
        (&put(POOL_AT + 8, ANCHOR), WL_POOL_AT, "PEB 5 is listed as Pool, and is Block(0)"),
        (&put(POOL_AT + 8, 120), WL_POOL_AT, "PEB 120 is listed as Pool, and is Bad"),
        (&put(POOL_AT + 8, 128), WL_POOL_AT, "PEB 128 is listed as Pool, and does not exist"),
        (&put(WL_POOL_AT + 8, 66), EC_AT, "PEB 66 is listed as Pool, and is Pool"),
        (&put(POOL_AT + 8, 70), 0, "PEB 70 is listed as Used, and is Pool"),
        (&put(EC_AT, 1), EC_AT + 16, "PEB 1 is listed as Free, and is Free"),
        (&put(EC_AT, 66), EC_AT + 8, "PEB 66 is listed as Free, and is Pool"),
        (&put(EC_AT, u32::MAX), EC_AT + 8, "PEB 4294967295 is listed as Free, and does not exist"),
        (&put(EC_AT + 4, 0x8000_0000), EC_AT + 8, "PEB 0: ec = 2147483648"),
        (&put(VOLUMES_AT, 0), VOLUMES_AT, "magic"),
        (&put(VOLUMES_AT + 4, 1), 0, "volume 1 is listed twice"),
        (&put(VOLUMES_AT + 4, 0x7fff_efff), 0, "the layout volume has 40 LEBs, not 2"),
        (&put(VOLUMES_AT + 4, 89), 0, "volume 89 cannot exist"),
        (&put(VOLUMES_AT + 4, 3), 0, "2 volumes differ from the volume table"),
        // The numbers of VID headers and of the volume table.
        (&|bytes| bytes[VOLUMES_AT + 8] = 1, VOLUMES_AT + 8, "vol_type = 1, expected 3 (dynamic) or 4 (static)"),
        (&|bytes| bytes[VOLUMES_AT + 8] = 2, VOLUMES_AT + 8, "vol_type = 2, expected 3 (dynamic) or 4 (static)"),
        (&|bytes| bytes[VOLUMES_AT + 8] = 0, VOLUMES_AT + 8, "vol_type = 0"),
        (
            &|bytes| bytes[VOLUMES_AT + 8] = 4,
            0,
            "volume 0 is static with data_pad 0; in the volume table dynamic with 0",
        ),
        (&put(VOLUMES_AT + 12, 4), 0, "volume 0 is dynamic with data_pad 4"),
        (&put(EBA_AT, 0), EBA_AT, "magic"),
        (&put(EBA_AT + 4, 129), EBA_AT + 8, "volume 0 has 129 LEBs"),
        (&put(EBA_AT + 4, u32::MAX), EBA_AT + 8, "LEBs"),
        (&put(EBA_AT + 4, 41), 0, "PEB 4197912273 holds"),
        (&put(EBA_AT + 8, 71), 0, "PEB 71 holds two LEBs"),
        (&put(EBA_AT + 8, 0), 0, "PEB 0 holds a LEB, and is Free"),
        (&put(EBA_AT + 8, 66), 0, "PEB 66 holds a LEB, and is Pool"),
        (&put(EBA_AT + 8, 90), 0, "PEB 90 holds a LEB, and is Erase"),
        (&put(EBA_AT + 8, 128), 0, "PEB 128 holds a LEB, and does not exist"),
        (&put(EBA_AT + 8, 2), 0, "PEB 2 holds two LEBs"),
    ];
    for (i, (lie, at, why)) in lies.iter().enumerate() {
        let (found_at, found) = caught(lie);
        assert!(found.contains(why), "lie {i}: {found:?} instead of {why:?}");
        if *at != 0 {
            assert_eq!(found_at as usize, *at, "lie {i}: {found}");
        }
    }
}

#[test]
fn counts_that_lie_are_caught() {
    for field in [4, 8, 12, 20] {
        for change in [1u32, u32::MAX, 1 << 31, 77] {
            let (_, why) = caught(|bytes| {
                let count = get32(bytes, HDR_AT + field);
                put32(bytes, HDR_AT + field, count.wrapping_add(change));
            });
            assert!(!why.is_empty(), "{field}");
        }
    }
}

#[test]
fn a_good_peb_that_is_not_listed_is_missed() {
    let (mut image, mut spec) = lab_with_fastmap();
    assert_eq!(spec.free.remove(7).0, 10);
    spec.write(&mut image, FM_SQNUM, |_| {});
    let error = image.fastmap().unwrap_err().to_string();
    assert!(error.contains("PEB 10 is good and not listed"), "{error}");
}

#[test]
fn a_second_layout_volume_is_caught() {
    let (mut image, mut spec) = lab_with_fastmap();
    let (hdr, _) = spec.volumes[2];
    spec.volumes.push((hdr, vec![u32::MAX; 2]));
    spec.write(&mut image, FM_SQNUM, |_| {});
    let error = image.fastmap().unwrap_err().to_string();
    assert!(error.contains("volume 2147479551 is listed twice"), "{error}");
}

#[test]
fn a_peb_that_turned_bad_since_calls_for_a_scan() {
    let (mut image, _) = lab_with_fastmap();
    image.bad.insert(66);
    let error = image.fastmap().unwrap_err().to_string();
    assert!(error.contains("1 bad PEBs listed, 2 PEBs are bad"), "{error}");
    assert!(image.scan().is_ok());
}

#[test]
fn a_pool_of_more_pebs_than_the_flash_has_is_caught() {
    let (mut image, mut spec) = lab_with_fastmap();
    spec.pools[0] = (0..256).collect();
    spec.write(&mut image, FM_SQNUM, |_| {});
    assert!(matches!(image.fastmap(), Err(FastmapUnusable::Invalid { .. })));
}

#[test]
fn volumes_that_run_off_the_buffer_are_caught() {
    let (mut image, mut spec) = lab_with_fastmap();
    // 89 volumes of 128 unmapped LEBs need three times the buffer; the last ones are cut off.
    let hdr = spec.volumes[0].0;
    let extra = (2..20).map(|vol_id| (ubi::media::FmVolHdr { vol_id, ..hdr }, vec![u32::MAX; 128]));
    spec.volumes.extend(extra);
    let room = 15_360 - VOLUMES_AT;
    let needed: usize = spec.volumes.iter().map(|(_, eba)| 40 + 4 * eba.len()).sum();
    assert!(needed < room, "the test's flash is too small for the test");
    spec.write(&mut image, FM_SQNUM, |bytes| put32(bytes, HDR_AT + 24, 200));
    let error = image.fastmap().unwrap_err().to_string();
    assert!(error.contains("magic 0x00000000"), "{error}");
}

#[test]
fn a_device_too_large_for_any_fastmap_has_none() {
    // 32 LEBs of 7 KiB do not hold the records of 32,768 PEBs.
    let mut image = Image::formatted(sim::seam::Geometry { pebs: 32_768, peb_bytes: 8 << 10, ..geometry(1) });
    image.vid(5, internal(0x7fff_f000, 0, 1, 7));
    let error = image.fastmap().unwrap_err().to_string();
    assert!(error.contains("would take 56 LEBs"), "{error}");
}

#[test]
fn any_flipped_byte_is_noticed() {
    let (image, _) = lab_with_fastmap();
    for at in (1024..16 << 10).step_by(97) {
        let mut image = image.clone();
        image.peb(ANCHOR)[at] ^= 0x10;
        assert!(matches!(image.fastmap(), Err(FastmapUnusable::Invalid { .. })), "byte {at}");
    }
}

/// Of four blocks, each is named with the offset of its entry in the super block, which is in the anchor.
#[test]
fn a_lie_about_a_later_block_is_placed_at_its_entry() {
    let image = lab(4096);
    let blocks = [ANCHOR, 700, 9, 4095];
    let spec = FmSpec::of(&image.scan().unwrap(), &blocks, [&[300], &[301, 302]]);
    for index in 1..blocks.len() {
        for (named, why) in [(4096, "does not exist"), (ANCHOR, "is Block(0)")] {
            let mut image = image.clone();
            spec.write(&mut image, FM_SQNUM, |bytes| put32(bytes, 16 + 4 * index, named));
            match image.fastmap() {
                Err(FastmapUnusable::Invalid { peb: Peb(ANCHOR), offset, why: found }) => {
                    assert_eq!(offset as usize, 1024 + 16 + 4 * index, "block {index}: {found}");
                    assert!(found.contains(why) && found.contains(&format!("block {index} ")), "{found}");
                }
                other => panic!("block {index} in PEB {named}: {other:?}"),
            }
        }
    }
}

/// Linux's UBI_MAX_ERASECOUNTER is 2,147,483,647.
#[test]
fn the_greatest_erase_count_is_taken_and_a_greater_one_is_not() {
    for (ec, taken) in [(0x7fff_ffff, true), (0x8000_0000, false)] {
        let (mut image, spec) = lab_with_fastmap();
        spec.write(&mut image, FM_SQNUM, |bytes| put32(bytes, EC_AT + 4, ec));
        match image.fastmap() {
            Ok(info) => assert!(taken && info.erase_counts[0].0 == ec),
            Err(error) => assert!(!taken, "{error}"),
        }
    }
}
