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
        case.checks = found.checks.iter().map(runner::schema::word).collect();
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
    use runner::run::guest::Keep;
    use sim::Cause;

    use super::*;
    use crate::{Check, Outcome, Selection, Story};

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

    /// A workload of numbered parts, each of three NAND operations with two tears. Cuts fail in the last of the parts that are
    /// needed: of both its later operations, each with one tear, if all needed parts are there and the draws are those of
    /// cut [`Fake::AT`]; otherwise another check finds something. Without part 0 the workload fails by itself.
    struct Fake {
        parts: Vec<usize>,
        needed: Vec<usize>,
        draws_of: Option<u64>,
        says: &'static str,
        uncut: Option<Failure>,
        fails_uncut: bool,
    }

    impl Fake {
        /// Of 50 parts; part 40 is the last that is needed, and its second operation is cut with the second tear.
        const AT: u64 = (40 * 3 + 1) * 2 + 1;

        fn of(parts: Vec<usize>, needed: &[usize], draws_of: Option<u64>, fails_uncut: bool) -> Fake {
            let has = |part: &usize| parts.contains(part);
            let whole = needed.iter().all(has);
            let uncut = match (fails_uncut, whole) {
                (true, true) => Some(Fake::failure(Fake::AT, Check::Works)),
                (true, false) if has(&1) => Some(Fake::failure(Fake::AT, Check::Reads)),
                (false, _) if !has(&0) => Some(Fake::failure(0, Check::Contents)),
                _ => None,
            };
            Fake { needed: needed.to_vec(), draws_of, says: "part", uncut, fails_uncut, parts }
        }

        fn failure(at: u64, check: Check) -> Failure {
            let broken = vec![format!("{check:?} at {at}")];
            Failure { at, history: vec!["before".to_owned()], checks: vec![check], broken }
        }

        fn found(&self, at: u64) -> Option<Failure> {
            let last = self.needed.last()?;
            let place = self.parts.iter().position(|part| part == last)? as u64;
            let whole = self.needed.iter().all(|part| self.parts.contains(part));
            let drawn = self.draws_of.unwrap_or(at) == Fake::AT;
            let check = if whole && drawn { Check::Contents } else { Check::Torn };
            let struck = [(place * 3 + 1) * 2 + 1, (place * 3 + 2) * 2].contains(&at);
            (struck && !self.fails_uncut).then(|| Fake::failure(at, check))
        }
    }

    impl Cuts for Fake {
        fn nand_ops(&self) -> u64 {
            3 * self.parts.len() as u64
        }

        fn cuts(&self) -> u64 {
            2 * self.nand_ops()
        }

        fn list(&self, _: &Selection, _: Option<Cause>) -> Vec<u64> {
            (0..self.cuts()).collect()
        }

        fn run(&self, list: &[u64], _: usize, _: &(dyn Fn(u64) + Sync)) -> Outcome {
            Outcome { failures: list.iter().filter_map(|&at| self.found(at)).collect(), ..Outcome::default() }
        }

        fn tell(&self, at: u64, _: Option<Keep<'_>>) -> Result<(Story, Option<Failure>), String> {
            Ok((Story::silent(), self.found(at)))
        }

        fn uncut(&self) -> Option<&Failure> {
            self.uncut.as_ref()
        }

        fn parts(&self, at: u64) -> Option<usize> {
            Some(at as usize / 6 + 1)
        }

        fn described(&self, parts: &[usize]) -> Vec<String> {
            parts.iter().filter_map(|&part| Some(format!("{} {}", self.says, self.parts.get(part)?))).collect()
        }

        fn only(&self, parts: &[usize], draws_of: u64) -> Option<Box<dyn Cuts>> {
            let kept = parts.iter().map(|&part| self.parts[part]).collect();
            Some(Box::new(Fake::of(kept, &self.needed, Some(draws_of), self.fails_uncut)))
        }
    }

    fn whole(needed: &[usize], fails_uncut: bool) -> Enumeration {
        Enumeration(Box::new(Fake::of((0..50).collect(), needed, None, fails_uncut)))
    }

    #[test]
    fn a_failure_is_reduced_to_the_parts_it_needs_and_the_same_cut_in_them() {
        let sets = [("seed".to_owned(), "7".to_owned())];
        for needed in [&[40][..], &[3, 40], &[0, 11, 12, 39, 40]] {
            let all = whole(needed, false);
            let failure = all.tell(Fake::AT, None).unwrap().1.expect("it fails");
            assert_eq!(failure.checks, [Check::Contents]);
            let case = all.reduce(&failure, "title = 't'", &sets);
            let mut kept: Vec<usize> = std::iter::once(0).chain(needed.iter().copied()).collect();
            kept.dedup();
            assert_eq!(case.parts.as_deref(), Some(&kept[..]));
            let said: Vec<String> = kept.iter().map(|part| format!("part {part}")).collect();
            assert_eq!((&case.workload, &case.sets, case.draws_of), (&said, &sets.to_vec(), Fake::AT));
            let at = ((kept.len() as u64 - 1) * 3 + 1) * 2 + 1;
            assert_eq!((case.cut, case.checks.join(" ").as_str()), (Some(at), "contents"));
            assert_eq!(case.broken, [format!("Contents at {at}")]);
            // The file says the same, and what it says fails in the same way.
            assert_eq!(Case::parse(&case.to_text()), Ok(case.clone()));
            let again = all.of_case(&case).unwrap().expect("it has parts");
            assert_eq!(again.tell(at, None).unwrap().1, Some(Fake::failure(at, Check::Contents)));
        }
    }

    #[test]
    fn a_failure_without_any_cut_is_reduced_without_one() {
        let all = whole(&[1, 5, 40], true);
        let failure = all.0.uncut().cloned().expect("it fails");
        let case = all.reduce(&failure, "", &[]);
        assert_eq!((case.parts.as_deref(), case.cut), (Some(&[1, 5, 40][..]), None));
        assert_eq!(case.checks, ["works"]);
    }

    #[test]
    fn a_failure_that_does_not_come_again_is_kept_whole() {
        let all = whole(&[3, 40], false);
        // Another check than the one that found it.
        let case = all.reduce(&Fake::failure(Fake::AT, Check::Reads), "", &[]);
        assert_eq!((case.parts.as_ref(), case.cut, case.workload.len()), (None, Some(Fake::AT), 0));
        assert_eq!((case.checks, case.broken), (vec!["reads".to_owned()], vec![format!("Reads at {}", Fake::AT)]));
        assert!(all.of_case(&all.reduce(&Fake::failure(0, Check::Reads), "", &[])).unwrap().is_none());
    }

    #[test]
    fn a_case_of_another_workload_is_refused_with_the_first_difference() {
        let all = whole(&[3, 40], false);
        let failure = all.tell(Fake::AT, None).unwrap().1.expect("it fails");
        let case = all.reduce(&failure, "", &[]);
        let refused = |all: &Enumeration, case: &Case| match all.of_case(case) {
            Err(CaseError::Drawn { number, found, wanted }) => (number, found, wanted),
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it is taken"),
        };
        let named = |number: usize, found: &str, wanted: &str| (number, found.to_owned(), wanted.to_owned());
        let mut other = Fake::of((0..50).collect(), &[3, 40], None, false);
        other.says = "act";
        assert_eq!(refused(&Enumeration(Box::new(other)), &case), named(1, "act 0", "part 0"));
        let mut longer = case.clone();
        longer.workload.push("part 41".to_owned());
        assert_eq!(refused(&all, &longer), named(4, "none", "part 41"));
        let shorter = Case { workload: case.workload[..2].to_vec(), ..case };
        assert_eq!(refused(&all, &shorter), named(3, "part 40", "none"));
    }

    #[test]
    fn a_file_that_is_no_case_is_refused() {
        let error = |text: &str| Case::parse(text).unwrap_err().to_string();
        assert!(error("title = 1").starts_with("it is no case of `nandlab cuts`: "));
        let other = "schema = 'x'\nchecks = []\nbroken = []\nworkload = []\ndraws_of = 1\nexperiment = ''";
        assert!(error(other).contains("its schema is \"x\""), "{}", error(other));
    }
}
