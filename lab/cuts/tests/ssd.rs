//! Power cuts of drives, enumerated; and the enumeration itself, tested with known-bad twins.

use cuts::{Enumeration, KNOWN_BAD_SSD, Outcome, Plan, Selection};
use runner::schema::word;
use toml::{Table, Value};

/// A small drive with much activity; the test files extend it.
const SMALL: &str = "title = 't'
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 16
pages = 8
page_kib = 1.0
over_provisioning_percent = 50.0
[ssd.ftl]
wear = 'static'
wear_threshold = 4
wear_every = 8
log_blocks = 3
map_cache_kib = 1
[ssd.cache]
policy = 'lru'
pages = 12
[ssd.front]
protocol = 'sata'
depth = 8
write_cache = true
[cuts]
operations = 600
";

fn over_small(text: &str) -> String {
    fn put(base: &mut Table, over: Table) {
        for (key, value) in over {
            match (base.get_mut(&key), value) {
                (Some(Value::Table(base)), Value::Table(over)) => put(base, over),
                (_, value) => drop(base.insert(key, value)),
            }
        }
    }
    let mut whole: Table = SMALL.parse().unwrap();
    put(&mut whole, text.parse().unwrap_or_else(|error| panic!("{error}:\n{text}")));
    whole.to_string()
}

fn resolve(text: &str) -> Result<Plan, String> {
    Plan::resolve(&over_small(text), &[]).map_err(|error| error.to_string())
}

fn run(text: &str, every: u64, jobs: usize) -> Outcome {
    let plan = resolve(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    let enumeration = Enumeration::prepare(plan).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    let list = enumeration.list(&Selection::Every(every)).expect("no times");
    enumeration.run(&list, jobs, &|_| {})
}

/// Two units of 16 blocks; with DFTL, more entries than the cache holds.
fn file(mapping: &str, buffer: &str, front: &str, requests: u32) -> String {
    let larger = if mapping == "dftl" { "blocks = 32\npage_kib = 0.5" } else { "" };
    format!(
        "seed = 1\n[ssd]\n{larger}\n[ssd.ftl]\nmapping = '{mapping}'\n[ssd.cache]\npolicy = '{buffer}'\n\
         [ssd.front]\n{front}\n[cuts]\noperations = {requests}\n"
    )
}

const SATA: &str = "protocol = 'sata'";
const NVME: &str = "protocol = 'nvme'\nqueue_weights = [1, 2]";

/// UFS with Host Performance Booster: small regions, few of which can be active, so they change often. In host control
/// mode a region is activated after a read or two.
fn ufs(version: &str, control: &str) -> String {
    format!(
        "protocol = 'ufs'\ndepth = 8\n[ssd.hpb]\nversion = '{version}'\ncontrol = '{control}'\nregion_kib = 4\nsubregion_kib = 2\n\
         max_active_regions = 12\nsingle_command_kib = 1\npre_requests = {}\nrecommend_after = 1\n\
         [ssd.hpb.params]\nactivation_thld = 1\neviction_thld_exit = 2\neviction_thld_enter = 3",
        version == "2.0"
    )
}

/// As many reads as writes.
fn ufs_file(mapping: &str, version: &str, control: &str, requests: u32) -> String {
    let mix = "[cuts.mix]\nread = 45\nwrite = 40\nfua = 5\ntrim = 5\nflush = 5\n";
    file(mapping, "fifo", &ufs(version, control), requests) + mix
}

/// Drives by version, control mode and mapping.
fn ufs_drives() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    ["page", "dftl"].into_iter().flat_map(|mapping| {
        ["1.0", "2.0"]
            .into_iter()
            .flat_map(move |version| ["device", "host"].map(|control| (mapping, version, control)))
    })
}

/// One unit with as few blocks as its layer allows; one more for block-level mapping.
fn tight(mapping: &str) -> &'static str {
    match mapping {
        "block" => "channels = 1\nblocks = 6\nover_provisioning_percent = 105",
        "page" => "channels = 1\nblocks = 6\nover_provisioning_percent = 56",
        _ => "channels = 1\nblocks = 6\nover_provisioning_percent = 100",
    }
}

fn tight_file(mapping: &str, requests: u32) -> String {
    format!(
        "seed = 1\n[ssd]\n{}\n[ssd.ftl]\nmapping = '{mapping}'\nhot_cold = false\nwear = 'none'\nlog_blocks = 2\n[ssd.cache]\npages = 4\n\
         [cuts]\noperations = {requests}\nmost_pages = 2\n",
        tight(mapping)
    )
}

fn known_bad(text: &str, mistake: &str) -> String {
    text.replace("[cuts]\n", &format!("[cuts]\nknown_bad = '{mistake}'\n"))
}

#[test]
fn every_promise_survives_every_cut_under_every_mapping() {
    let mut cuts = 0;
    for mapping in ["page", "dftl", "bast", "fast", "block"] {
        for (buffer, front) in [("lru", SATA), ("bplru", NVME), ("fifo", NVME), ("none", SATA)] {
            // 11 has no factor in common with the number of tears.
            let outcome = run(&file(mapping, buffer, front, 500), 11, 2);
            assert_eq!(outcome.failures.first(), None, "{mapping}, buffer {buffer}, {front}");
            cuts += outcome.cuts;
        }
    }
    assert!(cuts > 2000, "{cuts} cuts prove little");
}

#[test]
fn every_promise_survives_every_cut_of_the_tightest_drives() {
    for mapping in ["page", "bast", "fast", "block"] {
        let outcome = run(&tight_file(mapping, 400), 3, 2);
        assert_eq!(outcome.failures.first(), None, "{mapping}");
        assert!(outcome.cuts > 500, "{mapping}: {} cuts prove little", outcome.cuts);
    }
}

#[test]
fn checkpoints_survive_too() {
    for mapping in ["page", "dftl", "bast", "fast", "block"] {
        let larger = "[ssd]\nblocks = 24\n";
        let text = file(mapping, "lru", SATA, 500).replace("blocks = 32\n", "").replace("[ssd]\n", larger);
        let text = text.replace("[ssd.ftl]\n", "[ssd.ftl]\ncheckpoint_every = 40\n");
        let outcome = run(&text, 11, 2);
        assert_eq!(outcome.failures.first(), None, "{mapping}");
        assert!(outcome.cuts > 100, "{mapping}: {} cuts prove little", outcome.cuts);
    }
}

#[test]
fn planes_in_step_and_every_axis_survive_too() {
    for order in ["cwdp", "pcwd", "dwcp"] {
        let shape = format!(
            "ways = 2\ndies = 2\nplanes = 2\nblocks = 8\npages = 4\nmulti_plane = true\norder = '{order}'\nover_provisioning_percent = 120"
        );
        let text = file("page", "lru", SATA, 600).replace("[ssd]\n", &format!("[ssd]\n{shape}\n"));
        assert_eq!(run(&text, 13, 2).failures.first(), None, "{order}");
    }
}

/// After a cut neither side remembers active regions, and the device must reject an entry from before it.
#[test]
fn every_promise_survives_every_cut_of_a_drive_with_hpb() {
    let mut cuts = 0;
    for (mapping, version, control) in ufs_drives() {
        let outcome = run(&ufs_file(mapping, version, control, 800), 11, 2);
        assert_eq!(outcome.failures.first(), None, "{mapping}, HPB {version}, {control} control");
        assert!(outcome.cuts > 50, "{mapping}, HPB {version}, {control} control: {} cuts prove little", outcome.cuts);
        cuts += outcome.cuts;
    }
    assert!(cuts > 1000, "{cuts} cuts prove little");
}

/// So the drives above do read by entries, and some entries are stale.
#[test]
fn a_drive_that_believes_entries_is_caught_in_every_mode() {
    for (mapping, version, control) in ufs_drives() {
        let text = known_bad(&ufs_file(mapping, version, control, 800), "trust-entries");
        let outcome = run(&text, 11, 2);
        println!("{mapping}, HPB {version}, {control} control: {} of {} cuts", outcome.failed, outcome.cuts);
        assert!(outcome.failed > 0, "{mapping}, HPB {version}, {control} control: {} cuts", outcome.cuts);
    }
}

/// The first cut that finds each mistake is in `docs/format/cuts-json.md`.
#[test]
fn every_known_bad_twin_is_caught() {
    for (mistake, _) in KNOWN_BAD_SSD {
        let name = word(&mistake);
        let drive = match name.as_str() {
            // The mistake shows when the drive takes writes after two cuts.
            "copies-are-new-versions" => tight_file("page", 1000),
            // The mistake shows only while another flush is outstanding; SATA has one at a time.
            "flush-own-pages-only" => file("page", "lru", NVME, 1000),
            // A drive without HPB has no entries.
            "trust-entries" => ufs_file("dftl", "2.0", "device", 1000),
            _ => file("page", "lru", SATA, 1000),
        };
        // Few tears let a tag pass on torn contents, and few cuts hit an erasure.
        let every = if name.starts_with("trust-") { 1 } else { 11 };
        let outcome = run(&known_bad(&drive, &name), every, 2);
        println!(
            "{name}: {} of {} cuts, first {:?}",
            outcome.failed,
            outcome.cuts,
            outcome.failures.first().map(|f| (f.at, &f.broken[0]))
        );
        assert_eq!(outcome.failed > 0, name != "none", "{name}: {:#?}", outcome.failures.first());
    }
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let text = known_bad(&file("fast", "lru", SATA, 300), "restart-versions");
    let alone = run(&text, 7, 1);
    assert!(alone.failed > 0);
    assert_eq!(alone, run(&text, 7, 4));
}

#[test]
fn a_failure_can_be_run_again_by_its_number() {
    let text = known_bad(&file("page", "lru", SATA, 100), "flush-at-once");
    let first = run(&text, 1, 2).failures.swap_remove(0);
    let enumeration = Enumeration::prepare(resolve(&text).unwrap()).unwrap();
    let (story, again) = enumeration.tell(first.at, None).expect("a number that was run");
    assert_eq!(again.as_ref(), Some(&first));
    assert!(story.lines().iter().any(|line| line.starts_with(&format!("cut {}:", first.at))), "{story:?}");
    assert!(enumeration.tell(enumeration.cuts(), None).is_err());
}

#[test]
fn a_bad_file_is_refused_by_key() {
    let refused = |text: &str| resolve(text).unwrap_err();
    assert_eq!(refused("[cuts]\noperatons = 4"), "unknown key `cuts.operatons`; did you mean `cuts.operations`?");
    assert_eq!(refused("[ssd.ftl]\nmaping = 'page'"), "unknown key `ssd.ftl.maping`; did you mean `ssd.ftl.mapping`?");
    assert_eq!(
        refused("[ssd.ftl]\nmapping = 'paged'"),
        "key `ssd.ftl.mapping`: found `paged`, expected one of `page`, `dftl`, `bast`, `fast`, `block`; did you mean `page`?"
    );
    assert!(refused("[ssd]\nblocks = 4096").starts_with("key `ssd.blocks`: found `65536 pages in all`"));
    assert!(refused("[cuts]\nknown_bad = 'erase-before-change'").contains("a mistake of a drive"));
    assert!(refused("[cuts]\ndepth = 0").starts_with("key `cuts.depth`: found `0`"));
    assert!(refused("[cuts.mix]\ncrash = 1").starts_with("key `cuts.mix.crash`"));
    assert!(refused("[nand]\npebs = 20").starts_with("key `ssd`: found `it beside `nand``"));
}

/// Trimmed sectors may read as what they were, if the drive says so; what a drive forgets with its power is refused.
#[test]
fn every_promise_survives_whatever_trimmed_sectors_read_as() {
    for seed in 1..4 {
        for mapping in ["page", "fast"] {
            let text = format!(
                "seed = {seed}\n[ssd.ftl]\nmapping = '{mapping}'\n[ssd.front]\ntrimmed_reads = 'undefined'\n[cuts]\noperations = \
                 900\n[cuts.mix]\nwrite = 50\nread = 30\ntrim = 20\nflush = 5\n"
            );
            let found = run(&text, 7, 2);
            assert_eq!(found.failures.first(), None, "{text}");
            assert!(found.cuts > 300, "{} cuts prove little", found.cuts);
        }
    }
    let refused = resolve("[ssd.front]\ntrimmed_reads = 'deterministic'").unwrap_err();
    assert!(refused.starts_with("key `ssd.front.trimmed_reads`: found `deterministic`"), "{refused}");
}

/// A failed program or erase costs a block, and a cut while its data are moved costs nothing.
#[test]
fn every_promise_survives_on_flash_that_fails() {
    let mut moved = 0;
    for (seed, more) in [(1, ""), (2, "[ssd.cache]\npolicy = 'none'\n"), (3, "[ssd.ftl]\nmapping = 'dftl'\n")] {
        let text = format!(
            "seed = {seed}\n[ssd]\nblocks = 40\n{more}[faults]\nprogram_failure = 0.004\nerase_failure = 0.002\nbitflips = 4\n\
             ecc_bits = 8\n[cuts]\noperations = 900\n"
        );
        let enumeration = Enumeration::prepare(resolve(&text).expect("a good file")).expect("a drive");
        let all = enumeration.run(&enumeration.list(&Selection::Every(5)).expect("no times"), 2, &|_| {});
        // What is written again because its program failed.
        let recoveries = enumeration.list_of(&Selection::Every(1), sim::Cause::Recovery).expect("programs fail");
        let recoveries = enumeration.run(&recoveries, 2, &|_| {});
        assert_eq!((all.failures.first(), recoveries.failures.first()), (None, None), "{text}");
        assert!(all.cuts > 500, "{} cuts prove little", all.cuts);
        moved += recoveries.cuts;
    }
    assert!(moved > 30, "{moved} cuts met the recovery from a failed program");
}

/// Where contents may be lost, nothing is promised that could be checked.
/// One failure marks four eraseblocks bad. In fewer operations no erase fails.
#[test]
fn an_erase_that_fails_costs_one_block_of_four_planes() {
    let text = "seed = 1\n[ssd]\nblocks = 40\nplanes = 4\nmulti_plane = true\n[faults]\nerase_failure = 0.02\n[cuts]\noperations = 3000\n";
    let found = run(text, 5, 2);
    assert_eq!(found.failures.first(), None);
    assert!(found.cuts > 500, "{} cuts prove little", found.cuts);
}

#[test]
fn faults_that_lose_contents_are_refused() {
    for (faults, words) in [
        ("[ssd.ftl]\nmapping = 'fast'\n[faults]\nerase_failure = 0.1\n", "only page-level mapping goes on"),
        ("[faults]\nbitflips = 5\necc_bits = 4\n", "key `faults.bitflips`: found `5`, expected at most 4"),
        ("[faults]\ngravepages = '3'\n", "faults.gravepages"),
        ("[ssd]\nendurance = 1000\n[faults]\nbit_errors = true\necc_bits = 4\n", "faults.bit_errors"),
    ] {
        let error = resolve(faults).expect_err("it is refused");
        assert!(error.contains(words), "no `{words}` in {error}");
    }
}

/// A drive whose blocks have failed may stop taking writes: after a cut that is no broken promise, and in the workload it names
/// what to change.
#[test]
fn a_drive_without_spare_blocks_breaks_no_promise() {
    let text =
        "[ssd]\nblocks = 24\n[faults]\nprogram_failure = 0.01\nerase_failure = 0.01\n[cuts]\noperations = 4000\n";
    let outcome = run(text, 3, 2);
    assert!(outcome.cuts > 300, "{} cuts before there is no spare block", outcome.cuts);
    let [uncut] = &outcome.failures[..] else { panic!("{:#?}", outcome.failures) };
    let words = "without any cut: the drive has no spare block left after";
    assert!(uncut.broken[0].starts_with(words) && uncut.broken[0].contains("lower the rates of [faults]"), "{uncut:?}");
}
