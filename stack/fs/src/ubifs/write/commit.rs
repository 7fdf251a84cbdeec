//! The commit: index and LEB properties are written, and the log begins anew.
//!
//! Source: Linux 6.12 `fs/ubifs/commit.c`, `master.c` (order of what is written).

use sim::seam::LebVolume;
use sim::{Cause, Cx};

use super::space::{Change, flags};
use super::{Due, Result, Ubifs};
use crate::ubifs::media::Group;
use crate::ubifs::media::{MASTER_LNUMS, Master, NodeType, master_flags, pad, seal};
use crate::ubifs::written::Part;

impl<V: LebVolume> Ubifs<V> {
    /// Commits, if there is anything to commit.
    /// Errors: the medium's; there is no space for the index, which budgeting rules out.
    pub(super) fn run_commit(&mut self, cx: &mut Cx) -> Result<()> {
        self.space.take_changed(|leb| self.lpt.changed(leb));
        let has_changes = self.index.dirty_nodes() > 0 || self.lpt.is_dirty();
        let due = std::mem::replace(&mut self.due, Due::No);
        if !has_changes && !self.is_mounting {
            return Ok(());
        }
        self.counters.commits += 1;
        self.counters.commits_required += u64::from(due == Due::Required);
        cx.because(Cause::Flush, |cx| self.flush_heads(cx))?;
        self.commit += 1;
        // What a mount deletes, orphans, is not in the journal: if power fails, the next mount must find it again.
        if !self.is_mounting {
            cx.because(Cause::Gc, |cx| self.collect_trivial(cx))?;
        }
        let tail = cx.because(Cause::Journal, |cx| self.start_commit_in_log(cx))?;
        let root = cx.because(Cause::Index, |cx| self.write_index(cx))?;
        let (volume, lpt) = (&mut self.nodes, &mut self.lpt);
        cx.because(Cause::Layout, |cx| lpt.commit(volume, cx, &mut self.space, &mut self.master))?;
        self.release_index();
        let has_orphans = cx.because(Cause::Layout, |cx| self.write_orphans(cx))?;
        let totals = self.space.totals;
        let whole = |count: i64| count.max(0) as u64;
        self.master = Master {
            commit: self.commit,
            log_lnum: tail,
            root_lnum: root.lnum,
            root_offset: root.offset,
            root_len: root.len,
            index_head_lnum: self.index_head.0,
            index_head_offset: self.index_head.1,
            index_bytes: self.committed_index_bytes,
            empty_lebs: totals.empty_lebs as u32,
            index_lebs: totals.index_lebs as u32,
            total_free: whole(totals.free),
            total_dirty: whole(totals.dirty),
            total_used: whole(totals.used),
            total_dead: whole(totals.dead),
            total_dark: whole(totals.dark),
            flags: self.master.flags & !master_flags::NO_ORPHANS
                | if has_orphans { 0 } else { master_flags::NO_ORPHANS },
            lscan_lnum: self.space.scan_lnum(),
            ..self.master
        };
        let old_tail = self.log.tail;
        self.move_log_tail(tail);
        if self.options.known_bad.clean_log_first {
            self.clean_log(cx, old_tail)?;
        }
        cx.because(Cause::Layout, |cx| self.write_master(cx))?;
        if !self.options.known_bad.clean_log_first {
            self.clean_log(cx, old_tail)?;
        }
        // Linux's list of them grows at its head.
        for lnum in std::mem::take(&mut self.collected_index).into_iter().rev() {
            self.nodes.unmap(cx, lnum)?;
            self.space.release(lnum);
        }
        self.lpt.after_commit(&mut self.nodes, cx, &mut self.space)
    }

    /// LEBs without anything of use become empty: those of data now, those of the index after the commit, for until then
    /// its old nodes are needed.
    fn collect_trivial(&mut self, cx: &mut Cx) -> Result<()> {
        let empty = Change { free: Some(self.leb_bytes as i32), dirty: Some(0), ..Change::default() };
        while let Some(lnum) = self.space.freeable() {
            self.nodes.unmap(cx, lnum)?;
            self.space.change(lnum, empty);
        }
        while let Some(lnum) = self.space.freeable_index() {
            self.space.change(lnum, Change { set: flags::TAKEN, clear: flags::INDEX, ..empty });
            self.collected_index.push(lnum);
        }
        Ok(())
    }

    /// Writes the master node to both LEBs.
    pub(super) fn write_master(&mut self, cx: &mut Cx) -> Result<()> {
        let unit = (Master::BYTES as u32).next_multiple_of(self.min_io);
        self.master.highest_ino = self.highest_ino.into();
        let mut offset = self.master_offset + unit;
        if offset + unit > self.leb_bytes {
            offset = 0;
        }
        let copies = if self.options.known_bad.write_one_master { 1 } else { MASTER_LNUMS.len() };
        for &lnum in &MASTER_LNUMS[..copies] {
            let mut node = [0; Master::BYTES];
            self.master.encode(&mut node);
            let sqnum = self.next_sqnum();
            seal(&mut node, NodeType::Master, Group::None, sqnum);
            let mut bytes = node.to_vec();
            bytes.resize(unit as usize, 0);
            pad(&mut bytes[Master::BYTES..]);
            if offset == 0 {
                self.nodes.unmap(cx, lnum)?;
            }
            self.nodes.write(cx, Part::Master, (lnum, offset), &bytes)?;
        }
        self.master_offset = offset;
        Ok(())
    }
}
