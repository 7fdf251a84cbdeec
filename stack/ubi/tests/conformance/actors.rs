//! Several actors at once, each with its own clock: writers on their own volumes, one that updates, one that creates
//! and removes volumes, and the background thread. The order of their turns is drawn.

use sim::seam::{LebVolume, Payload, RamFlash, RamVolume};
use sim::{Cx, Lnum, Rng, Seed, VolId};
use ubi::{Config, UbiError};

use crate::rig::{Rig, dynamic, fixed, grid, pattern, small_lebs};

struct Writer {
    vol_id: VolId,
    oracle: RamVolume,
    serial: u32,
}

impl Writer {
    fn new(rig: &mut Rig<RamFlash>, name: &str, lebs: u32) -> Writer {
        let vol_id = rig.create(&dynamic(name, lebs)).unwrap();
        let oracle = RamVolume::new(lebs, rig.ubi().layout().leb_bytes, rig.ubi().layout().min_io_bytes);
        Writer { vol_id, oracle, serial: vol_id.0 * 100_000 }
    }

    fn turn(&mut self, rig: &mut Rig<RamFlash>, rng: &mut Rng) {
        let lnum = rng.below(u64::from(self.oracle.lebs())) as u32;
        let at = Lnum(lnum);
        let cx = &mut Cx::new();
        self.serial += 1;
        let data = pattern(self.serial, 256 * (1 + rng.below(6) as usize));
        match rng.below(5) {
            0 => {
                rig.unmap(self.vol_id, lnum).unwrap();
                self.oracle.unmap(cx, at).unwrap();
            }
            1 if !self.oracle.is_mapped(at) => {
                rig.write(self.vol_id, lnum, 512, &data).unwrap();
                self.oracle.write(cx, at, 512, Payload::Bytes(&data)).unwrap();
            }
            2 => self.compare(rig, lnum),
            _ => {
                rig.change(self.vol_id, lnum, &data).unwrap();
                self.oracle.change(cx, at, Payload::Bytes(&data)).unwrap();
            }
        }
    }

    fn compare(&mut self, rig: &mut Rig<RamFlash>, lnum: u32) {
        let mut expected = vec![0; self.oracle.leb_bytes() as usize];
        self.oracle.read(&mut Cx::new(), Lnum(lnum), 0, &mut expected).unwrap();
        assert!(rig.read_leb(self.vol_id, lnum).unwrap() == expected, "volume {}, LEB {lnum}", self.vol_id);
    }
}

/// Creates a volume, writes to it, renames it, grows it, removes it: one step per turn.
#[derive(Default)]
struct Manager {
    made: Option<VolId>,
    turns: u32,
}

impl Manager {
    fn turn(&mut self, rig: &mut Rig<RamFlash>) {
        self.turns += 1;
        let Some(vol_id) = self.made else {
            self.made = match rig.create(&dynamic(&format!("made-{}", self.turns), 2)) {
                Ok(vol_id) => Some(vol_id),
                Err(UbiError::NoSpace { .. }) => None,
                Err(other) => panic!("{other}"),
            };
            return;
        };
        match self.turns % 5 {
            0 => rig.change(vol_id, 1, &pattern(self.turns, 512)).unwrap(),
            1 => rig.rename(&[(vol_id, &format!("renamed-{}", self.turns))]).unwrap(),
            2 => rig.resize(vol_id, 3).or_else(|_| rig.resize(vol_id, 2)).unwrap(),
            3 => rig.write(vol_id, 0, 0, &[]).unwrap(),
            _ => {
                rig.remove(vol_id).unwrap();
                self.made = None;
            }
        }
    }
}

fn together(config: &Config, seed: u64, turns: u32) {
    let mut rig = Rig::blank(small_lebs(90), config);
    let mut writers: Vec<_> = (0..3).map(|i| Writer::new(&mut rig, &format!("writer-{i}"), 8 + i)).collect();
    let updated = rig.create(&fixed("updated", 3)).unwrap();
    let mut update = Vec::new();
    let mut manager = Manager::default();
    let mut rng = Seed(seed).stream("test/actors");
    let mut clocks = [0u64; 6];
    for _ in 0..turns {
        let actor = (0..6).min_by_key(|&actor| (clocks[actor], actor)).expect("there are actors");
        clocks[actor] += 1 + rng.below([20, 25, 30, 90, 150, 12][actor]);
        match actor {
            0..3 => writers[actor].turn(&mut rig, &mut rng),
            3 => manager.turn(&mut rig),
            4 => {
                update = pattern(clocks[4] as u32, 1 + rng.below(3 * 3584) as usize);
                rig.update(updated, &update).unwrap();
            }
            _ => {
                rig.step().unwrap();
            }
        }
    }
    for _ in 0..2 {
        for writer in &mut writers {
            (0..writer.oracle.lebs()).for_each(|lnum| writer.compare(&mut rig, lnum));
        }
        assert!(rig.contents(updated, update.len()).unwrap() == update);
        rig.both_ways_agree();
        rig.reattach();
        rig.open(updated).unwrap();
    }
}

#[test]
fn several_actors_at_once_do_not_disturb_each_other() {
    for config in grid() {
        for (seed, wl_threshold) in [(1, 4096), (2, 3), (3, 12)] {
            together(&Config { wl_threshold, ..config.clone() }, seed, 700);
        }
    }
}

#[test]
fn a_volume_is_removed_while_its_lebs_are_being_levelled() {
    for config in grid() {
        let config = Config { wl_threshold: 2, beb_per_1024: 0, ..config };
        let mut rig = Rig::blank(small_lebs(72), &config);
        let lebs = rig.ubi().available_pebs();
        let hot = rig.create(&dynamic("hot", 2)).unwrap();
        for round in 0..60 {
            // Cold LEBs of a volume that is created and removed are the ones that levelling wants to move. Writing the
            // table without the volume may have to run levelling, because no PEB is free.
            let cold = rig.create(&dynamic("cold", lebs - 2)).unwrap();
            (0..lebs - 2).for_each(|lnum| rig.write(cold, lnum, 0, &pattern(lnum, 256)).unwrap());
            (0..12).for_each(|i| rig.change(hot, i % 2, &pattern(round * 12 + i, 256)).unwrap());
            if round % 2 == 0 {
                rig.remove(cold).unwrap();
            } else {
                rig.rename(&[(hot, "cold")]).unwrap();
                rig.rename(&[(hot, "hot")]).unwrap();
            }
            assert_eq!(rig.read(hot, 1, 0, 256).unwrap(), pattern(round * 12 + 11, 256));
        }
    }
}
