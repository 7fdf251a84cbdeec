//! Power-cut enumeration of UBI: power is lost at every NAND operation of a workload in turn, and everything that was
//! promised must be there when it returns.
//!
//! | promise | how it is checked |
//! |---|---|
//! | no LEB that was written is lost; an atomic change is old or new | contents against the [model](self#the-model) |
//! | the volume table is one of its two states | by number, name, kind, size and update marker |
//! | erase counters never fall | the headers on flash before and after; and each erasure since the attach is counted |
//! | no PEB is lost | [`ubi::Ubi::check`]; none is bad or kept as corrupt; the device is not read-only |
//! | attaching by fastmap and by scan agree | [`ubi::attach::compare`]; and both pass all of the above |
//! | the recovery is as good as the device before | more operations, a second cut, another attach, checked again |
//!
//! # The model
//!
//! What is on the device is known exactly but in the operation that was cut, and for LEBs that were unmapped and not
//! yet erased: their contents may come back, as on Linux. The cuts begin once the flash is formatted: a cut in the midst
//! of the very first attach may leave a flash that, as on Linux, has to be formatted again.
//!
//! Knows UBI and the array; knows no file system, no file and no clock.

mod enumerate;
mod keys;
mod model;
mod plan;
mod rig;
mod tape;
mod workload;

pub use enumerate::Enumeration;
pub use keys::PlanError;
pub use plan::{KNOWN_BAD, Noticed, Plan};
pub use workload::{Kind, Mix};

/// Which cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Cuts 0, `every`, 2 × `every`, …; 1 for all.
    pub every: u64,
}

/// A cut after which a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Its number, by which it can be run again.
    pub at: u64,
    /// The last operations before it, and what it hit.
    pub history: Vec<String>,
    /// What was broken.
    pub broken: Vec<String>,
}

/// What an enumeration found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Cuts that were run.
    pub cuts: u64,
    /// Cuts after which something was broken.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
}

/// What happened in one cut, line by line.
#[derive(Clone, Debug, Default)]
pub struct Story {
    lines: Option<Vec<String>>,
}

impl Story {
    fn silent() -> Story {
        Story { lines: None }
    }

    fn told() -> Story {
        Story { lines: Some(Vec::new()) }
    }

    fn is_told(&self) -> bool {
        self.lines.is_some()
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }

    /// The lines.
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
