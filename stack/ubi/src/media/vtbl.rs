//! Volume-table records.

use super::{MediaError, crc, put16, put32, u16_at, u32_at};

/// Internal volume that holds two copies of the volume table.
pub const LAYOUT_VOLUME_ID: u32 = 0x7fff_efff;
/// LEBs of the layout volume, one per copy of the table.
pub const LAYOUT_LEBS: u32 = 2;
/// `compat` of the layout volume: an implementation that does not know it must not attach.
pub const LAYOUT_COMPAT: u8 = super::compat::REJECT;
/// Largest number of user volumes.
pub const MAX_VOLUMES: u32 = 128;

/// Records in the table: as many as fit into a LEB, at most 128.
pub const fn vtbl_slots(leb_bytes: u32) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "a record has 172 bytes")]
    let fit = leb_bytes / VtblRecord::BYTES as u32;
    if fit < MAX_VOLUMES { fit } else { MAX_VOLUMES }
}

/// PEBs that a flash needs for the volumes of a table: those that the volumes reserve, those of the table, one for wear levelling
/// and one for atomic LEB changes. Bad-block reserve and fastmap come beside them.
pub fn needed_pebs<'a>(records: impl Iterator<Item = &'a VtblRecord>) -> u64 {
    u64::from(LAYOUT_LEBS) + 2 + records.map(|record| u64::from(record.reserved_pebs)).sum::<u64>()
}

/// Type of a volume. The discriminants are those of VID headers and of the volume table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum VolType {
    /// Can be written freely; the layer above verifies its own data.
    Dynamic = 1,
    /// Written as a whole by an update; every LEB has a checksum.
    Static = 2,
}

impl VolType {
    /// Decodes the type of a VID header or table record. Errors: neither 1 nor 2.
    pub fn decode(byte: u8) -> Result<VolType, MediaError> {
        match byte {
            1 => Ok(VolType::Dynamic),
            2 => Ok(VolType::Static),
            other => Err(MediaError::Field { what: "vol_type", found: u64::from(other), expected: "1 or 2" }),
        }
    }

    /// Encodes the type for the volume headers of a fastmap, which hold the kernel's in-memory value: 3 dynamic, 4
    /// static. Source: `UBI_DYNAMIC_VOLUME` and `UBI_STATIC_VOLUME` of Linux `include/linux/mtd/ubi.h`.
    pub const fn in_fastmap(self) -> u8 {
        match self {
            VolType::Dynamic => 3,
            VolType::Static => 4,
        }
    }

    /// Decodes the type in a fastmap. Errors: neither 3 nor 4, so also the 1 and 2 of [`decode`](Self::decode).
    pub fn decode_in_fastmap(byte: u8) -> Result<VolType, MediaError> {
        match byte {
            3 => Ok(VolType::Dynamic),
            4 => Ok(VolType::Static),
            other => Err(MediaError::Field {
                what: "vol_type",
                found: u64::from(other),
                expected: "3 (dynamic) or 4 (static)",
            }),
        }
    }

    /// Name in `ubinfo` and in an ini file of `ubinize`.
    pub const fn name(self) -> &'static str {
        match self {
            VolType::Dynamic => "dynamic",
            VolType::Static => "static",
        }
    }
}

/// One volume in the volume table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VtblRecord {
    /// LEBs reserved for the volume.
    pub reserved_pebs: u32,
    /// Usable LEB bytes are a multiple of this; 1 for none.
    pub alignment: u32,
    /// LEB bytes modulo `alignment`.
    pub data_pad: u32,
    /// Type of the volume.
    pub vol_type: VolType,
    /// Set during an update: the contents are invalid until it ends.
    pub upd_marker: bool,
    /// Name of the volume, at most 127 bytes without NUL.
    pub name: Vec<u8>,
    /// Flags: [`VtblRecord::AUTORESIZE`], [`VtblRecord::SKIP_CHECK`].
    pub flags: u8,
}

impl VtblRecord {
    /// Size on flash, in bytes.
    pub const BYTES: usize = 172;
    /// Longest name, in bytes.
    pub const NAME_MAX: usize = 127;
    /// Flag: the volume grows over all free space at its first attach.
    pub const AUTORESIZE: u8 = 0x01;
    /// Flag: a static volume is not checked when opened.
    pub const SKIP_CHECK: u8 = 0x02;

    /// Encodes a record as on flash; `None` is an unused record.
    /// Panics if the name is longer than [`VtblRecord::NAME_MAX`]: callers check names first.
    pub fn encode(record: Option<&VtblRecord>) -> [u8; VtblRecord::BYTES] {
        let Some(record) = record else { return VtblRecord::UNUSED };
        let mut bytes = [0; VtblRecord::BYTES];
        put32(&mut bytes, 0, record.reserved_pebs);
        put32(&mut bytes, 4, record.alignment);
        put32(&mut bytes, 8, record.data_pad);
        bytes[12] = record.vol_type as u8;
        bytes[13] = u8::from(record.upd_marker);
        assert!(record.name.len() <= VtblRecord::NAME_MAX);
        put16(&mut bytes, 14, u16::try_from(record.name.len()).expect("NAME_MAX at most"));
        bytes[16..16 + record.name.len()].copy_from_slice(&record.name);
        bytes[144] = record.flags;
        let sum = crc(&bytes[..168]);
        put32(&mut bytes, 168, sum);
        bytes
    }

    /// An unused record on flash: zeroes, and their checksum.
    const UNUSED: [u8; VtblRecord::BYTES] = {
        let mut bytes = [0; VtblRecord::BYTES];
        [bytes[168], bytes[169], bytes[170], bytes[171]] = 0xf116_c36b_u32.to_be_bytes();
        bytes
    };

    /// Decodes a record; `None` if it is unused.
    /// Errors: a wrong checksum, or a field that contradicts another.
    pub fn decode(bytes: &[u8; VtblRecord::BYTES], leb_bytes: u32) -> Result<Option<VtblRecord>, MediaError> {
        if *bytes == VtblRecord::UNUSED {
            return Ok(None);
        }
        let (found, computed) = (u32_at(bytes, 168), crc(&bytes[..168]));
        if found != computed {
            return Err(MediaError::Crc { found, computed });
        }
        let reserved_pebs = u32_at(bytes, 0);
        if reserved_pebs == 0 {
            if bytes[..168].iter().any(|&byte| byte != 0) {
                return Err(MediaError::Field { what: "reserved_pebs", found: 0, expected: "not 0 in a used record" });
            }
            return Ok(None);
        }
        let field = |what, found: u32, expected| Err(MediaError::Field { what, found: u64::from(found), expected });
        let (alignment, data_pad) = (u32_at(bytes, 4), u32_at(bytes, 8));
        if alignment == 0 || alignment > leb_bytes {
            return field("alignment", alignment, "1 to the LEB size");
        }
        if data_pad != leb_bytes % alignment {
            return field("data_pad", data_pad, "the LEB size modulo alignment");
        }
        let stated = u16_at(bytes, 14);
        let name_len = usize::from(stated);
        if name_len == 0 || name_len > VtblRecord::NAME_MAX {
            return field("name_len", stated.into(), "1 to 127");
        }
        let name = &bytes[16..16 + name_len];
        if name.contains(&0) || bytes[16 + name_len] != 0 {
            return field("name_len", stated.into(), "the length of the name");
        }
        if bytes[13] > 1 {
            return field("upd_marker", u32::from(bytes[13]), "0 or 1");
        }
        Ok(Some(VtblRecord {
            reserved_pebs,
            alignment,
            data_pad,
            vol_type: VolType::decode(bytes[12])?,
            upd_marker: bytes[13] == 1,
            name: name.to_vec(),
            flags: bytes[144],
        }))
    }
}

const _: () = assert!(VtblRecord::BYTES == 4 + 4 + 4 + 1 + 1 + 2 + 128 + 1 + 23 + 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_written() {
        let record = VtblRecord {
            reserved_pebs: 998,
            alignment: 4096,
            data_pad: 126_976 % 4096,
            vol_type: VolType::Dynamic,
            upd_marker: false,
            name: b"rootfs".to_vec(),
            flags: VtblRecord::AUTORESIZE,
        };
        assert_eq!(VtblRecord::decode(&VtblRecord::encode(Some(&record)), 126_976), Ok(Some(record)));
        assert_eq!(VtblRecord::decode(&VtblRecord::encode(None), 126_976), Ok(None));
    }

    #[test]
    fn a_record_that_contradicts_itself_is_refused() {
        let record = VtblRecord {
            reserved_pebs: 1,
            alignment: 3,
            data_pad: 0,
            vol_type: VolType::Dynamic,
            upd_marker: false,
            name: b"x".to_vec(),
            flags: 0,
        };
        let error = VtblRecord::decode(&VtblRecord::encode(Some(&record)), 1000).unwrap_err();
        assert!(matches!(error, MediaError::Field { what: "data_pad", .. }), "{error}");
    }

    #[test]
    fn small_lebs_hold_fewer_volumes() {
        assert_eq!((vtbl_slots(126_976), vtbl_slots(15_360)), (128, 89));
    }
}
