//! Flows: several jobs on one drive, each with a queue and results of its own.

use runner::measure::outcome::drive::{DriveOutcome, FlowFigures};
use runner::run::Prepared;

const DRIVE: &str = "title = 'flows'
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 64
pages = 32
over_provisioning_percent = 20
[ssd.front]
protocol = 'nvme'
depth = 64
command_us = 10
[precondition]
kind = 'sequential'
";

fn run(load: &str, sets: &[(&str, &str)]) -> DriveOutcome {
    let sets: Vec<_> = sets.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let prepared = Prepared::resolve(&format!("{DRIVE}{load}"), &sets).unwrap();
    prepared.run(None, &mut |_| ()).unwrap().drive().unwrap().clone()
}

fn rates(flows: &[FlowFigures], op: &str) -> Vec<f64> {
    flows.iter().map(|flow| flow.op(op).map_or(0.0, |op| op.iops)).collect()
}

const READERS: &str = "[[flow]]
name = 'a'
rw = 'randread'
depth = 16
[[flow]]
name = 'b'
rw = 'randread'
depth = 16
[stop]
requests = 20000
";

#[test]
fn weights_of_queues_divide_the_commands_that_the_controller_fetches() {
    // The controller is the bottleneck: it fetches a command in 100 us, from each queue by its weight in turn.
    let weighted =
        |weights| run(READERS, &[("ssd.front.command_us", "100"), ("ssd.front.queue_weights", weights)]).flows;
    let flows = weighted("[3, 1]");
    assert_eq!(flows.iter().map(|flow| (flow.name.as_str(), flow.queue)).collect::<Vec<_>>(), [("a", 0), ("b", 1)]);
    let rates = rates(&flows, "read");
    assert!((rates[0] / rates[1] - 3.0).abs() < 0.1, "{rates:?}");
    let rates = self::rates(&weighted("[1, 1]"), "read");
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.05, "{rates:?}");
}

#[test]
fn flows_beyond_the_queues_share_them_in_turn() {
    let flows =
        run(&format!("[[flow]]\nname = 'c'\nrw = 'randread'\n{READERS}"), &[("ssd.front.queue_weights", "[1, 1]")]);
    assert_eq!(flows.flows.iter().map(|flow| flow.queue).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn jobs_of_a_fio_file_are_flows() {
    let job = "[workload]\nfio = '''\n[x]\nrw=randread\nnumber_ios=50\n[y]\nrw=randwrite\nnumber_ios=30\n'''\n";
    let found = run(job, &[]);
    let counts: Vec<u64> = found.flows.iter().flat_map(|flow| &flow.ops).map(|op| op.count).collect();
    assert_eq!(counts, [50, 30]);
}

#[test]
fn the_pages_of_the_flow_that_is_overwritten_at_random_move_and_those_of_the_other_do_not() {
    // One flow writes its half of the drive in order, again and again: its blocks are erased whole. The other writes at
    // random: what is left in its blocks is moved.
    let half = 2 * 64 * 32 * 4096 * 10 / 12 / 2 / 4096 * 4096;
    let load = format!(
        "[[flow]]\nname = 'random'\nrw = 'randwrite'\ndepth = 4\nsize_bytes = {half}\n\
         [[flow]]\nname = 'reader'\nrw = 'randread'\ndepth = 4\n[stop]\ndrive_writes = 4\n"
    );
    let found = run(&load, &[]);
    let [random, reader] = &found.flows[..] else { panic!("{:?}", found.flows) };
    assert_eq!((reader.pages_moved, reader.write_amplification), (0, None));
    // What the drive moved and was not written by the flow was there before.
    let gc = found.write_amplification.by_cause.iter().find(|cause| cause.cause == "gc").map_or(0, |cause| cause.bytes);
    assert!(random.pages_moved > 0 && random.pages_moved * 4096 <= gc, "{} pages of {gc} bytes", random.pages_moved);
    let written = random.op("write").unwrap().bytes;
    let expected = 1.0 + (random.pages_moved * 4096) as f64 / written as f64;
    assert!((random.write_amplification.unwrap() - expected).abs() < 1e-9);
}

#[test]
fn results_of_flows_add_up_to_those_of_the_drive() {
    let found = run(READERS, &[("ssd.front.queue_weights", "[3, 1]")]);
    let sum: u64 = found.flows.iter().map(|flow| flow.op("read").unwrap().count).sum();
    assert_eq!(sum, found.op("read").unwrap().count);
}

#[test]
fn flows_that_cannot_be_told_apart_or_have_no_effect_are_refused() {
    for (load, what) in [
        ("[workload]\n[[flow]]\nname = 'a'\n", "one load"),
        ("[[flow]]\nname = 'a'\n[[flow]]\nname = 'a'\n", "flow[1].name"),
        ("[[flow]]\nname = 'a'\nfio = '[x]'\n", "flow[0].fio"),
        ("[[flow]]\nname = 'a'\nblock_bytes = 777\n", "flow[0].block_bytes"),
        ("[[flow]]\nnaem = 'a'\n", "naem"),
        ("[iozone]\n[[flow]]\nname = 'a'\n", "one load"),
    ] {
        let error = Prepared::resolve(&format!("{DRIVE}{load}"), &[]).unwrap_err().to_string();
        assert!(error.contains(what), "{load}: {error}");
    }
}
