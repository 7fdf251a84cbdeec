//! Calls of programs on files, recorded by strace, as a load.
//!
//! `strace -f -ttt -y -s 0` of a running system says which bytes of which files its programs read and wrote, and when. The
//! calls are made again on the simulated file system, each at its time or one after the other. Files that were there
//! before are made first, as long as the trace shows them. A pass of the trace over, what it left is removed and what was
//! there is restored, and the next pass begins.
//!
//! What the trace does not have: contents, for which random bytes stand in, of which a share may be zero; writes through
//! mappings of memory, `sendfile`, `io_uring`; holes that are punched; names of links, attributes and modes. Files are those below
//! one directory. A relative path begins in the last directory that the process, or else any other, was seen in.

mod line;
mod reader;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;

use sim::seam::{FileSystem, FileType, FsError, Ino, NewInode, ReadInto, RenameFlags, SetAttr};
use sim::{Cx, Ns, Seed};

use super::{Contents, FileOp, FileStep};

pub use reader::StraceError;

/// Bytes that are written at once to make a file.
const CHUNK: u64 = 128 << 10;

/// A name of a file or directory: its number in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name(u32);

impl Name {
    /// The directory of the trace.
    const ROOT: Name = Name(0);
}

/// What is known of a name at the beginning of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Unknown,
    /// The trace makes it.
    Nothing,
    Directory,
    /// A file of so many bytes at least.
    File(u64),
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    /// Time since the first call.
    at: Ns,
    kind: Kind,
}

/// What a call does. Files that are open have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Open {
        file: u32,
        name: Name,
        create: bool,
        truncate: bool,
    },
    Close {
        file: u32,
    },
    Read {
        file: u32,
        offset: u64,
        bytes: u32,
    },
    /// Without an offset at the end of the file.
    Write {
        file: u32,
        offset: Option<u64>,
        bytes: u32,
    },
    Fsync {
        file: u32,
        data_only: bool,
    },
    Truncate {
        name: Name,
        bytes: u64,
    },
    Mkdir {
        name: Name,
    },
    Rmdir {
        name: Name,
    },
    Unlink {
        name: Name,
    },
    Rename {
        from: Name,
        to: Name,
    },
    Sync,
}

/// A trace: its calls, and the names that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    calls: Vec<Call>,
    /// Directory and last part of each name; a directory comes before what is in it.
    names: Vec<(Name, Arc<[u8]>)>,
    before: Vec<Before>,
    left_out: u64,
}

/// What a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls on files of the directory.
    pub calls: u64,
    /// Time from the first to the last.
    pub span: Ns,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Calls of `fsync` and `fdatasync`.
    pub syncs: u64,
    /// Files that were there before.
    pub files_before: u64,
    /// Their bytes.
    pub bytes_before: u64,
    /// Calls with a relative path whose directory nobody knows.
    pub left_out: u64,
}

impl Trace {
    /// Reads a trace of strace. `root` is the directory of the traced system whose files count.
    /// Errors: a line that cannot be read, with its number; no call on a file of the directory.
    pub fn read(input: impl BufRead, root: &str) -> Result<Trace, StraceError> {
        reader::read(input, root)
    }

    fn new() -> Trace {
        let root = (Name::ROOT, Arc::from(&b""[..]));
        Trace { calls: Vec::new(), names: vec![root], before: vec![Before::Directory], left_out: 0 }
    }

    /// What it has.
    pub fn summary(&self) -> Summary {
        let mut found = Summary { calls: self.calls.len() as u64, left_out: self.left_out, ..Summary::default() };
        for call in &self.calls {
            found.span = call.at;
            match call.kind {
                Kind::Write { bytes, .. } => found.written_bytes += u64::from(bytes),
                Kind::Read { bytes, .. } => found.read_bytes += u64::from(bytes),
                Kind::Fsync { .. } => found.syncs += 1,
                _ => {}
            }
        }
        for before in &self.before {
            if let Before::File(bytes) = before {
                found.files_before += 1;
                found.bytes_before += bytes;
            }
        }
        found
    }

    fn add_name(&mut self, dir: Name, part: Arc<[u8]>) -> Name {
        self.names.push((dir, part));
        self.before.push(Before::Unknown);
        Name(self.names.len() as u32 - 1)
    }

    fn directory(&self, name: Name) -> Name {
        self.names[name.0 as usize].0
    }

    fn part(&self, name: Name) -> Arc<[u8]> {
        self.names[name.0 as usize].1.clone()
    }

    /// There is something in it. Whoever opens a directory need not say that it is one.
    fn is_directory(&mut self, name: Name) {
        if let before @ Before::File(_) = &mut self.before[name.0 as usize] {
            *before = Before::Directory;
        }
    }

    fn is_new(&self, name: Name) -> bool {
        self.before[name.0 as usize] == Before::Unknown
    }

    fn is_made(&mut self, name: Name) {
        self.before[name.0 as usize] = Before::Nothing;
    }

    fn was_there(&mut self, name: Name, is_dir: bool) {
        self.before[name.0 as usize] = if is_dir { Before::Directory } else { Before::File(0) };
    }

    /// A file was there with so many bytes at least, if its directory was.
    fn was_as_long(&mut self, name: Name, bytes: u64) {
        let dir = self.before[self.directory(name).0 as usize];
        let before = &mut self.before[name.0 as usize];
        match before {
            Before::File(known) => *known = bytes.max(*known),
            Before::Unknown | Before::Nothing if dir == Before::Directory => *before = Before::File(bytes),
            _ => {}
        }
    }
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Passes; 0: without end.
    pub loops: u64,
    /// Speed relative to the trace, if each call has its time; `None`: one after the other.
    pub speed: Option<f64>,
    /// Part of the contents that is zero, in percent.
    pub compressible_percent: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Makes what was there, or restores it: the name that is next.
    Make(usize),
    /// Calls, and then closes what is open.
    Run,
    /// Removes what the trace left: the name after the next.
    Remove(usize),
    End,
}

/// A trace on a file system.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    options: Options,
    phase: Phase,
    next: usize,
    passes: u64,
    /// When the pass began.
    began: Ns,
    /// One past the last name that was there before.
    last_before: usize,
    /// Inode of each name, as far as it is known.
    inodes: Vec<Option<Ino>>,
    open: BTreeMap<u32, Ino>,
    contents: Contents,
}

impl Replay {
    /// A replay that has not begun.
    pub fn new(trace: Arc<Trace>, options: Options, seed: Seed) -> Replay {
        let contents = Contents::new(seed.stream("strace/contents"), options.compressible_percent);
        Replay {
            inodes: vec![None; trace.names.len()],
            last_before: trace
                .before
                .iter()
                .rposition(|before| matches!(before, Before::Directory | Before::File(_)))
                .map_or(0, |last| last + 1),
            trace,
            options,
            phase: Phase::Make(1),
            next: 0,
            passes: 0,
            began: Ns::ZERO,
            open: BTreeMap::new(),
            contents,
        }
    }

    /// Whether what was there before the trace has been made.
    pub fn is_prepared(&self) -> bool {
        self.passes > 0 || !matches!(self.phase, Phase::Make(at) if at < self.last_before)
    }

    /// When the next call is due; `None` if it is not bound to a time.
    pub fn due(&self) -> Option<Ns> {
        let speed = self.options.speed.filter(|_| self.phase == Phase::Run)?;
        let at = self.trace.calls.get(self.next)?.at;
        Some(Ns(self.began.0.saturating_add((at.0 as f64 / speed) as u64)))
    }

    /// Does the next call; `None` after the last.
    pub fn step<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx) -> Option<FileStep> {
        self.inodes[0] = Some(fs.root());
        loop {
            match self.phase {
                Phase::Make(at) if at < self.trace.names.len() => {
                    self.phase = Phase::Make(at + 1);
                    if let Some(step) = self.make(fs, cx, Name(at as u32)) {
                        return Some(step);
                    }
                }
                Phase::Make(_) => {
                    self.phase = Phase::Run;
                    self.next = 0;
                    self.began = cx.now();
                }
                Phase::Run => {
                    if let Some(&call) = self.trace.calls.get(self.next) {
                        self.next += 1;
                        return Some(self.call(fs, cx, call.kind));
                    }
                    if let Some((file, ino)) = self.open.pop_first() {
                        return Some(told(FileOp::Close, file, (0, 0), fs.release(cx, ino)));
                    }
                    self.passes += 1;
                    let is_last = self.options.loops > 0 && self.passes >= self.options.loops;
                    self.phase = if is_last { Phase::End } else { Phase::Remove(self.trace.names.len()) };
                }
                Phase::Remove(after) if after > 1 => {
                    self.phase = Phase::Remove(after - 1);
                    if let Some(step) = self.remove_left(fs, cx, Name(after as u32 - 1)) {
                        return Some(step);
                    }
                }
                Phase::Remove(_) => self.phase = Phase::Make(1),
                Phase::End => return None,
            }
        }
    }

    fn call<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, kind: Kind) -> FileStep {
        match kind {
            Kind::Open { file, name, create, truncate } => {
                let opened = self.open_file(fs, cx, name, create, truncate);
                let result = opened.and_then(|ino| {
                    fs.open(cx, ino)?;
                    self.open.insert(file, ino);
                    Ok(())
                });
                told(FileOp::Open, name.0, (0, 0), result)
            }
            Kind::Close { file } => {
                let result = self.open.remove(&file).map_or(Ok(()), |ino| fs.release(cx, ino));
                told(FileOp::Close, file, (0, 0), result)
            }
            Kind::Read { file, offset, bytes } => {
                let into = ReadInto::Length(bytes);
                let read = self.opened(file).and_then(|ino| fs.read(cx, ino, offset, into));
                told(FileOp::Read, file, (offset, *read.as_ref().unwrap_or(&0)), read.map(drop))
            }
            Kind::Write { file, offset, bytes } => {
                let written = self.opened(file).and_then(|ino| {
                    let offset = match offset {
                        Some(offset) => offset,
                        None => fs.getattr(cx, ino)?.size,
                    };
                    self.contents.write(fs, cx, ino, offset, bytes)
                });
                told(FileOp::Write, file, (offset.unwrap_or(0), bytes), written)
            }
            Kind::Fsync { file, data_only } => {
                let result = self.opened(file).and_then(|ino| fs.fsync(cx, ino, data_only));
                told(if data_only { FileOp::Fdatasync } else { FileOp::Fsync }, file, (0, 0), result)
            }
            Kind::Truncate { name, bytes } => {
                let result = self.inode(fs, cx, name).and_then(|ino| fs.setattr(cx, ino, &SetAttr::size(bytes)));
                told(FileOp::Truncate, name.0, (0, 0), result.map(drop))
            }
            Kind::Mkdir { name } => {
                let made = self.directory(fs, cx, name);
                let made = made.and_then(|(dir, part)| fs.mkdir(cx, dir, &part, NewInode::of_root(0o755)));
                let result = made.map(|attr| self.inodes[name.0 as usize] = Some(attr.ino));
                told(FileOp::Mkdir, name.0, (0, 0), result)
            }
            Kind::Rmdir { name } => self.remove(fs, cx, name, true),
            Kind::Unlink { name } => self.remove(fs, cx, name, false),
            Kind::Rename { from, to } => {
                let places = self.directory(fs, cx, from).and_then(|from| Ok((from, self.directory(fs, cx, to)?)));
                let result = places.and_then(|((from, old), (to, new))| {
                    fs.rename(cx, (from, &old), (to, &new), RenameFlags::default())
                });
                // A directory takes with it what is in it.
                if result.is_ok() {
                    self.inodes[1..].fill(None);
                }
                told(FileOp::Rename, from.0, (0, 0), result)
            }
            Kind::Sync => told(FileOp::Sync, 0, (0, 0), fs.sync(cx)),
        }
    }

    fn opened(&self, file: u32) -> Result<Ino, FsError> {
        self.open.get(&file).copied().ok_or(FsError::Invalid { why: "a file that could not be opened" })
    }

    /// Inode of a name.
    fn inode<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, name: Name) -> Result<Ino, FsError> {
        if let Some(ino) = self.inodes[name.0 as usize] {
            return Ok(ino);
        }
        let (dir, part) = self.directory(fs, cx, name)?;
        let ino = fs.lookup(cx, dir, &part)?.ino;
        self.inodes[name.0 as usize] = Some(ino);
        Ok(ino)
    }

    /// Inode of the directory that a name is in, and its last part.
    fn directory<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, name: Name) -> Result<(Ino, Arc<[u8]>), FsError> {
        // Names may be deep: no recursion.
        let (mut path, mut dir) = (Vec::new(), self.trace.directory(name));
        while self.inodes[dir.0 as usize].is_none() {
            path.push(dir);
            dir = self.trace.directory(dir);
        }
        let mut ino = self.inodes[dir.0 as usize].unwrap_or(fs.root());
        for dir in path.into_iter().rev() {
            ino = fs.lookup(cx, ino, &self.trace.part(dir))?.ino;
            self.inodes[dir.0 as usize] = Some(ino);
        }
        Ok((ino, self.trace.part(name)))
    }

    fn open_file<F: FileSystem>(
        &mut self,
        fs: &mut F,
        cx: &mut Cx,
        name: Name,
        create: bool,
        truncate: bool,
    ) -> Result<Ino, FsError> {
        match self.inode(fs, cx, name) {
            Err(FsError::NoEntry { .. }) if create => {
                let (dir, part) = self.directory(fs, cx, name)?;
                let ino = fs.create(cx, dir, &part, NewInode::of_root(0o644))?.ino;
                self.inodes[name.0 as usize] = Some(ino);
                Ok(ino)
            }
            Ok(ino) if truncate => fs.setattr(cx, ino, &SetAttr::size(0)).map(|_| ino),
            found => found,
        }
    }

    fn remove<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, name: Name, is_dir: bool) -> FileStep {
        let result = self.directory(fs, cx, name).and_then(|(dir, part)| match is_dir {
            true => fs.rmdir(cx, dir, &part),
            false => fs.unlink(cx, dir, &part),
        });
        if result.is_ok() {
            self.inodes[name.0 as usize] = None;
        }
        told(if is_dir { FileOp::Rmdir } else { FileOp::Remove }, name.0, (0, 0), result)
    }

    /// Makes what was there before, or restores it. `None` if there is nothing to do.
    fn make<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, name: Name) -> Option<FileStep> {
        match self.trace.before[name.0 as usize] {
            Before::Unknown | Before::Nothing => None,
            Before::Directory => match self.inode(fs, cx, name) {
                Err(FsError::NoEntry { .. }) => Some(self.call(fs, cx, Kind::Mkdir { name })),
                _ => None,
            },
            Before::File(bytes) => {
                let size = match self.inode(fs, cx, name).and_then(|ino| fs.getattr(cx, ino)) {
                    Ok(attr) => Some(attr.size),
                    Err(_) => None,
                };
                if size == Some(bytes) {
                    return None;
                }
                if size > Some(bytes) {
                    return Some(self.call(fs, cx, Kind::Truncate { name, bytes }));
                }
                let from = size.unwrap_or(0);
                let result = self.open_file(fs, cx, name, true, false).and_then(|ino| {
                    let mut offset = from;
                    while offset < bytes {
                        let chunk = CHUNK.min(bytes - offset) as u32;
                        self.contents.write(fs, cx, ino, offset, chunk)?;
                        offset += u64::from(chunk);
                    }
                    Ok(())
                });
                Some(FileStep { bytes: bytes - from, ..told(FileOp::Create, name.0, (from, 0), result) })
            }
        }
    }

    /// Removes what the trace left. `None` if there is nothing of this name, or it was there before.
    fn remove_left<F: FileSystem>(&mut self, fs: &mut F, cx: &mut Cx, name: Name) -> Option<FileStep> {
        if self.trace.before[name.0 as usize] != Before::Nothing {
            return None;
        }
        let kind = self.inode(fs, cx, name).and_then(|ino| fs.getattr(cx, ino)).ok()?.file_type;
        Some(self.remove(fs, cx, name, kind == FileType::Directory))
    }
}

fn told(op: FileOp, file: u32, (offset, bytes): (u64, u32), result: Result<(), FsError>) -> FileStep {
    FileStep { op, file, offset, bytes: bytes.into(), calls: u32::from(bytes > 0), result }
}
