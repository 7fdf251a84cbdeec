//! Flash built byte by byte, and a flash whose pages can be tired or unreadable, or whose power fails.

use std::collections::BTreeSet;

use sim::seam::{Flash, FlashError, Geometry, Medium, Payload, RamFlash, ReadStatus};
use sim::{Cx, Peb, VolId};
use ubi::attach::{AttachError, AttachInfo, FastmapUnusable, PebFate, attach_by_fastmap, attach_by_scan};
use ubi::layout::Layout;
use ubi::media::{
    EcHdr, FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, FmEba, FmHdr, FmPool, FmSb, FmVolHdr, LAYOUT_COMPAT, LAYOUT_VOLUME_ID,
    UNMAPPED, VidHdr, VolType, VtblRecord, compat, crc, fastmap_bytes, vtbl_slots,
};

pub const IMAGE_SEQ: u32 = 0x5eed;

/// RAM flash with faults on single pages, which counts the pages read.
pub struct TestFlash {
    ram: RamFlash,
    /// Pages whose reads are corrected at the threshold.
    pub tired: BTreeSet<(u32, u32)>,
    /// Pages that cannot be corrected.
    pub raw: BTreeSet<(u32, u32)>,
    pub pages_read: u64,
    /// Reads until power fails.
    pub reads_left: u64,
}

impl Flash for TestFlash {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.ram.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.reads_left = self.reads_left.checked_sub(1).ok_or(FlashError::PowerLost)?;
        let mut status = self.ram.read(cx, peb, offset, buf)?;
        let page_bytes = self.geometry().page_bytes;
        let pages = offset / page_bytes..(offset + buf.len() as u32).div_ceil(page_bytes);
        self.pages_read += u64::from(pages.end - pages.start);
        status.scrub = self.tired.range((peb.0, pages.start)..(peb.0, pages.end)).next().is_some();
        match self.raw.range((peb.0, pages.start)..(peb.0, pages.end)).next() {
            Some(&(_, page)) => Err(FlashError::Uncorrectable { peb, offset: page * page_bytes }),
            None => Ok(status),
        }
    }

    fn program(&mut self, _: &mut Cx, _: Peb, _: u32, _: Payload<'_>) -> Result<(), FlashError> {
        panic!("attach programs nothing")
    }

    fn erase(&mut self, _: &mut Cx, _: Peb) -> Result<(), FlashError> {
        panic!("attach erases nothing")
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.ram.is_bad(peb)
    }

    fn mark_bad(&mut self, _: &mut Cx, _: Peb) -> Result<(), FlashError> {
        panic!("attach marks nothing")
    }
}

/// The bytes of a flash.
#[derive(Clone)]
pub struct Image {
    pub geometry: Geometry,
    pub layout: Layout,
    pub bytes: Vec<u8>,
    pub bad: BTreeSet<u32>,
    pub tired: BTreeSet<(u32, u32)>,
    pub raw: BTreeSet<(u32, u32)>,
}

/// 16 KiB PEBs of 512-byte pages: a volume table of 89 slots.
pub fn geometry(pebs: u32) -> Geometry {
    Geometry { medium: Medium::Nand, pebs, peb_bytes: 16 << 10, page_bytes: 512, subpage_bytes: 512, oob_bytes: 16 }
}

pub fn record(name: &str, vol_type: VolType, reserved_pebs: u32) -> VtblRecord {
    VtblRecord {
        reserved_pebs,
        alignment: 1,
        data_pad: 0,
        vol_type,
        upd_marker: false,
        name: name.as_bytes().to_vec(),
        flags: 0,
    }
}

pub fn dynamic(vol_id: u32, lnum: u32, sqnum: u64) -> VidHdr {
    VidHdr {
        vol_type: VolType::Dynamic,
        copy_flag: false,
        compat: 0,
        vol_id,
        lnum,
        data_size: 0,
        used_ebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum,
    }
}

pub fn fixed(vol_id: u32, lnum: u32, used_ebs: u32, data_size: u32, sqnum: u64) -> VidHdr {
    VidHdr { vol_type: VolType::Static, used_ebs, data_size, ..dynamic(vol_id, lnum, sqnum) }
}

pub fn internal(vol_id: u32, lnum: u32, compat: u8, sqnum: u64) -> VidHdr {
    VidHdr { compat, ..dynamic(vol_id, lnum, sqnum) }
}

/// A copy of `data`, as wear levelling makes it.
pub fn copy_of(data: &[u8], hdr: VidHdr) -> VidHdr {
    VidHdr { copy_flag: true, data_size: data.len() as u32, data_crc: crc(data), ..hdr }
}

impl Image {
    pub fn blank(geometry: Geometry) -> Image {
        let layout = Layout::new(&geometry, None).unwrap();
        let bytes = vec![0xff; geometry.bytes() as usize];
        Image { geometry, layout, bytes, bad: BTreeSet::new(), tired: BTreeSet::new(), raw: BTreeSet::new() }
    }

    /// EC headers everywhere; erase counts `10 + PEB % 7`.
    pub fn formatted(geometry: Geometry) -> Image {
        let mut image = Image::blank(geometry);
        (0..geometry.pebs).for_each(|peb| image.ec(peb, Image::ec_of(peb)));
        image
    }

    pub fn ec_of(peb: u32) -> u32 {
        10 + peb % 7
    }

    pub fn peb(&mut self, peb: u32) -> &mut [u8] {
        let size = self.geometry.peb_bytes as usize;
        &mut self.bytes[peb as usize * size..][..size]
    }

    pub fn put(&mut self, peb: u32, offset: u32, bytes: &[u8]) {
        self.peb(peb)[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn erase(&mut self, peb: u32) {
        self.peb(peb).fill(0xff);
    }

    pub fn ec_hdr(&self, ec: u32) -> EcHdr {
        let Layout { vid_hdr_offset, data_offset, .. } = self.layout;
        EcHdr { ec: ec.into(), vid_hdr_offset, data_offset, image_seq: IMAGE_SEQ }
    }

    pub fn ec(&mut self, peb: u32, ec: u32) {
        let bytes = self.ec_hdr(ec).encode();
        self.put(peb, 0, &bytes);
    }

    pub fn vid(&mut self, peb: u32, hdr: VidHdr) {
        self.put(peb, self.layout.vid_hdr_offset, &hdr.encode());
    }

    pub fn data(&mut self, peb: u32, data: &[u8]) {
        self.put(peb, self.layout.data_offset, data);
    }

    /// Breaks the EC or VID header that begins at `offset`.
    pub fn spoil(&mut self, peb: u32, offset: u32) {
        self.peb(peb)[offset as usize + 20] ^= 0x55;
        if self.peb(peb)[offset as usize] == 0xff {
            self.put(peb, offset, b"junk");
        }
    }

    pub fn spoil_vid(&mut self, peb: u32) {
        self.spoil(peb, self.layout.vid_hdr_offset);
    }

    pub fn table_bytes(&self, records: &[(usize, VtblRecord)]) -> Vec<u8> {
        let slots = vtbl_slots(self.layout.leb_bytes) as usize;
        (0..slots)
            .flat_map(|id| VtblRecord::encode(records.iter().find(|(at, _)| *at == id).map(|(_, record)| record)))
            .collect()
    }

    /// One copy of the volume table.
    pub fn table_copy(&mut self, peb: u32, copy: u32, sqnum: u64, records: &[(usize, VtblRecord)]) {
        let bytes = self.table_bytes(records);
        self.vid(peb, internal(LAYOUT_VOLUME_ID, copy, LAYOUT_COMPAT, sqnum));
        self.data(peb, &bytes);
    }

    pub fn flash(&self) -> TestFlash {
        let mut ram = RamFlash::new(self.geometry);
        let mut cx = Cx::new();
        for (peb, bytes) in (0..).map(Peb).zip(self.bytes.chunks_exact(self.geometry.peb_bytes as usize)) {
            ram.program(&mut cx, peb, 0, Payload::Bytes(bytes)).unwrap();
        }
        self.bad.iter().for_each(|&peb| ram.mark_bad(&mut cx, Peb(peb)).unwrap());
        TestFlash { ram, tired: self.tired.clone(), raw: self.raw.clone(), pages_read: 0, reads_left: u64::MAX }
    }

    /// Pages of the EC header, the VID header and the first data.
    pub fn pages(&self) -> [u32; 3] {
        [0, self.layout.vid_hdr_offset, self.layout.data_offset].map(|offset| offset / self.geometry.page_bytes)
    }

    pub fn scan(&self) -> Result<AttachInfo, AttachError> {
        attach_by_scan(&mut self.flash(), &mut Cx::new(), &self.layout)
    }

    pub fn fastmap(&self) -> Result<AttachInfo, FastmapUnusable> {
        attach_by_fastmap(&mut self.flash(), &mut Cx::new(), &self.layout)
    }

    pub fn pages_read<T>(&self, attach: fn(&mut TestFlash, &mut Cx, &Layout) -> T) -> u64 {
        let mut flash = self.flash();
        attach(&mut flash, &mut Cx::new(), &self.layout);
        flash.pages_read
    }
}

/// Volume table in PEBs 2 and 3; volume 0 "data", dynamic, 40 LEBs, of which 0..20 in PEBs 70..90; volume 1 "kernel",
/// static, 8 LEBs, 3 used in PEBs 100..103, 1000 bytes in the last.
pub fn lab(pebs: u32) -> Image {
    let mut image = Image::formatted(geometry(pebs));
    let records = lab_records();
    image.table_copy(2, 0, 1, &records);
    image.table_copy(3, 1, 2, &records);
    for lnum in 0..20 {
        image.vid(70 + lnum, dynamic(0, lnum, 10 + u64::from(lnum)));
        image.data(70 + lnum, &[lnum as u8; 600]);
    }
    for lnum in 0..3 {
        let size = if lnum == 2 { 1000 } else { image.layout.leb_bytes };
        let data = vec![lnum as u8; size as usize];
        image.vid(100 + lnum, VidHdr { data_crc: crc(&data), ..fixed(1, lnum, 3, size, 40 + u64::from(lnum)) });
        image.data(100 + lnum, &data);
    }
    image
}

pub fn lab_records() -> Vec<(usize, VtblRecord)> {
    vec![(0, record("data", VolType::Dynamic, 40)), (1, record("kernel", VolType::Static, 8))]
}

pub fn used(vol_id: u32, lnum: u32) -> PebFate {
    PebFate::Used { vol_id: VolId(vol_id), lnum: sim::Lnum(lnum), scrub: false }
}

pub fn scrub(vol_id: u32, lnum: u32) -> PebFate {
    PebFate::Used { vol_id: VolId(vol_id), lnum: sim::Lnum(lnum), scrub: true }
}

pub const ERASE: PebFate = PebFate::Erase { torture: false };

/// Contents of a fastmap to write.
#[derive(Clone)]
pub struct FmSpec {
    pub blocks: Vec<u32>,
    pub pools: [Vec<u32>; 2],
    pub bad: u32,
    pub free: Vec<(u32, u32)>,
    pub used: Vec<(u32, u32)>,
    pub scrub: Vec<(u32, u32)>,
    pub erase: Vec<(u32, u32)>,
    pub volumes: Vec<(FmVolHdr, Vec<u32>)>,
}

impl FmSpec {
    /// A fastmap of what is on the flash, with these blocks and pools taken from the free PEBs.
    pub fn of(info: &AttachInfo, blocks: &[u32], pools: [&[u32]; 2]) -> FmSpec {
        let mut spec = FmSpec {
            blocks: blocks.to_vec(),
            pools: pools.map(<[u32]>::to_vec),
            bad: 0,
            free: vec![],
            used: vec![],
            scrub: vec![],
            erase: vec![],
            volumes: vec![],
        };
        for (peb, (fate, ec)) in (0..).zip(info.fates.iter().zip(&info.erase_counts)) {
            let taken = blocks.contains(&peb) || pools.iter().any(|pool| pool.contains(&peb));
            let list = match fate {
                PebFate::Bad => {
                    spec.bad += 1;
                    continue;
                }
                _ if taken => continue,
                PebFate::Free => &mut spec.free,
                PebFate::Used { scrub: true, .. } => &mut spec.scrub,
                PebFate::Used { .. } => &mut spec.used,
                _ => &mut spec.erase,
            };
            list.push((peb, ec.0));
        }
        let number = |peb: &Option<Peb>| peb.map_or(UNMAPPED, |peb| peb.0);
        for (vol_id, volume) in (0..).zip(&info.volumes) {
            let Some(volume) = volume else { continue };
            let hdr = FmVolHdr {
                vol_id,
                vol_type: if volume.record.vol_type == VolType::Static { 4 } else { 3 },
                data_pad: volume.record.data_pad,
                used_ebs: volume.used_ebs,
                last_eb_bytes: volume.last_eb_bytes,
            };
            spec.volumes.push((hdr, volume.eba.iter().map(number).collect()));
        }
        let hdr = FmVolHdr { vol_id: LAYOUT_VOLUME_ID, vol_type: 3, data_pad: 0, used_ebs: 2, last_eb_bytes: 0 };
        spec.volumes.push((hdr, info.layout_eba.iter().map(number).collect()));
        spec
    }

    /// Writes the fastmap into its blocks; `lie` changes the bytes before they are checksummed.
    pub fn write(&self, image: &mut Image, sqnum: u64, lie: impl FnOnce(&mut [u8])) {
        let leb_bytes = image.layout.leb_bytes;
        let mut bytes = vec![0; fastmap_bytes(image.layout.pebs, leb_bytes) as usize];
        let blocks = self.blocks.iter().map(|&peb| (peb, Image::ec_of(peb))).collect();
        FmSb { data_crc: 0, blocks, sqnum: 0 }.encode(&mut bytes);
        let count = |list: &[_]| list.len() as u32;
        let hdr = FmHdr {
            free: count(&self.free),
            used: count(&self.used),
            scrub: count(&self.scrub),
            bad: self.bad,
            erase: count(&self.erase),
            volumes: self.volumes.len() as u32,
        };
        let mut at = FmSb::BYTES;
        hdr.encode(&mut bytes[at..]);
        at += FmHdr::BYTES;
        for pool in &self.pools {
            FmPool { max_size: 8, pebs: pool.clone() }.encode(&mut bytes[at..]);
            at += FmPool::BYTES;
        }
        let mut word = |bytes: &mut [u8], value: u32| {
            bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
            at += 4;
        };
        for (peb, ec) in [&self.free, &self.used, &self.scrub, &self.erase].into_iter().flatten() {
            word(&mut bytes, *peb);
            word(&mut bytes, *ec);
        }
        for (hdr, eba) in &self.volumes {
            hdr.encode(&mut bytes[at..]);
            at += FmVolHdr::BYTES;
            FmEba { reserved_pebs: eba.len() as u32 }.encode(&mut bytes[at..]);
            at += FmEba::HEADER_BYTES;
            for peb in eba {
                bytes[at..at + 4].copy_from_slice(&peb.to_be_bytes());
                at += 4;
            }
        }
        lie(&mut bytes);
        let sum = {
            bytes[FmSb::DATA_CRC_AT..][..4].fill(0);
            crc(&bytes)
        };
        bytes[FmSb::DATA_CRC_AT..][..4].copy_from_slice(&sum.to_be_bytes());
        for ((lnum, &peb), leb) in (0..).zip(&self.blocks).zip(bytes.chunks_exact(leb_bytes as usize)) {
            let vol_id = if lnum == 0 { FM_SB_VOLUME_ID } else { FM_DATA_VOLUME_ID };
            image.vid(peb, internal(vol_id, lnum, compat::DELETE, sqnum + u64::from(lnum)));
            image.data(peb, leb);
        }
    }
}

/// The fastmap of [`lab_with_fastmap`].
pub const ANCHOR: u32 = 5;
pub const USER_POOL: [u32; 3] = [20, 66, 110];
pub const WL_POOL: [u32; 2] = [21, 111];
pub const FM_SQNUM: u64 = 100;

pub fn lab_spec(image: &Image) -> FmSpec {
    FmSpec::of(&image.scan().unwrap(), &[ANCHOR], [&USER_POOL, &WL_POOL])
}

/// [`lab`] of 128 PEBs with a fastmap: PEBs 90 and 91 wait for erasure, 92 is to be scrubbed.
pub fn lab_with_fastmap() -> (Image, FmSpec) {
    let mut image = lab(128);
    image.spoil(90, 0);
    image.vid(91, dynamic(0, 3, 3));
    image.vid(92, dynamic(0, 30, 60));
    image.tired.insert((92, image.pages()[1]));
    image.bad.insert(120);
    let spec = lab_spec(&image);
    assert_eq!((spec.erase.len(), spec.scrub.len(), spec.bad), (2, 1, 1));
    spec.write(&mut image, FM_SQNUM, |_| {});
    (image, spec)
}
