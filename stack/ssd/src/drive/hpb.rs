//! Host Performance Booster in the drive: commands of the host's side go to the device's side, in virtual time.
//!
//! The host's side stands where Linux has it, between the block layer and the queue: a request is looked at when it is
//! handed over. Its own commands take the way of all others, through the queue, the controller, the map cache and the
//! link, in slots kept for them. Where the flash keeps bytes, they and what responses advise go over as the bytes of
//! the wire. An entry that comes with a read is held against the mapping; if it is right the page is read without a
//! look into the map cache, and if not, the page is looked up as any other. So an entry that is out of date costs time
//! and never gives wrong data.
//!
//! What the device needs for that comparison is that it knows of a physical page whether it holds the page that was
//! asked for, and still counts: its tag, and the bit for each page that garbage collection keeps anyway.

use sim::Ns;
use sim::seam::{BlockOp, BlockRequest, Flash, SECTOR_BYTES};

use super::Ssd;
use crate::front::hpb::device::{Advice, Device};
use crate::front::hpb::entry::{ENTRY_BYTES, Entry};
use crate::front::hpb::host::{Command, Host, Read};
use crate::front::hpb::layout::Lu;
use crate::front::hpb::{HpbCommand, HpbConfig, Recommendation, Version};
use crate::ftl::UnitFtl;

/// Commands of the host's side under way at most.
const MOST_COMMANDS: u32 = 32;

/// How a read's pages are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum By {
    /// By the device's own map.
    #[default]
    Map,
    /// By the entry of the first page.
    Entry(u64),
    /// By entries sent before.
    PreRequest(u8),
}

/// Both sides, and what is under way between them.
#[derive(Clone, Debug)]
pub(super) struct Hpb {
    host: Host,
    device: Device,
    /// Whether entries tell of the pages that follow.
    runs: bool,
    /// Tags of commands begin here.
    first_tag: u32,
    /// By number of the command: what it is, and the entries that it carries.
    commands: Vec<Option<Command>>,
    entries: Vec<Vec<u64>>,
    free: Vec<u32>,
    /// Numbers of pre-requests that the device has received.
    received: Vec<bool>,
    /// Every so many advices one is lost on the way; 0: none is.
    lose_every: u32,
    advices: u32,
    /// Of a device that believes entries: a page of a request and where it is read.
    believed: Option<(u32, u32)>,
}

impl Hpb {
    pub(super) fn new(config: &HpbConfig, depth: u32) -> Hpb {
        Hpb {
            host: Host::new(config, depth),
            device: Device::new(config),
            runs: config.version == Version::V2,
            first_tag: depth,
            commands: vec![None; MOST_COMMANDS as usize],
            entries: vec![Vec::new(); MOST_COMMANDS as usize],
            free: (0..MOST_COMMANDS).rev().collect(),
            received: vec![false; 128],
            lose_every: 0,
            advices: 0,
            believed: None,
        }
    }

    /// Tags that its commands take, behind those of requests.
    pub(super) const fn tags(&self) -> u32 {
        MOST_COMMANDS
    }

    /// The logical units.
    pub(super) fn units(&self) -> &[Lu] {
        self.host.layout().lus()
    }

    /// A command as the device reads it out of its bytes.
    fn over_the_wire(&self, command: Command) -> Option<Command> {
        let layout = self.host.layout();
        let entries = match command {
            Command::PreRequest { id } => self.host.pre_requested(id),
            _ => (0, &[][..]),
        };
        let (lun, told) = command.to_wire(layout, (entries.0, entries.1.len()));
        let read = HpbCommand::decode(&told.encode()).ok()?;
        Command::from_wire(lun, &read, layout)
    }

    /// An advice as the host reads it out of its bytes.
    fn told(&self, advice: Advice) -> Option<Advice> {
        let layout = self.host.layout();
        let read = Recommendation::decode(&advice.to_wire(layout).encode()).ok()?;
        Some(Advice::from_wire(&read, layout))
    }

    /// The host takes the advice of a response, if it is not lost.
    #[cold]
    fn pass_advice_on(&mut self, as_bytes: bool) {
        let advice = self.device.advice();
        self.advices += 1;
        if self.lose_every > 0 && self.advices.is_multiple_of(self.lose_every) {
            return;
        }
        if let Some(advice) = if as_bytes { advice.and_then(|advice| self.told(advice)) } else { advice } {
            self.host.advised(&advice);
        }
    }

    /// Memory will be asked for the entry of a page soon.
    #[inline]
    pub(super) fn expect(&self, page: u32) {
        self.host.expect(page);
    }
}

impl<F: Flash, M: UnitFtl> Ssd<F, M> {
    /// Both sides of HPB, the host's and the device's, for what they know and have counted.
    pub fn hpb(&self) -> Option<(&Host, &Device)> {
        self.hpb.as_ref().map(|hpb| (&hpb.host, &hpb.device))
    }

    /// The device loses what it knows of HPB, and says so with its next response.
    pub fn reset_hpb(&mut self) {
        if let Some(hpb) = &mut self.hpb {
            hpb.device.reset();
        }
    }

    /// From now on every so many advices of the device are lost on their way to the host; 0: none is.
    pub fn lose_advice(&mut self, every: u32) {
        if let Some(hpb) = &mut self.hpb {
            hpb.lose_every = every;
        }
    }

    /// Panics when an invariant of either side of HPB does not hold.
    pub fn check_hpb(&self) {
        if let Some(hpb) = &self.hpb {
            hpb.host.check();
            hpb.device.check();
        }
    }

    /// A request is handed over: the host's side decides how a read is sent, and takes note of what is written.
    #[inline]
    pub(super) fn hpb_prepare(&mut self, tag: u32, asked: &BlockRequest) {
        let (first, end) = self.pages_of(asked);
        let Some(hpb) = &mut self.hpb else { return };
        hpb.host.poll(Ns(self.now));
        let by = match asked.op {
            BlockOp::Read => match hpb.host.read(first, end - first) {
                Read::Plain => By::Map,
                Read::Entry(entry) => By::Entry(entry),
                Read::PreRequest(id) => By::PreRequest(id),
            },
            BlockOp::Write | BlockOp::Trim => {
                hpb.host.write(first, end - first);
                By::Map
            }
            BlockOp::Flush => By::Map,
        };
        self.requests[tag as usize].by = by;
        if !hpb.host.is_idle() {
            self.hpb_issue();
        }
    }

    /// Hands over what the host's worker asks for, as far as there is room.
    fn hpb_issue(&mut self) {
        while let Some(hpb) = &mut self.hpb
            && let Some(&number) = hpb.free.last()
            && let Some(command) = hpb.host.next_command(Ns(self.now))
        {
            hpb.free.pop();
            hpb.commands[number as usize] = Some(command);
            let sectors = |entries: usize| (entries as u32 * ENTRY_BYTES).div_ceil(SECTOR_BYTES);
            let asked = match command {
                Command::Load { sub } => {
                    let (from, to) = hpb.host.layout().pages_of(sub);
                    BlockRequest::read(0, sectors((to - from) as usize))
                }
                Command::PreRequest { id } => BlockRequest::write(0, sectors(hpb.host.pre_requested(id).1.len())),
                Command::Inactivate { .. } | Command::InactivateAll => BlockRequest::flush(),
            };
            let tag = hpb.first_tag + number;
            let held = &mut self.requests[tag as usize];
            held.asked = asked;
            held.submitted = self.now;
            held.pending = 0;
            held.in_use = true;
            self.front.queue(tag, &asked);
        }
    }

    /// Whether a tag is that of a command of the host's side.
    #[inline]
    pub(super) fn is_hpb_command(&self, tag: u32) -> bool {
        tag >= self.config.front.depth
    }

    /// The device begins its work on a command of the host's side.
    pub(super) fn hpb_start(&mut self, tag: u32) {
        let Some(hpb) = &mut self.hpb else { return };
        let command = hpb.commands[(tag - hpb.first_tag) as usize];
        match if F::KEEPS_BYTES { command.and_then(|command| hpb.over_the_wire(command)) } else { command } {
            Some(Command::Load { sub }) => {
                hpb.device.loads(sub);
                let (from, to) = hpb.host.layout().pages_of(sub);
                return self.load_map(tag, from, to);
            }
            Some(Command::Inactivate { region }) => hpb.device.inactivated(region),
            Some(Command::InactivateAll) => hpb.device.all_inactivated(),
            Some(Command::PreRequest { id }) => hpb.received[usize::from(id)] = true,
            None => {}
        }
        self.finish(tag);
    }

    /// The map pages of `from..to` are in the device's memory: their entries go to the host.
    pub(super) fn hpb_map_is_here(&mut self, tag: u32) {
        let Some(hpb) = &mut self.hpb else { return };
        let number = (tag - hpb.first_tag) as usize;
        if let Some(Command::Load { sub }) = hpb.commands[number] {
            let (from, to) = hpb.host.layout().pages_of(sub);
            let entries = &mut hpb.entries[number];
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

    /// How many of a read's pages, from its first on, are where the entries say that came with it.
    #[inline]
    pub(super) fn pages_by_entry(&mut self, tag: u32, first: u32, end: u32) -> u32 {
        let by = self.requests[tag as usize].by;
        let covered = match by {
            By::Map => 0,
            By::Entry(entry) => self.by_one_entry(entry, first, end),
            By::PreRequest(id) => self.by_entries(id, first, end),
        };
        let Some(hpb) = &mut self.hpb else { return 0 };
        hpb.device.read(first, end - first, covered == end - first);
        let stats = hpb.device.stats_mut();
        stats.entries_right += u64::from(covered);
        covered
    }

    #[inline]
    fn by_one_entry(&mut self, entry: u64, first: u32, end: u32) -> u32 {
        let Some((ppn, run)) = Entry(entry).read(first) else {
            self.hpb_stats(|stats| stats.entries_damaged += 1);
            return 0;
        };
        let (unit, local) = self.striping.locate(first);
        if self.dispatcher.units()[unit as usize].lookup(local) != ppn {
            return self.is_out_of_date(first, ppn);
        }
        let mut covered = 1;
        while covered < u32::from(run) && first + covered < end {
            let (unit, next) = self.striping.locate(first + covered);
            if self.dispatcher.units()[unit as usize].lookup(next) != ppn.wrapping_add(next.wrapping_sub(local)) {
                break;
            }
            covered += 1;
        }
        covered
    }

    fn by_entries(&mut self, id: u8, first: u32, end: u32) -> u32 {
        let Some(hpb) = &mut self.hpb else { return 0 };
        // The read was fetched before its entries had come.
        if !std::mem::take(&mut hpb.received[usize::from(id)]) {
            return 0;
        }
        let (page, entries) = hpb.host.pre_requested(id);
        let right = |&(at, &entry): &(u32, &u64)| {
            let (unit, local) = self.striping.locate(at);
            let place = self.dispatcher.units()[unit as usize].lookup(local);
            Entry(entry).read(at).is_some_and(|(ppn, _)| ppn == place)
        };
        let covered = if page == first { (first..end).zip(entries).take_while(right).count() as u32 } else { 0 };
        if covered < end - first {
            self.hpb_stats(|stats| stats.entries_stale += 1);
        }
        covered
    }

    /// The page is not where the entry says.
    #[cold]
    fn is_out_of_date(&mut self, page: u32, ppn: u32) -> u32 {
        self.hpb_stats(|stats| stats.entries_stale += 1);
        if self.known_bad.trust_entries
            && let Some(hpb) = &mut self.hpb
        {
            hpb.believed = Some((page, ppn));
        }
        0
    }

    fn hpb_stats(&mut self, book: impl FnOnce(&mut crate::front::hpb::stats::DeviceStats)) {
        if let Some(hpb) = &mut self.hpb {
            book(hpb.device.stats_mut());
        }
    }

    /// Of a device that believes entries: reads a page where an entry said, if that was asked for. Whether it did.
    pub(super) fn read_believed(&mut self, tag: u32, lpn: u32, unit: u32) -> bool {
        let Some((page, ppn)) = self.hpb.as_mut().and_then(|hpb| hpb.believed.take()) else { return false };
        if page != lpn || !F::KEEPS_BYTES {
            return false;
        }
        let page = self.dispatcher.contents_at(unit, ppn);
        self.sectors_into_request(tag, lpn, &page);
        true
    }

    /// A request or command is complete: the host's side takes note of it, and of what the response advises. Whether it
    /// was a command of its own.
    #[inline]
    pub(super) fn hpb_completed(&mut self, tag: u32, ok: bool) -> bool {
        let by = std::mem::take(&mut self.requests[tag as usize].by);
        let own = self.is_hpb_command(tag);
        let Some(hpb) = &mut self.hpb else { return false };
        if own {
            let number = tag - hpb.first_tag;
            match hpb.commands[number as usize].take() {
                Some(Command::Load { sub }) if ok => hpb.host.loaded(sub, &hpb.entries[number as usize]),
                Some(Command::Load { sub }) => hpb.host.load_failed(sub),
                _ => {}
            }
            hpb.free.push(number);
        } else if let By::PreRequest(id) = by {
            hpb.host.pre_request_done(id);
        }
        if hpb.device.has_advice() && ok {
            hpb.pass_advice_on(F::KEEPS_BYTES);
        }
        if !hpb.host.is_idle() {
            self.hpb_issue();
        }
        own
    }
}
