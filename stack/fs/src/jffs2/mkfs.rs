//! Makes JFFS2 from inodes, names and data that come one after another: what mkfs.jffs2 does, and sumtool where a summary
//! is wanted.
//!
//! Knows nodes and eraseblocks; knows no host file. Holds one eraseblock, which goes to a [`Sink`] when it is full, and the
//! inodes whose last node is still to come. What is not as mkfs.jffs2 has it:
//!
//! - the root directory has an inode node, and so its own mode, owner and time;
//! - the inode node of a directory comes after its entries, so that the directory keeps its time;
//! - pages of zeroes are holes.

use std::collections::BTreeMap;

use sim::seam::is_zero;

use super::Compress;
use super::files::MOST_BYTES;
use super::media::{
    self, DirentNode, Endian, Entry, HEADER_BYTES, Header, InodeNode, MAX_NAME, MIN_DATA, ROOT_INO, SUMMARY_FRAME,
    XattrNode, XrefNode, compression, encode_acl, encode_device, node_type, padded,
};
use super::names::MOST_TARGET;
use super::write::{Packed, packed};
use super::xattrs::{MOST_VALUE, number_of};
use crate::compress::Compressor;

/// Where eraseblocks go, one after the other. The last one may be shorter.
pub type Sink<'a, E> = Box<dyn FnMut(&[u8]) -> Result<(), E> + 'a>;

/// Options of `mkfs.jffs2`.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Byte order of the nodes.
    pub endian: Endian,
    /// `--eraseblock`, in bytes.
    pub block_bytes: u32,
    /// `--pagesize`: most bytes of a file in a node. The page of the processor on which it is mounted.
    pub page_bytes: u32,
    /// `--cleanmarker`: bytes of the clean marker at the beginning of each block; `None` for `--no-cleanmarkers`.
    pub clean_marker: Option<u32>,
    /// Whether each full block ends with a summary, as sumtool makes it.
    pub summary: bool,
    /// How data are compressed.
    pub compress: Compress,
}

/// What follows the last node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pad {
    /// Nothing.
    No,
    /// 0xFF up to the end of the block.
    Block,
    /// Empty blocks up to this many bytes, a multiple of those of a block.
    Size(u64),
}

/// An option that is impossible, or that does not go with the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option} is {found}, expected {expected}")]
pub struct OptionError {
    /// Name of the option on the command line.
    pub option: &'static str,
    /// Its value.
    pub found: u64,
    /// Values allowed.
    pub expected: &'static str,
}

/// Why a file system cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MkfsError<E> {
    /// A number above what JFFS2 has.
    #[error("{what}: found {found}, expected at most {most}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much was found.
        found: u64,
        /// How much JFFS2 has.
        most: u64,
    },
    /// An access control list that is not one of Linux.
    #[error("found an access control list of an unknown form")]
    Acl,
    /// The image is larger than what it is to be padded to.
    #[error("the image has {found} bytes, expected at most {most}")]
    TooLarge {
        /// Bytes in whole blocks.
        found: u64,
        /// Bytes that were asked for.
        most: u64,
    },
    /// The sink failed.
    #[error(transparent)]
    Sink(E),
}

/// Owner, permissions and times of a file. Times are seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last access.
    pub atime: u32,
    /// Time of the last change of the data.
    pub mtime: u32,
    /// Time of the last change of the inode.
    pub ctime: u32,
}

/// What an inode has beside data of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inline<'a> {
    /// Nothing.
    None,
    /// The target of a symbolic link.
    Target(&'a [u8]),
    /// The number of a device, major and minor.
    Device(u32, u32),
}

/// A directory that is being filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dir {
    ino: u32,
    version: u32,
}

impl Dir {
    /// Number of its inode.
    pub const fn ino(&self) -> u32 {
        self.ino
    }
}

/// A file of which data were written.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    version: u32,
    /// One past the last byte that a node has.
    end: u32,
    attributes: Attributes,
}

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Bytes of the image.
    pub bytes: u64,
    /// Blocks with nodes.
    pub blocks: u32,
    /// Summaries.
    pub summaries: u32,
    /// Inodes, the root included.
    pub inodes: u32,
    /// Nodes, without clean markers and summaries.
    pub nodes: u64,
    /// Bytes of files as nodes have them.
    pub packed_bytes: u64,
}

/// A file system that is being made.
pub struct Mkfs<'a, E> {
    options: Options,
    sink: Sink<'a, E>,
    /// The block that is written; empty: none is.
    block: Vec<u8>,
    /// What its summary will say, and bytes of that.
    entries: Vec<Entry>,
    entry_bytes: u32,
    open: BTreeMap<u32, Open>,
    /// Numbers of attributes: inodes share what is equal.
    xattrs: BTreeMap<(u8, Vec<u8>, Vec<u8>), u32>,
    last_seqno: u32,
    packer: Compressor,
    node: Vec<u8>,
    made: Made,
}

impl<E> std::fmt::Debug for Mkfs<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mkfs").field("options", &self.options).field("made", &self.made).finish_non_exhaustive()
    }
}

fn limit<E>(what: &'static str, found: u64, most: u64) -> Result<(), MkfsError<E>> {
    if found > most { Err(MkfsError::Limit { what, found, most }) } else { Ok(()) }
}

impl Options {
    /// Errors: sizes that no flash or no processor has.
    fn check(&self) -> Result<(), OptionError> {
        let wrong = |option, found: u32, expected| Err(OptionError { option, found: found.into(), expected });
        let Options { block_bytes, page_bytes, clean_marker, .. } = *self;
        if !(4096..=16 << 20).contains(&block_bytes) || !block_bytes.is_multiple_of(4) {
            return wrong("peb_size", block_bytes, "4096 bytes to 16 MiB");
        }
        if !(4096..=65_536).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return wrong("page_size", page_bytes, "4096, 8192, 16384, 32768 or 65536");
        }
        match clean_marker {
            Some(bytes) if !(HEADER_BYTES as u32..=512).contains(&bytes) => {
                wrong("cleanmarker_size", bytes, "12 to 512 bytes")
            }
            _ => Ok(()),
        }
    }
}

impl<'a, E> Mkfs<'a, E> {
    /// Begins a file system. Errors: options that are impossible.
    pub fn new(options: Options, sink: Sink<'a, E>) -> Result<Mkfs<'a, E>, OptionError> {
        options.check()?;
        Ok(Mkfs {
            options,
            sink,
            block: Vec::with_capacity(options.block_bytes as usize),
            entries: Vec::new(),
            entry_bytes: 0,
            open: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            last_seqno: 0,
            packer: Compressor::new(),
            node: Vec::new(),
            made: Made { inodes: ROOT_INO, ..Made::default() },
        })
    }

    /// Most bytes of a file in a node.
    pub fn page_bytes(&self) -> u32 {
        self.options.page_bytes
    }

    /// Begins the root directory, to be called once.
    pub fn root(&mut self) -> Dir {
        Dir { ino: ROOT_INO, version: 0 }
    }

    /// Begins another directory.
    pub fn new_dir(&mut self) -> Dir {
        Dir { ino: self.new_inode(), version: 0 }
    }

    /// Begins an inode. Returns its number.
    pub fn new_inode(&mut self) -> u32 {
        self.made.inodes += 1;
        self.made.inodes
    }

    /// Adds data of a regular file of `size` bytes from byte `offset` on, which begins a page; only the last data of a file
    /// may end in the middle of one. Pages of zeroes are left out.
    /// Errors: the file is too large; those of the sink.
    pub fn data(
        &mut self,
        ino: u32,
        attributes: &Attributes,
        size: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<(), MkfsError<E>> {
        let page_bytes = self.options.page_bytes;
        assert!(offset.is_multiple_of(page_bytes.into()), "data begin with a page");
        let size = file_size(size)?;
        let mut open = self.open.get(&ino).copied().unwrap_or_default();
        open.attributes = *attributes;
        for (at, page) in (offset..).step_by(page_bytes as usize).zip(data.chunks(page_bytes as usize)) {
            if is_zero(page) {
                continue;
            }
            let at = u32::try_from(at).expect("the size was checked");
            self.hole(ino, &mut open, size, at)?;
            let mut rest = page;
            while !rest.is_empty() {
                let least = InodeNode::BYTES as u32 + MIN_DATA.min(rest.len() as u32);
                let room = self.room(least, 18)? - InodeNode::BYTES as u32;
                let Packed { compression, unpacked, bytes } =
                    packed(&mut self.packer, self.options.compress, rest, room, || {});
                open.version += 1;
                let node = InodeNode { offset: open.end, unpacked, compression, ..describe(ino, &open, size)? };
                self.put_inode(&node, &bytes)?;
                self.made.packed_bytes += bytes.len() as u64;
                open.end += unpacked;
                rest = &rest[unpacked as usize..];
            }
        }
        self.open.insert(ino, open);
        Ok(())
    }

    /// Writes a hole up to `to`, if there is one.
    fn hole(&mut self, ino: u32, open: &mut Open, size: u32, to: u32) -> Result<(), MkfsError<E>> {
        if to <= open.end {
            return Ok(());
        }
        open.version += 1;
        let unpacked = to - open.end;
        let node =
            InodeNode { offset: open.end, unpacked, compression: compression::ZERO, ..describe(ino, open, size)? };
        self.put_inode(&node, &[])?;
        open.end = to;
        Ok(())
    }

    /// Adds the inode of what is no directory, whose data were added.
    /// Errors: what JFFS2 does not have; those of the sink.
    pub fn inode(
        &mut self,
        ino: u32,
        attributes: &Attributes,
        size: u64,
        inline: Inline<'_>,
    ) -> Result<(), MkfsError<E>> {
        let mut open = self.open.remove(&ino).unwrap_or(Open { attributes: *attributes, ..Open::default() });
        let is_same = open.attributes == *attributes;
        open.attributes = *attributes;
        let data = match inline {
            Inline::None => Vec::new(),
            Inline::Target(target) => {
                limit("bytes of a link's target", target.len() as u64, MOST_TARGET as u64)?;
                target.to_vec()
            }
            Inline::Device(major, minor) => encode_device(self.options.endian, major, minor),
        };
        let size = file_size(size)?;
        if inline == Inline::None && size > open.end {
            return self.hole(ino, &mut open, size, size);
        }
        if open.version > 0 && is_same {
            return Ok(());
        }
        open.version += 1;
        let node = InodeNode { unpacked: data.len() as u32, ..describe(ino, &open, size)? };
        self.put_inode(&node, &data)
    }

    /// Adds the inode of a directory, all of whose entries were added.
    /// Errors: as [`inode`](Self::inode).
    pub fn end_dir(&mut self, dir: &Dir, attributes: &Attributes) -> Result<(), MkfsError<E>> {
        let open = Open { version: dir.version + 1, end: 0, attributes: *attributes };
        let node = describe(dir.ino, &open, 0)?;
        self.put_inode(&node, &[])
    }

    /// Adds an entry to a directory. `mode` and `time` are those of the inode.
    /// Errors: the name is too long; those of the sink.
    pub fn entry(
        &mut self,
        dir: &mut Dir,
        name: &[u8],
        ino: u32,
        (mode, time): (u32, u32),
    ) -> Result<(), MkfsError<E>> {
        limit("bytes of a name", name.len() as u64, MAX_NAME as u64)?;
        dir.version += 1;
        let kind = ((mode >> 12) & 0xf) as u8;
        let node = DirentNode { dir: dir.ino, version: dir.version, ino, time, kind, ..DirentNode::default() };
        let mut bytes = std::mem::take(&mut self.node);
        bytes.clear();
        node.write(self.options.endian, name, &mut bytes);
        self.put(&bytes, |offset| Entry::dirent(&node, name, offset))?;
        self.node = bytes;
        Ok(())
    }

    /// Adds an extended attribute of an inode, by the name and value that Linux has.
    /// Errors: a name that [`takes_xattr`] refuses; what has no room; those of the sink.
    pub fn xattr(&mut self, ino: u32, name: &[u8], value: &[u8]) -> Result<(), MkfsError<E>> {
        let endian = self.options.endian;
        let (prefix, short, is_acl) = number_of(name).expect("the caller asked for it");
        let value = match is_acl {
            true => encode_acl(endian, value).ok_or(MkfsError::Acl)?,
            false => value.to_vec(),
        };
        limit("bytes of an extended attribute's name", short.len() as u64, 255)?;
        limit("bytes of an extended attribute's value", value.len() as u64, MOST_VALUE as u64 - 1)?;
        let key = (prefix, short.to_vec(), value);
        let mut bytes = Vec::new();
        let xid = match self.xattrs.get(&key) {
            Some(&xid) => xid,
            None => {
                let xid = self.xattrs.len() as u32 + 1;
                let node = XattrNode { xid, version: 1, prefix, ..XattrNode::default() };
                node.write(endian, &key.1, &key.2, &mut bytes);
                let len = padded(bytes.len() as u32);
                self.put(&bytes, |offset| Entry::xattr(&node, offset, len))?;
                self.xattrs.insert(key, xid);
                xid
            }
        };
        // An odd number takes the attribute away.
        self.last_seqno += 2;
        bytes.clear();
        XrefNode { ino, xid, seqno: self.last_seqno }.write(endian, &mut bytes);
        self.put(&bytes, |offset| Entry::Xref { offset })
    }

    fn put_inode(&mut self, node: &InodeNode, data: &[u8]) -> Result<(), MkfsError<E>> {
        let mut bytes = std::mem::take(&mut self.node);
        bytes.clear();
        node.write(self.options.endian, data, &mut bytes);
        let len = bytes.len() as u32;
        self.put(&bytes, |offset| Entry::inode(node, offset, len))?;
        self.node = bytes;
        Ok(())
    }

    /// Adds a node, in another block if this one has no room.
    fn put(&mut self, node: &[u8], entry: impl FnOnce(u32) -> Entry) -> Result<(), MkfsError<E>> {
        let entry = entry(0);
        self.room(node.len() as u32, entry.bytes())?;
        let offset = self.block.len() as u32;
        self.entry_bytes += entry.bytes();
        self.entries.push(entry.at(offset));
        self.block.extend_from_slice(node);
        self.block.resize(padded(self.block.len() as u32) as usize, 0xff);
        self.made.nodes += 1;
        Ok(())
    }

    /// Room for a node of `least` bytes, whose entry in a summary has `entry` bytes: in this block, or in the next one.
    /// Errors: no block has that much.
    fn room(&mut self, least: u32, entry: u32) -> Result<u32, MkfsError<E>> {
        let free = |mkfs: &Self| {
            let summary = if mkfs.options.summary { padded(mkfs.entry_bytes + entry + SUMMARY_FRAME) } else { 0 };
            (mkfs.options.block_bytes - mkfs.block.len() as u32).saturating_sub(summary) & !3
        };
        if !self.block.is_empty() && padded(least) <= free(self) {
            return Ok(free(self));
        }
        self.close()?;
        self.block.extend_from_slice(&self.options.marker());
        let room = free(self);
        limit("bytes of a node", least.into(), room.into())?;
        Ok(room)
    }

    /// Ends the block that is written, which has no room left.
    fn close(&mut self) -> Result<(), MkfsError<E>> {
        if self.block.is_empty() {
            return Ok(());
        }
        let Options { endian, block_bytes, clean_marker, summary, .. } = self.options;
        if summary {
            let offset = self.block.len() as u32;
            let bytes =
                media::write_summary(endian, &self.entries, (clean_marker.unwrap_or(0), 0), offset, block_bytes);
            self.block.extend(bytes.expect("room was left for it"));
            self.made.summaries += 1;
        }
        self.block.resize(block_bytes as usize, 0xff);
        self.made.blocks += 1;
        self.flush()
    }

    /// Gives the block to the sink.
    fn flush(&mut self) -> Result<(), MkfsError<E>> {
        self.made.bytes += self.block.len() as u64;
        (self.sink)(&self.block).map_err(MkfsError::Sink)?;
        self.block.clear();
        self.entries.clear();
        self.entry_bytes = 0;
        Ok(())
    }

    /// Ends the image. The last block has no summary, as after sumtool: it has room left.
    /// Errors: it is larger than `pad`; those of the sink.
    pub fn finish(mut self, pad: Pad) -> Result<Made, MkfsError<E>> {
        assert!(self.open.is_empty(), "every file has got its inode");
        let whole = self.options.block_bytes;
        if pad != Pad::No && !self.block.is_empty() {
            self.block.resize(whole as usize, 0xff);
        }
        self.made.blocks += u32::from(!self.block.is_empty());
        self.flush()?;
        if let Pad::Size(most) = pad {
            if self.made.bytes > most {
                return Err(MkfsError::TooLarge { found: self.made.bytes, most });
            }
            while self.made.bytes < most {
                self.block.extend_from_slice(&self.options.marker());
                self.block.resize(whole as usize, 0xff);
                self.flush()?;
            }
        }
        Ok(self.made)
    }
}

impl Options {
    /// What a block begins with.
    fn marker(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(len) = self.clean_marker {
            bytes.resize(HEADER_BYTES, 0);
            Header { node_type: node_type::CLEAN_MARKER, len }.write(self.endian, &mut bytes);
            bytes.resize(padded(len) as usize, 0xff);
        }
        bytes
    }
}

/// Whether an inode may have an extended attribute of this name.
pub fn takes_xattr(name: &[u8]) -> bool {
    number_of(name).is_some()
}

/// Bytes of a file. Errors: there are too many.
fn file_size<E>(size: u64) -> Result<u32, MkfsError<E>> {
    limit("bytes of a file", size, MOST_BYTES)?;
    Ok(size as u32)
}

/// The inode node of a file as it is by now. Errors: owners that do not fit.
fn describe<E>(ino: u32, open: &Open, size: u32) -> Result<InodeNode, MkfsError<E>> {
    let Open { version, attributes, .. } = *open;
    let Attributes { mode, uid, gid, atime, mtime, ctime } = attributes;
    let short = |what, number: u32| {
        u16::try_from(number).map_err(|_| MkfsError::Limit { what, found: number.into(), most: u16::MAX.into() })
    };
    let (uid, gid) = (short("number of an owner", uid)?, short("number of a group", gid)?);
    Ok(InodeNode { ino, version, mode, uid, gid, size, atime, mtime, ctime, ..InodeNode::default() })
}
