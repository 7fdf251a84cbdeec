//! Each check has a twin that only it catches: see those of UBI.

use sim::seam::{Flash, SECTOR_BYTES};
use sim::{Cx, Peb};
use ubi::media::{LAYOUT_VOLUME_ID, VidHdr};

use super::model::Model;
use super::{Sabotage, Tape, UbiblockPlan, prepare};
use crate::check::Site;
use crate::{Check, Outcome, Plan, Selection};

const VID_AT: usize = 512;
const DATA_AT: usize = 1024;
const DEVICE: &str = "title = 't'
seed = 2
[nand]
pebs = 72
peb_bytes = 4096
page_bytes = 512
[ubiblock]
form = 'atomic'
size_bytes = 21504
[cuts]
operations = 200
most_pages = 14
";

fn plan() -> UbiblockPlan {
    match Plan::resolve(DEVICE, &[]) {
        Ok(Plan::Ubiblock(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

fn run(sabotage: Option<Sabotage>) -> Outcome {
    outcome(UbiblockPlan { sabotage, ..plan() })
}

fn outcome(plan: UbiblockPlan) -> Outcome {
    let cuts = prepare(plan).expect("a device");
    cuts.run(&cuts.list(&Selection::Every(5), None), 2, &|_| {})
}

/// Runs the twin: at least ten cuts fail, each by this check alone, and in these words.
fn only(check: Check, says: &str, sabotage: Sabotage) {
    found_by(check, says, &run(Some(sabotage)));
}

/// Requires at least ten cuts to fail, each by this check alone, and in these words.
fn found_by(check: Check, says: &str, found: &Outcome) {
    assert!(found.failed >= 10, "{check:?}: only {} of {} cuts were caught", found.failed, found.cuts);
    for failure in &found.failures {
        assert_eq!(failure.checks, [check], "{failure:#?}");
        assert!(failure.broken.iter().any(|what| what.contains(says)), "{says:?}: {failure:#?}");
    }
}

/// The newest PEB of each LEB of a volume.
fn holders(tape: &Tape, vol_id: u32) -> Vec<(u32, Peb, VidHdr)> {
    let mut found: Vec<(u32, Peb, VidHdr)> = Vec::new();
    let mut bytes = [0; VidHdr::BYTES];
    for peb in (0..tape.geometry().pebs).map(Peb) {
        tape.cells(peb, VID_AT as u32, &mut bytes);
        let Ok(hdr) = VidHdr::decode(&bytes) else { continue };
        match found.iter_mut().find(|(lnum, ..)| *lnum == hdr.lnum) {
            _ if hdr.vol_id != vol_id => {}
            Some(held) if held.2.sqnum < hdr.sqnum => *held = (hdr.lnum, peb, hdr),
            Some(_) => {}
            None => found.push((hdr.lnum, peb, hdr)),
        }
    }
    found
}

/// Flips a bit of each LEB whose contents were promised and whose newest copy is the promised one.
fn flip_bits(tape: &mut Tape, model: &Model) {
    flip_bits_of(tape, model, |_| true);
}

/// As [`flip_bits`], of some LEBs.
fn flip_bits_of(tape: &mut Tape, model: &Model, is_one: fn(u32) -> bool) {
    for (lnum, peb, hdr) in holders(tape, 0).into_iter().filter(|&(lnum, ..)| is_one(lnum)) {
        let first = u64::from(lnum) * model.per_leb();
        let mut at = None;
        tape.array.tamper(peb, |cells| {
            let data = &mut cells[DATA_AT..];
            let whole = !hdr.copy_flag || ubi::media::crc(&data[..hdr.data_size as usize]) == hdr.data_crc;
            at = (0..model.per_leb()).find(|sector| {
                let bytes = &data[(sector * u64::from(SECTOR_BYTES)) as usize..][..SECTOR_BYTES as usize];
                whole && model.promises(first + sector) && !sim::seam::is_erased(bytes)
            });
            let Some(sector) = at else { return };
            data[(sector * u64::from(SECTOR_BYTES)) as usize + 100] ^= 1;
            // The copy stays valid: UBI must not prefer an older one.
            let hdr = VidHdr { data_crc: ubi::media::crc(&data[..hdr.data_size as usize]), ..hdr };
            if hdr.copy_flag {
                cells[VID_AT..][..VidHdr::BYTES].copy_from_slice(&hdr.encode());
            }
        });
    }
}

fn free(tape: &Tape) -> Option<Peb> {
    (2..tape.geometry().pebs).map(Peb).find(|&peb| {
        let mut cells = vec![0; tape.geometry().peb_bytes as usize];
        tape.cells(peb, 0, &mut cells);
        cells.starts_with(b"UBI#") && sim::seam::is_erased(&cells[VID_AT..])
    })
}

#[test]
fn without_a_twin_nothing_is_found() {
    assert_eq!(run(None).failures.first(), None);
}

#[test]
fn contents_with_wrong_bits() {
    only(Check::Contents, "; expected", |site, tape, model| {
        if site == Site::Cut {
            flip_bits(tape, model);
        }
    });
}

/// The device has seven LEBs.
#[test]
fn contents_with_wrong_bits_in_the_first_leb_alone_or_in_the_last() {
    only(Check::Contents, "LEB 0 ", |site, tape, model| {
        if site == Site::Cut {
            flip_bits_of(tape, model, |lnum| lnum == 0);
        }
    });
    only(Check::Contents, "LEB 6 ", |site, tape, model| {
        if site == Site::Cut {
            flip_bits_of(tape, model, |lnum| lnum == 6);
        }
    });
}

#[test]
fn contents_with_wrong_bits_after_a_second_cut() {
    only(Check::Contents, "after a second cut: ", |site, tape, model| {
        if site == Site::SecondCut {
            flip_bits(tape, model);
        }
    });
}

#[test]
fn contents_with_wrong_bits_in_the_end() {
    only(Check::Contents, "in the end: ", |site, tape, model| {
        if site == Site::End {
            flip_bits(tape, model);
        }
    });
}

#[test]
fn a_device_that_reads_something_else_when_it_is_used() {
    only(Check::Reads, "after the recovery: ", |site, tape, model| {
        if site == Site::Used {
            flip_bits(tape, model);
        }
    });
}

/// It is found when it is used, and not only in the end, whichever LEB it is.
#[test]
fn a_device_of_which_the_last_leb_alone_reads_something_else() {
    let sabotage: Sabotage = |site, tape, model| {
        if site == Site::Used {
            flip_bits_of(tape, model, |lnum| lnum == 6);
        }
    };
    let found = run(Some(sabotage));
    let reads = found.failures.iter().filter(|failure| failure.checks == [Check::Reads]).count();
    assert!(reads >= 10, "only {reads} of {} failures were found when it was used", found.failed);
}

#[test]
fn a_block_that_is_bad() {
    only(Check::Blocks, "71 of 72 PEBs are good", |site, tape, _| {
        if site == Site::Cut
            && let Some(peb) = free(tape)
        {
            tape.array.power_on();
            tape.mark_bad(&mut Cx::new(), peb).expect("there is power");
        }
    });
}

#[test]
fn a_device_that_is_read_only() {
    only(Check::Writable, "UBI is read-only", |site, tape, _| {
        if site == Site::Cut
            && let Some((_, peb, hdr)) = holders(tape, LAYOUT_VOLUME_ID).into_iter().next()
        {
            let last = VidHdr { sqnum: u64::MAX - 1, ..hdr }.encode();
            tape.array.tamper(peb, |cells| cells[VID_AT..][..VidHdr::BYTES].copy_from_slice(&last));
        }
    });
}

#[test]
fn both_volume_tables_destroyed() {
    only(Check::ComesUp, "cannot be attached", |site, tape, _| {
        while site == Site::Cut
            && let Some(&(_, peb, _)) = holders(tape, LAYOUT_VOLUME_ID).first()
        {
            tape.array.tamper(peb, |cells| cells[VID_AT..].fill(0));
        }
    });
}

#[test]
fn a_cut_that_does_not_strike() {
    only(Check::Power, "the cut did not trip", |site, tape, _| {
        if site == Site::Armed {
            tape.array.set_power_cut(None);
        }
    });
}

#[test]
fn power_that_goes_while_the_recovered_device_is_read() {
    only(Check::Power, "power was lost", |site, tape, _| {
        if site == Site::Used {
            tape.array.power_off();
        }
    });
}

#[test]
fn a_device_that_refuses_work_after_its_recovery() {
    only(Check::Works, "after the recovery: ", |site, tape, _| {
        while site == Site::Recovered
            && let Some(peb) = free(tape)
        {
            tape.array.tamper(peb, |cells| cells.fill(0));
        }
    });
}

/// A panic below is the layers' own invariant: it is found, and the other cuts are run.
#[test]
fn a_layer_that_panics_when_it_is_used() {
    only(Check::Invariants, "it panicked: an invariant of a layer", |site, _, _| {
        assert!(site != Site::Used, "an invariant of a layer");
    });
}

/// What UBI forgets in memory is found again at the next attach: only its own check before it misses the PEBs.
#[test]
fn a_recovered_device_that_forgets_what_it_erased() {
    let once_recovered = Some(ubi::KnownBad { forget_erased: true, ..Default::default() });
    found_by(Check::Invariants, "it panicked: ", &outcome(UbiblockPlan { once_recovered, ..plan() }));
}
