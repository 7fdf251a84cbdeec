//! The file systems of the guest: each works on a device of ours, its checker finds it whole after fsstress, and finds
//! damage that was made on purpose.

use std::path::Path;

use serde_json::Value;

use super::{Command, FLASH, fresh, json, nandlab, text};

/// A drive with so many blocks per plane: 0.4 MiB each.
fn drive(blocks: u32) -> String {
    format!(
        "[ssd]\nchannels = 2\nways = 1\ndies = 1\nplanes = 1\nblocks = {blocks}\npages = 64\npage_kib = 4.0\n\
         multi_plane = false\nover_provisioning_percent = 25\n[ssd.cache]\npolicy = 'lru'\nmib = 1.0\n\
         [ssd.front]\nprotocol = 'nvme'\ndepth = 8\nwrite_cache = true\n"
    )
}

/// An experiment with `fs`, the keys of `guest.fs`.
fn written(dir: &Path, name: &str, device: &str, guest: &str, fs: &str, job: &str) -> String {
    let file = format!("{name}.toml");
    let text =
        format!("title = 'x'\n{device}\n[guest]\nmemory_mib = 128\n{guest}\njob = '''\n{job}\n'''\n[guest.fs]\n{fs}\n");
    std::fs::write(dir.join(&file), text).unwrap();
    file
}

/// A file whose bytes can be found in an image, and some hundred operations of two processes.
const STRESS: &str =
    "yes needle-needle-needle | head -c 16384 >needle-file; mkdir work; fsstress -p 2 -n 150 -s 1 work; sync";

fn marks(result: &Value) -> Vec<String> {
    let marks = result["guest"]["marks"].as_array().unwrap();
    marks.iter().map(|mark| mark["text"].as_str().unwrap().to_owned()).collect()
}

/// Runs fsstress on a file system, whose checker must find it whole; then damages the image, and it must not.
#[track_caller]
fn sound_unless_damaged(kind: &str, device: &str, guest: &str, options: &str, damage: impl Fn(&Path)) {
    let dir = fresh(&format!("fs-{kind}"));
    let fs = format!("kind = '{kind}'\nfsck = true\n{options}");
    let file = written(&dir, "stress", device, &format!("program = 'fsstress'\n{guest}"), &fs, STRESS);
    let found = json(&dir, &["run", &file, "--flash", "image", "--json"]);
    assert_eq!((&found["guest"]["exit"], marks(&found)), (&0.into(), vec!["fsck: clean".to_owned()]), "{kind}");

    damage(&dir.join("image"));
    let file = written(&dir, "damaged", device, guest, &fs, "true");
    let said = nandlab(&dir, &["run", &file, "--from", "image", "--json"]);
    assert_eq!(said.status.code(), Some(1), "{kind}: {}{}", text(&said.stdout), text(&said.stderr));
    assert!(
        text(&said.stderr).contains("the checker of the guest's file system found damage"),
        "{}",
        text(&said.stderr)
    );
    let found: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&found["guest"]["exit"], marks(&found)), (&1.into(), vec!["fsck: damaged".to_owned()]), "{kind}");
}

/// Changes an image. `edit` returns how many places it changed.
fn edit(image: &Path, edit: impl Fn(&mut Vec<u8>) -> usize) {
    let mut bytes = std::fs::read(image).unwrap();
    assert!(edit(&mut bytes) > 0, "there is nothing to damage");
    std::fs::write(image, bytes).unwrap();
}

/// Calls `edit` where a text stands.
fn at_each(bytes: &mut [u8], what: &[u8], edit: impl Fn(&mut [u8], usize) -> bool) -> usize {
    let places: Vec<usize> = (0..=bytes.len() - what.len()).filter(|&at| bytes[at..].starts_with(what)).collect();
    places.into_iter().filter(|&at| edit(bytes, at)).count()
}

/// Flips a bit of the file's data, wherever it is.
fn flip_data(image: &Path) {
    edit(image, |bytes| {
        at_each(bytes, b"needle-needle-needle", |bytes, at| {
            bytes[at] ^= 1;
            true
        })
    });
}

/// A foreign program that changes an image.
fn by(program: &str, args: &[&str], image: &Path) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let said = Command::new(program).args(args).arg(image).env("PATH", path).output().unwrap();
    assert!(said.status.success(), "{program}: {}", text(&said.stderr));
}

/// Sets the link count of the root directory, which e2fsck counts.
fn wrong_links(image: &Path) {
    by("debugfs", &["-w", "-R", "set_inode_field <2> links_count 99"], image);
}

#[test]
fn ext2_is_sound_unless_damaged() {
    sound_unless_damaged("ext2", &drive(40), "", "", wrong_links);
}

#[test]
fn ext3_is_sound_unless_damaged() {
    sound_unless_damaged("ext3", &drive(40), "", "mount = 'data=writeback,barrier=0'", wrong_links);
}

#[test]
fn ext4_is_sound_unless_damaged() {
    sound_unless_damaged("ext4", &drive(40), "", "mount = 'data=ordered,nodelalloc,discard'", wrong_links);
}

#[test]
fn xfs_is_sound_unless_damaged() {
    // 300.8 MiB: mkfs.xfs wants 300.
    sound_unless_damaged("xfs", &drive(752), "", "", |image| {
        by("xfs_db", &["-x", "-c", "inode 128", "-c", "write core.nlinkv2 9"], image);
    });
}

#[test]
fn btrfs_is_sound_unless_damaged() {
    // 110.4 MiB: mkfs.btrfs wants 109.
    sound_unless_damaged("btrfs", &drive(276), "", "mkfs = '-s 4096 -n 4096'\nmount = 'nossd'", flip_data);
}

#[test]
fn f2fs_is_sound_unless_damaged() {
    // 52.8 MiB: mkfs.f2fs wants 52.
    sound_unless_damaged("f2fs", &drive(132), "", "", |image| {
        edit(image, |bytes| {
            at_each(bytes, b"needle-file", |bytes, at| {
                // A node block of a file has its mode first, and its link count at byte 12.
                let node = at / 4096 * 4096;
                let is_file = bytes[node + 1] >> 4 == 8;
                if is_file {
                    bytes[node + 12] = 7;
                }
                is_file
            })
        });
    });
}

#[test]
fn nilfs2_is_sound_unless_damaged() {
    sound_unless_damaged("nilfs2", &drive(40), "", "mkfs = '-B 16'\nmount = 'pp=0'", |image| {
        edit(image, |bytes| {
            at_each(bytes, b"needle-file", |bytes, at| {
                // Before a name in a directory are its record's length (2 bytes), the name's length and the type.
                let is_entry = bytes[at - 2] == 11;
                if is_entry {
                    bytes[at - 4] = 3;
                }
                is_entry
            })
        });
    });
}

#[test]
fn vfat_is_sound_unless_damaged() {
    sound_unless_damaged("vfat", &drive(40), "", "mkfs = '-F 16'\nmount = 'discard'", |image| {
        edit(image, |bytes| {
            // The second FAT begins after the reserved sectors (byte 14) and the first FAT (byte 22).
            let word = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
            let second = 512 * (word(14) + word(22));
            bytes[second + 4] ^= 0xff;
            1
        });
    });
}

#[test]
#[ignore = "needs Linux 6.1, which `make thorough` builds"]
fn reiserfs_is_sound_unless_damaged() {
    // 33.6 MiB: its journal takes 32.
    sound_unless_damaged("reiserfs", &drive(84), "linux = '6.1'", "mount = 'notail'", |image| {
        edit(image, |bytes| {
            // Block 17 is the first bitmap; this part is of blocks beyond the device.
            bytes[17 * 4096 + 2000] ^= 0xff;
            1
        });
    });
}

#[test]
fn ubifs_is_sound_unless_damaged() {
    sound_unless_damaged("ubifs", FLASH, "", "mount = 'compr=none'", flip_data);
}

#[test]
fn jffs2_is_sound_unless_damaged() {
    sound_unless_damaged("jffs2", FLASH, "", "mount = 'compr=none'", flip_data);
}

#[test]
fn a_file_system_on_a_partition_begins_at_its_sector() {
    let dir = fresh("partition");
    for first in [63u32, 16_384] {
        let fs = format!("kind = 'ext4'\npartition_lba = {first}\nfsck = true");
        let job = "head -c 200000 /dev/urandom >a; sync; cat /sys/class/block/nandlab0p1/start";
        let file = written(&dir, "partition", &drive(80), "", &fs, job);
        let made = ["run", &file, "--flash", "p.img", "--trace", "p.ntrace", "--json", "--force"];
        let found = json(&dir, &made);
        let output = found["guest"]["output"].as_str().unwrap();
        assert!(output.ends_with(&format!("{first}\n")), "{output}");
        // The table as a PC has it: 0x55 0xAA, and one entry of type 0x83 with its first sector and its sectors.
        let image = std::fs::read(dir.join("p.img")).unwrap();
        let sectors = (image.len() / 512) as u32;
        let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        assert_eq!(
            (&image[510..512], image[450], word(454), word(458)),
            (&[0x55, 0xaa][..], 0x83, first, sectors - first)
        );
        // e2fsck finds the file system where the partition is.
        std::fs::write(dir.join("part.img"), &image[512 * first as usize..]).unwrap();
        by("e2fsck", &["-fn"], &dir.join("part.img"));
        // No request of the job is before it, and it goes on from its image.
        let convert = ["trace", "convert", "p.ntrace", "p.csv", "--to", "msr", "--force"];
        let said = nandlab(&dir, &convert);
        assert!(said.status.success(), "{}", text(&said.stderr));
        let log = std::fs::read_to_string(dir.join("p.csv")).unwrap();
        let offsets: Vec<u64> = log.lines().map(|line| line.split(',').nth(4).unwrap().parse().unwrap()).collect();
        assert!(offsets.len() > 2 && offsets.iter().all(|&offset| offset >= 512 * u64::from(first)), "{offsets:?}");
        let file = written(&dir, "again", &drive(80), "", &fs, "wc -c <a");
        let again = json(&dir, &["run", &file, "--from", "p.img", "--json"]);
        assert_eq!(again["guest"]["output"], "200000\n");
    }
}

#[test]
fn an_image_is_mounted_by_the_name_of_its_volume() {
    let dir = fresh("volume");
    std::fs::create_dir_all(dir.join("tree")).unwrap();
    std::fs::write(dir.join("tree/a"), "from the image\n").unwrap();
    // The name that `nandlab image pack` takes is `rootfs`.
    for words in
        ["image pack tree -o a.ubi -p 128KiB -m 2048", "image pack a.ubi -o a.bin -p 128KiB -m 2048 --pebs 128"]
    {
        let said = nandlab(&dir, &words.split(' ').collect::<Vec<_>>());
        assert!(said.status.success(), "{words}: {}", text(&said.stderr));
    }
    let run = |fs: &str| {
        nandlab(&dir, &["run", &written(&dir, "volume", FLASH, "", fs, "cat a"), "--from", "a.bin", "--json"])
    };
    let said = run("kind = 'ubifs'\nvolume = 'rootfs'");
    let found: Value =
        serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&said.stderr)));
    assert_eq!(found["guest"]["output"], "from the image\n");
    let said = run("kind = 'ubifs'");
    let said = text(&said.stderr);
    assert!(said.contains("guest.fs.volume names one:\nrootfs\n"), "{said}");
}

#[test]
fn the_checker_is_not_measured() {
    let dir = fresh("fsck-measured");
    let of = |fsck: bool| {
        let fs = format!("kind = 'ext4'\nfsck = {fsck}");
        let file = written(&dir, "fsck", &drive(80), "", &fs, "head -c 100000 /dev/zero >a");
        let trace = format!("{fsck}.ntrace");
        let found = json(&dir, &["run", &file, "--trace", &trace, "--json"]);
        let log = std::fs::read(dir.join(&trace)).unwrap();
        (found["requests"].clone(), found["measured_ns"].clone(), found["wear"].clone(), log)
    };
    let (with, without) = (of(true), of(false));
    assert_eq!((&with.0, &with.2), (&without.0, &without.2));
    // With the checker the time ends before it, without at the exit of the script: a look at the clock later.
    let (with_ns, without_ns) = (with.1.as_u64().unwrap(), without.1.as_u64().unwrap());
    assert!((without_ns - 10_000..=without_ns).contains(&with_ns), "{with_ns} ns, {without_ns} ns");
    assert!(with.3 == without.3, "the log has the checker's requests");
}

#[test]
fn what_a_file_system_needs_is_said_in_the_words_of_its_programs() {
    let dir = fresh("fs-errors");
    let refused = |device: &str, guest: &str, fs: &str, job: &str| {
        let said = nandlab(&dir, &["run", &written(&dir, "refused", device, guest, fs, job)]);
        assert!(!said.status.success(), "{}", text(&said.stdout));
        text(&said.stderr)
    };
    let small = refused(&drive(40), "", "kind = 'xfs'", "true");
    assert!(small.contains("the guest's setup failed") && small.contains("larger than 300MB"), "{small}");
    let option = refused(&drive(40), "", "kind = 'ext4'\nmount = 'quux=3'", "true");
    assert!(option.contains("ext4: Unknown parameter 'quux'"), "{option}");
    // A command of the setup that fails ends it, even if others follow.
    let middle = refused(&drive(40), "setup = 'false; true'", "kind = 'ext4'", "echo no");
    assert!(middle.contains("the guest's setup failed"), "{middle}");

    for (device, fs, key, expected) in [
        (drive(40), "kind = 'ubifs'", "guest.fs.kind", "a file system of a drive (`ssd`): ext2, "),
        (FLASH.to_owned(), "kind = 'vfat'", "guest.fs.kind", "a file system of raw flash (`nand`): ubifs, jffs2"),
        (drive(84), "kind = 'reiserfs'", "guest.fs.kind", "guest.linux = \"6.1\""),
        (FLASH.to_owned(), "kind = 'ubifs'\npartition_lba = 63", "guest.fs.partition_lba", "no partition table"),
        (FLASH.to_owned(), "kind = 'jffs2'\nvolume = 'rootfs'", "guest.fs.volume", "jffs2 is on no volume"),
        (FLASH.to_owned(), "kind = 'ubifs'\nvolume = \"a'b\"", "guest.fs.volume", "1 to 127 bytes without quotes"),
        (drive(40), "partition_lba = 63", "guest.fs.partition_lba", "no file system"),
        (drive(40), "kind = 'ext4'\npartition_lba = 32768", "guest.fs.partition_lba", "the drive's 32768 sectors"),
        (FLASH.to_owned(), "kind = 'jffs2'\nmkfs = '-x'", "guest.fs.mkfs", "on erased flash"),
        (drive(40), "mount = 'ro'", "guest.fs.mount", "a file system in guest.fs.kind"),
        (drive(40), "fsck = true", "guest.fs.fsck", "a file system in guest.fs.kind"),
        (drive(40), "kind = 'ext4'\nmount = 'noatime,oldalloc'", "guest.fs.mount", "6.1 and 6.12 ignore it"),
        (drive(40), "kind = 'ext3'\nmount = 'noreservation'", "guest.fs.mount", "last in 4.2"),
        (drive(752), "kind = 'xfs'\nmount = 'nobarrier'", "guest.fs.mount", "4.18 had it last"),
    ] {
        let said = refused(&device, "", fs, "true");
        assert!(said.contains(&format!("key `{key}`")) && said.contains(expected), "{fs}: {said}");
    }
}

#[test]
fn the_page_of_a_run_shows_the_log_of_its_requests() {
    let dir = fresh("run-page");
    let file = written(&dir, "page", &drive(40), "", "kind = 'ext4'", "head -c 300000 /dev/urandom >a; sync");
    json(&dir, &["run", &file, "--out", "out", "--json"]);
    let info = json(&dir, &["trace", "info", "out", "--json"]);
    let page = std::fs::read_to_string(dir.join("out/report.html")).unwrap();
    let data = page.split_once("<script id=\"nandlab-data\" type=\"application/json\">").unwrap().1;
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0.trim()).unwrap();
    assert_eq!(data["runs"].as_array().map(Vec::len), Some(1));
    let device = &data["trace"]["devices"][0];
    assert_eq!(device["seg_seq"], info["devices"][0]["seg_seq"]);
    let cells = device["picture"]["cells"].as_array().unwrap();
    let writes: u64 = cells.iter().map(|cell| cell[3].as_u64().unwrap()).sum();
    let ops = info["all"]["ops"].as_array().unwrap();
    let written = ops.iter().find(|op| op["op"] == "write").unwrap();
    assert!(writes > 0 && Some(writes) == written["requests"].as_u64(), "{writes} of {written}");
}
