//! A small flash from fuzzed bytes.
//!
//! Bytes alone hardly ever get past a checksum, so the first byte says where the rest goes and what is put right:
//! bits 0 and 1 choose what the flash holds at first (nothing; or an image of our own layer, with or without fastmap),
//! bit 2 whether the checksums of headers and table are put right afterwards, bit 3 that of the fastmap. Over nothing
//! the rest is the image itself; over an image it is patches: PEB (1 byte), offset (2), length (1), bytes.

use std::sync::LazyLock;

use sim::seam::{Flash, Geometry, LebVolume, Medium, Payload, RamFlash};
use sim::{Cx, Lnum, Peb};
use ubi::media::{
    EcHdr, FM_MAX_BLOCKS, FM_SB_VOLUME_ID, FmSb, LAYOUT_VOLUME_ID, VidHdr, VolType, VtblRecord, crc, fastmap_bytes,
    vtbl_slots,
};
use ubi::{Config, Policy, Ubi, VolumeRequest, VolumeSize};

/// 72 PEBs of 4 KiB with 512-byte pages: up to 64 there is no fastmap.
pub const GEOMETRY: Geometry =
    Geometry { medium: Medium::Nand, pebs: 72, peb_bytes: 4096, page_bytes: 512, subpage_bytes: 512, oob_bytes: 0 };
const PEB: usize = GEOMETRY.peb_bytes as usize;
const VID_AT: usize = 512;
const DATA_AT: usize = 1024;
const LEB: usize = PEB - DATA_AT;

/// Bit of the first byte: right checksums of headers and table.
pub const RIGHT_SUMS: u8 = 4;
/// Bit of the first byte: right checksum of the fastmap.
pub const RIGHT_FASTMAP: u8 = 8;

/// An image by our own layer, detached: a dynamic volume with most LEBs mapped, and a static one.
pub fn ours(fastmap: bool) -> Vec<u8> {
    let mut cx = Cx::new();
    let config = Config { fastmap, ..Config::linux(Policy::LINUX_6_7) };
    let mut ubi = match Ubi::attach(RamFlash::new(GEOMETRY), &mut cx, &config) {
        Ok(ubi) => ubi,
        Err(failure) => panic!("{failure}"),
    };
    ubi.flush(&mut cx).expect("no faults");
    let firmware =
        VolumeRequest { vol_type: VolType::Static, ..VolumeRequest::dynamic("firmware", VolumeSize::Lebs(3)) };
    let firmware = ubi.create_volume(&mut cx, &firmware).expect("it fits");
    ubi.update_volume(&mut cx, firmware, &[0x3c; LEB + 100]).expect("it fits");
    let data = ubi.create_volume(&mut cx, &VolumeRequest::dynamic("data", VolumeSize::Lebs(10))).expect("it fits");
    let mut volume = ubi.volume(data).expect("just made");
    for lnum in (0..8).map(Lnum) {
        volume.write(&mut cx, lnum, 0, Payload::Bytes(&[lnum.0 as u8; 512])).expect("no faults");
    }
    volume.change(&mut cx, Lnum(2), Payload::Bytes(&[0x77; 1024])).expect("no faults");
    let (mut flash, outcome) = ubi.detach(&mut cx);
    outcome.expect("no faults");
    let mut bytes = vec![0; GEOMETRY.bytes() as usize];
    for (peb, block) in bytes.chunks_exact_mut(PEB).enumerate() {
        flash.read(&mut cx, Peb(peb as u32), 0, block).expect("no faults");
    }
    bytes
}

static OURS: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [ours(false), ours(true)]);

/// The bytes of the flash that `data` describes.
pub fn bytes(data: &[u8]) -> Vec<u8> {
    let (&flags, rest) = data.split_first().unwrap_or((&0, &[]));
    let mut image = match flags & 3 {
        0 => vec![0xff; GEOMETRY.bytes() as usize],
        1 => OURS[0].clone(),
        _ => OURS[1].clone(),
    };
    if flags & 3 == 0 {
        let len = rest.len().min(image.len());
        image[..len].copy_from_slice(&rest[..len]);
    } else {
        patch(&mut image, rest);
    }
    if flags & RIGHT_FASTMAP != 0 {
        put_fastmap_right(&mut image);
    }
    if flags & RIGHT_SUMS != 0 {
        put_sums_right(&mut image);
    }
    image
}

/// The flash that `data` describes.
pub fn flash(data: &[u8]) -> RamFlash {
    let image = bytes(data);
    let mut flash = RamFlash::new(GEOMETRY);
    for (peb, block) in (0..).map(Peb).zip(image.chunks_exact(PEB)) {
        // Only what is programmed, so that the layer may write behind it.
        let end = block.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| (last + 1).next_multiple_of(512));
        flash.program(&mut Cx::new(), peb, 0, Payload::Bytes(&block[..end])).expect("the flash is new");
    }
    flash
}

fn patch(image: &mut [u8], mut patches: &[u8]) {
    while let [peb, high, low, len, rest @ ..] = patches {
        let len = usize::from(*len).min(rest.len());
        let at = usize::from(peb % GEOMETRY.pebs as u8) * PEB + (usize::from(*high) << 8 | usize::from(*low)) % PEB;
        let end = (at + len).min(image.len());
        image[at..end].copy_from_slice(&rest[..end - at]);
        patches = &rest[len..];
    }
}

fn put_sum(bytes: &mut [u8], covered: usize) {
    let sum = crc(&bytes[..covered]);
    bytes[covered..covered + 4].copy_from_slice(&sum.to_be_bytes());
}

fn put_sums_right(image: &mut [u8]) {
    for block in image.chunks_exact_mut(PEB) {
        if block[..4] == EcHdr::MAGIC.to_be_bytes() {
            put_sum(block, 60);
        }
        if block[VID_AT..][..4] == VidHdr::MAGIC.to_be_bytes() {
            put_sum(&mut block[VID_AT..], 60);
            if block[VID_AT + 8..][..4] == LAYOUT_VOLUME_ID.to_be_bytes() {
                let slots = vtbl_slots(LEB as u32) as usize;
                block[DATA_AT..].chunks_exact_mut(VtblRecord::BYTES).take(slots).for_each(|it| put_sum(it, 168));
            }
        }
    }
}

/// The checksum of every super block that names blocks of the flash, over the blocks that it names.
fn put_fastmap_right(image: &mut [u8]) {
    let size = fastmap_bytes(GEOMETRY.pebs, LEB as u32) as usize;
    for peb in 0..GEOMETRY.pebs as usize {
        if image[peb * PEB + VID_AT + 8..][..4] != FM_SB_VOLUME_ID.to_be_bytes() {
            continue;
        }
        let Ok(sb) = FmSb::decode(&image[peb * PEB + DATA_AT..][..LEB]) else { continue };
        let mut stream = Vec::with_capacity(FM_MAX_BLOCKS * LEB);
        for &(block, _) in &sb.blocks {
            let at = block as usize % GEOMETRY.pebs as usize * PEB + DATA_AT;
            stream.extend_from_slice(&image[at..at + LEB]);
        }
        stream.truncate(size);
        stream[FmSb::DATA_CRC_AT..][..4].fill(0);
        let sum = crc(&stream);
        image[peb * PEB + DATA_AT + FmSb::DATA_CRC_AT..][..4].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn putting_a_good_image_right_changes_nothing() {
        for base in [1, 2] {
            assert!(bytes(&[base]) == bytes(&[base | RIGHT_SUMS | RIGHT_FASTMAP]), "image {base}");
        }
    }

    #[test]
    fn the_layer_attaches_its_own_image_by_its_fastmap() {
        let attached = |data: &[u8]| {
            let config = Config::linux(Policy::LINUX_6_7);
            Ubi::attach(flash(data), &mut Cx::new(), &config).map(|ubi| ubi.attached_by().clone()).ok()
        };
        assert_eq!(attached(&[1]), Some(ubi::attach::AttachedBy::Scan));
        assert_eq!(attached(&[2]), Some(ubi::attach::AttachedBy::Fastmap));
    }
}
