//! What the host asks of the drive: fio jobs, or a recording.
//!
//! The simple keys of `[workload]` make one job. Unlike fio's, its random requests are drawn independently of each other
//! (`norandommap`), as analytic results for write amplification assume.

use sim::seam::{BlockDevice, BlockRequest};
use sim::{Ns, Seed};
use workload::drive::{Limits, Observer, Report, run};
use workload::fio::{self, Distribution, Extent, FioError, FioLoad, Generator, Job, Mix};
use workload::replay::{Arrival, ClosedReplay, DependencyReplay, OpenReplay, Speed};

use super::experiment::{SsdExperiment, wrong};
use crate::experiment::ExperimentError;

/// A recording's requests, in the order of their times.
pub type Arrivals<'a> = &'a mut dyn Iterator<Item = Arrival>;

/// The jobs of an experiment. It has been checked.
pub fn jobs(experiment: &SsdExperiment) -> Result<Vec<Job>, FioError> {
    let workload = &experiment.workload;
    if !workload.fio.is_empty() {
        return fio::parse(&workload.fio);
    }
    let mut job = Job::new("workload", 1);
    (job.mix, job.random) = match workload.rw.as_str() {
        "read" => (Mix::Read, false),
        "write" => (Mix::Write, false),
        "trim" => (Mix::Trim, false),
        "randread" => (Mix::Read, true),
        "randtrim" => (Mix::Trim, true),
        "rw" => (Mix::ReadWrite, false),
        "randrw" => (Mix::ReadWrite, true),
        _ => (Mix::Write, true),
    };
    job.mix_read_percent = workload.read_percent;
    job.sizes = [const { fio::Sizes::Fixed(0) }; 3].map(|_| fio::Sizes::Fixed(workload.block_bytes));
    job.align = [workload.block_bytes; 3];
    job.offset = Extent::Bytes(workload.offset_bytes);
    job.size = (workload.size_bytes > 0).then_some(Extent::Bytes(workload.size_bytes));
    job.number_ios = (workload.requests > 0).then_some(workload.requests);
    job.runtime = (workload.seconds > 0.0).then_some(Ns((workload.seconds * 1e9) as u64));
    job.time_based = workload.requests > 0 || workload.seconds > 0.0 || has_stop(experiment);
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

fn has_stop(experiment: &SsdExperiment) -> bool {
    let stop = &experiment.stop;
    stop.virtual_s > 0.0 || stop.requests > 0 || stop.drive_writes > 0.0 || stop.max_erases > 0
}

/// Errors: a key of the load that no job can have.
pub fn check(experiment: &SsdExperiment) -> Result<(), ExperimentError> {
    let workload = &experiment.workload;
    let known = ["read", "write", "trim", "randread", "randwrite", "randtrim", "rw", "randrw"];
    if !known.contains(&workload.rw.as_str()) {
        return wrong("workload.rw", &workload.rw, &format!("one of {}", known.join(", ")));
    }
    let sector = u64::from(sim::seam::SECTOR_BYTES);
    if !workload.block_bytes.is_multiple_of(sector) || !(sector..=fio::MAX_BLOCK_BYTES).contains(&workload.block_bytes)
    {
        return wrong("workload.block_bytes", workload.block_bytes, "a multiple of 512 from 512 to 2^30");
    }
    if !(1..=fio::MAX_DEPTH).contains(&u64::from(workload.depth)) {
        return wrong("workload.depth", workload.depth, "1 to 65,535");
    }
    if !(0.0..=1e9).contains(&workload.seconds) {
        return wrong("workload.seconds", workload.seconds, "0 to 1e9");
    }
    if workload.read_percent > 100 {
        return wrong("workload.read_percent", workload.read_percent, "0 to 100");
    }
    if !workload.offset_bytes.is_multiple_of(sector) {
        return wrong("workload.offset_bytes", workload.offset_bytes, "a multiple of 512");
    }
    if workload.barrier_every > 0 && workload.flush_every > 0 {
        return wrong("workload.barrier_every", workload.barrier_every, "0 where workload.flush_every is set");
    }
    if !(0.0..=100.0).contains(&workload.zipf) {
        return wrong("workload.zipf", workload.zipf, "0 to 100");
    }
    jobs(experiment).map_err(|error| ExperimentError::Value {
        key: "workload.fio".to_owned(),
        found: error.to_string(),
        expected: "a job file as docs/format/fio.md describes it".to_owned(),
    })?;
    Ok(())
}

/// Errors: a job that does not fit a device of `sectors`.
pub fn fits(jobs: &[Job], sectors: u64, seed: Seed) -> Result<(), FioError> {
    jobs.iter().try_for_each(|job| Generator::new(job, 0, sectors, seed).map(drop))
}

/// Where the run ends at the latest.
pub(super) fn limits(experiment: &SsdExperiment) -> Limits {
    let stop = &experiment.stop;
    Limits {
        until: if stop.virtual_s > 0.0 { Ns((stop.virtual_s * 1e9) as u64) } else { Limits::NONE.until },
        requests: if stop.requests > 0 { stop.requests } else { Limits::NONE.requests },
    }
}

/// Puts the load on a device.
/// Errors: a job that does not fit the device.
pub fn put<D: BlockDevice, O: Observer>(
    experiment: &SsdExperiment,
    arrivals: Option<Arrivals<'_>>,
    device: &mut D,
    observer: &mut O,
) -> Result<Report<O::Stop>, FioError> {
    let limits = limits(experiment);
    let (Some(arrivals), Some(trace)) = (arrivals, &experiment.trace) else {
        let jobs = jobs(experiment)?;
        let mut load = FioLoad::new(&jobs, device.sectors(), Seed(experiment.seed))?;
        return Ok(run(device, &mut load, Ns::ZERO, limits, observer));
    };
    let sectors = device.sectors();
    let arrivals = arrivals.map(|arrival| if trace.wrap { wrapped(arrival, sectors) } else { arrival });
    let speed = Speed::times(trace.speed).unwrap_or(Speed::RECORDED);
    Ok(match trace.mode.as_str() {
        "dependency" => run(device, &mut DependencyReplay::new(arrivals).speed(speed), Ns::ZERO, limits, observer),
        "closed" => {
            let depth = trace.depth.min(device.queue_depth());
            run(device, &mut ClosedReplay::new(arrivals, depth), Ns::ZERO, limits, observer)
        }
        _ => run(device, &mut OpenReplay::new(arrivals).speed(speed), Ns::ZERO, limits, observer),
    })
}

/// A request that begins within the drive, shortened if it would leave it.
fn wrapped(arrival: Arrival, sectors: u64) -> Arrival {
    let BlockRequest { sector, sectors: count, .. } = arrival.request;
    let sector = sector % sectors.max(1);
    let count = u64::from(count).min(sectors - sector) as u32;
    Arrival { request: BlockRequest { sector, sectors: count, ..arrival.request }, ..arrival }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::RamDisk;
    use workload::drive::Ended;

    fn experiment(more: &str) -> SsdExperiment {
        SsdExperiment::resolve(&format!("title = 't'\n[ssd]\n{more}"), &[]).unwrap()
    }

    fn trace(depth: u32, wrap: bool) -> SsdExperiment {
        experiment(&format!("[trace]\nfile = 'x'\nmode = 'closed'\ndepth = {depth}\nwrap = {wrap}\n"))
    }

    fn arrivals(count: u64) -> Vec<Arrival> {
        (0..count).map(|i| (Ns(i * 1_000_000), BlockRequest::read(i * 8, 8), None).into()).collect()
    }

    #[test]
    fn addresses_beyond_the_drive_wrap_if_asked_and_end_the_run_if_not() {
        let run = |wrap| {
            let mut disk = RamDisk::new(12, 4, 1, Ns(10));
            let mut records = arrivals(3).into_iter();
            put(&trace(1, wrap), Some(&mut records), &mut disk, &mut ()).unwrap()
        };
        assert_eq!(run(true).ended, Ended::Done);
        assert!(matches!(run(false).ended, Ended::Device { .. }));
    }

    #[test]
    fn the_simple_keys_make_a_job() {
        let experiment =
            experiment("[workload]\nrw = 'randrw'\nblock_bytes = 8192\ndepth = 7\nrequests = 3\nread_percent = 70\n");
        let job = &jobs(&experiment).unwrap()[0];
        assert_eq!((job.mix, job.random, job.depth, job.number_ios), (Mix::ReadWrite, true, 7, Some(3)));
        assert_eq!((job.mix_read_percent, job.sizes[1].max(), job.random_map), (70, 8192, false));
    }

    #[test]
    fn a_job_file_stands_in_place_of_the_simple_keys() {
        let experiment = experiment("[workload]\nfio = '''\n[a]\nrw=read\nbs=16k\n[b]\nrw=randwrite\n'''\n");
        assert_eq!(jobs(&experiment).unwrap().len(), 2);
        let bad = SsdExperiment::resolve("title = 't'\n[ssd]\n[workload]\nfio = '''\n[a]\nrw=wread\n'''\n", &[]);
        let error = bad.unwrap_err().to_string();
        assert!(error.contains("workload.fio") && error.contains("wread"), "{error}");
    }
}
