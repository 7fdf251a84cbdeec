//! JFFS2 that Linux wrote (`images/jffs2/README.md`), synced and after a power cut, as we read it; and written on by us.

use std::collections::BTreeMap;
use std::fmt::Write;

use fs::compress::{Algorithm, Compressor, Decompressor};
use fs::jffs2::media::{
    ACCURATE, DirentNode, Endian, HEADER_BYTES, Header, InodeNode, Summary, XattrNode, XrefNode, clean_marker, crc,
    node_type, write_summary,
};
use fs::jffs2::{Jffs2, Options};
use fs::model::tree;
use sim::Cx;
use sim::seam::{
    Attr, FileSystem, FileType, Flash, Geometry, Ino, Medium, NewInode, Payload, RamFlash, ReadInto, Timestamp,
};
use sim::{Peb, Seed};

/// A flash and what Linux says of it.
struct Golden {
    image: &'static [u8],
    listing: &'static str,
    is_nor: bool,
}

macro_rules! golden {
    ($name:literal, $is_nor:literal) => {
        Golden {
            image: include_bytes!(concat!("images/jffs2/", $name, ".zst")),
            listing: include_str!(concat!("images/jffs2/", $name, ".txt")),
            is_nor: $is_nor,
        }
    };
}

const GOLDENS: [Golden; 4] =
    [golden!("clean-nand", false), golden!("cut-nand", false), golden!("clean-nor", true), golden!("cut-nor", true)];

impl Golden {
    fn bytes(&self) -> Vec<u8> {
        let geometry = self.geometry();
        let mut bytes = vec![0; geometry.bytes() as usize];
        Decompressor::new().decompress(Algorithm::Zstd, self.image, &mut bytes).expect("an image of the tests");
        bytes
    }

    fn geometry(&self) -> Geometry {
        match self.is_nor {
            true => Geometry {
                medium: Medium::Nor,
                pebs: 20,
                peb_bytes: 65_536,
                page_bytes: 1,
                subpage_bytes: 1,
                oob_bytes: 0,
            },
            false => Geometry {
                medium: Medium::Nand,
                pebs: 40,
                peb_bytes: 32_768,
                page_bytes: 2048,
                subpage_bytes: 2048,
                oob_bytes: 64,
            },
        }
    }

    fn flash(&self, bytes: &[u8]) -> RamFlash {
        let geometry = self.geometry();
        let mut flash = RamFlash::new(geometry);
        let page = if self.is_nor { geometry.peb_bytes } else { geometry.page_bytes } as usize;
        for (peb, block) in (0..).zip(bytes.chunks(geometry.peb_bytes as usize)) {
            for (at, page) in (0..).step_by(page).zip(block.chunks(page)) {
                if page.iter().any(|&byte| byte != 0xff) {
                    flash.program(&mut Cx::new(), Peb(peb), at, Payload::Bytes(page)).expect("there is room");
                }
            }
        }
        flash
    }
}

fn options(read_only: bool, summary: bool) -> Options {
    let epoch = Timestamp { seconds: 1_700_000_000, nanos: 0 };
    Options { read_only, summary, epoch, ..Options::default() }
}

/// Every file, as `find`, Python and `sha1sum` print it in `list-*.toml`.
fn listing<F: Flash>(fs: &mut Jffs2<F>) -> String {
    let cx = &mut Cx::new();
    let (mut files, mut sums, mut xattrs) = (Vec::new(), Vec::new(), Vec::new());
    let mut dirs = vec![(fs.root(), String::new())];
    while let Some((dir, path)) = dirs.pop() {
        let attr = fs.getattr(cx, dir).expect("Linux reads it");
        // Linux counts one link more of the root of JFFS2.
        let links = attr.nlink + u32::from(dir == fs.root());
        let Attr { mode, uid, gid, mtime, .. } = attr;
        files.push(format!("{path}/ {mode:o} {links} {uid} {gid} {}", time(mtime)));
        let mut entries: Vec<(Vec<u8>, Ino)> = Vec::new();
        fs.readdir(cx, dir, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.ino));
            true
        })
        .expect("Linux reads it");
        for (name, ino) in entries {
            let name = String::from_utf8(name).expect("names of fsstress");
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            for name in fs.listxattr(cx, ino).expect("Linux reads it") {
                let value = fs.getxattr(cx, ino, &name).expect("Linux reads it");
                let hex: String = value.iter().take(40).map(|byte| format!("{byte:02x}")).collect();
                xattrs.push(format!("xattr ./{path} {} {hex} {}", String::from_utf8_lossy(&name), value.len()));
            }
            let attr = fs.getattr(cx, ino).expect("Linux reads it");
            let letter = match attr.file_type {
                FileType::Directory => {
                    dirs.push((ino, path));
                    continue;
                }
                FileType::Regular => 'f',
                FileType::Symlink => 'l',
                FileType::CharDevice => 'c',
                FileType::BlockDevice => 'b',
                FileType::Fifo => 'p',
                FileType::Socket => 's',
            };
            let Attr { mode, nlink, uid, gid, size, mtime, .. } = attr;
            let target = if letter == 'l' { fs.readlink(cx, ino).expect("Linux reads it") } else { Vec::new() };
            let target = String::from_utf8_lossy(&target);
            files.push(format!("{path} {letter} {mode:o} {nlink} {uid} {gid} {size} {} {target}", time(mtime)));
            if letter == 'f' {
                let mut sum = sha1_smol::Sha1::new();
                let (mut chunk, mut at) = (vec![0; 1 << 16], 0);
                loop {
                    let read = fs.read(cx, ino, at, ReadInto::Bytes(&mut chunk)).expect("Linux reads it") as usize;
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
    xattrs.sort();
    sums.sort();
    let mut text = String::new();
    files.iter().chain(&xattrs).for_each(|line| writeln!(text, "{line}").expect("to a string"));
    sums.iter().for_each(|(path, sum)| writeln!(text, "{sum}  {path}").expect("to a string"));
    text
}

/// As `find` prints `%T@`.
fn time(time: Timestamp) -> String {
    format!("{}.{:09}0", time.seconds, time.nanos)
}

/// Linux's listing, with its attributes in one order: Python walks directories as the file system lists them.
fn sorted(listing: &str) -> String {
    let (mut xattrs, others): (Vec<&str>, Vec<&str>) = listing.lines().partition(|line| line.starts_with("xattr "));
    xattrs.sort_unstable();
    let files = others.iter().position(|line| line.contains("  ./")).unwrap_or(others.len());
    let all = others[..files].iter().chain(&xattrs).chain(&others[files..]);
    all.fold(String::new(), |text, line| text + line + "\n")
}

#[track_caller]
fn is_as_linux_says(fs: &mut Jffs2<RamFlash>, golden: &Golden) {
    let (found, expected) = (listing(fs), sorted(golden.listing));
    let differs = found.lines().zip(expected.lines()).find(|(ours, linux)| ours != linux);
    assert!(found == expected, "first (ours, Linux's): {differs:?}");
}

#[test]
fn what_linux_wrote_is_read_as_linux_reads_it() {
    for golden in &GOLDENS {
        for (read_only, summary) in [(true, true), (true, false), (false, false), (false, true)] {
            let flash = golden.flash(&golden.bytes());
            let mut fs = Jffs2::mount(flash, &mut Cx::new(), options(read_only, summary)).expect("Linux mounts it");
            is_as_linux_says(&mut fs, golden);
            fs.check_memory().expect("the books are right");
        }
    }
}

/// Garbage collection moves every node of the flash, and nothing is lost by that.
#[test]
fn what_linux_wrote_survives_our_garbage_collection() {
    for golden in &GOLDENS {
        for summary in [false, true] {
            let cx = &mut Cx::new();
            let flash = golden.flash(&golden.bytes());
            let mut fs = Jffs2::mount(flash, cx, options(false, summary)).expect("Linux mounts it");
            for _ in 0..20_000 {
                fs.collect(cx).expect("there is room");
                cx.spend(sim::Ns(1_000_000));
            }
            assert!(fs.counters().erased > 10, "{:?}", fs.counters());
            fs.check_memory().expect("the books are right");
            is_as_linux_says(&mut fs, golden);
            let flash = fs.unmount(cx).expect("there is power");
            let mut fs = Jffs2::mount(flash, cx, options(false, summary)).expect("it is ours");
            is_as_linux_says(&mut fs, golden);
        }
    }
}

/// Wrong bytes anywhere: whatever is read, written or refused, nothing panics.
#[test]
fn wrong_bytes_are_read_around_or_refused() {
    let cx = &mut Cx::new();
    let mut mounted = 0;
    for (golden, seed) in GOLDENS.iter().zip(1..) {
        let whole = golden.bytes();
        let used: Vec<usize> =
            (0..whole.len() - 12).step_by(4).filter(|&at| whole[at..at + 2] == [0x85, 0x19]).collect();
        let mut rng = Seed(seed).stream("wrong bytes");
        for _ in 0..40 {
            let mut bytes = whole.clone();
            for _ in 0..=rng.below(4) {
                let at = used[rng.below(used.len() as u64) as usize];
                let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
                let wrong = at + rng.below(len.clamp(12, 80) as u64) as usize;
                bytes[wrong] = rng.bits() as u8;
                repair(&mut bytes, at);
            }
            let Ok(mut fs) = Jffs2::mount(golden.flash(&bytes), cx, options(false, rng.chance(0.5))) else { continue };
            mounted += 1;
            let _ = tree(&mut fs, cx);
            let root = fs.root();
            let made = fs.create(cx, root, b"new", NewInode::of_root(0o644));
            if let Ok(attr) = made {
                let _ = fs.write(cx, attr.ino, 5000, Payload::Bytes(&[7; 9000]));
                let _ = fs.rename(cx, (root, b"new"), (root, b"newer"), sim::seam::RenameFlags::NONE);
            }
            for _ in 0..500 {
                let _ = fs.collect(cx);
            }
            fs.check_memory().expect("the books are right");
        }
    }
    assert!(mounted > 100, "{mounted} of 160 mounted");
}

/// Makes the CRCs of a node right again, but for that of its data.
fn repair(bytes: &mut [u8], at: usize) {
    use fs::jffs2::media::crc;
    let put = |bytes: &mut [u8], at: usize, sum: u32| bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    let header = crc(&bytes[at..at + 8]);
    put(bytes, at + 8, header);
    let (from, to) = match bytes[at + 2..at + 4] {
        [0x01, 0xe0] => (at..at + 32, at + 32),
        [0x02, 0xe0] => (at..at + 60, at + 64),
        [0x08, 0xe0] => (at..at + 28, at + 28),
        [0x09, 0xe0] => (at..at + 24, at + 24),
        _ => return,
    };
    if to + 4 <= bytes.len() {
        let sum = crc(&bytes[from]);
        put(bytes, to, sum);
    }
}

/// Writes every node of an image anew from what it says. Returns how many there are of each type.
fn rewritten(endian: Endian, image: &[u8], block_bytes: usize) -> BTreeMap<u16, usize> {
    let mut count = BTreeMap::new();
    for block in image.chunks(block_bytes) {
        let mut at = 0;
        while at + HEADER_BYTES <= block.len() {
            let Ok(header) = Header::read(endian, &block[at..]) else {
                at += 4;
                continue;
            };
            let node = &block[at..at + header.len as usize];
            let mut again = Vec::new();
            match header.node_type | ACCURATE {
                node_type::INODE => {
                    let read = InodeNode::read(endian, node).expect("it is whole");
                    let data = &node[InodeNode::BYTES..];
                    assert_eq!(crc(data), read.data_crc);
                    read.write(endian, data, &mut again);
                }
                node_type::DIRENT => {
                    let read = DirentNode::read(endian, node).expect("it is whole");
                    read.write(endian, &node[DirentNode::BYTES..], &mut again);
                }
                node_type::XATTR => {
                    let read = XattrNode::read(endian, node).expect("it is whole");
                    let data = &node[XattrNode::BYTES..XattrNode::BYTES + read.data_len()];
                    let (name, value) = data.split_at(read.name_len.into());
                    read.write(endian, name, &value[1..], &mut again);
                    again.resize(node.len(), 0xff);
                }
                node_type::XREF => XrefNode::read(endian, node).expect("it is whole").write(endian, &mut again),
                node_type::CLEAN_MARKER => again = clean_marker(endian, false),
                node_type::SUMMARY => {
                    let read = Summary::read(endian, node, at as u32).expect("it is whole");
                    let padding = u32::from_le_bytes(node[20..24].try_into().expect("four bytes"));
                    let padding = if endian == Endian::Big { padding.swap_bytes() } else { padding };
                    let sizes = (read.clean_marker, padding);
                    again =
                        write_summary(endian, &read.entries, sizes, at as u32, block.len() as u32).expect("it fits");
                }
                _ => again.extend_from_slice(node),
            }
            // What is obsolete has lost a bit of its type.
            again[2..4].copy_from_slice(&node[2..4]);
            assert!(again == node, "a node of type {:#06x} at {at} is written otherwise", header.node_type);
            *count.entry(header.node_type | ACCURATE).or_default() += 1;
            at += header.padded() as usize;
        }
    }
    count
}

#[test]
fn every_node_of_linux_and_mtd_utils_is_written_as_they_write_it() {
    let of = |name: &BTreeMap<u16, usize>, node_type: u16| name.get(&node_type).copied().unwrap_or(0);
    let mut linux = BTreeMap::<u16, usize>::new();
    // Nodes that a power cut tore are not whole.
    for golden in [&GOLDENS[0], &GOLDENS[2]] {
        let found = rewritten(Endian::Little, &golden.bytes(), golden.geometry().peb_bytes as usize);
        found.into_iter().for_each(|(node_type, count)| *linux.entry(node_type).or_default() += count);
    }
    let found = |node_type| of(&linux, node_type);
    assert!(found(node_type::INODE) > 1000 && found(node_type::DIRENT) > 100, "{linux:?}");
    assert!(found(node_type::XATTR) > 20 && found(node_type::XREF) > 20, "{linux:?}");
    assert!(found(node_type::SUMMARY) > 2 && found(node_type::CLEAN_MARKER) > 2, "{linux:?}");
    for (endian, made, summed) in [
        (
            Endian::Little,
            &include_bytes!("images/jffs2/mkfs-little.img")[..],
            &include_bytes!("images/jffs2/sumtool-little.zst")[..],
        ),
        (Endian::Big, include_bytes!("images/jffs2/mkfs-big.img"), include_bytes!("images/jffs2/sumtool-big.zst")),
    ] {
        let found = rewritten(endian, made, 16_384);
        assert_eq!((of(&found, node_type::INODE), of(&found, node_type::DIRENT)), (4, 4));
        let mut whole = vec![0; 32_768];
        Decompressor::new().decompress(Algorithm::Zstd, summed, &mut whole).expect("an image of the tests");
        let found = rewritten(endian, &whole, 16_384);
        assert_eq!((of(&found, node_type::SUMMARY), of(&found, node_type::DIRENT)), (1, 5));
    }
}

/// The same files by the nodes and by the summary, in both byte orders, as the directory had them.
#[test]
fn what_mkfs_jffs2_made_is_the_directory_that_it_was_made_of() {
    for (summed, endian) in [
        (&include_bytes!("images/jffs2/sumtool-little.zst")[..], Endian::Little),
        (include_bytes!("images/jffs2/sumtool-big.zst"), Endian::Big),
    ] {
        for summary in [true, false] {
            let mut whole = vec![0; 32_768];
            Decompressor::new().decompress(Algorithm::Zstd, summed, &mut whole).expect("an image of the tests");
            let geometry = Geometry {
                medium: Medium::Nor,
                pebs: 2,
                peb_bytes: 16_384,
                page_bytes: 1,
                subpage_bytes: 1,
                oob_bytes: 0,
            };
            let mut flash = RamFlash::new(geometry);
            let cx = &mut Cx::new();
            for (peb, block) in (0..).zip(whole.chunks(16_384)) {
                flash.program(cx, Peb(peb), 0, Payload::Bytes(block)).expect("it is erased");
            }
            let mut fs = Jffs2::mount(flash, cx, options(true, summary)).expect("it is whole");
            assert_eq!(fs.endian(), endian);
            let tree = tree(&mut fs, cx).expect("it is whole");
            let shown: Vec<String> = tree
                .nodes
                .iter()
                .skip(1)
                .map(|(path, node)| {
                    let Attr { file_type, mode, size, device, mtime, .. } = node.attr;
                    let target = String::from_utf8_lossy(&node.target);
                    let name = String::from_utf8_lossy(path);
                    format!(
                        "{name} {file_type:?} {mode:o} {size} {}:{} {} {target}",
                        device.major, device.minor, mtime.seconds
                    )
                })
                .collect();
            // The number 5:300 does not fit into the two bytes that mkfs.jffs2 writes: (5 << 8 | 300) is 6:44.
            let expected = [
                "a Regular 644 5 0:0 1700000000 ",
                "b BlockDevice 644 0 8:1 1700000000 ",
                "d CharDevice 644 0 6:44 1700000000 ",
                "l Symlink 777 1 0:0 1700000000 a",
                "z Regular 644 20000 0:0 1700000000 ",
            ];
            assert_eq!(shown, expected);
            let file = fs.lookup(cx, Ino(1), b"a").expect("it is there").ino;
            let mut bytes = [0; 9];
            assert_eq!(fs.read(cx, file, 0, ReadInto::Bytes(&mut bytes)), Ok(5));
            assert_eq!(&bytes[..5], b"hello");
        }
    }
}

/// What Linux 6.12 made of files whose first half is noise and whose second half is zero (mount option `compr=zlib`, read with
/// jffs2dump): bytes of the file, and bytes in its first node. It leaves two bytes of the shortest file to a second node. How short the
/// data become is each deflate's own.
#[test]
fn zlib_takes_as_much_of_the_data_as_linux_does() {
    let mut pack = Compressor::new();
    for (bytes, taken) in [(54, 52), (72, 72), (100, 100), (128, 128), (1000, 1000), (4096, 4096)] {
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        });
        let data: Vec<u8> = noise.take(bytes - bytes / 2).chain(vec![0; bytes / 2]).collect();
        let mut out = vec![0; bytes];
        let (found, packed) = pack.zlib_some(&data, &mut out).expect("half of it is zero");
        assert_eq!(found, taken, "{bytes} bytes");
        let mut back = vec![0xee; taken];
        let unpacked = Decompressor::new().decompress(Algorithm::Zlib, &out[..packed], &mut back);
        assert_eq!((unpacked, &back[..]), (Ok(()), &data[..taken]));
        // Linux keeps 12 bytes for the end of the stream.
        assert_eq!(pack.zlib_some(&data, &mut out[..12]), None);
    }
}
