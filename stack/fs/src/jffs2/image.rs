//! The bytes of a flash with JFFS2: whether they are, and how large its eraseblocks are, of which no node says anything.
//!
//! What tells: no node crosses the end of a block, clean markers stand at the beginning of one, a node after erased bytes
//! does too, and a summary says how far from the beginning of its block it is. Padding nodes end blocks, or only pages.

use sim::seam::is_erased;

use super::media::{Endian, HEADER_BYTES, Header, Summary, node_type};

/// What clears up the size of eraseblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The user.
    Given,
    /// A summary: it says where in its block it is.
    Summary,
    /// Clean markers.
    CleanMarkers,
    /// Nodes: none crosses the end of a block.
    Nodes,
}

impl Why {
    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Why::Given => "given",
            Why::Summary => "by a summary",
            Why::CleanMarkers => "guessed by clean markers",
            Why::Nodes => "guessed by what nodes do not cross",
        }
    }
}

/// What is known of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Byte order of the nodes.
    pub endian: Endian,
    /// Bytes of an eraseblock.
    pub block_bytes: u32,
    /// How that is known.
    pub why: Why,
    /// Clean markers are in the blocks, as on NOR.
    pub has_markers: bool,
    /// Blocks have summaries.
    pub has_summaries: bool,
    /// Bytes that the last node has beyond the end of the image, which was cut off then.
    pub missing_bytes: u64,
}

/// Bytes that are looked at together.
const PIECE: usize = 256 << 10;
/// The least eraseblock that is guessed; nodes at the beginning of one stand at multiples of it.
const LEAST: u32 = 4096;
/// Exponents of the eraseblocks that are guessed, 4 KiB to 1 MiB.
const POWERS: std::ops::RangeInclusive<u32> = 12..=20;
/// Longer than any node: a block is no larger.
const MOST_NODE: u32 = 16 << 20;
/// How many places are looked at for a node where the first one has none.
const TRIES: u64 = 256;

/// Bytes of an image, with 0xFF beyond its end.
pub trait Bytes {
    /// Number of bytes.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads `into.len()` bytes from `at` on.
    fn read(&mut self, at: u64, into: &mut [u8]);
}

/// The header of a node that is there.
fn header(endian: Endian, bytes: &[u8]) -> Option<Header> {
    Header::read(endian, bytes).ok().filter(|header| (HEADER_BYTES as u32..=MOST_NODE).contains(&header.len))
}

/// Byte order, if the bytes begin with JFFS2: the first of them that are not erased do, in steps of 4 KiB, or, where they
/// are damaged, a later node of these 4 KiB, or the first of others within a megabyte.
pub fn detect(image: &mut dyn Bytes) -> Option<Endian> {
    let len = image.len();
    let mut piece = vec![0; PIECE];
    let (mut at, mut tries) = (0, 0);
    while at < len && tries < TRIES {
        image.read(at, &mut piece);
        let there = (len - at).min(PIECE as u64) as usize;
        for page in piece[..there].chunks(LEAST as usize) {
            if is_erased(page) {
                continue;
            }
            if page.starts_with(b"UBI#") || page.starts_with(&[0x31, 0x18, 0x10, 0x06]) {
                return None;
            }
            let endian = page.first_chunk().and_then(|&magic| Endian::of_magic(magic));
            let is_node = |endian: &Endian| page.len() >= HEADER_BYTES && header(*endian, page).is_some();
            if let Some(endian) = endian.filter(is_node) {
                return Some(endian);
            }
            if tries == 0
                && let Some(endian) = first_node(page)
            {
                return Some(endian);
            }
            tries += 1;
        }
        at += PIECE as u64;
    }
    None
}

/// Byte order of the first node in bytes that begin with none.
fn first_node(bytes: &[u8]) -> Option<Endian> {
    (0..bytes.len()).step_by(4).find_map(|at| {
        let bytes = bytes.get(at..).filter(|rest| rest.len() >= HEADER_BYTES)?;
        Endian::of_magic([bytes[0], bytes[1]]).filter(|&endian| header(endian, bytes).is_some())
    })
}

/// What a walk over all nodes says about sizes of blocks.
#[derive(Default)]
struct Evidence {
    /// Bytes of the block, by a summary.
    exact: Option<u32>,
    markers: u64,
    /// Greatest divisor of all places where a block begins.
    divisor: u64,
    /// As `divisor`, and of the ends of padding nodes.
    with_padding: u64,
    /// Contradictions to each of [`POWERS`].
    against: [u64; 9],
    /// Padding nodes that end elsewhere.
    against_padding: [u64; 9],
    /// Nodes that cross a multiple of the size asked about.
    crossing: u64,
    /// Words that are in no node, and neither 0xFF nor zero.
    stray: u64,
    /// Bytes of the last node beyond the end.
    missing: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Evidence {
    fn begins(&mut self, at: u64) {
        self.divisor = gcd(self.divisor, at);
        self.with_padding = gcd(self.with_padding, at);
        for (power, against) in POWERS.zip(&mut self.against) {
            *against += u64::from(!at.is_multiple_of(1 << power));
        }
    }

    fn pads(&mut self, end: u64) {
        self.with_padding = gcd(self.with_padding, end);
        for (power, against) in POWERS.zip(&mut self.against_padding) {
            *against += u64::from(!end.is_multiple_of(1 << power));
        }
    }

    fn node(&mut self, at: u64, len: u64, asked: Option<u64>) {
        for (power, against) in POWERS.zip(&mut self.against) {
            *against += u64::from(at >> power != (at + len - 1) >> power);
        }
        self.crossing += u64::from(asked.is_some_and(|size| at / size != (at + len - 1) / size));
    }

    /// Looks at the first `most` bytes. `asked`: a size that nodes may cross.
    fn gather(image: &mut dyn Bytes, endian: Endian, most: u64, asked: Option<u64>) -> Evidence {
        let (len, mut found) = (image.len().min(most), Evidence::default());
        let mut piece = vec![0; PIECE + HEADER_BYTES];
        let (mut at, mut base, mut is_gap) = (0, 0, false);
        while base < len {
            image.read(base, &mut piece);
            let end = (base + PIECE as u64).min(len);
            while at < end {
                let bytes = &piece[(at - base) as usize..];
                if bytes[..4] == [0xff; 4] {
                    is_gap = true;
                    at += 4;
                    continue;
                }
                let Some(node) = header(endian, bytes) else {
                    found.stray += u64::from(bytes[..4] != [0; 4]);
                    is_gap = false;
                    at += 4;
                    continue;
                };
                let whole = u64::from(node.padded());
                found.missing = (at + u64::from(node.len)).saturating_sub(len);
                match node.node_type {
                    node_type::CLEAN_MARKER => {
                        found.markers += 1;
                        found.begins(at);
                    }
                    node_type::SUMMARY if found.exact.is_none() => {
                        let mut tail = [0; Summary::TAIL_BYTES];
                        image.read(at + whole - tail.len() as u64, &mut tail);
                        let offset = Summary::offset(endian, &tail, u32::MAX);
                        found.exact =
                            offset.and_then(|offset| offset.checked_add(node.len)).filter(|&size| size >= LEAST);
                    }
                    node_type::PADDING => found.pads(at + whole),
                    _ if is_gap => found.begins(at),
                    _ => {}
                }
                found.node(at, whole, asked);
                is_gap = false;
                at += whole;
            }
            base = end;
        }
        found
    }
}

/// Words among the first `most` bytes that are in no node, though something is written there: many where there are bytes
/// of a page, its OOB, that are not of the file system.
pub fn stray_words(image: &mut dyn Bytes, endian: Endian, most: u64) -> u64 {
    Evidence::gather(image, endian, most, None).stray
}

/// What is known of an image in this byte order. `given`: bytes of an eraseblock, where the user knows.
pub fn probe(image: &mut dyn Bytes, endian: Endian, given: Option<u32>) -> Found {
    let evidence = Evidence::gather(image, endian, u64::MAX, None);
    let has_markers = evidence.markers > 0;
    let (has_summaries, missing_bytes) = (evidence.exact.is_some(), evidence.missing);
    let found = |block_bytes, why| Found { endian, block_bytes, why, has_markers, has_summaries, missing_bytes };
    if let Some(block_bytes) = given {
        return found(block_bytes, Why::Given);
    }
    if let Some(block_bytes) = evidence.exact {
        return found(block_bytes, Why::Summary);
    }
    let why = if evidence.markers > 1 { Why::CleanMarkers } else { Why::Nodes };
    // No block need be larger than the image.
    let most = image.len().max(LEAST.into()).next_power_of_two();
    let against = evidence.against.into_iter().zip(evidence.against_padding);
    let candidates: Vec<(u32, (u64, u64))> = POWERS.zip(against).filter(|&(power, _)| 1 << power <= most).collect();
    let largest = |fits: &dyn Fn(u64, u64) -> bool| {
        let fitting = candidates.iter().filter(|(_, (nodes, padding))| fits(*nodes, *padding));
        fitting.map(|&(power, _)| 1 << power).next_back()
    };
    if let Some(size) = largest(&|nodes, padding| nodes == 0 && padding == 0) {
        return found(size, why);
    }
    // Blocks of no power of two, as those of UBI.
    for divisor in [evidence.with_padding, evidence.divisor] {
        let size = u32::try_from(divisor).ok().filter(|&size| size >= LEAST && !size.is_power_of_two());
        let mut is_crossed = |size: u32| Evidence::gather(image, endian, u64::MAX, Some(size.into())).crossing > 0;
        if let Some(size) = size.filter(|&size| !is_crossed(size)) {
            return found(size, why);
        }
    }
    if let Some(size) = largest(&|nodes, _| nodes == 0) {
        return found(size, why);
    }
    let best = candidates.iter().min_by_key(|(power, (nodes, _))| (*nodes, u32::MAX - power));
    found(1 << best.map_or(16, |(power, _)| *power), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Image(Vec<u8>);

    impl Bytes for Image {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read(&mut self, at: u64, into: &mut [u8]) {
            into.fill(0xff);
            let from = (at as usize).min(self.0.len());
            let there = into.len().min(self.0.len() - from);
            into[..there].copy_from_slice(&self.0[from..from + there]);
        }
    }

    /// Nodes of a type that is dropped, of `node` bytes, in blocks of `block` bytes, as many as fit.
    fn image(endian: Endian, (block, node): (usize, usize), blocks: usize, has_markers: bool) -> Image {
        let mut bytes = Vec::new();
        for _ in 0..blocks {
            let begin = bytes.len();
            if has_markers {
                bytes.extend(crate::jffs2::media::clean_marker(endian, false));
            }
            while bytes.len() + node <= begin + block {
                let at = bytes.len();
                bytes.resize(at + node, 7);
                Header { node_type: 0x2010, len: node as u32 }.write(endian, &mut bytes[at..]);
            }
            bytes.resize(begin + block, 0xff);
        }
        Image(bytes)
    }

    #[test]
    fn blocks_are_as_large_as_nodes_and_markers_allow() {
        for endian in [Endian::Little, Endian::Big] {
            for has_markers in [false, true] {
                for (block, node) in
                    [(4096, 900), (16 << 10, 3000), (64 << 10, 3000), (128 << 10, 4164), (126_976, 3000)]
                {
                    let mut image = image(endian, (block, node), 7, has_markers);
                    assert_eq!(detect(&mut image), Some(endian));
                    let found = probe(&mut image, endian, None);
                    assert_eq!((found.block_bytes as usize, found.has_markers), (block, has_markers), "{node}");
                }
            }
        }
    }

    #[test]
    fn erased_blocks_and_damage_come_before_the_first_node() {
        let nodes = image(Endian::Big, (16 << 10, 3000), 2, true);
        let mut erased = Image([vec![0xff; 5 << 16], nodes.0.clone()].concat());
        assert_eq!(detect(&mut erased), Some(Endian::Big));
        let mut damaged = Image(nodes.0.clone());
        damaged.0[5] ^= 1;
        assert_eq!(detect(&mut damaged), Some(Endian::Big));
        // The only block: its second node.
        let mut only = image(Endian::Little, (64 << 10, 900), 1, true);
        for at in [0, 5] {
            only.0[at] ^= 1;
            assert_eq!(detect(&mut only), Some(Endian::Little));
        }
        only.0[..4096].fill(0);
        assert_eq!(detect(&mut only), None);
        for magic in [b"UBI#", &[0x31, 0x18, 0x10, 0x06]] {
            let mut other = Image([&magic[..], &[0; 4092], &nodes.0].concat());
            assert_eq!(detect(&mut other), None);
        }
        let mut cut = Image(nodes.0[..20_000].to_vec());
        // The second block has a marker, a node of 3,000 bytes, and the beginning of another one.
        assert_eq!(probe(&mut cut, Endian::Big, None).missing_bytes, (16 << 10) + 12 + 6000 - 20_000);
        assert_eq!(detect(&mut Image(vec![0xff; 1 << 20])), None);
        assert_eq!(detect(&mut Image(Vec::new())), None);
        assert_eq!(detect(&mut Image(vec![0x85, 0x19, 0x02])), None);
    }
}
