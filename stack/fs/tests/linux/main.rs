//! The oracle against Linux: drawn operations on the model and on a directory of the host, error for error and byte for
//! byte, and the two trees at the end of each hundred.
//!
//! Without root the host refuses devices, owners and `trusted.` attributes, which are then not drawn.

mod host;
mod nodes;
#[path = "../ops/mod.rs"]
mod ops;

use fs::model::{Model, Tree, tree};
use host::Host;
use ops::draw::{self, Allowed};
use ops::{At, Caller, Op, PRESENT, Session, opened_at};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sim::Cx;
use sim::seam::{FileSystem, FileType, SetAttr, Timestamp};

/// Bytes that a call returns, or its error number.
type Outcome = Result<Vec<u8>, i32>;

struct Oracle {
    fs: Model,
    cx: Cx,
    session: Session,
}

impl Oracle {
    fn new(uid: u32, gid: u32) -> Oracle {
        let mut fs = Model::new(Timestamp { seconds: 2_000_000_000, nanos: 0 });
        let mut cx = Cx::new();
        let root = fs.root();
        fs.setattr(&mut cx, root, &SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() }).unwrap();
        Oracle { fs, cx, session: Session::new(root, uid, gid) }
    }

    /// Whether an open inode has no name.
    fn is_unlinked(&mut self, opened: usize) -> bool {
        let opened = self.session.opened[opened_at(opened, self.session.opened.len())].0;
        self.fs.getattr(&mut self.cx, opened).expect("it is open").nlink == 0
    }

    /// What a name is of, if it is there.
    fn find(&mut self, at: &At) -> Option<FileType> {
        let mut caller = Caller { fs: &mut self.fs, cx: &mut self.cx, session: &mut self.session };
        caller.find(at).ok().map(|(_, file_type)| file_type)
    }

    fn apply(&mut self, op: &Op) -> Outcome {
        let mut caller = Caller { fs: &mut self.fs, cx: &mut self.cx, session: &mut self.session };
        caller.call(op).map_err(|error| error.errno())
    }
}

/// Leaves out what the host cannot be asked for: flags, times of the present, the last access of links, which reading
/// them moves.
fn comparable(mut tree: Tree) -> Tree {
    for node in tree.nodes.values_mut() {
        let attr = &mut node.attr;
        attr.flags = Default::default();
        attr.ctime = Timestamp::default();
        for time in [&mut attr.atime, &mut attr.mtime] {
            if time.seconds >= PRESENT {
                *time = Timestamp { seconds: PRESENT, nanos: 0 };
            }
        }
        if attr.file_type == FileType::Symlink {
            attr.atime = Timestamp::default();
        }
    }
    tree
}

#[test]
fn drawn_operations_end_as_on_linux() {
    const OPERATIONS: u32 = 6_000;
    let mut errors = std::collections::BTreeMap::<(String, i32), u32>::new();
    let mut most_nodes = 0;
    for seed in 1..=4u8 {
        let mut host = Host::new(seed.into());
        let mut oracle = Oracle::new(host.uid, host.gid);
        let (is_root, has_xattrs) = (host.uid == 0, host.has_xattrs());
        if !is_root {
            eprintln!("not root: no devices, owners, whiteouts");
        }
        // A value of 200 bytes fits into an inode of ext4 too.
        let operations = draw::op(Allowed { root: is_root, xattr_bytes: has_xattrs.then_some(200) });
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        for step in 0..OPERATIONS {
            let mut op = operations.new_tree(&mut runner).expect("nothing is refused").current();
            op.find(&ops::names(&mut oracle.fs, &mut oracle.cx).expect("a model"));
            let (ours, linux) = (oracle.apply(&op), host.apply(&op));
            assert_eq!(ours, linux, "seed {seed}, operation {step}: {op:?}");
            oracle.fs.check();
            let name = format!("{op:?}").split('(').next().unwrap_or_default().to_owned();
            *errors.entry((name, ours.err().unwrap_or_default())).or_default() += 1;
            if step % 100 == 99 {
                let ours = comparable(tree(&mut oracle.fs, &mut oracle.cx).unwrap());
                most_nodes = most_nodes.max(ours.nodes.len());
                let difference = ours.difference(&comparable(host.tree()));
                assert_eq!(difference, None, "seed {seed}, after operation {step}, {op:?}");
            }
        }
    }
    // What was drawn must have met what it is to be compared in.
    assert!(most_nodes >= 20, "{most_nodes} paths");
    let met = |name: &str, errno: i32| errors.get(&(name.to_owned(), errno)).copied().unwrap_or_default();
    for (name, errno) in [
        ("Create", 17),
        ("Create", 36),
        ("Mkdir", 20),
        ("Link", 1),
        ("Unlink", 21),
        ("Rmdir", 39),
        ("Rmdir", 20),
        ("Rename", 0),
        ("Rename", 17),
        ("Rename", 20),
        ("Rename", 21),
        ("Rename", 22),
        ("Rename", 39),
        ("Symlink", 36),
        ("Truncate", 21),
        ("Write", 0),
    ] {
        assert!(met(name, errno) > 0, "no {name} ended with {errno}: {errors:?}");
    }
}
