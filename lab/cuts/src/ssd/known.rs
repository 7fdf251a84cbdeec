//! What the cells held before the cut: a page that nothing wrote since need not be read and decoded again.
//!
//! A clone of the flash shares its blocks with the original until one of the two writes them ([`Bytes::shares`]), so "the
//! same memory" means "the same cells"; an operation that a cut tears writes too. On a device whose reads may fail nothing
//! is known.
//!
//! Knows cells and tags. Does not know the mapping, or which contents are right: of a page that the mapping points to, it
//! only says what a read of its cells returns.
//!
//! Contents read through the host path after the cut, and compared, are [`Seen`]: they too are not read again.

use std::sync::Arc;

use nand::{Array, Bytes};
use sim::Peb;
use sim::seam::Flash;
use ssd::power::ScannedBlock;
use ssd::{Cells, Served};

use super::drive::{Drive, Layer};
use super::model::{Decoded, SECTOR, decode, version_of};
use crate::tape::Tape;

/// An eraseblock that was looked at.
struct Block {
    /// Contents of its sectors, the first page's first.
    sectors: Vec<Decoded>,
    /// What a scan finds.
    scanned: ScannedBlock,
}

/// Eraseblocks that were looked at, and their cells at that time.
#[derive(Default)]
pub(crate) struct Known {
    cells: Bytes,
    blocks: Vec<Option<Arc<Block>>>,
}

impl Known {
    /// Looks at the blocks of `drive`; at those that `earlier` knows, and nobody wrote since, it does not look again.
    pub fn of<M: Layer>(drive: &Drive<M>, earlier: &Known) -> Known {
        let mut cells = drive.device().dispatcher().cells().clone();
        let shape = *cells.shape();
        let mut blocks = vec![None; cells.flash().geometry().pebs as usize];
        for unit in 0..shape.units() {
            for (block, plane) in
                (0..shape.blocks).flat_map(|block| (0..shape.unit_planes()).map(move |at| (block, at)))
            {
                let peb = cells.peb(unit, block, plane);
                blocks[peb.at()] = match earlier.block(&cells.flash().array, peb) {
                    Some(known) => Some(known.clone()),
                    None => look_at(&mut cells, unit, (block, plane)),
                };
            }
        }
        Known { cells: cells.flash().array.store().clone(), blocks }
    }

    #[inline]
    fn block(&self, array: &Array<Bytes>, peb: Peb) -> Option<&Arc<Block>> {
        let block = self.blocks.get(peb.at())?.as_ref()?;
        array.store().shares(&self.cells, peb).then_some(block)
    }

    /// By PEB: what a scan finds in a block that nobody wrote since.
    pub fn scanned(&self, array: &Array<Bytes>) -> Vec<Option<&ScannedBlock>> {
        let pebs = (0..self.blocks.len() as u32).map(Peb);
        pebs.map(|peb| self.block(array, peb).map(|block| &block.scanned)).collect()
    }
}

/// Decodes the pages of an eraseblock, and scans it. `None` if it may be read differently the next time.
fn look_at(cells: &mut Cells<Tape>, unit: u32, (block, plane): (u32, u32)) -> Option<Arc<Block>> {
    let peb = cells.peb(unit, block, plane);
    let tape = cells.flash();
    if tape.array.has_faults() {
        return None;
    }
    let mut bytes = vec![0; tape.geometry().peb_bytes as usize];
    tape.cells(peb, 0, &mut bytes);
    let sectors = bytes.chunks_exact(SECTOR).map(decode).collect();
    let scanned = cells.scan_eraseblock(unit, block, plane).ok()?;
    Some(Arc::new(Block { sectors, scanned }))
}

/// What the sectors of a logical page hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// These contents.
    Decoded(&'a [Decoded]),
    /// Their contents in these versions.
    Versions(&'a [u32]),
    /// Zeroes.
    Zeroes,
}

impl Found<'_> {
    /// Version of the page's sector `at`, which is sector `number` of the drive; `None` if it is torn or another's.
    pub fn version(&self, at: usize, number: u64) -> Option<u32> {
        match self {
            Found::Decoded(sectors) => version_of(number, sectors[at]),
            Found::Versions(versions) => Some(versions[at]),
            Found::Zeroes => Some(0),
        }
    }
}

/// What is known in the course of a cut: the cells before it, and pages that were read since and compared.
pub(super) struct Seen<'a> {
    known: &'a Known,
    /// The cells before pages were read last.
    cells: Bytes,
    /// By logical page: the unit and the physical page, if that was read.
    places: Vec<Option<(u32, u32)>>,
    /// By sector: the version that was read.
    versions: Vec<u32>,
}

impl<'a> Seen<'a> {
    pub fn new(known: &'a Known) -> Seen<'a> {
        Seen { known, cells: Bytes::default(), places: Vec::new(), versions: Vec::new() }
    }

    /// The cells before the cut.
    pub fn known(&self) -> &'a Known {
        self.known
    }

    /// What a read of logical page `lpn` would return now, as far as that is known without the read.
    pub fn page<M: Layer>(&self, drive: &Drive<M>, lpn: u32) -> Option<Found<'_>> {
        let (unit, ppn) = match drive.device().served_from(lpn) {
            Served::Cells { unit, ppn } => (unit, ppn),
            Served::Blank(0) => return Some(Found::Zeroes),
            Served::Blank(_) | Served::Otherwise => return None,
        };
        let cells = drive.device().dispatcher().cells();
        let (array, (peb, offset)) = (&cells.flash().array, cells.place(unit, ppn));
        let sectors = cells.shape().page_bytes as usize / SECTOR;
        if let Some(block) = self.known.block(array, peb) {
            return Some(Found::Decoded(&block.sectors[offset as usize / SECTOR..][..sectors]));
        }
        let stands = *self.places.get(lpn as usize)? == Some((unit, ppn)) && array.store().shares(&self.cells, peb);
        stands.then(|| Found::Versions(&self.versions[lpn as usize * sectors..][..sectors]))
    }

    /// Keeps what was read, of a flash whose cells were `cells` before: by logical page the place that was read, and by
    /// sector the version that was found.
    pub fn keep(&mut self, cells: Bytes, places: Vec<Option<(u32, u32)>>, versions: Vec<u32>) {
        (self.cells, self.places, self.versions) = (cells, places, versions);
    }
}

/// The physical page, with its unit, whose cells a read of `lpn` returns now, and each time.
pub(super) fn place<M: Layer>(drive: &Drive<M>, lpn: u32) -> Option<(u32, u32)> {
    let array = &drive.device().dispatcher().cells().flash().array;
    match drive.device().served_from(lpn) {
        Served::Cells { unit, ppn } if !array.has_faults() => Some((unit, ppn)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nand::{PowerCut, PrefixBytes, Store, Tear};
    use sim::seam::{BlockDevice, BlockRequest, Payload};
    use sim::{Cx, Ns, Seed};
    use ssd::ftl::fast::Fast;
    use ssd::ftl::page::PageFtl;

    use super::super::drive::{Wear, bring_up, fresh};
    use super::super::host::Host;
    use super::super::model::Model;
    use super::super::plan::SsdPlan;
    use super::super::read::{DRAWN_PAGES, READS, SURVIVED, Skip, read_all};
    use super::*;
    use crate::Plan;
    use crate::check::Check;

    const DRIVE: &str = "title = 't'
seed = 3
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 16
pages = 8
page_kib = 1.0
over_provisioning_percent = 50.0
[ssd.cache]
policy = 'lru'
pages = 12
[ssd.front]
protocol = 'sata'
depth = 8
write_cache = true
[cuts]
operations = 400
depth = 1
";

    fn plan(more: &str) -> SsdPlan {
        match Plan::resolve(&format!("{DRIVE}{more}"), &[]) {
            Ok(Plan::Ssd(plan)) => *plan,
            other => panic!("{other:?}"),
        }
    }

    /// Does a workload; calls `look` whenever no request is outstanding.
    fn drive_after<M: Layer>(plan: &SsdPlan, mut look: impl FnMut(&Drive<M>, &Model)) -> (Drive<M>, Model) {
        let mut drive: Drive<M> = fresh(plan).expect("a drive");
        let mut model = Model::new(drive.sectors(), 2, false);
        let mut host = Host::new(plan.load.clone(), Seed(1).stream("load"), &model, false);
        while !host.is_done() {
            assert!(host.step(&mut drive, &mut model).is_ok());
            if host.hands_over().is_some() {
                look(&drive, &model);
            }
        }
        (drive, model)
    }

    /// The drive after power was lost between two operations.
    fn powered_again<M: Layer>(plan: &SsdPlan, drive: Drive<M>, known: &Known) -> Drive<M> {
        let wear = Wear::of(&drive);
        let mut tape: Tape = drive.into_device().into_dispatcher().into_parts().0.into_flash();
        tape.array.power_off();
        bring_up(plan, tape, &wear, known).expect("it comes up").0
    }

    fn array<M: Layer>(drive: &mut Drive<M>) -> &mut Array<Bytes> {
        &mut drive.device_mut().flash_mut().array
    }

    /// The block and the page in it from which a read of `lpn` is served.
    fn page_of<M: Layer>(drive: &Drive<M>, lpn: u32) -> Option<(Peb, u32)> {
        let (unit, ppn) = place(drive, lpn)?;
        let (peb, offset) = drive.device().dispatcher().cells().place(unit, ppn);
        Some((peb, offset / 1024))
    }

    /// What the host reads of page `lpn` of a clone.
    fn read_of<M: Layer>(drive: &Drive<M>, lpn: u32) -> Vec<u8> {
        let (mut drive, mut data) = (drive.clone(), vec![0xee; 1024]);
        let request = BlockRequest::read(u64::from(lpn) * 2, 2);
        drive.submit(drive.device().now(), 0, request, Payload::Length(0)).expect("a free tag");
        assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
        drive.take(0, &mut data);
        data
    }

    fn what_is_known_is_what_a_read_returns<M: Layer>(plan: &SsdPlan) {
        let (mut known, mut looks, mut pages) = (Known::default(), 0, [0, 0]);
        drive_after(plan, |drive: &Drive<M>, _| {
            looks += 1;
            if looks % 5 > 0 {
                return;
            }
            known = Known::of(drive, &known);
            let seen = Seen::new(&known);
            for lpn in 0..(drive.sectors() / 2) as u32 {
                let Some(found) = seen.page(drive, lpn) else { continue };
                pages[usize::from(matches!(found, Found::Zeroes))] += 1;
                for (at, bytes) in read_of(drive, lpn).chunks(SECTOR).enumerate() {
                    let number = u64::from(lpn) * 2 + at as u64;
                    let read = version_of(number, decode(bytes));
                    assert!(
                        read.is_some() && found.version(at, number) == read,
                        "sector {number}: {found:?}, {read:?}"
                    );
                }
            }
        });
        assert!(pages[0] > 1000 && pages[1] > 1000, "{pages:?} pages were known");
    }

    #[test]
    fn what_is_known_of_a_busy_drive_is_what_a_read_returns() {
        what_is_known_is_what_a_read_returns::<PageFtl>(&plan(""));
        what_is_known_is_what_a_read_returns::<Fast>(&plan("[ssd.ftl]\nmapping = 'fast'\nlog_blocks = 3\n"));
    }

    #[test]
    fn a_page_is_known_until_a_cell_of_its_block_changes() {
        let plan = plan("");
        let drive = powered_again(&plan, drive_after::<PageFtl>(&plan, |_, _| ()).0, &Known::default());
        let known = Known::of(&drive, &Known::default());
        let held: Vec<(u32, (Peb, u32))> = (0..80).filter_map(|lpn| Some((lpn, page_of(&drive, lpn)?))).collect();
        let is_known = |drive: &Drive<PageFtl>, lpn| Seen::new(&known).page(drive, lpn).is_some();
        assert!(held.len() > 40 && held.iter().all(|&(lpn, _)| is_known(&drive, lpn)));
        for &(lpn, (peb, page)) in &held {
            let other = (page + 1) % 8;
            type Change<'a> = &'a dyn Fn(&mut Array<Bytes>);
            let changes: [Change<'_>; 4] = [
                &|array| array.tamper(peb, |cells| cells[page as usize * 1024 + 700] ^= 1),
                &|array| array.tamper(peb, |cells| cells[other as usize * 1024 + 700] ^= 1),
                // The same cells, but who knows.
                &|array| array.tamper(peb, |_| ()),
                &|array| array.program_oob(&mut Cx::new(), peb, page, &[0; 20]).expect("there is power"),
            ];
            for change in changes {
                let mut changed = drive.clone();
                change(array(&mut changed));
                assert!(!is_known(&changed, lpn), "page {lpn}");
                let scanned = known.scanned(array(&mut changed));
                let unknown: Vec<usize> = (0..scanned.len()).filter(|&at| scanned[at].is_none()).collect();
                assert_eq!(unknown, [peb.at()], "others are known");
                let elsewhere = held.iter().filter(|(_, (of, _))| *of != peb);
                assert!(elsewhere.map(|&(lpn, _)| lpn).all(|lpn| is_known(&changed, lpn)));
            }
        }
    }

    /// An erase that is cut at once leaves an erased block as it was, but reads of it fail from then on.
    #[test]
    fn a_torn_block_is_not_known_even_if_no_bit_changed() {
        let plan = plan("");
        let mut drive = drive_after::<PageFtl>(&plan, |_, _| ()).0;
        let known = Known::of(&drive, &Known::default());
        let array = array(&mut drive);
        let free = (0..32).map(Peb).find(|&peb| array.mark(peb) == 0).expect("an erased block");
        assert!(known.scanned(array)[free.at()].is_some());
        let cut = PowerCut::at_op(array.ops(), Tear::Prefix(PrefixBytes::Exactly(0))).seen_by_ecc();
        array.set_power_cut(Some(cut));
        assert!(array.erase(&mut Cx::new(), free).is_err());
        array.power_on();
        let mut cells = [0; 8192];
        array.store().read(free, 0, &mut cells);
        assert!(cells.iter().all(|&byte| byte == 0xff));
        assert!(array.read(&mut Cx::new(), free, 0, &mut [0; 1024]).is_err());
        assert!(known.scanned(array)[free.at()].is_none());
    }

    #[test]
    fn wrong_contents_are_known_as_wrong_and_complained_of() {
        let plan = plan("");
        let (drive, model) = drive_after::<PageFtl>(&plan, |_, _| ());
        let drive = powered_again(&plan, drive, &Known::default());
        let check = |drive: &Drive<PageFtl>| {
            let known = Known::of(drive, &Known::default());
            let skip = Skip { seen: &mut Seen::new(&known), rng: Seed(1).stream("drawn"), keep: false };
            read_all(&mut drive.clone(), &mut model.clone(), SURVIVED, Some(skip))
        };
        assert_eq!(check(&drive), Ok(()));
        for lpn in 0..80 {
            let Some((peb, page)) = page_of(&drive, lpn) else { continue };
            let mut wrong = drive.clone();
            array(&mut wrong).tamper(peb, |cells| cells[page as usize * 1024 + 700] ^= 1);
            let known = Known::of(&wrong, &Known::default());
            let seen = Seen::new(&known);
            let found = seen.page(&wrong, lpn).expect("it was looked at");
            assert_eq!(found.version(1, u64::from(lpn) * 2 + 1), None);
            let broken = check(&wrong).expect_err("a flipped bit");
            let says = format!("sector {} is torn", lpn * 2 + 1);
            assert!(broken.iter().all(|breach| breach.check == Check::Contents), "{broken:?}");
            assert!(broken.len() == 1 && broken[0].what.starts_with(&says), "{broken:?}");
            // Whole contents, but of another page.
            let mut wrong = drive.clone();
            let other = read_of(&drive, (lpn + 1) % 80);
            array(&mut wrong).tamper(peb, |cells| cells[page as usize * 1024..][..1024].copy_from_slice(&other));
            assert!(check(&wrong).is_err() || other.iter().all(|&byte| byte == 0), "page {lpn}");
        }
    }

    /// The first page, the last one, and each between: read whole, or all that is not known.
    #[test]
    fn wrong_contents_of_any_page_are_complained_of_both_ways() {
        let plan = plan("");
        let (mut drive, mut model) = drive_after::<PageFtl>(&plan, |_, _| ());
        for lpn in 0..drive.sectors() / 2 {
            let (request, mut data) = (BlockRequest { fua: true, ..BlockRequest::write(lpn * 2, 2) }, Vec::new());
            let promise = model.asked(&request, &mut data);
            drive.submit(drive.device().now(), 0, request, Payload::Bytes(&data)).expect("a free tag");
            drive.next_done(Ns(u64::MAX)).expect("it ends");
            model.done(&request, &promise, true);
        }
        let nothing = Known::default();
        for lpn in 0..(drive.sectors() / 2) as u32 {
            let (peb, page) = page_of(&drive, lpn).expect("it was written");
            let mut wrong = drive.clone();
            array(&mut wrong).tamper(peb, |cells| cells[page as usize * 1024 + 700] ^= 1);
            for keep in [None, Some(false), Some(true)] {
                let mut seen = Seen::new(&nothing);
                let skip = keep.map(|keep| Skip { seen: &mut seen, rng: Seed(1).stream("drawn"), keep });
                let broken = read_all(&mut wrong.clone(), &mut model.clone(), READS, skip).expect_err("a flipped bit");
                let says = format!("sector {} reads as torn", lpn * 2 + 1);
                assert!(broken.len() == 1 && broken[0].what.starts_with(&says), "page {lpn}, {keep:?}: {broken:?}");
            }
        }
    }

    #[test]
    fn a_drive_whose_reads_may_fail_knows_nothing() {
        let plan = plan("[faults]\nbitflips = 1\necc_bits = 4\n");
        let (mut drive, mut model) = drive_after::<PageFtl>(&plan, |_, _| ());
        let known = Known::of(&drive, &Known::default());
        assert!(known.scanned(array(&mut drive)).iter().all(Option::is_none));
        let mut seen = Seen::new(&known);
        let skip = Skip { seen: &mut seen, rng: Seed(1).stream("drawn"), keep: true };
        assert_eq!(read_all(&mut drive, &mut model, READS, Some(skip)), Ok(()));
        assert!((0..80).filter(|&lpn| matches!(drive.device().served_from(lpn), Served::Cells { .. })).count() > 40);
        assert!((0..80).all(|lpn| !matches!(seen.page(&drive, lpn), Some(Found::Decoded(_) | Found::Versions(_)))));
    }

    /// What was read in the course of a cut, with nothing known before it.
    #[test]
    fn a_page_that_was_read_and_compared_is_known_until_it_is_elsewhere_or_its_block_changes() {
        let plan = plan("");
        let (mut drive, mut model) = drive_after::<PageFtl>(&plan, |_, _| ());
        let (request, mut data) = (BlockRequest::write(40, 8), Vec::new());
        let promise = model.asked(&request, &mut data);
        drive.submit(drive.device().now(), 0, request, Payload::Bytes(&data)).expect("a free tag");
        drive.next_done(Ns(u64::MAX)).expect("it is in the buffer");
        model.done(&request, &promise, false);
        let nothing = Known::default();
        let mut seen = Seen::new(&nothing);
        let pages = (drive.sectors() / 2) as u32;
        let known = |seen: &Seen<'_>, drive: &Drive<PageFtl>| -> Vec<u32> {
            let known = |&lpn: &u32| matches!(seen.page(drive, lpn), Some(Found::Versions(_)));
            (0..pages).filter(known).collect()
        };
        assert_eq!(known(&seen, &drive), [0; 0]);
        let skip = Skip { seen: &mut seen, rng: Seed(1).stream("drawn"), keep: true };
        assert_eq!(read_all(&mut drive, &mut model, READS, Some(skip)), Ok(()));
        let read: Vec<u32> = (0..pages).filter(|&lpn| place(&drive, lpn).is_some()).collect();
        assert_eq!(known(&seen, &drive), read);
        let buffered = (0..pages).filter(|&lpn| drive.device().served_from(lpn) == Served::Otherwise).count();
        assert!(read.len() > 40 && buffered > 0, "{} and {buffered}", read.len());
        for &lpn in &read {
            let found = seen.page(&drive, lpn).expect("it was read");
            for (at, bytes) in read_of(&drive, lpn).chunks(SECTOR).enumerate() {
                let number = u64::from(lpn) * 2 + at as u64;
                assert_eq!(found.version(at, number), version_of(number, decode(bytes)));
            }
        }
        // Power goes and comes: the pages of the buffer have older contents, which nobody read.
        let again = powered_again(&plan, drive.clone(), &nothing);
        assert_eq!(known(&seen, &again), read);
        let lpn = read[0];
        let (peb, page) = page_of(&drive, lpn).expect("it was read");
        let mut changed = again.clone();
        array(&mut changed).tamper(peb, |cells| cells[page as usize * 1024] ^= 1);
        let elsewhere: Vec<u32> =
            read.iter().copied().filter(|&lpn| page_of(&drive, lpn).is_some_and(|(of, _)| of != peb)).collect();
        assert_eq!(known(&seen, &changed), elsewhere);
        let mut request = BlockRequest::write(u64::from(lpn) * 2, 2);
        request.fua = true;
        let mut written = again.clone();
        written.submit(written.device().now(), 0, request, Payload::Bytes(&[7; 1024])).expect("a free tag");
        written.next_done(Ns(u64::MAX)).expect("it ends");
        assert!(place(&written, lpn).is_some() && !known(&seen, &written).contains(&lpn), "it is elsewhere");
    }

    #[test]
    fn of_known_pages_a_few_are_read_through_the_host_path() {
        let plan = plan("");
        let (drive, mut model) = drive_after::<PageFtl>(&plan, |_, _| ());
        let drive = powered_again(&plan, drive, &Known::default());
        read_all(&mut drive.clone(), &mut model, SURVIVED, None).expect("nothing is wrong");
        let known = Known::of(&drive, &Known::default());
        let mapped = (0..drive.sectors() as u32 / 2).filter(|&lpn| place(&drive, lpn).is_some()).count() as u64;
        assert!(mapped > 40);
        let reads = |seed: Option<u64>| {
            let (mut drive, mut seen) = (drive.clone(), Seen::new(&known));
            let skip = seed.map(|seed| Skip { seen: &mut seen, rng: Seed(seed).stream("drawn"), keep: false });
            read_all(&mut drive, &mut model.clone(), SURVIVED, skip).expect("nothing is wrong");
            drive.device().dispatcher().counts().host_reads
        };
        assert_eq!(reads(None), mapped);
        let few: Vec<u64> = (0..40).map(|seed| reads(Some(seed))).collect();
        assert!(few.iter().all(|&reads| reads <= DRAWN_PAGES) && few.iter().sum::<u64>() > 20 * DRAWN_PAGES, "{few:?}");
    }
}
