//! The advisor recommends as its model does.

use std::collections::BTreeSet;

use ssd::device::hpb::{Advisor, Control, HpbConfig, Operation, Version};

use crate::{config, rng};

/// Regions and sub-regions by number, and a plain list of the active ones, most recently read first.
struct Model {
    config: HpbConfig,
    most_pages: u32,
    active: Vec<u32>,
    plain_reads: std::collections::BTreeMap<u32, u32>,
    to_activate: Vec<u32>,
    to_inactivate: Vec<u32>,
    was_reset: bool,
    map_bytes: u64,
}

impl Model {
    fn new(config: &HpbConfig) -> Model {
        Model {
            most_pages: if config.version == Version::V1 { 1 } else { config.single_command_pages },
            config: config.clone(),
            active: Vec::new(),
            plain_reads: Default::default(),
            to_activate: Vec::new(),
            to_inactivate: Vec::new(),
            was_reset: false,
            map_bytes: 0,
        }
    }

    fn region_of(&self, sub: u32) -> u32 {
        sub / self.config.region_subregions
    }

    /// First page and region of each unit, its end, and whether it has HPB.
    fn units(&self) -> Vec<(u32, u32, u32, bool)> {
        let (mut page, mut region) = (0, 0);
        let mut units = Vec::new();
        for lu in &self.config.lus {
            units.push((page, page + lu.pages, region, lu.hpb));
            page += lu.pages;
            region += lu.pages.div_ceil(self.config.subregion_pages * self.config.region_subregions);
        }
        units
    }

    fn unit_of(&self, region: u32) -> usize {
        self.units().iter().rposition(|unit| unit.2 <= region).expect("a region of a unit")
    }

    fn read(&mut self, first: u32, pages: u32, by_entry: bool) {
        let unit = self.units().into_iter().find(|unit| unit.0 <= first && first + pages <= unit.1 && unit.3);
        let Some((from, _, region, _)) = unit else { return };
        let subs: BTreeSet<u32> = (first..first + pages)
            .map(|page| region * self.config.region_subregions + (page - from) / self.config.subregion_pages)
            .collect();
        let region = self.region_of(*subs.first().expect("a read has pages"));
        if let Some(at) = self.active.iter().position(|&other| other == region) {
            let region = self.active.remove(at);
            self.active.insert(0, region);
        }
        if by_entry || pages > self.most_pages {
            return;
        }
        for sub in subs {
            let reads = self.plain_reads.entry(sub).or_default();
            *reads += 1;
            if *reads < self.config.recommend_after {
                continue;
            }
            *reads = 0;
            let region = self.region_of(sub);
            if self.config.control == Control::Device {
                self.make_active(region);
            } else if !self.active.contains(&region) {
                continue;
            }
            if !self.to_activate.contains(&sub) {
                self.to_activate.push(sub);
            }
        }
    }

    fn make_active(&mut self, region: u32) {
        let (first, count) = self.config.pinned;
        if (first..first + count).contains(&region) {
            return;
        }
        let known = self.active.contains(&region);
        self.active.retain(|&other| other != region);
        self.active.insert(0, region);
        if !known {
            if self.active.len() as u32 > self.config.max_active_regions - count {
                let oldest = self.active.pop().expect("one more than may be active");
                if self.config.control == Control::Device {
                    let subregions = self.config.region_subregions;
                    self.to_activate.retain(|&sub| sub / subregions != oldest);
                    self.to_inactivate.push(oldest);
                }
            }
            self.to_inactivate.retain(|&leaving| leaving != region);
        }
    }

    /// Operation, sub-regions and regions of the next response.
    fn advice(&mut self) -> Option<(Operation, Vec<u32>, Vec<u32>)> {
        if std::mem::take(&mut self.was_reset) {
            return Some((Operation::DeviceReset, vec![], vec![]));
        }
        let first = match (self.to_inactivate.first(), self.to_activate.first()) {
            (Some(&region), _) => region,
            (None, Some(&sub)) => self.region_of(sub),
            (None, None) => return None,
        };
        let unit = self.unit_of(first);
        let mut inactive = Vec::new();
        while inactive.len() < 2 && self.to_inactivate.first().is_some_and(|&region| self.unit_of(region) == unit) {
            inactive.push(self.to_inactivate.remove(0));
        }
        let mut active = Vec::new();
        while active.len() < 2
            && let Some(&sub) = self.to_activate.first()
            && self.unit_of(self.region_of(sub)) == unit
            && !inactive.contains(&self.region_of(sub))
        {
            active.push(self.to_activate.remove(0));
        }
        Some((Operation::UpdateRegions, active, inactive))
    }

    fn loads(&mut self, sub: u32, pages: u32) {
        self.plain_reads.insert(sub, 0);
        self.to_activate.retain(|&waiting| waiting != sub);
        self.make_active(self.region_of(sub));
        self.map_bytes += 8 * u64::from(pages);
    }

    fn reset(&mut self) {
        let map_bytes = self.map_bytes;
        *self = Model { was_reset: true, map_bytes, ..Model::new(&self.config) };
    }
}

#[test]
fn the_advisor_recommends_as_its_model_under_every_configuration() {
    let mut recommended = [0u32; 3];
    for seed in 0..1500 {
        let config = config(&mut rng(seed, "config"));
        let mut draws = rng(seed, "advisor");
        let (mut advisor, mut model) = (Advisor::new(&config), Model::new(&config));
        let pages: u32 = config.lus.iter().map(|lu| lu.pages).sum();
        let subs: Vec<u32> = (0..pages)
            .filter_map(|page| advisor.layout().subregions_of(page, 1).map(|(sub, _)| sub))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        for step in 0..300 {
            let place = format!("seed {seed}, step {step}: {config:?}");
            match draws.below(100) {
                0..70 => {
                    let first = draws.below(pages.into()) as u32;
                    let first = if draws.chance(0.4) { first % 5 } else { first };
                    let most = u64::from(pages - first).min(6);
                    let count = if draws.chance(0.7) { 1 } else { 1 + draws.below(most) as u32 };
                    let by_entry = draws.chance(0.2);
                    advisor.read(first, count, by_entry);
                    model.read(first, count, by_entry);
                }
                70..80 => {
                    let sub = subs[draws.below(subs.len() as u64) as usize];
                    let (from, to) = advisor.layout().pages_of(sub);
                    advisor.loads(sub);
                    model.loads(sub, to - from);
                }
                80..84 => {
                    let region = draws.below(u64::from(advisor.layout().regions()) + 2) as u32;
                    advisor.inactivated(region);
                    model.active.retain(|&other| other != region);
                }
                84 if draws.chance(0.3) => {
                    advisor.all_inactivated();
                    model.active.clear();
                }
                85 if draws.chance(0.3) => {
                    advisor.reset();
                    model.reset();
                }
                _ => {
                    let found = advisor.advice();
                    let found = found.map(|advice| {
                        let lists = [advice.active, advice.inactive].map(|list| list.as_slice().to_vec());
                        recommended[0] += lists[0].len() as u32;
                        recommended[1] += lists[1].len() as u32;
                        recommended[2] += u32::from(advice.operation == Operation::DeviceReset);
                        let [active, inactive] = lists;
                        (advice.operation, active, inactive)
                    });
                    assert_eq!(found, model.advice(), "{place}");
                }
            }
            advisor.check();
            let waits = model.was_reset || !model.to_activate.is_empty() || !model.to_inactivate.is_empty();
            assert_eq!(advisor.has_advice(), waits, "{place}");
            assert_eq!(advisor.stats().map_bytes, model.map_bytes, "{place}");
        }
    }
    assert!(recommended.iter().all(|&count| count > 500), "{recommended:?}");
}
