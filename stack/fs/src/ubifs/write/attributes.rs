//! Extended attributes: an entry of the host, and an inode for the value.
//!
//! Source: Linux 6.12 `fs/ubifs/xattr.c` (behaviour).

use sim::Cx;
use sim::seam::{FsError, Ino, LebVolume, NewInode, SetXattr};

use super::budget::Request;
use super::names::{Making, entry_bytes};
use super::{Result, Ubifs};
use crate::ubifs::media::{
    DentNode, Group, InodeNode, ItemType, Key, KeyType, MAX_INLINE, MAX_NAME, aligned, inode_flags,
};
use crate::ubifs::nodes::BASE_HEAD;
use crate::ubifs::read::{DirEntry, read_entry};

/// Most bytes of names, each with a final zero.
const MAX_LIST: usize = 65_536;

type FsResult<T> = std::result::Result<T, FsError>;

/// Bytes that a value counts for in its host.
fn value_bytes(len: usize) -> u32 {
    aligned((InodeNode::BYTES + len + 1) as u32)
}

fn check_name(name: &[u8]) -> FsResult<()> {
    if name.len() > MAX_NAME {
        return Err(FsError::NameTooLong { bytes: name.len() });
    }
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    match prefixes.iter().find(|prefix| name.starts_with(prefix)) {
        None => Err(FsError::NotSupported { what: "an attribute of this prefix" }),
        Some(prefix) if prefix.len() == name.len() => Err(FsError::Invalid { why: "an attribute without a name" }),
        Some(_) => Ok(()),
    }
}

impl<V: LebVolume> Ubifs<V> {
    pub(super) fn xattr_entries(&mut self, cx: &mut Cx, ino: u32) -> Result<Vec<DirEntry>> {
        self.entries(cx, ino, KeyType::Xent)
    }

    fn xattr_key(&self, host: u32, name: &[u8]) -> Key {
        Key::xent(host, self.sb.key_hash.of(name))
    }

    /// The host, and the inode of the value, if there is one.
    fn find_xattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> FsResult<(u32, Option<u32>)> {
        let host = self.get(cx, ino)?;
        check_name(name)?;
        if self.inodes.at(host).xattr_cnt == 0 {
            return Ok((host, None));
        }
        let key = self.xattr_key(self.inodes.at(host).ino, name);
        let found = self.index.find_named(&mut self.nodes, cx, key, name, false)?;
        let entry = found.map(|(_, branch)| read_entry(&mut self.nodes, cx, &branch)).transpose()?;
        let value = entry.map(|entry| self.load(cx, entry.ino)).transpose()?;
        Ok((host, value))
    }

    pub(super) fn xattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        let (_, value) = self.find_xattr(cx, ino, name)?;
        Ok(self.inodes.at(value.ok_or(FsError::NoAttr { ino })?).data.clone())
    }

    pub(super) fn set_xattr(
        &mut self,
        cx: &mut Cx,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> FsResult<()> {
        let (host, old) = self.find_xattr(cx, ino, name)?;
        if value.len() > MAX_INLINE {
            return Err(FsError::Range { bytes: value.len() });
        }
        match (how, old) {
            (SetXattr::Create, Some(_)) => Err(FsError::Exists { ino }),
            (SetXattr::Replace, None) => Err(FsError::NoAttr { ino }),
            (_, Some(_)) if self.inodes.at(host).nlink == 0 => {
                // Each node of a host without a link deletes it in a replay, with all that it has then: a value that came
                // before it would be left.
                self.remove_xattr(cx, ino, name)?;
                self.change(|fs| {
                    fs.budget.is_under_way();
                    fs.create_xattr(cx, host, name, value)
                })
            }
            (_, Some(old)) => self.change(|fs| fs.change_xattr(cx, host, old, value)),
            (_, None) => {
                let inode = self.inodes.at(host);
                // Linux deletes an inode with all its attributes in half a LEB.
                let most = self.leb_bytes / 2 / InodeNode::BYTES as u32;
                let listed = inode.xattr_names + inode.xattr_cnt + name.len() as u32 + 1;
                if inode.xattr_cnt >= most || listed as usize > MAX_LIST {
                    return Err(FsError::NoSpace);
                }
                self.change(|fs| fs.create_xattr(cx, host, name, value))
            }
        }
    }

    fn create_xattr(&mut self, cx: &mut Cx, host: u32, name: &[u8], value: &[u8]) -> Result<()> {
        let request = Request {
            new_inode: true,
            new_inline: value.len() as u32,
            new_entry: true,
            changed_inodes: 1,
            changed_inline: self.inodes.at(host).data.len() as u32,
            ..Request::default()
        };
        self.reserve_budget(cx, &request)?;
        let entry = DentNode::bytes_of(name.len()).next_multiple_of(8);
        let inode = (InodeNode::BYTES + value.len()).next_multiple_of(8);
        let len = entry + inode + self.inodes.at(host).node_bytes();
        let making = Making { item: ItemType::File, data: value.to_vec(), size: value.len() as u64 };
        let made = self.new_inode(cx, host, NewInode::of_root(0o777), making);
        let done = made.and_then(|mut inode| {
            self.reserve(cx, BASE_HEAD, len)?;
            inode.flags |= inode_flags::XATTR;
            let slot = self.inodes.insert(inode);
            let now = self.now(cx);
            let inode = self.inodes.at_mut(host);
            inode.ctime = now;
            inode.xattr_cnt += 1;
            inode.xattr_size += entry_bytes(name) as u32 + value_bytes(value.len());
            inode.xattr_names += name.len() as u32;
            let key = self.xattr_key(self.inodes.at(host).ino, name);
            self.update(cx, key, name, slot, host, false)
        });
        self.release_budget(&request);
        done
    }

    fn change_xattr(&mut self, cx: &mut Cx, host: u32, slot: u32, value: &[u8]) -> Result<()> {
        let request = Request {
            changed_inodes: 2,
            changed_inline: aligned(value.len() as u32) + aligned(self.inodes.at(host).data.len() as u32),
            ..Request::default()
        };
        self.reserve_budget(cx, &request)?;
        let done = self.write_xattr(cx, host, slot, value);
        self.release_budget(&request);
        done
    }

    fn write_xattr(&mut self, cx: &mut Cx, host: u32, slot: u32, value: &[u8]) -> Result<()> {
        let value_len = InodeNode::BYTES + value.len();
        self.reserve(cx, BASE_HEAD, self.inodes.at(host).node_bytes().next_multiple_of(8) + value_len)?;
        let now = self.now(cx);
        let inode = self.inodes.at_mut(slot);
        let old = std::mem::replace(&mut inode.data, value.to_vec());
        inode.size = value.len() as u64;
        let inode = self.inodes.at_mut(host);
        inode.ctime = now;
        inode.xattr_size = inode.xattr_size + value_bytes(value.len()) - value_bytes(old.len());
        let (host_ino, is_sync) = (inode.ino, inode.is_dir_sync());
        let value_ino = self.inodes.at(slot).ino;
        self.begin();
        let (host_at, host_len) = self.put_inode(host, Group::In);
        let (value_at, value_len) = self.put_inode(slot, Group::Last);
        let place = self.append(cx, BASE_HEAD, &[host_ino, value_ino], is_sync)?;
        self.index.put(&mut self.nodes, cx, place.branch(Key::inode(host_ino), host_at, host_len))?;
        self.index.put(&mut self.nodes, cx, place.branch(Key::inode(value_ino), value_at, value_len))?;
        self.settle();
        self.inode_was_written(slot);
        self.inode_was_written(host);
        Ok(())
    }

    pub(super) fn remove_xattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> FsResult<()> {
        let (host, value) = self.find_xattr(cx, ino, name)?;
        let value = value.ok_or(FsError::NoAttr { ino })?;
        let request = Request {
            changed_entry: true,
            changed_inodes: 2,
            changed_inline: self.inodes.at(host).data.len() as u32,
            ..Request::default()
        };
        self.change(|fs| {
            fs.reserve_budget(cx, &request)?;
            let done = fs.write_removal(cx, host, value, name);
            fs.release_budget(&request);
            done
        })
    }

    fn write_removal(&mut self, cx: &mut Cx, host: u32, slot: u32, name: &[u8]) -> Result<()> {
        let entry_len = DentNode::bytes_of(name.len());
        let len = entry_len.next_multiple_of(8) + InodeNode::BYTES + self.inodes.at(host).node_bytes();
        self.reserve(cx, BASE_HEAD, len)?;
        let now = self.now(cx);
        let value_len = self.inodes.at(slot).data.len();
        let inode = self.inodes.at_mut(host);
        inode.ctime = now;
        inode.xattr_cnt -= 1;
        inode.xattr_size -= entry_bytes(name) as u32 + value_bytes(value_len);
        inode.xattr_names -= name.len() as u32;
        let (host_ino, is_sync) = (inode.ino, inode.is_dir_sync());
        self.inodes.at_mut(slot).nlink = 0;
        let value_ino = self.inodes.at(slot).ino;
        let key = self.xattr_key(host_ino, name);
        self.begin();
        self.put_entry(key, 0, ItemType::File, name, Group::In);
        self.put_inode(slot, Group::In);
        let (host_at, host_len) = self.put_inode(host, Group::Last);
        let place = self.append(cx, BASE_HEAD, &[host_ino], is_sync)?;
        self.index.remove_named(&mut self.nodes, cx, key, name, false)?;
        self.index.remove_inode(&mut self.nodes, cx, value_ino, false, |_| {})?;
        self.index.put(&mut self.nodes, cx, place.branch(Key::inode(host_ino), host_at, host_len))?;
        self.settle();
        self.space.add_dirt(place.lnum, entry_len as u32);
        self.space.add_dirt(place.lnum, InodeNode::BYTES as u32);
        self.inodes.forget(slot);
        self.inode_was_written(host);
        Ok(())
    }
}
