//! Claims and verdicts.

use serde::{Deserialize, Serialize};

use super::StudyError;
use super::expression::Expression;
use super::measure;
use super::spec::{ClaimSpec, RunSpec, Spec};
use crate::measure::Outcome;

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
}

/// A judged claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Id of the claim.
    pub id: String,
    /// Expression that was evaluated.
    pub text: String,
    /// The published number.
    pub published: f64,
    /// Our value.
    pub ours: f64,
    /// The tolerance, in words.
    pub tolerance: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it misses, if the study gives a reason.
    pub reason: Option<String>,
}

/// Every claim of a study: those in `study.toml`, and min, avg and max of both groups for runs with `claim_groups`.
pub(super) fn expand(spec: &Spec) -> Result<Vec<(ClaimSpec, f64)>, StudyError> {
    let mut claims = Vec::new();
    for claim in &spec.claims {
        for id in runs_of(spec, claim)? {
            if !spec.runs.iter().any(|run| run.id == id) {
                return Err(spec.wrong(&claim.id, format!("no run `{id}`")));
            }
        }
        if [claim.within, claim.below, claim.above].iter().flatten().count() != 1 {
            return Err(spec.wrong(&claim.id, "one of `within`, `below` and `above`"));
        }
        claims.push((claim.clone(), spec.published_number(&claim.published)?));
    }
    for run in spec.runs.iter().filter(|run| run.claim_groups) {
        let Some(groups) = spec.groups(run)? else { continue };
        for (name, group) in [("first64", groups.first64), ("others", groups.others)] {
            for (stat, metric, value) in
                [("min", "min", Some(group.min)), ("avg", "mean", group.avg), ("max", "max", Some(group.max))]
            {
                let Some(value) = value else { continue };
                let claim = ClaimSpec {
                    id: format!("{}/{name}/{stat}", run.id),
                    ours: format!("wear.{name}.{metric}({})", run.id),
                    published: String::new(),
                    within: Some(spec.tolerance),
                    below: None,
                    above: None,
                    calibrated: (run.stops_at_published_mean && name == "others" && stat == "avg")
                        || run.calibrated_groups.iter().any(|group| group == name),
                    scale_free: false,
                };
                claims.push((claim, value));
            }
        }
    }
    Ok(claims)
}

/// The runs that a claim names.
/// Errors: the expression cannot be parsed.
fn runs_of<'a>(spec: &Spec, claim: &'a ClaimSpec) -> Result<Vec<&'a str>, StudyError> {
    Ok(Expression::parse(&claim.ours).map_err(|what| spec.wrong(&claim.id, what))?.runs())
}

/// Judges the claims; of a quick study only those that do not depend on the length of a run, and those of runs not
/// shortened.
pub(super) fn judge(spec: &Spec, runs: &[(RunSpec, Outcome)], quick: bool) -> Result<Vec<Claim>, StudyError> {
    let cut_short = |id: &str| quick && runs.iter().any(|(run, _)| run.id == id && run.quick < 1.0);
    let mut judged = Vec::new();
    for (claim, published) in expand(spec)? {
        if !claim.scale_free && runs_of(spec, &claim)?.into_iter().any(cut_short) {
            continue;
        }
        let ours = measure::evaluate(&claim.ours, runs).map_err(|what| spec.wrong(&claim.id, what))?;
        judged.push(verdict(spec, claim, published, ours));
    }
    Ok(judged)
}

fn verdict(spec: &Spec, claim: ClaimSpec, published: f64, ours: f64) -> Claim {
    let (holds, tolerance) = match (claim.below, claim.above, claim.within) {
        (Some(bound), ..) => (ours < bound, format!("< {bound}")),
        (None, Some(bound), _) => (ours > bound, format!("> {bound}")),
        (None, None, within) => {
            let within = within.unwrap_or(0.0);
            ((ours - published).abs() <= within * published.abs(), format!("{} %", (within * 1000.0).round() / 10.0))
        }
    };
    let verdict = match (claim.calibrated, holds) {
        (true, _) => Verdict::Calibrated,
        (false, true) => Verdict::Hit,
        (false, false) => Verdict::Miss,
    };
    let reason = if verdict == Verdict::Miss {
        spec.reasons.iter().find(|(prefix, _)| claim.id.starts_with(prefix.as_str())).map(|(_, why)| why.clone())
    } else {
        None
    };
    Claim { id: claim.id, text: claim.ours, published, ours, tolerance, verdict, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec::parse(&super::super::ALL[0]).unwrap()
    }

    fn claim(within: Option<f64>, below: Option<f64>, calibrated: bool) -> ClaimSpec {
        ClaimSpec {
            id: "x".to_owned(),
            ours: String::new(),
            published: String::new(),
            within,
            below,
            above: None,
            calibrated,
            scale_free: true,
        }
    }

    #[test]
    fn a_tolerance_has_two_sides_and_a_bound_one() {
        let of = |claim: ClaimSpec, ours| verdict(&spec(), claim, 100.0, ours).verdict;
        assert_eq!(of(claim(Some(0.1), None, false), 110.0), Verdict::Hit);
        assert_eq!(of(claim(Some(0.1), None, false), 110.1), Verdict::Miss);
        assert_eq!(of(claim(Some(0.1), None, false), 89.9), Verdict::Miss);
        assert_eq!(of(claim(None, Some(128.0), false), 127.9), Verdict::Hit);
        assert_eq!(of(claim(None, Some(128.0), false), 128.0), Verdict::Miss);
        assert_eq!(of(claim(None, Some(128.0), false), 3.0), Verdict::Hit);
        let above = || ClaimSpec { above: Some(128.0), ..claim(None, None, false) };
        assert_eq!(
            [of(above(), 128.0), of(above(), 128.1), of(above(), f64::NAN)],
            [Verdict::Miss, Verdict::Hit, Verdict::Miss]
        );
    }

    #[test]
    fn what_follows_from_a_fitted_number_is_calibrated_too() {
        let study = Spec::parse(&super::super::ALL[1]).unwrap();
        let fitted: Vec<_> = expand(&study).unwrap().into_iter().filter(|(claim, _)| claim.calibrated).collect();
        for id in ["A before/first64/min", "A before/first64/avg", "A before/first64/max"] {
            assert!(fitted.iter().any(|(claim, _)| claim.id == id), "{id}");
        }
        assert!(fitted.iter().all(|(claim, _)| !claim.id.starts_with("B before/first64")));
    }

    #[test]
    fn what_was_calibrated_is_never_a_hit() {
        assert_eq!(verdict(&spec(), claim(Some(0.1), None, true), 100.0, 100.0).verdict, Verdict::Calibrated);
    }
}
