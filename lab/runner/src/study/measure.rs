//! What a claim measures: `group.stat(run)` on bare flash, `stat(run)`, `op.stat(run)` or `phase.N.stat(run)` on a drive, and
//! arithmetic over them.

use super::expression::Expression;
use super::{Found, RunSpec, drive};
use crate::outcome::{HEAD_PEBS, Outcome};

/// A PEB outside the first 64 is an outlier when it was erased this many times as often as the others on average.
pub const OUTLIER_FACTOR: f64 = 10.0;

/// Evaluates arithmetic over measures of the runs.
/// Errors: what is wrong with the text, in words.
pub fn evaluate(text: &str, runs: &[(RunSpec, Found)]) -> Result<f64, String> {
    Expression::parse(text)?.value(&|what, id| of_run(what, id, runs))
}

/// One measure of the run called `id`.
/// Errors: there is no such run, or it has no such figure, in words.
pub(super) fn of_run(what: &str, id: &str, runs: &[(RunSpec, Found)]) -> Result<f64, String> {
    let text = format!("{what}({id})");
    let found = runs.iter().find(|(run, _)| run.id == id).map(|(_, found)| found);
    match found.ok_or_else(|| format!("`{text}`: no run `{id}`"))? {
        Found::Wear(outcome) => of_wear(&text, what, outcome),
        Found::Ssd(outcome) => drive::measure(what, outcome).map_err(|why| format!("`{text}`: {why}")),
    }
}

fn of_wear(text: &str, what: &str, outcome: &Outcome) -> Result<f64, String> {
    let (group, stat) = what.split_once('.').ok_or_else(|| format!("`{text}` is not `group.stat(run)`"))?;
    let counts = |keep: &dyn Fn(usize, u32) -> bool| -> Vec<u32> {
        let all = outcome.erase_counts.iter().copied().enumerate();
        all.filter(|&(peb, ec)| keep(peb, ec)).map(|(_, ec)| ec).collect()
    };
    let limit = outlier_limit(outcome);
    let is_outlier = |peb: usize, ec: u32| peb >= HEAD_PEBS && f64::from(ec) >= limit;
    let pebs = match group {
        "first64" => counts(&|peb, _| peb < HEAD_PEBS),
        "others" => counts(&|peb, ec| peb >= HEAD_PEBS && !is_outlier(peb, ec)),
        "outlier" => counts(&is_outlier),
        "all" => counts(&|_, _| true),
        "fastmap" => return fastmap(stat, outcome).ok_or_else(|| format!("`{text}`: no figure `{stat}`")),
        _ => return Err(format!("`{text}`: no group `{group}`")),
    };
    let sum: f64 = pebs.iter().map(|&ec| f64::from(ec)).sum();
    match stat {
        "count" => Ok(pebs.len() as f64),
        "min" => Ok(pebs.iter().min().map_or(0.0, |&ec| f64::from(ec))),
        "avg" => Ok(sum / pebs.len().max(1) as f64),
        "max" => Ok(pebs.iter().max().map_or(0.0, |&ec| f64::from(ec))),
        _ => Err(format!("`{text}`: no statistic `{stat}`")),
    }
}

fn outlier_limit(outcome: &Outcome) -> f64 {
    let mut others: Vec<u32> = outcome.erase_counts[HEAD_PEBS.min(outcome.erase_counts.len())..].to_vec();
    others.sort_unstable();
    OUTLIER_FACTOR * others.get(others.len() / 2).map_or(1.0, |&median| f64::from(median.max(1)))
}

fn fastmap(stat: &str, outcome: &Outcome) -> Option<f64> {
    let figures = &outcome.fastmap;
    Some(match stat {
        "writes_per_user_peb" => figures.writes_per_user_peb,
        "mean_user_pool" => figures.mean_user_pool,
        "starved_refill_share" => figures.starved_refill_share,
        "empty_wl_pool_share" => figures.empty_wl_pool_share,
        "anchors_in_place_share" => figures.anchors_in_place_share,
        "data_in_place_share" => figures.data_in_place_share,
        "give_backs_per_write" => figures.give_backs_per_write,
        "moves_per_user_peb" => figures.moves_per_user_peb,
        _ => return None,
    })
}
