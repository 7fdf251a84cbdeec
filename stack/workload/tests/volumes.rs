//! Volumes that are written at a rate: bytes, places and times by hand arithmetic, and against a user who issues every
//! record alone.

use proptest::prelude::*;
use sim::{Lnum, Ns, Seed};
use workload::volumes::{Lebs, Limits, Op, Order, Pattern, Rate, Step, Volume, Volumes};

/// A part with PEBs of 128 KiB and pages of 2 KiB: two pages are headers. A LEB is 31 records of 4 KiB.
const SHAPE: Lebs = Lebs { leb_bytes: 126_976, min_io_bytes: 2048 };
const MINUTE: Ns = Ns::from_s(60);
const DAY: Ns = Ns::from_s(86_400);

fn volume(name: &str, lebs: u32, pattern: Pattern) -> Volume {
    Volume { name: name.to_owned(), lebs, pattern }
}

fn log(bytes: u64, write_bytes: u32) -> Pattern {
    Pattern::Append { rate: Rate { bytes, per: MINUTE }, write_bytes }
}

fn rewrite(bytes: u64, write_bytes: u32, order: Order) -> Pattern {
    Pattern::Rewrite { rate: Rate { bytes: 4096, per: MINUTE }, write_bytes, bytes, order }
}

/// Every step of a device that takes no time.
fn steps(volumes: &[Volume], shape: Lebs, seed: u64, limits: Limits) -> Vec<Step> {
    let mut load = Volumes::new(volumes, shape, Seed(seed));
    let (mut steps, mut now, mut left) = (Vec::<Step>::new(), Ns::ZERO, limits.host_bytes);
    while let Some(step) = load.next(now, Limits { host_bytes: left, ..limits }) {
        now = now.max(step.due);
        left = left.saturating_sub(step.host_bytes);
        steps.push(step);
        if left == 0 {
            break;
        }
    }
    steps
}

fn until(time: Ns) -> Limits {
    Limits { until: time, host_bytes: u64::MAX }
}

fn fresh(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step.op, Op::Write { fresh: true, .. })).count()
}

#[test]
fn ten_minutes_of_a_megabyte_a_minute_are_79_lebs() {
    let steps = steps(&[volume("logs", 50, log(1_000_000, 4096))], SHAPE, 1, until(MINUTE * 10));
    // 10,000,000 / 4096 = 2441 whole records; 2441 / 31 = 78 whole LEBs and 23 records.
    assert_eq!(steps.iter().map(|step| step.writes).sum::<u64>(), 2441);
    assert_eq!(steps.iter().map(|step| step.host_bytes).sum::<u64>(), 2441 * 4096);
    assert_eq!(fresh(&steps), 79);
    let end = steps.last().unwrap();
    let Op::Write { lnum, offset, bytes, .. } = end.op else { panic!("{end:?}") };
    // The 79th LEB, after one round of 50.
    assert_eq!((lnum, offset + bytes), (Lnum(28), 23 * 4096));
    // Record n is due when n × 4096 bytes have come: the first after 0.24576 s.
    assert_eq!(steps[0].due, Ns(245_760_000));
    assert!(end.due <= MINUTE * 10 && steps.is_sorted_by_key(|step| step.due));
}

#[test]
fn a_small_record_takes_a_whole_write_unit() {
    let one = steps(&[volume("logs", 4, log(200, 200))], SHAPE, 1, until(MINUTE * 124));
    let programmed: u32 = one.iter().map(|step| if let Op::Write { bytes, .. } = step.op { bytes } else { 0 }).sum();
    assert_eq!((programmed, fresh(&one)), (124 * 2048, 2));
    assert_eq!(one.iter().map(|step| step.host_bytes).sum::<u64>(), 124 * 200);
}

#[test]
fn a_record_longer_than_a_leb_goes_on_in_the_next() {
    let found = steps(&[volume("logs", 3, log(300_000, 300_000))], SHAPE, 1, until(MINUTE));
    let write = |lnum, bytes| Op::Write { lnum: Lnum(lnum), offset: 0, bytes, fresh: true };
    // 300,000 bytes are 147 write units; a LEB has 62.
    let expected = [(write(0, 126_976), 0), (write(1, 126_976), 0), (write(2, 23 * 2048), 1)];
    assert_eq!(found.iter().map(|step| (step.op, step.writes)).collect::<Vec<_>>(), expected);
}

#[test]
fn a_year_ends_at_the_same_record_however_it_is_cut() {
    // 7 bytes a minute in records of 3: no interval is a whole number of nanoseconds.
    let pattern = Pattern::Append { rate: Rate { bytes: 7, per: MINUTE }, write_bytes: 3 };
    let found = steps(&[volume("logs", 2, pattern)], SHAPE, 1, until(DAY * 365));
    assert_eq!(found.iter().map(|step| step.writes).sum::<u64>(), 365 * 1440 * 7 / 3);
}

#[test]
fn a_write_in_place_changes_every_leb_that_it_touches_with_all_that_it_holds() {
    // Two LEBs and 5000 bytes of a third one; a write of 50,000 bytes in turn.
    let holds = 2 * 126_976 + 5000;
    let found = steps(&[volume("db", 3, rewrite(holds, 50_000, Order::InTurn))], SHAPE, 1, until(DAY));
    let change = |lnum, bytes| Op::Change { lnum: Lnum(lnum), bytes };
    // Places 0, 1, 2 (which ends in LEB 1), 3, 4; then place 0 again.
    let expected = [
        (change(0, 126_976), 1),
        (change(0, 126_976), 1),
        (change(0, 126_976), 0),
        (change(1, 126_976), 1),
        (change(1, 126_976), 1),
        (change(1, 126_976), 1),
        (change(0, 126_976), 1),
    ];
    assert_eq!(found.iter().map(|step| (step.op, step.writes)).take(7).collect::<Vec<_>>(), expected);
    let last = steps(&[volume("env", 3, rewrite(holds, holds as u32, Order::Random))], SHAPE, 1, until(DAY));
    let ops: Vec<_> = last.iter().map(|step| step.op).take(3).collect();
    assert_eq!(ops, [change(0, 126_976), change(1, 126_976), change(2, 6144)]);
}

#[test]
fn an_update_goes_on_as_fast_as_the_device_and_others_come_between() {
    let image = Pattern::Image { bytes: 300_000, every: DAY };
    let volumes = [volume("image", 3, image), volume("logs", 4, log(4096, 4096))];
    let mut load = Volumes::new(&volumes, SHAPE, Seed(1));
    let mut now = DAY;
    let mut begun = Vec::new();
    // The log is a day late; then the update begins, and each of its steps takes 50 s. A step is due when the last one of
    // its volume has ended, and a write of the log that is due before comes first: 0 to 50, 100 to 150, 200 to 250.
    while begun.len() < 8 {
        let step = load.next(now, until(DAY * 2)).unwrap();
        now = now.max(step.due);
        if step.due >= DAY {
            begun.push((step.volume, step.op, (step.due - DAY).0 / 1_000_000_000));
            now += Ns::from_s(50);
        }
    }
    let leb = |lnum, bytes| Op::UpdateLeb { lnum: Lnum(lnum), bytes, of: 300_000 };
    let ours: Vec<_> = begun.iter().filter(|(volume, ..)| *volume == 0).map(|&(_, op, at)| (op, at)).collect();
    assert_eq!(
        ours[..4],
        [(Op::BeginUpdate { bytes: 300_000 }, 0), (leb(0, 126_976), 50), (leb(1, 126_976), 150), (leb(2, 46_048), 250)],
        "{begun:?}"
    );
}

#[test]
fn what_is_read_is_read_leb_by_leb_from_the_first_interval_on() {
    let pattern = Pattern::Static { bytes: 200_000, read_every: Some(DAY) };
    let found = steps(&[volume("root", 2, pattern)], SHAPE, 1, until(DAY * 2));
    let read = |lnum, bytes| Op::Read { lnum: Lnum(lnum), bytes };
    let both = [read(0, 126_976), read(1, 73_024)];
    assert_eq!(found.iter().map(|step| step.op).collect::<Vec<_>>(), [both, both].concat());
    assert_eq!((found[0].due, found[2].due), (DAY, DAY * 2));
    let never = Pattern::Static { bytes: 200_000, read_every: None };
    assert_eq!(steps(&[volume("root", 2, never)], SHAPE, 1, until(DAY)), []);
}

#[test]
fn before_the_load_all_but_logs_are_written() {
    let volumes = [
        volume("db", 2, rewrite(130_000, 4096, Order::Random)),
        volume("image", 2, Pattern::Image { bytes: 126_976, every: DAY }),
        volume("logs", 4, log(1, 1)),
        volume("root", 2, Pattern::Static { bytes: 126_977, read_every: None }),
    ];
    let load = Volumes::new(&volumes, SHAPE, Seed(1));
    let leb = |lnum, bytes, of| Op::UpdateLeb { lnum: Lnum(lnum), bytes, of };
    let expected = [
        (0, Op::Change { lnum: Lnum(0), bytes: 126_976 }),
        (0, Op::Change { lnum: Lnum(1), bytes: 4096 }),
        (1, Op::BeginUpdate { bytes: 126_976 }),
        (1, leb(0, 126_976, 126_976)),
        (1, Op::EndUpdate { bytes: 126_976 }),
        (3, Op::BeginUpdate { bytes: 126_977 }),
        (3, leb(0, 126_976, 126_977)),
        (3, leb(1, 1, 126_977)),
        (3, Op::EndUpdate { bytes: 126_977 }),
    ];
    assert_eq!(load.fill().collect::<Vec<_>>(), expected);
}

#[test]
fn a_load_is_that_of_its_seed_and_of_its_own_name() {
    let db = volume("db", 40, rewrite(5_000_000, 4096, Order::Random));
    let logs = volume("a", 4, log(100_000, 4096));
    let places = |volumes: &[Volume], seed| -> Vec<_> {
        let found = steps(volumes, SHAPE, seed, until(MINUTE * 200));
        found.iter().filter(|step| matches!(step.op, Op::Change { .. })).map(|step| (step.due, step.op)).collect()
    };
    let alone = places(std::slice::from_ref(&db), 1);
    assert_eq!(alone.len(), 200);
    assert_eq!(places(std::slice::from_ref(&db), 1), alone);
    assert_ne!(places(std::slice::from_ref(&db), 2), alone);
    assert_eq!(places(&[logs, db.clone()], 1), alone, "another volume shifts no draw");
    assert_ne!(places(&[Volume { name: "other".to_owned(), ..db }], 1), alone);
}

#[test]
fn a_pattern_that_does_not_fit_its_volume_is_named() {
    let misfit = |pattern: Pattern| pattern.misfit(100_000);
    assert_eq!(misfit(log(1, 100_000)), None);
    assert_eq!(misfit(log(1, 100_001)), Some(("write_bytes", 100_001, 100_000)));
    assert_eq!(misfit(rewrite(5000, 5001, Order::Random)), Some(("write_bytes", 5001, 5000)));
    assert_eq!(misfit(rewrite(0, 1, Order::Random)), Some(("bytes", 0, 100_000)));
    assert_eq!(misfit(Pattern::Image { bytes: 100_001, every: DAY }), Some(("image_bytes", 100_001, 100_000)));
}

/// A log whose every record is issued alone: time, volume, place and length of each piece.
struct Naive {
    volume: usize,
    lebs: u64,
    record: u64,
    at: u64,
    n: u128,
    rate: Rate,
    write_bytes: u128,
}

impl Naive {
    fn due(&self) -> u128 {
        (self.n + 1) * self.write_bytes * u128::from(self.rate.per.0) / u128::from(self.rate.bytes)
    }

    fn pieces(&mut self, shape: Lebs, found: &mut Vec<(usize, u64, u64, u64)>) {
        let leb = u64::from(shape.leb_bytes);
        let mut left = self.record;
        while left > 0 {
            let length = left.min(leb - self.at % leb);
            found.push((self.volume, self.at / leb % self.lebs, self.at % leb, length));
            self.at += length;
            left -= length;
        }
        self.n += 1;
    }
}

proptest! {
    #[test]
    fn records_put_together_are_those_of_users_who_write_one_by_one(
        rates in prop::collection::vec((1u64..5_000_000, 1u32..20_000, 1u32..5), 1..4),
        seconds in 1u64..200,
        units in 2u32..20,
    ) {
        let shape = Lebs { leb_bytes: 1024 * units, min_io_bytes: 1024 };
        let volumes: Vec<_> = rates.iter().enumerate().map(|(at, &(bytes, write_bytes, lebs))| {
            let least = write_bytes.div_ceil(shape.leb_bytes);
            volume(&format!("v{at}"), lebs + least, log(bytes, write_bytes))
        }).collect();
        let end = Ns::from_s(seconds);
        let mut found = Vec::new();
        for step in steps(&volumes, shape, 1, until(end)) {
            let Op::Write { lnum, offset, bytes, fresh } = step.op else { panic!("{step:?}") };
            prop_assert_eq!(fresh, offset == 0);
            let Pattern::Append { write_bytes, .. } = volumes[step.volume].pattern else { unreachable!() };
            let record = u64::from(write_bytes.next_multiple_of(shape.min_io_bytes));
            let (mut at, mut left) = (u64::from(offset), u64::from(bytes));
            let pieces = step.writes.max(1);
            let each = if pieces > 1 { record } else { left };
            while left > 0 {
                found.push((step.volume, u64::from(lnum.0), at, each.min(left)));
                at += each;
                left -= each.min(left);
            }
        }
        let mut naive: Vec<_> = volumes.iter().enumerate().map(|(volume, of)| {
            let Pattern::Append { rate, write_bytes } = of.pattern else { unreachable!() };
            let record = u64::from(write_bytes.next_multiple_of(shape.min_io_bytes));
            Naive { volume, lebs: of.lebs.into(), record, at: 0, n: 0, rate, write_bytes: write_bytes.into() }
        }).collect();
        let mut expected = Vec::new();
        loop {
            let first = naive.iter_mut().min_by_key(|user| (user.due(), user.volume)).unwrap();
            if first.due() > u128::from(end.0) {
                break;
            }
            first.pieces(shape, &mut expected);
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_more_bytes_are_written_than_the_limit_asks_for(limit in 1u64..3_000_000, write_bytes in 1u32..20_000) {
        let volumes = [volume("logs", 4, log(1_000_000, write_bytes))];
        let limits = Limits { until: DAY, host_bytes: limit };
        let written: u64 = steps(&volumes, SHAPE, 1, limits).iter().map(|step| step.host_bytes).sum();
        prop_assert_eq!(written, limit.next_multiple_of(u64::from(write_bytes)));
    }
}
