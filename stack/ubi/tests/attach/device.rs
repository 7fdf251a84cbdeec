//! The device that is made of what attach found: whether it may be written, and what is reserved. The flash here refuses
//! every program and erase with a panic.

use sim::Cx;
use sim::seam::{LebVolume, Payload};
use sim::{Lnum, VolId};
use ubi::media::VolType;
use ubi::wl::PebState;
use ubi::{Background, Config, Policy, Ubi, UbiError, VolumeRequest, VolumeSize};

use crate::support::{Image, TestFlash, dynamic, internal, lab, lab_with_fastmap, record};

fn config(fastmap: bool) -> Config {
    Config { fastmap, ..Config::linux(Policy::LINUX_6_7) }
}

fn device(image: &Image, config: &Config) -> (Ubi<TestFlash>, Cx) {
    let mut cx = Cx::new();
    let ubi = Ubi::attach(image.flash(), &mut cx, config).map_err(|failure| failure.error).unwrap();
    ubi.check();
    (ubi, cx)
}

/// Nothing is done on a read-only device, whoever asks.
fn nothing_is_written(mut ubi: Ubi<TestFlash>, cx: &mut Cx) {
    let why = ubi.read_only().expect("read-only");
    let refused = |outcome: Result<(), UbiError>| assert_eq!(outcome, Err(UbiError::ReadOnly { why }));
    refused(ubi.create_volume(cx, &VolumeRequest::dynamic("x", VolumeSize::Lebs(1))).map(drop));
    refused(ubi.remove_volume(cx, VolId(0)));
    refused(ubi.resize_volume(cx, VolId(0), 50));
    refused(ubi.resize_volume(cx, VolId(0), 10));
    refused(ubi.rename_volumes(cx, &[(VolId(0), "y")]));
    refused(ubi.begin_update(cx, VolId(1), 10));
    refused(ubi.update_leb(cx, VolId(1), Lnum(0), Payload::Bytes(&[0; 10]), 10));
    refused(ubi.end_update(cx, VolId(1), 10));
    refused(ubi.update_volume(cx, VolId(1), &[1]));
    let mut volume = ubi.volume(VolId(0)).unwrap();
    let read_only = |lnum| Err(sim::seam::LebError::ReadOnly { lnum: Lnum(lnum), why });
    assert_eq!(volume.write(cx, Lnum(31), 0, Payload::Bytes(&[0; 512])), read_only(31));
    assert_eq!(volume.change(cx, Lnum(1), Payload::Bytes(&[0; 512])), read_only(1));
    assert_eq!(volume.unmap(cx, Lnum(1)), read_only(1));
    assert_eq!(volume.map(cx, Lnum(32)), read_only(32));
    let mut data = [0; 600];
    volume.read(cx, Lnum(5), 0, &mut data).unwrap();
    assert_eq!(data, [5; 600]);
    assert!(!ubi.has_background_work());
    assert_eq!(ubi.step_background(cx), Ok(Background::Idle));
    ubi.flush(cx).unwrap();
    let (_, outcome) = ubi.detach(cx);
    outcome.unwrap();
}

#[test]
fn an_unknown_volume_that_asks_for_it_makes_the_device_read_only() {
    for fastmap in [false, true] {
        let mut image = lab(128);
        // Two PEBs wait to be erased, and a read of a LEB needs correction.
        image.spoil(90, 0);
        image.vid(91, dynamic(0, 3, 3));
        image.tired.insert((75, image.pages()[1]));
        let (ubi, _) = device(&image, &Config { wl_threshold: 1000, ..config(false) });
        assert!(ubi.read_only().is_none() && ubi.has_background_work());
        image.vid(60, internal(0x7fff_f555, 0, 2, 200));
        let (ubi, mut cx) = device(&image, &config(fastmap));
        assert_eq!(ubi.read_only(), Some("an unknown internal volume requires it"));
        assert_eq!(ubi.wear().state(sim::Peb(60)), PebState::Kept);
        assert!(!ubi.wear().works().is_empty(), "the work is known, and not done");
        nothing_is_written(ubi, &mut cx);
    }
}

#[test]
fn a_device_without_sequence_numbers_left_is_read_only() {
    let last = u64::MAX - u64::from(u32::MAX);
    for (sqnum, read_only) in [(last - 1, false), (last, true), (u64::MAX - 1, true), (u64::MAX, true)] {
        let mut image = lab(128);
        image.vid(95, dynamic(0, 30, sqnum));
        let (ubi, mut cx) = device(&image, &config(false));
        assert_eq!(ubi.read_only().is_some(), read_only, "{sqnum:#x}");
        if read_only {
            nothing_is_written(ubi, &mut cx);
        }
    }
}

/// Of the good PEBs 4 are for UBI, and the reserve for bad blocks gets what volumes leave, at most its limit: of 128 PEBs 3
/// (20 in 1,024, rounded up), and of a chip of 1,024 20.
#[test]
fn what_volumes_leave_is_reserved_for_bad_blocks_first() {
    for chip_pebs in [None, Some(1024)] {
        let limit = if chip_pebs.is_some() { 20 } else { 3 };
        for left in [0, 1, 2, 3, 4, 19, 20, 21, 40] {
            let mut image = Image::formatted(crate::support::geometry(128));
            let records = [(0, record("data", VolType::Dynamic, 128 - 4 - left))];
            image.table_copy(2, 0, 1, &records);
            image.table_copy(3, 1, 2, &records);
            let (ubi, _) = device(&image, &Config { chip_pebs, ..config(false) });
            let reserved = left.min(limit);
            assert_eq!((ubi.beb_reserved(), ubi.available_pebs()), (reserved, left - reserved), "{left} left");
            let told = format!("{left} PEBs are left for bad-block handling, {limit} are wanted");
            assert_eq!(ubi.notes().contains(&told), left < limit, "{:?}", ubi.notes());
        }
        let mut image = Image::formatted(crate::support::geometry(128));
        let records = [(0, record("data", VolType::Dynamic, 125))];
        image.table_copy(2, 0, 1, &records);
        image.table_copy(3, 1, 2, &records);
        let failure = Ubi::attach(image.flash(), &mut Cx::new(), &config(false)).map(drop).map_err(|f| f.error);
        assert_eq!(failure, Err(ubi::attach::AttachError::NoSpace { need: 129, have: 128 }));
    }
}

/// With a fastmap, twice its PEBs are reserved, and the user pool's maximum on demand: of 128 PEBs a fastmap takes one, and the
/// user pool eight.
#[test]
fn a_fastmap_and_its_pools_are_reserved_too() {
    let (image, _) = lab_with_fastmap();
    let available = |fastmap, fastmap_reserve_pools| {
        let (ubi, _) = device(&image, &Config { fastmap_reserve_pools, beb_per_1024: 0, ..config(fastmap) });
        ubi.available_pebs()
    };
    // 127 good PEBs, 48 for volumes, 4 for UBI.
    assert_eq!(available(true, false), 127 - 48 - 4 - 2);
    assert_eq!(available(true, true), 127 - 48 - 4 - 2 - 8);
}
