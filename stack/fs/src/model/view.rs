//! What a file system shows through the seam: names with the inodes behind them, and everything of an inode.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use sim::Cx;
use sim::seam::{Attr, FileSystem, FileType, FsError, Ino, NewInode, ReadInto, SetAttr, SetXattr, Timestamp, is_zero};

use super::history::Leaves;
use super::{Body, Model};

/// Bytes of a block, by which contents are compared.
pub const BLOCK: u64 = 4096;

/// A block, shared by all who hold the same.
pub type Block = Arc<[u8; BLOCK as usize]>;

/// The inode behind each path from the root on, which is the empty path; others begin with `/`.
pub type Names = BTreeMap<Vec<u8>, Ino>;

/// Reads the names of a whole file system.
/// Errors: those of the file system.
pub fn names<F: FileSystem>(fs: &mut F, cx: &mut Cx) -> Result<Names, FsError> {
    let mut names = Names::from([(Vec::new(), fs.root())]);
    let mut directories = vec![(Vec::new(), fs.root())];
    while let Some((path, ino)) = directories.pop() {
        fs.readdir(cx, ino, 0, &mut |entry| {
            let below = [&path[..], b"/", entry.name].concat();
            if entry.file_type == FileType::Directory {
                directories.push((below.clone(), entry.ino));
            }
            names.insert(below, entry.ino);
            true
        })?;
    }
    Ok(names)
}

/// An inode.
#[derive(Clone, Debug)]
pub struct View {
    /// Its attributes.
    pub attr: Attr,
    /// Target of a symbolic link, empty of others.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Blocks that are not all zero.
    pub blocks: BTreeMap<u64, Block>,
}

/// Bytes of a file that are read at once.
const PIECE: usize = 16 * BLOCK as usize;

const ZEROES: [u8; BLOCK as usize] = [0; BLOCK as usize];

impl View {
    /// Reads an inode.
    /// Errors: those of the file system.
    pub fn of<F: FileSystem>(fs: &mut F, cx: &mut Cx, ino: Ino) -> Result<View, FsError> {
        View::read(fs, cx, ino, &mut Vec::new())
    }

    /// As [`of`](View::of), with room for the contents of a file.
    fn read<F: FileSystem>(fs: &mut F, cx: &mut Cx, ino: Ino, buffer: &mut Vec<u8>) -> Result<View, FsError> {
        let attr = fs.getattr(cx, ino)?;
        let target = if attr.file_type == FileType::Symlink { fs.readlink(cx, ino)? } else { Vec::new() };
        let mut xattrs = BTreeMap::new();
        for name in fs.listxattr(cx, ino)? {
            let value = fs.getxattr(cx, ino, &name)?;
            xattrs.insert(name, value);
        }
        let mut blocks = BTreeMap::new();
        if attr.file_type == FileType::Regular {
            for offset in (0..attr.size).step_by(PIECE) {
                let length = (attr.size - offset).min(PIECE as u64) as usize;
                buffer.resize(buffer.len().max(length), 0);
                let piece = &mut buffer[..length];
                let read = fs.read(cx, ino, offset, ReadInto::Bytes(piece))?;
                assert_eq!(read as usize, length, "inode {ino} ends before its size");
                for (number, block) in (offset / BLOCK..).zip(piece.chunks(BLOCK as usize)) {
                    if !is_zero(block) {
                        let mut whole = [0; BLOCK as usize];
                        whole[..block.len()].copy_from_slice(block);
                        blocks.insert(number, Arc::new(whole));
                    }
                }
            }
        }
        Ok(View { attr, target, xattrs, blocks })
    }

    /// An inode of the model, whose blocks are shared.
    /// Errors: there is no such inode.
    pub fn of_model(model: &Model, ino: Ino) -> Result<View, FsError> {
        let inode = model.inode(ino)?;
        let target = if let Body::Symlink(target) = &inode.body { target.clone() } else { Vec::new() };
        let blocks = match &inode.body {
            Body::Regular(contents) => contents.blocks().filter(|(_, block)| !is_zero(&block[..])).collect(),
            _ => BTreeMap::new(),
        };
        Ok(View { attr: inode.attr(ino), target, xattrs: inode.xattrs.clone(), blocks })
    }

    /// What another inode has otherwise, its number and its names left out.
    fn difference(&self, other: &View, leaves: Leaves) -> Option<String> {
        let own = |view: &View| {
            let has_size = matches!(view.attr.file_type, FileType::Regular | FileType::Symlink);
            let size = if has_size { view.attr.size } else { 0 };
            let [atime, mtime, ctime] = leaves.times(&view.attr);
            Attr { ino: Ino(0), size, atime, mtime, ctime, ..view.attr }
        };
        if own(self) != own(other) {
            return Some(format!("has attributes {:?}, and not {:?}", own(self), own(other)));
        }
        if self.target != other.target {
            return Some(format!(
                "leads to {}, and not to {}",
                self.target.escape_ascii(),
                other.target.escape_ascii()
            ));
        }
        if self.xattrs != other.xattrs {
            return Some("has other extended attributes".to_owned());
        }
        let mut blocks = self.blocks.keys().chain(other.blocks.keys());
        let differs = |block: &&u64| self.block(**block) != other.block(**block);
        blocks.find(differs).map(|block| format!("has other contents in block {block}"))
    }

    /// A block, zeroes beyond the end of the file.
    pub fn block(&self, number: u64) -> &[u8; BLOCK as usize] {
        self.blocks.get(&number).map_or(&ZEROES, |block| block)
    }
}

/// Everything that has a name.
#[derive(Clone, Debug)]
pub struct Everything {
    /// Names.
    pub names: Names,
    /// The inodes that have one.
    pub inodes: BTreeMap<Ino, View>,
}

impl Everything {
    /// Reads a whole file system.
    /// Errors: those of the file system.
    pub fn of<F: FileSystem>(fs: &mut F, cx: &mut Cx) -> Result<Everything, FsError> {
        let names = names(fs, cx)?;
        let mut inodes = BTreeMap::new();
        let mut buffer = Vec::new();
        for &ino in names.values() {
            if let Entry::Vacant(entry) = inodes.entry(ino) {
                entry.insert(View::read(fs, cx, ino, &mut buffer)?);
            }
        }
        Ok(Everything { names, inodes })
    }

    /// The first path at which a model has another inode, attributes, extended attributes or contents; `None` if it holds
    /// the same. The number of an inode, and the size of what is neither a regular file nor a symbolic link, are each file
    /// system's own, and so are times that the file system need not keep.
    pub fn difference(&self, model: &mut Model, leaves: Leaves) -> Option<String> {
        let there = names(model, &mut Cx::new()).expect("a model");
        let paths = self.names.keys().chain(there.keys());
        let alone = paths.filter(|path| self.names.contains_key(*path) != there.contains_key(*path)).min();
        if let Some(path) = alone {
            let has = if there.contains_key(path) { "is missing" } else { "is too much" };
            return Some(format!("/{} {has}", path.escape_ascii()));
        }
        let mut same = BTreeMap::new();
        let mut back = BTreeMap::new();
        for (path, &ino) in &self.names {
            let ours = there[path];
            let differs = if *same.entry(ino).or_insert(ours) != ours || *back.entry(ours).or_insert(ino) != ino {
                Some("is not the inode that it was".to_owned())
            } else {
                self.inodes[&ino].difference(&View::of_model(model, ours).expect("it has a name"), leaves)
            };
            if let Some(differs) = differs {
                return Some(format!("/{} {differs}", path.escape_ascii()));
            }
        }
        None
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
        let (inode, _) = model.regular_mut(ino).expect("a file");
        let Body::Regular(contents) = &mut inode.body else { unreachable!("it is a file") };
        contents.assume(view.attr.size, &view.blocks);
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

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Rng;
    use sim::seam::Payload;

    /// What the model hands out directly is what its calls say, and a model made of it shows the same.
    #[test]
    fn an_inode_of_the_model_is_seen_as_through_its_calls() {
        let (mut model, mut cx) = (Model::new(Timestamp::default()), Cx::new());
        let (root, new) = (model.root(), NewInode::of_root(0o644));
        let mut rng: Rng = sim::Seed(1).stream("fs/view");
        let file = model.create(&mut cx, root, b"file", new).expect("a new name").ino;
        for number in 0..40 {
            let bytes = vec![(number % 3) as u8; rng.below(9_000) as usize];
            model.write(&mut cx, file, rng.below(60_000), Payload::Bytes(&bytes)).expect("a file");
        }
        model.setattr(&mut cx, file, &SetAttr::size(50_001)).expect("a file");
        model.setxattr(&mut cx, file, b"user.a", b"value", SetXattr::Set).expect("a file");
        model.symlink(&mut cx, root, b"link", b"there", new).expect("a new name");
        let found = Everything::of(&mut model, &mut cx).expect("a model");
        let same = |one: &View, other: &View| {
            (one.attr, &one.target, &one.xattrs, &one.blocks)
                == (other.attr, &other.target, &other.xattrs, &other.blocks)
        };
        assert_eq!(found.inodes.len(), 3);
        for (&ino, view) in &found.inodes {
            assert!(same(view, &View::of_model(&model, ino).expect("it has a name")), "inode {ino}");
        }
        let mut copy = found.model(Timestamp::default());
        let again = Everything::of(&mut copy, &mut cx).expect("a model");
        assert_eq!(again.names.keys().collect::<Vec<_>>(), found.names.keys().collect::<Vec<_>>());
        for (path, ino) in &again.names {
            let (copied, view) = (&again.inodes[ino], &found.inodes[&found.names[path]]);
            assert!(same(&View { attr: Attr { ino: view.attr.ino, ..copied.attr }, ..copied.clone() }, view));
        }
        let (file, link) = (&found.inodes[&found.names[&b"/file"[..]]], &found.inodes[&found.names[&b"/link"[..]]]);
        assert_eq!((file.attr.size, file.blocks.len() > 5, &link.target[..]), (50_001, true, &b"there"[..]));
    }
}
