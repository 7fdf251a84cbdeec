//! Draws operations: few names, so that they meet.

use proptest::prelude::*;
use proptest::sample::select;
use sim::seam::{DeviceNumber, FileType, NAME_MAX, RenameFlags, SetXattr, Timestamp};

use super::{At, Fill, Kind, MAX_OPENED, Op, PRESENT, Which};

/// What may be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// What only root may: devices, owners, whiteouts, `trusted.` attributes.
    pub root: bool,
    /// Longest value of an extended attribute; `None` if there are none.
    pub xattr_bytes: Option<usize>,
}

/// Names with the same hash in UBIFS (`r5`).
pub const COLLIDING: [&[u8]; 2] = [b"ao", b"bd"];

/// Names. Two have the same hash in UBIFS (`r5`), two are at the limit of the length, one is no text.
fn name() -> impl Strategy<Value = Vec<u8>> + Clone {
    prop_oneof![
        50 => select(&b"abcdef"[..]).prop_map(|letter| vec![letter]),
        5 => select(&COLLIDING[..]).prop_map(<[u8]>::to_vec),
        4 => Just(b"\xff\x01 \n".to_vec()),
        1 => select(vec![255, 256]).prop_map(|length| vec![b'n'; length]),
    ]
}

pub fn at() -> impl Strategy<Value = At> {
    // Directories are to be found again: two names stand for most.
    let above = prop_oneof![7 => select(&b"ab"[..]).prop_map(|letter| vec![letter]), 1 => name()];
    let depth = select(&[0usize, 0, 0, 0, 1, 1, 1, 2, 2, 3][..]);
    let above = depth.prop_flat_map(move |depth| prop::collection::vec(above.clone(), depth));
    (prop_oneof![4 => Just(0), 1 => 0..MAX_OPENED], above, name()).prop_map(|(base, mut path, name)| {
        // In a removed directory Linux does not come to see that a name is too long.
        path.push(name);
        let base = if path.iter().any(|name| name.len() > NAME_MAX) { 0 } else { base };
        At { base, path, exists: None }
    })
}

/// A name that mostly exists.
pub fn there() -> impl Strategy<Value = At> {
    let exists = prop_oneof![1 => Just(None), 2 => (0..64usize).prop_map(Some)];
    (at(), exists).prop_map(|(at, exists)| At { exists, ..at })
}

pub fn which() -> impl Strategy<Value = Which> {
    prop_oneof![1 => there().prop_map(Which::Named), 1 => (0..MAX_OPENED).prop_map(Which::Opened)]
}

pub fn fill(length: impl Strategy<Value = usize>) -> impl Strategy<Value = Fill> {
    let kind = prop_oneof![1 => Just(Kind::Zeroes), 2 => Just(Kind::Text), 3 => Just(Kind::Noise)];
    (kind, length, any::<u64>()).prop_map(|(kind, length, seed)| Fill { kind, length, seed })
}

/// Offsets in and around the first blocks, and some far beyond the end.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (select(&[0u64, 4095, 4096, 8192][..]), 0..9000u64).prop_map(|(base, more)| base + more),
        2 => (0..5u64).prop_map(|block| block * 4096),
        1 => 0..1_000_000u64,
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![2 => 0..200usize, 3 => Just(4096), 3 => 4000..9000usize, 1 => 0..65_537usize]
}

pub fn mode() -> impl Strategy<Value = u32> {
    (0..0o1000u32).prop_map(|mode| mode | 0o700)
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..PRESENT / 2, 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Timestamp { seconds, nanos })
}

fn mknod(allowed: Allowed) -> impl Strategy<Value = Op> {
    let pipes = vec![FileType::Fifo, FileType::Socket, FileType::Regular];
    let all = [&pipes[..], &[FileType::CharDevice, FileType::BlockDevice]].concat();
    let file_type = select(if allowed.root { all } else { pipes });
    (at(), file_type, 0..1u32 << 12, 0..1u32 << 20).prop_map(|(at, file_type, major, minor)| {
        let device = DeviceNumber { major, minor };
        Op::Mknod(at, file_type, if file_type.is_device() { device } else { DeviceNumber::default() })
    })
}

fn symlink() -> impl Strategy<Value = Op> {
    let length = prop_oneof![7 => 1..200usize, 3 => select(&[0usize, 1, 60, 4095, 4096][..])];
    (at(), length).prop_map(|(at, length)| Op::Symlink(at, length))
}

fn rename(allowed: Allowed) -> impl Strategy<Value = Op> {
    let flags = select(&[0u32, 0, 0, 0, 1, 2, 2, 2, 4, 4, 5, 3, 8][..]);
    let mask = if allowed.root { !0 } else { !RenameFlags::WHITEOUT.0 };
    (there(), prop_oneof![2 => at().boxed(), 1 => there().boxed()], flags)
        .prop_map(move |(from, to, flags)| Op::Rename(from, to, RenameFlags(flags & mask)))
}

fn xattr(allowed: Allowed, bytes: usize) -> impl Strategy<Value = Op> {
    let names = ["user.a", "user.a", "user.a", "user.b", "user.", "user.c", "plain", "trusted.a"];
    let name = select(names[..if allowed.root { 8 } else { 7 }].to_vec());
    let length = prop_oneof![3 => 0..bytes.min(200), 1 => 0..bytes + 1];
    let how = select(vec![SetXattr::Set, SetXattr::Create, SetXattr::Replace]);
    prop_oneof![
        3 => (which(), name.clone()).prop_map(|(which, name)| Op::Getxattr(which, name)),
        6 => (which(), name.clone(), fill(length), how)
            .prop_map(|(which, name, value, how)| Op::Setxattr(which, name, value, how)),
        2 => (which(), name).prop_map(|(which, name)| Op::Removexattr(which, name)),
    ]
}

/// What only root may do, or a file with attributes have, becomes `Stat` where it is not allowed.
pub fn op(allowed: Allowed) -> impl Strategy<Value = Op> {
    let stat = || there().prop_map(Op::Stat).boxed();
    let chown = (there(), 0..1000u32, 0..1000u32).prop_map(|(at, uid, gid)| Op::Chown(at, uid, gid));
    let link_opened = (0..MAX_OPENED, at()).prop_map(|(from, to)| Op::LinkOpened(from, to));
    let (chown, link_opened) = if allowed.root { (chown.boxed(), link_opened.boxed()) } else { (stat(), stat()) };
    let xattr = allowed.xattr_bytes.map_or_else(stat, |bytes| xattr(allowed, bytes).boxed());
    let chmod = (mode(), select(&[0, 0o2000][..])).prop_map(|(mode, set_group)| mode | set_group);
    prop_oneof![
        10 => (at(), mode()).prop_map(|(at, mode)| Op::Create(at, mode)),
        7 => (at(), mode()).prop_map(|(at, mode)| Op::Mkdir(at, mode)),
        3 => mknod(allowed),
        4 => symlink(),
        4 => there().prop_map(Op::Readlink),
        8 => (there(), at()).prop_map(|(from, to)| Op::Link(from, to)),
        1 => link_opened,
        8 => there().prop_map(Op::Unlink),
        6 => there().prop_map(Op::Rmdir),
        18 => rename(allowed),
        2 => stat(),
        2 => (there(), chmod).prop_map(|(at, mode)| Op::Chmod(at, mode)),
        2 => chown,
        3 => (there(), time(), time()).prop_map(|(at, atime, mtime)| Op::Times(at, atime, mtime)),
        5 => (which(), prop_oneof![Just(0), offset()]).prop_map(|(which, size)| Op::Truncate(which, size)),
        9 => (which(), offset(), fill(length())).prop_map(|(which, offset, data)| Op::Write(which, offset, data)),
        6 => (which(), offset()).prop_map(|(which, offset)| Op::Read(which, offset, 6000)),
        10 => xattr,
        3 => there().prop_map(Op::Open),
        2 => (0..MAX_OPENED).prop_map(Op::Release),
    ]
}
