//! The oracle: allowed contents of each sector of a ubiblock after a power cut.
//!
//! | promise | when |
//! |---|---|
//! | a sector has the contents that it had at the last completed flush, or FUA write of it, or newer ones | always, if anything in its LEB was flushed since the LEB was made or discarded |
//! | a sector reads as what was written last, 0xFF if nothing was | while power is on |
//!
//! A sector that was discarded may read as anything that it ever had, behind a flush too, until its LEB is written and
//! flushed. Nothing is promised of a LEB of which nothing was flushed: its first copy on flash may be torn, as there is
//! no other.
//!
//! A version is the number of a step, from 1; 0 is erased. Contents name sector and version, so that a finding says what
//! was found.

use std::collections::BTreeSet;

use sim::seam::{BlockOp, BlockRequest, SECTOR_BYTES};

const SECTOR: usize = SECTOR_BYTES as usize;

#[derive(Clone, Debug)]
struct Sector {
    /// Whether it was written since the last flush, discard or power-on: only then a flush has something to promise.
    written: bool,
    latest: u32,
    allowed: BTreeSet<u32>,
    ever: BTreeSet<u32>,
}

/// Everything that a device promised.
#[derive(Clone, Debug)]
pub(super) struct Model {
    sectors: Vec<Sector>,
    /// By LEB: whether anything in it was flushed since it was made or discarded.
    flushed: Vec<bool>,
    per_leb: u64,
    discards: bool,
}

impl Model {
    /// A device of `lebs` LEBs with so many sectors each, none of them written; `discards`: a discard unmaps LEBs.
    pub fn new(lebs: u32, per_leb: u64, discards: bool) -> Model {
        let blank = Sector { written: false, latest: 0, allowed: [0].into(), ever: [0].into() };
        let sectors = u64::from(lebs) * per_leb;
        Model { sectors: vec![blank; sectors as usize], flushed: vec![false; lebs as usize], per_leb, discards }
    }

    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// Sectors of a LEB.
    pub fn per_leb(&self) -> u64 {
        self.per_leb
    }

    fn leb(&self, sector: u64) -> u64 {
        sector / self.per_leb
    }

    fn of(&mut self, request: &BlockRequest) -> &mut [Sector] {
        &mut self.sectors[request.sector as usize..request.end() as usize]
    }

    /// A request is submitted: from now on it may have happened. Appends its data to `data`.
    pub fn asked(&mut self, request: &BlockRequest, version: u32, data: &mut Vec<u8>) {
        match request.op {
            BlockOp::Write => {
                for sector in self.of(request) {
                    sector.written = true;
                    sector.latest = version;
                    sector.allowed.insert(version);
                    sector.ever.insert(version);
                }
                (request.sector..request.end()).for_each(|number| data.extend_from_slice(&contents(number, version)));
            }
            BlockOp::Trim if self.discards => {
                let (first, end) = (request.sector.div_ceil(self.per_leb), request.end() / self.per_leb);
                for leb in first..end.max(first) {
                    self.flushed[leb as usize] = false;
                    for sector in &mut self.sectors[(leb * self.per_leb) as usize..][..self.per_leb as usize] {
                        sector.written = false;
                        sector.latest = 0;
                        sector.allowed = sector.ever.clone();
                    }
                }
            }
            BlockOp::Trim | BlockOp::Read | BlockOp::Flush => {}
        }
    }

    /// A request has completed.
    pub fn done(&mut self, request: &BlockRequest) {
        let settled = match (request.op, request.fua) {
            (BlockOp::Flush, _) => 0..self.sectors(),
            (BlockOp::Write, true) => request.sector..request.end(),
            _ => return,
        };
        for at in settled {
            let leb = self.leb(at);
            let sector = &mut self.sectors[at as usize];
            if std::mem::take(&mut sector.written) {
                sector.allowed = [sector.latest].into();
                self.flushed[leb as usize] = true;
            }
        }
    }

    /// Whether anything is promised of a sector after a cut.
    pub fn promises(&self, sector: u64) -> bool {
        self.flushed[self.leb(sector) as usize]
    }

    /// Compares data read from `first` on, while power was on, with what was written last.
    pub fn reads(&self, first: u64, data: &[u8]) -> Vec<String> {
        let compared = (first..).zip(data.chunks_exact(SECTOR));
        let wrong = compared.filter(|(number, found)| !is(found, *number, self.sectors[*number as usize].latest));
        wrong
            .map(|(number, found)| {
                let latest = version(self.sectors[number as usize].latest);
                format!("sector {number} of LEB {} reads as {}; expected {latest}", self.leb(number), described(found))
            })
            .collect()
    }

    /// Compares a sector that was read after a cut, `None` if it cannot be read, with what is allowed, and adopts it.
    /// Errors: the promise that is broken.
    pub fn survived(&mut self, number: u64, found: Option<&[u8]>) -> Result<(), String> {
        let (leb, promised) = (self.leb(number), self.promises(number));
        let sector = &mut self.sectors[number as usize];
        sector.written = false;
        let known = found.and_then(|found| sector.ever.iter().copied().find(|&version| is(found, number, version)));
        match known {
            Some(version) if sector.allowed.contains(&version) => {
                (sector.latest, sector.allowed) = (version, [version].into());
                Ok(())
            }
            _ if !promised => Ok(()),
            _ => {
                let allowed: Vec<String> = sector.allowed.iter().map(|&allowed| version(allowed)).collect();
                let found =
                    found.map_or_else(|| "cannot be read".to_owned(), |found| format!("reads as {}", described(found)));
                Err(format!("sector {number} of LEB {leb} {found}; expected {}", allowed.join(", or ")))
            }
        }
    }
}

/// Contents of a version of a sector that is not erased: number and version, then words that differ from one another.
fn contents(number: u64, version: u32) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for (at, word) in (0u64..).zip(bytes.chunks_exact_mut(8)) {
        let value = match at {
            0 => number,
            1 => version.into(),
            _ => (number << 32 | u64::from(version)).wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

fn is(found: &[u8], number: u64, version: u32) -> bool {
    if version == 0 { found.iter().all(|&byte| byte == 0xff) } else { found == contents(number, version) }
}

fn version(version: u32) -> String {
    if version == 0 { "erased".to_owned() } else { format!("what step {version} wrote") }
}

fn described(found: &[u8]) -> String {
    let word = |at: usize| u64::from_le_bytes(found[8 * at..][..8].try_into().unwrap_or_default());
    let (number, of) = (word(0), word(1) as u32);
    if is(found, 0, 0) {
        "erased".to_owned()
    } else if found == contents(number, of) {
        format!("what step {of} wrote to sector {number}")
    } else {
        "no sector that was ever written".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sector: u64, sectors: u32) -> BlockRequest {
        BlockRequest::write(sector, sectors)
    }

    fn ask(model: &mut Model, request: BlockRequest, version: u32) {
        model.asked(&request, version, &mut Vec::new());
        model.done(&request);
    }

    #[test]
    fn what_was_flushed_may_not_go_back_and_what_was_not_may() {
        let mut model = Model::new(2, 4, true);
        ask(&mut model, write(1, 1), 1);
        assert!(model.clone().survived(1, None).is_ok(), "nothing of the LEB was flushed");
        ask(&mut model, BlockRequest::flush(), 2);
        ask(&mut model, write(1, 1), 3);
        for (version, is_allowed) in [(0, false), (1, true), (3, true)] {
            let found = if version == 0 { [0xff; SECTOR] } else { contents(1, version) };
            assert_eq!(model.clone().survived(1, Some(&found)).is_ok(), is_allowed, "version {version}");
        }
        let wrong = model.clone().survived(1, None).unwrap_err();
        assert_eq!(wrong, "sector 1 of LEB 0 cannot be read; expected what step 1 wrote, or what step 3 wrote");
        assert!(model.survived(2, Some(&[0; SECTOR])).is_err(), "a sector beside it, erased, is promised with its LEB");
    }

    #[test]
    fn a_flush_promises_nothing_of_what_was_not_written_since_power_on() {
        let mut model = Model::new(1, 4, true);
        ask(&mut model, write(0, 4), 1);
        // The first copy of the LEB is torn: one sector is there, another is not.
        assert!(model.survived(0, Some(&contents(0, 1))).is_ok());
        assert!((1..4).all(|torn| model.survived(torn, None).is_ok()));
        ask(&mut model, BlockRequest::flush(), 2);
        assert!(!model.promises(0) && model.clone().survived(1, None).is_ok());
        ask(&mut model, write(0, 4), 3);
        ask(&mut model, BlockRequest::flush(), 4);
        assert!(model.survived(1, None).is_err());
    }

    #[test]
    fn a_discard_gives_up_the_promises_of_the_lebs_that_it_covers() {
        let mut model = Model::new(2, 4, true);
        ask(&mut model, BlockRequest { fua: true, ..write(0, 8) }, 1);
        ask(&mut model, BlockRequest::trim(2, 6), 2);
        assert_eq!([model.promises(3), model.promises(4)], [true, false]);
        assert!(model.reads(4, &[0xff; SECTOR]).is_empty() && !model.reads(3, &[0xff; SECTOR]).is_empty());
        let mut kept = Model::new(2, 4, false);
        ask(&mut kept, BlockRequest { fua: true, ..write(0, 8) }, 1);
        ask(&mut kept, BlockRequest::trim(0, 8), 2);
        assert!(kept.promises(0) && kept.reads(4, &contents(4, 1)).is_empty());
    }

    /// A LEB that is covered in part keeps its contents and what was promised of them.
    #[test]
    fn a_discard_leaves_the_lebs_alone_of_which_it_covers_a_part() {
        for (first, end) in [(0, 12), (1, 12), (0, 11), (3, 9), (4, 7), (5, 8), (5, 7)] {
            let mut model = Model::new(3, 4, true);
            ask(&mut model, BlockRequest { fua: true, ..write(0, 12) }, 1);
            ask(&mut model, BlockRequest::trim(first, (end - first) as u32), 2);
            for leb in 0..3 {
                let is_covered = first <= leb * 4 && (leb + 1) * 4 <= end;
                assert_eq!(model.promises(leb * 4), !is_covered, "LEB {leb} after a discard of {first} to {end}");
                let reads = model.reads(leb * 4, &contents(leb * 4, 1)).is_empty();
                assert_eq!(reads, !is_covered, "LEB {leb} after a discard of {first} to {end}");
            }
        }
    }

    /// What was gone once does not come back: not after the next cut either.
    #[test]
    fn what_was_found_after_a_cut_is_all_there_may_be_after_the_next() {
        for found in 1..4 {
            let mut model = Model::new(1, 4, true);
            ask(&mut model, BlockRequest { fua: true, ..write(0, 1) }, 1);
            ask(&mut model, write(0, 1), 2);
            ask(&mut model, write(0, 1), 3);
            assert_eq!(model.survived(0, Some(&contents(0, found))), Ok(()));
            for again in 1..4 {
                let is_allowed = model.clone().survived(0, Some(&contents(0, again))).is_ok();
                assert_eq!(is_allowed, again == found, "{again} after {found}");
            }
        }
    }

    #[test]
    fn a_flush_promises_every_sector_that_was_written_and_a_write_alone_none() {
        for sector in 0..8 {
            let mut model = Model::new(2, 4, true);
            ask(&mut model, write(sector, 1), 1);
            assert!(!model.promises(sector));
            ask(&mut model, BlockRequest::flush(), 2);
            for beside in 0..8 {
                assert_eq!(model.promises(beside), beside / 4 == sector / 4, "sector {beside} after one of {sector}");
            }
            assert!(model.survived(sector, None).is_err());
        }
    }

    #[test]
    fn a_finding_says_what_was_found_and_what_was_expected() {
        let mut model = Model::new(2, 4, true);
        ask(&mut model, write(5, 1), 7);
        let found = [contents(2, 3), [0xff; SECTOR], [0; SECTOR]].concat();
        let expected = [
            "sector 4 of LEB 1 reads as what step 3 wrote to sector 2; expected erased",
            "sector 5 of LEB 1 reads as erased; expected what step 7 wrote",
            "sector 6 of LEB 1 reads as no sector that was ever written; expected erased",
        ];
        assert_eq!(model.reads(4, &found), expected);
    }
}
