//! The device under test: does operations on it, and compares its contents with the model.

use std::sync::Arc;

use nand::Bytes;
use sim::seam::{Flash, FlashError, LebError, LebVolume, Payload};
use sim::{Cx, EraseCount, Lnum, Peb, Rng, VolId};
use ubi::attach::{
    AttachError, AttachInfo, FastmapUnusable, PebFate, attach_by_fastmap_of, attach_by_scan_of, choose, compare,
};
use ubi::layout::Layout;
use ubi::media::{LAYOUT_LEBS, LAYOUT_VOLUME_ID, VidHdr, VolType};
use ubi::wl::Owner;
use ubi::{AttachFailure, Config, Ubi, UbiError, VolumeRequest, VolumeSize};

use super::known::Known;
use super::model::{Leb, Legal, Seen, State, Table, World, legal_before};
use super::plan::UbiPlan;
use super::workload::{Limits, Op};
use crate::Story;
use crate::check::{Breach, Broken, Check};
use crate::engine::Tally;
use crate::tape::{FlashOp, Tape};

/// Why the device is down.
pub(super) enum Down {
    /// Power was lost at the cut.
    Power(Box<Tape>),
    /// Another failure.
    Broken(Breach),
}

/// Attaches, by fastmap if there is one and `config` allows it.
pub(super) fn bring_up(plan: &UbiPlan, config: &Config, tape: Tape) -> Result<Ubi<Tape>, Down> {
    came_up(plan, Ubi::attach(tape, &mut Cx::new(), config))
}

/// Attaches from what was found on the flash, if it still holds.
pub(super) fn bring_up_from(
    plan: &UbiPlan,
    config: &Config,
    tape: Tape,
    found: Option<(&Found, AttachInfo)>,
) -> Result<Ubi<Tape>, Down> {
    match found {
        Some((found, info)) if found.is_of(&tape) => {
            came_up(plan, Ubi::attach_found(tape, &mut Cx::new(), config, info))
        }
        _ => bring_up(plan, config, tape),
    }
}

fn came_up(plan: &UbiPlan, attached: Result<Ubi<Tape>, AttachFailure<Tape>>) -> Result<Ubi<Tape>, Down> {
    match attached {
        Ok(mut ubi) => {
            if !ubi.flash().array.is_powered() {
                return Err(Down::Broken(Check::Power.broken("attach succeeded although power was lost")));
            }
            ubi.set_known_bad(plan.known_bad);
            Ok(ubi)
        }
        Err(failure) => match failure.error {
            AttachError::Flash(FlashError::PowerLost) if !failure.flash.array.is_powered() => {
                Err(Down::Power(Box::new(failure.flash)))
            }
            error => Err(Down::Broken(Check::ComesUp.broken(format!("it cannot be attached: {error}")))),
        },
    }
}

/// Does an operation after which the device is down.
pub(super) fn take_down(ubi: Ubi<Tape>, op: &Op) -> Result<Tape, Down> {
    if *op == Op::Crash {
        return Ok(ubi.into_flash());
    }
    match ubi.detach(&mut Cx::new()) {
        (tape, Ok(())) if tape.array.is_powered() => Ok(tape),
        (tape, Err(error)) if power_lost(&error) => Err(Down::Power(Box::new(tape))),
        (_, Ok(())) => Err(Down::Broken(Check::Power.broken("detach succeeded although power was lost"))),
        (_, Err(error)) => Err(Down::Broken(Check::Works.broken(format!("detach failed: {error}")))),
    }
}

/// Does one operation.
pub(super) fn perform(plan: &UbiPlan, mut ubi: Ubi<Tape>, op: &Op) -> Result<Ubi<Tape>, Down> {
    let cx = &mut Cx::new();
    let done = match op {
        Op::Crash | Op::Detach => return bring_up(plan, &plan.ubi, take_down(ubi, op)?),
        _ => perform_up(&mut ubi, cx, op),
    };
    match (done, ubi.flash().array.is_powered()) {
        (Ok(()), true) => Ok(ubi),
        (Err(error), false) if power_lost(&error) => Err(Down::Power(Box::new(ubi.into_flash()))),
        (Ok(()), false) => {
            Err(Down::Broken(Check::Power.broken(format!("{op}: it succeeded although power was lost"))))
        }
        (Err(error), _) => Err(Down::Broken(Check::Works.broken(format!("{op}: it failed: {error}")))),
    }
}

fn power_lost(error: &UbiError) -> bool {
    matches!(error, UbiError::Flash(FlashError::PowerLost) | UbiError::Leb(LebError::Flash(FlashError::PowerLost)))
}

fn perform_up(ubi: &mut Ubi<Tape>, cx: &mut Cx, op: &Op) -> Result<(), UbiError> {
    match op {
        Op::Create { vol_id, name, kind, lebs } => {
            let request = VolumeRequest {
                vol_id: Some(VolId(*vol_id)),
                vol_type: *kind,
                ..VolumeRequest::dynamic(name, VolumeSize::Lebs(*lebs))
            };
            ubi.create_volume(cx, &request)?;
        }
        Op::Remove { vol_id } => ubi.remove_volume(cx, VolId(*vol_id))?,
        Op::Resize { vol_id, lebs } => ubi.resize_volume(cx, VolId(*vol_id), *lebs)?,
        Op::Rename { renames } => {
            let renames: Vec<_> = renames.iter().map(|(vol_id, name)| (VolId(*vol_id), name.as_str())).collect();
            ubi.rename_volumes(cx, &renames)?;
        }
        Op::Update { vol_id, data } => ubi.update_volume(cx, VolId(*vol_id), data)?,
        Op::Write { vol_id, lnum, offset, data } => {
            ubi.volume(VolId(*vol_id))?.write(cx, Lnum(*lnum), *offset, Payload::Bytes(data))?;
        }
        Op::Change { vol_id, lnum, data } => {
            ubi.volume(VolId(*vol_id))?.change(cx, Lnum(*lnum), Payload::Bytes(data))?;
        }
        Op::Map { vol_id, lnum } => ubi.volume(VolId(*vol_id))?.map(cx, Lnum(*lnum))?,
        Op::Unmap { vol_id, lnum } => ubi.volume(VolId(*vol_id))?.unmap(cx, Lnum(*lnum))?,
        Op::Sync => ubi.flush(cx)?,
        Op::Background => drop(ubi.step_background(cx)?),
        Op::Detach | Op::Crash => unreachable!("these take the device down"),
    }
    Ok(())
}

/// What draws need to know of the device.
pub(super) fn limits(ubi: &Ubi<Tape>) -> Limits {
    let reserved: u32 = ubi.volume_infos().map(|info| info.record.reserved_pebs).sum();
    Limits {
        leb_bytes: ubi.layout().leb_bytes,
        min_io_bytes: ubi.layout().min_io_bytes,
        lebs: reserved + ubi.available_pebs(),
    }
}

/// Erase counter on flash of each PEB; `None` without a valid header, or with one that reads differently each time.
pub(super) fn counters_on_flash(tape: &Tape, known: &Known) -> Vec<Option<u32>> {
    let mut counters: Vec<_> = (0..tape.geometry().pebs).map(|peb| known.counter(tape, Peb(peb))).collect();
    tape.array.unstable_pebs().for_each(|peb| counters[peb.at()] = None);
    counters
}

/// Erase counters at an attach, and the number of erasures of each PEB by then.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    at_attach: Arc<[(u32, u32)]>,
}

impl Ledger {
    pub fn open(ubi: &Ubi<Tape>) -> Ledger {
        let erases = ubi.flash().array.erase_counts();
        let ecs = ubi.wear().erase_counts();
        Ledger { at_attach: ecs.iter().zip(erases).map(|(ec, &erases)| (ec.0, erases)).collect() }
    }

    /// Erasures of a PEB since the attach.
    #[cfg(test)]
    pub fn erases_since(&self, tape: &Tape, peb: usize) -> u32 {
        tape.array.erase_counts()[peb] - self.at_attach[peb].1
    }

    /// Checks that every valid counter includes every erasure since the attach; with `may_lag` it may have fewer. `cut` is the PEB whose
    /// erasure was interrupted: its counter may be the one from before, which with `may_lag` knows erasures that memory does not, but
    /// none that did not happen.
    pub fn audit(&self, tape: &Tape, now: &[Option<u32>], may_lag: &[bool], cut: Option<Peb>, broken: &mut Broken) {
        let erases = tape.array.erase_counts();
        for (i, (&(ec, before), &on_flash)) in self.at_attach.iter().zip(now).enumerate() {
            let since = erases[i] - before;
            // The erasures of a block that went bad are on no flash.
            let counts = since > 0 && !tape.is_bad(Peb(i as u32));
            let Some(on_flash) = on_flash.filter(|_| counts) else { continue };
            let is_cut = cut == Some(Peb(i as u32));
            let spared = is_cut && on_flash + 1 == ec + since;
            let lags = may_lag[i] && (on_flash < ec + since || is_cut && on_flash < erases[i]);
            if on_flash != ec + since && !spared && !lags {
                broken.push(Check::Ledger.broken(format!(
                    "the erase counter of PEB {i} is {on_flash}; it was {ec} at attach, and {since} erasures followed"
                )));
            }
        }
    }
}

/// Checks that counters never fall, where both are valid and `may_lag` is false.
pub(super) fn never_fall(before: &[Option<u32>], now: &[Option<u32>], may_lag: &[bool], broken: &mut Broken) {
    for (i, pair) in before.iter().zip(now).enumerate() {
        if let (Some(before), Some(now)) = pair
            && now < before
            && !may_lag[i]
        {
            broken.push(Check::Counters.broken(format!("the erase counter of PEB {i} fell from {before} to {now}")));
        }
    }
}

/// What both ways of attaching found on a flash.
pub(super) struct Found {
    cells: Bytes,
    /// `None` once it was used and is not needed again.
    scan: Option<AttachInfo>,
    /// `None` once it was used.
    fastmap: Option<Result<AttachInfo, FastmapUnusable>>,
}

impl Found {
    /// What an attach without fastmap would use. Call it once, before [`Found::chosen`].
    pub fn scanned(&mut self) -> Option<AttachInfo> {
        if let Some(Ok(_)) = self.fastmap { self.scan.take() } else { self.scan.clone() }
    }

    /// What an attach would use; `None` if it would fail. Call it once.
    pub fn chosen(&mut self) -> Option<AttachInfo> {
        let scan = || self.scan.take().ok_or(AttachError::NoBytes);
        choose(self.fastmap.take()?, scan).ok()
    }

    /// Whether the flash has the cells that were read.
    pub fn is_of(&self, tape: &Tape) -> bool {
        let same = |peb| tape.array.store().shares(&self.cells, peb);
        (0..tape.geometry().pebs).map(Peb).all(same)
    }
}

/// Attaches the image both ways without writing, and compares. Logs the result. Returns what was found, if another attach
/// would find the same. Headers of blocks that are `known`, and that nobody wrote since, are not read again.
///
/// If a cut left no valid counter (`counters`), a scan uses the mean, which is not compared. If the count in memory
/// `may_lag`, the one in the fastmap may too, and counters are not compared.
pub(super) fn both_ways_agree(
    tape: &Tape,
    layout: &Layout,
    known: &Known,
    counters: &[Option<u32>],
    may_lag: &[bool],
    story: &mut Story,
    broken: &mut Broken,
) -> Option<Found> {
    let cx = &mut Cx::new();
    if let Some((peb, page)) = tape.array.destroyed().next() {
        story.tell(|| format!("attach: not compared: the cut destroyed page {page} of PEB {peb}"));
        return None;
    }
    if let Some(peb) = tape.array.unstable_pebs().next() {
        story.tell(|| format!("attach: not compared: PEB {peb} reads differently each time"));
        return None;
    }
    // What is on flash is compared, not what a faulty read makes of it.
    let mut array = tape.array.clone();
    array.suspend_faults(true);
    let read = known.headers(&array);
    let mut scan = match attach_by_scan_of(&mut array, cx, layout, &read) {
        Ok(info) => info,
        Err(error) => {
            broken.push(Check::ComesUp.broken(format!("a scan cannot attach it: {error}")));
            story.tell(|| "attach: a scan failed".to_owned());
            return None;
        }
    };
    let fastmap = match attach_by_fastmap_of(&mut array, cx, layout, &read) {
        Ok(info) => {
            let by_scan = scan.erase_counts.clone();
            for (i, &by_fastmap) in info.erase_counts.iter().enumerate() {
                if counters[i].is_none() || may_lag[i] {
                    // A PEB erased since the fastmap was written must have a higher count.
                    let since = matches!((scan.fates[i], info.fates[i]), (PebFate::Free, PebFate::Used { .. }));
                    scan.erase_counts[i] = EraseCount(by_fastmap.0 + u32::from(since));
                }
            }
            let differences = compare(&scan, &info);
            scan.erase_counts = by_scan;
            let agreed = if differences.is_empty() { "agree" } else { "differ" };
            story.tell(|| format!("attach: scan and fastmap {agreed}"));
            broken.extend(
                Check::BothWays.each(differences.into_iter().map(|what| format!("scan and fastmap differ: {what}"))),
            );
            Ok(info)
        }
        Err(FastmapUnusable::Fatal(error)) => {
            broken.push(Check::BothWays.broken(format!("the fastmap forbids attaching, a scan does not: {error}")));
            story.tell(|| "attach: the fastmap is fatal".to_owned());
            return None;
        }
        Err(unusable) => {
            story.tell(|| format!("attach: no fastmap is used: {unusable}"));
            Err(unusable)
        }
    };
    let again = !array.has_faults();
    again.then(|| Found { cells: array.into_store(), scan: Some(scan), fastmap: Some(fastmap) })
}

/// What the medium destroyed, and whose it was.
#[derive(Clone, Debug, Default)]
pub(super) struct Hit {
    /// Blocks with destroyed pages.
    pebs: Vec<Peb>,
    /// LEBs in them, by volume and number.
    lebs: Vec<(u32, u32)>,
    /// Whether reads, programs and erases may fail.
    faults: bool,
    /// Whether a volume table was destroyed. Attaching writes it anew in another PEB and leaves the fastmap as it was, which
    /// names the destroyed one until the next is written: as on Linux (`create_vtbl` on a PEB of `ubi_early_get_peb`).
    pub table: bool,
}

impl Hit {
    /// What the medium destroyed by now, of the LEBs of `owners`.
    pub fn of(tape: &Tape, owners: &Owners, faults: bool, table: bool) -> Hit {
        let mut pebs: Vec<Peb> = tape.array.destroyed().map(|(peb, _)| peb).collect();
        pebs.dedup();
        let lebs = pebs.iter().filter_map(|peb| *owners.get(peb.at())?).collect();
        Hit { pebs, lebs, faults, table }
    }

    /// Adds what an earlier cut destroyed.
    pub fn and(mut self, earlier: &Hit) -> Hit {
        self.pebs.extend(&earlier.pebs);
        self.lebs.extend(&earlier.lebs);
        self.table |= earlier.table;
        self
    }
}

/// By PEB: the LEB that it holds, by volume and number.
pub(super) type Owners = Vec<Option<(u32, u32)>>;

/// The LEB in each PEB.
pub(super) fn owners(ubi: &Ubi<Tape>) -> Owners {
    let owner = |peb| Some(ubi.wear().owner(peb)).filter(|_| holds_a_leb(ubi, peb));
    (0..ubi.layout().pebs).map(Peb).map(|peb| owner(peb).map(|owner| (owner.vol_id.0, owner.lnum.0))).collect()
}

/// Whether a LEB is mapped to `peb`, or is being moved there.
pub(super) fn holds_a_leb(ubi: &Ubi<Tape>, peb: Peb) -> bool {
    use ubi::wl::PebState::{Erroneous, Moving, Protected, Scrub, Used};
    matches!(ubi.wear().state(peb), Protected | Used | Scrub | Erroneous | Moving)
}

/// Of the PEB that a LEB is mapped to: offsets in the LEB of the pages that cuts destroyed, and the offset in the PEB of the first
/// cells that read differently each time.
fn harm_of(ubi: &Ubi<Tape>, vol_id: VolId, lnum: Lnum) -> (Vec<u32>, Option<u32>) {
    let (layout, array) = (ubi.layout(), &ubi.flash().array);
    let holds_it = |peb: Peb| ubi.wear().owner(peb) == Owner { vol_id, lnum };
    let destroyed = array.destroyed().filter(|&(peb, _)| holds_it(peb));
    let offset = |(_, page): (Peb, u32)| (page * array.geometry().page_bytes).checked_sub(layout.data_offset);
    let unstable = array.unstable_cells().filter(|&(peb, _)| holds_it(peb)).map(|(_, from)| from);
    (destroyed.filter_map(offset).collect(), unstable.min())
}

/// Most bytes at the end of a copy that read differently each time although its checksum was right when it was attached. Each bit
/// flips in one of 64 reads, so that so many are as they should be in one read of 3,000.
const BY_CHANCE: usize = 64;

/// Whether a LEB of a static volume is a copy whose program was cut, which was taken for whole by chance: few of its bytes read
/// differently each time, and the others are as the model has them. UBI reads a copy once to see whether its checksum is right, as
/// Linux does, and then erases the original. Copies of dynamic volumes have a checksum of whole pages, of which the torn one is.
fn passed_by_chance(ubi: &Ubi<Tape>, (vol_id, lnum): (u32, u32), leb: &Leb) -> bool {
    let State::Mapped(content) = &leb.state else { return false };
    let tape = ubi.flash();
    let unstable = |peb: Peb| tape.array.unstable_cells().find(|&(unstable, _)| unstable == peb);
    let Some((peb, from)) = ubi.peb_of(VolId(vol_id), Lnum(lnum)).and_then(unstable) else { return false };
    let (layout, mut hdr) = (ubi.layout(), [0; VidHdr::BYTES]);
    tape.cells(peb, layout.vid_hdr_offset, &mut hdr);
    let is_copy = VidHdr::decode(&hdr).is_ok_and(|hdr| hdr.copy_flag && hdr.vol_type == VolType::Static);
    let Some(stable) = from.checked_sub(layout.data_offset).filter(|_| is_copy) else { return false };
    let mut bytes = vec![0; stable as usize];
    tape.cells(peb, layout.data_offset, &mut bytes);
    bytes.len() < content.len() && content.len() - bytes.len() <= BY_CHANCE && content.starts_with(&bytes)
}

/// Destroys one copy of the volume table, drawn, if it is the only one of its LEB: an older one would otherwise come back. So may
/// one whose erasure was cut: its header may be gone, but the fastmap still names it, and its contents are there.
pub(super) fn destroy_a_table(tape: &mut Tape, layout: &Layout, rng: &mut Rng) -> Option<Peb> {
    let lnum = rng.below(u64::from(LAYOUT_LEBS)) as u32;
    if matches!(tape.last, Some(FlashOp::Erase { .. })) {
        return None;
    }
    let mut hdr = [0; VidHdr::BYTES];
    let mut holds = |peb: &Peb| {
        tape.cells(*peb, layout.vid_hdr_offset, &mut hdr);
        VidHdr::decode(&hdr).is_ok_and(|hdr| (hdr.vol_id, hdr.lnum) == (LAYOUT_VOLUME_ID, lnum))
    };
    let found: Vec<Peb> = (0..layout.pebs).map(Peb).filter(|peb| holds(peb)).collect();
    let &[peb] = &found[..] else { return None };
    tape.array.tamper(peb, |cells| cells[layout.data_offset as usize..].fill(0));
    Some(peb)
}

/// Compares an attached device with the model: `before` with `op` cut, or done, which is `after`. Returns the model of
/// what was found, and counts what the medium destroyed.
pub(super) fn hold_against(
    ubi: &mut Ubi<Tape>,
    before: &World,
    op: &Op,
    after: &World,
    known: &Known,
    (hit, tally): (&Hit, &mut Tally),
) -> Result<World, Broken> {
    let mut broken = Broken::new();
    let worn_out = hit.faults && ubi.beb_reserved() == 0;
    if let Some(why) = ubi.read_only().filter(|_| !worn_out) {
        broken.push(Check::Writable.broken(format!("it is read-only: {why}")));
    }
    let pebs = ubi.layout().pebs;
    for peb in (0..pebs).map(Peb) {
        let array = &ubi.flash().array;
        let spared = match ubi.wear().state(peb) {
            // Linux keeps a PEB with a broken VID header before contents: a cut may leave one that reads so, or not.
            ubi::wl::PebState::Kept => array.unstable_pebs().any(|unstable| unstable == peb),
            ubi::wl::PebState::Bad => hit.faults && ubi.flash().is_bad(peb),
            _ => true,
        };
        if !spared && !hit.pebs.contains(&peb) {
            broken.push(Check::Blocks.broken(format!("PEB {peb} is lost: {:?}", ubi.wear().state(peb))));
        }
    }
    ubi.check();
    let marked = match op {
        Op::Update { vol_id, .. } => Some(*vol_id),
        _ => None,
    };
    let mut complaints = Vec::new();
    let mut matches = 0;
    let tables = [Some(Table::Before), Some(Table::After), marked.map(Table::Marked)];
    for table in tables.into_iter().flatten() {
        if !table_is(ubi, before, after, table) {
            continue;
        }
        matches += 1;
        match contents_are(ubi, before, op, after, table, known, (hit, &mut *tally)) {
            Ok(world) if broken.is_empty() => return Ok(world),
            Ok(_) => return Err(broken),
            Err(found) => complaints.push(found),
        }
    }
    if matches == 0 {
        let found = table_of(ubi);
        broken.push(
            Check::Table.broken(format!("the volume table is neither that from before nor that from after: {found}")),
        );
    }
    broken.extend(complaints.into_iter().next().unwrap_or_default());
    Err(broken)
}

fn table_of(ubi: &Ubi<Tape>) -> String {
    let volume = |info: ubi::VolumeInfo| {
        let marker = if info.record.upd_marker { ", updating" } else { "" };
        format!(
            "{} {:?} of {} LEBs{marker}",
            info.vol_id,
            String::from_utf8_lossy(&info.record.name),
            info.record.reserved_pebs
        )
    };
    ubi.volume_infos().map(volume).collect::<Vec<_>>().join("; ")
}

fn table_is(ubi: &Ubi<Tape>, before: &World, after: &World, table: Table) -> bool {
    let (world, marked) = match table {
        Table::Before => (before, None),
        Table::Marked(vol_id) => (before, Some(vol_id)),
        Table::After => (after, None),
    };
    let mut infos = ubi.volume_infos();
    let same = world.volumes.iter().all(|(&vol_id, vol)| {
        infos.next().is_some_and(|info| {
            let record = &info.record;
            info.vol_id.0 == vol_id
                && record.name == vol.name.as_bytes()
                && record.vol_type == vol.kind
                && record.reserved_pebs as usize == vol.lebs.len()
                && record.upd_marker == (vol.updating || marked == Some(vol_id))
        })
    });
    same && infos.next().is_none()
}

/// Most complaints of one kind that are reported.
const COMPLAINTS: usize = 4;

fn contents_are(
    ubi: &mut Ubi<Tape>,
    before: &World,
    op: &Op,
    after: &World,
    table: Table,
    known: &Known,
    (hit, tally): (&Hit, &mut Tally),
) -> Result<World, Broken> {
    let mut broken = Broken::new();
    // If the table is the new one, the operation is done.
    let op = if table == Table::After { &Op::Background } else { op };
    let mut world = if table == Table::After { after.clone() } else { before.clone() };
    let cx = &mut Cx::new();
    let mut buffer = Vec::new();
    for (&vol_id, vol) in &mut world.volumes {
        if table != Table::Marked(vol_id) && known.has_volume(ubi, vol_id, vol, op) {
            continue;
        }
        let vol = Arc::make_mut(vol);
        if table == Table::Marked(vol_id) {
            vol.updating = true;
        }
        if vol.updating {
            for leb in &mut vol.lebs {
                leb.become_sound(State::Unmapped);
            }
            continue;
        }
        if vol.damaged {
            continue;
        }
        if vol.kind == VolType::Static
            && let Err(error) = ubi.check_volume(cx, VolId(vol_id))
        {
            let by_chance = (0..).zip(&vol.lebs).any(|(lnum, leb)| passed_by_chance(ubi, (vol_id, lnum), leb));
            if by_chance || hit.lebs.iter().any(|&(hit, _)| hit == vol_id) {
                vol.damaged = true;
                tally.lost += 1;
                continue;
            }
            broken.push(Check::StaticCrc.broken(format!("static volume {vol_id} is damaged: {error}")));
            continue;
        }
        // Nobody reads a static volume behind its data. A copy whose program was cut behind them is whole: its checksum says so.
        let readable_bytes = match vol.kind {
            VolType::Static => {
                ubi.volume_infos().find(|info| info.vol_id.0 == vol_id).map_or(0, |info| info.data_bytes)
            }
            VolType::Dynamic => u64::MAX,
        };
        for (lnum, leb) in (0..).zip(&mut vol.lebs) {
            if known.has_leb(ubi, vol_id, lnum, leb, op) {
                continue;
            }
            let legal = legal_before(leb, vol_id, lnum, op);
            buffer.resize(ubi.layout().leb_bytes as usize, 0);
            let begin = u64::from(lnum) * u64::from(ubi.layout().leb_bytes);
            let end = readable_bytes.saturating_sub(begin).min(buffer.len() as u64) as usize;
            buffer[end..].fill(0xff);
            let (mapped, unreadable) = match read(ubi, cx, VolId(vol_id), Lnum(lnum), &mut buffer[..end]) {
                Ok(read) => read,
                Err(error) => {
                    broken.push(Check::Works.broken(format!("volume {vol_id} LEB {lnum} cannot be read: {error}")));
                    continue;
                }
            };
            let page_bytes = ubi.layout().min_io_bytes;
            let (destroyed, unstable) = harm_of(ubi, VolId(vol_id), Lnum(lnum));
            let seen = Seen {
                mapped,
                bytes: &buffer,
                unreadable: &unreadable,
                page_bytes,
                unstable: unstable.is_some(),
                header_is_unstable: unstable.is_some_and(|from| from < ubi.layout().data_offset),
                destroyed: &destroyed,
            };
            // A LEB torn by an earlier cut keeps its contents; ECC may fail on it as before.
            let found = legal.iter().find(|legal| match legal {
                Legal::Exactly(content) if leb.shaky => mapped && buffer[..content.len()] == content[..],
                Legal::Exactly(content) if leb.torn => {
                    mapped && buffer[..content.len()] == content[..] && sim::seam::is_erased(&buffer[content.len()..])
                }
                legal => seen.is(legal),
            });
            let readable = |legal: &&Legal| {
                hit.faults && matches!(legal, Legal::Exactly(content) if seen.is_where_readable(content))
            };
            match found {
                None if hit.lebs.contains(&(vol_id, lnum)) => {
                    let older = u64::from(leb.adopt(&seen));
                    tally.older += older;
                    tally.lost += 1 - older;
                }
                None if passed_by_chance(ubi, (vol_id, lnum), leb) => {
                    tally.lost += 1;
                    vol.damaged = true;
                    break;
                }
                None if let Some(rest) = legal.iter().find(readable) => {
                    tally.lost += 1;
                    leb.settle(rest, &seen, op, vol_id, lnum);
                }
                None => broken.push(check_of(leb, &legal).broken(complaint(vol_id, lnum, &seen, &legal))),
                Some(found) => leb.settle(found, &seen, op, vol_id, lnum),
            }
            if broken.len() > COMPLAINTS {
                return Err(broken);
            }
        }
    }
    if broken.is_empty() { Ok(world) } else { Err(broken) }
}

/// Reads a LEB from its begin; lists uncorrectable pages, whose bytes are returned uncorrected.
fn read(
    ubi: &mut Ubi<Tape>,
    cx: &mut Cx,
    vol_id: VolId,
    lnum: Lnum,
    buffer: &mut [u8],
) -> Result<(bool, Vec<u32>), UbiError> {
    let mut unreadable = Vec::new();
    let page_bytes = ubi.layout().min_io_bytes;
    let mut volume = ubi.volume(vol_id)?;
    if buffer.is_empty() || !volume.is_mapped(lnum) {
        buffer.fill(0xff);
        return Ok((volume.is_mapped(lnum), unreadable));
    }
    match volume.read(cx, lnum, 0, buffer) {
        Ok(()) => {}
        Err(LebError::Flash(FlashError::Uncorrectable { .. })) => {
            for (offset, page) in (0..).step_by(page_bytes as usize).zip(buffer.chunks_mut(page_bytes as usize)) {
                match volume.read(cx, lnum, offset, page) {
                    Ok(()) => {}
                    Err(LebError::Flash(FlashError::Uncorrectable { .. })) => unreadable.push(offset),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(error) => return Err(error.into()),
    }
    // Reading may find that the PEB of a stale mapping was erased.
    Ok((volume.is_mapped(lnum), unreadable))
}

/// The check that a LEB fails whose contents are none of the legal ones.
fn check_of(leb: &Leb, legal: &[Legal]) -> Check {
    if legal.iter().any(|legal| matches!(legal, Legal::Torn { .. })) {
        Check::Torn
    } else if leb.state == State::Unmapped {
        Check::Unmapped
    } else {
        Check::Contents
    }
}

fn complaint(vol_id: u32, lnum: u32, seen: &Seen<'_>, legal: &[Legal]) -> String {
    let end = seen.bytes.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
    let found = match (seen.mapped, end) {
        (false, _) => "is unmapped".to_owned(),
        (true, 0) => "is mapped and empty".to_owned(),
        (true, end) => format!("holds {end} bytes (CRC {:08x})", ubi::media::crc(&seen.bytes[..end])),
    };
    let unreadable = match seen.unreadable {
        [] => String::new(),
        pages => format!(", pages at {pages:?} unreadable"),
    };
    let bytes = |content: &[u8]| format!("{} bytes (CRC {:08x})", content.len(), ubi::media::crc(content));
    let legal: Vec<String> = legal
        .iter()
        .map(|legal| match legal {
            Legal::Unmapped => "unmapped".to_owned(),
            Legal::Exactly(content) => bytes(content),
            Legal::Ghost(content) => format!("unmapped before: {}", bytes(content)),
            Legal::Shaky(content) => format!("unmapped before: {}, then cells of a torn page", bytes(content)),
            Legal::Torn { base, data } => {
                format!("{} and what the cut left of {}", bytes(base), bytes(data))
            }
        })
        .collect();
    format!("volume {vol_id} LEB {lnum} {found}{unreadable}; expected {}", legal.join(", or "))
}

#[cfg(test)]
mod tests;
