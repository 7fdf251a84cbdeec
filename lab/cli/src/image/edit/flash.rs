//! The image as a flash to which UBI attaches.

use std::fs;
use std::path::Path;

use nand::{Array, ArrayConfig, Mapped};
use sim::seam::{Flash, Geometry, Medium};
use sim::{Cx, Peb};
use ubi::attach::AttachError;
use ubi::image::{Dump, Oob, Overrides, Scan};
use ubi::layout::Layout;
use ubi::{Config, Policy, Ubi};

use super::Args;
use crate::error::CliError;

/// UBI on the bytes of the image.
pub type Device = Ubi<Array<Mapped<Vec<u8>>>>;

/// An image that is edited.
pub struct Image {
    /// Bytes before UBI, and those of the flash.
    bytes: Vec<u8>,
    start: usize,
    geometry: Geometry,
    with_oob: bool,
    layout: Layout,
    has_fastmap: bool,
}

impl Image {
    /// Reads the image.
    /// Errors: it is not UBI, or truncated; sizes that contradict its headers; OOB that is not understood.
    pub fn read(args: &Args) -> Result<Image, CliError> {
        let path = &args.image;
        let mut bytes = fs::read(path).map_err(|error| CliError::read(path, &error))?;
        let given = Overrides { peb_bytes: args.peb_size, page_bytes: args.page_size, ..Overrides::default() };
        let given = Overrides { oob_bytes: args.oob_size, ..given };
        let dump =
            Dump::probe(&bytes, &given).map_err(|error| CliError::input(path, error.to_string(), error.help()))?;
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
        if let Some(name) = super::autoresized(scan.vtbl().records.values()) {
            eprintln!("note: volume {name:?} takes all available LEBs (autoresize), as when Linux attaches the flash");
        }
        let has_fastmap = scan.fastmap().is_some_and(|fastmap| fastmap.is_valid());
        drop(scan);
        let page_bytes = found.min_io_bytes;
        let subpage_bytes = args.sub_page_size.unwrap_or_else(|| sub_page(page_bytes, found.vid_hdr_offset));
        let pebs = args.pebs.unwrap_or(found.pebs);
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
        let start = found.start as usize;
        // The length is that of whole PEBs, since none is cut off.
        let whole = u64::from(pebs) * u64::from(found.raw_peb_bytes());
        let missing = whole - (bytes.len() - start) as u64;
        if bytes.try_reserve_exact(usize::try_from(missing).unwrap_or(usize::MAX)).is_err() {
            let what = format!("{pebs} PEBs do not fit into memory");
            return Err(CliError::environment(Path::new("--pebs"), what, "give the PEBs of the flash"));
        }
        bytes.resize(start + whole as usize, 0xff);
        Ok(Image { bytes, start, geometry, with_oob, layout, has_fastmap })
    }

    /// Attaches UBI to a copy of the flash.
    /// Errors: it cannot be attached, or may not be written.
    pub fn attach(&self, args: &Args, cx: &mut Cx) -> Result<Device, CliError> {
        let path = &args.image;
        let store = Mapped::new(self.geometry, self.bytes[self.start..].to_vec(), self.with_oob)
            .map_err(|error| CliError::input(path, error.to_string(), "give the sizes of the flash"))?;
        let mut array = Array::new(ArrayConfig::plain(self.geometry), store);
        if let Some(bad) = &args.bad_blocks {
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
            fastmap: args.fastmap || (self.has_fastmap && !args.no_fastmap),
            ..Config::linux(Policy::LINUX_6_7)
        };
        let mut device = Ubi::attach(array, cx, &config).map_err(|failure| {
            let help = match (&failure.error, args.pebs) {
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
        device.flush(cx).map_err(|error| super::refused("attach", &error))?;
        Ok(device)
    }

    /// Bytes before UBI.
    pub fn before(&self) -> &[u8] {
        &self.bytes[..self.start]
    }

    /// Reads the result again.
    /// Errors: it is no UBI.
    pub fn probe<'a>(&self, args: &Args, result: &'a [u8]) -> Result<Dump<'a>, CliError> {
        let Geometry { peb_bytes, page_bytes, oob_bytes, .. } = self.geometry;
        let known = Overrides { peb_bytes: Some(peb_bytes), page_bytes: Some(page_bytes), ..Overrides::default() };
        let known = Overrides { oob_bytes: Some(if self.with_oob { oob_bytes } else { 0 }), ..known };
        Dump::probe(result, &known).map_err(|error| CliError::input(&args.image, error.to_string(), error.help()))
    }
}

/// The largest sub-page with which a VID header stands at this offset.
fn sub_page(page_bytes: u32, vid_hdr_offset: u32) -> u32 {
    let aligned = 1u32 << vid_hdr_offset.max(1).trailing_zeros();
    aligned.min(page_bytes)
}
