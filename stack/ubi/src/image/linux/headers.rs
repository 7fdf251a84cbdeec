//! Reading the headers of PEBs one after the other, and which PEB holds each LEB.

use std::collections::BTreeMap;
use std::ops::Range;

use sim::Peb;
use sim::seam::is_erased;

use super::{Device, Reason, Stop};
use crate::media::{
    EcHdr, FM_DATA_VOLUME_ID, FM_SB_VOLUME_ID, LAYOUT_VOLUME_ID, MAX_VOLUMES, MediaError, VidHdr, VolType, compat, crc,
};

/// A PEB that holds a LEB.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) peb: u32,
    /// 0 where only the fastmap says it.
    pub(super) sqnum: u64,
    pub(super) is_copy: bool,
}

/// LEBs of a volume.
pub(super) struct Lebs {
    /// Type in the numbers of the fastmap.
    pub(super) vol_type: u8,
    pub(super) used_ebs: u32,
    pub(super) data_pad: u32,
    pub(super) highest: u32,
    /// Data bytes of the highest LEB.
    pub(super) last_bytes: u32,
    pub(super) holders: BTreeMap<u32, Holder>,
}

/// What attach found: LEBs by volume.
#[derive(Default)]
pub(super) struct Found {
    pub(super) volumes: BTreeMap<u32, Lebs>,
    /// Bad PEBs, as counted or as the fastmap says.
    pub(super) bad: u32,
    pub(super) corrupt: u32,
    pub(super) is_empty: bool,
}

/// What is in the place of a header.
pub(super) enum Read<H> {
    Header(H),
    Erased,
    Broken(MediaError),
}

pub(super) struct Headers<'d, 'a> {
    device: &'d Device<'a>,
    pub(super) image_seq: u32,
    pub(super) is_read_only: bool,
    pub(super) found: Found,
    /// Fastmap blocks: volume, sequence number, PEB.
    blocks: Vec<(u32, u64, u32)>,
    /// The first broken VID header where a fastmap is looked for: then none is used.
    pub(super) broken: Option<Reason>,
    empty: u32,
    alien: u32,
}

impl<'d, 'a> Headers<'d, 'a> {
    pub(super) fn new(device: &'d Device<'a>) -> Headers<'d, 'a> {
        Headers {
            device,
            image_seq: 0,
            is_read_only: false,
            found: Found::default(),
            blocks: Vec::new(),
            broken: None,
            empty: 0,
            alien: 0,
        }
    }

    /// Begins anew, but for what Linux keeps.
    pub(super) fn forget(&mut self) {
        let (image_seq, is_read_only) = (self.image_seq, self.is_read_only);
        *self = Headers { image_seq, is_read_only, ..Headers::new(self.device) };
    }

    /// The newest super block, unless a VID header was broken.
    pub(super) fn anchor(&self) -> Option<u32> {
        if self.broken.is_some() {
            return None;
        }
        let anchors = self.blocks.iter().filter(|(volume, sqnum, _)| *volume == FM_SB_VOLUME_ID && *sqnum > 0);
        anchors.max_by_key(|(_, sqnum, peb)| (*sqnum, *peb)).map(|(.., peb)| *peb)
    }

    /// Reads an EC header. Errors: an impossible one with a right checksum.
    pub(super) fn ec_hdr(&self, peb: u32) -> Result<Read<EcHdr>, Stop> {
        let bytes = self.device.read(peb, 0, EcHdr::BYTES as u32);
        let Some(bytes) = bytes.first_chunk() else { return Ok(Read::Erased) };
        let hdr = match EcHdr::decode(bytes) {
            Ok(hdr) => hdr,
            Err(why @ MediaError::Field { .. }) => return Stop::refused(peb, 0, format!("EC header: {why}")),
            Err(_) if is_erased(bytes) => return Ok(Read::Erased),
            Err(why) => return Ok(Read::Broken(why)),
        };
        let geometry = self.device.dump.geometry();
        for (offset, what, found, expected) in [
            (16, "vid_hdr_offset", hdr.vid_hdr_offset, geometry.vid_hdr_offset),
            (20, "data_offset", hdr.data_offset, geometry.data_offset),
        ] {
            if found != expected {
                return Stop::refused(peb, offset, format!("EC header: {what} = {found}, expected {expected}"));
            }
        }
        Ok(Read::Header(hdr))
    }

    /// Reads a VID header. Errors: an impossible one with a right checksum.
    pub(super) fn vid_hdr(&self, peb: u32) -> Result<Read<VidHdr>, Stop> {
        let geometry = self.device.dump.geometry();
        let bytes = self.device.read(peb, geometry.vid_hdr_offset, VidHdr::BYTES as u32);
        let Some(bytes) = bytes.first_chunk() else { return Ok(Read::Erased) };
        let hdr = VidHdr::decode(bytes).and_then(|hdr| hdr.check(geometry.leb_bytes()).map(|()| hdr));
        match hdr {
            Ok(hdr) => Ok(Read::Header(hdr)),
            Err(why @ MediaError::Field { .. }) => {
                Stop::refused(peb, geometry.vid_hdr_offset, format!("VID header: {why}"))
            }
            Err(_) if is_erased(bytes) => Ok(Read::Erased),
            Err(why) => Ok(Read::Broken(why)),
        }
    }

    /// Whether `seq` is that of the image; the first one that is not 0 is.
    pub(super) fn is_image(&mut self, seq: u32) -> bool {
        if self.image_seq == 0 {
            self.image_seq = seq;
        }
        seq == 0 || seq == self.image_seq
    }

    /// Reads the headers of `pebs`. `fast`: for a fastmap.
    pub(super) fn scan(&mut self, pebs: Range<u32>, fast: bool) -> Result<(), Stop> {
        pebs.into_iter().try_for_each(|peb| self.scan_peb(peb, fast))
    }

    fn scan_peb(&mut self, peb: u32, fast: bool) -> Result<(), Stop> {
        let device = self.device;
        if device.bad[peb as usize] {
            self.found.bad += 1;
            return Ok(());
        }
        let ec_is_broken = match self.ec_hdr(peb)? {
            Read::Erased => {
                self.empty += 1;
                return Ok(());
            }
            Read::Broken(_) => true,
            Read::Header(hdr) => {
                let known = self.image_seq;
                if !self.is_image(hdr.image_seq) {
                    let what = format!("image_seq {:#010x}, expected {known:#010x} as before", hdr.image_seq);
                    return Stop::refused(peb, 24, what);
                }
                false
            }
        };
        let vid_at = device.dump.geometry().vid_hdr_offset;
        let hdr = match self.vid_hdr(peb)? {
            Read::Erased => return Ok(()),
            Read::Broken(why) => {
                if fast && self.broken.is_none() {
                    let what = format!("a broken VID header among the first PEBs ({why}): it looks for no fastmap");
                    self.broken = Some(Reason { peb: Some(Peb(peb)), offset: Some(vid_at), what });
                }
                let geometry = device.dump.geometry();
                if !ec_is_broken && !is_erased(&device.read(peb, geometry.data_offset, geometry.leb_bytes())) {
                    self.found.corrupt += 1;
                }
                return Ok(());
            }
            Read::Header(hdr) => hdr,
        };
        match hdr.vol_id {
            FM_SB_VOLUME_ID | FM_DATA_VOLUME_ID => self.blocks.push((hdr.vol_id, hdr.sqnum, peb)),
            LAYOUT_VOLUME_ID | 0..MAX_VOLUMES => self.add(peb, &hdr)?,
            other => match hdr.compat {
                compat::DELETE => {}
                compat::PRESERVE => self.alien += 1,
                compat::REJECT => return Stop::refused(peb, vid_at + 8, format!("unknown internal volume {other:#x}")),
                _ => {
                    self.is_read_only = true;
                    self.add(peb, &hdr)?;
                }
            },
        }
        Ok(())
    }

    fn add(&mut self, peb: u32, hdr: &VidHdr) -> Result<(), Stop> {
        let vid_at = self.device.dump.geometry().vid_hdr_offset;
        let lebs = self.found.volumes.entry(hdr.vol_id).or_insert_with(|| Lebs {
            vol_type: hdr.vol_type.in_fastmap(),
            used_ebs: hdr.used_ebs,
            data_pad: hdr.data_pad,
            highest: 0,
            last_bytes: 0,
            holders: BTreeMap::new(),
        });
        if let Some(old) = lebs.holders.get(&hdr.lnum) {
            if old.sqnum == hdr.sqnum {
                let what = format!("LEB {}:{} with the sqnum {} of PEB {}", hdr.vol_id, hdr.lnum, hdr.sqnum, old.peb);
                return Stop::refused(peb, vid_at + 40, what);
            }
            if !is_newer(self.device, old, peb, hdr) {
                return Ok(());
            }
        }
        let said = (hdr.vol_type.in_fastmap(), hdr.used_ebs, hdr.data_pad);
        let expected = (lebs.vol_type, lebs.used_ebs, lebs.data_pad);
        if !lebs.holders.is_empty() && said != expected {
            let what = format!(
                "VID header: vol_type {}, used_ebs {}, data_pad {}, expected {}, {}, {} as in another LEB of the volume",
                hdr.vol_type as u8,
                said.1,
                said.2,
                if expected.0 == VolType::Dynamic.in_fastmap() { 1 } else { 2 },
                expected.1,
                expected.2
            );
            return Stop::refused(peb, vid_at, what);
        }
        lebs.put(hdr, peb);
        Ok(())
    }

    /// Judges the flash after a scan of all of it.
    pub(super) fn judge(&mut self) -> Result<(), Stop> {
        let pebs = self.device.pebs() - self.found.bad - self.alien;
        let limit = if pebs < 20 { 8 } else { pebs / 20 };
        let corrupt = self.found.corrupt;
        if corrupt >= limit {
            return Stop::refused_device(format!(
                "{corrupt} PEBs hold data under a broken VID header, from {limit} on"
            ));
        }
        self.found.is_empty = self.empty == pebs;
        Ok(())
    }
}

impl Lebs {
    /// Puts a PEB in the place of its LEB.
    pub(super) fn put(&mut self, hdr: &VidHdr, peb: u32) {
        let is_new = !self.holders.contains_key(&hdr.lnum);
        if (is_new && self.highest <= hdr.lnum) || self.highest == hdr.lnum {
            self.highest = hdr.lnum;
            self.last_bytes = hdr.data_size;
        }
        self.holders.insert(hdr.lnum, Holder { peb, sqnum: hdr.sqnum, is_copy: hdr.copy_flag });
    }
}

/// Whether the LEB in `peb` replaces `old`. The higher sequence number wins, unless it is a torn copy.
pub(super) fn is_newer(device: &Device<'_>, old: &Holder, peb: u32, hdr: &VidHdr) -> bool {
    let geometry = device.dump.geometry();
    let is_whole = |peb: u32, size: u32, sum: u32| crc(&device.read(peb, geometry.data_offset, size)) == sum;
    if hdr.sqnum > old.sqnum {
        return !hdr.copy_flag || is_whole(peb, hdr.data_size, hdr.data_crc);
    }
    if !old.is_copy {
        return false;
    }
    let bytes = device.read(old.peb, geometry.vid_hdr_offset, VidHdr::BYTES as u32);
    let old_hdr = bytes.first_chunk().and_then(|bytes| VidHdr::decode(bytes).ok());
    !old_hdr.is_some_and(|hdr| is_whole(old.peb, hdr.data_size.min(geometry.leb_bytes()), hdr.data_crc))
}
