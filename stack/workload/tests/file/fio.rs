use fs::model::Model;
use sim::seam::{FileSystem, NewInode, SetAttr, Timestamp};
use sim::{Cx, Ns, Seed};
use workload::file::fio::FioFile;
use workload::file::{FileOp, FileStep};
use workload::fio::{Job, parse};

fn job(options: &str) -> Job {
    let options = options.replace("--", "").replace(' ', "\n");
    parse(&format!("[job]\nioengine=psync\n{options}\n")).unwrap().remove(0)
}

fn model() -> (Model, Cx) {
    (Model::new(Timestamp::default()), Cx::new())
}

/// The whole run, after what is in the file system.
fn steps(options: &str, fs: &mut Model, cx: &mut Cx) -> Vec<FileStep> {
    let mut load = FioFile::new(&job(options), 0, Seed(1)).unwrap();
    std::iter::from_fn(|| load.step(fs, cx)).collect()
}

/// Call for call where requests are sequential. Where they are random: the same kinds in the same order, unless directions
/// are drawn, and the same places in each pass.
#[test]
fn fio_does_what_the_program_does() {
    const REAL: &str = include_str!("fio.txt");
    let runs: Vec<&str> = REAL.split("# ").skip(1).collect();
    assert_eq!(runs.len(), 6);
    for run in runs {
        let (command, run) = run.split_once('\n').unwrap();
        let mut real: Vec<String> = run.lines().map(str::to_owned).collect();
        let (mut fs, mut cx) = model();
        let mut load = FioFile::new(&job(command), 0, Seed(1)).unwrap();
        let (mut ours, mut laid_out, mut calls) = (Vec::new(), 0, 0);
        loop {
            let is_prepared = load.is_prepared();
            let Some(FileStep { op, file, offset, bytes, result, .. }) = load.step(&mut fs, &mut cx) else { break };
            assert_eq!(result, Ok(()));
            match op {
                FileOp::Create => {}
                FileOp::Write if !is_prepared => (laid_out, calls) = (laid_out + bytes, calls + 1),
                FileOp::Fsync if !is_prepared => {
                    ours.push(format!("fsync {file}"));
                    ours.push(format!("layout {file} {laid_out} {calls}"));
                }
                FileOp::Read => ours.push(format!("read {file} {offset} {bytes}")),
                FileOp::Write => ours.push(format!("write {file} {offset} {bytes}")),
                FileOp::Fsync if command.contains("fdatasync") => ours.push(format!("fdatasync {file}")),
                FileOp::Fsync => ours.push(format!("fsync {file}")),
                other => unreachable!("{other:?}"),
            }
        }
        if command.contains("rand") {
            let word = |line: &String, at| line.split(' ').nth(at).unwrap_or_default().to_owned();
            let kinds = |lines: &[String]| lines.iter().map(|line| word(line, 0)).collect::<Vec<_>>();
            if !command.contains("randrw") {
                assert_eq!(kinds(&ours), kinds(&real), "{command}");
            }
            let places = |lines: &[String]| {
                let is_request = |line: &&String| matches!(word(line, 0).as_str(), "read" | "write");
                let all: Vec<_> = lines.iter().filter(is_request).map(|line| word(line, 2)).collect();
                let passes = if command.contains("loops=2") { 2 } else { 1 };
                let sorted = |pass: &[String]| {
                    let mut pass = pass.to_vec();
                    pass.sort_unstable();
                    pass
                };
                all.chunks(all.len() / passes).map(sorted).collect::<Vec<_>>()
            };
            (ours, real) = (places(&ours).concat(), places(&real).concat());
        }
        assert_eq!(ours, real, "{command}");
    }
}

/// A file that is long enough is taken as it is; one that is too short is made anew.
#[test]
fn files_that_are_there_are_laid_out_only_if_they_are_too_short() {
    let cases: [(&str, u64, &[FileOp]); 5] = [
        ("rw=read", 8192, &[]),
        ("rw=write", 8192, &[]),
        ("rw=read", 8191, &[FileOp::Remove, FileOp::Create, FileOp::Write, FileOp::Write, FileOp::Fsync]),
        ("rw=write", 100, &[FileOp::Remove, FileOp::Create]),
        ("rw=write create_on_open=1", 100, &[]),
    ];
    for (options, size, expected) in cases {
        let (mut fs, mut cx) = model();
        let root = fs.root();
        let ino = fs.create(&mut cx, root, b"job.0.0", NewInode::of_root(0o644)).unwrap().ino;
        fs.setattr(&mut cx, ino, &SetAttr::size(size)).unwrap();
        let steps = steps(&format!("{options} size=8k"), &mut fs, &mut cx);
        let (prepared, run) = steps.split_at(expected.len());
        assert_eq!(prepared.iter().map(|step| step.op).collect::<Vec<_>>(), expected, "{options} {size}");
        assert_eq!(run.iter().map(|step| step.offset).collect::<Vec<_>>(), [0, 4096]);
        assert_eq!(fs.lookup(&mut cx, root, b"job.0.0").unwrap().size, 8192.max(size));
    }
    let (mut fs, mut cx) = model();
    let steps = steps("rw=read size=8k create_on_open=1", &mut fs, &mut cx);
    assert_eq!(steps.iter().map(|step| step.op).collect::<Vec<_>>(), [FileOp::Create, FileOp::Read]);
    assert!(steps[1].result.is_err(), "fio says: full resid");
}

/// A file that is being laid out has its size from the beginning.
#[test]
fn a_layout_sets_the_size_first() {
    let (mut fs, mut cx) = model();
    let mut load = FioFile::new(&job("rw=read size=64k"), 0, Seed(1)).unwrap();
    assert_eq!(load.step(&mut fs, &mut cx).unwrap().op, FileOp::Create);
    assert_eq!(fs.lookup(&mut cx, fs.root(), b"job.0.0").unwrap().size, 64 << 10);
}

/// One second of ramp and two of runtime at 1 ms a request: 3,000 requests in a file of 16, and the ramp is not measured.
#[test]
fn a_time_based_job_ends_with_its_runtime() {
    let options = "rw=write size=64k bs=4k time_based=1 ramp_time=1 runtime=2 startdelay=5";
    let (mut fs, mut cx) = model();
    let mut load = FioFile::new(&job(options), 3, Seed(1)).unwrap();
    let (mut requests, mut offsets) = (0, Vec::new());
    while let Some(step) = load.step(&mut fs, &mut cx) {
        if step.op == FileOp::Write {
            cx.spend(Ns(1_000_000));
            requests += 1;
            offsets.push(step.offset);
        }
        assert_eq!(step.file, 3);
    }
    assert_eq!((requests, &offsets[14..18]), (3_000, &[14 << 12, 15 << 12, 0, 1 << 12][..]));
    assert_eq!((load.counted_from(), cx.now()), (Some(Ns::from_s(6)), Ns::from_s(8)));
    assert_eq!(fs.lookup(&mut cx, fs.root(), b"job.3.0").unwrap().size, 64 << 10);
}

/// 10 requests with a pause of 3 ms after every 4: 2 pauses.
#[test]
fn think_time_passes_between_requests() {
    let (mut fs, mut cx) = model();
    steps("rw=write size=40k bs=4k thinktime=3000 thinktime_blocks=4", &mut fs, &mut cx);
    assert_eq!(cx.now(), Ns(2 * 3_000_000));
}

#[test]
fn what_files_do_not_have_is_refused() {
    for options in ["rw=trim size=1m", "rw=write", "rw=write size=10%", "rw=write size=1m rate=1m", "rw=write size=0"] {
        assert!(FioFile::new(&job(options), 0, Seed(1)).is_err(), "{options}");
    }
    let far = job(&format!("rw=write size=1m offset_increment={}", 1u64 << 62));
    assert!(FioFile::new(&far, 4, Seed(1)).is_err());
}

/// Offsets of clones: the file has what lies before as well.
#[test]
fn regions_of_clones_lie_in_files_of_their_own() {
    let job = job("rw=read size=8k offset=4k offset_increment=16k numjobs=2");
    let (mut fs, mut cx) = model();
    let mut load = FioFile::new(&job, 1, Seed(1)).unwrap();
    let steps: Vec<_> = std::iter::from_fn(|| load.step(&mut fs, &mut cx)).collect();
    let read: Vec<_> = steps.iter().filter(|step| step.op == FileOp::Read).map(|step| step.offset >> 12).collect();
    assert_eq!(read, [5, 6]);
    assert_eq!(fs.lookup(&mut cx, fs.root(), b"job.1.0").unwrap().size, 28 << 10);
}
