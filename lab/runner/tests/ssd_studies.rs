//! Studies on drives: their analytic numbers are those of the equations, their claims hold, and their runs repeat.

use runner::ssd::theory;
use runner::study::{self, Finished, Verdict};
use serde_json::Value;

fn finished(name: &str) -> Finished {
    study::run(study::by_name(name).unwrap(), true, &|_, _| ()).unwrap()
}

fn published(name: &str) -> Value {
    serde_json::from_str(study::by_name(name).unwrap().published).unwrap()
}

/// Prints the claims and counts those that hold; the others are `missed`.
fn hits(name: &str, missed: &[&str]) -> usize {
    let judgement = finished(name).judgement;
    for claim in &judgement.claims {
        println!("{}: {} published, {} ours ({})", claim.id, claim.published, claim.ours, claim.tolerance);
    }
    let not: Vec<_> = judgement.claims.iter().filter(|claim| claim.verdict != Verdict::Hit).collect();
    assert_eq!(not.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(), missed, "{not:#?}");
    judgement.claims.len() - not.len()
}

/// Printed to four decimals.
fn assert_printed(printed: &Value, computed: f64, place: &str) {
    let printed = printed.as_f64().unwrap_or(f64::NAN);
    assert!((printed - computed).abs() < 0.6e-4, "{place}: {printed} printed, {computed} computed");
}

#[test]
fn four_requests_take_four_steps_one_at_a_time_and_two_queued() {
    assert_eq!(hits("ssd-ncq", &[]), 14);
}

#[test]
fn printed_numbers_of_busy_channels_are_those_of_the_chain() {
    let printed = published("ssd-ncq");
    for channels in [4, 8] {
        for depth in [1, 2, 4, 8, 16, 32] {
            let place = format!("/busy/{channels}/{depth}");
            let computed = theory::busy_channels(channels, depth);
            assert_printed(printed.pointer(&place).unwrap(), computed, &place);
        }
    }
}

#[test]
fn trim_saves_what_the_equations_for_greedy_say() {
    assert_eq!(hits("ssd-trim", &[]), 28);
}

#[test]
fn printed_numbers_of_amplification_are_those_of_the_equations() {
    let printed = published("ssd-trim");
    let mut seen = 0;
    for kind in ["trimmed", "untrimmed"] {
        let alpha = if kind == "trimmed" { theory::alpha_trimmed } else { theory::alpha_untrimmed };
        for (op, by_use) in printed[kind].as_object().unwrap() {
            for (used, number) in by_use.as_object().unwrap() {
                let share = |text: &str| text.parse::<f64>().unwrap() / 100.0;
                let computed = theory::greedy_waf(32, alpha(share(op), share(used))).unwrap();
                assert_printed(number, computed, &format!("{kind}, {op} %, {used} %"));
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 20);
}

#[test]
fn a_partition_at_lba_63_touches_one_page_more() {
    assert_eq!(hits("ssd-alignment", &[]), 31);
}

#[test]
fn larger_requests_are_better_until_dies_buses_or_link_are_busy() {
    // At the end of each request the pipeline of 32 dies runs empty: see SOURCE.md.
    assert_eq!(hits("ssd-parallelism", &["limit, write, 8 x 4"]), 16);
}

#[test]
fn a_study_on_a_drive_repeats_to_the_fingerprint() {
    let [one, two] = [(); 2].map(|()| finished("ssd-ncq").judgement);
    assert_eq!(one, two);
}
