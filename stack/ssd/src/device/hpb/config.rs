//! HPB parameters in a device's descriptors, and the host driver's parameters in sysfs.

use sim::Ns;

use crate::ShapeError;

/// Version of the HPB specification that a device supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HPB 1.0: an HPB READ covers a single page.
    V1,
    /// HPB 2.0: an HPB READ covers several pages and carries the entry of the first.
    V2,
}

impl Version {
    /// `wHPBVersion` in BCD: version 1.2.3 is 0123h.
    pub const fn bcd(self) -> u16 {
        match self {
            Version::V1 => super::VERSION_1_0,
            Version::V2 => super::VERSION_2_0,
        }
    }
}

/// HPB control mode (`bHPBControl`): who decides which regions are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Host control mode (00h): the host decides, by counting reads.
    Host,
    /// Device control mode (01h): the device decides, by recommendations in its responses.
    Device,
}

impl Control {
    /// Value of `bHPBControl`.
    pub const fn code(self) -> u8 {
        match self {
            Control::Host => 0,
            Control::Device => 1,
        }
    }
}

/// Configuration of a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LuConfig {
    /// Size in logical pages.
    pub pages: u32,
    /// Whether HPB is enabled (`bLUEnable` 02h).
    pub hpb: bool,
}

/// Parameters of host control mode, with their names in sysfs (`hpb_params`) and the defaults of Linux 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Reads of a sub-region after which it is activated.
    pub activation_thld: u32,
    /// Bits by which all read counters are shifted right when the counter of a region becomes too large.
    pub normalization_factor: u32,
    /// Minimum reads of a region that replaces an active one.
    pub eviction_thld_enter: u32,
    /// Maximum reads of an active region that may be replaced.
    pub eviction_thld_exit: u32,
    /// Time in milliseconds after which an active region loses one of its expiries.
    pub read_timeout_ms: u32,
    /// Expiries after which a region is inactivated; a dirty region is inactivated at the first.
    pub read_timeout_expiries: u32,
    /// Interval in milliseconds at which the expiries are checked.
    pub timeout_polling_interval_ms: u32,
    /// Maximum number of map loads (HPB READ BUFFER) in flight.
    pub inflight_map_req: u32,
    /// Time in milliseconds that a pre-request without a free slot waits for one.
    pub requeue_timeout_ms: u32,
}

impl Params {
    /// Defaults of Linux 6.1.
    pub const LINUX: Params = Params {
        activation_thld: 8,
        normalization_factor: 1,
        eviction_thld_enter: 256,
        eviction_thld_exit: 128,
        read_timeout_ms: 1000,
        read_timeout_expiries: 100,
        timeout_polling_interval_ms: 200,
        inflight_map_req: 1,
        requeue_timeout_ms: 0,
    };

    /// Names and values, as in sysfs.
    pub const fn named(&self) -> [(&'static str, u32); 9] {
        [
            ("activation_thld", self.activation_thld),
            ("normalization_factor", self.normalization_factor),
            ("eviction_thld_enter", self.eviction_thld_enter),
            ("eviction_thld_exit", self.eviction_thld_exit),
            ("read_timeout_ms", self.read_timeout_ms),
            ("read_timeout_expiries", self.read_timeout_expiries),
            ("timeout_polling_interval_ms", self.timeout_polling_interval_ms),
            ("inflight_map_req", self.inflight_map_req),
            ("requeue_timeout_ms", self.requeue_timeout_ms),
        ]
    }
}

/// HPB configuration of a drive and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpbConfig {
    /// HPB version of the device.
    pub version: Version,
    /// HPB control mode.
    pub control: Control,
    /// Logical pages per sub-region, the unit of loading: a power of two.
    pub subregion_pages: u32,
    /// Sub-regions per region, the unit of inactivation: a power of two.
    pub region_subregions: u32,
    /// Maximum number of active regions, pinned ones included (`wDeviceMaxActiveHPBRegions`).
    pub max_active_regions: u32,
    /// First pinned region of logical unit 0, and number of pinned regions. They are always active.
    pub pinned: (u32, u32),
    /// Logical units, in order over the drive's pages. A read that crosses the end of its unit is sent without HPB.
    pub lus: Vec<LuConfig>,
    /// Maximum pages of a read with a single entry (`bMAX_DATA_SIZE_FOR_HPB_SINGLE_CMD` + 1); 1 with version 1.0.
    pub single_command_pages: u32,
    /// Whether a pre-request (HPB WRITE BUFFER 02h) precedes longer reads, as in drafts of version 2.0 for Linux.
    pub pre_requests: bool,
    /// Additional time that a read with an entry occupies its die: the page's tag is compared with the entry before the
    /// data leave the register.
    pub entry_check: Ns,
    /// Time that the device takes to clear fHPBReset, which the host sets when it initializes HPB.
    pub reset: Ns,
    /// Reads of a sub-region without a valid entry after which the device recommends to load it.
    pub recommend_after: u32,
    /// Parameters of host control mode.
    pub params: Params,
}

/// Maximum pages of a read with a pre-request: the length field has 8 bits.
pub const MOST_PRE_REQUESTED: u32 = 255;

impl HpbConfig {
    /// HPB 1.0 in device control mode over `pages` logical pages. With pages of 4 KiB, regions have 16 MiB and
    /// sub-regions 4 MiB. All regions may be active.
    pub fn plain(pages: u32) -> HpbConfig {
        let mut config = HpbConfig {
            version: Version::V1,
            control: Control::Device,
            subregion_pages: 1024,
            region_subregions: 4,
            max_active_regions: 1,
            pinned: (0, 0),
            lus: vec![LuConfig { pages, hpb: true }],
            single_command_pages: 1,
            pre_requests: false,
            entry_check: Ns::ZERO,
            reset: Ns::ZERO,
            recommend_after: 1,
            params: Params::LINUX,
        };
        config.max_active_regions = config.regions(pages);
        config
    }

    /// Pages per region.
    pub const fn region_pages(&self) -> u32 {
        self.subregion_pages.saturating_mul(self.region_subregions)
    }

    /// Number of regions of a logical unit of `pages` pages.
    pub const fn regions(&self, pages: u32) -> u32 {
        pages.div_ceil(self.region_pages())
    }

    /// Maximum pages of a read that the host sends as HPB READ without a pre-request.
    pub const fn most_pages(&self) -> u32 {
        match self.version {
            Version::V1 => 1,
            // The transfer length of an HPB READ has eight bits.
            Version::V2 => {
                if self.single_command_pages < 255 {
                    self.single_command_pages
                } else {
                    255
                }
            }
        }
    }

    /// Checks the configuration. Errors: a value that no device has, or a parameter that Linux rejects.
    pub fn check(&self) -> Result<(), ShapeError> {
        let refuse = |what, found: u32, expected| Err(ShapeError { what, found: found.into(), expected });
        let powers =
            [("pages of a sub-region", self.subregion_pages), ("sub-regions of a region", self.region_subregions)];
        for (what, number) in powers {
            if !number.is_power_of_two() || number > 1 << 20 {
                return refuse(what, number, "a power of two, 2^20 at most");
            }
        }
        if self.lus.is_empty() || self.lus.len() > 32 {
            return refuse("logical units", self.lus.len() as u32, "1 to 32");
        }
        if !self.lus.iter().any(|lu| lu.hpb) {
            return refuse("logical units with HPB", 0, "1 or more");
        }
        let regions: u32 = self.lus.iter().map(|lu| self.regions(lu.pages)).sum();
        if regions > u32::from(u16::MAX) {
            return refuse("regions", regions, "65,535 at most: their numbers have 16 bits");
        }
        if self.max_active_regions == 0 || self.max_active_regions > u32::from(u16::MAX) {
            return refuse("active regions", self.max_active_regions, "1 to 65,535");
        }
        let (first, count) = self.pinned;
        if first.saturating_add(count) > self.lus.first().map_or(0, |lu| self.regions(lu.pages)) {
            return refuse("pinned regions", first.saturating_add(count), "within logical unit 0");
        }
        if count > 0 && !self.lus[0].hpb {
            return refuse("pinned regions", count, "none in a logical unit without HPB");
        }
        if count >= self.max_active_regions {
            return refuse("pinned regions", count, "fewer than may be active");
        }
        if !(1..=256).contains(&self.single_command_pages) {
            return refuse("pages of a single command", self.single_command_pages, "1 to 256");
        }
        if self.recommend_after == 0 || self.recommend_after > u32::from(u16::MAX) {
            return refuse("reads until an advice", self.recommend_after, "1 to 65,535");
        }
        self.check_params()
    }

    fn check_params(&self) -> Result<(), ShapeError> {
        let refuse = |what, found: u32, expected| Err(ShapeError { what, found: found.into(), expected });
        let params = &self.params;
        if params.activation_thld == 0 {
            return refuse("activation_thld", 0, "above 0");
        }
        let most = self.subregion_pages.ilog2().max(1);
        if !(1..=most).contains(&params.normalization_factor) {
            return refuse(
                "normalization_factor",
                params.normalization_factor,
                "1 to the binary logarithm of a sub-region's pages",
            );
        }
        if params.eviction_thld_exit <= params.activation_thld {
            return refuse("eviction_thld_exit", params.eviction_thld_exit, "above activation_thld");
        }
        if params.eviction_thld_enter <= params.eviction_thld_exit {
            return refuse("eviction_thld_enter", params.eviction_thld_enter, "above eviction_thld_exit");
        }
        if params.read_timeout_expiries == 0 {
            return refuse("read_timeout_expiries", 0, "above 0");
        }
        if params.timeout_polling_interval_ms == 0 || params.timeout_polling_interval_ms > params.read_timeout_ms / 2 {
            return refuse(
                "timeout_polling_interval_ms",
                params.timeout_polling_interval_ms,
                "1 to half of read_timeout_ms",
            );
        }
        if params.inflight_map_req == 0 || params.inflight_map_req > 31 {
            return refuse("inflight_map_req", params.inflight_map_req, "1 to 31, below the depth of the queue");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_a_device_that_can_be() {
        let config = HpbConfig::plain(1 << 20);
        assert_eq!(config.check(), Ok(()));
        assert_eq!((config.region_pages(), config.max_active_regions), (4096, 256));
    }

    /// Source: Linux 6.1, `ufshpb.h` and the defaults that `ufshpb_hcm_param_init` sets.
    #[test]
    fn the_parameters_of_host_control_mode_are_those_of_linux() {
        let linux = [
            ("activation_thld", 8),
            ("normalization_factor", 1),
            ("eviction_thld_enter", 256),
            ("eviction_thld_exit", 128),
            ("read_timeout_ms", 1000),
            ("read_timeout_expiries", 100),
            ("timeout_polling_interval_ms", 200),
            ("inflight_map_req", 1),
            ("requeue_timeout_ms", 0),
        ];
        assert_eq!(Params::LINUX.named(), linux);
        assert_eq!((Version::V1.bcd(), Version::V2.bcd()), (0x0100, 0x0200));
        assert_eq!((Control::Host.code(), Control::Device.code()), (0, 1));
    }

    /// A value, with the last that is accepted at either end and the first that is not.
    type Limits = (&'static str, fn(&mut HpbConfig, u32), &'static [u32], &'static [u32]);

    /// Sizes of fields: HPB descriptors, facts of JESD220-3. Parameters: what Linux 6.1 accepts in sysfs, with the other
    /// parameters at their defaults.
    const LIMITS: &[Limits] = &[
        ("pages of a sub-region", |c, v| c.subregion_pages = v, &[2, 1 << 20], &[0, 3, 6, (1 << 20) + 1, 1 << 21]),
        ("sub-regions of a region", |c, v| c.region_subregions = v, &[1, 2, 1 << 20], &[0, 3, 1 << 21]),
        ("logical units", |c, v| c.lus = vec![LuConfig { pages: 9, hpb: true }; v as usize], &[1, 2, 32], &[0, 33]),
        // The last unit alone has it; none has.
        (
            "logical units with HPB",
            |c, v| c.lus = vec![LuConfig { pages: 9, hpb: false }, LuConfig { pages: 9, hpb: v > 0 }],
            &[1],
            &[0],
        ),
        // Regions of 4096 pages: their numbers have 16 bits.
        ("regions", |c, v| c.lus[0].pages = v, &[1, 0xffff * 4096], &[0xffff * 4096 + 1]),
        (
            "regions",
            |c, v| c.lus = vec![LuConfig { pages: 4097, hpb: true }, LuConfig { pages: v, hpb: false }],
            &[0xfffd * 4096],
            &[0xfffd * 4096 + 1],
        ),
        ("active regions", |c, v| c.max_active_regions = v, &[1, 0xffff], &[0, 0x1_0000]),
        // Unit 0 has 16 regions.
        ("pinned regions", |c, v| c.pinned = (0, v), &[0, 1, 15], &[17, u32::MAX]),
        ("pinned regions", |c, v| c.pinned = (v, 2), &[0, 14], &[15, u32::MAX]),
        // At least one active region is not pinned.
        ("pinned regions", |c, v| (c.pinned, c.max_active_regions) = ((3, 4), v), &[5], &[1, 4]),
        (
            "pinned regions",
            |c, v| {
                c.lus = vec![LuConfig { pages: 1 << 16, hpb: false }, LuConfig { pages: 1, hpb: true }];
                c.pinned = (0, v);
            },
            &[0],
            &[1],
        ),
        ("pages of a single command", |c, v| c.single_command_pages = v, &[1, 256], &[0, 257]),
        ("reads until an advice", |c, v| c.recommend_after = v, &[1, 0xffff], &[0, 0x1_0000]),
        ("activation_thld", |c, v| c.params.activation_thld = v, &[1, 127], &[0]),
        // A sub-region has 2^10 pages.
        ("normalization_factor", |c, v| c.params.normalization_factor = v, &[1, 10], &[0, 11]),
        ("eviction_thld_exit", |c, v| c.params.eviction_thld_exit = v, &[9, 255], &[0, 7, 8]),
        ("eviction_thld_enter", |c, v| c.params.eviction_thld_enter = v, &[129, u32::MAX], &[127, 128]),
        ("read_timeout_expiries", |c, v| c.params.read_timeout_expiries = v, &[1, u32::MAX], &[0]),
        ("timeout_polling_interval_ms", |c, v| c.params.timeout_polling_interval_ms = v, &[1, 500], &[0, 501]),
        (
            "timeout_polling_interval_ms",
            |c, v| (c.params.read_timeout_ms, c.params.timeout_polling_interval_ms) = (401, v),
            &[200],
            &[201],
        ),
        ("inflight_map_req", |c, v| c.params.inflight_map_req = v, &[1, 31], &[0, 32]),
    ];

    #[test]
    fn each_value_is_accepted_up_to_its_limits_and_refused_beyond() {
        for (at, (what, set, good, bad)) in LIMITS.iter().enumerate() {
            let check = |value: u32| {
                let mut config = HpbConfig::plain(1 << 16);
                set(&mut config, value);
                config.check().map_err(|error| {
                    if Params::LINUX.named().iter().any(|(name, _)| name == what) {
                        assert_eq!(error.found, value.into(), "row {at}: {what}");
                    }
                    error.what
                })
            };
            for &value in *good {
                assert_eq!(check(value), Ok(()), "row {at}: {what} {value}");
            }
            for &value in *bad {
                assert_eq!(check(value), Err(*what), "row {at}: {what} {value}");
            }
        }
    }

    /// With a sub-region of one page the logarithm is 0, and one shift is still allowed.
    #[test]
    fn a_sub_region_of_a_page_may_be_normalized() {
        let mut config = HpbConfig { subregion_pages: 1, max_active_regions: 1, ..HpbConfig::plain(1 << 10) };
        assert_eq!(config.check(), Ok(()));
        config.params.normalization_factor = 2;
        assert!(config.check().is_err());
    }

    #[test]
    fn version_one_takes_entries_for_single_pages_only() {
        let mut config = HpbConfig { single_command_pages: 128, ..HpbConfig::plain(1 << 16) };
        assert_eq!(config.most_pages(), 1);
        config.version = Version::V2;
        assert_eq!(config.most_pages(), 128);
        config.single_command_pages = 256;
        assert_eq!(config.most_pages(), 255);
    }
}
