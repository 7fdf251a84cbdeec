//! The flash that `nandlab image pack` writes as a whole: its sizes, its bad blocks, and the erase counters before.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use runner::parts::NandPart;
use serde::Serialize;
use sim::Peb;
use sim::seam::Geometry;
use ubi::image::pack::Layout;
use ubi::image::whole::{Before, CounterRule, Counters, OldFlash, set_ec};

use super::load::number32;
use crate::error::CliError;
use crate::output::{NewFile, Overwrite};
use crate::parts::PartDirs;
use ubi::image::PebList;

/// Arguments for a whole flash: the options of `ubiformat`.
#[derive(clap::Args)]
pub struct WholeArgs {
    /// Write all of a flash of this part, as `ubiformat` does: an EC header on every PEB; the part gives the sizes
    #[arg(long, value_name = "PART")]
    whole_flash: Option<String>,
    /// Write all of a flash with this many PEBs [default: those of --whole-flash]
    #[arg(long, value_name = "N", value_parser = number32)]
    pebs: Option<u32>,
    /// With a whole flash: keep the erase counters of this dump of it, with or without OOB, each plus one
    #[arg(long, value_name = "OLD")]
    keep_ec: Option<PathBuf>,
    /// With a whole flash: PEBs that are bad, as 3,17,40-42; they are left out and are 0xFF in the output
    #[arg(long, value_name = "LIST", value_parser = PebList::parse)]
    bad_blocks: Option<PebList>,
    #[command(flatten)]
    parts: PartDirs,
}

/// Most bytes of a flash: more is a mistake.
const MOST_BYTES: u64 = 1 << 40;

impl WholeArgs {
    /// The flash that the arguments describe; `None` if only an image is wanted.
    /// Errors: an unknown part; options that need a whole flash without one.
    pub fn part(&self) -> Result<Option<NandPart>, CliError> {
        let whole = self.whole_flash.is_some() || self.pebs.is_some();
        let lone = [("--keep-ec", self.keep_ec.is_some()), ("--bad-blocks", self.bad_blocks.is_some())];
        if let Some((option, _)) = lone.iter().find(|(_, given)| *given && !whole) {
            let help = "add --whole-flash PART, or --pebs N";
            return Err(CliError::input(Path::new(option), "found it without a whole flash", help));
        }
        let Some(name) = &self.whole_flash else { return Ok(None) };
        let library = self.parts.library()?;
        let part = library.nand(name).map_err(|error| {
            let what = format!("found {}, expected {}", error.found(), error.expected());
            CliError::input(Path::new("--whole-flash"), what, "`nandlab parts` lists all names")
        })?;
        Ok(Some(part.clone()))
    }

    /// PEBs of the flash; `None` if only an image is wanted.
    pub fn pebs(&self, part: Option<&Geometry>) -> Option<u32> {
        self.pebs.or(part.map(|part| part.pebs))
    }

    /// Files that are read.
    pub fn inputs(&self) -> Vec<PathBuf> {
        self.parts.inputs().into_iter().chain(self.keep_ec.clone()).collect()
    }

    /// The erase counters of the flash when it is written. `given` is for all PEBs.
    /// Errors: an old dump that cannot be read or is of another flash; a bad block beyond the flash; too many PEBs.
    pub fn counters(&self, old: &OldShape, given: Option<u64>) -> Result<Counters, CliError> {
        let pebs = old.pebs;
        if pebs == 0 || u64::from(pebs) * u64::from(old.peb_bytes) > MOST_BYTES {
            let what = format!("found {pebs} PEBs of {} bytes, expected 1 PEB to 1 TiB", old.peb_bytes);
            return Err(CliError::input(Path::new("--pebs"), what, "give the PEBs of the flash or partition"));
        }
        let bad = self.bad_blocks.as_ref();
        if let Some(last) = bad.and_then(PebList::last).filter(|&last| last >= pebs) {
            let what = format!("found PEB {last}, expected less than the {pebs} of the flash");
            return Err(CliError::input(Path::new("--bad-blocks"), what, "number PEBs from 0"));
        }
        let is_bad = |peb: u32| bad.is_some_and(|bad| bad.contains(peb));
        let before = match &self.keep_ec {
            Some(path) => old.read(path, &is_bad)?,
            None => (0..pebs).map(|peb| if is_bad(peb) { Before::Bad } else { Before::Empty }).collect(),
        };
        Ok(Counters::after(&before, given))
    }
}

/// Sizes of the flash, to find the headers in an old dump.
pub struct OldShape {
    pub pebs: u32,
    pub peb_bytes: u32,
    pub page_bytes: u32,
    /// OOB of a page, where it is known.
    pub oob_bytes: Option<u32>,
}

impl OldShape {
    /// Reads the EC header and the bad-block marks of each PEB.
    fn read(&self, path: &Path, is_bad: &dyn Fn(u32) -> bool) -> Result<Vec<Before>, CliError> {
        let wrong = |error| CliError::read(path, &error);
        let mut file = File::open(path).map_err(wrong)?;
        let found = file.metadata().map_err(wrong)?.len();
        let oob_bytes = self.oob_of(path, found)?;
        let (page, oob) = (u64::from(self.page_bytes), u64::from(oob_bytes));
        let raw_peb = u64::from(self.peb_bytes) / page * (page + oob);
        // Without OOB the first header; with it the first two pages, which may carry the mark of a bad block.
        let look = if oob == 0 { 64 } else { (2 * (page + oob)).min(raw_peb) };
        let mark_at = nand::array::bad_mark_at(self.page_bytes) as u64;
        let mut old = OldFlash::new(self.page_bytes);
        let mut bytes = vec![0; look as usize];
        for peb in 0..self.pebs {
            file.seek(SeekFrom::Start(u64::from(peb) * raw_peb)).map_err(wrong)?;
            file.read_exact(&mut bytes).map_err(wrong)?;
            let marks = (0..look / (page + oob)).map(|at| at * (page + oob) + page + mark_at);
            let marked = oob > mark_at && marks.into_iter().any(|at| bytes[at as usize] != 0xff);
            match bytes.first_chunk() {
                Some(header) if !marked && !is_bad(peb) => old.good(header),
                _ => old.bad(),
            }
        }
        Ok(old.pebs().to_vec())
    }

    /// OOB of each page in a dump of `found` bytes.
    fn oob_of(&self, path: &Path, found: u64) -> Result<u32, CliError> {
        let expected = u64::from(self.pebs) * u64::from(self.peb_bytes);
        let pages = expected / u64::from(self.page_bytes);
        if found == expected {
            return Ok(0);
        }
        let oob = found.checked_sub(expected).filter(|more| pages > 0 && more.is_multiple_of(pages));
        let oob = oob.and_then(|more| u32::try_from(more / pages).ok());
        match oob.filter(|&oob| self.page_bytes >= 256 && self.oob_bytes.is_none_or(|known| known == oob)) {
            Some(oob) if oob <= self.page_bytes / 4 => Ok(oob),
            _ => {
                let what = format!("found {found} bytes, expected the {expected} of the flash, or these and OOB");
                Err(CliError::input(path, what, "give a dump of the whole flash, as `nanddump --bb=padbad` writes it"))
            }
        }
    }
}

/// What was written, for the JSON document.
#[derive(Serialize)]
pub struct WholeJson {
    pebs: u32,
    bad_pebs: Vec<u32>,
    /// PEBs that had an erase counter before.
    kept_counters: u32,
    counters: &'static str,
}

impl WholeJson {
    pub fn new(counters: &Counters) -> WholeJson {
        WholeJson {
            pebs: counters.pebs(),
            bad_pebs: (0..counters.pebs()).filter(|&peb| counters.of(Peb(peb)).is_none()).collect(),
            kept_counters: counters.known(),
            counters: match counters.rule() {
                CounterRule::Given(_) => "given",
                CounterRule::Zero => "zero",
                CounterRule::Mean(_) => "mean",
                CounterRule::Own { .. } => "own",
            },
        }
    }
}

/// Describes the erase counters.
pub fn told(counters: &Counters) -> String {
    let (known, good) = (counters.known(), counters.good());
    match counters.rule() {
        CounterRule::Given(ec) => format!("erase counter {ec} on all {good} good PEBs"),
        CounterRule::Zero if known == 0 => format!("erase counter 0 on all {good} good PEBs"),
        CounterRule::Zero => {
            format!("erase counter 0 on all {good} good PEBs, as with ubiformat: only {known} had one before")
        }
        CounterRule::Mean(mean) => {
            format!("erase counter {mean}, the mean, on all {good} good PEBs, as with ubiformat: only {known} had one")
        }
        CounterRule::Own { mean } => {
            let rest = if known == good { String::new() } else { format!("; {mean}, the mean, on the others") };
            format!("erase counters of {known} of {good} good PEBs kept, each plus one{rest}")
        }
    }
}

/// A flash that is written PEB by PEB, from the first to the last.
pub struct WholeFlash<'a> {
    out: NewFile<'a>,
    counters: &'a Counters,
    layout: &'a Layout,
    next: u32,
}

impl<'a> WholeFlash<'a> {
    /// Errors: the file cannot be made.
    pub fn create(
        path: &Path,
        overwrite: &'a Overwrite,
        counters: &'a Counters,
        layout: &'a Layout,
    ) -> Result<WholeFlash<'a>, CliError> {
        Ok(WholeFlash { out: NewFile::create(path, overwrite)?, counters, layout, next: 0 })
    }

    /// Writes a PEB of the image to the next good one. The image fits, and each of its PEBs has an EC header.
    pub fn put(&mut self, mut peb: Vec<u8>, image_seq: u32) -> Result<(), CliError> {
        let ec = self.next_counter()?.expect("the image was found to fit");
        set_ec(&mut peb, ec, Some(image_seq)).expect("the image's headers were checked");
        self.out.write(&peb)
    }

    /// Writes the PEBs that are left, and finishes the file.
    pub fn finish(mut self) -> Result<(), CliError> {
        let mut peb = vec![0xff; self.layout.peb_bytes() as usize];
        while let Some(ec) = self.next_counter()? {
            let header = self.layout.ec_hdr(ec);
            peb[..header.len()].copy_from_slice(&header);
            self.out.write(&peb)?;
        }
        self.out.finish()
    }

    /// Writes bad PEBs up to the next good one, and returns its counter.
    fn next_counter(&mut self) -> Result<Option<u64>, CliError> {
        while self.next < self.counters.pebs() {
            self.next += 1;
            if let Some(ec) = self.counters.of(Peb(self.next - 1)) {
                return Ok(Some(ec));
            }
            self.out.write(&vec![0xff; self.layout.peb_bytes() as usize])?;
        }
        Ok(None)
    }
}
