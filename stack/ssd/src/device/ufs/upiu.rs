//! UFS Protocol Information Units (UPIUs): a header of 12 bytes, 20 transaction-specific bytes, and for some
//! transactions a data segment.
//!
//! ```text
//! 0 HD DD transaction code   1 flags               2 LUN         3 task tag
//! 4 IID | command set        5 query function      6 response    7 status
//! 8 total EHS length         9 device information  10 data segment length
//! ```
//!
//! Sources: JESD220 10.6.2 (header, flags, padding of the data segment), 10.7.1 Command, 10.7.2 Response, 10.7.8 Query
//! Request, 10.7.9 Query Response. Extra header segments are rejected: only Advanced RPMB uses them. *Recalled*: a
//! query has neither LUN nor initiator.

use super::query::{QueryCode, QueryOpcode};
use super::wire::{Field, Reader, WireError, byte_enum, fills, mask_of, with_bits};

byte_enum! {
    /// Transaction code of a UPIU. Bit 5 is set if the device sends it.
    pub enum Transaction {
        /// NOP OUT.
        NopOut = 0x00,
        /// COMMAND.
        Command = 0x01,
        /// DATA OUT.
        DataOut = 0x02,
        /// TASK MANAGEMENT REQUEST.
        TaskRequest = 0x04,
        /// QUERY REQUEST.
        QueryRequest = 0x16,
        /// NOP IN.
        NopIn = 0x20,
        /// RESPONSE.
        Response = 0x21,
        /// DATA IN.
        DataIn = 0x22,
        /// TASK MANAGEMENT RESPONSE.
        TaskResponse = 0x24,
        /// READY TO TRANSFER.
        ReadyToTransfer = 0x31,
        /// QUERY RESPONSE.
        QueryResponse = 0x36,
        /// REJECT.
        Reject = 0x3f,
    }
}

/// Well-known logical units, as encoded in the LUN field of a UPIU: bit 7 marks them.
pub mod well_known {
    /// REPORT LUNS well-known logical unit.
    pub const REPORT_LUNS: u8 = 0x81;
    /// Boot well-known logical unit.
    pub const BOOT: u8 = 0xb0;
    /// RPMB well-known logical unit.
    pub const RPMB: u8 = 0xc4;
    /// UFS Device well-known logical unit.
    pub const DEVICE: u8 = 0xd0;
}

/// Size of the header and the transaction-specific fields in bytes; a data segment follows them.
pub const FIXED_BYTES: usize = 32;
/// Maximum size of a data segment in bytes.
pub const MAX_SEGMENT_BYTES: usize = 0xffff;

const TRANSACTION: usize = 0;
const FLAGS: usize = 1;
const LUN: usize = 2;
const TASK_TAG: usize = 3;
const INITIATOR_AND_SET: usize = 4;
const FUNCTION: usize = 5;
const RESPONSE: usize = 6;
const STATUS: usize = 7;
const EHS_LENGTH: usize = 8;
const DEVICE_INFORMATION: usize = 9;
const SEGMENT_LENGTH: usize = 10;

const EXPECTED_LENGTH: usize = 12;
const CDB: usize = 16;
const CDB_BYTES: usize = 16;

const RESIDUAL_COUNT: usize = 12;

const OPCODE: usize = 12;
const IDN: usize = 13;
const INDEX: usize = 14;
const SELECTOR: usize = 15;
const LENGTH: usize = 18;
const VALUE: usize = 20;

const HEADER_FIELDS: [(usize, usize); 11] = [
    (TRANSACTION, 1),
    (FLAGS, 1),
    (LUN, 1),
    (TASK_TAG, 1),
    (INITIATOR_AND_SET, 1),
    (FUNCTION, 1),
    (RESPONSE, 1),
    (STATUS, 1),
    (EHS_LENGTH, 1),
    (DEVICE_INFORMATION, 1),
    (SEGMENT_LENGTH, 2),
];
const _: () = assert!(fills(&HEADER_FIELDS, UpiuHeader::BYTES));
const _: () = assert!(fills(&[(0, UpiuHeader::BYTES), (EXPECTED_LENGTH, 4), (CDB, CDB_BYTES)], FIXED_BYTES));
const _: () = assert!(fills(&[(0, UpiuHeader::BYTES), (RESIDUAL_COUNT, 4), (16, 16)], FIXED_BYTES));
const _: () = assert!(fills(
    &[
        (0, UpiuHeader::BYTES),
        (OPCODE, 1),
        (IDN, 1),
        (INDEX, 1),
        (SELECTOR, 1),
        (16, 2),
        (LENGTH, 2),
        (VALUE, 4),
        (24, 8)
    ],
    FIXED_BYTES
));

/// Header of every UPIU. Which fields are used depends on the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpiuHeader {
    /// Transaction code.
    pub transaction: Transaction,
    /// Flags, whose meaning depends on the transaction.
    pub flags: u8,
    /// LUN; see [`well_known`].
    pub lun: u8,
    /// Task tag, assigned by the host.
    pub task_tag: u8,
    /// Initiator ID (IID), 0 to 15.
    pub initiator: u8,
    /// Command set type, 0 to 15; 0 is SCSI.
    pub command_set: u8,
    /// Query or task-management function.
    pub function: u8,
    /// Response code.
    pub response: u8,
    /// SCSI status.
    pub status: u8,
    /// Device information: EVENT_ALERT and HPB_UPDATE_ALERT of a response.
    pub device_information: u8,
    /// Data segment length in bytes, without padding.
    pub segment_bytes: u16,
}

impl UpiuHeader {
    /// Size of the header in bytes.
    pub const BYTES: usize = 12;
    const FORMAT: &str = "UPIU header";

    fn of(transaction: Transaction, task_tag: u8) -> UpiuHeader {
        UpiuHeader {
            transaction,
            flags: 0,
            lun: 0,
            task_tag,
            initiator: 0,
            command_set: 0,
            function: 0,
            response: 0,
            status: 0,
            device_information: 0,
            segment_bytes: 0,
        }
    }

    /// Encodes the header. Panics: an initiator ID or command set type above 15.
    pub fn encode(&self) -> [u8; UpiuHeader::BYTES] {
        assert!(self.initiator < 16 && self.command_set < 16, "initiator and command set share a byte");
        let mut bytes = [0; UpiuHeader::BYTES];
        bytes[TRANSACTION] = self.transaction.byte();
        bytes[FLAGS] = self.flags;
        bytes[LUN] = self.lun;
        bytes[TASK_TAG] = self.task_tag;
        bytes[INITIATOR_AND_SET] = self.initiator << 4 | self.command_set;
        bytes[FUNCTION] = self.function;
        bytes[RESPONSE] = self.response;
        bytes[STATUS] = self.status;
        bytes[DEVICE_INFORMATION] = self.device_information;
        self.segment_bytes.put(&mut bytes, SEGMENT_LENGTH);
        bytes
    }

    /// Decodes a header. Errors: too short; an unknown transaction code, which includes any with the HD or DD bit
    /// (end-to-end CRC) set; extra header segments.
    pub fn decode(bytes: &[u8]) -> Result<UpiuHeader, WireError> {
        let reader = Reader::new(UpiuHeader::FORMAT, bytes, UpiuHeader::BYTES)?;
        let transaction = Transaction::read(&reader, TRANSACTION, "TRANSACTION TYPE", reader.get(TRANSACTION))?;
        reader.expect(EHS_LENGTH, "TOTAL EHS LENGTH", 0u8, "0")?;
        let initiator_and_set: u8 = reader.get(INITIATOR_AND_SET);
        Ok(UpiuHeader {
            transaction,
            flags: reader.get(FLAGS),
            lun: reader.get(LUN),
            task_tag: reader.get(TASK_TAG),
            initiator: initiator_and_set >> 4,
            command_set: initiator_and_set & 0x0f,
            function: reader.get(FUNCTION),
            response: reader.get(RESPONSE),
            status: reader.get(STATUS),
            device_information: reader.get(DEVICE_INFORMATION),
            segment_bytes: reader.get(SEGMENT_LENGTH),
        })
    }

    /// Decodes the header of a UPIU that must have the given transaction code. The reader covers header and fixed part.
    fn open<'a>(
        format: &'static str,
        transaction: Transaction,
        expected: &'static str,
        bytes: &'a [u8],
    ) -> Result<(UpiuHeader, Reader<'a>), WireError> {
        let reader = Reader::new(format, bytes, FIXED_BYTES)?;
        let header = UpiuHeader::decode(bytes)?;
        reader.expect(TRANSACTION, "TRANSACTION TYPE", transaction.byte(), expected)?;
        Ok((header, reader))
    }

    /// Encodes the header, followed by 20 zero bytes.
    fn start(&self) -> [u8; FIXED_BYTES] {
        let mut bytes = [0; FIXED_BYTES];
        self.encode().put(&mut bytes, 0);
        bytes
    }
}

/// Data segment of a complete UPIU, without its padding. Errors: an invalid header, or fewer bytes than it indicates.
pub fn data_segment(bytes: &[u8]) -> Result<&[u8], WireError> {
    let header = UpiuHeader::decode(bytes)?;
    let expected = FIXED_BYTES + usize::from(header.segment_bytes);
    let short = WireError::Short { format: "UPIU with data segment", found: bytes.len(), expected };
    bytes.get(FIXED_BYTES..expected).ok_or(short)
}

/// Assembles a complete UPIU: the fixed part with the data segment length filled in, the data segment, and zero padding
/// to a multiple of four bytes. Panics: more than [`MAX_SEGMENT_BYTES`].
pub fn with_data_segment(mut fixed: [u8; FIXED_BYTES], segment: &[u8]) -> Vec<u8> {
    u16::try_from(segment.len()).expect("a data segment has at most 65535 bytes").put(&mut fixed, SEGMENT_LENGTH);
    let mut bytes = Vec::with_capacity(FIXED_BYTES + segment.len().next_multiple_of(4));
    bytes.extend_from_slice(&fixed);
    bytes.extend_from_slice(segment);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// LUN, task tag and initiator that identify a command; the same in Command and Response UPIU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nexus {
    /// LUN; see [`well_known`].
    pub lun: u8,
    /// Task tag, assigned by the host.
    pub task_tag: u8,
    /// Initiator ID, 0 to 15; 0 if there is one initiator only. The upper half that UFS 4.0 adds is not supported.
    pub initiator: u8,
}

impl Nexus {
    fn of(header: &UpiuHeader) -> Nexus {
        Nexus { lun: header.lun, task_tag: header.task_tag, initiator: header.initiator }
    }

    fn header(self, transaction: Transaction) -> UpiuHeader {
        UpiuHeader { lun: self.lun, initiator: self.initiator, ..UpiuHeader::of(transaction, self.task_tag) }
    }
}

byte_enum! {
    /// Task attribute: order of a command relative to others in the queue.
    pub enum TaskAttribute {
        /// Simple: in any order.
        Simple = 0x00,
        /// Ordered: after all earlier commands and before all later ones.
        Ordered = 0x01,
        /// Head of queue: executed next.
        HeadOfQueue = 0x02,
    }
}

byte_enum! {
    /// Direction of the data transfer: flags W and R.
    pub enum Transfer {
        /// No data.
        None = 0x00,
        /// Write: to the device.
        Write = 0x20,
        /// Read: to the host.
        Read = 0x40,
    }
}

const TRANSFER_BITS: u8 = 0x60;
const PRIORITY: u8 = 0x04;
const ATTRIBUTE_BITS: u8 = 0x03;

/// Command UPIU: a SCSI command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandUpiu {
    /// Task tag, LUN and initiator that identify the command.
    pub nexus: Nexus,
    /// Direction of the data transfer.
    pub transfer: Transfer,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Command priority (flag CP): executed before commands without it.
    pub has_priority: bool,
    /// EXPECTED DATA TRANSFER LENGTH in bytes.
    pub expected_bytes: u32,
    /// CDB, padded with zeroes.
    pub cdb: [u8; CDB_BYTES],
}

impl CommandUpiu {
    /// Size in bytes.
    pub const BYTES: usize = FIXED_BYTES;
    /// Mask of the bits that this format defines.
    pub const MEANT: [u8; FIXED_BYTES] = with_bits(
        mask_of(&[(TRANSACTION, 5), (EHS_LENGTH, 1), (SEGMENT_LENGTH, 2), (EXPECTED_LENGTH, 4), (CDB, CDB_BYTES)]),
        FLAGS,
        TRANSFER_BITS | PRIORITY | ATTRIBUTE_BITS,
    );

    /// Encodes the UPIU. Panics: an initiator ID above 15.
    pub fn encode(&self) -> [u8; CommandUpiu::BYTES] {
        let priority = if self.has_priority { PRIORITY } else { 0 };
        let flags = self.transfer.byte() | priority | self.attribute.byte();
        let mut bytes = UpiuHeader { flags, ..self.nexus.header(Transaction::Command) }.start();
        self.expected_bytes.put(&mut bytes, EXPECTED_LENGTH);
        self.cdb.put(&mut bytes, CDB);
        bytes
    }

    /// Decodes a UPIU. Errors: not a Command UPIU, a command set other than SCSI, both directions, a task attribute
    /// that UFS does not use, a data segment.
    pub fn decode(bytes: &[u8]) -> Result<CommandUpiu, WireError> {
        let (header, reader) = UpiuHeader::open("Command UPIU", Transaction::Command, "0x01", bytes)?;
        reader.expect_clear(INITIATOR_AND_SET, "COMMAND SET TYPE", 0x0f)?;
        reader.expect(SEGMENT_LENGTH, "DATA SEGMENT LENGTH", 0u16, "0")?;
        Ok(CommandUpiu {
            nexus: Nexus::of(&header),
            transfer: Transfer::read(&reader, FLAGS, "FLAGS R and W", header.flags & TRANSFER_BITS)?,
            attribute: TaskAttribute::read(&reader, FLAGS, "FLAGS ATTR", header.flags & ATTRIBUTE_BITS)?,
            has_priority: reader.bit(FLAGS, PRIORITY),
            expected_bytes: reader.get(EXPECTED_LENGTH),
            cdb: reader.get(CDB),
        })
    }
}

byte_enum! {
    /// SCSI status of a command (SAM-5).
    pub enum ScsiStatus {
        /// GOOD: completed successfully.
        Good = 0x00,
        /// CHECK CONDITION: the sense data describe the error.
        CheckCondition = 0x02,
        /// CONDITION MET: completed, and the condition holds; UFS has no such command.
        ConditionMet = 0x04,
        /// BUSY: the command cannot be accepted now.
        Busy = 0x08,
        /// RESERVATION CONFLICT: another initiator holds a reservation.
        ReservationConflict = 0x18,
        /// TASK SET FULL: the queue is full.
        TaskSetFull = 0x28,
        /// ACA ACTIVE: not used in UFS.
        AcaActive = 0x30,
        /// TASK ABORTED: aborted by another initiator.
        TaskAborted = 0x40,
    }
}

const OVERFLOW: u8 = 0x40;
const UNDERFLOW: u8 = 0x20;
const DATA_OUT_MISMATCH: u8 = 0x10;
const EVENT_ALERT: u8 = 0x01;
const HPB_UPDATE_ALERT: u8 = 0x02;

/// Response UPIU: completion of a SCSI command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseUpiu {
    /// Task tag, LUN and initiator that identify the command.
    pub nexus: Nexus,
    /// Whether the response code is Target Success (00h); otherwise it is Target Failure (01h).
    pub succeeded: bool,
    /// SCSI status of the command.
    pub status: ScsiStatus,
    /// Overflow (flag O): more data than expected; `residual_bytes` of them were not transferred.
    pub overflow: bool,
    /// Underflow (flag U): `residual_bytes` fewer bytes than expected.
    pub underflow: bool,
    /// Data out mismatch (flag D): the data received are not those that were requested.
    pub data_out_mismatch: bool,
    /// EVENT_ALERT, bit 0 of device information: an exception event is pending in wExceptionEventStatus.
    pub event_alert: bool,
    /// HPB_UPDATE_ALERT, bit 1 of device information: the data segment holds an HPB recommendation.
    pub hpb_update_alert: bool,
    /// RESIDUAL TRANSFER COUNT: difference between expected and transferred bytes.
    pub residual_bytes: u32,
    /// Data segment length in bytes: sense data, an HPB recommendation, or none.
    pub segment_bytes: u16,
}

impl ResponseUpiu {
    /// Size in bytes, without the data segment.
    pub const BYTES: usize = FIXED_BYTES;
    /// Mask of the bits that this format defines.
    pub const MEANT: [u8; FIXED_BYTES] = with_bits(
        with_bits(
            mask_of(&[(TRANSACTION, 5), (RESPONSE, 3), (SEGMENT_LENGTH, 2), (RESIDUAL_COUNT, 4)]),
            FLAGS,
            OVERFLOW | UNDERFLOW | DATA_OUT_MISMATCH,
        ),
        DEVICE_INFORMATION,
        EVENT_ALERT | HPB_UPDATE_ALERT,
    );

    /// Response to a command that transferred the expected data and completed with status GOOD.
    pub fn good(nexus: Nexus) -> ResponseUpiu {
        ResponseUpiu {
            nexus,
            succeeded: true,
            status: ScsiStatus::Good,
            overflow: false,
            underflow: false,
            data_out_mismatch: false,
            event_alert: false,
            hpb_update_alert: false,
            residual_bytes: 0,
            segment_bytes: 0,
        }
    }

    /// Encodes the UPIU without its data segment. Panics: an initiator ID above 15.
    pub fn encode(&self) -> [u8; ResponseUpiu::BYTES] {
        let bit = |set, bit| if set { bit } else { 0 };
        let header = UpiuHeader {
            flags: bit(self.overflow, OVERFLOW)
                | bit(self.underflow, UNDERFLOW)
                | bit(self.data_out_mismatch, DATA_OUT_MISMATCH),
            response: bit(!self.succeeded, 1),
            status: self.status.byte(),
            device_information: bit(self.event_alert, EVENT_ALERT) | bit(self.hpb_update_alert, HPB_UPDATE_ALERT),
            segment_bytes: self.segment_bytes,
            ..self.nexus.header(Transaction::Response)
        };
        let mut bytes = header.start();
        self.residual_bytes.put(&mut bytes, RESIDUAL_COUNT);
        bytes
    }

    /// Decodes a UPIU. Errors: not a Response UPIU, a command set other than SCSI, an unknown response code or status.
    pub fn decode(bytes: &[u8]) -> Result<ResponseUpiu, WireError> {
        let (header, reader) = UpiuHeader::open("Response UPIU", Transaction::Response, "0x21", bytes)?;
        reader.expect_clear(INITIATOR_AND_SET, "COMMAND SET TYPE", 0x0f)?;
        if header.response > 1 {
            return reader.refuse(RESPONSE, "RESPONSE", header.response.into(), "0 or 1");
        }
        Ok(ResponseUpiu {
            nexus: Nexus::of(&header),
            succeeded: header.response == 0,
            status: ScsiStatus::read(&reader, STATUS, "STATUS", header.status)?,
            overflow: reader.bit(FLAGS, OVERFLOW),
            underflow: reader.bit(FLAGS, UNDERFLOW),
            data_out_mismatch: reader.bit(FLAGS, DATA_OUT_MISMATCH),
            event_alert: reader.bit(DEVICE_INFORMATION, EVENT_ALERT),
            hpb_update_alert: reader.bit(DEVICE_INFORMATION, HPB_UPDATE_ALERT),
            residual_bytes: reader.get(RESIDUAL_COUNT),
            segment_bytes: header.segment_bytes,
        })
    }
}

/// Parameters of a query, repeated in its response. Parameters that an operation does not use are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Operation.
    pub opcode: QueryOpcode,
    /// Identifier (IDN) of the descriptor, flag or attribute. Unknown ones are answered with [`QueryCode::InvalidIdn`].
    pub idn: u8,
    /// Index of the logical unit or part; 0 for the device.
    pub index: u8,
    /// Selector, which further distinguishes parameters.
    pub selector: u8,
    /// Length of the descriptor to read or write, in bytes; in a response, the length transferred.
    pub length_bytes: u16,
    /// Value of an attribute, in its low bytes, or of a flag, in bit 0. The 8-byte values of UFS 4.0 are not supported.
    pub value: u32,
}

impl Query {
    fn put(&self, bytes: &mut [u8]) {
        bytes[OPCODE] = self.opcode.byte();
        bytes[IDN] = self.idn;
        bytes[INDEX] = self.index;
        bytes[SELECTOR] = self.selector;
        self.length_bytes.put(bytes, LENGTH);
        self.value.put(bytes, VALUE);
    }

    fn get(reader: &Reader<'_>, header: &UpiuHeader) -> Result<Query, WireError> {
        let opcode = QueryOpcode::read(reader, OPCODE, "OPCODE", reader.get(OPCODE))?;
        if header.function != opcode.function() {
            let expected = if opcode.function() == 0x01 { "0x01: the opcode reads" } else { "0x81: the opcode writes" };
            return reader.refuse(FUNCTION, "QUERY FUNCTION", header.function.into(), expected);
        }
        Ok(Query {
            opcode,
            idn: reader.get(IDN),
            index: reader.get(INDEX),
            selector: reader.get(SELECTOR),
            length_bytes: reader.get(LENGTH),
            value: reader.get(VALUE),
        })
    }

    /// Value of the flag.
    pub const fn flag(&self) -> bool {
        self.value & 1 == 1
    }
}

const QUERY_MEANT: [u8; FIXED_BYTES] = mask_of(&[
    (TRANSACTION, 1),
    (TASK_TAG, 1),
    (FUNCTION, 1),
    (EHS_LENGTH, 1),
    (SEGMENT_LENGTH, 2),
    (OPCODE, 4),
    (LENGTH, 2),
    (VALUE, 4),
]);

/// Query Request UPIU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryRequest {
    /// Task tag, assigned by the host.
    pub task_tag: u8,
    /// Parameters of the query.
    pub query: Query,
    /// Data segment length in bytes: a descriptor to write, or none.
    pub segment_bytes: u16,
}

impl QueryRequest {
    /// Size in bytes, without the data segment.
    pub const BYTES: usize = FIXED_BYTES;
    /// Mask of the bits that this format defines.
    pub const MEANT: [u8; FIXED_BYTES] = QUERY_MEANT;

    /// Encodes the UPIU without its data segment.
    pub fn encode(&self) -> [u8; QueryRequest::BYTES] {
        let header = UpiuHeader {
            function: self.query.opcode.function(),
            segment_bytes: self.segment_bytes,
            ..UpiuHeader::of(Transaction::QueryRequest, self.task_tag)
        };
        let mut bytes = header.start();
        self.query.put(&mut bytes);
        bytes
    }

    /// Decodes a UPIU. Errors: not a Query Request UPIU, an unknown opcode, a query function that does not match it.
    pub fn decode(bytes: &[u8]) -> Result<QueryRequest, WireError> {
        let (header, reader) = UpiuHeader::open("Query Request UPIU", Transaction::QueryRequest, "0x16", bytes)?;
        let query = Query::get(&reader, &header)?;
        Ok(QueryRequest { task_tag: header.task_tag, query, segment_bytes: header.segment_bytes })
    }
}

/// Query Response UPIU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryResponse {
    /// Task tag of the request.
    pub task_tag: u8,
    /// Result of the query.
    pub code: QueryCode,
    /// Parameters of the request, with the resulting value and length.
    pub query: Query,
    /// Data segment length in bytes: the descriptor read, or none.
    pub segment_bytes: u16,
}

impl QueryResponse {
    /// Size in bytes, without the data segment.
    pub const BYTES: usize = FIXED_BYTES;
    /// Mask of the bits that this format defines.
    pub const MEANT: [u8; FIXED_BYTES] = with_bits(QUERY_MEANT, RESPONSE, 0xff);

    /// Encodes the UPIU without its data segment.
    pub fn encode(&self) -> [u8; QueryResponse::BYTES] {
        let header = UpiuHeader {
            function: self.query.opcode.function(),
            response: self.code.byte(),
            segment_bytes: self.segment_bytes,
            ..UpiuHeader::of(Transaction::QueryResponse, self.task_tag)
        };
        let mut bytes = header.start();
        self.query.put(&mut bytes);
        bytes
    }

    /// Decodes a UPIU. Errors: not a Query Response UPIU, an unknown opcode or response code, a query function that
    /// does not match the opcode.
    pub fn decode(bytes: &[u8]) -> Result<QueryResponse, WireError> {
        let (header, reader) = UpiuHeader::open("Query Response UPIU", Transaction::QueryResponse, "0x36", bytes)?;
        let code = QueryCode::read(&reader, RESPONSE, "QUERY RESPONSE", header.response)?;
        let query = Query::get(&reader, &header)?;
        Ok(QueryResponse { task_tag: header.task_tag, code, query, segment_bytes: header.segment_bytes })
    }
}
