//! When the flash below a drive is called: at the end of each operation in its array, later by the time for which the
//! drive lay on a shelf. What the cells lose depends on it.

use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{BlockDevice, BlockRequest, Flash, FlashError, Geometry, Payload, ReadStatus};
use sim::{Cx, Ns, Peb, Seed};
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::{
    BusOrder, Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd,
    Timing, TrimmedReads,
};

/// An array that notes what it is asked for, and when.
struct Noted {
    array: Array<Bytes>,
    notes: Vec<(&'static str, u64)>,
}

impl Flash for Noted {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.array.geometry()
    }
    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.notes.push(("read", cx.now().0));
        self.array.read(cx, peb, offset, buf)
    }
    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.notes.push(("program", cx.now().0));
        self.array.program(cx, peb, offset, data)
    }
    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        self.notes.push(("program", cx.now().0));
        self.array.program_with_oob(cx, peb, offset, data, oob)
    }
    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        Flash::read_oob(&mut self.array, cx, peb, offset, buf)
    }
    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.notes.push(("erase", cx.now().0));
        self.array.erase(cx, peb)
    }
    fn is_bad(&self, peb: Peb) -> bool {
        self.array.is_bad(peb)
    }
    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.mark_bad(cx, peb)
    }
}

#[test]
fn cells_change_when_an_operation_ends_and_age_on_the_shelf() {
    let shape = Shape {
        channels: 1,
        ways: 1,
        dies: 1,
        planes: 1,
        blocks: 6,
        pages: 4,
        page_bytes: 512,
        order: Order::CHANNEL_FIRST,
        multi_plane: false,
    };
    let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Bytes::default());
    let timing = Timing::plain(Ns(50), Ns(200), Ns(1_000), Ns(2), Ns(10));
    let (scheduling, bus_order) = (Scheduling::ReadsFirst, BusOrder::CommandsFirst);
    let config = DispatchConfig { timing, scheduling, bus_order, background_after: None };
    let front = FrontConfig {
        protocol: Protocol::Ufs,
        depth: 4,
        command: Ns(0),
        read_latency: Ns::ZERO,
        write_latency: Ns::ZERO,
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: false,
        trimmed_reads: TrimmedReads::Zeroes,
    };
    let ftl = PageFtl::new(PageConfig::new(6, 4, 8), Seed(1).stream("gc")).expect("a legal geometry");
    let cells = Cells::new(&shape, Noted { array, notes: Vec::new() });
    let dispatcher = Dispatcher::new(&shape, config, cells, vec![ftl]);
    let config = DriveConfig { pages: 8, front, cache: None, map: None, hpb: None };
    let mut drive = Ssd::new(config, &shape, dispatcher).expect("a drive that can be");
    let ask = |drive: &mut Ssd<Noted, PageFtl>, at: u64, request: BlockRequest| {
        drive.submit(Ns(at), 0, request, Payload::Bytes(&vec![7; request.bytes() as usize])).expect("a free tag");
        assert_eq!(drive.next_done(Ns(u64::MAX)).map(|done| done.result), Some(Ok(())));
        std::mem::take(&mut drive.flash_mut().notes)
    };
    // Two programs of 212; a read is 52 until the end of its array.
    assert_eq!(ask(&mut drive, 1_000, BlockRequest::write(0, 2)), [("program", 1_212), ("program", 1_424)]);
    assert_eq!(ask(&mut drive, 5_000, BlockRequest::read(0, 2)), [("read", 5_052), ("read", 5_114)]);
    drive.age(Ns(1_000_000));
    assert_eq!(drive.now(), Ns(5_124), "the drive's own clock stood still");
    assert_eq!(ask(&mut drive, 6_000, BlockRequest::read(0, 1)), [("read", 1_006_052)]);
    drive.age(Ns(10_000_000));
    assert_eq!(ask(&mut drive, 7_000, BlockRequest::write(3, 1)), [("program", 11_007_212)]);
    // Collection: an erase is 1,002 after what comes before it.
    let mut erased = 0;
    for round in 0..40u64 {
        let at = 10_000 * (round + 1);
        let notes = ask(&mut drive, at, BlockRequest::write(round % 2, 1));
        let mut last = 11_000_000 + at;
        for (what, now) in notes {
            // A copy reads its source when its program ends.
            let took = match what {
                "erase" => 1_002,
                "program" if now == last => 0,
                "program" => 212,
                _ => 274,
            };
            assert_eq!(now, last + took, "{what}");
            erased += u32::from(what == "erase");
            last = now;
        }
    }
    assert!(erased > 2, "{erased} erases");
}
