//! Our PostMark, our sysbench and our fio against the programs: `postmark.txt`, `sysbench.txt` and `fio.txt` are what the
//! real ones (PostMark 1.51, sysbench 1.0.20, fio 3.33) did, call by call; `record.py` says how they were recorded.

mod calls;
mod devices;
mod fio;
mod strace;

use fs::model::Model;
use sim::seam::Timestamp;
use sim::{Cx, Seed};
use workload::file::postmark::{self, Postmark};
use workload::file::sysbench::{self, FileIo, Mode};
use workload::file::{FileOp, FileStep};

fn model() -> (Model, Cx) {
    (Model::new(Timestamp::default()), Cx::new())
}

fn is_comment(line: &&str) -> bool {
    line.starts_with('#')
}

#[test]
fn postmark_makes_the_files_of_the_program_and_reports_its_volumes() {
    const REAL: &str = include_str!("postmark.txt");
    let options = postmark::Options { number: 60, transactions: 200, subdirectories: 4, ..Default::default() };
    let (mut fs, mut cx) = model();
    let mut load = Postmark::new(&options);
    let mut lines = REAL.lines().filter(|line| !is_comment(line));
    while let Some(FileStep { op, file, bytes, calls, result, .. }) = load.step(&mut fs, &mut cx) {
        assert_eq!(result, Ok(()));
        let ours = match op {
            FileOp::Create => format!("create {file} {bytes} {calls}"),
            FileOp::Read => format!("read {file} {bytes} {calls}"),
            FileOp::Append => format!("append {file} {bytes} {calls}"),
            FileOp::Remove => format!("remove {file}"),
            FileOp::Mkdir => format!("mkdir {file}"),
            FileOp::Rmdir => format!("rmdir {file}"),
            _ => unreachable!("PostMark does not"),
        };
        assert_eq!(lines.next(), Some(ours.as_str()));
    }
    assert_eq!(lines.next(), None);

    // What the program itself reports, in kilobytes and megabytes of 2^10 and 2^20 bytes.
    let report = load.report();
    let reported: Vec<&str> = REAL.lines().skip(1).filter(is_comment).collect();
    let ours = [
        format!("# {} created", report.created),
        format!("# {} read", report.read),
        format!("# {} appended", report.appended),
        format!("# {} deleted", report.deleted),
        format!("# {:.2} kilobytes read", report.bytes_read as f64 / 1024.0),
        format!("# {:.2} megabytes written", report.bytes_written as f64 / 1_048_576.0),
    ];
    assert_eq!(reported, ours);
}

/// The requests of each mode: file for file and byte for byte where they are sequential, kind for kind where their places
/// are random.
#[test]
fn sysbench_does_what_the_program_does() {
    const REAL: &str = include_str!("sysbench.txt");
    let runs: Vec<&str> = REAL.split("# ").skip(1).collect();
    let modes = [Mode::SeqWr, Mode::SeqRewr, Mode::SeqRd, Mode::RndRd, Mode::RndWr, Mode::RndRw, Mode::SeqRewr];
    assert_eq!(runs.len(), modes.len());
    for (run, mode) in runs.into_iter().zip(modes) {
        let (command, run) = run.split_once('\n').unwrap();
        let all = command.contains("fsync-all");
        let real: Vec<&str> = run.lines().filter(|line| !line.starts_with("remove")).collect();
        let requests = real.iter().filter(|line| !line.starts_with("fsync")).count() as u64;
        let options = sysbench::Options {
            mode,
            files: 4,
            total_bytes: 600_000,
            fsync_frequency: if all { 100 } else { 10 },
            merged_requests: if all { 2 } else { 0 },
            fsync_all: all,
            requests,
            ..sysbench::Options::default()
        };
        let (mut fs, mut cx) = model();
        let mut load = FileIo::new(&options, Seed(1)).unwrap();
        let mut ours = Vec::new();
        let mut prepared = 0;
        loop {
            let is_prepared = load.is_prepared();
            let Some(step) = load.step(&mut fs, &mut cx) else { break };
            assert_eq!(step.result, Ok(()));
            if !is_prepared {
                prepared += step.bytes;
                continue;
            }
            let FileStep { op, file, offset, bytes, .. } = step;
            ours.push(match op {
                FileOp::Read => format!("read {file} {offset} {bytes}"),
                FileOp::Write => format!("write {file} {offset} {bytes}"),
                _ => format!("fsync {file}"),
            });
        }
        // `prepare` writes whole blocks: ten of them in a file of 150,000 bytes.
        assert_eq!(prepared, if mode == Mode::SeqWr { 0 } else { 4 * 10 * 16_384 }, "{command}");
        let is_random = matches!(mode, Mode::RndRd | Mode::RndWr | Mode::RndRw);
        let kind = |line: &str| if is_random { line.split(' ').next().unwrap().to_owned() } else { line.to_owned() };
        let ours: Vec<String> = ours.iter().map(|line| kind(line)).collect();
        let real: Vec<String> = real.iter().map(|line| kind(line)).collect();
        assert_eq!(ours, real, "{command}");
    }
}

/// By hand: 10,000 requests with the defaults are 99 bursts of 128 fsyncs, after every hundred but the last, and 128 at the
/// end; 6,000 of them are reads.
#[test]
fn the_defaults_of_sysbench_synchronize_more_often_than_they_write() {
    let options = sysbench::Options { mode: Mode::RndRw, total_bytes: 128 << 14, ..sysbench::Options::default() };
    let (mut fs, mut cx) = (Model::without_bytes(Timestamp::default()), Cx::new());
    let mut load = FileIo::new(&options, Seed(3)).unwrap();
    while !load.is_prepared() {
        load.step(&mut fs, &mut cx).unwrap();
    }
    let steps: Vec<FileStep> = std::iter::from_fn(|| load.step(&mut fs, &mut cx)).collect();
    let count = |op| steps.iter().filter(|step| step.op == op).count();
    assert_eq!((count(FileOp::Read), count(FileOp::Write), count(FileOp::Fsync)), (6_000, 4_000, 100 * 128));
    // Places are uniform over 128 blocks: 78 each, and five standard deviations are 44.
    for file in 0..128 {
        let hits = steps.iter().filter(|step| step.op != FileOp::Fsync && step.file == file).count();
        assert!(hits.abs_diff(78) < 44, "file {file}: {hits}");
    }
    assert!(FileIo::new(&sysbench::Options { files: 0, ..options }, Seed(1)).is_err());
}

/// `prepare` takes files that are there and makes the rest; the creating mode makes them anew.
#[test]
fn sysbench_prepares_files_once() {
    let options = sysbench::Options {
        mode: Mode::SeqRd,
        files: 2,
        total_bytes: 100_000,
        requests: 1,
        ..sysbench::Options::default()
    };
    let (mut fs, mut cx) = model();
    let mut written = Vec::new();
    for mode in [Mode::SeqRd, Mode::SeqRd, Mode::SeqWr] {
        let mut load = FileIo::new(&sysbench::Options { mode, ..options }, Seed(1)).unwrap();
        let mut bytes = 0;
        while let Some(step) = load.step(&mut fs, &mut cx) {
            assert_eq!(step.result, Ok(()));
            bytes += if step.op == FileOp::Write { step.bytes } else { 0 };
        }
        written.push(bytes);
    }
    // 50,000 bytes are four blocks of 16,384.
    assert_eq!(written, [2 * 65_536, 0, 16_384]);
}
