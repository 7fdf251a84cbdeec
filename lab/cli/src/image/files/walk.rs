//! Paths in the file system of an image.

use fs::ubifs::Inode;
use fs::ubifs::media::{ItemType, ROOT_INO};

use super::Files;
use crate::error::CliError;
use crate::image::input;
use crate::image::ls::printable;

/// Whether a name can be that of a file in a directory: one component of a path, and not the directory or its parent.
pub fn is_component(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// Letter of a type, as `ls -l` has it.
pub const fn letter(item: ItemType) -> char {
    match item {
        ItemType::File => '-',
        ItemType::Dir => 'd',
        ItemType::Symlink => 'l',
        ItemType::BlockDevice => 'b',
        ItemType::CharDevice => 'c',
        ItemType::Fifo => 'p',
        ItemType::Socket => 's',
    }
}

/// Name of a type in messages and documents.
pub const fn type_name(item: ItemType) -> &'static str {
    match item {
        ItemType::File => "file",
        ItemType::Dir => "directory",
        ItemType::Symlink => "symlink",
        ItemType::BlockDevice => "block device",
        ItemType::CharDevice => "character device",
        ItemType::Fifo => "fifo",
        ItemType::Socket => "socket",
    }
}

impl Files<'_, '_> {
    /// The inode at `path`, from the root on. Symbolic links are not followed.
    /// Errors: a component does not exist, or is no directory.
    pub fn at(&mut self, path: &[u8]) -> Result<Inode, CliError> {
        let mut ino = ROOT_INO;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".") {
            let entry = self.reader.lookup(&mut self.cx, ino, name).map_err(|error| self.failed(&error))?;
            let Some(entry) = entry else {
                let what = format!("found no {:?} in it", printable(path));
                let help = "`nandlab image ls IMAGE / --recursive` lists its files; symbolic links are not followed";
                return Err(CliError::input(input::name(self.image), what, help));
            };
            ino = entry.ino;
        }
        self.reader.inode(&mut self.cx, ino).map_err(|error| self.failed(&error))
    }
}
