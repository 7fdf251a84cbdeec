//! Doubly linked lists over one dense array: a list is a ring through a head, and each member is in one list at most.
//!
//! Heads and members are indices into the same array; the owner decides which indices are heads.

/// A set of rings over one array.
#[derive(Clone, Debug)]
pub(crate) struct Rings(Vec<Link>);

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

impl Rings {
    /// Makes `count` elements, each a ring by itself.
    pub(crate) fn new(count: u32) -> Rings {
        Rings((0..count).map(|at| Link { prev: at, next: at }).collect())
    }

    /// The member after `at`; for a head, the first member, or the head itself if the ring is empty.
    #[inline]
    pub(crate) fn next(&self, at: u32) -> u32 {
        self.0[at as usize].next
    }

    /// The member before `at`; for a head, the last member, or the head itself if the ring is empty.
    #[inline]
    pub(crate) fn prev(&self, at: u32) -> u32 {
        self.0[at as usize].prev
    }

    /// Whether a head has no members.
    #[inline]
    pub(crate) fn is_empty(&self, head: u32) -> bool {
        self.next(head) == head
    }

    /// Removes `at` from its ring, if it is in one.
    #[inline]
    pub(crate) fn unlink(&mut self, at: u32) {
        let Link { prev, next } = self.0[at as usize];
        self.0[prev as usize].next = next;
        self.0[next as usize].prev = prev;
        self.0[at as usize] = Link { prev: at, next: at };
    }

    /// Inserts `at`, which must be in no ring, between `after` and the member that follows it.
    #[inline]
    fn link(&mut self, after: u32, at: u32) {
        let next = self.next(after);
        self.0[at as usize] = Link { prev: after, next };
        self.0[after as usize].next = at;
        self.0[next as usize].prev = at;
    }

    /// Moves `at` to the front of a ring.
    #[inline]
    pub(crate) fn move_front(&mut self, head: u32, at: u32) {
        if self.next(head) != at {
            self.unlink(at);
            self.link(head, at);
        }
    }

    /// Moves `at` to the back of a ring.
    #[inline]
    pub(crate) fn move_back(&mut self, head: u32, at: u32) {
        if self.prev(head) != at {
            self.unlink(at);
            self.link(self.prev(head), at);
        }
    }

    /// The members from front to back.
    pub(crate) fn iter(&self, head: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = head;
        std::iter::from_fn(move || {
            at = self.next(at);
            (at != head).then_some(at)
        })
    }
}
