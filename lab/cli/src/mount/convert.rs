//! What FUSE says and what the seam of file systems says: the same facts in other types.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, INodeNo};
use sim::seam::{Attr, DeviceNumber, FileType, FsError, InodeFlags, Timestamp};

/// Bits of `st_mode` that say the type.
const TYPE_BITS: u32 = 0o170_000;
/// Unit of a file's blocks in bytes, as UBIFS reports it.
const BLOCK_BYTES: u64 = 4096;

/// The error number of an error.
pub fn errno(error: &FsError) -> Errno {
    Errno::from_i32(error.errno())
}

/// What FUSE knows of an inode, which it calls `ino`.
pub fn file_attr(attr: &Attr, ino: INodeNo) -> FileAttr {
    // As UBIFS does on Linux: holes and compression are not counted.
    let blocks = match attr.file_type {
        FileType::Regular => attr.size.div_ceil(BLOCK_BYTES) * (BLOCK_BYTES / 512),
        _ => 0,
    };
    // What has no contents has no size, where UBIFS has that of the device's number.
    let has_size = matches!(attr.file_type, FileType::Regular | FileType::Directory | FileType::Symlink);
    FileAttr {
        ino,
        size: if has_size { attr.size } else { 0 },
        blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: kind(attr.file_type),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: rdev(attr.device),
        blksize: BLOCK_BYTES as u32,
        flags: 0,
    }
}

/// A type.
pub fn kind(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::Regular => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::CharDevice => fuser::FileType::CharDevice,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
    }
}

/// The type in a `st_mode`, if it has one.
pub fn file_type(mode: u32) -> Option<FileType> {
    FileType::ALL.into_iter().find(|file_type| file_type.mode_bits() == mode & TYPE_BITS)
}

/// A number of a device in 32 bits: 8 bits of the minor number, 12 of the major, 12 more of the minor.
pub fn rdev(device: DeviceNumber) -> u32 {
    device.minor & 0xff | (device.major & 0xfff) << 8 | (device.minor & !0xff) << 12
}

/// The device with this number, as [`rdev`] makes it.
pub fn device(rdev: u32) -> DeviceNumber {
    DeviceNumber { major: rdev >> 8 & 0xfff, minor: rdev & 0xff | rdev >> 12 & !0xff }
}

/// Flags of an inode with the numbers of `FS_XFLAG_…` (linux/fs.h), as far as these have them.
pub fn xflags(flags: InodeFlags) -> u32 {
    let table = [(InodeFlags::IMMUTABLE, 0x8), (InodeFlags::APPEND, 0x10), (InodeFlags::SYNC, 0x20)];
    table.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, number)| number).sum()
}

/// A time. Seconds from 2^63 on are before 1970, as Linux reads them; what no `SystemTime` can be is 1970.
pub fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos) % 1_000_000_000);
    let second = match time.seconds as i64 {
        seconds @ 0.. => UNIX_EPOCH.checked_add(Duration::from_secs(seconds as u64)),
        seconds => UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    second.and_then(|second| second.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// A time; the inverse of [`system_time`].
pub fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp { seconds: after.as_secs(), nanos: after.subsec_nanos() },
        Err(error) => {
            let before = error.duration();
            let (seconds, nanos) = match before.subsec_nanos() {
                0 => (before.as_secs(), 0),
                nanos => (before.as_secs() + 1, 1_000_000_000 - nanos),
            };
            Timestamp { seconds: seconds.wrapping_neg(), nanos }
        }
    }
}

/// A time that a request sets. fuser 0.18 adds the nanoseconds of a time before 1970 on the wrong side of the second.
pub fn requested(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(_) => timestamp(time),
        Err(error) => {
            let before = error.duration();
            Timestamp { seconds: before.as_secs().wrapping_neg(), nanos: before.subsec_nanos() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `makedev(3)`: the numbers that `stat` prints for `mknod c 300 70000`, and the largest ones.
    #[test]
    fn device_numbers_have_linux_s_bits() {
        let table = [((8, 1), 0x801), ((300, 70_000), 0x1111_2c70), ((0xfff, 0xf_ffff), u32::MAX), ((0, 0), 0)];
        for ((major, minor), number) in table {
            let found = DeviceNumber { major, minor };
            assert_eq!((rdev(found), device(number)), (number, found));
        }
    }

    #[test]
    fn times_before_1970_are_negative_seconds_and_positive_nanoseconds() {
        let quarter = Duration::from_millis(250);
        // 1.75 s before 1970 is second -2 and a quarter.
        let time = UNIX_EPOCH - Duration::from_millis(1750);
        let expected = Timestamp { seconds: (-2i64) as u64, nanos: 250_000_000 };
        assert_eq!((timestamp(time), system_time(expected)), (expected, time));
        assert_eq!(timestamp(UNIX_EPOCH + quarter), Timestamp { seconds: 0, nanos: 250_000_000 });
        assert!(system_time(Timestamp { seconds: i64::MAX as u64, nanos: u32::MAX }) >= UNIX_EPOCH);
        assert!(system_time(Timestamp { seconds: 1 << 63, nanos: 0 }) <= UNIX_EPOCH);
    }

    #[test]
    fn a_mode_tells_its_type_or_none() {
        for file_type in FileType::ALL {
            assert_eq!(super::file_type(file_type.mode_bits() | 0o7777), Some(file_type));
        }
        assert_eq!((file_type(0o777), file_type(0o150_000)), (None, None));
    }

    #[test]
    fn flags_have_other_numbers_in_fsxattr() {
        let all = InodeFlags(0x1_0000) | InodeFlags::COMPRESSED | InodeFlags::SYNC | InodeFlags::APPEND;
        assert_eq!((xflags(all), xflags(InodeFlags::IMMUTABLE)), (0x30, 0x8));
    }
}
