//! A file system on a volume of UBI, and its loads: programs that work on files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpu::Cpu;
use super::jffs::{Jffs1, Jffs2, On};
use super::load::ReadWrite;
use super::section::{section, weights, words};

words! {
    /// File system.
    pub enum FsKind {
        /// UBIFS, on a volume of UBI.
        Ubifs,
        /// JFFS version 1, on the flash itself, a NOR: there is no UBI. Its load is `[fill]`, unless another is given. Of the keys of
        /// this table `jffs1`, `operation_us`, `unmount`, `mount_again`, `starts_s`, and the times of the processor are its.
        Jffs1,
        /// JFFS2, on the flash itself, a NAND or NOR, or on a volume of UBI, as `jffs2.on` says. Of the keys of this table those below
        /// `jffs2`, `unmount`, `mount_again`, `starts_s`, the times of the processor and, on UBI, `lebs` are its. Linux writes its data at once: it has no page cache to write
        /// back.
        Jffs2,
    }
}

words! {
    /// What makes a file system on an empty volume.
    pub enum Maker {
        /// mkfs.ubifs.
        Mkfs,
        /// Linux, when it first mounts the volume.
        FirstMount,
    }
}

words! {
    /// How data are compressed.
    pub enum Compression {
        /// Not at all.
        None,
        /// LZO1X.
        Lzo,
        /// Deflate.
        Zlib,
        /// Zstandard.
        Zstd,
    }
}

words! {
    /// A size without a number.
    pub enum Whole {
        /// Every LEB that is free.
        All,
    }
}

/// Size of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Lebs {
    /// So many LEBs.
    Count(#[schemars(range(min = 1, max = 1_048_576))] u32),
    /// What is free.
    Whole(Whole),
}

section! {
    /// Raw flash: a file system, which is made and mounted before the run, which counts
    /// nothing of it. One of `[fsstress]`, `[postmark]`, `[sysbench]`, `[strace]`, `[fio]` and `[logger]` is the load; without one it is
    /// fsstress.
    pub struct Fs {
        /// File system.
        kind: FsKind = FsKind::Ubifs,
        /// LEBs of the volume, or `all`.
        lebs: Lebs = Lebs::Whole(Whole::All),
        /// What makes the file system, and thus the sizes of journal, log, orphan area and reserve where no other key says
        /// them. Linux's first mount makes a journal of 5 % of the LEBs, log included, 32 MiB at most, two LEBs for orphans, and a
        /// reserve of 5 %, 5 MiB at most.
        made_by: Maker = Maker::Mkfs,
        /// How data are compressed: `mkfs.ubifs --compr`.
        compression: Compression = Compression::Lzo,
        /// Branches of an index node: `mkfs.ubifs --fanout`.
        #[schemars(range(min = 3, max = 65_535))]
        fanout: u32 = 8,
        /// Size of the journal: `mkfs.ubifs --jrn-size` [default of mkfs.ubifs: an eighth of the LEBs, 8 MiB at most].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
        journal_bytes: Option<u64> = None,
        /// Bytes of data that only root may write, who is everybody here: `mkfs.ubifs --reserved`.
        /// [default of mkfs.ubifs: 0].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(max = 1_099_511_627_776_u64))]
        reserved_bytes: Option<u64> = None,
        /// LEBs for orphans: `mkfs.ubifs --orph-lebs` [default of mkfs.ubifs: 1].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1, max = 65_536))]
        orphan_lebs: Option<u32> = None,
        /// Size of a write buffer, which is the largest write at once: a power of two [default: a page, or 8 bytes on NOR].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 8, max = 65_536))]
        max_write_bytes: Option<u32> = None,
        /// How long a write buffer may wait, and how often inodes that changed are looked at: Linux's
        /// `dirty_writeback_centisecs`.
        #[schemars(range(min = 0.01, max = 1e6))]
        writeback_s: f64 = 5.0,
        /// How long an inode that changed may wait: Linux's `dirty_expire_centisecs`.
        #[schemars(range(min = 0.01, max = 1e6))]
        expire_s: f64 = 30.0,
        /// Linux's page cache; without the table each write and read reaches the file system at once. JFFS2: it keeps what was read
        /// and written, garbage collection takes pages from it, and writes reach the flash all the same. JFFS has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        page_cache: Option<PageCache> = None,
        /// A long run by its beginning: from some operation on what the file system did on LEBs is repeated.
        #[serde(skip_serializing_if = "Option::is_none")]
        repeat: Option<Repeat> = None,
        /// JFFS version 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        jffs1: Option<Jffs1> = None,
        /// JFFS2.
        #[serde(skip_serializing_if = "Option::is_none")]
        jffs2: Option<Jffs2> = None,
        /// Processor, which gives the times of the processor below, and `nand.copy_ps_per_byte`, where the file does not.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu: Option<Cpu> = None,
        /// Whether bytes of files may be kept. UBIFS without compression, `faults` and `fs.mount_again` keeps none by itself, unless
        /// the flash is kept (`--flash`): a run has the same results and is faster. `false`, or `fs.repeat`: there is no flash to keep,
        /// and those three are refused.
        keep_bytes: bool = true,
        /// Whether the file system is unmounted at the end. That is part of the run.
        unmount: bool = true,
        /// Whether the flash is attached and the file system mounted once more after the run, from what its unmount left, or
        /// without one what a power cut leaves.
        mount_again: bool = false,
        /// Date at virtual time 0, in seconds since 1970.
        #[schemars(range(max = 4_000_000_000_u64))]
        starts_s: u64 = 1_700_000_000,
        /// Time of the processor for each operation of the load, in microseconds.
        #[schemars(range(min = 0.0, max = 1e6))]
        operation_us: f64 = 1.0,
        /// Time of the processor for each byte that the load reads or writes, in picoseconds: its copy, and its page. JFFS: for each
        /// byte that it copies from the flash or on its way there.
        #[schemars(range(max = 1_000_000_000))]
        copy_ps_per_byte: u64 = 0,
        /// Time of the processor for each node written, read, or met by garbage collection, in nanoseconds. JFFS: for each
        /// element of a list that is visited.
        #[schemars(range(max = 1_000_000_000))]
        node_ns: u64 = 0,
        /// Time of the processor to checksum and copy a byte of a node, in picoseconds. JFFS: to sum or compare a byte.
        #[schemars(range(max = 1_000_000_000))]
        node_ps_per_byte: u64 = 0,
        /// JFFS2: time of the processor to compress a byte, in picoseconds, with each algorithm that is tried.
        #[schemars(range(max = 1_000_000_000))]
        pack_ps_per_byte: u64 = 0,
        /// JFFS2: time of the processor to decompress to a byte, in picoseconds.
        #[schemars(range(max = 1_000_000_000))]
        unpack_ps_per_byte: u64 = 0,
    }
}

impl Fs {
    /// Whether it is on the flash itself, without UBI.
    pub fn is_bare(&self) -> bool {
        match self.kind {
            FsKind::Ubifs => false,
            FsKind::Jffs1 => true,
            FsKind::Jffs2 => self.jffs2.as_ref().is_none_or(|jffs2| jffs2.on == On::Flash),
        }
    }
}

section! {
    /// Linux's page cache. Its flusher looks for old pages every `fs.writeback_s`, and pages are old after `fs.expire_s`. JFFS2 has
    /// no dirty pages, and no limits for them.
    pub struct PageCache {
        /// Memory for pages.
        #[schemars(range(min = 65_536, max = 1_099_511_627_776_u64))]
        memory_bytes: u64 = 1 << 30,
        /// Dirty bytes above which the flusher starts at once: `vm.dirty_background_bytes` [default: a tenth of the memory].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 4096, max = 1_099_511_627_776_u64))]
        dirty_background_bytes: Option<u64> = None,
        /// Dirty bytes at which writers wait: `vm.dirty_bytes` [default: a fifth of the memory].
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 8192, max = 1_099_511_627_776_u64))]
        dirty_bytes: Option<u64> = None,
    }
}

section! {
    /// What is repeated. The load needs a condition that ends it; the file system is not unmounted. UBI is simulated all the
    /// time. Only without compression, and no bytes are kept.
    pub struct Repeat {
        /// Operations before the record.
        #[schemars(range(max = 1_000_000_000_000_u64))]
        after_operations: u64 = 200_000,
        /// Operations in the record, each of which takes some hundred bytes of memory.
        #[schemars(range(min = 1, max = 5_000_000))]
        operations: u64 = 200_000,
    }
}

section! {
    /// Load of a file system: fsstress of xfstests, operation by operation as the program draws them.
    pub struct Fsstress {
        /// `-p`: processes, each in a directory of its own. They take turns: an operation ends before the next one begins,
        /// but for the deletion of an inode that lost its last name, which follows the operations of the others.
        #[schemars(range(min = 1, max = 1000))]
        processes: u32 = 1,
        /// `-n`: operations of a process in a loop.
        #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
        operations: u64 = 10_000,
        /// `-l`: loops; 0: without end.
        #[schemars(range(max = 1_000_000))]
        loops: u64 = 1,
        /// `-s`: seed [default: the experiment's, of which the lower 32 bits].
        #[serde(skip_serializing_if = "Option::is_none")]
        seed: Option<u32> = None,
        /// `-z`: operations without a weight in `[fsstress.weights]` are not done.
        zero: bool = false,
        /// Weights of operations.
        weights: Weights = Weights::default(),
    }
}

weights! {
    max = 1000;
    /// `-f`: weights of fsstress's operations; one that is not set has its default.
    pub struct Weights {
        /// Asynchronous fsync. Default 0.
        afsync,
        /// Allocation of XFS (`XFS_IOC_ALLOCSP64`). Default 1.
        allocsp,
        /// Asynchronous direct read. Default 1.
        aread,
        /// Removes one of the attributes there are. Default 0.
        attr_remove,
        /// Sets an attribute of up to 10,000 bytes. Default 0.
        attr_set,
        /// Asynchronous direct write. Default 1.
        awrite,
        /// Statistics of many inodes (XFS). Default 1.
        bulkstat,
        /// Statistics of one inode (XFS). Default 1.
        bulkstat1,
        /// Changes owner and group. Default 3.
        chown,
        /// Shares a range between files. Default 4.
        clonerange,
        /// Copies a range between files. Default 4.
        copyrange,
        /// Makes a file. Default 4.
        creat,
        /// Shares equal ranges of files. Default 4.
        deduperange,
        /// Direct read. Default 4.
        dread,
        /// Direct write. Default 4.
        dwrite,
        /// Reserves space. Default 1.
        fallocate,
        /// `fdatasync`. Default 1.
        fdatasync,
        /// Asks for the extents of a file. Default 1.
        fiemap,
        /// Frees space of XFS (`XFS_IOC_FREESP64`). Default 1.
        freesp,
        /// `fsync` of a file or directory. Default 1.
        fsync,
        /// Flags of an inode. Default 1.
        getattr,
        /// Reads a directory. Default 1.
        getdents,
        /// Reads an attribute. Default 1.
        getfattr,
        /// Makes a hard link. Default 1.
        link,
        /// Lists attributes. Default 1.
        listfattr,
        /// Makes a directory. Default 2.
        mkdir,
        /// Makes a character device. Default 2.
        mknod,
        /// Reads through a mapping. Default 2.
        mread,
        /// Writes through a mapping, half of them private. Default 2.
        mwrite,
        /// Punches a hole. Default 1.
        punch,
        /// Zeroes a range. Default 1.
        zero,
        /// Collapses a range. Default 1.
        collapse,
        /// Inserts a range. Default 1.
        insert,
        /// Reads. Default 1.
        read,
        /// Reads a symbolic link. Default 1.
        readlink,
        /// Reads into many buffers. Default 1.
        readv,
        /// Removes an attribute. Default 1.
        removefattr,
        /// Renames. Default 2.
        rename,
        /// Renames to a name that must be free. Default 2.
        rnoreplace,
        /// Exchanges two names of a kind. Default 2.
        rexchange,
        /// Renames a device and leaves a whiteout. Default 2.
        rwhiteout,
        /// Reserves space of XFS, which the VFS answers by `fallocate`. Default 1.
        resvsp,
        /// Removes a directory. Default 1.
        rmdir,
        /// Sets flags of an inode. Default 0.
        setattr,
        /// Sets an attribute of up to 100 bytes. Default 2.
        setfattr,
        /// Sets the project of an inode (XFS). Default 1.
        setxattr,
        /// Snapshot of a subvolume (btrfs). Default 0.
        snapshot,
        /// Copies a range through a pipe. Default 1.
        splice,
        /// `lstat`. Default 1.
        stat,
        /// Makes a subvolume (btrfs). Default 0.
        subvol_create,
        /// Removes a subvolume (btrfs). Default 0.
        subvol_delete,
        /// Makes a symbolic link. Default 2.
        symlink,
        /// `syncfs`. Default 1.
        sync,
        /// Sets the size of a file. Default 2.
        truncate,
        /// Removes a name. Default 1.
        unlink,
        /// Frees space of XFS, which the VFS answers by `fallocate`. Default 1.
        unresvsp,
        /// Reads through an io_uring. Default 1.
        uring_read,
        /// Writes through an io_uring. Default 1.
        uring_write,
        /// Writes. Default 4.
        write,
        /// Writes from many buffers. Default 4.
        writev,
    }
}

section! {
    /// Load of a file system: PostMark, many small files as a mail server has them. Keys are those of its `set`.
    pub struct Postmark {
        /// `size`: least bytes of a file.
        #[schemars(range(min = 1, max = 16_777_216))]
        size_low_bytes: u32 = 500,
        /// `size`: most bytes of a file.
        #[schemars(range(min = 1, max = 16_777_216))]
        size_high_bytes: u32 = 10_000,
        /// `number`: files before the transactions.
        #[schemars(range(min = 1, max = 10_000_000))]
        number: u32 = 500,
        /// `transactions`: transactions.
        #[schemars(range(max = 1_000_000_000))]
        transactions: u32 = 500,
        /// `subdirectories`: directories over which the files are spread; below 2: none.
        #[schemars(range(max = 1_000_000))]
        subdirectories: u32 = 0,
        /// `read`: bytes of a read without `buffering`.
        #[schemars(range(min = 1, max = 16_777_216))]
        read_bytes: u32 = 512,
        /// `write`: bytes of a write without `buffering`.
        #[schemars(range(min = 1, max = 16_777_216))]
        write_bytes: u32 = 512,
        /// `buffering`: whether the C library's buffer is between, of 4096 bytes.
        buffering: bool = true,
        /// `bias read`: of ten transactions, those that read and do not append; -1: they do neither.
        #[schemars(range(min = -1, max = 10))]
        bias_read: i32 = 5,
        /// `bias create`: of ten transactions, those that create and do not delete; -1: they do neither.
        #[schemars(range(min = -1, max = 10))]
        bias_create: i32 = 5,
        /// `seed`: seed [default: the experiment's, of which the lower 32 bits].
        #[serde(skip_serializing_if = "Option::is_none")]
        seed: Option<u32> = None,
    }
}

words! {
    /// Test mode of sysbench's `fileio`.
    pub enum TestMode {
        /// Makes files and writes them from beginning to end.
        #[serde(rename = "seqwr")]
        SeqWr,
        /// Writes files that exist from beginning to end.
        #[serde(rename = "seqrewr")]
        SeqRewr,
        /// Reads from beginning to end.
        #[serde(rename = "seqrd")]
        SeqRd,
        /// Reads at random.
        #[serde(rename = "rndrd")]
        RndRd,
        /// Writes at random.
        #[serde(rename = "rndwr")]
        RndWr,
        /// Reads and writes at random.
        #[serde(rename = "rndrw")]
        RndRw,
    }
}

words! {
    /// How sysbench synchronizes a file.
    pub enum FsyncMode {
        /// With its times.
        Fsync,
        /// As far as the data need it.
        Fdatasync,
    }
}

section! {
    /// Load of a file system: the `fileio` test of sysbench with one thread. Its files are made before the run, as by
    /// `prepare`. What it writes is zero, which compression makes small.
    pub struct Sysbench {
        /// `--file-test-mode`: test mode.
        file_test_mode: TestMode = TestMode::RndRw,
        /// `--file-num`: files.
        #[schemars(range(min = 1, max = 1_000_000))]
        file_num: u32 = 128,
        /// `--file-total-size`: bytes of all files together.
        #[schemars(range(min = 1, max = 1_099_511_627_776_u64))]
        file_total_bytes: u64 = 2 << 30,
        /// `--file-block-size`: bytes of a request.
        #[schemars(range(min = 1, max = 16_777_216))]
        file_block_bytes: u32 = 16_384,
        /// `--file-merged-requests`: blocks of a sequential request; 0: one.
        #[schemars(range(max = 1024))]
        file_merged_requests: u32 = 0,
        /// `--file-fsync-freq`: requests after which the files are synchronized; 0: never.
        #[schemars(range(max = 1_000_000_000))]
        file_fsync_freq: u64 = 100,
        /// `--file-fsync-all`: whether each write is synchronized, and nothing at another time.
        file_fsync_all: bool = false,
        /// `--file-fsync-end`: whether every file is synchronized at the end.
        file_fsync_end: bool = true,
        /// `--file-fsync-mode`: how a file is synchronized.
        file_fsync_mode: FsyncMode = FsyncMode::Fsync,
        /// `--file-rw-ratio`: `rndrw`: reads for each write.
        #[schemars(range(min = 0.0, max = 1e6))]
        file_rw_ratio: f64 = 1.5,
        /// `--max-requests` of sysbench 0.4: reads and writes; 0: without end.
        #[schemars(range(max = 1_000_000_000_000_u64))]
        max_requests: u64 = 10_000,
    }
}

words! {
    /// When the calls of a trace are made.
    pub enum CallMode {
        /// At their times, or when those before are done.
        Open,
        /// One after the other.
        Closed,
    }
}

section! {
    /// Load of a file system: the calls of programs that strace recorded, made again ([docs/format/strace.md](strace.md)).
    pub struct Strace {
        /// The trace: `strace -f -ttt -y -s 0 -o FILE`.
        file: String = String::new(),
        /// Directory of the traced system whose files count; it is the root of the file system here.
        root: String = "/".to_owned(),
        /// When the calls are made.
        mode: CallMode = CallMode::Open,
        /// `open`: speed of time relative to the trace: 2 halves every interval.
        #[schemars(range(min = 1e-6, max = 1e9))]
        speed: f64 = 1.0,
        /// Passes; 0: without end. Before the next one, what the trace left is removed and what was there before is restored.
        #[schemars(range(max = 1_000_000_000))]
        loops: u64 = 1,
        /// Part of what is written that is zero, in percent; the rest is random. The trace has no contents.
        #[schemars(range(max = 100))]
        compressible_percent: u32 = 0,
    }
}

section! {
    /// Load of a file system: a fio job, each process with a file of its own. Requests are those of fio with its defaults. Reads and
    /// writes are of the page cache, one at a time; what is clean of a file leaves it when the file is opened (`invalidate`).
    pub struct Fio {
        /// `name`: name of the job, and the beginning of its files' names.
        name: String = "job".to_owned(),
        /// Operations, as fio's `rw`; no trims.
        rw: ReadWrite = ReadWrite::Write,
        /// `norandommap`: whether random requests may reach a block twice before all others once.
        norandommap: bool = false,
        /// `bs`: bytes of a request, a multiple of 512.
        #[schemars(range(min = 512, max = 1_073_741_824))]
        block_bytes: u64 = 4096,
        /// `numjobs`: processes. They take turns: a request ends before the next one begins, whichever process it is of.
        #[schemars(range(min = 1, max = 1000))]
        processes: u32 = 1,
        /// `size`: bytes of the file of a process, a multiple of 512.
        #[schemars(range(min = 512, max = 1_099_511_627_776_u64))]
        size_bytes: u64 = 16 << 20,
        /// Most requests of a process; 0: no limit. With it or `seconds` a process goes on, as with `time_based`, until then;
        /// otherwise until it has read and written as many bytes as its file has.
        requests: u64 = 0,
        /// `runtime`: most virtual seconds after the ramp; 0: no limit.
        #[schemars(range(min = 0.0, max = 1e9))]
        seconds: f64 = 0.0,
        /// `ramp_time`: seconds before the measurement of throughput begins.
        #[schemars(range(min = 0.0, max = 1e9))]
        ramp_s: f64 = 0.0,
        /// `rwmixread`, of `rw` and `randrw`: share of reads in per cent.
        #[schemars(range(max = 100))]
        read_percent: u8 = 50,
        /// `fsync`: writes of a process between two synchronizations of its file; 0: none.
        flush_every: u64 = 0,
        /// `end_fsync`: whether a process synchronizes its file at its end.
        end_fsync: bool = false,
        /// `sync`: whether a write is durable when it ends. The file is synchronized within it.
        fua: bool = false,
        /// `overwrite`: whether files are written from beginning to end before the run though the job does not read.
        overwrite: bool = false,
    }
}

#[cfg(test)]
mod tests {
    use workload::fsstress::Op;

    use crate::schema::check::node_of;

    #[test]
    fn weights_and_their_defaults_are_those_of_the_generator() {
        for (_, name, weight) in Op::TABLE {
            let node = node_of(&format!("fsstress.weights.{name}")).unwrap_or_else(|| panic!("no key {name}"));
            let text = node["description"].as_str().unwrap();
            assert!(text.ends_with(&format!(" Default {weight}.")), "{name}: {text}");
        }
        let keys = crate::schema::keys().iter().filter(|key| key.starts_with("fsstress.weights."));
        assert_eq!(keys.count(), Op::TABLE.len());
    }
}
