//! A walk over the whole index that keeps nothing in memory and goes on after damage.

use sim::Cx;
use sim::seam::LebVolume;

use super::{AWAY, Index, MOST_LEVELS, NONE};
use crate::ubifs::error::{Result, UbifsError};
use crate::ubifs::media::{Branch, IndexNode, Key, NodeType};
use crate::ubifs::nodes::Nodes;

/// What is yet to be met.
struct Ahead {
    branch: Branch,
    /// The node in memory.
    child: u32,
    level: Option<u16>,
    end: Option<Key>,
}

/// What the walk meets.
#[derive(Debug)]
pub enum Met {
    /// An index node that is on flash as it is in memory.
    Node(Branch),
    /// A leaf.
    Leaf(Branch),
    /// A leaf whose key is not less than that of the next node: Linux does not find it. It is met as a leaf too.
    Misplaced(Branch),
    /// An index node that cannot be read: what is below it is missing.
    Damaged(Branch, UbifsError),
}

impl Index {
    /// Calls `meet` with every index node and every leaf, in the order of keys.
    /// Errors: the volume's.
    pub fn walk<V: LebVolume>(
        &self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        mut meet: impl FnMut(&mut Nodes<V>, &mut Cx, Met) -> Result<()>,
    ) -> Result<()> {
        // Branches yet to be met, the next one last, the level of the nodes that they point to, and the key after them.
        let mut ahead = vec![Ahead { branch: self.root_branch(), child: self.root.child, level: None, end: None }];
        while let Some(Ahead { branch, child, level, end }) = ahead.pop() {
            if child != NONE {
                let child = child & !AWAY;
                let node = self.nodes[child as usize];
                if !node.is_dirty {
                    meet(nodes, cx, Met::Node(branch))?;
                }
                let below = (0..node.len).map(|at| (self.branch(child, at), self.slot(child, at).child));
                self.ahead(nodes, cx, &mut ahead, (node.level, end), below, &mut meet)?;
                continue;
            }
            match self.on_flash(nodes, cx, &branch, level) {
                Ok((level, branches)) => {
                    meet(nodes, cx, Met::Node(branch))?;
                    let below = branches.into_iter().map(|branch| (branch, NONE));
                    self.ahead(nodes, cx, &mut ahead, (level, end), below, &mut meet)?;
                }
                Err(UbifsError::Leb(error)) => return Err(error.into()),
                Err(error) => meet(nodes, cx, Met::Damaged(branch, error))?,
            }
        }
        Ok(())
    }

    /// Meets the leaves of a node at level 0, or puts the branches of another ahead.
    fn ahead<V: LebVolume>(
        &self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        ahead: &mut Vec<Ahead>,
        (level, end): (u16, Option<Key>),
        mut branches: impl DoubleEndedIterator<Item = (Branch, u32)>,
        meet: &mut impl FnMut(&mut Nodes<V>, &mut Cx, Met) -> Result<()>,
    ) -> Result<()> {
        if level > 0 {
            let mut end = end;
            ahead.extend(branches.rev().map(|(branch, child)| {
                let after = end.replace(branch.key);
                Ahead { branch, child, level: Some(level - 1), end: after }
            }));
            return Ok(());
        }
        branches.try_for_each(|(branch, _)| {
            if !branch.key.is_of_entry() && end.is_some_and(|end| branch.key >= end) {
                meet(nodes, cx, Met::Misplaced(branch))?;
            }
            meet(nodes, cx, Met::Leaf(branch))
        })
    }

    pub(super) fn on_flash<V: LebVolume>(
        &self,
        nodes: &mut Nodes<V>,
        cx: &mut Cx,
        branch: &Branch,
        level: Option<u16>,
    ) -> Result<(u16, Vec<Branch>)> {
        let Branch { lnum, offset, key, .. } = *branch;
        let wrong = |what: &str| UbifsError::corrupt(lnum, offset, format!("index node: {what}"));
        let bytes = nodes.node(cx, branch, NodeType::Index)?;
        let damaged = |error| UbifsError::node(lnum, offset, "index node", error);
        let found = IndexNode::decode(bytes).map_err(damaged)?;
        if found.len() > self.fanout {
            return Err(wrong("more branches than the fanout of the super block"));
        }
        match level {
            None if found.level >= MOST_LEVELS => return Err(wrong("the root has more levels than an index can have")),
            Some(level) if found.level != level => return Err(wrong("its level is not one less than its parent's")),
            _ => {}
        }
        let mut last = if level.is_some() { key } else { Key(0) };
        let mut branches = Vec::with_capacity(found.len());
        for branch in found.branches() {
            let branch = branch.map_err(damaged)?;
            self.plausible(&branch, last).map_err(wrong)?;
            last = branch.key;
            branches.push(branch);
        }
        Ok((found.level, branches))
    }
}
