//! Checks what is in memory for contradictions.

use sim::seam::Flash;

use super::Jffs2;
use super::blocks::{NodeState, Owner};

impl<F: Flash> Jffs2<F> {
    /// Looks for contradictions between the books, the inodes in memory and the nodes.
    /// Errors: the first one.
    pub fn check_memory(&self) -> Result<(), String> {
        self.blocks.check()?;
        for (&ino, inode) in &self.inodes {
            let data = inode.nodes.keys().copied();
            let names = inode.names.values().map(|name| name.node);
            for id in data.chain(inode.metadata).chain(names) {
                let node = self.blocks.node(id);
                if node.state == NodeState::Obsolete || node.owner != Owner::Inode(ino) {
                    return Err(format!("inode {ino} needs a node that is {node:?}"));
                }
            }
            let mut at = 0;
            for (&begin, part) in &inode.fragments {
                if begin != at || part.len == 0 {
                    return Err(format!("inode {ino}: a fragment at {begin}, expected one at {at}"));
                }
                at += part.len;
            }
            for (&id, node) in &inode.nodes {
                let count = inode.fragments.values().filter(|part| part.node == Some(id)).count();
                if count != node.fragments as usize {
                    return Err(format!("inode {ino}: a node with {count} fragments counts {}", node.fragments));
                }
            }
        }
        Ok(())
    }
}
