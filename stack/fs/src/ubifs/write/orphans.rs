//! Orphans of a file system that is mounted for writing: inodes without a link that are open. A commit lists the new ones.
//!
//! Source: Linux 6.12 `fs/ubifs/orphan.c` (behaviour).

use sim::Cx;
use sim::seam::LebVolume;

use super::{Result, Ubifs, UbifsError};
use crate::ubifs::media::{ORPHAN_HEADER_BYTES, OrphanNode, SuperBlock, pad};
use crate::ubifs::written::Part;

/// The list in memory, and where it goes on on flash.
#[derive(Clone, Debug)]
pub(super) struct Orphans {
    first: u32,
    lebs: u32,
    leb_bytes: u32,
    /// Inode, and whether no commit has listed it yet.
    list: Vec<(u32, bool)>,
    /// LEB and offset of the next node.
    pub head: (u32, u32),
}

impl Orphans {
    /// No orphans; the area is empty.
    pub fn new(sb: &SuperBlock) -> Orphans {
        let first = sb.orphan_first();
        Orphans { first, lebs: sb.orphan_lebs, leb_bytes: sb.leb_bytes, list: Vec::new(), head: (first, 0) }
    }

    fn per_leb(&self) -> u32 {
        (self.leb_bytes - ORPHAN_HEADER_BYTES as u32) / 8
    }

    /// Half of what the area can list: it must be possible to write all again.
    fn most(&self) -> usize {
        (self.lebs * self.per_leb() / 2) as usize
    }

    /// How many can be listed from the head on.
    fn room(&self) -> usize {
        let gap = self.leb_bytes - self.head.1;
        let here = gap.saturating_sub(ORPHAN_HEADER_BYTES as u32) / 8;
        let after = self.first + self.lebs - 1 - self.head.0.min(self.first + self.lebs - 1);
        (here + after * self.per_leb()) as usize
    }

    /// Whether another can be added.
    pub fn has_room(&self) -> bool {
        self.list.len() < self.most()
    }

    /// The inode has no link any more, and is open.
    pub fn add(&mut self, ino: u32) {
        self.list.push((ino, true));
    }

    /// The inode is deleted, or has a link again.
    pub fn remove(&mut self, ino: u32) {
        self.list.retain(|&(orphan, _)| orphan != ino);
    }
}

impl<V: LebVolume> Ubifs<V> {
    /// Lists the orphans that are new. Returns whether there are any, new or old.
    pub(super) fn write_orphans(&mut self, cx: &mut Cx) -> Result<bool> {
        if self.options.known_bad.forget_orphans {
            return Ok(false);
        }
        let new: Vec<u64> = self.orphans.list.iter().filter(|orphan| orphan.1).map(|orphan| orphan.0.into()).collect();
        if !new.is_empty() {
            if self.orphans.room() >= new.len() {
                self.append_orphans(cx, &new, false)?;
            } else {
                // All are listed again, from the beginning of the area.
                let all: Vec<u64> = self.orphans.list.iter().map(|orphan| orphan.0.into()).collect();
                self.orphans.head = (self.orphans.first, 0);
                self.append_orphans(cx, &all, true)?;
                for lnum in self.orphans.head.0 + 1..self.orphans.first + self.orphans.lebs {
                    self.nodes.unmap(cx, lnum)?;
                }
            }
            self.orphans.list.iter_mut().for_each(|orphan| orphan.1 = false);
        }
        Ok(!self.orphans.list.is_empty())
    }

    fn append_orphans(&mut self, cx: &mut Cx, mut inos: &[u64], is_atomic: bool) -> Result<()> {
        while !inos.is_empty() {
            if self.leb_bytes - self.orphans.head.1 < ORPHAN_HEADER_BYTES as u32 + 8 {
                self.orphans.head = (self.orphans.head.0 + 1, 0);
            }
            let (lnum, offset) = self.orphans.head;
            if lnum == self.orphans.first + self.orphans.lebs {
                return Err(UbifsError::corrupt(lnum - 1, offset, "the orphan area is full"));
            }
            let most = (self.leb_bytes - offset - ORPHAN_HEADER_BYTES as u32) / 8;
            let (now, later) = inos.split_at(inos.len().min(most as usize));
            let len = ORPHAN_HEADER_BYTES + 8 * now.len();
            let whole = len.next_multiple_of(self.min_io as usize);
            let mut node = vec![0; whole];
            let sqnum = self.next_sqnum();
            OrphanNode::encode(self.commit, later.is_empty(), now, &mut node[..len], sqnum);
            pad(&mut node[len..]);
            if is_atomic {
                self.nodes.change(cx, Part::Orphans, lnum, &node)?;
            } else {
                if offset == 0 {
                    self.nodes.unmap(cx, lnum)?;
                }
                self.nodes.write(cx, Part::Orphans, (lnum, offset), &node)?;
            }
            self.orphans.head.1 = offset + whole as u32;
            inos = later;
        }
        Ok(())
    }
}
