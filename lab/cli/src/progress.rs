//! Progress bars on a terminal; nothing in a pipe.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use runner::run::Progress;

/// Resolution of a bar.
const STEPS: u64 = 1000;

/// The bars of a command.
pub struct Bars {
    all: Option<MultiProgress>,
}

/// One bar.
pub struct Bar {
    bar: ProgressBar,
    parts: Mutex<BTreeMap<String, Progress>>,
}

impl Bars {
    /// Bars on a terminal, if `wanted`; else nothing is shown.
    pub fn new(wanted: bool) -> Bars {
        Bars { all: (wanted && std::io::stderr().is_terminal()).then(MultiProgress::new) }
    }

    /// Adds a bar with a name.
    pub fn add(&self, name: &str) -> Bar {
        let bar = match &self.all {
            Some(all) => all.add(ProgressBar::new(STEPS)),
            None => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} % {msg} {eta} left") {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_owned());
        Bar { bar, parts: Mutex::new(BTreeMap::new()) }
    }
}

impl Bar {
    /// Shows the progress of a run on raw flash.
    pub fn show(&self, progress: Progress) {
        self.bar.set_position((progress.done.min(1.0) * STEPS as f64) as u64);
        let rate = progress.erases as f64 / self.bar.elapsed().as_secs_f64().max(1e-3) / 1e6;
        let hours = progress.virtual_ns as f64 / 3.6e12;
        self.bar.set_message(format!("{rate:.1} M erasures/s, {hours:.1} virtual h,"));
    }

    /// Shows the progress of a run on a drive, which counts requests instead of erasures.
    pub fn show_requests(&self, progress: Progress) {
        self.bar.set_position((progress.done.min(1.0) * STEPS as f64) as u64);
        let rate = progress.erases as f64 / self.bar.elapsed().as_secs_f64().max(1e-3) / 1e6;
        let seconds = progress.virtual_ns as f64 / 1e9;
        self.bar.set_message(format!("{rate:.2} M requests/s, {seconds:.3} virtual s,"));
    }

    /// Shows the progress of one of several parallel runs.
    pub fn show_part(&self, part: &str, progress: Progress) {
        let Ok(mut parts) = self.parts.lock() else { return };
        parts.insert(part.to_owned(), progress);
        let erases: u64 = parts.values().map(|progress| progress.erases).sum();
        let slowest = parts.values().map(|progress| progress.done).fold(1.0, f64::min);
        let virtual_ns = parts.values().map(|progress| progress.virtual_ns).max().unwrap_or(0);
        drop(parts);
        self.show(Progress { done: slowest, virtual_ns, erases });
    }

    /// Shows how many of several runs are done.
    pub fn show_count(&self, done: usize, of: usize) {
        self.bar.set_position((done * STEPS as usize / of.max(1)) as u64);
        self.bar.set_message(format!("{done} of {of},"));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
