//! What Linux's UBI does, as seen at the flash: fastmaps, PEBs taken for LEBs, and moves.
//!
//! The headers and fastmaps that it programs say so (`ubi::media` has their layout): a VID header of the fastmap's super
//! block begins a fastmap, whose data hold the pools as they were filled; every other VID header is a PEB taken for a LEB,
//! or the target of a move, which UBI's call before it tells.

use guest::protocol::UbiOp;
use sim::Peb;
use ubi::media::{FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, FmHdr, FmPool, FmSb, VidHdr};

use crate::measure::Metrics;

/// Offset of the user pool in a fastmap: after super block and header. The wear-levelling pool follows it.
const POOLS: usize = FmSb::BYTES + FmHdr::BYTES;

/// Counters of Linux's UBI in the measured part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UbiSeen {
    /// PEBs taken for LEBs.
    pub user_pebs: u64,
    /// LEBs moved.
    pub moves: u64,
    /// Fastmaps written.
    pub fastmaps: u64,
    /// Fastmaps whose anchor is that of the one before.
    pub anchors_in_place: u64,
    /// Fastmaps whose second block is that of the one before.
    pub data_in_place: u64,
    /// Fastmaps whose user pool has one PEB or none.
    pub starved: u64,
    /// Fastmaps whose wear-levelling pool is empty.
    pub empty_wl_pools: u64,
    /// PEBs in the user pools of all fastmaps.
    pub pooled: u64,
}

impl UbiSeen {
    /// Adds the metrics, under the ids of nandlab's own UBI.
    pub fn put(&self, metrics: &mut Metrics) {
        for (id, count) in [
            ("ubi.user_pebs", self.user_pebs),
            ("wl.moves", self.moves),
            ("fastmap.writes", self.fastmaps),
            ("fastmap.anchors_in_place", self.anchors_in_place),
            ("fastmap.data_in_place", self.data_in_place),
        ] {
            metrics.put(id, count as f64);
        }
        let fastmaps = self.fastmaps as f64;
        for (stat, part, whole) in [
            ("writes_per_user_peb", self.fastmaps, self.user_pebs as f64),
            ("mean_user_pool", self.pooled, fastmaps),
            ("starved_refill_share", self.starved, fastmaps),
            ("empty_wl_pool_share", self.empty_wl_pools, fastmaps),
            ("anchors_in_place_share", self.anchors_in_place, fastmaps),
            ("data_in_place_share", self.data_in_place, fastmaps),
            ("moves_per_user_peb", self.moves, self.user_pebs as f64),
        ] {
            metrics.put(&format!("fastmap.{stat}"), part as f64 / whole.max(1.0));
        }
    }
}

/// Watches the flash under Linux's UBI.
#[derive(Debug, Default)]
pub(super) struct Watch {
    seen: UbiSeen,
    /// Processes that have begun a move.
    moving: Vec<Vec<u8>>,
    anchor: Option<Peb>,
    data: Option<u32>,
}

impl Watch {
    /// UBI is called.
    pub fn call(&mut self, process: &[u8], op: UbiOp) {
        self.moving.retain(|other| other != process);
        if op == UbiOp::Move {
            self.moving.push(process.to_owned());
        }
    }

    /// A PEB is programmed. Before the measurement (`counts` is false) only the fastmap's place is kept.
    pub fn program(&mut self, process: &[u8], peb: Peb, data: &[u8], counts: bool) {
        let seen = &mut self.seen;
        let add = u64::from(counts);
        if let Some(Ok(sb)) = data.get(..FmSb::BYTES).map(FmSb::decode) {
            let second = sb.blocks.get(1).map(|&(peb, _)| peb);
            seen.data_in_place += add * u64::from(second.is_some() && second == self.data);
            self.data = second;
            let size = |pool: usize| {
                let at = POOLS + pool * FmPool::BYTES;
                let pool = data.get(at..at + FmPool::BYTES).and_then(|pool| FmPool::decode(pool).ok());
                pool.map_or(0, |pool| pool.pebs.len() as u64)
            };
            seen.pooled += add * size(0);
            seen.starved += add * u64::from(size(0) <= 1);
            seen.empty_wl_pools += add * u64::from(size(1) == 0);
            return;
        }
        let Some(Ok(hdr)) = data.get(..VidHdr::BYTES).and_then(|hdr| hdr.try_into().ok()).map(VidHdr::decode) else {
            return;
        };
        match hdr.vol_id {
            FM_SB_VOLUME_ID => {
                seen.fastmaps += add;
                seen.anchors_in_place += add * u64::from(self.anchor == Some(peb));
                self.anchor = Some(peb);
            }
            FM_DATA_VOLUME_ID => {}
            _ => match self.moving.iter().position(|other| other == process).filter(|_| hdr.copy_flag) {
                Some(at) => {
                    self.moving.swap_remove(at);
                    seen.moves += add;
                }
                None => seen.user_pebs += add,
            },
        }
    }

    /// What was counted; `None` if no VID header was programmed: there is no UBI.
    pub fn into_seen(self) -> Option<UbiSeen> {
        (self.seen != UbiSeen::default()).then_some(self.seen)
    }
}

#[cfg(test)]
mod tests {
    use ubi::media::VolType;

    use super::*;

    fn vid(vol_id: u32, copy_flag: bool) -> Vec<u8> {
        let hdr = VidHdr {
            vol_type: VolType::Dynamic,
            copy_flag,
            compat: 0,
            vol_id,
            lnum: 0,
            data_size: 0,
            used_ebs: 0,
            data_pad: 0,
            data_crc: 0,
            sqnum: 1,
        };
        hdr.encode().to_vec()
    }

    #[test]
    fn headers_and_fastmaps_tell_what_ubi_did() {
        let mut watch = Watch::default();
        let mut fastmap = vec![0; POOLS + 2 * FmPool::BYTES];
        FmSb { data_crc: 0, blocks: vec![(3, 1), (70, 1)], sqnum: 0 }.encode(&mut fastmap);
        FmPool { max_size: 8, pebs: vec![5, 6, 7] }.encode(&mut fastmap[POOLS..]);
        FmPool { max_size: 4, pebs: Vec::new() }.encode(&mut fastmap[POOLS + FmPool::BYTES..]);
        for _ in 0..2 {
            watch.program(b"a", Peb(3), &vid(FM_SB_VOLUME_ID, false), true);
            watch.program(b"a", Peb(70), &vid(FM_DATA_VOLUME_ID, false), true);
            watch.program(b"a", Peb(3), &fastmap, true);
        }
        watch.program(b"a", Peb(9), &vid(0, false), true);
        // An atomic change has the copy flag and is no move.
        watch.call(b"a", UbiOp::Change);
        watch.program(b"a", Peb(10), &vid(0, true), true);
        watch.call(b"ubi_bgt0d", UbiOp::Move);
        watch.program(b"ubi_bgt0d", Peb(11), &vid(0, true), true);
        let seen = watch.into_seen().unwrap();
        let expected = UbiSeen {
            user_pebs: 2,
            moves: 1,
            fastmaps: 2,
            anchors_in_place: 1,
            data_in_place: 1,
            starved: 0,
            empty_wl_pools: 2,
            pooled: 6,
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_flash_without_ubi_has_nothing_to_tell() {
        let mut watch = Watch::default();
        watch.program(b"a", Peb(0), &[0x19, 0x85], true);
        assert_eq!(watch.into_seen(), None);
    }
}
