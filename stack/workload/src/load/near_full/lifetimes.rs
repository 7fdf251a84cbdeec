//! How unequal the lives of LEBs in the main area are.
//!
//! Data that were rewritten often will be rewritten often again, wherever garbage collection has put them: a part of the
//! area is hot for good. Small LEBs hold data of one file, large ones of several, so that their lives are less unequal. The tables have that skew as it was measured (`docs/design/near-full.md`), not a formula.

/// A part of the main area whose LEBs are rewritten equally often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heat {
    /// Its share of the LEBs.
    pub lebs: f64,
    /// Its share of the collections that rewrite a LEB.
    pub rewrites: f64,
}

/// Every LEB alike.
pub const EVEN: &[Heat] = &[Heat { lebs: 1.0, rewrites: 1.0 }];

/// LEBs of 126,976 bytes: Linux 6.12 on device A, 153,677 requests for PEBs. From the coldest to the hottest.
pub const OF_LARGE_LEBS: &[Heat] = &[
    Heat { lebs: 0.0347, rewrites: 0.0046 },
    Heat { lebs: 0.7131, rewrites: 0.3806 },
    Heat { lebs: 0.1801, rewrites: 0.1922 },
    Heat { lebs: 0.0453, rewrites: 0.1934 },
    Heat { lebs: 0.0268, rewrites: 0.2292 },
];

/// LEBs of 15,360 bytes: Linux 6.12 on 4,096 PEBs, 68,751 requests.
pub const OF_SMALL_LEBS: &[Heat] = &[
    Heat { lebs: 0.0033, rewrites: 0.0004 },
    Heat { lebs: 0.7677, rewrites: 0.1668 },
    Heat { lebs: 0.0731, rewrites: 0.0318 },
    Heat { lebs: 0.0250, rewrites: 0.0218 },
    Heat { lebs: 0.0889, rewrites: 0.1546 },
    Heat { lebs: 0.0117, rewrites: 0.0406 },
    Heat { lebs: 0.0005, rewrites: 0.0032 },
    Heat { lebs: 0.0179, rewrites: 0.2485 },
    Heat { lebs: 0.0120, rewrites: 0.3324 },
];

/// UBIFS, full, under fsstress: the recording with the nearer size of LEBs, by their ratio.
pub fn fsstress(leb_bytes: u32) -> &'static [Heat] {
    let middle = 126_976 * 15_360;
    if u64::from(leb_bytes) * u64::from(leb_bytes) < middle { OF_SMALL_LEBS } else { OF_LARGE_LEBS }
}

/// LEBs of a device by heat, and what draws one of them.
#[derive(Clone, Debug)]
pub(super) struct Heats {
    /// End of each part among the LEBs, and the share of rewrites up to there.
    parts: Vec<(usize, f64)>,
}

impl Heats {
    /// Divides so many LEBs. A part without a LEB gives its rewrites to the next.
    pub fn of(table: &[Heat], lebs: usize) -> Heats {
        let (all_lebs, all): (f64, f64) =
            table.iter().fold((0.0, 0.0), |sum, heat| (sum.0 + heat.lebs, sum.1 + heat.rewrites));
        let (mut at, mut rewrites) = (0.0, 0.0);
        let mut parts: Vec<(usize, f64)> = Vec::new();
        for heat in table {
            at += heat.lebs / all_lebs;
            rewrites += heat.rewrites / all;
            let end = (at * lebs as f64).round() as usize;
            if end > parts.last().map_or(0, |&(end, _)| end) {
                parts.push((end, rewrites));
            }
        }
        if let Some(last) = parts.last_mut() {
            *last = (lebs, 1.0);
        }
        Heats { parts }
    }

    /// The LEB that is rewritten, from two uniform draws below 1.
    #[inline]
    pub fn pick(&self, part: f64, inside: f64) -> usize {
        let at = self.parts.iter().position(|&(_, rewrites)| part < rewrites).unwrap_or(self.parts.len() - 1);
        let from = if at == 0 { 0 } else { self.parts[at - 1].0 };
        let end = self.parts[at].0;
        (from + (inside * (end - from) as f64) as usize).min(end - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_rewritten_as_often_as_its_share_says() {
        let table = [Heat { lebs: 0.9, rewrites: 0.2 }, Heat { lebs: 0.1, rewrites: 0.8 }];
        let heats = Heats::of(&table, 100);
        let mut hot = 0;
        for part in 0..1000 {
            for inside in 0..10 {
                hot += u32::from(heats.pick(f64::from(part) / 1000.0, f64::from(inside) / 10.0) >= 90);
            }
        }
        assert_eq!(hot, 8000);
    }

    #[test]
    fn every_leb_is_in_one_part_of_each_table() {
        for table in [EVEN, OF_LARGE_LEBS, OF_SMALL_LEBS] {
            for (name, sum) in [
                ("lebs", table.iter().map(|heat| heat.lebs).sum::<f64>()),
                ("rewrites", table.iter().map(|heat| heat.rewrites).sum()),
            ] {
                assert!((sum - 1.0).abs() < 2e-3, "{name} of {table:?}: {sum}");
            }
            for lebs in [1, 2, 17, 985, 16_000] {
                let heats = Heats::of(table, lebs);
                assert_eq!(heats.parts.last(), Some(&(lebs, 1.0)));
                assert!(heats.parts.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
                assert!((0..100).all(|i| heats.pick(f64::from(i) / 100.0, 0.999_999) < lebs));
            }
        }
    }
}
