//! The volume table at attach: its two copies, which one is used, and which headers agree with its records.

use sim::seam::Flash;
use sim::{Peb, VolId};

use super::reader::{Quality, Reader};
use super::{AttachError, AttachedVolume, TableCopy};
use crate::layout::Layout;
use crate::media::{LAYOUT_LEBS, VidHdr, VolType, VtblRecord, vtbl_slots};

/// The volume table in use.
pub(super) struct Table {
    pub(super) records: Vec<Option<VtblRecord>>,
    pub(super) copies: [TableCopy; 2],
    /// Copies whose PEB should be scrubbed.
    pub(super) tired: [bool; 2],
    /// Faults of the copy that is not used.
    pub(super) notes: Vec<String>,
}

/// Reads both copies. Copy 0 wins if it is valid, because it is written first.
/// Errors: faults of the flash; no valid copy; volumes that need more PEBs than are good.
pub(super) fn read<F: Flash>(
    reader: &mut Reader<'_, F>,
    eba: [Option<Peb>; 2],
    good: u32,
) -> Result<Table, AttachError> {
    let layout = reader.layout;
    let mut tired = [false; 2];
    let mut bytes = [Vec::new(), Vec::new()];
    let mut parsed = [Err("missing".to_owned()), Err("missing".to_owned())];
    for copy in 0..2 {
        let Some(peb) = eba[copy] else { continue };
        bytes[copy] = vec![0; vtbl_slots(layout.leb_bytes) as usize * VtblRecord::BYTES];
        let quality = reader.read(peb, layout.data_offset, &mut bytes[copy])?;
        tired[copy] = quality != Quality::Clean;
        parsed[copy] = parse(&bytes[copy], layout, good).map_err(|why| format!("PEB {peb}: {why}"));
    }
    let same = bytes[0] == bytes[1];
    let (records, copies, notes) = match parsed {
        [Ok(records), Ok(_)] if same => (records, [TableCopy::Good, TableCopy::Good], vec![]),
        [Ok(records), Ok(_)] => (
            records,
            [TableCopy::Good, TableCopy::Differs],
            vec!["volume table: copy 1 differs from copy 0".to_owned()],
        ),
        [Ok(records), Err(why)] => {
            (records, [TableCopy::Good, TableCopy::Bad], vec![format!("volume table: copy 1 is not used ({why})")])
        }
        [Err(why), Ok(records)] => {
            (records, [TableCopy::Bad, TableCopy::Good], vec![format!("volume table: copy 0 is not used ({why})")])
        }
        [Err(first), Err(second)] => {
            return Err(AttachError::NoVolumeTable { why: format!("copy 0: {first}; copy 1: {second}") });
        }
    };
    let need = records.iter().flatten().map(|record| u64::from(record.reserved_pebs)).sum::<u64>();
    let need = need + u64::from(LAYOUT_LEBS);
    if need > u64::from(good) {
        return Err(AttachError::NoSpace { need: u32::try_from(need).unwrap_or(u32::MAX), have: good });
    }
    Ok(Table { records, copies, tired, notes })
}

/// Decodes one copy. Errors: why it is not valid.
fn parse(bytes: &[u8], layout: &Layout, good: u32) -> Result<Vec<Option<VtblRecord>>, String> {
    let (records, _) = bytes.as_chunks::<{ VtblRecord::BYTES }>();
    let records = records
        .iter()
        .enumerate()
        .map(|(vol_id, bytes)| {
            VtblRecord::decode(bytes, layout.leb_bytes).map_err(|why| format!("record {vol_id}: {why}"))
        })
        .collect::<Result<Vec<_>, _>>()?;
    for (vol_id, record) in records.iter().enumerate() {
        let Some(record) = record else { continue };
        if record.reserved_pebs > good {
            return Err(format!("record {vol_id}: reserved_pebs = {}, good PEBs: {good}", record.reserved_pebs));
        }
        if let Some(other) = records[..vol_id].iter().position(|r| r.as_ref().is_some_and(|r| r.name == record.name)) {
            return Err(format!("records {other} and {vol_id} have one name, {}", record.name.escape_ascii()));
        }
    }
    Ok(records)
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
pub(super) fn agree(record: &VtblRecord, hdr: &VidHdr, peb: Peb, layout: &Layout) -> Result<(), AttachError> {
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
    let usable = layout.leb_bytes - record.data_pad;
    let is_last = hdr.lnum + 1 == hdr.used_ebs;
    if hdr.data_size == 0 || (!is_last && hdr.data_size != usable) {
        return contradiction(format!("data_size = {} in a LEB that holds {usable} bytes", hdr.data_size));
    }
    Ok(())
}
