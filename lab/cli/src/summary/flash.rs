//! Terminal output for a run on raw flash.

use runner::measure::Outcome;
use runner::measure::outcome::flash::{FlashOutcome, VolumesOutcome, head_ratio};
use runner::measure::outcome::jffs1::JffsOutcome;
use runner::report::drive::{bytes, span};
use runner::report::grouped;

use super::file_system::of_file_system;
use super::{of_faults, of_part};

/// A summary for a terminal.
pub fn summary(found: &Outcome, detail: &FlashOutcome) -> String {
    let measured = &found.measured;
    let (peb, ec) = measured.most_worn();
    let groups = &detail.groups;
    let steps = if detail.file_system.is_some() { "operations" } else { "steps" };
    let mut text = format!(
        "{}: {} {steps}, {} erasures in {} of virtual time (stopped by {})\n\n{}\n",
        found.experiment.title,
        grouped(detail.steps),
        grouped(measured.erase_counts.iter().map(|&ec| u64::from(ec)).sum()),
        span(measured.virtual_ns as f64),
        measured.stopped_by,
        detail.table.print(),
    );
    text += &format!("first 64 PEBs: {}~{}\n", groups.first64.min, groups.first64.max);
    if groups.others.count > 0 {
        text += &format!("others: {}~{}\n", groups.others.min, groups.others.max);
    }
    if let Some(ratio) = head_ratio(&measured.erase_counts) {
        text += &format!("first 64 over others: {ratio:.2}; ");
    }
    text += &format!("most worn: PEB {peb}, {ec}\n");
    if let Some(fastmap) = &detail.fastmap {
        text += &format!(
            "fastmap writes per PEB {:.4}, mean user pool {:.2}, anchors in place {:.1} %\n",
            fastmap.writes_per_user_peb,
            fastmap.mean_user_pool,
            100.0 * fastmap.anchors_in_place_share,
        );
    }
    if let Some(volumes) = &detail.volumes {
        text += &of_volumes(found, detail, volumes);
    }
    if let Some(files) = &detail.file_system {
        text += &of_file_system(found, detail, files);
    }
    if let Some(jffs) = &detail.jffs {
        text += &of_jffs(jffs);
    }
    text += &of_faults(found);
    text += &of_part(found);
    text += &format!("fingerprint {}\n", found.fingerprint);
    text
}

/// What the volumes' users wrote, and how fast the blocks wear.
fn of_volumes(found: &Outcome, detail: &FlashOutcome, volumes: &VolumesOutcome) -> String {
    let metric = |id: &str| found.metrics().value(id).unwrap_or(0.0);
    let mut text = String::new();
    for volume in &volumes.volumes {
        text += &format!("volume {} ({}): {} LEBs", volume.name, volume.pattern, grouped(volume.lebs.into()));
        for (what, bytes) in [("written", volume.host_bytes), ("read", volume.read_bytes)] {
            if bytes > 0 {
                text += &format!(", {:.3} GB {what}", bytes as f64 / 1e9);
            }
        }
        if volume.lost_lebs > 0 {
            text += &format!(", {} LEBs lost", grouped(volume.lost_lebs.into()));
        }
        text += &if volume.updates > 0 { format!(", {} updates\n", grouped(volume.updates)) } else { "\n".to_owned() };
    }
    let days = found.measured.virtual_ns as f64 / 86_400e9;
    text += &format!(
        "simulated: {days:.1} days, {:.3} GB written; {:.3} bytes on flash per byte\n",
        detail.host_bytes as f64 / 1e9,
        metric("waf"),
    );
    text += &format!(
        "second half: mean erase count +{:.3} a day, greatest +{:.3} a day\n",
        metric("late.mean_erases_per_day"),
        metric("late.max_erases_per_day"),
    );
    if volumes.behind_ns > 0 {
        text += &format!("the last operation began {:.3} s late\n", metric("host.behind_s"));
    }
    text
}

/// What the full flash holds, and what followed.
fn of_jffs(jffs: &JffsOutcome) -> String {
    let full = &jffs.full;
    let mut text = format!(
        "mount of the erased flash: {}\nfull: {} nodes, {} of data, {} of headers, {} dirty, {} free\n",
        span(jffs.mount_empty.ns() as f64),
        grouped(full.nodes.into()),
        bytes(full.data_bytes),
        bytes(full.header_bytes),
        bytes(full.dirty_bytes),
        bytes(full.free_bytes),
    );
    if let Some(then) = &jffs.then {
        let time = |ns: u64| span(ns as f64);
        let work = &then.work;
        text += &format!(
            "then: {}: processor {}, reads {}, programs {}, erases {}\n",
            time(work.ns()),
            time(work.cpu_ns),
            time(work.bus_ns),
            time(work.program_ns),
            time(work.erase_ns),
        );
        if let Some(longest) = then.passes.iter().map(|pass| pass.ns).max() {
            let count = grouped(then.passes.len() as u64);
            text += &format!("garbage collection: {count} passes, the longest {}\n", time(longest));
        }
    }
    text
}
