//! Reading of nodes and whole LEBs from the volume.

use sim::seam::LebVolume;
use sim::{Cx, Lnum};

use super::error::{Result, UbifsError};
use super::media::{Branch, Header, MediaError, NodeType};

/// The volume, and a buffer for what was read last.
#[derive(Clone, Debug)]
pub struct Nodes<V> {
    volume: V,
    buffer: Vec<u8>,
    leb_bytes: u32,
    lebs: u32,
}

impl<V: LebVolume> Nodes<V> {
    /// Reads from `volume`.
    pub fn new(volume: V) -> Nodes<V> {
        let (leb_bytes, lebs) = (volume.leb_bytes(), volume.lebs());
        Nodes { volume, buffer: Vec::new(), leb_bytes, lebs }
    }

    /// The volume.
    pub fn volume(&self) -> &V {
        &self.volume
    }

    /// Bytes of a LEB.
    pub fn leb_bytes(&self) -> u32 {
        self.leb_bytes
    }

    /// Reads some bytes. Errors: the volume's; bytes that no LEB of it has.
    pub fn bytes(&mut self, cx: &mut Cx, lnum: u32, offset: u32, len: u32) -> Result<&[u8]> {
        if lnum >= self.lebs || offset > self.leb_bytes || len > self.leb_bytes - offset {
            let (lebs, bytes) = (self.lebs, self.leb_bytes);
            let what = format!("{len} bytes of a volume with {lebs} LEBs of {bytes} bytes");
            return Err(UbifsError::corrupt(lnum, offset, what));
        }
        // What was read before is overwritten, so that it need not be cleared.
        if self.buffer.len() < len as usize {
            self.buffer.resize(len as usize, 0);
        }
        let bytes = &mut self.buffer[..len as usize];
        self.volume.read(cx, Lnum(lnum), offset, bytes)?;
        Ok(bytes)
    }

    /// Reads a LEB from `offset` on.
    pub fn leb(&mut self, cx: &mut Cx, lnum: u32, offset: u32) -> Result<&[u8]> {
        self.bytes(cx, lnum, offset, self.leb_bytes.saturating_sub(offset))
    }

    /// Reads the node that `branch` points to.
    /// Errors: the volume's; it is no node of type `expected` with the length of the branch.
    pub fn node(&mut self, cx: &mut Cx, branch: &Branch, expected: NodeType) -> Result<&[u8]> {
        let Branch { lnum, offset, len, .. } = *branch;
        let bytes = self.bytes(cx, lnum, offset, len)?;
        match Header::expect(bytes, expected) {
            Ok((header, node)) if header.len == len => Ok(node),
            Ok((header, _)) => {
                let error = MediaError::Field { what: "len", found: header.len.into(), expected: "that of the branch" };
                Err(UbifsError::node(lnum, offset, expected.name(), error))
            }
            Err(error) => Err(UbifsError::node(lnum, offset, expected.name(), error)),
        }
    }
}
