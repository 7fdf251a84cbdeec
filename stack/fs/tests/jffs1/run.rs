//! Runs drawn steps on JFFS and on the model, and compares every result and the trees after each mount.
//!
//! JFFS writes each change before its call returns, so the check of a power cut is strict: what is there is what the model
//! had before the operation that was interrupted, or after it; of a write, also what it had after some of its pages.
//!
//! Times are not compared: the format has seconds, none of directories, and others than Linux has elsewhere.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use fs::jffs1::{Jffs1, Options};
use fs::model::{Model, Tree, tree};
use nand::{Array, ArrayConfig, Bytes, CutAt, Geometry, Medium, PowerCut, Tear};
use sim::seam::{
    DeviceNumber, FileSystem, Flash, FlashError, FsError, InodeFlags, NAME_MAX, Payload, ReadStatus, RenameFlags,
    Timestamp,
};
use sim::{Cx, Ns, Peb, Seed};

use super::ops::{self, At, Caller, Fill, Op, Session, Which};

const PAGE: u64 = 4096;
/// The format has a byte less for names than Linux.
const LONGEST_NAME: usize = NAME_MAX - 1;

#[derive(Clone, Debug)]
pub enum Step {
    Op(Op),
    /// The thread works as long as it has something to do.
    Idle,
    /// A full garbage collection.
    Collect,
    Remount,
    /// Power fails in the operation on the flash that follows so many others, and leaves this.
    Cut(u64, Tear, bool),
}

/// What a run met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub refused: u32,
    pub cuts: u32,
    pub passes: usize,
    pub erased: u64,
}

struct Run {
    fs: Option<Jffs1<Shared>>,
    flash: Shared,
    /// Erases that were completed before this mount.
    erased: u64,
    options: Options,
    session: Session,
    model: Model,
    model_session: Session,
    cx: Cx,
    met: Met,
    /// A program was interrupted whose bits flip: the next mount erases the whole sector.
    has_ended: bool,
}

type Broken = String;

/// A flash that outlives the file system on it. Clones are the same flash.
#[derive(Clone, Debug)]
pub struct Shared {
    array: Rc<RefCell<Array<Bytes>>>,
    geometry: Geometry,
}

impl Shared {
    /// An erased flash.
    pub fn new(sectors: u32, sector: u32) -> Shared {
        let geometry = Geometry {
            medium: Medium::Nor,
            pebs: sectors,
            peb_bytes: sector,
            page_bytes: 1,
            subpage_bytes: 1,
            oob_bytes: 0,
        };
        Shared { array: Rc::new(RefCell::new(Array::new(ArrayConfig::plain(geometry), Bytes::new()))), geometry }
    }

    /// Another flash with the same contents.
    pub fn copy(&self) -> Shared {
        Shared { array: Rc::new(RefCell::new(self.array.borrow().clone())), geometry: self.geometry }
    }

    /// Lets power fail after so many operations more.
    pub fn cut_after(&self, ops: u64, tear: Tear, unstable: bool) {
        let mut array = self.array.borrow_mut();
        let at = CutAt::Op(array.ops() + ops);
        array.set_power_cut(Some(PowerCut { at, seed: Seed(ops), unstable, ..PowerCut::at_op(0, tear) }));
    }

    /// Power comes back.
    pub fn power_on(&self) {
        self.array.borrow_mut().power_on();
    }

    /// Erases begun, and whether there are cells that read differently each time.
    fn erases(&self) -> (u64, bool) {
        let array = self.array.borrow();
        (array.erases_by_cause().total(), array.unstable_cells().next().is_some())
    }
}

impl Flash for Shared {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.array.borrow_mut().read(cx, peb, offset, buf)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.array.borrow_mut().program(cx, peb, offset, data)
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.borrow_mut().erase(cx, peb)
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.array.borrow().is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.borrow_mut().mark_bad(cx, peb)
    }
}

/// Runs steps on an erased flash.
/// Errors: the first mistake.
pub fn run(sectors: u32, sector: u32, options: Options, steps: &[Step]) -> Result<Met, Broken> {
    let mut cx = Cx::new();
    let flash = Shared::new(sectors, sector);
    let fs = Jffs1::mount(flash.clone(), &mut cx, options).map_err(|error| error.to_string())?;
    let model = Model::new(Timestamp::default());
    let session = Session::new(fs.root(), 0, 0);
    let model_session = Session::new(model.root(), 0, 0);
    let met = Met::default();
    let mut run =
        Run { fs: Some(fs), flash, erased: 0, options, session, model, model_session, cx, met, has_ended: false };
    for (number, step) in steps.iter().chain([&Step::Remount]).enumerate() {
        run.step(step).map_err(|why| format!("step {number}, {step:?}: {why}"))?;
        if run.has_ended {
            break;
        }
    }
    Ok(run.met)
}

/// What is compared of a tree.
fn plain(mut tree: Tree) -> Tree {
    for node in tree.nodes.values_mut() {
        node.attr.flags = InodeFlags::default();
        (node.attr.atime, node.attr.mtime, node.attr.ctime) = Default::default();
    }
    tree
}

/// An operation that JFFS can do, with names and numbers of devices that it has.
fn adapted(op: &Op) -> Op {
    let shorter = |at: &At| {
        let path = at.path.iter().map(|name| match name.len() {
            NAME_MAX => name[..LONGEST_NAME].to_vec(),
            _ => name.clone(),
        });
        At { path: path.collect(), ..at.clone() }
    };
    let which = |which: &Which| match which {
        Which::Named(at) => Which::Named(shorter(at)),
        Which::Opened(at) => Which::Opened(*at),
    };
    match op.clone() {
        Op::Create(at, mode) => Op::Create(shorter(&at), mode),
        Op::Mkdir(at, mode) => Op::Mkdir(shorter(&at), mode),
        Op::Mknod(at, file_type, device) => {
            let device = DeviceNumber { major: device.major & 0xff, minor: device.minor & 0xff };
            Op::Mknod(shorter(&at), file_type, device)
        }
        Op::Symlink(at, bytes) => Op::Symlink(shorter(&at), bytes),
        Op::Readlink(at) => Op::Readlink(shorter(&at)),
        Op::Link(from, to) => Op::Link(shorter(&from), shorter(&to)),
        Op::LinkOpened(from, to) => Op::LinkOpened(from, shorter(&to)),
        Op::Unlink(at) => Op::Unlink(shorter(&at)),
        Op::Rmdir(at) => Op::Rmdir(shorter(&at)),
        Op::Rename(from, to, flags) => Op::Rename(shorter(&from), shorter(&to), flags),
        Op::Stat(at) => Op::Stat(shorter(&at)),
        Op::Chmod(at, mode) => Op::Chmod(shorter(&at), mode),
        Op::Chown(at, uid, gid) => Op::Chown(shorter(&at), uid, gid),
        Op::Times(at, atime, mtime) => Op::Times(shorter(&at), atime, mtime),
        Op::Open(at) => Op::Open(shorter(&at)),
        Op::Truncate(of, size) => Op::Truncate(which(&of), size),
        Op::Write(of, offset, data) => Op::Write(which(&of), offset, data),
        Op::Read(of, offset, bytes) => Op::Read(which(&of), offset, bytes),
        other => other,
    }
}

/// Whether JFFS cannot do what the model can.
fn is_missing(op: &Op, error: &FsError) -> bool {
    let no_links = FsError::NotPermitted { ino: sim::seam::Ino(0) }.errno();
    match op {
        Op::Link(..) | Op::LinkOpened(..) => error.errno() == no_links,
        Op::Rename(_, _, flags) => matches!(error, FsError::NotSupported { .. }) && *flags != RenameFlags::NO_REPLACE,
        // A target has to fit into half a sector.
        Op::Symlink(_, bytes) => matches!(error, FsError::NameTooLong { .. }) && *bytes > 3000,
        _ => false,
    }
}

impl Run {
    fn fs(&mut self) -> &mut Jffs1<Shared> {
        self.fs.as_mut().expect("it is mounted")
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        self.cx.wait_until(Ns((self.cx.now().0 / 1_000_000_000 + 1) * 1_000_000_000));
        let mut cx = self.cx.clone();
        let done = match step {
            Step::Op(op) => {
                let mut op = adapted(op);
                op.find(&ops::names(&mut self.model, &mut cx).expect("a model"));
                return self.call(&op);
            }
            Step::Idle => self.idle(&mut cx),
            Step::Collect => self.fs().collect_all(&mut cx, fs::jffs1::Waiting::Nobody),
            Step::Remount => {
                self.end_sessions();
                self.unmount();
                return self.mount(&[]);
            }
            Step::Cut(ops, tear, unstable) => {
                self.flash.cut_after(*ops, *tear, *unstable);
                return Ok(());
            }
        };
        match done {
            Err(error) if error.is_power_loss() => self.recover(Vec::new()),
            other => {
                other.map_err(|error| error.to_string())?;
                self.fs().check();
                Ok(())
            }
        }
    }

    fn idle(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        const MOST: u32 = 100_000;
        for _ in 0..MOST {
            if self.fs().next_wake().is_none() {
                return Ok(());
            }
            self.fs().wake(cx)?;
        }
        panic!("the thread never sleeps");
    }

    /// Closes what is open.
    fn end_sessions(&mut self) {
        let mut cx = self.cx.clone();
        for (ino, _) in self.model_session.opened.split_off(1) {
            self.model.release(&mut cx, ino).expect("it is open");
        }
    }

    fn unmount(&mut self) {
        let fs = self.fs.take().expect("it is mounted");
        self.met.passes += fs.passes().len();
        self.erased += fs.work().erased;
        self.met.erased += fs.work().erased;
    }

    /// One call here and there.
    fn call(&mut self, op: &Op) -> Result<(), Broken> {
        let (mut cx, before) = (self.cx.clone(), self.model.clone());
        let before_session = self.model_session.clone();
        let mut caller =
            Caller { fs: self.fs.as_mut().expect("it is mounted"), cx: &mut cx, session: &mut self.session };
        let here = caller.call(op);
        let (op, is_lost) = match &here {
            Err(error) if error.is_power_loss() => (op.clone(), true),
            Err(FsError::NoSpace) => {
                self.met.refused += 1;
                return Ok(());
            }
            Err(error) if is_missing(op, error) => return Ok(()),
            Ok(told) => (shortened(op, told), false),
            Err(_) => (op.clone(), false),
        };
        let there = self.on_model(&op);
        if is_lost {
            let mut may_be = vec![(before.clone(), before_session.clone())];
            may_be.extend(parts(&op, self.flash.geometry.peb_bytes).into_iter().map(|part| {
                (self.model, self.model_session) = (before.clone(), before_session.clone());
                let _ = self.on_model(&part);
                (self.model.clone(), self.model_session.clone())
            }));
            return self.recover(may_be);
        }
        self.fs().check();
        match (here, there) {
            (Ok(here), Ok(there)) if here == there => Ok(()),
            (Err(here), Err(there)) if here.errno() == there.errno() => Ok(()),
            (here, there) => Err(format!("{here:?} instead of {there:?}")),
        }
    }

    fn on_model(&mut self, op: &Op) -> Result<Vec<u8>, FsError> {
        let mut cx = self.cx.clone();
        Caller { fs: &mut self.model, cx: &mut cx, session: &mut self.model_session }.call(op)
    }

    /// Power comes back. What is there may be what one of these models has; without any, what the model has.
    fn recover(&mut self, may_be: Vec<(Model, Session)>) -> Result<(), Broken> {
        self.unmount();
        self.met.cuts += 1;
        let (begun, unstable) = self.flash.erases();
        if unstable && begun == self.erased {
            self.has_ended = true;
            return Ok(());
        }
        // An interrupted erase is counted.
        self.erased = begun;
        let mut may_be: Vec<Model> = may_be
            .into_iter()
            .map(|(mut model, session)| {
                for (ino, _) in &session.opened[1..] {
                    model.release(&mut Cx::new(), *ino).expect("it is open");
                }
                model
            })
            .collect();
        if may_be.is_empty() {
            self.end_sessions();
            may_be.push(self.model.clone());
        }
        self.flash.power_on();
        self.mount(&may_be)
    }

    /// Mounts, and compares with the model, or with what may be there.
    fn mount(&mut self, may_be: &[Model]) -> Result<(), Broken> {
        let mut cx = self.cx.clone();
        let mut mounted = Jffs1::mount(self.flash.clone(), &mut cx, self.options);
        while matches!(&mounted, Err(error) if error.is_power_loss()) {
            self.met.cuts += 1;
            let (_, unstable) = self.flash.erases();
            if unstable {
                self.has_ended = true;
                return Ok(());
            }
            self.flash.power_on();
            mounted = Jffs1::mount(self.flash.clone(), &mut cx, self.options);
        }
        self.erased = self.flash.erases().0;
        let mut fs = mounted.map_err(|error| error.to_string())?;
        self.erased -= fs.work().erased;
        fs.check();
        let here = plain(tree(&mut fs, &mut cx).map_err(|error| error.to_string())?);
        let fallback = [self.model.clone()];
        let may_be = if may_be.is_empty() { &fallback } else { may_be };
        let mut why = String::new();
        for model in may_be {
            let mut model = model.clone();
            let there = plain(tree(&mut model, &mut cx).expect("a model"));
            match here.difference(&there) {
                None => {
                    self.session = Session::new(fs.root(), 0, 0);
                    self.model_session = Session::new(model.root(), 0, 0);
                    (self.fs, self.model) = (Some(fs), model);
                    return Ok(());
                }
                Some(difference) => why = format!("{why}\n  {difference}"),
            }
        }
        Err(why)
    }
}

/// A write that ended where space did, as it should have been.
fn shortened(op: &Op, told: &[u8]) -> Op {
    let Op::Write(which, offset, data) = op else { return op.clone() };
    let Ok(written) = told.try_into().map(u32::from_le_bytes) else { return op.clone() };
    if written == 0 {
        op.clone()
    } else {
        Op::Write(which.clone(), *offset, Fill { length: written as usize, ..*data })
    }
}

/// What a power cut may leave of an operation: all of it, or of a write the nodes before one. A node ends where a page of
/// the file does, or where it and its raw inode fill half a sector.
fn parts(op: &Op, sector: u32) -> Vec<Op> {
    const RAW_INODE: u64 = 60;
    let Op::Write(which, offset, data) = op else { return vec![op.clone()] };
    let mut lengths = vec![];
    let mut at = *offset;
    while at < offset + data.length as u64 {
        at += (PAGE - at % PAGE).min(u64::from(sector) / 2 - RAW_INODE).min(offset + data.length as u64 - at);
        lengths.push((at - offset) as usize);
    }
    lengths.into_iter().map(|length| Op::Write(which.clone(), *offset, Fill { length, ..*data })).collect()
}

/// Runs steps as [`run`] does.
/// Errors: the first mistake, or a panic, after the fewest steps for which one was found.
pub fn judge(sectors: u32, sector: u32, options: Options, steps: &[Step]) -> Result<Met, Broken> {
    let attempt = |steps: &[Step]| {
        let run = || run(sectors, sector, options, steps);
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            Err(format!("panic: {}", said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of no text")))
        })
    };
    let mut why = match attempt(steps) {
        Ok(met) => return Ok(met),
        Err(why) => why,
    };
    let mut left = steps.to_vec();
    let mut length = left.len();
    while length > 0 {
        let mut at = 0;
        while at < left.len() {
            let fewer = [&left[..at], &left[left.len().min(at + length)..]].concat();
            match attempt(&fewer) {
                Ok(_) => at += length,
                Err(other) => (left, why) = (fewer, other),
            }
        }
        length /= 2;
    }
    let lines: String = left.iter().map(|step| format!("\n    {step:?}")).collect();
    Err(format!("{why}\n{sectors} sectors of {sector}, {options:?}, after{lines}"))
}
