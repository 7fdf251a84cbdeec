//! What `nandlab image` writes, held against mtd-utils and Linux's UBI in the guest.

use std::path::Path;

use super::{Command, experiment, fresh, json, nandlab, text};

/// PEBs of 16 KiB, pages with sub-pages, two bad blocks.
const FLASH: &str = "[nand]\nmedium = 'nand'\npebs = 72\npeb_bytes = 16384\npage_bytes = 2048\nsubpage_bytes = 512";
const BAD: &str = "\n[faults]\nbadblocks = '5,40'";
const SIZES: [&str; 6] = ["-p", "16KiB", "-m", "2048", "-s", "512"];

/// Runs `nandlab image` with words and then these arguments, which may have blanks.
#[track_caller]
fn image(dir: &Path, words: &str, more: &[&str]) {
    let args: Vec<&str> = ["image"].into_iter().chain(words.split(' ')).chain(more.iter().copied()).collect();
    let said = nandlab(dir, &args);
    assert!(said.status.success(), "{words}: {}{}", text(&said.stdout), text(&said.stderr));
}

fn contents(dir: &Path, name: &str, length: usize) {
    let mut rng = sim::Seed(length as u64).stream("test/contents");
    let bytes: Vec<u8> = (0..length).map(|_| rng.bits() as u8).collect();
    std::fs::write(dir.join(name), bytes).unwrap();
}

fn md5(dir: &Path, name: &str) -> String {
    text(&Command::new("md5sum").arg(name).current_dir(dir).output().unwrap().stdout)[..32].to_owned()
}

/// A directory with an ini file of a dynamic volume.
fn bench(name: &str) -> std::path::PathBuf {
    let dir = fresh(name);
    contents(&dir, "a.bin", 40_000);
    let ini = "[a]\nmode=ubi\nimage=a.bin\nvol_id=0\nvol_size=256KiB\nvol_name=a\n";
    std::fs::write(dir.join("u.ini"), ini).unwrap();
    dir
}

#[test]
fn a_whole_flash_is_that_of_ubiformat_byte_for_byte() {
    let dir = bench("ubiformat");
    let whole = |out: &str, more: &[&str]| {
        let first = ["--pebs", "72", "--bad-blocks", "5,40", "-o", out];
        image(&dir, "pack", &[&SIZES[..], &first, more].concat());
    };
    image(&dir, "pack", &[&SIZES[..], &["-Q", "1", "-o", "image.ubi", "u.ini"]].concat());
    whole("worn.bin", &["-Q", "5", "image.ubi"]);
    // Counters that differ; a PEB in fifty has none, later one in five.
    image(&dir, "edit worn.bin --in-place --ec all=900 --ec 3,9-20=1007 --ec 60=12", &["--bad-blocks", "5,40"]);
    let mut worn = std::fs::read(dir.join("worn.bin")).unwrap();
    worn[33 << 14..][..64].fill(0x55);
    std::fs::write(dir.join("own.bin"), &worn).unwrap();
    (8..22).for_each(|peb| worn[peb << 14..][..64].fill(0xff));
    std::fs::write(dir.join("mean.bin"), &worn).unwrap();
    // In each case what ubiformat gets, and what we get.
    let with_image = format!("-f {}/image.ubi", dir.display());
    for (case, old, theirs, ours) in [
        ("blank", None, format!("{with_image} -Q 77"), "-Q 77 image.ubi"),
        ("own", Some("own.bin"), format!("{with_image} -Q 77"), "-Q 77 --keep-ec own.bin u.ini"),
        ("mean", Some("mean.bin"), format!("{with_image} -Q 78"), "-Q 78 --keep-ec mean.bin u.ini"),
        ("given", Some("own.bin"), "-Q 79 -e 9".to_owned(), "-Q 79 -e 9 --keep-ec own.bin"),
    ] {
        let job = format!("ubiformat /dev/mtd0 -q -y -s 512 {theirs}");
        let file = experiment(&dir, case, &format!("{FLASH}{BAD}"), "none", &job);
        let kept = format!("{case}.theirs");
        let from: Vec<&str> = old.iter().flat_map(|old| ["--from", old]).collect();
        let ran = json(&dir, &[&["run", &file, "--flash", &kept, "--json"], &from[..]].concat());
        assert_eq!(ran["guest"]["exit"], 0, "{ran}");
        whole(&format!("{case}.ours"), &ours.split(' ').collect::<Vec<_>>());
        let read = |kind: &str| std::fs::read(dir.join(format!("{case}.{kind}"))).unwrap();
        let (theirs, ours) = (read("theirs"), read("ours"));
        let differs = theirs.iter().zip(&ours).position(|(a, b)| a != b);
        assert!(theirs.len() == ours.len() && differs.is_none(), "{case}: first at byte {differs:?}");
    }
}

#[test]
fn linux_attaches_an_edited_flash_by_fastmap_and_reads_what_was_written() {
    let dir = bench("edited");
    contents(&dir, "b.bin", 50_001);
    contents(&dir, "c.bin", 20_000);
    image(&dir, "pack", &[&SIZES[..], &["--pebs", "72", "-Q", "1", "-o", "f.bin", "u.ini"]].concat());
    let edits = "edit f.bin -o g.bin --rename a=system --resize system=14lebs --add data=60KiB --add fixed=3lebs,static,id=6 \
                 --add gone=2lebs --write gone=c.bin --write data=b.bin --write fixed=c.bin --fastmap";
    image(&dir, edits, &[]);
    image(&dir, "edit g.bin --in-place --remove gone --ec all=50 --ec 7=90", &[]);
    image(&dir, "convert g.bin oob.bin --to oob --peb-size 16KiB --page-size 2048 --oob-size 64", &[]);
    let job = "nanddump -q --oob --bb=dumpbad -f /dev/shm/dump /dev/mtd0; md5sum </dev/shm/dump; rm /dev/shm/dump\n\
               dmesg -C; ubiattach -m 0 >/dev/null; dmesg | grep -oE 'attached by fastmap'\n\
               dmesg | grep -cE 'error|warning|assert|WARNING'; cat /sys/class/ubi/ubi0/max_ec\n\
               for v in 0 1 6; do cat /sys/class/ubi/ubi0_$v/name /sys/class/ubi/ubi0_$v/reserved_ebs; done\n\
               head -c 40000 /dev/ubi0_0 | md5sum; head -c 50001 /dev/ubi0_1 | md5sum; md5sum </dev/ubi0_6\n\
               test ! -e /sys/class/ubi/ubi0_2 && ubidetach -m 0";
    let file = experiment(&dir, "attach", &format!("{FLASH}\n"), "none", job);
    let ran = json(&dir, &["run", &file, "--from", "g.bin", "--flash", "h.bin", "--json"]);
    let sum = |name| format!("{}  -\n", md5(&dir, name));
    let expected = format!(
        "{}attached by fastmap\n0\n90\nsystem\n14\ndata\n5\nfixed\n3\n{}{}{}",
        sum("oob.bin"),
        sum("a.bin"),
        sum("b.bin"),
        sum("c.bin")
    );
    assert_eq!(ran["guest"]["output"].as_str().unwrap(), expected);
    // And what Linux leaves is sound.
    let checked = json(&dir, &["image", "check", "h.bin", "--json"]);
    assert_eq!((&checked["errors"], &checked["warnings"]), (&0.into(), &0.into()), "{checked}");
}

/// What Linux makes of a volume that takes all that is left, and what an edit without a fastmap makes of it: Linux keeps PEBs for two
/// fastmaps, and refuses a flash without them.
#[test]
fn an_edit_gives_a_volume_all_lebs_that_linux_gives_it() {
    let dir = bench("autoresize");
    let ini = "[a]\nmode=ubi\nimage=a.bin\nvol_id=0\nvol_size=48KiB\nvol_name=a\nvol_flags=autoresize\n";
    std::fs::write(dir.join("u.ini"), ini).unwrap();
    let job = "ubiattach -m 0 >/dev/null; cat /sys/class/ubi/ubi0_0/reserved_ebs; ubidetach -m 0";
    for pebs in ["24", "72", "300"] {
        let nand = FLASH.replace("pebs = 72", &format!("pebs = {pebs}"));
        let whole = format!("whole-{pebs}.bin");
        image(&dir, "pack", &[&SIZES[..], &["--pebs", pebs, "-Q", "1", "-o", &whole, "u.ini"]].concat());
        let edited = format!("edited-{pebs}.bin");
        image(&dir, &format!("edit {whole} -o {edited} --ec all=3"), &[]);
        let file = experiment(&dir, pebs, &nand, "none", job);
        let lebs = [&whole, &edited].map(|flash| {
            let ran = json(&dir, &["run", &file, "--from", flash, "--json"]);
            ran["guest"]["output"].as_str().unwrap().trim().parse::<u32>().unwrap_or_else(|_| panic!("{flash}: {ran}"))
        });
        let ours = json(&dir, &["image", "ls", &edited, "--json"])["volumes"][0]["reserved_lebs"].clone();
        assert_eq!((lebs[1], ours), (lebs[0], lebs[0].into()), "of {pebs} PEBs");
    }
}
