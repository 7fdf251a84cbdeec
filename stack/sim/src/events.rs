//! Events of a fixed number of sources, each of which has at most one to come: a die, a bus, a link.
//!
//! A simulated controller has some tens of resources, and each is doing one thing. So there is no queue of events that
//! grows: an [`Agenda`] keeps the next time of each source in a tournament whose winner is the next event, and setting
//! one source replays its matches. Who wins decides no branch, and a match waits for the one before it by a comparison
//! only: what comes next is asked for right after.

use std::hint::select_unpredictable;

use crate::Ns;

/// No event. Times are kept one higher than they are, so that one can be taken off.
const NEVER: u64 = u64::MAX;

/// The winner of a match, or a source before its first.
#[derive(Clone, Copy, Debug)]
struct Player {
    /// When its event comes, plus 1.
    key: u64,
    source: usize,
}

/// The next event of each source.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// A complete binary tree: leaf `leaves + source` is the source, an inner node whoever is earlier below it, the lower
    /// source on a tie.
    players: Vec<Player>,
    leaves: usize,
}

impl Agenda {
    /// No events, for `sources` sources.
    pub fn new(sources: usize) -> Agenda {
        let leaves = sources.next_power_of_two().max(2);
        Agenda { players: vec![Player { key: NEVER, source: 0 }; 2 * leaves], leaves }
    }

    /// The source's event comes at `at`, whatever it was before. At the end of time it never does.
    #[inline]
    pub fn set(&mut self, source: usize, at: Ns) {
        self.put(source, at.0.saturating_add(1));
    }

    /// The source has no event.
    #[inline]
    pub fn clear(&mut self, source: usize) {
        self.put(source, NEVER);
    }

    /// When the source's event comes.
    #[inline]
    pub fn of(&self, source: usize) -> Option<Ns> {
        time_of(self.players[self.leaves + source].key)
    }

    /// The time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Ns> {
        time_of(self.players[1].key)
    }

    /// The earliest event and its source, the lowest source on a tie. It stays until it is set or cleared.
    #[inline]
    pub fn next(&self) -> Option<(Ns, usize)> {
        let Player { key, source } = self.players[1];
        time_of(key).map(|at| (at, source))
    }

    /// The source's event is being handled. Until [`settle`](Self::settle), which must follow, the earliest event is not
    /// to be asked for; most handlers set the source anew, and then nothing is left to settle.
    #[inline]
    pub fn begin(&mut self, source: usize) {
        self.players[self.leaves + source].key = NEVER;
    }

    /// The source's event was handled.
    #[inline]
    pub fn settle(&mut self, source: usize) {
        if self.of(source).is_none() {
            self.put(source, NEVER);
        }
    }

    #[inline]
    fn put(&mut self, source: usize, key: u64) {
        let mut node = self.leaves + source;
        let mut winner = Player { key, source };
        self.players[node] = winner;
        while node > 1 {
            let other = self.players[node ^ 1];
            // The left one has the lower sources and wins a tie.
            let other_is_left = (node & 1) as u64;
            let other_wins = other.key - other_is_left < winner.key;
            winner.key = select_unpredictable(other_wins, other.key, winner.key);
            winner.source = select_unpredictable(other_wins, other.source, winner.source);
            node /= 2;
            self.players[node] = winner;
        }
    }
}

#[inline]
fn time_of(key: u64) -> Option<Ns> {
    (key != NEVER).then(|| Ns(key - 1))
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
        for sources in [1, 2, 5, 64, 100] {
            let mut agenda = Agenda::new(sources);
            let mut plain = vec![NEVER; sources];
            for _ in 0..2_000 {
                let source = rng.below(sources as u64) as usize;
                let at = if rng.chance(0.3) { NEVER } else { rng.below(50) };
                if let Some((_, first)) = agenda.next().filter(|_| rng.chance(0.5)) {
                    // Handled: others are set meanwhile, and perhaps the source itself.
                    agenda.begin(first);
                    plain[first] = NEVER;
                    agenda.set(source, Ns(at));
                    plain[source] = at;
                    agenda.settle(first);
                } else {
                    agenda.set(source, Ns(at));
                    plain[source] = at;
                }
                let least = (0..sources).min_by_key(|&source| (plain[source], source)).filter(|&at| plain[at] != NEVER);
                assert_eq!(agenda.next().map(|(_, source)| source), least);
            }
        }
    }
}
