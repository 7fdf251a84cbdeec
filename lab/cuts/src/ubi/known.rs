//! What was compared before the cut: a block that nothing wrote since need not be read again.
//!
//! A clone of the flash shares its blocks with the original until one of the two writes them ([`Bytes::shares`]), so "the
//! same memory" means "the same cells"; an operation that a cut tears writes too. On a device whose reads may fail nothing is known.

use nand::{Array, Bytes};
use sim::seam::is_erased;
use sim::{Lnum, Peb, VolId};
use ubi::Ubi;
use ubi::attach::Headers;
use ubi::layout::Layout;
use ubi::media::{EcHdr, VidHdr, VolType, crc};
use ubi::wl::Owner;

use super::model::{Leb, State, Vol, World, touches};
use super::rig::holds_a_leb;
use super::workload::{Content, Op};
use crate::tape::Tape;

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
    /// What an attach reads of each block first. None where it may read something else the next time.
    headers: Vec<Option<Headers>>,
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
        let held = pebs.clone().map(&mut held).collect();
        let mut array = None;
        let headers = pebs.map(|peb| match earlier.headers_of(&tape.array, peb) {
            Some(headers) => Some(*headers),
            None if tape.array.has_faults() || tape.array.is_torn(peb) => None,
            None => Headers::read(array.get_or_insert_with(|| tape.array.clone()), ubi.layout(), peb),
        });
        let headers = headers.collect();
        Known { cells: tape.array.store().clone(), held, counters, headers }
    }

    fn headers_of(&self, array: &Array<Bytes>, peb: Peb) -> Option<&Headers> {
        let headers = self.headers.get(peb.at())?.as_ref()?;
        (array.store().shares(&self.cells, peb) && !array.is_torn(peb)).then_some(headers)
    }

    /// By PEB: the headers of a block that nobody wrote since.
    pub fn headers(&self, array: &Array<Bytes>) -> Vec<Option<&Headers>> {
        (0..self.headers.len() as u32).map(|peb| self.headers_of(array, Peb(peb))).collect()
    }

    /// Whether `peb` is known to hold `content` of the LEB, and nothing else.
    pub fn holds(&self, array: &Array<Bytes>, peb: Peb, owner: Owner, content: &Content) -> bool {
        let Some(Some(held)) = self.held.get(peb.at()) else { return false };
        held.owner == owner && Content::ptr_eq(&held.content, content) && array.store().shares(&self.cells, peb)
    }

    /// Whether a LEB that `op` leaves alone is as the model has it, without reading it: it is unmapped, or in a block that was
    /// compared before and nobody wrote since.
    pub fn has_leb(&self, ubi: &Ubi<Tape>, vol_id: u32, lnum: u32, leb: &Leb, op: &Op) -> bool {
        let owner = Owner { vol_id: VolId(vol_id), lnum: Lnum(lnum) };
        let sound = !leb.torn && !leb.fragile && !leb.shaky;
        sound
            && !touches(op, vol_id, lnum)
            && match (&leb.state, ubi.peb_of(owner.vol_id, owner.lnum)) {
                (State::Unmapped, None) => true,
                (State::Mapped(content), Some(peb)) => self.holds(&ubi.flash().array, peb, owner, content),
                _ => false,
            }
    }

    /// Whether this holds for every LEB of a volume; of a static one, also that it ends where the model has it end.
    pub fn has_volume(&self, ubi: &Ubi<Tape>, vol_id: u32, vol: &Vol, op: &Op) -> bool {
        let whole = !vol.updating
            && !vol.damaged
            && (0..).zip(&vol.lebs).all(|(lnum, leb)| self.has_leb(ubi, vol_id, lnum, leb, op));
        let ends_right = || {
            let used = vol.lebs.iter().filter(|leb| leb.state != State::Unmapped).count();
            let info = ubi.volume_infos().find(|info| info.vol_id.0 == vol_id);
            info.is_some_and(|info| info.used_lebs as usize == used)
        };
        whole && (vol.kind == VolType::Dynamic || ends_right())
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
    use super::super::rig::{Down, both_ways_agree, bring_up, bring_up_from, perform};
    use super::*;
    use crate::Plan;
    use crate::ubi::UbiPlan;
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
        let headers = known.headers(&ubi.flash().array);
        assert!(headers.iter().all(Option::is_some));
        assert_eq!(headers[peb.at()].and_then(Headers::erase_count), counter);
        // Whatever changes a cell: past the contents, in a header, in the contents and back.
        for change in [|cells: &mut [u8]| cells[8191] = 0, |cells: &mut [u8]| cells[600] ^= 1, |_: &mut [u8]| ()] {
            let mut changed = ubi.clone();
            changed.flash_mut().array.tamper(peb, change);
            assert!(!holds(&changed, LEB, &data));
            let headers = known.headers(&changed.flash().array);
            assert!((0..headers.len()).all(|at| headers[at].is_none() == (at == peb.at())), "the others are known");
        }
        let mut longer = ubi.clone();
        longer.flash_mut().array.tamper(peb, |cells| cells[8191] = 0);
        let known_of_longer = Known::of(&longer, &world, &known);
        assert!(!known_of_longer.holds(&longer.flash().array, peb, LEB, &data), "cells past the contents");
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
        assert!(known.headers(&ubi.flash().array).iter().all(Option::is_none));
    }

    /// An erase that is cut at once leaves erased cells as they were, but reads of them fail from then on.
    #[test]
    fn headers_of_a_torn_block_are_not_known_even_if_no_bit_changed() {
        let plan = plan("");
        let (mut ubi, world, _) = device(&plan);
        let peb = Peb(40);
        ubi.flash_mut().array.tamper(peb, |cells| cells.fill(0xff));
        let known = Known::of(&ubi, &world, &Known::default());
        assert!(known.headers(&ubi.flash().array)[peb.at()].is_some());
        let array = &mut ubi.flash_mut().array;
        let nothing = nand::Tear::Prefix(nand::PrefixBytes::Exactly(0));
        array.set_power_cut(Some(nand::PowerCut::at_op(array.ops(), nothing).seen_by_ecc()));
        assert!(sim::seam::Flash::erase(array, &mut sim::Cx::new(), peb).is_err());
        array.power_on();
        assert!(array.store().shares(&known.cells, peb) && known.headers(array)[peb.at()].is_none());
        let known = Known::of(&ubi, &world, &known);
        assert!(known.headers(&ubi.flash().array)[peb.at()].is_none(), "nor when it is looked at again");
    }

    #[test]
    fn a_leb_is_known_if_the_operation_leaves_it_alone_and_no_cut_left_its_marks() {
        let plan = plan("");
        let (ubi, world, data) = device(&plan);
        let known = Known::of(&ubi, &world, &Known::default());
        let vol = &*world.volumes[&0];
        let [written, unmapped] = [0, 1].map(|lnum| vol.lebs[lnum].clone());
        let has = |lnum, leb: &Leb, op: &Op| known.has_leb(&ubi, 0, lnum, leb, op);
        let idle = &Op::Background;
        assert!(has(0, &written, idle) && has(1, &unmapped, idle));
        for (lnum, leb) in [(0, &written), (1, &unmapped)] {
            assert!(!has(lnum, &Leb { torn: true, ..leb.clone() }, idle), "LEB {lnum}");
            assert!(!has(lnum, &Leb { fragile: true, ..leb.clone() }, idle), "LEB {lnum}");
            assert!(!has(lnum, &Leb { shaky: true, ..leb.clone() }, idle), "LEB {lnum}");
            let write = |vol_id, lnum| Op::Write { vol_id, lnum, offset: 0, data: data.clone() };
            assert!(
                !has(lnum, leb, &write(0, lnum)) && has(lnum, leb, &write(0, 2)) && has(lnum, leb, &write(1, lnum))
            );
            assert!(!has(lnum, leb, &Op::Change { vol_id: 0, lnum, data: data.clone() }));
            assert!(!has(lnum, leb, &Op::Map { vol_id: 0, lnum }) && has(lnum, leb, &Op::Map { vol_id: 0, lnum: 3 }));
            let shrink = |lebs| Op::Resize { vol_id: 0, lebs };
            assert!(!has(lnum, leb, &shrink(lnum)) && has(lnum, leb, &shrink(lnum + 1)));
        }
        assert!(!has(0, &unmapped, idle), "mapped, and the model says that it is not");
        assert!(!has(1, &written, idle), "the other way round");
        assert!(known.has_volume(&ubi, 0, vol, idle));
        assert!(!known.has_volume(&ubi, 0, vol, &Op::Map { vol_id: 0, lnum: 3 }));
        assert!(!known.has_volume(&ubi, 0, &Vol { updating: true, ..vol.clone() }, idle));
        assert!(!known.has_volume(&ubi, 0, &Vol { damaged: true, ..vol.clone() }, idle));
    }

    /// A static volume that lost its last LEB is no shorter one: its other headers say how long it is.
    #[test]
    fn a_static_volume_is_known_to_its_end() {
        let plan = plan("");
        let create = Op::Create { vol_id: 0, name: "s".to_owned(), kind: VolType::Static, lebs: 3 };
        let mut ubi = went(bring_up(&plan, &plan.ubi, Tape::new(&plan.array, Bytes::new())));
        let update = Op::Update { vol_id: 0, data: Arc::new(vec![0x51; ubi.layout().leb_bytes as usize + 700]) };
        let mut world = World::default();
        for op in [create, update] {
            world = world.after(&op, ubi.layout().leb_bytes);
            ubi = went(perform(&plan, ubi, &op));
        }
        let known = Known::of(&ubi, &world, &Known::default());
        assert!(known.has_volume(&ubi, 0, &world.volumes[&0], &Op::Background));
        let wrong_crc = |cells: &mut [u8]| {
            let hdr = VidHdr::decode(cells[512..][..VidHdr::BYTES].try_into().expect("64 bytes")).expect("a header");
            cells[512..][..VidHdr::BYTES].copy_from_slice(&VidHdr { data_crc: !hdr.data_crc, ..hdr }.encode());
        };
        let last = ubi.peb_of(VolId(0), Lnum(1)).expect("it was written");
        let mut damaged = ubi.clone();
        damaged.flash_mut().array.tamper(last, wrong_crc);
        let known = Known::of(&damaged, &world, &known);
        assert!(!known.has_volume(&damaged, 0, &world.volumes[&0], &Op::Background), "a wrong checksum in the header");
        ubi.flash_mut().array.tamper(last, |cells| cells.fill(0xff));
        let scan = ubi::Config { fastmap: false, ..plan.ubi.clone() };
        let shorter = went(bring_up(&plan, &scan, ubi.into_flash()));
        let mut vol = (*world.volumes[&0]).clone();
        vol.lebs[1] = vol.lebs[2].clone();
        let known = Known::of(&shorter, &world, &Known::default());
        assert!((0..3).all(|lnum| known.has_leb(&shorter, 0, lnum, &vol.lebs[lnum as usize], &Op::Background)));
        assert!(!known.has_volume(&shorter, 0, &vol, &Op::Background));
    }

    /// What was found on a flash makes the device, as long as the flash is the one that was read.
    #[test]
    fn a_flash_that_changed_is_read_again() {
        let plan = plan("");
        let (ubi, world, _) = device(&plan);
        let (peb, layout) = (ubi.peb_of(LEB.vol_id, LEB.lnum).expect("it was written"), *ubi.layout());
        let mut tape = ubi.into_flash();
        let pebs = layout.pebs as usize;
        let counters: Vec<_> = (0..layout.pebs).map(|peb| Known::default().counter(&tape, Peb(peb))).collect();
        let mut broken = Vec::new();
        let story = &mut crate::Story::silent();
        let found =
            both_ways_agree(&tape, &layout, &Known::default(), &counters, &vec![false; pebs], story, &mut broken);
        let mut found = found.expect("both ways find the same, and would again");
        let scanned = found.scanned();
        assert!(broken.is_empty() && found.is_of(&tape));
        let scan = ubi::Config { fastmap: false, ..plan.ubi.clone() };
        let same = went(bring_up_from(&plan, &scan, tape.clone(), Some(&found).zip(scanned.clone())));
        assert_eq!(same.peb_of(LEB.vol_id, LEB.lnum), Some(peb));
        assert_eq!(same.volume_infos().count(), world.volumes.len());
        tape.array.tamper(peb, |cells| cells.fill(0xff));
        assert!(!found.is_of(&tape));
        let other = went(bring_up_from(&plan, &scan, tape, Some(&found).zip(scanned)));
        assert_eq!(other.peb_of(LEB.vol_id, LEB.lnum), None, "the block was erased since");
    }
}
