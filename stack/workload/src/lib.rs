//! Load generators: deterministic, one draw at a time, with no knowledge of what is below the seam that they drive.

pub mod apps;
pub mod drive;
pub mod fio;
pub mod iozone;
pub mod leb;
pub mod trace;

pub use leb::near_full::{BackgroundShare, NearFull, NearFullParams, UbifsAreas};
