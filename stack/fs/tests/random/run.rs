//! Runs drawn steps on a file system and on the model, and compares every result; the whole trees at each mount; and what
//! is there after a power cut with the history.

use std::collections::{BTreeSet, VecDeque};

use fs::model::history::{History, Leaves};
use fs::model::view::Everything;
use fs::model::{Model, Tree, tree};
use sim::seam::{Attr, FileSystem, FileType, FsError, Ino, InodeFlags, SetAttr, Timestamp};
use sim::{Cx, Ns};

use super::ops::{self, At, Caller, Op, Session, Which};

const SECOND: u64 = 1_000_000_000;

/// A file system that is tested, on a medium that can lose power.
pub trait Subject {
    type Fs: FileSystem;

    /// The mounted file system.
    fn fs(&mut self) -> &mut Self::Fs;

    /// When virtual time 0 was.
    fn epoch(&self) -> Timestamp;

    /// Operations on the medium so far that a power cut can interrupt.
    fn events(&self) -> u64;

    /// Lets power fail in the operation on the medium that follows `events` others; `None`: never.
    fn cut_after(&mut self, events: Option<u64>);

    /// Unmounts and mounts; or, not `clean`, lets power fail, if it has not yet, and mounts what is left.
    fn remount(&mut self, cx: &mut Cx, clean: bool) -> Result<(), Failure>;

    /// Does what is due in the background.
    fn idle(&mut self, cx: &mut Cx) -> Result<(), FsError>;

    /// Checks what is on the medium, and in memory, for contradictions.
    fn check(&mut self, cx: &mut Cx) -> Result<(), String>;

    /// Whether a write that finds no space may change the file: its times, or, beyond the end, its length, by a hole.
    fn changes_in_vain(&self) -> bool {
        false
    }

    /// What a power cut may leave.
    fn leaves(&self) -> Leaves {
        Leaves::default()
    }

    /// Whether a rename writes the new name before it removes the old one, so that a power cut may leave both.
    fn renames_in_two(&self) -> bool {
        false
    }

    /// Whether programs fail so often that it may give up writing.
    fn may_give_up(&self) -> bool {
        false
    }

    /// Leaves out of a tree what the file system need not keep.
    fn comparable(&self, _: &mut Tree) {}
}

/// Why a step did not end as it should.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Power was lost, as was asked for.
    PowerLost,
    /// Nothing can be written any more: what is promised is what it would be after a loss of power.
    GaveUp(String),
    /// A mistake was found.
    Broken(String),
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        match error {
            error if error.is_power_loss() => Failure::PowerLost,
            error @ FsError::ReadOnly { .. } => Failure::GaveUp(error.to_string()),
            error => Failure::Broken(error.to_string()),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    Op(Op),
    Flags(At, InodeFlags),
    /// Reads so many entries of a directory (`None`: the root), makes operations, and reads the others.
    List(Option<At>, usize, Vec<Op>),
    Fsync(Which, bool),
    Sync,
    /// Time passes, in seconds, with what is done in the background.
    Idle(u64),
    /// Unmounts cleanly, or loses power, and mounts.
    Remount {
        clean: bool,
    },
    /// Lets power fail after so many events, and again after so many more from each time on that it is back.
    Cut(Vec<u64>),
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub power_cuts: u32,
    /// Operations that did not find space.
    pub refused: u32,
    /// Operations on the medium.
    pub events: u64,
}

/// Runs `steps`. Power fails after `cuts[0]` events, then after `cuts[1]` more, and so on, where so many come. `trace` has
/// in the end what was done, up to a mistake: names that were looked for, and where power failed.
/// Errors: the first mistake, with the step after which it was seen.
pub fn run<S: Subject>(
    subject: &mut S,
    steps: &[Step],
    cuts: &[u64],
    trace: &mut Vec<Step>,
) -> Result<Outcome, String> {
    let mut cx = Cx::new();
    let found = Everything::of(subject.fs(), &mut cx).map_err(|error| format!("new: {error}"))?;
    let mut model = found.model(subject.epoch());
    let first = subject.events();
    let mut run = Run {
        session: Session::new(subject.fs().root(), 0, 0),
        model_session: Session::new(model.root(), 0, 0),
        history: History::new(&mut model, &mut cx).leaving(subject.leaves()),
        subject,
        cx,
        cuts: cuts.iter().copied().collect(),
        armed: None,
        on_since: 0,
        model,
        listed: None,
        outcome: Outcome::default(),
        trace,
    };
    run.arm();
    let end = Step::Remount { clean: true };
    for step in steps.iter().chain([&end]) {
        let step = run.found(step);
        run.on_since = run.subject.events();
        run.trace.push(step.clone());
        let done = run.step(&step).or_else(|failure| run.recover(failure));
        done.map_err(|why| format!("{step:?}: {why}"))?;
    }
    run.outcome.events = run.subject.events() - first;
    Ok(run.outcome)
}

struct Run<'a, S> {
    subject: &'a mut S,
    cx: Cx,
    /// Events until the cuts that are to follow the next.
    cuts: VecDeque<u64>,
    /// The event in which power fails next.
    armed: Option<u64>,
    /// Number of events when power last came back, or the step began.
    on_since: u64,
    session: Session,
    model: Model,
    model_session: Session,
    /// Directory of the model that is open to be listed.
    listed: Option<Ino>,
    history: History,
    outcome: Outcome,
    trace: &'a mut Vec<Step>,
}

/// A step that is one call.
fn perform<F: FileSystem>(caller: &mut Caller<'_, F>, step: &Step) -> Result<Vec<u8>, FsError> {
    match step {
        Step::Op(op) => return caller.call(op),
        Step::Flags(at, flags) => {
            let (ino, _) = caller.find(at)?;
            caller.fs.setattr(caller.cx, ino, &SetAttr { flags: Some(*flags), ..SetAttr::default() })?;
        }
        Step::Fsync(which, data_only) => {
            let (ino, _) = caller.which(which)?;
            caller.fs.fsync(caller.cx, ino, *data_only)?;
        }
        Step::Sync => caller.fs.sync(caller.cx)?,
        Step::List(..) | Step::Idle(_) | Step::Remount { .. } | Step::Cut(_) => unreachable!("more than one call"),
    }
    Ok(Vec::new())
}

impl<S: Subject> Run<'_, S> {
    /// Sets the next power cut.
    fn arm(&mut self) {
        let next = self.cuts.pop_front();
        self.armed = next.map(|events| self.subject.events() + events);
        self.subject.cut_after(next);
    }

    /// Puts the power cut that came before the step in the trace.
    fn note_cut(&mut self) {
        let Some(at) = self.armed.filter(|at| self.subject.events() > *at) else { return };
        let (step, events) = (self.trace.pop(), at - self.on_since);
        match self.trace.last_mut() {
            Some(Step::Cut(cuts)) => cuts.push(events),
            _ => self.trace.push(Step::Cut(vec![events])),
        }
        self.trace.extend(step);
    }

    /// The step with names that exist, where it asks for them.
    fn found(&mut self, step: &Step) -> Step {
        let names = ops::names(&mut self.model, &mut self.cx).expect("a model");
        let mut step = step.clone();
        match &mut step {
            Step::Op(op) => op.find(&names),
            Step::List(_, _, ops) => ops.iter_mut().for_each(|op| op.find(&names)),
            Step::Fsync(Which::Named(at), _) | Step::Flags(at, _) => at.find(&names),
            _ => {}
        }
        step
    }

    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::List(dir, first, ops) => self.list(dir.as_ref(), *first, ops),
            Step::Remount { clean } => self.remount(*clean),
            Step::Cut(cuts) => {
                self.cuts = cuts.iter().copied().collect();
                self.arm();
                Ok(())
            }
            Step::Idle(seconds) => {
                self.cx.spend(Ns(seconds * SECOND));
                match self.subject.idle(&mut self.cx) {
                    // What a failed program was to write finds no room; the thread tries again later.
                    Err(FsError::NoSpace) if self.subject.may_give_up() => Ok(()),
                    done => Ok(done?),
                }
            }
            other => self.call(other),
        }
    }

    fn caller(&mut self) -> Caller<'_, S::Fs> {
        Caller { fs: self.subject.fs(), cx: &mut self.cx, session: &mut self.session }
    }

    /// One call here and there.
    fn call(&mut self, step: &Step) -> Result<(), Failure> {
        // Each call has a time of its own, the same on both sides, in whole seconds: UBIFS may have no finer times.
        self.cx.wait_until(Ns((self.cx.now().0 / SECOND + 1) * SECOND));
        if let (Step::Op(Op::Rename(from, ..)), true) = (step, self.subject.renames_in_two()) {
            // The model has no directory with two names.
            if matches!(self.caller().find(from), Ok((_, FileType::Directory))) {
                return Ok(());
            }
            self.history.rename_in_two();
        }
        let mut cx = self.cx.clone();
        let result = perform(&mut self.caller(), step);
        let shortened = shortened(step, &result);
        let step = shortened.as_ref().unwrap_or(step);
        if matches!(&result, Err(error) if error.errno() == FsError::NoSpace.errno()) {
            self.outcome.refused += 1;
            return self.grown(step, &mut cx);
        }
        let mut caller = Caller { fs: &mut self.model, cx: &mut cx, session: &mut self.model_session };
        let expected = perform(&mut caller, step);
        let safe = match step {
            Step::Fsync(which, data_only) if expected.is_ok() => caller.which(which).ok().map(|at| (at.0, *data_only)),
            _ => None,
        };
        let opened: Vec<Ino> = self.model_session.opened.iter().map(|(ino, _)| *ino).chain(self.listed).collect();
        let wrote = match step {
            Step::Op(Op::Write(_, offset, data)) => *offset..offset + data.length as u64,
            _ => 0..0,
        };
        self.history.record(&mut self.model, &mut cx, &opened, wrote);
        match (result, expected) {
            (Err(error), _) if error.is_power_loss() => return Err(Failure::PowerLost),
            (Err(error @ FsError::ReadOnly { .. }), there) if told(&there) != told(&Err(error.clone())) => {
                return Err(error.into());
            }
            (Ok(here), Ok(there)) if here == there => {}
            (Err(here), Err(there)) if here.errno() == there.errno() => {}
            (here, there) => return Err(Failure::Broken(format!("{} instead of {}", told(&here), told(&there)))),
        }
        if let Some((ino, data_only)) = safe {
            self.history.fsync(ino, data_only);
        }
        if matches!(step, Step::Sync) {
            self.history.sync();
        }
        Ok(())
    }

    /// After a write without space: the model's file grows, if the file did, and gets its time. JFFS2 writes a page from its
    /// beginning, and of two nodes the first, of bytes that were there, may have found space. UBIFS below a page cache moves the times before
    /// it asks for space for a page, as in Linux.
    fn grown(&mut self, step: &Step, cx: &mut Cx) -> Result<(), Failure> {
        let Step::Op(Op::Write(which, offset, _)) = step else { return Ok(()) };
        if !self.subject.changes_in_vain() {
            return Ok(());
        }
        let (ino, _) = self.caller().which(which)?;
        let Attr { size, mtime, .. } = self.subject.fs().getattr(&mut self.cx, ino)?;
        let mut caller = Caller { fs: &mut self.model, cx, session: &mut self.model_session };
        let (there, _) = caller.which(which)?;
        let before = caller.fs.getattr(caller.cx, there)?;
        if (size == *offset && before.size < size) || (size == before.size && mtime != before.mtime) {
            caller.fs.setattr(caller.cx, there, &SetAttr::size(size))?;
            let opened: Vec<Ino> = self.model_session.opened.iter().map(|(ino, _)| *ino).chain(self.listed).collect();
            self.history.record(&mut self.model, cx, &opened, 0..0);
        }
        Ok(())
    }

    fn list(&mut self, dir: Option<&At>, first: usize, ops: &[Op]) -> Result<(), Failure> {
        let found = match dir {
            None => (self.subject.fs().root(), self.model.root()),
            Some(at) => {
                let here = self.caller().find(at);
                let mut cx = self.cx.clone();
                let mut model = Caller { fs: &mut self.model, cx: &mut cx, session: &mut self.model_session };
                match (here, model.find(at)) {
                    (Ok((here, FileType::Directory)), Ok((there, FileType::Directory))) => (here, there),
                    (Ok((_, here)), Ok((_, there))) if here == there => return Ok(()),
                    (Err(here), Err(there)) if here.errno() == there.errno() => return Ok(()),
                    (Err(error), _) => return Err(error.into()),
                    (here, there) => return Err(Failure::Broken(format!("{here:?} instead of {there:?}"))),
                }
            }
        };
        let (here, there) = found;
        self.subject.fs().open(&mut self.cx, here)?;
        self.model.open(&mut self.cx.clone(), there)?;
        self.listed = Some(there);
        let mut seen = Vec::new();
        let cookie = self.read_entries(here, 0, first, &mut seen)?;
        let names = |model: &mut Model| {
            let mut names = BTreeSet::new();
            let mut add = |entry: sim::seam::Dirent<'_>| names.insert(entry.name.to_vec());
            model.readdir(&mut Cx::new(), there, 0, &mut add).map(|()| names)
        };
        let mut staying = names(&mut self.model)?;
        let mut ever = staying.clone();
        for op in ops {
            self.call(&Step::Op(op.clone()))?;
            let now = names(&mut self.model)?;
            staying.retain(|name| now.contains(name));
            ever.extend(now);
        }
        self.read_entries(here, cookie, usize::MAX, &mut seen)?;
        if let Some(name) = staying.iter().find(|name| seen.iter().filter(|other| other == name).count() != 1) {
            let why = format!("{} stays, and is not seen once: {seen:?}", name.escape_ascii());
            return Err(Failure::Broken(why));
        }
        if let Some(name) = seen.iter().find(|name| !ever.contains(*name)) {
            return Err(Failure::Broken(format!("{} is seen, and was never there", name.escape_ascii())));
        }
        self.subject.fs().release(&mut self.cx, here)?;
        self.model.release(&mut self.cx.clone(), there)?;
        self.listed = None;
        Ok(())
    }

    /// Reads up to `most` entries that follow `cookie`. Returns the cookie of the last.
    fn read_entries(
        &mut self,
        dir: Ino,
        mut cookie: u64,
        most: usize,
        seen: &mut Vec<Vec<u8>>,
    ) -> Result<u64, Failure> {
        let mut left = most;
        if left > 0 {
            self.subject.fs().readdir(&mut self.cx, dir, cookie, &mut |entry| {
                seen.push(entry.name.to_vec());
                cookie = entry.cookie;
                left -= 1;
                left > 0
            })?;
        }
        Ok(cookie)
    }

    fn remount(&mut self, clean: bool) -> Result<(), Failure> {
        if !clean {
            return Err(Failure::PowerLost);
        }
        while self.session.opened.len() > 1 {
            self.call(&Step::Op(Op::Release(0)))?;
        }
        self.subject.remount(&mut self.cx, true)?;
        self.begin_anew().map_err(Failure::Broken)
    }

    /// After a mount: the trees are equal, and everything is safe.
    fn begin_anew(&mut self) -> Result<(), String> {
        self.subject.check(&mut self.cx)?;
        let mut here = tree(self.subject.fs(), &mut self.cx).map_err(|error| error.to_string())?;
        let mut there = tree(&mut self.model, &mut self.cx).map_err(|error| error.to_string())?;
        self.subject.comparable(&mut here);
        self.subject.comparable(&mut there);
        if let Some(difference) = here.difference(&there) {
            return Err(difference);
        }
        self.model.check();
        self.session = Session::new(self.subject.fs().root(), 0, 0);
        self.model_session = Session::new(self.model.root(), 0, 0);
        self.listed = None;
        self.history = History::new(&mut self.model, &mut self.cx).leaving(self.subject.leaves());
        Ok(())
    }

    /// After a loss of power: mounts, looks whether what is there may be there, and goes on from that.
    fn recover(&mut self, failure: Failure) -> Result<(), String> {
        let mut failure = failure;
        if matches!(failure, Failure::GaveUp(_)) && self.subject.may_give_up() {
            failure = Failure::PowerLost;
        }
        while let Failure::PowerLost = failure {
            self.outcome.power_cuts += 1;
            self.note_cut();
            self.arm();
            self.on_since = self.subject.events();
            match self.subject.remount(&mut self.cx, false) {
                Ok(()) => {
                    // A look at an inode may mark nodes on flash, and power may fail in that.
                    let found = match Everything::of(self.subject.fs(), &mut self.cx) {
                        Err(error) if error.is_power_loss() => continue,
                        found => found.map_err(|error| error.to_string())?,
                    };
                    self.history.check(&found).map_err(|breach| breach.what)?;
                    self.model = found.model(self.subject.epoch());
                    return self.begin_anew();
                }
                Err(other) => failure = other,
            }
        }
        match failure {
            Failure::Broken(why) | Failure::GaveUp(why) => Err(why),
            Failure::PowerLost => unreachable!("the loop goes on"),
        }
    }
}

fn told(result: &Result<Vec<u8>, FsError>) -> String {
    match result {
        Ok(bytes) => format!("{} bytes, {}", bytes.len(), bytes[..bytes.len().min(32)].escape_ascii()),
        Err(error) => format!("error {} ({error})", error.errno()),
    }
}

/// A write that ended where space did, as it should have been.
fn shortened(step: &Step, result: &Result<Vec<u8>, FsError>) -> Option<Step> {
    let (Step::Op(Op::Write(which, offset, data)), Ok(told)) = (step, result) else { return None };
    let written = u32::from_le_bytes(told[..].try_into().ok()?) as usize;
    let is_short = written > 0 && written < data.length;
    is_short.then(|| Step::Op(Op::Write(which.clone(), *offset, ops::Fill { length: written, ..*data })))
}
