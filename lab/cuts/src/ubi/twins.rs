//! Each check has a twin that only it catches: the medium is changed behind UBI's back after a cut, and of all checks
//! exactly the expected one notices. A check that is switched off lets its twin pass.

use sim::Peb;
use sim::seam::Flash;
use ubi::media::{EcHdr, LAYOUT_VOLUME_ID, VidHdr, VolType, VtblRecord};

use super::known::Known;
use super::model::{Leb, State};
use super::plan::Sabotage;
use super::rig::counters_on_flash;
use super::workload::Op;
use super::{Scene, Tape, UbiPlan, UbiRig, limits, prepare};
use crate::check::Site;
use crate::{Check, Outcome, Plan, Selection};

const VID_AT: usize = 512;
const DATA_AT: usize = 1024;
const PEB_BYTES: usize = 8192;
const LEB_BYTES: usize = PEB_BYTES - DATA_AT;

fn plan(seed: u64, more: &str) -> UbiPlan {
    let text = format!(
        "title = 't'\nseed = {seed}\n[nand]\npebs = 72\npeb_bytes = {PEB_BYTES}\npage_bytes = 512\n[ubi]\nwl_threshold = 4\n{more}"
    );
    match Plan::resolve(&text, &[]) {
        Ok(Plan::Ubi(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

const BY_SCAN: &str = "fastmap = false\n[cuts]\noperations = 160\n[cuts.mix]\ncreate = 9\nremove = 4\nupdate = 6\n";
const BY_FASTMAP: &str = "fastmap = true\n[cuts]\noperations = 160\n";

fn run(mut plan: UbiPlan, sabotage: Option<Sabotage>) -> Outcome {
    plan.sabotage = sabotage;
    outcome(plan)
}

fn outcome(plan: UbiPlan) -> Outcome {
    let cuts = prepare(plan).expect("a device that UBI runs on");
    cuts.run(&cuts.list(&Selection::Every(3), None), 2, &|_| {})
}

/// Runs the twin: at least ten cuts fail, and each by these checks alone, in these words.
fn only(checks: &[Check], says: &str, more: &str, sabotage: Sabotage) {
    let clean = run(plan(5, more), None);
    assert_eq!(clean.failures.first(), None, "without the twin");
    found_by(checks, says, &run(plan(5, more), Some(sabotage)));
}

/// Requires at least ten cuts to fail, each by these checks alone, in these words.
fn found_by(checks: &[Check], says: &str, found: &Outcome) {
    assert!(found.failed >= 10, "{checks:?}: only {} of {} cuts were caught", found.failed, found.cuts);
    for failure in &found.failures {
        assert!(failure.checks.iter().all(|check| checks.contains(check)), "{failure:#?}");
        assert!(failure.broken.iter().all(|what| what.contains(says)), "{says:?}: {failure:#?}");
    }
}

fn vid_hdr(tape: &mut Tape, peb: u32) -> Option<VidHdr> {
    let mut found = None;
    tape.array.tamper(Peb(peb), |cells| {
        let hdr = VidHdr::decode(cells[VID_AT..][..VidHdr::BYTES].try_into().expect("64 bytes"));
        found = hdr.ok();
    });
    found
}

/// The newest PEB whose VID header is as wanted.
fn newest(tape: &mut Tape, wanted: impl Fn(&VidHdr) -> bool) -> Option<(Peb, VidHdr)> {
    let found = (0..tape.geometry().pebs).filter_map(|peb| Some((Peb(peb), vid_hdr(tape, peb)?)));
    found.collect::<Vec<_>>().into_iter().filter(|(_, hdr)| wanted(hdr)).max_by_key(|(_, hdr)| hdr.sqnum)
}

fn put_vid_hdr(tape: &mut Tape, peb: Peb, hdr: &VidHdr) {
    tape.array.tamper(peb, |cells| cells[VID_AT..][..VidHdr::BYTES].copy_from_slice(&hdr.encode()));
}

/// Adds to the counter in the header of a PEB.
fn move_counter(tape: &mut Tape, peb: usize, by: i64) {
    tape.array.tamper(Peb(peb as u32), |cells| {
        let mut hdr = EcHdr::decode(cells[..EcHdr::BYTES].try_into().expect("64 bytes")).expect("a valid header");
        hdr.ec = hdr.ec.checked_add_signed(by).expect("no counter below 0");
        cells[..EcHdr::BYTES].copy_from_slice(&hdr.encode());
    });
}

/// A PEB with a valid counter that was erased since the attach, or was not.
fn counted(tape: &mut Tape, scene: &Scene, erased: bool) -> Option<usize> {
    let ledger = scene.ledger.as_ref()?;
    let counters = counters_on_flash(tape, &Known::default());
    (0..counters.len()).rev().find(|&peb| {
        let valid = counters[peb].is_some_and(|ec| ec > 1) && scene.counters[peb].is_some_and(|ec| ec > 1);
        valid && (ledger.erases_since(tape, peb) > 0) == erased
    })
}

/// An erased PEB with an EC header.
fn free(tape: &mut Tape) -> Option<Peb> {
    (2..tape.geometry().pebs).map(Peb).find(|&peb| {
        let mut erased = false;
        tape.array.tamper(peb, |cells| {
            erased = cells.starts_with(b"UBI#") && sim::seam::is_erased(&cells[VID_AT..]);
        });
        erased
    })
}

/// LEBs of dynamic volumes that the operation of the scene leaves alone.
fn bystanders(scene: &Scene) -> Vec<(u32, u32, Leb)> {
    let lebs = scene.before.volumes.iter().filter(|(_, vol)| vol.kind == VolType::Dynamic && !vol.updating);
    let lebs = lebs.flat_map(|(&vol_id, vol)| (0..).zip(&vol.lebs).map(move |(lnum, leb)| (vol_id, lnum, leb.clone())));
    let touched = |vol: u32, leb: u32| match &scene.op {
        Op::Write { vol_id, lnum, .. }
        | Op::Change { vol_id, lnum, .. }
        | Op::Map { vol_id, lnum }
        | Op::Unmap { vol_id, lnum } => (*vol_id, *lnum) == (vol, leb),
        Op::Update { vol_id, .. } | Op::Remove { vol_id } | Op::Resize { vol_id, .. } => *vol_id == vol,
        _ => false,
    };
    lebs.filter(|&(vol, leb, _)| !touched(vol, leb)).collect()
}

/// Whether the operation of the scene changes the volume table, so that either table may be found.
fn changes_table(scene: &Scene) -> bool {
    use Op::{Create, Remove, Rename, Resize, Update};
    matches!(scene.op, Create { .. } | Remove { .. } | Resize { .. } | Rename { .. } | Update { .. })
}

/// Flips a bit of the contents of a mapped LEB.
fn flip_a_bit(tape: &mut Tape, scene: &Scene) {
    if changes_table(scene) {
        return;
    }
    for (vol_id, lnum, leb) in bystanders(scene) {
        let State::Mapped(content) = &leb.state else { continue };
        if content.is_empty() || leb.torn || leb.fragile || !leb.ghosts.is_empty() {
            continue;
        }
        let found = newest(tape, |hdr| (hdr.vol_id, hdr.lnum) == (vol_id, lnum));
        if let Some((peb, _)) = found {
            let at = DATA_AT + content.len() / 2;
            tape.array.tamper(peb, |cells| cells[at] ^= 0x10);
            return;
        }
    }
}

#[test]
fn a_counter_that_falls() {
    only(&[Check::Counters], "fell from", BY_SCAN, |site, tape, scene| {
        if site == Site::Cut
            && let Some(peb) = counted(tape, scene, false)
        {
            move_counter(tape, peb, -1);
        }
    });
}

#[test]
fn an_erasure_that_is_counted_twice() {
    only(&[Check::Ledger], "erasures followed", BY_SCAN, |site, tape, scene| {
        if site == Site::Cut
            && let Some(peb) = counted(tape, scene, true)
        {
            move_counter(tape, peb, 1);
        }
    });
}

#[test]
fn a_fastmap_that_differs_from_a_scan() {
    let counter_moves: Sabotage = |site, tape, scene| {
        if site == Site::Cut
            && let Some(peb) = counted(tape, scene, false)
        {
            move_counter(tape, peb, 1);
        }
    };
    only(&[Check::BothWays], "scan and fastmap differ", BY_FASTMAP, counter_moves);
    // It is found before anything is written.
    let found = run(plan(5, BY_FASTMAP), Some(counter_moves));
    let mut told = found.failures.iter().flat_map(|failure| &failure.broken);
    assert!(told.all(|what| what.starts_with("scan and fastmap differ")), "{found:#?}");
}

#[test]
fn a_block_that_is_kept_as_corrupt() {
    only(&[Check::Blocks], "is lost: Kept", BY_SCAN, |site, tape, _| {
        if site == Site::Cut
            && let Some(peb) = free(tape)
        {
            tape.array.tamper(peb, |cells| cells[VID_AT..].fill(0x5a));
        }
    });
}

#[test]
fn a_block_that_is_bad() {
    only(&[Check::Blocks], "is lost: Bad", BY_SCAN, |site, tape, _| {
        if site == Site::Cut
            && let Some(peb) = free(tape)
        {
            tape.mark_bad(&mut sim::Cx::new(), peb).expect("there is power");
        }
    });
}

#[test]
fn a_device_that_stays_read_only() {
    only(&[Check::Writable], "read-only", BY_SCAN, |site, tape, scene| {
        let Some((vol_id, lnum, _)) =
            bystanders(scene).into_iter().find(|(_, _, leb)| leb.state != State::Unmapped && leb.ghosts.is_empty())
        else {
            return;
        };
        if site == Site::Cut
            && let Some((peb, hdr)) = newest(tape, |hdr| (hdr.vol_id, hdr.lnum) == (vol_id, lnum))
        {
            put_vid_hdr(tape, peb, &VidHdr { sqnum: u64::MAX - 1, ..hdr });
        }
    });
}

#[test]
fn a_static_volume_with_a_wrong_checksum() {
    only(&[Check::StaticCrc], "static volume", BY_SCAN, |site, tape, scene| {
        let Some((peb, hdr)) = newest(tape, |hdr| hdr.vol_type == VolType::Static) else { return };
        if site == Site::Cut && !changes_table(scene) {
            put_vid_hdr(tape, peb, &VidHdr { data_crc: !hdr.data_crc, ..hdr });
        }
    });
}

#[test]
fn a_volume_with_another_name() {
    only(&[Check::Table], "volume table", BY_SCAN, |site, tape, scene| {
        if site != Site::Cut || changes_table(scene) {
            return;
        }
        for lnum in 0..2 {
            let Some((peb, _)) = newest(tape, |hdr| (hdr.vol_id, hdr.lnum) == (LAYOUT_VOLUME_ID, lnum)) else { return };
            tape.array.tamper(peb, |cells| {
                for slot in cells[DATA_AT..].chunks_exact_mut(VtblRecord::BYTES) {
                    let slot: &mut [u8; VtblRecord::BYTES] = slot.try_into().expect("one record");
                    if let Ok(Some(record)) = VtblRecord::decode(slot, LEB_BYTES as u32) {
                        *slot = VtblRecord::encode(Some(&VtblRecord { name: b"another".to_vec(), ..record }));
                        return;
                    }
                }
            });
        }
    });
}

#[test]
fn both_volume_tables_destroyed() {
    only(&[Check::ComesUp], "cannot be attached", BY_SCAN, |site, tape, _| {
        while site == Site::Cut
            && let Some((peb, _)) = newest(tape, |hdr| hdr.vol_id == LAYOUT_VOLUME_ID)
        {
            tape.array.tamper(peb, |cells| cells[VID_AT..].fill(0));
        }
    });
}

#[test]
fn contents_with_a_wrong_bit() {
    only(&[Check::Contents], "expected", BY_SCAN, |site, tape, scene| {
        if site == Site::Cut {
            flip_a_bit(tape, scene);
        }
    });
}

#[test]
fn an_unmapped_leb_that_holds_what_it_never_had() {
    only(&[Check::Unmapped], "expected unmapped", BY_SCAN, |site, tape, scene| {
        let mut unmapped = bystanders(scene).into_iter().filter(|(_, _, leb)| leb.state == State::Unmapped);
        let (Some((vol_id, lnum, _)), Site::Cut) = (unmapped.next(), site) else { return };
        let (Some(peb), Some((_, newest))) = (free(tape), newest(tape, |hdr| hdr.vol_type == VolType::Dynamic)) else {
            return;
        };
        let plain = VidHdr { copy_flag: false, data_size: 0, data_crc: 0, compat: 0, ..newest };
        put_vid_hdr(tape, peb, &VidHdr { vol_id, lnum, sqnum: newest.sqnum + 1, ..plain });
        tape.array.tamper(peb, |cells| cells[DATA_AT..][..512].fill(0x77));
    });
}

#[test]
fn a_torn_program_that_reaches_past_its_end() {
    only(&[Check::Torn], "what the cut left", BY_SCAN, |site, tape, scene| {
        let Op::Write { vol_id, lnum, .. } = &scene.op else { return };
        if site == Site::Cut
            && let Some((peb, _)) = newest(tape, |hdr| (hdr.vol_id, hdr.lnum) == (*vol_id, *lnum))
        {
            let there = |cells: &mut [u8]| cells[PEB_BYTES - 1] = 0;
            tape.array.tamper(peb, there);
        }
    });
}

#[test]
fn a_torn_page_with_a_bit_that_nobody_programmed() {
    only(&[Check::Torn], "what the cut left", BY_SCAN, |site, tape, scene| {
        let Op::Write { vol_id, lnum, offset, data } = &scene.op else { return };
        if site == Site::Cut
            && let Some((peb, _)) = newest(tape, |hdr| (hdr.vol_id, hdr.lnum) == (*vol_id, *lnum))
        {
            let at = data.iter().position(|&byte| byte != 0).expect("data are not all zero");
            let lowest = data[at] & data[at].wrapping_neg();
            tape.array.tamper(peb, |cells| cells[DATA_AT + *offset as usize + at] &= !lowest);
        }
    });
}

#[test]
fn what_only_a_second_cut_shows() {
    only(&[Check::Contents], "after a second cut: ", BY_SCAN, |site, tape, scene| {
        if site == Site::SecondCut {
            flip_a_bit(tape, scene);
        }
    });
}

#[test]
fn what_only_an_attach_by_scan_shows() {
    only(&[Check::Contents], "attached without fastmap: ", BY_FASTMAP, |site, tape, scene| {
        if site == Site::Copy {
            flip_a_bit(tape, scene);
        }
    });
}

#[test]
fn a_device_that_refuses_work_after_its_recovery() {
    only(&[Check::Works], "after the recovery: ", BY_SCAN, |site, tape, _| {
        while site == Site::Recovered
            && let Some(peb) = free(tape)
        {
            tape.array.tamper(peb, |cells| cells.fill(0));
        }
    });
}

#[test]
fn contents_that_are_lost_when_the_device_is_used() {
    only(&[Check::Contents, Check::Unmapped], "after it was attached once more: ", BY_SCAN, |site, tape, scene| {
        if site == Site::Used {
            let cold = |leb: &Leb| leb.ghosts.is_empty() && !leb.torn && !leb.fragile;
            let lebs = bystanders(scene).into_iter().filter(|(_, _, leb)| cold(leb));
            for (vol_id, lnum, leb) in lebs {
                let State::Mapped(content) = &leb.state else { continue };
                let found = newest(tape, |hdr| (hdr.vol_id, hdr.lnum) == (vol_id, lnum));
                let Some((peb, _)) = found.filter(|_| !content.is_empty()) else { continue };
                let mut same = false;
                tape.array.tamper(peb, |cells| same = cells[DATA_AT..].starts_with(content));
                if same {
                    tape.array.tamper(peb, |cells| cells[DATA_AT] ^= 0x10);
                    return;
                }
            }
        }
    });
}

#[test]
fn a_counter_that_falls_in_the_end() {
    only(&[Check::Counters], "in the end: ", BY_SCAN, |site, tape, _| {
        if site == Site::End {
            let counters = counters_on_flash(tape, &Known::default());
            let all = (0..counters.len()).filter(|&peb| counters[peb].is_some_and(|ec| ec > 1)).collect::<Vec<_>>();
            all.into_iter().for_each(|peb| move_counter(tape, peb, -2));
        }
    });
}

#[test]
fn a_fastmap_that_differs_from_a_scan_in_the_end() {
    only(&[Check::BothWays], "in the end: ", BY_FASTMAP, |site, tape, _| {
        if site == Site::End {
            let counters = counters_on_flash(tape, &Known::default());
            let all = (0..counters.len()).filter(|&peb| counters[peb].is_some()).collect::<Vec<_>>();
            all.into_iter().for_each(|peb| move_counter(tape, peb, 1));
        }
    });
}

/// Attaching mends the volume table and gives the fastmap up, so that the difference is gone behind it.
#[test]
fn a_fastmap_that_differs_until_the_device_is_attached_once_more() {
    only(&[Check::BothWays], "in the end: scan and fastmap differ", BY_FASTMAP, |site, tape, scene| {
        if site != Site::Down || changes_table(scene) {
            return;
        }
        let counters = counters_on_flash(tape, &Known::default());
        let all = (0..counters.len()).filter(|&peb| counters[peb].is_some()).collect::<Vec<_>>();
        all.into_iter().for_each(|peb| move_counter(tape, peb, 1));
        if let Some((peb, _)) = newest(tape, |hdr| (hdr.vol_id, hdr.lnum) == (LAYOUT_VOLUME_ID, 1)) {
            tape.array.tamper(peb, |cells| cells[DATA_AT..].fill(0));
        }
    });
}

/// A PEB that is erased and then forgotten is found again at the next attach: only a check before it misses the PEB. Where all
/// other PEBs are taken, work fails first.
#[test]
fn a_recovered_device_that_forgets_what_it_erased() {
    let once_recovered = Some(ubi::KnownBad { forget_erased: true, ..Default::default() });
    let found = outcome(UbiPlan { once_recovered, ..plan(5, BY_SCAN) });
    let (missed, others): (Vec<_>, Vec<_>) =
        found.failures.iter().partition(|failure| failure.checks == [Check::Invariants]);
    assert!(missed.len() >= 10, "{found:#?}");
    assert!(missed.iter().all(|failure| failure.broken[0].contains("it panicked: ")), "{missed:#?}");
    assert!(others.iter().all(|failure| failure.broken[0].contains("no free physical eraseblock")), "{others:#?}");
}

#[test]
fn a_cut_that_does_not_strike() {
    only(&[Check::Power], "the cut did not trip", BY_SCAN, |site, tape, _| {
        if site == Site::Armed {
            tape.array.set_power_cut(None);
        }
    });
}

/// A tortured PEB is counted in the end. Linux 6.1 alone forgets erasures of a fastmap's data blocks in place.
#[test]
fn no_counter_may_lag_without_an_excuse() {
    for (wl, forgets) in [("linux-6.1", true), ("linux-6.7", false)] {
        let plan = plan(1, &format!("wl = '{wl}'\n{BY_FASTMAP}"));
        let mut tape = Tape::new(&plan.array, nand::Bytes::new());
        let ubi = ubi::Ubi::attach(tape.clone(), &mut sim::Cx::new(), &plan.ubi).expect("a blank flash");
        let rig = UbiRig {
            layout: *ubi.layout(),
            limits: limits(&ubi),
            rng: plan.rules.seed.stream("test"),
            drawn: Vec::new(),
            script: None,
            plan,
        };
        tape.fastmap_data[3] = true;
        tape.tortured[5] = true;
        let lags: Vec<usize> = (0..72).filter(|&peb| rig.may_lag(&tape)[peb]).collect();
        assert_eq!(lags, if forgets { vec![3, 5] } else { vec![5] }, "{wl}");
    }
}
