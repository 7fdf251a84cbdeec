//! The script that the guest runs: make and mount the file system, setup, the job, unmount.

use super::SETUP_FAILED;
use crate::schema::guest::{Fs, FsKind, Guest};
use crate::schema::word;

/// Commands that make a file system on a fresh device, and its type for mount and what is mounted.
fn file_system(fs: &Fs) -> Option<(String, &'static str, &'static str)> {
    const DISK: &str = "/dev/nandlab0";
    let on_disk = |mkfs: &str, name| Some((format!("{mkfs} {} {DISK}", fs.mkfs), name, DISK));
    match fs.kind {
        FsKind::None => None,
        FsKind::Ext2 => on_disk("mkfs.ext2 -q -F", "ext2"),
        FsKind::Ext3 => on_disk("mkfs.ext3 -q -F", "ext3"),
        FsKind::Ext4 => on_disk("mkfs.ext4 -q -F", "ext4"),
        FsKind::Xfs => on_disk("mkfs.xfs -q -f", "xfs"),
        FsKind::Btrfs => on_disk("mkfs.btrfs -q -f", "btrfs"),
        FsKind::F2fs => on_disk("mkfs.f2fs -q -f", "f2fs"),
        FsKind::Nilfs2 => on_disk("mkfs.nilfs2 -q -f", "nilfs2"),
        FsKind::Vfat => on_disk("mkfs.vfat", "vfat"),
        FsKind::Reiserfs => on_disk("mkfs.reiserfs -q -f", "reiserfs"),
        FsKind::Ubifs => Some((format!("ubimkvol /dev/ubi0 -N data -m {} >/dev/null", fs.mkfs), "ubifs", "ubi0:data")),
        FsKind::Jffs2 => Some((String::new(), "jffs2", "mtd0")),
    }
}

/// Commands that mount the file system at /mnt; `fresh`: that make it first.
pub(super) fn mounted(fs: &Fs, fresh: bool) -> String {
    let Some((mkfs, name, device)) = file_system(fs) else { return String::new() };
    let attach = if fs.kind == FsKind::Ubifs { "ubiattach -m 0 >/dev/null\n" } else { "" };
    let mkfs = if fresh { mkfs } else { String::new() };
    let options = if fs.mount.is_empty() { String::new() } else { format!(" -o {}", fs.mount) };
    format!("{attach}{mkfs}\nmount -t {name}{options} {device} /mnt\n")
}

/// Where the script puts a program of nandlab's.
const PROGRAMS: &str = "/run/nandlab";

/// Commands that put the program of an experiment into the guest, an executable file. They carry the file itself, because parts of the
/// host's tree are hidden in the guest.
pub(crate) fn installed(section: &Guest, program: Option<&[u8]>) -> String {
    let Some(program) = program else { return String::new() };
    let name = word(&section.program);
    let mut text = format!("mkdir -p {PROGRAMS}\nbase64 -d >{PROGRAMS}/{name} <<'END-OF-NANDLAB-PROGRAM'\n");
    for line in program.chunks(57) {
        text += &base64(line);
        text.push('\n');
    }
    text + &format!("END-OF-NANDLAB-PROGRAM\nchmod 755 {PROGRAMS}/{name}\nexport PATH={PROGRAMS}:$PATH\n")
}

/// Bytes in base64 (RFC 4648), padded.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            text.push(if place <= group.len() {
                LETTERS[(word >> (18 - 6 * place)) as usize & 63].into()
            } else {
                '='
            });
        }
    }
    text
}

/// The whole script. `fresh`: the device is empty, so that the file system is made.
pub fn script(section: &Guest, fresh: bool) -> String {
    let Guest { fs, setup, job, .. } = section;
    let mount = mounted(fs, fresh);
    let (enter, leave) = match mount.is_empty() {
        true => ("", ""),
        false => ("cd /mnt\n", "cd /; umount /mnt || code=1\n"),
    };
    // The subshell keeps `exit` in a job from skipping what follows.
    format!(
        "(set -e\n{mount}{enter}{setup}\n) || exit {SETUP_FAILED}\n\
         echo begin >/dev/nandlab-mark\n\
         ({enter}{job}\n)\ncode=$?\n{leave}exit $code\n"
    )
}

/// Mark with which the script after a power cut says what is wrong, before what it says.
pub(crate) const BROKEN: &str = "broken: ";

/// Commands that repair a file system without a journal before it is mounted.
fn repaired(kind: FsKind) -> &'static str {
    match kind {
        FsKind::Ext2 => "e2fsck -fy /dev/nandlab0 >/dev/null 2>&1; [ $? -le 2 ]",
        FsKind::Vfat => "fsck.vfat -a /dev/nandlab0 >/dev/null 2>&1; [ $? -le 1 ]",
        _ => "true",
    }
}

/// Commands that check an unmounted file system without changing it.
fn checked(kind: FsKind) -> &'static str {
    match kind {
        FsKind::Ext2 | FsKind::Ext3 | FsKind::Ext4 => "e2fsck -fn /dev/nandlab0",
        FsKind::Xfs => "xfs_repair -n /dev/nandlab0",
        FsKind::Btrfs => "btrfs check --readonly /dev/nandlab0",
        FsKind::F2fs => "fsck.f2fs --dry-run -f /dev/nandlab0",
        FsKind::Vfat => "fsck.vfat -n /dev/nandlab0",
        // These have no such program.
        FsKind::None | FsKind::Nilfs2 | FsKind::Reiserfs | FsKind::Ubifs | FsKind::Jffs2 => "true",
    }
}

/// The script after a power cut: mounts what is there, reads all of it, runs the check, unmounts, and checks the file
/// system. What it finds broken it marks, after the kernel's last lines. `marks`: what the job had marked before the cut.
pub(crate) fn after_a_cut<'a>(section: &Guest, marks: impl Iterator<Item = &'a str>) -> String {
    let Guest { fs, check, .. } = section;
    let marks: String = marks.map(|mark| format!("{mark}\n")).collect();
    let broken = |what: &str| format!("{{ dmesg | tail -n 5; echo '{BROKEN}{what}' >/dev/nandlab-mark; exit 1; }}");
    let mut script =
        format!("cat >/run/marks <<'END-OF-NANDLAB-MARKS'\n{marks}END-OF-NANDLAB-MARKS\nexport MARKS=/run/marks\n");
    let mount = mounted(fs, false);
    if mount.is_empty() {
        return script + &format!("( {check}\n) || {}\nexit 0\n", broken("the check failed"));
    }
    let read = "find . -xdev -type f -exec cat {} + >/dev/null";
    for (work, what) in [
        (repaired(fs.kind).to_owned(), "it cannot be repaired"),
        (format!("set -e\n{mount}"), "it does not mount"),
        (format!("cd /mnt && {read}"), "a file cannot be read"),
        (format!("cd /mnt\n{check}"), "the check failed"),
        ("umount /mnt".to_owned(), "it cannot be unmounted"),
        (checked(fs.kind).to_owned(), "the file system is damaged"),
    ] {
        script += &format!("( {work}\n) || {}\n", broken(what));
    }
    script + "exit 0\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::guest::Program;

    #[test]
    fn after_a_cut_nothing_is_made_again_and_each_step_names_what_is_broken() {
        let fs = Fs { kind: FsKind::Ext4, ..Fs::default() };
        let section = Guest { fs, check: "test -e a".to_owned(), ..Guest::default() };
        let script = after_a_cut(&section, ["one", "two 'x'"].into_iter());
        assert!(script.contains("MARKS'\none\ntwo 'x'\nEND") && !script.contains("mkfs"), "{script}");
        assert_eq!(script.matches(BROKEN).count(), 6);
        assert!(script.find("test -e a").unwrap() < script.find("e2fsck -fn").unwrap());
    }

    #[test]
    fn a_program_goes_into_the_guest_as_rfc_4648_has_it() {
        // The examples of RFC 4648, section 10.
        let pairs = [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in pairs {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        let section = Guest { program: Program::Promises, ..Guest::default() };
        let text = installed(&section, Some(b"foobar"));
        assert!(text.contains("/promises <<") && text.contains("\nZm9vYmFy\nEND-OF"), "{text}");
        assert_eq!(installed(&section, None), "");
    }

    #[test]
    fn an_image_is_mounted_and_not_made_again() {
        let section =
            Guest { fs: Fs { kind: FsKind::Ext4, ..Fs::default() }, job: "ls".to_owned(), ..Guest::default() };
        assert!(script(&section, true).contains("mkfs.ext4 -q -F  /dev/nandlab0\nmount -t ext4 /dev/nandlab0 /mnt"));
        let again = script(&section, false);
        assert!(!again.contains("mkfs") && again.contains("mount -t ext4 /dev/nandlab0 /mnt"), "{again}");
    }
}
