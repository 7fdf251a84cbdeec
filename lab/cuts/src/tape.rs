//! A flash that records its last operation, so that a cut can report what it interrupted.

use std::fmt;
use std::sync::{Arc, Mutex};

use nand::{Array, ArrayConfig, Bytes, PowerCut, Store};
use sim::seam::{Flash, FlashError, Geometry, Payload, ReadStatus};
use sim::{Cause, Cx, Peb};
use ubi::media::{FM_DATA_VOLUME_ID, VidHdr};

/// A program or an erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlashOp {
    Program {
        peb: Peb,
        offset: u32,
        len: u32,
    },
    /// Out-of-band bytes alone, of the page at this offset.
    Oob {
        peb: Peb,
        offset: u32,
        len: u32,
    },
    Erase {
        peb: Peb,
    },
}

impl FlashOp {
    /// Name of the kind of operation.
    pub fn name(self) -> &'static str {
        match self {
            FlashOp::Program { .. } | FlashOp::Oob { .. } => "program",
            FlashOp::Erase { .. } => "erase",
        }
    }
}

impl fmt::Display for FlashOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlashOp::Program { peb, offset, len } => {
                write!(f, "program of {len} bytes in PEB {peb} at offset {offset}")
            }
            FlashOp::Oob { peb, offset, len } => {
                write!(f, "program of {len} bytes of OOB in PEB {peb} at offset {offset}")
            }
            FlashOp::Erase { peb } => write!(f, "erase of PEB {peb}"),
        }
    }
}

/// An array that keeps bytes, with the last operation that reached it; with `recording`, all of them.
#[derive(Clone, Debug)]
pub(super) struct Tape {
    pub array: Array<Bytes>,
    pub last: Option<FlashOp>,
    /// Why it was done.
    pub cause: Cause,
    pub recording: Option<Vec<FlashOp>>,
    /// If kept: each operation's number, as [`Array::ops`] counts, and why it was done.
    pub causes: Option<Vec<(u64, Cause)>>,
    /// By PEB: whether it held a data block of a UBI fastmap since the last call of [`Tape::holding_fastmap_data`].
    pub fastmap_data: Vec<bool>,
    /// By PEB: whether it was tortured: the count of erasures in memory follows only in the end.
    pub tortured: Vec<bool>,
    /// If kept: each operation, with the flash before it.
    pub film: Option<Vec<Frame>>,
    /// Gets the flash when power is lost, for a layer that does not give it back.
    pub black_box: Option<BlackBox>,
}

/// Gets what a flash was when power was lost.
#[derive(Clone, Debug)]
pub(super) struct BlackBox {
    /// The operation in which that will be, as [`Array::ops`] counts.
    pub at: u64,
    pub left: Arc<Mutex<Option<Box<Tape>>>>,
}

/// An operation, with the flash before it: what a power cut leaves of it does not need the layers above again.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub array: Array<Bytes>,
    pub op: FlashOp,
    cause: Cause,
    data: Vec<u8>,
}

impl Frame {
    /// The flash on which the operation is interrupted by `cut`, without power.
    ///
    /// A page of which no cell can be seen to have changed was not programmed: nobody can know, and UBIFS of Linux programs
    /// it. The cells may be worse than others; that is not modelled.
    pub fn cut(&self, cut: PowerCut, arm: impl FnOnce(&mut Tape)) -> Tape {
        let mut tape = Tape::of(self.array.clone());
        tape.array.set_power_cut(Some(cut));
        arm(&mut tape);
        let _ = Cx::new().because(self.cause, |cx| match self.op {
            FlashOp::Program { peb, offset, .. } => tape.program(cx, peb, offset, Payload::Bytes(&self.data)),
            FlashOp::Oob { peb, offset, .. } => tape.program_oob(cx, peb, offset, &self.data),
            FlashOp::Erase { peb } => tape.erase(cx, peb),
        });
        tape.forget_unseen(&self.array);
        tape
    }
}

/// Whether bytes are the VID header of a fastmap's data block.
fn is_fastmap_data(bytes: &[u8]) -> bool {
    bytes.starts_with(b"UBI!") && bytes[4..].get(4..8) == Some(&FM_DATA_VOLUME_ID.to_be_bytes())
}

impl Tape {
    pub fn new(config: &ArrayConfig, store: Bytes) -> Tape {
        Tape::of(Array::new(config.clone(), store))
    }

    fn of(array: Array<Bytes>) -> Tape {
        let fastmap_data = vec![false; array.geometry().pebs as usize];
        let tortured = fastmap_data.clone();
        Tape {
            array,
            last: None,
            cause: Cause::Host,
            recording: None,
            causes: None,
            fastmap_data,
            tortured,
            film: None,
            black_box: None,
        }
    }

    /// Films an operation that is about to reach the array.
    fn shoot(&mut self, cx: &Cx, op: FlashOp, data: Payload<'_>) {
        if let Some(film) = &mut self.film
            && self.array.is_powered()
        {
            let data = data.bytes().map_or(Vec::new(), <[u8]>::to_vec);
            film.push(Frame { array: self.array.clone(), op, cause: cx.cause(), data });
        }
    }

    /// The flash before the operation in which power will be lost.
    fn before_loss(&self) -> Option<Array<Bytes>> {
        let black_box = self.black_box.as_ref()?;
        (black_box.at == self.array.ops()).then(|| self.array.clone())
    }

    /// Keeps the flash if an operation has lost power.
    fn keep_if_lost(&mut self, done: &Result<(), FlashError>, before: Option<Array<Bytes>>) {
        if matches!(done, Err(FlashError::PowerLost))
            && let Some(black_box) = self.black_box.take()
        {
            let mut kept = Tape::of(self.array.clone());
            (kept.last, kept.cause) = (self.last, self.cause);
            if let Some(before) = before {
                kept.forget_unseen(&before);
            }
            *black_box.left.lock().expect("no holder of the lock panics") = Some(Box::new(kept));
        }
    }

    /// Takes back a program that was interrupted and left no trace in the cells.
    fn forget_unseen(&mut self, before: &Array<Bytes>) {
        let Some(FlashOp::Program { peb, offset, len }) = self.last.filter(|_| !self.array.is_powered()) else {
            return;
        };
        let mut cells = vec![0; len as usize];
        self.cells(peb, offset, &mut cells);
        if cells.iter().all(|&byte| byte == 0xff) {
            self.array = before.clone();
            self.array.power_off();
        }
    }

    /// Which PEBs hold a data block of a fastmap now; VID headers are at `vid_hdr_offset`.
    pub fn holding_fastmap_data(&mut self, vid_hdr_offset: u32) -> Vec<bool> {
        let mut hdr = [0; VidHdr::BYTES];
        let mut holds = |peb| {
            self.cells(Peb(peb), vid_hdr_offset, &mut hdr);
            is_fastmap_data(&hdr)
        };
        (0..self.fastmap_data.len() as u32).map(&mut holds).collect()
    }

    /// Memory in bytes of a clone that shares no block with others, with the layers above; at most, roughly.
    pub fn most_bytes(&self) -> usize {
        // State of a block in UBI's and the array's tables, or of its pages in an FTL's, which grow with its length.
        let state = 128 + self.geometry().peb_bytes as usize / 64;
        self.geometry().pebs as usize * (self.geometry().peb_bytes as usize + state)
    }

    /// Copies cells, as no operation does: past ECC and every fault, so that looking changes nothing.
    pub fn cells(&self, peb: Peb, offset: u32, buf: &mut [u8]) {
        self.array.store().read(peb, offset, buf);
    }

    /// Whether a PEB holds the same as on another flash of its shape, OOB too.
    pub fn holds_the_same(&self, other: &Tape, peb: Peb) -> bool {
        if self.array.store().shares(other.array.store(), peb) {
            return true;
        }
        let Geometry { peb_bytes, page_bytes, oob_bytes, .. } = *self.geometry();
        let all = |tape: &Tape| {
            let pages = if oob_bytes > 0 { peb_bytes / page_bytes } else { 0 };
            let mut bytes = vec![0xff; (peb_bytes + pages * oob_bytes) as usize];
            let (cells, oob) = bytes.split_at_mut(peb_bytes as usize);
            tape.cells(peb, 0, cells);
            for (page, oob) in (0..).zip(oob.chunks_mut(oob_bytes.max(1) as usize)) {
                tape.array.store().read_oob(peb, page, oob);
            }
            bytes
        };
        all(self) == all(other)
    }

    /// Notes an operation that is about to reach the array.
    pub fn note(&mut self, cx: &Cx, op: FlashOp) {
        if self.array.is_powered() {
            (self.last, self.cause) = (Some(op), cx.cause());
            if let Some(causes) = &mut self.causes {
                causes.push((self.array.ops(), cx.cause()));
            }
            if let Some(all) = &mut self.recording {
                all.push(op);
            }
        }
    }
}

impl Flash for Tape {
    const KEEPS_BYTES: bool = true;

    fn geometry(&self) -> &Geometry {
        self.array.geometry()
    }

    fn read(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<ReadStatus, FlashError> {
        self.array.read(cx, peb, offset, buf)
    }

    fn reads_erased(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        len: u32,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, FlashError> {
        self.array.reads_erased(cx, peb, offset, len, buffer)
    }

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.note(cx, FlashOp::Program { peb, offset, len: data.len() });
        if let Payload::Bytes(bytes) = data {
            self.fastmap_data[peb.at()] |= is_fastmap_data(bytes);
        }
        self.shoot(cx, FlashOp::Program { peb, offset, len: data.len() }, data);
        let before = self.before_loss();
        let done = self.array.program(cx, peb, offset, data);
        self.keep_if_lost(&done, before);
        done
    }

    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        self.note(cx, FlashOp::Program { peb, offset, len: data.len() });
        self.array.program_with_oob(cx, peb, offset, data, oob)
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        Flash::read_oob(&mut self.array, cx, peb, offset, buf)
    }

    fn program_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, oob: &[u8]) -> Result<(), FlashError> {
        let op = FlashOp::Oob { peb, offset, len: oob.len() as u32 };
        self.note(cx, op);
        self.shoot(cx, op, Payload::Bytes(oob));
        let done = Flash::program_oob(&mut self.array, cx, peb, offset, oob);
        self.keep_if_lost(&done, None);
        done
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.note(cx, FlashOp::Erase { peb });
        self.tortured[peb.at()] |= cx.cause() == Cause::Torture;
        self.shoot(cx, FlashOp::Erase { peb }, Payload::Length(0));
        let done = self.array.erase(cx, peb);
        self.keep_if_lost(&done, None);
        done
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.array.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.mark_bad(cx, peb)
    }
}

#[cfg(test)]
mod tests {
    use nand::{PrefixBytes, Tear};
    use sim::seam::Medium;
    use ubi::media::{FM_SB_VOLUME_ID, VolType};

    use super::*;

    fn tape() -> Tape {
        let (pebs, peb_bytes, page_bytes) = (8, 4096, 512);
        let geometry =
            Geometry { medium: Medium::Nand, pebs, peb_bytes, page_bytes, subpage_bytes: page_bytes, oob_bytes: 0 };
        Tape::new(&ArrayConfig::plain(geometry), Bytes::new())
    }

    /// Out-of-band bytes are an operation of their own, in the film and in the box, and are compared.
    #[test]
    fn oob_alone_is_filmed_and_torn() {
        let geometry = Geometry { oob_bytes: 16, ..*tape().geometry() };
        let mut tape = Tape::new(&ArrayConfig::plain(geometry), Bytes::with_oob());
        let (cx, before) = (&mut Cx::new(), tape.clone());
        tape.film = Some(Vec::new());
        cx.because(Cause::Gc, |cx| tape.program_oob(cx, Peb(1), 0, &[0x19, 0x85])).unwrap();
        let op = FlashOp::Oob { peb: Peb(1), offset: 0, len: 2 };
        assert_eq!((tape.last, tape.cause, tape.array.ops()), (Some(op), Cause::Gc, 1));
        assert_eq!(op.to_string(), "program of 2 bytes of OOB in PEB 1 at offset 0");
        let film = tape.film.take().unwrap();
        for (tear, is_done) in [(Tear::Clean, false), (Tear::Prefix(PrefixBytes::Exactly(2)), true)] {
            let left = film[0].cut(PowerCut::at_op(0, tear), |_| {});
            assert_eq!((left.array.is_powered(), left.last, left.cause), (false, Some(op), Cause::Gc));
            assert_eq!((left.holds_the_same(&tape, Peb(1)), left.holds_the_same(&before, Peb(1))), (is_done, !is_done));
        }
        assert!(tape.holds_the_same(&before, Peb(2)));
    }

    /// What excuses a counter that lags: a torture, or a data block of a fastmap.
    #[test]
    fn a_tape_knows_what_was_tortured_and_what_held_a_fastmap() {
        let (mut tape, cx) = (tape(), &mut Cx::new());
        tape.erase(cx, Peb(1)).unwrap();
        cx.because(Cause::Torture, |cx| tape.erase(cx, Peb(2))).unwrap();
        tape.erase(cx, Peb(2)).unwrap();
        let header = |first: &[u8], vol_id: u32| [first, &[0; 4], &vol_id.to_be_bytes(), &[0; 500]].concat();
        for (peb, magic, vol_id) in
            [(3, b"UBI!", FM_DATA_VOLUME_ID), (4, b"UBI!", FM_SB_VOLUME_ID), (5, b"UBI#", FM_DATA_VOLUME_ID)]
        {
            tape.program(cx, Peb(peb), 512, Payload::Bytes(&header(magic, vol_id))).unwrap();
        }
        let only = |at: usize| (0..8).map(|peb| peb == at).collect::<Vec<bool>>();
        assert_eq!((&tape.tortured, &tape.fastmap_data), (&only(2), &only(3)));
        assert_eq!(tape.holding_fastmap_data(512), only(3));
        tape.erase(cx, Peb(3)).unwrap();
        assert_eq!(tape.fastmap_data, only(3), "it held one");
        assert_eq!(tape.holding_fastmap_data(512), [false; 8]);
    }

    /// The black box gets the flash as the loss of power left it: with the operation that was interrupted, or, if no cell shows
    /// a trace of it, as if it had never begun.
    #[test]
    fn a_black_box_holds_what_the_loss_of_power_left() {
        let unseen = Tear::Prefix(PrefixBytes::Exactly(0));
        for (tear, leaves_a_trace) in [(Tear::Clean, false), (unseen, false), (Tear::RandomBits, true)] {
            let (mut tape, cx) = (tape(), &mut Cx::new());
            let page = Payload::Bytes(&[0x0f; 512]);
            let left = Arc::new(Mutex::new(None));
            tape.program(cx, Peb(1), 0, page).unwrap();
            // ECC would notice even a tear of which no cell shows a trace.
            tape.array.set_power_cut(Some(PowerCut::at_op(tape.array.ops() + 1, tear).seen_by_ecc()));
            tape.black_box = Some(BlackBox { at: tape.array.ops() + 1, left: left.clone() });
            cx.because(Cause::Gc, |cx| tape.program(cx, Peb(1), 512, page)).unwrap();
            assert!(left.lock().unwrap().is_none(), "power is there");
            let lost = cx.because(Cause::WearLevel, |cx| tape.program(cx, Peb(1), 1024, page));
            assert_eq!(lost, Err(FlashError::PowerLost));
            let kept: Tape = *left.lock().unwrap().take().expect("power is lost");
            assert_eq!(kept.last, Some(FlashOp::Program { peb: Peb(1), offset: 1024, len: 512 }));
            assert_eq!((kept.cause, kept.array.is_powered()), (Cause::WearLevel, false));
            let mut cells = [0; 512];
            kept.cells(Peb(1), 1024, &mut cells);
            assert_eq!(cells != [0xff; 512], leaves_a_trace, "{tear:?}");
            // A page without a trace can be programmed: it was not.
            let mut kept = kept;
            kept.array.set_power_cut(None);
            kept.array.power_on();
            assert_eq!(kept.program(cx, Peb(1), 1024, page).is_ok(), !leaves_a_trace, "{tear:?}");
        }
    }

    /// By the format, `vol_id` is at byte 8 of the VID header, behind magic number, version, type, flags.
    #[test]
    fn only_the_header_of_a_fastmap_s_data_block_is_taken_for_one() {
        let hdr = |vol_id, lnum| {
            let vol_type = VolType::Dynamic;
            let (copy_flag, compat, data_size, used_ebs, data_pad, data_crc) = (false, 1, 0, 0, 0, 0);
            VidHdr { vol_type, copy_flag, compat, vol_id, lnum, data_size, used_ebs, data_pad, data_crc, sqnum: 9 }
                .encode()
        };
        assert!(is_fastmap_data(&hdr(FM_DATA_VOLUME_ID, 1)));
        for other in [hdr(FM_SB_VOLUME_ID, 0), hdr(0, FM_DATA_VOLUME_ID), hdr(FM_DATA_VOLUME_ID + 1, 1)] {
            assert!(!is_fastmap_data(&other));
        }
        let mut no_header = hdr(FM_DATA_VOLUME_ID, 1);
        no_header[3] = b'#';
        assert!(!is_fastmap_data(&no_header) && !is_fastmap_data(b"UBI!"));
    }
}
