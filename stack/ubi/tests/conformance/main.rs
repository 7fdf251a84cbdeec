//! The device as its user sees it: what mtd-utils' own UBI tests cover, and what they cannot see.
//!
//! Every operation goes through [`rig::Rig`], which then checks the invariants. `oracle` compares random runs with
//! `sim::seam::RamVolume`; the other modules test one promise each, over a grid of policy, pool reservation and
//! fastmap.

mod actors;
mod bring_up;
mod fastmap;
mod faults;
mod faulty;
mod lebs;
mod losses;
mod media;
mod oracle;
mod refill;
mod rig;
mod static_volumes;
mod stores;
mod suspects;
mod volumes;
mod wear;
