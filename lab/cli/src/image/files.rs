//! The file system in an image: UBIFS in a UBI volume, or alone in a file.

pub mod describe;
pub mod list;
pub mod restore;
pub mod walk;

use std::path::Path;

use fs::ubifs::media::{HEADER_BYTES, Header, NodeType, SuperBlock};
use fs::ubifs::{Reader, UbifsError};
use sim::seam::{LebError, LebVolume, Payload};
use sim::{Cx, Lnum};
use ubi::image::{ImageVolume, Scan, Volume};

use super::input::Loaded;
use super::load::Source;
use super::ls::printable;
use crate::Outcome;
use crate::error::CliError;

/// What a volume holds, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Nothing: no LEB is mapped, or the first one is erased.
    Nothing,
    /// UBIFS.
    Ubifs,
    /// Squashfs.
    Squashfs,
    /// Something else.
    Raw,
}

impl Holds {
    /// What volume `volume` of a scanned image holds.
    pub fn of(scan: &Scan<'_>, volume: &Volume) -> Holds {
        let mut first = [0xff; HEADER_BYTES];
        let len = first.len().min(volume.usable_leb_bytes as usize);
        match ImageVolume::new(scan, volume.clone()).read(&mut Cx::new(), Lnum(0), 0, &mut first[..len]) {
            Ok(()) => Holds::by(&first),
            Err(_) => Holds::Nothing,
        }
    }

    fn by(first: &[u8; HEADER_BYTES]) -> Holds {
        let is_super = |header: Header| header.node_type == NodeType::SuperBlock;
        match first {
            first if first.iter().all(|&byte| byte == 0xff) => Holds::Nothing,
            [b'h', b's', b'q', b's', ..] => Holds::Squashfs,
            first if Header::peek(first).is_ok_and(is_super) => Holds::Ubifs,
            _ => Holds::Raw,
        }
    }

    /// Name in tables and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Holds::Nothing => "nothing",
            Holds::Ubifs => "ubifs",
            Holds::Squashfs => "squashfs",
            Holds::Raw => "raw",
        }
    }
}

/// The LEBs of a file system.
#[derive(Debug)]
pub enum Lebs<'s, 'a> {
    /// A volume of a UBI image.
    Volume(ImageVolume<'s, 'a>),
    /// A file that begins with LEB 0.
    Bare(Bare<'a>),
}

/// Most LEBs of a volume that an image without UBI is taken to be made for.
const MOST_LEBS: u32 = 1 << 20;

/// An image of UBIFS without UBI, as mkfs.ubifs writes it.
#[derive(Debug)]
pub struct Bare<'a> {
    image: &'a Loaded,
    leb_bytes: u32,
    min_io_bytes: u32,
    lebs: u32,
    scratch: Vec<u8>,
}

impl<'a> Bare<'a> {
    /// The image, if it begins with a super block.
    pub fn open(image: &'a Loaded) -> Option<Bare<'a>> {
        if matches!(image, Loaded::Corrected(_)) {
            // Pages with OOB are those of a flash, and UBI is on it.
            return None;
        }
        let mut first = Vec::new();
        image.read(0, SuperBlock::BYTES, &mut first);
        let BareVolume { leb_bytes, min_io_bytes, lebs } = BareVolume::of(&first, image.bytes())?;
        Some(Bare { image, leb_bytes, min_io_bytes, lebs, scratch: Vec::new() })
    }
}

/// The volume that an image of UBIFS without UBI is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareVolume {
    /// Bytes of a LEB.
    pub leb_bytes: u32,
    /// Write unit in bytes.
    pub min_io_bytes: u32,
    /// LEBs.
    pub lebs: u32,
}

impl BareVolume {
    /// The volume of an image of `bytes` bytes, if `first`, its beginning, is a super block.
    pub fn of(first: &[u8], bytes: u64) -> Option<BareVolume> {
        let (_, node) = Header::expect(first.get(..SuperBlock::BYTES)?, NodeType::SuperBlock).ok()?;
        let sb = SuperBlock::decode(node).ok()?;
        if sb.leb_bytes == 0 {
            return None;
        }
        let there = u32::try_from(bytes.div_ceil(sb.leb_bytes.into())).unwrap_or(u32::MAX);
        // The volume that the image is made for may be larger, and reads as 0xFF there.
        let lebs = if there < sb.lebs { there } else { there.max(sb.max_lebs.min(MOST_LEBS)) };
        Some(BareVolume { leb_bytes: sb.leb_bytes, min_io_bytes: sb.min_io_bytes, lebs })
    }
}

impl LebVolume for Lebs<'_, '_> {
    fn keeps_bytes() -> bool {
        true
    }

    fn lebs(&self) -> u32 {
        match self {
            Lebs::Volume(volume) => volume.lebs(),
            Lebs::Bare(bare) => bare.lebs,
        }
    }

    fn leb_bytes(&self) -> u32 {
        match self {
            Lebs::Volume(volume) => volume.leb_bytes(),
            Lebs::Bare(bare) => bare.leb_bytes,
        }
    }

    fn min_io_bytes(&self) -> u32 {
        match self {
            Lebs::Volume(volume) => volume.min_io_bytes(),
            Lebs::Bare(bare) => bare.min_io_bytes,
        }
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        let bare = match self {
            Lebs::Volume(volume) => return volume.read(cx, lnum, offset, buf),
            Lebs::Bare(bare) => bare,
        };
        let at = u64::from(lnum.0) * u64::from(bare.leb_bytes) + u64::from(offset);
        let there = (buf.len() as u64).min(bare.image.bytes().saturating_sub(at)) as usize;
        bare.scratch.clear();
        bare.image.read(at, there, &mut bare.scratch);
        buf[..there].copy_from_slice(&bare.scratch);
        buf[there..].fill(0xff);
        Ok(())
    }

    fn write(&mut self, _: &mut Cx, lnum: Lnum, _: u32, _: Payload<'_>) -> Result<(), LebError> {
        Err(read_only(lnum))
    }

    fn change(&mut self, _: &mut Cx, lnum: Lnum, _: Payload<'_>) -> Result<(), LebError> {
        Err(read_only(lnum))
    }

    fn map(&mut self, _: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        Err(read_only(lnum))
    }

    fn unmap(&mut self, _: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        Err(read_only(lnum))
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        match self {
            Lebs::Volume(volume) => volume.is_mapped(lnum),
            Lebs::Bare(bare) => lnum.0 < bare.lebs,
        }
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), LebError> {
        Ok(())
    }
}

fn read_only(lnum: Lnum) -> LebError {
    LebError::ReadOnly { lnum, why: "an image that is open for reading" }
}

/// A file system that is open, and the file it is in.
pub struct Files<'s, 'a> {
    /// The file system.
    pub reader: Reader<Lebs<'s, 'a>>,
    /// The actor that reads; its time means nothing.
    pub cx: Cx,
    image: &'s Path,
}

impl<'s, 'a> Files<'s, 'a> {
    /// Mounts the file system in `lebs` of file `image`.
    /// Errors: it cannot be mounted.
    pub fn mount(image: &'s Path, lebs: Lebs<'s, 'a>) -> Result<Files<'s, 'a>, CliError> {
        let mut cx = Cx::new();
        match Reader::mount(lebs, &mut cx) {
            Ok(reader) => Ok(Files { reader, cx, image }),
            Err(error) => Err(refused(image, &error)),
        }
    }

    /// The error of an operation on the file system, for the command line.
    pub fn failed(&self, error: &UbifsError) -> CliError {
        refused(self.image, error)
    }
}

/// Why a file system cannot be read, for the command line.
pub fn refused(image: &Path, error: &UbifsError) -> CliError {
    let help = match error {
        UbifsError::Unsupported { .. } => "mount it with Linux",
        UbifsError::NoSpace => "give more PEBs with --pebs N",
        UbifsError::SuperBlock { what: "leb_size", .. } => "give the image's --peb-size or --page-size",
        UbifsError::SuperBlock { what: "leb_cnt", .. } => "the image is cut off: read it again, as a whole",
        _ => "`nandlab image check` lists what is damaged; `nandlab image extract --raw` gives the volume as it is",
    };
    CliError::input(super::input::name(image), error.to_string(), help)
}

/// Opens the file system in an image and calls `work` with it: the only volume with UBIFS, or the one that `volume`
/// names or numbers, or what is in the file without UBI. Returns its result, and how the command ends.
/// Errors: there is none, or several and none was chosen; it cannot be mounted; those of `work`; the file became
/// unreadable.
pub fn with<T>(
    source: &Source,
    volume: Option<&str>,
    work: impl FnOnce(&mut Files<'_, '_>) -> Result<T, CliError>,
) -> Result<(T, Outcome), CliError> {
    with_loaded(source, &source.load()?, volume, work)
}

/// As [`with`], of an image that is open.
pub fn with_loaded<T>(
    source: &Source,
    loaded: &Loaded,
    volume: Option<&str>,
    work: impl FnOnce(&mut Files<'_, '_>) -> Result<T, CliError>,
) -> Result<(T, Outcome), CliError> {
    let (found, outcome) = match Bare::open(loaded) {
        Some(bare) if volume.is_none() => (work(&mut Files::mount(&source.image, Lebs::Bare(bare))?), Outcome::Done),
        _ => {
            let dump = source.probe(loaded)?;
            source.remark(&dump);
            let scan = Scan::new(&dump);
            source.is_one(loaded, &scan)?;
            let chosen = choose(source, &scan, volume)?;
            let lebs = Lebs::Volume(ImageVolume::new(&scan, chosen));
            let found = work(&mut Files::mount(&source.image, lebs)?);
            (found, source.ended(loaded, &scan, Outcome::Done))
        }
    };
    source.was_read(loaded)?;
    Ok((found?, outcome))
}

/// The volume with UBIFS that `name` names or numbers, or the only one.
/// Errors: there is none; several, and none was named.
pub fn choose(source: &Source, scan: &Scan<'_>, name: Option<&str>) -> Result<Volume, CliError> {
    let volumes = scan.volumes();
    let name_of =
        |volume: &Volume| volume.record.as_ref().map_or(volume.id.to_string(), |record| printable(&record.name));
    let wrong = |what: String, help: &str| Err(CliError::input(super::input::name(&source.image), what, help));
    let holding: Vec<&Volume> = volumes.iter().filter(|volume| Holds::of(scan, volume) == Holds::Ubifs).collect();
    let names = |volumes: &[&Volume]| volumes.iter().map(|volume| name_of(volume)).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) => {
            let is = |volume: &&Volume| name_of(volume) == name || volume.id.to_string() == name;
            match volumes.iter().find(is) {
                Some(volume) if Holds::of(scan, volume) == Holds::Ubifs => Ok(volume.clone()),
                Some(volume) => {
                    let what = format!("volume {name:?} holds {}, expected UBIFS", Holds::of(scan, volume).name());
                    wrong(what, "`nandlab image ls` says what each volume holds")
                }
                None => {
                    let all: Vec<&Volume> = volumes.iter().collect();
                    let what = format!("found no volume {name:?}, expected one of: {}", names(&all));
                    wrong(what, "`nandlab image ls` lists the volumes")
                }
            }
        }
        None => match holding[..] {
            [one] => Ok(one.clone()),
            [] => wrong("no volume holds UBIFS".to_owned(), "`nandlab image ls` says what each volume holds"),
            _ => {
                let what = format!("several volumes hold UBIFS: {}", names(&holding));
                wrong(what, "choose one with --volume")
            }
        },
    }
}
