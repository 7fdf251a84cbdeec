//! Ctrl-C and SIGTERM: temporary files go, finished runs stay, and one line says so.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/hello.toml");

/// An empty directory.
fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupt").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn start(dir: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    command.current_dir(dir).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("nandlab starts")
}

/// Waits until `ready`, then sends a signal; returns what the command said and its exit code.
#[track_caller]
fn interrupted(mut child: Child, signal: &str, ready: impl Fn() -> bool) -> (String, Option<i32>) {
    let began = Instant::now();
    while !ready() {
        assert!(began.elapsed() < Duration::from_secs(120), "it never became ready");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("there is a kill");
    assert!(sent.success());
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (String::from_utf8(stderr).unwrap(), status.code())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_run_that_is_interrupted_leaves_no_file() {
    let dir = fresh("run");
    let run = start(&dir, &["run", HELLO, "--set", "stop.virtual_s=1e9", "--flash", "f.bin"]);
    let temporary = dir.join(format!(".f.bin.{}.tmp", run.id()));
    let (said, code) = interrupted(run, "-INT", || temporary.exists());
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(said, "interrupted: the command had not finished; removed a temporary file\n");
    assert_eq!(names(&dir), Vec::<String>::new());
}

#[test]
fn finished_runs_of_an_interrupted_study_are_written() {
    let dir = fresh("study");
    std::fs::create_dir(dir.join("mine")).unwrap();
    let study = "question = 'Which?'\n[base]\nnand = { pebs = 64 }\nfs = {}\nfsstress = { loops = 0 }\n[[run]]\nid = 'short'\ntitle = 'short'\nset = { 'stop.steps' = 100 }\n\
                 [[run]]\nid = 'endless'\ntitle = 'endless'\nset = { 'stop.virtual_s' = 1e9 }\n\
                 [[claim]]\nid = 'c'\nours = 'run.steps(short)'\nabove = 1\n";
    std::fs::write(dir.join("mine/study.toml"), study).unwrap();
    let run = start(&dir, &["study", "./mine", "--out", "out"]);
    let last = dir.join("out/mine/short/timeline.parquet");
    let (said, code) = interrupted(run, "-TERM", || last.exists());
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(said, "interrupted: 1 of 2 runs of mine had finished; their results are in out/mine\n");
    assert_eq!(names(&dir.join("out")), ["mine"]);
    assert_eq!(names(&dir.join("out/mine")), ["short"]);
    let files = [
        "experiment.toml",
        "latency.csv",
        "latency.parquet",
        "result.json",
        "timeline.csv",
        "timeline.parquet",
        "wear.csv",
        "wear.parquet",
    ];
    assert_eq!(names(&dir.join("out/mine/short")), files);
}

#[test]
fn an_interrupted_sweep_keeps_its_finished_points() {
    let dir = fresh("sweep");
    std::fs::write(
        dir.join("mine.toml"),
        "title = 'mine'\n[nand]\npebs = 64\n[fs]\n[fsstress]\nloops = 0\n[sweep]\nvary = ['stop.virtual_s=0.01,1e9']\n",
    )
    .unwrap();
    let runs = dir.join("out/runs");
    let has_one =
        || std::fs::read_dir(&runs).is_ok_and(|mut found| found.any(|entry| is_result(&entry.unwrap().path())));
    let (said, code) = interrupted(start(&dir, &["sweep", "mine.toml", "--out", "out"]), "-INT", has_one);
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(said, "interrupted: finished points are kept in out; the same command goes on there\n");
    assert_eq!(names(&dir.join("out")), ["runs"]);
    assert_eq!(names(&runs).len(), 1);
}

fn is_result(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}
