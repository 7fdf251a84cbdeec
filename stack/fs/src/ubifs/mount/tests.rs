//! What the log and the journal say, on volumes of a few nodes.

use sim::seam::{LebVolume, Payload, RamVolume};
use sim::{Cx, Lnum};

use super::*;
use crate::ubifs::media::{
    Branch, Compression, DataNode, Group, InodeNode, Key, ORPHAN_HEADER_BYTES, OrphanNode, ReferenceNode,
    TruncationNode, encode_commit_start, encode_index, index_bytes, pad,
};

const LEB: u32 = 16 << 10;
const MIN_IO: u32 = 512;
/// LEBs of the index, of what is committed, and of the bud.
const INDEX: u32 = 10;
const COMMITTED: u32 = 11;
const BUD: u32 = 12;

fn write(volume: &mut RamVolume, lnum: u32, nodes: &[Vec<u8>]) -> Vec<(u32, u32)> {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for node in nodes {
        places.push((bytes.len() as u32, node.len() as u32));
        bytes.extend_from_slice(node);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let used = bytes.len();
    bytes.resize(used.next_multiple_of(MIN_IO as usize), 0);
    pad(&mut bytes[used..]);
    volume.write(&mut Cx::new(), Lnum(lnum), 0, Payload::Bytes(&bytes)).expect("there is room");
    places
}

fn inode(nlink: u32, size: u64, sqnum: u64) -> Vec<u8> {
    let time = (0, 0);
    let inode = InodeNode {
        key: Key::inode(70),
        creat_sqnum: 1,
        size,
        atime: time,
        ctime: time,
        mtime: time,
        nlink,
        uid: 0,
        gid: 0,
        mode: 0o100_644,
        flags: 0,
        xattr_cnt: 0,
        xattr_size: 0,
        xattr_names: 0,
        compression: Compression::None,
        data: &[],
    };
    let mut node = vec![0; inode.bytes()];
    inode.encode(&mut node, Group::None, sqnum);
    node
}

fn data(block: u32, bytes: usize, sqnum: u64) -> Vec<u8> {
    let mut node = vec![0; DataNode::HEADER_BYTES + bytes];
    DataNode::encode_around(Key::data(70, block), bytes as u32, Compression::None, &mut node, Group::None, sqnum);
    node
}

fn truncation(old_size: u64, new_size: u64, sqnum: u64) -> Vec<u8> {
    let mut node = vec![0; TruncationNode::BYTES];
    TruncationNode { ino: 70, old_size, new_size }.encode(&mut node, Group::None, sqnum);
    node
}

/// Inode 70 with 100 bytes is committed; `journal` is replayed. What the index has of it, and its corrected size.
fn replayed(journal: &[Vec<u8>]) -> (Vec<Key>, Option<u64>) {
    let (sb, cx) = (SuperBlock::of_test(30, LEB, MIN_IO), &mut Cx::new());
    let mut volume = RamVolume::new(30, LEB, MIN_IO);
    let keys = [Key::inode(70), Key::data(70, 0)];
    let places = write(&mut volume, COMMITTED, &[inode(1, 100, 1), data(0, 100, 2)]);
    let branches = keys.iter().zip(places).map(|(&key, (offset, len))| Branch { key, lnum: COMMITTED, offset, len });
    let mut root = vec![0; index_bytes(2)];
    encode_index(0, branches.collect::<Vec<_>>().into_iter(), &mut root, 3);
    write(&mut volume, INDEX, &[root]);
    write(&mut volume, BUD, journal);
    let master = Master { root_lnum: INDEX, root_len: index_bytes(2) as u32, ..Master::default() };
    let mut nodes = Nodes::new(volume);
    let mut index = Index::new(&sb, &master);
    let log = log::Log {
        buds: vec![log::Bud { lnum: BUD, start: 0, head: 2, is_last: true }],
        max_sqnum: 0,
        head: (3, 0),
        torn: None,
    };
    let mut journal = replay::replay(&mut nodes, cx, &sb, &mut index, &log, true).expect("it is whole");
    replay::fix_sizes(&mut nodes, cx, &mut index, &mut journal).expect("it is whole");
    let mut found = index.lower_bound(&mut nodes, cx, Key(0)).expect("it is whole");
    let mut left = Vec::new();
    while let Some((place, branch)) = found {
        left.push(branch.key);
        found = index.next(&mut nodes, cx, place).expect("it is whole");
    }
    (left, journal.sizes.get(&70).copied())
}

#[test]
fn data_behind_the_size_make_the_file_longer_unless_its_inode_came() {
    let all = |blocks: u32| [Key::inode(70)].into_iter().chain((0..blocks).map(|block| Key::data(70, block))).collect();
    assert_eq!(replayed(&[data(0, 60, 10)]), (all(1), None));
    assert_eq!(replayed(&[data(1, 200, 10)]), (all(2), Some(4296)));
    assert_eq!(replayed(&[data(1, 200, 10), inode(1, 4296, 11)]), (all(2), None));
    assert_eq!(replayed(&[inode(1, 50, 10), data(1, 200, 11)]), (all(2), Some(4296)));
    // What was cut off since is no longer behind the size.
    assert_eq!(replayed(&[data(1, 200, 10), truncation(4296, 100, 11)]), (all(1), None));
    assert_eq!(replayed(&[data(1, 200, 10), truncation(4296, 4200, 11)]), (all(2), Some(4200)));
}

#[test]
fn an_inode_that_is_deleted_goes_with_its_data_unless_it_was_linked_again() {
    assert_eq!(replayed(&[inode(0, 100, 10)]), (vec![], None));
    // In the order of sequence numbers, whatever that in the LEB.
    assert_eq!(replayed(&[inode(0, 100, 11), inode(1, 100, 10)]), (vec![], None));
    assert_eq!(replayed(&[inode(0, 100, 10), inode(1, 100, 11)]).0, [Key::inode(70), Key::data(70, 0)]);
}

#[test]
fn the_log_ends_where_an_older_one_begins() {
    let (sb, cx) = (SuperBlock::of_test(30, LEB, MIN_IO), &mut Cx::new());
    let start = |commit, sqnum| {
        let mut node = vec![0; 32];
        encode_commit_start(commit, &mut node, sqnum);
        node
    };
    let reference = |lnum, sqnum| {
        let mut node = vec![0; 64];
        ReferenceNode { lnum, offset: 0, head: 1 }.encode(&mut node, sqnum);
        node
    };
    let mut volume = RamVolume::new(30, LEB, MIN_IO);
    write(&mut volume, 5, &[start(7, 100), reference(12, 101)]);
    write(&mut volume, 6, &[reference(13, 102)]);
    // The log is a circle; what comes next is of the commit before.
    write(&mut volume, 3, &[start(6, 50), reference(14, 51)]);
    let mut nodes = Nodes::new(volume);
    let master = Master { log_lnum: 5, commit: 7, ..Master::default() };
    let log = log::read(&mut nodes, cx, &sb, &master, false).expect("it is whole");
    assert_eq!(log.buds.iter().map(|bud| (bud.lnum, bud.is_last)).collect::<Vec<_>>(), [(12, false), (13, true)]);
    assert_eq!(log.max_sqnum, 102);
    let wrong = Master { commit: 8, ..master };
    assert!(log::read(&mut nodes, cx, &sb, &wrong, false).is_err());
    assert!(log::read(&mut nodes, cx, &sb, &Master { log_lnum: 4, ..master }, false).is_err());
}

/// What becomes of inode 70 with so many links, and where the next list goes: two LEBs for lists, of these commits, each of which has one with the
/// inode.
fn killed(nlink: u32, commits: [u64; 2]) -> (Vec<u32>, Option<(u32, u32)>) {
    let (mut sb, cx) = (SuperBlock::of_test(30, LEB, MIN_IO), &mut Cx::new());
    (sb.lpt_lebs, sb.orphan_lebs) = (1, 2);
    let mut volume = RamVolume::new(30, LEB, MIN_IO);
    let [(offset, len)] = write(&mut volume, COMMITTED, &[inode(nlink, 100, 1)])[..] else { panic!("one node") };
    let branch = Branch { key: Key::inode(70), lnum: COMMITTED, offset, len };
    let mut root = vec![0; index_bytes(1)];
    encode_index(0, [branch].into_iter(), &mut root, 3);
    write(&mut volume, INDEX, &[root]);
    for (lnum, commit) in (sb.orphan_first()..).zip(commits) {
        let mut list = vec![0; ORPHAN_HEADER_BYTES + 8];
        OrphanNode::encode(commit, true, &[70], &mut list, 4);
        write(&mut volume, lnum, &[list]);
    }
    let master = Master { root_lnum: INDEX, root_len: index_bytes(1) as u32, ..Master::default() };
    let (mut nodes, mut index) = (Nodes::new(volume), Index::new(&sb, &master));
    let killed = orphans::kill(&mut nodes, cx, &sb, &mut index).expect("it is whole");
    (killed.inos, killed.head)
}

/// Linux, `do_kill_orphans`: an inode that has a link again stays. The lists end where those of an older commit begin.
#[test]
fn an_orphan_that_has_a_link_again_stays() {
    assert_eq!(killed(0, [5, 6]), (vec![70], Some((9, MIN_IO))));
    assert_eq!(killed(1, [5, 6]), (vec![], Some((9, MIN_IO))));
    assert_eq!(killed(0, [5, 4]), (vec![70], Some((8, MIN_IO))));
}
