//! Erasures and programmed bytes, computed by hand.

use nand::{Array, Bytes};
use sim::{Cause, Ns};
use ubi::block::{Because, Form, OnUbi};

use crate::rig::{Host, NAND, WRITING, block, plain, without_fastmap};

/// LEBs of the volume, sectors of a LEB.
const LEBS: u32 = 8;
const PER_LEB: u32 = 7;
/// Bytes of a LEB and of a page, which a header fills.
const LEB_BYTES: u64 = 3584;
const PAGE: u64 = 256;

struct Meter {
    host: Host<OnUbi<Array<Bytes>>>,
    erases: u64,
    programmed: sim::CauseCounts,
}

impl Meter {
    /// A device whose LEBs are all written.
    fn new(form: Form, cache_lebs: u32) -> Meter {
        let mut host = Host::new(plain(NAND, &without_fastmap(), LEBS), block(form, cache_lebs));
        host.write(1, 0, LEBS * PER_LEB).unwrap();
        host.flush().unwrap();
        host.wait(Ns(1));
        let flash = host.device.volume().ubi().flash();
        let (erases, programmed) = (flash.erases_by_cause().total(), *flash.programmed_bytes());
        Meter { host, erases, programmed }
    }

    fn write(&mut self, sector: u32, sectors: u32) {
        self.host.write(2, sector.into(), sectors).unwrap();
    }

    /// Erasures since the LEBs were written, when the background has nothing left to do.
    fn erases(&mut self) -> u64 {
        self.host.wait(Ns(1));
        self.host.device.volume().ubi().flash().erases_by_cause().total() - self.erases
    }
}

#[test]
fn two_lebs_in_turn_cost_one_erasure_a_switch_with_one_cached_leb() {
    for form in WRITING {
        let mut meter = Meter::new(form, 1);
        // The pass left the last LEB in the cache, clean. Then LEB 0 and 1 in turn: of 20 writes, each but the last
        // is evicted by the next.
        for turn in 0..20 {
            meter.write(turn % 2 * PER_LEB, 1);
        }
        assert_eq!(meter.host.device.stats().written_back(Because::Evicted), u64::from(LEBS) - 1 + 19, "{form:?}");
        // unmap-first has unmapped the last LEB already, which costs its erasure.
        assert_eq!(meter.erases(), if form == Form::UnmapFirst { 20 } else { 19 }, "{form:?}");
        meter.host.flush().unwrap();
        assert_eq!(meter.erases(), 20, "{form:?}");
    }
}

#[test]
fn two_lebs_in_turn_cost_nothing_until_the_flush_with_two_cached_lebs() {
    for form in [Form::V2Like, Form::Atomic] {
        let mut meter = Meter::new(form, 2);
        for turn in 0..20 {
            meter.write(turn % 2 * PER_LEB, 1);
        }
        assert_eq!(meter.erases(), 0, "{form:?}");
        meter.host.flush().unwrap();
        assert_eq!(meter.erases(), 2, "{form:?}");
    }
}

#[test]
fn a_sequential_pass_costs_an_erasure_a_leb_however_small_its_requests() {
    for form in WRITING {
        for sectors in [1, 2, 4, PER_LEB, 8, LEBS * PER_LEB] {
            let mut meter = Meter::new(form, 1);
            for sector in (0..LEBS * PER_LEB).step_by(sectors as usize) {
                meter.write(sector, sectors);
            }
            meter.host.flush().unwrap();
            assert_eq!(meter.erases(), u64::from(LEBS), "{form:?}, {sectors} sectors");
        }
    }
}

#[test]
fn a_first_pass_over_a_blank_volume_costs_no_erasure() {
    for form in WRITING {
        let volume = plain(NAND, &without_fastmap(), LEBS);
        let before = volume.ubi().flash().erases_by_cause().total();
        let mut host = Host::new(volume, block(form, 1));
        for sector in 0..LEBS * PER_LEB {
            host.write(1, sector.into(), 1).unwrap();
        }
        host.flush().unwrap();
        host.wait(Ns(1));
        assert_eq!(host.device.volume().ubi().flash().erases_by_cause().total(), before, "{form:?}");
    }
}

#[test]
fn flushing_each_write_of_a_sector_costs_an_erasure_each() {
    for form in WRITING {
        let mut meter = Meter::new(form, 4);
        for _ in 0..10 {
            meter.write(3, 1);
            meter.host.flush().unwrap();
        }
        assert_eq!(meter.erases(), 10, "{form:?}");
    }
}

#[test]
fn a_write_back_programs_the_whole_leb_and_two_headers_under_its_cause() {
    for form in WRITING {
        let mut meter = Meter::new(form, 1);
        for turn in 0..20 {
            meter.write(turn % 2 * PER_LEB, 1);
        }
        meter.host.flush().unwrap();
        assert_eq!(meter.erases(), 20);
        let programmed = meter.host.device.volume().ubi().flash().programmed_bytes().since(&meter.programmed);
        // 19 evictions and one flush of a whole LEB each; a VID header for each, and the EC header of the erased PEB.
        let expected = [(Cause::Host, 19 * LEB_BYTES), (Cause::Header, 40 * PAGE), (Cause::Flush, LEB_BYTES)];
        assert_eq!(programmed.nonzero().collect::<Vec<_>>(), expected, "{form:?}");
    }
}
