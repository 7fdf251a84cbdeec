//! Rebuild of the mapping after a loss of power, from the tags of the pages.

use super::*;
use std::cmp::Ordering;

impl PageFtl {
    /// Rebuilds the FTL from the flash as it is found after a loss of power.
    ///
    /// `programmed` lists every programmed page once, in any order: its number, and the logical page and sequence
    /// number in its spare area, or `None` if they cannot be read (a torn program, a page that failed). Of several
    /// pages for a logical page, the highest sequence number wins. Copies may carry their source's number: on a tie,
    /// blocks whose contents are all held elsewhere as well are left out, lowest number first, and then the lowest page
    /// wins. `erases` are the blocks' erase counts, `retired` the blocks that went bad after leaving the factory;
    /// contents of bad blocks are ignored.
    ///
    /// Blocks with any programmed page are closed, at ages in the order of their highest sequence numbers, and are not
    /// programmed further before they are erased: an interrupted program may have touched pages that look erased. Room
    /// in half-filled blocks is therefore lost until they are collected. With a `gc_low` of 1 it may happen that no
    /// free block is left to collect with, and the unit is full; from 2 on, and with copies that carry their source's
    /// number, that does not happen.
    ///
    /// A trim leaves no trace on flash: a trimmed page is mapped again if its contents have not been erased, unless the
    /// caller trims it again. Counters begin at zero.
    ///
    /// Errors: as [`PageConfig::check`]; a wrong number of erase counts; a block or page number out of range.
    pub fn rebuild(
        config: PageConfig,
        rng: Rng,
        erases: Vec<u32>,
        retired: &[u32],
        programmed: impl IntoIterator<Item = (u32, Option<(u32, u64)>)>,
    ) -> Result<PageFtl, ConfigError> {
        let below = |what, found: u32, bound: usize| {
            if (found as usize) < bound {
                return Ok(());
            }
            Err(ConfigError { what, found: found.into(), expected: format!("below {bound}") })
        };
        if erases.len() != config.blocks as usize {
            let expected = format!("{}, the unit's blocks", config.blocks);
            return Err(ConfigError { what: "erase counts", found: erases.len() as u64, expected });
        }
        let mut ftl = PageFtl::without_free_blocks(config, erases, rng)?;
        for &block in retired {
            below("retired block", block, ftl.state.len())?;
            ftl.state[block as usize] = BlockState::Bad;
        }
        ftl.spread = ftl.spread_of_good_blocks();

        let mut last: Vec<u64> = vec![0; ftl.state.len()];
        let mut tags: Vec<(u32, u32, u64)> = Vec::with_capacity(ftl.p2l.len());
        for (ppn, tag) in programmed {
            below("physical page", ppn, ftl.p2l.len())?;
            let block = ftl.block_of(ppn);
            let at = block as usize;
            if ftl.state[at] == BlockState::Bad {
                continue;
            }
            let page = ppn - block * ftl.config.pages;
            below("page of a block", page, ftl.capacity(block) as usize)?;
            ftl.state[at] = BlockState::Closed;
            ftl.written[at] = ftl.written[at].max(page + 1);
            let Some((lpn, seq)) = tag else {
                continue;
            };
            below("logical page", lpn, ftl.l2p.len())?;
            last[at] = last[at].max(seq);
            tags.push((ppn, lpn, seq));
        }
        tags.sort_unstable();
        ftl.map_newest(&tags);
        let mut closed: Vec<u32> = Vec::new();
        for block in 0..ftl.config.blocks {
            match ftl.state[block as usize] {
                BlockState::Free => ftl.put_free(block),
                BlockState::Closed => closed.push(block),
                _ => {}
            }
        }
        closed.sort_unstable_by_key(|&block| (last[block as usize], block));
        for block in closed {
            ftl.clock += u64::from(ftl.config.pages);
            if ftl.slc[block as usize] {
                ftl.slc_closed.push_back(block);
            } else {
                ftl.index.insert(block, ftl.clock);
            }
        }
        ftl.clock_before = ftl.clock;
        Ok(ftl)
    }
    /// Maps each logical page to the page with its newest contents. `tags` are pages in ascending order, as (physical
    /// page, logical page, sequence number).
    fn map_newest(&mut self, tags: &[(u32, u32, u64)]) {
        // For each logical page: the highest sequence number, and how many pages have it.
        let mut newest: Vec<(u64, u32)> = vec![(0, 0); self.l2p.len()];
        for &(_, lpn, seq) in tags {
            let newest = &mut newest[lpn as usize];
            match seq.cmp(&newest.0) {
                Ordering::Equal => newest.1 += 1,
                Ordering::Greater => *newest = (seq, 1),
                Ordering::Less => {}
            }
        }
        let by_pages = self.by_pages;
        let mut rest = tags;
        while let Some(&(first, ..)) = rest.first() {
            let end = (by_pages.quotient(first) + 1) * self.config.pages;
            let of_block;
            (of_block, rest) = rest.split_at(rest.partition_point(|&(ppn, ..)| ppn < end));
            let current = || of_block.iter().filter(|&&(_, lpn, seq)| newest[lpn as usize].0 == seq);
            if current().all(|&(_, lpn, _)| newest[lpn as usize].1 > 1) {
                let mut lpns: Vec<u32> = current().map(|&(_, lpn, _)| lpn).collect();
                let pages = lpns.len();
                lpns.sort_unstable();
                lpns.dedup();
                if lpns.len() == pages {
                    // An interrupted collection: all its contents are elsewhere too, so the block need not be
                    // collected again.
                    lpns.iter().for_each(|&lpn| newest[lpn as usize].1 -= 1);
                    continue;
                }
            }
            for &(ppn, lpn, seq) in of_block {
                if newest[lpn as usize].0 == seq && self.l2p[lpn as usize] == NONE {
                    self.l2p[lpn as usize] = ppn;
                    self.p2l[ppn as usize] = lpn;
                    self.index.add_valid(by_pages.quotient(ppn), 1);
                }
            }
        }
    }
}
