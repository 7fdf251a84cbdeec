//! Pages, sentences and documents for other programs, against the result that they are of.

use runner::measure::{Metrics, Outcome};
use runner::parts::Library;
use runner::report::drive::span;
use runner::report::{self, answer, ended, fio, grouped};
use runner::run::Prepared;
use runner::sweep::{Row, Sweep};
use runner::trace_report;
use serde_json::Value;
use sim::Ns;
use sim::seam::BlockOp;
use workload::trace::pattern::PatternOptions;
use workload::trace::{Format, Notes, Pattern, TraceRecord};

const DRIVE: &str = "title = 't'\n[ssd]\nchannels = 2\nways = 1\nplanes = 1\nblocks = 32\npages = 16\n\
                     over_provisioning_percent = 40\n[precondition]\nkind = 'sequential'\n";

fn run(text: &str) -> Outcome {
    let prepared = Prepared::resolve(text, &[]).unwrap_or_else(|error| panic!("{error}"));
    prepared.run(None, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

fn of(found: &Outcome, id: &str) -> f64 {
    found.metrics().value(id).unwrap_or_else(|error| panic!("{error}"))
}

/// The first run of the page's document.
fn page(found: &Outcome) -> Value {
    report::of_runs(&[("r".to_owned(), found)])["runs"][0].clone()
}

fn near(a: f64, b: f64, within: f64) -> bool {
    (a / b - 1.0).abs() < within
}

/// fio's `bw` is in KiB/s and its `runtime` in milliseconds.
#[test]
fn figures_for_fio_are_in_fios_units() {
    let found = run(&format!("{DRIVE}[workload]\nrw = 'randread'\nrequests = 3000\ndepth = 4\n"));
    let read = &fio::document(&found).unwrap()["jobs"][0]["read"];
    let number = |key: &str| read[key].as_f64().unwrap();
    let seconds = found.drive().unwrap().measured_ns as f64 / 1e9;
    assert!(near(number("runtime"), seconds * 1e3, 0.01), "{} ms of {seconds} s", number("runtime"));
    assert_eq!((number("total_ios"), number("io_bytes")), (3000.0, 3000.0 * 4096.0));
    assert_eq!(number("io_kbytes"), 12_000.0);
    assert!(near(number("bw_bytes"), 3000.0 * 4096.0 / seconds, 0.001));
    assert!(near(number("bw"), 12_000.0 / seconds, 0.001), "{}", number("bw"));
    // Each request is in one bin.
    let bins: u64 = read["clat_ns"]["bins"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(bins, 3000);
}

/// A rate is that of its own window, and erasures add up.
#[test]
fn rates_over_time_sum_to_the_requests_and_erasures_to_the_wear() {
    let found = run(&format!("{DRIVE}[workload]\nrw = 'randrw'\nrequests = 6000\ndepth = 4\n"));
    let page = page(&found);
    let (mut began, mut sums) = (0.0, [0.0; 3]);
    for point in page["throughput"].as_array().unwrap() {
        let at = point["t_ns"].as_f64().unwrap();
        let keys = ["read_iops", "write_iops", "write_mb_s"];
        sums.iter_mut().zip(keys).for_each(|(sum, key)| *sum += point[key].as_f64().unwrap() * (at - began) / 1e9);
        began = at;
    }
    let written = of(&found, "write.count");
    assert!(near(sums[0], of(&found, "read.count"), 1e-6) && near(sums[1], written, 1e-6), "{sums:?}");
    assert!(near(sums[2], written * 4096.0 / 1e6, 1e-6), "{sums:?}");
    let erases: Vec<u64> =
        page["timeline"].as_array().unwrap().iter().map(|point| point["erases"].as_u64().unwrap()).collect();
    assert!(erases.is_sorted() && erases.last().is_some_and(|&last| last as f64 == of(&found, "wear.erases")));
    assert!(erases.last() > Some(&20), "{erases:?}");
    let names: Vec<_> = page["wear"]["groups"].as_array().unwrap().iter().map(|group| &group["name"]).collect();
    assert_eq!(names, ["channel 0, die 0", "channel 1, die 0"]);
}

#[test]
fn a_thousand_years_are_a_thousand_of_365_and_a_quarter_days() {
    assert_eq!(span(1000.0 * 365.25 * 86_400e9), "1000 years");
}

#[test]
fn why_a_run_ended_is_said_with_the_number_that_it_reached() {
    let flash = "title = 't'\n[nand]\npebs = 128\npeb_bytes = 32768\npage_bytes = 1024\ndelays = 'on'\n[fs]\ncompression = 'none'\n\
                 [sysbench]\nfile_num = 1\nfile_total_bytes = 65536\nfile_block_bytes = 4096\nmax_requests = 0\n[stop]\n";
    let found = run(&format!("{flash}steps = 2000\n"));
    let steps = grouped(of(&found, "run.steps") as u64);
    assert_eq!(ended::of(&found), format!("The run ended after {steps} steps of the load."));
    let found = run(&format!("{flash}virtual_s = 1.25\n"));
    // It is looked at after each 64th step.
    let ns = found.measured.virtual_ns as f64;
    assert!((1.25e9..1.4e9).contains(&ns), "{ns}");
    assert_eq!(ended::of(&found), format!("The run ended after {} of virtual time.", span(ns)));
}

/// Without ECC nobody notices wrong bits, but the answer has their number.
#[test]
fn wrong_bits_without_ecc_are_in_the_answer() {
    let found = run("title = 't'\n[nand]\npebs = 64\n[ubi]\nfastmap = false\n[workload]\nkind = 'volumes'\n\
                     [workload.volume.root]\npattern = 'static'\nsize_bytes = 1_000_000\nreads_per_day = 24\n\
                     [faults]\necc_bits = 0\nbitflips = 1\n[stop]\ndays = 1\n");
    let bits = found.measured.faults.unwrap().unnoticed_bits;
    let expected = format!("{} wrong bits reached the reader, as there is no ECC.", grouped(bits));
    assert!(bits > 0 && answer::of(&found).contains(&expected), "{:?}", answer::of(&found));
}

/// A line of a comparison has the metric of each run by its name.
#[test]
fn a_comparison_has_the_figures_of_its_runs() {
    let with = |depth: u32| {
        run(&format!("{DRIVE}[workload]\nrw = 'randrw'\nread_percent = 30\nrequests = 3000\ndepth = {depth}\n"))
    };
    let (one, many) = (with(1), with(32));
    let lines = answer::comparison(&[("one".to_owned(), &one), ("many".to_owned(), &many)]);
    assert!(lines.contains(&"workload.depth: one 1, many 32".to_owned()), "{lines:?}");
    for (words, id) in [("99 % of reads within", "read.p99_us"), ("99 % of writes within", "write.p99_us")] {
        let shown = |found: &Outcome| span(of(found, id) * 1e3);
        let begins = format!("{words}: one {}, many {}, ", shown(&one), shown(&many));
        assert!(lines.iter().any(|line| line.starts_with(&begins)), "{begins}: {lines:?}");
    }
}

#[test]
fn of_blocks_that_are_worn_alike_the_first_is_named() {
    let mut found = run(&format!("{DRIVE}[workload]\nrequests = 1\n"));
    found.measured.erase_counts = vec![3, 9, 4, 9, 9];
    assert_eq!(found.measured.most_worn(), (1, 9));
}

/// Points of two keys and three seeds with a made-up metric: 1000 - 10 x depth - queue - seed.
fn made_up(text: &str) -> (Sweep, Vec<Row>) {
    let vary = ["workload.depth=1,4", "ssd.front.depth=16,32", "seed=1,2,6"].map(str::to_owned);
    let sweep = Sweep::new(text, &[], &vary, None, "", Library::embedded()).unwrap();
    let row = |values: &[String]| {
        let [depth, queue, seed] = [0, 1, 2].map(|at| values[at].parse::<f64>().unwrap());
        let mut metrics = Metrics::default();
        metrics.put("write.iops", 1000.0 - 10.0 * depth - queue - seed);
        Row { fingerprint: "f".repeat(64), metrics }
    };
    let rows = sweep.points.iter().map(|point| row(&point.values)).collect();
    (sweep, rows)
}

#[test]
fn a_chart_of_a_sweep_has_means_over_its_seeds_at_their_places() {
    let (sweep, rows) = made_up(&format!("{DRIVE}[workload]\n"));
    let pairs: Vec<_> = sweep.points.iter().zip(&rows).collect();
    let ids = ["write.iops".to_owned()];
    let document = report::sweep::document(&sweep, &pairs, &ids)["sweep"].clone();
    // The mean of the seeds is 3.
    let at = |depth: f64, queue: f64| 997.0 - 10.0 * depth - queue;
    let figure = &document["figures"][0];
    let z: Vec<Vec<f64>> = serde_json::from_value(figure["z"].clone()).unwrap();
    assert_eq!((&figure["x"]["label"], &figure["y"]["label"]), (&"ssd.front.depth".into(), &"workload.depth".into()));
    assert_eq!(z, [[at(1.0, 16.0), at(1.0, 32.0)], [at(4.0, 16.0), at(4.0, 32.0)]]);
    let lines = &document["lines"][0];
    assert!(lines["title"].as_str().unwrap().ends_with("mean over 3 seeds"), "{lines}");
    let series = lines["series"].as_array().unwrap();
    assert_eq!(series.len(), 2);
    for series in series {
        let values: Vec<f64> = serde_json::from_value(series["values"].clone()).unwrap();
        let expected = match (lines["x"]["label"].as_str().unwrap(), series["name"].as_str().unwrap()) {
            ("ssd.front.depth", "workload.depth 1") => [at(1.0, 16.0), at(1.0, 32.0)],
            ("ssd.front.depth", "workload.depth 4") => [at(4.0, 16.0), at(4.0, 32.0)],
            other => panic!("{other:?}"),
        };
        assert_eq!(values, expected, "{series}");
    }
    // The least value is that of the last point.
    let answer = report::sweep::answer(&sweep.axes, &pairs, &ids);
    let (least, most) = ("from 922", "to 973");
    let last = "(workload.depth 4, ssd.front.depth 32, seed 6)";
    let first = "(workload.depth 1, ssd.front.depth 16, seed 1)";
    assert!(answer[0].contains(&format!("{least} 1/s {last} {most} 1/s {first}, 1.06 times.")), "{answer:?}");
}

#[test]
fn a_varied_key_is_set_last_and_a_sample_of_the_file_is_drawn() {
    let sweep = |text: &str, sets: &[(&str, &str)], samples, input: &str| {
        let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        Sweep::new(text, &sets, &[], samples, input, Library::embedded()).unwrap()
    };
    let text = format!("{DRIVE}[workload]\n[sweep]\nvary = ['workload.depth=1,4,16,64', 'seed=1,2,3']\n");
    let all = sweep(&text, &[("workload.depth", "7"), ("ssd.blocks", "64")], None, "");
    assert_eq!(all.points.len(), 12);
    for point in &all.points {
        let experiment = &point.prepared.experiment;
        let found = (experiment.fio_job().depth.to_string(), experiment.seed.to_string());
        assert_eq!([found.0, found.1], point.values[..]);
        assert_eq!(experiment.ssd.as_ref().unwrap().blocks, 64);
    }
    let sampled = format!("{text}samples = 5\n");
    assert_eq!(sweep(&sampled, &[], None, "").points.len(), 5);
    assert_eq!(sweep(&sampled, &[], Some(3), "").points.len(), 3);
    // A result is that of its input too, as of the trace that an experiment names.
    let ids =
        |input: &str| sweep(&text, &[], None, input).points.iter().map(|point| point.id.clone()).collect::<Vec<_>>();
    let (one, other) = (ids("a digest"), ids("another digest"));
    assert!(one.iter().all(|id| !other.contains(id)) && one == ids("a digest"));
}

#[test]
fn the_average_request_of_a_trace_is_in_kib() {
    let mut pattern = Pattern::new(PatternOptions::default());
    for (at, op, bytes) in [(0, BlockOp::Read, 4096), (1, BlockOp::Read, 12_288), (2, BlockOp::Write, 65_536)] {
        pattern.add(&TraceRecord::new(Ns(at), op, at * 65_536, bytes));
    }
    let notes = Notes::default();
    let trace = trace_report::Trace { name: "made", format: Format::Ntrace, why: "", notes: &notes, pattern: &pattern };
    let summary = trace_report::document(&trace)["summary"].clone();
    let fact = |label: &str| {
        let fact = summary.as_array().unwrap().iter().find(|fact| fact["label"] == label);
        fact.unwrap_or_else(|| panic!("{label}: {summary}"))["value"].clone()
    };
    assert_eq!((fact("average read"), fact("average write")), ("8.0 KiB".into(), "64.0 KiB".into()));
}
