//! Device side of queries: the descriptors, flags and attributes that a host reads and sets.
//!
//! Parameters that are not here do not exist on this device, and queries for them fail: there are no string,
//! configuration, power or health descriptors, no purge and no write protection.
//!
//! Knows the configuration and what the host has set. Does not know time, flash or data: an attribute whose value would
//! depend on the drive's work keeps its value at power-on.
//!
//! Invariant: a query that reads changes nothing, and no query causes a panic.
//!
//! Sources: JESD220 (3.1) 10.7.9 (response codes), 14.2 (flags), 14.3 (attributes), JESD220-3 for HPB. *Recalled*:
//! which flags and attributes are writeable, and their values at power-on.

use super::descriptor::{DeviceDescriptor, GeometryDescriptor, HpbControl, LuEnable, UnitDescriptor, WriteBoosterType};
use super::query::{Attribute, DescriptorIdn, Flag, FlushStatus, QueryCode, QueryOpcode};
use super::upiu::{QueryRequest, QueryResponse, with_data_segment};
use super::wire::WireError;
use crate::device::hpb::{Control, HpbConfig};

/// Unit of most sizes in the geometry descriptor, in bytes.
const SECTOR: u64 = 512;
/// dSegmentSize, in units of 512 bytes: 4 MiB, so that an allocation unit is one segment.
const SEGMENT_SECTORS: u32 = 8192;
/// Size of an allocation unit in bytes; the size of the WriteBooster buffer is in allocation units.
pub const ALLOCATION_UNIT_BYTES: u64 = SEGMENT_SECTORS as u64 * SECTOR;
/// Unit of [`Attribute::HpbSingleCommandSize`] in bytes.
const HPB_COMMAND_BYTES: u64 = 4096;
/// Maximum number of logical units.
pub const MOST_UNITS: usize = 32;
/// Maximum number of logical units if bMaxNumberLU is 00h.
const FEW_UNITS: usize = 8;
/// bCurrentPowerMode: active.
const ACTIVE: u32 = 0x11;
/// Maximum of bInitActiveICCLevel and bActiveICCLevel.
const MOST_CURRENT_LEVEL: u32 = 0x0f;
/// Maximum of bRefClkFreq: 00h is 19.2 MHz, 01h 26 MHz, 02h 38.4 MHz, 03h 52 MHz.
const MOST_REFERENCE_CLOCK: u32 = 0x03;

/// Configuration of a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Size in bytes.
    pub bytes: u64,
    /// Whether HPB is enabled for it. Ignored if the device does not support HPB.
    pub hpb: bool,
}

/// A WriteBooster buffer that all logical units share and that preserves user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBooster {
    /// Size in bytes; the descriptors report whole allocation units, rounded down.
    pub bytes: u64,
}

/// Configuration of a UFS device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration<'a> {
    /// wSpecVersion: 0310h is 3.1.
    pub spec_version: u16,
    /// Total capacity of all logical units in bytes (qTotalRawDeviceCapacity).
    pub capacity_bytes: u64,
    /// Size of a logical block in bytes: a power of two, at least 4096.
    pub logical_block_bytes: u32,
    /// Page size of the mapping table in bytes, the unit of sizes in [`HpbConfig`]: a power of two.
    pub page_bytes: u32,
    /// Size of an erase block in bytes (dEraseBlockSize).
    pub erase_block_bytes: u64,
    /// Depth of the queue that all logical units share (bQueueDepth).
    pub queue_depth: u32,
    /// Whether unmapped blocks read as zeroes (bProvisioningType).
    pub unmapped_are_zeroes: bool,
    /// Logical units; only the first [`MOST_UNITS`] exist on the device.
    pub units: Vec<Unit>,
    /// HPB configuration; `None`: not supported.
    pub hpb: Option<&'a HpbConfig>,
    /// WriteBooster configuration; `None`: not supported.
    pub write_booster: Option<WriteBooster>,
}

/// Query state of a device: descriptors, and the current flags and attributes.
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

/// Query Response UPIU and its data segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Query Response UPIU without its data segment.
    pub response: QueryResponse,
    /// Data segment: the descriptor read, or empty.
    pub segment: Vec<u8>,
}

impl Answer {
    /// Encodes the complete UPIU.
    pub fn encode(&self) -> Vec<u8> {
        with_data_segment(self.response.encode(), &self.segment)
    }
}

/// `value`, limited to what a 2-byte field can hold.
fn word(value: u64) -> u16 {
    value.min(u16::MAX.into()) as u16
}

fn double(value: u64) -> u32 {
    value.min(u32::MAX.into()) as u32
}

/// The x of 512 · 2^x bytes, rounded down; 0 if there is none.
fn exponent(bytes: u64) -> u8 {
    (bytes / SECTOR).checked_ilog2().unwrap_or(0) as u8
}

impl Configuration<'_> {
    fn region_bytes(&self) -> Option<u64> {
        self.hpb.map(|hpb| u64::from(hpb.region_pages()) * u64::from(self.page_bytes))
    }

    fn with_hpb(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().take(MOST_UNITS).filter(|unit| self.hpb.is_some() && unit.hpb)
    }

    fn device(&self) -> DeviceDescriptor {
        let feature = |there, bit| if there { bit } else { 0 };
        let features = feature(self.hpb.is_some(), DeviceDescriptor::HPB)
            | feature(self.write_booster.is_some(), DeviceDescriptor::WRITEBOOSTER);
        DeviceDescriptor {
            // No boot and no RPMB logical unit, so there are two well-known ones: REPORT LUNS and UFS Device.
            device_sub_class: 0x05,
            lus: self.units.len().min(MOST_UNITS) as u8,
            well_known_lus: 2,
            initial_power_mode: 0x01,
            high_priority_lun: 0x7f,
            spec_version: self.spec_version,
            ready_to_transfer_limit: 2,
            // bUFSFeaturesSupport has the low eight bits of the extended features; Linux looks for HPB there.
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

    /// Size in sectors of a write that fills whole pages (bOptimalWriteBlockSize), limited to what a byte can hold.
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
            // Data written earlier survive a power cut during a later write; `nandlab cuts` tests the drive for it.
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

    /// Value of bMaxDataSizeForHPBSingleCmd, from the longest HPB READ that the host sends without a pre-request.
    fn hpb_single_command(&self) -> u32 {
        let pages = self.hpb.map_or(1, HpbConfig::most_pages);
        let bytes = u64::from(pages) * u64::from(self.page_bytes);
        (bytes / HPB_COMMAND_BYTES).clamp(1, 256) as u32 - 1
    }
}

impl Device {
    /// A device after power-on and fDeviceInit. HPB is enabled if supported; WriteBooster is disabled until enabled.
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

    /// Answers an encoded Query Request UPIU with an encoded Query Response UPIU.
    /// Errors: the bytes are not a valid Query Request UPIU, so there is no query response to it.
    pub fn answer_bytes(&mut self, upiu: &[u8]) -> Result<Vec<u8>, WireError> {
        Ok(self.answer(&QueryRequest::decode(upiu)?).encode())
    }

    /// Answers a query. A query that fails changes nothing and returns no data. The data segment of a query that writes
    /// a descriptor is ignored, because no descriptor is writeable.
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

    /// Whether the host has set fHPBReset since the last call. The caller then drops the HPB state.
    pub fn take_hpb_reset(&mut self) -> bool {
        std::mem::take(&mut self.hpb_reset_asked)
    }

    /// Resulting value of a query; a descriptor is put into `segment`. The identifier is checked before index and
    /// selector, because their valid values depend on it.
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
                    // Flags that can only be set cannot be toggled.
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

    /// Encodes a descriptor. A logical unit that is possible but not configured has one with bLUEnable 00h.
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

    /// Current value of an attribute; `None` if the device does not support it.
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
            // All of the buffer, in tenths.
            Attribute::WriteBoosterAvailable if has_writebooster => 10,
            // Up to 10 % of its life is used.
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

    /// Current value of a flag; `None` if the device does not support it.
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

    /// Writes a flag that the device supports and returns its new value: one that triggers an operation is clear again.
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

/// Flags and attributes here belong to the device: index and selector must be 0.
fn of_device(index: u8, selector: u8) -> Result<(), QueryCode> {
    if index != 0 {
        return Err(QueryCode::InvalidIndex);
    }
    no_selector(selector)
}
