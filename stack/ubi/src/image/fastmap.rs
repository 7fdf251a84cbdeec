//! Reads a fastmap completely, and says why it is not valid.

use std::collections::BTreeSet;

use sim::{EraseCount, Lnum, Peb, VolId};

use super::linux::{How, Reason, Verdict};
use super::scan::{PebState, Scan};
use crate::media::{
    FM_DATA_VOLUME_ID, FM_MAX_START, FM_SB_VOLUME_ID, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, UNMAPPED, VolType, crc,
    fastmap_bytes,
};

/// Why Linux would not use a fastmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastmapFault {
    /// PEB of the fault.
    pub peb: Peb,
    /// Byte offset in the PEB.
    pub offset: u32,
    /// What was found and what was expected.
    pub what: String,
    /// Whether Linux refuses to attach the device; else it falls back to a full scan.
    pub is_refused: bool,
}

/// One volume of a fastmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastmapVolume {
    /// Header of the volume.
    pub hdr: FmVolHdr,
    /// PEB of each LEB; `None` if unmapped.
    pub eba: Vec<Option<Peb>>,
}

/// Lists of a fastmap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastmapLists {
    /// Header with the counts.
    pub hdr: FmHdr,
    /// User pool: PEBs for LEBs written after the fastmap.
    pub user_pool: Vec<Peb>,
    /// Size of the user pool when full.
    pub user_pool_max: u16,
    /// Wear-levelling pool: targets of moves after the fastmap.
    pub wl_pool: Vec<Peb>,
    /// Size of the wear-levelling pool when full.
    pub wl_pool_max: u16,
    /// Free PEBs and their erase counts.
    pub free: Vec<(Peb, EraseCount)>,
    /// Used PEBs and their erase counts.
    pub used: Vec<(Peb, EraseCount)>,
    /// PEBs to be scrubbed and their erase counts.
    pub scrub: Vec<(Peb, EraseCount)>,
    /// PEBs to be erased and their erase counts.
    pub erase: Vec<(Peb, EraseCount)>,
    /// Volumes and their LEBs.
    pub volumes: Vec<FastmapVolume>,
}

/// A fastmap found in a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fastmap {
    /// PEB of its super block.
    pub anchor: Peb,
    /// Sequence number of its anchor, the highest of all anchors.
    pub sqnum: u64,
    /// Its blocks and their erase counts, the anchor first.
    pub blocks: Vec<(Peb, EraseCount)>,
    /// Its contents; `None` if they cannot be decoded to the end.
    pub lists: Option<FastmapLists>,
    /// Why it is not valid; empty if it is.
    pub faults: Vec<FastmapFault>,
}

impl Fastmap {
    /// Whether Linux would attach by it.
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
    }
}

impl FastmapLists {
    /// PEBs of the four lists, with erase count and name of the list.
    pub fn listed(&self) -> impl Iterator<Item = (&'static str, Peb, EraseCount)> {
        [("free", &self.free), ("used", &self.used), ("scrub", &self.scrub), ("erase", &self.erase)]
            .into_iter()
            .flat_map(|(name, list)| list.iter().map(move |&(peb, ec)| (name, peb, ec)))
    }

    /// PEBs of the two pools, with the name of the pool.
    pub fn pooled(&self) -> impl Iterator<Item = (&'static str, Peb)> {
        let user = self.user_pool.iter().map(|&peb| ("user pool", peb));
        user.chain(self.wl_pool.iter().map(|&peb| ("WL pool", peb)))
    }
}

/// The newest fastmap in a dump, searched where Linux searches it.
pub(super) fn find(scan: &Scan<'_>) -> Option<Fastmap> {
    let anchors = scan.pebs().iter().take(FM_MAX_START as usize).enumerate();
    let (anchor, sqnum) = anchors
        .filter_map(|(peb, state)| state.vid().map(|vid| (Peb(peb as u32), vid)))
        .filter(|(_, vid)| vid.vol_id == FM_SB_VOLUME_ID && vid.sqnum > 0)
        .map(|(peb, vid)| (peb, vid.sqnum))
        .max_by_key(|&(peb, sqnum)| (sqnum, peb))?;
    let mut fastmap = Fastmap { anchor, sqnum, blocks: Vec::new(), lists: None, faults: Vec::new() };
    fastmap.decode(scan);
    fastmap.agree_with(scan.linux());
    Some(fastmap)
}

impl Fastmap {
    fn decode(&mut self, scan: &Scan<'_>) {
        let sb = match FmSb::decode(&scan.data(self.anchor)) {
            Ok(sb) => sb,
            Err(error) => return self.fault(scan, 0, format!("super block: {error}")),
        };
        self.blocks = sb.blocks.iter().map(|&(peb, ec)| (Peb(peb), EraseCount(ec))).collect();
        if self.check_blocks(scan) {
            let mut stream = Vec::new();
            for &(peb, _) in &self.blocks {
                stream.extend_from_slice(&scan.data(peb));
            }
            self.check_stream(scan, &sb, &mut stream);
            self.read(scan, &stream);
        }
    }

    /// Makes the faults those that keep Linux from using the fastmap.
    fn agree_with(&mut self, linux: &Verdict) {
        let is_refused = linux.how == How::Refused;
        match &linux.why {
            _ if linux.how == How::Fastmap => self.faults.clear(),
            Some(Reason { peb, offset, what }) if self.faults.is_empty() => {
                let (peb, offset) = (peb.unwrap_or(self.anchor), offset.unwrap_or(0));
                self.faults.push(FastmapFault { peb, offset, what: what.clone(), is_refused });
            }
            None if self.faults.is_empty() => {
                let what = "the flash has too few PEBs for a fastmap".to_owned();
                self.faults.push(FastmapFault { peb: self.anchor, offset: 0, what, is_refused });
            }
            _ => self.faults.iter_mut().for_each(|fault| fault.is_refused &= is_refused),
        }
    }
}

impl Fastmap {
    fn fault(&mut self, scan: &Scan<'_>, at: usize, what: String) {
        let geometry = scan.dump().geometry();
        let leb_bytes = geometry.leb_bytes() as usize;
        // An offset past the last block means the end of that block; a block outside the dump has no offset.
        let exists = |&&(peb, _): &&(Peb, EraseCount)| peb.at() < scan.pebs().len();
        let (peb, within) = match at / leb_bytes {
            0 => (self.anchor, at),
            block => match self.blocks.get(block).filter(exists) {
                Some(&(peb, _)) => (peb, at % leb_bytes),
                None => (self.blocks.last().filter(exists).map_or(self.anchor, |&(peb, _)| peb), leb_bytes),
            },
        };
        self.faults.push(FastmapFault { peb, offset: geometry.data_offset + within as u32, what, is_refused: false });
    }

    /// Checks that the blocks exist in the dump and differ, so that no more is read than the dump holds.
    fn check_blocks(&mut self, scan: &Scan<'_>) -> bool {
        let faults_before = self.faults.len();
        if self.blocks[0].0 != self.anchor {
            let found = self.blocks[0].0;
            self.fault(scan, 16, format!("block_loc[0] is PEB {found}, expected the anchor, PEB {}", self.anchor));
        }
        let mut seen = BTreeSet::new();
        for (i, (peb, _)) in self.blocks.clone().into_iter().enumerate() {
            let at = 16 + 4 * i;
            if !seen.insert(peb) {
                self.fault(scan, at, format!("block_loc[{i}] is PEB {peb}, which is an earlier block as well"));
                continue;
            }
            let Some(state) = scan.pebs().get(peb.at()) else {
                let pebs = scan.pebs().len();
                self.fault(scan, at, format!("block_loc[{i}] is PEB {peb}, expected one of the dump's {pebs}"));
                continue;
            };
            let volume = if i == 0 { FM_SB_VOLUME_ID } else { FM_DATA_VOLUME_ID };
            match state {
                PebState::Used { vid, .. } if vid.vol_id == volume => {}
                PebState::Used { vid, .. } => {
                    let found = vid.vol_id;
                    self.fault(
                        scan,
                        at,
                        format!("block {i} is PEB {peb} of volume {found:#x}, expected volume {volume:#x}"),
                    );
                }
                other => {
                    self.fault(
                        scan,
                        at,
                        format!("block {i} is PEB {peb}, which is {}, expected a used one", other.name()),
                    );
                }
            }
        }
        self.faults.len() == faults_before
    }

    fn check_stream(&mut self, scan: &Scan<'_>, sb: &FmSb, stream: &mut [u8]) {
        let crc_at = FmSb::DATA_CRC_AT..FmSb::DATA_CRC_AT + 4;
        stream[crc_at].fill(0);
        let computed = crc(stream);
        if computed != sb.data_crc {
            let found = sb.data_crc;
            self.fault(scan, FmSb::DATA_CRC_AT, format!("data_crc {found:#010x}, computed {computed:#010x}"));
        }
        let (pebs, leb_bytes) = (scan.dump().geometry().pebs, scan.dump().geometry().leb_bytes());
        let (expected, found) = (fastmap_bytes(pebs, leb_bytes) / u64::from(leb_bytes), sb.blocks.len());
        if expected != found as u64 {
            self.fault(scan, 12, format!("{found} blocks, expected {expected} for a flash of {pebs} PEBs"));
        }
    }

    fn read(&mut self, scan: &Scan<'_>, stream: &[u8]) {
        let mut at = 0;
        let mut wrong_types = Vec::new();
        match read_lists(stream, &mut at, &mut wrong_types) {
            Ok(lists) => {
                let mut known: BTreeSet<Peb> = lists.listed().map(|(_, peb, _)| peb).collect();
                known.extend(lists.pooled().map(|(_, peb)| peb));
                let bad = scan.pebs().iter().filter(|peb| matches!(peb, PebState::Bad(_))).count();
                let expected = scan.pebs().len().saturating_sub(bad).saturating_sub(self.blocks.len());
                if known.len() != expected {
                    let found = known.len();
                    self.fault(
                        scan,
                        FmSb::BYTES,
                        format!("accounts for {found} PEBs, expected {expected}: all but the bad ones and its own"),
                    );
                }
                self.lists = Some(lists);
                // Linux compares these with the volume table after it has chosen the fastmap.
                for (at, what) in wrong_types {
                    self.fault(scan, at, what);
                    self.faults.last_mut().expect("just added").is_refused = true;
                }
            }
            Err(what) => self.fault(scan, at, what),
        }
    }
}

/// Decodes the pieces in order. `at` stops at a piece that cannot be decoded; `wrong_types` gets the offset of each
/// unknown volume type. Each loop ends with the stream, whatever a count claims.
pub(super) fn read_lists(
    stream: &[u8],
    at: &mut usize,
    wrong_types: &mut Vec<(usize, String)>,
) -> Result<FastmapLists, String> {
    let rest = |at: usize| stream.get(at..).unwrap_or(&[]);
    *at = FmSb::BYTES;
    let hdr = FmHdr::decode(rest(*at)).map_err(|error| error.to_string())?;
    *at += FmHdr::BYTES;
    let user = FmPool::decode(rest(*at)).map_err(|error| format!("user pool: {error}"))?;
    *at += FmPool::BYTES;
    let wl = FmPool::decode(rest(*at)).map_err(|error| format!("WL pool: {error}"))?;
    *at += FmPool::BYTES;
    let pebs = |pool: Vec<u32>| pool.into_iter().map(Peb).collect();
    let mut lists = FastmapLists {
        hdr,
        user_pool: pebs(user.pebs),
        user_pool_max: user.max_size,
        wl_pool: pebs(wl.pebs),
        wl_pool_max: wl.max_size,
        ..FastmapLists::default()
    };
    let counts = [
        ("free", hdr.free, &mut lists.free),
        ("used", hdr.used, &mut lists.used),
        ("scrub", hdr.scrub, &mut lists.scrub),
        ("erase", hdr.erase, &mut lists.erase),
    ];
    for (name, count, list) in counts {
        for i in 0..count {
            let [peb, ec] = words(rest(*at))
                .ok_or_else(|| format!("the list of {count} {name} PEBs ends after {i}, at the end of the fastmap"))?;
            list.push((Peb(peb), EraseCount(ec)));
            *at += 8;
        }
    }
    for i in 0..hdr.volumes {
        let hdr = FmVolHdr::decode(rest(*at)).map_err(|error| format!("volume {i}: {error}"))?;
        if let Err(error) = VolType::decode_in_fastmap(hdr.vol_type) {
            wrong_types.push((*at + FmVolHdr::VOL_TYPE_AT, format!("volume {}: {error}", VolId(hdr.vol_id))));
        }
        *at += FmVolHdr::BYTES;
        let head = FmEba::decode(rest(*at)).map_err(|error| format!("volume {i}, EBA: {error}"))?;
        *at += FmEba::HEADER_BYTES;
        let mut eba = Vec::new();
        for lnum in 0..head.reserved_pebs {
            let [peb] = words(rest(*at)).ok_or_else(|| {
                format!("the EBA of volume {} ends at LEB {lnum} of {}", VolId(hdr.vol_id), head.reserved_pebs)
            })?;
            eba.push((peb != UNMAPPED).then_some(Peb(peb)));
            *at += 4;
        }
        lists.volumes.push(FastmapVolume { hdr, eba });
    }
    Ok(lists)
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let (words, _) = bytes.as_chunks::<4>();
    let words = words.first_chunk::<N>()?;
    Some(words.map(u32::from_be_bytes))
}

impl FastmapVolume {
    /// Number of the volume.
    pub fn id(&self) -> VolId {
        VolId(self.hdr.vol_id)
    }

    /// Mapped LEBs and their PEBs.
    pub fn mapped(&self) -> impl Iterator<Item = (Lnum, Peb)> {
        self.eba.iter().enumerate().filter_map(|(lnum, peb)| peb.map(|peb| (Lnum(lnum as u32), peb)))
    }
}
