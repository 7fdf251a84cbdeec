//! The commands and recommendations of HPB, as bytes.

use ssd::device::hpb::{
    HpbCommand, HpbRead, HpbReadBuffer, HpbWriteBuffer, Operation, Recommendation, Subregion, UpToTwo,
};
use ssd::device::ufs::upiu::with_data_segment;
use ssd::device::ufs::{Nexus, ResponseUpiu, ScsiStatus, Sense, WireError};

use crate::{refused, takes_no_prefix};

const READ: HpbRead = HpbRead {
    lba: 0x0102_0304,
    entry: [0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7],
    blocks: 9,
    read_id: 0x7e,
    dpo: false,
    fua: true,
};
const READ_BYTES: [u8; 16] =
    [0xf8, 0x08, 0x01, 0x02, 0x03, 0x04, 0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0x09, 0x7e];

const READ_BUFFER: HpbReadBuffer = HpbReadBuffer { region: 0x0102, subregion: 0x0304, allocation_bytes: 0x05_0607 };
const READ_BUFFER_BYTES: [u8; 10] = [0xf9, 0x01, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x00];

const INACTIVATE: HpbWriteBuffer = HpbWriteBuffer::InactivateRegion { region: 0x0a0b };
const INACTIVATE_BYTES: [u8; 10] = [0xfa, 0x01, 0x0a, 0x0b, 0, 0, 0, 0, 0, 0];
const PREFETCH: HpbWriteBuffer = HpbWriteBuffer::Prefetch { lba: 0x0102_0304, read_id: 5, entries: 128 };
const PREFETCH_BYTES: [u8; 10] = [0xfa, 0x02, 0x01, 0x02, 0x03, 0x04, 0x05, 0x04, 0x00, 0x00];
const ALL_BYTES: [u8; 10] = [0xfa, 0x03, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_read_with_an_entry_is_the_golden_one() {
    assert_eq!((READ.encode(), HpbRead::decode(&READ_BYTES)), (READ_BYTES, Ok(READ)));
    takes_no_prefix(&READ_BYTES, HpbRead::decode);
}

/// The driver changes the CDB in place: byte 0, the entry, the length and the READ ID.
#[test]
fn a_read_is_a_read_10_with_an_entry_in_place() {
    let mut cdb = [0; 16];
    let read = ssd::device::ufs::cdb::Read10 { lba: 0x0102_0304, fua: true, ..Default::default() };
    cdb[..10].copy_from_slice(&read.encode());
    cdb[0] = 0xf8;
    cdb[6..14].copy_from_slice(&READ.entry);
    cdb[14..].copy_from_slice(&[9, 0x7e]);
    assert_eq!(cdb, READ.encode());
}

#[test]
fn buffers_are_the_golden_ones() {
    assert_eq!((READ_BUFFER.encode(), HpbReadBuffer::decode(&READ_BUFFER_BYTES)), (READ_BUFFER_BYTES, Ok(READ_BUFFER)));
    takes_no_prefix(&READ_BUFFER_BYTES, HpbReadBuffer::decode);
    let writes =
        [(INACTIVATE, INACTIVATE_BYTES), (PREFETCH, PREFETCH_BYTES), (HpbWriteBuffer::InactivateAll, ALL_BYTES)];
    for (write, bytes) in writes {
        assert_eq!((write.encode(), HpbWriteBuffer::decode(&bytes)), (bytes, Ok(write)));
        takes_no_prefix(&bytes, HpbWriteBuffer::decode);
    }
}

#[test]
fn any_command_is_known_by_its_operation_code() {
    assert_eq!(HpbCommand::decode(&READ_BYTES), Ok(HpbCommand::Read(READ)));
    assert_eq!(HpbCommand::Read(READ).encode(), READ_BYTES);
    for (command, short) in
        [(HpbCommand::ReadBuffer(READ_BUFFER), READ_BUFFER_BYTES), (HpbCommand::WriteBuffer(PREFETCH), PREFETCH_BYTES)]
    {
        let mut padded = [0; 16];
        padded[..10].copy_from_slice(&short);
        assert_eq!(command.encode(), padded);
        assert_eq!(HpbCommand::decode(&padded), Ok(command));
    }
    assert_eq!(refused(HpbCommand::decode(&[0x28; 16])), ("HPB CDB", 0));
    assert!(matches!(HpbCommand::decode(&[]), Err(WireError::Short { .. })));
}

#[test]
fn what_a_command_may_not_say_is_refused_by_place() {
    fn with<const N: usize>(golden: [u8; N], at: usize, byte: u8) -> (&'static str, usize) {
        let mut bytes = golden;
        bytes[at] = byte;
        refused(HpbCommand::decode(&bytes))
    }
    assert_eq!(with(READ_BYTES, 1, 0x20), ("HPB READ", 1));
    assert_eq!(with(READ_BUFFER_BYTES, 1, 0x02), ("HPB READ BUFFER", 1));
    assert_eq!(with(READ_BUFFER_BYTES, 9, 0x01), ("HPB READ BUFFER", 9));
    assert_eq!(with(INACTIVATE_BYTES, 1, 0x00), ("HPB WRITE BUFFER", 1));
    assert_eq!(with(INACTIVATE_BYTES, 1, 0x04), ("HPB WRITE BUFFER", 1));
    assert_eq!(with(INACTIVATE_BYTES, 8, 0x01), ("HPB WRITE BUFFER", 8));
    assert_eq!(with(ALL_BYTES, 2, 0x01), ("HPB WRITE BUFFER", 2));
    assert_eq!(with(PREFETCH_BYTES, 8, 0x04), ("HPB WRITE BUFFER", 7), "half an entry");
    assert_eq!(with(PREFETCH_BYTES, 9, 0x04), ("HPB WRITE BUFFER", 9));
}

#[test]
#[should_panic(expected = "8192 entries")]
fn more_entries_than_the_length_holds_are_a_bug() {
    HpbWriteBuffer::Prefetch { lba: 0, read_id: 1, entries: HpbWriteBuffer::MAX_ENTRIES + 1 }.encode();
}

#[test]
#[should_panic(expected = "16777216 bytes")]
fn an_allocation_length_beyond_24_bits_is_a_bug() {
    HpbReadBuffer { allocation_bytes: 1 << 24, ..READ_BUFFER }.encode();
}

fn recommendation() -> Recommendation {
    let active = [Subregion { region: 0x0102, subregion: 0x0304 }, Subregion { region: 0x0506, subregion: 0x0708 }];
    Recommendation {
        operation: Operation::UpdateRegions,
        lun: 2,
        active: UpToTwo::new(&active).expect("two"),
        inactive: UpToTwo::new(&[0x090a, 0x0b0c]).expect("two"),
    }
}

#[rustfmt::skip]
const RECOMMENDATION_BYTES: [u8; 20] = [
    0x00, 0x12, 0x80, 0x10, 0x01, 0x02, 0x02, 0x02,
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
    0x09, 0x0a, 0x0b, 0x0c,
];

#[test]
fn a_recommendation_is_the_golden_one() {
    assert_eq!(recommendation().encode(), RECOMMENDATION_BYTES);
    assert_eq!(Recommendation::decode(&RECOMMENDATION_BYTES), Ok(recommendation()));
    takes_no_prefix(&RECOMMENDATION_BYTES, Recommendation::decode);
}

#[test]
fn places_beyond_the_counts_are_passed_over() {
    let mut bytes = RECOMMENDATION_BYTES;
    bytes[6..8].copy_from_slice(&[1, 0]);
    let read = Recommendation::decode(&bytes).expect("one and none");
    assert_eq!(read.active.as_slice(), [Subregion { region: 0x0102, subregion: 0x0304 }]);
    assert_eq!(read.inactive.as_slice(), []);
    let mut golden = bytes;
    golden[12..].fill(0);
    assert_eq!(read.encode(), golden);
}

#[test]
fn what_a_recommendation_may_not_say_is_refused_by_place() {
    let with = |at: usize, byte: u8| {
        let mut bytes = RECOMMENDATION_BYTES;
        bytes[at] = byte;
        refused(Recommendation::decode(&bytes))
    };
    let format = "HPB recommendation";
    assert_eq!(with(1, 0x13), (format, 0));
    assert_eq!(with(2, 0x70), (format, 2), "sense data");
    assert_eq!(with(3, 0x0f), (format, 3));
    assert_eq!(with(4, 0x03), (format, 4));
    assert_eq!(with(6, 0x03), (format, 6));
    assert_eq!(with(7, 0xff), (format, 7));
    assert_eq!(UpToTwo::new(&[1u16, 2, 3]), None);
}

#[test]
fn a_recommendation_comes_in_a_good_response_that_says_so() {
    let good =
        ResponseUpiu { hpb_update_alert: true, ..ResponseUpiu::good(Nexus { lun: 1, task_tag: 2, initiator: 0 }) };
    let of = |response: ResponseUpiu, segment: &[u8]| {
        Recommendation::of_response(&with_data_segment(response.encode(), segment))
    };
    let whole = with_data_segment(good.encode(), &RECOMMENDATION_BYTES);
    assert_eq!((whole.len(), whole[9], whole[11]), (52, 0x02, 0x14));
    assert_eq!(Recommendation::of_response(&whole), Ok(Some(recommendation())));
    assert_eq!(of(good, &[&RECOMMENDATION_BYTES[..], &[0; 4]].concat()), Ok(Some(recommendation())), "longer");
    assert_eq!(of(good, &[]), Ok(None), "an alert without data");
    assert_eq!(of(ResponseUpiu { hpb_update_alert: false, ..good }, &RECOMMENDATION_BYTES), Ok(None));
    let failed = ResponseUpiu { status: ScsiStatus::CheckCondition, ..good };
    assert_eq!(of(failed, &Sense::INVALID_FIELD_IN_CDB.encode()), Ok(None), "these are sense data");
    assert!(matches!(of(good, &RECOMMENDATION_BYTES[..19]), Err(WireError::Short { .. })));
    assert!(matches!(Recommendation::of_response(&whole[..51]), Err(WireError::Short { .. })));
}

#[test]
fn a_list_has_two_items_at_most() {
    for items in [&[][..], &[5], &[5, 6]] {
        let list = UpToTwo::of(items.iter().copied());
        assert_eq!((list.as_slice(), UpToTwo::new(items)), (items, Some(list)));
    }
    assert_eq!(UpToTwo::of([5, 6, 7, 8].into_iter()).as_slice(), [5, 6]);
    assert_eq!(UpToTwo::new(&[5, 6, 7]), None);
}

#[test]
fn an_update_without_regions_asks_nothing() {
    let idle = Recommendation { active: UpToTwo::default(), inactive: UpToTwo::default(), ..recommendation() };
    assert!(idle.is_idle());
    assert!(!recommendation().is_idle());
    // Either list asks for something.
    assert!(!Recommendation { active: UpToTwo::default(), ..recommendation() }.is_idle());
    assert!(!Recommendation { inactive: UpToTwo::default(), ..recommendation() }.is_idle());
    assert!(Recommendation { operation: Operation::None, ..recommendation() }.is_idle());
    assert!(!Recommendation { operation: Operation::DeviceReset, ..idle }.is_idle());
}
