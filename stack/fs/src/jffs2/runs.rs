//! Contents of files by the nodes that have them, so that holes stay holes.

use sim::Cx;
use sim::seam::{FileType, Flash, FsError, Ino};

use super::Jffs2;
use super::blocks::Node;
use super::error::{Jffs2Error, Result};

/// Bytes of a file that follow one another in one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they begin in the file.
    pub offset: u64,
    /// How many there are.
    pub len: u32,
    ino: u32,
    node: u32,
}

impl Run {
    pub(super) fn node(&self) -> u32 {
        self.node
    }
}

impl<F: Flash> Jffs2<F> {
    /// The first run of regular file `ino` that begins at `from` or behind it. `None`: there is no further one.
    /// Errors: the flash's; those of an inode that cannot be read; it is no regular file.
    pub fn next_run(&mut self, cx: &mut Cx, ino: Ino, from: u64) -> Result<Option<Run>> {
        self.bound_memory();
        let inode = self.get(cx, ino)?;
        if inode.file_type != FileType::Regular {
            return Err(FsError::Invalid { why: "no regular file" }.into());
        }
        let Ok(from) = u32::try_from(from) else { return Ok(None) };
        let of_node = |(&at, part): (&u32, &super::inode::Fragment)| {
            part.node.map(|node| Run { offset: at.into(), len: part.len, ino: inode.ino, node })
        };
        Ok(inode.fragments.range(from..).find_map(of_node))
    }

    /// Reads a run. False: it is a hole after all, and `out` is empty.
    /// Errors: the flash's; the data are damaged, or compressed in a way that is not known.
    pub fn read_run(&mut self, cx: &mut Cx, run: &Run, out: &mut Vec<u8>) -> Result<bool> {
        let node = self.load(cx, run.ino)?.nodes.get(&run.node).copied();
        let node = node.ok_or(Jffs2Error::Fs(FsError::Stale { ino: Ino(run.ino.into()) }))?;
        if !self.read_data(cx, run.node, out)? {
            out.clear();
            return Ok(false);
        }
        let from = run.offset as usize - node.offset as usize;
        let to = from + run.len as usize;
        if to > out.len() {
            let Node { block, offset, .. } = *self.blocks.node(run.node);
            return Err(Jffs2Error::corrupt(block, offset, "a node with fewer data than it says"));
        }
        out.truncate(to);
        out.drain(..from);
        Ok(true)
    }
}
