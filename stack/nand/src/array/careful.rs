//! The path of operations that take time, may fail or may be cut.
//!
//! Order of an operation: power, bounds, rules, time, cut, cells, faults. A refused operation takes no time and is not
//! counted. A cut one has spent the time until power went.

use sim::seam::{FlashError, Medium, Payload, ReadStatus, is_erased};
use sim::{Cx, Ns, Peb, Rng, Seed};

use super::{Array, BAD, Block, TORN, was_cut_at};
use crate::config::{NorRule, PageOrder};
use crate::cut::{CutAt, DENSITIES, PowerCut, PrefixBytes, Tear, Torn, raise_some};
use crate::store::Store;
use crate::timing::Clockwork;

/// How a power cut met an operation.
enum Power {
    Stays,
    /// Power failed before the operation began.
    GoneBefore,
    /// Power failed during the operation.
    Goes(PowerCut),
}

impl<S: Store> Array<S> {
    pub(super) fn read_carefully(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        buf: &mut [u8],
    ) -> Result<ReadStatus, FlashError> {
        let len = u32::try_from(buf.len()).unwrap_or(u32::MAX);
        self.begin_read(cx, peb, offset, len)?;
        self.store.read(peb, offset, buf);
        let block = self.blocks[peb.at()];
        let mut torn = Ok(());
        if block.flags & TORN != 0 {
            torn = self.read_torn(peb, offset, buf);
        }
        let erases = self.wear_of(peb);
        let status = match &mut self.faults {
            Some(faults) if len > 0 => {
                let written = match &self.pages {
                    // `PageOrder::Any` has no useful mark; bit errors keep the program time of each page.
                    Some(_) => self.geometry.peb_bytes,
                    None => block.mark,
                };
                faults.read(cx.now(), peb, offset, buf, written, erases)
            }
            _ => Ok(ReadStatus::default()),
        };
        torn.and(status)
    }

    /// All of a read but what the cells hold, and whether that can be read.
    pub(super) fn begin_read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, len: u32) -> Result<(), FlashError> {
        if !self.powered {
            return Err(FlashError::PowerLost);
        }
        if !self.in_bounds(peb, offset, len, 1) {
            return Err(FlashError::OutOfBounds { peb, offset, len });
        }
        let price = self.config.host.cpu.copy(len.into());
        let power = self.take_time(cx, false, |clockwork, geometry, cx| {
            clockwork.read(cx, geometry, peb.0, offset, len);
            cx.spend(price);
        });
        if !matches!(power, Power::Stays) {
            return Err(self.lose_power());
        }
        self.count_read(offset, len);
        Ok(())
    }

    /// Reads torn cells: flips unstable bits, and fails where ECC sees the tear.
    fn read_torn(&mut self, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        let page_mask = !(self.geometry.page_bytes - 1);
        let (first, last) = (offset, offset + buf.len() as u32);
        let mut seen: Option<u32> = None;
        for torn in self.torn.iter_mut().filter(|torn| torn.peb == peb) {
            torn.shake(offset, buf);
            // ECC covers whole pages: a read of any part of a torn page fails.
            let (from, to) = (torn.from & page_mask, torn.to);
            if torn.ecc_sees && from.max(first) < to.min(last) {
                let page = torn.from.max(first) & page_mask;
                seen = Some(seen.map_or(page, |before| before.min(page)));
            }
        }
        seen.map_or(Ok(()), |offset| Err(FlashError::Uncorrectable { peb, offset }))
    }

    pub(super) fn program_carefully(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        if !self.powered {
            return Err(FlashError::PowerLost);
        }
        let len = data.len();
        if !self.in_bounds(peb, offset, len, self.geometry.subpage_bytes) {
            return Err(FlashError::OutOfBounds { peb, offset, len });
        }
        let block = self.blocks[peb.at()];
        if block.flags & BAD != 0 {
            return Err(FlashError::BadBlock { peb });
        }
        if len == 0 {
            return Ok(());
        }
        let parts = self.admit(block, peb, offset, offset + len)?;
        self.admit_further(peb, offset, data)?;

        let price = self.config.host.cpu.copy(len.into());
        let power = self.take_time(cx, true, |clockwork, geometry, cx| {
            clockwork.program(cx, geometry, peb.0, offset, len);
            cx.spend(price);
        });
        match power {
            Power::Stays => {}
            Power::GoneBefore => return Err(self.lose_power()),
            Power::Goes(cut) => {
                self.tear_program(cx, cut, peb, offset, data, oob, parts);
                return Err(self.lose_power());
            }
        }
        self.programs += 1;
        self.put(cx, peb, offset, data, parts);
        self.put_oob(peb, offset, oob);
        let erases = self.wear_of(peb);
        let faults = self.faults.as_mut();
        if faults.is_some_and(|faults| faults.program_fails(cx.now(), peb, offset, len, erases)) {
            return Err(FlashError::ProgramFailed { peb, offset });
        }
        Ok(())
    }

    /// Programs OOB bytes alone, within bounds and on a good block.
    pub(super) fn program_oob_carefully(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        page: u32,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        let power = self.take_time(cx, true, |clockwork, geometry, cx| {
            clockwork.program(cx, geometry, peb.0, page * geometry.page_bytes, geometry.subpage_bytes);
        });
        match power {
            Power::Stays => {}
            Power::GoneBefore => return Err(self.lose_power()),
            Power::Goes(cut) => {
                self.tear_oob(cut, peb, page, oob);
                return Err(self.lose_power());
            }
        }
        self.programs += 1;
        self.store.program_oob(peb, page, oob);
        Ok(())
    }

    /// Leaves OOB bytes that were programmed alone as a cut does.
    fn tear_oob(&mut self, cut: PowerCut, peb: Peb, page: u32, oob: &[u8]) {
        let mut rng = cut.seed.stream("nand/tear");
        let mut torn = oob.to_vec();
        match cut.tear {
            Tear::Clean => return,
            Tear::Prefix(prefix) => torn.truncate(prefix_bytes(prefix, oob.len() as u32, &mut rng) as usize),
            Tear::RandomBits => {
                let density = rng.below(DENSITIES + 1);
                raise_some(&mut rng, density, &mut torn);
            }
        }
        self.store.program_oob(peb, page, &torn);
    }

    /// Checks a program on media without a useful mark: NOR, and NAND under [`PageOrder::Any`].
    fn admit_further(&self, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        match (self.geometry.medium, self.config.rules.order) {
            (Medium::Nor, _) => {
                if let (NorRule::RefuseRaise, Payload::Bytes(bytes), true) =
                    (self.config.rules.nor, data, S::KEEPS_BYTES)
                {
                    let mut cells = vec![0; bytes.len()];
                    self.store.read(peb, offset, &mut cells);
                    if let Some(at) = cells.iter().zip(bytes).position(|(cell, byte)| !cell & byte != 0) {
                        return Err(FlashError::NotErased { peb, offset: offset + at as u32 });
                    }
                }
            }
            (Medium::Nand, PageOrder::Ascending | PageOrder::Consecutive) => {}
            (Medium::Nand, PageOrder::Any) => {
                let pages = self.pages.as_ref().expect("a page map in any order");
                for (page, subpages) in self.page_pieces(peb, offset, data.len()) {
                    if pages.subpages[page] & subpages != 0 || pages.programs[page] >= self.max_parts {
                        return Err(FlashError::NotErased { peb, offset });
                    }
                }
            }
        }
        Ok(())
    }

    /// The pages of a range, by their number in the device, with the sub-pages of each as bits.
    fn page_pieces(&self, peb: Peb, offset: u32, len: u32) -> impl Iterator<Item = (usize, u32)> + use<S> {
        let (page_bytes, unit) = (self.geometry.page_bytes, self.geometry.subpage_bytes);
        let first = peb.at() * self.geometry.pages_per_peb() as usize;
        (offset / page_bytes..(offset + len).div_ceil(page_bytes)).map(move |page| {
            let from = offset.max(page * page_bytes) - page * page_bytes;
            let to = (offset + len).min((page + 1) * page_bytes) - page * page_bytes;
            let bits = (from / unit..to.div_ceil(unit)).fold(0u32, |bits, subpage| bits | (1 << subpage));
            (first + page as usize, bits)
        })
    }

    /// Programs the cells, advances the mark and counts.
    fn put(&mut self, cx: &Cx, peb: Peb, offset: u32, data: Payload<'_>, parts: u8) {
        let len = data.len();
        let end = (offset + len).next_multiple_of(self.geometry.subpage_bytes);
        let pieces = self.page_pieces(peb, offset, len);
        if let Some(pages) = &mut self.pages {
            for (page, subpages) in pieces {
                pages.subpages[page] |= subpages;
                pages.programs[page] += 1;
            }
        }
        let block = &mut self.blocks[peb.at()];
        *block = Block { mark: block.mark.max(end), parts, flags: block.flags };
        self.book_program(cx, len);
        self.store.program(peb, offset, data);
    }

    pub(super) fn erase_carefully(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        if !self.powered {
            return Err(FlashError::PowerLost);
        }
        if peb.at() >= self.blocks.len() {
            return Err(FlashError::OutOfBounds { peb, offset: 0, len: self.geometry.peb_bytes });
        }
        if self.blocks[peb.at()].flags & BAD != 0 {
            return Err(FlashError::BadBlock { peb });
        }
        let price = self.config.host.erase;
        let power = self.take_time(cx, true, |clockwork, _, cx| {
            clockwork.erase(cx, peb.0);
            cx.spend(price);
        });
        match power {
            Power::Stays => {}
            Power::GoneBefore => return Err(self.lose_power()),
            Power::Goes(cut) => {
                self.tear_erase(cx, cut, peb);
                return Err(self.lose_power());
            }
        }
        self.book_erase(cx, peb);
        self.store.erase(peb);
        self.blocks[peb.at()] = Block::default();
        self.forget(peb);
        let erases = self.wear_of(peb);
        if self.faults.as_mut().is_some_and(|faults| faults.erase_fails(peb, erases)) {
            // The program pulse was applied, but the cells are unreliable: nothing may be programmed on them.
            self.blocks[peb.at()].mark = self.geometry.peb_bytes;
            self.mark_page_parts(peb, 0, self.geometry.peb_bytes);
            return Err(FlashError::EraseFailed { peb });
        }
        Ok(())
    }

    /// Drops the block's page map and torn cells; its flags are the caller's. Also after an interrupted erase.
    fn forget(&mut self, peb: Peb) {
        self.torn.retain(|torn| torn.peb != peb);
        if let Some(pages) = &mut self.pages {
            let count = self.geometry.pages_per_peb() as usize;
            let range = peb.at() * count..(peb.at() + 1) * count;
            pages.subpages[range.clone()].fill(0);
            pages.programs[range].fill(0);
        }
        if let Some(faults) = &mut self.faults {
            faults.erased(peb);
        }
    }

    /// Advances the clock by the operation and reports how a power cut met it. After a cut the clock stands at the cut.
    fn take_time(
        &mut self,
        cx: &mut Cx,
        changes_cells: bool,
        work: impl FnOnce(&mut Clockwork, &sim::seam::Geometry, &mut Cx),
    ) -> Power {
        let at = match self.cut {
            Some(cut @ PowerCut { at: CutAt::Op(op), .. }) if changes_cells && self.ops() >= op => {
                self.cut = None;
                return Power::Goes(cut);
            }
            Some(PowerCut { at: CutAt::Time(at), .. }) => at,
            _ => Ns(u64::MAX),
        };
        if at == Ns(u64::MAX) {
            work(&mut self.clockwork, &self.geometry, cx);
            return Power::Stays;
        }
        let began = cx.now();
        if began < at {
            let (clockwork, clock) = (self.clockwork.clone(), cx.clone());
            work(&mut self.clockwork, &self.geometry, cx);
            if !was_cut_at(at, began, cx.now()) {
                return Power::Stays;
            }
            (self.clockwork, *cx) = (clockwork, clock);
            cx.wait_until(at);
            return Power::Goes(self.cut.take().expect("just matched"));
        }
        self.cut = None;
        Power::GoneBefore
    }

    fn lose_power(&mut self) -> FlashError {
        self.power_off();
        FlashError::PowerLost
    }

    /// Leaves the cells as a torn program does. OOB bytes are programmed after the page's last byte.
    #[expect(clippy::too_many_arguments, reason = "a cut and everything that a program is given")]
    fn tear_program(
        &mut self,
        cx: &Cx,
        cut: PowerCut,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
        parts: u8,
    ) {
        let mut rng = cut.seed.stream("nand/tear");
        let (len, page_bytes) = (data.len(), self.geometry.page_bytes);
        match cut.tear {
            Tear::Clean => {}
            Tear::Prefix(prefix) => {
                let made_it = prefix_bytes(prefix, len, &mut rng);
                if made_it > 0 {
                    self.put(cx, peb, offset, data.part(0, made_it), parts);
                }
                if made_it == len {
                    self.put_oob(peb, offset, oob);
                }
                let stop = offset + made_it;
                // A page that was only partly programmed is torn up to the end of the data meant for it.
                if made_it > 0 && made_it < len && !stop.is_multiple_of(page_bytes) {
                    let to = (stop.next_multiple_of(page_bytes)).min(offset + len);
                    self.note_torn(cut, peb, offset.max(stop / page_bytes * page_bytes), to);
                    self.lose_lower_page(cut, peb, stop / page_bytes, &mut rng);
                    self.blocks[peb.at()].mark = self.blocks[peb.at()].mark.max(to);
                    self.mark_page_parts(peb, stop, to);
                }
            }
            Tear::RandomBits => {
                let first_page = offset / page_bytes;
                let pages = (offset + len).div_ceil(page_bytes) - first_page;
                let page = first_page + rng.below(pages.into()) as u32;
                let from = offset.max(page * page_bytes);
                let to = (offset + len).min((page + 1) * page_bytes);
                if from > offset {
                    self.put(cx, peb, offset, data.part(0, from - offset), parts);
                }
                let parts = if from > offset { 1 } else { parts };
                let mut torn = match data {
                    Payload::Bytes(bytes) => bytes[(from - offset) as usize..(to - offset) as usize].to_vec(),
                    Payload::Length(_) => vec![0; (to - from) as usize],
                };
                // A bit raised here in the data is one that was not programmed.
                let density = rng.below(DENSITIES + 1);
                raise_some(&mut rng, density, &mut torn);
                let mut torn_oob = oob.to_vec();
                raise_some(&mut rng, oob_density(cut.seed, density), &mut torn_oob);
                // If no bit was programmed, the page cannot be told from an untouched one.
                if cut.leaves_a_trace() || !is_erased(&torn) || !is_erased(&torn_oob) {
                    self.put(cx, peb, from, Payload::Bytes(&torn), parts);
                    self.put_oob(peb, from, &torn_oob);
                    self.note_torn(cut, peb, from, to);
                    self.lose_lower_page(cut, peb, page, &mut rng);
                }
            }
        }
        if let Some(faults) = &mut self.faults {
            faults.programmed(cx.now(), peb, offset, len);
        }
    }

    /// Under [`PageOrder::Any`], the sub-pages of a torn page that the prefix did not reach count as programmed too.
    pub(super) fn mark_page_parts(&mut self, peb: Peb, from: u32, to: u32) {
        let pieces = self.page_pieces(peb, from, to - from);
        if let Some(pages) = &mut self.pages {
            for (page, subpages) in pieces {
                pages.subpages[page] |= subpages;
            }
        }
    }

    /// Leaves the cells as an interrupted erase does: the block must be erased again before it is programmed.
    fn tear_erase(&mut self, cx: &Cx, cut: PowerCut, peb: Peb) {
        if cut.tear == Tear::Clean {
            return;
        }
        let mut rng = cut.seed.stream("nand/tear");
        let peb_bytes = self.geometry.peb_bytes;
        self.book_erase(cx, peb);
        self.cut_erases += 1;
        if S::KEEPS_BYTES {
            let mut cells = vec![0; peb_bytes as usize];
            self.store.read(peb, 0, &mut cells);
            let mut oob = self.oob_of(peb);
            let before = (cells.clone(), oob.clone());
            match cut.tear {
                Tear::Clean => {}
                Tear::Prefix(prefix) => {
                    let risen = prefix_bytes(prefix, peb_bytes, &mut rng) as usize;
                    cells[..risen].fill(0xff);
                    // A page's OOB is erased after its last byte.
                    let pages = risen / self.geometry.page_bytes as usize;
                    let risen = (pages * self.geometry.oob_bytes as usize).min(oob.len());
                    oob[..risen].fill(0xff);
                }
                Tear::RandomBits => {
                    let density = rng.below(DENSITIES + 1);
                    raise_some(&mut rng, density, &mut cells);
                    raise_some(&mut rng, density, &mut oob);
                }
            }
            if (&cells, &oob) == (&before.0, &before.1) && !cut.leaves_a_trace() {
                // No bit rose: the block cannot be told from an untouched one.
                return;
            }
            self.store.erase(peb);
            self.store.replace(peb, &cells);
            if self.geometry.oob_bytes > 0 {
                for (page, oob) in (0..).zip(oob.chunks(self.geometry.oob_bytes as usize)) {
                    self.store.program_oob(peb, page, oob);
                }
            }
        }
        self.forget(peb);
        self.blocks[peb.at()].mark = peb_bytes;
        self.mark_page_parts(peb, 0, peb_bytes);
        self.note_torn(cut, peb, 0, peb_bytes);
    }

    /// Destroys the page that shares cells with a torn one: a quarter of its bits flip, which no code corrects.
    fn lose_lower_page(&mut self, cut: PowerCut, peb: Peb, page: u32, rng: &mut Rng) {
        let page_bytes = self.geometry.page_bytes;
        let Some(lower) = cut.pairing.lower_of(page, self.geometry.pages_per_peb()) else { return };
        let from = lower * page_bytes;
        let mut cells = vec![0; self.geometry.peb_bytes as usize];
        self.store.read(peb, 0, &mut cells);
        let lost = &mut cells[from as usize..(from + page_bytes) as usize];
        if is_erased(lost) {
            // It was never programmed: nothing is lost.
            return;
        }
        lost.iter_mut().for_each(|byte| *byte ^= (rng.bits() & rng.bits()) as u8);
        self.store.replace(peb, &cells);
        let unstable = cut.unstable.then(|| cut.seed.stream("nand/unstable"));
        self.torn.push(Torn { peb, from, to: from + page_bytes, ecc_sees: true, unstable, bystander: true });
        self.blocks[peb.at()].flags |= TORN;
    }

    fn note_torn(&mut self, cut: PowerCut, peb: Peb, from: u32, to: u32) {
        let unstable = cut.unstable.then(|| cut.seed.stream("nand/unstable"));
        let ecc_sees = cut.ecc_sees_torn && self.geometry.medium == Medium::Nand;
        self.torn.push(Torn { peb, from, to, ecc_sees, unstable, bystander: false });
        self.blocks[peb.at()].flags |= TORN;
    }
}

/// Probability, in 1/[`DENSITIES`], that a bit of a torn page's OOB was not programmed: in a quarter of the cuts that of
/// the data, in a quarter none, so that a layer cannot tell torn data by a torn tag, and in half one of its own.
fn oob_density(seed: Seed, of_data: u64) -> u64 {
    let mut rng = seed.stream("nand/tear-oob");
    match rng.below(4) {
        0 => of_data,
        1 => 0,
        _ => rng.below(DENSITIES + 1),
    }
}

fn prefix_bytes(prefix: PrefixBytes, len: u32, rng: &mut Rng) -> u32 {
    match prefix {
        PrefixBytes::Exactly(bytes) => bytes.min(len),
        PrefixBytes::Drawn => rng.below(u64::from(len) + 1) as u32,
    }
}
