//! Which PEBs a refill puts into the pools, and which the fastmap takes for itself: the rules of Linux 6.1 and 6.7 in
//! `fastmap-wl.c` and `fastmap.c`, written once more over a copy of the free tree, for each of the policy's switches alone.

use sim::seam::RamFlash;
use sim::{Peb, VolId};
use ubi::wl::WearTree;
use ubi::{Config, Policy};

use crate::rig::{Rig, dynamic, pattern, small_lebs};

/// PEBs among which a fastmap's anchor must lie.
const FIRST: u32 = 64;

/// What is free, and what a refill makes of it.
struct Model {
    free: WearTree,
    policy: Policy,
    threshold: u64,
    /// Data blocks of a fastmap: all but its anchor.
    data_blocks: i64,
    beb_reserved: i64,
    /// Largest size of each pool, user first.
    max: [usize; 2],
    pools: [Vec<u32>; 2],
    anchor: Option<Peb>,
    ec: Vec<u32>,
    /// Whether there is a fastmap on flash, and none is being written.
    has_fastmap: bool,
}

impl Model {
    fn of(rig: &Rig<RamFlash>) -> Model {
        let (ubi, wear) = (rig.ubi(), rig.ubi().wear());
        let ec: Vec<u32> = wear.erase_counts().iter().map(|ec| ec.0).collect();
        let mut model = Model {
            free: wear.free().clone(),
            policy: rig.config.policy,
            threshold: rig.config.wl_threshold.into(),
            data_blocks: 2,
            beb_reserved: ubi.beb_reserved().into(),
            max: [wear.user_pool.max() as usize, wear.wl_pool.max() as usize],
            pools: [Vec::new(), Vec::new()],
            anchor: None,
            ec,
            has_fastmap: !ubi.fastmap_pebs().is_empty(),
        };
        // What the pools still hold goes back first, and then the spare anchor.
        for pool in [&wear.user_pool, &wear.wl_pool] {
            pool.pebs()[pool.used() as usize..].iter().for_each(|&peb| model.give_back(Peb(peb)));
        }
        wear.spare_anchor().into_iter().for_each(|peb| model.give_back(peb));
        model
    }

    fn count(&self, peb: Peb) -> sim::EraseCount {
        sim::EraseCount(self.ec[peb.at()])
    }

    fn give_back(&mut self, peb: Peb) {
        self.free.insert(peb, self.count(peb));
    }

    fn take(&mut self, peb: Peb) {
        self.free.remove(peb, self.count(peb));
    }

    fn free(&self) -> i64 {
        self.free.iter().count() as i64
    }

    /// Whether the fastmap may take a PEB for itself.
    fn fastmap_may_take(&self) -> bool {
        self.free() > if self.policy.pools_use_beb_reserve { 0 } else { self.beb_reserved }
    }

    /// The highest below lowest + `span`.
    fn highest(&self, span: u64) -> Option<Peb> {
        let order: Vec<_> = self.free.iter_with_ec().collect();
        let limit = u64::from(order.first()?.1.0) + span;
        order.into_iter().rev().find(|(_, ec)| u64::from(ec.0) < limit).map(|(peb, _)| peb)
    }

    fn middling(&mut self) -> Option<Peb> {
        let order: Vec<_> = self.free.iter_with_ec().collect();
        let spread = u64::from(order.last()?.1.0 - order[0].1.0);
        if spread >= 2 * self.threshold {
            return self.highest(self.threshold);
        }
        let root = self.free.root()?;
        // Without a fastmap, a PEB that could be its anchor is passed over for the next one; since 6.7 only while no anchor is
        // held.
        let keeps_anchor = self.policy.pass_over_unless_anchor && self.anchor.is_some();
        if !self.has_fastmap && root.0 < FIRST && !keeps_anchor {
            let at = order.iter().position(|&(peb, _)| peb == root).unwrap();
            return order.get(at + 1).map(|&(peb, _)| peb);
        }
        Some(root)
    }

    fn refill(&mut self) {
        let lowest = self.free.iter().filter(|peb| peb.0 < FIRST).min_by_key(|&peb| (self.ec[peb.at()], peb.0));
        self.anchor = lowest.filter(|_| self.fastmap_may_take());
        self.anchor.into_iter().for_each(|peb| self.take(peb));
        while [0, 1].into_iter().any(|at| self.pools[at].len() < self.max[at]) {
            for at in [0, 1].into_iter().filter(|&at| self.pools[at].len() < self.max[at]).collect::<Vec<_>>() {
                let left = if self.policy.pools_use_beb_reserve {
                    self.free() - self.data_blocks
                } else {
                    let blocks = if self.pools[1].is_empty() { 0 } else { self.data_blocks };
                    self.free() - blocks - if at == 0 { 0 } else { self.beb_reserved }
                };
                if left <= 0 || self.free.is_empty() {
                    return;
                }
                let wanted = (self.max[0] + self.max[1] - self.pools[0].len() - self.pools[1].len()) as i64;
                let peb = if at == 0 {
                    self.middling()
                } else if self.policy.wl_beyond_limit && left <= wanted {
                    // The last ones may be worn beyond the limit.
                    let lowest = self.free.iter_with_ec().next().unwrap().1;
                    self.free.descent_end(u64::from(lowest.0) + 2 * self.threshold)
                } else {
                    self.highest(2 * self.threshold)
                };
                let Some(peb) = peb else { return };
                self.take(peb);
                self.pools[at].push(peb.0);
            }
        }
    }

    /// The data blocks that a fastmap takes; `None` for one that is erased and used again.
    fn data_pebs(&mut self) -> Vec<Option<Peb>> {
        // While one is being written there is none.
        self.has_fastmap = false;
        let mut block = || {
            let peb = if self.fastmap_may_take() { self.middling() } else { None };
            peb.into_iter().for_each(|peb| self.take(peb));
            peb
        };
        [block(), block()].to_vec()
    }
}

/// Every policy of a kernel, and every switch alone.
fn policies() -> Vec<Policy> {
    let old = Policy::LINUX_6_1;
    vec![
        old,
        Policy::LINUX_6_7,
        Policy { count_in_place_erases: true, ..old },
        Policy { pools_use_beb_reserve: true, ..old },
        Policy { wl_beyond_limit: true, ..old },
        Policy { pass_over_unless_anchor: true, ..old },
        Policy { pools_use_beb_reserve: false, ..Policy::LINUX_6_7 },
    ]
}

#[derive(Default)]
struct Seen {
    refills: u32,
    first: u32,
    short: u32,
    in_place: u32,
    far: u32,
}

/// Runs until `rounds` refills were compared; the device is first used without fastmap, so that there is none at first.
fn compare(config: &Config, pebs: u32, spare: u32, cold: u32, rounds: u32, seen: &mut Seen) {
    let mut rig = Rig::blank(small_lebs(pebs), &Config { fastmap: false, ..config.clone() });
    // A fastmap of three PEBs twice is reserved with fastmap on only.
    let lebs = rig.ubi().available_pebs() - 6 - spare;
    let vol_id = rig.create(&dynamic("v", lebs)).unwrap();
    (0..cold.min(lebs)).for_each(|lnum| rig.write(vol_id, lnum, 0, &pattern(lnum, 256)).unwrap());
    rig.sync(vol_id).unwrap();
    rig.config.fastmap = true;
    rig.reattach();
    for round in 0..rounds {
        compare_once(&mut rig, vol_id, round, lebs, seen);
    }
}

fn compare_once(rig: &mut Rig<RamFlash>, vol_id: VolId, round: u32, lebs: u32, seen: &mut Seen) {
    let place = format!("round {round}, {:?}", rig.config);
    // Changes of few LEBs until a pool is used up, and then everything that waits, so that nothing is done before the refill.
    for turn in 0.. {
        rig.run(|ubi, cx| (0..200).for_each(|_| assert!(ubi.step_background(cx).is_ok())));
        let wear = rig.ubi().wear();
        if wear.works().is_empty() && (wear.user_pool.is_used_up() || wear.wl_pool.is_used_up()) {
            break;
        }
        assert!(turn < 600, "{place}: no pool is used up, or work never ends");
        rig.change(vol_id, (round * 3 + turn) % (lebs / 3).max(1), &pattern(turn, 256)).unwrap();
    }
    let mut model = Model::of(rig);
    seen.first += u32::from(!model.has_fastmap);
    let writes = rig.ubi().stats().fastmap_writes;
    let sizes = |rig: &Rig<RamFlash>, user: usize, wl: usize| {
        let stats = rig.ubi().stats();
        (stats.user_pool_sizes[user], stats.wl_pool_sizes[wl])
    };
    model.refill();
    let (user, wl) = (model.pools[0].len(), model.pools[1].len());
    let before = sizes(rig, user, wl);
    let old: Vec<Peb> = rig.ubi().fastmap_pebs().to_vec();
    rig.change(vol_id, round % lebs, &pattern(round, 256)).unwrap();
    if rig.ubi().stats().fastmap_writes != writes + 1 {
        // It found no PEB for the user, and was repeated after work.
        return;
    }
    let wear = rig.ubi().wear();
    assert_eq!([wear.user_pool.pebs(), wear.wl_pool.pebs()], [&model.pools[0][..], &model.pools[1][..]], "{place}");
    assert_eq!(sizes(rig, user, wl), (before.0 + 1, before.1 + 1), "{place}");
    let fastmap = rig.ubi().fastmap_pebs();
    let anchor = model.anchor.or(old.first().copied());
    assert_eq!(fastmap.first().copied(), anchor, "{place}");
    for (at, taken) in (1..).zip(model.data_pebs()) {
        assert_eq!(fastmap[at], taken.unwrap_or_else(|| old[at]), "{place}, block {at}");
        seen.in_place += u32::from(taken.is_none());
    }
    seen.refills += 1;
    seen.short += u32::from(user < model.max[0] || wl < model.max[1]);
    let ecs: Vec<u32> = model.pools[0].iter().map(|&peb| model.ec[peb as usize]).collect();
    seen.far += u32::from(ecs.iter().max() > ecs.iter().min().map(|ec| ec + model.threshold as u32).as_ref());
}

#[test]
fn a_refill_takes_the_pebs_that_linux_takes() {
    let mut seen = Seen::default();
    for policy in policies() {
        for (wl_threshold, beb_per_1024) in [(4096, 20), (3, 20), (8, 0), (2, 60)] {
            let config = Config { wl_threshold, beb_per_1024, ..Config::linux(policy) };
            for (pebs, spare, cold) in [(110, 0, 999), (110, 60, 999), (150, 100, 10), (260, 8, 999), (70, 0, 999)] {
                compare(&config, pebs, spare, cold, 30, &mut seen);
            }
        }
    }
    let Seen { refills, first, short, in_place, far } = seen;
    assert!(refills > 1000 && first > 20 && short > 50 && in_place > 20, "{refills} {first} {short} {in_place} {far}");
}
