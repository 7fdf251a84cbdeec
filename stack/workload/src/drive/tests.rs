//! Loads on a disk in memory, against times worked out by hand.

use proptest::prelude::*;
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload, RamDisk};
use sim::{Ns, Seed};

use super::{run as drive, *};
use crate::fio::{FioLoad, Job, parse};
use crate::replay::{Arrival, ClosedReplay, DependencyReplay, OpenReplay, Speed};

const SECTORS: u64 = 4096;

fn jobs(text: &str) -> Vec<Job> {
    parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn disk(depth: u32, servers: usize, service_us: u64) -> RamDisk {
    RamDisk::new(SECTORS, depth, servers, Ns::from_us(service_us))
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    job: usize,
    request: BlockRequest,
    span: Span,
    counted: bool,
}

fn run_on<D: BlockDevice>(device: &mut D, text: &str, limits: Limits) -> (Report, Vec<Seen>) {
    let mut seen = Vec::new();
    let mut observer = |job: usize, request: &BlockRequest, span: Span, counted: bool| {
        seen.push(Seen { job, request: *request, span, counted });
    };
    let jobs = jobs(text);
    let mut load = FioLoad::new(&jobs, device.sectors(), Seed(1)).unwrap_or_else(|error| panic!("{error}"));
    let report = drive(device, &mut load, Ns::ZERO, limits, &mut observer);
    (report, seen)
}

fn run(mut device: RamDisk, text: &str) -> (Report, Vec<Seen>) {
    run_on(&mut device, text, Limits::NONE)
}

fn play<D: BlockDevice, L: Load, O: Observer>(device: &mut D, mut load: L, observer: &mut O) -> Report<O::Stop> {
    drive(device, &mut load, Ns::ZERO, Limits::NONE, observer)
}

fn us(ns: Ns) -> u64 {
    assert!(ns.0.is_multiple_of(1000), "{ns:?}");
    ns.0 / 1000
}

fn issues(seen: &[Seen]) -> Vec<u64> {
    let mut issues: Vec<_> = seen.iter().map(|seen| us(seen.span.issued)).collect();
    issues.sort();
    issues
}

#[test]
fn k_servers_have_the_throughput_of_k_over_service() {
    for (servers, depth, at_work) in [(1, 8, 1), (4, 8, 4), (4, 4, 4), (4, 2, 2), (8, 8, 8)] {
        let text = format!("[a]\nrw=randread\nioengine=libaio\niodepth={depth}\nnumber_ios=400\ntime_based\nruntime=9");
        let (report, seen) = run(disk(32, servers, 10), &text);
        assert_eq!((us(report.to), seen.len(), report.ended), (400 / at_work * 10, 400, Ended::Done));
        let read = report.jobs[0].op(BlockOp::Read);
        assert_eq!((read.requests, read.bytes, read.first, read.last), (400, 400 * 4096, Ns::ZERO, report.to));
    }
}

#[test]
fn a_job_deeper_than_the_device_waits_in_the_host_in_order() {
    let (report, seen) = run(disk(2, 2, 10), "[a]\nrw=read\nioengine=libaio\niodepth=8\nnumber_ios=80\nsize=1m");
    assert_eq!((us(report.to), report.max_waiting), (400, 6));
    assert!(seen.windows(2).all(|pair| pair[0].request.sector < pair[1].request.sector));
    for seen in &seen[16..] {
        let span = seen.span;
        assert_eq!((us(span.host_wait()), us(span.device()), us(span.latency())), (30, 10, 40));
    }
}

#[test]
fn jobs_share_the_queue_in_the_order_of_issue() {
    let text = "[global]\nioengine=libaio\nrw=read\ntime_based\nruntime=10ms\n[a]\niodepth=1\n[b]\niodepth=3";
    let (report, seen) = run(disk(1, 1, 10), text);
    let of = |job: usize| seen.iter().filter(|seen| seen.job == job).count();
    assert_eq!((of(0), of(1)), (251, 752));
    assert_eq!(us(report.to), 10_030);
    assert!(seen.iter().skip(4).take(900).all(|seen| us(seen.span.latency()) == 40));
}

#[test]
fn the_ramp_is_left_out_and_adds_to_the_runtime() {
    let (report, seen) = run(disk(4, 1, 10), "[a]\nrw=read\ntime_based\nramp_time=1ms\nruntime=2ms");
    let totals = report.jobs[0];
    // Done at 10 us, 20 us and so on: those at 1 ms and later count. The last is issued before 3 ms.
    assert_eq!((totals.ramp_requests, totals.requests()), (99, 201));
    assert_eq!((us(totals.from), us(totals.to), us(totals.window())), (1000, 3000, 2000));
    assert!(seen.iter().all(|seen| seen.counted == (us(seen.span.done) >= 1000)));
}

#[test]
fn a_runtime_ends_a_job_that_its_size_would_not() {
    let (report, _) = run(disk(4, 1, 10), "[a]\nrw=read\nruntime=95us\nio_size=1g");
    assert_eq!((report.jobs[0].requests(), us(report.to)), (10, 100));
    let (report, _) = run(disk(4, 1, 10), "[a]\nrw=read\nruntime=1\nio_size=40k");
    assert_eq!((report.jobs[0].requests(), us(report.to)), (10, 100));
}

#[test]
fn a_stonewall_waits_for_all_before_it_and_startdelay_for_itself() {
    let text =
        "[global]\nrw=read\nnumber_ios=10\n[a]\n[b]\nnumber_ios=20\n[c]\nstonewall\nstartdelay=5us\nnumjobs=2\n[d]";
    let (report, seen) = run(disk(8, 8, 10), text);
    let from = |job: usize| us(seen.iter().filter(|seen| seen.job == job).map(|seen| seen.span.issued).min().unwrap());
    assert_eq!([from(0), from(1), from(2), from(3)], [0, 0, 205, 200]);
    assert_eq!((report.jobs[2].requests(), us(report.jobs[2].to)), (20, 305));
    assert_eq!(us(report.jobs[3].window()), 100);
}

#[test]
fn clones_work_in_segments_of_their_own() {
    let (_, seen) = run(disk(8, 8, 10), "[a]\nrw=write\nnumjobs=4\noffset_increment=64k\nsize=64k");
    let mut sectors: Vec<_> = seen.iter().map(|seen| seen.request.sector / 8).collect();
    sectors.sort();
    assert!(sectors.into_iter().eq(0..64));
}

/// Of a job, nothing else is under way while its flush is; the other job goes on.
#[test]
fn a_flush_finds_its_job_drained_and_holds_it_up() {
    let text = "[global]\nioengine=libaio\niodepth=4\nrw=randwrite\nnumber_ios=60\nend_fsync=1\n[a]\nfsync=5\n[b]";
    let (report, seen) = run(disk(3, 2, 10), text);
    assert_eq!((report.jobs[0].op(BlockOp::Flush).requests, report.jobs[1].op(BlockOp::Flush).requests), (12, 1));
    for flush in seen.iter().filter(|seen| seen.request.op == BlockOp::Flush) {
        let others = seen.iter().filter(|other| other.job == flush.job && other.span != flush.span);
        let writes = others.clone().filter(|other| other.span.done <= flush.span.issued).count();
        assert!(others.clone().all(|it| it.span.done <= flush.span.issued || it.span.issued >= flush.span.done));
        assert!(flush.job == 1 || writes >= 5);
    }
    assert!(seen.iter().any(|flush| {
        flush.request.op == BlockOp::Flush
            && seen
                .iter()
                .any(|it| it.job != flush.job && it.span.issued < flush.span.done && it.span.done > flush.span.issued)
    }));
}

#[test]
fn one_write_then_one_flush_whatever_the_depth() {
    let (report, seen) = run(disk(8, 8, 10), "[a]\nrw=write\nioengine=libaio\niodepth=8\nfsync=1\nnumber_ios=50");
    let ops: Vec<_> = seen.iter().map(|seen| seen.request.op).collect();
    assert!(ops.iter().enumerate().all(|(at, &op)| (op == BlockOp::Flush) == (at % 2 == 1)));
    // The flush of an idle disk takes no time.
    assert_eq!((ops.len(), us(report.to)), (99, 500));
}

#[test]
fn think_time_drains_then_pauses() {
    let base = "[a]\nrw=read\nioengine=libaio\nthinktime=25\nnumber_ios=";
    let (_, seen) = run(disk(8, 8, 10), &format!("{base}4"));
    assert_eq!(issues(&seen), [0, 35, 70, 105]);
    let (_, seen) = run(disk(8, 8, 10), &format!("{base}6\nthinktime_blocks=2"));
    assert_eq!(issues(&seen), [0, 10, 45, 55, 90, 100]);
    // Counted at issue, four go at once, up to the depth, and the pause follows when all are done.
    let (_, seen) =
        run(disk(8, 8, 10), &format!("{base}12\nthinktime_blocks=4\nthinktime_blocks_type=issue\niodepth=8"));
    assert_eq!(issues(&seen), [0, 0, 0, 0, 35, 35, 35, 35, 70, 70, 70, 70]);
    // Counted at completion, the first fill of the queue goes out before any is counted; then one at a time.
    let (_, seen) = run(disk(8, 8, 10), &format!("{base}7\niodepth=4"));
    assert_eq!(issues(&seen), [0, 0, 0, 0, 35, 70, 105]);
}

#[test]
fn rates_cap_bytes_or_requests_from_the_start_of_the_job() {
    let base = "[a]\nrw=read\nioengine=libaio\niodepth=4\nnumber_ios=5\nbs=4k\n";
    let (_, seen) = run(disk(8, 8, 10), &format!("{base}rate=4096000"));
    assert_eq!(issues(&seen), [0, 1000, 2000, 3000, 4000]);
    let (_, seen) = run(disk(8, 8, 10), &format!("{base}rate_iops=2000\nstartdelay=1ms"));
    assert_eq!(issues(&seen), [1000, 1500, 2000, 2500, 3000]);
    // A slow spell is made up for: the device is slower than the cap at first (a flush-free disk of 10 ms).
    let (_, seen) = run(disk(8, 8, 10_000), &format!("{base}rate_iops=200"));
    assert_eq!(issues(&seen), [0, 10_000, 10_000, 20_000, 20_000]);
    // Only writes are capped: reads fill the time between.
    let text = "[a]\nrw=rw\nrate_iops=,1000\nruntime=100ms\ntime_based";
    let (report, _) = run(disk(8, 8, 10), text);
    let (reads, writes) = (report.jobs[0].op(BlockOp::Read).requests, report.jobs[0].op(BlockOp::Write).requests);
    assert!((95..=101).contains(&writes) && reads > 5000, "{reads} {writes}");
}

#[test]
fn poisson_rates_have_the_mean_gap_of_their_rate_and_its_deviation() {
    let text =
        "[a]\nrw=randread\nnorandommap\nrate_iops=1000\nrate_process=poisson\nnumber_ios=20000\ntime_based\nruntime=1d";
    let (_, seen) = run(disk(8, 8, 1), text);
    let issued: Vec<_> = seen.iter().map(|seen| seen.span.issued.0 as f64 / 1e6).collect();
    let gaps: Vec<_> = issued.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 0.03 && (variance - 1.0).abs() < 0.08, "{mean} {variance}");
}

#[test]
fn limits_end_a_run_and_what_is_under_way_is_completed() {
    let text = "[a]\nrw=read\nioengine=libaio\niodepth=4\ntime_based\nruntime=1h\n[b]\nstonewall";
    let (report, seen) = run_on(&mut disk(8, 2, 10), text, Limits { requests: 101, ..Limits::NONE });
    assert_eq!((report.issued, seen.len(), report.ended), (101, 101, Ended::Limit));
    let (report, seen) = run_on(&mut disk(8, 2, 10), text, Limits { until: Ns::from_us(500), ..Limits::NONE });
    assert_eq!((us(report.to), seen.len(), report.ended), (510, 102, Ended::Limit));
    assert!(seen.iter().all(|seen| seen.job == 0));
    let asleep = "[a]\nrw=read\nthinktime=1s\nnumber_ios=9";
    let (report, _) = run_on(&mut disk(8, 2, 10), asleep, Limits { until: Ns::from_us(500), ..Limits::NONE });
    assert_eq!((report.issued, us(report.jobs[0].to)), (1, 500));
}

/// A disk whose requests fail from some sector on, in two ways, and which logs its requests.
struct Odd {
    disk: RamDisk,
    asked: Vec<BlockRequest>,
    bad_from: u64,
    worn: bool,
    log: Vec<(Ns, BlockRequest)>,
}

impl Odd {
    fn new(disk: RamDisk, bad_from: u64, worn: bool) -> Odd {
        Odd { asked: vec![BlockRequest::flush(); disk.queue_depth() as usize], disk, bad_from, worn, log: Vec::new() }
    }
}

impl BlockDevice for Odd {
    const KEEPS_BYTES: bool = true;
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }
    fn queue_depth(&self) -> u32 {
        self.disk.queue_depth()
    }
    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        self.asked[tag as usize] = request;
        self.log.push((at, request));
        self.disk.submit(at, tag, request, data)
    }
    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        let mut done = self.disk.next_done(until)?;
        let sector = self.asked[done.tag as usize].sector;
        if sector >= self.bad_from {
            let worn = BlockError::WornOut { why: "no spare block is left" };
            done.result = Err(if self.worn { worn } else { BlockError::Uncorrectable { sector } });
        }
        Some(done)
    }
    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        self.disk.take(tag, buf);
    }
}

#[test]
fn an_uncorrectable_read_is_counted_and_a_worn_device_ends_the_run() {
    let text = "[a]\nrw=read\nsize=64k";
    let (report, _) = run_on(&mut Odd::new(disk(4, 1, 10), 96, false), text, Limits::NONE);
    let read = report.jobs[0].op(BlockOp::Read);
    assert_eq!((read.requests, read.errors, &report.ended), (16, 4, &Ended::Done));
    let (report, seen) = run_on(&mut Odd::new(disk(4, 1, 10), 96, true), text, Limits::NONE);
    let Ended::Device { at, job: 0, request, error: BlockError::WornOut { .. } } = report.ended else {
        panic!("{:?}", report.ended);
    };
    assert_eq!((us(at), request.sector, seen.len()), (130, 96, 12));
}

#[test]
fn a_request_that_the_device_refuses_ends_a_replay() {
    let records = [(Ns(0), BlockRequest::read(0, 8), None), (Ns(5), BlockRequest::read(SECTORS, 8), None)];
    let report = play(&mut disk(4, 1, 10), OpenReplay::new(records), &mut ());
    assert!(matches!(report.ended, Ended::Device { at: Ns(5), error: BlockError::OutOfBounds { .. }, .. }));
    let long = [(Ns(0), BlockRequest::write(0, u32::MAX), None)];
    let report = play(&mut disk(4, 1, 10), OpenReplay::new(long), &mut ());
    assert!(matches!(report.ended, Ended::Device { .. }));
}

fn arrivals(at: impl IntoIterator<Item = u64>) -> Vec<Arrival> {
    let record = |(index, us): (usize, u64)| Arrival {
        at: Ns::from_us(us),
        request: BlockRequest::write(index as u64 % SECTORS, 1),
        latency: None,
    };
    at.into_iter().enumerate().map(record).collect()
}

#[test]
fn an_open_loop_issues_by_the_clock_times_the_speed() {
    let records = arrivals([100, 200, 205, 500]);
    for (speed, expected) in [(1.0, [7, 107, 112, 407]), (2.0, [7, 57, 59, 207]), (0.5, [7, 207, 217, 807])] {
        let mut issued = Vec::new();
        let mut see = |_: usize, _: &BlockRequest, span: Span, _: bool| issued.push(span.issued.0 / 1000);
        let mut load = OpenReplay::new(records.clone()).speed(Speed::times(speed).unwrap());
        let report = drive(&mut disk(4, 1, 10), &mut load, Ns::from_us(7), Limits::NONE, &mut see);
        assert_eq!((issued.as_slice(), report.ended), (&expected[..], Ended::Done));
    }
    assert!(Speed::times(0.0).is_none() && Speed::times(f64::NAN).is_none() && Speed::times(-1.0).is_none());
}

#[test]
fn an_open_loop_that_is_too_fast_queues_in_the_host() {
    // One every 5 us on a disk that takes 10 us: request n is done at 10 (n + 1), and half of all wait in the end.
    let records = arrivals((0..1000).map(|n| 5 * n));
    let mut worst = Ns::ZERO;
    let mut see = |_: usize, _: &BlockRequest, span: Span, _: bool| worst = worst.max(span.host_wait());
    let report = play(&mut disk(1, 1, 10), OpenReplay::new(records), &mut see);
    assert_eq!((us(report.to), report.max_waiting, us(worst)), (10_000, 500, 4995));
    let load = || OpenReplay::new(arrivals((0..1000).map(|n| 5 * n)));
    let report = play(&mut disk(1, 1, 10), load().counted_from(Ns::from_us(5000)), &mut ());
    assert_eq!((report.jobs[0].ramp_requests, report.jobs[0].requests()), (499, 501));
    let few = Limits { requests: 7, ..Limits::NONE };
    let report = drive(&mut disk(1, 1, 10), &mut load(), Ns::ZERO, few, &mut ());
    assert_eq!((report.jobs[0].requests(), report.ended), (7, Ended::Limit));
}

#[test]
fn records_out_of_order_are_counted_and_go_with_the_one_before() {
    let mut issued = Vec::new();
    let mut see = |_: usize, _: &BlockRequest, span: Span, _: bool| issued.push(us(span.issued));
    let report = play(&mut disk(8, 8, 10), OpenReplay::new(arrivals([50, 80, 60, 10, 90])), &mut see);
    assert_eq!((issued.as_slice(), report.disordered), (&[0, 30, 30, 30, 40][..], 2));
}

type Recorded = DependencyReplay<std::vec::IntoIter<Arrival>>;

fn replay(mut device: RamDisk, load: Recorded) -> (Report, Vec<(u64, u64)>) {
    let mut spans = Vec::new();
    let mut see = |_: usize, request: &BlockRequest, span: Span, _: bool| {
        spans.push((request.sector, us(span.issued), us(span.done)));
    };
    let report = play(&mut device, load, &mut see);
    spans.sort();
    (report, spans.into_iter().map(|(_, issued, done)| (issued, done)).collect())
}

fn recorded(times: &[(u64, u64)]) -> Vec<Arrival> {
    let mut records = arrivals(times.iter().map(|&(issued, _)| issued));
    for (record, &(issued, done)) in records.iter_mut().zip(times) {
        record.latency = Some(Ns::from_us(done - issued));
    }
    records
}

fn load(times: &[(u64, u64)]) -> Recorded {
    DependencyReplay::new(recorded(times))
}

#[test]
fn a_chain_of_thought_takes_longer_by_what_the_device_does() {
    // 100 requests one after the other, 10 us each and 7 us of think time between; then on a disk of 20 us.
    let times: Vec<_> = (0..100).map(|n| (17 * n, 17 * n + 10)).collect();
    let (report, _) = replay(disk(4, 1, 20), load(&times));
    assert_eq!((us(report.to), report.ended), (100 * 20 + 99 * 7, Ended::Done));
    let (report, _) = replay(disk(4, 1, 20), load(&times).speed(Speed::times(7.0).unwrap()));
    assert_eq!(us(report.to), 100 * 20 + 99);
}

#[test]
fn only_what_was_done_before_a_request_holds_it_up() {
    // On two servers of 10 us. B is issued while A is under way; C 2 us after A; D 6 us after B, while C is under way.
    let times = [(0, 10), (4, 14), (12, 22), (20, 30)];
    let (_, again) = replay(disk(4, 2, 10), load(&times));
    assert_eq!(again, times);
    let (_, slower) = replay(disk(4, 2, 20), load(&times));
    assert_eq!(slower, [(0, 20), (4, 24), (22, 42), (30, 50)]);
    // On a fast device D is done before C, which the recording does not forbid.
    let times = [(0, 100), (1, 300), (90, 500), (310, 320)];
    let (_, faster) = replay(disk(4, 4, 5), load(&times));
    assert_eq!(faster, [(0, 5), (1, 6), (90, 95), (16, 21)]);
}

#[test]
fn a_mark_moves_with_what_was_done_before_it_and_the_time_before_the_first_record_is_think_time() {
    // A mark 2 us before the first request, one 3 us after it is done while the second is under way, one after all.
    let times = [(10, 20), (15, 40)];
    let marks = || [8, 23, 45].map(Ns::from_us).to_vec();
    let moved = |service| {
        let mut load = load(&times).from_zero(marks());
        let mut counted = Vec::new();
        let mut see = |_: usize, request: &BlockRequest, span: Span, counts: bool| {
            counted.push((request.sector, us(span.issued), counts));
        };
        let report = drive(&mut disk(4, 2, service), &mut load, Ns::ZERO, Limits::NONE, &mut see);
        assert_eq!(report.ended, Ended::Done);
        (load.moved().iter().map(|&at| us(at)).collect::<Vec<_>>(), counted.len())
    };
    assert_eq!(moved(10).0, [8, 23, 30]);
    // The first is done at 110, the second at 115.
    assert_eq!(moved(100), (vec![8, 113, 120], 2));
}

#[test]
fn what_was_done_early_in_the_recording_does_not_count() {
    let records = load(&[(0, 10), (2, 30), (12, 40)]).counted_if_done_from(Ns::from_us(30));
    let (report, _) = replay(disk(4, 4, 1), records);
    assert_eq!((report.jobs[0].ramp_requests, report.jobs[0].requests()), (1, 2));
}

#[test]
fn a_record_without_latency_is_named() {
    let mut records = recorded(&[(0, 10), (20, 30), (40, 50)]);
    records[1].latency = None;
    let (report, spans) = replay(disk(4, 1, 10), DependencyReplay::new(records.clone()));
    let Ended::Recording(why) = report.ended else { panic!("{:?}", report.ended) };
    assert!(why.starts_with("record 2: no latency"), "{why}");
    assert_eq!(spans, [(0, 10)]);
}

#[test]
fn a_window_that_overflows_is_an_error_and_one_that_fits_is_enough() {
    // Four are under way at any time in the recording: those, and the record that waits.
    let times: Vec<_> = (0..200).map(|n| (10 * n, 10 * n + 35)).collect();
    for service in [5, 35, 100] {
        let (report, _) = replay(disk(8, 8, service), load(&times).window(5));
        assert_eq!((report.ended, report.jobs[0].requests()), (Ended::Done, 200));
    }
    let (report, _) = replay(disk(8, 8, 35), load(&times).window(3));
    assert!(matches!(report.ended, Ended::Recording(why) if why.starts_with("record 4: more than 3 records")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The device of the recording, replayed, repeats every time: also when requests waited in the host.
    #[test]
    fn a_replay_on_the_recorded_device_repeats_every_time(
        gaps in prop::collection::vec(0u64..40, 1..300), depth in 1u32..6, servers in 1usize..4, service in 1u64..60,
    ) {
        let at = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) });
        let mut records = arrivals(at);
        let mut times = vec![(0, 0); records.len()];
        let mut see = |_: usize, request: &BlockRequest, span: Span, _: bool| {
            times[request.sector as usize] = (us(span.issued), us(span.done));
        };
        // The first record is issued at 0, whenever it was.
        play(&mut disk(depth, servers, service), OpenReplay::new(records.clone()), &mut see);
        for (record, (issued, done)) in records.iter_mut().zip(&times) {
            *record = Arrival { at: Ns::from_us(*issued), latency: Some(Ns::from_us(done - issued)), ..*record };
        }
        let (report, again) = replay(disk(depth, servers, service), DependencyReplay::new(records.clone()));
        prop_assert_eq!(again, times);
        prop_assert_eq!(report.ended, Ended::Done);
        // And on another device nothing is lost, and no request precedes its causes.
        let (report, _) = replay(disk(3, 1, service * 2), DependencyReplay::new(records.clone()));
        prop_assert_eq!(report.jobs[0].requests(), records.len() as u64);
    }

    /// The same for jobs with their own depths and pauses, as long as the device has tags for all.
    #[test]
    fn a_replay_of_jobs_repeats_what_the_device_was_given(
        depths in prop::collection::vec((1u32..5, 0u64..50), 1..4), servers in 1usize..4, service in 1u64..30,
    ) {
        let mut text = "[global]\nioengine=libaio\nrw=randrw\nnumber_ios=60\n".to_owned();
        for (at, (depth, think)) in depths.iter().enumerate() {
            text += &format!("[j{at}]\niodepth={depth}\nthinktime={think}\nthinktime_blocks={}\n", at + 1);
        }
        let mut device = Odd::new(disk(32, servers, service), u64::MAX, false);
        let (_, seen) = run_on(&mut device, &text, Limits::NONE);
        // Requests with the same place and issue are alike here: any of their completions will do.
        let mut seen = seen;
        let records: Vec<_> = device.log.iter().map(|&(at, request)| {
            let found = seen.iter().position(|seen| seen.request == request && seen.span.issued == at).unwrap();
            Arrival { at, request, latency: Some(seen.remove(found).span.latency()) }
        }).collect();
        let mut again = Odd::new(disk(32, servers, service), u64::MAX, false);
        play(&mut again, DependencyReplay::new(records), &mut ());
        prop_assert_eq!(again.log, device.log);
    }
}

/// A disk that answers some requests and then no more.
struct Mute(RamDisk, u32);

impl BlockDevice for Mute {
    const KEEPS_BYTES: bool = false;
    fn sectors(&self) -> u64 {
        self.0.sectors()
    }
    fn queue_depth(&self) -> u32 {
        self.0.queue_depth()
    }
    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        self.0.submit(at, tag, request, data)
    }
    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        if self.1 == 0 {
            return None;
        }
        let done = self.0.next_done(until)?;
        self.1 -= 1;
        Some(done)
    }
    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        self.0.take(tag, buf);
    }
}

#[test]
fn a_device_that_stands_still_ends_the_run_with_what_is_under_way() {
    // Two tags, one server: after three answers two requests are in the device and, open, the others wait.
    let mute = || Mute(disk(2, 1, 10), 3);
    let at = Ns::from_us(30);
    let text = "[a]\nrw=randread\nioengine=libaio\niodepth=2\nnumber_ios=9";
    let (report, seen) = run_on(&mut mute(), text, Limits::NONE);
    assert_eq!((report.ended, seen.len()), (Ended::Stalled { at, outstanding: 2 }, 3));
    let records = |latency| (0..9).map(move |i| (Ns::ZERO, BlockRequest::read(i * 8, 8), latency));
    let report = play(&mut mute(), OpenReplay::new(records(None)), &mut ());
    assert_eq!(report.ended, Ended::Stalled { at, outstanding: 6 });
    let latency = Some(Ns::from_us(10));
    let report = play(&mut mute(), DependencyReplay::new(records(latency)), &mut ());
    assert_eq!(report.ended, Ended::Stalled { at, outstanding: 6 });
    // A limit does not hide the stall.
    let (report, _) = run_on(&mut mute(), text, Limits { requests: 5, ..Limits::NONE });
    assert_eq!(report.ended, Ended::Stalled { at, outstanding: 2 });
}

#[test]
fn a_closed_replay_keeps_its_depth_whatever_the_times() {
    let mut ends = Vec::new();
    let mut see = |_: usize, _: &BlockRequest, span: Span, _: bool| ends.push(us(span.done));
    let records = || arrivals((0..6).map(|n| 1_000_000 * n));
    let report = play(&mut disk(32, 4, 10), ClosedReplay::new(records(), 2), &mut see);
    assert_eq!((report.ended, report.issued, report.jobs[0].to), (Ended::Done, 6, Ns::from_us(30)));
    assert_eq!(ends, [10, 10, 20, 20, 30, 30], "two of the four servers work");
    let report = play(&mut Mute(disk(32, 4, 10), 3), ClosedReplay::new(records(), 2), &mut ());
    assert_eq!(report.ended, Ended::Stalled { at: Ns::from_us(20), outstanding: 2 });
    let limits = Limits { until: Ns::from_us(15), ..Limits::NONE };
    let report = drive(&mut disk(32, 4, 10), &mut ClosedReplay::new(records(), 2), Ns::ZERO, limits, &mut ());
    assert_eq!((report.ended, report.issued, report.to), (Ended::Limit, 4, Ns::from_us(20)));
}

/// Stops a run after some completions.
struct Enough(u32);

#[derive(Debug, PartialEq)]
enum Why {
    Enough,
}

impl Observer for Enough {
    type Stop = Why;

    fn on_done(&mut self, _: usize, _: &BlockRequest, _: Span, _: bool) {
        self.0 -= 1;
    }

    fn stop(&mut self) -> Option<Why> {
        (self.0 == 0).then_some(Why::Enough)
    }
}

#[test]
fn an_observer_stops_any_load_at_a_completion_with_its_reason() {
    let stopped = Ended::Stopped { at: Ns::from_us(20), why: Why::Enough };
    let records = || recorded(&[(0, 10), (0, 10), (0, 10), (0, 10), (50, 60)]);
    let jobs = jobs("[a]\nrw=read\nioengine=libaio\niodepth=2");
    let fio = FioLoad::new(&jobs, SECTORS, Seed(1)).unwrap();
    let report = play(&mut disk(4, 1, 10), fio, &mut Enough(2));
    // Two under way from the start, and one issued at the first completion: none is at the second.
    assert_eq!((report.ended, report.issued, report.jobs[0].requests(), report.to), (stopped, 3, 2, Ns::from_us(20)));
    let stopped = Ended::Stopped { at: Ns::from_us(20), why: Why::Enough };
    assert_eq!(play(&mut disk(4, 1, 10), OpenReplay::new(records()), &mut Enough(2)).ended, stopped);
    assert_eq!(play(&mut disk(4, 1, 10), ClosedReplay::new(records(), 3), &mut Enough(2)).ended, stopped);
    assert_eq!(play(&mut disk(4, 1, 10), DependencyReplay::new(records()), &mut Enough(2)).ended, stopped);
    // Also at the very last completion.
    assert!(matches!(
        play(&mut disk(4, 1, 10), OpenReplay::new(records()), &mut Enough(5)).ended,
        Ended::Stopped { .. }
    ));
}
