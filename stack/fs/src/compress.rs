//! Compression of file data, as Linux has it for file systems on flash.
//!
//! A block is compressed alone, so that it can be read alone.

mod lzo;
mod rtime;
mod unpacked;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
pub use unpacked::Unpacked;

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// LZO1X.
    Lzo,
    /// Deflate without a header, with a window of 2 KiB.
    Deflate,
    /// A Zstandard frame.
    Zstd,
    /// Deflate with zlib's header and a window of 32 KiB, as JFFS2 has it.
    Zlib,
    /// JFFS2's run-length code.
    Rtime,
}

/// Why data cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The data are not what the algorithm makes.
    #[error("the compressed data are damaged")]
    Damaged,
    /// The data are longer or shorter than the node says.
    #[error("the data decompress to another length than the {expected} bytes expected")]
    Length {
        /// Length expected, in bytes.
        expected: usize,
    },
}

/// Window of deflate in bits. Linux decompresses with no larger one.
const WINDOW_BITS: u8 = 11;
/// Level of deflate: 5 % faster than 6, and 0.1 % larger, on blocks of programs and text.
const DEFLATE_LEVEL: u32 = 5;
/// Level of zlib in JFFS2: `deflateInit` with 3.
const ZLIB_LEVEL: u32 = 3;
/// Bytes of its output that Linux's JFFS2 keeps for the end of zlib's stream.
const STREAM_END: usize = 12;
/// Level of Zstandard, as in Linux and mkfs.ubifs.
const ZSTD_LEVEL: i32 = 3;

/// Decompresses blocks; keeps the buffers of the algorithms that were used. A clone has buffers of its own.
#[derive(Default)]
pub struct Decompressor {
    deflate: Option<Decompress>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    known: Option<Unpacked>,
}

impl Clone for Decompressor {
    fn clone(&self) -> Self {
        Decompressor { known: self.known.clone(), ..Decompressor::new() }
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}

impl Decompressor {
    /// A decompressor of every algorithm.
    pub fn new() -> Decompressor {
        Decompressor::default()
    }

    /// From now on blocks that `known` has are taken from there, and others are added to it.
    pub fn know(&mut self, known: &Unpacked) {
        self.known = Some(known.clone());
    }

    /// Decompresses `data` into `out`, which they must fill.
    /// Errors: the data are damaged; they decompress to another length.
    pub fn decompress(&mut self, algorithm: Algorithm, data: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
        match self.known.clone() {
            None => self.unpack(algorithm, data, out),
            Some(known) if known.find(algorithm, data, out) => Ok(()),
            Some(known) => {
                self.unpack(algorithm, data, out)?;
                known.add(algorithm, data, out);
                Ok(())
            }
        }
    }

    fn unpack(&mut self, algorithm: Algorithm, data: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
        let expected = out.len();
        let length = DecompressError::Length { expected };
        let found = match algorithm {
            Algorithm::Lzo => lzokay::decompress::decompress(data, out).map_err(|error| match error {
                lzokay::Error::OutputOverrun => length,
                _ => DecompressError::Damaged,
            })?,
            Algorithm::Deflate => {
                let deflate = self.deflate.get_or_insert_with(|| Decompress::new(false));
                deflate.reset(false);
                let status = deflate.decompress(data, out, FlushDecompress::Finish);
                match status.map_err(|_| DecompressError::Damaged)? {
                    Status::StreamEnd => deflate.total_out() as usize,
                    // The end marker may be all that is left.
                    Status::Ok | Status::BufError if deflate.total_out() as usize == expected => {
                        let rest = &data[deflate.total_in() as usize..];
                        match deflate.decompress(rest, &mut [0], FlushDecompress::Finish) {
                            Ok(Status::StreamEnd) => deflate.total_out() as usize,
                            Ok(_) => return Err(length),
                            Err(_) => return Err(DecompressError::Damaged),
                        }
                    }
                    Status::Ok | Status::BufError => return Err(DecompressError::Damaged),
                }
            }
            Algorithm::Zstd => {
                let new = || zstd::bulk::Decompressor::new().expect("there is memory for a context");
                let zstd = self.zstd.get_or_insert_with(new);
                zstd.decompress_to_buffer(data, out).map_err(|_| DecompressError::Damaged)?
            }
            Algorithm::Zlib => self.inflate(data, out)?,
            Algorithm::Rtime => rtime::decompress(data, out).ok_or(DecompressError::Damaged)?,
        };
        if found == expected { Ok(()) } else { Err(length) }
    }

    /// Inflates a zlib stream as far as `out` has room. Linux looks neither at the checksum nor at what follows.
    fn inflate(&mut self, data: &[u8], out: &mut [u8]) -> Result<usize, DecompressError> {
        let is_zlib = |head: &[u8]| head[0] & 0xf == 8 && u16::from_be_bytes([head[0], head[1]]).is_multiple_of(31);
        let body = match data {
            [first, second, body @ ..] if is_zlib(&[*first, *second]) && second & 0x20 == 0 => body,
            _ => return Err(DecompressError::Damaged),
        };
        let deflate = self.deflate.get_or_insert_with(|| Decompress::new(false));
        deflate.reset(false);
        match deflate.decompress(body, out, FlushDecompress::Finish) {
            Ok(_) => Ok(deflate.total_out() as usize),
            Err(_) => Err(DecompressError::Damaged),
        }
    }
}

/// Compresses blocks; keeps the buffers of the algorithms that were used. A clone has buffers of its own.
#[derive(Default)]
pub struct Compressor {
    lzo: Option<lzo::Lzo>,
    deflate: Option<Compress>,
    /// Room for what deflate makes of any block. `zlib-rs` 0.6 loses room in its own buffer when a stream is given up for
    /// lack of output, until it panics.
    spare: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    zlib: Option<Compress>,
    last: Last,
    /// LZO to the same bytes as Linux.
    as_linux: bool,
}

/// The last block that became shorter, and what it became: programs that fill files write the same page again and again.
#[derive(Default)]
struct Last {
    way: Option<Way>,
    block: Vec<u8>,
    packed: Vec<u8>,
}

/// What decides, beside its bytes, what becomes of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All of it, by an algorithm.
    Whole(Algorithm),
    /// As much of it as `Compressor::zlib_some` took, with so much room.
    Some { room: usize, taken: usize },
}

impl Last {
    fn note(&mut self, way: Way, block: &[u8], packed: &[u8]) {
        self.way = Some(way);
        self.block.clear();
        self.block.extend_from_slice(block);
        self.packed.clear();
        self.packed.extend_from_slice(packed);
    }
}

impl Clone for Compressor {
    fn clone(&self) -> Self {
        Compressor { as_linux: self.as_linux, ..Compressor::new() }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// A compressor of every algorithm.
    pub fn new() -> Compressor {
        Compressor::default()
    }

    /// One whose LZO makes the same bytes as Linux's: for file systems that are written to while they are mounted. [`new`](Self::new)'s
    /// makes fewer, and takes longer for it.
    pub fn of_linux() -> Compressor {
        Compressor { as_linux: true, ..Compressor::new() }
    }

    /// Compresses `block` into `out`, and returns the length. `None` if it does not fit: `out` bounds what is worth it.
    pub fn compress(&mut self, algorithm: Algorithm, block: &[u8], out: &mut [u8]) -> Option<usize> {
        let Last { way, block: known, packed } = &self.last;
        if *way == Some(Way::Whole(algorithm)) && known == block {
            out.get_mut(..packed.len())?.copy_from_slice(packed);
            return Some(packed.len());
        }
        let len = self.pack(algorithm, block, out)?;
        self.last.note(Way::Whole(algorithm), block, &out[..len]);
        Some(len)
    }

    fn pack(&mut self, algorithm: Algorithm, block: &[u8], out: &mut [u8]) -> Option<usize> {
        match algorithm {
            Algorithm::Lzo => {
                let lzo = self.lzo.get_or_insert_with(lzo::Lzo::new);
                if self.as_linux { lzo.compress_as_linux(block, out) } else { lzo.compress(block, out) }
            }
            Algorithm::Deflate => {
                let level = flate2::Compression::new(DEFLATE_LEVEL);
                let new = || Compress::new_with_window_bits(level, false, WINDOW_BITS);
                deflate(self.deflate.get_or_insert_with(new), &mut self.spare, block, out)
            }
            Algorithm::Zlib => {
                let new = || Compress::new(flate2::Compression::new(ZLIB_LEVEL), true);
                deflate(self.zlib.get_or_insert_with(new), &mut self.spare, block, out)
            }
            Algorithm::Rtime => rtime::compress(block, out),
            Algorithm::Zstd => {
                let new = || zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("there is memory for a context");
                self.zstd.get_or_insert_with(new).compress_to_buffer(block, out).ok()
            }
        }
    }

    /// Compresses the beginning of `block` by zlib into `out`, as JFFS2 does: returns how much of it, and the length. Each round is given
    /// as many bytes as there is room left, and flushed, so that of what hardly becomes shorter the end is left. `None` if nothing
    /// becomes shorter.
    /// Source: Linux 6.12, `jffs2_zlib_compress`.
    pub fn zlib_some(&mut self, block: &[u8], out: &mut [u8]) -> Option<(usize, usize)> {
        match &self.last {
            Last { way: Some(Way::Some { room, taken }), block: known, packed }
                if known == block && *room == out.len() =>
            {
                out[..packed.len()].copy_from_slice(packed);
                return Some((*taken, packed.len()));
            }
            _ => {}
        }
        let (taken, len) = self.pack_some(block, out)?;
        self.last.note(Way::Some { room: out.len(), taken }, block, &out[..len]);
        Some((taken, len))
    }

    fn pack_some(&mut self, block: &[u8], out: &mut [u8]) -> Option<(usize, usize)> {
        let limit = out.len().checked_sub(STREAM_END).filter(|&limit| limit > 0)?;
        let new = || Compress::new(flate2::Compression::new(ZLIB_LEVEL), true);
        let stream = self.zlib.get_or_insert_with(new);
        stream.reset();
        // Rounds get shorter and each adds a flush: some bytes for each halving.
        self.spare.resize(2 * block.len() + 1024, 0);
        let (mut taken, mut len) = (0, 0);
        while len < limit && taken < block.len() {
            let next = (block.len() - taken).min(limit - len);
            let status = stream.compress(&block[taken..taken + next], &mut self.spare[len..], FlushCompress::Partial);
            (taken, len) = (stream.total_in() as usize, stream.total_out() as usize);
            if !matches!(status, Ok(Status::Ok)) {
                return None;
            }
        }
        match stream.compress(&[], &mut self.spare[len..], FlushCompress::Finish) {
            Ok(Status::StreamEnd) => {
                let packed = &self.spare[..stream.total_out() as usize];
                if packed.len() >= taken {
                    return None;
                }
                out.get_mut(..packed.len())?.copy_from_slice(packed);
                Some((taken, packed.len()))
            }
            _ => None,
        }
    }
}

/// Compresses a block into `out` by way of `spare`. `None` if it does not fit.
fn deflate(stream: &mut Compress, spare: &mut Vec<u8>, block: &[u8], out: &mut [u8]) -> Option<usize> {
    stream.reset();
    spare.resize(block.len() + block.len() / 8 + 64, 0);
    match stream.compress(block, spare, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => {
            let packed = &spare[..stream.total_out() as usize];
            out.get_mut(..packed.len())?.copy_from_slice(packed);
            Some(packed.len())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Algorithm; 3] = [Algorithm::Lzo, Algorithm::Deflate, Algorithm::Zstd];

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|at| b"the quick brown fox "[(at * at / 7 + at) % 20]).collect()
    }

    #[test]
    fn what_was_compressed_comes_back_and_only_at_its_length() {
        let (mut pack, mut unpack) = (Compressor::new(), Decompressor::new());
        for algorithm in ALL {
            for len in [1, 127, 128, 1000, 4095, 4096] {
                let block = text(len);
                let mut packed = vec![0; 8192];
                let size = pack.compress(algorithm, &block, &mut packed).expect("there is room");
                packed.truncate(size);
                let mut out = vec![0xee; len];
                assert_eq!(unpack.decompress(algorithm, &packed, &mut out), Ok(()), "{algorithm:?} {len}");
                assert_eq!(out, block);
                for wrong in [len - 1, len + 1] {
                    let found = unpack.decompress(algorithm, &packed, &mut vec![0; wrong]);
                    assert!(found.is_err(), "{algorithm:?}: {len} as {wrong}");
                }
                let cut = &packed[..size / 2];
                assert!(unpack.decompress(algorithm, cut, &mut vec![0; len]).is_err(), "{algorithm:?} {len}, cut");
                // An error leaves nothing behind.
                assert_eq!(unpack.decompress(algorithm, &packed, &mut vec![0; len]), Ok(()));
            }
        }
    }

    /// JFFS2's fill what there is room for: a node says how long its data are.
    #[test]
    fn what_was_compressed_for_jffs2_comes_back_as_far_as_there_is_room() {
        let (mut pack, mut unpack) = (Compressor::new(), Decompressor::new());
        for algorithm in [Algorithm::Zlib, Algorithm::Rtime] {
            for len in [200, 1000, 4096] {
                let block: Vec<u8> = b"to and fro, ".iter().copied().cycle().take(len).collect();
                let mut packed = vec![0; len];
                let size = pack.compress(algorithm, &block, &mut packed).expect("it repeats");
                let mut out = vec![0xee; len];
                assert_eq!(unpack.decompress(algorithm, &packed[..size], &mut out), Ok(()), "{algorithm:?} {len}");
                assert_eq!(out, block);
                let cut = unpack.decompress(algorithm, &packed[..size / 2], &mut out);
                assert!(cut.is_err(), "{algorithm:?} {len}, cut");
                let longer = unpack.decompress(algorithm, &packed[..size], &mut vec![0; len + 1]);
                assert!(longer.is_err(), "{algorithm:?} {len}, longer");
            }
        }
        // What `zlib.compress(b"hello", 3)` of Python gives, without its checksum.
        let mut out = [0; 5];
        let packed = [0x78, 0x5e, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        assert_eq!(unpack.decompress(Algorithm::Zlib, &packed, &mut out), Ok(()));
        assert_eq!(&out, b"hello");
        // RFC 1950: the two first bytes are a multiple of 31, and say method 8; a dictionary, bit 5, is not there.
        for head in [[0x78, 0x5f], [0x77, 0x09], [0x78, 0x20]] {
            let packed = [&head[..], &packed[2..]].concat();
            let found = unpack.decompress(Algorithm::Zlib, &packed, &mut out);
            assert_eq!(found, Err(DecompressError::Damaged), "{head:x?}");
        }
    }

    #[test]
    fn the_same_block_again_is_compressed_to_the_same_bytes() {
        let mut pack = Compressor::new();
        let (one, other) = (text(4096), text(4095));
        for algorithm in [Algorithm::Lzo, Algorithm::Deflate, Algorithm::Zstd, Algorithm::Zlib, Algorithm::Rtime] {
            let fresh = |block: &[u8]| {
                let mut out = vec![0; 8192];
                let len = Compressor::new().compress(algorithm, block, &mut out)?;
                Some(out[..len].to_vec())
            };
            for block in [&one, &one, &other, &one] {
                let mut out = vec![0xee; 8192];
                let len = pack.compress(algorithm, block, &mut out);
                assert_eq!(len.map(|len| out[..len].to_vec()), fresh(block), "{algorithm:?}");
                if let Some(len) = len {
                    assert_eq!(pack.compress(algorithm, block, &mut vec![0; len - 1]), None, "{algorithm:?}: no room");
                    assert_eq!(pack.compress(algorithm, block, &mut vec![0; len]), Some(len), "{algorithm:?}");
                }
            }
        }
    }

    #[test]
    fn the_same_block_again_leaves_the_same_end_in_the_same_room() {
        let mut pack = Compressor::new();
        let (one, other) = (text(4096), text(300));
        for (block, room) in [(&one, 4096), (&one, 4096), (&one, 90), (&one, 90), (&other, 90), (&one, 4096)] {
            let mut found = vec![0xee; room];
            let mut fresh = found.clone();
            let some = pack.zlib_some(block, &mut found);
            assert!(some.is_some() && some == Compressor::new().zlib_some(block, &mut fresh), "{room}: {some:?}");
            assert_eq!(found, fresh, "{room}");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_compressed() {
        let mut pack = Compressor::new();
        let mut state = 1u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(4096)
        .collect();
        for algorithm in ALL {
            // Giving up costs nothing, however often.
            for _ in 0..200 {
                assert_eq!(pack.compress(algorithm, &noise, &mut vec![0; 4032]), None, "{algorithm:?}");
            }
            assert!(pack.compress(algorithm, &text(4096), &mut vec![0; 4032]).is_some(), "{algorithm:?}");
        }
    }
}
