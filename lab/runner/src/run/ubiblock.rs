//! A run on a ubiblock: formats the flash and makes the volume, runs the load, closes the device and detaches UBI.
//!
//! The last close, and UBI's background work after it, are the debt of the run; they and the fastmap of the detach are in
//! no other figure.

use nand::{AnyStore, Array, Bytes, Store, Tags};
use sim::seam::LebVolume;
use sim::{Cx, Lnum, Seed};

use super::bench::{Bench, Ran};
use super::guest;
use super::put::Source;
use super::{DriveRunError, Reports};
use crate::measure::Measured;
use crate::measure::outcome::drive::{Before, Status};
use crate::schema::Experiment;
use crate::subject::{Load, Ubiblock, faults};

/// A run of a load on a ubiblock.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    /// The resolved experiment.
    pub experiment: &'a Experiment,
    /// The built subject.
    pub subject: &'a Ubiblock,
    /// The built load.
    pub load: &'a Load,
}

impl Run<'_> {
    /// Runs the load. `source` is what a load needs from outside.
    /// Errors: [`DriveRunError`].
    pub fn go(&self, source: Source<'_, '_>, reports: Reports<'_>) -> Result<Measured, DriveRunError> {
        // Faults of reads need bytes that are read, as on raw flash.
        if (self.load.is_from_outside() && !source.is_log()) || faults::reach_reads(&self.subject.flash.array) {
            return self.go_on(AnyStore::from(Bytes::new()), source, reports).map(|(measured, _)| measured);
        }
        self.go_on(Tags, source, reports).map(|(measured, _)| measured)
    }

    /// As [`go`](Self::go), on a store, which must be erased; also returns the store with the contents at the end.
    /// Errors: as [`go`](Self::go).
    pub fn go_on<S: Store>(
        &self,
        store: S,
        source: Source<'_, '_>,
        reports: Reports<'_>,
    ) -> Result<(Measured, S), DriveRunError> {
        let &Run { experiment, subject, load } = self;
        let facts = subject.facts();
        load.fits(facts.bytes, Seed(experiment.seed))?;
        let image = source.image();
        if let Some(image) = image {
            guest::check_image(experiment, &facts, image)?;
        }
        let mut array = Array::new(subject.flash.array.clone(), store);
        // What comes before the run has gone well, and wears nothing.
        array.suspend_faults(true);
        array.suspend_wear();
        let mut device = subject.make(array, image).map_err(DriveRunError::Ubi)?;
        let mapped = (0..subject.lebs).filter(|&lnum| device.volume().is_mapped(Lnum(lnum))).count() as u64;
        let written = mapped * u64::from(subject.flash.layout.leb_bytes / facts.page_bytes);
        let flash = device.volume_mut().flash_mut();
        flash.wear_from_now_on();
        flash.suspend_faults(false);
        let pages = flash.programmed_bytes().total() / u64::from(facts.page_bytes);
        let before = Before { host_pages: written, pages, ..Before::default() };
        let bench = Bench { experiment, facts: &facts, load, before: &before };
        let Ran { measured, mut device, keep } = bench.run(device, source, reports, |_| Vec::new())?;
        if let Some(keep) = keep.contents {
            let at = device.now();
            guest::contents(&mut device, at, keep)?;
        }
        let done = measured.block().is_some_and(|found| found.status == Status::Done);
        let ubi = device.into_volume().into_ubi();
        let flash = if S::KEEPS_BYTES && done {
            let mut cx = Cx::new();
            let (flash, detached) = ubi.detach(&mut cx);
            detached.map_err(DriveRunError::Ubi)?;
            flash
        } else {
            ubi.into_flash()
        };
        if let Some(keep) = keep.flash {
            guest::dump(&flash, keep);
        }
        Ok((measured, flash.into_store()))
    }
}
