//! Offsets in a PEB.

use sim::seam::Geometry;

use crate::media::{EcHdr, VidHdr};

/// Offsets and sizes that follow from the geometry of the flash and, if given, the offset of the VID header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of PEBs.
    pub pebs: u32,
    /// Bytes of a PEB.
    pub peb_bytes: u32,
    /// Write unit of LEB data, in bytes.
    pub min_io_bytes: u32,
    /// Write unit of headers, in bytes: the sub-page if there is one.
    pub hdrs_min_io_bytes: u32,
    /// Offset of the VID header.
    pub vid_hdr_offset: u32,
    /// Offset of the write unit that holds the VID header.
    pub vid_hdr_aloffset: u32,
    /// Offset of the LEB data.
    pub data_offset: u32,
    /// Bytes of a LEB.
    pub leb_bytes: u32,
    /// Bytes programmed for an EC header.
    pub ec_hdr_alsize: u32,
    /// Bytes programmed for a VID header.
    pub vid_hdr_alsize: u32,
}

/// Why a geometry cannot hold UBI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found}; it must be {expected}")]
pub struct LayoutError {
    /// Name of the quantity.
    pub what: &'static str,
    /// Its value.
    pub found: u64,
    /// What UBI needs.
    pub expected: String,
}

impl Layout {
    /// The layout that the kernel and `ubinize` choose; with `None` they also choose the VID header's offset.
    /// Errors: a write unit that is no power of two, an offset that is unaligned or leaves no room.
    pub fn new(geometry: &Geometry, vid_hdr_offset: Option<u32>) -> Result<Layout, LayoutError> {
        let refuse = |what, found: u32, expected: &str| {
            Err(LayoutError { what, found: u64::from(found), expected: expected.to_owned() })
        };
        let Geometry { pebs, peb_bytes, page_bytes: min_io, subpage_bytes: hdrs_min_io, .. } = *geometry;
        if !min_io.is_power_of_two() {
            return refuse("the min. I/O unit", min_io, "a power of two");
        }
        if hdrs_min_io == 0 || hdrs_min_io > min_io || !min_io.is_multiple_of(hdrs_min_io) {
            return refuse("the sub-page size", hdrs_min_io, "a divisor of the min. I/O unit");
        }
        if !peb_bytes.is_multiple_of(min_io) {
            return refuse("the PEB size", peb_bytes, "a multiple of the min. I/O unit");
        }
        let alsize = (EcHdr::BYTES as u32).next_multiple_of(hdrs_min_io);
        let vid_hdr_offset = vid_hdr_offset.unwrap_or(alsize);
        if vid_hdr_offset < EcHdr::BYTES as u32 || !vid_hdr_offset.is_multiple_of(4) {
            return refuse("the VID header offset", vid_hdr_offset, "at least 64 and a multiple of 4");
        }
        let vid_hdr_aloffset = vid_hdr_offset / hdrs_min_io * hdrs_min_io;
        if vid_hdr_aloffset < alsize {
            return refuse("the VID header offset", vid_hdr_offset, "outside the write unit of the EC header");
        }
        let Some(data_offset) = vid_hdr_offset
            .checked_add(VidHdr::BYTES as u32)
            .and_then(|end| end.checked_next_multiple_of(min_io))
            .filter(|&offset| offset < peb_bytes)
        else {
            return refuse("the VID header offset", vid_hdr_offset, "small enough to leave room for data");
        };
        let vid_hdr_alsize = (vid_hdr_offset + VidHdr::BYTES as u32 - vid_hdr_aloffset).next_multiple_of(hdrs_min_io);
        Ok(Layout {
            pebs,
            peb_bytes,
            min_io_bytes: min_io,
            hdrs_min_io_bytes: hdrs_min_io,
            vid_hdr_offset,
            vid_hdr_aloffset,
            data_offset,
            leb_bytes: peb_bytes - data_offset,
            ec_hdr_alsize: alsize,
            vid_hdr_alsize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::Medium;

    fn geometry(peb_bytes: u32, page_bytes: u32, subpage_bytes: u32) -> Geometry {
        let medium = if page_bytes == 1 { Medium::Nor } else { Medium::Nand };
        Geometry { medium, pebs: 64, peb_bytes, page_bytes, subpage_bytes, oob_bytes: 0 }
    }

    #[test]
    fn offsets_are_those_of_ubinize() {
        let of = |page, sub| {
            let layout = Layout::new(&geometry(128 << 10, page, sub), None).unwrap();
            (layout.vid_hdr_offset, layout.data_offset, layout.leb_bytes)
        };
        assert_eq!(of(2048, 2048), (2048, 4096, 126_976));
        assert_eq!(of(2048, 512), (512, 2048, 129_024));
        assert_eq!(of(1, 1), (64, 128, 130_944));
    }

    #[test]
    fn a_vid_header_may_stand_unaligned_in_a_sub_page() {
        let layout = Layout::new(&geometry(128 << 10, 2048, 512), Some(1984)).unwrap();
        assert_eq!((layout.vid_hdr_aloffset, layout.vid_hdr_alsize, layout.data_offset), (1536, 512, 2048));
    }

    #[test]
    fn an_impossible_geometry_is_refused_by_name() {
        assert_eq!(Layout::new(&geometry(128 << 10, 1000, 1000), None).unwrap_err().what, "the min. I/O unit");
        assert!(Layout::new(&geometry(4096, 2048, 2048), None).is_err());
        assert!(Layout::new(&geometry(128 << 10, 2048, 2048), Some(66)).is_err());
        assert!(Layout::new(&geometry(128 << 10, 2048, 2048), Some(u32::MAX - 3)).is_err());
    }
}
