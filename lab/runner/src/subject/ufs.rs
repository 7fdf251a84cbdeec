//! The UFS device as its host sees it: the configuration behind its descriptors, and its files in Linux's sysfs.

use ssd::TrimmedReads;
use ssd::device::hpb::{Advisor, Control, HpbConfig};
use ssd::device::ufs::{Attribute, Configuration, Flag, LuEnable, Unit, WriteBooster};
use ssd::host::hpb::Driver;

use super::identify;
use crate::schema::drive::Ssd;
use crate::subject::Drive;

const MIB: f64 = (1 << 20) as f64;
/// bLogicalBlockSize 0Ch, the smallest that UFS allows. Requests here still count 512-byte sectors.
const LOGICAL_BLOCK_BYTES: u32 = 4096;

/// wSpecVersion by the rate of the link, in MB/s: two lanes of HS-G3 have 1,166, of HS-G4 2,332, of HS-G5 more. Linux
/// looks for HPB from 3.1 on, so a device with HPB reports at least 3.1, although parts of UFS 2.1 with HPB could not.
fn spec_version(ssd: &Ssd, has_hpb: bool) -> u16 {
    let by_link = match ssd.front.link_mb_s {
        0.0 => 0x0310,
        rate if rate <= 1200.0 => 0x0210,
        rate if rate <= 2400.0 => 0x0310,
        _ => 0x0400,
    };
    if has_hpb { by_link.max(0x0310) } else { by_link }
}

/// Configuration from which a UFS device answers queries.
pub fn configuration(drive: &Drive) -> Configuration<'_> {
    let shape = &drive.shape;
    let hpb: Option<&HpbConfig> = drive.config.hpb.as_ref();
    let bytes = |pages: u32| u64::from(pages) * u64::from(shape.page_bytes);
    let units = match hpb {
        Some(hpb) => hpb.lus.iter().map(|lu| Unit { bytes: bytes(lu.pages), hpb: lu.hpb }).collect(),
        None => vec![Unit { bytes: drive.bytes(), hpb: false }],
    };
    let booster = drive.section.write_booster.as_ref().filter(|booster| booster.mib > 0.0);
    Configuration {
        spec_version: spec_version(&drive.section, hpb.is_some()),
        capacity_bytes: drive.bytes(),
        logical_block_bytes: LOGICAL_BLOCK_BYTES,
        page_bytes: shape.page_bytes,
        erase_block_bytes: bytes(shape.unit_pages()),
        queue_depth: drive.config.front.depth,
        unmapped_are_zeroes: drive.config.front.trimmed_reads == TrimmedReads::Zeroes,
        units,
        hpb,
        write_booster: booster.map(|booster| WriteBooster { bytes: (booster.mib * MIB) as u64 }),
    }
}

/// Files that Linux shows of the device in sysfs: path and value, in the order of their groups. Descriptors, attributes
/// and flags are read by queries. Empty without HPB.
pub fn sysfs(drive: &Drive, sides: Option<(&Driver, &Advisor)>) -> Vec<(String, String)> {
    let (Some(config), Some((host, device))) = (&drive.config.hpb, sides) else { return Vec::new() };
    let Some(read) = identify::ufs::answers(drive).read() else { return Vec::new() };
    let mut tree: Vec<(String, String)> = Vec::new();
    let mut put = |path: String, value: String| tree.push((path, value));
    let hex = |value: u64, digits: usize| format!("0x{value:0digits$x}");
    let geometry = &read.geometry;
    put("device_descriptor/hpb_version".into(), hex(read.device.hpb_version.into(), 4));
    put("device_descriptor/hpb_control".into(), hex(read.device.hpb_control.into(), 2));
    put("geometry_descriptor/hpb_region_size".into(), hex(geometry.hpb_region_exponent.into(), 2));
    put("geometry_descriptor/hpb_number_lu".into(), hex(geometry.hpb_max_lus.into(), 2));
    put("geometry_descriptor/hpb_subregion_size".into(), hex(geometry.hpb_subregion_exponent.into(), 2));
    put("geometry_descriptor/hpb_max_active_regions".into(), hex(geometry.hpb_max_active_regions.into(), 4));
    if let Some(value) = read.attribute(Attribute::HpbSingleCommandSize) {
        put("attributes/max_data_size_hpb_single_cmd".into(), hex(value.into(), 2));
    }
    if let Some(value) = read.flag(Flag::Hpb) {
        put("flags/hpb_enable".into(), value.to_string());
    }
    for unit in read.units.iter().filter(|unit| unit.enabled() == Some(LuEnable::EnabledWithHpb)) {
        let mut put =
            |name: &str, value: u16| put(format!("lun{}/unit_descriptor/{name}", unit.unit), hex(value.into(), 4));
        put("hpb_lu_max_active_regions", unit.hpb_max_active_regions);
        put("hpb_pinned_region_start_offset", unit.hpb_pinned_start);
        put("hpb_number_pinned_regions", unit.hpb_pinned_regions);
    }
    for (name, value) in host.stats().named() {
        put(format!("hpb_stats/{name}"), value.to_string());
    }
    let host_mode = config.control == Control::Host;
    // Device control mode has only the last one.
    for (name, value) in
        config.params.named().into_iter().filter(|(name, _)| host_mode || *name == "requeue_timeout_ms")
    {
        put(format!("hpb_params/{name}"), value.to_string());
    }
    let device = device.stats();
    put("nandlab/entries_right".into(), device.entries_right.to_string());
    put("nandlab/entries_stale".into(), device.entries_stale.to_string());
    put("nandlab/entries_damaged".into(), device.entries_damaged.to_string());
    put("nandlab/map_bytes_to_host".into(), device.map_bytes.to_string());
    put("nandlab/pre_requests".into(), host.stats().pre_requests.to_string());
    put("nandlab/active_regions".into(), host.active_regions().to_string());
    tree
}
