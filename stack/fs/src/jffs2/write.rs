//! Writing nodes of inodes and directory entries.

use std::borrow::Cow;

use sim::Cx;
use sim::seam::Flash;

use super::blocks::{NodeState, Owner};
use super::error::Result;
use super::inode::Inode;
use super::load::state_of;
use super::media::{DirentNode, Entry, InodeNode, compression};
use super::{Compress, Jffs2, Packer};
use crate::compress::{Algorithm, Compressor};

/// Data of a file as a node has them.
#[derive(Debug)]
pub(super) struct Packed<'d> {
    pub compression: u8,
    /// Bytes of the file that are in it.
    pub unpacked: u32,
    pub bytes: Cow<'d, [u8]>,
}

impl Packer {
    const fn algorithm(self) -> (Algorithm, u8) {
        match self {
            Packer::Lzo => (Algorithm::Lzo, compression::LZO),
            Packer::Zlib => (Algorithm::Zlib, compression::ZLIB),
            Packer::Rtime => (Algorithm::Rtime, compression::RTIME),
        }
    }
}

/// Compresses data of a file into `room` bytes at most. What does not become shorter is left as it is; if it has no room,
/// only the beginning is taken. zlib may take only the beginning too. `tried` is called before each way that is tried.
/// Source: Linux 6.12, `jffs2_compress`.
pub(super) fn packed<'d>(
    packer: &mut Compressor,
    compress: Compress,
    data: &'d [u8],
    room: u32,
    mut tried: impl FnMut(),
) -> Packed<'d> {
    let (packers, best) = match compress {
        Compress::None => (&[][..], false),
        Compress::Priority(packers) => (packers, false),
        Compress::Size(packers) => (packers, true),
    };
    let room = (room as usize).min(data.len());
    let mut chosen: Option<(u8, usize, Vec<u8>)> = None;
    for way in packers {
        let (algorithm, number) = way.algorithm();
        let mut out = vec![0; room];
        tried();
        let compressed = match way {
            Packer::Zlib => packer.zlib_some(data, &mut out),
            Packer::Lzo | Packer::Rtime => packer.compress(algorithm, data, &mut out).map(|len| (data.len(), len)),
        };
        let Some((taken, len)) = compressed else { continue };
        // LZO's are taken as they are if they are not longer, where the first is taken that can be.
        let is_shorter = len < data.len() || (*way == Packer::Lzo && !best && len == data.len());
        if !is_shorter || chosen.as_ref().is_some_and(|(_, _, other)| other.len() <= len) {
            continue;
        }
        out.truncate(len);
        chosen = Some((number, taken, out));
        if !best {
            break;
        }
    }
    match chosen {
        Some((compression, taken, bytes)) => Packed { compression, unpacked: taken as u32, bytes: bytes.into() },
        None => Packed { compression: compression::NONE, unpacked: room as u32, bytes: data[..room].into() },
    }
}

impl<F: Flash> Jffs2<F> {
    /// Compresses data of a file into `room` bytes at most, as [`packed`].
    pub(super) fn pack<'d>(&mut self, cx: &mut Cx, data: &'d [u8], room: u32) -> Packed<'d> {
        let span = self.options.cpu.pack(data.len() as u64);
        packed(&mut self.packer, self.options.compress, data, room, || cx.spend(span))
    }

    /// Writes a node of an inode, for which room was reserved.
    pub(super) fn put_inode(&mut self, cx: &mut Cx, node: &InodeNode, data: &[u8], collects: bool) -> Result<u32> {
        let mut bytes = std::mem::take(&mut self.node);
        bytes.clear();
        node.write(self.device.endian(), data, &mut bytes);
        let owner = (state_of(node), Owner::Inode(node.ino));
        let len = bytes.len() as u32;
        let ino = (!collects).then_some(node.ino);
        let put = self.put_node(cx, &bytes, owner, |offset| Some(Entry::inode(node, offset, len)), ino);
        self.node = bytes;
        self.wrote_version(node.ino, node.version);
        put
    }

    /// Writes an entry of a directory, for which room was reserved.
    pub(super) fn put_dirent(&mut self, cx: &mut Cx, node: &DirentNode, name: &[u8], collects: bool) -> Result<u32> {
        let mut bytes = std::mem::take(&mut self.node);
        bytes.clear();
        node.write(self.device.endian(), name, &mut bytes);
        let state = if node.ino == 0 { NodeState::Normal } else { NodeState::Pristine };
        let owner = (state, Owner::Inode(node.dir));
        let ino = (!collects).then_some(node.dir);
        let put = self.put_node(cx, &bytes, owner, |offset| Some(Entry::dirent(node, name, offset)), ino);
        self.node = bytes;
        self.wrote_version(node.dir, node.version);
        put
    }

    fn wrote_version(&mut self, ino: u32, version: u32) {
        let cache = self.cache(ino);
        cache.version = cache.version.max(version);
    }

    /// An inode that is in memory.
    pub(super) fn inode(&mut self, ino: u32) -> &mut Inode {
        self.inodes.get_mut(ino).expect("it was loaded, and nothing has dropped it")
    }

    /// Puts the data of a node into its inode, in the place of what was there.
    pub(super) fn insert_data(&mut self, cx: &mut Cx, ino: u32, id: u32, node: &InodeNode) -> Result<()> {
        let inode = self.inodes.get_mut(ino).expect("it was loaded");
        let mut dropped = inode.insert(&mut self.blocks, id, node.offset, node.covers());
        dropped.extend(inode.metadata.take());
        for old in dropped {
            self.obsolete(cx, old)?;
        }
        Ok(())
    }
}
