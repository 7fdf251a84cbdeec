//! Descriptors: each field alone in a golden descriptor, and descriptors of later and other versions.

use ssd::device::ufs::{DeviceDescriptor, GeometryDescriptor, HpbControl, LuEnable, UnitDescriptor, WriteBoosterType};

use crate::{refused, takes_no_prefix};

/// A descriptor of `N` bytes with its length and type, and with `fields` at their offsets.
fn golden<const N: usize>(idn: u8, fields: &[(usize, &[u8])]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[0] = N as u8;
    bytes[1] = idn;
    for (at, field) in fields {
        bytes[*at..at + field.len()].copy_from_slice(field);
    }
    bytes
}

#[test]
fn a_device_descriptor_is_the_golden_one() {
    let descriptor = DeviceDescriptor {
        lus: 4,
        well_known_lus: 4,
        boot_enable: 1,
        high_priority_lun: 0x7f,
        background_end_10_ms: 5,
        spec_version: 0x0310,
        manufacture_date: 0x1220,
        manufacturer_id: 0x01ce,
        unit_config_offset: 0x16,
        unit_config_bytes: 0x1a,
        ready_to_transfer_limit: 2,
        clock_update: 0x0102,
        features: 1,
        queue_depth: 32,
        device_version: 0x0201,
        production_max_4_kib: 0x0403_0201,
        production_timeout: 0x11,
        product_revision: 0x12,
        hpb_version: 0x0200,
        hpb_control: 1,
        extended_features: 0x0000_01a3,
        writebooster_preserves_space: 1,
        writebooster_type: 1,
        writebooster_shared_units: 0x0102_0304,
        ..Default::default()
    };
    #[rustfmt::skip]
    let bytes: [u8; 0x59] = golden(0, &[
        (0x06, &[4]), (0x07, &[4]), (0x08, &[1]), (0x0b, &[0x7f]), (0x0e, &[5]), (0x10, &[0x03, 0x10]),
        (0x12, &[0x12, 0x20]), (0x18, &[0x01, 0xce]), (0x1a, &[0x16]), (0x1b, &[0x1a]), (0x1c, &[2]), (0x1d, &[1, 2]),
        (0x1f, &[1]), (0x21, &[32]), (0x22, &[2, 1]), (0x25, &[4, 3, 2, 1]), (0x29, &[0x11]), (0x2a, &[0x12]),
        (0x40, &[0x02, 0x00]), (0x42, &[1]), (0x4f, &[0, 0, 0x01, 0xa3]), (0x53, &[1]), (0x54, &[1]),
        (0x55, &[1, 2, 3, 4]),
    ]);
    assert_eq!(descriptor.encode(), bytes);
    assert_eq!(DeviceDescriptor::decode(&bytes), Ok(descriptor));
    takes_no_prefix(&bytes, DeviceDescriptor::decode);
    assert!(descriptor.has_hpb() && descriptor.has_writebooster());
    assert_eq!(descriptor.control(), Some(HpbControl::Device));
    assert_eq!(descriptor.writebooster(), Some(WriteBoosterType::Shared));
    assert!(!DeviceDescriptor { extended_features: !0x180, ..descriptor }.has_hpb());
    assert_eq!(DeviceDescriptor { hpb_control: 2, ..descriptor }.control(), None);
}

#[test]
fn a_geometry_descriptor_is_the_golden_one() {
    let descriptor = GeometryDescriptor {
        total_512: 0x0102_0304_0506_0708,
        max_lus: 1,
        segment_512: 0x2000,
        allocation_unit_segments: 1,
        min_block_512: 8,
        optimal_read_512: 0x40,
        optimal_write_512: 0x80,
        max_in_buffer_512: 0x21,
        max_out_buffer_512: 0x22,
        rpmb_frames: 0x23,
        max_contexts: 5,
        memory_types: 0x8001,
        system_code_factor: 0x0100,
        enhanced_1_max_units: 0x0a0b_0c0d,
        enhanced_1_factor: 0x0300,
        enhanced_4_factor: 0x0400,
        optimal_logical_block: 0x0000_000c,
        hpb_region_exponent: 15,
        hpb_max_lus: 0x20,
        hpb_subregion_exponent: 13,
        hpb_max_active_regions: 0x0e0f,
        writebooster_max_units: 0x0000_0400,
        writebooster_max_lus: 1,
        writebooster_factor: 3,
        writebooster_space_modes: 2,
        writebooster_types: 2,
        ..Default::default()
    };
    #[rustfmt::skip]
    let bytes: [u8; 0x57] = golden(7, &[
        (0x04, &[1, 2, 3, 4, 5, 6, 7, 8]), (0x0c, &[1]), (0x0d, &[0, 0, 0x20, 0]), (0x11, &[1]), (0x12, &[8]),
        (0x13, &[0x40]), (0x14, &[0x80]), (0x15, &[0x21]), (0x16, &[0x22]), (0x17, &[0x23]), (0x1a, &[5]),
        (0x1e, &[0x80, 0x01]), (0x24, &[1, 0]), (0x2c, &[10, 11, 12, 13]), (0x30, &[3, 0]), (0x42, &[4, 0]),
        (0x44, &[0, 0, 0, 12]), (0x48, &[15]), (0x49, &[0x20]), (0x4a, &[13]), (0x4b, &[0x0e, 0x0f]),
        (0x4f, &[0, 0, 4, 0]), (0x53, &[1]), (0x54, &[3]), (0x55, &[2]), (0x56, &[2]),
    ]);
    assert_eq!(descriptor.encode(), bytes);
    assert_eq!(GeometryDescriptor::decode(&bytes), Ok(descriptor));
    takes_no_prefix(&bytes, GeometryDescriptor::decode);
    assert_eq!((descriptor.hpb_region_bytes(), descriptor.hpb_subregion_bytes()), (Some(16 << 20), Some(4 << 20)));
    assert_eq!(descriptor.allocation_unit_bytes(), 4 << 20);
    let with = |exponent| GeometryDescriptor { hpb_region_exponent: exponent, ..descriptor }.hpb_region_bytes();
    assert_eq!([0, 1, 54, 55, 255].map(with), [None, Some(1024), Some(1 << 63), None, None]);
}

#[test]
fn a_unit_descriptor_is_the_golden_one() {
    let descriptor = UnitDescriptor {
        unit: 3,
        lu_enable: 2,
        boot_lun: 1,
        write_protect: 2,
        queue_depth: 16,
        memory_type: 4,
        data_reliability: 1,
        logical_block_exponent: 12,
        logical_blocks: 0x0102_0304_0506_0708,
        erase_blocks: 0x0a0b_0c0d,
        provisioning_type: 3,
        physical_units: 0x1112_1314_1516_1718,
        context_capabilities: 0x0020,
        large_unit_granularity_m1: 9,
        hpb_max_active_regions: 0x2122,
        hpb_pinned_start: 0x2324,
        hpb_pinned_regions: 0x2526,
        writebooster_units: 0x3132_3334,
        ..Default::default()
    };
    #[rustfmt::skip]
    let bytes: [u8; 0x2d] = golden(2, &[
        (0x02, &[3]), (0x03, &[2]), (0x04, &[1]), (0x05, &[2]), (0x06, &[16]), (0x08, &[4]), (0x09, &[1]),
        (0x0a, &[12]), (0x0b, &[1, 2, 3, 4, 5, 6, 7, 8]), (0x13, &[10, 11, 12, 13]), (0x17, &[3]),
        (0x18, &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]), (0x20, &[0, 0x20]), (0x22, &[9]),
        (0x23, &[0x21, 0x22]), (0x25, &[0x23, 0x24]), (0x27, &[0x25, 0x26]), (0x29, &[0x31, 0x32, 0x33, 0x34]),
    ]);
    assert_eq!(descriptor.encode(), bytes);
    assert_eq!(UnitDescriptor::decode(&bytes), Ok(descriptor));
    takes_no_prefix(&bytes, UnitDescriptor::decode);
    assert_eq!(descriptor.enabled(), Some(LuEnable::EnabledWithHpb));
    assert_eq!(UnitDescriptor { lu_enable: 3, ..descriptor }.enabled(), None);
    let block = |exponent| UnitDescriptor { logical_block_exponent: exponent, ..descriptor }.logical_block_bytes();
    assert_eq!([12, 31, 32, 255].map(block), [Some(4096), Some(1 << 31), None, None]);
}

#[test]
fn a_longer_descriptor_of_a_later_version_is_read() {
    let descriptor = UnitDescriptor { unit: 3, writebooster_units: 7, ..Default::default() };
    let mut bytes = descriptor.encode().to_vec();
    bytes[0] += 8;
    assert_eq!(UnitDescriptor::decode(&bytes), Ok(descriptor), "the host asked for the part that it knows");
    bytes.extend_from_slice(&[0xff; 8]);
    assert_eq!(UnitDescriptor::decode(&bytes), Ok(descriptor));
}

#[test]
fn what_is_reserved_is_passed_over() {
    let descriptor = DeviceDescriptor { spec_version: 0x0310, ..Default::default() };
    let mut bytes = descriptor.encode();
    for (byte, meant) in bytes.iter_mut().zip(DeviceDescriptor::MEANT) {
        *byte |= !meant;
    }
    assert_eq!(bytes.iter().filter(|&&byte| byte == 0xff).count(), 5 + 16 + 12);
    assert_eq!(DeviceDescriptor::decode(&bytes), Ok(descriptor));
}

#[test]
fn another_or_an_older_descriptor_is_refused() {
    let unit = UnitDescriptor::default().encode();
    let mut older = DeviceDescriptor::default().encode();
    older[0] = 0x40;
    assert_eq!(refused(DeviceDescriptor::decode(&older)), ("device descriptor", 0), "UFS 2.1");
    let mut other = unit;
    other[1] = 7;
    assert_eq!(refused(UnitDescriptor::decode(&other)), ("unit descriptor", 1));
    let mut device = [0; 0x57];
    device[0] = 0x57;
    let error = GeometryDescriptor::decode(&device).expect_err("a device's");
    let told = "geometry descriptor, byte 1: bDescriptorIDN is 0x00, expected that of a geometry descriptor";
    assert_eq!(error.to_string(), told);
}
