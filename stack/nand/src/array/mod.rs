//! The array: blocks, their fill and their wear, over a store.
//!
//! Knows how far each block is programmed, how often it was erased, what went into the cells and why. Does not know
//! what the bytes mean. Time is `timing`'s, faults are `fault`'s, contents the [`Store`]'s.
//!
//! Two paths do the same work. The fast one serves a device without time, faults or an armed power cut: it checks the
//! rules, moves the mark and counts. Everything else takes the careful one (`careful.rs`). Both call `admit` for the
//! rules and `book_program` and `book_erase` for the counters, so they cannot disagree.
//!
//! Invariants (`check`):
//! - a block's mark is at most its length, in whole sub-pages, and no byte at or past it was programmed;
//! - programmed bytes by cause sum to the bytes that went into cells, erases by cause to the erase counters;
//! - on NAND, a page is programmed at most `programs_per_page` times between two erases.

mod careful;
mod oob;

pub use oob::bad_mark_at;

use std::fmt;

use sim::seam::{Flash, FlashError, Geometry, Medium, Payload, ReadStatus, is_erased};
use sim::{CauseCounts, Cx, Ns, Peb, Timeline};

use crate::config::{ArrayConfig, PageOrder};
use crate::cut::{PowerCut, Torn};
use crate::fault::{FaultCounts, Faults};
use crate::store::Store;
use crate::timing::{Clockwork, Costs};
use crate::wearout::Rber;

/// [`Block`] flag: the block is marked bad.
const BAD: u8 = 1;
/// [`Block`] flag: a power cut tore cells of the block.
const TORN: u8 = 2;

/// One block between two erases.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// First byte that no program has passed yet. Meaningless on NOR and under [`PageOrder::Any`], where it is the
    /// furthest byte programmed.
    mark: u32,
    /// How often the page that holds the byte before the mark was programmed.
    parts: u8,
    flags: u8,
}

/// Programs of each page, for parts that take pages in any order.
#[derive(Clone, Debug)]
struct PageMap {
    /// Programmed sub-pages of each page, one bit each.
    subpages: Vec<u32>,
    programs: Vec<u8>,
}

/// Read operations and what they transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Read operations.
    pub ops: u64,
    /// Pages that they touched; bytes on NOR.
    pub pages: u64,
    /// Bytes that they returned.
    pub bytes: u64,
}

/// Erases that wear a block.
#[derive(Clone, Debug, Default)]
enum WearFrom {
    /// All.
    #[default]
    New,
    /// None: blocks behave as new.
    Off,
    /// Those beyond these erase counts.
    Since(Vec<u32>),
}

/// A raw flash over a store.
#[derive(Clone)]
pub struct Array<S> {
    geometry: Geometry,
    blocks: Vec<Block>,
    erase_counts: Vec<u32>,
    wear: WearFrom,
    /// Erases of each block before the array was made.
    worn_cycles: u32,
    store: S,
    /// Whether operations take the careful path.
    careful: bool,
    ordered: bool,
    /// Whether [`PageOrder::Consecutive`] holds: no page may be skipped.
    consecutive: bool,
    page_shift: u32,
    max_parts: u8,
    /// Programs since the array was made. Erases are in `erases_by_cause`: a counter stepped by every operation would
    /// be the longest dependency chain of the fast path.
    programs: u64,
    /// Interrupted erases: they wear the block but do not count as operations.
    cut_erases: u64,
    /// Programs and erases before the last power-on.
    ops_before: u64,
    programmed_bytes: CauseCounts,
    bytes_into_cells: u64,
    erases_by_cause: CauseCounts,
    reads: Reads,
    clockwork: Clockwork,
    pages: Option<Box<PageMap>>,
    faults: Option<Box<Faults>>,
    powered: bool,
    cut: Option<PowerCut>,
    torn: Vec<Torn>,
    config: ArrayConfig,
}

impl<S: Store> Array<S> {
    /// Makes the device that `config` describes, with the contents of `store`. Cells there that are not 0xFF count as
    /// programmed. A block is bad if its bad-block mark is set in the store's OOB or the factory list names it.
    ///
    /// Panics when [`ArrayConfig::validate`] refuses the configuration, or a store was laid out for another device.
    pub fn new(config: ArrayConfig, mut store: S) -> Array<S> {
        if let Err(wrong) = config.validate() {
            panic!("not a device: {wrong}");
        }
        let geometry = config.geometry;
        store.attach(&geometry);
        let pebs = geometry.pebs as usize;
        let any_order = geometry.medium == Medium::Nand && config.rules.order == PageOrder::Any;
        let mut array = Array {
            geometry,
            blocks: vec![Block::default(); pebs],
            erase_counts: vec![0; pebs],
            wear: WearFrom::New,
            worn_cycles: config.faults.as_ref().map_or(0, |plan| plan.worn_cycles),
            store,
            careful: true,
            ordered: geometry.medium == Medium::Nand && !any_order,
            consecutive: config.rules.order == PageOrder::Consecutive,
            page_shift: geometry.page_bytes.trailing_zeros(),
            max_parts: config.rules.programs_per_page,
            programs: 0,
            cut_erases: 0,
            ops_before: 0,
            programmed_bytes: CauseCounts::default(),
            bytes_into_cells: 0,
            erases_by_cause: CauseCounts::default(),
            reads: Reads::default(),
            clockwork: Clockwork::new(config.timing.resolve(&geometry), &geometry, &config.layout),
            pages: any_order.then(|| {
                let pages = pebs * geometry.pages_per_peb() as usize;
                Box::new(PageMap { subpages: vec![0; pages], programs: vec![0; pages] })
            }),
            faults: config.faults.as_ref().map(|plan| Box::new(Faults::new(plan, &config))),
            powered: true,
            cut: None,
            torn: Vec::new(),
            config,
        };
        array.adopt_contents();
        array.choose_path();
        array
    }

    /// Sets marks, sub-page maps and bad blocks from the store's contents and the factory's bad blocks.
    fn adopt_contents(&mut self) {
        let unit = self.geometry.subpage_bytes;
        for peb in (0..self.geometry.pebs).map(Peb) {
            let end = self.store.programmed_end(peb);
            self.blocks[peb.at()].mark = end.next_multiple_of(unit);
            self.blocks[peb.at()].parts = u8::from(end > 0);
            if end > 0 && self.pages.is_some() {
                self.adopt_page_map(peb, end);
            }
            if let (Some(faults), true) = (&mut self.faults, end > 0) {
                faults.programmed(Ns::ZERO, peb, 0, end);
            }
            if self.marked_bad_in_oob(peb) {
                self.blocks[peb.at()].flags |= BAD;
            }
        }
        let bad = self.faults.as_ref().map_or_else(Vec::new, |faults| faults.factory_bad().to_vec());
        for peb in bad {
            self.blocks[peb.at()].flags |= BAD;
        }
    }

    fn adopt_page_map(&mut self, peb: Peb, end: u32) {
        let (unit, page_bytes) = (self.geometry.subpage_bytes, self.geometry.page_bytes);
        let mut cells = vec![0; unit as usize];
        let first = peb.at() * self.geometry.pages_per_peb() as usize;
        let pages = self.pages.as_mut().expect("called where pages are kept");
        for offset in (0..end).step_by(unit as usize) {
            self.store.read(peb, offset, &mut cells);
            if !is_erased(&cells) {
                let page = first + (offset / page_bytes) as usize;
                pages.subpages[page] |= 1 << (offset % page_bytes / unit);
                pages.programs[page] = 1;
            }
        }
    }

    fn choose_path(&mut self) {
        let host_is_free = self.config.host == crate::config::HostPrice::FREE;
        self.careful = !self.powered
            || self.cut.is_some()
            || self.faults.is_some()
            || !self.clockwork.free
            || !host_is_free
            || self.pages.is_some()
            || self.geometry.medium == Medium::Nor;
    }

    /// The configuration of the device.
    pub fn config(&self) -> &ArrayConfig {
        &self.config
    }

    /// The store that holds the contents.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, and with it the contents.
    pub fn into_store(self) -> S {
        self.store
    }

    /// How often each block was erased, failed and interrupted erases included.
    #[inline]
    pub fn erase_counts(&self) -> &[u32] {
        &self.erase_counts
    }

    /// How far `peb` is programmed: one past the last byte, in whole sub-pages; 0 for an erased block.
    pub fn mark(&self, peb: Peb) -> u32 {
        self.blocks[peb.at()].mark
    }

    /// Bytes that went into cells, by cause. OOB is not counted.
    #[inline]
    pub fn programmed_bytes(&self) -> &CauseCounts {
        &self.programmed_bytes
    }

    /// Bytes that went into cells: of a torn program those that were programmed, of a failed program all. The causes of
    /// [`programmed_bytes`](Array::programmed_bytes) sum to it.
    #[inline]
    pub fn bytes_into_cells(&self) -> u64 {
        self.bytes_into_cells
    }

    /// Erases by cause; they sum to the erase counters.
    #[inline]
    pub fn erases_by_cause(&self) -> &CauseCounts {
        &self.erases_by_cause
    }

    /// Programs and erases since power-on that reached the cells. Failed ones count; refused and interrupted ones do
    /// not.
    #[inline]
    pub fn ops(&self) -> u64 {
        self.ops_total() - self.ops_before
    }

    /// Programs and erases since the array was made.
    #[inline]
    pub fn ops_total(&self) -> u64 {
        self.programs + self.erases_by_cause.total() - self.cut_erases
    }

    /// Reads since the array was made.
    #[inline]
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Times and transfer rates, resolved from the configured timing.
    pub fn costs(&self) -> &Costs {
        &self.clockwork.costs
    }

    /// The die that holds `peb`.
    pub fn die_of(&self, peb: Peb) -> usize {
        self.clockwork.die_of(peb.0)
    }

    /// The channel that reaches `peb`.
    pub fn channel_of(&self, peb: Peb) -> usize {
        self.clockwork.channel_of(peb.0)
    }

    /// The plane of its die that holds `peb`.
    pub fn plane_of(&self, peb: Peb) -> u32 {
        peb.0 % self.config.layout.planes
    }

    /// The dies; [`Timeline::busy`] over the run's length is a die's utilisation.
    pub fn dies(&self) -> &[Timeline] {
        self.clockwork.dies()
    }

    /// The buses, one timeline each.
    pub fn channels(&self) -> &[Timeline] {
        self.clockwork.channels()
    }

    /// The blocks that are bad.
    pub fn bad_pebs(&self) -> impl Iterator<Item = Peb> + '_ {
        (0..self.geometry.pebs).map(Peb).filter(|&peb| self.is_bad(peb))
    }

    /// Faults so far; all zero without a fault plan.
    pub fn fault_counts(&self) -> FaultCounts {
        self.faults.as_ref().map_or_else(FaultCounts::default, |faults| faults.counts)
    }

    /// Erases that `peb` survives; `None` without wear-out. For reports only: no layer above may use it.
    pub fn endurance_of(&self, peb: Peb) -> Option<u32> {
        self.faults.as_ref().and_then(|faults| faults.endurance_of(peb))
    }

    /// The calibrated model of bit errors; `None` if the plan has none.
    pub fn rber(&self) -> Option<Rber> {
        self.faults.as_ref().and_then(|faults| faults.rber())
    }

    /// Arms a power cut, or disarms it.
    pub fn set_power_cut(&mut self, cut: Option<PowerCut>) {
        self.cut = cut;
        self.choose_path();
    }

    /// Whether power is on. A power cut or [`power_off`](Array::power_off) ends it.
    pub fn is_powered(&self) -> bool {
        self.powered
    }

    /// Removes power between two operations: every call returns `PowerLost` from now on.
    pub fn power_off(&mut self) {
        self.powered = false;
        self.choose_path();
    }

    /// Pages that power cuts destroyed although no operation was under way on them, since their block was erased.
    pub fn destroyed(&self) -> impl Iterator<Item = (Peb, u32)> + '_ {
        let destroyed = self.torn.iter().filter(|torn| torn.bystander);
        destroyed.map(|torn| (torn.peb, torn.from / self.geometry.page_bytes))
    }

    /// Whether the device has a fault plan, suspended or not.
    pub fn has_faults(&self) -> bool {
        self.faults.is_some()
    }

    /// Whether `peb` has cells that a power cut left torn.
    #[inline]
    pub fn is_torn(&self, peb: Peb) -> bool {
        self.blocks[peb.at()].flags & TORN != 0
    }

    /// Blocks with torn cells that differ from read to read.
    pub fn unstable_pebs(&self) -> impl Iterator<Item = Peb> + '_ {
        self.unstable_cells().map(|(peb, _)| peb)
    }

    /// Cells that may read differently each time: the PEB, and the offset in it of the first of them.
    pub fn unstable_cells(&self) -> impl Iterator<Item = (Peb, u32)> + '_ {
        self.torn.iter().filter(|torn| torn.unstable.is_some()).map(|torn| (torn.peb, torn.from))
    }

    /// Restores power. [`ops`](Array::ops) restarts at 0; a cut that has not tripped stays armed.
    pub fn power_on(&mut self) {
        self.powered = true;
        self.ops_before = self.ops_total();
        self.choose_path();
    }

    /// Changes the cells of a block as no operation does: past every rule, without time, wear or count. For what a test or
    /// an experiment does to a medium behind the back of the layers above. OOB stays. Panics if there is no such block.
    pub fn tamper(&mut self, peb: Peb, change: impl FnOnce(&mut [u8])) {
        let mut cells = vec![0; self.geometry.peb_bytes as usize];
        self.store.read(peb, 0, &mut cells);
        change(&mut cells);
        self.store.replace(peb, &cells);
        let end = self.store.programmed_end(peb).next_multiple_of(self.geometry.subpage_bytes);
        self.blocks[peb.at()].mark = self.blocks[peb.at()].mark.max(end);
        self.mark_page_parts(peb, 0, end);
    }

    /// Bytes of host memory that the device takes, contents included.
    pub fn held_bytes(&self) -> usize {
        size_of::<Array<S>>()
            + self.blocks.capacity() * size_of::<Block>()
            + self.erase_counts.capacity() * size_of::<u32>()
            + self.pages.as_ref().map_or(0, |pages| pages.subpages.capacity() * 4 + pages.programs.capacity())
            + self.faults.as_ref().map_or(0, |faults| faults.held_bytes())
            + self.torn.capacity() * size_of::<Torn>()
            + self.store.held_bytes()
    }

    /// Checks the invariants of this module; panics if one is broken. Reads the whole store: for tests and attach.
    pub fn check(&self) {
        assert_eq!(self.programmed_bytes.total(), self.bytes_into_cells, "a programmed byte has no cause");
        let erases: u64 = self.erase_counts.iter().map(|&count| u64::from(count)).sum();
        assert_eq!(self.erases_by_cause.total(), erases, "an erase has no cause");
        for (at, block) in self.blocks.iter().enumerate() {
            let peb = Peb(at as u32);
            assert!(block.mark <= self.geometry.peb_bytes, "PEB {peb}: marked past its end");
            assert_eq!(block.mark % self.geometry.subpage_bytes, 0, "PEB {peb}: half a sub-page");
            assert!(!self.ordered || block.parts <= self.max_parts, "PEB {peb}: a page programmed too often");
            assert_eq!(
                block.flags & TORN != 0,
                self.torn.iter().any(|torn| torn.peb == peb),
                "PEB {peb}: torn cells and its flag differ"
            );
            let end = self.store.programmed_end(peb);
            assert!(end <= block.mark, "PEB {peb}: programmed up to {end}, marked up to {}", block.mark);
        }
    }

    /// Checks the rules of the medium for a program, and returns how often its last page will then have been
    /// programmed. A refusal is a bug of the caller, not a fault of the medium.
    #[inline(always)]
    fn admit(&self, block: Block, peb: Peb, offset: u32, end: u32) -> Result<u8, FlashError> {
        if !self.ordered {
            return Ok(1);
        }
        if offset < block.mark {
            return Err(FlashError::NotErased { peb, offset });
        }
        let page_mask = self.geometry.page_bytes - 1;
        if self.consecutive && offset >> self.page_shift > (block.mark + page_mask) >> self.page_shift {
            return Err(FlashError::OutOfOrder { peb, offset });
        }
        if offset & page_mask == 0 {
            return Ok(1);
        }
        // The program begins inside a page: the mark's page, or a fresh one.
        let same_page = block.mark & page_mask != 0 && block.mark >> self.page_shift == offset >> self.page_shift;
        if same_page && block.parts >= self.max_parts {
            return Err(FlashError::NotErased { peb, offset });
        }
        let parts = if same_page { block.parts + 1 } else { 1 };
        // A program that runs into further pages leaves the last of them programmed once.
        Ok(if (end - 1) >> self.page_shift == offset >> self.page_shift { parts } else { 1 })
    }

    /// Lets blocks behave as new until [`wear_from_now_on`](Self::wear_from_now_on): erases are counted and wear
    /// nothing.
    pub fn suspend_wear(&mut self) {
        self.wear = WearFrom::Off;
    }

    /// Lets nothing fail and no bit flip until it is called with `false`. What is programmed meanwhile ages as usual.
    pub fn suspend_faults(&mut self, suspend: bool) {
        if let Some(faults) = &mut self.faults {
            faults.suspended = suspend;
        }
    }

    /// Lets erases from now on wear the blocks, and none before.
    pub fn wear_from_now_on(&mut self) {
        self.wear = WearFrom::Since(self.erase_counts.clone());
    }

    /// Erases that have worn `peb`.
    fn wear_of(&self, peb: Peb) -> u32 {
        let counted = match &self.wear {
            WearFrom::New => self.erase_counts[peb.at()],
            WearFrom::Off => 0,
            WearFrom::Since(before) => self.erase_counts[peb.at()] - before[peb.at()],
        };
        counted.saturating_add(self.worn_cycles)
    }

    /// Counts a program of which `len` bytes reached the cells.
    #[inline(always)]
    fn book_program(&mut self, cx: &Cx, len: u32) {
        self.programmed_bytes[cx.cause()] += u64::from(len);
        self.bytes_into_cells += u64::from(len);
    }

    /// Counts an erase, failed ones included.
    #[inline(always)]
    fn book_erase(&mut self, cx: &Cx, peb: Peb) {
        self.erase_counts[peb.at()] += 1;
        self.erases_by_cause[cx.cause()] += 1;
    }

    /// Whether the range lies in the device, in whole units of `unit_bytes` (a power of two).
    #[inline(always)]
    fn in_bounds(&self, peb: Peb, offset: u32, len: u32, unit_bytes: u32) -> bool {
        peb.at() < self.blocks.len()
            && u64::from(offset) + u64::from(len) <= u64::from(self.geometry.peb_bytes)
            && (offset | len) & (unit_bytes - 1) == 0
    }

    fn count_read(&mut self, offset: u32, len: u32) {
        self.reads.ops += 1;
        self.reads.bytes += u64::from(len);
        if len > 0 {
            let last = (offset + len - 1) >> self.page_shift;
            self.reads.pages += u64::from(last - (offset >> self.page_shift) + 1);
        }
    }
}

impl<S: Store> Flash for Array<S> {
    const KEEPS_BYTES: bool = S::KEEPS_BYTES;

    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        if self.careful {
            return self.read_carefully(cx, peb, offset, buf);
        }
        let len = u32::try_from(buf.len()).unwrap_or(u32::MAX);
        if !self.in_bounds(peb, offset, len, 1) {
            return Err(FlashError::OutOfBounds { peb, offset, len });
        }
        if self.blocks[peb.at()].flags & TORN != 0 {
            return self.read_carefully(cx, peb, offset, buf);
        }
        self.count_read(offset, len);
        self.store.read(peb, offset, buf);
        Ok(ReadStatus::default())
    }

    fn reads_erased(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        len: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, FlashError> {
        let is_whole = |block: &Block| block.flags & TORN == 0 && self.faults.is_none();
        if self.blocks.get(peb.at()).is_some_and(is_whole) && self.store.is_known_erased(peb) {
            return self.begin_read(cx, peb, offset, len).map(|()| true);
        }
        buffer.resize(len as usize, 0);
        self.read(cx, peb, offset, buffer).map(|_| is_erased(buffer))
    }

    #[inline(always)]
    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        if self.careful {
            return self.program_carefully(cx, peb, offset, data, &[]);
        }
        let len = data.len();
        if !self.in_bounds(peb, offset, len, self.geometry.subpage_bytes) {
            return Err(FlashError::OutOfBounds { peb, offset, len });
        }
        let block = self.blocks[peb.at()];
        if block.flags != 0 || len == 0 {
            return self.program_carefully(cx, peb, offset, data, &[]);
        }
        let end = offset + len;
        let parts = self.admit(block, peb, offset, end)?;
        self.blocks[peb.at()] = Block { mark: end, parts, flags: 0 };
        self.programs += 1;
        self.book_program(cx, len);
        self.store.program(peb, offset, data);
        Ok(())
    }

    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        if oob.is_empty() {
            return self.program(cx, peb, offset, data);
        }
        self.oob_in_bounds(peb, offset >> self.page_shift, oob.len())?;
        if !self.in_bounds(peb, offset, data.len(), self.geometry.page_bytes) || data.len() != self.geometry.page_bytes
        {
            return Err(FlashError::OutOfBounds { peb, offset, len: data.len() });
        }
        self.program_carefully(cx, peb, offset, data, oob)
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        self.oob_under_ecc(cx, peb, offset, buf)
    }

    fn program_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, oob: &[u8]) -> Result<(), FlashError> {
        Array::program_oob(self, cx, peb, offset >> self.page_shift, oob)
    }

    #[inline]
    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        if self.careful || peb.at() >= self.blocks.len() || self.blocks[peb.at()].flags != 0 {
            return self.erase_carefully(cx, peb);
        }
        self.blocks[peb.at()] = Block::default();
        self.book_erase(cx, peb);
        self.store.erase(peb);
        Ok(())
    }

    #[inline]
    fn programmed_end(&self, peb: Peb) -> Option<u32> {
        Some(self.mark(peb))
    }

    #[inline]
    fn is_bad(&self, peb: Peb) -> bool {
        self.blocks[peb.at()].flags & BAD != 0
    }

    fn mark_bad(&mut self, _cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        if !self.powered {
            return Err(FlashError::PowerLost);
        }
        if peb.at() >= self.blocks.len() {
            return Err(FlashError::OutOfBounds { peb, offset: 0, len: self.geometry.peb_bytes });
        }
        self.blocks[peb.at()].flags |= BAD;
        self.mark_bad_in_oob(peb);
        Ok(())
    }
}

impl<S: Store> fmt::Debug for Array<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array")
            .field("geometry", &self.geometry)
            .field("ops", &self.ops_total())
            .field("bytes_into_cells", &self.bytes_into_cells)
            .field("powered", &self.powered)
            .finish_non_exhaustive()
    }
}

/// Whether an operation from `began` to `ended` is interrupted by a power cut at `at`.
fn was_cut_at(at: Ns, began: Ns, ended: Ns) -> bool {
    // An operation that ends exactly at the cut is done; one that takes no time is cut if it begins at the cut.
    began >= at || ended > at
}
