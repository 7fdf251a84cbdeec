//! Erase counters: the histogram, and the groups that fastmap tells apart.

use crate::media::FM_MAX_START;

use super::scan::{PebState, Scan};

/// Erase counters between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// Lowest counter of the bin.
    pub from: u32,
    /// Highest; `None` for no bound.
    pub to: Option<u32>,
    /// How many PEBs.
    pub count: u32,
    /// Lowest of them; 0 when there is none.
    pub min: u32,
    /// Their sum.
    pub sum: u64,
    /// Highest of them; 0 when there is none.
    pub max: u32,
}

impl Bin {
    const fn new(from: u32, to: Option<u32>) -> Bin {
        Bin { from, to, count: 0, min: 0, sum: 0, max: 0 }
    }

    /// Mean, rounded down; 0 when there is none.
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

/// A histogram by decades, as the kernel's fastmap patches were measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// 0..9, 10..99, up to 100000..inf.
    pub bins: [Bin; 6],
    /// All of them together.
    pub total: Bin,
}

/// The histogram of erase counters.
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
    /// Erase counter of each PEB; `None` where no header tells it.
    pub ecs: Vec<Option<u32>>,
    /// Over every PEB.
    pub all: Histogram,
    /// Over PEBs 0..63, among which fastmap keeps its anchor.
    pub first: Histogram,
    /// Over the others.
    pub others: Histogram,
}

/// How many PEBs the first group has.
pub const FIRST_PEBS: usize = FM_MAX_START as usize;

impl Scan<'_> {
    /// Erase counters and their histograms.
    pub fn wear(&self) -> Wear {
        let ec = |peb: &PebState| peb.ec().map(|ec| ec.ec as u32);
        let ecs: Vec<Option<u32>> = self.pebs().iter().map(ec).collect();
        let (first, others) = ecs.split_at(FIRST_PEBS.min(ecs.len()));
        let known = |ecs: &[Option<u32>]| histogram(ecs.iter().copied().flatten());
        Wear { all: known(&ecs), first: known(first), others: known(others), ecs }
    }
}
