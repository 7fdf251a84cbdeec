//! Progress bars on a terminal; nothing in a pipe.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use runner::measure::Outcome;
use runner::run::Progress;

/// Resolution of a bar.
const STEPS: u64 = 1000;

/// What a run does most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Erasures of raw flash.
    Erasures,
    /// Requests of a drive.
    Requests,
}

impl Work {
    /// A rate for people: `1.2 M requests/s`.
    pub fn rate(self, per_s: f64) -> String {
        let what = match self {
            Work::Erasures => "erasures/s",
            Work::Requests => "requests/s",
        };
        match per_s {
            rate if rate >= 1e6 => format!("{:.1} M {what}", rate / 1e6),
            rate if rate >= 1e3 => format!("{:.0} k {what}", rate / 1e3),
            rate => format!("{rate:.0} {what}"),
        }
    }
}

/// The bars of a command.
pub struct Bars {
    all: Option<MultiProgress>,
}

/// One bar, for one run or several parallel ones.
pub struct Bar {
    bar: ProgressBar,
    work: Work,
    runs: Mutex<Runs>,
}

/// Progress of several runs.
#[derive(Debug, Default)]
struct Runs {
    all: usize,
    finished: usize,
    /// Work of the finished runs.
    work: u64,
    /// Runs under way.
    parts: BTreeMap<String, Progress>,
}

impl Runs {
    /// Share of all runs that is done. It never falls.
    fn done(&self) -> f64 {
        let parts: f64 = self.parts.values().map(|progress| progress.done.clamp(0.0, 1.0)).sum();
        (self.finished as f64 + parts) / self.all.max(1) as f64
    }

    /// Work done by all runs.
    fn work(&self) -> u64 {
        self.work + self.parts.values().map(|progress| progress.work).sum::<u64>()
    }

    /// What the bar says.
    fn message(&self, work: Work, seconds: f64) -> String {
        let rate = work.rate(self.work() as f64 / seconds.max(1e-3));
        let done = self.done();
        let left = if done > 0.0 { format!(", {} left", wait(seconds * (1.0 - done) / done)) } else { String::new() };
        match self.all {
            0 | 1 => {
                let virtual_ns = self.parts.values().map(|progress| progress.virtual_ns).max().unwrap_or(0);
                format!("{rate}, {} of virtual time{left}", span(virtual_ns))
            }
            all => format!("run {} of {all}, {rate}{left}", (self.finished + 1).min(all)),
        }
    }
}

/// A virtual time: seconds, hours or days.
fn span(ns: u64) -> String {
    match ns as f64 / 1e9 {
        seconds if seconds < 600.0 => format!("{seconds:.3} s"),
        seconds if seconds < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        seconds => format!("{:.1} days", seconds / 86_400.0),
    }
}

/// A time to wait.
fn wait(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

impl Bars {
    /// Bars on a terminal, if `wanted`; else nothing is shown.
    pub fn new(wanted: bool) -> Bars {
        Bars { all: (wanted && std::io::stderr().is_terminal()).then(MultiProgress::new) }
    }

    /// Adds a bar for this many runs.
    pub fn add(&self, name: &str, work: Work, runs: usize) -> Bar {
        let bar = match &self.all {
            Some(all) => all.add(ProgressBar::new(STEPS)),
            None => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} % {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_owned());
        bar.set_message("preparing");
        if self.all.is_some() {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        Bar { bar, work, runs: Mutex::new(Runs { all: runs, ..Runs::default() }) }
    }
}

impl Bar {
    /// Shows the progress of one of the runs.
    pub fn show(&self, run: &str, progress: Progress) {
        self.update(|runs| {
            runs.parts.insert(run.to_owned(), progress);
        });
    }

    /// Counts a run as finished.
    pub fn finish_run(&self, run: &str, found: &Outcome) {
        self.update(|runs| {
            runs.parts.remove(run);
            runs.finished += 1;
            runs.work += match (self.work, found.drive()) {
                (Work::Requests, Some(drive)) => drive.requests,
                _ => found.measured.erase_counts.iter().map(|&count| u64::from(count)).sum(),
            };
        });
    }

    /// Number of finished runs.
    pub fn finished(&self) -> usize {
        self.runs.lock().map_or(0, |runs| runs.finished)
    }

    fn update(&self, change: impl FnOnce(&mut Runs)) {
        let Ok(mut runs) = self.runs.lock() else { return };
        change(&mut runs);
        self.bar.set_position((runs.done() * STEPS as f64) as u64);
        self.bar.set_message(runs.message(self.work, self.bar.elapsed().as_secs_f64()));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: f64, work: u64) -> Progress {
        Progress { done, virtual_ns: 0, work, so_far: None }
    }

    #[test]
    fn a_bar_of_many_runs_never_goes_back_and_counts_them() {
        let mut runs = Runs { all: 3, ..Runs::default() };
        let mut last = 0.0;
        for (at, run, shown) in [
            (0.5, "a", "run 1 of 3, 10 requests/s, 10 s left"),
            (0.1, "b", "run 1 of 3, 20 requests/s, 8 s left"),
            (1.0, "a", "run 2 of 3, 20 requests/s, 3 s left"),
            (0.9, "b", "run 2 of 3, 20 requests/s, 1 s left"),
            (0.1, "c", "run 2 of 3, 30 requests/s, 1 s left"),
            (1.0, "b", "run 3 of 3, 30 requests/s, 1 s left"),
            (1.0, "c", "run 3 of 3, 30 requests/s, 0 s left"),
        ] {
            if at < 1.0 {
                runs.parts.insert(run.to_owned(), progress(at, 20));
            } else {
                runs.parts.remove(run);
                runs.finished += 1;
                runs.work += 20;
            }
            assert!(runs.done() >= last, "{run} at {at}");
            last = runs.done();
            assert_eq!(runs.message(Work::Requests, 2.0), shown);
        }
        assert_eq!(last, 1.0);
    }

    #[test]
    fn a_single_run_shows_its_rate_and_its_virtual_time() {
        let parts =
            [("a".to_owned(), Progress { done: 0.1, virtual_ns: 7_200_000_000_000, work: 3_000_000, so_far: None })];
        let runs = Runs { all: 1, parts: parts.into(), ..Runs::default() };
        assert_eq!(runs.message(Work::Erasures, 2.0), "1.5 M erasures/s, 2.0 h of virtual time, 18 s left");
        assert_eq!(Work::Requests.rate(2_500.0), "2 k requests/s");
    }
}
