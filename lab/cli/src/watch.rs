//! `--watch`: a page of the run while it goes on, for browsers of this machine.
//!
//! A thread accepts connections, and each has a thread of its own. Their timer asks the run for a sample
//! ([`Prepared::wanted`]); the run hands one over with its next report of progress, and every page gets it. While no page
//! is open, nothing is asked of the run.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use runner::export::http::{self, Answer};
use runner::measure::Outcome;
use runner::report::{self, LiveState};
use runner::run::{Prepared, Progress};
use serde_json::Value;

use crate::error::CliError;
use crate::serve::socket;

/// Connections at a time.
const MOST_CONNECTIONS: usize = 16;
/// Time for the head of a request, and for a piece of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for one that is turned away.
const REFUSAL: Duration = Duration::from_millis(200);
/// Least time between two samples.
const GAP: Duration = Duration::from_millis(500);
/// The making of samples takes at most this part of the run's time.
const SHARE: u32 = 20;
/// Time after which a connection without news gets a comment, so that one that has gone is noticed.
const QUIET: Duration = Duration::from_secs(10);
/// Time for the pages to get the last event.
const FAREWELL: Duration = Duration::from_secs(2);

/// The option.
#[derive(clap::Args)]
pub struct Flag {
    /// Show the run on a page while it goes on: rates, latency, wear; the page's address is printed
    #[arg(long, value_name = "HOST:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0")]
    watch: Option<String>,
}

impl Flag {
    /// Begins to serve the page, if it is wanted.
    /// Errors: an address that cannot be used.
    pub fn start(&self) -> Result<Option<Watching>, CliError> {
        self.watch.as_deref().map(Watching::start).transpose()
    }
}

/// A server of the page of a run.
pub struct Watching {
    feed: Arc<Feed>,
}

/// What the run and the pages share.
#[derive(Default)]
struct Feed {
    state: Mutex<State>,
    news: Condvar,
    connections: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The last event, as it is sent.
    event: Arc<str>,
    /// Number of the last event.
    number: u64,
    /// Whether it is the last one of all.
    over: bool,
    /// Pages that follow.
    pages: usize,
    /// Set to ask the run for a sample.
    wanted: Option<Arc<AtomicBool>>,
    /// When a sample was last asked for.
    asked: Option<Instant>,
    /// Time between two samples.
    gap: Duration,
    /// What `work` counts.
    unit: &'static str,
    /// Work of the last sample and when it was made.
    before: Option<(u64, Instant)>,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: &mut State, name: &str, document: &Value) {
        state.event = format!("event: {name}\ndata: {document}\n\n").into();
        state.number += 1;
        self.news.notify_all();
    }
}

impl Watching {
    fn start(address: &str) -> Result<Watching, CliError> {
        let (listener, at) = socket::tcp(address, false, "use 127.0.0.1; from another machine, use ssh -L")?;
        let feed = Arc::new(Feed::default());
        let shared = Arc::clone(&feed);
        thread::spawn(move || accept(&listener, at, &shared));
        eprintln!("watch the run at http://{at}/");
        Ok(Watching { feed })
    }

    /// A run begins.
    pub fn begin(&self, prepared: &Prepared) {
        let mut state = self.feed.lock();
        let experiment = &prepared.experiment;
        state.unit = if experiment.has_block_device() { "requests" } else { "erasures" };
        state.wanted = Some(prepared.wanted());
        state.before = Some((0, Instant::now()));
        state.gap = GAP;
        self.feed.publish(&mut state, "message", &report::awaited(experiment));
    }

    /// Passes on what a report of progress has.
    pub fn show(&self, progress: &Progress) {
        let Some(outcome) = &progress.so_far else { return };
        let began = Instant::now();
        let (unit, before) = {
            let mut state = self.feed.lock();
            (state.unit, state.before.replace((progress.work, began)))
        };
        let per_s = before.map_or(0.0, |(work, at)| {
            progress.work.saturating_sub(work) as f64 / began.duration_since(at).as_secs_f64().max(1e-3)
        });
        let &Progress { done, virtual_ns, work, .. } = progress;
        let document = report::so_far(outcome, &LiveState { done, virtual_ns, work, unit, per_s });
        let mut state = self.feed.lock();
        self.feed.publish(&mut state, "message", &document);
        state.gap = GAP.max(began.elapsed() * SHARE);
    }

    /// The run has ended with these results. The pages that are open get them at the latest while this is dropped.
    pub fn end(&self, outcome: &Outcome) {
        let document = report::of_runs(&[(outcome.experiment.title.clone(), outcome)]);
        let mut state = self.feed.lock();
        state.over = true;
        self.feed.publish(&mut state, "end", &document);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let state = self.feed.lock();
        if state.over {
            drop(self.feed.news.wait_timeout_while(state, FAREWELL, |state| state.pages > 0));
        }
    }
}

/// Turns a connection away. What it sends is read first, up to a limit: an answer to one that is closed unread is lost.
fn refuse(stream: &mut TcpStream, status: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(REFUSAL))?;
    stream.set_write_timeout(Some(REFUSAL))?;
    reply(stream, status, "text/plain", &format!("{status}\n"), true)?;
    stream.shutdown(Shutdown::Write)?;
    let mut rest = [0; 1024];
    for _ in 0..http::MOST_HEAD / rest.len() {
        if stream.read(&mut rest)? == 0 {
            break;
        }
    }
    Ok(())
}

fn accept(listener: &TcpListener, at: SocketAddr, feed: &Arc<Feed>) {
    for stream in listener.incoming() {
        // A connection that the system cannot give is one page less; the next may work.
        let Ok(mut stream) = stream else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if feed.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            let _ = refuse(&mut stream, "503 Service Unavailable");
            feed.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let shared = Arc::clone(feed);
        let begun = thread::Builder::new().spawn(move || {
            // A page that goes away is no event.
            let _ = serve(stream, at, &shared);
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if begun.is_err() {
            feed.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one request.
fn serve(mut stream: TcpStream, at: SocketAddr, feed: &Feed) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let came = Instant::now();
    let mut head = Vec::new();
    loop {
        match http::answer(&head, at) {
            Answer::More => {}
            Answer::Page(whole) => {
                return reply(&mut stream, "200 OK", "text/html; charset=utf-8", &report::live_page("/events"), whole);
            }
            Answer::Events => {
                feed.lock().pages += 1;
                let followed = follow(&mut stream, feed);
                feed.lock().pages -= 1;
                feed.news.notify_all();
                return followed;
            }
            Answer::Refused(status) => return refuse(&mut stream, status),
        }
        let left = PATIENCE.checked_sub(came.elapsed()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        let mut piece = [0; 1024];
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            bytes => head.extend_from_slice(&piece[..bytes]),
        }
    }
}

fn fields(status: &str, kind: &str, length: Option<usize>) -> String {
    let mut fields = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nX-Frame-Options: DENY\r\nConnection: close\r\n"
    );
    if let Some(length) = length {
        let _ = write!(fields, "Content-Length: {length}\r\n");
    }
    fields + "\r\n"
}

fn reply(stream: &mut TcpStream, status: &str, kind: &str, body: &str, whole: bool) -> io::Result<()> {
    stream.write_all(fields(status, kind, Some(body.len())).as_bytes())?;
    if whole { stream.write_all(body.as_bytes()) } else { Ok(()) }
}

/// Sends each event, until the last one.
fn follow(stream: &mut TcpStream, feed: &Feed) -> io::Result<()> {
    stream.write_all(fields("200 OK", "text/event-stream", None).as_bytes())?;
    let (mut sent, mut last) = (0, Instant::now());
    loop {
        let mut state = feed.lock();
        if state.number == sent {
            let waited = feed.news.wait_timeout(state, GAP / 2).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
        let due = state.asked.is_none_or(|asked| asked.elapsed() >= state.gap);
        if due && let Some(wanted) = &state.wanted {
            wanted.store(true, Ordering::Relaxed);
            state.asked = Some(Instant::now());
        }
        let (number, event, over) = (state.number, Arc::clone(&state.event), state.over);
        drop(state);
        if number > sent {
            stream.write_all(event.as_bytes())?;
            (sent, last) = (number, Instant::now());
        } else if last.elapsed() >= QUIET {
            stream.write_all(b":\n\n")?;
            last = Instant::now();
        }
        if over {
            return Ok(());
        }
    }
}
