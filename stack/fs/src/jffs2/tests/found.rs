//! What a mount makes of nodes that no call of this crate left so, and what garbage collection makes of them then.

use super::*;
use crate::jffs2::media::{XattrNode, XrefNode};

/// Bytes of a clean marker, which is in use.
const MARKER: u64 = 12;

fn dir_entry(dir: u32, version: u32, name: &[u8], (ino, kind): (u32, u8)) -> Vec<u8> {
    let mut out = Vec::new();
    DirentNode { dir, version, ino, kind, ..DirentNode::default() }.write(Endian::Little, name, &mut out);
    out
}

fn names(fs: &mut Jffs2<RamFlash>, cx: &mut Cx) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut add = |entry: sim::seam::Dirent<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    fs.readdir(cx, Ino(1), 0, &mut add).expect("the root is a directory");
    names
}

/// Linux, `jffs2_scan_dirent_node`: an entry whose name is not what its CRC says is dirt. By hand: 12 bytes of the marker, an entry
/// of 40 and one, padded to 44, and a node of 68 and 4.
#[test]
fn an_inode_whose_only_name_is_damaged_goes_with_it() {
    let node = inode_node(2, 1, 0, b"data");
    let mut damaged = entry(1, b"a", 2);
    let (mut fs, mut cx) = mount(image(&[&[damaged.clone(), node.clone()]]), Options::default());
    assert_eq!((fs.space().used, names(&mut fs, &mut cx)), (MARKER + 44 + 72, vec![b"a".to_vec()]));
    damaged[40] ^= 1;
    let (mut fs, mut cx) = mount(image(&[&[damaged, node]]), Options::default());
    assert_eq!((fs.space().used, names(&mut fs, &mut cx), fs.counters.damaged), (MARKER, vec![], 1));
}

/// Linux, `jffs2_build_inode_pass1`: what an entry leads to has no node, so that the entry goes.
#[test]
fn a_name_that_leads_to_no_inode_goes() {
    let nodes = [entry(1, b"a", 2), entry(2, b"b", 3), inode_node(3, 1, 0, b"data")];
    let (mut fs, mut cx) = mount(image(&[&nodes]), Options::default());
    assert_eq!((fs.space().used, names(&mut fs, &mut cx)), (MARKER + 44 + 72, vec![b"b".to_vec()]));
    assert_eq!(fs.lookup(&mut cx, Ino(1), b"a"), Err(FsError::NoEntry { dir: Ino(1) }));
    assert_eq!(fs.damages().0.len(), 1);
}

/// Linux, `jffs2_build_remove_unlinked_inode`: with a directory that has no name goes what has its only name there, and so on: also what a
/// mount looked at before.
#[test]
fn with_a_directory_goes_what_is_in_it() {
    let dir = |ino: u32| {
        let mut out = Vec::new();
        InodeNode { ino, version: 1, mode: 0o040_755, ..InodeNode::default() }.write(Endian::Little, &[], &mut out);
        out
    };
    let inner =
        [dir(4), dir_entry(4, 1, b"b", (3, 4)), dir(3), dir_entry(3, 1, b"c", (2, 8)), inode_node(2, 1, 0, b"data")];
    let of_nodes: u64 = inner.iter().map(|node| (node.len() as u64).next_multiple_of(4)).sum();
    for (is_named, expected) in [(true, MARKER + 44 + of_nodes), (false, MARKER)] {
        let first = if is_named { dir_entry(1, 1, b"a", (4, 4)) } else { obsolete(dir_entry(1, 1, b"a", (4, 4))) };
        let nodes: Vec<Vec<u8>> = std::iter::once(first).chain(inner.clone()).collect();
        let (fs, _) = mount(image(&[&nodes]), Options::default());
        assert_eq!(fs.space().used, expected, "{is_named}");
    }
}

/// Two newer nodes have together what an older one has, whose data are damaged: nobody misses them.
#[test]
fn an_older_node_that_newer_ones_cover_together_is_not_damage() {
    let mut old = inode_node(2, 1, 0, b"old bytes!");
    old[68] ^= 1;
    for (end, damaged) in [(&b"bytes"[..], 0), (b"byte", 1)] {
        let nodes = [entry(1, b"a", 2), old.clone(), inode_node(2, 2, 0, b"newer"), inode_node(2, 3, 5, end)];
        let (mut fs, mut cx) = mount(image(&[&nodes]), Options::default());
        let expected = [&b"newer"[..], end].concat();
        assert_eq!((contents(&mut fs, &mut cx, b"a"), fs.counters.damaged), (Ok(expected), damaged));
    }
}

/// Linux, `read_dnode`: a node whose data begin behind the end that it gives the file is damaged, and an older one counts.
#[test]
fn a_node_that_begins_behind_the_end_of_its_file_is_not_believed() {
    for (size, expected) in [(24, &b"old bytes\0\0\0\0\0\0\0\0\0\0\0more"[..]), (10, b"old bytes")] {
        let mut newer = Vec::new();
        let node =
            InodeNode { ino: 2, version: 2, mode: 0o100_644, size, offset: 20, unpacked: 4, ..InodeNode::default() };
        node.write(Endian::Little, b"more", &mut newer);
        let flash = image(&[&[entry(1, b"a", 2), inode_node(2, 1, 0, b"old bytes"), newer]]);
        let (mut fs, mut cx) = mount(flash, Options::default());
        assert_eq!(contents(&mut fs, &mut cx, b"a"), Ok(expected.to_vec()), "a file of {size} bytes");
    }
}

/// The inode is gone, and what says that it has an attribute is not erased yet: a new inode is another one.
#[test]
fn a_new_inode_does_not_get_the_attributes_of_one_that_is_gone() {
    let (mut datum, mut reference) = (Vec::new(), Vec::new());
    XattrNode { xid: 7, version: 1, prefix: 1, ..XattrNode::default() }.write(Endian::Little, b"a", b"old", &mut datum);
    XrefNode { ino: 2, xid: 7, seqno: 2 }.write(Endian::Little, &mut reference);
    let (mut fs, mut cx) = mount(image(&[&[datum, reference]]), Options::default());
    fs.create(&mut cx, Ino(1), b"new", NEW).expect("there is space");
    let (mut fs, mut cx) = mount(fs.unmount(&mut cx).expect("there is power"), Options::default());
    let ino = fs.lookup(&mut cx, Ino(1), b"new").expect("it was made").ino;
    assert_eq!(fs.listxattr(&mut cx, ino), Ok(vec![]));
}

/// Linux, `jffs2_garbage_collect_deletion_dirent`: a node that removes a name is kept as long as an older entry of that name is on flash
/// in another block. An older removal brings nothing back, nor does the entry of another name.
#[test]
fn a_removal_is_kept_as_long_as_an_older_entry_is_elsewhere() {
    let removal = |version: u32| dir_entry(1, version, b"a", (0, 0));
    let (older, other) = (entry(1, b"a", 9), entry(1, b"b", 9));
    for (elsewhere, beside, is_kept) in [
        (vec![older.clone()], vec![], true),
        (vec![removal(1)], vec![], false),
        (vec![other], vec![], false),
        (vec![], vec![older.clone()], false),
        (vec![older.clone()], vec![older], true),
    ] {
        // With summaries nodes are not marked obsolete on NOR.
        let second: Vec<Vec<u8>> = beside.into_iter().chain([removal(2)]).collect();
        let (mut fs, mut cx) = mount(image(&[&elsewhere, &second]), Options { summary: true, ..Options::default() });
        if fs.blocks.first(List::Next) == Some(1) {
            fs.blocks.close(1);
        }
        fs.blocks.put(1, List::Collected);
        while fs.blocks.at(1).list == List::Collected {
            fs.collect(&mut cx).expect("there is power");
        }
        assert_eq!(fs.inode(1).names.contains_key(&b"a"[..]), is_kept, "beside {} others", second.len() - 1);
    }
}

/// By hand, of `jffs2_scan_medium`: on NAND, a block is written on if more than a page of it is erased, and than two inode nodes need.
#[test]
fn a_mount_writes_on_in_a_block_of_nand_with_more_than_a_page_of_room() {
    for (free, expected) in [(512, None), (1024, Some(0))] {
        let whole = BLOCK as usize - free;
        let data = vec![7; whole - 44 - 100 - 68];
        let nodes =
            [entry(1, b"a", 2), obsolete(inode_node(9, 1, 0, &[0; 32])), inode_node(2, 1, 0, &data)].map(|mut node| {
                node.resize(node.len().next_multiple_of(4), 0xff);
                node
            });
        let mut flash = RamFlash::new(NAND);
        flash.program(&mut Cx::new(), Peb(0), 0, Payload::Bytes(&nodes.concat())).expect("it is erased");
        let (fs, _) = mount(flash, Options::default());
        assert_eq!(fs.blocks.first(List::Next), expected, "{free} bytes are erased");
    }
}

/// By hand: in a summary an entry of a byte takes 25 bytes, an inode node 18, and the rest 40. Where all of that has no room in what is
/// erased of a block, it gets no summary, and the next node goes there: into 400 bytes less 60 (see `room`), 272 bytes of data. Else the
/// summary is written, and the node goes elsewhere.
#[test]
fn a_block_without_room_for_its_summary_is_written_to_its_end() {
    for (entries, expected) in [(12, None), (15, Some(272))] {
        let names = (1..=entries).map(|version: u32| entry(version, &[b'a' + version as u8], 2));
        let data = vec![7; 4096 - 12 - 44 * entries as usize - 68 - 400];
        let nodes: Vec<Vec<u8>> = names.chain([inode_node(2, 1, 0, &data)]).collect();
        let options = Options { summary: true, compress: Compress::None, ..Options::default() };
        let (mut fs, mut cx) = mount(image(&[&nodes]), options);
        assert_eq!(fs.blocks.first(List::Next), Some(0));
        fs.write(&mut cx, Ino(2), data.len() as u64, Payload::Bytes(&[8; 1000])).expect("there is space");
        let of_block = |fs: &Jffs2<RamFlash>| {
            let mut nodes = fs.inodes[2].nodes.iter();
            let is_new = |(id, node): &(&u32, &inode::DataNode)| node.offset > 0 && fs.blocks.node(**id).block == 0;
            nodes.find(is_new).map(|(_, node)| node.len)
        };
        assert_eq!((of_block(&fs), fs.counters.summaries), (expected, u64::from(expected.is_none())), "{entries}");
    }
}
