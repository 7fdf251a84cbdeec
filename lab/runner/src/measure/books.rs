//! Counters of a block device. A window of measurement is the difference between two readings.
//!
//! Rates, write amplification, causes, wear and utilisation of a run all have the same window: from its first counted
//! request to its last completion. What the drive does afterwards is [`Debt`].

use sim::seam::Flash;
use sim::{Cause, CauseCounts, Ns};
use ssd::Ssd;
use ssd::ftl::UnitFtl;
use ssd::ftl::bast::Bast;
use ssd::ftl::block::BlockFtl;
use ssd::ftl::fast::Fast;
use ssd::ftl::hybrid::HybridCounts;
use ssd::ftl::page::PageFtl;

use super::Metrics;
use super::outcome::drive::{Debt, Utilisation};

/// A counter of a device's layers, by the id of its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    id: &'static str,
    value: u64,
    /// Whether the value is a state, such as free blocks, and not a number of events.
    is_state: bool,
}

pub(super) const fn events(id: &'static str, value: u64) -> Counter {
    Counter { id, value, is_state: false }
}

pub(super) const fn state(id: &'static str, value: u64) -> Counter {
    Counter { id, value, is_state: true }
}

/// A translation layer with the names of its counters in results.
pub trait Layer: UnitFtl {
    /// Its counters, summed over all units.
    fn counters(units: &[Self]) -> Vec<Counter>
    where
        Self: Sized;
}

impl Layer for PageFtl {
    fn counters(units: &[PageFtl]) -> Vec<Counter> {
        let sum = |pick: &dyn Fn(&PageFtl) -> u64| units.iter().map(pick).sum();
        vec![
            state("gc.free_blocks", sum(&|unit| u64::from(unit.free_blocks()))),
            state("bad.blocks", sum(&|unit| u64::from(unit.retired_blocks()))),
            events("gc.folded_pages", sum(&|unit| unit.folded_pages())),
        ]
    }
}

fn merges<'a>(counts: impl Iterator<Item = &'a HybridCounts> + Clone) -> Vec<Counter> {
    let sum = |pick: fn(&HybridCounts) -> u64| counts.clone().map(pick).sum();
    vec![
        events("merge.switch", sum(|counts| counts.switch_merges)),
        events("merge.partial", sum(|counts| counts.partial_merges)),
        events("merge.full", sum(|counts| counts.full_merges)),
        events("merge.pages_copied", sum(|counts| counts.copied_pages)),
        events("merge.pages_padded", sum(|counts| counts.padded_pages)),
        state("bad.blocks", sum(|counts| counts.retired)),
    ]
}

impl Layer for Bast {
    fn counters(units: &[Bast]) -> Vec<Counter> {
        merges(units.iter().map(Bast::counts))
    }
}

impl Layer for Fast {
    fn counters(units: &[Fast]) -> Vec<Counter> {
        merges(units.iter().map(Fast::counts))
    }
}

impl Layer for BlockFtl {
    fn counters(units: &[BlockFtl]) -> Vec<Counter> {
        merges(units.iter().map(BlockFtl::counts))
    }
}

/// A reading of every counter, or the difference of two.
#[derive(Clone, Debug)]
pub struct Books {
    /// Time of the reading; of a difference, its length.
    pub(super) at: Ns,
    /// Bytes of a page of the flash.
    pub(super) page_bytes: u64,
    /// Bytes programmed, by cause.
    pub(super) programmed: CauseCounts,
    /// Erasures of all blocks.
    pub(super) erased: u64,
    pub(super) counters: Vec<Counter>,
    /// Time of each die's array at work, and of each channel.
    pub(super) busy: (Vec<Ns>, Vec<Ns>),
    /// Erasures of each block, unit by unit.
    pub(super) erases: Vec<u32>,
}

impl Books {
    /// Reads the counters of a drive.
    pub fn of<F: Flash, M: Layer>(ssd: &Ssd<F, M>) -> Books {
        let units = ssd.dispatcher().units();
        let flash = *ssd.dispatcher().counts();
        let mut counters = vec![
            events("flash.host_reads", flash.host_reads),
            events("gc.pages_copied", flash.internal_reads),
            events("flash.program_ops", flash.program_ops),
            events("flash.suspends", flash.suspends),
            events("flash.lost", flash.lost),
        ];
        if ssd.config().cache.is_some() {
            let buffer = ssd.buffer_counts();
            counters.extend([
                events("buffer.hits", buffer.hits),
                events("buffer.misses", buffer.misses),
                events("buffer.evictions", buffer.evictions),
                events("buffer.padding", buffer.padding),
                events("buffer.trimmed", buffer.trimmed),
                state("buffer.dirty", u64::from(ssd.dirty_pages())),
            ]);
        }
        if ssd.config().map.is_some() {
            let (map, _, writes) = ssd.map_counts();
            counters.extend([
                events("map.hits", map.hits),
                events("map.misses", map.misses),
                events("map.reads", flash.map_reads),
                events("map.writes", writes),
                events("map.writes_for_moves", map.moved_written),
            ]);
        }
        counters.extend(M::counters(units));
        let page_bytes = u64::from(ssd.dispatcher().shape().page_bytes);
        let mut programmed = flash.programs;
        Cause::ALL.into_iter().for_each(|cause| programmed[cause] *= page_bytes);
        Books {
            at: ssd.now(),
            page_bytes,
            programmed,
            erased: flash.erases,
            counters,
            busy: ssd.dispatcher().busy(),
            erases: units.iter().flat_map(|unit| unit.erase_counts()).copied().collect(),
        }
    }

    /// What was counted between `before` and this reading; states are those of this reading.
    pub fn since(&self, before: &Books) -> Books {
        let counted = |(now, then): (&Counter, &Counter)| Counter {
            value: if now.is_state { now.value } else { now.value - then.value },
            ..*now
        };
        let spans = |now: &[Ns], then: &[Ns]| now.iter().zip(then).map(|(&now, &then)| now - then).collect();
        Books {
            at: self.at - before.at,
            page_bytes: self.page_bytes,
            programmed: self.programmed.since(&before.programmed),
            erased: self.erased - before.erased,
            counters: self.counters.iter().zip(&before.counters).map(counted).collect(),
            busy: (spans(&self.busy.0, &before.busy.0), spans(&self.busy.1, &before.busy.1)),
            erases: self.erases.iter().zip(&before.erases).map(|(now, then)| now - then).collect(),
        }
    }

    /// Time between the two readings.
    pub fn length(&self) -> Ns {
        self.at
    }

    /// Bytes programmed, by cause.
    pub fn programmed(&self) -> &CauseCounts {
        &self.programmed
    }

    /// Erasures of each block, unit by unit.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// A counter by the id of its metric; 0 if the device has none.
    pub fn counter(&self, id: &str) -> u64 {
        self.counters.iter().find(|counter| counter.id == id).map_or(0, |counter| counter.value)
    }

    /// The counters as metrics.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        self.counters.iter().for_each(|counter| metrics.put(counter.id, counter.value as f64));
        metrics
    }

    /// Share of the time in which each die and each channel was at work.
    pub fn utilisation(&self) -> Utilisation {
        let share = |busy: &[Ns]| busy.iter().map(|busy| busy.0 as f64 / self.at.0.max(1) as f64).collect();
        Utilisation { dies: share(&self.busy.0), channels: share(&self.busy.1) }
    }

    /// The difference as work that a device did after its last completion, with `buffered_pages` left in its write
    /// buffer.
    pub fn debt(&self, buffered_pages: u64) -> Debt {
        let (pages, erases) = (self.programmed.total() / self.page_bytes, self.erased);
        // Time without work, such as a wait for background work that does not come, is no debt.
        let ns = if pages + erases > 0 { self.at.0 } else { 0 };
        Debt { buffered_pages, pages, erases, ns }
    }
}
