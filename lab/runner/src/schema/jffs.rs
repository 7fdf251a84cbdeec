//! JFFS and JFFS2, and their loads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

words! {
    /// Garbage collection of a mount of JFFS.
    pub enum MountGc {
        /// None: its thread collects later. Linux 2.6.12.
        None,
        /// Once round the log: every node is moved.
        Full,
    }
}

section! {
    /// JFFS version 1.
    pub struct Jffs1 {
        /// Sectors that stay free for garbage collection; writers leave half a sector more. 4 in Linux 2.6.12, 2 in June 2001.
        #[schemars(range(min = 2, max = 64))]
        min_free_sectors: u32 = 4,
        /// Garbage collection of a mount.
        mount_gc: MountGc = MountGc::None,
    }
}

words! {
    /// What follows when the flash is full.
    pub enum Then {
        /// Nothing.
        Nothing,
        /// It is mounted again.
        Mount,
        /// Every second file is removed, and all garbage is collected.
        DeleteHalf,
    }
}

section! {
    /// Load of JFFS: an erased flash is mounted, files are made, and blocks are appended to them in turn until one finds no
    /// space. What follows is measured.
    pub struct Fill {
        /// Files.
        #[schemars(range(min = 1, max = 10_000))]
        files: u32 = 50,
        /// Length of their names.
        #[schemars(range(min = 5, max = 254))]
        name_bytes: u32 = 22,
        /// Least bytes of a block.
        #[schemars(range(min = 1, max = 65_536))]
        least_bytes: u32 = 10,
        /// Most bytes of a block; each length is as likely as another.
        #[schemars(range(min = 1, max = 65_536))]
        most_bytes: u32 = 100,
        /// What follows when the flash is full.
        then: Then = Then::Nothing,
    }
}

words! {
    /// Byte order.
    pub enum Endian {
        /// The lowest byte first.
        Little,
        /// The highest byte first.
        Big,
    }
}

words! {
    /// A way to compress.
    pub enum Compressor {
        /// LZO1X.
        Lzo,
        /// zlib.
        Zlib,
        /// JFFS2's run-length code.
        Rtime,
    }
}

words! {
    /// Which compressor's result is taken.
    pub enum CompressBy {
        /// The first that makes data shorter: LZO, then zlib, then rtime.
        Priority,
        /// The one that makes them shortest.
        Size,
    }
}

words! {
    /// Which block garbage is collected from next.
    pub enum Victim {
        /// Linux's: by the tick, of 128 50 take one with nothing in use, 60 a very dirty one, 16 a dirty one, 2 a clean one.
        Linux,
        /// The paper of 2001: of 100 99 take a dirty one, 1 a clean one.
        Paper,
    }
}

words! {
    /// What JFFS2 is on.
    pub enum On {
        /// The flash itself: there is no UBI.
        Flash,
        /// A volume of UBI, as by way of Linux's gluebi: LEBs are its eraseblocks, and bad blocks and wear are UBI's. Its load may not be
        /// `[reboots]`.
        Ubi,
    }
}

impl On {
    fn is_flash(&self) -> bool {
        *self == On::Flash
    }
}

section! {
    /// JFFS2.
    pub struct Jffs2 {
        /// What it is on.
        #[serde(skip_serializing_if = "On::is_flash")]
        on: On = On::Flash,
        /// Byte order of the nodes.
        endian: Endian = Endian::Little,
        /// Whether a full block gets a summary, so that a mount reads less: `CONFIG_JFFS2_SUMMARY`.
        summary: bool = false,
        /// Whether a summary is believed only where the first node that it names is there. Linux believes each, and may lose files
        /// when power fails in an erasure.
        verify_summary: bool = false,
        /// Compressors that are tried; none: data are not compressed. Linux has zlib and rtime unless it is configured
        /// otherwise.
        compressors: Vec<Compressor> = vec![Compressor::Zlib, Compressor::Rtime],
        /// Which of them is taken: mount option `compr`, or `CONFIG_JFFS2_CMODE`.
        compress_by: CompressBy = CompressBy::Priority,
        /// Which block garbage is collected from next.
        victim: Victim = Victim::Linux,
        /// How long the thread sleeps between two passes if no signal wakes it, in milliseconds: 50 in Linux; 0 in 2001.
        #[schemars(range(min = 0.0, max = 60_000.0))]
        pass_interval_ms: f64 = 50.0,
        /// Whether a program gets its turn between two passes of the thread. Where it does not, it waits until the thread has nothing
        /// to do: Linux of 2001, which nothing takes the processor from, and whose thread takes the lock again at once.
        yields: bool = true,
        /// After so many seconds without an operation the thread collects garbage as long as there is any: Linux collects when it
        /// gets SIGHUP. [default: it does not].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0.0, max = 1e6))]
        idle_gc_s: Option<f64> = None,
        /// How long the write buffer of NAND may wait: Linux's `dirty_writeback_centisecs`.
        #[schemars(range(min = 0.01, max = 1e6))]
        writeback_s: f64 = 5.0,
        /// Ticks of Linux's clock in a second: `CONFIG_HZ`.
        #[schemars(range(min = 1, max = 10_000))]
        hz: u32 = 100,
    }
}

section! {
    /// Load of a file system, or of Linux's in a guest (`guest.program = "load"`): a device that keeps files that never change, and
    /// appends small entries to logs.
    pub struct Logger {
        /// Files that are written before the run and never change.
        #[schemars(range(max = 10_000))]
        static_files: u32 = 0,
        /// Bytes of each.
        #[schemars(range(max = 1_073_741_824))]
        static_bytes: u64 = 65_536,
        /// Logs, to which entries are appended in turn.
        #[schemars(range(min = 1, max = 1000))]
        logs: u32 = 1,
        /// Size at which a log is renamed, over the one that was renamed before, and begins anew; 0: never.
        #[schemars(range(max = 1_073_741_824))]
        log_bytes: u64 = 16_384,
        /// Least bytes of an entry.
        #[schemars(range(min = 1, max = 65_536))]
        least_bytes: u32 = 32,
        /// Most bytes of an entry; each length is as likely as another.
        #[schemars(range(min = 1, max = 65_536))]
        most_bytes: u32 = 128,
        /// Entries; 0: without end.
        #[schemars(range(max = 1_000_000_000_000_u64))]
        entries: u64 = 10_000,
        /// Entries that follow one another at once.
        #[schemars(range(min = 1, max = 1_000_000))]
        burst: u32 = 1,
        /// Seconds from the beginning of a burst to that of the next; 0: at once.
        #[schemars(range(min = 0.0, max = 1e6))]
        every_s: f64 = 0.0,
        /// Whether each entry is synchronized.
        fsync: bool = false,
        /// How much of the contents can be compressed away, in percent.
        #[schemars(range(max = 100))]
        compressible_percent: u32 = 50,
    }
}

section! {
    /// Load of JFFS2, or of Linux's file system in a guest (`guest.program = "load"`): a device that is switched on, starts, copies
    /// files, and loses power, again and again. Before the first time its files are written.
    pub struct Reboots {
        /// How often it is switched on.
        #[schemars(range(min = 1, max = 1_000_000))]
        reboots: u32 = 300,
        /// Files of the system, which never change.
        #[schemars(range(max = 10_000))]
        system_files: u32 = 20,
        /// Bytes of each.
        #[schemars(range(max = 1_073_741_824))]
        system_bytes: u64 = 40_000,
        /// How many of them each start reads.
        #[schemars(range(max = 10_000))]
        read_files: u32 = 20,
        /// Small files that each start writes anew.
        #[schemars(range(max = 10_000))]
        state_files: u32 = 10,
        /// Bytes of each.
        #[schemars(range(max = 1_073_741_824))]
        state_bytes: u64 = 512,
        /// Files that are then copied over what the last time left of them.
        #[schemars(range(min = 1, max = 10_000))]
        copied_files: u32 = 10,
        /// Bytes of each.
        #[schemars(range(min = 1, max = 1_073_741_824))]
        copied_bytes: u64 = 40_000,
        /// Bytes of a write.
        #[schemars(range(min = 1, max = 1_048_576))]
        write_bytes: u32 = 4096,
        /// How much of the contents can be compressed away, in percent.
        #[schemars(range(max = 100))]
        compressible_percent: u32 = 50,
    }
}
