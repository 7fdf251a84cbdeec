//! The contents of a volume, LEB by LEB.

use std::borrow::Cow;

use sim::{Lnum, VolId};

use super::scan::{Scan, Volume};
use crate::media::VolType;

/// Why a volume has no contents to give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentsError {
    /// No such volume.
    #[error("volume {id}: not in the image")]
    NoSuchVolume {
        /// Its number.
        id: VolId,
    },
    /// LEBs of a static volume are gone: what is left cannot be put together.
    #[error("volume {id} is static and LEB {lnum} is missing, expected LEBs 0 to {last}")]
    LebMissing {
        /// The volume.
        id: VolId,
        /// The first LEB that is missing.
        lnum: Lnum,
        /// The last LEB.
        last: u32,
    },
    /// The data of a static volume's LEB are broken.
    #[error("volume {id} is static and the data of LEB {lnum} (PEB {peb}) do not match their CRC")]
    DataCrc {
        /// The volume.
        id: VolId,
        /// The LEB.
        lnum: Lnum,
        /// Where it is.
        peb: sim::Peb,
    },
}

/// What can be read of a volume: whole LEBs of a dynamic one up to the last that is mapped, exactly `data_bytes` of a
/// static one.
pub struct Contents<'s, 'a> {
    scan: &'s Scan<'a>,
    volume: Volume,
    /// LEBs to give.
    lebs: u32,
}

impl<'a> Scan<'a> {
    /// The contents of volume `id`.
    /// Errors: no such volume; a static one that lacks LEBs or whose data do not match their checksums, unless
    /// `damaged` says to give what there is.
    pub fn contents(&self, id: VolId, damaged: bool) -> Result<Contents<'_, 'a>, ContentsError> {
        let volume = self.volumes().into_iter().find(|volume| volume.id == id);
        let volume = volume.ok_or(ContentsError::NoSuchVolume { id })?;
        let lebs = volume.last.map_or(0, |last| last.0 + 1);
        if volume.vol_type == VolType::Static && !damaged {
            self.is_whole(&volume)?;
        }
        Ok(Contents { scan: self, volume, lebs })
    }

    fn is_whole(&self, volume: &Volume) -> Result<(), ContentsError> {
        let id = volume.id;
        let mut next = 0;
        let missing =
            |lnum| ContentsError::LebMissing { id, lnum: Lnum(lnum), last: volume.used_ebs.saturating_sub(1) };
        for (lnum, leb) in self.lebs_of(id).take_while(|(lnum, _)| lnum.0 < volume.used_ebs) {
            if lnum.0 != next {
                return Err(missing(next));
            }
            if !self.data_crc_matches(leb.peb, &leb.vid) {
                return Err(ContentsError::DataCrc { id, lnum, peb: leb.peb });
            }
            next += 1;
        }
        if next < volume.used_ebs { Err(missing(next)) } else { Ok(()) }
    }
}

impl<'a> Contents<'_, 'a> {
    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// How many bytes [`Contents::lebs`] gives in all.
    pub fn bytes(&self) -> u64 {
        self.volume.data_bytes
    }

    /// Each LEB's bytes in order; `None` for an unmapped one, which reads as [`Volume::usable_leb_bytes`] of 0xFF.
    pub fn lebs(&self) -> impl Iterator<Item = Option<Cow<'a, [u8]>>> {
        let usable = self.volume.usable_leb_bytes as usize;
        (0..self.lebs).map(move |lnum| {
            let leb = self.scan.lebs().get(&(self.volume.id, Lnum(lnum)))?;
            let is_static_tail = self.volume.vol_type == VolType::Static && lnum + 1 == self.lebs;
            let len = if is_static_tail { usable.min(leb.vid.data_size as usize) } else { usable };
            Some(match self.scan.data(leb.peb) {
                Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..len]),
                Cow::Owned(mut bytes) => {
                    bytes.truncate(len);
                    Cow::Owned(bytes)
                }
            })
        })
    }
}
