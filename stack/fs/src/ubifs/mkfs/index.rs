//! The index: branches in the order of their keys, and the nodes above them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::space::Space;
use crate::ubifs::media::{Branch, Key, aligned, encode_index, index_bytes};

/// A leaf, or a run of data nodes: blocks that follow each other in a file and in a LEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Leaf {
    key: Key,
    lnum: u32,
    offset: u32,
    /// Of a single node its length; of a run, where the lengths of its nodes begin.
    len: u32,
    /// Nodes of a run; 0 for a single node.
    run: u32,
}

/// Leaves of which so many are sorted at once: a sort then needs no more memory.
const CHUNK: usize = 1 << 16;

/// Branches to all leaves, in little memory: 2 bytes for most data nodes, 24 for others.
#[derive(Debug, Default)]
pub struct Leaves {
    sorted: Vec<Vec<Leaf>>,
    chunk: Vec<Leaf>,
    /// Lengths of the nodes of runs.
    lens: Vec<u16>,
    /// Key, LEB and offset of the data node that would go on with the run at the end of `chunk`.
    goes_on: Option<(Key, u32, u32)>,
}

impl Leaves {
    /// Adds a node that is no data.
    pub fn add(&mut self, branch: Branch) {
        let Branch { key, lnum, offset, len } = branch;
        self.goes_on = None;
        self.push(Leaf { key, lnum, offset, len, run: 0 });
    }

    /// Adds a data node.
    pub fn add_data(&mut self, branch: Branch) {
        let Branch { key, lnum, offset, len } = branch;
        let len16 = u16::try_from(len).expect("a data node is shorter");
        if self.goes_on != Some((key, lnum, offset)) {
            let first = u32::try_from(self.lens.len()).expect("fewer than 2^32 data nodes fit into 2^31 LEBs' index");
            self.push(Leaf { key, lnum, offset, len: first, run: 0 });
        }
        self.lens.push(len16);
        let run = &mut self.chunk.last_mut().expect("the run is there").run;
        *run += 1;
        self.goes_on = Some((Key(key.0 + 1), lnum, offset + aligned(len)));
    }

    fn push(&mut self, leaf: Leaf) {
        if self.chunk.len() == CHUNK {
            self.close();
        }
        self.chunk.push(leaf);
    }

    fn close(&mut self) {
        let mut chunk = std::mem::take(&mut self.chunk);
        // Keys of entries may be equal. Then Linux expects them in the order of their names, in which they were added.
        chunk.sort_unstable();
        self.sorted.push(chunk);
    }

    /// Calls `each` with all branches in the order of the index.
    pub fn each<E>(mut self, mut each: impl FnMut(Branch) -> Result<(), E>) -> Result<(), E> {
        self.close();
        let mut chunks: Vec<_> = self.sorted.iter().map(|chunk| chunk.iter()).collect();
        let mut next: BinaryHeap<Reverse<(Leaf, usize)>> = BinaryHeap::new();
        for (at, chunk) in chunks.iter_mut().enumerate() {
            next.extend(chunk.next().map(|leaf| Reverse((*leaf, at))));
        }
        while let Some(mut top) = next.peek_mut() {
            let Reverse((leaf, at)) = *top;
            match chunks[at].next() {
                Some(after) => *top = Reverse((*after, at)),
                None => drop(std::collections::binary_heap::PeekMut::pop(top)),
            }
            let Leaf { mut key, lnum, mut offset, len, run } = leaf;
            if run == 0 {
                each(Branch { key, lnum, offset, len })?;
                continue;
            }
            for &len in &self.lens[len as usize..][..run as usize] {
                let len = u32::from(len);
                each(Branch { key, lnum, offset, len })?;
                key = Key(key.0 + 1);
                offset += aligned(len);
            }
        }
        Ok(())
    }
}

/// What the index came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// The root.
    pub root: Branch,
    /// Bytes of all index nodes.
    pub bytes: u64,
}

/// Writes the index nodes above `leaves` into LEBs of their own: a node as soon as it is full, the root last.
pub fn write<E>(leaves: Leaves, space: &mut Space<'_, E>, fanout: usize) -> Result<Index, E> {
    let mut levels: Vec<Vec<Branch>> = Vec::new();
    let mut bytes = 0;
    let mut close = |space: &mut Space<'_, E>, level: usize, branches: &mut Vec<Branch>| {
        let first = branches[0].key;
        let at = space.node(first, index_bytes(branches.len()), |node, sqnum| {
            let level = u16::try_from(level).expect("a level has at least three times the nodes of the next");
            encode_index(level, branches.drain(..), node, sqnum);
        })?;
        bytes += u64::from(aligned(at.len));
        Ok(at)
    };
    leaves.each(|leaf| {
        let mut branch = leaf;
        for level in 0.. {
            if level == levels.len() {
                levels.push(Vec::with_capacity(fanout));
            }
            let branches = &mut levels[level];
            branches.push(branch);
            if branches.len() < fanout {
                break;
            }
            branch = close(space, level, branches)?;
        }
        Ok(())
    })?;
    // What is not full.
    let mut below: Option<Branch> = None;
    let top = levels.len() - 1;
    for (level, branches) in levels.iter_mut().enumerate() {
        branches.extend(below.take());
        below = match branches[..] {
            [] => None,
            // It would be the root with one branch.
            [only] if level == top && level > 0 => Some(only),
            _ => Some(close(space, level, branches)?),
        };
    }
    Ok(Index { root: below.expect("there is the root directory"), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More leaves than are sorted at once, files and entries between each other, holes, LEBs that end inside of a file.
    #[test]
    fn leaves_come_in_the_order_of_their_keys() {
        let mut leaves = Leaves::default();
        let mut expected = Vec::new();
        let (mut lnum, mut offset) = (20, 0);
        let mut place = |len: u32| {
            if offset + aligned(len) > 126_976 {
                (lnum, offset) = (lnum + 1, 0);
            }
            offset += aligned(len);
            (lnum, offset - aligned(len))
        };
        let mut put = |leaves: &mut Leaves, key: Key, len: u32| {
            let (lnum, offset) = place(len);
            let branch = Branch { key, lnum, offset, len };
            if key == Key::data(key.ino(), key.low()) {
                leaves.add_data(branch)
            } else {
                leaves.add(branch)
            }
            expected.push(branch);
        };
        for file in 0..40_000 {
            // Numbers fall and rise.
            let ino = 64 + file * 7919 % 40_009;
            for block in (0..file % 5).chain(9..9 + file % 3) {
                put(&mut leaves, Key::data(ino, block), 48 + (file * 31 + block) % 4097);
            }
            put(&mut leaves, Key::inode(ino), 160);
            // Many names of one hash.
            put(&mut leaves, Key::dent(1, file % 1000), 60);
        }
        assert!(expected.len() > 2 * CHUNK && leaves.sorted.len() > 1);
        expected.sort_by_key(|branch| branch.key);
        let mut found = Vec::new();
        let Ok(()) = leaves.each(|branch| {
            found.push(branch);
            Ok::<(), std::convert::Infallible>(())
        });
        assert!(found == expected);
    }
}
