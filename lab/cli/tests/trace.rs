//! `nandlab trace` as a user runs it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// An empty directory for this test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the temporary directory can be written");
    folder
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/trace_detect").join(name)
}

fn trace(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    command.arg("trace").args(args.iter().map(AsRef::as_ref)).output().expect("nandlab runs")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn document(output: &Output) -> Value {
    assert_eq!(code(output), Some(0), "{}", err(output));
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn every_sample_is_known_and_told() {
    let samples = [
        ("msr.csv", "msr", 4),
        ("systor.csv", "systor", 3),
        ("tencent.csv", "tencent", 3),
        ("alibaba.csv", "alibaba", 4),
        ("spc.csv", "spc", 4),
        ("disksim.trace", "disksim", 3),
        ("disksim-ms.trace", "disksim-ms", 2),
        ("blkparse.txt", "blkparse", 6),
        ("blktrace-le.bin", "blktrace", 6),
        ("blktrace-be.bin", "blktrace", 6),
        ("fio2.iolog", "iolog2", 4),
        ("fio3.iolog", "iolog3", 3),
    ];
    for (name, format, records) in samples {
        let told = document(&trace(&[&"info", &sample(name), &"--json"]));
        assert_eq!(told["schema"], "nandlab/trace-info/1");
        assert_eq!((&told["format"]["name"], &told["notes"]["records"]), (&format.into(), &records.into()), "{name}");
        let text = out(&trace(&[&"info", &sample(name)]));
        assert!(text.starts_with(&format!("format      {format} (")), "{text}");
    }
}

#[test]
fn the_measures_are_those_of_the_records() {
    let folder = folder("measures");
    // A segment of 1 MiB from end to end in pieces of 128 KiB, each issued while all before are outstanding, and a
    // read.
    let mut text = String::new();
    for piece in 0..8 {
        text.push_str(&format!("{},h,0,Write,{},131072,{}\n", 1000 * piece, 131_072 * piece, 1500));
    }
    text.push_str("8000,h,1,Read,4096,512,10\n");
    std::fs::write(folder.join("a.csv"), text).expect("the folder can be written");
    let told = document(&trace(&[&"info", &folder.join("a.csv"), &"--json"]));
    let device = &told["devices"][0];
    assert_eq!((&device["seg_seq"], &device["seg_cont"]), (&1.0.into(), &0.875.into()));
    assert_eq!(device["footprint_bytes"]["written"], 1 << 20);
    assert_eq!(device["ops"][0]["mean_bytes"], 131_072.0);
    assert_eq!(device["ops"][0]["latency_ns"]["mean"], 150_000.0);
    assert_eq!((&device["depth"]["max"], &told["all"]["read_share"]), (&2.into(), &(1.0 / 9.0).into()));
    let only = document(&trace(&[&"info", &folder.join("a.csv"), &"--json", &"--device", &"1"]));
    assert_eq!((&only["all"]["requests"], &only["devices"][0]["device"]), (&1.into(), &1.into()));
    let none = trace(&[&"info", &folder.join("a.csv"), &"--device", &"7"]);
    assert_eq!(code(&none), Some(2));
    assert!(err(&none).contains("found no record of device 7"), "{}", err(&none));
}

#[test]
fn the_page_holds_the_trace_and_stands_alone() {
    let folder = folder("page");
    let page = folder.join("page.html");
    let output = trace(&[&"info", &sample("msr.csv"), &"--html", &page]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let text = std::fs::read_to_string(&page).expect("the page was written");
    assert!(text.contains("\"trace\":{") && text.contains("\"cells\":[["), "the document is in it");
    assert!(text.len() < 5_000_000, "{} bytes", text.len());
    let again = trace(&[&"info", &sample("msr.csv"), &"--html", &page]);
    assert_eq!((code(&again), err(&again).contains("--force")), (Some(2), true));
    assert_eq!(code(&trace(&[&"info", &sample("msr.csv"), &"--html", &page, &"--force"])), Some(0));
}

#[test]
fn a_trace_comes_back_from_the_own_format() {
    let folder = folder("convert");
    let (own, back) = (folder.join("a.ntrace"), folder.join("a.txt"));
    let output = trace(&[&"convert", &sample("blkparse.txt"), &own]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert!(out(&output).contains("6 records from blkparse to ntrace"), "{}", out(&output));
    assert_eq!(code(&trace(&[&"convert", &own, &back, &"--to", &"blkparse"])), Some(0));
    let measures = |path: &Path| {
        let mut told = document(&trace(&[&"info", &path, &"--json"]));
        for key in ["file", "format", "notes"] {
            told.as_object_mut().expect("an object").remove(key);
        }
        told
    };
    assert_eq!(measures(&own), measures(&sample("blkparse.txt")));
    assert_eq!(measures(&back), measures(&own));
}

#[test]
fn what_the_new_format_cannot_hold_is_told() {
    let folder = folder("lost");
    let output = trace(&[&"convert", &sample("blkparse.txt"), &folder.join("a.csv"), &"--to", &"alibaba"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let text = out(&output);
    for part in
        ["3 records from blkparse to alibaba", "note: 3 records were left out", "rounded down", "lost a latency"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_conversion_is_told_as_json_too() {
    let folder = folder("lost-json");
    let path = folder.join("a.csv");
    let told = document(&trace(&[&"convert", &sample("blkparse.txt"), &path, &"--to", &"alibaba", &"--json"]));
    assert_eq!((&told["schema"], &told["records"]), (&"nandlab/trace-convert/1".into(), &3.into()));
    assert_eq!((&told["from"], &told["to"]), (&"blkparse".into(), &"alibaba".into()));
    assert_eq!((&told["lost"]["dropped"], &told["notes"]["cut"]), (&3.into(), &Value::Null));
}

#[test]
fn a_trace_of_several_devices_is_replayed_one_at_a_time() {
    let folder = folder("devices");
    let (file, drive) = (folder.join("two.csv"), folder.join("drive.toml"));
    std::fs::write(&file, "0,h,0,Write,0,4096,10\n1000,h,1,Write,0,4096,10\n2000,h,1,Read,0,4096,10\n").unwrap();
    let small = "title = 't'\n[ssd]\nblocks = 8\npages = 8\nover_provisioning_percent = 100\n";
    std::fs::write(&drive, small).unwrap();
    let all = trace(&[&"replay", &file, &"--on", &drive]);
    assert_eq!(code(&all), Some(2));
    for part in ["two.csv", "records of devices 0 and 1", "--device 0"] {
        assert!(err(&all).contains(part), "{part} is not in {}", err(&all));
    }
    let one = |device: &str| trace(&[&"replay", &file, &"--on", &drive, &"--device", &device, &"--json"]);
    let told = document(&one("1"));
    assert_eq!((&told["requests"], &told["experiment"]["trace"]["device"]), (&2.into(), &1.into()));
    assert_eq!(document(&one("0"))["requests"], 1);
    let none = one("7");
    assert_eq!((code(&none), err(&none).contains("found no record of device 7")), (Some(2), true), "{}", err(&none));
}

/// `trace info` names a device as `--device` takes it.
#[test]
fn a_device_is_named_by_its_major_and_minor_number() {
    let folder = folder("numbers");
    let file = folder.join("two.txt");
    let line =
        |device: &str, at: &str| format!("{device} 0 1 {at} 100 Q W 0 + 8 [x]\n{device} 0 2 {at}1 100 C W 0 + 8 [0]\n");
    let lines = format!("{}{}", line("259,0", "0.00001"), line("8,16", "0.00002"));
    std::fs::write(&file, lines).unwrap();
    let told = out(&trace(&[&"info", &file]));
    assert!(told.contains("device 259,0 (trace.device = 271581184)") && told.contains("device 8,16 ("), "{told}");
    for device in ["259,0", "271581184"] {
        let only = document(&trace(&[&"info", &file, &"--device", &device, &"--json"]));
        assert_eq!(only["devices"][0]["device"], 271_581_184, "{device}");
    }
    let drive = folder.join("drive.toml");
    std::fs::write(&drive, "title = 't'\n[ssd]\nblocks = 8\npages = 8\nover_provisioning_percent = 100\n").unwrap();
    let several = err(&trace(&[&"replay", &file, &"--on", &drive]));
    assert!(several.contains("--device 259,0"), "{several}");
    assert_eq!(code(&trace(&[&"replay", &file, &"--on", &drive, &"--device", &"8,16"])), Some(0));
    assert!(err(&trace(&[&"info", &file, &"--device", &"8"])).contains("no record of device 8"));
}

#[test]
fn gzip_is_read_as_it_is() {
    let folder = folder("gzip");
    let packed = folder.join("msr.csv.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&std::fs::read(sample("msr.csv")).expect("a sample")).expect("memory takes it");
    let bytes = encoder.finish().expect("memory takes it");
    std::fs::write(&packed, &bytes).expect("the folder can be written");
    let told = document(&trace(&[&"info", &packed, &"--json"]));
    assert_eq!((&told["format"]["name"], &told["notes"]["records"]), (&"msr".into(), &4.into()));
    std::fs::write(&packed, &bytes[..bytes.len() - 12]).expect("the folder can be written");
    let cut = trace(&[&"info", &packed]);
    assert_eq!(code(&cut), Some(2));
    assert!(err(&cut).contains("damaged or incomplete gzip"), "{}", err(&cut));
}

#[test]
fn standard_input_is_a_trace_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
    command.args(["trace", "info", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("nandlab starts");
    let text = std::fs::read(sample("tencent.csv")).expect("a sample");
    child.stdin.take().expect("a pipe").write_all(&text).expect("the pipe takes it");
    let told = document(&child.wait_with_output().expect("nandlab ends"));
    assert_eq!(told["format"]["operations"], "0 = read, 1 = write");
}

#[test]
fn a_cut_trace_is_told_and_what_is_whole_is_measured() {
    let folder = folder("cut");
    let (own, cut) = (folder.join("a.ntrace"), folder.join("cut.ntrace"));
    assert_eq!(code(&trace(&[&"convert", &sample("alibaba.csv"), &own])), Some(0));
    let bytes = std::fs::read(&own).expect("it was written");
    std::fs::write(&cut, &bytes[..bytes.len() - 5]).expect("the folder can be written");
    let told = document(&trace(&[&"info", &cut, &"--json"]));
    assert_eq!(told["notes"]["cut"]["byte"], bytes.len() - 5);
    assert_eq!(told["notes"]["records"], 4);
    assert!(out(&trace(&[&"info", &cut])).contains("cut off at byte"));
}

#[test]
fn bad_input_exits_2_and_names_the_place() {
    let folder = folder("bad");
    let unknown = trace(&[&"info", &sample("not-a-trace")]);
    assert_eq!(code(&unknown), Some(2));
    for part in ["not-a-trace", "\"hello, world\"", "msr: Timestamp,Hostname", "--format"] {
        assert!(err(&unknown).contains(part), "{part} is not in {}", err(&unknown));
    }
    let cut = trace(&[&"info", &sample("cut-short")]);
    assert_eq!(code(&cut), Some(2));
    for part in ["line 2 (byte 53), column 11", "found the end of the line", "expected a host's name", "read as msr"] {
        assert!(err(&cut).contains(part), "{part} is not in {}", err(&cut));
    }
    let wrong = trace(&[&"info", &sample("msr.csv"), &"--format", &"tencent"]);
    assert_eq!(code(&wrong), Some(2));
    let target = folder.join("a.csv");
    let ending = trace(&[&"convert", &sample("msr.csv"), &target]);
    assert_eq!((code(&ending), target.exists()), (Some(2), false));
    assert!(err(&ending).contains("--to with one of msr, systor"), "{}", err(&ending));
    let failed = trace(&[&"convert", &sample("cut-short"), &folder.join("b.ntrace")]);
    assert_eq!(code(&failed), Some(2));
    assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 0, "nothing is left of a failed conversion");
    assert_eq!(code(&trace(&[&"info", &"no-such-file"])), Some(2));
    assert!(err(&trace(&[&"info", &sample("msr.csv"), &"--format", &"mrs"])).contains("expected one of msr"));
}

#[test]
fn the_directory_of_a_run_stands_for_its_log_and_is_drawn() {
    let folder = folder("of-run");
    let run = folder.join("out");
    std::fs::create_dir(&run).expect("the folder can be written");
    let missing = trace(&[&"info", &run]);
    assert_eq!(code(&missing), Some(2));
    assert!(
        err(&missing).contains("without requests.ntrace") && err(&missing).contains("--trace"),
        "{}",
        err(&missing)
    );

    let converted = trace(&[&"convert", &sample("msr.csv"), &run.join("requests.ntrace")]);
    assert_eq!(code(&converted), Some(0), "{}", err(&converted));
    let drawing = folder.join("t.svg");
    let told = document(&trace(&[&"info", &run, &"--svg", &drawing, &"--json"]));
    assert_eq!((&told["format"]["name"], &told["notes"]["records"]), (&"ntrace".into(), &4.into()));
    let text = std::fs::read_to_string(&drawing).expect("it was drawn");
    // Self-contained: nothing is fetched and nothing runs.
    assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && text.ends_with("</svg>\n"), "{text}");
    assert!(!text.contains("href") && !text.contains("script") && text.contains("reads: "), "{text}");
    let again = trace(&[&"info", &run, &"--svg", &drawing]);
    assert_eq!(code(&again), Some(2), "a file is not overwritten by chance");
    assert_eq!(code(&trace(&[&"info", &run, &"--svg", &drawing, &"--force"])), Some(0));
    assert_eq!(std::fs::read_to_string(&drawing).expect("it was drawn"), text);
}
