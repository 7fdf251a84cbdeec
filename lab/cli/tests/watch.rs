//! `--watch`: the page of a run while it goes on, as curl and a plain socket see it. A browser reads it in `web/tests`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Seconds after which a run that nobody ends has gone wrong.
const LONG: Duration = Duration::from_secs(60);

struct Run {
    process: Option<Child>,
    errors: Option<BufReader<ChildStderr>>,
    /// HOST:PORT of the page.
    at: String,
}

impl Run {
    fn start(args: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        command.current_dir(TOP).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("watch the run at ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "{:?} ended without a page", process.wait());
        }
        let at = line.trim().strip_prefix("watch the run at http://").and_then(|at| at.strip_suffix('/'));
        Run { process: Some(process), errors: Some(errors), at: at.unwrap().to_owned() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.at).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// The whole answer to a request.
    fn ask(&self, head: &str) -> String {
        self.try_ask(head).unwrap()
    }

    /// The whole answer to a request.
    /// Errors: the connection was reset, as by a server that closes before it has read the request.
    fn try_ask(&self, head: &str) -> std::io::Result<String> {
        let mut stream = self.connect();
        stream.write_all(head.replace("HOST", &self.at).as_bytes())?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    }

    /// Asks until the answer begins so; before each request `first` is done, and what it returns is kept until the answer.
    fn ask_until<T>(&self, head: &str, begins: &str, first: impl Fn() -> T) {
        let until = Instant::now() + LONG;
        loop {
            let _kept = first();
            if self.try_ask(head).is_ok_and(|said| said.starts_with(begins)) {
                return;
            }
            assert!(Instant::now() < until, "no answer begins with {begins}");
        }
    }

    fn events(&self) -> Events {
        let mut stream = self.connect();
        write!(stream, "GET /events HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\r\n", self.at).unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        assert!(head.contains(&"Content-Type: text/event-stream".to_owned()), "{head:?}");
        Events(Box::new(lines))
    }

    fn end(mut self) -> Output {
        // Both pipes are read: a result is longer than what a pipe holds.
        let mut errors = self.errors.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut said = Vec::new();
            errors.read_to_end(&mut said).map(|_| said).unwrap()
        });
        let output = self.process.take().unwrap().wait_with_output().unwrap();
        Output { stderr: errors.join().unwrap(), ..output }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Events of a run: kind and document.
struct Events(Box<dyn Iterator<Item = String>>);

impl Iterator for Events {
    type Item = (String, Value);

    fn next(&mut self) -> Option<(String, Value)> {
        let mut kind = None;
        for line in self.0.by_ref() {
            if let Some(name) = line.strip_prefix("event: ") {
                kind = Some(name.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((kind.take()?, serde_json::from_str(data).unwrap()));
            }
        }
        None
    }
}

fn nandlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nandlab")).current_dir(TOP).args(args).output().unwrap()
}

fn requests(document: &Value) -> u64 {
    let ops = document["runs"][0]["latency"].as_array();
    ops.map_or(0, |ops| ops.iter().map(|op| op["count"].as_u64().unwrap()).sum())
}

/// Follows a run to its end: what came before the end, and the last document.
fn follow(run: &Run) -> (Vec<Value>, Value) {
    let mut seen = Vec::new();
    for (kind, document) in run.events() {
        if kind == "end" {
            return (seen, document);
        }
        seen.push(document);
    }
    panic!("no end in {} events", seen.len());
}

#[test]
fn a_drive_is_watched_to_its_end_and_the_result_is_that_of_a_run_alone() {
    let args = ["run", "experiments/ssd-2008-random-write.toml", "--set", "workload.requests=150000", "--json"];
    let alone = nandlab(&args);
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
    let run = Run::start(&[&args[..], &["--watch"]].concat());
    let (seen, last) = follow(&run);
    let counts: Vec<u64> = seen.iter().map(requests).collect();
    let last_count = requests(&last);
    assert!(counts.is_sorted() && counts.iter().any(|&count| count > 0), "{counts:?}");
    assert!(counts.iter().all(|&count| count <= last_count), "{counts:?} of {last_count}");
    // What was measured so far: a share of it all, with wear and amplification, and no fingerprint.
    let middle = seen.iter().find(|document| requests(document) > 0).unwrap();
    let live = &middle["live"];
    let (done, work) = (live["done"].as_f64().unwrap(), live["work"].as_u64().unwrap());
    assert_eq!((live["unit"].as_str(), work >= requests(middle)), (Some("requests"), true), "{live}");
    assert!((done - work as f64 / 150_000.0).abs() < 0.01, "{live}");
    assert!(middle["runs"][0]["wear"]["erase_counts"].as_array().is_some_and(|counts| !counts.is_empty()));
    assert_eq!(middle["fingerprint"], "known at the end");
    let (watched, alone): (Value, Value) =
        (serde_json::from_slice(&run.end().stdout).unwrap(), serde_json::from_slice(&alone.stdout).unwrap());
    assert_eq!(watched, alone);
    assert_eq!(last["fingerprint"], alone["fingerprint"]);
}

#[test]
fn raw_flash_is_watched_to_its_end() {
    let args = ["run", "experiments/fastmap-device-a.toml", "--set", "stop.mean_erases_of_others=900", "--json"];
    let run = Run::start(&[&args[..], &["--watch=localhost:0"]].concat());
    let (seen, last) = follow(&run);
    let erases = |document: &Value| -> u64 {
        let counts = document["runs"][0]["wear"]["erase_counts"].as_array();
        counts.map_or(0, |counts| counts.iter().map(|count| count.as_u64().unwrap()).sum())
    };
    let sums: Vec<u64> = seen.iter().map(erases).collect();
    assert!(sums.is_sorted() && sums.iter().any(|&sum| sum > 0), "{sums:?}");
    let middle = seen.iter().find(|document| erases(document) > 0).unwrap();
    assert_eq!((&middle["live"]["unit"], &middle["live"]["work"]), (&"erasures".into(), &erases(middle).into()));
    let result: Value = serde_json::from_slice(&run.end().stdout).unwrap();
    assert_eq!(last["runs"][0]["wear"]["erase_counts"], result["erase_counts"]);
}

#[test]
fn curl_gets_the_page_and_strangers_get_nothing() {
    let run = Run::start(&[
        "run",
        "experiments/ssd-2008-random-write.toml",
        "--set",
        "workload.requests=2000000000",
        "--watch",
    ]);
    let url = format!("http://{}/", run.at);
    let curl = |args: &[&str]| {
        let said =
            Command::new("curl").args(["-sS", "--max-time", "60", "--noproxy", "*"]).args(args).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    let page = curl(&[&url]);
    assert!(page.starts_with("<!DOCTYPE html>") || page.starts_with("<!doctype html>"), "{}", &page[..100]);
    assert!(page.contains(r#"{"events":"/events"}"#) && page.contains("connect-src 'self'"));
    let head = curl(&["-I", &url]);
    assert!(head.contains(&format!("Content-Length: {}", page.len())), "{head}");
    let status = |args: &[&str]| curl(&[&["-o", "/dev/null", "-w", "%{http_code}"], args].concat());
    assert_eq!(status(&["-H", "Host: evil.example", &url]), "421");
    assert_eq!(status(&["-X", "POST", &url]), "405");
    assert_eq!(status(&[&format!("{url}etc/passwd")]), "404");
    assert!(run.ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(run.ask(&format!("GET / HTTP/1.1\r\nHost: HOST\r\nA: {}", "a".repeat(9000))).starts_with("HTTP/1.1 431 "));

    // One who says nothing, and one who goes in the middle of an event, harm nobody; beyond sixteen, pages wait outside.
    // The server ends silent connections after a time, so on a busy machine they come again.
    let silent = || (0..16).map(|_| run.connect()).collect::<Vec<TcpStream>>();
    run.ask_until("GET / HTTP/1.1\r\nHost: HOST\r\n\r\n", "HTTP/1.1 503 ", silent);
    let answers = || run.ask_until("HEAD / HTTP/1.1\r\nHost: HOST\r\n\r\n", "HTTP/1.1 200 ", || ());
    // The server notices late that the silent are gone.
    answers();
    drop(run.events().next());
    answers();
}

#[test]
fn an_address_that_cannot_be_used_is_named_before_the_run() {
    let says = |watch: &str| {
        let said = nandlab(&["run", "experiments/hello.toml", watch]);
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let (code, error) = says("--watch=0.0.0.0:0");
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("expected the loopback") && error.contains("ssh -L"), "{error}");
    let (code, error) = says("--watch=nonsense");
    assert_eq!(code, Some(3), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, error) = says(&format!("--watch={}", taken.local_addr().unwrap()));
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("choose another host or port"), "{error}");
}

#[test]
fn a_served_drive_is_watched() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("watch");
    std::fs::create_dir_all(&dir).unwrap();
    let socket = dir.join("nand.sock");
    let _ = std::fs::remove_file(&socket);
    let nbd = format!("unix:{}", socket.display());
    let experiment = "experiments/ssd-2008-random-write.toml";
    // The guest's page is asked for before its drive is ready.
    let run =
        Run::start(&["serve", experiment, "--nbd", &nbd, "--set", "precondition.kind='none'", "--watch", "--json"]);
    let mut events = run.events();
    assert_eq!(events.next().unwrap().1["runs"], Value::Array(Vec::new()));
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let image = dir.join("noise.img");
    std::fs::write(&image, vec![0x5a; 4 << 20]).unwrap();
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let copy = || Command::new("nbdcopy").arg(Path::new(&image)).arg(&uri).status().unwrap();
    assert!(copy().success());
    // A sample is made while requests complete.
    while requests(&loop {
        assert!(copy().success());
        if let Some((_, document)) = events.next() {
            break document;
        }
    }) == 0
    {}
    assert!(
        Command::new("kill")
            .args(["-TERM", &run.process.as_ref().unwrap().id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(events.last().unwrap().0, "end");
    assert!(run.end().status.success());
}
