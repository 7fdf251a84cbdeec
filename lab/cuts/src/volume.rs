//! A volume of UBI on a tape, which a file system or a ubiblock has for itself.

use nand::{ArrayConfig, Bytes};
use sim::seam::FsError;
use sim::{Cx, VolId};
use ubi::block::{Backing, OnUbi};
use ubi::{Config, Ubi, VolumeRequest, VolumeSize};

use super::check::{Broken, Check, verdict};
use super::tape::Tape;

/// The volume.
pub(super) type Volume = OnUbi<Tape>;

/// Name of the volume.
const VOLUME: &str = "fs";

/// Formats an erased flash and makes the volume, of so many LEBs.
/// Errors: UBI refuses it.
pub(super) fn made(array: &ArrayConfig, ubi: &Config, lebs: u32, cx: &mut Cx) -> Result<Volume, String> {
    let tape = Tape::new(array, Bytes::new());
    let mut ubi = Ubi::attach(tape, cx, ubi).map_err(|failure| failure.error.to_string())?;
    ubi.flush(cx).map_err(|error| error.to_string())?;
    let request = VolumeRequest::dynamic(VOLUME, VolumeSize::Lebs(lebs));
    let vol_id = ubi.create_volume(cx, &request).map_err(|error| error.to_string())?;
    OnUbi::open(ubi, cx, vol_id).map_err(|failure| failure.error.to_string())
}

/// Attaches what is on the flash, and opens the volume.
/// Errors: UBI refuses it.
pub(super) fn opened(tape: Tape, ubi: &Config, cx: &mut Cx) -> Result<Volume, String> {
    let ubi = Ubi::attach(tape, cx, ubi).map_err(|failure| format!("UBI cannot be attached: {}", failure.error))?;
    OnUbi::open(ubi, cx, VolId(0)).map_err(|failure| format!("the volume cannot be opened: {}", failure.error))
}

/// Detaches UBI. Errors: that fails, or power was lost.
pub(super) fn closed(volume: Volume, cx: &mut Cx) -> Result<Tape, Unclosed> {
    let (tape, detached) = volume.into_ubi().detach(cx);
    match detached {
        Ok(()) => Ok(tape),
        Err(_) if tape.array.is_powered() => Err(Unclosed::Refused),
        Err(_) => Err(Unclosed::Power),
    }
}

/// Why UBI was not detached.
pub(super) enum Unclosed {
    Power,
    Refused,
}

/// Does what UBI has to do in the background.
pub(super) fn background(volume: &mut Volume, cx: &mut Cx) -> Result<(), FsError> {
    for _ in 0..volume.background_works() {
        volume.step_background(cx).map_err(FsError::Medium)?;
    }
    Ok(())
}

/// Checks what UBI promises of itself. Errors: promises that are broken.
pub(super) fn whole(volume: &Volume) -> Result<(), Broken> {
    let ubi = volume.ubi();
    ubi.check();
    let mut broken = Broken::new();
    if let Some(why) = ubi.read_only() {
        broken.push(Check::Writable.broken(format!("UBI is read-only: {why}")));
    }
    let pebs = ubi.layout().pebs;
    if ubi.good_pebs() != pebs {
        broken.push(Check::Blocks.broken(format!("{} of {pebs} PEBs are good", ubi.good_pebs())));
    }
    verdict(broken)
}
