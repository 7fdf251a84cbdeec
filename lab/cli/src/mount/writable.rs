//! An image that is written. Its bytes are in memory while it is mounted; what was changed goes to the file, or to an
//! overlay, when the file system was unmounted. Until then the file is as it was.

mod jffs2;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fs::ubifs::{Options, Ubifs};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sim::seam::{LebError, LebVolume, Payload, RamVolume};
use sim::{Cx, Lnum, VolId};
use ubi::block::{Backing, OnUbi};
use ubi::image::Scan;

use super::bridge::Served;
use super::clock::Clock;
use super::overlay::{Blocks, Identity, Overlay};
use crate::error::CliError;
use crate::image::{self, BareVolume, Holds, Image, Jffs2Image, Loaded, Source};
use crate::interrupt;
use crate::output::Overwrite;

/// What is done with a file system that is mounted.
pub type Serve<'s> = &'s mut dyn FnMut(&mut dyn Served, &mut Cx) -> Result<(), CliError>;

/// Mounts UBIFS in `volume`, calls `serve`, and unmounts.
/// Errors: it cannot be mounted or unmounted; those of `serve`.
fn ubifs_mounted(image: &Path, volume: impl LebVolume, cx: &mut Cx, serve: Serve<'_>) -> Result<(), CliError> {
    let options = Options { epoch: Clock::SINCE_1970.epoch(), ..Options::default() };
    let mut fs = Ubifs::mount(volume, cx, options).map_err(|error| image::refused(image, &error))?;
    let served = serve(&mut fs, cx);
    let unmounted = fs.unmount(cx).map(drop).map_err(|error| {
        let help = "the flash is written back as after a power cut; `nandlab image check` lists what is damaged";
        CliError::environment(image, format!("cannot be unmounted cleanly: {error}"), help)
    });
    served.and(unmounted)
}

/// A volume of an image that is to be written.
pub struct Request<'a> {
    /// The image.
    pub source: &'a Source,
    /// The volume, where several hold a file system.
    pub volume: Option<&'a str>,
    /// Bytes of a sub-page.
    pub subpage_bytes: Option<u32>,
    /// PEBs of the flash, LEBs of UBIFS without UBI, or eraseblocks of JFFS2: at least those of the image.
    pub pebs: Option<u32>,
    /// Where changes go, and not into the image.
    pub overlay: Option<&'a Path>,
}

/// What was written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Blocks that differ from the image as it was.
    pub changed: usize,
    /// All blocks.
    pub blocks: u32,
    /// What a block is.
    pub unit: &'static str,
}

/// The image, open and locked.
struct Base<'a> {
    path: &'a Path,
    file: File,
    /// The part that is mounted, in bytes of the file.
    offset: u64,
    bytes: u64,
    file_bytes: u64,
}

impl<'a> Base<'a> {
    /// Opens the image, alone if it is written itself.
    /// Errors: it is no file, may not be opened, or is mounted for writing elsewhere.
    fn open(source: &'a Source, is_written: bool) -> Result<Base<'a>, CliError> {
        let path = source.image.as_path();
        let opened = File::options().read(true).write(is_written).open(path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if is_written => {
                let help = "keep the changes in another file with --overlay FILE, or write where you may";
                CliError::environment(path, format!("cannot be opened for writing: {error}"), help)
            }
            _ => CliError::read(path, &error),
        })?;
        let found = file.metadata().map_err(|error| CliError::read(path, &error))?;
        if !found.is_file() {
            let help = "copy it to a file first: nanddump -f dump.bin /dev/mtdN";
            return Err(CliError::input(path, "found a device or a pipe, expected a file to write", help));
        }
        lock(path, &file, is_written)?;
        let part = source.part();
        let bytes = part.of(path, found.len())?;
        Ok(Base { path, file, offset: part.offset, bytes, file_bytes: found.len() })
    }

    fn read(&self) -> Result<Vec<u8>, CliError> {
        let too_large = || CliError::environment(self.path, "does not fit into memory", "mount it for reading");
        let length = usize::try_from(self.bytes).map_err(|_| too_large())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| too_large())?;
        bytes.resize(length, 0);
        self.file.read_exact_at(&mut bytes, self.offset).map_err(|error| CliError::read(self.path, &error))?;
        Ok(bytes)
    }

    /// Errors: the blocks end beyond the part that is mounted, and there the file goes on.
    fn has_room(&self, request: &Request<'_>, blocks: &Blocks) -> Result<(), CliError> {
        let goes_on = self.offset + self.bytes < self.file_bytes;
        if request.overlay.is_none() && goes_on && blocks.end() > self.bytes {
            let what = format!("the flash ends at byte {} of its part, beyond --length {}", blocks.end(), self.bytes);
            return Err(CliError::input(self.path, what, "give the whole part with --length, or use --overlay"));
        }
        Ok(())
    }

    /// The blocks that are not in the file as they are in `bytes`. What the file does not have is 0xFF.
    fn differing(&self, blocks: &Blocks, bytes: &[u8]) -> Result<BTreeMap<u32, Vec<u8>>, CliError> {
        let mut changed = BTreeMap::new();
        let mut before = vec![0; blocks.bytes as usize];
        for (number, contents) in (0..blocks.count).zip(bytes.chunks(blocks.bytes as usize)) {
            let at = blocks.offset(number);
            let there = self.bytes.saturating_sub(at).min(before.len() as u64) as usize;
            before[there..].fill(0xff);
            let read = self.file.read_exact_at(&mut before[..there], self.offset + at);
            read.map_err(|error| CliError::read(self.path, &error))?;
            if before != contents {
                changed.insert(number, contents.to_vec());
            }
        }
        Ok(changed)
    }

    /// Writes blocks to the file.
    fn write(&self, overlay: &Overlay) -> Result<(), CliError> {
        let failed = |error: io::Error| CliError::write(self.path, &error);
        for (&number, contents) in &overlay.changed {
            self.file.write_all_at(contents, self.offset + overlay.blocks.offset(number)).map_err(failed)?;
        }
        // Blocks between the old end and the first new one would read as 0.
        let end = self.offset + overlay.blocks.end();
        if self.file_bytes < end && !overlay.changed.is_empty() {
            let erased = vec![0xff; overlay.blocks.bytes as usize];
            let fresh = |number: &u32| overlay.blocks.offset(*number) >= self.bytes;
            for number in (0..overlay.blocks.count).filter(fresh).filter(|number| !overlay.changed.contains_key(number))
            {
                self.file.write_all_at(&erased, self.offset + overlay.blocks.offset(number)).map_err(failed)?;
            }
        }
        self.file.sync_all().map_err(failed)
    }
}

/// Errors: somebody else has it.
fn lock(path: &Path, file: &File, alone: bool) -> Result<(), CliError> {
    let how = if alone { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
    flock(file, how).map_err(|error| match error {
        Errno::WOULDBLOCK => {
            let help = "unmount it there first; several mounts of one image each need an --overlay";
            CliError::input(path, "is mounted for writing already", help)
        }
        error => CliError::read(path, &error.into()),
    })
}

/// The image with the changes of its overlay, to be read.
/// Errors: no overlay; one that is damaged or was made over another image.
pub fn overlaid(source: &Source, overlay: &Path) -> Result<Loaded, CliError> {
    source.is_uncorrected()?;
    let mut bytes = Base::open(source, false)?.read()?;
    let Some(found) = Overlay::read(overlay, &Identity::of(&bytes))? else {
        let help = "check the path; with --rw it is made";
        return Err(CliError::input(overlay, "no such file", help));
    };
    found.apply(&mut bytes);
    Ok(Loaded::Memory(bytes))
}

/// Mounts the file system in an image for writing, calls `serve`, unmounts, and writes back what was changed.
/// Errors: an image or overlay that cannot be opened; no volume; those of the file system and of `serve`; what was changed
/// cannot be written.
pub fn with(request: &Request<'_>, serve: Serve<'_>) -> Result<Written, CliError> {
    request.source.is_uncorrected()?;
    let base = Base::open(request.source, request.overlay.is_none())?;
    let mut bytes = base.read()?;
    let identity = request.overlay.map(|_| Identity::of(&bytes));
    let overwrite = Overwrite::new(true, [image::file(base.path)]);
    let mut held = None;
    if let (Some(path), Some(identity)) = (request.overlay, &identity) {
        overwrite.permit(path)?;
        if let Some(overlay) = Overlay::read(path, identity)? {
            overlay.apply(&mut bytes);
            let file = File::open(path).map_err(|error| CliError::read(path, &error))?;
            lock(path, &file, true)?;
            held = Some(file);
        }
    }
    let mut began = false;
    let mut serve = |fs: &mut dyn Served, cx: &mut Cx| {
        began = true;
        serve(fs, cx)
    };
    let mut cx = Cx::new();
    Clock::SINCE_1970.set(&mut cx);
    let bare = BareVolume::of(&bytes, bytes.len() as u64).filter(|_| request.volume.is_none());
    let loaded = Loaded::Memory(bytes);
    let shape = match request.volume {
        None => Jffs2Image::open(request.source, &loaded)?.map(Jffs2Image::shape),
        Some(_) => None,
    };
    let Loaded::Memory(bytes) = loaded else { unreachable!("it is in memory") };
    let (blocks, unit, bytes, served) = match (bare, shape) {
        (Some(volume), _) => {
            let (blocks, bytes, served) = on_bare(request, &base, volume, &bytes, &mut cx, &mut serve)?;
            (blocks, "LEBs", bytes, served)
        }
        (None, Some(shape)) => {
            let (blocks, bytes, served) = jffs2::on_flash(request, &base, &shape, bytes, &mut cx, &mut serve)?;
            (blocks, "eraseblocks", bytes, served)
        }
        (None, None) => {
            let (blocks, bytes, served) = on_ubi(request, &base, bytes, &mut cx, &mut serve)?;
            (blocks, "PEBs", bytes, served)
        }
    };
    let served = match served {
        // Nobody changed anything.
        Err(error) if !began => return Err(error),
        served => served,
    };
    let overlay = Overlay { blocks, changed: base.differing(&blocks, &bytes)? };
    interrupt::together(|| match (request.overlay, &identity) {
        (Some(path), Some(identity)) => overlay.write(path, identity, &overwrite),
        _ => base.write(&overlay),
    })?;
    drop(held);
    served?;
    Ok(Written { changed: overlay.changed.len(), blocks: blocks.count, unit })
}

/// What became of an image: its blocks, their bytes, and how it ended.
type Became = (Blocks, Vec<u8>, Result<(), CliError>);

fn on_bare(
    request: &Request<'_>,
    base: &Base<'_>,
    volume: BareVolume,
    bytes: &[u8],
    cx: &mut Cx,
    serve: Serve<'_>,
) -> Result<Became, CliError> {
    let BareVolume { leb_bytes, min_io_bytes, .. } = volume;
    let there = bytes.chunks(leb_bytes as usize);
    let found = there.len() as u32;
    // The file system grows to its volume and cannot shrink again, so that a volume is not taken to be larger than needed.
    let lebs = request.pebs.unwrap_or(found);
    if lebs < found {
        let what = format!("found {lebs}, expected at least the {found} LEBs of the image");
        return Err(CliError::input(Path::new("--pebs"), what, "give the LEBs of the volume"));
    }
    let blocks = Blocks { start: 0, bytes: leb_bytes, count: lebs };
    base.has_room(request, &blocks)?;
    let mut ram = RamVolume::new(lebs, leb_bytes, min_io_bytes);
    for (lnum, contents) in (0..).map(Lnum).zip(there) {
        if contents.iter().any(|&byte| byte != 0xff) {
            let mut leb = contents.to_vec();
            leb.resize(leb_bytes as usize, 0xff);
            ram.change(cx, lnum, Payload::Bytes(&leb)).expect("memory takes it");
        }
    }
    let served = ubifs_mounted(base.path, Lent(&mut ram), cx, serve);
    let mut bytes = vec![0; lebs as usize * leb_bytes as usize];
    for (lnum, leb) in (0..).map(Lnum).zip(bytes.chunks_mut(leb_bytes as usize)) {
        ram.read(cx, lnum, 0, leb).expect("memory gives it");
    }
    Ok((blocks, bytes, served))
}

/// PEBs that a flash has at least besides those of an image that was never attached.
const LEAST_SPARE_PEBS: u32 = 32;

fn on_ubi(
    request: &Request<'_>,
    base: &Base<'_>,
    bytes: Vec<u8>,
    cx: &mut Cx,
    serve: Serve<'_>,
) -> Result<Became, CliError> {
    let source = request.source;
    let mut known = image::Known { subpage_bytes: request.subpage_bytes, pebs: request.pebs, ..source.known()? };
    let loaded = Loaded::Memory(bytes);
    let holds;
    let vol_id = {
        let dump = source.probe(&loaded)?;
        source.remark(&dump);
        let scan = Scan::new(&dump);
        source.is_one(&loaded, &scan)?;
        if known.pebs.is_none() && scan.is_never_attached() {
            // An image as ubinize makes it has what is written to a flash, and the flash has more.
            let pebs = scan.pebs().len() as u32;
            // Its volumes may reserve many more than hold data; a damaged table may claim any number.
            let needed = scan.needed_pebs().min(scan.believable_lebs().into()) as u32;
            let least = pebs.max(needed);
            let whole = least + LEAST_SPARE_PEBS.max(least / 4);
            eprintln!("note: the image has {pebs} PEBs, its flash is taken to have {whole}; --pebs N says otherwise");
            known.pebs = Some(whole);
        }
        let chosen = image::choose(source, &scan, request.volume, Holds::is_files)?;
        holds = Holds::of(&scan, &chosen);
        chosen.id
    };
    let Loaded::Memory(bytes) = loaded else { unreachable!("it is in memory") };
    let (image, flash) = Image::of(base.path, bytes, &known)?;
    let block_bytes = image.raw_peb_bytes();
    let blocks = Blocks {
        start: image.before().len() as u64,
        bytes: block_bytes,
        count: (flash.len() / block_bytes as usize) as u32,
    };
    base.has_room(request, &blocks)?;
    let ubi = image.attach(flash, None, cx)?;
    let failed = |error: &dyn std::fmt::Display| {
        CliError::input(base.path, error.to_string(), "`nandlab image check` lists what is damaged")
    };
    let mut volume = OnUbi::open(ubi, cx, VolId(vol_id.0)).map_err(|failure| failed(&failure.error))?;
    let served = match holds {
        Holds::Jffs2 => jffs2::on_volume(base.path, Lent(&mut volume), cx, serve),
        _ => ubifs_mounted(base.path, Lent(&mut volume), cx, serve),
    };
    let (flash, detached) = volume.into_ubi().detach(cx);
    let served = served.and(detached.map_err(|error| failed(&error)));
    Ok((blocks, flash.into_store().into_buffer(), served))
}

/// A volume that a file system has for a while. What the volume's background has to do is done between its writes.
struct Lent<'v, V>(&'v mut V);

impl<V: Backing> Lent<'_, V> {
    /// Does one work, as many as an operation gives.
    fn step(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        if self.0.background_works() > 0 { self.0.step_background(cx) } else { Ok(()) }
    }
}

impl<V: Backing> LebVolume for Lent<'_, V> {
    fn keeps_bytes() -> bool {
        V::keeps_bytes()
    }

    fn lebs(&self) -> u32 {
        self.0.lebs()
    }

    fn leb_bytes(&self) -> u32 {
        self.0.leb_bytes()
    }

    fn min_io_bytes(&self) -> u32 {
        self.0.min_io_bytes()
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.0.read(cx, lnum, offset, buf)
    }

    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        self.0.write(cx, lnum, offset, data)?;
        self.step(cx)
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.0.change(cx, lnum, data)?;
        self.step(cx)
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.0.map(cx, lnum)?;
        self.step(cx)
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.0.unmap(cx, lnum)?;
        self.step(cx)
    }

    fn erase(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.0.erase(cx, lnum)?;
        self.step(cx)
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.0.is_mapped(lnum)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        self.0.sync(cx)
    }
}
