//! JFFS2 on raw flash or a volume: how it is mounted, when its thread works, and its load.

use fs::jffs2::media::Endian;
use fs::jffs2::{Compress, Options, Packer, Victim};
use nand::ArrayConfig;
use sim::seam::{Medium, Timestamp};
use sim::{CpuPrice, Ns};
use ubi::layout::Layout;

use super::file_system::lebs_of;
use super::jffs::{Jffs, JffsLoad, refuse_others};
use crate::report::grouped;
use crate::schema::fs::{Fs, Lebs, Whole};
use crate::schema::jffs::{self as words, CompressBy, Compressor};
use crate::schema::{Experiment, ExperimentError, word, wrong};

/// Fewest eraseblocks that Linux mounts.
const FEWEST_BLOCKS: u32 = 5;

/// The compressors, in Linux's order of priority.
fn packers(section: &words::Jffs2) -> &'static [Packer] {
    use Packer::{Lzo, Rtime, Zlib};
    let has = |compressor| section.compressors.contains(&compressor);
    match (has(Compressor::Lzo), has(Compressor::Zlib), has(Compressor::Rtime)) {
        (true, true, true) => &[Lzo, Zlib, Rtime],
        (true, true, false) => &[Lzo, Zlib],
        (true, false, true) => &[Lzo, Rtime],
        (true, false, false) => &[Lzo],
        (false, true, true) => &[Zlib, Rtime],
        (false, true, false) => &[Zlib],
        (false, false, true) => &[Rtime],
        (false, false, false) => &[],
    }
}

/// Memory for pages of files. Errors: a limit of dirty pages, of which JFFS2 has none.
fn page_cache_bytes(section: &Fs) -> Result<u64, ExperimentError> {
    let Some(cache) = &section.page_cache else { return Ok(0) };
    let limits = [
        ("fs.page_cache.dirty_background_bytes", cache.dirty_background_bytes),
        ("fs.page_cache.dirty_bytes", cache.dirty_bytes),
    ];
    match limits.into_iter().find_map(|(key, bytes)| Some((key, bytes?))) {
        Some((key, bytes)) => {
            let expected =
                "no such key where fs.kind is `jffs2`: its pages are never dirty, since each write reaches it at once";
            wrong(key, grouped(bytes), expected)
        }
        None => Ok(cache.memory_bytes),
    }
}

/// How the file system of a section is mounted.
fn options(section: &Fs, own: &words::Jffs2, page_cache_bytes: u64) -> Options {
    let packers = packers(own);
    Options {
        endian: Some(match own.endian {
            words::Endian::Little => Endian::Little,
            words::Endian::Big => Endian::Big,
        }),
        summary: own.summary,
        verify_summary: own.verify_summary,
        compress: match own.compress_by {
            _ if packers.is_empty() => Compress::None,
            CompressBy::Priority => Compress::Priority(packers),
            CompressBy::Size => Compress::Size(packers),
        },
        victim: match own.victim {
            words::Victim::Linux => Victim::Linux,
            words::Victim::Paper => Victim::Paper,
        },
        epoch: Timestamp { seconds: section.starts_s, nanos: 0 },
        hz: own.hz,
        cpu: CpuPrice {
            copy_ps_per_byte: section.copy_ps_per_byte,
            crc_ps_per_byte: section.node_ps_per_byte,
            node_ps: section.node_ns * 1000,
            pack_ps_per_byte: section.pack_ps_per_byte,
            unpack_ps_per_byte: section.unpack_ps_per_byte,
        },
        page_cache_bytes,
        ..Options::default()
    }
}

impl Jffs<Options> {
    /// Builds the JFFS2 of a section.
    /// Errors: the first key whose value is impossible.
    pub(super) fn build(
        experiment: &Experiment,
        section: &Fs,
        array: &ArrayConfig,
        (ubi, layout): (&ubi::Config, &Layout),
    ) -> Result<Jffs<Options>, ExperimentError> {
        if section.compression != Fs::default().compression {
            let expected = "no such key where fs.kind is `jffs2`: fs.jffs2.compressors has what it tries";
            return wrong("fs.compression", word(&section.compression), expected);
        }
        refuse_others(section)?;
        let own = section.jffs2.clone().unwrap_or_default();
        let lebs = match own.on {
            words::On::Ubi => Some(lebs_of(section, array, ubi)?),
            words::On::Flash if section.lebs != Lebs::Whole(Whole::All) => {
                return wrong("fs.lebs", "it", "no such key where fs.jffs2.on is not `ubi`");
            }
            words::On::Flash => None,
        };
        let mut geometry = array.geometry;
        if let Some(lebs) = lebs {
            if lebs < FEWEST_BLOCKS {
                return wrong("fs.lebs", lebs, "at least 5: Linux mounts JFFS2 on no fewer");
            }
            let most = u32::MAX / layout.leb_bytes;
            if lebs > most {
                let expected = format!("at most {}: JFFS2 counts 4 GiB", grouped(most.into()));
                return wrong("fs.lebs", grouped(lebs.into()), expected);
            }
            (geometry.pebs, geometry.peb_bytes) = (lebs, layout.leb_bytes);
        }
        if geometry.pebs < FEWEST_BLOCKS {
            return wrong("nand.pebs", geometry.pebs, "at least 5 eraseblocks: Linux mounts JFFS2 on no fewer");
        }
        if geometry.bytes() > u32::MAX.into() {
            let expected = "a flash below 4 GiB, which is all that JFFS2 counts";
            return wrong("nand.pebs", grouped(geometry.pebs.into()), expected);
        }
        if geometry.medium == Medium::Nor && geometry.page_bytes != 1 {
            return wrong("nand.page_bytes", geometry.page_bytes, "1: JFFS2 programs single bytes of a NOR");
        }
        let smallest = match geometry.medium {
            // What UBI leaves of a block of a NOR.
            Medium::Nor if lebs.is_some() => 2048,
            Medium::Nor => 4096,
            Medium::Nand => geometry.page_bytes,
        };
        if geometry.peb_bytes < 2 * smallest {
            let what = if lebs.is_some() { "for each LEB, which is a PEB without UBI's headers" } else { "" };
            let expected = format!("at least {}", 2 * smallest);
            return wrong("nand.peb_bytes", geometry.peb_bytes, [&expected, what].join(" ").trim_end());
        }
        let page_cache_bytes = page_cache_bytes(section)?;
        let ns = |seconds: f64| Ns((seconds * 1e9).round() as u64);
        Ok(Jffs {
            lebs,
            mount: options(section, &own, page_cache_bytes),
            pass_interval: ns(own.pass_interval_ms / 1e3),
            yields: own.yields,
            idle_gc: own.idle_gc_s.map(ns),
            has_page_cache: page_cache_bytes > 0,
            writeback: ns(own.writeback_s),
            operation: ns(section.operation_us / 1e6),
            unmount: section.unmount,
            mount_again: section.mount_again,
            load: JffsLoad::build(experiment)?,
        })
    }
}
