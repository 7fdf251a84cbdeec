//! Attach parameters of a UBI device: from the kernel configuration, the command line and the attach ioctl.

use crate::media::{FM_MAX_POOL, FM_MAX_START, FM_MIN_POOL};

/// Parameters of an attached device; [`Config::linux`] has the kernel's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Offset of the VID header in the PEB, in bytes; `None` for the default of the geometry.
    pub vid_hdr_offset: Option<u32>,
    /// Erase-count difference at which data are moved (`CONFIG_MTD_UBI_WL_THRESHOLD`, 2 to 65536).
    pub wl_threshold: u32,
    /// PEBs reserved for bad-block handling per 1024 of the chip (`CONFIG_MTD_UBI_BEB_LIMIT`, 0 to 768).
    pub beb_per_1024: u32,
    /// PEBs of the whole chip, if this flash is a partition; `None` if it is the whole chip.
    pub chip_pebs: Option<u32>,
    /// Whether to use and write fastmaps (`fm_autoconvert=1`). On a flash of up to 64 PEBs Linux does neither, but keeps the room for
    /// two.
    pub fastmap: bool,
    /// Without fastmap: whether the PEBs of two fastmaps are left over all the same, as far as there are so many. A kernel with
    /// `CONFIG_MTD_UBI_FASTMAP` refuses a flash without them, even if it never writes a fastmap.
    pub fastmap_room: bool,
    /// Whether the user pool's maximum is reserved when volumes are sized, so that refills find free PEBs. Added to the
    /// attach ioctl by the 2023 patch series.
    pub fastmap_reserve_pools: bool,
    /// Rules of which kernel.
    pub policy: Policy,
    /// Image sequence number written when a blank flash is formatted.
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
            fastmap_room: false,
            fastmap_reserve_pools: false,
            policy,
            image_seq: 1,
        }
    }

    /// Whether fastmaps are used and written on a flash of `pebs`.
    pub fn has_fastmap(&self, pebs: u32) -> bool {
        self.fastmap && pebs > FM_MAX_START
    }

    /// PEBs reserved for bad-block handling on a flash of `pebs`, before any block became bad.
    pub fn beb_limit(&self, pebs: u32) -> u32 {
        let chip = u64::from(self.chip_pebs.unwrap_or(pebs));
        (chip * u64::from(self.beb_per_1024)).div_ceil(1024) as u32
    }
}

/// Maximum of the user pool on a device of `pebs` PEBs; that of the wear-levelling pool is half of it.
pub fn user_pool_max(pebs: u32) -> u32 {
    (pebs / 100 * 5).clamp(FM_MIN_POOL, FM_MAX_POOL as u32)
}

/// Changes of the patch series "ubi: fastmap: Fix a series of wear leveling problems" (Zhihao Cheng, 2023), each
/// switchable. All `false` is Linux 6.1 up to 6.1.187, all `true` 6.7. Stable 6.1.188 took counting, waiting and
/// reservation over. `docs/design/ubi-fastmap.md` explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A fastmap data block erased in place updates its erase count in memory. If false, only the counter on flash is
    /// right; when the block is no longer used for the fastmap, its next erasure writes the stale count.
    pub count_in_place_erases: bool,
    /// Queued erasures are done before a refill, until enough PEBs are free.
    pub wait_for_free_pebs: bool,
    /// Pools may use the PEBs reserved for bad-block handling, but not those that the fastmap itself needs.
    pub pools_use_beb_reserve: bool,
    /// When the last PEB is taken, wear levelling may use one worn beyond its usual limit.
    pub wl_beyond_limit: bool,
    /// A PEB among the first 64 in the middle of the free tree is skipped only while there is no spare anchor.
    pub pass_over_unless_anchor: bool,
}

impl Policy {
    /// Linux 6.1 up to 6.1.187, before the series.
    pub const LINUX_6_1: Policy = Policy {
        count_in_place_erases: false,
        wait_for_free_pebs: false,
        pools_use_beb_reserve: false,
        wl_beyond_limit: false,
        pass_over_unless_anchor: false,
    };

    /// Linux 6.7, with the series.
    pub const LINUX_6_7: Policy = Policy {
        count_in_place_erases: true,
        wait_for_free_pebs: true,
        pools_use_beb_reserve: true,
        wl_beyond_limit: true,
        pass_over_unless_anchor: true,
    };

    /// The policy of this name: `linux-6.1` or `linux-6.7`.
    pub fn by_name(name: &str) -> Option<Policy> {
        match name {
            "linux-6.1" => Some(Policy::LINUX_6_1),
            "linux-6.7" => Some(Policy::LINUX_6_7),
            _ => None,
        }
    }

    /// Names that [`by_name`](Self::by_name) accepts.
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
