//! Garbage collection: the oldest node is written anew at the tail, and sectors of dirt at the head are erased.

use sim::seam::{Flash, FsError};
use sim::{Cause, Cx, Ns, PassKind};

use super::log::{ChunkId, Cut, Log, Place};
use super::media::{RawInode, checksum, padded};
use super::medium::{Result, Work};
use super::{Jffs1, Pass, Waiting};

/// Least data that are worth a node of their own at the end of the flash.
const WORTH_BYTES: u32 = 1024;
/// Data are copied in such pieces.
const PAGE: u32 = 4096;
/// A pattern of zeroes is programmed in such pieces.
const ZEROES: [u8; 64] = [0; 64];

impl<F: Flash> Jffs1<F> {
    /// Whether the thread has something to do: dirt of a sector at least, and then too many nodes in memory, less than a
    /// twentieth of the flash free, or more than a third of it dirt.
    fn should_wake(&self) -> bool {
        let Log { size, sector, used, dirty, .. } = self.log;
        let nodes: usize = self.files.values().map(|file| file.nodes.len()).sum();
        let most_nodes = used / self.max_chunk() * 5 + 2 * self.files.len() as u32 + 50;
        dirty >= sector
            && (nodes as u32 > most_nodes
                || self.log.free() < (size / 20).max(sector)
                || dirty > (size / 3).max(sector))
    }

    /// When the thread is to be woken: now, or not at all.
    pub fn next_wake(&self) -> Option<Ns> {
        let is_futile = self.futile > self.log.size / self.log.sector;
        (!is_futile && self.should_wake()).then_some(Ns::ZERO)
    }

    /// What the thread does between two sleeps: it erases what can be erased, or moves one node.
    /// Errors: those of the flash.
    pub fn wake(&mut self, cx: &mut Cx) -> Result<()> {
        if self.next_wake().is_none() {
            return Ok(());
        }
        let before = self.medium.done.erased;
        let done = self.step(cx, Waiting::Nobody);
        self.futile += (self.medium.done.erased - before) as u32;
        match done {
            // Until something is deleted nothing can be moved.
            Err(FsError::NoSpace) => {
                self.futile = u32::MAX;
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    /// Collects until sectors were erased.
    /// Errors: `NoSpace` if that cannot be.
    pub(super) fn collect_now(&mut self, cx: &mut Cx) -> Result<()> {
        loop {
            let can_move = self.log.free() > 0 && self.log.dirty >= self.log.sector;
            if self.log.erasable() == 0 && !can_move {
                return Err(FsError::NoSpace);
            }
            if self.step(cx, Waiting::Writer)? {
                return Ok(());
            }
        }
    }

    /// Collects once round the log: every node that is there now is moved, and what is dirt then at the head is erased.
    /// Ends before if nothing can be moved.
    /// Errors: those of the flash.
    pub fn collect_all(&mut self, cx: &mut Cx, waiting: Waiting) -> Result<()> {
        let end = self.log.next_id();
        while self.log.oldest().is_some_and(|oldest| oldest < end) || self.log.erasable() > 0 {
            match self.step(cx, waiting) {
                Err(FsError::NoSpace) => break,
                other => other?,
            };
        }
        Ok(())
    }

    /// Erases, or moves a node. Returns whether it erased.
    fn step(&mut self, cx: &mut Cx, waiting: Waiting) -> Result<bool> {
        let (start, before) = (cx.now(), self.medium.done);
        let nothing =
            Pass { waiting, start, length: Ns::ZERO, victim: 0, nodes: 0, moved_bytes: 0, work: Work::default() };
        let pass = self.pass.get_or_insert(nothing);
        // A writer does not wait for what the thread did before.
        pass.waiting = waiting;
        let written = (pass.nodes, pass.moved_bytes);
        let victim = self.log.head() / self.log.sector;
        let erasable = self.log.erasable();
        let begun = cx.begin_pass();
        let done = cx.because(Cause::Gc, |cx| match erasable {
            0 => self.move_oldest(cx).map(|()| false),
            bytes => self.erase_head(cx, bytes).map(|()| true),
        });
        let kind = if erasable > 0 { PassKind::Erase } else { PassKind::Move };
        let (nodes, moved_bytes) = self.pass.map_or(written, |pass| (pass.nodes, pass.moved_bytes));
        cx.end_pass(begun, kind, victim, (nodes - written.0, moved_bytes - written.1));
        let work = self.medium.done - before;
        if let Some(pass) = &mut self.pass {
            pass.work += work;
            pass.length = cx.now() - pass.start;
            if let Ok(true) = done {
                pass.victim = victim;
                self.passes.extend(self.pass.take());
            }
        }
        done
    }

    /// Erases the first `bytes` of the log. A node that goes on beyond them is filled with zeroes there, for its contents
    /// could look like nodes to a scan: first its name and data, then what there is of its raw inode.
    ///
    /// Then it is no node any more, and what an older node of its inode says would hold again if power failed: a file that it
    /// deleted would be back. So those in sectors before are erased first, and those in its own are marked obsolete.
    ///
    /// Where a sector before the last ends, a node is left as it is, but for one that a power cut tore: the rest of that may be
    /// erased, and with what follows look like the end of the log.
    fn erase_head(&mut self, cx: &mut Cx, bytes: u32) -> Result<()> {
        let head = self.log.head();
        let last = head + bytes - self.log.sector;
        let known_bad = self.options.known_bad;
        let cut = self.log.cut_at(bytes).filter(|_| !known_bad.keep_cut_nodes);
        if let (Some(cut), true) = (cut, known_bad.clear_first) {
            self.clear(cx, cut)?;
        }
        for sector in (head..last).step_by(self.log.sector as usize) {
            let torn = self.log.cut_at(sector + self.log.sector - head).filter(|cut| cut.ino == 0);
            if let (Some(torn), false) = (torn, known_bad.clear_first) {
                self.clear(cx, torn)?;
            }
            self.medium.erase(cx, sector)?;
        }
        if let (Some(cut), false) = (cut, known_bad.clear_first) {
            for older in self.log.older_beside(cut) {
                self.medium.program(cx, older + RawInode::ACCURATE_OFFSET, &[0])?;
            }
            self.clear(cx, cut)?;
        }
        self.medium.erase(cx, last)?;
        self.log.erased(bytes);
        Ok(())
    }

    /// Clears the rest of a node, the end first and the raw inode last: a scan does not look for nodes in the contents of a node whose raw
    /// inode and name are whole.
    fn clear(&mut self, cx: &mut Cx, cut: Cut) -> Result<()> {
        let of_raw = (RawInode::BYTES as u32).saturating_sub(cut.before).min(cut.bytes);
        self.fill_with_zeroes(cx, cut.at + of_raw, cut.bytes - of_raw)?;
        self.fill_with_zeroes(cx, cut.at, of_raw)
    }

    /// From the end to the beginning.
    fn fill_with_zeroes(&mut self, cx: &mut Cx, at: u32, bytes: u32) -> Result<()> {
        for part in (0..bytes).step_by(ZEROES.len()).rev() {
            let length = (bytes - part).min(ZEROES.len() as u32);
            self.medium.program(cx, at + part, &ZEROES[..length as usize])?;
        }
        Ok(())
    }

    /// Fills space at the end of the flash that is too small for a node, so that a scan skips it at once.
    pub(super) fn fill_end(&mut self, cx: &mut Cx, chunk: ChunkId) -> Result<()> {
        let space = self.log.chunk(chunk);
        if space.bytes < RawInode::BYTES as u32 {
            return self.fill_with_zeroes(cx, space.offset, space.bytes);
        }
        let filler = RawInode::filler(space.bytes).encode(self.options.endian);
        self.medium.sum(cx, filler.len() as u64);
        self.medium.program(cx, space.offset, &filler)
    }

    /// Writes the oldest node anew, with as much of what follows in its file as fits a node and leaves enough free to go on.
    fn move_oldest(&mut self, cx: &mut Cx) -> Result<()> {
        let oldest = self.log.oldest().filter(|_| self.log.free() > 0).ok_or(FsError::NoSpace)?;
        // Dirt at the head that was passed before is one element of the list, which is visited to see whether it can be
        // erased, and again on the way to the oldest node.
        let new = oldest - self.passed.clamp(self.log.first_id(), oldest);
        self.passed = oldest;
        self.medium.visit(cx, new + 3);
        let chunk = self.log.chunk(oldest);
        let (ino, version) = chunk.node.expect("it is live");
        let file = &self.files[&ino];
        let node = file.nodes[&version];
        let begins = file.begins(version);
        let headers = RawInode::BYTES as u32 + padded(file.name.len() as u32);
        let mut data = file.data_from(begins);
        if headers + padded(data) > self.max_chunk() {
            data = self.max_chunk() - headers;
        }
        let end = self.log.free_at_tail();
        if headers + padded(data) > end {
            if end < headers + WORTH_BYTES {
                let given_up = self.log.give_up_end();
                return self.fill_end(cx, given_up);
            }
            data = end - headers;
        }
        // So much must be left to move what else is in the sector of the node.
        let needed = self.min_free().saturating_sub(chunk.offset % self.log.sector);
        let extra = self.log.free().saturating_sub(needed);
        data = data.min(padded(node.held) + extra);
        self.rewrite(cx, ino, begins, data)
    }

    /// Writes `bytes` of a file from `offset` on as a node.
    fn rewrite(&mut self, cx: &mut Cx, ino: u32, offset: u32, bytes: u32) -> Result<()> {
        let file = &self.files[&ino];
        let name = file.name.clone();
        let mut raw = RawInode {
            version: file.highest + 1,
            offset,
            data_bytes: bytes,
            removed_bytes: bytes,
            name_sum: checksum(&name) as u16,
            ..file.raw(ino)
        };
        let chunk = match self.log.allocate(raw.node_bytes()) {
            Place::At(chunk) => chunk,
            Place::FillFirst(end) => return self.fill_end(cx, end),
            Place::Nowhere => return Err(FsError::NoSpace),
        };
        let at = self.log.chunk(chunk).offset;
        let endian = self.options.endian;
        // The sums are written last: without them the node is none.
        let sums = RawInode::SUMS_OFFSET;
        self.medium.program(cx, at, &raw.encode(endian)[..sums as usize])?;
        if !name.is_empty() {
            self.medium.program(cx, at + RawInode::BYTES as u32, &name)?;
        }
        self.medium.sum(cx, name.len() as u64 + RawInode::BYTES as u64);
        let mut page = [0; PAGE as usize];
        for part in (0..bytes).step_by(PAGE as usize) {
            let length = PAGE.min(bytes - part);
            let data = &mut page[..length as usize];
            self.read_contents(cx, ino, offset + part, data)?;
            self.medium.program(cx, at + raw.data_offset() + part, data)?;
            self.medium.sum(cx, length.into());
            raw.data_sum = raw.data_sum.wrapping_add(checksum(data));
        }
        self.medium.program(cx, at + sums, &raw.encode(endian)[sums as usize..])?;
        self.insert(cx, &raw, &name, chunk)?;
        if let Some(pass) = &mut self.pass {
            pass.nodes += 1;
            pass.moved_bytes += u64::from(raw.node_bytes());
        }
        Ok(())
    }
}
