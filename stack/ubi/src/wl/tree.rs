//! A red-black tree of PEBs ordered by (erase count, PEB number).
//!
//! Linux keeps its free PEBs in such a tree and takes the *root* when it wants one of medium wear. Which PEB that is
//! depends on how the tree was balanced. The rotations here are the textbook's, as in the kernel, so the same
//! insertions and removals give the same root.
//!
//! Wear studies spend most of their time in this tree, so it is laid out for the cache. A node's key and children take
//! 16 bytes, and a descent touches nothing else. Free slots are reused at once, so the few free PEBs of a full device
//! stay close together, however large the device is. There is no table by PEB: what is removed is nearly always the
//! root or an end, and everything else is found by its key.
//!
//! Insertions into a large tree wait until its shape matters, for the root or for a removal, and are then done in their
//! order. A descent is a chain of cache misses; several at a time overlap their misses ([`WearTree::settle`]).
//!
//! A PEB is in the tree at most once. The tree holds a PEB's erase count from insertion to removal; it must not change
//! in between.

use sim::{EraseCount, Peb};

/// No node. Slot 0 is a black leaf that stands for every missing child and parent.
const NIL: u32 = 0;
const LEFT: usize = 0;
const RIGHT: usize = 1;
const RED: u32 = 1 << 31;
/// PEBs from which on insertions wait. A smaller tree fits into the nearest cache, so a descent is fast.
const LARGE: u32 = if cfg!(test) { 40 } else { 1024 };
/// PEBs for which a tree has room from the start: as a small one grows, it is not moved again and again.
const ROOM: usize = 64;
/// Insertions that may wait.
const WAITING: usize = 64;
/// Descents done together.
const ABREAST: usize = 8;
/// Fewest descents for which doing them together pays off.
const WORTH_IT: usize = 4;

/// The part of a node that a descent reads.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Node {
    /// Erase count above PEB number: the order is that of the integers.
    key: u64,
    child: [u32; 2],
}

const LEAF: Node = Node { key: 0, child: [NIL; 2] };

#[inline]
fn key_of(peb: Peb, ec: EraseCount) -> u64 {
    u64::from(ec.0) << 32 | u64::from(peb.0)
}

#[inline]
fn peb_of(key: u64) -> Peb {
    Peb(key as u32)
}

#[inline]
fn entry_of(key: u64) -> (Peb, EraseCount) {
    (peb_of(key), EraseCount((key >> 32) as u32))
}

/// Where a new node is attached: parent and side, in one number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(u32);

impl Place {
    const ROOT: Place = Place(0);

    #[inline]
    fn new(parent: u32, side: usize) -> Place {
        Place(parent << 1 | side as u32)
    }

    #[inline]
    fn parent(self) -> u32 {
        self.0 >> 1
    }

    #[inline]
    fn side(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// A red-black tree of PEBs.
#[derive(Clone, Debug)]
pub struct WearTree {
    nodes: Vec<Node>,
    /// Parent of each slot's node, and in the highest bit whether the node is red.
    up: Vec<u32>,
    /// Free slots; the one freed last is reused first.
    vacant: Vec<u32>,
    root: u32,
    /// The nodes at the ends, without the waiting keys.
    first: u32,
    last: u32,
    /// Keys not yet inserted, oldest first.
    waiting: Vec<u64>,
    /// The keys at the ends, with the waiting ones.
    lowest: u64,
    highest: u64,
    len: u32,
}

impl WearTree {
    /// An empty tree with room for PEBs `0..pebs`.
    pub fn new(pebs: u32) -> WearTree {
        assert!(pebs < RED, "a PEB number has 31 bits");
        let room = ROOM.min(pebs as usize + 1);
        let (mut nodes, mut up) = (Vec::with_capacity(room), Vec::with_capacity(room));
        nodes.push(LEAF);
        up.push(NIL);
        WearTree {
            nodes,
            up,
            vacant: Vec::new(),
            root: NIL,
            first: NIL,
            last: NIL,
            waiting: Vec::with_capacity(WAITING),
            lowest: u64::MAX,
            highest: 0,
            len: 0,
        }
    }

    /// PEBs in the tree.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the tree is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Least worn PEB and its erase count, the lowest number on a tie.
    #[inline]
    pub fn first(&self) -> Option<(Peb, EraseCount)> {
        (self.len > 0).then(|| entry_of(self.lowest))
    }

    /// Most worn PEB and its erase count, the highest number on a tie.
    #[inline]
    pub fn last(&self) -> Option<(Peb, EraseCount)> {
        (self.len > 0).then(|| entry_of(self.highest))
    }

    /// The PEB at the root.
    #[inline]
    pub fn root(&self) -> Option<Peb> {
        if self.waiting.is_empty() { self.peb(self.root) } else { self.root_when_settled() }
    }

    /// The root while insertions wait, without doing them: slow.
    #[cold]
    fn root_when_settled(&self) -> Option<Peb> {
        let mut settled = self.clone();
        settled.settle();
        settled.peb(settled.root)
    }

    /// The most worn PEB whose erase count is below `bound`, and that count.
    #[inline]
    pub fn last_below(&self, bound: u64) -> Option<(Peb, EraseCount)> {
        match self.last() {
            Some(last) if u64::from(last.1.0) < bound => Some(last),
            last => last.and_then(|_| self.last_far_below(bound)),
        }
    }

    /// As [`last_below`](Self::last_below), if the most worn PEB is not the answer.
    fn last_far_below(&self, bound: u64) -> Option<(Peb, EraseCount)> {
        let (mut at, mut best) = (self.root, None);
        while at != NIL {
            let node = self.node(at);
            let below = node.key >> 32 < bound;
            best = if below { Some(node.key) } else { best };
            at = node.child[usize::from(below)];
        }
        let waiting = self.waiting.iter().copied().filter(|&key| key >> 32 < bound).max();
        best.max(waiting).map(entry_of)
    }

    /// The last PEB on a descent towards `bound` that also remembers PEBs at or beyond it:
    /// [`last_below`](Self::last_below) or its successor, whichever the descent met last.
    pub fn descent_end(&mut self, bound: u64) -> Option<Peb> {
        self.settle();
        let (mut at, mut end) = (self.root, self.first);
        while at != NIL {
            let node = self.node(at);
            end = at;
            at = node.child[usize::from(node.key >> 32 < bound)];
        }
        self.peb(end)
    }

    /// The PEB after the root in the order.
    pub fn after_root(&mut self) -> Option<Peb> {
        self.settle();
        if self.root == NIL { None } else { self.peb(self.neighbour(self.root, RIGHT)) }
    }

    /// PEBs in order.
    pub fn iter(&self) -> impl Iterator<Item = Peb> + '_ {
        self.keys().into_iter().map(peb_of)
    }

    /// PEBs in order, with erase counts.
    pub fn iter_with_ec(&self) -> impl Iterator<Item = (Peb, EraseCount)> + '_ {
        self.keys().into_iter().map(entry_of)
    }

    /// Keys in order.
    fn keys(&self) -> Vec<u64> {
        let next = |&at: &u32| Some(self.neighbour(at, RIGHT)).filter(|&next| next != NIL);
        let nodes = std::iter::successors(Some(self.first).filter(|&at| at != NIL), next);
        let mut keys = Vec::with_capacity(self.len as usize);
        keys.extend(nodes.map(|at| self.node(at).key));
        if !self.waiting.is_empty() {
            keys.extend(&self.waiting);
            keys.sort_unstable();
        }
        keys
    }

    /// Adds `peb` with erase count `ec`. The PEB must not be in the tree.
    pub fn insert(&mut self, peb: Peb, ec: EraseCount) {
        let key = key_of(peb, ec);
        self.lowest = self.lowest.min(key);
        self.highest = self.highest.max(key);
        self.len += 1;
        if self.len <= LARGE {
            self.settle();
            self.insert_at(key, self.descend(key));
            return;
        }
        if self.waiting.len() == WAITING {
            self.settle();
        }
        self.waiting.push(key);
    }

    /// Does the waiting insertions in their order.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.waiting.is_empty() {
            self.insert_waiting();
        }
    }

    fn insert_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        for keys in waiting.chunks(ABREAST) {
            if keys.len() < WORTH_IT {
                for &key in keys {
                    self.insert_at(key, self.descend(key));
                }
                continue;
            }
            let places = self.descend_abreast(keys);
            for (i, &key) in keys.iter().enumerate() {
                // A free place lies between two neighbours in the order, and rotations change no order. So a place
                // found before the others of this round were inserted is still right, unless one of them took it or a
                // rotation moved it to the other neighbour.
                let taken = places[..i].contains(&places[i])
                    || self.node(places[i].parent()).child[places[i].side()] != NIL
                    || places[i] == Place::ROOT;
                let place = if taken { self.descend(key) } else { places[i] };
                self.insert_at(key, place);
            }
        }
        waiting.clear();
        self.waiting = waiting;
    }

    /// Place of each key, by descents side by side.
    fn descend_abreast(&self, keys: &[u64]) -> [Place; ABREAST] {
        let mut wanted = [0; ABREAST];
        wanted[..keys.len()].copy_from_slice(keys);
        let mut at = [NIL; ABREAST];
        at[..keys.len()].fill(self.root);
        let mut places = [Place::ROOT; ABREAST];
        loop {
            let mut deeper = NIL;
            for i in 0..ABREAST {
                let node = self.node(at[i]);
                let side = usize::from(wanted[i] > node.key);
                places[i] = if at[i] == NIL { places[i] } else { Place::new(at[i], side) };
                // The leaf's children are the leaf.
                at[i] = node.child[side];
                deeper |= at[i];
            }
            if deeper == NIL {
                return places;
            }
        }
    }

    /// Place of `key`.
    #[inline]
    fn descend(&self, key: u64) -> Place {
        let (mut at, mut place) = (self.root, Place::ROOT);
        while at != NIL {
            let node = self.node(at);
            // Indexing by the comparison avoids a branch, which would be mispredicted half the time.
            let side = usize::from(key > node.key);
            place = Place::new(at, side);
            at = node.child[side];
        }
        place
    }

    #[inline(always)]
    fn insert_at(&mut self, key: u64, place: Place) {
        let (parent, side) = (place.parent(), place.side());
        let new = self.take_slot(Node { key, child: [NIL; 2] }, parent | RED);
        if parent == NIL {
            (self.root, self.first, self.last) = (new, new, new);
            self.up[new as usize] = NIL;
            return;
        }
        debug_assert_ne!(self.node(parent).key, key, "PEB {} is in the tree already", peb_of(key));
        debug_assert_eq!(self.node(parent).child[side], NIL);
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

    /// Slot of `peb`.
    #[inline]
    fn find(&self, peb: Peb, ec: EraseCount) -> u32 {
        let key = key_of(peb, ec);
        if key == self.highest {
            return self.last;
        }
        let mut at = self.root;
        while self.node(at).key != key {
            assert_ne!(at, NIL, "PEB {peb} with erase count {} is not in the tree", ec.0);
            at = self.node(at).child[usize::from(key > self.node(at).key)];
        }
        at
    }

    /// Removes `peb` if it is the root; returns whether it was.
    pub fn remove_root(&mut self, peb: Peb) -> bool {
        self.settle();
        let is_root = self.root() == Some(peb);
        if is_root {
            self.remove_at(self.root);
        }
        is_root
    }

    /// Removes `peb`, which must be in the tree with erase count `ec`.
    pub fn remove(&mut self, peb: Peb, ec: EraseCount) {
        self.settle();
        self.remove_at(self.find(peb, ec));
    }

    #[inline(always)]
    fn remove_at(&mut self, gone: u32) {
        if self.first == gone {
            self.first = self.neighbour(gone, RIGHT);
            self.lowest = if self.first == NIL { u64::MAX } else { self.node(self.first).key };
        }
        if self.last == gone {
            self.last = self.neighbour(gone, LEFT);
            self.highest = self.node(self.last).key;
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

    /// The neighbour of a node on `side` in the order.
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

    /// Makes `new` the child of `parent` in the place of `old`.
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

    /// Rotates `at` down to `side`, with its child on the other side.
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

    /// Rebalances after an insertion: `at` and its parent are red.
    #[inline]
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
            // The missing child is on the side where the parent has none: its sibling has more black nodes and so
            // exists.
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

    /// Checks that the tree is ordered and balanced and that its caches are right; panics otherwise. Returns its PEBs in
    /// order, with erase counts.
    pub fn check(&self) -> Vec<(Peb, EraseCount)> {
        assert!(!self.is_red(self.root), "the root is red");
        assert_eq!((self.up[0], self.nodes[0].child), (NIL, [NIL; 2]), "the leaf was painted or hung up");
        let mut keys = Vec::with_capacity(self.len as usize);
        self.check_below(self.root, NIL, &mut keys);
        let ends = |end: u32| Some(self.node(end).key).filter(|_| end != NIL);
        assert_eq!((ends(self.first), ends(self.last)), (keys.first().copied(), keys.last().copied()), "its ends");
        assert_eq!(keys.len() + self.waiting.len(), self.len as usize, "count of PEBs in the tree");
        assert_eq!(self.vacant.len() + keys.len() + 1, self.nodes.len(), "a slot is lost");
        if !self.waiting.is_empty() {
            keys.extend(&self.waiting);
            keys.sort_unstable();
        }
        assert!(keys.is_sorted_by(|a, b| a < b), "out of order, or a PEB twice");
        assert_eq!(self.first().map(|_| self.lowest), keys.first().copied(), "first");
        assert_eq!(self.last().map(|_| self.highest), keys.last().copied(), "last");
        keys.into_iter().map(entry_of).collect()
    }

    /// Checks the subtree of `at`, whose parent is `parent`, and appends its keys as they are arranged; returns its black height.
    fn check_below(&self, at: u32, parent: u32, keys: &mut Vec<u64>) -> u32 {
        if at == NIL {
            return 1;
        }
        let node = self.node(at);
        let is_red = self.is_red(at);
        assert_eq!(self.parent(at), parent, "{:?} hangs below another", self.peb(at));
        assert!(!(is_red && self.is_red(parent)), "{:?} and its parent are red", self.peb(at));
        let left = self.check_below(node.child[LEFT], at, keys);
        keys.push(node.key);
        let right = self.check_below(node.child[RIGHT], at, keys);
        assert_eq!(left, right, "black heights differ below {:?}", self.peb(at));
        left + u32::from(!is_red)
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
        assert_eq!(tree.last_below(257), Some((Peb(0), EraseCount(1))));
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
                        tree.remove(Peb(peb), EraseCount(key.0));
                    }
                    None => {
                        model.insert((ec, peb));
                        tree.insert(Peb(peb), EraseCount(ec));
                    }
                }
                tree.check();
                let plain = |found: Option<(Peb, EraseCount)>| found.map(|(peb, ec)| (ec.0, peb.0));
                prop_assert_eq!(plain(tree.first()), model.first().copied());
                prop_assert_eq!(plain(tree.last()), model.last().copied());
                let below = model.iter().rev().find(|key| u64::from(key.0) < bound).copied();
                prop_assert_eq!(plain(tree.last_below(bound)), below);
                prop_assert!(tree.iter().map(|peb| peb.0).eq(model.iter().map(|key| key.1)));
            }
        }

        #[test]
        fn insertions_that_waited_give_the_same_shape(ops in prop::collection::vec((0u32..400, 0u32..90, 0u32..60), 1..900)) {
            fn shape(tree: &WearTree, at: u32) -> Vec<(u64, bool)> {
                if at == NIL {
                    return vec![(0, false)];
                }
                let [left, right] = tree.node(at).child.map(|child| shape(tree, child));
                [vec![(tree.node(at).key, tree.is_red(at))], left, right].concat()
            }
            let (mut prompt, mut late) = (WearTree::new(400), WearTree::new(400));
            let mut held = std::collections::BTreeMap::new();
            for (peb, ec, act) in ops {
                let peb = Peb(peb);
                match held.get(&peb).copied() {
                    None => {
                        held.insert(peb, ec);
                        prompt.insert(peb, EraseCount(ec));
                        late.insert(peb, EraseCount(ec));
                        prompt.settle();
                    }
                    Some(ec) if act < 15 => {
                        held.remove(&peb);
                        prompt.remove(peb, EraseCount(ec));
                        late.remove(peb, EraseCount(ec));
                    }
                    Some(_) => {}
                }
                if act == 59 {
                    prop_assert_eq!(late.root(), prompt.root());
                    late.settle();
                    prop_assert_eq!(shape(&late, late.root), shape(&prompt, prompt.root));
                }
            }
            prop_assert_eq!(late.root(), prompt.root());
            late.settle();
            prop_assert_eq!(shape(&late, late.root), shape(&prompt, prompt.root));
        }
    }
}
