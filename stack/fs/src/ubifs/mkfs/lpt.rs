//! The tree of LEB properties, as a file system begins with it: leaves, inner nodes level by level, tables.

use super::space::Space;
use crate::ubifs::media::lpt::{FANOUT, LebProps, LptAddr, LptGeometry, LtabEntry};

/// Where the parts of the tree are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The root.
    pub root: LptAddr,
    /// Where the next node would be.
    pub head: LptAddr,
    /// The table of the area's LEBs.
    pub ltab: LptAddr,
    /// The save table, in the big model.
    pub lsave: Option<LptAddr>,
}

/// Nodes packed into LEBs one after another.
struct Packer<'s, 'a, E> {
    space: &'s mut Space<'a, E>,
    leb_bytes: usize,
    min_io_bytes: usize,
    lnum: u32,
    leb: Vec<u8>,
    ltab: Vec<LtabEntry>,
}

impl<E> Packer<'_, '_, E> {
    fn room(&mut self, len: usize) -> Result<LptAddr, E> {
        if self.leb.len() + len > self.leb_bytes {
            self.account();
            self.put()?;
            self.lnum += 1;
            self.leb.clear();
            self.ltab.push(LtabEntry { free: self.leb_bytes as u32, dirty: 0 });
        }
        let addr = LptAddr { lnum: self.lnum, offset: self.leb.len() as u32 };
        self.leb.resize(self.leb.len() + len, 0);
        Ok(addr)
    }

    fn node(&mut self, len: usize, build: impl FnOnce(&mut [u8])) -> Result<LptAddr, E> {
        let addr = self.room(len)?;
        build(&mut self.leb[addr.offset as usize..]);
        Ok(addr)
    }

    /// Enters the LEB as it is into the table.
    fn account(&mut self) {
        let end = self.leb.len().next_multiple_of(self.min_io_bytes);
        let entry = LtabEntry { free: (self.leb_bytes - end) as u32, dirty: (end - self.leb.len()) as u32 };
        *self.ltab.last_mut().expect("it has an entry from the beginning") = entry;
    }

    fn put(&mut self) -> Result<(), E> {
        self.leb.resize(self.leb.len().next_multiple_of(self.min_io_bytes), 0xff);
        self.space.put(self.lnum, &self.leb)
    }
}

/// Number of a nnode in the big model: its path from the root in digits of base 4, the last step first, after a 1.
fn nnode_number(depth: u32, column: u32) -> u32 {
    (0..depth).fold(1, |number, step| number << 2 | column >> (2 * step) & 3)
}

/// Writes the tree for LEBs with these properties.
pub fn write<E>(
    geometry: &LptGeometry,
    props: &[LebProps],
    min_io_bytes: u32,
    space: &mut Space<'_, E>,
) -> Result<Tree, E> {
    let leb_bytes = geometry.leb_bytes as usize;
    let mut packer = Packer {
        space,
        leb_bytes,
        min_io_bytes: min_io_bytes as usize,
        lnum: geometry.first,
        leb: Vec::with_capacity(leb_bytes),
        ltab: vec![LtabEntry { free: geometry.leb_bytes, dirty: 0 }],
    };
    let empty = LebProps { free: geometry.leb_bytes, ..LebProps::default() };
    let mut level: Vec<LptAddr> = Vec::new();
    for (number, four) in (0..).zip(props.chunks(FANOUT)) {
        let mut lebs = [empty; FANOUT];
        lebs[..four.len()].copy_from_slice(four);
        level.push(packer.node(geometry.pnode_bytes(), |node| geometry.encode_pnode(&lebs, number, node))?);
    }
    for depth in (0..geometry.height).rev() {
        let mut above = Vec::new();
        for (column, four) in (0..).zip(level.chunks(FANOUT)) {
            let mut children = [None; FANOUT];
            children.iter_mut().zip(four).for_each(|(child, &addr)| *child = Some(addr));
            let number = nnode_number(depth, column);
            above.push(packer.node(geometry.nnode_bytes(), |node| geometry.encode_nnode(&children, number, node))?);
        }
        level = above;
    }
    let lsave = if geometry.is_big {
        // The first LEBs; the first one again where there are fewer.
        let lnums =
            (0..geometry.lsave_count).map(|at| geometry.main_first + if at < geometry.main_lebs { at } else { 0 });
        let lnums: Vec<u32> = lnums.collect();
        Some(packer.node(geometry.lsave_bytes(), |node| geometry.encode_lsave(&lnums, node))?)
    } else {
        None
    };
    let ltab = packer.room(geometry.ltab_bytes())?;
    packer.account();
    let mut table = packer.ltab.clone();
    table.resize(geometry.lebs as usize, LtabEntry { free: geometry.leb_bytes, dirty: 0 });
    geometry.encode_ltab(&table, &mut packer.leb[ltab.offset as usize..]);
    packer.put()?;
    let head = LptAddr { lnum: packer.lnum, offset: packer.leb.len() as u32 };
    Ok(Tree { root: level[0], head, ltab, lsave })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_tells_the_way_from_the_root() {
        assert_eq!(nnode_number(0, 0), 1);
        // Below the root, child 2: 1 and 2.
        assert_eq!(nnode_number(1, 2), 0b1_10);
        // Column 9 of the second row is child 1 of child 2: the lowest digits come first.
        assert_eq!(nnode_number(2, 9), 0b1_01_10);
    }
}
