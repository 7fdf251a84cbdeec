//! Host Performance Booster in a whole drive: entries are used, stale ones are detected, all commands complete, and
//! reads take the time that they should.

use nand::{Array, ArrayConfig, Bytes, Store, Tags};
use sim::seam::{BlockDevice, BlockRequest, Payload};
use sim::{Ns, Rng, Seed};
use ssd::device::hpb::stats::DeviceStats;
use ssd::device::hpb::{Control, HpbConfig, LuConfig, Params, Version};
use ssd::ftl::map_cache::MapCacheConfig;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::host::Hpb;
use ssd::host::hpb::Driver;
use ssd::host::hpb::state::SubState;
use ssd::host::hpb::stats::HostStats;
use ssd::untimed::lpns_per_unit;
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, KnownBad, Order, Protocol, Scheduling, Shape, Ssd,
    Timing, TrimmedReads,
};

const SHAPE: Shape = Shape {
    channels: 2,
    ways: 1,
    dies: 1,
    planes: 1,
    blocks: 22,
    pages: 16,
    page_bytes: 512,
    order: Order::CHANNEL_FIRST,
    multi_plane: false,
};
const PAGES: u32 = 512;
const DEPTH: u32 = 8;
const READ: Ns = Ns(50_000);
const TRANSFER: Ns = Ns(1_000);
const COMMAND: Ns = Ns(3_000);
const CHECK: Ns = Ns(1_500);

/// 16 regions of 2 sub-regions of 16 pages.
fn hpb() -> HpbConfig {
    HpbConfig {
        subregion_pages: 16,
        region_subregions: 2,
        max_active_regions: 16,
        lus: vec![LuConfig { pages: PAGES, hpb: true }],
        entry_check: CHECK,
        ..HpbConfig::plain(PAGES)
    }
}

type Drive<S> = Hpb<Ssd<Array<S>, PageFtl>>;

/// A drive whose map cache holds two map pages of 16 entries.
fn drive<S: Store>(store: S, hpb: Option<HpbConfig>) -> Drive<S> {
    drive_behind(store, hpb, COMMAND, 0)
}

/// As `drive`, with other times of the controller and the link.
fn drive_behind<S: Store>(store: S, hpb: Option<HpbConfig>, command: Ns, link_bytes_per_s: u64) -> Drive<S> {
    let map = MapCacheConfig { map_page_bytes: 64, ..MapCacheConfig::pages(PAGES, 128) };
    let lpns = lpns_per_unit(&SHAPE, PAGES + map.map_pages());
    let unit = |at: u32| {
        PageFtl::new(PageConfig::new(SHAPE.blocks, SHAPE.unit_pages(), lpns), Seed(1).stream(&format!("gc/{at}")))
    };
    let units = (0..SHAPE.units()).map(|at| unit(at).expect("a legal geometry")).collect();
    let mut timing = Timing::plain(READ, Ns::from_us(200), Ns::from_ms(2), Ns::ZERO, TRANSFER);
    timing.entry_check = CHECK;
    let dispatch = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: ssd::BusOrder::CommandsFirst,
        background_after: None,
    };
    let front = FrontConfig {
        protocol: Protocol::Ufs,
        depth: DEPTH,
        command,
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let cells = Cells::new(&SHAPE, Array::new(ArrayConfig::plain(ssd::cells::geometry(&SHAPE, 0)), store));
    let dispatcher = Dispatcher::new(&SHAPE, dispatch, cells, units);
    let config = DriveConfig { pages: PAGES, front, cache: None, map: Some(map), hpb };
    Hpb::new(Ssd::new(config, &SHAPE, dispatcher).expect("a drive that can be"))
}

/// Contents of a page in one of its versions.
fn contents(page: u32, version: u32) -> Vec<u8> {
    let mark = (u64::from(page) << 32 | u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mark.to_le_bytes().repeat(64)
}

/// A host that sends one request at a time.
struct Host<S: Store> {
    drive: Drive<S>,
    now: Ns,
    versions: Vec<u32>,
}

impl<S: Store> Host<S> {
    fn new(store: S, hpb: Option<HpbConfig>) -> Host<S> {
        Host::over(drive(store, hpb))
    }

    fn over(drive: Drive<S>) -> Host<S> {
        let mut host = Host { drive, now: Ns(0), versions: vec![0; PAGES as usize] };
        for page in 0..PAGES {
            host.write(page, 1);
        }
        host
    }

    fn ask(&mut self, request: BlockRequest, data: Payload<'_>) -> Ns {
        let began = self.now;
        self.drive.submit(self.now, 0, request, data).expect("a free queue");
        let done = self.drive.next_done(Ns(u64::MAX)).expect("an answer");
        assert_eq!(done.result, Ok(()), "{request:?}");
        self.now = done.at;
        self.check();
        Ns(done.at.0 - began.0)
    }

    fn write(&mut self, page: u32, pages: u32) -> Ns {
        let mut data = Vec::new();
        for page in page..page + pages {
            self.versions[page as usize] += 1;
            data.extend(contents(page, self.versions[page as usize]));
        }
        self.ask(BlockRequest::write(page.into(), pages), Payload::Bytes(&data))
    }

    /// The latency of a read, and whether it returned what was written last.
    fn read(&mut self, page: u32, pages: u32) -> (Ns, bool) {
        let took = self.ask(BlockRequest::read(page.into(), pages), Payload::Length(0));
        let mut data = vec![0; 512 * pages as usize];
        self.drive.take(0, &mut data);
        let right = |(page, found): (u32, &[u8])| found == contents(page, self.versions[page as usize]);
        (took, !S::KEEPS_BYTES || (page..page + pages).zip(data.chunks(512)).all(right))
    }

    /// Lets commands of the driver complete.
    fn rest(&mut self) {
        self.now = Ns(self.now.0 + 1_000_000_000);
        assert_eq!(self.drive.next_done(self.now), None);
        self.check();
    }

    fn driver(&self) -> &Driver {
        self.drive.driver().expect("a drive with HPB")
    }

    fn device(&self) -> &DeviceStats {
        self.drive.device().hpb().expect("a drive with HPB").stats()
    }

    fn check(&self) {
        if let Some(driver) = self.drive.driver() {
            driver.check();
        }
        if let Some(advisor) = self.drive.device().hpb() {
            advisor.check();
        }
    }

    fn hits(&self) -> u64 {
        self.driver().stats().hit_cnt
    }
}

#[test]
fn a_read_by_entry_saves_the_map_page_and_pays_for_the_check() {
    let mut host = Host::new(Tags, Some(hpb()));
    // Reads in two other map pages evict that of page 0.
    let plain = COMMAND.0 + READ.0 + TRANSFER.0;
    for page in [100, 200] {
        host.read(page, 1);
    }
    host.rest();
    assert_eq!(host.read(0, 1).0, Ns(plain + READ.0 + TRANSFER.0), "a miss costs one more read of a page");
    host.rest();
    assert_eq!((host.hits(), host.driver().sub(0)), (0, SubState::Valid));
    for page in [100, 200] {
        host.read(page, 1);
    }
    assert_eq!(host.read(1, 1).0, Ns(plain + CHECK.0), "an entry costs its check, wherever the map page is");
    assert_eq!(host.hits(), 3);
}

#[test]
fn a_written_page_is_read_without_its_entry_until_its_sub_region_is_loaded_again() {
    let mut host = Host::new(Bytes::default(), Some(HpbConfig { recommend_after: 2, ..hpb() }));
    for _ in 0..2 {
        assert!(host.read(5, 1).1);
    }
    host.rest();
    host.write(5, 1);
    let hits = host.hits();
    assert!(host.read(5, 1).1 && host.read(6, 1).1, "right data");
    assert_eq!(host.hits(), hits + 1, "page 6 by its entry, page 5 not");
    host.read(5, 1);
    host.rest();
    assert!(host.read(5, 1).1);
    assert_eq!(host.hits(), hits + 2, "loaded again after two reads without a right entry");
}

fn storm(config: HpbConfig, known_bad: KnownBad, lose_every: u32, seed: u64) -> (Host<Bytes>, bool) {
    storm_of(config, known_bad, lose_every, seed, (0.2, 4))
}

/// As `storm`, with this share of reads of several pages, and so many pages at most.
fn storm_of(
    config: HpbConfig,
    known_bad: KnownBad,
    lose_every: u32,
    seed: u64,
    (long, longest): (f64, u64),
) -> (Host<Bytes>, bool) {
    let mut host = Host::new(Bytes::default(), Some(config));
    host.drive.device_mut().set_known_bad(known_bad);
    host.drive.lose_advice(lose_every);
    let mut rng: Rng = Seed(seed).stream("storm");
    let mut right = true;
    for step in 0..4_000 {
        // Reads everywhere, and writes of every fourth page: garbage collection moves the pages between them.
        let page = rng.below(u64::from(PAGES)) as u32;
        let pages = if rng.chance(long) { 1 + rng.below(longest) as u32 } else { 1 }.min(PAGES - page);
        match rng.below(10) {
            0..=3 => {
                host.write(page / 4 * 4, 1);
            }
            _ => right &= host.read(page, pages).1,
        }
        if step % 997 == 0 {
            host.drive.device_mut().reset_hpb();
        }
    }
    host.rest();
    (host, right)
}

#[test]
fn entries_of_pages_that_have_moved_are_found_and_a_device_that_believes_them_is_caught() {
    for control in [Control::Device, Control::Host] {
        let config = HpbConfig { control, recommend_after: 6, version: Version::V2, single_command_pages: 4, ..hpb() };
        let (host, right) = storm(config.clone(), KnownBad::default(), 0, 1);
        let device = host.device();
        assert!(right, "{control:?}");
        assert!(device.entries_stale > 0 && device.entries_right > 200, "{control:?}: {device:?}");
        assert_eq!(device.entries_damaged, 0);
        let (_, right) = storm(config, KnownBad { trust_entries: true, ..KnownBad::default() }, 0, 1);
        assert!(!right, "{control:?}: a device that believes stale entries goes unnoticed");
    }
}

/// Runs of one entry, and pre-requests with an entry for each page: pages of them move one by one.
#[test]
fn each_page_of_a_longer_read_is_verified() {
    for (single_command_pages, pre_requests) in [(8, false), (1, true), (3, true)] {
        for (control, seed) in [(Control::Device, 1), (Control::Device, 2), (Control::Host, 3), (Control::Host, 4)] {
            let config = HpbConfig {
                control,
                recommend_after: 4,
                version: Version::V2,
                single_command_pages,
                pre_requests,
                ..hpb()
            };
            let place = format!("{single_command_pages} pages, {pre_requests}, {control:?}, seed {seed}");
            let (host, right) = storm_of(config.clone(), KnownBad::default(), 0, seed, (0.5, 7));
            let (device, driver) = (host.device(), host.driver().stats());
            assert!(right, "{place}");
            assert!(device.entries_right > 100 && device.entries_stale > 10, "{place}: {device:?}");
            assert_eq!(driver.pre_requests > 10, pre_requests, "{place}: {driver:?}");
            let known_bad = KnownBad { trust_entries: true, ..KnownBad::default() };
            let (_, right) = storm_of(config, known_bad, 0, seed, (0.5, 7));
            assert!(!right, "{place}: a device that believes stale entries goes unnoticed");
        }
    }
}

#[test]
fn nothing_gets_stuck_when_advice_is_lost() {
    for (control, seed) in [(Control::Device, 1), (Control::Device, 2), (Control::Host, 3), (Control::Host, 4)] {
        let params = Params { eviction_thld_exit: 9, eviction_thld_enter: 12, ..Params::LINUX };
        let config = HpbConfig { control, max_active_regions: 5, pinned: (2, 1), params, ..hpb() };
        let (mut host, right) = storm(config, KnownBad::default(), 3, seed);
        assert!(right);
        let driver = host.driver();
        assert!(driver.is_idle(), "{control:?}: work is left over");
        let subs = driver.layout().subregions();
        assert!((0..subs).all(|sub| driver.sub(sub) != SubState::Issued), "{control:?}: a load never ended");
        assert_eq!(driver.sub(4), SubState::Valid, "a pinned sub-region is valid");
        // In any state: a page that is read often enough is read by its entry.
        let hits = host.hits();
        for _ in 0..400 {
            host.read(300, 1);
        }
        assert!(host.hits() > hits + 100, "{control:?}: {} hits", host.hits() - hits);
    }
}

#[test]
fn longer_reads_are_preceded_by_their_entries_where_that_is_asked_for() {
    let config = HpbConfig { version: Version::V2, single_command_pages: 2, pre_requests: true, ..hpb() };
    let mut host = Host::new(Bytes::default(), Some(config));
    host.read(32, 2);
    host.rest();
    let before = *host.device();
    assert!(host.read(32, 8).1);
    assert_eq!(host.driver().stats().pre_requests, 1);
    assert_eq!(host.device().entries_right, before.entries_right + 8);
}

#[test]
fn entries_that_come_after_their_read_was_fetched_are_not_used_for_it() {
    let config = HpbConfig { version: Version::V2, single_command_pages: 2, pre_requests: true, ..hpb() };
    // 512 bytes of entries take 500 us on the link, and the command itself takes no link time.
    for (command, in_time) in [(Ns(0), false), (Ns(499_999), false), (Ns(500_001), true)] {
        let mut host = Host::over(drive_behind(Bytes::default(), Some(config.clone()), command, 1_024_000));
        for page in [32, 48] {
            host.read(page, 2);
            host.rest();
        }
        let before = *host.device();
        assert!(host.read(32, 8).1, "{command:?}: right data");
        let device = *host.device();
        let right = if in_time { 8 } else { 0 };
        assert_eq!(device.entries_right, before.entries_right + right, "{command:?}");
        assert_eq!(device.entries_stale, before.entries_stale, "{command:?}: what is not there is not stale");
        // The next read has the same READ ID. The late entries are still there, and are of another page.
        assert!(host.read(48, 8).1, "{command:?}: right data");
        let device = *host.device();
        assert_eq!(device.entries_right, before.entries_right + 2 * right, "{command:?}");
        assert_eq!(device.entries_stale - before.entries_stale, u64::from(!in_time), "{command:?}");
        assert_eq!(host.driver().stats().pre_requests, 2);
    }
}

/// HPB 2.0: an entry has the number of pages placed one behind the other from its own on, within its sub-region. Pages
/// are striped over two units, in each of which those of a sequential write follow each other.
#[test]
fn an_entry_covers_the_pages_that_were_written_behind_its_own() {
    let config = HpbConfig { version: Version::V2, single_command_pages: 8, ..hpb() };
    let mut host = Host::new(Bytes::default(), Some(config));
    for page in [0, 16, 32] {
        host.read(page, 1);
        host.rest();
    }
    // First page, pages, and pages that are read by the entry: the last read goes on into another sub-region.
    for (page, pages, covered) in [(0, 1, 1), (0, 8, 8), (3, 5, 5), (8, 8, 8), (15, 1, 1), (14, 8, 2), (31, 4, 1)] {
        // What was read without an entry is loaded again.
        host.rest();
        let before = *host.device();
        assert!(host.read(page, pages).1);
        let device = *host.device();
        assert_eq!(device.entries_right - before.entries_right, covered, "{pages} pages at {page}");
        assert_eq!((device.entries_stale, device.entries_damaged), (0, 0));
    }
    // Written again, page 5 is elsewhere: after a new load the run of the pages before it ends there.
    host.write(5, 1);
    for _ in 0..2 {
        host.read(5, 1);
        host.rest();
    }
    for (page, pages, covered) in [(0, 8, 5), (4, 2, 1), (5, 1, 1), (6, 8, 8)] {
        host.rest();
        let before = *host.device();
        assert!(host.read(page, pages).1);
        assert_eq!(host.device().entries_right - before.entries_right, covered, "{pages} pages at {page}, written");
    }
}

#[test]
fn a_device_that_was_reset_says_so_and_the_host_forgets() {
    for control in [Control::Device, Control::Host] {
        let mut host = Host::new(Tags, Some(HpbConfig { control, recommend_after: 8, ..hpb() }));
        for _ in 0..8 {
            host.read(40, 1);
        }
        host.rest();
        assert_eq!(host.driver().sub(2), SubState::Valid, "{control:?}");
        let (before, loads) = (*host.driver().stats(), host.device().map_bytes);
        host.drive.device_mut().reset_hpb();
        host.read(500, 1);
        host.rest();
        let noticed = host.driver().stats().rcmd_noti_cnt - before.rcmd_noti_cnt;
        match control {
            Control::Device => assert_eq!((host.driver().sub(2), noticed), (SubState::Unused, 1)),
            // Its next read loads it again, the other reads of its region do not.
            Control::Host => {
                assert_eq!((host.driver().sub(2), noticed), (SubState::Valid, 1));
                assert_eq!(host.device().map_bytes, loads);
                host.read(40, 1);
                host.rest();
                assert_eq!((host.device().map_bytes - loads, host.driver().sub(2)), (16 * 8, SubState::Valid));
            }
        }
    }
}

#[test]
fn counters_are_named_as_in_sysfs_and_the_hit_rate_is_of_all_short_reads() {
    let stats = HostStats {
        hit_cnt: 3,
        miss_cnt: 1,
        rcmd_noti_cnt: 4,
        rcmd_active_cnt: 5,
        rcmd_inactive_cnt: 6,
        map_req_cnt: 7,
        umap_req_cnt: 8,
        pre_requests: 9,
    };
    let names =
        ["hit_cnt", "miss_cnt", "rcmd_noti_cnt", "rcmd_active_cnt", "rcmd_inactive_cnt", "map_req_cnt", "umap_req_cnt"];
    assert_eq!(stats.named().map(|named| named.0), names);
    assert_eq!(stats.named().map(|named| named.1), [3, 1, 4, 5, 6, 7, 8]);
    assert_eq!((stats.hit_rate(), HostStats::default().hit_rate()), (Some(0.75), None));
}

#[test]
fn a_request_that_the_drive_refuses_touches_nothing_in_the_driver() {
    let mut host = Host::new(Tags, Some(hpb()));
    host.read(40, 1);
    host.rest();
    let before = *host.driver().stats();
    for (tag, request) in [
        (0, BlockRequest::read(u64::from(PAGES), 1)),
        (0, BlockRequest::read(u64::from(PAGES) - 1, 2)),
        (DEPTH, BlockRequest::read(40, 1)),
        (DEPTH, BlockRequest::write(40, 1)),
    ] {
        assert!(host.drive.submit(host.now, tag, request, Payload::Length(512)).is_err(), "{request:?}");
    }
    assert_eq!(*host.driver().stats(), before);
    host.read(40, 1);
    assert_eq!(host.hits(), before.hit_cnt + 1, "its entry is as clean as before");
}

#[test]
fn version_one_reads_single_pages_by_entry_only() {
    let mut host = Host::new(Tags, Some(hpb()));
    host.read(0, 1);
    host.rest();
    let stats = |host: &Host<Tags>| *host.driver().stats();
    let before = stats(&host);
    host.read(0, 2);
    assert_eq!(stats(&host), before, "a longer read touches no counter");
}

#[test]
fn a_read_across_two_units_and_one_in_a_unit_without_hpb_are_plain() {
    let lus = vec![LuConfig { pages: 100, hpb: true }, LuConfig { pages: PAGES - 100, hpb: false }];
    let config = HpbConfig { version: Version::V2, single_command_pages: 8, lus, ..hpb() };
    let mut host = Host::new(Bytes::default(), Some(config));
    for _ in 0..3 {
        assert!(host.read(98, 4).1 && host.read(300, 1).1 && host.read(98, 2).1);
        host.rest();
    }
    assert_eq!(host.hits(), 2, "of three reads within the first unit, all but the first");
}

#[test]
fn pinned_regions_are_loaded_before_anything_is_read() {
    let mut host = Host::new(Tags, Some(HpbConfig { pinned: (3, 2), ..hpb() }));
    host.rest();
    let driver = host.driver();
    assert!((6..10).all(|sub| driver.sub(sub) == SubState::Valid));
    assert_eq!(driver.stats().map_req_cnt, 4);
}

#[test]
fn host_control_mode_activates_at_its_threshold_and_lets_go_what_is_not_read() {
    let mut host = Host::new(Tags, Some(HpbConfig { control: Control::Host, ..hpb() }));
    for read in 1..=8 {
        assert_eq!(host.driver().sub(2), SubState::Unused, "before read {read}");
        host.read(40, 1);
    }
    host.rest();
    assert_eq!(host.driver().sub(2), SubState::Valid);
    // A hundred timeouts, each detected at the first poll after its second; there are five polls a second.
    host.now = Ns(host.now.0 + 118_000_000_000);
    host.read(500, 1);
    assert_eq!(host.driver().sub(2), SubState::Valid);
    host.now = Ns(host.now.0 + 3_000_000_000);
    host.read(500, 1);
    host.rest();
    let driver = host.driver();
    assert_eq!(driver.sub(2), SubState::Unused);
    assert_eq!(driver.stats().umap_req_cnt, 2, "all at the beginning, and this one");
}
