//! Events of a fixed number of sources, each of which has at most one to come: a die, a bus, a link.
//!
//! A simulated controller has some tens of resources, and each is doing one thing. So there is no queue of events that
//! grows: an [`Agenda`] keeps the next time of each source in a tournament, and setting one touches a few words.

use crate::Ns;

const NEVER: u64 = u64::MAX;

/// The next event of each source.
#[derive(Clone, Debug)]
pub struct Agenda {
    /// A complete binary tree: leaf `leaves + source` holds the source's time, an inner node the least below it.
    times: Vec<u64>,
    leaves: usize,
}

impl Agenda {
    /// No events, for `sources` sources.
    pub fn new(sources: usize) -> Agenda {
        let leaves = sources.next_power_of_two().max(2);
        Agenda { times: vec![NEVER; 2 * leaves], leaves }
    }

    /// The source's event comes at `at`, whatever it was before.
    #[inline]
    pub fn set(&mut self, source: usize, at: Ns) {
        self.put(source, at.0);
    }

    /// The source has no event.
    #[inline]
    pub fn clear(&mut self, source: usize) {
        self.put(source, NEVER);
    }

    /// When the source's event comes.
    #[inline]
    pub fn of(&self, source: usize) -> Option<Ns> {
        let at = self.times[self.leaves + source];
        (at != NEVER).then_some(Ns(at))
    }

    /// The time of the earliest event.
    #[inline]
    pub fn next_time(&self) -> Option<Ns> {
        (self.times[1] != NEVER).then_some(Ns(self.times[1]))
    }

    /// The earliest event and its source, the lowest source on a tie. It stays until it is set or cleared.
    #[inline]
    pub fn next(&self) -> Option<(Ns, usize)> {
        let at = self.times[1];
        if at == NEVER {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.times[2 * node] != at);
        }
        Some((Ns(at), node - self.leaves))
    }

    /// The source's event is being handled. Until [`settle`](Self::settle), which must follow, the earliest event is not
    /// to be asked for; most handlers set the source anew, and then nothing is left to settle.
    #[inline]
    pub fn begin(&mut self, source: usize) {
        self.times[self.leaves + source] = NEVER;
    }

    /// The source's event was handled.
    #[inline]
    pub fn settle(&mut self, source: usize) {
        self.put(source, self.times[self.leaves + source]);
    }

    #[inline]
    fn put(&mut self, source: usize, at: u64) {
        let mut node = self.leaves + source;
        self.times[node] = at;
        while node > 1 {
            node /= 2;
            let least = self.times[2 * node].min(self.times[2 * node + 1]);
            if self.times[node] == least {
                return;
            }
            self.times[node] = least;
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
                    agenda.put(source, at);
                    plain[source] = at;
                    agenda.settle(first);
                } else {
                    agenda.put(source, at);
                    plain[source] = at;
                }
                let least = (0..sources).min_by_key(|&source| (plain[source], source)).filter(|&at| plain[at] != NEVER);
                assert_eq!(agenda.next().map(|(_, source)| source), least);
            }
        }
    }
}
