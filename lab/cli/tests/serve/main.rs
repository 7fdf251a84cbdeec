//! `nandlab serve`, with the clients of others: libnbd's nbdinfo and nbdcopy, QEMU, fio, and a front end on the crate
//! `vhost`.

mod nbd;
mod ubiblock;
mod vhost;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A drive of 32 MiB with a volatile cache.
const DRIVE: &str = "title = 'live'\n[ssd]\nchannels = 2\nways = 1\ndies = 1\nplanes = 1\nblocks = 80\npages = 64\n\
    page_kib = 4.0\nmulti_plane = false\nover_provisioning_percent = 25\n[ssd.cache]\npolicy = 'lru'\nmib = 1.0\n\
    [ssd.front]\nprotocol = 'nvme'\ndepth = 8\nwrite_cache = true\n";
const NBD: [&str; 2] = ["--nbd", "unix:nand.sock"];
const VHOST: [&str; 2] = ["--vhost-user-blk", "blk.sock"];

struct Server {
    process: Option<Child>,
    dir: PathBuf,
}

impl Server {
    fn start(name: &str, endpoints: &[&str], args: &[&str]) -> Server {
        Server::start_on(DRIVE, name, endpoints, args)
    }

    /// A server of another experiment.
    fn start_on(experiment: &str, name: &str, endpoints: &[&str], args: &[&str]) -> Server {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve").join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("drive.toml"), experiment).unwrap();
        Server::go_on(dir, endpoints, args)
    }

    fn go_on(dir: PathBuf, endpoints: &[&str], args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.current_dir(&dir).args(["serve", "drive.toml", "--json"]).args(endpoints).args(args);
        let file = |name| File::create(dir.join(name)).unwrap();
        let process = command.stdout(file("said.json")).stderr(file("said.txt")).spawn().unwrap();
        let mut server = Server { process: Some(process), dir };
        let since = Instant::now();
        // It says where it listens once it does.
        while server.said().matches(" bytes on ").count() < endpoints.len() / 2 {
            assert!(server.process.as_mut().unwrap().try_wait().unwrap().is_none(), "{}", server.said());
            assert!(since.elapsed() < Duration::from_secs(60), "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// What it has said on its error output.
    fn said(&self) -> String {
        std::fs::read_to_string(self.dir.join("said.txt")).unwrap()
    }

    /// Waits until it has said something.
    #[track_caller]
    fn says(&self, what: &str) {
        let since = Instant::now();
        while !self.said().contains(what) {
            assert!(since.elapsed() < Duration::from_secs(20), "{what}: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.dir.join("nand.sock").display())
    }

    /// What a client says; it must succeed.
    #[track_caller]
    fn client(&self, name: &str, args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(|arg| arg.replace("URI", &self.uri())).collect();
        let said = Command::new(name).current_dir(&self.dir).args(&args).stdin(Stdio::null()).output();
        let said = said.unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{name} {args:?}: {}{error}", String::from_utf8_lossy(&said.stdout));
        String::from_utf8(said.stdout).unwrap()
    }

    /// The result, once it has ended by itself.
    #[track_caller]
    fn ended(mut self) -> Value {
        let status = self.process.take().unwrap().wait().unwrap();
        assert!(status.success(), "{}", self.said());
        assert!(!self.dir.join("nand.sock").exists() && !self.dir.join("blk.sock").exists());
        serde_json::from_slice(&std::fs::read(self.dir.join("said.json")).unwrap()).unwrap()
    }

    /// Asks it to end, and returns the result.
    #[track_caller]
    fn result(self) -> Value {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.ended()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Bytes without a pattern, by a linear congruential generator.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}
