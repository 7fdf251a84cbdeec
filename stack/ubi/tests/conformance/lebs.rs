//! LEBs: odd lengths and offsets, bad arguments, atomic changes, mapping.

use sim::seam::{LebError, LebVolume};
use sim::{Lnum, VolId};
use ubi::{Background, Config, Policy};

use crate::rig::{Rig, dynamic, grid, large_lebs, nor, pattern, small_lebs, sub_pages};

#[test]
fn reads_of_odd_lengths_and_offsets_give_what_was_written() {
    for geometry in [small_lebs(72), large_lebs(72), sub_pages(72), nor(72)] {
        for config in grid() {
            let mut rig = Rig::blank(geometry, &config);
            let vol_id = rig.create(&dynamic("v", 3)).unwrap();
            let leb_bytes = rig.ubi().layout().leb_bytes as usize;
            let all = pattern(5, leb_bytes);
            rig.write(vol_id, 1, 0, &all).unwrap();
            let unit = rig.ubi().layout().min_io_bytes.max(64) as usize;
            for offset in [0, 1, 3, unit - 1, unit, unit + 1, leb_bytes / 2 + 1, leb_bytes - 1, leb_bytes] {
                for len in [0, 1, 2, 5, unit - 1, unit, unit + 1, leb_bytes] {
                    let len = len.min(leb_bytes - offset);
                    let found = rig.read(vol_id, 1, offset as u32, len).unwrap();
                    assert!(found == all[offset..offset + len], "{len} bytes at {offset}");
                    assert_eq!(rig.read(vol_id, 2, offset as u32, len).unwrap(), vec![0xff; len], "unmapped");
                }
            }
        }
    }
}

#[test]
fn writes_of_every_length_and_start_leave_the_rest_erased() {
    for geometry in [small_lebs(72), sub_pages(72), nor(72)] {
        let mut rig = Rig::blank(geometry, &Config::linux(Policy::LINUX_6_7));
        let vol_id = rig.create(&dynamic("v", 1)).unwrap();
        let leb_bytes = rig.ubi().layout().leb_bytes;
        let unit = rig.ubi().layout().min_io_bytes.max(1);
        let step = unit.max(331);
        for start in (0..leb_bytes).step_by(2 * step as usize) {
            for len in [unit, 3 * unit, (leb_bytes - start) / unit * unit] {
                let (start, len) = (start / unit * unit, len.min((leb_bytes - start) / unit * unit));
                rig.unmap(vol_id, 0).unwrap();
                rig.write(vol_id, 0, start, &pattern(len, len as usize)).unwrap();
                let mut expected = vec![0xff; leb_bytes as usize];
                expected[start as usize..][..len as usize].copy_from_slice(&pattern(len, len as usize));
                assert!(rig.read_leb(vol_id, 0).unwrap() == expected, "{len} bytes at {start}");
            }
        }
    }
}

#[test]
fn a_leb_is_not_read_written_or_mapped_out_of_bounds_or_unaligned() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&dynamic("v", 3)).unwrap();
        let leb_bytes = rig.ubi().layout().leb_bytes;
        for lnum in [3, 4, u32::MAX] {
            let none = LebError::NoSuchLeb { lnum: Lnum(lnum), lebs: 3 };
            assert_eq!(rig.read(vol_id, lnum, 0, 1), Err(none.clone()));
            assert_eq!(rig.write(vol_id, lnum, 0, &[0; 256]), Err(none.clone()));
            assert_eq!(rig.change(vol_id, lnum, &[0; 256]), Err(none.clone()));
            assert_eq!(rig.map(vol_id, lnum), Err(none.clone()));
            assert_eq!(rig.unmap(vol_id, lnum), Err(none));
            assert!(!rig.is_mapped(vol_id, lnum));
        }
        let outside = |offset, len| LebError::OutOfBounds { lnum: Lnum(1), offset, len };
        for (offset, len) in [(leb_bytes, 1), (leb_bytes + 1, 0), (0, leb_bytes + 1), (u32::MAX, 2), (1, leb_bytes)] {
            assert_eq!(rig.read(vol_id, 1, offset, len as usize), Err(outside(offset, len)));
        }
        for (offset, len) in [(1, 256), (128, 256), (0, 255), (0, 1), (0, 257), (leb_bytes, 256), (256, leb_bytes)] {
            assert_eq!(rig.write(vol_id, 1, offset, &vec![0; len as usize]), Err(outside(offset, len)));
        }
        for len in [1, 255, 257, leb_bytes + 256] {
            assert_eq!(rig.change(vol_id, 1, &vec![0; len as usize]), Err(outside(0, len)));
        }
        assert!(!rig.is_mapped(vol_id, 1), "nothing refused has mapped it");
        assert!(rig.run(|ubi, _| ubi.volume(VolId(5)).is_err()));
    }
}

#[test]
fn a_mapped_leb_reads_erased_and_is_not_mapped_twice() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&dynamic("v", 3)).unwrap();
        rig.write(vol_id, 0, 0, &pattern(1, 512)).unwrap();
        rig.unmap(vol_id, 0).unwrap();
        rig.unmap(vol_id, 0).unwrap();
        rig.map(vol_id, 0).unwrap();
        assert_eq!(rig.map(vol_id, 0), Err(LebError::Mapped { lnum: Lnum(0) }));
        rig.pull_plug();
        assert!(rig.is_mapped(vol_id, 0));
        assert_eq!(rig.read_leb(vol_id, 0).unwrap(), vec![0xff; 3584], "the old contents must not come back");
        assert_eq!(rig.map(vol_id, 0), Err(LebError::Mapped { lnum: Lnum(0) }));
        rig.write(vol_id, 0, 0, &[]).unwrap();
        rig.write(vol_id, 1, 0, &[]).unwrap();
        assert!(rig.is_mapped(vol_id, 1), "an empty write maps");
    }
}

#[test]
fn an_unmapped_leb_may_come_back_before_a_sync_and_not_after() {
    for config in grid() {
        for synced in [false, true] {
            let mut rig = Rig::blank(small_lebs(72), &config);
            let vol_id = rig.create(&dynamic("v", 2)).unwrap();
            rig.write(vol_id, 0, 0, &pattern(1, 512)).unwrap();
            rig.reattach();
            rig.unmap(vol_id, 0).unwrap();
            if synced {
                rig.sync(vol_id).unwrap();
            }
            // By a scan, which sees what is on the flash.
            rig.config.fastmap = false;
            rig.pull_plug();
            let came_back = rig.read(vol_id, 0, 0, 512).unwrap() == pattern(1, 512);
            assert_eq!((came_back, rig.is_mapped(vol_id, 0)), (!synced, !synced), "{config:?}");
        }
    }
}

#[test]
fn a_leb_unmapped_after_the_fastmap_was_written_can_be_written_and_mapped_again() {
    for config in grid() {
        for map in [false, true] {
            let mut rig = Rig::blank(small_lebs(72), &config);
            let vol_id = rig.create(&dynamic("v", 2)).unwrap();
            rig.write(vol_id, 0, 0, &pattern(1, 512)).unwrap();
            rig.reattach();
            rig.unmap(vol_id, 0).unwrap();
            rig.sync(vol_id).unwrap();
            rig.pull_plug();
            // The fastmap says that the LEB is where it was; that PEB is erased.
            if map {
                rig.map(vol_id, 0).unwrap();
            }
            rig.write(vol_id, 0, 0, &pattern(2, 512)).unwrap();
            for fastmap in [true, false] {
                rig.config.fastmap = fastmap && config.fastmap;
                rig.pull_plug();
                assert_eq!(rig.read(vol_id, 0, 0, 512).unwrap(), pattern(2, 512), "{config:?}");
            }
        }
    }
}

#[test]
fn an_atomic_change_replaces_everything_whatever_its_length() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(72), &config);
        let vol_id = rig.create(&dynamic("v", 2)).unwrap();
        let leb_bytes = rig.ubi().layout().leb_bytes as usize;
        for (round, len) in [leb_bytes, 256, 0, 512, leb_bytes - 256, leb_bytes, 0].into_iter().enumerate() {
            let mut expected = pattern(round as u32, len);
            rig.change(vol_id, 1, &expected).unwrap();
            expected.resize(leb_bytes, 0xff);
            assert!(rig.read_leb(vol_id, 1).unwrap() == expected, "{len} bytes");
            rig.pull_plug();
            assert!(rig.read_leb(vol_id, 1).unwrap() == expected, "{len} bytes, after a cut");
            assert!(rig.is_mapped(vol_id, 1));
        }
    }
}

#[test]
fn a_full_volume_can_be_changed_for_ever() {
    for config in grid() {
        for geometry in [small_lebs(72), large_lebs(72)] {
            let mut rig = Rig::blank(geometry, &config);
            let lebs = rig.ubi().available_pebs();
            let vol_id = rig.create(&dynamic("full", lebs)).unwrap();
            let mut last = vec![0; lebs as usize];
            for round in 0..6 * lebs {
                let lnum = round * 7 % lebs;
                rig.change(vol_id, lnum, &pattern(round, 512)).unwrap_or_else(|e| panic!("{round}: {e}, {config:?}"));
                last[lnum as usize] = round;
                if round % 3 == 0 {
                    rig.step().unwrap();
                }
            }
            rig.reattach();
            for (lnum, round) in (0..).zip(last).filter(|&(_, round)| round > 0) {
                assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), pattern(round, 512), "{config:?}");
            }
        }
    }
}

#[test]
fn both_copies_of_the_volume_table_are_one_and_a_damaged_one_is_repaired() {
    use crate::media::{LAYOUT, peb_bytes, peb_of, rewrite};
    for config in grid() {
        for damaged in 0..2 {
            let mut rig = Rig::blank(small_lebs(72), &config);
            let vol_id = rig.create(&dynamic("v", 2)).unwrap();
            rig.write(vol_id, 0, 0, &pattern(1, 512)).unwrap();
            let mut flash = rig.detach();
            let data = rig_layout_data(&mut flash);
            assert_eq!(data[0], data[1]);
            let peb = peb_of(&mut flash, LAYOUT, damaged);
            rewrite(&mut flash, peb, |bytes| bytes[512 + 40] ^= 0xff);
            let mut rig = Rig::attach(flash, &config);
            assert_eq!(rig.names(), [(0, "v".to_owned())], "copy {damaged} was damaged");
            assert_eq!(rig.read(vol_id, 0, 0, 512).unwrap(), pattern(1, 512));
            let mut flash = rig.detach();
            let repaired = rig_layout_data(&mut flash);
            assert_eq!(repaired, data);
        }
    }

    fn rig_layout_data<F: sim::seam::Flash>(flash: &mut F) -> [Vec<u8>; 2] {
        [0, 1].map(|lnum| {
            let peb = peb_of(flash, LAYOUT, lnum);
            peb_bytes(flash, peb)[512..].to_vec()
        })
    }
}

/// What an erasure waits for is the block of its LEB and no other. The old contents are gone for good, those of a LEB that was only
/// unmapped may return.
#[test]
fn an_erased_leb_stays_erased_and_other_works_wait() {
    for geometry in [small_lebs(72), sub_pages(72), nor(72)] {
        for config in grid() {
            let mut rig = Rig::blank(geometry, &config);
            let vol_id = rig.create(&dynamic("v", 4)).unwrap();
            while rig.step().unwrap() != Background::Idle {}
            let unit = rig.ubi().layout().min_io_bytes.max(64) as usize;
            for lnum in 0..3 {
                rig.write(vol_id, lnum, 0, &pattern(lnum, unit)).unwrap();
            }
            rig.unmap(vol_id, 0).unwrap();
            let (works, erases) = (rig.ubi().wear().works().len(), rig.ubi().stats().erases);
            let done = rig.run(|ubi, cx| ubi.volume(vol_id).unwrap().erase(cx, Lnum(1)));
            done.unwrap();
            assert!(!rig.is_mapped(vol_id, 1));
            assert_eq!((rig.ubi().wear().works().len(), rig.ubi().stats().erases), (works, erases + 1), "{config:?}");
            // One that is not mapped is erased already.
            rig.run(|ubi, cx| ubi.volume(vol_id).unwrap().erase(cx, Lnum(3))).unwrap();
            assert_eq!(rig.ubi().stats().erases, erases + 1);
            let none = LebError::NoSuchLeb { lnum: Lnum(4), lebs: 4 };
            assert_eq!(rig.run(|ubi, cx| ubi.volume(vol_id).unwrap().erase(cx, Lnum(4))), Err(none));
            rig.pull_plug();
            assert_eq!(rig.read(vol_id, 0, 0, unit).unwrap(), pattern(0, unit), "nobody erased it");
            assert_eq!(rig.read(vol_id, 1, 0, unit).unwrap(), vec![0xff; unit]);
            assert_eq!(rig.read(vol_id, 2, 0, unit).unwrap(), pattern(2, unit));
        }
    }
}
