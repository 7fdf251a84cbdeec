//! Tests of the HPB driver's worker, command by command.

use sim::Ns;

use super::driver::Driver;
use super::state::{LuState, RegionState, SubState};
use crate::device::hpb::{Advice, Control, HpbConfig, MapCommand, Operation, ReadCommand, UpToTwo};

/// Four regions with two sub-regions of eight pages each; at most two regions are active.
fn host_of(control: Control) -> Driver {
    let config =
        HpbConfig { control, subregion_pages: 8, region_subregions: 2, max_active_regions: 2, ..HpbConfig::plain(64) };
    Driver::new(&config, 32)
}

fn advice(active: &[u32], inactive: &[u32]) -> Advice {
    let [active, inactive] = [active, inactive].map(|list| UpToTwo::of(list.iter().copied()));
    Advice { operation: Operation::UpdateRegions, active, inactive }
}

fn commands(driver: &mut Driver) -> Vec<MapCommand> {
    std::iter::from_fn(|| driver.next_command(Ns(0))).collect()
}

fn load(driver: &mut Driver, sub: u32) {
    driver.advised(&advice(&[sub], &[]));
    assert_eq!(commands(driver), [MapCommand::Load { sub }]);
    driver.loaded(sub, &[7; 8]);
    driver.check();
}

#[test]
fn a_region_named_as_active_and_inactive_leaves() {
    let mut driver = host_of(Control::Device);
    load(&mut driver, 0);
    driver.advised(&advice(&[0, 1], &[0]));
    assert_eq!((driver.read(0, 1), commands(&mut driver)), (ReadCommand::Plain, vec![]));
    assert_eq!((driver.region(0), driver.sub(0)), (RegionState::Inactive, SubState::Unused));
    driver.check();
}

#[test]
fn inactivations_are_done_before_activations() {
    let mut driver = host_of(Control::Device);
    load(&mut driver, 0);
    load(&mut driver, 2);
    // Two regions are active, but the inactivation of one of them makes room for the third.
    driver.advised(&advice(&[4], &[1]));
    assert_eq!(commands(&mut driver), [MapCommand::Load { sub: 4 }]);
    let states = [0, 1, 2].map(|region| driver.region(region));
    assert_eq!(states, [RegionState::Active, RegionState::Inactive, RegionState::Active]);
}

#[test]
fn the_region_activated_longest_ago_is_evicted_whatever_was_read() {
    let mut driver = host_of(Control::Device);
    load(&mut driver, 0);
    load(&mut driver, 2);
    assert_eq!(driver.read(0, 1), ReadCommand::Entry(7));
    load(&mut driver, 4);
    assert_eq!((driver.region(0), driver.region(1)), (RegionState::Inactive, RegionState::Active));
}

#[test]
fn entries_advised_anew_while_they_are_on_their_way_are_loaded_once_more() {
    let mut driver = host_of(Control::Device);
    driver.advised(&advice(&[3], &[]));
    assert_eq!(commands(&mut driver), [MapCommand::Load { sub: 3 }]);
    driver.advised(&advice(&[3], &[]));
    assert_eq!(commands(&mut driver), []);
    driver.loaded(3, &[7; 8]);
    assert_eq!(driver.read(24, 1), ReadCommand::Plain, "what came is old already");
    assert_eq!(commands(&mut driver), [MapCommand::Load { sub: 3 }]);
    driver.loaded(3, &[9; 8]);
    assert_eq!(driver.read(24, 1), ReadCommand::Entry(9));
}

#[test]
fn a_region_is_not_evicted_while_entries_of_it_are_on_their_way() {
    let mut driver = host_of(Control::Device);
    driver.advised(&advice(&[0], &[]));
    assert_eq!(commands(&mut driver), [MapCommand::Load { sub: 0 }]);
    driver.advised(&advice(&[], &[0]));
    assert_eq!((commands(&mut driver), driver.region(0)), (vec![], RegionState::Active));
    driver.loaded(0, &[7; 8]);
    assert_eq!((commands(&mut driver), driver.region(0)), (vec![], RegionState::Inactive));
}

#[test]
fn a_unit_that_sleeps_uses_and_loads_nothing() {
    let mut driver = host_of(Control::Device);
    load(&mut driver, 0);
    driver.suspend(0);
    driver.advised(&advice(&[1], &[]));
    assert_eq!((driver.read(0, 1), commands(&mut driver)), (ReadCommand::Plain, vec![]));
    driver.resume(0);
    assert_eq!((driver.read(0, 1), commands(&mut driver)), (ReadCommand::Entry(7), vec![MapCommand::Load { sub: 1 }]));
}

#[test]
fn host_control_heeds_no_advice_but_to_load_what_is_active_and_clean() {
    let mut driver = host_of(Control::Host);
    assert_eq!(commands(&mut driver), [MapCommand::InactivateAll]);
    driver.advised(&advice(&[0], &[]));
    assert_eq!(commands(&mut driver), []);
    (0..8).for_each(|_| assert_eq!(driver.read(0, 1), ReadCommand::Plain));
    assert_eq!(commands(&mut driver), [MapCommand::Load { sub: 0 }]);
    driver.loaded(0, &[7; 8]);
    driver.advised(&advice(&[], &[0]));
    assert_eq!((driver.read(0, 1), commands(&mut driver)), (ReadCommand::Entry(7), vec![]));
    driver.write(1, 1);
    driver.advised(&advice(&[0], &[]));
    assert_eq!((commands(&mut driver), driver.read(1, 1)), (vec![], ReadCommand::Plain), "its region is dirty");
}

#[test]
fn a_load_that_fails_is_asked_for_again_after_as_many_reads() {
    let mut driver = host_of(Control::Host);
    commands(&mut driver);
    for _ in 0..2 {
        (0..8).for_each(|_| assert_eq!(driver.read(0, 1), ReadCommand::Plain));
        assert_eq!(commands(&mut driver), [MapCommand::Load { sub: 0 }]);
        driver.load_failed(0);
        driver.check();
    }
    assert_eq!(driver.read(0, 1), ReadCommand::Plain);
}

#[test]
fn a_reset_makes_device_control_forget_and_host_control_load_again() {
    let reset = Advice { operation: Operation::DeviceReset, ..advice(&[], &[]) };
    let mut driver = host_of(Control::Device);
    load(&mut driver, 0);
    driver.advised(&reset);
    assert_eq!((commands(&mut driver), driver.active_regions()), (vec![], 0));
    let mut driver = host_of(Control::Host);
    commands(&mut driver);
    for _ in 0..8 {
        driver.read(0, 1);
    }
    commands(&mut driver);
    driver.loaded(0, &[7; 8]);
    driver.advised(&reset);
    driver.read(0, 1);
    assert_eq!(commands(&mut driver), [MapCommand::Load { sub: 0 }]);
}

#[test]
fn a_device_that_takes_its_time_is_polled_and_one_that_takes_too_long_has_no_hpb() {
    let mut config = HpbConfig { subregion_pages: 8, region_subregions: 2, ..HpbConfig::plain(64) };
    config.reset = Ns(2_500_000);
    let mut driver = Driver::new(&config, 32);
    assert_eq!(driver.lu(0), LuState::Init);
    driver.poll(Ns(2_999_999));
    assert_eq!(driver.lu(0), LuState::Init, "it is cleared, and nobody has looked");
    driver.poll(Ns(3_000_000));
    assert_eq!(driver.lu(0), LuState::Present);
    load(&mut driver, 0);
    driver.reset(Ns(5_000_000));
    assert_eq!((driver.lu(0), driver.read(0, 1)), (LuState::Reset, ReadCommand::Plain));
    driver.poll(Ns(8_000_000));
    assert_eq!(driver.read(0, 1), ReadCommand::Entry(7));

    config.reset = Ns(10_000_001);
    config.pinned = (0, 1);
    let mut driver = Driver::new(&config, 32);
    driver.poll(Ns(9_999_999));
    assert_eq!(driver.lu(0), LuState::Init);
    driver.poll(Ns(10_000_000));
    assert_eq!((driver.lu(0), commands(&mut driver)), (LuState::Failed, vec![]));
    assert!(driver.is_idle());
}
