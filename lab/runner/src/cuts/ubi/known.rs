//! What was compared before the cut: a block that nothing wrote since need not be read again.
//!
//! A clone of the flash shares its blocks with the original until one of the two writes them ([`Bytes::shares`]), so "the
//! same memory" means "the same cells"; an operation that a cut tears writes too. On a device whose reads may fail nothing is known.

use nand::{Array, Bytes};
use sim::Peb;
use ubi::Ubi;
use ubi::layout::Layout;
use ubi::media::{EcHdr, VidHdr, VolType, crc, is_erased};
use ubi::wl::Owner;

use super::model::{State, World};
use super::rig::holds_a_leb;
use super::workload::Content;
use crate::cuts::tape::Tape;

/// A block that holds a LEB, as the model has it.
#[derive(Clone)]
struct Held {
    owner: Owner,
    content: Content,
}

/// Blocks whose cells were compared with the model, and what they hold.
#[derive(Clone, Default)]
pub(super) struct Known {
    cells: Bytes,
    held: Vec<Option<Held>>,
    /// The counter in each block's EC header.
    counters: Vec<Option<u32>>,
}

impl Known {
    /// Compares the blocks of `ubi` with `world`; those that `earlier` knows, and nobody wrote since, are not read.
    pub fn of(ubi: &Ubi<Tape>, world: &World, earlier: &Known) -> Known {
        let tape = ubi.flash();
        let pebs = (0..ubi.layout().pebs).map(Peb);
        let counters = pebs.clone().map(|peb| earlier.counter(tape, peb)).collect();
        let mut buffer = vec![0; ubi.layout().leb_bytes as usize];
        let mut held = |peb| {
            if tape.array.has_faults() || !holds_a_leb(ubi, peb) {
                return None;
            }
            let owner = ubi.wear().owner(peb);
            let vol = world.volumes.get(&owner.vol_id.0)?;
            let State::Mapped(content) = &vol.lebs.get(owner.lnum.at())?.state else { return None };
            if earlier.holds(&tape.array, peb, owner, content) {
                return Some(Held { owner, content: content.clone() });
            }
            let holds = holds(tape, ubi.layout(), peb, vol.kind, content, &mut buffer);
            holds.then(|| Held { owner, content: content.clone() })
        };
        let held = pebs.map(&mut held).collect();
        Known { cells: tape.array.store().clone(), held, counters }
    }

    /// Whether `peb` is known to hold `content` of the LEB, and nothing else.
    pub fn holds(&self, array: &Array<Bytes>, peb: Peb, owner: Owner, content: &Content) -> bool {
        let Some(Some(held)) = self.held.get(peb.at()) else { return false };
        held.owner == owner && Content::ptr_eq(&held.content, content) && array.store().shares(&self.cells, peb)
    }

    /// The erase counter in the header of `peb`; `None` without a valid one.
    pub fn counter(&self, tape: &Tape, peb: Peb) -> Option<u32> {
        if let Some(&counter) = self.counters.get(peb.at())
            && tape.array.store().shares(&self.cells, peb)
        {
            return counter;
        }
        let mut bytes = [0; EcHdr::BYTES];
        tape.cells(peb, 0, &mut bytes);
        EcHdr::decode(&bytes).ok().map(|hdr| hdr.ec as u32)
    }
}

/// Whether the data area of `peb` is `content`, then erased; in a static volume, whether the header has its checksum.
fn holds(tape: &Tape, layout: &Layout, peb: Peb, kind: VolType, content: &[u8], buffer: &mut [u8]) -> bool {
    tape.cells(peb, layout.data_offset, buffer);
    let Some((data, rest)) = buffer.split_at_checked(content.len()) else { return false };
    if data != content || !is_erased(rest) {
        return false;
    }
    let mut hdr = [0; VidHdr::BYTES];
    tape.cells(peb, layout.vid_hdr_offset, &mut hdr);
    kind == VolType::Dynamic
        || VidHdr::decode(&hdr).is_ok_and(|hdr| hdr.data_size as usize == content.len() && hdr.data_crc == crc(content))
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Down, bring_up, perform};
    use super::super::workload::Op;
    use super::*;
    use crate::cuts::Plan;
    use crate::cuts::ubi::UbiPlan;
    use sim::{Lnum, VolId};
    use std::sync::Arc;

    const LEB: Owner = Owner { vol_id: VolId(0), lnum: Lnum(0) };

    fn plan(more: &str) -> UbiPlan {
        let text = format!(
            "title = 't'\n[nand]\npebs = 48\npeb_bytes = 8192\npage_bytes = 512\n[cuts]\noperations = 1\n{more}"
        );
        match Plan::resolve(&text, &[]) {
            Ok(Plan::Ubi(plan)) => *plan,
            other => panic!("{other:?}"),
        }
    }

    fn went(done: Result<Ubi<Tape>, Down>) -> Ubi<Tape> {
        done.unwrap_or_else(|_| panic!("nothing fails here"))
    }

    /// A volume with a LEB that holds some data, its model, and the data.
    fn device(plan: &UbiPlan) -> (Ubi<Tape>, World, Content) {
        let data: Content = Arc::new(vec![0x3c; 1024]);
        let create = Op::Create { vol_id: 0, name: "v".to_owned(), kind: VolType::Dynamic, lebs: 4 };
        let write = Op::Write { vol_id: 0, lnum: 0, offset: 0, data: data.clone() };
        let mut ubi = went(bring_up(plan, &plan.ubi, Tape::new(&plan.array, Bytes::new())));
        let mut world = World::default();
        for op in [create, write] {
            world = world.after(&op, ubi.layout().leb_bytes);
            ubi = went(perform(plan, ubi, &op));
        }
        (ubi, world, data)
    }

    #[test]
    fn a_block_is_known_until_a_cell_of_it_changes() {
        let plan = plan("");
        let (mut ubi, world, data) = device(&plan);
        let known = Known::of(&ubi, &world, &Known::default());
        let peb = ubi.peb_of(LEB.vol_id, LEB.lnum).expect("it was written");
        let holds = |ubi: &Ubi<Tape>, owner, content: &Content| known.holds(&ubi.flash().array, peb, owner, content);
        assert!(holds(&ubi, LEB, &data));
        assert!(!holds(&ubi, Owner { lnum: Lnum(1), ..LEB }, &data), "another LEB");
        let equal = Arc::new(data.to_vec());
        assert!(!holds(&ubi, LEB, &equal), "contents that were never compared");
        let counter = known.counter(ubi.flash(), peb);
        assert!(counter.is_some());
        // Whatever changes a cell: past the contents, in a header, in the contents and back.
        for change in [|cells: &mut [u8]| cells[8191] = 0, |cells: &mut [u8]| cells[600] ^= 1, |_: &mut [u8]| ()] {
            let mut changed = ubi.clone();
            changed.flash_mut().array.tamper(peb, change);
            assert!(!holds(&changed, LEB, &data));
        }
        ubi.flash_mut().array.tamper(peb, |cells| cells[1024 + 1023] ^= 1);
        let again = Known::of(&ubi, &world, &known);
        assert!(!again.holds(&ubi.flash().array, peb, LEB, &data), "contents that differ from the model");
        assert_eq!(again.counter(ubi.flash(), peb), counter);
    }

    #[test]
    fn a_device_whose_reads_may_fail_knows_nothing() {
        let plan = plan("[faults]\nbitflips = 1\necc_bits = 4\n");
        let (ubi, world, data) = device(&plan);
        let known = Known::of(&ubi, &world, &Known::default());
        let peb = ubi.peb_of(LEB.vol_id, LEB.lnum).expect("it was written");
        assert!(!known.holds(&ubi.flash().array, peb, LEB, &data));
    }
}
