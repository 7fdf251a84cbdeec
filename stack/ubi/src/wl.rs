//! State and wear of each PEB: free, in a pool, protected, used, waiting for erasure …
//!
//! This module knows PEBs and their wear; it knows no flash, no LEB contents and no time. Every PEB is in exactly one
//! place, and [`Wear::check`] verifies that the places and [`PebState`] agree.

mod lowest;
mod protection;
mod record;
mod tree;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

pub use lowest::Lowest;
pub use record::{EraseCounts, EraseCountsIter};
pub use tree::WearTree;

use sim::{Cause, EraseCount, Lnum, Peb, VolId};

use crate::media::{FM_MAX_POOL, FM_MAX_START};
use protection::Protection;
use record::Record;

/// Erasures during which a newly allocated PEB is protected from being moved.
pub const PROTECTION_ERASES: usize = 10;

/// State of a PEB in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PebState {
    /// Erased, in the free tree.
    Free,
    /// Erased, in the user pool or the wear-levelling pool, not yet taken.
    Pooled,
    /// Erased, kept as the next fastmap's anchor.
    SpareAnchor,
    /// Allocated recently; wear levelling must not move it yet.
    Protected,
    /// Holds a LEB.
    Used,
    /// Holds a LEB that is to be moved soon, because a read needed correction.
    Scrub,
    /// Holds a LEB that is not fully readable; never moved.
    Erroneous,
    /// Source or target of a move.
    Moving,
    /// Holds a block of the fastmap.
    Fastmap,
    /// Waits for its erasure, or is being erased.
    Erasing,
    /// Retired, marked bad.
    Bad,
    /// Not touched by UBI: corrupt data kept for the user, or an unknown volume's.
    Kept,
}

impl PebState {
    /// The table of legal transitions.
    pub fn may_become(self, next: PebState) -> bool {
        use PebState::*;
        matches!(
            (self, next),
            (Free, Pooled | SpareAnchor | Protected | Moving | Fastmap)
                | (Pooled, Free | Protected | Moving)
                | (SpareAnchor, Free | Fastmap)
                | (Protected, Used | Scrub | Erasing)
                | (Used, Scrub | Moving | Erasing)
                | (Scrub, Moving | Erasing)
                | (Erroneous, Erasing)
                | (Moving, Used | Scrub | Erroneous | Protected | Free | Erasing)
                | (Fastmap, Erasing | Free)
                | (Erasing, Free | SpareAnchor | Fastmap | Bad)
        )
    }
}

/// Work for the background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Erase a PEB.
    Erase {
        /// PEB to erase.
        peb: Peb,
        /// Whether to test it with patterns first.
        torture: bool,
        /// Cause under which the erasure is counted.
        cause: Cause,
    },
    /// Move a LEB, if wear levelling or scrubbing needs it.
    WearLevel,
}

/// A fastmap pool: PEBs that may be taken without writing a new fastmap.
#[derive(Clone, Debug)]
pub struct Pool {
    pebs: Vec<u32>,
    used: usize,
    max: usize,
}

impl Pool {
    /// An empty pool that a refill fills up to `max`.
    pub fn new(max: u32) -> Pool {
        let max = (max as usize).min(FM_MAX_POOL);
        Pool { pebs: Vec::with_capacity(max), used: 0, max }
    }

    /// Whether every PEB has been taken.
    #[inline]
    pub fn is_used_up(&self) -> bool {
        self.used == self.pebs.len()
    }

    /// Whether a refill may add no more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.pebs.len() == self.max
    }

    /// PEBs of the last refill, taken or not.
    #[inline]
    pub fn size(&self) -> u32 {
        self.pebs.len() as u32
    }

    /// PEBs taken since the last refill.
    #[inline]
    pub fn used(&self) -> u32 {
        self.used as u32
    }

    /// Most PEBs that a refill may put into it.
    #[inline]
    pub fn max(&self) -> u32 {
        self.max as u32
    }

    /// Every PEB of the last refill, taken ones included, as the fastmap records them.
    pub fn pebs(&self) -> &[u32] {
        &self.pebs
    }

    /// The PEB that is taken next.
    #[inline]
    pub fn peek(&self) -> Option<Peb> {
        self.peek_ahead(0)
    }

    /// The PEB that is taken `ahead` after the next one.
    #[inline]
    pub(crate) fn peek_ahead(&self, ahead: usize) -> Option<Peb> {
        self.pebs.get(self.used + ahead).copied().map(Peb)
    }

    /// Takes the next PEB.
    #[inline]
    pub fn take(&mut self) -> Option<Peb> {
        let next = self.peek()?;
        self.used += 1;
        Some(next)
    }

    #[inline]
    pub(crate) fn push(&mut self, peb: Peb) {
        debug_assert!(!self.is_full());
        self.pebs.push(peb.0);
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.pebs.clear();
        self.used = 0;
    }

    fn left(&self) -> impl Iterator<Item = Peb> + '_ {
        self.pebs[self.used..].iter().map(|&peb| Peb(peb))
    }
}

/// The LEB that a PEB holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Volume of the LEB.
    pub vol_id: VolId,
    /// Number of the LEB.
    pub lnum: Lnum,
}

/// State and wear of every PEB.
#[derive(Clone, Debug)]
pub struct Wear {
    pebs: Vec<Record>,
    free: WearTree,
    free_head: Lowest,
    used: Lowest,
    used_head: Lowest,
    scrub: BTreeSet<(EraseCount, Peb)>,
    erroneous: BTreeSet<Peb>,
    protection: Protection,
    works: VecDeque<Work>,
    /// The user pool: PEBs for LEBs.
    pub user_pool: Pool,
    /// The wear-levelling pool: targets of moves.
    pub wl_pool: Pool,
    spare_anchor: Option<Peb>,
}

impl Wear {
    /// `pebs` PEBs, all [`PebState::Erasing`] with no work queued, erase count 0; pools of at most these sizes.
    pub fn new(pebs: u32, user_pool_max: u32, wl_pool_max: u32) -> Wear {
        Wear {
            pebs: vec![Record::BLANK; pebs as usize],
            free: WearTree::new(pebs),
            free_head: Lowest::new(FM_MAX_START),
            used: Lowest::new(pebs),
            used_head: Lowest::new(FM_MAX_START),
            scrub: BTreeSet::new(),
            erroneous: BTreeSet::new(),
            protection: Protection::new(),
            works: VecDeque::with_capacity(64),
            user_pool: Pool::new(user_pool_max),
            wl_pool: Pool::new(wl_pool_max),
            spare_anchor: None,
        }
    }

    /// A PEB's erase count.
    #[inline]
    pub fn ec(&self, peb: Peb) -> EraseCount {
        self.pebs[peb.at()].ec
    }

    /// Erase counts of all PEBs.
    pub fn erase_counts(&self) -> EraseCounts<'_> {
        EraseCounts(&self.pebs)
    }

    /// Sets the erase count of a PEB that is in no ordered set.
    #[inline]
    pub fn set_ec(&mut self, peb: Peb, ec: EraseCount) {
        let record = &mut self.pebs[peb.at()];
        debug_assert!(matches!(record.state, PebState::Erasing | PebState::Bad | PebState::Kept | PebState::Fastmap));
        record.ec = ec;
    }

    /// State of a PEB.
    #[inline]
    pub fn state(&self, peb: Peb) -> PebState {
        self.pebs[peb.at()].state
    }

    /// The LEB that a PEB holds; meaningful while it holds one.
    #[inline]
    pub fn owner(&self, peb: Peb) -> Owner {
        self.pebs[peb.at()].owner()
    }

    /// Sets the LEB that `peb` holds.
    #[inline]
    pub fn set_owner(&mut self, peb: Peb, owner: Owner) {
        self.pebs[peb.at()].set_owner(owner);
    }

    /// The free tree.
    #[inline]
    pub fn free(&self) -> &WearTree {
        &self.free
    }

    /// The free tree, for access to its shape.
    #[inline]
    pub(crate) fn free_shape(&mut self) -> &mut WearTree {
        &mut self.free
    }

    /// The least worn PEB that holds a LEB and may be moved.
    #[inline]
    pub fn least_worn_used(&self) -> Option<(Peb, EraseCount)> {
        self.used.first()
    }

    /// The least worn of these among PEBs 0 to 63.
    #[inline]
    pub fn least_worn_used_head(&self) -> Option<(Peb, EraseCount)> {
        self.used_head.first()
    }

    /// The least worn free PEB among PEBs 0 to 63: the best anchor.
    #[inline]
    pub fn best_anchor(&self) -> Option<Peb> {
        self.free_head.first().map(|(peb, _)| peb)
    }

    /// The spare anchor.
    #[inline]
    pub fn spare_anchor(&self) -> Option<Peb> {
        self.spare_anchor
    }

    /// Whether a PEB is waiting to be scrubbed.
    #[inline]
    pub fn wants_scrub(&self) -> bool {
        !self.scrub.is_empty()
    }

    /// The next PEB to scrub.
    pub fn next_scrub(&self) -> Option<Peb> {
        self.scrub.first().map(|&(_, peb)| peb)
    }

    /// Number of PEBs whose LEB is not fully readable.
    pub fn erroneous(&self) -> u32 {
        self.erroneous.len() as u32
    }

    /// PEBs whose LEB is not fully readable.
    pub fn erroneous_pebs(&self) -> impl Iterator<Item = Peb> + '_ {
        self.erroneous.iter().copied()
    }

    /// Work waiting for the background thread, oldest first.
    pub fn works(&self) -> &VecDeque<Work> {
        &self.works
    }

    /// PEBs in the scrub set.
    pub fn scrubs(&self) -> impl Iterator<Item = Peb> + '_ {
        self.scrub.iter().map(|&(_, peb)| peb)
    }

    /// PEBs in the used set and in the protection queue, in that order.
    pub fn used_and_protected(&self) -> impl Iterator<Item = Peb> + '_ {
        self.in_state(PebState::Used).chain(self.protection.iter())
    }

    /// PEBs in `state`, in the order of their numbers.
    fn in_state(&self, state: PebState) -> impl Iterator<Item = Peb> + '_ {
        (0..).map(Peb).zip(&self.pebs).filter(move |(_, record)| record.state == state).map(|(peb, _)| peb)
    }

    /// Changes the state of a PEB; returns its erase count.
    #[inline]
    fn enter(&mut self, peb: Peb, next: PebState) -> EraseCount {
        let record = &mut self.pebs[peb.at()];
        debug_assert!(record.state.may_become(next), "PEB {peb} may not go from {:?} to {next:?}", record.state);
        record.state = next;
        record.ec
    }

    /// Adds an erased PEB to the free tree.
    #[inline]
    pub fn add_free(&mut self, peb: Peb) {
        let ec = self.enter(peb, PebState::Free);
        self.free.insert(peb, ec);
        if peb.0 < FM_MAX_START {
            self.free_head.insert(peb, ec);
        }
    }

    /// Takes a PEB from the free tree.
    #[inline]
    pub fn take_free(&mut self, peb: Peb, next: PebState) {
        self.enter(peb, next);
        // A refill takes root after root, and need not wait for each PEB's record.
        if !self.free.remove_root(peb) {
            self.free.remove(peb, self.ec(peb));
        }
        if peb.0 < FM_MAX_START {
            let ec = self.ec(peb);
            self.free_head.remove(peb, ec, |of| least(&self.pebs, of, PebState::Free));
        }
    }

    /// Takes a PEB from the free tree as the spare anchor.
    pub fn keep_spare_anchor(&mut self, peb: Peb) {
        debug_assert!(self.spare_anchor.is_none());
        self.take_free(peb, PebState::SpareAnchor);
        self.spare_anchor = Some(peb);
    }

    /// Keeps a newly erased PEB as the spare anchor.
    pub fn keep_erased_as_anchor(&mut self, peb: Peb) {
        debug_assert!(self.spare_anchor.is_none());
        self.enter(peb, PebState::SpareAnchor);
        self.spare_anchor = Some(peb);
    }

    /// Returns the spare anchor to the free tree.
    pub fn drop_spare_anchor(&mut self) {
        if let Some(peb) = self.spare_anchor.take() {
            self.add_free(peb);
        }
    }

    /// Uses the spare anchor for a fastmap.
    pub fn use_spare_anchor(&mut self) -> Option<Peb> {
        let peb = self.spare_anchor.take()?;
        self.enter(peb, PebState::Fastmap);
        Some(peb)
    }

    /// Returns unused PEBs of the pools to the free tree, wear-levelling pool first, and empties the pools.
    pub fn return_pools(&mut self) {
        for user in [false, true] {
            let pool = if user { &self.user_pool } else { &self.wl_pool };
            let (from, to) = (pool.used, pool.pebs.len());
            for at in from..to {
                let pool = if user { &self.user_pool } else { &self.wl_pool };
                let peb = Peb(pool.pebs[at]);
                self.add_free(peb);
            }
        }
        self.wl_pool.clear();
        self.user_pool.clear();
    }

    /// Moves a free PEB into the user pool, or into the wear-levelling pool.
    #[inline]
    pub fn pool(&mut self, peb: Peb, user: bool) {
        self.take_free(peb, PebState::Pooled);
        if user { self.user_pool.push(peb) } else { self.wl_pool.push(peb) }
    }

    /// Protects a PEB that was taken from the user pool.
    #[inline]
    pub fn protect(&mut self, peb: Peb) {
        self.enter(peb, PebState::Protected);
        self.pebs[peb.at()].protection = self.protection.add(peb);
    }

    /// Takes a PEB from the free tree and protects it.
    #[inline]
    pub fn protect_free(&mut self, peb: Peb) {
        self.take_free(peb, PebState::Protected);
        self.pebs[peb.at()].protection = self.protection.add(peb);
    }

    /// Called after an erasure: the oldest protected PEBs become used.
    #[inline]
    pub fn release_oldest(&mut self) {
        while let Some(peb) = self.protection.release() {
            self.add_used(peb);
        }
    }

    /// Adds a PEB that holds a LEB: when its protection ends, after a move, or at attach.
    #[inline]
    pub fn add_used(&mut self, peb: Peb) {
        let ec = self.enter(peb, PebState::Used);
        self.used.insert(peb, ec);
        if peb.0 < FM_MAX_START {
            self.used_head.insert(peb, ec);
        }
    }

    /// Adds a PEB that holds a LEB and is to be moved soon.
    pub fn add_scrub(&mut self, peb: Peb) {
        self.enter(peb, PebState::Scrub);
        self.join_scrub(peb);
    }

    /// Adds a PEB that is in state [`PebState::Scrub`] already to the scrub set.
    pub fn join_scrub(&mut self, peb: Peb) {
        self.scrub.insert((self.ec(peb), peb));
    }

    /// Adds a PEB whose LEB is not fully readable.
    pub fn add_erroneous(&mut self, peb: Peb) {
        self.enter(peb, PebState::Erroneous);
        self.erroneous.insert(peb);
    }

    /// Takes a PEB that holds a LEB from whichever place it is in.
    #[inline]
    pub fn take_holding(&mut self, peb: Peb, next: PebState) {
        let Record { state, protection, .. } = self.pebs[peb.at()];
        let ec = self.enter(peb, next);
        match state {
            PebState::Protected => self.protection.remove(protection),
            PebState::Used => {
                self.used.remove(peb, ec, |of| least(&self.pebs, of, PebState::Used));
                if peb.0 < FM_MAX_START {
                    self.used_head.remove(peb, ec, |of| least(&self.pebs, of, PebState::Used));
                }
            }
            PebState::Scrub => {
                self.scrub.remove(&(ec, peb));
            }
            PebState::Erroneous => {
                self.erroneous.remove(&peb);
            }
            other => unreachable!("PEB {peb} is {other:?} and holds no LEB"),
        }
    }

    /// Changes the state of a PEB that is in none of the ordered sets.
    #[inline]
    pub fn set_state(&mut self, peb: Peb, next: PebState) {
        self.enter(peb, next);
    }

    /// Sets the state of a PEB at attach. Only for states without an ordered set.
    pub fn place_at_attach(&mut self, peb: Peb, state: PebState) {
        debug_assert!(matches!(state, PebState::Bad | PebState::Kept | PebState::Fastmap | PebState::Moving));
        self.pebs[peb.at()].state = state;
    }

    /// Queues a work.
    #[inline]
    pub fn queue(&mut self, work: Work) {
        self.works.push_back(work);
    }

    /// Puts a work back at the head of the queue.
    pub fn requeue(&mut self, work: Work) {
        self.works.push_front(work);
    }

    /// Takes the oldest work.
    #[inline]
    pub fn next_work(&mut self) -> Option<Work> {
        self.works.pop_front()
    }

    /// Takes the erasure of `peb` out of the queue, wherever it is.
    pub fn take_erase(&mut self, peb: Peb) -> Option<Work> {
        let is_it = |work: &Work| matches!(work, Work::Erase { peb: queued, .. } if *queued == peb);
        let at = self.works.iter().position(is_it)?;
        self.works.remove(at)
    }

    /// Drops queued erasures of `peb`, which was erased in another way.
    pub fn unqueue_erase(&mut self, peb: Peb) {
        self.works.retain(|work| !matches!(work, Work::Erase { peb: queued, .. } if *queued == peb));
    }

    /// Checks that every PEB is in the one place that its state names; panics otherwise.
    pub fn check(&self) {
        let free = self.free.check();
        let mut found: Vec<Option<PebState>> = vec![None; self.pebs.len()];
        let mut place = |peb: Peb, state: PebState| {
            let was = found[peb.at()].replace(state);
            assert_eq!(was, None, "PEB {peb} is in two places: {was:?} and {state:?}");
        };
        for (peb, ec) in free {
            assert_eq!(ec, self.ec(peb), "erase count of free PEB {peb} changed under the tree");
            place(peb, PebState::Free);
        }
        self.user_pool.left().chain(self.wl_pool.left()).for_each(|peb| place(peb, PebState::Pooled));
        self.spare_anchor.iter().for_each(|&peb| place(peb, PebState::SpareAnchor));
        self.protection.iter().for_each(|peb| place(peb, PebState::Protected));
        self.scrub.iter().for_each(|&(_, peb)| place(peb, PebState::Scrub));
        self.erroneous.iter().for_each(|&peb| place(peb, PebState::Erroneous));
        let queued =
            self.works.iter().filter_map(|work| if let Work::Erase { peb, .. } = work { Some(*peb) } else { None });
        queued.for_each(|peb| place(peb, PebState::Erasing));
        let head = (self.pebs.len() as u32).min(FM_MAX_START);
        let (mut used, mut used_head, mut free_head) = (0, 0, 0);
        // Of sixteen PEBs each.
        let mut least_used = vec![lowest::ABSENT; self.pebs.len().div_ceil(lowest::FAN)];
        let mut least_free = least_used.clone();
        let note = |least: &mut [u64], peb: usize, ec| {
            let least = &mut least[peb / lowest::FAN];
            *least = lowest::key_of(Peb(peb as u32), ec).min(*least);
        };
        for (i, (&Record { state, ec, .. }, &found)) in self.pebs.iter().zip(&found).enumerate() {
            let in_head = u32::from((i as u32) < head);
            let expected = match state {
                PebState::Bad | PebState::Kept | PebState::Fastmap => None,
                // The set of used PEBs asks the records: it lists none.
                PebState::Used => {
                    (used, used_head) = (used + 1, used_head + in_head);
                    note(&mut least_used, i, ec);
                    None
                }
                PebState::Free => {
                    free_head += in_head;
                    note(&mut least_free, i, ec);
                    Some(state)
                }
                _ => Some(state),
            };
            assert_eq!(found, expected, "PEB {i} is {state:?}");
        }
        assert_eq!(self.used.len(), used, "used PEBs");
        assert_eq!(
            (self.free_head.len(), self.used_head.len()),
            (free_head, used_head),
            "free and used of the first 64"
        );
        self.used.check(&least_used);
        let head = (head as usize).div_ceil(lowest::FAN);
        self.free_head.check(&least_free[..head]);
        self.used_head.check(&least_used[..head]);
    }
}

/// The least key among the PEBs of `of` that are in `state`.
#[inline]
fn least(pebs: &[Record], of: Range<usize>, state: PebState) -> u64 {
    let end = of.end.min(pebs.len());
    let key = |(peb, record): (usize, &Record)| {
        if record.state == state { lowest::key_of(Peb(peb as u32), record.ec) } else { lowest::ABSENT }
    };
    (of.start..end).zip(&pebs[of.start..end]).map(key).min().unwrap_or(lowest::ABSENT)
}
