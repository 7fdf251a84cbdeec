//! `nandlab sweep` as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EXPERIMENT: &str = "title = 'small'
question = 'which policy?'
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 32
pages = 16
over_provisioning_percent = 40
[precondition]
kind = 'sequential'
[workload]
requests = 500
";

const VARY: [&str; 4] = ["--vary", "ssd.ftl.gc=greedy,fifo", "--vary", "ssd.over_provisioning_percent=28,50,60"];

fn nandlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fresh(name: &str) -> (PathBuf, String) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sweep-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("small.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (dir, file)
}

fn sweep(file: &str, out: &Path, more: &[&str]) -> String {
    let found = nandlab(&[&["sweep", file, "--out", out.to_str().unwrap()], &VARY[..], more].concat());
    assert!(found.status.success(), "{}", text(&found.stderr));
    text(&found.stdout)
}

#[test]
fn a_sweep_goes_on_where_it_was_and_gives_the_same_table() {
    let (dir, file) = fresh("resume");
    let out = dir.join("out");
    let printed = sweep(&file, &out, &[]);
    assert!(printed.contains("6 of 6 points: 6 run now, 0 kept from before"), "{printed}");
    assert!(printed.contains("write amplification: from "), "{printed}");
    let whole = std::fs::read_to_string(out.join("sweep.csv")).unwrap();
    assert!(whole.starts_with("ssd.ftl.gc,ssd.over_provisioning_percent,fingerprint,"), "{whole}");
    assert_eq!(whole.lines().count(), 7);
    // Two results are lost, one by a half-written file.
    let mut runs: Vec<_> = std::fs::read_dir(out.join("runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    runs.sort();
    std::fs::remove_file(&runs[0]).unwrap();
    std::fs::write(&runs[3], "{\"half").unwrap();
    let printed = sweep(&file, &out, &[]);
    assert!(printed.contains("6 of 6 points: 2 run now, 4 kept from before"), "{printed}");
    assert_eq!(std::fs::read_to_string(out.join("sweep.csv")).unwrap(), whole);
}

#[test]
fn shards_complete_each_other_in_one_directory_or_in_two() {
    let (dir, file) = fresh("shards");
    let whole = dir.join("whole");
    sweep(&file, &whole, &[]);
    let (one, two) = (dir.join("one"), dir.join("two"));
    let printed = sweep(&file, &one, &["--shard", "1/2"]);
    assert!(printed.contains("3 of 6 points: 3 run now") && printed.contains("other shards"), "{printed}");
    let printed = sweep(&file, &two, &["--shard", "2/2", "--from", one.to_str().unwrap()]);
    assert!(printed.contains("6 of 6 points: 3 run now, 3 kept from before"), "{printed}");
    let csv = |dir: &Path| std::fs::read_to_string(dir.join("sweep.csv")).unwrap();
    assert_eq!(csv(&two), csv(&whole));
    let page = std::fs::read_to_string(two.join("report.html")).unwrap();
    assert!(page.contains("\"sweep\":{"));
}

#[test]
fn more_seeds_run_only_the_new_points() {
    let (dir, file) = fresh("seeds");
    let out = dir.join("out");
    let run = |seeds: &str| {
        let found = nandlab(&["sweep", &file, "--vary", seeds, "--out", out.to_str().unwrap(), "--json"]);
        assert!(found.status.success(), "{}", text(&found.stderr));
        serde_json::from_slice::<serde_json::Value>(&found.stdout).unwrap()
    };
    assert_eq!(run("seed=1,2")["points"], 2);
    assert_eq!(run("seed=1,2,3")["rows"].as_array().unwrap().len(), 3);
    assert_eq!(std::fs::read_dir(out.join("runs")).unwrap().count(), 3);
}

#[test]
fn a_trace_of_strace_is_the_load_of_every_point_and_a_part_of_its_id() {
    let (dir, file) = fresh("strace");
    let trace = |writes: usize| {
        let write = "7 2.0 write(3</data/a>, \"\"..., 4096) = 4096\n".repeat(writes);
        format!(
            "7 1.0 openat(AT_FDCWD</data>, \"a\", O_WRONLY|O_CREAT, 0644) = 3</data/a>\n{write}7 3.0 close(3</data/a>) = 0\n"
        )
    };
    std::fs::write(dir.join("a.strace"), trace(5)).unwrap();
    let experiment = "title = 't'\n[nand]\npebs = 128\n[fs]\n[strace]\nfile = 'a.strace'\nroot = '/data'\n";
    std::fs::write(&file, experiment).unwrap();
    let out = dir.join("out");
    let run = |vary: &str| {
        nandlab(&["sweep", &file, "--vary", vary, "--out", out.to_str().unwrap(), "--metric", "host.bytes"])
    };
    let points = || std::fs::read_dir(out.join("runs")).unwrap().count();
    let found = run("strace.loops=1,3");
    let said = text(&found.stdout);
    assert!(found.status.success(), "{}", text(&found.stderr));
    // Each replay writes the trace's 20,480 bytes as often as it is looped.
    assert!(said.contains(" 20480\n") && said.contains(" 61440\n"), "{said}");
    assert_eq!(points(), 2);
    // Another trace is another sweep.
    std::fs::write(dir.join("a.strace"), trace(6)).unwrap();
    let said = text(&run("strace.loops=1,3").stdout);
    assert!(said.contains("2 run now, 0 kept from before") && points() == 4, "{said}");
    let refused = run("strace.file=a.strace,b.strace");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("found several traces in `strace.file`"), "{}", text(&refused.stderr));
    std::fs::remove_file(dir.join("a.strace")).unwrap();
    let refused = run("strace.loops=1,3");
    assert!(
        refused.status.code() != Some(0) && text(&refused.stderr).contains("a.strace"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn a_wrong_key_or_value_names_it() {
    let (dir, file) = fresh("wrong");
    let out = dir.join("out");
    for (vary, what) in [
        ("ssd.ftl.cg=greedy", "did you mean `ssd.ftl.gc`"),
        ("ssd.ftl.gc=greedy,lazy", "lazy"),
        ("ssd.over_provisioning_percent=0.001", "over_provisioning_percent"),
    ] {
        let found = nandlab(&["sweep", &file, "--vary", vary, "--out", out.to_str().unwrap()]);
        assert_eq!(found.status.code(), Some(2), "{vary}");
        assert!(text(&found.stderr).contains(what), "{vary}: {}", text(&found.stderr));
    }
    let found = nandlab(&["sweep", &file, "--vary", "seed=1", "--metric", "waff", "--out", out.to_str().unwrap()]);
    assert_eq!(found.status.code(), Some(2));
    assert!(text(&found.stderr).contains("waf"), "{}", text(&found.stderr));
}
