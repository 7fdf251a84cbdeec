//! What the worker does, command by command.

use super::super::response::UpToTwo;
use super::*;

/// Four regions of two sub-regions of eight pages, two of which may be active.
fn host_of(control: Control) -> Host {
    let config =
        HpbConfig { control, subregion_pages: 8, region_subregions: 2, max_active_regions: 2, ..HpbConfig::plain(64) };
    Host::new(&config, 32)
}

fn advice(active: &[u32], inactive: &[u32]) -> Advice {
    let [active, inactive] = [active, inactive].map(|list| UpToTwo::of(list.iter().copied()));
    Advice { operation: Operation::UpdateRegions, active, inactive }
}

fn commands(host: &mut Host) -> Vec<Command> {
    std::iter::from_fn(|| host.next_command(Ns(0))).collect()
}

fn load(host: &mut Host, sub: u32) {
    host.advised(&advice(&[sub], &[]));
    assert_eq!(commands(host), [Command::Load { sub }]);
    host.loaded(sub, &[7; 8]);
    host.check();
}

#[test]
fn a_region_named_as_active_and_inactive_leaves() {
    let mut host = host_of(Control::Device);
    load(&mut host, 0);
    host.advised(&advice(&[0, 1], &[0]));
    assert_eq!((host.read(0, 1), commands(&mut host)), (Read::Plain, vec![]));
    assert_eq!((host.region(0), host.sub(0)), (RegionState::Inactive, SubState::Unused));
    host.check();
}

#[test]
fn inactivations_are_done_before_activations() {
    let mut host = host_of(Control::Device);
    load(&mut host, 0);
    load(&mut host, 2);
    // The third region finds a place although two are active: one of them leaves first.
    host.advised(&advice(&[4], &[1]));
    assert_eq!(commands(&mut host), [Command::Load { sub: 4 }]);
    let states = [0, 1, 2].map(|region| host.region(region));
    assert_eq!(states, [RegionState::Active, RegionState::Inactive, RegionState::Active]);
}

#[test]
fn the_region_activated_longest_ago_is_evicted_whatever_was_read() {
    let mut host = host_of(Control::Device);
    load(&mut host, 0);
    load(&mut host, 2);
    assert_eq!(host.read(0, 1), Read::Entry(7));
    load(&mut host, 4);
    assert_eq!((host.region(0), host.region(1)), (RegionState::Inactive, RegionState::Active));
}

#[test]
fn entries_advised_anew_while_they_are_on_their_way_are_loaded_once_more() {
    let mut host = host_of(Control::Device);
    host.advised(&advice(&[3], &[]));
    assert_eq!(commands(&mut host), [Command::Load { sub: 3 }]);
    host.advised(&advice(&[3], &[]));
    assert_eq!(commands(&mut host), []);
    host.loaded(3, &[7; 8]);
    assert_eq!(host.read(24, 1), Read::Plain, "what came is old already");
    assert_eq!(commands(&mut host), [Command::Load { sub: 3 }]);
    host.loaded(3, &[9; 8]);
    assert_eq!(host.read(24, 1), Read::Entry(9));
}

#[test]
fn a_region_is_not_evicted_while_entries_of_it_are_on_their_way() {
    let mut host = host_of(Control::Device);
    host.advised(&advice(&[0], &[]));
    assert_eq!(commands(&mut host), [Command::Load { sub: 0 }]);
    host.advised(&advice(&[], &[0]));
    assert_eq!((commands(&mut host), host.region(0)), (vec![], RegionState::Active));
    host.loaded(0, &[7; 8]);
    assert_eq!((commands(&mut host), host.region(0)), (vec![], RegionState::Inactive));
}

#[test]
fn a_unit_that_sleeps_uses_and_loads_nothing() {
    let mut host = host_of(Control::Device);
    load(&mut host, 0);
    host.suspend(0);
    host.advised(&advice(&[1], &[]));
    assert_eq!((host.read(0, 1), commands(&mut host)), (Read::Plain, vec![]));
    host.resume(0);
    assert_eq!((host.read(0, 1), commands(&mut host)), (Read::Entry(7), vec![Command::Load { sub: 1 }]));
}

#[test]
fn host_control_heeds_no_advice_but_to_load_what_is_active_and_clean() {
    let mut host = host_of(Control::Host);
    assert_eq!(commands(&mut host), [Command::InactivateAll]);
    host.advised(&advice(&[0], &[]));
    assert_eq!(commands(&mut host), []);
    (0..8).for_each(|_| assert_eq!(host.read(0, 1), Read::Plain));
    assert_eq!(commands(&mut host), [Command::Load { sub: 0 }]);
    host.loaded(0, &[7; 8]);
    host.advised(&advice(&[], &[0]));
    assert_eq!((host.read(0, 1), commands(&mut host)), (Read::Entry(7), vec![]));
    host.write(1, 1);
    host.advised(&advice(&[0], &[]));
    assert_eq!((commands(&mut host), host.read(1, 1)), (vec![], Read::Plain), "its region is dirty");
}

#[test]
fn a_load_that_fails_is_asked_for_again_after_as_many_reads() {
    let mut host = host_of(Control::Host);
    commands(&mut host);
    for _ in 0..2 {
        (0..8).for_each(|_| assert_eq!(host.read(0, 1), Read::Plain));
        assert_eq!(commands(&mut host), [Command::Load { sub: 0 }]);
        host.load_failed(0);
        host.check();
    }
    assert_eq!(host.read(0, 1), Read::Plain);
}

#[test]
fn a_reset_makes_device_control_forget_and_host_control_load_again() {
    let reset = Advice { operation: Operation::DeviceReset, ..advice(&[], &[]) };
    let mut host = host_of(Control::Device);
    load(&mut host, 0);
    host.advised(&reset);
    assert_eq!((commands(&mut host), host.active_regions()), (vec![], 0));
    let mut host = host_of(Control::Host);
    commands(&mut host);
    for _ in 0..8 {
        host.read(0, 1);
    }
    commands(&mut host);
    host.loaded(0, &[7; 8]);
    host.advised(&reset);
    host.read(0, 1);
    assert_eq!(commands(&mut host), [Command::Load { sub: 0 }]);
}

#[test]
fn a_device_that_takes_its_time_is_polled_and_one_that_takes_too_long_has_no_hpb() {
    let mut config = HpbConfig { subregion_pages: 8, region_subregions: 2, ..HpbConfig::plain(64) };
    config.reset = Ns(2_500_000);
    let mut host = Host::new(&config, 32);
    assert_eq!(host.lu(0), LuState::Init);
    host.poll(Ns(2_999_999));
    assert_eq!(host.lu(0), LuState::Init, "it is cleared, and nobody has looked");
    host.poll(Ns(3_000_000));
    assert_eq!(host.lu(0), LuState::Present);
    load(&mut host, 0);
    host.reset(Ns(5_000_000));
    assert_eq!((host.lu(0), host.read(0, 1)), (LuState::Reset, Read::Plain));
    host.poll(Ns(8_000_000));
    assert_eq!(host.read(0, 1), Read::Entry(7));

    config.reset = Ns(10_000_001);
    config.pinned = (0, 1);
    let mut host = Host::new(&config, 32);
    host.poll(Ns(9_999_999));
    assert_eq!(host.lu(0), LuState::Init);
    host.poll(Ns(10_000_000));
    assert_eq!((host.lu(0), commands(&mut host)), (LuState::Failed, vec![]));
    assert!(host.is_idle());
}
