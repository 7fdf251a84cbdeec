//! Terminal output for a run on raw flash.

use runner::measure::Outcome;
use runner::measure::outcome::flash::{FlashOutcome, head_ratio};
use runner::report::drive::span;
use runner::report::grouped;

use super::of_part;

/// A summary for a terminal.
pub fn summary(found: &Outcome, detail: &FlashOutcome) -> String {
    let measured = &found.measured;
    let (peb, ec) = measured.most_worn();
    let groups = &detail.groups;
    let mut text = format!(
        "{}: {} steps, {} erasures in {} of virtual time (stopped by {})\n\n{}\n",
        found.experiment.title,
        grouped(detail.steps),
        grouped(measured.erase_counts.iter().map(|&ec| u64::from(ec)).sum()),
        span(measured.virtual_ns as f64),
        measured.stopped_by,
        detail.table.print(),
    );
    text += &format!("first 64 PEBs: {}~{}\n", groups.first64.min, groups.first64.max);
    text += &format!("others: {}~{}\n", groups.others.min, groups.others.max);
    let ratio = head_ratio(&measured.erase_counts);
    text += &format!("first 64 over others: {ratio:.2}; most worn: PEB {peb}, {ec}\n");
    text += &format!(
        "fastmap writes per PEB {:.4}, mean user pool {:.2}, anchors in place {:.1} %\n",
        detail.fastmap.writes_per_user_peb,
        detail.fastmap.mean_user_pool,
        100.0 * detail.fastmap.anchors_in_place_share,
    );
    text += &of_part(found);
    text += &format!("fingerprint {}\n", found.fingerprint);
    text
}
