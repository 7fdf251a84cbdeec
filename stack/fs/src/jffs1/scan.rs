//! The mount: finds every node on the flash, and builds files from them.

use std::collections::{BTreeMap, VecDeque};

use sim::seam::{Flash, FsError, Medium as Kind};
use sim::{Cause, Cx, Lnum};

use super::file::File;
use super::log::{Chunk, Log};
use super::media::{ALIGN, DIRTY, EMPTY, MAGIC, MAX_NAME_BYTES, ROOT_INO, RawInode, checksum, padded};
use super::medium::{Medium, Result, Work};
use super::{Jffs1, MountGc, MountWork, Options, Waiting};

/// Largest read of the scan.
const PAGE: u32 = 4096;
/// How often the flash is read again to find bits that flip.
const REREADS: u32 = 4;
/// Erased ranges that are free space. There are two when the log neither begins nor ends at the limits of the flash.
const FREE_RANGES: u32 = 2;

/// A node that the scan found.
struct Found {
    raw: RawInode,
    name: Vec<u8>,
    at: u32,
    /// The number of the inode that its name replaces.
    replaced: Option<u32>,
}

/// What the scan has found so far.
struct Scan<'a, F> {
    medium: &'a mut Medium<F>,
    options: &'a Options,
    size: u32,
    chunks: VecDeque<Chunk>,
    nodes: Vec<Found>,
    free_ranges: u32,
}

impl<F: Flash> Jffs1<F> {
    /// Mounts a flash. One that is erased is an empty file system.
    /// Errors: those of the flash; `Invalid` of a flash that is no NOR, or too small; `Corrupt` of one on which nobody can
    /// say where the log begins, or of an inode whose directory is missing.
    pub fn mount(flash: F, cx: &mut Cx, options: Options) -> Result<Jffs1<F>> {
        let geometry = *flash.geometry();
        if geometry.medium != Kind::Nor || !F::KEEPS_BYTES || !geometry.peb_bytes.is_multiple_of(PAGE) {
            return Err(FsError::Invalid { why: "JFFS needs a NOR that keeps bytes, with sectors of whole pages" });
        }
        let size = u32::try_from(geometry.bytes()).map_err(|_| FsError::Invalid { why: "a flash of 4 GiB" })?;
        if geometry.pebs <= options.min_free_sectors {
            return Err(FsError::Invalid { why: "a flash that is not larger than what must stay free" });
        }
        let mut medium = Medium { flash, cpu: options.cpu, done: Work::default() };
        let mut mounted = MountWork::default();
        if options.reread {
            medium.erase_flipping(cx, size)?;
        }
        mounted.reread = medium.done;
        let mut scan = Scan {
            medium: &mut medium,
            options: &options,
            size,
            chunks: VecDeque::new(),
            nodes: Vec::new(),
            free_ranges: 0,
        };
        scan.run(cx)?;
        let Scan { chunks, nodes, .. } = scan;
        mounted.scan = medium.done - mounted.reread;
        let log = Log::of_scan(size, geometry.peb_bytes, chunks);
        let log = log.ok_or_else(|| corrupt(0, 0, "free space in more than one place inside the log"))?;
        let mut fs = Jffs1 {
            medium,
            options,
            log,
            files: BTreeMap::new(),
            next_ino: ROOT_INO + 1,
            next_cookie: 1,
            pass: None,
            passes: Vec::new(),
            mounted,
            passed: 0,
            futile: 0,
        };
        let before = fs.medium.done;
        fs.build(cx, nodes)?;
        fs.mounted.build = fs.medium.done - before;
        if options.mount_gc == MountGc::Full {
            let before = fs.medium.done;
            fs.collect_all(cx, Waiting::Mount)?;
            fs.mounted.collect = fs.medium.done - before;
        }
        Ok(fs)
    }

    /// Builds files and directories from the nodes that the scan found.
    fn build(&mut self, cx: &mut Cx, nodes: Vec<Found>) -> Result<()> {
        let ids: BTreeMap<u32, _> = self.log.live().map(|(id, _)| (self.log.chunk(id).offset, id)).collect();
        let mut replaced = Vec::new();
        for found in nodes {
            let Found { raw, name, at, .. } = found;
            // A node that a rename names may outlive the inode.
            self.next_ino = self.next_ino.max(raw.ino + 1).max(found.replaced.unwrap_or_default() + 1);
            replaced.extend(found.replaced);
            let file = self.files.entry(raw.ino).or_insert_with(|| File::new(&raw, &name));
            // The list of versions is searched from its newest end.
            let newer = file.nodes.range(raw.version..).count() as u64;
            let has_newer_name = file.nodes.range(raw.version..).any(|(_, node)| node.named);
            let deleted = file.deleted | raw.deleted;
            if newer == 0 {
                file.learn(&raw, &name);
            } else if raw.name_bytes > 0 && !has_newer_name {
                file.name.clone_from(&name);
            }
            file.deleted = deleted;
            let same = file.nodes.get(&raw.version).map(|same| same.chunk);
            file.add(&raw, ids[&at], at + raw.data_offset());
            self.medium.visit(cx, 1 + newer);
            same.map_or(Ok(()), |chunk| self.obsolete(cx, chunk))?;
        }
        if !self.files.contains_key(&ROOT_INO) {
            self.files.insert(ROOT_INO, virtual_root(self.now(cx)));
        }
        for ino in replaced {
            if let Some(file) = self.files.get_mut(&ino) {
                file.deleted = true;
            }
        }
        let inos: Vec<u32> = self.files.keys().copied().collect();
        for ino in inos {
            if self.files[&ino].deleted {
                self.free_file(cx, ino)?;
                continue;
            }
            let file = self.files.get_mut(&ino).expect("it is one of them");
            let mut visited = 2 * file.nodes.len() as u64;
            let mut obsolete = file.forget_redundant();
            let versions: Vec<u32> = file.nodes.keys().copied().collect();
            for version in versions {
                let changed = file.apply(version);
                visited += changed.visited;
                obsolete.extend(changed.obsolete);
            }
            file.shown = (file.mtime, file.ctime);
            self.medium.visit(cx, visited);
            obsolete.into_iter().try_for_each(|chunk| self.obsolete(cx, chunk))?;
        }
        self.grow_tree()
    }

    /// Puts every inode into its directory.
    fn grow_tree(&mut self) -> Result<()> {
        let places: Vec<(u32, u32)> = self.files.iter().map(|(ino, file)| (*ino, file.pino)).collect();
        let wrong = |ino: u32, what: String| {
            let first = self.files[&ino].nodes.values().next().map_or(0, |node| self.log.chunk(node.chunk).offset);
            Err(corrupt(first / self.log.sector, first % self.log.sector, what))
        };
        for &(ino, pino) in places.iter().filter(|(ino, _)| *ino != ROOT_INO) {
            if !self.files.get(&pino).is_some_and(File::is_dir) {
                return wrong(ino, format!("inode {ino} is in directory {pino}, which is none"));
            }
            let above = (0..places.len()).try_fold(ino, |at, _| {
                (at != ROOT_INO).then(|| self.files.get(&at).map_or(ROOT_INO, |file| file.pino))
            });
            if above.is_some_and(|top| top != ROOT_INO) {
                return wrong(ino, format!("inode {ino} is in a directory below itself"));
            }
        }
        places.into_iter().filter(|(ino, _)| *ino != ROOT_INO).for_each(|(ino, _)| self.add_entry(ino));
        Ok(())
    }
}

/// The root directory of a file system on which nobody changed it.
fn virtual_root(now: u32) -> File {
    let raw = RawInode { mode: 0o040_755, atime: now, mtime: now, ctime: now, nlink: 1, ..RawInode::default() };
    let mut root = File::new(&raw, b"");
    root.shown = (now, now);
    root
}

fn corrupt(sector: u32, offset: u32, what: impl Into<String>) -> FsError {
    FsError::Corrupt { lnum: Lnum(sector), offset, what: what.into() }
}

impl<F: Flash> Medium<F> {
    /// Erases sectors that read differently: their last erase was interrupted.
    fn erase_flipping(&mut self, cx: &mut Cx, size: u32) -> Result<()> {
        let (mut first, mut again) = ([0; PAGE as usize], [0; PAGE as usize]);
        let mut at = 0;
        'pages: while at < size {
            self.read(cx, at, &mut first)?;
            for _ in 0..REREADS {
                self.read(cx, at, &mut again)?;
                self.sum(cx, PAGE.into());
                if first != again {
                    let sector = at / self.sector() * self.sector();
                    cx.because(Cause::Recovery, |cx| self.erase(cx, sector))?;
                    at = sector + self.sector();
                    continue 'pages;
                }
            }
            at += PAGE;
        }
        Ok(())
    }
}

impl<F: Flash> Scan<'_, F> {
    fn word(&mut self, cx: &mut Cx, at: u32) -> Result<u32> {
        let mut bytes = [0; 4];
        self.medium.read(cx, at, &mut bytes)?;
        Ok(self.options.endian.u32(bytes))
    }

    /// The first word at `at` or later that `stops`, or the end of the flash.
    fn find(&mut self, cx: &mut Cx, mut at: u32, stops: impl Fn(u32) -> bool) -> Result<u32> {
        let mut page = [0; PAGE as usize];
        while at < self.size {
            let length = PAGE.min(self.size - at);
            let bytes = &mut page[..length as usize];
            self.medium.read(cx, at, bytes)?;
            let mut words = bytes.chunks_exact(4).map(|word| self.options.endian.u32(word.try_into().expect("four")));
            let before = words.position(&stops).map(|words| ALIGN * words as u32);
            self.medium.sum(cx, before.map_or(length, |before| before + ALIGN).into());
            match before {
                Some(before) => return Ok(at + before),
                None => at += length,
            }
        }
        Ok(self.size)
    }

    fn dirt(&mut self, from: u32, to: u32) {
        if from < to {
            self.chunks.push_back(Chunk { offset: from, bytes: to - from, node: None, ino: 0, renames: false });
        }
    }

    /// Goes through the whole flash.
    fn run(&mut self, cx: &mut Cx) -> Result<()> {
        let mut at = 0;
        while at < self.size {
            at = match self.word(cx, at)? {
                EMPTY => {
                    let end = self.find(cx, at, |word| word != EMPTY)?;
                    self.erased(at, end);
                    end
                }
                DIRTY => {
                    let end = self.find(cx, at, |word| word != DIRTY)?;
                    self.dirt(at, end);
                    end
                }
                MAGIC if self.size - at >= RawInode::BYTES as u32 => self.node(cx, at)?,
                _ => self.garbage(cx, at)?,
            };
        }
        Ok(())
    }

    /// Skips what is no node.
    fn garbage(&mut self, cx: &mut Cx, at: u32) -> Result<u32> {
        let end = self.find(cx, at + ALIGN, |word| word == MAGIC || word == EMPTY)?;
        self.dirt(at, end);
        Ok(end)
    }

    /// An erased range is free if it is at least a sector long and ends where a sector does, for the head of the log is
    /// there. Before anything else than the head, space was allocated and not written: in that sector it is dirt.
    fn erased(&mut self, from: u32, to: u32) {
        let sector = self.medium.sector();
        let end = to / sector * sector;
        let is_free = end > from && end - from >= sector && self.free_ranges < FREE_RANGES;
        self.free_ranges += u32::from(is_free);
        self.dirt(if is_free { end } else { from }, to);
    }

    /// Reads a node. Returns where it ends, or where to look for the next if it is none.
    fn node(&mut self, cx: &mut Cx, at: u32) -> Result<u32> {
        let mut bytes = [0; RawInode::BYTES];
        self.medium.read(cx, at, &mut bytes)?;
        self.medium.visit(cx, 1);
        self.medium.sum(cx, bytes.len() as u64);
        let Ok(raw) = RawInode::decode(&bytes, self.options.endian) else {
            let end = (at + RawInode::BYTES as u32).min(self.size);
            self.dirt(at, end);
            return Ok(end);
        };
        let is_too_long = raw.data_bytes > self.medium.sector() / 2 || raw.node_bytes() > self.size - at;
        let grows_too_large = raw.offset.checked_add(raw.data_bytes).is_none();
        if usize::from(raw.name_bytes) > MAX_NAME_BYTES
            || raw.renames && raw.data_bytes != 4
            || is_too_long
            || grows_too_large
            || raw.ino == u32::MAX
        {
            return self.garbage(cx, at);
        }
        let mut name = vec![0; raw.name_bytes.into()];
        self.medium.read(cx, at + RawInode::BYTES as u32, &mut name)?;
        self.medium.sum(cx, name.len() as u64);
        let data_at = at + raw.data_offset();
        if checksum(&name) != u32::from(raw.name_sum) {
            self.dirt(at, data_at);
            return Ok(data_at);
        }
        let end = data_at + padded(raw.data_bytes);
        let mut data = vec![0; raw.data_bytes as usize];
        for part in (0..raw.data_bytes).step_by(PAGE as usize) {
            let to = (part + PAGE).min(raw.data_bytes);
            self.medium.read(cx, data_at + part, &mut data[part as usize..to as usize])?;
        }
        self.medium.sum(cx, data.len() as u64);
        let has_data = checksum(&data) == raw.data_sum || self.options.known_bad.trust_data;
        if !has_data || raw.accurate == 0 {
            self.dirt(at, end);
            return Ok(end);
        }
        let replaced = raw.renames.then(|| self.options.endian.u32(data[..4].try_into().expect("four bytes")));
        let (node, ino) = (Some((raw.ino, raw.version)), raw.ino);
        self.chunks.push_back(Chunk { offset: at, bytes: end - at, node, ino, renames: raw.renames });
        self.nodes.push(Found { raw, name, at, replaced });
        Ok(end)
    }
}
