//! Flash that remembers what was last asked of it, so that a cut can say what it hit.

use std::fmt;

use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{Flash, FlashError, Geometry, Payload, ReadStatus};
use sim::{Cx, Peb};

/// A program or an erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlashOp {
    Program { peb: Peb, offset: u32, len: u32 },
    Erase { peb: Peb },
}

impl fmt::Display for FlashOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlashOp::Program { peb, offset, len } => {
                write!(f, "program of {len} bytes in PEB {peb} at offset {offset}")
            }
            FlashOp::Erase { peb } => write!(f, "erase of PEB {peb}"),
        }
    }
}

/// An array that keeps bytes, and the last operation that reached it; all of them while `recording`.
#[derive(Clone, Debug)]
pub(super) struct Tape {
    pub array: Array<Bytes>,
    pub last: Option<FlashOp>,
    pub recording: Option<Vec<FlashOp>>,
}

impl Tape {
    pub fn new(config: &ArrayConfig, store: Bytes) -> Tape {
        Tape { array: Array::new(config.clone(), store), last: None, recording: None }
    }

    fn note(&mut self, op: FlashOp) {
        if self.array.is_powered() {
            self.last = Some(op);
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

    fn program(&mut self, cx: &mut Cx, peb: Peb, offset: u32, data: Payload<'_>) -> Result<(), FlashError> {
        self.note(FlashOp::Program { peb, offset, len: data.len() });
        self.array.program(cx, peb, offset, data)
    }

    fn program_with_oob(
        &mut self,
        cx: &mut Cx,
        peb: Peb,
        offset: u32,
        data: Payload<'_>,
        oob: &[u8],
    ) -> Result<(), FlashError> {
        self.note(FlashOp::Program { peb, offset, len: data.len() });
        self.array.program_with_oob(cx, peb, offset, data, oob)
    }

    fn read_oob(&mut self, cx: &mut Cx, peb: Peb, offset: u32, buf: &mut [u8]) -> Result<(), FlashError> {
        Flash::read_oob(&mut self.array, cx, peb, offset, buf)
    }

    fn erase(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.note(FlashOp::Erase { peb });
        self.array.erase(cx, peb)
    }

    fn is_bad(&self, peb: Peb) -> bool {
        self.array.is_bad(peb)
    }

    fn mark_bad(&mut self, cx: &mut Cx, peb: Peb) -> Result<(), FlashError> {
        self.array.mark_bad(cx, peb)
    }
}
