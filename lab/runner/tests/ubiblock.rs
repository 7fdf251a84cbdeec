//! Runs on a ubiblock: every load of a drive, figures by hand, and what makes no sense there.

use nand::{Array, Bytes, Store};
use runner::measure::{Detail, Outcome};
use runner::run::Prepared;
use sim::seam::{BlockRequest, LebVolume};
use sim::{Cx, Ns};
use ubi::Ubi;

/// 48 PEBs of 16 pages, LEBs of 14 pages of 512 bytes; a volume of 20 LEBs.
const FLASH: &str = "title = 't'\n[nand]\npebs = 48\npeb_bytes = 8192\npage_bytes = 512\ndelays = 'on'\n";
const LEB: u64 = 14 * 512;
const SIZE: &str = "size_bytes = 143360\n";

fn text(device: &str, more: &str) -> String {
    format!("{FLASH}[ubiblock]\n{SIZE}{device}\n{more}")
}

fn prepared(device: &str, more: &str) -> Prepared {
    Prepared::resolve(&text(device, more), &[]).unwrap()
}

fn run(device: &str, more: &str) -> Outcome {
    prepared(device, more).run(None, &mut |_| ()).unwrap()
}

fn of(outcome: &Outcome, id: &str) -> f64 {
    outcome.metrics().value(id).unwrap()
}

const FULL: &str = "[precondition]\nkind = 'sequential'\n";

#[test]
fn the_cost_of_writes_in_order_and_at_random_is_that_of_arithmetic() {
    // 20 LEBs in order, a page at a time: each is read once, and written back when the next one is written; the last one is
    // still dirty.
    let load = format!("{FULL}[workload]\nrw = 'write'\nblock_bytes = 512\nrequests = 280\ndepth = 1\n");
    let found = run("idle_s = 0", &load);
    let counts = ["loads", "write_hits", "write_backs.evicted", "write_backs", "dirty_lebs"];
    assert_eq!(counts.map(|id| of(&found, &format!("ubiblock.{id}"))), [20.0, 260.0, 19.0, 19.0, 1.0]);
    assert_eq!(of(&found, "programmed.host"), (19 * LEB) as f64);
    assert_eq!(of(&found, "waf.by.host"), (19 * LEB) as f64 / (280.0 * 512.0));
    // The last close writes the LEB: 14 pages of data and one of its header.
    let debt = found.drive().unwrap().debt;
    assert_eq!((debt.buffered_pages, debt.pages >= 15), (14, true), "{debt:?}");
    // Whole LEBs are not read, and each write but the last costs a LEB.
    let whole = run("idle_s = 0", "[workload]\nrw = 'write'\nblock_bytes = 7168\nrequests = 20\ndepth = 1\n");
    let counts = ["loads", "whole_lebs", "write_hits", "write_backs"];
    assert_eq!(counts.map(|id| of(&whole, &format!("ubiblock.{id}"))), [0.0, 20.0, 0.0, 19.0]);
    // A cache of all LEBs writes nothing back but what a flush asks for.
    let load =
        format!("{FULL}[workload]\nrw = 'randwrite'\nblock_bytes = 512\nrequests = 200\nflush_every = 50\ndepth = 1\n");
    let cached = run("cache_lebs = 20\nidle_s = 0", &load);
    assert_eq!(of(&cached, "ubiblock.write_backs"), of(&cached, "ubiblock.write_backs.flushed"));
    assert_eq!(of(&cached, "programmed.flush"), of(&cached, "ubiblock.write_backs") * LEB as f64);
    assert!(of(&cached, "ubiblock.loads") <= 20.0);
}

#[test]
fn a_run_counts_what_its_load_costs_and_not_the_format() {
    let read = run("", &format!("{FULL}[workload]\nrw = 'randread'\nblock_bytes = 512\nrequests = 100\ndepth = 1\n"));
    assert_eq!([of(&read, "wear.erases"), of(&read, "ubiblock.read_misses")], [0.0, 100.0]);
    assert!(read.measured.erase_counts.len() == 48 && read.metrics().value("waf").is_err());
    let found = read.drive().unwrap();
    assert!(matches!(read.measured.detail, Detail::Ubiblock(_)));
    assert_eq!((found.logical_bytes, found.raw_bytes, found.before.host_pages), (143_360, 48 * 8192, 280));
    // Without a write before, nothing is mapped, and a read touches no flash: it takes the driver's microsecond.
    let blank = run("", "[workload]\nrw = 'randread'\nblock_bytes = 512\nrequests = 100\ndepth = 1\n");
    assert_eq!((of(&blank, "read.mean_us"), of(&blank, "ubi.user_pebs")), (1.0, 0.0));
}

#[test]
fn parts_of_a_latency_are_those_of_the_driver() {
    let load = format!("{FULL}[workload]\nrw = 'randwrite'\nblock_bytes = 512\nrequests = 200\ndepth = 8\n");
    let names = |device: &str| -> Vec<String> {
        let found = run(device, &load);
        let op = found.drive().unwrap().op("write").unwrap().clone();
        let sum: f64 = op.time.iter().map(|(_, ns)| ns).sum();
        assert!((sum - op.mean_ns).abs() < 1.0, "{:?} of {}", op.time, op.mean_ns);
        op.time.into_iter().map(|(name, _)| name).collect()
    };
    // To unmap takes no time: the erasure comes in the background.
    for form in ["atomic", "unmap-first"] {
        assert_eq!(names(&format!("form = '{form}'")), ["queue", "driver", "load", "write back"]);
    }
}

#[test]
fn every_load_of_a_drive_runs_and_repeats() {
    let flows = "[[flow]]\nname = 'a'\nrw = 'randwrite'\nrequests = 60\nblock_bytes = 512\n[[flow]]\nname = 'b'\nrw = 'randread'\nrequests = 60\nblock_bytes = 512\n";
    let iozone = "[iozone]\nthreads = 2\nrecord_bytes = 4096\nrange_bytes = 131072\n";
    let apps =
        "[apps]\napps = 2\ngames = 0\ncycles = 1\napp_mib = 0.04\napp_random_reads = 4\napp_sequential_mib = 0.02\n";
    for load in [flows, iozone, apps, "[workload]\nrequests = 50\n"] {
        let (once, twice) = (run("", load), run("", load));
        assert_eq!(once.fingerprint, twice.fingerprint, "{load}");
        assert!(once.drive().unwrap().requests > 0, "{load}");
    }
    let found = run("", flows);
    assert_eq!(found.drive().unwrap().flows.len(), 2);
    assert_eq!(run("", iozone).drive().unwrap().phases.len(), 2);
    // A trace.
    let prepared = prepared("", "[trace]\nfile = 'x'\nmode = 'open'\n");
    let mut arrivals = (0..40u64).map(|i| (Ns(i * 1_000_000), BlockRequest::write(i * 6 % 270, 6), None).into());
    let found = prepared.run(Some(&mut arrivals), &mut |_| ()).unwrap();
    assert_eq!((found.drive().unwrap().requests, of(&found, "write.count")), (40, 40.0));
}

#[test]
fn a_store_with_bytes_ends_as_an_image_that_attaches_with_what_was_written() {
    let prepared = prepared("", "[workload]\nrw = 'write'\nblock_bytes = 512\nrequests = 30\ndepth = 1\n");
    let (found, store) = prepared.run_on(Bytes::new().into(), None, &mut |_| ()).unwrap();
    assert_eq!(of(&found, "ubiblock.dirty_lebs"), 1.0, "the last close is not counted");
    let config = match &prepared.subject {
        runner::subject::Subject::Ubiblock(device) => device.flash.clone(),
        other => panic!("{other:?}"),
    };
    let mut dump = vec![0; 48 * 8192];
    (0..).zip(dump.chunks_exact_mut(8192)).for_each(|(peb, block)| store.read(sim::Peb(peb), 0, block));
    let array = Array::load(config.array.clone(), &dump, false).unwrap();
    let mut ubi = Ubi::attach(array, &mut Cx::new(), &config.ubi).unwrap();
    let info = ubi.volume_infos().next().unwrap();
    assert_eq!((&info.record.name[..], info.record.reserved_pebs), (&b"block"[..], 20));
    let mut volume = ubi.volume(info.vol_id).unwrap();
    let mut leb = vec![1; LEB as usize];
    volume.read(&mut Cx::new(), sim::Lnum(2), 0, &mut leb).unwrap();
    // 30 pages: two LEBs and two pages of the third, where 0xFF follows.
    assert!(leb[..1024].iter().all(|&byte| byte == 0) && leb[1024..].iter().all(|&byte| byte == 0xff));
}

#[test]
fn conditions_of_a_drive_end_a_run() {
    let endless = format!("{FULL}[workload]\nblock_bytes = 512\ndepth = 1\n[stop]\n");
    for (stop, by) in [
        ("requests = 70", "requests"),
        ("drive_writes = 1", "drive_writes"),
        ("virtual_s = 0.5", "virtual_s"),
        ("days = 0.00001", "days"),
    ] {
        assert_eq!(run("", &format!("{endless}{stop}\n")).measured.stopped_by, by);
    }
    let worn = run("", &format!("{endless}max_erases = 40\n"));
    assert!(worn.measured.stopped_by == "max_erases" && of(&worn, "wear.all.max") >= 40.0);
}

#[test]
fn what_makes_no_sense_on_a_ubiblock_is_refused_by_its_key() {
    for (device, more, key, remedy) in [
        ("", "[ssd]\n", "ubiblock", "one of the two"),
        ("", "[workload]\nkind = 'volumes'\n", "workload.kind", "`fio`"),
        ("", "[precondition]\nkind = 'steady'\n", "precondition.kind", "sequential"),
        ("", "[precondition]\nkind = 'random'\n", "precondition.kind", "sequential"),
        ("cache_lebs = 21", "", "ubiblock.cache_lebs", "20 LEBs"),
        ("cache_lebs = 0", "", "ubiblock.cache_lebs", "1"),
        ("form = 'write-back'", "", "ubiblock.form", "atomic"),
        ("depth = 0", "", "ubiblock.depth", "1"),
        ("idle_s = -1", "", "ubiblock.idle_s", "0"),
        ("", "[stop]\nmean_erases_of_others = 5\n", "stop.mean_erases_of_others", "ubiblock"),
        ("", "[guest]\njob = 'true'\n[workload]\n", "guest", "alone"),
    ] {
        let error = Prepared::resolve(&text(device, more), &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("key `{key}`")) && error.contains(remedy), "{device}{more}: {error}");
    }
    let large = format!("{FLASH}[ubiblock]\nsize_bytes = 9999999\n");
    let error = Prepared::resolve(&large, &[]).unwrap_err().to_string();
    assert!(error.contains("`ubiblock.size_bytes`") && error.contains("LEBs are free"), "{error}");
    // A device that takes no writes says so.
    let written = prepared("form = 'read-only'", "").run(None, &mut |_| ()).unwrap_err().to_string();
    assert!(written.contains("read-only: it was opened for reading only"), "{written}");
    let read = run("form = 'read-only'", &format!("{FULL}[workload]\nrw = 'read'\nrequests = 9\nblock_bytes = 512\n"));
    assert_eq!(of(&read, "ubiblock.read_misses"), 9.0);
}

#[test]
fn all_free_lebs_are_the_device_unless_a_size_is_given() {
    let whole = format!("{FLASH}[ubiblock]\n[workload]\nrequests = 1\n");
    let bytes = Prepared::resolve(&whole, &[]).unwrap().subject.block().unwrap().bytes;
    assert!(bytes.is_multiple_of(LEB) && bytes > 20 * LEB, "{bytes}");
    let part = format!("{FLASH}[ubiblock]\nsize_bytes = {}\n", LEB + 1);
    assert_eq!(Prepared::resolve(&part, &[]).unwrap().subject.block().unwrap().bytes, 2 * LEB);
}

#[test]
fn faults_of_the_flash_are_counted_and_survived() {
    let faults = "[ubi]\nbeb_per_1024 = 300\n[faults]\nbadblocks = '3,7'\nprogram_failure = 0.0008\n";
    let found = run("", &format!("{faults}[workload]\nblock_bytes = 512\nrequests = 400\ndepth = 1\n"));
    let counted = found.measured.faults.as_ref().unwrap();
    assert!(counted.program_failures > 0 && counted.lost == 0, "{counted:?}");
}

#[test]
fn a_fraction_of_the_lebs_is_written_before_the_load() {
    for (fraction, lebs) in [("0.5", 10), ("1.0", 20), ("0.0", 0)] {
        let found = run(
            "",
            &format!("{FULL}fraction = {fraction}\n[workload]\nrw = 'read'\nblock_bytes = 512\nrequests = 9\n"),
        );
        assert_eq!(found.drive().unwrap().before.host_pages, lebs * 14, "{fraction}");
    }
}

/// A write of a whole LEB finds nothing in the buffer.
#[test]
fn whole_lebs_are_no_hits() {
    let whole = run("idle_s = 0", "[workload]\nrw = 'write'\nblock_bytes = 7168\nrequests = 20\ndepth = 1\n");
    assert_eq!(of(&whole, "ubiblock.write_hit_share"), 0.0);
    let pages =
        run("idle_s = 0", &format!("{FULL}[workload]\nrw = 'write'\nblock_bytes = 512\nrequests = 280\ndepth = 1\n"));
    assert_eq!(of(&pages, "ubiblock.write_hit_share"), 260.0 / 280.0);
}

/// Pages of 512 bytes: what the host wrote over time is what it wrote.
#[test]
fn pages_over_time_are_those_of_the_flash() {
    let found = run("", &format!("{FULL}[workload]\nrw = 'write'\nblock_bytes = 1024\nrequests = 300\ndepth = 1\n"));
    let points = &found.drive().unwrap().timeline;
    assert_eq!(points.iter().map(|point| point.host_pages).sum::<u64>(), 600);
    assert_eq!(points.iter().map(|point| point.bytes[1]).sum::<u64>(), 600 * 512);
}
