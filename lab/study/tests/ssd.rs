//! Studies on drives: analytic numbers match the equations, claims hold, and runs repeat.

use runner::parts::Library;
use serde_json::Value;
use study::theory;
use study::{Claim, Finished, Kind, Relation, Source, Spec, Verdict};

fn finished(name: &str) -> Finished {
    study::run(study::by_name(name).unwrap(), true, Library::embedded(), &(), &|_, _| ()).unwrap()
}

/// What `[derived]` of a study has at the path.
fn derived(name: &str, path: &str) -> Value {
    Spec::parse(study::by_name(name).unwrap()).unwrap().derived(path).unwrap().clone()
}

/// What docs/truth.md prints for our values of a study's claims.
fn printed(name: &str) -> Vec<(&'static str, &'static str)> {
    let all = study::truth::values(include_str!("../../../docs/truth.md"));
    all.into_iter().filter(|(study, ..)| *study == name).map(|(_, claim, ours)| (claim, ours)).collect()
}

/// Prints the claims and counts the hits; exactly those in `missed` miss. docs/truth.md has the values of those whose runs are
/// whole here too.
fn hits(name: &str, missed: &[&str]) -> usize {
    let judgement = finished(name).judgement;
    let spec = Spec::parse(study::by_name(name).unwrap()).unwrap();
    let printed = printed(name);
    let shortened = |claim: &Claim| spec.runs.iter().any(|run| run.quick < 1.0 && claim.text.contains(&run.id));
    let told = |claim: &&Claim| claim.kind != Kind::SelfCheck || claim.verdict == Verdict::Miss;
    for claim in judgement.claims.iter().filter(told).filter(|claim| !shortened(claim)) {
        let ours = study::truth::ours(claim);
        assert!(printed.contains(&(&*claim.id, &*ours)), "{}: {ours}; docs/truth.md is old, run make truth", claim.id);
    }
    for claim in &judgement.claims {
        println!("{}: expected {:?} ({}), found {:?}", claim.id, claim.expected, claim.relation, claim.ours);
    }
    // A claim with `calibrated` is no hit, but its inequality holds.
    let orders = judgement.claims.iter().filter(|claim| claim.verdict == Verdict::Calibrated);
    for claim in orders {
        if let Relation::Above(bound) = claim.relation {
            assert!(claim.ours > Some(bound), "{claim:#?}");
        }
    }
    let not: Vec<_> = judgement.claims.iter().filter(|claim| claim.verdict != Verdict::Hit).collect();
    assert_eq!(not.iter().map(|claim| claim.id.as_str()).collect::<Vec<_>>(), missed, "{not:#?}");
    judgement.claims.len() - not.len()
}

/// Checks a number printed to four decimals.
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
    let printed = derived("ssd-ncq", "");
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
    let printed = derived("ssd-trim", "");
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
    assert_eq!(hits("ssd-alignment", &[]), 34);
}

#[test]
fn larger_requests_are_better_until_dies_buses_or_link_are_busy() {
    assert_eq!(hits("ssd-parallelism", &[]), 49);
}

#[test]
fn printed_times_of_requests_are_those_of_arithmetic() {
    let printed = derived("ssd-parallelism", "/request_us");
    let mut seen = 0;
    for (op, array) in [("read", 25.0), ("write", 200.0)] {
        for (dies, channels, ways) in [(1, 1, 1), (4, 4, 1), (16, 4, 4), (32, 8, 4)] {
            for (kib, number) in printed[op][dies.to_string()].as_object().unwrap() {
                // 4,096 bytes at 40 MB/s.
                let computed = theory::request_us(channels, ways, 102.4, array, kib.parse::<u32>().unwrap() / 4);
                assert_printed(number, computed, &format!("{op}, {dies}, {kib}"));
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 40);
}

#[test]
fn flushes_cost_what_arithmetic_says() {
    assert_eq!(hits("ssd-barrier", &[]), 96);
}

#[test]
fn printed_rates_of_flushed_writes_are_those_of_arithmetic() {
    let printed = derived("ssd-barrier", "");
    let mut seen = 0;
    for drive in ["2008", "tlc"] {
        let figure = |at: usize| printed["drives"][drive][at].as_f64().unwrap();
        let [channels, ways] = [0, 1].map(|at| figure(at) as u32);
        let [command, link, transfer, program] = [2, 3, 4, 5].map(figure);
        for kind in ["through", "cached"] {
            for (every, number) in printed[kind][drive].as_object().unwrap() {
                let writes: u32 = every.parse().unwrap();
                let computed = match kind {
                    "through" => theory::flushed_writes_per_s(command + link + transfer + program, command, writes),
                    _ => {
                        let out = theory::write_out_us(channels, ways, transfer, program, writes);
                        theory::flushed_writes_per_s(command + link, command + out, writes)
                    }
                };
                let number = number.as_f64().unwrap();
                assert!((number - computed).abs() < 0.02, "{kind}, {drive}, {every}: {number} printed, {computed}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 32);
    let figure = |at: usize| printed["drives"]["2008"][at].as_f64().unwrap();
    let saturated = figure(0) * figure(1) * 1e6 / (figure(4) + figure(5));
    assert!((printed["saturated"]["2008"].as_f64().unwrap() - saturated).abs() < 0.02, "{saturated}");
}

#[test]
fn padded_blocks_are_switched() {
    // The log of a shrunk drive holds as much as the buffer: see SOURCE.md.
    let missed = ["random, than fifo", "random, than lru", "random in 64 MiB, than fifo", "random in 64 MiB, than lru"]
        .map(|load| format!("faster, fast, {load}"));
    // The equation leaves out the sequential log block.
    let few =
        ["fifo", "lru"].map(|policy| format!("erasures for each page written out, fast, random in 64 MiB, {policy}"));
    let missed: Vec<&str> = missed.iter().chain(&few).map(String::as_str).collect();
    assert_eq!(hits("ssd-bplru", &missed), 47);
}

#[test]
fn printed_erasures_of_merges_are_those_of_the_equation() {
    let printed = derived("ssd-bplru", "/merged");
    for logs in [15, 1] {
        for logical in [238, 32] {
            let place = format!("/{logs}/{logical}");
            assert_printed(printed.pointer(&place).unwrap(), theory::fast_erases_per_page(logs, logical, 64), &place);
        }
    }
}

#[test]
fn a_map_cache_in_the_host_keeps_the_rate_where_the_device_loses_it() {
    assert_eq!(hits("hpb-iozone", &["on is above off at 32 GB"]), 7);
}

#[test]
fn apps_gain_in_later_cycles_what_was_calibrated_and_too_much_in_the_first_two() {
    let not = [
        "baseline of cycles 3 to 6",
        "gain of cycles 3 to 6",
        "baseline of cycle 1",
        "baseline of cycle 2",
        "gain of cycle 1",
        "gain of cycle 2",
        "gain of cycle 3",
        "gain of cycle 4",
        "gain of cycle 5",
        "gain of cycle 6",
        "gain in all",
    ];
    assert_eq!(hits("hpb-app-start", &not), 0);
}

#[test]
fn updates_inside_a_launch_lower_the_gain_and_those_before_it_do_not() {
    let not = [
        "baseline of cycles 3 to 6",
        "gain of cycles 3 to 6",
        "gain of cycle 1, rewritten before",
        "gain of cycle 2, rewritten before",
        "gain of cycles 3 to 6, rewritten before",
        "gain in all, rewritten before",
        "gain of cycle 1, in the launch",
        "gain of cycle 2, in the launch",
        "gain of cycles 3 to 6, in the launch",
        "gain of cycle 1, in the launch, in place",
        "gain of cycle 2, in the launch, in place",
        "gain of cycles 3 to 6, in the launch, in place",
        "baseline of cycle 2, in the launch",
    ];
    assert_eq!(hits("hpb-app-start-guest", &not), 3);
}

#[test]
fn one_application_wears_raw_flash_less_than_a_ubiblock() {
    assert_eq!(hits("fs-wear-shootout", &[]), 21);
}

#[test]
fn writes_cost_entries_and_host_control_loses_more() {
    assert_eq!(hits("hpb-writes", &[]), 35);
}

#[test]
fn printed_misses_of_dirty_pages_are_those_of_the_equation() {
    let printed = derived("hpb-writes", "");
    let by_writes = printed["device"]["by_writes"].as_object().unwrap();
    assert_eq!(by_writes.len(), 7);
    for (percent, row) in by_writes {
        let (misses, between) = theory::dirty_misses(1024, 4, percent.parse::<f64>().unwrap() / 100.0);
        assert_printed(&row["misses"], misses, percent);
        assert_printed(&row["map_bytes"], 8.0 * 1024.0 / between, percent);
    }
}

#[test]
fn file_systems_on_ubiblock_wear_as_printed_but_for_todays_vfat() {
    let calibrated = ["seqwr", "rndwr", "rndrw"]
        .map(|mode| ["none", "lzo"].map(|compression| format!("{mode}: erasures of ubifs-{compression}")));
    let mut not = vec!["rndrw: vfat over ubifs-none"];
    not.extend(calibrated.iter().flatten().map(String::as_str));
    assert_eq!(hits("ubiblock-wear", &not), 16);
}

#[test]
fn tests_on_ubiblock_take_as_long_in_order_and_sequential_ones_in_seconds() {
    let not = [
        "ext4, rndwr, seconds",
        "vfat, rndwr, seconds",
        "vfat, rndrw, seconds",
        "ubifs-none, seqwr, seconds",
        "ubifs-none, rndwr, seconds",
        "ubifs-none, rndrw, seconds",
        "ubifs-lzo, seqwr, seconds",
        "ubifs-lzo, rndwr, seconds",
        "ubifs-lzo, rndrw, seconds",
    ];
    assert_eq!(hits("ubiblock-time", &not), 11);
}

#[test]
fn postmark_on_seven_file_systems_is_as_on_the_slides_where_they_still_allocate_in_place() {
    let not = [
        "highest bar of SS",
        "LS, the axis ends above the bar of nilfs2",
        "ext4, the axis of its case study ends above the bar of SS",
        "btrfs, the axis of its case study ends above the bar of SS",
        "xfs, the axis of its case study ends above the bar of SS",
        "SS, sequential writes of ext3",
        "SS, sequential writes of ext4",
        "SS, sequential writes of xfs",
        "SS, sequential writes of btrfs",
        "SL, sequential writes of ext2",
        "SL, sequential writes of ext3",
        "SL, sequential writes of ext4",
        "SL, sequential writes of reiserfs",
        "SL, sequential writes of xfs",
        "SL, sequential writes of btrfs",
        "LS, sequential writes of ext2",
        "LS, sequential writes of ext3",
        "LS, sequential writes of ext4",
        "LS, sequential writes of reiserfs",
        "LS, sequential writes of xfs",
        "LS, sequential writes of btrfs",
        "LL, sequential writes of ext2",
        "LL, sequential writes of ext3",
        "LL, sequential writes of ext4",
        "LL, sequential writes of reiserfs",
        "LL, sequential writes of xfs",
        "LL, sequential writes of btrfs",
        "btrfs, sequential writes, 4 KiB over 16 KiB",
        "btrfs, ssd over nossd, at least",
        "ext4, ordered is better than writeback for SL",
        "xfs, large overhead of barriers",
    ];
    assert_eq!(hits("ssd-postmark", &not), 17);
    // Of the runs whose logs are longer than 1 MiB.
    assert_eq!(finished("ssd-postmark").judgement.count(Verdict::NotJudged), 12);
}

#[test]
fn a_study_on_a_drive_repeats_to_the_fingerprint() {
    let [one, two] = [(); 2].map(|()| finished("ssd-ncq").judgement);
    assert_eq!(one, two);
}

/// Without running anything: the page has each claim of each study that is not a self-check, and no other.
#[test]
fn the_page_of_verdicts_has_each_claim_of_each_study() {
    let page = include_str!("../../../docs/truth.md");
    assert!(page.contains(&format!("\nModel version {}.\n", runner::MODEL_VERSION)), "run make truth");
    for source in study::ALL {
        let spec = Spec::parse(source).unwrap();
        assert!(!spec.against.is_empty(), "{}: `against`", source.name);
        let of_kind = |self_check: bool| {
            let all = spec.kinds().unwrap().into_iter();
            all.filter(move |(_, kind)| (*kind == Kind::SelfCheck) == self_check).map(|(id, _)| id).collect::<Vec<_>>()
        };
        let mut printed: Vec<_> = printed(&source.name).into_iter().map(|(claim, _)| claim.to_owned()).collect();
        let checks = of_kind(true);
        printed.retain(|claim| !checks.contains(claim));
        let mut stated = of_kind(false);
        printed.sort();
        stated.sort();
        assert_eq!(printed, stated, "{}: run make truth", source.name);
    }
}

/// fastmap-throughput has prices of the processor that fit fio's numbers. The other studies of the report take them as they are.
#[test]
fn the_fastmap_studies_have_one_machine() {
    let prices = |name: &str| {
        let table: toml::Table = toml::from_str(&study::by_name(name).unwrap().toml).unwrap();
        let base = &table["base"];
        let of_fs =
            ["operation_us", "node_ns", "node_ps_per_byte", "copy_ps_per_byte"].map(|key| base["fs"][key].clone());
        (base["nand"]["copy_ps_per_byte"].clone(), of_fs)
    };
    let calibrated = prices("fastmap-throughput");
    for name in ["fastmap-first-64", "fastmap-30-days", "fastmap-data-peb", "fastmap-latency"] {
        assert_eq!(prices(name), calibrated, "{name}");
    }
}

#[test]
fn a_quick_study_takes_a_share_of_the_records() {
    let study = |records: u32| {
        let toml = format!(
            "kind = 'ssd'\nquestion = 'q?'\n[base]\ntitle = 't'\n[base.ssd]\nblocks = 64\n[base.iozone]\nrange_bytes = 16777216\n\
             records = {records}\n[[run]]\nid = 'r'\ntitle = 'r'\nquick = 0.25\n"
        );
        let source = Source { name: "s".into(), toml: toml.into(), published: "{}".into() };
        let spec = Spec::parse(&source).unwrap();
        [true, false].map(|quick| {
            let prepared = spec.question_of(&spec.runs[0], quick, Library::embedded()).unwrap();
            prepared.experiment.iozone.unwrap().records
        })
    };
    // 16 MiB are 256 records for each of the 16 threads.
    assert_eq!((study(100), study(0)), ([25, 100], [64, 0]));
}
