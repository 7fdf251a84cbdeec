//! A failing case: the shortest workload found that still fails, in a file that runs it again.
//!
//! Knows parts of a workload by their numbers. A case does not hold the operations themselves: the experiment's seed
//! draws them again, and the case says which of them to keep. Their descriptions are in it too, so that a case of another
//! version, which draws others, is refused.

use serde::{Deserialize, Serialize};

use super::engine::Cuts;
use super::{Enumeration, Failure};

/// Form of the file.
const SCHEMA: &str = "nandlab/cuts-case/1";
/// Most workloads that are tried.
const TRIES: u32 = 600;
/// NAND operations at the end of a shorter workload whose cuts are tried.
const LATEST: u64 = 64;

/// A failing case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    schema: String,
    /// What failed: the checks that found it, by name.
    pub checks: Vec<String>,
    /// Broken promises, in sentences.
    pub broken: Vec<String>,
    /// The operations of the workload that are kept, described.
    pub workload: Vec<String>,
    /// Numbers of these operations in the whole workload; all, without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parts: Option<Vec<usize>>,
    /// Number of the cut in the kept workload; none if it fails without a cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<u64>,
    /// Number of the cut in the whole workload, from which its draws come.
    draws_of: u64,
    /// Keys of the experiment that the command line set, with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<(String, String)>,
    /// The experiment, TOML.
    pub experiment: String,
}

/// Why a file is no case, or not one of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// It cannot be read.
    #[error("it is no case of `nandlab cuts`: {0}")]
    Form(String),
    /// The operations that it names are others now.
    #[error(
        "its experiment draws another workload in this version: operation {number} is {found:?}, the case has {wanted:?}"
    )]
    Drawn {
        /// Number of the first operation that differs, from 1.
        number: usize,
        /// The operation as it is drawn now.
        found: String,
        /// The operation as the case has it.
        wanted: String,
    },
}

impl Case {
    /// Reads a case.
    /// Errors: not TOML, another form, a key that is missing or unknown.
    pub fn parse(text: &str) -> Result<Case, CaseError> {
        let case: Case = toml::from_str(text).map_err(|error| CaseError::Form(error.to_string()))?;
        if case.schema != SCHEMA {
            return Err(CaseError::Form(format!("its schema is {:?}, expected {SCHEMA:?}", case.schema)));
        }
        Ok(case)
    }

    /// The case as a file.
    pub fn to_text(&self) -> String {
        toml::to_string_pretty(self).expect("every value of a case has a form in TOML")
    }
}

impl Enumeration {
    /// Reduces a failure to the shortest workload found that the same checks reject. `experiment` and `sets` are what the
    /// enumeration was made of.
    pub fn reduce(&self, failure: &Failure, experiment: &str, sets: &[(String, String)]) -> Case {
        let uncut = self.0.uncut() == Some(failure);
        let mut case = Case {
            schema: SCHEMA.to_owned(),
            checks: Vec::new(),
            broken: failure.broken.clone(),
            workload: Vec::new(),
            parts: None,
            cut: (!uncut).then_some(failure.at),
            draws_of: failure.at,
            sets: sets.to_vec(),
            experiment: experiment.to_owned(),
        };
        let mut found = failure.clone();
        if let Some(count) = self.0.parts(failure.at) {
            let shortest = shortest(count, |parts| fails(&*self.0, failure, uncut, parts));
            if let Some((parts, shorter)) = shortest {
                case.workload = self.0.described(&parts);
                case.parts = Some(parts);
                case.cut = (!uncut).then_some(shorter.at);
                found = shorter;
            }
        }
        case.checks = found.checks.iter().map(crate::schema::word).collect();
        case.broken = found.broken;
        case
    }

    /// The enumeration of a case, whose experiment this one was made of.
    /// Errors: the workload that is drawn is another.
    pub fn of_case(&self, case: &Case) -> Result<Option<Enumeration>, CaseError> {
        let Some(parts) = &case.parts else { return Ok(None) };
        let found = self.0.described(parts);
        let all = case.workload.iter().map(Some).chain(std::iter::repeat(None));
        let differs = (1..).zip(found.iter().map(Some).chain(std::iter::repeat(None)).zip(all));
        let most = parts.len().max(case.workload.len());
        for (number, (found, wanted)) in differs.take(most) {
            if found != wanted {
                let text = |op: Option<&String>| op.map_or("none".to_owned(), String::clone);
                return Err(CaseError::Drawn { number, found: text(found), wanted: text(wanted) });
            }
        }
        Ok(self.0.only(parts, case.draws_of).map(Enumeration))
    }
}

/// The failure of a workload with some parts only, if the same checks reject it.
fn fails(cuts: &dyn Cuts, failure: &Failure, uncut: bool, parts: &[usize]) -> Option<Failure> {
    let shorter = cuts.only(parts, failure.at)?;
    if uncut {
        return shorter.uncut().filter(|found| found.checks == failure.checks).cloned();
    }
    if shorter.uncut().is_some() {
        return None;
    }
    let tears = cuts.cuts() / cuts.nand_ops().max(1);
    let (tear, ops) = (failure.at % tears, shorter.nand_ops());
    let list: Vec<u64> = (ops.saturating_sub(LATEST)..ops).map(|op| op * tears + tear).collect();
    let found = shorter.run(&list, 1, &|_| {});
    found.failures.into_iter().rfind(|found| found.checks == failure.checks)
}

/// The shortest list of the numbers below `count` that still fails, as far as leaving out ever smaller pieces finds it.
/// `None` if not even the whole list fails.
fn shortest<F>(count: usize, fails: impl Fn(&[usize]) -> Option<F>) -> Option<(Vec<usize>, F)> {
    let mut parts: Vec<usize> = (0..count).collect();
    let mut best = fails(&parts)?;
    let mut tries = 0;
    let mut piece = (count / 2).max(1);
    while tries < TRIES {
        let before = parts.len();
        let mut from = 0;
        while from < parts.len() && tries < TRIES {
            let to = (from + piece).min(parts.len());
            let without = [&parts[..from], &parts[to..]].concat();
            tries += 1;
            match fails(&without) {
                Some(found) => (parts, best) = (without, found),
                None => from = to,
            }
        }
        if piece == 1 && parts.len() == before {
            break;
        }
        piece = (piece / 2).max(1);
    }
    Some((parts, best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failure_needs_is_found_and_nothing_else() {
        for needed in [vec![3], vec![0, 99], vec![7, 8, 9, 50], (40..60).collect()] {
            let fails = |parts: &[usize]| needed.iter().all(|part| parts.contains(part)).then_some(parts.len());
            let (parts, found) = shortest(100, fails).expect("the whole fails");
            assert_eq!((parts, found), (needed.clone(), needed.len()));
        }
        assert_eq!(shortest(10, |_| None::<()>), None);
        assert_eq!(shortest(5, |_| Some(())).map(|(parts, ())| parts), Some(vec![]));
    }

    #[test]
    fn a_file_that_is_no_case_is_refused() {
        let error = |text: &str| Case::parse(text).unwrap_err().to_string();
        assert!(error("title = 1").starts_with("it is no case of `nandlab cuts`: "));
        let other = "schema = 'x'\nchecks = []\nbroken = []\nworkload = []\ndraws_of = 1\nexperiment = ''";
        assert!(error(other).contains("its schema is \"x\""), "{}", error(other));
    }
}
