//! What a block device shows to be measured: its clock, its counters, and where the time of a request went.
//!
//! A run is compiled for each device, so that a drive's hot path has no call through a table.

use std::fmt::Debug;

use nand::{Array, FaultCounts, Store};
use sim::seam::{BlockDevice, Flash};
use sim::{Cause, Flame, Ns};
use ssd::Ssd;
use ssd::dispatch::NandTime;
use ssd::dispatch::io::Breakdown;
use ssd::host::Hpb;
use ubi::block::{OnUbi, UbiBlock};

use super::books::{Books, Layer};
use super::outcome::drive::Debt;

/// Most parts of a latency that a device has.
pub const PARTS: usize = Breakdown::COMPONENTS.len();

/// Parts of a request's latency in a device. Every nanosecond is in exactly one of them.
pub trait Parts: Copy + Default + Debug {
    /// Their names, [`PARTS`] at most.
    const NAMES: &'static [&'static str];

    /// Nanoseconds of each part, in the order of the names; 0 beyond them.
    fn values(&self) -> [u64; PARTS];
}

impl Parts for Breakdown {
    const NAMES: &'static [&'static str] = &Breakdown::COMPONENTS;

    #[inline]
    fn values(&self) -> [u64; PARTS] {
        Breakdown::values(self)
    }
}

impl Parts for ubi::block::Breakdown {
    const NAMES: &'static [&'static str] = &ubi::block::Breakdown::COMPONENTS;

    fn values(&self) -> [u64; PARTS] {
        let mut values = [0; PARTS];
        values.iter_mut().zip(ubi::block::Breakdown::values(self)).for_each(|(value, part)| *value = part);
        values
    }
}

/// Name of a part of the latency: the wait in the host comes first.
pub fn part_name<P: Parts>(at: usize) -> &'static str {
    if at == 0 { "host" } else { P::NAMES[at - 1] }
}

/// Operations of the flash up to a point in time.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlashSums {
    /// Pages that the host's data fill: of a drive those programmed for it.
    pub host_pages: u64,
    /// Pages programmed for any cause.
    pub pages: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// A block device that a run measures.
pub trait Metered: BlockDevice {
    /// Where the time of a request goes.
    type Parts: Parts;

    /// Its time.
    fn now(&self) -> Ns;

    /// Where the time of the last completed request of a tag went.
    fn parts_of(&self, tag: u32) -> Self::Parts;

    /// A reading of its counters.
    fn books(&self) -> Books;

    /// Operations of its flash so far, of which the host has written `host_bytes`.
    fn flash_sums(&self, host_bytes: u64) -> FlashSums;

    /// Erasures of the block that was erased most often since a reading of the erase counts.
    fn most_erased(&self, before: &[u32]) -> Option<u32>;

    /// Pages moved by flow, those written before the run first; empty if flows are not followed.
    fn moved(&self) -> Vec<u64>;

    /// Faults of its flash so far.
    fn fault_counts(&mut self) -> FaultCounts;

    /// Lets it work until it has nothing left to do. Returns what it had left.
    fn until_idle(&mut self) -> Debt;

    /// Records from now on where the time of its threads, or of its dies and buses, goes.
    fn record(&mut self) {}

    /// Ends the record of its dies and buses, if it has any.
    fn nand_time(&mut self) -> Option<NandTime> {
        None
    }

    /// Ends the records of its threads.
    fn stop_recording(&mut self) -> Vec<(&'static str, Flame)> {
        Vec::new()
    }
}

impl<S: Store, M: Layer> Metered for Hpb<Ssd<Array<S>, M>> {
    type Parts = Breakdown;

    #[inline]
    fn now(&self) -> Ns {
        self.device().now()
    }

    #[inline]
    fn parts_of(&self, tag: u32) -> Breakdown {
        *self.device().breakdown_of(tag)
    }

    fn books(&self) -> Books {
        Books::of(self.device())
    }

    fn flash_sums(&self, _host_bytes: u64) -> FlashSums {
        let counts = self.device().dispatcher().counts();
        FlashSums {
            host_pages: counts.programs[Cause::Host] + counts.programs[Cause::Flush],
            pages: counts.programs.total(),
            erases: counts.erases,
        }
    }

    fn most_erased(&self, before: &[u32]) -> Option<u32> {
        let counts = self.device().dispatcher().units().iter().flat_map(|unit| unit.erase_counts());
        counts.zip(before).map(|(now, before)| now - before).max()
    }

    fn moved(&self) -> Vec<u64> {
        self.device().owners().map_or(Vec::new(), |owners| owners.pages_moved().to_vec())
    }

    fn fault_counts(&mut self) -> FaultCounts {
        self.device_mut().flash_mut().fault_counts()
    }

    fn until_idle(&mut self) -> Debt {
        until_idle(self.device_mut())
    }

    fn record(&mut self) {
        self.device_mut().record();
    }

    fn nand_time(&mut self) -> Option<NandTime> {
        self.device_mut().stop_recording()
    }
}

/// Lets a drive work until it is idle. Returns what it had left to do.
pub fn until_idle<F: Flash, M: Layer>(ssd: &mut Ssd<F, M>) -> Debt {
    let buffered = u64::from(ssd.dirty_pages());
    let closed = Books::of(ssd);
    while ssd.next_done(Ns(u64::MAX)).is_some() {}
    Books::of(ssd).since(&closed).debt(buffered)
}

/// A UBI volume as a block device, on an array. What it has left to do is the last close, and UBI's background work.
impl<S: Store> Metered for UbiBlock<OnUbi<Array<S>>> {
    type Parts = ubi::block::Breakdown;

    fn now(&self) -> Ns {
        UbiBlock::now(self)
    }

    fn parts_of(&self, tag: u32) -> ubi::block::Breakdown {
        *self.breakdown_of(tag)
    }

    fn books(&self) -> Books {
        Books::of_ubiblock(self)
    }

    fn flash_sums(&self, host_bytes: u64) -> FlashSums {
        let flash = self.volume().ubi().flash();
        let page_bytes = u64::from(flash.geometry().page_bytes);
        FlashSums {
            host_pages: host_bytes / page_bytes,
            pages: flash.programmed_bytes().total() / page_bytes,
            erases: flash.erases_by_cause().total(),
        }
    }

    fn most_erased(&self, before: &[u32]) -> Option<u32> {
        let counts = self.volume().ubi().flash().erase_counts();
        counts.iter().zip(before).map(|(now, before)| now - before).max()
    }

    fn moved(&self) -> Vec<u64> {
        Vec::new()
    }

    fn fault_counts(&mut self) -> FaultCounts {
        self.volume().ubi().flash().fault_counts()
    }

    fn until_idle(&mut self) -> Debt {
        let layout = self.volume().ubi().layout();
        let pages = u64::from(layout.leb_bytes / layout.min_io_bytes);
        let dirty = u64::from(self.dirty_lebs()) * pages;
        let before = self.books();
        // A write-back that fails leaves its LEB dirty, which the counters of the flash show.
        let _ = self.last_close(UbiBlock::now(self));
        while self.next_done(Ns(u64::MAX)).is_some() {}
        self.books().since(&before).debt(dirty)
    }

    fn record(&mut self) {
        UbiBlock::record(self);
    }

    fn stop_recording(&mut self) -> Vec<(&'static str, Flame)> {
        let recorded = UbiBlock::stop_recording(self);
        recorded.map_or(Vec::new(), |(driver, thread)| vec![("ubiblock", driver), ("UBI", thread)])
    }
}
