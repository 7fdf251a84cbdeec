//! Blocks that were decompressed before: who reads the same flash again and again need not do so again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Algorithm;

/// Most bytes that are kept, packed and unpacked.
const MOST_BYTES: usize = 16 << 20;

/// Decompressed blocks by exactly the bytes that they came from. Clones are the same memory.
#[derive(Clone, Debug, Default)]
pub struct Unpacked(Arc<Mutex<Blocks>>);

#[derive(Debug, Default)]
struct Blocks {
    /// By a checksum of the packed bytes; the bytes themselves decide.
    blocks: BTreeMap<(u32, usize), Known>,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    algorithm: Algorithm,
    packed: Box<[u8]>,
    block: Box<[u8]>,
}

impl Unpacked {
    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Fills `out` with the block that these bytes decompress to. False if it is not known, or has another length.
    pub(super) fn find(&self, algorithm: Algorithm, packed: &[u8], out: &mut [u8]) -> bool {
        let blocks = self.blocks();
        let known = blocks.blocks.get(&key(packed));
        let same =
            |known: &&Known| known.algorithm == algorithm && *known.packed == *packed && known.block.len() == out.len();
        known.filter(same).is_some_and(|known| {
            out.copy_from_slice(&known.block);
            true
        })
    }

    /// Notes what these bytes decompress to. What has taken its memory is forgotten first, all of it.
    pub(super) fn add(&self, algorithm: Algorithm, packed: &[u8], block: &[u8]) {
        let mut blocks = self.blocks();
        if blocks.bytes + packed.len() + block.len() > MOST_BYTES {
            *blocks = Blocks::default();
        }
        blocks.bytes += packed.len() + block.len();
        let known = Known { algorithm, packed: packed.into(), block: block.into() };
        if let Some(before) = blocks.blocks.insert(key(packed), known) {
            blocks.bytes -= before.packed.len() + before.block.len();
        }
    }
}

fn key(packed: &[u8]) -> (u32, usize) {
    (crc32fast::hash(packed), packed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_of_the_same_algorithm_and_length_are_known() {
        let known = Unpacked::default();
        known.add(Algorithm::Lzo, b"packed", b"the block");
        let mut out = [0; 9];
        assert!(known.clone().find(Algorithm::Lzo, b"packed", &mut out) && out == *b"the block");
        for (algorithm, packed, bytes) in
            [(Algorithm::Zstd, "packed", 9), (Algorithm::Lzo, "Packed", 9), (Algorithm::Lzo, "packed", 8)]
        {
            assert!(!known.find(algorithm, packed.as_bytes(), &mut vec![0; bytes]), "{algorithm:?} {packed} {bytes}");
        }
    }

    /// These two have the same CRC-32: the generator polynomial, added anywhere, changes no remainder.
    #[test]
    fn bytes_with_the_same_checksum_are_told_apart() {
        // The polynomial of CRC-32 with its highest term, least significant bit first: 33 bits.
        let (one, mut other) = ([0_u8; 8], [0_u8; 8]);
        let polynomial = (0xedb8_8320_u64 << 1 | 1).to_le_bytes();
        other.iter_mut().zip(polynomial).for_each(|(byte, bits)| *byte ^= bits);
        assert_eq!(crc32fast::hash(&one), crc32fast::hash(&other));
        let known = Unpacked::default();
        known.add(Algorithm::Lzo, &one, b"one");
        assert!(!known.find(Algorithm::Lzo, &other, &mut [0; 3]));
        known.add(Algorithm::Lzo, &other, b"two");
        let mut out = [0; 3];
        assert!(known.find(Algorithm::Lzo, &other, &mut out) && out == *b"two");
    }

    #[test]
    fn memory_is_bounded() {
        let known = Unpacked::default();
        for number in 0..3 * (MOST_BYTES / 4100) as u32 {
            known.add(Algorithm::Lzo, &number.to_le_bytes(), &[1; 4096]);
            assert!(known.blocks().bytes <= MOST_BYTES);
            assert!(known.find(Algorithm::Lzo, &number.to_le_bytes(), &mut [0; 4096]));
        }
        let blocks = known.blocks();
        let held: usize = blocks.blocks.values().map(|known| known.packed.len() + known.block.len()).sum();
        assert_eq!(held, blocks.bytes);
    }
}
