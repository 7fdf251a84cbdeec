//! The array against its rules, its oracle, its clock and its faults.

mod cuts;
mod draws;
mod dumps;
mod faults;
mod limits;
mod model;
mod nandsim_id;
mod oracle;
mod power;
mod rules;
mod stores;
mod timing;
mod wearout;

use sim::seam::{Flash, Geometry, Medium, Payload};
use sim::{Cx, Peb};

use crate::{Array, ArrayConfig, Bytes};

/// Four blocks of eight pages of 512 bytes, in sub-pages of 128.
const NAND: Geometry =
    Geometry { medium: Medium::Nand, pebs: 4, peb_bytes: 4096, page_bytes: 512, subpage_bytes: 128, oob_bytes: 16 };

/// Four blocks of 4 KiB.
const NOR: Geometry =
    Geometry { medium: Medium::Nor, pebs: 4, peb_bytes: 4096, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 };

fn plain(geometry: Geometry) -> Array<Bytes> {
    Array::new(ArrayConfig::plain(geometry), Bytes::new())
}

fn read<F: Flash>(flash: &mut F, peb: u32, offset: u32, len: usize) -> Vec<u8> {
    let mut buf = vec![0x5a; len];
    flash.read(&mut Cx::new(), Peb(peb), offset, &mut buf).expect("a good read");
    buf
}

fn put<F: Flash>(flash: &mut F, peb: u32, offset: u32, data: &[u8]) {
    flash.program(&mut Cx::new(), Peb(peb), offset, Payload::Bytes(data)).expect("a good program");
}
