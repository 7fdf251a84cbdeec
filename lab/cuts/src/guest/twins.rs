//! What a cut under a guest checks before Linux boots, without a kernel: calls written here take the place of a recording.
//! A cut whose device keeps its promises comes as far as the boot, which says that there is no kernel. A twin changes the
//! device behind the guest's back, and is caught earlier, by the check that it concerns.

use guest::protocol::Request;
use guest::{BlockShape, FlashShape};
use sim::seam::{BlockRequest, Flash};
use ssd::ftl::page::PageFtl;
use ubi::media::{LAYOUT_VOLUME_ID, VidHdr};

use super::*;
use crate::check::Site;
use crate::{Outcome, Plan, Selection};

const PAGE: usize = 512;
const PEB_BYTES: u64 = 4096;
/// Calls of the job's setup, which are not cut.
const BEGAN: usize = 3;
const UBIBLOCK: &str = "[ubiblock]\nform = 'atomic'\nsize_bytes = 21504\n";
const DRIVE: &str = "[ssd]\nchannels = 1\nways = 1\nplanes = 1\nblocks = 16\npages = 8\npage_kib = 1.0\nover_provisioning_percent = 50.0\n";

type Sabotage = fn(Site, &mut Tape);

/// A device that is changed behind the guest's back.
#[derive(Clone)]
struct Twin<D> {
    device: D,
    sabotage: Sabotage,
}

impl<D: Device> Device for Twin<D> {
    fn shapes(&self) -> (Option<BlockShape>, Option<FlashShape>) {
        self.device.shapes()
    }

    fn tape(&self) -> &Tape {
        self.device.tape()
    }

    fn tape_mut(&mut self) -> &mut Tape {
        self.device.tape_mut()
    }

    fn submit(&mut self, request: &Request, data: &[u8]) -> Result<(), Status> {
        (self.sabotage)(Site::Armed, self.device.tape_mut());
        self.device.submit(request, data)
    }

    fn next_done(&mut self, until: Ns) -> Option<(u32, Ns, Status)> {
        self.device.next_done(until)
    }

    fn flash(&mut self, now: Ns, address: u64, call: FlashCall<'_>) -> FlashDone {
        (self.sabotage)(Site::Armed, self.device.tape_mut());
        self.device.flash(now, address, call)
    }

    fn is_bad(&self, address: u64) -> bool {
        self.device.is_bad(address)
    }

    fn run(&mut self, until: Ns) {
        (self.sabotage)(Site::Armed, self.device.tape_mut());
        self.device.run(until);
    }

    fn power_on(mut self, rules: &Rules, attempt: &mut Attempt<'_>) -> Result<Twin<D>, Broken> {
        (self.sabotage)(Site::Cut, self.device.tape_mut());
        Ok(Twin { device: self.device.power_on(rules, attempt)?, sabotage: self.sabotage })
    }

    fn check(&self) -> Result<(), Broken> {
        self.device.check()
    }
}

fn plan(device: &str) -> GuestPlan {
    let nand = if device.contains("[ssd]") { "" } else { "[nand]\npebs = 64\npeb_bytes = 4096\npage_bytes = 512\n" };
    let text = format!("title = 't'\nseed = 3\n{nand}{device}[guest]\njob = 'true'\n[cuts]\nsecond_cut = false\n");
    match Plan::resolve(&text, &[]) {
        Ok(Plan::Guest(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

/// Writes of whole pages and flushes, each waited for.
fn requests() -> (Vec<Call>, Vec<u8>) {
    let bytes: Vec<u8> = (0..8 * PAGE).map(|at| (at % 251) as u8).collect();
    let mut calls = Vec::new();
    for turn in 0..24u64 {
        let at = Ns(turn * 50_000_000);
        let (request, data) = match turn % 4 {
            3 => (BlockRequest::flush(), 0..0),
            _ => (BlockRequest::write(turn * 5 % 32, 4), 0..4 * PAGE),
        };
        let request = Request { at, tag: 0, request, zeroes: false, pid: 1, comm: *b"job\0............" };
        calls.push(Call::Submit { request, data });
        calls.push(Call::NextDone { until: Ns(at.0 + 40_000_000) });
    }
    (calls, bytes)
}

/// Programs of pages from low to high, in blocks that are erased first.
fn programs() -> (Vec<Call>, Vec<u8>) {
    let mut calls = Vec::new();
    for block in 0..4u64 {
        let at = |call: u64| Ns((block * 10 + call) * 1_000_000);
        calls.push(Call::Erase { now: at(0), address: block * PEB_BYTES });
        for page in 0..8u64 {
            let address = block * PEB_BYTES + page * PAGE as u64;
            calls.push(Call::Program { now: at(1 + page), address, data: 0..PAGE, oob_at: 0, oob: 0..0 });
        }
    }
    (calls, vec![0x5a; PAGE])
}

fn engine<D: Device>(
    plan: GuestPlan,
    device: D,
    (calls, bytes): (Vec<Call>, Vec<u8>),
    sabotage: Sabotage,
) -> Engine<GuestRig<Twin<D>>> {
    let mut stage = Stage { device: Twin { device, sabotage: |_, _| {} }, at: 0 };
    for call in &calls[..BEGAN] {
        stage.device.again(call, &bytes);
    }
    stage.at = BEGAN;
    stage.device.sabotage = sabotage;
    let marks = vec![("started".to_owned(), BEGAN), ("half".to_owned(), calls.len() / 2)];
    let rig = GuestRig { plan, calls, bytes, marks, began: BEGAN, device: std::marker::PhantomData };
    Engine::prepare(rig, stage)
}

fn run<D: Device>(engine: &Engine<GuestRig<D>>) -> Outcome {
    assert_eq!(engine.uncut(), None);
    engine.run(&engine.list(&Selection::Every(1), None), 2, &|_| {})
}

fn on_ubiblock(sabotage: Sabotage) -> Outcome {
    let plan = plan(UBIBLOCK);
    let Under::Ubiblock(subject) = &plan.under else { panic!("a ubiblock") };
    let device = OnVolume::fresh((**subject).clone()).expect("a device");
    run(&engine(plan, device, requests(), sabotage))
}

fn on_drive(sabotage: Sabotage) -> Outcome {
    let plan = plan(DRIVE);
    let Under::Drive(under) = &plan.under else { panic!("a drive") };
    let device = Block::<PageFtl>::fresh((**under).clone()).expect("a drive");
    run(&engine(plan, device, requests(), sabotage))
}

fn on_flash(sabotage: Sabotage) -> Outcome {
    let plan = plan("");
    let Under::Flash { flash, .. } = &plan.under else { panic!("raw flash") };
    let device = Raw::fresh((**flash).clone(), false);
    run(&engine(plan, device, programs(), sabotage))
}

/// Each cut fails by this check alone, in these words.
fn only(found: &Outcome, check: Check, says: &str) {
    assert!(found.cuts >= 20 && found.failed == found.cuts, "{} of {} cuts failed", found.failed, found.cuts);
    for failure in &found.failures {
        assert_eq!(failure.checks, [check], "{failure:#?}");
        assert!(failure.broken.iter().all(|what| what.contains(says)), "{says:?}: {failure:#?}");
    }
}

#[test]
fn a_device_that_keeps_its_promises_comes_as_far_as_the_boot() {
    for found in [on_ubiblock(|_, _| {}), on_drive(|_, _| {}), on_flash(|_, _| {})] {
        only(&found, Check::Guest, "without a kernel");
    }
}

#[test]
fn a_cut_that_does_not_strike_is_found() {
    let disarm: Sabotage = |site, tape| {
        if site == Site::Armed {
            tape.array.set_power_cut(None);
        }
    };
    for found in [on_ubiblock(disarm), on_drive(disarm), on_flash(disarm)] {
        only(&found, Check::Power, "the cut did not trip");
    }
}

#[test]
fn a_ubiblock_without_a_volume_table_does_not_come_up() {
    let found = on_ubiblock(|site, tape| {
        for peb in (0..tape.geometry().pebs).map(sim::Peb).filter(|_| site == Site::Cut) {
            let mut bytes = [0; VidHdr::BYTES];
            tape.cells(peb, 512, &mut bytes);
            if VidHdr::decode(&bytes).is_ok_and(|hdr| hdr.vol_id == LAYOUT_VOLUME_ID) {
                tape.array.tamper(peb, |cells| cells[512..].fill(0));
            }
        }
    });
    only(&found, Check::ComesUp, "UBI cannot be attached");
}

/// The second half of the promise: what a device says of itself after the guest's check.
#[test]
fn a_block_that_went_bad_is_missed_by_the_device_s_own_check() {
    let go_bad = |tape: &mut Tape| {
        let peb = (0..tape.geometry().pebs).map(sim::Peb).rfind(|&peb| tape.array.mark(peb) == 0);
        tape.mark_bad(&mut sim::Cx::new(), peb.expect("a free block")).expect("there is power");
    };
    let plan = plan(DRIVE);
    let Under::Drive(under) = &plan.under else { panic!("a drive") };
    let mut device = Block::<PageFtl>::fresh((**under).clone()).expect("a drive");
    assert_eq!(device.check(), Ok(()));
    go_bad(device.tape_mut());
    let broken = device.check().expect_err("a block is bad");
    assert!(broken.iter().all(|breach| breach.check == Check::Blocks), "{broken:?}");
}

/// The cuts are those of the measured job alone, one for each way to tear each operation; a failure tells the calls up to
/// the one that was cut, and the last mark before it.
#[test]
fn a_cut_is_told_with_the_calls_and_the_mark_before_it() {
    let plan = plan("");
    let Under::Flash { flash, .. } = &plan.under else { panic!("raw flash") };
    let device = Raw::fresh((**flash).clone(), false);
    let (calls, bytes) = programs();
    let count = calls.len();
    let engine = engine(plan, device, (calls, bytes), |_, _| {});
    assert_eq!(engine.nand_ops() as usize, count - BEGAN, "each call is one operation");
    let tears = engine.cuts() / engine.nand_ops();
    for (operation, mark, last, cut) in [
        (0, "started", "3000000 ns: program of 512 bytes at 1024", "program of 512 bytes in PEB 0 at offset 1024"),
        (6, "started", "10000000 ns: erase at 4096", "erase of PEB 1"),
        (
            count as u64 - BEGAN as u64 - 1,
            "half",
            "38000000 ns: program of 512 bytes at 15872",
            "program of 512 bytes in PEB 3 at offset 3584",
        ),
    ] {
        let (_, failure) = engine.tell(operation * tears, None).expect("there is such a cut");
        let history = failure.expect("no kernel").history;
        assert_eq!(history[0], format!("the job's last mark: {mark}"));
        // The line after the calls names the cut.
        assert_eq!(history[history.len() - 2], last, "{history:?}");
        assert!(history.len() <= HISTORY + 2);
        assert!(history.last().is_some_and(|line| line.contains(cut)), "{history:?}");
    }
}

fn raw(at_once: bool) -> Raw {
    let plan = plan("");
    let Under::Flash { flash, .. } = plan.under else { panic!("raw flash") };
    Raw::fresh(*flash, at_once)
}

fn read(device: &mut Raw, address: u64) -> Vec<u8> {
    let mut data = vec![0; PAGE];
    let call = FlashCall::Read { data: &mut data, oob_at: 0, oob: &mut [] };
    assert_eq!(device.flash(Ns(1 << 40), address, call).status, Status::Ok);
    data
}

fn cells(device: &Raw, address: u64) -> Vec<u8> {
    let mut data = vec![0; PAGE];
    device.tape().cells(sim::Peb((address / PEB_BYTES) as u32), (address % PEB_BYTES) as u32, &mut data);
    data
}

/// 80 pages of 512 bytes are 40 KiB; the buffer holds 32 KiB, so the first 16 are in the cells.
#[test]
fn the_twin_that_answers_at_once_holds_32_kib_and_reads_them() {
    let mut device = raw(true);
    for page in 0..80u64 {
        let call = FlashCall::Program { data: &[page as u8; PAGE], oob_at: 0, oob: &[] };
        assert_eq!(device.flash(Ns(page), page * PAGE as u64, call).status, Status::Ok);
    }
    for page in 0..80u64 {
        let (address, written) = (page * PAGE as u64, vec![page as u8; PAGE]);
        assert_eq!(read(&mut device, address), written, "page {page}");
        assert_eq!(cells(&device, address) == written, page < 16, "page {page}");
    }
    // An erasure is done at once, after what is held of its block alone.
    let operations = device.tape().array.ops();
    assert_eq!(device.flash(Ns(100), 9 * PEB_BYTES, FlashCall::Erase).status, Status::Ok);
    assert_eq!(device.tape().array.ops() - operations, 8 + 1);
    assert_eq!(read(&mut device, 9 * PEB_BYTES), [0xff; PAGE]);
    assert_ne!(cells(&device, 8 * PEB_BYTES), read(&mut device, 8 * PEB_BYTES));
}

#[test]
fn a_block_is_bad_from_its_first_byte_to_its_last() {
    let mut device = raw(false);
    assert_eq!(device.flash(Ns(0), 2 * PEB_BYTES, FlashCall::MarkBad).status, Status::Ok);
    for (address, bad) in [(0, false), (8191, false), (8192, true), (12_287, true), (12_288, false)] {
        assert_eq!(device.is_bad(address), bad, "{address}");
    }
}

/// A guest sees a block device or a flash, and never both.
#[test]
fn the_guest_sees_one_device() {
    let (block, flash) = raw(false).shapes();
    assert!(block.is_none() && flash.is_some());
    let plan = plan(UBIBLOCK);
    let Under::Ubiblock(subject) = plan.under else { panic!("a ubiblock") };
    let (block, flash) = OnVolume::fresh(*subject).expect("a device").shapes();
    assert!(block.is_some() && flash.is_none());
}

/// Serves a device, records what is asked of it, and makes every call again on a device that was never asked: its cells are the
/// same, as are its bad blocks and the number of its operations.
fn made_again<D: Device>(device: D, ask: impl FnOnce(&mut Served<'_, D>)) -> Recording {
    let (mut again, mut silent) = (device.clone(), ());
    let job = Job::of(String::new(), &mut silent);
    let mut served = Served { device, job, recording: Some(Recording::default()) };
    ask(&mut served);
    let Served { device, recording, .. } = served;
    let recording = recording.expect("it records");
    for call in &recording.calls {
        again.again(call, &recording.bytes);
    }
    let (tape, other) = (device.tape(), again.tape());
    assert!(tape.array.ops() > 20, "{} operations", tape.array.ops());
    assert_eq!(other.array.ops(), tape.array.ops());
    assert!(other.array.bad_pebs().eq(tape.array.bad_pebs()));
    for peb in (0..tape.geometry().pebs).map(sim::Peb) {
        let whole = |tape: &Tape| {
            let mut cells = vec![0; tape.geometry().peb_bytes as usize];
            tape.cells(peb, 0, &mut cells);
            cells
        };
        assert!(whole(tape) == whole(other), "PEB {peb}");
    }
    recording
}

#[test]
fn what_was_recorded_is_what_was_asked() {
    let plan = plan(UBIBLOCK);
    let Under::Ubiblock(subject) = plan.under else { panic!("a ubiblock") };
    let (calls, bytes) = requests();
    let recorded = made_again(OnVolume::fresh(*subject).expect("a device"), |served| {
        for call in &calls {
            match call {
                Call::Submit { request, data } => {
                    guest::Devices::submit(served, request, &bytes[data.clone()]).expect("a free tag");
                }
                Call::NextDone { until } => drop(guest::Devices::next_done(served, *until)),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(recorded.calls.len(), calls.len());
    let mut rng = sim::Seed(7).stream("calls");
    let recorded = made_again(raw(false), |served| {
        for turn in 0..200u64 {
            let (now, block) = (Ns(turn * 1_000_000), rng.below(6) * PEB_BYTES);
            let page = block + rng.below(8) * PAGE as u64;
            let data = vec![rng.bits() as u8; PAGE];
            let (mut read, oob_at) = (vec![0; PAGE], 0);
            let call = match rng.below(16) {
                0..9 => FlashCall::Program { data: &data, oob_at, oob: &[] },
                9..12 => FlashCall::Read { data: &mut read, oob_at, oob: &mut [] },
                12..15 => FlashCall::Erase,
                _ => FlashCall::MarkBad,
            };
            let address = if matches!(call, FlashCall::Erase | FlashCall::MarkBad) { block } else { page };
            if !matches!(call, FlashCall::MarkBad) || block == 5 * PEB_BYTES {
                guest::Devices::flash(served, now, &[], address, call);
            }
        }
    });
    assert!(recorded.calls.len() > 150);
}

/// Each mark is kept with the number of calls before it, and the measured job begins once, at its first.
#[test]
fn marks_are_recorded_by_the_calls_before_them() {
    let mut texts = Vec::new();
    let recording = made_again(raw(false), |served| {
        let mut now = 0;
        for text in ["early", "begin", "one", "two", "begin", "exit 0"] {
            for page in 0..8 {
                now += 1_000_000;
                let call = FlashCall::Program { data: &[now as u8; PAGE], oob_at: 0, oob: &[] };
                let block = served.recording.as_ref().map_or(0, |recording| recording.calls.len() as u64 / 8);
                guest::Devices::flash(served, Ns(now), &[], block * PEB_BYTES + page * PAGE as u64, call);
            }
            guest::Devices::mark(served, Ns(now), text);
        }
        texts = served.job.marks.iter().map(|mark| mark.text.clone()).collect();
    });
    assert_eq!(texts, ["early", "one", "two", "begin"]);
    assert_eq!((recording.marks, recording.began), (vec![8, 24, 32, 40], Some(16)));
}

/// After a cut the guest is told the marks that the job had made by then: what they promise must be there.
#[test]
fn a_guest_is_told_the_marks_before_the_cut_alone() {
    let calls = programs();
    let count = calls.0.len();
    let engine = engine(plan(""), raw(false), calls, |_, _| {});
    for at in 0..count {
        let expected = [(BEGAN, "started"), (count / 2, "half")];
        let expected: Vec<&str> = expected.into_iter().filter(|(made, _)| *made <= at).map(|(_, mark)| mark).collect();
        assert_eq!(engine.rig().marks_by(at).collect::<Vec<_>>(), expected, "call {at}");
    }
}

#[test]
fn what_linux_found_counts_unless_it_ended_well() {
    let judge = |marks: &[&str]| {
        let mut silent = ();
        let mut job = Job::of(String::new(), &mut silent);
        job.output(Ns(1), b"its output\n");
        marks.iter().for_each(|mark| job.mark(Ns(2), mark));
        judged(&job, &"off").map_err(|broken| {
            assert!(broken.iter().all(|breach| breach.check == Check::Guest));
            broken.into_iter().map(|breach| breach.what).collect::<String>()
        })
    };
    assert_eq!(judge(&["exit 0"]), Ok(()));
    assert_eq!(judge(&["broken: a file is gone", "exit 1"]), Err("a file is gone: its output".to_owned()));
    assert_eq!(judge(&["exit 1"]), Err("the guest ended with Some(1), \"off\": its output".to_owned()));
    assert_eq!(judge(&[]), Err("the guest ended with None, \"off\": its output".to_owned()));
}
