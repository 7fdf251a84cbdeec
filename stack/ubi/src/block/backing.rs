//! What a ubiblock stands on: a volume, together with the device that has it.
//!
//! A `Volume` is a handle that borrows its `Ubi`, as a file system borrows it for one operation. A block device lives
//! longer: between two requests the background thread erases, and that is the device's work, not the volume's. So a
//! ubiblock owns a [`Backing`]: the seam `LebVolume`, what the seam cannot say of a volume, and one step of the
//! background. [`OnUbi`] is UBI with the number of a volume; `RamVolume` is the oracle, which has no background.

use sim::seam::{Flash, LebError, LebVolume, Payload, RamVolume};
use sim::{Cx, Lnum, VolId};

use crate::device::{KnownBad, Ubi};
use crate::error::UbiError;
use crate::media::VolType;
use crate::volume::Volume;

/// A volume that a ubiblock owns.
pub trait Backing: LebVolume {
    /// [`LebVolume::keeps_bytes`], as a constant.
    const KEEPS_BYTES: bool;

    /// Bytes of the volume's data: of a static volume those of its last update.
    fn data_bytes(&self) -> u64 {
        u64::from(self.lebs()) * u64::from(self.leb_bytes())
    }

    /// Why the volume's LEBs cannot be written; `None` if they can.
    fn read_only(&self) -> Option<&'static str> {
        None
    }

    /// Works that the background has to do, 0 for none: an upper bound of those that follow from them included, if the
    /// background is stable.
    fn background_works(&self) -> u64 {
        0
    }

    /// Does one work of the background.
    /// Errors: faults of the flash. After `PowerLost` nothing works.
    fn step_background(&mut self, _cx: &mut Cx) -> Result<(), LebError> {
        Ok(())
    }
}

impl Backing for RamVolume {
    const KEEPS_BYTES: bool = true;
}

/// A volume and the attached device that has it.
#[derive(Clone, Debug)]
pub struct OnUbi<F> {
    ubi: Ubi<F>,
    vol_id: VolId,
}

/// A volume that could not be opened, with the reason.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct OpenFailure<F> {
    /// The device, still attached.
    pub ubi: Ubi<F>,
    /// Why the volume could not be opened.
    pub error: UbiError,
}

impl<F: Flash> OnUbi<F> {
    /// Opens a volume. A static volume not checked since attach is checked, unless its flags skip the check.
    /// Errors: no such volume; its update was interrupted; faults of the flash. The failure also returns the device.
    pub fn open(mut ubi: Ubi<F>, cx: &mut Cx, vol_id: VolId) -> Result<OnUbi<F>, Box<OpenFailure<F>>> {
        let opened = ubi.open_volume(cx, vol_id).map(drop).and_then(|()| match ubi.state(vol_id)?.record.upd_marker {
            true => Err(LebError::Updating { lnum: Lnum(0) }.into()),
            false => Ok(()),
        });
        match opened {
            Ok(()) => Ok(OnUbi { ubi, vol_id }),
            Err(error) => Err(Box::new(OpenFailure { ubi, error })),
        }
    }

    /// The device.
    pub fn ubi(&self) -> &Ubi<F> {
        &self.ubi
    }

    /// The device, to record what it is asked for.
    pub fn ubi_mut(&mut self) -> &mut Ubi<F> {
        &mut self.ubi
    }

    /// The flash, to inject faults while the device runs.
    pub fn flash_mut(&mut self) -> &mut F {
        self.ubi.flash_mut()
    }

    /// Enables deliberate mistakes of UBI. Only for testing tests.
    pub fn set_known_bad(&mut self, known_bad: KnownBad) {
        self.ubi.set_known_bad(known_bad);
    }

    /// Gives the device back.
    pub fn into_ubi(self) -> Ubi<F> {
        self.ubi
    }

    fn volume(&mut self) -> Volume<'_, F> {
        self.ubi.volume(self.vol_id).expect("volumes are neither made nor removed while one is open here")
    }

    fn state(&self) -> &crate::device::VolumeState {
        self.ubi.state(self.vol_id).expect("volumes are neither made nor removed while one is open here")
    }
}

impl<F: Flash> LebVolume for OnUbi<F> {
    fn keeps_bytes() -> bool {
        F::KEEPS_BYTES
    }

    fn lebs(&self) -> u32 {
        self.state().record.reserved_pebs
    }

    fn leb_bytes(&self) -> u32 {
        self.state().leb_bytes
    }

    fn min_io_bytes(&self) -> u32 {
        self.ubi.layout().min_io_bytes
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.volume().read(cx, lnum, offset, buf)
    }

    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        self.volume().write(cx, lnum, offset, data)
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.volume().change(cx, lnum, data)
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.volume().map(cx, lnum)
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.volume().unmap(cx, lnum)
    }

    fn erase(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.volume().erase(cx, lnum)
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.state().eba.get(lnum.at()).is_some_and(|&peb| peb != crate::media::UNMAPPED)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        self.volume().sync(cx)
    }
}

impl<F: Flash> Backing for OnUbi<F> {
    const KEEPS_BYTES: bool = F::KEEPS_BYTES;

    fn data_bytes(&self) -> u64 {
        let volume = self.state();
        let leb_bytes = u64::from(volume.leb_bytes);
        match volume.record.vol_type {
            VolType::Dynamic => u64::from(volume.record.reserved_pebs) * leb_bytes,
            VolType::Static if volume.used_ebs == 0 => 0,
            VolType::Static => u64::from(volume.used_ebs - 1) * leb_bytes + u64::from(volume.last_eb_bytes),
        }
    }

    fn read_only(&self) -> Option<&'static str> {
        (self.state().record.vol_type == VolType::Static).then_some("a static volume is written by updates only")
    }

    fn background_works(&self) -> u64 {
        if !self.ubi.has_background_work() {
            return 0;
        }
        // The limit of `Ubi::flush`: levelling can feed itself, works that follow from others do not exceed it.
        2 * (self.ubi.wear().works().len() as u64 + u64::from(self.ubi.layout().pebs))
    }

    fn step_background(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        self.ubi.step_background(cx).map(drop).map_err(|error| error.at(Lnum(0)))
    }
}
