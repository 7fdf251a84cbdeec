//! The dispatcher against a second simulator of dies and buses: under random loads on random drives every page operation
//! ends in the same nanosecond, after the same time in the array and the same waits.

mod model;

use std::collections::BTreeMap;

use model::{Done, Model, Sent};
use nand::{Array, ArrayConfig, Tags};
use sim::{Cause, Ns, Rng, Seed};
use ssd::dispatch::io::{ByEntry, IoKind, Owner};
use ssd::ftl::{NONE, Place, Step, UnitFtl};
use ssd::{BusOrder, Cells, DispatchConfig, Dispatcher, Order, Scheduling, Shape, Timing};

const BLOCKS: u32 = 160;
const PAGES: u32 = 8;
const LPNS: u32 = 24;

/// An FTL whose work is drawn beforehand. Host pages go to the first half of the blocks in order, copies to the second.
#[derive(Clone, Debug)]
pub struct Scripted {
    map: BTreeMap<u32, u32>,
    /// What is to be done before so many more host pages, as drawn.
    work: Vec<(u32, Work)>,
    placed: u32,
    next: u32,
    copied: u32,
    erases: Vec<u32>,
    slc: bool,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Copy(u32, Cause),
    Erase(Cause),
    Pad,
}

impl Scripted {
    fn new(rng: &mut Rng, unit_pages: u32) -> Scripted {
        let mut work = Vec::new();
        let mut at = 0;
        let none = rng.chance(0.2);
        for _ in 0..if none { 0 } else { 30 } {
            at += rng.below(4) as u32;
            let cause = if rng.chance(0.7) { Cause::Gc } else { Cause::WearLevel };
            // Several in succession, so that copies can share a row.
            for _ in 0..1 + rng.below(4) {
                work.push((
                    at,
                    match rng.below(8) {
                        0..=4 => Work::Copy(rng.below(LPNS.into()) as u32, cause),
                        5 | 6 => Work::Erase(cause),
                        _ => Work::Pad,
                    },
                ));
            }
        }
        let half = BLOCKS / 2 * unit_pages;
        let erases = vec![0; BLOCKS as usize];
        Scripted { map: BTreeMap::new(), work, placed: 0, next: 0, copied: half, erases, slc: false }
    }

    fn due(&self) -> bool {
        self.work.first().is_some_and(|&(at, _)| at <= self.placed)
    }
}

impl UnitFtl for Scripted {
    fn lpns(&self) -> u32 {
        LPNS
    }
    fn lookup(&self, lpn: u32) -> u32 {
        self.map.get(&lpn).copied().unwrap_or(NONE)
    }
    fn holds(&self, ppn: u32) -> u32 {
        self.map.iter().find(|&(_, &at)| at == ppn).map_or(NONE, |(&lpn, _)| lpn)
    }
    fn place(&mut self, lpn: u32) -> Place {
        while self.due() {
            match self.work.remove(0).1 {
                Work::Erase(cause) => return Place::Work(Step::Erase { block: BLOCKS - 1, cause }),
                Work::Pad => {
                    self.next += 1;
                    return Place::Work(Step::Pad { at: self.next - 1, lpn: NONE });
                }
                Work::Copy(lpn, cause) => {
                    let from = self.lookup(lpn);
                    if from != NONE {
                        self.map.insert(lpn, self.copied);
                        self.copied += 1;
                        return Place::Work(Step::Copy { from, to: self.copied - 1, cause });
                    }
                }
            }
        }
        self.placed += 1;
        self.map.insert(lpn, self.next);
        self.next += 1;
        Place::At(self.next - 1)
    }
    fn follows(&self, ppn: u32, _: u32) -> bool {
        !self.due() && ppn + 1 == self.next
    }
    fn housekeeping(&mut self) -> Option<Step> {
        None
    }
    fn trim(&mut self, lpn: u32) {
        self.map.remove(&lpn);
    }
    fn erased(&mut self, block: u32, _: bool) {
        self.erases[block as usize] += 1;
    }
    fn program_failed(&mut self, ppn: u32) {
        panic!("the program of page {ppn} failed");
    }
    fn uses_slc(&self) -> bool {
        self.slc
    }
    fn is_slc(&self, _: u32) -> bool {
        self.slc
    }
    fn erase_counts(&self) -> &[u32] {
        &self.erases
    }
}

/// Drawn dies, buses and times.
fn drive(rng: &mut Rng) -> (Shape, DispatchConfig) {
    let mut below = |bound: u64| rng.below(bound);
    let shape = Shape {
        channels: 1 + below(2) as u32,
        ways: 1 + below(3) as u32,
        dies: 1 + below(2) as u32,
        planes: [1, 1, 2, 3][below(4) as usize],
        blocks: BLOCKS,
        pages: PAGES,
        page_bytes: 512,
        order: Order::CHANNEL_FIRST,
        multi_plane: below(4) > 0,
    };
    let flags = below(1 << 7);
    let has = |bit: u32| flags >> bit & 1 == 1;
    // Now and then an array that takes no time.
    let (read, program) = match below(8) {
        0 => (0, 100),
        1 => (30, 0),
        _ => (20 + below(60), 100 + below(200)),
    };
    let timing = Timing {
        levels: 1 + below(3) as u32,
        read: [0, 7, 13, 19].map(|more| Ns(read + more.min(read))),
        program: [0, 50, 110, 170].map(|more| Ns(program + more.min(program))),
        suspend_program: has(0).then_some(Ns(5)),
        suspend_erase: has(1).then_some(Ns(9)),
        resume: Ns(3),
        max_suspends: 1 + below(3) as u32,
        cache_read: has(2),
        cache_program: has(3),
        copyback: has(4),
        entry_check: Ns(4),
        slc: [Ns(17), Ns(90), Ns(400)],
        independent_reads: if below(3) == 0 { shape.planes } else { 1 },
        // From a bus that is hardly used to one that is the bottleneck.
        ..Timing::plain(Ns(read), Ns(program), Ns(700), Ns(1 + below(4)), Ns([3, 11, 40, 130][below(4) as usize]))
    };
    let config = DispatchConfig {
        timing,
        scheduling: if has(5) && below(2) == 0 { Scheduling::InOrder } else { Scheduling::ReadsFirst },
        bus_order: if has(6) { BusOrder::DataFirst } else { BusOrder::CommandsFirst },
        background_after: None,
    };
    (shape, config)
}

#[test]
fn every_page_operation_ends_when_the_rules_say() {
    let (mut suspends, mut joined) = (0, 0);
    for seed in 0..400 {
        let mut rng = Seed(seed).stream("schedule");
        let (shape, config) = drive(&mut rng);
        let slc = rng.chance(0.2);
        let ftls: Vec<Scripted> =
            (0..shape.units()).map(|_| Scripted { slc, ..Scripted::new(&mut rng, shape.unit_pages()) }).collect();
        let array = Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Tags);
        let mut tested = Dispatcher::new(&shape, config, Cells::new(&shape, array), ftls.clone());
        let reports = rng.chance(0.5);
        if reports {
            tested.report_moves();
        }
        let mut model = Model::new(&shape, config.timing, config.scheduling, config.bus_order, ftls);
        let mut found: Vec<Option<Done>> = Vec::new();
        let mut now = 0;
        let pace = [20, 100, 400][rng.below(3) as usize];
        for step in 0..120u32 {
            now += if step == 119 { 1 << 20 } else { rng.below(pace) };
            let mut erases = tested.counts().erases;
            while let Some(at) = tested.run(Ns(now)) {
                tested.check();
                // It stops with the first event that has news.
                let erased = std::mem::replace(&mut erases, tested.counts().erases) != erases;
                let moved = std::mem::take(&mut tested.moved).len() as u64;
                let news = !tested.finished.is_empty() || reports && (erased || moved > 0);
                assert!(
                    news || tested.next_time().is_none_or(|next| next.0 > now),
                    "seed {seed}: it stopped for nothing"
                );
                assert!(reports && moved <= shape.unit_planes().into() || moved == 0, "seed {seed}: {moved} moves");
                let late = |&&io: &&u32| tested.ios[io].queued_at + tested.ios[io].latency.total() != at.0;
                assert_eq!(tested.finished.iter().find(late), None, "seed {seed}: more than one event");
                for at in std::mem::take(&mut tested.finished) {
                    let io = &tested.ios[at];
                    let Owner::Request { tag, .. } = io.owner else { panic!("{:?} owns it", io.owner) };
                    let it = &io.latency;
                    let end = io.queued_at + it.total();
                    found[tag as usize] =
                        Some(Done { end, array: it.die, gc: it.gc, erase: it.erase, queue: it.queue });
                    tested.ios.release(at);
                }
            }
            model.run(now);
            assert_eq!(tested.is_quiet(), model.is_quiet(), "seed {seed}");
            if let Some(at) = (0..found.len()).find(|&at| found[at] != model.done[at]) {
                let (sent, found, expected) = (model.sent[at], found[at], model.done[at]);
                panic!("seed {seed}, {at}: {sent:?}\nfound {found:?}\nmodel {expected:?}\n{shape:?} {config:?}");
            }
            let unit = rng.below(shape.units().into()) as u32;
            let batch: Vec<Sent> = (0..1 + rng.below(5))
                .map(|_| Sent {
                    at: now,
                    kind: [IoKind::Read, IoKind::Write, IoKind::Write, IoKind::Merge][rng.below(4) as usize],
                    unit: if rng.chance(0.6) { unit } else { rng.below(shape.units().into()) as u32 },
                    // Neighbours, so that pages of a row are read together.
                    lpn: (rng.below(4) * 5 + rng.below(2)) as u32,
                    checked: rng.chance(0.2),
                })
                .collect();
            for sent in &batch {
                let owner = Owner::Request { tag: found.len() as u32, lpn: sent.lpn };
                let mut io =
                    Dispatcher::<Array<Tags>, Scripted>::io(sent.kind, Cause::Host, sent.unit, sent.lpn, owner);
                let mapped = tested.units()[sent.unit as usize].lookup(sent.lpn);
                io.checked = sent.checked && sent.kind == IoKind::Read;
                io.by_entry = ByEntry { page: mapped, mapped };
                tested.push(Ns(now), io);
                found.push(None);
            }
            tested.kick(Ns(now));
            model.send(&batch);
            // Reads from memory end at once.
            for at in std::mem::take(&mut tested.finished) {
                let Owner::Request { tag, .. } = tested.ios[at].owner else { panic!("not a request") };
                let it = tested.ios[at].latency;
                found[tag as usize] =
                    Some(Done { end: now, array: it.die, gc: it.gc, erase: it.erase, queue: it.queue });
                tested.ios.release(at);
            }
        }
        let counts = *tested.counts();
        assert_eq!(counts, model.counts, "seed {seed}");
        assert_eq!(tested.busy(), model.busy(), "seed {seed}");
        let pages = counts.programs.total();
        suspends += counts.suspends;
        joined += pages - counts.program_ops;
    }
    assert!(suspends > 500 && joined > 500, "{suspends} suspends, {joined} pages programmed with others");
}
