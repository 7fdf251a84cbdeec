//! Nodes and whole LEBs of the volume, through the write buffers of the journal heads.

use sim::seam::{FlashError, LebError, LebVolume, Payload, is_erased};
use sim::{CpuPrice, Cx, Lnum, Ns};

use super::error::{Result, UbifsError};
use super::media::{Branch, DataNode, DentNode, Header, IndexNode, InodeNode, Key, MediaError, NodeType, aligned, pad};
use super::scan::{Found, Recovery, scan};
use super::tags::Tags;
use super::written::{Part, Written};

/// Journal heads: garbage collection, inodes and entries, data.
pub const HEADS: usize = 3;
/// Journal head of garbage collection.
pub const GC_HEAD: usize = 0;
/// Journal head of inodes and entries.
pub const BASE_HEAD: usize = 1;
/// Journal head of data.
pub const DATA_HEAD: usize = 2;
/// What each journal head writes.
const PARTS: [Part; HEADS] = [Part::Moved, Part::Inodes, Part::Data];
/// No LEB.
pub const NO_LEB: u32 = u32::MAX;

/// The write buffer of a journal head: what was written to the LEB, and is not yet on flash.
///
/// Source: Linux 6.12 `fs/ubifs/io.c` (behaviour).
#[derive(Clone, Debug)]
pub struct WriteBuffer {
    /// The LEB, or [`NO_LEB`].
    pub lnum: u32,
    /// Where the buffer begins in the LEB.
    pub offset: u32,
    /// Bytes until it is written: to the next multiple of the largest write, or to the end of the LEB.
    size: u32,
    used: u32,
    /// The bytes in it, on a volume that keeps bytes.
    bytes: Vec<u8>,
    /// Inodes with a node in the buffer.
    pub inos: Vec<u32>,
    /// When it is written at the latest.
    pub due: Option<Ns>,
}

impl WriteBuffer {
    const UNUSED: WriteBuffer =
        WriteBuffer { lnum: NO_LEB, offset: 0, size: 0, used: 0, bytes: Vec::new(), inos: Vec::new(), due: None };

    /// Bytes in the buffer.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Where the next node goes in the LEB.
    pub fn end(&self) -> u32 {
        self.offset + self.used()
    }

    /// The buffer's bytes were written.
    fn advance(&mut self, by: u32, leb_bytes: u32, max_write: u32) {
        self.offset += by;
        self.used = 0;
        self.bytes.clear();
        self.inos.clear();
        self.size = match leb_bytes - self.offset {
            rest if rest < max_write => rest,
            _ => max_write - self.offset % max_write,
        };
    }
}

/// A node in a LEB that garbage collection, or the commit, looks through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its key; of an index node that of the first branch.
    pub key: Key,
    /// Offset in the LEB, in bytes.
    pub offset: u32,
    /// Bytes of the node.
    pub len: u32,
    /// What else is known of it where no bytes are kept: of an index node its number in memory when it was written, of a
    /// data node its bytes before compression, of another where its bytes are.
    pub at: u32,
    /// Level of an index node.
    pub level: u16,
    /// Its type.
    pub node_type: NodeType,
}

impl Stored {
    /// `None` of a node to which nothing in the index points.
    fn of(found: &Found, leb: &[u8]) -> std::result::Result<Option<Stored>, MediaError> {
        let (node, Header { len, node_type, .. }) = (found.of(leb), found.header);
        let (key, level) = match node_type {
            NodeType::Inode => (InodeNode::decode(node)?.key, 0),
            NodeType::Data => (DataNode::decode(node)?.key, 0),
            NodeType::Dent | NodeType::Xent => (DentNode::decode(node)?.key, 0),
            NodeType::Index => IndexNode::first(node)?,
            _ => return Ok(None),
        };
        Ok(Some(Stored { key, offset: found.offset, len, at: u32::MAX, level, node_type }))
    }
}

/// Reads, with the error of what ECC cannot correct, which is read nevertheless.
fn read<V: LebVolume>(volume: &mut V, cx: &mut Cx, lnum: u32, offset: u32, buf: &mut [u8]) -> Result<Option<LebError>> {
    match volume.read(cx, Lnum(lnum), offset, buf) {
        Ok(()) => Ok(None),
        Err(error @ LebError::Flash(FlashError::Uncorrectable { .. })) => Ok(Some(error)),
        Err(error) => Err(error.into()),
    }
}

fn unknown(lnum: u32, offset: u32, expected: NodeType) -> UbifsError {
    UbifsError::corrupt(lnum, offset, format!("no {} is known here", expected.name()))
}

/// The volume, a buffer for what was read last, and the write buffers.
#[derive(Clone, Debug)]
pub struct Nodes<V> {
    volume: V,
    buffer: Vec<u8>,
    /// The LEB that was scanned last, on a volume that keeps bytes.
    scanned: Vec<u8>,
    leb_bytes: u32,
    lebs: u32,
    min_io: u32,
    max_write: u32,
    heads: [WriteBuffer; HEADS],
    /// What is known of the contents, on a volume that keeps no bytes.
    tags: Tags,
    cpu: CpuPrice,
    written: Written,
}

impl<V: LebVolume> Nodes<V> {
    /// Reads from `volume`.
    pub fn new(volume: V) -> Nodes<V> {
        let (leb_bytes, lebs, min_io) = (volume.leb_bytes(), volume.lebs(), volume.min_io_bytes());
        let heads = [WriteBuffer::UNUSED; HEADS];
        let (buffer, scanned, tags) = (Vec::new(), Vec::new(), Tags::new(lebs));
        let (max_write, cpu, written) = (min_io, CpuPrice::FREE, Written::default());
        Nodes { volume, buffer, scanned, leb_bytes, lebs, min_io, max_write, heads, tags, cpu, written }
    }

    /// What the processor's work costs from now on; nothing before.
    pub fn set_cpu(&mut self, cpu: CpuPrice) {
        self.cpu = cpu;
    }

    /// Takes the processor's time for `nodes` nodes of `bytes` bytes together.
    #[inline]
    pub fn work(&self, cx: &mut Cx, nodes: u64, bytes: u64) {
        cx.spend(self.cpu.nodes(nodes) + self.cpu.crc(bytes));
    }

    /// Write units as UBIFS sees them, and the largest write at once, in bytes; both powers of two.
    pub fn set_write_units(&mut self, min_io: u32, max_write: u32) {
        (self.min_io, self.max_write) = (min_io, max_write.max(min_io));
    }

    /// The volume.
    pub fn volume(&self) -> &V {
        &self.volume
    }

    /// The volume, for a change that UBIFS knows nothing of.
    pub fn volume_mut(&mut self) -> &mut V {
        &mut self.volume
    }

    /// Ends with the volume. What is in a write buffer is lost.
    pub fn into_volume(self) -> V {
        self.volume
    }

    /// Bytes written to the volume.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Bytes of a LEB.
    pub fn leb_bytes(&self) -> u32 {
        self.leb_bytes
    }

    /// The write buffer of a journal head.
    pub fn head(&self, head: usize) -> &WriteBuffer {
        &self.heads[head]
    }

    /// The same, to note inodes and time.
    pub fn head_mut(&mut self, head: usize) -> &mut WriteBuffer {
        &mut self.heads[head]
    }

    /// Reads some bytes. Errors: the volume's; bytes that no LEB of it has.
    pub fn bytes(&mut self, cx: &mut Cx, lnum: u32, offset: u32, len: u32) -> Result<&[u8]> {
        match self.fill(cx, lnum, offset, len)? {
            None => Ok(&self.buffer[..len as usize]),
            Some(error) => Err(error.into()),
        }
    }

    /// Reads some bytes, also such as ECC cannot correct, which have checksums of their own: a page that was being written
    /// when power was lost is one.
    fn raw(&mut self, cx: &mut Cx, lnum: u32, offset: u32, len: u32) -> Result<&[u8]> {
        self.fill(cx, lnum, offset, len)?;
        Ok(&self.buffer[..len as usize])
    }

    /// Reads some bytes into the buffer, with the error of those that ECC cannot correct.
    fn fill(&mut self, cx: &mut Cx, lnum: u32, offset: u32, len: u32) -> Result<Option<LebError>> {
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
        if !V::keeps_bytes() {
            self.volume.read(cx, Lnum(lnum), offset, bytes)?;
            self.tags.read(lnum, offset, bytes);
            return Ok(None);
        }
        let ahead = self.heads.iter().find(|head| head.lnum == lnum && offset + len > head.offset);
        match ahead.filter(|head| !head.bytes.is_empty()) {
            None => read(&mut self.volume, cx, lnum, offset, bytes),
            Some(head) => {
                let on_flash = head.offset.saturating_sub(offset) as usize;
                let mut uncorrected = None;
                if on_flash > 0 {
                    uncorrected = read(&mut self.volume, cx, lnum, offset, &mut bytes[..on_flash])?;
                }
                let buffered = &head.bytes[offset.saturating_sub(head.offset) as usize..];
                let from_buffer = buffered.len().min(bytes.len() - on_flash);
                bytes[on_flash..on_flash + from_buffer].copy_from_slice(&buffered[..from_buffer]);
                bytes[on_flash + from_buffer..].fill(0xff);
                Ok(uncorrected)
            }
        }
    }

    /// Reads a LEB from `offset` on, also what ECC cannot correct: a scan says what it is.
    pub fn leb(&mut self, cx: &mut Cx, lnum: u32, offset: u32) -> Result<&[u8]> {
        self.raw(cx, lnum, offset, self.leb_bytes.saturating_sub(offset))
    }

    /// Whether nothing was written to a LEB from `offset` on. A page that ECC cannot correct was.
    pub fn is_empty(&mut self, cx: &mut Cx, lnum: u32, offset: u32) -> Result<bool> {
        let len = self.leb_bytes.saturating_sub(offset);
        let uncorrected = self.fill(cx, lnum, offset, len)?;
        Ok(uncorrected.is_none() && is_erased(&self.buffer[..len as usize]))
    }

    /// Reads the node that `branch` points to.
    /// Errors: the volume's; it is no node of type `expected` with the length of the branch.
    pub fn node(&mut self, cx: &mut Cx, branch: &Branch, expected: NodeType) -> Result<&[u8]> {
        let Branch { lnum, offset, len, .. } = *branch;
        if !V::keeps_bytes() {
            self.spend_read(cx, lnum, offset, len)?;
            let node = match expected {
                NodeType::Index => self.tags.image(lnum, offset).and_then(|image| image.get(..len as usize)),
                _ => self.tags.node(lnum, offset),
            };
            return node.ok_or_else(|| unknown(lnum, offset, expected));
        }
        self.work(cx, 1, len.into());
        let bytes = self.raw(cx, lnum, offset, len)?;
        match Header::expect(bytes, expected) {
            Ok((header, node)) if header.len == len => Ok(node),
            Ok((header, _)) => {
                let error = MediaError::Field { what: "len", found: header.len.into(), expected: "that of the branch" };
                Err(UbifsError::node(lnum, offset, expected.name(), error))
            }
            Err(error) => Err(UbifsError::node(lnum, offset, expected.name(), error)),
        }
    }

    /// Bytes before compression of the data node that `branch` points to, where no bytes are kept. Takes the time of a read.
    /// Errors: the volume's.
    pub fn data_size(&mut self, cx: &mut Cx, branch: &Branch) -> Result<u32> {
        let Branch { lnum, offset, len, .. } = *branch;
        self.spend_read(cx, lnum, offset, len)?;
        self.tags.data_size(lnum, offset).ok_or_else(|| unknown(lnum, offset, NodeType::Data))
    }

    /// Takes the time of reading a node, where no bytes are kept: of the processor, and of the volume for what is not in a
    /// write buffer.
    pub fn spend_read(&mut self, cx: &mut Cx, lnum: u32, offset: u32, mut len: u32) -> Result<()> {
        self.work(cx, 1, len.into());
        if let Some(head) = self.heads.iter().find(|head| head.lnum == lnum && head.used > 0) {
            len = len.min(head.offset.saturating_sub(offset));
        }
        if len == 0 {
            return Ok(());
        }
        if self.buffer.len() < len as usize {
            self.buffer.resize(len as usize, 0);
        }
        Ok(self.volume.read(cx, Lnum(lnum), offset, &mut self.buffer[..len as usize])?)
    }

    /// Fills `found` with the nodes of a LEB that needs no recovery, but for those to which the index never points.
    /// Errors: the volume's; damage.
    pub fn scan(&mut self, cx: &mut Cx, lnum: u32, found: &mut Vec<Stored>) -> Result<()> {
        found.clear();
        if !V::keeps_bytes() {
            self.spend_read(cx, lnum, 0, self.leb_bytes)?;
            found.extend_from_slice(self.tags.of(lnum));
            self.work(cx, found.len() as u64, 0);
            return Ok(());
        }
        self.work(cx, 1, self.leb_bytes.into());
        self.leb(cx, lnum, 0)?;
        std::mem::swap(&mut self.buffer, &mut self.scanned);
        let leb = &self.scanned[..self.leb_bytes as usize];
        for node in scan(leb, lnum, 0, self.min_io, Recovery::None)?.nodes {
            let error = |error| UbifsError::node(lnum, node.offset, node.header.node_type.name(), error);
            found.extend(Stored::of(&node, leb).map_err(error)?);
        }
        self.work(cx, found.len() as u64, 0);
        Ok(())
    }

    /// The bytes of the LEB that was scanned last, where bytes are kept.
    pub fn scanned(&mut self) -> &mut [u8] {
        &mut self.scanned
    }

    /// The image of a LEB that was written to a volume that keeps no bytes.
    pub fn preload(&mut self, lnum: u32, bytes: &[u8]) {
        if !V::keeps_bytes() {
            self.tags.preload(lnum, bytes);
        }
    }

    fn payload(bytes: &[u8]) -> Payload<'_> {
        if V::keeps_bytes() { Payload::Bytes(bytes) } else { Payload::Length(bytes.len() as u32) }
    }

    /// The first `len` bytes, which are there where bytes are kept.
    fn part(bytes: &[u8], len: u32) -> Payload<'_> {
        if V::keeps_bytes() { Payload::Bytes(&bytes[..len as usize]) } else { Payload::Length(len) }
    }

    /// Writes whole write units past the write buffers.
    pub fn write(&mut self, cx: &mut Cx, part: Part, (lnum, offset): (u32, u32), bytes: &[u8]) -> Result<()> {
        self.volume.write(cx, Lnum(lnum), offset, Self::payload(bytes))?;
        self.written[part] += bytes.len() as u64;
        Ok(())
    }

    /// Writes whole write units past the write buffers: `len` bytes, which need to be there only where bytes are kept.
    pub fn write_part(
        &mut self,
        cx: &mut Cx,
        part: Part,
        (lnum, offset): (u32, u32),
        bytes: &[u8],
        len: u32,
    ) -> Result<()> {
        self.volume.write(cx, Lnum(lnum), offset, Self::part(bytes, len))?;
        self.written[part] += u64::from(len);
        Ok(())
    }

    /// Notes an index node that is written past the write buffers.
    pub fn note(&mut self, lnum: u32, node: Stored) {
        if !V::keeps_bytes() {
            self.tags.note(lnum, node);
        }
    }

    /// Replaces a LEB atomically.
    pub fn change(&mut self, cx: &mut Cx, part: Part, lnum: u32, bytes: &[u8]) -> Result<()> {
        self.volume.change(cx, Lnum(lnum), Self::payload(bytes))?;
        self.written[part] += bytes.len() as u64;
        Ok(())
    }

    /// Replaces a LEB atomically by the first `len` bytes of [`scanned`](Self::scanned).
    pub fn change_to_scanned(&mut self, cx: &mut Cx, part: Part, lnum: u32, len: u32) -> Result<()> {
        self.volume.change(cx, Lnum(lnum), Self::part(&self.scanned, len))?;
        self.written[part] += u64::from(len);
        Ok(())
    }

    /// Forgets what is known of the nodes of a LEB that is about to be changed.
    pub fn forget(&mut self, lnum: u32) {
        self.tags.clear(lnum);
    }

    /// Unmaps a LEB, if it is mapped.
    pub fn unmap(&mut self, cx: &mut Cx, lnum: u32) -> Result<()> {
        self.tags.clear(lnum);
        match self.volume.is_mapped(Lnum(lnum)) {
            true => Ok(self.volume.unmap(cx, Lnum(lnum))?),
            false => Ok(()),
        }
    }

    /// Maps a LEB that is unmapped.
    pub fn map(&mut self, cx: &mut Cx, lnum: u32) -> Result<()> {
        Ok(self.volume.map(cx, Lnum(lnum))?)
    }

    /// Waits until every unmapped block is erased.
    pub fn sync_volume(&mut self, cx: &mut Cx) -> Result<()> {
        Ok(self.volume.sync(cx)?)
    }

    /// Moves a journal head, whose buffer is empty, to `offset` of a LEB.
    pub fn seek(&mut self, head: usize, lnum: u32, offset: u32) {
        let head = &mut self.heads[head];
        debug_assert!(head.used == 0);
        (head.lnum, head.offset) = (lnum, offset);
        head.advance(0, self.leb_bytes, self.max_write);
    }

    /// Appends whole nodes, with what is between them, to the LEB of a journal head. They fit. Where no bytes are kept, they
    /// may end with the header of a node whose data are left out.
    pub fn append(&mut self, cx: &mut Cx, head: usize, mut bytes: &[u8]) -> Result<()> {
        if !V::keeps_bytes() {
            return self.append_tags(cx, head, bytes);
        }
        self.work(cx, 1, bytes.len() as u64);
        let Nodes { volume, heads, leb_bytes, max_write, written, .. } = self;
        let (head, part) = (&mut heads[head], PARTS[head]);
        debug_assert!(bytes.len().is_multiple_of(8) && head.end() + bytes.len() as u32 <= *leb_bytes);
        head.due = None;
        while !bytes.is_empty() {
            let len = bytes.len().min((head.size - head.used()) as usize);
            let (now, later) = bytes.split_at(len);
            head.bytes.extend_from_slice(now);
            head.used += len as u32;
            bytes = later;
            if head.used() == head.size {
                volume.write(cx, Lnum(head.lnum), head.offset, Payload::Bytes(&head.bytes))?;
                written[part] += u64::from(head.size);
                head.advance(head.size, *leb_bytes, *max_write);
            }
        }
        Ok(())
    }

    fn append_tags(&mut self, cx: &mut Cx, head: usize, bytes: &[u8]) -> Result<()> {
        let len = self.tags.append(self.heads[head].lnum, self.heads[head].end(), bytes);
        self.append_length(cx, head, len)
    }

    /// Appends a node of another LEB, where no bytes are kept, to the LEB of a journal head. It fits.
    pub fn append_copy(&mut self, cx: &mut Cx, head: usize, node: Stored) -> Result<()> {
        self.tags.copy(node, (self.heads[head].lnum, self.heads[head].end()));
        self.append_length(cx, head, aligned(node.len))
    }

    fn append_length(&mut self, cx: &mut Cx, head: usize, mut left: u32) -> Result<()> {
        self.work(cx, 1, left.into());
        let Nodes { volume, heads, leb_bytes, max_write, written, .. } = self;
        let (head, part) = (&mut heads[head], PARTS[head]);
        head.due = None;
        debug_assert!(head.end() + left <= *leb_bytes);
        while left > 0 {
            let now = left.min(head.size - head.used);
            head.used += now;
            left -= now;
            if head.used == head.size {
                volume.write(cx, Lnum(head.lnum), head.offset, Payload::Length(head.size))?;
                written[part] += u64::from(head.size);
                head.advance(head.size, *leb_bytes, *max_write);
            }
        }
        Ok(())
    }

    /// Writes the buffer of a journal head, padded to a write unit. Returns the bytes of padding.
    pub fn flush(&mut self, cx: &mut Cx, head: usize) -> Result<u32> {
        let Nodes { volume, heads, leb_bytes, max_write, min_io, written, .. } = self;
        let (head, part) = (&mut heads[head], PARTS[head]);
        head.due = None;
        let used = head.used;
        if used == 0 {
            return Ok(0);
        }
        let whole = used.next_multiple_of(*min_io);
        let payload = if V::keeps_bytes() {
            head.bytes.resize(whole as usize, 0);
            pad(&mut head.bytes[used as usize..]);
            Payload::Bytes(&head.bytes)
        } else {
            Payload::Length(whole)
        };
        volume.write(cx, Lnum(head.lnum), head.offset, payload)?;
        written[part] += u64::from(used);
        written[Part::Padding] += u64::from(whole - used);
        head.advance(whole, *leb_bytes, *max_write);
        Ok(whole - used)
    }
}
