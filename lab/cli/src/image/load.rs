//! Input of the subcommands: the image and what the user knows about it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use ubi::image::{Dump, Oob, Overrides, ProbeError, ini};

use crate::error::CliError;

/// Arguments for the image and its geometry.
#[derive(clap::Args)]
pub struct Source {
    /// UBI image or dump of a flash, with or without OOB
    pub image: PathBuf,
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
}

/// Contents of an image.
pub struct Loaded {
    bytes: Vec<u8>,
}

impl Source {
    /// Reads the file into memory. Beside the size of the image, the commands need about 1 KiB of memory per PEB.
    pub fn load(&self) -> Result<Loaded, CliError> {
        let read = |error| CliError::read(&self.image, &error);
        let mut file = File::open(&self.image).map_err(read)?;
        let found = file.metadata().map_err(read)?;
        if found.is_dir() {
            return Err(CliError::input(&self.image, "found a directory, expected an image", "name a file in it"));
        }
        if !found.is_file() {
            let help = "copy it to a file first: `nanddump -f dump.bin /dev/mtdN`";
            return Err(CliError::input(&self.image, "found a device or a pipe, expected a file", help));
        }
        if self.offset > found.len() {
            let what = format!("found {} bytes, expected more than --offset {}", found.len(), self.offset);
            return Err(CliError::input(&self.image, what, "lower --offset"));
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(read)?;
        let len = self.length.unwrap_or(u64::MAX).min(found.len() - self.offset);
        let mut bytes = Vec::new();
        let room = usize::try_from(len).ok().and_then(|len| bytes.try_reserve_exact(len).ok());
        if room.is_none() {
            let what = format!("{len} bytes do not fit into memory");
            return Err(CliError::environment(&self.image, what, "read a part of it with --offset and --length"));
        }
        file.take(len).read_to_end(&mut bytes).map_err(read)?;
        Ok(Loaded { bytes })
    }

    /// Finds the PEBs.
    pub fn probe<'a>(&self, loaded: &'a Loaded) -> Result<Dump<'a>, CliError> {
        let Source { peb_size: peb_bytes, page_size: page_bytes, oob_size: oob_bytes, .. } = *self;
        Dump::probe(&loaded.bytes, &Overrides { peb_bytes, page_bytes, oob_bytes }).map_err(|error| {
            let help = match &error {
                ProbeError::NotUbi { help, .. } => {
                    format!("{help}; the flash of a drive (`nandlab run --flash`) has no UBI on it")
                }
                _ => error.help().to_owned(),
            };
            CliError::input(&self.image, error.to_string(), help)
        })
    }

    /// Prints on standard error what the user should know about this dump, unless the report itself has it.
    pub fn remark(&self, dump: &Dump<'_>) {
        let geometry = dump.geometry();
        let name = self.image.display();
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
    }

    /// Name of the image for reports.
    pub fn name(&self) -> String {
        self.image.display().to_string()
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
