//! Two UBI devices in one dump: two partitions of a flash, or what is left of an older device.
//!
//! `ubiformat` and `ubinize` give a device an image sequence number, which each of its EC headers has. A device that is
//! asked for by this number is read alone: from its first PEB, or where its fastmap says that PEB 0 is, to the first PEB
//! of the next device. PEBs of another device between its own are foreign.

use std::collections::BTreeMap;

use sim::Peb;

use super::survey::{Group, Seen, Survey};
use super::{Dump, Geometry, PebState, Scan};
use crate::media::{EcHdr, FM_MAX_START, FM_SB_VOLUME_ID, FmSb, VidHdr};

/// A UBI device in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Its image sequence number.
    pub image_seq: u32,
    /// Number of its EC headers.
    pub ec_headers: u32,
    /// Byte of its first EC header.
    pub first_at: u64,
    /// Byte of its last EC header.
    pub last_at: u64,
    /// Whether its headers are at the distance of PEBs from those of the device that is read.
    pub is_on_grid: bool,
}

impl Scan<'_> {
    /// UBI devices in the dump, in order of their first EC header. One finds more than one where PEBs that are not bad
    /// have different image sequence numbers; 0 is accepted next to any other, so it is none by itself. Linux attaches
    /// no flash with two.
    pub fn devices(&self) -> Vec<FoundDevice> {
        let mut found: BTreeMap<u32, FoundDevice> = BTreeMap::new();
        for (peb, state) in (0..).map(Peb).zip(self.pebs()) {
            let (PebState::Foreign(EcHdr { image_seq, .. })
            | PebState::Free { ec: EcHdr { image_seq, .. }, .. }
            | PebState::Used { ec: Ok(EcHdr { image_seq, .. }), .. }
            | PebState::CorruptVid { ec: EcHdr { image_seq, .. }, .. }) = *state
            else {
                continue;
            };
            let at = self.dump().file_offset(peb, 0);
            let new = FoundDevice { image_seq, ec_headers: 0, first_at: at, last_at: at, is_on_grid: true };
            let device = found.entry(image_seq).or_insert(new);
            device.ec_headers += 1;
            device.last_at = at;
        }
        if found.len() > 1 {
            found.remove(&0);
        }
        let off_grid = self.dump().off_grid.iter().filter(|device| !found.contains_key(&device.image_seq)).copied();
        let mut devices: Vec<FoundDevice> = off_grid.collect();
        devices.extend(found.into_values());
        devices.sort_by_key(|device| (device.first_at, device.image_seq));
        devices
    }
}

/// Devices with two headers or more, none of them at the distance of PEBs, that lie before or behind those `on_grid`: an
/// image inside a volume is no device.
pub(super) fn off_grid(on_grid: &[Seen], survey: &Survey, stride: u64) -> Vec<FoundDevice> {
    let from = on_grid.first().map_or(0, |hdr| hdr.at);
    let to = on_grid.last().map_or(0, |hdr| hdr.at + stride);
    let groups = survey.groups.iter().filter(|&(&image_seq, group)| {
        let is_outside = group.first_at < from || group.last_at >= to;
        group.headers >= 2 && is_outside && on_grid.iter().all(|hdr| hdr.image_seq != image_seq)
    });
    let device = |(&image_seq, group): (&u32, &Group)| {
        let Group { headers: ec_headers, first_at, last_at } = *group;
        FoundDevice { image_seq, ec_headers, first_at, last_at, is_on_grid: false }
    };
    groups.map(device).collect()
}

/// Limits the dump to the part that the device `wanted` is in. `on_grid` are the headers of all devices on its grid.
pub(super) fn limit<'a>(mut dump: Dump<'a>, wanted: u32, on_grid: &[Seen], survey: &Survey) -> Dump<'a> {
    let stride = u64::from(dump.geometry.raw_peb_bytes());
    let is_other = |image_seq: u32| image_seq != wanted && image_seq != 0;
    let own: Vec<u64> = on_grid.iter().filter(|hdr| hdr.image_seq == wanted).map(|hdr| hdr.at).collect();
    let (Some(&first), Some(&last)) = (own.first(), own.last()) else { return dump };
    let others = || {
        let grid = on_grid.iter().filter(|hdr| is_other(hdr.image_seq)).map(|hdr| hdr.at);
        let groups = survey.groups.iter().filter(|&(&image_seq, _)| is_other(image_seq));
        grid.chain(groups.flat_map(|(_, group)| [group.first_at, group.last_at]))
    };
    let before = others().filter(|&at| at < first).max();
    let behind = others().filter(|&at| at >= last + stride).min();
    let start = match before {
        Some(before) => first_peb(&dump, &own, before).unwrap_or(first),
        None => dump.geometry.start,
    };
    let end = behind.unwrap_or(dump.len());
    let geometry = &mut dump.geometry;
    geometry.start = start;
    geometry.pebs = ((end - start) / stride) as u32;
    geometry.partial_bytes = if behind.is_some() { 0 } else { ((end - start) % stride) as u32 };
    dump
}

/// Where PEB 0 is, by the newest fastmap of the device whose EC headers are at `own`: it says which PEB its anchor is.
/// `None` if there is none, or it would put PEB 0 before the end of the PEB at `before`, or behind the first header.
fn first_peb(dump: &Dump<'_>, own: &[u64], before: u64) -> Option<u64> {
    let Geometry { start, vid_hdr_offset, data_offset, .. } = *dump.geometry();
    let stride = u64::from(dump.geometry.raw_peb_bytes());
    let first = *own.first()?;
    let reach = first + u64::from(FM_MAX_START) * stride;
    let mut newest: Option<(u64, u64)> = None;
    for &at in own.iter().take_while(|&&at| at < reach) {
        let peb = Peb(((at - start) / stride) as u32);
        let bytes = dump.read(peb, vid_hdr_offset, VidHdr::BYTES as u32);
        let Some(Ok(hdr)) = bytes.first_chunk().map(VidHdr::decode) else { continue };
        if hdr.vol_id == FM_SB_VOLUME_ID {
            newest = newest.max(Some((hdr.sqnum, at)));
        }
    }
    let (_, anchor) = newest?;
    let peb = Peb(((anchor - start) / stride) as u32);
    let sb = FmSb::decode(&dump.read(peb, data_offset, FmSb::BYTES as u32)).ok()?;
    let (number, _) = *sb.blocks.first()?;
    let zero = anchor.checked_sub(u64::from(number) * stride)?;
    (number < FM_MAX_START && zero > before && zero <= first).then_some(zero)
}
