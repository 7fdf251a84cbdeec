//! Volumes as the load of raw flash: bytes and erasures by hand arithmetic, refusals, repeatability, and what a power
//! cut leaves of an atomic change.

use nand::{Array, ArrayConfig, Bytes, CutAt, PowerCut, Tear};
use runner::measure::Outcome;
use runner::run::Prepared;
use sim::seam::{Geometry, LebVolume, Medium, Payload};
use sim::{Cx, Lnum, Ns, Seed, VolId};
use ubi::{Config, KnownBad, Policy, Ubi, UbiError, VolumeRequest, VolumeSize};
use workload::volumes::{Lebs, Limits, Op, Order, Pattern, Rate, Volume, Volumes};

/// 128 PEBs of 128 KiB; a LEB is 126,976 bytes. Neither fastmaps nor wear levelling add erasures.
const SMALL: &str = "title = 'small'
[nand]
pebs = 128
[ubi]
fastmap = false
[workload]
kind = 'volumes'
[stop]
";
const LOGS: &str = "[workload.volume.logs]\npattern = 'append'\nsize_bytes = 5_000_000\nrate_bytes = 1_000_000\n";
const DB: &str = "[workload.volume.db]\npattern = 'rewrite'\nsize_bytes = 1_000_000\nrate_bytes = 4096\n";
const IMAGE: &str = "[workload.volume.image]\npattern = 'image'\nsize_bytes = 1_000_000\nevery_days = 1\n";
const ROOT: &str = "[workload.volume.root]\npattern = 'static'\nsize_bytes = 2_000_000\nreads_per_day = 2\n";

fn resolve(text: &str) -> Result<Prepared, String> {
    Prepared::resolve(text, &[]).map_err(|error| error.to_string())
}

fn run(text: &str) -> Outcome {
    resolve(text).unwrap().run(None, &mut |_| ()).unwrap()
}

fn value(found: &Outcome, id: &str) -> f64 {
    found.metrics().value(id).unwrap()
}

/// Erasures of the load: those of the run without those of the same device before it.
fn erases(found: &Outcome, text: &str) -> u64 {
    let none = run(&text.replace("\ndays = 1\n", "\nvirtual_s = 1e-6\n"));
    (value(found, "wear.erases") - value(&none, "wear.erases")) as u64
}

#[test]
fn a_day_of_logs_is_so_many_lebs_and_so_many_erasures() {
    let text = format!("{SMALL}days = 1\n{LOGS}");
    let found = run(&text);
    // 1,440 MB in records of 4096 bytes, 31 of which fill a LEB.
    let records = 1_440_000_000 / 4096;
    assert_eq!((value(&found, "run.steps"), value(&found, "host.bytes")), (records as f64, records as f64 * 4096.0));
    assert_eq!(value(&found, "run.time_us"), 86_400e6);
    assert_eq!(found.measured.stopped_by, "days");
    let lebs = (records as u64).div_ceil(31);
    // The volume has 40 LEBs: the first round erases none.
    assert_eq!(erases(&found, &text), lebs - 40);
    // Per LEB 124 KiB of data, a header of 2 KiB, and one more for each erasure. The old copies of the volume table, from
    // before the load, are also erased in its time: two more headers.
    let programmed = records as u64 * 4096 + lebs * 2048 + (lebs - 40 + 2) * 2048;
    let waf = programmed as f64 / (records as f64 * 4096.0);
    assert!((value(&found, "waf") - waf).abs() < 1e-12, "{} {waf}", value(&found, "waf"));
    let by_cause = value(&found, "waf.by.host") + value(&found, "waf.by.header");
    assert!((by_cause - waf).abs() < 1e-12);
    assert_eq!(value(&found, "host.behind_s"), 0.0);
}

#[test]
fn each_write_in_place_costs_a_leb_and_an_erasure() {
    let text = format!("{SMALL}days = 1\n{DB}");
    let found = run(&text);
    // One write of 4096 bytes a minute. Places are multiples of 4096, and so is a LEB: none touches two.
    assert_eq!(value(&found, "host.bytes"), 1440.0 * 4096.0);
    assert_eq!(erases(&found, &text), 1440);
    // Seven LEBs are whole; the eighth holds the last 111,168 bytes of the million, 55 write units.
    let host = value(&found, "waf.by.host") * value(&found, "host.bytes");
    assert!((1440.0 * 112_640.0..=1440.0 * 126_976.0).contains(&host), "{host}");
}

#[test]
fn each_update_costs_its_lebs_and_four_copies_of_the_volume_table() {
    let text = format!("{SMALL}days = 1\n{IMAGE}").replace("\ndays = 1\n", "\ndays = 10.5\n");
    let found = run(&text);
    let volumes = found.flash().unwrap().volumes.as_ref().unwrap();
    assert_eq!((volumes.volumes[0].updates, value(&found, "host.bytes")), (10, 10e6));
    // Eight LEBs; the marker is set and cleared, each time in both copies.
    assert_eq!(erases(&found, &text.replace("\ndays = 10.5\n", "\ndays = 1\n")), 10 * (8 + 4));
}

#[test]
fn data_that_are_only_read_wear_nothing() {
    let text = format!("{SMALL}days = 1\n{ROOT}");
    let found = run(&text);
    assert_eq!(erases(&found, &text), 0);
    // The second scan of the day begins as the day ends, and one LEB of it is read.
    let read = found.flash().unwrap().volumes.as_ref().unwrap().volumes[0].read_bytes;
    assert!((2_000_000..=2_126_976).contains(&read), "{read}");
    assert!(found.metrics().value("waf.by.host").is_err(), "nothing was written");
}

#[test]
fn a_run_ends_at_the_byte_and_at_the_erase_count() {
    let found = run(&format!("{SMALL}host_bytes = 10_000_000\n{LOGS}"));
    assert_eq!(found.measured.stopped_by, "host_bytes");
    assert_eq!(value(&found, "host.bytes"), f64::from(10_000_000u32.next_multiple_of(4096)));
    let found = run(&format!("{SMALL}max_erases = 50\n{LOGS}"));
    assert_eq!((found.measured.stopped_by.as_str(), value(&found, "wear.all.max")), ("max_erases", 50.0));
    let found = run(&format!("{SMALL}years = 0.01\n{DB}"));
    assert_eq!((found.measured.stopped_by.as_str(), found.measured.virtual_ns), ("years", 315_576_000_000_000));
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let text = format!("{SMALL}days = 2\n{LOGS}{DB}{IMAGE}{ROOT}");
    let found = run(&text);
    assert_eq!(run(&text).fingerprint, found.fingerprint);
    assert_eq!(run(&found.experiment.to_toml()).fingerprint, found.fingerprint, "{}", found.experiment.to_toml());
    assert_ne!(run(&format!("seed = 2\n{text}")).fingerprint, found.fingerprint);
}

#[test]
fn wear_does_not_depend_on_whether_bytes_are_kept_and_the_bytes_are_those_of_ubi() {
    // Every LEB is written, and the threshold is low: LEBs move, open ones of the log too.
    let text =
        format!("{SMALL}days = 2\n{IMAGE}{ROOT}[workload.volume.logs]\npattern = 'append'\nrate_bytes = 20_000\n")
            .replace("fastmap = false", "wl_threshold = 4");
    let prepared = resolve(&text).unwrap();
    let tags = prepared.run(None, &mut |_| ()).unwrap();
    let (bytes, store) = prepared.run_on(Bytes::new().into(), None, &mut |_| ()).unwrap();
    assert!(value(&tags, "wl.moves") > 10.0, "{}", value(&tags, "wl.moves"));
    assert_eq!(tags.measured.erase_counts, bytes.measured.erase_counts);
    for id in ["waf", "waf.by.wear_level", "wl.moves", "host.bytes", "fastmap.writes"] {
        assert_eq!(value(&tags, id), value(&bytes, id), "{id}");
    }
    let runner::subject::Subject::Flash(raw) = &prepared.subject else { panic!("raw flash") };
    let mut cx = Cx::new();
    let mut device = Ubi::attach(Array::new(raw.array.clone(), store), &mut cx, &raw.ubi).unwrap();
    for name in ["image", "root"] {
        let vol_id = device.find_volume(name).unwrap();
        device.check_volume(&mut cx, vol_id).unwrap();
    }
}

#[test]
fn a_volume_that_does_not_fit_is_refused_with_the_lebs_that_are_free() {
    // 128 PEBs: 2 of the volume table, 1 for wear levelling, 1 for atomic changes, 3 for bad blocks.
    let big = format!("{SMALL}days = 1\n{}", ROOT.replace("2_000_000", "20_000_000"));
    let expected = "key `workload.volume.root.size_bytes`: found `20,000,000 (158 LEBs)`, \
        expected at most 15,364,096: 121 of the 121 LEBs for volumes are free";
    assert_eq!(resolve(&big).unwrap_err(), expected);
    // The volumes are placed in the order of their names.
    let second = format!("{SMALL}days = 1\n{LOGS}{}", ROOT.replace("2_000_000", "12_000_000"));
    let error = resolve(&second).unwrap_err();
    assert!(error.contains("volume.root.size_bytes") && error.contains(": 81 of the 121 LEBs"), "{error}");
    let none_left =
        format!("{SMALL}days = 1\n{}{}", LOGS.replace("5_000_000", "0"), ROOT.replace("2_000_000", "15_364_096"));
    let error = resolve(&none_left).unwrap_err();
    assert!(error.contains("volume.logs.size_bytes`: found `0`") && error.contains(": 0 of the 121 LEBs"), "{error}");
    let just = format!("{SMALL}days = 1\n{}", ROOT.replace("2_000_000", "15_364_096"));
    assert_eq!(run(&just).flash().unwrap().volume_lebs, 121);
}

#[test]
fn a_log_without_a_size_takes_what_the_others_leave() {
    let text = format!("{SMALL}days = 1\n{ROOT}{}", LOGS.replace("size_bytes = 5_000_000\n", ""));
    let found = run(&text);
    let volumes = &found.flash().unwrap().volumes.as_ref().unwrap().volumes;
    let lebs: Vec<_> = volumes.iter().map(|volume| (volume.name.as_str(), volume.lebs)).collect();
    assert_eq!(lebs, [("logs", 121 - 16), ("root", 16)]);
}

#[test]
fn keys_that_say_nothing_are_refused() {
    for (text, expected) in [
        (format!("{SMALL}days = 1\n"), "key `workload.volume`: found `0 volumes`"),
        (
            format!("{SMALL}days = 1\n{}", LOGS.replace("rate_bytes = 1_000_000\n", "")),
            "key `workload.volume.logs.rate_bytes`: found `0`",
        ),
        (
            format!("{SMALL}days = 1\n{LOGS}every_days = 3\n"),
            "no such key where `workload.volume.logs.pattern` is `append`: it is of `image`",
        ),
        (
            format!("{SMALL}days = 1\n{LOGS}evry_days = 3\n"),
            "unknown key `workload.volume.logs.evry_days`; did you mean `workload.volume.logs.every_days`?",
        ),
        (format!("{SMALL}steps = 1\n{LOGS}"), "key `stop.steps`: found `1`, expected a condition of volumes"),
        (
            format!("{SMALL}{LOGS}"),
            "key `stop`: found `no condition`, expected one of mean_erases_of_others, days, years, host_bytes",
        ),
        (format!("{SMALL}max_erases = 9\n{ROOT}"), "key `stop`: found `no condition in time`"),
        (
            format!("{SMALL}days = 1\n{LOGS}").replace("pattern = 'append'\n", ""),
            "key `workload.volume.logs.pattern`: found `nothing`, expected one of `append`, `rewrite`, `image`, `static`",
        ),
        (
            format!("{SMALL}days = 1\n{LOGS}").replace("kind = 'volumes'\n", "kind = 'volume'\n"),
            "key `workload.kind`: found `volume`, expected one of `fio`, `volumes`; did you mean `volumes`?",
        ),
        (
            format!("{SMALL}days = 1\n{LOGS}").replace("kind = 'volumes'\n", ""),
            "no such key where `workload.kind` is `fio`: it is of `volumes`",
        ),
        (
            format!("{SMALL}days = 1\n{LOGS}{}", DB.replace("size_bytes = 1_000_000", "write_bytes = 90_000_000")),
            "key `workload.volume.db.write_bytes`: found `90000000`",
        ),
    ] {
        let error = resolve(&text).err().unwrap_or_else(|| panic!("accepted:\n{text}"));
        assert!(error.contains(expected), "{error}\nshould have: {expected}");
    }
}

/// UBI of 24 small PEBs with one volume of four LEBs.
fn small_device() -> (Ubi<Array<Bytes>>, Cx, VolId) {
    let geometry =
        Geometry { medium: Medium::Nand, pebs: 24, peb_bytes: 4096, page_bytes: 256, subpage_bytes: 256, oob_bytes: 8 };
    let mut cx = Cx::new();
    let config = Config::linux(Policy::LINUX_6_7);
    let mut device = Ubi::attach(Array::new(ArrayConfig::plain(geometry), Bytes::new()), &mut cx, &config).unwrap();
    let vol_id = device.create_volume(&mut cx, &VolumeRequest::dynamic("db", VolumeSize::Lebs(4))).unwrap();
    (device, cx, vol_id)
}

/// Cuts power at every operation of ten writes in place. Says whether each LEB always has old or new contents, whole.
fn keeps_old_contents_until_new_ones_are_whole(known_bad: KnownBad) -> bool {
    let (mut device, mut cx, vol_id) = small_device();
    device.set_known_bad(known_bad);
    let leb_bytes = device.layout().leb_bytes;
    let shape = Lebs { leb_bytes, min_io_bytes: 256 };
    let pattern = Pattern::Rewrite {
        rate: Rate { bytes: 256, per: Ns::from_s(1) },
        write_bytes: 256,
        bytes: 4 * u64::from(leb_bytes),
        order: Order::Random,
    };
    let volume = Volume { name: "db".to_owned(), lebs: 4, pattern };
    let mut load = Volumes::new(&[volume], shape, Seed(3));
    let contents = |version: u8| vec![version; leb_bytes as usize];
    let change = |device: &mut Ubi<Array<Bytes>>, cx: &mut Cx, op: Op, version: u8| -> Result<Lnum, UbiError> {
        let Op::Change { lnum, bytes } = op else { panic!("{op:?}") };
        device.volume(vol_id)?.change(cx, lnum, Payload::Bytes(&contents(version)[..bytes as usize]))?;
        device.flush(cx)?;
        Ok(lnum)
    };
    for (_, op) in load.fill().collect::<Vec<_>>() {
        change(&mut device, &mut cx, op, 1).unwrap();
    }
    let mut versions = [1u8; 4];
    for version in 2..12 {
        let step = load.next(cx.now(), Limits { until: Ns::from_s(100), host_bytes: u64::MAX }).unwrap();
        let before = versions;
        for cut in 0.. {
            let mut cut_device = device.clone();
            let at = CutAt::Op(cut_device.flash().ops() + cut);
            let tear = Tear::RandomBits;
            let cut = PowerCut {
                at,
                tear,
                ecc_sees_torn: false,
                unstable: false,
                pairing: nand::Pairing::None,
                seed: Seed(cut),
            };
            cut_device.flash_mut().set_power_cut(Some(cut));
            let done = change(&mut cut_device, &mut cx.clone(), step.op, version).is_ok();
            let mut flash = cut_device.into_flash();
            flash.set_power_cut(None);
            flash.power_on();
            let mut cx = Cx::new();
            let mut again = Ubi::attach(flash, &mut cx, &Config::linux(Policy::LINUX_6_7)).unwrap();
            let Op::Change { lnum: changed, .. } = step.op else { panic!("{step:?}") };
            for lnum in (0..4).map(Lnum) {
                let mut found = contents(0);
                again.volume(vol_id).unwrap().read(&mut cx, lnum, 0, &mut found).unwrap();
                let old = found == contents(before[lnum.at()]);
                let new = lnum == changed && found == contents(version);
                if !(old && !done || new || old && lnum != changed) {
                    return false;
                }
            }
            if done {
                break;
            }
        }
        let changed = change(&mut device, &mut cx, step.op, version).unwrap();
        versions[changed.at()] = version;
    }
    true
}

#[test]
fn a_change_keeps_the_old_contents_until_the_new_ones_are_whole() {
    assert!(keeps_old_contents_until_new_ones_are_whole(KnownBad::default()));
    let erased_first = KnownBad { erase_before_change: true, ..KnownBad::default() };
    assert!(!keeps_old_contents_until_new_ones_are_whole(erased_first), "the check does not notice");
}

/// The log fills its 95 LEBs once in half a day, and erases each before it writes it again.
#[test]
fn late_erasures_a_day_are_those_of_the_second_half() {
    let rate = 2 * 95 * 126_976;
    let found = run(&format!(
        "{SMALL}days = 1\n[workload.volume.logs]\npattern = 'append'\nsize_bytes = {}\nrate_bytes = {rate}\nper = 'day'\n",
        95 * 126_976
    ));
    let mean = value(&found, "late.mean_erases_per_day");
    // 95 erasures of 128 PEBs in half a day, or a little more: the last point before the half is at a third of the 190 LEBs.
    let (least, in_half_a_day) = (95.0 / 128.0 / 0.68, 95.0 / 128.0 / 0.5);
    assert!((least..=in_half_a_day).contains(&mean), "{mean}, expected {least} to {in_half_a_day}");
}

#[test]
fn the_mean_that_ends_a_run_is_that_of_the_pebs_outside_the_first_64() {
    let found = run(&format!("{SMALL}mean_erases_of_others = 12\n{LOGS}"));
    assert_eq!(found.measured.stopped_by, "mean_erases_of_others");
    let others: u32 = found.measured.erase_counts[64..].iter().sum();
    // It is looked at after each 64th write, in which three LEBs are erased.
    assert!((12 * 64..12 * 64 + 8).contains(&others), "{others} erasures of 64 PEBs");
}

/// An update takes all its time for the LEBs that it writes: its begin and its end write none.
#[test]
fn the_latency_of_an_update_has_what_comes_before_and_after_its_lebs() {
    let text = format!("{SMALL}host_bytes = 5_000_000\n{IMAGE}").replace("pebs = 128", "pebs = 128\ndelays = 'on'");
    let found = resolve(&text).unwrap().with_flame().run(None, &mut |_| ()).unwrap();
    let graph = found.measured.flame.as_ref().unwrap();
    let writer = graph.threads.iter().find(|thread| thread.name == "writer").unwrap().total_ns();
    let all = value(&found, "leb_write.count") * value(&found, "leb_write.mean_us") * 1e3;
    assert_eq!(value(&found, "leb_write.count"), 40.0, "five updates of eight LEBs");
    // The histogram has three digits. The last update is cut off when its bytes are written.
    assert!((all / writer as f64 - 1.0).abs() < 0.01, "{all} of {writer} ns");
}

#[test]
fn latencies_of_writes_are_metrics_by_their_names() {
    let text = format!("{SMALL}days = 1\n{LOGS}{DB}{IMAGE}").replace("pebs = 128", "pebs = 128\ndelays = 'on'");
    let found = run(&text);
    let [latency] = &found.flash().unwrap().latency[..] else { panic!("one kind of operation") };
    let all = [
        ("p50", latency.p50_ns),
        ("p90", latency.p90_ns),
        ("p99", latency.p99_ns),
        ("p999", latency.p999_ns),
        ("max", latency.max_ns),
    ];
    for (stat, ns) in all {
        assert_eq!(value(&found, &format!("leb_write.{stat}_us")), ns as f64 / 1e3, "{stat}");
    }
    assert!(all.is_sorted_by(|a, b| a.1 <= b.1) && latency.p90_ns < latency.p999_ns, "{all:?}");
}

/// Twelve months are a year of 365.25 days.
#[test]
fn a_month_is_a_twelfth_of_a_year() {
    let per = |word: &str| {
        let log = format!("{LOGS}per = '{word}'\n");
        let prepared = resolve(&format!("{SMALL}days = 1\n{log}")).unwrap();
        let runner::subject::Subject::Flash(raw) = &prepared.subject else { panic!("raw flash") };
        let Pattern::Append { rate, .. } = raw.volumes[0].pattern else { panic!("a log") };
        rate.per
    };
    let day = 86_400_000_000_000;
    assert_eq!((per("day"), per("week")), (Ns(day), Ns(7 * day)));
    assert_eq!((per("year"), per("month")), (Ns(365 * day + day / 4), Ns((365 * day + day / 4) / 12)));
}
