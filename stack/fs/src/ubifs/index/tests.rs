//! The index against a sorted list of leaves.

use sim::seam::{LebVolume, Payload, RamVolume};
use sim::{Cx, Lnum, Seed};

use super::*;
use crate::ubifs::media::{DentNode, Group, ItemType, KeyHash, MAX_BLOCK, aligned, encode_index, index_bytes};

const LEB: u32 = 64 << 10;
const MAIN: u32 = 10;

/// A volume being written, node by node.
struct Writer {
    volume: RamVolume,
    cx: Cx,
    lnum: u32,
    offset: u32,
}

impl Writer {
    fn new() -> Writer {
        Writer { volume: RamVolume::new(40, LEB, 8), cx: Cx::new(), lnum: MAIN, offset: 0 }
    }

    fn append(&mut self, key: Key, len: usize, encode: impl FnOnce(&mut [u8])) -> Branch {
        let whole = aligned(len as u32);
        if self.offset + whole > LEB {
            (self.lnum, self.offset) = (self.lnum + 1, 0);
        }
        let mut node = vec![0; whole as usize];
        encode(&mut node[..len]);
        let branch = Branch { key, lnum: self.lnum, offset: self.offset, len: len as u32 };
        self.volume.write(&mut self.cx, Lnum(self.lnum), self.offset, Payload::Bytes(&node)).expect("there is room");
        self.offset += whole;
        branch
    }

    /// Writes an index over `leaves`, and returns its root.
    fn index(&mut self, leaves: &[Branch], fanout: usize) -> Branch {
        let mut level = 0;
        let mut below = leaves.to_vec();
        loop {
            below = below
                .chunks(fanout)
                .map(|chunk| {
                    self.append(chunk[0].key, index_bytes(chunk.len()), |node| {
                        encode_index(level, chunk.iter().copied(), node, 1);
                    })
                })
                .collect();
            level += 1;
            if let [root] = below[..] {
                return root;
            }
        }
    }

    fn open(self, root: Branch, fanout: u32) -> (Index, Nodes<RamVolume>, Cx) {
        let Branch { lnum: root_lnum, offset: root_offset, len: root_len, .. } = root;
        let master = Master { root_lnum, root_offset, root_len, ..Master::default() };
        (
            Index::new(&SuperBlock { fanout, ..SuperBlock::of_test(40, LEB, 8) }, &master),
            Nodes::new(self.volume),
            self.cx,
        )
    }
}

/// A leaf that is nowhere: the index does not read leaves other than entries.
fn leaf(key: Key, number: u32) -> Branch {
    Branch { key, lnum: MAIN + number % 30, offset: number / 30 % 8000 * 8, len: 48 }
}

fn all(index: &mut Index, nodes: &mut Nodes<RamVolume>, cx: &mut Cx) -> Vec<Branch> {
    let mut found = index.lower_bound(nodes, cx, Key(0)).expect("the index is whole");
    let mut leaves = Vec::new();
    while let Some((place, branch)) = found {
        leaves.push(branch);
        found = index.next(nodes, cx, place).expect("the index is whole");
    }
    leaves
}

/// Puts, removals of one leaf and of ranges, searches: after each, the index has the leaves that a sorted list has. It begins
/// with an index on flash, of which some nodes are forgotten now and then.
#[test]
fn it_holds_what_a_sorted_list_holds() {
    for (fanout, seed) in [(3, 1), (4, 2), (8, 3), (8, 4), (16, 5)] {
        let mut rng = Seed(seed).stream("index");
        let mut model = std::collections::BTreeMap::new();
        for at in 0..200 {
            let key = Key::data(70 + at % 7, at * 13);
            model.insert(key, leaf(key, at));
        }
        let mut writer = Writer::new();
        let root = writer.index(&model.values().copied().collect::<Vec<_>>(), fanout);
        let (mut index, mut nodes, mut cx) = writer.open(root, fanout as u32);
        for step in 0..3000_u32 {
            let ino = 70 + rng.below(8) as u32;
            let key = Key::data(ino, rng.below(2600) as u32);
            match rng.below(100) {
                0..55 => {
                    let new = leaf(key, step);
                    let old = index.put(&mut nodes, &mut cx, new).expect("the index is whole");
                    assert_eq!(old, model.insert(key, new));
                }
                55..85 => {
                    let near = index.lower_bound(&mut nodes, &mut cx, key).expect("the index is whole");
                    let expected = model.range(key..).next().map(|(_, &branch)| branch);
                    assert_eq!(near.map(|(_, branch)| branch), expected);
                    if let Some(near) = expected {
                        let gone = index.remove(&mut nodes, &mut cx, near.key).expect("the index is whole");
                        assert_eq!(gone, model.remove(&near.key));
                    }
                }
                85..90 => {
                    let last = Key::data(ino, (key.low() + rng.below(400) as u32).min(MAX_BLOCK));
                    let mut gone = Vec::new();
                    index.remove_range(&mut nodes, &mut cx, (key, last), |branch| gone.push(branch)).expect("whole");
                    let expected: Vec<Branch> = model.range(key..=last).map(|(_, &branch)| branch).collect();
                    model.retain(|found, _| *found < key || *found > last);
                    gone.sort_unstable_by_key(|branch| branch.key);
                    assert_eq!(gone, expected);
                }
                90..92 => {
                    index.remove_inode(&mut nodes, &mut cx, ino, false, |_| {}).expect("the index is whole");
                    model.retain(|found, _| found.ino() != ino);
                }
                92..97 => assert_eq!(
                    index.find(&mut nodes, &mut cx, key).expect("the index is whole").map(|(_, branch)| branch),
                    model.get(&key).copied()
                ),
                _ => index.shrink(),
            }
            index.check();
            if step % 50 == 0 {
                assert!(all(&mut index, &mut nodes, &mut cx).iter().eq(model.values()), "step {step}");
            }
        }
        index.remove_range(&mut nodes, &mut cx, (Key(0), Key(u64::MAX)), |_| {}).expect("the index is whole");
        index.check();
        assert_eq!(all(&mut index, &mut nodes, &mut cx), []);
        index.put(&mut nodes, &mut cx, leaf(Key::data(5, 5), 1)).expect("the index is whole");
        assert_eq!(all(&mut index, &mut nodes, &mut cx).len(), 1);
    }
}

/// Entries whose hashes are equal are told apart by their names, wherever they are in the tree.
#[test]
fn names_with_equal_hashes_are_different_entries() {
    let mut writer = Writer::new();
    let name = |at: u32| format!("same{at}").into_bytes();
    // The test hash sees four bytes.
    let key = Key::dent(70, KeyHash::Test.of(b"same"));
    let mut entries = Vec::new();
    for at in 0..60 {
        let name = name(at);
        let entry = DentNode { key, ino: u64::from(100 + at), item: ItemType::File, cookie: 0, name: &name };
        entries.push(writer.append(key, DentNode::bytes_of(name.len()), |node| entry.encode(node, Group::None, 1)));
    }
    let others = [leaf(Key::inode(70), 1), leaf(Key::inode(71), 2)];
    let first: Vec<Branch> = [&others[..1], &entries[..30], &others[1..]].concat();
    let root = writer.index(&first, 4);
    let (mut index, mut nodes, mut cx) = writer.open(root, 4);
    for at in 30..60 {
        let old = index.put_named(&mut nodes, &mut cx, entries[at as usize], &name(at), false).expect("whole");
        assert_eq!(old, None);
        index.check();
    }
    for at in (0..60).rev() {
        let found = index.find_named(&mut nodes, &mut cx, key, &name(at), false).expect("the index is whole");
        assert_eq!(found.map(|(_, branch)| branch), Some(entries[at as usize]));
        if at % 3 == 0 {
            let gone = index.remove_named(&mut nodes, &mut cx, key, &name(at), false).expect("whole");
            assert_eq!(gone, Some(entries[at as usize]));
            assert_eq!(index.find_named(&mut nodes, &mut cx, key, &name(at), false).expect("whole"), None);
            index.check();
        }
    }
    assert_eq!(all(&mut index, &mut nodes, &mut cx).len(), 42);
    // A branch to an entry that is gone counts only in a replay, and only if no other has the name.
    let gone = Branch { key, lnum: 39, offset: 0, len: 60 };
    index.put_named(&mut nodes, &mut cx, gone, b"samex", false).expect("whole");
    assert!(index.find_named(&mut nodes, &mut cx, key, b"samey", false).is_err());
    let mut find =
        |name: &[u8]| index.find_named(&mut nodes, &mut cx, key, name, true).expect("whole").map(|(_, branch)| branch);
    assert_eq!(find(b"samey"), Some(gone));
    assert_eq!(find(&name(1)), Some(entries[1]));
    // So does one to a place where another entry is now.
    let key = Key::dent(70, KeyHash::Test.of(b"more"));
    let reused = Branch { key, ..entries[2] };
    index.put_named(&mut nodes, &mut cx, reused, b"morex", false).expect("whole");
    assert!(index.find_named(&mut nodes, &mut cx, key, b"morey", false).is_err());
    let found = index.find_named(&mut nodes, &mut cx, key, b"morey", true).expect("it is a replay");
    assert_eq!(found.map(|(_, branch)| branch), Some(reused));
}

/// A leaf whose key is not less than that of the next node is not found, as in Linux, also when the search before ended at its node.
#[test]
fn a_search_beside_a_misplaced_leaf_does_not_find_it() {
    let at = |block: u32| leaf(Key::data(70, block), block);
    let mut writer = Writer::new();
    let node = |writer: &mut Writer, level: u16, branches: &[Branch]| {
        writer.append(branches[0].key, index_bytes(branches.len()), |node| {
            encode_index(level, branches.iter().copied(), node, 1);
        })
    };
    let below = [node(&mut writer, 0, &[at(0), at(1), at(5)]), node(&mut writer, 0, &[at(3), at(4)])];
    let root = node(&mut writer, 1, &below);
    let (mut index, mut nodes, mut cx) = writer.open(root, 4);
    for (block, is_found) in [(0, true), (1, true), (5, false), (0, true), (2, false), (3, true), (5, false), (4, true)]
    {
        let found = index.find(&mut nodes, &mut cx, Key::data(70, block)).expect("the index is whole");
        assert_eq!(found.map(|(_, branch)| branch), is_found.then(|| at(block)), "block {block}");
    }
}

/// What an index node may not be: each is an error that names the place, and nothing panics.
#[test]
fn index_nodes_that_contradict_each_other_are_refused() {
    let leaves: Vec<Branch> = (0..8).map(|at| leaf(Key::data(70, at), at)).collect();
    let reads = |build: &dyn Fn(&mut Writer) -> Branch| {
        let mut writer = Writer::new();
        let root = build(&mut writer);
        let (mut index, mut nodes, mut cx) = writer.open(root, 4);
        index.lower_bound(&mut nodes, &mut cx, Key::data(70, 6)).map_err(|error| error.to_string())
    };
    let node = |writer: &mut Writer, level: u16, branches: &[Branch]| {
        writer.append(branches[0].key, index_bytes(branches.len()), |node| {
            encode_index(level, branches.iter().copied(), node, 1);
        })
    };
    assert!(reads(&|writer| writer.index(&leaves, 4)).is_ok());
    let refused = |what: &str, build: &dyn Fn(&mut Writer) -> Branch| {
        let error = reads(build).expect_err(what);
        assert!(error.contains(what), "{error}");
    };
    refused("fanout", &|writer| writer.index(&leaves, 8));
    refused("level", &|writer| {
        let below = node(writer, 1, &leaves[4..]);
        node(writer, 1, &[below])
    });
    refused("levels", &|writer| node(writer, 40, &leaves[..4]));
    refused("main area", &|writer| node(writer, 0, &[Branch { lnum: 3, ..leaves[0] }]));
    refused("main area", &|writer| node(writer, 0, &[Branch { lnum: 40, ..leaves[0] }]));
    refused("multiple of 8", &|writer| node(writer, 0, &[Branch { offset: 4, ..leaves[0] }]));
    refused("multiple of 8", &|writer| node(writer, 0, &[Branch { len: LEB, offset: 8, ..leaves[0] }]));
    refused("key is less", &|writer| node(writer, 0, &[leaves[1], leaves[0]]));
    refused("key is less", &|writer| {
        let below = node(writer, 0, &leaves[4..]);
        node(writer, 1, &[Branch { key: Key::data(70, 5), ..below }])
    });
    // A node that points to itself ends by its level.
    refused("level", &|writer| {
        let here = Branch { key: Key::data(70, 0), lnum: MAIN, offset: 0, len: index_bytes(1) as u32 };
        node(writer, 3, &[here])
    });
    refused("len", &|writer| {
        let below = node(writer, 0, &leaves[4..]);
        node(writer, 1, &[Branch { len: below.len + 8, ..below }])
    });
}
