//! The image as a flash to which UBI attaches.

use std::path::{Path, PathBuf};

use nand::{Array, ArrayConfig, Mapped};
use sim::seam::{Flash, Geometry, Medium};
use sim::{Cx, Peb};
use ubi::attach::AttachError;
use ubi::image::{Dump, Oob, Overrides, PebList, Scan};
use ubi::layout::Layout;
use ubi::media::VtblRecord;
use ubi::{Config, Policy, Ubi};

use super::ls::printable;
use crate::error::CliError;

/// UBI on the bytes of the image.
pub type Device = Ubi<Array<Mapped<Vec<u8>>>>;

/// What the user knows about the flash.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Bytes of a PEB without OOB.
    pub peb_bytes: Option<u32>,
    /// Bytes of a page.
    pub page_bytes: Option<u32>,
    /// Bytes of a sub-page.
    pub subpage_bytes: Option<u32>,
    /// Bytes of OOB after each page.
    pub oob_bytes: Option<u32>,
    /// PEBs of the flash, more than the image has.
    pub pebs: Option<u32>,
    /// PEBs that are bad beside those that are marked.
    pub bad_blocks: Option<PebList>,
}

/// An image whose flash is written.
pub struct Image {
    path: PathBuf,
    /// Bytes before UBI.
    before: Vec<u8>,
    geometry: Geometry,
    with_oob: bool,
    layout: Layout,
    has_fastmap: bool,
    known: Known,
}

impl Image {
    /// Looks at the bytes of the file `path`. Returns also those of the flash, with the PEBs that the image does not have.
    /// Errors: it is not UBI, or truncated; sizes that contradict its headers; OOB that is not understood.
    pub fn of(path: &Path, bytes: Vec<u8>, known: &Known) -> Result<(Image, Vec<u8>), CliError> {
        let mut before = bytes;
        let given = Overrides { peb_bytes: known.peb_bytes, page_bytes: known.page_bytes, ..Overrides::default() };
        let given = Overrides { oob_bytes: known.oob_bytes, ..given };
        let dump =
            Dump::probe(&before, &given).map_err(|error| CliError::input(path, error.to_string(), error.help()))?;
        let found = dump.geometry().clone();
        if found.partial_bytes != 0 {
            let what = format!("truncated: it ends inside PEB {}", found.pebs);
            return Err(CliError::input(path, what, "give a whole dump, or the size of its PEBs with --peb-size"));
        }
        let scan = Scan::new(&dump);
        let (marked, believed) = scan.bad_markers();
        if !believed {
            let what = format!("{marked} of {} PEBs look bad by their OOB, which holds something else", found.pebs);
            return Err(CliError::input(path, what, "remove the OOB first: nandlab image convert"));
        }
        if let Some(name) = autoresized(scan.vtbl().records.values()) {
            eprintln!("note: volume {name:?} takes all available LEBs (autoresize), as when Linux attaches the flash");
        }
        if let Some(bad) = &known.bad_blocks
            && let Some((&(volume, lnum), leb)) = scan.lebs().iter().find(|(_, leb)| bad.contains(leb.peb.0))
        {
            let what = format!("PEB {} holds LEB {lnum} of volume {volume} in the image", leb.peb);
            let help = "a bad PEB has no data: leave it out, or lay the image out around it with `nandlab image pack`";
            return Err(CliError::input(Path::new("--bad-blocks"), what, help));
        }
        let has_fastmap = scan.fastmap().is_some_and(|fastmap| fastmap.is_valid());
        drop(scan);
        let page_bytes = found.min_io_bytes;
        let subpage_bytes = known.subpage_bytes.unwrap_or_else(|| sub_page(page_bytes, found.vid_hdr_offset));
        let pebs = known.pebs.unwrap_or(found.pebs);
        if pebs < found.pebs {
            let what = format!("found {pebs}, expected at least the {} PEBs of the image", found.pebs);
            return Err(CliError::input(Path::new("--pebs"), what, "give the PEBs of the flash"));
        }
        let geometry = Geometry {
            medium: if page_bytes == 1 { Medium::Nor } else { Medium::Nand },
            pebs,
            peb_bytes: found.peb_bytes,
            page_bytes,
            subpage_bytes,
            oob_bytes: found.oob.map_or(0, |Oob { oob_bytes, .. }| oob_bytes),
        };
        let sizes = "give --page-size and --sub-page-size as the data sheet has them";
        let layout = Layout::new(&geometry, Some(found.vid_hdr_offset))
            .map_err(|error| CliError::input(path, error.to_string(), sizes))?;
        if layout.data_offset != found.data_offset {
            let what = format!(
                "its headers put data at {}, expected {} with pages of {page_bytes} bytes",
                found.data_offset, layout.data_offset
            );
            return Err(CliError::input(path, what, sizes));
        }
        ArrayConfig::plain(geometry).validate().map_err(|error| CliError::input(path, error.to_string(), sizes))?;
        if found.oob.is_some() {
            eprintln!("note: pages that are written anew have an OOB of 0xFF: no ECC is computed");
        }
        let with_oob = found.oob.is_some();
        let mut flash = before.split_off(found.start as usize);
        // The length is that of whole PEBs, since none is cut off.
        let whole = u64::from(pebs) * u64::from(found.raw_peb_bytes());
        let missing = whole - flash.len() as u64;
        if flash.try_reserve_exact(usize::try_from(missing).unwrap_or(usize::MAX)).is_err() {
            let what = format!("{pebs} PEBs do not fit into memory");
            return Err(CliError::environment(Path::new("--pebs"), what, "give the PEBs of the flash"));
        }
        flash.resize(whole as usize, 0xff);
        let (path, known) = (path.to_owned(), known.clone());
        Ok((Image { path, before, geometry, with_oob, layout, has_fastmap, known }, flash))
    }

    /// Attaches UBI to the bytes of the flash. `fastmap` says whether to write one; without it, as the image has it.
    /// Errors: it cannot be attached, or may not be written.
    pub fn attach(&self, flash: Vec<u8>, fastmap: Option<bool>, cx: &mut Cx) -> Result<Device, CliError> {
        let path = &self.path;
        let store = Mapped::new(self.geometry, flash, self.with_oob)
            .map_err(|error| CliError::input(path, error.to_string(), "give the sizes of the flash"))?;
        let mut array = Array::new(ArrayConfig::plain(self.geometry), store);
        if let Some(bad) = &self.known.bad_blocks {
            if let Some(last) = bad.last().filter(|&last| last >= self.geometry.pebs) {
                let what = format!("found PEB {last}, expected less than the {} of the flash", self.geometry.pebs);
                return Err(CliError::input(Path::new("--bad-blocks"), what, "number PEBs from 0"));
            }
            for peb in (0..self.geometry.pebs).filter(|&peb| bad.contains(peb)) {
                array.mark_bad(cx, Peb(peb)).expect("the array has power and this PEB");
            }
        }
        let config = Config {
            vid_hdr_offset: Some(self.layout.vid_hdr_offset),
            fastmap: fastmap.unwrap_or(self.has_fastmap),
            fastmap_room: true,
            ..Config::linux(Policy::LINUX_6_7)
        };
        if fastmap == Some(true) && !config.has_fastmap(self.geometry.pebs) {
            let what = format!("the flash has too few PEBs for a fastmap: {}", self.geometry.pebs);
            return Err(CliError::input(Path::new("--fastmap"), what, "leave it out: Linux scans this flash"));
        }
        let device = Ubi::attach(array, cx, &config).map_err(|failure| {
            let help = match (&failure.error, self.known.pebs) {
                (AttachError::NoSpace { .. } | AttachError::NoVolumeTable { .. }, None) => {
                    "give the PEBs of the flash with --pebs N; see `nandlab image check` if these are all"
                }
                (AttachError::NoSpace { .. }, Some(_)) => "the flash is too small for its volumes and a fastmap",
                _ => "see `nandlab image check`",
            };
            CliError::input(path, format!("does not attach: {}", failure.error), help)
        })?;
        if let Some(why) = device.read_only() {
            return Err(CliError::input(path, format!("may only be read: {why}"), "see `nandlab image check`"));
        }
        Ok(device)
    }

    /// Bytes before UBI.
    pub fn before(&self) -> &[u8] {
        &self.before
    }

    /// Bytes of a PEB, with its OOB where the image has it.
    pub fn raw_peb_bytes(&self) -> u32 {
        let Geometry { peb_bytes, oob_bytes, .. } = self.geometry;
        peb_bytes + if self.with_oob { self.geometry.pages_per_peb() * oob_bytes } else { 0 }
    }

    /// Reads the result again.
    /// Errors: it is no UBI.
    pub fn probe<'a>(&self, result: &'a [u8]) -> Result<Dump<'a>, CliError> {
        let Geometry { peb_bytes, page_bytes, oob_bytes, .. } = self.geometry;
        let known = Overrides { peb_bytes: Some(peb_bytes), page_bytes: Some(page_bytes), ..Overrides::default() };
        let known = Overrides { oob_bytes: Some(if self.with_oob { oob_bytes } else { 0 }), ..known };
        Dump::probe(result, &known).map_err(|error| CliError::input(&self.path, error.to_string(), error.help()))
    }
}

/// The volume that takes all available LEBs when the image is attached.
fn autoresized<'a>(records: impl Iterator<Item = &'a VtblRecord>) -> Option<String> {
    let mut records = records.filter(|record| record.flags & VtblRecord::AUTORESIZE != 0);
    records.next().map(|record| printable(&record.name))
}

/// The largest sub-page with which a VID header stands at this offset.
fn sub_page(page_bytes: u32, vid_hdr_offset: u32) -> u32 {
    let aligned = 1u32 << vid_hdr_offset.max(1).trailing_zeros();
    aligned.min(page_bytes)
}
