//! Attach by a fastmap, as far as Linux checks it.

use std::collections::BTreeMap;

use super::headers::{Found, Headers, Holder, Lebs, Read, is_newer};
use super::{Device, Stop};
use crate::media::{
    EcHdr, FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, VidHdr, VolType, crc,
    fastmap_bytes, u32_at,
};

/// The fastmap's bytes, and how far they were read.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    leb_bytes: usize,
    data_offset: u32,
    blocks: Vec<u32>,
}

impl Cursor<'_> {
    fn unusable<T>(&self, at: usize, what: impl ToString) -> Result<T, Stop> {
        let block = (at / self.leb_bytes).min(self.blocks.len() - 1);
        let offset = self.data_offset + (at - block * self.leb_bytes) as u32;
        Stop::unusable(self.blocks[block], offset, what)
    }

    /// Moves over a piece and returns its bytes. Errors: it reaches the end of the fastmap.
    fn piece(&mut self, length: usize, what: &str) -> Result<&[u8], Stop> {
        let from = self.at;
        self.at = self.at.saturating_add(length);
        if self.at >= self.bytes.len() {
            return self.unusable(from, format!("the fastmap ends in {what}"));
        }
        Ok(&self.bytes[from..])
    }
}

/// Attaches by the fastmap whose super block is in PEB `anchor`.
pub(super) fn attach(device: &Device<'_>, headers: &mut Headers<'_, '_>, anchor: u32) -> Result<Found, Stop> {
    let geometry = device.dump.geometry();
    let leb_bytes = geometry.leb_bytes();
    let size = fastmap_bytes(device.pebs(), leb_bytes);
    let data_at = geometry.data_offset;
    let first = device.read(anchor, data_at, leb_bytes);
    let sb = FmSb::decode(&first).or_else(|why| Stop::unusable(anchor, data_at, format!("super block: {why}")))?;
    let expected = size / u64::from(leb_bytes);
    if sb.blocks.len() as u64 != expected {
        let found = sb.blocks.len();
        return Stop::unusable(anchor, data_at + 12, format!("used_blocks = {found}, expected {expected}"));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    for (i, &(peb, _)) in sb.blocks.iter().enumerate() {
        let at = data_at + 16 + 4 * i as u32;
        block(device, headers, anchor, i, peb, at)?;
        bytes.extend_from_slice(&device.read(peb, data_at, leb_bytes));
    }
    bytes[FmSb::DATA_CRC_AT..][..4].fill(0);
    let computed = crc(&bytes);
    if computed != sb.data_crc {
        let what = format!("data_crc {:#010x}, computed {computed:#010x}", sb.data_crc);
        return Stop::unusable(anchor, data_at + FmSb::DATA_CRC_AT as u32, what);
    }
    let blocks = sb.blocks.iter().map(|&(peb, _)| peb).collect();
    let mut cursor =
        Cursor { bytes: &bytes, at: FmSb::BYTES, leb_bytes: leb_bytes as usize, data_offset: data_at, blocks };
    read(device, headers, &mut cursor)
}

/// Checks a block's headers.
fn block(
    device: &Device<'_>,
    headers: &mut Headers<'_, '_>,
    anchor: u32,
    index: usize,
    peb: u32,
    at: u32,
) -> Result<(), Stop> {
    let unusable = |what: String| Stop::unusable(anchor, at, format!("block {index} is PEB {peb}, {what}"));
    let vid_at = device.dump.geometry().vid_hdr_offset;
    if peb >= device.pebs() {
        // A medium without bad blocks is asked for the data, which fails.
        return match vid_at as usize == EcHdr::BYTES {
            true => Stop::refused(anchor, at, format!("block {index} is PEB {peb}, which does not exist")),
            false => unusable("which does not exist".to_owned()),
        };
    }
    if device.bad[peb as usize] {
        return unusable("which is bad".to_owned());
    }
    if index == 0 && peb != anchor {
        return unusable(format!("expected the anchor, PEB {anchor}"));
    }
    match headers.ec_hdr(peb)? {
        Read::Header(hdr) if headers.is_image(hdr.image_seq) => {}
        Read::Header(_) => return unusable("which is of another image".to_owned()),
        _ => return unusable("which has no whole EC header".to_owned()),
    }
    let volume = if index == 0 { FM_SB_VOLUME_ID } else { FM_DATA_VOLUME_ID };
    match headers.vid_hdr(peb)? {
        Read::Header(hdr) if hdr.vol_id == volume => Ok(()),
        Read::Header(hdr) => unusable(format!("of volume {:#x}, expected {volume:#x}", hdr.vol_id)),
        _ => unusable("which has no whole VID header".to_owned()),
    }
}

/// Decodes the fastmap, and looks at the PEBs of its pools.
fn read(device: &Device<'_>, headers: &mut Headers<'_, '_>, cursor: &mut Cursor<'_>) -> Result<Found, Stop> {
    let from = cursor.at;
    let hdr = FmHdr::decode(cursor.piece(FmHdr::BYTES, "its header")?).or_else(|why| cursor.unusable(from, why))?;
    let mut pools = Vec::new();
    for what in ["the user pool", "the WL pool"] {
        let from = cursor.at;
        let pool = FmPool::decode(cursor.piece(FmPool::BYTES, what)?);
        pools.push((from, pool.or_else(|why| cursor.unusable(from, format!("{what}: {why}")))?.pebs));
    }
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    // PEBs that are in no volume: free or to be erased.
    let mut others = 0u64;
    for (count, is_used) in [(hdr.free, false), (hdr.used, true), (hdr.scrub, true), (hdr.erase, false)] {
        for _ in 0..count {
            let peb = u32_at(cursor.piece(8, "a list of PEBs")?, 0);
            match is_used {
                true => *used.entry(peb).or_insert(0) += 1,
                false => others += 1,
            }
        }
    }
    let mut found = Found { bad: hdr.bad, ..Found::default() };
    for _ in 0..hdr.volumes {
        volume(cursor, &mut used, &mut found)?;
    }
    for (from, pool) in pools {
        for (peb, at) in pool.into_iter().zip((from + 8..).step_by(4)) {
            others += u64::from(pooled(device, headers, cursor, &mut found, peb, at)?);
        }
    }
    let held: u64 = found.volumes.values().map(|lebs| lebs.holders.len() as u64).sum();
    let left: u64 = used.values().map(|count| u64::from(*count)).sum();
    let counted = held + left + others;
    let expected = i64::from(device.pebs()) - i64::from(hdr.bad as i32) - cursor.blocks.len() as i64;
    if counted as i64 != expected {
        let what = format!("accounts for {counted} PEBs, expected {expected}: all but the bad ones and its own");
        return cursor.unusable(FmSb::BYTES, what);
    }
    Ok(found)
}

fn volume(cursor: &mut Cursor<'_>, used: &mut BTreeMap<u32, u32>, found: &mut Found) -> Result<(), Stop> {
    let from = cursor.at;
    let hdr = FmVolHdr::decode(cursor.piece(FmVolHdr::BYTES, "a volume's header")?);
    let hdr = hdr.or_else(|why| cursor.unusable(from, format!("volume header: {why}")))?;
    if found.volumes.contains_key(&hdr.vol_id) {
        return cursor.unusable(from + 4, format!("volume {} is there twice", hdr.vol_id));
    }
    let is_static = hdr.vol_type == VolType::Static.in_fastmap();
    let mut lebs = Lebs {
        vol_type: hdr.vol_type,
        used_ebs: if is_static { hdr.used_ebs } else { 0 },
        data_pad: hdr.data_pad,
        highest: 0,
        last_bytes: hdr.last_eb_bytes,
        holders: BTreeMap::new(),
    };
    let head_at = cursor.at;
    let rest = &cursor.bytes[cursor.at.min(cursor.bytes.len())..];
    let count = if rest.len() >= FmEba::HEADER_BYTES { u32_at(rest, 4) as usize } else { 0 };
    let head = FmEba::decode(cursor.piece(FmEba::HEADER_BYTES + 4 * count, "an EBA")?);
    head.or_else(|why| cursor.unusable(head_at, format!("EBA: {why}")))?;
    for lnum in 0..count {
        let at = head_at + FmEba::HEADER_BYTES + 4 * lnum;
        let peb = u32_at(cursor.bytes, at);
        if peb > i32::MAX as u32 {
            continue; // not mapped
        }
        match used.get_mut(&peb) {
            Some(count @ 1..) => *count -= 1,
            _ => return cursor.unusable(at, format!("PEB {peb} holds a LEB, and is not in the list of used ones")),
        }
        lebs.highest = lnum as u32;
        lebs.holders.insert(lnum as u32, Holder { peb, sqnum: 0, is_copy: false });
    }
    found.volumes.insert(hdr.vol_id, lebs);
    Ok(())
}

/// Looks at a PEB of a pool. Returns whether it is free, or to be erased.
fn pooled(
    device: &Device<'_>,
    headers: &mut Headers<'_, '_>,
    cursor: &Cursor<'_>,
    found: &mut Found,
    peb: u32,
    at: usize,
) -> Result<bool, Stop> {
    let unusable = |what: &str| cursor.unusable(at, format!("PEB {peb} of a pool {what}"));
    let vid_at = device.dump.geometry().vid_hdr_offset;
    if peb >= device.pebs() {
        return match vid_at as usize == EcHdr::BYTES {
            true => Stop::refused(cursor.blocks[0], cursor.data_offset + at as u32, format!("PEB {peb} of a pool")),
            false => unusable("does not exist"),
        };
    }
    if device.bad[peb as usize] {
        return unusable("is bad");
    }
    match headers.ec_hdr(peb)? {
        Read::Header(hdr) if hdr.image_seq == 0 || hdr.image_seq == headers.image_seq => {}
        Read::Header(_) => return unusable("is of another image"),
        _ => return unusable("has no whole EC header"),
    }
    let hdr: VidHdr = match headers.vid_hdr(peb)? {
        Read::Header(hdr) => hdr,
        Read::Broken(why) => return unusable(&format!("has a broken VID header: {why}")),
        Read::Erased => {
            // Unmapped after the fastmap was written.
            for lebs in found.volumes.values_mut().rev() {
                if let Some(lnum) = lebs.holders.iter().find(|(_, holder)| holder.peb == peb).map(|(lnum, _)| *lnum) {
                    lebs.holders.remove(&lnum);
                    break;
                }
            }
            return Ok(true);
        }
    };
    if hdr.vol_id == FM_SB_VOLUME_ID || hdr.vol_id == FM_DATA_VOLUME_ID {
        return Ok(false);
    }
    let Some(lebs) = found.volumes.get_mut(&hdr.vol_id) else {
        return unusable(&format!("holds a LEB of volume {}, which the fastmap does not have", hdr.vol_id));
    };
    match lebs.holders.get(&hdr.lnum) {
        Some(old) if old.peb == peb => Ok(false),
        Some(old) if old.sqnum == hdr.sqnum => {
            let what = format!("LEB {}:{} with the sqnum {} of another", hdr.vol_id, hdr.lnum, hdr.sqnum);
            Stop::refused(peb, vid_at + 40, what)
        }
        Some(old) => {
            if is_newer(device, old, peb, &hdr) {
                lebs.put(&hdr, peb);
            }
            Ok(true)
        }
        None => {
            lebs.put(&hdr, peb);
            if lebs.vol_type == VolType::Static.in_fastmap() {
                lebs.used_ebs = hdr.used_ebs;
            }
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::Peb;

    use super::super::Reason;
    use super::*;

    fn cursor(bytes: &[u8]) -> Cursor<'_> {
        Cursor { bytes, at: 0, leb_bytes: 100, data_offset: 1024, blocks: vec![7, 3, 9] }
    }

    #[test]
    fn a_byte_of_the_fastmap_is_in_the_block_that_holds_it() {
        for (at, peb, offset) in [
            (0, 7, 1024),
            (99, 7, 1123),
            (100, 3, 1024),
            (199, 3, 1123),
            (200, 9, 1024),
            (299, 9, 1123),
            (300, 9, 1124),
        ] {
            let Err(Stop::Unusable(reason)) = cursor(&[0; 300]).unusable::<()>(at, "why") else { panic!("{at}") };
            assert_eq!(reason, Reason { peb: Some(Peb(peb)), offset: Some(offset), what: "why".to_owned() }, "{at}");
        }
    }

    /// Linux takes no piece that ends with the last byte.
    #[test]
    fn a_piece_that_reaches_the_end_is_refused_where_it_begins() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut cursor = cursor(&bytes[..150]);
        assert!(cursor.piece(120, "a piece").is_ok_and(|piece| piece[0] == 0));
        assert!(cursor.piece(29, "a piece").is_ok_and(|piece| piece[0] == 120));
        assert_eq!(cursor.at, 149);
        for length in [1, usize::MAX] {
            let mut cursor = Cursor { blocks: vec![7, 3, 9], ..cursor };
            let Err(Stop::Unusable(reason)) = cursor.piece(length, "a piece") else { panic!("{length}") };
            let what = "the fastmap ends in a piece".to_owned();
            assert_eq!(reason, Reason { peb: Some(Peb(3)), offset: Some(1024 + 49), what });
        }
    }
}
