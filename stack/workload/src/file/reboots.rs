//! A device that is switched on, starts, copies files, and loses power, again and again: the test of power failures of which
//! jffs-dev wrote in June 2001.
//!
//! Each time it is on, it reads files of the system and writes its state (stage `init`); it copies files over those of the
//! time before (stage `copy`); and it copies on, until power fails. Whoever runs it switches power off in that last stage, at
//! a moment of its choice, and mounts the file system again. What a start writes does not depend on how far the last one came.

use sim::seam::{FileSystem, FsError, Ino, NewInode, ReadInto, SetAttr};
use sim::{Cx, Seed};

use super::{Contents, FileOp, FileStep};

/// Options of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Files of the system, which never change, and bytes of each.
    pub system: (u32, u64),
    /// How many of them each start reads.
    pub read: u32,
    /// Small files that each start writes anew, and bytes of each.
    pub state: (u32, u64),
    /// Files that are copied, and bytes of each.
    pub copied: (u32, u64),
    /// Bytes of a write or read.
    pub write_bytes: u32,
    /// How much of the contents can be compressed away, in percent.
    pub compressible_percent: u32,
}

/// What the device is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The files of the system are written, before it is switched on for the first time.
    Setup,
    /// It reads the system's files and writes its state.
    Init,
    /// It copies files.
    Copy,
    /// It copies them again, until power fails.
    On,
}

/// The load.
#[derive(Clone, Debug)]
pub struct Reboots {
    options: Options,
    stage: Stage,
    /// The part of the stage: reads or writes of a group of files.
    part: usize,
    file: u32,
    at: Option<(Ino, u64)>,
    seed: Seed,
    /// How often it was switched on.
    starts: u64,
    contents: Contents,
}

#[derive(Clone, Copy)]
enum Part {
    Read(&'static str),
    Write(&'static str),
}

impl Stage {
    const fn parts(self) -> &'static [Part] {
        match self {
            Stage::Setup => &[Part::Write("system"), Part::Write("state"), Part::Write("copied")],
            Stage::Init => &[Part::Read("system"), Part::Write("state")],
            Stage::Copy | Stage::On => &[Part::Write("copied")],
        }
    }
}

impl Reboots {
    /// A load that has not begun. Its files, `system.0` and so on, come into the root.
    /// Errors: `Invalid` without a file that is copied.
    pub fn new(options: &Options, seed: Seed) -> Result<Reboots, FsError> {
        if options.copied.0 == 0 || options.copied.1 == 0 || options.write_bytes == 0 {
            return Err(FsError::Invalid { why: "no file is copied, or none with bytes" });
        }
        let contents = Contents::new(seed.stream("workload/reboots"), options.compressible_percent);
        let mut load =
            Reboots { options: *options, stage: Stage::Setup, part: 0, file: 0, at: None, seed, starts: 0, contents };
        load.skip_parts();
        Ok(load)
    }

    /// The stage that the next call is of.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The device is switched on.
    pub fn switch_on(&mut self) {
        self.starts += 1;
        let random = self.seed.stream(&format!("workload/reboots/{}", self.starts));
        self.contents = Contents::new(random, self.options.compressible_percent);
        self.begin(Stage::Init);
    }

    fn begin(&mut self, stage: Stage) {
        (self.stage, self.part, self.file, self.at) = (stage, 0, 0, None);
        self.skip_parts();
    }

    /// Does the next call. `None`: a stage has ended, and another has begun; after that of the setup nothing is left to be done until
    /// the device is switched on.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        let Some((part, _, bytes)) = self.part() else {
            self.begin(match self.stage {
                Stage::Setup | Stage::Init => Stage::Copy,
                Stage::Copy | Stage::On => Stage::On,
            });
            return None;
        };
        let (Part::Read(name) | Part::Write(name)) = part;
        let writes = matches!(part, Part::Write(_));
        Some(match self.at {
            None => self.open(fs, cx, name, writes),
            Some((ino, offset)) => self.move_on(fs, cx, ino, (offset, bytes), writes),
        })
    }

    /// Whether the stage has no call left: [`step`](Self::step) ends it.
    pub fn is_stage_over(&self) -> bool {
        self.part().is_none()
    }

    /// The file that the next call opens, if it opens one.
    pub fn opens(&self) -> Option<String> {
        let (Part::Read(name) | Part::Write(name), ..) = self.part()?;
        self.at.is_none().then(|| format!("{name}.{}", self.file))
    }

    /// The part that is under way, with the number of its files and the bytes of each; `None` at the end of a stage.
    fn part(&self) -> Option<(Part, u32, u64)> {
        let part = *self.stage.parts().get(self.part)?;
        let (files, bytes) = match part {
            Part::Read(_) => (self.options.read, self.options.system.1),
            Part::Write("system") => self.options.system,
            Part::Write("state") => self.options.state,
            Part::Write(_) => self.options.copied,
        };
        Some((part, files, bytes))
    }

    fn next_file(&mut self) {
        (self.file, self.at) = (self.file + 1, None);
        self.skip_parts();
    }

    /// Goes on with the next part that has files.
    fn skip_parts(&mut self) {
        while self.part().is_some_and(|(_, files, _)| self.file == files) {
            (self.part, self.file) = (self.part + 1, 0);
        }
    }

    /// Opens a file to read it, or makes or empties it to write it.
    fn open<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, name: &str, writes: bool) -> FileStep {
        let file = self.file;
        let (root, name) = (fs.root(), format!("{name}.{file}"));
        let (op, opened) = match fs.lookup(cx, root, name.as_bytes()) {
            Ok(attr) if writes => (FileOp::Truncate, fs.setattr(cx, attr.ino, &SetAttr::size(0))),
            Err(FsError::NoEntry { .. }) if writes => {
                (FileOp::Create, fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644)))
            }
            found => (FileOp::Open, found),
        };
        match &opened {
            Ok(attr) => self.at = Some((attr.ino, 0)),
            Err(_) => self.next_file(),
        }
        FileStep { op, file, offset: 0, bytes: 0, calls: 0, result: opened.map(drop) }
    }

    /// Reads or writes the next bytes of a file.
    fn move_on<F: FileSystem>(
        &mut self,
        fs: &mut F,
        cx: &mut Cx,
        ino: Ino,
        (offset, all): (u64, u64),
        writes: bool,
    ) -> FileStep {
        let file = self.file;
        let bytes = u64::from(self.options.write_bytes).min(all - offset) as u32;
        let (op, result) = match writes {
            true => (FileOp::Write, self.contents.write(fs, cx, ino, offset, bytes)),
            false => (FileOp::Read, fs.read(cx, ino, offset, ReadInto::Length(bytes)).map(drop)),
        };
        self.at = Some((ino, offset + u64::from(bytes)));
        if result.is_err() || offset + u64::from(bytes) >= all {
            self.next_file();
        }
        let bytes = if result.is_ok() { bytes.into() } else { 0 };
        FileStep { op, file, offset, bytes, calls: 1, result }
    }
}
