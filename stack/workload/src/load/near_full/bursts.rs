//! How unequal the times between two requests for a PEB are.
//!
//! A commit asks for several PEBs at once and then for none, and garbage collection reads long before it writes. The table
//! has the time from one request to the next in a recording of Linux's UBIFS, where the flash's work alone took time
//! (`docs/design/near-full.md`).

/// Share of the requests that come sooner after the one before, and that time over the mean.
const PAUSES: [(f64, f64); 23] = [
    (0.0, 0.0),
    (0.05, 0.050),
    (0.1, 0.091),
    (0.15, 0.141),
    (0.2, 0.199),
    (0.25, 0.282),
    (0.3, 0.349),
    (0.35, 0.448),
    (0.4, 0.580),
    (0.45, 0.774),
    (0.5, 0.967),
    (0.55, 1.040),
    (0.6, 1.048),
    (0.65, 1.048),
    (0.7, 1.049),
    (0.75, 1.058),
    (0.8, 1.197),
    (0.85, 1.498),
    (0.9, 1.771),
    (0.95, 2.532),
    (0.99, 5.679),
    (0.999, 11.698),
    (1.0, 17.965),
];

/// Time to the next request over the mean, from a uniform draw below 1: linear between the table's points.
#[inline]
pub(super) fn pause(draw: f64) -> f64 {
    // The first 20 points are 1/20 apart.
    let at = ((draw * 20.0) as usize).min(19);
    let at = (at..PAUSES.len() - 1).find(|&at| draw < PAUSES[at + 1].0).unwrap_or(PAUSES.len() - 2);
    let ((from, low), (to, high)) = (PAUSES[at], PAUSES[at + 1]);
    low + (high - low) * (draw - from) / (to - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_pause_is_one_and_the_table_is_met() {
        let draws = 1_000_000;
        let mean = (0..draws).map(|i| pause(f64::from(i) / f64::from(draws))).sum::<f64>() / f64::from(draws);
        assert!((mean - 1.0).abs() < 2e-3, "{mean}");
        for (draw, time) in &PAUSES[..PAUSES.len() - 1] {
            assert!((pause(*draw) - time).abs() < 1e-9, "{draw}");
        }
    }
}
