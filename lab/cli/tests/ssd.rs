//! Experiments on a drive as a user runs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const EXPERIMENT: &str = "title = 'small'
question = 'does it run?'
[ssd]
channels = 2
ways = 1
planes = 1
blocks = 32
pages = 16
over_provisioning_percent = 40
[precondition]
kind = 'sequential'
[workload]
requests = 3000
";

fn nandlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A fresh directory with the experiment in it.
fn fresh(name: &str) -> (PathBuf, String) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ssd-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("small.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (dir, file)
}

fn json(out: &Output) -> serde_json::Value {
    assert!(out.status.success(), "{}", text(&out.stderr));
    serde_json::from_str(&text(&out.stdout)).unwrap()
}

#[test]
fn a_run_writes_every_file_that_is_promised_and_can_be_run_again() {
    let (dir, file) = fresh("files");
    let out_dir = dir.join("out");
    let out = nandlab(&["run", &file, "--out", out_dir.to_str().unwrap()]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let printed = text(&out.stdout);
    for wanted in ["write amplification", "99.999 %", "where a write was: ", "erasures ", "fingerprint "] {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
    let mut files: Vec<_> =
        std::fs::read_dir(&out_dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let promised = [
        "experiment.toml",
        "fio.json",
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
        let bytes = std::fs::read(out_dir.join(parquet)).unwrap();
        assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]), "{parquet}");
    }
    let page = std::fs::read_to_string(out_dir.join("report.html")).unwrap();
    assert!(page.contains("\"schema\":\"nandlab-report/1\"") && !page.contains("/*NANDLAB_DATA*/"));
    let result: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(out_dir.join("result.json")).unwrap()).unwrap();
    let again = json(&nandlab(&["run", out_dir.join("experiment.toml").to_str().unwrap(), "--json"]));
    assert_eq!(again["fingerprint"], result["fingerprint"], "the resolved experiment");
    let both = dir.join("both.html");
    let run = out_dir.to_str().unwrap();
    assert!(nandlab(&["report", run, run, "-o", both.to_str().unwrap()]).status.success());
}

#[test]
fn bad_input_is_refused_with_the_place_and_a_remedy() {
    let (dir, file) = fresh("bad");
    let misspelt = dir.join("misspelt.toml");
    std::fs::write(&misspelt, EXPERIMENT.replace("blocks", "blokcs")).unwrap();
    let broken = dir.join("broken.toml");
    std::fs::write(&broken, "title = 't'\n[ssd]\nblocks = \n").unwrap();
    let job = dir.join("bad.fio");
    std::fs::write(&job, "[a]\nrw=readwritee\n").unwrap();
    for (args, wanted) in [
        (vec!["run", misspelt.to_str().unwrap()], "did you mean `ssd.blocks`?"),
        (vec!["run", &file, "--set", "ssd.blocks=3"], "at least 4"),
        (vec!["run", &file, "--set", "ssd.over_provisioning_percent=0"], "logical pages of a unit"),
        (vec!["run", &file, "--set", "ssd.part=nvme-tcl"], "did you mean `nvme-tlc`?"),
        (vec!["run", &file, "--fio", job.to_str().unwrap()], "readwritee"),
        (vec!["run", &file, "--fio", "no-such.fio"], "no such file"),
        (vec!["run", &file, "--set", "workload.offset_bytes=999999999488"], "load:"),
        (vec!["trace", "replay", "no-such.csv", "--on", &file], "no such file"),
        (vec!["run", &file, "--set", "workload.block_bytes=4q"], "error: --set workload.block_bytes=4q: key "),
        (vec!["run", &file, "--set", "blocks=4q"], "error: --set blocks=4q: unknown key"),
        (vec!["run", &file, "--set", "ssd=4"], "one of the table's keys, as ssd."),
        (vec!["run", &file, "--seed", "18446744073709551615"], "error: --seed 18446744073709551615: key `seed`"),
        (vec!["cuts", &file, "--set", "ssd.timing.read_us=[-1]"], "error: --set ssd.timing.read_us=[-1]: key "),
        (vec!["trace", "replay", "a.csv", "--on", &file, "--speed", "1e-300"], "error: --speed "),
        (vec!["run", broken.to_str().unwrap()], "3 | blocks = \n"),
    ] {
        let out = nandlab(&args);
        let error = text(&out.stderr);
        assert!(error.contains(wanted) && error.contains("help: "), "{args:?}: {error}");
        assert_eq!(out.status.code(), Some(2), "{args:?}: {error}");
    }
}

#[test]
fn a_drive_that_wears_out_fails_the_run_and_says_why() {
    let (_, file) = fresh("worn");
    let out = nandlab(&["run", &file, "--set", "ssd.endurance=10", "--set", "workload.requests=1000000", "--json"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("no more writes"), "{}", text(&out.stderr));
    let found: serde_json::Value = serde_json::from_str(&text(&out.stdout)).unwrap();
    assert_eq!(found["status"], "worn-out");
    assert!(found["end_of_life"]["at_ns"].as_u64().unwrap() > 0);
}

#[test]
fn a_fio_job_takes_the_place_of_the_workload() {
    let (dir, file) = fresh("fio");
    let job = dir.join("job.fio");
    std::fs::write(
        &job,
        "[global]\nioengine=libaio\niodepth=4\nbs=8k\nnumber_ios=100\n[a]\nrw=randread\n[b]\nrw=write\n",
    )
    .unwrap();
    let given = json(&nandlab(&["run", &file, "--fio", job.to_str().unwrap(), "--json"]));
    let counts: Vec<_> = given["ops"].as_array().unwrap().iter().map(|op| op["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [100, 100]);
    // A relative path in the file is relative to the file.
    let named = json(&nandlab(&["run", &file, "--set", "workload.fio=job.fio", "--json"]));
    assert_eq!(named["fingerprint"], given["fingerprint"]);
    let hello = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/hello.toml");
    let out = nandlab(&["run", hello, "--fio", job.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn a_trace_is_replayed_on_a_drive() {
    let (dir, file) = fresh("trace");
    let trace = dir.join("trace.csv");
    let lines: String = (0..200u64)
        .map(|i| {
            format!(
                "{},host,0,{},{},4096,900\n",
                128_166_372_000_000_000 + i * 5_000,
                if i % 2 == 0 { "Read" } else { "Write" },
                i * 4096
            )
        })
        .collect();
    std::fs::write(&trace, lines).unwrap();
    let replay = |more: &[&str]| {
        let base = ["trace", "replay", trace.to_str().unwrap(), "--on", &file, "--json"];
        json(&nandlab(&[&base[..], more].concat()))
    };
    let open = replay(&[]);
    assert_eq!((open["requests"].as_u64(), open["stopped_by"].as_str()), (Some(200), Some("workload")));
    let faster = replay(&["--speed", "4"]);
    assert!(faster["virtual_ns"].as_u64() < open["virtual_ns"].as_u64());
    for mode in ["closed", "dependency"] {
        assert_eq!(replay(&["--mode", mode])["requests"].as_u64(), Some(200), "{mode}");
    }
}

#[test]
fn a_trace_beyond_the_drive_names_itself_and_how_to_wrap_it() {
    let (dir, file) = fresh("beyond");
    let trace = dir.join("far.csv");
    std::fs::write(&trace, "0,h,0,Write,0,4096,10\n1000,h,0,Write,4294967296,4096,10\n").unwrap();
    let replay = ["trace", "replay", trace.to_str().unwrap(), "--on", &file];
    let out = nandlab(&replay);
    let error = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{error}");
    for part in ["far.csv: found a request of sectors 8388608 to 8388616", "small.toml has", "--wrap"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(nandlab(&[&replay[..], &["--wrap"]].concat()).status.success());
}

/// The summary comes first: what cannot be written then is not lost.
#[test]
fn results_that_cannot_be_written_do_not_lose_the_summary() {
    let (dir, file) = fresh("unwritable");
    // A directory where a file belongs can be made only while the run is under way.
    let out_dir = dir.join("out");
    let run = |more: &[&str]| {
        let args =
            [&["run", &file, "--set", "workload.requests=400000", "--out", out_dir.to_str().unwrap()], more].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !out_dir.is_dir() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::fs::create_dir(out_dir.join("result.json")).unwrap();
        let out = child.wait_with_output().unwrap();
        std::fs::remove_dir_all(&out_dir).unwrap();
        assert_ne!(out.status.code(), Some(0));
        text(&out.stdout)
    };
    assert!(run(&[]).contains("\nfingerprint "));
    assert!(run(&["--json"]).contains("\"fingerprint\""));
}

/// Every line of a table fits the terminal, and its headings are whole.
#[test]
fn a_table_is_not_wider_than_the_terminal() {
    let (_, file) = fresh("wide");
    for columns in ["60", "80", "132"] {
        let out =
            Command::new(env!("CARGO_BIN_EXE_nandlab")).args(["run", &file]).env("COLUMNS", columns).output().unwrap();
        let printed = text(&out.stdout);
        let of_table =
            |line: &&str| line.contains("requests/s") || line.contains("99.999 %") || line.starts_with("write  ");
        let lines: Vec<_> = printed.lines().filter(of_table).collect();
        assert!(
            lines.len() >= 2 && lines.iter().all(|line| line.chars().count() <= columns.parse().unwrap()),
            "{printed}"
        );
        for head in ["requests/s", "MB/s", "KiB each", "mean", "99.9 %", "99.99 %", "99.999 %", "most"] {
            assert!(printed.contains(head), "{columns}: {head}: {printed}");
        }
    }
}

/// Stores with and without bytes give the same result.
#[test]
fn a_kept_flash_has_the_same_result() {
    let (dir, file) = fresh("flash");
    let image = dir.join("flash.bin");
    let kept = json(&nandlab(&["run", &file, "--flash", image.to_str().unwrap(), "--json"]));
    let tags = json(&nandlab(&["run", &file, "--json"]));
    assert_eq!(kept["fingerprint"], tags["fingerprint"]);
    assert_eq!(std::fs::metadata(&image).unwrap().len(), 2 * 32 * 16 * 4096);
    let again = nandlab(&["run", &file, "--flash", image.to_str().unwrap(), "--force"]);
    let printed = text(&again.stdout);
    assert!(
        printed.contains("the drive's 1,024 pages of 4,096 bytes") && printed.contains("no UBI image"),
        "{printed}"
    );
    let info = nandlab(&["image", "info", image.to_str().unwrap()]);
    assert_eq!(info.status.code(), Some(2));
    assert!(text(&info.stderr).contains("the flash of a drive (`nandlab run --flash`) has no UBI on it"));
}

#[test]
fn a_drive_tells_its_host_what_it_is() {
    let (dir, file) = fresh("identify");
    let raw = dir.join("raw");
    let sata = ["--set", "ssd.front.protocol=sata", "--set", "ssd.front.depth=8"];
    let mut args = vec!["identify", &file, "--json", "--raw", raw.to_str().unwrap()];
    args.extend(sata);
    let told = json(&nandlab(&args));
    assert_eq!((&told["queue_depth"], &told["trim"]["zeroes"]), (&8.into(), &true.into()));
    assert_eq!(told["shape_log"]["effective_block_bytes"], 2 * 16 * 4096);
    let bytes = std::fs::read(raw.join("identify.bin")).unwrap();
    assert_eq!((bytes.len(), bytes[510], bytes[2 * 75]), (512, 0xa5, 7));
    assert_eq!(&std::fs::read(raw.join("log-a0.bin")).unwrap()[..8], b"NLSHAPE1");
    let again = nandlab(&args);
    assert_eq!((again.status.code(), text(&again.stderr).contains("--force")), (Some(2), true));

    let mut args = vec!["identify", &file, "--set", "ssd.front.trimmed_reads=undefined"];
    args.extend(sata);
    let printed = text(&nandlab(&args).stdout);
    for wanted in ["NCQ, 8 commands", "not rotating", "may read as anything", "erase block 131,072", "  69  0000h"] {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
    let nvme = nandlab(&["identify", &file]);
    assert_eq!(nvme.status.code(), Some(2));
    let refused = text(&nvme.stderr);
    assert!(refused.contains("ssd.front.protocol") && refused.contains("sata or ufs"), "{refused}");
    std::fs::write(&file, "title = 'ubi'\n[nand]\n").unwrap();
    assert!(text(&nandlab(&["identify", &file]).stderr).contains("expected a drive"));
}

#[test]
fn a_ufs_device_tells_its_host_what_it_is() {
    let (dir, _) = fresh("identify-ufs");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/ufs-2.1-hpb.toml");
    let raw = dir.join("raw");
    let told = json(&nandlab(&["identify", file, "--json", "--raw", raw.to_str().unwrap()]));
    assert_eq!((&told["schema"], &told["protocol"]), (&"nandlab/identify/1".into(), &"ufs".into()));
    assert_eq!((&told["spec_version"], &told["hpb"]["max_active_regions"]), (&"3.1".into(), &1951.into()));
    for (descriptor, name) in
        told["descriptors"].as_array().unwrap().iter().zip(["device.bin", "geometry.bin", "unit-0.bin"])
    {
        let bytes = std::fs::read(raw.join(name)).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(descriptor["bytes"], hex.as_str());
        assert_eq!(descriptor["fields"][0]["value"], bytes.len());
        assert!(descriptor["response"].as_str().unwrap().contains(&hex));
    }
    let printed = text(&nandlab(&["identify", file]).stdout);
    for wanted in [
        "UFS 3.1",
        "version 1.0, the device decides; regions of 16,384 KiB in sub-regions of 4,096 KiB",
        "10h     0310h              wSpecVersion: 0310h is 3.1",
        "4Bh     079Fh              wDeviceMaxActiveHPBRegions",
        "12h  set    fHPBEn: HPB commands are taken",
        "0Eh  none   fWriteBoosterEn",
        "01h  00h        bMaxDataSizeForHPBSingleCmd: a read of up to 4 KiB",
    ] {
        assert!(printed.contains(wanted), "{wanted}: {printed}");
    }
}
