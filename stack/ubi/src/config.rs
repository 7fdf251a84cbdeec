//! How a UBI device is attached: what the kernel takes from its configuration, the command line and the attach ioctl.

use crate::media::{FM_MAX_POOL, FM_MIN_POOL};

/// Parameters of an attached device. Every field counts; [`Config::linux`] has the kernel's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the VID header is; `None` for the place that follows from the geometry.
    pub vid_hdr_offset: Option<u32>,
    /// Erase-count difference from which data are moved (`CONFIG_MTD_UBI_WL_THRESHOLD`, 2 to 65536).
    pub wl_threshold: u32,
    /// PEBs reserved for bad-block handling per 1024 of the chip (`CONFIG_MTD_UBI_BEB_LIMIT`, 0 to 768).
    pub beb_per_1024: u32,
    /// PEBs of the whole chip, of which this flash may be a partition; `None` when it is all of it.
    pub chip_pebs: Option<u32>,
    /// Whether to use and write fastmaps (`fm_autoconvert=1`).
    pub fastmap: bool,
    /// Whether the user pool's maximum is taken from the space of volumes, so that refills find it. Added to the
    /// attach ioctl by the series of 2023.
    pub fastmap_reserve_pools: bool,
    /// Which kernel's rules.
    pub policy: Policy,
    /// The image sequence number that a blank flash is formatted with.
    pub image_seq: u32,
}

impl Config {
    /// The kernel's defaults with fastmap on, under `policy`.
    pub fn linux(policy: Policy) -> Config {
        Config {
            vid_hdr_offset: None,
            wl_threshold: 4096,
            beb_per_1024: 20,
            chip_pebs: None,
            fastmap: true,
            fastmap_reserve_pools: false,
            policy,
            image_seq: 1,
        }
    }

    /// How many PEBs are kept for bad-block handling on a chip of `chip_pebs`, before any went bad.
    pub fn beb_limit(&self, pebs: u32) -> u32 {
        let chip = u64::from(self.chip_pebs.unwrap_or(pebs));
        (chip * u64::from(self.beb_per_1024)).div_ceil(1024) as u32
    }
}

/// The maximum of the user pool on a device of `pebs` blocks; that of the wear-levelling pool is half of it.
pub fn user_pool_max(pebs: u32) -> u32 {
    (pebs / 100 * 5).clamp(FM_MIN_POOL, FM_MAX_POOL as u32)
}

/// What the series of source 000 changed, each change switchable alone. `false` everywhere is Linux 6.1, `true`
/// everywhere 6.7. How each acts is told in `docs/design/ubi-fastmap.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A fastmap data block erased in place returns its new erase count to the in-memory entry. Without, the counter on
    /// flash is right and the one in memory is not; when the block is given up, the next erasure writes the latter.
    pub count_in_place_erases: bool,
    /// Queued erasures are carried out before a refill until enough PEBs are free.
    pub wait_for_free_pebs: bool,
    /// Pools may take the PEBs reserved for bad-block handling; the fastmap's own blocks are kept out of their reach.
    pub pools_use_beb_reserve: bool,
    /// When the last PEB is taken, wear levelling may pick one worn beyond its usual limit.
    pub wl_beyond_limit: bool,
    /// A middling PEB among the first 64 is only passed over while no spare anchor is held.
    pub pass_over_unless_anchor: bool,
}

impl Policy {
    /// Before the series.
    pub const LINUX_6_1: Policy = Policy {
        count_in_place_erases: false,
        wait_for_free_pebs: false,
        pools_use_beb_reserve: false,
        wl_beyond_limit: false,
        pass_over_unless_anchor: false,
    };

    /// After it.
    pub const LINUX_6_7: Policy = Policy {
        count_in_place_erases: true,
        wait_for_free_pebs: true,
        pools_use_beb_reserve: true,
        wl_beyond_limit: true,
        pass_over_unless_anchor: true,
    };

    /// The name in experiments: `linux-6.1`, `linux-6.7`.
    pub fn by_name(name: &str) -> Option<Policy> {
        match name {
            "linux-6.1" => Some(Policy::LINUX_6_1),
            "linux-6.7" => Some(Policy::LINUX_6_7),
            _ => None,
        }
    }

    /// Every name that [`by_name`](Self::by_name) knows.
    pub const NAMES: [&'static str; 2] = ["linux-6.1", "linux-6.7"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_and_reserves_are_those_of_the_published_devices() {
        assert_eq!([1024, 8192, 16_384].map(user_pool_max), [50, 256, 256]);
        assert_eq!(user_pool_max(64), 8);
        assert_eq!([1024, 8192, 16_384].map(|pebs| Config::linux(Policy::LINUX_6_1).beb_limit(pebs)), [20, 160, 320]);
    }

    #[test]
    fn the_reserve_is_that_of_the_whole_chip() {
        let mut config = Config::linux(Policy::LINUX_6_7);
        config.chip_pebs = Some(4096);
        assert_eq!(config.beb_limit(100), 80);
    }
}
