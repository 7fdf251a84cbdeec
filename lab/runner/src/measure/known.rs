//! The table of metrics: id, unit, label and meaning of each, from which `docs/format/metrics.md` is made.

use workload::fsstress::Op;

use super::chain;
use super::outcome::file_system::is_errno;
use super::outcome::table::BINS;
use fs::cache::WriteBack;

/// Unit, label and meaning of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Id; a part in angle brackets stands for a name or number of the run.
    pub id: &'static str,
    /// Unit; empty for a plain count or a ratio.
    pub unit: &'static str,
    /// Label for people, with `{}` for each part in angle brackets.
    pub label: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

const fn metric(id: &'static str, unit: &'static str, label: &'static str, doc: &'static str) -> Known {
    Known { id, unit, label, doc }
}

/// Every metric, in the order of the documentation.
pub const ALL: &[Known] = &[
    metric(
        "run.time_us",
        "µs",
        "length of the run",
        "virtual time from the start to the last completion, ramp included",
    ),
    metric("run.requests", "", "requests", "drives: requests issued by the load"),
    metric(
        "run.steps",
        "",
        "steps of the load",
        "UBI: steps of the load; each writes a LEB. Volumes: writes of their users. File systems: operations",
    ),
    metric(
        "host.bytes",
        "B",
        "bytes written by the host",
        "volumes: without what fills writes up to write units or LEBs; file systems: bytes written to files",
    ),
    metric(
        "host.behind_s",
        "s",
        "delay of the last operation",
        "volumes: from its time to its beginning; the flash is too slow for the load if it is more than an update takes",
    ),
    metric("all.iops", "1/s", "requests per second", "drives: sum over the operations"),
    metric("all.mb_s", "MB/s", "throughput", "drives: 10^6 bytes per second, sum over the operations"),
    metric("all.mean_us", "µs", "mean latency", "drives: mean over all requests"),
    metric("all.p99_us", "µs", "99th percentile of latency", "drives: only if the load has one operation"),
    metric("all.max_us", "µs", "greatest latency", "drives: over all requests"),
    metric(
        "<op>.count",
        "",
        "{}: requests",
        "requests that count; `<op>` is `read`, `write`, `flush`, `trim`, on UBI `leb_write`, under a guest on raw flash `read`, `program`, `erase`",
    ),
    metric("<op>.errors", "", "{}: failed", "requests that failed"),
    metric("<op>.iops", "1/s", "{}: requests per second", "per second of the measured part"),
    metric("<op>.mb_s", "MB/s", "{}: throughput", "10^6 bytes per second of the measured part"),
    metric("<op>.mean_us", "µs", "{}: mean latency", "from issue to completion"),
    metric("<op>.p50_us", "µs", "{}: median latency", "50th percentile"),
    metric("<op>.p90_us", "µs", "{}: 90th percentile of latency", "90th percentile"),
    metric("<op>.p99_us", "µs", "{}: 99th percentile of latency", "99th percentile"),
    metric("<op>.p999_us", "µs", "{}: 99.9th percentile of latency", "99.9th percentile"),
    metric("<op>.max_us", "µs", "{}: greatest latency", "the longest of all"),
    metric("phase.<n>.seconds", "s", "phase {}: length", "length of phase `<n>` of the load, from 1"),
    metric(
        "phase.<n>.mb_s",
        "MB/s",
        "phase {}: throughput",
        "10^6 bytes per second; of iozone the sum of its threads' rates",
    ),
    metric("phase.<n>.iops", "1/s", "phase {}: requests per second", "requests of the drive per second"),
    metric(
        "flow.<n>.<op>.iops",
        "1/s",
        "flow {}, {}: requests per second",
        "of flow `<n>`, from 1, of a load of several jobs",
    ),
    metric("flow.<n>.<op>.mean_us", "µs", "flow {}, {}: mean latency", "as for `<op>`"),
    metric("flow.<n>.<op>.p99_us", "µs", "flow {}, {}: 99th percentile of latency", "as for `<op>`"),
    metric(
        "flow.<n>.moved_share",
        "",
        "flow {}: share of the pages moved",
        "pages last written by the flow, of all pages that the drive moved: its share of the time of collection",
    ),
    metric(
        "flow.<n>.waf",
        "",
        "flow {}: write amplification",
        "bytes that the flow wrote and of its pages that were moved, per byte that it wrote",
    ),
    metric(
        "waf",
        "",
        "write amplification",
        "bytes programmed per byte that the load wrote, from the first counted request to the last completion",
    ),
    metric(
        "waf.by.<cause>",
        "",
        "write amplification by {}",
        "the part of one cause, such as `host`, `gc`, `padding`; the parts sum to `waf`",
    ),
    metric(
        "debt.buffered_pages",
        "",
        "debt: pages in the write buffer",
        "drives: dirty pages in the write buffer at the last completion",
    ),
    metric(
        "debt.pages",
        "",
        "debt: pages to program",
        "drives: pages programmed after the last completion, until idle",
    ),
    metric("debt.erases", "", "debt: blocks to erase", "drives: blocks erased after the last completion, until idle"),
    metric("debt.seconds", "s", "debt: time until idle", "drives: virtual time from the last completion until idle"),
    metric("programmed.<cause>", "B", "bytes programmed for {}", "bytes programmed for one cause"),
    metric("erased.<cause>", "", "erasures for {}", "UBI: erasures for one cause"),
    metric(
        "pattern.seg_seq",
        "",
        "segmented sequentiality of writes",
        "with `record.pattern`: share of the bytes written in segments of 1 MiB that were written from end to end in order",
    ),
    metric(
        "pattern.seg_cont",
        "",
        "segmented continuity of writes",
        "with `record.pattern`: share of the bytes written where the write before in the same segment ended",
    ),
    metric(
        "late.waf",
        "",
        "write amplification, second half",
        "over the last half of the pages that the host wrote, by the timeline",
    ),
    metric(
        "late.mb_s",
        "MB/s",
        "write throughput, second half",
        "over the last half of the bytes that the host wrote, by the timeline",
    ),
    metric(
        "late.erases_per_4k",
        "",
        "erasures per 4-KiB page, second half",
        "erasures per 4-KiB page that the host wrote, in that half",
    ),
    metric(
        "late.erases_per_block",
        "",
        "erasures per block written, second half",
        "erasures per block's worth of programmed pages, in that half",
    ),
    metric(
        "late.mean_erases_per_day",
        "1/d",
        "growth of the mean erase count, second half",
        "volumes: over the last half of the run's time, by the timeline",
    ),
    metric(
        "late.max_erases_per_day",
        "1/d",
        "growth of the greatest erase count, second half",
        "volumes: likewise; as long as it is above `late.mean_erases_per_day`, wear is not level yet",
    ),
    metric("wear.blocks", "", "blocks", "blocks, on raw flash PEBs"),
    metric("wear.erases", "", "erasures", "erasures of all blocks in the run"),
    metric("wear.erases_per_block", "", "erasures per block written", "erasures per block's worth of programmed pages"),
    metric(
        "wear.<group>.count",
        "",
        "{}: PEBs",
        "PEBs of a group; `<group>` is `all`, `first64`, `outliers` (PEBs beyond the first 64 that were erased at least ten times as often as their median) or `others` (the rest). Drives have only `all`",
    ),
    metric(
        "wear.decade.<from>",
        "",
        "PEBs erased {} times or more, in decades",
        "raw flash: PEBs whose erase count is at least `<from>` (0, 10, 100 … 100000) and below the next of these",
    ),
    metric("wear.<group>.min", "", "{}: least erase count", "least erase count of the group"),
    metric("wear.<group>.mean", "", "{}: mean erase count", "mean erase count of the group"),
    metric("wear.<group>.max", "", "{}: greatest erase count", "greatest erase count of the group"),
    metric("wear.<group>.p50", "", "{}: median erase count", "drives: nearest rank"),
    metric("wear.<group>.p90", "", "{}: 90th percentile of erase counts", "drives: nearest rank"),
    metric("wear.<group>.p99", "", "{}: 99th percentile of erase counts", "drives: nearest rank"),
    metric(
        "life.<end>.p10_years",
        "years",
        "life, {}: 10th percentile",
        "time, at the run's load, that 10 % of devices do not reach; `<end>` is `first` (the first block is worn out), `reserve` (more blocks are worn out than are reserved), or `level_first` and `level_reserve`: the same if wear were perfectly level. The first two need ten erasures of each block on average",
    ),
    metric("life.<end>.p50_years", "years", "life, {}: median", "the same for half of the devices"),
    metric("life.<end>.p90_years", "years", "life, {}: 90th percentile", "the same for 90 % of the devices"),
    metric("life.<end>.host_bytes", "B", "life, {}: bytes written by the host", "until the median of that time"),
    metric(
        "life.reserve_blocks",
        "",
        "blocks in reserve",
        "on raw flash the PEBs reserved for bad-block handling; on a drive the blocks beyond its logical capacity",
    ),
    metric("flash.host_reads", "", "pages read for the host", "pages of the flash read for the host"),
    metric("flash.program_ops", "", "program operations", "operations; one may program a page in each plane"),
    metric("flash.suspends", "", "operations suspended for a read", "programs and erasures suspended for a read"),
    metric("flash.lost", "", "pages lost in a move", "pages that were uncorrectable when they were to be moved"),
    metric("flash.reads_per_request", "", "pages read per request", "pages read for any cause, over requests"),
    metric(
        "flash.programs_per_request",
        "",
        "pages programmed per request",
        "pages programmed for any cause, over requests",
    ),
    metric(
        "gc.pages_copied",
        "",
        "pages copied by garbage collection and merges",
        "pages read by garbage collection, wear levelling and merges",
    ),
    metric("gc.free_blocks", "", "free blocks", "page mapping: free blocks at the end"),
    metric("gc.folded_pages", "", "pages moved out of SLC blocks", "page mapping: in the measured window"),
    metric("faults.corrected_bits", "", "bits corrected by ECC", "with `[faults]`; summed over page reads"),
    metric(
        "faults.corrected_pages",
        "",
        "page reads corrected by ECC",
        "with `[faults]`; reads with wrong bits, all corrected",
    ),
    metric("faults.unnoticed_bits", "", "wrong bits without ECC", "with `[faults]`; they reached the reader"),
    metric(
        "faults.uncorrectable_pages",
        "",
        "uncorrectable page reads",
        "with `[faults]`; more wrong bits than ECC corrects",
    ),
    metric("faults.program_failures", "", "programs that failed", "with `[faults]`"),
    metric("faults.erase_failures", "", "erases that failed", "with `[faults]`"),
    metric(
        "faults.scrubbed",
        "",
        "PEBs scrubbed",
        "with `[faults]`; UBI moved their data because ECC had corrected many bits",
    ),
    metric("faults.retired", "", "blocks retired by faults", "with `[faults]`; blocks that became bad in the run"),
    metric(
        "faults.lost",
        "",
        "data lost",
        "with `[faults]`; raw flash: LEBs that a reader could not read; drives: pages that could not be read when they were moved, and reads of the host that failed",
    ),
    metric("bad.blocks", "", "blocks retired", "blocks, on raw flash PEBs, that became bad"),
    metric("merge.switch", "", "switch merges", "log-block layers: in the measured window"),
    metric("merge.partial", "", "partial merges", "log-block layers: in the measured window"),
    metric("merge.full", "", "full merges", "log-block layers: in the measured window"),
    metric("merge.switch_per_request", "", "switch merges per request", "`merge.switch` over requests"),
    metric("merge.partial_per_request", "", "partial merges per request", "`merge.partial` over requests"),
    metric("merge.full_per_request", "", "full merges per request", "`merge.full` over requests"),
    metric("merge.pages_copied", "", "pages copied by merges", "log-block layers: in the measured window"),
    metric("merge.pages_padded", "", "pages padded by merges", "log-block layers: in the measured window"),
    metric("buffer.hits", "", "write buffer hits", "pages written that were already dirty in the buffer"),
    metric("buffer.misses", "", "write buffer misses", "pages written that were not in the buffer"),
    metric("buffer.hit_share", "", "share of write buffer hits", "hits over hits and misses"),
    metric(
        "buffer.evictions",
        "",
        "pages evicted from the write buffer",
        "dirty pages written from the buffer to the flash",
    ),
    metric("buffer.padding", "", "pages added to complete a group", "pages that the buffer added to a group"),
    metric("buffer.trimmed", "", "pages trimmed in the write buffer", "dirty pages that the host trimmed"),
    metric("buffer.dirty", "", "dirty pages in the write buffer at the end", "dirty pages when the run ended"),
    metric("map.hits", "", "map cache hits", "look-ups answered by the cached part of the mapping table"),
    metric("map.misses", "", "map cache misses", "look-ups that had to read the mapping table from flash"),
    metric("map.reads", "", "map pages read", "pages of the mapping table read from the flash"),
    metric("map.writes", "", "map pages written", "pages of the mapping table programmed"),
    metric("map.writes_for_moves", "", "map pages written because of moves", "of these, because the drive moved pages"),
    metric(
        "map.reads_per_host_read",
        "",
        "map pages read per page read for the host",
        "`map.reads` over `flash.host_reads`",
    ),
    metric(
        "hpb.hit_share",
        "",
        "share of reads with an HPB entry",
        "reads with an entry, over reads short enough for one",
    ),
    metric(
        "hpb.map_bytes_per_request",
        "B",
        "HPB entries sent to the host per request",
        "bytes of entries sent to the host, over requests",
    ),
    metric("hpb.stale_share", "", "share of stale HPB entries", "stale entries, over entries received by the device"),
    metric("guest.exit", "", "exit code of the guest's job", "guests: of the job; 0 if it and unmounting succeeded"),
    metric(
        "guest.job_s",
        "s",
        "length of the guest's job",
        "guests: virtual time from the beginning of the job until its file system is unmounted",
    ),
    metric(
        "guest.value.<name>",
        "",
        "{}, by the guest's job",
        "guests: the number of the last mark `value NAME NUMBER`; the name consists of a to z, 0 to 9, `_` and `-`",
    ),
    metric(
        "guest.mark.<name>_s",
        "s",
        "time of the mark {}",
        "guests: virtual time from the beginning of the job to the first mark with this text, of the same letters",
    ),
    metric("busy.channels", "", "busy channels", "mean number of busy channels"),
    metric("busy.dies", "", "busy dies", "mean number of busy dies"),
    metric("ubi.user_pebs", "", "PEBs taken for LEBs", "PEBs taken for LEBs since attach"),
    metric("ubi.erases", "", "erasures since attach", "including erasures in place and of torture tests"),
    metric("ubi.scrubs", "", "LEBs scrubbed", "LEBs moved because of bit flips"),
    metric("wl.moves", "", "LEBs moved for wear levelling", "moves of wear levelling"),
    metric("wl.anchor_moves", "", "LEBs moved to free an anchor", "moves that freed one of the first 64 PEBs"),
    metric(
        "wl.give_backs",
        "",
        "PEBs returned by wear levelling",
        "targets returned unused to the free tree, because erase counts differed too little",
    ),
    metric("fastmap.writes", "", "fastmap writes", "fastmaps written since attach"),
    metric("fastmap.writes_for.<trigger>", "", "fastmap writes: {}", "fastmaps by what triggered them"),
    metric(
        "fastmap.anchors_in_place",
        "",
        "anchors rewritten in place",
        "fastmap writes that erased and rewrote the old anchor",
    ),
    metric(
        "fastmap.data_in_place",
        "",
        "fastmap data blocks rewritten in place",
        "fastmap writes that erased and rewrote the old data block",
    ),
    metric(
        "fastmap.mean_user_pool_since_attach",
        "PEBs",
        "mean user pool after a refill, since attach",
        "including the filling of the volume",
    ),
    metric(
        "fastmap.writes_per_user_peb",
        "",
        "fastmap writes per PEB taken",
        "fastmap writes over PEBs taken for LEBs; this and the following are of the load alone",
    ),
    metric(
        "fastmap.mean_user_pool",
        "PEBs",
        "mean user pool after a refill",
        "mean size of the user pool after a refill",
    ),
    metric(
        "fastmap.starved_refill_share",
        "",
        "share of refills with at most one PEB",
        "share of refills that left at most one PEB in the user pool",
    ),
    metric(
        "fastmap.empty_wl_pool_share",
        "",
        "share of refills without a PEB for wear levelling",
        "share of refills that left the wear-levelling pool empty",
    ),
    metric("fastmap.anchors_in_place_share", "", "share of anchors in place", "over fastmap writes"),
    metric("fastmap.data_in_place_share", "", "share of data blocks in place", "over fastmap writes"),
    metric(
        "fastmap.give_backs_per_write",
        "",
        "PEBs returned by wear levelling per fastmap write",
        "over fastmap writes",
    ),
    metric(
        "fastmap.moves_per_user_peb",
        "",
        "LEBs moved per PEB taken",
        "moves of wear levelling over PEBs taken for LEBs",
    ),
    metric(
        "chain.<layer>.bytes",
        "B",
        "{}: bytes",
        "file systems: bytes that come out of a layer; `<layer>` is `program`, `page_cache` (pages that were written back), `blocks` (data before compression), `data_nodes` (headers and compressed data), `volume` (written to LEBs) or `cells` (programmed)",
    ),
    metric(
        "chain.<layer>.ratio",
        "",
        "{}: bytes per byte of the layer before",
        "file systems: the product of all is `waf`",
    ),
    metric(
        "chain.<layer>.by.<part>",
        "B",
        "{}: {}",
        "file systems: what the bytes of a layer consist of. Of `volume`, `<part>` is `data`, `inodes` (inodes, entries and truncations), `moved` (copies of garbage collection), `padding` (of write buffers), in whole write units `log`, `index`, `lpt`, `orphans`, `master` and `mount` (recovery), or `repeated` (from a record). Of `cells` it is `volume`, what UBI adds (`header`, `layout`, `fastmap`, `wear_level`, `scrub`, `torture`) or `recovery` (writes that failed, and their repetition). The sum is `chain.<layer>.bytes`",
    ),
    metric("fs.operations_per_s", "1/s", "operations per second", "file systems: per second of virtual time"),
    metric(
        "fs.nothing",
        "",
        "operations without a file",
        "fsstress: the file that it drew was not there, or was empty",
    ),
    metric("fs.refused", "", "operations refused", "fsstress: Linux does not have them for this file system"),
    metric("fs.failed", "", "operations that failed", "file systems: those that ended with an error number"),
    metric(
        "fs.failed.<errno>",
        "",
        "operations that failed with {}",
        "`<errno>` is the error's name, such as `enospc`",
    ),
    metric("fs.read_bytes", "B", "bytes read from files", "file systems: by the load"),
    metric("fs.data_bytes", "B", "bytes in data nodes", "UBIFS: of the data nodes written, before compression"),
    metric("fs.data_nodes", "", "data nodes", "UBIFS: data nodes written"),
    metric("fs.commits", "", "commits", "UBIFS: commits that wrote something, that of the unmount included"),
    metric(
        "fs.commits_required",
        "",
        "commits waited for",
        "UBIFS: of these, such as an operation waited for, because the journal was full or space was needed",
    ),
    metric("fs.commits_background", "", "commits in the background", "UBIFS: of these, those of the background thread"),
    metric("fs.collected_lebs", "", "LEBs collected", "UBIFS: LEBs from which garbage collection moved nodes"),
    metric("fs.moved_bytes", "B", "bytes moved by garbage collection", "UBIFS: of nodes"),
    metric("fs.collected_index_lebs", "", "index LEBs emptied", "UBIFS: LEBs of the index that a commit emptied"),
    metric("fs.index_nodes", "", "index nodes", "UBIFS: index nodes written"),
    metric("fs.index_nodes_in_gaps", "", "index nodes in gaps", "UBIFS: of these, such as filled gaps between others"),
    metric("fs.free_bytes", "B", "free space at the end", "file systems: as `statfs` says"),
    metric(
        "fs.repeated",
        "",
        "operations repeated",
        "file systems: whose calls on LEBs were repeated from a record (`fs.repeat`)",
    ),
    metric("cache.hits", "", "pages found", "page cache: pages of 4,096 bytes that a reader found"),
    metric("cache.misses", "", "pages not found", "page cache: pages that a reader did not find"),
    metric("cache.dropped", "", "dirty pages dropped", "page cache: what was deleted or cut off before it was written"),
    metric(
        "cache.written.<why>",
        "",
        "pages written back: {}",
        "page cache: `<why>` is `background` (more than the background limit was dirty), `periodic` (they were old), `fsync`, `sync`, `limit` (a writer waited), `eviction` (memory was full) or `truncate`",
    ),
    metric(
        "fs.<call>.count",
        "",
        "{}: operations",
        "file systems: operations of one kind that it did or failed; `<call>` is an operation of fsstress, or `create`, `remove`, `append` and so on",
    ),
    metric(
        "fs.<call>.mb_s",
        "MB/s",
        "{}: throughput",
        "fio: 10^6 bytes per second after the ramp; `<call>` is `read` or `write`",
    ),
    metric("fs.<call>.mean_us", "µs", "{}: mean latency", "from when the process was ready to the end"),
    metric("fs.<call>.min_us", "µs", "{}: least latency", "the shortest of all"),
    metric("fs.<call>.p50_us", "µs", "{}: median latency", "50th percentile"),
    metric("fs.<call>.p99_us", "µs", "{}: 99th percentile of latency", "99th percentile"),
    metric("fs.<call>.max_us", "µs", "{}: greatest latency", "the longest of all"),
    metric("fs.<call>.with_fastmap", "", "{}: operations with a fastmap", "those during which UBI wrote a fastmap"),
    metric(
        "fs.<call>.max_without_fastmap_us",
        "µs",
        "{}: greatest latency without a fastmap",
        "the longest of those during which UBI wrote none, if it wrote one during another",
    ),
    metric(
        "fs.gc.passes",
        "",
        "passes of garbage collection",
        "JFFS2: a node moved or a block erased; UBIFS: an LEB emptied",
    ),
    metric(
        "fs.gc.passes_by_writer",
        "",
        "passes that a program waited for",
        "of these, such as an operation did itself",
    ),
    metric("fs.gc.thread_s", "s", "passes of the thread", "time that they took"),
    metric("fs.gc.writer_s", "s", "passes of programs", "time that they took"),
    metric("fs.gc.mean_pass_us", "µs", "mean pass", "mean length of a pass"),
    metric("fs.gc.p99_pass_us", "µs", "99th percentile of passes", "length of a pass"),
    metric("fs.gc.max_pass_us", "µs", "longest pass", "length of a pass"),
    metric("fs.gc.moved_bytes", "B", "bytes moved", "of nodes that garbage collection wrote"),
    metric("fs.gc.collected", "", "blocks emptied", "eraseblocks of JFFS2, LEBs of UBIFS"),
    metric("fs.gc.longest_s", "s", "longest emptying of a block", "how long it was worked on, by whomever"),
    metric(
        "fs.stall.count",
        "",
        "operations that waited for garbage collection",
        "for passes of their own or of the thread",
    ),
    metric("fs.stall.mean_us", "µs", "mean wait", "of the operations that waited for garbage collection"),
    metric("fs.stall.p50_us", "µs", "median wait", "of the operations that waited for garbage collection"),
    metric("fs.stall.p99_us", "µs", "99th percentile of waits", "of the operations that waited for garbage collection"),
    metric("fs.stall.max_us", "µs", "longest wait", "of the operations that waited for garbage collection"),
    metric("fs.stall.all_s", "s", "waits for garbage collection", "their sum; its parts are the five below"),
    metric("fs.stall.cpu_s", "s", "waits: processor", "nodes visited, checksums, copies, compression"),
    metric("fs.stall.bus_s", "s", "waits: reads", "reads of the flash, and transfers"),
    metric("fs.stall.program_s", "s", "waits: programs", "of the flash"),
    metric("fs.stall.erase_s", "s", "waits: erases", "of the flash"),
    metric("fs.stall.other_s", "s", "waits: others", "for a chip that worked for somebody else"),
    metric(
        "fs.mount.<which>.s",
        "s",
        "{} mount",
        "file systems: what programs wait for; `<which>` is `first`, of the new file system, or `last`, after the run (`fs.mount_again`)",
    ),
    metric(
        "fs.mount.<which>.part.<mounting>_s",
        "s",
        "{} mount: {}",
        "a part of it: of JFFS2 `scan` (the look at the flash), `build` (which names inodes have), and, after it, `check` (data, by the thread); of UBIFS `attach` (UBI's) and `mount`",
    ),
    metric("jffs2.used_bytes", "B", "bytes in use", "JFFS2: of nodes that are needed, at the end"),
    metric("jffs2.dirty_bytes", "B", "obsolete bytes", "JFFS2: and such as cannot be used, at the end"),
    metric("jffs2.free_bytes", "B", "erased bytes", "JFFS2: at the end"),
    metric("jffs2.copied", "", "nodes copied", "JFFS2: by garbage collection, as they were"),
    metric("jffs2.rewritten", "", "nodes written anew", "JFFS2: by garbage collection"),
    metric("jffs2.erased", "", "blocks erased", "JFFS2: in the run"),
    metric("jffs2.summaries", "", "summaries", "JFFS2: written when a block was full"),
    metric("jffs2.damaged", "", "damaged nodes", "JFFS2: that a mount or a check found"),
    metric("jffs2.failed_programs", "", "programs repeated", "JFFS2: that failed, and were repeated elsewhere"),
    metric("jffs2.rescued", "", "nodes written again", "JFFS2: when their page could not be programmed"),
    metric(
        "reboots.count",
        "",
        "times switched on",
        "a device that loses power again and again: until its copy was done",
    ),
    metric("reboots.<stage>.first_s", "s", "{}, the first time", "`<stage>` is `boot` (the mount), `init` or `copy`"),
    metric("reboots.<stage>.mean_s", "s", "{}, mean", "over all times that it was switched on"),
    metric("reboots.<stage>.max_s", "s", "{}, the longest", "of all times that it was switched on"),
    metric("jffs.mount_empty_s", "s", "mount of the erased flash", "JFFS: processor and flash"),
    metric("jffs.nodes", "", "live nodes of the full flash", "JFFS: when a write of the load finds no space"),
    metric("jffs.data_bytes", "B", "contents on the full flash", "JFFS: bytes of files"),
    metric("jffs.header_bytes", "B", "headers on the full flash", "JFFS: raw inodes, names and padding of live nodes"),
    metric("jffs.dirty_bytes", "B", "dirt on the full flash", "JFFS: bytes of obsolete nodes"),
    metric("jffs.free_bytes", "B", "erased bytes of the full flash", "JFFS: what a writer must leave"),
    metric("jffs.fill_passes", "", "passes of garbage collection in the fill", "JFFS: until the flash was full"),
    metric("jffs.then.all_s", "s", "time of what followed", "JFFS: as `fill.then` says; its parts are the four below"),
    metric("jffs.then.cpu_s", "s", "what followed: processor", "JFFS: lists, checksums, copies"),
    metric("jffs.then.bus_s", "s", "what followed: reads", "JFFS: the bus of the flash"),
    metric("jffs.then.program_s", "s", "what followed: programs", "JFFS"),
    metric("jffs.then.erase_s", "s", "what followed: erases", "JFFS"),
    metric("jffs.then.longest_pass_s", "s", "what followed: longest pass", "JFFS: of garbage collection"),
    metric(
        "jffs.then.visited",
        "",
        "what followed: list elements visited",
        "JFFS: nodes found, and walked past in lists",
    ),
    metric("jffs.then.passes", "", "what followed: passes of garbage collection", "JFFS: each ends with an erase"),
    metric("jffs.then.moved_bytes", "B", "what followed: bytes moved", "JFFS: of nodes that garbage collection wrote"),
    metric("jffs.then.nodes", "", "live nodes after what followed", "JFFS"),
    metric("ubiblock.read_hits", "", "reads from the cache", "ubiblock: parts of reads whose LEB was in the cache"),
    metric(
        "ubiblock.read_misses",
        "",
        "reads from the volume",
        "ubiblock: parts of reads whose LEB was not in the cache",
    ),
    metric("ubiblock.write_hits", "", "writes to a cached LEB", "ubiblock: parts of writes whose LEB was in the cache"),
    metric(
        "ubiblock.write_hit_share",
        "",
        "share of writes to a cached LEB",
        "ubiblock: over the parts of all writes; a request that spans LEBs has a part in each",
    ),
    metric(
        "ubiblock.loads",
        "",
        "LEBs read to be changed",
        "ubiblock: LEBs read into the cache, because a part of each was written",
    ),
    metric(
        "ubiblock.whole_lebs",
        "",
        "LEBs written whole",
        "ubiblock: LEBs that entered the cache without a read, because the whole of each was written",
    ),
    metric("ubiblock.discarded", "", "LEBs discarded", "ubiblock: LEBs unmapped or dropped from the cache by discards"),
    metric("ubiblock.write_backs", "", "LEBs written back", "ubiblock: for any reason; each costs a PEB"),
    metric(
        "ubiblock.write_backs.<reason>",
        "",
        "LEBs written back: {}",
        "ubiblock: `<reason>` is `evicted` (another LEB needed the place), `flushed`, `forced` (a write with FUA), `idle` or `closed`. The last close comes after the run: `ubiblock.dirty_lebs` says how many LEBs it writes, `debt.pages` and `debt.erases` what that costs",
    ),
    metric(
        "ubiblock.dirty_lebs",
        "",
        "LEBs in memory only",
        "ubiblock: LEBs that are newer in the cache than on the flash, at the last completion",
    ),
];

/// Operations on files that fsstress does not have.
const FILE_OPS: [&str; 5] = ["create", "remove", "append", "open", "close"];

/// Whether a text may be a name that a guest's job gives.
pub(super) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    (1..=NAME_BYTES).contains(&text.len()) && text.chars().all(fits)
}

/// Longest name that a guest's job gives.
const NAME_BYTES: usize = 64;

/// Whether `part` may replace the part `place` in angle brackets.
fn fits(place: &str, part: &str) -> bool {
    let word = part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') && !part.is_empty();
    match place {
        "<op>" => ["read", "write", "flush", "trim", "leb_write", "program", "erase"].contains(&part),
        "<group>" => ["all", "first64", "others", "outliers"].contains(&part),
        "<end>" => ["first", "reserve", "level_first", "level_reserve"].contains(&part),
        "<from>" => BINS.iter().any(|(from, _)| part == from.to_string()),
        "<name>" => is_name(part),
        "<name>_s" => part.strip_suffix("_s").is_some_and(is_name),
        "<which>" => ["first", "last"].contains(&part),
        "<mounting>_s" => {
            ["scan_s", "build_s", "check_s", "mount_s", "attach_s", "reread_s", "collect_s"].contains(&part)
        }
        "<stage>" => ["boot", "init", "copy"].contains(&part),
        "<n>" => part.parse::<u32>().is_ok_and(|number| number > 0),
        "<cause>" => sim::Cause::ALL.iter().any(|cause| cause.name() == part),
        "<call>" => Op::named(part).is_some() || FILE_OPS.contains(&part),
        "<errno>" => is_errno(part),
        "<why>" => WriteBack::ALL.iter().any(|why| why.name() == part),
        "<layer>" => chain::is_layer(part),
        "<part>" => chain::is_part(part),
        "<reason>" => ubi::block::Because::ALL.iter().any(|because| because.name() == part),
        "<trigger>" => ubi::FastmapTrigger::ALL.iter().any(|trigger| trigger.name() == part),
        _ => word && place == part,
    }
}

/// The entry of an id, and the values of its parts in angle brackets.
pub(super) fn of(id: &str) -> Option<(&'static Known, Vec<&str>)> {
    ALL.iter().find_map(|known| {
        let mut parts = Vec::new();
        let mut rest = id.split('.');
        for place in known.id.split('.') {
            let part = rest.next().filter(|part| fits(place, part))?;
            if place.starts_with('<') {
                parts.push(if place.ends_with("_s") { part.strip_suffix("_s").unwrap_or(part) } else { part });
            }
        }
        rest.next().is_none().then_some((known, parts))
    })
}

/// The page `docs/format/metrics.md`.
pub fn markdown() -> String {
    let mut text = "# Metrics\n\n\
        Every number that a claim of a study may ask for, and that `result.json` has under `metrics`. Ids are stable; labels,\n\
        which the report page shows, may be reworded. A run has only what it measured: a load without TRIM has no `trim.iops`.\n\n\
        <!-- made from lab/runner/src/measure/known.rs; a test holds it -->\n\n\
        | id | unit | is |\n|---|---|---|\n"
        .to_owned();
    for Known { id, unit, label, doc } in ALL {
        let label = label.replace("{}: ", "").replace("{}", "…");
        text += &format!("| `{id}` | {unit} | {label}: {doc} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_well_formed() {
        for (at, known) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.id != known.id), "{}", known.id);
            assert!(!known.label.is_empty() && !known.doc.is_empty(), "{}", known.id);
            assert_eq!(known.id.matches('<').count(), known.label.matches("{}").count(), "{}", known.id);
            // No id may match an earlier one with a part in angle brackets.
            if !known.id.contains('<') {
                assert_eq!(of(known.id).map(|(found, _)| found.id), Some(known.id));
            }
        }
    }

    #[test]
    fn parts_in_angle_brackets_take_only_their_words() {
        assert_eq!(of("phase.12.iops").map(|(known, parts)| (known.id, parts)), Some(("phase.<n>.iops", vec!["12"])));
        for id in ["phase.0.iops", "phase.x.iops", "wear.third.mean", "sleep.iops", "waf.by.magic", "write", "waf.", ""]
        {
            assert!(of(id).is_none(), "{id}");
        }
    }

    #[test]
    fn the_page_is_up_to_date() {
        let page = include_str!("../../../../docs/format/metrics.md");
        assert!(page == markdown(), "docs/format/metrics.md should be:\n{}", markdown());
    }
}
