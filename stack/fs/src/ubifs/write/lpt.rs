//! The LPT of a file system that is mounted for writing: which of its nodes changed, where they are, and how a commit writes
//! them.
//!
//! Nodes are appended at the LPT's head; a node that is written again leaves a dirty one behind. The area has a garbage
//! collection of its own. In the small model the whole tree is written when space runs low. In the big one the nodes of the
//! dirtiest LEB are marked as changed, so that the next commit writes them elsewhere.
//! Source: Linux 6.12 `fs/ubifs/lpt_commit.c` (behaviour).

use sim::Cx;
use sim::seam::LebVolume;

use super::space::Space;
use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::lprops::{Lprops, nnode_number};
use crate::ubifs::media::Master;
use crate::ubifs::media::lpt::{FANOUT, LptAddr, LptGeometry, LptType, LtabEntry};
use crate::ubifs::nodes::Nodes;
use crate::ubifs::written::Part;

/// A node of the tree.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Where it is; nowhere if all its LEBs are empty.
    addr: Option<LptAddr>,
    is_dirty: bool,
}

/// A LEB of the area.
#[derive(Clone, Copy, Debug)]
struct Leb {
    space: LtabEntry,
    /// It holds nothing that counts, and is unmapped once the commit has ended.
    is_collected: bool,
    /// The commit that runs writes to it.
    is_used: bool,
}

/// What a commit writes, in order.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Ltab,
    Lsave,
    /// Level and place in it; leaves have level 0.
    Node(usize, usize),
}

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct Lpt {
    geometry: LptGeometry,
    min_io: u32,
    /// Nodes by level: leaves first, the root last.
    levels: Vec<Vec<Node>>,
    lebs: Vec<Leb>,
    dirty_leaves: usize,
    head: LptAddr,
    ltab: LptAddr,
    ltab_is_dirty: bool,
    lsave: LptAddr,
    lsave_is_dirty: bool,
    /// Bytes of the whole tree, with what is lost at the ends of LEBs.
    whole: u64,
    buffer: Vec<u8>,
}

impl Lpt {
    /// The tree as the last commit left it.
    pub fn new(geometry: LptGeometry, min_io: u32, master: &Master, read: &Lprops) -> Lpt {
        let mut levels = vec![vec![Node::default(); geometry.pnodes as usize]];
        for _ in 0..geometry.height {
            let below = levels.last().expect("there are leaves").len();
            levels.push(vec![Node::default(); below.div_ceil(FANOUT)]);
        }
        for &(level, place, addr) in &read.places {
            levels[level][place].addr = Some(addr);
        }
        let leb = |&space: &LtabEntry| Leb { space, is_collected: false, is_used: false };
        Lpt {
            min_io,
            levels,
            lebs: read.ltab.iter().map(leb).collect(),
            dirty_leaves: 0,
            head: LptAddr { lnum: master.lpt_head_lnum, offset: master.lpt_head_offset },
            ltab: LptAddr { lnum: master.ltab_lnum, offset: master.ltab_offset },
            ltab_is_dirty: false,
            lsave: LptAddr { lnum: master.lsave_lnum, offset: master.lsave_offset },
            lsave_is_dirty: false,
            whole: whole_bytes(&geometry, min_io),
            geometry,
            buffer: Vec::new(),
        }
    }

    /// Whether a commit would write something.
    pub fn is_dirty(&self) -> bool {
        self.dirty_leaves > 0
    }

    /// Bytes in use from the beginning of each LEB of the area.
    pub fn used(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let used = |leb: &Leb| self.geometry.leb_bytes - leb.space.free;
        (self.geometry.first..).zip(self.lebs.iter().map(used))
    }

    fn at(&self, lnum: u32) -> usize {
        (lnum - self.geometry.first) as usize
    }

    fn add_dirt(&mut self, addr: LptAddr, lpt_type: LptType) {
        let at = self.at(addr.lnum);
        self.lebs[at].space.dirty += self.geometry.bytes(lpt_type) as u32;
    }

    /// The properties of the LEB at this place of the main area changed: its leaf is to be written, and what is above it.
    pub fn changed(&mut self, leb: u32) {
        self.touch(0, leb as usize / FANOUT);
    }

    fn touch(&mut self, mut level: usize, mut place: usize) {
        while level < self.levels.len() && !self.levels[level][place].is_dirty {
            let node = &mut self.levels[level][place];
            node.is_dirty = true;
            let addr = node.addr;
            self.dirty_leaves += usize::from(level == 0);
            if let Some(addr) = addr {
                self.add_dirt(addr, if level == 0 { LptType::Pnode } else { LptType::Nnode });
            }
            let is_root = level + 1 == self.levels.len();
            if is_root && !self.ltab_is_dirty {
                self.ltab_is_dirty = true;
                self.add_dirt(self.ltab, LptType::Ltab);
            }
            (level, place) = (level + 1, place / FANOUT);
        }
    }

    /// Whether less than two whole trees of space is left.
    fn is_short(&self) -> bool {
        let leb_bytes = self.geometry.leb_bytes;
        let free = self.lebs.iter().zip(self.geometry.first..).map(|(leb, lnum)| match leb.space {
            _ if lnum == self.head.lnum => leb_bytes - self.head.offset,
            LtabEntry { free, dirty } if free + dirty == leb_bytes => leb_bytes,
            _ => 0,
        });
        free.map(u64::from).sum::<u64>() <= self.whole * 2
    }

    /// Counts LEBs that hold nothing of use as empty. They are unmapped once the commit has ended.
    fn collect_trivial(&mut self) {
        let (leb_bytes, first, head) = (self.geometry.leb_bytes, self.geometry.first, self.head.lnum);
        for (leb, lnum) in self.lebs.iter_mut().zip(first..) {
            let LtabEntry { free, dirty } = leb.space;
            if lnum != head && dirty > 0 && free + dirty == leb_bytes {
                leb.is_collected = true;
                leb.space = LtabEntry { free: leb_bytes, dirty: 0 };
            }
        }
    }

    /// Marks all nodes of the dirtiest LEB as changed. Returns false if there is none.
    fn collect(&mut self, space: &mut Space) -> bool {
        let (leb_bytes, first, head) = (self.geometry.leb_bytes, self.geometry.first, self.head.lnum);
        let is_worth = |&(leb, lnum): &(&Leb, u32)| {
            lnum != head && leb.space.dirty > 0 && leb.space.free + leb.space.dirty != leb_bytes
        };
        let worst = self.lebs.iter().zip(first..).filter(is_worth);
        // Of LEBs that are equally dirty, the first.
        let worst = worst.max_by_key(|&(leb, lnum)| (leb.space.dirty, std::cmp::Reverse(lnum)));
        let Some((_, worst)) = worst else { return false };
        let mut leaves = Vec::new();
        for level in 0..self.levels.len() {
            for place in 0..self.levels[level].len() {
                if let Some(addr) = self.levels[level][place].addr.filter(|addr| addr.lnum == worst) {
                    self.touch(level, place);
                    if level == 0 {
                        leaves.push((addr.offset, place));
                    }
                }
            }
        }
        leaves.sort_unstable();
        leaves.into_iter().for_each(|(_, leaf)| space.read(leaf));
        if self.ltab.lnum == worst && !self.ltab_is_dirty {
            self.ltab_is_dirty = true;
            self.add_dirt(self.ltab, LptType::Ltab);
        }
        if self.geometry.is_big && self.lsave.lnum == worst {
            self.touch_lsave();
        }
        true
    }

    fn touch_lsave(&mut self) {
        if !self.lsave_is_dirty {
            self.lsave_is_dirty = true;
            self.add_dirt(self.lsave, LptType::Lsave);
        }
    }

    /// Writes what changed, and puts where it is into the master node.
    /// Errors: the volume's; the area is too small, which the format rules out.
    pub fn commit<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        space: &mut Space,
        master: &mut Master,
    ) -> Result<()> {
        space.take_changed(|leb| self.changed(leb));
        self.collect_trivial();
        if self.dirty_leaves > 0 {
            if !self.geometry.is_big && self.is_short() {
                for place in 0..self.levels[0].len() {
                    if self.levels[0][place].addr.is_some() {
                        space.read(place);
                        self.touch(0, place);
                    }
                }
                self.collect_trivial();
            }
            if self.geometry.is_big {
                self.touch_lsave();
            }
            let pieces = self.lay_out()?;
            self.write(nodes, cx, space, &pieces)?;
            (self.ltab_is_dirty, self.lsave_is_dirty) = (false, false);
        }
        let root = self.levels.last().and_then(|root| root[0].addr).expect("the root was written");
        (master.lpt_lnum, master.lpt_offset) = (root.lnum, root.offset);
        (master.lpt_head_lnum, master.lpt_head_offset) = (self.head.lnum, self.head.offset);
        (master.ltab_lnum, master.ltab_offset) = (self.ltab.lnum, self.ltab.offset);
        (master.lsave_lnum, master.lsave_offset) = (self.lsave.lnum, self.lsave.offset);
        Ok(())
    }

    /// What follows once the master node was written.
    pub fn after_commit<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, space: &mut Space) -> Result<()> {
        for at in 0..self.lebs.len() {
            if std::mem::take(&mut self.lebs[at].is_collected) {
                nodes.unmap(cx, self.geometry.first + at as u32)?;
            }
        }
        while self.geometry.is_big && self.is_short() && self.collect(space) {}
        Ok(())
    }

    /// Nodes that changed, children before their parents.
    fn dirty(&self) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let root = self.levels.len() - 1;
        // A node, and whether its children were put before it.
        let mut ahead = vec![((root, 0), false)];
        while let Some(((level, place), is_done)) = ahead.pop() {
            if !self.levels[level].get(place).is_some_and(|node| node.is_dirty) {
                continue;
            }
            if is_done || level == 0 {
                found.push((level, place));
                continue;
            }
            ahead.push(((level, place), true));
            ahead.extend((0..FANOUT).rev().map(|child| ((level - 1, place * FANOUT + child), false)));
        }
        found
    }

    fn bytes_of(&self, piece: Piece) -> u32 {
        let lpt_type = match piece {
            Piece::Ltab => LptType::Ltab,
            Piece::Lsave => LptType::Lsave,
            Piece::Node(0, _) => LptType::Pnode,
            Piece::Node(..) => LptType::Nnode,
        };
        self.geometry.bytes(lpt_type) as u32
    }

    /// Gives each piece its place: the two tables as soon as one fits, the nodes one after another.
    fn lay_out(&mut self) -> Result<Vec<(Piece, LptAddr)>> {
        let mut tables = vec![Piece::Ltab];
        if self.geometry.is_big {
            tables.push(Piece::Lsave);
        }
        let nodes = self.dirty();
        let mut nodes = nodes.iter().map(|&(level, place)| Piece::Node(level, place)).peekable();
        let mut placed = Vec::with_capacity(nodes.len() + 2);
        let LptAddr { mut lnum, mut offset } = self.head;
        let leb_bytes = self.geometry.leb_bytes;
        loop {
            // Each table once, where it fits.
            while let Some(&table) = tables.last() {
                let len = self.bytes_of(table);
                if offset + len > leb_bytes {
                    break;
                }
                placed.push((table, LptAddr { lnum, offset }));
                offset += len;
                tables.pop();
            }
            while let Some(&piece) = nodes.peek() {
                let len = self.bytes_of(piece);
                if offset + len > leb_bytes {
                    break;
                }
                placed.push((piece, LptAddr { lnum, offset }));
                offset += len;
                nodes.next();
            }
            let end = offset.next_multiple_of(self.min_io);
            let at = self.at(lnum);
            self.lebs[at].space.free = leb_bytes - end;
            self.lebs[at].space.dirty += end - offset;
            if nodes.peek().is_none() && tables.is_empty() {
                offset = end;
                break;
            }
            lnum = self.next_empty(lnum)?;
            offset = 0;
        }
        for &(piece, addr) in &placed {
            match piece {
                Piece::Ltab => self.ltab = addr,
                Piece::Lsave => self.lsave = addr,
                Piece::Node(level, place) => self.levels[level][place].addr = Some(addr),
            }
        }
        self.lebs.iter_mut().for_each(|leb| leb.is_used = false);
        self.head = LptAddr { lnum, offset };
        Ok(placed)
    }

    /// The next empty LEB after `lnum`, in a circle.
    fn next_empty(&mut self, lnum: u32) -> Result<u32> {
        let (count, from) = (self.lebs.len(), self.at(lnum) + 1);
        let next = (from..from + count).map(|at| at % count).find(|&at| {
            let leb = &self.lebs[at];
            !leb.is_collected && !leb.is_used && leb.space.free == self.geometry.leb_bytes
        });
        match next {
            Some(at) => {
                self.lebs[at].is_used = true;
                Ok(self.geometry.first + at as u32)
            }
            None => Err(UbifsError::corrupt(lnum, 0, "the LPT area has no empty LEB left for this commit")),
        }
    }

    fn write<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        space: &Space,
        pieces: &[(Piece, LptAddr)],
    ) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        for leb in pieces.chunk_by(|(_, one), (_, two)| one.lnum == two.lnum) {
            let LptAddr { lnum, offset: from } = leb[0].1;
            buffer.clear();
            let mut end = from;
            for &(piece, addr) in leb {
                end = addr.offset + self.bytes_of(piece);
                if V::keeps_bytes() {
                    buffer.resize((end - from) as usize, 0);
                    self.encode(space, piece, &mut buffer[(addr.offset - from) as usize..]);
                }
                if let Piece::Node(level, place) = piece {
                    self.levels[level][place].is_dirty = false;
                    self.dirty_leaves -= usize::from(level == 0);
                }
            }
            let len = end.next_multiple_of(self.min_io) - from;
            if V::keeps_bytes() {
                buffer.resize(len as usize, 0xff);
            }
            if from == 0 {
                nodes.unmap(cx, lnum)?;
            }
            nodes.write_part(cx, Part::Lpt, (lnum, from), &buffer, len)?;
        }
        self.buffer = buffer;
        Ok(())
    }

    fn encode(&self, space: &Space, piece: Piece, node: &mut [u8]) {
        match piece {
            Piece::Ltab => {
                let ltab: Vec<LtabEntry> = self.lebs.iter().map(|leb| leb.space).collect();
                self.geometry.encode_ltab(&ltab, node);
            }
            Piece::Lsave => {
                let count = self.geometry.lsave_count as usize;
                let filler = std::iter::repeat(self.geometry.main_first);
                let lnums: Vec<u32> = space.valuable().chain(filler).take(count).collect();
                self.geometry.encode_lsave(&lnums, node);
            }
            Piece::Node(0, place) => {
                let props = std::array::from_fn(|leb| space.props(place * FANOUT + leb));
                self.geometry.encode_pnode(&props, place as u32, node);
            }
            Piece::Node(level, place) => {
                let children = std::array::from_fn(|child| {
                    self.levels[level - 1].get(place * FANOUT + child).and_then(|node| node.addr)
                });
                self.geometry.encode_nnode(&children, self.number(level, place), node);
            }
        }
    }

    /// Number of an nnode, which tells its path from the root.
    fn number(&self, level: usize, place: usize) -> u32 {
        let depth = self.levels.len() - 1 - level;
        (0..depth).fold(1, |number, step| {
            let child = place >> (2 * (depth - 1 - step)) & (FANOUT - 1);
            nnode_number(number, step as u32, child)
        })
    }
}

/// Bytes of the whole tree, and of what is lost at the ends of LEBs and of the last write.
fn whole_bytes(geometry: &LptGeometry, min_io: u32) -> u64 {
    let bytes = |lpt_type| geometry.bytes(lpt_type) as u64;
    let mut whole = u64::from(geometry.pnodes) * bytes(LptType::Pnode);
    whole += u64::from(geometry.nnodes()) * bytes(LptType::Nnode) + bytes(LptType::Ltab);
    if geometry.is_big {
        whole += bytes(LptType::Lsave);
    }
    let per_leb = bytes(LptType::Pnode).max(bytes(LptType::Nnode));
    let (mut lost, mut rest) = (per_leb, whole + per_leb);
    while rest > u64::from(geometry.leb_bytes) {
        rest = rest + per_leb - u64::from(geometry.leb_bytes);
        lost += per_leb;
    }
    whole + lost + rest.next_multiple_of(min_io.into()) - rest
}
