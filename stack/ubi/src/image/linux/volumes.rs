//! The volume table, and whether what was found agrees with it.

use sim::{Lnum, Peb, VolId};

use super::headers::Found;
use super::{Device, LinuxVolume, Stop};
use crate::media::{EcHdr, LAYOUT_LEBS, LAYOUT_VOLUME_ID, MediaError, VolType, VtblRecord, fastmap_blocks, vtbl_slots};

/// Builds the volumes. Errors: what makes Linux refuse the device.
pub(super) fn attach(device: &Device<'_>, found: &Found, by_fastmap: bool) -> Result<Vec<LinuxVolume>, Stop> {
    let slots = vtbl_slots(device.dump.geometry().leb_bytes());
    let Some(layout) = found.volumes.get(&LAYOUT_VOLUME_ID) else {
        return if found.is_empty { Ok(Vec::new()) } else { Stop::refused_device("no PEB holds the volume table") };
    };
    if layout.holders.len() as u32 > LAYOUT_LEBS {
        return Stop::refused_device(format!("{} LEBs of the layout volume, expected 2", layout.holders.len()));
    }
    if let Some((lnum, holder)) = layout.holders.iter().find(|(lnum, _)| **lnum >= LAYOUT_LEBS) {
        let at = device.dump.geometry().vid_hdr_offset + 12;
        return Stop::refused(holder.peb, at, format!("LEB {lnum} of the layout volume, expected 0 or 1"));
    }
    let good = device.pebs().wrapping_sub(found.bad);
    let copies = [0, 1].map(|lnum| layout.holders.get(&lnum).map(|holder| holder.peb));
    let records = table(device, copies, good)?;
    let mut reserved = u64::from(LAYOUT_LEBS);
    let mut resized = None;
    let mut volumes = Vec::new();
    for (id, record) in (0..).zip(records) {
        let Some(record) = record else { continue };
        if record.flags & VtblRecord::AUTORESIZE != 0
            && let Some(first) = resized.replace(id)
        {
            return Stop::refused_device(format!("volumes {first} and {id} both ask to be resized"));
        }
        reserved += u64::from(record.reserved_pebs);
        volumes.push(volume(device, found, id, record));
    }
    let fastmap = 2 * u64::from(fastmap_blocks(device.pebs(), device.dump.geometry().leb_bytes()));
    // One for wear levelling and one for atomic changes.
    let (need, have) = (reserved + fastmap + 2, u64::from(good.saturating_sub(found.corrupt)));
    if need > have && !device.is_new {
        return Stop::refused_device(format!("{need} PEBs are needed, {have} are good"));
    }
    if found.volumes.len() as u32 > slots + 1 {
        return Stop::refused_device(format!("{} volumes, at most {}", found.volumes.len(), slots + 1));
    }
    for volume in &volumes {
        agree(found, volume.id.0, &volume.record, by_fastmap)?;
    }
    // Linux compares a volume of this number with the layout volume.
    let layout = VtblRecord {
        reserved_pebs: LAYOUT_LEBS,
        alignment: 1,
        data_pad: 0,
        vol_type: VolType::Dynamic,
        upd_marker: false,
        name: Vec::new(),
        flags: 0,
    };
    agree(found, slots, &layout, by_fastmap)?;
    Ok(volumes)
}

/// Whether what was found of a volume agrees with its record.
fn agree(found: &Found, id: u32, record: &VtblRecord, by_fastmap: bool) -> Result<(), Stop> {
    let Some(lebs) = found.volumes.get(&id) else { return Ok(()) };
    let contradicts = |what: String| {
        let place = if by_fastmap { "fastmap: " } else { "" };
        Stop::refused_device(format!("{place}volume {id}: {what}; in the volume table {}", said(record)))
    };
    if lebs.highest >= record.reserved_pebs {
        return contradicts(format!("LEB {}", lebs.highest));
    }
    if lebs.vol_type != record.vol_type.in_fastmap() {
        return match (by_fastmap, record.vol_type) {
            (true, _) => contradicts(format!("vol_type {}, expected {}", lebs.vol_type, record.vol_type.in_fastmap())),
            (false, VolType::Dynamic) => contradicts("static".to_owned()),
            (false, VolType::Static) => contradicts("dynamic".to_owned()),
        };
    }
    // Linux compares signed numbers.
    if i64::from(lebs.used_ebs as i32) > i64::from(record.reserved_pebs) {
        return contradicts(format!("used_ebs {}", lebs.used_ebs));
    }
    if lebs.data_pad != record.data_pad {
        return contradicts(format!("data_pad {}", lebs.data_pad));
    }
    Ok(())
}

fn said(record: &VtblRecord) -> String {
    format!("it is {} with {} LEBs and data_pad {}", record.vol_type.name(), record.reserved_pebs, record.data_pad)
}

fn volume(device: &Device<'_>, found: &Found, id: u32, record: VtblRecord) -> LinuxVolume {
    let usable = i64::from(device.dump.geometry().leb_bytes() - record.data_pad);
    let lebs = found.volumes.get(&id).filter(|lebs| !lebs.holders.is_empty());
    let (mut misses_lebs, mut data_bytes) = (false, 0);
    match (record.vol_type, lebs) {
        (VolType::Dynamic, _) => data_bytes = i64::from(record.reserved_pebs) * usable,
        (VolType::Static, Some(lebs)) if lebs.holders.len() as u32 != lebs.used_ebs => misses_lebs = true,
        (VolType::Static, Some(lebs)) => {
            data_bytes = i64::from(lebs.used_ebs - 1) * usable + i64::from(lebs.last_bytes as i32);
        }
        (VolType::Static, None) => {}
    }
    let holders = lebs.into_iter().flat_map(|lebs| &lebs.holders);
    let lebs = holders
        .filter(|(lnum, _)| **lnum < record.reserved_pebs)
        .map(|(lnum, holder)| (Lnum(*lnum), Peb(holder.peb)))
        .collect();
    LinuxVolume { id: VolId(id), record, misses_lebs, data_bytes, lebs }
}

/// The volume table: copy 0 if its checksums are right, else copy 1.
/// Errors: both are broken; the one used says what cannot be.
fn table(device: &Device<'_>, copies: [Option<u32>; 2], good: u32) -> Result<Vec<Option<VtblRecord>>, Stop> {
    let mut broken = Vec::new();
    for (copy, peb) in copies.into_iter().enumerate() {
        let Some(peb) = peb.filter(|&peb| peb < device.pebs()) else {
            broken.push(format!("copy {copy} is missing"));
            continue;
        };
        match records(device, peb, good)? {
            Ok(records) => return Ok(records),
            Err(why) => broken.push(format!("copy {copy}: {why}")),
        }
    }
    Stop::refused_device(format!("no whole volume table: {}", broken.join("; ")))
}

type Records = Result<Vec<Option<VtblRecord>>, String>;

/// Decodes a copy of the table; the inner error is a broken checksum.
fn records(device: &Device<'_>, peb: u32, good: u32) -> Result<Records, Stop> {
    let geometry = device.dump.geometry();
    let slots = vtbl_slots(geometry.leb_bytes());
    let bytes = device.read(peb, geometry.data_offset, slots * VtblRecord::BYTES as u32);
    let mut table: Vec<Option<VtblRecord>> = Vec::new();
    for (slot, bytes) in (0..).zip(bytes.as_chunks::<{ VtblRecord::BYTES }>().0) {
        let at = geometry.data_offset + slot * VtblRecord::BYTES as u32;
        let refused = |what: String| Stop::refused(peb, at, format!("volume table, record {slot}: {what}"));
        let record = match VtblRecord::decode(bytes, geometry.leb_bytes()) {
            Ok(record) => record,
            Err(why @ MediaError::Field { .. }) => return refused(why.to_string()),
            Err(why) => return Ok(Err(format!("record {slot}: {why}"))),
        };
        if let Some(VtblRecord { alignment, reserved_pebs, .. }) = record {
            // With headers of one size after another, the unit may be anything up to 64.
            let unit = if geometry.vid_hdr_offset as usize == EcHdr::BYTES { 1 } else { geometry.min_io_bytes };
            if alignment != 1 && !alignment.is_multiple_of(unit) {
                return refused(format!("alignment = {alignment}, which is no multiple of the page of {unit} bytes"));
            }
            if reserved_pebs > good && !device.is_new {
                return refused(format!("reserved_pebs = {reserved_pebs}, and {good} PEBs are good"));
            }
        }
        table.push(record);
    }
    for (slot, record) in table.iter().enumerate() {
        let same =
            |other: &Option<VtblRecord>| other.as_ref().zip(record.as_ref()).is_some_and(|(a, b)| a.name == b.name);
        if let Some(first) = table[..slot].iter().position(same) {
            return Stop::refused_device(format!("volume table: volumes {first} and {slot} have one name"));
        }
    }
    Ok(Ok(table))
}
