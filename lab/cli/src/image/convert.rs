//! `nandlab image convert`: dumps with and without OOB, one from the other. It need not be UBI.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use nand::array::bad_mark_at;
use nand::{Code, PageEcc};
use serde::Serialize;
use ubi::image::{Dump, Overrides};

use super::ecc::{self, EccJson, PlaceJson, Tally, print_lost};
use super::load::size32;
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile, Overwrite};
use crate::parts::PartDirs;
use ubi::image::PebList;

/// Arguments of `nandlab image convert`.
#[derive(clap::Args)]
pub struct Args {
    /// Dump to read
    input: PathBuf,
    /// Dump to write
    output: PathBuf,
    /// What to write
    #[arg(long)]
    to: Form,
    /// The flash is this part, which gives the sizes
    #[arg(long, value_name = "PART")]
    part: Option<String>,
    /// Bytes of a PEB without OOB, as 131072 or 128KiB [default: that of --part, or guessed of UBI]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    peb_size: Option<u32>,
    /// Bytes of a page [default: that of --part, or guessed of UBI with OOB]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    page_size: Option<u32>,
    /// Bytes of OOB after each page [default: that of --part, or guessed of UBI with OOB]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    oob_size: Option<u32>,
    /// With --to raw: what to do with PEBs that are marked bad in the OOB, as nanddump's option
    #[arg(long, value_name = "METHOD", default_value = "padbad")]
    bb: Bad,
    /// With --to oob: PEBs to mark bad, as 3,17,40-42
    #[arg(long, value_name = "LIST", value_parser = PebList::parse)]
    bad_blocks: Option<PebList>,
    /// Code bytes in the OOB, where Linux's software ECC puts them: hamming, or bch:BITS/STEP [bch: bch:4/512]; --to raw
    /// corrects the pages by them, --to oob writes them
    #[arg(long, value_name = "CODE")]
    ecc: Option<Code>,
    #[command(flatten)]
    parts: PartDirs,
    /// Overwrite the output if it exists
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Form of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Pages only
    Raw,
    /// Each page followed by its OOB, as `nanddump --oob` writes it
    Oob,
}

/// What becomes of a bad PEB without OOB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bad {
    /// 0xFF in its place
    Padbad,
    /// What the dump has
    Dumpbad,
    /// Left out
    Skipbad,
}

/// Sizes of the flash, in bytes.
#[derive(Clone, Copy)]
struct Sizes {
    peb: u32,
    page: u32,
    oob: u32,
}

#[derive(Serialize)]
struct Document {
    file: String,
    bytes: u64,
    peb_bytes: u32,
    page_bytes: u32,
    oob_bytes: u32,
    pages: u64,
    bad_pebs: Vec<u64>,
    ecc: Option<EccJson>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let inputs = args.parts.inputs();
    let overwrite = Overwrite::new(args.force, inputs.iter().map(|path| &**path).chain([&*args.input]));
    overwrite.permit(&args.output)?;
    let sizes = sizes(args)?;
    let failed = |error| CliError::read(&args.input, &error);
    let file = File::open(&args.input).map_err(failed)?;
    let found = file.metadata().map_err(failed)?.len();
    let (page, oob) = (sizes.page as usize, sizes.oob as usize);
    let ecc = args.ecc.map(|code| PageEcc::new(code, sizes.page, sizes.oob)).transpose();
    let ecc = ecc.map_err(|error| ecc::refused(&error.to_string()))?;
    let stride = page + if args.to == Form::Raw { oob } else { 0 };
    if found == 0 || !found.is_multiple_of(stride as u64) {
        let what = format!("found {found} bytes, expected whole pages of {stride} bytes");
        let help = match args.to {
            Form::Raw => "give the sizes of a page and its OOB as the data sheet has them",
            Form::Oob => "give a dump without OOB, and the size of its pages",
        };
        return Err(CliError::input(&args.input, what, help));
    }
    let pages_per_peb = (sizes.peb / sizes.page) as u64;
    if let Some(last) = args.bad_blocks.as_ref().and_then(PebList::last)
        && u64::from(last) * pages_per_peb * stride as u64 >= found
    {
        let what = format!("found PEB {last}, expected one of the dump");
        return Err(CliError::input(Path::new("--bad-blocks"), what, "number PEBs from 0"));
    }
    let mut read = BufReader::with_capacity(1 << 20, file);
    let mut out = NewFile::create(&args.output, &overwrite)?;
    let (mut bytes, mut bad_pebs) = (0, Vec::new());
    let pages = found / stride as u64;
    let (mut block, mut tally) = (Vec::new(), Tally::default());
    for peb in 0..pages.div_ceil(pages_per_peb) {
        let here = (pages - peb * pages_per_peb).min(pages_per_peb) as usize;
        block.resize(here * stride, 0);
        read.read_exact(&mut block).map_err(failed)?;
        let converted = match args.to {
            Form::Raw => {
                let bad = marked(&block, page, oob);
                bad_pebs.extend(bad.then_some(peb));
                if let (Some(ecc), false) = (&ecc, bad) {
                    correct(&mut block, ecc, peb * pages_per_peb, &mut tally);
                }
                without_oob(&block, page, oob, if bad { args.bb } else { Bad::Dumpbad })
            }
            Form::Oob => {
                let bad = args.bad_blocks.as_ref().is_some_and(|list| list.contains(peb as u32));
                bad_pebs.extend(bad.then_some(peb));
                let mut block = with_oob(&block, page, oob, bad);
                if let (Some(ecc), false) = (&ecc, bad) {
                    block.chunks_exact_mut(ecc.raw_bytes()).for_each(|page| ecc.encode(page));
                }
                block
            }
        };
        bytes += converted.len() as u64;
        out.write(&converted)?;
    }
    out.finish()?;
    if args.to == Form::Oob && ecc.is_none() {
        eprintln!("note: OOB is 0xFF but for bad-block marks: no ECC is computed");
    }
    let place = |step| Some(PlaceJson::in_peb(step, pages_per_peb, stride as u64, args.ecc?.step_bytes()));
    let ecc = args.ecc.filter(|_| args.to == Form::Raw).map(|code| EccJson::new(code, &tally, place));
    let lost = ecc.as_ref().map_or(0, |ecc| ecc.uncorrectable);
    let document = Document {
        file: args.output.display().to_string(),
        bytes,
        peb_bytes: sizes.peb,
        page_bytes: sizes.page,
        oob_bytes: sizes.oob,
        pages,
        bad_pebs,
        ecc,
    };
    if args.json {
        output::print_json("nandlab/image-convert/1", &document)?;
    } else {
        let Document { file, bytes, page_bytes, oob_bytes, bad_pebs, .. } = &document;
        let did = if args.to == Form::Oob { "added" } else { "removed" };
        output::print(&format!(
            "{file}: {bytes} bytes; {pages} pages of {page_bytes} bytes, OOB of {oob_bytes} bytes {did}; {} PEBs bad\n",
            bad_pebs.len()
        ))?;
        if let Some(ecc) = &document.ecc {
            output::print(&format!("ECC {}\n", ecc.text()))?;
            print_lost(&args.input, ecc.code(), &ecc.places, lost);
        }
    }
    Ok(if lost == 0 { Outcome::Done } else { Outcome::Failed })
}

/// Corrects the pages of a block, of which the first is number `first` of the dump.
fn correct(block: &mut [u8], ecc: &PageEcc, first: u64, tally: &mut Tally) {
    let mut wrong = Vec::new();
    for (number, page) in (first..).zip(block.chunks_exact_mut(ecc.raw_bytes())) {
        tally.decode(ecc, page, number, &mut wrong);
        wrong.drain(..).for_each(|bit| page[(bit / 8) as usize] ^= 1 << (bit % 8));
    }
}

/// Whether a block has the mark of a bad one in its first two pages.
fn marked(block: &[u8], page: usize, oob: usize) -> bool {
    let at = bad_mark_at(page as u32);
    at < oob && block.chunks_exact(page + oob).take(2).any(|whole| whole[page + at] != 0xff)
}

fn without_oob(block: &[u8], page: usize, oob: usize, bad: Bad) -> Vec<u8> {
    let pages = block.chunks_exact(page + oob);
    match bad {
        Bad::Dumpbad => pages.flat_map(|whole| &whole[..page]).copied().collect(),
        Bad::Padbad => vec![0xff; pages.len() * page],
        Bad::Skipbad => Vec::new(),
    }
}

fn with_oob(block: &[u8], page: usize, oob: usize, bad: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len() / page * (page + oob));
    for (at, cells) in block.chunks_exact(page).enumerate() {
        out.extend_from_slice(cells);
        let from = out.len();
        out.resize(from + oob, 0xff);
        if bad && at == 0 {
            // `sizes` saw that there is room for it.
            out[from + bad_mark_at(page as u32)] = 0;
        }
    }
    out
}

/// The sizes that the user gives, the part has, or the dump of UBI shows.
fn sizes(args: &Args) -> Result<Sizes, CliError> {
    let library = args.parts.library()?;
    let part = match &args.part {
        None => None,
        Some(name) => Some(library.nand(name).map_err(|error| {
            let what = format!("found {}, expected {}", error.found(), error.expected());
            CliError::input(Path::new("--part"), what, "`nandlab parts` lists all names")
        })?),
    };
    let of_part = part.map(|part| part.config.geometry);
    let mut peb = args.peb_size.or(of_part.map(|it| it.peb_bytes));
    let mut page = args.page_size.or(of_part.map(|it| it.page_bytes));
    let mut oob = args.oob_size.or(of_part.map(|it| it.oob_bytes));
    let is_open = peb.is_none() || page.is_none() || oob.is_none();
    if is_open {
        let bytes = fs::read(&args.input).map_err(|error| CliError::read(&args.input, &error))?;
        let given = Overrides { peb_bytes: peb, page_bytes: page, ..Overrides::default() };
        if let Ok(dump) = Dump::probe(&bytes, &given) {
            let seen = dump.geometry();
            peb = peb.or(Some(seen.peb_bytes));
            page = page.or(Some(seen.min_io_bytes));
            oob = oob.or(seen.oob.map(|seen| seen.oob_bytes));
        }
    }
    let (Some(peb), Some(page), Some(oob)) = (peb, page, oob) else {
        let what = "the sizes of PEB, page and OOB are not known";
        return Err(CliError::input(&args.input, what, "give --part, or --peb-size, --page-size and --oob-size"));
    };
    let possible = page >= 256 && page.is_power_of_two() && peb >= page && peb.is_multiple_of(page);
    if !possible || peb > ubi::image::MAX_PEB_BYTES || oob as usize <= bad_mark_at(page) || oob > page {
        let what = format!("found PEBs of {peb} bytes, pages of {page} and OOB of {oob}, expected those of a NAND");
        return Err(CliError::input(&args.input, what, "give --part, or the sizes in the data sheet"));
    }
    Ok(Sizes { peb, page, oob })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oob_goes_where_nanddump_has_it_and_comes_off_again() {
        let pages: Vec<u8> = (0..1024u32).map(|at| at as u8).collect();
        let whole = with_oob(&pages, 512, 16, true);
        assert_eq!((whole.len(), &whole[..512], &whole[528..1040]), (1056, &pages[..512], &pages[512..]));
        // Byte 5 of small pages has the mark.
        let mut oob = [0xff; 16];
        oob[5] = 0;
        assert_eq!((&whole[512..528], &whole[1040..]), (&oob[..], &[0xff; 16][..]));
        assert!(marked(&whole, 512, 16) && !marked(&with_oob(&pages, 512, 16, false), 512, 16));
        assert_eq!(without_oob(&whole, 512, 16, Bad::Dumpbad), pages);
        assert_eq!(without_oob(&whole, 512, 16, Bad::Padbad), [0xff; 1024]);
        assert!(without_oob(&whole, 512, 16, Bad::Skipbad).is_empty());
    }
}
