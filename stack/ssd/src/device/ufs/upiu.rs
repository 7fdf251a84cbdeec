//! UFS Protocol Information Units: a header of 12 bytes, 20 bytes that differ by transaction, and for some a data
//! segment.
//!
//! ```text
//! 0 HD DD transaction code   1 flags               2 LUN         3 task tag
//! 4 IID | command set        5 query function      6 response    7 status
//! 8 total EHS length         9 device information  10 data segment length
//! ```
//!
//! Sources: JESD220 10.6.2 (header, flags, padding of the data segment), 10.7.1 Command, 10.7.2 Response, 10.7.8 Query
//! Request, 10.7.9 Query Response. Extra header segments are refused: Advanced RPMB alone has them. That a query has
//! neither LUN nor initiator is recalled.

use super::query::{QueryCode, QueryOpcode};
use super::wire::{Field, Reader, WireError, byte_enum, fills, mask_of, with_bits};

byte_enum! {
    /// What a UPIU is. Bit 5 is set on those that come from the device.
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

/// Well-known logical units, as the LUN field of a UPIU names them: bit 7 says that it is one.
pub mod well_known {
    /// REPORT LUNS.
    pub const REPORT_LUNS: u8 = 0x81;
    /// Boot.
    pub const BOOT: u8 = 0xb0;
    /// RPMB.
    pub const RPMB: u8 = 0xc4;
    /// The device itself.
    pub const DEVICE: u8 = 0xd0;
}

/// Size of header and transaction-specific fields together; a data segment begins behind them.
pub const FIXED_BYTES: usize = 32;
/// The largest data segment.
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

/// The header of every UPIU. Which fields count depends on the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpiuHeader {
    /// What the UPIU is.
    pub transaction: Transaction,
    /// Flags.
    pub flags: u8,
    /// Logical unit.
    pub lun: u8,
    /// The host's number of the task.
    pub task_tag: u8,
    /// Initiator, 0 to 15.
    pub initiator: u8,
    /// Command set, 0 to 15; 0 is SCSI.
    pub command_set: u8,
    /// Query or task-management function.
    pub function: u8,
    /// Response.
    pub response: u8,
    /// SCSI status.
    pub status: u8,
    /// Device information.
    pub device_information: u8,
    /// Bytes of the data segment without its padding.
    pub segment_bytes: u16,
}

impl UpiuHeader {
    /// Size of the header.
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

    /// As it goes over the link. Panics: an initiator or a command set beyond 15.
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

    /// Errors: too short; an unknown transaction code, as every one is with a bit for end-to-end checksums; extra
    /// header segments.
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

    /// Header and fixed part of a UPIU that must be of one transaction.
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

    /// Puts the header in front of 20 zeroes.
    fn start(&self) -> [u8; FIXED_BYTES] {
        let mut bytes = [0; FIXED_BYTES];
        self.encode().put(&mut bytes, 0);
        bytes
    }
}

/// The data segment of a whole UPIU, without its padding. Errors: a bad header, or less data than it says.
pub fn data_segment(bytes: &[u8]) -> Result<&[u8], WireError> {
    let header = UpiuHeader::decode(bytes)?;
    let expected = FIXED_BYTES + usize::from(header.segment_bytes);
    let short = WireError::Short { format: "UPIU with data segment", found: bytes.len(), expected };
    bytes.get(FIXED_BYTES..expected).ok_or(short)
}

/// A whole UPIU: the fixed part with the length put in, the data segment, zeroes up to a multiple of four bytes.
/// Panics: more than [`MAX_SEGMENT_BYTES`].
pub fn with_data_segment(mut fixed: [u8; FIXED_BYTES], segment: &[u8]) -> Vec<u8> {
    u16::try_from(segment.len()).expect("a data segment has at most 65535 bytes").put(&mut fixed, SEGMENT_LENGTH);
    let mut bytes = Vec::with_capacity(FIXED_BYTES + segment.len().next_multiple_of(4));
    bytes.extend_from_slice(&fixed);
    bytes.extend_from_slice(segment);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Which command it is: unit, tag and initiator, the same in Command and Response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nexus {
    /// Logical unit; see [`well_known`].
    pub lun: u8,
    /// The host's number of the task.
    pub task_tag: u8,
    /// Initiator, 0 to 15; 0 where there is one. The upper half that UFS 4.0 adds is not carried.
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
    /// How a command stands to others in the queue.
    pub enum TaskAttribute {
        /// In any order.
        Simple = 0x00,
        /// After all before it, before all after it.
        Ordered = 0x01,
        /// Next.
        HeadOfQueue = 0x02,
    }
}

byte_enum! {
    /// Which way data go: the flags W and R.
    pub enum Transfer {
        /// None.
        None = 0x00,
        /// To the device.
        Write = 0x20,
        /// To the host.
        Read = 0x40,
    }
}

const TRANSFER_BITS: u8 = 0x60;
const PRIORITY: u8 = 0x04;
const ATTRIBUTE_BITS: u8 = 0x03;

/// A command on its way to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandUpiu {
    /// Which one.
    pub nexus: Nexus,
    /// Which way data go.
    pub transfer: Transfer,
    /// Order.
    pub attribute: TaskAttribute,
    /// Before commands without (flag CP).
    pub has_priority: bool,
    /// Bytes that the host expects to send or get.
    pub expected_bytes: u32,
    /// The CDB, filled up with zeroes.
    pub cdb: [u8; CDB_BYTES],
}

impl CommandUpiu {
    /// Size.
    pub const BYTES: usize = FIXED_BYTES;
    /// What of it means something.
    pub const MEANT: [u8; FIXED_BYTES] = with_bits(
        mask_of(&[(TRANSACTION, 5), (EHS_LENGTH, 1), (SEGMENT_LENGTH, 2), (EXPECTED_LENGTH, 4), (CDB, CDB_BYTES)]),
        FLAGS,
        TRANSFER_BITS | PRIORITY | ATTRIBUTE_BITS,
    );

    /// As it goes over the link. Panics: an initiator beyond 15.
    pub fn encode(&self) -> [u8; CommandUpiu::BYTES] {
        let priority = if self.has_priority { PRIORITY } else { 0 };
        let flags = self.transfer.byte() | priority | self.attribute.byte();
        let mut bytes = UpiuHeader { flags, ..self.nexus.header(Transaction::Command) }.start();
        self.expected_bytes.put(&mut bytes, EXPECTED_LENGTH);
        self.cdb.put(&mut bytes, CDB);
        bytes
    }

    /// Errors: no command UPIU, another command set than SCSI, data both ways, an attribute that UFS does not use, a
    /// data segment.
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
    /// How a SCSI command ended (SAM-5).
    pub enum ScsiStatus {
        /// Done.
        Good = 0x00,
        /// Failed; sense data say how.
        CheckCondition = 0x02,
        /// Done, the condition holds; UFS has no such command.
        ConditionMet = 0x04,
        /// Not now.
        Busy = 0x08,
        /// Reserved by another.
        ReservationConflict = 0x18,
        /// The queue is full.
        TaskSetFull = 0x28,
        /// Not used in UFS.
        AcaActive = 0x30,
        /// Another initiator aborted it.
        TaskAborted = 0x40,
    }
}

const OVERFLOW: u8 = 0x40;
const UNDERFLOW: u8 = 0x20;
const DATA_OUT_MISMATCH: u8 = 0x10;
const EVENT_ALERT: u8 = 0x01;
const HPB_UPDATE_ALERT: u8 = 0x02;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseUpiu {
    /// Which one.
    pub nexus: Nexus,
    /// Whether the target did what it was asked (response 00h; 01h otherwise).
    pub succeeded: bool,
    /// How the SCSI command ended.
    pub status: ScsiStatus,
    /// More data than expected (flag O); `residual_bytes` of them did not go.
    pub overflow: bool,
    /// Fewer data than expected (flag U), by `residual_bytes`.
    pub underflow: bool,
    /// The data that came are not those that were asked for (flag D).
    pub data_out_mismatch: bool,
    /// Device information, bit 0: an exception event waits in wExceptionEventStatus.
    pub event_alert: bool,
    /// Device information, bit 1: the data segment holds an HPB recommendation.
    pub hpb_update_alert: bool,
    /// Difference between expected and transferred bytes.
    pub residual_bytes: u32,
    /// Bytes of the data segment: sense data, an HPB recommendation, or none.
    pub segment_bytes: u16,
}

impl ResponseUpiu {
    /// Size without data segment.
    pub const BYTES: usize = FIXED_BYTES;
    /// What of it means something.
    pub const MEANT: [u8; FIXED_BYTES] = with_bits(
        with_bits(
            mask_of(&[(TRANSACTION, 5), (RESPONSE, 3), (SEGMENT_LENGTH, 2), (RESIDUAL_COUNT, 4)]),
            FLAGS,
            OVERFLOW | UNDERFLOW | DATA_OUT_MISMATCH,
        ),
        DEVICE_INFORMATION,
        EVENT_ALERT | HPB_UPDATE_ALERT,
    );

    /// A command that did what it was asked.
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

    /// As it goes over the link; the data segment follows. Panics: an initiator beyond 15.
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

    /// Errors: no response UPIU, another command set than SCSI, an unknown response or status.
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

/// What a query asks and its answer repeats. What an operation does not use is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// What is done.
    pub opcode: QueryOpcode,
    /// To which descriptor, flag or attribute. A device answers [`QueryCode::InvalidIdn`] to one that it does not know.
    pub idn: u8,
    /// Of which unit, or which part; 0 of the device.
    pub index: u8,
    /// Further choice.
    pub selector: u8,
    /// Bytes of a descriptor to read or write; in a response, how many came.
    pub length_bytes: u16,
    /// The attribute's value, in as many low bytes as it has; a flag's in the lowest bit. The eight bytes that UFS 4.0
    /// knows are not carried.
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

    /// The value as a flag.
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

/// A query on its way to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryRequest {
    /// The host's number of the task.
    pub task_tag: u8,
    /// What is asked.
    pub query: Query,
    /// Bytes of the data segment: a descriptor to be written, or none.
    pub segment_bytes: u16,
}

impl QueryRequest {
    /// Size without data segment.
    pub const BYTES: usize = FIXED_BYTES;
    /// What of it means something.
    pub const MEANT: [u8; FIXED_BYTES] = QUERY_MEANT;

    /// As it goes over the link; the data segment follows.
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

    /// Errors: no query request, an unknown opcode, a function that does not go with it.
    pub fn decode(bytes: &[u8]) -> Result<QueryRequest, WireError> {
        let (header, reader) = UpiuHeader::open("Query Request UPIU", Transaction::QueryRequest, "0x16", bytes)?;
        let query = Query::get(&reader, &header)?;
        Ok(QueryRequest { task_tag: header.task_tag, query, segment_bytes: header.segment_bytes })
    }
}

/// The answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryResponse {
    /// The host's number of the task.
    pub task_tag: u8,
    /// How it ended.
    pub code: QueryCode,
    /// What was asked, with value and length as they are now.
    pub query: Query,
    /// Bytes of the data segment: a descriptor that was read, or none.
    pub segment_bytes: u16,
}

impl QueryResponse {
    /// Size without data segment.
    pub const BYTES: usize = FIXED_BYTES;
    /// What of it means something.
    pub const MEANT: [u8; FIXED_BYTES] = with_bits(QUERY_MEANT, RESPONSE, 0xff);

    /// As it goes over the link; the data segment follows.
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

    /// Errors: no query response, an unknown opcode or code, a function that does not go with the opcode.
    pub fn decode(bytes: &[u8]) -> Result<QueryResponse, WireError> {
        let (header, reader) = UpiuHeader::open("Query Response UPIU", Transaction::QueryResponse, "0x36", bytes)?;
        let code = QueryCode::read(&reader, RESPONSE, "QUERY RESPONSE", header.response)?;
        let query = Query::get(&reader, &header)?;
        Ok(QueryResponse { task_tag: header.task_tag, code, query, segment_bytes: header.segment_bytes })
    }
}
