//! The volume table at attach: its two copies, which one is used, and which headers agree with its records.

use sim::seam::Flash;
use sim::{Peb, VolId};

use super::reader::{Quality, Reader};
use super::{AttachError, AttachedVolume, TableCopy};
use crate::layout::Layout;
use crate::media::{LAYOUT_LEBS, MediaError, VidHdr, VolType, VtblRecord, vtbl_slots};

/// The volume table in use.
pub(super) struct Table {
    pub(super) records: Vec<Option<VtblRecord>>,
    pub(super) copies: [TableCopy; 2],
    /// Copies whose PEB should be scrubbed.
    pub(super) tired: [bool; 2],
    /// Faults of the copy that is not used.
    pub(super) notes: Vec<String>,
}

/// Why a copy is not used.
enum Fault {
    /// It is missing, or was torn: the other copy is used.
    Torn(String),
    /// It has a right checksum and says what cannot be: Linux refuses the device.
    Impossible(String),
}

/// Reads both copies. Copy 0 wins if it is valid, because it is written first; the other need only be equal.
/// Errors: faults of the flash; no valid copy; an impossible one; volumes that need more PEBs than are good.
pub(super) fn read<F: Flash>(
    reader: &mut Reader<'_, F>,
    eba: [Option<Peb>; 2],
    good: u32,
) -> Result<Table, AttachError> {
    let layout = reader.layout;
    let mut tired = [false; 2];
    let mut bytes = [Vec::new(), Vec::new()];
    for copy in 0..2 {
        let Some(peb) = eba[copy] else { continue };
        bytes[copy] = vec![0; vtbl_slots(layout.leb_bytes) as usize * VtblRecord::BYTES];
        let quality = reader.read(peb, layout.data_offset, &mut bytes[copy])?;
        tired[copy] = quality != Quality::Clean;
    }
    let parsed = |copy: usize| {
        let Some(peb) = eba[copy] else { return Ok(Err("missing".to_owned())) };
        match parse(&bytes[copy], layout, good) {
            Ok(records) => Ok(Ok(records)),
            Err(Fault::Torn(why)) => Ok(Err(format!("PEB {peb}: {why}"))),
            Err(Fault::Impossible(why)) => {
                Err(AttachError::NoVolumeTable { why: format!("copy {copy}: PEB {peb}: {why}") })
            }
        }
    };
    let (records, copies, notes) = match parsed(0)? {
        Ok(records) if bytes[0] == bytes[1] => (records, [TableCopy::Good, TableCopy::Good], vec![]),
        Ok(records) => {
            let (state, why) = match parse(&bytes[1], layout, good) {
                _ if eba[1].is_none() => (TableCopy::Bad, "copy 1 is not used (missing)".to_owned()),
                Ok(_) => (TableCopy::Differs, "copy 1 differs from copy 0".to_owned()),
                Err(Fault::Torn(why) | Fault::Impossible(why)) => {
                    (TableCopy::Bad, format!("copy 1 is not used (PEB {}: {why})", eba[1].unwrap_or(Peb(0))))
                }
            };
            (records, [TableCopy::Good, state], vec![format!("volume table: {why}")])
        }
        Err(first) => match parsed(1)? {
            Ok(records) => {
                let note = format!("volume table: copy 0 is not used ({first})");
                (records, [TableCopy::Bad, TableCopy::Good], vec![note])
            }
            Err(second) => {
                return Err(AttachError::NoVolumeTable { why: format!("copy 0: {first}; copy 1: {second}") });
            }
        },
    };
    let need = records.iter().flatten().map(|record| u64::from(record.reserved_pebs)).sum::<u64>();
    let need = need + u64::from(LAYOUT_LEBS);
    if need > u64::from(good) {
        return Err(AttachError::NoSpace { need: u32::try_from(need).unwrap_or(u32::MAX), have: good });
    }
    Ok(Table { records, copies, tired, notes })
}

/// Decodes one copy. Errors: why it is not valid.
fn parse(bytes: &[u8], layout: &Layout, good: u32) -> Result<Vec<Option<VtblRecord>>, Fault> {
    let (records, _) = bytes.as_chunks::<{ VtblRecord::BYTES }>();
    let impossible = |what: String| Err(Fault::Impossible(what));
    let mut table: Vec<Option<VtblRecord>> = Vec::with_capacity(records.len());
    for (vol_id, bytes) in records.iter().enumerate() {
        let record = VtblRecord::decode(bytes, layout.leb_bytes).map_err(|why| match why {
            MediaError::Field { .. } => Fault::Impossible(format!("record {vol_id}: {why}")),
            _ => Fault::Torn(format!("record {vol_id}: {why}")),
        })?;
        if let Some(VtblRecord { reserved_pebs, alignment, .. }) = record {
            if alignment != 1 && !alignment.is_multiple_of(layout.min_io_bytes) {
                let unit = layout.min_io_bytes;
                return impossible(format!("record {vol_id}: alignment = {alignment}, min. I/O unit: {unit}"));
            }
            if reserved_pebs > good {
                return impossible(format!("record {vol_id}: reserved_pebs = {reserved_pebs}, good PEBs: {good}"));
            }
        }
        table.push(record);
    }
    for (vol_id, record) in table.iter().enumerate() {
        let Some(record) = record else { continue };
        if let Some(other) = table[..vol_id].iter().position(|r| r.as_ref().is_some_and(|r| r.name == record.name)) {
            let name = record.name.escape_ascii();
            return impossible(format!("records {other} and {vol_id} have one name, {name}"));
        }
    }
    Ok(table)
}

/// Each volume of the table, with no LEB mapped.
pub(super) fn unmapped(records: Vec<Option<VtblRecord>>) -> Vec<Option<AttachedVolume>> {
    let volume = |record: VtblRecord| {
        let eba = vec![None; record.reserved_pebs as usize];
        AttachedVolume { record, eba, used_ebs: 0, last_eb_bytes: 0 }
    };
    records.into_iter().map(|record| record.map(volume)).collect()
}

/// Whether `hdr` may belong to the volume that `record` describes.
/// Errors: `Volume`, with the PEB.
pub(super) fn agree(record: &VtblRecord, hdr: &VidHdr, peb: Peb) -> Result<(), AttachError> {
    let contradiction = |what: String| {
        Err(AttachError::Volume { vol_id: VolId(hdr.vol_id), what: format!("PEB {peb}, LEB {}: {what}", hdr.lnum) })
    };
    if hdr.vol_type != record.vol_type {
        let (found, expected) = (hdr.vol_type.name(), record.vol_type.name());
        return contradiction(format!("the header says {found}, the volume table says {expected}"));
    }
    if hdr.data_pad != record.data_pad {
        return contradiction(format!("data_pad = {}, {} in the volume table", hdr.data_pad, record.data_pad));
    }
    if hdr.vol_type == VolType::Dynamic || record.upd_marker {
        return Ok(());
    }
    if hdr.used_ebs > record.reserved_pebs {
        return contradiction(format!("used_ebs = {} of {} reserved LEBs", hdr.used_ebs, record.reserved_pebs));
    }
    Ok(())
}
