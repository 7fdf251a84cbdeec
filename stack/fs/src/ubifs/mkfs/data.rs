//! Data nodes: blocks of files, compressed where that gains something.

use super::Compress;
use super::space::Space;
use crate::compress::{Algorithm, Compressor};
use crate::ubifs::media::{BLOCK_BYTES, Branch, Compression, DataNode, Group, Key};

/// Shorter blocks are not compressed.
const MIN_COMPRESSED: usize = 128;
/// Bytes that compression must gain.
const MIN_GAIN: usize = 64;

/// Compresses blocks; keeps what the algorithms need.
pub struct Packer {
    compress: Compress,
    compressor: Compressor,
    packed: Box<[u8; BLOCK_BYTES as usize]>,
    other: Box<[u8; BLOCK_BYTES as usize]>,
}

impl Packer {
    pub fn new(compress: Compress) -> Packer {
        Packer {
            compress,
            compressor: Compressor::new(),
            packed: Box::new([0; BLOCK_BYTES as usize]),
            other: Box::new([0; BLOCK_BYTES as usize]),
        }
    }

    /// Compresses `block`, if it gains enough, into `packed`. Returns how, and how many bytes.
    fn pack(&mut self, block: &[u8]) -> Option<(Compression, usize)> {
        if block.len() < MIN_COMPRESSED {
            return None;
        }
        let most = block.len() - MIN_GAIN;
        let compressor = &mut self.compressor;
        let mut by = |algorithm, out: &mut [u8]| compressor.compress(algorithm, block, &mut out[..most]);
        let percent = match self.compress {
            Compress::FavorLzo { percent } => percent as usize,
            Compress::Always(compression) => {
                let len = by(algorithm(compression)?, &mut self.packed[..])?;
                return Some((compression, len));
            }
        };
        let lzo = by(Algorithm::Lzo, &mut self.packed[..]);
        let zlib = by(Algorithm::Deflate, &mut self.other[..]);
        match (lzo, zlib) {
            (Some(lzo), Some(zlib)) if zlib * 100 >= lzo * (100 - percent) => Some((Compression::Lzo, lzo)),
            (lzo, None) => Some((Compression::Lzo, lzo?)),
            (_, Some(zlib)) => {
                std::mem::swap(&mut self.packed, &mut self.other);
                Some((Compression::Zlib, zlib))
            }
        }
    }

    /// Adds a data node.
    pub fn put<E>(&mut self, space: &mut Space<'_, E>, key: Key, block: &[u8]) -> Result<Branch, E> {
        let packed = self.pack(block);
        let (compression, data) = match packed {
            Some((compression, len)) => (compression, &self.packed[..len]),
            None => (Compression::None, block),
        };
        #[allow(clippy::cast_possible_truncation, reason = "a block")]
        let size = block.len() as u32;
        space.node(key, DataNode::HEADER_BYTES + data.len(), |node, sqnum| {
            node[DataNode::HEADER_BYTES..].copy_from_slice(data);
            DataNode::encode_around(key, size, compression, node, Group::None, sqnum);
        })
    }
}

fn algorithm(compression: Compression) -> Option<Algorithm> {
    match compression {
        Compression::None => None,
        Compression::Lzo => Some(Algorithm::Lzo),
        Compression::Zlib => Some(Algorithm::Deflate),
        Compression::Zstd => Some(Algorithm::Zstd),
    }
}
