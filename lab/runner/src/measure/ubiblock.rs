//! Counters of a ubiblock, of the UBI below it, and of the flash.

use nand::{Array, Store};
use sim::seam::Flash;
use sim::{Ns, Timeline};
use ubi::block::{Because, OnUbi, UbiBlock};
use ubi::{FastmapTrigger, Stats};

use super::Metrics;
use super::books::{Books, Counter, events, state};

/// Id of the metric of write-backs for a reason.
const fn write_backs_id(because: Because) -> &'static str {
    match because {
        Because::Evicted => "ubiblock.write_backs.evicted",
        Because::Flushed => "ubiblock.write_backs.flushed",
        Because::Forced => "ubiblock.write_backs.forced",
        Because::Idle => "ubiblock.write_backs.idle",
        Because::Closed => "ubiblock.write_backs.closed",
    }
}

/// Id of the metric of fastmaps written for a trigger.
const fn fastmaps_id(trigger: FastmapTrigger) -> &'static str {
    match trigger {
        FastmapTrigger::UserPool => "fastmap.writes_for.user_pool",
        FastmapTrigger::WlPool => "fastmap.writes_for.wl_pool",
        FastmapTrigger::BothPools => "fastmap.writes_for.both_pools",
        FastmapTrigger::WorkItem => "fastmap.writes_for.work_item",
        FastmapTrigger::Volumes => "fastmap.writes_for.volumes",
        FastmapTrigger::Detach => "fastmap.writes_for.detach",
    }
}

fn of_ubi(stats: &Stats) -> impl Iterator<Item = Counter> {
    let counted = [
        events("ubi.user_pebs", stats.user_pebs),
        events("ubi.erases", stats.erases),
        events("ubi.scrubs", stats.scrubs),
        state("bad.blocks", stats.retired),
        events("wl.moves", stats.moves),
        events("wl.anchor_moves", stats.anchor_moves),
        events("wl.give_backs", stats.give_backs),
        events("fastmap.writes", stats.fastmap_writes),
        events("fastmap.anchors_in_place", stats.anchors_in_place),
        events("fastmap.data_in_place", stats.data_blocks_in_place),
    ];
    let triggers = FastmapTrigger::ALL.into_iter().zip(stats.fastmap_triggers);
    counted.into_iter().chain(triggers.map(|(trigger, count)| events(fastmaps_id(trigger), count)))
}

impl Books {
    /// Reads the counters of a ubiblock.
    pub fn of_ubiblock<S: Store>(device: &UbiBlock<OnUbi<Array<S>>>) -> Books {
        let ubi = device.volume().ubi();
        let flash = ubi.flash();
        let stats = device.stats();
        let mut counters = vec![
            events("ubiblock.read_hits", stats.read_hits),
            events("ubiblock.read_misses", stats.read_misses),
            events("ubiblock.write_hits", stats.write_hits),
            events("ubiblock.loads", stats.loads),
            events("ubiblock.whole_lebs", stats.whole_lebs),
            events("ubiblock.discarded", stats.discarded),
            events("ubiblock.write_backs", stats.all_written_back()),
        ];
        counters.extend(Because::ALL.map(|because| events(write_backs_id(because), stats.written_back(because))));
        counters.push(state("ubiblock.dirty_lebs", u64::from(device.dirty_lebs())));
        counters.extend(of_ubi(ubi.stats()));
        let busy = |lines: &[Timeline]| lines.iter().map(Timeline::busy).collect::<Vec<Ns>>();
        Books {
            at: device.now(),
            page_bytes: u64::from(flash.geometry().page_bytes),
            programmed: *flash.programmed_bytes(),
            erased: flash.erases_by_cause().total(),
            counters,
            busy: (busy(flash.dies()), busy(flash.channels())),
            erases: flash.erase_counts().to_vec(),
        }
    }
}

/// Adds what follows from the counters of a ubiblock; nothing for another device.
pub(super) fn shares(metrics: &mut Metrics, counted: &Metrics) {
    let of = |id: &str| counted.value(id).ok();
    let (Some(hits), Some(loads), Some(whole)) =
        (of("ubiblock.write_hits"), of("ubiblock.loads"), of("ubiblock.whole_lebs"))
    else {
        return;
    };
    metrics.put_ratio("ubiblock.write_hit_share", hits, hits + loads + whole);
    let (Some(pebs), Some(fastmaps), Some(moves)) = (of("ubi.user_pebs"), of("fastmap.writes"), of("wl.moves")) else {
        return;
    };
    metrics.put_ratio("fastmap.writes_per_user_peb", fastmaps, pebs);
    metrics.put_ratio("fastmap.moves_per_user_peb", moves, pebs);
    for (stat, count) in
        [("anchors_in_place_share", "fastmap.anchors_in_place"), ("data_in_place_share", "fastmap.data_in_place")]
    {
        metrics.put_ratio(&format!("fastmap.{stat}"), of(count).unwrap_or(0.0), fastmaps);
    }
}
