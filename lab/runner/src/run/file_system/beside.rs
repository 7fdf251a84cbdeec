//! A volume of a device whose background thread works beside the volume's user, also within an operation of a file system:
//! a commit unmaps LEBs and maps others, and meanwhile the first of them are erased.

use nand::{Array, Store};
use sim::seam::{LebError, LebVolume, Payload};
use sim::{CauseCounts, Cx, Lnum, Ns};
use ubi::block::OnUbi;
use ubi::{Ubi, UbiError};

use super::repeat::{Recording, What};
use crate::run::thread::Thread;

/// The volume and the thread.
pub(in crate::run) struct Beside<S: Store> {
    volume: OnUbi<Array<S>>,
    thread: Thread,
    /// Since when the thread has had work.
    queued: Ns,
    /// Why the thread failed first, unless UBI tries again.
    failure: Option<UbiError>,
    /// Whether the flash may fail: UBI tries again until it becomes read-only.
    may_fail: bool,
    /// Bytes written to LEBs, by cause.
    written: CauseCounts,
    /// Where calls are recorded.
    pub(super) recording: Option<Box<Recording>>,
}

impl<S: Store> Beside<S> {
    pub fn new(volume: OnUbi<Array<S>>, thread: Thread, may_fail: bool) -> Beside<S> {
        let written = CauseCounts::default();
        Beside { volume, thread, queued: Ns::ZERO, failure: None, may_fail, written, recording: None }
    }

    /// The device.
    pub fn ubi(&self) -> &Ubi<Array<S>> {
        self.volume.ubi()
    }

    /// The device, to record what it is asked for.
    pub fn ubi_mut(&mut self) -> &mut Ubi<Array<S>> {
        self.volume.ubi_mut()
    }

    /// The flash, for its power.
    pub fn flash_mut(&mut self) -> &mut Array<S> {
        self.volume.flash_mut()
    }

    /// Bytes written to LEBs, by cause.
    pub fn written(&self) -> CauseCounts {
        self.written
    }

    /// UBI's thread.
    pub fn thread_mut(&mut self) -> &mut Thread {
        &mut self.thread
    }

    /// Ends the use of the volume, so that it can be attached anew. Also returns the thread, and whether the flash may fail.
    pub fn into_parts(self) -> (Ubi<Array<S>>, Thread, bool) {
        (self.volume.into_ubi(), self.thread, self.may_fail)
    }

    /// Ends the thread and the use of the volume.
    pub fn into_ubi(self) -> Ubi<Array<S>> {
        self.volume.into_ubi()
    }

    /// Lets the thread do what it ends up to `now`.
    #[inline]
    fn work(&mut self, now: Ns) {
        // Without work too: UBI may have done what it waited for, and later work wakes it anew.
        match self.thread.run_until(&mut self.volume, self.queued, now) {
            Err(UbiError::Flash(_)) if self.may_fail => {}
            Err(error) => drop(self.failure.get_or_insert(error)),
            Ok(()) => {}
        }
    }

    /// The same. Errors: why the thread failed since it was asked last.
    pub fn run_until(&mut self, now: Ns) -> Result<(), UbiError> {
        self.work(now);
        self.failure.take().map_or(Ok(()), Err)
    }

    #[inline]
    fn record(&mut self, cx: &Cx, lnum: Lnum, what: What) {
        if let Some(recording) = &mut self.recording {
            recording.add(cx, lnum, what);
        }
    }

    /// Does what takes or releases a PEB, after what the thread has ended by then.
    #[inline]
    fn with<T>(
        &mut self,
        cx: &mut Cx,
        (lnum, what): (Lnum, What),
        call: impl FnOnce(&mut OnUbi<Array<S>>, &mut Cx) -> T,
    ) -> T {
        self.record(cx, lnum, what);
        self.work(cx.now());
        let is_idle = !self.volume.ubi().has_background_work();
        let done = call(&mut self.volume, cx);
        if is_idle {
            self.queued = cx.now();
        }
        done
    }
}

impl<S: Store> LebVolume for Beside<S> {
    fn keeps_bytes() -> bool {
        S::KEEPS_BYTES
    }

    fn lebs(&self) -> u32 {
        self.volume.lebs()
    }

    fn leb_bytes(&self) -> u32 {
        self.volume.leb_bytes()
    }

    fn min_io_bytes(&self) -> u32 {
        self.volume.min_io_bytes()
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.volume.read(cx, lnum, offset, buf)
    }

    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        let what = What::Write { offset, len: data.len() };
        if self.volume.is_mapped(lnum) {
            self.record(cx, lnum, what);
            self.volume.write(cx, lnum, offset, data)?;
        } else {
            self.with(cx, (lnum, what), |volume, cx| volume.write(cx, lnum, offset, data))?;
        }
        self.written[cx.cause()] += u64::from(data.len());
        Ok(())
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.with(cx, (lnum, What::Change { len: data.len() }), |volume, cx| volume.change(cx, lnum, data))?;
        self.written[cx.cause()] += u64::from(data.len());
        Ok(())
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.with(cx, (lnum, What::Map), |volume, cx| volume.map(cx, lnum))
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.with(cx, (lnum, What::Unmap), |volume, cx| volume.unmap(cx, lnum))
    }

    /// No calls of one who erases are recorded.
    fn erase(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.with(cx, (lnum, What::Unmap), |volume, cx| volume.erase(cx, lnum))
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.volume.is_mapped(lnum)
    }

    fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError> {
        self.with(cx, (Lnum(0), What::Sync), |volume, cx| volume.sync(cx))
    }
}

#[cfg(test)]
mod tests {
    use nand::{ArrayConfig, NandsimDelays, Tags, Timing};
    use sim::seam::{Geometry, Medium};
    use ubi::{Config, Policy, VolumeRequest, VolumeSize};

    use super::*;

    /// A volume of 20 LEBs on a flash whose erasures take 2 ms.
    fn device() -> Beside<Tags> {
        let geometry = Geometry {
            medium: Medium::Nand,
            pebs: 60,
            peb_bytes: 32_768,
            page_bytes: 1024,
            subpage_bytes: 1024,
            oob_bytes: 32,
        };
        let mut flash = ArrayConfig::plain(geometry);
        flash.timing = Timing::NandsimOn(NandsimDelays::DEFAULT);
        let mut cx = Cx::new();
        let device = Ubi::attach(Array::new(flash.clone(), Tags), &mut cx, &Config::linux(Policy::LINUX_6_1));
        let mut device = device.map_err(|failure| failure.error).unwrap();
        let request = VolumeRequest::dynamic("data", VolumeSize::Lebs(20));
        let vol_id = device.create_volume(&mut cx, &request).unwrap();
        let volume = OnUbi::open(device, &mut cx, vol_id).map_err(|failure| failure.error).unwrap();
        Beside::new(volume, Thread::new(&flash, 1024), false)
    }

    #[test]
    fn work_that_ubi_did_itself_does_not_let_the_thread_begin_later_work_too_early() {
        let mut volume = device();
        let mut cx = Cx::new();
        cx.wait_until(Ns(10_000_000_000));
        for lnum in [0, 1] {
            volume.map(&mut cx, Lnum(lnum)).unwrap();
        }
        volume.sync(&mut cx).unwrap();
        volume.run_until(cx.now()).unwrap();
        let erases = |volume: &Beside<Tags>| volume.ubi().stats().erases;
        let at_first = erases(&volume);
        // The thread wakes for the first LEB; a sync erases it before the thread has ended.
        volume.unmap(&mut cx, Lnum(0)).unwrap();
        cx.spend(Ns(1000));
        volume.run_until(cx.now()).unwrap();
        assert_eq!(erases(&volume), at_first);
        volume.sync(&mut cx).unwrap();
        assert_eq!(erases(&volume), at_first + 1);
        // A second later there is work anew, which takes an erasure's time from now on.
        cx.wait_until(Ns(11_000_000_000));
        volume.unmap(&mut cx, Lnum(1)).unwrap();
        cx.spend(Ns(1_000_000));
        volume.run_until(cx.now()).unwrap();
        assert_eq!(erases(&volume), at_first + 1, "half an erasure's time is not enough");
        cx.spend(Ns(100_000_000));
        volume.run_until(cx.now()).unwrap();
        assert_eq!(erases(&volume), at_first + 2);
    }
}
