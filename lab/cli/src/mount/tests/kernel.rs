//! Through a FUSE mount: what Linux does for us, and what it passes on.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, IFlags, Mode, RenameFlags, Timespec, Timestamps, XattrFlags, fallocate,
    ioctl_getflags, ioctl_setflags, makedev, mknodat, renameat_with, utimensat,
};
use rustix::io::Errno;

use super::super::session::{How, Unmount, mount_point, unmount};
use super::{how, model, with_mount};

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn files_links_and_directories_behave_as_on_any_file_system() {
    with_mount("files", model(), &how(), |dir| {
        let at = |name: &str| dir.join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/file"), "contents").unwrap();
        fs::hard_link(at("d/file"), at("second")).unwrap();
        symlink("d/file", at("link")).unwrap();
        assert_eq!(fs::read_to_string(at("link")).unwrap(), "contents");
        assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("d/file"));
        let (first, second) = (fs::metadata(at("d/file")).unwrap(), fs::metadata(at("second")).unwrap());
        assert_eq!((first.ino(), first.nlink(), second.nlink()), (second.ino(), 2, 2));
        // Opening it to truncate, appending, and a write far beyond the end.
        File::create(at("second")).unwrap().write_all(b"new").unwrap();
        File::options().append(true).open(at("second")).unwrap().write_all(b"er").unwrap();
        File::options().write(true).open(at("second")).unwrap().write_all_at(b"end", 100_000).unwrap();
        let read = fs::read(at("d/file")).unwrap();
        assert_eq!(
            (read.len(), &read[..5], &read[5..10], &read[100_000..]),
            (100_003, &b"newer"[..], &[0; 5][..], &b"end"[..])
        );
        // As UBIFS reports it: whole blocks of 4 KiB, in units of 512 bytes.
        assert_eq!(fs::metadata(at("second")).unwrap().blocks(), 25 * 8);
        assert_eq!(errno(fs::remove_dir(at("d"))), Some(Errno::NOTEMPTY.raw_os_error()));
        assert_eq!(errno(File::open(at("n".repeat(256).as_str()))), Some(Errno::NAMETOOLONG.raw_os_error()));
        fs::rename(at("d"), at("e")).unwrap();
        fs::remove_file(at("e/file")).unwrap();
        fs::remove_dir(at("e")).unwrap();
        assert_eq!(fs::metadata(at("second")).unwrap().nlink(), 1);
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["link", "second"]);
    });
}

#[test]
fn a_removed_file_lives_while_it_is_open() {
    let after = with_mount("orphan", model(), &how(), |dir| {
        fs::write(dir.join("file"), "before").unwrap();
        let mut file = File::options().read(true).write(true).open(dir.join("file")).unwrap();
        fs::remove_file(dir.join("file")).unwrap();
        file.write_all(b"after!").unwrap();
        let mut text = [0; 6];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!((&text, file.metadata().unwrap().nlink()), (b"after!", 0));
        // A directory too, with what is in the middle of being read.
        fs::create_dir(dir.join("d")).unwrap();
        let open = File::open(dir.join("d")).unwrap();
        fs::remove_dir(dir.join("d")).unwrap();
        assert_eq!(open.metadata().unwrap().nlink(), 0);
    });
    assert_eq!(after.inodes(), 1);
}

#[test]
fn renames_have_linux_s_flags() {
    with_mount("rename", model(), &how(), |dir| {
        let rename = |from: &str, to: &str, flags| renameat_with(CWD, dir.join(from), CWD, dir.join(to), flags);
        fs::write(dir.join("a"), "a").unwrap();
        fs::write(dir.join("b"), "b").unwrap();
        assert_eq!(rename("a", "b", RenameFlags::NOREPLACE), Err(Errno::EXIST));
        rename("a", "b", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "b");
        rename("a", "c", RenameFlags::NOREPLACE).unwrap();
        assert_eq!(rename("a", "c", RenameFlags::EXCHANGE), Err(Errno::NOENT));
        if is_root() {
            rename("c", "d", RenameFlags::WHITEOUT).unwrap();
            let whiteout = fs::symlink_metadata(dir.join("c")).unwrap();
            assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
        }
    });
}

#[test]
fn permissions_owners_and_devices_are_those_that_were_set() {
    with_mount("modes", model(), &how(), |dir| {
        let file = dir.join("file");
        File::options().write(true).create_new(true).mode(0o666).open(&file).unwrap();
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o666 & !umask.bits());
        fs::set_permissions(&file, Permissions::from_mode(0o4751)).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode(), 0o104_751);
        if !is_root() {
            return;
        }
        std::os::unix::fs::chown(&file, Some(1234), Some(65_534)).unwrap();
        let found = fs::metadata(&file).unwrap();
        // chown takes set-user-ID away, also for root.
        assert_eq!((found.uid(), found.gid(), found.mode()), (1234, 65_534, 0o100_751));
        mknodat(CWD, dir.join("dev"), rustix::fs::FileType::BlockDevice, Mode::from(0o640), makedev(300, 70_000))
            .unwrap();
        let device = fs::metadata(dir.join("dev")).unwrap();
        assert!(device.file_type().is_block_device());
        assert_eq!(device.rdev(), makedev(300, 70_000));
        assert_eq!(errno(File::open(dir.join("dev"))), Some(Errno::ACCESS.raw_os_error()), "nodev");
        // In a directory with set-group-ID.
        fs::create_dir(dir.join("d")).unwrap();
        std::os::unix::fs::chown(dir.join("d"), None, Some(77)).unwrap();
        fs::set_permissions(dir.join("d"), Permissions::from_mode(0o2775)).unwrap();
        fs::create_dir(dir.join("d/e")).unwrap();
        fs::write(dir.join("d/f"), "").unwrap();
        let (inner, file) = (fs::metadata(dir.join("d/e")).unwrap(), fs::metadata(dir.join("d/f")).unwrap());
        assert_eq!((inner.gid(), inner.mode() & 0o7000, file.gid()), (77, 0o2000, 77));
    });
}

/// A shell of a user who is neither root nor the owner of anything.
fn as_nobody(dir: &Path, script: &str) -> (Option<i32>, String) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(dir).uid(65_534).gid(65_534);
    let output = command.output().expect("there is a shell");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn linux_checks_permissions_and_takes_set_user_id_away() {
    if !is_root() {
        // Nobody else can be asked for: the mount is for one user alone.
        return;
    }
    with_mount("nobody", model(), &how(), |dir| {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.join("mine"), "secret").unwrap();
        fs::set_permissions(dir.join("mine"), Permissions::from_mode(0o600)).unwrap();
        fs::write(dir.join("theirs"), "x").unwrap();
        for script in ["cat mine", "echo x >new", "rm theirs", "echo x >theirs", "chmod 777 theirs", "mv theirs moved"]
        {
            let (code, said) = as_nobody(dir, script);
            assert_ne!(code, Some(0), "{script}");
            assert!(said.contains("denied") || said.contains("not permitted"), "{script}: {said}");
        }
        let write = |script: &str| {
            fs::set_permissions(dir.join("theirs"), Permissions::from_mode(0o6777)).unwrap();
            assert_eq!(as_nobody(dir, script).0, Some(0), "{script}");
            fs::metadata(dir.join("theirs")).unwrap().mode() & 0o7777
        };
        assert_eq!(write("echo more >>theirs"), 0o777);
        assert_eq!(write("dd if=/dev/zero of=theirs bs=4096 count=1 oflag=direct conv=notrunc 2>&1"), 0o777);
        assert_eq!(write(": >theirs"), 0o777);
        assert_eq!(write("cat theirs"), 0o6777);
    });
}

#[test]
fn extended_attributes_are_kept() {
    with_mount("xattr", model(), &how(), |dir| {
        let file = dir.join("file");
        fs::write(&file, "").unwrap();
        let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&file, name, value, flags);
        set("user.a", b"one", XattrFlags::CREATE).unwrap();
        assert_eq!(set("user.a", b"two", XattrFlags::CREATE), Err(Errno::EXIST));
        assert_eq!(set("user.b", b"two", XattrFlags::REPLACE), Err(Errno::NODATA));
        set("user.long", &[7; 4096], XattrFlags::empty()).unwrap();
        let mut buffer = vec![0; 5000];
        let get = |name: &str, buffer: &mut [u8]| rustix::fs::getxattr(&file, name, buffer);
        assert_eq!((get("user.a", &mut buffer), &buffer[..3]), (Ok(3), &b"one"[..]));
        assert_eq!(rustix::fs::getxattr_query(&file, "user.long"), Ok(4096));
        assert_eq!(get("user.long", &mut buffer[..100]), Err(Errno::RANGE));
        assert_eq!(get("user.none", &mut buffer), Err(Errno::NODATA));
        assert_eq!(
            (rustix::fs::listxattr(&file, &mut buffer[..]), &buffer[..17]),
            (Ok(17), &b"user.a\0user.long\0"[..])
        );
        rustix::fs::removexattr(&file, "user.a").unwrap();
        assert_eq!(rustix::fs::removexattr(&file, "user.a"), Err(Errno::NODATA));
    });
}

#[test]
fn chattr_reaches_the_file_system_and_holds() {
    with_mount("chattr", model(), &how(), |dir| {
        fs::write(dir.join("file"), "kept").unwrap();
        let file = File::open(dir.join("file")).unwrap();
        assert_eq!(ioctl_getflags(&file), Ok(IFlags::COMPRESSED));
        // EOPNOTSUPP; Linux makes ENOTTY of it from 6.17 on.
        assert!(matches!(ioctl_setflags(&file, IFlags::NODUMP), Err(Errno::OPNOTSUPP | Errno::NOTTY)));
        if is_root() {
            ioctl_setflags(&file, IFlags::IMMUTABLE).unwrap();
            assert_eq!(ioctl_getflags(&file), Ok(IFlags::IMMUTABLE));
            assert_eq!(as_nobody(dir, "chattr -i file").0, Some(1), "for root alone");
            assert_eq!(errno(fs::write(dir.join("file"), "lost")), Some(Errno::PERM.raw_os_error()));
            assert_eq!(errno(fs::remove_file(dir.join("file"))), Some(Errno::PERM.raw_os_error()));
            ioctl_setflags(&file, IFlags::APPEND).unwrap();
            assert_eq!(errno(File::create(dir.join("file"))), Some(Errno::PERM.raw_os_error()));
            File::options().append(true).open(dir.join("file")).unwrap().write_all(b"!").unwrap();
            ioctl_setflags(&file, IFlags::empty()).unwrap();
        }
        let mut text = String::new();
        File::open(dir.join("file")).unwrap().read_to_string(&mut text).unwrap();
        assert!(text.starts_with("kept"));
    });
}

#[test]
fn times_go_both_ways_also_those_before_1970() {
    with_mount("times", model(), &how(), |dir| {
        let file = dir.join("file");
        fs::write(&file, "x").unwrap();
        assert!(fs::metadata(&file).unwrap().modified().unwrap().elapsed().unwrap().as_secs() < 60);
        for (tv_sec, tv_nsec) in [(1_234_567_890, 123_456_789), (-2, 250_000_000), (-5, 0), (0, 1), (20_000_000_000, 7)]
        {
            let time = Timespec { tv_sec, tv_nsec };
            let times = Timestamps { last_access: time, last_modification: time };
            utimensat(CWD, &file, &times, AtFlags::empty()).unwrap();
            let found = fs::metadata(&file).unwrap();
            assert_eq!((found.mtime(), found.mtime_nsec()), (tv_sec, tv_nsec));
            assert_eq!((found.atime(), found.atime_nsec()), (tv_sec, tv_nsec));
        }
        // Reading leaves the time of the last access alone.
        fs::read(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().atime(), 20_000_000_000);
    });
}

#[test]
fn what_the_file_system_does_not_have_is_refused_with_its_error() {
    with_mount("refused", model(), &how(), |dir| {
        let file = File::create(dir.join("file")).unwrap();
        // As UBIFS.
        assert_eq!(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 10), Err(Errno::OPNOTSUPP));
        // What Linux does by itself where a file system has no answer.
        file.set_len(10_000).unwrap();
        assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(5)), Ok(10_000));
        file.sync_all().unwrap();
        file.sync_data().unwrap();
        File::open(dir).unwrap().sync_all().unwrap();
        let found = rustix::fs::statvfs(dir).unwrap();
        assert_eq!((found.f_bsize, found.f_namemax, found.f_blocks), (4096, 255, 1 << 40));
    });
}

#[test]
fn a_mount_for_reading_refuses_every_change() {
    let mut fs = model();
    fs = with_mount("write", fs, &how(), |dir| fs::write(dir.join("file"), "there").unwrap());
    with_mount("read", fs, &How { read_only: true, ..how() }, |dir| {
        let file = dir.join("file");
        let read_only = Some(Errno::ROFS.raw_os_error());
        assert_eq!(fs::read_to_string(&file).unwrap(), "there");
        assert_eq!(errno(fs::write(&file, "x")), read_only);
        assert_eq!(errno(fs::remove_file(&file)), read_only);
        assert_eq!(errno(fs::create_dir(dir.join("d"))), read_only);
        assert_eq!(errno(fs::set_permissions(&file, Permissions::from_mode(0o600))), read_only);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts.lines().find(|line| line.contains(dir.to_str().unwrap())).expect("it is mounted");
        let options = line.split(' ').nth(3).unwrap();
        assert!(line.contains("fuse.nandlab") && line.starts_with("a_\\040test "), "{line}");
        for option in ["ro", "nosuid", "nodev", "noatime", "default_permissions"] {
            assert!(options.split(',').any(|found| found == option), "{line}");
        }
    });
}

#[test]
fn a_mount_in_use_stays_until_it_is_taken_away_anyway() {
    with_mount("busy", model(), &how(), |dir| {
        fs::write(dir.join("file"), "x").unwrap();
        let file = File::open(dir.join("file")).unwrap();
        assert_eq!(unmount(dir, Unmount::IfUnused), Err("it is in use".to_owned()));
        assert!(dir.join("file").exists());
        unmount(dir, Unmount::Anyway).unwrap();
        assert!(!dir.join("file").exists());
        let mut byte = [0];
        assert!(file.read_exact_at(&mut byte, 5000).is_err());
        assert_eq!(unmount(dir, Unmount::IfUnused), Ok(()), "there is nothing any more");
    });
}

#[test]
fn a_directory_that_cannot_be_mounted_on_is_named_with_a_remedy() {
    let dir = std::env::temp_dir().join(format!("nandlab-mount-none-{}", std::process::id()));
    let missing = mount_point(&dir).unwrap_err().report();
    assert!(missing.contains("no such directory") && missing.contains("mkdir "), "{missing}");
    fs::write(&dir, "").unwrap();
    let file = mount_point(&dir).unwrap_err().report();
    assert!(file.contains("found a file"), "{file}");
    fs::remove_file(&dir).unwrap();
}
