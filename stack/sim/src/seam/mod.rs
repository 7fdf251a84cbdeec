//! The seams at which layers meet. Each has a second implementor.
//!
//! | trait | real | second |
//! |---|---|---|
//! | [`Flash`] | `nand::Array` | [`RamFlash`] |
//! | [`LebVolume`] | `ubi::Volume` | [`RamVolume`] |
//! | [`BlockDevice`] | `ssd::Ssd`, `ubi::block::UbiBlock` | [`RamDisk`] |
//! | [`FileSystem`] | `fs::ubifs` | `fs::model`, the oracle |

mod block;
mod flash;
mod fs;
mod fs_error;
mod leb;
mod payload;
mod ram_disk;
mod ram_flash;
mod ram_volume;

pub use block::{BlockDevice, BlockDone, BlockError, BlockOp, BlockRequest, SECTOR_BYTES};
pub use flash::{Flash, FlashError, Geometry, Medium, ReadStatus, is_erased, is_zero};
pub use fs::{
    Attr, DeviceNumber, Dirent, FallocateMode, FileSystem, FileType, Held, Ino, InodeFlags, NAME_MAX, NewInode,
    PageState, ReadInto, RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};
pub use fs_error::FsError;
pub use leb::{LebError, LebVolume};
pub use payload::Payload;
pub use ram_disk::RamDisk;
pub use ram_flash::RamFlash;
pub use ram_volume::RamVolume;
