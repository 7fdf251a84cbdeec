//! A guest's device that loses power: a drive, a ubiblock, or raw flash.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use guest::protocol::{Request, Status};
use guest::{BlockShape, FlashCall, FlashDone, FlashShape};
use nand::Bytes;
use runner::run::guest::{block_shape, block_status, contents, dump, flash_shape, flash_status, operate};
use runner::subject::{RawFlash, Ubiblock};
use sim::seam::{BlockDevice, BlockDone, BlockOp, Flash, Medium, Payload};
use sim::{Cx, Ns, Peb};

use super::held::{self, Held};
use crate::check::{Broken, Check, verdict};
use crate::engine::Attempt;
use crate::rules::Rules;
use crate::ssd::SsdPlan;
use crate::ssd::drive::{self, Drive, Layer, Wear};
use crate::ssd::known::Known;
use crate::tape::{FlashOp, Tape};
use crate::ubiblock::{self, Device as OnTape};

/// A call of the guest to its device, which can be made again. Ranges are places in the recorded bytes.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Submit { request: Request, data: Range<usize> },
    NextDone { until: Ns },
    Read { now: Ns, address: u64, bytes: usize, oob_at: u32, oob: usize },
    Program { now: Ns, address: u64, data: Range<usize>, oob_at: u32, oob: Range<usize> },
    Erase { now: Ns, address: u64 },
    MarkBad { now: Ns, address: u64 },
}

impl Call {
    /// Describes the call; `None` for one that only waits or reads raw flash.
    pub fn described(&self) -> Option<String> {
        Some(match self {
            Call::NextDone { .. } | Call::Read { .. } => return None,
            Call::Submit { request, .. } => {
                let process = String::from_utf8_lossy(request.process()).into_owned();
                let what = match request.request.op {
                    BlockOp::Flush => "flush".to_owned(),
                    op => {
                        let fua = if request.request.fua { ", FUA" } else { "" };
                        let zeroes = if request.zeroes { " of zeroes" } else { "" };
                        let sectors = request.request.sectors;
                        format!("{}{zeroes} {sectors} sectors at {}{fua}", op.name(), request.request.sector)
                    }
                };
                format!("{} ns: {what} by {process}", request.at.0)
            }
            Call::Program { now, address, data, .. } => {
                format!("{} ns: program of {} bytes at {address}", now.0, data.len())
            }
            Call::Erase { now, address } => format!("{} ns: erase at {address}", now.0),
            Call::MarkBad { now, address } => format!("{} ns: mark bad at {address}", now.0),
        })
    }
}

/// A device under a guest. What a kind of device does not do has a default.
pub(super) trait Device: Clone + Send + Sync + 'static {
    /// As the guest sees it.
    fn shapes(&self) -> (Option<BlockShape>, Option<FlashShape>);
    /// The flash at its end.
    fn tape(&self) -> &Tape;
    fn tape_mut(&mut self) -> &mut Tape;

    fn submit(&mut self, _request: &Request, _data: &[u8]) -> Result<(), Status> {
        Err(Status::Error)
    }

    fn next_done(&mut self, _until: Ns) -> Option<(u32, Ns, Status)> {
        None
    }

    fn take(&mut self, _tag: u32, _data: &mut [u8]) {}

    fn flash(&mut self, now: Ns, _address: u64, _call: FlashCall<'_>) -> FlashDone {
        FlashDone { at: now, status: Status::Error, corrected: 0 }
    }

    fn is_bad(&self, _address: u64) -> bool {
        false
    }

    /// Runs to `until` or to the power cut, from one event of the flash to the next, so that operations are under way
    /// when power fails.
    fn run(&mut self, _until: Ns) {}

    /// Restores power after a cut. Errors: promises of the device that are broken.
    fn power_on(self, rules: &Rules, attempt: &mut Attempt<'_>) -> Result<Self, Broken>;

    /// Checks what the device promises of itself. Errors: promises that are broken.
    fn check(&self) -> Result<(), Broken> {
        Ok(())
    }

    /// Makes a call again.
    fn again(&mut self, call: &Call, bytes: &[u8]) {
        match call {
            Call::Submit { request, data } => drop(self.submit(request, &bytes[data.clone()])),
            Call::NextDone { until } => drop(self.next_done(*until)),
            Call::Read { now, address, bytes, oob_at, oob } => {
                let (mut data, mut spare) = (vec![0; *bytes], vec![0; *oob]);
                self.flash(*now, *address, FlashCall::Read { data: &mut data, oob_at: *oob_at, oob: &mut spare });
            }
            Call::Program { now, address, data, oob_at, oob } => {
                let (data, oob) = (&bytes[data.clone()], &bytes[oob.clone()]);
                self.flash(*now, *address, FlashCall::Program { data, oob_at: *oob_at, oob });
            }
            Call::Erase { now, address } => drop(self.flash(*now, *address, FlashCall::Erase)),
            Call::MarkBad { now, address } => drop(self.flash(*now, *address, FlashCall::MarkBad)),
        }
    }

    /// Whether its flash has power.
    fn is_powered(&self) -> bool {
        self.tape().array.is_powered()
    }
}

/// A drive.
#[derive(Clone)]
pub(super) struct Block<M> {
    drive: Drive<M>,
    plan: Arc<SsdPlan>,
    zeroes: Vec<u8>,
    /// Completions that were met on the way to a submission.
    met: VecDeque<BlockDone>,
}

impl<M: Layer> Block<M> {
    /// Errors: the drive refuses its configuration.
    pub fn fresh(plan: SsdPlan) -> Result<Block<M>, String> {
        let drive = drive::fresh(&plan)?;
        Ok(Block { drive, plan: Arc::new(plan), zeroes: Vec::new(), met: VecDeque::new() })
    }
}

impl<M: Layer> Device for Block<M> {
    fn shapes(&self) -> (Option<BlockShape>, Option<FlashShape>) {
        (Some(block_shape(&self.plan.drive.facts(), &self.drive)), None)
    }

    fn tape(&self) -> &Tape {
        self.drive.device().dispatcher().cells().flash()
    }

    fn tape_mut(&mut self) -> &mut Tape {
        self.drive.device_mut().flash_mut()
    }

    fn submit(&mut self, request: &Request, data: &[u8]) -> Result<(), Status> {
        submit_to(&mut self.drive, &mut self.met, &mut self.zeroes, request, data)
    }

    fn next_done(&mut self, until: Ns) -> Option<(u32, Ns, Status)> {
        next_of(&mut self.drive, &mut self.met, until)
    }

    fn take(&mut self, tag: u32, data: &mut [u8]) {
        self.drive.take(tag, data);
    }

    fn run(&mut self, until: Ns) {
        loop {
            let next = self.drive.device().dispatcher().next_time();
            if self.drive.next_done(next.map_or(until, |next| next.min(until))).is_some() {
                continue;
            }
            if self.drive.device().dispatcher().power_lost() || next.is_none_or(|next| next > until) {
                return;
            }
        }
    }

    fn power_on(mut self, rules: &Rules, attempt: &mut Attempt<'_>) -> Result<Block<M>, Broken> {
        drive::tear_other_dies(rules, &mut self.drive, attempt);
        let wear = Wear::of(&self.drive);
        let tape: Tape = self.drive.into_device().into_dispatcher().into_parts().0.into_flash();
        let (drive, recovered) = drive::bring_up(&self.plan, tape, &wear, &Known::default())?;
        attempt.story.tell(|| drive::described(&recovered));
        attempt.left(|keep| drive::contents(&drive, keep))?;
        Ok(Block { drive, plan: self.plan, zeroes: self.zeroes, met: VecDeque::new() })
    }

    fn check(&self) -> Result<(), Broken> {
        let mut broken = Broken::new();
        drive::whole(&self.plan, &self.drive, &mut broken);
        verdict(broken)
    }
}

/// A ubiblock.
#[derive(Clone)]
pub(super) struct OnVolume {
    device: OnTape,
    subject: Arc<Ubiblock>,
    zeroes: Vec<u8>,
    /// Completions that were met on the way to a submission.
    met: VecDeque<BlockDone>,
}

impl OnVolume {
    /// Errors: UBI refuses the flash.
    pub fn fresh(subject: Ubiblock) -> Result<OnVolume, String> {
        let device = ubiblock::fresh(&subject)?;
        Ok(OnVolume { device, subject: Arc::new(subject), zeroes: Vec::new(), met: VecDeque::new() })
    }
}

impl Device for OnVolume {
    fn shapes(&self) -> (Option<BlockShape>, Option<FlashShape>) {
        (Some(block_shape(&self.subject.facts(), &self.device)), None)
    }

    fn tape(&self) -> &Tape {
        self.device.volume().ubi().flash()
    }

    fn tape_mut(&mut self) -> &mut Tape {
        self.device.volume_mut().flash_mut()
    }

    fn submit(&mut self, request: &Request, data: &[u8]) -> Result<(), Status> {
        submit_to(&mut self.device, &mut self.met, &mut self.zeroes, request, data)
    }

    fn next_done(&mut self, until: Ns) -> Option<(u32, Ns, Status)> {
        next_of(&mut self.device, &mut self.met, until)
    }

    fn take(&mut self, tag: u32, data: &mut [u8]) {
        self.device.take(tag, data);
    }

    fn run(&mut self, until: Ns) {
        while self.device.next_done(until).is_some() {}
    }

    fn power_on(self, _: &Rules, attempt: &mut Attempt<'_>) -> Result<OnVolume, Broken> {
        let in_memory = self.device.dirty_lebs();
        let device = ubiblock::bring_up(&self.subject, self.device)?;
        attempt.story.tell(|| format!("power on: UBI attaches; {in_memory} dirty LEBs were in memory"));
        attempt.left(|keep| {
            let mut copy = device.clone();
            let at = copy.now();
            contents(&mut copy, at, keep).map_err(|error| vec![Check::Works.broken(error.to_string())])
        })?;
        Ok(OnVolume { device, subject: self.subject, zeroes: self.zeroes, met: VecDeque::new() })
    }

    fn check(&self) -> Result<(), Broken> {
        ubiblock::whole(&self.device)
    }
}

/// Submits a request of the guest, after what the device does of itself up to then: nobody asked while no request was
/// outstanding.
fn submit_to<D: BlockDevice>(
    device: &mut D,
    met: &mut VecDeque<BlockDone>,
    zeroes: &mut Vec<u8>,
    request: &Request,
    data: &[u8],
) -> Result<(), Status> {
    met.extend(std::iter::from_fn(|| device.next_done(request.at)));
    let payload = match request.request.op {
        BlockOp::Write if request.zeroes => {
            zeroes.resize(request.request.bytes() as usize, 0);
            Payload::Bytes(zeroes)
        }
        BlockOp::Write => Payload::Bytes(data),
        _ => Payload::Length(0),
    };
    device.submit(request.at, request.tag, request.request, payload).map_err(|error| block_status(&error))
}

/// The next completion of a request of the guest.
fn next_of<D: BlockDevice>(device: &mut D, met: &mut VecDeque<BlockDone>, until: Ns) -> Option<(u32, Ns, Status)> {
    let done = met.pop_front().or_else(|| device.next_done(until))?;
    Some((done.tag, done.at, done.result.as_ref().map_or_else(block_status, |()| Status::Ok)))
}

/// Raw flash.
#[derive(Clone)]
pub(super) struct Raw {
    tape: Tape,
    flash: Arc<RawFlash>,
    /// Of the twin that answers a program at once.
    held: Option<Held>,
}

impl Raw {
    /// `at_once`: programs are answered at once and held in a volatile buffer.
    pub fn fresh(flash: RawFlash, at_once: bool) -> Raw {
        let store = if flash.array.geometry.medium == Medium::Nand { Bytes::with_oob() } else { Bytes::new() };
        Raw { tape: Tape::new(&flash.array, store), flash: Arc::new(flash), held: at_once.then(Held::default) }
    }

    /// Does a call on the cells.
    fn do_now(&mut self, now: Ns, address: u64, call: FlashCall<'_>) -> FlashDone {
        let peb_bytes = u64::from(self.tape.geometry().peb_bytes);
        let (peb, offset) = (Peb((address / peb_bytes) as u32), (address % peb_bytes) as u32);
        match &call {
            FlashCall::Program { data: [], oob, .. } => {
                self.tape.note(&Cx::new(), FlashOp::Oob { peb, offset, len: oob.len() as u32 });
            }
            FlashCall::Program { data, .. } => {
                self.tape.note(&Cx::new(), FlashOp::Program { peb, offset, len: data.len() as u32 });
            }
            FlashCall::Erase => self.tape.note(&Cx::new(), FlashOp::Erase { peb }),
            FlashCall::Read { .. } | FlashCall::MarkBad => {}
        }
        let mut cx = Cx::new();
        cx.wait_until(now);
        let (status, corrected) = flash_status(&operate(&mut self.tape.array, &mut cx, address, call));
        FlashDone { at: cx.now(), status, corrected }
    }

    /// Does the programs that `next` takes out of the buffer, one by one. Returns when the last one ends.
    fn do_held(&mut self, mut now: Ns, mut next: impl FnMut(&mut Held) -> Option<held::Program>) -> Ns {
        while let Some(program) = self.held.as_mut().and_then(&mut next) {
            now = self.do_now(now, program.address, program.call()).at;
        }
        now
    }
}

impl Device for Raw {
    fn shapes(&self) -> (Option<BlockShape>, Option<FlashShape>) {
        (None, Some(flash_shape(&self.flash)))
    }

    fn tape(&self) -> &Tape {
        &self.tape
    }

    fn tape_mut(&mut self) -> &mut Tape {
        &mut self.tape
    }

    fn flash(&mut self, now: Ns, address: u64, call: FlashCall<'_>) -> FlashDone {
        let Some(held) = &mut self.held else { return self.do_now(now, address, call) };
        match call {
            FlashCall::Program { data, oob_at, oob } => {
                held.hold(address, data, oob_at, oob);
                FlashDone { at: self.do_held(now, Held::too_much), status: Status::Ok, corrected: 0 }
            }
            FlashCall::Read { data, oob_at, oob } => {
                let read = FlashCall::Read { data: &mut *data, oob_at, oob: &mut *oob };
                let done = self.do_now(now, address, read);
                let page_bytes = self.tape.geometry().page_bytes;
                self.held.iter().for_each(|held| held.show(address, page_bytes, data, oob_at, oob));
                done
            }
            FlashCall::Erase | FlashCall::MarkBad => {
                let peb_bytes = u64::from(self.tape.geometry().peb_bytes);
                let block = address..address + peb_bytes;
                let now = self.do_held(now, |held| held.within(&block));
                self.do_now(now, address, call)
            }
        }
    }

    fn is_bad(&self, address: u64) -> bool {
        self.tape.array.is_bad(Peb((address / u64::from(self.tape.geometry().peb_bytes)) as u32))
    }

    fn power_on(mut self, _: &Rules, attempt: &mut Attempt<'_>) -> Result<Raw, Broken> {
        self.tape.array.set_power_cut(None);
        self.tape.array.power_on();
        self.held = self.held.map(|_| Held::default());
        attempt.story.tell(|| "power on".to_owned());
        attempt.left(|keep| {
            dump(&self.tape.array, keep);
            Ok(())
        })?;
        Ok(self)
    }
}
