//! JFFS2 on the bytes of a NOR or a NAND, or in a volume of UBI, for writing.

use std::path::Path;

use fs::jffs2::media::{Endian, Summary};
use fs::jffs2::{Gluebi, Jffs2, Jffs2Error, Options};
use nand::{Array, ArrayConfig, Mapped};
use sim::seam::{FileSystem, Flash, Geometry, LebVolume, Medium};
use sim::{Cx, Lnum, Peb};

use super::{Base, Became, Request, Serve};
use crate::error::CliError;
use crate::image::{Jffs2Shape, jffs2_refused};
use crate::mount::clock::Clock;
use crate::mount::overlay::Blocks;

/// The flash that the image is of, with as many blocks as were asked for.
/// Errors: an image without room for changes; nothing says whether it is NOR or NAND.
fn geometry(request: &Request<'_>, base: &Base<'_>, shape: &Jffs2Shape) -> Result<Geometry, CliError> {
    let wrong = |what: String, help: &str| Err(CliError::input(base.path, what, help));
    if shape.missing_bytes > 0 {
        let what = format!("the image is cut off: {} bytes of its last node are missing", shape.missing_bytes);
        return wrong(what, "read it again, as a whole");
    }
    let raw = shape.raw_block_bytes;
    let there = u32::try_from(base.bytes.div_ceil(raw)).unwrap_or(u32::MAX);
    let pebs = match request.pebs {
        Some(pebs) if pebs < there => {
            let what = format!("found {pebs}, expected at least the {there} eraseblocks of the image");
            return Err(CliError::input(Path::new("--pebs"), what, "give the eraseblocks of the flash"));
        }
        Some(pebs) if u64::from(pebs) * u64::from(shape.block_bytes) > u32::MAX.into() => {
            let what = format!("found {pebs} of {} bytes, expected less than 4 GiB together", shape.block_bytes);
            return Err(CliError::input(Path::new("--pebs"), what, "JFFS2 has no larger flashes"));
        }
        Some(pebs) => pebs,
        None if !base.bytes.is_multiple_of(raw) => {
            let what = format!(
                "it ends inside eraseblock {}, as mkfs.jffs2 writes it, and has no room for changes",
                there - 1
            );
            return wrong(what, "give the eraseblocks of the flash with --pebs N, or pack it with --pad BYTES");
        }
        None => there,
    };
    let (medium, page_bytes, oob_bytes) = match (shape.oob, request.source.how.overrides().page_bytes) {
        (Some((page_bytes, oob_bytes)), _) => (Medium::Nand, page_bytes, oob_bytes),
        (None, Some(1)) => (Medium::Nor, 1, 0),
        (None, Some(page_bytes)) => (Medium::Nand, page_bytes, 0),
        (None, None) if shape.has_markers => (Medium::Nor, 1, 0),
        (None, None) => {
            let what = "found no clean markers and no OOB: it may be of a NOR or of a NAND".to_owned();
            return wrong(what, "give --page-size, 1 for a NOR");
        }
    };
    Ok(Geometry { medium, pebs, peb_bytes: shape.block_bytes, page_bytes, subpage_bytes: page_bytes, oob_bytes })
}

/// The flash, and its bad blocks. Errors: sizes that no flash has; blocks that are not there; marks that are none.
fn array(
    base: &Base<'_>,
    shape: &Jffs2Shape,
    geometry: Geometry,
    mut bytes: Vec<u8>,
    cx: &mut Cx,
) -> Result<Array<Mapped<Vec<u8>>>, CliError> {
    let sizes = "give --peb-size and --page-size as the data sheet has them";
    let impossible = |error: &dyn std::fmt::Display| CliError::input(base.path, error.to_string(), sizes);
    let config = ArrayConfig::plain(geometry);
    config.validate().map_err(|error| impossible(&error))?;
    let whole = u64::from(geometry.pebs) * shape.raw_block_bytes;
    let missing = usize::try_from(whole).unwrap_or(usize::MAX).saturating_sub(bytes.len());
    if bytes.try_reserve_exact(missing).is_err() {
        let what = format!("{} eraseblocks do not fit into memory", geometry.pebs);
        return Err(CliError::environment(Path::new("--pebs"), what, "give the eraseblocks of the flash"));
    }
    bytes.resize(bytes.len() + missing, 0xff);
    let store = Mapped::new(geometry, bytes, shape.oob.is_some()).map_err(|error| impossible(&error))?;
    let mut array = Array::new(config, store);
    let marked = (0..geometry.pebs).map(Peb).filter(|&peb| array.is_bad(peb)).count();
    if marked > shape.bad.len() {
        let what = format!("{marked} eraseblocks look bad by their OOB, which holds something else");
        return Err(CliError::input(base.path, what, "list the bad ones with --bad-blocks, or remove the OOB"));
    }
    for &block in &shape.bad {
        if block >= geometry.pebs {
            let what = format!("found block {block}, expected less than the {} of the flash", geometry.pebs);
            return Err(CliError::input(Path::new("--bad-blocks"), what, "number eraseblocks from 0"));
        }
        if !array.is_bad(Peb(block)) {
            array.mark_bad(cx, Peb(block)).expect("the array has power and this block");
        }
    }
    Ok(array)
}

/// Errors: not even a deletion finds room.
fn has_room(image: &Path, fs: &Jffs2<impl Flash>, help: &str) -> Result<(), CliError> {
    let (free, levels) = (fs.free_blocks(), fs.levels());
    if free >= levels.write || fs.has_garbage() {
        return Ok(());
    }
    let what = format!("found {free} free eraseblocks: JFFS2 writes with {} or more", levels.write);
    if free < levels.deletion {
        return Err(CliError::input(image, what, help));
    }
    eprintln!("note: {what}, so that files can be removed only; {help}");
    Ok(())
}

/// Mounts JFFS2, calls `serve`, and unmounts.
pub fn on_flash(
    request: &Request<'_>,
    base: &Base<'_>,
    shape: &Jffs2Shape,
    bytes: Vec<u8>,
    cx: &mut Cx,
    serve: Serve<'_>,
) -> Result<Became, CliError> {
    let geometry = geometry(request, base, shape)?;
    let block_bytes = u32::try_from(shape.raw_block_bytes).expect("a block has 16 MiB and its OOB at most");
    let blocks = Blocks { start: 0, bytes: block_bytes, count: geometry.pebs };
    base.has_room(request, &blocks)?;
    if shape.oob.is_some() {
        eprintln!("note: pages that are written anew have an OOB of 0xFF: no ECC is computed");
    }
    let array = array(base, shape, geometry, bytes, cx)?;
    // A kernel that reads summaries must find those of nodes that were marked obsolete in place nowhere.
    let options = Options {
        endian: Some(shape.endian),
        summary: shape.has_summaries,
        verify_summary: true,
        epoch: Clock::SINCE_1970.epoch(),
        ..Options::default()
    };
    let help = "give the eraseblocks of the flash with --pebs N, or pack it with --pad BYTES";
    let mut fs = mounted(base.path, array, cx, options, help)?;
    let served = served(base.path, &mut fs, cx, serve);
    Ok((blocks, fs.into_flash().into_store().into_buffer(), served))
}

/// Errors: it cannot be mounted, for which `help` is where it is too small; nothing can be written.
fn mounted<F: Flash>(image: &Path, flash: F, cx: &mut Cx, options: Options, help: &str) -> Result<Jffs2<F>, CliError> {
    let fs = Jffs2::mount(flash, cx, options).map_err(|error| match error {
        Jffs2Error::Geometry { .. } => CliError::input(image, error.to_string(), help),
        error => jffs2_refused(image, &error),
    })?;
    has_room(image, &fs, help)?;
    Ok(fs)
}

/// Calls `serve`, and unmounts.
fn served(image: &Path, fs: &mut Jffs2<impl Flash>, cx: &mut Cx, serve: Serve<'_>) -> Result<(), CliError> {
    let served = serve(fs, cx);
    let unmounted = fs.sync(cx).map_err(|error| {
        let help = "the flash is written back as after a power cut; `nandlab image check` lists what is damaged";
        CliError::environment(image, format!("cannot be unmounted cleanly: {error}"), help)
    });
    served.and(unmounted)
}

/// Whether a LEB ends with a summary, in either byte order.
fn has_summaries(volume: &mut impl LebVolume, cx: &mut Cx) -> bool {
    let leb_bytes = volume.leb_bytes();
    let mut tail = [0; Summary::TAIL_BYTES];
    let Some(at) = leb_bytes.checked_sub(tail.len() as u32) else { return false };
    (0..volume.lebs()).any(|lnum| {
        let is_read = volume.read(cx, Lnum(lnum), at, &mut tail).is_ok();
        let is_summary = |endian| Summary::offset(endian, &tail, leb_bytes).is_some();
        is_read && (is_summary(Endian::Little) || is_summary(Endian::Big))
    })
}

/// Mounts JFFS2 in `volume`, calls `serve`, and unmounts.
/// Errors: it cannot be mounted or unmounted; those of `serve`.
pub fn on_volume(image: &Path, mut volume: impl LebVolume, cx: &mut Cx, serve: Serve<'_>) -> Result<(), CliError> {
    let summary = has_summaries(&mut volume, cx);
    let epoch = Clock::SINCE_1970.epoch();
    let options = Options { summary, verify_summary: true, epoch, ..Options::default() };
    let help = "make a larger volume with `ubinize`, or with `vol_flags=autoresize` and --pebs N";
    let mut fs = mounted(image, Gluebi::new(volume), cx, options, help)?;
    served(image, &mut fs, cx, serve)
}
