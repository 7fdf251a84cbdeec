//! UPIUs, queries, sense data and the CDBs of SCSI.

use ssd::device::ufs::cdb::{Read10, ScsiCommand, SynchronizeCache10, Unmap, UnmapList, UnmapRange, Write10};
use ssd::device::ufs::query::{
    Attribute, Flag, QueryCode, QueryOpcode, hpb_single_command_bytes, writebooster_available_percent,
    writebooster_life_used_percent,
};
use ssd::device::ufs::upiu::{
    CommandUpiu, Nexus, Query, QueryRequest, QueryResponse, ResponseUpiu, ScsiStatus, TaskAttribute, Transaction,
    Transfer, UpiuHeader, data_segment, well_known, with_data_segment,
};
use ssd::device::ufs::{DescriptorIdn, Sense, SenseKey, WireError};

use crate::{refused, takes_no_prefix};

const NEXUS: Nexus = Nexus { lun: 0x02, task_tag: 0x1f, initiator: 3 };

const READ: Read10 = Read10 { lba: 0x0102_0304, blocks: 0x0506, dpo: true, fua: false, group: 7 };
const READ_BYTES: [u8; 10] = [0x28, 0x10, 0x01, 0x02, 0x03, 0x04, 0x07, 0x05, 0x06, 0x00];

const COMMAND: CommandUpiu = CommandUpiu {
    nexus: NEXUS,
    transfer: Transfer::Read,
    attribute: TaskAttribute::HeadOfQueue,
    has_priority: true,
    expected_bytes: 0x0050_6000,
    cdb: [0x28, 0x10, 0x01, 0x02, 0x03, 0x04, 0x07, 0x05, 0x06, 0, 0, 0, 0, 0, 0, 0],
};
#[rustfmt::skip]
const COMMAND_BYTES: [u8; 32] = [
    0x01, 0x46, 0x02, 0x1f, // command; R, CP, head of queue; unit; tag
    0x30, 0x00, 0x00, 0x00, // initiator 3, SCSI
    0x00, 0x00, 0x00, 0x00,
    0x00, 0x50, 0x60, 0x00,
    0x28, 0x10, 0x01, 0x02, 0x03, 0x04, 0x07, 0x05, 0x06, 0x00, 0, 0, 0, 0, 0, 0,
];

const RESPONSE: ResponseUpiu = ResponseUpiu {
    nexus: NEXUS,
    succeeded: false,
    status: ScsiStatus::CheckCondition,
    overflow: false,
    underflow: true,
    data_out_mismatch: true,
    event_alert: true,
    hpb_update_alert: true,
    residual_bytes: 0x1000,
    segment_bytes: 20,
};
#[rustfmt::skip]
const RESPONSE_BYTES: [u8; 32] = [
    0x21, 0x30, 0x02, 0x1f, // response; U and D; unit; tag
    0x30, 0x00, 0x01, 0x02, // initiator 3, SCSI; target failure; CHECK CONDITION
    0x00, 0x03, 0x00, 0x14, // both alerts; 20 bytes of data
    0x00, 0x00, 0x10, 0x00,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

const REQUEST: QueryRequest = QueryRequest {
    task_tag: 9,
    query: Query {
        opcode: QueryOpcode::ReadDescriptor,
        idn: 0x02,
        index: 0x05,
        selector: 0x01,
        length_bytes: 0x002d,
        value: 0,
    },
    segment_bytes: 0,
};
#[rustfmt::skip]
const REQUEST_BYTES: [u8; 32] = [
    0x16, 0x00, 0x00, 0x09,
    0x00, 0x01, 0x00, 0x00, // standard read request
    0x00, 0x00, 0x00, 0x00,
    0x01, 0x02, 0x05, 0x01, // read descriptor; unit; 5; selector 1
    0x00, 0x00, 0x00, 0x2d,
    0x00, 0x00, 0x00, 0x00,
    0, 0, 0, 0, 0, 0, 0, 0,
];

const ANSWER: QueryResponse = QueryResponse {
    task_tag: 9,
    code: QueryCode::InvalidValue,
    query: Query {
        opcode: QueryOpcode::WriteAttribute,
        idn: 0x1f,
        index: 0,
        selector: 0,
        length_bytes: 0,
        value: 0x0a0b_0c0d,
    },
    segment_bytes: 0,
};
#[rustfmt::skip]
const ANSWER_BYTES: [u8; 32] = [
    0x36, 0x00, 0x00, 0x09,
    0x00, 0x81, 0xfa, 0x00, // standard write request; invalid value
    0x00, 0x00, 0x00, 0x00,
    0x04, 0x1f, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00,
    0x0a, 0x0b, 0x0c, 0x0d,
    0, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn a_command_is_the_golden_one() {
    assert_eq!(COMMAND.encode(), COMMAND_BYTES);
    assert_eq!(CommandUpiu::decode(&COMMAND_BYTES), Ok(COMMAND));
    takes_no_prefix(&COMMAND_BYTES, CommandUpiu::decode);
}

#[test]
fn a_response_is_the_golden_one() {
    assert_eq!(RESPONSE.encode(), RESPONSE_BYTES);
    assert_eq!(ResponseUpiu::decode(&RESPONSE_BYTES), Ok(RESPONSE));
    takes_no_prefix(&RESPONSE_BYTES, ResponseUpiu::decode);
    let mut good = [0; 32];
    good[..5].copy_from_slice(&[0x21, 0x00, 0x02, 0x1f, 0x30]);
    assert_eq!(ResponseUpiu::good(NEXUS).encode(), good);
    assert_eq!(ResponseUpiu::decode(&good), Ok(ResponseUpiu::good(NEXUS)));
}

#[test]
fn queries_and_answers_are_the_golden_ones() {
    assert_eq!(REQUEST.encode(), REQUEST_BYTES);
    assert_eq!(QueryRequest::decode(&REQUEST_BYTES), Ok(REQUEST));
    takes_no_prefix(&REQUEST_BYTES, QueryRequest::decode);
    assert_eq!(ANSWER.encode(), ANSWER_BYTES);
    assert_eq!(QueryResponse::decode(&ANSWER_BYTES), Ok(ANSWER));
    takes_no_prefix(&ANSWER_BYTES, QueryResponse::decode);
}

#[test]
fn a_flag_comes_in_the_last_byte_of_the_value() {
    let mut bytes = [0; 32];
    bytes[0] = 0x36;
    bytes[5] = 0x01;
    bytes[12..14].copy_from_slice(&[0x05, 0x12]);
    bytes[23] = 1;
    let answer = QueryResponse::decode(&bytes).expect("fHPBEn is read");
    assert!(answer.query.flag());
    assert_eq!((answer.query.opcode, answer.query.idn), (QueryOpcode::ReadFlag, Flag::Hpb.byte()));
    assert_eq!(answer.encode(), bytes);
}

#[test]
fn the_function_of_each_opcode_reads_or_writes() {
    let functions: Vec<_> =
        (1..=8).map(|byte| QueryOpcode::from_byte(byte).expect("one of eight").function()).collect();
    assert_eq!(functions, [0x01, 0x81, 0x01, 0x81, 0x01, 0x81, 0x81, 0x81]);
    assert_eq!((QueryOpcode::from_byte(0), QueryOpcode::from_byte(9)), (None, None));
}

#[test]
fn what_a_upiu_may_not_say_is_refused_by_place() {
    let with = |golden: [u8; 32], at: usize, byte: u8| {
        let mut bytes = golden;
        bytes[at] = byte;
        bytes
    };
    let command = |at, byte| refused(CommandUpiu::decode(&with(COMMAND_BYTES, at, byte)));
    assert_eq!(command(0, 0x03), ("UPIU header", 0), "no transaction");
    assert_eq!(command(0, 0x81), ("UPIU header", 0), "a checksum of the header");
    assert_eq!(command(0, 0x21), ("Command UPIU", 0), "a response");
    assert_eq!(command(1, 0x60), ("Command UPIU", 1), "both ways");
    assert_eq!(command(1, 0x43), ("Command UPIU", 1), "ACA");
    assert_eq!(command(4, 0x31), ("Command UPIU", 4), "another command set");
    assert_eq!(command(8, 0x02), ("UPIU header", 8), "extra header segments");
    assert_eq!(command(11, 0x04), ("Command UPIU", 10), "data");
    let response = |at, byte| refused(ResponseUpiu::decode(&with(RESPONSE_BYTES, at, byte)));
    assert_eq!(response(0, 0x01), ("Response UPIU", 0));
    assert_eq!(response(6, 0x02), ("Response UPIU", 6));
    assert_eq!(response(7, 0x01), ("Response UPIU", 7));
    let request = |at, byte| refused(QueryRequest::decode(&with(REQUEST_BYTES, at, byte)));
    assert_eq!(request(0, 0x36), ("Query Request UPIU", 0));
    assert_eq!(request(5, 0x81), ("Query Request UPIU", 5), "a write that reads");
    assert_eq!(request(12, 0x09), ("Query Request UPIU", 12));
    let answer = |at, byte| refused(QueryResponse::decode(&with(ANSWER_BYTES, at, byte)));
    assert_eq!(answer(6, 0x01), ("Query Response UPIU", 6));
    assert_eq!(answer(5, 0x01), ("Query Response UPIU", 5), "a read that writes");
}

#[test]
fn what_a_later_version_may_set_is_passed_over() {
    let mut bytes = RESPONSE_BYTES;
    bytes[5] = 0xf0; // EXT_IID of UFS 4.0
    bytes[9] |= 0x3c; // FAST_RECOVERY_NEEDED of UFS 4.1
    bytes[31] = 1;
    assert_eq!(ResponseUpiu::decode(&bytes), Ok(RESPONSE));
    let mut bytes = COMMAND_BYTES;
    bytes[7] = 0xf0;
    assert_eq!(CommandUpiu::decode(&bytes), Ok(COMMAND));
}

#[test]
fn a_data_segment_is_padded_to_four_bytes_and_comes_back_without() {
    let whole = with_data_segment(REQUEST_BYTES, &[1, 2, 3, 4, 5]);
    assert_eq!(whole.len(), 40);
    assert_eq!(&whole[10..12], [0, 5]);
    assert_eq!(&whole[32..], [1, 2, 3, 4, 5, 0, 0, 0]);
    assert_eq!(data_segment(&whole), Ok(&[1, 2, 3, 4, 5][..]));
    assert_eq!(QueryRequest::decode(&whole), Ok(QueryRequest { segment_bytes: 5, ..REQUEST }));
    let cut = data_segment(&whole[..36]);
    assert_eq!(cut, Err(WireError::Short { format: "UPIU with data segment", found: 36, expected: 37 }));
    assert_eq!(data_segment(&COMMAND_BYTES), Ok(&[][..]));
}

#[test]
fn a_header_carries_every_byte() {
    let bytes = [0x24, 0x81, well_known::DEVICE, 4, 0x5a, 6, 7, 8, 0, 10, 11, 12];
    let header = UpiuHeader::decode(&bytes).expect("a task-management response");
    assert_eq!(header.transaction, Transaction::TaskResponse);
    assert_eq!((header.initiator, header.command_set, header.segment_bytes), (5, 10, 0x0b0c));
    assert_eq!(header.encode(), bytes);
    takes_no_prefix(&bytes, UpiuHeader::decode);
    let codes: Vec<_> = Transaction::ALL.iter().map(|transaction| transaction.byte()).collect();
    assert_eq!(codes, [0x00, 0x01, 0x02, 0x04, 0x16, 0x20, 0x21, 0x22, 0x24, 0x31, 0x36, 0x3f]);
}

#[test]
fn sense_data_are_the_golden_ones() {
    let sense = Sense { key: SenseKey::MediumError, asc: 0x11, ascq: 0x04 };
    #[rustfmt::skip]
    let golden = [0x00, 0x12, 0x70, 0x00, 0x03, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0, 0x11, 0x04, 0, 0, 0, 0];
    assert_eq!(sense.encode(), golden);
    assert_eq!(Sense::decode(&golden), Ok(sense));
    takes_no_prefix(&golden, Sense::decode);
    let with = |at: usize, byte: u8| {
        let mut bytes = golden;
        bytes[at] = byte;
        Sense::decode(&bytes)
    };
    assert_eq!(with(2, 0xf0), Ok(sense), "an information field that is valid");
    assert_eq!(refused(with(1, 0x11)), ("sense data", 0));
    assert_eq!(refused(with(2, 0x80)), ("sense data", 2), "an HPB recommendation");
    assert_eq!(refused(with(4, 0x0a)), ("sense data", 4));
    assert_eq!(refused(with(9, 0x10)), ("sense data", 9));
    let refusal = [0x00, 0x12, 0x70, 0, 0x05, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0, 0x24, 0, 0, 0, 0, 0];
    assert_eq!(Sense::INVALID_FIELD_IN_CDB.encode(), refusal);
}

const WRITE: Write10 = Write10 { lba: 8, blocks: 1, dpo: false, fua: true, group: 0x10 };
const WRITE_BYTES: [u8; 10] = [0x2a, 0x08, 0, 0, 0, 8, 0x10, 0, 1, 0];
const SYNC: SynchronizeCache10 = SynchronizeCache10 { lba: 0xffff_fffe, blocks: 0, immediate: true, group: 0 };
const SYNC_BYTES: [u8; 10] = [0x35, 0x02, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0];
const UNMAP: Unmap = Unmap { group: 0, list_bytes: 0x0028 };
const UNMAP_BYTES: [u8; 10] = [0x42, 0, 0, 0, 0, 0, 0, 0, 0x28, 0];

#[test]
fn cdbs_are_the_golden_ones() {
    assert_eq!((READ.encode(), Read10::decode(&READ_BYTES)), (READ_BYTES, Ok(READ)));
    assert_eq!((WRITE.encode(), Write10::decode(&WRITE_BYTES)), (WRITE_BYTES, Ok(WRITE)));
    assert_eq!((SYNC.encode(), SynchronizeCache10::decode(&SYNC_BYTES)), (SYNC_BYTES, Ok(SYNC)));
    assert_eq!((UNMAP.encode(), Unmap::decode(&UNMAP_BYTES)), (UNMAP_BYTES, Ok(UNMAP)));
    takes_no_prefix(&READ_BYTES, Read10::decode);
    takes_no_prefix(&WRITE_BYTES, Write10::decode);
    takes_no_prefix(&SYNC_BYTES, SynchronizeCache10::decode);
    takes_no_prefix(&UNMAP_BYTES, Unmap::decode);
}

#[test]
fn any_cdb_is_known_by_its_operation_code() {
    let commands = [
        (ScsiCommand::Read(READ), READ_BYTES),
        (ScsiCommand::Write(WRITE), WRITE_BYTES),
        (ScsiCommand::SynchronizeCache(SYNC), SYNC_BYTES),
        (ScsiCommand::Unmap(UNMAP), UNMAP_BYTES),
    ];
    for (command, short) in commands {
        let mut padded = [0; 16];
        padded[..10].copy_from_slice(&short);
        assert_eq!(command.encode(), padded);
        assert_eq!(ScsiCommand::decode(&padded), Ok(command));
        assert_eq!(ScsiCommand::decode(&short), Ok(command));
        takes_no_prefix(&short, ScsiCommand::decode);
    }
    assert_eq!(refused(ScsiCommand::decode(&[0xf8; 16])), ("SCSI CDB", 0));
}

#[test]
fn what_a_cdb_must_leave_zero_is_refused() {
    let with = |golden: [u8; 10], at: usize, byte: u8| {
        let mut bytes = golden;
        bytes[at] = byte;
        refused(ScsiCommand::decode(&bytes))
    };
    assert_eq!(with(READ_BYTES, 1, 0x20), ("READ(10)", 1), "RDPROTECT");
    assert_eq!(with(READ_BYTES, 1, 0x02), ("READ(10)", 1), "FUA_NV");
    assert_eq!(with(WRITE_BYTES, 6, 0x20), ("WRITE(10)", 6));
    assert_eq!(with(WRITE_BYTES, 9, 0x04), ("WRITE(10)", 9), "NACA");
    assert_eq!(with(SYNC_BYTES, 1, 0x04), ("SYNCHRONIZE CACHE(10)", 1), "SYNC_NV");
    assert_eq!(with(UNMAP_BYTES, 1, 0x01), ("UNMAP", 1), "ANCHOR");
    assert_eq!(with(UNMAP_BYTES, 5, 0x01), ("UNMAP", 2));
    assert_eq!(refused(Read10::decode(&WRITE_BYTES)), ("READ(10)", 0));
}

#[test]
fn a_list_of_ranges_is_the_golden_one() {
    let ranges = [UnmapRange { lba: 0x0102_0304_0506_0708, blocks: 0x090a_0b0c }, UnmapRange { lba: 1, blocks: 0 }];
    #[rustfmt::skip]
    let golden = [
        0x00, 0x26, 0x00, 0x20, 0, 0, 0, 0,
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(UnmapList::encode(&ranges), golden);
    let list = UnmapList::decode(&golden).expect("two ranges");
    assert_eq!(list.iter().collect::<Vec<_>>(), ranges);
    takes_no_prefix(&golden, |bytes| UnmapList::decode(bytes).map(|list| list.iter().collect::<Vec<_>>()));
    takes_no_prefix(&golden[8..24], UnmapRange::decode);
    assert!(UnmapList::decode(&UnmapList::encode(&[])).expect("none is no error").is_empty());
}

#[test]
fn a_last_range_that_is_cut_does_not_count_and_lengths_must_agree() {
    let mut bytes = UnmapList::encode(&[UnmapRange { lba: 5, blocks: 6 }]);
    bytes.extend_from_slice(&[0xff; 15]);
    bytes[1] += 15;
    bytes[3] += 15;
    let list = UnmapList::decode(&bytes).expect("one range and a piece");
    assert_eq!(list.iter().collect::<Vec<_>>(), [UnmapRange { lba: 5, blocks: 6 }]);
    bytes[1] += 1;
    assert_eq!(refused(UnmapList::decode(&bytes)), ("UNMAP parameter list", 0));
    assert_eq!(refused(UnmapList::decode(&[0, 5, 0xff, 0xff, 0, 0, 0, 0])), ("UNMAP parameter list", 0));
}

#[test]
fn the_longest_list_fits_its_length() {
    let list = UnmapList::encode(&vec![UnmapRange::default(); UnmapList::MAX_RANGES]);
    assert_eq!(UnmapList::decode(&list).expect("it fits").len(), 4095);
}

#[test]
fn identifiers_are_those_of_the_standard() {
    let flags = [Flag::WriteBooster, Flag::WriteBoosterFlush, Flag::WriteBoosterFlushInHibernate];
    assert_eq!(flags.map(Flag::byte), [0x0e, 0x0f, 0x10]);
    assert_eq!([Flag::HpbReset, Flag::Hpb].map(Flag::byte), [0x11, 0x12]);
    let attributes = [
        Attribute::HpbSingleCommandSize,
        Attribute::WriteBoosterFlushStatus,
        Attribute::WriteBoosterAvailable,
        Attribute::WriteBoosterLife,
        Attribute::WriteBoosterSize,
    ];
    assert_eq!(attributes.map(Attribute::byte), [0x01, 0x1c, 0x1d, 0x1e, 0x1f]);
    assert_eq!(attributes.map(Attribute::bytes), [1, 1, 1, 1, 4]);
    let descriptors = [DescriptorIdn::Device, DescriptorIdn::Unit, DescriptorIdn::Geometry];
    assert_eq!(descriptors.map(DescriptorIdn::byte), [0, 2, 7]);
    let codes: Vec<_> = QueryCode::ALL.iter().map(|code| code.byte()).collect();
    assert_eq!(codes, [0x00, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff]);
}

#[test]
fn values_of_attributes_mean_what_they_should() {
    assert_eq!([0, 1, 255].map(hpb_single_command_bytes), [4096, 8192, 1 << 20]);
    assert_eq!([0, 10, 11].map(writebooster_available_percent), [Some(0), Some(100), None]);
    assert_eq!([0, 1, 10, 11, 12].map(writebooster_life_used_percent), [None, Some(10), Some(100), Some(255), None]);
}
