//! Linux as a guest, whose file systems and programs are the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::section::{section, words};

words! {
    /// Linux of the guest.
    pub enum Linux {
        /// Debian's linux-source-6.12.
        #[serde(rename = "6.12")]
        V6_12,
        /// Debian's linux-source-6.1 at 6.1.176: UBI as before the fastmap wear-levelling series, and reiserfs.
        #[serde(rename = "6.1")]
        V6_1,
    }
}

words! {
    /// A file system of the guest.
    pub enum FsKind {
        /// None: the job has the device alone.
        None,
        /// On a drive.
        Ext2,
        /// On a drive.
        Ext3,
        /// On a drive.
        Ext4,
        /// On a drive.
        Xfs,
        /// On a drive.
        Btrfs,
        /// On a drive.
        F2fs,
        /// On a drive.
        Nilfs2,
        /// On a drive.
        Vfat,
        /// On a drive.
        Reiserfs,
        /// On raw flash: a UBI volume that takes all of it.
        Ubifs,
        /// On raw flash, without UBI.
        Jffs2,
    }
}

words! {
    /// A program of nandlab's for jobs.
    pub enum Program {
        /// None.
        None,
        /// `fsstress`: the operation mix of xfstests' fsstress, compiled once by the host's gcc. `-p` processes, `-n`
        /// operations, `-l` loops (0: for ever), `-s` seed, and a directory.
        Fsstress,
        /// `promises make N` writes nine files in turn, N times, each by fsync and rename, and marks what is promised;
        /// `promises check`, for `guest.check`, exits with 0 if it was kept.
        Promises,
        /// `load` makes the calls of the experiment's `[logger]` or `[reboots]`, on the file system of `guest.fs`, raw flash's.
        /// It is setup and job of itself: `guest.setup` and `guest.job` are empty.
        Load,
    }
}

section! {
    /// The file system that is made before the job.
    pub struct Fs {
        /// File system: made on the device and mounted at /mnt, where the job runs. It is unmounted after the job.
        kind: FsKind = FsKind::None,
        /// More options of its mkfs.
        mkfs: String = String::new(),
        /// Options of mount, separated by commas.
        mount: String = String::new(),
        /// On a drive: 512-byte sector at which one partition begins, which has the rest of the drive and the file
        /// system. 0: none, the whole drive. 63 is what fdisk chose in 2008, 16384 is 8 MiB.
        partition_lba: u32 = 0,
        /// On raw flash, for UBIFS: the volume of UBI that has the file system. It is made on an empty flash; an image of
        /// `--from` has it.
        volume: String = "data".to_owned(),
        /// After the job and the unmount, the file system's own checker reads it and changes nothing; one that has no
        /// checker is mounted again for reading, and every file is read. Damage fails the run. This is not measured.
        fsck: bool = false,
    }
}

section! {
    /// Time of the guest's processor, which takes none otherwise.
    pub struct GuestCpu {
        /// Of each system call, in microseconds.
        #[schemars(range(min = 0.0, max = 1e6))]
        syscall_us: f64 = 0.0,
        /// Of each request to the device, in microseconds.
        #[schemars(range(min = 0.0, max = 1e6))]
        request_us: f64 = 0.0,
    }
}

section! {
    /// Load of a run on a drive or on raw flash: a job in Linux, which runs as a guest in virtual time. Raw flash is its
    /// mtd0, a drive its /dev/nandlab0. Its root is the host's tree, read-only, under a private layer that is writable.
    pub struct Guest {
        /// Linux of the guest.
        linux: Linux = Linux::V6_12,
        /// Memory of the guest in MiB.
        #[schemars(range(min = 64, max = 65_536))]
        memory_mib: u32 = 256,
        /// File system that is made and mounted before the job.
        fs: Fs = Fs::default(),
        /// Shell commands before the job, after mounting. What they do is not measured; one that fails ends the run.
        setup: String = String::new(),
        /// Shell commands: what is measured. Output and exit code come with the result.
        job: String = String::new(),
        /// A program of nandlab's that the job and the check may call by its name.
        program: Program = Program::None,
        /// Difference of erase counters at which the guest's UBI moves data (its CONFIG_MTD_UBI_WL_THRESHOLD).
        #[schemars(range(min = 2, max = 65_536))]
        wl_threshold: u32 = 4096,
        /// Shell commands after a power cut (`nandlab cuts`), once the file system is mounted again: exit code 0 if what
        /// was promised is there. `$MARKS` names a file with the lines that the job wrote to /dev/nandlab-mark.
        check: String = String::new(),
        /// Time of the guest's processor.
        cpu: GuestCpu = GuestCpu::default(),
        /// Date at which the guest starts, in seconds since 1970.
        #[schemars(range(max = 4_000_000_000_u64))]
        starts_s: u64 = 1_700_000_000,
        /// The run fails when the guest makes no call to its devices or its job for so long on the host's clock.
        #[schemars(range(min = 1, max = 86_400))]
        hung_s: u32 = 300,
    }
}
