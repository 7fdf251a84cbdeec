//! Timing, to the tick.

use sim::seam::{Flash, Geometry, Medium, Payload};
use sim::{CpuPrice, Cx, Ns, Peb};

use super::{NAND, NOR};
use crate::{
    Array, ArrayConfig, BusMode, CellTimes, Costs, CutAt, HostPrice, Layout, NandsimDelays, PowerCut, Tags, Tear,
    Timing,
};

const CELLS: CellTimes = CellTimes { read: Ns::from_us(25), program: Ns::from_us(200), erase: Ns::from_us(700) };

fn timed(geometry: Geometry, timing: Timing) -> Array<Tags> {
    Array::new(ArrayConfig { timing, ..ArrayConfig::plain(geometry) }, Tags)
}

/// Times of a page read, a page program and an erase.
fn spans(array: &mut Array<Tags>) -> [Ns; 3] {
    let page = array.geometry().page_bytes;
    let mut cx = Cx::new();
    array.program(&mut cx, Peb(0), 0, Payload::Length(page)).unwrap();
    let program = cx.now();
    array.read(&mut cx, Peb(0), 0, &mut vec![0; page as usize]).unwrap();
    let read = cx.now() - program;
    array.erase(&mut cx, Peb(0)).unwrap();
    [read, program, cx.now() - program - read]
}

fn pages_of(page_bytes: u32) -> Geometry {
    let (peb_bytes, subpage_bytes) = (64 * page_bytes, page_bytes);
    Geometry { medium: Medium::Nand, pebs: 4, peb_bytes, page_bytes, subpage_bytes, oob_bytes: page_bytes / 32 }
}

#[test]
fn nandsim_with_delays_takes_what_nandsim_takes() {
    let timing = Timing::NandsimOn(NandsimDelays::DEFAULT);
    let us = Ns::from_us;
    assert_eq!(spans(&mut timed(pages_of(2048), timing)), [us(127), us(281), us(2000)]);
    assert_eq!(spans(&mut timed(pages_of(4096), timing)), [us(229), us(363), us(2000)]);
    // In integer division: 16384 × 50 / 1000 is 819, and × 40 / 1000 is 655.
    assert_eq!(spans(&mut timed(pages_of(16_384), timing)), [us(25 + 819), us(200 + 655), us(2000)]);
    let wide = Timing::NandsimOn(NandsimDelays { bus_bits: 16, ..NandsimDelays::DEFAULT });
    assert_eq!(spans(&mut timed(pages_of(2048), wide)), [us(76), us(240), us(2000)]);
}

#[test]
fn nandsim_without_delays_takes_only_the_hosts_time() {
    let mut config = ArrayConfig::plain(pages_of(2048));
    let cpu = CpuPrice { copy_ps_per_byte: 500, ..CpuPrice::FREE };
    config.host = HostPrice { cpu, erase: Ns(300) };
    assert_eq!(spans(&mut Array::new(config, Tags)), [Ns(1024), Ns(1024), Ns(300)]);
    assert_eq!(spans(&mut timed(pages_of(2048), Timing::NandsimOff)), [Ns(0); 3]);
}

#[test]
fn onfi_sdr_mode_5_moves_a_byte_in_20_ns() {
    let timing = Timing::onfi(BusMode::Sdr(5), CELLS);
    let data = (2048 + 64) * 20;
    let read = 25_000 + 7 * 20 + 100 + data;
    let program = 8 * 20 + 400 + 100 + 80 + data + 200_000;
    let erase = 6 * 20 + 100 + 80 + 700_000;
    assert_eq!(spans(&mut timed(pages_of(2048), timing)), [Ns(read), Ns(program), Ns(erase)]);
}

#[test]
fn every_onfi_mode_has_its_rate() {
    let rate = |mode: BusMode| 1_000_000 / mode.costs().out_ps_per_byte;
    let sdr: Vec<_> = (0..6).map(|mode| rate(BusMode::Sdr(mode))).collect();
    let ddr: Vec<_> = (0..6).map(|mode| rate(BusMode::NvDdr(mode))).collect();
    assert_eq!(sdr, [10, 20, 28, 33, 40, 50], "MB/s");
    assert_eq!(ddr, [40, 66, 100, 133, 166, 200], "MB/s");
    assert_eq!(BusMode::Sdr(1).costs().in_ps_per_byte, 45_000, "writes have their own cycle");
}

#[test]
fn a_part_of_a_page_moves_only_its_subpages() {
    let mut array = timed(NAND, Timing::onfi(BusMode::Sdr(5), CELLS));
    let mut cx = Cx::new();
    array.read(&mut cx, Peb(0), 130, &mut [0; 200]).unwrap();
    // Bytes 130 to 329 lie in sub-pages 1 and 2, each with 4 bytes of OOB.
    assert_eq!(cx.now(), Ns(25_000 + 240 + 2 * (128 + 4) * 20));
}

#[test]
fn a_busy_die_makes_the_next_wait_and_another_does_not() {
    let mut config = ArrayConfig::plain(NAND);
    config.layout = Layout { channels: 2, dies_per_channel: 1, planes: 1 };
    config.timing = Timing::Fixed(Costs { cells: CELLS, ..Costs::FREE });
    let mut array = Array::new(config, Tags);
    assert_eq!([0, 1, 2, 3].map(|peb| array.die_of(Peb(peb))), [0, 0, 1, 1]);
    let (mut a, mut b, mut c) = (Cx::new(), Cx::new(), Cx::new());
    array.erase(&mut a, Peb(0)).unwrap();
    array.erase(&mut b, Peb(1)).unwrap();
    array.erase(&mut c, Peb(2)).unwrap();
    let erase = CELLS.erase;
    assert_eq!((a.now(), b.now(), c.now()), (erase, erase * 2, erase));
    assert_eq!((array.dies()[0].busy(), array.dies()[1].busy()), (erase * 2, erase));
}

#[test]
fn a_busy_die_takes_no_data() {
    let timing = Timing::Fixed(Costs { cells: CELLS, in_ps_per_byte: 1_000_000, ..Costs::FREE });
    let mut array = timed(NAND, timing);
    let (mut a, mut b) = (Cx::new(), Cx::new());
    array.erase(&mut a, Peb(0)).unwrap();
    array.program(&mut b, Peb(1), 0, Payload::Length(512)).unwrap();
    assert_eq!(b.now(), Ns::from_us(700 + 528 + 200), "the transfer begins after the erase");
}

#[test]
fn dies_of_one_channel_share_its_bus() {
    let mut config = ArrayConfig::plain(NAND);
    config.layout = Layout { channels: 1, dies_per_channel: 2, planes: 2 };
    config.timing = Timing::Fixed(Costs { in_ps_per_byte: 1_000_000, ..Costs::FREE });
    let mut array = Array::new(config, Tags);
    let (mut a, mut b) = (Cx::new(), Cx::new());
    array.program(&mut a, Peb(0), 0, Payload::Length(512)).unwrap();
    array.program(&mut b, Peb(2), 0, Payload::Length(512)).unwrap();
    assert_eq!((a.now(), b.now()), (Ns::from_us(528), Ns::from_us(1056)));
    assert_eq!([0, 1, 2, 3].map(|peb| array.plane_of(Peb(peb))), [0, 1, 0, 1]);
}

#[test]
fn nor_is_paid_by_the_byte() {
    let cells = CellTimes { read: Ns::ZERO, program: Ns(880), erase: Ns::from_ms(800) };
    let mode = BusMode::Parallel { cycle_ns: 100, word_bytes: 2 };
    let mut array = timed(NOR, Timing::Bus { mode, cells });
    let mut cx = Cx::new();
    array.program(&mut cx, Peb(0), 3, Payload::Length(10)).unwrap();
    assert_eq!(cx.now(), Ns(10 * 880 + 10 * 50));
    array.read(&mut cx, Peb(0), 0, &mut [0; 100]).unwrap();
    assert_eq!(cx.now(), Ns(9300 + 5000));
}

#[test]
fn a_part_without_timing_makes_nobody_wait() {
    let mut config = ArrayConfig::plain(NAND);
    config.host.erase = Ns(5);
    let mut array = Array::new(config, Tags);
    let (mut late, mut early) = (Cx::new(), Cx::new());
    late.spend(Ns::from_s(1));
    array.erase(&mut late, Peb(0)).unwrap();
    array.erase(&mut early, Peb(0)).unwrap();
    assert_eq!(early.now(), Ns(5));
}

#[test]
fn a_refused_operation_takes_no_time() {
    let mut array = timed(NAND, Timing::onfi(BusMode::Sdr(5), CELLS));
    let mut cx = Cx::new();
    array.program(&mut cx, Peb(0), 0, Payload::Length(512)).unwrap();
    let before = cx.now();
    array.program(&mut cx, Peb(0), 0, Payload::Length(512)).unwrap_err();
    assert_eq!(cx.now(), before);
}

#[test]
fn a_cut_by_time_spares_what_ended_and_tears_what_a_tick_more_would_need() {
    let erase = CELLS.erase;
    let cut_at = |at| {
        let mut array = timed(NAND, Timing::Fixed(Costs { cells: CELLS, ..Costs::FREE }));
        array.set_power_cut(Some(PowerCut::at_time(at, Tear::RandomBits)));
        let mut cx = Cx::new();
        let first = array.erase(&mut cx, Peb(0));
        (first.is_ok(), cx.now(), array.erase(&mut cx, Peb(1)).is_ok(), array.erase_counts().to_vec())
    };
    // The first erase ends exactly at the cut: it is done, and the next does not begin.
    assert_eq!(cut_at(erase), (true, erase, false, vec![1, 0, 0, 0]));
    // One tick earlier: the first erase is torn, and the clock stands at the cut.
    let early = erase - Ns(1);
    assert_eq!(cut_at(early), (false, early, false, vec![1, 0, 0, 0]));
    // One tick later: the second erase has begun.
    assert_eq!(cut_at(erase + Ns(1)), (true, erase, false, vec![1, 1, 0, 0]));
    assert_eq!(PowerCut::at_time(early, Tear::Clean).at, CutAt::Time(early));
}

/// Command, address and status cycles by hand, with tWC, tWB, tADL and tWHR of Linux's `nand_timings.c`: a read takes seven
/// cycles and tWB, a program eight, tADL, tWB and tWHR, an erase six, tWB and tWHR.
#[test]
fn commands_take_the_cycles_of_their_mode() {
    let commands = |mode: BusMode| {
        let costs = mode.costs();
        [costs.read_command.0, costs.program_command.0, costs.erase_command.0]
    };
    assert_eq!(commands(BusMode::Sdr(0)), [700 + 200, 800 + 400 + 200 + 120, 600 + 200 + 120]);
    for (mode, twc) in [(1, 45), (2, 35), (3, 30), (4, 25), (5, 20)] {
        assert_eq!(commands(BusMode::Sdr(mode)), [7 * twc + 100, 8 * twc + 400 + 180, 6 * twc + 180], "mode {mode}");
    }
    for mode in 0..6 {
        assert_eq!(commands(BusMode::NvDdr(mode)), [7 * 45 + 100, 8 * 45 + 400 + 180, 6 * 45 + 180], "mode {mode}");
    }
    let ps = |mode: BusMode| (mode.costs().out_ps_per_byte, mode.costs().in_ps_per_byte);
    assert_eq!(ps(BusMode::NvDdr(1)), (15_000, 15_000), "two bytes in a clock of 30 ns");
    assert_eq!(ps(BusMode::Sdr(1)), (50_000, 45_000));
    // SPI at 50 MHz: 20 ns a bit on each line. An opcode and three address bytes go over one.
    for (lanes, byte_ps) in [(1, 160_000), (2, 80_000), (4, 40_000), (8, 20_000)] {
        let mode = BusMode::Spi { mhz: 50, lanes };
        assert_eq!((ps(mode), commands(mode)), ((byte_ps, byte_ps), [640; 3]));
    }
    let slow = BusMode::Spi { mhz: 1, lanes: 1 };
    assert_eq!((ps(slow), commands(slow)), ((8_000_000, 8_000_000), [32_000; 3]), "a microsecond a bit");
    assert_eq!(ps(BusMode::Parallel { cycle_ns: 90, word_bytes: 2 }), (45_000, 45_000));
    assert_eq!(commands(BusMode::Parallel { cycle_ns: 90, word_bytes: 2 }), [0; 3]);
}

/// Bytes 100 to 1099: all of pages 0 and 1, of which sub-page 0 is fetched for 28 bytes, and one sub-page of page 2.
#[test]
fn each_page_of_a_range_is_paid_once_with_the_sub_pages_that_it_touches() {
    let timing = Timing::Fixed(Costs {
        cells: CELLS,
        out_ps_per_byte: 1000,
        in_ps_per_byte: 2000,
        read_command: Ns(7),
        program_command: Ns(11),
        ..Costs::FREE
    });
    let mut array = timed(NAND, timing);
    let mut cx = Cx::new();
    array.read(&mut cx, Peb(0), 100, &mut [0; 1000]).unwrap();
    assert_eq!(cx.now(), Ns(3 * (25_000 + 7) + (4 + 4 + 1) * 132));
    let before = cx.now();
    array.program(&mut cx, Peb(1), 384, Payload::Length(128 + 512 + 256)).unwrap();
    assert_eq!(cx.now() - before, Ns(3 * (200_000 + 11) + (1 + 4 + 2) * 132 * 2));
    // OOB alone takes a program of one sub-page.
    let before = cx.now();
    array.program_oob(&mut cx, Peb(2), 3, &[0; 4]).unwrap();
    assert_eq!(cx.now() - before, Ns(200_000 + 11 + 132 * 2));
    assert_eq!(array.dies()[0].busy(), Ns(3 * 25_000 + 4 * 200_000));
    assert_eq!(array.channels()[0].busy(), Ns(3 * 7 + 9 * 132 + 4 * 11 + 8 * 132 * 2));
}

/// An operation waits until the one before has left the die, and only then sends its command.
#[test]
fn a_die_is_busy_after_every_operation() {
    let costs =
        Costs { cells: CELLS, read_command: Ns(10), program_command: Ns(20), erase_command: Ns(30), ..Costs::FREE };
    type Work = fn(&mut Array<Tags>, &mut Cx, u32);
    let read: Work = |array, cx, _| array.read(cx, Peb(1), 0, &mut [0; 512]).map(drop).unwrap();
    let program: Work = |array, cx, page| array.program(cx, Peb(2), page * 512, Payload::Length(512)).unwrap();
    let erase: Work = |array, cx, _| array.erase(cx, Peb(3)).unwrap();
    // What each holds the die for, and when it ends after a die that is free at 0.
    let works = [(read, 25_000, 25_010), (program, 200_020, 200_020), (erase, 700_030, 700_030)];
    for (first, held, _) in works {
        for (second, _, takes) in works {
            let mut array = timed(NAND, Timing::Fixed(costs));
            let (mut a, mut b) = (Cx::new(), Cx::new());
            first(&mut array, &mut a, 0);
            second(&mut array, &mut b, 1);
            // A read's transfer does not hold the die, but it holds the bus: a command waits for its end.
            let bus = if held == 25_000 && takes != 25_010 { 10 } else { 0 };
            assert_eq!(b.now(), Ns(held + bus + takes));
        }
    }
}

#[test]
fn blocks_lie_on_dies_in_turn_and_dies_on_channels() {
    let mut config = ArrayConfig::plain(Geometry { pebs: 16, ..NAND });
    config.layout = Layout { channels: 2, dies_per_channel: 2, planes: 2 };
    config.validate().unwrap();
    let array = Array::new(config, Tags);
    let places: Vec<_> =
        (0..16).map(|peb| (array.die_of(Peb(peb)), array.channel_of(Peb(peb)), array.plane_of(Peb(peb)))).collect();
    let expected: Vec<_> = (0..16).map(|peb| (peb / 4, peb / 4 % 2, peb as u32 % 2)).collect();
    assert_eq!(places, expected);
    assert_eq!((array.dies().len(), array.channels().len()), (4, 2));
}

#[test]
fn without_time_nobody_waits_for_a_read_or_a_program_either() {
    let mut array = Array::new(ArrayConfig::plain(NAND), Tags);
    let (mut late, mut early) = (Cx::new(), Cx::new());
    late.spend(Ns::from_s(1));
    array.set_power_cut(Some(PowerCut::at_op(99, Tear::Clean)));
    array.read(&mut late, Peb(0), 0, &mut [0; 4]).unwrap();
    array.program(&mut late, Peb(0), 0, Payload::Length(512)).unwrap();
    array.read(&mut early, Peb(0), 0, &mut [0; 4]).unwrap();
    array.program(&mut early, Peb(0), 512, Payload::Length(512)).unwrap();
    array.erase(&mut early, Peb(0)).unwrap();
    assert_eq!(early.now(), Ns(0));
}
