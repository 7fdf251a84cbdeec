//! A file system that is open for reading, behind the seam: every change is refused.

use sim::Cx;
use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, FsError, Ino, InodeFlags, LebVolume, NewInode, Payload, ReadInto,
    RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};

use super::error::UbifsError;
use super::index::Index;
use super::media::{BLOCK_BYTES, Device, ItemType, Key, KeyType, MAX_BLOCK, ROOT_INO, inode_flags};
use super::nodes::Nodes;
use super::read::{DirEntry, Inode, Reader, read_entry};

const READ_ONLY: FsError = FsError::ReadOnly { why: "UBIFS that is open for reading" };

impl From<UbifsError> for FsError {
    fn from(error: UbifsError) -> FsError {
        // The place is said before what was found.
        let text = error.to_string();
        let what = text.split_once(": ").map_or(text.clone(), |(_, what)| what.to_owned());
        match error {
            UbifsError::Leb(error) => FsError::Medium(error),
            UbifsError::NoSpace | UbifsError::WriteBackFirst => FsError::NoSpace,
            UbifsError::ReadOnly { why } => FsError::ReadOnly { why },
            UbifsError::NoInode { ino } => FsError::Stale { ino: Ino(ino.into()) },
            UbifsError::Node { lnum, offset, .. }
            | UbifsError::Corrupt { lnum, offset, .. }
            | UbifsError::Data { lnum, offset, .. } => FsError::Corrupt { lnum, offset, what },
            _ => FsError::Corrupt { lnum: sim::Lnum(0), offset: 0, what: text },
        }
    }
}

/// Bits of a cookie below the hash of the name.
const CRC_BITS: u32 = 24;

/// The cookie of an entry: the hash of its name, by which the index is sorted, and 24 bits of the name's CRC-32, which tell
/// names with one hash apart. So it stays what it is, whatever comes and goes.
fn cookie(hash: u32, name: &[u8]) -> u64 {
    u64::from(hash) << CRC_BITS | u64::from(crc32fast::hash(name) & ((1 << CRC_BITS) - 1))
}

/// The least hash of the entries that follow a cookie.
fn hash_of(cookie: u64) -> u32 {
    u32::try_from(cookie >> CRC_BITS).unwrap_or(MAX_BLOCK).min(MAX_BLOCK)
}

/// Calls `each` with the entries of a directory from a cookie on, until it returns false.
/// Errors: the volume's; a damaged entry.
pub(super) fn list<V: LebVolume>(
    index: &mut Index,
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    (dir, cookie): (u32, u64),
    each: &mut dyn FnMut(Dirent<'_>) -> bool,
) -> Result<(), FsError> {
    let mut found = index.lower_bound(nodes, cx, Key::dent(dir, hash_of(cookie)))?;
    // Entries with one hash, which go by their cookies.
    let mut equal: Vec<(u64, DirEntry)> = Vec::new();
    loop {
        let next = found.filter(|(_, branch)| branch.key.ino() == dir && branch.key.key_type() == Some(KeyType::Dent));
        let is_other =
            next.is_none_or(|(_, branch)| equal.first().is_some_and(|one| hash_of(one.0) != branch.key.low()));
        if is_other {
            equal.sort_by_key(|entry| entry.0);
            for (at, entry) in equal.drain(..).filter(|entry| entry.0 >= cookie) {
                let file_type = file_type(entry.item);
                let ino = Ino(entry.ino.into());
                if !each(Dirent { ino, file_type, name: &entry.name, cookie: at + 1 }) {
                    return Ok(());
                }
            }
        }
        let Some((place, branch)) = next else { return Ok(()) };
        let entry = read_entry(nodes, cx, &branch)?;
        equal.push((self::cookie(branch.key.low(), &entry.name), entry));
        found = index.next(nodes, cx, place)?;
    }
}

pub(super) fn file_type(item: ItemType) -> FileType {
    match item {
        ItemType::File => FileType::Regular,
        ItemType::Dir => FileType::Directory,
        ItemType::Symlink => FileType::Symlink,
        ItemType::BlockDevice => FileType::BlockDevice,
        ItemType::CharDevice => FileType::CharDevice,
        ItemType::Fifo => FileType::Fifo,
        ItemType::Socket => FileType::Socket,
    }
}

fn attr(inode: &Inode) -> Attr {
    let device = Device::decode(&inode.data).unwrap_or(Device { major: 0, minor: 0 });
    let file_type = file_type(inode.item);
    let flags = [
        (inode_flags::COMPRESSED, InodeFlags::COMPRESSED),
        (inode_flags::SYNC, InodeFlags::SYNC),
        (inode_flags::IMMUTABLE, InodeFlags::IMMUTABLE),
        (inode_flags::APPEND, InodeFlags::APPEND),
        (inode_flags::DIR_SYNC, InodeFlags::DIR_SYNC),
    ];
    let flags = flags.into_iter().filter(|(flag, _)| inode.flags & flag != 0);
    let time = |(seconds, nanos)| Timestamp { seconds, nanos };
    Attr {
        ino: Ino(inode.ino.into()),
        file_type,
        mode: inode.mode & 0o7777,
        uid: inode.uid,
        gid: inode.gid,
        nlink: inode.nlink,
        size: inode.size,
        device: match file_type.is_device() {
            true => DeviceNumber { major: device.major, minor: device.minor },
            false => DeviceNumber::default(),
        },
        flags: flags.fold(InodeFlags::default(), |all, (_, flag)| all | flag),
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
    }
}

/// An inode number that UBIFS can have.
fn number(ino: Ino) -> Result<u32, FsError> {
    u32::try_from(ino.0).map_err(|_| FsError::Stale { ino })
}

impl<V: LebVolume> Reader<V> {
    fn dir(&mut self, cx: &mut Cx, dir: Ino) -> Result<u32, FsError> {
        match self.inode(cx, number(dir)?)? {
            Inode { ino, item: ItemType::Dir, .. } => Ok(ino),
            _ => Err(FsError::NotDir { ino: dir }),
        }
    }

    fn attribute(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<DirEntry, FsError> {
        let found = self.attributes(cx, number(ino)?)?.into_iter().find(|entry| entry.name == name);
        found.ok_or(FsError::NoAttr { ino })
    }
}

impl<V: LebVolume> FileSystem for Reader<V> {
    fn keeps_bytes(&self) -> bool {
        V::keeps_bytes()
    }

    fn root(&self) -> Ino {
        Ino(ROOT_INO.into())
    }

    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let number = self.dir(cx, dir)?;
        match Reader::lookup(self, cx, number, name)? {
            None => Err(FsError::NoEntry { dir }),
            Some(entry) => Ok(attr(&self.inode(cx, entry.ino)?)),
        }
    }

    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        Ok(attr(&self.inode(cx, number(ino)?)?))
    }

    fn setattr(&mut self, _: &mut Cx, _: Ino, _: &SetAttr) -> Result<Attr, FsError> {
        Err(READ_ONLY)
    }

    fn create(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: NewInode) -> Result<Attr, FsError> {
        Err(READ_ONLY)
    }

    fn mkdir(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: NewInode) -> Result<Attr, FsError> {
        Err(READ_ONLY)
    }

    fn mknod(
        &mut self,
        _: &mut Cx,
        _: Ino,
        _: &[u8],
        _: NewInode,
        _: FileType,
        _: DeviceNumber,
    ) -> Result<Attr, FsError> {
        Err(READ_ONLY)
    }

    fn symlink(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: &[u8], _: NewInode) -> Result<Attr, FsError> {
        Err(READ_ONLY)
    }

    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError> {
        match self.inode(cx, number(ino)?)? {
            Inode { item: ItemType::Symlink, data, .. } => Ok(data),
            _ => Err(FsError::Invalid { why: "it is no symbolic link" }),
        }
    }

    fn link(&mut self, _: &mut Cx, _: Ino, _: Ino, _: &[u8]) -> Result<Attr, FsError> {
        Err(READ_ONLY)
    }

    fn unlink(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        Err(READ_ONLY)
    }

    fn rmdir(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        Err(READ_ONLY)
    }

    fn rename(&mut self, _: &mut Cx, _: (Ino, &[u8]), _: (Ino, &[u8]), _: RenameFlags) -> Result<(), FsError> {
        Err(READ_ONLY)
    }

    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        let inode = self.inode(cx, number(ino)?)?;
        match inode.item {
            ItemType::File => {}
            ItemType::Dir => return Err(FsError::IsDir { ino }),
            _ => return Err(FsError::Invalid { why: "it has no contents" }),
        }
        let mut scratch;
        let out = match into {
            ReadInto::Bytes(bytes) => bytes,
            ReadInto::Length(length) => {
                scratch = vec![0; length as usize];
                &mut scratch[..]
            }
        };
        Ok(Reader::read(self, cx, inode.ino, inode.size, offset, out)? as u32)
    }

    fn write(&mut self, _: &mut Cx, _: Ino, _: u64, _: Payload<'_>) -> Result<u32, FsError> {
        Err(READ_ONLY)
    }

    fn getxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        let value = self.attribute(cx, ino, name)?;
        Ok(self.inode(cx, value.ino)?.data)
    }

    fn setxattr(&mut self, _: &mut Cx, _: Ino, _: &[u8], _: &[u8], _: SetXattr) -> Result<(), FsError> {
        Err(READ_ONLY)
    }

    fn listxattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        let found = self.attributes(cx, number(ino)?)?;
        Ok(found.into_iter().map(|entry| entry.name).collect())
    }

    fn removexattr(&mut self, _: &mut Cx, _: Ino, _: &[u8]) -> Result<(), FsError> {
        Err(READ_ONLY)
    }

    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        let number = self.dir(cx, dir)?;
        let (nodes, mounted, _) = self.parts();
        list(&mut mounted.index, nodes, cx, (number, cookie), each)
    }

    fn statfs(&mut self, _: &mut Cx) -> Result<StatFs, FsError> {
        let (sb, master) = (&self.mounted().sb, &self.mounted().master);
        let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
        let whole = blocks(u64::from(sb.main_lebs()) * u64::from(sb.leb_bytes));
        let free = blocks(master.total_free + master.total_dirty);
        let available = free.saturating_sub(blocks(sb.reserve_bytes));
        Ok(StatFs { block_bytes: BLOCK_BYTES, blocks: whole, free, available })
    }

    fn open(&mut self, _: &mut Cx, _: Ino) -> Result<(), FsError> {
        Ok(())
    }

    fn release(&mut self, _: &mut Cx, _: Ino) -> Result<(), FsError> {
        Ok(())
    }

    fn fsync(&mut self, _: &mut Cx, _: Ino, _: bool) -> Result<(), FsError> {
        Ok(())
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), FsError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ubifs::mkfs;
    use crate::ubifs::{Options, Ubifs};
    use sim::Lnum;
    use sim::seam::{LebError, RamVolume};

    /// A volume that counts reads.
    struct Counted(RamVolume, u64);

    impl LebVolume for Counted {
        fn keeps_bytes() -> bool {
            true
        }

        fn lebs(&self) -> u32 {
            self.0.lebs()
        }

        fn leb_bytes(&self) -> u32 {
            self.0.leb_bytes()
        }

        fn min_io_bytes(&self) -> u32 {
            self.0.min_io_bytes()
        }

        fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
            self.1 += 1;
            self.0.read(cx, lnum, offset, buf)
        }

        fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
            self.0.write(cx, lnum, offset, data)
        }

        fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
            self.0.change(cx, lnum, data)
        }

        fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
            self.0.map(cx, lnum)
        }

        fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
            self.0.unmap(cx, lnum)
        }

        fn is_mapped(&self, lnum: Lnum) -> bool {
            self.0.is_mapped(lnum)
        }

        fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError> {
            self.0.sync(cx)
        }
    }

    /// A directory that is listed in many parts: each call reads what it hands out, not the entries before.
    #[test]
    fn a_cookie_is_where_a_list_goes_on() {
        const FILES: u64 = 300;
        let cx = &mut Cx::new();
        let volume = Counted(RamVolume::new(60, 15_872, 512), 0);
        let mut fs = Ubifs::format(volume, cx, &mkfs::Options::new(512, 15_872, 60), Options::default()).expect("fits");
        let root = fs.root();
        for file in 0..FILES {
            fs.create(cx, root, format!("{file}").as_bytes(), NewInode::of_root(0o644)).expect("there is space");
        }
        let mut reader = Reader::mount(fs.unmount(cx).expect("nothing fails"), cx).expect("it is clean");
        // The index is in memory after this.
        reader.readdir(cx, root, 0, &mut |_| true).expect("it is whole");
        let before = reader.volume().1;
        let (mut names, mut cookie, mut calls) = (Vec::new(), 0, 0);
        loop {
            let (had, from) = (names.len(), cookie);
            let mut part = |entry: Dirent<'_>| {
                names.push(entry.name.to_vec());
                cookie = entry.cookie;
                names.len() < had + 10
            };
            reader.readdir(cx, root, from, &mut part).expect("it is whole");
            calls += 1;
            if names.len() == had {
                break;
            }
        }
        names.sort();
        names.dedup();
        assert_eq!((names.len() as u64, calls), (FILES, 1 + FILES / 10));
        // Besides: the inode of the directory, the entry that the cookie is after, and the one that ends the last hash.
        let reads = reader.volume().1 - before;
        assert!(reads <= FILES + 3 * calls, "{reads} reads");
    }

    /// Linux has the page in its cache, so that what is written back replaces all that the block has; only a part of a block
    /// needs the rest of it.
    #[test]
    fn a_write_of_all_that_a_block_has_reads_nothing() {
        let cx = &mut Cx::new();
        let volume = Counted(RamVolume::new(60, 15_872, 512), 0);
        let mut fs = Ubifs::format(volume, cx, &mkfs::Options::new(512, 15_872, 60), Options::default()).expect("fits");
        let ino = fs.create(cx, fs.root(), b"file", NewInode::of_root(0o644)).expect("there is space").ino;
        for (offset, length, reads) in
            [(0, 700, 0), (0, 900, 0), (0, 900, 0), (900, 10, 1), (100, 10, 1), (4096, 50, 0)]
        {
            fs.sync(cx).expect("there is power");
            let before = fs.volume().1;
            fs.write(cx, ino, offset, Payload::Bytes(&vec![7; length])).expect("there is space");
            assert_eq!(fs.volume().1 - before, reads, "{length} bytes at {offset}");
        }
    }
}
