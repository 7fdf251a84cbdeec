//! What JFFS2 is on: the flash itself, or a volume of UBI, whose thread works beside it.

use fs::jffs2::Gluebi;
use nand::{Array, Store};
use sim::seam::Flash;
use sim::{CauseCounts, Cx, Flame, Ns, VolId};
use ubi::block::OnUbi;
use ubi::{Ubi, UbiError};

use super::beside::Beside;
use crate::run::flash::{FlashRunError, detached};

/// What the file system takes for a flash.
pub(in crate::run) trait Ground: Flash + Sized {
    /// Where the flash keeps its bytes.
    type S: Store;

    /// The flash at the bottom.
    fn array(&self) -> &Array<Self::S>;

    /// The flash at the bottom, for its power.
    fn array_mut(&mut self) -> &mut Array<Self::S>;

    /// UBI, if it is between.
    fn ubi(&self) -> Option<&Ubi<Array<Self::S>>>;

    /// The same, to record what it is asked for.
    fn ubi_mut(&mut self) -> Option<&mut Ubi<Array<Self::S>>>;

    /// Bytes written to LEBs, by cause.
    fn written(&self) -> CauseCounts;

    /// Lets UBI's thread do what it ends up to `now`.
    /// Errors: those of UBI.
    fn run_until(&mut self, now: Ns) -> Result<(), UbiError>;

    /// What there is after a restart: UBI attaches anew. `is_clean`: it was detached before.
    /// Errors: those of UBI.
    fn again(self, cx: &mut Cx, ubi: &ubi::Config, is_clean: bool) -> Result<Self, FlashRunError>;

    /// Records from now on where the time of UBI's thread goes.
    fn record(&mut self);

    /// Ends the record, if there is one.
    fn stop_recording(&mut self) -> Option<Flame>;

    /// Returns the flash, with a last fastmap if its contents are kept.
    /// Errors: those of UBI.
    fn into_array(self, cx: &mut Cx, keeps: bool) -> Result<Array<Self::S>, FlashRunError>;
}

impl<S: Store> Ground for Array<S> {
    type S = S;

    fn array(&self) -> &Array<S> {
        self
    }

    fn array_mut(&mut self) -> &mut Array<S> {
        self
    }

    fn ubi(&self) -> Option<&Ubi<Array<S>>> {
        None
    }

    fn ubi_mut(&mut self) -> Option<&mut Ubi<Array<S>>> {
        None
    }

    fn written(&self) -> CauseCounts {
        CauseCounts::default()
    }

    fn run_until(&mut self, _: Ns) -> Result<(), UbiError> {
        Ok(())
    }

    fn again(self, _: &mut Cx, _: &ubi::Config, _: bool) -> Result<Array<S>, FlashRunError> {
        Ok(self)
    }

    fn record(&mut self) {}

    fn stop_recording(&mut self) -> Option<Flame> {
        None
    }

    fn into_array(self, _: &mut Cx, _: bool) -> Result<Array<S>, FlashRunError> {
        Ok(self)
    }
}

impl<S: Store> Ground for Gluebi<Beside<S>> {
    type S = S;

    fn array(&self) -> &Array<S> {
        self.volume().ubi().flash()
    }

    fn array_mut(&mut self) -> &mut Array<S> {
        self.volume_mut().flash_mut()
    }

    fn ubi(&self) -> Option<&Ubi<Array<S>>> {
        Some(self.volume().ubi())
    }

    fn ubi_mut(&mut self) -> Option<&mut Ubi<Array<S>>> {
        Some(self.volume_mut().ubi_mut())
    }

    fn written(&self) -> CauseCounts {
        self.volume().written()
    }

    fn run_until(&mut self, now: Ns) -> Result<(), UbiError> {
        self.volume_mut().run_until(now)
    }

    fn again(self, cx: &mut Cx, ubi: &ubi::Config, is_clean: bool) -> Result<Self, FlashRunError> {
        let (mut device, thread, may_fail) = self.into_volume().into_parts();
        let record = device.take_record();
        let array = detached(device, cx, is_clean)?;
        let mut device = Ubi::attach(array, cx, ubi).map_err(|failure| failure.error)?;
        device.set_record(record);
        let volume = OnUbi::open(device, cx, VOLUME).map_err(|failure| failure.error)?;
        Ok(Gluebi::new(Beside::new(volume, thread, may_fail)))
    }

    fn record(&mut self) {
        self.volume_mut().thread_mut().record();
    }

    fn stop_recording(&mut self) -> Option<Flame> {
        self.volume_mut().thread_mut().stop_recording()
    }

    fn into_array(self, cx: &mut Cx, keeps: bool) -> Result<Array<S>, FlashRunError> {
        detached(self.into_volume().into_ubi(), cx, keeps)
    }
}

/// Number of the volume: it is the only one.
const VOLUME: VolId = VolId(0);
