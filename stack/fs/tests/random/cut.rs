//! A volume that loses power in the middle of an operation, and holds the file system to the rules of writing.
//!
//! What a power cut leaves:
//!
//! - of a write, the units before the one that was being written; that one is untouched, partly written, or garbage, and
//!   those after it are untouched. What was partly written or is garbage may be more than ECC can correct: a read says so,
//!   until the LEB is changed or unmapped. If the write would have mapped the LEB, it may be unmapped, or mapped and empty;
//! - of a change, the old contents or the new;
//! - of a `map` and an `unmap`, the state before or after;
//! - an unmapped LEB may have the contents again that it had last: they are gone only when their block is erased, which
//!   [`sync`](LebVolume::sync) waits for. What it had before those was given to UBI's thread earlier, and is erased earlier.
//!
//! A unit that still reads 0xFF counts as not written: a real page may be unstable then, which nobody can see.
//!
//! A unit is written once, and after all units before it: another write is a mistake of the file system, and panics.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sim::seam::{FlashError, LebError, LebVolume, Payload};
use sim::{Cx, Lnum, Peb, Rng, Seed};

const POWER_LOST: LebError = LebError::Flash(FlashError::PowerLost);
/// The volume. Clones are the same volume: one is the file system's, another switches power on.
#[derive(Clone, Debug)]
pub struct Cut<V>(Rc<RefCell<State<V>>>);

#[derive(Debug)]
struct State<V> {
    volume: V,
    /// Units written, changes, maps and unmaps.
    events: u64,
    cut_at: Option<u64>,
    is_off: bool,
    /// Where a LEB may be written next, if it is mapped.
    ends: BTreeMap<Lnum, u32>,
    /// Units that ECC cannot correct.
    uncorrectable: BTreeMap<Lnum, u32>,
    /// What LEBs contained last, up to where it was written, if that was since the last sync.
    ghosts: BTreeMap<Lnum, Vec<u8>>,
    rng: Rng,
}

impl<V: LebVolume> Cut<V> {
    /// Takes a volume of which nothing is mapped.
    pub fn new(volume: V, seed: u64) -> Cut<V> {
        let rng = Seed(seed).stream("fs/cut");
        let (ends, ghosts) = (BTreeMap::new(), BTreeMap::new());
        let uncorrectable = BTreeMap::new();
        Cut(Rc::new(RefCell::new(State {
            volume,
            events: 0,
            cut_at: None,
            is_off: false,
            ends,
            uncorrectable,
            ghosts,
            rng,
        })))
    }

    /// Number of units written, changes, maps and unmaps so far.
    pub fn events(&self) -> u64 {
        self.0.borrow().events
    }

    /// Lets power fail in the event that follows `events` others; `None`: never.
    pub fn cut_after(&self, events: Option<u64>) {
        let mut state = self.0.borrow_mut();
        state.cut_at = events.map(|events| state.events + events);
    }

    /// Lets power fail, if it has not yet, and return. LEBs that are unmapped may have old contents again.
    pub fn power_cycle(&self, cx: &mut Cx) {
        let mut state = self.0.borrow_mut();
        state.is_off = false;
        for (lnum, ghost) in std::mem::take(&mut state.ghosts) {
            if !state.ends.contains_key(&lnum) && state.rng.chance(0.5) {
                state.put(cx, lnum, &ghost);
            }
        }
    }
}

impl<V: LebVolume> State<V> {
    fn is_on(&self) -> Result<(), LebError> {
        if self.is_off { Err(POWER_LOST) } else { Ok(()) }
    }

    /// Returns whether power is lost in the event.
    fn event(&mut self) -> bool {
        self.is_off = self.cut_at == Some(self.events);
        self.events += 1;
        self.is_off
    }

    /// Gives an unmapped LEB contents, whatever happens to power.
    fn put(&mut self, cx: &mut Cx, lnum: Lnum, contents: &[u8]) {
        match contents {
            [] => self.volume.map(cx, lnum),
            bytes => self.volume.write(cx, lnum, 0, Payload::Bytes(bytes)),
        }
        .expect("the LEB is unmapped");
        self.ends.insert(lnum, contents.len() as u32);
    }

    /// Keeps what a LEB contains, since it is about to go.
    fn remember(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        if let Some(&end) = self.ends.get(&lnum) {
            let mut contents = vec![0; end as usize];
            self.volume.read(cx, lnum, 0, &mut contents)?;
            self.ghosts.insert(lnum, contents);
        }
        Ok(())
    }

    /// What a unit becomes in which power was lost. `None`: nothing was written, or nothing that can be seen.
    fn torn(&mut self, unit: &[u8]) -> Option<Vec<u8>> {
        let written = self.rng.below(unit.len() as u64 + 1) as usize;
        let mut torn = unit.to_vec();
        match self.rng.below(4) {
            0 => return None,
            1 => torn[written..].fill(0xff),
            2 => {
                for byte in &mut torn[written..] {
                    *byte = self.rng.bits() as u8;
                }
            }
            _ => torn.fill_with(|| self.rng.bits() as u8),
        }
        torn.iter().any(|&byte| byte != 0xff).then_some(torn)
    }
}

impl<V: LebVolume> LebVolume for Cut<V> {
    fn keeps_bytes() -> bool {
        assert!(V::keeps_bytes(), "a torn write has bytes");
        true
    }

    fn lebs(&self) -> u32 {
        self.0.borrow().volume.lebs()
    }

    fn leb_bytes(&self) -> u32 {
        self.0.borrow().volume.leb_bytes()
    }

    fn min_io_bytes(&self) -> u32 {
        self.0.borrow().volume.min_io_bytes()
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        let mut state = self.0.borrow_mut();
        state.is_on()?;
        state.volume.read(cx, lnum, offset, buf)?;
        let unit = state.volume.min_io_bytes();
        match state.uncorrectable.get(&lnum) {
            Some(&torn) if offset < torn + unit && torn < offset + buf.len() as u32 => {
                Err(LebError::Flash(FlashError::Uncorrectable { peb: Peb(lnum.0), offset: torn }))
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        let state = &mut *self.0.borrow_mut();
        state.is_on()?;
        let end = state.ends.get(&lnum).copied();
        assert!(offset >= end.unwrap_or(0), "LEB {lnum}: a write at {offset}, which is written up to {end:?}");
        let unit = state.volume.min_io_bytes();
        let bytes = data.bytes().expect("contents matter");
        for (at, unit_bytes) in (offset..).step_by(unit as usize).zip(bytes.chunks(unit as usize)) {
            if !state.event() {
                state.volume.write(cx, lnum, at, Payload::Bytes(unit_bytes))?;
                state.ends.insert(lnum, at + unit);
                continue;
            }
            if let Some(torn) = state.torn(unit_bytes) {
                state.volume.write(cx, lnum, at, Payload::Bytes(&torn))?;
                state.ends.insert(lnum, at + unit);
                if torn != unit_bytes && state.rng.chance(0.5) {
                    state.uncorrectable.insert(lnum, at);
                }
            } else if !state.ends.contains_key(&lnum) && state.rng.chance(0.5) {
                state.put(cx, lnum, &[]);
            }
            return Err(POWER_LOST);
        }
        Ok(())
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        let state = &mut *self.0.borrow_mut();
        state.is_on()?;
        if state.event() && state.rng.chance(0.5) {
            return Err(POWER_LOST);
        }
        state.remember(cx, lnum)?;
        state.uncorrectable.remove(&lnum);
        state.volume.change(cx, lnum, data)?;
        match data.len() {
            0 => state.ends.remove(&lnum),
            end => state.ends.insert(lnum, end),
        };
        state.is_on()
    }

    fn erase(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.unmap(cx, lnum)?;
        self.0.borrow_mut().ghosts.remove(&lnum);
        Ok(())
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        let state = &mut *self.0.borrow_mut();
        state.is_on()?;
        if state.event() && state.rng.chance(0.5) {
            return Err(POWER_LOST);
        }
        state.volume.map(cx, lnum)?;
        state.ends.insert(lnum, 0);
        state.is_on()
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        let state = &mut *self.0.borrow_mut();
        state.is_on()?;
        if state.event() && state.rng.chance(0.5) {
            return Err(POWER_LOST);
        }
        state.remember(cx, lnum)?;
        state.uncorrectable.remove(&lnum);
        state.volume.unmap(cx, lnum)?;
        state.ends.remove(&lnum);
        state.is_on()
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.0.borrow().volume.is_mapped(lnum)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        let state = &mut *self.0.borrow_mut();
        state.is_on()?;
        state.volume.sync(cx)?;
        state.ghosts.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::RamVolume;

    const UNIT: usize = 512;
    const LEB: Lnum = Lnum(1);

    /// LEB 1 of three has two units.
    fn volume(seed: u64) -> (Cut<RamVolume>, Cx) {
        let (mut cut, mut cx) = (Cut::new(RamVolume::new(3, 8 * UNIT as u32, UNIT as u32), seed), Cx::new());
        cut.write(&mut cx, LEB, 0, Payload::Bytes(&[1; 2 * UNIT])).unwrap();
        (cut, cx)
    }

    fn contents(cut: &mut Cut<RamVolume>, cx: &mut Cx) -> Vec<u8> {
        let mut bytes = vec![0; 8 * UNIT];
        match cut.read(cx, LEB, 0, &mut bytes) {
            Ok(()) | Err(LebError::Flash(FlashError::Uncorrectable { .. })) => bytes,
            Err(error) => panic!("{error}"),
        }
    }

    /// What LEB 1 holds in units of one value; garbage and torn units are 0.
    fn units(cut: &mut Cut<RamVolume>, cx: &mut Cx) -> Vec<u8> {
        let bytes = contents(cut, cx);
        let uniform = |unit: &[u8]| if unit.iter().all(|byte| *byte == unit[0]) { unit[0] } else { 0 };
        bytes.chunks(UNIT).map(uniform).collect()
    }

    #[test]
    fn a_write_is_torn_in_the_unit_in_which_power_fails() {
        for cut_unit in 0..3 {
            let mut seen = [0; 4];
            for seed in 0..64 {
                let (mut cut, mut cx) = volume(seed);
                assert_eq!(cut.events(), 2);
                cut.cut_after(Some(cut_unit as u64));
                let written = cut.write(&mut cx, LEB, 2 * UNIT as u32, Payload::Bytes(&[2; 3 * UNIT]));
                assert_eq!(written, Err(POWER_LOST));
                assert_eq!(cut.read(&mut cx, LEB, 0, &mut [0]), Err(POWER_LOST));
                assert_eq!(cut.unmap(&mut cx, LEB), Err(POWER_LOST));
                assert_eq!(cut.events(), 2 + cut_unit as u64 + 1);
                cut.power_cycle(&mut cx);
                let found = units(&mut cut, &mut cx);
                let (before, from) = found.split_at(2 + cut_unit);
                assert_eq!(before, &[1, 1, 2, 2][..2 + cut_unit]);
                assert!(from[1..].iter().all(|&unit| unit == 0xff), "seed {seed}: {found:?}");
                let torn = &contents(&mut cut, &mut cx)[(2 + cut_unit) * UNIT..][..UNIT];
                let kind = match (torn[0], torn[UNIT - 1]) {
                    (0xff, 0xff) => 0,
                    (2, 0xff) => 1,
                    (2, _) => 2,
                    _ => 3,
                };
                seen[kind] += 1;
            }
            assert!(seen.iter().all(|&count| count > 5), "{seen:?}");
        }
    }

    #[test]
    fn unmapped_contents_may_return_until_a_sync() {
        let found = |synced: bool| -> Vec<Vec<u8>> {
            let each = (0..64).map(|seed| {
                let (mut cut, mut cx) = volume(seed);
                cut.unmap(&mut cx, LEB).unwrap();
                cut.write(&mut cx, LEB, 0, Payload::Bytes(&[3; UNIT])).unwrap();
                cut.unmap(&mut cx, LEB).unwrap();
                if synced {
                    cut.sync(&mut cx).unwrap();
                }
                assert_eq!(units(&mut cut, &mut cx), [0xff; 8]);
                cut.power_cycle(&mut cx);
                units(&mut cut, &mut cx)[..2].to_vec()
            });
            let mut found: Vec<_> = each.collect();
            found.sort();
            found.dedup();
            found
        };
        assert_eq!(found(false), [vec![3, 0xff], vec![0xff, 0xff]]);
        assert_eq!(found(true), [vec![0xff, 0xff]]);
    }

    #[test]
    fn contents_do_not_return_to_a_leb_that_is_mapped() {
        for seed in 0..64 {
            let (mut cut, mut cx) = volume(seed);
            cut.unmap(&mut cx, LEB).unwrap();
            cut.map(&mut cx, LEB).unwrap();
            cut.power_cycle(&mut cx);
            assert_eq!(units(&mut cut, &mut cx), [0xff; 8]);
        }
    }

    #[test]
    fn a_leb_whose_first_unit_is_torn_may_be_unmapped_or_empty() {
        let mut seen = [0; 3];
        for seed in 0..64 {
            let (mut cut, mut cx) = volume(seed);
            cut.unmap(&mut cx, LEB).unwrap();
            cut.cut_after(Some(0));
            assert_eq!(cut.write(&mut cx, LEB, 0, Payload::Bytes(&[2; UNIT])), Err(POWER_LOST));
            let was_mapped = cut.is_mapped(LEB);
            cut.power_cycle(&mut cx);
            let found = units(&mut cut, &mut cx);
            assert_eq!(found[2..], [0xff; 6]);
            match found[..2] {
                [1, 1] => {
                    assert!(!was_mapped, "old contents in the place of new ones");
                    seen[0] += 1;
                }
                [0xff, 0xff] => seen[1] += 1,
                _ => seen[2] += 1,
            }
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    }

    #[test]
    fn a_change_is_old_or_new() {
        let mut seen = [0; 2];
        for seed in 0..64 {
            let (mut cut, mut cx) = volume(seed);
            cut.cut_after(Some(0));
            assert_eq!(cut.change(&mut cx, LEB, Payload::Bytes(&[2; 3 * UNIT])), Err(POWER_LOST));
            cut.power_cycle(&mut cx);
            match &units(&mut cut, &mut cx)[..4] {
                [1, 1, 0xff, 0xff] => seen[0] += 1,
                [2, 2, 2, 0xff] => seen[1] += 1,
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(seen.iter().all(|&count| count > 16), "{seen:?}");
    }

    #[test]
    fn an_interrupted_map_or_unmap_is_done_or_not() {
        let mut mapped = [0; 2];
        for seed in 0..64 {
            let (mut cut, mut cx) = volume(seed);
            cut.cut_after(Some(0));
            assert_eq!(cut.map(&mut cx, Lnum(2)), Err(POWER_LOST));
            cut.power_cycle(&mut cx);
            mapped[usize::from(cut.is_mapped(Lnum(2)))] += 1;
            cut.cut_after(Some(0));
            assert_eq!(cut.unmap(&mut cx, LEB), Err(POWER_LOST));
            cut.power_cycle(&mut cx);
            assert!(matches!(units(&mut cut, &mut cx)[..2], [1, 1] | [0xff, 0xff]));
        }
        assert!(mapped.iter().all(|&count| count > 16), "{mapped:?}");
    }

    #[test]
    #[should_panic(expected = "a write at 512, which is written up to Some(1024)")]
    fn a_unit_is_written_once() {
        let (mut cut, mut cx) = volume(1);
        cut.write(&mut cx, LEB, UNIT as u32, Payload::Bytes(&[2; UNIT])).unwrap();
    }
}
