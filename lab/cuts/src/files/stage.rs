//! A file system on a flash, with the model beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fs::model::Model;
use fs::model::history::{History, Leaves};
use fs::model::view::Everything;
use sim::seam::{Attr, FileSystem, FileType, FsError, Ino, SetAttr};
use sim::{Cx, Ns};

use super::System;
use super::calls::{Call, Node};
use crate::check::{Broken, Check};
use crate::tape::{BlackBox, Tape};
use crate::volume::{self, Unclosed, Volume};

/// Each call has a time of its own, in whole seconds: so the times of JFFS2 are, and those of UBIFS that `mkfs.ubifs` made. Flash and
/// processor take no time, whatever they cost: the model knows when a call began, not when in it an inode was written.
const SECOND: u64 = 1_000_000_000;

/// Why a step failed.
pub(crate) enum Down {
    Power,
    Broken(Broken),
}

/// What a call made safe.
#[derive(Clone, Copy, Debug)]
pub(super) enum Safe {
    Nothing,
    Inode(Ino, bool),
    Everything,
}

/// The file system between two steps.
#[derive(Clone)]
pub(super) struct Stage<S: System> {
    pub fs: S::Fs,
    pub known: Known,
    /// Why the last call was refused, if it was.
    pub refused: Option<FsError>,
}

/// What is known of a file system between two steps.
#[derive(Clone)]
pub(crate) struct Known {
    pub model: Model,
    pub history: History,
    pub now: Ns,
    /// Inodes of each node, here and in the model.
    pub inos: Arc<BTreeMap<Node, (Ino, Ino)>>,
    /// Nodes that are open.
    pub opened: Vec<Node>,
    /// A power cut may leave both names of a rename.
    renames_in_two: bool,
    /// What of times need not be kept.
    leaves: Leaves,
}

pub(super) fn at(now: Ns) -> Cx {
    let mut cx = Cx::new();
    cx.wait_until(now);
    cx
}

pub(super) fn works(call: &Call, what: impl std::fmt::Display) -> Down {
    Down::Broken(vec![Check::Works.broken(format!("{call}: {what}"))])
}

pub(super) fn down(call: &Call, error: &FsError) -> Down {
    if error.is_power_loss() { Down::Power } else { works(call, format!("it failed: {error}")) }
}

/// Detaches UBI at the end of a step.
pub(super) fn closed(volume: Volume, cx: &mut Cx, call: &Call) -> Result<Tape, Down> {
    volume::closed(volume, cx).map_err(|why| match why {
        Unclosed::Power => Down::Power,
        Unclosed::Refused => works(call, "UBI cannot be detached"),
    })
}

impl Known {
    /// Notes what the model is after a call.
    fn record(&mut self, call: &Call) {
        if self.renames_in_two && matches!(call, Call::Rename { .. }) {
            self.history.rename_in_two();
        }
        let opened: Vec<Ino> = self.opened.iter().map(|node| self.inos[node].1).collect();
        self.history.record(&mut self.model, &mut at(self.now), &opened, call.range());
    }

    /// The node of an inode of the model.
    pub fn node_of(&self, ino: Ino) -> Option<Node> {
        self.inos.iter().rfind(|(_, inos)| inos.1 == ino).map(|(&node, _)| node)
    }

    /// Whether an inode of the model is no directory.
    pub fn is_no_directory(&mut self, ino: Ino) -> bool {
        let attr = self.model.getattr(&mut at(self.now), ino);
        attr.is_ok_and(|attr| attr.file_type != FileType::Directory)
    }

    /// Notes what a call would leave, which power took away.
    pub fn imagine(&mut self, call: &Call) {
        self.now += Ns(SECOND);
        let inos = self.inos.clone();
        if !matches!(call, Call::Idle(_) | Call::Background | Call::Remount)
            && call.make_there(&mut self.model, &mut at(self.now), |node| inos[&node].1).is_ok()
        {
            self.record(call);
        }
    }
}

impl<S: System> Stage<S> {
    /// Makes the file system on an erased flash.
    /// Errors: why it cannot be made.
    pub fn fresh(system: &S) -> Result<Stage<S>, String> {
        let cx = &mut Cx::new();
        let mut fs = system.fresh(cx)?;
        let found = Everything::of(&mut fs, cx).map_err(|error| error.to_string())?;
        Ok(Stage::that_holds(system, fs, &found, Ns::ZERO).0)
    }

    /// A file system of which this was found, with a model of it. Every path is a node. Nothing was changed later than `now`: by its
    /// time the history knows a change.
    pub fn that_holds(system: &S, fs: S::Fs, found: &Everything, now: Ns) -> (Stage<S>, BTreeMap<Vec<u8>, Node>) {
        let latest = system.epoch().after(now);
        assert!(found.inodes.values().all(|view| view.attr.ctime <= latest), "an inode was changed after {latest:?}");
        let mut model = found.model(system.epoch());
        let history = History::new(&mut model, &mut Cx::new()).leaving(S::LEAVES);
        let mut inos = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        for (node, ((path, &here), &there)) in (0..).zip(found.names.iter().zip(history.names().values())) {
            inos.insert(node, (here, there));
            nodes.insert(path.clone(), node);
        }
        let known = Known {
            model,
            history,
            now,
            inos: Arc::new(inos),
            opened: Vec::new(),
            renames_in_two: S::RENAMES_IN_TWO,
            leaves: S::LEAVES,
        };
        (Stage { fs, known, refused: None }, nodes)
    }

    /// The flash.
    pub fn tape(&self) -> &Tape {
        S::tape(&self.fs)
    }

    /// The flash.
    pub fn tape_mut(&mut self) -> &mut Tape {
        S::tape_mut(&mut self.fs)
    }

    /// Whether what a call needs is there.
    pub fn allows(&self, call: &Call) -> bool {
        let is_there = call.nodes().iter().all(|node| self.known.inos.contains_key(node));
        is_there && !matches!(call, Call::Close { node } if !self.known.opened.contains(node))
    }

    /// Does a step, and notes what was. What it made safe is for [`made_safe`](Self::made_safe).
    pub fn step(mut self, system: &S, call: &Call) -> Result<(Stage<S>, Safe), Down> {
        self.refused = None;
        self.known.now += Ns(SECOND);
        let mut cx = at(self.known.now);
        system.wake(&mut self.fs, &mut cx).map_err(|error| down(call, &error))?;
        match call {
            Call::Idle(seconds) => {
                self.known.now += Ns(seconds * SECOND);
                system.wake(&mut self.fs, &mut at(self.known.now)).map_err(|error| down(call, &error))?;
                Ok((self, Safe::Nothing))
            }
            Call::Background => {
                S::background(&mut self.fs, &mut cx).map_err(|error| down(call, &error))?;
                Ok((self, Safe::Nothing))
            }
            Call::Remount => self.remount(system, call),
            _ => {
                let safe = self.call(&mut cx, call)?;
                Ok((self, safe))
            }
        }
    }

    /// Adds what a step made safe to the history.
    pub fn made_safe(&mut self, safe: Safe) {
        match safe {
            Safe::Nothing => {}
            Safe::Inode(ino, data_only) => self.known.history.fsync(ino, data_only),
            Safe::Everything => self.known.history.sync(),
        }
    }

    /// One call here and there.
    pub fn call(&mut self, cx: &mut Cx, call: &Call) -> Result<Safe, Down> {
        let inos = self.known.inos.clone();
        let here = call.make(&mut self.fs, cx, |node| inos[&node].0);
        let written = match &here {
            // Nothing was done, but that a file may have grown.
            Err(FsError::NoSpace) => {
                self.refused = Some(FsError::NoSpace);
                self.grown(cx, call)?;
                return Ok(Safe::Nothing);
            }
            Ok(answer) => answer.written,
            Err(error) if error.is_power_loss() => return Err(Down::Power),
            Err(_) => None,
        };
        // A write that ends where space does.
        let call = &written.map_or_else(|| call.clone(), |written| call.shortened(written));
        let now = self.known.now;
        let there = call.make_there(&mut self.known.model, &mut at(now), |node| inos[&node].1);
        match (&here, &there) {
            (Ok(here), Ok(there)) if here.written == there.written => {}
            (Err(here), Err(there)) if here.errno() == there.errno() => {
                self.refused = Some(here.clone());
                return Ok(Safe::Nothing);
            }
            _ => return Err(works(call, format!("{} instead of {}", outcome(&here), outcome(&there)))),
        }
        if let (Ok(here), Ok(there), Some(node)) = (&here, &there, call.makes()) {
            let made = here.made.zip(there.made).expect("it makes one");
            Arc::make_mut(&mut self.known.inos).insert(node, made);
        }
        match call {
            Call::Open { node } => self.known.opened.push(*node),
            Call::Close { node } => {
                let opened = &mut self.known.opened;
                let at = opened.iter().position(|opened| opened == node).expect("it is allowed");
                opened.remove(at);
            }
            _ => {}
        }
        if !matches!(call, Call::Fsync { .. } | Call::Sync | Call::Open { .. }) {
            self.known.record(call);
        }
        Ok(match call {
            Call::Fsync { node, data_only } => Safe::Inode(inos[node].1, *data_only),
            Call::Sync => Safe::Everything,
            _ if S::WRITES_AT_ONCE => Safe::Everything,
            _ => Safe::Nothing,
        })
    }

    /// After a write without space: the file of the model grows, if the file did, and gets its time. JFFS2 writes a page from its
    /// beginning, and of two nodes the first, of bytes that were there, may have found space.
    fn grown(&mut self, cx: &mut Cx, call: &Call) -> Result<(), Down> {
        let Call::Write { node, offset, .. } = call else { return Ok(()) };
        if !S::GROWS_IN_VAIN {
            return Ok(());
        }
        let (here, there) = self.known.inos[node];
        let Attr { size, mtime, .. } = self.fs.getattr(cx, here).map_err(|error| down(call, &error))?;
        let now = self.known.now;
        let model = &mut self.known.model;
        let before = model.getattr(&mut at(now), there).expect("a file that was written to");
        if (size == *offset && before.size < size) || (size == before.size && mtime != before.mtime) {
            model.setattr(&mut at(now), there, &SetAttr::size(size)).expect("a file that was written to");
            self.known.record(call);
        }
        Ok(())
    }

    fn remount(self, system: &S, call: &Call) -> Result<(Stage<S>, Safe), Down> {
        let Stage { mut fs, mut known, refused } = self;
        let mut cx = at(known.now);
        for node in std::mem::take(&mut known.opened) {
            fs.release(&mut cx, known.inos[&node].0).map_err(|error| down(call, &error))?;
            known.model.release(&mut at(known.now), known.inos[&node].1).expect("it was opened");
        }
        known.record(call);
        let tape = S::take_down(fs, &mut cx, call)?;
        let fs = bring_up(system, tape, known.now)?;
        if S::REUSES_INODES {
            let Known { inos, model, now, .. } = &mut known;
            Arc::make_mut(inos).retain(|_, (_, there)| model.getattr(&mut at(*now), *there).is_ok());
        }
        Ok((Stage { fs, known, refused }, Safe::Everything))
    }

    /// Compares everything with the model. Errors: the first difference.
    pub fn reads(&mut self) -> Result<(), Broken> {
        let broken = |what: String| vec![Check::Reads.broken(what)];
        let found = Everything::of(&mut self.fs, &mut at(self.known.now));
        let found = found.map_err(|error| broken(format!("it cannot be read: {error}")))?;
        found.difference(&mut self.known.model, self.known.leaves).map_or(Ok(()), |difference| Err(broken(difference)))
    }
}

fn outcome<T>(result: &Result<T, FsError>) -> String {
    match result {
        Ok(_) => "success".to_owned(),
        Err(error) => format!("the error {error}"),
    }
}

/// Mounts what is on a flash.
pub(super) fn bring_up<S: System>(system: &S, mut tape: Tape, now: Ns) -> Result<S::Fs, Down> {
    let lost = match &tape.black_box {
        Some(black_box) => black_box.clone(),
        None => black_box(&mut tape, u64::MAX),
    };
    let is_lost = || lost.left.lock().expect("no holder of the lock panics").is_some();
    let fs = system.bring_up(tape, &mut at(now)).map_err(|what| match is_lost() {
        true => Down::Power,
        false => Down::Broken(vec![Check::ComesUp.broken(what)]),
    })?;
    if is_lost() {
        return Err(Down::Broken(vec![
            Check::Power.broken(format!("{} was mounted although power was lost", S::NAME)),
        ]));
    }
    Ok(fs)
}

/// A box that gets the flash when power is lost, in operation `at`.
pub(super) fn black_box(tape: &mut Tape, at: u64) -> BlackBox {
    let lost = BlackBox { at, left: Arc::new(Mutex::new(None)) };
    tape.black_box = Some(lost.clone());
    lost
}
