//! `nandlab run`, `study` and `report` as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HELLO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/hello.toml");

fn nandlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

#[test]
fn a_run_writes_every_file_that_is_promised() {
    let dir = fresh("run-files");
    let out = nandlab(&["run", HELLO, "--set", "stop.virtual_s=5", "--out", dir.to_str().unwrap()]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let mut files: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let promised = [
        "experiment.toml",
        "latency.csv",
        "latency.parquet",
        "report.html",
        "result.json",
        "timeline.csv",
        "timeline.parquet",
        "wear.csv",
        "wear.parquet",
    ];
    assert_eq!(files, promised);
    for parquet in files.iter().filter(|file| file.ends_with(".parquet")) {
        let bytes = std::fs::read(dir.join(parquet)).unwrap();
        assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]), "{parquet}");
    }
    let page = std::fs::read_to_string(dir.join("report.html")).unwrap();
    assert!(page.contains("\"schema\":\"nandlab-report/1\"") && !page.contains("/*NANDLAB_DATA*/"));
    let again = nandlab(&["run", dir.join("experiment.toml").to_str().unwrap(), "--json"]);
    let of = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["fingerprint"].clone();
    let result = std::fs::read_to_string(dir.join("result.json")).unwrap();
    assert_eq!(of(&text(&again.stdout)), of(&result), "the resolved experiment");
}

/// A small flash, on which the load collects garbage.
const UBIFS: &str = "title = 'ubifs'\n[nand]\npebs = 80\npeb_bytes = 65536\n[fs]\ncompression = 'none'\n\
    [fsstress]\nprocesses = 2\noperations = 1000\n";

/// Rows of a log of UBI's calls under an experiment, but the heading; and what the run says.
fn ubi_log(dir: &Path, text_of: &str, more: &[&str]) -> (Vec<Vec<String>>, serde_json::Value) {
    let (file, log) = (dir.join("x.toml"), dir.join("ubi.csv"));
    std::fs::write(&file, text_of).unwrap();
    let args =
        [&["run", file.to_str().unwrap(), "--ubi-log", log.to_str().unwrap(), "--json", "--force"], more].concat();
    let out = nandlab(&args);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let rows = std::fs::read_to_string(log).unwrap();
    let rows: Vec<Vec<String>> = rows.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
    assert_eq!(rows[0].join(","), "ns,process,call,volume,leb,peb,offset,bytes");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    (rows[1..].to_vec(), serde_json::from_slice(&out.stdout).unwrap())
}

/// Erasures of each PEB: those of the whole run are those before the load, which a load of one operation has too, and those of
/// the log. What of a LEB was written lies in it, page by page, until it is unmapped or changed.
#[test]
fn the_log_of_ubi_has_every_erasure_of_the_load_and_each_page_of_a_leb_once() {
    let dir = fresh("run-ubi-log");
    std::fs::create_dir_all(&dir).unwrap();
    let (first, before) = ubi_log(&dir, UBIFS, &["--set", "fsstress.operations=1"]);
    let (rows, after) = ubi_log(&dir, UBIFS, &[]);
    let erasures = |rows: &[Vec<String>], result: &serde_json::Value| {
        let mut counts: Vec<i64> =
            result["erase_counts"].as_array().unwrap().iter().map(|count| count.as_i64().unwrap()).collect();
        for row in rows.iter().filter(|row| row[2] == "erase") {
            counts[row[5].parse::<usize>().unwrap()] -= 1;
        }
        counts
    };
    assert_eq!(erasures(&rows, &after), erasures(&first, &before));
    assert!(rows.iter().filter(|row| row[2] == "erase").count() > 300);
    let mut ends = std::collections::BTreeMap::new();
    for row in &rows {
        let [leb, offset, bytes] = [4, 6, 7].map(|column| row[column].parse::<u32>().unwrap_or(u32::MAX));
        match row[2].as_str() {
            "map" | "unmap" => drop(ends.insert(leb, 0)),
            "change" => drop(ends.insert(leb, bytes)),
            "write" => {
                let end = ends.insert(leb, offset + bytes);
                assert!(end.is_none_or(|end| end == offset), "{row:?}, written up to {end:?}");
            }
            _ => {}
        }
    }
    let of = |process: &str, call: &str| rows.iter().filter(|row| row[1] == process && row[2] == call).count();
    assert!(of("fsstress", "write") > 1000 && of("fsstress", "unmap") > 100 && of("ubi_bgt0d", "erase") > 100);
    let flash = dir.join("f.bin");
    let (kept, _) = ubi_log(&dir, UBIFS, &["--flash", flash.to_str().unwrap()]);
    assert!(kept == rows && flash.exists(), "a log does not depend on where the bytes go");
}

/// What Linux 6.12 did on this flash, made by its first mount and filled by one process of its fsstress (`compr=none`, the same seed): each
/// request for a PEB found one to six LEBs of the main area unmapped, 3.58 on average. Without pages that are written back for their
/// space it was 4.99, and up to thirteen.
#[test]
fn a_full_ubifs_leaves_as_many_lebs_unmapped_as_linux() {
    let dir = fresh("run-ubi-log-unmapped");
    std::fs::create_dir_all(&dir).unwrap();
    let full = "title = 'full'\n[nand]\npebs = 256\npeb_bytes = 131072\npage_bytes = 2048\n[ubi]\nwl = 'linux-6.7'\n\
        [fs]\ncompression = 'none'\nmade_by = 'first-mount'\npage_cache = {}\n\
        [fsstress]\nprocesses = 1\noperations = 10000\nloops = 0\nseed = 1\n[stop]\nmax_erases = 60\n";
    let (rows, result) = ubi_log(&dir, full, &[]);
    // The super block, two master LEBs, four of the log, and two each of the LPT and for orphans come before the main area.
    let (first, mut mapped, mut found) = (11, [false; 256], Vec::new());
    for row in &rows {
        let Ok(leb) = row[4].parse::<usize>() else { continue };
        match row[2].as_str() {
            "map" | "write" | "change" => {
                if row[2] == "change" || !mapped[leb] {
                    found.push(mapped[first..245].iter().filter(|&&is_mapped| !is_mapped).count());
                }
                mapped[leb] = true;
            }
            "unmap" => mapped[leb] = false,
            _ => {}
        }
    }
    let full = &found[found.len() / 5..];
    let mean = full.iter().sum::<usize>() as f64 / full.len() as f64;
    assert!(full.len() > 4_000 && full.iter().all(|&lebs| lebs <= 6), "{:?}", full.iter().max());
    assert!((mean - 3.58).abs() < 0.25, "{mean}");
    let written = &result["file_system"]["page_cache"]["written"];
    let of_space = written.as_array().unwrap().iter().find(|pair| pair[0] == "space").unwrap();
    assert!(of_space[1].as_u64().unwrap() > 1_000, "{written}");
}

#[test]
fn the_log_of_ubi_has_the_moves_of_wear_levelling() {
    let dir = fresh("run-ubi-log-moves");
    std::fs::create_dir_all(&dir).unwrap();
    let volumes = "title = 'v'\n[nand]\npebs = 80\npeb_bytes = 65536\n[ubi]\nwl_threshold = 4\n[workload]\nkind = 'volumes'\n\
        [workload.volume.log]\npattern = 'rewrite'\nsize_bytes = 600000\nrate_bytes = 100000\nper = 'second'\n\
        [workload.volume.rest]\npattern = 'static'\nsize_bytes = 1900000\n[stop]\ndays = 0.005\n";
    let (rows, result) = ubi_log(&dir, volumes, &[]);
    let metric = |id: &str| {
        let metrics = result["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["id"] == id).and_then(|metric| metric["value"].as_f64()).unwrap()
    };
    let moves = rows.iter().filter(|row| row[1] == "ubi_bgt0d" && row[2] == "move").count() as f64;
    assert!(moves > 10.0);
    assert_eq!(moves, metric("wl.moves") + metric("wl.anchor_moves") + metric("ubi.scrubs"));
}

#[test]
fn a_log_of_ubi_where_there_is_none_is_refused() {
    let dir = fresh("run-ubi-log-refused");
    std::fs::create_dir_all(&dir).unwrap();
    for (name, text_of, why) in [
        ("bare.toml", UBIFS.replace("[fs]\ncompression = 'none'", "[fs]\nkind = 'jffs2'"), "a flash without UBI"),
        ("drive.toml", "title = 'd'\n[ssd]\n[workload]\nrw = 'write'\n[stop]\nrequests = 9\n".to_owned(), "on a drive"),
    ] {
        let (file, log) = (dir.join(name), dir.join("ubi.csv"));
        std::fs::write(&file, text_of).unwrap();
        let out = nandlab(&["run", file.to_str().unwrap(), "--ubi-log", log.to_str().unwrap()]);
        let error = text(&out.stderr);
        assert_eq!(
            (out.status.code(), error.contains(why), error.contains("help: leave --ubi-log out")),
            (Some(2), true, true),
            "{error}"
        );
        assert!(!log.exists());
    }
}

#[test]
fn the_kept_flash_of_a_file_system_is_an_image_without_errors() {
    let dir = fresh("run-ubifs");
    std::fs::create_dir_all(&dir).unwrap();
    let (file, flash) = (dir.join("ubifs.toml"), dir.join("flash.bin"));
    std::fs::write(&file, UBIFS).unwrap();
    let (file, flash) = (file.to_str().unwrap(), flash.to_str().unwrap());
    let kept = nandlab(&["run", file, "--flash", flash, "--json"]);
    assert!(kept.status.success(), "{}", text(&kept.stderr));
    let said = nandlab(&["run", file]);
    let found: serde_json::Value = serde_json::from_str(&text(&kept.stdout)).unwrap();
    assert!(text(&said.stdout).contains(found["fingerprint"].as_str().unwrap()), "the same result in memory");
    assert!(text(&said.stdout).contains("fsstress on ubifs"), "{}", text(&said.stdout));
    assert!(found["file_system"]["collected_lebs"].as_u64().unwrap() > 0, "{}", found["file_system"]);
    let check = nandlab(&["image", "check", flash]);
    assert!(check.status.success(), "{}{}", text(&check.stdout), text(&check.stderr));
    assert!(text(&check.stdout).contains("UBIFS in volume 0:"), "{}", text(&check.stdout));
    assert_eq!(text(&check.stdout).matches("0 errors, 0 warnings").count(), 2, "{}", text(&check.stdout));
    // The directories of both processes.
    let listed = text(&nandlab(&["image", "ls", flash, "/"]).stdout);
    assert!(listed.contains("p0") && listed.contains("p1"), "{listed}");
}

#[test]
fn bad_input_is_refused_with_the_place_and_a_remedy() {
    let dir = fresh("run-bad");
    std::fs::create_dir_all(&dir).unwrap();
    let bad = |name: &str, contents: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let hello = std::fs::read_to_string(HELLO).unwrap();
    let misspelt = bad("misspelt.toml", hello.replace("pebs", "pepbs").as_bytes());
    let broken = bad("broken.toml", b"title = \n");
    let binary = bad("binary.toml", &[0xff, 0xfe, 0, 1]);
    for (args, wanted) in [
        (vec!["run", "experiments/does-not-exist.toml"], "no such file"),
        (vec!["run", &misspelt], "did you mean `nand.pebs`?"),
        (vec!["run", &broken], "not valid TOML"),
        (vec!["run", &binary], "no text"),
        (vec!["run", HELLO, "--set", "nand.pebs"], "KEY=VALUE"),
        (
            vec!["run", HELLO, "--set", "nand.pebs=7"],
            "key `nand.pebs`: found `7`, expected at least 16 where UBI has the flash",
        ),
        (vec!["study", "fastmap-first-63"], "did you mean `fastmap-first-64`?"),
        (vec!["report", &binary], "no text"),
        (vec!["report", &misspelt], "no result of a run"),
    ] {
        let out = nandlab(&args);
        let error = text(&out.stderr);
        assert!(error.contains(wanted) && error.contains("help: "), "{args:?}: {error}");
        assert_eq!(out.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn results_that_cannot_be_written_are_an_error_of_the_machine() {
    let out = nandlab(&["run", HELLO, "--set", "stop.steps=100", "--out", "/proc/nandlab-no-such"]);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stderr));
}

#[test]
fn the_list_of_studies_names_them_all() {
    let listed = text(&nandlab(&["study", "list"]).stdout);
    for name in ["fastmap-data-peb", "fastmap-first-64", "fastmap-30-days"] {
        assert!(listed.contains(name), "{listed}");
    }
}

/// The text, the JSON document and the page count the claims that were not judged, and name run and command.
#[test]
fn a_study_that_lacks_a_log_is_judged_without_it_and_says_so() {
    let dir = fresh("run-missing-log");
    std::fs::create_dir_all(dir.join("mine")).unwrap();
    let file = "kind = 'guest'\nquestion = 'How much?'\n[base]\ntitle = 'x'\n\
        [base.ssd]\nblocks = 16\npages = 16\nover_provisioning_percent = 40\n\
        [[run]]\nid = 'load'\ntitle = 'load'\nset = { 'workload.requests' = 50, 'precondition.kind' = 'none' }\n\
        [[run]]\nid = 'LL-xfs'\ntitle = 'guest'\nset = { 'guest.job' = 'true' }\n\
        [[claim]]\nid = 'with'\nours = 'run.requests(load)'\nabove = 1\n\
        [[claim]]\nid = 'without'\nours = 'run.requests(LL-xfs)'\nabove = 1\n";
    std::fs::write(dir.join("mine/study.toml"), file).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.args(args).current_dir(&dir).env("NANDLAB_CACHE", dir.join("no-cache")).output().unwrap()
    };
    let remedy = "no log of LL-xfs; make it with `nandlab study ./mine --refresh --only LL-xfs`";

    let said = run(&["study", "./mine", "--out", "out"]);
    let words = text(&said.stdout);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    // Lines are wrapped.
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let count = format!("self-checks: 1 hold, 0 fail, 1 not judged 1 claim is not judged: {remedy}");
    assert!(words.contains(&count), "{words}");
    assert!(words.contains(&format!("not judged: {remedy}")), "{words}");

    let document: serde_json::Value = serde_json::from_slice(&run(&["study", "./mine", "--json"]).stdout).unwrap();
    let study = &document["studies"][0];
    let verdicts: Vec<_> = study["claims"].as_array().unwrap().iter().map(|claim| &claim["verdict"]).collect();
    assert_eq!(verdicts, ["hit", "not judged"]);
    assert_eq!(study["claims"][1]["ours"], serde_json::Value::Null);
    assert_eq!(study["claims"][1]["reason"], remedy);
    assert_eq!(study["missing_logs"][0]["run"], "LL-xfs");
    let page = std::fs::read_to_string(dir.join("out/report.html")).unwrap();
    assert!(page.contains("\"verdict\":\"not judged\"") && page.contains(remedy));

    let page = text(&run(&["study", "./mine", "--markdown"]).stdout);
    assert!(page.contains("\n| [mine](#mine) | - | - | - | 1 | 1, 0 | - |\n"), "{page}");
    assert!(page.ends_with("\nNot judged: the logs of LL-xfs are not in the tree. `nandlab study ./mine --refresh --only LL-xfs` makes one.\n"));
    assert_eq!(run(&["study", "./mine", "--markdown", "--quick"]).status.code(), Some(2));

    // A miss beside it is one.
    let file = file.replace("ours = 'run.requests(load)'\nabove = 1", "ours = 'run.requests(load)'\nabove = 50");
    std::fs::write(dir.join("mine/study.toml"), file).unwrap();
    assert_eq!(run(&["study", "./mine"]).status.code(), Some(1));
}

#[test]
fn a_run_that_replays_anothers_guest_is_not_refreshed_alone() {
    let said = nandlab(&["study", "hpb-app-start-guest", "--refresh", "--only", "none-on"]);
    let error = text(&said.stderr);
    assert_eq!(said.status.code(), Some(2), "{error}");
    assert!(
        error.contains("run `none-on` replays the guest of `none-off`") && error.contains("--only 'none-off'"),
        "{error}"
    );
}

#[test]
fn a_report_of_two_runs_holds_both() {
    let dir = fresh("run-report");
    let runs: Vec<_> = ["linux-6.1", "linux-6.7"]
        .map(|wl| {
            let out = dir.join(wl);
            let set = format!("ubi.wl={wl}");
            let title = format!("title=run of {wl}");
            let out_text = out.to_str().unwrap().to_owned();
            let args = ["run", HELLO, "--set", &set, "--set", &title, "--set", "stop.virtual_s=5", "--out", &out_text];
            assert!(nandlab(&args).status.success());
            out_text
        })
        .into();
    let page = dir.join("page.html");
    let args = ["report", &runs[0], &runs[1], "-o", page.to_str().unwrap()];
    assert!(nandlab(&args).status.success());
    let page_text = std::fs::read_to_string(&page).unwrap();
    assert!(page_text.contains("run of linux-6.1") && page_text.contains("run of linux-6.7"));
    assert_eq!(nandlab(&args).status.code(), Some(2), "an existing page is not overwritten unasked");
}

/// Stores with and without bytes give the same result, and the file holds a real image.
#[test]
fn a_kept_flash_has_the_same_wear_and_is_an_image() {
    let dir = fresh("run-flash");
    std::fs::create_dir_all(&dir).unwrap();
    let image = dir.join("flash.bin");
    let sets = ["--set", "nand.pebs=64", "--set", "nand.peb_bytes=16384", "--set", "nand.page_bytes=512"];
    let more = ["--set", "nand.subpage_bytes=512", "--set", "stop.steps=3000", "--set", "stop.virtual_s=0", "--json"];
    let run = |extra: &[&str]| {
        let out = nandlab(&[&["run", HELLO][..], &sets, &more, extra].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let kept = run(&["--flash", image.to_str().unwrap()]);
    let parsed = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let (kept, tags) = (parsed(&kept), parsed(&run(&[])));
    // Times may differ: without bytes there is nothing to read when data are moved.
    let counted = |found: &serde_json::Value| -> Vec<serde_json::Value> {
        let metrics = found["metrics"].as_array().unwrap().iter();
        metrics.filter(|metric| !metric["id"].as_str().unwrap().starts_with("leb_write.")).cloned().collect()
    };
    assert!(counted(&kept).len() > 30);
    assert_eq!(counted(&kept), counted(&tags));
    for key in ["erase_counts", "erases_by_cause", "programmed_bytes", "user_pool_sizes", "steps"] {
        assert_eq!(kept[key], tags[key], "{key}");
    }
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 64 * 16384);
    let info = text(&nandlab(&["image", "info", image.to_str().unwrap()]).stdout);
    assert!(info.contains("data") && info.to_lowercase().contains("fastmap"), "{info}");
    let check = nandlab(&["image", "check", image.to_str().unwrap()]);
    assert!(check.status.success(), "{}{}", text(&check.stdout), text(&check.stderr));
    let again = nandlab(&["run", HELLO, "--flash", image.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2), "an existing file is not overwritten unasked");
}
