//! Draws calls: those of fsstress, of a process that opens files, of one that replaces files, and of time; and a few after a
//! recovery. fsstress itself renames to new names alone.
//!
//! Offsets, sizes and lengths are a 16th of fsstress's: so much smaller is the flash. It writes bytes of one value, here
//! each write has contents of its own, so that none can be taken for another.

use std::collections::{BTreeMap, VecDeque};

use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, FsError, Ino, NewInode, Payload, ReadInto, RenameFlags, SetAttr,
    SetXattr, StatFs,
};
use sim::{Cx, Rng};
use workload::fsstress::Fsstress;

use super::calls::{Call, Data, Kind, Name, Node};
use super::stage::{Down, Stage};
use super::{FilesPlan, System};

/// By how much sizes are smaller than fsstress's.
const SCALE: u64 = 16;
/// Most files that are open at once.
const MOST_OPENED: usize = 4;
/// Most draws in a row without a call: fsstress may only read, or not find a file.
const MOST_DRAWS: u32 = 10_000;

/// Kinds of draws, and their weights.
pub(super) const KINDS: [(&str, u32); 9] = [
    ("fsstress", 80),
    ("fsync", 6),
    ("sync", 1),
    ("open", 3),
    ("close", 2),
    ("idle", 2),
    ("background", 12),
    ("detach", 1),
    ("replace", 2),
];

/// Calls as they are drawn.
pub(super) struct Load {
    weights: [u32; KINDS.len()],
    rng: Rng,
    /// Processes of fsstress that have begun, in the order of their turns.
    stress: VecDeque<Fsstress>,
    next_node: Node,
    /// Calls of an operation of fsstress that are still to be made.
    queue: VecDeque<Call>,
}

impl Load {
    pub fn new(weights: [u32; KINDS.len()], rng: Rng) -> Load {
        Load { weights, rng, stress: VecDeque::new(), next_node: 1, queue: VecDeque::new() }
    }

    /// The next call; `None` if nothing is drawn any more.
    pub fn draw<S: System>(&mut self, plan: &FilesPlan<S>, stage: &Stage<S>) -> Option<Call> {
        for _ in 0..MOST_DRAWS {
            if let Some(call) = self.queue.pop_front() {
                return Some(call);
            }
            match self.kind() {
                "fsstress" => self.ask_fsstress(plan, stage),
                "open" => self.open(stage),
                "replace" => self.replace(stage),
                kind => {
                    let other = self.other(kind, stage);
                    self.queue.extend(other);
                }
            }
        }
        None
    }

    fn kind(&mut self) -> &'static str {
        let total: u64 = self.weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut ticket = self.rng.below(total);
        for ((kind, _), weight) in KINDS.iter().zip(self.weights) {
            match ticket.checked_sub(weight.into()) {
                None => return kind,
                Some(rest) => ticket = rest,
            }
        }
        unreachable!("the ticket is below the sum")
    }

    fn other<S: System>(&mut self, kind: &str, stage: &Stage<S>) -> Option<Call> {
        let named = |rng: &mut Rng| {
            let nodes: Vec<Node> = stage.known.inos.keys().copied().collect();
            nodes[rng.below(nodes.len() as u64) as usize]
        };
        Some(match kind {
            "fsync" => Call::Fsync { node: named(&mut self.rng), data_only: self.rng.chance(0.25) },
            "sync" => Call::Sync,
            "close" if !stage.known.opened.is_empty() => {
                let opened = &stage.known.opened;
                Call::Close { node: opened[self.rng.below(opened.len() as u64) as usize] }
            }
            "idle" => Call::Idle(1 + self.rng.below(40)),
            "background" => Call::Background,
            "detach" => Call::Remount,
            _ => return None,
        })
    }

    /// Opens what has a name, and half of the time removes that name: of a directory it stays.
    fn open<S: System>(&mut self, stage: &Stage<S>) {
        if stage.known.opened.len() >= MOST_OPENED {
            return;
        }
        let named = stage.known.history.names();
        let (path, ino) = named.iter().nth(self.rng.below(named.len() as u64) as usize).expect("the root is one");
        let Some(node) = stage.known.node_of(*ino) else { return };
        self.queue.push_back(Call::Open { node });
        let slash = path.iter().rposition(|&byte| byte == b'/').filter(|_| self.rng.chance(0.5));
        if let Some(slash) = slash
            && let Some(dir) = stage.known.node_of(named[&path[..slash]])
        {
            self.queue.push_back(Call::Unlink { at: (dir, path[slash + 1..].to_vec()) });
        }
    }

    /// Renames a file to the name of another, which so is gone. Half of the time the file is written and made safe before, as
    /// programs do that want the old file or the new one after a loss of power.
    fn replace<S: System>(&mut self, stage: &Stage<S>) {
        let mut known = stage.known.clone();
        let names = known.history.names().clone();
        let files: Vec<_> = names.iter().filter(|(_, ino)| known.is_no_directory(**ino)).collect();
        if files.len() < 2 {
            return;
        }
        let mut draw = || files[self.rng.below(files.len() as u64) as usize];
        let ((from, ino), (to, other)) = (draw(), draw());
        let name_of = |path: &[u8]| {
            let slash = path.iter().rposition(|&byte| byte == b'/').expect("below the root");
            Some((known.node_of(names[&path[..slash]])?, path[slash + 1..].to_vec()))
        };
        let (Some(from), Some(to), Some(node)) = (name_of(from), name_of(to), known.node_of(*ino)) else { return };
        let rename = Call::Rename { from, to, flags: RenameFlags::NONE, whiteout: 0 };
        let rename = S::suited(rename, &mut known).filter(|_| ino != other);
        if rename.is_some() && self.rng.chance(0.5) {
            let data =
                Data { seed: self.rng.bits(), bytes: 1 + self.rng.below(3_000) as u32, is_text: self.rng.chance(0.5) };
            self.queue.extend([Call::Write { node, offset: 0, data }, Call::Fsync { node, data_only: false }]);
        }
        self.queue.extend(rename);
    }

    /// Lets the next process of fsstress do an operation on a copy, and notes its calls.
    fn ask_fsstress<S: System>(&mut self, plan: &FilesPlan<S>, stage: &Stage<S>) {
        let Load { stress, queue, next_node, rng, .. } = self;
        let mut scout = Scout { stage: Some(stage.clone()), system: &plan.system, calls: queue, next_node, rng };
        let mut cx = Cx::new();
        let begun = stress.len() as u32;
        if begun < plan.processes {
            stress.extend(Fsstress::new(&mut scout, &mut cx, &plan.stress, begun));
        } else if let Some(mut next) = stress.pop_front() {
            next.step(&mut scout, &mut cx);
            stress.push_back(next);
        }
    }
}

/// What fsstress works on: a copy of the file system. Its inode numbers are those of nodes.
struct Scout<'a, S: System> {
    /// `None` after a failure: the call that failed is the last.
    stage: Option<Stage<S>>,
    system: &'a S,
    calls: &'a mut VecDeque<Call>,
    next_node: &'a mut Node,
    rng: &'a mut Rng,
}

const GONE: FsError = FsError::Invalid { why: "the file system has failed" };
const UNSUITED: FsError = FsError::Invalid { why: "the file system does not do it" };

impl<S: System> Scout<'_, S> {
    fn node(&mut self) -> Node {
        *self.next_node += 1;
        *self.next_node - 1
    }

    /// Makes a call and notes it.
    fn call(&mut self, call: Call) -> Result<(), FsError> {
        let known = &mut self.stage.as_mut().ok_or(GONE)?.known;
        if let Some(gone) = call.nodes().into_iter().find(|node| !known.inos.contains_key(node)) {
            return Err(FsError::Stale { ino: Ino(gone.into()) });
        }
        let Some(call) = S::suited(call, known) else { return Err(UNSUITED) };
        self.calls.push_back(call.clone());
        let before = self.stage.take().ok_or(GONE)?;
        match before.step(self.system, &call) {
            Ok((mut stage, safe)) => {
                stage.made_safe(safe);
                let refused = stage.refused.clone();
                self.stage = Some(stage);
                refused.map_or(Ok(()), Err)
            }
            Err(Down::Power | Down::Broken(_)) => Err(GONE),
        }
    }

    fn attr_of(&mut self, node: Node) -> Result<Attr, FsError> {
        let stage = self.stage.as_mut().ok_or(GONE)?;
        let (_, there) = *stage.known.inos.get(&node).ok_or(FsError::Stale { ino: Ino(node.into()) })?;
        let attr = stage.known.model.getattr(&mut Cx::new(), there)?;
        Ok(Attr { ino: Ino(node.into()), ..attr })
    }

    fn make(&mut self, dir: Ino, name: &[u8], kind: Kind, mode: u32) -> Result<Attr, FsError> {
        let node = self.node();
        self.call(Call::Make { node, at: at(dir, name), kind, mode })?;
        self.attr_of(node)
    }
}

fn node(ino: Ino) -> Node {
    ino.0 as Node
}

fn at(dir: Ino, name: &[u8]) -> Name {
    (node(dir), name.to_vec())
}

impl<S: System> FileSystem for Scout<'_, S> {
    fn keeps_bytes(&self) -> bool {
        false
    }

    fn root(&self) -> Ino {
        Ino(0)
    }

    fn lookup(&mut self, _: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        let stage = self.stage.as_mut().ok_or(GONE)?;
        let (_, there) = *stage.known.inos.get(&node(dir)).ok_or(FsError::Stale { ino: dir })?;
        let found = stage.known.model.lookup(&mut Cx::new(), there, name)?;
        Ok(Attr { ino: Ino(stage.known.node_of(found.ino).unwrap_or_default().into()), ..found })
    }

    fn getattr(&mut self, _: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        self.attr_of(node(ino))
    }

    fn setattr(&mut self, _: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        let change = SetAttr { size: change.size.map(|size| size / SCALE), ..*change };
        self.call(Call::SetAttr { node: node(ino), change })?;
        self.attr_of(node(ino))
    }

    fn create(&mut self, _: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.make(dir, name, Kind::File, new.mode)
    }

    fn mkdir(&mut self, _: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.make(dir, name, Kind::Directory, new.mode)
    }

    fn mknod(
        &mut self,
        _: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        file_type: FileType,
        device: DeviceNumber,
    ) -> Result<Attr, FsError> {
        self.make(dir, name, Kind::Special(file_type, device), new.mode)
    }

    fn symlink(&mut self, _: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError> {
        let target = target[..target.len().div_ceil(SCALE as usize)].to_vec();
        self.make(dir, name, Kind::Symlink(target), new.mode)
    }

    fn readlink(&mut self, _: &mut Cx, _: Ino) -> Result<Vec<u8>, FsError> {
        Ok(Vec::new())
    }

    fn link(&mut self, _: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.call(Call::Link { node: node(ino), at: at(dir, name) })?;
        self.attr_of(node(ino))
    }

    fn unlink(&mut self, _: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.call(Call::Unlink { at: at(dir, name) })
    }

    fn rmdir(&mut self, _: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.call(Call::Rmdir { at: at(dir, name) })
    }

    fn rename(&mut self, _: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        let whiteout = self.node();
        self.call(Call::Rename { from: at(from.0, from.1), to: at(to.0, to.1), flags, whiteout })
    }

    fn read(&mut self, _: &mut Cx, _: Ino, _: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        Ok(into.len())
    }

    fn write(&mut self, _: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        let bytes = data.len().div_ceil(SCALE as u32);
        let contents = Data { seed: self.rng.bits(), bytes, is_text: self.rng.chance(0.5) };
        self.call(Call::Write { node: node(ino), offset: offset / SCALE, data: contents })?;
        Ok(data.len())
    }

    fn getxattr(&mut self, _: &mut Cx, ino: Ino, _: &[u8]) -> Result<Vec<u8>, FsError> {
        Err(FsError::NoAttr { ino })
    }

    fn setxattr(&mut self, _: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError> {
        self.call(Call::SetXattr { node: node(ino), name: name.to_vec(), value: value.to_vec(), how })
    }

    fn listxattr(&mut self, _: &mut Cx, _: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        Ok(Vec::new())
    }

    fn removexattr(&mut self, _: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        self.call(Call::RemoveXattr { node: node(ino), name: name.to_vec() })
    }

    fn readdir(&mut self, _: &mut Cx, _: Ino, _: u64, _: &mut dyn FnMut(Dirent<'_>) -> bool) -> Result<(), FsError> {
        Ok(())
    }

    fn statfs(&mut self, _: &mut Cx) -> Result<StatFs, FsError> {
        Ok(StatFs::default())
    }

    fn open(&mut self, _: &mut Cx, _: Ino) -> Result<(), FsError> {
        Ok(())
    }

    fn release(&mut self, _: &mut Cx, _: Ino) -> Result<(), FsError> {
        Ok(())
    }

    fn fsync(&mut self, _: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError> {
        self.call(Call::Fsync { node: node(ino), data_only })
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), FsError> {
        self.call(Call::Sync)
    }
}

/// A call after a recovery, on the nodes that were found.
pub(super) fn after_recovery<S: System>(
    rng: &mut Rng,
    nodes: &BTreeMap<Vec<u8>, Node>,
    stage: &mut Stage<S>,
    number: Node,
) -> Call {
    let is_dir = |stage: &mut Stage<S>, node: Node| {
        let attr = stage.known.model.getattr(&mut Cx::new(), stage.known.inos[&node].1);
        attr.is_ok_and(|attr| attr.file_type == FileType::Directory)
    };
    let (dirs, files): (Vec<_>, Vec<_>) = nodes.iter().partition(|(_, node)| is_dir(stage, **node));
    let dir = *dirs[rng.below(dirs.len() as u64) as usize].1;
    let new = (dir, format!("x{number}").into_bytes());
    let create = Call::Make { node: 1_000_000 + number, at: new.clone(), kind: Kind::File, mode: 0o644 };
    if files.is_empty() {
        return create;
    }
    let (path, &node) = files[rng.below(files.len() as u64) as usize];
    let slash = path.iter().rposition(|&byte| byte == b'/').expect("below the root");
    let name = (nodes[&path[..slash]], path[slash + 1..].to_vec());
    match rng.below(8) {
        0 => create,
        1 | 2 => {
            let data = Data { seed: rng.bits(), bytes: 1 + rng.below(6_000) as u32, is_text: rng.chance(0.5) };
            Call::Write { node, offset: rng.below(20_000), data }
        }
        3 => Call::Unlink { at: name },
        4 => Call::Rename { from: name, to: new, flags: RenameFlags::NONE, whiteout: 0 },
        5 => Call::SetAttr { node, change: SetAttr::size(rng.below(20_000)) },
        6 => Call::Fsync { node, data_only: false },
        _ => Call::Sync,
    }
}
