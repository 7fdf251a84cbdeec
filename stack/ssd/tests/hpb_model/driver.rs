//! The driver decides as its model does.

use sim::{Ns, Rng};
use ssd::device::hpb::{Advice, HpbConfig, MapCommand, Operation, ReadCommand, UpToTwo};
use ssd::host::hpb::Driver;
use ssd::host::hpb::state::LuState;

use crate::model::Model;
use crate::{config, rng};

/// Both, and what they have decided so far.
struct Pair {
    driver: Driver,
    model: Model,
    pages: u32,
    now: u64,
    entries: u64,
    /// Sub-regions whose entries are on their way.
    on_their_way: Vec<u32>,
    /// READ IDs of reads that have not completed, and whose pre-requests were sent.
    reading: Vec<u8>,
    told: [u64; 4],
}

impl Pair {
    fn new(config: &HpbConfig, depth: u32) -> Pair {
        Pair {
            driver: Driver::new(config, depth),
            model: Model::new(config, depth),
            pages: config.lus.iter().map(|lu| lu.pages).sum(),
            now: 0,
            entries: 1 << 40,
            on_their_way: Vec::new(),
            reading: Vec::new(),
            told: [0; 4],
        }
    }

    fn read(&mut self, first: u32, pages: u32) {
        let (found, expected) = (self.driver.read(first, pages), self.model.read(first, pages));
        if let (ReadCommand::ReadId(id), ReadCommand::ReadId(_)) = (found, expected) {
            self.model.sent(id, first, pages);
            self.told[2] += 1;
            return;
        }
        assert_eq!(found, expected, "{pages} pages at {first}");
        self.told[1] += u64::from(matches!(found, ReadCommand::Entry(_)));
    }

    fn commands(&mut self, most: usize) {
        for _ in 0..most {
            let found = self.driver.next_command(Ns(self.now));
            assert_eq!(found, self.model.next_command(self.now), "the next command");
            match found {
                None => return,
                Some(MapCommand::Load { sub }) => self.on_their_way.push(sub),
                Some(MapCommand::PreRequest { id, page }) => {
                    let (first, entries) = &self.model.in_flight[&id];
                    assert_eq!((page, self.driver.pre_requested(id)), (*first, &entries[..]), "READ ID {id}");
                    self.reading.push(id);
                }
                Some(MapCommand::Inactivate { .. } | MapCommand::InactivateAll) => self.told[3] += 1,
            }
        }
    }

    /// Entries as no earlier load had them.
    fn load_ends(&mut self, which: usize, fails: bool) {
        let sub = self.on_their_way.remove(which);
        let (from, to) = self.driver.layout().pages_of(sub);
        if fails {
            self.driver.load_failed(sub);
            return self.model.load_failed(sub);
        }
        let entries: Vec<u64> = (from..to).map(|page| self.entries + u64::from(page)).collect();
        self.entries += 1 << 16;
        self.driver.loaded(sub, &entries);
        self.model.loaded(sub, &entries);
        self.told[0] += 1;
    }

    fn advise(&mut self, rng: &mut Rng) {
        let regions = self.driver.layout().regions();
        let lus = self.driver.layout().lus();
        let with_hpb: Vec<u32> =
            (0..regions).filter(|&region| lus[self.driver.layout().lu_of_region(region)].hpb).collect();
        let mut region = || with_hpb[rng.below(with_hpb.len() as u64) as usize];
        let (one, other) = (region(), region());
        let (from, to) = self.driver.layout().subregions_in(region());
        let sub = from + rng.below(u64::from(to - from)) as u32;
        let (active, inactive) = (rng.below(3), rng.below(3));
        let advice = Advice {
            operation: match rng.below(12) {
                0 => Operation::None,
                1 => Operation::DeviceReset,
                _ => Operation::UpdateRegions,
            },
            active: UpToTwo::of([sub, from].into_iter().take(active as usize)),
            inactive: UpToTwo::of([one, other].into_iter().take(inactive.saturating_sub(1) as usize)),
        };
        self.driver.advised(&advice);
        self.model.advised(&advice);
    }

    fn step(&mut self, rng: &mut Rng) {
        let first = rng.below(self.pages.into()) as u32;
        // Half of all requests are to a few pages, so that thresholds are reached.
        let first = if rng.chance(0.5) { first % 4 } else { first };
        let longest = u64::from(self.pages - first).min(9);
        let pages = if rng.chance(0.6) { 1 } else { 1 + rng.below(longest) as u32 };
        match rng.below(100) {
            0..50 => self.read(first, pages),
            50..60 => {
                let pages = if rng.chance(0.1) { self.pages - first } else { pages };
                self.driver.write(first, pages);
                self.model.write(first, pages);
            }
            60..68 => self.advise(rng),
            68..88 if !self.on_their_way.is_empty() => {
                let which = rng.below(self.on_their_way.len() as u64) as usize;
                self.load_ends(which, rng.chance(0.15));
            }
            88..92 if !self.reading.is_empty() => {
                let id = self.reading.remove(rng.below(self.reading.len() as u64) as usize);
                self.driver.pre_request_done(id);
                self.model.in_flight.remove(&id);
            }
            92 => {
                let lu = rng.below(self.model.lus.len() as u64) as usize;
                match self.model.lus[lu] {
                    LuState::Present => {
                        self.driver.suspend(lu);
                        self.model.suspend(lu);
                    }
                    LuState::Suspend => {
                        self.driver.resume(lu);
                        self.model.resume(lu);
                    }
                    _ => {}
                }
            }
            93 if rng.chance(0.2) => {
                self.driver.reset(Ns(self.now));
                self.model.reset(self.now);
            }
            94..100 => {
                // To a millisecond, one nanosecond before or after it.
                let ms = self.now / 1_000_000 + rng.below(6);
                self.now = self.now.max(ms * 1_000_000 + rng.below(3)).max((ms * 1_000_000).saturating_sub(1));
                self.driver.poll(Ns(self.now));
                self.model.poll(self.now);
            }
            _ => {}
        }
        if rng.chance(0.8) {
            self.commands(if rng.chance(0.2) { 1 } else { 100 });
        }
    }

    fn compare(&self) {
        self.driver.check();
        assert_eq!(self.driver.stats(), &self.model.stats);
        assert_eq!(self.driver.is_idle(), self.model.is_idle());
        for (lu, state) in self.model.lus.iter().enumerate() {
            assert_eq!(self.driver.lu(lu), *state, "unit {lu}");
        }
        for (number, region) in (0..).zip(&self.model.regions) {
            assert_eq!(self.driver.region(number), region.state, "region {number}");
        }
        for (&number, sub) in &self.model.subs {
            assert_eq!(self.driver.sub(number), sub.state, "sub-region {number}");
        }
    }
}

#[test]
fn the_driver_decides_as_its_model_under_every_configuration() {
    let mut told = [0; 4];
    for seed in 0..1500 {
        let config = config(&mut rng(seed, "config"));
        let mut draws = rng(seed, "steps");
        let depth = [1, 2, 5, 8, 32][draws.below(5) as usize];
        let mut pair = Pair::new(&config, depth);
        for step in 0..300 {
            let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pair.step(&mut draws);
                pair.compare();
            }));
            assert!(compared.is_ok(), "seed {seed}, step {step}: {config:?}, depth {depth}");
        }
        told.iter_mut().zip(pair.told).for_each(|(all, own)| *all += own);
    }
    println!("loads {}, entries {}, pre-requests {}, inactivations {}", told[0], told[1], told[2], told[3]);
    assert!(told.iter().all(|&count| count > 1000), "too little happened: {told:?}");
}
