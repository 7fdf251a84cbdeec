//! The device's side of queries: its descriptors, flags and attributes, as a host reads and sets them.
//!
//! What is not here does not exist on this device, and a query for it is answered so: no strings, no configuration,
//! power or health descriptor, no purge, no write protection.
//!
//! Knows what was configured and what the host has set. Does not know time, flash or data: an attribute whose value
//! would follow the drive's work stands as it is at power-on.
//!
//! Invariant: a query that reads changes nothing, and no query makes it panic.
//!
//! Sources: JESD220 (3.1) 10.7.9 (response codes), 14.2 (flags), 14.3 (attributes), JESD220-3 for HPB. Which flags and
//! attributes may be written, and what they hold at power-on, is recalled.

use super::descriptor::{DeviceDescriptor, GeometryDescriptor, HpbControl, LuEnable, UnitDescriptor, WriteBoosterType};
use super::query::{Attribute, DescriptorIdn, Flag, FlushStatus, QueryCode, QueryOpcode};
use super::upiu::{QueryRequest, QueryResponse, with_data_segment};
use super::wire::WireError;
use crate::device::hpb::{Control, HpbConfig};

/// The unit of most sizes in the geometry descriptor.
const SECTOR: u64 = 512;
/// dSegmentSize: 4 MiB, so that an allocation unit is one segment.
const SEGMENT_SECTORS: u32 = 8192;
/// Bytes of an allocation unit, in which WriteBooster's buffer is counted.
pub const ALLOCATION_UNIT_BYTES: u64 = SEGMENT_SECTORS as u64 * SECTOR;
/// What [`Attribute::HpbSingleCommandSize`] counts in.
const HPB_COMMAND_BYTES: u64 = 4096;
/// Logical units that a device can have.
pub const MOST_UNITS: usize = 32;
/// That it has where bMaxNumberLU is 00h.
const FEW_UNITS: usize = 8;
/// bCurrentPowerMode: active.
const ACTIVE: u32 = 0x11;
/// bInitActiveICCLevel and bActiveICCLevel, at most.
const MOST_CURRENT_LEVEL: u32 = 0x0f;
/// bRefClkFreq: 00h 19.2, 01h 26, 02h 38.4, 03h 52 MHz.
const MOST_REFERENCE_CLOCK: u32 = 0x03;

/// A logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its size.
    pub bytes: u64,
    /// Whether it has HPB. Counts only where the device has it.
    pub hpb: bool,
}

/// A WriteBooster buffer that all units share and that takes no user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBooster {
    /// Its size, told in whole allocation units.
    pub bytes: u64,
}

/// What a device is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration<'a> {
    /// wSpecVersion: 0310h is 3.1.
    pub spec_version: u16,
    /// What all units have together.
    pub capacity_bytes: u64,
    /// The smallest amount that a host may address: a power of two, 4096 at least.
    pub logical_block_bytes: u32,
    /// The page of the mapping table, in which [`HpbConfig`] counts; a power of two.
    pub page_bytes: u32,
    /// What is erased at a time.
    pub erase_block_bytes: u64,
    /// Commands of the queue that all units share.
    pub queue_depth: u32,
    /// Whether unmapped blocks read as zeroes.
    pub unmapped_are_zeroes: bool,
    /// Logical units, [`MOST_UNITS`] at most; what is beyond is not there.
    pub units: Vec<Unit>,
    /// Host Performance Booster, if the device has it.
    pub hpb: Option<&'a HpbConfig>,
    /// WriteBooster, if it has it.
    pub write_booster: Option<WriteBooster>,
}

/// A device between two queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    device: DeviceDescriptor,
    geometry: GeometryDescriptor,
    units: Vec<UnitDescriptor>,
    hpb_single_command: u32,
    background_operations: bool,
    hpb: bool,
    write_booster: bool,
    write_booster_flush: bool,
    write_booster_flush_in_hibernate: bool,
    current_level: u32,
    reference_clock: u32,
    event_control: u32,
    hpb_reset_asked: bool,
}

/// A response and its data segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The response.
    pub response: QueryResponse,
    /// A descriptor that was read, or nothing.
    pub segment: Vec<u8>,
}

impl Answer {
    /// As it goes over the link.
    pub fn encode(&self) -> Vec<u8> {
        with_data_segment(self.response.encode(), &self.segment)
    }
}

/// As much of `value` as a field holds.
fn word(value: u64) -> u16 {
    value.min(u16::MAX.into()) as u16
}

fn double(value: u64) -> u32 {
    value.min(u32::MAX.into()) as u32
}

/// The x of 512 · 2^x bytes, rounded down; 0 for none.
fn exponent(bytes: u64) -> u8 {
    (bytes / SECTOR).checked_ilog2().unwrap_or(0) as u8
}

impl Configuration<'_> {
    fn region_bytes(&self) -> Option<u64> {
        self.hpb.map(|hpb| u64::from(hpb.region_pages()) * u64::from(self.page_bytes))
    }

    /// Units with HPB.
    fn with_hpb(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().take(MOST_UNITS).filter(|unit| self.hpb.is_some() && unit.hpb)
    }

    fn device(&self) -> DeviceDescriptor {
        let feature = |there, bit| if there { bit } else { 0 };
        let features = feature(self.hpb.is_some(), DeviceDescriptor::HPB)
            | feature(self.write_booster.is_some(), DeviceDescriptor::WRITEBOOSTER);
        DeviceDescriptor {
            // Neither boot units nor RPMB, and so two well-known units: REPORT LUNS and the device.
            device_sub_class: 0x05,
            lus: self.units.len().min(MOST_UNITS) as u8,
            well_known_lus: 2,
            initial_power_mode: 0x01,
            high_priority_lun: 0x7f,
            spec_version: self.spec_version,
            ready_to_transfer_limit: 2,
            // The older list holds the first eight bits; Linux looks for HPB there.
            features: features as u8,
            queue_depth: self.queue_depth.min(u8::MAX.into()) as u8,
            hpb_version: self.hpb.map_or(0, |hpb| hpb.version.bcd()),
            hpb_control: self.hpb.map_or(0, |hpb| {
                match hpb.control {
                    Control::Host => HpbControl::Host,
                    Control::Device => HpbControl::Device,
                }
                .byte()
            }),
            extended_features: features,
            writebooster_preserves_space: self.write_booster.is_some().into(),
            writebooster_type: self.write_booster.map_or(0, |_| WriteBoosterType::Shared.byte()),
            writebooster_shared_units: self.write_booster_units(),
            ..DeviceDescriptor::default()
        }
    }

    fn write_booster_units(&self) -> u32 {
        self.write_booster.map_or(0, |booster| double(booster.bytes / ALLOCATION_UNIT_BYTES))
    }

    /// What a write that fills pages has, as far as a byte counts sectors.
    fn optimal_write_sectors(&self) -> u8 {
        let page = self.page_bytes.max(self.logical_block_bytes);
        (u64::from(page) / SECTOR).min(128) as u8
    }

    fn geometry(&self) -> GeometryDescriptor {
        let block_sectors = (u64::from(self.logical_block_bytes) / SECTOR).min(128) as u8;
        let geometry = GeometryDescriptor {
            total_512: self.capacity_bytes / SECTOR,
            max_lus: (self.units.len() > FEW_UNITS).into(),
            segment_512: SEGMENT_SECTORS,
            allocation_unit_segments: 1,
            min_block_512: block_sectors,
            optimal_write_512: self.optimal_write_sectors(),
            max_in_buffer_512: block_sectors,
            max_out_buffer_512: block_sectors,
            max_contexts: 5,
            memory_types: 0x0001,
            ..GeometryDescriptor::default()
        };
        let geometry = match self.hpb {
            Some(hpb) => GeometryDescriptor {
                hpb_region_exponent: self.region_bytes().map_or(0, exponent),
                hpb_max_lus: self.with_hpb().count() as u8,
                hpb_subregion_exponent: exponent(u64::from(hpb.subregion_pages) * u64::from(self.page_bytes)),
                hpb_max_active_regions: word(hpb.max_active_regions.into()),
                ..geometry
            },
            None => geometry,
        };
        match self.write_booster {
            Some(_) => GeometryDescriptor {
                writebooster_max_units: self.write_booster_units(),
                writebooster_max_lus: 1,
                writebooster_space_modes: 0x01,
                writebooster_types: WriteBoosterType::Shared.byte(),
                ..geometry
            },
            None => geometry,
        }
    }

    fn unit(&self, number: usize, unit: &Unit) -> UnitDescriptor {
        let block = u64::from(self.logical_block_bytes.max(1));
        let plain = UnitDescriptor {
            unit: number as u8,
            lu_enable: LuEnable::Enabled.byte(),
            // What had been written survives a cut during a later write; `nandlab cuts` holds the drive to it.
            data_reliability: 0x01,
            logical_block_exponent: block.ilog2() as u8,
            logical_blocks: unit.bytes / block,
            erase_blocks: double(self.erase_block_bytes / block),
            provisioning_type: if self.unmapped_are_zeroes { 0x03 } else { 0x02 },
            physical_units: unit.bytes / (u64::from(self.optimal_write_sectors()).max(1) * SECTOR),
            ..UnitDescriptor::default()
        };
        let (Some(hpb), Some(region), true) = (self.hpb, self.region_bytes(), unit.hpb) else { return plain };
        let (first, pinned) = if number == 0 { hpb.pinned } else { (0, 0) };
        UnitDescriptor {
            lu_enable: LuEnable::EnabledWithHpb.byte(),
            hpb_max_active_regions: word(u64::from(hpb.max_active_regions).min(unit.bytes.div_ceil(region.max(1)))),
            hpb_pinned_start: word(first.into()),
            hpb_pinned_regions: word(pinned.into()),
            ..plain
        }
    }

    /// The value of bMaxDataSizeForHPBSingleCmd, from what the host sends as one HPB READ at most.
    fn hpb_single_command(&self) -> u32 {
        let pages = self.hpb.map_or(1, HpbConfig::most_pages);
        let bytes = u64::from(pages) * u64::from(self.page_bytes);
        (bytes / HPB_COMMAND_BYTES).clamp(1, 256) as u32 - 1
    }
}

impl Device {
    /// A device after power-on and fDeviceInit. HPB is on where there is any, WriteBooster off: the host turns it on.
    pub fn new(config: &Configuration<'_>) -> Device {
        let units = config.units.iter().take(MOST_UNITS).enumerate();
        Device {
            device: config.device(),
            geometry: config.geometry(),
            units: units.map(|(number, unit)| config.unit(number, unit)).collect(),
            hpb_single_command: config.hpb_single_command(),
            background_operations: true,
            hpb: config.hpb.is_some(),
            write_booster: false,
            write_booster_flush: false,
            write_booster_flush_in_hibernate: false,
            current_level: 0,
            reference_clock: 0,
            event_control: 0,
            hpb_reset_asked: false,
        }
    }

    /// Answers the bytes of a query, with bytes.
    /// Errors: they are no query request, for which a device has no query response.
    pub fn answer_bytes(&mut self, upiu: &[u8]) -> Result<Vec<u8>, WireError> {
        Ok(self.answer(&QueryRequest::decode(upiu)?).encode())
    }

    /// Answers a query. One that fails changes nothing and brings nothing. The data of a descriptor to be written are
    /// not looked at, for none of these can be.
    pub fn answer(&mut self, request: &QueryRequest) -> Answer {
        let mut query = request.query;
        let mut segment = Vec::new();
        let code = match self.query(request, &mut segment) {
            Ok(value) => {
                query.value = value;
                query.length_bytes = segment.len() as u16;
                QueryCode::Success
            }
            Err(code) => {
                query.length_bytes = 0;
                code
            }
        };
        let segment_bytes = segment.len() as u16;
        Answer { response: QueryResponse { task_tag: request.task_tag, code, query, segment_bytes }, segment }
    }

    /// Whether the host has set fHPBReset since this was last asked. Whoever carries the queries forgets what is
    /// active.
    pub fn take_hpb_reset(&mut self) -> bool {
        std::mem::take(&mut self.hpb_reset_asked)
    }

    /// The value after a query, and a descriptor into `segment`. The identifier is looked at before index and selector,
    /// for which ones there are depends on it.
    fn query(&mut self, request: &QueryRequest, segment: &mut Vec<u8>) -> Result<u32, QueryCode> {
        let query = &request.query;
        match query.opcode {
            QueryOpcode::ReadDescriptor => {
                let mut bytes = self.descriptor(query.idn, query.index)?;
                no_selector(query.selector)?;
                bytes.truncate(query.length_bytes.into());
                *segment = bytes;
                Ok(0)
            }
            QueryOpcode::WriteDescriptor => {
                self.descriptor(query.idn, query.index)?;
                no_selector(query.selector)?;
                Err(QueryCode::NotWriteable)
            }
            QueryOpcode::ReadAttribute | QueryOpcode::WriteAttribute => {
                let attribute = Attribute::from_byte(query.idn).ok_or(QueryCode::InvalidIdn)?;
                let value = self.attribute(attribute).ok_or(QueryCode::InvalidIdn)?;
                of_device(query.index, query.selector)?;
                if query.opcode == QueryOpcode::ReadAttribute {
                    return Ok(value);
                }
                self.write(attribute, query.value)
            }
            QueryOpcode::ReadFlag | QueryOpcode::SetFlag | QueryOpcode::ClearFlag | QueryOpcode::ToggleFlag => {
                let flag = Flag::from_byte(query.idn).ok_or(QueryCode::InvalidIdn)?;
                let value = self.flag(flag).ok_or(QueryCode::InvalidIdn)?;
                of_device(query.index, query.selector)?;
                let value = match query.opcode {
                    QueryOpcode::SetFlag => self.put(flag, true)?,
                    QueryOpcode::ClearFlag => self.put(flag, false)?,
                    // What can only be set cannot be turned over.
                    QueryOpcode::ToggleFlag if matches!(flag, Flag::DeviceInit | Flag::HpbReset) => {
                        return Err(QueryCode::NotWriteable);
                    }
                    QueryOpcode::ToggleFlag => self.put(flag, !value)?,
                    _ => value,
                };
                Ok(value.into())
            }
        }
    }

    /// A descriptor's bytes. A unit that could be but is not there has one that says so.
    fn descriptor(&self, idn: u8, index: u8) -> Result<Vec<u8>, QueryCode> {
        let only = |bytes: &[u8]| if index == 0 { Ok(bytes.to_vec()) } else { Err(QueryCode::InvalidIndex) };
        match DescriptorIdn::from_byte(idn) {
            Some(DescriptorIdn::Device) => only(&self.device.encode()),
            Some(DescriptorIdn::Geometry) => only(&self.geometry.encode()),
            Some(DescriptorIdn::Unit) => match self.units.get(usize::from(index)) {
                Some(unit) => Ok(unit.encode().to_vec()),
                None if usize::from(index) < self.geometry.unit_limit() => {
                    Ok(UnitDescriptor { unit: index, ..UnitDescriptor::default() }.encode().to_vec())
                }
                None => Err(QueryCode::InvalidIndex),
            },
            _ => Err(QueryCode::InvalidIdn),
        }
    }

    /// An attribute as it stands; `None`: the device has none such.
    fn attribute(&self, attribute: Attribute) -> Option<u32> {
        let (has_hpb, has_writebooster) = (self.device.has_hpb(), self.device.has_writebooster());
        Some(match attribute {
            Attribute::PowerMode => ACTIVE,
            Attribute::BackgroundStatus | Attribute::EventStatus => 0,
            Attribute::ActiveCurrentLevel => self.current_level,
            Attribute::ReferenceClock => self.reference_clock,
            Attribute::EventControl => self.event_control,
            Attribute::HpbSingleCommandSize if has_hpb => self.hpb_single_command,
            Attribute::WriteBoosterFlushStatus if has_writebooster => FlushStatus::Idle.byte().into(),
            // All of it, in tenths.
            Attribute::WriteBoosterAvailable if has_writebooster => 10,
            // Up to a tenth of its life is used.
            Attribute::WriteBoosterLife if has_writebooster => 1,
            Attribute::WriteBoosterSize if has_writebooster => self.device.writebooster_shared_units,
            _ => return None,
        })
    }

    fn write(&mut self, attribute: Attribute, value: u32) -> Result<u32, QueryCode> {
        let (place, most) = match attribute {
            Attribute::ActiveCurrentLevel => (&mut self.current_level, MOST_CURRENT_LEVEL),
            Attribute::ReferenceClock => (&mut self.reference_clock, MOST_REFERENCE_CLOCK),
            Attribute::EventControl => (&mut self.event_control, u16::MAX.into()),
            _ => return Err(QueryCode::NotWriteable),
        };
        if value > most {
            return Err(QueryCode::InvalidValue);
        }
        *place = value;
        Ok(value)
    }

    /// A flag as it stands; `None`: the device has none such.
    fn flag(&self, flag: Flag) -> Option<bool> {
        let (has_hpb, has_writebooster) = (self.device.has_hpb(), self.device.has_writebooster());
        Some(match flag {
            Flag::DeviceInit => false,
            Flag::BackgroundOperations => self.background_operations,
            Flag::WriteBooster if has_writebooster => self.write_booster,
            Flag::WriteBoosterFlush if has_writebooster => self.write_booster_flush,
            Flag::WriteBoosterFlushInHibernate if has_writebooster => self.write_booster_flush_in_hibernate,
            Flag::HpbReset if has_hpb => false,
            Flag::Hpb if has_hpb => self.hpb,
            _ => return None,
        })
    }

    /// Puts a flag that the device has, and returns it as it is then: one that starts something is clear again.
    fn put(&mut self, flag: Flag, value: bool) -> Result<bool, QueryCode> {
        let place = match flag {
            Flag::BackgroundOperations => &mut self.background_operations,
            Flag::WriteBooster => &mut self.write_booster,
            Flag::WriteBoosterFlush => &mut self.write_booster_flush,
            Flag::WriteBoosterFlushInHibernate => &mut self.write_booster_flush_in_hibernate,
            Flag::Hpb => &mut self.hpb,
            Flag::DeviceInit if value => return Ok(false),
            Flag::HpbReset if value => {
                self.hpb_reset_asked = true;
                return Ok(false);
            }
            _ => return Err(QueryCode::NotWriteable),
        };
        *place = value;
        Ok(value)
    }
}

fn no_selector(selector: u8) -> Result<(), QueryCode> {
    if selector == 0 { Ok(()) } else { Err(QueryCode::InvalidSelector) }
}

/// Flags and attributes here are the device's: index and selector are 0.
fn of_device(index: u8, selector: u8) -> Result<(), QueryCode> {
    if index != 0 {
        return Err(QueryCode::InvalidIndex);
    }
    no_selector(selector)
}
