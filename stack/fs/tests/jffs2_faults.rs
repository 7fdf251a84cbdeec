//! JFFS2 on NAND that has bad blocks from the factory and whose erasures fail now and then.

use std::collections::BTreeMap;

use fs::jffs2::{Jffs2, Options};
use nand::{Array, ArrayConfig, Bytes, FactoryBad, FaultPlan};
use sim::seam::{FileSystem, FsError, Geometry, Ino, Medium, NewInode, Payload, ReadInto};
use sim::{Cx, Ns, Peb, Rng, Seed};

const GEOMETRY: Geometry =
    Geometry { medium: Medium::Nand, pebs: 64, peb_bytes: 16_384, page_bytes: 512, subpage_bytes: 512, oob_bytes: 16 };
/// Blocks that are bad from the start.
const BAD: [u32; 3] = [1, 17, 63];

fn flash(erase_failure: f64) -> Array<Bytes> {
    let factory_bad = FactoryBad::List(BAD.map(Peb).to_vec());
    let faults = FaultPlan { factory_bad, erase_failure, ..FaultPlan::none(Seed(4)) };
    let config = ArrayConfig { faults: Some(faults), ..ArrayConfig::plain(GEOMETRY) };
    config.validate().expect("the sizes fit");
    Array::new(config, Bytes::new())
}

/// Files by name, with their contents.
type Files = BTreeMap<String, Vec<u8>>;

fn same(fs: &mut Jffs2<Array<Bytes>>, files: &Files) {
    let cx = &mut Cx::new();
    let root = fs.root();
    let mut found = Files::new();
    let mut names: Vec<(String, Ino)> = Vec::new();
    let mut add = |entry: sim::seam::Dirent<'_>| {
        names.push((String::from_utf8(entry.name.to_vec()).expect("names of this test"), entry.ino));
        true
    };
    fs.readdir(cx, root, 0, &mut add).expect("there is power");
    for (name, ino) in names {
        let size = fs.getattr(cx, ino).expect("there is power").size;
        let mut bytes = vec![0; size as usize];
        fs.read(cx, ino, 0, ReadInto::Bytes(&mut bytes)).expect("it is whole");
        found.insert(name, bytes);
    }
    assert!(found == *files, "{} files, expected {}", found.len(), files.len());
    fs.check_memory().expect("the books are right");
}

/// Writes files anew, so often that each block is erased several times, and looks at them after a mount. Returns the bad
/// blocks in the end.
fn rewrite(erase_failure: f64) -> Vec<u32> {
    let cx = &mut Cx::new();
    let mut fs = Jffs2::mount(flash(erase_failure), cx, Options::default()).expect("it is erased");
    let (root, mut rng) = (fs.root(), Seed(9).stream("fs/jffs2-faults"));
    let mut files = Files::new();
    let draw = |rng: &mut Rng| (0..rng.below(9000) + 1).map(|_| rng.bits() as u8).collect::<Vec<u8>>();
    for _ in 0..1200 {
        cx.spend(Ns(30_000_000));
        let name = format!("file{}", rng.below(20));
        if files.remove(&name).is_some() {
            fs.unlink(cx, root, name.as_bytes()).expect("a deletion finds space");
        }
        let bytes = draw(&mut rng);
        let made = fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644));
        match made.and_then(|attr| fs.write(cx, attr.ino, 0, Payload::Bytes(&bytes))) {
            Ok(written) => drop(files.insert(name, bytes[..written as usize].to_vec())),
            Err(FsError::NoSpace) => {
                let attr = fs.lookup(cx, root, name.as_bytes());
                attr.is_ok().then(|| files.insert(name, Vec::new()));
            }
            Err(error) => panic!("{error}"),
        }
        if fs.has_work() {
            fs.collect(cx).expect("the flash can be written");
        }
    }
    assert!(fs.counters().erased > 200, "{:?}", fs.counters());
    same(&mut fs, &files);
    let flash = fs.unmount(cx).expect("there is power");
    let bad = flash.bad_pebs().map(|peb| peb.0).collect();
    let mut fs = Jffs2::mount(flash, cx, Options::default()).expect("it is ours");
    same(&mut fs, &files);
    bad
}

#[test]
fn bad_blocks_of_the_factory_are_left_alone() {
    assert_eq!(rewrite(0.0), BAD);
}

/// Linux tries twice, then it marks the block bad.
#[test]
fn a_block_whose_erasure_fails_twice_is_bad() {
    let bad = rewrite(0.08);
    assert!(BAD.iter().all(|block| bad.contains(block)) && bad.len() > BAD.len(), "{bad:?}");
}
