//! What a guest wrote to a drive, kept by logical address beside the simulated flash.
//!
//! The flash then keeps no bytes: pages that the drive holds, stale ones too, take no memory. This is what the guest would
//! read from the drive only as long as the drive loses nothing: [`may_be_outside`] says when it cannot.

use std::collections::BTreeMap;
use std::io;

use sim::seam::SECTOR_BYTES;

use crate::schema::Experiment;
use crate::schema::drive::{Contents, TrimmedReads};

/// Where the bytes are: a file. Nothing is read that was not written before.
pub trait Backing {
    /// Reads the bytes from `at` on.
    /// Errors: those of the file.
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes bytes from `at` on.
    /// Errors: those of the file.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Whether a drive's contents may be kept outside its flash: nothing in the experiment needs them there, no fault
/// changes them, and trimmed sectors read as zeroes.
pub fn may_be_outside(experiment: &Experiment) -> bool {
    let Some(ssd) = &experiment.ssd else { return false };
    ssd.store == Contents::Tags
        && ssd.front.trimmed_reads == TrimmedReads::Zeroes
        && experiment.faults.is_none()
        && experiment.guest.is_some()
}

/// Sectors of one word of the marks.
const WORD: u64 = 64;
/// Words of one piece of the marks: 1 MiB.
const WORDS: u64 = 32;

/// Contents of a drive, outside it. Sectors that were never written, or were trimmed since, are zero.
pub(super) struct Outside<'a> {
    backing: &'a mut dyn Backing,
    /// A bit for each sector that is in the file, in pieces by their number.
    held: BTreeMap<u64, [u64; WORDS as usize]>,
    /// Sectors of a page of the drive, which trims only whole pages.
    page_sectors: u64,
    /// First sector of the last request of each tag.
    asked: Vec<u64>,
    failed: Option<String>,
}

impl<'a> Outside<'a> {
    /// Nothing, for requests with tags below `depth`.
    pub fn new(backing: &'a mut dyn Backing, page_bytes: u32, depth: u32) -> Outside<'a> {
        Outside {
            backing,
            held: BTreeMap::new(),
            page_sectors: u64::from(page_bytes / SECTOR_BYTES).max(1),
            asked: vec![0; depth as usize],
            failed: None,
        }
    }

    /// Notes the first sector of a request.
    pub fn asked(&mut self, tag: u32, sector: u64) {
        self.asked[tag as usize] = sector;
    }

    /// Why the contents are not known, if they are not.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// The drive failed a request that changes contents.
    pub fn lost(&mut self, why: &str) {
        let say = || format!("the drive failed a write ({why}); only the flash itself knows what it holds now");
        self.failed.get_or_insert_with(say);
    }

    fn check(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            self.failed.get_or_insert_with(|| format!("the file beside the flash: {error}"));
        }
    }

    /// Marks sectors as held or not, word by word.
    fn mark(&mut self, from: u64, to: u64, held: bool) {
        let mut at = from;
        while at < to {
            let end = (at / WORD + 1) * WORD;
            let bits = bits(at % WORD, to.min(end) - at);
            let (piece, word) = (at / WORD / WORDS, (at / WORD % WORDS) as usize);
            if held {
                self.held.entry(piece).or_default()[word] |= bits;
            } else if let Some(words) = self.held.get_mut(&piece) {
                words[word] &= !bits;
            } else {
                // Nothing of this piece is held.
                at = (piece + 1) * WORDS * WORD;
                continue;
            }
            at = end;
        }
        if !held {
            let pieces = from / WORD / WORDS..=to / WORD / WORDS;
            let empty = self.held.range(pieces).filter(|(_, words)| words.iter().all(|&word| word == 0));
            let empty: Vec<u64> = empty.map(|(&piece, _)| piece).collect();
            for piece in empty {
                self.held.remove(&piece);
            }
        }
    }

    fn holds(&self, sector: u64) -> bool {
        let words = self.held.get(&(sector / WORD / WORDS));
        words.is_some_and(|words| words[(sector / WORD % WORDS) as usize] >> (sector % WORD) & 1 == 1)
    }

    /// Writes whole sectors; `None` writes zeroes.
    pub fn write(&mut self, sector: u64, sectors: u32, data: Option<&[u8]>) {
        let end = sector + u64::from(sectors);
        match data {
            Some(data) => {
                let done = self.backing.write(sector * u64::from(SECTOR_BYTES), data);
                self.check(done);
                self.mark(sector, end, true);
            }
            None => self.mark(sector, end, false),
        }
    }

    /// Trims as the drive does: whole pages only.
    pub fn trim(&mut self, sector: u64, sectors: u32) {
        let pages = self.page_sectors;
        let (from, to) = (sector.div_ceil(pages) * pages, (sector + u64::from(sectors)) / pages * pages);
        if from < to {
            self.mark(from, to, false);
        }
    }

    /// Reads the sectors of the last request of a tag.
    pub fn take(&mut self, tag: u32, buffer: &mut [u8]) {
        self.read(self.asked[tag as usize], buffer);
    }

    /// Reads whole sectors.
    fn read(&mut self, sector: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        let bytes = SECTOR_BYTES as usize;
        let count = buffer.len() / bytes;
        let mut from = 0;
        while from < count {
            let held = self.holds(sector + from as u64);
            let length = (from..count).take_while(|&at| self.holds(sector + at as u64) == held).count();
            if held {
                let at = (sector + from as u64) * u64::from(SECTOR_BYTES);
                let done = self.backing.read(at, &mut buffer[from * bytes..][..length * bytes]);
                self.check(done);
            }
            from += length;
        }
    }

    /// Hands out what is not zero of a drive of so many sectors, piece by piece with its place in bytes.
    pub fn hand_out(&mut self, sectors: u64, keep: super::Keep<'_>) {
        let mut buffer = vec![0; (WORD * WORDS * u64::from(SECTOR_BYTES)) as usize];
        let pieces: Vec<u64> = self.held.keys().copied().collect();
        for piece in pieces {
            let sector = piece * WORD * WORDS;
            // The last piece may be shorter.
            let there = (sectors - sector).min(WORD * WORDS) * u64::from(SECTOR_BYTES);
            let buffer = &mut buffer[..there as usize];
            self.read(sector, buffer);
            if buffer.iter().any(|&byte| byte != 0) {
                keep(sector * u64::from(SECTOR_BYTES), buffer);
            }
        }
    }

    /// Takes in an image of the drive.
    pub fn take_in(&mut self, image: &[u8]) {
        let bytes = WORD * WORDS * u64::from(SECTOR_BYTES);
        for (piece, data) in (0..).zip(image.chunks(bytes as usize)) {
            if data.iter().any(|&byte| byte != 0) {
                let mut data = data.to_vec();
                data.resize(data.len().next_multiple_of(SECTOR_BYTES as usize), 0);
                self.write(piece * WORD * WORDS, data.len() as u32 / SECTOR_BYTES, Some(&data));
            }
        }
    }
}

/// `count` bits from bit `from` on.
fn bits(from: u64, count: u64) -> u64 {
    (u64::MAX >> (WORD - count)) << from
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    /// Memory, filled with what must never be read.
    struct Memory(Vec<u8>);

    impl Backing for Memory {
        fn read(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
            buffer.copy_from_slice(&self.0[at as usize..][..buffer.len()]);
            Ok(())
        }

        fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
            self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }
    }

    /// The last piece is not whole.
    const SECTORS: u64 = 3 * WORD * WORDS - 832;

    #[test]
    fn it_reads_as_an_array_does() {
        for seed in 0..40 {
            let mut rng = Seed(seed).stream("outside");
            let mut memory = Memory(vec![0xee; (SECTORS * 512) as usize]);
            let mut outside = Outside::new(&mut memory, 4096, 1);
            let mut array = vec![0u8; (SECTORS * 512) as usize];
            for _ in 0..30 {
                let sector = rng.below(SECTORS);
                let count = (1 + rng.below(5000)).min(SECTORS - sector);
                let range = (sector * 512) as usize..((sector + count) * 512) as usize;
                match rng.below(3) {
                    0 => {
                        array[range.clone()].fill(1 + rng.below(255) as u8);
                        outside.write(sector, count as u32, Some(&array[range]));
                    }
                    1 => {
                        array[range].fill(0);
                        outside.write(sector, count as u32, None);
                    }
                    _ => {
                        let whole = sector.next_multiple_of(8)..(sector + count) / 8 * 8;
                        whole.for_each(|sector| array[(sector * 512) as usize..][..512].fill(0));
                        outside.trim(sector, count as u32);
                    }
                }
            }
            let mut read = vec![1; array.len()];
            outside.asked(0, 0);
            outside.take(0, &mut read);
            assert!(read == array, "seed {seed}");
            let mut copy = vec![0; array.len()];
            outside.hand_out(SECTORS, &mut |at, bytes| copy[at as usize..][..bytes.len()].copy_from_slice(bytes));
            assert!(copy == array, "seed {seed}");
            assert_eq!(outside.failed(), None);
        }
    }

    #[test]
    fn what_is_trimmed_takes_no_memory() {
        let mut memory = Memory(vec![0; (SECTORS * 512) as usize]);
        let mut outside = Outside::new(&mut memory, 4096, 1);
        outside.write(0, SECTORS as u32, Some(&vec![1; (SECTORS * 512) as usize]));
        assert_eq!(outside.held.len(), 3);
        outside.trim(0, SECTORS as u32);
        assert!(outside.held.is_empty());
    }
}
