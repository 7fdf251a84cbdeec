//! The rules of programming against a model that keeps a flag for each sub-page and a count for each page, where the array
//! keeps a mark: every page order, several programs of a page, both paths, cuts, and arrays made anew over the contents.

use sim::seam::{Flash, FlashError, Payload};
use sim::{Cx, Ns, Peb, Rng, Seed};

use super::NAND;
use crate::{Array, ArrayConfig, Bytes, CellTimes, Costs, FaultPlan, PageOrder, PowerCut, PrefixBytes, Tear, Timing};

const PAGE: usize = 512;
const SUB: usize = 128;
const BLOCK: usize = 4096;
const PAGES: usize = BLOCK / PAGE;

#[derive(Clone)]
struct Block {
    cells: Vec<u8>,
    /// Sub-pages that a program has passed, or a cut has spoilt.
    spent: [bool; BLOCK / SUB],
    programs: [u8; PAGES],
    /// Pages that ECC gives up on.
    torn: [bool; PAGES],
    bad: bool,
    erases: u32,
}

impl Block {
    fn blank() -> Block {
        Block {
            cells: vec![0xff; BLOCK],
            spent: [false; BLOCK / SUB],
            programs: [0; PAGES],
            torn: [false; PAGES],
            bad: false,
            erases: 0,
        }
    }

    fn erase(&mut self) {
        *self = Block { bad: self.bad, erases: self.erases + 1, ..Block::blank() };
    }

    /// One past the last sub-page that is spent.
    fn end(&self) -> usize {
        self.spent.iter().rposition(|&spent| spent).map_or(0, |at| (at + 1) * SUB)
    }

    fn program(&mut self, at: usize, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.cells[at..at + data.len()].iter_mut().zip(data).for_each(|(cell, byte)| *cell &= byte);
        self.spent[at / SUB..(at + data.len()).div_ceil(SUB)].fill(true);
        self.programs[at / PAGE..(at + data.len()).div_ceil(PAGE)].iter_mut().for_each(|count| *count += 1);
    }

    /// What a new array finds: cells that are not 0xFF were programmed, once.
    fn found_again(&mut self) {
        for (at, cells) in self.cells.chunks(SUB).enumerate() {
            self.spent[at] = cells.iter().any(|&byte| byte != 0xff);
        }
        for (page, cells) in self.cells.chunks(PAGE).enumerate() {
            self.programs[page] = u8::from(cells.iter().any(|&byte| byte != 0xff));
        }
        self.torn = [false; PAGES];
    }
}

struct Model {
    order: PageOrder,
    per_page: u8,
    blocks: Vec<Block>,
    ops: u64,
    bytes: u64,
}

impl Model {
    /// Whether ECC gives up on one of the pages already.
    fn is_torn(&self, peb: Peb, at: usize, len: usize) -> bool {
        self.blocks[peb.at()].torn[at / PAGE..(at + len).div_ceil(PAGE)].contains(&true)
    }

    /// Whether the medium takes a program.
    fn admits(&self, peb: Peb, at: usize, len: usize) -> Result<(), FlashError> {
        let offset = at as u32;
        if peb.at() >= self.blocks.len() || at + len > BLOCK || !at.is_multiple_of(SUB) || !len.is_multiple_of(SUB) {
            return Err(FlashError::OutOfBounds { peb, offset, len: len as u32 });
        }
        let block = &self.blocks[peb.at()];
        if block.bad {
            return Err(FlashError::BadBlock { peb });
        }
        if len == 0 {
            return Ok(());
        }
        let spent = block.spent[at / SUB..(at + len) / SUB].contains(&true);
        if spent || self.order != PageOrder::Any && at < block.end() {
            return Err(FlashError::NotErased { peb, offset });
        }
        if self.order == PageOrder::Consecutive && at / PAGE > block.end().div_ceil(PAGE) {
            return Err(FlashError::OutOfOrder { peb, offset });
        }
        if block.programs[at / PAGE..(at + len).div_ceil(PAGE)].iter().any(|&count| count >= self.per_page) {
            return Err(FlashError::NotErased { peb, offset });
        }
        Ok(())
    }
}

fn data(rng: &mut Rng, len: usize) -> Vec<u8> {
    // Now and then erased but for the first byte of each sub-page.
    let sparse = rng.below(4) == 0;
    (0..len).map(|at| if sparse && !at.is_multiple_of(SUB) { 0xff } else { rng.bits() as u8 & 0x7f }).collect()
}

fn agree(array: &mut Array<Bytes>, model: &Model, place: &str) {
    array.check();
    assert_eq!((array.ops_total(), array.bytes_into_cells()), (model.ops, model.bytes), "{place}");
    for (at, block) in model.blocks.iter().enumerate() {
        let peb = Peb(at as u32);
        assert_eq!(array.erase_counts()[at], block.erases, "{place}");
        assert_eq!(Flash::is_bad(array, peb), block.bad, "{place}");
        assert_eq!(array.mark(peb), block.end() as u32, "{place}, PEB {peb}");
        assert_eq!(Flash::programmed_end(array, peb), Some(block.end() as u32), "{place}, PEB {peb}");
        for page in 0..PAGES {
            let mut found = [0; PAGE];
            let offset = (page * PAGE) as u32;
            let result = array.read(&mut Cx::new(), peb, offset, &mut found).map(drop);
            let torn = FlashError::Uncorrectable { peb, offset };
            assert_eq!(result, if block.torn[page] { Err(torn) } else { Ok(()) }, "{place}, PEB {peb}, page {page}");
            assert!(found == block.cells[page * PAGE..][..PAGE], "{place}, PEB {peb}, page {page}");
        }
        // A read of the whole block names the first torn page.
        let first = block.torn.iter().position(|&torn| torn).map(|page| (page * PAGE) as u32);
        let whole = array.read(&mut Cx::new(), peb, 0, &mut [0; BLOCK]).map(drop);
        assert_eq!(whole, first.map_or(Ok(()), |offset| Err(FlashError::Uncorrectable { peb, offset })), "{place}");
    }
}

fn run(config: &ArrayConfig, seed: u64) {
    let mut rng = Seed(seed).stream("test/model");
    let mut array = Array::new(config.clone(), Bytes::new());
    let rules = config.rules;
    let blocks = vec![Block::blank(); 4];
    let mut model = Model { order: rules.order, per_page: rules.programs_per_page, blocks, ops: 0, bytes: 0 };
    let cx = &mut Cx::new();
    for step in 0..80 {
        let place = format!("{:?}, seed {seed}, step {step}", rules);
        let peb = Peb(if rng.below(30) == 0 { 4 } else { rng.below(4) as u32 });
        // Often the next free place, else any; sometimes not in whole sub-pages.
        let end = model.blocks.get(peb.at()).map_or(0, Block::end);
        let mut at = if rng.below(3) == 0 { rng.below(33) as usize * SUB } else { end + rng.below(2) as usize * SUB };
        let mut len = rng.below(10) as usize * SUB;
        if rng.below(20) == 0 {
            at += 64;
        } else if rng.below(20) == 0 {
            len += 64;
        }
        match rng.below(20) {
            0..13 => {
                let data = data(&mut rng, len);
                let expected = model.admits(peb, at, len);
                assert_eq!(array.program(cx, peb, at as u32, Payload::Bytes(&data)), expected, "{place}");
                if expected.is_ok() && len > 0 {
                    model.blocks[peb.at()].program(at, &data);
                    (model.ops, model.bytes) = (model.ops + 1, model.bytes + len as u64);
                }
            }
            13 if peb.at() < 4 => {
                let bad = model.blocks[peb.at()].bad;
                let expected = if bad { Err(FlashError::BadBlock { peb }) } else { Ok(()) };
                assert_eq!(array.erase(cx, peb), expected, "{place}");
                if !bad {
                    model.blocks[peb.at()].erase();
                    model.ops += 1;
                }
            }
            16 if rng.below(4) == 0 && peb.at() < 4 => {
                array.mark_bad(cx, peb).unwrap();
                model.blocks[peb.at()].bad = true;
            }
            17 if model.admits(peb, at, len).is_ok() && len > 0 => {
                // Cut after so many bytes: the page in which it stopped is spent up to the end of what was meant for it.
                let made = (rng.below(len as u64 + 40) as usize).min(len);
                let data = data(&mut rng, len);
                let tear = Tear::Prefix(PrefixBytes::Exactly(made as u32));
                array.set_power_cut(Some(PowerCut::at_op(array.ops(), tear).seen_by_ecc()));
                assert_eq!(
                    array.program(cx, peb, at as u32, Payload::Bytes(&data)),
                    Err(FlashError::PowerLost),
                    "{place}"
                );
                array.power_on();
                model.bytes += made as u64;
                if made > 0 {
                    let block = &mut model.blocks[peb.at()];
                    block.program(at, &data[..made]);
                    let stop = at + made;
                    if made < len && !stop.is_multiple_of(PAGE) {
                        let to = stop.next_multiple_of(PAGE).min(at + len);
                        block.spent[stop / SUB..to / SUB].fill(true);
                        block.torn[stop / PAGE] = true;
                    }
                }
            }
            14 | 15 if model.admits(peb, at, len).is_ok() && len > 0 && !model.is_torn(peb, at, len) => {
                // A page of the program, drawn, is torn: those before it are whole, and it is spent.
                let data = data(&mut rng, len);
                let cut = PowerCut::at_op(array.ops(), Tear::RandomBits).seeded(Seed(rng.bits())).seen_by_ecc();
                array.set_power_cut(Some(cut));
                assert_eq!(
                    array.program(cx, peb, at as u32, Payload::Bytes(&data)),
                    Err(FlashError::PowerLost),
                    "{place}"
                );
                array.power_on();
                let mut found = [0; BLOCK];
                let pages = at / PAGE..(at + len).div_ceil(PAGE);
                let block = &mut model.blocks[peb.at()];
                let torn = pages
                    .into_iter()
                    .find(|&page| array.read(cx, peb, (page * PAGE) as u32, &mut [0; PAGE]).is_err())
                    .expect("ECC sees the torn page");
                let (from, to) = (at.max(torn * PAGE), (at + len).min((torn + 1) * PAGE));
                let _ = array.read(cx, peb, 0, &mut found);
                block.program(at, &data[..from - at]);
                block.programs[torn] += 1;
                block.spent[from / SUB..to / SUB].fill(true);
                block.torn[torn] = true;
                let whole = &data[from - at..to - at];
                assert!(found[from..to].iter().zip(whole).all(|(cell, byte)| cell & byte == *byte), "{place}");
                block.cells[from..to].copy_from_slice(&found[from..to]);
                model.bytes += (to - at) as u64;
            }
            18 if peb.at() < 4 && !model.blocks[peb.at()].bad => {
                // An interrupted erase wears the block; it must be erased again.
                let risen = rng.below(BLOCK as u64 + 1) as usize;
                let tear = Tear::Prefix(PrefixBytes::Exactly(risen as u32));
                array.set_power_cut(Some(PowerCut::at_op(array.ops(), tear).seen_by_ecc()));
                assert_eq!(array.erase(cx, peb), Err(FlashError::PowerLost), "{place}");
                array.power_on();
                let block = &mut model.blocks[peb.at()];
                block.erases += 1;
                block.cells[..risen].fill(0xff);
                block.spent = [true; BLOCK / SUB];
                block.torn = [true; PAGES];
            }
            19 if rng.below(3) == 0 => {
                array = Array::new(config.clone(), array.into_store());
                (model.ops, model.bytes) = (0, 0);
                for block in &mut model.blocks {
                    block.found_again();
                    (block.bad, block.erases) = (false, 0);
                }
            }
            _ => {}
        }
        agree(&mut array, &model, &place);
    }
}

#[test]
fn an_array_takes_what_its_rules_allow_and_nothing_else() {
    for order in [PageOrder::Ascending, PageOrder::Consecutive, PageOrder::Any] {
        for per_page in 1..=4 {
            let mut fast = ArrayConfig::plain(NAND);
            (fast.rules.order, fast.rules.programs_per_page) = (order, per_page);
            let cells = CellTimes { read: Ns(1), program: Ns(1), erase: Ns(1) };
            let timing = Timing::Fixed(Costs { cells, ..Costs::FREE });
            let timed = ArrayConfig { timing, ..fast.clone() };
            let careful = ArrayConfig { faults: Some(FaultPlan::none(Seed(0))), ..fast.clone() };
            for seed in 0..8 {
                [&fast, &timed, &careful].into_iter().for_each(|config| run(config, seed));
            }
        }
    }
}
