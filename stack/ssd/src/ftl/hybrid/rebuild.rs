//! Rebuild of the tables and roles after a loss of power, from the tags of the pages.
//!
//! The newest page of a logical page is the one with the highest sequence number. Copies may carry the number of their
//! source: if two pages have the same number, blocks whose pages all have another copy elsewhere are dropped first,
//! lowest block number first. Then a page counts that is in a block that takes further pages, then one in a block whose newest
//! pages are all at their offsets and of one logical block, so that a finished merge stays complete; then the one in the block
//! with the highest sequence number of all, the lowest page on a tie.
//!
//! Roles are derived from the contents. Blocks are considered in the order of their newest page. The first whose valid
//! pages are at their offsets and of one logical block becomes its data block. Of the others the newest become log
//! blocks, as many as may be in use and as the FTL's kind of log blocks allows; the rest are merged out before the
//! first write. A trim leaves no trace on the flash: a page that was trimmed and not yet erased is mapped again.

use super::*;

/// A page found by a scan: physical page; logical page and sequence number, or `None` for padding and for pages that
/// cannot be read.
pub type Scanned = (u32, Option<(u32, u64)>);

impl<P: LogPolicy> Hybrid<P> {
    /// Rebuilds an FTL from the erase counts and from every programmed page: physical page; logical page and sequence
    /// number, which grew with each write (copies may carry their source's), or `None` for padding. Trims are lost. Blocks in
    /// `closed` take no more pages before they are erased.
    /// Errors: as [`new`](Self::new); a wrong number of erase counts; a page or block out of range.
    pub fn rebuild(
        config: HybridConfig,
        erases: Vec<u32>,
        closed: &[u32],
        scan: impl IntoIterator<Item = Scanned>,
    ) -> Result<Hybrid<P>, ConfigError> {
        let refuse = |what, found: u64, expected: String| Err(ConfigError { what, found, expected });
        let mut ftl = Hybrid::without_free_blocks(config)?;
        if erases.len() != ftl.blocks.len() {
            return refuse("erase counts", erases.len() as u64, format!("{}, one a block", ftl.blocks.len()));
        }
        ftl.erases = erases;
        let mut tags: Vec<Option<(u32, u64)>> = vec![None; ftl.p2l.len()];
        for (ppn, tag) in scan {
            if ppn as usize >= tags.len() {
                return refuse("physical page", ppn.into(), format!("below {}", tags.len()));
            }
            if let Some((lpn, _)) = tag.filter(|&(lpn, _)| lpn >= ftl.config.lpns) {
                return refuse(
                    "logical page",
                    lpn.into(),
                    format!("below {}, at physical page {ppn}", ftl.config.lpns),
                );
            }
            let block = ftl.block_of(ppn);
            let held = &mut ftl.blocks[block as usize];
            if held.role != Role::Bad {
                held.next = held.next.max(ppn % ftl.config.pages + 1);
                tags[ppn as usize] = tag;
            }
        }
        for &block in closed {
            let pages = ftl.config.pages;
            match ftl.blocks.get_mut(block as usize) {
                Some(held) if held.role == Role::Bad => {}
                Some(held) => held.next = pages,
                None => return refuse("block", block.into(), format!("below {}", ftl.blocks.len())),
            }
        }
        ftl.map_newest(&tags, closed);
        ftl.give_roles(&tags);
        ftl.gather_free();
        Ok(ftl)
    }

    fn map_newest(&mut self, tags: &[Option<(u32, u64)>], closed: &[u32]) {
        // For each logical page: the highest sequence number, and how many pages have it.
        let mut best: Vec<(u64, u32)> = vec![(0, 0); self.l2p.len()];
        for &(lpn, seq) in tags.iter().flatten() {
            let best = &mut best[lpn as usize];
            match seq.cmp(&best.0) {
                _ if best.1 == 0 => *best = (seq, 1),
                std::cmp::Ordering::Greater => *best = (seq, 1),
                std::cmp::Ordering::Equal => best.1 += 1,
                std::cmp::Ordering::Less => {}
            }
        }
        let pages = self.config.pages;
        let mut kept = Vec::new();
        for (block, tags) in (0..).zip(tags.chunks(pages as usize)) {
            let newest = || tags.iter().flatten().filter(|&&(lpn, seq)| best[lpn as usize].0 == seq);
            // If a block has the same page twice, one of the two may be the only other copy: then the block is kept.
            if newest().next().is_some() && newest().all(|&(lpn, _)| best[lpn as usize].1 > 1) {
                let distinct = {
                    let mut lpns: Vec<_> = newest().map(|&(lpn, _)| lpn).collect();
                    lpns.sort_unstable();
                    lpns.windows(2).all(|pair| pair[0] != pair[1])
                };
                if distinct {
                    let dropped: Vec<_> = newest().map(|&(lpn, _)| lpn).collect();
                    dropped.into_iter().for_each(|lpn| best[lpn as usize].1 -= 1);
                    continue;
                }
            }
            let highest = tags.iter().flatten().map(|&(_, seq)| seq).max();
            let held = (0..).zip(tags).filter_map(|(offset, tag)| tag.map(|(lpn, seq)| (offset, lpn, seq)));
            let mut newest = held.filter(|&(_, lpn, seq)| best[lpn as usize].0 == seq);
            let logical = newest.clone().next().map(|(_, lpn, _)| lpn / pages);
            let in_place = newest.all(|(offset, lpn, _)| (Some(lpn / pages), lpn % pages) == (logical, offset));
            kept.push((closed.contains(&block), !in_place, Reverse(highest), block));
        }
        kept.sort_unstable();
        for (.., block) in kept {
            for offset in 0..pages {
                let ppn = block * pages + offset;
                let Some((lpn, seq)) = tags[ppn as usize] else { continue };
                if best[lpn as usize].0 == seq && self.l2p[lpn as usize] == NONE {
                    self.l2p[lpn as usize] = ppn;
                    self.p2l[ppn as usize] = lpn;
                    self.blocks[block as usize].valid += 1;
                    self.logical[(lpn / pages) as usize].live += 1;
                }
            }
        }
    }

    fn give_roles(&mut self, tags: &[Option<(u32, u64)>]) {
        let pages = self.config.pages;
        let mut order: Vec<(u64, u32)> = Vec::new();
        for block in 0..self.config.blocks {
            let held = &mut self.blocks[block as usize];
            if held.role == Role::Bad || held.next == 0 {
                continue;
            }
            if held.valid == 0 {
                held.role = Role::Stale;
                self.stale.push_back(block);
                continue;
            }
            let of_block = &tags[(block * pages) as usize..((block + 1) * pages) as usize];
            order.push((of_block.iter().flatten().map(|&(_, seq)| seq).max().unwrap_or(0), block));
        }
        order.sort_unstable();
        for (stamp, &(_, block)) in (0..).zip(&order) {
            self.blocks[block as usize].stamp = stamp;
        }
        self.counts.host_pages = order.len() as u64;
        let mut others = Vec::new();
        for (_, block) in order {
            match self.only_logical(block) {
                Some((logical, true)) if self.logical(logical).data == NONE => {
                    self.blocks[block as usize].role = Role::Data;
                    self.blocks[block as usize].owner = logical;
                    self.logical[logical as usize].data = block;
                }
                only => others.push((block, only.map(|(logical, _)| logical))),
            }
        }
        let limit = self.log_limit() as usize;
        for (block, only) in others.into_iter().rev() {
            let own = only.filter(|&logical| {
                self.logical(logical).log == NONE
                    && match P::LOGS {
                        LogKind::PerBlock => self.opened.len() < limit,
                        LogKind::InPlace => self.opened.len() < limit && self.holds_in_order(block, logical),
                        LogKind::Shared => limit > 1 && self.opened.is_empty() && self.holds_in_order(block, logical),
                    }
            });
            let room = limit.saturating_sub(usize::from(limit > 1));
            let held = &mut self.blocks[block as usize];
            if let Some(logical) = own {
                (held.role, held.owner) = (Role::Log, logical);
                self.logical[logical as usize].log = block;
                self.opened.push(logical);
            } else if P::LOGS == LogKind::Shared && self.shared.len() < room {
                held.role = Role::Shared;
                self.shared.push_front(block);
            } else {
                held.role = Role::Orphan;
                held.evacuating = true;
                self.emptying.push_front(block);
            }
        }
    }

    /// The logical block of all valid pages of a block, if it is a single one, and whether all are at their offsets.
    fn only_logical(&self, block: u32) -> Option<(u32, bool)> {
        let pages = self.config.pages;
        let mut found = None;
        let mut in_place = true;
        for offset in 0..self.block(block).next {
            let lpn = self.p2l[(block * pages + offset) as usize];
            if lpn == NONE {
                continue;
            }
            if found.is_some_and(|logical| logical != lpn / pages) {
                return None;
            }
            found = Some(lpn / pages);
            in_place &= lpn % pages == offset;
        }
        found.map(|logical| (logical, in_place))
    }
}
