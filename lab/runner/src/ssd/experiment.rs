//! An SSD experiment: one TOML file over a preset, strict and complete.
//!
//! The values of a file lie over those of its preset, and a preset's over [`presets::BASE`]; the resolved experiment has
//! them all, and gives the same result whatever becomes of the preset. An unknown key is an error that names the
//! nearest known one.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::phases::{self, AppsSection, IozoneSection};
use super::{compose, load, presets, ufs};
use crate::experiment::{ExperimentError, check_keys, nearest_key, set, syntax};

/// One question, put to one drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdExperiment {
    /// A short name.
    pub title: String,
    /// What is to be found out.
    #[serde(default)]
    pub question: String,
    /// From which every draw derives.
    pub seed: u64,
    /// The drive.
    pub ssd: SsdSection,
    /// The state in which the measurement finds it.
    pub precondition: PreconditionSection,
    /// What the host asks.
    pub workload: WorkloadSection,
    /// A recording to be replayed in place of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSection>,
    /// iozone's threads in place of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iozone: Option<IozoneSection>,
    /// App start-up in place of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apps: Option<AppsSection>,
    /// When the run ends, beside the load's own end.
    pub stop: StopSection,
    /// What is recorded on the way.
    pub record: RecordSection,
}

/// The drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSection {
    /// The preset under the values; `base` for none.
    pub preset: String,
    /// Buses.
    pub channels: u32,
    /// Chips on each.
    pub ways: u32,
    /// Dies of each chip.
    pub dies: u32,
    /// Planes of each die.
    pub planes: u32,
    /// NAND blocks of each plane.
    pub blocks: u32,
    /// Pages of each block.
    pub pages: u32,
    /// KiB of a page, the unit of mapping: 0.5 to 64, a power of two.
    pub page_kib: f64,
    /// Order of striping, the axis that changes fastest first: the letters c, w, d, p.
    pub order: String,
    /// Whether the planes of a die work in step.
    pub multi_plane: bool,
    /// Spare over logical capacity: (raw - logical) / logical, in per cent. Absent where `capacity_bytes` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_provisioning_percent: Option<f64>,
    /// Logical capacity, rounded down to whole stripes. Absent where `over_provisioning_percent` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Erasures for which blocks are rated; 0: they do not wear out.
    pub endurance: u32,
    /// `tags` (which pages are programmed) or `bytes` (their contents too).
    pub store: String,
    /// Times of the flash.
    pub timing: TimingSection,
    /// The translation layer.
    pub ftl: FtlSection,
    /// The write buffer.
    pub cache: CacheSection,
    /// The host's side.
    pub front: FrontSection,
    /// UFS: a map cache in the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpb: Option<ufs::HpbSection>,
    /// UFS: blocks used with one bit a cell take what the host writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_booster: Option<ufs::WriteBoosterSection>,
}

/// Times of the flash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingSection {
    /// Array read of the lower, middle, upper, top page: as many values as bits in a cell.
    pub read_us: Vec<f64>,
    /// Array program, the same.
    pub program_us: Vec<f64>,
    /// Block erase.
    pub erase_us: f64,
    /// Array read of blocks used with one bit a cell.
    pub slc_read_us: f64,
    /// Array program of them.
    pub slc_program_us: f64,
    /// Their erase.
    pub slc_erase_us: f64,
    /// Command and address cycles of an operation, on the bus.
    pub command_ns: u64,
    /// Mega-transfers of a byte each a second, or an ONFI mode: `sdr-0` to `sdr-5`, `nv-ddr-0` to `nv-ddr-5`.
    pub bus: Bus,
    /// Bytes that cross the bus with each page beside its own.
    pub oob_bytes: u32,
    /// From a suspend command to an array that reads; 0: programs cannot be suspended.
    pub suspend_program_us: f64,
    /// The same for erases.
    pub suspend_erase_us: f64,
    /// From a resume command to an array that goes on.
    pub resume_us: f64,
    /// Suspends of one operation at most.
    pub max_suspends: u32,
    /// The next read begins while the last one's data leave.
    pub cache_read: bool,
    /// The next program's data come in while the array programs.
    pub cache_program: bool,
    /// Pages are moved inside a plane without crossing the bus.
    pub copyback: bool,
    /// Which operation a free die takes: `reads-first` or `in-order`.
    pub scheduling: String,
}

/// The rate of the flash bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bus {
    /// Mega-transfers a second.
    Rate(u32),
    /// An ONFI mode.
    Mode(String),
}

/// The translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlSection {
    /// `page`, `dftl`, `bast`, `fast` or `block`.
    pub mapping: String,
    /// Which block is collected: `greedy`, `cost-benefit`, `d-choices`, `fifo`, `windowed`, `random`.
    pub gc: String,
    /// Blocks drawn by `d-choices`.
    pub gc_choices: u32,
    /// Blocks looked at by `windowed`.
    pub gc_window: u32,
    /// Free blocks of a unit that the host may not open.
    pub gc_low: u32,
    /// An idle unit collects while fewer blocks are free.
    pub gc_background: u32,
    /// Pages that the host writes to a unit between two checkpoints of its mapping; 0: none is written.
    pub checkpoint_every: u32,
    /// Idle time of a die before background work begins; 0: none does.
    pub background_after_us: f64,
    /// Collection that the host waits for: `block` (victims are finished) or `paced` (spread over host pages).
    pub foreground: String,
    /// Whether copied pages are kept apart from pages that the host writes.
    pub hot_cold: bool,
    /// Wear levelling: `none`, `dynamic`, `static`.
    pub wear: String,
    /// `static`: difference of erase counts from which cold data move.
    pub wear_threshold: u32,
    /// `static`: erasures of a unit between two blocks levelled.
    pub wear_every: u32,
    /// Share of blocks used with one bit a cell as a cache, in per cent.
    pub slc_percent: f64,
    /// When that is full: `direct` (to a normal block) or `fold` (the oldest is emptied first).
    pub slc_when_full: String,
    /// Log blocks of a unit: `bast`, `fast`.
    pub log_blocks: u32,
    /// Mapping tables held in memory: `dftl`.
    pub map_cache_kib: u32,
    /// What of them is cached at once: `page` (a page of the table) or `entry`.
    pub map_grain: String,
    /// Share of the cache that keeps what was used twice, in per cent; 0: least recently used leaves first.
    pub map_protected_percent: u32,
}

/// The write buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSection {
    /// Which page leaves first: `none` (no buffer), `fifo`, `lru`, `bplru`, and without a part of it `bplru-unpadded`,
    /// `bplru-uncompensated`.
    pub policy: String,
    /// Its size.
    pub mib: f64,
}

/// The host's side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontSection {
    /// `sata`, `nvme` or `ufs`.
    pub protocol: String,
    /// Commands held at a time: SATA and UFS up to 32.
    pub depth: u32,
    /// The controller's own work on a command, one at a time.
    pub command_us: f64,
    /// Payload of the link, MB a second (10^6); 0: it takes no time.
    pub link_mb_s: f64,
    /// Whether both directions share it.
    pub half_duplex: bool,
    /// Whether writes complete in the buffer.
    pub write_cache: bool,
    /// What trimmed sectors read as: `zeroes`, `deterministic`, `undefined`.
    pub trimmed_reads: String,
    /// NVMe: a weight for each submission queue.
    pub queue_weights: Vec<u32>,
}

/// The state in which the measurement finds the drive, reached without time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreconditionSection {
    /// `none`, `sequential` (written once in order), `random` (as many random pages), `steady` (in order, then random
    /// until write amplification stays).
    pub kind: String,
    /// Of the capacity, from its beginning: 0 to 1.
    pub fraction: f64,
    /// `steady`: two windows, in each of which the host writes as many pages, differ by less than this share.
    pub settled_within: f64,
    /// `steady`: windows at most.
    pub windows: u32,
}

/// What the host asks. Either `fio`, or the other keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSection {
    /// A fio job file's text; empty: the keys below. The command line takes a path too, and stores the text.
    pub fio: String,
    /// As fio's: `read`, `write`, `trim`, `randread`, `randwrite`, `randtrim`, `rw`, `randrw`.
    pub rw: String,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests outstanding.
    pub depth: u32,
    /// Requests in all; 0: no limit.
    pub requests: u64,
    /// Virtual seconds; 0: no limit.
    pub seconds: f64,
    /// Reads of `rw` and `randrw`.
    pub read_percent: u8,
    /// Where the region begins.
    pub offset_bytes: u64,
    /// How long it is; 0: to the end.
    pub size_bytes: u64,
    /// A flush follows so many writes; 0: none.
    pub flush_every: u64,
    /// Every so many writes one is a barrier, with a flush before and after it; 0: none.
    pub barrier_every: u64,
    /// Exponent of a Zipf distribution; 0: uniform.
    pub zipf: f64,
    /// Whether writes are durable when they complete.
    pub fua: bool,
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSection {
    /// Where it is; for the reader of the result.
    pub file: String,
    /// `open` (by its times), `closed` (by `depth`), `dependency` (each request after those that had completed before it).
    #[serde(default = "open")]
    pub mode: String,
    /// How much faster than recorded.
    #[serde(default = "recorded")]
    pub speed: f64,
    /// `closed`: requests outstanding.
    #[serde(default = "deep")]
    pub depth: u32,
    /// Whether addresses beyond the drive begin again at its start; refused otherwise.
    #[serde(default)]
    pub wrap: bool,
    /// Which of its devices, where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

fn open() -> String {
    "open".to_owned()
}
fn recorded() -> f64 {
    1.0
}
fn deep() -> u32 {
    32
}

/// When the run ends, beside the load's own end: at whichever comes first. 0 is no condition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopSection {
    /// Virtual seconds.
    pub virtual_s: f64,
    /// Requests.
    pub requests: u64,
    /// Capacities written by the host.
    pub drive_writes: f64,
    /// Erasures of the most worn block.
    pub max_erases: u32,
}

/// What is recorded on the way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordSection {
    /// Points of the timeline: from half as many to as many.
    pub points: u32,
    /// Whether the pattern of the writes handed to the drive is measured: segmented sequentiality.
    pub pattern: bool,
}

/// Every key, with its tables. A test holds this list and the structures equal.
pub fn keys() -> Vec<&'static str> {
    [KEYS, &ufs::KEYS].concat()
}

/// Those of every drive.
const KEYS: &[&str] = &[
    "title",
    "question",
    "seed",
    "ssd.preset",
    "ssd.channels",
    "ssd.ways",
    "ssd.dies",
    "ssd.planes",
    "ssd.blocks",
    "ssd.pages",
    "ssd.page_kib",
    "ssd.order",
    "ssd.multi_plane",
    "ssd.over_provisioning_percent",
    "ssd.capacity_bytes",
    "ssd.endurance",
    "ssd.store",
    "ssd.timing.read_us",
    "ssd.timing.program_us",
    "ssd.timing.erase_us",
    "ssd.timing.slc_read_us",
    "ssd.timing.slc_program_us",
    "ssd.timing.slc_erase_us",
    "ssd.timing.command_ns",
    "ssd.timing.bus",
    "ssd.timing.oob_bytes",
    "ssd.timing.suspend_program_us",
    "ssd.timing.suspend_erase_us",
    "ssd.timing.resume_us",
    "ssd.timing.max_suspends",
    "ssd.timing.cache_read",
    "ssd.timing.cache_program",
    "ssd.timing.copyback",
    "ssd.timing.scheduling",
    "ssd.ftl.mapping",
    "ssd.ftl.gc",
    "ssd.ftl.gc_choices",
    "ssd.ftl.gc_window",
    "ssd.ftl.gc_low",
    "ssd.ftl.gc_background",
    "ssd.ftl.checkpoint_every",
    "ssd.ftl.background_after_us",
    "ssd.ftl.foreground",
    "ssd.ftl.hot_cold",
    "ssd.ftl.wear",
    "ssd.ftl.wear_threshold",
    "ssd.ftl.wear_every",
    "ssd.ftl.slc_percent",
    "ssd.ftl.slc_when_full",
    "ssd.ftl.log_blocks",
    "ssd.ftl.map_cache_kib",
    "ssd.ftl.map_grain",
    "ssd.ftl.map_protected_percent",
    "ssd.cache.policy",
    "ssd.cache.mib",
    "ssd.front.protocol",
    "ssd.front.depth",
    "ssd.front.command_us",
    "ssd.front.link_mb_s",
    "ssd.front.half_duplex",
    "ssd.front.write_cache",
    "ssd.front.trimmed_reads",
    "ssd.front.queue_weights",
    "precondition.kind",
    "precondition.fraction",
    "precondition.settled_within",
    "precondition.windows",
    "workload.fio",
    "workload.rw",
    "workload.block_bytes",
    "workload.depth",
    "workload.requests",
    "workload.seconds",
    "workload.read_percent",
    "workload.offset_bytes",
    "workload.size_bytes",
    "workload.flush_every",
    "workload.barrier_every",
    "workload.zipf",
    "workload.fua",
    "trace.file",
    "trace.mode",
    "trace.speed",
    "trace.depth",
    "trace.wrap",
    "trace.device",
    "iozone.threads",
    "iozone.record_bytes",
    "iozone.range_bytes",
    "iozone.offset_bytes",
    "iozone.phases",
    "iozone.host_us",
    "iozone.records",
    "iozone.stonewall",
    "iozone.flush",
    "iozone.mixed_records",
    "apps.apps",
    "apps.games",
    "apps.cycles",
    "apps.offset_bytes",
    "apps.size_bytes",
    "apps.app_mib",
    "apps.game_mib",
    "apps.spread_percent",
    "apps.fragment_kib",
    "apps.app_random_reads",
    "apps.game_random_reads",
    "apps.fresh_percent",
    "apps.app_sequential_mib",
    "apps.game_sequential_mib",
    "apps.sequential_kib",
    "apps.order",
    "apps.readers",
    "apps.app_cpu_ms",
    "apps.game_cpu_ms",
    "apps.page_cache_mib",
    "apps.write_percent",
    "stop.virtual_s",
    "stop.requests",
    "stop.drive_writes",
    "stop.max_erases",
    "record.points",
    "record.pattern",
];

/// Whether a file is an experiment on a drive: it has a table `ssd`. Text that is no TOML is none.
pub fn is_ssd(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("ssd"))
}

/// The path of a job file that an experiment, or a pair over it, names as its load; `None` where there is none or the
/// job stands there itself.
pub fn job_path(text: &str, sets: &[(String, String)]) -> Option<String> {
    let mut table: toml::Table = text.parse().ok()?;
    for (key, value) in sets.iter().filter(|(key, _)| key == "workload.fio") {
        set(&mut table, key, value, &keys()).ok()?;
    }
    let fio = table.get("workload")?.get("fio")?.as_str()?;
    (!fio.is_empty() && !fio.contains(['\n', '['])).then(|| fio.to_owned())
}

pub(crate) fn wrong<T>(key: &str, found: impl std::fmt::Display, expected: &str) -> Result<T, ExperimentError> {
    Err(ExperimentError::Value { key: key.to_owned(), found: format!("`{found}`"), expected: expected.to_owned() })
}

/// Two ways to say how much of the flash is spare: the later one counts.
const CAPACITY: [&str; 2] = ["over_provisioning_percent", "capacity_bytes"];

impl SsdExperiment {
    /// Reads an experiment, with `--set key=value` pairs over it.
    /// Errors: not TOML, an unknown key, a value out of its range, a drive that cannot be.
    pub fn resolve(text: &str, sets: &[(String, String)]) -> Result<SsdExperiment, ExperimentError> {
        let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| syntax(&error))?;
        check_keys(&table, "", &keys())?;
        if let Some(Value::Table(ssd)) = table.get("ssd")
            && CAPACITY.iter().all(|key| ssd.contains_key(*key))
        {
            return wrong("ssd.capacity_bytes", "it and over_provisioning_percent", "one of the two");
        }
        for (key, value) in sets {
            if let (Some(key), Some(Value::Table(ssd))) = (key.strip_prefix("ssd."), table.get_mut("ssd")) {
                drop_rival(ssd, key);
            }
            set(&mut table, key, value, &keys())?;
        }
        let preset = match table.get("ssd").and_then(|ssd| ssd.get("preset")) {
            None => presets::by_name("base"),
            Some(Value::String(name)) => presets::by_name(name),
            Some(other) => return wrong("ssd.preset", other, "the name of a preset"),
        };
        let preset = preset.map_err(|name| {
            let known = presets::names();
            let nearest = nearest_key(&name, known.iter().copied());
            let nearest = nearest.map_or(String::new(), |near| format!("; the nearest is `{near}`"));
            ExperimentError::Value {
                key: "ssd.preset".to_owned(),
                found: format!("`{name}`"),
                expected: format!("one of {}{nearest}", known.join(", ")),
            }
        })?;
        let mut whole = preset.table();
        lay_over(&mut whole, table);
        let experiment: SsdExperiment =
            Value::Table(whole).try_into().map_err(|error: toml::de::Error| syntax(&error))?;
        experiment.check()?;
        Ok(experiment)
    }

    /// As stored with the result: every value written out.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be written as TOML: {error}\n"))
    }

    fn check(&self) -> Result<(), ExperimentError> {
        compose::check(self)?;
        let precondition = &self.precondition;
        if !["none", "sequential", "random", "steady"].contains(&precondition.kind.as_str()) {
            return wrong("precondition.kind", &precondition.kind, "none, sequential, random or steady");
        }
        if !(0.0..=1.0).contains(&precondition.fraction) {
            return wrong("precondition.fraction", precondition.fraction, "0 to 1");
        }
        if !(precondition.settled_within > 0.0 && precondition.settled_within <= 1.0) {
            return wrong("precondition.settled_within", precondition.settled_within, "above 0, at most 1");
        }
        if !(1..=10_000).contains(&precondition.windows) {
            return wrong("precondition.windows", precondition.windows, "1 to 10,000");
        }
        if let Some(trace) = &self.trace {
            if !["open", "closed", "dependency"].contains(&trace.mode.as_str()) {
                return wrong("trace.mode", &trace.mode, "open, closed or dependency");
            }
            if !(trace.speed.is_finite() && trace.speed > 0.0 && trace.speed <= 1e9) {
                return wrong("trace.speed", trace.speed, "above 0, at most 1e9");
            }
            if trace.depth == 0 {
                return wrong("trace.depth", trace.depth, "1 or more");
            }
        }
        let stop = &self.stop;
        for (key, value) in [("stop.virtual_s", stop.virtual_s), ("stop.drive_writes", stop.drive_writes)] {
            if !(0.0..=1e9).contains(&value) {
                return wrong(key, value, "0 to 1e9");
            }
        }
        if !(2..=10_000).contains(&self.record.points) {
            return wrong("record.points", self.record.points, "2 to 10,000");
        }
        load::check(self)?;
        phases::check(self)
    }
}

/// Takes the other of the two ways away.
fn drop_rival(ssd: &mut toml::Table, key: &str) {
    if CAPACITY.contains(&key) {
        ssd.retain(|name, _| name == key || !CAPACITY.contains(&name));
    }
}

/// Lays the values of `over` over those of `base`, table by table.
pub(crate) fn lay_over(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        drop_rival(base, &key);
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "title = 't'\n[ssd]\nblocks = 64\n[workload]\nrequests = 10\n";

    fn sets(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn a_short_experiment_resolves_and_reads_back_as_itself() {
        let experiment = SsdExperiment::resolve(SMALL, &[]).unwrap();
        assert_eq!(experiment.ssd.blocks, 64);
        assert_eq!(SsdExperiment::resolve(&experiment.to_toml(), &[]), Ok(experiment));
    }

    /// What makes the tables of UFS appear.
    const UFS: [(&str, &str); 4] = [
        ("ssd.front.protocol", "ufs"),
        ("ssd.front.depth", "32"),
        ("ssd.hpb.version", "1.0"),
        ("ssd.write_booster.mib", "256"),
    ];

    #[test]
    fn the_list_of_keys_is_that_of_the_structures() {
        fn walk(table: &toml::Table, prefix: &str, into: &mut Vec<String>) {
            for (name, value) in table {
                match value {
                    Value::Table(inner) => walk(inner, &format!("{prefix}{name}."), into),
                    _ => into.push(format!("{prefix}{name}")),
                }
            }
        }
        let mut found = vec!["ssd.capacity_bytes".to_owned(), "trace.device".to_owned()];
        // One load at a time.
        for key in [("trace.file", "x"), ("iozone.threads", "4"), ("apps.cycles", "2")] {
            let room = ("ssd.capacity_bytes", "34359738368");
            let large = [("ssd.blocks", "1024"), room, key];
            let large = [&large[..], &UFS].concat();
            let experiment = SsdExperiment::resolve(SMALL, &sets(&large)).unwrap();
            walk(&experiment.to_toml().parse().unwrap(), "", &mut found);
        }
        found.push("ssd.over_provisioning_percent".to_owned());
        let mut known: Vec<_> = keys().iter().map(|&key| key.to_owned()).collect();
        found.sort();
        found.dedup();
        known.sort();
        assert_eq!(found, known);
    }

    #[test]
    fn a_misspelt_key_names_the_nearest() {
        let error = SsdExperiment::resolve(&SMALL.replace("blocks", "blcoks"), &[]).unwrap_err();
        assert_eq!(error.to_string(), "unknown key `ssd.blcoks`; did you mean `ssd.blocks`?");
        let error = SsdExperiment::resolve(SMALL, &sets(&[("ssd.timing.raed_us", "3")])).unwrap_err();
        assert!(error.to_string().contains("`ssd.timing.read_us`"), "{error}");
    }

    #[test]
    fn an_unknown_preset_names_the_nearest() {
        let error = SsdExperiment::resolve(SMALL, &sets(&[("ssd.preset", "sata-2007")])).unwrap_err();
        assert!(error.to_string().contains("the nearest is `sata-2008`"), "{error}");
    }

    #[test]
    fn a_value_lies_over_the_file_the_file_over_the_preset() {
        let text = "title = 't'\n[ssd]\npreset = 'sata-2008'\nways = 1\n[workload]\nrequests = 1\n";
        let experiment = SsdExperiment::resolve(text, &sets(&[("ssd.blocks", "512")])).unwrap();
        assert_eq!((experiment.ssd.channels, experiment.ssd.ways, experiment.ssd.blocks), (4, 1, 512));
    }

    #[test]
    fn capacity_and_over_provisioning_exclude_each_other_and_the_later_counts() {
        let given = sets(&[("ssd.capacity_bytes", "100000000")]);
        let ssd = SsdExperiment::resolve(SMALL, &given).unwrap().ssd;
        assert_eq!((ssd.capacity_bytes, ssd.over_provisioning_percent), (Some(100_000_000), None));
        let both =
            SMALL.replace("blocks = 64", "blocks = 64\ncapacity_bytes = 1000000\nover_provisioning_percent = 20");
        assert!(SsdExperiment::resolve(&both, &[]).unwrap_err().to_string().contains("one of the two"));
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        for (key, value) in [
            ("ssd.channels", "0"),
            ("ssd.order", "cwd"),
            ("ssd.page_kib", "3"),
            ("ssd.over_provisioning_percent", "0.1"),
            ("ssd.store", "paper"),
            ("ssd.planes", "9"),
            ("ssd.timing.read_us", "[1.0, 2.0, 3.0, 4.0, 5.0]"),
            ("ssd.timing.program_us", "[1.0, 2.0]"),
            ("ssd.timing.bus", "sdr-9"),
            ("ssd.ftl.mapping", "magic"),
            ("ssd.ftl.gc", "lazy"),
            ("ssd.ftl.wear", "soft"),
            ("ssd.ftl.slc_percent", "95"),
            ("ssd.cache.policy", "arc"),
            ("ssd.front.protocol", "scsi"),
            ("ssd.front.depth", "0"),
            ("ssd.front.trimmed_reads", "ones"),
            ("precondition.kind", "half"),
            ("precondition.fraction", "1.5"),
            ("workload.rw", "append"),
            ("workload.block_bytes", "100"),
            ("stop.drive_writes", "-1"),
            ("record.points", "1"),
        ] {
            let error = SsdExperiment::resolve(SMALL, &sets(&[(key, value)])).unwrap_err();
            assert!(error.to_string().contains(&format!("key `{key}")), "{key}: {error}");
        }
    }

    #[test]
    fn the_smallest_drive_is_one_die_of_four_blocks() {
        let smallest = [
            ("ssd.channels", "1"),
            ("ssd.ways", "1"),
            ("ssd.planes", "1"),
            ("ssd.blocks", "4"),
            ("ssd.pages", "4"),
            ("ssd.ftl.gc_low", "1"),
            ("ssd.ftl.hot_cold", "false"),
            ("ssd.over_provisioning_percent", "100"),
        ];
        SsdExperiment::resolve(SMALL, &sets(&smallest)).unwrap();
        let mut smaller = smallest;
        smaller[3].1 = "3";
        let error = SsdExperiment::resolve(SMALL, &sets(&smaller)).unwrap_err().to_string();
        assert!(error.contains("at least 4"), "{error}");
        let mut fuller = smallest;
        fuller[7].1 = "0";
        let error = SsdExperiment::resolve(SMALL, &sets(&fuller)).unwrap_err().to_string();
        assert!(error.contains("logical pages of a unit"), "{error}");
    }
}
