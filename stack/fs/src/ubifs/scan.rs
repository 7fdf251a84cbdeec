//! Scanning of LEBs whose nodes lie one after another: the log, buds, the index, data.
//!
//! UBIFS writes a LEB from the beginning to the end, in write units. So a power cut can leave garbage in the last unit
//! written, and after it only 0xFF. Where this is so, the LEB ends before the garbage; where there is something after it,
//! the LEB was damaged in another way, and the scan fails.

use sim::seam::is_erased;

use super::error::{Result, UbifsError};
use super::media::{
    self, Group, HEADER_BYTES, Header, MAGIC, MediaError, NodeType, PAD_NODE_BYTES, PADDING_BYTE, aligned,
};

/// A node in a LEB.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Offset in the LEB, in bytes.
    pub offset: u32,
    /// Its header.
    pub header: Header,
}

impl Found {
    /// The bytes of the node in those of the LEB.
    pub fn of<'l>(&self, leb: &'l [u8]) -> &'l [u8] {
        &leb[self.offset as usize..][..self.header.len as usize]
    }
}

/// The nodes of a LEB, padding left out.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// The nodes in order.
    pub nodes: Vec<Found>,
    /// Where the next node can be written: the end of the last write unit in use.
    pub end: u32,
    /// Where the last node ends; the rest of its write unit is padding.
    pub nodes_end: u32,
    /// Whether a power cut left something that is not to be read, and must be removed before the LEB is written to.
    pub is_torn: bool,
}

/// What a power cut may have damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing: the LEB was complete.
    None,
    /// The last write unit. Nodes stand alone.
    Tail,
    /// The last write unit. Nodes of an incomplete group are dropped.
    Groups,
    /// The last write unit. All nodes in it are dropped.
    WholeUnits,
}

/// What comes at an offset.
enum At {
    Node(Header),
    Padding(u32),
    Empty,
    Garbage,
    Corrupt(MediaError),
}

fn look(leb: &[u8], offset: u32) -> At {
    let bytes = &leb[offset as usize..];
    match media::u32_at(bytes, 0) {
        u32::MAX => return At::Empty,
        MAGIC if bytes.len() < HEADER_BYTES => return At::Garbage,
        MAGIC => {}
        _ => {
            let padding = bytes.iter().take_while(|&&byte| byte == PADDING_BYTE).count();
            return match padding {
                0 => At::Garbage,
                odd if !odd.is_multiple_of(8) => At::Garbage,
                whole => At::Padding(whole as u32),
            };
        }
    }
    match Header::read(bytes) {
        Err(error) => At::Corrupt(error),
        Ok((header, node)) if header.node_type == NodeType::Padding => {
            let whole = PAD_NODE_BYTES as u64 + u64::from(media::padded(node));
            match whole <= bytes.len() as u64 && whole.is_multiple_of(8) {
                true => At::Padding(whole as u32),
                false => At::Garbage,
            }
        }
        Ok((header, _)) => At::Node(header),
    }
}

/// Scans `leb`, the whole LEB `lnum`, from `start` on.
/// Errors: nodes that are damaged, or bytes after the last one, unless `recovery` explains them.
pub fn scan(leb: &[u8], lnum: u32, start: u32, min_io: u32, recovery: Recovery) -> Result<Scanned> {
    let whole = leb.len() as u32;
    let mut nodes: Vec<Found> = Vec::new();
    let mut offset = start;
    let mut stop = At::Empty;
    while whole - offset >= 8 {
        match look(leb, offset) {
            At::Node(header) => {
                nodes.push(Found { offset, header });
                offset = aligned(offset + header.len).min(whole);
            }
            At::Padding(bytes) => offset += bytes,
            other => {
                stop = other;
                break;
            }
        }
    }
    let wrong = |what: String| Err(UbifsError::corrupt(lnum, offset, what));
    if recovery == Recovery::None {
        return match stop {
            At::Corrupt(error) => Err(UbifsError::node(lnum, offset, "node", error)),
            At::Garbage => wrong("neither a node nor empty space".to_owned()),
            _ if !offset.is_multiple_of(min_io) => wrong("empty space begins inside a write unit".to_owned()),
            _ if !is_erased(&leb[offset as usize..]) => wrong("bytes that are not 0xFF after the last node".to_owned()),
            _ => Ok(Scanned { nodes, end: offset, nodes_end: offset, is_torn: false }),
        };
    }
    // A unit that was being written, and nothing after it.
    let is_last_write = |from: u32| {
        let after = from.saturating_add(1).next_multiple_of(min_io).min(whole);
        is_erased(&leb[after as usize..])
    };
    let explained = match &stop {
        At::Corrupt(_) => {
            // If what follows the header is not empty, the header is whole, and says how long the node is.
            let len = media::u32_at(&leb[offset as usize..], 16);
            is_last_write(offset + HEADER_BYTES as u32 - 1)
                || Header::peek(&leb[offset as usize..]).is_ok() && is_last_write(offset.saturating_add(len) - 1)
        }
        _ => is_erased(&leb[offset as usize..]) || is_last_write(offset),
    };
    if !explained {
        let what = "damage that a power cut does not explain: there are bytes after it";
        return match stop {
            At::Corrupt(error) => wrong(format!("{what} ({error})")),
            _ => wrong(what.to_owned()),
        };
    }
    let unit = offset - offset % min_io;
    let found = nodes.len();
    // What is damaged may begin with 0xFF.
    let is_damaged = !is_erased(&leb[offset as usize..]) || !offset.is_multiple_of(min_io);
    let mut drop_last = |nodes: &mut Vec<Found>| nodes.pop().map(|last| offset = last.offset).is_some();
    match recovery {
        Recovery::Groups => {
            while nodes.last().is_some_and(|last| last.header.group == Group::In) {
                drop_last(&mut nodes);
            }
        }
        Recovery::WholeUnits => {
            while nodes.last().is_some_and(|last| last.offset + last.header.len > unit) {
                drop_last(&mut nodes);
            }
        }
        Recovery::None | Recovery::Tail => {}
    }
    let is_torn = is_damaged || nodes.len() < found;
    let nodes_end =
        if is_torn { nodes.last().map_or(start, |last| aligned(last.offset + last.header.len)) } else { offset };
    Ok(Scanned { nodes, end: offset.next_multiple_of(min_io).min(whole), nodes_end, is_torn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ubifs::media::{Key, TruncationNode, pad, seal};

    const MIN_IO: u32 = 256;
    const LEB: usize = 2048;

    /// A LEB with nodes of these groups, 56 bytes each, a write unit each two.
    fn leb(groups: &[Group]) -> Vec<u8> {
        let mut leb = vec![0xff; LEB];
        for (at, &group) in groups.iter().enumerate() {
            let offset = at / 2 * 256 + at % 2 * 56;
            let node = TruncationNode { ino: 64, old_size: 2, new_size: 1 };
            node.encode(&mut leb[offset..offset + 56], group, at as u64);
            if at % 2 == 1 || at + 1 == groups.len() {
                let end = (at / 2 + 1) * 256;
                pad(&mut leb[offset + 56..end]);
            }
        }
        leb
    }

    #[test]
    fn a_whole_leb_needs_no_recovery() {
        let leb = leb(&[Group::None; 5]);
        for recovery in [Recovery::None, Recovery::Tail, Recovery::Groups, Recovery::WholeUnits] {
            let found = scan(&leb, 7, 0, MIN_IO, recovery).expect("it is whole");
            assert_eq!((found.nodes.len(), found.end), (5, 768), "{recovery:?}");
            assert_eq!(found.nodes[3].offset, 256 + 56);
        }
        let found = scan(&leb, 7, 512, MIN_IO, Recovery::None).expect("it is whole");
        assert_eq!(found.nodes.len(), 1);
    }

    #[test]
    fn a_torn_last_unit_ends_the_leb() {
        let mut torn = leb(&[Group::None; 5]);
        torn[512 + 40] ^= 1;
        assert!(scan(&torn, 7, 0, MIN_IO, Recovery::None).is_err());
        let found = scan(&torn, 7, 0, MIN_IO, Recovery::Tail).expect("only the last unit is torn");
        assert_eq!((found.nodes.len(), found.end), (4, 512));
        // Something after the torn unit.
        torn[1024] = 0;
        assert!(scan(&torn, 7, 0, MIN_IO, Recovery::Tail).is_err());
        // A unit that is torn before the last one.
        let mut torn = leb(&[Group::None; 5]);
        torn[40] ^= 1;
        assert!(scan(&torn, 7, 0, MIN_IO, Recovery::Tail).is_err());
        // Garbage where a node would begin.
        let mut torn = leb(&[Group::None; 4]);
        torn[512..700].fill(0x5a);
        let found = scan(&torn, 7, 0, MIN_IO, Recovery::Tail).expect("only the last unit is torn");
        assert_eq!((found.nodes.len(), found.end), (4, 512));
        torn[768] = 0x5a;
        assert!(scan(&torn, 7, 0, MIN_IO, Recovery::Tail).is_err());
    }

    #[test]
    fn a_torn_unit_may_begin_as_an_empty_one() {
        let mut torn = leb(&[Group::None; 4]);
        torn[512 + 8] = 0x5a;
        assert!(scan(&torn, 7, 0, MIN_IO, Recovery::None).is_err());
        for recovery in [Recovery::Tail, Recovery::Groups, Recovery::WholeUnits] {
            let found = scan(&torn, 7, 0, MIN_IO, recovery).expect("only the last unit is torn");
            assert_eq!((found.nodes.len(), found.end, found.is_torn), (4, 512, true), "{recovery:?}");
        }
    }

    #[test]
    fn an_incomplete_group_is_dropped() {
        use Group::{In, Last, None};
        let leb = leb(&[None, In, Last, In, In]);
        let found = scan(&leb, 7, 0, MIN_IO, Recovery::Groups).expect("it is whole");
        assert_eq!((found.nodes.len(), found.end), (3, 512));
        assert_eq!(scan(&leb, 7, 0, MIN_IO, Recovery::Tail).expect("it is whole").nodes.len(), 5);
    }

    #[test]
    fn the_collectors_last_unit_is_dropped_where_it_is_torn() {
        let mut torn = leb(&[Group::None; 5]);
        // The second node of the second unit, and nothing after it.
        torn[512..].fill(0xff);
        torn[256 + 56 + 40] ^= 1;
        let found = scan(&torn, 7, 0, MIN_IO, Recovery::WholeUnits).expect("only the last unit is torn");
        assert_eq!((found.nodes.len(), found.end), (2, 256));
        assert_eq!(scan(&torn, 7, 0, MIN_IO, Recovery::Tail).expect("only the last unit is torn").nodes.len(), 3);
    }

    #[test]
    fn lengths_that_lie_are_bounded() {
        let mut leb = vec![0xff; LEB];
        let mut node = vec![0; 64];
        Key::inode(1).encode(&mut node[24..]);
        seal(&mut node, NodeType::Index, Group::None, 1);
        leb[..64].copy_from_slice(&node);
        leb[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        for recovery in [Recovery::None, Recovery::Tail] {
            assert!(scan(&leb, 7, 0, MIN_IO, recovery).is_ok() == (recovery == Recovery::Tail));
        }
        pad(&mut leb[..64]);
        leb[24..28].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
        let sum = media::crc(&leb[8..28]).to_le_bytes();
        leb[4..8].copy_from_slice(&sum);
        assert!(scan(&leb, 7, 0, MIN_IO, Recovery::None).is_err());
    }
}
