//! A file system below Linux's VFS: inodes by number, names as bytes, one call an inode operation.
//!
//! What the VFS does above its file systems the caller does here:
//!
//! - it walks paths, follows symbolic links, and answers `.` and `..`, which no call takes and [`FileSystem::readdir`]
//!   does not return;
//! - it checks permissions, [`InodeFlags::IMMUTABLE`] and [`InodeFlags::APPEND`], takes away set-user-ID bits, applies
//!   the umask. A file system obeys whoever calls;
//! - it caches pages. A write here reaches the file system at once. `fs::cache` is such a cache: a file system above
//!   another, which it tells of the writes that it keeps for later.
//!
//! A file system keeps time by an epoch of its own, which is when virtual time 0 was, plus the clock of the [`Cx`] of
//! the call. Reads leave the time of the last access alone (`noatime`).
//!
//! An inode without a name lives as long as it is open.

use std::fmt;
use std::ops::BitOr;

use super::{FsError, Payload, payload};
use crate::{Cx, Ns};

/// Longest name of a directory entry or an extended attribute, in bytes (`NAME_MAX`, `XATTR_NAME_MAX`).
pub const NAME_MAX: usize = 255;

/// Number of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ino(pub u64);

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A time in a file: since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: u64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

impl Timestamp {
    /// The time `span` later.
    pub fn after(self, span: Ns) -> Timestamp {
        let nanos = u64::from(self.nanos) + span.0 % 1_000_000_000;
        Timestamp {
            seconds: self.seconds + span.0 / 1_000_000_000 + nanos / 1_000_000_000,
            nanos: u32::try_from(nanos % 1_000_000_000).expect("below a second"),
        }
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device.
    BlockDevice,
    /// Character device. The one with number 0:0 is a whiteout: it hides a name of a lower layer of overlayfs.
    CharDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

impl FileType {
    /// Every type.
    pub const ALL: [FileType; 7] = [
        FileType::Regular,
        FileType::Directory,
        FileType::Symlink,
        FileType::BlockDevice,
        FileType::CharDevice,
        FileType::Fifo,
        FileType::Socket,
    ];

    /// The bits of `st_mode` that say the type (`S_IFMT`).
    pub const fn mode_bits(self) -> u32 {
        match self {
            FileType::Fifo => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::Directory => 0o040_000,
            FileType::BlockDevice => 0o060_000,
            FileType::Regular => 0o100_000,
            FileType::Symlink => 0o120_000,
            FileType::Socket => 0o140_000,
        }
    }

    /// Whether it is a device, which has a number.
    pub const fn is_device(self) -> bool {
        matches!(self, FileType::BlockDevice | FileType::CharDevice)
    }
}

/// Number of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// Major number, 12 bits in Linux.
    pub major: u32,
    /// Minor number, 20 bits in Linux.
    pub minor: u32,
}

/// Flags of an inode, with the numbers of `FS_IOC_SETFLAGS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InodeFlags(pub u32);

impl InodeFlags {
    /// The data are compressed.
    pub const COMPRESSED: InodeFlags = InodeFlags(0x4);
    /// Writes are synchronous.
    pub const SYNC: InodeFlags = InodeFlags(0x8);
    /// The file may not change.
    pub const IMMUTABLE: InodeFlags = InodeFlags(0x10);
    /// The file may only grow.
    pub const APPEND: InodeFlags = InodeFlags(0x20);
    /// Changes of the directory are synchronous.
    pub const DIR_SYNC: InodeFlags = InodeFlags(0x1_0000);

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: InodeFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for InodeFlags {
    type Output = InodeFlags;
    fn bitor(self, other: InodeFlags) -> InodeFlags {
        InodeFlags(self.0 | other.0)
    }
}

/// What `stat` says of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// Its type.
    pub file_type: FileType,
    /// Permissions, with set-user-ID, set-group-ID and sticky: 12 bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names; of a directory, 2 and one for each directory in it.
    pub nlink: u32,
    /// Bytes of a regular file or of the target of a symbolic link. Of anything else it is the file system's own affair.
    pub size: u64,
    /// Number of the device; 0:0 of what is none.
    pub device: DeviceNumber,
    /// Flags.
    pub flags: InodeFlags,
    /// Time of the last access, which only [`FileSystem::setattr`] moves.
    pub atime: Timestamp,
    /// Time of the last change of the contents.
    pub mtime: Timestamp,
    /// Time of the last change of the inode or its contents.
    pub ctime: Timestamp,
}

/// Permissions and owner of a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// 12 bits of permissions, after the umask. In a directory with set-group-ID a new directory has that bit too.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group; in a directory with set-group-ID the new inode has the directory's.
    pub gid: u32,
}

impl NewInode {
    /// An inode of root's.
    pub const fn of_root(mode: u32) -> NewInode {
        NewInode { mode, uid: 0, gid: 0 }
    }
}

/// What [`FileSystem::setattr`] changes. The time of the last change of the inode always becomes the present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permissions, 12 bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size of a regular file in bytes: what is beyond goes, what is new reads as zeroes. Moves the time of the last
    /// change of the contents to the present, also if the size is as it was.
    pub size: Option<u64>,
    /// Time of the last access.
    pub atime: Option<Timestamp>,
    /// Time of the last change of the contents.
    pub mtime: Option<Timestamp>,
    /// Flags.
    pub flags: Option<InodeFlags>,
}

impl SetAttr {
    /// Changes the size and nothing else.
    pub fn size(bytes: u64) -> SetAttr {
        SetAttr { size: Some(bytes), ..SetAttr::default() }
    }
}

/// How a rename treats its target, with the numbers of `renameat2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RenameFlags(pub u32);

impl RenameFlags {
    /// Replaces the target, if there is one.
    pub const NONE: RenameFlags = RenameFlags(0);
    /// Fails if there is a target.
    pub const NO_REPLACE: RenameFlags = RenameFlags(1);
    /// Source and target change places.
    pub const EXCHANGE: RenameFlags = RenameFlags(2);
    /// Leaves a whiteout under the old name, of root's and with mode 0.
    pub const WHITEOUT: RenameFlags = RenameFlags(4);

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: RenameFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether Linux knows the flags and takes them together: an exchange stands alone.
    pub const fn is_valid(self) -> bool {
        self.0 & !7 == 0 && (self.0 & 2 == 0 || self.0 == 2)
    }
}

impl BitOr for RenameFlags {
    type Output = RenameFlags;
    fn bitor(self, other: RenameFlags) -> RenameFlags {
        RenameFlags(self.0 | other.0)
    }
}

/// What `fallocate` does, with its numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FallocateMode(pub u32);

impl FallocateMode {
    /// Reserves space, and the file grows where the range ends beyond it.
    pub const ALLOCATE: FallocateMode = FallocateMode(0);
    /// The size stays.
    pub const KEEP_SIZE: FallocateMode = FallocateMode(0x1);
    /// The range becomes a hole.
    pub const PUNCH_HOLE: FallocateMode = FallocateMode(0x2);
    /// The range is cut out, and what follows moves up.
    pub const COLLAPSE_RANGE: FallocateMode = FallocateMode(0x8);
    /// The range reads as zeroes.
    pub const ZERO_RANGE: FallocateMode = FallocateMode(0x10);
    /// A hole is put in, and what follows moves down.
    pub const INSERT_RANGE: FallocateMode = FallocateMode(0x20);
    /// Blocks shared with other files are copied.
    pub const UNSHARE_RANGE: FallocateMode = FallocateMode(0x40);
}

impl BitOr for FallocateMode {
    type Output = FallocateMode;
    fn bitor(self, other: FallocateMode) -> FallocateMode {
        FallocateMode(self.0 | other.0)
    }
}

/// Whether [`FileSystem::setxattr`] makes an attribute or replaces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Either.
    #[default]
    Set,
    /// The attribute must not exist (`XATTR_CREATE`).
    Create,
    /// The attribute must exist (`XATTR_REPLACE`).
    Replace,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent<'a> {
    /// Inode.
    pub ino: Ino,
    /// Type of the inode.
    pub file_type: FileType,
    /// Name.
    pub name: &'a [u8],
    /// Where to go on after this entry.
    pub cookie: u64,
}

/// What `statfs` says of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Unit of the blocks, in bytes.
    pub block_bytes: u32,
    /// Size in blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks that users other than root may take.
    pub available: u64,
}

/// Where a read puts what it reads.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadInto<'a> {
    /// Into these bytes. Zeroes where the file system keeps none.
    Bytes(&'a mut [u8]),
    /// Nowhere: so many bytes are read, which takes the same time.
    Length(u32),
}

impl ReadInto<'_> {
    /// Number of bytes wanted.
    #[inline]
    pub fn len(&self) -> u32 {
        match self {
            ReadInto::Bytes(bytes) => u32::try_from(bytes.len()).expect("a read is below 4 GiB"),
            ReadInto::Length(length) => *length,
        }
    }

    /// Whether nothing is wanted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a cache has of a page that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Nothing: all of it is written, or it lies beyond the end of the file.
    Absent,
    /// What the file system below has.
    Clean,
    /// What is not written back yet.
    Dirty,
}

/// What [`FileSystem::hold_back`] promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Bytes that the cache may keep, fewer where the largest file ends.
    pub length: u32,
    /// Whether space was promised for a page that the file system may not have yet. Of a page that was dirty it says nothing.
    pub is_new: bool,
}

/// A file system.
///
/// Implementors: `fs::model`, the oracle in memory, the file systems of `fs` on a volume, and `fs::cache` above another.
///
/// A name that is too long is `NameTooLong` in every call that takes one; a number of no inode is `Stale`; a directory
/// that is needed and none is `NotDir`. Every call that changes something may fail with `NoSpace`, `ReadOnly`, `Corrupt`
/// and `Medium`, and has then changed nothing that a later call can see. The errors of a call are those further ones.
pub trait FileSystem {
    /// Whether contents of files can be read back. If not, a write of [`Payload::Length`] is as good.
    fn keeps_bytes(&self) -> bool;

    /// What to write: `length` bytes, built as [`Flash::offer`](super::Flash::offer) says.
    #[inline(always)]
    fn offer<'a>(&self, buffer: &'a mut Vec<u8>, length: u32, build: impl FnOnce(&mut [u8])) -> Payload<'a>
    where
        Self: Sized,
    {
        payload::offer(self.keeps_bytes(), buffer, length, build)
    }

    /// The root directory.
    fn root(&self) -> Ino;

    /// The inode behind a name.
    /// Errors: `NoEntry`.
    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError>;

    /// What is known of an inode.
    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError>;

    /// Changes what `change` names.
    /// Errors: of a size, `IsDir`, `Invalid` of what is no regular file, `FileTooBig`.
    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError>;

    /// Makes an empty regular file.
    /// Errors: `Exists`; `NoEntry` if the directory is removed.
    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError>;

    /// Makes a directory.
    /// Errors: as [`create`](Self::create); `TooManyLinks`.
    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError>;

    /// Makes a device, a named pipe, a socket, or a regular file. `device` is 0:0 of what is no device.
    /// Errors: as [`create`](Self::create); `Invalid` of another type.
    fn mknod(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        file_type: FileType,
        device: DeviceNumber,
    ) -> Result<Attr, FsError>;

    /// Makes a symbolic link; its permissions are always 0777.
    /// Errors: as [`create`](Self::create); `NoEntry` of an empty target; `NameTooLong` of a target above 4,095 bytes.
    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError>;

    /// Target of a symbolic link.
    /// Errors: `Invalid` of what is none.
    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError>;

    /// Gives an inode another name.
    /// Errors: `NotPermitted` of a directory; `Exists`; `NoEntry` if inode or directory is removed; `TooManyLinks`.
    fn link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError>;

    /// Removes a name of what is no directory.
    /// Errors: `NoEntry`, `IsDir`.
    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError>;

    /// Removes an empty directory.
    /// Errors: `NoEntry`, `NotDir`, `NotEmpty`.
    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError>;

    /// Moves a name, as `flags` say. Two names of one inode stay as they are.
    /// Errors: `Invalid` of flags, and of a directory moved below itself; `NoEntry`; `Exists` with
    /// [`RenameFlags::NO_REPLACE`]; `IsDir` of a target that is a directory where the source is none, `NotDir` the other
    /// way round; `NotEmpty`; `TooManyLinks`.
    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError>;

    /// Reads from a regular file. Returns the number of bytes read, fewer where the file ends.
    /// Errors: `IsDir`; `Invalid` of what is no regular file.
    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError>;

    /// Writes to a regular file, which grows where the range ends beyond it. Returns the number of bytes written, fewer
    /// where space ends in the middle. A write of nothing changes nothing.
    /// Errors: `IsDir`; `Invalid` of what is no regular file; `FileTooBig`.
    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError>;

    /// A cache above keeps a write for later: `length` bytes at `offset`, all in one page of 4,096 bytes. The file grows
    /// and its times move as if it were written. The contents follow by [`write_back`](Self::write_back), or never, as
    /// [`let_go`](Self::let_go) says. Unless the page was dirty before, a file system that budgets promises space for it.
    ///
    /// Without an implementation the size is set and no space is promised: the write may fail with `NoSpace` later.
    /// Errors: as [`write`](Self::write).
    fn hold_back(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        length: u32,
        _page: PageState,
    ) -> Result<Held, FsError> {
        let size = self.getattr(cx, ino)?.size;
        self.setattr(cx, ino, &SetAttr::size(size.max(offset.saturating_add(length.into()))))?;
        Ok(Held { length, is_new: true })
    }

    /// Writes contents that were kept: from the beginning of a page, to the end of a page or of the file. The times stay, as they
    /// moved when the write was kept. `are_new` has [`Held::is_new`] of each page. What is written uses up its promise; an error uses up
    /// those of all these pages. Returns as [`write`](Self::write).
    ///
    /// Without an implementation it is a [`write`](Self::write), which moves them again.
    /// Errors: as [`write`](Self::write).
    fn write_back(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        offset: u64,
        data: Payload<'_>,
        _are_new: &[bool],
    ) -> Result<u32, FsError> {
        self.write(cx, ino, offset, data)
    }

    /// As [`setattr`](Self::setattr) that cuts a regular file within a page that a cache above has kept: `data` is what the page has up
    /// to the cut, and `is_new` [`Held::is_new`]. The page is written, and its promise used up. `None` of a file system that does not write
    /// it, and has changed nothing.
    ///
    /// Source: Linux 6.12 `fs/ubifs/file.c` (`do_truncation`), which writes the page first.
    /// Errors: as `setattr`; the page is still kept then.
    fn cut_within_page(
        &mut self,
        _cx: &mut Cx,
        _ino: Ino,
        _change: &SetAttr,
        _data: Payload<'_>,
        _is_new: bool,
    ) -> Result<Option<Attr>, FsError> {
        Ok(None)
    }

    /// The contents of pages that were kept are dropped, with their promises: `are_new` has [`Held::is_new`] of each. The inode may
    /// be gone already.
    fn let_go(&mut self, _ino: Ino, _are_new: &[bool]) {}

    /// The next inode that has become dirty and was not returned yet. Who asks once has all of them written from then on, by
    /// [`write_inode`](Self::write_inode): a cache above has one list of inodes, for them and for their pages, as Linux has.
    fn next_dirtied(&mut self) -> Option<Ino> {
        None
    }

    /// Writes an inode, if it is dirty.
    ///
    /// Source: Linux 6.12 `fs/fs-writeback.c` (`__writeback_single_inode`).
    fn write_inode(&mut self, _cx: &mut Cx, _ino: Ino) -> Result<(), FsError> {
        Ok(())
    }

    /// Whether the last call failed with `NoSpace` only because pages that were kept have more space promised than they will take: a
    /// cache that writes some of them back makes the call again.
    fn wants_write_back(&self) -> bool {
        false
    }

    /// Nobody will read the contents of this file soon, as `POSIX_FADV_DONTNEED` says of a whole file: a cache drops the pages that
    /// are clean.
    fn drop_clean(&mut self, _ino: Ino) {}

    /// Reserves or removes space. Without an implementation: `NotSupported`, as UBIFS answers.
    fn fallocate(
        &mut self,
        _cx: &mut Cx,
        _ino: Ino,
        _mode: FallocateMode,
        _offset: u64,
        _length: u64,
    ) -> Result<(), FsError> {
        Err(FsError::NotSupported { what: "fallocate" })
    }

    /// Value of an extended attribute, whose name has its prefix (`user.`, `trusted.`, `security.`).
    /// Errors: `NoAttr`; `NotSupported` of another prefix; `Invalid` of a prefix alone.
    fn getxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError>;

    /// Sets an extended attribute.
    /// Errors: as [`getxattr`](Self::getxattr), but `NoAttr` only with [`SetXattr::Replace`]; `Exists` with
    /// [`SetXattr::Create`]; `Range` of a value that is too long; `NoSpace` if the names would be too many to list.
    fn setxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError>;

    /// Names of the extended attributes, in an order of the file system's own.
    fn listxattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError>;

    /// Removes an extended attribute.
    /// Errors: as [`getxattr`](Self::getxattr).
    fn removexattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError>;

    /// Calls `each` with the entries of a directory, in an order of the file system's own, from the one after `cookie`
    /// on, until it returns false. Cookie 0 is the beginning. An entry that stays in the directory is seen once, whatever
    /// comes and goes between two calls; `cookie` may be of an entry that is gone.
    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError>;

    /// Size and free space.
    fn statfs(&mut self, cx: &mut Cx) -> Result<StatFs, FsError>;

    /// Keeps the inode alive without a name, until [`release`](Self::release) was called as often.
    fn open(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError>;

    /// Ends an [`open`](Self::open). An inode without name and without another opener is deleted.
    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError>;

    /// After it returns, the inode and its contents survive a loss of power: with `data_only` what is needed to read them
    /// back, so not the times. Says nothing of the directory that has its name.
    fn fsync(&mut self, cx: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError>;

    /// After it returns, everything survives a loss of power.
    fn sync(&mut self, cx: &mut Cx) -> Result<(), FsError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_carries_over_into_the_next_second() {
        let epoch = Timestamp { seconds: 100, nanos: 999_999_999 };
        assert_eq!(epoch.after(Ns(1)), Timestamp { seconds: 101, nanos: 0 });
        assert_eq!(epoch.after(Ns(2_000_000_001)), Timestamp { seconds: 103, nanos: 0 });
        assert_eq!(epoch.after(Ns::ZERO), epoch);
    }

    /// `inode(7)`: S_IFMT is 0170000.
    #[test]
    fn types_have_the_bits_of_st_mode_and_no_others() {
        let bits = FileType::ALL.map(FileType::mode_bits);
        assert_eq!(bits, [0o100_000, 0o040_000, 0o120_000, 0o060_000, 0o020_000, 0o010_000, 0o140_000]);
    }

    /// The numbers of Linux's `fs.h` and `falloc.h`.
    #[test]
    fn flags_are_those_of_linux_and_their_union_has_each_once() {
        let of_inode =
            [InodeFlags::COMPRESSED, InodeFlags::SYNC, InodeFlags::IMMUTABLE, InodeFlags::APPEND, InodeFlags::DIR_SYNC];
        assert_eq!(of_inode.map(|flags| flags.0), [0x4, 0x8, 0x10, 0x20, 0x1_0000]);
        let of_rename = [RenameFlags::NO_REPLACE, RenameFlags::EXCHANGE, RenameFlags::WHITEOUT];
        assert_eq!(of_rename.map(|flags| flags.0), [1, 2, 4]);
        let of_fallocate = [
            FallocateMode::KEEP_SIZE,
            FallocateMode::PUNCH_HOLE,
            FallocateMode::COLLAPSE_RANGE,
            FallocateMode::ZERO_RANGE,
            FallocateMode::INSERT_RANGE,
            FallocateMode::UNSHARE_RANGE,
        ];
        assert_eq!(of_fallocate.map(|mode| mode.0), [0x1, 0x2, 0x8, 0x10, 0x20, 0x40]);
        // Every pair of the bits 0 to 5, a bit with itself too.
        for (a, b) in (0..6).flat_map(|a| (0..6).map(move |b| (1 << a, 1 << b))) {
            let union = if a == b { a } else { a + b };
            assert_eq!((InodeFlags(a) | InodeFlags(b)).0, union);
            assert_eq!((RenameFlags(a) | RenameFlags(b)).0, union);
            assert_eq!((FallocateMode(a) | FallocateMode(b)).0, union);
            assert!(InodeFlags(union).has(InodeFlags(a)) && RenameFlags(union).has(RenameFlags(b)));
            assert_eq!(InodeFlags(a).has(InodeFlags(union)), a == b, "both, or not");
            assert_eq!(RenameFlags(a).has(RenameFlags(union)), a == b, "both, or not");
        }
    }

    #[test]
    fn a_read_wants_as_many_bytes_with_a_place_for_them_as_without() {
        for length in [0, 1, 300] {
            let mut bytes = vec![0; length as usize];
            for into in [ReadInto::Bytes(&mut bytes), ReadInto::Length(length)] {
                assert_eq!((into.len(), into.is_empty()), (length, length == 0));
            }
        }
    }

    #[test]
    fn an_inode_of_roots_and_a_new_size_are_nothing_else() {
        assert_eq!(NewInode::of_root(0o640), NewInode { mode: 0o640, uid: 0, gid: 0 });
        let SetAttr { mode, uid, gid, size, atime, mtime, flags } = SetAttr::size(77);
        assert_eq!((size, mode, uid, gid, atime, mtime, flags), (Some(77), None, None, None, None, None, None));
        let devices: Vec<FileType> = FileType::ALL.into_iter().filter(|of| of.is_device()).collect();
        assert_eq!(devices, [FileType::BlockDevice, FileType::CharDevice]);
    }

    #[test]
    fn an_exchange_goes_with_no_other_flag() {
        let valid = (0..16).filter(|&bits| RenameFlags(bits).is_valid()).collect::<Vec<_>>();
        assert_eq!(valid, [0, 1, 2, 4, 5]);
    }
}
