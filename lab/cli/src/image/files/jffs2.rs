//! The eraseblocks of JFFS2: those of a flash whose bytes are in the file, or the LEBs of a volume.

use std::path::Path;

use fs::jffs2::image::{Bytes, Found, Why, detect, probe, stray_words};
use fs::jffs2::media::Endian;
use fs::jffs2::{Gluebi, Jffs2, Jffs2Error, Options};
use sim::seam::{Flash, FlashError, Geometry, Medium, Payload, ReadStatus};
use sim::{Cx, Peb};
use ubi::image::{ImageVolume, Overrides};

use crate::error::CliError;
use crate::image::input::{self, Loaded};
use crate::image::load::Source;

/// Sizes of a page and its OOB that are tried where the user gives none.
const LAYOUTS: [(u32, u32); 7] =
    [(2048, 64), (512, 16), (2048, 128), (4096, 128), (4096, 224), (4096, 256), (8192, 448)];
/// Bytes that are looked at to choose among them.
const LOOK: u64 = 1 << 20;
/// Eraseblocks that may be given.
const BLOCKS: std::ops::RangeInclusive<u32> = 4096..=16 << 20;
/// More blocks with a mark than one in so many: the marks are taken for something else, such as ECC.
const FEW: u32 = 8;

/// The bytes of a flash, without OOB.
#[derive(Clone, Debug)]
struct Pages<'a> {
    image: &'a Loaded,
    /// Bytes of a page and of the OOB after it.
    oob: Option<(u32, u32)>,
    scratch: Vec<u8>,
    /// Windows of the file that were read as a whole, each in the place of its number, with which one it is.
    windows: Vec<(u64, Vec<u8>)>,
}

/// Bytes of a window.
const WINDOW: usize = 64 << 10;
/// Windows that are kept: a file is read twice, its nodes when it is opened and its data after that.
const WINDOWS: usize = 32;

impl Pages<'_> {
    /// Fills `into` from windows: nodes are small and follow one another. False where that is of no use, or counts what
    /// was read: of a dump that is corrected each read is looked at.
    fn read_windows(&mut self, at: u64, into: &mut [u8]) -> bool {
        if self.oob.is_some() || into.len() > WINDOW / 2 || !matches!(self.image, Loaded::File(_)) {
            return false;
        }
        self.windows.resize_with(WINDOWS, || (u64::MAX, Vec::new()));
        let mut done = 0;
        while done < into.len() {
            let (number, offset) = ((at + done as u64) / WINDOW as u64, (at + done as u64) as usize % WINDOW);
            let (held, bytes) = &mut self.windows[number as usize % WINDOWS];
            if *held != number {
                bytes.clear();
                self.image.read(number * WINDOW as u64, WINDOW, bytes);
                *held = number;
            }
            let part = (into.len() - done).min(WINDOW - offset);
            let Some(from) = bytes.get(offset..offset + part) else { return false };
            into[done..done + part].copy_from_slice(from);
            done += part;
        }
        true
    }

    /// Where a byte is in the file.
    fn raw(&self, at: u64) -> u64 {
        match self.oob {
            None => at,
            Some((page, oob)) => at / u64::from(page) * u64::from(page + oob) + at % u64::from(page),
        }
    }
}

impl Bytes for Pages<'_> {
    fn len(&self) -> u64 {
        let raw = self.image.bytes();
        match self.oob {
            None => raw,
            Some((page, oob)) => {
                let whole = u64::from(page + oob);
                raw / whole * u64::from(page) + (raw % whole).min(page.into())
            }
        }
    }

    fn read(&mut self, at: u64, into: &mut [u8]) {
        if self.read_windows(at, into) {
            return;
        }
        into.fill(0xff);
        let mut done = 0;
        while done < into.len() {
            let at = at + done as u64;
            let rest = into.len() - done;
            let part = self.oob.map_or(rest, |(page, _)| rest.min((u64::from(page) - at % u64::from(page)) as usize));
            self.scratch.clear();
            self.image.read(self.raw(at), part, &mut self.scratch);
            into[done..done + self.scratch.len()].copy_from_slice(&self.scratch);
            done += part;
        }
    }
}

/// JFFS2 in a file without UBI.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    pages: Pages<'a>,
    found: Found,
    /// Bad blocks, ascending.
    bad: Vec<u32>,
}

impl<'a> Image<'a> {
    /// The image, if its bytes are those of JFFS2.
    /// Errors: a size of eraseblocks that there is none of.
    pub fn open(source: &Source, image: &'a Loaded) -> Result<Option<Image<'a>>, CliError> {
        let Overrides { peb_bytes, page_bytes, oob_bytes, .. } = source.how.overrides();
        let pages = |oob| Pages { image, oob, scratch: Vec::new(), windows: Vec::new() };
        let given = match (page_bytes, oob_bytes) {
            (_, Some(0)) => Some(None),
            (Some(page @ 1..), Some(oob)) => Some(Some((page, oob))),
            _ => None,
        };
        let mut chosen = pages(given.flatten());
        let Some(endian) = detect(&mut chosen) else { return Ok(None) };
        if given.is_none() {
            let mut least = stray_words(&mut chosen, endian, LOOK);
            for (page, oob) in LAYOUTS {
                if least > 0 && image.bytes().is_multiple_of(u64::from(page + oob)) {
                    let mut other = pages(Some((page, oob)));
                    let stray = stray_words(&mut other, endian, LOOK);
                    if stray < least {
                        (least, chosen) = (stray, other);
                    }
                }
            }
        }
        if let Some(bytes) = peb_bytes.filter(|bytes| !BLOCKS.contains(bytes) || !bytes.is_multiple_of(4)) {
            let what = format!("PEB size {bytes} was given, expected 4096 bytes to 16 MiB");
            return Err(CliError::input(input::name(&source.image), what, "leave --peb-size out, and it is guessed"));
        }
        let found = probe(&mut chosen, endian, peb_bytes);
        let mut opened = Image { pages: chosen, found, bad: Vec::new() };
        opened.bad = match source.how.listed_bad() {
            Some(listed) => listed,
            None => opened.marked_bad(),
        };
        if let Loaded::Corrected(dump) = image {
            // To look for nodes everywhere is not to use what is there.
            dump.forget();
        }
        Ok(Some(opened))
    }

    fn blocks(&self) -> u32 {
        u32::try_from(self.pages.len().div_ceil(self.found.block_bytes.into())).unwrap_or(u32::MAX)
    }

    /// Blocks with a mark in the OOB of their first or second page.
    fn marked_bad(&self) -> Vec<u32> {
        let Some((page, oob)) = self.pages.oob else { return Vec::new() };
        let mark_at = nand::array::bad_mark_at(page) as u64;
        if mark_at >= u64::from(oob) {
            return Vec::new();
        }
        let mut byte = Vec::new();
        let mut is_marked = |block: &u32| {
            let first = u64::from(*block) * u64::from(self.found.block_bytes);
            [first, first + u64::from(page)].into_iter().any(|at| {
                byte.clear();
                self.pages.image.read(self.pages.raw(at) + u64::from(page) + mark_at, 1, &mut byte);
                byte.first().is_some_and(|&byte| byte != 0xff)
            })
        };
        let marked: Vec<u32> = (0..self.blocks()).filter(|block| is_marked(block)).collect();
        if marked.len() as u32 > self.blocks() / FEW { Vec::new() } else { marked }
    }

    /// Bytes of a block with OOB.
    pub fn raw_block_bytes(&self) -> u64 {
        self.pages.raw(self.found.block_bytes.into())
    }

    /// What must be known to write it.
    pub fn shape(self) -> Shape {
        let raw_block_bytes = self.raw_block_bytes();
        let Found { endian, block_bytes, has_markers, has_summaries, missing_bytes, .. } = self.found;
        let (oob, bad) = (self.pages.oob, self.bad);
        Shape { endian, block_bytes, raw_block_bytes, has_markers, has_summaries, missing_bytes, oob, bad }
    }
}

/// The flash that an image with JFFS2 is of.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Byte order of the nodes.
    pub endian: Endian,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a block with OOB.
    pub raw_block_bytes: u64,
    /// Clean markers are in the blocks, as on NOR.
    pub has_markers: bool,
    /// Blocks have summaries.
    pub has_summaries: bool,
    /// Bytes of the last node that are missing, since the image ends inside it.
    pub missing_bytes: u64,
    /// Bytes of a page and of the OOB after it, where the image has it.
    pub oob: Option<(u32, u32)>,
    /// Bad blocks, ascending.
    pub bad: Vec<u32>,
}

enum Place<'s, 'a> {
    Image(Image<'a>),
    Volume(Gluebi<ImageVolume<'s, 'a>>),
}

/// The eraseblocks, for reading.
pub struct Blocks<'s, 'a> {
    geometry: Geometry,
    place: Place<'s, 'a>,
}

impl<'s, 'a> Blocks<'s, 'a> {
    /// Those of a flash. The last one may be cut off: what is missing reads as 0xFF.
    pub fn of_image(image: Image<'a>) -> Blocks<'s, 'a> {
        // Where clean markers are in the blocks, it is NOR, or as good.
        let medium = if image.found.has_markers { Medium::Nor } else { Medium::Nand };
        let page_bytes = if image.found.has_markers { 1 } else { 512 };
        let geometry = Geometry {
            medium,
            pebs: image.blocks(),
            peb_bytes: image.found.block_bytes,
            page_bytes,
            subpage_bytes: page_bytes,
            oob_bytes: 0,
        };
        Blocks { geometry, place: Place::Image(image) }
    }

    /// The LEBs of a volume. Those that no PEB holds read as 0xFF.
    pub fn of_volume(volume: ImageVolume<'s, 'a>) -> Blocks<'s, 'a> {
        let volume = Gluebi::new(volume);
        Blocks { geometry: *volume.geometry(), place: Place::Volume(volume) }
    }

    /// How the size of an eraseblock is known.
    pub fn why(&self) -> &'static str {
        match &self.place {
            Place::Image(image) => image.found.why.name(),
            Place::Volume(_) => "that of a LEB",
        }
    }

    /// Bytes of the last node that are missing, since the image ends inside it.
    pub fn missing_bytes(&self) -> u64 {
        match &self.place {
            Place::Image(image) => image.found.missing_bytes,
            Place::Volume(_) => 0,
        }
    }

    /// Bytes of a block, and number of blocks.
    pub fn size(&self) -> (u32, u32) {
        (self.geometry.peb_bytes, self.geometry.pebs)
    }

    /// Whether the user gave it.
    pub fn is_given(&self) -> bool {
        matches!(&self.place, Place::Image(image) if image.found.why == Why::Given)
    }

    /// Bytes of a page and its OOB, where the dump has it.
    pub fn oob(&self) -> Option<(u32, u32)> {
        match &self.place {
            Place::Image(image) => image.pages.oob,
            Place::Volume(_) => None,
        }
    }

    /// Mounts the file system for reading.
    /// Errors: it cannot be mounted.
    pub fn mount(self, cx: &mut Cx) -> Result<Jffs2<Blocks<'s, 'a>>, Jffs2Error> {
        let endian = match &self.place {
            Place::Image(image) => Some(image.found.endian),
            Place::Volume(_) => None,
        };
        let options = Options { endian, read_only: true, summary: true, verify_summary: true, ..Options::default() };
        Jffs2::mount(self, cx, options)
    }
}

impl Flash for Blocks<'_, '_> {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        let len = u32::try_from(buf.len()).unwrap_or(u32::MAX);
        let Geometry { pebs, peb_bytes, .. } = self.geometry;
        if peb.0 >= pebs || offset > peb_bytes || len > peb_bytes - offset {
            return Err(FlashError::OutOfBounds { peb, offset, len });
        }
        match &mut self.place {
            Place::Image(image) => {
                image.pages.read(u64::from(peb.0) * u64::from(peb_bytes) + u64::from(offset), buf);
            }
            Place::Volume(volume) => return volume.read(cx, peb, offset, buf),
        }
        Ok(ReadStatus::default())
    }

    fn program(&mut self, _: &mut Cx, peb: Peb, offset: u32, _: Payload<'_>) -> Result<(), FlashError> {
        Err(FlashError::ProgramFailed { peb, offset })
    }

    fn erase(&mut self, _: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        Err(FlashError::EraseFailed { peb })
    }

    fn is_bad(&self, peb: Peb) -> bool {
        matches!(&self.place, Place::Image(image) if image.bad.binary_search(&peb.0).is_ok())
    }

    fn mark_bad(&mut self, _: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        Err(FlashError::BadBlock { peb })
    }
}

/// Why a file system cannot be read, for the command line.
pub fn refused(image: &Path, error: &Jffs2Error) -> CliError {
    let help = match error {
        Jffs2Error::Geometry { .. } => {
            "give the size of an eraseblock with --peb-size, or a part with --offset and --length"
        }
        Jffs2Error::Feature { .. } => "mount it with Linux",
        _ => "`nandlab image check` lists what is damaged; `nandlab image extract` gives what is whole",
    };
    CliError::input(input::name(image), error.to_string(), help)
}
