//! What a mount and later reads found damaged and went on without, as Linux does, which says so in its log.

use sim::seam::{Flash, Ino};

use super::Jffs2;
use super::blocks::Node;
use super::media::node_type;

/// Most places that are kept.
const MOST: usize = 10_000;

/// What a damaged place on flash was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// A node with this type in its header, whose own CRC differs or whose length is too short.
    Node(u16),
    /// Bytes of a file, the second one excluded, whose CRC differs. What an older node has of them counts, or a hole.
    Data(u32, u32),
    /// An extended attribute.
    Xattr(u32),
    /// Bytes that are neither erased nor a node.
    Bytes,
    /// Nothing on flash is damaged, but inode `ino`, which this name of a directory leads to, has no node.
    Name {
        /// The name.
        name: Vec<u8>,
        /// The inode that is missing.
        ino: u32,
    },
}

/// A damaged place on flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Block.
    pub block: u32,
    /// Offset in it.
    pub offset: u32,
    /// Bytes of the flash.
    pub len: u32,
    /// Inode that the node belongs to, a directory if it is a name. `None` if that is damaged too.
    pub ino: Option<u32>,
    /// What was lost.
    pub lost: Lost,
    /// It looks as a loss of power leaves the node that is being written: its end is erased, and so is what follows in the
    /// block.
    pub is_torn: bool,
}

impl Damage {
    /// In a few words.
    pub fn what(&self) -> String {
        match &self.lost {
            Lost::Node(node_type) => format!("{} whose CRC or length is wrong", kind(*node_type)),
            Lost::Data(from, to) => {
                format!("data whose CRC differs, bytes {from} to {} of the file", to.saturating_sub(1))
            }
            Lost::Xattr(xid) => format!("extended attribute {xid}, whose CRC differs"),
            Lost::Bytes => format!("{} bytes that are no node", self.len),
            Lost::Name { name, ino } => {
                format!("name {:?} leads to inode {ino}, of which there is no node", String::from_utf8_lossy(name))
            }
        }
    }
}

fn kind(node_type: u16) -> &'static str {
    match node_type {
        node_type::INODE => "an inode node",
        node_type::DIRENT => "a directory entry",
        node_type::XATTR => "an extended attribute",
        node_type::XREF => "the use of an extended attribute",
        _ => "a node",
    }
}

/// The places that were found.
#[derive(Clone, Debug, Default)]
pub(super) struct Damages {
    list: Vec<Damage>,
    more: u64,
}

impl Damages {
    fn add(&mut self, damage: Damage) {
        match self.list.len() < MOST {
            true => self.list.push(damage),
            false => self.more += 1,
        }
    }

    /// A word that is neither erased nor the beginning of a node. Zeroes fill what is left of a page.
    pub fn add_word(&mut self, block: u32, offset: u32, word: &[u8]) {
        let follows =
            |last: &&mut Damage| last.lost == Lost::Bytes && (last.block, last.offset + last.len) == (block, offset);
        if let Some(last) = self.list.last_mut().filter(follows) {
            last.len += word.len() as u32;
            return;
        }
        if word.iter().any(|&byte| byte != 0) {
            let len = word.len() as u32;
            self.add(Damage { block, offset, len, ino: None, lost: Lost::Bytes, is_torn: true });
        }
    }

    /// A node that ends with `last`.
    pub fn add_node(&mut self, place: (u32, u32, u32), ino: Option<u32>, lost: Lost, last: &[u8]) {
        let (block, offset, len) = place;
        // Power may fail before its last byte.
        let is_torn = last.last() == Some(&0xff);
        self.add(Damage { block, offset, len, ino, lost, is_torn });
    }
}

impl<F: Flash> Jffs2<F> {
    /// Notes what is lost with node `id`, which ends with `last`.
    pub(super) fn note_lost(&mut self, id: u32, ino: Option<u32>, lost: Lost, last: &[u8]) {
        let Node { block, offset, len, .. } = *self.blocks.node(id);
        self.damages.add_node((block, offset, len), ino, lost, last);
    }

    /// What was found damaged since the mount, in the order in which it was found, and how much more there was. Data are
    /// looked at when their inode is read for the first time.
    pub fn damages(&self) -> (Vec<Damage>, u64) {
        let list = self.damages.list.iter().map(|damage| Damage { is_torn: self.is_torn(damage), ..damage.clone() });
        (list.collect(), self.damages.more)
    }

    /// What was found damaged of an inode, its extended attributes among it. Those are looked at when they are listed.
    pub fn damages_of(&self, ino: Ino) -> Vec<Damage> {
        if self.damages.list.is_empty() {
            return Vec::new();
        }
        let Ok(number) = u32::try_from(ino.0) else { return Vec::new() };
        let xids = self.xattrs.damaged_of(number);
        let is_of = |damage: &Damage| match damage.lost {
            Lost::Xattr(xid) => xids.contains(&xid),
            _ => damage.ino == Some(number),
        };
        let found = self.damages.list.iter().filter(|damage| is_of(damage));
        found.map(|damage| Damage { is_torn: self.is_torn(damage), ..damage.clone() }).collect()
    }

    fn is_torn(&self, damage: &Damage) -> bool {
        let (free, end) = (self.blocks.at(damage.block).sizes.free, damage.offset + damage.len);
        let written = self.blocks.block_bytes - free;
        // A mount leaves what is left of the page alone.
        let page = self.device.page_bytes().unwrap_or(1);
        damage.is_torn && free > 0 && (end..end.saturating_add(page)).contains(&written)
    }
}
