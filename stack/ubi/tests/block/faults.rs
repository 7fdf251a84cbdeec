//! Flash that fails: no data are lost, and a device that is used up says so and can still be read.

use nand::{Array, ArrayConfig, Bytes, FaultPlan};
use proptest::prelude::*;
use sim::Seed;
use sim::seam::{BlockError, BlockRequest, Flash};
use ubi::block::{BlockConfig, Form, OnUbi, UbiBlock};

use crate::oracle::{Oracle, steps};
use crate::rig::{Host, NAND, WRITING, attach_again, block, formatted, pattern, without_fastmap};

/// A NAND on which this share of programs and erases fails.
fn failing(program_failure: f64, erase_failure: f64, seed: u64) -> OnUbi<Array<Bytes>> {
    let faults = FaultPlan { program_failure, erase_failure, ..FaultPlan::none(Seed(seed)) };
    let config = ubi::Config { beb_per_1024: 300, ..without_fastmap() };
    let array = ArrayConfig { faults: Some(faults), ..ArrayConfig::plain(NAND) };
    formatted(array, Bytes::new(), &config, 6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// A write that fails on four PEBs in a row makes UBI read-only, as Linux does: at this rate one LEB of 14 pages in fifteen million.
    #[test]
    fn failing_programs_lose_nothing(
        steps in steps(100),
        form in prop::sample::select(&WRITING),
        cache_lebs in 1..=4u32,
        seed in any::<u64>(),
    ) {
        let mut device = UbiBlock::new(failing(0.001, 0.0, seed), sim::Ns::ZERO, block(form, cache_lebs)).unwrap();
        let mut oracle = Oracle::of(&device);
        for step in steps {
            device = oracle.step(device, step, |volume| attach_again(volume, |_| {}));
        }
        oracle.compare(&mut device);
        prop_assert_eq!(device.volume().ubi().read_only(), None);
    }
}

#[test]
fn failing_programs_do_happen() {
    let mut host = Host::new(failing(0.004, 0.0, 1), BlockConfig::default());
    for turn in 0..60 {
        host.write(turn, u64::from(turn % 2) * 7, 1).unwrap();
    }
    host.flush().unwrap();
    let ubi = host.device.volume().ubi();
    assert!(ubi.stats().recoveries > 0);
    assert!(ubi.flash().fault_counts() != nand::FaultCounts::default());
    assert_eq!(host.read(0, 1).unwrap(), pattern(58, 0, 1));
    assert_eq!(host.read(7, 1).unwrap(), pattern(59, 7, 1));
}

#[test]
fn a_flash_on_which_every_program_fails_leaves_an_atomic_device_readable() {
    let volume = {
        let mut volume = failing(1.0, 0.0, 1_000);
        volume.flash_mut().suspend_faults(true);
        volume
    };
    let mut host = Host::new(volume, BlockConfig::default());
    host.write(1, 0, 42).unwrap();
    host.flush().unwrap();
    host.device.volume_mut().flash_mut().suspend_faults(false);
    host.write(2, 0, 1).unwrap();
    let why = "a write failed on several blocks";
    assert_eq!(host.write(2, 7, 1), Err(BlockError::WornOut { why }));
    assert_eq!(host.flush(), Err(BlockError::WornOut { why }));
    let fua = BlockRequest { fua: true, ..BlockRequest::write(0, 1) };
    assert_eq!(host.ask(fua, &pattern(3, 0, 1)).result, Err(BlockError::WornOut { why }));
    let expected = [pattern(3, 0, 1), pattern(1, 1, 41)].concat();
    assert_eq!(host.read(0, 42).unwrap(), expected, "what was accepted is in memory, the rest on the flash");
    assert_eq!(host.device.config().form, Form::Atomic);
    // What could not be written back is lost with the memory, and nothing else.
    let volume = attach_again(host.device.into_volume(), |flash| flash.suspend_faults(true));
    let mut host = Host::new(volume, BlockConfig::default());
    assert_eq!(host.read(0, 42).unwrap(), pattern(1, 0, 42));
}

#[test]
fn a_device_without_a_spare_block_is_worn_out_when_an_erasure_fails() {
    let mut volume = failing(0.0, 1.0, 1);
    volume.flash_mut().suspend_faults(true);
    let mut host = Host::new(volume, BlockConfig::default());
    host.write(1, 0, 42).unwrap();
    host.flush().unwrap();
    host.device.volume_mut().flash_mut().suspend_faults(false);
    let refused = (0..200).find_map(|turn| {
        let lost = host.write(2 + turn, u64::from(turn % 6) * 7, 1).err();
        lost.map(|error| (turn, error))
    });
    let Some((_, BlockError::WornOut { .. })) = refused else { panic!("{refused:?}") };
    let flash = host.device.volume().ubi().flash();
    assert!((0..NAND.pebs).any(|peb| flash.is_bad(sim::Peb(peb))));
    assert!(host.read(0, 42).is_ok());
}
