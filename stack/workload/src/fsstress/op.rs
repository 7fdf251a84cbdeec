//! The operations and their weights.

/// An operation of fsstress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Op {
    /// Asynchronous fsync.
    Afsync,
    /// Allocation of XFS (`XFS_IOC_ALLOCSP64`).
    Allocsp,
    /// Asynchronous direct read.
    Aread,
    /// Removes one of the attributes there are.
    AttrRemove,
    /// Sets an attribute of up to 10,000 bytes.
    AttrSet,
    /// Asynchronous direct write.
    Awrite,
    /// Statistics of many inodes (XFS).
    Bulkstat,
    /// Statistics of one inode (XFS).
    Bulkstat1,
    /// Changes owner and group.
    Chown,
    /// Shares a range between files.
    Clonerange,
    /// Copies a range between files.
    Copyrange,
    /// Makes a file.
    Creat,
    /// Shares equal ranges of files.
    Deduperange,
    /// Direct read.
    Dread,
    /// Direct write.
    Dwrite,
    /// Reserves space.
    Fallocate,
    /// `fdatasync`.
    Fdatasync,
    /// Asks for the extents of a file.
    Fiemap,
    /// Frees space of XFS (`XFS_IOC_FREESP64`).
    Freesp,
    /// `fsync` of a file or directory.
    Fsync,
    /// Flags of an inode.
    Getattr,
    /// Reads a directory.
    Getdents,
    /// Reads an attribute.
    Getfattr,
    /// Makes a hard link.
    Link,
    /// Lists attributes.
    Listfattr,
    /// Makes a directory.
    Mkdir,
    /// Makes a character device.
    Mknod,
    /// Reads through a mapping.
    Mread,
    /// Writes through a mapping, half of them private.
    Mwrite,
    /// Punches a hole.
    Punch,
    /// Zeroes a range.
    Zero,
    /// Collapses a range.
    Collapse,
    /// Inserts a range.
    Insert,
    /// Reads.
    Read,
    /// Reads a symbolic link.
    Readlink,
    /// Reads into many buffers.
    Readv,
    /// Removes an attribute.
    Removefattr,
    /// Renames.
    Rename,
    /// Renames to a name that must be free.
    Rnoreplace,
    /// Exchanges two names of a kind.
    Rexchange,
    /// Renames a device and leaves a whiteout.
    Rwhiteout,
    /// Reserves space of XFS, which the VFS answers by `fallocate`.
    Resvsp,
    /// Removes a directory.
    Rmdir,
    /// Sets flags of an inode.
    Setattr,
    /// Sets an attribute of up to 100 bytes.
    Setfattr,
    /// Sets the project of an inode (XFS).
    Setxattr,
    /// Snapshot of a subvolume (btrfs).
    Snapshot,
    /// Copies a range through a pipe.
    Splice,
    /// `lstat`.
    Stat,
    /// Makes a subvolume (btrfs).
    SubvolCreate,
    /// Removes a subvolume (btrfs).
    SubvolDelete,
    /// Makes a symbolic link.
    Symlink,
    /// `syncfs`.
    Sync,
    /// Sets the size of a file.
    Truncate,
    /// Removes a name.
    Unlink,
    /// Frees space of XFS, which the VFS answers by `fallocate`.
    Unresvsp,
    /// Reads through an io_uring.
    UringRead,
    /// Writes through an io_uring.
    UringWrite,
    /// Writes.
    Write,
    /// Writes from many buffers.
    Writev,
}

/// Number of operations.
pub const OPS: usize = 60;

impl Op {
    /// Every operation, in the order of fsstress's own table, with its name and its default weight. Those of btrfs have
    /// weight 0, as fsstress gives them elsewhere. Source: xfstests `ltp/fsstress.c` at 0049872c.
    pub const TABLE: [(Op, &'static str, u32); OPS] = [
        (Op::Afsync, "afsync", 0),
        (Op::Allocsp, "allocsp", 1),
        (Op::Aread, "aread", 1),
        (Op::AttrRemove, "attr_remove", 0),
        (Op::AttrSet, "attr_set", 0),
        (Op::Awrite, "awrite", 1),
        (Op::Bulkstat, "bulkstat", 1),
        (Op::Bulkstat1, "bulkstat1", 1),
        (Op::Chown, "chown", 3),
        (Op::Clonerange, "clonerange", 4),
        (Op::Copyrange, "copyrange", 4),
        (Op::Creat, "creat", 4),
        (Op::Deduperange, "deduperange", 4),
        (Op::Dread, "dread", 4),
        (Op::Dwrite, "dwrite", 4),
        (Op::Fallocate, "fallocate", 1),
        (Op::Fdatasync, "fdatasync", 1),
        (Op::Fiemap, "fiemap", 1),
        (Op::Freesp, "freesp", 1),
        (Op::Fsync, "fsync", 1),
        (Op::Getattr, "getattr", 1),
        (Op::Getdents, "getdents", 1),
        (Op::Getfattr, "getfattr", 1),
        (Op::Link, "link", 1),
        (Op::Listfattr, "listfattr", 1),
        (Op::Mkdir, "mkdir", 2),
        (Op::Mknod, "mknod", 2),
        (Op::Mread, "mread", 2),
        (Op::Mwrite, "mwrite", 2),
        (Op::Punch, "punch", 1),
        (Op::Zero, "zero", 1),
        (Op::Collapse, "collapse", 1),
        (Op::Insert, "insert", 1),
        (Op::Read, "read", 1),
        (Op::Readlink, "readlink", 1),
        (Op::Readv, "readv", 1),
        (Op::Removefattr, "removefattr", 1),
        (Op::Rename, "rename", 2),
        (Op::Rnoreplace, "rnoreplace", 2),
        (Op::Rexchange, "rexchange", 2),
        (Op::Rwhiteout, "rwhiteout", 2),
        (Op::Resvsp, "resvsp", 1),
        (Op::Rmdir, "rmdir", 1),
        (Op::Setattr, "setattr", 0),
        (Op::Setfattr, "setfattr", 2),
        (Op::Setxattr, "setxattr", 1),
        (Op::Snapshot, "snapshot", 0),
        (Op::Splice, "splice", 1),
        (Op::Stat, "stat", 1),
        (Op::SubvolCreate, "subvol_create", 0),
        (Op::SubvolDelete, "subvol_delete", 0),
        (Op::Symlink, "symlink", 2),
        (Op::Sync, "sync", 1),
        (Op::Truncate, "truncate", 2),
        (Op::Unlink, "unlink", 1),
        (Op::Unresvsp, "unresvsp", 1),
        (Op::UringRead, "uring_read", 1),
        (Op::UringWrite, "uring_write", 1),
        (Op::Write, "write", 4),
        (Op::Writev, "writev", 4),
    ];

    /// Its name in fsstress.
    pub const fn name(self) -> &'static str {
        Op::TABLE[self as usize].1
    }

    /// The operation of this name (`-f NAME=WEIGHT`).
    pub fn named(name: &str) -> Option<Op> {
        Op::TABLE.iter().find(|(_, of, _)| *of == name).map(|&(op, ..)| op)
    }
}

const _: () = {
    let mut at = 0;
    while at < OPS {
        assert!(Op::TABLE[at].0 as usize == at, "the table is in the order of the enum");
        at += 1;
    }
};
