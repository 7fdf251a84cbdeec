//! Files that keep contents of a device at the end of a run.

use std::path::Path;

use runner::run::guest::Keep;
use runner::subject::Subject;

use crate::error::CliError;
use crate::mapped_file::MappedFile;
use crate::output::Overwrite;

/// Files with contents, to be finished after the result of the run was printed.
#[derive(Default)]
pub struct Kept {
    /// What the device shows its host: a disk image; of raw flash, and of a run without guest or clients, the flash.
    pub device: Option<MappedFile>,
    /// The raw flash below a ubiblock.
    pub flash: Option<MappedFile>,
}

impl Kept {
    /// Creates the files of `--flash` and `--disk` for a run with a guest or clients.
    /// Errors: a file that the subject does not have, or that cannot be created.
    pub fn create(
        subject: &Subject,
        flash: Option<&Path>,
        disk: Option<&Path>,
        overwrite: &Overwrite,
    ) -> Result<Kept, CliError> {
        let file =
            |path: Option<&Path>, bytes: u64| path.map(|path| MappedFile::create(path, bytes, overwrite)).transpose();
        match subject {
            Subject::Ubiblock(device) => Ok(Kept {
                device: file(disk, device.bytes())?,
                flash: file(flash, device.flash.array.geometry.bytes())?,
            }),
            Subject::Drive(drive) => match (flash, disk) {
                (Some(_), Some(disk)) => {
                    let what = "--flash and --disk, which both keep the disk image of a drive";
                    Err(CliError::input(disk, what, "leave one of them out"))
                }
                (one, other) => Ok(Kept { device: file(one.or(other), drive.bytes())?, flash: None }),
            },
            Subject::Flash(raw) => match disk {
                Some(disk) => {
                    let what = "--disk on raw flash, which is no disk";
                    Err(CliError::input(disk, what, "keep the raw flash with --flash"))
                }
                None => Ok(Kept { device: file(flash, raw.array.geometry.bytes())?, flash: None }),
            },
        }
    }

    /// Where the contents of the device, and those of the flash below a ubiblock, go.
    pub fn filled(&mut self, subject: &Subject) -> [Option<Filled<'_>>; 2] {
        let never_written = if matches!(subject, Subject::Flash(_)) { 0xff } else { 0 };
        let device = self.device.as_mut().map(|file| Box::new(file.filled(never_written)) as Filled<'_>);
        let flash = self.flash.as_mut().map(|file| Box::new(file.filled(0xff)) as Filled<'_>);
        [device, flash]
    }
}

/// Takes contents with their place in bytes.
pub type Filled<'a> = Box<dyn FnMut(u64, &[u8]) + 'a>;

/// A sink as a run wants it.
pub fn sink<'a>(filled: &'a mut Option<Filled<'_>>) -> Option<Keep<'a>> {
    filled.as_mut().map(|filled| &mut **filled as Keep<'a>)
}
