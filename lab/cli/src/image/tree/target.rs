//! The file systems that are made of a tree, as the walk over it needs them.

use fs::jffs2::mkfs as jffs2;
use fs::ubifs::media::{BLOCK_BYTES, Device, ItemType};
use fs::ubifs::mkfs::{Attributes, Dir, Mkfs, MkfsError, NewInode, Xattr};

use crate::error::CliError;

/// What an inode has beside data of a file.
#[derive(Clone, Debug, Default)]
pub enum Inline {
    /// Nothing.
    #[default]
    None,
    /// The target of a symbolic link.
    Target(Vec<u8>),
    /// The number of a device.
    Device(Device),
}

/// A file system that is made.
pub trait Target {
    /// Data come in multiples of so many bytes.
    fn unit(&self) -> u32;
    /// An inode.
    type Inode: Copy;
    /// A directory that is being filled.
    type Dir;
    /// Why it cannot be made.
    type Error: From<CliError>;

    /// Begins the root directory.
    fn root(&mut self) -> Self::Dir;
    /// Begins another directory.
    fn new_dir(&mut self) -> Result<Self::Dir, Self::Error>;
    /// The inode of a directory.
    fn inode_of(dir: &Self::Dir) -> Self::Inode;
    /// Begins an inode.
    fn new_inode(&mut self) -> Result<Self::Inode, Self::Error>;
    /// Adds data of a file of `size` bytes. Its attributes may still become others.
    fn data(
        &mut self,
        inode: Self::Inode,
        attributes: &Attributes,
        size: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Self::Error>;
    /// Adds the inode of what is no directory. `xattrs` are sorted by name.
    fn inode(
        &mut self,
        inode: Self::Inode,
        attributes: &Attributes,
        size_and_names: (u64, u32),
        inline: &Inline,
        xattrs: &[Xattr],
    ) -> Result<(), Self::Error>;
    /// Adds an entry to a directory, whose entries come in the order of their names. `attributes` are those of the inode.
    fn entry(
        &mut self,
        dir: &mut Self::Dir,
        name: &[u8],
        inode: Self::Inode,
        item: ItemType,
        attributes: &Attributes,
    ) -> Result<(), Self::Error>;
    /// Adds the inode of a directory, all of whose entries were added.
    fn end_dir(&mut self, dir: &Self::Dir, attributes: &Attributes, xattrs: &[Xattr]) -> Result<(), Self::Error>;
    /// Whether an inode may have an extended attribute of this name.
    fn takes_xattr(name: &[u8]) -> bool;
}

impl From<CliError> for MkfsError<CliError> {
    fn from(error: CliError) -> Self {
        MkfsError::Sink(error)
    }
}

impl Target for Mkfs<'_, CliError> {
    type Inode = NewInode;
    type Dir = Dir;
    type Error = MkfsError<CliError>;

    fn unit(&self) -> u32 {
        BLOCK_BYTES
    }

    fn root(&mut self) -> Dir {
        Mkfs::root(self)
    }

    fn new_dir(&mut self) -> Result<Dir, Self::Error> {
        Mkfs::new_dir(self)
    }

    fn inode_of(dir: &Dir) -> NewInode {
        dir.inode()
    }

    fn new_inode(&mut self) -> Result<NewInode, Self::Error> {
        Mkfs::new_inode(self)
    }

    fn data(&mut self, inode: NewInode, _: &Attributes, _: u64, offset: u64, data: &[u8]) -> Result<(), Self::Error> {
        Mkfs::data(self, inode, offset, data)
    }

    fn inode(
        &mut self,
        inode: NewInode,
        attributes: &Attributes,
        size_and_names: (u64, u32),
        inline: &Inline,
        xattrs: &[Xattr],
    ) -> Result<(), Self::Error> {
        let device;
        let inline = match inline {
            Inline::None => &[][..],
            Inline::Target(target) => target,
            Inline::Device(number) => {
                device = number.encode();
                &device
            }
        };
        Mkfs::inode(self, inode, attributes, size_and_names, inline, xattrs)
    }

    fn entry(
        &mut self,
        dir: &mut Dir,
        name: &[u8],
        inode: NewInode,
        item: ItemType,
        _: &Attributes,
    ) -> Result<(), Self::Error> {
        Mkfs::entry(self, dir, name, inode, item)
    }

    fn end_dir(&mut self, dir: &Dir, attributes: &Attributes, xattrs: &[Xattr]) -> Result<(), Self::Error> {
        Mkfs::end_dir(self, dir, attributes, xattrs)
    }

    /// UBIFS has no access control lists.
    fn takes_xattr(name: &[u8]) -> bool {
        !name.starts_with(b"system.")
    }
}

impl From<CliError> for jffs2::MkfsError<CliError> {
    fn from(error: CliError) -> Self {
        jffs2::MkfsError::Sink(error)
    }
}

/// Attributes as JFFS2 has them: times are whole seconds from 1970 to 2106, as Linux clamps them.
fn short(attributes: &Attributes) -> jffs2::Attributes {
    let Attributes { mode, uid, gid, atime, ctime, mtime, .. } = *attributes;
    let time = |(seconds, _): (i64, u32)| seconds.clamp(0, u32::MAX.into()) as u32;
    jffs2::Attributes { mode, uid, gid, atime: time(atime), mtime: time(mtime), ctime: time(ctime) }
}

impl Target for jffs2::Mkfs<'_, CliError> {
    type Inode = u32;
    type Dir = jffs2::Dir;
    type Error = jffs2::MkfsError<CliError>;

    fn unit(&self) -> u32 {
        self.page_bytes()
    }

    fn root(&mut self) -> jffs2::Dir {
        jffs2::Mkfs::root(self)
    }

    fn new_dir(&mut self) -> Result<jffs2::Dir, Self::Error> {
        Ok(jffs2::Mkfs::new_dir(self))
    }

    fn inode_of(dir: &jffs2::Dir) -> u32 {
        dir.ino()
    }

    fn new_inode(&mut self) -> Result<u32, Self::Error> {
        Ok(jffs2::Mkfs::new_inode(self))
    }

    fn data(
        &mut self,
        inode: u32,
        attributes: &Attributes,
        size: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Self::Error> {
        jffs2::Mkfs::data(self, inode, &short(attributes), size, offset, data)
    }

    fn inode(
        &mut self,
        inode: u32,
        attributes: &Attributes,
        (size, _): (u64, u32),
        inline: &Inline,
        xattrs: &[Xattr],
    ) -> Result<(), Self::Error> {
        let inline = match inline {
            Inline::None => jffs2::Inline::None,
            Inline::Target(target) => jffs2::Inline::Target(target),
            Inline::Device(Device { major, minor }) => jffs2::Inline::Device(*major, *minor),
        };
        jffs2::Mkfs::inode(self, inode, &short(attributes), size, inline)?;
        xattrs.iter().try_for_each(|Xattr { name, value }| self.xattr(inode, name, value))
    }

    fn entry(
        &mut self,
        dir: &mut jffs2::Dir,
        name: &[u8],
        inode: u32,
        item: ItemType,
        attributes: &Attributes,
    ) -> Result<(), Self::Error> {
        jffs2::Mkfs::entry(self, dir, name, inode, (item.mode(), short(attributes).mtime))
    }

    fn end_dir(&mut self, dir: &jffs2::Dir, attributes: &Attributes, xattrs: &[Xattr]) -> Result<(), Self::Error> {
        jffs2::Mkfs::end_dir(self, dir, &short(attributes))?;
        xattrs.iter().try_for_each(|Xattr { name, value }| self.xattr(dir.ino(), name, value))
    }

    fn takes_xattr(name: &[u8]) -> bool {
        jffs2::takes_xattr(name)
    }
}
