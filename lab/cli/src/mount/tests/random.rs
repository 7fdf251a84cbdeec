//! Drawn operations on a mount and on a directory of this machine: the same errors, the same bytes, the same trees.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ::fs::jffs2::media::Endian;
use ::fs::jffs2::{Compress, mkfs};
use fuser::INodeNo;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use sim::{Rng, Seed};

use super::super::bridge::Bridge;
use super::super::clock::Clock;
use super::super::session::How;
use super::writes::Bench;
use super::{how, model, serve_while, with_mount};

const OPERATIONS: usize = 3000;
const SLOTS: usize = 5;
const DIRS: [&str; 4] = ["", "a", "b", "a/c"];
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
/// Offsets are below this: several blocks of UBIFS and pages of memory.
const MOST_BYTES: u64 = 40_000;

/// A file that is open on both sides.
type Pair = [File; 2];

struct Draw {
    rng: Rng,
    /// Flags of renames that the file system has.
    renames: &'static [RenameFlags],
}

const ALL_RENAMES: &[RenameFlags] = &[RenameFlags::empty(), RenameFlags::NOREPLACE, RenameFlags::EXCHANGE];
/// JFFS2 exchanges no names.
const RENAMES_OF_JFFS2: &[RenameFlags] = &[RenameFlags::empty(), RenameFlags::NOREPLACE];

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.bits() % bound
    }

    fn path(&mut self) -> PathBuf {
        let dir = DIRS[self.below(DIRS.len() as u64) as usize];
        Path::new(dir).join(NAMES[self.below(NAMES.len() as u64) as usize])
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = match self.below(4) {
            0 => self.below(10),
            1 => self.below(5000),
            2 => 4096,
            _ => self.below(20_000),
        };
        (0..length).map(|_| self.rng.bits() as u8).collect()
    }
}

/// Does the same on both sides. Errors have their numbers.
fn both<T: PartialEq + std::fmt::Debug>(
    roots: [&Path; 2],
    what: &str,
    operation: impl Fn(&Path) -> io::Result<T>,
) -> Option<T> {
    let [ours, theirs] = roots.map(|root| operation(root).map_err(|error| error.raw_os_error()));
    assert_eq!(ours, theirs, "{what}");
    ours.ok()
}

fn on_pair<T: PartialEq + std::fmt::Debug>(pair: &Pair, what: &str, operation: impl Fn(&File) -> io::Result<T>) {
    let [ours, theirs] = [&pair[0], &pair[1]].map(|file| operation(file).map_err(|error| error.raw_os_error()));
    assert!(ours == theirs, "{what}");
}

fn step(draw: &mut Draw, roots: [&Path; 2], slots: &mut [Option<Pair>; SLOTS]) {
    let (path, other, slot) = (draw.path(), draw.path(), draw.below(SLOTS as u64) as usize);
    let (offset, bytes, drawn) = (draw.below(MOST_BYTES), draw.bytes(), draw.below(1 << 16));
    let choice = draw.below(22);
    let what = format!("{choice} {} {}", path.display(), other.display());
    match (choice, &slots[slot]) {
        (0, _) => drop(both(roots, &what, |root| fs::create_dir(root.join(&path)))),
        (1, _) => drop(both(roots, &what, |root| fs::remove_dir(root.join(&path)))),
        (2, _) => drop(both(roots, &what, |root| fs::remove_file(root.join(&path)))),
        (3, _) => drop(both(roots, &what, |root| fs::hard_link(root.join(&path), root.join(&other)))),
        (4, _) => drop(both(roots, &what, |root| symlink(&other, root.join(&path)))),
        (5..=7, _) => {
            let flags = draw.renames[drawn as usize % draw.renames.len()];
            both(roots, &format!("{what} {flags:?}"), |root| {
                Ok(renameat_with(CWD, root.join(&path), CWD, root.join(&other), flags)?)
            });
        }
        (8, _) => drop(both(roots, &what, |root| {
            fs::set_permissions(root.join(&path), fs::Permissions::from_mode(drawn as u32 & 0o77 | 0o700))
        })),
        (9, _) => drop(both(roots, &what, |root| fs::write(root.join(&path), &bytes))),
        (10, _) => drop(both(roots, &what, |root| fs::read(root.join(&path)))),
        (11..=13, _) => {
            let open = |root: &Path, extra: OFlags| {
                let mut options = File::options();
                let flags = extra | OFlags::NOFOLLOW | if drawn & 1 == 0 { OFlags::EXCL } else { OFlags::empty() };
                options.read(true).write(true).append(drawn & 6 == 6).create(drawn & 8 == 0);
                options.custom_flags(flags.bits() as i32).open(root.join(&path))
            };
            // Past the page cache, which the other side need not offer.
            let direct = if drawn & 48 == 48 { OFlags::DIRECT } else { OFlags::empty() };
            let [ours, theirs] = [open(roots[0], direct), open(roots[1], OFlags::empty())];
            let number = |file: &io::Result<File>| file.as_ref().err().and_then(io::Error::raw_os_error);
            assert_eq!(number(&ours), number(&theirs), "{what}");
            if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                slots[slot] = Some([ours, theirs]);
            }
        }
        (14, _) => slots[slot] = None,
        (_, None) => {}
        (15..=17, Some(pair)) => on_pair(pair, &what, |file| file.write_all_at(&bytes, offset)),
        (18, Some(pair)) => on_pair(pair, &what, |file| file.set_len(offset)),
        (19, Some(pair)) => on_pair(pair, &what, |file| {
            let found = file.metadata()?;
            Ok((found.len(), found.nlink(), found.mode()))
        }),
        (20, Some(pair)) => on_pair(pair, &what, |file| file.sync_all()),
        (_, Some(pair)) => on_pair(pair, &what, |file| {
            let mut read = vec![0xee; bytes.len()];
            let length = file.read_at(&mut read, offset)?;
            read.truncate(length);
            Ok(read)
        }),
    }
}

/// Everything about the files below a directory but inode numbers and times.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(root.join(&dir)).unwrap() {
            let path = dir.join(entry.unwrap().file_name());
            let attr = fs::symlink_metadata(root.join(&path)).unwrap();
            let (links, contents) = if attr.is_dir() {
                left.push(path.clone());
                // Some file systems do not count them.
                (0, Vec::new())
            } else if attr.is_symlink() {
                (attr.nlink(), fs::read_link(root.join(&path)).unwrap().into_os_string().into_encoded_bytes())
            } else {
                (attr.nlink(), fs::read(root.join(&path)).unwrap())
            };
            found.insert(path, (attr.mode(), links, contents));
        }
    }
    found
}

/// An empty directory of this machine.
fn host(name: &str) -> PathBuf {
    let host = std::env::temp_dir().join(format!("nandlab-mount-host-{name}-{}", std::process::id()));
    fs::create_dir_all(&host).unwrap();
    host
}

/// Does drawn operations in two directories.
fn run(seed: u64, renames: &'static [RenameFlags], [ours, theirs]: [&Path; 2]) {
    let mut draw = Draw { rng: Seed(seed).stream("test/mount"), renames };
    let mut slots = [const { None }; SLOTS];
    for at in 0..OPERATIONS {
        step(&mut draw, [ours, theirs], &mut slots);
        if at % 500 == 0 {
            assert!(tree(ours) == tree(theirs), "after {at} of seed {seed}");
        }
    }
}

#[test]
fn drawn_operations_do_what_they_do_on_a_directory_of_this_machine() {
    for seed in 1..=4 {
        let name = format!("random-{seed}");
        let host = host(&name);
        let after = with_mount(&name, model(), &how(), |dir| run(seed, ALL_RENAMES, [dir, &host]));
        // Mounted anew: nothing is left of what Linux kept in memory.
        with_mount(&name, after, &how(), |dir| {
            let (ours, theirs) = (tree(dir), tree(&host));
            assert!(ours.len() > 5, "{ours:?}");
            assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
            assert!(ours == theirs, "seed {seed}");
        });
        fs::remove_dir_all(&host).unwrap();
    }
}

/// The same over UBIFS, UBI and the file of an image, mounted for writing, and then for reading.
#[test]
fn drawn_operations_on_ubifs_are_in_the_image_afterwards() {
    for seed in 5..=6 {
        let bench = Bench::new(&format!("random-{seed}"));
        let host = host(&format!("ubifs-{seed}"));
        let written = bench.written("--pebs 240", &mut |fs, cx| {
            for name in ["bin", "dev", "etc", "var"] {
                let mut bridge = Bridge::new(fs, cx, Clock::SINCE_1970);
                remove(&mut bridge, INodeNo::ROOT, name.as_bytes());
            }
            serve_while(&format!("ubifs-{seed}"), fs, cx, &how(), |dir| run(seed, ALL_RENAMES, [dir, &host]));
            Ok(())
        });
        assert!(written.unwrap().changed > 100);
        bench.read("", |fs, cx| {
            serve_while(&format!("ubifs-{seed}"), fs, cx, &How { read_only: true, ..how() }, |dir| {
                let (ours, theirs) = (tree(dir), tree(&host));
                assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
                assert!(ours == theirs, "seed {seed}");
            });
        });
        fs::remove_dir_all(&host).unwrap();
    }
}

/// The same over JFFS2, on a NOR and on a NAND.
#[test]
fn drawn_operations_on_jffs2_are_in_the_image_afterwards() {
    for (seed, clean_marker, options) in
        [(7, Some(12), "--pebs 48"), (8, None, "--pebs 32 --peb-size 65536 --page-size 2048")]
    {
        let bench = Bench::new(&format!("random-{seed}"));
        fs::write(bench.dir.join("i"), empty_jffs2(clean_marker)).unwrap();
        let host = host(&format!("jffs2-{seed}"));
        let written = bench.written(options, &mut |fs, cx| {
            serve_while(&format!("jffs2-{seed}"), fs, cx, &how(), |dir| run(seed, RENAMES_OF_JFFS2, [dir, &host]));
            Ok(())
        });
        assert!(written.unwrap().changed > 4, "seed {seed}");
        bench.read("--peb-size 65536", |fs, cx| {
            serve_while(&format!("jffs2-{seed}"), fs, cx, &How { read_only: true, ..how() }, |dir| {
                let (ours, theirs) = (tree(dir), tree(&host));
                assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
                assert!(ours == theirs, "seed {seed}");
            });
        });
        fs::remove_dir_all(&host).unwrap();
    }
}

/// A block of 64 KiB with an empty root directory.
fn empty_jffs2(clean_marker: Option<u32>) -> Vec<u8> {
    let mut image = Vec::new();
    let sink = Box::new(|block: &[u8]| {
        image.extend_from_slice(block);
        Ok::<(), ()>(())
    });
    let options = mkfs::Options {
        endian: Endian::Big,
        block_bytes: 65_536,
        page_bytes: 4096,
        clean_marker,
        summary: false,
        compress: Compress::None,
    };
    let mut made = mkfs::Mkfs::new(options, sink).unwrap();
    let root = made.root();
    made.end_dir(&root, &mkfs::Attributes { mode: 0o40_755, ..mkfs::Attributes::default() }).unwrap();
    made.finish(mkfs::Pad::Block).unwrap();
    image
}

/// Removes a file, or a directory with all that is in it.
fn remove(bridge: &mut Bridge<'_>, dir: INodeNo, name: &[u8]) {
    let attr = bridge.lookup(dir, name).unwrap();
    if attr.kind != fuser::FileType::Directory {
        return bridge.unlink(dir, name).unwrap();
    }
    let mut names = Vec::new();
    let listed = bridge.readdir(attr.ino, 2, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    });
    listed.unwrap();
    names.iter().for_each(|name| remove(bridge, attr.ino, name));
    bridge.rmdir(dir, name).unwrap();
}
