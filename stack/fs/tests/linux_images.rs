//! File systems that Linux wrote (`images/README.md`), clean and after a power cut, as we read them; and the same with
//! bytes that are wrong.

use std::fmt::Write;

use fs::compress::{Algorithm, Decompressor};
use fs::ubifs::media::{ItemType, ROOT_INO};
use fs::ubifs::{DirEntry, Reader};
use sim::seam::{LebVolume, Payload, RamVolume};
use sim::{Cx, Lnum, Seed};

const LEB: usize = 31_744;
const LEBS: usize = 48;
/// LEBs up to the last one that is mapped.
const KEPT: usize = 18;

const CLEAN: (&[u8], &str) = (include_bytes!("images/clean.ubifs.zst"), include_str!("images/clean.txt"));
const CUT: (&[u8], &str) = (include_bytes!("images/cut.ubifs.zst"), include_str!("images/cut.txt"));

fn unpacked(image: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; LEB * KEPT];
    Decompressor::new().decompress(Algorithm::Zstd, image, &mut bytes).expect("an image of the tests");
    bytes
}

fn volume(bytes: &[u8]) -> RamVolume {
    let mut volume = RamVolume::new(LEBS as u32, LEB as u32, 512);
    for (lnum, leb) in (0..).zip(bytes.chunks(LEB)) {
        if leb.iter().any(|&byte| byte != 0xff) {
            volume.write(&mut Cx::new(), Lnum(lnum), 0, Payload::Bytes(leb)).expect("there is room");
        }
    }
    volume
}

/// Every file, as `find` and `sha1sum` print it in `images/list.toml`.
fn listing(reader: &mut Reader<RamVolume>) -> String {
    let cx = &mut Cx::new();
    let (mut files, mut sums) = (Vec::new(), Vec::new());
    let mut dirs = vec![(ROOT_INO, String::new())];
    while let Some((dir, path)) = dirs.pop() {
        let inode = reader.inode(cx, dir).expect("Linux reads it");
        let (mode, nlink, uid, gid) = (inode.mode & 0o7777, inode.nlink, inode.uid, inode.gid);
        files.push(format!("{path}/ {mode:o} {nlink} {uid} {gid} {}", time(inode.mtime)));
        for DirEntry { name, ino, .. } in reader.entries(cx, dir).expect("Linux reads it") {
            let name = String::from_utf8(name).expect("names of fsstress");
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            let inode = reader.inode(cx, ino).expect("Linux reads it");
            let letter = match inode.item {
                ItemType::Dir => {
                    dirs.push((ino, path));
                    continue;
                }
                ItemType::File => 'f',
                ItemType::Symlink => 'l',
                ItemType::CharDevice => 'c',
                ItemType::BlockDevice => 'b',
                ItemType::Fifo => 'p',
                ItemType::Socket => 's',
            };
            let (mode, nlink, uid, gid) = (inode.mode & 0o7777, inode.nlink, inode.uid, inode.gid);
            let target = if letter == 'l' { String::from_utf8_lossy(&inode.data) } else { "".into() };
            files.push(format!(
                "{path} {letter} {mode:o} {nlink} {uid} {gid} {} {} {target}",
                inode.size,
                time(inode.mtime)
            ));
            if letter == 'f' {
                let mut sum = sha1_smol::Sha1::new();
                let (mut chunk, mut at) = (vec![0; 1 << 16], 0);
                loop {
                    let read = reader.read(cx, ino, inode.size, at, &mut chunk).expect("Linux reads it");
                    if read == 0 {
                        break;
                    }
                    sum.update(&chunk[..read]);
                    at += read as u64;
                }
                sums.push((format!("./{path}"), sum.digest().to_string()));
            }
        }
    }
    files.sort();
    sums.sort();
    let mut text = String::new();
    files.iter().for_each(|line| writeln!(text, "{line}").expect("to a string"));
    sums.iter().for_each(|(path, sum)| writeln!(text, "{sum}  {path}").expect("to a string"));
    text
}

/// As `find` prints `%T@`.
fn time((seconds, nanos): (u64, u32)) -> String {
    format!("{seconds}.{nanos:09}0")
}

#[track_caller]
fn is_as_linux_says((image, expected): (&[u8], &str), is_unclean: bool) {
    let cx = &mut Cx::new();
    let mut reader = Reader::mount(volume(&unpacked(image)), cx).expect("Linux mounts it");
    assert_eq!(reader.mounted().is_unclean, is_unclean);
    let found = listing(&mut reader);
    let differs = found.lines().zip(expected.lines()).find(|(ours, linux)| ours != linux);
    assert!(found == expected, "first (ours, Linux's): {differs:?}");
    let report = reader.check(cx).expect("a volume in memory");
    assert!(!report.has_errors(), "{:?}", report.findings);
}

#[test]
fn a_file_system_that_linux_unmounted_is_as_linux_says() {
    is_as_linux_says(CLEAN, false);
}

#[test]
fn a_file_system_that_lost_power_is_as_linux_recovers_it() {
    is_as_linux_says(CUT, true);
}

/// Wrong bytes anywhere, in nodes whose checksums are then made right: whatever is read or refused, nothing panics, and
/// the check always ends.
#[test]
fn wrong_bytes_are_found_or_refused() {
    let cx = &mut Cx::new();
    let (mut mounted, mut found) = (0, 0);
    for (image, seed) in [(CLEAN.0, 1), (CUT.0, 2)] {
        let whole = unpacked(image);
        let begins: Vec<usize> =
            (0..whole.len() - 24).step_by(8).filter(|&at| whole[at..at + 4] == [0x31, 0x18, 0x10, 0x06]).collect();
        let mut rng = Seed(seed).stream("wrong bytes");
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..=rng.below(3) {
                let at = begins[rng.below(begins.len() as u64) as usize];
                let len = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().expect("four bytes")) as usize;
                let len = len.clamp(24, bytes.len() - at);
                let wrong = at + 8 + rng.below(len as u64 - 8) as usize;
                bytes[wrong] = rng.bits() as u8;
                let sum = !crc32fast::hash(&bytes[at + 8..at + len]);
                bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
            }
            let Ok(mut reader) = Reader::mount(volume(&bytes), cx) else { continue };
            mounted += 1;
            let report = reader.check(cx).expect("a volume in memory");
            found += u32::from(!report.findings.is_empty());
            let mut dirs = vec![ROOT_INO];
            for _ in 0..100 {
                let Some(dir) = dirs.pop() else { break };
                for entry in reader.entries(cx, dir).unwrap_or_default() {
                    if let Ok(inode) = reader.inode(cx, entry.ino) {
                        let _ = reader.read(cx, inode.ino, inode.size, 0, &mut [0; 20_000]);
                        let _ = reader.attributes(cx, inode.ino);
                    }
                    dirs.push(entry.ino);
                }
            }
        }
    }
    assert!(mounted > 100 && found > 100, "{mounted} mounted, of which the check found {found} wrong");
}

/// Read through the seam of file systems, a file system is the same as by the calls of its own: paths, links, types,
/// contents. Directories are listed from any cookie on.
#[test]
fn the_seam_shows_what_linux_shows() {
    use sim::seam::{FileSystem, FileType, Ino, ReadInto};
    let cx = &mut Cx::new();
    let mut reader = Reader::mount(volume(&unpacked(CUT.0)), cx).expect("Linux mounts it");
    let tree = fs::model::tree(&mut reader, cx).expect("Linux reads it");
    let mut found = Vec::new();
    for (path, node) in &tree.nodes {
        let letter = match node.attr.file_type {
            FileType::Directory => '/',
            FileType::Regular => 'f',
            FileType::Symlink => 'l',
            FileType::CharDevice => 'c',
            FileType::BlockDevice => 'b',
            FileType::Fifo => 'p',
            FileType::Socket => 's',
        };
        let path = String::from_utf8_lossy(path);
        let kind = if letter == '/' { "/".to_owned() } else { format!(" {letter}") };
        found
            .push(format!("{path}{kind} {:o} {} {} {}", node.attr.mode, node.attr.nlink, node.attr.uid, node.attr.gid));
    }
    found.sort();
    let lines = CUT.1.lines().filter(|line| !line.contains("  ./"));
    let field_count = |line: &str| if line.split(' ').next().is_some_and(|path| path.ends_with('/')) { 5 } else { 6 };
    let mut expected: Vec<String> =
        lines.map(|line| line.split(' ').take(field_count(line)).collect::<Vec<_>>().join(" ")).collect();
    expected.sort();
    assert_eq!(found, expected);

    let s = FileSystem::lookup(&mut reader, cx, Ino(1), b"s").expect("Linux lists it").ino;
    let p0 = FileSystem::lookup(&mut reader, cx, s, b"p0").expect("Linux lists it").ino;
    let mut all = Vec::new();
    let mut collect = |entry: sim::seam::Dirent<'_>| {
        all.push((entry.name.to_vec(), entry.cookie));
        true
    };
    reader.readdir(cx, p0, 0, &mut collect).expect("Linux lists it");
    assert!(all.len() > 5);
    for (at, (_, cookie)) in all.iter().enumerate() {
        let mut rest = Vec::new();
        let mut collect = |entry: sim::seam::Dirent<'_>| {
            rest.push(entry.name.to_vec());
            rest.len() < 3
        };
        reader.readdir(cx, p0, *cookie, &mut collect).expect("Linux lists it");
        assert!(rest.iter().eq(all[at + 1..].iter().take(3).map(|(name, _)| name)));
    }
    let errno = |result: Result<u32, sim::seam::FsError>| result.expect_err("it is refused").errno();
    assert_eq!(errno(FileSystem::read(&mut reader, cx, Ino(1), 0, ReadInto::Length(1))), 21);
    assert_eq!(errno(reader.write(cx, Ino(1), 0, Payload::Length(1))), 30);
    assert_eq!(errno(FileSystem::lookup(&mut reader, cx, Ino(1), b"none").map(|_| 0)), 2);
    assert_eq!(errno(FileSystem::getattr(&mut reader, cx, Ino(1 << 40)).map(|_| 0)), 116);
    assert_eq!(errno(reader.getxattr(cx, Ino(1), b"user.none").map(|_| 0)), 61);
}

/// One LEB's properties say eight bytes more are dirty than are: the check names the LEB, and the total.
#[test]
fn wrong_leb_properties_are_found() {
    use fs::ubifs::media::lpt::{LptGeometry, LptType};
    let cx = &mut Cx::new();
    let mut bytes = unpacked(CLEAN.0);
    let sb = Reader::mount(volume(&bytes), cx).expect("Linux mounts it").mounted().sb;
    let geometry = LptGeometry::new(&sb);
    let area = sb.lpt_first() as usize * LEB..sb.orphan_first() as usize * LEB;
    let mut changed = 0;
    for at in area {
        let node = &bytes[at..at + geometry.pnode_bytes()];
        if geometry.type_at(node) != Some(LptType::Pnode) {
            continue;
        }
        let mut lebs = geometry.pnode(node, 0).expect("its checksum is right");
        if let Some(leb) = lebs.iter_mut().find(|leb| leb.free + leb.dirty + 8 < LEB as u32) {
            leb.dirty += 8;
            changed += 1;
            geometry.encode_pnode(&lebs, 0, &mut bytes[at..at + geometry.pnode_bytes()]);
        }
    }
    assert!(changed > 0 && !geometry.is_big);
    let report = Reader::mount(volume(&bytes), cx).expect("it is mounted").check(cx).expect("a volume in memory");
    assert!(report.has_errors());
    for expected in ["LEB properties count", "total_dirty ="] {
        assert!(report.findings.iter().any(|it| it.what.starts_with(expected)), "{expected}: {:?}", report.findings);
    }
}

/// Files with a link more than they have names: the check says so of each.
#[test]
fn wrong_numbers_of_links_are_found() {
    use fs::ubifs::media::{Header, InodeNode, MAGIC, NodeType, inode_flags};
    let cx = &mut Cx::new();
    let mut bytes = unpacked(CLEAN.0);
    let main = Reader::mount(volume(&bytes), cx).expect("Linux mounts it").mounted().sb.main_first() as usize * LEB;
    let mut changed = 0;
    for at in (main..bytes.len() - InodeNode::BYTES).step_by(8) {
        if bytes[at..at + 4] != MAGIC.to_le_bytes() {
            continue;
        }
        let Ok((header, node)) = Header::expect(&bytes[at..], NodeType::Inode) else { continue };
        let inode = InodeNode::decode(node).expect("Linux wrote it");
        if inode.mode & 0o170_000 != 0o100_000 || inode.nlink != 1 || inode.flags & inode_flags::XATTR != 0 {
            continue;
        }
        let mut wrong = vec![0; header.len as usize];
        InodeNode { nlink: 2, ..inode }.encode(&mut wrong, header.group, header.sqnum);
        bytes[at..at + wrong.len()].copy_from_slice(&wrong);
        changed += 1;
    }
    let report = Reader::mount(volume(&bytes), cx).expect("it is mounted").check(cx).expect("a volume in memory");
    let found = report.findings.iter().filter(|it| it.what.ends_with("has 2 links, expected 1")).count();
    // Nodes that are obsolete were changed too.
    assert!((1..=changed).contains(&found), "{found} of {changed}: {:?}", report.findings);
}
