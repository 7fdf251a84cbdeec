//! Where the LEBs go: the file system alone, or a UBI image with one volume of it.

use std::path::Path;

use sim::Lnum;
use ubi::image::ini::VolumeSection;
use ubi::image::pack::{Image, Layout, Options, PackError, PackVolume};
use ubi::media::{LAYOUT_LEBS, VolType, VtblRecord};

use crate::error::CliError;
use crate::output::{NewFile, Overwrite};

/// The volume of an image.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Name.
    pub name: Vec<u8>,
    /// LEBs that it reserves; those that it needs, and what is left of the flash, if absent.
    pub lebs: Option<u32>,
}

impl Volume {
    /// The image, when the file system has `used` LEBs and the volume reserves `reserved`.
    fn image(&self, layout: &Layout, used: u32, reserved: u32) -> Result<Image, PackError> {
        let bytes = |lebs: u32| u64::from(lebs) * u64::from(layout.leb_bytes());
        let section = VolumeSection {
            section: String::from_utf8_lossy(&self.name).into_owned(),
            line: 0,
            id: 0,
            vol_type: VolType::Dynamic,
            name: self.name.clone(),
            alignment: 1,
            size: Some(bytes(reserved)),
            image: None,
            flags: if self.lebs.is_some() { 0 } else { VtblRecord::AUTORESIZE },
        };
        layout.image(&[section], &[bytes(used)])
    }
}

/// A UBI image that is written.
struct Ubi {
    options: Options,
    volume: Volume,
    /// The image and its volume as they would be at most.
    image: Image,
    packed: PackVolume,
}

/// The file that is written.
pub struct Out<'a> {
    target: &'a Path,
    file: NewFile<'a>,
    /// `None` for the file system alone.
    ubi: Option<Ubi>,
    leb: Vec<u8>,
    leb_bytes: usize,
    /// Whether a LEB was written.
    written: Vec<bool>,
}

/// An error of the options of an image.
pub fn refused(target: &Path, error: &PackError) -> CliError {
    CliError::input(target, error.to_string(), error.help())
}

impl<'a> Out<'a> {
    /// The file system alone.
    pub fn bare(target: &'a Path, overwrite: &'a Overwrite, leb_bytes: u32) -> Result<Out<'a>, CliError> {
        Out::new(target, overwrite, leb_bytes, None)
    }

    /// A UBI image with one volume, of a file system with at most `max_lebs`.
    pub fn ubi(
        target: &'a Path,
        overwrite: &'a Overwrite,
        (options, max_lebs): (Options, u32),
        volume: Volume,
    ) -> Result<Out<'a>, CliError> {
        let wrong = |error| refused(target, &error);
        let layout = Layout::new(options).map_err(wrong)?;
        let image = volume.image(&layout, max_lebs, max_lebs).map_err(wrong)?;
        let packed = image.volumes()[0].clone();
        Out::new(target, overwrite, layout.leb_bytes(), Some(Ubi { options, volume, image, packed }))
    }

    fn new(target: &'a Path, overwrite: &'a Overwrite, leb_bytes: u32, ubi: Option<Ubi>) -> Result<Out<'a>, CliError> {
        let file = NewFile::create(target, overwrite)?;
        let leb_bytes = leb_bytes as usize;
        Ok(Out { target, file, ubi, leb: Vec::with_capacity(leb_bytes), leb_bytes, written: Vec::new() })
    }

    /// Writes a LEB.
    pub fn put(&mut self, lnum: Lnum, bytes: &[u8]) -> Result<(), CliError> {
        self.leb.clear();
        self.leb.extend_from_slice(bytes);
        self.leb.resize(self.leb_bytes, 0xff);
        if self.written.len() <= lnum.at() {
            self.written.resize(lnum.at() + 1, false);
        }
        self.written[lnum.at()] = true;
        let at = u64::from(lnum.0);
        match &self.ubi {
            None => self.file.write_at(&self.leb, at * self.leb_bytes as u64),
            Some(Ubi { image, packed, .. }) => {
                let peb = image.leb_peb(packed, lnum, &self.leb);
                self.file.write_at(&peb, (u64::from(LAYOUT_LEBS) + at) * peb.len() as u64)
            }
        }
    }

    /// Fills what was not written, and ends the file. Of a UBI image: `reserved` LEBs are those of the volume; returns
    /// the image.
    pub fn finish(mut self, lebs: u32, reserved: u32, image_seq: u32) -> Result<Option<(Layout, Image)>, CliError> {
        for lnum in 0..lebs {
            if !self.written.get(lnum as usize).is_some_and(|&written| written) {
                self.put(Lnum(lnum), &[])?;
            }
        }
        let Some(Ubi { options, volume, .. }) = &self.ubi else {
            self.file.finish()?;
            return Ok(None);
        };
        // The image sequence number depends on the contents: now it is known.
        let wrong = |error| refused(self.target, &error);
        let layout = Layout::new(Options { image_seq, ..*options }).map_err(wrong)?;
        let image = volume.image(&layout, lebs, reserved).map_err(wrong)?;
        let peb_bytes = u64::from(layout.peb_bytes());
        for copy in 0..LAYOUT_LEBS {
            self.file.write_at(&image.table_peb(copy), u64::from(copy) * peb_bytes)?;
        }
        let header = layout.ec_hdr(options.erase_counter);
        for peb in u64::from(LAYOUT_LEBS)..image.pebs() {
            self.file.write_at(&header, peb * peb_bytes)?;
        }
        self.file.finish()?;
        Ok(Some((layout, image)))
    }
}
