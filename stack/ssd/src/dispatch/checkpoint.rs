//! Checkpoints: every so often a unit's mapping is written to blocks that are kept for it. After a loss of power only
//! what was programmed since has to be looked for ([`power`](crate::power)).
//!
//! Two regions take turns, so that one is whole while the other is written. An image is the state at the moment when it
//! was begun; its pages are programmed between the host's, one after each, and all that was placed before is programmed
//! before them, since a die does one thing after the other. A region in which a block fails is used no more, and with
//! it checkpoints end: then every page is read again.
//!
//! ```text
//! offset         bytes
//! 0              4      "NLCP"
//! 4              4      logical pages of the unit, n
//! 8              4      blocks of the unit, b
//! 12             4 n    physical page of each logical one, bit 31 if its contents are lost; 0xFFFF_FFFF for none
//! 12 + 4 n       4 b    pages of each block handed out since it was erased
//! 12 + 4 n + 4 b 4 b    erase count of each block
//! ```
//! Numbers are little-endian. A page's tag has the page's number in the image as its logical page and the image's
//! number as its version; its CRC covers the contents.
//!
//! Knows what a layer says of its mapping; does not know how it maps.

use sim::Cause;
use sim::seam::{Flash, FlashError};

use super::Dispatcher;
use super::die::{Kind, Register};
use crate::Shape;
use crate::cells::Held;
use crate::ftl::{NONE, UnitFtl};

const MAGIC: [u8; 4] = *b"NLCP";
const HEADER: u64 = 12;
/// Set in the number of a physical page whose contents are lost. A unit has fewer than 2^31 pages.
pub(crate) const LOST: u32 = 1 << 31;

/// The blocks of a unit that are kept for checkpoints, in two regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRegions([Vec<u32>; 2]);

impl CheckpointRegions {
    /// The last good blocks of a unit of `lpns` logical pages, as many as two images take. Its layer is to take them
    /// for bad. `None` where there are not so many.
    pub fn of(shape: &Shape, lpns: u32, bad: &[u32]) -> Option<CheckpointRegions> {
        let bytes = Image::bytes(lpns, shape.blocks);
        let region = bytes.div_ceil(u64::from(shape.unit_pages()) * u64::from(shape.page_bytes)) as usize;
        let good: Vec<u32> = (0..shape.blocks).rev().filter(|block| !bad.contains(block)).take(2 * region).collect();
        (good.len() == 2 * region).then(|| CheckpointRegions([good[..region].to_vec(), good[region..].to_vec()]))
    }

    /// All its blocks.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flatten().copied()
    }

    /// The blocks of each region.
    pub(crate) fn each(&self) -> &[Vec<u32>; 2] {
        &self.0
    }
}

/// A unit's mapping at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Physical page of each logical one, with [`LOST`] if its contents are lost; or `NONE`.
    pub map: Vec<u32>,
    /// Pages of each block handed out.
    pub handed_out: Vec<u32>,
    /// Erase counts.
    pub erases: Vec<u32>,
}

impl Image {
    /// Length of an image.
    pub(crate) const fn bytes(lpns: u32, blocks: u32) -> u64 {
        HEADER + 4 * lpns as u64 + 8 * blocks as u64
    }

    fn of<M: UnitFtl>(layer: &M, is_lost: impl Fn(u32) -> bool) -> Image {
        let erases = layer.erase_counts().to_vec();
        let place = |lpn| match layer.lookup(lpn) {
            ppn if ppn != NONE && is_lost(ppn) => ppn | LOST,
            ppn => ppn,
        };
        Image {
            map: (0..layer.lpns()).map(place).collect(),
            handed_out: (0..erases.len() as u32).map(|block| layer.handed_out(block)).collect(),
            erases,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(self.map.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.erases.len() as u32).to_le_bytes());
        for number in self.map.iter().chain(&self.handed_out).chain(&self.erases) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// From the bytes of its pages; `None` if they are no image of a unit of that many blocks.
    pub(crate) fn decode(bytes: &[u8], blocks: u32) -> Option<Image> {
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let lpns = number(4)?;
        if bytes[..4] != MAGIC || number(8)? != blocks || (bytes.len() as u64) < Image::bytes(lpns, blocks) {
            return None;
        }
        let numbers: Vec<u32> = bytes[HEADER as usize..]
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        let (map, rest) = numbers.split_at(lpns as usize);
        let (handed_out, rest) = rest.split_at(blocks as usize);
        Some(Image { map: map.to_vec(), handed_out: handed_out.to_vec(), erases: rest[..blocks as usize].to_vec() })
    }
}

/// What is being done about a unit's next checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Idle,
    /// The region's block of that number is to be erased next.
    Erase(usize),
    /// The image's page of that number is to be programmed next.
    Write(u32),
    /// Never again: a block of the region failed.
    Dead,
}

#[derive(Clone, Debug)]
struct Unit {
    regions: CheckpointRegions,
    /// The region that is written next, or being written.
    region: usize,
    phase: Phase,
    /// Pages of the host's since the last one was begun.
    since: u32,
    /// Whether a host page was placed since the last step.
    due: bool,
    /// The number of the image, and its bytes where the flash keeps bytes.
    number: u64,
    image: Vec<u8>,
}

/// The checkpoints of a drive's units.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    every: u32,
    units: Vec<Unit>,
}

impl Checkpoints {
    fn owns(&self, unit: u32, block: u32) -> bool {
        self.units[unit as usize].regions.blocks().any(|own| own == block)
    }
}

impl<F: Flash, M: UnitFtl> Dispatcher<F, M> {
    /// Writes a checkpoint of a unit whenever the host has programmed `every` pages in it. `regions` are the blocks of
    /// each unit; the layers know them as bad. Panics when there are not as many regions as units.
    pub fn write_checkpoints(&mut self, every: u32, regions: Vec<CheckpointRegions>) {
        assert_eq!(regions.len(), self.units.len(), "regions for each unit");
        let unit = |regions| Unit {
            regions,
            region: 0,
            phase: Phase::Idle,
            since: 0,
            due: false,
            number: 0,
            image: Vec::new(),
        };
        self.checkpoints =
            Some(Box::new(Checkpoints { every: every.max(1), units: regions.into_iter().map(unit).collect() }));
    }

    /// The newest checkpoint lies in a region of that number: the other one is written next.
    pub(crate) fn checkpoint_lies_in(&mut self, unit: u32, region: usize) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.units[unit as usize].region = 1 - region;
        }
    }

    /// Host pages were placed in a unit.
    #[inline]
    pub(super) fn host_pages_placed(&mut self, unit: u32, pages: u8) {
        if let Some(checkpoints) = &mut self.checkpoints {
            let unit = &mut checkpoints.units[unit as usize];
            unit.since = unit.since.saturating_add(pages.into());
            unit.due = true;
        }
    }

    /// Puts the next step of a unit's checkpoint into a register of its die, if it comes before the next host page.
    /// Whether it does.
    pub(super) fn checkpoint_op(&mut self, d: u32, register: Register, unit: u32) -> bool {
        let Some(checkpoints) = &mut self.checkpoints else { return false };
        let layer = &self.units[unit as usize];
        let (unit_pages, page_bytes) = (self.shape.unit_pages(), self.shape.page_bytes);
        let every = checkpoints.every;
        let own = &mut checkpoints.units[unit as usize];
        if own.phase == Phase::Idle && own.since >= every {
            (own.phase, own.since, own.due) = (Phase::Erase(0), 0, true);
            own.number = self.cells.stamp() + 1;
            let lost = &self.lost;
            let image = F::kept(|| Image::of(layer, |ppn| lost.contains(&(unit, ppn))).encode());
            own.image = image.unwrap_or_default();
        }
        if !std::mem::replace(&mut own.due, false) {
            return false;
        }
        let region = &own.regions.each()[own.region];
        let die = &mut self.dies[d as usize];
        match own.phase {
            Phase::Idle | Phase::Dead => return false,
            Phase::Erase(number) => {
                die.fresh(register, Kind::Erase, unit, Cause::Map).from[0] = region[number];
                own.phase = if number + 1 < region.len() { Phase::Erase(number + 1) } else { Phase::Write(0) };
            }
            Phase::Write(page) => {
                let bytes = Image::bytes(layer.lpns(), self.shape.blocks);
                let pages = bytes.div_ceil(u64::from(page_bytes)) as u32;
                let at = region[(page / unit_pages) as usize] * unit_pages + page % unit_pages;
                let op = die.fresh(register, Kind::Program, unit, Cause::Map);
                op.n = (pages - page).min(self.shape.unit_planes()) as u8;
                (0..u32::from(op.n)).for_each(|next| op.at[next as usize] = at + next);
                let next = page + u32::from(op.n);
                own.phase = Phase::Write(next);
                if next == pages {
                    (own.phase, own.region) = (Phase::Idle, 1 - own.region);
                }
            }
        }
        true
    }

    /// Whether a block is kept for checkpoints.
    #[inline]
    pub(super) fn is_checkpoint_block(&self, unit: u32, block: u32) -> bool {
        self.checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.owns(unit, block))
    }

    /// Contents of a page of a checkpoint, and what it is said to hold.
    pub(super) fn checkpoint_page(&self, unit: u32, ppn: u32, contents: &mut [u8]) -> Option<Held> {
        let own = &self.checkpoints.as_ref()?.units[unit as usize];
        let (block, offset) = (self.cells.block(ppn), ppn % self.shape.unit_pages());
        let number = own.regions.each().iter().find_map(|region| region.iter().position(|&other| other == block))?;
        let page = number as u32 * self.shape.unit_pages() + offset;
        let image = own.image.get(page as usize * contents.len()..).unwrap_or(&[]);
        let held = image.len().min(contents.len());
        contents[..held].copy_from_slice(&image[..held]);
        contents[held..].fill(0);
        Some(Held { lpn: page, version: Some(own.number), erases: 0, lost: false })
    }

    /// A block of a checkpoint failed.
    pub(super) fn checkpoint_failed(&mut self, unit: u32, error: &FlashError) {
        if *error != FlashError::PowerLost
            && let Some(checkpoints) = &mut self.checkpoints
        {
            checkpoints.units[unit as usize].phase = Phase::Dead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    #[test]
    fn an_image_is_read_as_it_was_written_and_nothing_else_is_one() {
        let image = Image { map: vec![3, NONE, 0], handed_out: vec![4, 0], erases: vec![7, 9] };
        let bytes = image.encode();
        assert_eq!(bytes.len() as u64, Image::bytes(3, 2));
        assert_eq!(bytes[..16], [b'N', b'L', b'C', b'P', 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(Image::decode(&bytes, 2), Some(image.clone()));
        let padded: Vec<u8> = bytes.iter().copied().chain([0; 100]).collect();
        assert_eq!(Image::decode(&padded, 2), Some(image));
        assert_eq!(Image::decode(&bytes, 3), None);
        for len in 0..bytes.len() {
            assert_eq!(Image::decode(&bytes[..len], 2), None, "{len} bytes");
        }
        let mut rng = Seed(1).stream("image");
        for _ in 0..10_000 {
            // Any bytes at all: no panic, and no memory beyond them.
            let mut bytes = bytes.clone();
            (0..3).for_each(|_| bytes[rng.below(12) as usize] = rng.bits() as u8);
            let found = Image::decode(&bytes, 2);
            assert!(found.is_none_or(|image| Image::bytes(image.map.len() as u32, 2) <= bytes.len() as u64));
        }
    }

    #[test]
    fn areas_are_the_last_good_blocks_and_hold_an_image_each() {
        let shape = Shape {
            channels: 1,
            ways: 1,
            dies: 1,
            planes: 1,
            blocks: 16,
            pages: 8,
            page_bytes: 512,
            order: crate::Order::CHANNEL_FIRST,
            multi_plane: false,
        };
        // 12 + 4 * 80 + 8 * 16 bytes: one block of 4 KiB.
        assert_eq!(CheckpointRegions::of(&shape, 80, &[14]).map(|regions| regions.0), Some([vec![15], vec![13]]));
        // 12 + 4 * 1200 + 8 * 16 bytes: two blocks.
        assert_eq!(
            CheckpointRegions::of(&shape, 1200, &[]).map(|regions| regions.0),
            Some([vec![15, 14], vec![13, 12]])
        );
        assert_eq!(CheckpointRegions::of(&shape, 100_000, &[]), None);
    }
}
