//! What a call writes, beside Linux: `nandlab study fastmap-latency --kernel` shows it of a guest.

use sim::seam::{
    FileSystem, Ino, InodeFlags, LebVolume, NewInode, PageState, Payload, RamVolume, ReadInto, RenameFlags, SetXattr,
    StatFs,
};
use sim::{Cx, Ns};

use super::*;
use crate::cache::{self, PageCache, WriteBack};
use crate::ubifs::media::OrphanNode;
use crate::ubifs::mkfs;
use crate::ubifs::scan::{Recovery, scan};
use crate::ubifs::{Options, Part};

const SECOND: Ns = Ns(1_000_000_000);

/// Bytes of data nodes, of inodes and entries, and of padding that a call has written.
fn of_call(
    fs: &mut Ubifs<RamVolume>,
    cx: &mut Cx,
    call: impl FnOnce(&mut Ubifs<RamVolume>, &mut Cx) -> std::result::Result<(), FsError>,
) -> [u64; 3] {
    let count = |fs: &Ubifs<RamVolume>| [Part::Data, Part::Inodes, Part::Padding].map(|part| fs.written()[part]);
    let before = count(fs);
    call(fs, cx).unwrap();
    let after = count(fs);
    std::array::from_fn(|at| after[at] - before[at])
}

/// Times are whole seconds where Linux or mkfs.ubifs made the file system (`time_gran`), and an inode is written if it changed.
/// A data node of a block has 48 + 4,096 bytes, three pages of 2,048; an inode 160, one page.
#[test]
fn a_synchronized_overwrite_writes_the_inode_if_its_times_move() {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: mkfs::Compress::Always(Compression::None), ..mkfs::Options::new(2048, 126_976, 60) };
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    let write = |fs: &mut Ubifs<RamVolume>, cx: &mut Cx| {
        fs.write(cx, ino, 0, Payload::Bytes(&[7; 4096]))?;
        fs.fsync(cx, ino, false)
    };
    write(&mut fs, cx).unwrap();
    assert_eq!(of_call(&mut fs, cx, write), [4144, 0, 3 * 2048 - 4144], "in the same second");
    cx.wait_until(SECOND);
    assert_eq!(of_call(&mut fs, cx, write), [4144, 160, 4 * 2048 - 4144 - 160], "in the next one");
    cx.wait_until(SECOND + Ns(700_000_000));
    assert_eq!(of_call(&mut fs, cx, write), [4144, 0, 3 * 2048 - 4144], "later in that one");
    assert_eq!(fs.getattr(cx, ino).unwrap().mtime, Timestamp { seconds: 1, nanos: 0 });
    // A file that grows is written in any second, and so is one whose mode was changed.
    let append = |fs: &mut Ubifs<RamVolume>, cx: &mut Cx| {
        fs.write(cx, ino, 4096, Payload::Bytes(&[7; 4096]))?;
        fs.fsync(cx, ino, false)
    };
    assert_eq!(of_call(&mut fs, cx, append), [4144, 160, 4 * 2048 - 4144 - 160]);
    fs.setattr(cx, ino, &sim::seam::SetAttr { mode: Some(0o600), ..Default::default() }).unwrap();
    assert_eq!(of_call(&mut fs, cx, write), [4144, 160, 4 * 2048 - 4144 - 160]);
}

/// A page of which the cache has nothing is promised an index node of 192 bytes; one that it has is not, unless it is a hole.
/// Three times the index is kept, in LEBs without the largest node, with one for its head, and at least two. By hand: 600 nodes
/// alone are 3 × 115,200 / 15,680, or 23 LEBs, and one. An index of 600 blocks, eight to a node, and of the nodes above takes some 17 KB: four
/// LEBs, and one. Linux 6.12 `ubifs_write_begin`, `ubifs_calc_min_idx_lebs`.
#[test]
fn a_page_that_is_cached_takes_no_space_of_the_index_unless_it_is_a_hole() {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: mkfs::Compress::Always(Compression::None), ..mkfs::Options::new(512, 15_872, 600) };
    let mut fs = Ubifs::format(RamVolume::new(600, 15_872, 512), cx, &make, Options::default()).unwrap();
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    for page in 0..600 {
        fs.write(cx, ino, page * 4096, Payload::Bytes(&[7; 4096])).unwrap();
    }
    fs.setattr(cx, ino, &sim::seam::SetAttr::size(1200 * 4096)).unwrap();
    fs.sync(cx).unwrap();
    for (state, first, is_new) in [
        (PageState::Clean, 0, false),
        (PageState::Absent, 0, true),
        (PageState::Clean, 600, true),
        (PageState::Dirty, 0, false),
    ] {
        for page in first..first + 600 {
            let held = fs.hold_back(cx, ino, page * 4096, 4096, state).unwrap();
            assert!(held.length == 4096 && (held.is_new == is_new || state == PageState::Dirty), "{held:?}");
        }
        let least = fs.budget.min_index_lebs;
        assert!(if is_new { least >= 24 } else { least == 5 }, "{state:?} from page {first}: {least}");
        if state != PageState::Dirty {
            fs.let_go(ino, &[is_new; 600]);
            fs.index_was_committed();
        }
    }
}

/// Directories that hold each other, as in a damaged image: the way up has no end.
#[test]
fn a_rename_ends_where_directories_hold_each_other() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(2048, 126_976, 60);
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let root = FileSystem::root(&fs);
    let made = [b"a", b"b", b"c"].map(|name| fs.mkdir(cx, root, name, NewInode::of_root(0o755)).unwrap().ino);
    let [a, b] = [made[0], made[1]].map(|ino| fs.get(cx, ino).unwrap());
    let inos = [a, b].map(|slot| fs.inodes.at(slot).ino);
    fs.inodes.set_above(a, inos[1]);
    fs.inodes.set_above(b, inos[0]);
    fs.rename(cx, (root, b"c"), (made[0], b"c"), RenameFlags::NONE).unwrap();
    assert_eq!(fs.lookup(cx, made[0], b"c").unwrap().ino, made[2]);
}

/// The first file's write-back fails on the medium; the second's, since the file system is read-only by then.
#[test]
fn write_backs_that_fail_release_what_was_promised_once() {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: mkfs::Compress::Always(Compression::None), ..mkfs::Options::new(2048, 126_976, 60) };
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let root = FileSystem::root(&fs);
    let inos = [b"a", b"b"].map(|name| fs.create(cx, root, name, NewInode::of_root(0o644)).unwrap().ino);
    fs.sync(cx).unwrap();
    for ino in inos {
        for page in 0..5 {
            fs.hold_back(cx, ino, page * 4096, 4096, PageState::Absent).unwrap();
        }
    }
    assert_eq!(fs.budget.data_growth, 10 * 4144);
    // Programs of its journal find no LEB.
    *fs.volume_mut() = RamVolume::new(1, 126_976, 2048);
    let left = inos.map(|ino| {
        fs.write_back(cx, ino, 0, Payload::Bytes(&[7; 5 * 4096]), &[true; 5]).unwrap_err();
        fs.budget.data_growth
    });
    assert_eq!(left, [5 * 4144, 0]);
}

/// A cut within a page that has space promised: without space for the cut nothing changes, with it the promise is used up, and where the
/// medium fails it is left to who kept the page.
#[test]
fn a_cut_within_a_page_uses_up_its_promise_once() {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: mkfs::Compress::Always(Compression::None), ..mkfs::Options::new(2048, 126_976, 60) };
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let ino = fs.create(cx, FileSystem::root(&fs), b"a", NewInode::of_root(0o644)).unwrap().ino;
    fs.sync(cx).unwrap();
    fs.hold_back(cx, ino, 0, 4096, PageState::Absent).unwrap();
    let cut = |fs: &mut Ubifs<RamVolume>, cx: &mut Cx| {
        let change = sim::seam::SetAttr::size(100);
        fs.cut_within_page(cx, ino, &change, Payload::Bytes(&[7; 100]), true)
    };
    let promised = |fs: &Ubifs<RamVolume>| (fs.budget.data_growth, fs.budget.pages());
    let room = fs.available(fs.calc_min_index_lebs()) - fs.outstanding();
    let mut full = fs.clone();
    full.budget.data_growth += room;
    assert_eq!((cut(&mut full, cx), promised(&full)), (Err(FsError::NoSpace), (4144 + room, 1)));
    assert_eq!(full.getattr(cx, ino).unwrap().size, 4096);
    let mut broken = fs.clone();
    *broken.volume_mut() = RamVolume::new(1, 126_976, 2048);
    assert!(cut(&mut broken, cx).is_err_and(|error| error != FsError::NoSpace));
    assert_eq!(promised(&broken), (4144, 1));
    broken.let_go(ino, &[true]);
    // 48 bytes of header and 100 of data, in eights; an inode, and 56 of a truncation; a page for each.
    let written = of_call(&mut fs, cx, |fs, cx| {
        assert_eq!(cut(fs, cx)?.map(|attr| attr.size), Some(100));
        fs.fsync(cx, ino, false)
    });
    assert_eq!((written, promised(&fs)), ([152, 160 + 56, 2 * 2048 - 152 - 160 - 56], (0, 0)));
}

/// Inodes that others write, one by one, leave the list of those that are dirty.
#[test]
fn the_list_of_dirty_inodes_stays_as_long_as_they_are_many() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(2048, 126_976, 60);
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    assert_eq!(fs.next_dirtied(), None);
    let root = FileSystem::root(&fs);
    for second in 1..2_000 {
        cx.wait_until(SECOND * second);
        fs.setattr(cx, root, &sim::seam::SetAttr { mode: Some(0o700), ..Default::default() }).unwrap();
        assert_eq!(fs.next_dirtied(), Some(root));
        FileSystem::write_inode(&mut fs, cx, root).unwrap();
    }
    assert!(fs.inodes.listed() <= 66, "{} entries", fs.inodes.listed());
}

/// What `stat -f` said in Linux 6.12 of file systems that it had made on 64 and 256 eraseblocks of 128 KiB with pages of 2 KiB, empty and with
/// a synchronized file of 100 pages: blocks, free, available.
#[test]
fn free_space_is_what_linux_reports() {
    let cx = &mut Cx::new();
    for (lebs, expected) in
        [(56, [(1118, 1112, 1044), (1118, 1015, 948)]), (245, [(6537, 6530, 6186), (6537, 6434, 6090)])]
    {
        let make = mkfs::Options {
            compress: mkfs::Compress::Always(Compression::None),
            ..mkfs::Options::first_mount(2048, 126_976, lebs)
        };
        let mut fs = Ubifs::format(RamVolume::new(lebs, 126_976, 2048), cx, &make, Options::default()).unwrap();
        let ours = |fs: &mut Ubifs<RamVolume>, cx: &mut Cx| {
            let StatFs { blocks, free, available, .. } = fs.statfs(cx).unwrap();
            (blocks, free, available)
        };
        let empty = ours(&mut fs, cx);
        let ino = fs.create(cx, FileSystem::root(&fs), b"a", NewInode::of_root(0o644)).unwrap().ino;
        fs.write(cx, ino, 0, Payload::Bytes(&[0; 100 * 4096])).unwrap();
        fs.sync(cx).unwrap();
        assert_eq!([empty, ours(&mut fs, cx)], expected, "{lebs} LEBs");
    }
}

/// Linux 6.12 `make_free_space`: pages that are dirty have more space promised than they will take, so that nobody is refused as long as
/// there are any.
#[test]
fn no_space_is_left_only_when_every_page_is_written() {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: mkfs::Compress::Always(Compression::None), ..mkfs::Options::new(512, 15_872, 120) };
    let inner = Ubifs::format(RamVolume::new(120, 15_872, 512), cx, &make, Options::default()).unwrap();
    let mut fs = PageCache::new(inner, cache::Config::linux(1 << 30));
    let root = FileSystem::root(&fs);
    // Files of one byte: what is promised for each is forty times what it takes.
    let mut files = Vec::new();
    for number in 0_u32.. {
        let made = fs.create(cx, root, number.to_string().as_bytes(), NewInode::of_root(0o644));
        let written =
            made.and_then(|attr| fs.write(cx, attr.ino, 0, Payload::Bytes(&[number as u8])).map(|_| attr.ino));
        assert_eq!(fs.inner().budget.pages() as u64 * 4096, fs.dirty_bytes());
        match written {
            Ok(ino) => files.push((ino, number as u8)),
            Err(error) => {
                assert_eq!((error, fs.dirty_bytes()), (FsError::NoSpace, 0), "after {} files", files.len());
                break;
            }
        }
    }
    let written = fs.counters().written[WriteBack::Space];
    assert_eq!(written, files.len() as u64, "each file was written for the space of others");
    assert!(files.len() > 1_000, "{} files", files.len());
    for (ino, byte) in files {
        let mut found = [0; 2];
        assert_eq!((fs.read(cx, ino, 0, ReadInto::Bytes(&mut found)), found[0]), (Ok(1), byte));
    }
}

/// A write takes, in another second, 160 bytes for the inode, and 4,144 for its page. Where only the inode fits, it has its new times, and
/// other pages are to be written back before anything else makes space for the page.
#[test]
fn a_write_whose_page_has_no_space_wants_pages_written_and_moves_the_times() {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: mkfs::Compress::Always(Compression::None), ..mkfs::Options::new(2048, 126_976, 60) };
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    fs.write(cx, ino, 0, Payload::Bytes(&[7; 4096])).unwrap();
    fs.sync(cx).unwrap();
    cx.wait_until(SECOND);
    let room = fs.available(fs.calc_min_index_lebs()) - fs.outstanding();
    for (left, fits) in [(4144 + 160, true), (4144 + 159, false), (4144, false), (4143, false)] {
        let mut fs = fs.clone();
        fs.budget.data_growth += room - left;
        fs.budget.keeps_page();
        let (promised, written) = (fs.outstanding(), *fs.written());
        let of_index = fs.budget.of_index();
        let held = fs.hold_back(cx, ino, 0, 4096, PageState::Clean);
        assert_eq!((held.is_ok(), fs.wants_write_back()), (fits, !fits), "{left} bytes are left");
        if !fits {
            assert!(fs.outstanding() == promised + 160 && *fs.written() == written, "{left} bytes are left");
            fs.budget.data_growth -= room - left;
            fs.budget.loses_pages(1);
            fs.hold_back(cx, ino, 0, 4096, PageState::Clean).unwrap();
            // Space was made for a new page. This one is on flash, so that no index node is added, now or with the next commit.
            assert_eq!(fs.budget.of_index(), of_index);
        }
    }
}

/// Who does not write pages back is not asked twice. A call that has changed something asks for none: it could not be made again.
#[test]
fn pages_are_wanted_once_and_of_calls_that_can_be_made_again() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(2048, 126_976, 60);
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let root = FileSystem::root(&fs);
    let ino = fs.create(cx, root, b"file", NewInode::of_root(0o644)).unwrap().ino;
    fs.setxattr(cx, ino, b"user.a", &[1; 8], SetXattr::Set).unwrap();
    fs.open(cx, ino).unwrap();
    fs.unlink(cx, root, b"file").unwrap();
    fs.sync(cx).unwrap();
    let room = fs.available(fs.calc_min_index_lebs()) - fs.outstanding();
    fs.budget.keeps_page();
    // An attribute of a file without a name is removed and made anew: 312 + 2 x 160 bytes fit, 312 + 2 x 160 + 1000 do not, not even
    // in what the removal leaves.
    fs.budget.data_growth += room - 700;
    let set = fs.setxattr(cx, ino, b"user.a", &[2; 1000], SetXattr::Replace);
    assert_eq!((set, fs.wants_write_back()), (Err(FsError::NoSpace), false));
    assert_eq!(fs.getxattr(cx, ino, b"user.a"), Err(FsError::NoAttr { ino }), "it was removed");
    fs.budget.data_growth += 700;
    fs.space_was_made();
    let wants = [b"a", b"b"].map(|name| {
        assert_eq!(fs.create(cx, root, name, NewInode::of_root(0o644)).map(drop), Err(FsError::NoSpace));
        fs.wants_write_back()
    });
    assert_eq!(wants, [true, false]);
}

/// The order in which Linux 6.12 wrote these nodes, as a guest's flash has them: `chmod` of one file, an overwrite of another,
/// and 3 s later a `chmod` of a third. Its flusher goes through inodes and pages in one list.
#[test]
fn an_inode_is_written_after_its_pages_and_after_older_inodes() {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: mkfs::Compress::Always(Compression::None), ..mkfs::Options::new(2048, 126_976, 60) };
    let inner = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let mut fs = PageCache::new(inner, cache::Config::linux(1 << 30));
    let root = FileSystem::root(&fs);
    let [a, b, c] = [b"a", b"b", b"c"].map(|name| fs.create(cx, root, name, NewInode::of_root(0o644)).unwrap().ino);
    fs.write(cx, b, 0, Payload::Bytes(&[7; 3 * 4096])).unwrap();
    fs.sync(cx).unwrap();
    let last = fs.inner().sqnum;
    let chmod = sim::seam::SetAttr { mode: Some(0o600), ..Default::default() };
    cx.wait_until(SECOND);
    fs.setattr(cx, a, &chmod).unwrap();
    cx.wait_until(SECOND * 2);
    fs.write(cx, b, 0, Payload::Bytes(&[8; 3 * 4096])).unwrap();
    cx.wait_until(SECOND * 5);
    fs.setattr(cx, c, &chmod).unwrap();
    while fs.next_wake().is_some() {
        fs.wake(cx).unwrap();
    }
    fs.sync(cx).unwrap();
    let mut nodes = Vec::new();
    for lnum in 0..60 {
        let mut leb = vec![0; 126_976];
        fs.inner_mut().volume_mut().read(cx, sim::Lnum(lnum), 0, &mut leb).unwrap();
        for at in (0..leb.len()).step_by(8).filter(|&at| leb[at..at + 4] == 0x0610_1831_u32.to_le_bytes()) {
            let number = u64::from_le_bytes(leb[at + 8..at + 16].try_into().unwrap());
            let ino = u32::from_le_bytes(leb[at + 24..at + 28].try_into().unwrap());
            if number > last && leb[at + 20] <= 1 {
                nodes.push((number, leb[at + 20], Ino(ino.into())));
            }
        }
    }
    nodes.sort_unstable();
    let order: Vec<_> = nodes.into_iter().map(|(_, kind, ino)| (kind, ino)).collect();
    assert_eq!(order, [(0, a), (1, b), (1, b), (1, b), (0, b), (0, c)], "kind (0 of inodes, 1 of data) and inode");
}

/// A page that a cut has written is clean: it does not count towards the limits, and is not written again.
#[test]
fn a_page_that_a_cut_has_written_is_clean() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(2048, 126_976, 60);
    let inner = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let mut fs = PageCache::new(inner, cache::Config::linux(1 << 30));
    let ino = fs.create(cx, FileSystem::root(&fs), b"a", NewInode::of_root(0o644)).unwrap().ino;
    fs.write(cx, ino, 0, Payload::Bytes(&[7; 3 * 4096])).unwrap();
    fs.setattr(cx, ino, &sim::seam::SetAttr::size(100)).unwrap();
    let counters = fs.counters();
    assert_eq!((fs.dirty_bytes(), counters.written[WriteBack::Truncate], counters.dropped), (0, 1, 2));
    assert_eq!(fs.inner().budget.pages(), 0);
    fs.sync(cx).unwrap();
    assert_eq!(fs.counters().written.total(), 1);
}

/// Linux, `ubifs_ro_mode`: after an error of the medium nothing is written any more, though the medium is well again. What is there can be
/// read.
#[test]
fn an_error_of_the_medium_makes_it_read_only() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(2048, 126_976, 60);
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let root = FileSystem::root(&fs);
    let ino = fs.create(cx, root, b"a", NewInode::of_root(0o644)).unwrap().ino;
    fs.write(cx, ino, 0, Payload::Bytes(b"data")).unwrap();
    fs.sync(cx).unwrap();
    let well = std::mem::replace(fs.volume_mut(), RamVolume::new(1, 126_976, 2048));
    fs.write(cx, ino, 0, Payload::Bytes(b"else")).and_then(|_| fs.fsync(cx, ino, false)).unwrap_err();
    *fs.volume_mut() = well;
    let refused = [fs.write(cx, ino, 0, Payload::Bytes(b"else")).map(drop), fs.unlink(cx, root, b"a"), fs.sync(cx)];
    assert!(refused.iter().all(|done| matches!(done, Err(FsError::ReadOnly { .. }))), "{refused:?}");
    assert_eq!(fs.next_wake(), None);
    assert_eq!(fs.lookup(cx, root, b"a").map(|attr| attr.ino), Ok(ino));
}

/// By hand: an inode that is dirty from second 1 on has not expired after 30 s at the look of second 30, and has at that of second 35.
#[test]
fn an_inode_is_written_at_the_first_look_after_it_has_expired() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(2048, 126_976, 60);
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let root = FileSystem::root(&fs);
    cx.wait_until(SECOND);
    fs.setattr(cx, root, &sim::seam::SetAttr { mode: Some(0o700), ..Default::default() }).unwrap();
    let mut looks = Vec::new();
    while let Some(due) = fs.next_wake() {
        cx.wait_until(due);
        let is_dirty = fs.inodes.has_dirty();
        fs.wake(cx).unwrap();
        looks.push((due, is_dirty && !fs.inodes.has_dirty()));
    }
    // Its node waits in the write buffer for another five seconds.
    let expected = [5, 10, 15, 20, 25, 30, 35, 40].map(|second| (SECOND * second, second == 35));
    assert_eq!(looks, expected);
}

/// A file system on so many LEBs of 15,872 bytes with pages of 512.
fn small(cx: &mut Cx, lebs: u32, make: impl FnOnce(mkfs::Options) -> mkfs::Options) -> Ubifs<RamVolume> {
    let compress = mkfs::Compress::Always(Compression::None);
    let make = make(mkfs::Options { compress, ..mkfs::Options::new(512, 15_872, lebs) });
    Ubifs::format(RamVolume::new(lebs, 15_872, 512), cx, &make, Options::default()).unwrap()
}

/// Makes a file, opens it and takes its name away.
fn open_without_a_name(fs: &mut Ubifs<RamVolume>, cx: &mut Cx) -> std::result::Result<(), FsError> {
    let root = FileSystem::root(fs);
    let ino = fs.create(cx, root, b"open", NewInode::of_root(0o644)).unwrap().ino;
    fs.open(cx, ino).unwrap();
    fs.unlink(cx, root, b"open")
}

/// By hand, of `tot_avail_orphans`: a LEB lists (15,872 - 32) / 8 inodes, and half as many may be open without a name, so that all of them can
/// be listed anew. The next one keeps its name.
#[test]
fn as_many_files_may_be_open_without_a_name_as_can_be_listed_twice() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 200, |make| mkfs::Options { orphan_lebs: 1, ..make });
    for number in 0..1980 / 2 {
        assert_eq!(open_without_a_name(&mut fs, cx), Ok(()), "file {number}");
    }
    assert_eq!(open_without_a_name(&mut fs, cx), Err(FsError::NoSpace));
    let root = FileSystem::root(&fs);
    fs.lookup(cx, root, b"open").unwrap();
    fs.sync(cx).unwrap();
}

/// By hand: 1,500 inodes take 32 + 12,000 bytes, or 24 pages; behind them 444 have room in the LEB, and the other 26 are in the next. The last
/// node of a commit says that it is.
#[test]
fn the_last_list_of_a_commit_says_that_it_is() {
    let cx = &mut Cx::new();
    let journal_bytes = Some(150 * 15_872);
    let mut fs = small(cx, 400, |make| mkfs::Options { orphan_lebs: 2, journal_bytes, ..make });
    for count in [1500, 470] {
        (0..count).for_each(|_| open_without_a_name(&mut fs, cx).unwrap());
        fs.sync(cx).unwrap();
    }
    let mut found = Vec::new();
    for lnum in fs.sb.orphan_first()..fs.sb.main_first() {
        let mut leb = vec![0; 15_872];
        fs.volume_mut().read(cx, sim::Lnum(lnum), 0, &mut leb).unwrap();
        for node in scan(&leb, lnum, 0, 512, Recovery::None).unwrap().nodes {
            let list = OrphanNode::decode(node.of(&leb)).unwrap();
            found.push((fs.commit - list.commit, list.is_last, list.inos().len()));
        }
    }
    assert_eq!(found, [(1, true, 1500), (0, false, 444), (0, true, 26)]);
}

/// A log of three LEBs, in which a journal of a hundred has no room: a commit begins before the last LEB but its own is taken, since it begins
/// in an empty one.
#[test]
fn the_log_keeps_an_empty_leb_for_the_next_commit() {
    let cx = &mut Cx::new();
    let bytes = 100 * 15_872;
    let mut fs = small(cx, 300, |make| mkfs::Options { log_lebs: Some(3), journal_bytes: Some(bytes), ..make });
    let root = FileSystem::root(&fs);
    let mut most = 0;
    for number in 0..600 {
        let name = (number % 40).to_string();
        if number >= 40 {
            fs.unlink(cx, root, name.as_bytes()).unwrap();
        }
        let ino = fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644)).unwrap().ino;
        fs.write(cx, ino, 0, Payload::Bytes(&[7; 3 * 4096])).unwrap();
        let (head, tail) = (fs.log.head.0, fs.log.tail);
        assert_ne!(fs.log.next(head), tail, "after {number} files");
        most = most.max(fs.log.buds.len());
    }
    assert!(most > 31, "{most} buds: more references than a LEB has");
}

/// Who was refused once is not refused for ever: what others give back is space again.
#[test]
fn space_that_is_given_back_can_be_promised_again() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let root = FileSystem::root(&fs);
    let ino = fs.create(cx, root, b"file", NewInode::of_root(0o644)).unwrap().ino;
    let mut pages = 0;
    let refused = loop {
        match fs.hold_back(cx, ino, pages * 4096, 4096, PageState::Absent) {
            Ok(_) => pages += 1,
            // Nobody writes pages back.
            Err(_) if fs.wants_write_back() => {}
            Err(error) => break error,
        }
    };
    assert_eq!(refused, FsError::NoSpace);
    assert_eq!(fs.create(cx, root, b"other", NewInode::of_root(0o644)).map(drop), Err(FsError::NoSpace));
    fs.let_go(ino, &vec![true; pages as usize]);
    fs.create(cx, root, b"other", NewInode::of_root(0o644)).unwrap();
}

/// Linux, `write_begin_fast`: a block that is written as a whole is not looked for, and counts as new, with an index node of 28 + 8 x 20 bytes
/// in eights. One that is written in part has one already.
#[test]
fn a_block_that_is_overwritten_as_a_whole_counts_as_new() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    for (length, expected) in [(4096, 10 * 192), (4096, 10 * 192), (4095, 0)] {
        fs.sync(cx).unwrap();
        assert_eq!(fs.budget.of_index(), (0, 0));
        for block in 0..10 {
            fs.write(cx, ino, block * 4096, Payload::Bytes(&[7; 4096][..length])).unwrap();
        }
        assert_eq!(fs.budget.of_index(), (0, expected), "{length} bytes");
    }
}

/// Linux, `ubifs_xattr_max_cnt`: by hand, 15,872 / 2 / 160 of an inode. One that is there can still be changed.
#[test]
fn an_inode_has_as_many_attributes_as_are_deleted_in_half_a_leb() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    let mut set = |number: u32| fs.setxattr(cx, ino, format!("user.{number}").as_bytes(), b"value", SetXattr::Set);
    (0..49).for_each(|number| set(number).unwrap());
    assert_eq!([set(49), set(48)], [Err(FsError::NoSpace), Ok(())]);
}

/// Numbers of nodes on a volume, as far as they have a header.
fn numbers(volume: &mut RamVolume, cx: &mut Cx) -> Vec<u64> {
    let (mut found, mut leb) = (Vec::new(), vec![0; volume.leb_bytes() as usize]);
    for lnum in (0..volume.lebs()).map(sim::Lnum) {
        volume.read(cx, lnum, 0, &mut leb).unwrap();
        let nodes = leb.chunks_exact(8).zip(leb[8..].chunks_exact(8));
        let is_node = |(head, _): &(&[u8], &[u8])| head[..4] == 0x0610_1831_u32.to_le_bytes();
        found.extend(nodes.filter(is_node).map(|(_, number)| u64::from_le_bytes(number.try_into().unwrap())));
    }
    found
}

/// The format has no two nodes of one number: what a mount writes after a loss of power is newer than all that it replayed.
#[test]
fn a_mount_goes_on_behind_the_numbers_of_the_journal() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    for _ in 0..50 {
        fs.write(cx, ino, 0, Payload::Bytes(&[7; 100])).unwrap();
    }
    fs.fsync(cx, ino, false).unwrap();
    let mut volume = fs.lose_power();
    let before = numbers(&mut volume, cx);
    let highest = *before.iter().max().unwrap();
    let mut volume = Ubifs::mount(volume, cx, Options::default()).unwrap().unmount(cx).unwrap();
    let mut after = numbers(&mut volume, cx);
    after.retain(|number| !before.contains(number));
    assert!(after.len() > 5 && after.iter().all(|&number| number > highest), "{highest}: {after:?}");
}

/// Linux, `ubifs_recover_leb`: after a loss of power the last LEB of each head is written anew, though nothing in it seems torn. What was being
/// written may read as if it were erased.
#[test]
fn the_last_leb_of_a_head_is_written_anew_after_a_loss_of_power() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    fs.write(cx, ino, 0, Payload::Bytes(&[7; 4096])).unwrap();
    fs.fsync(cx, ino, false).unwrap();
    let ends = [BASE_HEAD, DATA_HEAD].map(|head| u64::from(fs.nodes.head(head).offset));
    assert!(ends.iter().all(|&end| end > 0));
    let fs = Ubifs::mount(fs.lose_power(), cx, Options::default()).unwrap();
    assert_eq!(fs.written()[Part::Mount], ends.iter().sum());
}

/// Power failed when the master node was in LEB 1, and not yet in LEB 2: the one in LEB 1 rules. Where LEB 1 has none LEB 2 must be full, or
/// something else than a loss of power took it.
#[test]
fn the_newer_of_two_master_nodes_rules() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap();
    fs.sync(cx).unwrap();
    let (commit, end) = (fs.commit, fs.master_offset as usize);
    let mut volume = fs.lose_power();
    let mut leb = vec![0; 15_872];
    volume.read(cx, sim::Lnum(2), 0, &mut leb).unwrap();
    assert!(leb[end..end + 512] != [0xff; 512] && leb[end + 512..].iter().all(|&byte| byte == 0xff));
    let mut without = volume.clone();
    without.unmap(cx, sim::Lnum(1)).unwrap();
    assert!(crate::ubifs::Reader::mount(without, cx).is_err());
    volume.change(cx, sim::Lnum(2), Payload::Bytes(&leb[..end])).unwrap();
    let reader = crate::ubifs::Reader::mount(volume, cx).unwrap();
    assert_eq!((reader.mounted().master.commit, reader.mounted().is_unclean), (commit, true));
}

/// By hand, of `ubifs_calc_available`: what an index LEB beyond those that are kept has is not counted; once its nodes are moved, 4,608 bytes
/// of it, the dark watermark, may be of no use.
#[test]
fn more_index_lebs_than_are_kept_cost_their_dark_space() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let available: Vec<i64> = (0..6)
        .map(|lebs| {
            fs.space.totals.index_lebs = lebs;
            fs.available(3)
        })
        .collect();
    let whole = available[0];
    assert_eq!(available, [whole, whole, whole, whole, whole - 4608, whole - 2 * 4608]);
}

/// Linux, `ubifs_wbuf_write_nolock`: a write buffer ends where the largest write unit ends, wherever the last `fsync` left it.
#[test]
fn a_full_write_buffer_ends_at_a_multiple_of_its_size() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(512, 15_872, 60);
    let options = Options { max_write_bytes: Some(2048), ..Options::default() };
    let mut fs = Ubifs::format(RamVolume::new(60, 15_872, 512), cx, &make, options).unwrap();
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    fs.write(cx, ino, 0, Payload::Bytes(&[7; 100])).unwrap();
    fs.fsync(cx, ino, false).unwrap();
    let begin = fs.nodes.head(DATA_HEAD).offset;
    let mut offsets = Vec::new();
    for _ in 0..40 {
        fs.write(cx, ino, 0, Payload::Bytes(&[7; 100])).unwrap();
        offsets.push(fs.nodes.head(DATA_HEAD).offset);
    }
    offsets.dedup();
    assert_eq!((begin, offsets), (512, vec![512, 2048, 4096, 6144]));
}

/// Linux, `do_rename`: a rename is synchronous if the file is, and one of the directories. Other changes of a synchronous directory always are.
#[test]
fn a_rename_waits_in_the_write_buffer_unless_the_file_is_synchronous_too() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let root = FileSystem::root(&fs);
    let flags = |flags| sim::seam::SetAttr { flags: Some(flags), ..Default::default() };
    let ino = fs.create(cx, root, b"a", NewInode::of_root(0o644)).unwrap().ino;
    fs.setattr(cx, root, &flags(InodeFlags::DIR_SYNC)).unwrap();
    fs.sync(cx).unwrap();
    let waits = |fs: &Ubifs<RamVolume>| fs.nodes.head(BASE_HEAD).used() > 0;
    fs.link(cx, ino, root, b"b").unwrap();
    assert!(!waits(&fs));
    fs.rename(cx, (root, b"b"), (root, b"c"), RenameFlags::NONE).unwrap();
    assert!(waits(&fs));
    fs.setattr(cx, ino, &flags(InodeFlags::SYNC)).unwrap();
    fs.rename(cx, (root, b"c"), (root, b"d"), RenameFlags::NONE).unwrap();
    assert!(!waits(&fs));
}

/// Linux, `do_rename`: a synchronous file that replaces a synchronous one has the rename written, and itself with its change time behind it.
/// By hand: two entries and three inodes are less than a page of 2,048 bytes, and each write is padded to one.
#[test]
fn a_synchronous_file_that_replaces_one_is_written_behind_the_rename() {
    for (replaced, pages) in [(InodeFlags::default(), 1), (InodeFlags::SYNC, 2)] {
        let cx = &mut Cx::new();
        let make = mkfs::Options::new(2048, 126_976, 60);
        let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
        let root = FileSystem::root(&fs);
        for (name, flags) in [(b"a", InodeFlags::SYNC), (b"b", replaced)] {
            let ino = fs.create(cx, root, name, NewInode::of_root(0o644)).unwrap().ino;
            fs.setattr(cx, ino, &sim::seam::SetAttr { flags: Some(flags), ..Default::default() }).unwrap();
        }
        fs.sync(cx).unwrap();
        let before = fs.nodes.head(BASE_HEAD).offset;
        fs.rename(cx, (root, b"a"), (root, b"b"), RenameFlags::NONE).unwrap();
        assert_eq!((fs.nodes.head(BASE_HEAD).offset - before, fs.nodes.head(BASE_HEAD).used()), (pages * 2048, 0));
    }
}

/// A mount after a loss of power takes the only leaf from a node of the index, so that the node goes, and with it the root above two. Of
/// what is in the other node, which is read then, it takes nothing.
#[test]
fn a_mount_takes_nothing_but_the_inode_without_a_name() {
    let cx = &mut Cx::new();
    let make = mkfs::Options { fanout: 7, ..mkfs::Options::new(2048, 16_384, 55) };
    let mut fs = Ubifs::format(RamVolume::new(55, 16_384, 2048), cx, &make, Options::default()).unwrap();
    let (root, new) = (FileSystem::root(&fs), NewInode::of_root(0o644));
    let dir = fs.mkdir(cx, root, b"a", new).unwrap().ino;
    let open = fs.create(cx, root, b"c", new).unwrap().ino;
    fs.create(cx, dir, b"c", new).unwrap();
    fs.create(cx, dir, b"d", new).unwrap();
    fs.open(cx, open).unwrap();
    fs.rename(cx, (root, b"c"), (root, b"d"), RenameFlags::NONE).unwrap();
    fs.unlink(cx, dir, b"d").unwrap();
    fs.rename(cx, (root, b"a"), (root, b"b"), RenameFlags::NONE).unwrap();
    fs.unlink(cx, root, b"d").unwrap();
    fs.unlink(cx, dir, b"c").unwrap();
    fs.sync(cx).unwrap();
    let mut fs = Ubifs::mount(fs.lose_power(), cx, Options::default()).unwrap();
    assert_eq!(fs.getattr(cx, root).map(|root| root.nlink), Ok(3));
    assert_eq!(fs.lookup(cx, root, b"b").map(|found| found.ino), Ok(dir));
    assert_eq!(fs.getattr(cx, open).map(drop), Err(FsError::Stale { ino: open }));
}

/// Linux, `do_truncation`: a file may be emptied where there is no space, but not shortened.
#[test]
fn a_file_may_be_emptied_where_it_may_not_be_shortened() {
    let cx = &mut Cx::new();
    let mut fs = small(cx, 60, |make| make);
    let ino = fs.create(cx, FileSystem::root(&fs), b"file", NewInode::of_root(0o644)).unwrap().ino;
    fs.write(cx, ino, 0, Payload::Bytes(&[7; 10_000])).unwrap();
    fs.sync(cx).unwrap();
    fs.budget.data_growth += fs.available(fs.calc_min_index_lebs()) - fs.outstanding();
    let mut cut = |size| fs.setattr(cx, ino, &sim::seam::SetAttr::size(size)).map(|attr| attr.size);
    assert_eq!([5_000, 0].map(&mut cut), [Err(FsError::NoSpace), Ok(0)]);
}

/// Linux, `ubifs_compress` (`UBIFS_MIN_COMPRESS_DIFF`): a block is compressed if that gains 64 bytes at least. A data node has 48 bytes
/// before them.
#[test]
fn a_block_is_compressed_if_that_gains_64_bytes() {
    let cx = &mut Cx::new();
    let make = mkfs::Options::new(2048, 126_976, 60);
    let mut fs = Ubifs::format(RamVolume::new(60, 126_976, 2048), cx, &make, Options::default()).unwrap();
    let root = FileSystem::root(&fs);
    let mut at_limit = [0; 2];
    for (len, seed) in (128..300).flat_map(|len| (0..20).map(move |seed| (len, seed))) {
        let mut rng = sim::Seed(seed).stream("words");
        let words =
            std::iter::from_fn(|| Some([&b"journal "[..], b"index ", b"garbage ", b"leaf "][rng.below(4) as usize]));
        let noise = sim::Seed(seed).stream("noise").bits().to_le_bytes();
        let block: Vec<u8> = noise.iter().chain(words.flatten()).copied().take(len).collect();
        let lzo = crate::compress::Algorithm::Lzo;
        let packed = Compressor::of_linux().compress(lzo, &block, &mut [0; 1000]).unwrap();
        let gain = block.len() - packed;
        if !(63..65).contains(&gain) {
            continue;
        }
        at_limit[gain - 63] += 1;
        let name = format!("{len}, {seed}");
        let ino = fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644)).unwrap().ino;
        let [data, ..] = of_call(&mut fs, cx, |fs, cx| {
            fs.write(cx, ino, 0, Payload::Bytes(&block))?;
            fs.fsync(cx, ino, false)
        });
        let expected = if gain < 64 { block.len() } else { packed };
        assert_eq!(data, u64::from(aligned(48 + expected as u32)), "{packed} of {}", block.len());
    }
    assert!(at_limit.iter().all(|&count| count > 0), "{at_limit:?}");
}
