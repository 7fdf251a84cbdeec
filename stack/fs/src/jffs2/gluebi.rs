//! A volume of UBI as a flash: its LEBs are eraseblocks that never wear and are never bad. So JFFS2 is on UBI in Linux.
//!
//! A write goes to its LEB, an erasure unmaps the LEB and waits until what it had is gone. There is no OOB, so that clean
//! markers are nowhere: an unmapped LEB reads 0xFF. Faults of the flash are UBI's: it moves what a failed program was to
//! write, and retires blocks.
//!
//! Source: Linux 6.12, `drivers/mtd/ubi/gluebi.c`, and `jffs2_ubivol_setup` in `fs/jffs2/wbuf.c`.

use sim::seam::{Flash, FlashError, Geometry, LebError, LebVolume, Medium, Payload, ReadStatus};
use sim::{Cx, Lnum, Peb};

/// A volume as a flash.
#[derive(Clone, Debug)]
pub struct Gluebi<V> {
    volume: V,
    geometry: Geometry,
}

impl<V: LebVolume> Gluebi<V> {
    /// All of a volume.
    pub fn new(volume: V) -> Gluebi<V> {
        let page_bytes = volume.min_io_bytes();
        let geometry = Geometry {
            // Nothing is written twice, whatever is below.
            medium: Medium::Nand,
            pebs: volume.lebs(),
            peb_bytes: volume.leb_bytes(),
            page_bytes,
            subpage_bytes: page_bytes,
            oob_bytes: 0,
        };
        Gluebi { volume, geometry }
    }

    /// The volume.
    pub fn volume(&self) -> &V {
        &self.volume
    }

    /// The volume, for changes that the file system knows nothing of.
    pub fn volume_mut(&mut self) -> &mut V {
        &mut self.volume
    }

    /// Gives the volume back.
    pub fn into_volume(self) -> V {
        self.volume
    }
}

/// An error of the volume as one of a flash.
fn flash(error: LebError) -> FlashError {
    match error {
        LebError::Flash(error) => error,
        other => FlashError::Volume(Box::new(other)),
    }
}

impl<V: LebVolume> Flash for Gluebi<V> {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.volume.read(cx, Lnum(peb.0), offset, buf).map_err(flash)?;
        Ok(ReadStatus::default())
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.volume.write(cx, Lnum(peb.0), offset, data).map_err(flash)
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.volume.erase(cx, Lnum(peb.0)).map_err(flash)
    }

    fn is_bad(&self, _: Peb) -> bool {
        false
    }

    /// Nothing: there are no bad LEBs.
    fn mark_bad(&mut self, _: &mut Cx, _: Peb) -> Result<(), FlashError> {
        Ok(())
    }
}
