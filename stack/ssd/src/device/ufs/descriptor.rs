//! Device, geometry and unit descriptors.
//!
//! Source: JESD220 (3.1) 14.1.4.2, 14.1.4.4 and 14.1.4.5, and JESD220-3 for the HPB fields; every offset is in Linux
//! 6.1 `include/ufs/ufs.h` or in Fuchsia's table of the same descriptors. The comment of a field starts with its name
//! there, whose prefix is its type: b is one byte, w two, d four, q eight, i the index of a string. The comment is also
//! the text of the field's [`Note`].
//!
//! A descriptor may be longer than the structure here, because later versions append fields. A shorter one is rejected.

use super::query::DescriptorIdn;
use super::wire::{Field, Note, Reader, WireError, byte_enum, fills, mask_of};

/// Offset of bLength, the size of the descriptor.
const LENGTH: usize = 0;
/// Offset of bDescriptorIDN, the identifier of the descriptor.
const IDN: usize = 1;

/// Defines a descriptor by the table of its fields: offset, name, type.
macro_rules! descriptor {
    (
        $(#[$doc:meta])*
        $name:ident, $format:literal, $idn:expr, $bytes:literal:
        $(#[doc = $note:literal] $at:literal $field:ident: $type:ty,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = $note] pub $field: $type,)+
        }

        impl $name {
            /// Size in bytes: written as bLength, and the minimum accepted when decoding.
            pub const BYTES: usize = $bytes;
            /// Mask of the bits that this format defines.
            pub const MEANT: [u8; $name::BYTES] = mask_of(&$name::FIELDS);
            const FIELDS: [(usize, usize); 2 + [$($at),+].len()] =
                [(LENGTH, 1), (IDN, 1), $(($at, <$type as Field>::BYTES)),+];
            /// Notes on its fields, in order, for output to the user.
            pub const NOTES: [Note; 2 + [$($at),+].len()] = [
                Note { at: LENGTH, bytes: 1, text: "bLength: of all this, in bytes." },
                Note { at: IDN, bytes: 1, text: "bDescriptorIDN: which descriptor it is." },
                $(Note { at: $at, bytes: <$type as Field>::BYTES, text: $note }),+
            ];

            /// Encodes the descriptor as a query returns it.
            pub fn encode(&self) -> [u8; $name::BYTES] {
                let mut bytes = [0; $name::BYTES];
                bytes[LENGTH] = $name::BYTES as u8;
                bytes[IDN] = $idn.byte();
                $(self.$field.put(&mut bytes, $at);)+
                bytes
            }

            /// Decodes a descriptor. Errors: too short, by the number of bytes or by bLength; another bDescriptorIDN.
            pub fn decode(bytes: &[u8]) -> Result<$name, WireError> {
                let reader = Reader::new($format, bytes, $name::BYTES)?;
                let length: u8 = reader.get(LENGTH);
                if usize::from(length) < $name::BYTES {
                    return reader.refuse(LENGTH, "bLength", length.into(), concat!("at least ", $bytes));
                }
                reader.expect(IDN, "bDescriptorIDN", $idn.byte(), concat!("that of a ", $format))?;
                Ok($name { $($field: reader.get($at),)+ })
            }
        }

        const _: () = assert!(fills(&$name::FIELDS, $name::BYTES) && $name::BYTES <= u8::MAX as usize);
    };
}

byte_enum! {
    /// HPB control mode (bHPBControl): who decides which regions are active.
    pub enum HpbControl {
        /// Host control mode.
        Host = 0x00,
        /// Device control mode, by recommendations.
        Device = 0x01,
    }
}

byte_enum! {
    /// State of a logical unit (bLUEnable).
    pub enum LuEnable {
        /// The logical unit is disabled.
        Disabled = 0x00,
        /// The logical unit is enabled.
        Enabled = 0x01,
        /// The logical unit is enabled, with HPB.
        EnabledWithHpb = 0x02,
    }
}

byte_enum! {
    /// Type of the WriteBooster buffer (bWriteBoosterBufferType).
    pub enum WriteBoosterType {
        /// Dedicated to one logical unit.
        Dedicated = 0x00,
        /// Shared by all logical units.
        Shared = 0x01,
    }
}

descriptor! {
    /// Device descriptor.
    DeviceDescriptor, "device descriptor", DescriptorIdn::Device, 0x59:
    /// bDevice: 00h.
    0x02 device: u8,
    /// bDeviceClass: 00h mass storage.
    0x03 device_class: u8,
    /// bDeviceSubClass: bit 0 not bootable, bit 1 removable, bit 2 without RPMB (recalled).
    0x04 device_sub_class: u8,
    /// bProtocol: 00h SCSI.
    0x05 protocol: u8,
    /// bNumberLU: logical units, without the well-known ones.
    0x06 lus: u8,
    /// bNumberWLU: well-known logical units.
    0x07 well_known_lus: u8,
    /// bBootEnable.
    0x08 boot_enable: u8,
    /// bDescrAccessEn.
    0x09 descriptor_access: u8,
    /// bInitPowerMode.
    0x0a initial_power_mode: u8,
    /// bHighPriorityLUN: 7Fh, all the same.
    0x0b high_priority_lun: u8,
    /// bSecureRemovalType.
    0x0c secure_removal_type: u8,
    /// bSecurityLU: 01h RPMB.
    0x0d security_lu: u8,
    /// bBackgroundOpsTermLat: the longest time to end background work, in units of 10 ms.
    0x0e background_end_10_ms: u8,
    /// bInitActiveICCLevel.
    0x0f initial_current_level: u8,
    /// wSpecVersion: 0310h is 3.1. A host tries HPB from there on.
    0x10 spec_version: u16,
    /// wManufactureDate: month and year, BCD.
    0x12 manufacture_date: u16,
    /// iManufacturerName.
    0x14 manufacturer_name: u8,
    /// iProductName.
    0x15 product_name: u8,
    /// iSerialNumber.
    0x16 serial_number: u8,
    /// iOemID.
    0x17 oem_id: u8,
    /// wManufacturerID.
    0x18 manufacturer_id: u16,
    /// bUD0BaseOffset: where in a configuration descriptor the first unit stands.
    0x1a unit_config_offset: u8,
    /// bUDConfigPLength: bytes of a unit there.
    0x1b unit_config_bytes: u8,
    /// bDeviceRTTCap: transfers that the device can ask for at a time.
    0x1c ready_to_transfer_limit: u8,
    /// wPeriodicRTCUpdate.
    0x1d clock_update: u16,
    /// bUFSFeaturesSupport: the older, shorter list of features.
    0x1f features: u8,
    /// bFFUTimeout, in seconds.
    0x20 firmware_update_s: u8,
    /// bQueueDepth: of the queue that all units share; 0: each has its own.
    0x21 queue_depth: u8,
    /// wDeviceVersion.
    0x22 device_version: u16,
    /// bNumSecureWPArea.
    0x24 secure_write_protect_areas: u8,
    /// dPSAMaxDataSize, in units of 4 KiB.
    0x25 production_max_4_kib: u32,
    /// bPSAStateTimeout.
    0x29 production_timeout: u8,
    /// iProductRevisionLevel.
    0x2a product_revision: u8,
    /// wHPBVersion: 0100h or 0200h.
    0x40 hpb_version: u16,
    /// bHPBControl: who decides on regions, 00h the host, 01h the device.
    0x42 hpb_control: u8,
    /// dExtendedUFSFeaturesSupport: bit 7 HPB, bit 8 WriteBooster.
    0x4f extended_features: u32,
    /// bWriteBoosterBufferPreserveUserSpaceEn: 00h the buffer takes user space, 01h it does not.
    0x53 writebooster_preserves_space: u8,
    /// bWriteBoosterBufferType: 00h a buffer of a unit, 01h one that all share.
    0x54 writebooster_type: u8,
    /// dNumSharedWriteBoosterBufferAllocUnits: size of a shared buffer, in allocation units.
    0x55 writebooster_shared_units: u32,
}

impl DeviceDescriptor {
    /// Bit of dExtendedUFSFeaturesSupport: HPB.
    pub const HPB: u32 = 1 << 7;
    /// Bit of dExtendedUFSFeaturesSupport: WriteBooster.
    pub const WRITEBOOSTER: u32 = 1 << 8;

    /// Whether the device supports HPB.
    pub const fn has_hpb(&self) -> bool {
        self.extended_features & DeviceDescriptor::HPB != 0
    }

    /// Whether the device supports WriteBooster.
    pub const fn has_writebooster(&self) -> bool {
        self.extended_features & DeviceDescriptor::WRITEBOOSTER != 0
    }

    /// Type of the WriteBooster buffer; `None` for a reserved value.
    pub const fn writebooster(&self) -> Option<WriteBoosterType> {
        WriteBoosterType::from_byte(self.writebooster_type)
    }

    /// HPB control mode; `None` for a reserved value.
    pub const fn control(&self) -> Option<HpbControl> {
        HpbControl::from_byte(self.hpb_control)
    }
}

descriptor! {
    /// Geometry descriptor: sizes and limits.
    GeometryDescriptor, "geometry descriptor", DescriptorIdn::Geometry, 0x57:
    /// bMediaTechnology.
    0x02 media_technology: u8,
    /// qTotalRawDeviceCapacity, in units of 512 bytes.
    0x04 total_512: u64,
    /// bMaxNumberLU: 00h eight logical units, 01h 32.
    0x0c max_lus: u8,
    /// dSegmentSize, in units of 512 bytes.
    0x0d segment_512: u32,
    /// bAllocationUnitSize, in segments.
    0x11 allocation_unit_segments: u8,
    /// bMinAddrBlockSize, in units of 512 bytes; 08h at least.
    0x12 min_block_512: u8,
    /// bOptimalReadBlockSize, in units of 512 bytes; 0: not told.
    0x13 optimal_read_512: u8,
    /// bOptimalWriteBlockSize, in units of 512 bytes.
    0x14 optimal_write_512: u8,
    /// bMaxInBufferSize, in units of 512 bytes; 08h at least.
    0x15 max_in_buffer_512: u8,
    /// bMaxOutBufferSize, in units of 512 bytes; 08h at least.
    0x16 max_out_buffer_512: u8,
    /// bRPMB_ReadWriteSize, in frames of 256 bytes.
    0x17 rpmb_frames: u8,
    /// bDynamicCapacityResourcePolicy.
    0x18 dynamic_capacity_policy: u8,
    /// bDataOrdering: 01h: data may come out of order.
    0x19 data_ordering: u8,
    /// bMaxContexIDNumber: contexts; at least 5.
    0x1a max_contexts: u8,
    /// bSysDataTagUnitSize.
    0x1b data_tag_unit: u8,
    /// bSysDataTagResSize.
    0x1c data_tag_resource: u8,
    /// bSupportedSecRTypes.
    0x1d secure_removal_types: u8,
    /// wSupportedMemoryTypes.
    0x1e memory_types: u16,
    /// dSystemCodeMaxNAllocU, in allocation units.
    0x20 system_code_max_units: u32,
    /// wSystemCodeCapAdjFac.
    0x24 system_code_factor: u16,
    /// dNonPersistMaxNAllocU.
    0x26 non_persistent_max_units: u32,
    /// wNonPersistCapAdjFac.
    0x2a non_persistent_factor: u16,
    /// dEnhanced1MaxNAllocU.
    0x2c enhanced_1_max_units: u32,
    /// wEnhanced1CapAdjFac.
    0x30 enhanced_1_factor: u16,
    /// dEnhanced2MaxNAllocU.
    0x32 enhanced_2_max_units: u32,
    /// wEnhanced2CapAdjFac.
    0x36 enhanced_2_factor: u16,
    /// dEnhanced3MaxNAllocU.
    0x38 enhanced_3_max_units: u32,
    /// wEnhanced3CapAdjFac.
    0x3c enhanced_3_factor: u16,
    /// dEnhanced4MaxNAllocU.
    0x3e enhanced_4_max_units: u32,
    /// wEnhanced4CapAdjFac.
    0x42 enhanced_4_factor: u16,
    /// dOptimalLogicalBlockSize: four bits for each memory type.
    0x44 optimal_logical_block: u32,
    /// bHPBRegionSize: a region has 512 · 2^this bytes; 0: no HPB.
    0x48 hpb_region_exponent: u8,
    /// bHPBNumberLU: logical units with HPB at most; 00h none, up to 20h.
    0x49 hpb_max_lus: u8,
    /// bHPBSubRegionSize: a subregion has 512 · 2^this bytes, at most a region.
    0x4a hpb_subregion_exponent: u8,
    /// wDeviceMaxActiveHPBRegions: regions that the host may cache at a time.
    0x4b hpb_max_active_regions: u16,
    /// dWriteBoosterBufferMaxNAllocUnits: all buffers together, in allocation units.
    0x4f writebooster_max_units: u32,
    /// bDeviceMaxWriteBoosterLUs: buffers at most.
    0x53 writebooster_max_lus: u8,
    /// bWriteBoosterBufferCapAdjFac: user space that a byte of the buffer takes where it takes any.
    0x54 writebooster_factor: u8,
    /// bSupportedWriteBoosterBufferUserSpaceReductionTypes: 00h takes user space, 01h preserves it, 02h either.
    0x55 writebooster_space_modes: u8,
    /// bSupportedWriteBoosterBufferTypes: 00h of a unit, 01h shared, 02h either.
    0x56 writebooster_types: u8,
}

/// 512 · 2^`exponent`; `None` for 0 and if the result exceeds 64 bits.
const fn exponent_bytes(exponent: u8) -> Option<u64> {
    match exponent {
        1..=54 => Some(512 << exponent),
        _ => None,
    }
}

impl GeometryDescriptor {
    /// Size of an HPB region in bytes; `None` without HPB, or if the exponent is too large.
    pub const fn hpb_region_bytes(&self) -> Option<u64> {
        exponent_bytes(self.hpb_region_exponent)
    }

    /// Size of an HPB subregion in bytes; `None` without HPB, or if the exponent is too large.
    pub const fn hpb_subregion_bytes(&self) -> Option<u64> {
        exponent_bytes(self.hpb_subregion_exponent)
    }

    /// Maximum number of logical units, without the well-known ones.
    pub const fn unit_limit(&self) -> usize {
        if self.max_lus == 0 { 8 } else { 32 }
    }

    /// Size of an allocation unit in bytes; sizes of WriteBooster buffers are in allocation units.
    pub const fn allocation_unit_bytes(&self) -> u64 {
        self.allocation_unit_segments as u64 * self.segment_512 as u64 * 512
    }
}

descriptor! {
    /// Unit descriptor: one logical unit.
    UnitDescriptor, "unit descriptor", DescriptorIdn::Unit, 0x2d:
    /// bUnitIndex: its number.
    0x02 unit: u8,
    /// bLUEnable: 00h the unit is not there, 01h it is, 02h with HPB.
    0x03 lu_enable: u8,
    /// bBootLunID: 00h none, 01h A, 02h B.
    0x04 boot_lun: u8,
    /// bLUWriteProtect: 00h none, 01h until power-on, 02h for good.
    0x05 write_protect: u8,
    /// bLUQueueDepth: of its own queue; 0: it shares the device's.
    0x06 queue_depth: u8,
    /// bPSASensitive.
    0x07 production_sensitive: u8,
    /// bMemoryType.
    0x08 memory_type: u8,
    /// bDataReliability: 01h: what was on the medium survives a power cut during a write.
    0x09 data_reliability: u8,
    /// bLogicalBlockSize: a logical block has 2^this bytes; 0Ch at least.
    0x0a logical_block_exponent: u8,
    /// qLogicalBlockCount: logical blocks.
    0x0b logical_blocks: u64,
    /// dEraseBlockSize, in logical blocks.
    0x13 erase_blocks: u32,
    /// bProvisioningType: 00h full, 02h thin, 03h thin and unmapped blocks read as zeroes.
    0x17 provisioning_type: u8,
    /// qPhyMemResourceCount: physical memory, in units of bOptimalWriteBlockSize.
    0x18 physical_units: u64,
    /// wContextCapabilities.
    0x20 context_capabilities: u16,
    /// bLargeUnitGranularity_M1.
    0x22 large_unit_granularity_m1: u8,
    /// wLUMaxActiveHPBRegions: regions of it that the host may cache at a time; 0: no HPB.
    0x23 hpb_max_active_regions: u16,
    /// wHPBPinnedRegionStartIdx: first of the regions that are always active.
    0x25 hpb_pinned_start: u16,
    /// wNumHPBPinnedRegions: how many; they count as active.
    0x27 hpb_pinned_regions: u16,
    /// dLUNumWriteBoosterBufferAllocUnits: its own buffer, in allocation units.
    0x29 writebooster_units: u32,
}

impl UnitDescriptor {
    /// State of the logical unit; `None` for a reserved value.
    pub const fn enabled(&self) -> Option<LuEnable> {
        LuEnable::from_byte(self.lu_enable)
    }

    /// Size of a logical block in bytes; `None` if the exponent is too large.
    pub const fn logical_block_bytes(&self) -> Option<u32> {
        1u32.checked_shl(self.logical_block_exponent as u32)
    }
}
