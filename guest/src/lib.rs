//! Linux as a guest: user-mode Linux in virtual time, its devices simulated by nandlab.
//!
//! - [`program`] builds programs for its jobs.
//! - [`kernel`] builds the guest's kernel from Debian's source, with the driver in `guest/driver`.
//! - [`Machine`] starts it and serves its calls until the job ends.
//! - [`Devices`] is what a machine needs of whoever simulates: `submit` and `next_done` of a block device, an operation of
//!   a raw flash, and the job's input and output.
//! - [`protocol`] is the memory through which a call goes. `driver/channel.h` states the same.
//!
//! The guest's clock is nandlab's: instructions take no time, an idle guest jumps to its next timer or to the next
//! completion of a device, and a call stops the guest until its reply. So a run does not depend on the host's speed.

mod home;
pub mod kernel;
mod machine;
pub mod program;
pub mod protocol;

pub use kernel::{Kernel, KernelError, Version, Wanted};
pub use machine::{BlockShape, Devices, End, FlashCall, FlashDone, FlashShape, Machine, MachineError, Setup};
