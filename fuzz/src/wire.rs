//! Targets of UFS and HPB on the wire: what a decoder takes says the same when it is written again, and writes the
//! bytes that it was read from, wherever they mean something.

use std::fmt::Debug;

use ssd::device::hpb::{HpbCommand, HpbRead, HpbReadBuffer, HpbWriteBuffer, Recommendation};
use ssd::device::ufs::cdb::{Read10, ScsiCommand, SynchronizeCache10, Unmap, UnmapList, UnmapRange, Write10};
use ssd::device::ufs::upiu::{UpiuHeader, data_segment, with_data_segment};
use ssd::device::ufs::{
    CommandUpiu, DeviceDescriptor, GeometryDescriptor, QueryRequest, QueryResponse, ResponseUpiu, Sense,
    UnitDescriptor, WireError,
};

use crate::memory;

/// Decoders hold nothing; a data segment and a list of ranges are written again, and ranges collected.
const TIMES: usize = 8;
const FIXED: usize = 4096;

/// What `decode` takes of `bytes` comes back; `meant` has the bits that the format carries.
fn again<T: Debug + PartialEq, const N: usize>(
    bytes: &[u8],
    meant: &[u8; N],
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T) -> [u8; N],
) {
    let Ok(decoded) = decode(bytes) else { return };
    let encoded = encode(&decoded);
    assert_eq!(decode(&encoded).as_ref(), Ok(&decoded));
    for (at, meant) in meant.iter().enumerate() {
        assert_eq!(encoded[at] & meant, bytes[at] & meant, "byte {at} of {decoded:?}");
    }
}

/// The commands of HPB and what a device recommends, alone and in a response.
pub fn hpb(data: &[u8]) {
    memory::bounded(data.len(), TIMES, FIXED, || {
        again(data, &[0xff; 16], HpbRead::decode, HpbRead::encode);
        again(data, &[0xff; 10], HpbReadBuffer::decode, HpbReadBuffer::encode);
        again(data, &[0xff; 10], HpbWriteBuffer::decode, HpbWriteBuffer::encode);
        if let Ok(command) = HpbCommand::decode(data) {
            assert_eq!(HpbCommand::decode(&command.encode()), Ok(command));
        }
        recommendation(data);
        if let Ok(Some(told)) = Recommendation::of_response(data) {
            let segment = data_segment(data).expect("it was just read from there");
            assert_eq!(Recommendation::decode(segment), Ok(told));
            recommendation(segment);
        }
    });
}

fn recommendation(bytes: &[u8]) {
    let Ok(told) = Recommendation::decode(bytes) else { return };
    // Places that the counts leave out mean nothing.
    let mut meant = [0xff; Recommendation::BYTES];
    meant[8 + 4 * told.active.as_slice().len()..16].fill(0);
    meant[16 + 2 * told.inactive.as_slice().len()..].fill(0);
    again(bytes, &meant, Recommendation::decode, Recommendation::encode);
}

/// UPIUs with their data segments, queries, descriptors, sense data, and the CDBs of SCSI.
pub fn ufs(data: &[u8]) {
    memory::bounded(data.len(), TIMES, FIXED, || {
        again(data, &[0xff; UpiuHeader::BYTES], UpiuHeader::decode, UpiuHeader::encode);
        again(data, &CommandUpiu::MEANT, CommandUpiu::decode, CommandUpiu::encode);
        again(data, &ResponseUpiu::MEANT, ResponseUpiu::decode, ResponseUpiu::encode);
        again(data, &QueryRequest::MEANT, QueryRequest::decode, QueryRequest::encode);
        again(data, &QueryResponse::MEANT, QueryResponse::decode, QueryResponse::encode);
        inner(data);
        if let Ok(command) = CommandUpiu::decode(data) {
            inner(&command.cdb);
        }
        if let Ok(segment) = data_segment(data) {
            inner(segment);
            let mut fixed = [0; 32];
            fixed.copy_from_slice(&data[..32]);
            let whole = with_data_segment(fixed, segment);
            assert_eq!(whole[..32], data[..32], "the length was right");
            assert_eq!(data_segment(&whole), Ok(segment));
        }
    });
}

/// What a UPIU carries.
fn inner(bytes: &[u8]) {
    again(bytes, &DeviceDescriptor::MEANT, DeviceDescriptor::decode, descriptor(DeviceDescriptor::encode, bytes));
    again(bytes, &GeometryDescriptor::MEANT, GeometryDescriptor::decode, descriptor(GeometryDescriptor::encode, bytes));
    again(bytes, &UnitDescriptor::MEANT, UnitDescriptor::decode, descriptor(UnitDescriptor::encode, bytes));
    again(bytes, &Sense::MEANT, Sense::decode, Sense::encode);
    again(bytes, &[0xff; 10], Read10::decode, Read10::encode);
    again(bytes, &[0xff; 10], Write10::decode, Write10::encode);
    again(bytes, &[0xff; 10], SynchronizeCache10::decode, SynchronizeCache10::encode);
    again(bytes, &[0xff; 10], Unmap::decode, Unmap::encode);
    if let Ok(command) = ScsiCommand::decode(bytes) {
        assert_eq!(ScsiCommand::decode(&command.encode()), Ok(command));
    }
    if let Ok(list) = UnmapList::decode(bytes) {
        let ranges: Vec<UnmapRange> = list.iter().collect();
        let encoded = UnmapList::encode(&ranges);
        let again = UnmapList::decode(&encoded).expect("it was just written");
        assert!(again.iter().eq(ranges));
    }
}

/// A descriptor that says to be longer than its structure is written with the structure's length: that much may differ.
fn descriptor<T, const N: usize>(encode: impl Fn(&T) -> [u8; N], bytes: &[u8]) -> impl Fn(&T) -> [u8; N] {
    let length = bytes.first().copied().unwrap_or_default();
    move |decoded| {
        let mut encoded = encode(decoded);
        assert_eq!(usize::from(encoded[0]), N);
        encoded[0] = length;
        encoded
    }
}
