//! The load of a block device: fio jobs, a trace, iozone or app start-up.
//!
//! The keys of `[workload]` make one job. Unlike fio's, its random requests are drawn independently (`norandommap`), as
//! analytic results for write amplification assume.

use sim::seam::SECTOR_BYTES;
use sim::{Ns, Seed};
use toml::Table;
use workload::apps::{Apps, AppsError, Installed, Kind, Order, PAGE_BYTES};
use workload::drive::Limits;
use workload::fio::{self, Distribution, Extent, FioError, Generator, Job, Mix};
use workload::iozone::{Iozone, Phase};

use super::block::BlockFacts;
use crate::schema::load::{self as words, FioJob, ReadWrite, Trace, TraceMode};
use crate::schema::{Experiment, ExperimentError, wrong};

/// The load of a block device.
#[derive(Clone, Debug)]
pub enum Load {
    /// fio jobs.
    Jobs(Vec<Job>),
    /// A trace, whose requests are passed to the run.
    Trace(Trace),
    /// iozone's threads.
    Iozone(Iozone),
    /// Apps launched in turn.
    Apps(Box<Installed>),
    /// A job in Linux.
    Guest,
    /// Clients in real time.
    Live,
}

impl Load {
    /// Builds the load of an experiment for its device.
    /// Errors: two loads; the first key of a load whose value is impossible.
    pub fn build(experiment: &Experiment, facts: &BlockFacts) -> Result<Load, ExperimentError> {
        if experiment.guest.is_some() {
            return Ok(Load::Guest);
        }
        let workload = experiment.fio_job();
        let given = [
            ("iozone", experiment.iozone.is_some()),
            ("apps", experiment.apps.is_some()),
            ("trace", experiment.trace.is_some()),
            ("workload.fio", !workload.fio.is_empty()),
            ("flow", !experiment.flow.is_empty()),
        ];
        let mut given = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
        let (one, other) = (given.next(), given.next());
        if let (Some(one), Some(other)) = (one, other) {
            return wrong(one, format!("it and {other}"), "one load: iozone, apps, trace, workload.fio or flow");
        }
        if let (Some(load), Some(key)) = (one, idle_key(&workload)) {
            return wrong(key, format!("it beside {load}"), format!("no key of the workload that {load} replaces"));
        }
        let seed = Seed(experiment.seed);
        if let Some(section) = &experiment.iozone {
            return Ok(Load::Iozone(iozone(section, facts.bytes)?));
        }
        if let Some(section) = &experiment.apps {
            return Ok(Load::Apps(Box::new(apps(section, facts.bytes, seed)?)));
        }
        if !experiment.flow.is_empty() {
            return flows(experiment).map(Load::Jobs);
        }
        let jobs = jobs("workload", &workload, has_stop(experiment))?;
        Ok(match &experiment.trace {
            Some(trace) => Load::Trace(checked(trace)?),
            None => Load::Jobs(jobs),
        })
    }

    /// Most requests of the load, if it has a limit.
    pub fn requests(&self) -> Option<u64> {
        match self {
            Load::Jobs(_) | Load::Trace(_) | Load::Guest | Load::Live => None,
            Load::Iozone(test) => Some(test.requests()),
            Load::Apps(installed) => Some(installed.model.all_reads()),
        }
    }

    /// Names of the load's jobs, if it has several that run at once or in turn.
    pub fn flows(&self) -> Vec<&str> {
        match self {
            Load::Jobs(jobs) if jobs.len() > 1 => jobs.iter().map(|job| job.name.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether requests at the start of the load do not count.
    pub fn has_ramp(&self) -> bool {
        match self {
            Load::Jobs(jobs) => jobs.iter().all(|job| job.ramp > Ns::ZERO),
            // Boot and setup.
            Load::Guest => true,
            _ => false,
        }
    }

    /// Whether those who issue the requests are known during the run only: processes, or clients. They share the drive's
    /// queues, and read back what they wrote.
    pub fn is_from_outside(&self) -> bool {
        matches!(self, Load::Guest | Load::Live)
    }

    /// Whether the load has phases.
    pub fn has_phases(&self) -> bool {
        matches!(self, Load::Iozone(_) | Load::Apps(_))
    }

    /// What the user should know of the load, a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        match self {
            Load::Jobs(jobs) => jobs.iter().flat_map(|job| job.remarks()).collect(),
            Load::Live => vec!["the requests come from clients: the experiment's workload is not run".to_owned()],
            _ => Vec::new(),
        }
    }

    /// Checks that the jobs fit a device of so many bytes. Errors: a job that does not.
    pub fn fits(&self, bytes: u64, seed: Seed) -> Result<(), FioError> {
        let sectors = bytes / u64::from(SECTOR_BYTES);
        let Load::Jobs(jobs) = self else { return Ok(()) };
        jobs.iter().try_for_each(|job| Generator::new(job, 0, sectors, seed).map(drop))
    }
}

/// The fio jobs of an experiment; none for a load of another kind.
pub fn jobs_of(experiment: &Experiment) -> Vec<Job> {
    if experiment.guest.is_some()
        || experiment.trace.is_some()
        || experiment.iozone.is_some()
        || experiment.apps.is_some()
    {
        return Vec::new();
    }
    let jobs = match (experiment.has_block_device(), experiment.flow.is_empty()) {
        (false, _) => Ok(Vec::new()),
        (_, false) => flows(experiment),
        (_, true) => jobs("workload", &experiment.fio_job(), has_stop(experiment)),
    };
    jobs.unwrap_or_default()
}

/// A key of `[workload]` that makes a job, if one differs from its default: another load ignores it. A stored experiment
/// has every default.
fn idle_key(job: &FioJob) -> Option<String> {
    let values = |job: &FioJob| Table::try_from(job).unwrap_or_default();
    let (found, defaults) = (values(job), values(&FioJob::default()));
    let idle = found.iter().find(|(key, value)| *key != "fio" && defaults.get(*key) != Some(value));
    idle.map(|(key, _)| format!("workload.{key}"))
}

/// A trace whose keys all have an effect. Errors: one that its mode ignores.
fn checked(trace: &Trace) -> Result<Trace, ExperimentError> {
    let default = Trace::default();
    let closed = trace.mode == TraceMode::Closed;
    if closed && trace.speed != default.speed {
        return wrong(
            "trace.speed",
            trace.speed,
            "no speed with the mode `closed`, which ignores the times of the trace",
        );
    }
    if !closed && trace.depth != default.depth {
        return wrong("trace.depth", trace.depth, "no depth but with the mode `closed`");
    }
    Ok(trace.clone())
}

/// Limits of the run.
pub fn limits(experiment: &Experiment) -> Limits {
    let stop = &experiment.stop;
    Limits {
        until: stop.first_time().map_or(Limits::NONE.until, |(seconds, _)| Ns((seconds * 1e9) as u64)),
        requests: if stop.requests > 0 { stop.requests } else { Limits::NONE.requests },
    }
}

fn has_stop(experiment: &Experiment) -> bool {
    let stop = &experiment.stop;
    stop.first_time().is_some() || stop.requests > 0 || stop.drive_writes > 0.0 || stop.max_erases > 0
}

/// The jobs of `[[flow]]`, each with a queue of its own.
fn flows(experiment: &Experiment) -> Result<Vec<Job>, ExperimentError> {
    if experiment.workload.is_some() {
        return wrong("workload", "it and flow", "one load: [workload] or [[flow]]");
    }
    let mut all = Vec::new();
    for (queue, flow) in (0..u16::MAX).zip(&experiment.flow) {
        let table = format!("flow[{queue}]");
        if !flow.fio.is_empty() {
            return wrong(format!("{table}.fio"), "a job file", "the other keys; a job file goes to workload.fio");
        }
        if experiment.flow[..usize::from(queue)].iter().any(|other| other.name == flow.name) {
            return wrong(format!("{table}.name"), &flow.name, "a name that no other flow has");
        }
        let jobs = jobs(&table, flow, has_stop(experiment))?;
        all.extend(jobs.into_iter().map(|job| Job { queue, ..job }));
    }
    Ok(all)
}

/// What a job does, and whether at random positions.
pub(super) fn mix_of(rw: ReadWrite) -> (Mix, bool) {
    match rw {
        ReadWrite::Read => (Mix::Read, false),
        ReadWrite::Write => (Mix::Write, false),
        ReadWrite::Trim => (Mix::Trim, false),
        ReadWrite::RandRead => (Mix::Read, true),
        ReadWrite::RandWrite => (Mix::Write, true),
        ReadWrite::RandTrim => (Mix::Trim, true),
        ReadWrite::Rw => (Mix::ReadWrite, false),
        ReadWrite::RandRw => (Mix::ReadWrite, true),
    }
}

/// The jobs of a table of the experiment.
fn jobs(table: &str, workload: &FioJob, has_stop: bool) -> Result<Vec<Job>, ExperimentError> {
    let sector = u64::from(SECTOR_BYTES);
    for (key, value) in [("block_bytes", workload.block_bytes), ("offset_bytes", workload.offset_bytes)] {
        if !value.is_multiple_of(sector) {
            return wrong(format!("{table}.{key}"), value, "a multiple of 512");
        }
    }
    if workload.barrier_every > 0 && workload.flush_every > 0 {
        let expected = format!("0 where {table}.flush_every is set");
        return wrong(format!("{table}.barrier_every"), workload.barrier_every, expected);
    }
    if !workload.fio.is_empty() {
        return fio::parse(&workload.fio).map_err(|error| {
            ExperimentError::value("workload.fio", error, "a job file as docs/format/fio.md describes it")
        });
    }
    let mut job = Job::new(&workload.name, 1);
    (job.mix, job.random) = mix_of(workload.rw);
    job.mix_read_percent = workload.read_percent;
    job.sizes = [const { fio::Sizes::Fixed(0) }; 3].map(|_| fio::Sizes::Fixed(workload.block_bytes));
    job.align = [workload.block_bytes; 3];
    job.offset = Extent::Bytes(workload.offset_bytes);
    job.size = (workload.size_bytes > 0).then_some(Extent::Bytes(workload.size_bytes));
    job.number_ios = (workload.requests > 0).then_some(workload.requests);
    job.runtime = (workload.seconds > 0.0).then_some(Ns((workload.seconds * 1e9) as u64));
    job.ramp = Ns((workload.ramp_s * 1e9) as u64);
    job.time_based = workload.requests > 0 || workload.seconds > 0.0 || has_stop;
    job.synchronous = false;
    (job.depth, job.iodepth) = (workload.depth, workload.depth);
    job.fsync = workload.flush_every.max(workload.barrier_every);
    job.barrier = workload.barrier_every > 0;
    job.fua = workload.fua;
    job.random_map = false;
    if workload.zipf > 0.0 {
        job.distribution = Distribution::Zipf { theta: workload.zipf, center: None };
    }
    Ok(vec![job])
}

fn iozone(section: &words::Iozone, drive_bytes: u64) -> Result<Iozone, ExperimentError> {
    let sector = u64::from(SECTOR_BYTES);
    for (key, value) in [("iozone.record_bytes", section.record_bytes), ("iozone.offset_bytes", section.offset_bytes)] {
        if !value.is_multiple_of(sector) {
            return wrong(key, value, "a multiple of 512");
        }
    }
    if section.offset_bytes >= drive_bytes {
        let expected = format!("less than the drive's {drive_bytes} bytes");
        return wrong("iozone.offset_bytes", section.offset_bytes, expected);
    }
    let room = drive_bytes - section.offset_bytes;
    if section.range_bytes > room {
        let expected = format!("at most the {room} bytes that the drive has there");
        return wrong("iozone.range_bytes", section.range_bytes, expected);
    }
    if !section.mixed_records.is_power_of_two() {
        return wrong("iozone.mixed_records", section.mixed_records, "a power of two from 1 to 65,536");
    }
    let range = if section.range_bytes > 0 { section.range_bytes } else { room };
    let few = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let test = Iozone {
        threads: section.threads,
        record_sectors: few(section.record_bytes / sector),
        file_records: few(range / section.record_bytes / u64::from(section.threads)),
        first_sector: section.offset_bytes / sector,
        phases: section
            .phases
            .iter()
            .map(|phase| match phase {
                words::IozonePhase::Read => Phase::Read,
                words::IozonePhase::Write => Phase::Write,
            })
            .collect(),
        host: Ns((section.host_us * 1e3).round() as u64),
        records: few(section.records),
        stonewall: section.stonewall,
        flush: section.flush,
        mixed_records: section.mixed_records,
    };
    if test.file_records == 0 {
        return wrong("iozone.range_bytes", section.range_bytes, "at least a record for each thread");
    }
    Ok(test)
}

fn apps(section: &words::Apps, drive_bytes: u64, seed: Seed) -> Result<Installed, ExperimentError> {
    if section.games > section.apps {
        return wrong("apps.games", section.games, format!("at most apps.apps, {}", section.apps));
    }
    if !section.sequential_kib.is_multiple_of(4) {
        return wrong("apps.sequential_kib", section.sequential_kib, "a multiple of 4 from 4 to 16,384");
    }
    if !section.fragment_kib.is_multiple_of(section.sequential_kib) || section.fragment_kib > 1 << 20 {
        let expected = "0, or a multiple of apps.sequential_kib up to 1,048,576";
        return wrong("apps.fragment_kib", section.fragment_kib, expected);
    }
    if !section.offset_bytes.is_multiple_of(PAGE_BYTES) {
        return wrong("apps.offset_bytes", section.offset_bytes, "a multiple of 4096");
    }
    if section.offset_bytes.saturating_add(section.size_bytes.max(1)) > drive_bytes {
        let found = format!("an area from byte {} of {} bytes", section.offset_bytes, section.size_bytes);
        return wrong("apps.size_bytes", found, format!("one within the drive's {drive_bytes} bytes"));
    }
    let model = model(section, drive_bytes);
    Installed::new(model.clone(), seed).map_err(|error| {
        let key = match error {
            AppsError::NoRoom { .. } => "apps.size_bytes",
            AppsError::TooSmall { app, .. } if model.kind(app).1 => "apps.game_mib",
            AppsError::TooSmall { .. } => "apps.app_mib",
            AppsError::ReadsNothing { app } if model.kind(app).1 => "apps.game_random_reads",
            AppsError::ReadsNothing { .. } => "apps.app_random_reads",
        };
        ExperimentError::value(key, error, "files that fit their area, and launches that fit their files")
    })
}

fn model(section: &words::Apps, drive_bytes: u64) -> Apps {
    let pages = |mib: f64| (mib * 256.0).round() as u32;
    let kind = |mib, random_reads, sequential_mib, cpu_ms: f64| Kind {
        pages: pages(mib),
        random_reads,
        sequential_pages: pages(sequential_mib),
        cpu: Ns((cpu_ms * 1e6).round() as u64),
    };
    let area = if section.size_bytes > 0 { section.size_bytes } else { drive_bytes - section.offset_bytes };
    Apps {
        apps: section.apps,
        games: section.games,
        cycles: section.cycles,
        first_page: section.offset_bytes / PAGE_BYTES,
        area_pages: area / PAGE_BYTES,
        app: kind(section.app_mib, section.app_random_reads, section.app_sequential_mib, section.app_cpu_ms),
        game: kind(section.game_mib, section.game_random_reads, section.game_sequential_mib, section.game_cpu_ms),
        spread: section.spread_percent / 100.0,
        fresh: section.fresh_percent / 100.0,
        fragment_pages: section.fragment_kib / 4,
        request_pages: section.sequential_kib / 4,
        order: match section.order {
            words::LaunchOrder::Mixed => Order::Mixed,
            words::LaunchOrder::SequentialFirst => Order::SequentialFirst,
            words::LaunchOrder::RandomFirst => Order::RandomFirst,
        },
        readers: section.readers,
        cache_pages: pages(section.page_cache_mib),
        writes: section.write_percent / 100.0,
    }
}

/// Records after which each of iozone's threads ends a phase; 0 if that depends on the drive.
pub fn iozone_records(section: &words::Iozone) -> u64 {
    if section.records > 0 {
        section.records
    } else {
        section.range_bytes / section.record_bytes.max(1) / u64::from(section.threads.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Drive;

    fn jobs(workload: &str) -> Result<Vec<Job>, ExperimentError> {
        let experiment = Experiment::resolve(&format!("title = 't'\n[ssd]\n{workload}"), &[])?;
        let drive = Drive::build(experiment.ssd.as_ref().unwrap(), 1)?;
        match Load::build(&experiment, &drive.facts())? {
            Load::Jobs(jobs) => Ok(jobs),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_simple_keys_make_a_job() {
        let jobs = jobs("[workload]\nrw = 'randrw'\nblock_bytes = 8192\ndepth = 7\nrequests = 3\nread_percent = 70\n");
        let job = &jobs.unwrap()[0];
        assert_eq!((job.mix, job.random, job.depth, job.number_ios), (Mix::ReadWrite, true, 7, Some(3)));
        assert_eq!((job.mix_read_percent, job.sizes[1].max(), job.random_map), (70, 8192, false));
    }

    #[test]
    fn a_job_file_replaces_the_simple_keys() {
        let both = jobs("[workload]\nfio = '''\n[a]\nrw=read\nbs=16k\n[b]\nrw=randwrite\n'''\n");
        assert_eq!(both.unwrap().len(), 2);
        let bad = jobs("[workload]\nfio = '''\n[a]\nrw=wread\n'''\n");
        let error = bad.unwrap_err().to_string();
        assert!(error.contains("workload.fio") && error.contains("wread"), "{error}");
    }
}
