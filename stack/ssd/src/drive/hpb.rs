//! Host Performance Booster in the drive: commands of the host's driver, and entries that come with reads.
//!
//! These commands pass through the queue, the controller, the map cache and the link as requests do, in slots of their
//! own. The device verifies an entry against the mapping. If the entry is valid, its physical page is read without an
//! access to the map cache; if not, the page is looked up as usual. So a stale entry costs time and never returns wrong
//! data, as long as it is recognized: a device that accepts one reads what is at the old place.
//!
//! To verify an entry, a device must know whether a physical page holds the requested logical page and is valid: from
//! the page's tag, and from the valid bit that garbage collection keeps anyway. If the page moves between that check and
//! the read on its die, the device knows, and reads the new place.
//!
//! Does not know what the host caches or why it sends a command: that is [`host::Hpb`](crate::host::Hpb)'s part.

use sim::Ns;
use sim::seam::{BlockDone, BlockError, BlockRequest, Flash, Payload, SECTOR_BYTES};

use super::Ssd;
use crate::device::hpb::entry::{ENTRY_BYTES, Entry};
use crate::device::hpb::stats::DeviceStats;
use crate::device::hpb::{Advice, Advisor, HpbConfig, HpbDevice, MAP_COMMANDS, MapCommand, ReadCommand, Version};
use crate::ftl::UnitFtl;

/// Entries of a received HPB WRITE BUFFER pre-request, until the read that uses them.
#[derive(Clone, Debug, Default)]
struct PreRequest {
    is_here: bool,
    page: u32,
    entries: Vec<u64>,
}

/// A command of the driver, and the entries that it transfers in either direction.
#[derive(Clone, Debug, Default)]
struct Slot {
    command: Option<MapCommand>,
    entries: Vec<u64>,
}

/// The device's side of HPB.
#[derive(Clone, Debug)]
pub(super) struct HpbState {
    advisor: Advisor,
    /// Whether the version is 2.0: an entry then has the number of physically consecutive pages from its own on.
    runs: bool,
    /// Commands in progress, by their tag minus the depth of the request queue.
    slots: Vec<Slot>,
    /// Received pre-requests, by READ ID.
    pre_requests: Vec<PreRequest>,
    /// Physical pages from the accepted entries of the read that is being started, one for each of its first pages.
    accepted: Vec<u32>,
}

impl HpbState {
    pub(super) fn new(config: &HpbConfig) -> HpbState {
        HpbState {
            advisor: Advisor::new(config),
            runs: config.version == Version::V2,
            slots: vec![Slot::default(); MAP_COMMANDS as usize],
            pre_requests: vec![PreRequest::default(); 128],
            accepted: Vec::new(),
        }
    }

    /// The HPB recommendation for the response of a successful request.
    #[inline]
    pub(super) fn advice(&mut self) -> Option<Advice> {
        if self.advisor.has_advice() { self.advisor.advice() } else { None }
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// The device's HPB recommendations and counters; `None`: the device does not support HPB.
    pub fn hpb(&self) -> Option<&Advisor> {
        self.hpb.as_ref().map(|hpb| &hpb.advisor)
    }

    /// Resets the device's HPB state. The next response reports it to the host.
    pub fn reset_hpb(&mut self) {
        if let Some(hpb) = &mut self.hpb {
            hpb.advisor.reset();
        }
    }

    /// Whether a tag belongs to an HPB command of the host's driver, not to a request.
    #[inline]
    pub(super) fn is_map_command(&self, tag: u32) -> bool {
        tag >= self.config.front.depth
    }

    /// Executes an HPB command of the driver; a load waits for its map pages first.
    pub(super) fn start_map_command(&mut self, tag: u32) {
        let Some(hpb) = &mut self.hpb else { return };
        let slot = &mut hpb.slots[(tag - self.config.front.depth) as usize];
        match slot.command {
            Some(MapCommand::Load { sub }) => {
                hpb.advisor.loads(sub);
                let (from, to) = hpb.advisor.layout().pages_of(sub);
                return self.load_map(tag, from, to);
            }
            Some(MapCommand::Inactivate { region }) => hpb.advisor.inactivated(region),
            Some(MapCommand::InactivateAll) => hpb.advisor.all_inactivated(),
            Some(MapCommand::PreRequest { id, page }) => {
                let received = &mut hpb.pre_requests[usize::from(id)];
                std::mem::swap(&mut received.entries, &mut slot.entries);
                (received.is_here, received.page) = (true, page);
            }
            None => {}
        }
        self.finish(tag);
    }

    /// Builds the entries for a load: its map pages are in the device's memory now.
    pub(super) fn map_is_here(&mut self, tag: u32) {
        let Some(hpb) = &mut self.hpb else { return };
        let slot = &mut hpb.slots[(tag - self.config.front.depth) as usize];
        if let Some(MapCommand::Load { sub }) = slot.command {
            let (from, to) = hpb.advisor.layout().pages_of(sub);
            let entries = &mut slot.entries;
            entries.clear();
            entries.resize((to - from) as usize, 0);
            let mut follows: Option<(u32, u32, u8)> = None;
            for page in (from..to).rev() {
                let (unit, local) = self.striping.locate(page);
                let place = self.dispatcher.units()[unit as usize].lookup(local);
                let run = match follows {
                    Some((next, of, run)) if hpb.runs && next == place.wrapping_add(of.wrapping_sub(local)) => {
                        run.saturating_add(1)
                    }
                    _ => 1,
                };
                follows = Some((place, local, run));
                entries[(page - from) as usize] = Entry::new(page, place, run).0;
            }
        }
        self.finish(tag);
    }

    /// Number of a read's pages, from its first on, for which the device accepts an entry that came with it. Their
    /// physical pages are then in [`accepted`](Self::accepted).
    #[inline]
    pub(super) fn pages_by_entry(&mut self, tag: u32, first: u32, end: u32) -> u32 {
        let Some(hpb) = &mut self.hpb else { return 0 };
        let mut accepted = std::mem::take(&mut hpb.accepted);
        accepted.clear();
        match std::mem::take(&mut self.requests[tag as usize].sent_as) {
            ReadCommand::Plain => {}
            ReadCommand::Entry(entry) => self.accept_run(entry, first, end, &mut accepted),
            ReadCommand::ReadId(id) => self.accept_pre_request(id, first, end, &mut accepted),
        }
        let covered = accepted.len() as u32;
        let Some(hpb) = &mut self.hpb else { return 0 };
        hpb.accepted = accepted;
        hpb.advisor.read(first, end - first, covered == end - first);
        hpb.advisor.stats_mut().entries_right += u64::from(covered);
        covered
    }

    /// The physical page in the entry of page `number` of the read that is being started, counted from its first.
    #[inline]
    pub(super) fn accepted(&self, number: u32) -> Option<u32> {
        self.hpb.as_ref().and_then(|hpb| hpb.accepted.get(number as usize)).copied()
    }

    /// Whether the device accepts a physical page from an entry: the page is mapped to it.
    #[inline]
    fn is_at(&self, page: u32, place: u32) -> bool {
        let (unit, local) = self.striping.locate(page);
        self.known_bad.trust_entries || self.dispatcher.units()[unit as usize].lookup(local) == place
    }

    /// Accepts the entry of a read's first page, and its run as far as the pages are still placed consecutively.
    #[inline]
    fn accept_run(&mut self, entry: u64, first: u32, end: u32, accepted: &mut Vec<u32>) {
        let Some((ppn, run)) = Entry(entry).read(first) else {
            return self.count(|stats| stats.entries_damaged += 1);
        };
        let (_, from) = self.striping.locate(first);
        for page in first..end.min(first + u32::from(run.max(1))) {
            let (_, local) = self.striping.locate(page);
            let place = ppn.wrapping_add(local.wrapping_sub(from));
            if !self.is_at(page, place) {
                break;
            }
            accepted.push(place);
        }
        if accepted.is_empty() {
            self.count(|stats| stats.entries_stale += 1);
        }
    }

    /// Accepts the entries of a read's pre-request, up to the first that is wrong.
    fn accept_pre_request(&mut self, id: u8, first: u32, end: u32, accepted: &mut Vec<u32>) {
        let Some(received) = self.hpb.as_mut().and_then(|hpb| hpb.pre_requests.get_mut(usize::from(id))) else {
            return;
        };
        // Otherwise the read was fetched before its pre-request arrived.
        if !std::mem::take(&mut received.is_here) {
            return;
        }
        let is_its_own = received.page == first;
        let entries = std::mem::take(&mut received.entries);
        for (page, &entry) in (first..end).zip(&entries).filter(|_| is_its_own) {
            match Entry(entry).read(page) {
                Some((place, _)) if self.is_at(page, place) => accepted.push(place),
                _ => break,
            }
        }
        if let Some(hpb) = &mut self.hpb {
            hpb.pre_requests[usize::from(id)].entries = entries;
        }
        if accepted.len() < (end - first) as usize {
            self.count(|stats| stats.entries_stale += 1);
        }
    }

    fn count(&mut self, book: impl FnOnce(&mut DeviceStats)) {
        if let Some(hpb) = &mut self.hpb {
            book(hpb.advisor.stats_mut());
        }
    }
}

impl<F: Flash, M: UnitFtl> HpbDevice for Ssd<F, M> {
    fn hpb_config(&self) -> Option<&HpbConfig> {
        self.config.hpb.as_ref()
    }

    fn page_sectors(&self) -> u32 {
        1 << self.page_shift
    }

    #[inline]
    fn would_take(&self, tag: u32, request: &BlockRequest) -> Result<(), BlockError> {
        self.check_request(tag, request)
    }

    #[inline]
    fn submit_with(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        command: ReadCommand,
        data: Payload<'_>,
    ) -> Result<(), BlockError> {
        self.check_request(tag, &request)?;
        self.requests[tag as usize].sent_as = command;
        self.accept(at, tag, request, data);
        Ok(())
    }

    fn submit_map(&mut self, at: Ns, tag: u32, command: MapCommand, entries: &[u64]) -> Result<(), BlockError> {
        let depth = self.config.front.depth;
        let Some(hpb) = &mut self.hpb else { return Err(BlockError::QueueFull { depth: 0 }) };
        let Some(slot) = tag.checked_sub(depth).and_then(|at| hpb.slots.get_mut(at as usize)) else {
            return Err(BlockError::QueueFull { depth: MAP_COMMANDS });
        };
        if self.requests[tag as usize].in_use {
            return Err(BlockError::QueueFull { depth: MAP_COMMANDS });
        }
        if self.dispatcher.power_lost() {
            return Err(BlockError::PowerLost);
        }
        slot.command = Some(command);
        slot.entries.clear();
        slot.entries.extend_from_slice(entries);
        let sectors = |entries: u32| (entries * ENTRY_BYTES).div_ceil(SECTOR_BYTES);
        let asked = match command {
            MapCommand::Load { sub } => {
                let (from, to) = hpb.advisor.layout().pages_of(sub);
                BlockRequest::read(0, sectors(to - from))
            }
            MapCommand::PreRequest { .. } => BlockRequest::write(0, sectors(entries.len() as u32)),
            MapCommand::Inactivate { .. } | MapCommand::InactivateAll => BlockRequest::flush(),
        };
        self.now = at.0;
        self.hold(tag, asked);
        self.front.queue(tag, &asked);
        self.fetch_all();
        Ok(())
    }

    #[inline]
    fn completed(&mut self) -> Option<BlockDone> {
        self.done.pop_front()
    }

    #[inline]
    fn take_advice(&mut self, tag: u32) -> Option<Advice> {
        let advice = &mut self.requests[tag as usize].advice;
        if advice.is_none() { None } else { advice.take() }
    }

    fn entries(&self, tag: u32) -> &[u64] {
        let slot = tag.checked_sub(self.config.front.depth).map(|slot| slot as usize);
        self.hpb.as_ref().zip(slot).and_then(|(hpb, slot)| hpb.slots.get(slot)).map_or(&[], |slot| &slot.entries)
    }
}
