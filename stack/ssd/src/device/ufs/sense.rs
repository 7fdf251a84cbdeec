//! Sense data as a Response UPIU carries it: its length, then 18 bytes in fixed format.
//!
//! Source: JESD220 10.7.2 and SPC-4 4.5.3 (fixed format, response code 70h).

use super::wire::{Field, Reader, WireError, byte_enum, fills, mask_of, with_bits};

byte_enum! {
    /// What kind of failure it is.
    pub enum SenseKey {
        /// None.
        NoSense = 0x00,
        /// Done, with some recovery.
        RecoveredError = 0x01,
        /// Not now.
        NotReady = 0x02,
        /// The medium failed.
        MediumError = 0x03,
        /// The device failed.
        HardwareError = 0x04,
        /// The command was wrong.
        IllegalRequest = 0x05,
        /// The device was reset, or its parameters changed.
        UnitAttention = 0x06,
        /// Protected.
        DataProtect = 0x07,
        /// Blank.
        BlankCheck = 0x08,
        /// The vendor's.
        VendorSpecific = 0x09,
        /// The device gave the command up.
        AbortedCommand = 0x0b,
        /// What was compared differs.
        Miscompare = 0x0e,
    }
}

/// Sense data of a command that ended with CHECK CONDITION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// The kind.
    pub key: SenseKey,
    /// Additional sense code.
    pub asc: u8,
    /// Its qualifier.
    pub ascq: u8,
}

const LENGTH: usize = 0;
const RESPONSE_CODE: usize = 2;
const KEY: usize = 4;
const ADDITIONAL_LENGTH: usize = 9;
const ASC: usize = 14;
const ASCQ: usize = 15;

/// Bytes of the sense data themselves.
const SENSE_BYTES: u16 = 18;
/// Current error, fixed format; bit 7 of its byte says whether the information field is valid.
const FIXED_FORMAT: u8 = 0x70;

impl Sense {
    /// Size of the data segment.
    pub const BYTES: usize = 20;
    /// What of it means something here.
    pub const MEANT: [u8; Sense::BYTES] =
        with_bits(with_bits(mask_of(&[(LENGTH, 2), (ADDITIONAL_LENGTH, 1), (ASC, 2)]), RESPONSE_CODE, 0x7f), KEY, 0x0f);
    /// A field of the CDB is wrong: what a device answers to what a decoder here refuses.
    pub const INVALID_FIELD_IN_CDB: Sense = Sense { key: SenseKey::IllegalRequest, asc: 0x24, ascq: 0 };
    /// There is no such command.
    pub const INVALID_OPERATION_CODE: Sense = Sense { key: SenseKey::IllegalRequest, asc: 0x20, ascq: 0 };
    /// Beyond the last block.
    pub const LBA_OUT_OF_RANGE: Sense = Sense { key: SenseKey::IllegalRequest, asc: 0x21, ascq: 0 };

    /// The data segment.
    pub fn encode(&self) -> [u8; Sense::BYTES] {
        let mut bytes = [0; Sense::BYTES];
        SENSE_BYTES.put(&mut bytes, LENGTH);
        bytes[RESPONSE_CODE] = FIXED_FORMAT;
        bytes[KEY] = self.key.byte();
        bytes[ADDITIONAL_LENGTH] = 10;
        bytes[ASC] = self.asc;
        bytes[ASCQ] = self.ascq;
        bytes
    }

    /// From a data segment. Errors: too short, another length or format, an unknown key.
    pub fn decode(bytes: &[u8]) -> Result<Sense, WireError> {
        let reader = Reader::new("sense data", bytes, Sense::BYTES)?;
        reader.expect(LENGTH, "SENSE DATA LENGTH", SENSE_BYTES, "18")?;
        let code: u8 = reader.get(RESPONSE_CODE);
        if code & 0x7f != FIXED_FORMAT {
            return reader.refuse(RESPONSE_CODE, "RESPONSE CODE", code.into(), "0x70");
        }
        reader.expect(ADDITIONAL_LENGTH, "ADDITIONAL SENSE LENGTH", 10u8, "10")?;
        Ok(Sense {
            key: SenseKey::read(&reader, KEY, "SENSE KEY", reader.get::<u8>(KEY) & 0x0f)?,
            asc: reader.get(ASC),
            ascq: reader.get(ASCQ),
        })
    }
}

const _: () = assert!(Sense::BYTES == 2 + SENSE_BYTES as usize);
const _: () = assert!(fills(
    &[(LENGTH, 2), (RESPONSE_CODE, 1), (KEY, 1), (ADDITIONAL_LENGTH, 1), (ASC, 1), (ASCQ, 1), (16, 4)],
    Sense::BYTES
));
