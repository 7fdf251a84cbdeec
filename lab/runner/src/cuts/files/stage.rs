//! UBIFS on UBI on a flash, with the model beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fs::compress::Unpacked;
use fs::model::Model;
use fs::model::history::History;
use fs::model::view::Everything;
use fs::ubifs::check::{Class, Severity};
use fs::ubifs::{Reader, Ubifs};
use nand::Bytes;
use sim::seam::{FileSystem, FsError, Ino};
use sim::{Cx, Ns, VolId};
use ubi::block::{Backing, OnUbi};
use ubi::{Ubi, VolumeRequest, VolumeSize};

use super::UbifsPlan;
use super::calls::{Call, Node};
use crate::cuts::check::{Broken, Check, verdict};
use crate::cuts::tape::{BlackBox, Tape};

/// The volume of the file system.
pub(super) type Volume = OnUbi<Tape>;

/// Each call has a time of its own, in whole seconds: so the times of UBIFS that `mkfs.ubifs` made are.
const SECOND: u64 = 1_000_000_000;
/// Name of the volume.
const VOLUME: &str = "fs";
/// Most findings of a check in the description of a failure.
const SHOWN: usize = 4;

thread_local! {
    /// Blocks that this thread has decompressed: from cut to cut most of a flash stays as it is.
    static UNPACKED: Unpacked = Unpacked::default();
}

/// Why a step failed.
pub(super) enum Down {
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
pub(super) struct Stage {
    pub fs: Ubifs<Volume>,
    pub known: Known,
    /// Why the last call was refused, if it was.
    pub refused: Option<FsError>,
}

/// What is known of a file system between two steps.
#[derive(Clone)]
pub(super) struct Known {
    pub model: Model,
    pub history: History,
    pub now: Ns,
    /// Inodes of each node, here and in the model.
    pub inos: Arc<BTreeMap<Node, (Ino, Ino)>>,
    /// Nodes that are open.
    pub opened: Vec<Node>,
}

fn at(now: Ns) -> Cx {
    let mut cx = Cx::new();
    cx.wait_until(now);
    cx
}

fn works(call: &Call, what: impl std::fmt::Display) -> Down {
    Down::Broken(vec![Check::Works.broken(format!("{call}: {what}"))])
}

fn down(call: &Call, error: &FsError) -> Down {
    if error.is_power_loss() { Down::Power } else { works(call, format!("it failed: {error}")) }
}

impl Known {
    /// Notes what the model is after a call.
    fn record(&mut self, call: &Call) {
        let opened: Vec<Ino> = self.opened.iter().map(|node| self.inos[node].1).collect();
        self.history.record(&mut self.model, &mut at(self.now), &opened, call.range());
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

impl Stage {
    /// Formats a flash, makes the file system on it and mounts it.
    /// Errors: why it cannot be made.
    pub fn fresh(plan: &UbifsPlan) -> Result<Stage, String> {
        let cx = &mut Cx::new();
        let tape = Tape::new(&plan.array, Bytes::new());
        let mut ubi = Ubi::attach(tape, cx, &plan.ubi).map_err(|failure| failure.error.to_string())?;
        ubi.flush(cx).map_err(|error| error.to_string())?;
        let request = VolumeRequest::dynamic(VOLUME, VolumeSize::Lebs(plan.lebs));
        let vol_id = ubi.create_volume(cx, &request).map_err(|error| error.to_string())?;
        let volume = OnUbi::open(ubi, cx, vol_id).map_err(|failure| failure.error.to_string())?;
        let mut fs = Ubifs::format(volume, cx, &plan.format, plan.mount).map_err(|error| error.to_string())?;
        let found = Everything::of(&mut fs, cx).map_err(|error| error.to_string())?;
        Ok(Stage::that_holds(plan, fs, &found, Ns::ZERO).0)
    }

    /// A file system of which this was found, with a model of it. Every path is a node.
    pub fn that_holds(
        plan: &UbifsPlan,
        fs: Ubifs<Volume>,
        found: &Everything,
        now: Ns,
    ) -> (Stage, BTreeMap<Vec<u8>, Node>) {
        let mut model = found.model(plan.mount.epoch);
        let history = History::new(&mut model, &mut Cx::new());
        let mut inos = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        for (node, ((path, &here), &there)) in (0..).zip(found.names.iter().zip(history.names().values())) {
            inos.insert(node, (here, there));
            nodes.insert(path.clone(), node);
        }
        let known = Known { model, history, now, inos: Arc::new(inos), opened: Vec::new() };
        (Stage { fs, known, refused: None }, nodes)
    }

    /// The flash.
    pub fn tape(&self) -> &Tape {
        self.fs.volume().ubi().flash()
    }

    /// The flash.
    pub fn tape_mut(&mut self) -> &mut Tape {
        self.fs.volume_mut().flash_mut()
    }

    /// Whether what a call needs is there.
    pub fn allows(&self, call: &Call) -> bool {
        let is_there = call.nodes().iter().all(|node| self.known.inos.contains_key(node));
        is_there && !matches!(call, Call::Close { node } if !self.known.opened.contains(node))
    }

    /// Does what has waited long enough.
    fn wake(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        while self.fs.next_wake().is_some_and(|due| due <= cx.now()) {
            self.fs.wake(cx)?;
        }
        Ok(())
    }

    /// Does a step, and notes what was. What it made safe is for [`made_safe`](Self::made_safe).
    pub fn step(mut self, plan: &UbifsPlan, call: &Call) -> Result<(Stage, Safe), Down> {
        self.refused = None;
        self.known.now += Ns(SECOND);
        let mut cx = at(self.known.now);
        self.wake(&mut cx).map_err(|error| down(call, &error))?;
        match call {
            Call::Idle(seconds) => {
                self.known.now += Ns(seconds * SECOND);
                self.wake(&mut at(self.known.now)).map_err(|error| down(call, &error))?;
                Ok((self, Safe::Nothing))
            }
            Call::Background => {
                let volume = self.fs.volume_mut();
                for _ in 0..volume.background_works() {
                    let done = volume.step_background(&mut cx);
                    done.map_err(|error| down(call, &FsError::Medium(error)))?;
                }
                Ok((self, Safe::Nothing))
            }
            Call::Remount => self.remount(plan, call),
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
            // Nothing was done.
            Err(FsError::NoSpace) => {
                self.refused = Some(FsError::NoSpace);
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
            _ => Safe::Nothing,
        })
    }

    fn remount(self, plan: &UbifsPlan, call: &Call) -> Result<(Stage, Safe), Down> {
        let Stage { mut fs, mut known, refused } = self;
        let mut cx = at(known.now);
        for node in std::mem::take(&mut known.opened) {
            fs.release(&mut cx, known.inos[&node].0).map_err(|error| down(call, &error))?;
            known.model.release(&mut at(known.now), known.inos[&node].1).expect("it was opened");
        }
        known.record(call);
        let volume = fs.unmount(&mut cx).map_err(|error| down(call, &error))?;
        structure(volume.clone(), &mut cx, Severity::Warning).map_err(Down::Broken)?;
        let (tape, detached) = volume.into_ubi().detach(&mut cx);
        detached
            .map_err(|_| if tape.array.is_powered() { works(call, "UBI cannot be detached") } else { Down::Power })?;
        let fs = bring_up(plan, tape, known.now)?;
        Ok((Stage { fs, known, refused }, Safe::Everything))
    }

    /// Compares everything with the model. Errors: the first difference.
    pub fn reads(&mut self) -> Result<(), Broken> {
        let broken = |what: String| vec![Check::Reads.broken(what)];
        let found = Everything::of(&mut self.fs, &mut at(self.known.now));
        let found = found.map_err(|error| broken(format!("it cannot be read: {error}")))?;
        found.difference(&mut self.known.model).map_or(Ok(()), |difference| Err(broken(difference)))
    }
}

fn outcome<T>(result: &Result<T, FsError>) -> String {
    match result {
        Ok(_) => "success".to_owned(),
        Err(error) => format!("the error {error}"),
    }
}

/// Attaches a flash and mounts the file system on it.
pub(super) fn bring_up(plan: &UbifsPlan, mut tape: Tape, now: Ns) -> Result<Ubifs<Volume>, Down> {
    let lost = match &tape.black_box {
        Some(black_box) => black_box.clone(),
        None => black_box(&mut tape, u64::MAX),
    };
    let is_lost = || lost.left.lock().expect("no holder of the lock panics").is_some();
    let broken = |what: String| if is_lost() { Down::Power } else { Down::Broken(vec![Check::ComesUp.broken(what)]) };
    let cx = &mut at(now);
    let ubi = Ubi::attach(tape, cx, &plan.ubi)
        .map_err(|failure| broken(format!("UBI cannot be attached: {}", failure.error)))?;
    let volume = OnUbi::open(ubi, cx, VolId(0))
        .map_err(|failure| broken(format!("the volume cannot be opened: {}", failure.error)))?;
    let mut fs =
        Ubifs::mount(volume, cx, plan.mount).map_err(|error| broken(format!("UBIFS cannot be mounted: {error}")))?;
    UNPACKED.with(|unpacked| fs.know(unpacked));
    if is_lost() {
        return Err(Down::Broken(vec![Check::Power.broken("UBIFS was mounted although power was lost")]));
    }
    Ok(fs)
}

/// A box that gets the flash when power is lost, in operation `at`.
pub(super) fn black_box(tape: &mut Tape, at: u64) -> BlackBox {
    let lost = BlackBox { at, left: Arc::new(Mutex::new(None)) };
    tape.black_box = Some(lost.clone());
    lost
}

/// Checks the whole file system on a volume; findings count from this severity on.
pub(super) fn structure(volume: Volume, cx: &mut Cx, least: Severity) -> Result<(), Broken> {
    let broken = |what: String| vec![Check::Structure.broken(what)];
    let mut reader = Reader::mount(volume, cx).map_err(|error| broken(format!("it cannot be opened: {error}")))?;
    UNPACKED.with(|unpacked| reader.know(unpacked));
    let report = reader.check(cx).map_err(|error| broken(format!("it cannot be checked: {error}")))?;
    // Nothing is open when it is checked: an inode without a name is left over.
    let least_of = |class| if class == Class::Files { Severity::Warning } else { least };
    let found = report.findings.iter().filter(|finding| finding.severity >= least_of(finding.class));
    let shown = found.take(SHOWN).map(|finding| {
        let place = finding.place.map_or_else(String::new, |(lnum, offset)| format!("LEB {lnum}:{offset}: "));
        format!("{}: {place}{}", finding.class.name(), finding.what)
    });
    verdict(Check::Structure.each(shown).collect())
}

/// Checks what UBI promises of itself.
pub(super) fn whole(ubi: &Ubi<Tape>) -> Result<(), Broken> {
    ubi.check();
    let mut broken = Broken::new();
    if let Some(why) = ubi.read_only() {
        broken.push(Check::Writable.broken(format!("UBI is read-only: {why}")));
    }
    let pebs = ubi.layout().pebs;
    if ubi.good_pebs() != pebs {
        broken.push(Check::Blocks.broken(format!("{} of {pebs} PEBs are good", ubi.good_pebs())));
    }
    verdict(broken)
}
