//! The flash below, and the write buffer: NAND is programmed by whole pages, and nodes are smaller.

use std::collections::BTreeSet;

use sim::seam::{Flash, FlashError, Geometry, Medium, Payload, is_erased};
use sim::{Cx, Ns, Peb};

use super::media::{self, Endian, HEADER_BYTES, Header, OOB_MARKER_BYTES, node_type, padded};

/// Where clean markers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// In the first bytes of the block.
    InBlock,
    /// In the out-of-band bytes of the first page.
    InOob,
    /// Nowhere: the flash below answers for erased blocks, as UBI does.
    None,
}

/// Data that wait to fill a page.
#[derive(Clone, Debug)]
struct Buffer {
    block: u32,
    /// Offset of the page in the block.
    page: u32,
    /// Bytes of the page so far; 0: nothing waits.
    len: u32,
    bytes: Vec<u8>,
    /// Inodes of which something waits, but for what garbage collection moved.
    inodes: BTreeSet<u32>,
}

/// What waited in the write buffer of a block in which a program failed.
#[derive(Debug)]
pub struct Withdrawn {
    inodes: BTreeSet<u32>,
}

/// Pages of a block whose out-of-band bytes are looked at before it is taken for erased.
const OOB_PAGES: u32 = 4;

impl Withdrawn {
    /// Whether something of inode `ino` waited that garbage collection did not move.
    pub fn is_of(&self, ino: u32) -> bool {
        self.inodes.contains(&ino)
    }
}

/// The flash with its write buffer.
#[derive(Clone, Debug)]
pub struct Device<F> {
    flash: F,
    geometry: Geometry,
    endian: Endian,
    marker: Marker,
    buffer: Option<Buffer>,
    /// When the timer was started that ends with the buffer written.
    timer: Option<Ns>,
}

impl<F: Flash> Device<F> {
    pub fn new(flash: F, endian: Endian) -> Device<F> {
        let geometry = *flash.geometry();
        let marker = match geometry {
            Geometry { medium: Medium::Nor, .. } => Marker::InBlock,
            Geometry { oob_bytes, .. } if oob_bytes as usize >= 2 * OOB_MARKER_BYTES => Marker::InOob,
            _ => Marker::None,
        };
        let buffer = (geometry.medium == Medium::Nand && geometry.page_bytes > 1).then(|| Buffer {
            block: 0,
            page: 0,
            len: 0,
            bytes: vec![0xff; geometry.page_bytes as usize],
            inodes: BTreeSet::new(),
        });
        Device { flash, geometry, endian, marker, buffer, timer: None }
    }

    pub fn flash(&self) -> &F {
        &self.flash
    }

    pub fn flash_mut(&mut self) -> &mut F {
        &mut self.flash
    }

    pub fn into_flash(self) -> F {
        self.flash
    }

    pub fn endian(&self) -> Endian {
        self.endian
    }

    pub fn marker(&self) -> Marker {
        self.marker
    }

    /// Bytes of a block that its clean marker takes.
    pub fn marker_bytes(&self) -> u32 {
        if self.marker == Marker::InBlock { HEADER_BYTES as u32 } else { 0 }
    }

    /// Whether bits may fall at any time in what is programmed already.
    pub fn may_program_again(&self) -> bool {
        self.geometry.medium == Medium::Nor
    }

    /// Page of the write buffer; `None`: there is none, and nodes are programmed at once.
    pub fn page_bytes(&self) -> Option<u32> {
        self.buffer.as_ref().map(|_| self.geometry.page_bytes)
    }

    pub fn is_bad(&self, block: u32) -> bool {
        self.flash.is_bad(Peb(block))
    }

    /// Reads; what waits in the write buffer is there already. Bytes that ECC cannot correct are read as they are: the
    /// CRCs of the nodes decide, as in Linux.
    pub fn read(&mut self, cx: &mut Cx, block: u32, offset: u32, into: &mut [u8]) -> Result<(), FlashError> {
        match self.flash.read(cx, Peb(block), offset, into) {
            Ok(_) | Err(FlashError::Uncorrectable { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Some(buffer) = self.buffer.as_ref().filter(|buffer| buffer.len > 0 && buffer.block == block) {
            let (from, to) = (buffer.page.max(offset), (buffer.page + buffer.len).min(offset + into.len() as u32));
            if from < to {
                let waiting = &buffer.bytes[(from - buffer.page) as usize..(to - buffer.page) as usize];
                into[(from - offset) as usize..(to - offset) as usize].copy_from_slice(waiting);
            }
        }
        Ok(())
    }

    /// Whether data wait in the write buffer.
    pub fn is_waiting(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.len > 0)
    }

    /// Whether something of inode `ino`, or of any if it is `None`, waits that garbage collection did not move.
    pub fn waits(&self, ino: Option<u32>) -> bool {
        let Some(buffer) = self.buffer.as_ref().filter(|buffer| buffer.len > 0) else { return false };
        ino.map_or(!buffer.inodes.is_empty(), |ino| buffer.inodes.contains(&ino))
    }

    /// Which page waits: it is another one when it was programmed.
    pub fn waiting_page(&self) -> Option<(u32, u32)> {
        self.buffer.as_ref().filter(|buffer| buffer.len > 0).map(|buffer| (buffer.block, buffer.page))
    }

    /// When the timer was started that ends with the buffer written: with the first call that left something in it. A page that
    /// is full does not stop it.
    /// Source: Linux 6.12, `jffs2_dirty_trigger`.
    pub fn timer(&self) -> Option<Ns> {
        self.timer
    }

    /// The timer has ended, or is stopped.
    pub fn stop_timer(&mut self) {
        self.timer = None;
    }

    /// Writes a node, behind what waits. `ino`: the inode that an fsync of it must push out.
    /// Returns whether pages were programmed, after which nothing waits that was written before them.
    /// Errors: the flash's. After a failed program what waited still does, and nothing of the node does.
    pub fn write(
        &mut self,
        cx: &mut Cx,
        (block, offset): (u32, u32),
        node: &[u8],
        ino: Option<u32>,
    ) -> Result<bool, FlashError> {
        let Some(buffer) = &mut self.buffer else {
            self.flash.program(cx, Peb(block), offset, Payload::Bytes(node))?;
            return Ok(false);
        };
        let page_bytes = self.geometry.page_bytes;
        let in_page = offset % page_bytes;
        let mut pushed = false;
        if buffer.len == 0 {
            (buffer.block, buffer.page) = (block, offset - in_page);
        } else if in_page == 0 && buffer.page + page_bytes == offset && buffer.block == block {
            // The node before left less than a word to the end of the page.
            buffer.bytes[buffer.len as usize..].fill(0xff);
            self.flash.program(cx, Peb(block), buffer.page, Payload::Bytes(&buffer.bytes))?;
            buffer.begin(offset);
            pushed = true;
        }
        debug_assert_eq!((buffer.block, buffer.page), (block, offset - in_page), "a write buffer has no gaps");
        debug_assert_eq!(
            in_page,
            if buffer.len == 0 { in_page } else { padded(buffer.len) },
            "nodes follow one another"
        );
        let mut rest = node;
        let mut waited = buffer.len;
        // Between two nodes, and before the first where a mount goes on in a page.
        buffer.bytes[buffer.len as usize..in_page as usize].fill(0xff);
        buffer.len = in_page;
        loop {
            let take = rest.len().min((page_bytes - buffer.len) as usize);
            let at = buffer.len as usize;
            buffer.bytes[at..at + take].copy_from_slice(&rest[..take]);
            buffer.len += take as u32;
            rest = &rest[take..];
            if buffer.len < page_bytes {
                break;
            }
            if let Err(error) = self.flash.program(cx, Peb(block), buffer.page, Payload::Bytes(&buffer.bytes)) {
                buffer.len = waited;
                return Err(error);
            }
            buffer.begin(buffer.page + page_bytes);
            pushed = true;
            waited = 0;
            if rest.is_empty() {
                break;
            }
        }
        if let (1.., Some(ino)) = (buffer.len, ino) {
            buffer.inodes.insert(ino);
            self.timer.get_or_insert(cx.now());
        }
        Ok(pushed)
    }

    /// Programs the page that waits, padded to its end. Returns its block and how many bytes of it are lost.
    /// Errors: the flash's; the page still waits.
    /// Source: Linux 6.12, `__jffs2_flush_wbuf`.
    pub fn flush(&mut self, cx: &mut Cx) -> Result<Option<(u32, u32)>, FlashError> {
        let page_bytes = self.geometry.page_bytes;
        let Some(buffer) = self.buffer.as_mut().filter(|buffer| buffer.len > 0) else { return Ok(None) };
        let len = padded(buffer.len);
        buffer.bytes[buffer.len as usize..len as usize].fill(0xff);
        let rest = &mut buffer.bytes[len as usize..];
        rest.fill(0);
        if rest.len() > HEADER_BYTES {
            let header = Header { node_type: node_type::PADDING, len: page_bytes - len };
            header.write(self.endian, rest);
        }
        let block = buffer.block;
        self.flash.program(cx, Peb(block), buffer.page, Payload::Bytes(&buffer.bytes))?;
        buffer.begin(buffer.page + page_bytes);
        Ok(Some((block, page_bytes - len)))
    }

    /// Empties the write buffer. `None`: nothing waits in it.
    pub fn withdraw(&mut self) -> Option<Withdrawn> {
        let buffer = self.buffer.as_mut().filter(|buffer| buffer.len > 0)?;
        let inodes = std::mem::take(&mut buffer.inodes);
        buffer.begin(buffer.page);
        Some(Withdrawn { inodes })
    }

    /// Clears the bit of a node's type that says that it is not obsolete. Only where bits may fall at any time.
    pub fn mark_obsolete(&mut self, cx: &mut Cx, block: u32, offset: u32) -> Result<(), FlashError> {
        let mut header = [0; HEADER_BYTES];
        self.read(cx, block, offset, &mut header)?;
        let Ok(found) = Header::read(self.endian, &header) else { return Ok(()) };
        let bytes = media::obsolete_type(self.endian, found.node_type);
        self.flash.program(cx, Peb(block), offset + 2, Payload::Bytes(&bytes))
    }

    /// Erases a block, looks whether it is erased, and writes its clean marker. False: it is not, or the part failed.
    pub fn erase(&mut self, cx: &mut Cx, block: u32) -> Result<bool, FlashError> {
        let failed = |error| match error {
            FlashError::EraseFailed { .. } | FlashError::ProgramFailed { .. } => Ok(false),
            other => Err(other),
        };
        if let Err(error) = self.flash.erase(cx, Peb(block)) {
            return failed(error);
        }
        debug_assert!(
            self.waiting_page().is_none_or(|(waits, _)| waits != block),
            "what waits goes to a block that is written"
        );
        let mut bytes = Vec::new();
        for at in (0..self.geometry.peb_bytes).step_by(media::PAGE_BYTES as usize) {
            let len = media::PAGE_BYTES.min(self.geometry.peb_bytes - at);
            let is_erased = match self.flash.reads_erased(cx, Peb(block), at, len, &mut bytes) {
                // As in `read`.
                Err(FlashError::Uncorrectable { .. }) => is_erased(&bytes),
                read => read?,
            };
            if !is_erased {
                return Ok(false);
            }
        }
        let written = match self.marker {
            Marker::None => Ok(()),
            Marker::InBlock => {
                let bytes = media::clean_marker(self.endian, false);
                self.flash.program(cx, Peb(block), 0, Payload::Bytes(&bytes))
            }
            Marker::InOob => {
                let mut oob = vec![0xff; self.marker_at()];
                oob.extend(media::clean_marker(self.endian, true));
                self.flash.program_oob(cx, Peb(block), 0, &oob)
            }
        };
        written.map(|()| true).or_else(failed)
    }

    /// Where Linux's drivers leave room in the out-of-band bytes: behind the mark of a bad block.
    fn marker_at(&self) -> usize {
        if self.geometry.page_bytes > 512 { 2 } else { 8 }
    }

    /// Whether a clean marker is in the out-of-band bytes of a block, wherever the driver put it.
    pub fn has_oob_marker(&mut self, cx: &mut Cx, block: u32) -> Result<bool, FlashError> {
        let mut bytes = vec![0; self.geometry.oob_bytes as usize];
        match self.flash.read_oob(cx, Peb(block), 0, &mut bytes) {
            Ok(()) | Err(FlashError::Uncorrectable { .. }) => {}
            Err(error) => return Err(error),
        }
        let marker = media::clean_marker(self.endian, true);
        Ok(bytes.windows(OOB_MARKER_BYTES).any(|window| window == marker))
    }

    /// Whether the first pages of a block have nothing out of band but, if it `has_marker`, a clean marker.
    /// Source: Linux 6.12, `jffs2_check_oob_empty`.
    pub fn has_empty_oob(&mut self, cx: &mut Cx, block: u32, has_marker: bool) -> Result<bool, FlashError> {
        let mut bytes = vec![0; self.geometry.oob_bytes as usize];
        let marker = media::clean_marker(self.endian, true);
        for page in 0..OOB_PAGES.min(self.geometry.peb_bytes / self.geometry.page_bytes) {
            match self.flash.read_oob(cx, Peb(block), page * self.geometry.page_bytes, &mut bytes) {
                Ok(()) | Err(FlashError::Uncorrectable { .. }) => {}
                Err(error) => return Err(error),
            }
            let at = bytes.windows(OOB_MARKER_BYTES).position(|window| window == marker);
            if let (0, true, Some(at)) = (page, has_marker, at) {
                bytes[at..at + OOB_MARKER_BYTES].fill(0xff);
            }
            if !is_erased(&bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn mark_bad(&mut self, cx: &mut Cx, block: u32) -> Result<(), FlashError> {
        self.flash.mark_bad(cx, Peb(block))
    }
}

impl Buffer {
    /// Nothing waits; the next page is the one at `page`.
    fn begin(&mut self, page: u32) {
        self.page = page;
        self.len = 0;
        self.inodes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::seam::RamFlash;

    const NAND: Geometry =
        Geometry { medium: Medium::Nand, pebs: 8, peb_bytes: 8192, page_bytes: 512, subpage_bytes: 512, oob_bytes: 16 };

    fn device() -> Device<RamFlash> {
        Device::new(RamFlash::new(NAND), Endian::Little)
    }

    fn read(device: &mut Device<RamFlash>, offset: u32, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        device.read(&mut Cx::new(), 0, offset, &mut bytes).expect("it is within the block");
        bytes
    }

    /// What garbage collection moves may wait for ever: it is on flash elsewhere too.
    #[test]
    fn a_timer_runs_from_the_first_call_that_leaves_something_in_the_buffer() {
        let (mut device, mut cx) = (device(), Cx::new());
        cx.idle_until(Ns(5));
        device.write(&mut cx, (0, 0), &[1; 100], None).expect("it fits");
        assert_eq!(
            (device.is_waiting(), device.waits(None), device.waits(Some(7)), device.timer()),
            (true, false, false, None)
        );
        device.flush(&mut cx).expect("there is power");
        cx.idle_until(Ns(10));
        device.write(&mut cx, (0, 512), &[2; 100], Some(7)).expect("it fits");
        cx.idle_until(Ns(15));
        device.write(&mut cx, (0, 612), &[2; 100], None).expect("it fits");
        assert_eq!((device.waits(None), device.waits(Some(7)), device.waits(Some(8))), (true, true, false));
        assert_eq!(device.timer(), Some(Ns(10)));
        // The page is full, and the timer runs on for the rest of the node.
        cx.idle_until(Ns(20));
        assert_eq!(device.write(&mut cx, (0, 712), &[3; 400], Some(8)), Ok(true));
        assert_eq!((device.waits(Some(7)), device.waits(Some(8)), device.timer()), (false, true, Some(Ns(10))));
        device.flush(&mut cx).expect("there is power");
        assert_eq!((device.is_waiting(), device.timer()), (false, Some(Ns(10))));
        // Another block, later.
        device.stop_timer();
        cx.idle_until(Ns(30));
        device.write(&mut cx, (1, 0), &[4; 8], Some(7)).expect("it fits");
        assert_eq!(device.timer(), Some(Ns(30)));
        // A node that ends with its page leaves nothing.
        device.stop_timer();
        assert_eq!(device.write(&mut cx, (1, 8), &[5; 504], Some(9)), Ok(true));
        assert_eq!(device.timer(), None);
    }

    /// The rest of a page is zeroes, and a node of type 0x2004 goes over it if there is more room than for its header.
    #[test]
    fn the_rest_of_a_page_is_a_padding_node_or_zeroes() {
        for (rest, has_node) in [(4, false), (12, false), (16, true), (412, true)] {
            let (mut device, mut cx) = (device(), Cx::new());
            let begin = 512 - rest;
            device.write(&mut cx, (0, 0), &vec![1; begin as usize - 1], None).expect("it fits");
            assert_eq!(device.flush(&mut cx), Ok(Some((0, rest))), "a node ends at a multiple of 4 bytes");
            let mut expected = vec![0; rest as usize];
            if has_node {
                expected[..4].copy_from_slice(&[0x85, 0x19, 0x04, 0x20]);
                expected[4..8].copy_from_slice(&rest.to_le_bytes());
                let sum = media::crc(&expected[..8]).to_le_bytes();
                expected[8..12].copy_from_slice(&sum);
            }
            assert_eq!(read(&mut device, begin, rest as usize), expected);
        }
    }

    /// A page that was full of other bytes is programmed again: between nodes, and before the end of the page, nothing of them is left.
    #[test]
    fn what_is_between_two_nodes_is_erased() {
        let (mut device, mut cx) = (device(), Cx::new());
        device.write(&mut cx, (0, 0), &[0x11; 512], None).expect("it fits");
        for (offset, len) in [(512, 101), (616, 102), (720, 303)] {
            device.write(&mut cx, (0, offset), &vec![0x22; len], None).expect("it fits");
        }
        // The last byte of the page belongs to no node. This one begins with the next page.
        device.write(&mut cx, (0, 1024), &[0x33; 201], None).expect("it fits");
        device.flush(&mut cx).expect("there is power");
        let found = read(&mut device, 512, 1024);
        let others: Vec<usize> = (0..716).filter(|&at| !matches!(found[at], 0x22 | 0x33)).collect();
        assert_eq!(others, [101, 102, 103, 206, 207, 511, 713, 714, 715]);
        assert!(others.iter().all(|&at| found[at] == 0xff));
    }

    /// The mark of a bad block is byte 5 of the out-of-band bytes of a page of 512, and bytes 0 and 1 of those of a larger one.
    #[test]
    fn a_clean_marker_is_behind_the_mark_of_a_bad_block() {
        for (page_bytes, at) in [(512, 8), (2048, 2)] {
            let flash = RamFlash::new(Geometry { page_bytes, subpage_bytes: page_bytes, ..NAND });
            let (mut device, mut cx) = (Device::new(flash, Endian::Little), Cx::new());
            assert_eq!(device.erase(&mut cx, 3), Ok(true));
            let mut oob = [0; 16];
            device.flash_mut().read_oob(&mut cx, Peb(3), 0, &mut oob).expect("it is there");
            let mut expected = [0xff; 16];
            expected[at..at + 8].copy_from_slice(&[0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0]);
            assert_eq!(oob, expected);
        }
    }
}
