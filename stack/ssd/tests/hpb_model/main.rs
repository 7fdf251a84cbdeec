//! The host's HPB driver and the device's advisor against models without memory management, shortcuts or caches: under
//! random reads, writes, recommendations, loads, failures, resets and timeouts both decide the same.

mod advisor;
mod driver;
mod model;

use sim::{Ns, Rng, Seed};
use ssd::device::hpb::{Control, HpbConfig, LuConfig, Params, Version};

/// A small configuration with one to three logical units.
fn config(rng: &mut Rng) -> HpbConfig {
    let mut below = |bound: u64| rng.below(bound) as u32;
    loop {
        // Sub-regions of more pages than a word has bits, too.
        let (subregion_pages, most) = if below(5) == 0 { (128, 300) } else { (2 << below(4), 60) };
        let lus: Vec<LuConfig> =
            (0..1 + below(3)).map(|_| LuConfig { pages: 5 + below(most), hpb: below(4) > 0 }).collect();
        let activation_thld = 1 + below(5);
        let eviction_thld_exit = activation_thld + 1 + below(4);
        let read_timeout_ms = 4 + below(8);
        let config = HpbConfig {
            version: if below(3) == 0 { Version::V1 } else { Version::V2 },
            control: if below(2) == 0 { Control::Host } else { Control::Device },
            subregion_pages,
            region_subregions: 1 << below(3),
            max_active_regions: 1 + below(4),
            pinned: (below(2), below(2)),
            lus,
            single_command_pages: 1 + below(4),
            pre_requests: below(3) > 0,
            reset: Ns(u64::from([0u32, 1, 999_999, 1_000_000, 1_000_001, 10_000_000, 10_000_001][below(7) as usize])),
            recommend_after: 1 + below(4),
            params: Params {
                activation_thld,
                normalization_factor: 1 + below(subregion_pages.ilog2().into()),
                eviction_thld_exit,
                eviction_thld_enter: eviction_thld_exit + 1 + below(6),
                read_timeout_ms,
                read_timeout_expiries: 1 + below(3),
                timeout_polling_interval_ms: 1 + below((read_timeout_ms / 2).into()),
                inflight_map_req: 1 + below(3),
                ..Params::LINUX
            },
            ..HpbConfig::plain(1)
        };
        if config.check().is_ok() {
            return config;
        }
    }
}

fn rng(seed: u64, stream: &str) -> Rng {
    Seed(seed).stream(stream)
}
