//! Checkpoints: a unit's mapping table is written to reserved blocks at intervals, so that power-on has to scan only
//! what was programmed since ([`power`](crate::power)).
//!
//! Two regions alternate, so that one holds a complete image while the other is written. An image is the mapping at the
//! moment when the checkpoint began. Its programs are interleaved with the host's, one after each. Everything placed
//! before the checkpoint began is programmed before its first page, since a die does one operation after the other. If
//! a block of a region fails, the unit writes no more checkpoints, now or after a power-on. The image in the other
//! region, if there is one, stays valid.
//!
//! ```text
//! offset         bytes
//! 0              4      "NLCP"
//! 4              4      logical pages of the unit, n
//! 8              4      blocks of the unit, b
//! 12             4 n    physical page of each logical page, bit 31 set if its contents are lost; 0xFFFF_FFFF: unmapped
//! 12 + 4 n       4 b    pages of each block allocated since its erase
//! 12 + 4 n + 4 b 4 b    erase count of each block
//! ```
//! Numbers are little-endian. A page's tag has the page's number in the image as its logical page and the image's
//! number as its version; its CRC is over the contents.
//!
//! Knows the mapping that an FTL reports. Does not know how the FTL maps.

use sim::Cause;
use sim::seam::{Flash, FlashError};

use super::Dispatcher;
use super::die::{Kind, Register};
use crate::Shape;
use crate::cells::Held;
use crate::ftl::{NONE, UnitFtl};

const MAGIC: [u8; 4] = *b"NLCP";
const HEADER: u64 = 12;
/// Bit set in a physical page number of an image if the page's contents are lost. A unit has fewer than 2^31 pages.
pub(crate) const LOST: u32 = 1 << 31;

/// The blocks of a unit that are reserved for checkpoints, in two regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRegions([Vec<u32>; 2]);

impl CheckpointRegions {
    /// Reserves the last good blocks of a unit of `lpns` logical pages, enough for two images. The unit's FTL must
    /// treat them as bad. Returns `None` if the unit has too few good blocks.
    pub fn of(shape: &Shape, lpns: u32, bad: &[u32]) -> Option<CheckpointRegions> {
        let bytes = Image::bytes(lpns, shape.blocks);
        let region = bytes.div_ceil(u64::from(shape.unit_pages()) * u64::from(shape.page_bytes)) as usize;
        let good: Vec<u32> = (0..shape.blocks).rev().filter(|block| !bad.contains(block)).take(2 * region).collect();
        (good.len() == 2 * region).then(|| CheckpointRegions([good[..region].to_vec(), good[region..].to_vec()]))
    }

    /// The blocks of both regions.
    pub fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flatten().copied()
    }

    pub(crate) fn each(&self) -> &[Vec<u32>; 2] {
        &self.0
    }
}

/// A unit's mapping at one moment, as a checkpoint stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// Physical page of each logical page, with [`LOST`] if its contents are lost; `NONE` if unmapped.
    pub map: Vec<u32>,
    /// Pages of each block allocated since its erase.
    pub handed_out: Vec<u32>,
    /// Erase count of each block.
    pub erases: Vec<u32>,
}

impl Image {
    /// Length of an encoded image, in bytes.
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

    /// Decodes an image from the bytes of its pages; `None` if they are not an image of a unit of `blocks` blocks.
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

/// Progress of a unit's next checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No checkpoint is in progress.
    Idle,
    /// The block of the region with this index is to be erased next.
    Erase(usize),
    /// The page of the image with this index is to be programmed next.
    Write(u32),
    /// A block of a region failed: the unit writes no more checkpoints.
    Dead,
}

#[derive(Clone, Debug)]
struct Unit {
    regions: CheckpointRegions,
    /// The region to be written next, or being written: 0 or 1.
    region: usize,
    phase: Phase,
    /// Host pages placed since the last checkpoint began.
    since: u32,
    /// Whether a host page was placed since the last step of a checkpoint; a step is due only then.
    due: bool,
    /// Number of the image (the version in its pages' tags), and its bytes if the flash keeps contents.
    number: u64,
    image: Vec<u8>,
}

/// Checkpoint state of a drive's units.
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
    /// Writes a checkpoint of a unit whenever `every` host pages have been placed in it. `regions` are the reserved
    /// blocks of each unit; the FTLs must treat them as bad. A unit with a region of which a block went bad writes none.
    /// Panics if `regions` has another length than the drive has units.
    pub fn write_checkpoints(&mut self, every: u32, regions: Vec<CheckpointRegions>) {
        assert_eq!(regions.len(), self.units.len(), "regions for each unit");
        let unit = |(unit, regions): (u32, CheckpointRegions)| {
            let bad = self.cells.bad_blocks(unit);
            let is_whole = regions.blocks().all(|block| !bad.contains(&block));
            Unit {
                regions,
                region: 0,
                phase: if is_whole { Phase::Idle } else { Phase::Dead },
                since: 0,
                due: false,
                number: 0,
                image: Vec::new(),
            }
        };
        self.checkpoints =
            Some(Box::new(Checkpoints { every: every.max(1), units: (0..).zip(regions).map(unit).collect() }));
    }

    /// Notes that power-on found the newest checkpoint in this region: the next one goes into the other.
    pub(crate) fn checkpoint_lies_in(&mut self, unit: u32, region: usize) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.units[unit as usize].region = 1 - region;
        }
    }

    /// Counts host pages placed in a unit.
    #[inline]
    pub(super) fn host_pages_placed(&mut self, unit: u32, pages: u8) {
        if let Some(checkpoints) = &mut self.checkpoints {
            let unit = &mut checkpoints.units[unit as usize];
            unit.since = unit.since.saturating_add(pages.into());
            unit.due = true;
        }
    }

    /// Puts the next step of a unit's checkpoint into a register of its die, if one is due before the next host page.
    /// Returns whether it did.
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

    /// Whether a block is reserved for checkpoints.
    #[inline]
    pub(super) fn is_checkpoint_block(&self, unit: u32, block: u32) -> bool {
        self.checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.owns(unit, block))
    }

    /// Fills in the contents of a page of a checkpoint and returns the fields of its tag; `None` if the page is not in
    /// a checkpoint region.
    pub(super) fn checkpoint_page(&self, unit: u32, ppn: u32, contents: &mut [u8]) -> Option<Held> {
        let own = &self.checkpoints.as_ref()?.units[unit as usize];
        let (block, offset) = (self.cells.block(ppn), ppn % self.shape.unit_pages());
        let number = own.regions.each().iter().find_map(|region| region.iter().position(|&other| other == block))?;
        let page = number as u32 * self.shape.unit_pages() + offset;
        let image = own.image.get(page as usize * contents.len()..).unwrap_or(&[]);
        let held = image.len().min(contents.len());
        contents[..held].copy_from_slice(&image[..held]);
        contents[held..].fill(0);
        Some(Held { lpn: page, padding: false, version: Some(own.number), erases: 0, lost: false })
    }

    /// Ends a unit's checkpoints after a program or erase of a reserved block failed. A loss of power does not.
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
            // Arbitrary bytes: no panic, and no allocation beyond their length.
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
