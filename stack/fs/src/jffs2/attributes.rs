//! Attributes of inodes.
//! Source: Linux 6.12, `jffs2_do_setattr`.

use sim::Cx;
use sim::seam::{Attr, DeviceNumber, FileType, Flash, FsError, Ino, InodeFlags, SetAttr, Timestamp};

use super::Jffs2;
use super::error::Result;
use super::files::MOST_BYTES;
use super::inode::Inode;
use super::media::{self, InodeNode, compression};
use super::space::{Purpose, Wanted};

impl<F: Flash> Jffs2<F> {
    pub(super) fn attr(&self, inode: &Inode) -> Attr {
        let time = |seconds: u32| Timestamp { seconds: seconds.into(), nanos: 0 };
        let device = match inode.file_type.is_device() {
            true => media::device(self.device.endian(), &inode.data).unwrap_or_default(),
            false => (0, 0),
        };
        Attr {
            ino: Ino(inode.ino.into()),
            file_type: inode.file_type,
            mode: inode.mode,
            uid: inode.uid.into(),
            gid: inode.gid.into(),
            nlink: inode.links,
            size: inode.size.into(),
            device: DeviceNumber { major: device.0, minor: device.1 },
            flags: InodeFlags::default(),
            atime: time(inode.atime),
            mtime: time(inode.mtime),
            ctime: time(inode.ctime),
        }
    }

    /// Attributes of an inode by its number.
    pub(super) fn attr_of(&mut self, cx: &mut Cx, ino: u32) -> Result<Attr> {
        self.load(cx, ino)?;
        Ok(self.attr(&self.inodes[ino]))
    }

    /// As the seam's.
    pub(super) fn set_attributes(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<u32> {
        self.may_write()?;
        let inode = self.get(cx, ino)?;
        let (number, size) = (inode.ino, inode.size);
        if let Some(bytes) = change.size {
            match inode.file_type {
                FileType::Regular if bytes > MOST_BYTES => return Err(FsError::FileTooBig { ino, bytes }.into()),
                FileType::Regular => {}
                FileType::Directory => return Err(FsError::IsDir { ino }.into()),
                _ => return Err(FsError::Invalid { why: "the size of what is no regular file" }.into()),
            }
        }
        let data = match inode.file_type {
            FileType::Symlink | FileType::BlockDevice | FileType::CharDevice => inode.data.clone(),
            _ => Vec::new(),
        };
        let new_size = change.size.map(|bytes| bytes as u32);
        let purpose = if new_size == Some(0) { Purpose::Deletion } else { Purpose::Write };
        self.reserve(cx, Wanted::inode(InodeNode::BYTES + data.len()), purpose)?;
        let now = self.now(cx);
        let inode = self.load(cx, number)?;
        let seconds = |time: Timestamp| u32::try_from(time.seconds).unwrap_or(u32::MAX);
        inode.version += 1;
        let len = data.len() as u32;
        let mut node = InodeNode {
            version: inode.version,
            mode: inode.file_type.mode_bits() | change.mode.unwrap_or(inode.mode) & 0o7777,
            uid: change.uid.map_or(inode.uid, |uid| uid as u16),
            gid: change.gid.map_or(inode.gid, |gid| gid as u16),
            size: new_size.unwrap_or(inode.size),
            atime: change.atime.map_or(inode.atime, seconds),
            mtime: change.mtime.map(seconds).or(new_size.map(|_| now)).unwrap_or(inode.mtime),
            ctime: now,
            packed: len,
            unpacked: len,
            ..inode.describe()
        };
        let grows = new_size.filter(|&bytes| bytes > size);
        if let Some(bytes) = grows {
            (node.compression, node.offset, node.unpacked) = (compression::ZERO, size, bytes - size);
        }
        let id = self.put_inode(cx, &node, &data, false)?;
        let inode = self.inode(number);
        inode.mode = node.mode & 0o7777;
        (inode.uid, inode.gid, inode.atime, inode.mtime, inode.ctime) =
            (node.uid, node.gid, node.atime, node.mtime, node.ctime);
        if let Some(bytes) = grows {
            inode.size = bytes;
            self.insert_data(cx, number, id, &node)?;
            return Ok(number);
        }
        let old = inode.metadata.replace(id);
        if let Some(bytes) = new_size.filter(|&bytes| bytes < size) {
            inode.size = bytes;
            self.pages.cut(number, bytes);
            let inode = self.inodes.get_mut(number).expect("it was loaded");
            for dropped in inode.truncate(&mut self.blocks, bytes) {
                self.obsolete(cx, dropped)?;
            }
        }
        old.map_or(Ok(()), |old| self.obsolete(cx, old))?;
        Ok(number)
    }
}
