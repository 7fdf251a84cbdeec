//! Files, directories and attributes against each other.

use std::collections::BTreeMap;

use sim::Cx;
use sim::seam::LebVolume;

use super::{Class, Report, Severity};
use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::index::{Met, entry};
use crate::ubifs::media::{
    BLOCK_BYTES, Branch, DentNode, Device, InodeNode, ItemType, Key, KeyType, NodeType, ROOT_INO, aligned, inode_flags,
};
use crate::ubifs::mount::Mounted;
use crate::ubifs::nodes::Nodes;
use crate::ubifs::read::{Reader, read_data};

/// What is known of an inode.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Where its node is; `None` if only others name it.
    node: Option<(u32, u32)>,
    item: Option<ItemType>,
    /// Type that its last entry says.
    named: Option<ItemType>,
    is_attribute: bool,
    nlink: u32,
    size: u64,
    xattr_cnt: u32,
    xattr_size: u32,
    xattr_names: u32,
    /// Bytes of inline data.
    inline: u32,
    /// Entries that name it.
    names: u32,
    /// The directory that the last of them is in.
    parent: u32,
    /// Directories in it.
    subdirs: u32,
    /// Bytes that its entries count for.
    entries: u64,
    /// Its extended attributes: number, bytes of names.
    found_xattrs: (u32, u32),
    /// One past the last byte of its data nodes.
    data_end: u64,
}

struct Files<'r> {
    known: BTreeMap<u32, Known>,
    /// Hosts of extended attributes, by the inode of the value, with the bytes of the name.
    hosts: Vec<(u32, u32, u32)>,
    report: &'r mut Report,
}

pub(super) fn check<V: LebVolume>(reader: &mut Reader<V>, cx: &mut Cx, report: &mut Report) -> Result<()> {
    let (nodes, mounted, unpack) = reader.parts();
    let Mounted { index, sb, journal, .. } = mounted;
    let mut files = Files { known: BTreeMap::new(), hosts: Vec::new(), report };
    let mut block = [0; BLOCK_BYTES as usize];
    let (mut last, mut leaves, mut index_nodes) = (None, 0, 0);
    index.walk(nodes, cx, |nodes, cx, met| {
        let branch = match met {
            Met::Node(_) => {
                index_nodes += 1;
                return Ok(());
            }
            Met::Misplaced(branch) => {
                let what =
                    format!("key {:?} is not less than that of the next node: Linux does not find it", branch.key);
                files.report.find(Severity::Error, Class::Index, Some((branch.lnum, branch.offset)), what);
                return Ok(());
            }
            Met::Damaged(_, error) => {
                files.report.damage(Class::Index, &error);
                return Ok(());
            }
            Met::Leaf(branch) => branch,
        };
        leaves += 1;
        let is_entry = matches!(branch.key.key_type(), Some(KeyType::Dent | KeyType::Xent));
        if last == Some(branch.key) && !is_entry {
            let what = format!("two nodes with key {:?}", branch.key);
            files.report.find(Severity::Error, Class::Index, Some((branch.lnum, branch.offset)), what);
        }
        last = Some(branch.key);
        let found = match branch.key.key_type() {
            Some(KeyType::Inode) => files.inode(nodes, cx, &branch),
            Some(KeyType::Data) => read_data(nodes, unpack, cx, &branch, &mut block).map(|bytes| {
                let known = files.known.entry(branch.key.ino()).or_default();
                known.data_end = u64::from(branch.key.low()) * u64::from(BLOCK_BYTES) + u64::from(bytes);
            }),
            _ => {
                let key_hash = sb.key_hash;
                files.entry(nodes, cx, &branch, |name| key_hash.of(name))
            }
        };
        match found {
            Err(UbifsError::Leb(error)) => Err(error.into()),
            Err(error) => {
                files.report.damage(Class::Node, &error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    })?;
    for (&ino, &size) in &journal.sizes {
        if let Some(known) = files.known.get_mut(&ino) {
            known.size = size;
        }
    }
    files.attributes();
    files.agree();
    files.reachable();
    let inodes = files.known.values().filter(|known| known.node.is_some()).count() as u64;
    (report.leaves, report.index_nodes, report.inodes) = (leaves, index_nodes, inodes);
    Ok(())
}

impl Files<'_> {
    fn error(&mut self, place: Option<(u32, u32)>, what: String) {
        self.report.find(Severity::Error, Class::Files, place, what);
    }

    fn inode<V: LebVolume>(&mut self, nodes: &mut Nodes<V>, cx: &mut Cx, branch: &Branch) -> Result<()> {
        let Branch { lnum, offset, key, .. } = *branch;
        let node = nodes.node(cx, branch, NodeType::Inode)?;
        let inode = InodeNode::decode(node).map_err(|error| UbifsError::node(lnum, offset, "inode node", error))?;
        if inode.key != key {
            let what = format!("inode node of {:?}, expected {key:?}", inode.key);
            return Err(UbifsError::corrupt(lnum, offset, what));
        }
        let item = ItemType::of_mode(inode.mode);
        let place = Some((lnum, offset));
        let ino = key.ino();
        let is_device = matches!(item, Some(ItemType::BlockDevice | ItemType::CharDevice));
        let device_is_bad = is_device && Device::decode(inode.data).is_err();
        let target_is_bad = item == Some(ItemType::Symlink) && inode.data.len() as u64 != inode.size;
        let known = self.known.entry(ino).or_default();
        known.node = place;
        known.item = item;
        known.is_attribute = inode.flags & inode_flags::XATTR != 0;
        (known.nlink, known.size, known.inline) = (inode.nlink, inode.size, inode.data.len() as u32);
        (known.xattr_cnt, known.xattr_size, known.xattr_names) = (inode.xattr_cnt, inode.xattr_size, inode.xattr_names);
        let mode = inode.mode;
        if item.is_none() {
            self.error(place, format!("inode {ino} has mode {mode:#o}, which has no type"));
        }
        if device_is_bad {
            self.error(place, format!("inode {ino} is a device without a number"));
        }
        if target_is_bad {
            self.error(place, format!("inode {ino} is a symbolic link whose target has another length than its size"));
        }
        Ok(())
    }

    fn entry<V: LebVolume>(
        &mut self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        branch: &Branch,
        hash: impl FnOnce(&[u8]) -> u32,
    ) -> Result<()> {
        let entry = entry(nodes, cx, branch)?;
        let place = Some((branch.lnum, branch.offset));
        let (dir, low) = (branch.key.ino(), branch.key.low());
        let DentNode { ino, item, name, .. } = entry;
        let (name_bytes, expected) = (name.len(), hash(name));
        let printable = String::from_utf8_lossy(name).into_owned();
        let Some(ino) = u32::try_from(ino).ok().filter(|&ino| ino != 0) else {
            self.error(place, format!("entry {printable:?} of inode {dir} names inode {ino}"));
            return Ok(());
        };
        if low != expected {
            self.error(place, format!("entry {printable:?} has hash {low:#x}, expected {expected:#x} of its name"));
        }
        if branch.key.key_type() == Some(KeyType::Xent) {
            let known = self.known.entry(dir).or_default();
            known.found_xattrs.0 += 1;
            known.found_xattrs.1 += name_bytes as u32;
            self.known.entry(ino).or_default().names += 1;
            self.hosts.push((ino, dir, name_bytes as u32));
            return Ok(());
        }
        let parent = self.known.entry(dir).or_default();
        parent.entries += u64::from(aligned(DentNode::bytes_of(name_bytes) as u32));
        if item == ItemType::Dir {
            parent.subdirs += 1;
        }
        let known = self.known.entry(ino).or_default();
        known.names += 1;
        known.parent = dir;
        known.named = Some(item);
        Ok(())
    }

    /// Sizes of extended attributes, as their hosts count them.
    fn attributes(&mut self) {
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        for (ino, host, name_bytes) in std::mem::take(&mut self.hosts) {
            let value = self.known.get(&ino).copied().unwrap_or_default();
            let entry = aligned(DentNode::bytes_of(name_bytes as usize) as u32);
            let bytes = u64::from(entry) + u64::from(aligned(InodeNode::BYTES as u32 + value.inline + 1));
            *sizes.entry(host).or_default() += bytes;
            if value.node.is_some() && !value.is_attribute {
                self.error(
                    value.node,
                    format!("inode {ino} is an extended attribute of inode {host}, without the flag"),
                );
            }
        }
        let mut wrong = Vec::new();
        for (&ino, known) in self.known.iter().filter(|(_, known)| known.node.is_some() && !known.is_attribute) {
            let found = (known.found_xattrs.0, known.found_xattrs.1, sizes.get(&ino).copied().unwrap_or(0));
            let counted = (known.xattr_cnt, known.xattr_names, u64::from(known.xattr_size));
            if found != counted {
                let what = format!(
                    "inode {ino} counts {} extended attributes with {} bytes of names and {} in all; it has {}, {} and {}",
                    counted.0, counted.1, counted.2, found.0, found.1, found.2
                );
                wrong.push((known.node, what));
            }
        }
        wrong.into_iter().for_each(|(place, what)| self.error(place, what));
    }

    /// Links, sizes and types.
    fn agree(&mut self) {
        let mut wrong = Vec::new();
        for (&ino, known) in &self.known {
            let Known { node, nlink, names, size, .. } = *known;
            if node.is_none() {
                let what = match (known.parent, known.data_end, known.found_xattrs.0, known.entries) {
                    (0, 0, 0, 0) => format!("inode {ino} does not exist, though an attribute names it"),
                    (0, ..) => format!("inode {ino} does not exist, though it has data or entries"),
                    (dir, ..) => format!("inode {ino} does not exist, though directory {dir} names it"),
                };
                wrong.push((Severity::Error, node, what));
                continue;
            }
            let is_dir = known.item == Some(ItemType::Dir);
            let expected = match (is_dir, ino) {
                (true, _) => known.subdirs + 2,
                (false, _) => names,
            };
            if ino == ROOT_INO && !is_dir {
                wrong.push((Severity::Error, node, "the root is no directory".to_owned()));
            }
            if names == 0 && ino != ROOT_INO {
                let what = format!("inode {ino} has no name, and {nlink} links");
                // An orphan that was open when the file system was mounted; or an attribute that was changed while its
                // host was one, which Linux leaves.
                let is_left = nlink == 0 || known.is_attribute;
                let severity = if is_left { Severity::Warning } else { Severity::Error };
                wrong.push((severity, node, what));
            } else if nlink != expected {
                wrong.push((Severity::Error, node, format!("inode {ino} has {nlink} links, expected {expected}")));
            }
            if let (Some(found), Some(named)) = (known.item, known.named)
                && found != named
            {
                wrong.push((Severity::Error, node, format!("inode {ino} is a {found:?}, its entry names a {named:?}")));
            }
            if is_dir && names > 1 || ino == ROOT_INO && names > 0 {
                wrong.push((Severity::Error, node, format!("directory {ino} has {names} names")));
            }
            let bytes = known.entries + InodeNode::BYTES as u64;
            if is_dir && size != bytes {
                wrong.push((Severity::Error, node, format!("directory {ino} has size {size}, expected {bytes}")));
            }
            if !is_dir && known.entries > 0 {
                wrong.push((Severity::Error, node, format!("inode {ino} is no directory, and has entries")));
            }
            if known.data_end > 0 && known.item != Some(ItemType::File) {
                wrong.push((Severity::Error, node, format!("inode {ino} is no file, and has data")));
            } else if known.data_end > size {
                let end = known.data_end;
                let what = format!("file {ino} has {size} bytes, and data up to byte {end}");
                // The rest of the last block is not cut off by Linux.
                let is_tail = end <= size.next_multiple_of(BLOCK_BYTES.into());
                wrong.push((if is_tail { Severity::Note } else { Severity::Error }, node, what));
            }
        }
        wrong.into_iter().for_each(|(severity, place, what)| self.report.find(severity, Class::Files, place, what));
        if self.known.get(&ROOT_INO).is_none_or(|known| known.node.is_none()) {
            self.error(None, format!("there is no root directory, {:?}", Key::inode(ROOT_INO)));
        }
    }

    /// Directories that no path from the root leads to.
    fn reachable(&mut self) {
        let is_dir = |known: &Known| known.node.is_some() && known.item == Some(ItemType::Dir);
        let parents: BTreeMap<u32, u32> =
            self.known.iter().filter(|(_, known)| is_dir(known)).map(|(&ino, known)| (ino, known.parent)).collect();
        let mut reached: BTreeMap<u32, bool> = BTreeMap::from([(ROOT_INO, true)]);
        for &ino in parents.keys() {
            let mut path = Vec::new();
            let (mut at, mut steps) = (ino, 0);
            let found = loop {
                if let Some(&known) = reached.get(&at) {
                    break known;
                }
                path.push(at);
                steps += 1;
                match parents.get(&at) {
                    Some(&parent) if parent != 0 && steps <= parents.len() => at = parent,
                    _ => break false,
                }
            };
            path.into_iter().for_each(|dir| {
                reached.insert(dir, found);
            });
        }
        let lost: Vec<u32> = parents.keys().copied().filter(|ino| !reached[ino]).collect();
        for ino in lost {
            let place = self.known[&ino].node;
            self.error(place, format!("no path from the root leads to directory {ino}"));
        }
    }
}
