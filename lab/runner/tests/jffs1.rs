//! JFFS on raw flash as the load of an experiment.

use runner::measure::Outcome;
use runner::run::Prepared;
use runner::schema::ExperimentError;

const FLASH: &str = "title = 't'\n[nand]\npart = 'M29W400D'\nmedium = 'nor'\npebs = 16\ndelays = 'part'\ncopy_ps_per_byte = 0\n\
                     erase_ns = 0\n[fs]\nkind = 'jffs1'\nnode_ns = 1000\nnode_ps_per_byte = 1000\ncopy_ps_per_byte = 2000\n\
                     [fs.jffs1]\nmin_free_sectors = 2\nmount_gc = 'full'\n";

fn run(load: &str) -> Outcome {
    Prepared::resolve(&format!("{FLASH}{load}"), &[]).unwrap().run(None, &mut |_| ()).unwrap()
}

fn of(found: &Outcome, id: &str) -> f64 {
    found.metrics().value(id).unwrap()
}

/// The flash is read five times to find bits that flip, four of them are compared, and then it is found to be erased:
/// 6 MiB are read and copied, 5 MiB compared. A byte takes 22.5 ns of the bus, 2 ns to copy and 1 ns to compare.
#[test]
fn a_mount_of_the_erased_flash_takes_what_its_bytes_take() {
    let found = run("[fill]\n");
    let bytes = f64::from(1 << 20);
    let expected = bytes * (6.0 * (22.5e-9 + 2e-9) + 5.0 * 1e-9);
    assert!((of(&found, "jffs.mount_empty_s") / expected - 1.0).abs() < 0.001, "{expected}");
    assert!(found.metrics().value("jffs.then.all_s").is_err(), "nothing follows");
    assert_eq!(of(&found, "wear.erases"), 0.0);
    // 50 files are made, and the last append finds no space. A block over the end of a page is two nodes: each file has one.
    let appends = of(&found, "run.steps") - 50.0 - 1.0;
    let nodes = of(&found, "jffs.nodes");
    assert!(nodes > appends && nodes <= appends + 50.0, "{nodes} nodes, {appends} appends");
}

#[test]
fn what_follows_is_measured_with_its_parts_and_passes() {
    for (then, passes) in [("mount", "mount"), ("delete-half", "nobody")] {
        let found = run(&format!("[fill]\nthen = '{then}'\n"));
        let parts = ["cpu", "bus", "program", "erase"].map(|part| of(&found, &format!("jffs.then.{part}_s")));
        assert!((parts.iter().sum::<f64>() / of(&found, "jffs.then.all_s") - 1.0).abs() < 1e-9, "{parts:?}");
        // 0.8 s for each of the 13 sectors that were not free.
        assert!((parts[3] / (0.8 * 13.0) - 1.0).abs() < 1e-9, "{}", parts[3]);
        assert!(of(&found, "jffs.then.nodes") < of(&found, "jffs.nodes") / 5.0);
        let jffs = found.flash().unwrap().jffs.as_ref().unwrap();
        let followed = jffs.then.as_ref().unwrap();
        assert!(followed.passes.iter().all(|pass| pass.waiting == passes && pass.work.erased > 0), "{then}");
        let erased: u64 = followed.passes.iter().map(|pass| pass.work.erased).sum();
        assert_eq!((erased, followed.work.erased), (13, 13));
        if then == "mount" {
            let parts: u64 = followed.parts.iter().map(|(_, work)| work.ns()).sum();
            assert_eq!(parts, followed.work.ns());
        }
    }
}

/// 1,000 entries of 40 bytes. Each is a node of 60 bytes, the name, which is `log.0`, and its data; eight of them go over the end of
/// a page of 4,096 bytes, and are two nodes. One node makes the file. Nothing is collected.
#[test]
fn an_append_takes_the_bytes_of_its_node() {
    let found = run("[logger]\nlog_bytes = 0\nleast_bytes = 40\nmost_bytes = 40\nentries = 1000\n");
    let expected = 1000.0 * (60.0 + 5.0 + 40.0) + 8.0 * (60.0 + 5.0) + (60.0 + 5.0);
    assert_eq!((of(&found, "waf.by.host") * 40_000.0).round(), expected);
    assert_eq!((of(&found, "wear.erases"), of(&found, "fs.gc.passes")), (0.0, 0.0));
    assert!(found.metrics().value("fs.stall.all_s").unwrap_or(0.0) == 0.0);
}

/// A flash that is nearly full, under a logger: programs wait for what they and the thread collect.
#[test]
fn programs_wait_for_garbage_collection_as_on_jffs2() {
    let load = "[logger]\nstatic_files = 14\nstatic_bytes = 40000\nentries = 6000\nlogs = 2\nlog_bytes = 4096\n";
    let text = format!("{FLASH}{load}").replace("kind = 'jffs1'", "kind = 'jffs1'\nmount_again = true");
    let [found, other] = [(); 2].map(|()| Prepared::resolve(&text, &[]).unwrap().run(None, &mut |_| ()).unwrap());
    assert_eq!(found.fingerprint, other.fingerprint);
    let file_system = found.flash().unwrap().file_system.as_ref().unwrap();
    assert_eq!((file_system.kind.as_str(), file_system.load.as_str(), file_system.jffs2), ("jffs1", "logger", None));
    let gc = file_system.gc.as_ref().unwrap();
    let erases = gc.passes.iter().filter(|sum| sum.kind == "erase");
    // A sector is erased in 0.8 s, at the least one in a pass.
    let (passes, ns) = erases.fold((0, 0), |(passes, ns), sum| (passes + sum.count, ns + sum.split.erase_ns));
    assert!(passes > 20 && ns >= 800_000_000 * passes && ns.is_multiple_of(800_000_000), "{passes} {ns}");
    assert!(gc.passes.iter().any(|sum| sum.kind == "move" && sum.moved_bytes > 0));
    let waited: u64 = gc.moments.iter().map(|one| one.waited_ns).sum();
    assert!(waited == gc.stalled.ns() && waited > 1_000_000_000, "{waited}");
    let mount = file_system.mounts.iter().find(|mount| mount.name == "last").unwrap();
    assert_eq!(
        mount.parts.iter().map(|(part, _)| part.as_str()).collect::<Vec<_>>()[..4],
        ["reread", "scan", "build", "collect"]
    );
    // The mount goes once round the log, and moves every node.
    assert!(mount.parts[3].1 > mount.parts[2].1, "{mount:?}");
}

#[test]
fn jffs_survives_a_device_that_loses_power_again_and_again() {
    let found = run(
        "[reboots]\nreboots = 12\nsystem_files = 4\nsystem_bytes = 30000\ncopied_files = 3\ncopied_bytes = 30000\n",
    );
    assert_eq!(of(&found, "reboots.count"), 12.0);
    assert_eq!(found.measured.stopped_by, "workload");
}

#[test]
fn a_run_is_repeated_to_the_bit_and_read_back() {
    let [one, other] = [(); 2].map(|()| run("[fill]\nthen = 'delete-half'\n"));
    assert_eq!(one.fingerprint, other.fingerprint);
    let text = serde_json::to_string(&one).unwrap();
    assert_eq!(Outcome::read(&text).unwrap().flash().unwrap().jffs, one.flash().unwrap().jffs);
}

#[test]
fn what_does_not_go_with_jffs_is_refused_with_its_key() {
    let refused = |text: &str| match Prepared::resolve(text, &[]) {
        Err(ExperimentError::Value { key, .. }) => key,
        other => panic!("{text}: {other:?}"),
    };
    for (more, key) in [
        ("[fill]\n[fsstress]\n", "fill"),
        ("[logger]\n[fs.page_cache]\n", "fs.page_cache"),
        ("[logger]\n[fs.jffs2]\n", "fs.jffs2"),
        ("[ubi]\n", "ubi"),
        ("[faults]\n", "faults"),
        ("[stop]\nmax_erases = 3\n", "stop"),
        ("[fill]\nleast_bytes = 101\n", "fill.least_bytes"),
    ] {
        assert_eq!(refused(&format!("{FLASH}{more}")), key);
    }
    for (more, key) in
        [("lebs = 8", "fs.lebs"), ("keep_bytes = false", "fs.keep_bytes"), ("orphan_lebs = 2", "fs.orphan_lebs")]
    {
        let of_fs = FLASH.replace("[fs.jffs1]", &format!("{more}\n[fs.jffs1]"));
        assert_eq!(refused(&format!("{of_fs}[fill]\n")), key);
    }
    assert_eq!(refused(&FLASH.replace("min_free_sectors = 2", "min_free_sectors = 16")), "fs.jffs1.min_free_sectors");
    assert_eq!(refused("title = 't'\n[fs]\nkind = 'jffs1'\n"), "nand.medium");
    let of_two = FLASH.replace("pebs = 16", "pebs = 16\npage_bytes = 2\nsubpage_bytes = 2");
    assert_eq!(refused(&format!("{of_two}[fill]\n")), "nand.page_bytes");
    assert_eq!(refused("title = 't'\n[fs]\n[fill]\n"), "fill");
}

/// Blocks of drawn lengths fill the flash.
#[test]
fn another_seed_fills_the_flash_otherwise() {
    let lengths = |seed: u32| {
        let text = format!("seed = {seed}\n{FLASH}[fill]\n");
        let found = Prepared::resolve(&text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
        ["run.steps", "jffs.data_bytes", "jffs.nodes"].map(|id| of(&found, id))
    };
    assert_ne!(lengths(1), lengths(2));
}

/// What follows the deletion is collection alone: its passes have all of it.
#[test]
fn what_came_before_is_no_part_of_what_followed() {
    let found = run("[fill]\nthen = 'delete-half'\n");
    let followed = found.flash().unwrap().jffs.as_ref().unwrap().then.clone().unwrap();
    let passes: u64 = followed.passes.iter().map(|pass| pass.ns).sum();
    assert!((passes as f64 / followed.work.ns() as f64 - 1.0).abs() < 0.001, "{passes} of {}", followed.work.ns());
    let longest = followed.passes.iter().map(|pass| pass.ns).max().unwrap();
    assert_eq!(of(&found, "jffs.then.longest_pass_s"), longest as f64 / 1e9);
    assert!(followed.passes.last().unwrap().ns < longest, "the last is not the longest");
}
