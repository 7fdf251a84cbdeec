//! Claims of PEBs to LEBs, and which of two claims to a LEB wins.
//!
//! A VID header claims a LEB for its PEB. The higher sequence number is newer and wins, unless it is a copy torn by a
//! power cut: then the original wins. The loser is to be erased.

use sim::seam::Flash;
use sim::{Lnum, Peb, VolId};

use super::reader::{CopyState, Reader};
use super::{AttachError, PebFate};
use crate::media::VidHdr;

/// To be erased without a torture test.
pub(super) const ERASE: PebFate = PebFate::Erase { torture: false };

/// A PEB and its VID header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) peb: Peb,
    pub(super) hdr: VidHdr,
    /// Whether a read of its headers needed correction.
    pub(super) scrub: bool,
}

/// Claims in the order in which they were found, with an index by PEB.
pub(super) struct Claims {
    list: Vec<Claim>,
    at: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Claims {
    /// No claims, with room for `room` of PEBs `0..pebs`.
    pub(super) fn new(pebs: u32, room: usize) -> Claims {
        Claims { list: Vec::with_capacity(room), at: vec![NONE; pebs as usize] }
    }

    pub(super) fn push(&mut self, claim: Claim) {
        self.at[claim.peb.at()] = self.list.len() as u32;
        self.list.push(claim);
    }

    pub(super) fn all(&self) -> &[Claim] {
        &self.list
    }

    /// The claim of `peb`; `None` for a PEB known from the fastmap only.
    pub(super) fn of(&self, peb: Peb) -> Option<&Claim> {
        self.list.get(self.at[peb.at()] as usize)
    }
}

/// Resolves `new` against the present holder of `slot`, its LEB, and sets the fates of both.
///
/// A holder without a claim is known from the fastmap, which is older than everything found in a pool. Its header need
/// not be read.
/// Errors: faults of the flash; two claims with the same sequence number.
pub(super) fn contest<F: Flash>(
    reader: &mut Reader<'_, F>,
    claims: &Claims,
    new: &Claim,
    slot: &mut Option<Peb>,
    fates: &mut [PebFate],
) -> Result<(), AttachError> {
    let hdr = &new.hdr;
    let used = |scrub| PebFate::Used { vol_id: VolId(hdr.vol_id), lnum: Lnum(hdr.lnum), scrub };
    let Some(held) = *slot else {
        *slot = Some(new.peb);
        fates[new.peb.at()] = used(new.scrub);
        return Ok(());
    };
    let old = claims.of(held);
    let newer = match old {
        Some(old) if old.hdr.sqnum == hdr.sqnum => {
            let (vol_id, lnum) = (VolId(hdr.vol_id), Lnum(hdr.lnum));
            return Err(AttachError::SameSqnum { a: held, b: new.peb, vol_id, lnum, sqnum: hdr.sqnum });
        }
        Some(old) if old.hdr.sqnum > hdr.sqnum => old,
        _ => new,
    };
    let state = match newer.hdr.copy_flag {
        true => reader.copy_state(newer.peb, &newer.hdr)?,
        false => CopyState::Whole { tired: false },
    };
    let newer_wins = state != CopyState::Torn;
    if newer_wins == (newer.peb == new.peb) {
        *slot = Some(new.peb);
        fates[held.at()] = ERASE;
        fates[new.peb.at()] = used(new.scrub);
    } else {
        fates[new.peb.at()] = ERASE;
    }
    if let (CopyState::Whole { tired: true }, Some(PebFate::Used { scrub, .. })) =
        (state, fates.get_mut(newer.peb.at()))
    {
        *scrub = true;
    }
    Ok(())
}
