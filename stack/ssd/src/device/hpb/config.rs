//! What a device's descriptors say of HPB, and the driver's parameters in sysfs.

use sim::Ns;

use crate::ShapeError;

/// The version of the specification that a device follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.0: reads of a single page take an entry.
    V1,
    /// 2.0: reads of several pages take the entry of the first.
    V2,
}

impl Version {
    /// `wHPBVersion`: 1.2.3 is 0123h.
    pub const fn bcd(self) -> u16 {
        match self {
            Version::V1 => super::VERSION_1_0,
            Version::V2 => super::VERSION_2_0,
        }
    }
}

/// Who decides what is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The host (`bHPBControl` 00h), by the reads that it counts.
    Host,
    /// The device (01h), by what it advises in its responses.
    Device,
}

impl Control {
    /// `bHPBControl`.
    pub const fn code(self) -> u8 {
        match self {
            Control::Host => 0,
            Control::Device => 1,
        }
    }
}

/// A logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LuConfig {
    /// Logical pages.
    pub pages: u32,
    /// Whether it has HPB (`bLUEnable` 02h).
    pub hpb: bool,
}

/// Parameters of host control mode, with their names in sysfs (`hpb_params`) and the defaults of Linux 6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Reads of a sub-region at which it is to be activated.
    pub activation_thld: u32,
    /// Bits by which all read counters are shifted right when a region's has become too great.
    pub normalization_factor: u32,
    /// Reads from which a region may take another one's place.
    pub eviction_thld_enter: u32,
    /// Reads up to which a region may lose its place.
    pub eviction_thld_exit: u32,
    /// Time after which an active region loses one of its expiries.
    pub read_timeout_ms: u32,
    /// Expiries after which it is inactivated; at once if it is dirty.
    pub read_timeout_expiries: u32,
    /// How often that is looked at.
    pub timeout_polling_interval_ms: u32,
    /// Loads of the map under way at most.
    pub inflight_map_req: u32,
    /// How long a pre-request that finds no place waits for one.
    pub requeue_timeout_ms: u32,
}

impl Params {
    /// The defaults of Linux 6.1.
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

    /// Names and values, as sysfs has them.
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

/// HPB of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpbConfig {
    /// Of the device.
    pub version: Version,
    /// Who decides.
    pub control: Control,
    /// Logical pages of a sub-region, what is loaded at once: a power of two.
    pub subregion_pages: u32,
    /// Sub-regions of a region, what is dropped at once: a power of two.
    pub region_subregions: u32,
    /// Regions that may be active at a time, pinned ones included (`wDeviceMaxActiveHPBRegions`).
    pub max_active_regions: u32,
    /// First pinned region of logical unit 0, and how many there are: always active.
    pub pinned: (u32, u32),
    /// Logical units, one after the other over the drive's pages. A request that leaves its unit is read without HPB.
    pub lus: Vec<LuConfig>,
    /// Pages of a read that takes a single entry at most (`bMAX_DATA_SIZE_FOR_HPB_SINGLE_CMD` + 1); 1 with version 1.0.
    pub single_command_pages: u32,
    /// Whether longer reads are preceded by their entries (WRITE BUFFER 02h), as drafts of version 2.0 for Linux did.
    pub pre_requests: bool,
    /// How much longer a die is occupied by a read with an entry: the page's tag is held against the entry before its
    /// data leave the register.
    pub entry_check: Ns,
    /// How long the device takes to clear fHPBReset, which the host sets when it brings HPB up.
    pub reset: Ns,
    /// Reads without a valid entry at which the device advises to load a sub-region.
    pub recommend_after: u32,
    /// Of host control mode.
    pub params: Params,
}

/// Pages of a read with a pre-request at most: an 8-bit length counts them.
pub const MOST_PRE_REQUESTED: u32 = 255;

impl HpbConfig {
    /// Version 1.0 in device control mode over `pages`: regions of 16 MiB and sub-regions of 4 MiB where pages have 4
    /// KiB, all of which may be active.
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

    /// Pages of a region.
    pub const fn region_pages(&self) -> u32 {
        self.subregion_pages.saturating_mul(self.region_subregions)
    }

    /// Regions of a logical unit of so many pages.
    pub const fn regions(&self, pages: u32) -> u32 {
        pages.div_ceil(self.region_pages())
    }

    /// Pages of a read that the host sends as HPB READ at most, without a pre-request.
    pub const fn most_pages(&self) -> u32 {
        match self.version {
            Version::V1 => 1,
            // The length of an HPB READ has eight bits.
            Version::V2 => {
                if self.single_command_pages < 255 {
                    self.single_command_pages
                } else {
                    255
                }
            }
        }
    }

    /// Errors: what no device has, or what Linux refuses as a parameter.
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

    #[test]
    fn parameters_that_linux_refuses_are_refused() {
        let with = |change: fn(&mut HpbConfig)| {
            let mut config = HpbConfig::plain(1 << 16);
            change(&mut config);
            config.check().map_err(|error| error.what)
        };
        assert_eq!(with(|config| config.params.activation_thld = 0), Err("activation_thld"));
        assert_eq!(with(|config| config.params.normalization_factor = 11), Err("normalization_factor"));
        assert_eq!(with(|config| config.params.eviction_thld_exit = 8), Err("eviction_thld_exit"));
        assert_eq!(with(|config| config.params.eviction_thld_enter = 128), Err("eviction_thld_enter"));
        assert_eq!(with(|config| config.params.read_timeout_expiries = 0), Err("read_timeout_expiries"));
        assert_eq!(with(|config| config.params.timeout_polling_interval_ms = 501), Err("timeout_polling_interval_ms"));
        assert_eq!(with(|config| config.params.inflight_map_req = 32), Err("inflight_map_req"));
        assert_eq!(with(|config| config.pinned = (0, 17)), Err("pinned regions"));
        assert_eq!(with(|config| config.max_active_regions = 0), Err("active regions"));
        assert_eq!(with(|config| config.subregion_pages = 3), Err("pages of a sub-region"));
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
