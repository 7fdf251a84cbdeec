//! A ubiblock over NBD.

use std::io::Write;
use std::process::Command;

use serde_json::Value;

use crate::nbd::{error, opened, request};
use crate::{NBD, Server, noise};

/// A volume of 5 MiB on NAND.
const UBIBLOCK: &str = "title = 'live'\n[nand]\npart = 'MT29F1G08ABAFA'\npebs = 128\ndelays = 'part'\n\
                        [ubiblock]\ncache_lebs = 2\nsize_bytes = 5242880\n";

#[test]
fn clients_write_and_the_flash_has_it() {
    let server = Server::start_on(UBIBLOCK, "ubiblock", &NBD, &["--flash", "flash.bin", "--disk", "disk.img"]);
    let told: Value = serde_json::from_str(&server.client("nbdinfo", &["--json", "URI"])).unwrap();
    let bytes = told["exports"][0]["export-size"].as_u64().unwrap() as usize;
    assert!(bytes >= 5 << 20 && bytes.is_multiple_of(126_976), "{bytes}");
    let image = noise(3 << 20);
    std::fs::write(server.dir.join("in.img"), &image).unwrap();
    server.client("nbdcopy", &["--flush", "in.img", "URI"]);
    server.client("qemu-io", &["-f", "raw", "-c", "write -P 7 4M 3k", "-c", "read -P 7 4M 3k", "URI"]);
    let dir = server.dir.clone();
    let result = server.result();
    assert_eq!((&result["kind"], &result["logical_bytes"]), (&"ubiblock".into(), &bytes.into()));
    let disk = std::fs::read(dir.join("disk.img")).unwrap();
    assert!(disk.len() == bytes && disk[..image.len()] == image);
    assert!(disk[4 << 20..][..3 << 10].iter().all(|&byte| byte == 7), "the last close wrote it back");
    // The volume in the raw flash is the disk: by our reader of images.
    let nandlab = |args: &[&str]| {
        let said = Command::new(env!("CARGO_BIN_EXE_nandlab")).current_dir(&dir).args(args).output().unwrap();
        assert!(said.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    nandlab(&["image", "check", "flash.bin"]);
    nandlab(&["image", "extract", "flash.bin", "-o", "volumes"]);
    let volume = std::fs::read_dir(dir.join("volumes")).unwrap().next().unwrap().unwrap().path();
    let volume = std::fs::read(volume).unwrap();
    assert!(disk[..volume.len()] == volume && disk[volume.len()..].iter().all(|&byte| byte == 0xff));
    // A server begins with what another kept.
    let again = Server::go_on(dir, &NBD, &["--from", "disk.img", "--once"]);
    assert!(again.client("qemu-img", &["compare", "-f", "raw", "-F", "raw", "disk.img", "URI"]).contains("identical"));
}

#[test]
fn a_read_only_device_says_so_and_answers_a_write_with_eperm() {
    let text = format!("{UBIBLOCK}form = 'read-only'\n[precondition]\nkind = 'sequential'\nfraction = 0.5\n");
    let server = Server::start_on(&text, "read-only", &NBD, &[]);
    let told: Value = serde_json::from_str(&server.client("nbdinfo", &["--json", "URI"])).unwrap();
    assert_eq!((&told["exports"][0]["is_read_only"], &told["exports"][0]["can_trim"]), (&true.into(), &false.into()));
    let mut client = opened(&server);
    let told = |client: &mut std::os::unix::net::UnixStream, bytes: &[u8], data: usize| {
        client.write_all(bytes).unwrap();
        client.write_all(&vec![9; data]).unwrap();
        error(client)
    };
    // EPERM of Linux's errno-base.h.
    assert_eq!(told(&mut client, &request(1, 0, 4096), 4096), 1);
    assert_eq!(told(&mut client, &request(4, 0, 4096), 0), 1);
    assert_eq!(told(&mut client, &request(3, 0, 0), 0), 0, "a flush has nothing to do");
    drop(client);
    // The precondition's zeroes, and behind them what was never written.
    server.client("qemu-io", &["-r", "-f", "raw", "-c", "read -P 0 0 64k", "-c", "read -P 255 4M 64k", "URI"]);
    assert_eq!(server.result()["wear"]["erases"], 0);
}

#[test]
fn fio_verifies_what_it_wrote() {
    let server = Server::start_on(UBIBLOCK, "ubiblock-fio", &NBD, &[]);
    let job = ["--name=j", "--ioengine=nbd", "--uri=URI", "--rw=randrw", "--bs=4k", "--iodepth=8"];
    let more = ["--size=2m", "--verify=crc32c", "--fsync=32", "--output-format=json"];
    let said = server.client("fio", &[&job[..], &more].concat());
    let said: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    assert_eq!(said["jobs"][0]["error"], 0);
    let result = server.result();
    let metric = |id: &str| {
        let all = result["metrics"].as_array().unwrap();
        all.iter().find(|metric| metric["id"] == id).map(|metric| metric["value"].as_f64().unwrap()).unwrap()
    };
    assert!(metric("ubiblock.write_backs.flushed") > 0.0 && metric("ubiblock.loads") > 0.0);
}
