//! What a file system may be after a power cut: a history of what it was, and what of it was made safe.
//!
//! The rules are those of UBIFS, whose journal writes names through one write buffer and data through another:
//!
//! - Names are those after some operation since the last `sync`, all of them: names are never of different times, so a
//!   rename is done or not. The number of names of an inode is what these names say. An `fsync` of a directory makes the
//!   names in it safe, and by that all that are older.
//! - The attributes of an inode (owner, mode, times, flags) are those of one moment since the last `sync`, or the last
//!   `fsync` of the inode if that is later. So are its extended attributes, of a moment of their own.
//! - Each block of 4 KiB of a file is as it was at some moment since then, each for itself. The size is one that the file
//!   had since then, or ends with a block that was written since then: the mount makes a file as long as its data.
//!
//! What is newer than the names may be there: an inode is as old as its attributes, its blocks and its size say.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use sim::Cx;
use sim::seam::{Attr, FileSystem, FileType, FsError, Ino, Timestamp};

use super::view::{BLOCK, Everything, Names, View, names};
use super::{Inode, Model};

/// What a file system may leave after a power cut beside what UBIFS may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaves {
    /// A block that was being written may be new up to some byte and old from there on, and a file may end at that byte: its
    /// nodes lie in two eraseblocks.
    pub torn_blocks: bool,
    /// Times.
    pub times: Times,
}

/// Times that a file system keeps over a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// All of them.
    #[default]
    All,
    /// The time of the last change of an inode, and of a directory that of its contents, may be older. A write leaves its own time as
    /// that of the last access of the file.
    MayBeOlder,
    /// None is promised: JFFS writes others than it shows, and none of directories.
    NonePromised,
}

impl Leaves {
    /// The times of the last access, of the last change of contents and of the inode, those that need not be kept zero.
    pub(super) fn times(self, attr: &Attr) -> [Timestamp; 3] {
        let lost = Timestamp::default();
        match (self.times, attr.file_type) {
            (Times::All, _) => [attr.atime, attr.mtime, attr.ctime],
            (Times::MayBeOlder, FileType::Directory) => [attr.atime, lost, lost],
            (Times::MayBeOlder, FileType::Regular) => [lost, attr.mtime, lost],
            (Times::MayBeOlder, _) => [attr.atime, attr.mtime, lost],
            (Times::NonePromised, _) => [lost; 3],
        }
    }
}

/// What must be so after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The names are those of one moment, and so are the links.
    Names,
    /// An inode is of the type that it was, and its attributes are of one moment.
    Attributes,
    /// The extended attributes are those of one moment.
    Xattrs,
    /// Size and blocks of a file are such as it had.
    Contents,
}

/// What is otherwise after a power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule that is broken, if the names are of the moment at which most is right.
    pub rule: Rule,
    /// What was found, for each moment of which the names may be.
    pub what: String,
}

/// An inode at a moment. Moments count operations.
#[derive(Clone, Debug)]
struct Version {
    at: usize,
    view: Arc<View>,
    /// Bytes that the operation wrote.
    wrote: Range<u64>,
}

#[derive(Clone, Debug, Default)]
struct Versions {
    versions: Vec<Version>,
    /// Moments of the last `fsync`: of everything, and of what is needed to read the contents.
    safe: usize,
    data_safe: usize,
}

impl Versions {
    /// Versions that may be there if everything until `safe` is.
    fn since(&self, safe: usize) -> &[Version] {
        let older = self.versions.partition_point(|version| version.at <= safe);
        &self.versions[older.saturating_sub(1)..]
    }
}

/// The names of a moment.
#[derive(Debug)]
struct Named {
    names: Names,
    /// Links of each inode that has a name: as many as it has names; of a directory two, and one for each directory in it.
    links: BTreeMap<Ino, u32>,
    /// How often names of the model had changed.
    changes: u64,
}

impl Named {
    fn of(names: Names, changes: u64, is_dir: impl Fn(Ino) -> bool) -> Named {
        let mut links = BTreeMap::new();
        for (path, &ino) in &names {
            if !is_dir(ino) {
                *links.entry(ino).or_default() += 1;
                continue;
            }
            links.insert(ino, 2);
            // A directory comes before what is in it.
            let above = path.iter().rposition(|&byte| byte == b'/').map(|slash| names[&path[..slash]]);
            *above.and_then(|above| links.get_mut(&above)).unwrap_or(&mut 0) += 1;
        }
        Named { names, links, changes }
    }
}

/// What was, from the last moment on at which everything was safe. Clones share what they have in common.
#[derive(Clone, Debug)]
pub struct History {
    now: usize,
    safe: usize,
    names: Vec<(usize, Arc<Named>)>,
    inodes: BTreeMap<Ino, Arc<Versions>>,
    leaves: Leaves,
    /// The next operation is a rename that a power cut may leave half done: both names are there.
    renames_in_two: bool,
}

impl History {
    /// Begins where everything that the model holds is safe.
    pub fn new(model: &mut Model, cx: &mut Cx) -> History {
        let mut history = History {
            now: 0,
            safe: 0,
            names: Vec::new(),
            inodes: BTreeMap::new(),
            leaves: Leaves::default(),
            renames_in_two: false,
        };
        history.record(model, cx, &[], 0..0);
        history
    }

    /// The same for a file system that may leave more.
    pub fn leaving(self, leaves: Leaves) -> History {
        History { leaves, ..self }
    }

    /// The operation that is recorded next is a rename that a power cut may leave half done: the new name is there, and the
    /// old one too.
    pub fn rename_in_two(&mut self) {
        self.renames_in_two = true;
    }

    /// Notes what the model holds after an operation, which wrote the bytes `wrote` of a file. `opened` are inodes that
    /// may have no name. It is always the same model, or both were cloned together.
    pub fn record(&mut self, model: &mut Model, cx: &mut Cx, opened: &[Ino], wrote: Range<u64>) {
        self.now += 1;
        let touched = std::mem::take(&mut model.touched);
        let in_two = std::mem::take(&mut self.renames_in_two);
        if self.names.last().is_some_and(|(_, last)| last.changes == model.name_changes) {
            for ino in touched {
                self.note(model, cx, ino, wrote.clone()).expect("a model");
            }
            return;
        }
        let names = names(model, cx).expect("a model");
        for &ino in names.values().chain(opened) {
            self.note(model, cx, ino, wrote.clone()).expect("a model");
        }
        if self.names.last().is_none_or(|(_, last)| last.names != names) {
            let is_dir = |ino| model.inode(ino).is_ok_and(Inode::is_dir);
            if let (true, Some((_, last))) = (in_two, self.names.last()) {
                let mut both = names.clone();
                for (path, ino) in &last.names {
                    both.entry(path.clone()).or_insert(*ino);
                }
                let named = Named::of(both, model.name_changes, is_dir);
                self.names.push((self.now, Arc::new(named)));
            }
            let named = Named::of(names, model.name_changes, is_dir);
            self.names.push((self.now, Arc::new(named)));
        }
    }

    /// The names of the last moment.
    pub fn names(&self) -> &Names {
        &self.names.last().expect("those of the beginning are the first").1.names
    }

    /// Whatever changes an inode sets its time of the last change, and each operation has a time of its own.
    fn note(&mut self, model: &mut Model, cx: &mut Cx, ino: Ino, wrote: Range<u64>) -> Result<(), FsError> {
        let attr = model.getattr(cx, ino)?;
        let inode: &mut Arc<Versions> = self.inodes.entry(ino).or_default();
        if inode.versions.last().is_none_or(|last| last.view.attr != attr) {
            let view = Arc::new(View::of_model(model, ino)?);
            Arc::make_mut(inode).versions.push(Version { at: self.now, view, wrote });
        }
        Ok(())
    }

    /// Everything is safe.
    pub fn sync(&mut self) {
        self.safe = self.now;
        self.names.drain(..self.names.len() - 1);
        // Of what has lost its last name nothing can be there any more.
        let named: BTreeSet<Ino> = self.names().values().copied().collect();
        self.inodes.retain(|ino, _| named.contains(ino));
        for inode in self.inodes.values_mut() {
            let older = inode.versions.len() - inode.since(self.now).len();
            if older > 0 {
                Arc::make_mut(inode).versions.drain(..older);
            }
        }
    }

    /// An inode is safe; of a directory the names in it too, and all that are older.
    pub fn fsync(&mut self, ino: Ino, data_only: bool) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            let inode = Arc::make_mut(inode);
            inode.data_safe = self.now;
            if !data_only {
                inode.safe = self.now;
            }
        }
        // Of what is no directory there are no entries.
        let differ = |pair: &[(usize, Arc<Named>)]| entries(&pair[0].1.names, ino) != entries(&pair[1].1.names, ino);
        let last = self.names.windows(2).rposition(differ);
        self.names.drain(..last.map_or(0, |before| before + 1));
    }

    /// Whether what was found after a power cut may be there.
    /// Errors: what may not.
    pub fn check(&self, found: &Everything) -> Result<(), Breach> {
        let may_be = |named: &Named| {
            let inodes = self.same_inodes(named, found);
            let is_same = |(ino, ours): &(Ino, Ino)| self.inode_differs(named, *ours, &found.inodes[ino]).is_none();
            inodes.is_some_and(|inodes| inodes.iter().all(is_same))
        };
        if self.names.iter().rev().any(|(_, named)| may_be(named)) { Ok(()) } else { Err(self.breach(found)) }
    }

    /// Each inode that was found, with that of these names. `None` if the names are others.
    fn same_inodes(&self, named: &Named, found: &Everything) -> Option<Vec<(Ino, Ino)>> {
        if !named.names.keys().eq(found.names.keys()) {
            return None;
        }
        let mut pairs: Vec<(Ino, Ino)> = found.names.values().copied().zip(named.names.values().copied()).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut ours: Vec<Ino> = pairs.iter().map(|pair| pair.1).collect();
        ours.sort_unstable();
        let is_one = pairs.windows(2).all(|two| two[0].0 != two[1].0) && ours.windows(2).all(|two| two[0] != two[1]);
        is_one.then_some(pairs)
    }

    /// What may not be there, for each moment of which the names may be.
    fn breach(&self, found: &Everything) -> Breach {
        let mut rule = Rule::Names;
        let mut why = String::new();
        for (at, named) in self.names.iter().rev() {
            let reason = self.names_differ(&named.names, found).unwrap_or_else(|| {
                let differ = found.names.iter().find_map(|(path, ino)| {
                    let differs = self.inode_differs(named, named.names[path], &found.inodes[ino]);
                    differs.map(|(rule, reason)| (rule, format!("{}: {reason}", shown(path))))
                });
                let (broken, reason) = differ.expect("names or an inode differ");
                if rule == Rule::Names {
                    rule = broken;
                }
                reason
            });
            why = format!("{why}\n  if the names are those after operation {at} of {}: {reason}", self.now);
        }
        let first =
            if rule == Rule::Names { "the names are as they never were" } else { "an inode is as it never was" };
        Breach { rule, what: format!("{first} since all was safe, after operation {}:{why}", self.safe) }
    }

    fn names_differ(&self, names: &Names, found: &Everything) -> Option<String> {
        if let Some(path) = names.keys().find(|path| !found.names.contains_key(*path)) {
            return Some(format!("{} is missing", shown(path)));
        }
        let mut same = BTreeMap::new();
        let mut back = BTreeMap::new();
        for (path, &ino) in &found.names {
            let Some(&ours) = names.get(path) else { return Some(format!("{} is too much", shown(path))) };
            if *same.entry(ino).or_insert(ours) != ours || *back.entry(ours).or_insert(ino) != ino {
                return Some(format!("{} is not the inode that it was", shown(path)));
            }
        }
        None
    }

    fn inode_differs(&self, named: &Named, ino: Ino, found: &View) -> Option<(Rule, String)> {
        let inode = &self.inodes[&ino];
        let attr = &found.attr;
        let one = &inode.versions[0].view;
        let attributes = |reason: String| Some((Rule::Attributes, reason));
        if (attr.file_type, attr.device, &found.target) != (one.attr.file_type, one.attr.device, &one.target) {
            return attributes(format!("{attr:?} -> {:?} was {:?} -> {:?}", found.target, one.attr, one.target));
        }
        let links = named.links[&ino];
        if attr.nlink != links {
            return Some((Rule::Names, format!("{} links, and {links} names", attr.nlink)));
        }
        let versions = inode.since(inode.safe.max(self.safe));
        let common = |view: &View| {
            let a = view.attr;
            (a.mode, a.uid, a.gid, a.flags, self.leaves.times(&a))
        };
        if !versions.iter().any(|version| common(&version.view) == common(found)) {
            let were: Vec<_> = versions.iter().map(|version| common(&version.view)).collect();
            return attributes(format!("attributes {:?}, which were {were:?}", common(found)));
        }
        if !versions.iter().any(|version| version.view.xattrs == found.xattrs) {
            let last = versions.last().map(|version| &version.view.xattrs);
            let is_other = |name: &&Vec<u8>| last.is_none_or(|last| last.get(*name) != found.xattrs.get(*name));
            let names = found.xattrs.keys().chain(last.into_iter().flatten().map(|(name, _)| name)).filter(is_other);
            let names: BTreeSet<String> = names.map(|name| name.escape_ascii().to_string()).collect();
            return Some((Rule::Xattrs, format!("extended attributes that it never had, among them {names:?}")));
        }
        match attr.file_type {
            FileType::Regular => {
                let reason = contents_differ(inode.since(inode.data_safe.max(self.safe)), found, self.leaves);
                reason.map(|reason| (Rule::Contents, reason))
            }
            FileType::Symlink if attr.size != one.attr.size => attributes(format!("a link of {} bytes", attr.size)),
            _ => None,
        }
    }
}

/// Names in a directory, none if it is not there.
fn entries(names: &Names, dir: Ino) -> BTreeMap<&[u8], Ino> {
    let Some((path, _)) = names.iter().find(|(_, other)| **other == dir) else { return BTreeMap::new() };
    let below = names.iter().filter_map(|(other, ino)| {
        let name = other.strip_prefix(&path[..])?.strip_prefix(b"/")?;
        Some((name, *ino))
    });
    below.filter(|(name, _)| !name.contains(&b'/')).collect()
}

fn shown(path: &[u8]) -> String {
    if path.is_empty() { "the root".to_owned() } else { path.escape_ascii().to_string() }
}

fn contents_differ(versions: &[Version], found: &View, leaves: Leaves) -> Option<String> {
    // The first version was there before: its data are no news.
    let ends = versions.iter().skip(1).flat_map(|version| {
        let (wrote, size) = (&version.wrote, version.view.attr.size);
        let blocks = wrote.start / BLOCK..wrote.end.div_ceil(BLOCK);
        blocks.map(move |block| ((block + 1) * BLOCK).min(size))
    });
    let size = found.attr.size;
    let sizes = |version: &Version| version.view.attr.size;
    let between = |two: &[Version]| (sizes(&two[0])..=sizes(&two[1])).contains(&size);
    let is_torn = leaves.torn_blocks && versions.windows(2).any(between);
    if !is_torn && !versions.iter().map(|version| version.view.attr.size).chain(ends).any(|end| end == size) {
        return Some(format!("{size} bytes, a size that it never had"));
    }
    // What no block holds is zero: so are the blocks that one version lacks, if it is not found either.
    let last = versions.last().into_iter().flat_map(|last| last.view.blocks.keys());
    let of_last = last.filter(|block| !found.blocks.contains_key(*block));
    for &block in found.blocks.keys().chain(of_last).filter(|block| **block < size.div_ceil(BLOCK)) {
        let length = (size - block * BLOCK).min(BLOCK) as usize;
        let there = found.block(block);
        let is_there = |version: &Version| {
            let then = version.view.block(block);
            std::ptr::eq(then, there) || then[..length] == there[..length]
        };
        let is_mixed = |two: &[Version]| {
            let (old, new) = (two[0].view.block(block), two[1].view.block(block));
            let new_until = there[..length].iter().zip(new).take_while(|(one, other)| one == other).count();
            there[new_until..length] == old[new_until..length]
        };
        let is_torn = || leaves.torn_blocks && versions.windows(2).rev().any(is_mixed);
        if !versions.iter().rev().any(is_there) && !is_torn() {
            return Some(format!("block {block} of {size} bytes has contents that it never had"));
        }
    }
    None
}
