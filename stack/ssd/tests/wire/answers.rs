//! Every descriptor, flag and attribute of some devices, each number worked out from their configuration by hand. What
//! is not named here is zero, or is not there.

use std::collections::BTreeMap;

use ssd::device::hpb::{Control, HpbConfig, LuConfig, Version};
use ssd::device::ufs::{
    Answer, Configuration, Device, DeviceDescriptor, GeometryDescriptor, Query, QueryCode, QueryOpcode, QueryRequest,
    Unit, UnitDescriptor, WriteBooster,
};

const MIB: u64 = 1 << 20;

fn ask(device: &mut Device, opcode: QueryOpcode, idn: u8, index: u8, value: u32) -> Answer {
    let query = Query { opcode, idn, index, selector: 0, length_bytes: 255, value };
    device.answer(&QueryRequest { task_tag: 1, query, segment_bytes: 0 })
}

fn segment(device: &mut Device, idn: u8, index: u8) -> Result<Vec<u8>, QueryCode> {
    let answer = ask(device, QueryOpcode::ReadDescriptor, idn, index, 0);
    assert_eq!(answer.response.query.value, 0, "a descriptor comes in the data segment");
    if answer.response.code == QueryCode::Success { Ok(answer.segment) } else { Err(answer.response.code) }
}

fn device_of(device: &mut Device) -> DeviceDescriptor {
    DeviceDescriptor::decode(&segment(device, 0x00, 0).expect("a device descriptor")).expect("its format")
}

fn geometry_of(device: &mut Device) -> GeometryDescriptor {
    GeometryDescriptor::decode(&segment(device, 0x07, 0).expect("a geometry descriptor")).expect("its format")
}

fn unit_of(device: &mut Device, lun: u8) -> Result<UnitDescriptor, QueryCode> {
    segment(device, 0x02, lun).map(|bytes| UnitDescriptor::decode(&bytes).expect("its format"))
}

/// Two units of 4 KiB blocks, the first with HPB 2.0 under device control, and a WriteBooster buffer of 400 MiB.
fn hpb_of_two_units() -> HpbConfig {
    HpbConfig {
        version: Version::V2,
        single_command_pages: 128,
        max_active_regions: 20,
        pinned: (1, 2),
        lus: vec![LuConfig { pages: 1 << 16, hpb: true }, LuConfig { pages: 1 << 14, hpb: false }],
        ..HpbConfig::plain(1 << 16)
    }
}

fn two_units(hpb: &HpbConfig) -> Configuration<'_> {
    Configuration {
        spec_version: 0x0310,
        capacity_bytes: 320 * MIB,
        logical_block_bytes: 4096,
        page_bytes: 4096,
        erase_block_bytes: 12 * MIB,
        queue_depth: 32,
        unmapped_are_zeroes: true,
        units: vec![Unit { bytes: 256 * MIB, hpb: true }, Unit { bytes: 64 * MIB, hpb: false }],
        hpb: Some(hpb),
        write_booster: Some(WriteBooster { bytes: 404 * MIB - 1 }),
    }
}

/// What every device here says of itself: mass storage without boot and RPMB units, two well-known units, active after
/// initialization, all units of the same priority, two transfers at a time.
fn plain_device() -> DeviceDescriptor {
    DeviceDescriptor {
        device_sub_class: 0x05,
        well_known_lus: 2,
        initial_power_mode: 1,
        high_priority_lun: 0x7f,
        ready_to_transfer_limit: 2,
        ..DeviceDescriptor::default()
    }
}

/// A segment is an allocation unit of 4 MiB; five contexts, which is the least; normal memory only.
fn plain_geometry() -> GeometryDescriptor {
    GeometryDescriptor {
        segment_512: 4 << 11,
        allocation_unit_segments: 1,
        max_contexts: 5,
        memory_types: 1,
        ..GeometryDescriptor::default()
    }
}

#[test]
fn all_fields_of_a_device_with_hpb_and_write_booster() {
    let hpb = hpb_of_two_units();
    let mut device = Device::new(&two_units(&hpb));
    let expected = DeviceDescriptor {
        lus: 2,
        spec_version: 0x0310,
        features: 0x80,
        queue_depth: 32,
        hpb_version: 0x0200,
        hpb_control: 1,
        extended_features: 0x180,
        writebooster_preserves_space: 1,
        writebooster_type: 1,
        writebooster_shared_units: 100,
        ..plain_device()
    };
    assert_eq!(device_of(&mut device), expected);
    let expected = GeometryDescriptor {
        total_512: 320 << 11,
        min_block_512: 8,
        optimal_write_512: 8,
        max_in_buffer_512: 8,
        max_out_buffer_512: 8,
        // 16 MiB are 2^15 sectors, and 4 MiB 2^13.
        hpb_region_exponent: 15,
        hpb_max_lus: 1,
        hpb_subregion_exponent: 13,
        hpb_max_active_regions: 20,
        writebooster_max_units: 100,
        writebooster_max_lus: 1,
        writebooster_space_modes: 1,
        writebooster_types: 1,
        ..plain_geometry()
    };
    assert_eq!(geometry_of(&mut device), expected);
    let second = UnitDescriptor {
        unit: 1,
        lu_enable: 1,
        data_reliability: 1,
        logical_block_exponent: 12,
        logical_blocks: 64 * 256,
        erase_blocks: 12 * 256,
        provisioning_type: 3,
        physical_units: 64 * 256,
        ..UnitDescriptor::default()
    };
    // It has 16 regions, of which all may be active, and two are pinned.
    let first = UnitDescriptor {
        unit: 0,
        lu_enable: 2,
        logical_blocks: 256 * 256,
        physical_units: 256 * 256,
        hpb_max_active_regions: 16,
        hpb_pinned_start: 1,
        hpb_pinned_regions: 2,
        ..second
    };
    assert_eq!([unit_of(&mut device, 0), unit_of(&mut device, 1)], [Ok(first), Ok(second)]);
    for lun in 2..8 {
        assert_eq!(unit_of(&mut device, lun), Ok(UnitDescriptor { unit: lun, ..UnitDescriptor::default() }));
    }
    assert_eq!(unit_of(&mut device, 8), Err(QueryCode::InvalidIndex));
}

#[test]
fn all_fields_of_a_device_of_nine_units_under_host_control() {
    // Sub-regions of 256 pages of 16 KiB, 4 MiB, and regions of 8 MiB. The fifth unit has no HPB, the last 12 MiB.
    let sizes = [32, 64, 16, 8, 24, 8, 8, 8, 12].map(|mib| mib * MIB);
    let with_hpb = |lun: usize| lun != 4;
    let lus = (0..9).map(|lun| LuConfig { pages: (sizes[lun] >> 14) as u32, hpb: with_hpb(lun) }).collect();
    let hpb = HpbConfig {
        control: Control::Host,
        subregion_pages: 256,
        region_subregions: 2,
        max_active_regions: 3,
        pinned: (0, 1),
        lus,
        ..HpbConfig::plain(1)
    };
    let mut device = Device::new(&Configuration {
        spec_version: 0x0400,
        capacity_bytes: 1024 * MIB,
        logical_block_bytes: 8192,
        page_bytes: 16_384,
        erase_block_bytes: 24 * MIB,
        queue_depth: 300,
        unmapped_are_zeroes: false,
        units: (0..9).map(|lun| Unit { bytes: sizes[lun], hpb: with_hpb(lun) }).collect(),
        hpb: Some(&hpb),
        write_booster: None,
    });
    let expected = DeviceDescriptor {
        lus: 9,
        spec_version: 0x0400,
        features: 0x80,
        queue_depth: 255,
        hpb_version: 0x0100,
        extended_features: 0x80,
        ..plain_device()
    };
    assert_eq!(device_of(&mut device), expected);
    let expected = GeometryDescriptor {
        total_512: 1024 << 11,
        max_lus: 1,
        min_block_512: 16,
        optimal_write_512: 32,
        max_in_buffer_512: 16,
        max_out_buffer_512: 16,
        hpb_region_exponent: 14,
        hpb_max_lus: 8,
        hpb_subregion_exponent: 13,
        hpb_max_active_regions: 3,
        ..plain_geometry()
    };
    assert_eq!(geometry_of(&mut device), expected);
    for (lun, active) in [3, 3, 2, 1, 0, 1, 1, 1, 2].into_iter().enumerate() {
        let expected = UnitDescriptor {
            unit: lun as u8,
            lu_enable: if with_hpb(lun) { 2 } else { 1 },
            data_reliability: 1,
            logical_block_exponent: 13,
            logical_blocks: sizes[lun] / 8192,
            erase_blocks: 24 * 128,
            provisioning_type: 2,
            physical_units: sizes[lun] / 16_384,
            hpb_max_active_regions: active,
            hpb_pinned_regions: u16::from(lun == 0),
            ..UnitDescriptor::default()
        };
        assert_eq!(unit_of(&mut device, lun as u8), Ok(expected));
    }
    assert_eq!(unit_of(&mut device, 31), Ok(UnitDescriptor { unit: 31, ..UnitDescriptor::default() }));
    assert_eq!(unit_of(&mut device, 32), Err(QueryCode::InvalidIndex));
    // One page of 16 KiB are four blocks of 4 KiB; the attribute is one less.
    assert_eq!(ask(&mut device, QueryOpcode::ReadAttribute, 0x01, 0, 0).response.query.value, 3);
}

#[test]
fn numbers_too_large_for_their_fields_are_the_largest_there() {
    let units = vec![Unit { bytes: 9 << 40, hpb: true }; 35];
    let mut device = Device::new(&Configuration {
        spec_version: 0x0210,
        capacity_bytes: u64::MAX,
        logical_block_bytes: 1 << 20,
        page_bytes: 1 << 17,
        erase_block_bytes: u64::MAX,
        queue_depth: 255,
        unmapped_are_zeroes: true,
        units: units.clone(),
        hpb: None,
        write_booster: Some(WriteBooster { bytes: u64::MAX }),
    });
    // WriteBooster is bit 8, which the older list of eight features does not have.
    let expected = DeviceDescriptor {
        lus: 32,
        spec_version: 0x0210,
        queue_depth: 255,
        extended_features: 0x100,
        writebooster_preserves_space: 1,
        writebooster_type: 1,
        writebooster_shared_units: u32::MAX,
        ..plain_device()
    };
    assert_eq!(device_of(&mut device), expected);
    let expected = GeometryDescriptor {
        total_512: u64::MAX / 512,
        max_lus: 1,
        min_block_512: 128,
        optimal_write_512: 128,
        max_in_buffer_512: 128,
        max_out_buffer_512: 128,
        writebooster_max_units: u32::MAX,
        writebooster_max_lus: 1,
        writebooster_space_modes: 1,
        writebooster_types: 1,
        ..plain_geometry()
    };
    assert_eq!(geometry_of(&mut device), expected);
    let expected = UnitDescriptor {
        unit: 31,
        lu_enable: 1,
        data_reliability: 1,
        logical_block_exponent: 20,
        logical_blocks: 9 << 20,
        erase_blocks: u32::MAX,
        provisioning_type: 3,
        // Optimal writes of 128 sectors, 64 KiB.
        physical_units: 9 << 24,
        ..UnitDescriptor::default()
    };
    assert_eq!(unit_of(&mut device, 31), Ok(expected));
    assert_eq!(unit_of(&mut device, 32), Err(QueryCode::InvalidIndex));

    // HPB of the units beyond the 32nd does not count; a device of eight has room for eight.
    let hpb = HpbConfig { max_active_regions: 70_000, pinned: (0, 0), ..HpbConfig::plain(1 << 16) };
    let config = Configuration { hpb: Some(&hpb), write_booster: None, units, ..two_units(&hpb) };
    let geometry = geometry_of(&mut Device::new(&config));
    assert_eq!((geometry.hpb_max_lus, geometry.hpb_max_active_regions), (32, 0xffff));
    let config = Configuration { units: config.units[..8].to_vec(), ..config };
    assert_eq!(geometry_of(&mut Device::new(&config)).max_lus, 0);
}

/// bMaxDataSizeForHPBSingleCmd: 4 KiB times one more than the value, from one to 256 of them.
#[test]
fn the_longest_hpb_read_is_given_in_blocks_of_4_kib() {
    for (version, pages, page_bytes, expected) in [
        (Version::V1, 128, 4096, 0),
        (Version::V1, 1, 65_536, 15),
        (Version::V1, 1, 512, 0),
        (Version::V2, 1, 4096, 0),
        (Version::V2, 2, 4096, 1),
        (Version::V2, 255, 4096, 254),
        // The length of an HPB READ has eight bits.
        (Version::V2, 256, 4096, 254),
        (Version::V2, 255, 16_384, 255),
    ] {
        let hpb = HpbConfig { version, single_command_pages: pages, ..HpbConfig::plain(1 << 16) };
        let mut device = Device::new(&Configuration { page_bytes, ..two_units(&hpb) });
        let value = ask(&mut device, QueryOpcode::ReadAttribute, 0x01, 0, 0).response.query.value;
        assert_eq!(value, expected, "{pages} pages of {page_bytes} bytes, {version:?}");
    }
}

/// A device that has HPB, WriteBooster, both or neither.
fn each_kind(mut test: impl FnMut(bool, bool, &mut Device)) {
    let hpb = hpb_of_two_units();
    for (has_hpb, has_booster) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut config = two_units(&hpb);
        if !has_hpb {
            config.hpb = None;
        }
        if !has_booster {
            config.write_booster = None;
        }
        test(has_hpb, has_booster, &mut Device::new(&config));
    }
}

/// Values at power-on, by identifier; JESD220 (3.1), 14.3.
#[test]
fn each_attribute_is_there_or_not_and_written_or_not() {
    each_kind(|has_hpb, has_booster, device| {
        let mut there = BTreeMap::from([(0x02, 0x11), (0x03, 0), (0x05, 0), (0x0a, 0), (0x0d, 0), (0x0e, 0)]);
        if has_hpb {
            there.insert(0x01, 127);
        }
        if has_booster {
            // Idle; all of it in tenths; up to 10 % of its life; 100 allocation units.
            there.extend([(0x1c, 0), (0x1d, 10), (0x1e, 1), (0x1f, 100)]);
        }
        let most = BTreeMap::from([(0x03, 0x0f), (0x0a, 3), (0x0d, 0xffff)]);
        for idn in 0..=0xff {
            let read = ask(device, QueryOpcode::ReadAttribute, idn, 0, 77).response;
            let Some(&value) = there.get(&idn) else {
                assert_eq!(read.code, QueryCode::InvalidIdn, "{idn:#x}");
                assert_eq!(
                    ask(device, QueryOpcode::WriteAttribute, idn, 0, 0).response.code,
                    QueryCode::InvalidIdn,
                    "{idn:#x}"
                );
                continue;
            };
            assert_eq!((read.code, read.query.value), (QueryCode::Success, value), "{idn:#x}");
            let mut write = |value| ask(device, QueryOpcode::WriteAttribute, idn, 0, value).response;
            let Some(&most) = most.get(&idn) else {
                assert_eq!(write(0).code, QueryCode::NotWriteable, "{idn:#x}");
                continue;
            };
            assert_eq!(write(most + 1).code, QueryCode::InvalidValue, "{idn:#x}");
            let written = write(most - 1);
            assert_eq!((written.code, written.query.value), (QueryCode::Success, most - 1), "{idn:#x}");
            assert_eq!(write(most).code, QueryCode::Success, "{idn:#x}");
        }
        // Each kept its own.
        for (&idn, &most) in &most {
            assert_eq!(ask(device, QueryOpcode::ReadAttribute, idn, 0, 0).response.query.value, most, "{idn:#x}");
        }
    });
}

/// JESD220 (3.1), 14.2: fDeviceInit and fHPBReset are set by the host and cleared by the device, at once here.
#[test]
fn each_flag_is_there_or_not_and_changes_by_itself() {
    each_kind(|has_hpb, has_booster, device| {
        let mut there = BTreeMap::from([(0x01, false), (0x04, true)]);
        if has_booster {
            there.extend([(0x0e, false), (0x0f, false), (0x10, false)]);
        }
        if has_hpb {
            there.extend([(0x11, false), (0x12, true)]);
        }
        let writers = [QueryOpcode::SetFlag, QueryOpcode::ClearFlag, QueryOpcode::ToggleFlag];
        for idn in (0..=0xff).filter(|idn| !there.contains_key(idn)) {
            for opcode in [&[QueryOpcode::ReadFlag], &writers[..]].concat() {
                assert_eq!(ask(device, opcode, idn, 0, 0).response.code, QueryCode::InvalidIdn, "{idn:#x}");
            }
        }
        let mut now = there.clone();
        for idn in there.into_keys() {
            let clears_itself = matches!(idn, 0x01 | 0x11);
            for opcode in [writers, writers].concat() {
                let answer = ask(device, opcode, idn, 0, 0).response;
                if clears_itself && opcode != QueryOpcode::SetFlag {
                    assert_eq!(answer.code, QueryCode::NotWriteable, "{opcode:?} {idn:#x}");
                } else {
                    let before = now[&idn];
                    let after = match opcode {
                        QueryOpcode::SetFlag => !clears_itself,
                        QueryOpcode::ToggleFlag => !before,
                        _ => false,
                    };
                    now.insert(idn, after);
                    assert_eq!((answer.code, answer.query.flag()), (QueryCode::Success, after), "{opcode:?} {idn:#x}");
                }
                for (&other, &value) in &now {
                    let read = ask(device, QueryOpcode::ReadFlag, other, 0, 0).response;
                    assert_eq!(
                        (read.code, read.query.flag()),
                        (QueryCode::Success, value),
                        "{other:#x} after {idn:#x}"
                    );
                }
            }
            assert_eq!(device.take_hpb_reset(), idn == 0x11, "{idn:#x}");
        }
    });
}

#[test]
fn flags_and_attributes_have_no_index_and_nothing_has_a_selector() {
    each_kind(|_, _, device| {
        for (opcode, idn) in [
            (QueryOpcode::ReadAttribute, 0x03),
            (QueryOpcode::WriteAttribute, 0x03),
            (QueryOpcode::ReadFlag, 0x04),
            (QueryOpcode::ClearFlag, 0x04),
            (QueryOpcode::ReadDescriptor, 0x00),
            (QueryOpcode::WriteDescriptor, 0x00),
        ] {
            let before = device.clone();
            let mut code = |index, selector| {
                let query = Query { opcode, idn, index, selector, length_bytes: 255, value: 1 };
                device.answer(&QueryRequest { task_tag: 1, query, segment_bytes: 0 }).response.code
            };
            assert_eq!(code(1, 0), QueryCode::InvalidIndex, "{opcode:?}");
            assert_eq!(code(0, 1), QueryCode::InvalidSelector, "{opcode:?}");
            assert_eq!(*device, before, "{opcode:?}");
        }
        assert_eq!(ask(device, QueryOpcode::WriteDescriptor, 0x00, 0, 0).response.code, QueryCode::NotWriteable);
    });
}
