//! `nandlab serve`, with the clients of others: libnbd's nbdinfo and nbdcopy, QEMU's qemu-img, fio.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A drive of 32 MiB with a volatile cache.
const DRIVE: &str = "title = 'live'\n[ssd]\nchannels = 2\nways = 1\ndies = 1\nplanes = 1\nblocks = 80\npages = 64\n\
    page_kib = 4.0\nmulti_plane = false\nover_provisioning_percent = 25\n[ssd.cache]\npolicy = 'lru'\nmib = 1.0\n\
    [ssd.front]\nprotocol = 'nvme'\ndepth = 8\nwrite_cache = true\n";

struct Server {
    process: Option<Child>,
    dir: PathBuf,
}

impl Server {
    fn start(name: &str, args: &[&str]) -> Server {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve").join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Server::go_on(dir, args)
    }

    fn go_on(dir: PathBuf, args: &[&str]) -> Server {
        std::fs::write(dir.join("drive.toml"), DRIVE).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.current_dir(&dir).args(["serve", "drive.toml", "--nbd", "unix:nand.sock", "--json"]).args(args);
        let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut server = Server { process: Some(process), dir };
        let since = Instant::now();
        // Somebody listens as soon as the drive is ready; a socket that a killed server left has nobody.
        while UnixStream::connect(server.dir.join("nand.sock")).is_err() {
            let process = server.process.as_mut().unwrap();
            if process.try_wait().unwrap().is_some() {
                let said = server.process.take().unwrap().wait_with_output().unwrap();
                panic!("{}", String::from_utf8_lossy(&said.stderr));
            }
            assert!(since.elapsed() < Duration::from_secs(60), "nobody listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.dir.join("nand.sock").display())
    }

    /// What a client says; it must succeed.
    #[track_caller]
    fn client(&self, name: &str, args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(|arg| arg.replace("URI", &self.uri())).collect();
        let said = Command::new(name).current_dir(&self.dir).args(&args).output();
        let said = said.unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{name} {args:?}: {}{error}", String::from_utf8_lossy(&said.stdout));
        String::from_utf8(said.stdout).unwrap()
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.dir.join("nand.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Asks it to end, and returns what it says.
    fn end(mut self) -> (Output, PathBuf) {
        let process = self.process.take().unwrap();
        let killed = Command::new("kill").args(["-TERM", &process.id().to_string()]).status().unwrap();
        assert!(killed.success());
        (process.wait_with_output().unwrap(), self.dir.clone())
    }

    #[track_caller]
    fn result(self) -> Value {
        let (said, dir) = self.end();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        assert!(!dir.join("nand.sock").exists());
        serde_json::from_slice(&said.stdout).unwrap()
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

#[test]
fn nbdinfo_qemu_img_and_nbdcopy_find_a_disk() {
    let server = Server::start("clients", &["--flash", "kept.img"]);
    let told: Value = serde_json::from_str(&server.client("nbdinfo", &["--json", "URI"])).unwrap();
    let export = &told["exports"][0];
    for can in ["can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero", "can_df"] {
        assert_eq!(export[can], true, "{can}: {told}");
    }
    assert_eq!((&export["is_read_only"], &export["block_size_minimum"]), (&false.into(), &512.into()));
    assert_eq!(told["structured"], true);
    assert!(server.client("nbdinfo", &["--list", "URI"]).contains("live"));
    let bytes = export["export-size"].as_u64().unwrap() as usize;

    let image = noise(5 << 20);
    std::fs::write(server.dir.join("in.img"), &image).unwrap();
    server.client("nbdcopy", &["--connections=4", "--flush", "in.img", "URI"]);
    server.client("nbdcopy", &["URI", "out.img"]);
    let read = std::fs::read(server.dir.join("out.img")).unwrap();
    assert_eq!(read.len(), bytes);
    assert!(read[..image.len()] == image && read[image.len()..].iter().all(|&byte| byte == 0));
    assert!(server.client("qemu-img", &["info", "URI"]).contains(&format!("({bytes} bytes)")));
    server.client("qemu-img", &["convert", "-n", "-O", "raw", "out.img", "URI"]);
    assert!(server.client("qemu-img", &["compare", "out.img", "URI"]).contains("identical"));
    // Discarded sectors read as zeroes, and zeroes that are written too; what stands beside them stays.
    server.client("qemu-io", &["-f", "raw", "-c", "discard 64k 64k", "-c", "write -z 1M 3k", "-c", "flush", "URI"]);
    server.client("qemu-io", &["-f", "raw", "-c", "read -P 0 64k 64k", "-c", "read -P 0 1M 3k", "URI"]);

    let dir = server.dir.clone();
    let result = server.result();
    assert_eq!((&result["status"], &result["logical_bytes"]), (&"done".into(), &bytes.into()));
    let kept = std::fs::read(dir.join("kept.img")).unwrap();
    let mut expected = image;
    expected[64 << 10..128 << 10].fill(0);
    expected[1 << 20..][..3 << 10].fill(0);
    assert!(kept[..expected.len()] == expected && kept.len() == bytes);
    // A server begins with what another kept.
    let again = Server::go_on(dir, &["--from", "kept.img", "--once"]);
    assert!(again.client("qemu-img", &["compare", "-f", "raw", "-F", "raw", "kept.img", "URI"]).contains("identical"));
}

#[test]
fn fio_verifies_what_four_connections_wrote() {
    let server = Server::start("fio", &[]);
    let job = ["--name=j", "--ioengine=nbd", "--uri=URI", "--rw=randrw", "--bs=4k", "--iodepth=16", "--numjobs=4"];
    let more = ["--size=4m", "--offset_increment=4m", "--verify=crc32c", "--fsync=32", "--output-format=json"];
    let said = server.client("fio", &[&job[..], &more].concat());
    // Its engine says in words that it is connected.
    let said: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    for job in said["jobs"].as_array().unwrap() {
        assert_eq!(job["error"], 0);
    }
    let result = server.result();
    let flows = result["flows"].as_array().unwrap();
    assert!(flows.len() >= 4, "{flows:?}");
}

/// A client of our own making, for what no good client does: greeted, and its handshake done by EXPORT_NAME.
fn opened(server: &Server) -> UnixStream {
    let mut stream = server.raw();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    stream.write_all(&[0, 0, 0, 3]).unwrap();
    stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// A request of NBD: flags 0.
fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0];
    bytes.extend(command.to_be_bytes());
    bytes.extend(*b"a cookie");
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The error of a simple reply.
fn error(stream: &mut UnixStream) -> u32 {
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..4], &reply[8..]), (&[0x67, 0x44, 0x66, 0x98][..], &b"a cookie"[..]));
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

#[test]
fn clients_that_lie_or_die_harm_nobody() {
    let server = Server::start("liars", &[]);
    let mut good = opened(&server);
    // Garbage instead of a handshake; an option with a length that is a lie; a request without its magic.
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\0\0\x03IHAVEOPX\0\0\0\x07\0\0\0\0",
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\xff\xff\xff\xff",
    ] {
        let mut bad = server.raw();
        bad.write_all(garbage).unwrap();
        let mut rest = Vec::new();
        bad.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 18, "the greeting, and then the end");
    }
    let mut bad = opened(&server);
    bad.write_all(&[0x55; 28]).unwrap();
    assert_eq!(bad.read(&mut [0; 16]).unwrap(), 0);
    // INFO whose name is longer than the option: NBD_REP_ERR_INVALID, and the session goes on.
    let mut odd = server.raw();
    odd.read_exact(&mut [0; 18]).unwrap();
    odd.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x06\0\0\0\x06\xff\0\0\0\0\0").unwrap();
    let mut reply = [0; 20];
    odd.read_exact(&mut reply).unwrap();
    assert_eq!(reply[12..16], [0x80, 0, 0, 3]);
    // A client that dies in the middle of a write, one that dies with a read under way.
    let mut dies = opened(&server);
    dies.write_all(&request(1, 0, 8192)).unwrap();
    dies.write_all(&[7; 5000]).unwrap();
    drop(dies);
    let mut dies = opened(&server);
    dies.write_all(&request(0, 0, 16 << 20)).unwrap();
    drop(dies);
    // Beyond the end: ENOSPC for a write, EINVAL for a read; too long: EOVERFLOW; not on a sector; no such command.
    let told = |stream: &mut UnixStream, bytes: &[u8], data: usize| {
        stream.write_all(bytes).unwrap();
        stream.write_all(&vec![9; data]).unwrap();
        error(stream)
    };
    assert_eq!(told(&mut good, &request(1, 1 << 50, 512), 512), 28);
    assert_eq!(told(&mut good, &request(0, u64::MAX - 511, 512), 0), 22);
    assert_eq!(told(&mut good, &request(0, 0, u32::MAX), 0), 75);
    assert_eq!(told(&mut good, &request(1, 0, (32 << 20) + 512), (32 << 20) + 512), 75);
    assert_eq!(told(&mut good, &request(0, 1, 512), 0), 22);
    assert_eq!(told(&mut good, &request(99, 0, 0), 0), 95);
    // Nothing of it was written, and all others are served.
    assert_eq!(told(&mut good, &request(0, 0, 8192), 0), 0);
    let mut data = [1; 8192];
    good.read_exact(&mut data).unwrap();
    assert!(data.iter().all(|&byte| byte == 0));
    assert_eq!(told(&mut good, &request(1, 4096, 4096), 4096), 0);
    server.client("nbdinfo", &["URI"]);
    // At most sixteen at a time.
    let many: Vec<_> = (0..15).map(|_| server.raw()).collect();
    let mut late = server.raw();
    std::thread::sleep(Duration::from_millis(50));
    let mut rest = Vec::new();
    let _ = late.read_to_end(&mut rest);
    assert!(rest.is_empty());
    drop(many);
    server.result();
}

#[test]
fn the_same_requests_of_one_client_give_the_same_result() {
    let run = |name| {
        let server = Server::start(name, &[]);
        let mut client = opened(&server);
        for at in 0..200 {
            client.write_all(&request(1, at * 40 % 4096 * 512, 4096)).unwrap();
            client.write_all(&noise(4096)).unwrap();
            assert_eq!(error(&mut client), 0);
        }
        drop(client);
        server.result()["fingerprint"].clone()
    };
    let found = run("once");
    assert_eq!(found, run("twice"));
    assert!(found.is_string());
}

#[test]
fn a_paced_reply_comes_no_sooner_than_the_drive_has_it() {
    let server = Server::start("paced", &["--paced"]);
    let mut client = opened(&server);
    let began = Instant::now();
    for at in 0..20 {
        client.write_all(&request(1, at * 4096, 4096)).unwrap();
        client.write_all(&noise(4096)).unwrap();
        assert_eq!(error(&mut client), 0);
    }
    let wall = began.elapsed().as_nanos() as f64;
    drop(client);
    let result = server.result();
    let virtual_ns = result["measured_ns"].as_f64().unwrap();
    assert!(virtual_ns > 0.0 && wall >= virtual_ns, "{wall} ns on the wall, {virtual_ns} ns of the drive");
}

#[test]
fn an_address_that_others_can_reach_or_that_is_in_use_is_refused() {
    let server = Server::start("addresses", &[]);
    let said = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        let said = command.current_dir(&server.dir).args(["serve", "drive.toml", "--nbd"]).args(args).output().unwrap();
        (said.status.code(), String::from_utf8(said.stderr).unwrap())
    };
    let (code, error) = said(&["0.0.0.0:10809"]);
    assert!(code == Some(2) && error.contains("--anywhere"), "{error}");
    let (code, error) = said(&["unix:nand.sock"]);
    assert!(code == Some(2) && error.contains("somebody listens"), "{error}");
    let (code, error) = said(&["unix:drive.toml"]);
    assert!(code == Some(2) && error.contains("no socket"), "{error}");
    let (code, error) = said(&["nand.sock"]);
    assert!(code == Some(2) && error.contains("unix:PATH"), "{error}");
    let hello = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/hello.toml");
    let said = Command::new(env!("CARGO_BIN_EXE_nandlab")).args(["serve", hello, "--nbd", "unix:o.sock"]).output();
    let error = String::from_utf8(said.unwrap().stderr).unwrap();
    assert!(error.contains("found raw flash, expected a drive"), "{error}");
    // A socket that a killed server left is replaced.
    let mut killed = server;
    let dir = killed.dir.clone();
    let mut process = killed.process.take().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(dir.join("nand.sock").exists());
    let again = Server::go_on(dir, &[]);
    again.client("nbdinfo", &["URI"]);
}
