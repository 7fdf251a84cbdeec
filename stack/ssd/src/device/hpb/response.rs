//! HPB recommendation: subregions to activate and regions to inactivate, in place of the sense data of a GOOD response.
//!
//! ```text
//! 0 length 0012h   2 type 80h   3 additional length 10h   4 operation   5 LUN   6 active count   7 inactive count
//! 8 region, subregion   12 region, subregion   16 region   18 region
//! ```
//!
//! Source: Linux 6.1 `include/ufs/ufs.h` and `ufshpb.c`; offsets are from the start of the data segment.

use crate::device::ufs::WireError;
use crate::device::ufs::upiu::{ResponseUpiu, ScsiStatus, data_segment};
use crate::device::ufs::wire::{Field, Reader, byte_enum, fills};

byte_enum! {
    /// HPB OPERATION of a recommendation.
    pub enum Operation {
        /// No operation.
        None = 0x00,
        /// The host activates and inactivates the listed regions.
        UpdateRegions = 0x01,
        /// The device lost its HPB state: all entries that the host has are stale.
        DeviceReset = 0x02,
    }
}

/// Address of a subregion within a logical unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subregion {
    /// Region number within the logical unit.
    pub region: u16,
    /// Subregion number within the region.
    pub subregion: u16,
}

/// List of at most two items, as a recommendation has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpToTwo<T> {
    items: [T; 2],
    len: u8,
}

impl<T: Copy + Default> UpToTwo<T> {
    /// List of the items of a slice; `None` if there are more than two.
    pub fn new(from: &[T]) -> Option<UpToTwo<T>> {
        let mut items = [T::default(); 2];
        items.get_mut(..from.len())?.copy_from_slice(from);
        Some(UpToTwo { items, len: from.len() as u8 })
    }

    /// List of the first two items of an iterator.
    pub fn of(from: impl Iterator<Item = T>) -> UpToTwo<T> {
        let mut two = UpToTwo { items: [T::default(); 2], len: 0 };
        for item in from.take(2) {
            two.items[usize::from(two.len)] = item;
            two.len += 1;
        }
        two
    }

    /// The items in order.
    pub fn as_slice(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }
}

/// HPB recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// Requested operation.
    pub operation: Operation,
    /// LUN that it applies to; not always that of the command whose response carries it.
    pub lun: u8,
    /// Subregions to activate: the host reads their entries.
    pub active: UpToTwo<Subregion>,
    /// Regions to inactivate.
    pub inactive: UpToTwo<u16>,
}

const FORMAT: &str = "HPB recommendation";
const LENGTH: usize = 0;
const TYPE: usize = 2;
const ADDITIONAL_LENGTH: usize = 3;
const OPERATION: usize = 4;
const LUN: usize = 5;
const ACTIVE_COUNT: usize = 6;
const INACTIVE_COUNT: usize = 7;
const ACTIVE: usize = 8;
const ACTIVE_BYTES: usize = 4;
const INACTIVE: usize = 16;
const INACTIVE_BYTES: usize = 2;
const _: () = assert!(fills(
    &[
        (LENGTH, 2),
        (TYPE, 1),
        (ADDITIONAL_LENGTH, 1),
        (OPERATION, 1),
        (LUN, 1),
        (ACTIVE_COUNT, 1),
        (INACTIVE_COUNT, 1),
        (ACTIVE, 2 * ACTIVE_BYTES),
        (INACTIVE, 2 * INACTIVE_BYTES),
    ],
    Recommendation::BYTES
));

/// SENSE DATA LENGTH: number of bytes after this field.
const SENSE_BYTES: u16 = 0x12;
/// ADDITIONAL LENGTH: number of bytes after this field.
const ADDITIONAL_BYTES: u8 = 0x10;
const DESCRIPTOR_TYPE: u8 = 0x80;
const _: () = assert!(SENSE_BYTES as usize == Recommendation::BYTES - TYPE);
const _: () = assert!(ADDITIONAL_BYTES as usize == Recommendation::BYTES - OPERATION);

impl Recommendation {
    /// Size of the data segment in bytes.
    pub const BYTES: usize = 20;

    /// Encodes the data segment. Unused region fields are zero.
    pub fn encode(&self) -> [u8; Recommendation::BYTES] {
        let mut bytes = [0; Recommendation::BYTES];
        SENSE_BYTES.put(&mut bytes, LENGTH);
        bytes[TYPE] = DESCRIPTOR_TYPE;
        bytes[ADDITIONAL_LENGTH] = ADDITIONAL_BYTES;
        bytes[OPERATION] = self.operation.byte();
        bytes[LUN] = self.lun;
        bytes[ACTIVE_COUNT] = self.active.len;
        bytes[INACTIVE_COUNT] = self.inactive.len;
        for (place, active) in self.active.as_slice().iter().enumerate() {
            active.region.put(&mut bytes, ACTIVE + place * ACTIVE_BYTES);
            active.subregion.put(&mut bytes, ACTIVE + place * ACTIVE_BYTES + 2);
        }
        for (place, region) in self.inactive.as_slice().iter().enumerate() {
            region.put(&mut bytes, INACTIVE + place * INACTIVE_BYTES);
        }
        bytes
    }

    /// Decodes a data segment. Region fields beyond the counts are ignored. Errors: too short, another length or
    /// descriptor type, an unknown operation, a count above two.
    pub fn decode(bytes: &[u8]) -> Result<Recommendation, WireError> {
        let reader = Reader::new(FORMAT, bytes, Recommendation::BYTES)?;
        reader.expect(LENGTH, "SENSE DATA LENGTH", SENSE_BYTES, "0x12")?;
        reader.expect(TYPE, "DESCRIPTOR TYPE", DESCRIPTOR_TYPE, "0x80")?;
        reader.expect(ADDITIONAL_LENGTH, "ADDITIONAL LENGTH", ADDITIONAL_BYTES, "0x10")?;
        let operation = Operation::read(&reader, OPERATION, "HPB OPERATION", reader.get(OPERATION))?;
        let count = |at, field| match reader.get::<u8>(at) {
            count @ 0..=2 => Ok(usize::from(count)),
            count => reader.refuse(at, field, count.into(), "0 to 2"),
        };
        let active_count = count(ACTIVE_COUNT, "ACTIVE REGION COUNT")?;
        let inactive_count = count(INACTIVE_COUNT, "INACTIVE REGION COUNT")?;
        let mut active = UpToTwo::default();
        for place in 0..active_count {
            let at = ACTIVE + place * ACTIVE_BYTES;
            active.items[place] = Subregion { region: reader.get(at), subregion: reader.get(at + 2) };
            active.len += 1;
        }
        let mut inactive = UpToTwo::default();
        for place in 0..inactive_count {
            inactive.items[place] = reader.get(INACTIVE + place * INACTIVE_BYTES);
            inactive.len += 1;
        }
        Ok(Recommendation { operation, lun: reader.get(LUN), active, inactive })
    }

    /// Decodes the recommendation of a complete Response UPIU. `None` unless the status is GOOD, HPB_UPDATE_ALERT is
    /// set and there is a data segment. A segment longer than [`Recommendation::BYTES`] is accepted, as in Linux.
    /// Errors: not a Response UPIU; an incomplete data segment; those of [`Recommendation::decode`].
    pub fn of_response(bytes: &[u8]) -> Result<Option<Recommendation>, WireError> {
        let response = ResponseUpiu::decode(bytes)?;
        if !response.hpb_update_alert || response.segment_bytes == 0 || response.status != ScsiStatus::Good {
            return Ok(None);
        }
        Recommendation::decode(data_segment(bytes)?).map(Some)
    }

    /// Whether the host has nothing to do: no operation, or an update without regions.
    pub fn is_idle(&self) -> bool {
        match self.operation {
            Operation::None => true,
            Operation::UpdateRegions => self.active.len == 0 && self.inactive.len == 0,
            Operation::DeviceReset => false,
        }
    }
}
