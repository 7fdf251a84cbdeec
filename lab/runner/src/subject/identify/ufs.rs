//! Identification of a UFS device: descriptors, flags and attributes, read by queries.
//!
//! The host begins as Linux does: it enables WriteBooster if there is one. Then it only reads.

use serde_json::{Value, json};
use ssd::device::ufs::query::{hpb_single_command_bytes, writebooster_available_percent};
use ssd::device::ufs::upiu::data_segment;
use ssd::device::ufs::{
    Attribute, DescriptorIdn, Device, DeviceDescriptor, Flag, GeometryDescriptor, LuEnable, Note, Query, QueryCode,
    QueryOpcode, QueryRequest, QueryResponse, UnitDescriptor,
};

use crate::subject::{Drive, ufs};

/// Flags to read: name, and meaning when set.
const FLAGS: [(Flag, &str, &str); 3] = [
    (Flag::Hpb, "fHPBEn", "HPB commands are taken"),
    (Flag::WriteBooster, "fWriteBoosterEn", "writes go through the WriteBooster buffer"),
    (Flag::WriteBoosterFlush, "fWBBufferFlushEn", "the device empties the buffer while it is idle"),
];

/// Attributes to read.
const ATTRIBUTES: [(Attribute, &str); 3] = [
    (Attribute::HpbSingleCommandSize, "bMaxDataSizeForHPBSingleCmd"),
    (Attribute::WriteBoosterSize, "dCurrentWriteBoosterBufferSize"),
    (Attribute::WriteBoosterAvailable, "bAvailableWriteBoosterBufferSize"),
];

/// Meaning of an attribute's value. The size of the WriteBooster buffer is in allocation units.
fn meaning(attribute: Attribute, value: u32, allocation_unit_bytes: u64) -> String {
    match attribute {
        Attribute::HpbSingleCommandSize => {
            let kib = hpb_single_command_bytes(value as u8) / 1024;
            format!("a read of up to {kib} KiB takes a single HPB entry")
        }
        Attribute::WriteBoosterSize => {
            let mib = u64::from(value) * allocation_unit_bytes / (1 << 20);
            format!("allocation units of the WriteBooster buffer: {mib} MiB")
        }
        Attribute::WriteBoosterAvailable => match writebooster_available_percent(value as u8) {
            Some(percent) => format!("{percent} % of the WriteBooster buffer is free"),
            None => "reserved".to_owned(),
        },
        _ => String::new(),
    }
}

/// A query and its response, as sent over the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Query Request UPIU.
    pub request: Vec<u8>,
    /// Query Response UPIU with its data segment.
    pub response: Vec<u8>,
}

impl Exchange {
    fn new(device: &mut Device, opcode: QueryOpcode, idn: u8, index: u8) -> Exchange {
        // A host that does not know a descriptor's length requests the maximum.
        let length_bytes = if opcode == QueryOpcode::ReadDescriptor { u8::MAX.into() } else { 0 };
        let query = Query { opcode, idn, index, selector: 0, length_bytes, value: 0 };
        let request = QueryRequest { task_tag: 0, query, segment_bytes: 0 }.encode();
        let response = device.answer_bytes(&request).expect("a query request is one");
        Exchange { request: request.to_vec(), response }
    }

    /// The query repeated in the response, with its value; `None` if it failed or is invalid.
    fn answer(&self) -> Option<Query> {
        let response = QueryResponse::decode(&self.response).ok()?;
        (response.code == QueryCode::Success).then_some(response.query)
    }

    fn descriptor(&self) -> Option<&[u8]> {
        self.answer().and_then(|_| data_segment(&self.response).ok())
    }
}

/// Identification data of a UFS device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    device: Exchange,
    geometry: Exchange,
    units: Vec<Exchange>,
    flags: [Exchange; FLAGS.len()],
    attributes: [Exchange; ATTRIBUTES.len()],
}

/// Decoded identification data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Device descriptor.
    pub device: DeviceDescriptor,
    /// Geometry descriptor: sizes and limits.
    pub geometry: GeometryDescriptor,
    /// Descriptors of the enabled logical units, in order.
    pub units: Vec<UnitDescriptor>,
    flags: [Option<bool>; FLAGS.len()],
    attributes: [Option<u32>; ATTRIBUTES.len()],
}

impl Read {
    /// A flag; `None` if the device lacks it or it was not read.
    pub fn flag(&self, flag: Flag) -> Option<bool> {
        self.flags[FLAGS.iter().position(|&(asked, ..)| asked == flag)?]
    }

    /// An attribute; `None` if the device lacks it or it was not read.
    pub fn attribute(&self, attribute: Attribute) -> Option<u32> {
        self.attributes[ATTRIBUTES.iter().position(|&(asked, _)| asked == attribute)?]
    }
}

/// Reads the identification data of an experiment's UFS device.
pub fn answers(drive: &Drive) -> Answers {
    let mut device = Device::new(&ufs::configuration(drive));
    let mut query = |opcode, idn, index| Exchange::new(&mut device, opcode, idn, index);
    if let Some(booster) = drive.section.write_booster.as_ref().filter(|booster| booster.mib > 0.0) {
        query(QueryOpcode::SetFlag, Flag::WriteBooster.byte(), 0);
        let flush = if booster.flush { QueryOpcode::SetFlag } else { QueryOpcode::ClearFlag };
        query(flush, Flag::WriteBoosterFlush.byte(), 0);
    }
    let read = QueryOpcode::ReadDescriptor;
    let geometry = query(read, DescriptorIdn::Geometry.byte(), 0);
    let limit = geometry.descriptor().and_then(|bytes| GeometryDescriptor::decode(bytes).ok());
    let units = (0..limit.map_or(0, |geometry| geometry.unit_limit()))
        .map(|lun| query(read, DescriptorIdn::Unit.byte(), lun as u8))
        .filter(|unit| unit_of(unit).is_some_and(|unit| unit.enabled() != Some(LuEnable::Disabled)))
        .collect();
    Answers {
        device: query(read, DescriptorIdn::Device.byte(), 0),
        geometry,
        units,
        flags: FLAGS.map(|(flag, ..)| query(QueryOpcode::ReadFlag, flag.byte(), 0)),
        attributes: ATTRIBUTES.map(|(attribute, _)| query(QueryOpcode::ReadAttribute, attribute.byte(), 0)),
    }
}

fn unit_of(exchange: &Exchange) -> Option<UnitDescriptor> {
    UnitDescriptor::decode(exchange.descriptor()?).ok()
}

impl Answers {
    /// Decodes the data as a host does; `None` if they are invalid.
    pub fn read(&self) -> Option<Read> {
        Some(Read {
            device: DeviceDescriptor::decode(self.device.descriptor()?).ok()?,
            geometry: GeometryDescriptor::decode(self.geometry.descriptor()?).ok()?,
            units: self.units.iter().map(unit_of).collect::<Option<_>>()?,
            flags: self.flags.each_ref().map(|exchange| exchange.answer().map(|query| query.flag())),
            attributes: self.attributes.each_ref().map(|exchange| exchange.answer().map(|query| query.value)),
        })
    }

    /// The descriptors as files.
    pub(super) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = |exchange: &Exchange| exchange.descriptor().unwrap_or_default().to_vec();
        let units = self.units.iter().map(|unit| {
            let lun = unit_of(unit).map_or(0, |unit| unit.unit);
            (format!("unit-{lun}.bin"), bytes(unit))
        });
        let device =
            [("device.bin".to_owned(), bytes(&self.device)), ("geometry.bin".to_owned(), bytes(&self.geometry))];
        device.into_iter().chain(units).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A descriptor in the document: its bytes, and its fields with their offsets.
fn descriptor(name: &str, index: u8, exchange: &Exchange, notes: &[Note]) -> Value {
    let bytes = exchange.descriptor().unwrap_or_default();
    let fields: Vec<_> = notes
        .iter()
        .map(|note| {
            let (name, meaning) = (note.name(), note.meaning());
            json!({"offset": note.at, "bytes": note.bytes, "name": name, "value": note.value(bytes), "meaning": meaning})
        })
        .collect();
    let [request, response] = [&exchange.request, &exchange.response].map(|bytes| hex(bytes));
    json!({"name": name, "index": index, "request": request, "response": response, "bytes": hex(bytes), "fields": fields})
}

/// Decodes the data as a host does; `null` if they are invalid.
pub(super) fn document(answers: &Answers) -> Value {
    let Some(read) = answers.read() else { return Value::Null };
    let (device, geometry) = (&read.device, &read.geometry);
    let mut descriptors = vec![
        descriptor("device", 0, &answers.device, &DeviceDescriptor::NOTES),
        descriptor("geometry", 0, &answers.geometry, &GeometryDescriptor::NOTES),
    ];
    for (exchange, unit) in answers.units.iter().zip(&read.units) {
        descriptors.push(descriptor("unit", unit.unit, exchange, &UnitDescriptor::NOTES));
    }
    let units = read.units.iter().map(|unit| {
        let block_bytes = unit.logical_block_bytes();
        json!({
            "lun": unit.unit,
            "bytes": block_bytes.map(|bytes| u64::from(bytes) * unit.logical_blocks),
            "logical_block_bytes": block_bytes,
            "hpb": unit.enabled() == Some(LuEnable::EnabledWithHpb),
        })
    });
    let flags = FLAGS.iter().zip(&answers.flags).zip(read.flags).map(|((&(flag, name, meaning), exchange), value)| {
        let [request, response] = [&exchange.request, &exchange.response].map(|bytes| hex(bytes));
        json!({
            "name": name, "idn": flag.byte(), "value": value, "meaning": meaning,
            "request": request, "response": response,
        })
    });
    let unit_bytes = geometry.allocation_unit_bytes();
    let attributes = ATTRIBUTES.iter().zip(&answers.attributes).zip(read.attributes).map(
        |((&(attribute, name), exchange), value)| {
            let [request, response] = [&exchange.request, &exchange.response].map(|bytes| hex(bytes));
            json!({
                "name": name, "idn": attribute.byte(), "bytes": attribute.bytes(), "value": value,
                "meaning": value.map(|value| meaning(attribute, value, unit_bytes)),
                "request": request, "response": response,
            })
        },
    );
    json!({
        "protocol": "ufs",
        "spec_version": format!("{}.{}", device.spec_version >> 8, device.spec_version >> 4 & 0xf),
        "bytes": geometry.total_512 * 512,
        "queue_depth": device.queue_depth,
        "hpb": device.has_hpb().then(|| json!({
            "version": format!("{}.{}", device.hpb_version >> 8, device.hpb_version >> 4 & 0xf),
            "control": device.control().map(|control| format!("{control:?}").to_lowercase()),
            "region_bytes": geometry.hpb_region_bytes(),
            "subregion_bytes": geometry.hpb_subregion_bytes(),
            "max_active_regions": geometry.hpb_max_active_regions,
        })),
        "write_booster": device.has_writebooster().then(|| json!({
            "bytes": u64::from(device.writebooster_shared_units) * unit_bytes,
        })),
        "units": units.collect::<Vec<_>>(),
        "descriptors": descriptors,
        "flags": flags.collect::<Vec<_>>(),
        "attributes": attributes.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Experiment;

    fn of(sets: &[(&str, &str)]) -> Drive {
        let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let text = "title = 't'\n[ssd]\npart = 'ufs-2.1'\n[workload]\nrequests = 1\n";
        Drive::build(&Experiment::resolve(text, &sets).unwrap().ssd.unwrap(), 1).unwrap()
    }

    #[test]
    fn the_specification_follows_the_link_and_is_three_one_at_least_with_hpb() {
        for (link, hpb, expected) in [
            ("1166", false, "2.1"),
            ("1166", true, "3.1"),
            ("2332", false, "3.1"),
            ("4200", true, "4.0"),
            ("0", false, "3.1"),
        ] {
            let mut sets = vec![("ssd.front.link_mb_s", link)];
            if hpb {
                sets.push(("ssd.hpb.control", "device"));
            }
            assert_eq!(document(&answers(&of(&sets)))["spec_version"], expected, "{link} MB/s, HPB {hpb}");
        }
    }

    #[test]
    fn what_the_experiment_says_comes_out_of_the_bytes() {
        let ssd = of(&[
            ("ssd.hpb.version", "'2.0'"),
            ("ssd.hpb.control", "host"),
            ("ssd.hpb.single_command_kib", "256"),
            ("ssd.hpb.lus", "[{ mib = 1024, hpb = false }, { mib = 0, hpb = true }]"),
            ("ssd.write_booster.mib", "512"),
            ("ssd.write_booster.flush", "false"),
        ]);
        let answers = document(&answers(&ssd));
        assert_eq!(answers["hpb"]["control"], "host");
        assert_eq!((&answers["hpb"]["version"], &answers["hpb"]["region_bytes"]), (&"2.0".into(), &(16 << 20).into()));
        assert_eq!((&answers["units"][0]["hpb"], &answers["units"][1]["hpb"]), (&false.into(), &true.into()));
        let sizes: Vec<_> = (0..2).map(|lun| answers["units"][lun]["bytes"].as_u64().unwrap()).collect();
        assert_eq!((sizes[0], sizes.iter().sum::<u64>()), (1 << 30, answers["bytes"].as_u64().unwrap()));
        let values =
            |list: &str| answers[list].as_array().unwrap().iter().map(|one| one["value"].clone()).collect::<Vec<_>>();
        assert_eq!(Value::from(values("flags")), json!([true, true, false]));
        assert_eq!(Value::from(values("attributes")), json!([63, 128, 10]));
        assert_eq!(answers["attributes"][1]["meaning"], "allocation units of the WriteBooster buffer: 512 MiB");
        assert_eq!(answers["write_booster"]["bytes"], 1_u64 << 29);
    }

    #[test]
    fn a_device_without_both_answers_that_it_has_no_such_flag() {
        let answers = document(&answers(&of(&[])));
        assert_eq!((&answers["hpb"], &answers["write_booster"]), (&Value::Null, &Value::Null));
        assert!(answers["flags"].as_array().unwrap().iter().all(|flag| flag["value"].is_null()));
        // Byte 6 of a response is its code: invalid identifier.
        assert_eq!(&answers["flags"][0]["response"].as_str().unwrap()[12..14], "fd");
    }
}
