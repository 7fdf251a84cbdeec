//! An image written over a whole flash, as `ubiformat` of mtd-utils 2.1.5 does it: which erase counter each PEB gets.
//!
//! Knows headers and rules; knows no file. The rules were established by running `ubiformat` on simulated flashes.

use sim::Peb;
use sim::seam::is_erased;

use super::survey::ec_of_any_version;
use crate::media::{EcHdr, MAX_ERASE_COUNT};

/// What the flash held before, in one PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// A bad block.
    Bad,
    /// An EC header with this counter.
    Counter(u64),
    /// 0xFF in place of the EC header.
    Empty,
    /// Something else.
    Other,
}

/// Reads the old contents of a flash, PEB by PEB.
#[derive(Clone, Debug)]
pub struct OldFlash {
    min_io_bytes: u32,
    /// Offsets in the first EC header: a header with others does not count.
    offsets: Option<(u32, u32)>,
    pebs: Vec<Before>,
}

impl OldFlash {
    /// A flash of which nothing was read yet. `min_io_bytes` is its write unit.
    pub fn new(min_io_bytes: u32) -> OldFlash {
        OldFlash { min_io_bytes, offsets: None, pebs: Vec::new() }
    }

    /// Adds the next PEB, a bad one.
    pub fn bad(&mut self) {
        self.pebs.push(Before::Bad);
    }

    /// Adds the next PEB, which begins with `header`.
    pub fn good(&mut self, header: &[u8; EcHdr::BYTES]) {
        let before = match ec_of_any_version(header) {
            Some(ec) if self.counts(&ec) => Before::Counter(ec.ec),
            None if is_erased(header) => Before::Empty,
            _ => Before::Other,
        };
        self.pebs.push(before);
    }

    fn counts(&mut self, ec: &EcHdr) -> bool {
        let found = (ec.vid_hdr_offset, ec.data_offset);
        match self.offsets {
            Some(offsets) => offsets == found,
            None => {
                self.offsets = Some(found);
                ec.data_offset.is_multiple_of(self.min_io_bytes)
            }
        }
    }

    /// What each PEB held.
    pub fn pebs(&self) -> &[Before] {
        &self.pebs
    }
}

/// Which rule gave the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterRule {
    /// All PEBs get the one that the user gave.
    Given(u64),
    /// Nothing was there before, or fewer than half of the PEBs had a counter: all get 0.
    Zero,
    /// Fewer than 95 % of the PEBs had a counter: all get the mean.
    Mean(u64),
    /// Each PEB's own, plus one; those without get the mean.
    Own {
        /// Mean of the old counters, rounded down.
        mean: u64,
    },
}

/// The erase counters of a flash that is written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    rule: CounterRule,
    /// Good PEBs with a counter before.
    known: u32,
    counters: Vec<Option<u64>>,
}

impl Counters {
    /// The counters after what `old` was; `given` is for all PEBs.
    pub fn after(old: &[Before], given: Option<u64>) -> Counters {
        let is = |wanted: Before| old.iter().filter(|&&peb| peb == wanted).count() as u64;
        let good = old.len() as u64 - is(Before::Bad);
        let counters = || old.iter().filter_map(|peb| if let Before::Counter(ec) = peb { Some(*ec) } else { None });
        let known = counters().count() as u64;
        let mean = counters().sum::<u64>().checked_div(known).unwrap_or(0);
        let rule = match given {
            Some(given) => CounterRule::Given(given),
            // In whole per cent, rounded down. A flash that was erased has no counters to lose.
            None if is(Before::Empty) == good => CounterRule::Zero,
            None => match known * 100 / good.max(1) {
                0..50 => CounterRule::Zero,
                50..95 => CounterRule::Mean(mean),
                _ => CounterRule::Own { mean },
            },
        };
        let counter = |peb: &Before| match (rule, *peb) {
            (_, Before::Bad) => None,
            (CounterRule::Given(ec), _) | (CounterRule::Mean(ec), _) => Some(ec),
            (CounterRule::Zero, _) => Some(0),
            // `ubiformat` writes one more than the highest, which Linux refuses.
            (CounterRule::Own { .. }, Before::Counter(ec)) => Some((ec + 1).min(MAX_ERASE_COUNT)),
            (CounterRule::Own { mean }, _) => Some(mean),
        };
        Counters { rule, known: known as u32, counters: old.iter().map(counter).collect() }
    }

    /// The rule that gave them.
    pub fn rule(&self) -> CounterRule {
        self.rule
    }

    /// Good PEBs that had a counter before.
    pub fn known(&self) -> u32 {
        self.known
    }

    /// PEBs of the flash.
    pub fn pebs(&self) -> u32 {
        self.counters.len() as u32
    }

    /// Good PEBs of the flash.
    pub fn good(&self) -> u32 {
        self.counters.iter().flatten().count() as u32
    }

    /// The counter of a PEB; `None` if it is bad, or not of the flash.
    pub fn of(&self, peb: Peb) -> Option<u64> {
        self.counters.get(peb.at()).copied().flatten()
    }
}

/// Sets counter and image sequence number in the EC header at the beginning of `peb`, of any version. `None` if there is
/// no valid header.
pub fn set_ec(peb: &mut [u8], ec: u64, image_seq: Option<u32>) -> Option<EcHdr> {
    let header = peb.first_chunk_mut::<{ EcHdr::BYTES }>()?;
    let found = ec_of_any_version(header)?;
    let version = header[4];
    let set = EcHdr { ec, image_seq: image_seq.unwrap_or(found.image_seq), ..found };
    *header = super::pack::with_version(set.encode(), version);
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `ubiformat -y` of mtd-utils 2.1.5 prints and writes for such flashes.
    #[test]
    fn counters_are_those_of_ubiformat() {
        let of = |old: &[Before]| Counters::after(old, None);
        let (own, mixed) = (vec![Before::Counter(10); 20], [Before::Counter(10), Before::Counter(13)]);
        let mut nearly = own.clone();
        nearly[3] = Before::Other;
        nearly.push(Before::Bad);
        let counters = of(&nearly);
        assert_eq!(counters.rule(), CounterRule::Own { mean: 10 });
        assert_eq!([counters.of(Peb(0)), counters.of(Peb(3)), counters.of(Peb(20))], [Some(11), Some(10), None]);
        assert_eq!((counters.pebs(), counters.good(), counters.known()), (21, 20, 19));
        // 18 of 20 are 90 %: the mean for all, without the one more.
        nearly[4] = Before::Empty;
        assert_eq!((of(&nearly).rule(), of(&nearly).of(Peb(0))), (CounterRule::Mean(10), Some(10)));
        assert_eq!(of(&mixed).rule(), CounterRule::Own { mean: 11 });
        assert_eq!(of(&[mixed[0], Before::Other, Before::Empty]).rule(), CounterRule::Zero);
        assert_eq!(of(&[Before::Empty; 4]).rule(), CounterRule::Zero);
        assert_eq!(of(&[]).rule(), CounterRule::Zero);
        assert_eq!(Counters::after(&own, Some(7)).of(Peb(19)), Some(7));
        assert_eq!(of(&[Before::Counter(MAX_ERASE_COUNT)]).of(Peb(0)), Some(MAX_ERASE_COUNT));
    }

    #[test]
    fn a_header_with_other_offsets_than_the_first_counts_for_nothing() {
        let header = |ec, vid_hdr_offset| EcHdr { ec, vid_hdr_offset, data_offset: 4096, image_seq: 1 }.encode();
        let mut old = OldFlash::new(2048);
        for header in [header(4, 2048), header(5, 512), header(6, 2048), [0xff; 64], [0x55; 64]] {
            old.good(&header);
        }
        let expected = [Before::Counter(4), Before::Other, Before::Counter(6), Before::Empty, Before::Other];
        assert_eq!(old.pebs(), expected);
        let mut unaligned = OldFlash::new(8192);
        unaligned.good(&header(4, 2048));
        unaligned.good(&header(4, 2048));
        assert_eq!(unaligned.pebs(), [Before::Other, Before::Counter(4)]);
    }

    #[test]
    fn a_header_keeps_its_version_when_its_counter_is_set() {
        let mut peb = super::super::pack::with_version(
            EcHdr { ec: 1, vid_hdr_offset: 64, data_offset: 128, image_seq: 9 }.encode(),
            3,
        );
        let set = set_ec(&mut peb, 77, None).unwrap();
        assert_eq!((set.ec, set.image_seq, peb[4]), (77, 9, 3));
        assert_eq!(ec_of_any_version(&peb), Some(set));
        assert_eq!(set_ec(&mut peb, 78, Some(1)).unwrap().image_seq, 1);
        peb[20] ^= 1;
        assert_eq!(set_ec(&mut peb, 78, None), None);
        assert_eq!(set_ec(&mut [], 78, None), None);
    }
}
