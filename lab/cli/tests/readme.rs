//! Every command of the README runs as it is printed, from the top of the tree.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands in the code blocks of the README, without their comments.
fn commands(readme: &str) -> Vec<String> {
    let blocks = readme.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).map(|line| line.trim_start_matches("$ "));
    lines
        .filter(|line| line.starts_with("nandlab "))
        .map(|line| line.split('#').next().unwrap_or_default().trim().to_owned())
        .collect()
}

/// A directory that looks like the top of the tree and may be written to.
fn top() -> PathBuf {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree is there");
    let top = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let _ = std::fs::remove_dir_all(&top);
    std::fs::create_dir_all(&top).expect("the temporary directory can be written");
    for inputs in ["experiments", "samples"] {
        std::os::unix::fs::symlink(tree.join(inputs), top.join(inputs)).expect("a link can be made");
    }
    top
}

#[test]
fn every_command_of_the_readme_runs_as_it_is_printed() {
    let readme = include_str!("../../../README.md");
    let commands = commands(readme);
    assert!(commands.len() >= 18, "{commands:?}");
    let top = top();
    for command in &commands {
        let mut args: Vec<&str> = command.split_whitespace().skip(1).collect();
        // Whole enumerations have tests of their own; here every so manyth cut, and the short form of a study.
        match args[..] {
            ["cuts", ..] => {
                args.retain(|arg| !["--all", "--every", "97"].contains(arg));
                args.extend(["--every", "3001"]);
            }
            ["study", name] if !name.contains('/') && name != "list" => args.push("--quick"),
            _ => {}
        }
        let output = Command::new(env!("CARGO_BIN_EXE_nandlab")).current_dir(&top).args(&args).output();
        let output = output.expect("nandlab runs");
        assert_eq!(output.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(top.join("page.html").is_file() && top.join("out.ubi").is_file());
}
