//! Static volumes and updates: sizes, interruption, checksums.

use sim::Lnum;
use sim::seam::{LebError, LebVolume, Payload};
use ubi::media::VolType;
use ubi::{Config, UbiError, VolumeRequest};

use crate::faulty::Faulty;
use crate::media::{peb_of, rewrite};
use crate::rig::{Rig, dynamic, fixed, grid, is_bad, pattern, small_lebs};

const LEB: usize = 3584;

#[test]
fn an_update_of_every_length_is_read_back_and_survives() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        for request in [dynamic("d", 4), fixed("s", 4)] {
            let vol_id = rig.create(&request).unwrap();
            let lengths = [1, 2, 255, 256, 257, LEB - 1, LEB, LEB + 1, 3 * LEB - 2, 3 * LEB, 4 * LEB - 1, 4 * LEB, 0];
            for (round, len) in lengths.into_iter().enumerate() {
                let data = pattern(round as u32, len);
                rig.update(vol_id, &data).unwrap();
                if round % 3 == 0 {
                    rig.reattach();
                } else if round % 3 == 1 {
                    rig.pull_plug();
                }
                rig.open(vol_id).unwrap();
                assert!(rig.contents(vol_id, len).unwrap() == data, "{len} bytes of {:?}", request.vol_type);
                let info = rig.info(vol_id);
                let is_static = request.vol_type == VolType::Static;
                assert_eq!(info.data_bytes, if is_static { len } else { 4 * LEB } as u64);
                assert_eq!((info.mapped, info.corrupted), (len.div_ceil(LEB) as u32, false));
                assert_eq!(info.used_lebs, if is_static { len.div_ceil(LEB) as u32 } else { 0 });
            }
            is_bad(rig.update(vol_id, &vec![0; 4 * LEB + 1]), "update");
            rig.remove(vol_id).unwrap();
            assert_eq!(rig.update(vol_id, &[1]), Err(UbiError::NoSuchVolume(vol_id)));
        }
    }
}

#[test]
fn an_interrupted_update_is_noticed_until_the_volume_is_updated_again() {
    for config in grid() {
        for kind in [dynamic("v", 4), fixed("v", 4)] {
            for unplugged in [false, true] {
                let mut rig = Rig::blank(small_lebs(72), &config);
                let vol_id = rig.create(&kind).unwrap();
                rig.update(vol_id, &pattern(1, 3 * LEB + 17)).unwrap();
                rig.run(|ubi, cx| ubi.begin_update(cx, vol_id, 2 * LEB as u64)).unwrap();
                if unplugged {
                    rig.pull_plug();
                } else {
                    rig.reattach();
                }
                assert!(rig.info(vol_id).record.upd_marker);
                let updating = Err(LebError::Updating { lnum: Lnum(1) });
                assert_eq!(rig.read(vol_id, 1, 0, 1).map(|_| ()), updating);
                assert_eq!(rig.write(vol_id, 1, 0, &[0; 256]), updating);
                assert_eq!(rig.change(vol_id, 1, &[0; 256]), updating);
                assert_eq!((rig.map(vol_id, 1), rig.unmap(vol_id, 1)), (updating.clone(), updating));
                rig.update(vol_id, &pattern(2, LEB + 1)).unwrap();
                assert!(!rig.info(vol_id).record.upd_marker);
                rig.pull_plug();
                assert!(rig.contents(vol_id, LEB + 1).unwrap() == pattern(2, LEB + 1), "{config:?}");
                let rest = rig.read(vol_id, 3, 0, LEB);
                if kind.vol_type == VolType::Static {
                    assert_eq!(rest, Err(LebError::NoSuchLeb { lnum: Lnum(3), lebs: 2 }));
                } else {
                    assert_eq!(rest.unwrap(), vec![0xff; LEB], "what was there before the update must not come back");
                }
            }
        }
    }
}

/// Lengths by hand, where `ubi_leb_read` of Linux has EINVAL; a new volume has no LEB at all.
#[test]
fn a_static_volume_is_read_up_to_its_last_byte() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&fixed("s", 3)).unwrap();
        let none = |lnum, lebs| Err(LebError::NoSuchLeb { lnum: Lnum(lnum), lebs });
        assert_eq!(rig.read(vol_id, 0, 0, 1), none(0, 0));
        rig.update(vol_id, &pattern(1, LEB + 10)).unwrap();
        for turn in 0..2 {
            assert_eq!(rig.read(vol_id, 0, 0, LEB).unwrap(), pattern(1, LEB + 10)[..LEB]);
            assert_eq!(rig.read(vol_id, 1, 3, 7).unwrap(), pattern(1, LEB + 10)[LEB + 3..]);
            for (offset, bytes) in [(0, 11), (3, 8), (10, 1), (0, LEB)] {
                let behind = LebError::OutOfBounds { lnum: Lnum(1), offset, len: bytes as u32 };
                assert_eq!(rig.read(vol_id, 1, offset, bytes), Err(behind), "turn {turn}");
            }
            assert_eq!(rig.read(vol_id, 2, 0, 1), none(2, 2));
            assert_eq!(rig.read(vol_id, 3, 0, 1), none(3, 3), "of the three that are reserved");
            rig.pull_plug();
        }
    }
}

#[test]
fn a_static_volume_is_written_by_updates_only() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&fixed("s", 3)).unwrap();
        rig.update(vol_id, &pattern(1, LEB + 10)).unwrap();
        let refused = |outcome: Result<(), LebError>| assert!(matches!(outcome, Err(LebError::ReadOnly { .. })));
        refused(rig.write(vol_id, 2, 0, &[0; 256]));
        refused(rig.change(vol_id, 0, &[0; 256]));
        refused(rig.map(vol_id, 2));
        refused(rig.unmap(vol_id, 0));
        assert_eq!(rig.contents(vol_id, LEB + 10).unwrap(), pattern(1, LEB + 10));
    }
}

#[test]
fn damage_to_a_static_volume_is_found_when_it_is_opened_unless_it_says_to_skip_the_check() {
    for config in grid() {
        for skip_check in [false, true] {
            let mut rig = Rig::blank(small_lebs(72), &config);
            let vol_id = rig.create(&VolumeRequest { skip_check, ..fixed("s", 3) }).unwrap();
            rig.update(vol_id, &pattern(1, 2 * LEB + 100)).unwrap();
            let mut flash = rig.detach();
            let peb = peb_of(&mut flash, vol_id, 1);
            rewrite(&mut flash, peb, |bytes| bytes[512 + 77] ^= 1);
            let mut rig = Rig::attach(flash, &config);
            rig.open(vol_id).unwrap();
            assert_eq!(rig.info(vol_id).corrupted, !skip_check, "{config:?}");
            let corrupt = Err(LebError::Corrupt { lnum: Lnum(1) });
            if skip_check {
                assert_eq!(rig.read(vol_id, 1, 77, 1).unwrap(), [pattern(1, 2 * LEB)[LEB + 77] ^ 1]);
            } else {
                assert_eq!(rig.read(vol_id, 1, 0, 1).map(|_| ()), corrupt);
            }
            let checked = rig.run(|ubi, cx| ubi.check_volume(cx, vol_id));
            assert_eq!(checked, corrupt.clone().map_err(UbiError::Leb));
            let mut buf = [0; 16];
            let read = rig.run(|ubi, cx| ubi.volume(vol_id).unwrap().read_checked(cx, Lnum(1), 0, &mut buf));
            assert_eq!(read, corrupt);
            rig.update(vol_id, &pattern(2, 50)).unwrap();
            assert_eq!(rig.read(vol_id, 0, 0, 50).unwrap(), pattern(2, 50), "an update heals it");
        }
    }
}

#[test]
fn a_static_volume_that_lost_a_leb_is_damaged() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&fixed("s", 3)).unwrap();
        rig.update(vol_id, &pattern(1, 3 * LEB)).unwrap();
        let mut flash = rig.detach();
        let peb = peb_of(&mut flash, vol_id, 1);
        // Erase its VID header and data.
        rewrite(&mut flash, peb, |bytes| bytes[256..].fill(0xff));
        let mut rig = Rig::attach(flash, &config);
        rig.open(vol_id).unwrap();
        assert!(rig.info(vol_id).corrupted, "{config:?}");
        assert!(rig.read(vol_id, 0, 0, 1).is_err());
    }
}

#[test]
fn a_dynamic_volume_updated_halfway_and_ended_holds_what_was_written() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&dynamic("v", 3)).unwrap();
        rig.update(vol_id, &pattern(1, 3 * LEB)).unwrap();
        rig.run(|ubi, cx| {
            ubi.begin_update(cx, vol_id, LEB as u64)?;
            assert!(ubi.volume(vol_id)?.write(cx, Lnum(0), 0, Payload::Bytes(&[1; 256])).is_err());
            ubi.end_update(cx, vol_id, LEB as u64)
        })
        .unwrap();
        assert_eq!(rig.info(vol_id).mapped, 0);
    }
}

#[test]
fn a_leb_of_an_update_may_be_moved_before_the_update_ends() {
    for config in grid() {
        let config = Config { wl_threshold: 2, ..config };
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&fixed("s", 4)).unwrap();
        let other = rig.create(&dynamic("d", 1)).unwrap();
        let data = pattern(5, 2 * LEB + 17);
        rig.run(|ubi, cx| ubi.begin_update(cx, vol_id, data.len() as u64)).unwrap();
        for (lnum, chunk) in (0..).zip(data.chunks(LEB)) {
            rig.run(|ubi, cx| ubi.update_leb(cx, vol_id, Lnum(lnum), Payload::Bytes(chunk), data.len() as u64))
                .unwrap();
        }
        for round in 0..600 {
            rig.change(other, 0, &pattern(round, 256)).unwrap();
            rig.sync(other).unwrap();
        }
        assert!(rig.ubi().stats().moves > 10, "{config:?}: {} moves", rig.ubi().stats().moves);
        rig.run(|ubi, cx| ubi.end_update(cx, vol_id, data.len() as u64)).unwrap();
        // A scan takes the sizes from the headers, moved ones too.
        rig.pull_plug();
        rig.open(vol_id).unwrap();
        assert!(!rig.info(vol_id).corrupted, "{config:?}");
        assert!(rig.contents(vol_id, data.len()).unwrap() == data, "{config:?}");
    }
}

#[test]
fn a_leb_of_an_update_is_refused_where_none_was_begun_or_its_length_is_wrong() {
    let mut rig = Rig::blank(small_lebs(72), &grid()[0]);
    for kind in [dynamic("d", 4), fixed("s", 4)] {
        let vol_id = rig.create(&kind).unwrap();
        let bytes = LEB as u64 + 17;
        let leb = |rig: &mut Rig<_>, lnum, length: usize| {
            rig.run(|ubi, cx| ubi.update_leb(cx, vol_id, Lnum(lnum), Payload::Bytes(&vec![1; length]), bytes))
        };
        is_bad(leb(&mut rig, 0, LEB), "update");
        rig.run(|ubi, cx| ubi.begin_update(cx, vol_id, bytes)).unwrap();
        for (lnum, length) in [(0, LEB - 1), (1, LEB), (1, 16), (2, 0), (2, 1)] {
            is_bad(leb(&mut rig, lnum, length), "update");
        }
        leb(&mut rig, 0, LEB).unwrap();
        leb(&mut rig, 1, 17).unwrap();
    }
}

/// A page that cannot be read damages a static volume as a wrong byte does: its users are told so, whoever asks first.
#[test]
fn a_static_volume_with_an_unreadable_leb_is_damaged() {
    for config in grid() {
        for lnum in 0..3 {
            let mut rig = Rig::attach(Faulty::new(small_lebs(72)), &config);
            let vol_id = rig.create(&fixed("s", 3)).unwrap();
            rig.update(vol_id, &pattern(1, 3 * LEB)).unwrap();
            let mut flash = rig.detach();
            let peb = peb_of(&mut flash, vol_id, lnum);
            flash.unreadable.insert(peb.0);
            let rig = Rig::attach(flash, &config);
            let corrupt = LebError::Corrupt { lnum: Lnum(lnum) };
            let mut opened = rig.clone();
            opened.open(vol_id).unwrap();
            assert!(opened.info(vol_id).corrupted, "{config:?}, LEB {lnum}");
            let mut checked = rig.clone();
            assert_eq!(checked.run(|ubi, cx| ubi.check_volume(cx, vol_id)), Err(UbiError::Leb(corrupt.clone())));
            assert!(checked.info(vol_id).corrupted);
            let mut read = rig.clone();
            let found = read.run(|ubi, cx| ubi.volume(vol_id).unwrap().read_checked(cx, Lnum(lnum), 0, &mut [0; 16]));
            assert_eq!(found, Err(corrupt));
            assert!(read.info(vol_id).corrupted);
        }
    }
}

/// A copy says how long its data are, to the byte: a scan takes the length of a static volume from the header of its last LEB.
#[test]
fn a_static_volume_whose_lebs_were_moved_has_the_same_length_and_contents() {
    for config in grid() {
        for bytes in [1, 17, 255, 256, 257, LEB - 1, LEB, LEB + 1, 2 * LEB + 100, 3 * LEB] {
            let mut rig = Rig::attach(Faulty::new(small_lebs(72)), &config);
            let vol_id = rig.create(&fixed("s", 3)).unwrap();
            let data = pattern(bytes as u32, bytes);
            rig.update(vol_id, &data).unwrap();
            rig.sync(vol_id).unwrap();
            let lebs = bytes.div_ceil(LEB) as u32;
            let were: Vec<_> = (0..lebs).map(|lnum| peb_of(rig.flash(), vol_id, lnum)).collect();
            rig.flash().tired.extend(were.iter().map(|peb| peb.0));
            assert!(rig.contents(vol_id, bytes).unwrap() == data);
            // Each erasure starts the next move.
            let other = rig.create(&dynamic("other", 1)).unwrap();
            for round in 0..8 {
                rig.change(other, 0, &pattern(round, 256)).unwrap();
                rig.sync(other).unwrap();
            }
            for (lnum, was) in (0..).zip(were) {
                assert_ne!(peb_of(rig.flash(), vol_id, lnum), was, "{config:?}, {bytes} bytes: LEB {lnum} stays");
            }
            for fastmap in [config.fastmap, false] {
                rig.config.fastmap = fastmap;
                rig.pull_plug();
                rig.open(vol_id).unwrap();
                let info = rig.info(vol_id);
                assert_eq!((info.data_bytes, info.corrupted), (bytes as u64, false), "{config:?}");
                assert!(rig.contents(vol_id, bytes).unwrap() == data, "{config:?}, {bytes} bytes");
            }
        }
    }
}
