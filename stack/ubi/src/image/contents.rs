//! The contents of a volume, LEB by LEB.

use std::borrow::Cow;

use sim::{Lnum, VolId};

use super::scan::{Scan, Volume};
use crate::media::VolType;

/// Why the contents of a volume cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentsError {
    /// There is no such volume.
    #[error("volume {id}: not in the image")]
    NoSuchVolume {
        /// Number of the volume.
        id: VolId,
    },
    /// A LEB of a static volume is missing, so the contents cannot be put together.
    #[error("volume {id} is static and LEB {lnum} is missing, expected LEBs 0 to {last}")]
    LebMissing {
        /// Number of the volume.
        id: VolId,
        /// The first missing LEB.
        lnum: Lnum,
        /// The volume's last LEB.
        last: u32,
    },
    /// The data of a static volume's LEB do not match their checksum.
    #[error("volume {id} is static and the data of LEB {lnum} (PEB {peb}) do not match their CRC")]
    DataCrc {
        /// Number of the volume.
        id: VolId,
        /// Number of the LEB.
        lnum: Lnum,
        /// PEB of the LEB.
        peb: sim::Peb,
    },
}

/// Contents of a volume: of a dynamic one whole LEBs up to the last mapped one, of a static one exactly `data_bytes`.
pub struct Contents<'s, 'a> {
    scan: &'s Scan<'a>,
    volume: Volume,
    /// LEBs to read.
    lebs: u32,
}

impl<'a> Scan<'a> {
    /// Reads the contents of volume `id`.
    /// Errors: no such volume; a static volume that lacks LEBs or whose data do not match their checksums, unless
    /// `damaged` asks for what is left.
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
    /// The volume whose contents these are.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Total length in bytes of [`Contents::lebs`].
    pub fn bytes(&self) -> u64 {
        self.volume.data_bytes
    }

    /// The bytes of each LEB in order; `None` for an unmapped one, which reads as [`Volume::usable_leb_bytes`] of 0xFF.
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
