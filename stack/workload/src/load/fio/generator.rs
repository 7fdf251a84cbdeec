//! The request stream of one clone of a job.
//!
//! It knows positions, sizes, directions, flushes and limits; it knows no time. Pace, pauses and the order of
//! completions belong to `load`.
//!
//! Invariants: a request is whole sectors inside the job's region and inside the device; a request allocates nothing;
//! the same job, clone, device size and seed give the same stream.

use sim::seam::{BlockOp, BlockRequest, SECTOR_BYTES};
use sim::{Rng, Seed};

use super::cover::{Permutation, UnitMap};
use super::error::FioError;
use super::job::{Distribution, Extent, Job, Mix, Sizes};
use super::place::Placer;

const SECTOR: u64 = SECTOR_BYTES as u64;
const READ: usize = 0;
const WRITE: usize = 1;
const TRIM: usize = 2;
const OPS: [BlockOp; 3] = [BlockOp::Read, BlockOp::Write, BlockOp::Trim];

/// Requests of one clone of a job. The iterator ends at the job's own limits, not at its runtime.
#[derive(Clone, Debug)]
pub struct Generator {
    /// The region: first sector and length.
    first: u64,
    len: u64,
    mix: Mix,
    random: bool,
    mix_read_percent: u64,
    fua: bool,
    queue: u16,
    directions: [Direction; 3],
    cover: Cover,
    /// How often a direction began at the beginning of the region again.
    wraps: u64,
    /// Sectors and requests that may still be issued, and which requests count towards these limits.
    sectors_left: u64,
    requests_left: u64,
    /// Writes until the next flush: of `fsync`, of `fdatasync`, and of the one before a barrier.
    flush: [FlushEvery; 3],
    flush_due: bool,
    end_flush: bool,
    wrote: bool,
    /// Direction of the next request, once drawn.
    drawn: Option<u8>,
    /// Range of a trim that is written next.
    trimmed: Option<(u64, u32)>,
    offset_rng: Rng,
    size_rng: Rng,
    mix_rng: Rng,
    order_rng: Rng,
}

/// Requests of one direction, in sectors.
#[derive(Clone, Debug)]
struct Direction {
    sizes: Sizes,
    /// The request size if all have the same, else 0.
    fixed: u32,
    min: u64,
    align: u64,
    /// Start of the next sequential request, in the region.
    next: u64,
    random_percent: u64,
    placer: Placer,
}

#[derive(Clone, Debug)]
enum Cover {
    /// No map: any block can be repeated at any time.
    None,
    /// Blocks of this many sectors, each once per pass.
    Blocks(Permutation, u64),
    /// Units of this many sectors, each once per pass.
    Units(UnitMap, u64),
}

#[derive(Clone, Copy, Debug)]
struct FlushEvery {
    every: u64,
    left: u64,
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The unit of which every size is a multiple, in sectors.
fn unit(sizes: &Sizes) -> u64 {
    match sizes {
        Sizes::Fixed(bytes) | Sizes::Range(bytes, _) => bytes / SECTOR,
        Sizes::Split(split) => split.iter().fold(0, |unit, &(bytes, _)| gcd(unit, bytes / SECTOR)),
    }
}

impl Generator {
    /// The stream of clone number `clone` (from 0) of `job` on a device of `device_sectors` sectors.
    ///
    /// Errors: a region that is empty, ends beyond the device or is smaller than a block; zones that do not fit; a
    /// random map of more than 2^32 units.
    pub fn new(job: &Job, clone: u32, device_sectors: u64, seed: Seed) -> Result<Generator, FioError> {
        let refuse = |why: String| FioError::Job { job: job.name.clone(), line: job.line, why };
        let region = Region::of(job, clone, device_sectors).map_err(refuse)?;
        let seed = job.randseed.map_or(seed, Seed);
        let stream = |what| seed.stream(&format!("fio/{}#{}/{clone}/{what}", job.name, job.twin));
        let mut place_rng = stream("place");
        let mut direction = |at: usize| {
            let (sizes, align) = (&job.sizes[at], job.align[at] / SECTOR);
            let min = sizes.min() / SECTOR;
            // The last position must leave room for the smallest block.
            let blocks = (region.len - min.saturating_sub(align).min(region.len)) / align;
            if job.uses(at) && (blocks == 0 || min > region.len) {
                return Err(format!("its region of {} sectors holds no block of {min}", region.len));
            }
            let used = job.uses(at) && job.random;
            let distribution = if used { &job.distribution } else { &Distribution::Uniform };
            Ok(Direction {
                fixed: if let Sizes::Fixed(bytes) = sizes { (bytes / SECTOR) as u32 } else { 0 },
                min,
                align,
                next: 0,
                random_percent: u64::from(job.percentage_random[at]),
                placer: Placer::new(distribution, at, blocks.max(1), align, &mut place_rng)?,
                sizes: sizes.clone(),
            })
        };
        let directions =
            [direction(READ).map_err(refuse)?, direction(WRITE).map_err(refuse)?, direction(TRIM).map_err(refuse)?];
        let mut offset_rng = stream("offset");
        let cover = Cover::of(job, &directions, region.len, &mut offset_rng).map_err(refuse)?;
        let limit = match job.io_size {
            _ if job.time_based => u64::MAX,
            None => region.len.saturating_mul(job.loops),
            Some(Extent::Bytes(bytes)) => bytes.div_ceil(SECTOR).saturating_mul(job.loops),
            Some(Extent::Percent(percent)) => {
                let sectors = u128::from(region.len) * u128::from(percent) / 100;
                (sectors as u64).max(1).saturating_mul(job.loops)
            }
        };
        let every = |every: u64| FlushEvery { every, left: every };
        let before = if job.barrier { job.fsync } else { 0 };
        let before = FlushEvery { every: before, left: before.saturating_sub(1).max(1) };
        let writes = matches!(job.mix, Mix::Write | Mix::ReadWrite | Mix::TrimWrite);
        Ok(Generator {
            first: region.first,
            len: region.len,
            mix: job.mix,
            random: job.random,
            mix_read_percent: u64::from(job.mix_read_percent),
            fua: job.fua,
            queue: job.queue,
            directions,
            cover,
            wraps: 0,
            sectors_left: limit,
            requests_left: job.number_ios.map_or(u64::MAX, |number| number.saturating_mul(job.loops)),
            flush: if writes { [every(job.fsync), every(job.fdatasync), before] } else { [every(0); 3] },
            flush_due: false,
            end_flush: job.end_fsync && writes,
            wrote: false,
            drawn: None,
            trimmed: None,
            offset_rng,
            size_rng: stream("size"),
            mix_rng: stream("mix"),
            order_rng: stream("order"),
        })
    }

    /// The job's region: first sector and number of sectors.
    pub fn region(&self) -> (u64, u64) {
        (self.first, self.len)
    }

    /// How often the region was begun anew: in sequence at its beginning, at random when each block was visited once. Without
    /// a random map it never is.
    pub fn restarts(&self) -> u64 {
        let passes = match &self.cover {
            Cover::None => 1,
            Cover::Blocks(order, _) => order.passes,
            Cover::Units(map, _) => map.passes,
        };
        self.wraps + passes - 1
    }

    /// Issues no more data: only the last flush follows, if the job has one.
    pub fn stop(&mut self) {
        self.requests_left = 0;
    }

    /// Whether a limit of the job is reached: at most the last flush follows.
    pub fn is_exhausted(&self) -> bool {
        self.sectors_left == 0 || self.requests_left == 0
    }

    /// Operation of the next request; `None` before a flush and at the end. It is drawn once, however often it is asked
    /// for.
    pub fn next_op(&mut self) -> Option<BlockOp> {
        if self.is_exhausted() || self.flush_due {
            return None;
        }
        let direction = self.direction();
        self.drawn = Some(direction as u8);
        Some(OPS[direction])
    }

    fn flush(&self) -> BlockRequest {
        BlockRequest { queue: self.queue, ..BlockRequest::flush() }
    }

    /// Turns the next write into a read or the reverse, if the job mixes them; used by rate limits.
    pub fn switch_direction(&mut self) {
        if self.mix == Mix::ReadWrite {
            let direction = self.direction();
            self.drawn = Some(1 - direction as u8);
        }
    }

    /// Whether the job mixes reads and writes, so that a rate limit may switch between them.
    pub fn mixes_both(&self) -> bool {
        self.mix == Mix::ReadWrite && (1..100).contains(&self.mix_read_percent)
    }

    #[inline]
    fn direction(&mut self) -> usize {
        match self.mix {
            Mix::Read => READ,
            Mix::Write => WRITE,
            Mix::Trim => TRIM,
            Mix::TrimWrite => {
                if self.trimmed.is_some() {
                    WRITE
                } else {
                    TRIM
                }
            }
            Mix::ReadWrite => match self.drawn {
                Some(direction) => usize::from(direction),
                None => usize::from(self.mix_rng.below(100) >= self.mix_read_percent),
            },
        }
    }

    #[inline]
    fn size(&mut self, direction: usize) -> u64 {
        let direction = &self.directions[direction];
        if direction.fixed != 0 {
            return u64::from(direction.fixed);
        }
        match &direction.sizes {
            Sizes::Fixed(bytes) => bytes / SECTOR,
            Sizes::Range(low, high) => (1 + self.size_rng.below(high / low)) * (low / SECTOR),
            Sizes::Split(split) => {
                let total: u64 = split.iter().map(|&(_, weight)| u64::from(weight)).sum();
                let mut drawn = self.size_rng.below(total);
                for &(bytes, weight) in split.iter() {
                    match drawn.checked_sub(u64::from(weight)) {
                        Some(left) => drawn = left,
                        None => return bytes / SECTOR,
                    }
                }
                direction.min
            }
        }
    }

    /// The largest size that fits into `room`, which is at least the smallest size.
    #[cold]
    fn fitting(&self, direction: usize, room: u64) -> u64 {
        let direction = &self.directions[direction];
        match &direction.sizes {
            Sizes::Fixed(_) => direction.min,
            Sizes::Range(low, _) => room / (low / SECTOR) * (low / SECTOR),
            Sizes::Split(split) => {
                let sizes = split.iter().map(|&(bytes, _)| bytes / SECTOR).filter(|&size| size <= room);
                sizes.max().unwrap_or(direction.min)
            }
        }
    }

    /// Place and length of a request in the region.
    #[inline]
    fn place(&mut self, at: usize) -> (u64, u64) {
        let direction = &self.directions[at];
        let random =
            self.random && (direction.random_percent == 100 || self.order_rng.below(100) < direction.random_percent);
        let start = if random {
            match &mut self.cover {
                Cover::None => direction.placer.draw(&mut self.offset_rng) * direction.align,
                Cover::Blocks(order, block) => {
                    let start = order.next(&mut self.offset_rng) * *block;
                    return (start, *block);
                }
                Cover::Units(..) => return self.place_in_map(at),
            }
        } else if direction.next + direction.min > self.len {
            self.wraps += 1;
            0
        } else {
            direction.next
        };
        let room = self.len - start;
        let mut size = self.size(at);
        if size > room {
            size = self.fitting(at, room);
        }
        (start, size)
    }

    fn place_in_map(&mut self, at: usize) -> (u64, u64) {
        let direction = &self.directions[at];
        let start = direction.placer.draw(&mut self.offset_rng) * direction.align;
        let size = self.size(at);
        match &mut self.cover {
            Cover::Units(map, unit) => {
                let (first, got) = map.take(start / *unit, size / *unit);
                (first * *unit, got * *unit)
            }
            Cover::None | Cover::Blocks(..) => (start, size),
        }
    }

    /// Counts a write towards the next flush.
    #[inline]
    fn count_write(&mut self) {
        self.wrote = true;
        for flush in &mut self.flush {
            if flush.every > 0 {
                flush.left -= 1;
                if flush.left == 0 {
                    flush.left = flush.every;
                    self.flush_due = true;
                }
            }
        }
    }
}

impl Iterator for Generator {
    type Item = BlockRequest;

    #[inline(always)]
    fn next(&mut self) -> Option<BlockRequest> {
        if self.is_exhausted() {
            // As in fio, the flush after the very last write is the one of `end_fsync`.
            let flush = self.end_flush && self.wrote;
            self.end_flush = false;
            return flush.then(|| self.flush());
        }
        if self.flush_due {
            self.flush_due = false;
            self.wrote = false;
            return Some(self.flush());
        }
        let at = self.direction();
        self.drawn = None;
        let (start, sectors) = match self.trimmed.take() {
            Some((start, sectors)) => (start, u64::from(sectors)),
            None => self.place(at),
        };
        let mut request = BlockRequest::read(self.first + start, sectors as u32);
        request.op = OPS[at];
        request.queue = self.queue;
        self.directions[at].next = start + sectors;
        if at == WRITE {
            request.fua = self.fua;
            self.count_write();
        } else if self.mix == Mix::TrimWrite {
            // Only the write that follows counts.
            self.trimmed = Some((start, sectors as u32));
            return Some(request);
        }
        self.sectors_left = self.sectors_left.saturating_sub(sectors);
        self.requests_left -= 1;
        Some(request)
    }
}

/// The region of a clone, in sectors.
struct Region {
    first: u64,
    len: u64,
}

impl Region {
    fn of(job: &Job, clone: u32, device_sectors: u64) -> Result<Region, String> {
        if device_sectors > u64::MAX / SECTOR {
            return Err("the device has more than 2^64 bytes".to_owned());
        }
        let bytes = |extent: Extent| match extent {
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(percent) => {
                (u128::from(device_sectors * SECTOR) * u128::from(percent) / 100) as u64 / SECTOR * SECTOR
            }
        };
        let increment = bytes(job.offset_increment).checked_mul(u64::from(clone));
        let mut offset = increment.and_then(|increment| increment.checked_add(bytes(job.offset))).unwrap_or(u64::MAX);
        if matches!(job.offset, Extent::Percent(_)) || matches!(job.offset_increment, Extent::Percent(_)) {
            let align = job.offset_align.unwrap_or(job.min_block());
            offset = offset.checked_next_multiple_of(align).unwrap_or(u64::MAX);
        }
        let first = offset / SECTOR;
        if first >= device_sectors {
            return Err(format!("its region begins at sector {first}; the device has {device_sectors}"));
        }
        let rest = device_sectors - first;
        let len = match job.size {
            None => rest,
            Some(Extent::Bytes(bytes)) if bytes / SECTOR > rest => {
                let wanted = bytes / SECTOR;
                return Err(format!("size={wanted} sectors from sector {first}; the device has {device_sectors}"));
            }
            Some(size) => (bytes(size) / SECTOR).min(rest),
        };
        let block = job.min_block() / SECTOR;
        let len = len - len % block;
        if len == 0 {
            return Err(format!("its region is smaller than its smallest block, {block} sectors"));
        }
        Ok(Region { first, len })
    }
}

impl Cover {
    fn of(job: &Job, directions: &[Direction; 3], len: u64, rng: &mut Rng) -> Result<Cover, String> {
        if !job.random_map {
            return Ok(Cover::None);
        }
        // A trimwrite job draws places for its trims; the writes follow them.
        let placed = |at: &usize| job.uses(*at) && (job.mix != Mix::TrimWrite || *at == TRIM);
        let unit = (0..3).filter(placed).fold(0, |all, at| gcd(all, unit(&job.sizes[at])));
        if (0..3).filter(placed).all(|at| u64::from(directions[at].fixed) == unit) {
            return Ok(Cover::Blocks(Permutation::new(len / unit, rng), unit));
        }
        let units = len / unit;
        if units > UnitMap::MAX_UNITS {
            return Err(format!("a random map of {units} units; at most {}: use norandommap", UnitMap::MAX_UNITS));
        }
        Ok(Cover::Units(UnitMap::new(units), unit))
    }
}
