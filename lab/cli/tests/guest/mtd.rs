//! Linux's MTD layer on our flash: mtd-utils, JFFS2 and UBI, with bad blocks, bit errors, and operations that fail.

use super::{experiment, fresh, json};

/// A flash of 96 blocks with faults.
fn faulty(faults: &str) -> String {
    format!("[nand]\npart = 'MT29F1G08ABAFA'\npebs = 96\ndelays = 'part'\n[faults]\n{faults}")
}

fn output(name: &str, device: &str, fs: &str, job: &str) -> String {
    let dir = fresh(name);
    let file = experiment(&dir, name, device, fs, job);
    let ran = json(&dir, &["run", &file, "--json"]);
    assert_eq!(ran["guest"]["exit"], 0, "{ran}");
    ran["guest"]["output"].as_str().unwrap().to_owned()
}

#[test]
fn mtd_utils_write_read_and_test_pages_with_oob_and_pass_over_bad_blocks() {
    let job = "cd /tmp
E=$(cat /sys/class/mtd/mtd0/erasesize) P=$(cat /sys/class/mtd/mtd0/writesize) O=$(cat /sys/class/mtd/mtd0/oobsize)
echo $E $P $O
nandtest -p 1 -l $((8 * E)) /dev/mtd0 2>&1 | grep -o 'Finished pass 1 successfully'
flash_erase -q /dev/mtd0 0 8
page() { head -c $P /dev/urandom; printf '\\377\\377'; head -c $((O - 2)) /dev/urandom; }
(page; page) >pages
nandwrite -q -o /dev/mtd0 -s $((2 * E)) pages
nanddump -q --oob -s $((2 * E)) -l $((2 * P)) /dev/mtd0 -f found && cmp pages found && echo same with OOB
nandwrite -q -o -n /dev/mtd0 -s $((3 * E)) pages
nanddump -q --oob -n -s $((3 * E)) -l $((2 * P)) /dev/mtd0 -f found && cmp pages found && echo same without ECC
head -c $E /dev/urandom >block
nandwrite -q /dev/mtd0 -s $((5 * E)) block
nanddump -q -s $((6 * E)) -l $E /dev/mtd0 -f found && cmp block found && echo behind the bad block
head -c $E /dev/zero | tr '\\0' '\\377' >blank
nanddump -q --bb=padbad -s $((5 * E)) -l $E /dev/mtd0 -f found && cmp blank found && echo the bad one is blank
cat /sys/class/mtd/mtd0/bad_blocks";
    let said = output("mtd-utils", &faulty("badblocks = '5,40'"), "none", job);
    let expected = [
        "131072 2048 128",
        "Finished pass 1 successfully",
        "same with OOB",
        "same without ECC",
        "behind the bad block",
        "the bad one is blank",
        "0",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn jffs2_keeps_files_on_nor_and_in_its_dump() {
    let dir = fresh("nor");
    let nor = "[nand]\npart = 'W25Q128FV'\npebs = 24\ndelays = 'part'";
    let job = "for i in 1 2 3 4 5 6 7 8; do head -c 60000 /dev/urandom >f$((i % 3)); sync; done; rm f0; mv f1 g
cat /sys/class/mtd/mtd0/type; md5sum *";
    let file = experiment(&dir, "nor", nor, "jffs2", job);
    let first = json(&dir, &["run", &file, "--flash", "nor.bin", "--json"]);
    assert_eq!(first["guest"]["exit"], 0, "{first}");
    let again = experiment(&dir, "again", nor, "jffs2", "cat /sys/class/mtd/mtd0/type; md5sum *");
    let found = json(&dir, &["run", &again, "--from", "nor.bin", "--json"]);
    assert_eq!(found["guest"]["output"], first["guest"]["output"]);
    let said = first["guest"]["output"].as_str().unwrap();
    assert!(said.starts_with("nor\n") && said.ends_with("  g\n") && said.lines().count() == 3, "{said}");
}

/// Writes 300,000 bytes at a time to four files, then reads them from the flash six times.
const FILES: &str = "for i in 1 2 3 4 5 6 7 8 9; do head -c 300000 /dev/urandom >f$((i % 4)); sync; done
md5sum f* >/run/sums
for i in 1 2 3 4 5 6; do echo 3 >/proc/sys/vm/drop_caches; md5sum f* | cmp - /run/sums; done";

#[test]
fn linux_s_ubi_scrubs_a_block_whose_bits_flip() {
    let job = format!(
        "{FILES}\ndmesg | grep -c 'ubi0: scrubbed PEB'\ncat /sys/class/mtd/mtd0/corrected_bits /sys/class/mtd/mtd0/ecc_failures"
    );
    let said = output("scrub", &faulty("bitflips = 8\necc_bits = 8\nbitflip_threshold = 1"), "ubifs", &job);
    let counts: Vec<u32> = said.lines().map(|line| line.parse().unwrap()).collect();
    let [scrubbed, corrected, failures] = counts[..] else { panic!("{said}") };
    assert!(scrubbed > 0 && corrected >= scrubbed && failures == 0, "{said}");
}

#[test]
fn linux_s_ubi_marks_a_block_bad_whose_erasure_fails_and_tests_one_whose_program_fails() {
    let job = format!(
        "{FILES}\ndmesg | grep -o 'ubi0: mark PEB [0-9]* as bad' | wc -l\ncat /sys/class/ubi/ubi0/bad_peb_count
dmesg | grep -c 'passed torture test'"
    );
    let said = output("failures", &faulty("program_failure = 0.002\nerase_failure = 0.02"), "ubifs", &job);
    let counts: Vec<u32> = said.lines().map(|line| line.parse().unwrap()).collect();
    let [marked, bad, passed] = counts[..] else { panic!("{said}") };
    assert!(marked > 0 && bad == marked && passed > 0, "{said}");
}

#[test]
fn ubifs_and_jffs2_work_on_pages_of_512_to_16384_bytes() {
    let plain = |peb: u32, page: u32, subpage: u32| {
        format!(
            "[nand]\nmedium = 'nand'\npebs = 128\npeb_bytes = {peb}\npage_bytes = {page}\nsubpage_bytes = {subpage}"
        )
    };
    let part = |name: &str| format!("[nand]\npart = '{name}'\npebs = 96");
    let job =
        "for i in 1 2 3 4 5; do head -c 60000 /dev/urandom >f$((i % 3)); sync; done; rm f0; sync; md5sum f* >/run/sums
echo 3 >/proc/sys/vm/drop_caches; md5sum f* | cmp - /run/sums; cat /sys/class/mtd/mtd0/writesize
dmesg | grep -iE '(ubi|jffs2).*(error|warning)'; true";
    let devices = [
        ("512", plain(16384, 512, 0)),
        ("2048", plain(131_072, 2048, 512)),
        ("4096", part("MT29F16G08MAA")),
        ("8192", part("TC58NVG6D2")),
        ("16384", part("SDTNQGAMA")),
    ];
    for (page, device) in devices {
        for fs in ["ubifs", "jffs2"] {
            assert_eq!(
                output(&format!("pages-{page}-{fs}"), &device, fs, job),
                format!("{page}\n"),
                "{fs} on {device}"
            );
        }
    }
}
