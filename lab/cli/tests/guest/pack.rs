//! UBIFS that `nandlab image pack` makes of a tree, held against Linux 6.12: it mounts it without a word, finds every file
//! as it was, and goes on with it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Command, TOP, experiment, fresh, json, nandlab, text};

/// Runs `program` in `dir`; it must succeed.
#[track_caller]
fn by(dir: &Path, program: &str, args: &[&str]) -> String {
    let said = Command::new(program).args(args).current_dir(dir).output().unwrap();
    assert!(said.status.success(), "{program} {args:?}: {}", text(&said.stderr));
    text(&said.stdout)
}

/// What only the device table gives: lines of the table, and the lines of `manifest.py` for them.
const TABLE: &str = "# devices\n/dev d 750 3 4 - - - - -\n/dev/tty c 620 0 5 4 64 0 1 3\n/dev/disk b 660 0 6 259 70000 - - -\n\
                     /dev/most c 600 1 2 4095 1048575 - - -\n/pipe p 644 7 8 - - - - -\n/small f 4755 1000 1000 - - - - -\n";

/// Files of every kind that a user without privileges can make, and attributes of root's where root runs the test.
fn tree(dir: &Path) {
    let tree = dir.join("tree");
    std::fs::create_dir_all(tree.join("deep/er/still")).unwrap();
    std::fs::create_dir(tree.join("empty")).unwrap();
    let mut rng = sim::Seed(7).stream("test/tree");
    let mut noise = |length: usize| -> Vec<u8> { (0..length).map(|_| rng.bits() as u8).collect() };
    let put = |name: &[u8], bytes: &[u8]| std::fs::write(tree.join(OsStr::from_bytes(name)), bytes).unwrap();
    put(b"small", b"hello\n");
    put(b"nothing", b"");
    put(b"deep/127", &[b'x'; 127]);
    put(b"deep/128", &[b'x'; 128]);
    put(b"deep/4096", &[b'y'; 4096]);
    put(b"noise", &noise(300_001));
    // What compresses a little, and what compresses well.
    let words: Vec<u8> = noise(150_000).iter().flat_map(|byte| [b'a' + byte % 19, b' ']).collect();
    put(b"words", &words);
    put(b"deep/er/same", &[7; 100_000]);
    let mut holes = vec![0; 2_000_000];
    holes[5000..9000].fill(1);
    holes[1_000_000..1_000_003].fill(2);
    put(b"holes", &holes);
    let sparse = std::fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(40_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"far away", 30_000_000).unwrap();
    put(b"not utf-8 \xff\xfe", b"1");
    put(&[b'n'; 255], b"2");
    for number in 0..300 {
        put(format!("deep/er/still/file {number}").as_bytes(), format!("{number}").repeat(number).as_bytes());
    }
    std::fs::hard_link(tree.join("words"), tree.join("deep/words")).unwrap();
    std::fs::hard_link(tree.join("words"), tree.join("zwords")).unwrap();
    std::os::unix::fs::symlink("../no/where", tree.join("link")).unwrap();
    std::os::unix::fs::symlink("l".repeat(4000), tree.join("long link")).unwrap();
    std::fs::hard_link(tree.join("link"), tree.join("deep/link")).unwrap();
    by(&tree, "mkfifo", &["fifo"]);
    std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    by(&tree, "chmod", &["1777", "empty"]);
    by(&tree, "chmod", &["2710", "deep"]);
    by(&tree, "touch", &["-d", "1901-12-13 20:45:53.123456789Z", "small"]);
    by(&tree, "touch", &["-d", "2106-02-07 06:28:17.999999999Z", "noise"]);
    let attributes = "import os\nfor n in range(20): os.setxattr('words', f'user.{n}', b'v' * n * 8)\n\
                      os.setxattr('deep', 'user.d', b'')\n\
                      if os.getuid() == 0:\n  os.setxattr('link', 'trusted.t', b'\\0\\1', follow_symlinks=False)\n  \
                      os.setxattr('noise', 'trusted.long', bytes(range(256)) * 4)\n";
    by(&tree, "python3", &["-c", attributes]);
    std::fs::write(dir.join("table"), TABLE).unwrap();
}

/// What Linux must find: the tree, as the device table changes it.
fn expected(dir: &Path) -> Vec<String> {
    let manifest = by(dir, "python3", &[&format!("{TOP}/lab/cli/tests/guest/manifest.py"), "tree"]);
    let hex = |name: &str| name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut lines: Vec<String> = manifest.lines().map(str::to_owned).collect();
    let root = lines[0].clone();
    let fields: Vec<&str> = root.split(' ').collect();
    let time = fields[5];
    // Another directory in the root, and the entries of two names.
    let (links, size): (u32, u32) = (fields[3].parse().unwrap(), fields[4].parse().unwrap());
    let size = size + (57 + 3_u32).next_multiple_of(8) + (57 + 4_u32).next_multiple_of(8);
    lines[0] = format!(". {} {} {} {size} {time} -", fields[1], fields[2], links + 1);
    let small = lines.iter_mut().find(|line| line.starts_with(&format!("{} ", hex("small")))).unwrap();
    let old: Vec<String> = small.split(' ').map(str::to_owned).collect();
    *small = [&[&old[0], "104755", "1000:1000"][..], &old[3..].iter().map(|field| &**field).collect::<Vec<_>>()]
        .concat()
        .join(" ");
    let dir_size = 160 + 3 * (57 + 4_u32).next_multiple_of(8) + 2 * (57 + 4_u32).next_multiple_of(8);
    lines.push(format!("{} 40750 3:4 2 {dir_size} {time} -", hex("dev")));
    for (name, mode, owner, device) in [
        ("dev/tty0", "20620", "0:5", "4:64"),
        ("dev/tty1", "20620", "0:5", "4:65"),
        ("dev/tty2", "20620", "0:5", "4:66"),
        ("dev/disk", "60660", "0:6", "259:70000"),
        ("dev/most", "20600", "1:2", "4095:1048575"),
        ("pipe", "10644", "7:8", "-"),
    ] {
        lines.push(format!("{} {mode} {owner} 1 0 {time} {device}", hex(name)));
    }
    lines.sort();
    lines
}

/// Packs the tree with `options`, and lets Linux mount it, change it, and mount it again, twice.
fn linux_agrees(dir: &Path, case: &str, sizes: &str, flash: &str, options: &str) {
    let (image, whole, after) = (format!("{case}.ubi"), format!("{case}.bin"), format!("{case}.after"));
    let run = |words: String| {
        let said = nandlab(dir, &words.split_whitespace().collect::<Vec<_>>());
        assert!(said.status.success(), "{words}: {}{}", text(&said.stdout), text(&said.stderr));
    };
    run(format!("image pack tree -o {image} {sizes} -D table {options}"));
    run(format!("image pack {image} -o {whole} {sizes} --pebs 160"));
    let manifest = format!("python3 {TOP}/lab/cli/tests/guest/manifest.py /mnt --found");
    let quiet = "dmesg | grep -ciE 'ubifs (error|warning)|ubi0 (error|warning)|assert|WARNING:|BUG' || true";
    let job = format!(
        "dmesg -C; ubiattach -m 0 >/dev/null; mount -t ubifs ubi0:rootfs /mnt || exit 3\n{manifest}; echo =====\n\
         cd /mnt; cp -a deep copy; rm -r deep/er; ln noise again; mv zwords renamed; truncate -s 5000 words\n\
         head -c 200000 noise >new; printf x | dd of=holes bs=1 seek=700000 conv=notrunc 2>/dev/null; sync; rm new; rm -r empty\n\
         cd /; umount /mnt; mount -t ubifs ubi0:rootfs /mnt || exit 4\n{manifest}; umount /mnt; ubidetach -m 0\n{quiet}"
    );
    let file = experiment(dir, case, flash, "none", &job);
    let ran = json(dir, &["run", &file, "--from", &whole, "--flash", &after, "--json"]);
    let output = ran["guest"]["output"].as_str().unwrap();
    assert!(output.ends_with("\n0\n"), "{case}: a word of the kernel's: {output}");
    let (found, changed) = output.split_once("=====\n").unwrap();
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    let expected = expected(dir);
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found, "{case}");
    }
    assert_eq!(expected.len(), found.len(), "{case}");
    let job = format!(
        "dmesg -C; ubiattach -m 0 >/dev/null; mount -t ubifs ubi0:rootfs /mnt || exit 3\n{manifest}; umount /mnt\n{quiet}"
    );
    let file = experiment(dir, &format!("{case}-again"), flash, "none", &job);
    let ran = json(dir, &["run", &file, "--from", &after, "--json"]);
    assert_eq!(ran["guest"]["output"].as_str().unwrap(), changed, "{case}");
}

/// A flash of 160 PEBs.
fn flash(peb_bytes: u32, page_bytes: u32, subpage_bytes: u32) -> String {
    format!(
        "[nand]\nmedium = 'nand'\npebs = 160\npeb_bytes = {peb_bytes}\npage_bytes = {page_bytes}\nsubpage_bytes = {subpage_bytes}"
    )
}

#[test]
fn linux_finds_the_tree_in_every_compression_and_both_models_of_the_lpt() {
    let dir = fresh("pack");
    tree(&dir);
    let large = "-p 128KiB -m 2048";
    let flash = flash(131_072, 2048, 2048);
    // The limit of 4 GiB needs a large LPT, one of 150 LEBs a small one.
    linux_agrees(&dir, "none", large, &flash, "--compress none");
    linux_agrees(&dir, "lzo", large, &flash, "--compress lzo -c 150");
    linux_agrees(&dir, "zlib", large, &flash, "--compress zlib --space-fixup");
    linux_agrees(&dir, "zstd", large, &flash, "--compress zstd -c 150 -F --keyhash test --fanout 3");
}

#[test]
fn linux_finds_the_tree_on_other_pages() {
    let dir = fresh("pack-pages");
    tree(&dir);
    linux_agrees(
        &dir,
        "sub",
        "-p 64KiB -m 2048 -s 512",
        &flash(65_536, 2048, 512),
        "--compress favor-lzo --fanout 40 -c 140",
    );
    linux_agrees(
        &dir,
        "wide",
        "-p 256KiB -m 4096",
        &flash(262_144, 4096, 4096),
        "--compress zstd --orph-lebs 3 --log-lebs 6",
    );
}

/// A bare image, written by ubiupdatevol to the smallest volume that is said to do, and to one that is smaller.
#[test]
fn a_volume_of_the_fewest_lebs_mounts_and_a_smaller_one_does_not() {
    let dir = fresh("pack-least");
    std::fs::create_dir(dir.join("tree")).unwrap();
    std::fs::write(dir.join("tree/file"), "one").unwrap();
    // The journal decides, or the number of LEBs that UBIFS wants at least.
    for (case, options) in
        [("journal", "-c 300"), ("lebs", "-c 300 --jrn-size 400KiB"), ("orphans", "-c 40 --orph-lebs 4")]
    {
        let words = format!("image pack tree -o {case}.img --bare --leb-size 126976 -m 2048 {options} --json");
        let least = json(&dir, &words.split(' ').collect::<Vec<_>>())["ubifs"]["min_lebs"].as_u64().unwrap();
        let job = format!(
            "ubiformat -q -y /dev/mtd0; ubiattach -m 0 >/dev/null\nfor lebs in {} {least}; do\n\
             ubimkvol /dev/ubi0 -N v -S $lebs >/dev/null; ubiupdatevol /dev/ubi0_0 '{}/{case}.img'\n\
             if mount -t ubifs ubi0:v /mnt 2>/dev/null; then cat /mnt/file; umount /mnt; else echo refused; fi\n\
             ubirmvol /dev/ubi0 -N v >/dev/null; done",
            least - 1,
            dir.display()
        );
        let file = experiment(&dir, case, &flash(131_072, 2048, 2048), "none", &job);
        assert_eq!(json(&dir, &["run", &file, "--json"])["guest"]["output"], "refused\none", "{case}");
    }
}
