//! Extended attributes: a node with name and value, which inodes may share, and a node for each inode that has it.
//! Source: Linux 6.12, `fs/jffs2/xattr.c`.

use std::collections::BTreeMap;

use sim::Cx;
use sim::seam::{Flash, FsError, Ino, SetXattr};

use super::Jffs2;
use super::blocks::{Node, NodeState, Owner};
use super::damage::Lost;
use super::error::Result;
use super::media::{Entry, XattrNode, XrefNode, acl, crc, padded};
use super::space::{Purpose, Wanted};

/// Prefixes of names that can be set, with their numbers.
const PREFIXES: [(&[u8], u8); 3] = [(b"user.", 1), (b"security.", 2), (b"trusted.", 5)];
/// Names of the access control lists, whose values Linux has in a format of their own.
const ACLS: [(&[u8], u8); 2] = [(b"system.posix_acl_access", 3), (b"system.posix_acl_default", 4)];
/// Bit of a sequence number: the inode no longer has the attribute.
const DELETED: u32 = 1;
/// Most bytes of a value: Linux's VFS has no longer ones.
pub(super) const MOST_VALUE: usize = 65_536;

/// Name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    prefix: u8,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// An attribute.
#[derive(Clone, Debug, Default)]
struct Datum {
    version: u32,
    /// The newest of its nodes.
    current: u32,
    nodes: Vec<u32>,
    /// Inodes that have it.
    uses: u32,
    content: Option<Content>,
    is_damaged: bool,
}

/// That an inode has an attribute.
#[derive(Clone, Debug, Default)]
struct Ref {
    seqno: u32,
    current: u32,
    nodes: Vec<u32>,
    /// The newest node says that the attribute is gone.
    is_marked: bool,
}

impl Ref {
    fn is_deleted(&self) -> bool {
        self.seqno & DELETED != 0
    }
}

/// Every extended attribute.
#[derive(Clone, Debug, Default)]
pub(super) struct Xattrs {
    data: BTreeMap<u32, Datum>,
    /// By inode and attribute.
    refs: BTreeMap<(u32, u32), Ref>,
    highest_xid: u32,
    highest_seqno: u32,
}

impl Xattrs {
    /// A node that a mount found.
    pub fn add_datum(&mut self, xid: u32, version: u32, id: u32) {
        self.highest_xid = self.highest_xid.max(xid);
        let datum = self.data.entry(xid).or_default();
        if datum.nodes.is_empty() || version >= datum.version {
            (datum.version, datum.current) = (version, id);
        }
        datum.nodes.push(id);
    }

    /// A node that a mount found.
    pub fn add_ref(&mut self, node: &XrefNode, id: u32) {
        self.highest_seqno = self.highest_seqno.max(node.seqno & !DELETED);
        let one = self.refs.entry((node.ino, node.xid)).or_default();
        if one.nodes.is_empty() || node.seqno > one.seqno {
            (one.seqno, one.current, one.is_marked) = (node.seqno, id, node.seqno & DELETED != 0);
        }
        one.nodes.push(id);
    }

    /// A node is on flash that does not count.
    pub fn note_datum(&mut self, xid: u32, id: u32) {
        if let Some(datum) = self.data.get_mut(&xid) {
            datum.nodes.push(id);
        }
    }

    /// A node is on flash that does not count.
    pub fn note_ref(&mut self, ino: u32, xid: u32, id: u32) {
        let first = || Ref { seqno: DELETED, current: id, ..Ref::default() };
        self.refs.entry((ino, xid)).or_insert_with(first).nodes.push(id);
    }

    /// All nodes were found. What no inode has goes.
    pub fn build(&mut self, is_there: impl Fn(u32) -> bool) {
        for (&(ino, xid), one) in &mut self.refs {
            match self.data.get_mut(&xid) {
                Some(datum) if !one.is_deleted() && is_there(ino) => datum.uses += 1,
                _ => one.seqno |= DELETED,
            }
        }
    }

    /// A node is no longer on flash.
    pub fn forget_datum(&mut self, xid: u32, id: u32) {
        if let Some(datum) = self.data.get_mut(&xid) {
            datum.nodes.retain(|&other| other != id);
            if datum.nodes.is_empty() && datum.uses == 0 {
                self.data.remove(&xid);
            }
        }
    }

    /// A node is no longer on flash.
    pub fn forget_ref(&mut self, ino: u32, xid: u32, id: u32) {
        if let Some(one) = self.refs.get_mut(&(ino, xid)) {
            one.nodes.retain(|&other| other != id);
            if one.nodes.is_empty() {
                self.refs.remove(&(ino, xid));
            }
        }
    }

    /// Whether a node is the newest of an attribute that an inode has.
    pub fn is_current_datum(&self, xid: u32, id: u32) -> bool {
        self.data.get(&xid).is_some_and(|datum| datum.current == id && datum.uses > 0 && !datum.is_damaged)
    }

    /// Whether a node must be kept: the newest, unless it says that an attribute is gone and no older one is on flash.
    pub fn needs_ref(&self, key: (u32, u32), id: u32) -> bool {
        self.refs.get(&key).is_some_and(|one| one.current == id && !(one.is_deleted() && one.nodes.len() == 1))
    }

    /// Bytes of name, zero byte and value of an attribute that is in memory.
    pub fn content_len(&self, xid: u32) -> usize {
        let content = self.data.get(&xid).and_then(|datum| datum.content.as_ref());
        content.map_or(0, |content| content.name.len() + 1 + content.value.len())
    }

    /// Inodes and attributes of which a node says that the inode has it, and there is no node of the attribute.
    pub fn dangling(&self) -> Vec<(u32, u32, u32)> {
        let is_one = |(key, one): &(&(u32, u32), &Ref)| !one.is_marked && !self.data.contains_key(&key.1);
        self.refs.iter().filter(is_one).map(|(&(ino, xid), one)| (ino, xid, one.current)).collect()
    }

    /// Attributes that an inode has.
    pub fn used(&self) -> Vec<u32> {
        self.data.iter().filter(|(_, datum)| datum.uses > 0).map(|(&xid, _)| xid).collect()
    }

    /// Damaged attributes that the nodes of an inode name.
    pub fn damaged_of(&self, ino: u32) -> Vec<u32> {
        let all = self.refs.range((ino, 0)..=(ino, u32::MAX)).filter(|(_, one)| !one.is_marked);
        let is_damaged = |xid: &u32| self.data.get(xid).is_some_and(|datum| datum.is_damaged);
        all.map(|(&(_, xid), _)| xid).filter(is_damaged).collect()
    }

    /// Attributes of an inode.
    fn of(&self, ino: u32) -> impl Iterator<Item = (u32, &Ref)> {
        let all = self.refs.range((ino, 0)..=(ino, u32::MAX));
        all.filter(|(_, one)| !one.is_deleted()).map(|(&(_, xid), one)| (xid, one))
    }

    /// An inode no longer has an attribute; nothing is written.
    fn drop_ref(&mut self, ino: u32, xid: u32) {
        if let Some(one) = self.refs.get_mut(&(ino, xid)).filter(|one| !one.is_deleted()) {
            one.seqno |= DELETED;
            self.unuse(xid);
        }
    }

    fn unuse(&mut self, xid: u32) {
        if let Some(datum) = self.data.get_mut(&xid) {
            datum.uses -= 1;
            if datum.uses == 0 {
                datum.content = None;
            }
        }
    }
}

/// Number of the prefix and the rest of a name.
fn split(name: &[u8]) -> Result<(u8, &[u8])> {
    let known = PREFIXES.into_iter().find_map(|(prefix, number)| Some((number, name.strip_prefix(prefix)?)));
    match known {
        Some((_, [])) => Err(FsError::Invalid { why: "a prefix without a name" }.into()),
        Some(found) => Ok(found),
        None => Err(FsError::NotSupported { what: "an extended attribute with this prefix" }.into()),
    }
}

/// Number of the prefix and the rest of a name, and whether the value is an access control list. `None`: JFFS2 has no
/// attribute of this name.
pub(super) fn number_of(name: &[u8]) -> Option<(u8, &[u8], bool)> {
    let acl = ACLS.into_iter().find(|(whole, _)| *whole == name);
    acl.map(|(_, number)| (number, &b""[..], true))
        .or_else(|| split(name).ok().map(|(number, rest)| (number, rest, false)))
}

/// A name with its prefix.
fn joined(prefix: u8, name: &[u8]) -> Vec<u8> {
    if let Some((whole, _)) = ACLS.into_iter().find(|(_, number)| *number == prefix) {
        return whole.to_vec();
    }
    let prefix = PREFIXES.into_iter().find(|(_, number)| *number == prefix).map_or(&b""[..], |(prefix, _)| prefix);
    [prefix, name].concat()
}

impl<F: Flash> Jffs2<F> {
    /// Reads an attribute, if it is not in memory: by the newest of its nodes that is whole. A copy that garbage collection
    /// was writing when power failed is not; Linux believes it, and loses the attribute. False: none is whole.
    pub(super) fn load_datum(&mut self, cx: &mut Cx, xid: u32) -> Result<bool> {
        loop {
            let Some(datum) = self.xattrs.data.get(&xid) else { return Ok(false) };
            if datum.content.is_some() || datum.is_damaged {
                return Ok(!datum.is_damaged);
            }
            let mut newest: Option<(u32, u32, Option<Content>)> = None;
            for id in datum.nodes.clone() {
                if self.blocks.node(id).state == NodeState::Obsolete {
                    continue;
                }
                let (version, content) = self.read_datum(cx, xid, id)?.unwrap_or((0, None));
                if newest.as_ref().is_none_or(|(_, other, _)| version >= *other) {
                    newest = Some((id, version, content));
                }
            }
            let datum = self.xattrs.data.get_mut(&xid).expect("it was there");
            match newest {
                Some((id, version, content @ Some(_))) => {
                    (datum.current, datum.version, datum.content) = (id, version, content);
                }
                Some((id, _, None)) => {
                    self.counters.damaged += 1;
                    self.note_lost(id, None, Lost::Xattr(xid), &[]);
                    self.obsolete(cx, id)?;
                }
                None => datum.is_damaged = true,
            }
        }
    }

    /// A node of an attribute: its version, and what it says if it is whole. `None`: it is none of this attribute.
    fn read_datum(&mut self, cx: &mut Cx, xid: u32, id: u32) -> Result<Option<(u32, Option<Content>)>> {
        let endian = self.device.endian();
        let Node { block, offset, len, .. } = *self.blocks.node(id);
        let mut bytes = vec![0; len as usize];
        self.device.read(cx, block, offset, &mut bytes)?;
        self.spend(cx, 1, u64::from(len));
        let node = bytes.get(..XattrNode::BYTES).and_then(|head| XattrNode::read(endian, head));
        Ok(node.filter(|node| node.xid == xid).map(|node| {
            let data = bytes.get(XattrNode::BYTES..XattrNode::BYTES + node.data_len());
            let content = data.filter(|data| crc(data) == node.data_crc).map(|data| {
                let (name, value) = data.split_at(node.name_len.into());
                Content { prefix: node.prefix, name: name.to_vec(), value: value[1..].to_vec() }
            });
            (node.version, content)
        }))
    }

    /// Checks every attribute that was not since the mount.
    pub(super) fn verify_xattrs(&mut self, cx: &mut Cx) -> Result<()> {
        let is_unchecked = |id: &u32| self.blocks.node(*id).state == NodeState::Unchecked;
        let some = |(xid, datum): (&u32, &Datum)| datum.nodes.iter().any(is_unchecked).then_some(*xid);
        let xids: Vec<u32> = self.xattrs.data.iter().filter_map(some).collect();
        for xid in xids {
            self.load_datum(cx, xid)?;
            let datum = &self.xattrs.data[&xid];
            for id in datum.nodes.clone() {
                if self.blocks.node(id).state == NodeState::Unchecked {
                    let state = if datum.current == id { NodeState::Pristine } else { NodeState::Normal };
                    self.blocks.set(id, state);
                }
            }
        }
        Ok(())
    }

    /// Writes the node of an attribute, for which room was reserved.
    pub(super) fn save_datum(&mut self, cx: &mut Cx, xid: u32, collects: bool) -> Result<()> {
        let datum = self.xattrs.data.get_mut(&xid).expect("it is in memory");
        datum.version += 1;
        let Content { prefix, name, value } = datum.content.as_ref().expect("it is in memory");
        let node = XattrNode { xid, version: datum.version, prefix: *prefix, ..XattrNode::default() };
        let mut bytes = Vec::new();
        node.write(self.device.endian(), name, value, &mut bytes);
        let len = padded(bytes.len() as u32);
        let owner = (NodeState::Pristine, Owner::Xattr(xid));
        let ino = (!collects).then_some(0);
        let id = self.put_node(cx, &bytes, owner, |offset| Some(Entry::xattr(&node, offset, len)), ino)?;
        let datum = self.xattrs.data.get_mut(&xid).expect("it is in memory");
        datum.current = id;
        datum.nodes.push(id);
        Ok(())
    }

    /// Writes the node that says that an inode has an attribute, or no longer has it. Room was reserved for it. Garbage
    /// collection does not make it newer than another of the inode, which may be a newer value of the same name. Linux does, and
    /// the older value is there again.
    pub(super) fn save_ref(&mut self, cx: &mut Cx, (ino, xid): (u32, u32), collects: bool) -> Result<()> {
        let before = self.xattrs.refs.get(&(ino, xid)).map_or(0, |one| one.seqno);
        let deleted = before & DELETED;
        let seqno = if collects {
            before
        } else {
            self.xattrs.highest_seqno += 2;
            self.xattrs.highest_seqno | deleted
        };
        let mut bytes = Vec::new();
        XrefNode { ino, xid, seqno }.write(self.device.endian(), &mut bytes);
        let owner = (NodeState::Pristine, Owner::Xref(ino, xid));
        let waiting = (!collects).then_some(ino);
        let id = self.put_node(cx, &bytes, owner, |offset| Some(Entry::Xref { offset }), waiting)?;
        let one = self.xattrs.refs.entry((ino, xid)).or_default();
        (one.seqno, one.current, one.is_marked) = (seqno, id, deleted != 0);
        one.nodes.push(id);
        Ok(())
    }

    /// The attributes of an inode: number, and name with its prefix. Of two with one name the newer stays.
    fn xattrs_of(&mut self, cx: &mut Cx, ino: u32) -> Result<Vec<(u32, Vec<u8>)>> {
        let refs: Vec<(u32, u32)> = self.xattrs.of(ino).map(|(xid, one)| (xid, one.seqno)).collect();
        let mut found: Vec<(u32, u32, Vec<u8>)> = Vec::new();
        for (xid, seqno) in refs {
            if !self.load_datum(cx, xid)? {
                self.xattrs.drop_ref(ino, xid);
                continue;
            }
            let Content { prefix, name, .. } = self.xattrs.data[&xid].content.as_ref().expect("it was loaded");
            let name = joined(*prefix, name);
            match found.iter().position(|(_, _, other)| *other == name) {
                Some(at) if found[at].1 > seqno => self.xattrs.drop_ref(ino, xid),
                Some(at) => {
                    self.xattrs.drop_ref(ino, found[at].0);
                    found[at] = (xid, seqno, name);
                }
                None => found.push((xid, seqno, name)),
            }
        }
        Ok(found.into_iter().map(|(xid, _, name)| (xid, name)).collect())
    }

    fn find_xattr(&mut self, cx: &mut Cx, ino: u32, name: &[u8]) -> Result<Option<u32>> {
        Ok(self.xattrs_of(cx, ino)?.into_iter().find(|(_, other)| other == name).map(|(xid, _)| xid))
    }

    /// As the seam's.
    pub(super) fn xattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let number = self.get(cx, ino)?.ino;
        if !ACLS.iter().any(|(acl, _)| *acl == name) {
            check_name(name)?;
            split(name)?;
        }
        let xid = self.find_xattr(cx, number, name)?.ok_or(FsError::NoAttr { ino })?;
        let content = self.xattrs.data[&xid].content.as_ref().expect("it was loaded");
        // Linux gives access control lists in the format of its attributes.
        let is_acl = ACLS.iter().any(|(_, number)| *number == content.prefix);
        match is_acl {
            true => {
                Ok(acl(self.device.endian(), &content.value)
                    .ok_or(FsError::Invalid { why: "an access control list" })?)
            }
            false => Ok(content.value.clone()),
        }
    }

    /// As the seam's.
    pub(super) fn list_xattrs(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let number = self.get(cx, ino)?.ino;
        Ok(self.xattrs_of(cx, number)?.into_iter().map(|(_, name)| name).collect())
    }

    /// As the seam's. The new value is written, then that the inode has it; the old one counts until then.
    pub(super) fn set_xattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.may_write()?;
        let number = self.get(cx, ino)?.ino;
        check_name(name)?;
        let (prefix, short) = split(name)?;
        let bytes = XattrNode::BYTES + short.len() + 1 + value.len();
        let most = (self.blocks.block_bytes - self.device.marker_bytes()) as usize;
        if value.len() >= MOST_VALUE || padded(bytes as u32) as usize > most {
            return Err(FsError::Range { bytes: value.len() }.into());
        }
        // As in Linux, before it is known whether anything is written.
        self.reserve(cx, Wanted::xattr(bytes), Purpose::Write)?;
        let old = self.find_xattr(cx, number, name)?;
        match (how, old) {
            (SetXattr::Create, Some(_)) => return Err(FsError::Exists { ino }.into()),
            (SetXattr::Replace, None) => return Err(FsError::NoAttr { ino }.into()),
            _ => {}
        }
        let content = Content { prefix, name: short.to_vec(), value: value.to_vec() };
        let same = |datum: &Datum| datum.uses > 0 && datum.content.as_ref() == Some(&content);
        // Inodes share what is equal. The same value once more: Linux writes anew that the inode has it.
        let xid = match self.xattrs.data.iter().find(|(_, datum)| same(datum)).map(|(&xid, _)| xid) {
            Some(xid) => {
                self.xattrs.data.get_mut(&xid).expect("it is there").uses += 1;
                xid
            }
            None => {
                self.xattrs.highest_xid += 1;
                let xid = self.xattrs.highest_xid;
                self.xattrs.data.insert(xid, Datum { content: Some(content), uses: 1, ..Datum::default() });
                if let Err(error) = self.save_datum(cx, xid, false) {
                    self.xattrs.data.remove(&xid);
                    return Err(error);
                }
                xid
            }
        };
        let saved = self.reserve(cx, Wanted::xref(), Purpose::Write).map(drop);
        if let Err(error) = saved {
            self.xattrs.unuse(xid);
            return Err(error);
        }
        if let Some(one) = self.xattrs.refs.get_mut(&(number, xid)) {
            if !one.is_deleted() {
                self.xattrs.data.get_mut(&xid).expect("it is there").uses -= 1;
            }
            one.seqno &= !DELETED;
        }
        let before = self.xattrs.refs.get(&(number, xid)).map(|one| one.current);
        self.save_ref(cx, (number, xid), false)?;
        if let Some(before) = before {
            self.obsolete(cx, before)?;
        }
        if let Some(old) = old.filter(|&old| old != xid) {
            self.xattrs.drop_ref(number, old);
        }
        Ok(())
    }

    /// As the seam's. Linux writes that the inode no longer has the attribute. It writes no such node when a value is
    /// replaced, so that an older value would be there again after the next mount; here the older ones are marked too.
    pub(super) fn remove_xattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<()> {
        self.may_write()?;
        let number = self.get(cx, ino)?.ino;
        check_name(name)?;
        let (_, short) = split(name)?;
        // As in Linux: room for the node of an empty value, and the one that is written is smaller.
        let removal = Wanted::xattr(XattrNode::BYTES + short.len() + 1);
        self.reserve(cx, removal, Purpose::Write)?;
        let xid = self.find_xattr(cx, number, name)?.ok_or(FsError::NoAttr { ino })?;
        let is_old = |one: &Ref| one.is_deleted() && !one.is_marked;
        let all = self.xattrs.refs.range((number, 0)..=(number, u32::MAX));
        let old: Vec<(u32, u32)> = all.filter(|(_, one)| is_old(one)).map(|(&key, _)| key).collect();
        for key in old {
            if self.xattrs.refs.get(&key).is_some_and(is_old) {
                self.save_ref(cx, key, false)?;
            }
            self.reserve(cx, removal, Purpose::Write)?;
        }
        let before = self.xattrs.refs[&(number, xid)].seqno;
        self.xattrs.refs.get_mut(&(number, xid)).expect("it is there").seqno |= DELETED;
        if let Err(error) = self.save_ref(cx, (number, xid), false) {
            self.xattrs.refs.get_mut(&(number, xid)).expect("it is there").seqno = before;
            return Err(error);
        }
        self.xattrs.unuse(xid);
        Ok(())
    }

    /// An inode is deleted: no one needs what says that it has attributes.
    pub(super) fn delete_xattrs(&mut self, ino: u32) {
        let xids: Vec<u32> = self.xattrs.of(ino).map(|(xid, _)| xid).collect();
        xids.into_iter().for_each(|xid| self.xattrs.drop_ref(ino, xid));
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    match name.len() > sim::seam::NAME_MAX {
        true => Err(FsError::NameTooLong { bytes: name.len() }.into()),
        false => Ok(()),
    }
}
