//! UBIFS that ours wrote, held against Linux 6.12: it mounts what fsstress left, after a clean unmount and after losses of
//! power, finds every file as we do, writes to it, and we read what it wrote.

use std::path::Path;

use fs::ubifs::media::Compression;
use fs::ubifs::mkfs::{self, Attributes, Compress, Mkfs};
use fs::ubifs::{Options, Ubifs};
use sim::seam::{FlashError, LebError, LebVolume, Payload, RamVolume, Timestamp};
use sim::{Cx, Lnum, Ns};
use workload::fsstress::{self, Fsstress};

use super::ubifs::{TREE, ours, plain};
use super::{experiment, fresh, json, nandlab, text};

/// A volume that loses power in a write unit: half of that is on flash.
struct Failing {
    volume: RamVolume,
    units: u64,
}

const POWER_LOST: LebError = LebError::Flash(FlashError::PowerLost);

impl Failing {
    fn is_on(&self) -> Result<(), LebError> {
        if self.units == 0 { Err(POWER_LOST) } else { Ok(()) }
    }
}

impl LebVolume for Failing {
    fn keeps_bytes() -> bool {
        true
    }

    fn lebs(&self) -> u32 {
        self.volume.lebs()
    }

    fn leb_bytes(&self) -> u32 {
        self.volume.leb_bytes()
    }

    fn min_io_bytes(&self) -> u32 {
        self.volume.min_io_bytes()
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.volume.read(cx, lnum, offset, buf)
    }

    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        self.is_on()?;
        let unit = self.volume.min_io_bytes();
        for (at, bytes) in (offset..).step_by(unit as usize).zip(data.bytes().unwrap().chunks(unit as usize)) {
            self.units -= 1;
            if self.units == 0 {
                let mut torn = bytes.to_vec();
                torn[unit as usize / 2..].fill(0xff);
                self.volume.write(cx, lnum, at, Payload::Bytes(&torn))?;
                return Err(POWER_LOST);
            }
            self.volume.write(cx, lnum, at, Payload::Bytes(bytes))?;
        }
        Ok(())
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.is_on()?;
        self.volume.change(cx, lnum, data)
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.is_on()?;
        self.volume.map(cx, lnum)
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.is_on()?;
        self.volume.unmap(cx, lnum)
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.volume.is_mapped(lnum)
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), LebError> {
        self.is_on()
    }
}

/// A flash: bytes of a PEB and of a page, LEBs of the volume, branches of an index node.
#[derive(Clone, Copy)]
struct Shape {
    peb_kib: u32,
    page: u32,
    lebs: u32,
    fanout: u32,
    compression: Compression,
}

/// Runs fsstress on an empty file system, until it ends or power fails after so many write units. Returns the units.
fn stress(shape: Shape, seed: u32, operations: u64, units: Option<u64>) -> (RamVolume, u64) {
    let (leb_bytes, min_io) = (shape.peb_kib * 1024 - 2 * shape.page, shape.page);
    let cx = &mut Cx::new();
    let mut volume = RamVolume::new(shape.lebs, leb_bytes, min_io);
    let mut written: Vec<(Lnum, Vec<u8>)> = Vec::new();
    let options = mkfs::Options {
        fanout: shape.fanout,
        compress: Compress::Always(shape.compression),
        ..mkfs::Options::new(min_io, leb_bytes, shape.lebs)
    };
    let sink = |lnum: Lnum, bytes: &[u8]| {
        written.push((lnum, bytes.to_vec()));
        Ok::<(), LebError>(())
    };
    let mut image = Mkfs::new(&options, Box::new(sink)).unwrap();
    let root = image.root();
    image.end_dir(&root, &Attributes { mode: 0o040_755, ..Attributes::default() }, &[]).unwrap();
    image.finish().unwrap();
    for (lnum, bytes) in written {
        volume.write(cx, lnum, 0, Payload::Bytes(&bytes)).unwrap();
    }
    const PLENTY: u64 = 1 << 60;
    let first = units.unwrap_or(PLENTY);
    let failing = Failing { volume, units: first };
    let epoch = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    let mut fs = Ubifs::mount(failing, cx, Options { epoch, ..Options::default() }).unwrap();
    let stress = fsstress::Options { operations, seed, ..fsstress::Options::default() };
    let mut processes: Vec<Fsstress> =
        (0..3).map(|process| Fsstress::new(&mut fs, cx, &stress, process).unwrap()).collect();
    for turn in 0..3 * operations as usize {
        cx.spend(Ns(3_000_000));
        if fs.next_wake().is_some_and(|due| due <= cx.now()) && fs.wake(cx).is_err() {
            break;
        }
        let step = processes[turn % 3].step(&mut fs, cx).unwrap();
        if step.is_power_loss() {
            break;
        }
    }
    let is_on = fs.volume().units > 0;
    let failing = match is_on && units.is_none() {
        true => fs.unmount(cx).unwrap(),
        false => fs.lose_power(),
    };
    (failing.volume, first - failing.units)
}

/// Puts the volume onto a flash of UBI.
fn flash(dir: &Path, name: &str, shape: Shape, volume: &mut RamVolume) -> String {
    let mut bytes = vec![0; shape.lebs as usize * volume.leb_bytes() as usize];
    for (lnum, leb) in (0..).zip(bytes.chunks_mut(volume.leb_bytes() as usize)) {
        volume.read(&mut Cx::new(), Lnum(lnum), 0, leb).unwrap();
    }
    std::fs::write(dir.join(format!("{name}.img")), bytes).unwrap();
    let ini = format!("[v]\nmode=ubi\nimage={name}.img\nvol_id=0\nvol_type=dynamic\nvol_name=data\n");
    std::fs::write(dir.join(format!("{name}.ini")), ini).unwrap();
    let sizes = format!("-p {}KiB -m {}", shape.peb_kib, shape.page);
    let whole = format!("{name}.bin");
    for words in [
        format!("image pack {name}.ini -o {name}.ubi {sizes}"),
        format!("image pack {name}.ubi -o {whole} {sizes} --pebs 160"),
    ] {
        let said = nandlab(dir, &words.split(' ').collect::<Vec<_>>());
        assert!(said.status.success(), "{words}: {}", text(&said.stderr));
    }
    whole
}

#[track_caller]
pub fn same(what: &str, ours: &str, linux: &str) {
    let count = |text: &str| text.lines().count();
    let first = ours.lines().map(Some).chain([None]).zip(linux.lines().map(Some).chain([None]));
    let first = first.into_iter().find(|(ours, linux)| ours != linux);
    assert!(ours == linux, "{what}: {} lines, Linux has {}: first {first:?}", count(ours), count(linux));
}

/// Linux mounts the flash, finds what we find, changes it, and we find what it finds then.
#[track_caller]
fn linux_goes_on(dir: &Path, name: &str, shape: Shape, whole: &str) -> usize {
    let nand = format!(
        "[nand]\nmedium = 'nand'\npebs = 160\npeb_bytes = {}\npage_bytes = {1}\nsubpage_bytes = {1}",
        shape.peb_kib * 1024,
        shape.page
    );
    let list = format!("python3 {TREE} /mnt {}", plain());
    let mount = "mount -t ubifs ubi0:data /mnt";
    // Linux reports a torn master node as an error before it recovers it from the other copy.
    let job = format!(
        "dmesg -C; ubiattach -m 0 >/dev/null; {mount} || exit 3\n{list}; echo =====\ncd /mnt; mkdir new\n\
         rm -rf p0 p1; head -c 300000 /dev/zero | tr '\\0' x >new/x; cp -a p2 new 2>/dev/null; sync\n\
         cd /; umount /mnt; {mount} || exit 4\n{list}; umount /mnt; ubidetach -m 0\n\
         torn='^$'; dmesg | grep -q 'recovered master node' && torn='ubifs_scan: bad node'\n\
         dmesg | grep -E 'UBIFS (error|warning|assert)|WARNING: CPU|BUG:' | grep -v \"$torn\" | head -5; true"
    );
    let file = experiment(dir, name, &nand, "none", &job);
    let after = format!("{name}.after");
    let found = json(dir, &["run", &file, "--from", whole, "--flash", &after, "--json"]);
    let output = found["guest"]["output"].as_str().unwrap();
    assert!(output.len() < 250_000, "the output of a guest is cut off");
    let (before, changed) = output.split_once("=====\n").unwrap_or_else(|| panic!("{name}: {output}"));
    let expected = ours(dir, whole);
    same(&format!("{name}, as we wrote it"), &expected, before);
    same(&format!("{name}, as Linux wrote it"), &ours(dir, &after), &format!("{}\n", changed.trim_end()));
    expected.lines().count()
}

/// Writes a clean flash, then one that loses power after each of `cuts` shares of the write units. Returns the flashes
/// compared.
fn clean_and_cut(dir: &Path, name: &str, shape: Shape, seed: u32, cuts: impl Iterator<Item = (u64, u64)>) -> usize {
    let (mut volume, units) = stress(shape, seed, 500, None);
    let whole = flash(dir, &format!("{name}-clean"), shape, &mut volume);
    let names = linux_goes_on(dir, &format!("{name}-clean"), shape, &whole);
    assert!(names > 100, "{name}: {names} names");
    let mut flashes = 1;
    for (number, (part, parts)) in cuts.enumerate() {
        let (mut volume, _) = stress(shape, seed, 500, Some((units * part / parts).max(1)));
        let cut = format!("{name}-cut{number}-{part}");
        let whole = flash(dir, &cut, shape, &mut volume);
        assert!(linux_goes_on(dir, &cut, shape, &whole) > 0);
        flashes += 1;
    }
    flashes
}

#[test]
fn linux_finds_what_our_ubifs_wrote() {
    let dir = fresh("written");
    use Compression::{Lzo, None, Zlib, Zstd};
    let wide = Shape { peb_kib: 128, page: 2048, lebs: 140, fanout: 8, compression: Lzo };
    let shapes = [
        Shape { compression: None, fanout: 3, ..wide },
        wide,
        Shape { peb_kib: 64, compression: Zlib, fanout: 20, ..wide },
        Shape { peb_kib: 32, page: 512, compression: Zstd, ..wide },
    ];
    // With WRITTEN_CUTS, the same for each shape in each compression, and so many cuts at drawn places.
    let Some(cuts) = std::env::var("WRITTEN_CUTS").ok().map(|cuts| cuts.parse::<u64>().unwrap()) else {
        for (at, shape) in (0..).zip(shapes) {
            let flashes = clean_and_cut(&dir, &format!("{at}"), shape, 11 + at, [(2 + u64::from(at), 7)].into_iter());
            assert_eq!(flashes, 2);
        }
        return;
    };
    let (mut rng, mut flashes) = (sim::Seed(41).stream("test/written"), 0);
    let large = Shape { peb_kib: 256, page: 4096, ..wide };
    for (at, shape) in (0..).zip(shapes.into_iter().chain([large])) {
        for (number, compression) in (0..).zip([None, Lzo, Zlib, Zstd]) {
            let parts: Vec<(u64, u64)> = (0..cuts).map(|_| (rng.below(10_000) + 1, 10_001)).collect();
            let shape = Shape { compression, ..shape };
            flashes += clean_and_cut(&dir, &format!("{at}-{number}"), shape, 31 + 4 * at + number, parts.into_iter());
        }
    }
    println!("{flashes} flashes of ours, clean and cut, mounted and changed by Linux: none differs");
}
