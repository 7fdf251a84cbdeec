//! An experiment: one TOML file, strict and complete.
//!
//! An unknown key is an error that names the nearest known one. The resolved experiment, every default written out,
//! is stored with the result; nothing outside it influences a run.

use serde::{Deserialize, Serialize};
use sim::seam::{Geometry, Medium};
use thiserror::Error;
use toml::Value;
use ubi::Policy;
use workload::{BackgroundShare, NearFullParams};

/// Why an experiment cannot be used.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ExperimentError {
    /// Not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that no experiment has.
    #[error("unknown key `{key}`{}", nearest.as_ref().map_or(String::new(), |known| format!("; did you mean `{known}`?")))]
    UnknownKey {
        /// The key, with its tables.
        key: String,
        /// The known key nearest to it.
        nearest: Option<String>,
    },
    /// A value of the wrong kind or out of its range.
    #[error("key `{key}`: found {found}, expected {expected}")]
    Value {
        /// The key, with its tables.
        key: String,
        /// What was found.
        found: String,
        /// What it may be.
        expected: String,
    },
}

/// One question, put to one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A short name.
    pub title: String,
    /// What is to be found out.
    #[serde(default)]
    pub question: String,
    /// From which every draw derives.
    #[serde(default = "one")]
    pub seed: u64,
    /// The flash.
    pub nand: NandSection,
    /// The layer on it.
    pub ubi: UbiSection,
    /// The load.
    #[serde(default)]
    pub workload: WorkloadSection,
    /// When the run ends.
    pub stop: StopSection,
    /// What is recorded on the way.
    #[serde(default)]
    pub record: RecordSection,
}

/// The flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandSection {
    /// Number of physical eraseblocks.
    pub pebs: u32,
    /// Bytes of one.
    #[serde(default = "peb_bytes")]
    pub peb_bytes: u32,
    /// Bytes of a page: the write unit.
    #[serde(default = "page_bytes")]
    pub page_bytes: u32,
    /// Bytes of a sub-page; equal to `page_bytes` for none.
    #[serde(default = "page_bytes")]
    pub subpage_bytes: u32,
    /// `off` (nandsim's default: only the processor's work takes time) or `on` (nandsim's cell and bus delays).
    #[serde(default = "off")]
    pub delays: String,
    /// What copying a byte to or from the simulated cells costs the processor, in picoseconds.
    #[serde(default = "copy_ps")]
    pub copy_ps_per_byte: u64,
    /// What erasing a block costs the processor, in nanoseconds.
    #[serde(default = "erase_ns")]
    pub erase_ns: u64,
    /// Erasures for which blocks are rated; 0 for not stated. Drawn in the report, not simulated.
    #[serde(default)]
    pub endurance: u32,
}

/// UBI.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UbiSection {
    /// Whose rules: `linux-6.1` (before the series of source 000) or `linux-6.7` (after it).
    pub wl: String,
    /// Erase-count difference from which data are moved.
    #[serde(default = "wl_threshold")]
    pub wl_threshold: u32,
    /// PEBs reserved for bad-block handling per 1024.
    #[serde(default = "beb_per_1024")]
    pub beb_per_1024: u32,
    /// Whether fastmaps are used and written.
    #[serde(default = "yes")]
    pub fastmap: bool,
    /// Whether the user pool's maximum is taken from the space of volumes.
    #[serde(default)]
    pub fastmap_reserve_pools: bool,
    /// Single changes of the series, over what `wl` says.
    #[serde(default)]
    pub changes: Changes,
}

/// Single changes of the series; what is left out is as `wl` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// [`Policy::count_in_place_erases`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count_in_place_erases: Option<bool>,
    /// [`Policy::wait_for_free_pebs`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_free_pebs: Option<bool>,
    /// [`Policy::pools_use_beb_reserve`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pools_use_beb_reserve: Option<bool>,
    /// [`Policy::wl_beyond_limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wl_beyond_limit: Option<bool>,
    /// [`Policy::pass_over_unless_anchor`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_over_unless_anchor: Option<bool>,
}

/// The load: a log-structured file system on a volume that it has filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadSection {
    /// `ubifs-near-full`.
    pub kind: String,
    /// How the background thread gets processor time: `prompt`, `own-processor`, `jiffies-clock`.
    pub background: String,
    /// LEBs of the main area that are empty between two steps.
    pub empty_main_lebs: u32,
    /// Share of steps that begin a log LEB.
    pub log_share: f64,
    /// Share of steps that rewrite a master or LEB-properties LEB.
    pub in_place_share: f64,
    /// Share of collected LEBs that are unmapped only after the next step.
    pub late_unmap_share: f64,
    /// Share of collected LEBs that were filled a few steps before.
    pub short_lived_share: f64,
    /// Share of the main area that is never rewritten.
    pub cold_share: f64,
    /// Steps (PEBs obtained) per second of virtual time.
    pub steps_per_s: f64,
}

impl Default for WorkloadSection {
    fn default() -> Self {
        let params = NearFullParams::ubifs(BackgroundShare::OWN_PROCESSOR);
        WorkloadSection {
            kind: "ubifs-near-full".to_owned(),
            background: "own-processor".to_owned(),
            empty_main_lebs: params.empty_main_lebs,
            log_share: params.log_share,
            in_place_share: params.in_place_share,
            late_unmap_share: params.late_unmap_share,
            short_lived_share: params.short_lived_share,
            cold_share: params.cold_share,
            steps_per_s: 250.0,
        }
    }
}

/// When the run ends: at whichever comes first. A value of 0 is no condition; one must be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopSection {
    /// Mean erase count of the PEBs outside the first 64.
    pub mean_erases_of_others: f64,
    /// Steps of the load.
    pub steps: u64,
    /// Virtual seconds.
    pub virtual_s: f64,
    /// Erase count of the most worn PEB.
    pub max_erases: u32,
}

/// What is recorded on the way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordSection {
    /// Points of the timeline, about.
    pub points: u32,
}

impl Default for RecordSection {
    fn default() -> Self {
        RecordSection { points: 200 }
    }
}

fn one() -> u64 {
    1
}
fn yes() -> bool {
    true
}
fn off() -> String {
    "off".to_owned()
}
fn peb_bytes() -> u32 {
    128 << 10
}
fn page_bytes() -> u32 {
    2048
}
fn copy_ps() -> u64 {
    100
}
fn erase_ns() -> u64 {
    15_000
}
fn wl_threshold() -> u32 {
    4096
}
fn beb_per_1024() -> u32 {
    20
}

/// Every key, with its tables. A test holds this list and the structures equal.
pub const KEYS: &[&str] = &[
    "title",
    "question",
    "seed",
    "nand.pebs",
    "nand.peb_bytes",
    "nand.page_bytes",
    "nand.subpage_bytes",
    "nand.delays",
    "nand.copy_ps_per_byte",
    "nand.erase_ns",
    "nand.endurance",
    "ubi.wl",
    "ubi.wl_threshold",
    "ubi.beb_per_1024",
    "ubi.fastmap",
    "ubi.fastmap_reserve_pools",
    "ubi.changes.count_in_place_erases",
    "ubi.changes.wait_for_free_pebs",
    "ubi.changes.pools_use_beb_reserve",
    "ubi.changes.wl_beyond_limit",
    "ubi.changes.pass_over_unless_anchor",
    "workload.kind",
    "workload.background",
    "workload.empty_main_lebs",
    "workload.log_share",
    "workload.in_place_share",
    "workload.late_unmap_share",
    "workload.short_lived_share",
    "workload.cold_share",
    "workload.steps_per_s",
    "stop.mean_erases_of_others",
    "stop.steps",
    "stop.virtual_s",
    "stop.max_erases",
    "record.points",
];

impl Experiment {
    /// Reads an experiment, with `--set key=value` pairs over it.
    /// Errors: not TOML, an unknown key, a value out of its range.
    pub fn resolve(text: &str, sets: &[(String, String)]) -> Result<Experiment, ExperimentError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| syntax(&error))?;
        Experiment::from_table(table, sets)
    }

    /// The same from a table.
    /// Errors: as [`resolve`](Self::resolve).
    pub fn from_table(mut table: toml::Table, sets: &[(String, String)]) -> Result<Experiment, ExperimentError> {
        for (key, value) in sets {
            set(&mut table, key, value, KEYS)?;
        }
        check_keys(&table, "", KEYS)?;
        let experiment: Experiment = Value::Table(table).try_into().map_err(|error: toml::de::Error| syntax(&error))?;
        experiment.check()?;
        Ok(experiment)
    }

    /// As stored with the result: every default written out.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be written as TOML: {error}\n"))
    }

    fn check(&self) -> Result<(), ExperimentError> {
        let wrong = |key: &str, found: &dyn std::fmt::Display, expected: String| {
            Err(ExperimentError::Value { key: key.to_owned(), found: format!("`{found}`"), expected })
        };
        if Policy::by_name(&self.ubi.wl).is_none() {
            return wrong("ubi.wl", &self.ubi.wl, format!("one of {}", Policy::NAMES.join(", ")));
        }
        if self.workload.kind != "ubifs-near-full" {
            return wrong("workload.kind", &self.workload.kind, "`ubifs-near-full`".to_owned());
        }
        if BackgroundShare::by_name(&self.workload.background).is_none() {
            let expected = format!("one of {}", BackgroundShare::NAMES.join(", "));
            return wrong("workload.background", &self.workload.background, expected);
        }
        if !matches!(self.nand.delays.as_str(), "off" | "on") {
            return wrong("nand.delays", &self.nand.delays, "`off` or `on`".to_owned());
        }
        if !(64..=1 << 20).contains(&self.nand.pebs) {
            return wrong("nand.pebs", &self.nand.pebs, "64 to 1,048,576".to_owned());
        }
        if !(2..=65_536).contains(&self.ubi.wl_threshold) {
            return wrong("ubi.wl_threshold", &self.ubi.wl_threshold, "2 to 65,536".to_owned());
        }
        if self.ubi.beb_per_1024 > 768 {
            return wrong("ubi.beb_per_1024", &self.ubi.beb_per_1024, "0 to 768".to_owned());
        }
        let workload = &self.workload;
        for (key, share) in [
            ("workload.log_share", workload.log_share),
            ("workload.in_place_share", workload.in_place_share),
            ("workload.late_unmap_share", workload.late_unmap_share),
            ("workload.short_lived_share", workload.short_lived_share),
            ("workload.cold_share", workload.cold_share),
        ] {
            if !(0.0..=0.95).contains(&share) {
                return wrong(key, &share, "0 to 0.95".to_owned());
            }
        }
        if !(2..=64).contains(&workload.empty_main_lebs) {
            return wrong("workload.empty_main_lebs", &workload.empty_main_lebs, "2 to 64".to_owned());
        }
        if !(workload.steps_per_s > 0.0 && workload.steps_per_s <= 1e9) {
            return wrong("workload.steps_per_s", &workload.steps_per_s, "above 0, at most 1e9".to_owned());
        }
        let stop = &self.stop;
        if stop.mean_erases_of_others <= 0.0 && stop.steps == 0 && stop.virtual_s <= 0.0 && stop.max_erases == 0 {
            return wrong(
                "stop",
                &"no condition",
                "one of mean_erases_of_others, steps, virtual_s, max_erases".to_owned(),
            );
        }
        ubi::layout::Layout::new(&self.geometry(), None).map_err(|error| ExperimentError::Value {
            key: "nand".to_owned(),
            found: format!("{} of {}", error.what, error.found),
            expected: error.expected,
        })?;
        Ok(())
    }

    /// The flash's shape.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            medium: Medium::Nand,
            pebs: self.nand.pebs,
            peb_bytes: self.nand.peb_bytes,
            page_bytes: self.nand.page_bytes,
            subpage_bytes: self.nand.subpage_bytes,
            oob_bytes: self.nand.page_bytes / 32,
        }
    }

    /// UBI's parameters.
    pub fn ubi_config(&self) -> ubi::Config {
        let mut policy = Policy::by_name(&self.ubi.wl).unwrap_or(Policy::LINUX_6_7);
        let changes = self.ubi.changes;
        for (value, change) in [
            (&mut policy.count_in_place_erases, changes.count_in_place_erases),
            (&mut policy.wait_for_free_pebs, changes.wait_for_free_pebs),
            (&mut policy.pools_use_beb_reserve, changes.pools_use_beb_reserve),
            (&mut policy.wl_beyond_limit, changes.wl_beyond_limit),
            (&mut policy.pass_over_unless_anchor, changes.pass_over_unless_anchor),
        ] {
            *value = change.unwrap_or(*value);
        }
        let mut config = ubi::Config::linux(policy);
        config.wl_threshold = self.ubi.wl_threshold;
        config.beb_per_1024 = self.ubi.beb_per_1024;
        config.fastmap = self.ubi.fastmap;
        config.fastmap_reserve_pools = self.ubi.fastmap_reserve_pools;
        config
    }

    /// The load's parameters.
    pub fn near_full(&self) -> NearFullParams {
        let workload = &self.workload;
        let background = BackgroundShare::by_name(&workload.background).unwrap_or(BackgroundShare::PROMPT);
        NearFullParams {
            empty_main_lebs: workload.empty_main_lebs,
            log_share: workload.log_share,
            in_place_share: workload.in_place_share,
            late_unmap_share: workload.late_unmap_share,
            short_lived_share: workload.short_lived_share,
            cold_share: workload.cold_share,
            background,
        }
    }
}

pub(crate) fn syntax(error: &toml::de::Error) -> ExperimentError {
    ExperimentError::Syntax(error.to_string().trim_end().to_owned())
}

/// The known key nearest to `key`, if one is near at all.
pub fn nearest_key<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .into_iter()
        .map(|known| {
            (
                strsim::damerau_levenshtein(key, known).min(1 + strsim::damerau_levenshtein(&last(key), &last(known))),
                known,
            )
        })
        .min()
        .filter(|&(distance, known)| distance <= known.len().max(3) / 3 + 1)
        .map(|(_, known)| known.to_owned())
}

/// Errors: a key that is not among `known`, with the nearest that is.
pub(crate) fn check_keys(table: &toml::Table, prefix: &str, known: &[&str]) -> Result<(), ExperimentError> {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let as_table = format!("{key}.");
        match value {
            Value::Table(inner) if known.iter().any(|known| known.starts_with(&as_table)) => {
                check_keys(inner, &key, known)?;
            }
            _ if known.contains(&key.as_str()) => {}
            _ => {
                let nearest = nearest_key(&key, known.iter().copied());
                return Err(ExperimentError::UnknownKey { key, nearest });
            }
        }
    }
    Ok(())
}

/// Puts `value`, read as TOML where it is and as a string where not, at the dotted `key`, one of `known`.
pub(crate) fn set(table: &mut toml::Table, key: &str, value: &str, known: &[&str]) -> Result<(), ExperimentError> {
    if !known.contains(&key) {
        let nearest = nearest_key(key, known.iter().copied());
        return Err(ExperimentError::UnknownKey { key: key.to_owned(), nearest });
    }
    let parsed = format!("v = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("v"));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    let mut at = table;
    let mut parts: Vec<&str> = key.split('.').collect();
    let leaf = parts.pop().unwrap_or_default();
    for part in parts {
        let next = at.entry(part).or_insert_with(|| Value::Table(toml::Table::new()));
        let Value::Table(inner) = next else {
            let found = format!("`{next}`");
            return Err(ExperimentError::Value { key: part.to_owned(), found, expected: "a table".to_owned() });
        };
        at = inner;
    }
    at.insert(leaf.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str = "title = 'hello'\n[nand]\npebs = 128\n[ubi]\nwl = 'linux-6.1'\n[stop]\nsteps = 10\n";

    #[test]
    fn a_short_experiment_resolves_and_reads_back_as_itself() {
        let experiment = Experiment::resolve(HELLO, &[]).unwrap();
        assert_eq!(Experiment::resolve(&experiment.to_toml(), &[]), Ok(experiment));
    }

    #[test]
    fn the_list_of_keys_is_that_of_the_structures() {
        fn walk(table: &toml::Table, prefix: &str, into: &mut Vec<String>) {
            for (name, value) in table {
                let key = format!("{prefix}{name}");
                match value {
                    Value::Table(inner) => walk(inner, &format!("{key}."), into),
                    _ => into.push(key),
                }
            }
        }
        let sets: Vec<_> = KEYS
            .iter()
            .filter(|key| key.contains(".changes."))
            .map(|key| ((*key).to_owned(), "true".to_owned()))
            .collect();
        let experiment = Experiment::resolve(HELLO, &sets).unwrap();
        let mut found = Vec::new();
        walk(&experiment.to_toml().parse().unwrap(), "", &mut found);
        let mut known: Vec<_> = KEYS.iter().map(|&key| key.to_owned()).collect();
        found.sort();
        known.sort();
        assert_eq!(found, known);
    }

    #[test]
    fn a_misspelt_key_names_the_nearest() {
        let text = HELLO.replace("pebs", "pebbs");
        let error = Experiment::resolve(&text, &[]).unwrap_err();
        assert_eq!(error.to_string(), "unknown key `nand.pebbs`; did you mean `nand.pebs`?");
        let sets = [("nand.peb".to_owned(), "1".to_owned())];
        assert!(Experiment::resolve(HELLO, &sets).unwrap_err().to_string().contains("nand.pebs"));
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        for (key, value) in [
            ("ubi.wl", "linux-9"),
            ("nand.pebs", "3"),
            ("nand.page_bytes", "1000"),
            ("workload.log_share", "2.0"),
            ("ubi.wl_threshold", "1"),
            ("stop.steps", "0"),
        ] {
            let error = Experiment::resolve(HELLO, &[(key.to_owned(), value.to_owned())]).unwrap_err();
            let table = key.split('.').next().unwrap();
            assert!(error.to_string().contains(&format!("key `{table}")), "{error}");
        }
    }

    #[test]
    fn a_single_change_is_laid_over_the_policy() {
        let sets = [("ubi.changes.wait_for_free_pebs".to_owned(), "true".to_owned())];
        let policy = Experiment::resolve(HELLO, &sets).unwrap().ubi_config().policy;
        assert_eq!(policy, Policy { wait_for_free_pebs: true, ..Policy::LINUX_6_1 });
    }
}
