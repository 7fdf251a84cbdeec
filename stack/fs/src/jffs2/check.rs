//! Checks a file system: every node that is needed, names and inodes against each other; and what is in memory for
//! contradictions.
//!
//! JFFS2 counts names of inodes when it is mounted and has no index, so that most of what an index could contradict cannot
//! be wrong. A node that is damaged is as if it had never been written: a mount goes on without it, and an older one counts.

use std::collections::{BTreeMap, BTreeSet};

use sim::Cx;
use sim::seam::{FileType, Flash, Ino};

use super::blocks::{Node, NodeState, Owner};
use super::damage::{Damage, Lost};
use super::error::{Jffs2Error, Result};
use super::media::{ROOT_INO, device};
use super::{Cache, Jffs2, names};

/// Most findings that are kept.
const MOST: usize = 10_000;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Known, and no damage.
    Note,
    /// Linux goes on, but something is not as it should be; a loss of power explains it.
    Warning,
    /// Data are lost, or nodes contradict each other.
    Error,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A node is damaged.
    Node,
    /// Contents of a file.
    Data,
    /// Names and inodes against each other.
    Files,
    /// An extended attribute.
    Xattr,
}

impl Class {
    /// Name of the class in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Node => "node",
            Class::Data => "data",
            Class::Files => "files",
            Class::Xattr => "xattr",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub class: Class,
    /// Eraseblock and offset, if it is at one place.
    pub place: Option<(u32, u32)>,
    /// What was found, and what was expected.
    pub what: String,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order in which they were found.
    pub findings: Vec<Finding>,
    /// Findings that are not kept, since they are too many.
    pub more: u64,
    /// Inodes that names lead to.
    pub inodes: u64,
    /// Names.
    pub names: u64,
    /// Nodes that are needed.
    pub nodes: u64,
}

impl Report {
    fn find(&mut self, severity: Severity, class: Class, place: Option<(u32, u32)>, what: impl Into<String>) {
        match self.findings.len() < MOST {
            true => self.findings.push(Finding { severity, class, place, what: what.into() }),
            false => self.more += 1,
        }
    }

    /// An error of a call: its place is in the error. Those of the flash end the check.
    fn fault(&mut self, class: Class, what: &str, error: Jffs2Error) -> Result<()> {
        match error {
            Jffs2Error::Flash(_) => return Err(error),
            Jffs2Error::Corrupt { block, offset, what: why } => {
                self.find(Severity::Error, class, Some((block, offset)), format!("{what}: {why}"));
            }
            other => self.find(Severity::Error, class, None, format!("{what}: {other}")),
        }
        Ok(())
    }

    fn damage(&mut self, damage: &Damage) {
        let class = match damage.lost {
            Lost::Data(..) => Class::Data,
            Lost::Name { .. } => Class::Files,
            Lost::Xattr(_) => Class::Xattr,
            Lost::Node(_) | Lost::Bytes => Class::Node,
        };
        let of = damage.ino.map_or(String::new(), |ino| format!("inode {ino}: "));
        let (severity, why) = match damage.is_torn {
            true => (Severity::Warning, "; a loss of power leaves such a place"),
            false => (Severity::Error, ""),
        };
        self.find(severity, class, Some((damage.block, damage.offset)), format!("{of}{}{why}", damage.what()));
    }

    /// Whether something is an error.
    pub fn has_errors(&self) -> bool {
        self.more > 0 || self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// What the walk from the root knows.
#[derive(Default)]
struct Seen {
    /// Inodes, with the type that the first name of them says.
    inodes: BTreeMap<u32, u8>,
    /// Directories that are still to be looked at.
    open: Vec<u32>,
    names: u64,
}

impl<F: Flash> Jffs2<F> {
    /// Checks everything, of a file system that was just mounted. Reads and unpacks all data that are needed.
    /// Errors: the flash's.
    pub fn check(&mut self, cx: &mut Cx) -> Result<Report> {
        self.check_all(cx, true)
    }

    /// The same without a look at contents of files, but for what an inode is read from.
    /// Errors: the flash's.
    pub fn check_files(&mut self, cx: &mut Cx) -> Result<Report> {
        self.check_all(cx, false)
    }

    fn check_all(&mut self, cx: &mut Cx, contents: bool) -> Result<Report> {
        let mut report = Report::default();
        let mut seen = Seen { inodes: BTreeMap::from([(ROOT_INO, 4)]), open: vec![ROOT_INO], names: 0 };
        while let Some(dir) = seen.open.pop() {
            self.bound_memory();
            self.check_names(cx, dir, &mut seen, &mut report)?;
        }
        for (&ino, &kind) in &seen.inodes {
            self.bound_memory();
            self.check_inode(cx, (ino, kind), contents, &mut report)?;
        }
        let is_lost = |(ino, cache): &(u32, &Cache)| cache.links > 0 && !seen.inodes.contains_key(ino);
        let lost: Vec<u32> = self.caches.iter().filter(is_lost).map(|(ino, _)| ino).collect();
        for ino in lost {
            let what = format!("inode {ino}: no path leads to it from the root directory");
            report.find(Severity::Error, Class::Files, None, what);
        }
        for xid in self.xattrs.used() {
            self.load_datum(cx, xid)?;
        }
        for (ino, xid, node) in self.xattrs.dangling() {
            if seen.inodes.contains_key(&ino) {
                let Node { block, offset, .. } = *self.blocks.node(node);
                let what = format!("inode {ino} has extended attribute {xid}, of which there is no node");
                report.find(Severity::Error, Class::Xattr, Some((block, offset)), what);
            }
        }
        for &block in &self.stale_summaries {
            let what = "a summary of nodes that are gone: an erasure was cut short. It is not believed here; Linux \
                        believes it, and loses what it says was here and is elsewhere";
            report.find(Severity::Warning, Class::Node, Some((block, 0)), what);
        }
        let (damages, more) = self.damages();
        damages.iter().for_each(|damage| report.damage(damage));
        report.more += more;
        self.note_unlinked(&mut report);
        report.inodes = seen.inodes.len() as u64;
        report.names = seen.names;
        let nodes = self.blocks.blocks.iter().flat_map(|block| &block.nodes).map(|&id| self.blocks.node(id));
        report.nodes =
            nodes.filter(|node| node.state != NodeState::Obsolete && node.owner != Owner::None).count() as u64;
        Ok(report)
    }

    /// Looks at the names of a directory, and remembers what they lead to.
    fn check_names(&mut self, cx: &mut Cx, dir: u32, seen: &mut Seen, report: &mut Report) -> Result<()> {
        let found = match self.load(cx, dir) {
            Ok(inode) if inode.is_dir() => {
                let names: Vec<(Vec<u8>, super::inode::Name)> =
                    inode.live_names().map(|(bytes, name)| (bytes.clone(), *name)).collect();
                if inode.metadata.is_none() && dir != ROOT_INO {
                    let what = format!("directory {dir} has no inode node, though names are in it");
                    report.find(Severity::Error, Class::Files, None, what);
                }
                names
            }
            // What it is instead is said when inodes are looked at.
            Ok(_) => return Ok(()),
            Err(Jffs2Error::Flash(error)) => return Err(error.into()),
            Err(_) => return Ok(()),
        };
        for (bytes, name) in found {
            seen.names += 1;
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            let Node { block, offset, .. } = *self.blocks.node(name.node);
            let mut wrong = |what: String| report.find(Severity::Error, Class::Files, Some((block, offset)), what);
            if self.caches.get(name.ino).is_none_or(|cache| cache.links == 0) {
                wrong(format!("name {shown:?} in directory {dir} leads to inode {}, which does not exist", name.ino));
                continue;
            }
            let kind = names::file_type(name.kind);
            if kind.is_none() {
                wrong(format!("name {shown:?} in directory {dir} says type {} of inode {}", name.kind, name.ino));
            }
            match seen.inodes.get(&name.ino) {
                None => {
                    seen.inodes.insert(name.ino, name.kind);
                    if kind == Some(FileType::Directory) {
                        seen.open.push(name.ino);
                    }
                }
                Some(_) if kind == Some(FileType::Directory) => {
                    wrong(format!(
                        "name {shown:?} in directory {dir} leads to directory {}, which has another name",
                        name.ino
                    ));
                }
                Some(&other) if other != name.kind => {
                    wrong(format!(
                        "name {shown:?} in directory {dir} says type {} of inode {}, another name {other}",
                        name.kind, name.ino
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Reads an inode and what it has.
    fn check_inode(&mut self, cx: &mut Cx, (ino, kind): (u32, u8), contents: bool, report: &mut Report) -> Result<()> {
        let inode = match self.load(cx, ino) {
            Ok(inode) => inode,
            Err(error) => return report.fault(Class::Files, &format!("inode {ino}"), error),
        };
        let (file_type, data) = (inode.file_type, inode.data.clone());
        if let Some(named) = names::file_type(kind).filter(|&named| named != file_type) {
            let what = format!("inode {ino} is a {file_type:?}, its name says {named:?}");
            report.find(Severity::Error, Class::Files, None, what);
        }
        match file_type {
            FileType::Regular if contents => self.check_data(cx, ino, report),
            FileType::Symlink if data.is_empty() => {
                report.find(
                    Severity::Error,
                    Class::Files,
                    None,
                    format!("inode {ino}: a symbolic link without a target"),
                );
                Ok(())
            }
            kind if kind.is_device() && device(self.device.endian(), &data).is_none() => {
                let what = format!("inode {ino}: the number of a device in {} bytes, expected 2 or 4", data.len());
                report.find(Severity::Error, Class::Files, None, what);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_data(&mut self, cx: &mut Cx, ino: u32, report: &mut Report) -> Result<()> {
        let (mut out, mut from) = (Vec::new(), 0);
        // A node with several runs is unpacked once.
        let mut done = BTreeSet::new();
        loop {
            let run = match self.next_run(cx, Ino(ino.into()), from) {
                Ok(Some(run)) => run,
                Ok(None) => return Ok(()),
                Err(error) => return report.fault(Class::Data, &format!("inode {ino}"), error),
            };
            from = run.offset + u64::from(run.len);
            if !done.insert(run.node()) {
                continue;
            }
            if let Err(error) = self.read_run(cx, &run, &mut out) {
                report.fault(Class::Data, &format!("inode {ino}, bytes {} to {}", run.offset, from - 1), error)?;
            }
        }
    }

    /// Nodes of inodes to which no name leads: a mount for writing makes them obsolete.
    fn note_unlinked(&self, report: &mut Report) {
        let dead = self.caches.values().filter(|cache| cache.links == 0 && !cache.nodes.is_empty());
        let (mut inodes, mut nodes, mut bytes) = (0, 0, 0);
        for cache in dead {
            inodes += 1;
            nodes += cache.nodes.len();
            bytes += cache.nodes.iter().map(|&id| u64::from(self.blocks.node(id).len)).sum::<u64>();
        }
        if inodes > 0 {
            let what =
                format!("{inodes} inodes have no name: {nodes} nodes of {bytes} bytes, which the next mount drops");
            report.find(Severity::Note, Class::Files, None, what);
        }
    }

    /// Looks for contradictions between the books, the inodes in memory and the nodes.
    /// Errors: the first one.
    pub fn check_memory(&self) -> Result<(), String> {
        self.blocks.check()?;
        for (ino, inode) in self.inodes.iter() {
            let data = inode.nodes.keys().copied();
            let names = inode.names.values().map(|name| name.node);
            for id in data.chain(inode.metadata).chain(names) {
                let node = self.blocks.node(id);
                if node.state == NodeState::Obsolete || node.owner != Owner::Inode(ino) {
                    return Err(format!("inode {ino} needs a node that is {node:?}"));
                }
            }
            let mut at = 0;
            for (&begin, part) in &inode.fragments {
                if begin != at || part.len == 0 {
                    return Err(format!("inode {ino}: a fragment at {begin}, expected one at {at}"));
                }
                at += part.len;
            }
            for (&id, node) in &inode.nodes {
                let count = inode.fragments.values().filter(|part| part.node == Some(id)).count();
                if count != node.fragments as usize {
                    return Err(format!("inode {ino}: a node with {count} fragments counts {}", node.fragments));
                }
            }
        }
        Ok(())
    }
}
