//! JFFS or JFFS2 (`jffs.rs`), on the flash itself or on a volume of UBI (`ground.rs`), under a program, or in a device that loses
//! power again and again (`device.rs`).
//!
//! Two actors with a clock each: the program, and the file system's thread. The processor is one and the flash does one thing at a
//! time, so each waits while the other works. The thread works when it has something to do, one pass at a time, and sleeps
//! between two. UBI's thread works beside both. A signal ends its sleep: Linux sends one to JFFS2's when a change leaves work to
//! do, and after each erasure, also while the thread works. It then makes another pass at once, needed or not. Once it found nothing
//! to do only a signal wakes it.
//! Source: Linux 6.12, `fs/jffs2/background.c` and the callers of `jffs2_garbage_collect_trigger`.
//!
//! Program and thread take the same lock to change something. A program that is back at once gets it first, and once more before the
//! lock is handed over; so does the thread. While the program reads flash it does not hold the lock, and the thread gets it.
//! Source: Linux 6.12, `kernel/locking/mutex.c`: a waiter that finds the lock taken again has it handed over the next time.
//!
//! The thread erases a block without the lock, reads it by pages to see whether it is erased, and writes its clean marker. The
//! program, which has waited for the erasure, uses the flash between any two of these, and is that much further when the thread
//! makes its next pass. Source: Linux 6.12, `fs/jffs2/erase.c`.

use nand::{Array, Store};
use sim::seam::FsError;
use sim::{CauseCounts, Cx, Flame, Ns, PassKind, Seed};
use ubi::{Stats, Ubi, UbiError};
use workload::fsstress::Outcome;

use super::MINUTE;
use super::counted::Counted;
use super::device::{Device, Ended};
use super::gc::{By, Gc};
use super::ground::Ground;
use super::jffs::{Jffs, PageReads, Space};
use super::mounted::Use;
use super::program::{NextStep, Prepare, Program, Step};
use crate::measure::outcome::file_system::{FileSystemOutcome, Jffs2Figures, PageCacheOutcome};
use crate::measure::outcome::flash::{Latency, VolumesOutcome};
use crate::measure::outcome::gc::{MountOutcome, Split};
use crate::run::flash::{Done, FlashRunError, Recorder, Rig, named};
use crate::run::thread::Thread;
use crate::schema::Experiment;
use crate::subject::RawFlash;
use crate::subject::jffs::{Jffs as Subject, JffsLoad};
use turns::{Turns, Work};

/// What is done on the file system.
enum Load {
    /// It has not begun.
    None,
    Program(Program),
    Device(Box<Device>),
}

/// Where the flash is.
enum Place<F: Jffs> {
    Mounted(Box<F>),
    Unmounted(Box<F::Ground>),
    /// On its way from one to the other.
    Gone,
}

/// How often the flash was used.
fn uses<S: Store>(array: &Array<S>) -> u64 {
    array.ops() + array.reads().ops
}

/// The file system with its load.
pub(in crate::run) struct OnFlash<'a, F: Jffs> {
    of: &'a Subject<F::Options>,
    ubi: &'a ubi::Config,
    place: Place<F>,
    /// What UBI counted, and what was written to the volume, before it was mounted again.
    before_mount: Option<Box<(Stats, CauseCounts)>>,
    /// What was written to the volume before the load.
    volume_before: CauseCounts,
    load: Load,
    /// The file system's thread, and the split of its last pass.
    thread: Cx,
    last_pass: Split,
    turns: Turns,
    /// When the last operation ended.
    ended: Ns,
    counted: Counted,
    gc: Gc,
    mounts: Vec<MountOutcome>,
    /// Sums over all mounts, and figures of the last one when it ended.
    figures: Jffs2Figures,
    /// Of mounts that have ended, since the load began; and of this one before that.
    page_reads: (PageReads, PageReads),
    free_bytes: Option<u64>,
    /// Free blocks when it was mounted last.
    last_free: u32,
}

/// A mount's parts, so far without the check.
fn mount_of(name: &str, fs: &impl Jffs) -> MountOutcome {
    let parts = fs.parts().into_iter().map(|(part, span)| (part.to_owned(), span.0));
    MountOutcome { name: name.to_owned(), parts: parts.collect() }
}

impl<'a, F: Jffs> OnFlash<'a, F> {
    /// Mounts the erased flash or volume, and brings the load to where its measurement begins.
    /// Errors: those of flash and file system.
    pub fn make(
        experiment: &Experiment,
        flash: &'a RawFlash,
        of: &'a Subject<F::Options>,
        ground: F::Ground,
        cx: &mut Cx,
    ) -> Result<OnFlash<'a, F>, FlashRunError> {
        let setup = |error: FsError| FlashRunError::SetUp { error: error.to_string() };
        let mounted = F::mount(ground, cx, of.mount);
        let fs = mounted.map_err(setup)?;
        let first = mount_of("first", &fs);
        let mut thread = Cx::named(F::COMM);
        thread.wait_until(cx.now());
        let mut files = OnFlash {
            of,
            ubi: &flash.ubi,
            place: Place::Mounted(Box::new(fs)),
            before_mount: None,
            volume_before: CauseCounts::default(),
            load: Load::None,
            thread,
            last_pass: Split::default(),
            turns: Turns::default(),
            ended: cx.now(),
            counted: Counted::default(),
            gc: Gc::new(cx.now()),
            mounts: vec![first],
            figures: Jffs2Figures::default(),
            page_reads: Default::default(),
            free_bytes: None,
            last_free: 0,
        };
        // Times of files are whole seconds: what follows is the same however long the mount took. The thread erases blocks
        // meanwhile.
        let begins = Ns((cx.now() + flash.shelf).0.next_multiple_of(MINUTE.0));
        files.passes_until(begins, None).map_err(setup)?;
        cx.wait_until(begins.max(files.thread.now()));
        files.ended = cx.now();
        let seed = Seed(experiment.seed);
        files.load = match &of.load {
            JffsLoad::Program(load) => Load::Program(Prepare(load, seed, cx).of(files.fs()).map_err(setup)?),
            JffsLoad::Reboots(options, reboots) => {
                Load::Device(Box::new(Device::new(options, *reboots, seed).map_err(setup)?))
            }
        };
        files.prepare(cx).map_err(setup)?;
        if let Load::Device(_) = &files.load {
            files.power_cycle(cx)?;
        }
        files.volume_before = files.ground().written();
        files.page_reads = (PageReads::default(), files.fs().page_reads());
        files.counted = Counted::default();
        files.gc = Gc::new(cx.now());
        files.thread.keep_passes();
        cx.keep_passes();
        if let Load::Program(program) = &mut files.load {
            program.ready(cx.now());
        }
        Ok(files)
    }

    /// What the file system is on, wherever it is.
    fn ground(&self) -> &F::Ground {
        match &self.place {
            Place::Mounted(fs) => fs.ground(),
            Place::Unmounted(ground) => ground,
            Place::Gone => unreachable!("the flash is between two places only within a call"),
        }
    }

    /// Does what comes before the measurement.
    fn prepare(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        loop {
            let before = self.work_done();
            let step = match &mut self.load {
                Load::Program(program) if program.is_prepared() => break,
                Load::Device(device) if device.is_prepared() => break,
                Load::None | Load::Program(_) | Load::Device(_) => self.operation(cx, cx.now())?,
            };
            match step {
                Some(Step { outcome: Outcome::Failed(error), .. }) => return Err(error),
                Some(_) => {}
                None => break,
            }
            self.ended = cx.now();
            self.notice(before);
            self.passes_until(cx.now(), None)?;
            cx.wait_until(self.thread.now());
        }
        self.fs().sync(cx)
    }

    /// Where the flash is, for the caller to put it somewhere else.
    fn take_place(&mut self) -> Place<F> {
        self.page_reads = (self.page_reads(), PageReads::default());
        std::mem::replace(&mut self.place, Place::Gone)
    }

    /// Pages that readers wanted since the load began.
    fn page_reads(&self) -> PageReads {
        let (PageReads { hits, misses }, before) = self.page_reads;
        let now = match &self.place {
            Place::Mounted(fs) => fs.page_reads(),
            Place::Unmounted(_) | Place::Gone => before,
        };
        PageReads { hits: hits + now.hits - before.hits, misses: misses + now.misses - before.misses }
    }

    fn fs(&mut self) -> &mut F {
        match &mut self.place {
            Place::Mounted(fs) => fs,
            Place::Unmounted(_) | Place::Gone => unreachable!("it is mounted while the load goes on"),
        }
    }

    fn error(&self, error: FsError) -> FlashRunError {
        FlashRunError::FileSystem { operation: self.counted.operations, error }
    }

    /// The next operation; `None` after the last.
    fn operation(&mut self, cx: &mut Cx, ready: Ns) -> Result<Option<Step>, FsError> {
        let Place::Mounted(fs) = &mut self.place else { return Ok(None) };
        Ok(match &mut self.load {
            Load::Program(program) => NextStep(program, cx, ready).of(fs.as_mut()),
            Load::Device(device) => device.step(fs.as_mut(), cx, ready),
            Load::None => None,
        })
    }

    fn wake(&mut self) {
        let Place::Mounted(fs) = &self.place else { return };
        let now = self.ended.max(self.thread.now());
        self.turns.wake(now, fs.has_work(), fs.timer_ends(now, self.of.pass_interval), F::SENDS_SIGNALS);
    }

    fn work_done(&self) -> Work {
        match &self.place {
            Place::Mounted(fs) => {
                let (array, counters) = (fs.ground().array(), fs.counters());
                Work { ops: array.ops(), reads: array.reads().ops, locked: counters.reserved, erased: counters.erased }
            }
            Place::Unmounted(_) | Place::Gone => Work::default(),
        }
    }

    /// The program has worked since `before`.
    fn notice(&mut self, before: Work) {
        let now = self.work_done();
        let signal = match &mut self.place {
            Place::Mounted(fs) if F::SENDS_SIGNALS => fs.take_signals() > 0,
            Place::Mounted(fs) => now.erased > before.erased || now.ops > before.ops && fs.has_work(),
            Place::Unmounted(_) | Place::Gone => false,
        };
        self.turns.operated(before, now, signal);
        self.wake();
    }

    /// Lets the thread do what it begins up to `now`. From `idle` on it also collects all garbage.
    /// Errors: the file system's.
    fn passes_until(&mut self, mut now: Ns, idle: Option<Ns>) -> Result<(), FsError> {
        if self.ended != now || !self.turns.takes_lock {
            self.turns.is_free();
        }
        // It makes one more pass before the program gets the lock.
        let mut goes_on = false;
        loop {
            self.wake();
            let Place::Mounted(fs) = &mut self.place else { return Ok(()) };
            let flush = fs.flush_due(self.of.writeback);
            let idle =
                idle.filter(|_| fs.has_garbage()).map(|idle| idle.max(self.thread.now() + self.of.pass_interval));
            let pass = self.turns.due.or(idle);
            let (begins, flushes) = match (pass, flush) {
                (Some(begins), Some(flush)) if flush < begins => (flush, true),
                (Some(begins), _) => (begins, false),
                (None, Some(flush)) => (flush, true),
                (None, None) => return Ok(()),
            };
            // While the program works the thread does not.
            let (wakes, begins) = (begins, begins.max(self.ended));
            if begins > now {
                return Ok(());
            }
            let is_back_at_once = !flushes && self.of.yields && self.ended == now && !goes_on;
            if is_back_at_once && self.turns.is_programs(uses(fs.ground().array()), begins, wakes, self.ended) {
                return Ok(());
            }
            let has_waited = self.turns.threads();
            self.thread.idle_until(begins);
            if flushes {
                fs.flush_waiting(&mut self.thread)?;
                self.turns.signal |= fs.take_signals() > 0;
                self.thread.file("write back");
            } else {
                let erased = fs.counters().erased;
                // A signal that came while it waited for the lock is seen after the pass.
                let signal = has_waited && self.turns.signal;
                let is_done = fs.pass(&mut self.thread)?;
                self.thread.file("collect");
                let erases = fs.counters().erased > erased;
                goes_on = signal && !erases && is_back_at_once;
                if goes_on {
                    now = now.max(self.thread.now());
                }
                let looks = || uses(fs.ground().array()) + F::looks_at_an_erased_block(fs.ground());
                let looks = erases.then(looks);
                self.turns.passed(signal || fs.take_signals() > 0, looks);
                if !is_done {
                    // Nothing can be done until something changes.
                    return Ok(());
                }
            }
            for pass in self.thread.take_passes() {
                self.last_pass = pass.spent.into();
                self.gc.pass(By::Thread, &pass);
            }
        }
    }

    /// The program waits until the thread's pass has ended. Returns how long.
    fn wait_for_the_thread(&mut self, writer: &mut Cx) -> Split {
        let waits = self.thread.now().0.saturating_sub(writer.now().0);
        writer.wait_until(self.thread.now());
        self.last_pass.part(waits)
    }

    /// Mounts the flash after power was lost.
    fn power_cycle(&mut self, writer: &mut Cx) -> Result<(), FlashRunError> {
        if let Place::Mounted(fs) = self.take_place() {
            self.figures.add(&fs.counters());
            let mut ground = fs.into_ground();
            ground.array_mut().set_power_cut(None);
            ground.array_mut().power_on();
            writer.wait_until(self.thread.now());
            let began = writer.now();
            let ground = ground.again(writer, self.ubi, false)?;
            let mounted = F::mount(ground, writer, self.of.mount);
            let fs = mounted.map_err(|error| self.error(error))?;
            writer.file("mount");
            self.place = Place::Mounted(Box::new(fs));
            if let Load::Device(device) = &mut self.load {
                device.booted(writer.now() - began, writer.now());
            }
            self.ended = writer.now();
            self.turns.mounted();
            self.thread.wait_until(writer.now());
        }
        Ok(())
    }

    /// Mounts the flash once more, and lets the thread check everything.
    fn mount_again(&mut self, writer: &mut Cx) -> Result<(), FlashRunError> {
        let ground = match self.take_place() {
            Place::Mounted(fs) => fs.into_ground(),
            Place::Unmounted(ground) => *ground,
            Place::Gone => return Ok(()),
        };
        let attaches = ground.ubi().map(|ubi| Box::new((ubi.stats().clone(), ground.written())));
        let began = writer.now();
        let ground = ground.again(writer, self.ubi, self.of.unmount)?;
        let attached = writer.now() - began;
        let mounted = F::mount(ground, writer, self.of.mount);
        let mut fs = mounted.map_err(|error| self.error(error))?;
        writer.file("mount");
        let mut found = mount_of("last", &fs);
        if attaches.is_some() {
            found.parts.insert(0, ("attach".to_owned(), attached.0));
            self.before_mount = attaches;
        }
        let mut check = Ns::ZERO;
        while !fs.is_checked() {
            let is_done = fs.pass(writer).map_err(|error| self.error(error))?;
            let passes = writer.take_passes();
            check += passes
                .iter()
                .filter(|pass| pass.kind == PassKind::Check)
                .map(|pass| pass.end - pass.start)
                .fold(Ns::ZERO, |sum, span| sum + span);
            if !is_done {
                break;
            }
        }
        writer.file("collect");
        found.parts.push(("check".to_owned(), check.0));
        self.mounts.push(found);
        self.place = Place::Unmounted(Box::new(fs.into_ground()));
        Ok(())
    }

    /// What is on flash now.
    fn note_space(&mut self) {
        let Place::Mounted(fs) = &self.place else { return };
        let Space { used, dirty, free, .. } = fs.space();
        self.last_free = fs.free_blocks();
        self.gc.space(self.ended, (free, dirty));
        (self.figures.used_bytes, self.figures.dirty_bytes, self.figures.free_bytes) = (used, dirty, free);
    }
}

impl<F: Jffs> Rig<<F::Ground as Ground>::S> for OnFlash<'_, F> {
    fn ubi(&self) -> Option<&Ubi<Array<<F::Ground as Ground>::S>>> {
        self.ground().ubi()
    }

    fn ubi_mut(&mut self) -> Option<&mut Ubi<Array<<F::Ground as Ground>::S>>> {
        match &mut self.place {
            Place::Mounted(fs) => fs.ground_mut().ubi_mut(),
            Place::Unmounted(ground) => ground.ubi_mut(),
            Place::Gone => None,
        }
    }

    fn stats(&self) -> Option<&Stats> {
        let now = self.ground().ubi().map(Ubi::stats);
        self.before_mount.as_ref().map(|before| &before.0).or(now)
    }

    fn array(&self) -> &Array<<F::Ground as Ground>::S> {
        self.ground().array()
    }

    fn free_blocks(&self) -> u32 {
        match (self.ground().ubi(), &self.place) {
            (Some(ubi), _) => ubi.wear().free().len(),
            (None, Place::Mounted(fs)) => fs.free_blocks(),
            (None, Place::Unmounted(_) | Place::Gone) => self.last_free,
        }
    }

    fn step(&mut self, writer: &mut Cx, _: &mut Recorder) -> Result<Option<&'static str>, FlashRunError> {
        let due = match &self.load {
            Load::Program(program) => program.due(),
            Load::None | Load::Device(_) => None,
        };
        let step = self.next(writer, due);
        match step {
            Ok(Some(step)) => {
                self.ended = writer.now();
                self.note_space();
                self.counted.add(step, writer.now(), false).map_err(|error| self.error(error))?;
                Ok(None)
            }
            Ok(None) => match &mut self.load {
                Load::None | Load::Program(_) => Ok(Some("workload")),
                Load::Device(device) => {
                    let Place::Mounted(fs) = &mut self.place else { return Ok(Some("workload")) };
                    match device.stage_ended(fs.ground_mut().array_mut(), writer.now()) {
                        Ended::Stage => Ok(None),
                        Ended::SwitchedOff => self.power_cycle(writer).map(|()| None),
                        Ended::All => Ok(Some("workload")),
                    }
                }
            },
            Err(error) if error.is_power_loss() => self.power_cycle(writer).map(|()| None),
            Err(error) => Err(self.error(error)),
        }
    }

    fn background(&mut self, _: &mut Thread, now: Ns) -> Result<(), UbiError> {
        match &mut self.place {
            Place::Mounted(fs) => fs.ground_mut().run_until(now),
            Place::Unmounted(_) | Place::Gone => Ok(()),
        }
    }

    /// Writes everything, and unmounts if that is wanted.
    fn end(&mut self, writer: &mut Cx) -> Result<(), FlashRunError> {
        let Place::Mounted(fs) = &mut self.place else { return Ok(()) };
        writer.idle_until(self.thread.now());
        let done = if self.of.unmount { fs.sync(writer) } else { Ok(()) };
        let free = done.and_then(|()| fs.statfs(writer));
        writer.file("sync");
        self.ended = writer.now();
        let free = free.map_err(|error| self.error(error))?;
        self.free_bytes = Some(free.free * u64::from(free.block_bytes));
        self.note_space();
        if self.of.unmount
            && let Place::Mounted(fs) = self.take_place()
        {
            self.figures.add(&fs.counters());
            let done = fs.unmount(writer);
            writer.file("unmount");
            self.place = Place::Unmounted(Box::new(done.map_err(|error| self.error(error))?));
        }
        if self.of.mount_again { self.mount_again(writer) } else { Ok(()) }
    }

    fn done(&self) -> Done {
        Done { writes: self.counted.operations, host_bytes: self.counted.written }
    }

    fn share(&self) -> f64 {
        let all = match (&self.of.load, &self.load) {
            (_, Load::Device(device)) => return device.share(),
            (JffsLoad::Program(load), _) => load.operations().unwrap_or(u64::MAX),
            (JffsLoad::Reboots(..), _) => u64::MAX,
        };
        (self.counted.operations as f64 / all as f64).min(1.0)
    }

    fn latency(&self, _: &Recorder) -> Vec<Latency> {
        self.counted.latency()
    }

    fn volumes(&self) -> Option<VolumesOutcome> {
        None
    }

    fn file_system(&self) -> Option<FileSystemOutcome> {
        let mut figures = self.figures;
        if let Place::Mounted(fs) = &self.place {
            figures.add(&fs.counters());
        }
        let reboots = match &self.load {
            Load::Device(device) => Some(device.outcome()),
            Load::None | Load::Program(_) => None,
        };
        let written = self.before_mount.as_ref().map_or_else(|| self.ground().written(), |before| before.1);
        Some(FileSystemOutcome {
            lebs: self.of.lebs.unwrap_or_default(),
            volume_bytes: named(&written.since(&self.volume_before)),
            free_bytes: self.free_bytes,
            gc: Some(self.gc.outcome()),
            mounts: self.mounts.clone(),
            jffs2: (F::KIND == "jffs2").then_some(figures),
            page_cache: self.of.has_page_cache.then(|| {
                let PageReads { hits, misses } = self.page_reads();
                PageCacheOutcome { hits, misses, ..PageCacheOutcome::default() }
            }),
            reboots,
            ..self.counted.outcome(F::KIND, self.of.load.name())
        })
    }

    fn record(&mut self) {
        self.thread.record();
        if let Place::Mounted(fs) = &mut self.place {
            fs.ground_mut().record();
        }
    }

    fn stop_recording(&mut self) -> Vec<(&'static str, Flame)> {
        let below = match &mut self.place {
            Place::Mounted(fs) => fs.ground_mut().stop_recording(),
            Place::Unmounted(ground) => ground.stop_recording(),
            Place::Gone => None,
        };
        let own = self.thread.stop_recording().map(|flame| (F::THREAD, flame));
        own.into_iter().chain(below.map(|flame| ("UBI", flame))).collect()
    }

    fn into_array(self, writer: &mut Cx, keeps: bool) -> Result<Array<<F::Ground as Ground>::S>, FlashRunError> {
        let operation = self.counted.operations;
        let ground = match self.place {
            Place::Mounted(fs) if keeps => {
                let done = fs.unmount(writer);
                done.map_err(|error| FlashRunError::FileSystem { operation, error })?
            }
            Place::Mounted(fs) => fs.into_ground(),
            Place::Unmounted(ground) => *ground,
            Place::Gone => unreachable!("the flash is between two places only within a call"),
        };
        ground.into_array(writer, keeps)
    }
}

impl<F: Jffs> OnFlash<'_, F> {
    /// Does the next operation, after the thread has done what it begins before. `None` after the last.
    fn next(&mut self, writer: &mut Cx, due: Option<Ns>) -> Result<Option<Step>, FsError> {
        if let Some(due) = due.filter(|&due| due > writer.now()) {
            let idle = self.of.idle_gc.map(|after| self.ended + after);
            self.passes_until(due, idle)?;
            writer.idle_until(due);
        }
        let ready = writer.now();
        if matches!(&self.load, Load::Device(device) if device.is_stage_over()) {
            return self.operation(writer, ready);
        }
        writer.spend(self.of.operation);
        let mut waited = Split::default();
        loop {
            self.passes_until(writer.now(), None)?;
            waited = waited.plus(self.wait_for_the_thread(writer));
            match self.turns.due.filter(|_| !self.of.yields) {
                Some(due) => writer.wait_until(due),
                None => break,
            }
        }
        self.look_up(writer)?;
        waited = waited.plus(self.wait_for_the_thread(writer));
        let before = self.work_done();
        let Some(step) = self.operation(writer, ready)? else { return Ok(None) };
        let mut stalled = waited;
        for pass in writer.take_passes() {
            stalled = stalled.plus(pass.spent.into());
            self.gc.pass(By::Writer, &pass);
        }
        writer.spend(F::copy(&self.of.mount, step.read + step.written));
        writer.file(step.op);
        self.ended = writer.now();
        self.notice(before);
        self.gc.stall(step.op, ready, stalled);
        if let Outcome::Failed(error) = &step.outcome
            && error.is_power_loss()
        {
            return Err(error.clone());
        }
        Ok(Some(step))
    }
}

impl<F: Jffs> OnFlash<'_, F> {
    /// Looks up the file that the program opens next, without the lock, and lets the thread work meanwhile: Linux reads an inode before
    /// it truncates it.
    /// Errors: the file system's.
    fn look_up(&mut self, writer: &mut Cx) -> Result<(), FsError> {
        let before = self.work_done();
        let (Place::Mounted(fs), Load::Device(device)) = (&mut self.place, &self.load) else { return Ok(()) };
        device.look_up(fs.as_mut(), writer)?;
        if self.work_done() == before {
            return Ok(());
        }
        self.ended = writer.now();
        self.notice(before);
        self.passes_until(writer.now(), None)
    }
}

#[cfg(test)]
mod tests;
mod turns;
