//! UFS devices.

use super::{HP, MODEL, Preset, RECALLED, V4, V6};

const S002: &str = "Park, linux-scsi 2020-12: UFS 2.1, 64 GB";
const LINE_UP: &str = "Samsung's line-up as listed by liliputing.com (March 2020): UFS 2.1 (automotive) 850/150 MB/s, 512 GB eUFS 2.1 860/255 MB/s and 42,000/40,000 IOPS, 512 GB eUFS 3.1 2,100/1,200 MB/s and 100,000/70,000 IOPS";
const UFS4: &str = "Samsung's announcement of UFS 4.0 as reported by voonze.com: 23.2 Gbit/s a lane, 4,200/2,800 MB/s, 176 layers, up to 1 TB";
const QUEUE: &str = "JESD220: 32 task slots";
const GEAR: &str = "derived: two lanes of HS-G3, 5.83 Gbit/s each, 8b/10b";
const NO_DRAM: &str = "a part without DRAM keeps its table in flash: J. KIISE 52(5), 2025 (abstract); that it caches whole map pages is recalled";
const CALIBRATED: &str = "calibrated: study hpb-iozone, the HPB-off cells at 1 and 32 GB";

/// The device of source 002.
pub const UFS_2_1: Preset = Preset {
    name: "ufs-2.1",
    what: "UFS 2.1 of 64 GB as source 002 measured one: random reads calibrated on its table",
    toml: r#"
[ssd]
channels = 2
ways = 2
planes = 4
blocks = 1366
pages = 768
multi_plane = true
over_provisioning_percent = 7.4266
endurance = 3000
[ssd.timing]
read_us = [44.3, 44.3, 44.3]
program_us = [405.0, 405.0, 405.0]
erase_us = 4500.0
slc_read_us = 25.0
slc_program_us = 200.0
slc_erase_us = 3500.0
bus = 1000
oob_bytes = 224
[ssd.ftl]
mapping = "dftl"
map_cache_kib = 1204
gc_background = 8
background_after_us = 1000.0
foreground = "paced"
[ssd.cache]
policy = "fifo"
mib = 0.5
[ssd.front]
protocol = "ufs"
depth = 32
command_us = 3.0
link_mb_s = 1166.0
write_cache = true
"#,
    sources: &[
        ("ssd.channels", RECALLED),
        ("ssd.ways", "derived: four dies of 128 Gbit; only dies times die time can be told from the table"),
        ("ssd.planes", MODEL),
        ("ssd.blocks", "derived from a die of 16 GiB"),
        ("ssd.pages", "derived: 64 layers of 4 strings, 3 bits a cell; strings recalled"),
        ("ssd.multi_plane", MODEL),
        ("ssd.over_provisioning_percent", "derived from a capacity of 64,000,000,000 bytes: source 002"),
        ("ssd.endurance", "kalstor: 3D TLC 1,000 to 3,000"),
        ("ssd.timing.read_us", CALIBRATED),
        ("ssd.timing.program_us", "derived from 150 MB/s written (UFS 2.1, automotive), on four dies"),
        ("ssd.timing.erase_us", HP),
        ("ssd.timing.slc_read_us", RECALLED),
        ("ssd.timing.slc_program_us", RECALLED),
        ("ssd.timing.slc_erase_us", RECALLED),
        ("ssd.timing.bus", V4),
        ("ssd.timing.oob_bytes", RECALLED),
        ("ssd.ftl.mapping", NO_DRAM),
        ("ssd.ftl.map_cache_kib", CALIBRATED),
        ("ssd.ftl.gc_background", RECALLED),
        ("ssd.ftl.background_after_us", RECALLED),
        ("ssd.ftl.foreground", RECALLED),
        ("ssd.cache.policy", RECALLED),
        ("ssd.cache.mib", RECALLED),
        ("ssd.front.protocol", S002),
        ("ssd.front.depth", QUEUE),
        ("ssd.front.command_us", RECALLED),
        ("ssd.front.link_mb_s", GEAR),
        ("ssd.front.write_cache", RECALLED),
    ],
};

/// A flagship of 2020.
pub const UFS_3_1: Preset = Preset {
    name: "ufs-3.1",
    what: "Samsung eUFS 3.1 of 512 GB: HS-G4, 92-layer TLC, WriteBooster",
    toml: r#"
[ssd]
channels = 4
ways = 4
planes = 4
blocks = 1910
pages = 1104
multi_plane = true
over_provisioning_percent = 7.9623
endurance = 3000
[ssd.timing]
read_us = [45.0, 45.0, 45.0]
program_us = [500.0, 500.0, 500.0]
erase_us = 4500.0
slc_read_us = 25.0
slc_program_us = 195.0
slc_erase_us = 3500.0
bus = 1400
oob_bytes = 224
suspend_program_us = 20.0
suspend_erase_us = 40.0
resume_us = 10.0
[ssd.ftl]
mapping = "dftl"
map_cache_kib = 2048
gc_background = 8
background_after_us = 1000.0
foreground = "paced"
[ssd.cache]
policy = "fifo"
mib = 1.0
[ssd.front]
protocol = "ufs"
depth = 32
command_us = 9.0
link_mb_s = 2100.0
write_cache = true
[ssd.write_booster]
mib = 4096.0
"#,
    sources: &[
        ("ssd.channels", RECALLED),
        ("ssd.ways", "derived: sixteen dies of 256 Gbit"),
        ("ssd.planes", MODEL),
        ("ssd.blocks", "derived from a die of 32 GiB"),
        ("ssd.pages", "derived: 92 layers of 4 strings, 3 bits a cell; strings recalled"),
        ("ssd.multi_plane", MODEL),
        ("ssd.over_provisioning_percent", "derived from a capacity of 512,000,000,000 bytes"),
        ("ssd.endurance", "kalstor: 3D TLC 1,000 to 3,000"),
        ("ssd.timing.read_us", V6),
        ("ssd.timing.program_us", "derived from 410 MB/s of eUFS 3.0 (2019), which had no such buffer"),
        ("ssd.timing.erase_us", HP),
        ("ssd.timing.slc_read_us", RECALLED),
        ("ssd.timing.slc_program_us", "derived from 1,200 MB/s written to the buffer"),
        ("ssd.timing.slc_erase_us", RECALLED),
        ("ssd.timing.bus", "1.4 Gbit/s a line of the fifth V-NAND: recalled"),
        ("ssd.timing.oob_bytes", RECALLED),
        ("ssd.timing.suspend_program_us", RECALLED),
        ("ssd.timing.suspend_erase_us", RECALLED),
        ("ssd.timing.resume_us", RECALLED),
        ("ssd.ftl.mapping", NO_DRAM),
        ("ssd.ftl.map_cache_kib", RECALLED),
        ("ssd.ftl.gc_background", RECALLED),
        ("ssd.ftl.background_after_us", RECALLED),
        ("ssd.ftl.foreground", RECALLED),
        ("ssd.cache.policy", RECALLED),
        ("ssd.cache.mib", RECALLED),
        ("ssd.front.protocol", LINE_UP),
        ("ssd.front.depth", QUEUE),
        ("ssd.front.command_us", "derived from 100,000 IOPS read"),
        ("ssd.front.link_mb_s", LINE_UP),
        ("ssd.front.write_cache", RECALLED),
        ("ssd.write_booster.mib", "source 002: 0400h corresponds to 4 GB"),
    ],
};

/// A flagship of 2022.
pub const UFS_4_0: Preset = Preset {
    name: "ufs-4.0",
    what: "Samsung UFS 4.0 of 512 GB: HS-G5, 176-layer TLC, WriteBooster",
    toml: r#"
[ssd]
channels = 4
ways = 4
planes = 4
blocks = 998
pages = 2112
multi_plane = true
over_provisioning_percent = 7.9181
endurance = 3000
[ssd.timing]
read_us = [40.0, 40.0, 40.0]
program_us = [225.0, 225.0, 225.0]
erase_us = 3500.0
slc_read_us = 20.0
slc_program_us = 65.0
slc_erase_us = 3500.0
bus = 2000
oob_bytes = 224
suspend_program_us = 20.0
suspend_erase_us = 40.0
resume_us = 10.0
cache_read = true
[ssd.ftl]
mapping = "dftl"
map_cache_kib = 4096
gc_background = 8
background_after_us = 1000.0
foreground = "paced"
[ssd.cache]
policy = "fifo"
mib = 2.0
[ssd.front]
protocol = "ufs"
depth = 32
command_us = 3.0
link_mb_s = 4200.0
write_cache = true
[ssd.write_booster]
mib = 4096.0
"#,
    sources: &[
        ("ssd.channels", RECALLED),
        ("ssd.ways", "derived: sixteen dies of 256 Gbit; larger dies exist"),
        ("ssd.planes", MODEL),
        ("ssd.blocks", "derived from a die of 32 GiB"),
        ("ssd.pages", "derived: 176 layers of 4 strings, 3 bits a cell; strings recalled"),
        ("ssd.multi_plane", MODEL),
        ("ssd.over_provisioning_percent", "derived from a capacity of 512,000,000,000 bytes"),
        ("ssd.endurance", "kalstor: 3D TLC 1,000 to 3,000"),
        ("ssd.timing.read_us", RECALLED),
        ("ssd.timing.program_us", RECALLED),
        ("ssd.timing.erase_us", RECALLED),
        ("ssd.timing.slc_read_us", RECALLED),
        ("ssd.timing.slc_program_us", "derived from 2,800 MB/s written to the buffer"),
        ("ssd.timing.slc_erase_us", RECALLED),
        ("ssd.timing.bus", "2.0 Gbit/s a line of the seventh V-NAND: recalled"),
        ("ssd.timing.oob_bytes", RECALLED),
        ("ssd.timing.suspend_program_us", RECALLED),
        ("ssd.timing.suspend_erase_us", RECALLED),
        ("ssd.timing.resume_us", RECALLED),
        ("ssd.timing.cache_read", RECALLED),
        ("ssd.ftl.mapping", NO_DRAM),
        ("ssd.ftl.map_cache_kib", RECALLED),
        ("ssd.ftl.gc_background", RECALLED),
        ("ssd.ftl.background_after_us", RECALLED),
        ("ssd.ftl.foreground", RECALLED),
        ("ssd.cache.policy", RECALLED),
        ("ssd.cache.mib", RECALLED),
        ("ssd.front.protocol", UFS4),
        ("ssd.front.depth", QUEUE),
        ("ssd.front.command_us", RECALLED),
        ("ssd.front.link_mb_s", UFS4),
        ("ssd.front.write_cache", RECALLED),
        ("ssd.write_booster.mib", "source 002: 0400h corresponds to 4 GB"),
    ],
};
