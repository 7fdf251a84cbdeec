//! Compressors of LZO1X.
//!
//! Written from the description of the stream in Linux (`Documentation/staging/lzo.rst`). One searches: it remembers where three bytes
//! stood before in chains, takes the match that saves most, and waits a byte where the next one saves more. The other makes the same bytes
//! as Linux, whose file systems compress while they run: it takes the first match that it meets. Decompression is that of `lzokay`.

/// Longest block, the largest page of a processor: places in it are 16 bits, and one is kept for none.
const MAX_BLOCK: usize = 0x1_0000;
const HASH_BITS: u32 = 12;
/// Shortest match that is worth anything.
const MIN_MATCH: usize = 3;
/// A match so long ends the search.
const GOOD: usize = 48;
/// Places that are tried.
const DEPTH: u32 = 32;
/// A match of 3 to 8 bytes up to here takes 2 bytes.
const NEAR: usize = 2048;
/// A match up to here takes 3 bytes, and more if it is long.
const FAR: usize = 16_384;

/// Bits of Linux's hash of four bytes, its factor, and bytes at the end that it does not look at.
/// Source: Linux 6.12, `lib/lzo/lzodefs.h` and `lzo1x_1_do_compress`.
const LINUX_HASH: (u32, u32, usize) = (13, 0x1824_429d, 20);
/// A match: bytes that stood before.
#[derive(Clone, Copy, Default)]
struct Match {
    len: usize,
    distance: usize,
}

impl Match {
    /// Bytes that it saves.
    fn gain(self) -> usize {
        let cost =
            if self.len <= 8 && self.distance <= NEAR { 2 } else { 3 + self.len.saturating_sub(33).div_ceil(255) };
        self.len.saturating_sub(cost)
    }
}

/// Keeps the tables between blocks.
pub struct Lzo {
    /// Last place of each hash, plus one.
    head: Box<[u16; 1 << HASH_BITS]>,
    /// The place before it with the same hash, plus one.
    before: Vec<u16>,
    /// Last place of each hash of Linux's.
    linux: Box<[u16; 1 << LINUX_HASH.0]>,
}

/// The output, which may be too short.
struct Out<'a> {
    bytes: &'a mut [u8],
    at: usize,
    /// Where the byte is whose lowest two bits count up to three literals after a match.
    few: usize,
}

impl Out<'_> {
    fn put(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.at)? = byte;
        self.at += 1;
        Some(())
    }

    /// The rest of a length that does not fit into its instruction: a zero for each 255, then 1 to 255.
    fn rest(&mut self, mut length: usize) -> Option<()> {
        while length > 255 {
            self.put(0)?;
            length -= 255;
        }
        self.put(length as u8)
    }

    fn literals(&mut self, literals: &[u8]) -> Option<()> {
        let count = literals.len();
        match count {
            0 => return Some(()),
            1..=3 => self.bytes[self.few] |= count as u8,
            4..=18 => self.put(count as u8 - 3)?,
            _ => {
                self.put(0)?;
                self.rest(count - 18)?;
            }
        }
        self.bytes.get_mut(self.at..self.at + count)?.copy_from_slice(literals);
        self.at += count;
        Some(())
    }

    /// Literals whose instruction has a form of its own if it is the first.
    fn literals_or_first(&mut self, literals: &[u8]) -> Option<()> {
        match literals.len() {
            count @ 1..=238 if self.at == 0 => {
                self.put(17 + count as u8)?;
                self.bytes.get_mut(1..=count)?.copy_from_slice(literals);
                self.at += count;
                Some(())
            }
            _ => self.literals(literals),
        }
    }

    fn end(&mut self) -> Option<usize> {
        for byte in [0x11, 0, 0] {
            self.put(byte)?;
        }
        Some(self.at)
    }

    fn copy(&mut self, Match { len, distance }: Match) -> Option<()> {
        let back = distance - 1;
        if len <= 8 && distance <= NEAR {
            let low = (back as u8 & 7) << 2;
            self.few = self.at;
            self.put(if len <= 4 { 0x40 | (len as u8 - 3) << 5 | low } else { 0x80 | (len as u8 - 5) << 5 | low })?;
            return self.put((back >> 3) as u8);
        }
        if len <= 33 {
            self.put(0x20 | (len as u8 - 2))?;
        } else {
            self.put(0x20)?;
            self.rest(len - 33)?;
        }
        self.few = self.at;
        self.put((back << 2) as u8)?;
        self.put((back >> 6) as u8)
    }
}

/// Bytes that two places have in common, the second one later.
fn common(early: &[u8], late: &[u8]) -> usize {
    let mut len = 0;
    for (x, y) in early.chunks_exact(8).zip(late.chunks_exact(8)) {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let differs = word(x) ^ word(y);
        if differs != 0 {
            return len + (differs.trailing_zeros() / 8) as usize;
        }
        len += 8;
    }
    len + early[len..].iter().zip(&late[len..]).take_while(|(x, y)| x == y).count()
}

impl Lzo {
    pub fn new() -> Lzo {
        Lzo { head: Box::new([0; 1 << HASH_BITS]), before: Vec::new(), linux: Box::new([0; 1 << LINUX_HASH.0]) }
    }

    fn hash(block: &[u8], at: usize) -> usize {
        let word = u32::from(block[at]) | u32::from(block[at + 1]) << 8 | u32::from(block[at + 2]) << 16;
        (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
    }

    /// Remembers the place. Returns the last one with the same hash, plus one.
    fn enter(&mut self, block: &[u8], at: usize) -> u16 {
        let slot = &mut self.head[Lzo::hash(block, at)];
        let last = *slot;
        self.before[at] = last;
        *slot = at as u16 + 1;
        last
    }

    /// Remembers the place, and finds the best match for it.
    fn find(&mut self, block: &[u8], at: usize) -> Match {
        let mut next = self.enter(block, at);
        let mut best = Match::default();
        let mut gain = 0;
        for _ in 0..DEPTH {
            let Some(place) = (next as usize).checked_sub(1) else { break };
            let distance = at - place;
            if distance > FAR {
                break;
            }
            next = self.before[place];
            // A longer match has the byte after the best one.
            if block.get(at + best.len).is_none_or(|&byte| byte != block[place + best.len]) {
                continue;
            }
            let found = Match { len: common(&block[place..], &block[at..]), distance };
            if found.gain() > gain && found.len >= MIN_MATCH {
                (best, gain) = (found, found.gain());
                if found.len >= GOOD {
                    break;
                }
            }
        }
        best
    }

    /// Compresses `block`, at most 64 KiB, into `out`. Returns the length; `None` if it does not fit.
    pub fn compress(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        assert!(block.len() <= MAX_BLOCK, "a block of {} bytes", block.len());
        self.head.fill(0);
        self.before.resize(block.len().max(self.before.len()), 0);
        let mut out = Out { bytes: out, at: 0, few: 0 };
        // Where the last places with three bytes begin.
        let end = (block.len() + 1).saturating_sub(MIN_MATCH);
        let (mut literals, mut at) = (0, 0);
        while at < end {
            let mut best = self.find(block, at);
            if best.gain() == 0 {
                // The longer nothing was found, the less is looked for.
                at += 1 + ((at - literals) >> 6);
                continue;
            }
            let mut entered = at + 1;
            while best.len < GOOD && at + 1 < end {
                let later = self.find(block, at + 1);
                entered = at + 2;
                if later.gain() <= best.gain() {
                    break;
                }
                (best, at) = (later, at + 1);
            }
            out.literals_or_first(&block[literals..at])?;
            out.copy(best)?;
            at += best.len;
            for place in entered..at.min(end) {
                self.enter(block, place);
            }
            literals = at;
        }
        out.literals_or_first(&block[literals..])?;
        out.end()
    }

    /// As [`compress`](Self::compress), to the same bytes as Linux. A block with room for matches farther off than `FAR`, which no file
    /// system has while it is mounted, is searched.
    /// Source: Linux 6.12, `lib/lzo/lzo1x_compress.c`: what decides which match is taken.
    pub fn compress_as_linux(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        if block.len() > FAR {
            return self.compress(block, out);
        }
        let (bits, factor, margin) = LINUX_HASH;
        self.linux.fill(0);
        let mut out = Out { bytes: out, at: 0, few: 0 };
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
        // What has less than 32 bytes is not looked at.
        let end = if block.len() < 32 { 0 } else { block.len() - margin };
        // The first five bytes are literals. The longer nothing was found, the less is looked for.
        let (mut literals, mut at) = (0, 5);
        while at < end {
            let slot = &mut self.linux[(word(at).wrapping_mul(factor) >> (32 - bits)) as usize];
            let place = usize::from(std::mem::replace(slot, at as u16));
            if word(place) != word(at) {
                at += 1 + ((at - literals) >> 5);
                continue;
            }
            // Eight bytes are compared at a time. At the end of what is looked at those of the last comparison count as they are.
            let mut len = 4;
            while at + len < end || len == 4 {
                let same = common(&block[place + len..][..8], &block[at + len..][..8]);
                len += same;
                if same < 8 {
                    break;
                }
            }
            out.literals(&block[literals..at])?;
            out.copy(Match { len, distance: at - place })?;
            at += len;
            literals = at;
        }
        out.literals_or_first(&block[literals..])?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(block: &[u8]) -> Vec<u8> {
        let mut out = vec![0; block.len() + block.len() / 16 + 64];
        let len = Lzo::new().compress(block, &mut out).expect("there is room");
        out.truncate(len);
        out
    }

    /// By hand from the description of the stream.
    #[test]
    fn a_stream_is_as_the_format_says() {
        assert_eq!(packed(b"ab"), [17 + 2, b'a', b'b', 0x11, 0, 0]);
        assert_eq!(packed(b""), [0x11, 0, 0]);
        // One literal, then five bytes from one byte back.
        assert_eq!(packed(b"aaaaaa"), [17 + 1, b'a', 0x80, 0, 0x11, 0, 0]);
        // Three literals; four bytes from three back, with two literals after them.
        assert_eq!(
            packed(b"abcabca.!"),
            [17 + 3, b'a', b'b', b'c', 0x40 | 1 << 5 | 2 << 2 | 2, 0, b'.', b'!', 0x11, 0, 0]
        );
        // 40 bytes from one back: 40 − 33 beyond what the instruction holds, in the longer form.
        assert_eq!(packed(&[7; 41]), [17 + 1, 7, 0x20, 7, 0, 0, 0x11, 0, 0]);
    }

    /// By hand, of `lzo1x_1_do_compress`: less than 32 bytes stay as they are; the first place that is looked at is the sixth byte, the first
    /// instruction has no form of its own before a match, and the 20 bytes at the end are only met by a match that reaches them, in steps of 8.
    #[test]
    fn linux_takes_the_first_match_that_it_meets() {
        let packed = |block: &[u8]| {
            let mut out = [0; 100];
            let len = Lzo::new().compress_as_linux(block, &mut out).expect("there is room");
            out[..len].to_vec()
        };
        let short = [7; 31];
        assert_eq!(packed(&short), [&[17 + 31][..], &short, &[0x11, 0, 0]].concat());
        // Five literals; at 5, before 12, four bytes and one comparison of eight from five bytes back, then fifteen literals.
        let zeroes = [0; 32];
        assert_eq!(
            packed(&zeroes),
            [&[5 - 3, 0, 0, 0, 0, 0, 0x20 | (12 - 2), 4 << 2, 0][..], &[15 - 3], &[0; 15], &[0x11, 0, 0]].concat()
        );
    }

    #[test]
    fn what_another_decompressor_makes_of_it_is_the_block() {
        let mut state = 1u32;
        let mut noise = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let mut lzo = Lzo::new();
        for round in 0..3000 {
            // Copies of what came before at all distances, and literals between them in runs of all lengths.
            let below = [300, 5000, MAX_BLOCK as u32 + 1][round % 3];
            let target = if round % 99 == 2 { MAX_BLOCK } else { noise(below) as usize };
            let mut block: Vec<u8> = Vec::new();
            while block.len() < target {
                let letters = [2, 20, 256][noise(3) as usize];
                let run = [noise(4), noise(30), noise(600)][noise(3) as usize];
                block.extend((0..run).map(|_| noise(letters) as u8));
                if !block.is_empty() {
                    let distance = 1 + noise(block.len() as u32) as usize;
                    let length = [noise(10), noise(50), noise(900)][noise(3) as usize];
                    for _ in 0..length {
                        block.push(block[block.len() - distance]);
                    }
                }
            }
            block.truncate(target);
            let mut out = vec![0; block.len() + block.len() / 16 + 64];
            let len = lzo.compress(&block, &mut out).expect("there is room");
            let mut back = vec![0; block.len()];
            assert_eq!(lzokay::decompress::decompress(&out[..len], &mut back), Ok(block.len()), "round {round}");
            assert!(back == block, "round {round}");
            // With a byte less it does not fit, and nothing is written behind the end.
            assert_eq!(lzo.compress(&block, &mut out[..len - 1]), None);
            assert_eq!(lzo.compress(&block, &mut out[..len]), Some(len));
            let len = lzo.compress_as_linux(&block, &mut out).expect("there is room");
            assert_eq!(lzokay::decompress::decompress(&out[..len], &mut back), Ok(block.len()), "round {round}");
            assert!(back == block, "round {round}");
            assert_eq!(lzo.compress_as_linux(&block, &mut out[..len - 1]), None);
            assert_eq!(lzo.compress_as_linux(&block, &mut out[..len]), Some(len));
        }
    }
}
