//! Files of the laboratory: a study, and a result that was kept.

use std::borrow::Cow;

use runner::measure::Outcome;
use runner::parts::Library;
use runner::report;
use runner::schema;
use study::{Source, Spec};

use crate::memory;

/// Runs of a study whose experiments are made.
const RUNS: usize = 4;

/// A user's study: `study.toml`, a zero, `published.json`. Its claims are checked and its first experiments made.
pub fn study(data: &[u8]) {
    let at = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let published = data.get(at + 1..).filter(|rest| !rest.is_empty()).unwrap_or(b"{}");
    let (Ok(toml), Ok(published)) = (std::str::from_utf8(&data[..at]), std::str::from_utf8(published)) else { return };
    let source =
        Source { name: Cow::Borrowed("fuzz"), toml: toml.to_owned().into(), published: published.to_owned().into() };
    // Made once, for all.
    let _ = (schema::keys(), Library::embedded());
    // A grid of a few values has thousands of runs.
    memory::bounded(data.len(), 512, 64 << 20, || {
        let Ok(spec) = Spec::parse(&source) else { return };
        let _ = spec.check();
        for run in spec.runs.iter().take(RUNS) {
            let _ = spec.question_of(run, true, Library::embedded());
        }
    });
}

/// `result.json` of a run: one that is accepted has a page.
pub fn result(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Made once, for all.
    let _ = schema::keys();
    memory::bounded(data.len(), 512, 4 << 20, || {
        let Ok(found) = Outcome::read(text) else { return };
        let runs = [("a".to_owned(), &found), ("b".to_owned(), &found)];
        let _ = (report::of_runs(&runs[..1]), report::of_runs(&runs), report::answer::comparison(&runs));
    });
}
