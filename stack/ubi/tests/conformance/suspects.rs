//! Blocks under suspicion: which are tortured before they are used again, which LEBs are moved, and when a background
//! thread that fails gives the device up. The flash keeps account, and does not know UBI's reasons.

use sim::seam::{Flash, FlashError, LebError};
use sim::{Rng, Seed};
use ubi::attach::AttachedBy;
use ubi::media::VidHdr;
use ubi::wl::PebState;
use ubi::{Background, Config, Policy, UbiError};

use crate::faulty::{Faulty, Wrong};
use crate::media::{peb_bytes, peb_of, rewrite};
use crate::rig::{Rig, dynamic, fastmap_grid, grid, pattern, small_lebs};

const LEBS: u32 = 20;

/// LEBs as they were written last.
struct Held {
    rig: Rig<Faulty>,
    vol_id: sim::VolId,
    data: Vec<Vec<u8>>,
}

impl Held {
    fn new(config: &Config) -> Held {
        let mut rig = Rig::attach(Faulty::new(small_lebs(160)), config);
        let vol_id = rig.create(&dynamic("v", LEBS)).unwrap();
        Held { rig, vol_id, data: vec![Vec::new(); LEBS as usize] }
    }

    /// Reads of the PEB that holds a LEB need correction from now on.
    fn tire(&mut self, lnum: u32) {
        if !self.data[lnum as usize].is_empty() {
            // The search reads past UBI, which learns nothing from it.
            let corrected = self.rig.flash().corrected.clone();
            let peb = peb_of(self.rig.flash(), self.vol_id, lnum);
            self.rig.flash().corrected = corrected;
            self.rig.flash().tired.insert(peb.0);
        }
    }

    /// A change, an append, an unmap, a read or a step of the thread.
    fn step(&mut self, rng: &mut Rng, serial: u32) {
        let lnum = rng.below(LEBS.into()) as u32;
        let held = &mut self.data[lnum as usize];
        match rng.below(10) {
            0..4 => {
                let new = pattern(serial, 256 * (1 + rng.below(5) as usize));
                self.rig.change(self.vol_id, lnum, &new).unwrap();
                *held = new;
            }
            4..7 if held.len() < 3000 => {
                let new = pattern(serial, 256);
                self.rig.write(self.vol_id, lnum, held.len() as u32, &new).unwrap();
                held.extend(new);
            }
            7 => {
                self.rig.unmap(self.vol_id, lnum).unwrap();
                held.clear();
            }
            8 => {
                let found = self.rig.read(self.vol_id, lnum, 0, held.len()).unwrap();
                assert_eq!(found, *held, "LEB {lnum}");
            }
            _ => drop(self.rig.step().unwrap()),
        }
    }

    fn compare(&mut self) {
        for (lnum, held) in (0..).zip(self.data.clone()) {
            assert_eq!(self.rig.read(self.vol_id, lnum, 0, held.len()).unwrap(), held, "LEB {lnum}");
        }
    }
}

/// Not of the fastmap's own blocks, whose failure makes the others suspect too.
#[test]
fn a_block_is_tortured_if_a_program_of_it_failed_and_only_then() {
    let mut tortured = 0;
    for config in grid().into_iter().filter(|config| !config.fastmap) {
        for seed in 0..12 {
            let config = Config { wl_threshold: [3, 4096][seed as usize % 2], ..config.clone() };
            let mut held = Held::new(&config);
            let mut rng = Seed(seed).stream("suspects");
            for serial in 0..400 {
                if rng.chance(0.06) {
                    let at = held.rig.flash().programs + rng.below(6);
                    held.rig.flash().failing_programs.insert(at);
                }
                if rng.chance(0.02) {
                    held.tire(rng.below(LEBS.into()) as u32);
                }
                held.step(&mut rng, serial);
            }
            held.rig.flash().failing_programs.clear();
            held.rig.sync(held.vol_id).unwrap();
            assert_eq!(held.rig.flash().breaches, Vec::<String>::new(), "{config:?}, seed {seed}");
            // What is left has failed its torture test, or an EC header of it could not be written.
            let left = held.rig.flash().suspects.clone();
            assert!(left.iter().all(|&peb| held.rig.ubi().wear().state(sim::Peb(peb)) == PebState::Bad));
            tortured += held.rig.ubi().stats().recoveries;
            held.compare();
        }
    }
    assert!(tortured > 300, "{tortured}");
}

#[test]
fn every_leb_whose_read_needed_correction_is_moved() {
    let mut moved = 0;
    for config in grid() {
        for seed in 0..8 {
            let mut held = Held::new(&config);
            let mut rng = Seed(seed).stream("scrubs");
            for serial in 0..300 {
                if rng.chance(0.1) {
                    held.tire(rng.below(LEBS.into()) as u32);
                }
                // A LEB whose write failed elsewhere is moved as any other.
                if rng.chance(0.05) {
                    let at = held.rig.flash().programs + rng.below(3);
                    held.rig.flash().failing_programs.insert(at);
                }
                held.step(&mut rng, serial);
                if serial % 50 == 49 {
                    held.rig.sync(held.vol_id).unwrap();
                    let left = held.rig.flash().corrected.clone();
                    assert!(left.is_empty(), "{config:?}, seed {seed}: PEBs {left:?} needed correction and were left");
                }
            }
            // In the end of all, those too whose writes were recovered.
            held.rig.flash().failing_programs.clear();
            (0..LEBS).for_each(|lnum| held.tire(lnum));
            held.compare();
            for round in 0.. {
                held.rig.sync(held.vol_id).unwrap();
                if held.rig.flash().corrected.is_empty() {
                    break;
                }
                // As under Linux, a fastmap alone starts no further move: an erasure does.
                assert!(round < 2 * LEBS, "{config:?}, seed {seed}: {:?} are never moved", held.rig.flash().corrected);
                held.rig.change(held.vol_id, 0, &pattern(round, 256)).unwrap();
                held.data[0] = pattern(round, 256);
            }
            moved += held.rig.ubi().stats().scrubs;
            held.compare();
        }
    }
    assert!(moved > 100, "{moved}");
}

#[test]
fn a_fastmap_remembers_what_is_to_be_scrubbed() {
    let mut by_fastmap = 0;
    for config in fastmap_grid() {
        for lnum in 0..LEBS {
            let mut held = Held::new(&config);
            (0..LEBS).for_each(|lnum| held.rig.write(held.vol_id, lnum, 0, &pattern(lnum, 256)).unwrap());
            held.rig.sync(held.vol_id).unwrap();
            let was = peb_of(held.rig.flash(), held.vol_id, lnum);
            held.rig.flash().tired.insert(was.0);
            held.rig.read(held.vol_id, lnum, 0, 256).unwrap();
            // A new fastmap while the LEB waits: the next PEB for a LEB needs one when a pool is used up.
            let written = held.rig.ubi().stats().fastmap_writes;
            while held.rig.ubi().stats().fastmap_writes == written {
                held.rig.change(held.vol_id, (lnum + 1) % LEBS, &pattern(lnum, 256)).unwrap();
            }
            let waits = peb_of(held.rig.flash(), held.vol_id, lnum) == was;
            held.rig.pull_plug();
            by_fastmap += u32::from(waits && held.rig.ubi().attached_by() == &AttachedBy::Fastmap);
            held.rig.sync(held.vol_id).unwrap();
            assert_ne!(peb_of(held.rig.flash(), held.vol_id, lnum), was, "{config:?}, LEB {lnum}");
            assert_eq!(held.rig.read(held.vol_id, lnum, 0, 256).unwrap(), pattern(lnum, 256));
        }
    }
    assert!(by_fastmap > 20, "{by_fastmap}");
}

/// A device with a block that can neither be erased nor marked bad, and that waits for its erasure.
fn stuck(config: &Config) -> (Rig<Faulty>, sim::VolId) {
    let mut rig = Rig::attach(Faulty::new(small_lebs(96)), config);
    let vol_id = rig.create(&dynamic("v", 4)).unwrap();
    for lnum in 0..4 {
        rig.write(vol_id, lnum, 0, &pattern(lnum, 256)).unwrap();
    }
    rig.sync(vol_id).unwrap();
    let peb = peb_of(rig.flash(), vol_id, 2);
    rig.flash().unerasable.insert(peb.0);
    rig.flash().cannot_mark = true;
    rig.unmap(vol_id, 2).unwrap();
    (rig, vol_id)
}

#[test]
fn a_thread_that_fails_more_than_thirty_two_times_in_a_row_makes_the_device_read_only() {
    for config in grid() {
        let (mut rig, vol_id) = stuck(&config);
        for failure in 1..=32 {
            assert!(matches!(rig.step(), Err(UbiError::Flash(FlashError::EraseFailed { .. }))), "failure {failure}");
            assert_eq!(rig.ubi().read_only(), None, "after {failure} failures");
        }
        assert!(rig.step().is_err());
        assert!(rig.ubi().read_only().is_some_and(|why| why.contains("background thread")), "{config:?}");
        let refused = rig.write(vol_id, 3, 256, &pattern(1, 256));
        assert!(matches!(refused, Err(LebError::ReadOnly { .. })), "{refused:?}");
        assert_eq!(rig.read(vol_id, 3, 0, 256).unwrap(), pattern(3, 256));
    }
}

#[test]
fn failures_of_the_thread_count_only_in_a_row() {
    let (mut rig, vol_id) = stuck(&Config::linux(Policy::LINUX_6_7));
    for _ in 0..3 {
        (0..32).for_each(|_| assert!(rig.step().is_err()));
        rig.flash().cannot_mark = false;
        rig.step().unwrap();
        assert_eq!(rig.ubi().read_only(), None);
        // Another one.
        rig.flash().cannot_mark = true;
        rig.write(vol_id, 2, 0, &pattern(2, 256)).unwrap();
        let peb = peb_of(rig.flash(), vol_id, 2);
        rig.flash().unerasable.insert(peb.0);
        rig.unmap(vol_id, 2).unwrap();
    }
}

/// A block whose program failed is tortured with three patterns, and all of it is read behind each erase and each pattern: a
/// single byte that reads wrong retires it, wherever and whenever.
#[test]
fn a_torture_test_finds_a_wrong_byte_wherever_it_is() {
    let config = &Config::linux(Policy::LINUX_6_7);
    for offset in [0, 1, 255, 256, 2047, 2048, 4095] {
        let when = (0..3).flat_map(|erased| [(erased, true), (erased + 1, false)]).map(Some);
        for when in when.chain([None]) {
            let mut held = Held::new(config);
            held.rig.write(held.vol_id, 3, 0, &pattern(3, 256)).unwrap();
            let peb = peb_of(held.rig.flash(), held.vol_id, 3);
            held.rig.flash().wrong = when.map(|(patterns, erased)| Wrong { peb: peb.0, offset, patterns, erased });
            held.rig.flash().fail_programs(1);
            held.rig.write(held.vol_id, 3, 256, &pattern(4, 256)).unwrap();
            held.rig.sync(held.vol_id).unwrap();
            let is_bad = held.rig.ubi().wear().state(peb) == PebState::Bad;
            assert_eq!(is_bad, when.is_some(), "byte {offset}, patterns and whether erased: {when:?}");
            let both = [pattern(3, 256), pattern(4, 256)].concat();
            assert_eq!(held.rig.read(held.vol_id, 3, 0, 512).unwrap(), both);
        }
    }
}

/// A LEB that is to be scrubbed stays so when the block it is moved to fails, in its header or its data; and that block is
/// tortured.
#[test]
fn a_scrub_whose_target_fails_is_done_again_and_the_target_is_tortured() {
    for config in grid() {
        for program in 0..2 {
            let mut held = Held::new(&config);
            (0..LEBS).for_each(|lnum| held.rig.write(held.vol_id, lnum, 0, &pattern(lnum, 256)).unwrap());
            held.rig.sync(held.vol_id).unwrap();
            let was = peb_of(held.rig.flash(), held.vol_id, 7);
            held.rig.flash().tired.insert(was.0);
            held.rig.read(held.vol_id, 7, 0, 256).unwrap();
            let scrubs = held.rig.ubi().stats().scrubs;
            loop {
                // Only the step that moves the LEB meets the failure.
                let mut ahead = held.rig.clone();
                assert_ne!(ahead.step().unwrap(), Background::Idle, "{config:?}: the LEB is not moved");
                if ahead.ubi().stats().scrubs > scrubs {
                    break;
                }
                held.rig = ahead;
            }
            let at = held.rig.flash().programs + program;
            held.rig.flash().failing_programs.insert(at);
            held.rig.step().unwrap();
            assert_eq!(held.rig.flash().suspects.len() + held.rig.flash().failing_programs.len(), 0, "{config:?}");
            assert_eq!(held.rig.ubi().wear().state(was), PebState::Scrub, "{config:?}, program {program}");
            // Nobody reads it again.
            held.rig.sync(held.vol_id).unwrap();
            assert_ne!(held.rig.ubi().peb_of(held.vol_id, sim::Lnum(7)), Some(was), "{config:?}, program {program}");
            assert_eq!(held.rig.flash().breaches, Vec::<String>::new(), "{config:?}, program {program}");
            assert_eq!(held.rig.read(held.vol_id, 7, 0, 256).unwrap(), pattern(7, 256));
        }
    }
}

/// Another error than a failed program says nothing against the block: it is erased, not tortured, and the caller is told.
#[test]
fn a_write_that_the_flash_refuses_is_reported_and_its_block_is_not_suspect() {
    for config in grid() {
        for program in 0..2 {
            let mut held = Held::new(&config);
            held.rig.write(held.vol_id, 5, 0, &pattern(5, 512)).unwrap();
            held.rig.sync(held.vol_id).unwrap();
            // The pools are filled first.
            held.rig.change(held.vol_id, 6, &pattern(6, 512)).unwrap();
            held.rig.flash().refused_program = Some(held.rig.flash().programs + program);
            let refused = held.rig.change(held.vol_id, 5, &pattern(55, 512));
            assert!(matches!(refused, Err(LebError::Flash(FlashError::BadBlock { .. }))), "{config:?}: {refused:?}");
            held.rig.sync(held.vol_id).unwrap();
            assert_eq!(held.rig.flash().breaches, Vec::<String>::new(), "{config:?}, program {program}");
            assert_eq!(held.rig.ubi().stats().retired, 0);
            assert_eq!(held.rig.read(held.vol_id, 5, 0, 512).unwrap(), pattern(5, 512));
        }
    }
}

/// While the super block of any fastmap is left, the newest of all is: an attach would trust an older one. Whatever fails, and
/// whether it is an attach that removes them or the device.
#[test]
fn super_blocks_are_erased_oldest_first() {
    let (mut written, mut several) = (0, 0);
    for config in fastmap_grid() {
        for seed in 0..10 {
            let mut held = Held::new(&config);
            let mut rng = Seed(seed).stream("super blocks");
            for serial in 0..500 {
                if rng.chance(0.1) {
                    let at = held.rig.flash().programs + rng.below(12);
                    held.rig.flash().failing_programs.insert(at);
                }
                let in_place = held.rig.ubi().stats().anchors_in_place;
                held.step(&mut rng, serial);
                // As under Linux, an anchor that is used again in place does not wait for the erasure of the one before it.
                let found = std::mem::take(&mut held.rig.flash().out_of_order);
                if held.rig.ubi().stats().anchors_in_place == in_place {
                    assert_eq!(found, Vec::<String>::new(), "{config:?}, seed {seed}, step {serial}");
                }
            }
            held.rig.flash().failing_programs.clear();
            written += held.rig.ubi().stats().fastmap_writes;
            // Older ones beside the newest, in any order, before an attach that uses none.
            let mut flash = held.rig.into_flash();
            let Some((newest, anchor)) = flash.super_blocks().into_iter().max() else { continue };
            let whole = peb_bytes(&mut flash, sim::Peb(anchor));
            let blank: Vec<u32> = (0..64).filter(|&peb| !flash.is_bad(sim::Peb(peb)) && flash.is_blank(peb)).collect();
            for (age, &peb) in (1..).zip(&blank) {
                let sqnum = newest - (age * 7 + seed * 13) % newest.min(97);
                rewrite(&mut flash, sim::Peb(peb), |bytes| {
                    bytes.copy_from_slice(&whole);
                    let hdr = VidHdr::decode(whole[256..].first_chunk().unwrap()).unwrap();
                    bytes[256..256 + VidHdr::BYTES].copy_from_slice(&VidHdr { sqnum, ..hdr }.encode());
                });
            }
            several += u32::from(flash.super_blocks().len() > 2);
            flash.out_of_order.clear();
            let mut rig = Rig::attach(flash, &Config { fastmap: false, ..config.clone() });
            assert_eq!(rig.flash().super_blocks(), [], "{config:?}, seed {seed}");
            assert_eq!(rig.flash().out_of_order, Vec::<String>::new(), "{config:?}, seed {seed}: by an attach");
        }
    }
    assert!(written > 200 && several > 10, "{written} fastmaps, {several} times several");
}
