//! Writes a UBI image, byte for byte as `ubinize` of mtd-utils 2.1.5 does.
//!
//! PEBs 0 and 1 hold the volume table; the LEBs of each volume follow in the order of the ini file. Sequence numbers
//! are 0; unused bytes are 0xFF. Established by comparing images over many geometries.

use sim::{Lnum, VolId};

use super::MIN_PEB_BYTES;
use super::ini::VolumeSection;
use crate::media::{
    EcHdr, LAYOUT_COMPAT, LAYOUT_LEBS, LAYOUT_VOLUME_ID, MAX_ERASE_COUNT, VERSION, VidHdr, VolType, VtblRecord, crc,
    needed_pebs, vtbl_slots,
};

/// Options of `ubinize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `--peb-size`, in bytes.
    pub peb_bytes: u32,
    /// `--min-io-size`, in bytes.
    pub min_io_bytes: u32,
    /// `--sub-page-size`, in bytes; the min. I/O size if absent.
    pub sub_page_bytes: Option<u32>,
    /// `--vid-hdr-offset`, in bytes; the first sub-page after the EC header if absent or 0.
    pub vid_hdr_offset: Option<u32>,
    /// `--erase-counter`: erase count in every EC header.
    pub erase_counter: u64,
    /// `--ubi-ver`: version in every header.
    pub ubi_ver: u8,
    /// `--image-seq`: sequence number of the image.
    pub image_seq: u32,
}

/// Why an image cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// An option with an impossible value.
    #[error("{option} is {found}, expected {expected}")]
    Option {
        /// Name of the option on the command line.
        option: &'static str,
        /// Its value.
        found: u64,
        /// Values allowed.
        expected: String,
    },
    /// A volume that cannot be packed.
    #[error("line {line}: [{section}] {what}")]
    Volume {
        /// Name of its section.
        section: String,
        /// Line number of the section.
        line: u32,
        /// What was found and what was expected.
        what: String,
        /// How to correct it.
        help: String,
    },
}

impl PackError {
    /// How to correct the input.
    pub fn help(&self) -> &str {
        match self {
            PackError::Option { .. } => "see the flash's data sheet, or /sys/class/mtd/mtdN on the device",
            PackError::Volume { help, .. } => help,
        }
    }
}

/// Offsets in a PEB, and the fields that all headers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    options: Options,
    vid_hdr_offset: u32,
    data_offset: u32,
}

/// One volume of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackVolume {
    /// Number of the volume.
    pub id: VolId,
    /// Its record in the volume table.
    pub record: VtblRecord,
    /// Bytes of its contents.
    pub image_bytes: u64,
    /// Bytes per LEB that it uses.
    pub usable_leb_bytes: u32,
    /// LEBs that the contents take.
    pub used_lebs: u32,
}

/// An image without the contents of its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    layout: Layout,
    volumes: Vec<PackVolume>,
}

const MAX_PACK_PEB_BYTES: u32 = 2 << 20;

impl Layout {
    /// Computes the layout. Errors: sizes that no flash has, or a VID header that overlaps something else.
    pub fn new(options: Options) -> Result<Layout, PackError> {
        let refuse = |option, found: u64, expected: &str| {
            Err(PackError::Option { option, found, expected: expected.to_owned() })
        };
        let Options { peb_bytes, min_io_bytes, erase_counter, .. } = options;
        let sub_page = options.sub_page_bytes.unwrap_or(min_io_bytes);
        if !(MIN_PEB_BYTES..=MAX_PACK_PEB_BYTES).contains(&peb_bytes) {
            return refuse("--peb-size", peb_bytes.into(), "512 bytes to 2 MiB");
        }
        if !min_io_bytes.is_power_of_two() {
            return refuse("--min-io-size", min_io_bytes.into(), "a power of two: the page of a NAND, 1 on a NOR");
        }
        if !peb_bytes.is_multiple_of(min_io_bytes) {
            return refuse("--peb-size", peb_bytes.into(), &format!("a multiple of --min-io-size, {min_io_bytes}"));
        }
        if !sub_page.is_power_of_two() || sub_page > min_io_bytes {
            let expected = format!("a power of two up to --min-io-size, {min_io_bytes}");
            return refuse("--sub-page-size", sub_page.into(), &expected);
        }
        if erase_counter > MAX_ERASE_COUNT {
            return refuse("--erase-counter", erase_counter, "at most 2147483647");
        }
        let (ec_bytes, vid_bytes) = (EcHdr::BYTES as u32, VidHdr::BYTES as u32);
        let vid_hdr_offset =
            options.vid_hdr_offset.filter(|&offset| offset != 0).unwrap_or(ec_bytes.next_multiple_of(sub_page));
        if !vid_hdr_offset.is_multiple_of(8) || vid_hdr_offset < ec_bytes {
            let expected = "a multiple of 8, at least 64: after the EC header";
            return refuse("--vid-hdr-offset", vid_hdr_offset.into(), expected);
        }
        let data_offset = vid_hdr_offset
            .checked_add(vid_bytes)
            .and_then(|end| end.checked_next_multiple_of(min_io_bytes))
            .filter(|&offset| offset < peb_bytes && vtbl_slots(peb_bytes - offset) > 0);
        let Some(data_offset) = data_offset else {
            let expected = format!(
                "headers that leave room for a volume table of {} bytes or more; the VID header is at {vid_hdr_offset}",
                VtblRecord::BYTES
            );
            return refuse("--peb-size", peb_bytes.into(), &expected);
        };
        Ok(Layout { options, vid_hdr_offset, data_offset })
    }

    /// Bytes per LEB.
    pub const fn leb_bytes(&self) -> u32 {
        self.options.peb_bytes - self.data_offset
    }

    /// Offset of VID headers in a PEB, in bytes.
    pub const fn vid_hdr_offset(&self) -> u32 {
        self.vid_hdr_offset
    }

    /// Offset of data in a PEB, in bytes.
    pub const fn data_offset(&self) -> u32 {
        self.data_offset
    }

    /// Bytes per PEB.
    pub const fn peb_bytes(&self) -> u32 {
        self.options.peb_bytes
    }

    /// The EC header of a PEB that no LEB is in.
    pub fn ec_hdr(&self, ec: u64) -> [u8; EcHdr::BYTES] {
        let Layout { options, vid_hdr_offset, data_offset } = *self;
        let header = EcHdr { ec, vid_hdr_offset, data_offset, image_seq: options.image_seq };
        with_version(header.encode(), options.ubi_ver)
    }

    /// Lays out these volumes; `image_bytes` is the size of each one's contents, 0 for none.
    /// Errors: repeated numbers or names; contents that do not fit.
    pub fn image(&self, sections: &[VolumeSection], image_bytes: &[u64]) -> Result<Image, PackError> {
        assert_eq!(sections.len(), image_bytes.len(), "a size for each volume");
        let mut volumes: Vec<PackVolume> = Vec::new();
        for (at, (section, &bytes)) in sections.iter().zip(image_bytes).enumerate() {
            let volume = self.volume(section, bytes)?;
            let twice = |what: String, first: &VolumeSection, help: &str| {
                Err(wrong(section, format!("{what}, as [{}] in line {} has", first.section, first.line), help))
            };
            for (first, earlier) in sections[..at].iter().zip(&volumes) {
                if earlier.id == volume.id {
                    return twice(format!("has vol_id {}", volume.id), first, "give each volume its own vol_id");
                }
                if earlier.record.name == volume.record.name {
                    let name = String::from_utf8_lossy(&section.name).into_owned();
                    return twice(format!("has vol_name {name:?}"), first, "give each volume its own vol_name");
                }
                if earlier.record.flags & volume.record.flags & VtblRecord::AUTORESIZE != 0 {
                    return twice(
                        "has vol_flags autoresize".to_owned(),
                        first,
                        "only one volume can take what is left",
                    );
                }
            }
            volumes.push(volume);
        }
        Ok(Image { layout: *self, volumes })
    }

    fn volume(&self, section: &VolumeSection, image_bytes: u64) -> Result<PackVolume, PackError> {
        let leb_bytes = self.leb_bytes();
        let slots = vtbl_slots(leb_bytes);
        if section.id >= slots {
            let what = format!("has vol_id {}, expected one below {slots}", section.id);
            return Err(wrong(section, what, "LEBs of this size hold a shorter volume table"));
        }
        if section.alignment >= leb_bytes {
            let what =
                format!("has vol_alignment {}, expected less than the LEB's {leb_bytes} bytes", section.alignment);
            return Err(wrong(section, what, "leave vol_alignment out for 1"));
        }
        let unit = self.options.min_io_bytes;
        if section.alignment != 1 && !section.alignment.is_multiple_of(unit) {
            let what = format!("has vol_alignment {}, expected 1 or a multiple of {unit}", section.alignment);
            return Err(wrong(section, what, "Linux refuses a device with another (--min-io-size is its page)"));
        }
        let data_pad = leb_bytes % section.alignment;
        let usable_leb_bytes = leb_bytes - data_pad;
        let path = String::from_utf8_lossy(section.image.as_deref().unwrap_or_default()).into_owned();
        if section.image.is_some() && image_bytes == 0 {
            return Err(wrong(
                section,
                format!("has image {path}, which is empty"),
                "leave image out for an empty volume",
            ));
        }
        let size = section.size.unwrap_or(image_bytes);
        if image_bytes > size {
            let what = format!("has image {path} of {image_bytes} bytes, expected at most vol_size, {size}");
            return Err(wrong(section, what, "raise vol_size, or leave it out for the size of the image"));
        }
        // `ubinize` counts what a volume reserves in whole LEBs, and what it uses in LEBs without the alignment
        // padding.
        let lebs = |bytes: u64, leb_bytes: u32| u32::try_from(bytes.div_ceil(u64::from(leb_bytes))).ok();
        let reserved = lebs(size, leb_bytes).filter(|&lebs| lebs <= i32::MAX as u32);
        let Some((reserved_pebs, used_lebs)) = reserved.zip(lebs(image_bytes, usable_leb_bytes)) else {
            let what = format!("has vol_size {size}, expected at most 2147483647 LEBs of {leb_bytes} bytes");
            return Err(wrong(section, what, "lower vol_size"));
        };
        if used_lebs > reserved_pebs {
            let what = format!(
                "has image {path} that takes {used_lebs} LEBs of {usable_leb_bytes} bytes at this vol_alignment, and \
                 vol_size reserves {reserved_pebs}"
            );
            let needed = u64::from(used_lebs) * u64::from(leb_bytes);
            let help = format!("set vol_size={needed}; ubinize would write LEBs that Linux drops");
            return Err(wrong(section, what, &help));
        }
        let record = VtblRecord {
            reserved_pebs,
            alignment: section.alignment,
            data_pad,
            vol_type: section.vol_type,
            upd_marker: false,
            name: section.name.clone(),
            flags: section.flags,
        };
        Ok(PackVolume { id: VolId(section.id), record, image_bytes, usable_leb_bytes, used_lebs })
    }
}

fn wrong(section: &VolumeSection, what: String, help: &str) -> PackError {
    let VolumeSection { section, line, .. } = section;
    PackError::Volume { section: section.clone(), line: *line, what, help: help.to_owned() }
}

impl Image {
    /// Volumes in the order of the ini file.
    pub fn volumes(&self) -> &[PackVolume] {
        &self.volumes
    }

    /// PEBs of the image.
    pub fn pebs(&self) -> u64 {
        u64::from(LAYOUT_LEBS) + self.volumes.iter().map(|volume| u64::from(volume.used_lebs)).sum::<u64>()
    }

    /// Bytes of the image.
    pub fn bytes(&self) -> u64 {
        self.pebs() * u64::from(self.layout.peb_bytes())
    }

    /// PEBs that a flash needs to attach the image, as [`needed_pebs`] says.
    pub fn needed_pebs(&self) -> u64 {
        needed_pebs(self.volumes.iter().map(|volume| &volume.record))
    }

    /// PEB `copy` of the image: one copy of the volume table.
    pub fn table_peb(&self, copy: u32) -> Vec<u8> {
        let slots = vtbl_slots(self.layout.leb_bytes());
        let record = |slot| self.volumes.iter().find(|volume| volume.id.0 == slot).map(|volume| &volume.record);
        let table: Vec<u8> = (0..slots).flat_map(|slot| VtblRecord::encode(record(slot))).collect();
        let vid = VidHdr {
            vol_type: VolType::Dynamic,
            copy_flag: false,
            compat: LAYOUT_COMPAT,
            vol_id: LAYOUT_VOLUME_ID,
            lnum: copy,
            data_size: 0,
            used_ebs: 0,
            data_pad: 0,
            data_crc: 0,
            sqnum: 0,
        };
        self.layout.peb(&vid, &table)
    }

    /// PEB of LEB `lnum` of a volume; `data` is the complete contents of that LEB.
    /// Panics if `data` has the wrong length: a whole LEB, except the last.
    pub fn leb_peb(&self, volume: &PackVolume, lnum: Lnum, data: &[u8]) -> Vec<u8> {
        let begins = u64::from(lnum.0) * u64::from(volume.usable_leb_bytes);
        let expected = (volume.image_bytes - begins).min(u64::from(volume.usable_leb_bytes));
        assert_eq!(data.len() as u64, expected, "contents of LEB {lnum}");
        let is_static = volume.record.vol_type == VolType::Static;
        let vid = VidHdr {
            vol_type: volume.record.vol_type,
            copy_flag: false,
            compat: 0,
            vol_id: volume.id.0,
            lnum: lnum.0,
            data_size: if is_static { data.len() as u32 } else { 0 },
            used_ebs: if is_static { volume.used_lebs } else { 0 },
            data_pad: volume.record.data_pad,
            data_crc: if is_static { crc(data) } else { 0 },
            sqnum: 0,
        };
        self.layout.peb(&vid, data)
    }
}

impl Layout {
    fn peb(&self, vid: &VidHdr, data: &[u8]) -> Vec<u8> {
        let mut peb = vec![0xff; self.peb_bytes() as usize];
        let mut put = |at: u32, bytes: &[u8]| peb[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(0, &self.ec_hdr(self.options.erase_counter));
        put(self.vid_hdr_offset, &with_version(vid.encode(), self.options.ubi_ver));
        put(self.data_offset, data);
        peb
    }
}

/// Sets the version of a header: at byte 4, with the checksum last.
pub(super) fn with_version<const N: usize>(mut header: [u8; N], version: u8) -> [u8; N] {
    if version != VERSION {
        header[4] = version;
        let sum = crc(&header[..N - 4]).to_be_bytes();
        header[N - 4..].copy_from_slice(&sum);
    }
    header
}
