//! Times, computed by hand, and the same with bytes as without.

use nand::{Array, ArrayConfig, Bytes, CellTimes, Costs, Store, Tags, Timing};
use sim::seam::{BlockDevice, BlockOp, BlockRequest, Payload};
use sim::{Ns, Seed};
use ubi::block::{Because, BlockConfig, Form, OnUbi, UbiBlock};
use ubi::{Config, Policy};

use crate::rig::{Host, NAND, Noted, SECTOR, WRITING, block, formatted, without_fastmap};

/// Virtual time at which the load begins: formatting has ended long before.
const START: Ns = Ns(100_000_000_000);

/// 25 µs a page read, 200 µs a page programmed, 2 ms a block erased; transfers are free.
fn timed() -> ArrayConfig {
    let cells = CellTimes { read: Ns::from_us(25), program: Ns::from_us(200), erase: Ns::from_ms(2) };
    ArrayConfig { timing: Timing::Fixed(Costs { cells, ..Costs::FREE }), ..ArrayConfig::plain(NAND) }
}

/// A device on which every LEB is written, and a host at [`START`].
fn host(form: Form) -> Host<OnUbi<Array<Bytes>>> {
    let mut host = Host::new(formatted(timed(), Bytes::new(), &without_fastmap(), 4), block(form, 1));
    host.write(1, 0, 28).unwrap();
    let (volume, closed) = host.device.close(host.now);
    assert!(closed.unwrap() < START);
    let mut host = Host { device: UbiBlock::new(volume, START, block(form, 1)).unwrap(), now: START };
    host.wait(Ns::ZERO);
    host
}

/// Time of a request, in µs.
fn us(host: &mut Host<OnUbi<Array<Bytes>>>, request: BlockRequest) -> u64 {
    let began = host.now;
    let done = host.ask(request, &vec![7; request.bytes() as usize]);
    done.result.unwrap();
    (done.at - began).0 / 1_000
}

#[test]
fn each_request_takes_the_time_of_its_pages() {
    let mut host = host(Form::Atomic);
    // The driver's microsecond, and two pages of 256 bytes.
    assert_eq!(us(&mut host, BlockRequest::read(0, 1)), 1 + 2 * 25);
    // Two sectors on either side of a LEB's end.
    assert_eq!(us(&mut host, BlockRequest::read(6, 2)), 1 + 4 * 25);
    // The LEB of 14 pages is read.
    assert_eq!(us(&mut host, BlockRequest::write(0, 1)), 1 + 14 * 25);
    assert_eq!(us(&mut host, BlockRequest::write(1, 1)), 1);
    assert_eq!(us(&mut host, BlockRequest::read(0, 7)), 1);
    // LEB 0 is changed: a VID header and 14 pages. LEB 1 is written whole, and not read.
    assert_eq!(us(&mut host, BlockRequest::write(7, 7)), 1 + 15 * 200);
    // The background thread began to erase the old PEB of LEB 0 when the request ended: 2 ms, and 200 µs for the EC
    // header. The driver's microsecond passes meanwhile.
    assert_eq!(us(&mut host, BlockRequest::read(14, 1)), 2_000 + 200 + 2 * 25);
    assert_eq!(us(&mut host, BlockRequest::flush()), 1 + 15 * 200);
    assert_eq!(us(&mut host, BlockRequest::flush()), 1);
}

#[test]
fn a_queue_is_served_one_by_one_in_order() {
    let mut host = host(Form::Atomic);
    for tag in 0..3 {
        host.device.submit(START, tag, BlockRequest::read(u64::from(tag), 1), Payload::Length(0)).unwrap();
    }
    let done = |host: &mut Host<_>, until: u64| host.device.next_done(START + Ns::from_us(until));
    assert_eq!(done(&mut host, 50), None);
    for (tag, at) in [(0, 51), (1, 102), (2, 153)] {
        let done = done(&mut host, at).expect("it is done");
        assert_eq!((done.tag, done.at), (tag, START + Ns::from_us(at)));
    }
    assert_eq!(done(&mut host, 9_999), None);
}

#[test]
fn a_request_that_waits_begins_before_an_erasure_that_is_due_at_the_same_time() {
    let mut host = host(Form::Atomic);
    host.write(2, 0, 1).unwrap();
    let began = host.now;
    let whole_leb = BlockRequest::write(7, 7);
    host.device.submit(began, 0, whole_leb, Payload::Bytes(&[7; 7 * SECTOR])).unwrap();
    host.device.submit(began, 1, BlockRequest::read(14, 1), Payload::Length(0)).unwrap();
    let mut done = || host.device.next_done(Ns(u64::MAX)).map(|done| (done.tag, (done.at - began).0 / 1_000));
    let write_back = 15 * 200;
    assert_eq!((done(), done()), (Some((0, 1 + write_back)), Some((1, 2 + write_back + 2 * 25))));
}

#[test]
fn dirty_lebs_are_written_back_when_the_idle_time_has_passed_and_no_sooner() {
    for form in WRITING {
        let mut host = host(form);
        host.write(2, 0, 1).unwrap();
        host.wait(Ns(999_999_999));
        assert_eq!(host.device.dirty_lebs(), 1, "{form:?}");
        host.wait(Ns(1));
        assert_eq!(host.device.dirty_lebs(), 0, "{form:?}");
        assert_eq!(host.device.stats().written_back(Because::Idle), 1);
        host.write(3, 0, 1).unwrap();
        for _ in 0..5 {
            host.wait(Ns(900_000_000));
            host.read(0, 1).unwrap();
        }
        assert_eq!(host.device.dirty_lebs(), 1, "{form:?}: requests put it off");
    }
}

#[test]
fn a_background_that_never_ends_rests_until_the_next_request() {
    let mut host = Host::new(Noted { works: 10, ..Noted::new(2, 1024) }, block(Form::Atomic, 1));
    host.wait(Ns::from_ms(3) - Ns(1));
    assert_eq!(host.device.volume().worked, 3, "one a millisecond, from the first on");
    host.wait(Ns::from_s(60));
    assert_eq!(host.device.volume().worked, 10);
    host.read(0, 1).unwrap();
    host.wait(Ns::from_s(60));
    assert_eq!(host.device.volume().worked, 20);
}

#[test]
fn without_an_idle_time_a_leb_stays_dirty_for_years() {
    let config = BlockConfig { idle: None, ..BlockConfig::default() };
    let mut host = Host::new(formatted(timed(), Bytes::new(), &without_fastmap(), 4), config);
    host.write(2, 0, 1).unwrap();
    host.wait(Ns::from_s(100_000_000));
    assert_eq!(host.device.dirty_lebs(), 1);
}

#[test]
fn a_host_that_does_not_poll_before_it_submits_meets_the_same_device() {
    let mut polite = host(Form::Atomic);
    polite.write(2, 0, 1).unwrap();
    polite.wait(Ns::from_s(3));
    let expected = polite.ask(BlockRequest::read(7, 1), &[]);
    let mut hasty = host(Form::Atomic);
    hasty.write(2, 0, 1).unwrap();
    hasty.now += Ns::from_s(3);
    assert_eq!(hasty.ask(BlockRequest::read(7, 1), &[]), expected);
    assert_eq!(hasty.device.stats(), polite.device.stats());
}

/// Completions, erasures and counters of a random load.
fn run<S: Store + Clone>(store: S, config: &Config, form: Form) -> (Vec<(u32, Ns)>, Vec<u32>, ubi::block::BlockStats) {
    let volume = formatted(timed(), store, config, 9);
    let mut device = UbiBlock::new(volume, START, block(form, 2)).unwrap();
    let mut rng = Seed(5).stream("test/load");
    let (mut done, mut now) = (Vec::new(), START);
    for i in 0..400 {
        let op = [BlockOp::Read, BlockOp::Write, BlockOp::Write, BlockOp::Flush, BlockOp::Trim][rng.below(5) as usize];
        let sectors = 1 + rng.below(10) as u32;
        let sector = rng.below(u64::from(63 - sectors));
        let request = match op {
            BlockOp::Flush if i % 4 > 0 => continue,
            BlockOp::Flush => BlockRequest::flush(),
            _ => BlockRequest { op, sector, sectors, fua: false, queue: 0 },
        };
        let data = vec![7; request.bytes() as usize];
        let data = if op == BlockOp::Write { Payload::Bytes(&data) } else { Payload::Length(0) };
        device.submit(now, i % 64, request, data).unwrap();
        now += Ns(rng.below(12_000_000));
        while let Some(next) = device.next_done(now) {
            assert_eq!(next.result, Ok(()));
            done.push((next.tag, next.at));
        }
    }
    while let Some(next) = device.next_done(Ns(u64::MAX)) {
        done.push((next.tag, next.at));
    }
    let stats = device.stats().clone();
    (done, device.volume().ubi().flash().erase_counts().to_vec(), stats)
}

#[test]
fn tags_and_bytes_take_as_long_and_wear_alike() {
    for form in WRITING {
        for config in [without_fastmap(), Config::linux(Policy::LINUX_6_7)] {
            let (with, without) = (run(Bytes::new(), &config, form), run(Tags, &config, form));
            assert!(with.2.all_written_back() > 50, "{:?}", with.2);
            assert!(with == without, "{form:?}");
        }
    }
}
