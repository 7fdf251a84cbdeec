//! Erase counts by decade, in the layout of the tables of the [fastmap wear-levelling
//! series](../../../../../docs/sources.md#fastmap): from, to, count, min, avg, max.

use serde::{Deserialize, Serialize};

/// A row of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Number of PEBs.
    pub count: u64,
    /// Least erase count.
    pub min: u64,
    /// Mean erase count, rounded down as the report prints it.
    pub avg: u64,
    /// Greatest erase count.
    pub max: u64,
}

/// The decades of the report's tables; the last one is unbounded.
pub const BINS: [(u64, Option<u64>); 6] =
    [(0, Some(9)), (10, Some(99)), (100, Some(999)), (1000, Some(9999)), (10_000, Some(99_999)), (100_000, None)];

/// Erase counts by decade, and in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WearTable {
    /// A row for each of [`BINS`].
    pub bins: [Row; 6],
    /// Row of all PEBs.
    pub total: Row,
}

/// Count, min, avg and max of some PEBs; all zero if there are none.
pub fn row(counts: impl Iterator<Item = u32>) -> Row {
    let (mut count, mut sum, mut min, mut max) = (0u64, 0u64, u64::MAX, 0u64);
    for ec in counts.map(u64::from) {
        count += 1;
        sum += ec;
        min = min.min(ec);
        max = max.max(ec);
    }
    if count == 0 { Row::default() } else { Row { count, min, avg: sum / count, max } }
}

impl WearTable {
    /// Builds the table of a device.
    pub fn of(erase_counts: &[u32]) -> WearTable {
        let within = |(from, to): (u64, Option<u64>)| {
            row(erase_counts
                .iter()
                .copied()
                .filter(|&ec| u64::from(ec) >= from && to.is_none_or(|to| u64::from(ec) <= to)))
        };
        WearTable { bins: BINS.map(within), total: row(erase_counts.iter().copied()) }
    }

    /// Formats the table as the report prints it.
    pub fn print(&self) -> String {
        let rule = |c: &str| format!("{}\n", c.repeat(57));
        let mut out = rule("=");
        out += "from              to     count      min      avg      max\n";
        out += &rule("-");
        for ((from, to), row) in BINS.iter().zip(&self.bins) {
            let to = to.map_or("inf".to_owned(), |to| to.to_string());
            out += &format!("{from:<9}..{to:>9}:{:>9}{:>9}{:>9}{:>9}\n", row.count, row.min, row.avg, row.max);
        }
        out += &rule("-");
        let Row { count, min, avg, max } = self.total;
        out + &format!("{:<20}:{count:>9}{min:>9}{avg:>9}{max:>9}\n", "Total")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of the report's first table, which this layout must reproduce exactly.
    #[test]
    fn it_prints_as_the_source_does() {
        let mut counts = vec![84; 1];
        counts.extend(std::iter::repeat_n(4765, 64));
        counts.push(272_935);
        let text = WearTable::of(&counts).print();
        assert!(text.contains("1000     ..     9999:       64     4765     4765     4765\n"), "{text}");
        assert!(text.contains("100000   ..      inf:        1   272935   272935   272935\n"), "{text}");
        assert!(text.contains("Total               :       66       84"), "{text}");
    }

    #[test]
    fn every_peb_is_in_one_bin() {
        let counts: Vec<u32> = (0..200_000).step_by(7).collect();
        let table = WearTable::of(&counts);
        assert_eq!(table.bins.iter().map(|row| row.count).sum::<u64>(), table.total.count);
    }
}
