//! The file system in an image: UBIFS or JFFS2, in a UBI volume or alone in a file.

pub mod describe;
pub mod jffs2;
pub mod list;
pub mod opened;
pub mod restore;
pub mod walk;

use std::path::Path;

use fs::jffs2::media as jffs2_media;
use fs::ubifs::media::{HEADER_BYTES, Header, NodeType, SuperBlock};
use fs::ubifs::{Reader, UbifsError};
use sim::seam::{LebError, LebVolume, Payload};
use sim::{Cx, Lnum};
use ubi::image::{ImageVolume, Scan, Volume};

use self::jffs2::Blocks;
use self::opened::FilesError;
pub use self::opened::Opened;
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
    /// JFFS2.
    Jffs2,
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
        let mut lebs = ImageVolume::new(scan, volume.clone());
        // JFFS2 may have erased its first LEBs: any with a node tells.
        for lnum in
            (0..lebs.lebs()).map(Lnum).filter(|&lnum| lnum.0 == 0 || scan.lebs().contains_key(&(volume.id, lnum)))
        {
            let found = match lebs.read(&mut Cx::new(), lnum, 0, &mut first[..len]) {
                Ok(()) => Holds::by(&first),
                Err(_) => Holds::Nothing,
            };
            match (found, lnum.0) {
                (Holds::Nothing, _) => {}
                (found, 0) | (found @ Holds::Jffs2, _) => return found,
                _ => return Holds::Nothing,
            }
        }
        Holds::Nothing
    }

    /// Whether it is a file system that is read here.
    pub const fn is_files(self) -> bool {
        matches!(self, Holds::Ubifs | Holds::Jffs2)
    }

    fn by(first: &[u8; HEADER_BYTES]) -> Holds {
        let is_super = |header: Header| header.node_type == NodeType::SuperBlock;
        match first {
            first if first.iter().all(|&byte| byte == 0xff) => Holds::Nothing,
            [b'h', b's', b'q', b's', ..] => Holds::Squashfs,
            first if Header::peek(first).is_ok_and(is_super) => Holds::Ubifs,
            first if is_node(first) => Holds::Jffs2,
            _ => Holds::Raw,
        }
    }

    /// Name in tables and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Holds::Nothing => "nothing",
            Holds::Ubifs => "ubifs",
            Holds::Jffs2 => "jffs2",
            Holds::Squashfs => "squashfs",
            Holds::Raw => "raw",
        }
    }
}

/// Whether a node of JFFS2 begins here, in either byte order.
fn is_node(first: &[u8; HEADER_BYTES]) -> bool {
    let endian = jffs2_media::Endian::of_magic([first[0], first[1]]);
    endian.is_some_and(|endian| jffs2_media::Header::read(endian, first).is_ok())
}

/// The LEBs of UBIFS.
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

/// A file system that is in the file without UBI.
#[derive(Debug)]
pub enum Alone<'a> {
    /// UBIFS.
    Ubifs(Bare<'a>),
    /// JFFS2.
    Jffs2(jffs2::Image<'a>),
}

impl<'a> Alone<'a> {
    /// The file system, if the image begins with one.
    /// Errors: a size was given that cannot be.
    pub fn open(source: &Source, image: &'a Loaded) -> Result<Option<Alone<'a>>, CliError> {
        match Bare::open(image) {
            Some(bare) => Ok(Some(Alone::Ubifs(bare))),
            None => Ok(jffs2::Image::open(source, image)?.map(Alone::Jffs2)),
        }
    }

    /// Bytes of an eraseblock with OOB; `None` of UBIFS, which has none.
    pub fn raw_block_bytes(&self) -> Option<u64> {
        match self {
            Alone::Ubifs(_) => None,
            Alone::Jffs2(image) => Some(image.raw_block_bytes()),
        }
    }
}

/// A file system that is open, and the file it is in.
pub struct Files<'s, 'a> {
    /// The file system.
    pub fs: Opened<'s, 'a>,
    /// The actor that reads; its time means nothing.
    pub cx: Cx,
    image: &'s Path,
}

impl<'s, 'a> Files<'s, 'a> {
    /// Mounts the file system that is in file `image` without UBI.
    /// Errors: it cannot be mounted.
    pub fn alone(image: &'s Path, alone: Alone<'a>) -> Result<Files<'s, 'a>, CliError> {
        match alone {
            Alone::Ubifs(bare) => Files::ubifs(image, Lebs::Bare(bare)),
            Alone::Jffs2(flash) => Files::jffs2(image, Blocks::of_image(flash)),
        }
    }

    /// Mounts the file system in a volume of file `image`, which holds one.
    /// Errors: it cannot be mounted.
    pub fn of_volume(image: &'s Path, scan: &'s Scan<'a>, volume: &Volume) -> Result<Files<'s, 'a>, CliError> {
        let lebs = ImageVolume::new(scan, volume.clone());
        match Holds::of(scan, volume) {
            Holds::Jffs2 => Files::jffs2(image, Blocks::of_volume(lebs)),
            _ => Files::ubifs(image, Lebs::Volume(lebs)),
        }
    }

    fn ubifs(image: &'s Path, lebs: Lebs<'s, 'a>) -> Result<Files<'s, 'a>, CliError> {
        let mut cx = Cx::new();
        match Reader::mount(lebs, &mut cx) {
            Ok(reader) => Ok(Files { fs: Opened::Ubifs(Box::new(reader)), cx, image }),
            Err(error) => Err(refused(image, &error)),
        }
    }

    fn jffs2(image: &'s Path, blocks: Blocks<'s, 'a>) -> Result<Files<'s, 'a>, CliError> {
        let mut cx = Cx::new();
        match blocks.mount(&mut cx) {
            Ok(fs) => Ok(Files { fs: Opened::Jffs2(Box::new(fs)), cx, image }),
            Err(error) => Err(jffs2::refused(image, &error)),
        }
    }

    /// The error of an operation on the file system, for the command line.
    pub fn failed(&self, error: &FilesError) -> CliError {
        failed(self.image, error)
    }
}

/// Why a file system cannot be read, for the command line.
pub fn failed(image: &Path, error: &FilesError) -> CliError {
    match error {
        FilesError::Ubifs(error) => refused(image, error),
        FilesError::Jffs2(error) => jffs2::refused(image, error),
    }
}

/// Why UBIFS cannot be read, for the command line.
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

/// Opens the file system in an image and calls `work` with it: the only volume with one, or the one that `volume`
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
    let (found, outcome) = match Alone::open(source, loaded)? {
        Some(alone) if volume.is_none() => {
            let block_bytes = alone.raw_block_bytes();
            let found = work(&mut Files::alone(&source.image, alone)?);
            (found, source.ended_alone(loaded, block_bytes, Outcome::Done))
        }
        _ => {
            let dump = source.probe(loaded)?;
            source.remark(&dump);
            let scan = Scan::new(&dump);
            source.is_one(loaded, &scan)?;
            let chosen = choose(source, &scan, volume, Holds::is_files)?;
            let found = work(&mut Files::of_volume(&source.image, &scan, &chosen)?);
            (found, source.ended(loaded, &scan, Outcome::Done))
        }
    };
    source.was_read(loaded)?;
    Ok((found?, outcome))
}

/// The volume with a file system that `name` names or numbers, or the only one. `fits` says which ones will do.
/// Errors: there is none; several, and none was named.
pub fn choose(
    source: &Source,
    scan: &Scan<'_>,
    name: Option<&str>,
    fits: impl Fn(Holds) -> bool,
) -> Result<Volume, CliError> {
    let volumes = scan.volumes();
    let name_of =
        |volume: &Volume| volume.record.as_ref().map_or(volume.id.to_string(), |record| printable(&record.name));
    let wrong = |what: String, help: &str| Err(CliError::input(super::input::name(&source.image), what, help));
    let holding: Vec<&Volume> = volumes.iter().filter(|volume| fits(Holds::of(scan, volume))).collect();
    let names = |volumes: &[&Volume]| volumes.iter().map(|volume| name_of(volume)).collect::<Vec<_>>().join(", ");
    let wanted = if fits(Holds::Jffs2) { "UBIFS or JFFS2" } else { "UBIFS" };
    match name {
        Some(name) => {
            let is = |volume: &&Volume| name_of(volume) == name || volume.id.to_string() == name;
            match volumes.iter().find(is) {
                Some(volume) if fits(Holds::of(scan, volume)) => Ok(volume.clone()),
                Some(volume) => {
                    let what = format!("volume {name:?} holds {}, expected {wanted}", Holds::of(scan, volume).name());
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
            [] => wrong(format!("no volume holds {wanted}"), "`nandlab image ls` says what each volume holds"),
            _ => {
                let what = format!("several volumes hold {wanted}: {}", names(&holding));
                wrong(what, "choose one with --volume")
            }
        },
    }
}
