//! State of each PEB in sixteen bytes, so that its whole life cycle touches one cache line here.

use sim::{EraseCount, Lnum, VolId};

use super::{Owner, PebState};
use crate::media::LAYOUT_VOLUME_ID;

/// State of one PEB.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Record {
    pub ec: EraseCount,
    lnum: Lnum,
    /// Its entry in the protection queue, if it is there.
    pub protection: u32,
    volume: Volume,
    pub state: PebState,
}

const _: () = assert!(size_of::<Record>() == 16);

/// A volume number in two bytes: internal volumes have numbers far above those of user volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Volume(u16);

impl Volume {
    const NONE: Volume = Volume(u16::MAX);
    const LAYOUT: Volume = Volume(u16::MAX - 1);
}

const NOBODY: Owner = Owner { vol_id: VolId(u32::MAX), lnum: Lnum(u32::MAX) };

impl Record {
    /// Waits for its first erasure, holds nothing.
    pub const BLANK: Record =
        Record { ec: EraseCount(0), lnum: NOBODY.lnum, protection: 0, volume: Volume::NONE, state: PebState::Erasing };

    #[inline]
    pub fn owner(&self) -> Owner {
        let vol_id = match self.volume {
            Volume::NONE => NOBODY.vol_id,
            Volume::LAYOUT => VolId(LAYOUT_VOLUME_ID),
            Volume(user) => VolId(u32::from(user)),
        };
        Owner { vol_id, lnum: self.lnum }
    }

    #[inline]
    pub fn set_owner(&mut self, owner: Owner) {
        self.lnum = owner.lnum;
        self.volume = match owner.vol_id {
            VolId(LAYOUT_VOLUME_ID) => Volume::LAYOUT,
            vol_id if vol_id == NOBODY.vol_id => Volume::NONE,
            VolId(user) => {
                assert!(user < u32::from(Volume::LAYOUT.0), "volume {user} is beyond the volume table");
                Volume(user as u16)
            }
        };
    }
}

/// Erase counts of all PEBs, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub struct EraseCounts<'a>(pub(super) &'a [Record]);

impl<'a> EraseCounts<'a> {
    /// The erase counts, PEB by PEB.
    pub fn iter(self) -> EraseCountsIter<'a> {
        EraseCountsIter(self.0.iter())
    }

    /// The erase counts in a vector.
    pub fn to_vec(self) -> Vec<EraseCount> {
        self.iter().copied().collect()
    }
}

impl<'a> IntoIterator for EraseCounts<'a> {
    type Item = &'a EraseCount;
    type IntoIter = EraseCountsIter<'a>;

    fn into_iter(self) -> EraseCountsIter<'a> {
        self.iter()
    }
}

/// Iterator over [`EraseCounts`].
#[derive(Clone, Debug)]
pub struct EraseCountsIter<'a>(std::slice::Iter<'a, Record>);

impl<'a> Iterator for EraseCountsIter<'a> {
    type Item = &'a EraseCount;

    fn next(&mut self) -> Option<&'a EraseCount> {
        self.0.next().map(|record| &record.ec)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_comes_back_whole() {
        let mut record = Record::BLANK;
        assert_eq!(record.owner(), NOBODY);
        for vol_id in [0, 1, 127, LAYOUT_VOLUME_ID, u32::MAX].map(VolId) {
            let owner = Owner { vol_id, lnum: Lnum(vol_id.0 / 2) };
            record.set_owner(owner);
            assert_eq!(record.owner(), owner);
        }
    }
}
