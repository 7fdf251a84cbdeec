//! All options of fio and how each is treated.

/// How an option is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It shapes the workload; see `job`.
    Effective,
    /// Accepted without effect on a simulated device, for this reason.
    Inert(&'static str),
    /// Refused, for this reason.
    Unsupported(&'static str),
}

const TARGET: &str = "the device of the experiment is the target";
const BYTES: &str = "the device is told lengths, not contents";
const HOST: &str = "no processor, memory or process of the host is simulated";
const CACHE: &str = "there is no page cache: every request goes to the device";
const REPORT: &str = "it shapes fio's own output or clock";
const FAULTS: &str = "a device fault is counted, and the run ends where the device ends";
const SEEDED: &str = "every run repeats from the experiment's seed";
const ENGINE: &str = "it tunes how a kernel interface is called";

const VERIFY: &str = "no contents are written that could be verified";
const ZONES: &str = "there are no zoned devices";
const BATCH: &str = "requests are submitted and reaped one at a time";
const ONE_FILE: &str = "a job has one file: the device";
const LOGS: &str = "traces are read by their own reader, not by a job";
const STEER: &str = "no run is steered by its own results";
const PRIORITY: &str = "the device knows no priorities";
const SYNC_OTHER: &str = "only fsync, fdatasync, end_fsync and sync reach a device";
const CYCLES: &str = "no processor runs those cycles: use thinktime";
const SHELL: &str = "a job file runs no commands";
const ORDER: &str = "jobs are ordered by stonewall and startdelay only";
const SPRANDOM: &str = "preconditioning by regions is not carried out";
const SEQUENCER: &str = "positions follow from rw and random_distribution alone";

/// Every option by name. Aliases are listed with the names; `main_name` maps them.
#[rustfmt::skip]
pub static OPTIONS: &[(Standing, &[&str])] = &[
    (Standing::Effective, &[
        "name", "rw", "readwrite", "rwmixread", "rwmixwrite", "bs", "blocksize", "bssplit", "bsrange",
        "blocksize_range", "ba", "blockalign", "size", "io_size", "io_limit", "offset", "fileoffset", "offset_align",
        "offset_increment", "iodepth", "numjobs", "ioengine", "rate", "rate_iops", "rate_process", "thinktime",
        "thinktime_blocks", "thinktime_blocks_type", "fsync", "fdatasync", "end_fsync", "fsync_on_close",
        "sync",
        "random_distribution", "norandommap", "randseed", "ramp_time", "runtime", "timeout", "time_based", "loops",
        "stonewall", "wait_for_previous", "percentage_random", "number_ios", "startdelay", "kb_base",
        "overwrite", "create_on_open",
    ]),
    (Standing::Inert(TARGET), &[
        "filename", "directory", "filename_format", "unique_filename", "filetype", "create_serialize",
        "create_fsync", "allow_file_create", "allow_mounted_write", "fallocate", "fadvise_hint",
        "unlink", "unlink_each_loop", "lockfile", "opendir", "write_hint",
    ]),
    (Standing::Inert(BYTES), &[
        "zero_buffers", "refill_buffers", "scramble_buffers", "buffer_pattern", "buffer_compress_percentage",
        "buffer_compress_chunk", "dedupe_percentage", "dedupe_mode", "dedupe_working_set_percentage",
        "dedupe_global",
    ]),
    (Standing::Inert(CACHE), &["direct", "buffered", "invalidate", "pre_read"]),
    (Standing::Inert(HOST), &[
        "thread", "nice", "cpumask", "cpus_allowed", "cpus_allowed_policy", "numa_cpu_nodes", "numa_mem_policy",
        "lockmem", "mem", "iomem", "mem_align", "iomem_align", "hugepage-size", "uid", "gid", "cgroup",
        "cgroup_weight", "cgroup_nodelete", "comm", "ioscheduler", "thinktime_spin",
    ]),
    (Standing::Inert(REPORT), &[
        "description", "group_reporting", "new_group", "stats", "clocksource", "gtod_reduce", "gtod_cpu",
        "job_start_clock_id", "disable_lat", "disable_clat", "disable_slat", "disable_bw", "disable_bw_measurement",
        "slat_percentiles", "clat_percentiles", "lat_percentiles", "percentile_list", "significant_figures",
        "unified_rw_reporting", "unit_base", "disk_util", "bwavgtime", "iopsavgtime", "block_error_percentiles",
        "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "per_job_logs", "log_entries",
        "log_avg_msec", "log_hist_msec", "log_hist_coarseness", "log_window_value", "log_max_value", "log_offset",
        "log_prio", "log_issue_time", "log_compression", "log_compression_cpus", "log_store_compressed",
        "log_unix_epoch", "log_alternate_epoch", "log_alternate_epoch_clock_id",
    ]),
    (Standing::Inert(FAULTS), &["continue_on_error", "ignore_error", "error_dump", "exitall_on_error"]),
    (Standing::Inert(SEEDED), &["randrepeat", "allrandrepeat", "random_generator", "softrandommap"]),
    (Standing::Inert(ENGINE), &[
        "fixedbufs", "nonvectored", "force_async", "registerfiles", "sqthread_poll", "sqthread_poll_cpu", "hipri",
        "hipri_percentage", "userspace_reap", "nowait", "uncached", "libaio_vectored",
    ]),
    (Standing::Unsupported(VERIFY), &[
        "verify", "do_verify", "verify_only", "verify_policy", "verify_interval", "verify_offset", "verify_pattern",
        "verify_pattern_interval", "verify_fatal", "verify_dump", "verify_async", "verify_async_cpus",
        "verify_backlog", "verify_backlog_batch", "verify_state_save", "verify_state_load", "experimental_verify",
        "verify_write_sequence", "verify_header_seed", "trim_percentage", "trim_verify_zero", "trim_backlog",
        "trim_backlog_batch",
    ]),
    (Standing::Unsupported(ZONES), &[
        "zonemode", "zonerange", "zonesize", "zonecapacity", "zoneskip", "read_beyond_wp", "max_open_zones",
        "job_max_open_zones", "ignore_zone_limits", "zone_reset_threshold", "zone_reset_frequency",
        "recover_zbd_write_error", "write_zone_remainder",
    ]),
    (Standing::Unsupported(BATCH), &[
        "iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete", "iodepth_batch_complete_min",
        "iodepth_batch_complete_max", "iodepth_low", "io_submit_mode", "serialize_overlap",
    ]),
    (Standing::Unsupported(ONE_FILE), &[
        "nrfiles", "nr_files", "openfiles", "file_service_type", "filesize", "file_append", "fill_device", "fill_fs",
        "create_only",
    ]),
    (Standing::Unsupported(LOGS), &[
        "write_iolog", "read_iolog", "read_iolog_chunked", "merge_blktrace_file", "merge_blktrace_scalars",
        "merge_blktrace_iters", "replay_no_stall", "replay_time_scale", "replay_redirect", "replay_align",
        "replay_scale", "replay_skip",
    ]),
    (Standing::Unsupported(STEER), &[
        "latency_target", "latency_window", "latency_percentile", "latency_run", "max_latency", "rate_min",
        "ratemin", "rate_iops_min", "rate_cycle", "ratecycle", "rate_ignore_thinktime", "thinktime_iotime",
        "steadystate", "ss", "steadystate_duration", "ss_dur", "steadystate_ramp_time", "ss_ramp",
        "steadystate_check_interval", "ss_interval", "flow", "flow_id", "flow_sleep", "flow_watermark", "ramp_size",
    ]),
    (Standing::Unsupported(PRIORITY), &[
        "prio", "prioclass", "priohint", "cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_hint",
        "cmdprio_bssplit", "fdp", "dataplacement", "plid_select", "plids", "dp_scheme", "fdp_pli",
        "fdp_pli_select", "atomic",
    ]),
    (Standing::Unsupported(SYNC_OTHER), &[
        "sync_file_range", "write_barrier", "end_syncfs", "readfua", "writefua", "write_mode",
    ]),
    (Standing::Unsupported(CYCLES), &["thinkcycles"]),
    (Standing::Unsupported(SHELL), &["exec_prerun", "exec_postrun", "profile"]),
    (Standing::Unsupported(ORDER), &["wait_for", "exitall", "exit_what"]),
    (Standing::Unsupported(SPRANDOM), &["sprandom", "spr_num_regions", "spr_op", "spr_cs"]),
    (Standing::Unsupported(SEQUENCER), &[
        "rw_sequencer", "random_sequence_stride", "percentage_sequential", "rwmixcycle", "num_range", "bs_unaligned",
        "blocksize_unaligned", "bs_is_seq_rand",
    ]),
];

/// How `option` is treated, if fio has it.
pub fn standing(option: &str) -> Option<Standing> {
    OPTIONS.iter().find(|(_, names)| names.contains(&option)).map(|&(standing, _)| standing)
}

/// Whether `value` leaves an unsupported option off, like its default.
pub(super) fn is_off(option: &str, value: &str) -> bool {
    match option {
        "nrfiles" | "nr_files" | "openfiles" => value == "1",
        "io_submit_mode" => value == "inline",
        _ if option.starts_with("iodepth_") => value == "1",
        _ => matches!(value, "0" | "none"),
    }
}

/// The main name of an option or alias.
pub(super) fn main_name(option: &str) -> &str {
    match option {
        "readwrite" => "rw",
        "blocksize" => "bs",
        "blocksize_range" => "bsrange",
        "blockalign" => "ba",
        "io_limit" => "io_size",
        "fileoffset" => "offset",
        "timeout" => "runtime",
        "fsync_on_close" => "end_fsync",
        "wait_for_previous" => "stonewall",
        other => other,
    }
}

/// The known option at the smallest edit distance, the first in the list on a tie.
pub(super) fn nearest(option: &str) -> &'static str {
    let names = OPTIONS.iter().flat_map(|(_, names)| names.iter().copied());
    names.min_by_key(|name| edits(option, name)).unwrap_or("rw")
}

/// Edit distance in bytes from `a` to `b`. Only the first 40 bytes count: no option is longer.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (&a.as_bytes()[..a.len().min(40)], b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_stands_twice() {
        let mut names: Vec<_> = OPTIONS.iter().flat_map(|(_, names)| names.iter()).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().all(|name| standing(main_name(name)) == standing(name)));
        assert!(names.iter().all(|name| name.len() <= 40));
    }

    #[test]
    fn a_misspelt_option_is_near_its_right_spelling() {
        assert_eq!(nearest("iodeph"), "iodepth");
        assert_eq!(nearest("run_time"), "runtime");
        assert_eq!(nearest("random-distribution"), "random_distribution");
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
