//! JFFS2 on raw flash as the file system of an experiment: what programs wait for, and what a mount takes.

use nand::Bytes;
use runner::measure::Outcome;
use runner::run::Prepared;
use runner::schema::ExperimentError;

const NOR: &str = "title = 't'\n[nand]\npart = 'M29W400D'\nmedium = 'nor'\npebs = 16\ndelays = 'part'\n\
                   [fs]\nkind = 'jffs2'\ncpu = 'arm7-60'\n";
const NAND: &str = "title = 't'\n[nand]\npart = 'MT29F1G08ABAFA'\npebs = 64\ndelays = 'part'\n\
                    [fs]\nkind = 'jffs2'\nmount_again = true\n";

const ON_UBI: &str = "title = 't'\n[nand]\npart = 'MT29F1G08ABAFA'\npebs = 96\ndelays = 'part'\n[ubi]\nwl_threshold = 4\n\
                      [fs]\nkind = 'jffs2'\nmount_again = true\njffs2.on = 'ubi'\njffs2.compressors = []\nlebs = 24\n";

fn run(text: &str) -> Outcome {
    Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap()
}

fn of(found: &Outcome, id: &str) -> f64 {
    found.metrics().value(id).unwrap_or_else(|error| panic!("{id}: {error:?}"))
}

fn gc(found: &Outcome) -> &runner::measure::outcome::gc::GcOutcome {
    found.flash().unwrap().file_system.as_ref().unwrap().gc.as_ref().unwrap()
}

/// Small appends to a flash that is nearly full. Passes that programs do are what they wait for, beside those of the thread.
#[test]
fn waits_are_split_into_what_they_were_for() {
    let found = run(&format!("{NOR}[logger]\nstatic_files = 33\nstatic_bytes = 40000\nentries = 8000\nlogs = 2\n"));
    let parts = ["cpu", "bus", "program", "erase", "other"].map(|part| of(&found, &format!("fs.stall.{part}_s")));
    let all = of(&found, "fs.stall.all_s");
    assert!(all > 1.0 && (parts.iter().sum::<f64>() / all - 1.0).abs() < 1e-6, "{parts:?} of {all}");
    assert!(parts[..4].iter().all(|&part| part > 0.0), "{parts:?}");
    assert!(of(&found, "fs.gc.passes_by_writer") > 0.0);
    assert!(of(&found, "fs.stall.max_us") <= all * 1e6);
    let gc = gc(&found);
    assert!(gc.worst.is_sorted_by(|a, b| a.split.ns() >= b.split.ns()));
    // The moments have every wait, and the thread's passes.
    let waited: u64 = gc.moments.iter().map(|one| one.waited_ns).sum();
    assert_eq!(waited, gc.stalled.ns());
    let thread: u64 = gc.passes.iter().filter(|sum| sum.by == "thread").map(|sum| sum.split.ns()).sum();
    assert_eq!(gc.moments.iter().map(|one| one.thread_ns).sum::<u64>(), thread);
    assert!(gc.moments.iter().any(|one| one.dirty_bytes > 0 && one.free_bytes > 0));
    // A sector is erased in 0.8 s, and nothing else erases.
    let erases = of(&found, "wear.erases") - 16.0;
    let erased: u64 = gc.passes.iter().filter(|sum| sum.kind == "erase").map(|sum| sum.count).sum();
    assert!(erased as f64 <= erases, "{erased} passes, {erases} erasures");
}

#[test]
fn a_run_is_repeated_to_the_bit_and_read_back() {
    for text in [
        format!("{NAND}[fsstress]\noperations = 3000\nprocesses = 2\n"),
        format!("{NOR}[reboots]\nreboots = 8\n"),
        format!("{NOR}[postmark]\nnumber = 40\ntransactions = 200\n"),
    ] {
        let [one, other] = [(); 2].map(|()| run(&text));
        assert_eq!(one.fingerprint, other.fingerprint, "{text}");
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(
            Outcome::read(&json).unwrap().flash().unwrap().file_system,
            one.flash().unwrap().file_system,
            "{text}"
        );
    }
}

/// A summary is read in place of a block: by arithmetic a scan reads each page of the 64 blocks' headers or more without one.
#[test]
fn a_mount_has_its_parts_and_summaries_shorten_the_scan() {
    let load = "[fsstress]\noperations = 4000\n";
    let plain = run(&format!("{NAND}{load}"));
    let summed = run(&format!("{NAND}[fs.jffs2]\nsummary = true\n{load}"));
    for found in [&plain, &summed] {
        let parts = ["scan", "build"].map(|part| of(found, &format!("fs.mount.last.part.{part}_s")));
        assert!((parts.iter().sum::<f64>() - of(found, "fs.mount.last.s")).abs() < 1e-9, "a check is not waited for");
        assert!(of(found, "fs.mount.last.part.check_s") > 0.0);
        assert!(of(found, "fs.mount.first.s") > 0.0);
    }
    assert!(of(&summed, "jffs2.summaries") > 0.0 && of(&plain, "jffs2.summaries") == 0.0);
    assert!(of(&summed, "fs.mount.last.part.scan_s") < of(&plain, "fs.mount.last.part.scan_s"));
}

/// LEBs are the eraseblocks of JFFS2, each of which UBI erases when JFFS2 does.
#[test]
fn a_run_on_a_volume_has_the_figures_of_jffs2_and_of_ubi() {
    let text = format!("{ON_UBI}[fsstress]\noperations = 6000\nprocesses = 2\n");
    let (found, other) = (run(&text), run(&text));
    assert_eq!(found.fingerprint, other.fingerprint);
    let parts = ["attach", "scan"].map(|part| of(&found, &format!("fs.mount.last.part.{part}_s")));
    assert!(parts.iter().all(|&part| part > 0.0), "{parts:?}");
    let erased = of(&found, "jffs2.erased");
    assert!(erased > 100.0 && of(&found, "wear.erases") >= erased, "{erased}");
    let file_system = found.flash().unwrap().file_system.as_ref().unwrap();
    assert_eq!(file_system.lebs, 24);
    let written: u64 = file_system.volume_bytes.iter().map(|(_, bytes)| bytes).sum();
    // Whole pages, and nothing else reaches the volume.
    assert!(written.is_multiple_of(2048) && written > 20_000_000, "{written}");
    assert!(found.metrics().value("wl.moves").unwrap() > 0.0, "UBI levels wear beside it");
}

/// UBI moves what a failed program was to write: JFFS2 does not see it.
#[test]
fn failed_programs_are_those_of_ubi_on_a_volume_and_of_jffs2_on_a_flash() {
    let load = "[faults]\nprogram_failure = 0.002\n[fsstress]\noperations = 3000\nprocesses = 2\n";
    let bare = format!("{NAND}{load}").replace("mount_again = true", "jffs2.compressors = []");
    for (text, on_ubi) in [(format!("{ON_UBI}{load}"), true), (bare, false)] {
        let found = run(&text);
        let failures = of(&found, "faults.program_failures");
        assert!(failures > 3.0);
        assert_eq!(of(&found, "jffs2.failed_programs"), if on_ubi { 0.0 } else { failures });
        assert_eq!(of(&found, "jffs2.rescued") > 0.0, !on_ubi);
        assert_eq!(found.flash().unwrap().failure, None, "{text}");
        assert_eq!(found.measured.stopped_by, "workload");
    }
}

#[test]
fn ubifs_has_passes_and_a_mount_too() {
    let text = "title = 't'\n[nand]\npebs = 64\ndelays = 'on'\n[fs]\ncompression = 'none'\nmount_again = true\n\
                [fsstress]\noperations = 4000\n";
    let found = run(text);
    let [attach, mount] = ["attach", "mount"].map(|part| of(&found, &format!("fs.mount.last.part.{part}_s")));
    assert!(attach > 0.0 && mount > 0.0);
    let moved: u64 = gc(&found).passes.iter().map(|sum| sum.moved_bytes).sum();
    assert!(moved > 0, "the volume is small enough that LEBs are emptied");
    assert_eq!(moved as f64, of(&found, "fs.moved_bytes"));
    let without = run(&text.replace("mount_again = true\n", ""));
    assert!(without.metrics().value("fs.mount.last.s").is_err());
}

/// Power fails in each copy but the last: the first start has fresh files, and later ones find what the cuts left.
#[test]
fn a_device_survives_its_reboots() {
    let found = run(&format!(
        "{NOR}[fs.jffs2]\nvictim = 'paper'\npass_interval_ms = 0\nyields = false\n[reboots]\nreboots = 40\n"
    ));
    assert_eq!(of(&found, "reboots.count"), 40.0);
    for stage in ["boot", "init", "copy"] {
        let [first, mean, most] = ["first", "mean", "max"].map(|stat| of(&found, &format!("reboots.{stage}.{stat}_s")));
        assert!(first > 0.0 && mean > 0.0 && first <= most && mean <= most, "{stage}: {first}, {mean}, {most}");
    }
    assert!(of(&found, "jffs2.damaged") > 0.0, "cuts within a node leave a part of it");
}

/// By hand: at each of three starts five files of two pages are read, none of which a loss of power leaves in memory. Read twice
/// they are there.
#[test]
fn pages_are_read_once_after_each_start() {
    let text = |rest: &str| format!("{}{rest}", NOR.replace("pebs = 16", "pebs = 64"));
    let load = "[reboots]\nreboots = 3\nsystem_files = 5\nsystem_bytes = 8192\nread_files = 5\nstate_files = 0\n\
                copied_files = 1\ncopied_bytes = 4096\n";
    let found = run(&text(&format!("[fs.page_cache]\n{load}")));
    assert_eq!((of(&found, "cache.misses"), of(&found, "cache.hits")), (30.0, 0.0));
    assert!(run(&text(load)).metrics().value("cache.misses").is_err());
    let load = "[sysbench]\nfile_test_mode = 'seqrd'\nfile_num = 1\nfile_total_bytes = 65536\nfile_block_bytes = 16384\n\
                max_requests = 8\n";
    let found = run(&text(&format!("[fs.page_cache]\n{load}")));
    assert_eq!((of(&found, "cache.misses"), of(&found, "cache.hits")), (0.0, 32.0), "what was written is there");
    assert!(of(&found, "run.time_us") < of(&run(&text(load)), "run.time_us"));
}

/// Collected while nobody waits, nothing is left to wait for.
#[test]
fn collection_when_idle_leaves_less_to_wait_for() {
    let load =
        "[logger]\nstatic_files = 26\nstatic_bytes = 40000\nlogs = 2\nentries = 6000\nburst = 300\nevery_s = 60\n";
    let on_demand = run(&format!("{NOR}{load}"));
    let forced = run(&format!("{NOR}[fs.jffs2]\nidle_gc_s = 5\n{load}"));
    assert!(of(&forced, "fs.stall.count") < of(&on_demand, "fs.stall.count"));
    assert!(of(&forced, "wear.erases") > of(&on_demand, "wear.erases"), "what it costs");
}

#[test]
fn what_does_not_go_with_jffs2_is_refused_with_its_key() {
    let refused = |text: &str| match Prepared::resolve(text, &[]) {
        Err(ExperimentError::Value { key, .. }) => key,
        other => panic!("{text}: {other:?}"),
    };
    for (more, key) in [
        ("keep_bytes = false\n[logger]\n", "fs.keep_bytes"),
        ("journal_bytes = 1000000\n[logger]\n", "fs.journal_bytes"),
        ("compression = 'none'\n[logger]\n", "fs.compression"),
        ("expire_s = 5.0\n[logger]\n", "fs.expire_s"),
        ("[fs.page_cache]\ndirty_bytes = 65536\n[logger]\n", "fs.page_cache.dirty_bytes"),
        ("[fs.page_cache]\ndirty_background_bytes = 65536\n[logger]\n", "fs.page_cache.dirty_background_bytes"),
        ("[fs.jffs1]\n[logger]\n", "fs.jffs1"),
        ("[ubi]\n[logger]\n", "ubi"),
    ] {
        assert_eq!(refused(&format!("{NOR}{more}")), key);
    }
    assert_eq!(refused(&NOR.replace("pebs = 16", "pebs = 4")), "nand.pebs");
    // There is no key for out-of-band bytes, which are those of the page.
    assert_eq!(refused(&NOR.replace("pebs = 16", "pebs = 16\npage_bytes = 2048")), "nand.page_bytes");
    let of_two = NOR.replace("pebs = 16", "pebs = 16\npage_bytes = 2\nsubpage_bytes = 2");
    assert_eq!(refused(&format!("{of_two}[logger]\n")), "nand.page_bytes");
    assert_eq!(
        refused(&NOR.replace("pebs = 16", "pebs = 16\npage_bytes = 2\nsubpage_bytes = 1")),
        "nand.subpage_bytes"
    );
    assert_eq!(refused(&format!("{NOR}lebs = 10\n[logger]\n")), "fs.lebs");
    for (more, key) in [
        ("[logger]\n[fs.jffs1]\n", "fs.jffs1"),
        ("lebs = 4\n[logger]\n", "fs.lebs"),
        ("lebs = 96\n[logger]\n", "fs.lebs"),
        ("[reboots]\n", "reboots"),
    ] {
        assert_eq!(refused(&ON_UBI.replace("lebs = 24\n", more)), key, "{more}");
    }
    assert_eq!(refused(&ON_UBI.replace("on = 'ubi'", "on = 'flash'").replace("lebs = 24\n", "")), "ubi");
    let nor =
        "medium = 'nor'\npebs = 64\npeb_bytes = 65536\npage_bytes = 2\nsubpage_bytes = 2\n[ubi]\nfastmap = false\n";
    assert_eq!(
        refused(&format!("title = 't'\n[nand]\n{nor}[fs]\nkind = 'jffs2'\n[fs.jffs2]\non = 'ubi'\n[logger]\n")),
        "nand.page_bytes"
    );
    let ubifs = "title = 't'\n[nand]\npebs = 9\n[fs]\n[logger]\n";
    assert_eq!(refused(ubifs), "nand.pebs");
    assert_eq!(
        refused("title = 't'\n[fs]\nkeep_bytes = false\nmount_again = true\ncompression = 'none'\n[logger]\n"),
        "fs.mount_again"
    );
}

/// Where data are not compressed, nobody makes them: the same comes out as with a flash that is kept, whose files have bytes.
#[test]
fn what_files_hold_is_of_no_consequence_without_compression() {
    let load = "[fsstress]\noperations = 4000\nprocesses = 2\n";
    for (text, are_kept) in [
        (format!("{NAND}jffs2.compressors = []\n{load}"), false),
        (format!("{NAND}jffs2.compressors = []\n[fs.page_cache]\n{load}").replace("mount_again = true", ""), false),
        (format!("{NOR}jffs2.compressors = []\n{load}"), false),
        (format!("{NAND}jffs2.compressors = []\n[faults]\nprogram_failure = 0.0005\n{load}"), true),
        (format!("{NAND}{load}"), true),
        (format!("{ON_UBI}{load}"), false),
    ] {
        let prepared = Prepared::resolve(&text, &[]).unwrap();
        let runner::subject::Subject::Flash(flash) = &prepared.subject else { panic!("raw flash") };
        assert_eq!(flash.without_contents().is_none(), are_kept, "{text}");
        let (kept, _) = prepared.run_on(Bytes::new().into(), None, &mut |_| ()).unwrap();
        let bytes = |found: &Outcome| serde_json::to_string(found).unwrap();
        assert_eq!(bytes(&run(&text)), bytes(&kept), "{text}");
    }
}

/// Where the thread holds the lock until it has nothing to do, programs collect only what it leaves alone, and one waits for many
/// passes at once.
#[test]
fn a_thread_that_does_not_yield_leaves_less_for_programs_to_collect() {
    let load = "[logger]\nstatic_files = 33\nstatic_bytes = 40000\nentries = 8000\nlogs = 2\n";
    let [yields, holds] =
        ["true", "false"].map(|word| run(&format!("{NOR}[fs.jffs2]\npass_interval_ms = 0\nyields = {word}\n{load}")));
    assert!(of(&holds, "fs.gc.passes_by_writer") < of(&yields, "fs.gc.passes_by_writer"));
    assert!(of(&holds, "fs.stall.p50_us") > of(&yields, "fs.stall.p50_us"));
}

/// The processor's prices stand below those of the file.
#[test]
fn a_processor_by_name_gives_the_prices_that_the_file_does_not() {
    let load = "[logger]\nentries = 300\n";
    let slow = run(&format!("{NOR}{load}"));
    let fast = run(&format!("{}{load}", NOR.replace("arm7-60", "strongarm-200")));
    let same = run(&format!("{NOR}{load}").replace("cpu = 'arm7-60'", "cpu = 'arm7-60'\noperation_us = 100"));
    assert!(of(&fast, "run.time_us") < of(&slow, "run.time_us"));
    assert_eq!(of(&same, "run.time_us"), of(&slow, "run.time_us"), "operation_us is 100 there");
}

/// A device without files of its own has nothing to do between its mount and the copy.
#[test]
fn the_times_of_a_device_begin_where_the_stage_before_ended() {
    let load = "[reboots]\nreboots = 12\nsystem_files = 1\nsystem_bytes = 100\nread_files = 0\nstate_files = 0\ncopied_files = 2\n";
    let found = run(&format!("{NOR}{load}"));
    assert!(of(&found, "reboots.boot.max_s") > 0.01);
    assert_eq!((of(&found, "reboots.init.mean_s"), of(&found, "reboots.init.max_s")), (0.0, 0.0));
    let outcome = found.flash().unwrap().file_system.as_ref().unwrap().reboots.clone().unwrap();
    assert_eq!((outcome.count, outcome.each.len()), (12, 12));
    let mean = outcome.each.iter().map(|one| one.copy_ns as f64 / 1e9).sum::<f64>() / 12.0;
    assert!((of(&found, "reboots.copy.mean_s") / mean - 1.0).abs() < 1e-9, "{mean}");
}

/// Without compression all files take as long whatever is in them: what differs is where power fails.
#[test]
fn power_fails_elsewhere_with_another_seed() {
    let each = |seed: u32| {
        let found = run(&format!(
            "seed = {seed}\n{NOR}[fs.jffs2]\ncompressors = []\n[reboots]\nreboots = 20\nsystem_files = 3\nread_files = 3\ncopied_files = 3\n"
        ));
        found.flash().unwrap().file_system.as_ref().unwrap().reboots.clone().unwrap().each
    };
    let (one, other) = (each(1), each(2));
    assert_eq!(one[0].copy_ns, other[0].copy_ns, "before the first loss of power all is alike");
    assert_ne!(one, other);
}

/// What passes spent on work and waits is all their time.
#[test]
fn the_parts_of_passes_are_their_lengths() {
    for text in [
        format!("{NOR}[logger]\nstatic_files = 33\nstatic_bytes = 40000\nentries = 3000\nlogs = 2\n"),
        format!("{ON_UBI}[fsstress]\noperations = 6000\nprocesses = 2\n"),
        "title = 't'\n[nand]\npebs = 64\ndelays = 'on'\n[fs]\ncompression = 'none'\n[fsstress]\noperations = 4000\n"
            .to_owned(),
    ] {
        let found = run(&text);
        let gc = gc(&found);
        let split: u64 = gc.passes.iter().filter(|sum| sum.kind != "check").map(|sum| sum.split.ns()).sum();
        let lengths = gc.lengths.as_ref().unwrap();
        let all = lengths.mean_ns * lengths.count as f64;
        assert!(lengths.count > 10 && (split as f64 / all - 1.0).abs() < 0.002, "{split} of {all} ns");
    }
}

/// After a mount the thread checks what is on the flash, which collects nothing.
#[test]
fn a_check_is_no_pass_of_garbage_collection() {
    let found = run(&format!("{NOR}[reboots]\nreboots = 12\n"));
    let passes = |kinds: &[&str]| -> u64 {
        gc(&found).passes.iter().filter(|sum| kinds.contains(&sum.kind.as_str())).map(|sum| sum.count).sum()
    };
    assert!(passes(&["check"]) > 0, "{:?}", gc(&found).passes);
    assert_eq!(of(&found, "fs.gc.passes"), passes(&["move", "erase"]) as f64);
}

/// A byte of the flash crosses a bus of 16 bits in two cycles of the ARM7 at 60 MHz; one of 32 bits at 200 MHz is some half of that.
#[test]
fn a_processor_by_name_has_its_price_of_the_bus() {
    let price = |cpu: &str| {
        let text = format!("{}[logger]\nentries = 10\n", NOR.replace("arm7-60", cpu));
        Prepared::resolve(&text, &[]).unwrap().experiment.nand.unwrap().copy_ps_per_byte as f64
    };
    assert!((price("arm7-60") / (2.0 * 1e6 / 60.0) - 1.0).abs() < 0.02, "{}", price("arm7-60"));
    assert_eq!(price("strongarm-200"), price("arm7-60") / 2.0);
    assert_eq!(price("host"), 0.0);
}

/// The mount reads the volume; it does not matter how many PEBs the attach read before.
#[test]
fn a_mount_begins_when_the_attach_has_ended() {
    let part = |pebs: u32, part: &str| {
        let text = format!(
            "title = 't'\n[nand]\npebs = {pebs}\ndelays = 'on'\n[ubi]\nfastmap = false\n[fs]\ncompression = 'none'\n\
             mount_again = true\nlebs = 40\n[fsstress]\noperations = 500\n"
        );
        of(&run(&text), &format!("fs.mount.last.part.{part}_s"))
    };
    let [few, many] = [64, 512].map(|pebs| part(pebs, "attach"));
    assert!(many > 4.0 * few, "{few} and {many}");
    let [small, large] = [64, 512].map(|pebs| part(pebs, "mount"));
    assert!((large / small - 1.0).abs() < 0.05, "{small} and {large}");
}
