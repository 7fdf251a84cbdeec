//! Limits of a configuration: the last value that is accepted, and the first that is not, with the field that the error names.

use sim::seam::{Geometry, Medium};
use sim::{Ns, Peb, Seed};

use super::{NAND, NOR};
use crate::nandsim::Weak;
use crate::{
    ArrayConfig, BitErrors, BusMode, CellTimes, Ecc, FactoryBad, FaultPlan, Lifetime, NandsimDelays, PageOrder, Timing,
    WearOut,
};

type Change = fn(&mut ArrayConfig);

fn refusal(geometry: Geometry, change: Change) -> Option<&'static str> {
    let mut config = ArrayConfig::plain(geometry);
    config.ecc = (geometry.medium == Medium::Nand).then(|| Ecc::new(4, 512));
    config.faults = Some(FaultPlan::none(Seed(1)));
    change(&mut config);
    config.validate().err().map(|error| error.field)
}

fn check(cases: &[(&'static str, &[Change], &[Change])]) {
    for (field, accepted, refused) in cases {
        for (at, change) in accepted.iter().enumerate() {
            assert_eq!(refusal(NAND, *change), None, "{field}, accepted value {at}");
        }
        for (at, change) in refused.iter().enumerate() {
            assert_eq!(refusal(NAND, *change), Some(*field), "{field}, refused value {at}");
        }
    }
}

/// The plan of a configuration.
fn plan(config: &mut ArrayConfig) -> &mut FaultPlan {
    config.faults.get_or_insert_with(|| FaultPlan::none(Seed(1)))
}

fn wear(config: &mut ArrayConfig, change: fn(&mut WearOut)) {
    let mut wear = WearOut::by_rating(1000);
    change(&mut wear);
    plan(config).wear_out = Some(wear);
}

fn bits(config: &mut ArrayConfig, change: fn(&mut BitErrors)) {
    let mut bits = BitErrors::by_rating(1000);
    change(&mut bits);
    plan(config).bit_errors = Some(bits);
}

#[test]
fn a_geometry_is_refused_beyond_its_limits() {
    check(&[
        ("geometry.pebs", &[|c| c.geometry.pebs = 1], &[|c| c.geometry.pebs = 0]),
        (
            "geometry.page_bytes",
            &[|c| c.geometry.page_bytes = 1024],
            &[|c| c.geometry.page_bytes = 0, |c| c.geometry.page_bytes = 768],
        ),
        (
            "geometry.subpage_bytes",
            &[|c| c.geometry.subpage_bytes = 512, |c| c.geometry.subpage_bytes = 1],
            &[|c| c.geometry.subpage_bytes = 1024, |c| c.geometry.subpage_bytes = 0, |c| c.geometry.subpage_bytes = 96],
        ),
        (
            "geometry.peb_bytes",
            &[|c| c.geometry.peb_bytes = 512],
            &[|c| c.geometry.peb_bytes = 0, |c| c.geometry.peb_bytes = 700],
        ),
        (
            "geometry.subpage_bytes",
            &[
                |c| (c.rules.order, c.geometry.subpage_bytes) = (PageOrder::Any, 16),
                |c| (c.rules.order, c.geometry.subpage_bytes) = (PageOrder::Ascending, 8),
            ],
            &[|c| (c.rules.order, c.geometry.subpage_bytes) = (PageOrder::Any, 8)],
        ),
        ("layout.channels", &[|c| c.layout.channels = 2], &[|c| c.layout.channels = 0]),
        (
            "layout.dies_per_channel",
            &[|c| c.layout.dies_per_channel = 4],
            &[|c| c.layout.dies_per_channel = 0, |c| c.layout.dies_per_channel = 3],
        ),
        (
            "layout.planes",
            &[|c| c.layout.planes = 4, |c| (c.layout.planes, c.layout.dies_per_channel) = (2, 2)],
            &[
                |c| c.layout.planes = 0,
                |c| c.layout.planes = 3,
                |c| c.layout.planes = 8,
                |c| (c.layout.planes, c.layout.dies_per_channel) = (4, 2),
            ],
        ),
        ("rules.programs_per_page", &[|c| c.rules.programs_per_page = 1], &[|c| c.rules.programs_per_page = 0]),
    ]);
    let of_nor = |change| refusal(NOR, change);
    assert_eq!(of_nor(|_| ()), None);
    assert_eq!(of_nor(|c| c.geometry.oob_bytes = 1), Some("geometry.oob_bytes"));
    assert_eq!(of_nor(|c| c.geometry.page_bytes = 2), Some("geometry.subpage_bytes"));
    assert_eq!(of_nor(|c| (c.geometry.page_bytes, c.geometry.subpage_bytes) = (2, 2)), None);
    assert_eq!(of_nor(|c| bits(c, |_| ())), Some("faults.bit_errors"));
}

#[test]
fn a_code_is_refused_beyond_its_limits() {
    check(&[
        (
            "ecc.bits",
            &[|c| c.ecc = Some(Ecc::new(1, 512)), |c| c.ecc = Some(Ecc::new(1024, 512))],
            &[
                |c| c.ecc = Some(Ecc { bits: 0, step_bytes: 512, scrub_at: 1 }),
                |c| c.ecc = Some(Ecc { bits: 1025, step_bytes: 512, scrub_at: 1 }),
            ],
        ),
        (
            "ecc.step_bytes",
            &[|c| c.ecc = Some(Ecc::new(4, 256))],
            &[
                |c| c.ecc = Some(Ecc::new(4, 0)),
                |c| c.ecc = Some(Ecc::new(4, 1024)),
                |c| c.ecc = Some(Ecc::new(4, 500)),
            ],
        ),
        (
            "ecc.scrub_at",
            &[
                |c| c.ecc = Some(Ecc { bits: 4, step_bytes: 512, scrub_at: 1 }),
                |c| c.ecc = Some(Ecc { bits: 4, step_bytes: 512, scrub_at: 4 }),
            ],
            &[
                |c| c.ecc = Some(Ecc { bits: 4, step_bytes: 512, scrub_at: 0 }),
                |c| c.ecc = Some(Ecc { bits: 4, step_bytes: 512, scrub_at: 5 }),
            ],
        ),
    ]);
}

#[test]
fn a_timing_is_refused_beyond_its_limits() {
    const CELLS: CellTimes = CellTimes { read: Ns(1), program: Ns(1), erase: Ns(1) };
    const fn bus(mode: BusMode) -> Timing {
        Timing::onfi(mode, CELLS)
    }
    const fn nandsim(bus_bits: u32) -> Timing {
        Timing::NandsimOn(NandsimDelays { bus_bits, ..NandsimDelays::DEFAULT })
    }
    check(&[
        (
            "timing.mode",
            &[|c| c.timing = bus(BusMode::Sdr(5)), |c| c.timing = bus(BusMode::NvDdr(5))],
            &[|c| c.timing = bus(BusMode::Sdr(6)), |c| c.timing = bus(BusMode::NvDdr(6))],
        ),
        (
            "timing.spi.mhz",
            &[|c| c.timing = bus(BusMode::Spi { mhz: 1, lanes: 8 })],
            &[|c| c.timing = bus(BusMode::Spi { mhz: 0, lanes: 8 })],
        ),
        (
            "timing.spi.lanes",
            &[|c| c.timing = bus(BusMode::Spi { mhz: 1, lanes: 1 })],
            &[
                |c| c.timing = bus(BusMode::Spi { mhz: 1, lanes: 3 }),
                |c| c.timing = bus(BusMode::Spi { mhz: 1, lanes: 0 }),
            ],
        ),
        (
            "timing.parallel.word_bytes",
            &[|c| c.timing = bus(BusMode::Parallel { cycle_ns: 0, word_bytes: 1 })],
            &[|c| c.timing = bus(BusMode::Parallel { cycle_ns: 9, word_bytes: 0 })],
        ),
        ("timing.bus_bits", &[|c| c.timing = nandsim(16)], &[|c| c.timing = nandsim(4)]),
    ]);
}

#[test]
fn faults_are_refused_beyond_their_limits() {
    check(&[
        (
            "faults.nandsim.badblocks",
            &[|c| plan(c).nandsim.bad_blocks = vec![3, 0]],
            &[|c| plan(c).nandsim.bad_blocks = vec![4, 0]],
        ),
        (
            "faults.nandsim.weakblocks",
            &[|c| plan(c).nandsim.weak_blocks = vec![Weak { at: 3, max: 9 }]],
            &[|c| plan(c).nandsim.weak_blocks = vec![Weak { at: 4, max: 0 }]],
        ),
        (
            "faults.nandsim.weakpages",
            &[|c| plan(c).nandsim.weak_pages = vec![Weak { at: 31, max: 99 }]],
            &[|c| plan(c).nandsim.weak_pages = vec![Weak { at: 32, max: 0 }]],
        ),
        (
            "faults.nandsim.gravepages",
            &[|c| plan(c).nandsim.grave_pages = vec![Weak { at: 31, max: 99 }]],
            &[|c| plan(c).nandsim.grave_pages = vec![Weak { at: 32, max: 0 }]],
        ),
        (
            "faults.factory_bad",
            &[|c| plan(c).factory_bad = FactoryBad::List(vec![Peb(3)])],
            &[|c| plan(c).factory_bad = FactoryBad::List(vec![Peb(4), Peb(0)])],
        ),
        (
            "faults.factory_bad.rate",
            &[|c| plan(c).factory_bad = FactoryBad::Rate(0.0), |c| plan(c).factory_bad = FactoryBad::Rate(0.999)],
            &[|c| plan(c).factory_bad = FactoryBad::Rate(1.0), |c| plan(c).factory_bad = FactoryBad::Rate(-0.1)],
        ),
        (
            "faults.wear_out.rating_cycles",
            &[|c| wear(c, |w| w.rating_cycles = 1)],
            &[|c| wear(c, |w| w.rating_cycles = 0)],
        ),
        (
            "faults.wear_out.failed_at_rating",
            &[|c| wear(c, |w| w.failed_at_rating = 1e-9), |c| wear(c, |w| w.failed_at_rating = 0.999)],
            &[|c| wear(c, |w| w.failed_at_rating = 0.0), |c| wear(c, |w| w.failed_at_rating = 1.0)],
        ),
        (
            "faults.wear_out.lifetime",
            &[
                |c| wear(c, |w| w.lifetime = Lifetime::Fixed),
                |c| wear(c, |w| w.lifetime = Lifetime::Normal { cv: 0.0 }),
                |c| wear(c, |w| w.lifetime = Lifetime::Normal { cv: 0.39 }),
                |c| wear(c, |w| w.lifetime = Lifetime::LogNormal { sigma: 0.0 }),
                |c| wear(c, |w| w.lifetime = Lifetime::Weibull { shape: 1e-3 }),
            ],
            &[
                |c| wear(c, |w| w.lifetime = Lifetime::Normal { cv: 0.4 }),
                |c| wear(c, |w| w.lifetime = Lifetime::Normal { cv: -0.1 }),
                |c| wear(c, |w| w.lifetime = Lifetime::LogNormal { sigma: -0.1 }),
                |c| wear(c, |w| w.lifetime = Lifetime::Weibull { shape: 0.0 }),
            ],
        ),
        (
            "faults.program_failure",
            &[|c| plan(c).program_failure = 0.0, |c| plan(c).program_failure = 1.0],
            &[|c| plan(c).program_failure = 1.01, |c| plan(c).program_failure = -0.01],
        ),
        (
            "faults.erase_failure",
            &[|c| plan(c).erase_failure = 0.0, |c| plan(c).erase_failure = 1.0],
            &[|c| plan(c).erase_failure = 1.01, |c| plan(c).erase_failure = -0.01],
        ),
        (
            "faults.bit_errors.rating_cycles",
            &[|c| bits(c, |b| b.rating_cycles = 1)],
            &[|c| bits(c, |b| b.rating_cycles = 0)],
        ),
        ("faults.bit_errors.shape", &[|c| bits(c, |b| b.shape = 1)], &[|c| bits(c, |b| b.shape = 0)]),
        (
            "faults.bit_errors.retention_unit",
            &[|c| bits(c, |b| b.retention_unit = Ns(1))],
            &[|c| bits(c, |b| b.retention_unit = Ns(0))],
        ),
        (
            "faults.bit_errors.uber_at_limit",
            &[|c| bits(c, |b| b.uber_at_limit = 1e-20), |c| bits(c, |b| b.uber_at_limit = 0.99)],
            &[|c| bits(c, |b| b.uber_at_limit = 0.0), |c| bits(c, |b| b.uber_at_limit = 1.0)],
        ),
        (
            "faults.bit_errors.reads_at_limit",
            &[|c| bits(c, |b| b.reads_at_limit = 0.5)],
            &[|c| bits(c, |b| b.reads_at_limit = 0.0)],
        ),
        (
            "faults.bit_errors.base_of_limit",
            &[|c| bits(c, |b| b.base_of_limit = 1e-9), |c| bits(c, |b| b.base_of_limit = 0.99)],
            &[|c| bits(c, |b| b.base_of_limit = 0.0), |c| bits(c, |b| b.base_of_limit = 1.0)],
        ),
        (
            "faults.bit_errors.limit_rber",
            &[|c| bits(c, |b| b.limit_rber = None), |c| bits(c, |b| b.limit_rber = Some(0.49))],
            &[|c| bits(c, |b| b.limit_rber = Some(0.0)), |c| bits(c, |b| b.limit_rber = Some(0.5))],
        ),
    ]);
}

/// The error has the value that was found, too.
#[test]
fn a_refusal_names_the_value() {
    let found = |change: Change| {
        let mut config = ArrayConfig::plain(NAND);
        config.faults = Some(FaultPlan::none(Seed(1)));
        change(&mut config);
        config.validate().unwrap_err().found
    };
    const CELLS: CellTimes = CellTimes { read: Ns(1), program: Ns(1), erase: Ns(1) };
    assert_eq!(found(|c| c.geometry.peb_bytes = 700), 700);
    assert_eq!(found(|c| c.geometry.page_bytes = 768), 768);
    assert_eq!(found(|c| c.geometry.subpage_bytes = 96), 96);
    assert_eq!(found(|c| c.layout.planes = 3), 3);
    assert_eq!(found(|c| c.layout.dies_per_channel = 3), 3);
    assert_eq!(found(|c| c.ecc = Some(Ecc { bits: 1025, step_bytes: 512, scrub_at: 1 })), 1025);
    assert_eq!(found(|c| c.ecc = Some(Ecc::new(4, 500))), 500);
    assert_eq!(found(|c| c.ecc = Some(Ecc { bits: 4, step_bytes: 512, scrub_at: 5 })), 5);
    assert_eq!(found(|c| c.timing = Timing::onfi(BusMode::Sdr(6), CELLS)), 6);
    assert_eq!(found(|c| c.timing = Timing::onfi(BusMode::Spi { mhz: 1, lanes: 3 }, CELLS)), 3);
    assert_eq!(found(|c| c.timing = Timing::NandsimOn(NandsimDelays { bus_bits: 4, ..NandsimDelays::DEFAULT })), 4);
    assert_eq!(found(|c| plan(c).nandsim.bad_blocks = vec![1, 7, 2]), 7);
    assert_eq!(found(|c| plan(c).factory_bad = FactoryBad::List(vec![Peb(9)])), 9);
    assert_eq!(found(|c| plan(c).program_failure = 3.0), 3);
    assert_eq!(found(|c| wear(c, |w| w.rating_cycles = 0)), 0);
}

/// A plain part takes as many programs of a page as it has sub-pages, and never none.
#[test]
fn a_plain_part_takes_a_program_for_each_sub_page() {
    let programs = |page_bytes, subpage_bytes| {
        ArrayConfig::plain(Geometry { page_bytes, subpage_bytes, ..NAND }).rules.programs_per_page
    };
    assert_eq!(
        [(512, 128), (512, 512), (2048, 512), (512, 2), (512, 1)].map(|(p, s)| programs(p, s)),
        [4, 1, 4, 255, 255]
    );
    // No device, but no panic either: validation tells.
    assert_eq!(programs(128, 512), 1);
    assert_eq!(programs(512, 0), 255);
}
