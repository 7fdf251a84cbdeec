//! A red-black tree of PEBs ordered by (erase count, PEB number).
//!
//! Linux keeps its free PEBs so, and takes the *root* when it wants one of middling wear; which PEB that is depends on
//! how the tree was balanced. The rotations here are the textbook's, which are the kernel's too, so that the same
//! insertions and removals give the same root.
//!
//! The tree is the hottest place of a wear study, so it is laid out for the cache: a node's key and children are 16
//! bytes, a descent touches nothing else, and nodes lie in slots that are taken again as soon as they are free, so that
//! the few free PEBs of a full device stay near each other however large the device is. A PEB is in the tree at most
//! once. The tree holds a PEB's erase count from insertion to removal; it must not change in between.

use sim::{EraseCount, Peb};

/// No node. Slot 0 is a black leaf that every missing child and parent names.
const NIL: u32 = 0;
const LEFT: usize = 0;
const RIGHT: usize = 1;
const RED: u32 = 1 << 31;

/// What a descent reads.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Node {
    /// Erase count above PEB number: the order is that of the integers.
    key: u64,
    child: [u32; 2],
}

const LEAF: Node = Node { key: 0, child: [NIL; 2] };

fn key_of(peb: Peb, ec: EraseCount) -> u64 {
    u64::from(ec.0) << 32 | u64::from(peb.0)
}

/// The tree.
#[derive(Clone, Debug)]
pub struct WearTree {
    nodes: Vec<Node>,
    /// Parent of each slot's node, and in the highest bit whether the node is red.
    up: Vec<u32>,
    /// Slots that hold no node; the one freed last is taken first.
    vacant: Vec<u32>,
    slot_of: Vec<u32>,
    root: u32,
    first: u32,
    last: u32,
    len: u32,
}

impl WearTree {
    /// An empty tree with room for PEBs `0..pebs`.
    pub fn new(pebs: u32) -> WearTree {
        assert!(pebs < RED, "a PEB number has 31 bits");
        WearTree {
            nodes: vec![LEAF],
            up: vec![NIL],
            vacant: Vec::new(),
            slot_of: vec![NIL; pebs as usize],
            root: NIL,
            first: NIL,
            last: NIL,
            len: 0,
        }
    }

    /// How many PEBs it holds.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it holds none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Least worn PEB, the lowest number on a tie.
    #[inline]
    pub fn first(&self) -> Option<Peb> {
        self.peb(self.first)
    }

    /// Most worn PEB, the highest number on a tie.
    #[inline]
    pub fn last(&self) -> Option<Peb> {
        self.peb(self.last)
    }

    /// The PEB at the root.
    #[inline]
    pub fn root(&self) -> Option<Peb> {
        self.peb(self.root)
    }

    /// Erase count of a PEB that is in the tree.
    #[inline]
    pub fn ec(&self, peb: Peb) -> EraseCount {
        EraseCount((self.nodes[self.slot_of[peb.at()] as usize].key >> 32) as u32)
    }

    /// The most worn PEB whose erase count is below `bound`.
    #[inline]
    pub fn last_below(&self, bound: u64) -> Option<Peb> {
        if self.last != NIL && self.node(self.last).key >> 32 < bound {
            return self.peb(self.last);
        }
        let (mut at, mut best) = (self.root, NIL);
        while at != NIL {
            let node = self.node(at);
            let below = node.key >> 32 < bound;
            best = if below { at } else { best };
            at = node.child[usize::from(below)];
        }
        self.peb(best)
    }

    /// The last PEB passed by a descent towards `bound` that also keeps PEBs at or beyond it: the successor of
    /// [`last_below`](Self::last_below) or that PEB itself, whichever the descent met last.
    pub fn descent_end(&self, bound: u64) -> Option<Peb> {
        let (mut at, mut end) = (self.root, self.first);
        while at != NIL {
            let node = self.node(at);
            end = at;
            at = node.child[usize::from(node.key >> 32 < bound)];
        }
        self.peb(end)
    }

    /// The PEB that follows `of` in the order.
    pub fn successor(&self, of: Peb) -> Option<Peb> {
        self.peb(self.neighbour(self.slot_of[of.at()], RIGHT))
    }

    /// PEBs in order.
    pub fn iter(&self) -> impl Iterator<Item = Peb> + '_ {
        std::iter::successors(self.first(), |&at| self.successor(at))
    }

    /// Adds `peb` with erase count `ec`. The PEB must not be in the tree.
    pub fn insert(&mut self, peb: Peb, ec: EraseCount) {
        debug_assert_eq!(self.slot_of[peb.at()], NIL, "PEB {peb} is in the tree already");
        let key = key_of(peb, ec);
        let (mut parent, mut at, mut side) = (NIL, self.root, RIGHT);
        while at != NIL {
            parent = at;
            let node = self.node(at);
            // Indexing by the comparison leaves nothing to mispredict; which way a descent goes is a coin toss.
            side = usize::from(key > node.key);
            at = node.child[side];
        }
        let new = self.take_slot(Node { key, child: [NIL; 2] }, parent | RED);
        self.slot_of[peb.at()] = new;
        self.len += 1;
        if parent == NIL {
            (self.root, self.first, self.last) = (new, new, new);
            self.up[new as usize] = NIL;
            return;
        }
        self.nodes[parent as usize].child[side] = new;
        if side == LEFT && parent == self.first {
            self.first = new;
        }
        if side == RIGHT && parent == self.last {
            self.last = new;
        }
        if self.is_red(parent) {
            self.balance_after_insert(new, parent);
        }
    }

    /// Takes `peb` out. It must be in the tree.
    pub fn remove(&mut self, peb: Peb) {
        let gone = std::mem::replace(&mut self.slot_of[peb.at()], NIL);
        debug_assert_ne!(gone, NIL, "PEB {peb} is not in the tree");
        if self.first == gone {
            self.first = self.neighbour(gone, RIGHT);
        }
        if self.last == gone {
            self.last = self.neighbour(gone, LEFT);
        }
        let [left, right] = self.node(gone).child;
        let (parent, was_red) = (self.parent(gone), self.is_red(gone));
        // `hole` is where a black node may be missing, `above` its parent.
        let (hole, above, lost_black);
        if left == NIL || right == NIL {
            let child = left | right;
            self.replace_child(parent, gone, child);
            (hole, above, lost_black) = (child, parent, !was_red);
        } else {
            let mut heir = right;
            while self.node(heir).child[LEFT] != NIL {
                heir = self.node(heir).child[LEFT];
            }
            lost_black = !self.is_red(heir);
            hole = self.node(heir).child[RIGHT];
            if heir == right {
                above = heir;
            } else {
                above = self.parent(heir);
                self.replace_child(above, heir, hole);
                self.nodes[heir as usize].child[RIGHT] = right;
                self.set_parent(right, heir);
            }
            self.replace_child(parent, gone, heir);
            self.nodes[heir as usize].child[LEFT] = left;
            self.set_parent(left, heir);
            self.paint(heir, was_red);
        }
        self.vacant.push(gone);
        self.len -= 1;
        if lost_black {
            self.balance_after_remove(hole, above);
        }
    }

    #[inline]
    fn take_slot(&mut self, node: Node, up: u32) -> u32 {
        match self.vacant.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                self.up[slot as usize] = up;
                slot
            }
            None => {
                self.nodes.push(node);
                self.up.push(up);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    #[inline]
    fn peb(&self, at: u32) -> Option<Peb> {
        (at != NIL).then(|| Peb(self.node(at).key as u32))
    }

    #[inline]
    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    #[inline]
    fn parent(&self, at: u32) -> u32 {
        self.up[at as usize] & !RED
    }

    #[inline]
    fn is_red(&self, at: u32) -> bool {
        self.up[at as usize] & RED != 0
    }

    #[inline]
    fn set_parent(&mut self, at: u32, parent: u32) {
        let up = &mut self.up[at as usize];
        *up = *up & RED | parent;
    }

    #[inline]
    fn paint(&mut self, at: u32, red: bool) {
        let up = &mut self.up[at as usize];
        *up = *up & !RED | if red { RED } else { 0 };
    }

    /// The node that follows on `side` in the order.
    fn neighbour(&self, mut at: u32, side: usize) -> u32 {
        let mut below = self.node(at).child[side];
        if below != NIL {
            loop {
                let next = self.node(below).child[1 - side];
                if next == NIL {
                    return below;
                }
                below = next;
            }
        }
        loop {
            let parent = self.parent(at);
            if parent == NIL || self.node(parent).child[side] != at {
                return parent;
            }
            at = parent;
        }
    }

    /// On which side of its parent `at` hangs.
    #[inline]
    fn side_of(&self, at: u32, parent: u32) -> usize {
        usize::from(self.node(parent).child[RIGHT] == at)
    }

    /// Puts `new` where `old` hangs below `parent`.
    #[inline]
    fn replace_child(&mut self, parent: u32, old: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else {
            let side = self.side_of(old, parent);
            self.nodes[parent as usize].child[side] = new;
        }
        if new != NIL {
            self.set_parent(new, parent);
        }
    }

    /// Turns the edge between `at` and its child opposite to `side`, so that `at` goes down on `side`.
    #[inline]
    fn rotate(&mut self, at: u32, side: usize) {
        let rising = self.node(at).child[1 - side];
        let inner = self.node(rising).child[side];
        self.nodes[at as usize].child[1 - side] = inner;
        if inner != NIL {
            self.set_parent(inner, at);
        }
        self.replace_child(self.parent(at), at, rising);
        self.nodes[rising as usize].child[side] = at;
        self.set_parent(at, rising);
    }

    /// `at` is red, and so is its parent.
    fn balance_after_insert(&mut self, mut at: u32, mut parent: u32) {
        loop {
            let grand = self.parent(parent);
            let side = self.side_of(parent, grand);
            let uncle = self.node(grand).child[1 - side];
            if self.is_red(uncle) {
                self.paint(parent, false);
                self.paint(uncle, false);
                at = grand;
                parent = self.parent(grand);
                if parent == NIL {
                    return; // the root stays black
                }
                self.paint(grand, true);
                if !self.is_red(parent) {
                    return;
                }
                continue;
            }
            if self.node(parent).child[1 - side] == at {
                self.rotate(parent, side);
                parent = at;
            }
            self.paint(parent, false);
            self.paint(grand, true);
            self.rotate(grand, 1 - side);
            return;
        }
    }

    fn balance_after_remove(&mut self, mut hole: u32, mut above: u32) {
        while above != NIL && !self.is_red(hole) {
            // A missing child is on the side where the parent has none: its sibling, being blacker, is there.
            let side = usize::from(self.node(above).child[LEFT] != hole);
            let mut sibling = self.node(above).child[1 - side];
            if self.is_red(sibling) {
                self.paint(sibling, false);
                self.paint(above, true);
                self.rotate(above, side);
                sibling = self.node(above).child[1 - side];
            }
            let (near, far) = (self.node(sibling).child[side], self.node(sibling).child[1 - side]);
            if !self.is_red(near) && !self.is_red(far) {
                self.paint(sibling, true);
                hole = above;
                above = self.parent(above);
                continue;
            }
            if !self.is_red(far) {
                self.paint(near, false);
                self.paint(sibling, true);
                self.rotate(sibling, 1 - side);
                sibling = self.node(above).child[1 - side];
            }
            self.paint(sibling, self.is_red(above));
            self.paint(above, false);
            let far = self.node(sibling).child[1 - side];
            self.paint(far, false);
            self.rotate(above, side);
            return;
        }
        if hole != NIL {
            self.paint(hole, false);
        }
    }

    /// Panics unless the tree is ordered, balanced as a red-black tree is, and its caches are right.
    pub fn check(&self) {
        fn walk(tree: &WearTree, at: u32, parent: u32) -> (u32, u32) {
            if at == NIL {
                return (1, 0);
            }
            let [left, right] = tree.node(at).child;
            assert_eq!(tree.parent(at), parent, "{:?} hangs below another", tree.peb(at));
            assert!(!(tree.is_red(at) && tree.is_red(parent)), "{:?} and its parent are red", tree.peb(at));
            let ((black_l, count_l), (black_r, count_r)) = (walk(tree, left, at), walk(tree, right, at));
            assert_eq!(black_l, black_r, "black heights differ below {:?}", tree.peb(at));
            (black_l + u32::from(!tree.is_red(at)), count_l + count_r + 1)
        }
        assert!(!self.is_red(self.root), "the root is red");
        assert_eq!((self.up[0], self.nodes[0].child), (NIL, [NIL; 2]), "the leaf was painted or hung up");
        assert_eq!(walk(self, self.root, NIL).1, self.len, "count of PEBs in the tree");
        assert_eq!(self.vacant.len() + self.len as usize + 1, self.nodes.len(), "a slot is lost");
        let keys: Vec<_> = self.iter().map(|peb| (self.ec(peb), peb)).collect();
        assert!(keys.is_sorted(), "out of order");
        assert_eq!(keys.len() as u32, self.len);
        assert_eq!(self.last(), keys.last().map(|&(_, peb)| peb), "last");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn ascending_insertions_leave_the_textbook_root() {
        let mut tree = WearTree::new(16);
        for i in 0..8 {
            tree.insert(Peb(i), EraseCount(i));
        }
        tree.check();
        assert_eq!(tree.root(), Some(Peb(3)));
    }

    #[test]
    fn a_descent_may_end_beyond_its_bound() {
        let mut tree = WearTree::new(4);
        tree.insert(Peb(0), EraseCount(1));
        tree.insert(Peb(1), EraseCount(900));
        assert_eq!(tree.last_below(257), Some(Peb(0)));
        assert_eq!(tree.descent_end(257), Some(Peb(1)));
    }

    proptest! {
        #[test]
        fn it_orders_as_a_sorted_set_does(ops in prop::collection::vec((0u32..64, 0u32..20, 0u64..22), 1..400)) {
            let mut tree = WearTree::new(64);
            let mut model: BTreeSet<(u32, u32)> = BTreeSet::new();
            for (peb, ec, bound) in ops {
                match model.iter().find(|&&(_, other)| other == peb).copied() {
                    Some(key) => {
                        model.remove(&key);
                        tree.remove(Peb(peb));
                    }
                    None => {
                        model.insert((ec, peb));
                        tree.insert(Peb(peb), EraseCount(ec));
                    }
                }
                tree.check();
                prop_assert_eq!(tree.first().map(|p| p.0), model.first().map(|key| key.1));
                prop_assert_eq!(tree.last().map(|p| p.0), model.last().map(|key| key.1));
                let below = model.iter().rev().find(|key| u64::from(key.0) < bound).map(|key| key.1);
                prop_assert_eq!(tree.last_below(bound).map(|p| p.0), below);
            }
        }
    }
}
