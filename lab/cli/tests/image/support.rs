//! A directory for each test, a way to run the command in it, and images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of its own, emptied first.
pub struct Bench {
    pub dir: PathBuf,
}

/// Result of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn new(output: &Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Panics unless the exit code is `code`.
    pub fn ended(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Panics unless it is an error in the usual form: the place, then a remedy.
    pub fn refused(self, expected: &str) -> Ran {
        let ran = self.ended(2);
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("\n  help: "), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}\nexpected {expected}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        ran
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).expect("one JSON document")
    }
}

impl Bench {
    pub fn new(name: &str) -> Bench {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory for the test");
        Bench { dir }
    }

    /// Runs `nandlab image` with these arguments, split at blanks.
    pub fn run(&self, args: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.arg("image").args(args.split_whitespace()).current_dir(&self.dir).env_remove("NO_COLOR");
        Ran::new(&command.output().expect("the command runs"))
    }

    /// Runs `ubinize`, which must be installed.
    pub fn ubinize(&self, args: &str) -> Ran {
        let found = Command::new("ubinize").args(args.split_whitespace()).current_dir(&self.dir).output();
        match found {
            Ok(output) => Ran::new(&output),
            Err(error) => panic!("ubinize is missing ({error}): apt-get install mtd-utils"),
        }
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.dir.join(name), bytes).expect("a file of the test");
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.join(dir)).expect("a directory of the test");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// An image with a dynamic and a static volume: PEBs of 128 KiB, pages of 2 KiB.
    pub fn with_image(name: &str) -> Bench {
        let bench = Bench::new(name);
        bench.put("rootfs.bin", noise(300_000, 1));
        bench.put("boot.bin", noise(130_000, 2));
        bench.put("u.ini", TWO_VOLUMES);
        bench.run("pack -p 128KiB -m 2048 -Q 1 -e 5 -o u.ubi u.ini").ended(0);
        bench
    }

    /// Edits the image's bytes.
    pub fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.get("u.ubi");
        change(&mut bytes);
        self.put("u.ubi", bytes);
    }
}

pub const TWO_VOLUMES: &str = "[rootfs]\nmode=ubi\nimage=rootfs.bin\nvol_id=0\nvol_size=4MiB\nvol_type=dynamic\n\
                               vol_name=rootfs\nvol_flags=autoresize\n\
                               [boot]\nmode=ubi\nimage=boot.bin\nvol_id=3\nvol_type=static\nvol_name=boot\n";

/// Bytes without a pattern, the same every time.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = sim::Seed(seed).stream("test/noise");
    (0..len).map(|_| rng.bits() as u8).collect()
}

/// The same pages with `oob` after each.
pub fn with_oob(bytes: &[u8], page_bytes: usize, oob: &[u8]) -> Vec<u8> {
    bytes.chunks(page_bytes).flat_map(|page| [page, oob].concat()).collect()
}
