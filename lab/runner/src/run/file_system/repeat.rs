//! A long run by its beginning: what a file system asked of its volume in a part of the run is recorded, and repeated on
//! the device until the run ends. UBI is simulated all the time, the file system only up to the end of the record.
//!
//! The record has every call with its time, so that repeating it on the device as it was at the record's begin gives the
//! device as it was at its end. Before each further round a few LEBs are mapped or unmapped as they were at the begin.

use nand::Store;
use sim::seam::{LebError, LebVolume, Payload};
use sim::{Cause, Cx, Lnum, Ns};

use super::beside::Beside;

/// What is asked of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Writes `len` bytes at `offset`.
    Write {
        offset: u32,
        len: u32,
    },
    /// Replaces the contents by `len` bytes.
    Change {
        len: u32,
    },
    Map,
    Unmap,
    Sync,
}

/// A call of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The caller's time.
    at: Ns,
    lnum: Lnum,
    what: What,
    cause: Cause,
}

/// The calls of some operations on files: the last of them made a call.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// How many calls there are up to its end.
    calls: usize,
    operations: u64,
    /// Bytes that the load wrote.
    written: u64,
    /// When the writer ended it.
    end: Ns,
}

/// A LEB as the calls see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    is_mapped: bool,
    /// Bytes written.
    used: u32,
}

impl State {
    fn after(self, what: What) -> State {
        match what {
            What::Write { offset, len } => State { is_mapped: true, used: offset + len },
            What::Change { len } => State { is_mapped: true, used: len },
            What::Map if !self.is_mapped => State { is_mapped: true, used: 0 },
            What::Map | What::Sync => self,
            What::Unmap => State::default(),
        }
    }
}

/// A LEB whose calls are recorded.
#[derive(Clone, Copy, Debug)]
struct Leb {
    /// Whether it was mapped at the begin.
    was_mapped: bool,
    /// The first call.
    first: Option<What>,
    state: State,
}

/// A record under way.
#[derive(Debug)]
pub(super) struct Recording {
    began: Ns,
    calls: Vec<Call>,
    groups: Vec<Group>,
    lebs: Vec<Leb>,
    operations: u64,
    written: u64,
}

impl Recording {
    /// Begins at `now`.
    pub fn new<V: LebVolume>(volume: &V, now: Ns) -> Recording {
        let leb = |lnum| Leb { was_mapped: volume.is_mapped(Lnum(lnum)), first: None, state: State::default() };
        Recording {
            began: now,
            calls: Vec::new(),
            groups: Vec::new(),
            lebs: (0..volume.lebs()).map(leb).collect(),
            operations: 0,
            written: 0,
        }
    }

    /// Adds a call.
    pub fn add(&mut self, cx: &Cx, lnum: Lnum, what: What) {
        if what != What::Sync {
            let leb = &mut self.lebs[lnum.0 as usize];
            leb.first.get_or_insert(what);
            leb.state = leb.state.after(what);
        }
        let since = self.groups.last().map_or(0, |group| group.calls);
        if let What::Write { offset, len } = what
            && self.calls.len() > since
            && let Some(Call { lnum: last, what: What::Write { offset: from, len: before }, cause, .. }) =
                self.calls.last_mut()
            && (*last, *from + *before, *cause) == (lnum, offset, cx.cause())
        {
            *before += len;
            return;
        }
        self.calls.push(Call { at: cx.now(), lnum, what, cause: cx.cause() });
    }

    /// An operation of the load ended at `now`.
    pub fn operation(&mut self, now: Ns, written: u64) {
        self.operations += 1;
        self.written += written;
        if self.groups.last().map_or(0, |group| group.calls) < self.calls.len() {
            let group = Group { calls: self.calls.len(), operations: self.operations, written: self.written, end: now };
            self.groups.push(group);
            (self.operations, self.written) = (0, 0);
        }
    }

    /// What makes the volume at the record's end as its calls expect it at the begin: what is unmapped first.
    fn bridge(&self) -> Vec<(Lnum, What)> {
        let (mut unmapped, mut mapped) = (Vec::new(), Vec::new());
        for (lnum, leb) in (0..).map(Lnum).zip(&self.lebs) {
            let Some(first) = leb.first else { continue };
            let expected = match first {
                _ if !leb.was_mapped => State::default(),
                What::Write { offset, .. } => State { is_mapped: true, used: offset },
                // Nothing of what was in it matters any more.
                _ if leb.state.is_mapped => leb.state,
                _ => State { is_mapped: true, used: 0 },
            };
            if expected == leb.state {
                continue;
            }
            if leb.state.is_mapped {
                unmapped.push((lnum, What::Unmap));
            }
            match expected {
                State { is_mapped: false, .. } => {}
                State { used: 0, .. } => mapped.push((lnum, What::Map)),
                State { used, .. } => mapped.push((lnum, What::Write { offset: 0, len: used })),
            }
        }
        unmapped.append(&mut mapped);
        unmapped
    }

    /// Ends at `now`. `None` if nothing was recorded.
    pub fn end(self, now: Ns) -> Option<Record> {
        let bridge = self.bridge();
        let Recording { began, calls, groups, .. } = self;
        (!groups.is_empty()).then(|| Record { length: now - began, began, calls, groups, bridge })
    }
}

/// What a file system asked of its volume.
#[derive(Debug)]
pub(super) struct Record {
    began: Ns,
    length: Ns,
    calls: Vec<Call>,
    groups: Vec<Group>,
    bridge: Vec<(Lnum, What)>,
}

/// A record that is repeated on a volume.
pub(super) struct Repeat<S: Store> {
    volume: Beside<S>,
    record: Record,
    /// The next group.
    next: usize,
    /// From the record's times to those of this round.
    later: Ns,
}

/// What a group of operations did.
pub(super) struct Repeated {
    pub operations: u64,
    pub written: u64,
}

impl<S: Store> Repeat<S> {
    /// Goes on where the record ended.
    pub fn new(volume: Beside<S>, record: Record) -> Repeat<S> {
        Repeat { volume, next: record.groups.len(), record, later: Ns::ZERO }
    }

    /// The volume.
    pub fn volume(&self) -> &Beside<S> {
        &self.volume
    }

    /// The same, for UBI's thread.
    pub fn volume_mut(&mut self) -> &mut Beside<S> {
        &mut self.volume
    }

    /// Ends it.
    pub fn into_volume(self) -> Beside<S> {
        self.volume
    }

    /// Repeats the next operations.
    /// Errors: the volume's.
    pub fn step(&mut self, writer: &mut Cx) -> Result<Repeated, LebError> {
        if self.next == self.record.groups.len() {
            self.next = 0;
            self.later += self.record.length;
            let mut cx = Cx::new();
            cx.wait_until(self.record.began + self.later);
            for &(lnum, what) in &self.record.bridge {
                cx.because(Cause::Layout, |cx| apply(&mut self.volume, cx, lnum, what))?;
            }
        }
        let from = self.next.checked_sub(1).map_or(0, |before| self.record.groups[before].calls);
        let group = self.record.groups[self.next];
        for call in &self.record.calls[from..group.calls] {
            let mut cx = Cx::new();
            cx.wait_until(call.at + self.later);
            cx.because(call.cause, |cx| apply(&mut self.volume, cx, call.lnum, call.what))?;
        }
        writer.wait_until(group.end + self.later);
        self.next += 1;
        Ok(Repeated { operations: group.operations, written: group.written })
    }
}

fn apply<V: LebVolume>(volume: &mut V, cx: &mut Cx, lnum: Lnum, what: What) -> Result<(), LebError> {
    match what {
        What::Write { offset, len } => volume.write(cx, lnum, offset, Payload::Length(len)),
        What::Change { len } => volume.change(cx, lnum, Payload::Length(len)),
        What::Map => volume.map(cx, lnum),
        What::Unmap => volume.unmap(cx, lnum),
        What::Sync => volume.sync(cx),
    }
}

#[cfg(test)]
mod tests {
    use sim::seam::RamVolume;

    use super::*;

    /// Writes of 4 LEBs of 1,024 bytes.
    fn recorded(before: &[(u32, What)], calls: &[(u32, What)]) -> Recording {
        let mut volume = RamVolume::new(4, 1024, 64);
        let mut cx = Cx::new();
        for &(lnum, what) in before {
            apply(&mut volume, &mut cx, Lnum(lnum), with_bytes(what)).unwrap();
        }
        let mut recording = Recording::new(&volume, Ns(5));
        for &(lnum, what) in calls {
            recording.add(&cx, Lnum(lnum), what);
        }
        recording
    }

    /// `RamVolume` keeps bytes: what is only mapped is as good here.
    fn with_bytes(what: What) -> What {
        if let What::Write { .. } = what { What::Map } else { what }
    }

    const fn write(offset: u32, len: u32) -> What {
        What::Write { offset, len }
    }

    #[test]
    fn writes_that_follow_one_another_are_one_call() {
        let mut recording =
            recorded(&[], &[(0, write(0, 64)), (0, write(64, 128)), (1, write(0, 64)), (0, write(192, 64))]);
        let calls =
            |recording: &Recording| recording.calls.iter().map(|call| (call.lnum.0, call.what)).collect::<Vec<_>>();
        assert_eq!(calls(&recording), [(0, write(0, 192)), (1, write(0, 64)), (0, write(192, 64))]);
        // Calls of two operations stay apart.
        recording.operation(Ns(9), 100);
        recording.operation(Ns(10), 50);
        recording.add(&Cx::new(), Lnum(0), write(256, 64));
        recording.operation(Ns(11), 0);
        let groups: Vec<_> =
            recording.groups.iter().map(|group| (group.calls, group.operations, group.written)).collect();
        assert_eq!(groups, [(3, 1, 100), (4, 2, 50)]);
    }

    #[test]
    fn a_bridge_leads_back_to_the_begin() {
        let mapped = |lnum| (lnum, What::Map);
        // Never touched, or back where it was: nothing.
        assert_eq!(recorded(&[mapped(0)], &[]).bridge(), []);
        assert_eq!(recorded(&[mapped(0)], &[(0, What::Unmap), (0, write(0, 64))]).bridge(), []);
        assert_eq!(recorded(&[], &[(0, write(0, 64)), (0, What::Unmap)]).bridge(), []);
        assert_eq!(recorded(&[mapped(0)], &[(0, What::Change { len: 64 })]).bridge(), []);
        // Unmapped at the begin, mapped at the end, and the other way round. What is unmapped makes room.
        let bridge =
            recorded(&[mapped(0)], &[(0, What::Unmap), (1, write(0, 64)), (2, What::Change { len: 64 })]).bridge();
        assert_eq!(bridge, [(Lnum(1), What::Unmap), (Lnum(2), What::Unmap), (Lnum(0), What::Map)]);
        // Half full at the begin, and appended to.
        let bridge = recorded(&[mapped(3)], &[(3, write(512, 256))]).bridge();
        assert_eq!(bridge, [(Lnum(3), What::Unmap), (Lnum(3), write(0, 512))]);
        let bridge = recorded(&[mapped(3)], &[(3, write(512, 256)), (3, What::Unmap)]).bridge();
        assert_eq!(bridge, [(Lnum(3), write(0, 512))]);
        // Mapped at the begin and empty: written from its start.
        let bridge = recorded(&[mapped(3)], &[(3, write(0, 256))]).bridge();
        assert_eq!(bridge, [(Lnum(3), What::Unmap), (Lnum(3), What::Map)]);
    }

    /// A volume of 100 LEBs on a new flash of 160 PEBs, with UBI's thread beside it.
    fn device() -> Beside<nand::Tags> {
        let geometry = sim::seam::Geometry {
            medium: sim::seam::Medium::Nand,
            pebs: 160,
            peb_bytes: 32_768,
            page_bytes: 1024,
            subpage_bytes: 1024,
            oob_bytes: 32,
        };
        let mut config = nand::ArrayConfig::plain(geometry);
        config.timing = nand::Timing::NandsimOn(nand::NandsimDelays::DEFAULT);
        let mut ubi = ubi::Config::linux(ubi::Policy::LINUX_6_1);
        ubi.wl_threshold = 8;
        let mut cx = Cx::new();
        let flash = nand::Array::new(config.clone(), nand::Tags);
        let mut device = ubi::Ubi::attach(flash, &mut cx, &ubi).map_err(|failure| failure.error).unwrap();
        let size = ubi::VolumeSize::Lebs(100);
        let vol_id = device.create_volume(&mut cx, &ubi::VolumeRequest::dynamic("data", size)).unwrap();
        let volume = ubi::block::OnUbi::open(device, &mut cx, vol_id).map_err(|failure| failure.error).unwrap();
        let thread = super::super::Thread::new(&config, 1024);
        Beside::new(volume, thread, false)
    }

    #[test]
    fn a_record_that_is_repeated_wears_the_flash_as_what_it_recorded() {
        let mut random = sim::Seed(3).stream("calls");
        let mut volume = device();
        let mut cx = Cx::new();
        volume.recording = Some(Box::new(Recording::new(&volume, cx.now())));
        let mut used = [0; 100];
        for _ in 0..6000 {
            cx.spend(Ns(random.below(4_000_000)));
            let below = random.below(100) + 1;
            let lnum = random.below(below) as usize;
            let what = match random.below(8) {
                0 => What::Unmap,
                1 => What::Change { len: 2048 },
                2 if used[lnum] == 0 && !volume.is_mapped(Lnum(lnum as u32)) => What::Map,
                _ if used[lnum] < 20 * 1024 => What::Write { offset: used[lnum], len: 3072 },
                _ => What::Unmap,
            };
            let before = State { is_mapped: volume.is_mapped(Lnum(lnum as u32)), used: used[lnum] };
            used[lnum] = before.after(what).used;
            let cause = if random.below(2) == 0 { Cause::Host } else { Cause::Gc };
            cx.because(cause, |cx| apply(&mut volume, cx, Lnum(lnum as u32), what)).unwrap();
            let now = cx.now();
            volume.recording.as_mut().unwrap().operation(now, 10);
            volume.run_until(now).unwrap();
        }
        let record = volume.recording.take().unwrap().end(cx.now()).unwrap();
        let groups = record.groups.len();
        let mut repeat = Repeat { volume: device(), record, next: 0, later: Ns::ZERO };
        let mut writer = Cx::new();
        for _ in 0..groups {
            let done = repeat.step(&mut writer).unwrap();
            assert_eq!(done.written, 10 * done.operations);
            repeat.volume_mut().run_until(writer.now()).unwrap();
        }
        let flash = |of: &Beside<nand::Tags>| of.ubi().flash().erase_counts().to_vec();
        assert!(flash(&volume).iter().sum::<u32>() > 1000, "{:?}", flash(&volume));
        assert_eq!(flash(repeat.volume()), flash(&volume));
        assert_eq!(repeat.volume().ubi().flash().programmed_bytes(), volume.ubi().flash().programmed_bytes());
        assert_eq!(repeat.volume().ubi().stats(), volume.ubi().stats());
        assert_eq!(writer.now(), cx.now());
        // Ten further rounds: the bridge between two lets every call succeed.
        for _ in 0..10 * groups {
            repeat.step(&mut writer).unwrap();
            repeat.volume_mut().run_until(writer.now()).unwrap();
        }
        assert!(flash(repeat.volume()).iter().sum::<u32>() > 10 * flash(&volume).iter().sum::<u32>());
    }
}
