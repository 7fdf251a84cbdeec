//! The log: which LEBs are buds, and where in them the journal begins.
//!
//! Source: Linux 6.12 `fs/ubifs/log.c` (behaviour).

use sim::Cx;
use sim::seam::LebVolume;

use super::space::flags;
use super::{Due, Result, Ubifs};
use crate::ubifs::media::{
    COMMIT_START_BYTES, LOG_LNUM, REFERENCE_BYTES, ReferenceNode, SuperBlock, encode_commit_start, pad,
};
use crate::ubifs::nodes::{HEADS, NO_LEB};
use crate::ubifs::written::Part;

/// A LEB of the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bud {
    pub lnum: u32,
    /// Where the journal begins in it.
    pub start: u32,
    pub head: usize,
}

/// The log.
#[derive(Clone, Debug)]
pub(super) struct Log {
    lebs: u32,
    leb_bytes: u32,
    /// LEB and offset where the next reference goes.
    pub head: (u32, u32),
    /// LEB in which it begins.
    pub tail: u32,
    /// Bytes that must stay free, for the start of a commit.
    pub min_free: u64,
    pub buds: Vec<Bud>,
    /// LEBs that belong to the commit that runs: they are needed until it has ended.
    closed: Vec<u32>,
    /// Bytes of the journal: of each bud from its start to the end of the LEB.
    pub bytes: u64,
    /// Of these, what the commit that runs takes away.
    closed_bytes: u64,
    most_bytes: u64,
    background_bytes: u64,
}

impl Log {
    /// A log without buds.
    pub fn new(sb: &SuperBlock, head: (u32, u32), tail: u32) -> Log {
        let leb = u64::from(sb.leb_bytes);
        // The journal must hold a LEB for each head and one more.
        let least = (HEADS as u64 + 1) * leb + 1;
        Log {
            lebs: sb.log_lebs,
            leb_bytes: sb.leb_bytes,
            head,
            tail,
            min_free: leb,
            buds: Vec::new(),
            closed: Vec::new(),
            bytes: 0,
            closed_bytes: 0,
            most_bytes: sb.max_bud_bytes.max(least + leb),
            background_bytes: (sb.max_bud_bytes * 13 / 16).max(least),
        }
    }

    /// The LEB of the log after `lnum`, in a circle.
    pub fn next(&self, lnum: u32) -> u32 {
        if lnum + 1 == LOG_LNUM + self.lebs { LOG_LNUM } else { lnum + 1 }
    }

    fn free(&self) -> u64 {
        let leb = u64::from(self.leb_bytes);
        let head = u64::from(self.head.0) * leb + u64::from(self.head.1);
        let tail = u64::from(self.tail) * leb;
        match head.cmp(&tail) {
            std::cmp::Ordering::Greater => u64::from(self.lebs) * leb - (head - tail),
            std::cmp::Ordering::Less => tail - head,
            // The head at the end of the LEB before the tail.
            std::cmp::Ordering::Equal if self.head.0 != self.tail => 0,
            std::cmp::Ordering::Equal => u64::from(self.lebs) * leb,
        }
    }

    /// Adds a bud that is in the log.
    pub fn add(&mut self, bud: Bud) {
        self.bytes += u64::from(self.leb_bytes - bud.start);
        self.buds.push(bud);
    }
}

impl<V: LebVolume> Ubifs<V> {
    /// Makes a LEB a bud, from `start` on, and writes that to the log. Returns false if a commit must come first.
    pub(super) fn add_bud(&mut self, cx: &mut Cx, head: usize, lnum: u32, start: u32) -> Result<bool> {
        let unit = (REFERENCE_BYTES as u32).next_multiple_of(self.min_io);
        let log = &self.log;
        let is_short = log.free() < u64::from(unit) + log.min_free;
        if is_short || log.bytes + u64::from(self.leb_bytes - start) > log.most_bytes {
            self.due = Due::Required;
            return Ok(false);
        }
        if log.bytes >= log.background_bytes && self.due == Due::No {
            self.due = Due::Background;
        }
        if self.log.head.1 > self.leb_bytes - unit {
            self.log.head = (self.log.next(self.log.head.0), 0);
        }
        let (log_lnum, offset) = self.log.head;
        if offset == 0 {
            self.nodes.unmap(cx, log_lnum)?;
        }
        if start == 0 {
            // What was in it before must not come back after a power cut.
            self.nodes.map(cx, lnum)?;
        }
        let sqnum = self.next_sqnum();
        let mut node = vec![0; unit as usize];
        let (reference, rest) = node.split_at_mut(REFERENCE_BYTES);
        ReferenceNode { lnum, offset: start, head: head as u32 }.encode(reference, sqnum);
        pad(rest);
        self.nodes.write(cx, Part::Log, (log_lnum, offset), &node)?;
        self.log.head.1 += unit;
        self.log.add(Bud { lnum, start, head });
        Ok(true)
    }

    /// Starts a commit in the log: a LEB of its own begins with the commit's number and where the heads are. Returns that
    /// LEB.
    pub(super) fn start_commit_in_log(&mut self, cx: &mut Cx) -> Result<u32> {
        let mut bytes = vec![0; COMMIT_START_BYTES];
        let sqnum = self.next_sqnum();
        encode_commit_start(self.commit, &mut bytes, sqnum);
        for head in 0..HEADS {
            let (lnum, offset) = (self.nodes.head(head).lnum, self.nodes.head(head).offset);
            if lnum == NO_LEB || offset == self.leb_bytes {
                continue;
            }
            let at = bytes.len();
            bytes.resize(at + REFERENCE_BYTES, 0);
            let sqnum = self.next_sqnum();
            ReferenceNode { lnum, offset, head: head as u32 }.encode(&mut bytes[at..], sqnum);
        }
        let used = bytes.len();
        bytes.resize(used.next_multiple_of(self.min_io as usize), 0);
        pad(&mut bytes[used..]);
        if self.log.head.1 > 0 {
            self.log.head = (self.log.next(self.log.head.0), 0);
        }
        let lnum = self.log.head.0;
        self.nodes.unmap(cx, lnum)?;
        self.nodes.write(cx, Part::Log, (lnum, 0), &bytes)?;
        self.log.head.1 = bytes.len() as u32;
        // Buds that no head writes to belong to the commit that ends now; the others go on.
        let (nodes, log) = (&self.nodes, &mut self.log);
        let (leb_bytes, mut closed_bytes) = (log.leb_bytes, 0);
        let closed = &mut log.closed;
        log.buds.retain_mut(|bud| {
            let head = nodes.head(bud.head);
            let is_open = head.lnum == bud.lnum;
            let end = if is_open { head.offset } else { leb_bytes };
            closed_bytes += u64::from(end - bud.start);
            if is_open {
                bud.start = end;
            } else {
                closed.push(bud.lnum);
            }
            is_open
        });
        // Linux has buds in a tree, and those that it closes in a list that grows at its head.
        closed.sort_unstable_by(|one, other| other.cmp(one));
        log.closed_bytes = closed_bytes;
        log.min_free = 0;
        Ok(lnum)
    }

    /// The commit has ended: the log begins where it began.
    pub(super) fn move_log_tail(&mut self, tail: u32) {
        self.log.tail = tail;
        self.log.min_free = u64::from(self.leb_bytes);
        self.log.bytes -= std::mem::take(&mut self.log.closed_bytes);
    }

    /// The master node names the new tail: what the log held before is needed no more.
    pub(super) fn clean_log(&mut self, cx: &mut Cx, old_tail: u32) -> Result<()> {
        for lnum in std::mem::take(&mut self.log.closed) {
            debug_assert!(self.space.leb(lnum).flags & flags::TAKEN != 0);
            self.space.release(lnum);
        }
        let mut lnum = old_tail;
        while lnum != self.log.tail {
            self.nodes.unmap(cx, lnum)?;
            lnum = self.log.next(lnum);
        }
        Ok(())
    }
}
