//! Calls of a file system, which do not depend on its inode numbers: a node has the number of the call that made it.

use std::fmt;

use fs::model::Model;
use sim::seam::{DeviceNumber, FileSystem, FileType, FsError, Ino, NewInode, Payload, RenameFlags, SetAttr, SetXattr};
use sim::{Cx, Rng, Seed};

/// A node of the file system: the number of the call that made it. 0 is the root.
pub(crate) type Node = u32;

/// A directory and a name in it.
pub(crate) type Name = (Node, Vec<u8>);

/// Kind of a node that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink(Vec<u8>),
    Special(FileType, DeviceNumber),
}

/// Bytes to write, by their seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub seed: u64,
    pub bytes: u32,
    /// Whether they can be compressed.
    pub is_text: bool,
}

impl Data {
    /// The bytes: no two seeds have a block in common.
    pub fn make(self) -> Vec<u8> {
        let mut rng: Rng = Seed(self.seed).stream("cuts/data");
        let word = rng.bits();
        let mut bytes = Vec::with_capacity(self.bytes as usize + 8);
        while bytes.len() < self.bytes as usize {
            let next = if self.is_text { word ^ (bytes.len() as u64 >> 9) } else { rng.bits() };
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        bytes.truncate(self.bytes as usize);
        bytes
    }
}

/// One call, or what happens between two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Make {
        node: Node,
        at: Name,
        kind: Kind,
        mode: u32,
    },
    Link {
        node: Node,
        at: Name,
    },
    Unlink {
        at: Name,
    },
    Rmdir {
        at: Name,
    },
    /// The whiteout that is left behind, if any, becomes a node of its own.
    Rename {
        from: Name,
        to: Name,
        flags: RenameFlags,
        whiteout: Node,
    },
    SetAttr {
        node: Node,
        change: SetAttr,
    },
    Write {
        node: Node,
        offset: u64,
        data: Data,
    },
    SetXattr {
        node: Node,
        name: Vec<u8>,
        value: Vec<u8>,
        how: SetXattr,
    },
    RemoveXattr {
        node: Node,
        name: Vec<u8>,
    },
    Fsync {
        node: Node,
        data_only: bool,
    },
    Sync,
    Open {
        node: Node,
    },
    Close {
        node: Node,
    },
    /// Time passes, in seconds.
    Idle(u64),
    /// What there is to do in the background is done.
    Background,
    /// Unmounts and mounts; UBI detaches and attaches between the two.
    Remount,
}

/// What a call answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Inode that was made.
    pub made: Option<Ino>,
    /// Bytes that were written.
    pub written: Option<u32>,
}

impl Call {
    /// Nodes that must exist.
    pub fn nodes(&self) -> Vec<Node> {
        match self {
            Call::Make { at, .. } | Call::Unlink { at } | Call::Rmdir { at } => vec![at.0],
            Call::Link { node, at } => vec![*node, at.0],
            Call::Rename { from, to, .. } => vec![from.0, to.0],
            Call::SetAttr { node, .. }
            | Call::Write { node, .. }
            | Call::SetXattr { node, .. }
            | Call::RemoveXattr { node, .. }
            | Call::Fsync { node, .. }
            | Call::Open { node }
            | Call::Close { node } => vec![*node],
            Call::Sync | Call::Idle(_) | Call::Background | Call::Remount => Vec::new(),
        }
    }

    /// The node that it makes.
    pub fn makes(&self) -> Option<Node> {
        match self {
            Call::Make { node, .. } => Some(*node),
            Call::Rename { flags, whiteout, .. } if flags.has(RenameFlags::WHITEOUT) => Some(*whiteout),
            _ => None,
        }
    }

    /// Bytes of a file that it writes.
    pub fn range(&self) -> std::ops::Range<u64> {
        match self {
            Call::Write { offset, data, .. } => *offset..offset + u64::from(data.bytes),
            _ => 0..0,
        }
    }

    /// The same call, of which only so many bytes were written.
    pub fn shortened(&self, written: u32) -> Call {
        match self.clone() {
            Call::Write { node, offset, data } => Call::Write { node, offset, data: Data { bytes: written, ..data } },
            other => other,
        }
    }

    /// Makes the call. `ino` has the inodes of the nodes.
    /// Errors: those of the file system.
    pub fn make<F: FileSystem>(&self, fs: &mut F, cx: &mut Cx, ino: impl Fn(Node) -> Ino) -> Result<Answer, FsError> {
        let mut answer = Answer::default();
        let place = |at: &Name| ino(at.0);
        match self {
            Call::Make { at, kind, mode, .. } => {
                let (dir, name, new) = (place(at), &at.1[..], NewInode::of_root(*mode));
                let attr = match kind {
                    Kind::File => fs.create(cx, dir, name, new),
                    Kind::Directory => fs.mkdir(cx, dir, name, new),
                    Kind::Symlink(target) => fs.symlink(cx, dir, name, target, new),
                    Kind::Special(file_type, device) => fs.mknod(cx, dir, name, new, *file_type, *device),
                }?;
                answer.made = Some(attr.ino);
            }
            Call::Link { node, at } => drop(fs.link(cx, ino(*node), place(at), &at.1)?),
            Call::Unlink { at } => fs.unlink(cx, place(at), &at.1)?,
            Call::Rmdir { at } => fs.rmdir(cx, place(at), &at.1)?,
            Call::Rename { from, to, flags, .. } => {
                fs.rename(cx, (place(from), &from.1), (place(to), &to.1), *flags)?;
                if flags.has(RenameFlags::WHITEOUT) {
                    answer.made = Some(fs.lookup(cx, place(from), &from.1)?.ino);
                }
            }
            Call::SetAttr { node, change } => drop(fs.setattr(cx, ino(*node), change)?),
            Call::Write { node, offset, data } => {
                answer.written = Some(fs.write(cx, ino(*node), *offset, Payload::Bytes(&data.make()))?);
            }
            Call::SetXattr { node, name, value, how } => fs.setxattr(cx, ino(*node), name, value, *how)?,
            Call::RemoveXattr { node, name } => fs.removexattr(cx, ino(*node), name)?,
            Call::Fsync { node, data_only } => fs.fsync(cx, ino(*node), *data_only)?,
            Call::Sync => fs.sync(cx)?,
            Call::Open { node } => fs.open(cx, ino(*node))?,
            Call::Close { node } => fs.release(cx, ino(*node))?,
            Call::Idle(_) | Call::Background | Call::Remount => unreachable!("no call of a file system"),
        }
        Ok(answer)
    }

    /// Makes the call on the model. Errors: as [`make`](Self::make).
    pub fn make_there(&self, model: &mut Model, cx: &mut Cx, ino: impl Fn(Node) -> Ino) -> Result<Answer, FsError> {
        self.make(model, cx, ino)
    }
}

fn shown((dir, name): &Name) -> String {
    format!("{}/{}", dir, name.escape_ascii())
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Make { node, at, kind, .. } => {
                let kind = match kind {
                    Kind::File => "create",
                    Kind::Directory => "mkdir",
                    Kind::Symlink(_) => "symlink",
                    Kind::Special(..) => "mknod",
                };
                write!(f, "{kind} {}, node {node}", shown(at))
            }
            Call::Link { node, at } => write!(f, "link node {node} as {}", shown(at)),
            Call::Unlink { at } => write!(f, "unlink {}", shown(at)),
            Call::Rmdir { at } => write!(f, "rmdir {}", shown(at)),
            Call::Rename { from, to, flags, .. } => {
                write!(f, "rename {} to {}, flags {}", shown(from), shown(to), flags.0)
            }
            Call::SetAttr { node, change: SetAttr { size: Some(size), .. } } => {
                write!(f, "truncate node {node} to {size} bytes")
            }
            Call::SetAttr { node, .. } => write!(f, "setattr of node {node}"),
            Call::Write { node, offset, data } => {
                write!(f, "write {} bytes to node {node} at {offset}", data.bytes)
            }
            Call::SetXattr { node, name, .. } => write!(f, "setxattr {} of node {node}", name.escape_ascii()),
            Call::RemoveXattr { node, name } => write!(f, "removexattr {} of node {node}", name.escape_ascii()),
            Call::Fsync { node, data_only: false } => write!(f, "fsync node {node}"),
            Call::Fsync { node, .. } => write!(f, "fdatasync node {node}"),
            Call::Sync => f.write_str("sync"),
            Call::Open { node } => write!(f, "open node {node}"),
            Call::Close { node } => write!(f, "close node {node}"),
            Call::Idle(seconds) => write!(f, "nothing for {seconds} s"),
            Call::Background => f.write_str("background work"),
            Call::Remount => f.write_str("unmount, mount"),
        }
    }
}
