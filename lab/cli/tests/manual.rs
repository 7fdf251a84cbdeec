//! `nandlab init`, `completions` and `man`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn nandlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).args(args).output().expect("nandlab runs")
}

#[track_caller]
fn text(args: &[&str]) -> String {
    let out = nandlab(args);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("manual").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

/// The commands that `--help` lists, those inside `image` and `trace` too.
fn commands() -> Vec<Vec<String>> {
    let of = |args: &[&str]| -> Vec<String> {
        let help = text(&[args, &["--help"]].concat());
        let listed = help.split("Commands:\n").nth(1).unwrap_or_default().lines().take_while(|line| !line.is_empty());
        let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        names
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect()
    };
    let mut found = Vec::new();
    for name in of(&[]) {
        found.extend(of(&[&name]).into_iter().map(|inner| vec![name.clone(), inner]));
        found.push(vec![name]);
    }
    assert!(found.len() >= 20, "{found:?}");
    found
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = fresh("man");
    let out = dir.to_str().unwrap();
    text(&["man", "--out", out]);
    for command in commands() {
        let page = std::fs::read_to_string(dir.join(format!("nandlab-{}.1", command.join("-")))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH OPTIONS"), "{command:?}: {page}");
        let printed = text(&[&["man"][..], &command.iter().map(String::as_str).collect::<Vec<_>>()].concat());
        assert_eq!(printed, page);
        assert!(page.contains(&format!("\\fBnandlab {}\\fR", command.join(" "))), "{command:?}: {page}");
    }
    let page = text(&["man"]);
    assert!(page.contains("nandlab\\-run(1)") && page.contains("nandlab\\-completions(1)"), "{page}");
    let again = nandlab(&["man", "--out", out]);
    assert_eq!((again.status.code(), String::from_utf8_lossy(&again.stderr).contains("--force")), (Some(2), true));
    let unknown = nandlab(&["man", "runn"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("expected one of: run, sweep, study, cuts"));
}

#[test]
fn completions_of_every_shell_have_every_command_and_its_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&["completions", shell]);
        for command in commands() {
            let name = command.last().unwrap();
            assert!(script.contains(name.as_str()), "{shell}: {name}");
        }
        assert!(script.contains("over") || script.contains("help-keys"), "{shell}");
    }
    // A shell that is there reads its script.
    let script = text(&["completions", "bash"]);
    let asked = "COMP_WORDS=(nandlab trace re); COMP_CWORD=2; _nandlab nandlab re trace; echo \"${COMPREPLY[@]}\"";
    let out = Command::new("bash").args(["-c", &format!("{script}\n{asked}")]).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "replay", "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn init_writes_the_samples_once_and_overwrites_nothing() {
    let dir = fresh("init");
    let target = dir.to_str().unwrap();
    text(&["init", target]);
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for folder in ["experiments", "samples", "samples/study"] {
        for entry in std::fs::read_dir(tree.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.file_name().unwrap();
                assert_eq!(
                    std::fs::read(dir.join(folder).join(name)).unwrap(),
                    std::fs::read(&path).unwrap(),
                    "{name:?}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 25, "{seen}");
    let job = dir.join("samples/job.fio");
    std::fs::write(&job, "mine").unwrap();
    std::fs::remove_file(dir.join("samples/trace.csv")).unwrap();
    let said = text(&["init", target]);
    assert!(said.starts_with("1 file written"), "{said}");
    assert_eq!(std::fs::read_to_string(&job).unwrap(), "mine");
    assert!(dir.join("samples/trace.csv").is_file());
}
