//! Traces of strace: what a replay leaves is what the traced programs left on Linux.

use std::sync::Arc;

use fs::model::Model;
use sim::seam::{FileSystem, Ino, Timestamp};
use sim::{Cx, Ns, Seed};
use workload::file::strace::{Options, Replay, Trace};
use workload::file::{FileOp, FileStep};

const SAMPLE: &str = include_str!("../../../../samples/logger.strace");
/// What `ls -l` said of the sample's directory when its program had ended.
const LEFT: [(&str, u64); 4] = [("logger.conf", 480), ("messages", 9450), ("messages.1", 16_425), ("state.db", 12_288)];

const ONCE: Options = Options { loops: 1, speed: None, compressible_percent: 0 };

fn read(text: &str) -> Trace {
    Trace::read(text.as_bytes(), "/data").unwrap_or_else(|error| panic!("{error}"))
}

/// Names, sizes and directories below an inode.
fn tree(fs: &mut Model, cx: &mut Cx, dir: Ino, path: &str, found: &mut Vec<(String, u64)>) {
    let mut names = Vec::new();
    fs.readdir(cx, dir, 0, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        true
    })
    .unwrap();
    names.sort();
    for name in names {
        let attr = fs.lookup(cx, dir, name.as_bytes()).unwrap();
        let path = format!("{path}{name}");
        if attr.file_type == sim::seam::FileType::Directory {
            tree(fs, cx, attr.ino, &format!("{path}/"), found);
            found.push((format!("{path}/"), 0));
        } else {
            found.push((path, attr.size));
        }
    }
}

/// The steps of a replay, and what it left.
fn replayed(trace: Trace, options: Options) -> (Vec<FileStep>, Vec<(String, u64)>) {
    let (mut fs, mut cx) = (Model::new(Timestamp::default()), Cx::new());
    let mut load = Replay::new(Arc::new(trace), options, Seed(1));
    let mut steps = Vec::new();
    while let Some(step) = load.step(&mut fs, &mut cx) {
        steps.push(step);
    }
    let (root, mut found) = (fs.root(), Vec::new());
    tree(&mut fs, &mut cx, root, "", &mut found);
    (steps, found)
}

fn owned(files: &[(&str, u64)]) -> Vec<(String, u64)> {
    files.iter().map(|&(name, size)| (name.to_owned(), size)).collect()
}

#[test]
fn a_replay_leaves_the_files_that_the_program_left_however_often() {
    let (steps, left) = replayed(read(SAMPLE), ONCE);
    assert_eq!(left, owned(&LEFT));
    assert!(steps.iter().all(|step| step.result.is_ok()), "{:?}", steps.iter().find(|step| step.result.is_err()));
    let (again, left) = replayed(read(SAMPLE), Options { loops: 3, compressible_percent: 50, ..ONCE });
    assert_eq!(left, owned(&LEFT));
    assert!(again.iter().all(|step| step.result.is_ok()));
    let writes = |steps: &[FileStep]| steps.iter().filter(|step| step.op == FileOp::Write).count();
    assert_eq!(writes(&again), 3 * writes(&steps));
}

#[test]
fn a_summary_has_the_bytes_that_the_lines_have() {
    let of = |call: &str| -> u64 {
        let lines = SAMPLE.lines().filter(|line| line.contains(&format!(" {call}(")) && line.contains("</data/"));
        lines.map(|line| line.rsplit_once("= ").unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let found = read(SAMPLE).summary();
    assert_eq!(found.written_bytes, of("write") + of("pwrite64"));
    assert_eq!(found.read_bytes, of("read") + of("pread64"));
    assert_eq!(found.syncs, SAMPLE.matches(" fsync(").count() as u64 + SAMPLE.matches(" fdatasync(").count() as u64);
    // Only the configuration was there: 40 lines of 10 bytes.
    assert_eq!((found.files_before, found.bytes_before, found.left_out), (1, 400, 0));
    assert!((59.0..61.0).contains(&found.span.as_s()), "{:?}", found.span);
}

/// `echo a > z; echo b >> z; dd if=/dev/zero bs=4k count=2 >> z` of a shell: copies of descriptors are not in the trace.
#[test]
fn output_that_a_shell_redirects_goes_where_it_should() {
    let text = "\
10 1.000000 openat(AT_FDCWD</data>, \"z\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</data/z>
10 1.000010 close(3</data/z>) = 0
10 1.000100 write(1</data/z>, \"a\\n\", 2) = 2
10 1.000200 openat(AT_FDCWD</data>, \"z\", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3</data/z>
10 1.000300 write(1</data/z>, \"b\\n\", 2) = 2
10 1.000400 openat(AT_FDCWD</data>, \"z\", O_WRONLY|O_CREAT|O_APPEND, 0666) = 3</data/z>
11 1.000500 write(1</data/z>, \"\\0\"..., 4096 <unfinished ...>
10 1.000510 read(5<pipe:[7]>, \"\", 1) = 0
11 1.000600 <... write resumed>) = 4096
11 1.000700 write(1</data/z>, \"\\0\"..., 4096) = 4096
11 1.000800 +++ exited with 0 +++
10 1.000900 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
";
    let (steps, left) = replayed(read(text), ONCE);
    assert!(steps.iter().all(|step| step.result.is_ok()), "{steps:?}");
    assert_eq!(left, owned(&[("z", 2 + 2 + 2 * 4096)]));
}

/// Descriptor 1 of process 7 is a copy that no line shows; 5 is closed before, so that 1 alone has the place in `b`.
#[test]
fn a_file_that_is_opened_again_takes_no_place_from_the_descriptors_that_are_open() {
    let text = "\
7 1.0 openat(AT_FDCWD</data>, \"a\", O_RDWR|O_CREAT, 0666) = 3</data/a>
7 1.1 write(3</data/a>, \"\"..., 100) = 100
7 1.2 openat(AT_FDCWD</data>, \"b\", O_RDWR|O_CREAT, 0666) = 5</data/b>
7 1.3 write(1</data/b>, \"\"..., 10) = 10
7 1.4 lseek(1</data/b>, 2, SEEK_SET) = 2
7 1.5 close(5</data/b>) = 0
7 1.6 openat(AT_FDCWD</data>, \"a\", O_RDWR) = 4</data/a>
7 1.7 write(4</data/a>, \"\"..., 30) = 30
7 1.8 write(3</data/a>, \"\"..., 50) = 50
7 1.9 write(1</data/b>, \"\"..., 3) = 3
8 2.0 openat(AT_FDCWD</data>, \"a\", O_RDWR) = 3</data/a>
8 2.1 write(3</data/a>, \"\"..., 20) = 20
7 2.2 write(3</data/a>, \"\"..., 5) = 5
";
    let (steps, left) = replayed(read(text), ONCE);
    assert!(steps.iter().all(|step| step.result.is_ok()), "{steps:?}");
    let writes = steps.iter().filter(|step| step.op == FileOp::Write);
    let places: Vec<(u64, u64)> = writes.map(|step| (step.offset, step.bytes)).collect();
    assert_eq!(places, [(0, 100), (0, 10), (0, 30), (100, 50), (2, 3), (0, 20), (150, 5)]);
    assert_eq!(left, owned(&[("a", 155), ("b", 10)]));
}

#[test]
fn what_was_there_before_the_trace_is_there_and_is_restored() {
    let text = "\
7 5.0 openat(AT_FDCWD</data>, \"old\", O_RDWR) = 3</data/old>
7 5.1 read(3</data/old>, \"\"..., 4096) = 1000
7 5.2 lseek(3</data/old>, 0, SEEK_END) = 5000
7 5.3 write(3</data/old>, \"\"..., 10) = 10
7 5.4 write(9</data/sub/log>, \"\"..., 30) = 30
7 5.5 mkdir(\"/data/d\", 0777) = 0
7 5.6 rename(\"/data/old\", \"/data/d/new\") = 0
7 5.7 ftruncate(3</data/d/new>, 5005) = 0
7 5.8 unlink(\"/data/gone\") = 0
7 5.9 unlink(\"/data/never\") = -1 ENOENT (No such file or directory)
7 6.0 rmdir(\"/data/empty\") = 0
7 6.1 write(1</dev/pts/0>, \"\"..., 99) = 99
";
    let trace = read(text);
    let found = trace.summary();
    assert_eq!((found.files_before, found.bytes_before, found.written_bytes), (3, 5000, 40));
    for loops in [1, 2] {
        let (steps, left) = replayed(trace.clone(), Options { loops, ..ONCE });
        assert!(steps.iter().all(|step| step.result.is_ok()), "{steps:?}");
        assert_eq!(left, owned(&[("d/new", 5005), ("d/", 0), ("sub/log", 30), ("sub/", 0)]));
    }
}

#[test]
fn calls_have_the_times_of_the_trace_at_its_speed_or_none() {
    let text = "1 10.5 mkdir(\"/data/a\", 0777) = 0\n1 12.5 mkdir(\"/data/b\", 0777) = 0\n1 12.0 sync() = 0\n";
    let due = |speed| {
        let (mut fs, mut cx) = (Model::new(Timestamp::default()), Cx::new());
        cx.wait_until(Ns(1_000));
        let mut load = Replay::new(Arc::new(read(text)), Options { speed, ..ONCE }, Seed(1));
        let mut found = Vec::new();
        while load.step(&mut fs, &mut cx).is_some() {
            found.push(load.due().map(|due| due.0));
        }
        found
    };
    assert_eq!(due(Some(2.0)), [Some(1_000_001_000), Some(1_000_001_000), None]);
    assert_eq!(due(None), [None; 3]);
}

#[test]
fn a_line_that_cannot_be_read_is_named() {
    let error = |text: &str| Trace::read(text.as_bytes(), "/data/").unwrap_err().to_string();
    let good = "1 1.0 mkdir(\"/data/a\", 0777) = 0\n";
    for (line, why) in [
        ("1 12:00:00 sync() = 0", "strace -ttt"),
        ("1 1.0 write(3, \"\"..., 10) = 10", "strace -y"),
        ("1 1.0 write(3</data/a>, \"\"..., 10)", "result"),
        ("1 1.0 unlink(\"/data/a\"...) = 0", "cut off"),
        ("1 1.0 ftruncate(3</data/a>, -1) = 0", "offset or length"),
        ("1 1.0 write(3</data/a>, \"\"..., 5000000000) = 5000000000", "4 GiB"),
    ] {
        let found = error(&format!("{good}{line}\n{good}"));
        assert!(found.starts_with("line 2: ") && found.contains(why), "{found}");
    }
    assert_eq!(error("1 1.0 mkdir(\"/database\", 0777) = 0\n"), "none of 1 lines has a call on a file in /data");
    let long = format!("{good}1 1.0 write(3</data/a>, \"{}", "x".repeat(2 << 20));
    assert!(error(&long).starts_with("line 2: found a line of more than 1 MiB"));
}

#[test]
fn lines_with_wrong_bytes_are_calls_or_an_error() {
    let mut rng = Seed(1).stream("test/strace");
    let lines: Vec<&str> = SAMPLE.lines().take(200).collect();
    let mut refused = 0;
    for _ in 0..2_000 {
        let from = rng.below(180) as usize;
        let mut bytes = lines[from..from + 20].join("\n").into_bytes();
        for _ in 0..rng.below(6) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = b"()<>\"\\,= 0123456789-./[]{}\n\xffaO"[rng.below(30) as usize];
        }
        match Trace::read(&bytes[..], "/data") {
            Ok(trace) if trace.summary().written_bytes + trace.summary().bytes_before < 1 << 20 => {
                replayed(trace, Options { loops: 2, ..ONCE });
            }
            Ok(_) => {}
            Err(_) => refused += 1,
        }
    }
    assert!((100..1_900).contains(&refused), "{refused} of 2,000 are refused");
}
