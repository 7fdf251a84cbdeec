//! Responses of a device to queries.

use proptest::prelude::*;
use proptest::sample::select;
use ssd::device::hpb::{HpbConfig, LuConfig, Version};
use ssd::device::ufs::device::{ALLOCATION_UNIT_BYTES, MOST_UNITS};
use ssd::device::ufs::query::hpb_single_command_bytes;
use ssd::device::ufs::upiu::data_segment;
use ssd::device::ufs::{
    Answer, Attribute, Configuration, DescriptorIdn, Device, DeviceDescriptor, Flag, GeometryDescriptor, LuEnable,
    Query, QueryCode, QueryOpcode, QueryRequest, QueryResponse, Unit, UnitDescriptor, WriteBooster,
};

fn hpb() -> HpbConfig {
    HpbConfig {
        version: Version::V2,
        single_command_pages: 128,
        max_active_regions: 20,
        pinned: (1, 2),
        lus: vec![LuConfig { pages: 1 << 16, hpb: true }, LuConfig { pages: 1 << 14, hpb: false }],
        ..HpbConfig::plain(1 << 16)
    }
}

fn config(hpb: Option<&HpbConfig>) -> Configuration<'_> {
    Configuration {
        spec_version: 0x0310,
        capacity_bytes: 320 << 20,
        logical_block_bytes: 4096,
        page_bytes: 4096,
        erase_block_bytes: 12 << 20,
        queue_depth: 32,
        unmapped_are_zeroes: true,
        units: vec![Unit { bytes: 256 << 20, hpb: true }, Unit { bytes: 64 << 20, hpb: false }],
        hpb,
        write_booster: hpb.map(|_| WriteBooster { bytes: 100 * ALLOCATION_UNIT_BYTES + 1 }),
    }
}

fn request(opcode: QueryOpcode, idn: u8, index: u8, value: u32) -> QueryRequest {
    let query = Query { opcode, idn, index, selector: 0, length_bytes: 255, value };
    QueryRequest { task_tag: 7, query, segment_bytes: 0 }
}

fn ask(device: &mut Device, opcode: QueryOpcode, idn: u8, index: u8, value: u32) -> Answer {
    device.answer(&request(opcode, idn, index, value))
}

fn code(device: &mut Device, opcode: QueryOpcode, idn: u8, index: u8, value: u32) -> QueryCode {
    ask(device, opcode, idn, index, value).response.code
}

fn descriptor(device: &mut Device, idn: DescriptorIdn, index: u8) -> Vec<u8> {
    let bytes = device.answer_bytes(&request(QueryOpcode::ReadDescriptor, idn.byte(), index, 0).encode()).unwrap();
    let response = QueryResponse::decode(&bytes).unwrap();
    let segment = data_segment(&bytes).unwrap();
    assert_eq!((response.code, response.task_tag), (QueryCode::Success, 7));
    assert_eq!(usize::from(response.query.length_bytes), segment.len());
    segment.to_vec()
}

fn attribute(device: &mut Device, attribute: Attribute) -> Option<u32> {
    let response = ask(device, QueryOpcode::ReadAttribute, attribute.byte(), 0, 0).response;
    (response.code == QueryCode::Success).then_some(response.query.value)
}

fn flag(device: &mut Device, flag: Flag) -> Option<bool> {
    let response = ask(device, QueryOpcode::ReadFlag, flag.byte(), 0, 0).response;
    (response.code == QueryCode::Success).then_some(response.query.flag())
}

#[test]
fn a_host_reads_what_the_device_was_configured_with() {
    let hpb = hpb();
    let mut device = Device::new(&config(Some(&hpb)));
    let told = DeviceDescriptor::decode(&descriptor(&mut device, DescriptorIdn::Device, 0)).unwrap();
    assert_eq!((told.spec_version, told.lus, told.queue_depth), (0x0310, 2, 32));
    assert_eq!((told.hpb_version, told.hpb_control, told.features), (0x0200, 0x01, 0x80));
    assert_eq!((told.extended_features, told.writebooster_shared_units), (0x180, 100));
    let told = GeometryDescriptor::decode(&descriptor(&mut device, DescriptorIdn::Geometry, 0)).unwrap();
    assert_eq!((told.total_512, told.allocation_unit_bytes()), (320 << 11, ALLOCATION_UNIT_BYTES));
    assert_eq!((told.hpb_region_bytes(), told.hpb_subregion_bytes()), (Some(16 << 20), Some(4 << 20)));
    assert_eq!((told.hpb_max_lus, told.hpb_max_active_regions, told.unit_limit()), (1, 20, 8));
    let told: Vec<_> =
        (0..3).map(|lun| UnitDescriptor::decode(&descriptor(&mut device, DescriptorIdn::Unit, lun)).unwrap()).collect();
    let enabled: Vec<_> = told.iter().map(|unit| unit.enabled().unwrap()).collect();
    assert_eq!(enabled, [LuEnable::EnabledWithHpb, LuEnable::Enabled, LuEnable::Disabled]);
    assert_eq!(told.iter().map(|unit| unit.logical_blocks).collect::<Vec<_>>(), [1 << 16, 1 << 14, 0]);
    assert_eq!((told[0].hpb_max_active_regions, told[0].hpb_pinned_start, told[0].hpb_pinned_regions), (16, 1, 2));
    assert_eq!((told[1].hpb_max_active_regions, told[1].logical_block_bytes()), (0, Some(4096)));
    assert_eq!((told[0].erase_blocks, told[0].provisioning_type), (3072, 0x03));
    let single = attribute(&mut device, Attribute::HpbSingleCommandSize).unwrap();
    assert_eq!(hpb_single_command_bytes(single as u8), 512 << 10);
    assert_eq!(attribute(&mut device, Attribute::WriteBoosterSize), Some(100));
    assert_eq!(attribute(&mut device, Attribute::WriteBoosterAvailable), Some(10));
    assert_eq!((flag(&mut device, Flag::Hpb), flag(&mut device, Flag::WriteBooster)), (Some(true), Some(false)));
}

#[test]
fn a_device_without_hpb_and_write_booster_has_no_trace_of_them() {
    let mut device = Device::new(&config(None));
    let told = DeviceDescriptor::decode(&descriptor(&mut device, DescriptorIdn::Device, 0)).unwrap();
    assert!(!told.has_hpb() && !told.has_writebooster() && told.features == 0 && told.hpb_version == 0);
    let unit = UnitDescriptor::decode(&descriptor(&mut device, DescriptorIdn::Unit, 0)).unwrap();
    assert_eq!(unit.enabled(), Some(LuEnable::Enabled));
    for missing in [Flag::Hpb, Flag::HpbReset, Flag::WriteBooster, Flag::WriteBoosterFlush] {
        assert_eq!(code(&mut device, QueryOpcode::SetFlag, missing.byte(), 0, 0), QueryCode::InvalidIdn);
    }
    assert_eq!(attribute(&mut device, Attribute::HpbSingleCommandSize), None);
    assert_eq!(attribute(&mut device, Attribute::WriteBoosterSize), None);
}

#[test]
fn a_flag_is_set_cleared_and_turned_over_and_the_answer_says_how_it_is_now() {
    let hpb = hpb();
    let mut device = Device::new(&config(Some(&hpb)));
    let idn = Flag::WriteBooster.byte();
    for (opcode, then) in [
        (QueryOpcode::SetFlag, true),
        (QueryOpcode::SetFlag, true),
        (QueryOpcode::ClearFlag, false),
        (QueryOpcode::ToggleFlag, true),
        (QueryOpcode::ToggleFlag, false),
    ] {
        let response = ask(&mut device, opcode, idn, 0, 0).response;
        assert_eq!((response.code, response.query.flag()), (QueryCode::Success, then), "{opcode:?}");
        assert_eq!(flag(&mut device, Flag::WriteBooster), Some(then), "{opcode:?}");
    }
}

#[test]
fn hpb_reset_clears_itself_and_is_handed_on_once() {
    let hpb = hpb();
    let mut device = Device::new(&config(Some(&hpb)));
    let idn = Flag::HpbReset.byte();
    assert!(!device.take_hpb_reset());
    assert_eq!(code(&mut device, QueryOpcode::SetFlag, idn, 0, 0), QueryCode::Success);
    assert_eq!(flag(&mut device, Flag::HpbReset), Some(false));
    assert!(device.take_hpb_reset() && !device.take_hpb_reset());
    for opcode in [QueryOpcode::ClearFlag, QueryOpcode::ToggleFlag] {
        assert_eq!(code(&mut device, opcode, idn, 0, 0), QueryCode::NotWriteable);
    }
    assert!(!device.take_hpb_reset());
}

#[test]
fn an_attribute_is_written_within_its_range_or_not_at_all() {
    let hpb = hpb();
    let mut device = Device::new(&config(Some(&hpb)));
    let level = Attribute::ActiveCurrentLevel;
    assert_eq!(code(&mut device, QueryOpcode::WriteAttribute, level.byte(), 0, 0x0f), QueryCode::Success);
    assert_eq!(code(&mut device, QueryOpcode::WriteAttribute, level.byte(), 0, 0x10), QueryCode::InvalidValue);
    assert_eq!(attribute(&mut device, level), Some(0x0f));
    for only_read in [Attribute::HpbSingleCommandSize, Attribute::WriteBoosterSize, Attribute::PowerMode] {
        assert_eq!(code(&mut device, QueryOpcode::WriteAttribute, only_read.byte(), 0, 0), QueryCode::NotWriteable);
    }
}

#[test]
fn what_there_is_not_is_answered_with_its_own_code() {
    let hpb = hpb();
    let mut device = Device::new(&config(Some(&hpb)));
    let (read, write) = (QueryOpcode::ReadDescriptor, QueryOpcode::WriteDescriptor);
    let unit = DescriptorIdn::Unit.byte();
    for (opcode, idn, index, expected) in [
        (read, 0x03, 0, QueryCode::InvalidIdn),
        (read, DescriptorIdn::String.byte(), 0, QueryCode::InvalidIdn),
        (read, DescriptorIdn::Geometry.byte(), 1, QueryCode::InvalidIndex),
        (read, unit, 8, QueryCode::InvalidIndex),
        (write, unit, 0, QueryCode::NotWriteable),
        (write, unit, 8, QueryCode::InvalidIndex),
        (QueryOpcode::ReadFlag, 0x00, 0, QueryCode::InvalidIdn),
        (QueryOpcode::ReadFlag, Flag::Hpb.byte(), 1, QueryCode::InvalidIndex),
        (QueryOpcode::SetFlag, Flag::Purge.byte(), 0, QueryCode::InvalidIdn),
        (QueryOpcode::ReadAttribute, 0xff, 0, QueryCode::InvalidIdn),
        (QueryOpcode::WriteAttribute, Attribute::EventControl.byte(), 1, QueryCode::InvalidIndex),
    ] {
        assert_eq!(code(&mut device, opcode, idn, index, 0), expected, "{opcode:?} {idn:#x} {index}");
    }
    let mut request = request(read, 0, 0, 0);
    request.query.selector = 1;
    assert_eq!(device.answer(&request).response.code, QueryCode::InvalidSelector);
}

#[test]
fn a_descriptor_is_cut_to_the_length_asked_for() {
    let mut device = Device::new(&config(None));
    let whole = descriptor(&mut device, DescriptorIdn::Device, 0);
    for length_bytes in [0, 2, 88, 89, 90, u16::MAX] {
        let mut request = request(QueryOpcode::ReadDescriptor, 0, 0, 0);
        request.query.length_bytes = length_bytes;
        let answer = device.answer(&request);
        let expected = whole.len().min(length_bytes.into());
        assert_eq!((answer.segment.as_slice(), answer.response.segment_bytes), (&whole[..expected], expected as u16));
    }
}

#[test]
fn the_notes_of_a_descriptor_name_every_field_and_give_its_value() {
    let hpb = hpb();
    let mut device = Device::new(&config(Some(&hpb)));
    let bytes = descriptor(&mut device, DescriptorIdn::Device, 0);
    let value = |name: &str| {
        let note = DeviceDescriptor::NOTES.iter().find(|note| note.name() == name).unwrap();
        (note.at, note.value(&bytes))
    };
    assert_eq!(value("bLength"), (0x00, 0x59));
    assert_eq!(value("wSpecVersion"), (0x10, 0x0310));
    assert_eq!(value("dExtendedUFSFeaturesSupport"), (0x4f, 0x180));
    let notes = DeviceDescriptor::NOTES.iter().chain(&GeometryDescriptor::NOTES).chain(&UnitDescriptor::NOTES);
    for note in notes {
        let (name, meaning) = (note.name(), note.meaning());
        assert!(name.starts_with(['b', 'w', 'd', 'q', 'i']) && name.len() > 4, "{name}");
        assert!(!meaning.contains('[') && !meaning.ends_with('.'), "{name}: {meaning}");
    }
}

fn requests() -> impl Strategy<Value = QueryRequest> {
    // The defined codes are small numbers.
    let byte = || prop_oneof![3 => 0..0x30u8, 1 => any::<u8>()];
    let number = prop_oneof![0..=0x20u32, any::<u32>()];
    (select(QueryOpcode::ALL), byte(), prop_oneof![4 => Just(0), 1 => byte()], 0..2u8, any::<u16>(), number).prop_map(
        |(opcode, idn, index, selector, length_bytes, value)| {
            let query = Query { opcode, idn, index, selector, length_bytes, value };
            QueryRequest { task_tag: 1, query, segment_bytes: 0 }
        },
    )
}

fn configurations() -> impl Strategy<Value = (Configuration<'static>, Option<HpbConfig>)> {
    let unit = (any::<u64>(), any::<bool>()).prop_map(|(bytes, hpb)| Unit { bytes, hpb });
    let hpb = proptest::option::of((any::<[u32; 6]>(), any::<bool>()));
    let units = proptest::collection::vec(unit, 0..MOST_UNITS + 3);
    (any::<[u64; 2]>(), any::<u16>(), 0..32u32, 0..32u32, any::<u32>(), units, hpb, proptest::option::of(any::<u64>()))
        .prop_map(
            |([capacity_bytes, erase_block_bytes], spec_version, block, page, queue_depth, units, hpb, booster)| {
                let hpb = hpb.map(|(numbers, second)| HpbConfig {
                    version: if second { Version::V2 } else { Version::V1 },
                    subregion_pages: numbers[0],
                    region_subregions: numbers[1],
                    max_active_regions: numbers[2],
                    pinned: (numbers[3], numbers[4]),
                    single_command_pages: numbers[5],
                    ..HpbConfig::plain(1 << 16)
                });
                let config = Configuration {
                    spec_version,
                    capacity_bytes,
                    logical_block_bytes: 1 << block,
                    page_bytes: 1 << page,
                    erase_block_bytes,
                    queue_depth,
                    unmapped_are_zeroes: page % 2 == 0,
                    units,
                    hpb: None,
                    write_booster: booster.map(|bytes| WriteBooster { bytes }),
                };
                (config, hpb)
            },
        )
}

proptest! {
    #[test]
    fn no_query_makes_a_device_panic_and_one_that_reads_or_fails_changes_nothing(
        (config, hpb) in configurations(),
        requests in proptest::collection::vec(requests(), 1..40),
    ) {
        let mut device = Device::new(&Configuration { hpb: hpb.as_ref(), ..config });
        for request in requests {
            let before = device.clone();
            let bytes = device.answer_bytes(&request.encode()).expect("a query request");
            let response = QueryResponse::decode(&bytes).expect("a query response");
            let segment = data_segment(&bytes).expect("its data segment");
            prop_assert_eq!(response.task_tag, request.task_tag);
            prop_assert_eq!((response.query.opcode, response.query.idn), (request.query.opcode, request.query.idn));
            prop_assert_eq!(usize::from(response.query.length_bytes), segment.len());
            prop_assert!(segment.len() <= usize::from(request.query.length_bytes));
            let reads = request.query.opcode.function() == 0x01;
            if reads || response.code != QueryCode::Success {
                prop_assert_eq!(&device, &before);
            }
            if response.code == QueryCode::Success && reads {
                prop_assert_eq!(device.answer_bytes(&request.encode()), Ok(bytes));
            }
        }
    }

    #[test]
    fn no_bytes_make_a_device_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mut device = Device::new(&config(None));
        if device.answer_bytes(&bytes).is_err() {
            prop_assert_eq!(device, Device::new(&config(None)));
        }
    }
}
