//! The circular log: which bytes of the flash hold live nodes, which are dirt, and which are erased.
//!
//! Knows places and sizes. Does not know what a node says.
//!
//! Invariants ([`Log::check`]): chunks follow each other without gaps, around the end of the flash; the first begins at a
//! sector; used, dirty and free bytes sum to the flash.

use std::collections::VecDeque;

/// A range of the flash that is written, or cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its first byte.
    pub offset: u32,
    /// Its length, a multiple of four.
    pub bytes: u32,
    /// Inode and version of the node that lives in it; `None` of dirt.
    pub node: Option<(u32, u32)>,
    /// The inode of its node, if there is one on the flash, obsolete or not; else 0.
    pub ino: u32,
    /// The node replaces another inode.
    pub renames: bool,
}

/// A node that goes on beyond the bytes that are erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where its rest begins.
    pub at: u32,
    /// Bytes of the rest.
    pub bytes: u32,
    /// Bytes of the node before the rest.
    pub before: u32,
    /// Its inode, or 0.
    pub ino: u32,
    /// It replaces another inode.
    pub renames: bool,
}

/// Number of a chunk. It stays the same as long as the chunk is in the log.
pub type ChunkId = u64;

/// Where something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It fits here.
    At(ChunkId),
    /// The space at the end of the flash is too small. It is dirt now, in this chunk, and must be filled.
    FillFirst(ChunkId),
    /// It fits nowhere.
    Nowhere,
}

/// The log.
#[derive(Clone, Debug)]
pub struct Log {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: ChunkId,
    /// Where the log begins.
    head: u32,
    /// Whether that is known: a scan finds it by the erased range before it.
    head_is_known: bool,
    /// Bytes of the flash.
    pub size: u32,
    /// Bytes of a sector.
    pub sector: u32,
    /// Bytes of live nodes.
    pub used: u32,
    /// Bytes of dirt.
    pub dirty: u32,
}

impl Log {
    /// The log of chunks that a scan found, in the order of the flash, the erased ranges left out. `None` if there is more
    /// than one gap inside them, so that nobody can say which of them is oldest.
    pub fn of_scan(size: u32, sector: u32, mut found: VecDeque<Chunk>) -> Option<Log> {
        let gaps: Vec<usize> =
            (1..found.len()).filter(|&at| found[at - 1].offset + found[at - 1].bytes < found[at].offset).collect();
        let is_open = |chunk: Option<&Chunk>| chunk.is_some_and(|chunk| chunk.offset + chunk.bytes < size);
        match gaps[..] {
            [] => {}
            // What follows the gap is oldest. The log goes on at the beginning of the flash, so nothing is missing there.
            [gap] if !is_open(found.back()) && found[0].offset == 0 => found.rotate_left(gap),
            _ => return None,
        }
        let bytes =
            |live: bool| found.iter().filter(|chunk| chunk.node.is_some() == live).map(|chunk| chunk.bytes).sum();
        let (used, dirty): (u32, u32) = (bytes(true), bytes(false));
        let head = found.front().map_or(0, |first| first.offset);
        Some(Log { chunks: found, first: 0, head, head_is_known: used + dirty < size, size, sector, used, dirty })
    }

    /// Erased bytes.
    pub fn free(&self) -> u32 {
        self.size - self.used - self.dirty
    }

    /// Where the next node goes.
    pub fn tail(&self) -> u32 {
        self.chunks.back().map_or(self.head, |last| (last.offset + last.bytes) % self.size)
    }

    /// Where the log begins.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Erased bytes in one piece from the tail on.
    pub fn free_at_tail(&self) -> u32 {
        let (head, tail) = (self.head(), self.tail());
        match self.free() {
            0 => 0,
            _ if head <= tail => self.size - tail,
            _ => head - tail,
        }
    }

    /// Erased bytes at the beginning of the flash, if there are others at the end.
    pub fn free_at_start(&self) -> u32 {
        self.free() - self.free_at_tail()
    }

    /// A chunk.
    pub fn chunk(&self, id: ChunkId) -> Chunk {
        self.chunks[self.at(id)]
    }

    fn at(&self, id: ChunkId) -> usize {
        (id - self.first) as usize
    }

    /// Number of the chunk that will be next.
    pub fn next_id(&self) -> ChunkId {
        self.first + self.chunks.len() as u64
    }

    /// Number of the first chunk.
    pub fn first_id(&self) -> ChunkId {
        self.first
    }

    /// Takes `bytes` at the tail, as dirt until [`revive`](Log::revive).
    pub fn allocate(&mut self, bytes: u32) -> Place {
        let end = self.free_at_tail();
        if bytes <= end {
            return Place::At(self.push(bytes));
        }
        if bytes > self.free_at_start() {
            return Place::Nowhere;
        }
        Place::FillFirst(self.push(end))
    }

    /// Makes the rest of the flash behind the tail dirt.
    pub fn give_up_end(&mut self) -> ChunkId {
        self.push(self.free_at_tail())
    }

    fn push(&mut self, bytes: u32) -> ChunkId {
        let id = self.next_id();
        self.chunks.push_back(Chunk { offset: self.tail(), bytes, node: None, ino: 0, renames: false });
        self.dirty += bytes;
        id
    }

    /// A node lives in a chunk. `renames`: it replaces another inode.
    pub fn revive(&mut self, id: ChunkId, node: (u32, u32), renames: bool) {
        let at = self.at(id);
        let chunk = &mut self.chunks[at];
        assert_eq!(chunk.node, None, "a chunk has one node");
        (chunk.node, chunk.ino, chunk.renames) = (Some(node), node.0, renames);
        self.used += chunk.bytes;
        self.dirty -= chunk.bytes;
    }

    /// The node of a chunk is obsolete.
    pub fn obsolete(&mut self, id: ChunkId) {
        let at = self.at(id);
        let chunk = &mut self.chunks[at];
        assert!(chunk.node.take().is_some(), "a node becomes obsolete once");
        self.used -= chunk.bytes;
        self.dirty += chunk.bytes;
    }

    /// The chunk of the oldest live node.
    pub fn oldest(&self) -> Option<ChunkId> {
        let at = self.chunks.iter().position(|chunk| chunk.node.is_some())?;
        Some(self.first + at as u64)
    }

    /// Bytes of whole sectors of dirt at the head, up to the end of the flash at most. Nothing if nobody knows the head: what
    /// an older node says must not outlive what supersedes it.
    pub fn erasable(&self) -> u32 {
        if !self.head_is_known {
            return 0;
        }
        let mut dirt = 0;
        for chunk in self.chunks.iter().take_while(|chunk| chunk.node.is_none()) {
            if dirt > 0 && chunk.offset == 0 {
                break;
            }
            dirt += chunk.bytes;
        }
        dirt / self.sector * self.sector
    }

    /// What of a chunk remains beyond the first `bytes` of the log, if they end within one.
    pub fn cut_at(&self, bytes: u32) -> Option<Cut> {
        let limit = self.head() + bytes;
        let cut = self.chunks.iter().find(|chunk| chunk.offset < limit && limit < chunk.offset + chunk.bytes)?;
        let (bytes, before) = (cut.offset + cut.bytes - limit, limit - cut.offset);
        Some(Cut { at: limit, bytes, before, ino: cut.ino, renames: cut.renames })
    }

    /// Where in the sector that ends before a cut node's rest the older nodes begin that it supersedes, the oldest first: those of
    /// its inode. One that replaces another inode supersedes that one's, and which those are nobody remembers: all.
    pub fn older_beside(&self, cut: Cut) -> Vec<u32> {
        let sector = cut.at - self.sector..cut.at - cut.before;
        let in_it = self.chunks.iter().take_while(|chunk| chunk.offset < cut.at);
        let of_inode = in_it
            .filter(|chunk| sector.contains(&chunk.offset) && chunk.ino > 0 && (chunk.ino == cut.ino || cut.renames));
        of_inode.map(|chunk| chunk.offset).collect()
    }

    /// The first `bytes` of the log, all of them dirt, are erased.
    pub fn erased(&mut self, mut bytes: u32) {
        self.dirty -= bytes;
        self.head = (self.head + bytes) % self.size;
        while bytes > 0 {
            let first = self.chunks.front_mut().expect("so much was dirt");
            assert_eq!(first.node, None, "a live node is erased");
            if first.bytes <= bytes {
                bytes -= first.bytes;
                self.chunks.pop_front();
                self.first += 1;
            } else {
                // The rest is no node any more.
                *first = Chunk {
                    offset: first.offset + bytes,
                    bytes: first.bytes - bytes,
                    node: None,
                    ino: 0,
                    renames: false,
                };
                bytes = 0;
            }
        }
    }

    /// Holds what must always hold. Panics where it does not.
    pub fn check(&self) {
        let (mut used, mut dirty) = (0, 0);
        let mut next = self.head();
        assert!(next.is_multiple_of(self.sector), "the log begins at {next}, in the middle of a sector");
        for chunk in &self.chunks {
            assert_eq!(chunk.offset, next, "a gap in the log");
            assert!(chunk.bytes > 0 && chunk.offset + chunk.bytes <= self.size, "{chunk:?}");
            next = (chunk.offset + chunk.bytes) % self.size;
            *(if chunk.node.is_some() { &mut used } else { &mut dirty }) += chunk.bytes;
        }
        assert_eq!((used, dirty), (self.used, self.dirty));
        assert!(used + dirty <= self.size);
    }

    /// Every live chunk.
    pub fn live(&self) -> impl Iterator<Item = (ChunkId, (u32, u32))> + '_ {
        (self.first..).zip(&self.chunks).filter_map(|(id, chunk)| Some((id, chunk.node?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flash of four sectors of 100 bytes.
    fn log() -> Log {
        Log::of_scan(400, 100, VecDeque::new()).expect("nothing is in a wrong place")
    }

    fn live(log: &mut Log, bytes: u32) -> ChunkId {
        let Place::At(id) = log.allocate(bytes) else { panic!("{bytes} bytes do not fit") };
        log.revive(id, (1, id as u32), false);
        log.check();
        id
    }

    /// Of four nodes in the second sector the last goes on in the third.
    #[test]
    fn a_cut_node_supersedes_what_is_before_it_in_its_sector() {
        for (cut, others, expected) in
            [((5, false), [5, 4, 5], vec![100, 160]), ((5, true), [5, 4, 5], vec![100, 130, 160])]
        {
            let mut log = log();
            for (bytes, (ino, renames)) in [
                (100, (5, false)),
                (30, (others[0], false)),
                (30, (others[1], false)),
                (30, (others[2], false)),
                (50, cut),
            ] {
                let Place::At(id) = log.allocate(bytes) else { panic!("{bytes} bytes do not fit") };
                log.revive(id, (ino, id as u32 + 1), renames);
                log.obsolete(id);
            }
            let cut = log.cut_at(200).expect("a node goes on there");
            assert_eq!((cut.at, cut.bytes, cut.before), (200, 40, 10));
            assert_eq!(log.older_beside(cut), expected);
            assert_eq!(log.cut_at(100), None);
            // What a scan found to be no node supersedes nothing, and the rest of a node that was erased is none.
            assert!(log.older_beside(Cut { ino: 0, renames: false, ..cut }).is_empty());
            log.erased(200);
            assert_eq!(log.chunk(log.first_id()), Chunk { offset: 200, bytes: 40, node: None, ino: 0, renames: false });
        }
    }

    #[test]
    fn the_log_goes_round_the_end_of_the_flash() {
        let mut log = log();
        let ids: Vec<_> = (0..4).map(|_| live(&mut log, 80)).collect();
        assert_eq!((log.head(), log.tail(), log.free_at_tail(), log.free_at_start()), (0, 320, 80, 0));
        assert_eq!(log.allocate(96), Place::Nowhere, "80 bytes are free, and none at the start");
        ids[..2].iter().for_each(|&id| log.obsolete(id));
        assert_eq!((log.erasable(), log.dirty, log.used), (100, 160, 160));
        // Of the second node, 20 bytes are in the first sector.
        assert_eq!(log.cut_at(100), Some(Cut { at: 100, bytes: 60, before: 20, ino: 1, renames: false }));
        log.erased(100);
        log.check();
        assert_eq!((log.head(), log.free_at_tail(), log.free_at_start(), log.free()), (100, 80, 100, 180));
        assert_eq!(log.allocate(96), Place::FillFirst(4));
        assert_eq!((log.tail(), log.free_at_tail(), log.free_at_start()), (0, 100, 0));
        assert_eq!(live(&mut log, 96), 5);
        log.check();
        assert_eq!(log.oldest(), Some(2));
        assert_eq!(log.first_id(), 1, "what is left of the second node is dirt");
    }

    #[test]
    fn an_erase_does_not_go_beyond_the_end_of_the_flash() {
        let mut log = log();
        let first = live(&mut log, 300);
        log.obsolete(first);
        log.erased(300);
        let ids = [live(&mut log, 100), live(&mut log, 100)];
        ids.iter().for_each(|&id| log.obsolete(id));
        assert_eq!((log.head(), log.tail(), log.erasable()), (300, 100, 100));
    }

    #[test]
    fn a_scan_finds_the_oldest_chunk_behind_the_gap() {
        let chunk = |offset, bytes| Chunk { offset, bytes, node: None, ino: 0, renames: false };
        let of = |chunks: &[Chunk]| Log::of_scan(400, 100, chunks.iter().copied().collect());
        let head = |chunks: &[Chunk]| of(chunks).map(|log| (log.head(), log.tail(), log.free()));
        assert_eq!(head(&[]), Some((0, 0, 400)));
        assert_eq!(head(&[chunk(0, 60), chunk(60, 40)]), Some((0, 100, 300)));
        assert_eq!(head(&[chunk(100, 160)]), Some((100, 260, 240)));
        assert_eq!(head(&[chunk(0, 60), chunk(200, 200)]), Some((200, 60, 140)));
        assert_eq!(head(&[chunk(0, 60), chunk(200, 160)]), None, "two gaps: in the middle and at the end");
        assert_eq!(head(&[chunk(100, 60), chunk(200, 200)]), None, "two gaps: in the middle and at the beginning");
        assert_eq!(head(&[chunk(0, 60), chunk(100, 60), chunk(200, 200)]), None);
        assert_eq!(
            of(&[chunk(0, 400)]).map(|log| (log.erasable(), log.free_at_tail())),
            Some((0, 0)),
            "which is oldest?"
        );
    }
}
