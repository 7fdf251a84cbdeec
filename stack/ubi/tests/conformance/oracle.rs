//! Random runs, compared with LEBs in memory after each operation.

use proptest::prelude::*;
use sim::seam::{Flash, Geometry, LebError, LebVolume, Payload, RamFlash, RamVolume};
use sim::{Cx, Lnum, VolId};
use ubi::{Config, Policy};

use crate::rig::{Rig, dynamic, grid, large_lebs, nor, pattern, small_lebs, sub_pages};

#[derive(Clone, Debug)]
pub enum Op {
    /// Writes this many units (at least one, at most what is left), after skipping this many.
    Write {
        lnum: u32,
        skip: u32,
        units: u32,
    },
    Change {
        lnum: u32,
        units: u32,
    },
    Map {
        lnum: u32,
    },
    Unmap {
        lnum: u32,
    },
    Read {
        lnum: u32,
        offset: u32,
        len: u32,
    },
    Sync,
    Steps {
        count: u32,
    },
    /// Detach and attach.
    Reattach,
    /// Power fails between two operations.
    PullPlug,
    /// Creates, writes and removes a second volume.
    Passer {
        lebs: u32,
    },
}

pub fn ops(lebs: u32, count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<Op>> {
    let lnum = 0..lebs;
    let op = prop_oneof![
        10 => (lnum.clone(), 0..3u32, 1..8u32).prop_map(|(lnum, skip, units)| Op::Write { lnum, skip, units }),
        6 => (lnum.clone(), 0..16u32).prop_map(|(lnum, units)| Op::Change { lnum, units }),
        3 => lnum.clone().prop_map(|lnum| Op::Map { lnum }),
        6 => lnum.clone().prop_map(|lnum| Op::Unmap { lnum }),
        2 => (lnum, 0..5000u32, 0..5000u32).prop_map(|(lnum, offset, len)| Op::Read { lnum, offset, len }),
        1 => Just(Op::Sync),
        4 => (1..12u32).prop_map(|count| Op::Steps { count }),
        1 => Just(Op::Reattach),
        2 => Just(Op::PullPlug),
        1 => (1..4u32).prop_map(|lebs| Op::Passer { lebs }),
    ];
    proptest::collection::vec(op, count)
}

/// A volume and its oracle.
#[derive(Clone)]
pub struct Twin<F> {
    pub rig: Rig<F>,
    pub vol_id: VolId,
    oracle: RamVolume,
    /// Contents of each LEB since the last sync: what an unmapped one may read after a cut.
    ghosts: Vec<Vec<Vec<u8>>>,
    serial: u32,
}

impl<F: Flash + Clone> Twin<F> {
    /// `lebs` LEBs of a new volume.
    pub fn new(mut rig: Rig<F>, lebs: u32) -> Twin<F> {
        let vol_id = rig.create(&dynamic("twin", lebs)).expect("there is room");
        let (leb_bytes, unit) = (rig.ubi().layout().leb_bytes, rig.ubi().layout().min_io_bytes);
        let oracle = RamVolume::new(lebs, leb_bytes, unit);
        Twin { rig, vol_id, oracle, ghosts: vec![Vec::new(); lebs as usize], serial: 0 }
    }

    /// The write unit; on NOR odd lengths are written.
    fn unit(&self) -> u32 {
        if self.oracle.min_io_bytes() == 1 { 61 } else { self.oracle.min_io_bytes() }
    }

    fn expected(&self, lnum: u32) -> Vec<u8> {
        let mut buf = vec![0; self.oracle.leb_bytes() as usize];
        self.oracle.clone().read(&mut Cx::new(), Lnum(lnum), 0, &mut buf).expect("within bounds");
        buf
    }

    /// First byte behind what is written.
    fn fill(&self, lnum: u32) -> u32 {
        let cells = self.expected(lnum);
        let end = cells.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last as u32 + 1);
        end.next_multiple_of(self.unit())
    }

    fn data(&mut self, len: u32) -> Vec<u8> {
        self.serial += 1;
        pattern(self.serial, len as usize)
    }

    /// Applies `op` to both. `Err` only for faults of the flash.
    pub fn apply(&mut self, op: &Op) -> Result<(), LebError> {
        let (vol_id, unit) = (self.vol_id, self.unit());
        let cx = &mut Cx::new();
        match *op {
            Op::Write { lnum, skip, units } => {
                let offset = self.fill(lnum) + skip * unit;
                let room = (self.oracle.leb_bytes().saturating_sub(offset)) / unit;
                if room == 0 {
                    return Ok(());
                }
                let data = self.data(units.min(room) * unit);
                self.rig.write(vol_id, lnum, offset, &data)?;
                self.oracle.write(cx, Lnum(lnum), offset, Payload::Bytes(&data))?;
            }
            Op::Change { lnum, units } => {
                let data = self.data((units * unit).min(self.oracle.leb_bytes() / unit * unit));
                self.rig.change(vol_id, lnum, &data)?;
                self.remember(lnum);
                self.oracle.change(cx, Lnum(lnum), Payload::Bytes(&data))?;
                if data.is_empty() {
                    self.oracle.map(cx, Lnum(lnum))?;
                }
            }
            Op::Map { lnum } => {
                let outcomes = (self.rig.map(vol_id, lnum), self.oracle.clone().map(cx, Lnum(lnum)));
                if let (Err(error @ LebError::Flash(_)), _) = outcomes {
                    return Err(error);
                }
                let _ = self.oracle.map(cx, Lnum(lnum));
                assert_eq!(outcomes.0, outcomes.1, "mapping LEB {lnum}");
            }
            Op::Unmap { lnum } => {
                self.rig.unmap(vol_id, lnum)?;
                self.remember(lnum);
                self.oracle.unmap(cx, Lnum(lnum))?;
            }
            Op::Read { lnum, offset, len } => {
                let offset = offset.min(self.oracle.leb_bytes());
                let len = len.min(self.oracle.leb_bytes() - offset);
                let found = self.rig.read(vol_id, lnum, offset, len as usize)?;
                assert_eq!(found, self.expected(lnum)[offset as usize..][..len as usize], "LEB {lnum} at {offset}");
            }
            Op::Sync => {
                self.rig.sync(vol_id)?;
                self.forget_ghosts();
            }
            Op::Steps { count } => {
                for _ in 0..count {
                    self.rig.step().map_err(|error| panic!("background: {error}")).ok();
                }
            }
            Op::Reattach => {
                self.rig.reattach();
                self.forget_ghosts();
                self.compare();
            }
            Op::PullPlug => {
                self.pull_plug();
            }
            Op::Passer { lebs } => self.passer(lebs),
        }
        Ok(())
    }

    /// Creates, writes and removes a second volume.
    fn passer(&mut self, lebs: u32) {
        let lebs = lebs.min(self.rig.ubi().available_pebs());
        if lebs == 0 {
            return;
        }
        let other = self.rig.create(&dynamic("passer", lebs)).expect("there is room");
        let data = self.data(self.unit());
        for lnum in 0..lebs {
            self.rig.change(other, lnum, &data).expect("a LEB of the other volume");
        }
        self.rig.remove(other).expect("removed");
    }

    fn remember(&mut self, lnum: u32) {
        if self.oracle.is_mapped(Lnum(lnum)) {
            let cells = self.expected(lnum);
            self.ghosts[lnum as usize].push(cells);
        }
    }

    fn forget_ghosts(&mut self) {
        self.ghosts.iter_mut().for_each(Vec::clear);
    }

    /// Attaches the flash after a cut by a scan and, if there is one, by the fastmap; continues with the way that the
    /// configuration selects. Unmapped LEBs may have reappeared.
    pub fn pull_plug(&mut self) {
        self.rig.both_ways_agree();
        let flash = self.rig.into_flash();
        let config = self.rig.config.clone();
        let other = Config { fastmap: !config.fastmap, ..config.clone() };
        // Attaching the other way needs PEBs of its own for a fastmap, which may not be available.
        if let Ok(mut rig) = Rig::try_attach(flash.clone(), &other) {
            self.clone_without_rig().adopt(&mut rig);
        }
        let mut rig = Rig::attach(flash, &config);
        self.adopt(&mut rig);
        self.rig = rig;
    }

    fn clone_without_rig(&self) -> Shadow {
        Shadow { vol_id: self.vol_id, oracle: self.oracle.clone(), ghosts: self.ghosts.clone() }
    }

    fn adopt(&mut self, rig: &mut Rig<F>) {
        let mut shadow = self.clone_without_rig();
        shadow.adopt(rig);
        self.oracle = shadow.oracle;
    }

    /// Attaches after a cut in the middle of `op`: its LEB is as before or as after it, the others as before.
    pub fn resume(&mut self, flash: F, op: &Op) {
        let config = self.rig.config.clone();
        let mut rig = Rig::attach(flash, &config);
        if let Op::Write { lnum, .. } | Op::Change { lnum, .. } | Op::Map { lnum } | Op::Unmap { lnum } = *op {
            // No promise was made; the LEB being written is checked elsewhere.
            self.remember(lnum);
            let old = self.expected(lnum);
            let found = rig.read_leb(self.vol_id, lnum).expect("readable");
            let kept = match op {
                Op::Write { .. } => found.starts_with(&old[..self.fill(lnum) as usize]),
                Op::Change { .. } => found == old || found == self.after(lnum, op),
                _ => found == old || found.iter().all(|&byte| byte == 0xff),
            };
            let came_back = !self.oracle.is_mapped(Lnum(lnum)) && self.ghosts[lnum as usize].contains(&found);
            assert!(kept || came_back, "{op:?}: cut short, and the LEB is neither old nor new");
            let cx = &mut Cx::new();
            self.oracle.unmap(cx, Lnum(lnum)).expect("within bounds");
            if rig.is_mapped(self.vol_id, lnum) {
                self.oracle.write(cx, Lnum(lnum), 0, Payload::Bytes(&found)).expect("within bounds");
            }
        }
        self.adopt(&mut rig);
        self.rig = rig;
    }

    /// The LEB's contents after `op`, a change.
    fn after(&mut self, lnum: u32, op: &Op) -> Vec<u8> {
        let Op::Change { units, .. } = *op else { unreachable!("only changes are foreseen") };
        let mut data = self.data((units * self.unit()).min(self.oracle.leb_bytes()));
        data.resize(self.expected(lnum).len(), 0xff);
        data
    }

    /// Compares every LEB.
    pub fn compare(&mut self) {
        for lnum in 0..self.oracle.lebs() {
            let found = self.rig.read_leb(self.vol_id, lnum).expect("readable");
            assert!(found == self.expected(lnum), "LEB {lnum} differs");
            assert_eq!(self.rig.is_mapped(self.vol_id, lnum), self.oracle.is_mapped(Lnum(lnum)), "LEB {lnum}: mapped");
        }
    }
}

/// Expected state after an attach.
struct Shadow {
    vol_id: VolId,
    oracle: RamVolume,
    ghosts: Vec<Vec<Vec<u8>>>,
}

impl Shadow {
    /// Compares every LEB, and adopts contents that reappeared.
    fn adopt<F: Flash>(&mut self, rig: &mut Rig<F>) {
        let cx = &mut Cx::new();
        let way = format!("{:?}", rig.ubi().attached_by());
        for lnum in 0..self.oracle.lebs() {
            let found = rig.read_leb(self.vol_id, lnum).expect("readable");
            let mut expected = vec![0; found.len()];
            self.oracle.read(cx, Lnum(lnum), 0, &mut expected).expect("within bounds");
            // Asked after reading: a mapping from the fastmap is verified at its first use.
            let mapped = rig.is_mapped(self.vol_id, lnum);
            let was_mapped = self.oracle.is_mapped(Lnum(lnum));
            if found == expected && mapped == was_mapped {
                continue;
            }
            assert!(!was_mapped, "by {way}: LEB {lnum} changed, or is lost (mapped: {mapped})");
            assert!(mapped, "by {way}: an unmapped LEB has contents");
            let ghost = self.ghosts[lnum as usize].contains(&found);
            assert!(ghost, "by {way}: LEB {lnum} came back after a sync, or with what it never held");
            let end = found.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
            let end = end.next_multiple_of(self.oracle.min_io_bytes() as usize);
            self.oracle.map(cx, Lnum(lnum)).expect("it was unmapped");
            self.oracle.write(cx, Lnum(lnum), 0, Payload::Bytes(&found[..end])).expect("within bounds");
        }
    }
}

fn run(geometry: Geometry, config: &Config, lebs: u32, ops: &[Op]) {
    let mut twin = Twin::new(Rig::<RamFlash>::blank(geometry, config), lebs);
    for (i, op) in ops.iter().enumerate() {
        twin.apply(op).unwrap_or_else(|error| panic!("operation {i}, {op:?}: {error}"));
        if i % 16 == 0 {
            twin.compare();
        }
    }
    twin.pull_plug();
    twin.rig.reattach();
    twin.forget_ghosts();
    twin.compare();
}

const LEBS: u32 = 12;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn random_runs_hold_what_memory_holds_over_the_whole_grid(ops in ops(LEBS, 20..120)) {
        for config in grid() {
            run(small_lebs(72), &config, LEBS, &ops);
        }
    }

    #[test]
    fn random_runs_on_large_lebs_sub_pages_and_nor_hold_what_memory_holds(ops in ops(LEBS, 20..80)) {
        for policy in [Policy::LINUX_6_1, Policy::LINUX_6_7] {
            for geometry in [large_lebs(72), sub_pages(72), nor(72)] {
                run(geometry, &Config::linux(policy), LEBS, &ops);
            }
        }
    }

    #[test]
    fn random_runs_with_much_levelling_hold_what_memory_holds(ops in ops(LEBS, 50..200), threshold in 2..5u32) {
        for config in grid() {
            run(small_lebs(72), &Config { wl_threshold: threshold, ..config }, LEBS, &ops);
        }
    }

    #[test]
    fn random_runs_on_a_full_device_hold_what_memory_holds(ops in ops(40, 50..200)) {
        for config in grid() {
            let config = Config { beb_per_1024: 0, wl_threshold: 3, ..config };
            let rig = Rig::<RamFlash>::blank(small_lebs(72), &config);
            let lebs = rig.ubi().available_pebs();
            let ops: Vec<_> = ops.iter().cloned().map(|op| within(op, lebs)).collect();
            let mut twin = Twin::new(rig, lebs);
            for lnum in 0..lebs {
                twin.apply(&Op::Write { lnum, skip: 0, units: 2 })?;
            }
            for op in &ops {
                twin.apply(op).unwrap_or_else(|error| panic!("{op:?}: {error}"));
            }
            twin.compare();
            twin.pull_plug();
        }
    }

    #[test]
    fn every_switch_of_the_policy_holds_what_memory_holds_alone(ops in ops(LEBS, 30..120), switch in 0..5usize) {
        let set = |at: usize| at == switch;
        let policy = Policy {
            count_in_place_erases: set(0),
            wait_for_free_pebs: set(1),
            pools_use_beb_reserve: set(2),
            wl_beyond_limit: set(3),
            pass_over_unless_anchor: set(4),
        };
        run(small_lebs(72), &Config { wl_threshold: 4, ..Config::linux(policy) }, LEBS, &ops);
    }
}

fn within(op: Op, lebs: u32) -> Op {
    match op {
        Op::Write { lnum, skip, units } => Op::Write { lnum: lnum % lebs, skip, units },
        Op::Change { lnum, units } => Op::Change { lnum: lnum % lebs, units },
        Op::Map { lnum } => Op::Map { lnum: lnum % lebs },
        Op::Unmap { lnum } => Op::Unmap { lnum: lnum % lebs },
        Op::Read { lnum, offset, len } => Op::Read { lnum: lnum % lebs, offset, len },
        other => other,
    }
}
