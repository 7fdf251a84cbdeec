//! Space of the main area, filled LEB by LEB, node by node.

use sim::Lnum;

use super::Sink;
use crate::ubifs::media::lpt::LebProps;
use crate::ubifs::media::{Branch, Key, SuperBlock, aligned, pad};

/// The LEB that is being filled, and the properties of those that are full.
pub struct Space<'a, E> {
    sink: Sink<'a, E>,
    leb_bytes: usize,
    min_io_bytes: usize,
    main_first: u32,
    /// LEBs from here on do not exist: what would be in them is counted, not written.
    end: u32,
    /// By order of writing.
    props: Vec<LebProps>,
    is_first_mount: bool,
    leb: Vec<u8>,
    is_index: bool,
    sqnum: u64,
    digest: u128,
}

impl<'a, E> Space<'a, E> {
    /// The empty main area of a file system.
    pub fn new(sb: &SuperBlock, is_first_mount: bool, sink: Sink<'a, E>) -> Space<'a, E> {
        Space {
            sink,
            leb_bytes: sb.leb_bytes as usize,
            min_io_bytes: sb.min_io_bytes as usize,
            main_first: sb.main_first(),
            end: sb.max_lebs,
            props: Vec::new(),
            is_first_mount,
            leb: Vec::with_capacity(sb.leb_bytes as usize),
            is_index: false,
            sqnum: 0,
            digest: 0,
        }
    }

    /// The next sequence number.
    pub fn next_sqnum(&mut self) -> u64 {
        self.sqnum += 1;
        self.sqnum
    }

    /// Place in the main area of the LEB that is filled after `before` others. Linux's first mount has that of the index, which is the third
    /// here, before the one of leaves and the one for garbage collection.
    fn place(&self, before: usize) -> usize {
        if self.is_first_mount && before < 3 { (before + 1) % 3 } else { before }
    }

    /// The LEB that is being filled.
    fn lnum(&self) -> u32 {
        self.main_first + u32::try_from(self.place(self.props.len())).expect("LEBs are numbered in 32 bits")
    }

    /// Puts a node of `len` bytes where there is room. `build` gets its bytes, which are zero, and its sequence number.
    pub fn node(&mut self, key: Key, len: usize, build: impl FnOnce(&mut [u8], u64)) -> Result<Branch, E> {
        if self.leb.len().next_multiple_of(8) + len > self.leb_bytes {
            self.close()?;
        }
        let at = self.leb.len().next_multiple_of(8);
        // As mkfs.ubifs leaves what is between nodes.
        self.leb.resize(at, 0xff);
        self.leb.resize(at + len, 0);
        let sqnum = self.next_sqnum();
        let node = &mut self.leb[at..];
        build(node, sqnum);
        self.digest = digest(self.digest, &node[4..8]);
        Ok(Branch { key, lnum: self.lnum(), offset: narrow(at), len: narrow(len) })
    }

    /// Writes out the LEB, if anything is in it, and begins the next one.
    fn close(&mut self) -> Result<(), E> {
        if self.leb.is_empty() {
            return Ok(());
        }
        let used = aligned(narrow(self.leb.len()));
        let end = (used as usize).next_multiple_of(self.min_io_bytes);
        self.leb.resize(used as usize, 0xff);
        self.leb.resize(end, 0);
        pad(&mut self.leb[used as usize..]);
        let lnum = self.lnum();
        if lnum < self.end {
            (self.sink)(Lnum(lnum), &self.leb)?;
        }
        let (free, dirty) = (narrow(self.leb_bytes - end), narrow(end) - used);
        self.props.push(LebProps { free, dirty, is_index: self.is_index });
        self.leb.clear();
        Ok(())
    }

    /// Ends the LEBs of leaves, leaves one empty for garbage collection, whose number is returned, and goes on with
    /// those of the index.
    pub fn begin_index(&mut self) -> Result<u32, E> {
        self.close()?;
        let gc_lnum = self.lnum();
        self.props.push(LebProps { free: narrow(self.leb_bytes), ..LebProps::default() });
        self.is_index = true;
        Ok(gc_lnum)
    }

    /// Ends the index. Returns where the next index node would be.
    pub fn end(&mut self) -> Result<(u32, u32), E> {
        let lnum = self.lnum();
        self.close()?;
        let last = self.props.last().expect("the index has a LEB");
        Ok((lnum, narrow(self.leb_bytes) - last.free))
    }

    /// Properties of the LEBs, by place. All were filled.
    pub fn props(&self) -> Vec<LebProps> {
        let mut props = self.props.clone();
        for (before, leb) in self.props.iter().enumerate() {
            props[self.place(before)] = *leb;
        }
        props
    }

    /// A number that depends on every node.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Writes a LEB of another area.
    pub fn put(&mut self, lnum: u32, bytes: &[u8]) -> Result<(), E> {
        (self.sink)(Lnum(lnum), bytes)
    }
}

/// FNV-1a of 128 bits, a step for each word.
pub fn digest(state: u128, bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.chunks(4).fold(state, |state, word| {
        let mut four = [0; 4];
        four[..word.len()].copy_from_slice(word);
        (state ^ u128::from(u32::from_le_bytes(four))).wrapping_mul(PRIME)
    })
}

/// A length or offset in a LEB.
fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a LEB is smaller")
}
