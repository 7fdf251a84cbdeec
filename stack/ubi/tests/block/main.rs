//! ubiblock as its user sees it: sectors that keep what was written, through power cuts and faults, at a wear and in a
//! time that can be computed by hand.

mod counts;
mod cuts;
mod faults;
mod forms;
mod oracle;
mod rig;
mod time;
mod wear;
