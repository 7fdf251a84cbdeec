//! JFFS, which has the flash to itself, under its load: the flash is filled, and what follows is measured.
//!
//! One actor: the processor of such a device is one, and JFFS holds its lock while it works. Its thread works after each
//! operation as long as it has something to do.

use fs::jffs1::{Jffs1, Waiting};
use nand::{Array, Store};
use sim::seam::{FileSystem, FsError, NewInode, Payload};
use sim::{Cx, Seed};

use crate::flame::Graph;
use crate::measure::outcome::flash::{FlashOutcome, Groups, Point};
use crate::measure::outcome::jffs1::{Followed, JffsOutcome};
use crate::measure::outcome::table::WearTable;
use crate::measure::{Detail, Measured, of_jffs};
use crate::run::flash::{FlashRunError, named};
use crate::run::{Progress, Reports};
use crate::schema::Experiment;
use crate::schema::jffs::Then;
use crate::subject::RawFlash;
use crate::subject::jffs1::Filled;

/// Operations after which the usage of the flash is counted, for which all nodes are looked at.
const LOOK_EVERY: u64 = 64;
/// Operations between two reports of progress.
const REPORT_EVERY: u64 = 16 * LOOK_EVERY;

/// A run under way.
struct Run<'a, S: Store> {
    fs: Jffs1<Array<S>>,
    of: &'a Filled,
    cx: Cx,
    points: f64,
    operations: u64,
    written: u64,
    timeline: Vec<Point>,
}

/// Runs the load on a store, which must be erased and keep bytes. Also returns the store with the contents at the end.
/// Errors: [`FlashRunError`].
pub(in crate::run) fn run<S: Store>(
    experiment: &Experiment,
    flash: &RawFlash,
    of: &Filled,
    store: S,
    reports: Reports<'_>,
) -> Result<(Measured, S), FlashRunError> {
    let mut cx = Cx::new();
    if reports.wants_flame() {
        cx.record();
    }
    let fs = Jffs1::mount(Array::new(flash.array.clone(), store), &mut cx, of.mount);
    let fs = fs.map_err(|error| FlashRunError::SetUp { error: error.to_string() })?;
    cx.file("mount");
    let mount_empty = fs.work().into();
    let points = f64::from(experiment.record.points.clamp(2, 10_000));
    let mut run = Run { fs, of, cx, points, operations: 0, written: 0, timeline: Vec::new() };
    run.fill(experiment, reports)?;
    let full = run.fs.usage().into();
    let passes: Vec<_> = run.fs.passes().iter().map(Into::into).collect();
    let (run, then) = match of.fill.then {
        Then::Nothing => (run, None),
        Then::Mount => run.mount_again()?,
        Then::DeleteHalf => run.delete_half(passes.len())?,
    };
    Ok(run.measured(JffsOutcome { mount_empty, full, passes, then }))
}

impl<S: Store> Run<'_, S> {
    /// Appends blocks to the files in turn until there is no space.
    fn fill(&mut self, experiment: &Experiment, mut reports: Reports<'_>) -> Result<(), FlashRunError> {
        let load = &self.of.fill;
        let (root, width) = (self.fs.root(), load.name_bytes as usize);
        let mut files = Vec::new();
        for number in 0..load.files {
            let name = format!("{number:0width$}");
            let made = self.fs.create(&mut self.cx, root, name.as_bytes(), NewInode::of_root(0o644));
            match self.did("create", made)? {
                Some(attr) => files.push((attr.ino, 0)),
                None => return Ok(()),
            }
        }
        let mut rng = Seed(experiment.seed).stream("runner/fill");
        let mut block = Vec::new();
        let size = self.fs.flash().config().geometry.bytes();
        loop {
            for (ino, end) in &mut files {
                let lengths = u64::from(load.most_bytes - load.least_bytes) + 1;
                block.resize(load.least_bytes as usize + rng.below(lengths) as usize, 0);
                block.fill_with(|| rng.bits() as u8);
                let written = self.fs.write(&mut self.cx, *ino, *end, Payload::Bytes(&block));
                let Some(written) = self.did("append", written)? else { return Ok(()) };
                *end += u64::from(written);
                self.written += u64::from(written);
                if !self.operations.is_multiple_of(LOOK_EVERY) {
                    continue;
                }
                let done = 1.0 - self.fs.usage().free_bytes as f64 / size as f64;
                if done * self.points >= self.timeline.len() as f64 {
                    self.point();
                }
                if self.operations.is_multiple_of(REPORT_EVERY) {
                    let work = self.fs.work().erased;
                    let progress = Progress { done, virtual_ns: self.cx.now().0, work, so_far: None };
                    reports.report(progress, None);
                }
            }
        }
    }

    /// An operation of the load ended; `None` if it found no space. JFFS's thread works.
    fn did<T>(&mut self, op: &'static str, done: Result<T, FsError>) -> Result<Option<T>, FlashRunError> {
        self.cx.file(op);
        self.operations += 1;
        let done = match done {
            Err(FsError::NoSpace) => return Ok(None),
            other => other.map_err(|error| self.failed(error))?,
        };
        while self.fs.next_wake().is_some() {
            self.fs.wake(&mut self.cx).map_err(|error| self.failed(error))?;
        }
        self.cx.file("collect");
        Ok(Some(done))
    }

    fn failed(&self, error: FsError) -> FlashRunError {
        FlashRunError::FileSystem { operation: self.operations, error }
    }

    /// Mounts the full flash.
    fn mount_again(self) -> Result<(Self, Option<Followed>), FlashRunError> {
        let Run { fs, mut cx, of, operations, .. } = self;
        let fs = Jffs1::mount(fs.unmount(), &mut cx, of.mount);
        let fs = fs.map_err(|error| FlashRunError::FileSystem { operation: operations, error })?;
        cx.file("mount");
        let mounted = fs.mounted();
        let parts = [
            ("reread", mounted.reread),
            ("scan", mounted.scan),
            ("build", mounted.build),
            ("collect", mounted.collect),
        ];
        let then = Followed {
            work: fs.work().into(),
            parts: parts.map(|(name, work)| (name.to_owned(), work.into())).to_vec(),
            left: fs.usage().into(),
            passes: fs.passes().iter().map(Into::into).collect(),
        };
        Ok((Run { fs, cx, ..self }, Some(then)))
    }

    /// Removes every second file, and collects all garbage, which is measured. There were so many passes before.
    fn delete_half(mut self, passes: usize) -> Result<(Self, Option<Followed>), FlashRunError> {
        let root = self.fs.root();
        let mut names = Vec::new();
        let listed = self.fs.readdir(&mut self.cx, root, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        });
        listed.map_err(|error| self.failed(error))?;
        for name in names.iter().step_by(2) {
            // The thread waits, as the deletions come one after another.
            let done = self.fs.unlink(&mut self.cx, root, name);
            self.cx.file("unlink");
            self.operations += 1;
            done.map_err(|error| self.failed(error))?;
        }
        self.point();
        let before = self.fs.work();
        let done = self.fs.collect_all(&mut self.cx, Waiting::Nobody);
        self.cx.file("collect");
        done.map_err(|error| self.failed(error))?;
        let then = Followed {
            work: (self.fs.work() - before).into(),
            parts: Vec::new(),
            left: self.fs.usage().into(),
            passes: self.fs.passes()[passes..].iter().map(Into::into).collect(),
        };
        Ok((self, Some(then)))
    }

    /// A point of the timeline.
    fn point(&mut self) {
        let flash = self.fs.flash();
        self.timeline.push(Point {
            t_ns: self.cx.now().0,
            erases: flash.erases_by_cause().total(),
            free: (self.fs.usage().free_bytes / u64::from(flash.config().geometry.peb_bytes)) as u32,
            waf: flash.programmed_bytes().total() as f64 / self.written.max(1) as f64,
            groups: Groups::of(flash.erase_counts()),
        });
    }

    fn measured(mut self, jffs: JffsOutcome) -> (Measured, S) {
        self.point();
        let elapsed = self.cx.now();
        let flame = self.cx.stop_recording().map(|flame| Box::new(Graph::of_threads(&[("JFFS", flame)])));
        let flash = self.fs.unmount();
        let erase_counts = flash.erase_counts().to_vec();
        let found = FlashOutcome {
            steps: self.operations,
            volume_lebs: 0,
            host_bytes: self.written,
            failure: None,
            volumes: None,
            file_system: None,
            jffs: Some(jffs),
            table: WearTable::of(&erase_counts),
            groups: Groups::of(&erase_counts),
            fastmap: None,
            user_pool_sizes: Vec::new(),
            programmed_bytes: named(flash.programmed_bytes()),
            erases_by_cause: named(flash.erases_by_cause()),
            latency: Vec::new(),
            timeline: self.timeline,
        };
        let metrics = found.jffs.as_ref().map(|jffs| of_jffs(&found, jffs, &erase_counts, elapsed.0));
        let measured = Measured {
            stopped_by: "workload".to_owned(),
            virtual_ns: elapsed.0,
            metrics: metrics.unwrap_or_default(),
            erase_counts,
            faults: None,
            guest: None,
            flame,
            detail: Detail::Flash(Box::new(found)),
        };
        (measured, flash.into_store())
    }
}
