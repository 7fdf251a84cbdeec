//! Sense data in the data segment of a Response UPIU: its length, then 18 bytes in fixed format.
//!
//! Source: JESD220 10.7.2 and SPC-4 4.5.3 (fixed format, response code 70h).

use super::wire::{Field, Reader, WireError, byte_enum, fills, mask_of, with_bits};

byte_enum! {
    /// SENSE KEY: the kind of error or exception.
    pub enum SenseKey {
        /// NO SENSE: no specific error.
        NoSense = 0x00,
        /// RECOVERED ERROR: completed, with recovery action.
        RecoveredError = 0x01,
        /// NOT READY: the logical unit cannot be accessed.
        NotReady = 0x02,
        /// MEDIUM ERROR: unrecovered error of the medium.
        MediumError = 0x03,
        /// HARDWARE ERROR: unrecovered failure of the device.
        HardwareError = 0x04,
        /// ILLEGAL REQUEST: invalid parameter in the CDB or the parameter data.
        IllegalRequest = 0x05,
        /// UNIT ATTENTION: the device was reset, or its parameters changed.
        UnitAttention = 0x06,
        /// DATA PROTECT: the block is protected.
        DataProtect = 0x07,
        /// BLANK CHECK: unexpected blank or non-blank medium.
        BlankCheck = 0x08,
        /// VENDOR SPECIFIC.
        VendorSpecific = 0x09,
        /// ABORTED COMMAND: the device aborted the command.
        AbortedCommand = 0x0b,
        /// MISCOMPARE: the source data differ from the data on the medium.
        Miscompare = 0x0e,
    }
}

/// Sense data of a command that ended with CHECK CONDITION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// Sense key.
    pub key: SenseKey,
    /// Additional sense code (ASC).
    pub asc: u8,
    /// Additional sense code qualifier (ASCQ).
    pub ascq: u8,
}

const LENGTH: usize = 0;
const RESPONSE_CODE: usize = 2;
const KEY: usize = 4;
const ADDITIONAL_LENGTH: usize = 9;
const ASC: usize = 14;
const ASCQ: usize = 15;

/// SENSE DATA LENGTH: size of the sense data in bytes.
const SENSE_BYTES: u16 = 18;
/// RESPONSE CODE: current error, fixed format. Bit 7 of the same byte is VALID, for the information field.
const FIXED_FORMAT: u8 = 0x70;

impl Sense {
    /// Size of the data segment in bytes.
    pub const BYTES: usize = 20;
    /// Mask of the bits that this format defines.
    pub const MEANT: [u8; Sense::BYTES] =
        with_bits(with_bits(mask_of(&[(LENGTH, 2), (ADDITIONAL_LENGTH, 1), (ASC, 2)]), RESPONSE_CODE, 0x7f), KEY, 0x0f);
    /// INVALID FIELD IN CDB: a device's answer to a CDB that a decoder rejects.
    pub const INVALID_FIELD_IN_CDB: Sense = Sense { key: SenseKey::IllegalRequest, asc: 0x24, ascq: 0 };
    /// INVALID COMMAND OPERATION CODE: the command is not supported.
    pub const INVALID_OPERATION_CODE: Sense = Sense { key: SenseKey::IllegalRequest, asc: 0x20, ascq: 0 };
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE: beyond the last logical block.
    pub const LBA_OUT_OF_RANGE: Sense = Sense { key: SenseKey::IllegalRequest, asc: 0x21, ascq: 0 };

    /// Encodes the data segment.
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

    /// Decodes a data segment. Errors: too short, another length or format, an unknown sense key.
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
