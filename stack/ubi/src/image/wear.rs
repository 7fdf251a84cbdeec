//! Erase counters: histogram, and the two groups of PEBs that fastmap treats differently.

use crate::media::FM_MAX_START;

use super::scan::{PebState, Scan};

/// Erase counters between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Lowest counter of the bin.
    pub from: u32,
    /// Highest counter of the bin; `None` for no bound.
    pub to: Option<u32>,
    /// PEBs in the bin.
    pub count: u32,
    /// Lowest counter found; 0 if the bin is empty.
    pub min: u32,
    /// Sum of the counters.
    pub sum: u64,
    /// Highest counter found; 0 if the bin is empty.
    pub max: u32,
}

impl Bin {
    const fn new(from: u32, to: Option<u32>) -> Bin {
        Bin { from, to, count: 0, min: 0, sum: 0, max: 0 }
    }

    /// Mean, rounded down; 0 if the bin is empty.
    pub fn avg(&self) -> u64 {
        self.sum.checked_div(u64::from(self.count)).unwrap_or(0)
    }

    fn add(&mut self, ec: u32) {
        self.min = if self.count == 0 { ec } else { self.min.min(ec) };
        self.max = self.max.max(ec);
        self.sum += u64::from(ec);
        self.count += 1;
    }

    fn holds(&self, ec: u32) -> bool {
        ec >= self.from && self.to.is_none_or(|to| ec <= to)
    }
}

/// A histogram by decades, as the fastmap report prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// 0..9, 10..99, up to 100000..inf.
    pub bins: [Bin; 6],
    /// All bins together.
    pub total: Bin,
}

/// Builds the histogram of erase counters.
pub fn histogram(ecs: impl IntoIterator<Item = u32>) -> Histogram {
    let mut histogram = Histogram {
        bins: [
            Bin::new(0, Some(9)),
            Bin::new(10, Some(99)),
            Bin::new(100, Some(999)),
            Bin::new(1000, Some(9999)),
            Bin::new(10_000, Some(99_999)),
            Bin::new(100_000, None),
        ],
        total: Bin::new(0, None),
    };
    for ec in ecs {
        histogram.total.add(ec);
        histogram.bins.iter_mut().filter(|bin| bin.holds(ec)).for_each(|bin| bin.add(ec));
    }
    histogram
}

/// Wear of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wear {
    /// Erase counter of each PEB; `None` if no header has it.
    pub ecs: Vec<Option<u32>>,
    /// Histogram of every PEB.
    pub all: Histogram,
    /// Histogram of PEBs 0..63, where fastmap keeps its anchor.
    pub first: Histogram,
    /// Histogram of the other PEBs.
    pub others: Histogram,
}

/// PEBs in the first group.
pub const FIRST_PEBS: usize = FM_MAX_START as usize;

impl Scan<'_> {
    /// Erase counters of the dump and their histograms.
    pub fn wear(&self) -> Wear {
        let ec = |peb: &PebState| peb.ec().map(|ec| ec.ec as u32);
        let ecs: Vec<Option<u32>> = self.pebs().iter().map(ec).collect();
        let (first, others) = ecs.split_at(FIRST_PEBS.min(ecs.len()));
        let known = |ecs: &[Option<u32>]| histogram(ecs.iter().copied().flatten());
        Wear { all: known(&ecs), first: known(first), others: known(others), ecs }
    }
}
