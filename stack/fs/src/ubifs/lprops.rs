//! LEB properties, as the last commit wrote them.

use sim::Cx;
use sim::seam::LebVolume;

use super::error::{Result, UbifsError};
use super::media::lpt::{FANOUT, LebProps, LptAddr, LptGeometry, LptType, LtabEntry};
use super::media::{MAX_NODE_BYTES, Master, SuperBlock, TruncationNode};
use super::nodes::Nodes;

/// Smallest write of a file system operation, in bytes: space below it is of no use.
const MIN_WRITE: u32 = TruncationNode::BYTES as u32;
/// Bytes of the largest node.
const MAX_NODE: u32 = MAX_NODE_BYTES as u32;

/// The properties of every LEB of the main area, and of the LPT's own LEBs.
#[derive(Clone, Debug)]
pub(super) struct Lprops {
    /// By number of the LEB in the main area.
    pub lebs: Vec<LebProps>,
    /// The table of the LPT's LEBs, as the LPT has it.
    pub ltab: Vec<LtabEntry>,
    /// LEBs whose properties are read first, in the big model.
    pub lsave: Vec<u32>,
    /// Bytes of nodes in use, by LEB of the LPT area.
    pub used: Vec<u32>,
    /// Nodes that cannot be read: their LEBs have no properties.
    pub damaged: Vec<UbifsError>,
    /// Level (leaves have 0), place in it, and address of each node of the tree.
    pub places: Vec<(usize, usize, LptAddr)>,
}

/// Number of the child at `place` of an nnode that is `depth` levels below the root.
pub(super) fn nnode_number(parent: u32, depth: u32, place: usize) -> u32 {
    (parent ^ 1 << (2 * depth)) | (FANOUT as u32 + place as u32) << (2 * depth)
}

/// Reads the LPT. Errors: the volume's.
pub(super) fn read<V: LebVolume>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    sb: &SuperBlock,
    master: &Master,
) -> Result<Lprops> {
    let geometry = LptGeometry::new(sb);
    let empty = LebProps { free: sb.leb_bytes, dirty: 0, is_index: false };
    let mut found = Lprops {
        lebs: vec![empty; sb.main_lebs() as usize],
        ltab: vec![LtabEntry::default(); sb.lpt_lebs as usize],
        lsave: Vec::new(),
        used: vec![0; sb.lpt_lebs as usize],
        damaged: Vec::new(),
        places: Vec::new(),
    };
    let ltab = LptAddr { lnum: master.ltab_lnum, offset: master.ltab_offset };
    match node(nodes, cx, &geometry, ltab, LptType::Ltab, &mut found, |bytes| geometry.ltab(bytes)) {
        Ok(ltab) => found.ltab = ltab,
        Err(error) => found.note(error)?,
    }
    if geometry.is_big {
        let lsave = LptAddr { lnum: master.lsave_lnum, offset: master.lsave_offset };
        match node(nodes, cx, &geometry, lsave, LptType::Lsave, &mut found, |bytes| geometry.lsave(bytes)) {
            Ok(lsave) => found.lsave = lsave,
            Err(error) => found.note(error)?,
        }
    }
    // An nnode: where it is, its number, its depth, and the first pnode below it.
    let root = LptAddr { lnum: master.lpt_lnum, offset: master.lpt_offset };
    let mut below = vec![(root, 1, 0, 0_u32)];
    while let Some((addr, number, depth, first)) = below.pop() {
        let level = geometry.height - depth;
        found.places.push((level as usize, (first >> (2 * level)) as usize, addr));
        let read = node(nodes, cx, &geometry, addr, LptType::Nnode, &mut found, |bytes| geometry.nnode(bytes, number));
        let children = match read {
            Ok(children) => children,
            Err(error) => {
                found.note(error)?;
                continue;
            }
        };
        // Pnodes below each child.
        let span = 1 << (2 * (geometry.height - depth - 1));
        for (place, child) in children.into_iter().enumerate() {
            let first = first + place as u32 * span;
            let Some(addr) = child.filter(|_| first < geometry.pnodes) else { continue };
            if depth + 1 < geometry.height {
                below.push((addr, nnode_number(number, depth, place), depth + 1, first));
                continue;
            }
            let read =
                node(nodes, cx, &geometry, addr, LptType::Pnode, &mut found, |bytes| geometry.pnode(bytes, first));
            match read {
                Ok(props) => {
                    found.places.push((0, first as usize, addr));
                    let at = first as usize * FANOUT;
                    found.lebs[at..].iter_mut().zip(props).for_each(|(leb, props)| *leb = props);
                }
                Err(error) => found.note(error)?,
            }
        }
    }
    Ok(found)
}

fn node<V: LebVolume, T>(
    nodes: &mut Nodes<V>,
    cx: &mut Cx,
    geometry: &LptGeometry,
    addr: LptAddr,
    lpt_type: LptType,
    found: &mut Lprops,
    decode: impl FnOnce(&[u8]) -> std::result::Result<T, super::media::MediaError>,
) -> Result<T> {
    let len = geometry.bytes(lpt_type) as u32;
    let bytes = nodes.bytes(cx, addr.lnum, addr.offset, len)?;
    let decoded = decode(bytes).map_err(|error| UbifsError::node(addr.lnum, addr.offset, lpt_type.name(), error))?;
    found.used[(addr.lnum - geometry.first) as usize] += len;
    Ok(decoded)
}

impl Lprops {
    fn note(&mut self, error: UbifsError) -> Result<()> {
        match error {
            UbifsError::Leb(error) => Err(error.into()),
            error => {
                self.damaged.push(error);
                Ok(())
            }
        }
    }
}

/// Dead and dark bytes of a LEB with this much space that is free or dirty: what is too small to use, and what may be.
pub(super) fn dead_and_dark(space: u32, min_io: u32) -> (u32, u32) {
    wasted(space, MIN_WRITE.next_multiple_of(min_io), MAX_NODE.next_multiple_of(min_io))
}

/// The same for known bounds: below `dead` space is of no use, below `dark` it may be.
pub(super) const fn wasted(space: u32, dead: u32, dark: u32) -> (u32, u32) {
    match space {
        space if space < dead => (space, 0),
        space if space < dark => (0, space),
        space if space - dark < MIN_WRITE => (0, space - MIN_WRITE),
        _ => (0, dark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_nnodes_are_those_of_linux() {
        // calc_nnode_num(row, column): the path from the root, lowest digits first, below a leading one.
        assert_eq!((0..4).map(|place| nnode_number(1, 0, place)).collect::<Vec<_>>(), [4, 5, 6, 7]);
        // Row 2, column 6 = 1 * 4 + 2: 1, then 2, then 1: ((1 * 4 + 2) * 4) + 1.
        assert_eq!(nnode_number(nnode_number(1, 0, 1), 1, 2), 25);
    }

    #[test]
    fn space_is_dead_then_dark() {
        // Pages of 2 KiB: dead below 2048, dark below roundup(4256, 2048) = 6144.
        for (space, expected) in [
            (0, (0, 0)),
            (2040, (2040, 0)),
            (2048, (0, 2048)),
            (6136, (0, 6136)),
            (6144, (0, 6088)),
            (6192, (0, 6136)),
            (6200, (0, 6144)),
            (126_976, (0, 6144)),
        ] {
            assert_eq!(dead_and_dark(space, 2048), expected, "{space}");
        }
    }
}
