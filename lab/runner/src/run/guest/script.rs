//! The script that the guest runs: make and mount the file system, setup, the job, unmount.

use super::SETUP_FAILED;
use super::file_system::{READ_ALL, checked, checked_after_a_cut, detached, mounted, repaired};
use super::load::{MOUNTED, MOUNTS};
use crate::schema::guest::{Fs, Guest, Program};
use crate::schema::word;

/// Mark with which the script ends the measurement before the run ends.
pub(super) const END: &str = "nandlab: end";
/// Mark of `guest.fs.fsck`: the checker found nothing.
pub const CLEAN: &str = "fsck: clean";
/// Mark of `guest.fs.fsck`: the checker found damage.
pub const DAMAGED: &str = "fsck: damaged";
/// Lines of a checker that the output keeps: the last.
const CHECKER_LINES: u32 = 40;

/// Where the script puts a program of nandlab's.
const PROGRAMS: &str = "/run/nandlab";

/// Commands that put the program of an experiment into the guest, an executable file. They carry the file itself, because parts of the
/// host's tree are hidden in the guest.
pub fn installed(section: &Guest, program: Option<&[u8]>) -> String {
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
    let (setup, job, again) = match section.program {
        Program::Load => (PREPARED, MADE, mounted_again(fs)),
        _ => (setup.as_str(), job.as_str(), String::new()),
    };
    let (enter, leave) = match mount.is_empty() {
        true => ("", ""),
        false => ("cd /mnt\n", "cd /; umount /mnt || code=1\n"),
    };
    let check = if fs.fsck { fscked(fs) } else { String::new() };
    // The subshell keeps `exit` in a job from skipping what follows. That of the setup is no operand of `||`, where a
    // shell ignores `set -e`.
    format!(
        "(set -e\n{mount}{enter}{setup}\n)\n[ $? = 0 ] || exit {SETUP_FAILED}\n\
         echo begin >/dev/nandlab-mark\n\
         ({enter}{job}\n)\ncode=$?\n{leave}{again}{check}exit $code\n"
    )
}

/// Commands that make the calls of a load before its measurement, and the others. nandlab's own run begins a minute after the first
/// mount, in which a file system may erase what it found.
const PREPARED: &str = "sleep 60\nload\nsync";
const MADE: &str = "load";

/// Commands that mount the file system, with marks before and after.
fn mounted_with_marks(fs: &Fs) -> String {
    let mark = |text: &str| format!("echo '{text}' >/dev/nandlab-mark\n");
    mark(MOUNTS) + &mounted(fs, false) + &mark(MOUNTED)
}

/// Commands that mount the file system once more after the measurement, for the time that this takes.
fn mounted_again(fs: &Fs) -> String {
    let detach = detached(fs);
    format!("echo '{END}' >/dev/nandlab-mark\n{detach}(set -e\n{}umount /mnt\n) || code=1\n", mounted_with_marks(fs))
}

/// The script of a device that is switched on for the first time, with no measurement: it writes its files.
pub(super) fn first_start(section: &Guest) -> String {
    format!("set -e\n{}cd /mnt\n{PREPARED}\n", mounted(&section.fs, true))
}

/// The script of such a device every other time. It does not end: power fails.
pub(super) fn next_start(section: &Guest) -> String {
    format!("set -e\n{}cd /mnt\n{MADE}\n", mounted_with_marks(&section.fs))
}

/// Commands that check the file system after the job, which has exited with `$code`.
fn fscked(fs: &Fs) -> String {
    format!(
        "echo '{END}' >/dev/nandlab-mark\n(\n{}\n) >/run/fsck 2>&1\n\
         if [ $? = 0 ]; then echo '{CLEAN}' >/dev/nandlab-mark\n\
         else tail -n {CHECKER_LINES} /run/fsck; [ $code = 0 ] && code=1; echo '{DAMAGED}' >/dev/nandlab-mark; fi\n",
        checked(fs)
    )
}

/// Mark with which the script after a power cut says what is wrong, before what it says.
pub const BROKEN: &str = "broken: ";

/// The script after a power cut: mounts what is there, reads all of it, runs the check, unmounts, and checks the file
/// system. What it finds broken it marks, after the kernel's last lines. `marks`: what the job had marked before the cut.
pub fn after_a_cut<'a>(section: &Guest, marks: impl Iterator<Item = &'a str>) -> String {
    let Guest { fs, check, .. } = section;
    let marks: String = marks.map(|mark| format!("{mark}\n")).collect();
    let broken = |what: &str| format!("{{ dmesg | tail -n 5; echo '{BROKEN}{what}' >/dev/nandlab-mark; exit 1; }}");
    let mut script =
        format!("cat >/run/marks <<'END-OF-NANDLAB-MARKS'\n{marks}END-OF-NANDLAB-MARKS\nexport MARKS=/run/marks\n");
    let mount = mounted(fs, false);
    if mount.is_empty() {
        return script + &format!("( {check}\n) || {}\nexit 0\n", broken("the check failed"));
    }
    for (work, what) in [
        (repaired(fs), "it cannot be repaired"),
        (format!("set -e\n{mount}"), "it does not mount"),
        (format!("cd /mnt && {READ_ALL}"), "a file cannot be read"),
        (format!("cd /mnt\n{check}"), "the check failed"),
        ("umount /mnt".to_owned(), "it cannot be unmounted"),
        (checked_after_a_cut(fs), "the file system is damaged"),
    ] {
        script += &format!("( {work}\n) || {}\n", broken(what));
    }
    script + "exit 0\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::guest::{FsKind, Program};

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

    #[test]
    fn the_checker_comes_after_the_unmount_and_outside_the_measurement() {
        let fs = Fs { kind: FsKind::Vfat, fsck: true, ..Fs::default() };
        let text = script(&Guest { fs, job: "ls".to_owned(), ..Guest::default() }, true);
        let at = |what: &str| text.find(what).unwrap();
        assert!(
            at("umount /mnt") < at(END) && at(END) < at("fsck.vfat -n") && at("fsck.vfat -n") < at(DAMAGED),
            "{text}"
        );
        assert!(!script(&Guest::default(), true).contains(END));
    }
}
