//! What a mount for writing leaves in the image, or in the overlay.

use std::fs;
use std::path::{Path, PathBuf};

use ::fs::jffs2::{Gluebi, Jffs2, Options};
use clap::Parser;
use fuser::INodeNo;
use sim::seam::{FileSystem, Flash, Geometry, Medium, NewInode, Payload, RamFlash};
use sim::{Cx, Peb};
use ubi::block::OnUbi;
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};

use super::super::Args;
use super::super::bridge::{Bridge, Served, WriteHow, served};
use super::super::clock::Clock;
use super::super::overlay::{Blocks, Identity, Overlay};
use super::super::writable::{self, Request, Serve, Written};
use crate::error::CliError;
use crate::output::Overwrite;
use crate::{Cli, Command, image};

const SAMPLE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rootfs.ubi"));
/// PEBs of the sample: 15 of 16 KiB.
const PEB: usize = 16_384;

/// A directory with a copy of the sample, `i`, of 15 PEBs.
pub struct Bench {
    pub dir: PathBuf,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Bench {
    pub fn new(name: &str) -> Bench {
        let dir = std::env::temp_dir().join(format!("nandlab-mount-image-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory for the test");
        fs::write(dir.join("i"), SAMPLE).expect("it can be written");
        Bench { dir }
    }

    fn image(&self) -> Vec<u8> {
        fs::read(self.dir.join("i")).expect("it is there")
    }

    fn overlay(&self) -> PathBuf {
        self.dir.join("o")
    }

    /// Arguments of the command line; the image and the directory come first.
    fn args(&self, options: &str) -> Args {
        let (image, overlay) = (self.dir.join("i"), self.overlay());
        let options = options.replace("OVERLAY", overlay.to_str().unwrap());
        let line =
            ["nandlab", "mount", image.to_str().unwrap(), "m", "--rw"].into_iter().chain(options.split_whitespace());
        let Command::Mount(args) = Cli::try_parse_from(line).expect("these are options").command else {
            unreachable!("it is a mount")
        };
        args
    }

    /// Mounts for writing with these options.
    pub fn written(&self, options: &str, serve: Serve<'_>) -> Result<Written, CliError> {
        let args = self.args(options);
        let request = Request {
            source: &args.source,
            volume: args.volume.as_deref(),
            subpage_bytes: args.sub_page_size,
            pebs: args.pebs,
            overlay: args.overlay.as_deref(),
        };
        writable::with(&request, serve)
    }

    /// Makes a file in the root directory.
    fn put(&self, options: &str, name: &str, bytes: &[u8]) -> Result<Written, CliError> {
        self.written(options, &mut |fs, cx| {
            put(fs, cx, name, bytes);
            Ok(())
        })
    }

    /// Mounts for reading.
    pub fn read<T>(&self, options: &str, work: impl FnOnce(&mut dyn Served, &mut Cx) -> T) -> T {
        let args = self.args(options);
        let loaded = match &args.overlay {
            Some(overlay) => writable::overlaid(&args.source, overlay),
            None => args.source.load(),
        };
        let loaded = loaded.unwrap_or_else(|error| panic!("{}", error.report()));
        let read = image::with_loaded(&args.source, &loaded, args.volume.as_deref(), |files| {
            Ok(work(served(&mut files.fs), &mut files.cx))
        });
        read.unwrap_or_else(|error| panic!("{}", error.report())).0
    }

    /// Contents of a file in the root directory.
    fn get(&self, options: &str, name: &str) -> Option<Vec<u8>> {
        self.read(options, |fs, cx| {
            let mut bridge = Bridge::new(fs, cx, Clock::SINCE_1970);
            let attr = bridge.lookup(INodeNo::ROOT, name.as_bytes()).ok()?;
            Some(bridge.read(attr.ino, 0, 1 << 20).expect("it is a file"))
        })
    }
}

fn put(fs: &mut dyn Served, cx: &mut Cx, name: &str, bytes: &[u8]) {
    let mut bridge = Bridge::new(fs, cx, Clock::SINCE_1970);
    bridge.tick();
    let (attr, handle) = bridge.create(INodeNo::ROOT, name.as_bytes(), NewInode::of_root(0o644)).expect("it has space");
    assert_eq!(bridge.write(handle, attr.ino, 0, bytes, WriteHow::default()), Ok(bytes.len() as u32));
    bridge.finish().expect("it ends");
}

fn refusal<T>(result: Result<T, CliError>) -> String {
    result.err().expect("it is refused").report()
}

/// Numbers of the PEBs that differ; what one of them does not have is 0xFF.
fn differing(before: &[u8], after: &[u8]) -> usize {
    let mut before = before.to_vec();
    before.resize(after.len(), 0xff);
    before.chunks(PEB).zip(after.chunks(PEB)).filter(|(before, after)| before != after).count()
}

#[test]
fn changes_are_in_the_image_and_only_changed_blocks_are_written() {
    let bench = Bench::new("in-place");
    let first = bench.put("--pebs 60", "one", b"first").unwrap();
    let after_first = bench.image();
    assert_eq!((after_first.len(), first.blocks, first.unit), (60 * PEB, 60, "PEBs"));
    assert_eq!(first.changed, differing(SAMPLE, &after_first));
    assert_eq!(bench.get("", "one").as_deref(), Some(&b"first"[..]));
    // The flash is as large as it is now.
    let second = bench.put("", "two", &[7; 5000]).unwrap();
    let after_second = bench.image();
    assert_eq!((second.changed, after_second.len()), (differing(&after_first, &after_second), 60 * PEB));
    assert!(second.changed < 20, "{second:?}");
    assert_eq!(bench.get("", "one").as_deref(), Some(&b"first"[..]));
    assert_eq!(bench.get("", "two").as_deref(), Some(&[7; 5000][..]));
}

#[test]
fn an_overlay_has_the_changes_and_the_image_none() {
    let bench = Bench::new("overlay");
    let of_image = Bench::new("overlay-size").put("--overlay OVERLAY", "one", b"1").unwrap();
    assert_eq!(of_image.blocks, 49, "13 PEBs of the volume, 4 of UBI, and 32 more; the image has 15");
    for (round, name) in ["one", "two", "three"].into_iter().enumerate() {
        // The overlay knows how large the flash is.
        let options = if round == 0 { "--overlay OVERLAY --pebs 60" } else { "--overlay OVERLAY" };
        let written = bench.put(options, name, name.as_bytes()).unwrap();
        assert_eq!((written.blocks, bench.image() == SAMPLE), (60, true));
        assert!(written.changed >= 45, "what the image does not have is formatted: {written:?}");
    }
    for name in ["one", "two", "three"] {
        assert_eq!(bench.get("--overlay OVERLAY", name).as_deref(), Some(name.as_bytes()));
        assert_eq!(bench.get("", name), None);
    }
}

#[test]
fn an_overlay_goes_with_the_image_that_it_was_made_over() {
    let bench = Bench::new("other-base");
    bench.put("--overlay OVERLAY --pebs 60", "one", b"first").unwrap();
    let mut image = bench.image();
    *image.last_mut().unwrap() ^= 1;
    fs::write(bench.dir.join("i"), &image).unwrap();
    let refused = refusal(bench.put("--overlay OVERLAY", "two", b""));
    assert!(refused.contains("the overlay was made over another image, of 245760 bytes"), "{refused}");
    fs::write(bench.overlay(), "something of the user's").unwrap();
    let refused = refusal(bench.put("--overlay OVERLAY", "two", b""));
    assert!(refused.contains("found a file that is no overlay"), "{refused}");
    assert_eq!(fs::read(bench.overlay()).unwrap(), b"something of the user's");
    let line = format!("--overlay {}", bench.dir.join("i").display());
    assert!(refusal(bench.put(&line, "two", b"")).contains("found an input of this command"));
}

#[test]
fn what_was_done_before_an_error_is_written_and_a_mount_that_failed_writes_nothing() {
    let bench = Bench::new("errors");
    let failed = bench.written("--pebs 60", &mut |fs, cx| {
        put(fs, cx, "kept", b"there");
        Err(CliError::input(Path::new("m"), "the mount broke", "mend it"))
    });
    assert!(refusal(failed).contains("the mount broke"));
    assert_eq!(bench.get("", "kept").as_deref(), Some(&b"there"[..]));
    let before = bench.image();
    // Damages every super block of UBIFS: nodes of type 6.
    let mut image = before.clone();
    let is_super = |at: &usize| image[*at..].starts_with(&[0x31, 0x18, 0x10, 0x06]) && image[at + 20] == 6;
    let supers = (0..image.len() - 24).step_by(8).filter(is_super).collect::<Vec<usize>>();
    supers.iter().for_each(|at| image[at + 30] ^= 1);
    assert_ne!(image, before);
    fs::write(bench.dir.join("i"), &image).unwrap();
    refusal(bench.put("", "new", b""));
    assert!(bench.image() == image);
}

#[test]
fn an_image_is_mounted_for_writing_once() {
    let bench = Bench::new("lock");
    bench.put("--pebs 60", "one", b"").unwrap();
    let nested = bench.written("", &mut |_, _| {
        let refused = refusal(bench.put("", "two", b""));
        assert!(refused.contains("is mounted for writing already"), "{refused}");
        let refused = refusal(bench.put("--overlay OVERLAY", "two", b""));
        assert!(refused.contains("is mounted for writing already"), "{refused}");
        Ok(())
    });
    nested.unwrap();
    // Over an image that nobody changes there may be several.
    let nested = bench.written("--overlay OVERLAY", &mut |_, _| {
        let second = bench.dir.join("second");
        bench.put(&format!("--overlay {}", second.display()), "two", b"").unwrap();
        Ok(())
    });
    nested.unwrap();
}

#[test]
fn a_part_of_a_file_is_written_and_nothing_around_it() {
    let bench = Bench::new("part");
    bench.put("--pebs 60", "one", b"").unwrap();
    let flash = bench.image();
    let file = [&[0x11; 1000][..], &flash, &[0x22; 1000]].concat();
    fs::write(bench.dir.join("i"), &file).unwrap();
    let part = format!("--offset 1000 --length {}", flash.len());
    bench.put(&part, "two", b"second").unwrap();
    let after = bench.image();
    assert_eq!(after.len(), file.len());
    assert!(after.starts_with(&[0x11; 1000]) && after.ends_with(&[0x22; 1000]));
    assert_eq!(bench.get(&part, "two").as_deref(), Some(&b"second"[..]));
    let refused = refusal(bench.put(&format!("{part} --pebs 61"), "three", b""));
    assert!(refused.contains("beyond --length"), "{refused}");
    let options = refusal(bench.put(&format!("{part} --bad-blocks padbad"), "three", b""));
    assert!(options.contains("--bad-blocks 3,17"), "{options}");
}

#[test]
fn ubifs_without_ubi_is_written_too() {
    let bench = Bench::new("bare");
    // The sample's volume begins in PEB 2, and its LEBs are in order: 15,872 bytes after 512 of headers.
    let lebs = SAMPLE.chunks(PEB).skip(2).flat_map(|peb| &peb[512..]).copied().collect::<Vec<u8>>();
    fs::write(bench.dir.join("i"), &lebs).unwrap();
    assert_eq!(bench.get("", "new"), None);
    let refused = refusal(bench.put("--pebs 12", "new", b""));
    assert!(refused.contains("expected at least the 13 LEBs"), "{refused}");
    let written = bench.put("--pebs 40", "new", &[9; 40_000]).unwrap();
    assert_eq!((written.blocks, written.unit), (40, "LEBs"));
    assert_eq!(bench.get("", "new").as_deref(), Some(&[9; 40_000][..]));
    let grown = bench.image();
    assert_eq!(grown.len(), 40 * 15_872);
    bench.put("--overlay OVERLAY", "more", b"more").unwrap();
    assert_eq!(bench.get("--overlay OVERLAY", "more").as_deref(), Some(&b"more"[..]));
    assert!(bench.image() == grown);
}

fn example() -> (Overlay, Identity) {
    let blocks = Blocks { start: 3, bytes: 8, count: 5 };
    let changed = [(1, vec![1; 8]), (4, vec![4; 8])].into_iter().collect();
    (Overlay { blocks, changed }, Identity::of(b"an image of 20 bytes"))
}

#[test]
fn an_overlay_is_the_bytes_that_its_page_describes() {
    let (overlay, base) = example();
    let bench = Bench::new("overlay-bytes");
    overlay.write(&bench.overlay(), &base, &Overwrite::default()).unwrap();
    let bytes = fs::read(bench.overlay()).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    // docs/format/overlay.md.
    assert_eq!(&bytes[..16], b"nandlab overlay\n");
    assert_eq!([16, 20, 24, 28, 32, 36, 72, 76, 80, 84].map(word), [1, 8, 3, 0, 20, 0, 5, 2, 0, 0]);
    // `printf 'an image of 20 bytes' | sha256sum`
    let hash = bytes[40..72].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hash, "43c34754f653bc0cca91a9602df879eea779750a1c5b9119449f56ad9c80fe5d");
    assert_eq!((word(88), &bytes[92..100], word(100), &bytes[104..112]), (1, &[1; 8][..], 4, &[4; 8][..]));
    assert_eq!(bytes.len(), 112 + 32);

    assert_eq!(Overlay::read(&bench.overlay(), &base).unwrap(), Some(overlay));
    assert_eq!(Overlay::read(&bench.dir.join("none"), &base).unwrap(), None);
    for at in 0..bytes.len() {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x40;
        fs::write(bench.overlay(), &wrong).unwrap();
        assert!(Overlay::read(&bench.overlay(), &base).is_err(), "byte {at}");
        fs::write(bench.overlay(), &bytes[..at]).unwrap();
        assert!(Overlay::read(&bench.overlay(), &base).is_err(), "{at} bytes");
    }
}

#[test]
fn an_overlay_makes_the_image_longer_where_its_blocks_end_later() {
    let (overlay, _) = example();
    let mut bytes = vec![0; 20];
    overlay.apply(&mut bytes);
    let expected = [[0; 3].as_slice(), &[0; 8], &[1; 8], &[0], &[0xff; 7], &[0xff; 8], &[4; 8]].concat();
    assert_eq!(bytes, expected);
}

/// An image of UBI of 40 PEBs with JFFS2 on its volume of 30 LEBs, and a file in it.
fn jffs2_on_ubi(summary: bool) -> Vec<u8> {
    const PAGE: u32 = 512;
    let geometry = Geometry {
        medium: Medium::Nand,
        pebs: 40,
        peb_bytes: PEB as u32,
        page_bytes: PAGE,
        subpage_bytes: PAGE,
        oob_bytes: 0,
    };
    let cx = &mut Cx::new();
    let ubi = Ubi::attach(RamFlash::new(geometry), cx, &Config::linux(Policy::LINUX_6_7));
    let mut ubi = ubi.map_err(|failure| failure.error).unwrap();
    let vol_id = ubi.create_volume(cx, &VolumeRequest::dynamic("data", VolumeSize::Lebs(30))).unwrap();
    let volume = Gluebi::new(OnUbi::open(ubi, cx, vol_id).unwrap());
    let mut fs = Jffs2::mount(volume, cx, Options { summary, ..Options::default() }).unwrap();
    let root = fs.root();
    let ino = fs.create(cx, root, b"old", NewInode::of_root(0o644)).unwrap().ino;
    fs.write(cx, ino, 0, Payload::Bytes(&(0..90_000_u64).map(|at| (at * at % 251) as u8).collect::<Vec<_>>())).unwrap();
    let (mut flash, detached) = fs.unmount(cx).unwrap().into_volume().into_ubi().detach(cx);
    detached.unwrap();
    let mut bytes = vec![0; geometry.bytes() as usize];
    for (peb, block) in (0..).map(Peb).zip(bytes.chunks_mut(PEB)) {
        flash.read(cx, peb, 0, block).unwrap();
    }
    bytes
}

#[test]
fn jffs2_in_a_volume_is_written_through_ubi() {
    for summary in [false, true] {
        let bench = Bench::new(&format!("jffs2-on-ubi-{summary}"));
        let before = jffs2_on_ubi(summary);
        fs::write(bench.dir.join("i"), &before).unwrap();
        let first = bench.put("", "one", &[7; 5000]).unwrap();
        let after = bench.image();
        assert_eq!((first.blocks, first.unit, first.changed), (40, "PEBs", differing(&before, &after)));
        assert!((1..20).contains(&first.changed), "{first:?}");
        assert_eq!(bench.get("", "one").as_deref(), Some(&[7; 5000][..]));
        assert_eq!(bench.get("", "old").map(|bytes| bytes.len()), Some(90_000));
        // An overlay goes on where the image is.
        bench.put("--overlay OVERLAY", "two", b"second").unwrap();
        assert_eq!(bench.get("--overlay OVERLAY", "two").as_deref(), Some(&b"second"[..]));
        assert_eq!((bench.get("", "two"), bench.image() == after), (None, true));
        // Twice as much as the volume holds: garbage is collected, and LEBs are erased.
        for round in 0..10 {
            let replaced = bench.written("", &mut |fs, cx| {
                let root = fs.root();
                if round > 0 {
                    fs.unlink(cx, root, b"large").unwrap();
                }
                put(fs, cx, "large", &(0..80_000_u64).map(|at| (at * at % (241 + round)) as u8).collect::<Vec<_>>());
                Ok(())
            });
            replaced.unwrap();
        }
        assert_eq!(bench.get("", "large").map(|bytes| bytes.len()), Some(80_000));
        assert_eq!(bench.get("", "one").as_deref(), Some(&[7; 5000][..]));
    }
}

#[test]
fn files_are_removed_from_a_full_jffs2_in_a_volume() {
    let bench = Bench::new("jffs2-on-ubi-full");
    fs::write(bench.dir.join("i"), jffs2_on_ubi(false)).unwrap();
    let fill = |fs: &mut dyn Served, cx: &mut Cx| {
        let root = fs.root();
        for round in 0..1000_u32 {
            let Ok(attr) = fs.create(cx, root, format!("f{round}").as_bytes(), NewInode::of_root(0o644)) else { break };
            let mut noise = sim::Seed(round.into()).stream("test/noise");
            let bytes: Vec<u8> = (0..9000).map(|_| noise.bits() as u8).collect();
            if fs.write(cx, attr.ino, 0, Payload::Bytes(&bytes)).is_err() {
                break;
            }
        }
    };
    bench
        .written("", &mut |fs, cx| {
            fill(fs, cx);
            Ok(())
        })
        .unwrap();
    // It is full, and files can still be removed.
    let removed = bench.written("", &mut |fs, cx| {
        let root = fs.root();
        fs.unlink(cx, root, b"f1").unwrap();
        Ok(())
    });
    removed.unwrap();
    assert_eq!(bench.get("", "f1"), None);
    assert!(bench.get("", "f0").is_some());
}
