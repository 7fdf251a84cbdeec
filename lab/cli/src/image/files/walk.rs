//! Paths in the file system of an image.

use sim::seam::FileType;

use super::Files;
use super::opened::Inode;
use crate::error::CliError;
use crate::image::input;
use crate::image::ls::printable;

/// Whether a name can be that of a file in a directory: one component of a path, and not the directory or its parent.
pub fn is_component(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// Letter of a type, as `ls -l` has it.
pub const fn letter(file_type: FileType) -> char {
    match file_type {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharDevice => 'c',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
    }
}

/// Name of a type in messages and documents.
pub const fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::BlockDevice => "block device",
        FileType::CharDevice => "character device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
    }
}

impl Files<'_, '_> {
    /// The inode at `path`, from the root on. Symbolic links are not followed.
    /// Errors: a component does not exist, or is no directory.
    pub fn at(&mut self, path: &[u8]) -> Result<Inode, CliError> {
        let mut ino = self.fs.root_ino();
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
            let entry = self.fs.lookup(&mut self.cx, ino, name).map_err(|error| self.failed(&error))?;
            let Some(entry) = entry else {
                let what = format!("found no {:?} in it", printable(path));
                let help = "`nandlab image ls IMAGE / --recursive` lists its files; symbolic links are not followed";
                return Err(CliError::input(input::name(self.image), what, help));
            };
            ino = entry;
        }
        self.fs.inode(&mut self.cx, ino).map_err(|error| self.failed(&error))
    }
}
