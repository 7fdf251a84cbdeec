//! Which queue of the host wrote the pages that the drive moves.

/// The writer of each logical page, and the pages moved by their writer.
#[derive(Clone, Debug)]
pub struct Owners {
    /// For each logical page: 0 if it was written before, else 1 + the queue of the last write.
    of: Vec<u16>,
    moved: Vec<u64>,
}

impl Owners {
    pub(super) fn new(pages: u32, queues: u16) -> Owners {
        Owners { of: vec![0; pages as usize], moved: vec![0; usize::from(queues) + 1] }
    }

    /// Records a write of pages `first` to `end`, excluded, from a queue.
    pub(super) fn wrote(&mut self, first: u32, end: u32, queue: u16) {
        self.of[first as usize..end as usize].fill(queue.saturating_add(1));
    }

    /// Counts the move of a page; pages of the map have no writer.
    pub(super) fn moved(&mut self, lpn: u32) {
        if let Some(&owner) = self.of.get(lpn as usize)
            && let Some(count) = self.moved.get_mut(usize::from(owner))
        {
            *count += 1;
        }
    }

    /// Pages moved so far: first those written before [`Ssd::follow_queues`](super::Ssd::follow_queues), then those of
    /// each queue.
    pub fn pages_moved(&self) -> &[u64] {
        &self.moved
    }
}
