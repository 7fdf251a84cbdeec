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

use std::collections::BTreeMap;
use std::ops::Range;

use fs::model::Model;
use sim::Cx;
use sim::seam::{FileSystem, FileType, FsError, Ino};

use super::ops::{self, Names};
use super::view::{BLOCK, Everything, View};

/// An inode at a moment. Moments count operations.
struct Version {
    at: usize,
    view: View,
    /// Bytes that the operation wrote.
    wrote: Range<u64>,
}

#[derive(Default)]
struct Inode {
    versions: Vec<Version>,
    /// Moments of the last `fsync`: of everything, and of what is needed to read the contents.
    safe: usize,
    data_safe: usize,
}

impl Inode {
    /// Versions that may be there if everything until `safe` is.
    fn since(&self, safe: usize) -> &[Version] {
        let older = self.versions.partition_point(|version| version.at <= safe);
        &self.versions[older.saturating_sub(1)..]
    }
}

/// What was, from the last moment on at which everything was safe.
pub struct History {
    now: usize,
    safe: usize,
    names: Vec<(usize, Names)>,
    inodes: BTreeMap<Ino, Inode>,
}

impl History {
    /// Begins where everything that the model holds is safe.
    pub fn new(model: &mut Model, cx: &mut Cx) -> History {
        let mut history = History { now: 0, safe: 0, names: Vec::new(), inodes: BTreeMap::new() };
        history.record(model, cx, &[], 0..0);
        history
    }

    /// Notes what the model holds after an operation, which wrote the bytes `wrote` of a file. `opened` are inodes that
    /// may have no name.
    pub fn record(&mut self, model: &mut Model, cx: &mut Cx, opened: &[Ino], wrote: Range<u64>) {
        self.now += 1;
        let names = ops::names(model, cx).expect("a model");
        for &ino in names.values().chain(opened) {
            self.note(model, cx, ino, wrote.clone()).expect("a model");
        }
        if self.names.last().is_none_or(|(_, last)| *last != names) {
            self.names.push((self.now, names));
        }
    }

    /// Whatever changes an inode sets its time of the last change, and each operation has a time of its own.
    fn note(&mut self, model: &mut Model, cx: &mut Cx, ino: Ino, wrote: Range<u64>) -> Result<(), FsError> {
        let attr = model.getattr(cx, ino)?;
        let inode = self.inodes.entry(ino).or_default();
        if inode.versions.last().is_none_or(|last| last.view.attr != attr) {
            let view = View::of(model, cx, ino)?;
            inode.versions.push(Version { at: self.now, view, wrote });
        }
        Ok(())
    }

    /// Everything is safe.
    pub fn sync(&mut self) {
        self.safe = self.now;
        self.names.drain(..self.names.len() - 1);
        for inode in self.inodes.values_mut() {
            let older = inode.versions.len() - inode.since(self.now).len();
            inode.versions.drain(..older);
        }
    }

    /// An inode is safe; of a directory the names in it too, and all that are older.
    pub fn fsync(&mut self, ino: Ino, data_only: bool) {
        let inode = self.inodes.get_mut(&ino).expect("it was there");
        inode.data_safe = self.now;
        if !data_only {
            inode.safe = self.now;
        }
        // Of what is no directory there are no entries.
        let last = self.names.windows(2).rposition(|pair| entries(&pair[0].1, ino) != entries(&pair[1].1, ino));
        self.names.drain(..last.map_or(0, |before| before + 1));
    }

    /// Whether what was found after a power cut may be there; if not, why not.
    pub fn check(&self, found: &Everything) -> Result<(), String> {
        let mut names_fit = false;
        let mut why = String::new();
        for (at, names) in self.names.iter().rev() {
            let reason = match self.names_differ(names, found) {
                Some(reason) => reason,
                None => {
                    let differ = found.names.iter().find_map(|(path, ino)| {
                        let differs = self.inode_differs(names, names[path], &found.inodes[ino]);
                        differs.map(|reason| format!("{}: {reason}", shown(path)))
                    });
                    match differ {
                        None => return Ok(()),
                        Some(reason) => {
                            names_fit = true;
                            reason
                        }
                    }
                }
            };
            why = format!("{why}\n  if the names are those after operation {at} of {}: {reason}", self.now);
        }
        let first = if names_fit { "an inode is as it never was" } else { "the names are as they never were" };
        Err(format!("{first} since all was safe, after operation {}:{why}", self.safe))
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

    fn inode_differs(&self, names: &Names, ino: Ino, found: &View) -> Option<String> {
        let inode = &self.inodes[&ino];
        let attr = &found.attr;
        let one = &inode.versions[0].view;
        if (attr.file_type, attr.device, &found.target) != (one.attr.file_type, one.attr.device, &one.target) {
            return Some(format!("{attr:?} -> {:?} was {:?} -> {:?}", found.target, one.attr, one.target));
        }
        let links = self.links(names, ino);
        if attr.nlink != links {
            return Some(format!("{} links, and {links} names", attr.nlink));
        }
        let versions = inode.since(inode.safe.max(self.safe));
        let common = |view: &View| {
            let a = view.attr;
            (a.mode, a.uid, a.gid, a.flags, a.atime, a.mtime, a.ctime)
        };
        if !versions.iter().any(|version| common(&version.view) == common(found)) {
            let were: Vec<_> = versions.iter().map(|version| common(&version.view)).collect();
            return Some(format!("attributes {:?}, which were {were:?}", common(found)));
        }
        if !versions.iter().any(|version| version.view.xattrs == found.xattrs) {
            return Some("extended attributes that it never had".to_owned());
        }
        match attr.file_type {
            FileType::Regular => contents_differ(inode.since(inode.data_safe.max(self.safe)), found),
            FileType::Symlink if attr.size != one.attr.size => Some(format!("a link of {} bytes", attr.size)),
            _ => None,
        }
    }

    fn links(&self, names: &Names, ino: Ino) -> u32 {
        let is_dir = |ino: &Ino| self.inodes[ino].versions[0].view.attr.file_type == FileType::Directory;
        if !is_dir(&ino) {
            return names.values().filter(|&&other| other == ino).count() as u32;
        }
        let path = names.iter().find(|(_, other)| **other == ino).expect("it has a name").0;
        let is_below = |other: &[u8]| {
            other.strip_prefix(&path[..]).is_some_and(|rest| rest.first() == Some(&b'/') && !rest[1..].contains(&b'/'))
        };
        2 + names.iter().filter(|(other, ino)| is_below(other) && is_dir(ino)).count() as u32
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

fn contents_differ(versions: &[Version], found: &View) -> Option<String> {
    // The first version was there before: its data are no news.
    let ends = versions.iter().skip(1).flat_map(|version| {
        let (wrote, size) = (&version.wrote, version.view.attr.size);
        let blocks = wrote.start / BLOCK..wrote.end.div_ceil(BLOCK);
        blocks.map(move |block| ((block + 1) * BLOCK).min(size))
    });
    let size = found.attr.size;
    if !versions.iter().map(|version| version.view.attr.size).chain(ends).any(|end| end == size) {
        return Some(format!("{size} bytes, a size that it never had"));
    }
    for block in 0..size.div_ceil(BLOCK) {
        let length = (size - block * BLOCK).min(BLOCK) as usize;
        let there = &found.block(block)[..length];
        if !versions.iter().any(|version| &version.view.block(block)[..length] == there) {
            return Some(format!("block {block} of {size} bytes has contents that it never had"));
        }
    }
    None
}
