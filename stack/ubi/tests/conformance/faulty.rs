//! Flash whose faults are set while it runs.

use std::collections::{BTreeMap, BTreeSet};

use sim::seam::{Flash, FlashError, Geometry, Payload, RamFlash, ReadStatus};
use sim::{Cx, Peb};
use ubi::layout::Layout;
use ubi::media::{FM_SB_VOLUME_ID, VidHdr};

/// A byte that reads wrong while a block is tortured.
#[derive(Clone, Copy, Debug)]
pub struct Wrong {
    pub peb: u32,
    pub offset: u32,
    /// Number of patterns with which the block is full by then.
    pub patterns: usize,
    /// Whether it is read behind an erase, and not behind a program.
    pub erased: bool,
}

/// RAM flash with faults on demand.
#[derive(Clone)]
pub struct Faulty {
    ram: RamFlash,
    /// Blocks whose reads need correction until they are erased.
    pub tired: BTreeSet<u32>,
    /// Blocks that are unreadable from this offset on, until they are erased.
    pub unreadable: BTreeSet<u32>,
    unreadable_from: u32,
    /// Blocks whose programs all fail.
    pub unwritable: BTreeSet<u32>,
    /// Blocks whose erases all fail.
    pub unerasable: BTreeSet<u32>,
    /// Every block written from now on is tired.
    pub ages_at_once: bool,
    /// Programs that will fail, counted from the first.
    pub failing_programs: BTreeSet<u64>,
    /// Programs done.
    pub programs: u64,
    /// Erases that will fail, counted from the first.
    pub failing_erases: BTreeSet<u64>,
    /// Erases done.
    pub erases: u64,
    /// Programs and erases until power fails.
    pub ops_left: u64,
    /// Whether reads count among these.
    pub reads_count: bool,
    /// Whether an operation was refused for want of power.
    pub was_lost: bool,
    /// Marking a block bad fails, as if the bad-block table could not be written.
    pub cannot_mark: bool,
    /// Blocks of which a read needed correction since their last erase.
    pub corrected: BTreeSet<u32>,
    /// Blocks of which a program failed since they were tortured.
    pub suspects: BTreeSet<u32>,
    /// Bytes with which a whole block was filled since it was last given to somebody.
    filled: BTreeMap<u32, Vec<u8>>,
    /// A byte that reads wrong.
    pub wrong: Option<Wrong>,
    /// Whether a block was programmed since its erase.
    programmed: BTreeSet<u32>,
    /// The program that the flash will refuse, counted from the first.
    pub refused_program: Option<u64>,
    /// Super blocks of fastmaps that were erased while there was an older one.
    pub out_of_order: Vec<String>,
    /// Blocks given to somebody again that were suspect and not tortured, or tortured without being suspect.
    pub breaches: Vec<String>,
}

impl Faulty {
    pub fn new(geometry: Geometry) -> Faulty {
        Faulty {
            ram: RamFlash::new(geometry),
            tired: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            unreadable_from: 2 * geometry.page_bytes,
            unwritable: BTreeSet::new(),
            unerasable: BTreeSet::new(),
            ages_at_once: false,
            failing_programs: BTreeSet::new(),
            programs: 0,
            failing_erases: BTreeSet::new(),
            erases: 0,
            ops_left: u64::MAX,
            reads_count: false,
            was_lost: false,
            cannot_mark: false,
            corrected: BTreeSet::new(),
            suspects: BTreeSet::new(),
            filled: BTreeMap::new(),
            wrong: None,
            programmed: BTreeSet::new(),
            refused_program: None,
            out_of_order: Vec::new(),
            breaches: Vec::new(),
        }
    }

    /// Keeps account of suspect blocks: a program at offset 0 of less than a block is an EC header, which gives the
    /// block to somebody.
    fn account(&mut self, peb: Peb, offset: u32, data: Payload<'_>) {
        if offset > 0 {
            return;
        }
        if data.len() == self.geometry().peb_bytes {
            let byte = data.bytes().map_or(0, |bytes| bytes[0]);
            // A whole block of various bytes is a test's, which writes past UBI.
            if data.bytes().is_some_and(|bytes| bytes.iter().any(|&other| other != byte)) {
                return;
            }
            self.filled.entry(peb.0).or_default().push(byte);
            return;
        }
        let filled = self.filled.remove(&peb.0).unwrap_or_default();
        let expected: &[u8] = if self.suspects.remove(&peb.0) { &[0xa5, 0x5a, 0] } else { &[] };
        if filled != expected {
            self.breaches.push(format!("PEB {peb} was filled with {filled:x?}, expected {expected:x?}"));
        }
    }

    /// The super blocks of fastmaps among the first 64 blocks, by sequence number.
    pub fn super_blocks(&self) -> Vec<(u64, u32)> {
        let mut ram = self.ram.clone();
        let at = Layout::new(self.geometry(), None).expect("UBI fits").vid_hdr_offset;
        let hdr = |peb: u32| {
            let mut bytes = [0; VidHdr::BYTES];
            ram.read(&mut Cx::new(), Peb(peb), at, &mut bytes).ok()?;
            let hdr = VidHdr::decode(&bytes).ok()?;
            (hdr.vol_id == FM_SB_VOLUME_ID).then_some((hdr.sqnum, peb))
        };
        (0..64).filter_map(hdr).collect()
    }

    /// Whether a block holds nothing but an EC header.
    pub fn is_blank(&self, peb: u32) -> bool {
        let mut bytes = vec![0; self.geometry().peb_bytes as usize];
        let read = self.ram.clone().read(&mut Cx::new(), Peb(peb), 0, &mut bytes);
        read.is_ok()
            && bytes.starts_with(b"UBI#")
            && bytes[self.geometry().page_bytes as usize..].iter().all(|&b| b == 0xff)
    }

    /// The next `count` programs fail.
    pub fn fail_programs(&mut self, count: u64) {
        self.failing_programs.extend(self.programs..self.programs + count);
    }

    fn operate(&mut self) -> Result<(), FlashError> {
        match self.ops_left.checked_sub(1) {
            Some(left) => self.ops_left = left,
            None => {
                self.was_lost = true;
                return Err(FlashError::PowerLost);
            }
        }
        Ok(())
    }

    /// Power returns.
    pub fn restore(mut self) -> Faulty {
        (self.ops_left, self.was_lost, self.reads_count) = (u64::MAX, false, false);
        self
    }
}

impl Flash for Faulty {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.ram.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        if self.reads_count {
            self.operate()?;
        }
        let mut status = self.ram.read(cx, peb, offset, buf)?;
        if self.unreadable.contains(&peb.0) && offset >= self.unreadable_from {
            return Err(FlashError::Uncorrectable { peb, offset });
        }
        if let Some(wrong) = self.wrong
            && (wrong.peb, wrong.erased) == (peb.0, !self.programmed.contains(&peb.0))
            && self.filled.get(&peb.0).map_or(0, Vec::len) == wrong.patterns
            && let Some(byte) = wrong.offset.checked_sub(offset).and_then(|at| buf.get_mut(at as usize))
        {
            *byte ^= 0x10;
        }
        status.scrub = self.tired.contains(&peb.0);
        if status.scrub {
            self.corrected.insert(peb.0);
        }
        Ok(status)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.operate()?;
        if self.refused_program == Some(self.programs) {
            self.refused_program = None;
            return Err(FlashError::BadBlock { peb });
        }
        self.ram.program(cx, peb, offset, data)?;
        self.programmed.insert(peb.0);
        if self.ages_at_once && offset >= self.unreadable_from {
            self.tired.insert(peb.0);
        }
        self.account(peb, offset, data);
        self.programs += 1;
        if self.unwritable.contains(&peb.0) || self.failing_programs.remove(&(self.programs - 1)) {
            self.suspects.insert(peb.0);
            return Err(FlashError::ProgramFailed { peb, offset });
        }
        Ok(())
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.operate()?;
        let anchors = if peb.0 < 64 { self.super_blocks() } else { Vec::new() };
        if let Some(&(own, _)) = anchors.iter().find(|&&(_, at)| at == peb.0)
            && let Some((older, at)) = anchors.iter().find(|&&(sqnum, _)| sqnum < own)
        {
            self.out_of_order.push(format!("super block {own} in PEB {peb} before {older} in PEB {at}"));
        }
        self.ram.erase(cx, peb)?;
        self.programmed.remove(&peb.0);
        self.tired.remove(&peb.0);
        self.corrected.remove(&peb.0);
        self.unreadable.remove(&peb.0);
        self.erases += 1;
        if self.unerasable.contains(&peb.0) || self.failing_erases.remove(&(self.erases - 1)) {
            return Err(FlashError::EraseFailed { peb });
        }
        Ok(())
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.ram.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.operate()?;
        if self.cannot_mark {
            return Err(FlashError::EraseFailed { peb });
        }
        self.ram.mark_bad(cx, peb)
    }
}
