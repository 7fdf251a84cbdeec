//! nandlab's UBI and Linux's in turn on one flash: a sample of what `.ci/kernel-ubi` does in every geometry.

use nand::{PowerCut, PrefixBytes, Tear};
use sim::Seed;

use super::fresh;
use super::kernel_ubi::linux::Linux;
use super::kernel_ubi::ours::{self, End, How};
use super::kernel_ubi::script::Last;
use super::kernel_ubi::{BENCHES, Bench, policy};

const VERSION: &str = "6.12";

fn linux(name: &str) -> Linux {
    Linux { nandlab: env!("CARGO_BIN_EXE_nandlab").into(), version: VERSION.to_owned(), dir: fresh(name) }
}

fn bench(name: &str) -> &'static Bench {
    BENCHES.iter().find(|bench| bench.name == name).unwrap()
}

#[test]
fn ours_and_linux_change_a_flash_in_turn_and_each_finds_what_the_other_left_by_its_fastmap() {
    for name in ["nor", "nand2048-sub"] {
        bench(name).ping_pong(&linux(&format!("turns-{name}")), 3).unwrap_or_else(|what| panic!("{name}: {what}"));
    }
}

#[test]
fn what_a_power_cut_of_ours_leaves_is_attached_by_linux_as_by_ours_and_a_wrong_counter_is_noticed() {
    let (bench, linux) = (bench("nand512"), linux("turns-cuts"));
    let script = bench.model().draw(&mut Seed(1).stream("cuts"), 20, Last::Any);
    let (all, _) = ours::cut(bench.geometry, policy(VERSION), &script, None);
    let mut ways = Vec::new();
    for (share, tear) in
        [(45, Tear::RandomBits), (60, Tear::Prefix(PrefixBytes::Drawn)), (75, Tear::Clean), (90, Tear::RandomBits)]
    {
        let cut = PowerCut { seed: Seed(share), ..PowerCut::at_op(all * share / 100, tear) };
        let (_, image) = ours::cut(bench.geometry, policy(VERSION), &script, Some(cut));
        let (mut seen, turn) = bench.hold(&linux, &image).unwrap_or_else(|differ| panic!("{cut:?}: {differ:?}"));
        ways.push(seen.how);
        seen.counters[40] += 1;
        let differ = bench.differences(&image, &seen, &turn, End::Clean);
        assert!(differ.iter().any(|what| what.starts_with("PEB 40: ours ")), "{differ:?}");
    }
    assert!(ways.contains(&How::Fastmap) && ways.contains(&How::Scan), "{ways:?}");
}
