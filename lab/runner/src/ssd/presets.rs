//! Drives by name: what is known of them, and where it is written.
//!
//! A preset is the TOML that lies below an experiment, and a source for each of its figures. Makers publish rates, not
//! what is inside: where a figure is **derived** from published rates, its source says from which and how; one marked
//! [`RECALLED`] was not read again when it was written down. Neither is acceptance data.
//!
//! Two simplifications hold for all: pages of 16 KiB are four pages of 4 KiB on four planes that work in step, because
//! drives map 4 KiB and read parts of pages; and times of programs are per row of four such pages, so that dies take as many bytes a second
//! as there: a program over two planes, or of all bits of a cell at once, is divided among its rows.
//!
//! Invariants, held by tests: names are unique, every figure has a source and every source a figure, and every preset
//! resolves. How near the model comes to each published rate is written down in `docs/design/ssd.md`.

mod ufs;

/// The source of a figure that was written down from memory.
pub const RECALLED: &str = "recalled, unverified";

/// A drive.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in experiments.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Its values, as TOML.
    pub toml: &'static str,
    /// For each key of `toml`: where its value is from.
    pub sources: &'static [(&'static str, &'static str)],
}

/// What lies below every preset: a drive of 16 GiB for comparisons, and the defaults of everything else.
pub const BASE: &str = r#"
question = ""
seed = 1
[ssd]
preset = "base"
channels = 8
ways = 4
dies = 1
planes = 2
blocks = 256
pages = 256
page_kib = 4.0
order = "cwdp"
multi_plane = false
over_provisioning_percent = 12.5
endurance = 0
store = "tags"
[ssd.timing]
read_us = [40.0]
program_us = [200.0]
erase_us = 2000.0
slc_read_us = 25.0
slc_program_us = 200.0
slc_erase_us = 2000.0
command_ns = 200
bus = 333
oob_bytes = 224
suspend_program_us = 0.0
suspend_erase_us = 0.0
resume_us = 0.0
max_suspends = 8
cache_read = false
cache_program = false
copyback = false
scheduling = "reads-first"
[ssd.ftl]
mapping = "page"
gc = "greedy"
gc_choices = 10
gc_window = 32
gc_low = 2
gc_background = 0
checkpoint_every = 0
background_after_us = 0.0
foreground = "block"
hot_cold = true
wear = "dynamic"
wear_threshold = 100
wear_every = 16
slc_percent = 0.0
slc_when_full = "direct"
log_blocks = 16
map_cache_kib = 1024
map_grain = "page"
map_protected_percent = 0
[ssd.cache]
policy = "none"
mib = 0.0
[ssd.front]
protocol = "nvme"
depth = 1024
command_us = 0.0
link_mb_s = 0.0
half_duplex = false
write_cache = false
trimmed_reads = "zeroes"
queue_weights = [1]
[precondition]
kind = "none"
fraction = 1.0
settled_within = 0.01
windows = 20
[workload]
fio = ""
rw = "randwrite"
block_bytes = 4096
depth = 32
requests = 0
seconds = 0.0
read_percent = 50
offset_bytes = 0
size_bytes = 0
flush_every = 0
barrier_every = 0
zipf = 0.0
fua = false
[stop]
virtual_s = 0.0
requests = 0
drive_writes = 0.0
max_erases = 0
[record]
points = 200
pattern = false
"#;

const S004: &str = "Shin, Issues on using SSD under Linux (LSF '08): Vendor M, 32 GB, SATA, read 100 MB/s, write 80 MB/s; page 2–4 kB, block of 64–128 pages, N channels × M ways";
const HP: &str = "HP white paper on SSDs (manualshelf): SLC reads 25 µs, programs 200–300 µs, erases 1.5–2 ms; MLC 50 µs, 600–900 µs, 3 ms";
const VIRT: &str = "NVMeVirt (snu-csl/nvmevirt), ssd_config.h, SAMSUNG_970PRO: 8 channels × 2 LUNs, 32 KiB page, channel 800 MB/s, link 3360 MB/s, 4 KiB read 29.76/41.76 µs, program 185 µs, 7 %";
const PRO970: &str =
    "970 PRO 512 GB as listed by pugetsystems.com: 3,500/2,300 MB/s, 370,000/500,000 IOPS, 1,200 TBW (1 TB)";
const EVO970: &str = "970 EVO 1 TB as listed by techgage.com: 3,400 MB/s read, 2,500 written to its SLC cache of 6 GB (and up to 36 more, not modelled), 1,200 to TLC, 500,000/450,000 IOPS, 15,000 with one request at a time";
const EVO970_DIES: &str = "thefpsreview.com on the 970 EVO 1 TB: dies of 256 Gbit, 64 layers; kitguru.net: 8 channels";
const EVO860: &str = "860 EVO 500 GB as listed by syspartsdirect.com and techplayboy.com: SATA 6 Gb/s, 550/520 MB/s, 98,000/90,000 IOPS, 300 TBW";
const P660: &str = "660p as reported by evantechbook.com, geektopia.es: SM2263 with 4 channels, 64-layer QLC dies of 1,024 Gbit, about 100 MB/s beyond the cache, static cache of 6 GB (512 GB drive), 1,800 MB/s within it (largest drive)";
const EMMC: &str = "Samsung's announcement of eMMC 5.1 (cdrinfo.com): 64 GB: 250/125 MB/s, 11,000/13,000 IOPS, command queue; HS400: 400 MB/s";
const PRO980: &str = "980 PRO 1 TB in AnandTech 16087: 128 layers TLC, cache of at least 6 GB, 7,000 MB/s read, 5,000 written to the cache; TLC 2,000 MB/s and 1,000,000 IOPS recalled";
const V6: &str =
    "Samsung's announcement of its sixth V-NAND (100+ layers, 256 Gbit TLC): writes below 450 µs, reads below 45 µs";
const V4: &str = "Samsung's 64-layer 256 Gbit V-NAND announcement: 1 Gbit/s a line; two planes: AnandTech 16491";
const MODEL: &str =
    "a page of 16 KiB as four of 4 KiB on planes that work in step; two planes as one of twice the rows";
const FEMU: &str = "FEMU's default NAND: 40/200/2000 µs";
const BENCH: &str = "the device on which simulators are compared in docs/performance: 16 GiB raw, 12.5 %";

/// Every preset.
pub const ALL: &[Preset] = &[
    Preset {
        name: "base",
        what: "16 GiB raw with page mapping, NVMe without link or controller time: for comparisons with simulators",
        toml: "",
        sources: &[],
    },
    Preset {
        name: "sata-2008",
        what: "the 32 GB SATA drive of source 004: SLC, log-block mapping, read 100 MB/s, write 80 MB/s",
        toml: r#"
[ssd]
channels = 4
ways = 2
dies = 1
planes = 1
blocks = 16384
pages = 64
page_kib = 4.0
multi_plane = false
over_provisioning_percent = 7.3742
endurance = 100000
[ssd.timing]
read_us = [25.0]
program_us = [225.0]
erase_us = 1500.0
command_ns = 300
bus = 26
oob_bytes = 128
[ssd.ftl]
mapping = "fast"
log_blocks = 16
wear = "dynamic"
[ssd.front]
protocol = "sata"
depth = 32
command_us = 20.0
link_mb_s = 150.0
half_duplex = true
"#,
        sources: &[
            ("ssd.channels", "derived: with 26 MT/s, four buses of 25.2 MB/s payload read 101 MB/s"),
            ("ssd.ways", "derived: eight dies of 4 KiB in 225 + 162 + 1500/64 µs write 80 MB/s"),
            ("ssd.dies", "derived: stacked dies count as one larger, they share a chip enable"),
            ("ssd.planes", S004),
            ("ssd.blocks", "derived from 32 GiB of flash"),
            ("ssd.pages", S004),
            ("ssd.page_kib", S004),
            ("ssd.multi_plane", RECALLED),
            ("ssd.over_provisioning_percent", "derived from a capacity of 32,000,000,000 bytes"),
            ("ssd.endurance", HP),
            ("ssd.timing.read_us", HP),
            ("ssd.timing.program_us", "derived from the written 80 MB/s; HP's white paper has 200–300 µs for SLC"),
            ("ssd.timing.erase_us", HP),
            ("ssd.timing.command_ns", RECALLED),
            ("ssd.timing.bus", "derived from the read 100 MB/s: a cycle of 38 ns lies between ONFI's modes 1 and 2"),
            ("ssd.timing.oob_bytes", RECALLED),
            ("ssd.ftl.mapping", "hybrid log-block layers were those of the time: Lee et al., FAST (ACM TECS 2007)"),
            ("ssd.ftl.log_blocks", RECALLED),
            ("ssd.ftl.wear", RECALLED),
            ("ssd.front.protocol", S004),
            ("ssd.front.depth", "Serial ATA: NCQ has 32 tags"),
            ("ssd.front.command_us", RECALLED),
            ("ssd.front.link_mb_s", "SATA 1.5 Gb/s, 8b/10b"),
            ("ssd.front.half_duplex", "Serial ATA: one direction at a time"),
        ],
    },
    Preset {
        name: "sata-tlc",
        what: "Samsung 860 EVO 500 GB: SATA, 64-layer TLC",
        toml: r#"
[ssd]
channels = 8
ways = 2
planes = 4
blocks = 1366
pages = 1536
multi_plane = true
over_provisioning_percent = 9.9811
endurance = 1000
[ssd.timing]
read_us = [52.0, 58.0, 64.0]
program_us = [413.0, 413.0, 413.0]
erase_us = 3500.0
slc_read_us = 30.0
slc_program_us = 187.0
slc_erase_us = 3500.0
bus = 800
oob_bytes = 512
suspend_program_us = 20.0
suspend_erase_us = 40.0
resume_us = 10.0
cache_read = true
[ssd.ftl]
slc_percent = 2.4
gc_background = 8
background_after_us = 1000.0
[ssd.cache]
policy = "lru"
mib = 32.0
[ssd.front]
protocol = "sata"
depth = 32
command_us = 10.0
link_mb_s = 560.0
half_duplex = true
write_cache = true
"#,
        sources: &[
            ("ssd.channels", RECALLED),
            ("ssd.ways", "derived: sixteen dies of 256 Gbit"),
            ("ssd.planes", MODEL),
            ("ssd.blocks", "derived from a die of 32 GiB"),
            ("ssd.pages", "derived: 64 layers of 4 strings, 3 bits a cell; strings recalled"),
            ("ssd.multi_plane", MODEL),
            ("ssd.over_provisioning_percent", "derived from a capacity of 500,107,862,016 bytes"),
            ("ssd.endurance", "AnandTech 5067 and kalstor: TLC 1,000 to 3,000"),
            ("ssd.timing.read_us", "as nvme-tlc: the same dies"),
            ("ssd.timing.program_us", "as nvme-tlc: the same dies"),
            ("ssd.timing.erase_us", RECALLED),
            ("ssd.timing.slc_read_us", RECALLED),
            ("ssd.timing.slc_program_us", "as nvme-tlc: the same dies"),
            ("ssd.timing.slc_erase_us", RECALLED),
            ("ssd.timing.bus", V4),
            ("ssd.timing.oob_bytes", RECALLED),
            ("ssd.timing.suspend_program_us", RECALLED),
            ("ssd.timing.suspend_erase_us", RECALLED),
            ("ssd.timing.resume_us", RECALLED),
            ("ssd.timing.cache_read", RECALLED),
            ("ssd.ftl.slc_percent", "derived from a cache of 4 GB, recalled; up to 18 GB more are not modelled"),
            ("ssd.ftl.gc_background", RECALLED),
            ("ssd.ftl.background_after_us", RECALLED),
            ("ssd.cache.policy", RECALLED),
            ("ssd.cache.mib", RECALLED),
            ("ssd.front.protocol", EVO860),
            ("ssd.front.depth", "Serial ATA: NCQ has 32 tags"),
            ("ssd.front.command_us", "derived from 98,000 IOPS"),
            ("ssd.front.link_mb_s", "derived from the read 550 MB/s, of 600 on the line"),
            ("ssd.front.half_duplex", "Serial ATA: one direction at a time"),
            ("ssd.front.write_cache", RECALLED),
        ],
    },
    Preset {
        name: "nvme-mlc",
        what: "Samsung 970 PRO 512 GB: PCIe 3.0, 64-layer MLC, as NVMeVirt has it",
        toml: r#"
[ssd]
channels = 8
ways = 2
planes = 4
blocks = 2048
pages = 1024
multi_plane = true
over_provisioning_percent = 7.3511
endurance = 3000
[ssd.timing]
read_us = [29.76, 41.76]
program_us = [92.5, 92.5]
erase_us = 3000.0
bus = 800
oob_bytes = 0
suspend_program_us = 20.0
suspend_erase_us = 40.0
resume_us = 10.0
cache_read = true
cache_program = true
[ssd.ftl]
gc_background = 8
background_after_us = 1000.0
[ssd.cache]
policy = "lru"
mib = 64.0
[ssd.front]
protocol = "nvme"
depth = 1024
command_us = 2.0
link_mb_s = 3360.0
write_cache = true
"#,
        sources: &[
            ("ssd.channels", VIRT),
            ("ssd.ways", VIRT),
            ("ssd.planes", MODEL),
            ("ssd.blocks", "derived from 7 % over 512 GB"),
            ("ssd.pages", "derived: 64 layers of 4 strings, 2 bits a cell; strings recalled"),
            ("ssd.multi_plane", MODEL),
            ("ssd.over_provisioning_percent", "derived from a capacity of 512,110,190,592 bytes"),
            ("ssd.endurance", HP),
            ("ssd.timing.read_us", VIRT),
            ("ssd.timing.program_us", "NVMeVirt: 185 µs for 32 KiB"),
            ("ssd.timing.erase_us", HP),
            ("ssd.timing.bus", VIRT),
            ("ssd.timing.oob_bytes", "in NVMeVirt's channel rate"),
            ("ssd.timing.suspend_program_us", RECALLED),
            ("ssd.timing.suspend_erase_us", RECALLED),
            ("ssd.timing.resume_us", RECALLED),
            ("ssd.timing.cache_read", RECALLED),
            ("ssd.timing.cache_program", "derived: the written 2,300 MB/s need it"),
            ("ssd.ftl.gc_background", RECALLED),
            ("ssd.ftl.background_after_us", RECALLED),
            ("ssd.cache.policy", RECALLED),
            ("ssd.cache.mib", RECALLED),
            ("ssd.front.protocol", PRO970),
            ("ssd.front.depth", RECALLED),
            (
                "ssd.front.command_us",
                "derived from 500,000 IOPS; NVMeVirt's 21.5 µs of firmware overlap and are not modelled",
            ),
            ("ssd.front.link_mb_s", VIRT),
            ("ssd.front.write_cache", VIRT),
        ],
    },
    Preset {
        name: "nvme-tlc",
        what: "Samsung 970 EVO 1 TB: PCIe 3.0, 64-layer TLC with an SLC cache",
        toml: r#"
[ssd]
channels = 8
ways = 4
planes = 4
blocks = 1366
pages = 1536
multi_plane = true
over_provisioning_percent = 9.9823
endurance = 1000
[ssd.timing]
read_us = [52.0, 58.0, 64.0]
program_us = [413.0, 413.0, 413.0]
erase_us = 3500.0
slc_read_us = 30.0
slc_program_us = 187.0
slc_erase_us = 3500.0
bus = 800
oob_bytes = 512
suspend_program_us = 20.0
suspend_erase_us = 40.0
resume_us = 10.0
cache_read = true
[ssd.ftl]
slc_percent = 1.64
gc_background = 8
background_after_us = 1000.0
[ssd.cache]
policy = "lru"
mib = 64.0
[ssd.front]
protocol = "nvme"
depth = 1024
command_us = 2.0
link_mb_s = 3450.0
write_cache = true
"#,
        sources: &[
            ("ssd.channels", EVO970_DIES),
            ("ssd.ways", EVO970_DIES),
            ("ssd.planes", MODEL),
            ("ssd.blocks", "derived from a die of 32 GiB"),
            ("ssd.pages", "derived: 64 layers of 4 strings, 3 bits a cell; strings recalled"),
            ("ssd.multi_plane", MODEL),
            ("ssd.over_provisioning_percent", "derived from a capacity of 1,000,204,886,016 bytes"),
            ("ssd.endurance", "AnandTech 5067 and kalstor: TLC 1,000 to 3,000"),
            ("ssd.timing.read_us", "derived from 15,000 IOPS with one request at a time; spread recalled"),
            (
                "ssd.timing.program_us",
                "derived from 1,200 MB/s to TLC: 32 dies of 16 KiB in 437 µs less 23 on the bus, and erases",
            ),
            ("ssd.timing.erase_us", RECALLED),
            ("ssd.timing.slc_read_us", RECALLED),
            ("ssd.timing.slc_program_us", "derived from 2,500 MB/s to the cache"),
            ("ssd.timing.slc_erase_us", RECALLED),
            ("ssd.timing.bus", V4),
            ("ssd.timing.oob_bytes", RECALLED),
            ("ssd.timing.suspend_program_us", RECALLED),
            ("ssd.timing.suspend_erase_us", RECALLED),
            ("ssd.timing.resume_us", RECALLED),
            ("ssd.timing.cache_read", RECALLED),
            ("ssd.ftl.slc_percent", "derived from a cache of 6 GB, which takes three times as much"),
            ("ssd.ftl.gc_background", RECALLED),
            ("ssd.ftl.background_after_us", RECALLED),
            ("ssd.cache.policy", RECALLED),
            ("ssd.cache.mib", RECALLED),
            ("ssd.front.protocol", EVO970),
            ("ssd.front.depth", RECALLED),
            ("ssd.front.command_us", "derived from 500,000 IOPS"),
            ("ssd.front.link_mb_s", "derived from the read 3,400 MB/s"),
            ("ssd.front.write_cache", RECALLED),
        ],
    },
    Preset {
        name: "nvme-qlc",
        what: "Intel 660p 512 GB: PCIe 3.0, 64-layer QLC behind an SLC cache",
        toml: r#"
[ssd]
channels = 4
ways = 1
planes = 4
blocks = 4096
pages = 2048
order = "pcwd"
multi_plane = true
over_provisioning_percent = 7.3511
endurance = 1000
[ssd.timing]
read_us = [90.0, 115.0, 140.0, 160.0]
program_us = [625.0, 625.0, 625.0, 625.0]
erase_us = 15000.0
slc_read_us = 40.0
slc_program_us = 50.0
slc_erase_us = 10000.0
bus = 667
oob_bytes = 512
suspend_program_us = 30.0
suspend_erase_us = 60.0
resume_us = 20.0
cache_read = true
[ssd.ftl]
slc_percent = 4.37
slc_when_full = "direct"
gc_background = 8
background_after_us = 1000.0
[ssd.cache]
policy = "lru"
mib = 16.0
[ssd.front]
protocol = "nvme"
depth = 256
command_us = 4.5
link_mb_s = 1800.0
write_cache = true
"#,
        sources: &[
            ("ssd.channels", P660),
            ("ssd.ways", "derived: four dies of 1,024 Gbit"),
            (
                "ssd.planes",
                "a page of 16 KiB as four of 4 KiB on planes that work in step; four planes as one of four times the rows",
            ),
            ("ssd.blocks", "derived from a die of 128 GiB"),
            ("ssd.pages", RECALLED),
            ("ssd.order", MODEL),
            ("ssd.multi_plane", MODEL),
            ("ssd.over_provisioning_percent", "derived from a capacity of 512,110,190,592 bytes"),
            ("ssd.endurance", "Toshiba's goal for QLC: 1,000"),
            ("ssd.timing.read_us", "90–160 µs, recalled"),
            (
                "ssd.timing.program_us",
                "derived from 100 MB/s beyond the cache: four dies of 16 KiB in 655 µs less 28 on the bus, and erases",
            ),
            ("ssd.timing.erase_us", "10–20 ms, recalled"),
            ("ssd.timing.slc_read_us", RECALLED),
            ("ssd.timing.slc_program_us", RECALLED),
            ("ssd.timing.slc_erase_us", RECALLED),
            ("ssd.timing.bus", RECALLED),
            ("ssd.timing.oob_bytes", RECALLED),
            ("ssd.timing.suspend_program_us", RECALLED),
            ("ssd.timing.suspend_erase_us", RECALLED),
            ("ssd.timing.resume_us", RECALLED),
            ("ssd.timing.cache_read", RECALLED),
            (
                "ssd.ftl.slc_percent",
                "derived from the static cache of 6 GB, which takes four times as much; up to 70 GB more are not modelled",
            ),
            ("ssd.ftl.slc_when_full", P660),
            ("ssd.ftl.gc_background", RECALLED),
            ("ssd.ftl.background_after_us", RECALLED),
            ("ssd.cache.policy", RECALLED),
            ("ssd.cache.mib", RECALLED),
            ("ssd.front.protocol", P660),
            ("ssd.front.depth", RECALLED),
            ("ssd.front.command_us", "derived from 220,000 IOPS"),
            ("ssd.front.link_mb_s", P660),
            ("ssd.front.write_cache", RECALLED),
        ],
    },
    Preset {
        name: "emmc-5.1",
        what: "eMMC 5.1 of 64 GB as Samsung announced it in 2015: HS400, MLC",
        toml: r#"
[ssd]
channels = 2
ways = 2
planes = 4
blocks = 2048
pages = 512
order = "pcwd"
multi_plane = true
over_provisioning_percent = 9.8860
endurance = 3000
[ssd.timing]
read_us = [50.0, 50.0]
program_us = [392.0, 392.0]
erase_us = 3000.0
bus = 145
oob_bytes = 512
[ssd.ftl]
mapping = "dftl"
gc_background = 6
background_after_us = 5000.0
map_cache_kib = 256
[ssd.cache]
policy = "fifo"
mib = 4.0
[ssd.front]
protocol = "sata"
depth = 32
command_us = 76.0
link_mb_s = 400.0
half_duplex = true
write_cache = true
"#,
        sources: &[
            ("ssd.channels", RECALLED),
            ("ssd.ways", "derived: four dies of 128 Gbit"),
            ("ssd.planes", MODEL),
            ("ssd.blocks", "derived from a die of 16 GiB"),
            ("ssd.pages", RECALLED),
            ("ssd.order", MODEL),
            ("ssd.multi_plane", MODEL),
            ("ssd.over_provisioning_percent", "derived from a capacity of 62,537,072,640 bytes"),
            ("ssd.endurance", HP),
            ("ssd.timing.read_us", HP),
            (
                "ssd.timing.program_us",
                "derived from the written 125 MB/s: four dies of 16 KiB in 524 µs less 127 on the bus, and erases; HP's white paper has 600–900 µs for a page of MLC, here two rows",
            ),
            ("ssd.timing.erase_us", HP),
            ("ssd.timing.bus", "derived from the read 250 MB/s over two buses"),
            ("ssd.timing.oob_bytes", RECALLED),
            ("ssd.ftl.mapping", "a part without DRAM holds little of its table; that it does so by pages is recalled"),
            ("ssd.ftl.gc_background", RECALLED),
            ("ssd.ftl.background_after_us", RECALLED),
            ("ssd.ftl.map_cache_kib", RECALLED),
            ("ssd.cache.policy", RECALLED),
            ("ssd.cache.mib", RECALLED),
            (
                "ssd.front.protocol",
                "a queue of 32 with commands that stand alone, as SATA has; JESD84-B51 has such a queue",
            ),
            ("ssd.front.depth", "JESD84-B51: 32 tasks"),
            ("ssd.front.command_us", "derived from 13,000 IOPS written; 11,000 are read"),
            ("ssd.front.link_mb_s", EMMC),
            ("ssd.front.half_duplex", "JESD84-B51: one data bus"),
            ("ssd.front.write_cache", RECALLED),
        ],
    },
    Preset {
        name: "nvme4-tlc",
        what: "Samsung 980 PRO 1 TB: PCIe 4.0, 128-layer TLC with an SLC cache",
        toml: r#"
[ssd]
channels = 8
ways = 4
planes = 4
blocks = 683
pages = 3072
multi_plane = true
over_provisioning_percent = 9.9823
endurance = 1000
[ssd.timing]
read_us = [40.0, 45.0, 50.0]
program_us = [225.0, 225.0, 225.0]
erase_us = 3500.0
slc_read_us = 25.0
slc_program_us = 88.0
slc_erase_us = 3500.0
bus = 1200
oob_bytes = 512
suspend_program_us = 20.0
suspend_erase_us = 40.0
resume_us = 10.0
cache_read = true
cache_program = false
[ssd.ftl]
slc_percent = 1.64
gc_background = 8
background_after_us = 1000.0
[ssd.cache]
policy = "lru"
mib = 64.0
[ssd.front]
protocol = "nvme"
depth = 1024
command_us = 1.0
link_mb_s = 7000.0
write_cache = true
"#,
        sources: &[
            ("ssd.channels", RECALLED),
            ("ssd.ways", "derived: 32 dies of 256 Gbit"),
            ("ssd.planes", MODEL),
            ("ssd.blocks", "derived from a die of 32 GiB"),
            ("ssd.pages", "derived: 128 layers of 4 strings, 3 bits a cell; strings recalled"),
            ("ssd.multi_plane", MODEL),
            ("ssd.over_provisioning_percent", "derived from a capacity of 1,000,204,886,016 bytes"),
            ("ssd.endurance", "AnandTech 5067 and kalstor: TLC 1,000 to 3,000"),
            ("ssd.timing.read_us", V6),
            ("ssd.timing.program_us", V6),
            ("ssd.timing.erase_us", RECALLED),
            ("ssd.timing.slc_read_us", RECALLED),
            ("ssd.timing.slc_program_us", "derived from 5,000 MB/s to the cache"),
            ("ssd.timing.slc_erase_us", RECALLED),
            ("ssd.timing.bus", "AnandTech 16491: 1.2 Gbit/s (Samsung, ISSCC 2019)"),
            ("ssd.timing.oob_bytes", RECALLED),
            ("ssd.timing.suspend_program_us", RECALLED),
            ("ssd.timing.suspend_erase_us", RECALLED),
            ("ssd.timing.resume_us", RECALLED),
            ("ssd.timing.cache_read", RECALLED),
            ("ssd.timing.cache_program", RECALLED),
            (
                "ssd.ftl.slc_percent",
                "derived from a cache of 6 GB, which takes three times as much; up to 108 GB more are not modelled",
            ),
            ("ssd.ftl.gc_background", RECALLED),
            ("ssd.ftl.background_after_us", RECALLED),
            ("ssd.cache.policy", RECALLED),
            ("ssd.cache.mib", RECALLED),
            ("ssd.front.protocol", PRO980),
            ("ssd.front.depth", RECALLED),
            ("ssd.front.command_us", "derived from 1,000,000 IOPS"),
            ("ssd.front.link_mb_s", PRO980),
            ("ssd.front.write_cache", RECALLED),
        ],
    },
    ufs::UFS_2_1,
    ufs::UFS_3_1,
    ufs::UFS_4_0,
];

/// Sources of the base.
pub const BASE_SOURCES: [&str; 2] = [BENCH, FEMU];

/// Every name.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|preset| preset.name).collect()
}

/// The preset called `name`; the name if there is none.
pub fn by_name(name: &str) -> Result<&'static Preset, String> {
    ALL.iter().find(|preset| preset.name == name).ok_or_else(|| name.to_owned())
}

fn parsed(text: &str) -> toml::Table {
    text.parse().expect("a test parses every preset")
}

impl Preset {
    /// Its own values.
    pub fn own(&self) -> toml::Table {
        parsed(self.toml)
    }

    /// Whether every figure of a key was read in its source or follows from figures that were.
    pub fn is_verified(&self, key: &str) -> bool {
        self.sources.iter().any(|(known, source)| *known == key && !source.contains("recalled"))
    }
}
