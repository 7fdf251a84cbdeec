//! Input of the subcommands: the image and what the user knows about it.

use std::path::{Path, PathBuf};

use nand::Code;
use ubi::image::{BadBlocks, Dump, FoundDevice, LeftOut, Oob, Overrides, PebList, ProbeError, Scan, ini};

use super::ecc::{Corrected, EccJson, print_lost};
use super::flash::Known;
use super::input::{Loaded, Part, name};
use crate::Outcome;
use crate::error::CliError;

/// Arguments for the image and its geometry.
#[derive(clap::Args)]
pub struct Source {
    /// UBI image, file system, or dump of a flash, with or without OOB; - for standard input
    pub image: PathBuf,
    #[command(flatten)]
    pub how: How,
}

/// Arguments for reading an image.
#[derive(Clone, clap::Args)]
pub struct How {
    /// Bytes of a PEB without OOB, as 131072 or 128KiB [default: the distance of EC headers]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    peb_size: Option<u32>,
    /// Bytes of a page [default: guessed]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    page_size: Option<u32>,
    /// Bytes of OOB after each page; 0 for none [default: guessed]
    #[arg(long, value_name = "BYTES", value_parser = size32)]
    oob_size: Option<u32>,
    /// Byte offset of the UBI partition in a dump of a whole flash
    #[arg(long, value_name = "BYTES", value_parser = size64, default_value = "0")]
    pub offset: u64,
    /// Number of bytes to read [default: to the end]
    #[arg(long, value_name = "BYTES", value_parser = size64)]
    length: Option<u64>,
    /// Read the device with this image sequence number, where a dump holds several
    #[arg(long, value_name = "N", value_parser = number32)]
    image_seq: Option<u32>,
    /// Bad blocks: PEB numbers as 3,17,40-42; padbad if they are 0xFF in the dump; skipbad if the dump leaves them out,
    /// or skipbad:LIST where it is known which (a fastmap tells too)
    #[arg(long, value_name = "LIST|padbad|skipbad", value_parser = BadBlocks::parse)]
    bad_blocks: Option<BadBlocks>,
    /// Correct the dump by the code bytes in its OOB, where Linux's software ECC puts them: hamming, or bch:BITS/STEP
    /// [bch: bch:4/512]
    #[arg(long, value_name = "CODE")]
    ecc: Option<Code>,
}

impl Source {
    /// Opens the image.
    pub fn load(&self) -> Result<Loaded, CliError> {
        self.how.load(&self.image)
    }

    /// Finds the PEBs. Errors: it is not UBI.
    pub fn probe<'a>(&self, loaded: &'a Loaded) -> Result<Dump<'a>, CliError> {
        self.how.probe(&self.image, loaded)
    }

    /// Prints on standard error what the user should know about this dump, unless the report itself has it.
    pub fn remark(&self, dump: &Dump<'_>) {
        remark(&self.image, dump);
    }

    /// What is known of the flash that is written, apart from sub-pages and PEBs that the image does not have.
    /// Errors: an option for images that can only be read.
    pub fn known(&self) -> Result<Known, CliError> {
        let How { peb_size, page_size, oob_size, image_seq, ref bad_blocks, .. } = self.how;
        self.is_uncorrected()?;
        if image_seq.is_some() {
            let what = "found an image of several devices, expected one that can be written";
            return Err(CliError::input(Path::new("--image-seq"), what, "choose its part with --offset and --length"));
        }
        let bad_blocks = match bad_blocks {
            None => None,
            Some(BadBlocks::Listed(pebs)) => Some(PebList::of(pebs)),
            Some(_) => {
                let what = "found bad blocks without their numbers, expected a list for an image that is written";
                return Err(CliError::input(Path::new("--bad-blocks"), what, "list them: --bad-blocks 3,17"));
            }
        };
        let (peb_bytes, page_bytes, oob_bytes) = (peb_size, page_size, oob_size);
        Ok(Known { peb_bytes, page_bytes, oob_bytes, bad_blocks, ..Known::default() })
    }

    /// Errors: `--ecc`, for an image that is written or has an overlay.
    pub fn is_uncorrected(&self) -> Result<(), CliError> {
        match self.how.ecc {
            None => Ok(()),
            Some(code) => {
                let what = format!("found {code}, expected an image that is only read");
                Err(CliError::input(Path::new("--ecc"), what, "correct it first: `nandlab image convert --to raw`"))
            }
        }
    }

    /// What correction found in the whole dump; `None` without `--ecc`.
    pub fn corrected(&self, loaded: &Loaded, scan: &Scan<'_>) -> Option<EccJson> {
        match loaded {
            Loaded::Corrected(dump) => Some(dump.report(scan, self.how.offset)),
            _ => None,
        }
    }

    /// How a command ends that would end with `outcome`: it fails if a part of what it read could not be corrected, which
    /// is listed on standard error.
    pub fn ended(&self, loaded: &Loaded, scan: &Scan<'_>, outcome: Outcome) -> Outcome {
        self.how.ended(&self.image, loaded, scan, outcome)
    }

    /// As [`ended`](Self::ended), of a file system without UBI. `block_bytes`: of an eraseblock, with OOB.
    pub fn ended_alone(&self, loaded: &Loaded, block_bytes: Option<u64>, outcome: Outcome) -> Outcome {
        let (Loaded::Corrected(dump), Some(block_bytes)) = (loaded, block_bytes) else { return outcome };
        let (report, lost) = dump.in_blocks(block_bytes, self.how.offset);
        eprintln!("note: {}: ECC {}", name(&self.image).display(), report.text());
        print_lost(&self.image, &dump.code().to_string(), &lost, lost.len());
        if lost.is_empty() { outcome } else { Outcome::Failed }
    }

    /// The part of the file that is read.
    pub fn part(&self) -> Part {
        Part { offset: self.how.offset, length: self.how.length }
    }

    /// Name of the image for reports.
    pub fn name(&self) -> String {
        self.image.display().to_string()
    }

    /// Errors: a part of the image could not be read. To be asked before anything is printed.
    pub fn was_read(&self, loaded: &Loaded) -> Result<(), CliError> {
        loaded.was_read(&self.image)
    }

    /// As [`was_read`](Self::was_read). Errors also: the image holds several devices and none was chosen.
    pub fn is_one(&self, loaded: &Loaded, scan: &Scan<'_>) -> Result<(), CliError> {
        self.how.is_one(&self.image, loaded, scan)
    }
}

impl How {
    /// The same, but for the device to read, if one is given.
    pub fn with_image_seq(&self, image_seq: Option<u32>) -> How {
        How { image_seq: image_seq.or(self.image_seq), ..self.clone() }
    }

    /// Opens the image. Beside the piece that is looked at, the commands need less than 1 KiB of memory per PEB.
    pub fn load(&self, image: &Path) -> Result<Loaded, CliError> {
        let loaded = Loaded::open(image, Part { offset: self.offset, length: self.length })?;
        match self.ecc {
            None => Ok(loaded),
            Some(code) => Ok(Loaded::Corrected(Box::new(Corrected::new(image, loaded, code, &self.overrides())?))),
        }
    }

    /// Sizes that the user gave.
    pub fn overrides(&self) -> Overrides {
        let How { peb_size: peb_bytes, page_size: page_bytes, oob_size: oob_bytes, image_seq, .. } = *self;
        Overrides { peb_bytes, page_bytes, oob_bytes, image_seq }
    }

    /// Bad blocks that the user listed, ascending.
    pub fn listed_bad(&self) -> Option<Vec<u32>> {
        let Some(BadBlocks::Listed(pebs)) = &self.bad_blocks else { return None };
        let mut pebs = pebs.clone();
        pebs.sort_unstable();
        Some(pebs)
    }

    /// As [`Source::ended`].
    pub fn ended(&self, image: &Path, loaded: &Loaded, scan: &Scan<'_>, outcome: Outcome) -> Outcome {
        let Loaded::Corrected(dump) = loaded else { return outcome };
        eprintln!("note: {}: ECC {}", name(image).display(), dump.report(scan, self.offset).text());
        let lost = dump.lost(scan, self.offset);
        print_lost(image, &dump.code().to_string(), &lost, lost.len());
        if lost.is_empty() { outcome } else { Outcome::Failed }
    }

    /// Errors: a part of the image could not be read; it holds several devices and none was chosen.
    pub fn is_one(&self, image: &Path, loaded: &Loaded, scan: &Scan<'_>) -> Result<(), CliError> {
        loaded.was_read(image)?;
        match &scan.devices()[..] {
            devices @ [first, _, ..] if self.image_seq.is_none() => {
                let help = format!(
                    "choose one with --image-seq {:#010x}, or its part of the file with --offset and --length",
                    first.image_seq
                );
                Err(CliError::input(name(image), several(devices), help))
            }
            _ => Ok(()),
        }
    }

    /// Finds the PEBs. Errors: it is not UBI, or a listed bad block is not in it.
    pub fn probe<'a>(&self, image: &Path, loaded: &'a Loaded) -> Result<Dump<'a>, CliError> {
        let dump = loaded.probe(&self.overrides());
        if let Loaded::Corrected(dump) = loaded {
            // To look for headers everywhere is not to use what is there.
            dump.forget();
        }
        loaded.was_read(image)?;
        let dump = dump.map_err(|error| {
            let help = match &error {
                ProbeError::NotUbi { help, .. } => {
                    format!("{help}; the flash of a drive (`nandlab run --flash`) has no UBI on it")
                }
                _ => error.help().to_owned(),
            };
            CliError::input(name(image), error.to_string(), help)
        })?;
        match &self.bad_blocks {
            None => Ok(dump),
            Some(bad) => dump.with_bad_blocks(bad).map_err(|error| {
                let help = "number PEBs from 0, at the beginning of the UBI partition: `nandlab image pebs` lists them";
                CliError::input(name(image), error.to_string(), help)
            }),
        }
    }
}

/// Names the devices of a mixture.
fn several(devices: &[FoundDevice]) -> String {
    const NAMED: usize = 8;
    let named = devices.iter().take(NAMED).map(|device| {
        let FoundDevice { image_seq, ec_headers, first_at, last_at, .. } = device;
        format!("image_seq {image_seq:#010x} on {ec_headers} PEBs, which begin at bytes {first_at} to {last_at}")
    });
    let more = match devices.len() {
        n if n > NAMED => format!("; and {} more", n - NAMED),
        _ => String::new(),
    };
    format!("found {} UBI devices, expected one: {}{more}", devices.len(), named.collect::<Vec<_>>().join("; "))
}

/// Prints on standard error what the user should know about this dump, unless the report itself has it.
pub fn remark(image: &Path, dump: &Dump<'_>) {
    let geometry = dump.geometry();
    let name = name(image).display();
    if geometry.start != 0 {
        eprintln!("note: {name}: UBI begins at byte {}: what comes before is left out", geometry.start);
    }
    if let Some(Oob { page_bytes, oob_bytes }) = geometry.oob {
        eprintln!(
            "note: {name}: this dump contains OOB of {oob_bytes} bytes per {page_bytes}-byte page; read without it"
        );
    }
    if geometry.partial_bytes != 0 {
        let (peb, missing) = (geometry.pebs, geometry.missing_bytes());
        eprintln!(
            "note: {name}: truncated: the dump ends inside PEB {peb}, which is left out: {missing} bytes are missing"
        );
    }
    match dump.known_bad().left_out() {
        Some(LeftOut::ByFastmap) => {
            let pebs: Vec<String> = dump.known_bad().pebs().iter().map(u32::to_string).collect();
            let which = if pebs.is_empty() { "none".to_owned() } else { pebs.join(", ") };
            eprintln!("note: {name}: bad blocks that the dump leaves out, by its fastmap: {which}");
        }
        Some(LeftOut::Unknown) => eprintln!(
            "note: {name}: the dump leaves bad blocks out, and no fastmap says which: PEB numbers are those in the dump"
        ),
        Some(LeftOut::Listed) | None => {}
    }
}

/// Parses a size: a number of bytes, or of KiB, MiB or GiB.
pub fn size64(text: &str) -> Result<u64, String> {
    ini::size(text.as_bytes()).ok_or_else(|| "expected bytes, or a whole number with KiB, MiB or GiB".to_owned())
}

/// As [`size64`], for sizes below 4 GiB.
pub fn size32(text: &str) -> Result<u32, String> {
    u32::try_from(size64(text)?).map_err(|_| "expected less than 4 GiB".to_owned())
}

/// Parses a number in decimal, as 0x…, or as 0… in octal.
pub fn number32(text: &str) -> Result<u32, String> {
    let number = ini::number(text.as_bytes()).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| "expected a number from 0 to 4294967295, in decimal or as 0x…".to_owned())
}
