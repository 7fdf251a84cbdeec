//! Nothing that exists is overwritten without `--force`, and inputs never.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/hello.toml");
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");

fn nandlab(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).current_dir(dir).args(args).output().expect("nandlab runs")
}

/// A fresh directory with a small experiment and the samples in it.
fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("overwrite").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let hello = std::fs::read_to_string(HELLO).unwrap().replace("virtual_s = 60.0", "steps = 300");
    std::fs::write(dir.join("small.toml"), hello).unwrap();
    for name in ["job.fio", "trace.csv", "ubinize.ini", "boot.img"] {
        std::fs::copy(Path::new(SAMPLES).join(name), dir.join(name)).unwrap();
    }
    std::fs::write(
        dir.join("drive.toml"),
        "title = 'd'\n[ssd]\nchannels = 1\nways = 1\nplanes = 1\nblocks = 64\npages = 64\nover_provisioning_percent = 40\n[workload]\nrequests = 10\n",
    )
    .unwrap();
    dir
}

#[track_caller]
fn works(dir: &Path, command: &str) {
    let out = nandlab(dir, &command.split_whitespace().collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The command is refused as bad input, says `expected`, and changes no file.
#[track_caller]
fn refused(dir: &Path, command: &str, expected: &[&str]) {
    let before = files(dir);
    let out = nandlab(dir, &command.split_whitespace().collect::<Vec<_>>());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{command}: {error}");
    for part in expected {
        assert!(error.contains(part), "{command}: {part}: {error}");
    }
    assert!(files(dir) == before, "{command} changed a file");
}

/// Every file below a directory with its contents.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_directory_with_results_is_refused_and_named_until_force() {
    let dir = fresh("results");
    for command in ["run small.toml --out r", "trace replay trace.csv --on drive.toml --wrap --out t"] {
        works(&dir, command);
        refused(&dir, command, &["result.json: found a file of that name", "--force"]);
        works(&dir, &format!("{command} --force"));
    }
    std::fs::create_dir_all(dir.join("study")).unwrap();
    for name in ["study.toml", "published.json"] {
        let text = std::fs::read_to_string(Path::new(SAMPLES).join("study").join(name)).unwrap();
        std::fs::write(dir.join("study").join(name), text).unwrap();
    }
    works(&dir, "study ./study --out s");
    refused(&dir, "study ./study --out s", &["result.json: found a file", "--force"]);
    works(&dir, "study ./study --out s --force");
    std::fs::remove_dir_all(dir.join("s/study")).unwrap();
    refused(&dir, "study ./study --out s", &["s/studies.json: found a file", "--force"]);
}

#[test]
fn an_input_is_never_overwritten() {
    let dir = fresh("inputs");
    works(&dir, "run small.toml --out r");
    let never = "found an input of this command, which is never overwritten";
    refused(&dir, "run r/experiment.toml --out r --force", &["r/experiment.toml", never]);
    refused(&dir, "run small.toml --flash small.toml --force", &["small.toml", never]);
    refused(&dir, "run drive.toml --fio job.fio --flash job.fio --force", &["job.fio", never]);
    refused(&dir, "trace convert trace.csv trace.csv --to msr --force", &["trace.csv", never]);
    refused(&dir, "trace info trace.csv --html trace.csv --force", &["trace.csv", never]);
    refused(&dir, "report r -o r/result.json --force", &["r/result.json", never]);
    std::fs::rename(dir.join("drive.toml"), dir.join("experiment.toml")).unwrap();
    refused(&dir, "run experiment.toml --out . --force", &["experiment.toml", never]);
    // By another name it is the same file.
    std::os::unix::fs::symlink("trace.csv", dir.join("link.csv")).unwrap();
    refused(&dir, "trace convert trace.csv link.csv --to msr --force", &["link.csv", never]);
    std::fs::create_dir(dir.join("samples")).unwrap();
    std::fs::rename(dir.join("boot.img"), dir.join("samples/boot.img")).unwrap();
    let pack = "image pack ubinize.ini --peb-size 128KiB --min-io-size 2048 --force -o";
    refused(&dir, &format!("{pack} ubinize.ini"), &["ubinize.ini", never]);
    refused(&dir, &format!("{pack} samples/boot.img"), &["boot.img", never]);
    works(&dir, &format!("{pack} 0-boot.img"));
    refused(&dir, "image extract 0-boot.img --force", &["0-boot.img", never]);
}

/// A page that somebody keeps in a directory is not a result of ours, and stays.
#[test]
fn a_page_of_the_user_s_own_stays() {
    let dir = fresh("page");
    std::fs::write(dir.join("report.html"), "mine").unwrap();
    refused(&dir, "run small.toml --out .", &["report.html: found a file", "--force"]);
    std::fs::remove_file(dir.join("report.html")).unwrap();
    works(&dir, "run small.toml --out .");
}

#[test]
fn a_file_is_written_by_one_option_only() {
    let dir = fresh("twice");
    let kept = ["r/requests.ntrace: --trace and --out both write it", "help: leave --trace out: --out keeps"];
    refused(&dir, "run drive.toml --out r --trace r/requests.ntrace", &kept);
    refused(&dir, "run drive.toml --out r --trace r/../r/requests.ntrace", &kept[1..]);
    refused(&dir, "run small.toml --out r --flash ./r/wear.csv", &["--flash and --out both write it"]);
    refused(&dir, "run drive.toml --flash x --trace ./x", &["--trace and --flash both write it", "give another name"]);
    works(&dir, "run small.toml --out r --flash r/flash.bin");
}

#[test]
fn a_file_where_a_directory_belongs_is_bad_input() {
    let dir = fresh("file");
    for command in [
        "run small.toml --out job.fio",
        "run small.toml --out job.fio/below",
        "run small.toml --flash job.fio/below",
        "study fastmap-first-64 --quick --out job.fio",
        "identify drive.toml --set ssd.front.protocol=sata --set ssd.front.depth=8 --raw job.fio",
    ] {
        refused(&dir, command, &["job.fio", "found a file in its path, expected directories"]);
    }
}

#[test]
fn bytes_that_are_no_text_are_bad_input_and_an_empty_job_is_no_load() {
    let dir = fresh("junk");
    std::fs::write(dir.join("junk"), [0xff, 0xfe, 0, 1]).unwrap();
    std::fs::write(dir.join("empty.fio"), "").unwrap();
    std::fs::write(dir.join("comment.fio"), "; nothing\n").unwrap();
    std::fs::write(dir.join("line.fio"), "junk").unwrap();
    for command in ["run drive.toml --fio junk", "report junk", "run junk", "cuts junk", "identify junk"] {
        refused(&dir, command, &["junk: found bytes that are no text", "help: "]);
    }
    for job in ["empty.fio", "comment.fio"] {
        refused(&dir, &format!("run drive.toml --fio {job}"), &[job, "expected a job: [name]"]);
    }
    refused(&dir, "run drive.toml --fio line.fio", &["line.fio: line 1"]);
    refused(&dir, "run drive.toml --set workload.fio=empty.fio", &["empty.fio: line 1"]);
}
