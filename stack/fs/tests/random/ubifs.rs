//! UBIFS that is mounted for writing, on a volume that can lose power.

use fs::cache::{Config, PageCache};
use fs::compress::{Algorithm, Decompressor};
use fs::ubifs::check::Severity;
use fs::ubifs::media::{Compression, Group, Header, NodeType, SuperBlock, seal};
use fs::ubifs::mkfs::{self, Attributes, Compress, Mkfs};
use fs::ubifs::{Counters, KnownBad, Options, Reader, Ubifs, UbifsError};
use sim::seam::{FileSystem, FsError, LebVolume, Payload, RamVolume, Timestamp};
use sim::{Cx, Lnum};

use super::cut::Cut;
use super::run::{Failure, Subject};

/// No time in an image is before it.
const EPOCH: Timestamp = Timestamp { seconds: 0, nanos: 0 };

/// Sizes of the flash, and how data are compressed.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub lebs: u32,
    pub leb_bytes: u32,
    pub min_io: u32,
    pub max_write: u32,
    pub fanout: u32,
    pub compression: Compression,
    /// The file system is one that Linux made.
    pub is_of_linux: bool,
}

pub struct OnFlash {
    fs: Option<Ubifs<Cut<RamVolume>>>,
    volume: Cut<RamVolume>,
    options: Options,
    before_unmount: Counters,
}

fn failure(error: UbifsError) -> Failure {
    FsError::from(error).into()
}

impl OnFlash {
    /// An empty file system, mounted.
    pub fn new(shape: Shape, seed: u64) -> OnFlash {
        let cx = &mut Cx::new();
        let mut volume = Cut::new(RamVolume::new(shape.lebs, shape.leb_bytes, shape.min_io), seed);
        if shape.is_of_linux {
            write_image_of_linux(&mut volume, cx);
        } else {
            let options = mkfs::Options {
                fanout: shape.fanout,
                compress: Compress::Always(shape.compression),
                space_fixup: seed.is_multiple_of(2),
                orphan_lebs: 1 + (seed % 3) as u32,
                ..mkfs::Options::new(shape.min_io, shape.leb_bytes, shape.lebs)
            };
            let mut to = volume.clone();
            let sink =
                Box::new(move |lnum: Lnum, bytes: &[u8]| to.write(&mut Cx::new(), lnum, 0, Payload::Bytes(bytes)));
            let mut image = Mkfs::new(&options, sink).expect("the options go together");
            let root = image.root();
            let attributes = Attributes { mode: 0o040_755, ..Attributes::default() };
            image.end_dir(&root, &attributes, &[]).expect("there is room");
            image.finish().expect("there is room");
            keep_nanoseconds(&mut volume, cx);
        }
        let max_write_bytes = Some(shape.max_write);
        let compression = Some(shape.compression);
        let options = Options { epoch: EPOCH, max_write_bytes, compression, ..Options::default() };
        volume.sync(cx).expect("power is on");
        let fs = Ubifs::mount(volume.clone(), cx, options).expect("it is clean");
        OnFlash { fs: Some(fs), volume, options, before_unmount: Counters::default() }
    }

    /// The same with a deliberate mistake.
    pub fn known_bad(shape: Shape, seed: u64, known_bad: KnownBad) -> OnFlash {
        let mut flash = OnFlash::new(shape, seed);
        let volume = flash.fs.take().expect("it is mounted").unmount(&mut Cx::new()).expect("power is on");
        flash.options.known_bad = known_bad;
        flash.fs = Some(Ubifs::mount(volume, &mut Cx::new(), flash.options).expect("it is clean"));
        flash
    }

    /// Lets power fail, and again after so many events of the mount. Returns whether it did.
    pub fn cut_in_mount(&mut self, cx: &mut Cx, events: u64) -> bool {
        self.fs = None;
        self.volume.power_cycle(cx);
        self.volume.cut_after(Some(events));
        let mounted = Ubifs::mount(self.volume.clone(), cx, self.options).map_err(FsError::from);
        self.volume.cut_after(None);
        mounted.map(drop).is_err_and(|error| error.is_power_loss())
    }

    /// What was done up to the last unmount.
    pub fn before_unmount(&self) -> Counters {
        self.before_unmount
    }

    /// What a check of everything finds, from this severity on.
    fn findings(&self, cx: &mut Cx, least: Severity) -> Result<(), String> {
        let mut reader = Reader::mount(self.volume.clone(), cx).map_err(|error| error.to_string())?;
        let report = reader.check(cx).map_err(|error| error.to_string())?;
        let is_bad = |finding: &&fs::ubifs::check::Finding| finding.severity >= least;
        let bad: Vec<String> = report.findings.iter().filter(is_bad).map(|found| format!("{found:?}")).collect();
        if bad.is_empty() { Ok(()) } else { Err(format!("check: {}", bad[..bad.len().min(5)].join("; "))) }
    }
}

/// Times of mkfs.ubifs are whole seconds.
fn keep_nanoseconds(volume: &mut Cut<RamVolume>, cx: &mut Cx) {
    let mut bytes = vec![0; SuperBlock::BYTES.next_multiple_of(volume.min_io_bytes() as usize)];
    volume.read(cx, Lnum(0), 0, &mut bytes).expect("power is on");
    let (header, node) = Header::expect(&bytes, NodeType::SuperBlock).expect("it was just written");
    let sb = SuperBlock { time_gran: 1, ..SuperBlock::decode(node).expect("it was just written") };
    let mut node = [0; SuperBlock::BYTES];
    sb.encode(&mut node);
    seal(&mut node, NodeType::SuperBlock, Group::None, header.sqnum);
    bytes[..SuperBlock::BYTES].copy_from_slice(&node);
    volume.change(cx, Lnum(0), Payload::Bytes(&bytes)).expect("power is on");
}

/// The flash of `images/clean.ubifs.zst`: 48 LEBs of 31,744 bytes with pages of 512.
fn write_image_of_linux(volume: &mut Cut<RamVolume>, cx: &mut Cx) {
    const KEPT: usize = 18;
    let image = include_bytes!("../images/clean.ubifs.zst");
    let leb_bytes = volume.leb_bytes() as usize;
    let mut bytes = vec![0; leb_bytes * KEPT];
    Decompressor::new().decompress(Algorithm::Zstd, image, &mut bytes).expect("an image of the tests");
    for (lnum, leb) in (0..).zip(bytes.chunks(leb_bytes)) {
        let used = leb.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
        let used = used.next_multiple_of(volume.min_io_bytes() as usize);
        if used > 0 {
            volume.write(cx, Lnum(lnum), 0, Payload::Bytes(&leb[..used])).expect("there is room");
        }
    }
    keep_nanoseconds(volume, cx);
}

impl Subject for OnFlash {
    type Fs = Ubifs<Cut<RamVolume>>;

    fn fs(&mut self) -> &mut Self::Fs {
        self.fs.as_mut().expect("it is mounted")
    }

    fn epoch(&self) -> Timestamp {
        EPOCH
    }

    fn events(&self) -> u64 {
        self.volume.events()
    }

    fn cut_after(&mut self, events: Option<u64>) {
        self.volume.cut_after(events);
    }

    fn remount(&mut self, cx: &mut Cx, clean: bool) -> Result<(), Failure> {
        let fs = self.fs.take();
        if clean {
            let fs = fs.expect("it is mounted");
            self.before_unmount = *fs.counters();
            fs.unmount(cx)?;
            self.findings(cx, Severity::Warning).map_err(Failure::Broken)?;
        } else {
            self.volume.power_cycle(cx);
        }
        self.fs = Some(Ubifs::mount(self.volume.clone(), cx, self.options).map_err(failure)?);
        Ok(())
    }

    fn idle(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        let fs = self.fs();
        while fs.next_wake().is_some_and(|due| due <= cx.now()) {
            fs.wake(cx)?;
        }
        Ok(())
    }

    fn check(&mut self, cx: &mut Cx) -> Result<(), String> {
        self.fs().statfs(cx).map_err(|error| error.to_string())?;
        self.findings(cx, Severity::Error)
    }
}

/// The same below a page cache; it never loses power.
pub struct Cached {
    fs: Option<PageCache<Ubifs<Cut<RamVolume>>>>,
    flash: OnFlash,
    config: Config,
}

impl Cached {
    pub fn new(shape: Shape, seed: u64, config: Config) -> Cached {
        let mut flash = OnFlash::new(shape, seed);
        let fs = flash.fs.take().map(|fs| PageCache::new(fs, config));
        Cached { fs, flash, config }
    }
}

impl Subject for Cached {
    type Fs = PageCache<Ubifs<Cut<RamVolume>>>;

    fn fs(&mut self) -> &mut Self::Fs {
        self.fs.as_mut().expect("it is mounted")
    }

    fn epoch(&self) -> Timestamp {
        EPOCH
    }

    fn events(&self) -> u64 {
        self.flash.events()
    }

    fn cut_after(&mut self, _: Option<u64>) {}

    fn remount(&mut self, cx: &mut Cx, clean: bool) -> Result<(), Failure> {
        assert!(clean, "power is never lost");
        let mut fs = self.fs.take().expect("it is mounted");
        fs.sync(cx)?;
        self.flash.fs = Some(fs.into_inner());
        self.flash.remount(cx, true)?;
        self.fs = self.flash.fs.take().map(|fs| PageCache::new(fs, self.config));
        Ok(())
    }

    fn idle(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        let fs = self.fs();
        while fs.next_wake().is_some_and(|due| due <= cx.now()) {
            fs.wake(cx)?;
        }
        let below = fs.inner_mut();
        while below.next_wake().is_some_and(|due| due <= cx.now()) {
            below.wake(cx)?;
        }
        Ok(())
    }

    fn changes_in_vain(&self) -> bool {
        true
    }

    fn check(&mut self, cx: &mut Cx) -> Result<(), String> {
        self.fs().statfs(cx).map_err(|error| error.to_string())?;
        self.flash.findings(cx, Severity::Error)
    }
}
