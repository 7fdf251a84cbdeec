//! `--flame FILE`: a picture, or stacks as text; what is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("flame").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let text = "title = 'a & b'\n[nand]\npebs = 128\ndelays = 'on'\n[fs]\n[fsstress]\noperations = 300\n";
    std::fs::write(dir.join("x.toml"), text).unwrap();
    dir
}

fn nandlab(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).current_dir(dir).args(args).output().expect("nandlab runs")
}

#[test]
fn a_run_writes_its_graph_as_a_picture_or_as_text() {
    let dir = dir("both");
    for name in ["x.svg", "x.folded"] {
        let out = nandlab(&dir, &["run", "x.toml", "--flame", name]);
        let text = String::from_utf8_lossy(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(text.contains(&format!("flame graph of virtual time in {name}")), "{text}");
    }
    let svg = std::fs::read_to_string(dir.join("x.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains(">a &amp; b</text>") && svg.contains("<title>write: "));
    let folded = std::fs::read_to_string(dir.join("x.folded")).unwrap();
    let stack = |line: &str| line.rsplit_once(' ').is_some_and(|(_, ns)| ns.parse::<u64>().is_ok());
    assert!(folded.lines().all(stack) && folded.contains("writer;write;"), "{folded}");
}

#[test]
fn a_graph_that_cannot_be_written_is_refused_before_the_run() {
    let dir = dir("refused");
    std::fs::write(dir.join("old.svg"), "").unwrap();
    for (args, why) in [
        (["run", "x.toml", "--flame", "x.png"], "expected one that ends in .svg or .folded"),
        (["run", "x.toml", "--flame", "old.svg"], "--force"),
    ] {
        let out = nandlab(&dir, &args);
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), error.contains(why)), (Some(2), true), "{args:?}: {error}");
    }
    assert!(!dir.join("x.svg").exists());
}
