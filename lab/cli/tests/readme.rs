//! Every command of the README runs as it is printed, after `nandlab init`, and prints what README and tutorial show.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Commands in the code blocks of the README, without their comments.
fn commands(readme: &str) -> Vec<String> {
    let blocks = readme.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).map(|line| line.trim_start_matches("$ "));
    lines
        .filter(|line| line.starts_with("nandlab "))
        .map(|line| line.split('#').next().unwrap_or_default().trim().to_owned())
        .collect()
}

/// A directory with what `nandlab init` writes.
fn top(name: &str) -> PathBuf {
    let top = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&top);
    let written = Command::new(env!("CARGO_BIN_EXE_nandlab")).arg("init").arg(&top).output().expect("nandlab runs");
    assert_eq!(written.status.code(), Some(0), "{}", String::from_utf8_lossy(&written.stderr));
    top
}

#[test]
fn every_command_of_the_readme_runs_as_it_is_printed() {
    let readme = include_str!("../../../README.md");
    let commands = commands(readme);
    assert!(commands.len() >= 18, "{commands:?}");
    // The others go on with files that were made before, and the two take about as long.
    let stands_alone = |command: &&String| {
        let does = ["nandlab run", "nandlab cuts"].iter().any(|start| command.starts_with(start));
        does && !["--flash", "--out", "--fio", "--flame"].iter().any(|option| command.contains(option))
    };
    let (alone, others): (Vec<&String>, Vec<&String>) = commands.iter().partition(stands_alone);
    let top_of_others = top("readme");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let top = top("readme-alone");
            alone.iter().for_each(|command| run(&top, command));
        });
        others.iter().for_each(|command| run(&top_of_others, command));
    });
    assert!(top_of_others.join("page.html").is_file() && top_of_others.join("out.ubi").is_file());
}

/// Runs a command of the README in `top`; it must succeed.
fn run(top: &Path, command: &str) {
    let mut args: Vec<&str> = command.split_whitespace().skip(1).collect();
    // Whole enumerations have tests of their own; here every so manyth cut, and the short form of a study.
    match args[..] {
        ["cuts", ..] => {
            // The number goes with its option.
            if let Some(every) = args.iter().position(|arg| *arg == "--every") {
                args.drain(every..every + 2);
            }
            args.retain(|arg| *arg != "--all");
            args.extend(["--every", "3001"]);
        }
        // A few weeks, not eight years.
        ["run", "experiments/lifetime-logger.toml"] => args.extend(["--set", "stop.years=0.1"]),
        // An hour, not a day.
        ["run", "experiments/lifetime-strace.toml"] => args.extend(["--set", "stop.days=0.042"]),
        // A tenth of the requests, and of the rated erasures.
        ["run", "experiments/noisy-neighbour.toml"] => args.extend(["--set", "stop.requests=30000"]),
        ["run", "experiments/end-of-life.toml"] => args.extend(["--set", "stop.max_erases=1000"]),
        ["serve", ..] => return serve(top, &args),
        ["mount", ..] => return mount(top, &args),
        ["study", name] if !name.contains('/') && name != "list" => args.push("--quick"),
        _ => {}
    }
    let output = Command::new(env!("CARGO_BIN_EXE_nandlab")).current_dir(top).args(&args).output();
    let output = output.expect("nandlab runs");
    // A study says by 1 that a claim missed.
    let missed = String::from_utf8_lossy(&output.stdout).contains("MISS");
    let may_miss = args.first() == Some(&"study") && missed && output.status.code() == Some(1);
    assert!(may_miss || output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Serves one client, nbdinfo.
fn serve(top: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    let mut server = command.current_dir(top).args(args).arg("--once").spawn().expect("nandlab runs");
    let uri = format!("nbd+unix:///?socket={}", top.join("nand.sock").display());
    let client = || Command::new("nbdinfo").args(["--size", &uri]).output().expect("nbdinfo runs");
    while !client().status.success() {
        assert!(server.try_wait().expect("it is ours").is_none(), "{args:?} ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(server.wait().expect("it is ours").success(), "{args:?}");
}

/// Mounts, and unmounts by a signal when it is mounted.
fn mount(top: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    let mut mount = command.current_dir(top).args(args).stdout(Stdio::piped()).spawn().expect("nandlab runs");
    let mut line = String::new();
    BufReader::new(mount.stdout.take().expect("it is a pipe")).read_line(&mut line).expect("it prints text");
    let sent = Command::new("kill").args(["-INT", &mount.id().to_string()]).status().expect("there is a kill");
    assert!(sent.success() && line.contains("Ctrl-C"), "{args:?}: {line}");
    assert!(mount.wait().expect("it is ours").success(), "{args:?}");
}

/// `ubinize` of mtd-utils made the sample.
#[test]
fn the_sample_image_is_what_pack_makes_of_the_sample_configuration() {
    let top = top("sample-image");
    let made = "nandlab image pack samples/ubinize.ini -o made.ubi --peb-size 16KiB --min-io-size 512 --image-seq 1";
    printed(&top, made);
    let read = |name: &str| std::fs::read(top.join(name)).expect("the file is there");
    assert!(read("made.ubi") == read("samples/firmware.ubi"));
}

/// Runs a command of a document in `top`; returns what it prints.
fn printed(top: &Path, command: &str) -> String {
    let args = command.split_whitespace().skip(1);
    let output = Command::new(env!("CARGO_BIN_EXE_nandlab")).current_dir(top).args(args).output();
    String::from_utf8(output.expect("nandlab runs").stdout).expect("text")
}

#[test]
fn the_readme_shows_what_its_run_prints() {
    let readme = include_str!("../../../README.md");
    let block = readme.split("```").skip(1).step_by(2).find(|block| block.trim_start().starts_with("$ nandlab run"));
    let (command, shown) = block.and_then(|block| block.trim().split_once('\n')).expect("the README shows a run");
    let top = top("readme-run");
    assert_eq!(printed(&top, command.trim_start_matches("$ ")).trim(), shown.trim(), "{command}");
}

/// Every command of the tutorial runs; the first run is the one that it shows, the others take an hour of the trace.
#[test]
fn the_tutorial_of_lifetime_goes_through_and_shows_what_its_run_prints() {
    let tutorial = include_str!("../../../docs/tutorial/lifetime.md");
    let blocks: Vec<&str> = tutorial.split("```").skip(1).step_by(2).collect();
    let top = top("lifetime");
    let shown = std::fs::read_to_string(top.join("experiments/lifetime-strace.toml")).expect("it was written");
    let toml = blocks.iter().find_map(|block| block.strip_prefix("toml\n")).expect("the tutorial has the experiment");
    assert_eq!(toml, shown);
    let commands = commands(tutorial);
    assert_eq!(commands.len(), 7, "{commands:?}");
    for command in &commands {
        let is_shown = command.ends_with("--out out/life");
        let is_long = command.starts_with("nandlab run") && !is_shown;
        let output = printed(&top, &format!("{command}{}", if is_long { " --set stop.days=0.042" } else { "" }));
        assert!(!output.is_empty(), "{command}");
        if is_shown {
            let at = blocks.iter().position(|block| block.trim() == command).expect("it is in a block");
            for line in blocks[at + 1].lines().filter(|line| !line.is_empty()) {
                assert!(output.contains(line), "{command} does not print `{line}` but:\n{output}");
            }
        }
    }
}

#[test]
fn the_tutorial_shows_what_its_runs_print() {
    let tutorial = include_str!("../../../docs/tutorial/first-hour.md");
    let blocks: Vec<&str> = tutorial.split("```").skip(1).step_by(2).collect();
    let top = top("tutorial");
    for command in [
        "nandlab run experiments/hello.toml --out out/hello",
        "nandlab run experiments/ssd-2008-random-write.toml --out out/drive",
    ] {
        let at = blocks.iter().position(|block| block.contains(command)).expect("the tutorial has the command");
        let output = printed(&top, command);
        for line in blocks[at + 1].lines().filter(|line| !line.is_empty()) {
            assert!(output.contains(line), "{command} does not print `{line}` but:\n{output}");
        }
    }
}
