//! UBIFS on a volume of LEBs.

pub mod media;
