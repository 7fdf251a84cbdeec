//! When the file system's thread works, and whose turn it is to take the lock that it shares with the program.

use sim::Ns;

/// What was done on the flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Programs and erasures.
    pub ops: u64,
    pub reads: u64,
    /// How often a program took the lock.
    pub locked: u64,
    /// Blocks that are erased.
    pub erased: u64,
}

impl Work {
    /// Operations of the flash.
    fn uses(&self) -> u64 {
        self.ops + self.reads
    }
}

/// The thread's sleep and signals, and the turns of thread and program.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// When the thread begins its next pass; `None` while it sleeps.
    pub due: Option<Ns>,
    /// It found nothing to do, and sleeps until a signal comes.
    pub asleep: bool,
    /// A signal waits for the thread.
    pub signal: bool,
    /// The thread waits for the lock: operations of the program that come first.
    pub left: Option<u64>,
    /// The program took the lock when it used the flash last.
    pub takes_lock: bool,
    /// How often it took the lock while the thread wants it, beyond once an operation: as many turns are over.
    had: u64,
    /// The thread looks whether a block is erased, without the lock: so many operations of the flash after which it is through, if
    /// the program does not pause.
    looks_until: u64,
}

impl Turns {
    /// The file system was mounted: its thread sleeps.
    pub fn mounted(&mut self) {
        *self = Turns { takes_lock: self.takes_lock, had: self.had, ..Turns::default() };
    }

    /// The thread is woken at `now` if a signal waits. Else it sleeps until `end` before each pass for which there is work. If it finds
    /// none it sleeps until a signal comes, if it `awaits_signals`.
    pub fn wake(&mut self, now: Ns, has_work: bool, end: Ns, awaits_signals: bool) {
        match self.due {
            due if self.signal => (self.due, self.asleep) = (Some(due.map_or(now, |due| due.min(now))), false),
            None if !has_work => self.asleep = awaits_signals,
            None if !self.asleep => self.due = Some(end),
            _ => {}
        }
    }

    /// The program has done an operation: what was done before it, and after it, and whether it sent a signal.
    pub fn operated(&mut self, before: Work, now: Work, signal: bool) {
        self.signal |= signal;
        if now.ops > before.ops || now.reads > before.reads {
            self.takes_lock = now.ops > before.ops;
        }
        let mut locked = now.locked - before.locked;
        if before.uses() < self.looks_until {
            // It does not want the lock while it looks at a block.
            locked = locked.min(now.uses().saturating_sub(self.looks_until));
        }
        self.had = match self.signal || self.left.is_some() {
            true => self.had + locked.saturating_sub(1),
            false => 0,
        };
    }

    /// The program paused, or does not hold the lock: the next turn is the first that it has.
    pub fn is_free(&mut self) {
        self.had = 0;
    }

    /// The thread wants to work from `begins` on, and the program is back at once after an operation that ended at `ended`, when
    /// the flash had been used so often. Whether the program comes first.
    pub fn is_programs(&mut self, uses: u64, begins: Ns, wakes: Ns, ended: Ns) -> bool {
        if uses < self.looks_until {
            self.due = Some(begins);
            return true;
        }
        self.looks_until = 0;
        if !self.takes_lock {
            return false;
        }
        let turns = self.left.unwrap_or(if wakes < ended { 1 } else { 2 });
        let had = turns.min(self.had);
        self.had -= had;
        if turns == had {
            return false;
        }
        // What was sent before it waits is no news to it.
        self.signal &= self.left.is_some();
        (self.left, self.due) = (Some(turns - had - 1), Some(begins));
        true
    }

    /// The thread begins to work. Whether it has waited for the lock.
    pub fn threads(&mut self) -> bool {
        self.looks_until = 0;
        self.left.take().is_some()
    }

    /// A pass of the thread is over. A signal that came while it waited for the lock is seen after it, and `signal` says whether it
    /// sends itself one. Of a block that it erased it looks for so many uses of the flash whether that is erased.
    pub fn passed(&mut self, signal: bool, looks_until: Option<u64>) {
        self.due = None;
        self.signal = signal;
        self.looks_until = looks_until.unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux's JFFS2 under the same program in the guest: while the thread looks at a block that it has erased, the program writes nodes
    /// of two pages and renames a file, which takes the lock twice each. It has one turn more before the thread's pass.
    #[test]
    fn what_a_program_writes_while_the_thread_looks_takes_no_turns() {
        let ended = Ns(1000);
        let mut turns = Turns { takes_lock: true, signal: true, looks_until: 9, ..Turns::default() };
        let mut work = Work { ops: 5, ..Work::default() };
        for (locked, is_programs) in [(2, true), (2, true), (1, false)] {
            let before = work;
            work = Work { ops: work.ops + locked, locked: work.locked + locked, ..work };
            turns.operated(before, work, true);
            let wakes = turns.due.unwrap_or(ended);
            assert_eq!(turns.is_programs(work.ops, ended, wakes, ended + Ns(1)), is_programs, "{work:?}");
        }
        // Beyond the look it does.
        let mut turns = Turns { takes_lock: true, signal: true, looks_until: 9, ..Turns::default() };
        let before = Work { ops: 8, ..Work::default() };
        turns.operated(before, Work { ops: 12, locked: 4, ..before }, true);
        assert!(!turns.is_programs(12, ended, ended, ended + Ns(1)), "three of the four came behind it");
    }
}
