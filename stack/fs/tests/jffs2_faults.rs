//! JFFS2 on a flash that has bad blocks from the factory and whose erasures and programs fail now and then.

use std::collections::BTreeMap;

use fs::jffs2::media::{DirentNode, Endian, InodeNode, clean_marker};
use fs::jffs2::{Counters, Jffs2, KnownBad, Options};
use nand::{Array, ArrayConfig, Bytes, FactoryBad, FaultPlan};
use sim::seam::{FileSystem, SetAttr, SetXattr};
use sim::seam::{Flash, FlashError, FsError, Geometry, Ino, Medium, NewInode, Payload, RamFlash, ReadInto, ReadStatus};
use sim::{Cx, Ns, Peb, Rng, Seed};

const GEOMETRY: Geometry =
    Geometry { medium: Medium::Nand, pebs: 64, peb_bytes: 16_384, page_bytes: 512, subpage_bytes: 512, oob_bytes: 16 };
const NOR: Geometry = Geometry { medium: Medium::Nor, page_bytes: 1, subpage_bytes: 1, oob_bytes: 0, ..GEOMETRY };
/// Blocks that are bad from the start.
const BAD: [u32; 3] = [1, 17, 63];

fn flash(erase_failure: f64, program_failure: f64) -> Array<Bytes> {
    let factory_bad = FactoryBad::List(BAD.map(Peb).to_vec());
    let faults = FaultPlan { factory_bad, erase_failure, program_failure, ..FaultPlan::none(Seed(4)) };
    let config = ArrayConfig { faults: Some(faults), ..ArrayConfig::plain(GEOMETRY) };
    config.validate().expect("the sizes fit");
    Array::new(config, Bytes::new())
}

/// A flash whose failed programs leave garbage, or nothing, or everything.
#[derive(Clone, Debug)]
struct Failing {
    flash: RamFlash,
    /// Of 1000 programs so many fail.
    per_mille: u64,
    programs: u64,
    /// A block whose erasures leave something programmed, though they succeed.
    stuck: Option<Peb>,
    rng: Rng,
}

impl Failing {
    fn new(geometry: Geometry, per_mille: u64, seed: u64) -> Failing {
        Failing {
            flash: RamFlash::new(geometry),
            per_mille,
            programs: 0,
            stuck: None,
            rng: Seed(seed).stream("fs/jffs2-failing-flash"),
        }
    }
}

impl Flash for Failing {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.flash.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.flash.read(cx, peb, offset, buf)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.programs += 1;
        if self.rng.below(1000) >= self.per_mille {
            return self.flash.program(cx, peb, offset, data);
        }
        let mut bytes = data.bytes().expect("contents matter").to_vec();
        let done = self.rng.below(bytes.len() as u64 + 1) as usize;
        match self.rng.below(4) {
            0 => {}
            1 => bytes[done..].fill(0xff),
            // Bits only fall, and some did not.
            2 => bytes[done..].iter_mut().for_each(|byte| *byte |= self.rng.bits() as u8),
            _ => bytes.iter_mut().for_each(|byte| *byte |= self.rng.bits() as u8),
        }
        self.flash.program(cx, peb, offset, Payload::Bytes(&bytes))?;
        Err(FlashError::ProgramFailed { peb, offset })
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        self.flash.read_oob(cx, peb, offset, buf)
    }

    fn program_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, oob: &[u8]) -> Result<(), FlashError> {
        self.flash.program_oob(cx, peb, offset, oob)
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.flash.erase(cx, peb)?;
        match self.stuck == Some(peb) {
            true => self.flash.program(cx, peb, 4096, Payload::Bytes(&[0xfe; 512])),
            false => Ok(()),
        }
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.flash.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.flash.mark_bad(cx, peb)
    }
}

/// Files by name, with their contents.
type Files = BTreeMap<String, Vec<u8>>;

/// An attribute of each file: the first bytes of its contents.
const ATTRIBUTE: &[u8] = b"user.begin";

fn begin(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(40)]
}

fn found<F: Flash>(fs: &mut Jffs2<F>) -> Result<Files, FsError> {
    let cx = &mut Cx::new();
    let root = fs.root();
    let mut found = Files::new();
    let mut names: Vec<(String, Ino)> = Vec::new();
    let mut add = |entry: sim::seam::Dirent<'_>| {
        names.push((String::from_utf8(entry.name.to_vec()).expect("names of this test"), entry.ino));
        true
    };
    fs.readdir(cx, root, 0, &mut add)?;
    for (name, ino) in names {
        let size = fs.getattr(cx, ino)?.size;
        let mut bytes = vec![0; size as usize];
        fs.read(cx, ino, 0, ReadInto::Bytes(&mut bytes))?;
        // A file for whose contents there was no space has no attribute either.
        if let Ok(value) = fs.getxattr(cx, ino, ATTRIBUTE) {
            assert_eq!(value, begin(&bytes), "the attribute of {name}");
        }
        found.insert(name, bytes);
    }
    Ok(found)
}

fn same<F: Flash>(fs: &mut Jffs2<F>, files: &Files) {
    let found = found(fs).expect("it is whole");
    assert!(found == *files, "{} files, expected {}", found.len(), files.len());
    fs.check_memory().expect("the books are right");
}

/// What happens now and then between two files.
#[derive(Clone, Copy)]
enum Between {
    Nothing,
    /// Everything is synced, and a mount of what is on flash then finds it.
    CutAfterSync,
    /// The file is synced, and a mount of what is on flash then finds it.
    CutAfterFsync,
}

fn draw(rng: &mut Rng) -> Vec<u8> {
    (0..rng.below(9000) + 1).map(|_| rng.bits() as u8).collect()
}

/// Writes files anew, so often that each block is erased several times, and looks at them after a mount. Returns the flash,
/// and what was done.
fn rewrite<F: Flash + Clone>(flash: F, options: Options, rounds: u32, between: Between) -> (F, Counters) {
    let cx = &mut Cx::new();
    let mut fs = Jffs2::mount(flash, cx, options).expect("it is erased");
    let (root, mut rng) = (fs.root(), Seed(9).stream("fs/jffs2-faults"));
    let mut files = Files::new();
    for round in 0..rounds {
        cx.spend(Ns(30_000_000));
        let name = format!("file{}", rng.below(20));
        if files.remove(&name).is_some() {
            fs.unlink(cx, root, name.as_bytes()).expect("a deletion finds space");
        }
        let bytes = draw(&mut rng);
        let made = fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644));
        let written = made.and_then(|attr| Ok((attr.ino, fs.write(cx, attr.ino, 0, Payload::Bytes(&bytes))?)));
        let ino = match written {
            Ok((ino, written)) => {
                let bytes = bytes[..written as usize].to_vec();
                match fs.setxattr(cx, ino, ATTRIBUTE, begin(&bytes), SetXattr::Set) {
                    Ok(()) | Err(FsError::NoSpace) => {}
                    Err(error) => panic!("{error}"),
                }
                files.insert(name.clone(), bytes);
                Some(ino)
            }
            Err(FsError::NoSpace) => {
                if let Ok(attr) = fs.lookup(cx, root, name.as_bytes()) {
                    let mut bytes = vec![0; attr.size as usize];
                    fs.read(cx, attr.ino, 0, ReadInto::Bytes(&mut bytes)).expect("it is whole");
                    files.insert(name.clone(), bytes);
                }
                None
            }
            Err(error) => panic!("{error}"),
        };
        if fs.has_work() {
            fs.collect(cx).expect("the flash can be written");
        }
        fs.check_memory().expect("the books are right");
        match (between, ino) {
            (Between::CutAfterSync, _) if round % 5 == 0 => {
                fs.sync(cx).expect("the flash can be written");
                let mut left = Jffs2::mount(fs.clone().into_flash(), cx, options).expect("it is ours");
                same(&mut left, &files);
            }
            (Between::CutAfterFsync, Some(ino)) => {
                fs.fsync(cx, ino, false).expect("the flash can be written");
                let mut left = Jffs2::mount(fs.clone().into_flash(), cx, options).expect("it is ours");
                let attr = left.lookup(cx, root, name.as_bytes()).expect("it is there");
                let mut bytes = vec![0; attr.size as usize];
                left.read(cx, attr.ino, 0, ReadInto::Bytes(&mut bytes)).expect("it is whole");
                assert!(bytes == files[&name], "{name} after round {round}");
            }
            _ => {}
        }
    }
    same(&mut fs, &files);
    let counters = *fs.counters();
    let flash = fs.unmount(cx).expect("there is power");
    let mut fs = Jffs2::mount(flash.clone(), cx, options).expect("it is ours");
    same(&mut fs, &files);
    (flash, counters)
}

fn bad_after(erase_failure: f64) -> Vec<u32> {
    let (flash, counters) = rewrite(flash(erase_failure, 0.0), Options::default(), 1200, Between::Nothing);
    assert!(counters.erased > 200, "{counters:?}");
    assert_eq!((counters.failed_programs, counters.rescued), (0, 0));
    flash.bad_pebs().map(|peb| peb.0).collect()
}

#[test]
fn bad_blocks_of_the_factory_are_left_alone() {
    assert_eq!(bad_after(0.0), BAD);
}

/// Linux tries twice, then it marks the block bad.
#[test]
fn a_block_whose_erasure_fails_twice_is_bad() {
    let bad = bad_after(0.08);
    assert!(BAD.iter().all(|block| bad.contains(block)) && bad.len() > BAD.len(), "{bad:?}");
}

/// A failed program does not make a block bad: its erasure decides.
#[test]
fn what_a_failed_program_was_to_write_is_written_elsewhere() {
    for summary in [false, true] {
        let options = Options { summary, ..Options::default() };
        let (flash, counters) = rewrite(flash(0.0, 0.01), options, 1200, Between::Nothing);
        assert!(counters.failed_programs > 100 && counters.rescued > 50, "{counters:?}");
        assert_eq!(flash.fault_counts().program_failures, counters.failed_programs);
        assert_eq!(flash.bad_pebs().map(|peb| peb.0).collect::<Vec<_>>(), BAD);
        assert_eq!(counters.summaries > 0, summary);
    }
}

#[test]
fn a_block_with_failed_programs_is_bad_once_its_erasures_fail() {
    let (flash, counters) = rewrite(flash(0.05, 0.01), Options::default(), 800, Between::Nothing);
    assert!(counters.failed_programs > 50, "{counters:?}");
    assert!(flash.bad_pebs().count() > BAD.len());
}

#[test]
fn what_a_failed_program_leaves_does_not_harm() {
    for (geometry, per_mille) in [(GEOMETRY, 20), (NOR, 20)] {
        for summary in [false, true] {
            let options = Options { summary, ..Options::default() };
            for (between, seed) in [(Between::CutAfterSync, 1), (Between::CutAfterFsync, 2)] {
                let (_, counters) = rewrite(Failing::new(geometry, per_mille, seed), options, 500, between);
                assert!(counters.failed_programs > 30, "{counters:?}");
                assert_eq!(counters.rescued > 0, geometry.medium == Medium::Nand, "{counters:?}");
            }
        }
    }
}

/// A page holds nodes of several calls. All of them count as written.
#[test]
fn nodes_that_waited_are_lost_if_only_the_last_is_written_again() {
    let drops =
        Options { known_bad: KnownBad { drop_after_failure: true, ..KnownBad::default() }, ..Options::default() };
    let survives = |options: Options| {
        let cx = &mut Cx::new();
        let mut fs = Jffs2::mount(Failing::new(GEOMETRY, 0, 1), cx, options).expect("it is erased");
        let (root, mut rng) = (fs.root(), Seed(9).stream("fs/jffs2-faults"));
        fs.flash_mut().per_mille = 200;
        let mut files = Files::new();
        for round in 0..100 {
            let (name, bytes) = (format!("file{round}"), draw(&mut rng)[..1].to_vec());
            let ino = fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644)).expect("there is space").ino;
            fs.write(cx, ino, 0, Payload::Bytes(&bytes)).expect("there is space");
            files.insert(name, bytes);
        }
        let synced = fs.sync(cx);
        let mut fs = Jffs2::mount(fs.into_flash(), cx, options).expect("it is ours");
        synced.is_ok() && found(&mut fs).is_ok_and(|found| found == files)
    };
    assert!(survives(Options::default()));
    assert!(!survives(drops));
}

/// Every program fails: the file system becomes read-only after a few, and what was on flash stays.
#[test]
fn a_flash_that_can_no_longer_be_programmed_makes_it_read_only() {
    for (geometry, summary) in [(GEOMETRY, false), (GEOMETRY, true), (NOR, false), (NOR, true)] {
        let (cx, options) = (&mut Cx::new(), Options { summary, ..Options::default() });
        let mut fs = Jffs2::mount(Failing::new(geometry, 0, 1), cx, options).expect("it is erased");
        let root = fs.root();
        let ino = fs.create(cx, root, b"old", NewInode::of_root(0o644)).expect("there is space").ino;
        fs.write(cx, ino, 0, Payload::Bytes(&[7; 5000])).expect("there is space");
        fs.sync(cx).expect("it can be written");
        let new = fs.create(cx, root, b"new", NewInode::of_root(0o644)).expect("there is space").ino;
        let programs = fs.flash().programs;
        fs.flash_mut().per_mille = 1000;
        let failed = (0..100).find_map(|round: u64| fs.write(cx, new, 100 * round, Payload::Bytes(&[8; 100])).err());
        let failed = failed.expect("a program fails").to_string();
        assert!(failed.contains("program failed") || failed.contains("read-only"), "{failed}");
        assert!(fs.flash().programs - programs < 20, "{} programs", fs.flash().programs - programs);
        assert!(fs.is_read_only());
        let programs = fs.flash().programs;
        for error in [
            fs.write(cx, new, 0, Payload::Bytes(&[9; 100])).map(drop),
            fs.unlink(cx, root, b"old"),
            fs.fsync(cx, new, false),
            fs.sync(cx),
        ] {
            assert!(matches!(error, Err(FsError::ReadOnly { .. })), "{error:?}");
        }
        assert_eq!(fs.flash().programs, programs, "nothing is written any more");
        fs.check_memory().expect("the books are right");
        let mut bytes = vec![0; 5000];
        fs.read(cx, ino, 0, ReadInto::Bytes(&mut bytes)).expect("it is whole");
        let mut flash = fs.into_flash();
        flash.per_mille = 0;
        let mut fs = Jffs2::mount(flash, cx, options).expect("it is ours");
        let old = fs.lookup(cx, root, b"old").expect("it is there").ino;
        fs.read(cx, old, 0, ReadInto::Bytes(&mut bytes)).expect("it is whole");
        assert_eq!(bytes, [7; 5000]);
    }
}

/// A full flash whose programs fail: before so many have that it is given up for that, no block is left for what they were to
/// write. It may be on flash all the same, so that nothing is written any more.
#[test]
fn a_full_flash_without_room_for_what_failed_becomes_read_only() {
    let (cx, options) = (&mut Cx::new(), Options::default());
    let mut fs = Jffs2::mount(Failing::new(Geometry { pebs: 8, ..GEOMETRY }, 0, 1), cx, options).expect("it is erased");
    let (root, mut rng) = (fs.root(), Seed(1).stream("contents"));
    let ino = fs.create(cx, root, b"file", NewInode::of_root(0o644)).expect("there is space").ino;
    let full = (0..1000u64).find_map(|page| {
        let bytes: Vec<u8> = (0..4096).map(|_| rng.bits() as u8).collect();
        fs.write(cx, ino, 4096 * page, Payload::Bytes(&bytes)).err()
    });
    assert!(matches!(full, Some(FsError::NoSpace)), "{full:?}");
    fs.sync(cx).expect("it can be written");
    let before = fs.counters().failed_programs;
    fs.flash_mut().per_mille = 1000;
    let refused = (0..100).find_map(|_| fs.unlink(cx, root, b"file").and_then(|()| fs.sync(cx)).err());
    assert!(matches!(refused, Some(FsError::NoSpace)), "{refused:?}");
    let failed = fs.counters().failed_programs - before;
    assert!((1..9).contains(&failed), "{failed} programs failed");
    assert!(fs.is_read_only());
    assert!(matches!(fs.sync(cx), Err(FsError::ReadOnly { .. })));
}

/// Power failed before the older of two entries of a name was marked obsolete. The removal of the name marks both, and tries
/// again where that fails.
#[test]
fn a_name_with_an_older_entry_is_removed_though_programs_fail() {
    let mut failed = 0;
    for seed in 0..20 {
        let (cx, mut flash) = (&mut Cx::new(), Failing::new(NOR, 0, seed));
        let (mut nodes, mut file) = (clean_marker(Endian::Little, false), Vec::new());
        InodeNode { ino: 2, version: 1, mode: 0o100_644, ..InodeNode::default() }.write(Endian::Little, b"", &mut file);
        nodes.extend(file);
        for version in [1, 2] {
            let entry = DirentNode { dir: 1, version, ino: 2, kind: 8, ..DirentNode::default() };
            entry.write(Endian::Little, b"name", &mut nodes);
        }
        // The inode stays, for it has another name.
        let other = DirentNode { dir: 1, version: 3, ino: 2, kind: 8, ..DirentNode::default() };
        other.write(Endian::Little, b"kept", &mut nodes);
        flash.program(cx, Peb(0), 0, Payload::Bytes(&nodes)).expect("it is erased");
        let mut fs = Jffs2::mount(flash, cx, Options::default()).expect("it is ours");
        let root = fs.root();
        fs.flash_mut().per_mille = 300;
        fs.unlink(cx, root, b"name").expect("it is tried again");
        failed += fs.counters().failed_programs;
        let mut fs = Jffs2::mount(fs.into_flash(), cx, Options::default()).expect("it is ours");
        assert!(fs.lookup(cx, root, b"kept").is_ok(), "seed {seed}");
        assert!(fs.lookup(cx, root, b"name").is_err(), "seed {seed}");
    }
    assert!(failed > 10, "{failed}");
}

/// A failed program may leave all of a node, beside the one that was written then. A name that is removed has no node left that would
/// bring it back.
#[test]
fn a_name_does_not_come_back_by_a_node_whose_program_failed() {
    let mut failed = 0;
    for seed in 0..40 {
        let cx = &mut Cx::new();
        let mut fs = Jffs2::mount(Failing::new(NOR, 0, seed), cx, Options::default()).expect("it is erased");
        let root = fs.root();
        fs.create(cx, root, b"first", NewInode::of_root(0o644)).expect("there is space");
        fs.flash_mut().per_mille = 300;
        for name in [b"kept", b"gone"] {
            fs.link(cx, Ino(2), root, name).expect("it is tried again");
        }
        fs.flash_mut().per_mille = 0;
        fs.unlink(cx, root, b"gone").expect("it is there");
        failed += fs.counters().failed_programs;
        let mut fs = Jffs2::mount(fs.into_flash(), cx, Options::default()).expect("it is ours");
        assert!(fs.lookup(cx, root, b"kept").is_ok(), "seed {seed}");
        assert!(fs.lookup(cx, root, b"gone").is_err(), "seed {seed}");
    }
    assert!(failed > 20, "{failed}");
}

/// Linux, `jffs2_block_check_erase`: a block is looked at after its erasure. One that is not erased then is as one whose erasure failed.
#[test]
fn a_block_that_is_not_erased_after_its_erasure_is_bad() {
    let cx = &mut Cx::new();
    let flash = Failing { stuck: Some(Peb(5)), ..Failing::new(GEOMETRY, 0, 1) };
    let mut fs = Jffs2::mount(flash, cx, Options::default()).expect("it is erased");
    while fs.has_work() {
        fs.collect(cx).expect("it can be written");
    }
    assert_eq!((fs.free_blocks(), fs.space().bad), (63, 16_384));
    let bad: Vec<u32> = (0..64).filter(|&block| fs.flash().is_bad(Peb(block))).collect();
    assert_eq!(bad, [5]);
}

/// Where programs fail, a page may take several nodes, and garbage is collected between two of them: from the block where the first one
/// is, before others. Nothing of the page may be written as it was before.
#[test]
fn a_page_that_is_collected_while_it_is_written_keeps_what_is_written() {
    let geometry = Geometry { pebs: 20, peb_bytes: 8192, ..GEOMETRY };
    let options = Options { page_cache_bytes: 1 << 20, summary: true, ..Options::default() };
    let cx = &mut Cx::new();
    let (mut mounts, mut failed) = (0, 0);
    for seed in 0..60 {
        let flash = Failing::new(geometry, 60, seed);
        let mut fs = Jffs2::mount(flash, cx, options).expect("it is empty");
        let file = fs.create(cx, fs.root(), b"file", NewInode::of_root(0o644)).expect("there is space").ino;
        let mut expected = vec![0; 60_000];
        fs.setattr(cx, file, &SetAttr::size(60_000)).expect("there is space");
        let mut rng = Seed(seed).stream("fs/jffs2-pages");
        for turn in 0..200 {
            let at = rng.below(56_000) as usize;
            let noise: Vec<u8> = (0..1 + rng.below(4000)).map(|_| rng.bits() as u8).collect();
            let written = match fs.write(cx, file, at as u64, Payload::Bytes(&noise)) {
                Ok(written) => written as usize,
                Err(FsError::NoSpace) => 0,
                // Too many programs failed.
                Err(FsError::ReadOnly { .. }) => break,
                Err(error) => panic!("seed {seed}, turn {turn}: {error}"),
            };
            expected[at..at + written].copy_from_slice(&noise[..written]);
            if turn % 8 == 0 {
                (mounts, failed) = (mounts + 1, failed + fs.counters().failed_programs);
                fs = Jffs2::mount(fs.unmount(cx).expect("there is power"), cx, options).expect("it can be mounted");
                let mut found = vec![1; 60_000];
                fs.read(cx, file, 0, ReadInto::Bytes(&mut found)).expect("it is there");
                assert!(found == expected, "seed {seed}, turn {turn}");
            }
        }
    }
    assert!(mounts > 500 && failed > 1000, "{mounts} mounts, {failed} programs failed");
}
