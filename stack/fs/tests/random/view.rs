//! What a file system shows through the seam: names with the inodes behind them, and everything of an inode.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use fs::model::{MAX_FILE_BYTES, Model};
use sim::Cx;
use sim::seam::{Attr, FileSystem, FileType, FsError, Ino, NewInode, Payload, ReadInto, SetAttr, SetXattr, Timestamp};

use super::ops::{self, Names};

pub const BLOCK: u64 = 4096;

/// An inode.
#[derive(Clone, Debug)]
pub struct View {
    pub attr: Attr,
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Blocks of 4 KiB that are not all zero.
    pub blocks: BTreeMap<u64, Rc<[u8]>>,
}

impl View {
    pub fn of<F: FileSystem>(fs: &mut F, cx: &mut Cx, ino: Ino) -> Result<View, FsError> {
        let attr = fs.getattr(cx, ino)?;
        let target = if attr.file_type == FileType::Symlink { fs.readlink(cx, ino)? } else { Vec::new() };
        let mut xattrs = BTreeMap::new();
        for name in fs.listxattr(cx, ino)? {
            let value = fs.getxattr(cx, ino, &name)?;
            xattrs.insert(name, value);
        }
        let mut blocks = BTreeMap::new();
        if attr.file_type == FileType::Regular {
            let mut buffer = vec![0; attr.size as usize];
            let read = fs.read(cx, ino, 0, ReadInto::Bytes(&mut buffer))?;
            assert_eq!(u64::from(read), attr.size, "inode {ino} ends before its size");
            for (number, block) in (0..).zip(buffer.chunks_mut(BLOCK as usize)) {
                if block.iter().any(|&byte| byte != 0) {
                    let mut whole = block.to_vec();
                    whole.resize(BLOCK as usize, 0);
                    blocks.insert(number, Rc::from(whole));
                }
            }
        }
        Ok(View { attr, target, xattrs, blocks })
    }

    /// A block, zeroes beyond the end of the file.
    pub fn block(&self, number: u64) -> &[u8] {
        const ZEROES: [u8; BLOCK as usize] = [0; BLOCK as usize];
        self.blocks.get(&number).map_or(&ZEROES, |bytes| bytes)
    }
}

/// Everything that has a name.
#[derive(Clone, Debug)]
pub struct Everything {
    pub names: Names,
    pub inodes: BTreeMap<Ino, View>,
}

impl Everything {
    pub fn of<F: FileSystem>(fs: &mut F, cx: &mut Cx) -> Result<Everything, FsError> {
        let names = ops::names(fs, cx)?;
        let mut inodes = BTreeMap::new();
        for &ino in names.values() {
            if let Entry::Vacant(entry) = inodes.entry(ino) {
                entry.insert(View::of(fs, cx, ino)?);
            }
        }
        Ok(Everything { names, inodes })
    }

    /// A model that holds the same. No time of a last change lies before `epoch`.
    pub fn model(&self, epoch: Timestamp) -> Model {
        let mut model = Model::new(epoch);
        let mut cx = Cx::new();
        let mut made = BTreeMap::from([(self.names[&Vec::new()], model.root())]);
        for (path, ino) in self.names.iter().skip(1) {
            let slash = path.iter().rposition(|&byte| byte == b'/').expect("below the root");
            let (dir, name) = (made[&self.names[&path[..slash]]], &path[slash + 1..]);
            let attr = self.inodes[ino].attr;
            let new = NewInode::of_root(0);
            let there = made.get(ino).map(|&first| model.link(&mut cx, first, dir, name));
            let there = there.unwrap_or_else(|| match attr.file_type {
                FileType::Directory => model.mkdir(&mut cx, dir, name, new),
                FileType::Symlink => model.symlink(&mut cx, dir, name, &self.inodes[ino].target, new),
                other => model.mknod(&mut cx, dir, name, new, other, attr.device),
            });
            made.insert(*ino, there.expect("the name is free").ino);
        }
        for (ino, &copy) in &made {
            assume(&mut model, copy, &self.inodes[ino], epoch);
        }
        model.check();
        model
    }
}

/// Lets an inode of the model be as `view`, but for its names.
pub fn assume(model: &mut Model, ino: Ino, view: &View, epoch: Timestamp) {
    let mut cx = Cx::new();
    for name in model.listxattr(&mut cx, ino).expect("it exists") {
        model.removexattr(&mut cx, ino, &name).expect("it is listed");
    }
    for (name, value) in &view.xattrs {
        model.setxattr(&mut cx, ino, name, value, SetXattr::Set).expect("it was set before");
    }
    if view.attr.file_type == FileType::Regular {
        model.setattr(&mut cx, ino, &SetAttr::size(0)).expect("a file");
        for (number, bytes) in &view.blocks {
            assert!(number * BLOCK < MAX_FILE_BYTES);
            model.write(&mut cx, ino, number * BLOCK, Payload::Bytes(bytes)).expect("a file");
        }
        model.setattr(&mut cx, ino, &SetAttr::size(view.attr.size)).expect("a file");
    }
    let Attr { mode, uid, gid, atime, mtime, ctime, flags, .. } = view.attr;
    let change = SetAttr {
        mode: Some(mode),
        uid: Some(uid),
        gid: Some(gid),
        size: None,
        atime: Some(atime),
        mtime: Some(mtime),
        flags: Some(flags),
    };
    // The last change is always now: a clock that shows when it was.
    let mut then = Cx::new();
    then.spend(since(epoch, ctime));
    model.setattr(&mut then, ino, &change).expect("it exists");
}

fn since(epoch: Timestamp, time: Timestamp) -> sim::Ns {
    let nanos = |time: Timestamp| u128::from(time.seconds) * 1_000_000_000 + u128::from(time.nanos);
    let span = nanos(time).checked_sub(nanos(epoch)).expect("after the epoch");
    sim::Ns(u64::try_from(span).expect("within the run"))
}
