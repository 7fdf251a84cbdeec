//! Reading and editing a flash below UBI.

use sim::seam::{Flash, Payload};
use sim::{Cx, Peb, VolId};
use ubi::layout::Layout;
use ubi::media::{LAYOUT_VOLUME_ID, VidHdr, VtblRecord};

/// The layout volume.
pub const LAYOUT: VolId = VolId(LAYOUT_VOLUME_ID);

pub fn peb_bytes<F: Flash>(flash: &mut F, peb: Peb) -> Vec<u8> {
    let mut bytes = vec![0; flash.geometry().peb_bytes as usize];
    flash.read(&mut Cx::new(), peb, 0, &mut bytes).expect("readable");
    bytes
}

/// The VID header of a PEB.
pub fn vid_hdr<F: Flash>(flash: &mut F, peb: Peb) -> VidHdr {
    let layout = Layout::new(flash.geometry(), None).expect("UBI fits");
    VidHdr::decode(peb_bytes(flash, peb)[layout.vid_hdr_offset as usize..].first_chunk().expect("64 bytes"))
        .expect("valid")
}

/// Edits the bytes of a PEB as if they had been written so.
pub fn rewrite<F: Flash>(flash: &mut F, peb: Peb, edit: impl FnOnce(&mut [u8])) {
    let mut bytes = peb_bytes(flash, peb);
    edit(&mut bytes);
    let end = bytes.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
    let end = end.next_multiple_of(flash.geometry().subpage_bytes as usize);
    flash.erase(&mut Cx::new(), peb).expect("erased");
    flash.program(&mut Cx::new(), peb, 0, Payload::Bytes(&bytes[..end])).expect("programmed");
}

/// The PEB that holds a LEB: the one with the highest sequence number.
pub fn peb_of<F: Flash>(flash: &mut F, vol_id: VolId, lnum: u32) -> Peb {
    let layout = Layout::new(flash.geometry(), None).expect("UBI fits");
    let hdr = |peb| {
        let bytes = peb_bytes(flash, peb);
        let hdr = VidHdr::decode(bytes[layout.vid_hdr_offset as usize..].first_chunk()?).ok()?;
        ((hdr.vol_id, hdr.lnum) == (vol_id.0, lnum)).then_some((hdr.sqnum, peb))
    };
    (0..layout.pebs).map(Peb).filter_map(hdr).max().expect("the LEB is mapped").1
}

/// Edits a volume's record in both copies of the table.
pub fn edit_record<F: Flash>(flash: &mut F, vol_id: VolId, edit: impl Fn(&mut VtblRecord)) {
    let layout = Layout::new(flash.geometry(), None).expect("UBI fits");
    for lnum in 0..2 {
        let peb = peb_of(flash, LAYOUT, lnum);
        rewrite(flash, peb, |bytes| {
            let at = layout.data_offset as usize + vol_id.0 as usize * VtblRecord::BYTES;
            let slot = bytes[at..].first_chunk_mut::<{ VtblRecord::BYTES }>().expect("the record is there");
            let mut record = VtblRecord::decode(slot, layout.leb_bytes).expect("whole").expect("a volume");
            edit(&mut record);
            *slot = VtblRecord::encode(Some(&record));
            // The copy flag's checksum covers the old table.
            let vid = layout.vid_hdr_offset as usize;
            let mut hdr = VidHdr::decode(bytes[vid..].first_chunk().expect("a header")).expect("whole");
            (hdr.copy_flag, hdr.data_size, hdr.data_crc) = (false, 0, 0);
            bytes[vid..vid + VidHdr::BYTES].copy_from_slice(&hdr.encode());
        });
    }
}
