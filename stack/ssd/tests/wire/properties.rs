//! Values survive encoding and decoding; arbitrary bytes are rejected, or decoded to a value that encodes to the same
//! bytes.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::sample::select;
use ssd::device::hpb::{
    HpbCommand, HpbRead, HpbReadBuffer, HpbWriteBuffer, Operation, Recommendation, Subregion, UpToTwo,
};
use ssd::device::ufs::cdb::{Read10, ScsiCommand, SynchronizeCache10, Unmap, UnmapList, UnmapRange, Write10};
use ssd::device::ufs::upiu::{TaskAttribute, Transfer, data_segment, with_data_segment};
use ssd::device::ufs::{
    CommandUpiu, DeviceDescriptor, GeometryDescriptor, Nexus, Query, QueryCode, QueryOpcode, QueryRequest,
    QueryResponse, ResponseUpiu, ScsiStatus, Sense, SenseKey, UnitDescriptor, WireError,
};

fn nexus() -> impl Strategy<Value = Nexus> {
    (any::<u8>(), any::<u8>(), 0..16u8).prop_map(|(lun, task_tag, initiator)| Nexus { lun, task_tag, initiator })
}

fn commands() -> impl Strategy<Value = CommandUpiu> {
    (nexus(), select(Transfer::ALL), select(TaskAttribute::ALL), any::<bool>(), any::<u32>(), any::<[u8; 16]>())
        .prop_map(|(nexus, transfer, attribute, has_priority, expected_bytes, cdb)| CommandUpiu {
            nexus,
            transfer,
            attribute,
            has_priority,
            expected_bytes,
            cdb,
        })
}

fn responses() -> impl Strategy<Value = ResponseUpiu> {
    (nexus(), select(ScsiStatus::ALL), any::<[bool; 6]>(), any::<u32>(), any::<u16>()).prop_map(
        |(nexus, status, bits, residual_bytes, segment_bytes)| ResponseUpiu {
            nexus,
            succeeded: bits[0],
            status,
            overflow: bits[1],
            underflow: bits[2],
            data_out_mismatch: bits[3],
            event_alert: bits[4],
            hpb_update_alert: bits[5],
            residual_bytes,
            segment_bytes,
        },
    )
}

fn queries() -> impl Strategy<Value = Query> {
    (select(QueryOpcode::ALL), any::<[u8; 3]>(), any::<u16>(), any::<u32>()).prop_map(
        |(opcode, [idn, index, selector], length_bytes, value)| Query {
            opcode,
            idn,
            index,
            selector,
            length_bytes,
            value,
        },
    )
}

fn scsi_commands() -> impl Strategy<Value = ScsiCommand> {
    (0..4, any::<u32>(), any::<u16>(), any::<[bool; 2]>(), 0..32u8).prop_map(
        |(which, lba, blocks, [dpo, fua], group)| match which {
            0 => ScsiCommand::Read(Read10 { lba, blocks, dpo, fua, group }),
            1 => ScsiCommand::Write(Write10 { lba, blocks, dpo, fua, group }),
            2 => ScsiCommand::SynchronizeCache(SynchronizeCache10 { lba, blocks, immediate: dpo, group }),
            _ => ScsiCommand::Unmap(Unmap { group, list_bytes: blocks }),
        },
    )
}

fn hpb_commands() -> impl Strategy<Value = HpbCommand> {
    (0..5, any::<u32>(), any::<[u8; 8]>(), any::<[u8; 2]>(), any::<[bool; 2]>()).prop_map(
        |(which, lba, entry, [blocks, read_id], [dpo, fua])| {
            let (region, subregion) = ((lba >> 16) as u16, lba as u16);
            let entries = subregion % (HpbWriteBuffer::MAX_ENTRIES + 1);
            match which {
                0 => HpbCommand::Read(HpbRead { lba, entry, blocks, read_id, dpo, fua }),
                1 => HpbCommand::ReadBuffer(HpbReadBuffer { region, subregion, allocation_bytes: lba >> 8 }),
                2 => HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateRegion { region }),
                3 => HpbCommand::WriteBuffer(HpbWriteBuffer::Prefetch { lba, read_id, entries }),
                _ => HpbCommand::WriteBuffer(HpbWriteBuffer::InactivateAll),
            }
        },
    )
}

fn recommendations() -> impl Strategy<Value = Recommendation> {
    let active = prop::collection::vec(any::<(u16, u16)>(), 0..=2);
    let inactive = prop::collection::vec(any::<u16>(), 0..=2);
    (select(Operation::ALL), any::<u8>(), active, inactive).prop_map(|(operation, lun, active, inactive)| {
        let active: Vec<_> = active.into_iter().map(|(region, subregion)| Subregion { region, subregion }).collect();
        let at_most_two = "at most two";
        Recommendation {
            operation,
            lun,
            active: UpToTwo::new(&active).expect(at_most_two),
            inactive: UpToTwo::new(&inactive).expect(at_most_two),
        }
    })
}

/// Bytes that begin with one of `fronts`, which random bytes rarely would.
fn bytes(fronts: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    (select(fronts), prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..120))
        .prop_map(|(front, rest)| [front, &rest].concat())
}

/// Checks that decoded bytes decode to the same value after encoding, and that encoding reproduces their meaningful
/// bits (`meant`).
fn holds<T: Debug + PartialEq, const N: usize>(
    bytes: &[u8],
    meant: [u8; N],
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T) -> [u8; N],
) -> Result<(), TestCaseError> {
    let Ok(decoded) = decode(bytes) else { return Ok(()) };
    let encoded = encode(&decoded);
    let again = decode(&encoded);
    prop_assert_eq!(again.as_ref(), Ok(&decoded));
    for at in 0..N {
        prop_assert_eq!(encoded[at] & meant[at], bytes[at] & meant[at], "byte {}", at);
    }
    Ok(())
}

/// Puts `value` into a byte of a valid form. A refusal names what is there, and the value that it expects, if it names one,
/// is taken in that place.
fn a_remedy_helps<T: Debug, const N: usize>(
    mut bytes: [u8; N],
    (at, value): (usize, u8),
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
) -> Result<(), TestCaseError> {
    bytes[at % N] = value;
    // What a remedied byte says may make another wrong.
    for _ in 0..8 {
        let Err(WireError::Value { at, field, found, expected, .. }) = decode(&bytes) else { return Ok(()) };
        let number =
            |width: usize| bytes[at..].get(..width)?.iter().try_fold(0, |all, &byte| Some(all << 8 | u64::from(byte)));
        // Zeroes may be of a field of any width.
        let mut widths: Vec<_> =
            [1, 2, 4].into_iter().filter(|&width| number(width) == Some(found)).map(Some).collect();
        if widths.is_empty() {
            let bits = u64::from(bytes[at]) & found == found;
            prop_assert!(bits, "{}: {:#x} is not in byte {}", field, found, at);
            widths.push(None);
        }
        let named =
            |word: &str| word.strip_prefix("0x").map_or(word.parse().ok(), |hex| u8::from_str_radix(hex, 16).ok());
        let list = expected.trim_start_matches("one of ").split(':').next().unwrap_or_default();
        let values: Vec<u8> = list.split([' ', ',']).map_while(named).collect();
        if values.is_empty() {
            return Ok(());
        }
        let remedies = widths.iter().flat_map(|&width| values.iter().map(move |&value| (width, value)));
        let mut remedied = remedies.map(|(width, value)| {
            let mut bytes = bytes;
            match width {
                Some(width) => bytes[at..at + width].copy_from_slice(&u32::from(value).to_be_bytes()[4 - width..]),
                None => bytes[at] = bytes[at] & !(found as u8) | value,
            }
            bytes
        });
        let same = |error| matches!(error, WireError::Value { at: a, field: f, .. } if (a, f) == (at, field));
        let taken = remedied.find(|bytes| !decode(bytes).is_err_and(same));
        prop_assert!(taken.is_some(), "{} is refused with {} as well", field, expected);
        bytes = taken.unwrap_or(bytes);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_refusal_names_a_value_that_is_taken(
        command in commands(), response in responses(), query in queries(), scsi in scsi_commands(), hpb in hpb_commands(),
        told in recommendations(), code in select(QueryCode::ALL),
        change in (any::<usize>(), prop_oneof![0..0x10u8, any::<u8>(), select(&[0x81, 0x7f, 0x28, 0x70][..])]),
    ) {
        a_remedy_helps(command.encode(), change, CommandUpiu::decode)?;
        a_remedy_helps(response.encode(), change, ResponseUpiu::decode)?;
        let request = QueryRequest { task_tag: 1, query, segment_bytes: 0 };
        a_remedy_helps(request.encode(), change, QueryRequest::decode)?;
        // The opcode and the function of a query belong together.
        a_remedy_helps(request.encode(), (12, change.1), QueryRequest::decode)?;
        let answer = QueryResponse { task_tag: 1, code, query, segment_bytes: 0 };
        a_remedy_helps(answer.encode(), change, QueryResponse::decode)?;
        a_remedy_helps(answer.encode(), (12, change.1), QueryResponse::decode)?;
        a_remedy_helps(scsi.encode(), change, ScsiCommand::decode)?;
        a_remedy_helps(hpb.encode(), change, HpbCommand::decode)?;
        a_remedy_helps(told.encode(), change, Recommendation::decode)?;
        let sense = Sense { key: SenseKey::NotReady, asc: 4, ascq: 1 };
        a_remedy_helps(sense.encode(), change, Sense::decode)?;
    }

    #[test]
    fn upius_come_back_as_written(
        command in commands(), response in responses(), query in queries(), task_tag in any::<u8>(),
        code in select(QueryCode::ALL), segment_bytes in any::<u16>(),
    ) {
        prop_assert_eq!(CommandUpiu::decode(&command.encode()), Ok(command));
        prop_assert_eq!(ResponseUpiu::decode(&response.encode()), Ok(response));
        let request = QueryRequest { task_tag, query, segment_bytes };
        prop_assert_eq!(QueryRequest::decode(&request.encode()), Ok(request));
        let answer = QueryResponse { task_tag, code, query, segment_bytes };
        prop_assert_eq!(QueryResponse::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn data_segments_come_back_as_written(response in responses(), segment in prop::collection::vec(any::<u8>(), 0..300)) {
        let whole = with_data_segment(response.encode(), &segment);
        prop_assert_eq!(whole.len() % 4, 0);
        prop_assert_eq!(data_segment(&whole), Ok(&segment[..]));
    }

    #[test]
    fn cdbs_come_back_as_written(scsi in scsi_commands(), hpb in hpb_commands()) {
        prop_assert_eq!(ScsiCommand::decode(&scsi.encode()), Ok(scsi));
        prop_assert_eq!(HpbCommand::decode(&hpb.encode()), Ok(hpb));
        prop_assert!(HpbCommand::decode(&scsi.encode()).is_err());
        prop_assert!(ScsiCommand::decode(&hpb.encode()).is_err());
    }

    #[test]
    fn recommendations_and_sense_data_come_back_and_are_not_taken_for_each_other(
        told in recommendations(), key in select(SenseKey::ALL), asc in any::<u8>(), ascq in any::<u8>(),
    ) {
        prop_assert_eq!(Recommendation::decode(&told.encode()), Ok(told));
        prop_assert!(Sense::decode(&told.encode()).is_err());
        let sense = Sense { key, asc, ascq };
        prop_assert_eq!(Sense::decode(&sense.encode()), Ok(sense));
        prop_assert!(Recommendation::decode(&sense.encode()).is_err());
    }

    #[test]
    fn lists_of_ranges_come_back_as_written(ranges in prop::collection::vec(any::<(u64, u32)>(), 0..20)) {
        let ranges: Vec<_> = ranges.into_iter().map(|(lba, blocks)| UnmapRange { lba, blocks }).collect();
        let bytes = UnmapList::encode(&ranges);
        let list = UnmapList::decode(&bytes).expect("it was just written");
        prop_assert_eq!(list.iter().collect::<Vec<_>>(), ranges);
    }

    #[test]
    fn descriptors_come_back_as_written(filling in prop::collection::vec(any::<u8>(), 0x59)) {
        let filled = |len: usize, idn: u8| {
            let mut bytes = filling[..len].to_vec();
            bytes[..2].copy_from_slice(&[len as u8, idn]);
            bytes
        };
        let device = filled(DeviceDescriptor::BYTES, 0);
        prop_assert!(DeviceDescriptor::decode(&device).is_ok());
        holds(&device, DeviceDescriptor::MEANT, DeviceDescriptor::decode, DeviceDescriptor::encode)?;
        let geometry = filled(GeometryDescriptor::BYTES, 7);
        prop_assert!(GeometryDescriptor::decode(&geometry).is_ok());
        holds(&geometry, GeometryDescriptor::MEANT, GeometryDescriptor::decode, GeometryDescriptor::encode)?;
        let unit = filled(UnitDescriptor::BYTES, 2);
        prop_assert!(UnitDescriptor::decode(&unit).is_ok());
        holds(&unit, UnitDescriptor::MEANT, UnitDescriptor::decode, UnitDescriptor::encode)?;
    }

    #[test]
    fn any_bytes_are_refused_or_say_what_they_are(
        upiu in bytes(&[&[0x01], &[0x21], &[0x16, 0, 0, 0, 0, 1], &[0x36, 0, 0, 0, 0, 0x81]]),
        cdb in bytes(&[&[0x28], &[0x2a], &[0x35], &[0x42], &[0xf8], &[0xf9, 1], &[0xfa, 1], &[0xfa, 2], &[0xfa, 3]]),
        sense in bytes(&[&[0, 0x12, 0x70], &[0xff]]),
    ) {
        holds(&upiu, CommandUpiu::MEANT, CommandUpiu::decode, CommandUpiu::encode)?;
        holds(&upiu, ResponseUpiu::MEANT, ResponseUpiu::decode, ResponseUpiu::encode)?;
        holds(&upiu, QueryRequest::MEANT, QueryRequest::decode, QueryRequest::encode)?;
        holds(&upiu, QueryResponse::MEANT, QueryResponse::decode, QueryResponse::encode)?;
        holds(&cdb, [0xff; 10], Read10::decode, Read10::encode)?;
        holds(&cdb, [0xff; 10], Write10::decode, Write10::encode)?;
        holds(&cdb, [0xff; 10], SynchronizeCache10::decode, SynchronizeCache10::encode)?;
        holds(&cdb, [0xff; 10], Unmap::decode, Unmap::encode)?;
        holds(&cdb, [0xff; 16], HpbRead::decode, HpbRead::encode)?;
        holds(&cdb, [0xff; 10], HpbReadBuffer::decode, HpbReadBuffer::encode)?;
        holds(&cdb, [0xff; 10], HpbWriteBuffer::decode, HpbWriteBuffer::encode)?;
        holds(&sense, Sense::MEANT, Sense::decode, Sense::encode)?;
        let _ = UnmapList::decode(&upiu);
        let _ = Recommendation::decode(&sense);
        let _ = Recommendation::of_response(&upiu);
    }
}
