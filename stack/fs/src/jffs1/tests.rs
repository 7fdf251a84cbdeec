//! JFFS on a flash in memory: bytes worked out by hand, and images that no code of this crate wrote.

use sim::seam::{
    DeviceNumber, FileSystem, FileType, Flash, FsError, Geometry, Ino, Medium as Kind, NewInode, Payload, RamFlash,
    ReadInto, RenameFlags, SetAttr, Timestamp,
};
use sim::{CpuPrice, Cx, Ns, PassKind, Peb};

use super::media::Endian;
use super::{Jffs1, KnownBad, MountGc, Options, Waiting};

const SECTOR: u32 = 8192;
const NEW: NewInode = NewInode { mode: 0o644, uid: 0x0102, gid: 0x0304 };

fn geometry(pebs: u32) -> Geometry {
    Geometry { medium: Kind::Nor, pebs, peb_bytes: SECTOR, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0 }
}

fn flash(pebs: u32) -> RamFlash {
    RamFlash::new(geometry(pebs))
}

fn mount(flash: RamFlash, options: Options) -> (Jffs1<RamFlash>, Cx) {
    let mut cx = Cx::new();
    let fs = Jffs1::mount(flash, &mut cx, options).expect("it can be mounted");
    fs.check();
    (fs, cx)
}

fn bytes_at(fs: &Jffs1<RamFlash>, at: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fs.flash().clone().read(&mut Cx::new(), Peb(at / SECTOR), at % SECTOR, &mut bytes).expect("within a sector");
    bytes
}

fn contents(fs: &mut Jffs1<RamFlash>, cx: &mut Cx, name: &[u8]) -> Result<Vec<u8>, FsError> {
    let attr = fs.lookup(cx, fs.root(), name)?;
    let mut bytes = vec![0xee; attr.size as usize];
    fs.read(cx, attr.ino, 0, ReadInto::Bytes(&mut bytes))?;
    Ok(bytes)
}

fn create(fs: &mut Jffs1<RamFlash>, cx: &mut Cx, name: &[u8]) -> Ino {
    fs.create(cx, fs.root(), name, NEW).expect("there is room").ino
}

/// A node written by the table of the format, with sums of its own.
fn node(fields: &[(usize, &[u8])], name: &[u8], data: &[u8]) -> Vec<u8> {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let mut raw = [0; 60];
    raw[..4].copy_from_slice(b"1984");
    for (at, bytes) in fields {
        raw[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    raw[40..44].copy_from_slice(&(data.len() as u32).to_le_bytes());
    raw[48] = name.len() as u8;
    raw[52..56].copy_from_slice(&sum(data).to_le_bytes());
    raw[56..58].copy_from_slice(&(sum(name) as u16).to_le_bytes());
    let whole = sum(&raw) as u16;
    raw[58..].copy_from_slice(&whole.to_le_bytes());
    raw[51] = 0xff;
    let mut node = raw.to_vec();
    for part in [name, data] {
        node.extend_from_slice(part);
        node.resize(node.len().next_multiple_of(4), 0xff);
    }
    node
}

/// A node of a regular file with mode 0644 in the root directory.
fn of_file(ino: u8, version: u8, name: &[u8], data: &[u8], more: &[(usize, &[u8])]) -> Vec<u8> {
    let common: [(usize, &[u8]); 6] =
        [(4, &[ino]), (8, &[1]), (12, &[version]), (16, &[0xa4, 0x81]), (49, &[1]), (36, &[0])];
    node(&[&common[..], more].concat(), name, data)
}

fn image(pebs: u32, parts: &[(u32, &[u8])]) -> RamFlash {
    let mut flash = flash(pebs);
    for &(at, bytes) in parts {
        for (at, byte) in (at..).zip(bytes) {
            flash.program(&mut Cx::new(), Peb(at / SECTOR), at % SECTOR, Payload::Bytes(&[*byte])).expect("within");
        }
    }
    flash
}

#[test]
fn a_file_is_made_and_written_in_the_bytes_worked_out_by_hand() {
    let epoch = Timestamp { seconds: 0x0403_0201, nanos: 0 };
    let (mut fs, mut cx) = mount(flash(8), Options { epoch, ..Options::default() });
    let file = create(&mut fs, &mut cx, b"rc");
    cx.idle_until(Ns(2_000_000_000));
    fs.write(&mut cx, file, 0, Payload::Bytes(b"hi!")).unwrap();
    #[rustfmt::skip]
    let created = [
        0x31, 0x39, 0x38, 0x34, // 214
        2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, // number 2, in the root, version 1: 4
        0xa4, 0x81, 0, 0, // 0100644: 293
        2, 1, 4, 3, // owner 0x0102, group 0x0304: 10
        1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, // three times: 30
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // at 0, no data, nothing removed
        2, 1, 0, 0xff, // length of the name, one name, no flags, accurate: 3
        0, 0, 0, 0, // no data
        213, 0, // 'r' + 'c' = 114 + 99: 213
        0xff, 0x02, // 214 + 4 + 293 + 10 + 30 + 3 + 213 = 767
        b'r', b'c', 0xff, 0xff,
    ];
    assert_eq!(bytes_at(&fs, 0, 64), created);
    #[rustfmt::skip]
    let written = [
        0x31, 0x39, 0x38, 0x34,
        2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, // version 2: 5
        0xa4, 0x81, 0, 0,
        2, 1, 4, 3,
        3, 2, 3, 4, 3, 2, 3, 4, 1, 2, 3, 4, // read and changed two seconds later: 34
        0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, // three bytes at 0: 3
        2, 1, 0, 0xff,
        242, 0, 0, 0, // 'h' 104 + 'i' 105 + '!' 33: 242
        213, 0,
        0xf9, 0x03, // 214 + 5 + 293 + 10 + 34 + 3 + 3 + 242 + 213 = 1017
        b'r', b'c', 0xff, 0xff,
        b'h', b'i', b'!', 0xff,
    ];
    assert_eq!(bytes_at(&fs, 64, 68), written);
    assert_eq!(bytes_at(&fs, 132, 60), [0xff; 60]);
    let usage = fs.usage();
    assert_eq!((usage.nodes, usage.data_bytes, usage.header_bytes, usage.dirty_bytes), (1, 3, 65, 64));
    // A deletion has no name, and its data are nobody's.
    fs.unlink(&mut cx, fs.root(), b"rc").unwrap();
    let deleted = bytes_at(&fs, 132, 60);
    assert_eq!((deleted[12], &deleted[36..52]), (3, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x80, 0xff][..]));
    assert_eq!((fs.usage().nodes, fs.usage().dirty_bytes), (0, 64 + 68 + 60));
}

#[test]
fn an_image_written_by_hand_is_read() {
    let old = of_file(2, 1, b"log", b"one, two, three", &[]);
    // From byte 5 on, 3 bytes are removed and 3 are inserted.
    let changed = of_file(2, 2, b"log", b"TWO", &[(36, &[5]), (44, &[3])]);
    let obsolete = {
        let mut node = of_file(2, 3, b"bad", b"no", &[]);
        node[51] = 0;
        node
    };
    let torn = {
        let mut node = of_file(2, 3, b"log", b"torn", &[]);
        node[65] = 0;
        node
    };
    let gone = of_file(3, 1, b"gone", b"x", &[]);
    let deletes = of_file(3, 2, b"", b"", &[(50, &[0x80])]);
    let target = of_file(4, 1, b"new", b"old contents", &[]);
    let replaced = of_file(5, 1, b"other", b"new contents", &[]);
    let renames = of_file(5, 2, b"new", &[4, 0, 0, 0], &[(50, &[0x40])]);
    let directory = node(&[(4, &[6]), (8, &[1]), (12, &[1]), (16, &[0xed, 0x41]), (49, &[1])], b"dir", b"");
    let below = node(&[(4, &[7]), (8, &[6]), (12, &[1]), (16, &[0xff, 0xa1]), (49, &[1])], b"link", b"../log");
    let all = [old, changed, obsolete, torn, gone, deletes, target, replaced, renames, directory, below].concat();
    let (mut fs, mut cx) = mount(image(8, &[(0, &all)]), Options::default());
    assert_eq!(contents(&mut fs, &mut cx, b"log").unwrap(), b"one, TWO, three");
    assert_eq!(contents(&mut fs, &mut cx, b"gone"), Err(FsError::NoEntry { dir: Ino(1) }));
    assert_eq!(contents(&mut fs, &mut cx, b"other"), Err(FsError::NoEntry { dir: Ino(1) }));
    assert_eq!(contents(&mut fs, &mut cx, b"new").unwrap(), b"new contents");
    let link = fs.lookup(&mut cx, Ino(6), b"link").unwrap().ino;
    assert_eq!(fs.readlink(&mut cx, link).unwrap(), b"../log");
    assert_eq!(create(&mut fs, &mut cx, b"next"), Ino(8));
    assert_eq!(bytes_at(&fs, all.len() as u32, 8), [0x31, 0x39, 0x38, 0x34, 8, 0, 0, 0]);
}

/// The head of the log is behind the erased range, so the version that begins there is older than its number says nothing
/// of, and what comes at the beginning of the flash is newer.
#[test]
fn a_log_that_goes_round_begins_behind_the_erased_range() {
    let new = of_file(2, 9, b"a", b"new", &[(44, &[3])]);
    let old = of_file(2, 8, b"a", b"old", &[]);
    let zeroes = vec![0; (SECTOR as usize) - old.len()];
    let last = [&old[..], &zeroes].concat();
    let (mut fs, mut cx) = mount(image(8, &[(0, &new), (7 * SECTOR, &last)]), Options::default());
    assert_eq!(contents(&mut fs, &mut cx, b"a").unwrap(), b"new");
    assert_eq!((fs.log.head(), fs.log.tail()), (7 * SECTOR, new.len() as u32));
    // The old node is obsolete: the last sector is dirt and goes first.
    fs.collect_all(&mut cx, Waiting::Nobody).unwrap();
    assert_eq!(bytes_at(&fs, 7 * SECTOR, 4), [0xff; 4]);
}

/// Space that was allocated and not written is dirt, up to the beginning of its sector; the erased range ends there.
#[test]
fn an_erased_range_that_ends_within_a_sector_is_no_free_space_there() {
    let a = of_file(2, 1, b"a", b"1", &[]);
    let b = of_file(3, 1, b"b", b"2", &[]);
    let (fs, _) = mount(image(8, &[(0, &a), (200, &b)]), Options::default());
    let usage = fs.usage();
    assert_eq!((usage.nodes, usage.dirty_bytes), (2, u64::from(200 - a.len() as u32)));
    let (fs, _) = mount(image(8, &[(0, &a), (7 * SECTOR + 200, &b)]), Options::default());
    assert_eq!(fs.log.head(), 7 * SECTOR, "the beginning of the sector");
    assert_eq!(fs.usage().dirty_bytes, u64::from(SECTOR) - b.len() as u64, "what is erased behind it is too short");
    // In the middle there is one erased range, or nobody knows where the log begins.
    let two_ranges = image(8, &[(0, &a), (4 * SECTOR, &b)]);
    let refused = Jffs1::mount(two_ranges, &mut Cx::new(), Options::default()).err();
    assert!(matches!(&refused, Some(FsError::Corrupt { .. })), "{refused:?}");
}

#[test]
fn an_image_without_the_directory_of_a_file_is_refused() {
    let file = node(&[(4, &[2]), (8, &[9]), (12, &[1]), (16, &[0xa4, 0x81]), (49, &[1])], b"a", b"");
    let refused = Jffs1::mount(image(8, &[(0, &file)]), &mut Cx::new(), Options::default()).err();
    assert!(matches!(&refused, Some(FsError::Corrupt { what, .. }) if what.contains("directory 9")), "{refused:?}");
    let loops = [(2, 3, b"a"), (3, 2, b"b")].map(|(ino, pino, name)| {
        node(&[(4, &[ino]), (8, &[pino]), (12, &[1]), (16, &[0xed, 0x41]), (49, &[1])], name, b"")
    });
    let refused = Jffs1::mount(image(8, &[(0, &loops.concat())]), &mut Cx::new(), Options::default()).err();
    assert!(matches!(&refused, Some(FsError::Corrupt { what, .. }) if what.contains("below itself")), "{refused:?}");
}

#[test]
fn a_writer_leaves_two_sectors_and_a_half_and_a_deletion_may_use_the_half() {
    let (mut fs, mut cx) = mount(flash(8), Options { min_free_sectors: 2, ..Options::default() });
    let file = create(&mut fs, &mut cx, b"a");
    let other = create(&mut fs, &mut cx, b"b");
    let mut at = 0;
    while fs.write(&mut cx, file, at, Payload::Bytes(&[7; 100])).is_ok() {
        at += 100;
    }
    // The next node has 60 + 4 + 100 bytes.
    let kept = u64::from(2 * SECTOR + SECTOR / 2);
    let free = fs.usage().free_bytes;
    assert!(free >= kept && free < kept + 164, "{free}");
    // One without data has 64.
    while fs.setattr(&mut cx, other, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).is_ok() {}
    assert!(fs.usage().free_bytes < kept + 64);
    assert_eq!(fs.write(&mut cx, other, 0, Payload::Bytes(&[7; 100])), Err(FsError::NoSpace));
    assert_eq!(fs.setattr(&mut cx, file, &SetAttr::size(at - 128)), Err(FsError::NoSpace));
    fs.setattr(&mut cx, file, &SetAttr::size(at - 129)).unwrap();
    fs.unlink(&mut cx, fs.root(), b"a").unwrap();
    assert!(fs.usage().free_bytes < kept);
    fs.write(&mut cx, other, 0, Payload::Bytes(&[7; 100])).unwrap();
    let pass = fs.passes()[0];
    assert_eq!((pass.waiting, pass.victim, pass.work.erased > 0), (Waiting::Writer, 0, true));
}

/// Files that are written in turn, 50 bytes at a time: nodes of each are everywhere.
fn small_appends(fs: &mut Jffs1<RamFlash>, cx: &mut Cx, rounds: u64) {
    let files = [b"a", b"b", b"c"].map(|name| create(fs, cx, name));
    for round in 0..rounds {
        for file in files {
            fs.write(cx, file, round * 50, Payload::Bytes(&[round as u8; 50])).expect("there is room");
        }
    }
}

#[test]
fn a_full_collection_leaves_few_large_nodes_and_a_clean_head() {
    let options = Options { min_free_sectors: 2, ..Options::default() };
    let (mut fs, mut cx) = mount(flash(12), options);
    small_appends(&mut fs, &mut cx, 80);
    let before = fs.usage();
    assert_eq!((before.nodes, before.data_bytes), (240, 3 * 80 * 50));
    let trees = |fs: &mut Jffs1<RamFlash>, cx: &mut Cx| crate::model::tree(fs, cx).unwrap();
    let was = trees(&mut fs, &mut cx);
    let (mut again, mut later) = mount(fs.flash().clone(), Options { mount_gc: MountGc::Full, ..options });
    assert!(again.usage().nodes <= 6, "half a sector of 8 KiB holds each file: {:?}", again.usage());
    assert_eq!(again.usage().data_bytes, before.data_bytes);
    assert_eq!(again.mounted().collect.erased, 3 * 80 * 116 / u64::from(SECTOR), "all whole sectors that were written");
    assert_eq!(was.difference(&trees(&mut again, &mut later)), None);
    again.check();
}

#[test]
fn the_thread_wakes_for_many_nodes_when_a_sector_is_dirt() {
    let (mut fs, mut cx) = mount(flash(16), Options { min_free_sectors: 2, ..Options::default() });
    small_appends(&mut fs, &mut cx, 80);
    // 240 nodes are more than 5 for each half sector of 27,840 bytes, 2 for each of 4 files, and 50.
    assert_eq!(fs.next_wake(), None, "nothing is dirt");
    let other = create(&mut fs, &mut cx, b"x");
    let mut writes = 0;
    while fs.usage().dirty_bytes < u64::from(SECTOR) {
        assert_eq!(fs.next_wake(), None);
        fs.write(&mut cx, other, 0, Payload::Bytes(&[writes; 1000])).unwrap();
        writes += 1;
    }
    assert_eq!(fs.next_wake(), Some(Ns::ZERO));
    while fs.next_wake().is_some() {
        fs.wake(&mut cx).unwrap();
        fs.check();
    }
    let usage = fs.usage();
    assert!(usage.nodes <= 50 + 10 + 5 * (240 * 116 / (SECTOR / 2)), "{usage:?}");
    assert!(fs.passes().iter().all(|pass| pass.waiting == Waiting::Nobody));
}

/// Contents of a file look like a node. When the sector before is erased, a scan would find them.
#[test]
fn the_rest_of_a_node_whose_beginning_is_erased_is_cleared() {
    let trap = of_file(9, 1, b"trap", b"", &[]);
    for keep_cut_nodes in [false, true] {
        let known_bad = KnownBad { keep_cut_nodes, ..KnownBad::default() };
        let (mut fs, mut cx) = mount(flash(8), Options { min_free_sectors: 2, known_bad, ..Options::default() });
        let file = create(&mut fs, &mut cx, b"a");
        // 64 bytes for the inode, and nodes of 1,064: the eighth has 680 bytes in the first sector.
        let data = trap.repeat(20);
        for _ in 0..12 {
            fs.write(&mut cx, file, 0, Payload::Bytes(&data[..1000])).unwrap();
        }
        fs.collect_now(&mut cx).unwrap();
        assert_eq!(fs.log.head(), SECTOR);
        let (mut fs, mut cx) = mount(fs.unmount(), Options::default());
        assert_eq!(fs.lookup(&mut cx, fs.root(), b"trap").is_ok(), keep_cut_nodes);
    }
}

#[test]
fn work_has_its_price_and_parts_sum_to_the_clock() {
    let cpu = CpuPrice { copy_ps_per_byte: 3_000, crc_ps_per_byte: 5_000, node_ps: 7_000, ..CpuPrice::FREE };
    let (mut fs, mut cx) = mount(flash(12), Options { cpu, min_free_sectors: 2, ..Options::default() });
    // The flash is read five times to find bits that flip and four of them are compared; then it is found to be erased.
    let whole = u64::from(12 * SECTOR);
    let mounted = fs.mounted();
    assert_eq!((mounted.reread.read, mounted.reread.summed), (5 * whole, 4 * whole));
    assert_eq!((mounted.scan.read, mounted.scan.summed, mounted.scan.nodes), (whole + 4, whole, 0));
    small_appends(&mut fs, &mut cx, 80);
    cx.keep_passes();
    fs.collect_all(&mut cx, Waiting::Nobody).unwrap();
    let kept = cx.take_passes();
    let work = fs.work();
    assert_eq!(work.cpu, Ns(3 * work.copied + 5 * work.summed + 7 * work.nodes));
    assert_eq!(work.time(), cx.now(), "a flash in memory takes no time");
    let passes = fs.passes();
    assert!(passes.iter().all(|pass| pass.length == pass.work.time() && pass.moved_bytes <= pass.work.programmed));
    assert!(passes.windows(2).all(|two| two[0].start + two[0].length <= two[1].start));
    // The clock has them step by step: each move, and the erasure at the end of a pass.
    let moved: u64 = kept.iter().map(|step| step.moved_bytes).sum();
    assert_eq!(
        moved,
        passes.iter().map(|pass| pass.moved_bytes).sum::<u64>() + fs.pass.map_or(0, |pass| pass.moved_bytes)
    );
    let erasures: Vec<u32> = kept.iter().filter(|step| step.kind == PassKind::Erase).map(|step| step.victim).collect();
    assert_eq!(erasures, passes.iter().map(|pass| pass.victim).collect::<Vec<_>>());
    assert!(
        kept.iter()
            .all(|step| step.spent.total() == step.end - step.start && (step.nodes > 0 || step.moved_bytes == 0))
    );
}

#[test]
fn what_the_format_lacks_is_refused_as_linux_refuses_it() {
    let (mut fs, mut cx) = mount(flash(8), Options { endian: Endian::Big, ..Options::default() });
    let (root, file) = (fs.root(), create(&mut fs, &mut cx, b"a"));
    assert_eq!(fs.link(&mut cx, file, root, b"b").unwrap_err().errno(), 1);
    assert_eq!(fs.getxattr(&mut cx, file, b"user.a").unwrap_err().errno(), 95);
    for flags in [RenameFlags::EXCHANGE, RenameFlags::WHITEOUT] {
        assert_eq!(fs.rename(&mut cx, (root, b"a"), (root, b"a"), flags).unwrap_err().errno(), 95);
    }
    assert_eq!(fs.lookup(&mut cx, root, &[b'n'; 255]).unwrap_err().errno(), 36);
    fs.lookup(&mut cx, root, &[b'n'; 254]).unwrap_err();
    let long = Geometry { medium: Kind::Nand, ..geometry(8) };
    assert!(matches!(Jffs1::mount(RamFlash::new(long), &mut cx, Options::default()), Err(FsError::Invalid { .. })));
}

/// A size is nowhere on the flash but in the data: a file that grows has a zero at its end, which holds it.
#[test]
fn a_file_keeps_over_a_mount_the_size_that_it_was_given() {
    let (mut fs, mut cx) = mount(flash(8), Options::default());
    let file = create(&mut fs, &mut cx, b"a");
    for (size, expected) in [(1000, 0), (100_000, 0), (50_000, 0), (0, 0), (10, 0)] {
        fs.setattr(&mut cx, file, &SetAttr::size(size)).unwrap();
        fs.check();
        let (mut again, mut later) = mount(fs.flash().clone(), Options::default());
        let there = contents(&mut again, &mut later, b"a").unwrap();
        assert_eq!((there.len() as u64, there.iter().all(|byte| *byte == expected)), (size, true));
    }
}

/// By hand: less than 16,384 of 327,680 bytes free, or more than 109,226 dirt, but always a sector of dirt.
#[test]
fn the_thread_wakes_below_a_twentieth_free_or_above_a_third_dirt() {
    let wakes = |free: u32, dirty: u32| {
        let (mut fs, _) = mount(flash(40), Options::default());
        (fs.log.dirty, fs.log.used) = (dirty, 40 * SECTOR - dirty - free);
        fs.next_wake().is_some()
    };
    assert!(wakes(16_383, SECTOR) && !wakes(16_384, SECTOR));
    assert!(wakes(0, SECTOR) && !wakes(0, SECTOR - 1));
    assert!(wakes(20_000, 109_227) && !wakes(20_000, 109_226));
}

/// By hand: 50 nodes, 2 for each of two inodes, and 5 for each half sector in use.
#[test]
fn the_thread_wakes_for_one_node_more_than_it_suffers() {
    for (used, nodes) in [(4095, 54), (4096, 59)] {
        let (mut fs, mut cx) = mount(flash(40), Options::default());
        let file = create(&mut fs, &mut cx, b"a");
        let mut wakes = Vec::new();
        for at in 0..nodes {
            fs.write(&mut cx, file, at * 8, Payload::Bytes(&[7; 8])).unwrap();
        }
        assert_eq!(u64::from(fs.usage().nodes), nodes, "the node that made the file is not needed any more");
        for more in 0..2 {
            let log = fs.log.clone();
            (fs.log.dirty, fs.log.used) = (SECTOR, used);
            wakes.push(fs.next_wake().is_some());
            fs.log = log;
            fs.write(&mut cx, file, (nodes + more) * 8, Payload::Bytes(&[7; 8])).unwrap();
        }
        assert_eq!(wakes, [false, true], "{used} bytes in use");
    }
}

/// Two sectors must stay free, and half of one for those who free space. Just so much is free, and one sector is dirt.
#[test]
fn a_writer_collects_a_single_sector_of_dirt() {
    let nodes: Vec<u8> = (0..9).flat_map(|at| of_file(2 + at, 1, &[b'a' + at], &[7; 4032], &[])).collect();
    let parts: [(u32, &[u8]); 2] = [(0, &[0; SECTOR as usize]), (SECTOR, &nodes)];
    let (mut fs, mut cx) = mount(image(8, &parts), Options { min_free_sectors: 2, ..Options::default() });
    let usage = fs.usage();
    assert_eq!((usage.dirty_bytes, usage.free_bytes), (SECTOR.into(), u64::from(2 * SECTOR + SECTOR / 2)));
    assert_eq!(fs.write(&mut cx, Ino(2), 0, Payload::Bytes(&[8; 100])), Ok(100));
    assert_eq!(fs.passes().len(), 1);
}

/// By hand: of 16 sectors of two blocks 4 are kept. What is dirt counts as free: a node of 60 + 4 + 1000 bytes is in use.
#[test]
fn the_size_of_the_file_system_is_without_what_garbage_collection_needs() {
    let (mut fs, mut cx) = mount(flash(16), Options::default());
    let file = create(&mut fs, &mut cx, b"a");
    for _ in 0..10 {
        fs.write(&mut cx, file, 0, Payload::Bytes(&[7; 1000])).unwrap();
    }
    let of = fs.statfs(&mut cx).unwrap();
    // (12 * 8192 - 1064) / 4096 is 23.7.
    assert_eq!((of.block_bytes, of.blocks, of.free, of.available), (4096, 24, 23, 23));
}

#[test]
fn a_node_may_have_half_a_sector_of_data_and_no_more() {
    for (bytes, is_there) in [(4096, true), (4100, false)] {
        let node = of_file(2, 1, b"a", &vec![7; bytes], &[]);
        let (mut fs, mut cx) = mount(image(8, &[(0, &node)]), Options::default());
        assert_eq!(contents(&mut fs, &mut cx, b"a").is_ok(), is_there, "{bytes}");
    }
}

#[test]
fn nodes_whose_sums_or_lengths_are_wrong_are_none() {
    let mut wrong_name = of_file(2, 1, b"a", b"x", &[]);
    wrong_name[60] = b'b';
    // A rename has the number of an inode as its data: four bytes.
    let renames = of_file(3, 1, b"c", &[9, 0, 0, 0, 0], &[(50, &[0x40])]);
    let good = of_file(4, 1, b"d", b"y", &[]);
    let (mut fs, mut cx) = mount(image(8, &[(0, &[wrong_name, renames, good].concat())]), Options::default());
    assert_eq!(fs.usage().nodes, 1);
    assert_eq!(contents(&mut fs, &mut cx, b"d").unwrap(), b"y");
}

/// No writer gives two nodes of an inode one version. If they have, the later replaces the other.
#[test]
fn of_two_nodes_of_one_version_the_later_is_live() {
    let [old, new] = [b"old", b"new"].map(|data| of_file(2, 1, b"a", data, &[]));
    let (mut fs, mut cx) = mount(image(8, &[(0, &[&old[..], &new].concat())]), Options::default());
    assert_eq!((fs.usage().nodes, fs.usage().dirty_bytes), (1, 60 + 4 + 4));
    assert_eq!(contents(&mut fs, &mut cx, b"a").unwrap(), b"new");
}

/// The older node comes later on the flash, and only it has the name.
#[test]
fn a_name_is_that_of_the_newest_node_that_has_one() {
    let newest = of_file(2, 3, b"", b"", &[]);
    let [old, new] = [(1, b"old"), (2, b"new")].map(|(version, name)| of_file(2, version, name, b"", &[]));
    let (mut fs, mut cx) = mount(image(8, &[(0, &[&newest[..], &new, &old].concat())]), Options::default());
    assert!(fs.lookup(&mut cx, Ino(1), b"new").is_ok());
    assert!(fs.lookup(&mut cx, Ino(1), b"old").is_err());
}

#[test]
fn the_number_of_an_inode_that_a_rename_replaced_is_not_given_again() {
    let renames = of_file(2, 1, b"a", &[9, 0, 0, 0], &[(50, &[0x40])]);
    let (mut fs, mut cx) = mount(image(8, &[(0, &renames)]), Options::default());
    assert_eq!(create(&mut fs, &mut cx, b"b"), Ino(10));
}

/// Pages end at multiples of 4096.
#[test]
fn a_write_over_the_end_of_a_page_is_two_nodes() {
    let (mut fs, mut cx) = mount(flash(8), Options::default());
    let file = create(&mut fs, &mut cx, b"a");
    fs.write(&mut cx, file, 4090, Payload::Bytes(&[7; 100])).unwrap();
    assert_eq!(fs.usage().nodes, 2);
    // 6 bytes, then 94, in nodes with a name of one byte.
    assert_eq!(bytes_at(&fs, 64 + 40, 4), [6, 0, 0, 0]);
    assert_eq!(bytes_at(&fs, 64 + 72 + 40, 4), [94, 0, 0, 0]);
}

/// What is too small for a raw inode is zeroes, which a scan skips word by word; else a raw inode says how long it is. The sum
/// of one without data is that of "1984": 214.
#[test]
fn the_end_of_the_flash_is_filled_by_zeroes_or_by_a_raw_inode() {
    for space in [56, 60] {
        let (mut fs, mut cx) = mount(flash(8), Options::default());
        fs.log.allocate(8 * SECTOR - space);
        let end = fs.log.give_up_end();
        fs.fill_end(&mut cx, end).unwrap();
        let mut expected = vec![0; space as usize];
        if space == 60 {
            expected[..4].copy_from_slice(b"1984");
            expected[58] = 214;
        }
        assert_eq!(bytes_at(&fs, 8 * SECTOR - space, space as usize), expected);
    }
}

/// A node has half a sector at most, 4096 bytes here: 60 for the raw inode and 4 for the name leave 4032. `PATH_MAX` is 4096
/// with a zero byte.
#[test]
fn a_target_is_as_long_as_a_node_or_a_path_may_be() {
    let longest = |peb_bytes: u32, longest: usize| {
        let (mut fs, mut cx) = mount(RamFlash::new(Geometry { peb_bytes, ..geometry(8) }), Options::default());
        let target = vec![b't'; longest + 1];
        assert_eq!(fs.symlink(&mut cx, Ino(1), b"long", &target, NEW).unwrap_err().errno(), 36);
        let link = fs.symlink(&mut cx, Ino(1), b"link", &target[1..], NEW).unwrap().ino;
        assert_eq!(fs.readlink(&mut cx, link).unwrap(), &target[1..]);
    };
    longest(SECTOR, 4032);
    longest(4 * SECTOR, 4095);
}

/// Major and minor number are the upper and the lower byte of a half word.
#[test]
fn a_device_is_a_half_word_on_flash() {
    let device = DeviceNumber { major: 0x12, minor: 0x34 };
    for (endian, expected) in [(Endian::Little, [0x34, 0x12]), (Endian::Big, [0x12, 0x34])] {
        let (mut fs, mut cx) = mount(flash(8), Options { endian, ..Options::default() });
        let made = fs.mknod(&mut cx, Ino(1), b"tty", NEW, FileType::CharDevice, device).unwrap();
        assert_eq!((made.device, made.size), (device, 2));
        assert_eq!(bytes_at(&fs, 64, 2), expected);
    }
}

/// The node that deleted the inode is not needed once a later one is there, so the later one says it too.
#[test]
fn what_is_written_to_a_deleted_file_says_that_it_is_deleted() {
    let (mut fs, mut cx) = mount(flash(8), Options::default());
    let file = create(&mut fs, &mut cx, b"a");
    fs.open(&mut cx, file).unwrap();
    fs.unlink(&mut cx, Ino(1), b"a").unwrap();
    fs.write(&mut cx, file, 0, Payload::Bytes(b"x")).unwrap();
    // Behind a node of 64 bytes and the deletion of 60.
    assert_eq!(bytes_at(&fs, 124, 4), b"1984");
    assert_eq!(bytes_at(&fs, 124 + 50, 1), [0x80]);
}

/// A rename is a node with the times of that moment, which the file has from then on, also after a mount.
#[test]
fn a_renamed_file_was_used_when_it_was_renamed() {
    let (mut fs, mut cx) = mount(flash(8), Options::default());
    let (root, file) = (fs.root(), create(&mut fs, &mut cx, b"a"));
    let made = fs.getattr(&mut cx, file).expect("it is there");
    cx.spend(Ns(100_000_000_000));
    fs.rename(&mut cx, (root, b"a"), (root, b"b"), RenameFlags::NONE).expect("there is room");
    let (mut fs, mut cx) = mount(fs.flash().clone(), Options::default());
    let attr = fs.lookup(&mut cx, root, b"b").expect("it has the new name");
    assert_eq!([attr.atime, attr.mtime].map(|time| time.seconds - made.mtime.seconds), [100, 100]);
}
