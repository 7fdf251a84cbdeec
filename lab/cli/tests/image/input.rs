//! Images from standard input and from files too large for memory, and dumps with bad blocks.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

use super::support::{Bench, Ran};

const PEB: usize = 128 << 10;

impl Bench {
    /// Runs `nandlab image` with `input` on standard input.
    fn run_with(&self, args: &str, input: Stdio, bytes: &[u8]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.arg("image").args(args.split_whitespace()).current_dir(&self.dir).stdin(input);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
        if let Some(mut pipe) = child.stdin.take() {
            // The command may end before it has read everything.
            let _ = pipe.write_all(bytes);
        }
        Ran::new(&child.wait_with_output().expect("the command ends"))
    }

    /// Runs a shell command in which `$nandlab` is the program, with at most `kib` of memory to write to.
    fn limited(&self, kib: u32, script: &str) -> Ran {
        let script = format!("ulimit -d {kib}; {script}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(&self.dir).env("nandlab", env!("CARGO_BIN_EXE_nandlab"));
        Ran::new(&command.output().expect("sh runs"))
    }
}

#[test]
fn standard_input_is_read_as_a_file_is() {
    let bench = Bench::with_image("input-stdin");
    let bytes = bench.get("u.ubi");
    for command in ["info", "ls", "check", "wear", "map", "pebs"] {
        let expected = bench.run(&format!("{command} u.ubi")).ended(0).stdout.replace("u.ubi", "-");
        assert_eq!(bench.run_with(&format!("{command} -"), Stdio::piped(), &bytes).ended(0).stdout, expected);
        let file = File::open(bench.dir.join("u.ubi")).unwrap();
        assert_eq!(bench.run_with(&format!("{command} -"), file.into(), &[]).ended(0).stdout, expected);
    }
    bench.run_with("extract - -o out", Stdio::piped(), &bytes).ended(0);
    assert!(bench.get("out/3-boot.img") == bench.get("boot.bin"));
    bench.run_with("compare - u.ubi", Stdio::piped(), &bytes).ended(0);
    bench.run_with("compare - -", Stdio::piped(), &bytes).refused("found standard input twice");
    let shifted = [&[7; 1000][..], &bytes].concat();
    bench.run_with("check - --offset 1000", Stdio::piped(), &shifted).ended(0);
    let ran = bench.run_with("check - --offset 9MiB", Stdio::piped(), &bytes);
    ran.refused("standard input: found 917504 bytes, expected more than --offset 9437184");
    bench.run_with("info -", Stdio::null(), &[]).ended(2);
    let directory = File::open(&bench.dir).unwrap();
    bench.run_with("info -", directory.into(), &[]).refused("standard input: found a directory");
    bench.run_with("info -", Stdio::piped(), b"nothing").refused("standard input: found other data");
}

/// The input of `extract` on standard input is not overwritten either.
#[test]
fn a_file_on_standard_input_is_not_overwritten() {
    let bench = Bench::with_image("input-overwrite");
    std::fs::rename(bench.dir.join("u.ubi"), bench.dir.join("3-boot.img")).unwrap();
    let file = File::open(bench.dir.join("3-boot.img")).unwrap();
    let ran = bench.run_with("extract - --force", file.into(), &[]);
    ran.refused("found an input of this command, which is never overwritten");
}

/// 192 MiB read by a program that may hold 48 MiB. The same image in a pipe is kept in memory and does not fit, which
/// tests the test.
#[test]
fn a_file_is_not_read_into_memory() {
    const LIMIT_KIB: u32 = 48 << 10;
    let bench = Bench::with_image("input-memory");
    let file = File::options().write(true).open(bench.dir.join("u.ubi")).unwrap();
    file.set_len(192 << 20).unwrap();
    for command in ["info", "ls", "check", "wear", "map --csv", "pebs --json", "extract -o out", "compare u.ubi"] {
        let ran = bench.limited(LIMIT_KIB, &format!("exec \"$nandlab\" image {command} u.ubi"));
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
    }
    let ran = bench.limited(LIMIT_KIB, "\"$nandlab\" image info - <u.ubi");
    assert_eq!(ran.code, Some(0), "a file on standard input is read as such: {}", ran.stderr);
    let ran = bench.limited(LIMIT_KIB, "cat u.ubi | \"$nandlab\" image info -");
    assert_ne!(ran.code, Some(0), "the limit does not limit");
}

/// `nanddump` writes 0xFF in the place of a bad block, or leaves it out.
#[test]
fn bad_blocks_are_padded_listed_or_left_out() {
    let bench = Bench::with_image("input-bad");
    let whole = bench.get("u.ubi");
    let with = |filling: &[u8]| [&whole[..3 * PEB], filling, &whole[3 * PEB..]].concat();
    bench.put("pad.bin", with(&[0xff; PEB]));
    bench.put("dump.bin", with(&[0x5a; PEB]));
    let expected = bench.run("ls u.ubi").ended(0).stdout;
    for (args, bad_state) in [
        ("pad.bin --bad-blocks padbad", "bad"),
        ("pad.bin --bad-blocks 3", "bad"),
        ("dump.bin --bad-blocks 3-3", "bad"),
        ("u.ubi --bad-blocks skipbad:3", "bad"),
        ("pad.bin", "erased"),
    ] {
        assert_eq!(bench.run(&format!("ls {args}")).ended(0).stdout, expected, "{args}");
        let json = bench.run(&format!("pebs {args} --json")).ended(0).json();
        let rows = json["pebs"].as_array().unwrap();
        assert_eq!((rows.len(), &rows[3]["state"]), (8, &bad_state.into()), "{args}");
        assert_eq!((&rows[4]["volume"], &rows[4]["leb"]), (&0.into(), &1.into()), "{args}");
        let at = if args.starts_with("u.ubi") { 3 * PEB } else { 4 * PEB };
        assert_eq!(rows[4]["file_offset"], at, "{args}");
    }
    let ran = bench.run("info u.ubi --bad-blocks skipbad").ended(0);
    assert!(ran.stdout.contains("left out of the dump, and nothing says which"), "{}", ran.stdout);
    bench
        .run("info u.ubi --bad-blocks 7")
        .refused("PEB 7 was given as a bad block, expected one of the flash's 7 PEBs");
    let ran = bench.run("info u.ubi --bad-blocks 3,x").ended(2);
    assert!(ran.stderr.contains("expected PEB numbers as 3,17,40-42, or padbad"), "{}", ran.stderr);
}
