//! The drive on which simulators are compared: 16 GiB raw.

use ssd::{Order, Shape};

/// 8 channels, 4 ways, 1 die, 2 planes operated together, 256 blocks, 256 pages of 4 KiB.
pub const SHAPE: Shape = Shape {
    channels: 8,
    ways: 4,
    dies: 1,
    planes: 2,
    blocks: 256,
    pages: 256,
    page_bytes: 4096,
    order: Order::CHANNEL_FIRST,
    multi_plane: true,
};
