//! The host's half of HPB over a device that fails: loads that are refused or fail, and recommendations that are lost. The device
//! keeps account of the entries that it has given, and does not know how the host caches them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload};
use sim::{Ns, Rng, Seed};
use ssd::device::hpb::layout::Layout;
use ssd::device::hpb::{
    Advice, Control, HpbConfig, HpbDevice, MAP_COMMANDS, MapCommand, Operation, ReadCommand, UpToTwo, Version,
};
use ssd::host::Hpb;

const PAGES: u32 = 256;
const PAGE_SECTORS: u32 = 8;
const DEPTH: u32 = 8;
/// What a load that fails leaves in the place of its entries.
const GARBAGE: u64 = 0xdead_dead_dead_dead;

struct Device {
    config: HpbConfig,
    layout: Layout,
    rng: Rng,
    now: Ns,
    serial: u64,
    /// By page: the entry that the host may send, since it was transferred and the page was not written.
    given: Vec<Option<u64>>,
    /// Pages whose entries a command of the driver has taken back. A read that the driver decided on before may follow it.
    leaving: Vec<(u32, u32)>,
    /// By time and order of submission.
    waiting: BTreeMap<(Ns, u64), BlockDone>,
    maps: BTreeMap<u32, (MapCommand, Vec<u64>)>,
    /// Pre-requests whose read has not come, and READ IDs under way.
    announced: BTreeMap<u8, (u32, Vec<u64>)>,
    ids: BTreeMap<u32, u8>,
    reads: BTreeMap<u32, u32>,
    advice: BTreeMap<u32, Advice>,
    advised: u64,
    /// Submitted: loads, reads by entry, reads by READ ID.
    counts: [u64; 3],
    /// Command of the last read.
    last: ReadCommand,
    breaches: Vec<String>,
}

impl Device {
    fn new(config: HpbConfig, seed: u64) -> Device {
        Device {
            layout: Layout::new(&config),
            config,
            rng: Seed(seed).stream("device"),
            now: Ns::ZERO,
            serial: 0,
            given: vec![None; PAGES as usize],
            leaving: Vec::new(),
            waiting: BTreeMap::new(),
            maps: BTreeMap::new(),
            announced: BTreeMap::new(),
            ids: BTreeMap::new(),
            reads: BTreeMap::new(),
            advice: BTreeMap::new(),
            advised: 0,
            counts: [0; 3],
            last: ReadCommand::Plain,
            breaches: Vec::new(),
        }
    }

    fn breach(&mut self, what: impl Into<String>) {
        self.breaches.push(what.into());
    }

    fn answer(&mut self, tag: u32, result: Result<(), BlockError>) {
        self.serial += 1;
        let at = self.now + Ns(1 + self.rng.below(5_000));
        self.waiting.insert((at, self.serial), BlockDone { tag, at, result });
    }

    fn forget(&mut self, pages: (u32, u32)) {
        self.given[pages.0 as usize..pages.1 as usize].fill(None);
    }

    fn sent(&mut self, tag: u32, request: &BlockRequest, command: ReadCommand) {
        let first = request.sector as u32 / PAGE_SECTORS;
        let end = (request.end() as u32).div_ceil(PAGE_SECTORS);
        self.last = command;
        match (request.op, command) {
            (BlockOp::Read, ReadCommand::Plain) => drop(self.reads.insert(tag, first)),
            (BlockOp::Read, ReadCommand::Entry(entry)) => {
                self.counts[1] += 1;
                if self.given[first as usize] != Some(entry)
                    || (first..end).any(|page| self.given[page as usize].is_none())
                {
                    self.breach(format!("pages {first} to {end} are read by entry {entry:#x}"));
                }
            }
            (BlockOp::Read, ReadCommand::ReadId(id)) => {
                self.counts[2] += 1;
                let expected: Option<Vec<u64>> = (first..end).map(|page| self.given[page as usize]).collect();
                match self.announced.remove(&id) {
                    Some((page, entries)) if page == first && Some(&entries) == expected.as_ref() => {}
                    other => self.breach(format!("pages {first} to {end} are read by READ ID {id}: {other:x?}")),
                }
                if self.ids.values().any(|&other| other == id) {
                    self.breach(format!("READ ID {id} is used twice"));
                }
                self.ids.insert(tag, id);
            }
            (BlockOp::Write | BlockOp::Trim, _) => self.forget((first, end)),
            (BlockOp::Flush, _) => {}
        }
    }

    fn ended(&mut self, done: BlockDone) -> BlockDone {
        self.now = self.now.max(done.at);
        self.ids.remove(&done.tag);
        if let Some((MapCommand::Load { sub }, entries)) = self.maps.get_mut(&done.tag) {
            let (from, to) = self.layout.pages_of(*sub);
            let good = done.result.is_ok();
            self.leaving.retain(|&pages| pages != (from, to));
            self.serial += 1;
            *entries =
                (from..to).map(|page| if good { u64::from(page) << 32 | self.serial } else { GARBAGE }).collect();
            let given = entries.iter().map(|&entry| good.then_some(entry));
            self.given.splice(from as usize..to as usize, given.collect::<Vec<_>>());
        }
        if let Some(page) = self.reads.remove(&done.tag)
            && self.rng.chance(0.4)
            && let Some((sub, _)) = self.layout.subregions_of(page, 1)
        {
            let leaves = self.rng.chance(0.1).then(|| self.rng.below(self.layout.regions().into()) as u32);
            let active = UpToTwo::of([sub].into_iter());
            let inactive = UpToTwo::of(leaves.into_iter());
            self.advice.insert(done.tag, Advice { operation: Operation::UpdateRegions, active, inactive });
            self.advised += 1;
        }
        done
    }
}

impl BlockDevice for Device {
    const KEEPS_BYTES: bool = false;

    fn sectors(&self) -> u64 {
        u64::from(PAGES * PAGE_SECTORS)
    }

    fn queue_depth(&self) -> u32 {
        DEPTH
    }

    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        self.submit_with(at, tag, request, ReadCommand::Plain, data)
    }

    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        let (&(at, _), _) = self.waiting.first_key_value()?;
        let (_, done) = (at <= until).then(|| self.waiting.pop_first())??;
        Some(self.ended(done))
    }

    fn take(&mut self, _: u32, _: &mut [u8]) {}
}

impl HpbDevice for Device {
    fn hpb_config(&self) -> Option<&HpbConfig> {
        Some(&self.config)
    }

    fn page_sectors(&self) -> u32 {
        PAGE_SECTORS
    }

    fn would_take(&self, _: u32, _: &BlockRequest) -> Result<(), BlockError> {
        Ok(())
    }

    fn submit_with(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        command: ReadCommand,
        _: Payload<'_>,
    ) -> Result<(), BlockError> {
        self.now = self.now.max(at);
        self.sent(tag, &request, command);
        for pages in std::mem::take(&mut self.leaving) {
            self.forget(pages);
        }
        let failed = self.rng.chance(0.05);
        self.answer(tag, if failed { Err(BlockError::Uncorrectable { sector: request.sector }) } else { Ok(()) });
        Ok(())
    }

    fn submit_map(&mut self, at: Ns, tag: u32, command: MapCommand, entries: &[u64]) -> Result<(), BlockError> {
        self.now = self.now.max(at);
        if !(DEPTH..DEPTH + MAP_COMMANDS).contains(&tag) || self.waiting.values().any(|done| done.tag == tag) {
            self.breach(format!("{command:?} under tag {tag}"));
        }
        let mut failed = false;
        match command {
            MapCommand::Load { sub } => {
                // Whatever was there is not used while it is loaded, nor if that fails.
                self.leaving.push(self.layout.pages_of(sub));
                if self.rng.chance(0.15) {
                    return Err(BlockError::PowerLost);
                }
                self.counts[0] += 1;
                failed = self.rng.chance(0.3);
            }
            MapCommand::PreRequest { id, page } => {
                if self.announced.insert(id, (page, entries.to_vec())).is_some() {
                    self.breach(format!("READ ID {id} is announced twice"));
                }
            }
            MapCommand::Inactivate { region } => {
                let (from, to) = self.layout.subregions_in(region);
                self.leaving.extend((from..to).map(|sub| self.layout.pages_of(sub)));
            }
            MapCommand::InactivateAll => {}
        }
        self.maps.insert(tag, (command, Vec::new()));
        self.answer(tag, if failed { Err(BlockError::Uncorrectable { sector: 0 }) } else { Ok(()) });
        Ok(())
    }

    fn completed(&mut self) -> Option<BlockDone> {
        self.next_done(self.now)
    }

    fn take_advice(&mut self, tag: u32) -> Option<Advice> {
        self.advice.remove(&tag)
    }

    fn entries(&self, tag: u32) -> &[u64] {
        &self.maps[&tag].1
    }
}

fn config(control: Control) -> HpbConfig {
    HpbConfig {
        version: Version::V2,
        control,
        subregion_pages: 16,
        region_subregions: 2,
        max_active_regions: 4,
        single_command_pages: 4,
        pre_requests: true,
        ..HpbConfig::plain(PAGES)
    }
}

/// Random requests at random times; the device is busy with up to its depth. Returns the device.
fn run(control: Control, seed: u64, lose_every: u32) -> Hpb<Device> {
    let mut hpb = Hpb::new(Device::new(config(control), seed));
    hpb.lose_advice(lose_every);
    let mut rng = Seed(seed).stream("host");
    let (mut now, mut free) = (Ns::ZERO, (0..DEPTH).collect::<VecDeque<u32>>());
    let mut later = [0; 3];
    for turn in 0..4_000 {
        if turn == 3_000 {
            later = hpb.device().counts;
        }
        if let Some(tag) = free.pop_front() {
            // A few regions are read again and again.
            let page = if rng.chance(0.8) { rng.below(48) } else { rng.below(u64::from(PAGES) - 12) };
            let pages = [1, 1, 2, 4, 6, 12][rng.below(6) as usize];
            let skew = if rng.chance(0.2) { rng.below(8) } else { 0 };
            let (sector, sectors) = (page * 8 + skew, pages * 8 - skew as u32);
            let request = match rng.below(40) {
                0 => BlockRequest::write(sector, sectors),
                1 => BlockRequest::trim(sector, sectors),
                2 => BlockRequest::flush(),
                _ => BlockRequest::read(sector, sectors),
            };
            let bytes = if request.op == BlockOp::Write { request.bytes() as u32 } else { 0 };
            hpb.submit(now, tag, request, Payload::Length(bytes)).expect("the device takes every request");
        }
        let until = now + Ns(rng.below(3_000));
        while let Some(done) = hpb.next_done(until) {
            now = now.max(done.at);
            assert!(done.tag < DEPTH && !free.contains(&done.tag), "a completion of nothing: {done:?}");
            free.push_back(done.tag);
        }
        now = now.max(until);
        hpb.driver().expect("the device has HPB").check();
        assert_eq!(hpb.device().breaches, Vec::<String>::new(), "{control:?}, seed {seed}, turn {turn}");
    }
    while hpb.next_done(Ns(u64::MAX)).is_some() {}
    let counts = hpb.device().counts;
    assert!((0..3).all(|kind| counts[kind] > later[kind] + 5), "{control:?}, seed {seed}: {later:?}, then {counts:?}");
    hpb
}

/// A read carries an entry only if the device has given it in a load that went well, and the page was not written since;
/// and a READ ID only behind its pre-request. No tag and no READ ID is lost by a load that failed or was not taken.
#[test]
fn what_a_failing_device_never_gave_is_never_sent_back() {
    for control in [Control::Device, Control::Host] {
        for seed in 0..12 {
            let hpb = run(control, seed, 0);
            let driver = hpb.driver().expect("the device has HPB");
            assert!(driver.is_idle(), "{control:?}, seed {seed}: something is waited for that never comes");
            let free: BTreeSet<u32> = hpb.device().waiting.values().map(|done| done.tag).collect();
            assert!(free.is_empty());
        }
    }
}

#[test]
fn of_the_recommendations_every_nth_is_lost() {
    for lose_every in [1, 2, 3, 7, 1000] {
        let (mut hpb, mut rng) = (Hpb::new(Device::new(config(Control::Device), 3)), Seed(3).stream("host"));
        hpb.lose_advice(lose_every);
        for _ in 0..600 {
            let request = BlockRequest::read(rng.below(200) * 8, 8);
            let now = hpb.device().now;
            hpb.submit(now, 0, request, Payload::Length(0)).expect("the device takes every request");
            assert!(hpb.next_done(Ns(u64::MAX)).is_some());
        }
        let (advised, told) = (hpb.device().advised, hpb.driver().map_or(0, |driver| driver.stats().rcmd_noti_cnt));
        assert!(advised > 20, "{advised}");
        assert_eq!(told, advised - advised / u64::from(lose_every), "of {advised}, every {lose_every}th is lost");
    }
}

/// A single entry covers the pages that the device says; with a pre-request a read has up to 255, since its transfer length has
/// eight bits. A longer one carries nothing, whatever the host has cached.
#[test]
fn how_a_read_is_sent_depends_on_its_length() {
    let config = HpbConfig { max_active_regions: 8, ..config(Control::Device) };
    let mut hpb = Hpb::new(Device::new(config, 5));
    let read = |hpb: &mut Hpb<Device>, pages: u32| {
        let (now, request) = (hpb.device().now, BlockRequest::read(0, pages * PAGE_SECTORS));
        hpb.submit(now, 0, request, Payload::Length(0)).expect("the device takes every request");
        assert!(hpb.next_done(Ns(u64::MAX)).is_some());
        hpb.device().last
    };
    for _ in 0..40 {
        for page in 0..u64::from(PAGES) {
            let now = hpb.device().now;
            let request = BlockRequest::read(page * u64::from(PAGE_SECTORS), PAGE_SECTORS);
            hpb.submit(now, 0, request, Payload::Length(0)).expect("the device takes every request");
            assert!(hpb.next_done(Ns(u64::MAX)).is_some());
        }
        if hpb.device().given.iter().all(Option::is_some) && matches!(read(&mut hpb, 255), ReadCommand::ReadId(_)) {
            break;
        }
    }
    for pages in 1..=PAGES {
        let command = read(&mut hpb, pages);
        let fits = match pages {
            1..=4 => matches!(command, ReadCommand::Entry(_)),
            5..=255 => matches!(command, ReadCommand::ReadId(_)),
            _ => command == ReadCommand::Plain,
        };
        assert!(fits, "{pages} pages: {command:?}");
    }
    assert_eq!(hpb.device().breaches, Vec::<String>::new());
}
