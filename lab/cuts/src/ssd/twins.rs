//! Each check has a twin that only it catches: see those of UBI.

use nand::{PowerCut, PrefixBytes, Tear};
use sim::seam::{BlockDevice, BlockRequest, Flash};
use sim::{Cx, Peb};
use ssd::ftl::page::PageFtl;

use super::plan::Sabotage;
use super::{Down, Drive, Host, Model, SsdPlan, SsdRig, Tape, fresh, keeps_at_once, prepare};
use crate::check::Site;
use crate::{Check, Failure, Outcome, Plan, Selection, Story};

const DRIVE: &str = "title = 't'
seed = 3
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 16
pages = 8
page_kib = 1.0
over_provisioning_percent = 50.0
[ssd.cache]
policy = 'lru'
pages = 12
[cuts]
operations = 600
";

fn plan(text: &str) -> SsdPlan {
    match Plan::resolve(text, &[]) {
        Ok(Plan::Ssd(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

fn run(sabotage: Option<Sabotage>) -> Outcome {
    let mut plan = plan(DRIVE);
    plan.sabotage = sabotage;
    let cuts = prepare(plan).expect("a drive");
    cuts.run(&cuts.list(&Selection::Every(11), None), 2, &|_| {})
}

/// Runs the twin: at least ten cuts fail by this check alone, and in each of them each of `says` is said.
fn only(check: Check, says: &[&str], sabotage: Sabotage) {
    let found = run(Some(sabotage));
    let alone: Vec<_> = found.failures.iter().filter(|failure| failure.checks == [check]).collect();
    assert!(alone.len() >= 10, "{check:?}: only {} of {} cuts were caught by it alone", alone.len(), found.cuts);
    for failure in alone {
        for says in says {
            assert!(failure.broken.iter().any(|what| what.contains(says)), "{says:?}: {failure:#?}");
        }
    }
}

/// Flips a bit in the middle of every page of a block that is whole.
fn flip_bits(tape: &mut Tape) {
    let geometry = *tape.geometry();
    for peb in (0..geometry.pebs).map(Peb) {
        if tape.array.mark(peb) == geometry.peb_bytes {
            tape.array.tamper(peb, |cells| {
                cells.chunks_mut(geometry.page_bytes as usize).for_each(|page| page[100] ^= 1);
            });
        }
    }
}

#[test]
fn without_a_twin_nothing_is_found() {
    assert_eq!(run(None).failures.first(), None);
}

#[test]
fn contents_with_wrong_bits() {
    only(Check::Contents, &["; expected"], |site, tape, _| {
        if site == Site::Cut {
            flip_bits(tape);
        }
    });
}

#[test]
fn contents_with_wrong_bits_after_a_second_cut() {
    only(Check::Contents, &["after a second cut: "], |site, tape, _| {
        if site == Site::SecondCut {
            flip_bits(tape);
        }
    });
}

#[test]
fn contents_with_wrong_bits_in_the_end() {
    only(Check::Contents, &["in the end: "], |site, tape, _| {
        if site == Site::End {
            flip_bits(tape);
        }
    });
}

#[test]
fn a_drive_that_reads_something_else_when_it_is_used() {
    only(Check::Reads, &["after the recovery: ", "reads as torn"], |site, tape, _| {
        if site == Site::Used {
            flip_bits(tape);
        }
    });
}

/// Interrupts an erase of a block at its beginning: no bit changes, and its pages can no longer be read.
fn spoil(tape: &mut Tape, peb: Peb) {
    let cut = PowerCut::at_op(tape.array.ops(), Tear::Prefix(PrefixBytes::Exactly(0))).seen_by_ecc();
    tape.array.set_power_cut(Some(cut));
    assert!(tape.array.erase(&mut Cx::new(), peb).is_err(), "the cut is in it");
    tape.array.set_power_cut(None);
    tape.array.power_on();
}

fn whole_blocks(tape: &Tape) -> Vec<Peb> {
    let geometry = *tape.geometry();
    (0..geometry.pebs).map(Peb).filter(|&peb| tape.array.mark(peb) == geometry.peb_bytes).collect()
}

#[test]
fn pages_that_cannot_be_read_when_the_drive_is_used() {
    only(Check::Works, &["after the recovery: ", "cannot be read"], |site, tape, _| {
        if site == Site::Used {
            whole_blocks(tape).into_iter().for_each(|peb| spoil(tape, peb));
        }
    });
}

/// Every so many cuts of a drive whose whole blocks can no longer be read once it has recovered.
fn run_spoilt(more: &str, every: u64) -> Outcome {
    let sabotage: Sabotage = |site, tape, _| {
        if site == Site::Recovered {
            whole_blocks(tape).into_iter().for_each(|peb| spoil(tape, peb));
        }
    };
    let cuts = prepare(SsdPlan { sabotage: Some(sabotage), ..plan(&format!("{DRIVE}{more}")) }).expect("a drive");
    cuts.run(&cuts.list(&Selection::Every(every), None), 2, &|_| {})
}

/// What the drive itself reads and loses, before the host reads it: where no request of the exercise meets it.
#[test]
fn pages_that_cannot_be_read_when_they_are_to_be_copied() {
    let found = run_spoilt("second_cut = false\n", 3);
    let says = |failure: &&Failure| failure.broken[0].contains("could not be read when they were to be copied");
    let told = found.failures.iter().filter(says).filter(|failure| failure.checks == [Check::Contents]).count();
    assert!(told >= 3, "{told} of {} failures in {} cuts", found.failed, found.cuts);
}

/// A request that fails ends the exercise, and what it says is told.
#[test]
fn a_request_that_fails_after_the_recovery() {
    for faults in ["", "[faults]\nprogram_failure = 0.01\nerase_failure = 0.01\n"] {
        let found = run_spoilt(faults, 11);
        let says = |failure: &&Failure| {
            let what = &failure.broken[0];
            what.starts_with("after the recovery: ") && what.contains(": failed: ") && failure.checks == [Check::Works]
        };
        let told = found.failures.iter().filter(says).count();
        assert!(told >= 10, "{faults}: {told} of {} failures in {} cuts", found.failed, found.cuts);
    }
}

/// Of a drive with a buffer FUA keeps a write, and a flush; of one without, its completion does.
#[test]
fn a_write_that_completed_is_kept_unless_a_buffer_holds_it() {
    let buffered = format!("{DRIVE}[ssd.front]\nprotocol = 'sata'\ndepth = 8\nwrite_cache = true\n");
    for (text, is_kept) in [
        (buffered.clone(), false),
        (buffered.replace("policy = 'lru'\npages = 12", "pages = 0"), true),
        (buffered.replace("write_cache = true", "write_cache = false"), true),
    ] {
        let plan = plan(&text);
        for fua in [false, true] {
            let mut drive: Drive<PageFtl> = fresh(&plan).expect("a drive");
            let mut model = Model::new(drive.sectors(), 2, false);
            let write = BlockRequest { fua, ..BlockRequest::write(0, 2) };
            let at_once = keeps_at_once(drive.device().config());
            let host = Host::new(plan.load.clone(), sim::Seed(1).stream("load"), &model, at_once);
            let mut host = host.scripted([write].into());
            while !host.is_done() {
                assert!(host.step(&mut drive, &mut model).is_ok());
            }
            let may_be_lost = model.survived(0, &[0; 512]).is_empty();
            assert_eq!(may_be_lost, !is_kept && !fua, "{text}FUA {fua}");
        }
    }
}

#[test]
fn what_the_host_reads_is_compared() {
    let plan = plan(&DRIVE.replace("policy = 'lru'", "policy = 'none'"));
    let mut drive: Drive<PageFtl> = fresh(&plan).expect("a drive");
    let mut model = Model::new(drive.sectors(), 2, false);
    let write = BlockRequest { fua: true, ..BlockRequest::write(0, 2) };
    let host = Host::new(plan.load.clone(), sim::Seed(1).stream("load"), &model, false);
    let mut host = host.scripted([write, BlockRequest::read(0, 2)].into());
    let mut checks = Vec::new();
    while !host.is_done() {
        match host.step(&mut drive, &mut model) {
            Ok(()) => {}
            Err(Down::Broken(broken)) => checks.extend(broken.into_iter().map(|breach| breach.check)),
            Err(Down::Power | Down::NoSpare(_)) => panic!("there is power"),
        }
        let tape = drive.device_mut().flash_mut();
        let written = (0..tape.geometry().pebs).map(Peb).find(|&peb| tape.array.mark(peb) > 0);
        if let Some(peb) = written {
            tape.array.tamper(peb, |cells| cells[100] = 0);
        }
    }
    assert_eq!(checks, [Check::Reads]);
}

/// Not on flash that fails; and with HPB in the last read alone, as a read by entry takes another way.
#[test]
fn a_page_that_was_seen_is_not_read_again_where_that_shows_nothing_new() {
    let ufs = "[ssd.front]\nprotocol = 'ufs'\ndepth = 8\n[ssd.hpb]\nversion = '2.0'\ncontrol = 'device'\nregion_kib = 4\n\
               subregion_kib = 2\nmax_active_regions = 12\nsingle_command_kib = 1\npre_requests = true\n";
    for (more, skips) in [("", [true; 2]), ("[faults]\nbitflips = 1\necc_bits = 4\n", [false; 2]), (ufs, [false, true])]
    {
        let (plan, layer) = (plan(&format!("{DRIVE}{more}")), std::marker::PhantomData);
        let rig = SsdRig::<PageFtl> { plan, at_once: false, requests: Vec::new(), issued: Vec::new(), layer };
        assert_eq!([false, true].map(|is_last| rig.may_skip(is_last)), skips, "{more}");
    }
}

#[test]
fn a_cut_that_does_not_strike() {
    let found = run(Some(|site, tape, _| {
        if site == Site::Armed {
            tape.array.set_power_cut(None);
        }
    }));
    assert!(found.failed == found.cuts && found.cuts > 50, "{} of {} cuts", found.failed, found.cuts);
    for failure in &found.failures {
        assert_eq!(failure.checks, [Check::Power], "{failure:#?}");
        assert!(failure.broken[0].contains("the cut did not trip"), "{failure:#?}");
    }
}

#[test]
fn an_erase_count_that_falls() {
    only(Check::Counters, &["fell from"], |site, _, wear| {
        if site == Site::Cut {
            // One more than the drive had: to the check, what power-on finds fell. The greatest stays the greatest.
            let most = wear.0.iter().flatten().copied().max().unwrap_or(0);
            wear.0.iter_mut().flatten().filter(|count| **count < most).for_each(|count| *count += 1);
        }
    });
}

#[test]
fn an_erase_count_beyond_all_that_there_were() {
    only(Check::Ledger, &["the most"], |site, _, wear| {
        if site == Site::Cut {
            wear.0.iter_mut().flatten().for_each(|count| *count = 0);
        }
    });
}

#[test]
fn a_bad_block_is_missed_by_the_layer_and_by_the_array() {
    only(Check::Blocks, &["are good", "are marked bad"], |site, tape, _| {
        if site == Site::Cut {
            let free = (0..tape.geometry().pebs).map(Peb).find(|&peb| tape.array.mark(peb) == 0);
            if let Some(peb) = free {
                tape.array.power_on();
                tape.mark_bad(&mut Cx::new(), peb).expect("there is power");
            }
        }
    });
}

#[test]
fn a_block_that_goes_bad_when_the_drive_is_used() {
    only(Check::Blocks, &["after the recovery: blocks are marked bad"], |site, tape, _| {
        if site == Site::Used {
            tape.mark_bad(&mut Cx::new(), Peb(0)).expect("there is power");
        }
    });
}

/// Operations under way on the other die are torn too, each in its own way: by a first cut, and by a second.
#[test]
fn a_cut_tears_what_is_under_way_on_other_dies() {
    for second_cut in [false, true] {
        let cuts = prepare(plan(&format!("{DRIVE}second_cut = {second_cut}\n"))).expect("a drive");
        let told = |at| cuts.tell(at, None).expect("there is such a cut").0;
        let stories: Vec<_> = (0..cuts.cuts()).step_by(31).map(told).collect();
        let also = |story: &&Story| {
            // Of a second cut only what comes after it.
            let lines = story.lines().iter().map(String::as_str);
            let mut lines = lines.skip_while(|line| second_cut && !line.starts_with("second cut: "));
            lines.any(|line| line.starts_with("also under way: "))
        };
        let torn = stories.iter().filter(also).count();
        assert!(torn * 10 > stories.len(), "second cut {second_cut}: {torn} of {} cuts", stories.len());
    }
}
