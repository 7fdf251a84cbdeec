//! Flashes that Linux wrote, and what Linux makes of them and of changed ones.

mod bases;
mod large;
mod mutations;
mod small;
mod verdicts;
