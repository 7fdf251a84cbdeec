//! What a call writes, beside Linux: `nandlab study fastmap-latency --kernel` shows it of a guest.

use sim::seam::{FileSystem, Ino, LebVolume, NewInode, PageState, Payload, RamVolume, ReadInto, SetXattr, StatFs};
use sim::{Cx, Ns};

use super::*;
use crate::cache::{self, PageCache, WriteBack};
use crate::ubifs::mkfs;
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
    assert_eq!(of_call(&mut fs, cx, write), [4144, 0, 3 * 2048 - 4144]);
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
    fs.rename(cx, (root, b"c"), (made[0], b"c"), sim::seam::RenameFlags::NONE).unwrap();
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
