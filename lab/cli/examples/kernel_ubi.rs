//! Holds nandlab's UBI against Linux's, for `.ci/kernel-ubi`. The command `nandlab` is that of the environment variable
//! `NANDLAB`.
//!
//!     kernel_ubi matrix|ping-pong 6.12|6.1 [GEOMETRY…]
//!     kernel_ubi torn 6.12 DIRECTORY          flashes for stack/ubi/tests/fixtures/small

#[path = "../tests/guest/kernel_ubi/mod.rs"]
mod kernel_ubi;

use std::path::PathBuf;
use std::process::ExitCode;

use kernel_ubi::linux::Linux;
use kernel_ubi::ours::{self, End, How};
use kernel_ubi::script::{Last, Op};
use kernel_ubi::{BENCHES, Bench, policy};
use nand::{PowerCut, PrefixBytes, Tear};
use sim::Seed;

const ROUNDS: usize = 10;
/// Cuts of a script, on each side.
const CUTS: usize = 12;
const OPERATIONS: usize = 30;

/// What was compared, and how it came out.
#[derive(Default)]
struct Tally {
    by_fastmap: u32,
    by_scan: u32,
    /// By a fastmap with an old size of a static volume there, by a scan here.
    stale: u32,
    refused: u32,
    failed: u32,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (word, version) = match &args[..] {
        [word, version, ..]
            if ["matrix", "ping-pong", "torn"].contains(&&**word) && ["6.12", "6.1"].contains(&&**version) =>
        {
            (word, version)
        }
        _ => {
            eprintln!("usage: kernel_ubi matrix|ping-pong 6.12|6.1 [GEOMETRY…], or kernel_ubi torn 6.12 DIRECTORY");
            return ExitCode::from(2);
        }
    };
    let nandlab = std::env::var_os("NANDLAB").map_or_else(|| PathBuf::from("target/debug/nandlab"), PathBuf::from);
    let nandlab = std::path::absolute(nandlab).expect("there is a working directory");
    let dir = std::path::absolute(format!("target/kernel-ubi-{version}-{word}")).expect("there is a working directory");
    std::fs::create_dir_all(&dir).expect("target/ is writable");
    let linux = Linux { nandlab, version: version.clone(), dir };
    if word == "torn" {
        let out = args.get(2).map_or_else(|| PathBuf::from("."), PathBuf::from);
        TORN.iter().for_each(|(name, bench, twelfth)| torn(&linux, &out, name, bench, *twelfth));
        return ExitCode::SUCCESS;
    }
    let wanted = |bench: &&Bench| args.len() == 2 || args[2..].iter().any(|name| name == bench.name);
    let mut tally = Tally::default();
    for bench in BENCHES.iter().filter(wanted) {
        if word == "matrix" {
            matrix(bench, &linux, &mut tally);
        } else {
            match bench.ping_pong(&linux, ROUNDS) {
                Ok(()) => println!("ok      {}: {ROUNDS} rounds", bench.name),
                Err(what) => fail(&mut tally, bench, "ping-pong", &what),
            }
        }
    }
    let Tally { by_fastmap, by_scan, stale, refused, failed } = tally;
    if word == "matrix" {
        println!(
            "Linux {version}: {by_fastmap} by fastmap and {by_scan} by scan on both sides, {refused} refused by both; {stale} by \
             a stale fastmap there and by scan here; {failed} differ"
        );
    }
    ExitCode::from(u8::from(failed > 0))
}

fn fail(tally: &mut Tally, bench: &Bench, what: &str, why: &str) {
    tally.failed += 1;
    println!("FAILED  {}: {what}: {why}", bench.name);
}

/// Flashes of ours and of Linux, left in each way, attached by both.
fn matrix(bench: &Bench, linux: &Linux, tally: &mut Tally) {
    let mut rng = Seed(1).stream(bench.name);
    let mut model = bench.model();
    let script = model.draw(&mut rng, OPERATIONS, Last::Any);
    let volumes = model.volumes();
    let rules = policy(&linux.version);
    for (name, end) in [("clean", End::Clean), ("idle", End::Idle)] {
        match ours::turn(bench.geometry, rules, &bench.blank(), &script, end) {
            Ok(image) => judge(bench, linux, tally, &format!("ours, {name}"), &image, Some(&volumes)),
            Err(why) => fail(tally, bench, name, &why),
        }
        match linux.turn(bench.geometry, None, &script, end) {
            Ok(turn) if turn.left.as_deref() == Some(&volumes) => {
                judge(bench, linux, tally, &format!("Linux, {name}"), &turn.image, Some(&volumes));
            }
            Ok(turn) => fail(tally, bench, "Linux", &format!("left {:?}, expected {volumes}", turn.left)),
            Err(why) => fail(tally, bench, "Linux", &why),
        }
    }
    for (name, image) in our_cuts(bench, rules, &script) {
        judge(bench, linux, tally, &format!("ours, {name}"), &image, None);
    }
    let places: Vec<f64> = (0..CUTS).map(place).collect();
    match linux.cuts(bench.geometry, &script, &places) {
        Ok(cuts) => {
            for (name, image) in cuts {
                judge(bench, linux, tally, &format!("Linux, {name}"), &image, None);
            }
        }
        Err(why) => fail(tally, bench, "Linux, torn", &why),
    }
}

/// Where cut `i` is, as a share of all. The first quarter of them is in formatting the flash.
fn place(i: usize) -> f64 {
    0.25 + 0.75 * (i as f64 + 0.5) / CUTS as f64
}

/// Flashes of Linux after a cut, or left attached (`None`): name, geometry, and place of the cut in twelfths.
const TORN: [(&str, &str, Option<f64>); 9] = [
    ("nor-torn-erase", "nor", Some(10.5)),
    ("nor-torn-fastmap", "nor", Some(11.5)),
    ("nor-torn-update", "nor", Some(5.5)),
    ("nor-64k-updated", "nor-64k", None),
    ("nand512-torn-pool", "nand512", Some(9.5)),
    ("nand512-torn-counter", "nand512", Some(7.5)),
    ("nand2048-sub-torn-erase", "nand2048-sub", Some(9.5)),
    ("nand2048-torn-table", "nand2048", Some(10.5)),
    ("nand4096-torn-fastmap", "nand4096", Some(4.5)),
];

/// Writes such a flash, and the erase counter of each PEB when Linux attaches it, before it erases any: what it keeps in
/// memory, which is in its last fastmap, without its own erasures.
fn torn(linux: &Linux, out: &std::path::Path, name: &str, bench: &str, twelfth: Option<f64>) {
    let bench = BENCHES.iter().find(|known| known.name == bench).expect("it is known");
    let script = bench.model().draw(&mut Seed(1).stream(bench.name), OPERATIONS, Last::Any);
    let (how, image) = match twelfth {
        None => ("idle".to_owned(), linux.turn(bench.geometry, None, &script, End::Idle).expect("it runs").image),
        Some(at) => linux.cuts(bench.geometry, &script, &[at / 12.0]).expect("it runs").remove(0),
    };
    let turn = linux.turn(bench.geometry, Some(&image), &[], End::Clean).expect("it runs");
    let counters: Vec<String> = bench.kernel_counters(&turn).iter().map(u32::to_string).collect();
    std::fs::write(out.join(format!("{name}.bin")), image).expect("the directory is writable");
    std::fs::write(out.join(format!("{name}.counters.txt")), counters.join(" ") + "\n")
        .expect("the directory is writable");
    println!("{name}: {how}: {:?}, {}; {}", turn.found.how, turn.found.said, turn.found.volumes);
}

fn our_cuts(bench: &Bench, rules: ubi::Policy, script: &[Op]) -> Vec<(String, Vec<u8>)> {
    let (all, _) = ours::cut(bench.geometry, rules, script, None);
    let tears = [Tear::Clean, Tear::Prefix(PrefixBytes::Drawn), Tear::RandomBits];
    let one = |i: usize| {
        let at = ((all as f64 * place(i)) as u64).min(all - 1);
        let cut = PowerCut { seed: Seed(at), ..PowerCut::at_op(at, tears[i % 3]) };
        let (_, image) = ours::cut(bench.geometry, rules, script, Some(cut));
        (format!("cut in operation {at} of {all}, {:?}", tears[i % 3]), image)
    };
    (0..CUTS).map(one).collect()
}

/// Attaches a flash here and there. A sound one, with these volumes, is attached by its fastmap, and Linux says nothing.
fn judge(bench: &Bench, linux: &Linux, tally: &mut Tally, what: &str, image: &[u8], sound: Option<&str>) {
    match bench.hold(linux, image) {
        Err(differ) => {
            let kept = linux.dir.join(format!("{}-{}.bin", bench.name, tally.failed));
            std::fs::write(&kept, image).expect("the directory is writable");
            fail(tally, bench, what, &format!("{} (kept: {})", differ.join("; "), kept.display()));
        }
        Ok((seen, turn)) => {
            let stale = bench.is_stale(&seen, &turn, image);
            let is_sound = (seen.how == How::Fastmap || stale) && bench.is_silent(&turn.found.said);
            if sound.is_some_and(|volumes| !is_sound || seen.volumes != volumes) {
                fail(tally, bench, what, &format!("{seen:?}, Linux says {:?}", turn.found.said));
                return;
            }
            match seen.how {
                _ if stale => tally.stale += 1,
                How::Fastmap => tally.by_fastmap += 1,
                How::Scan => tally.by_scan += 1,
                How::Refused => tally.refused += 1,
            }
            let how = if stale { "stale".to_owned() } else { format!("{:?}", seen.how) };
            println!("ok      {}: {what}: {how}, {}; {}", bench.name, turn.found.said, seen.volumes);
            if stale {
                println!("        Linux: {}", turn.found.volumes);
            }
        }
    }
}
