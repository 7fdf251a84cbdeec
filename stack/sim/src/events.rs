//! The next event of each of a fixed number of sources: a die, a bus, a link.
//!
//! A simulated controller has some tens of resources, each doing one thing at a time, so it needs no general event
//! queue. An [`Agenda`] keeps the next time of each source in a tournament tree whose root is the next event. Setting a
//! source replays its matches up to the root. A player is one integer, time and source together, so a match is one
//! comparison without a branch.
//!
//! Not every time fits beside a source in 64 bits. Players count from a base that moves. A time too far from it is kept
//! as "later than all near ones"; when no near event is left, the base moves up.

use std::hint::select_unpredictable;

use crate::Ns;

/// No event.
const NEVER: u64 = u64::MAX;
/// Player of an event beyond the horizon.
const FAR: u64 = NEVER - 1;

/// The next event of every source.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// A complete binary tree: leaf `leaves + source` is the source's player, an inner node the lesser of its children.
    /// A player is the time since `base`, with the source in the low `bits`.
    players: Vec<u64>,
    leaves: usize,
    bits: u32,
    base: u64,
    /// Times less than this after `base` are near.
    horizon: u64,
    /// Time of each source's event, or [`NEVER`].
    times: Vec<u64>,
}

impl Agenda {
    /// An agenda of `sources` sources without events.
    pub fn new(sources: usize) -> Agenda {
        let leaves = sources.next_power_of_two().max(2);
        let bits = leaves.trailing_zeros();
        Agenda {
            players: vec![NEVER; 2 * leaves],
            leaves,
            bits,
            base: 0,
            horizon: FAR >> bits,
            times: vec![NEVER; sources],
        }
    }

    /// Sets the source's event to `at`, replacing the one before. `Ns(u64::MAX)` means no event.
    #[inline]
    pub fn set(&mut self, source: usize, at: Ns) {
        self.times[source] = at.0;
        if self.is_near(at.0) {
            self.put(source, self.player(source));
        } else {
            self.set_far(source, at.0);
        }
    }

    /// Removes the source's event.
    #[inline]
    pub fn clear(&mut self, source: usize) {
        self.times[source] = NEVER;
        self.put(source, NEVER);
    }

    /// Time of the source's event.
    #[inline]
    pub fn of(&self, source: usize) -> Option<Ns> {
        let at = self.times[source];
        (at != NEVER).then_some(Ns(at))
    }

    /// The time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Ns> {
        self.next().map(|(at, _)| at)
    }

    /// The earliest event and its source, the lowest source on a tie. It stays until it is set or cleared.
    #[inline]
    pub fn next(&self) -> Option<(Ns, usize)> {
        let player = self.players[1];
        (player != NEVER).then(|| (Ns(self.base + (player >> self.bits)), player as usize & (self.leaves - 1)))
    }

    /// Starts handling the source's event. Until [`settle`](Self::settle), which must follow, do not ask for the
    /// earliest event. Most handlers set the source again, which leaves `settle` nothing to do.
    #[inline]
    pub fn begin(&mut self, source: usize) {
        self.times[source] = NEVER;
        self.players[self.leaves + source] = NEVER;
    }

    /// Ends the handling of the source's event.
    #[inline]
    pub fn settle(&mut self, source: usize) {
        if self.times[source] == NEVER {
            self.put(source, NEVER);
        }
    }

    #[inline]
    fn put(&mut self, source: usize, player: u64) {
        let mut node = self.leaves + source;
        let mut winner = player;
        self.players[node] = winner;
        while node > 1 {
            let other = self.players[node ^ 1];
            winner = select_unpredictable(other < winner, other, winner);
            node /= 2;
            self.players[node] = winner;
        }
        if winner == FAR {
            self.move_base();
        }
    }

    /// Whether a time fits into a player, below [`FAR`]. A time before `base` does not.
    #[inline]
    fn is_near(&self, at: u64) -> bool {
        at.wrapping_sub(self.base) < self.horizon
    }

    #[inline]
    fn player(&self, source: usize) -> u64 {
        match self.times[source] {
            NEVER => NEVER,
            at if self.is_near(at) => (at - self.base) << self.bits | source as u64,
            _ => FAR,
        }
    }

    #[cold]
    fn set_far(&mut self, source: usize, at: u64) {
        if at < self.base {
            self.move_base();
        } else {
            self.put(source, self.player(source));
        }
    }

    /// Moves `base` to the earliest event, or to where all remaining times are near.
    #[cold]
    fn move_base(&mut self) {
        self.base = self.times.iter().copied().fold(NEVER - self.horizon, u64::min);
        for source in 0..self.times.len() {
            self.players[self.leaves + source] = self.player(source);
        }
        for node in (1..self.leaves).rev() {
            self.players[node] = self.players[2 * node].min(self.players[2 * node + 1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn the_earliest_comes_first_and_the_lowest_source_on_a_tie() {
        let mut agenda = Agenda::new(3);
        assert_eq!(agenda.next(), None);
        agenda.set(2, Ns(5));
        agenda.set(1, Ns(5));
        agenda.set(0, Ns(9));
        assert_eq!(agenda.next(), Some((Ns(5), 1)));
        agenda.clear(1);
        assert_eq!(agenda.next(), Some((Ns(5), 2)));
        agenda.set(2, Ns(10));
        assert_eq!((agenda.next(), agenda.of(2)), (Some((Ns(9), 0)), Some(Ns(10))));
    }

    #[test]
    fn it_agrees_with_a_scan() {
        let mut rng = Seed(3).stream("agenda");
        // Times close together, and times spread over all of 64 bits.
        let spans = [50, 1 << 58, NEVER];
        for (sources, span) in [1, 2, 5, 64, 100].into_iter().flat_map(|sources| spans.map(|span| (sources, span))) {
            let mut agenda = Agenda::new(sources);
            let mut plain = vec![NEVER; sources];
            for _ in 0..2_000 {
                let source = rng.below(sources as u64) as usize;
                let late = if rng.chance(0.2) { rng.below(span) } else { 0 };
                let at = if rng.chance(0.3) { NEVER } else { rng.below(50).max(late) };
                if let Some((_, first)) = agenda.next().filter(|_| rng.chance(0.5)) {
                    // Handle the event: other sources are set meanwhile, and perhaps the source itself.
                    agenda.begin(first);
                    plain[first] = NEVER;
                    agenda.set(source, Ns(at));
                    plain[source] = at;
                    agenda.settle(first);
                } else if rng.chance(0.1) {
                    agenda.clear(source);
                    plain[source] = NEVER;
                } else {
                    agenda.set(source, Ns(at));
                    plain[source] = at;
                }
                let least = (0..sources).min_by_key(|&source| (plain[source], source)).filter(|&at| plain[at] != NEVER);
                assert_eq!(agenda.next(), least.map(|source| (Ns(plain[source]), source)));
                assert_eq!(agenda.next_time(), least.map(|source| Ns(plain[source])));
                assert_eq!(agenda.of(source), (plain[source] != NEVER).then_some(Ns(plain[source])));
            }
        }
    }
}
