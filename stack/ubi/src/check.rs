//! The device's invariants: on attach always, and after each operation in tests.

use sim::seam::Flash;
use sim::{Lnum, Peb, VolId};

use crate::device::{EBA_RESERVED_PEBS, Ubi, WL_RESERVED_PEBS};
use crate::media::{LAYOUT_LEBS, LAYOUT_VOLUME_ID, UNMAPPED};
use crate::wl::{Owner, PebState};

impl<F: Flash> Ubi<F> {
    /// Checks the invariants: every PEB is in one place, every mapped LEB has one PEB whose owner it is, every PEB that
    /// holds a LEB is the one in its LEB's table, and reserved and available PEBs add up. Panics otherwise.
    pub fn check(&self) {
        self.wear.check();
        let mut holds = vec![false; self.layout.pebs as usize];
        let mut claim = |owner: Owner, peb: u32| {
            if peb == UNMAPPED {
                return;
            }
            let peb = Peb(peb);
            assert!(!std::mem::replace(&mut holds[peb.at()], true), "PEB {peb} holds two LEBs");
            assert_eq!(self.wear.owner(peb), owner, "PEB {peb} does not know its LEB");
            let state = self.wear.state(peb);
            let holding = matches!(state, PebState::Protected | PebState::Used | PebState::Scrub | PebState::Erroneous);
            assert!(holding, "PEB {peb} holds {owner:?} and is {state:?}");
        };
        for (lnum, &peb) in (0..).zip(&self.layout_eba) {
            claim(Owner { vol_id: VolId(LAYOUT_VOLUME_ID), lnum: Lnum(lnum) }, peb);
        }
        let mut reserved = 0;
        for (slot, volume) in (0..).zip(&self.volumes) {
            let Some(volume) = volume else { continue };
            assert_eq!(volume.eba.len() as u32, volume.record.reserved_pebs, "volume {slot}: size of its map");
            reserved += volume.record.reserved_pebs;
            for (lnum, &peb) in (0..).zip(&volume.eba) {
                claim(Owner { vol_id: VolId(slot), lnum: Lnum(lnum) }, peb);
            }
        }
        let mut fastmap = 0;
        for (i, &held) in holds.iter().enumerate() {
            let state = self.wear.state(Peb(i as u32));
            fastmap += usize::from(state == PebState::Fastmap);
            let holding = matches!(state, PebState::Protected | PebState::Used | PebState::Scrub | PebState::Erroneous);
            assert_eq!(holding, held, "PEB {i} is {state:?}, and a LEB naming it: {held}");
        }
        for &peb in &self.fastmap {
            assert_eq!(self.wear.state(peb), PebState::Fastmap, "PEB {peb} is a block of the fastmap");
        }
        assert_eq!(fastmap, self.fastmap.len(), "PEBs in the state of a fastmap block");
        let booked = LAYOUT_LEBS
            + reserved
            + WL_RESERVED_PEBS
            + EBA_RESERVED_PEBS
            + 2 * self.fastmap_blocks
            + self.fastmap_room
            + self.pools_reserved
            + self.beb_reserved
            + self.available_pebs
            + self.kept_pebs;
        assert_eq!(booked, self.good_pebs, "reserved and available PEBs");
    }
}
