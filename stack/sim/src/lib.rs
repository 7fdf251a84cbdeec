//! Base of every layer of the stack: virtual time, named random streams, typed units, and the seams at which layers
//! meet.
//!
//! This crate knows no medium, no file system and no file of the host. Nothing here reads a clock or spawns a thread:
//! the same calls return the same results on every machine.
//!
//! Start with [`Cx`], the context that every operation of the stack takes, then [`seam::Flash`].

pub mod ahead;
pub mod cause;
pub mod cpu;
pub mod cx;
pub mod events;
pub mod flame;
pub mod passes;
pub mod rng;
pub mod seam;
pub mod time;
pub mod units;

pub use ahead::prefetch;
pub use cause::{Cause, CauseCounts};
pub use cpu::CpuPrice;
pub use cx::Cx;
pub use events::Agenda;
pub use flame::{Flame, Work};
pub use passes::{Pass, PassKind, Spent};
pub use rng::{Rng, Seed};
pub use time::{Ns, Timeline};
pub use units::{EraseCount, Lnum, Peb, VolId};
