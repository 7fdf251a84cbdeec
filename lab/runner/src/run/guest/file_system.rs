//! The file systems of a guest: what makes, mounts and checks each, and on which device and Linux it works.
//!
//! The commands are those of a shell in the guest, whose programs are the host's.

use crate::schema::guest::{Fs, FsKind, Guest, Linux};
use crate::schema::{ExperimentError, word, wrong};
use crate::subject::Subject;

/// The drive in the guest.
const DISK: &str = "/dev/nandlab0";
/// Its only partition.
const PARTITION: &str = "/dev/nandlab0p1";

/// A program of the host, and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name of the program.
    pub program: &'static str,
    /// Debian's package.
    pub package: &'static str,
}

/// What is known of a file system.
struct Known {
    kind: FsKind,
    /// Makes it, with these options; `None`: the kernel does when it mounts.
    mkfs: Option<(Tool, &'static str)>,
    /// Checks it and changes nothing, with these options; `None`: it has no checker, and all of it is read.
    checker: Option<(Tool, &'static str)>,
    /// Whether it is one of raw flash.
    raw: bool,
}

const fn tool(program: &'static str, package: &'static str) -> Tool {
    Tool { program, package }
}

const fn of_drive(
    kind: FsKind,
    package: &'static str,
    mkfs: (&'static str, &'static str),
    checker: Option<(&'static str, &'static str)>,
) -> Known {
    let checker = match checker {
        Some((program, options)) => Some((tool(program, package), options)),
        None => None,
    };
    Known { kind, mkfs: Some((tool(mkfs.0, package), mkfs.1)), checker, raw: false }
}

const E2FSCK: Option<(&str, &str)> = Some(("e2fsck", "-fn"));

const KNOWN: [Known; 11] = [
    of_drive(FsKind::Ext2, "e2fsprogs", ("mkfs.ext2", "-q -F"), E2FSCK),
    of_drive(FsKind::Ext3, "e2fsprogs", ("mkfs.ext3", "-q -F"), E2FSCK),
    of_drive(FsKind::Ext4, "e2fsprogs", ("mkfs.ext4", "-q -F"), E2FSCK),
    of_drive(FsKind::Xfs, "xfsprogs", ("mkfs.xfs", "-q -f"), Some(("xfs_repair", "-n"))),
    of_drive(
        FsKind::Btrfs,
        "btrfs-progs",
        ("mkfs.btrfs", "-q -f"),
        Some(("btrfs", "check --readonly --check-data-csum")),
    ),
    of_drive(FsKind::F2fs, "f2fs-tools", ("mkfs.f2fs", "-q -f"), Some(("fsck.f2fs", "--dry-run -f"))),
    of_drive(FsKind::Nilfs2, "nilfs-tools", ("mkfs.nilfs2", "-q -f"), None),
    of_drive(FsKind::Vfat, "dosfstools", ("mkfs.vfat", ""), Some(("fsck.vfat", "-n"))),
    of_drive(
        FsKind::Reiserfs,
        "reiserfsprogs",
        ("mkfs.reiserfs", "-q -f"),
        Some(("reiserfsck", "--check --yes --quiet")),
    ),
    Known { kind: FsKind::Ubifs, mkfs: Some((tool("ubimkvol", "mtd-utils"), "")), checker: None, raw: true },
    Known { kind: FsKind::Jffs2, mkfs: None, checker: None, raw: true },
];

fn known(kind: FsKind) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.kind == kind)
}

/// Programs of the host that the guest calls: `fresh` to make the file system, `checks` to check it.
pub fn tools(fs: &Fs, fresh: bool, checks: bool) -> Vec<Tool> {
    let Some(known) = known(fs.kind) else { return Vec::new() };
    let mkfs = known.mkfs.filter(|_| fresh);
    let checker = known.checker.filter(|_| checks);
    let attach = (fs.kind == FsKind::Ubifs).then_some(tool("ubiattach", "mtd-utils"));
    attach.into_iter().chain(mkfs.into_iter().chain(checker).map(|(tool, _)| tool)).collect()
}

/// What the file system is on, as a word of the shell.
fn device(fs: &Fs) -> String {
    match fs.kind {
        FsKind::Ubifs => format!("'ubi0:{}'", fs.volume),
        FsKind::Jffs2 => "mtd0".to_owned(),
        _ if fs.partition_lba > 0 => PARTITION.to_owned(),
        _ => DISK.to_owned(),
    }
}

/// Commands that write a partition table (MBR) with one entry, from sector `first` to the end, and have Linux read it.
/// Its CHS fields say "beyond what CHS can say", as fdisk writes.
fn partitioned(first: u32, fs: FsKind) -> String {
    // Type 0x0c is FAT32 by LBA, 0x83 Linux.
    let kind = if fs == FsKind::Vfat { 0x0c } else { 0x83 };
    format!(
        "le32() {{ printf '\\\\%03o\\\\%03o\\\\%03o\\\\%03o' $(($1&255)) $(($1>>8&255)) $(($1>>16&255)) $(($1>>24&255)); }}\n\
         sectors=$(( $(blockdev --getsz {DISK}) - {first} ))\n\
         printf \"\\\\000\\\\376\\\\377\\\\377\\\\{kind:03o}\\\\376\\\\377\\\\377$(le32 {first})$(le32 $sectors)\" | \
         dd of={DISK} bs=1 seek=446 conv=notrunc status=none\n\
         printf '\\125\\252' | dd of={DISK} bs=1 seek=510 conv=notrunc status=none\n\
         blockdev --rereadpt {DISK}\n"
    )
}

/// Commands that make the file system on an empty device.
fn made(fs: &Fs) -> String {
    let Some(Known { mkfs: Some((tool, options)), .. }) = known(fs.kind) else { return String::new() };
    let Tool { program, .. } = tool;
    if fs.kind == FsKind::Ubifs {
        return format!("{program} /dev/ubi0 -N '{}' -m {} >/dev/null\n", fs.volume, fs.mkfs);
    }
    let table = if fs.partition_lba > 0 { partitioned(fs.partition_lba, fs.kind) } else { String::new() };
    format!("{table}{program} {options} {} {}\n", fs.mkfs, device(fs))
}

/// Commands that mount the file system at /mnt; `fresh`: that make it first. The kernel's last lines follow what `mount`
/// says when it fails, since they name the reason.
pub(super) fn mounted(fs: &Fs, fresh: bool) -> String {
    if fs.kind == FsKind::None {
        return String::new();
    }
    let attach = if fs.kind == FsKind::Ubifs { "ubiattach -m 0 >/dev/null\n" } else { "" };
    let made = if fresh { made(fs) } else { String::new() };
    let options = if fs.mount.is_empty() { String::new() } else { format!(" -o {}", fs.mount) };
    let mount = format!("mount -t {}{options} {} /mnt", word(&fs.kind), device(fs));
    // Where the volume is missing, mount says that it does not know UBIFS.
    let volumes = match fs.kind {
        FsKind::Ubifs => {
            "echo 'volumes of this flash, of which guest.fs.volume names one:'; cat /sys/class/ubi/ubi0_*/name; "
        }
        _ => "",
    };
    format!("{attach}{made}{mount} || {{ code=$?; dmesg | tail -n 5; {volumes}exit $code; }}\n")
}

/// Commands that take what is below an unmounted file system from the device.
pub(super) fn detached(fs: &Fs) -> &'static str {
    if fs.kind == FsKind::Ubifs { "ubidetach -m 0\n" } else { "" }
}

/// Commands that repair an unmounted file system without a journal before it is mounted.
pub(super) fn repaired(fs: &Fs) -> String {
    let device = device(fs);
    match fs.kind {
        FsKind::Ext2 => format!("e2fsck -fy {device} >/dev/null 2>&1; [ $? -le 2 ]"),
        FsKind::Vfat => format!("fsck.vfat -a {device} >/dev/null 2>&1; [ $? -le 1 ]"),
        _ => "true".to_owned(),
    }
}

/// Commands that read every file below the current directory.
pub(super) const READ_ALL: &str = "find . -xdev -type f -exec cat {} + >/dev/null";

/// Commands that check an unmounted file system without changing it: its own program, or, where it has none, a mount
/// for reading in which every file is read and the kernel complains of nothing.
pub(super) fn checked(fs: &Fs) -> String {
    // UBIFS leaves out the checksums of data unless it is told.
    let options = if fs.kind == FsKind::Ubifs { "ro,chk_data_crc" } else { "ro" };
    by_checker(fs).unwrap_or_else(|| {
        format!("set -e\ndmesg -C\n{}\n! dmesg | grep -E 'rror|CRC|crc|corrupt'", read_again(fs, options))
    })
}

/// As [`checked`], after a power cut, which leaves torn pages on raw flash: the kernel may complain of them.
pub(super) fn checked_after_a_cut(fs: &Fs) -> String {
    by_checker(fs).unwrap_or_else(|| format!("set -e\n{}", read_again(fs, "ro")))
}

/// The checker of a file system, if it has one; what has no file system is whole.
fn by_checker(fs: &Fs) -> Option<String> {
    match known(fs.kind) {
        None => Some("true".to_owned()),
        Some(Known { checker, .. }) => {
            checker.map(|(tool, options)| format!("{} {options} {}", tool.program, device(fs)))
        }
    }
}

/// Commands that mount a file system for reading and read every file.
fn read_again(fs: &Fs, options: &str) -> String {
    let mount = format!("mount -i -t {} -o {options} {} /mnt", word(&fs.kind), device(fs));
    format!("{mount}\n(cd /mnt; {READ_ALL})\numount /mnt")
}

/// Mount options that the guest's Linux ignores or refuses.
struct Gone {
    kinds: &'static [FsKind],
    options: &'static [&'static str],
    /// Which Linux had them, and what there is instead.
    why: &'static str,
}

const EXT: &[FsKind] = &[FsKind::Ext2, FsKind::Ext3, FsKind::Ext4];

/// Sources: what Linux 6.1 and 6.12 say at the mount ("Ignoring removed oldalloc option", "Unknown parameter", "no effect
/// since 5.11"); for xfs the table in their Documentation/admin-guide/xfs.rst; for ext3 the removal of its driver in 4.3.
const GONE: &[Gone] = &[
    Gone {
        kinds: EXT,
        options: &["oldalloc", "orlov"],
        why: "6.1 and 6.12 ignore it; the last versions of the ext3 driver (4.2) did already. Directories are always \
              placed by the Orlov allocator",
    },
    Gone {
        kinds: EXT,
        options: &["reservation", "noreservation"],
        why: "the ext3 driver had it, last in 4.2; ext4, which mounts ext2, ext3 and ext4 here, ignores it and preallocates",
    },
    Gone { kinds: EXT, options: &["bh", "nobh"], why: "6.1 and 6.12 ignore it" },
    Gone {
        kinds: EXT,
        options: &["extents", "noextents"],
        why: "6.1 and 6.12 refuse it. guest.fs.mkfs has it: \"-O extent\", which mkfs.ext4 does by itself, or \"-O ^extent\"",
    },
    Gone { kinds: &[FsKind::Xfs], options: &["barrier", "nobarrier"], why: "4.18 had it last; xfs always flushes" },
    Gone {
        kinds: &[FsKind::Xfs],
        options: &["delaylog", "nodelaylog"],
        why: "3.19 had it last; xfs always delays its log",
    },
    Gone {
        kinds: &[FsKind::Xfs],
        options: &["ihashsize", "irixsgid", "osyncisdsync", "osyncisosync"],
        why: "3.19 had it last",
    },
    Gone { kinds: &[FsKind::Btrfs], options: &["inode_cache"], why: "it had an effect last in 5.10" },
];

/// Checks a guest's file system against its device and its Linux.
/// Errors: the key of what does not fit.
pub(crate) fn check(guest: &Guest, subject: &Subject) -> Result<(), ExperimentError> {
    let Guest { fs, linux, .. } = guest;
    let (raw, sectors) = subject.block().map_or((true, 0), |facts| (false, facts.bytes / 512));
    if fs.partition_lba > 0 && (raw || fs.kind == FsKind::None) {
        let why = if raw { "raw flash has no partition table" } else { "there is no file system to put there" };
        return wrong("guest.fs.partition_lba", fs.partition_lba, format!("0: {why}"));
    }
    if !raw && u64::from(fs.partition_lba) >= sectors {
        return wrong("guest.fs.partition_lba", fs.partition_lba, format!("less than the drive's {sectors} sectors"));
    }
    let Some(known) = known(fs.kind) else {
        let set = [("guest.fs.mkfs", &fs.mkfs), ("guest.fs.mount", &fs.mount)];
        return match set.into_iter().find(|(_, options)| !options.is_empty()) {
            Some((key, options)) => wrong(key, options, "none, or a file system in guest.fs.kind"),
            None if fs.fsck => wrong("guest.fs.fsck", true, "false, or a file system in guest.fs.kind"),
            None => Ok(()),
        };
    };
    if known.raw != raw {
        let fitting = KNOWN.iter().filter(|known| known.raw == raw).map(|known| word(&known.kind));
        let names = fitting.collect::<Vec<_>>().join(", ");
        let device = if raw { "raw flash (`nand`)" } else { "a drive (`ssd`)" };
        return wrong("guest.fs.kind", word(&fs.kind), format!("a file system of {device}: {names}"));
    }
    if fs.kind != FsKind::Ubifs && fs.volume != Fs::default().volume {
        return wrong("guest.fs.volume", &fs.volume, format!("none: {} is on no volume of UBI", word(&fs.kind)));
    }
    // A quote would end the shell's word.
    let is_name = |name: &str| {
        (1..=127).contains(&name.len()) && !name.chars().any(|c| c.is_control() || ['\'', '/'].contains(&c))
    };
    if !is_name(&fs.volume) {
        return wrong(
            "guest.fs.volume",
            &fs.volume,
            "a volume's name: 1 to 127 bytes without quotes, slashes and control characters",
        );
    }
    if fs.kind == FsKind::Reiserfs && *linux == Linux::V6_12 {
        let why = "guest.linux = \"6.1\": the guest's 6.12 refuses reiserfs its journal on the mounted device (error 16), \
                   and Linux 6.13 dropped it";
        return wrong("guest.fs.kind", word(&fs.kind), why);
    }
    if known.mkfs.is_none() && !fs.mkfs.is_empty() {
        return wrong("guest.fs.mkfs", &fs.mkfs, "none: Linux makes a JFFS2 on erased flash when it mounts it");
    }
    for option in fs.mount.split(',') {
        let name = option.split('=').next().unwrap_or_default();
        let gone = GONE.iter().find(|gone| gone.kinds.contains(&fs.kind) && gone.options.contains(&name));
        if let Some(Gone { why, .. }) = gone {
            return wrong("guest.fs.mount", option, format!("options without `{name}`: {why}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_made_once_and_has_the_file_system() {
        let fs = Fs { kind: FsKind::Ext4, partition_lba: 63, ..Fs::default() };
        let fresh = mounted(&fs, true);
        assert!(fresh.contains("$(le32 63)") && fresh.contains("mkfs.ext4 -q -F  /dev/nandlab0p1\n"), "{fresh}");
        // Octal 203 is 0x83, Linux; 014 is 0x0c.
        assert!(fresh.contains(r"\\203\\376\\377\\377$"), "{fresh}");
        assert!(partitioned(63, FsKind::Vfat).contains(r"\\014\\376"));
        let again = mounted(&fs, false);
        assert!(!again.contains("le32") && again.contains("mount -t ext4 /dev/nandlab0p1 /mnt"), "{again}");
        assert_eq!(checked(&fs), "e2fsck -fn /dev/nandlab0p1");
    }

    #[test]
    fn ubifs_is_made_on_the_volume_of_its_name_and_mounted_from_there() {
        let fs = Fs { kind: FsKind::Ubifs, volume: "a b".to_owned(), ..Fs::default() };
        let fresh = mounted(&fs, true);
        assert!(fresh.contains("ubimkvol /dev/ubi0 -N 'a b' -m"), "{fresh}");
        assert!(fresh.contains("mount -t ubifs 'ubi0:a b' /mnt"), "{fresh}");
        assert!(!mounted(&fs, false).contains("ubimkvol"));
    }

    #[test]
    fn each_file_system_names_its_programs() {
        let of = |kind| tools(&Fs { kind, ..Fs::default() }, true, true);
        assert_eq!(of(FsKind::None), []);
        assert_eq!(of(FsKind::Jffs2), []);
        let e2fsprogs = |program| tool(program, "e2fsprogs");
        assert_eq!(of(FsKind::Ext3), [e2fsprogs("mkfs.ext3"), e2fsprogs("e2fsck")]);
        assert_eq!(of(FsKind::Nilfs2), [tool("mkfs.nilfs2", "nilfs-tools")]);
        let image = tools(&Fs { kind: FsKind::Vfat, ..Fs::default() }, false, true);
        assert_eq!(image, [tool("fsck.vfat", "dosfstools")]);
    }
}
