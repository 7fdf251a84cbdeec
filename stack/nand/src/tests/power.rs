//! Power off and on, cuts by time, what lies behind the rules' back, and operations of no bytes.

use sim::seam::{Flash, FlashError, Payload};
use sim::{CpuPrice, Cx, Ns, Peb, Seed};

use super::{NAND, NOR, plain, put, read};
use crate::{
    Array, ArrayConfig, Bytes, CellTimes, Costs, FaultPlan, HostPrice, NandsimFaults, PageOrder, PowerCut, PrefixBytes,
    Store, Tear, Timing,
};

const LOST: FlashError = FlashError::PowerLost;
const CELLS: CellTimes = CellTimes { read: Ns::from_us(25), program: Ns::from_us(200), erase: Ns::from_us(700) };

/// One device on the fast path, and one for each thing that takes it to the careful one.
fn devices() -> Vec<ArrayConfig> {
    let fast = ArrayConfig::plain(NAND);
    let cpu = CpuPrice { copy_ps_per_byte: 500, ..CpuPrice::FREE };
    let mut any = fast.clone();
    any.rules.order = PageOrder::Any;
    vec![
        ArrayConfig { timing: Timing::Fixed(Costs { cells: CELLS, ..Costs::FREE }), ..fast.clone() },
        ArrayConfig { faults: Some(FaultPlan::none(Seed(1))), ..fast.clone() },
        ArrayConfig { host: HostPrice { cpu, erase: Ns(1) }, ..fast.clone() },
        any,
        fast,
        ArrayConfig::plain(NOR),
    ]
}

#[test]
fn without_power_every_call_is_lost_and_with_it_nothing_has_changed() {
    for config in devices() {
        let mut array = Array::new(config, Bytes::new());
        let cx = &mut Cx::new();
        put(&mut array, 1, 0, &[0x42; 512]);
        assert!(array.is_powered());
        array.power_off();
        assert!(!array.is_powered());
        assert_eq!(array.program(cx, Peb(1), 512, Payload::Length(512)), Err(LOST));
        assert_eq!(array.erase(cx, Peb(1)), Err(LOST));
        assert_eq!(array.read(cx, Peb(1), 0, &mut [0; 4]).map(drop), Err(LOST));
        assert_eq!(array.mark_bad(cx, Peb(1)), Err(LOST));
        assert_eq!(Flash::read_oob(&mut array, cx, Peb(1), 0, &mut [0; 4]), Err(LOST));
        assert_eq!(array.program_oob(cx, Peb(1), 0, &[0; 4]), Err(LOST));
        assert_eq!(array.program_with_oob(cx, Peb(1), 512, Payload::Length(512), &[0; 4]), Err(LOST));
        assert_eq!((array.ops_total(), array.ops()), (1, 1));
        array.power_on();
        assert!(array.is_powered());
        assert_eq!((array.ops_total(), array.ops()), (1, 0), "operations count from power-on");
        assert_eq!(read(&mut array, 1, 0, 1024), [[0x42; 512], [0xff; 512]].concat());
        put(&mut array, 1, 512, &[0x43; 512]);
        array.erase(cx, Peb(1)).unwrap();
        assert_eq!((array.ops_total(), array.ops()), (3, 2));
        array.check();
    }
}

#[test]
fn a_cut_by_operations_does_not_meet_a_read() {
    let mut array = plain(NAND);
    array.set_power_cut(Some(PowerCut::at_op(0, Tear::Clean)));
    assert_eq!(read(&mut array, 0, 0, 4), [0xff; 4]);
    assert_eq!(array.erase(&mut Cx::new(), Peb(0)), Err(LOST));
    array.power_on();
    array.set_power_cut(Some(PowerCut::at_op(0, Tear::Clean)));
    array.set_power_cut(None);
    array.erase(&mut Cx::new(), Peb(0)).expect("the cut was disarmed");
}

/// On flash that takes no time an operation is one moment, and is met by a cut at it or before it.
#[test]
fn a_cut_by_time_meets_operations_that_take_none() {
    let works: [Work; 3] = [
        |array, cx| array.read(cx, Peb(1), 0, &mut [0; 512]).map(drop),
        |array, cx| array.program(cx, Peb(1), 0, Payload::Bytes(&[9; 512])),
        |array, cx| array.erase(cx, Peb(1)),
    ];
    for work in works {
        for begins in [998, 999, 1000, 1001] {
            let (mut array, mut cx) = (plain(NAND), Cx::new());
            array.set_power_cut(Some(PowerCut::at_time(Ns(1000), Tear::Clean)));
            cx.spend(Ns(begins));
            assert_eq!(work(&mut array, &mut cx), if begins < 1000 { Ok(()) } else { Err(LOST) }, "at {begins} ns");
        }
    }
}

type Work = fn(&mut Array<Bytes>, &mut Cx) -> Result<(), FlashError>;

/// Operations with the microseconds that they take by `CELLS`.
const TIMED: [(u64, Work); 3] = [
    (25, |array, cx| array.read(cx, Peb(1), 0, &mut [0; 512]).map(drop)),
    (200, |array, cx| array.program(cx, Peb(1), 512, Payload::Bytes(&[9; 512]))),
    (700, |array, cx| array.erase(cx, Peb(1))),
];

/// What a cut ended keeps no die and no bus busy: the next operation begins when power is back.
#[test]
fn an_operation_that_was_cut_is_over() {
    for (us, work) in TIMED {
        let timing = Timing::Fixed(Costs { cells: CELLS, ..Costs::FREE });
        let mut array = Array::new(ArrayConfig { timing, ..ArrayConfig::plain(NAND) }, Bytes::new());
        let mut cx = Cx::new();
        array.set_power_cut(Some(PowerCut::at_time(Ns::from_us(1), Tear::Clean)));
        assert_eq!(work(&mut array, &mut cx), Err(LOST));
        array.power_on();
        work(&mut array, &mut cx).expect("a cut trips once");
        assert_eq!(cx.now(), Ns::from_us(1 + us));
    }
}

/// A read of 25 µs, a program of 200 and an erase of 700, each begun at 1 ms and cut at its beginning, within, and at its end.
#[test]
fn a_cut_by_time_meets_every_operation_that_is_under_way() {
    for (us, work) in TIMED {
        for (at, is_done) in [(1000, false), (1001, false), (999 + us, false), (1000 + us, true), (5000, true)] {
            let timing = Timing::Fixed(Costs { cells: CELLS, ..Costs::FREE });
            let mut array = Array::new(ArrayConfig { timing, ..ArrayConfig::plain(NAND) }, Bytes::new());
            let mut cx = Cx::new();
            put(&mut array, 1, 0, &[0x42; 512]);
            cx.spend(Ns::from_ms(1));
            let cut = PowerCut::at_time(Ns::from_us(at), Tear::Clean);
            array.set_power_cut(Some(cut));
            let found = work(&mut array, &mut cx);
            assert_eq!(found, if is_done { Ok(()) } else { Err(LOST) }, "{us} µs, cut at {at}");
            assert_eq!(array.is_powered(), is_done);
            assert_eq!(cx.now(), Ns::from_us(if is_done { 1000 + us } else { at }), "the clock stands at the cut");
            array.power_on();
            if !is_done {
                assert_eq!(read(&mut array, 1, 0, 1024), [[0x42; 512], [0xff; 512]].concat());
                work(&mut array, &mut cx).expect("a cut trips once");
            }
        }
    }
}

/// A cut that the clock has passed meets the next operation before it begins: nothing is torn, whatever its shape.
#[test]
fn an_operation_after_the_cut_does_not_begin() {
    let timing = Timing::Fixed(Costs { cells: CELLS, ..Costs::FREE });
    let mut array = Array::new(ArrayConfig { timing, ..ArrayConfig::plain(NAND) }, Bytes::new());
    put(&mut array, 1, 0, &[0x42; 512]);
    for step in 0..3 {
        let tear = Tear::Prefix(PrefixBytes::Exactly(u32::MAX));
        array.set_power_cut(Some(PowerCut::at_time(Ns::from_ms(1), tear)));
        let mut cx = Cx::new();
        cx.spend(Ns::from_ms(1));
        let found = match step {
            0 => array.read(&mut cx, Peb(1), 0, &mut [0; 4]).map(drop),
            1 => array.program(&mut cx, Peb(1), 512, Payload::Bytes(&[1; 512])),
            _ => array.erase(&mut cx, Peb(1)),
        };
        assert_eq!(found, Err(LOST), "{step}");
        array.power_on();
        assert_eq!(read(&mut array, 1, 0, 1024), [[0x42; 512], [0xff; 512]].concat(), "{step}");
        assert_eq!((array.mark(Peb(1)), array.erase_counts()[1]), (512, 0), "{step}");
    }
}

#[test]
fn an_operation_of_no_bytes_does_nothing() {
    for config in devices() {
        let mut array = Array::new(config, Bytes::with_oob());
        let mut cx = Cx::new();
        put(&mut array, 1, 0, &[1; 512]);
        let before = array.reads();
        array.program(&mut cx, Peb(1), 0, Payload::Bytes(&[])).unwrap();
        array.program(&mut cx, Peb(1), 4096, Payload::Length(0)).unwrap();
        array.read(&mut cx, Peb(1), 4096, &mut []).unwrap();
        assert_eq!((array.ops(), array.mark(Peb(1)), array.bytes_into_cells()), (1, 512, 512));
        let reads = array.reads();
        assert_eq!((reads.ops - before.ops, reads.pages - before.pages, reads.bytes - before.bytes), (1, 0, 0));
        array.mark_bad(&mut cx, Peb(1)).unwrap();
        let bad = Err(FlashError::BadBlock { peb: Peb(1) });
        assert_eq!(array.program(&mut cx, Peb(1), 512, Payload::Length(0)), bad);
    }
    // Nor does it use up a read of a page that has one left.
    let nandsim = NandsimFaults::parse("", "", "", "8:1", 0).unwrap();
    let faults = Some(FaultPlan { nandsim, ..FaultPlan::none(Seed(1)) });
    let mut array = Array::new(ArrayConfig { faults, ..ArrayConfig::plain(NAND) }, Bytes::new());
    put(&mut array, 1, 0, &[1; 512]);
    (0..3).for_each(|_| assert!(array.read(&mut Cx::new(), Peb(1), 100, &mut []).is_ok()));
    assert_eq!(read(&mut array, 1, 100, 4), [1; 4]);
    array.read(&mut Cx::new(), Peb(1), 100, &mut [0; 4]).unwrap_err();
    // A program with no OOB is any program: of a sub-page too.
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
    array.program_with_oob(&mut Cx::new(), Peb(1), 128, Payload::Bytes(&[3; 128]), &[]).unwrap();
    assert_eq!(read(&mut array, 1, 128, 128), [3; 128]);
}

/// Errors name the place and length that were asked for.
#[test]
fn a_refused_place_is_named() {
    let mut array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
    let cx = &mut Cx::new();
    let peb = Peb(1);
    let outside = |offset, len| Err(FlashError::OutOfBounds { peb, offset, len });
    assert_eq!(array.program_with_oob(cx, peb, 256, Payload::Length(512), &[0; 16]), outside(256, 512));
    assert_eq!(array.program_with_oob(cx, peb, 512, Payload::Length(1024), &[0; 16]), outside(512, 1024));
    assert_eq!(array.program_with_oob(cx, peb, 512, Payload::Length(512), &[0; 17]), outside(512, 17));
    assert_eq!(array.read_oob(peb, 8, &mut [0; 3]), outside(4096, 3));
    assert_eq!(array.read_oob(peb, 7, &mut [0; 17]), outside(3584, 17));
    array.read_oob(peb, 7, &mut [0; 16]).unwrap();
    assert_eq!(Flash::read_oob(&mut array, cx, peb, 4096, &mut [0; 1]), outside(4096, 1));
    assert_eq!(Flash::read_oob(&mut array, cx, peb, 0, &mut [0; 17]), outside(0, 17), "the page has 16");
    let past = Peb(4);
    let outside = Err(FlashError::OutOfBounds { peb: past, offset: 0, len: 1 });
    assert_eq!(array.read_oob(past, 0, &mut [0; 1]), outside);
    assert_eq!(array.program_oob(cx, past, 0, &[0]), outside);
    let mut nor = plain(NOR);
    assert!(nor.program_oob(cx, Peb(0), 0, &[]).is_err(), "a NOR has no OOB");
}

/// A change behind the rules' back is there for readers and for the rules, and is no operation.
#[test]
fn tampered_cells_count_as_programmed_and_cost_nothing() {
    for order in [PageOrder::Ascending, PageOrder::Any] {
        let mut config = ArrayConfig::plain(NAND);
        config.rules.order = order;
        let mut array = Array::new(config, Bytes::with_oob());
        let cx = &mut Cx::new();
        array.program_with_oob(cx, Peb(2), 0, Payload::Bytes(&[0x0f; 512]), &[0x33; 16]).unwrap();
        array.tamper(Peb(2), |cells| {
            assert_eq!(cells[..513], [[0x0f; 512].as_slice(), &[0xff]].concat());
            cells[3] = 0xf3;
            cells[700] = 0;
        });
        assert_eq!((array.ops(), array.bytes_into_cells(), array.erase_counts()[2]), (1, 512, 0));
        assert_eq!(read(&mut array, 2, 2, 3), [0x0f, 0xf3, 0x0f]);
        assert_eq!(read(&mut array, 2, 699, 3), [0xff, 0, 0xff]);
        let mut oob = [0; 16];
        array.read_oob(Peb(2), 0, &mut oob).unwrap();
        assert_eq!(oob, [0x33; 16], "OOB stays");
        assert_eq!(array.mark(Peb(2)), 768, "the sub-page of byte 700 ends there");
        let refused = array.program(cx, Peb(2), 640, Payload::Length(128));
        assert_eq!(refused, Err(FlashError::NotErased { peb: Peb(2), offset: 640 }));
        put(&mut array, 2, 768, &[1; 128]);
        assert_eq!(read(&mut array, 2, 699, 3), [0xff, 0, 0xff]);
        // Cells may rise as well; the mark never goes back.
        array.tamper(Peb(2), |cells| cells.fill(0xff));
        assert_eq!((read(&mut array, 2, 0, 4096), array.mark(Peb(2))), (vec![0xff; 4096], 896));
        assert_eq!(read(&mut array, 1, 0, 4096), [0xff; 4096], "no other block");
        array.check();
    }
}

/// What an array takes grows with what it keeps: pages in any order, the age of each page, and torn cells.
#[test]
fn what_is_kept_is_counted_as_held() {
    let pages = u64::from(NAND.pebs * NAND.pages_per_peb()) as usize;
    let plain = Array::new(ArrayConfig::plain(NAND), Bytes::new()).held_bytes();
    let mut any = ArrayConfig::plain(NAND);
    any.rules.order = PageOrder::Any;
    let any = Array::new(any, Bytes::new()).held_bytes();
    assert_eq!(any, plain + 5 * pages, "five bytes per page");
    let faults = |bit_errors, wear_out| {
        let mut config = ArrayConfig::plain(NAND);
        config.faults = Some(FaultPlan { bit_errors, wear_out, ..FaultPlan::none(Seed(0)) });
        Array::new(config, Bytes::new()).held_bytes()
    };
    let none = faults(None, None);
    assert!(none > plain);
    let (bits, wear) = (crate::BitErrors::by_rating(1000), crate::WearOut::by_rating(1000));
    assert_eq!(faults(Some(bits), None), none + 8 * (pages + 4), "a time per page, a count of reads per block");
    assert_eq!(faults(None, Some(wear)), none + 4 * 4, "an endurance per block");
    let mut oob = Bytes::with_oob();
    oob.attach(&NAND);
    assert!(oob.held_bytes() > 0);
}
