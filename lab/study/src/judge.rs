//! Claims and verdicts.

use std::fmt;

use runner::measure::Outcome;
use serde::{Deserialize, Serialize};

use super::StudyError;
use super::expression::Expression;
use super::guest::{MissingLog, why_no_value};
use super::measure;
use super::published::PublishedGroup;
use super::spec::{ClaimSpec, RunSpec, Spec};

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Our value is within the tolerance.
    Hit,
    /// Our value is outside the tolerance.
    Miss,
    /// The model was fitted to the published number: not counted as a hit.
    Calibrated,
    /// There is no log of a guest's run that it needs.
    #[serde(rename = "not judged")]
    NotJudged,
}

/// Origin of the number with which a claim compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Printed in a document, or measured on a real kernel.
    Published,
    /// From arithmetic or theory.
    Derived,
    /// From the model's own rules: an identity, or an order that no document states. It guards the model and predicts
    /// nothing.
    #[serde(rename = "self-check")]
    SelfCheck,
}

impl Kind {
    /// Every kind, in the order in which they are shown.
    pub const ALL: [Kind; 3] = [Kind::Published, Kind::Derived, Kind::SelfCheck];

    /// Its name in documents and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Published => "published",
            Kind::Derived => "derived",
            Kind::SelfCheck => "self-check",
        }
    }
}

/// How our value must stand to the number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// It differs by this share of the number at most.
    Within(f64),
    /// It is below this bound.
    Below(f64),
    /// It is above this bound.
    Above(f64),
}

impl Relation {
    fn holds(self, expected: f64, ours: f64) -> bool {
        match self {
            Relation::Within(share) => (ours - expected).abs() <= share * expected.abs(),
            Relation::Below(bound) => ours < bound,
            Relation::Above(bound) => ours > bound,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relation::Within(share) => write!(f, "± {} %", (share * 1000.0).round() / 10.0),
            Relation::Below(bound) => write!(f, "< {bound}"),
            Relation::Above(bound) => write!(f, "> {bound}"),
        }
    }
}

/// A judged claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Id of the claim.
    pub id: String,
    /// Expression that was evaluated.
    pub text: String,
    /// Origin of `expected`.
    pub kind: Kind,
    /// The published or derived number; `None` for a bound without one.
    pub expected: Option<f64>,
    /// How `ours` must stand to it.
    pub relation: Relation,
    /// Our value; `None` for a claim that is not judged.
    pub ours: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Words of a document that state the order, for a bound without a number that is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stated: Option<String>,
    /// Why it is not judged; why it misses, if the study gives a reason.
    pub reason: Option<String>,
}

/// Why a claim on the number at which a run stops is refused.
const STOP_MEAN: &str = "the run stops when the mean of the others is the published one, which then is no claim";

/// A claim that is not judged yet.
#[derive(Clone, Debug)]
pub(super) struct Stated {
    spec: ClaimSpec,
    kind: Kind,
    expected: Option<f64>,
    relation: Relation,
}

impl Stated {
    /// Resolves a claim of `study.toml`.
    /// Errors: no run of its name; not one relation; no number where it needs one.
    fn new(spec: &Spec, claim: &ClaimSpec) -> Result<Stated, StudyError> {
        if let Some(id) = runs_of(spec, claim)?.into_iter().find(|id| !spec.runs.iter().any(|run| run.id == *id)) {
            return Err(spec.wrong(&claim.id, format!("no run `{id}`")));
        }
        if claim.at_x.is_some() {
            return Err(spec.wrong(&claim.id, "`at_x` is for the claims of a grid"));
        }
        let text: String = claim.ours.split_whitespace().collect();
        let is_its_stop =
            |run: &RunSpec| run.stops_at_published_mean && text == format!("wear.others.mean({})", run.id);
        if !claim.calibrated && spec.runs.iter().any(is_its_stop) {
            return Err(spec.wrong(&claim.id, STOP_MEAN));
        }
        let relation = match (claim.within, claim.below, claim.above) {
            (Some(share), None, None) => Relation::Within(share),
            (None, Some(bound), None) => Relation::Below(bound),
            (None, None, Some(bound)) => Relation::Above(bound),
            _ => return Err(spec.wrong(&claim.id, "expected one of `within`, `below` and `above`")),
        };
        let is_bound = !matches!(relation, Relation::Within(_));
        let (kind, expected) = match (&claim.published, &claim.derived, &claim.stated, claim.self_check) {
            (Some(path), None, None, false) => (Kind::Published, Some(spec.published_number(path)?)),
            (None, Some(path), None, false) => (Kind::Derived, Some(spec.derived_number(path)?)),
            (None, Some(path), None, true) => (Kind::SelfCheck, Some(spec.derived_number(path)?)),
            (None, None, Some(_), false) if is_bound => (Kind::Published, None),
            (None, None, None, _) if is_bound => (Kind::SelfCheck, None),
            (Some(_), .., true) | (_, _, Some(_), true) => {
                return Err(spec.wrong(&claim.id, "`self_check`, but a document has it: leave one out"));
            }
            (_, _, Some(_), _) => {
                return Err(spec.wrong(&claim.id, "`stated` is for `below` and `above` without a number"));
            }
            _ => return Err(spec.wrong(&claim.id, "expected one of `published` and `derived`")),
        };
        Ok(Stated { spec: claim.clone(), kind, expected, relation })
    }

    /// A claim on the wear table of a run: `GROUP/STAT`.
    /// Errors: there is no such number in the published table.
    fn of_table(spec: &Spec, run: &RunSpec, name: &str) -> Result<Stated, StudyError> {
        let groups = spec.groups(run)?;
        let groups = groups.ok_or_else(|| spec.wrong(&run.id, "`claims` needs a wear table: `published`"))?;
        let wrong = || spec.wrong(&run.id, format!("`claims`: the published table has no `{name}`"));
        let (group, stat) = name.split_once('/').ok_or_else(wrong)?;
        let PublishedGroup { min, avg, max } = match group {
            "first64" => groups.first64,
            "others" => groups.others,
            _ => return Err(wrong()),
        };
        let ours = |metric: &str| format!("wear.{group}.{metric}({})", run.id);
        let (expected, ours) = match stat {
            "min" => (min, ours("min")),
            "avg" => (avg.ok_or_else(wrong)?, ours("mean")),
            "max" => (max, ours("max")),
            "spread" => (max - min, format!("{} - {}", ours("max"), ours("min"))),
            _ => return Err(wrong()),
        };
        if run.stops_at_published_mean && name == "others/avg" {
            return Err(spec.wrong(&run.id, STOP_MEAN));
        }
        let calibrated = run.calibrated_groups.iter().any(|calibrated| calibrated == group);
        let claim = ClaimSpec { id: format!("{}/{name}", run.id), ours, calibrated, ..ClaimSpec::default() };
        let relation = Relation::Within(spec.tolerance);
        Ok(Stated { spec: claim, kind: Kind::Published, expected: Some(expected), relation })
    }

    /// Its id.
    pub(super) fn id(&self) -> &str {
        &self.spec.id
    }

    /// Its kind.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    fn judge(self, spec: &Spec, ours: f64) -> Claim {
        let Stated { spec: claim, kind, expected, relation } = self;
        let verdict = match (claim.calibrated, relation.holds(expected.unwrap_or(f64::NAN), ours)) {
            (true, _) => Verdict::Calibrated,
            (false, true) => Verdict::Hit,
            (false, false) => Verdict::Miss,
        };
        let why = || spec.reasons.iter().find(|(prefix, _)| claim.id.starts_with(prefix.as_str()));
        let reason = (verdict == Verdict::Miss).then(why).flatten().map(|(_, why)| why.clone());
        let ClaimSpec { id, ours: text, stated, .. } = claim;
        Claim { id, text, kind, expected, relation, ours: Some(ours), verdict, stated, reason }
    }

    /// A claim that cannot be judged, and why.
    fn leave(self, why: String) -> Claim {
        let Stated { spec: ClaimSpec { id, ours: text, stated, .. }, kind, expected, relation } = self;
        let verdict = Verdict::NotJudged;
        Claim { id, text, kind, expected, relation, ours: None, verdict, stated, reason: Some(why) }
    }
}

/// Every claim of a study: those of `study.toml`, and those on the wear tables of its runs.
pub(super) fn expand(spec: &Spec) -> Result<Vec<Stated>, StudyError> {
    let tables = spec.runs.iter().flat_map(|run| run.claims.iter().map(move |name| (run, name)));
    let stated = spec.claims.iter().map(|claim| Stated::new(spec, claim));
    stated.chain(tables.map(|(run, name)| Stated::of_table(spec, run, name))).collect()
}

/// The runs that a claim names.
/// Errors: the expression cannot be parsed.
fn runs_of<'a>(spec: &Spec, claim: &'a ClaimSpec) -> Result<Vec<&'a str>, StudyError> {
    Ok(Expression::parse(&claim.ours).map_err(|what| spec.wrong(&claim.id, what))?.runs())
}

/// Judges the claims; of a quick study only those that do not depend on the length of a run, and those of runs not
/// shortened. A claim on a run of `missing` is not judged.
pub(super) fn judge(
    spec: &Spec,
    runs: &[(RunSpec, Outcome)],
    missing: &[MissingLog],
    quick: bool,
) -> Result<Vec<Claim>, StudyError> {
    let cut_short = |id: &str| quick && runs.iter().any(|(run, _)| run.id == id && run.quick < 1.0);
    let mut judged = Vec::new();
    for claim in expand(spec)? {
        let names = runs_of(spec, &claim.spec)?;
        if !claim.spec.scale_free && names.iter().any(|id| cut_short(id)) {
            continue;
        }
        if let Some(why) = why_no_value(&names, missing) {
            judged.push(claim.leave(why));
            continue;
        }
        let ours = measure::evaluate(&claim.spec.ours, runs).map_err(|what| spec.wrong(&claim.spec.id, what))?;
        judged.push(claim.judge(spec, ours));
    }
    Ok(judged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec::parse(&super::super::ALL[0]).unwrap()
    }

    fn judged(relation: Relation, calibrated: bool, ours: f64) -> Verdict {
        let claim = ClaimSpec { calibrated, ..ClaimSpec::default() };
        let stated = Stated { spec: claim, kind: Kind::Published, expected: Some(100.0), relation };
        stated.judge(&spec(), ours).verdict
    }

    #[test]
    fn a_tolerance_has_two_sides_and_a_bound_one() {
        let tenth = Relation::Within(0.1);
        assert_eq!(
            [110.0, 110.1, 89.9].map(|ours| judged(tenth, false, ours)),
            [Verdict::Hit, Verdict::Miss, Verdict::Miss]
        );
        let below = Relation::Below(128.0);
        assert_eq!(
            [127.9, 128.0, 3.0].map(|ours| judged(below, false, ours)),
            [Verdict::Hit, Verdict::Miss, Verdict::Hit]
        );
        let above = Relation::Above(128.0);
        assert_eq!(
            [128.0, 128.1, f64::NAN].map(|ours| judged(above, false, ours)),
            [Verdict::Miss, Verdict::Hit, Verdict::Miss]
        );
    }

    /// A difference has a sign, and of a number below zero a share of it has none.
    #[test]
    fn a_tolerance_is_a_share_of_the_size_of_the_number() {
        let verdict = |expected, ours| {
            let (spec, relation) = (spec(), Relation::Within(0.1));
            let claim = Stated { spec: ClaimSpec::default(), kind: Kind::Derived, expected: Some(expected), relation };
            claim.judge(&spec, ours).verdict
        };
        for (ours, expected) in
            [(-110.0, Verdict::Hit), (-90.0, Verdict::Hit), (-110.1, Verdict::Miss), (-89.9, Verdict::Miss)]
        {
            assert_eq!(verdict(-100.0, ours), expected, "{ours}");
        }
        assert_eq!((verdict(-100.0, 100.0), verdict(100.0, -100.0)), (Verdict::Miss, Verdict::Miss));
        assert_eq!((verdict(0.0, 0.0), verdict(0.0, 1e-9)), (Verdict::Hit, Verdict::Miss));
    }

    #[test]
    fn what_was_calibrated_is_never_a_hit() {
        for ours in [100.0, 109.0, 150.0, 0.0, f64::NAN] {
            assert_eq!(judged(Relation::Within(0.1), true, ours), Verdict::Calibrated, "nor a miss");
        }
    }

    /// The reason of a study is for claims that miss; a hit needs none, and one that is not judged has its own.
    #[test]
    fn a_reason_is_given_for_a_miss_alone() {
        let mut spec = spec();
        spec.reasons = [("a/".to_owned(), "because".to_owned())].into();
        let reason = |id: &str, calibrated, ours| {
            let claim = ClaimSpec { id: id.to_owned(), calibrated, ..ClaimSpec::default() };
            let relation = Relation::Within(0.1);
            Stated { spec: claim, kind: Kind::Derived, expected: Some(2.0), relation }.judge(&spec, ours).reason
        };
        assert_eq!(reason("a/x", false, 3.0).as_deref(), Some("because"));
        assert_eq!(
            (reason("ba/x", false, 3.0), reason("a/x", false, 2.0), reason("a/x", true, 3.0)),
            (None, None, None)
        );
    }

    /// A study of one run with this line in its claim.
    fn claim(line: &str) -> Result<Stated, String> {
        let study = format!(
            "question = '?'\nbase = {{ title = 't' }}\nderived = {{ one = 1.5 }}\nrun = [{{ id = 'a', title = 'a' }}]\n\
             [[claim]]\nid = 'c'\nours = 'waf(a)'\n{line}\n"
        );
        let source = super::super::Source { name: "x".into(), toml: study.into(), published: "{\"two\": 2}".into() };
        let spec = Spec::parse(&source).map_err(|error| error.to_string())?;
        expand(&spec).map(|mut claims| claims.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_claim_is_published_derived_or_a_self_check() {
        let of = |line| claim(line).map(|claim| (claim.kind, claim.expected, claim.relation)).unwrap();
        assert_eq!(of("published = '/two'\nwithin = 0.1"), (Kind::Published, Some(2.0), Relation::Within(0.1)));
        assert_eq!(of("published = '/two'\nbelow = 3"), (Kind::Published, Some(2.0), Relation::Below(3.0)));
        assert_eq!(of("derived = '/one'\nwithin = 0.1"), (Kind::Derived, Some(1.5), Relation::Within(0.1)));
        assert_eq!(of("above = 1\nstated = 'slide 2: more'"), (Kind::Published, None, Relation::Above(1.0)));
        assert_eq!(of("above = 1"), (Kind::SelfCheck, None, Relation::Above(1.0)));
        assert_eq!(of("above = 1\nself_check = true"), (Kind::SelfCheck, None, Relation::Above(1.0)));
        let identity = "derived = '/one'\nwithin = 0.0\nself_check = true";
        assert_eq!(of(identity), (Kind::SelfCheck, Some(1.5), Relation::Within(0.0)));
    }

    /// One relation; and one number, or for a bound none.
    #[test]
    fn of_all_combinations_just_those_that_can_be_judged_are_accepted() {
        for given in 0..32 {
            let lines = ["published = '/two'", "derived = '/one'", "within = 0.1", "below = 3", "above = 1"];
            let has = |at: usize| given >> at & 1 == 1;
            let chosen: Vec<&str> = (0..5).filter(|&at| has(at)).map(|at| lines[at]).collect();
            let numbers = [0, 1].into_iter().filter(|&at| has(at)).count();
            let relations = [2, 3, 4].into_iter().filter(|&at| has(at)).count();
            let is_one = relations == 1 && (numbers == 1 || numbers == 0 && !has(2));
            assert_eq!(claim(&chosen.join("\n")).is_ok(), is_one, "{chosen:?}");
        }
    }

    /// Claims of a study with a wear table, on a run that stops at the table's mean, or at its own.
    fn on_a_table(stops: bool, claims: &str) -> Result<usize, String> {
        let study = format!(
            "question = '?'\ntolerance = 0.1\nbase = {{ title = 't' }}\n\
             run = [{{ id = 'a', title = 'a', published = '/table', stops_at_published_mean = {stops}, {claims} }}]\n"
        );
        let study = study.replace(" }]\n[[claim]]", " }]\n\n[[claim]]");
        let published = "{\"table\": {\"bins\": [{\"count\": 64, \"min\": 5, \"avg\": 6, \"max\": 7}, \
                         {\"count\": 100, \"min\": 1, \"avg\": 2, \"max\": 3}], \
                         \"total\": {\"count\": 164, \"min\": 1, \"avg\": 3.6, \"max\": 7}}}";
        let source = super::super::Source { name: "x".into(), toml: study.into(), published: published.into() };
        let spec = Spec::parse(&source).map_err(|error| error.to_string())?;
        expand(&spec).map(|claims| claims.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_mean_at_which_a_run_stops_is_no_claim() {
        let all =
            "claims = ['first64/min', 'first64/avg', 'first64/max', 'first64/spread', 'others/min', 'others/avg']";
        assert_eq!(on_a_table(false, all), Ok(6));
        let error = on_a_table(true, all).unwrap_err();
        assert!(error.contains("is no claim"), "{error}");
        assert_eq!(on_a_table(true, "claims = ['others/min', 'others/max', 'others/spread']"), Ok(3));
        let by_hand = |stops, calibrated| {
            let claim = format!(
                "claims = [] }}]\n[[claim]]\nid = 'c'\nours = ' wear.others.mean(a) '\npublished = '/table/bins/1/avg'\n\
                 within = 0.1\ncalibrated = {calibrated}\n#"
            );
            on_a_table(stops, &claim)
        };
        assert_eq!((by_hand(false, false), by_hand(true, true)), (Ok(1), Ok(1)));
        assert!(by_hand(true, false).unwrap_err().contains("is no claim"));
    }

    /// The table of [`on_a_table`]: 5, 6 and 7; 1, 2 and 3.
    #[test]
    fn a_claim_on_a_table_compares_a_statistic_with_the_printed_one() {
        let study = "question = '?'\ntolerance = 0.1\nbase = { title = 't' }\nrun = [{ id = 'a', title = 'a', \
                     published = '/table', calibrated_groups = ['first64'], claims = ['first64/min', 'first64/avg', \
                     'first64/max', 'first64/spread', 'others/min', 'others/avg', 'others/max', 'others/spread'] }]\n";
        let published = "{\"table\": {\"bins\": [{\"count\": 64, \"min\": 5, \"avg\": 6, \"max\": 7.5}, \
                         {\"count\": 100, \"min\": 1, \"avg\": 2, \"max\": 3}], \
                         \"total\": {\"count\": 164, \"min\": 1, \"avg\": 3.6, \"max\": 7.5}}}";
        let source = super::super::Source { name: "x".into(), toml: study.into(), published: published.into() };
        let claims = expand(&Spec::parse(&source).unwrap()).unwrap();
        let found: Vec<_> = claims
            .iter()
            .map(|claim| (claim.id(), claim.spec.ours.as_str(), claim.expected, claim.spec.calibrated))
            .collect();
        let both = |group: &str| format!("wear.{group}.max(a) - wear.{group}.min(a)");
        let (first, others) = (both("first64"), both("others"));
        let expected = [
            ("a/first64/min", "wear.first64.min(a)", Some(5.0), true),
            ("a/first64/avg", "wear.first64.mean(a)", Some(6.0), true),
            ("a/first64/max", "wear.first64.max(a)", Some(7.5), true),
            ("a/first64/spread", first.as_str(), Some(2.5), true),
            ("a/others/min", "wear.others.min(a)", Some(1.0), false),
            ("a/others/avg", "wear.others.mean(a)", Some(2.0), false),
            ("a/others/max", "wear.others.max(a)", Some(3.0), false),
            ("a/others/spread", others.as_str(), Some(2.0), false),
        ];
        assert_eq!(found, expected);
        let all = claims.iter().all(|claim| (claim.kind, claim.relation) == (Kind::Published, Relation::Within(0.1)));
        assert!(all, "{claims:?}");
    }

    const DRIVE: &str = "kind = 'ssd'
question = 'How many?'
[base]
title = 'base'
seed = 77
[base.ssd]
channels = 1
ways = 1
planes = 1
blocks = 16
pages = 16
over_provisioning_percent = 40
[base.precondition]
kind = 'sequential'
[base.workload]
rw = 'randread'
requests = 40
[[run]]
id = 'cut'
title = 'cut short'
quick = 0.5
[[run]]
id = 'whole'
title = 'whole'
[[claim]]
id = 'of the cut one'
ours = 'read.count(cut)'
published = '/forty'
within = 0.0
[[claim]]
id = 'of the whole one'
ours = 'read.count(whole)'
published = '/forty'
within = 0.0
[[claim]]
id = 'of both'
ours = 'read.count(whole) / read.count(cut)'
published = '/one'
within = 0.0
[[claim]]
id = 'of any length'
ours = 'read.count(cut) / read.count(cut)'
published = '/one'
within = 0.0
scale_free = true
";

    #[test]
    fn a_quick_study_judges_only_what_is_not_cut_short() {
        let judged = |quick| {
            let published = "{\"forty\": 40, \"one\": 1}";
            let source = super::super::Source { name: "x".into(), toml: DRIVE.into(), published: published.into() };
            let library = runner::parts::Library::embedded();
            let done = super::super::run(&source, quick, library, &(), &|_, _| ()).unwrap();
            let judgement = done.judgement;
            assert_eq!((judgement.quick, judgement.seed, judgement.study.as_str()), (quick, 77, "x"));
            let ids: Vec<&str> = judgement.fingerprints.iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!(ids, ["cut", "whole"]);
            let claims = judgement.claims;
            assert!(claims.iter().all(|claim| claim.verdict == Verdict::Hit), "{claims:?}");
            claims.into_iter().map(|claim| claim.id).collect::<Vec<_>>()
        };
        assert_eq!(judged(false), ["of the cut one", "of the whole one", "of both", "of any length"]);
        assert_eq!(judged(true), ["of the whole one", "of any length"]);
    }

    #[test]
    fn a_claim_that_compares_with_nothing_or_twice_is_refused() {
        for (line, what) in [
            ("within = 0.1", "one of `published` and `derived`"),
            ("published = '/two'\nderived = '/one'\nwithin = 0.1", "one of `published` and `derived`"),
            ("published = '/two'", "one of `within`, `below` and `above`"),
            ("published = '/two'\nwithin = 0.1\nbelow = 3", "one of `within`, `below` and `above`"),
            ("derived = '/two'\nwithin = 0.1", "nothing at `/two`"),
            ("above = 1\nat_x = 2", "`at_x`"),
            ("within = 0.1\nstated = 'more'", "`stated` is for"),
            ("published = '/two'\nabove = 1\nstated = 'more'", "`stated` is for"),
            ("derived = '/one'\nabove = 1\nstated = 'more'", "`stated` is for"),
            ("published = '/two'\nwithin = 0.1\nself_check = true", "leave one out"),
            ("above = 1\nstated = 'more'\nself_check = true", "leave one out"),
            ("within = 0.1\nself_check = true", "one of `published` and `derived`"),
        ] {
            let error = claim(line).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
