//! The file systems of images, behind the few calls that the commands need.

use fs::jffs2::{Damage, Jffs2, Jffs2Error, Lost, Run};
use fs::ubifs::media::{BLOCK_BYTES, Device, ItemType, ROOT_INO};
use fs::ubifs::{Data, DirEntry, Reader, UbifsError};
use sim::Cx;
use sim::seam::{Attr, DeviceNumber, FileSystem, FileType, FsError, Ino, InodeFlags, ReadInto, Timestamp};

use super::Lebs;
use super::jffs2::Blocks;

/// A file system that is open for reading.
pub enum Opened<'s, 'a> {
    /// UBIFS.
    Ubifs(Box<Reader<Lebs<'s, 'a>>>),
    /// JFFS2.
    Jffs2(Box<Jffs2<Blocks<'s, 'a>>>),
}

/// Why a file system cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FilesError {
    /// UBIFS.
    #[error(transparent)]
    Ubifs(#[from] UbifsError),
    /// JFFS2.
    #[error(transparent)]
    Jffs2(#[from] Jffs2Error),
}

impl FilesError {
    /// Name of the file system.
    pub const fn of(&self) -> &'static str {
        match self {
            FilesError::Ubifs(_) => "UBIFS",
            FilesError::Jffs2(_) => "JFFS2",
        }
    }
}

impl From<FsError> for FilesError {
    fn from(error: FsError) -> FilesError {
        FilesError::Jffs2(error.into())
    }
}

/// A result of a file system.
type Result<T, E = FilesError> = std::result::Result<T, E>;

/// An inode.
#[derive(Clone, Debug)]
pub struct Inode {
    /// What `stat` says.
    pub attr: Attr,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Number of a device; `None` also if it cannot be understood.
    pub device: Option<DeviceNumber>,
    /// False: it has no extended attributes.
    pub may_have_xattrs: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name.
    pub name: Vec<u8>,
    /// Inode that it names.
    pub ino: Ino,
    /// Type of that inode, as the entry says.
    pub file_type: FileType,
}

/// An extended attribute.
#[derive(Clone, Debug)]
pub struct Xattr {
    /// Name.
    pub name: Vec<u8>,
    value: Value,
}

/// Where a value is.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// In an inode of UBIFS.
    Inode(u32),
    /// Where the name is.
    Named,
    /// Its node is damaged.
    Lost,
}

/// How far the contents of a file were read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    block: Option<Data>,
    offset: u64,
}

/// A part of a file.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Bytes from here on.
    Bytes(u64),
    /// What cannot be read.
    Missing(String),
}

/// Something of an inode that is damaged.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The name in the directory, if it is one.
    pub name: Option<Vec<u8>>,
    /// What is missing, and why.
    pub what: String,
}

fn file_type(item: ItemType) -> FileType {
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

/// The number of an inode of UBIFS.
fn number(ino: Ino) -> Result<u32> {
    Ok(u32::try_from(ino.0).map_err(|_| UbifsError::NoInode { ino: u32::MAX })?)
}

fn of_ubifs(inode: fs::ubifs::Inode) -> Inode {
    let time = |(seconds, nanos): (u64, u32)| Timestamp { seconds, nanos };
    let file_type = file_type(inode.item);
    let device = file_type.is_device().then(|| Device::decode(&inode.data).ok()).flatten();
    let device = device.map(|Device { major, minor }| DeviceNumber { major, minor });
    let attr = Attr {
        ino: Ino(inode.ino.into()),
        file_type,
        mode: inode.mode & 0o7777,
        uid: inode.uid,
        gid: inode.gid,
        nlink: inode.nlink,
        size: inode.size,
        device: device.unwrap_or_default(),
        flags: InodeFlags::default(),
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
    };
    let target = if file_type == FileType::Symlink { inode.data } else { Vec::new() };
    Inode { attr, target, device, may_have_xattrs: inode.xattr_cnt > 0 }
}

impl Opened<'_, '_> {
    /// The root directory. Errors: it cannot be read, or is no directory.
    pub fn root(&mut self, cx: &mut Cx) -> Result<Inode> {
        match self {
            Opened::Ubifs(reader) => Ok(of_ubifs(Reader::root(reader, cx)?)),
            Opened::Jffs2(fs) => {
                let root = fs.root();
                let inode = self.inode(cx, root)?;
                match inode.attr.file_type {
                    FileType::Directory => Ok(inode),
                    _ => Err(FsError::NotDir { ino: root }.into()),
                }
            }
        }
    }

    /// Number of the root directory.
    pub fn root_ino(&self) -> Ino {
        match self {
            Opened::Ubifs(_) => Ino(ROOT_INO.into()),
            Opened::Jffs2(fs) => fs.root(),
        }
    }

    /// Errors: there is no such inode, or it is damaged.
    pub fn inode(&mut self, cx: &mut Cx, ino: Ino) -> Result<Inode> {
        match self {
            Opened::Ubifs(reader) => Ok(of_ubifs(reader.inode(cx, number(ino)?)?)),
            Opened::Jffs2(fs) => {
                let attr = fs.getattr(cx, ino)?;
                let target = if attr.file_type == FileType::Symlink { fs.readlink(cx, ino)? } else { Vec::new() };
                let device = attr.file_type.is_device().then_some(attr.device);
                Ok(Inode { attr, target, device, may_have_xattrs: true })
            }
        }
    }

    /// The inode of a name in a directory; `None`: there is none. Errors: damage.
    pub fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Option<Ino>> {
        match self {
            Opened::Ubifs(reader) => Ok(reader.lookup(cx, number(dir)?, name)?.map(|entry| Ino(entry.ino.into()))),
            Opened::Jffs2(fs) => match fs.lookup(cx, dir, name) {
                Ok(attr) => Ok(Some(attr.ino)),
                Err(FsError::NoEntry { .. } | FsError::NotDir { .. } | FsError::NameTooLong { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// The entries of a directory. Errors: it cannot be read.
    pub fn entries(&mut self, cx: &mut Cx, dir: Ino) -> Result<Vec<Entry>> {
        match self {
            Opened::Ubifs(reader) => {
                let of =
                    |DirEntry { name, ino, item }| Entry { name, ino: Ino(ino.into()), file_type: file_type(item) };
                Ok(reader.entries(cx, number(dir)?)?.into_iter().map(of).collect())
            }
            Opened::Jffs2(fs) => {
                let mut entries = Vec::new();
                fs.readdir(cx, dir, 0, &mut |entry| {
                    let (ino, file_type) = (entry.ino, entry.file_type);
                    entries.push(Entry { name: entry.name.to_vec(), ino, file_type });
                    true
                })?;
                Ok(entries)
            }
        }
    }

    /// The extended attributes of an inode. Errors: they cannot be read.
    pub fn xattrs(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Xattr>> {
        match self {
            Opened::Ubifs(reader) => {
                let of = |entry: DirEntry| Xattr { name: entry.name, value: Value::Inode(entry.ino) };
                Ok(reader.attributes(cx, number(ino)?)?.into_iter().map(of).collect())
            }
            Opened::Jffs2(fs) => {
                let names = fs.listxattr(cx, ino)?;
                let lost = fs.damages_of(ino).into_iter().filter_map(|damage| match damage.lost {
                    Lost::Xattr(xid) => Some(Xattr { name: format!("number {xid}").into_bytes(), value: Value::Lost }),
                    _ => None,
                });
                Ok(names.into_iter().map(|name| Xattr { name, value: Value::Named }).chain(lost).collect())
            }
        }
    }

    /// The value of an extended attribute of an inode. Errors: it cannot be read.
    pub fn xattr(&mut self, cx: &mut Cx, ino: Ino, xattr: &Xattr) -> Result<Vec<u8>, String> {
        let value: Result<Vec<u8>> = match (self, xattr.value) {
            (Opened::Ubifs(reader), Value::Inode(value)) => {
                reader.inode(cx, value).map(|inode| inode.data).map_err(Into::into)
            }
            (Opened::Jffs2(fs), Value::Named) => fs.getxattr(cx, ino, &xattr.name).map_err(Into::into),
            _ => return Err("its CRC differs".to_owned()),
        };
        value.map_err(|error| error.to_string())
    }

    /// Reads up to `out.len()` bytes of a file from `offset` on. Returns their number, which is less at the end of the
    /// file. Errors: damage.
    pub fn read(&mut self, cx: &mut Cx, inode: &Inode, offset: u64, out: &mut [u8]) -> Result<usize> {
        let Attr { ino, size, .. } = inode.attr;
        match self {
            Opened::Ubifs(reader) => Ok(reader.read(cx, number(ino)?, size, offset, out)?),
            Opened::Jffs2(fs) => Ok(FileSystem::read(&mut **fs, cx, ino, offset, ReadInto::Bytes(out))? as usize),
        }
    }

    /// Reads the next bytes of a file that are on flash into `out`. `None` after the last ones. No other call may come
    /// between two of them.
    pub fn next_piece(&mut self, cx: &mut Cx, inode: &Inode, at: &mut Cursor, out: &mut Vec<u8>) -> Option<Piece> {
        match self {
            Opened::Ubifs(reader) => next_block(reader, cx, inode, at, out),
            Opened::Jffs2(fs) => next_run(fs, cx, inode, at, out),
        }
    }

    /// What was found damaged of an inode that was read; UBIFS says it where it is met.
    pub fn losses(&self, inode: &Inode) -> Vec<Loss> {
        match self {
            Opened::Ubifs(_) => Vec::new(),
            Opened::Jffs2(fs) => fs.damages_of(inode.attr.ino).iter().filter_map(loss).collect(),
        }
    }

    /// Damage of which nothing says what file it is of, found so far.
    pub fn strays(&self) -> Vec<String> {
        match self {
            Opened::Ubifs(_) => Vec::new(),
            Opened::Jffs2(fs) => {
                let (damages, more) = fs.damages();
                let is_stray = |damage: &&Damage| {
                    damage.ino.is_none() && !damage.is_torn && !matches!(damage.lost, Lost::Xattr(_))
                };
                let strays = damages.iter().filter(is_stray);
                let listed = strays.map(|damage| format!("{}: what it said is missing", placed(damage)));
                let rest = (more > 0).then(|| format!("{more} more damaged places, which are not listed"));
                let missing = fs.flash().missing_bytes();
                let cut = (missing > 0)
                    .then(|| format!("the image is cut off: {missing} bytes of its last node are missing"));
                listed.chain(rest).chain(cut).collect()
            }
        }
    }
}

fn placed(damage: &Damage) -> String {
    format!("eraseblock {}, offset {}: {}", damage.block, damage.offset, damage.what())
}

/// What is missing of an inode. A write that was cut off by a loss of power is no loss.
fn loss(damage: &Damage) -> Option<Loss> {
    if damage.is_torn {
        return None;
    }
    match &damage.lost {
        Lost::Xattr(_) => None,
        Lost::Name { name, ino } => {
            Some(Loss { name: Some(name.clone()), what: format!("inode {ino}, which it names, has no node") })
        }
        Lost::Data(from, to) if from < to => {
            let last = to - 1;
            let Damage { block, offset, .. } = damage;
            let what = format!(
                "bytes {from} to {last} are missing, or older ones: eraseblock {block}, offset {offset}: the CRC of its data \
                 differs"
            );
            Some(Loss { name: None, what })
        }
        Lost::Data(..) | Lost::Node(_) | Lost::Bytes => Some(Loss { name: None, what: placed(damage) }),
    }
}

fn next_block(
    reader: &mut Reader<Lebs<'_, '_>>,
    cx: &mut Cx,
    inode: &Inode,
    at: &mut Cursor,
    out: &mut Vec<u8>,
) -> Option<Piece> {
    let ino = u32::try_from(inode.attr.ino.0).ok()?;
    if at.offset == u64::MAX {
        return None;
    }
    let next = match reader.next_block(cx, ino, at.block.as_ref()) {
        Ok(next) => next?,
        Err(error) => {
            at.offset = u64::MAX;
            return Some(Piece::Missing(format!("the rest of the file is missing: {error}")));
        }
    };
    let from = u64::from(next.block()) * u64::from(BLOCK_BYTES);
    if from >= inode.attr.size {
        return None;
    }
    at.block = Some(next);
    out.resize(BLOCK_BYTES as usize, 0);
    Some(match reader.read_block(cx, &next, out) {
        Ok(bytes) => {
            out.truncate(u64::from(bytes).min(inode.attr.size - from) as usize);
            Piece::Bytes(from)
        }
        Err(error) => Piece::Missing(format!("bytes {from} to {} are missing: {error}", from + 4095)),
    })
}

fn next_run(
    fs: &mut Jffs2<Blocks<'_, '_>>,
    cx: &mut Cx,
    inode: &Inode,
    at: &mut Cursor,
    out: &mut Vec<u8>,
) -> Option<Piece> {
    loop {
        let run: Run = match fs.next_run(cx, inode.attr.ino, at.offset) {
            Ok(run) => run?,
            Err(error) => {
                at.offset = u64::MAX;
                return Some(Piece::Missing(format!("the rest of the file is missing: {error}")));
            }
        };
        at.offset = run.offset + u64::from(run.len);
        match fs.read_run(cx, &run, out) {
            Ok(true) => return Some(Piece::Bytes(run.offset)),
            Ok(false) => {}
            Err(error) => {
                let last = at.offset - 1;
                return Some(Piece::Missing(format!("bytes {} to {last} are missing: {error}", run.offset)));
            }
        }
    }
}
