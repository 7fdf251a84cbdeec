//! A red-black tree of PEBs ordered by (erase count, PEB number).
//!
//! Linux keeps its free PEBs so, and takes the *root* when it wants one of middling wear; which PEB that is depends on
//! how the tree was balanced. The rotations here are the textbook's, which are the kernel's too, so that the same
//! insertions and removals give the same root. Nodes live in one dense array indexed by PEB: no allocation, and a PEB
//! is in the tree at most once. The tree holds a PEB's erase count from insertion to removal; it must not change in
//! between.

use sim::{EraseCount, Peb};

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    left: u32,
    right: u32,
    parent: u32,
    ec: u32,
    red: bool,
}

const DETACHED: Node = Node { left: NIL, right: NIL, parent: NIL, ec: 0, red: false };

/// The tree.
#[derive(Clone, Debug)]
pub struct WearTree {
    nodes: Vec<Node>,
    root: u32,
    first: u32,
    last: u32,
    len: u32,
}

impl WearTree {
    /// An empty tree with room for PEBs `0..pebs`.
    pub fn new(pebs: u32) -> WearTree {
        WearTree { nodes: vec![DETACHED; pebs as usize], root: NIL, first: NIL, last: NIL, len: 0 }
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
        peb(self.first)
    }

    /// Most worn PEB, the highest number on a tie.
    #[inline]
    pub fn last(&self) -> Option<Peb> {
        peb(self.last)
    }

    /// The PEB at the root.
    #[inline]
    pub fn root(&self) -> Option<Peb> {
        peb(self.root)
    }

    /// Erase count of a PEB that is in the tree.
    #[inline]
    pub fn ec(&self, peb: Peb) -> EraseCount {
        EraseCount(self.nodes[peb.at()].ec)
    }

    /// The most worn PEB whose erase count is below `bound`.
    pub fn last_below(&self, bound: u64) -> Option<Peb> {
        if self.last != NIL && u64::from(self.node(self.last).ec) < bound {
            return peb(self.last);
        }
        let (mut at, mut best) = (self.root, NIL);
        while at != NIL {
            let node = self.node(at);
            if u64::from(node.ec) < bound {
                best = at;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        peb(best)
    }

    /// The last PEB passed by a descent towards `bound` that also keeps PEBs at or beyond it: the successor of
    /// [`last_below`](Self::last_below) or that PEB itself, whichever the descent met last.
    pub fn descent_end(&self, bound: u64) -> Option<Peb> {
        let (mut at, mut end) = (self.root, self.first);
        while at != NIL {
            let node = self.node(at);
            end = at;
            at = if u64::from(node.ec) < bound { node.right } else { node.left };
        }
        peb(end)
    }

    /// The PEB that follows `of` in the order.
    pub fn successor(&self, of: Peb) -> Option<Peb> {
        peb(self.next(of.0))
    }

    /// PEBs in order.
    pub fn iter(&self) -> impl Iterator<Item = Peb> + '_ {
        std::iter::successors(self.first(), |&at| self.successor(at))
    }

    /// Adds `peb` with erase count `ec`. The PEB must not be in the tree.
    pub fn insert(&mut self, peb: Peb, ec: EraseCount) {
        let (new, ec) = (peb.0, ec.0);
        let (mut parent, mut at, mut went_left, mut leftmost, mut rightmost) = (NIL, self.root, false, true, true);
        while at != NIL {
            parent = at;
            let node = self.node(at);
            debug_assert_ne!(at, new, "PEB {new} is in the tree already");
            went_left = (ec, new) < (node.ec, at);
            if went_left {
                at = node.left;
                rightmost = false;
            } else {
                at = node.right;
                leftmost = false;
            }
        }
        self.nodes[new as usize] = Node { left: NIL, right: NIL, parent, ec, red: true };
        if parent == NIL {
            self.root = new;
        } else if went_left {
            self.nodes[parent as usize].left = new;
        } else {
            self.nodes[parent as usize].right = new;
        }
        if leftmost {
            self.first = new;
        }
        if rightmost {
            self.last = new;
        }
        self.len += 1;
        self.balance_after_insert(new);
    }

    /// Takes `peb` out. It must be in the tree.
    pub fn remove(&mut self, peb: Peb) {
        let gone = peb.0;
        if self.first == gone {
            self.first = self.next(gone);
        }
        if self.last == gone {
            self.last = self.previous(gone);
        }
        let node = *self.node(gone);
        // `hole` is where a black node may be missing, `above` its parent.
        let (hole, above, lost_black);
        if node.left == NIL || node.right == NIL {
            let child = if node.left == NIL { node.right } else { node.left };
            self.replace_child(node.parent, gone, child);
            (hole, above, lost_black) = (child, node.parent, !node.red);
        } else {
            let heir = self.next(gone);
            let heir_node = *self.node(heir);
            lost_black = !heir_node.red;
            hole = heir_node.right;
            if heir_node.parent == gone {
                above = heir;
            } else {
                above = heir_node.parent;
                self.replace_child(heir_node.parent, heir, heir_node.right);
                self.nodes[heir as usize].right = node.right;
                self.nodes[node.right as usize].parent = heir;
            }
            self.replace_child(node.parent, gone, heir);
            self.nodes[heir as usize].left = node.left;
            self.nodes[node.left as usize].parent = heir;
            self.nodes[heir as usize].red = node.red;
        }
        self.nodes[gone as usize] = DETACHED;
        self.len -= 1;
        if lost_black {
            self.balance_after_remove(hole, above);
        }
    }

    #[inline]
    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    #[inline]
    fn is_red(&self, at: u32) -> bool {
        at != NIL && self.node(at).red
    }

    fn next(&self, at: u32) -> u32 {
        self.neighbour(at, |node| node.right, |node| node.left)
    }

    fn previous(&self, at: u32) -> u32 {
        self.neighbour(at, |node| node.left, |node| node.right)
    }

    #[inline]
    fn neighbour(&self, mut at: u32, onward: impl Fn(&Node) -> u32, back: impl Fn(&Node) -> u32) -> u32 {
        let mut below = onward(self.node(at));
        if below != NIL {
            while back(self.node(below)) != NIL {
                below = back(self.node(below));
            }
            return below;
        }
        loop {
            let parent = self.node(at).parent;
            if parent == NIL || onward(self.node(parent)) != at {
                return parent;
            }
            at = parent;
        }
    }

    /// Puts `new` where `old` hangs below `parent`.
    fn replace_child(&mut self, parent: u32, old: u32, new: u32) {
        if parent == NIL {
            self.root = new;
        } else if self.node(parent).left == old {
            self.nodes[parent as usize].left = new;
        } else {
            self.nodes[parent as usize].right = new;
        }
        if new != NIL {
            self.nodes[new as usize].parent = parent;
        }
    }

    fn rotate_left(&mut self, at: u32) {
        let up = self.node(at).right;
        let inner = self.node(up).left;
        self.nodes[at as usize].right = inner;
        if inner != NIL {
            self.nodes[inner as usize].parent = at;
        }
        self.replace_child(self.node(at).parent, at, up);
        self.nodes[up as usize].left = at;
        self.nodes[at as usize].parent = up;
    }

    fn rotate_right(&mut self, at: u32) {
        let up = self.node(at).left;
        let inner = self.node(up).right;
        self.nodes[at as usize].left = inner;
        if inner != NIL {
            self.nodes[inner as usize].parent = at;
        }
        self.replace_child(self.node(at).parent, at, up);
        self.nodes[up as usize].right = at;
        self.nodes[at as usize].parent = up;
    }

    fn rotate(&mut self, at: u32, left: bool) {
        if left { self.rotate_left(at) } else { self.rotate_right(at) }
    }

    fn balance_after_insert(&mut self, mut at: u32) {
        loop {
            let mut parent = self.node(at).parent;
            if parent == NIL {
                self.nodes[at as usize].red = false;
                return;
            }
            if !self.node(parent).red {
                return;
            }
            let grand = self.node(parent).parent;
            let parent_is_left = self.node(grand).left == parent;
            let uncle = if parent_is_left { self.node(grand).right } else { self.node(grand).left };
            if self.is_red(uncle) {
                self.nodes[parent as usize].red = false;
                self.nodes[uncle as usize].red = false;
                self.nodes[grand as usize].red = true;
                at = grand;
                continue;
            }
            let inner = if parent_is_left { self.node(parent).right } else { self.node(parent).left };
            if inner == at {
                self.rotate(parent, parent_is_left);
                parent = at;
            }
            self.nodes[parent as usize].red = false;
            self.nodes[grand as usize].red = true;
            self.rotate(grand, !parent_is_left);
            return;
        }
    }

    fn balance_after_remove(&mut self, mut hole: u32, mut above: u32) {
        while above != NIL && !self.is_red(hole) {
            let hole_is_left = self.node(above).left == hole;
            let sibling_of = |tree: &Self, above: u32| {
                if hole_is_left { tree.node(above).right } else { tree.node(above).left }
            };
            let mut sibling = sibling_of(self, above);
            if self.node(sibling).red {
                self.nodes[sibling as usize].red = false;
                self.nodes[above as usize].red = true;
                self.rotate(above, hole_is_left);
                sibling = sibling_of(self, above);
            }
            let (near, far) = if hole_is_left {
                (self.node(sibling).left, self.node(sibling).right)
            } else {
                (self.node(sibling).right, self.node(sibling).left)
            };
            if !self.is_red(near) && !self.is_red(far) {
                self.nodes[sibling as usize].red = true;
                hole = above;
                above = self.node(above).parent;
                continue;
            }
            if !self.is_red(far) {
                self.nodes[near as usize].red = false;
                self.nodes[sibling as usize].red = true;
                self.rotate(sibling, !hole_is_left);
                sibling = sibling_of(self, above);
            }
            self.nodes[sibling as usize].red = self.node(above).red;
            self.nodes[above as usize].red = false;
            let far = if hole_is_left { self.node(sibling).right } else { self.node(sibling).left };
            self.nodes[far as usize].red = false;
            self.rotate(above, hole_is_left);
            return;
        }
        if hole != NIL {
            self.nodes[hole as usize].red = false;
        }
    }

    /// Panics unless the tree is ordered, balanced as a red-black tree is, and its caches are right.
    pub fn check(&self) {
        fn walk(tree: &WearTree, at: u32, parent: u32) -> (u32, u32) {
            if at == NIL {
                return (1, 0);
            }
            let node = tree.node(at);
            assert_eq!(node.parent, parent, "PEB {at} hangs below another");
            assert!(!(node.red && tree.is_red(parent)), "PEB {at} and its parent are red");
            let ((black_l, count_l), (black_r, count_r)) = (walk(tree, node.left, at), walk(tree, node.right, at));
            assert_eq!(black_l, black_r, "black heights differ below PEB {at}");
            (black_l + u32::from(!node.red), count_l + count_r + 1)
        }
        assert!(!self.is_red(self.root), "the root is red");
        assert_eq!(walk(self, self.root, NIL).1, self.len, "count of PEBs in the tree");
        let keys: Vec<_> = self.iter().map(|peb| (self.ec(peb), peb)).collect();
        assert!(keys.is_sorted(), "out of order");
        assert_eq!(keys.len() as u32, self.len);
        assert_eq!(self.last(), keys.last().map(|&(_, peb)| peb), "last");
    }
}

fn peb(at: u32) -> Option<Peb> {
    (at != NIL).then_some(Peb(at))
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
