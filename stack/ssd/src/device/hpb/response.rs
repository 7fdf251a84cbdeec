//! What a device recommends: regions to cache and regions to drop, in the place of the sense data of a GOOD response.
//!
//! ```text
//! 0 length 0012h   2 type 80h   3 additional length 10h   4 operation   5 LUN   6 active count   7 inactive count
//! 8 region, subregion   12 region, subregion   16 region   18 region
//! ```
//!
//! Source: Linux 6.1 `include/ufs/ufs.h` and `ufshpb.c`, offsets from the front of the data segment.

use crate::device::ufs::WireError;
use crate::device::ufs::upiu::{ResponseUpiu, ScsiStatus, data_segment};
use crate::device::ufs::wire::{Field, Reader, byte_enum, fills};

byte_enum! {
    /// What the device wants.
    pub enum Operation {
        /// Nothing.
        None = 0x00,
        /// That the regions named are read, or dropped.
        UpdateRegions = 0x01,
        /// That the host takes all it has as stale: the device lost its HPB state.
        DeviceReset = 0x02,
    }
}

/// A subregion of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subregion {
    /// Region of the unit.
    pub region: u16,
    /// Subregion of the region.
    pub subregion: u16,
}

/// None, one or two of something: what a response has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpToTwo<T> {
    items: [T; 2],
    len: u8,
}

impl<T: Copy + Default> UpToTwo<T> {
    /// Of a slice; `None` where it has more than two.
    pub fn new(from: &[T]) -> Option<UpToTwo<T>> {
        let mut items = [T::default(); 2];
        items.get_mut(..from.len())?.copy_from_slice(from);
        Some(UpToTwo { items, len: from.len() as u8 })
    }

    /// The first two of what comes.
    pub fn of(from: impl Iterator<Item = T>) -> UpToTwo<T> {
        let mut two = UpToTwo { items: [T::default(); 2], len: 0 };
        for item in from.take(2) {
            two.items[usize::from(two.len)] = item;
            two.len += 1;
        }
        two
    }

    /// What there is, in order.
    pub fn as_slice(&self) -> &[T] {
        &self.items[..usize::from(self.len)]
    }
}

/// A recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recommendation {
    /// What is wanted.
    pub operation: Operation,
    /// Of which logical unit; not always the one whose command carries it.
    pub lun: u8,
    /// Subregions to read.
    pub active: UpToTwo<Subregion>,
    /// Regions to drop.
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

/// Bytes behind the length.
const SENSE_BYTES: u16 = 0x12;
/// Bytes behind the additional length.
const ADDITIONAL_BYTES: u8 = 0x10;
const DESCRIPTOR_TYPE: u8 = 0x80;
const _: () = assert!(SENSE_BYTES as usize == Recommendation::BYTES - TYPE);
const _: () = assert!(ADDITIONAL_BYTES as usize == Recommendation::BYTES - OPERATION);

impl Recommendation {
    /// Size of the data segment.
    pub const BYTES: usize = 20;

    /// The data segment. Places without a region are zeroes.
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

    /// From a data segment. What stands in places that the counts leave out is passed over. Errors: too short, another
    /// length or type, an unknown operation, more than two of either.
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

    /// Of a whole Response UPIU: `None` unless it is GOOD, has HPB_UPDATE_ALERT set and a data segment. A segment that
    /// is longer than [`Recommendation::BYTES`] is taken, as Linux does. Errors: no response UPIU; what
    /// [`Recommendation::decode`] refuses.
    pub fn of_response(bytes: &[u8]) -> Result<Option<Recommendation>, WireError> {
        let response = ResponseUpiu::decode(bytes)?;
        if !response.hpb_update_alert || response.segment_bytes == 0 || response.status != ScsiStatus::Good {
            return Ok(None);
        }
        Recommendation::decode(data_segment(bytes)?).map(Some)
    }

    /// Whether there is nothing to do: no operation, or an update without regions.
    pub fn is_idle(&self) -> bool {
        match self.operation {
            Operation::None => true,
            Operation::UpdateRegions => self.active.len == 0 && self.inactive.len == 0,
            Operation::DeviceReset => false,
        }
    }
}
