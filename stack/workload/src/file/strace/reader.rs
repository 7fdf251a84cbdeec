//! From lines of strace to calls on files: which file a descriptor is, where it stands, and what was there before.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;

use sim::Ns;
use thiserror::Error;

use super::line::{self, Line, Refused};
use super::{Call, Kind, Name, Trace};

/// Longest line in bytes.
const LINE_BYTES: u64 = 1 << 20;
/// Most calls of a trace: some 600 MB.
const CALLS: usize = 16_000_000;
/// Most names of files and directories.
const NAMES: usize = 4_000_000;
/// Most files that are open at once, and calls that were not ended.
const OPEN: usize = 10_000;
/// Longest name, in bytes: Linux's `NAME_MAX`.
const NAME_MAX: usize = 255;
/// Largest file, in bytes.
const FILE_BYTES: u64 = 1 << 40;

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum StraceError {
    /// A line that is not strace's, or that lacks what is needed.
    #[error("line {line}: {why}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// What was found, and what was expected.
        why: String,
    },
    /// No call works on a file in the directory.
    #[error("none of {lines} lines has a call on a file in {root}")]
    Nothing {
        /// Lines of the trace.
        lines: u64,
        /// The directory.
        root: String,
    },
    /// The input fails.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// An open descriptor of a process.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    name: Name,
    file: u32,
    /// Whether the trace does not have its opening: it is a copy of another.
    is_copy: bool,
}

/// An open file: what descriptors that were copied have in common.
#[derive(Clone, Copy, Debug)]
struct Position {
    offset: u64,
    append: bool,
    descriptors: u32,
}

struct Reader {
    root: Vec<u8>,
    trace: Trace,
    known: BTreeMap<(Name, Arc<[u8]>), Name>,
    /// By process and number.
    descriptors: BTreeMap<(u32, i64), Descriptor>,
    files: BTreeMap<u32, Position>,
    next_file: u32,
    /// Working directory of each process, as far as it is known.
    directories: BTreeMap<u32, Vec<u8>>,
    /// Calls that have begun, by process.
    unfinished: BTreeMap<u32, (Ns, String)>,
    /// Size of each file as far as the trace says, by name.
    sizes: BTreeMap<Name, u64>,
    first: Option<Ns>,
    last: Ns,
}

/// Reads a trace. Calls on files that are not below `root` are left out, and others than on files.
/// Errors: a line that cannot be read, with its number; no call is left.
pub(super) fn read(mut input: impl BufRead, root: &str) -> Result<Trace, StraceError> {
    let root = root.trim_end_matches('/');
    let mut reader = Reader::new(root.as_bytes());
    let (mut number, mut bytes) = (0u64, Vec::new());
    loop {
        bytes.clear();
        let read = std::io::Read::take(&mut input, LINE_BYTES).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            break;
        }
        number += 1;
        let refused = |why: &str| StraceError::Line { line: number, why: why.to_owned() };
        if read as u64 == LINE_BYTES && bytes.last() != Some(&b'\n') {
            return Err(refused("found a line of more than 1 MiB, expected a shorter one: record with -s 0"));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| refused("found bytes that are no text"))?;
        reader.line(text).map_err(refused)?;
    }
    if reader.trace.calls.is_empty() {
        return Err(StraceError::Nothing { lines: number, root: if root.is_empty() { "/" } else { root }.to_owned() });
    }
    Ok(reader.trace)
}

impl Reader {
    fn new(root: &[u8]) -> Reader {
        Reader {
            root: root.to_vec(),
            trace: Trace::new(),
            known: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            files: BTreeMap::new(),
            next_file: 0,
            directories: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            sizes: BTreeMap::new(),
            first: None,
            last: Ns::ZERO,
        }
    }

    fn line(&mut self, text: &str) -> Result<(), Refused> {
        let Some(head) = line::head(text)? else { return Ok(()) };
        if head.rest.starts_with("+++") {
            return self.ended(head.process, head.at);
        }
        if head.rest.starts_with("---") {
            return Ok(());
        }
        if let Some(begun) = head.rest.strip_suffix("<unfinished ...>") {
            if self.unfinished.len() >= OPEN {
                return Err("found too many calls that were not ended");
            }
            self.unfinished.insert(head.process, (head.at, begun.trim_end().to_owned()));
            return Ok(());
        }
        if let Some(resumed) = head.rest.strip_prefix("<... ") {
            // The beginning may be from before the trace.
            let Some((at, begun)) = self.unfinished.remove(&head.process) else { return Ok(()) };
            let (_, rest) = resumed.split_once(" resumed>").ok_or("found no `resumed>` after `<...`")?;
            return self.call(head.process, at, &line::call(&format!("{begun}{rest}"))?);
        }
        self.call(head.process, head.at, &line::call(head.rest)?)
    }

    /// A process has ended: its descriptors are closed.
    fn ended(&mut self, process: u32, at: Ns) -> Result<(), Refused> {
        let of_it = self.descriptors.range((process, i64::MIN)..=(process, i64::MAX));
        let keys: Vec<_> = of_it.map(|(&key, _)| key).collect();
        keys.into_iter().try_for_each(|key| self.close(key, at))?;
        self.directories.remove(&process);
        self.unfinished.remove(&process);
        Ok(())
    }

    fn call(&mut self, process: u32, at: Ns, line: &Line<'_>) -> Result<(), Refused> {
        let Some((result, rest)) = line.result.filter(|(result, _)| *result >= 0) else { return Ok(()) };
        let arg = |n: usize| line.args.get(n).copied().ok_or("found too few arguments");
        let bytes = result as u64;
        match line.name {
            "openat" | "open" | "creat" => {
                let flags = match line.name {
                    "creat" => "O_WRONLY|O_CREAT|O_TRUNC",
                    "open" => arg(1)?,
                    _ => arg(2)?,
                };
                self.learn(process, arg(0)?);
                let path = line::path_of(rest)?;
                self.open(process, at, result, path, flags)
            }
            "close" => {
                let (number, _) = line::number(arg(0)?).ok_or("found no file descriptor")?;
                self.close((process, number), at)
            }
            "read" | "readv" => self.moves(process, at, arg(0)?, None, bytes, false),
            "pread64" => self.moves(process, at, arg(0)?, Some(arg(3)?), bytes, false),
            "preadv" | "preadv2" => self.moves(process, at, arg(0)?, Some(arg(3)?), bytes, false),
            "write" | "writev" => self.moves(process, at, arg(0)?, None, bytes, true),
            "pwrite64" | "pwritev" | "pwritev2" => self.moves(process, at, arg(0)?, Some(arg(3)?), bytes, true),
            "lseek" => {
                let from_end = arg(2)? == "SEEK_END" && arg(1)? == "0";
                let Some(found) = self.descriptor(process, at, arg(0)?)? else { return Ok(()) };
                if let Some(file) = self.files.get_mut(&found.file) {
                    file.offset = bytes;
                }
                if from_end { self.at_least(found.name, bytes) } else { Ok(()) }
            }
            "fsync" | "fdatasync" => {
                let Some(found) = self.descriptor(process, at, arg(0)?)? else { return Ok(()) };
                self.push(at, Kind::Fsync { file: found.file, data_only: line.name == "fdatasync" })
            }
            "ftruncate" | "ftruncate64" => {
                let Some(found) = self.descriptor(process, at, arg(0)?)? else { return Ok(()) };
                self.resize(at, found.name, arg(1)?)
            }
            "truncate" | "truncate64" => {
                let Some(name) = self.path(process, None, arg(0)?)? else { return Ok(()) };
                self.before(name, false);
                self.resize(at, name, arg(1)?)
            }
            "fallocate" => {
                let Some(found) = self.descriptor(process, at, arg(0)?)? else { return Ok(()) };
                // Punching and the like change no size, and UBIFS has none of them.
                let (offset, length) = (size(arg(2)?)?, size(arg(3)?)?);
                if arg(1)? == "0" {
                    self.grow(found.name, offset.saturating_add(length))?
                }
                Ok(())
            }
            "mkdir" => self.make_dir(process, at, None, arg(0)?),
            "mkdirat" => self.make_dir(process, at, Some(arg(0)?), arg(1)?),
            "unlink" => self.remove(process, at, None, arg(0)?, false),
            "rmdir" => self.remove(process, at, None, arg(0)?, true),
            "unlinkat" => self.remove(process, at, Some(arg(0)?), arg(1)?, arg(2)?.contains("AT_REMOVEDIR")),
            "rename" => self.rename(process, at, (None, arg(0)?), (None, arg(1)?)),
            "renameat" | "renameat2" => self.rename(process, at, (Some(arg(0)?), arg(1)?), (Some(arg(2)?), arg(3)?)),
            "sync" | "syncfs" => self.push(at, Kind::Sync),
            "chdir" => {
                let path = line::quoted(arg(0)?)?;
                let path = self.absolute(process, None, &path);
                path.into_iter().for_each(|path| drop(self.directories.insert(process, path)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds a call. Times that fall are those of calls that were printed later.
    fn push(&mut self, at: Ns, kind: Kind) -> Result<(), Refused> {
        if self.trace.calls.len() >= CALLS {
            return Err("found more than 16,000,000 calls on files, expected fewer: cut the trace");
        }
        let first = *self.first.get_or_insert(at);
        self.last = self.last.max(Ns(at.0.saturating_sub(first.0)));
        self.trace.calls.push(Call { at: self.last, kind });
        Ok(())
    }

    /// Learns the working directory of a process from `AT_FDCWD<…>`.
    fn learn(&mut self, process: u32, arg: &str) {
        if let Some(rest) = arg.strip_prefix("AT_FDCWD")
            && let Ok(Some(path)) = line::path_of(rest)
        {
            self.directories.insert(process, path);
        }
    }

    /// The name of a path below the root of the trace; `None` of another, and of one whose directory nobody knows.
    fn path(&mut self, process: u32, dir: Option<&str>, arg: &str) -> Result<Option<Name>, Refused> {
        let path = line::quoted(arg)?;
        match self.absolute(process, dir, &path) {
            Some(path) => self.name(&path),
            None => Ok(None),
        }
    }

    fn absolute(&mut self, process: u32, dir: Option<&str>, path: &[u8]) -> Option<Vec<u8>> {
        if path.first() == Some(&b'/') {
            return Some(path.to_vec());
        }
        dir.iter().for_each(|dir| self.learn(process, dir));
        let base = match dir.filter(|dir| !dir.starts_with("AT_FDCWD")) {
            Some(dir) => line::descriptor(dir).ok()?.1,
            // A process that nobody has seen in a directory is where others are.
            None => self.directories.get(&process).or_else(|| self.directories.values().next()).cloned(),
        };
        let found = base.map(|base| [&base, &b"/"[..], path].concat());
        self.trace.left_out += u64::from(found.is_none());
        found
    }

    /// The name of an absolute path.
    /// Errors: too many names.
    fn name(&mut self, path: &[u8]) -> Result<Option<Name>, Refused> {
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in path.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                _ => parts.push(part),
            }
        }
        let mut root = self.root.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let depth = root.clone().count();
        if parts.len() < depth || !root.by_ref().zip(&parts).all(|(wanted, part)| wanted == *part) {
            return Ok(None);
        }
        let parts: Vec<Arc<[u8]>> = parts[depth..].iter().map(|&part| part.into()).collect();
        let mut name = Name::ROOT;
        for part in parts {
            name = self.child(name, part)?;
        }
        Ok(Some(name))
    }

    fn child(&mut self, dir: Name, part: Arc<[u8]>) -> Result<Name, Refused> {
        if part.len() > NAME_MAX {
            return Err("found a name of more than 255 bytes");
        }
        if let Some(&name) = self.known.get(&(dir, part.clone())) {
            return Ok(name);
        }
        if self.trace.names.len() >= NAMES {
            return Err("found more than 4,000,000 names of files");
        }
        let name = self.trace.add_name(dir, part.clone());
        self.known.insert((dir, part), name);
        Ok(name)
    }

    /// A name is used for the first time: whether it was there before, and its directories were.
    fn before(&mut self, name: Name, is_dir: bool) {
        if self.trace.is_new(name) {
            self.trace.was_there(name, is_dir);
            self.directory_before(name);
        }
    }

    /// A name that the trace makes.
    fn made(&mut self, name: Name) {
        if self.trace.is_new(name) {
            self.trace.is_made(name);
            self.directory_before(name);
        }
    }

    fn directory_before(&mut self, name: Name) {
        let dir = self.trace.directory(name);
        if dir != Name::ROOT {
            self.before(dir, true);
            self.trace.is_directory(dir);
        }
    }

    /// A file was this long at least, though nobody wrote it.
    fn at_least(&mut self, name: Name, bytes: u64) -> Result<(), Refused> {
        let known = self.sizes.get(&name).copied().unwrap_or(0);
        if bytes > known {
            self.grow(name, bytes)?;
            self.trace.was_as_long(name, bytes);
        }
        Ok(())
    }

    fn grow(&mut self, name: Name, bytes: u64) -> Result<(), Refused> {
        if bytes > FILE_BYTES {
            return Err("found a file of more than 1 TiB");
        }
        let size = self.sizes.entry(name).or_default();
        *size = bytes.max(*size);
        Ok(())
    }

    fn open(&mut self, process: u32, at: Ns, number: i64, path: Option<Vec<u8>>, flags: &str) -> Result<(), Refused> {
        // A number that is given anew was closed, though nobody saw it.
        self.close((process, number), at)?;
        let Some(name) = path.map(|path| self.name(&path)).transpose()?.flatten() else { return Ok(()) };
        let has = |flag| flags.split('|').any(|one| one == flag);
        let (create, truncate) = (has("O_CREAT"), has("O_TRUNC"));
        if create {
            self.made(name)
        } else {
            self.before(name, has("O_DIRECTORY"))
        }
        if truncate {
            self.sizes.insert(name, 0);
        }
        // The process may have copied this descriptor over one that was a copy of another of the same file.
        let of_it = self.descriptors.range((process, i64::MIN)..=(process, i64::MAX));
        let copies = of_it.filter(|(_, found)| found.name == name && found.is_copy);
        let keys: Vec<_> = copies.map(|(&key, _)| key).collect();
        keys.into_iter().try_for_each(|key| self.close(key, at))?;
        let file = self.add_file(has("O_APPEND"))?;
        self.descriptors.insert((process, number), Descriptor { name, file, is_copy: false });
        self.push(at, Kind::Open { file, name, create, truncate })
    }

    fn add_file(&mut self, append: bool) -> Result<u32, Refused> {
        if self.files.len() >= OPEN || self.descriptors.len() >= 8 * OPEN {
            return Err("found more than 10,000 files that are open at once");
        }
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, Position { offset: 0, append, descriptors: 1 });
        Ok(file)
    }

    fn close(&mut self, key: (u32, i64), at: Ns) -> Result<(), Refused> {
        let Some(Descriptor { file, .. }) = self.descriptors.remove(&key) else { return Ok(()) };
        let Some(position) = self.files.get_mut(&file) else { return Ok(()) };
        position.descriptors -= 1;
        if position.descriptors > 0 {
            return Ok(());
        }
        self.files.remove(&file);
        self.push(at, Kind::Close { file })
    }

    /// The descriptor of an argument; `None` of a file that is not ours.
    fn descriptor(&mut self, process: u32, at: Ns, arg: &str) -> Result<Option<Descriptor>, Refused> {
        let (number, path) = line::descriptor(arg)?;
        let Some(name) = path.map(|path| self.name(&path)).transpose()?.flatten() else { return Ok(None) };
        if let Some(&found) = self.descriptors.get(&(process, number)).filter(|found| found.name == name) {
            return Ok(Some(found));
        }
        // Threads have the same number; copies and children another, of the file that was opened last.
        let same = |(key, found): (&(u32, i64), &Descriptor)| {
            (found.name == name).then_some(((key.1 == number, found.file), *found))
        };
        let known = self.descriptors.iter().filter_map(same).max_by_key(|(order, _)| *order);
        let file = match known {
            Some((_, found)) => {
                self.files.get_mut(&found.file).iter_mut().for_each(|file| file.descriptors += 1);
                found.file
            }
            None => {
                // It was open before the trace began. Programs mostly append to what they keep open.
                self.before(name, false);
                let file = self.add_file(true)?;
                self.push(at, Kind::Open { file, name, create: false, truncate: false })?;
                file
            }
        };
        self.close((process, number), at)?;
        let found = Descriptor { name, file, is_copy: known.is_some() };
        self.descriptors.insert((process, number), found);
        Ok(Some(found))
    }

    /// Reads or writes.
    fn moves(
        &mut self,
        process: u32,
        at: Ns,
        arg: &str,
        offset: Option<&str>,
        bytes: u64,
        writes: bool,
    ) -> Result<(), Refused> {
        let Some(found) = self.descriptor(process, at, arg)? else { return Ok(()) };
        let Some(position) = self.files.get_mut(&found.file) else { return Ok(()) };
        let bytes = u32::try_from(bytes).map_err(|_| "found a call of more than 4 GiB")?;
        let size = self.sizes.get(&found.name).copied().unwrap_or(0);
        let appends = writes && position.append;
        let from = match offset {
            Some(offset) => self::size(offset)?,
            None if appends => size,
            None => position.offset,
        };
        if offset.is_none() || appends {
            position.offset = from.saturating_add(bytes.into());
        }
        let end = from.saturating_add(bytes.into());
        let (file, offset) = (found.file, (!appends).then_some(from));
        if writes {
            self.grow(found.name, end)?;
            return self.push(at, Kind::Write { file, offset, bytes });
        }
        if bytes > 0 {
            self.at_least(found.name, end)?;
        }
        self.push(at, Kind::Read { file, offset: from, bytes })
    }

    fn resize(&mut self, at: Ns, name: Name, arg: &str) -> Result<(), Refused> {
        let bytes = size(arg)?;
        self.sizes.insert(name, 0);
        self.grow(name, bytes)?;
        self.push(at, Kind::Truncate { name, bytes })
    }

    fn make_dir(&mut self, process: u32, at: Ns, dir: Option<&str>, arg: &str) -> Result<(), Refused> {
        let Some(name) = self.path(process, dir, arg)? else { return Ok(()) };
        self.made(name);
        self.push(at, Kind::Mkdir { name })
    }

    fn remove(&mut self, process: u32, at: Ns, dir: Option<&str>, arg: &str, is_dir: bool) -> Result<(), Refused> {
        let Some(name) = self.path(process, dir, arg)? else { return Ok(()) };
        self.before(name, is_dir);
        self.sizes.remove(&name);
        self.push(at, if is_dir { Kind::Rmdir { name } } else { Kind::Unlink { name } })
    }

    fn rename(
        &mut self,
        process: u32,
        at: Ns,
        (from_dir, from): (Option<&str>, &str),
        (to_dir, to): (Option<&str>, &str),
    ) -> Result<(), Refused> {
        let (from, to) = (self.path(process, from_dir, from)?, self.path(process, to_dir, to)?);
        let (from, to) = match (from, to) {
            (Some(from), Some(to)) => (from, to),
            // It leaves the directory of the trace, or comes into it.
            (Some(from), None) => {
                self.before(from, false);
                return self.push(at, Kind::Unlink { name: from });
            }
            (None, _) => return Ok(()),
        };
        self.before(from, false);
        self.made(to);
        match self.sizes.remove(&from) {
            Some(size) => drop(self.sizes.insert(to, size)),
            None => drop(self.sizes.remove(&to)),
        }
        // What was open goes with its name, below a directory too.
        let moved: Vec<_> = self.descriptors.iter().map(|(&key, found)| (key, found.name)).collect();
        for (key, name) in moved {
            if let Some(name) = self.moved(name, from, to)?
                && let Some(found) = self.descriptors.get_mut(&key)
            {
                found.name = name;
            }
        }
        self.push(at, Kind::Rename { from, to })
    }

    /// The name of what was called `name` after `from` was renamed to `to`, if that is another.
    fn moved(&mut self, name: Name, from: Name, to: Name) -> Result<Option<Name>, Refused> {
        if name == from {
            return Ok(Some(to));
        }
        if name == Name::ROOT {
            return Ok(None);
        }
        let (dir, part) = (self.trace.directory(name), self.trace.part(name));
        let Some(dir) = self.moved(dir, from, to)? else { return Ok(None) };
        let moved = self.child(dir, part)?;
        if let Some(size) = self.sizes.remove(&name) {
            self.sizes.insert(moved, size);
        }
        self.made(moved);
        Ok(Some(moved))
    }
}

/// An offset or a length.
fn size(arg: &str) -> Result<u64, Refused> {
    arg.parse().map_err(|_| "found no offset or length, expected a number")
}
