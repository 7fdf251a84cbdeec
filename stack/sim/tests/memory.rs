//! Flash, volume and disk in memory against models that say each rule in a line: random calls, of which many are wrong.

use std::collections::{BTreeMap, BTreeSet};

use sim::seam::{
    BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Flash, FlashError, Geometry, LebError, LebVolume,
    Medium, Payload, RamDisk, RamFlash, RamVolume, ReadStatus,
};
use sim::{Cx, Lnum, Ns, Peb, Rng, Seed};

/// Bytes by block and place; what was not written is 0xFF.
#[derive(Default)]
struct Cells(BTreeMap<(u32, u32), u8>);

impl Cells {
    fn read(&self, block: u32, at: u32, len: u32) -> Vec<u8> {
        (at..at + len).map(|at| *self.0.get(&(block, at)).unwrap_or(&0xff)).collect()
    }

    fn write(&mut self, block: u32, at: u32, data: &[u8]) {
        self.0.extend((at..).zip(data).map(|(at, &byte)| ((block, at), byte)));
    }

    /// Bits only fall.
    fn program(&mut self, block: u32, at: u32, data: &[u8]) {
        let old = self.read(block, at, data.len() as u32);
        let new: Vec<u8> = old.iter().zip(data).map(|(old, new)| old & new).collect();
        self.write(block, at, &new);
    }

    fn erase(&mut self, block: u32) {
        self.0.retain(|&(of, _), _| of != block);
    }
}

/// Random bytes, or zeroes as a mere length.
fn data(rng: &mut Rng, len: u32) -> (Vec<u8>, bool) {
    let is_length = rng.chance(0.2);
    ((0..len).map(|_| if is_length { 0 } else { rng.bits() as u8 }).collect(), is_length)
}

fn payload((bytes, is_length): &(Vec<u8>, bool)) -> Payload<'_> {
    if *is_length { Payload::Length(bytes.len() as u32) } else { Payload::Bytes(bytes) }
}

/// A multiple of `unit` most of the time, up to a little more than `most`.
fn number(rng: &mut Rng, most: u32, unit: u32) -> u32 {
    let any = rng.below(u64::from(most + 2 * unit)) as u32;
    if rng.chance(0.9) { any / unit * unit } else { any }
}

/// A flash by the rules of [`Flash`].
struct Model {
    geometry: Geometry,
    cells: Cells,
    oob: Cells,
    /// End of what is programmed, of each block.
    ends: Vec<u32>,
    bad: BTreeSet<u32>,
}

impl Model {
    fn fits(&self, Peb(peb): Peb, offset: u32, len: u32) -> Result<(), &'static str> {
        let fits = peb < self.geometry.pebs && offset + len <= self.geometry.peb_bytes;
        if fits { Ok(()) } else { Err("bounds") }
    }

    fn good(&self, Peb(peb): Peb) -> Result<(), &'static str> {
        if self.bad.contains(&peb) { Err("bad") } else { Ok(()) }
    }

    fn program(&mut self, peb: Peb, offset: u32, data: &[u8]) -> Result<(), &'static str> {
        let len = data.len() as u32;
        self.fits(peb, offset, len)?;
        let unit = self.geometry.subpage_bytes;
        if !offset.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err("bounds");
        }
        self.good(peb)?;
        let end = &mut self.ends[peb.at()];
        if self.geometry.medium == Medium::Nand && offset < *end {
            return Err("not erased");
        }
        *end = (*end).max(offset + len);
        self.cells.program(peb.0, offset, data);
        Ok(())
    }

    /// Whether the page at `offset` has so many bytes of OOB.
    fn has_oob(&self, peb: Peb, offset: u32, len: u32) -> Result<(), &'static str> {
        self.fits(peb, offset, self.geometry.page_bytes)?;
        let has = offset.is_multiple_of(self.geometry.page_bytes) && len <= self.geometry.oob_bytes;
        if has { Ok(()) } else { Err("bounds") }
    }

    fn oob_at(&self, offset: u32) -> u32 {
        offset / self.geometry.page_bytes * self.geometry.oob_bytes
    }
}

fn told<T>(result: Result<T, FlashError>) -> Result<T, &'static str> {
    result.map_err(|error| match error {
        FlashError::OutOfBounds { .. } => "bounds",
        FlashError::BadBlock { .. } => "bad",
        FlashError::NotErased { .. } => "not erased",
        other => panic!("{other}"),
    })
}

fn use_flash(geometry: Geometry, rng: &mut Rng) {
    let mut flash = RamFlash::new(geometry);
    let (pebs, cx) = (geometry.pebs, &mut Cx::new());
    let mut model = Model {
        geometry,
        cells: Cells::default(),
        oob: Cells::default(),
        ends: vec![0; pebs as usize],
        bad: BTreeSet::new(),
    };
    for _ in 0..1500 {
        let peb = Peb(rng.below(u64::from(pebs) + 1) as u32);
        let (offset, len) =
            (number(rng, geometry.peb_bytes, geometry.subpage_bytes), number(rng, 300, geometry.subpage_bytes));
        let page = number(rng, geometry.peb_bytes, geometry.page_bytes);
        let oob_len = rng.below(u64::from(geometry.oob_bytes) + 2) as u32;
        let oob = data(rng, oob_len).0;
        match rng.below(100) {
            0..30 => {
                let data = data(rng, len);
                let found = told(flash.program(cx, peb, offset, payload(&data)));
                assert_eq!(found, model.program(peb, offset, &data.0), "{peb}, {offset}, {len}");
            }
            30..50 => {
                let len = if rng.chance(0.9) { geometry.page_bytes } else { len };
                let data = data(rng, len);
                let found = told(flash.program_with_oob(cx, peb, page, payload(&data), &oob));
                let whole = if len == geometry.page_bytes { Ok(()) } else { Err("bounds") };
                let expected = model.has_oob(peb, page, oob_len).and(whole);
                let expected = expected.and_then(|()| model.program(peb, page, &data.0));
                assert_eq!(found, expected, "{peb}, {page}, {len}, {oob_len}");
                if found.is_ok() {
                    let at = model.oob_at(page);
                    model.oob.program(peb.0, at, &oob);
                }
            }
            50..60 => {
                let found = told(flash.program_oob(cx, peb, page, &oob));
                let expected = model.has_oob(peb, page, oob_len).and_then(|()| model.good(peb));
                assert_eq!(found, expected, "{peb}, {page}, {oob_len}");
                if found.is_ok() {
                    let at = model.oob_at(page);
                    model.oob.program(peb.0, at, &oob);
                }
            }
            60..68 => {
                let found = told(flash.erase(cx, peb));
                assert_eq!(found, model.fits(peb, 0, 0).and_then(|()| model.good(peb)), "{peb}");
                if found.is_ok() {
                    model.cells.erase(peb.0);
                    model.oob.erase(peb.0);
                    model.ends[peb.at()] = 0;
                }
            }
            68 if peb.0 < pebs && model.bad.len() < 3 => {
                flash.mark_bad(cx, peb).unwrap();
                model.bad.insert(peb.0);
            }
            69..85 => {
                let mut found = vec![0x77; len as usize];
                let result = told(flash.read(cx, peb, offset, &mut found));
                assert_eq!(result, model.fits(peb, offset, len).map(|()| ReadStatus::default()));
                if result.is_ok() {
                    assert_eq!(found, model.cells.read(peb.0, offset, len), "{peb}, {offset}");
                }
            }
            _ => {
                let mut found = vec![0x77; oob.len()];
                let result = told(flash.read_oob(cx, peb, page, &mut found));
                assert_eq!(result, model.has_oob(peb, page, oob_len), "{peb}, {page}, {oob_len}");
                if result.is_ok() {
                    assert_eq!(found, model.oob.read(peb.0, model.oob_at(page), oob_len), "{peb}, {page}");
                }
            }
        }
    }
    for peb in 0..pebs {
        let mut found = vec![0; geometry.peb_bytes as usize];
        flash.read(cx, Peb(peb), 0, &mut found).unwrap();
        assert_eq!(found, model.cells.read(peb, 0, geometry.peb_bytes), "PEB {peb}");
        assert_eq!(flash.is_bad(Peb(peb)), model.bad.contains(&peb));
    }
    assert_eq!((flash.geometry(), cx.now()), (&geometry, Ns::ZERO), "it takes no time");
}

#[test]
fn flash_in_memory_obeys_the_rules_of_its_medium_and_forgets_nothing() {
    let nand =
        Geometry { medium: Medium::Nand, pebs: 7, peb_bytes: 1280, page_bytes: 256, subpage_bytes: 64, oob_bytes: 9 };
    let whole_pages = Geometry { subpage_bytes: 256, ..nand };
    let nor = Geometry { medium: Medium::Nor, pebs: 5, peb_bytes: 600, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 };
    for geometry in [nand, whole_pages, nor] {
        (0..12).for_each(|seed| use_flash(geometry, &mut Seed(seed).stream("tests/flash")));
    }
}

#[test]
fn a_volume_in_memory_has_what_was_written_and_maps_what_it_should() {
    let (lebs, leb_bytes, unit, cx) = (6, 320, 32, &mut Cx::new());
    for seed in 0..12 {
        let rng = &mut Seed(seed).stream("tests/volume");
        let mut volume = RamVolume::new(lebs, leb_bytes, unit);
        assert_eq!((volume.lebs(), volume.leb_bytes(), volume.min_io_bytes()), (lebs, leb_bytes, unit));
        let (mut cells, mut mapped) = (Cells::default(), BTreeSet::new());
        for _ in 0..1500 {
            let lnum = Lnum(rng.below(u64::from(lebs) + 1) as u32);
            let (offset, len) = (number(rng, leb_bytes, unit), number(rng, leb_bytes, unit));
            let is_there = if lnum.0 < lebs { Ok(()) } else { Err(LebError::NoSuchLeb { lnum, lebs }) };
            let fits = |offset: u32, unit: u32| {
                let whole = offset.is_multiple_of(unit) && len.is_multiple_of(unit) && offset + len <= leb_bytes;
                is_there.clone().and(if whole { Ok(()) } else { Err(LebError::OutOfBounds { lnum, offset, len }) })
            };
            assert_eq!(volume.is_mapped(lnum), mapped.contains(&lnum), "{lnum}");
            match rng.below(7) {
                0 | 1 => {
                    let data = data(rng, len);
                    let found = volume.write(cx, lnum, offset, payload(&data));
                    assert_eq!(found, fits(offset, unit));
                    if found.is_ok() {
                        mapped.insert(lnum);
                        cells.write(lnum.0, offset, &data.0);
                    }
                }
                2 => {
                    let data = data(rng, len);
                    let found = volume.change(cx, lnum, payload(&data));
                    assert_eq!(found, fits(0, unit));
                    if found.is_ok() {
                        cells.erase(lnum.0);
                        mapped.remove(&lnum);
                        // Nothing is not worth a LEB.
                        if len > 0 {
                            mapped.insert(lnum);
                            cells.write(lnum.0, 0, &data.0);
                        }
                    }
                }
                3 => {
                    let is_free = if mapped.contains(&lnum) { Err(LebError::Mapped { lnum }) } else { Ok(()) };
                    let found = volume.map(cx, lnum);
                    assert_eq!(found, is_there.clone().and(is_free));
                    if found.is_ok() {
                        mapped.insert(lnum);
                    }
                }
                4 => {
                    let found = volume.unmap(cx, lnum);
                    assert_eq!(found, is_there.clone());
                    cells.erase(lnum.0);
                    mapped.remove(&lnum);
                }
                _ => {
                    let mut found = vec![0x77; len as usize];
                    let result = volume.read(cx, lnum, offset, &mut found);
                    assert_eq!(result, fits(offset, 1));
                    if result.is_ok() {
                        assert_eq!(found, cells.read(lnum.0, offset, len), "LEB {lnum}, {offset}");
                    }
                }
            }
        }
        assert_eq!(volume.sync(cx), Ok(()));
    }
}

/// Requests by end and order of submission: tag, and what a read must return.
type Pending = BTreeMap<(Ns, u32), (u32, Option<Vec<u8>>)>;

/// A request goes to the server that is free first, and a flush waits for all that is outstanding. Ties end in the order of
/// submission.
#[test]
fn a_disk_in_memory_serves_in_time_and_reads_what_was_there_when_it_was_asked() {
    const SECTORS: u64 = 9;
    for (seed, servers) in (0..30).zip([1, 2, 3].into_iter().cycle()) {
        let rng = &mut Seed(seed).stream("tests/disk");
        let (depth, service) = (1 + rng.below(5) as u32, Ns(10));
        let mut disk = RamDisk::new(SECTORS, depth, servers, service);
        assert_eq!((disk.sectors(), disk.queue_depth()), (SECTORS, depth));
        let mut bytes = vec![0; SECTORS as usize * 512];
        let mut free_at = vec![Ns::ZERO; servers];
        let mut pending = Pending::new();
        let mut now = Ns::ZERO;
        for order in 0..600 {
            now += Ns(rng.below(9));
            let next = pending.first_key_value().filter(|(key, _)| key.0 <= now).map(|(&key, _)| key);
            let found = disk.next_done(now);
            let done = next.map(|key| (key.0, pending.remove(&key).unwrap()));
            assert_eq!(found, done.as_ref().map(|(at, (tag, _))| BlockDone { tag: *tag, at: *at, result: Ok(()) }));
            if let Some((_, (tag, Some(read)))) = done {
                let mut found = vec![0x77; read.len()];
                disk.take(tag, &mut found);
                assert!(found == read, "tag {tag}");
            }
            let (sector, sectors) = (rng.below(SECTORS + 1), 1 + rng.below(3) as u32);
            let end = sector + u64::from(sectors);
            let request = [
                BlockRequest::read(sector, sectors),
                BlockRequest::write(sector, sectors),
                BlockRequest::trim(sector, sectors),
                BlockRequest::flush(),
            ][rng.below(4) as usize];
            let is_write = request.op == BlockOp::Write;
            let data = data(rng, if is_write { sectors * 512 } else { 0 });
            let taken: BTreeSet<u32> = pending.values().map(|(tag, _)| *tag).collect();
            let tag = (0..depth).find(|tag| !taken.contains(tag));
            let found = disk.submit(now, tag.unwrap_or(0), request, payload(&data));
            if request.op != BlockOp::Flush && end > SECTORS {
                assert_eq!(found, Err(BlockError::OutOfBounds { sector, end, sectors: SECTORS }));
                continue;
            }
            let Some(tag) = tag else {
                assert_eq!(found, Err(BlockError::QueueFull { depth }));
                continue;
            };
            assert_eq!(found, Ok(()));
            let range = request.sector as usize * 512..request.end() as usize * 512;
            let read = (request.op == BlockOp::Read).then(|| bytes[range.clone()].to_vec());
            match request.op {
                BlockOp::Write => bytes[range].copy_from_slice(&data.0),
                BlockOp::Trim => bytes[range].fill(0),
                BlockOp::Read | BlockOp::Flush => {}
            }
            let done = if request.op == BlockOp::Flush {
                pending.last_key_value().map_or(now, |(key, _)| key.0.max(now))
            } else {
                let first = free_at.iter_mut().min().expect("a server");
                *first = (*first).max(now) + service;
                *first
            };
            pending.insert((done, order), (tag, read));
        }
    }
}
