//! What is enumerated: the drive, the load on it, and how cells look after a cut. Read from TOML.
//!
//! A drive is described as in an experiment (`[ssd]` and its tables), over the small drive below in place of the large one
//! that experiments begin with.

use ssd::cache::Policy;
use ssd::{CacheConfig, DriveConfig, KnownBad};
use toml::{Table, Value};

use super::host::{Kind, Load};
use crate::cuts::keys::{Keys, PlanError};
use crate::cuts::rules::Rules;
use crate::experiment::ExperimentError;
use crate::ssd::compose;
use crate::ssd::experiment::{SsdExperiment, SsdSection};

/// An enumeration of a drive, every choice explicit.
#[derive(Clone, Debug)]
pub struct SsdPlan {
    /// What a cut does.
    pub rules: Rules,
    /// The drive.
    pub section: SsdSection,
    /// Pages of its write buffer; `None`: it has none.
    pub buffer_pages: Option<u32>,
    /// What the host asks.
    pub(super) load: Load,
    /// Deliberate mistakes of the drive.
    pub known_bad: KnownBad,
}

/// A drive on which much happens with little flash.
const SMALL: &str = r#"
channels = 2
ways = 1
dies = 1
planes = 1
blocks = 16
pages = 8
page_kib = 1.0
multi_plane = false
over_provisioning_percent = 50.0
store = "bytes"
"#;

/// What else such a drive has, where the file names no preset.
const POLICIES: &str = r#"
[ftl]
wear = "static"
wear_threshold = 4
wear_every = 8
log_blocks = 3
map_cache_kib = 1
[cache]
policy = "lru"
pages = 12
[front]
protocol = "sata"
depth = 8
write_cache = true
"#;

/// Raw pages of a drive at most: every cut reads all of them.
const MOST_PAGES: u64 = (1 << 16) - 1;

const GOOD: KnownBad = KnownBad {
    flush_at_once: false,
    flush_own_pages_only: false,
    ignore_fua: false,
    copies_are_new_versions: false,
    trust_torn_pages: false,
    trust_blank_blocks: false,
    ignore_versions: false,
    restart_versions: false,
    forget_erase_counts: false,
    trust_entries: false,
};

/// Mistakes by the names that `cuts.known_bad` takes.
pub const KNOWN_BAD: [(&str, KnownBad); 11] = [
    ("none", GOOD),
    ("flush-at-once", KnownBad { flush_at_once: true, ..GOOD }),
    ("flush-own-pages-only", KnownBad { flush_own_pages_only: true, ..GOOD }),
    ("ignore-fua", KnownBad { ignore_fua: true, ..GOOD }),
    ("copies-are-new-versions", KnownBad { copies_are_new_versions: true, ..GOOD }),
    ("trust-torn-pages", KnownBad { trust_torn_pages: true, ..GOOD }),
    ("trust-blank-blocks", KnownBad { trust_blank_blocks: true, ..GOOD }),
    ("ignore-versions", KnownBad { ignore_versions: true, ..GOOD }),
    ("restart-versions", KnownBad { restart_versions: true, ..GOOD }),
    ("forget-erase-counts", KnownBad { forget_erase_counts: true, ..GOOD }),
    ("trust-entries", KnownBad { trust_entries: true, ..GOOD }),
];

impl SsdPlan {
    /// Reads what is of a drive, its table `ssd` given. The caller has read everything else, and finishes `cuts`.
    pub(in crate::cuts) fn resolve(
        ssd: Table,
        top: &mut Keys,
        rules: Rules,
        cuts: &mut Keys,
    ) -> Result<SsdPlan, PlanError> {
        let (section, buffer_pages) = drive(ssd)?;
        let load = load(top.table("workload")?, &section)?;
        let known_bad = cuts.choice("known_bad", &KNOWN_BAD, GOOD)?;
        Ok(SsdPlan { rules, section, buffer_pages, load, known_bad })
    }

    /// The drive beside its flash and its layers.
    pub(super) fn drive(&self) -> DriveConfig {
        let policy = Policy::by_name(&self.section.cache.policy).unwrap_or(Policy::None);
        let cache = self.buffer_pages.map(|pages| CacheConfig { policy, pages });
        DriveConfig { cache, ..compose::drive(&self.section) }
    }
}

fn refuse<T>(key: &str, found: impl ToString, expected: &str) -> Result<T, PlanError> {
    Err(PlanError::new(key, found, expected))
}

/// The drive, and the pages of its write buffer.
fn drive(given: Table) -> Result<(SsdSection, Option<u32>), PlanError> {
    let given_cache = given.get("cache").and_then(Value::as_table);
    let sized = |key| given_cache.is_some_and(|cache| cache.contains_key(key));
    let (in_pages, in_mib) = (sized("pages"), sized("mib"));
    if in_pages && in_mib {
        return refuse("ssd.cache.mib", "it and pages", "one of the two");
    }
    let preset = given.contains_key("preset");
    let mut whole: Table = SMALL.parse().expect("the small drive is TOML");
    if given.contains_key("capacity_bytes") {
        whole.remove("over_provisioning_percent");
    }
    if !preset {
        lay_over(&mut whole, POLICIES.parse().expect("its policies are TOML"));
    }
    lay_over(&mut whole, given);
    let pages = match whole.get_mut("cache").and_then(Value::as_table_mut).and_then(|cache| cache.remove("pages")) {
        Some(Value::Integer(pages)) if (0..=4096).contains(&pages) => Some(pages as u32),
        Some(other) => return refuse("ssd.cache.pages", other, "an integer from 0 to 4096"),
        None => None,
    };
    let document: Table = [
        ("title".to_owned(), Value::String("cuts".to_owned())),
        ("ssd".to_owned(), Value::Table(whole)),
        ("workload".to_owned(), Value::Table([("requests".to_owned(), Value::Integer(1))].into_iter().collect())),
    ]
    .into_iter()
    .collect();
    let section = SsdExperiment::resolve(&document.to_string(), &[]).map_err(as_plan_error)?.ssd;
    if section.store != "bytes" {
        return refuse(
            "ssd.store",
            format!("{:?}", section.store),
            "\"bytes\": contents are held against what was written",
        );
    }
    if section.endurance > 0 && !preset {
        return refuse("ssd.endurance", section.endurance, "0: cuts come without worn-out blocks");
    }
    let raw = compose::shape(&section).raw_pages();
    if raw > MOST_PAGES {
        return refuse(
            "ssd.blocks",
            format!("{raw} pages in all"),
            &format!("{MOST_PAGES} at most: every cut reads all of them"),
        );
    }
    let buffer_pages = match pages.filter(|_| !in_mib) {
        Some(pages) => (section.cache.policy != "none" && pages > 0).then_some(pages),
        None => compose::drive(&section).cache.map(|cache| cache.pages),
    };
    Ok((section, buffer_pages))
}

/// Puts the values of `over` over those of `base`, table by table.
fn lay_over(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => lay_over(base, over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

fn as_plan_error(error: ExperimentError) -> PlanError {
    match error {
        ExperimentError::UnknownKey { key, nearest } => {
            let nearest = nearest.map_or(String::new(), |known| {
                format!("; the nearest is `{}`", known.rsplit('.').next().unwrap_or_default())
            });
            PlanError::new(key, "an unknown key", format!("a known key{nearest}"))
        }
        ExperimentError::Value { key, found, expected } => PlanError::new(key, found, expected),
        ExperimentError::Syntax(what) => PlanError::new("ssd", what, "a drive as experiments describe it"),
    }
}

fn load(mut keys: Keys, section: &SsdSection) -> Result<Load, PlanError> {
    let depth = section.front.depth;
    let mut load = Load {
        requests: keys.small("requests", 1, 1 << 24, 600)?,
        depth: keys.small("depth", 1, depth, depth.min(8))?,
        most_pages: keys.small("most_pages", 1, 64, 4)?,
        queues: if section.front.protocol == "nvme" { section.front.queue_weights.len() as u16 } else { 1 },
        weights: Load::WEIGHTS,
    };
    let mut weights = keys.table("mix")?;
    for kind in Kind::ALL {
        let weight = &mut load.weights[kind as usize];
        *weight = weights.small(kind.name(), 0, 1_000_000, *weight)?;
    }
    if load.weights.iter().all(|&weight| weight == 0) {
        return refuse(&keys.path("mix"), "every weight 0", "one above 0");
    }
    weights.finish()?;
    keys.finish()?;
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_drive_lies_over_the_base_of_experiments() {
        let (section, pages) = drive(Table::new()).unwrap();
        assert_eq!((section.blocks, section.ftl.gc.as_str(), section.preset.as_str()), (16, "greedy", "base"));
        assert_eq!(pages, Some(12));
    }

    #[test]
    fn a_buffer_is_sized_in_pages_or_in_mib() {
        let sized = |text: &str| drive(text.parse().unwrap());
        assert_eq!(sized("[cache]\npages = 3").unwrap().1, Some(3));
        assert_eq!(sized("[cache]\nmib = 0.0078125").unwrap().1, Some(8));
        assert_eq!(sized("[cache]\npolicy = 'none'").unwrap().1, None);
        assert!(
            sized("[cache]\npages = 3\nmib = 1").unwrap_err().to_string().starts_with("ssd.cache.mib: found it and")
        );
    }
}
