//! Tests on images made here, without any tool.

mod bad;
mod classes;
mod compare;
mod counters_edit;
mod devices;
mod fastmap;
mod input;
mod packing;
mod probe;
mod random;
mod resolve;

use super::*;
use crate::media::{
    EcHdr, FM_SB_VOLUME_ID, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, LAYOUT_COMPAT, LAYOUT_VOLUME_ID, UNMAPPED, VidHdr,
    VolType, VtblRecord, compat, crc, fastmap_bytes, vtbl_slots,
};
use sim::{Lnum, Peb, VolId};

const PEB_BYTES: usize = 16 << 10;
const VID_AT: usize = 512;
const DATA_AT: usize = 1024;
const LEB_BYTES: u32 = (PEB_BYTES - DATA_AT) as u32;
/// More than 64: with fewer Linux uses no fastmap.
const PEBS: usize = 80;
const IMAGE_SEQ: u32 = 0x1234_5678;

/// A flash that UBI has run on. PEBs 0 and 1: volume table. 3, 4, 5: LEBs 0, 1 and 3 of dynamic volume 0,
/// "rootfs". 6, 7: LEBs of static volume 1, "boot". 2: fastmap. 31: erased. The
/// others: free.
#[derive(Clone)]
struct Flash {
    bytes: Vec<u8>,
}

fn vid(vol_type: VolType, vol_id: u32, lnum: u32, sqnum: u64) -> VidHdr {
    let compat = if vol_id == LAYOUT_VOLUME_ID { LAYOUT_COMPAT } else { 0 };
    let (data_size, used_ebs, data_pad, data_crc) = (0, 0, 0, 0);
    VidHdr { vol_type, copy_flag: false, compat, vol_id, lnum, data_size, used_ebs, data_pad, data_crc, sqnum }
}

fn record(name: &str, reserved_pebs: u32, vol_type: VolType) -> VtblRecord {
    let (alignment, data_pad, upd_marker, flags) = (1, 0, false, 0);
    VtblRecord { reserved_pebs, alignment, data_pad, vol_type, upd_marker, name: name.as_bytes().to_vec(), flags }
}

fn records() -> Vec<VtblRecord> {
    vec![record("rootfs", 8, VolType::Dynamic), record("boot", 2, VolType::Static)]
}

impl Flash {
    fn new() -> Flash {
        let mut flash = Flash { bytes: vec![0xff; PEBS * PEB_BYTES] };
        for peb in (0..PEBS).filter(|&peb| peb != 31) {
            flash.put_ec(peb, 10 + peb as u64, IMAGE_SEQ);
        }
        flash.put_table(&records());
        for (peb, lnum) in [(3, 0), (4, 1), (5, 3)] {
            flash.put(peb, &vid(VolType::Dynamic, 0, lnum, 10 + u64::from(lnum)), &[lnum as u8; 2000]);
        }
        for (peb, lnum, len) in [(6, 0, LEB_BYTES as usize), (7, 1, 100)] {
            let data = vec![0x40 + lnum as u8; len];
            let (data_size, data_crc) = (len as u32, crc(&data));
            let hdr =
                VidHdr { data_size, used_ebs: 2, data_crc, ..vid(VolType::Static, 1, lnum, 20 + u64::from(lnum)) };
            flash.put(peb, &hdr, &data);
        }
        flash.put_fastmap(|_| {});
        flash
    }

    fn peb(&mut self, peb: usize) -> &mut [u8] {
        &mut self.bytes[peb * PEB_BYTES..][..PEB_BYTES]
    }

    fn put_ec(&mut self, peb: usize, ec: u64, image_seq: u32) {
        let hdr = EcHdr { ec, vid_hdr_offset: VID_AT as u32, data_offset: DATA_AT as u32, image_seq };
        self.peb(peb)[..EcHdr::BYTES].copy_from_slice(&hdr.encode());
    }

    fn put(&mut self, peb: usize, vid: &VidHdr, data: &[u8]) {
        let bytes = &mut self.peb(peb)[VID_AT..];
        bytes.fill(0xff);
        bytes[..VidHdr::BYTES].copy_from_slice(&vid.encode());
        bytes[DATA_AT - VID_AT..][..data.len()].copy_from_slice(data);
    }

    fn table(records: &[VtblRecord]) -> Vec<u8> {
        (0..vtbl_slots(LEB_BYTES)).flat_map(|slot| VtblRecord::encode(records.get(slot as usize))).collect()
    }

    fn put_table(&mut self, records: &[VtblRecord]) {
        for copy in 0..2 {
            let hdr = vid(VolType::Dynamic, LAYOUT_VOLUME_ID, copy, 1 + u64::from(copy));
            self.put(copy as usize, &hdr, &Flash::table(records));
        }
    }

    /// Writes a fastmap of the flash as it is into PEB 2; `change` edits its bytes first.
    fn put_fastmap(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        self.put(2, &VidHdr { compat: compat::DELETE, ..vid(VolType::Dynamic, FM_SB_VOLUME_ID, 0, 50) }, &[]);
        let mut stream = vec![0; fastmap_bytes(PEBS as u32, LEB_BYTES) as usize];
        let (pool, wl_pool) = (vec![8, 9], vec![10]);
        let used = vec![0, 1, 3, 4, 5, 6, 7];
        let free: Vec<u32> = (11..31).chain(32..PEBS as u32).collect();
        FmSb { data_crc: 0, blocks: vec![(2, 12)], sqnum: 0 }.encode(&mut stream);
        let mut at = FmSb::BYTES;
        let counts = FmHdr { free: free.len() as u32, used: used.len() as u32, scrub: 0, bad: 0, erase: 1, volumes: 3 };
        counts.encode(&mut stream[at..]);
        at += FmHdr::BYTES;
        for pebs in [pool, wl_pool] {
            FmPool { max_size: 8, pebs }.encode(&mut stream[at..]);
            at += FmPool::BYTES;
        }
        let ec = |peb: u32| if peb == 31 { 0 } else { 10 + peb };
        for peb in free.into_iter().chain(used).chain([31]) {
            stream[at..at + 4].copy_from_slice(&peb.to_be_bytes());
            stream[at + 4..at + 8].copy_from_slice(&ec(peb).to_be_bytes());
            at += 8;
        }
        let volumes: [(u32, u8, Vec<u32>); 3] = [
            (0, 3, vec![3, 4, UNMAPPED, 5, UNMAPPED, UNMAPPED, UNMAPPED, UNMAPPED]),
            (1, 4, vec![6, 7]),
            (LAYOUT_VOLUME_ID, 3, vec![0, 1]),
        ];
        for (vol_id, vol_type, eba) in volumes {
            let hdr = FmVolHdr { vol_id, vol_type, data_pad: 0, used_ebs: 2, last_eb_bytes: 100 };
            hdr.encode(&mut stream[at..]);
            at += FmVolHdr::BYTES;
            FmEba { reserved_pebs: eba.len() as u32 }.encode(&mut stream[at..]);
            at += FmEba::HEADER_BYTES;
            for peb in eba {
                stream[at..at + 4].copy_from_slice(&peb.to_be_bytes());
                at += 4;
            }
        }
        change(&mut stream);
        let sum = crc(&stream);
        stream[FmSb::DATA_CRC_AT..][..4].copy_from_slice(&sum.to_be_bytes());
        self.peb(2)[DATA_AT..][..stream.len()].copy_from_slice(&stream);
    }

    fn scanned<T>(&self, look: impl FnOnce(&Scan<'_>) -> T) -> T {
        let dump = Dump::probe(&self.bytes, &Overrides::default()).expect("a test's flash is UBI");
        look(&Scan::new(&dump))
    }

    fn findings(&self) -> Vec<Finding> {
        self.scanned(check)
    }
}

/// The same pages with `oob` after each.
fn with_oob(bytes: &[u8], page_bytes: usize, oob: &[u8]) -> Vec<u8> {
    bytes.chunks(page_bytes).flat_map(|page| page.iter().chain(oob).copied().collect::<Vec<u8>>()).collect()
}

#[test]
fn a_flash_without_fault_has_no_finding() {
    assert_eq!(Flash::new().findings(), vec![]);
}
