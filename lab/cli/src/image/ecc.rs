//! Correction of a dump by the code bytes in its OOB.
//!
//! The whole dump is decoded once, when it is opened. What is kept are the wrong bits, which each read of the bytes puts
//! right, and the steps that have more of them than the code corrects.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use nand::{Code, PageEcc};
use serde::Serialize;
use ubi::image::{Input, Overrides, PebState, Scan};

use super::info::counted;
use super::input::{Loaded, name};
use crate::error::CliError;

/// Bytes that are decoded in one piece, about.
const PIECE: usize = 1 << 20;
/// Steps listed in a JSON document.
const MOST_LISTED: usize = 10_000;
/// Steps listed in a terminal.
const MOST_SHOWN: usize = 32;

/// A step in a dump: pages are numbered from the beginning of the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    page: u64,
    step: u32,
}

/// What decoding found.
#[derive(Debug, Default)]
pub struct Tally {
    /// Steps decoded.
    steps: u64,
    /// Wrong bits of each step that was corrected.
    corrected: Vec<(Step, u32)>,
    /// Steps that could not be.
    lost: Vec<Step>,
}

impl Tally {
    /// Decodes a page and its OOB, the `page`-th of the dump. Appends its wrong bits to `wrong`, as numbers in the page.
    pub fn decode(&mut self, ecc: &PageEcc, raw: &[u8], page: u64, wrong: &mut Vec<u64>) {
        for step in 0..ecc.steps() as u32 {
            let (at, before) = (Step { page, step }, wrong.len());
            self.steps += 1;
            match ecc.wrong_bits(raw, step as usize, wrong) {
                Ok(()) if wrong.len() == before => {}
                Ok(()) => self.corrected.push((at, (wrong.len() - before) as u32)),
                Err(_) => self.lost.push(at),
            }
        }
    }
}

/// A dump that is corrected as it is read.
#[derive(Debug)]
pub struct Corrected {
    raw: Box<Loaded>,
    ecc: PageEcc,
    /// Byte at which the first page begins.
    start: u64,
    /// Numbers of the wrong bits, from bit 0 of byte 0 of the dump on, ascending.
    wrong: Vec<u64>,
    tally: Tally,
    /// Steps that were read and could not be corrected.
    touched: RefCell<BTreeSet<Step>>,
}

impl Corrected {
    /// Decodes `raw`, with sizes as given, or guessed of UBI.
    /// Errors: sizes that are not known; a code that does not fit them.
    pub fn new(image: &Path, raw: Loaded, code: Code, given: &Overrides) -> Result<Corrected, CliError> {
        let seen = raw.probe(given).ok().map(|dump| dump.geometry().clone());
        let oob = seen.as_ref().and_then(|seen| seen.oob);
        let page = given.page_bytes.or(oob.map(|oob| oob.page_bytes));
        let oob = given.oob_bytes.or(oob.map(|oob| oob.oob_bytes)).filter(|&oob| oob > 0);
        let (Some(page), Some(oob)) = (page, oob) else {
            let what = "the sizes of a page and its OOB are not known, expected a dump with OOB";
            return Err(CliError::input(name(image), what, "give --page-size and --oob-size, or leave --ecc out"));
        };
        let ecc = PageEcc::new(code, page, oob).map_err(|error| refused(&error.to_string()))?;
        let whole = ecc.raw_bytes() as u64;
        let start = seen.map_or(0, |seen| seen.start % whole);
        let pages = (raw.bytes() - start.min(raw.bytes())) / whole;
        let (mut wrong, mut in_page, mut tally) = (Vec::new(), Vec::new(), Tally::default());
        let at_once = (PIECE / ecc.raw_bytes()).max(1) as u64;
        let mut piece = Vec::new();
        for first in (0..pages).step_by(at_once as usize) {
            let count = at_once.min(pages - first);
            piece.clear();
            raw.read(start + first * whole, (count * whole) as usize, &mut piece);
            for (number, page) in (first..).zip(piece.chunks_exact(whole as usize)) {
                tally.decode(&ecc, page, number, &mut in_page);
                in_page.sort_unstable();
                wrong.extend(in_page.drain(..).map(|bit| 8 * (start + number * whole) + bit));
            }
        }
        Ok(Corrected { raw: Box::new(raw), ecc, start, wrong, tally, touched: RefCell::default() })
    }

    /// The dump as it is.
    pub fn raw(&self) -> &Loaded {
        &self.raw
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.ecc.code()
    }

    /// Forgets which steps were read.
    pub fn forget(&self) {
        self.touched.borrow_mut().clear();
    }

    /// What was found in the PEBs that are not bad. `offset`: bytes of the file before the dump.
    pub fn report(&self, scan: &Scan<'_>, offset: u64) -> EccJson {
        let place = |step: Step| self.place(scan, step, offset);
        EccJson::new(self.ecc.code(), &self.tally, place)
    }

    /// What could not be corrected of that which was read, in PEBs that are not bad. `offset` as in [`report`](Self::report).
    pub fn lost(&self, scan: &Scan<'_>, offset: u64) -> Vec<PlaceJson> {
        self.touched.borrow().iter().filter_map(|&step| self.place(scan, step, offset)).collect()
    }

    /// As [`report`](Self::report) and [`lost`](Self::lost), of a flash without UBI whose blocks have so many bytes with OOB.
    pub fn in_blocks(&self, block_bytes: u64, offset: u64) -> (EccJson, Vec<PlaceJson>) {
        let (whole, step_bytes) = (self.ecc.raw_bytes() as u64, self.ecc.code().step_bytes());
        let pages = (block_bytes / whole).max(1);
        let place = |step: Step| {
            let place = PlaceJson::in_peb(step, pages, whole, step_bytes);
            PlaceJson { file_offset: place.file_offset + self.start + offset, ..place }
        };
        let report = EccJson::new(self.ecc.code(), &self.tally, |step| Some(place(step)));
        (report, self.touched.borrow().iter().map(|&step| place(step)).collect())
    }

    /// Where a step is; `None` in a bad PEB. What is before or behind the PEBs has none.
    fn place(&self, scan: &Scan<'_>, Step { page, step }: Step, offset: u64) -> Option<PlaceJson> {
        let at = self.start + page * self.ecc.raw_bytes() as u64;
        let file_offset = at + u64::from(step * self.ecc.code().step_bytes()) + offset;
        let Some((peb, raw_offset)) = scan.dump().peb_at(at) else {
            return Some(PlaceJson { peb: None, page, step, offset: None, file_offset });
        };
        let is_bad = matches!(scan.pebs().get(peb.at()), Some(PebState::Bad(_)));
        let page = u64::from(raw_offset) / self.ecc.raw_bytes() as u64;
        let offset = page as u32 * self.ecc.page_bytes() as u32 + step * self.ecc.code().step_bytes();
        (!is_bad).then_some(PlaceJson { peb: Some(peb.0), page, step, offset: Some(offset), file_offset })
    }

    fn step_at(&self, page: u64, in_page: u64) -> Step {
        Step { page, step: (in_page / u64::from(self.ecc.code().step_bytes())) as u32 }
    }

    /// Notes the steps among `length` bytes from `at` on that could not be corrected.
    fn touch(&self, at: u64, length: u64) {
        if self.tally.lost.is_empty() || length == 0 {
            return;
        }
        let whole = self.ecc.raw_bytes() as u64;
        let place = |byte: u64| (byte / whole, (byte % whole).min(self.ecc.page_bytes() as u64));
        let (first, last) = (at.saturating_sub(self.start), (at + length - 1).saturating_sub(self.start));
        let (page, in_page) = place(first);
        // From the OOB on, the next step is that of the next page.
        let from = match in_page == self.ecc.page_bytes() as u64 {
            true => Step { page: page + 1, step: 0 },
            false => self.step_at(page, in_page),
        };
        let (page, in_page) = place(last);
        let to = self.step_at(page, in_page.min(self.ecc.page_bytes() as u64 - 1));
        let lost = &self.tally.lost;
        let some = lost.partition_point(|&step| step < from)..lost.partition_point(|&step| step <= to);
        if !some.is_empty() {
            self.touched.borrow_mut().extend(&lost[some]);
        }
    }
}

impl Input for Corrected {
    fn bytes(&self) -> u64 {
        self.raw.bytes()
    }

    fn read(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        let from = into.len();
        self.raw.read(at, length, into);
        let bytes = &mut into[from..];
        self.touch(at, bytes.len() as u64);
        let end = at + bytes.len() as u64;
        let first = self.wrong.partition_point(|&bit| bit / 8 < at);
        for &bit in self.wrong[first..].iter().take_while(|&&bit| bit / 8 < end) {
            bytes[(bit / 8 - at) as usize] ^= 1 << (bit % 8);
        }
    }
}

/// A code that does not fit.
pub fn refused(what: &str) -> CliError {
    let help = "give the code that the flash was written with: hamming, or bch:BITS/STEP as of nandsim's bch=BITS";
    CliError::input(Path::new("--ecc"), what, help)
}

/// A step that could not be corrected.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceJson {
    /// `None` outside the PEBs.
    pub peb: Option<u32>,
    /// In the PEB, or in the dump.
    pub page: u64,
    pub step: u32,
    /// In the PEB, without OOB.
    #[serde(skip)]
    pub offset: Option<u32>,
    pub file_offset: u64,
}

/// What decoding found, in PEBs that are not bad.
#[derive(Debug, Serialize)]
pub struct EccJson {
    code: String,
    /// Of all PEBs.
    steps: u64,
    corrected_steps: u64,
    corrected_bits: u64,
    /// In one step.
    most_bits: u32,
    pub uncorrectable: usize,
    /// The first of them.
    pub places: Vec<PlaceJson>,
}

impl EccJson {
    /// `place` of a step, `None` where it does not count.
    pub fn new(code: Code, tally: &Tally, place: impl Fn(Step) -> Option<PlaceJson>) -> EccJson {
        let counting: Vec<u32> =
            tally.corrected.iter().filter(|(step, _)| place(*step).is_some()).map(|&(_, bits)| bits).collect();
        let mut places: Vec<PlaceJson> = tally.lost.iter().filter_map(|&step| place(step)).collect();
        let uncorrectable = places.len();
        places.truncate(MOST_LISTED);
        EccJson {
            code: code.to_string(),
            steps: tally.steps,
            corrected_steps: counting.len() as u64,
            corrected_bits: counting.iter().map(|&bits| u64::from(bits)).sum(),
            most_bits: counting.iter().copied().max().unwrap_or(0),
            uncorrectable,
            places,
        }
    }

    /// The code, as `--ecc` has it.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// In a sentence.
    pub fn text(&self) -> String {
        let EccJson { code, steps, corrected_steps, corrected_bits, most_bits, uncorrectable, .. } = self;
        let bits = counted(*corrected_bits as usize, "bit");
        let mut text = format!("{code}: {bits} corrected in {corrected_steps} of {steps} steps");
        if *corrected_bits > 0 {
            let _ = write!(text, ", at most {most_bits} in one");
        }
        if *uncorrectable > 0 {
            let _ = write!(text, "; {} not correctable", counted(*uncorrectable, "step"));
        }
        text
    }
}

impl PlaceJson {
    /// A page of PEB `peb` in a dump that need not be UBI.
    pub fn in_peb(step: Step, pages_per_peb: u64, raw_bytes: u64, step_bytes: u32) -> PlaceJson {
        let Step { page, step } = step;
        PlaceJson {
            peb: Some((page / pages_per_peb) as u32),
            page: page % pages_per_peb,
            step,
            offset: None,
            file_offset: page * raw_bytes + u64::from(step * step_bytes),
        }
    }

    /// As "PEB 3, page 7, step 2 (byte 400)".
    pub fn text(&self) -> String {
        let PlaceJson { peb, page, step, file_offset, .. } = self;
        let peb = peb.map_or(String::new(), |peb| format!("PEB {peb}, "));
        format!("{peb}page {page}, step {step} (byte {file_offset})")
    }
}

/// Lists steps that could not be corrected on standard error: `lost` of them, `places` the first.
pub fn print_lost(image: &Path, code: &str, places: &[PlaceJson], lost: usize) {
    let name = name(image).display();
    for place in places.iter().take(MOST_SHOWN) {
        eprintln!("error: {name}: {}: more wrong bits than {code} corrects", place.text());
    }
    if lost > MOST_SHOWN {
        eprintln!("error: {name}: {} more steps with more wrong bits than {code} corrects", lost - MOST_SHOWN);
    }
}
