//! Mounting for writing: as for reading, and what a power cut left is mended on flash.
//!
//! Source: Linux 6.12 `fs/ubifs/super.c`, `recovery.c`, `replay.c`, `sb.c` (what is written, and in which order).

use sim::seam::{LebVolume, Payload};
use sim::{Cx, Lnum};

use super::budget::Budget;
use super::collect::Moving;
use super::inodes::Inodes;
use super::log::{Bud, Log};
use super::lpt::Lpt;
use super::orphans::Orphans;
use super::space::{Change, Space, Victims, flags};
use super::{Counters, Due, Options, Result, Ubifs, UbifsError};
use crate::compress::{Compressor, Decompressor};
use crate::ubifs::index::Index;
use crate::ubifs::media::lpt::LptGeometry;
use crate::ubifs::media::{
    BLOCK_BYTES, COMMIT_START_BYTES, Group, InodeNode, Key, MASTER_LNUMS, Master, NodeType, REFERENCE_BYTES,
    ReferenceNode, SB_LNUM, SuperBlock, encode_commit_start, master_flags, pad, sb_flags, seal,
};
use crate::ubifs::mkfs::{self, Attributes, Mkfs};
use crate::ubifs::mount::{Journal, log as log_reader, master, replay, superblock};
use crate::ubifs::nodes::{GC_HEAD, NO_LEB, Nodes};
use crate::ubifs::written::Part;
use crate::ubifs::{lprops, orphans};

impl<V: LebVolume> Ubifs<V> {
    /// Mounts `volume` for writing.
    /// Errors: the volume's; no UBIFS; a format that is not supported; damage that a power cut does not explain; no space
    /// to recover.
    pub fn mount(volume: V, cx: &mut Cx, options: Options) -> Result<Ubifs<V>> {
        Ubifs::mount_from(Nodes::new(volume), cx, options)
    }

    fn mount_from(mut nodes: Nodes<V>, cx: &mut Cx, options: Options) -> Result<Ubifs<V>> {
        let (sb, lebs_before) = superblock::read(&mut nodes, cx)?;
        nodes.set_write_units(sb.min_io_bytes, options.max_write_bytes.unwrap_or(sb.min_io_bytes));
        let found = master::read(&mut nodes, cx, &sb)?;
        let master = found.master;
        let is_unclean = found.is_recovered || master.flags & master_flags::DIRTY != 0;
        let props = lprops::read(&mut nodes, cx, &sb, &master)?;
        if let Some(error) = props.damaged.into_iter().next() {
            return Err(error);
        }
        let props = lprops::Lprops { damaged: Vec::new(), ..props };
        let mut index = Index::new(&sb, &master);
        index.note_gone();
        if !V::keeps_bytes() {
            index.keep_nodes();
        }
        let mut fs = Ubifs {
            nodes,
            options,
            min_io: sb.min_io_bytes,
            leb_bytes: sb.leb_bytes,
            master_offset: found.offset,
            index,
            index_bytes: master.index_bytes,
            committed_index_bytes: master.index_bytes,
            index_head: (master.index_head_lnum, master.index_head_offset),
            old_nodes: Vec::new(),
            dirty_index: Vec::new(),
            collected_index: Vec::new(),
            full_index: Vec::new(),
            space: Space::new(&sb, master.lscan_lnum, &props.lebs),
            lpt: Lpt::new(LptGeometry::new(&sb), sb.min_io_bytes, &master, &props),
            log: Log::new(&sb, (master.log_lnum, 0), master.log_lnum),
            budget: Budget::default(),
            orphans: Orphans::new(&sb),
            inodes: Inodes::default(),
            commit: master.commit,
            due: Due::No,
            sqnum: found.sqnum,
            highest_ino: master.highest_ino as u32,
            gc_lnum: None,
            broken: None,
            pack: Compressor::of_linux(),
            unpack: Decompressor::new(),
            batch: Vec::new(),
            block: Box::new([0; BLOCK_BYTES as usize]),
            packed: Vec::new(),
            promised: Vec::new(),
            found: Vec::new(),
            order: Vec::new(),
            stored: Vec::new(),
            moving: Moving::default(),
            counters: Counters::default(),
            next_writeback: sim::Ns::ZERO,
            is_mounting: true,
            master,
            sb,
        };
        for lnum in props.lsave {
            fs.space.read_leb(lnum);
        }
        fs.start(cx, lebs_before, found.is_recovered, is_unclean)?;
        fs.is_mounting = false;
        fs.nodes.set_cpu(options.cpu);
        fs.counters = Counters::default();
        Ok(fs)
    }

    /// Makes a file system on `volume`, which is empty, and mounts it. Its root is root's, with mode 0755.
    /// Errors: options that do not go together are `Unsupported`; the volume's.
    pub fn format(mut volume: V, cx: &mut Cx, make: &mkfs::Options, options: Options) -> Result<Ubifs<V>> {
        let unsupported = |what: String| UbifsError::Unsupported { what };
        let mut lebs: Vec<(u32, Vec<u8>)> = Vec::new();
        let sink = |lnum: Lnum, bytes: &[u8]| {
            lebs.push((lnum.0, bytes.to_vec()));
            Ok::<(), UbifsError>(())
        };
        let mut image = Mkfs::new(make, Box::new(sink)).map_err(|error| unsupported(error.to_string()))?;
        let root = image.root();
        let time = (options.epoch.seconds.cast_signed(), options.epoch.nanos);
        let attributes = Attributes { mode: 0o040_755, atime: time, ctime: time, mtime: time, ..Attributes::default() };
        let made = image.end_dir(&root, &attributes, &[]).and_then(|()| image.finish());
        made.map_err(|error| unsupported(error.to_string()))?;
        for (lnum, bytes) in &lebs {
            let payload = if V::keeps_bytes() { Payload::Bytes(bytes) } else { Payload::Length(bytes.len() as u32) };
            volume.write(cx, Lnum(*lnum), 0, payload)?;
        }
        let mut nodes = Nodes::new(volume);
        lebs.iter().for_each(|(lnum, bytes)| nodes.preload(*lnum, bytes));
        Ubifs::mount_from(nodes, cx, options)
    }

    fn start(&mut self, cx: &mut Cx, lebs_before: u32, is_recovered: bool, is_unclean: bool) -> Result<()> {
        if is_recovered {
            self.rewrite_master(cx)?;
        }
        if is_unclean && !self.options.known_bad.trust_heads {
            self.clear_head(cx, self.index_head.0, self.index_head.1)?;
            self.clear_head(cx, self.master.lpt_head_lnum, self.master.lpt_head_offset)?;
        }
        let must_fix = self.sb.flags & sb_flags::SPACE_FIXUP != 0;
        let log = log_reader::read(&mut self.nodes, cx, &self.sb, &self.master, is_unclean)?;
        self.log.head = log.head;
        if must_fix {
            self.fix_space(cx)?;
            self.sb.flags &= !sb_flags::SPACE_FIXUP;
        }
        if !is_unclean {
            self.master.flags |= master_flags::DIRTY;
            self.write_master(cx)?;
        }
        if must_fix || self.sb.lebs != lebs_before {
            self.write_super_block(cx)?;
        }
        self.space.change(self.index_head.0, Change { set: flags::TAKEN, ..Change::default() });
        let mut journal = replay::replay(&mut self.nodes, cx, &self.sb, &mut self.index, &log, is_unclean)?;
        self.sqnum = self.sqnum.max(log.max_sqnum).max(journal.max_sqnum);
        self.settle();
        self.highest_ino = self.highest_ino.max(journal.highest_ino);
        if let Some((lnum, scanned)) = &log.torn {
            self.rewrite_torn(cx, *lnum, scanned.nodes_end, scanned.end)?;
        }
        self.take_buds(cx, &journal)?;
        self.replay_was_done();
        if is_unclean {
            self.kill_orphans(cx)?;
        } else {
            for lnum in self.sb.orphan_first()..self.sb.main_first() {
                self.nodes.unmap(cx, lnum)?;
            }
        }
        if self.log.next(self.log.head.0) == self.log.tail {
            self.consolidate_log(cx)?;
        }
        if is_unclean {
            replay::fix_sizes(&mut self.nodes, cx, &mut self.index, &mut journal)?;
            self.settle();
            self.fix_sizes(cx, &journal)?;
            self.find_reserve(cx)
        } else {
            let lnum = self.master.gc_lnum;
            if self.space.leb(lnum).free != self.leb_bytes as i32 {
                let what = "the LEB kept for garbage collection is not empty";
                return Err(UbifsError::corrupt(lnum, 0, what));
            }
            self.space.change(lnum, Change { set: flags::TAKEN, ..Change::default() });
            self.gc_lnum = Some(lnum);
            self.nodes.unmap(cx, lnum)
        }
    }

    /// Writes the master node that rules to both LEBs.
    fn rewrite_master(&mut self, cx: &mut Cx) -> Result<()> {
        self.master.flags |= master_flags::DIRTY;
        let unit = (Master::BYTES as u32).next_multiple_of(self.min_io) as usize;
        let mut node = [0; Master::BYTES];
        Master { flags: self.master.flags | master_flags::RECOVERY, ..self.master }.encode(&mut node);
        let sqnum = self.next_sqnum();
        seal(&mut node, NodeType::Master, Group::None, sqnum);
        let mut bytes = node.to_vec();
        bytes.resize(unit, 0);
        pad(&mut bytes[Master::BYTES..]);
        for lnum in MASTER_LNUMS {
            self.nodes.change(cx, Part::Mount, lnum, &bytes)?;
        }
        self.master_offset = 0;
        Ok(())
    }

    fn write_super_block(&mut self, cx: &mut Cx) -> Result<()> {
        let mut node = [0; SuperBlock::BYTES];
        self.sb.encode(&mut node);
        let sqnum = self.next_sqnum();
        seal(&mut node, NodeType::SuperBlock, Group::None, sqnum);
        let mut bytes = node.to_vec();
        bytes.resize(SuperBlock::BYTES.next_multiple_of(self.min_io as usize), 0);
        pad(&mut bytes[SuperBlock::BYTES..]);
        self.nodes.change(cx, Part::Mount, SB_LNUM, &bytes)
    }

    /// A commit that did not end may have written at the index head or the LPT head.
    fn clear_head(&mut self, cx: &mut Cx, lnum: u32, offset: u32) -> Result<()> {
        if self.nodes.is_empty(cx, lnum, offset)? {
            return Ok(());
        }
        if offset == 0 {
            return self.nodes.unmap(cx, lnum);
        }
        let bytes = self.nodes.bytes(cx, lnum, 0, offset)?.to_vec();
        self.nodes.change(cx, Part::Mount, lnum, &bytes)
    }

    /// Removes what a power cut left after the last node of a LEB.
    fn rewrite_torn(&mut self, cx: &mut Cx, lnum: u32, nodes_end: u32, end: u32) -> Result<()> {
        if end == 0 {
            return self.nodes.unmap(cx, lnum);
        }
        let mut bytes = self.nodes.leb(cx, lnum, 0)?[..end as usize].to_vec();
        pad(&mut bytes[nodes_end as usize..]);
        self.nodes.change(cx, Part::Mount, lnum, &bytes)
    }

    /// Rewrites LEBs that a programmer of flash filled up with 0xFF, which cannot be written otherwise.
    fn fix_space(&mut self, cx: &mut Cx) -> Result<()> {
        let unit = (Master::BYTES as u32).next_multiple_of(self.min_io);
        let mut used: Vec<(u32, u32)> = MASTER_LNUMS.map(|lnum| (lnum, self.master_offset + unit)).into();
        let mut lnum = self.log.next(self.log.head.0);
        while lnum != self.log.tail {
            used.push((lnum, 0));
            lnum = self.log.next(lnum);
        }
        used.push(self.log.head);
        used.extend(self.lpt.used());
        used.extend((self.sb.orphan_first()..self.sb.main_first()).map(|lnum| (lnum, 0)));
        for lnum in self.sb.main_first()..self.sb.lebs {
            self.space.read_leb(lnum);
            used.push((lnum, self.leb_bytes - self.space.leb(lnum).free as u32));
        }
        for (lnum, len) in used {
            if len == 0 {
                self.nodes.unmap(cx, lnum)?;
            } else if len < self.leb_bytes {
                let bytes = self.nodes.bytes(cx, lnum, 0, len)?.to_vec();
                self.nodes.change(cx, Part::Mount, lnum, &bytes)?;
            }
        }
        Ok(())
    }

    /// The buds of the journal: their properties, and where the heads go on.
    fn take_buds(&mut self, cx: &mut Cx, journal: &Journal) -> Result<()> {
        let (lnum, offset) = self.index_head;
        let free = self.space.leb(lnum).free;
        if free != (self.leb_bytes - offset) as i32 {
            let what = format!("the index head, though {free} bytes of its LEB count as free");
            return Err(UbifsError::corrupt(lnum, offset, what));
        }
        for bud in &journal.buds {
            if let Some(nodes_end) = bud.torn_at {
                self.rewrite_torn(cx, bud.lnum, nodes_end, bud.end)?;
            }
            let leb = *self.space.leb(bud.lnum);
            let mut dirty = leb.dirty + (bud.end - bud.start - bud.used) as i32;
            if bud.start == 0 {
                // The properties are of what was in the LEB before it was emptied, which the last commit did not know.
                dirty -= self.leb_bytes as i32 - leb.free;
            }
            let free = (self.leb_bytes - bud.end) as i32;
            self.space.change(bud.lnum, Change { free: Some(free), dirty: Some(dirty), set: flags::TAKEN, clear: 0 });
            let head = bud.head as usize;
            self.log.add(Bud { lnum: bud.lnum, start: bud.start, head });
            self.nodes.seek(head, bud.lnum, bud.end);
        }
        Ok(())
    }

    fn kill_orphans(&mut self, cx: &mut Cx) -> Result<()> {
        if self.master.flags & master_flags::NO_ORPHANS != 0 {
            return Ok(());
        }
        let killed = orphans::kill(&mut self.nodes, cx, &self.sb, &mut self.index)?;
        self.settle();
        self.commit = self.commit.max(killed.commit);
        for (lnum, scanned) in &killed.torn {
            self.rewrite_torn(cx, *lnum, scanned.nodes_end, scanned.end)?;
        }
        if let Some(head) = killed.head {
            self.orphans.head = head;
        }
        Ok(())
    }

    /// Commits that did not end have filled the log: it is written anew, with what counts.
    fn consolidate_log(&mut self, cx: &mut Cx) -> Result<()> {
        let mut bytes = vec![0; COMMIT_START_BYTES];
        let sqnum = self.next_sqnum();
        encode_commit_start(self.master.commit, &mut bytes, sqnum);
        for at in 0..self.log.buds.len() {
            let Bud { lnum, start, head } = self.log.buds[at];
            let from = bytes.len();
            bytes.resize(from + REFERENCE_BYTES, 0);
            let sqnum = self.next_sqnum();
            ReferenceNode { lnum, offset: start, head: head as u32 }.encode(&mut bytes[from..], sqnum);
        }
        let used = bytes.len();
        bytes.resize(used.next_multiple_of(self.min_io as usize), 0);
        pad(&mut bytes[used..]);
        let tail = self.log.tail;
        if bytes.len() > self.leb_bytes as usize {
            return Err(UbifsError::corrupt(tail, 0, "the log is full, and its references do not fit into one LEB"));
        }
        self.nodes.change(cx, Part::Mount, tail, &bytes)?;
        let mut lnum = self.log.next(tail);
        while lnum != tail {
            self.nodes.unmap(cx, lnum)?;
            lnum = self.log.next(lnum);
        }
        self.log.head = (tail, bytes.len() as u32);
        Ok(())
    }

    /// Gives files whose data were written, but not their inode, the size that the data say.
    fn fix_sizes(&mut self, cx: &mut Cx, journal: &Journal) -> Result<()> {
        for (&ino, &size) in &journal.sizes {
            let Some((_, branch)) = self.index.find(&mut self.nodes, cx, Key::inode(ino))? else { continue };
            let mut leb = self.nodes.leb(cx, branch.lnum, 0)?.to_vec();
            let node = &mut leb[branch.offset as usize..][..branch.len as usize];
            InodeNode::set_size(node, size);
            let used = leb.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
            let whole = used.next_multiple_of(self.min_io as usize);
            self.nodes.change(cx, Part::Mount, branch.lnum, &leb[..whole])?;
        }
        Ok(())
    }

    /// Finds a LEB for garbage collection: one whose contents fit behind those of the collector's head, or an empty one.
    fn find_reserve(&mut self, cx: &mut Cx) -> Result<()> {
        let (lnum, offset) = (self.nodes.head(GC_HEAD).lnum, self.nodes.head(GC_HEAD).offset);
        let victim = match lnum {
            NO_LEB => None,
            _ if offset == self.leb_bytes => None,
            _ => {
                let least = self.budget.min_index_lebs;
                self.space.take_dirty(offset as i32, Victims::NoIndex, least, 0)
            }
        };
        match victim {
            Some((lnum, _)) => {
                self.run_commit(cx)?;
                let leb = *self.space.leb(lnum);
                self.collect_reserve(cx, lnum, leb)
            }
            None => {
                let reserve = self.space.take_empty(0).ok_or(UbifsError::NoSpace)?;
                self.nodes.unmap(cx, reserve)?;
                self.gc_lnum = Some(reserve);
                self.run_commit(cx)
            }
        }
    }
}
