//! Over NBD.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{NBD, Server, noise};

#[test]
fn nbdinfo_qemu_img_and_nbdcopy_find_a_disk() {
    let server = Server::start("clients", &NBD, &["--flash", "kept.img"]);
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
    let again = Server::go_on(dir, &NBD, &["--from", "kept.img", "--once"]);
    assert!(again.client("qemu-img", &["compare", "-f", "raw", "-F", "raw", "kept.img", "URI"]).contains("identical"));
}

#[test]
fn fio_verifies_what_four_connections_wrote() {
    let server = Server::start("fio", &NBD, &[]);
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

fn raw(server: &Server) -> UnixStream {
    let stream = UnixStream::connect(server.dir.join("nand.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// A client of our own making, for what no good client does: greeted, and its handshake done by EXPORT_NAME.
pub(crate) fn opened(server: &Server) -> UnixStream {
    let mut stream = raw(server);
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    stream.write_all(&[0, 0, 0, 3]).unwrap();
    stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

/// A request of NBD: flags 0.
pub(crate) fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0];
    bytes.extend(command.to_be_bytes());
    bytes.extend(*b"a cookie");
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The error of a simple reply.
pub(crate) fn error(stream: &mut UnixStream) -> u32 {
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((&reply[..4], &reply[8..]), (&[0x67, 0x44, 0x66, 0x98][..], &b"a cookie"[..]));
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

#[test]
fn clients_that_lie_or_die_harm_nobody() {
    let server = Server::start("liars", &NBD, &[]);
    let mut good = opened(&server);
    // Garbage instead of a handshake; an option with a length that is a lie; a request without its magic.
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\0\0\x03IHAVEOPX\0\0\0\x07\0\0\0\0",
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\xff\xff\xff\xff",
    ] {
        let mut bad = raw(&server);
        bad.write_all(garbage).unwrap();
        let mut rest = Vec::new();
        bad.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.len(), 18, "the greeting, and then the end");
    }
    let mut bad = opened(&server);
    bad.write_all(&[0x55; 28]).unwrap();
    assert_eq!(bad.read(&mut [0; 16]).unwrap(), 0);
    // INFO whose name is longer than the option: NBD_REP_ERR_INVALID, and the session goes on.
    let mut odd = raw(&server);
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
    let many: Vec<_> = (0..15).map(|_| raw(&server)).collect();
    let mut late = raw(&server);
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
        let server = Server::start(name, &NBD, &[]);
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
    let server = Server::start("paced", &NBD, &["--paced"]);
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
    let server = Server::start("addresses", &NBD, &[]);
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
    assert!(error.contains("found raw flash, expected a block device"), "{error}");
    // A socket that a killed server left is replaced.
    let mut killed = server;
    let dir = killed.dir.clone();
    let mut process = killed.process.take().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(dir.join("nand.sock").exists());
    let again = Server::go_on(dir, &NBD, &[]);
    again.client("nbdinfo", &["URI"]);
}
