//! The window of measurement of a run on a drive: from its first counted request to its last completion.

use runner::measure::Outcome;
use runner::run::Prepared;
use sim::Ns;
use sim::seam::BlockRequest;
use workload::replay::Arrival;

const DRIVE: &str = "title = 't'\n[ssd]\nchannels = 2\nways = 2\nplanes = 2\nblocks = 64\npages = 32\n\
                     over_provisioning_percent = 20\n";

fn run(text: &str) -> Outcome {
    let prepared = Prepared::resolve(&format!("{DRIVE}{text}"), &[]).unwrap_or_else(|error| panic!("{error}"));
    prepared.run(None, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

fn of(outcome: &Outcome, id: &str) -> f64 {
    outcome.metrics().value(id).unwrap_or_else(|error| panic!("{error}"))
}

const STEADY: &str = "[precondition]\nkind = 'steady'\n";

#[test]
fn collection_after_the_last_completion_is_debt_and_in_no_other_figure() {
    // Dies are never idle for a second in the run, so background collection begins after it.
    let with = |gc_background: u32| {
        run(&format!(
            "ftl.gc_background = {gc_background}\nftl.background_after_us = 1e6\n{STEADY}\
             [workload]\nrequests = 500\ndepth = 4\n"
        ))
    };
    let (none, much) = (with(0), with(24));
    assert!(of(&much, "debt.pages") > 1000.0 && of(&much, "debt.erases") > 10.0 && of(&much, "debt.seconds") > 1.0);
    assert_eq!([of(&none, "debt.pages"), of(&none, "debt.erases"), of(&none, "debt.seconds")], [0.0; 3]);
    for metric in none.metrics().all().iter().filter(|metric| !metric.id.starts_with("debt.")) {
        assert_eq!(of(&much, &metric.id), metric.value, "{}", metric.id);
    }
    assert_eq!(much.measured.erase_counts, none.measured.erase_counts);
    assert_eq!(much.drive().unwrap().timeline, none.drive().unwrap().timeline);
}

#[test]
fn the_run_ends_with_its_last_completion() {
    let found = run("[precondition]\nkind = 'sequential'\n[workload]\nrw = 'read'\nrequests = 1\n");
    let (time, latency) = (of(&found, "run.time_us"), of(&found, "read.mean_us"));
    assert!(time > 10.0 && time == latency, "{time} us, of which the read took {latency}");
}

#[test]
fn amplification_does_not_depend_on_the_length_of_the_run() {
    let waf = |requests: u32| {
        let found = run(&format!(
            "cache.policy = 'lru'\ncache.mib = 2\nfront.write_cache = true\nftl.foreground = 'paced'\n{STEADY}\
             settled_within = 0.005\n[workload]\nrequests = {requests}\ndepth = 8\n"
        ));
        assert!(found.drive().unwrap().before.warm_up.unwrap().settled);
        of(&found, "waf")
    };
    let (short, long) = (waf(3_000), waf(100_000));
    assert!((short / long - 1.0).abs() < 0.03, "{short} after 3,000 requests, {long} after 100,000");
}

#[test]
fn without_a_warm_up_the_buffer_holds_a_short_run() {
    let found = run(&format!(
        "cache.policy = 'lru'\ncache.mib = 2\nfront.write_cache = true\n{STEADY}warm_up_windows = 0\n\
         [workload]\nrequests = 400\n"
    ));
    assert_eq!((of(&found, "waf"), of(&found, "debt.buffered_pages") > 300.0), (0.0, true));
    assert_eq!(found.drive().unwrap().before.warm_up, None);
}

#[test]
fn a_ramp_is_in_no_figure_but_the_timeline() {
    let found = run(&format!("{STEADY}[workload]\nramp_s = 0.5\nseconds = 1\ndepth = 8\n"));
    let drive = found.drive().unwrap();
    let written = drive.op("write").unwrap().bytes;
    let all: u64 = drive.timeline.iter().map(|point| point.bytes[1]).sum();
    // The first request that counts opens the window.
    assert_eq!(drive.write_amplification.host_bytes, written - 4096);
    assert!(all > written + written / 3, "{all} bytes with the ramp, {written} without");
    assert!((1_000_000_000..1_050_000_000).contains(&drive.measured_ns), "{} ns", drive.measured_ns);
    let erases: u64 = drive.timeline.iter().map(|point| point.erases).sum();
    assert!(drive.wear.erases > 0 && drive.wear.erases < erases - erases / 5, "{} of {erases}", drive.wear.erases);
    assert!(drive.utilisation.dies.iter().all(|&share| (0.0..=1.01).contains(&share)));
}

#[test]
fn merges_of_the_preconditioning_do_not_count() {
    let found = run("ftl.mapping = 'bast'\nftl.log_blocks = 4\n[precondition]\nkind = 'random'\n\
                     [workload]\nrw = 'randread'\nrequests = 100\n");
    for id in ["merge.switch", "merge.partial", "merge.full", "merge.pages_copied", "wear.erases"] {
        assert_eq!(of(&found, id), 0.0, "{id}");
    }
    assert!(found.drive().unwrap().before.erases > 0);
}

/// By hand: all requests come at once and the drive takes one at a time, so that the n-th waits for n - 1 others.
#[test]
fn a_request_is_as_late_as_it_waited_in_the_host() {
    let text = "front.depth = 1\n[precondition]\nkind = 'sequential'\n[trace]\nfile = 'made here'\nmode = 'open'\n";
    let reads = |count: u64| {
        let prepared = Prepared::resolve(&format!("{DRIVE}{text}"), &[]).unwrap_or_else(|error| panic!("{error}"));
        let mut arrivals = (0..count).map(|at| -> Arrival { (Ns(0), BlockRequest::read(at * 8, 8), None).into() });
        prepared.run(Some(&mut arrivals), &mut |_| ()).unwrap()
    };
    let [one, found] = [1, 9].map(reads);
    let alone = of(&one, "read.mean_us");
    assert!((of(&found, "read.mean_us") / alone - 5.0).abs() < 1e-9, "1 + 2 + … + 9 over 9");
    assert!((of(&found, "read.max_us") / alone - 9.0).abs() < 0.01);
    let time = &found.drive().unwrap().op("read").unwrap().time;
    let host = time.iter().find(|(part, _)| part == "host").map_or(0.0, |(_, ns)| *ns);
    assert!((host / 1e3 / alone - 4.0).abs() < 1e-9, "{time:?}");
}

#[test]
fn the_timeline_has_every_request_though_nothing_is_programmed() {
    let found = run("[precondition]\nkind = 'sequential'\n[workload]\nrw = 'randread'\nrequests = 777\n");
    let points = &found.drive().unwrap().timeline;
    assert_eq!(points.iter().map(|point| point.requests[0]).sum::<u64>(), 777);
    assert_eq!(points.iter().map(|point| point.bytes[0]).sum::<u64>(), 777 * 4096);
    assert_eq!(points.last().unwrap().t_ns, found.measured.virtual_ns);
}

/// Pages that the drive moved in the window are those of its flows, and those that were there before.
#[test]
fn pages_moved_in_a_ramp_are_in_no_flow() {
    let flow =
        |name: &str| format!("[[flow]]\nname = '{name}'\nrw = 'randwrite'\ndepth = 4\nramp_s = 3\nseconds = 6\n");
    let found = run(&format!("{STEADY}{}{}", flow("a"), flow("b")));
    let drive = found.drive().unwrap();
    let moved: u64 = drive.flows.iter().map(|flow| flow.pages_moved).sum();
    let shares: f64 = drive.flows.iter().filter_map(|flow| flow.moved_share).sum();
    let gc = drive.write_amplification.by_cause.iter().find(|cause| cause.cause == "gc").map_or(0, |cause| cause.bytes);
    assert!(moved > 1000 && shares < 1.0, "{moved} pages, {shares}");
    assert!(
        (moved as f64 / shares * 4096.0 / gc as f64 - 1.0).abs() < 1e-9,
        "{moved} pages are {shares} of {gc} bytes"
    );
}

/// The first of two jobs in turn writes at random, all in its ramp; the second writes in order.
#[test]
fn what_is_written_in_a_ramp_is_no_part_of_the_pattern() {
    let job = "[workload]\nfio = '''\n[random]\nrw=randwrite\nbs=4k\nnumber_ios=4000\nramp_time=1000\n\
               [ordered]\nstonewall\nrw=write\nbs=64k\nsize=8m\nramp_time=1ms\n'''\n";
    let found = run(&format!("{job}[record]\npattern = true\n"));
    let counted = of(&found, "write.count");
    assert!((120.0..=128.0).contains(&counted), "{counted}: those of the second job");
    let share = of(&found, "pattern.seg_seq");
    assert!(share > 0.8, "{share}");
}

#[test]
fn a_capacity_is_what_the_host_sees() {
    let found = run("[workload]\nrw = 'write'\nblock_bytes = 65536\ndepth = 1\n[stop]\ndrive_writes = 0.5\n");
    let drive = found.drive().unwrap();
    let half = drive.logical_bytes / 2;
    assert!(
        (half..half + 2 * 65536).contains(&drive.write_amplification.host_bytes),
        "{:?}",
        drive.write_amplification
    );
}

/// Preconditioning erases each block several times as often.
#[test]
fn erasures_of_the_preconditioning_do_not_end_a_run() {
    let found = run(&format!("{STEADY}warm_up_windows = 0\n[workload]\n[stop]\nmax_erases = 6\n"));
    let blocks = found.measured.erase_counts.len() as u64;
    assert!(found.drive().unwrap().before.erases > 6 * blocks, "{:?}", found.drive().unwrap().before);
    assert_eq!(found.measured.stopped_by, "max_erases");
    assert!(of(&found, "wear.all.max") >= 6.0, "{}", of(&found, "wear.all.max"));
}

/// One of two jobs has no ramp: the window opens with its first request, which is at once.
#[test]
fn a_ramp_of_one_job_leaves_the_window_of_the_others() {
    let flow =
        |name: &str, ramp: &str| format!("[[flow]]\nname = '{name}'\nrw = 'write'\ndepth = 1\nrequests = 50\n{ramp}");
    let found = run(&format!("{}{}", flow("a", ""), flow("b", "ramp_s = 0.001\n")));
    let drive = found.drive().unwrap();
    let all: u64 = drive.timeline.iter().map(|point| point.bytes[1]).sum();
    assert_eq!(drive.write_amplification.host_bytes, all);
}

#[test]
fn faults_of_the_preconditioning_are_no_faults_of_the_run() {
    let faults = "[faults]\nprogram_failure = 0.0005\n";
    let found = run(&format!("{STEADY}[workload]\nrw = 'randread'\nrequests = 200\n{faults}"));
    let warm_up = found.drive().unwrap().before.warm_up.unwrap();
    // At three programs a page of the warm-up some of them fail, each of which makes a block bad.
    assert!(warm_up.pages > 4_000 && of(&found, "bad.blocks") > 0.0, "{warm_up:?}");
    assert_eq!(of(&found, "faults.program_failures"), 0.0);
}

/// A read of a page needs a map page only where the map has it not in memory; writes need them too.
#[test]
fn map_reads_are_counted_by_read_of_the_host() {
    let found = run("ftl.mapping = 'dftl'\nftl.map_cache_kib = 16\n[precondition]\nkind = 'sequential'\n\
                     [workload]\nrw = 'randrw'\nread_percent = 20\nrequests = 4000\n");
    let (reads, maps) = (of(&found, "flash.host_reads"), of(&found, "map.reads"));
    assert!(reads > 500.0 && reads < 1100.0 && maps > reads, "{reads} reads, {maps} of the map");
    assert_eq!(of(&found, "map.reads_per_host_read"), maps / reads);
}

/// A share is of all, and the host counts both kinds.
#[test]
fn hits_of_hpb_are_a_share_of_hits_and_misses() {
    let text = "title = 't'\n[ssd]\nblocks = 64\nfront.protocol = 'ufs'\nfront.depth = 32\nftl.mapping = 'dftl'\n\
                ftl.map_cache_kib = 16\n[ssd.hpb]\ncontrol = 'host'\n[precondition]\nkind = 'sequential'\n\
                [workload]\nrw = 'randread'\nrequests = 20000\nsize_bytes = '16MiB'\n";
    let found = Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
    let files = &found.drive().unwrap().sysfs;
    let number = |path: &str| files.iter().find(|(name, _)| name == path).unwrap().1.parse::<f64>().unwrap();
    let (hits, misses) = (number("hpb_stats/hit_cnt"), number("hpb_stats/miss_cnt"));
    assert!(hits > 0.0 && misses > 0.0 && hits + misses <= 20_000.0, "{hits}, {misses}");
    assert_eq!(of(&found, "hpb.hit_share"), hits / (hits + misses));
}

/// The blocks that may fail before a drive takes no more writes are those beyond its capacity.
#[test]
fn the_reserve_of_a_drive_is_its_spare_blocks() {
    let found = run("endurance = 100000\n[workload]\nrequests = 20000\n");
    // 8 planes of 64 blocks of 32 pages: 16,384 pages, of which 1 in 1.2 are the host's, in whole stripes of 8 pages.
    let logical = 16_384.0f64 / 1.2;
    let spare = 16_384 - (logical as u64 / 8 * 8);
    assert_eq!(of(&found, "life.reserve_blocks"), (spare / 32) as f64);
}

#[test]
fn latencies_of_the_front_are_those_of_their_operation() {
    let mean = |rw: &str, key: &str, us: u32| {
        let text = format!(
            "front.{key}_us = {us}\n[precondition]\nkind = 'sequential'\n\
                            [workload]\nrw = '{rw}'\nrequests = 20\ndepth = 1\n"
        );
        of(&run(&text), &format!("{}.mean_us", rw.trim_start_matches("rand")))
    };
    for (rw, key, more) in [
        ("randread", "read_latency", 30.0),
        ("randread", "write_latency", 0.0),
        ("randwrite", "read_latency", 0.0),
        ("randwrite", "write_latency", 30.0),
    ] {
        let [without, with] = [10, 40].map(|us| mean(rw, key, us));
        assert!((with - without - more).abs() < 1e-6, "{rw}, {key}: {without}, {with}");
    }
}

/// What collection has left to do is done before the trace begins, and costs it nothing.
#[test]
fn a_trace_with_times_begins_on_a_drive_that_is_idle() {
    let with = |mode: &str| {
        let text = format!(
            "ftl.gc_background = 24\nftl.background_after_us = 1\n{STEADY}[trace]\nfile = 'made here'\nmode = '{mode}'\n"
        );
        let prepared = Prepared::resolve(&format!("{DRIVE}{text}"), &[]).unwrap_or_else(|error| panic!("{error}"));
        let second = 1_000_000_000;
        let mut arrivals =
            (0..5).map(|at| -> Arrival { (Ns(at * second), BlockRequest::read(at * 8, 8), None).into() });
        prepared.run(Some(&mut arrivals), &mut |_| ()).unwrap()
    };
    let open = with("open");
    let before = open.drive().unwrap().before.until_idle.unwrap();
    assert!(before.pages > 1000 && before.erases > 10 && before.ns > 0, "{before:?}");
    assert_eq!((of(&open, "wear.erases"), of(&open, "debt.pages")), (0.0, 0.0));
    assert_eq!(with("closed").drive().unwrap().before.until_idle, None);
}

/// Each request waits for the one before, and then thinks as long as in the trace, divided by the speed.
#[test]
fn a_speed_divides_the_think_times_of_a_trace() {
    for mode in ["open", "dependency"] {
        let time = |speed: u32| {
            let text = format!(
                "[precondition]\nkind = 'sequential'\n[trace]\nfile = 'made here'\nmode = '{mode}'\nspeed = {speed}\n"
            );
            let prepared = Prepared::resolve(&format!("{DRIVE}{text}"), &[]).unwrap_or_else(|error| panic!("{error}"));
            let mut arrivals = (0..11).map(|at| -> Arrival {
                (Ns(at * 20_000_000), BlockRequest::read(at * 8, 8), Some(Ns(100_000))).into()
            });
            of(&prepared.run(Some(&mut arrivals), &mut |_| ()).unwrap(), "run.time_us")
        };
        let [whole, fourth] = [1, 4].map(time);
        assert!((whole / 200_000.0 - 1.0).abs() < 0.01, "{mode}: {whole} us for ten times 20 ms");
        assert!((fourth / 50_000.0 - 1.0).abs() < 0.02, "{mode}: {fourth} us at four times the speed");
    }
}
