//! JFFS2 that ours wrote, on raw flash and on a volume of UBI, held against Linux 6.12: it mounts what fsstress left, synced and
//! after losses of power, and what `nandlab image pack` made, finds every file as we do, writes to it, and we read what it wrote.
//! On a volume it does so by way of gluebi.

use std::path::Path;

use fs::jffs2::{Compress, Gluebi, Jffs2, Options, Packer};
use sim::seam::{
    FileSystem, Flash, FlashError, FsError, Geometry, Medium, NewInode, Payload, RamFlash, ReadStatus, Timestamp,
};
use sim::{Cx, Ns, Peb};
use ubi::block::{Backing, OnUbi};
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};
use workload::fsstress::{self, Fsstress};

use super::ubifs::{TREE, extracted, ours, plain};
use super::written::same;
use super::{Command, experiment, fresh, json, nandlab, text};

/// A flash that loses power in a program or an erasure: the first half of it is done.
#[derive(Debug)]
struct Failing {
    flash: RamFlash,
    programs: u64,
    erases: u64,
}

impl Failing {
    fn is_on(&self) -> Result<(), FlashError> {
        if self.programs == 0 { Err(FlashError::PowerLost) } else { Ok(()) }
    }
}

impl Flash for Failing {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.flash.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.flash.read(cx, peb, offset, buf)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.is_on()?;
        self.programs -= 1;
        if self.programs > 0 {
            return self.flash.program(cx, peb, offset, data);
        }
        let mut torn = data.bytes().unwrap().to_vec();
        let half = torn.len() / 2;
        torn[half..].fill(0xff);
        self.flash.program(cx, peb, offset, Payload::Bytes(&torn))?;
        Err(FlashError::PowerLost)
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        self.flash.read_oob(cx, peb, offset, buf)
    }

    fn program_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, oob: &[u8]) -> Result<(), FlashError> {
        self.is_on()?;
        self.flash.program_oob(cx, peb, offset, oob)
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.is_on()?;
        self.erases -= 1;
        if self.erases > 0 {
            return self.flash.erase(cx, peb);
        }
        self.programs = 0;
        let half = self.flash.geometry().peb_bytes / 2;
        let mut left = vec![0; half as usize];
        self.flash.read(cx, peb, half, &mut left)?;
        self.flash.erase(cx, peb)?;
        self.flash.program(cx, peb, half, Payload::Bytes(&left))?;
        Err(FlashError::PowerLost)
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.flash.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.flash.mark_bad(cx, peb)
    }
}

#[derive(Clone, Copy)]
struct Shape {
    pebs: u32,
    peb_kib: u32,
    /// 1: NOR.
    page: u32,
    summary: bool,
    compress: Compress,
    /// LEBs of the volume of UBI; 0: it is on the flash itself.
    lebs: u32,
}

impl Shape {
    fn geometry(self) -> Geometry {
        let is_nor = self.page == 1;
        Geometry {
            medium: if is_nor { Medium::Nor } else { Medium::Nand },
            pebs: self.pebs,
            peb_bytes: self.peb_kib * 1024,
            page_bytes: self.page,
            subpage_bytes: self.page,
            oob_bytes: if is_nor { 0 } else { self.page / 32 },
        }
    }
}

/// More programs and erasures than there are.
const PLENTY: u64 = 1 << 60;

/// What the file system is on, and the flash at the bottom.
trait Ground: Flash {
    fn bottom(&mut self) -> &mut Failing;
    /// Does what UBI's thread would.
    fn background(&mut self, cx: &mut Cx);
    /// Gives the flash back, detached if it has power.
    fn end(self, cx: &mut Cx) -> Failing;
}

impl Ground for Failing {
    fn bottom(&mut self) -> &mut Failing {
        self
    }

    fn background(&mut self, _: &mut Cx) {}

    fn end(self, _: &mut Cx) -> Failing {
        self
    }
}

impl Ground for Gluebi<OnUbi<Failing>> {
    fn bottom(&mut self) -> &mut Failing {
        self.volume_mut().flash_mut()
    }

    fn background(&mut self, cx: &mut Cx) {
        if self.volume().background_works() > 0 {
            // Without power nothing is done.
            let _ = self.volume_mut().step_background(cx);
        }
    }

    fn end(mut self, cx: &mut Cx) -> Failing {
        let is_on = self.bottom().programs > 0;
        let device = self.into_volume().into_ubi();
        if !is_on {
            return device.into_flash();
        }
        let (flash, detached) = device.detach(cx);
        detached.unwrap();
        flash
    }
}

/// Runs fsstress on an empty file system, until it ends or power fails after so many programs. Returns the bytes of the
/// flash, and the programs.
fn stress(shape: Shape, seed: u32, programs: Option<u64>) -> (Vec<u8>, u64) {
    let cx = &mut Cx::new();
    let failing = Failing { flash: RamFlash::new(shape.geometry()), programs: PLENTY, erases: PLENTY };
    if shape.lebs == 0 {
        return stress_on(failing, shape, seed, programs, cx);
    }
    let mut device =
        Ubi::attach(failing, cx, &Config::linux(Policy::LINUX_6_7)).map_err(|failed| failed.error).unwrap();
    let volume = device.create_volume(cx, &VolumeRequest::dynamic("data", VolumeSize::Lebs(shape.lebs))).unwrap();
    let volume = OnUbi::open(device, cx, volume).unwrap();
    stress_on(Gluebi::new(volume), shape, seed, programs, cx)
}

fn stress_on<G: Ground>(ground: G, shape: Shape, seed: u32, programs: Option<u64>, cx: &mut Cx) -> (Vec<u8>, u64) {
    const OPERATIONS: u64 = 400;
    let first = programs.unwrap_or(PLENTY);
    let epoch = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    let options = Options { epoch, summary: shape.summary, compress: shape.compress, ..Options::default() };
    let mut fs = Jffs2::mount(ground, cx, options).unwrap();
    while fs.has_work() {
        fs.collect(cx).unwrap();
    }
    fs.flash_mut().bottom().programs = first;
    let stress = fsstress::Options { operations: OPERATIONS, seed, ..fsstress::Options::default() };
    let mut processes: Vec<Fsstress> =
        (0..2).filter_map(|process| Fsstress::new(&mut fs, cx, &stress, process).ok()).collect();
    for turn in 0..2 * OPERATIONS as usize {
        cx.spend(Ns(60_000_000));
        fs.flash_mut().background(cx);
        if fs.has_work() && fs.collect(cx).is_err() {
            break;
        }
        let count = processes.len().max(1);
        let Some(process) = processes.get_mut(turn % count) else { break };
        if process.step(&mut fs, cx).is_some_and(|step| step.is_power_loss()) {
            break;
        }
    }
    if fs.flash_mut().bottom().programs > 0 {
        fs.sync(cx).unwrap();
    }
    let left = fs.flash_mut().bottom().programs;
    let failing = fs.into_flash().end(cx);
    (bytes_of(failing.flash), first - left)
}

/// The bytes of a flash.
fn bytes_of(mut flash: RamFlash) -> Vec<u8> {
    let geometry = *flash.geometry();
    let mut bytes = vec![0; geometry.bytes() as usize];
    for (peb, block) in (0..).zip(bytes.chunks_mut(geometry.peb_bytes as usize)) {
        flash.read(&mut Cx::new(), Peb(peb), 0, block).unwrap();
    }
    bytes
}

/// Linux mounts the flash, finds what we find, changes it, and we find what it finds then.
#[track_caller]
fn linux_goes_on(dir: &Path, name: &str, shape: Shape, bytes: &[u8]) -> usize {
    let whole = format!("{name}.bin");
    std::fs::write(dir.join(&whole), bytes).unwrap();
    let Shape { pebs, peb_kib, page, .. } = shape;
    let medium = if page == 1 { "nor" } else { "nand" };
    let device = format!(
        "[nand]\nmedium = '{medium}'\npebs = {pebs}\npeb_bytes = {}\npage_bytes = {page}{}",
        peb_kib * 1024,
        if page == 1 { String::new() } else { format!("\nsubpage_bytes = {page}") }
    );
    let list = format!("python3 {TREE} /mnt {}", plain());
    let (attach, mount, detach) = match shape.lebs {
        0 => ("", "mount -t jffs2 mtd0 /mnt", ""),
        _ => ("ubiattach -m 0 >/dev/null; ", "mount -t jffs2 mtd:data /mnt", "; ubidetach -m 0 >/dev/null"),
    };
    let job = format!(
        "dmesg -C; {attach}{mount} || exit 3\n{list}; echo =====\ncd /mnt; mkdir new\n\
         rm -rf p0; head -c 300000 /dev/zero | tr '\\0' x >new/x; cp -a p1 new 2>/dev/null; sync\n\
         cd /; umount /mnt; {mount} || exit 4\n{list}; umount /mnt{detach}\n\
         dmesg | grep -iE 'jffs2.*(error|argh|eep|cowardly)|ubi.*(error|warning)|WARNING: CPU|BUG:' | head -5; true"
    );
    let file = experiment(dir, name, &device, "none", &job);
    let after = format!("{name}.after");
    let found = json(dir, &["run", &file, "--from", &whole, "--flash", &after, "--json"]);
    let output = found["guest"]["output"].as_str().unwrap();
    assert!(output.len() < 250_000, "the output of a guest is cut off");
    let (before, changed) = output.split_once("=====\n").unwrap_or_else(|| panic!("{name}: {output}"));
    let expected = ours(dir, &whole);
    same(&format!("{name}, as we wrote it"), &expected, before);
    // The torn node of a power cut is still there, and Linux wrote behind it.
    same(
        &format!("{name}, as Linux wrote it"),
        &extracted(dir, &after, Some("the CRC of its data differs")),
        &format!("{}\n", changed.trim_end()),
    );
    expected.lines().count()
}

#[test]
fn linux_finds_what_our_jffs2_wrote() {
    let dir = fresh("written-jffs2");
    let nor =
        Shape { pebs: 64, peb_kib: 64, page: 1, summary: false, compress: Compress::Priority(Packer::ALL), lebs: 0 };
    let shapes = [
        nor,
        Shape { summary: true, compress: Compress::Priority(&[Packer::Zlib]), ..nor },
        Shape { page: 2048, pebs: 64, summary: true, compress: Compress::Size(Packer::ALL), ..nor },
        Shape { page: 512, peb_kib: 16, pebs: 256, compress: Compress::Priority(&[Packer::Rtime]), ..nor },
        Shape { page: 2048, peb_kib: 128, pebs: 96, compress: Compress::None, ..nor },
    ];
    for (at, shape) in (0..).zip(shapes) {
        let (bytes, programs) = stress(shape, 21 + at, None);
        assert!(linux_goes_on(&dir, &format!("{at}-clean"), shape, &bytes) > 60);
        let (bytes, _) = stress(shape, 21 + at, Some(programs * (2 + u64::from(at)) / 8));
        assert!(linux_goes_on(&dir, &format!("{at}-cut"), shape, &bytes) > 0);
    }
}

/// In Linux JFFS2 is on a volume by way of gluebi, which has each volume as an MTD device.
#[test]
fn linux_finds_what_our_jffs2_wrote_on_a_volume_of_ubi() {
    let dir = fresh("written-jffs2-ubi");
    let wide = Shape {
        pebs: 128,
        peb_kib: 128,
        page: 2048,
        summary: true,
        compress: Compress::Priority(Packer::ALL),
        lebs: 16,
    };
    let shapes = [
        wide,
        Shape { summary: false, compress: Compress::None, lebs: 40, ..wide },
        Shape { pebs: 256, peb_kib: 16, page: 512, lebs: 160, compress: Compress::Size(Packer::ALL), ..wide },
    ];
    for (at, shape) in (0..).zip(shapes) {
        let (bytes, programs) = stress(shape, 31 + at, None);
        assert!(linux_goes_on(&dir, &format!("{at}-clean"), shape, &bytes) > 30);
        let (bytes, _) = stress(shape, 31 + at, Some(programs * (3 + u64::from(at)) / 8));
        assert!(linux_goes_on(&dir, &format!("{at}-cut"), shape, &bytes) > 0);
    }
}

/// Files of every kind, with whole seconds as JFFS2 has them.
const SCRIPT: &str = "
    mkdir -p tree/p1/deep/er tree/empty tree/p0; cd tree
    echo hello >p1/small; : >p1/nothing; ln p1/small p1/deep/link; ln p1/small zlink
    ln -s ../no/where p1/symlink; ln -s $(printf 'y%.0s' $(seq 1 254)) long; mkfifo fifo
    truncate -s 3000000 hole; printf 'far away' | dd of=hole bs=1 seek=2000001 conv=notrunc 2>/dev/null
    truncate -s 12345 p0/all-hole; head -c 9000 /dev/zero >p1/zeroes
    for i in $(seq 1 300); do seq $i >p1/deep/er/file$i; done; seq 1 60000 >words
    python3 -c \"
import os, random, socket
random.seed(7)
open(b'not utf-8 \\xff\\xfe', 'wb').write(random.randbytes(150001))
open('n' * 254, 'w').write('2')
socket.socket(socket.AF_UNIX).bind('socket')
os.setxattr('words', 'user.long', bytes(range(256)) * 8)
os.setxattr('p1', 'user.dir', b'of a directory')
os.setxattr('p1/nothing', 'user.dir', b'of a directory')
if os.geteuid() == 0:
    os.mknod('disk', 0o060640, os.makedev(259, 70000))
    os.mknod('tty', 0o020620, os.makedev(4, 64))
    os.chown('words', 1234, 65534)
    os.chown('p1', 7, 8)
    os.setxattr('words', 'trusted.t', b'1')
\"
    chmod 4755 p1/small; chmod 1777 empty; chmod 2710 p1
    find . -exec touch -h -d @1234567890 {} +; touch -d @86400 words";

/// Linux finds in a packed image what was in the tree, goes on with it, and we find what it finds then.
#[test]
fn linux_finds_what_we_packed() {
    let dir = fresh("packed-jffs2");
    let made = Command::new("sh").args(["-ec", SCRIPT]).current_dir(&dir).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let listed = Command::new("python3").args([TREE, "tree", plain()]).current_dir(&dir).output().unwrap();
    let expected = text(&listed.stdout);
    let nor = Shape { pebs: 64, peb_kib: 64, page: 1, summary: false, compress: Compress::None, lebs: 0 };
    let shapes = [
        ("nor", nor, "-p 64KiB --pad 4MiB"),
        ("nor-summary", Shape { summary: true, ..nor }, "-p 64KiB --pad 4MiB --summary"),
        (
            "nand",
            Shape { page: 2048, peb_kib: 128, pebs: 48, ..nor },
            "-p 128KiB -n --pad 6MiB --summary --compress lzo",
        ),
        (
            "small-nand",
            Shape { page: 512, peb_kib: 16, pebs: 256, ..nor },
            "-p 16KiB -n --pad 4MiB --compress smallest",
        ),
    ];
    for (name, shape, options) in shapes {
        let image = format!("{name}.jffs2");
        let args = ["image", "pack", "tree", "-o", &image, "--jffs2"];
        let said = nandlab(&dir, &args.into_iter().chain(options.split(' ')).collect::<Vec<_>>());
        assert!(said.status.success(), "{}", text(&said.stderr));
        let bytes = std::fs::read(dir.join(&image)).unwrap();
        same(name, &ours(&dir, &image), &expected);
        assert!(linux_goes_on(&dir, name, shape, &bytes) > 300);
    }
}

/// Names in the directory `dir`, sorted, by a mount that does or does not look behind summaries.
fn names(flash: &RamFlash, verify_summary: bool) -> Vec<String> {
    let (cx, options) = (&mut Cx::new(), Options { summary: true, verify_summary, ..Options::default() });
    let mut fs = Jffs2::mount(flash.clone(), cx, options).unwrap();
    let dir = fs.lookup(cx, fs.root(), b"dir").unwrap().ino;
    let mut names = Vec::new();
    let mut add = |entry: sim::seam::Dirent<'_>| {
        names.push(text(entry.name));
        true
    };
    fs.readdir(cx, dir, 0, &mut add).unwrap();
    names.sort();
    names
}

/// Power fails in an erasure, whose block keeps its second half, and with it the summary. Linux takes the names that the
/// summary has for those that garbage collection had moved elsewhere: they are lost. So do we if we do as Linux does.
#[test]
fn linux_loses_names_to_the_summary_of_a_block_that_is_half_erased() {
    let shape = Shape { pebs: 16, peb_kib: 8, page: 512, summary: true, compress: Compress::None, lebs: 0 };
    let synced: Vec<String> = (0..30).map(|number| format!("a name that was synced {number:02}")).collect();
    let after_erasure = |erasure: u64| {
        let cx = &mut Cx::new();
        let failing = Failing { flash: RamFlash::new(shape.geometry()), programs: PLENTY, erases: PLENTY };
        let mut fs = Jffs2::mount(failing, cx, Options { summary: true, ..Options::default() }).unwrap();
        while fs.has_work() {
            fs.collect(cx).unwrap();
        }
        let (root, new) = (fs.root(), NewInode::of_root(0o644));
        let dir = fs.mkdir(cx, root, b"dir", new).unwrap().ino;
        let ino = fs.create(cx, root, b"file", new).unwrap().ino;
        let write = |fs: &mut Jffs2<Failing>, cx: &mut Cx| {
            cx.spend(Ns(60_000_000));
            fs.write(cx, ino, 0, Payload::Bytes(&[b'x'; 700]))?;
            if fs.has_work() { fs.collect(cx).map(drop).map_err(FsError::from) } else { Ok(()) }
        };
        // Names are among data that do not stay, so that their blocks are soon collected.
        for name in &synced {
            fs.create(cx, dir, name.as_bytes(), new).unwrap();
            write(&mut fs, cx).unwrap();
        }
        // The directory is not in memory from now on, so that its names are copied with their versions.
        let options = *fs.options();
        let mut fs = Jffs2::mount(fs.unmount(cx).unwrap(), cx, options).unwrap();
        fs.flash_mut().erases = erasure;
        (0..1000).take_while(|_| write(&mut fs, cx).is_ok()).for_each(drop);
        fs.into_flash().flash
    };
    let flash = (1..60).map(after_erasure).find(|flash| names(flash, false) != synced);
    let flash = flash.expect("a block with names is erased");
    assert_eq!(names(&flash, true), synced);
    let dir = fresh("half-erased-jffs2");
    let believed = names(&flash, false);
    std::fs::write(dir.join("half.bin"), bytes_of(flash)).unwrap();
    let device = "[nand]\nmedium = 'nand'\npebs = 16\npeb_bytes = 8192\npage_bytes = 512\nsubpage_bytes = 512";
    let file = experiment(&dir, "half", device, "none", "mount -t jffs2 mtd0 /mnt || exit 3; ls /mnt/dir; umount /mnt");
    let found = json(&dir, &["run", &file, "--from", "half.bin", "--flash", "half.after", "--json"]);
    assert_eq!(found["guest"]["output"].as_str().unwrap().lines().collect::<Vec<_>>(), believed);
    let checked = nandlab(&dir, &["image", "check", "half.bin"]);
    assert!(text(&checked.stdout).contains("Linux believes it"), "{}", text(&checked.stdout));
}
