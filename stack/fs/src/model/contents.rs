//! Contents of a regular file: a size, and the blocks in which something other than zero was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::view::Block;

const BLOCK: usize = 4096;

/// Contents of a file. What no block holds reads as zero; bytes beyond the size are zero in their block.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    size: u64,
    blocks: BTreeMap<u64, Block>,
}

/// The parts of a range in each block: block, range in the block, range in the whole.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let block_bytes = BLOCK as u64;
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= length {
            return None;
        }
        let place = offset + at;
        let first = (place % block_bytes) as usize;
        let count = (length - at).min(block_bytes - place % block_bytes) as usize;
        let whole = at as usize..at as usize + count;
        at += count as u64;
        Some((place / block_bytes, first..first + count, whole))
    })
}

impl Contents {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buffer` from `offset` on. The range lies within the file.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        for (block, inside, whole) in parts(offset, buffer.len() as u64) {
            if let Some(bytes) = self.blocks.get(&block) {
                buffer[whole].copy_from_slice(&bytes[inside]);
            }
        }
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for (block, inside, whole) in parts(offset, data.len() as u64) {
            let bytes = self.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(bytes)[inside].copy_from_slice(&data[whole]);
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    pub(super) fn write_zeroes(&mut self, offset: u64, length: u64) {
        self.clear(offset, offset + length);
        self.size = self.size.max(offset + length);
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.clear(size, self.size);
        self.size = size;
    }

    /// Lets the bytes from `from` to `to` be zero.
    fn clear(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (first, last) = (from / BLOCK as u64, (to - 1) / BLOCK as u64);
        let within: Vec<u64> = self.blocks.range(first..=last).map(|(&block, _)| block).collect();
        for block in within {
            let begin = block * BLOCK as u64;
            if from <= begin && to >= begin + BLOCK as u64 {
                self.blocks.remove(&block);
            } else if let Some(bytes) = self.blocks.get_mut(&block) {
                let inside = from.saturating_sub(begin) as usize..(to - begin).min(BLOCK as u64) as usize;
                if bytes[inside.clone()].iter().any(|&byte| byte != 0) {
                    Arc::make_mut(bytes)[inside].fill(0);
                }
            }
        }
    }

    /// Blocks in which something was written, which may be zero.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, Block)> {
        self.blocks.iter().map(|(&number, block)| (number, block.clone()))
    }

    /// Number of blocks in which something was written.
    pub(super) fn held(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Becomes the first `size` bytes of these blocks.
    pub(super) fn assume(&mut self, size: u64, blocks: &BTreeMap<u64, Block>) {
        *self = Contents { size: super::MAX_FILE_BYTES, blocks: blocks.clone() };
        self.set_size(size);
    }

    /// Panics if a byte beyond the size is not zero.
    pub(super) fn check(&self) {
        for (&block, bytes) in self.blocks.range(self.size / BLOCK as u64..) {
            let inside = self.size.saturating_sub(block * BLOCK as u64).min(BLOCK as u64) as usize;
            assert!(bytes[inside..].iter().all(|&byte| byte == 0), "block {block} has contents beyond the end");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    /// The same as a plain vector, over ranges that begin and end inside, at and across blocks.
    #[test]
    fn contents_are_those_of_a_vector() {
        let mut rng = Seed(1).stream("fs/contents");
        let (mut sparse, mut plain) = (Contents::default(), Vec::new());
        for step in 0..2_000 {
            let offset = rng.below(20_000);
            let length = [1, 4096, 5_000, rng.below(9_000)][rng.below(4) as usize];
            let end = (offset + length) as usize;
            match rng.below(5) {
                0 => {
                    let size = [offset, offset / 4096 * 4096][rng.below(2) as usize];
                    sparse.set_size(size);
                    plain.resize(size as usize, 0);
                }
                1 => {
                    plain.resize(plain.len().max(end), 0);
                    plain[offset as usize..end].fill(0);
                    sparse.write_zeroes(offset, length);
                }
                _ => {
                    let byte = rng.bits() as u8;
                    plain.resize(plain.len().max(end), 0);
                    plain[offset as usize..end].fill(byte);
                    sparse.write(offset, &vec![byte; length as usize]);
                }
            }
            sparse.check();
            assert_eq!(sparse.size(), plain.len() as u64, "step {step}");
            let mut read = vec![0xee; plain.len()];
            sparse.read(0, &mut read);
            assert!(read == plain, "step {step}");
            let from = rng.below(plain.len() as u64 + 1) as usize;
            let mut read = vec![0xee; plain.len() - from];
            sparse.read(from as u64, &mut read);
            assert!(read == plain[from..], "step {step}");
        }
    }

    #[test]
    fn holes_take_no_memory() {
        let mut contents = Contents::default();
        contents.set_size(1 << 40);
        contents.write(1 << 39, &[1]);
        contents.write_zeroes(0, 1 << 38);
        assert_eq!(contents.blocks.len(), 1);
        contents.set_size(0);
        assert!(contents.blocks.is_empty());
    }
}
