//! Which of all cuts are run.

use sim::{Ns, Seed};

/// The cuts to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One of so many cuts, evenly spread, with each tear in turn; 1 for all.
    Every(u64),
    /// At least so many cuts, evenly spread, with each tear in turn; all if there are not more.
    Count(u64),
    /// So many cuts, dense in the beginning: each comes later than the one before by the same factor. For long
    /// workloads whose beginning differs from the rest.
    Log(u64),
    /// So many cuts, drawn with this seed.
    Random {
        /// Number of cuts; fewer if there are not so many.
        count: u64,
        /// Seed of the draws.
        seed: Seed,
    },
    /// The operations under way at these times of the workload, with each tear.
    Times(Vec<Ns>),
}

impl Selection {
    /// Numbers of the cuts out of `cuts`, in order, each once. `at_time` returns the operation under way at a time.
    pub(super) fn list(&self, cuts: u64, tears: u64, at_time: impl Fn(Ns) -> Option<u64>) -> Vec<u64> {
        let tears = tears.max(1);
        let mut list: Vec<u64> = match self {
            Selection::Every(every) => turn_by_turn(cuts, tears, (*every).max(1)),
            Selection::Count(count) => turn_by_turn(cuts, tears, (cuts / (*count).max(1)).max(1)),
            Selection::Log(count) => {
                let (count, last) = ((*count).clamp(1, cuts.max(1)), cuts.saturating_sub(1));
                let step = ((last.max(1)) as f64).ln() / (count.saturating_sub(1).max(1)) as f64;
                (0..count)
                    .map(|turn| ((step * turn as f64).exp().round() as u64 - u64::from(turn == 0)).min(last))
                    .collect()
            }
            Selection::Random { count, .. } if *count >= cuts => (0..cuts).collect(),
            Selection::Random { count, seed } => {
                let mut rng = seed.stream("cuts/selection");
                let mut drawn = std::collections::BTreeSet::new();
                while (drawn.len() as u64) < *count {
                    drawn.insert(rng.below(cuts));
                }
                drawn.into_iter().collect()
            }
            Selection::Times(times) => {
                let operations = times.iter().filter_map(|&time| at_time(time));
                operations.flat_map(|operation| operation * tears..(operation + 1) * tears).collect()
            }
        };
        list.retain(|&at| at < cuts);
        list.sort_unstable();
        list.dedup();
        list
    }
}

/// Of every `every` cuts one. The tears take turns, whatever factors `every` and their number share.
fn turn_by_turn(cuts: u64, tears: u64, every: u64) -> Vec<u64> {
    (0..cuts.div_ceil(every)).map(|turn| turn * every / tears * tears + turn % tears).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(selection: &Selection, cuts: u64) -> Vec<u64> {
        selection.list(cuts, 3, |time| (time.0 < 10).then_some(time.0))
    }

    #[test]
    fn every_cut_is_every_cut() {
        assert_eq!(list(&Selection::Every(1), 7), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(list(&Selection::Count(100), 7), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(list(&Selection::Random { count: 9, seed: Seed(1) }, 7), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn every_third_cut_has_each_tear_in_turn() {
        for every in 1..20 {
            let list = list(&Selection::Every(every), 300);
            assert_eq!(list.len() as u64, 300_u64.div_ceil(every), "{every}");
            for tear in 0..3 {
                let with_it = list.iter().filter(|&&at| at % 3 == tear).count();
                assert!(with_it.abs_diff(list.len() / 3) <= 1, "every {every}: tear {tear} {with_it} times");
            }
        }
    }

    /// Of the three tears of an operation.
    #[test]
    fn a_count_of_cuts_is_spread_with_each_tear_in_turn() {
        for (count, cuts, expected) in [
            (3, 9, &[0, 4, 8][..]),
            (4, 9, &[0, 1, 5, 6, 7]),
            (9, 9, &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
            (1, 9, &[0]),
            (0, 9, &[0]),
            (3, 0, &[]),
        ] {
            assert_eq!(list(&Selection::Count(count), cuts), expected, "{count} of {cuts}");
        }
    }

    #[test]
    fn log_spaced_cuts_grow_by_one_factor() {
        for (count, cuts, expected) in [
            (5, 10_001, &[0, 10, 100, 1_000, 10_000][..]),
            (3, 10_001, &[0, 100, 10_000]),
            (4, 28, &[0, 3, 9, 27]),
            (2, 10_001, &[0, 10_000]),
            (1, 10_001, &[0]),
            (0, 10_001, &[0]),
            (9, 3, &[0, 1, 2]),
            (9, 1, &[0]),
            (9, 0, &[]),
        ] {
            assert_eq!(list(&Selection::Log(count), cuts), expected, "{count} of {cuts}");
        }
    }

    #[test]
    fn log_spaced_cuts_begin_with_the_first_and_end_with_the_last() {
        let list = list(&Selection::Log(20), 100_000);
        assert_eq!((list[0], list[list.len() - 1]), (0, 99_999));
        assert!(list.len() >= 15 && list.iter().filter(|&&at| at < 317).count() >= list.len() / 3, "{list:?}");
    }

    #[test]
    fn drawn_cuts_differ_by_seed_and_repeat_by_seed() {
        let drawn = |seed| list(&Selection::Random { count: 50, seed: Seed(seed) }, 1000);
        assert_eq!((drawn(1), drawn(1).len()), (drawn(1), 50));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn a_time_selects_the_operation_under_way_with_each_tear() {
        assert_eq!(list(&Selection::Times(vec![Ns(2), Ns(2), Ns(99)]), 100), [6, 7, 8]);
    }
}
