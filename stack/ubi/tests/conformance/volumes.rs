//! Volumes are created, removed, grown, shrunk and renamed; every bad argument is refused and changes nothing.

use sim::VolId;
use sim::seam::RamFlash;
use ubi::media::{VolType, VtblRecord};
use ubi::{Config, UbiError, VolumeInfo, VolumeRequest, VolumeSize};

use crate::rig::{Rig, dynamic, fixed, grid, is_bad, large_lebs, pattern, small_lebs};

const PEBS: u32 = 96;

/// State that a refused operation must not change.
fn books(rig: &Rig<RamFlash>) -> (Vec<VolumeInfo>, u32) {
    (rig.ubi().volume_infos().collect(), rig.ubi().available_pebs())
}

fn each_config(test: impl Fn(&mut Rig<RamFlash>)) {
    for config in grid() {
        test(&mut Rig::blank(small_lebs(PEBS), &config));
    }
}

#[test]
fn a_volume_is_not_created_from_a_bad_argument() {
    each_config(|rig| {
        let taken = rig.create(&VolumeRequest { vol_id: Some(VolId(3)), ..dynamic("taken", 2) }).unwrap();
        let before = books(rig);
        let good = dynamic("good", 1);
        let leb_bytes = rig.ubi().layout().leb_bytes;
        let unit = rig.ubi().layout().min_io_bytes;
        for vol_id in [20, 128, u32::MAX, ubi::media::LAYOUT_VOLUME_ID] {
            is_bad(rig.create(&VolumeRequest { vol_id: Some(VolId(vol_id)), ..good.clone() }), "vol_id");
        }
        let exists = rig.create(&VolumeRequest { vol_id: Some(taken), ..good.clone() });
        assert_eq!(exists, Err(UbiError::VolumeExists(taken)));
        for alignment in [0, 3, unit - 1, unit + 1, unit * 2 + 2, leb_bytes + 1, leb_bytes + unit, u32::MAX] {
            is_bad(rig.create(&VolumeRequest { alignment, ..good.clone() }), "alignment");
        }
        for name in ["", "a\0b", "\0", &"x".repeat(128)] {
            is_bad(rig.create(&VolumeRequest { name: name.to_owned(), ..good.clone() }), "name");
        }
        let doubled = rig.create(&VolumeRequest { name: "taken".to_owned(), ..good.clone() });
        assert_eq!(doubled, Err(UbiError::NameExists { name: "taken".to_owned(), vol_id: taken }));
        for size in [VolumeSize::Bytes(0), VolumeSize::Lebs(0)] {
            is_bad(rig.create(&VolumeRequest { size, ..good.clone() }), "size");
        }
        is_bad(rig.create(&VolumeRequest { skip_check: true, ..good.clone() }), "skip-check");
        let available = rig.ubi().available_pebs();
        let bytes = u64::from(available) * u64::from(leb_bytes);
        for size in [VolumeSize::Lebs(available + 1), VolumeSize::Bytes(bytes + 1), VolumeSize::Bytes(u64::MAX)] {
            let refused = rig.create(&VolumeRequest { size, ..good.clone() });
            assert!(matches!(refused, Err(UbiError::NoSpace { .. })), "{size:?}: {refused:?}");
        }
        assert_eq!(books(rig), before);
        rig.reattach();
        assert_eq!(books(rig), before);
    });
}

#[test]
fn a_volume_of_every_alignment_has_usable_bytes_that_are_a_multiple_of_it() {
    each_config(|rig| {
        let (leb_bytes, unit) = (rig.ubi().layout().leb_bytes, rig.ubi().layout().min_io_bytes);
        for alignment in [1, unit, 2 * unit, 3 * unit, leb_bytes / 2 / unit * unit, leb_bytes - unit, leb_bytes] {
            for vol_type in [VolType::Dynamic, VolType::Static] {
                let request = VolumeRequest { alignment, vol_type, ..dynamic("aligned", 3) };
                let vol_id = rig.create(&request).unwrap();
                let usable = rig.info(vol_id).leb_bytes;
                assert_eq!((usable % alignment, usable), (0, leb_bytes - leb_bytes % alignment));
                let data = pattern(alignment, usable as usize * 2 + 5);
                rig.update(vol_id, &data).unwrap();
                rig.reattach();
                assert_eq!(rig.info(vol_id).leb_bytes, usable);
                rig.open(vol_id).unwrap();
                assert!(rig.contents(vol_id, data.len()).unwrap() == data, "alignment {alignment}");
                rig.remove(vol_id).unwrap();
            }
        }
    });
}

#[test]
fn a_size_in_bytes_takes_as_many_lebs_as_hold_it() {
    each_config(|rig| {
        let leb_bytes = u64::from(rig.ubi().layout().leb_bytes);
        for (bytes, lebs) in [(1, 1), (leb_bytes - 1, 1), (leb_bytes, 1), (leb_bytes + 1, 2), (3 * leb_bytes, 3)] {
            let request = VolumeRequest::dynamic("sized", VolumeSize::Bytes(bytes));
            let vol_id = rig.create(&request).unwrap();
            assert_eq!(rig.info(vol_id).record.reserved_pebs, lebs, "{bytes} bytes");
            rig.remove(vol_id).unwrap();
        }
    });
}

#[test]
fn the_largest_volume_takes_everything_and_gives_everything_back() {
    each_config(|rig| {
        let available = rig.ubi().available_pebs();
        for _ in 0..3 {
            let vol_id = rig.create(&VolumeRequest::dynamic("all", VolumeSize::Max)).unwrap();
            assert_eq!((rig.info(vol_id).record.reserved_pebs, rig.ubi().available_pebs()), (available, 0));
            let more = rig.create(&dynamic("more", 1));
            assert_eq!(more, Err(UbiError::NoSpace { need: 1, available: 0 }));
            is_bad(rig.create(&VolumeRequest::dynamic("none", VolumeSize::Max)), "size");
            for lnum in 0..available {
                rig.write(vol_id, lnum, 0, &pattern(lnum, 256)).unwrap();
            }
            rig.remove(vol_id).unwrap();
            assert_eq!(rig.ubi().available_pebs(), available);
        }
        rig.reattach();
        assert_eq!(rig.ubi().available_pebs(), available);
    });
}

#[test]
fn as_many_volumes_as_the_table_has_slots_can_be_created_and_each_keeps_its_contents() {
    each_config(|rig| {
        let slots = 20;
        for slot in 0..slots {
            let name = format!("volume-{slot}");
            let request = if slot % 2 == 0 { dynamic(&name, 1) } else { fixed(&name, 1) };
            assert_eq!(rig.create(&request), Ok(VolId(slot)), "the lowest free number");
            rig.update(VolId(slot), &pattern(slot, 300)).unwrap();
        }
        assert_eq!(rig.create(&dynamic("one too many", 1)), Err(UbiError::NoFreeVolumeId(slots)));
        rig.reattach();
        for slot in 0..slots {
            assert_eq!(rig.contents(VolId(slot), 300).unwrap(), pattern(slot, 300));
        }
        rig.remove(VolId(7)).unwrap();
        assert_eq!(rig.create(&dynamic("again", 1)), Ok(VolId(7)));
        assert_eq!(rig.read_leb(VolId(7), 0).unwrap(), vec![0xff; 3584], "nothing of the removed volume");
    });
}

#[test]
fn names_of_any_length_up_to_127_bytes_survive() {
    each_config(|rig| {
        for len in [1, 126, 127] {
            let name = "n".repeat(len);
            let vol_id = rig.create(&dynamic(&name, 1)).unwrap();
            rig.pull_plug();
            assert_eq!(rig.ubi().find_volume(&name), Some(vol_id));
            rig.remove(vol_id).unwrap();
        }
    });
}

#[test]
fn a_removed_volume_stays_removed_and_its_lebs_are_erased() {
    each_config(|rig| {
        let keep = rig.create(&dynamic("keep", 2)).unwrap();
        let gone = rig.create(&dynamic("gone", 5)).unwrap();
        for lnum in 0..5 {
            rig.write(gone, lnum, 0, &pattern(lnum, 512)).unwrap();
        }
        rig.write(keep, 1, 0, &pattern(9, 512)).unwrap();
        rig.remove(gone).unwrap();
        assert_eq!(rig.remove(gone), Err(UbiError::NoSuchVolume(gone)));
        for vol_id in [19, 20, u32::MAX].map(VolId) {
            assert_eq!(rig.remove(vol_id), Err(UbiError::NoSuchVolume(vol_id)));
        }
        rig.pull_plug();
        assert_eq!(rig.names(), [(keep.0, "keep".to_owned())]);
        assert_eq!(rig.read(keep, 1, 0, 512).unwrap(), pattern(9, 512));
        assert_eq!(rig.create(&dynamic("gone", 5)), Ok(gone));
        for lnum in 0..5 {
            assert!(!rig.is_mapped(gone, lnum), "a LEB of the volume before it");
        }
    });
}

#[test]
fn a_volume_is_not_resized_to_a_bad_size() {
    each_config(|rig| {
        let vol_id = rig.create(&dynamic("sized", 4)).unwrap();
        let still = rig.create(&fixed("static", 4)).unwrap();
        rig.update(still, &pattern(1, 3584 * 2 + 1)).unwrap();
        let before = books(rig);
        is_bad(rig.resize(vol_id, 0), "size");
        is_bad(rig.resize(still, 0), "size");
        is_bad(rig.resize(still, 2), "size");
        let available = rig.ubi().available_pebs();
        let expected = Err(UbiError::NoSpace { need: available + 1, available });
        assert_eq!(rig.resize(vol_id, 4 + available + 1), expected);
        assert!(matches!(rig.resize(vol_id, u32::MAX), Err(UbiError::NoSpace { .. })));
        assert_eq!(rig.resize(VolId(9), 1), Err(UbiError::NoSuchVolume(VolId(9))));
        assert_eq!(books(rig), before);
        rig.resize(still, 3).unwrap();
        rig.reattach();
        assert_eq!(rig.contents(still, 3584 * 2 + 1).unwrap(), pattern(1, 3584 * 2 + 1));
    });
}

#[test]
fn resizing_keeps_the_lebs_that_stay_and_loses_the_others() {
    each_config(|rig| {
        let vol_id = rig.create(&dynamic("sized", 6)).unwrap();
        let available = rig.ubi().available_pebs();
        for lnum in 0..6 {
            rig.write(vol_id, lnum, 0, &pattern(lnum, 512)).unwrap();
        }
        rig.resize(vol_id, 3).unwrap();
        assert_eq!(rig.ubi().available_pebs(), available + 3);
        assert!(rig.read(vol_id, 3, 0, 1).is_err(), "beyond the end");
        rig.sync(vol_id).unwrap();
        rig.resize(vol_id, 6 + available).unwrap();
        assert_eq!(rig.ubi().available_pebs(), 0);
        rig.pull_plug();
        for lnum in 0..6 + available {
            let expected = if lnum < 3 { pattern(lnum, 512) } else { vec![0xff; 512] };
            assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), expected, "LEB {lnum}");
        }
        let same = books(rig);
        rig.resize(vol_id, 6 + available).unwrap();
        assert_eq!(books(rig), same, "the same size again");
    });
}

#[test]
fn names_are_exchanged_and_a_bearer_that_is_in_the_way_is_removed() {
    each_config(|rig| {
        let [a, b, c] = ["a", "b", "c"].map(|name| rig.create(&dynamic(name, 2)).unwrap());
        for vol_id in [a, b, c] {
            rig.write(vol_id, 0, 0, &pattern(vol_id.0, 256)).unwrap();
        }
        rig.rename(&[(a, "b"), (b, "c"), (c, "a")]).unwrap();
        rig.pull_plug();
        let names = |list: &[(VolId, &str)]| list.iter().map(|&(v, n)| (v.0, n.to_owned())).collect::<Vec<_>>();
        assert_eq!(rig.names(), names(&[(a, "b"), (b, "c"), (c, "a")]));
        let available = rig.ubi().available_pebs();
        rig.rename(&[(a, "c")]).unwrap();
        assert_eq!(rig.ubi().available_pebs(), available + 2);
        rig.rename(&[(a, "c")]).unwrap();
        rig.reattach();
        assert_eq!(rig.names(), names(&[(a, "c"), (c, "a")]));
        assert_eq!(rig.read(a, 0, 0, 256).unwrap(), pattern(a.0, 256));
        assert_eq!(rig.read(c, 0, 0, 256).unwrap(), pattern(c.0, 256));
    });
}

#[test]
fn a_volume_is_not_renamed_by_a_bad_request() {
    each_config(|rig| {
        let [a, b] = ["a", "b"].map(|name| rig.create(&dynamic(name, 2)).unwrap());
        let before = books(rig);
        let long = "y".repeat(128);
        for name in ["", "a\0", &long] {
            is_bad(rig.rename(&[(a, name)]), "name");
            is_bad(rig.rename(&[(b, "fine"), (a, name)]), "name");
        }
        is_bad(rig.rename(&[(a, "x"), (b, "x")]), "rename");
        is_bad(rig.rename(&[(a, "x"), (a, "y")]), "rename");
        let missing = VolId(11);
        assert_eq!(rig.rename(&[(a, "x"), (missing, "z")]), Err(UbiError::NoSuchVolume(missing)));
        assert_eq!(books(rig), before);
    });
}

#[test]
fn an_autoresize_volume_takes_what_is_left_at_its_first_attach_only() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(PEBS), &config);
        let vol_id = rig.create(&dynamic("grows", 3)).unwrap();
        let available = rig.ubi().available_pebs();
        let mut flash = rig.detach();
        crate::media::edit_record(&mut flash, vol_id, |record| record.flags |= VtblRecord::AUTORESIZE);
        // Attached by a scan: the fastmap does not have the edited table.
        let mut rig = Rig::attach(flash, &config);
        let expect = |rig: &Rig<RamFlash>, lebs: u32, what: &str| {
            let record = rig.info(vol_id).record;
            assert_eq!((record.reserved_pebs, record.flags), (lebs, 0), "{what}, {config:?}");
        };
        expect(&rig, 3 + available, "first attach");
        assert_eq!(rig.ubi().available_pebs(), 0);
        rig.resize(vol_id, 4).unwrap();
        rig.reattach();
        expect(&rig, 4, "second attach");
    }
}

/// Linux's `autoresize`: where no PEB is available the flag is cleared on flash all the same.
#[test]
fn an_autoresize_volume_that_finds_nothing_left_grows_at_no_later_attach_either() {
    for config in grid() {
        let mut rig = Rig::blank(small_lebs(PEBS), &config);
        let vol_id = rig.create(&dynamic("grows", 3)).unwrap();
        let rest = rig.ubi().available_pebs();
        rig.create(&dynamic("rest", rest)).unwrap();
        let mut flash = rig.detach();
        crate::media::edit_record(&mut flash, vol_id, |record| record.flags |= VtblRecord::AUTORESIZE);
        let rig = Rig::attach(flash, &config);
        assert_eq!((rig.info(vol_id).record.reserved_pebs, rig.ubi().available_pebs()), (3, 0));
        let mut flash = rig.detach();
        crate::media::edit_record(&mut flash, vol_id, |record| assert_eq!(record.flags, 0, "{config:?}"));
    }
}

#[test]
fn the_smallest_legal_device_works_and_one_peb_less_is_refused() {
    for config in grid() {
        for geometry in [small_lebs as fn(u32) -> _, large_lebs] {
            let config = Config { beb_per_1024: 0, ..config.clone() };
            let attach = |pebs| Rig::try_attach(RamFlash::new(geometry(pebs)), &config);
            let least = (1..64).find(|&pebs| attach(pebs).is_ok()).expect("some size is enough");
            assert_eq!(attach(least).unwrap().ubi().available_pebs(), 0, "the least device has room for no volume");
            let mut rig = attach(least + 1).unwrap();
            let vol_id = rig.create(&dynamic("one", 1)).unwrap();
            for round in 0..60 {
                rig.change(vol_id, 0, &pattern(round, 1024)).unwrap();
                if round % 7 == 0 {
                    rig.pull_plug();
                }
                assert_eq!(rig.read(vol_id, 0, 0, 1024).unwrap(), pattern(round, 1024), "{least} PEBs, {config:?}");
            }
            rig.reattach();
            assert_eq!(rig.read(vol_id, 0, 0, 1024).unwrap(), pattern(59, 1024));
        }
    }
}

/// What a volume lost when it shrank is gone, even if it grows again before anything is erased and power fails then.
#[test]
fn lebs_that_were_cut_off_are_empty_when_the_volume_grows_again() {
    each_config(|rig| {
        let vol_id = rig.create(&dynamic("v", 8)).unwrap();
        for (turn, keeps) in (0..).zip([3, 7, 1, 4]) {
            (0..8).for_each(|lnum| rig.change(vol_id, lnum, &pattern(10 * turn + lnum, 512)).unwrap());
            rig.resize(vol_id, keeps).unwrap();
            rig.resize(vol_id, 8).unwrap();
            rig.pull_plug();
            for lnum in 0..8 {
                let expected = if lnum < keeps { pattern(10 * turn + lnum, 512) } else { vec![0xff; 512] };
                assert_eq!(rig.read(vol_id, lnum, 0, 512).unwrap(), expected, "LEB {lnum} of {keeps}");
                assert_eq!(rig.is_mapped(vol_id, lnum), lnum < keeps, "LEB {lnum} of {keeps}");
            }
        }
    });
}
