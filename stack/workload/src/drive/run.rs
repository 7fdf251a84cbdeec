//! The loop: the device's completions and the load's alarms, in the order of virtual time.

use sim::Ns;
use sim::seam::{BlockDevice, BlockDone};

use super::alarms::Alarms;
use super::load::{Load, Next, Soon, Then, Turn};
use super::port::{Port, Refused, is_survivable};
use super::report::{Ended, JobTotals, Limits, Observer, Report};

struct Run<'a, D, L: Load> {
    device: &'a mut D,
    port: Port,
    load: &'a mut L,
    alarms: L::Alarms,
    jobs: Vec<JobTotals>,
    limits: Limits,
    issued: u64,
    now: Ns,
    last_done: Ns,
    /// Users of the group that have not ended.
    active: u32,
    /// Whether a limit ended a user before its work was done.
    cut: bool,
}

/// Why a run ends before its load does; boxed, for it happens once.
type Halt<S> = Box<Ended<S>>;

/// Puts `load` on `device` from `start` on, until the load ends, a limit is reached, the device fails or `observer`
/// stops the run. Returns at the last completion: the device may have work left, such as collection or its write buffer.
pub fn run<D: BlockDevice, L: Load, O: Observer>(
    device: &mut D,
    load: &mut L,
    start: Ns,
    limits: Limits,
    observer: &mut O,
) -> Report<O::Stop> {
    let mut run = Run {
        port: Port::new(device),
        device,
        jobs: vec![JobTotals::default(); load.jobs()],
        load,
        alarms: L::Alarms::default(),
        limits,
        issued: 0,
        now: start,
        last_done: start,
        active: 0,
        cut: false,
    };
    let ended = match run.drive(observer) {
        Ok(()) => match run.port.outstanding() {
            0 if run.cut => Ended::Limit,
            0 => Ended::Done,
            outstanding => Ended::Stalled { at: run.last_done, outstanding },
        },
        Err(halt) => *halt,
    };
    let mut report = Report {
        jobs: run.jobs,
        from: start,
        to: run.last_done,
        issued: run.issued,
        max_waiting: run.port.max_waiting,
        disordered: 0,
        ended,
    };
    run.load.finish(&mut report);
    report
}

impl<D: BlockDevice, L: Load> Run<'_, D, L> {
    fn drive<O: Observer>(&mut self, observer: &mut O) -> Result<(), Halt<O::Stop>> {
        loop {
            if self.active == 0 && !self.begin()? && self.port.outstanding() == 0 {
                return Ok(());
            }
            let until = self.alarms.first();
            match self.device.next_done(until) {
                Some(done) => self.complete(done, observer)?,
                None => match self.alarms.pop() {
                    Some((at, user)) => {
                        self.now = at;
                        self.turn(user)?;
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    /// Lets the next group of users begin, and those after it if all in it end at once. Returns whether any is active.
    #[cold]
    fn begin<S>(&mut self) -> Result<bool, Halt<S>> {
        while self.active == 0 && !self.cut {
            let Some(group) = self.load.begin(self.now) else { return Ok(false) };
            self.active = group.len() as u32;
            for user in group {
                self.turn(user)?;
            }
        }
        Ok(self.active > 0)
    }

    #[inline]
    fn turn_of(&self, user: u32) -> Turn {
        let is_closed = self.issued >= self.limits.requests || self.now >= self.limits.until;
        Turn { user, now: self.now, until: self.limits.until, is_closed }
    }

    /// A user's turn, until it waits or ends.
    #[inline]
    fn turn<S>(&mut self, user: u32) -> Result<(), Halt<S>> {
        while {
            let next = self.load.next(self.turn_of(user));
            self.follow(user, next)?
        } {}
        Ok(())
    }

    /// Does what a user answers. Returns whether it has another turn at once.
    #[inline(always)]
    fn follow<S>(&mut self, user: u32, next: Next) -> Result<bool, Halt<S>> {
        if let Some((owner, request)) = next.issue {
            debug_assert!(!self.turn_of(user).is_closed, "a limit is reached, and user {user} issues");
            self.issued += 1;
            if let Err(refused) = self.port.issue(self.device, self.now, owner, request) {
                return Err(self.refused(*refused));
            }
            let device = &*self.device;
            self.load.foresee(owner, |soon, request| match soon {
                Soon::Ahead => device.expect(request),
                Soon::Next => device.expect_next(request),
            });
        }
        match next.then {
            Then::Again => return Ok(true),
            Then::Wait => {}
            Then::At(at) => self.alarms.set(at, user),
            Then::End => self.active -= 1,
            Then::Cut => {
                self.active -= 1;
                self.cut = true;
            }
        }
        Ok(false)
    }

    #[inline]
    fn complete<O: Observer>(&mut self, done: BlockDone, observer: &mut O) -> Result<(), Halt<O::Stop>> {
        let slot = self.port.completed(&done);
        if let Err(refused) = self.port.pass_on(self.device, &done) {
            return Err(self.refused(*refused));
        }
        self.now = done.at;
        self.last_done = done.at;
        let (job, counted) = self.load.account(slot.owner, done.at);
        let failed = done.result.is_err();
        if let Err(error) = done.result {
            observer.on_error(job, &slot.request, &error);
            if !is_survivable(&error) {
                return Err(Box::new(Ended::Device { at: done.at, job, request: slot.request, error }));
            }
        }
        let span = slot.span(done.at);
        self.jobs[job].book(&slot.request, span, counted, failed);
        observer.on_done(job, &slot.request, span, counted);
        if let Some(why) = observer.stop() {
            return Err(Box::new(Ended::Stopped { at: done.at, why }));
        }
        let next = self.load.done(self.turn_of(slot.owner), &slot.request, failed);
        if self.follow(slot.owner, next)? { self.turn(slot.owner) } else { Ok(()) }
    }

    #[cold]
    fn refused<S>(&self, Refused { at, slot, error }: Refused) -> Halt<S> {
        let (job, _) = self.load.account(slot.owner, at);
        Box::new(Ended::Device { at, job, request: slot.request, error })
    }
}
