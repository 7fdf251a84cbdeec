//! UBI's background thread as an actor with a clock: it sleeps until work is queued, begins at once, on a processor of its
//! own, and takes as long as the flash does. What it has not ended by the next request of the writer is not there yet.

use nand::{Array, ArrayConfig, Store, Tags};
use sim::seam::{Flash, Payload};
use sim::{Cx, Flame, Ns, Peb};
use ubi::block::{Backing, OnUbi};
use ubi::wl::Work;
use ubi::{Ubi, UbiError};

use super::ubi_log::UBI_THREAD;

/// A device whose background work the thread does: alone, or with a volume that is open.
pub(super) trait Worked {
    /// The flash of the device.
    type On: Flash;

    /// The device.
    fn device(&self) -> &Ubi<Self::On>;

    /// Does one work.
    /// Errors: those of UBI.
    fn work(&mut self, cx: &mut Cx) -> Result<(), UbiError>;
}

impl<S: Store> Worked for Ubi<Array<S>> {
    type On = Array<S>;

    #[inline(always)]
    fn device(&self) -> &Ubi<Array<S>> {
        self
    }

    #[inline(always)]
    fn work(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        self.step_background(cx).map(drop)
    }
}

impl<S: Store> Worked for OnUbi<Array<S>> {
    type On = Array<S>;

    fn device(&self) -> &Ubi<Array<S>> {
        self.ubi()
    }

    fn work(&mut self, cx: &mut Cx) -> Result<(), UbiError> {
        Ok(Backing::step_background(self, cx)?)
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Thread {
    cx: Cx,
    /// When it begins its next work; `None` while it sleeps.
    begins: Option<Ns>,
    /// Time of an erasure with the header after it, on an idle flash.
    erase: Ns,
}

impl Thread {
    /// The thread, asleep.
    pub fn new(flash: &ArrayConfig, header_bytes: u32) -> Thread {
        Thread { cx: Cx::named(UBI_THREAD), begins: None, erase: erase_time(flash, header_bytes) }
    }

    /// Does what is done before the next request of the writer at `now`; the last request queued its work at `queued`.
    /// Errors: those of UBI.
    #[inline]
    pub fn run_until<D: Worked>(&mut self, device: &mut D, queued: Ns, now: Ns) -> Result<(), UbiError> {
        while device.device().has_background_work() {
            let begins = match self.begins {
                Some(begins) => begins,
                None => queued.max(self.cx.now()),
            };
            self.begins = Some(begins);
            let (takes, name) = match device.device().wear().works().front() {
                Some(Work::Erase { .. }) => (self.erase, "erase"),
                Some(Work::WearLevel) => (Ns::ZERO, "move"),
                None => (Ns::ZERO, "fastmap"),
            };
            if begins + takes > now {
                return Ok(());
            }
            self.cx.idle_until(begins);
            let done = device.work(&mut self.cx);
            self.cx.file(name);
            done?;
            // It goes on without sleeping.
            self.begins = Some(self.cx.now());
        }
        self.begins = None;
        Ok(())
    }

    /// Does everything at once, as an idle system does long before the next request.
    /// Errors: those of UBI.
    pub fn run_out<S: Store>(&mut self, device: &mut Ubi<Array<S>>, now: Ns) -> Result<(), UbiError> {
        self.cx.idle_until(now);
        while device.has_background_work() {
            let done = device.step_background(&mut self.cx);
            self.cx.file("work");
            done?;
        }
        Ok(())
    }

    /// Records from now on where the thread's time goes.
    pub fn record(&mut self) {
        self.cx.record();
    }

    /// Ends the record, if there is one.
    pub fn stop_recording(&mut self) -> Option<Flame> {
        self.cx.stop_recording()
    }
}

/// Time of an erasure and of programming a header on such a flash.
fn erase_time(flash: &ArrayConfig, header_bytes: u32) -> Ns {
    let mut config = ArrayConfig::plain(flash.geometry);
    config.timing = flash.timing;
    config.host = flash.host;
    let mut array = Array::new(config, Tags);
    let mut cx = Cx::new();
    let done =
        array.erase(&mut cx, Peb(0)).and_then(|()| array.program(&mut cx, Peb(0), 0, Payload::Length(header_bytes)));
    debug_assert!(done.is_ok(), "{done:?}");
    cx.now()
}
