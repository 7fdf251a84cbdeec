//! What each kind of request does to the volume, call by call.

use sim::seam::{BlockDevice, BlockError, BlockRequest, FlashError, LebError, Payload, RamVolume};
use sim::{Cx, Lnum, Ns, Peb};
use ubi::block::{Because, BlockConfig, Form, OnUbi, UbiBlock};
use ubi::media::VolType;
use ubi::{Ubi, UbiError, VolumeRequest, VolumeSize};

use crate::rig::Call::{Change, Read, Unmap, Write};
use crate::rig::{Host, NAND, Noted, SECTOR, WRITING, attach_again, block, pattern, plain, without_fastmap};

/// Four LEBs of four sectors, each mapped and at version 1, and nothing cached.
fn host(form: Form, cache_lebs: u32) -> Host<Noted> {
    let mut host = Host::new(Noted::new(4, 2048), block(Form::Atomic, 1));
    host.write(1, 0, 16).unwrap();
    let (mut volume, closed) = host.device.close(host.now);
    closed.unwrap();
    volume.heard();
    Host::new(volume, block(form, cache_lebs))
}

fn heard(host: &mut Host<Noted>) -> Vec<crate::rig::Call> {
    host.device.volume_mut().heard()
}

#[test]
fn each_form_writes_back_in_its_own_order() {
    let after = |form| {
        let mut host = host(form, 1);
        host.write(2, 1, 1).unwrap();
        let cached = heard(&mut host);
        host.write(3, 2, 1).unwrap();
        assert_eq!(heard(&mut host), [], "the LEB is in the cache");
        host.write(2, 4, 1).unwrap();
        (cached, heard(&mut host))
    };
    let load = Read(0, 0, 2048);
    let next = Read(1, 0, 2048);
    assert_eq!(after(Form::Atomic), (vec![load], vec![Change(0), next]));
    assert_eq!(after(Form::V2Like), (vec![load], vec![Unmap(0), Write(0), next]));
    assert_eq!(after(Form::UnmapFirst), (vec![load, Unmap(0)], vec![Write(0), next, Unmap(1)]));
}

#[test]
fn a_write_of_a_whole_leb_reads_nothing() {
    for form in WRITING {
        let mut host = host(form, 2);
        host.write(2, 0, 8).unwrap();
        host.flush().unwrap();
        assert!(!heard(&mut host).iter().any(|call| matches!(call, Read(..))), "{form:?}");
        assert_eq!((host.device.stats().whole_lebs, host.device.stats().loads), (2, 0));
        assert_eq!(host.read(0, 16).unwrap(), [pattern(2, 0, 8), pattern(1, 8, 8)].concat());
    }
}

#[test]
fn a_read_of_a_cached_leb_touches_no_flash_and_one_of_another_reads_what_is_asked_for() {
    let mut host = host(Form::Atomic, 1);
    host.write(2, 3, 1).unwrap();
    heard(&mut host);
    assert_eq!(host.read(3, 2).unwrap(), [pattern(2, 3, 1), pattern(1, 4, 1)].concat());
    assert_eq!(heard(&mut host), [Read(1, 0, 512)]);
    assert_eq!((host.device.stats().read_hits, host.device.stats().read_misses), (1, 1));
    assert_eq!(host.device.dirty_lebs(), 1, "a read makes no LEB leave");
}

#[test]
fn the_leb_not_read_or_written_for_longest_leaves_the_cache() {
    let mut host = host(Form::Atomic, 2);
    host.write(2, 0, 1).unwrap();
    host.write(2, 4, 1).unwrap();
    host.read(0, 1).unwrap();
    heard(&mut host);
    host.write(2, 8, 1).unwrap();
    assert_eq!(heard(&mut host), [Change(1), Read(2, 0, 2048)]);
    host.write(2, 12, 1).unwrap();
    assert_eq!(heard(&mut host), [Change(0), Read(3, 0, 2048)]);
}

#[test]
fn a_flush_writes_dirty_lebs_back_from_the_lowest_on_and_they_stay() {
    let mut host = host(Form::Atomic, 3);
    for sector in [12, 4, 8] {
        host.write(2, sector, 1).unwrap();
    }
    heard(&mut host);
    host.flush().unwrap();
    assert_eq!(heard(&mut host), [Change(1), Change(2), Change(3)]);
    host.flush().unwrap();
    host.read(12, 1).unwrap();
    assert_eq!(heard(&mut host), [], "nothing is dirty, and LEB 3 is still cached");
    assert_eq!(host.device.stats().written_back(Because::Flushed), 3);
}

#[test]
fn a_clean_leb_that_is_written_again_is_unmapped_again_by_unmap_first() {
    let mut host = host(Form::UnmapFirst, 1);
    host.write(2, 0, 1).unwrap();
    host.flush().unwrap();
    heard(&mut host);
    host.write(3, 1, 1).unwrap();
    host.write(3, 2, 1).unwrap();
    assert_eq!(heard(&mut host), [Unmap(0)]);
}

#[test]
fn a_forced_write_is_on_flash_when_it_completes_and_others_need_not_be() {
    for form in WRITING {
        let mut host = host(form, 2);
        host.write(2, 0, 1).unwrap();
        let fua = BlockRequest { fua: true, ..BlockRequest::write(4, 1) };
        host.ask(fua, &pattern(3, 4, 1)).result.unwrap();
        assert_eq!(host.device.dirty_lebs(), 1, "{form:?}");
        assert_eq!(host.device.stats().written_back(Because::Forced), 1);
        let volume = host.device.into_volume();
        let mut host = Host::new(volume, block(form, 1));
        assert_eq!(host.read(4, 1).unwrap(), pattern(3, 4, 1));
    }
}

#[test]
fn a_discard_unmaps_the_lebs_that_it_covers_and_leaves_the_others() {
    for form in WRITING {
        let mut host = host(form, 2);
        host.write(2, 4, 1).unwrap();
        heard(&mut host);
        // LEB 0 in part, LEB 1 (dirty) and 2 whole, LEB 3 in part.
        host.trim(1, 12).unwrap();
        let unmapped = if form == Form::UnmapFirst { vec![Unmap(2)] } else { vec![Unmap(1), Unmap(2)] };
        assert_eq!((heard(&mut host), host.device.dirty_lebs()), (unmapped, 0), "{form:?}");
        let blank = vec![0xff; 8 * SECTOR];
        assert_eq!(host.read(0, 16).unwrap(), [pattern(1, 0, 4), blank, pattern(1, 12, 4)].concat());
        assert_eq!(host.device.stats().discarded, 2);
        host.trim(4, 8).unwrap();
        assert_eq!(host.device.stats().discarded, 2, "they are unmapped already");
    }
}

#[test]
fn without_discard_a_discard_does_nothing() {
    let mut host = host(Form::Atomic, 1);
    let volume = host.device.volume().clone();
    host = Host::new(volume, BlockConfig { discard: false, ..block(Form::Atomic, 1) });
    host.trim(0, 16).unwrap();
    assert_eq!(heard(&mut host), []);
}

#[test]
fn a_discard_up_to_the_last_sector_covers_the_bytes_that_no_sector_addresses() {
    // Three LEBs of 1280 bytes are 7.5 sectors.
    let mut host = Host::new(Noted::new(3, 1280), block(Form::Atomic, 1));
    assert_eq!(host.device.sectors(), 7);
    host.write(1, 0, 7).unwrap();
    host.flush().unwrap();
    heard(&mut host);
    // Sector 5 begins at byte 2560, where LEB 2 begins.
    host.trim(5, 2).unwrap();
    assert_eq!(heard(&mut host), [Unmap(2)]);
    assert_eq!(host.read(0, 7).unwrap(), [pattern(1, 0, 5), vec![0xff; 2 * SECTOR]].concat());
}

#[test]
fn closing_serves_what_waits_and_writes_back() {
    for form in WRITING {
        let mut host = host(form, 2);
        for (tag, sector) in [(0, 0), (1, 5)] {
            let data = pattern(2, sector, 1);
            host.device.submit(Ns(10), tag, BlockRequest::write(sector, 1), Payload::Bytes(&data)).unwrap();
        }
        let (volume, closed) = host.device.close(Ns(10));
        // Two requests of a microsecond; memory takes no time.
        assert_eq!(closed, Ok(Ns(2_010)));
        let mut host = Host::new(volume, block(Form::ReadOnly, 0));
        assert_eq!(host.read(0, 1).unwrap(), pattern(2, 0, 1));
        assert_eq!(host.read(5, 1).unwrap(), pattern(2, 5, 1));
    }
}

#[test]
fn a_read_only_device_reads_flushes_and_refuses_the_rest() {
    let mut host = host(Form::ReadOnly, 0);
    let refused = Err(BlockError::ReadOnly { why: "it was opened for reading only" });
    assert_eq!(host.write(2, 0, 1), refused);
    assert_eq!(host.trim(0, 4), refused);
    assert_eq!(host.flush(), Ok(()));
    assert_eq!(host.read(2, 4).unwrap(), pattern(1, 2, 4));
    assert_eq!(host.read(2, 4).unwrap(), pattern(1, 2, 4));
    let pieces = [Read(0, 1024, 1024), Read(1, 0, 1024)];
    assert_eq!(heard(&mut host), [pieces, pieces].concat(), "nothing is cached");
}

#[test]
fn a_static_volume_is_as_large_as_its_data_and_read_only() {
    let mut ubi = plain(NAND, &without_fastmap(), 2).into_ubi();
    let mut cx = Cx::new();
    let request = VolumeRequest { vol_type: VolType::Static, ..VolumeRequest::dynamic("s", VolumeSize::Lebs(3)) };
    let vol_id = ubi.create_volume(&mut cx, &request).unwrap();
    // 10 sectors and 100 bytes, in two of three LEBs of 7 sectors.
    let data = pattern(4, 0, 11);
    ubi.update_volume(&mut cx, vol_id, &data[..10 * SECTOR + 100]).unwrap();
    let volume = OnUbi::open(ubi, &mut cx, vol_id).unwrap();
    let mut host = Host::new(volume, block(Form::Atomic, 1));
    assert_eq!(host.device.sectors(), 10);
    assert_eq!(host.read(0, 10).unwrap(), pattern(4, 0, 10));
    let why = "a static volume is written by updates only";
    assert_eq!(host.write(1, 0, 1), Err(BlockError::ReadOnly { why }));
    assert_eq!(host.device.read_only(), Some(why));
}

#[test]
fn a_volume_in_the_middle_of_an_update_is_not_opened_and_the_device_comes_back() {
    let volume = plain(NAND, &without_fastmap(), 2);
    let (mut ubi, mut cx) = (volume.into_ubi(), Cx::new());
    let vol_id = ubi.find_volume("v").unwrap();
    ubi.begin_update(&mut cx, vol_id, 512).unwrap();
    let failure = OnUbi::open(ubi, &mut cx, vol_id).unwrap_err();
    assert_eq!(failure.error, UbiError::Leb(LebError::Updating { lnum: Lnum(0) }));
    let absent = OnUbi::open(failure.ubi, &mut cx, sim::VolId(5)).unwrap_err();
    assert_eq!(absent.error, UbiError::NoSuchVolume(sim::VolId(5)));
    let mut ubi: Ubi<_> = absent.ubi;
    ubi.end_update(&mut cx, vol_id, 0).unwrap();
    assert!(OnUbi::open(ubi, &mut cx, vol_id).is_ok());
}

#[test]
fn a_volume_that_was_never_written_reads_as_erased_flash() {
    let volume = attach_again(plain(NAND, &without_fastmap(), 2), |_| {});
    let mut host = Host::new(volume, BlockConfig::default());
    assert_eq!(host.device.sectors(), 14);
    assert_eq!(host.read(0, 14).unwrap(), vec![0xff; 14 * SECTOR]);
}

#[test]
fn a_leb_that_cannot_be_read_fails_reads_of_it_and_writes_to_a_part_of_it() {
    for form in WRITING {
        let mut host = host(form, 1);
        host.device.volume_mut().unreadable = Some(1);
        assert_eq!(host.read(2, 6), Err(BlockError::Uncorrectable { sector: 4 }));
        assert_eq!(host.read(6, 1), Err(BlockError::Uncorrectable { sector: 6 }));
        assert_eq!(host.write(2, 5, 1), Err(BlockError::Uncorrectable { sector: 5 }));
        assert!(!heard(&mut host).contains(&Unmap(1)), "{form:?}: what is left of it stays");
        host.write(2, 4, 4).unwrap();
        assert_eq!(host.read(4, 4).unwrap(), pattern(2, 4, 4), "{form:?}: a whole LEB needs no read");
    }
}

#[test]
fn a_refused_write_back_fails_the_request_that_needs_it_and_loses_nothing() {
    for form in WRITING {
        let mut host = host(form, 1);
        host.write(2, 0, 1).unwrap();
        let why = "a write failed on several blocks";
        host.device.volume_mut().refuses = Some(LebError::ReadOnly { lnum: Lnum(0), why });
        assert_eq!(host.write(2, 4, 1), Err(BlockError::WornOut { why }), "{form:?}");
        assert_eq!(host.flush(), Err(BlockError::WornOut { why }));
        let refused = host.device.volume().refused;
        host.wait(Ns::from_s(10));
        assert_eq!((host.device.dirty_lebs(), host.device.stats().all_written_back()), (1, 0));
        assert_eq!(host.device.volume().refused, refused + 1, "{form:?}: one attempt until a request comes");
        assert_eq!(host.read(0, 5).unwrap(), [pattern(2, 0, 1), pattern(1, 1, 4)].concat());
        host.device.volume_mut().refuses = None;
        host.wait(Ns::from_s(10));
        assert_eq!(host.device.dirty_lebs(), 0, "{form:?}: the read woke the idle write-back again");
    }
}

#[test]
fn a_whole_leb_whose_unmapping_is_refused_does_not_enter_the_cache() {
    let mut host = host(Form::UnmapFirst, 1);
    host.device.volume_mut().refuses = Some(LebError::NoSpace { lnum: Lnum(0) });
    assert_eq!(host.write(2, 0, 4), Err(BlockError::WornOut { why: "no physical eraseblock is free" }));
    assert_eq!(host.read(0, 4).unwrap(), pattern(1, 0, 4));
}

#[test]
fn a_request_beyond_the_end_and_one_too_many_are_refused() {
    let config = BlockConfig { depth: 2, ..BlockConfig::default() };
    let mut device = UbiBlock::new(RamVolume::new(2, 1024, 256), Ns::ZERO, config).unwrap();
    let ask = |device: &mut UbiBlock<RamVolume>, tag, request| device.submit(Ns(0), tag, request, Payload::Length(0));
    let beyond = ask(&mut device, 0, BlockRequest::read(3, 2));
    assert_eq!(beyond, Err(BlockError::OutOfBounds { sector: 3, end: 5, sectors: 4 }));
    let far = ask(&mut device, 0, BlockRequest::read(u64::MAX, 2));
    assert_eq!(far, Err(BlockError::OutOfBounds { sector: u64::MAX, end: u64::MAX, sectors: 4 }));
    ask(&mut device, 0, BlockRequest::read(3, 1)).unwrap();
    ask(&mut device, 1, BlockRequest::read(2, 1)).unwrap();
    assert_eq!(ask(&mut device, 0, BlockRequest::read(0, 1)), Err(BlockError::QueueFull { depth: 2 }));
    assert_eq!(device.next_done(Ns(1_000)).map(|done| done.tag), Some(0), "in the order of submission");
    ask(&mut device, 0, BlockRequest::read(0, 1)).unwrap();
}

#[test]
fn lost_power_fails_what_waits_and_everything_after() {
    let mut host = host(Form::Atomic, 1);
    host.device.volume_mut().refuses = Some(FlashError::PowerLost.into());
    for (tag, request) in
        [BlockRequest::write(0, 1), BlockRequest::flush(), BlockRequest::read(0, 1)].iter().enumerate()
    {
        host.device.submit(Ns(0), tag as u32, *request, Payload::Length(request.bytes() as u32)).unwrap();
    }
    let done: Vec<_> = std::iter::from_fn(|| host.device.next_done(Ns(u64::MAX))).collect();
    assert_eq!(done.iter().map(|done| done.tag).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(done.iter().map(|done| done.at.0).collect::<Vec<_>>(), [1_000, 2_000, 2_000]);
    assert_eq!(done[0].result, Ok(()));
    assert!(done[1..].iter().all(|done| done.result == Err(BlockError::PowerLost)));
    assert!(host.device.power_lost());
    let after = host.device.submit(Ns(9_000), 0, BlockRequest::read(0, 1), Payload::Length(0));
    assert_eq!(after, Err(BlockError::PowerLost));
    assert_eq!(host.device.close(Ns(9_000)).1, Err(BlockError::PowerLost));
}

/// As UBI does if it cannot read what it is about to replace.
#[test]
fn a_write_back_that_meets_unreadable_data_names_the_first_sector_of_its_leb() {
    // With 1,280 bytes, LEB 1 begins in the middle of sector 2.
    for (leb_bytes, lnum, sector) in [(1024, 0, 0), (1024, 1, 2), (1024, 3, 6), (1280, 1, 2), (1280, 2, 5)] {
        let mut host = Host::new(Noted::new(4, leb_bytes), block(Form::Atomic, 2));
        let within = (u64::from(lnum) * u64::from(leb_bytes)).div_ceil(512);
        host.write(1, within, 1).unwrap();
        for refusal in
            [LebError::Corrupt { lnum: Lnum(lnum) }, FlashError::Uncorrectable { peb: Peb(9), offset: 512 }.into()]
        {
            host.device.volume_mut().refuses = Some(refusal);
            assert_eq!(host.flush(), Err(BlockError::Uncorrectable { sector }), "LEB {lnum} of {leb_bytes} bytes");
        }
    }
}
