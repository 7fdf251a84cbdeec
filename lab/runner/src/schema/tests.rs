//! The reader refuses files that are wrong in every way.

use super::*;
use crate::run::Prepared;

const DRIVE: &str = "title = 't'\n[ssd]\nblocks = 64\n[workload]\nrequests = 10\n";
const VOLUMES: &str = "title = 't'\n[nand]\npebs = 128\n[stop]\ndays = 1\n[workload]\nkind = 'volumes'\n\
    [workload.volume.logs]\npattern = 'append'\nrate_bytes = 1000\n[workload.volume.root]\npattern = 'static'\nsize_bytes = 1000000\n";
const FLASH: &str = "title = 't'\n[nand]\npebs = 128\n[ubi]\nwl = 'linux-6.1'\n[stop]\nsteps = 10\n";

fn sets(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn refused(text: &str, pairs: &[(&str, &str)]) -> String {
    Prepared::resolve(text, &sets(pairs)).unwrap_err().to_string()
}

/// Every key of the schema is read into the structures, and every key that these write is in the schema.
#[test]
fn the_schema_has_the_keys_of_the_structures() {
    let volumes = |of: volumes::Volume| {
        Workload::Volumes(Volumes { volume: [("<name>".to_owned(), of)].into(), ..Default::default() })
    };
    let loads = [
        Workload::Fio(Default::default()),
        volumes(volumes::Volume::Append(Default::default())),
        volumes(volumes::Volume::Rewrite(Default::default())),
        volumes(volumes::Volume::Image(Default::default())),
        volumes(volumes::Volume::Static(Default::default())),
    ];
    fn walk(table: &Table, prefix: &str, into: &mut Vec<String>) {
        for (name, value) in table {
            match value {
                Value::Table(inner) => walk(inner, &format!("{prefix}{name}."), into),
                _ => into.push(format!("{prefix}{name}")),
            }
        }
    }
    let ssd = Ssd {
        over_provisioning_percent: Some(1.0),
        effective_over_provisioning_percent: Some(1.0),
        capacity_bytes: Some(1),
        ftl: drive::Ftl { gc_background_percent: Some(1.0), ..Default::default() },
        cache: drive::Cache { pages: Some(1), ..Default::default() },
        hpb: Some(Default::default()),
        write_booster: Some(Default::default()),
        ..Default::default()
    };
    let whole = Experiment {
        title: String::new(),
        question: String::new(),
        seed: 1,
        nand: Some(Nand { part: Some(String::new()), ..Default::default() }),
        ubi: Some(Ubi {
            vid_hdr_offset: Some(1),
            changes: flash::Changes {
                count_in_place_erases: Some(true),
                wait_for_free_pebs: Some(true),
                pools_use_beb_reserve: Some(true),
                wl_beyond_limit: Some(true),
                pass_over_unless_anchor: Some(true),
            },
            ..Default::default()
        }),
        ubiblock: Some(Default::default()),
        fs: Some(Fs {
            journal_bytes: Some(1),
            reserved_bytes: Some(0),
            orphan_lebs: Some(1),
            max_write_bytes: Some(8),
            page_cache: Some(fs::PageCache {
                dirty_background_bytes: Some(4096),
                dirty_bytes: Some(8192),
                ..Default::default()
            }),
            repeat: Some(Default::default()),
            jffs1: Some(Default::default()),
            jffs2: Some(jffs::Jffs2 { on: jffs::On::Ubi, idle_gc_s: Some(1.0), ..Default::default() }),
            cpu: Some(Cpu::Host),
            ..Default::default()
        }),
        fsstress: Some(Fsstress { seed: Some(1), ..Default::default() }),
        postmark: Some(Postmark { seed: Some(1), ..Default::default() }),
        sysbench: Some(Default::default()),
        strace: Some(Default::default()),
        fio: Some(Default::default()),
        fill: Some(Default::default()),
        logger: Some(Default::default()),
        reboots: Some(Default::default()),
        faults: Some(Faults {
            ecc_bits: Some(1),
            ecc_step_bytes: Some(512),
            rated_ecc_bits: Some(1),
            bitflip_threshold: Some(1),
            wear_out: Some(true),
            ..Default::default()
        }),
        ssd: Some(ssd),
        precondition: Some(Default::default()),
        workload: None,
        flow: vec![Default::default()],
        trace: Some(Trace { device: Some(1), ..Default::default() }),
        guest: Some(Default::default()),
        iozone: Some(Default::default()),
        apps: Some(Default::default()),
        stop: Stop { days: Some(1.0), years: Some(1.0), host_bytes: Some(1), ..Default::default() },
        record: Default::default(),
        cuts: Some(Cuts::default()),
        sweep: Some(Default::default()),
    };
    let mut found = Vec::new();
    for load in loads {
        let whole = Experiment { workload: Some(load), ..whole.clone() };
        walk(&whole.to_toml().parse().unwrap(), "", &mut found);
    }
    found.sort();
    found.dedup();
    let is_weight = |key: &str| key.starts_with("cuts.mix.") || key.starts_with("fsstress.weights.");
    let mut known: Vec<String> = keys().iter().filter(|key| !is_weight(key)).cloned().collect();
    known.sort();
    assert_eq!(found, known);
}

#[test]
fn a_short_experiment_resolves_and_reads_back_as_itself() {
    for text in [DRIVE, FLASH, VOLUMES] {
        let experiment = Experiment::resolve(text, &[]).unwrap();
        assert_eq!(Experiment::resolve(&experiment.to_toml(), &[]), Ok(experiment));
    }
}

#[test]
fn a_misspelt_key_names_the_nearest() {
    for (text, key, nearest) in [
        (FLASH, "nand.pebbs", "nand.pebs"),
        (DRIVE, "ssd.blcoks", "ssd.blocks"),
        (DRIVE, "ssd.timing.raed_us", "ssd.timing.read_us"),
        (DRIVE, "cuts.operatoins", "cuts.operations"),
        // Tables too.
        (FLASH, "fs.page_cach", "fs.page_cache"),
        (DRIVE, "ssd.timming", "ssd.timing"),
    ] {
        assert_eq!(refused(text, &[(key, "1")]), format!("unknown key `{key}`; did you mean `{nearest}`?"));
    }
    let text = FLASH.replace("pebs", "pebbs");
    assert_eq!(refused(&text, &[]), "unknown key `nand.pebbs`; did you mean `nand.pebs`?");
}

#[test]
fn a_key_of_an_earlier_version_names_what_there_is_instead() {
    for (text, instead) in [
        ("[near_full]\nfiles = 3\n", "unknown key `near_full`: it stood for a full UBIFS; "),
        ("[ubi]\npolicy = 'linux-6.1'\n", "unknown key `ubi.policy`: it is `ubi.wl`"),
        ("[ssd]\npreset = '970-evo'\n", "unknown key `ssd.preset`: it is `ssd.part`"),
    ] {
        let error = refused(&format!("title = 't'\n{text}"), &[]);
        assert!(error.starts_with(instead), "{error}");
    }
    assert!(refused(FLASH, &[("near_full.files", "3")]).contains("`[fsstress]`"));
    // Only whole names are meant.
    assert_eq!(check::formerly("device_a"), None);
    // None of them is a key again.
    assert!(check::FORMER.iter().all(|(key, _)| !keys().iter().any(|known| known.starts_with(key))));
}

#[test]
fn a_word_that_a_key_does_not_have_names_the_nearest() {
    let error = refused(DRIVE, &[("ssd.ftl.gc", "gredy")]);
    assert!(error.contains("one of `greedy`, ") && error.ends_with("; did you mean `greedy`?"), "{error}");
    let error = refused(DRIVE, &[("ssd.part", "sata-2007")]);
    assert!(error.contains("`sata-2008`"), "{error}");
}

#[test]
fn a_wrong_value_names_its_key() {
    for (text, key, value) in [
        (FLASH, "ubi.wl", "linux-9"),
        (FLASH, "nand.pebs", "3"),
        (FLASH, "nand.pebs", "many"),
        (FLASH, "nand.page_bytes", "1000"),
        (FLASH, "fs.writeback_s", "0"),
        (FLASH, "fs.writeback_s", "1e-300"),
        (FLASH, "record.pattern", "true"),
        (FLASH, "ubi", "linux-6.1"),
        (FLASH, "ubi.wl_threshold", "1"),
        (FLASH, "stop.requests", "1"),
        (DRIVE, "stop.steps", "1"),
        (DRIVE, "ssd.channels", "0"),
        (DRIVE, "ssd.channels", "-1"),
        (DRIVE, "ssd.channels", "99999999999"),
        (DRIVE, "ssd.multi_plane", "2"),
        (DRIVE, "ssd.order", "cwd"),
        (DRIVE, "ssd.order", "cwdd"),
        (DRIVE, "ssd.page_kib", "3"),
        (DRIVE, "ssd.page_kib", "nan"),
        (DRIVE, "ssd.over_provisioning_percent", "0.1"),
        (DRIVE, "ssd.store", "paper"),
        (DRIVE, "ssd.planes", "9"),
        (DRIVE, "ssd.timing.read_us", "[1.0, 2.0, 3.0, 4.0, 5.0]"),
        (DRIVE, "ssd.timing.read_us", "[-1.0]"),
        (DRIVE, "ssd.timing.program_us", "[1.0, 2.0]"),
        (DRIVE, "ssd.timing.bus", "sdr-9"),
        (DRIVE, "ssd.timing.bus", "0"),
        (DRIVE, "ssd.ftl.mapping", "magic"),
        (DRIVE, "ssd.ftl.gc", "lazy"),
        (DRIVE, "ssd.ftl.wear", "soft"),
        (DRIVE, "ssd.ftl.slc_percent", "95"),
        (DRIVE, "ssd.cache.policy", "arc"),
        (DRIVE, "ssd.front.protocol", "scsi"),
        (DRIVE, "ssd.front.depth", "0"),
        (DRIVE, "ssd.front.trimmed_reads", "ones"),
        (DRIVE, "precondition.kind", "half"),
        (DRIVE, "precondition.fraction", "1.5"),
        (DRIVE, "workload.rw", "append"),
        (DRIVE, "workload.block_bytes", "100"),
        (DRIVE, "stop.drive_writes", "-1"),
        (DRIVE, "stop.days", "1"),
        (DRIVE, "workload.kind", "volumes"),
        (FLASH, "stop.host_bytes", "0"),
        (VOLUMES, "stop.steps", "1"),
        (VOLUMES, "stop.days", "0"),
        (VOLUMES, "workload.rw", "write"),
        (VOLUMES, "workload.kind", "fio"),
        (VOLUMES, "workload.kind", "volume"),
        (VOLUMES, "workload.volume.logs.pattern", "static"),
        (VOLUMES, "workload.volume.logs.pattern", "apend"),
        (VOLUMES, "workload.volume.logs.rate_bytes", "0"),
        (VOLUMES, "workload.volume.logs.rate_bytes", "-1"),
        (VOLUMES, "workload.volume.logs.per", "fortnight"),
        (VOLUMES, "workload.volume.logs.write_bytes", "0"),
        (VOLUMES, "workload.volume.logs.write_bytes", "999999999"),
        (VOLUMES, "workload.volume.logs.every_days", "2"),
        (VOLUMES, "workload.volume.root.size_bytes", "0"),
        (VOLUMES, "workload.volume.root.size_bytes", "100000000"),
        (VOLUMES, "workload.volume.root.rate_bytes", "1"),
        (VOLUMES, "workload.volume.more.rate_bytes", "1"),
        (DRIVE, "record.points", "1"),
        (DRIVE, "record.points", "0"),
        (DRIVE, "ssd.cache.policy", "lru"),
        (DRIVE, "workload.block_bytes", "4q"),
        (DRIVE, "workload.block_bytes", "0.25k"),
        (DRIVE, "workload.block_bytes", "0.3k"),
        (DRIVE, "stop.virtual_s", "5M"),
        (DRIVE, "ssd.timing.read_us", "['40us', '2q']"),
    ] {
        let error = refused(text, &[(key, value)]);
        // A value that makes another form of its table, or is beside the one at fault, is named by that.
        let table = key.split('.').next().unwrap_or(key);
        let named = if text == VOLUMES || key.starts_with("workload") { table } else { key };
        assert!(error.starts_with(&format!("key `{named}")), "{key} = {value}: {error}");
    }
}

#[test]
fn a_file_is_of_one_subject() {
    assert!(refused("title = 't'\n", &[]).contains("a table `nand`"));
    assert!(refused(&format!("{FLASH}[workload]\n"), &[]).starts_with("key `workload.kind`"));
    assert!(refused("title = 't'\n[workload]\n", &[]).starts_with("key `ssd`"));
    assert!(refused("[ssd]\n", &[]).starts_with("key `title`"));
    assert!(refused("title = ", &[]).starts_with("not valid TOML"));
}

#[test]
fn a_run_on_raw_flash_needs_a_condition_that_ends_it() {
    let endless = format!("{FLASH}[fs]\n[fsstress]\nloops = 0\n");
    assert!(refused(&endless, &[("stop.steps", "0")]).starts_with("key `stop`: found `no condition`"));
    Prepared::resolve(FLASH, &sets(&[("stop.steps", "0")])).unwrap();
}

#[test]
fn a_pair_overrides_the_file_and_the_file_its_part() {
    let text = "title = 't'\n[ssd]\npart = 'sata-2008'\nways = 1\n";
    let ssd = Experiment::resolve(text, &sets(&[("ssd.blocks", "512")])).unwrap().ssd.unwrap();
    assert_eq!((ssd.channels, ssd.ways, ssd.blocks), (4, 1, 512));
}

#[test]
fn of_two_keys_that_say_the_same_the_upper_layer_counts() {
    let given = sets(&[("ssd.capacity_bytes", "100000000")]);
    let ssd = Experiment::resolve(DRIVE, &given).unwrap().ssd.unwrap();
    assert_eq!((ssd.capacity_bytes, ssd.over_provisioning_percent), (Some(100_000_000), None));
    let both = DRIVE.replace("blocks = 64", "blocks = 64\ncapacity_bytes = 1000000\nover_provisioning_percent = 20");
    assert!(refused(&both, &[]).contains("one of the two"));
    let both = format!("{DRIVE}[ssd.cache]\npages = 3\nmib = 1\n");
    assert!(refused(&both, &[]).starts_with("key `ssd.cache.pages`: found `it and mib`"));
}

#[test]
fn of_two_pairs_that_say_the_same_none_is_ignored() {
    let pairs = [("ssd.capacity_bytes", "100MB"), ("ssd.over_provisioning_percent", "20")];
    let error = refused(DRIVE, &pairs);
    assert!(error.starts_with("key `ssd.over_provisioning_percent`: found `it and ssd.capacity_bytes`"), "{error}");
}

/// A buffer of size 0 is none; a policy without any size is a mistake.
#[test]
fn a_policy_of_the_write_buffer_needs_a_size() {
    let policy = ("ssd.cache.policy", "lru");
    assert!(refused(DRIVE, &[policy]).contains("a size beside it"));
    for size in [("ssd.cache.mib", "0"), ("ssd.cache.mib", "1M"), ("ssd.cache.pages", "3")] {
        Prepared::resolve(DRIVE, &sets(&[policy, size])).unwrap();
    }
    let sized_by_part = [("ssd.part", "970-evo"), ("ssd.blocks", "256"), policy];
    Prepared::resolve(DRIVE, &sets(&sized_by_part)).unwrap();
}

/// A number in the unit of the key, and text in any unit, are the same experiment.
#[test]
fn text_with_a_unit_is_the_number_that_it_stands_for() {
    let text = "title = 't'\n[ssd]\ncapacity_bytes = '1GiB'\npage_kib = '4k'\n[ssd.timing]\nread_us = ['40us', 0.05]\nerase_us = '2ms'\n\
                [ssd.cache]\npolicy = 'lru'\nmib = '16M'\n[workload]\nblock_bytes = '64k'\nseconds = '1h'\n[stop]\nvirtual_s = '5y'\n";
    let numbers = "title = 't'\n[ssd]\ncapacity_bytes = 1_073_741_824\npage_kib = 4.0\n[ssd.timing]\nread_us = [40, 0.05]\nerase_us = 2000\n\
                   [ssd.cache]\npolicy = 'lru'\nmib = 16.0\n[workload]\nblock_bytes = 65536\nseconds = 3600\n[stop]\nvirtual_s = 157788000\n";
    assert_eq!(Experiment::resolve(text, &[]), Experiment::resolve(numbers, &[]));
    let pairs = sets(&[("workload.block_bytes", "64k"), ("stop.virtual_s", "5 y")]);
    let found = Experiment::resolve(DRIVE, &pairs).unwrap();
    assert_eq!((found.fio_job().block_bytes, found.stop.virtual_s), (65_536, 157_788_000.0));
    let error = refused(DRIVE, &[("workload.block_bytes", "4q")]);
    assert!(error.contains("found `4q`, expected an integer from 512") && error.contains("\"4k\""), "{error}");
    let error = refused(DRIVE, &[("workload.block_bytes", "0.3k")]);
    assert!(error.ends_with("a whole number of bytes"), "{error}");
    let error = refused(DRIVE, &[("workload.block_bytes", "0.25k")]);
    assert!(error.contains("found `0.25k, 256`"), "{error}");
}

#[test]
fn keys_of_a_load_that_another_replaces_are_errors() {
    let iozone = "title = 't'\n[ssd]\n[iozone]\nrecords = 8\nrange_bytes = '64M'\n";
    Prepared::resolve(iozone, &[]).unwrap();
    let error = refused(&format!("{iozone}[workload]\nrw = 'randread'\n"), &[]);
    assert!(error.starts_with("key `workload.rw`: found `it beside iozone`"), "{error}");
    let fio = "title = 't'\n[ssd]\n[workload]\nfio = '[a]\\nrw=read'\n".replace('\'', "\"");
    Prepared::resolve(&fio, &[]).unwrap();
    assert!(
        refused(&fio, &[("workload.depth", "3")]).starts_with("key `workload.depth`: found `it beside workload.fio`")
    );
    let trace = format!("{DRIVE}[trace]\nfile = 'a'\n");
    assert!(refused(&trace, &[]).starts_with("key `workload.requests`: found `it beside trace`"));
    // The command line replaces the load as a whole, and what it stores can be run again.
    for pair in [("trace.file", "a.csv"), ("workload.fio", "\"[a]\\nrw=read\""), ("guest.job", "true")] {
        for text in [DRIVE, iozone] {
            let prepared = Prepared::resolve(text, &sets(&[pair])).unwrap();
            Prepared::resolve(&prepared.experiment.to_toml(), &[]).unwrap();
        }
    }
    let replay = |pairs: &[(&str, &str)]| refused(DRIVE, &[&[("trace.file", "a.csv")], pairs].concat());
    assert!(replay(&[("trace.mode", "closed"), ("trace.speed", "2")]).starts_with("key `trace.speed`"));
    assert!(replay(&[("trace.depth", "2")]).starts_with("key `trace.depth`"));
}

/// The least over-provisioning and the fewest blocks that an error names work, and a little less does not.
#[test]
fn over_provisioning_that_is_too_small_names_the_least() {
    for mapping in ["page", "dftl", "fast", "block"] {
        let error = refused(DRIVE, &[("ssd.ftl.mapping", mapping), ("ssd.over_provisioning_percent", "0.1")]);
        assert!(error.starts_with("key `ssd.over_provisioning_percent`: found `0.1`, expected at least "), "{error}");
        let after = |what: &str| -> f64 {
            let rest = error.split(what).nth(1).unwrap_or_else(|| panic!("{error}"));
            rest.split([',', ' ']).next().unwrap().parse().unwrap_or_else(|_| panic!("{error}"))
        };
        let works = |key: &str, value: f64, percent: &str| {
            let pairs =
                [("ssd.ftl.mapping", mapping), ("ssd.over_provisioning_percent", percent), (key, &value.to_string())];
            Prepared::resolve(DRIVE, &sets(&pairs)).is_ok()
        };
        let works_at = |percent: f64| works("ssd.blocks", 64.0, &percent.to_string());
        let percent = after("expected at least ");
        assert!(works_at(percent) && !works_at(percent - 0.01), "{mapping}: {error}");
        let blocks = after("ssd.blocks of at least ");
        assert!(works("ssd.blocks", blocks, "0.1") && !works("ssd.blocks", blocks - 1.0, "0.1"), "{mapping}: {error}");
    }
    let error = refused(DRIVE, &[("ssd.capacity_bytes", "4294967296")]);
    assert!(error.starts_with("key `ssd.capacity_bytes`: found `4294967296`"), "{error}");
}

#[test]
fn a_version_may_be_written_as_a_number() {
    let text = "title = 't'\n[ssd.front]\nprotocol = 'ufs'\ndepth = 32\n[ssd.hpb]\nversion = 2.0\n";
    for sets in [vec![], sets(&[("ssd.hpb.version", "2.0")])] {
        let hpb = Experiment::resolve(text, &sets).unwrap().ssd.unwrap().hpb.unwrap();
        assert_eq!(hpb.version, drive::HpbVersion::V2);
    }
}

#[test]
fn the_smallest_drive_is_one_die_of_four_blocks() {
    let smallest = [
        ("ssd.channels", "1"),
        ("ssd.ways", "1"),
        ("ssd.planes", "1"),
        ("ssd.blocks", "4"),
        ("ssd.pages", "4"),
        ("ssd.ftl.gc_low", "1"),
        ("ssd.ftl.hot_cold", "false"),
        ("ssd.over_provisioning_percent", "100"),
    ];
    Prepared::resolve(DRIVE, &sets(&smallest)).unwrap();
    let mut smaller = smallest;
    smaller[3].1 = "3";
    let error = refused(DRIVE, &smaller);
    assert!(error.contains("at least 4"), "{error}");
    let mut fuller = smallest;
    fuller[7].1 = "0";
    let error = refused(DRIVE, &fuller);
    assert!(error.contains("logical pages of a unit"), "{error}");
}
