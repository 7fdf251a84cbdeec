//! Flame graphs of runs: every nanosecond is in one frame, the tail of writes shows its cause, and a run is the same with
//! and without one.

use runner::flame::{Frame, Graph, svg};
use runner::measure::Outcome;
use runner::run::Prepared;

/// 512 PEBs of 32 pages of 1 KiB, with times.
const FLASH: &str = "title = 't'\n[nand]\npebs = 512\npeb_bytes = 32768\npage_bytes = 1024\ndelays = 'on'\n";

fn run(text: &str) -> (Outcome, Graph) {
    let prepared = Prepared::resolve(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plain = prepared.run(None, &mut |_| ()).unwrap();
    let found = prepared.with_flame().run(None, &mut |_| ()).unwrap();
    assert_eq!((&plain.fingerprint, &plain.measured.flame), (&found.fingerprint, &None), "{text}");
    let graph = found.measured.flame.as_deref().unwrap().clone();
    (found, graph)
}

/// The frame of a thread, and how long the thread waited for its next operation.
fn thread<'a>(graph: &'a Graph, name: &str) -> (&'a Frame, u64) {
    let found = graph.threads.iter().find(|thread| thread.name == name);
    let idle = graph.idle.iter().filter(|(of, _)| of == name).map(|(_, ns)| ns).sum();
    (found.unwrap_or_else(|| panic!("no thread {name}: {graph:?}")), idle)
}

/// Time of the frames under `frame` whose stack has all of these names in this order.
fn under(frame: &Frame, names: &[&str]) -> u64 {
    let rest = if names.first() == Some(&&frame.name[..]) { &names[1..] } else { names };
    if rest.is_empty() {
        return frame.total_ns();
    }
    frame.above.iter().map(|above| under(above, rest)).sum()
}

#[test]
fn the_frames_of_a_writer_on_ubi_sum_to_the_time_of_the_run_and_its_tail_is_fastmaps() {
    // Each change of the page takes a PEB anew.
    let load = "[ubi]\nwl = 'linux-6.7'\nfastmap = true\n[workload]\nkind = 'volumes'\n[workload.volume.data]\n\
        pattern = 'rewrite'\nsize_bytes = 1024\nrate_bytes = 100000\nper = 'second'\nwrite_bytes = 1024\n[stop]\nhost_bytes = 4096000\n";
    let (found, graph) = run(&format!("{FLASH}{load}"));
    let (writer, idle) = thread(&graph, "writer");
    assert_eq!(writer.total_ns() + idle, found.measured.virtual_ns);
    let of = |id: &str| found.metrics().value(id).unwrap();
    // The mean of the latencies is that of a histogram of three digits.
    let writes = under(writer, &["change a LEB"]) as f64;
    assert!((writes / (1e3 * of("leb_write.mean_us") * of("leb_write.count")) - 1.0).abs() < 1e-3, "{writes}");
    let [operation] = &writer.above[..] else { panic!("{writer:?}") };
    let slowest = operation.above.iter().find(|share| share.name.starts_with("slowest")).expect("there is a tail");
    let others = operation.above.iter().find(|share| share.name == "the others").unwrap();
    let share = |of: &Frame| under(of, &["fastmap"]) as f64 / of.total_ns() as f64;
    // The slowest write their LEB too, and wait for what UBI's thread does.
    assert!(share(slowest) > 0.3 && share(others) < 0.05, "{} and {}", share(slowest), share(others));
    assert!(thread(&graph, "UBI").0.total_ns() > 0);
}

#[test]
fn the_frames_of_a_program_on_a_file_system_sum_to_the_time_of_the_run() {
    for more in ["", "page_cache.memory_bytes = 1048576\n"] {
        let load = "[fsstress]\noperations = 3000\nprocesses = 2\n";
        let text = format!("{FLASH}[fs]\ncompression = 'none'\noperation_us = 100.0\n{more}{load}");
        let (found, graph) = run(&text);
        let (writer, idle) = thread(&graph, "writer");
        assert_eq!(writer.total_ns() + idle, found.measured.virtual_ns);
        // What the processor takes for an operation is the same for each; copying from and to the flash adds a little.
        let files = found.flash().unwrap().file_system.as_ref().unwrap();
        let operations: u64 = files.count(|op| op.done + op.failed + op.nothing + op.refused);
        let processor = under(writer, &["processor"]);
        assert!((100_000..110_000).contains(&(processor / operations)), "{processor} of {operations} operations");
        assert!(under(writer, &["journal"]) > 0 && under(writer, &["unmount"]) > 0, "{}", graph.folded());
        let lines = graph.folded();
        let sum: u64 = lines.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        let all: u64 = graph.threads.iter().map(Frame::total_ns).chain(graph.idle.iter().map(|(_, ns)| *ns)).sum();
        assert_eq!(sum, all);
        assert_eq!(svg(&graph, "t"), svg(&run(&text).1, "t"));
    }
}

#[test]
fn the_frames_of_a_drive_sum_to_the_latencies_of_its_requests() {
    let load = "title = 't'\n[ssd]\npart = 'sata-tlc'\n[workload]\nrw = 'randrw'\nrequests = 3000\ndepth = 8\n";
    let (found, graph) = run(load);
    let (requests, idle) = thread(&graph, "requests");
    let latencies: f64 = found.drive().unwrap().ops.iter().map(|op| op.mean_ns * op.count as f64).sum();
    assert!((requests.total_ns() as f64 / latencies - 1.0).abs() < 1e-9 && idle == 0, "{latencies}");
    assert_eq!(requests.above.len(), 2, "reads and writes");
}

#[test]
fn the_frames_of_dies_and_buses_sum_to_the_time_in_which_they_worked_and_name_the_causes() {
    // Written twice over and at random, in less spare than that, with a map of which a part is cached.
    let load = "title = 't'\n[ssd]\nchannels = 2\nways = 1\ndies = 1\nplanes = 2\nblocks = 40\npages = 64\npage_kib = 4.0\n\
        over_provisioning_percent = 15\n[ssd.ftl]\nmapping = 'dftl'\nmap_cache_kib = 8\n[workload]\nrw = 'randrw'\nrequests = 30000\ndepth = 8\n";
    let (found, graph) = run(load);
    let utilisation = &found.drive().unwrap().utilisation;
    for (name, shares) in [("dies", &utilisation.dies), ("buses", &utilisation.channels)] {
        let (frame, _) = thread(&graph, name);
        // Every request counts, so that the shares are of the whole run.
        let busy = shares.iter().sum::<f64>() * found.measured.virtual_ns as f64;
        assert!((frame.total_ns() as f64 / busy - 1.0).abs() < 1e-9, "{name}: {} and {busy}", frame.total_ns());
        for cause in ["host", "gc", "map"] {
            assert!(under(frame, &[cause]) > 0, "{name}, {cause}: {}", graph.folded());
        }
    }
    let (dies, _) = thread(&graph, "dies");
    assert!(
        under(dies, &["gc", "erase"]) > 0 && under(dies, &["gc", "read"]) > 0 && under(dies, &["gc", "program"]) > 0
    );
    let drawn = svg(&graph, "t");
    assert!(drawn.contains("work of all dies by cause: ") && drawn.contains("latency of all requests by part: "));
}

#[test]
fn the_frames_of_a_ubiblock_sum_to_the_time_of_its_driver() {
    let load = "[ubiblock]\nform = 'atomic'\n[workload]\nrw = 'randwrite'\nrequests = 400\n";
    let (found, graph) = run(&format!("{FLASH}{load}"));
    let (driver, idle) = thread(&graph, "ubiblock");
    // One request at a time: the driver ends with the last of them.
    assert_eq!(driver.total_ns() + idle, found.measured.virtual_ns);
    assert!(under(driver, &["write", "program"]) > 0 && under(thread(&graph, "UBI").0, &["erase"]) > 0);
}

#[test]
fn volumes_have_operations_by_kind() {
    let load = "[ubi]\nfastmap = true\n[workload]\nkind = 'volumes'\n[workload.volume.logs]\npattern = 'append'\n\
        rate_bytes = 100000\nper = 'minute'\nwrite_bytes = 4096\n[workload.volume.image]\npattern = 'image'\n\
        size_bytes = 1000000\nimage_bytes = 500000\nevery_days = 0.5\n[stop]\ndays = 2\n";
    let (found, graph) = run(&format!("{FLASH}{load}"));
    let (writer, idle) = thread(&graph, "writer");
    assert_eq!(writer.total_ns() + idle, found.measured.virtual_ns);
    assert!(under(writer, &["write"]) > 0 && under(writer, &["update"]) > 0, "{}", graph.folded());
}
