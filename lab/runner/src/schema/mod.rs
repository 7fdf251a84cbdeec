//! The experiment file: one TOML dialect for runs, power cuts, studies and sweeps.
//!
//! Each key is declared once, with its meaning, type, bounds and default (`section`). The types give a JSON Schema
//! ([`document`]), which the reader (`check`), the reference page, `--help-keys` and `nandlab schema` use. Nothing here
//! knows the effect of a value: [`Subject`](crate::subject::Subject) refuses values that make no device.
//!
//! Values of a file override those of its part, and `--set` overrides the file. The resolved experiment has every value
//! and is stored with the result.

mod check;
pub mod cpu;
pub mod document;
pub mod drive;
pub mod faults;
pub mod flash;
pub mod fs;
pub mod guest;
pub mod jffs;
pub mod limits;
pub mod load;
mod section;
pub mod ubiblock;
mod unit;
pub mod volumes;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

pub(crate) use check::{check, check_key, is_key};
pub use check::{keys, nearest, word};
use cpu::Cpu;
use drive::{BufferPolicy, Ssd};
use faults::Faults;
use flash::{Nand, Ubi};
use fs::{Fio, Fs, FsKind, Fsstress, Postmark, Strace, Sysbench};
use guest::Guest;
use jffs::{Fill, Logger, Reboots};
use limits::{Cuts, Record, Stop, Sweep};
use load::{Apps, FioJob, Iozone, Precondition, Trace, Workload};
use ubiblock::Ubiblock;
use volumes::Volumes;

use crate::parts::Library;

/// Why an experiment is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ExperimentError {
    /// The text is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that no experiment has.
    #[error("unknown key `{key}`{hint}")]
    UnknownKey {
        /// The dotted key.
        key: String,
        /// What the key was in earlier versions, or the nearest known key; empty if there is neither.
        hint: String,
    },
    /// A value of the wrong type, an unknown word, or a value out of bounds.
    #[error("key `{key}`: found `{found}`, expected {expected}")]
    Value {
        /// The dotted key.
        key: String,
        /// Value found.
        found: String,
        /// Values allowed.
        expected: String,
    },
}

impl ExperimentError {
    /// The error for a key that no experiment has.
    pub fn unknown(key: impl Into<String>) -> ExperimentError {
        let key = key.into();
        let near =
            || check::nearest_key(&key).filter(|near| *near != key).map(|near| format!("; did you mean `{near}`?"));
        let hint = check::formerly(&key).map(|why| format!(": {why}")).or_else(near).unwrap_or_default();
        ExperimentError::UnknownKey { key, hint }
    }

    /// The error for a value that a key cannot have.
    pub fn value(key: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> ExperimentError {
        ExperimentError::Value { key: key.into(), found: found.to_string(), expected: expected.into() }
    }
}

/// As [`ExperimentError::value`], wrapped in `Err`.
pub fn wrong<T>(
    key: impl Into<String>,
    found: impl ToString,
    expected: impl Into<String>,
) -> Result<T, ExperimentError> {
    Err(ExperimentError::value(key, found, expected))
}

fn one() -> u64 {
    1
}

/// One question, put to one device: raw flash with UBI (`nand`), a file system on it (`fs`), a volume of it as a block device
/// (`ubiblock`), or a drive (`ssd`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A short name.
    pub title: String,
    /// What is to be found out.
    #[serde(default)]
    pub question: String,
    /// Seed of everything that is drawn.
    #[serde(default = "one")]
    pub seed: u64,
    /// The raw flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nand: Option<Nand>,
    /// Faults of the flash, raw or in a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// Raw flash: UBI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ubi: Option<Ubi>,
    /// Raw flash: a volume of UBI as a block device, whose loads are those of a drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ubiblock: Option<Ubiblock>,
    /// Raw flash: a file system on a volume of UBI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs: Option<Fs>,
    /// File system: fsstress as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fsstress: Option<Fsstress>,
    /// File system: PostMark as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postmark: Option<Postmark>,
    /// File system: sysbench's `fileio` as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sysbench: Option<Sysbench>,
    /// File system: calls that strace recorded as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strace: Option<Strace>,
    /// File system: a fio job as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fio: Option<Fio>,
    /// JFFS: files that grow until the flash is full as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// File system: a device that appends to logs as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<Logger>,
    /// JFFS2: a device that is switched on and loses power again and again as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboots: Option<Reboots>,
    /// A drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd: Option<Ssd>,
    /// Block device: its state before the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precondition: Option<Precondition>,
    /// The load: of a block device a fio job, of raw flash volumes of UBI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// Block device: several jobs at once, each with the keys of `[workload]` except `fio`; results are also by flow. Requests
    /// of flow `i` go to submission queue `i` modulo the drive's number of queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow: Vec<FioJob>,
    /// Block device: a trace as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Block device: iozone as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iozone: Option<Iozone>,
    /// Block device: app start-up as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apps: Option<Apps>,
    /// Linux as a guest on the device as the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
    /// When the run ends.
    #[serde(default)]
    pub stop: Stop,
    /// What the run records.
    #[serde(default)]
    pub record: Record,
    /// How `nandlab cuts` enumerates power cuts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuts: Option<Cuts>,
    /// Values of keys over which `nandlab sweep` runs the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

/// Tables that belong to raw flash only.
const OF_FLASH: [&str; 11] =
    ["nand", "ubi", "fs", "fsstress", "postmark", "sysbench", "strace", "fio", "fill", "logger", "reboots"];
/// Loads of a file system.
const OF_FS: [&str; 8] = ["fsstress", "postmark", "sysbench", "strace", "fio", "fill", "logger", "reboots"];
/// Tables that belong to block devices only.
const OF_DRIVE: [&str; 7] = ["ssd", "precondition", "workload", "flow", "trace", "iozone", "apps"];

/// Keys of a table that exclude each other: the one set last is used.
const RIVALS: [(&str, &[&str]); 3] = [
    ("ssd", &["over_provisioning_percent", "effective_over_provisioning_percent", "capacity_bytes"]),
    ("ssd.cache", &["mib", "pages"]),
    ("ssd.ftl", &["gc_background", "gc_background_percent"]),
];

impl Experiment {
    /// Reads an experiment with the built-in parts, then applies `--set key=value` pairs.
    /// Errors: not TOML; an unknown key or part; a value out of bounds.
    pub fn resolve(text: &str, sets: &[(String, String)]) -> Result<Experiment, ExperimentError> {
        Experiment::resolve_with(text, sets, Library::embedded())
    }

    /// As [`resolve`](Self::resolve), with the parts of a library.
    /// Errors: as [`resolve`](Self::resolve).
    pub fn resolve_with(
        text: &str,
        sets: &[(String, String)],
        library: &Library,
    ) -> Result<Experiment, ExperimentError> {
        Experiment::from_table(parse(text)?, sets, library)
    }

    /// Reads an experiment from a table.
    /// Errors: as [`resolve`](Self::resolve).
    pub fn from_table(
        mut table: Table,
        sets: &[(String, String)],
        library: &Library,
    ) -> Result<Experiment, ExperimentError> {
        refuse_rivals(&table)?;
        refuse_rival_sets(sets)?;
        replace_load(&mut table, sets);
        for (key, value) in sets {
            set(&mut table, key, value)?;
        }
        check(&mut table)?;
        one_subject(&table)?;
        let mut whole = part_of(&table, library)?;
        let buffer_without_size = is_buffer_without_size(&table);
        lay_over("", &mut whole, table);
        let experiment = Value::Table(whole).try_into().map_err(|error: toml::de::Error| syntax(&error))?;
        let experiment = filled(experiment);
        if let Some(Ssd { cache, .. }) = &experiment.ssd
            && buffer_without_size
            && (cache.mib == 0.0 && cache.pages.is_none() && cache.policy != BufferPolicy::None)
        {
            return wrong(
                "ssd.cache.policy",
                word(&cache.policy),
                "a size beside it: ssd.cache.mib or ssd.cache.pages",
            );
        }
        Ok(experiment)
    }

    /// Whether the subject is a block device: a drive or a ubiblock.
    pub fn has_block_device(&self) -> bool {
        self.ssd.is_some() || self.ubiblock.is_some()
    }

    /// The file system, if it has the flash to itself.
    pub fn jffs(&self) -> Option<&Fs> {
        self.fs.as_ref().filter(|fs| fs.is_bare())
    }

    /// The fio job; the default one if there is none.
    pub fn fio_job(&self) -> FioJob {
        match &self.workload {
            Some(Workload::Fio(job)) => job.clone(),
            _ => FioJob::default(),
        }
    }

    /// The volumes that are the load of raw flash, if any.
    pub fn volumes(&self) -> Option<&Volumes> {
        match &self.workload {
            Some(Workload::Volumes(volumes)) => Some(volumes),
            _ => None,
        }
    }

    /// The experiment with a load, if it is a run on raw flash that has none: UBIFS on all of it, under fsstress.
    pub(crate) fn with_load(mut self) -> Experiment {
        let is_flash = self.ssd.is_none() && self.ubiblock.is_none();
        if is_flash && self.guest.is_none() && self.volumes().is_none() {
            self.fs.get_or_insert_default();
            with_program(&mut self);
        }
        self
    }

    /// The experiment as stored with the result, with every default.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be written as TOML: {error}\n"))
    }
}

/// Path of the fio job file that an experiment or a pair names as its load; `None` if there is none or the key holds
/// the text of the job.
pub fn job_path(text: &str, sets: &[(String, String)]) -> Option<String> {
    let fio = text_at(text, sets, ["workload", "fio"])?;
    (!fio.is_empty() && !fio.contains(['\n', '['])).then_some(fio)
}

/// Path of the trace that an experiment or a pair names as its load; `None` if there is none.
pub fn trace_path(text: &str, sets: &[(String, String)]) -> Option<String> {
    text_at(text, sets, ["trace", "file"])
}

/// Path of the trace of strace that is the load of an experiment.
pub fn strace_path(text: &str, sets: &[(String, String)]) -> Option<String> {
    text_at(text, sets, ["strace", "file"])
}

/// The text at a key of a table, after `sets`.
fn text_at(text: &str, sets: &[(String, String)], [section, name]: [&str; 2]) -> Option<String> {
    let key = format!("{section}.{name}");
    let mut table = text.parse().ok()?;
    for (_, value) in sets.iter().filter(|(set, _)| *set == key) {
        set(&mut table, &key, value).ok()?;
    }
    table.get(section)?.get(name)?.as_str().map(str::to_owned)
}

fn syntax(error: &toml::de::Error) -> ExperimentError {
    ExperimentError::Syntax(error.to_string().trim_end().to_owned())
}

pub(crate) fn parse(text: &str) -> Result<Table, ExperimentError> {
    text.parse().map_err(|error: toml::de::Error| syntax(&error))
}

fn one_subject(table: &Table) -> Result<(), ExperimentError> {
    let volumes = load_kind(table) == Some("volumes");
    let first = |names: &[&'static str]| names.iter().copied().find(|name| table.contains_key(*name));
    let on_ubiblock = table.contains_key("ubiblock");
    // `logger` and `reboots` are loads of a guest too.
    let other_loads = [
        "fs", "fsstress", "postmark", "sysbench", "strace", "fio", "fill", "workload", "flow", "trace", "iozone",
        "apps",
    ];
    if let (true, Some(other)) = (table.contains_key("guest"), first(&other_loads)) {
        return wrong("guest", format!("it and {other}"), "the guest alone: Linux and its job are the load");
    }
    if table.contains_key("guest") && table.contains_key("ubi") && !on_ubiblock {
        return wrong(
            "guest",
            "it and ubi",
            "the guest alone: its UBI is Linux's. With a table `ubiblock` it is nandlab's, and the guest has a block \
             device",
        );
    }
    if on_ubiblock {
        return one_ubiblock(table, volumes);
    }
    one_file_system(table, volumes)?;
    let of_drive = OF_DRIVE.iter().copied().filter(|&name| !(volumes && name == "workload")).collect::<Vec<_>>();
    match (first(&OF_FLASH), first(&of_drive)) {
        (Some(flash), Some("workload")) => {
            wrong("workload.kind", format!("`fio` beside `{flash}`"), "`volumes`: a fio job is a load of drives")
        }
        (None, _) if volumes => wrong(
            "workload.kind",
            "`volumes` without `nand`",
            "`fio`, or a table `nand`: volumes are a load of raw flash",
        ),
        (Some(flash), Some(drive)) => wrong(
            drive,
            format!("it beside `{flash}`"),
            "raw flash (nand, ubi, fs and its loads) or a drive (ssd and its loads)",
        ),
        (None, None) => wrong(
            "nand",
            "neither it nor `ssd`",
            "a table `nand` (raw flash with UBI), `ubiblock` beside it (a volume as a block device), or `ssd` (a drive)",
        ),
        (None, Some(drive)) if !table.contains_key("ssd") => wrong("ssd", format!("`{drive}` without it"), "a drive"),
        _ => Ok(()),
    }
}

/// Refuses what does not go with a ubiblock.
fn one_ubiblock(table: &Table, volumes: bool) -> Result<(), ExperimentError> {
    if table.contains_key("ssd") {
        return wrong("ubiblock", "it beside `ssd`", "one of the two: a ubiblock is a volume on the flash of `nand`");
    }
    if let Some(name) = ["fs"].iter().chain(&OF_FS).find(|name| table.contains_key(**name)) {
        return wrong(
            *name,
            "it beside `ubiblock`",
            "one of the two: a file system has a volume of its own, not a ubiblock",
        );
    }
    if volumes {
        return wrong("workload.kind", "`volumes` beside `ubiblock`", "`fio`: the ubiblock has every LEB for itself");
    }
    Ok(())
}

/// Refuses loads of a file system without one or beside another, and what does not go with a file system.
fn one_file_system(table: &Table, volumes: bool) -> Result<(), ExperimentError> {
    let mut loads = OF_FS.iter().copied().filter(|name| table.contains_key(*name));
    let (one, other) = (loads.next(), loads.next());
    if let (Some(one), Some(other)) = (one, other) {
        return wrong(
            other,
            format!("it and {one}"),
            "one load of a file system: fsstress, postmark, sysbench, strace, fio, logger, fill or reboots",
        );
    }
    let kind = table.get("fs").and_then(|fs| fs.get("kind")).and_then(Value::as_str).unwrap_or("ubifs");
    match (one, kind) {
        (Some("fill"), "ubifs" | "jffs2") if table.contains_key("fs") => {
            return wrong("fill", "it", "no such table: it is of JFFS");
        }
        (Some("reboots"), "ubifs") if table.contains_key("fs") => {
            return wrong("reboots", "it", "no such table: it is of JFFS and JFFS2");
        }
        _ => {}
    }
    let on = table.get("fs").and_then(|fs| fs.get("jffs2")?.get("on")?.as_str()).unwrap_or("flash");
    if table.contains_key("ubi") && (kind == "jffs1" || kind == "jffs2" && on == "flash") {
        let expected = match kind {
            "jffs2" => "no such table: JFFS2 is on the flash itself where fs.jffs2.on is not `ubi`",
            _ => "no such table: JFFS is on the flash itself",
        };
        return wrong("ubi", format!("it beside `{kind}`"), expected);
    }
    if on == "ubi" && one == Some("reboots") {
        return wrong("reboots", "it where fs.jffs2.on is `ubi`", "another load, or JFFS2 on the flash itself");
    }
    match (table.contains_key("fs"), one) {
        (false, Some(_)) if table.contains_key("guest") => Ok(()),
        (false, Some(load)) => wrong("fs", format!("`{load}` without it"), "a table `fs`: the file system of the load"),
        (true, _) if volumes => {
            wrong("workload.kind", "`volumes` beside `fs`", "no such table: the file system's volume is the only one")
        }
        _ => Ok(()),
    }
}

/// The kind of load that a file names.
fn load_kind(table: &Table) -> Option<&str> {
    table.get("workload")?.get("kind")?.as_str()
}

/// Values of the part that the file names.
fn part_of(table: &Table, library: &Library) -> Result<Table, ExperimentError> {
    let name = |subject: &str| Some(table.get(subject)?.get("part")?.as_str()?.to_owned());
    let unknown = |key: &'static str| {
        move |error: crate::parts::PartError| ExperimentError::value(key, error.found(), error.expected())
    };
    let mut whole = Table::new();
    if let Some(name) = name("nand") {
        whole.insert("nand".to_owned(), Value::Table(library.nand(&name).map_err(unknown("nand.part"))?.values()));
    }
    if let Some(cpu) = Cpu::of(table) {
        let (fs, nand) = cpu.values();
        lay_over("", &mut whole, Table::from_iter([("fs".to_owned(), fs.into()), ("nand".to_owned(), nand.into())]));
    }
    if let Some(name) = name("ssd") {
        whole.extend(library.drive(&name).map_err(unknown("ssd.part"))?.table().clone());
    }
    Ok(whole)
}

/// Adds the default tables of the subject, and values that follow from others.
fn filled(mut experiment: Experiment) -> Experiment {
    // Linux and its job are the load, and its UBI is Linux's.
    let has_guest = experiment.guest.is_some();
    if let Some(ssd) = &mut experiment.ssd {
        let spare = [ssd.over_provisioning_percent, ssd.effective_over_provisioning_percent];
        if ssd.capacity_bytes.is_none() && spare == [None; 2] {
            ssd.over_provisioning_percent = Some(12.5);
        }
        experiment.precondition.get_or_insert_default();
        if experiment.flow.is_empty() && !has_guest {
            experiment.workload.get_or_insert_with(|| Workload::Fio(FioJob::default()));
        }
    } else {
        let nand = experiment.nand.get_or_insert_default();
        if nand.subpage_bytes == 0 {
            nand.subpage_bytes = nand.page_bytes;
        }
        if has_guest {
            return experiment;
        }
        if experiment.jffs().is_some() {
            with_program(&mut experiment);
            return experiment;
        }
        experiment.ubi.get_or_insert_default();
        if experiment.ubiblock.is_some() {
            experiment.precondition.get_or_insert_default();
            if experiment.flow.is_empty() {
                experiment.workload.get_or_insert_with(|| Workload::Fio(FioJob::default()));
            }
        } else if experiment.fs.is_some() {
            with_program(&mut experiment);
        }
    }
    experiment
}

/// Adds the default program of a file system.
fn with_program(experiment: &mut Experiment) {
    match experiment.fs.as_mut() {
        Some(fs) if fs.kind == FsKind::Jffs1 => {
            fs.jffs1.get_or_insert_default();
        }
        Some(fs) if fs.kind == FsKind::Jffs2 => drop(fs.jffs2.get_or_insert_default()),
        _ => {}
    }
    let Experiment { fsstress, postmark, sysbench, strace, fio, logger, reboots, .. } = &*experiment;
    let programs = [postmark.is_some(), sysbench.is_some(), strace.is_some(), fio.is_some(), logger.is_some()];
    if programs.contains(&true) || reboots.is_some() {
        return;
    }
    match &experiment.fs {
        Some(fs) if fs.kind == FsKind::Jffs1 && fsstress.is_none() && experiment.cuts.is_none() => {
            experiment.fill.get_or_insert_default();
        }
        _ => drop(experiment.fsstress.get_or_insert_default()),
    }
}

fn refuse_rivals(table: &Table) -> Result<(), ExperimentError> {
    // A stored experiment has every default: 0 MiB beside its pages.
    let is_zero = |value: &Value| value.as_float() == Some(0.0) || value.as_integer() == Some(0);
    for (path, keys) in RIVALS {
        let inner = path.split('.').try_fold(table, |table, name| table.get(name)?.as_table());
        let is_set = |inner: &&Table, key: &str| inner.get(key).is_some_and(|value| path == "ssd" || !is_zero(value));
        let set: Vec<&str> =
            keys.iter().copied().filter(|key| inner.is_some_and(|inner| is_set(&inner, key))).collect();
        if let [first, .., last] = set[..] {
            return wrong(format!("{path}.{last}"), format!("it and {first}"), "one of the two");
        }
    }
    Ok(())
}

/// Refuses pairs that say the same in two ways.
fn refuse_rival_sets(sets: &[(String, String)]) -> Result<(), ExperimentError> {
    for (at, (key, _)) in sets.iter().enumerate() {
        if let Some((other, _)) = sets[..at].iter().find(|(other, _)| are_rivals(key, other)) {
            return wrong(key, format!("it and {other}"), "one of the two");
        }
    }
    Ok(())
}

/// Whether a table has a policy of the write buffer and no size of it, not even 0.
fn is_buffer_without_size(table: &Table) -> bool {
    let cache = table.get("ssd").and_then(|ssd| ssd.get("cache")).and_then(Value::as_table);
    cache.is_some_and(|cache| {
        cache.contains_key("policy") && !["mib", "pages"].iter().any(|key| cache.contains_key(*key))
    })
}

/// Removes the file's load if a pair gives another one: `nandlab trace replay`, `run --fio` and a guest's job of a study
/// take any experiment.
fn replace_load(table: &mut Table, sets: &[(String, String)]) {
    let given = |key: &str| sets.iter().any(|(given, _)| given == key);
    let replaced: &[&str] = if given("trace.file") {
        &["workload", "flow", "iozone", "apps", "guest"]
    } else if given("workload.fio") {
        &["workload", "flow", "trace", "iozone", "apps", "guest"]
    } else if given("guest.job") {
        &["workload", "flow", "trace", "iozone", "apps"]
    } else {
        &[]
    };
    replaced.iter().for_each(|name| drop(table.remove(*name)));
}

/// Whether two dotted keys of `[ssd]` say the same in two ways.
pub fn are_rivals(a: &str, b: &str) -> bool {
    let (Some((path, a)), Some((other, b))) = (a.rsplit_once('.'), b.rsplit_once('.')) else { return false };
    path == other && rivals_of(path, a).any(|rival| rival == b)
}

/// Keys of the table at `path` that exclude its key `key`.
fn rivals_of(path: &str, key: &str) -> impl Iterator<Item = &'static str> {
    let group = RIVALS.iter().find(|(table, keys)| *table == path && keys.contains(&key));
    group.into_iter().flat_map(|(_, keys)| keys.iter().copied()).filter(move |other| *other != key)
}

/// Checks a table `ssd` that is to lie below an experiment's.
/// Errors: as [`Experiment::resolve`].
pub(crate) fn check_drive(table: &mut Table) -> Result<(), ExperimentError> {
    refuse_rivals(table)?;
    let Some(ssd) = table.get_mut("ssd") else { return Ok(()) };
    check_key("ssd", ssd)
}

/// Merges the values of `over` into `base`, the table at `path`, table by table. A value replaces its key's rivals.
fn lay_over(path: &str, base: &mut Table, over: Table) {
    for (key, value) in over {
        rivals_of(path, &key).for_each(|rival| drop(base.remove(rival)));
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => {
                let path = if path.is_empty() { key } else { format!("{path}.{key}") };
                lay_over(&path, below, above);
            }
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Sets the dotted `key` to `value`: as TOML if the key takes that, else as a string.
/// Errors: an unknown key; a key inside a value that is no table.
fn set(table: &mut Table, key: &str, value: &str) -> Result<(), ExperimentError> {
    let inside = format!("{key}.");
    if let Some(inside) = keys().iter().find(|known| known.starts_with(&inside)) {
        return wrong(key, value, format!("one of the table's keys, as {inside}"));
    }
    let node = check::node_of(key).ok_or_else(|| ExperimentError::unknown(key))?;
    let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    let parsed = parsed.filter(|parsed| parsed.is_str() || !check::is_text(node));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    let mut at = table;
    let mut parts: Vec<&str> = key.split('.').collect();
    let leaf = parts.pop().unwrap_or_default();
    for part in parts {
        let next = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
        let found = next.to_string();
        let Value::Table(inner) = next else { return wrong(part, found, "a table") };
        at = inner;
    }
    let path = key.rsplit_once('.').map_or("", |(path, _)| path);
    rivals_of(path, leaf).for_each(|rival| drop(at.remove(rival)));
    at.insert(leaf.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests;
