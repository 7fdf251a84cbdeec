//! Programs that fail: what was on its way to the block is written to another one.
//!
//! A page holds the ends and beginnings of several nodes, so more is at stake than the node that is being written: what
//! waited in the write buffer was taken for written. The nodes of the page keep their numbers and get new places; the block
//! gets nothing more, garbage collection empties it before others, and its erasure decides whether it is bad. On NOR a
//! program is of one node, which is written again behind the one that failed.
//!
//! A failed program may leave a node on flash that can be read. On NOR it is marked obsolete there. On NAND it counts as an
//! obsolete one that the next mount finds: it is equal to the one that was written again.
//!
//! Source: Linux 6.12, `jffs2_wbuf_recover` and `jffs2_write_dnode`, which try a second time and then lose the data.

use sim::seam::{Flash, FlashError};
use sim::{Cause, Cx};

use super::blocks::{List, NodeState, Owner};
use super::device::Withdrawn;
use super::error::{Jffs2Error, Result};
use super::media::{Entry, HEADER_BYTES, Header, padded};
use super::space::Wanted;
use super::{Collected, Jffs2};

/// Programs that may fail on the way of one node to the flash, those for other nodes that are at stake too.
const MOST_FAILURES: u32 = 8;

/// What is known while failed programs are repeated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retries {
    /// Calls under way that repeat programs; the innermost of them may be on behalf of others.
    depth: u32,
    /// Programs that failed since the outermost of them began.
    failures: u32,
    /// Nodes were withdrawn from the write buffer, and are not yet there again.
    rescues: bool,
}

impl Retries {
    /// Whether nodes that count as written are neither on flash nor in the write buffer.
    pub fn rescues(&self) -> bool {
        self.rescues
    }
}

/// A node on its way to another block.
#[derive(Debug)]
struct Rescued {
    id: u32,
    bytes: Vec<u8>,
    entry: Option<Entry>,
    ino: Option<u32>,
}

impl<F: Flash> Jffs2<F> {
    /// Runs `part`, in which so many programs may fail and no more.
    pub(super) fn bounded<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.retries.depth += 1;
        let done = part(self);
        self.retries.depth -= 1;
        if self.retries.depth == 0 {
            self.retries.failures = 0;
        }
        done
    }

    /// Notes that a program failed.
    /// Errors: too many did, or it is another error.
    pub(super) fn tolerate(&mut self, error: FlashError) -> Result<()> {
        if !matches!(error, FlashError::ProgramFailed { .. }) {
            return Err(self.fail(error));
        }
        self.counters.failed_programs += 1;
        self.retries.failures += 1;
        if self.retries.failures > MOST_FAILURES { Err(self.fail(error)) } else { Ok(()) }
    }

    /// Writes a node where room was reserved for it, or elsewhere if that fails. Returns its block and offset.
    pub(super) fn place(
        &mut self,
        cx: &mut Cx,
        node: &[u8],
        owner: Owner,
        in_summary: u32,
        ino: Option<u32>,
    ) -> Result<(u32, u32)> {
        let len = padded(node.len() as u32);
        let wanted = Wanted { bytes: len, in_summary };
        self.bounded(|fs| {
            loop {
                let block = fs.blocks.first(List::Next).expect("room was reserved");
                let offset = fs.blocks.block_bytes - fs.blocks.at(block).sizes.free;
                let error = match fs.program(cx, block, offset, node, ino) {
                    Ok(()) => return Ok((block, offset)),
                    Err(error) => error,
                };
                fs.tolerate(error)?;
                if fs.device.may_program_again() {
                    let left = fs.blocks.add(block, len, NodeState::Obsolete, Owner::None);
                    fs.mark_obsolete(cx, left)?;
                    fs.reserve_for_collection(cx, wanted)?;
                    continue;
                }
                let left = fs.blocks.add(block, len, NodeState::Obsolete, owner);
                fs.note_node(left, owner);
                fs.retire(cx, block)?;
                if let Err(error) = fs.reserve_for_collection(cx, wanted) {
                    // The caller takes it for not written, and a mount may find it.
                    fs.give_up_writing(&error);
                    return Err(error);
                }
            }
        })
    }

    /// A node is on flash, or may be.
    fn note_node(&mut self, id: u32, owner: Owner) {
        match owner {
            Owner::Inode(ino) => self.cache(ino).nodes.push(id),
            Owner::Xattr(xid) => self.xattrs.note_datum(xid, id),
            Owner::Xref(ino, xid) => self.xattrs.note_ref(ino, xid, id),
            Owner::None => {}
        }
    }

    /// Writes to the flash that a node is obsolete. Without that mark the next mount would take the node for one that counts.
    pub(super) fn mark_obsolete(&mut self, cx: &mut Cx, id: u32) -> Result<()> {
        let node = *self.blocks.node(id);
        self.bounded(|fs| {
            while let Err(error) = fs.device.mark_obsolete(cx, node.block, node.offset) {
                fs.tolerate(error)?;
            }
            Ok(())
        })?;
        self.forget_node(id, node.owner);
        Ok(())
    }

    /// A program failed in the block that is written. Where there is a write buffer, what waited in it is written to another
    /// block, and the block gets nothing more.
    /// Errors: that fails too often; there is no room. Nothing is written any more then.
    pub(super) fn retire(&mut self, cx: &mut Cx, block: u32) -> Result<()> {
        if self.device.page_bytes().is_none() {
            return Ok(());
        }
        let outer = std::mem::replace(&mut self.retries.rescues, true);
        let done = cx.because(Cause::Recovery, |cx| self.rescue(cx, block));
        self.retries.rescues = outer;
        if let Err(error) = &done {
            self.give_up_writing(error);
        }
        if !outer && !self.device.is_waiting() {
            self.buffer_is_safe(cx);
        }
        done
    }

    fn give_up_writing(&mut self, error: &Jffs2Error) {
        if !error.is_power_loss() {
            self.broken.get_or_insert("a program failed, and what was to be written found no other place");
        }
    }

    fn rescue(&mut self, cx: &mut Cx, block: u32) -> Result<()> {
        let waiting = self.device.waiting_page().filter(|&(other, _)| other == block);
        let mut rescued = Vec::new();
        if let Some((_, page)) = waiting {
            let nodes = self.blocks.at(block).nodes.iter().copied();
            let is_at_stake = |&id: &u32| {
                let node = self.blocks.node(id);
                node.state != NodeState::Obsolete && node.offset + node.len > page
            };
            for id in nodes.filter(is_at_stake).collect::<Vec<u32>>() {
                rescued.push(self.read_waiting(cx, id)?);
            }
        }
        let withdrawn = waiting.and_then(|_| self.device.withdraw());
        if self.blocks.at(block).list == List::Next {
            let Collected { entries, .. } = std::mem::take(&mut self.collected);
            for one in &mut rescued {
                let offset = self.blocks.node(one.id).offset;
                one.entry = entries.iter().find(|entry| entry.place().0 == offset).cloned();
            }
            let how = self.obsoleting(cx);
            self.blocks.give_up(block, how);
        }
        if self.options.known_bad.drop_after_failure {
            return Ok(());
        }
        for Rescued { id, bytes, entry, ino } in rescued {
            let owner = self.blocks.node(id).owner;
            let ino = ino.filter(|&ino| withdrawn.as_ref().is_some_and(|before: &Withdrawn| before.is_of(ino)));
            let in_summary = entry.as_ref().map_or(0, Entry::bytes);
            self.reserve_for_collection(cx, Wanted { bytes: padded(bytes.len() as u32), in_summary })?;
            let (to, offset) = self.place(cx, &bytes, owner, in_summary, ino)?;
            let how = self.obsoleting(cx);
            let left = self.blocks.relocate(id, to, how);
            self.note_node(left, owner);
            self.note_entry(entry, offset);
            self.counters.rescued += 1;
            self.fill_up(cx, to)?;
        }
        Ok(())
    }

    /// A node of which something waits in the write buffer.
    fn read_waiting(&mut self, cx: &mut Cx, id: u32) -> Result<Rescued> {
        let node = *self.blocks.node(id);
        let mut bytes = vec![0; node.len as usize];
        self.device.read(cx, node.block, node.offset, &mut bytes).map_err(|error| self.fail(error))?;
        self.spend(cx, 1, u64::from(node.len));
        // What is written ends with the node: bytes up to the next one stay erased.
        if let Some(header) = bytes.get(..HEADER_BYTES).and_then(|head| Header::read(self.device.endian(), head).ok()) {
            bytes.truncate(header.len as usize);
        }
        let ino = match node.owner {
            Owner::Inode(ino) | Owner::Xref(ino, _) => Some(ino),
            // An attribute is of several inodes.
            Owner::Xattr(_) => Some(0),
            Owner::None => None,
        };
        Ok(Rescued { id, bytes, entry: None, ino })
    }
}
