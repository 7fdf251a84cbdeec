//! Each check has a twin that only it catches: see those of UBI.

use sim::Peb;
use sim::seam::Flash;

use super::plan::Sabotage;
use super::{SsdPlan, Tape, prepare};
use crate::cuts::check::Site;
use crate::cuts::{Check, Outcome, Plan, Selection, Story};

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
                tape.mark_bad(&mut sim::Cx::new(), peb).expect("there is power");
            }
        }
    });
}

#[test]
fn a_block_that_goes_bad_when_the_drive_is_used() {
    only(Check::Blocks, &["after the recovery: blocks are marked bad"], |site, tape, _| {
        if site == Site::Used {
            tape.mark_bad(&mut sim::Cx::new(), Peb(0)).expect("there is power");
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
