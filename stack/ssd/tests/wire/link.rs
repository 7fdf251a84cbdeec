//! A drive behind its link: every request, command and recommendation is encoded, decoded, and executed as decoded.
//!
//! [`Link`] is placed between a host and a drive. The drive must behave as without it: a wrong field of a command ends
//! as a wrong byte of data, or as another time. A request that UFS commands cannot express (parts of logical blocks,
//! ranges across the end of a unit, more blocks than fit into the field) is passed on unchanged.

use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, Payload};
use sim::{Ns, Rng, Seed};
use ssd::device::hpb::entry::ENTRY_BYTES;
use ssd::device::hpb::layout::Layout;
use ssd::device::hpb::{
    Advice, Control, HpbCommand, HpbConfig, HpbDevice, HpbRead, HpbReadBuffer, HpbWriteBuffer, LuConfig, MapCommand,
    Operation, ReadCommand, Recommendation, Subregion, UpToTwo, Version,
};
use ssd::device::ufs::cdb::{Read10, SynchronizeCache10, Unmap, UnmapList, UnmapRange, Write10};
use ssd::device::ufs::upiu::{TaskAttribute, Transfer};
use ssd::device::ufs::{CommandUpiu, Nexus, ScsiCommand, WireError};
use ssd::ftl::map_cache::MapCacheConfig;
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::host::Hpb;
use ssd::untimed::lpns_per_unit;
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd, Timing,
    TrimmedReads,
};

/// Sectors of a logical block of 4 KiB.
const BLOCK_SECTORS: u64 = 8;

/// A Command UPIU, and the parameter list of an UNMAP.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    command: [u8; CommandUpiu::BYTES],
    list: Vec<u8>,
}

/// A drive with an encoded link to its host.
struct Link<D> {
    device: D,
    layout: Layout,
    /// First block of each logical unit.
    units: Vec<u64>,
    /// A deliberate defect: number of blocks added to the address of each WRITE(10).
    astray: u8,
    /// Numbers of Command UPIUs, and of CDBs and recommendations of HPB, that were transferred.
    upius: u32,
    hpb: u32,
}

impl<D: HpbDevice> Link<D> {
    fn new(device: D, config: &HpbConfig, astray: u8) -> Link<D> {
        let layout = Layout::new(config);
        let blocks = |pages: u32| u64::from(pages * device.page_sectors()) / BLOCK_SECTORS;
        let units = layout.lus().iter().map(|lu| blocks(lu.first_page)).collect();
        Link { device, layout, units, astray, upius: 0, hpb: 0 }
    }

    /// Encodes a request and returns it as the device decodes it.
    fn over(&mut self, tag: u32, asked: BlockRequest, command: ReadCommand) -> (BlockRequest, ReadCommand) {
        let Some(mut sent) = send(tag as u8, &asked, command, &self.units) else { return (asked, command) };
        if asked.op == BlockOp::Write {
            // The low byte of the LBA of a WRITE(10), which is in bytes 2 to 5 of the CDB.
            sent.command[CDB + 5] = sent.command[CDB + 5].wrapping_add(self.astray);
        }
        self.upius += 1;
        receive(&sent, &self.units).expect("a command that was just written is read")
    }
}

/// Offset of the CDB in a Command UPIU.
const CDB: usize = 16;

impl<D: HpbDevice> BlockDevice for Link<D> {
    const KEEPS_BYTES: bool = D::KEEPS_BYTES;

    fn sectors(&self) -> u64 {
        self.device.sectors()
    }

    fn queue_depth(&self) -> u32 {
        self.device.queue_depth()
    }

    fn submit(&mut self, at: Ns, tag: u32, request: BlockRequest, data: Payload<'_>) -> Result<(), BlockError> {
        self.submit_with(at, tag, request, ReadCommand::Plain, data)
    }

    fn next_done(&mut self, until: Ns) -> Option<BlockDone> {
        self.device.next_done(until)
    }

    fn take(&mut self, tag: u32, buf: &mut [u8]) {
        self.device.take(tag, buf);
    }
}

impl<D: HpbDevice> HpbDevice for Link<D> {
    fn hpb_config(&self) -> Option<&HpbConfig> {
        self.device.hpb_config()
    }

    fn page_sectors(&self) -> u32 {
        self.device.page_sectors()
    }

    fn would_take(&self, tag: u32, request: &BlockRequest) -> Result<(), BlockError> {
        self.device.would_take(tag, request)
    }

    fn submit_with(
        &mut self,
        at: Ns,
        tag: u32,
        request: BlockRequest,
        command: ReadCommand,
        data: Payload<'_>,
    ) -> Result<(), BlockError> {
        let (request, command) = self.over(tag, request, command);
        self.device.submit_with(at, tag, request, command, data)
    }

    fn submit_map(&mut self, at: Ns, tag: u32, command: MapCommand, entries: &[u64]) -> Result<(), BlockError> {
        let (lun, sent) = command_to_wire(command, &self.layout, entries.len());
        let read = HpbCommand::decode(&sent.encode()).expect("a command that was just written is read");
        let command = command_from_wire(lun, &read, &self.layout).expect("regions that there are");
        self.hpb += 1;
        self.device.submit_map(at, tag, command, entries)
    }

    fn completed(&mut self) -> Option<BlockDone> {
        self.device.completed()
    }

    fn take_advice(&mut self, tag: u32) -> Option<Advice> {
        let sent = advice_to_wire(&self.device.take_advice(tag)?, &self.layout);
        let read = Recommendation::decode(&sent.encode()).expect("a recommendation that was just written is read");
        self.hpb += 1;
        Some(advice_from_wire(&read, &self.layout))
    }

    fn entries(&self, tag: u32) -> &[u64] {
        self.device.entries(tag)
    }
}

/// Encodes a request to one of the units, whose first blocks are `units`. `None`: no command can express it.
fn send(tag: u8, asked: &BlockRequest, by: ReadCommand, units: &[u64]) -> Option<Sent> {
    let (sector, sectors) = (asked.sector, u64::from(asked.sectors));
    if sector % BLOCK_SECTORS != 0 || sectors % BLOCK_SECTORS != 0 {
        return None;
    }
    let (first, blocks) = (sector / BLOCK_SECTORS, sectors / BLOCK_SECTORS);
    let lun = units.partition_point(|&start| start <= first).checked_sub(1)?;
    if units.get(lun + 1).is_some_and(|&next| first + blocks > next) {
        return None;
    }
    let lba = u32::try_from(first - units[lun]).ok()?;
    let (count, fua) = (u16::try_from(blocks).ok(), asked.fua);
    let mut list = Vec::new();
    let (transfer, cdb) = match (asked.op, by) {
        (BlockOp::Read, ReadCommand::Plain) => {
            let read = Read10 { lba, blocks: count?, fua, ..Read10::default() };
            (Transfer::Read, ScsiCommand::Read(read).encode())
        }
        (BlockOp::Read, by) => {
            let (entry, read_id) = match by {
                ReadCommand::Entry(entry) => (entry, 0),
                ReadCommand::ReadId(id) => (0, id),
                ReadCommand::Plain => unreachable!("matched above"),
            };
            let blocks = u8::try_from(blocks).ok()?;
            let read = HpbRead { lba, entry: entry.to_be_bytes(), blocks, read_id, fua, ..HpbRead::default() };
            (Transfer::Read, read.encode())
        }
        (BlockOp::Write, _) => {
            let write = Write10 { lba, blocks: count?, fua, ..Write10::default() };
            (Transfer::Write, ScsiCommand::Write(write).encode())
        }
        // No range: it applies to the whole unit.
        (BlockOp::Flush, _) => (Transfer::None, ScsiCommand::SynchronizeCache(SynchronizeCache10::default()).encode()),
        (BlockOp::Trim, _) => {
            list = UnmapList::encode(&[UnmapRange { lba: lba.into(), blocks: blocks as u32 }]);
            let unmap = Unmap { list_bytes: list.len() as u16, ..Unmap::default() };
            (Transfer::Write, ScsiCommand::Unmap(unmap).encode())
        }
    };
    let expected_bytes = match asked.op {
        BlockOp::Trim => list.len() as u32,
        _ => u32::try_from(asked.bytes()).ok()?,
    };
    let upiu = CommandUpiu {
        nexus: Nexus { lun: lun as u8, task_tag: tag, initiator: 0 },
        transfer,
        attribute: TaskAttribute::Simple,
        has_priority: false,
        expected_bytes,
        cdb,
    };
    Some(Sent { command: upiu.encode(), list })
}

/// Decodes a command into the request that the device executes.
/// Errors: bytes that are not a valid command.
fn receive(sent: &Sent, units: &[u64]) -> Result<(BlockRequest, ReadCommand), WireError> {
    let upiu = CommandUpiu::decode(&sent.command)?;
    let start = units[usize::from(upiu.nexus.lun)];
    let sector = |lba: u32| (start + u64::from(lba)) * BLOCK_SECTORS;
    let sectors = |blocks: u32| blocks * BLOCK_SECTORS as u32;
    if upiu.cdb[0] == HpbRead::OPCODE {
        let read = HpbRead::decode(&upiu.cdb)?;
        let by = match read.read_id {
            0 => ReadCommand::Entry(u64::from_be_bytes(read.entry)),
            id => ReadCommand::ReadId(id),
        };
        let mut request = BlockRequest::read(sector(read.lba), sectors(read.blocks.into()));
        request.fua = read.fua;
        return Ok((request, by));
    }
    let request = match ScsiCommand::decode(&upiu.cdb)? {
        ScsiCommand::Read(read) => {
            BlockRequest { fua: read.fua, ..BlockRequest::read(sector(read.lba), sectors(read.blocks.into())) }
        }
        ScsiCommand::Write(write) => {
            BlockRequest { fua: write.fua, ..BlockRequest::write(sector(write.lba), sectors(write.blocks.into())) }
        }
        ScsiCommand::SynchronizeCache(_) => BlockRequest::flush(),
        ScsiCommand::Unmap(_) => {
            let range = UnmapList::decode(&sent.list)?.iter().next().unwrap_or_default();
            let mut request = BlockRequest::read(sector(range.lba as u32), sectors(range.blocks));
            request.op = BlockOp::Trim;
            request
        }
    };
    Ok((request, ReadCommand::Plain))
}

/// Converts an advice into the recommendation in a response. The logical unit is that of the first region it names.
fn advice_to_wire(advice: &Advice, layout: &Layout) -> Recommendation {
    let subs = advice.active.as_slice();
    let first = advice.inactive.as_slice().first().copied().or_else(|| subs.first().map(|&sub| layout.region_of(sub)));
    let lu = first.map_or(0, |region| layout.lu_of_region(region));
    let base = layout.lus()[lu].first_region;
    let active = subs.iter().map(|&sub| {
        let (_, region, subregion) = layout.to_wire(sub);
        Subregion { region, subregion }
    });
    let inactive = advice.inactive.as_slice().iter().map(|&region| (region - base) as u16);
    Recommendation {
        operation: advice.operation,
        lun: lu as u8,
        active: UpToTwo::of(active),
        inactive: UpToTwo::of(inactive),
    }
}

/// Converts a recommendation into an advice. Numbers that the layout does not have are left out.
fn advice_from_wire(read: &Recommendation, layout: &Layout) -> Advice {
    let active = read.active.as_slice().iter();
    let inactive = read.inactive.as_slice().iter();
    Advice {
        operation: read.operation,
        active: UpToTwo::of(active.filter_map(|at| layout.sub_from_wire(read.lun, at.region, at.subregion))),
        inactive: UpToTwo::of(inactive.filter_map(|&region| layout.region_from_wire(read.lun, region))),
    }
}

/// Converts a command into its encoded form and the logical unit that it is sent to; `entries` is the number of entries
/// of a pre-request.
fn command_to_wire(command: MapCommand, layout: &Layout, entries: usize) -> (u8, HpbCommand) {
    match command {
        MapCommand::Load { sub } => {
            let (lun, region, subregion) = layout.to_wire(sub);
            let (from, to) = layout.pages_of(sub);
            let allocation_bytes = (to - from) * ENTRY_BYTES;
            (lun, HpbCommand::ReadBuffer(HpbReadBuffer { region, subregion, allocation_bytes }))
        }
        MapCommand::Inactivate { region } => {
            let lu = layout.lu_of_region(region);
            let region = (region - layout.lus()[lu].first_region) as u16;
            (lu as u8, HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region }))
        }
        MapCommand::InactivateAll => (0, HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateAll)),
        MapCommand::PreRequest { id, page } => {
            let lu = layout.lu_of_page(page);
            let lba = page - layout.lus()[lu].first_page;
            let prefetch = HpbWriteBuffer::Prefetch { lba, read_id: id, entries: entries as u16 };
            (lu as u8, HpbCommand::WriteBuffer(prefetch))
        }
    }
}

/// Converts a decoded command back. `None` for a region that does not exist, and for HPB READ, which is not a map
/// command.
fn command_from_wire(lun: u8, command: &HpbCommand, layout: &Layout) -> Option<MapCommand> {
    Some(match *command {
        HpbCommand::Read(_) => return None,
        HpbCommand::ReadBuffer(HpbReadBuffer { region, subregion, .. }) => {
            MapCommand::Load { sub: layout.sub_from_wire(lun, region, subregion)? }
        }
        HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region }) => {
            MapCommand::Inactivate { region: layout.region_from_wire(lun, region)? }
        }
        HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateAll) => MapCommand::InactivateAll,
        HpbCommand::WriteBuffer(HpbWriteBuffer::Prefetch { lba, read_id, .. }) => {
            let page = layout.lus().get(usize::from(lun))?.first_page + lba;
            MapCommand::PreRequest { id: read_id, page }
        }
    })
}

/// Three units of 100, 50 and 70 blocks.
const UNITS: [u64; 3] = [0, 100, 150];

#[test]
fn every_request_comes_over_as_it_was() {
    let forced = BlockRequest { fua: true, ..BlockRequest::write(8 * 120, 8 * 30) };
    for (asked, by) in [
        (BlockRequest::read(8 * 99, 8), ReadCommand::Plain),
        (BlockRequest::read(8 * 100, 8 * 255), ReadCommand::Entry(0x0123_4567_89ab_cdef)),
        (BlockRequest::read(8 * 160, 8 * 9), ReadCommand::ReadId(77)),
        (BlockRequest::write(8 * 150, 8 * 70), ReadCommand::Plain),
        (forced, ReadCommand::Plain),
        (BlockRequest::flush(), ReadCommand::Plain),
        (BlockRequest::trim(8 * 149, 8), ReadCommand::Plain),
    ] {
        let units = if asked.sectors > 8 * 70 { &UNITS[..2] } else { &UNITS[..] };
        let sent = send(5, &asked, by, units).expect("UFS has words for it");
        assert_eq!(receive(&sent, units), Ok((asked, by)), "{asked:?}");
    }
}

#[test]
fn a_read_of_the_second_unit_is_these_bytes() {
    let sent = send(0x1f, &BlockRequest::read(8 * 102, 16), ReadCommand::Plain, &UNITS).unwrap();
    // COMMAND, flag R, unit 1, tag 1f; 8,192 bytes expected; READ(10) of block 2, 2 blocks.
    let head = [0x01, 0x40, 0x01, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0];
    let cdb = [0x28, 0, 0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!((&sent.command[..16], &sent.command[16..]), (&head[..], &cdb[..]));
}

#[test]
fn what_ufs_has_no_words_for_is_not_sent() {
    let of = |asked: &BlockRequest| send(0, asked, ReadCommand::Plain, &UNITS);
    assert_eq!(of(&BlockRequest::read(4, 8)), None, "half a block");
    assert_eq!(of(&BlockRequest::write(8 * 90, 8 * 20)), None, "over the end of a unit");
    assert_eq!(of(&BlockRequest::read(8 * 150, 8 * 65_536)), None, "more than the field holds");
}

fn layout() -> Layout {
    let lus = [(100, true), (50, false), (70, true)].map(|(pages, hpb)| LuConfig { pages, hpb }).to_vec();
    Layout::new(&HpbConfig { lus, subregion_pages: 8, region_subregions: 2, ..HpbConfig::plain(1) })
}

#[test]
fn what_is_advised_comes_over_as_it_was() {
    let layout = layout();
    // Regions 0 to 6 belong to the first unit, 7 to 10 to the second, 11 to 15 to the third.
    let advice = Advice {
        operation: Operation::UpdateRegions,
        active: UpToTwo::of([24, 29].into_iter()),
        inactive: UpToTwo::of([11].into_iter()),
    };
    let told = advice_to_wire(&advice, &layout);
    assert_eq!((told.lun, told.inactive.as_slice()), (2, &[0][..]));
    assert_eq!(advice_from_wire(&Recommendation::decode(&told.encode()).unwrap(), &layout), advice);
}

#[test]
fn commands_come_over_as_they_were() {
    let layout = layout();
    for command in [
        MapCommand::Load { sub: 24 },
        MapCommand::Inactivate { region: 12 },
        MapCommand::InactivateAll,
        MapCommand::PreRequest { id: 3, page: 205 },
    ] {
        let (lun, told) = command_to_wire(command, &layout, 9);
        let told = HpbCommand::decode(&told.encode()).unwrap();
        assert_eq!(command_from_wire(lun, &told, &layout), Some(command));
    }
}

#[test]
fn a_region_that_there_is_not_is_not_believed() {
    let beyond = HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region: 5 });
    assert_eq!(command_from_wire(2, &beyond, &layout()), None);
    let of_nothing = Recommendation {
        operation: Operation::UpdateRegions,
        lun: 1,
        active: UpToTwo::of([Subregion { region: 0, subregion: 0 }].into_iter()),
        inactive: UpToTwo::default(),
    };
    assert!(advice_from_wire(&of_nothing, &layout()).active.as_slice().is_empty(), "that unit has no HPB");
}

const SHAPE: Shape = Shape {
    channels: 2,
    ways: 1,
    dies: 1,
    planes: 1,
    blocks: 22,
    pages: 16,
    page_bytes: 4096,
    order: Order::CHANNEL_FIRST,
    multi_plane: false,
};
const PAGES: u32 = 512;
const DEPTH: u32 = 4;

/// Two logical units; reads of more than `single_command_pages` are preceded by a pre-request with their entries.
fn hpb(control: Control) -> HpbConfig {
    HpbConfig {
        version: Version::V2,
        control,
        subregion_pages: 16,
        region_subregions: 2,
        max_active_regions: 9,
        single_command_pages: 2,
        pre_requests: true,
        recommend_after: 2,
        lus: [200, PAGES - 200].map(|pages| LuConfig { pages, hpb: true }).to_vec(),
        ..HpbConfig::plain(PAGES)
    }
}

fn drive(hpb: &HpbConfig) -> Ssd<Array<Bytes>, PageFtl> {
    let map = MapCacheConfig { map_page_bytes: 64, ..MapCacheConfig::pages(PAGES, 128) };
    let lpns = lpns_per_unit(&SHAPE, PAGES + map.map_pages());
    let unit = |at: u32| {
        PageFtl::new(PageConfig::new(SHAPE.blocks, SHAPE.unit_pages(), lpns), Seed(1).stream(&format!("gc/{at}")))
    };
    let units = (0..SHAPE.units()).map(|at| unit(at).expect("a legal geometry")).collect();
    let timing = Timing::plain(Ns::from_us(50), Ns::from_us(200), Ns::from_ms(2), Ns::ZERO, Ns(1_000));
    let dispatch = DispatchConfig {
        timing,
        scheduling: Scheduling::ReadsFirst,
        bus_order: ssd::BusOrder::CommandsFirst,
        background_after: None,
    };
    let front = FrontConfig {
        protocol: Protocol::Ufs,
        depth: DEPTH,
        command: Ns(3_000),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 1_166_000_000,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&SHAPE, 0)), Bytes::default());
    let dispatcher = Dispatcher::new(&SHAPE, dispatch, Cells::new(&SHAPE, array), units);
    let config = DriveConfig { pages: PAGES, front, cache: None, map: Some(map), hpb: Some(hpb.clone()) };
    Ssd::new(config, &SHAPE, dispatcher).expect("a drive that can be")
}

/// What a host observes: for each request, the time at which it ends, its result, and the data read.
fn outcome<D: BlockDevice>(device: &mut D) -> Vec<(BlockDone, Vec<u8>)> {
    let mut rng: Rng = Seed(7).stream("link");
    let mut seen = Vec::new();
    let mut asked: Vec<Option<BlockRequest>> = vec![None; DEPTH as usize];
    let mut now = Ns(0);
    for step in 0..4_000u32 {
        let tag = match asked.iter().position(Option::is_none) {
            Some(tag) => tag,
            None => {
                let done = device.next_done(Ns(u64::MAX)).expect("something is under way");
                let request = asked[done.tag as usize].take().expect("it was under way");
                let mut data = vec![0; if request.op == BlockOp::Read { request.bytes() as usize } else { 0 }];
                if !data.is_empty() {
                    device.take(done.tag, &mut data);
                }
                now = done.at;
                let tag = done.tag as usize;
                seen.push((done, data));
                tag
            }
        };
        let page = rng.below(u64::from(PAGES));
        let pages = if rng.chance(0.3) { 1 + rng.below(6) } else { 1 }.min(u64::from(PAGES) - page);
        let (sector, sectors) = (page * BLOCK_SECTORS, (pages * BLOCK_SECTORS) as u32);
        let request = match rng.below(20) {
            0..=6 => BlockRequest { fua: rng.chance(0.2), ..BlockRequest::write(sector, sectors) },
            7 => BlockRequest::trim(sector, sectors),
            8 => BlockRequest::flush(),
            _ => BlockRequest::read(sector, sectors),
        };
        let bytes = if request.op == BlockOp::Write { request.bytes() as usize } else { 0 };
        let data: Vec<u8> = step.to_le_bytes().into_iter().cycle().take(bytes).collect();
        match device.submit(now, tag as u32, request, Payload::Bytes(&data)) {
            Ok(()) => asked[tag] = Some(request),
            Err(error) => seen.push((BlockDone { tag: tag as u32, at: now, result: Err(error) }, Vec::new())),
        }
    }
    seen
}

#[test]
fn a_drive_behind_its_link_does_what_it_does_without() {
    for control in [Control::Device, Control::Host] {
        let config = hpb(control);
        let plain = outcome(&mut Hpb::new(drive(&config)));
        let mut linked = Hpb::new(Link::new(drive(&config), &config, 0));
        assert!(plain == outcome(&mut linked), "{control:?}: times or data differ");
        let link = linked.device();
        assert!(link.upius > 3_000 && link.hpb > 50, "{control:?}: {} UPIUs, {} of HPB", link.upius, link.hpb);
        let driver = linked.driver().expect("a drive with HPB").stats();
        assert!(driver.hit_cnt > 100 && driver.pre_requests > 10, "{control:?}: {driver:?}");
    }
}

#[test]
fn a_wrong_address_in_a_write_10_does_not_go_unnoticed() {
    let config = hpb(Control::Device);
    let plain = outcome(&mut Hpb::new(drive(&config)));
    let astray = outcome(&mut Hpb::new(Link::new(drive(&config), &config, 1)));
    let data = |seen: Vec<(BlockDone, Vec<u8>)>| -> Vec<Vec<u8>> { seen.into_iter().map(|(_, data)| data).collect() };
    assert!(data(plain) != data(astray), "every page is written one block too far, and reads as it should");
}
