//! iozone's test 2, random reads and random writes, as `iozone -i2 -I -t THREADS -r RECORD -s SIZE -F …` runs it.
//!
//! Each thread has its own file, opened with `O_DIRECT`, and one outstanding request. It visits the records of its file
//! in a shuffled order, the same for every thread and in both phases. The files are contiguous and lie one after the
//! other.
//!
//! Source: iozone 3.414, `iozone.c`: `thread_rand_read_test`, `thread_ranwrite_test`.

mod load;

use rand_mt::Mt64;
use sim::Ns;
use sim::seam::SECTOR_BYTES;

pub use load::{IozoneLoad, IozonePhase};

/// Key from which iozone initialises its generator, MT19937-64.
const KEY: [u64; 4] = [0x12345, 0x23456, 0x34567, 0x45678];

/// The order in which a thread visits the records of its file: a permutation of `0..records`.
///
/// Record `i` is swapped with record `draw % records`, for each `i` in turn: iozone's shuffle, which is biased.
pub fn order(records: u32) -> Vec<u32> {
    let mut order: Vec<u32> = (0..records).collect();
    let mut draws = Mt64::new_with_key(KEY);
    for at in 0..order.len() {
        let other = draws.next_u64() % u64::from(records);
        order.swap(at, other as usize);
    }
    order
}

/// A phase of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Random reads.
    Read,
    /// Random writes.
    Write,
}

impl Phase {
    /// Name that iozone prints.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Read => "random read",
            Phase::Write => "random write",
        }
    }
}

/// Parameters of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iozone {
    /// Threads, each with its own file (`-t`, `-l`, `-u`).
    pub threads: u32,
    /// Sectors of a record (`-r`).
    pub record_sectors: u32,
    /// Records of each file (`-s` over `-r`).
    pub file_records: u32,
    /// First sector of the first file.
    pub first_sector: u64,
    /// Phases to run, in order.
    pub phases: Vec<Phase>,
    /// Host time from a completion to the next request of its thread.
    pub host: Ns,
    /// Records after which a thread ends a phase; 0 for all.
    pub records: u32,
    /// Whether the first thread that finishes ends the measurement of the others (iozone without `-x`): readers end,
    /// writers continue unmeasured.
    pub stonewall: bool,
    /// Whether a thread ends its writes with a flush, inside its time (`-e`).
    pub flush: bool,
    /// Size of the groups in which records are shuffled, a power of two; 1 for no shuffling. Each file and group has
    /// its own order. This is how files lie that several threads wrote at the same time, if the drive places pages as
    /// they arrive. On a drive that stripes by address, threads with the same order would otherwise access the same
    /// dies in step.
    pub mixed_records: u32,
}

impl Iozone {
    /// Records that each thread visits in a phase.
    pub fn quota(&self) -> u32 {
        if self.records > 0 { self.records.min(self.file_records) } else { self.file_records }
    }

    /// Position of a record in its file, in records.
    #[inline]
    pub fn place(&self, file: u32, record: u32) -> u32 {
        let within = self.mixed_records - 1;
        if within == 0 || record | within >= self.file_records {
            return record;
        }
        let group = u64::from(record / self.mixed_records) << 32 | u64::from(file);
        let drawn = (group + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        record ^ (drawn ^ drawn >> 31) as u32 >> 7 & within
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> u64 {
        u64::from(self.record_sectors) * u64::from(SECTOR_BYTES)
    }

    /// One past the last sector of the last file.
    pub fn end_sector(&self) -> u64 {
        self.first_sector + u64::from(self.threads) * u64::from(self.file_records) * u64::from(self.record_sectors)
    }

    /// Records of all threads in all phases, if none is stopped.
    pub fn requests(&self) -> u64 {
        self.phases.len() as u64 * u64::from(self.threads) * u64::from(self.quota())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first two draws of a C program written from the generator's definition; iozone's key is that of the
    /// generator's own example.
    #[test]
    fn the_twister_draws_what_an_independent_program_draws() {
        let mut draws = Mt64::new_with_key(KEY);
        assert_eq!([draws.next_u64(), draws.next_u64()], [7266447313870364031, 4946485549665804864]);
    }

    /// Results of a C program written from the generator's definition for this purpose: all of 16, of others the first,
    /// the last, and a polynomial over all.
    #[test]
    fn the_order_is_that_of_an_independent_program() {
        assert_eq!(order(16), [3, 15, 8, 1, 12, 9, 7, 2, 5, 0, 6, 10, 14, 13, 4, 11]);
        let sum = |order: &[u32]| order.iter().fold(0u64, |sum, &at| sum.wrapping_mul(31).wrapping_add(u64::from(at)));
        for (records, first, last, polynomial) in [
            (1000, [153, 300, 710, 720], 54, 15879356793987726240),
            (16384, [4603, 8768, 4422, 633], 13081, 16189316242059884140),
        ] {
            let order = order(records);
            assert_eq!((&order[..4], order.last(), sum(&order)), (&first[..], Some(&last), polynomial));
        }
    }

    #[test]
    fn mixed_records_stay_in_their_group_each_in_a_place_of_its_own() {
        let load = Iozone {
            threads: 3,
            record_sectors: 8,
            file_records: 100,
            first_sector: 0,
            phases: Vec::new(),
            host: Ns::ZERO,
            records: 0,
            stonewall: false,
            flush: false,
            mixed_records: 16,
        };
        let mut first = [0; 3];
        for file in 0..3 {
            let mut places: Vec<u32> = (0..100).map(|record| load.place(file, record)).collect();
            assert!((0..96).all(|record| places[record as usize] / 16 == record / 16), "file {file}");
            assert_eq!(places[96..], [96, 97, 98, 99], "a group that is not whole");
            first[file as usize] = places[0];
            places.sort_unstable();
            assert!(places.into_iter().eq(0..100));
        }
        assert!(first[0] != first[1] || first[1] != first[2], "files have orders of their own: {first:?}");
    }

    #[test]
    fn every_record_is_in_the_order_once() {
        for records in [0, 1, 2, 7, 4096] {
            let mut order = order(records);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..records));
        }
    }
}
