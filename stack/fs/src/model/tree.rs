//! Everything that a user sees of a file system, read through the seam, in a form that can be compared.

use std::collections::BTreeMap;
use std::fmt;

use sim::Cx;
use sim::seam::{Attr, FileSystem, FileType, FsError, Ino, ReadInto};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its attributes. The number of the inode, and the size of what is neither a regular file nor a symbolic link, are the
    /// file system's own: both are 0.
    pub attr: Attr,
    /// CRC-32 of the contents of a regular file; 0 of others, and where no bytes are kept.
    pub crc: u32,
    /// Target of a symbolic link; empty of others.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path of the same inode, in the order of paths, if this is another.
    pub same_as: Option<Vec<u8>>,
}

/// Every path of a file system, from the root (an empty path) on, without a leading `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// What is at each path.
    pub nodes: BTreeMap<Vec<u8>, Node>,
}

/// Reads a whole file system.
/// Errors: those of the file system.
pub fn tree<F: FileSystem + ?Sized>(fs: &mut F, cx: &mut Cx) -> Result<Tree, FsError> {
    let mut inos = BTreeMap::from([(Vec::new(), fs.root())]);
    let mut directories = vec![(Vec::new(), fs.root())];
    while let Some((path, ino)) = directories.pop() {
        fs.readdir(cx, ino, 0, &mut |entry| {
            let mut below = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(entry.name);
            if entry.file_type == FileType::Directory {
                directories.push((below.clone(), entry.ino));
            }
            let twice = inos.insert(below, entry.ino);
            assert!(twice.is_none(), "directory {ino} returns a name twice");
            true
        })?;
    }
    let mut tree = Tree::default();
    let mut first: BTreeMap<Ino, Vec<u8>> = BTreeMap::new();
    let mut buffer = Vec::new();
    for (path, ino) in inos {
        let mut node = node(fs, cx, ino, &mut buffer)?;
        node.same_as = first.get(&ino).cloned();
        first.entry(ino).or_insert_with(|| path.clone());
        tree.nodes.insert(path, node);
    }
    Ok(tree)
}

fn node<F: FileSystem + ?Sized>(fs: &mut F, cx: &mut Cx, ino: Ino, buffer: &mut Vec<u8>) -> Result<Node, FsError> {
    const PIECE: u64 = 1 << 20;
    let mut attr = fs.getattr(cx, ino)?;
    let mut crc = crc32fast::Hasher::new();
    if attr.file_type == FileType::Regular && fs.keeps_bytes() {
        for offset in (0..attr.size).step_by(PIECE as usize) {
            buffer.resize((attr.size - offset).min(PIECE) as usize, 0);
            let read = fs.read(cx, ino, offset, ReadInto::Bytes(buffer))?;
            assert_eq!(read as usize, buffer.len(), "inode {ino} ends before its size");
            crc.update(buffer);
        }
    }
    let target = if attr.file_type == FileType::Symlink { fs.readlink(cx, ino)? } else { Vec::new() };
    let mut xattrs = BTreeMap::new();
    for name in fs.listxattr(cx, ino)? {
        let value = fs.getxattr(cx, ino, &name)?;
        xattrs.insert(name, value);
    }
    if !matches!(attr.file_type, FileType::Regular | FileType::Symlink) {
        attr.size = 0;
    }
    attr.ino = Ino(0);
    Ok(Node { attr, crc: crc.finalize(), target, xattrs, same_as: None })
}

impl Tree {
    /// CRC-32 over everything.
    pub fn digest(&self) -> u32 {
        crc32fast::hash(self.to_string().as_bytes())
    }

    /// The first path at which two trees differ, with what each has there; `None` if they are equal.
    pub fn difference(&self, other: &Tree) -> Option<String> {
        let mut paths: Vec<_> = self.nodes.keys().chain(other.nodes.keys()).collect();
        paths.sort_unstable();
        let path = paths.into_iter().find(|&path| self.nodes.get(path) != other.nodes.get(path))?;
        let line = |tree: &Tree| tree.nodes.get(path).map_or_else(|| "nothing".to_owned(), Node::to_string);
        Some(format!("/{}: {}, and {}", path.escape_ascii(), line(self), line(other)))
    }
}

impl fmt::Display for Tree {
    /// A line for each path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, node) in &self.nodes {
            writeln!(f, "/{}: {node}", path.escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attr { file_type, mode, uid, gid, nlink, size, device, flags, atime, mtime, ctime, .. } = self.attr;
        write!(f, "{file_type:?} {mode:04o} {uid}:{gid} links {nlink} size {size}")?;
        write!(f, " device {}:{} flags {:#x} crc {:08x}", device.major, device.minor, flags.0, self.crc)?;
        for (name, time) in [("atime", atime), ("mtime", mtime), ("ctime", ctime)] {
            write!(f, " {name} {}.{:09}", time.seconds, time.nanos)?;
        }
        if file_type == FileType::Symlink {
            write!(f, " -> {}", self.target.escape_ascii())?;
        }
        for (name, value) in &self.xattrs {
            write!(f, " {}={}", name.escape_ascii(), value.escape_ascii())?;
        }
        if let Some(path) = &self.same_as {
            write!(f, " same as /{}", path.escape_ascii())?;
        }
        Ok(())
    }
}
