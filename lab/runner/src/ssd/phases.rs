//! Loads that run in phases: iozone's threads, and app start-up in cycles.
//!
//! The two tables of an experiment, what they must satisfy, and what a run tells of each phase. Every number of the app
//! model is an assumption of the experiment; the defaults are round.

use serde::{Deserialize, Serialize};
use sim::seam::{BlockDevice, SECTOR_BYTES};
use sim::{Ns, Seed};
use workload::apps::{Apps, AppsError, Cycle, Installed, Kind, LaunchLoad, Order, PAGE_BYTES};
use workload::drive::{Limits, Observer, Report, run};
use workload::fio::FioError;
use workload::iozone::{Iozone, IozoneLoad, IozonePhase, Phase};

use super::compose;
use super::experiment::{SsdExperiment, wrong};
use super::load::{self, Arrivals};
use crate::experiment::ExperimentError;

/// `iozone -i2`: threads that read, then write, the records of their files in a shuffled order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IozoneSection {
    /// `-t`: threads, each with a file.
    pub threads: u32,
    /// `-r`: bytes of a record.
    pub record_bytes: u64,
    /// Bytes of all files together, `-s` times the threads; 0: to the end of the drive.
    pub range_bytes: u64,
    /// Where the first file begins; the others follow it.
    pub offset_bytes: u64,
    /// `read` and `write`, in this order or another.
    pub phases: Vec<String>,
    /// From a completion to the next request of its thread.
    pub host_us: f64,
    /// Each thread ends a phase after so many records; 0: after all.
    pub records: u64,
    /// Whether the first thread that ends stops the others' measurement: iozone without `-x`.
    pub stonewall: bool,
    /// Whether a thread's writes end with a flush inside its time: `-e`.
    pub flush: bool,
    /// Records within a group of so many, a power of two, lie in an order of each file's own; 1: all in order.
    pub mixed_records: u32,
}

impl Default for IozoneSection {
    fn default() -> IozoneSection {
        IozoneSection {
            threads: 16,
            record_bytes: 4096,
            range_bytes: 1 << 30,
            offset_bytes: 0,
            phases: vec!["read".to_owned(), "write".to_owned()],
            host_us: 0.0,
            records: 0,
            stonewall: true,
            flush: true,
            mixed_records: 1,
        }
    }
}

/// Apps launched in turn, cycle after cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AppsSection {
    /// Applications.
    pub apps: u32,
    /// How many of them are games, spread evenly among the others.
    pub games: u32,
    /// How often all are launched in turn.
    pub cycles: u32,
    /// Where the apps' area begins.
    pub offset_bytes: u64,
    /// How long it is; 0: to the end of the drive. The apps' regions are spread evenly over it.
    pub size_bytes: u64,
    /// Mean size of an app's files.
    pub app_mib: f64,
    /// The same of a game.
    pub game_mib: f64,
    /// Sizes are drawn from the mean less this share to the mean and this share.
    pub spread_percent: f64,
    /// The apps' files lie in fragments of so many KiB all over the area; 0: each app's lie together.
    pub fragment_kib: u32,
    /// Random reads of an app's launch, 4 KiB each.
    pub app_random_reads: u32,
    /// The same of a game's.
    pub game_random_reads: u32,
    /// Share of the random reads that go elsewhere at each launch.
    pub fresh_percent: f64,
    /// Sequential part of an app's launch, from the beginning of its region.
    pub app_sequential_mib: f64,
    /// The same of a game's.
    pub game_sequential_mib: f64,
    /// A request of the sequential part: a multiple of 4.
    pub sequential_kib: u32,
    /// How the two parts follow each other: `mixed` (sequential requests spread evenly among the random reads),
    /// `sequential-first`, `random-first`.
    pub order: String,
    /// Threads that read.
    pub readers: u32,
    /// Processor time of an app's launch, all readers together, spread evenly over its reads.
    pub app_cpu_ms: f64,
    /// The same of a game's.
    pub game_cpu_ms: f64,
    /// The page cache; 0: none.
    pub page_cache_mib: f64,
    /// Writes of 4 KiB for each read.
    pub write_percent: f64,
}

impl Default for AppsSection {
    fn default() -> AppsSection {
        AppsSection {
            apps: 36,
            games: 12,
            cycles: 6,
            offset_bytes: 0,
            size_bytes: 0,
            app_mib: 200.0,
            game_mib: 1000.0,
            spread_percent: 50.0,
            fragment_kib: 0,
            app_random_reads: 4000,
            game_random_reads: 8000,
            fresh_percent: 10.0,
            app_sequential_mib: 30.0,
            game_sequential_mib: 150.0,
            sequential_kib: 128,
            order: "mixed".to_owned(),
            readers: 2,
            app_cpu_ms: 3000.0,
            game_cpu_ms: 9000.0,
            page_cache_mib: 1024.0,
            write_percent: 0.0,
        }
    }
}

/// What came of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseFigures {
    /// `random read`, `random write`, `cycle 1` and so on.
    pub name: String,
    /// When it began, in nanoseconds of virtual time.
    pub from_ns: u64,
    /// When its last thread or launch was over.
    pub to_ns: u64,
    /// Requests that the drive did, flushes not among them.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// 10^6 bytes a second: for iozone the sum of the threads' own rates, else bytes over the phase's length.
    pub mb_s: f64,
    /// Reads of apps, those that the page cache had included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Those that it had whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<u64>,
    /// How long each launch took, in the order of the apps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launches_ns: Vec<u64>,
}

impl PhaseFigures {
    /// How long it took.
    pub fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }

    /// Requests of the drive a second.
    pub fn iops(&self) -> f64 {
        over(self.requests as f64, self.seconds())
    }

    fn of_iozone(phase: &IozonePhase, record_bytes: u64) -> PhaseFigures {
        PhaseFigures {
            name: phase.phase.name().to_owned(),
            from_ns: phase.from.0,
            to_ns: phase.to.0,
            requests: phase.records,
            bytes: phase.records * record_bytes,
            mb_s: phase.bytes_per_s / 1e6,
            reads: None,
            cache_hits: None,
            launches_ns: Vec::new(),
        }
    }

    fn of_cycle(at: usize, cycle: &Cycle) -> PhaseFigures {
        PhaseFigures {
            name: format!("cycle {}", at + 1),
            from_ns: cycle.from.0,
            to_ns: cycle.to.0,
            requests: cycle.requests,
            bytes: cycle.bytes,
            mb_s: over(cycle.bytes as f64 / 1e6, (cycle.to - cycle.from).as_s()),
            reads: Some(cycle.reads),
            cache_hits: Some(cycle.hits),
            launches_ns: cycle.launches.iter().map(|launch| (launch.to - launch.from).0).collect(),
        }
    }
}

fn over(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

fn logical_bytes(experiment: &SsdExperiment) -> u64 {
    let page_bytes = compose::shape(&experiment.ssd).page_bytes;
    u64::from(compose::logical_pages(&experiment.ssd)) * u64::from(page_bytes)
}

/// Whether the load is one of the two.
pub fn has_phases(experiment: &SsdExperiment) -> bool {
    experiment.iozone.is_some() || experiment.apps.is_some()
}

/// Requests that the phases come to at most; `None` without phases.
pub fn requests(experiment: &SsdExperiment) -> Option<u64> {
    let bytes = logical_bytes(experiment);
    let of_apps = || experiment.apps.as_ref().map(|section| section.model(bytes).all_reads());
    experiment.iozone.as_ref().map(|section| section.test(bytes).requests()).or_else(of_apps)
}

/// Errors: a key of the two tables that no load can have; a load beside one of them.
pub fn check(experiment: &SsdExperiment) -> Result<(), ExperimentError> {
    let loads = [
        ("iozone", experiment.iozone.is_some()),
        ("apps", experiment.apps.is_some()),
        ("trace", experiment.trace.is_some()),
        ("workload.fio", !experiment.workload.fio.is_empty()),
    ];
    if has_phases(experiment) {
        let mut given = loads.iter().filter(|(_, given)| *given).map(|(name, _)| name);
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            return wrong(one, format!("it and {other}"), "one load: iozone, apps, trace or workload.fio");
        }
    }
    let bytes = logical_bytes(experiment);
    if let Some(section) = &experiment.iozone {
        section.check(bytes)?;
    }
    if let Some(section) = &experiment.apps {
        section.check(bytes, experiment.seed)?;
    }
    Ok(())
}

fn within(key: &str, value: f64, least: f64, most: f64) -> Result<(), ExperimentError> {
    if (least..=most).contains(&value) { Ok(()) } else { wrong(key, value, &format!("{least} to {most}")) }
}

impl IozoneSection {
    fn check(&self, drive_bytes: u64) -> Result<(), ExperimentError> {
        within("iozone.threads", f64::from(self.threads), 1.0, 65_535.0)?;
        within("iozone.host_us", self.host_us, 0.0, 1e9)?;
        let sector = u64::from(SECTOR_BYTES);
        if !self.record_bytes.is_multiple_of(sector) || !(sector..=1 << 24).contains(&self.record_bytes) {
            return wrong("iozone.record_bytes", self.record_bytes, "a multiple of 512 from 512 to 2^24");
        }
        if !self.offset_bytes.is_multiple_of(sector) {
            return wrong("iozone.offset_bytes", self.offset_bytes, "a multiple of 512");
        }
        if self.offset_bytes >= drive_bytes {
            return wrong(
                "iozone.offset_bytes",
                self.offset_bytes,
                &format!("less than the drive's {drive_bytes} bytes"),
            );
        }
        if self.range_bytes > drive_bytes - self.offset_bytes {
            let room = drive_bytes - self.offset_bytes;
            return wrong(
                "iozone.range_bytes",
                self.range_bytes,
                &format!("at most the {room} bytes that the drive has there"),
            );
        }
        let test = self.test(drive_bytes);
        if test.file_records == 0 {
            return wrong("iozone.range_bytes", self.range_bytes, "at least a record for each thread");
        }
        if !self.mixed_records.is_power_of_two() || self.mixed_records > 1 << 16 {
            return wrong("iozone.mixed_records", self.mixed_records, "a power of two from 1 to 65,536");
        }
        if self.phases.is_empty() {
            return wrong("iozone.phases", "[]", "`read`, `write` or both");
        }
        match self.phases.iter().find(|phase| !["read", "write"].contains(&phase.as_str())) {
            Some(phase) => wrong("iozone.phases", phase, "`read` and `write`"),
            None => Ok(()),
        }
    }

    /// Records after which each thread ends a phase; 0 where that cannot be told without the drive.
    pub fn all_records(&self) -> u64 {
        if self.records > 0 {
            self.records
        } else {
            self.range_bytes / self.record_bytes.max(1) / u64::from(self.threads.max(1))
        }
    }

    /// On a drive of so many bytes.
    fn test(&self, drive_bytes: u64) -> Iozone {
        let range = if self.range_bytes > 0 { self.range_bytes } else { drive_bytes - self.offset_bytes };
        let records = range / self.record_bytes / u64::from(self.threads);
        let phase = |name: &String| if name == "write" { Phase::Write } else { Phase::Read };
        let few = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Iozone {
            threads: self.threads,
            record_sectors: few(self.record_bytes / u64::from(SECTOR_BYTES)),
            file_records: few(records),
            first_sector: self.offset_bytes / u64::from(SECTOR_BYTES),
            phases: self.phases.iter().map(phase).collect(),
            host: Ns((self.host_us * 1e3).round() as u64),
            records: few(self.records),
            stonewall: self.stonewall,
            flush: self.flush,
            mixed_records: self.mixed_records,
        }
    }
}

impl AppsSection {
    fn check(&self, drive_bytes: u64, seed: u64) -> Result<(), ExperimentError> {
        for (key, value, least, most) in [
            ("apps.apps", f64::from(self.apps), 1.0, 10_000.0),
            ("apps.games", f64::from(self.games), 0.0, f64::from(self.apps)),
            ("apps.cycles", f64::from(self.cycles), 1.0, 10_000.0),
            ("apps.app_mib", self.app_mib, 0.0, 1e6),
            ("apps.game_mib", self.game_mib, 0.0, 1e6),
            ("apps.spread_percent", self.spread_percent, 0.0, 100.0),
            ("apps.app_random_reads", f64::from(self.app_random_reads), 0.0, 1e7),
            ("apps.game_random_reads", f64::from(self.game_random_reads), 0.0, 1e7),
            ("apps.fresh_percent", self.fresh_percent, 0.0, 100.0),
            ("apps.app_sequential_mib", self.app_sequential_mib, 0.0, 1e6),
            ("apps.game_sequential_mib", self.game_sequential_mib, 0.0, 1e6),
            ("apps.readers", f64::from(self.readers), 1.0, 1024.0),
            ("apps.app_cpu_ms", self.app_cpu_ms, 0.0, 1e9),
            ("apps.game_cpu_ms", self.game_cpu_ms, 0.0, 1e9),
            ("apps.page_cache_mib", self.page_cache_mib, 0.0, 1e6),
            ("apps.write_percent", self.write_percent, 0.0, 100.0),
        ] {
            within(key, value, least, most)?;
        }
        if !self.sequential_kib.is_multiple_of(4) || !(4..=16_384).contains(&self.sequential_kib) {
            return wrong("apps.sequential_kib", self.sequential_kib, "a multiple of 4 from 4 to 16,384");
        }
        if !self.fragment_kib.is_multiple_of(self.sequential_kib) || self.fragment_kib > 1 << 20 {
            let expected = "0, or a multiple of apps.sequential_kib up to 1,048,576";
            return wrong("apps.fragment_kib", self.fragment_kib, expected);
        }
        if !["mixed", "sequential-first", "random-first"].contains(&self.order.as_str()) {
            return wrong("apps.order", &self.order, "mixed, sequential-first or random-first");
        }
        if !self.offset_bytes.is_multiple_of(PAGE_BYTES) {
            return wrong("apps.offset_bytes", self.offset_bytes, "a multiple of 4096");
        }
        if self.offset_bytes.saturating_add(self.size_bytes.max(1)) > drive_bytes {
            let found = format!("an area from byte {} of {} bytes", self.offset_bytes, self.size_bytes);
            return wrong("apps.size_bytes", found, &format!("one within the drive's {drive_bytes} bytes"));
        }
        let model = self.model(drive_bytes);
        Installed::new(model.clone(), Seed(seed)).map(drop).map_err(|error| ExperimentError::Value {
            key: match error {
                AppsError::NoRoom { .. } => "apps.size_bytes",
                AppsError::TooSmall { app, .. } if model.kind(app).1 => "apps.game_mib",
                AppsError::TooSmall { .. } => "apps.app_mib",
                AppsError::ReadsNothing { app } if model.kind(app).1 => "apps.game_random_reads",
                AppsError::ReadsNothing { .. } => "apps.app_random_reads",
            }
            .to_owned(),
            found: error.to_string(),
            expected: "files that fit their area, and launches that fit their files".to_owned(),
        })
    }

    /// On a drive of so many bytes.
    fn model(&self, drive_bytes: u64) -> Apps {
        let pages = |mib: f64| (mib * 256.0).round() as u32;
        let kind = |mib, random_reads, sequential_mib, cpu_ms: f64| Kind {
            pages: pages(mib),
            random_reads,
            sequential_pages: pages(sequential_mib),
            cpu: Ns((cpu_ms * 1e6).round() as u64),
        };
        let area = if self.size_bytes > 0 { self.size_bytes } else { drive_bytes - self.offset_bytes };
        Apps {
            apps: self.apps,
            games: self.games,
            cycles: self.cycles,
            first_page: self.offset_bytes / PAGE_BYTES,
            area_pages: area / PAGE_BYTES,
            app: kind(self.app_mib, self.app_random_reads, self.app_sequential_mib, self.app_cpu_ms),
            game: kind(self.game_mib, self.game_random_reads, self.game_sequential_mib, self.game_cpu_ms),
            spread: self.spread_percent / 100.0,
            fresh: self.fresh_percent / 100.0,
            fragment_pages: self.fragment_kib / 4,
            request_pages: self.sequential_kib / 4,
            order: match self.order.as_str() {
                "sequential-first" => Order::SequentialFirst,
                "random-first" => Order::RandomFirst,
                _ => Order::Mixed,
            },
            readers: self.readers,
            cache_pages: pages(self.page_cache_mib),
            writes: self.write_percent / 100.0,
        }
    }
}

/// Puts the experiment's load on a device, whichever it is, within `limits`; phases are told where it has them.
/// Errors: a job that does not fit the device.
pub fn put<D: BlockDevice, O: Observer>(
    experiment: &SsdExperiment,
    arrivals: Option<Arrivals<'_>>,
    device: &mut D,
    observer: &mut O,
) -> Result<(Report<O::Stop>, Vec<PhaseFigures>), FioError> {
    let limits: Limits = load::limits(experiment);
    let bytes = device.sectors() * u64::from(SECTOR_BYTES);
    if let Some(section) = &experiment.iozone {
        let test = section.test(bytes);
        let mut load = IozoneLoad::new(&test);
        let report = run(device, &mut load, Ns::ZERO, limits, observer);
        let figures = load.phases().iter().map(|phase| PhaseFigures::of_iozone(phase, test.record_bytes())).collect();
        return Ok((report, figures));
    }
    if let Some(section) = &experiment.apps {
        let installed =
            Installed::new(section.model(bytes), Seed(experiment.seed)).expect("the experiment was checked");
        let mut load = LaunchLoad::new(&installed);
        let report = run(device, &mut load, Ns::ZERO, limits, observer);
        let figures = load.cycles().iter().enumerate().map(|(at, cycle)| PhaseFigures::of_cycle(at, cycle)).collect();
        return Ok((report, figures));
    }
    load::put(experiment, arrivals, device, observer).map(|report| (report, Vec::new()))
}
