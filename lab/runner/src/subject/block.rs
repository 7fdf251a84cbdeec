//! What a host, and a run, know of a block device, whatever is inside.

/// What is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A drive.
    Drive,
    /// A volume of UBI.
    Ubiblock,
}

/// What a host knows of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFacts {
    /// What is inside.
    pub kind: BlockKind,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Raw flash in bytes.
    pub raw_bytes: u64,
    /// Bytes of a page of the flash.
    pub page_bytes: u32,
    /// Bytes of an erase unit.
    pub block_bytes: u64,
    /// Submission queues.
    pub queues: usize,
    /// Whether a discard has an effect.
    pub trims: bool,
    /// Whether writes may stay in a volatile memory until a flush.
    pub caches: bool,
    /// Whether the host forces unit access.
    pub fua: bool,
    /// Why no write is accepted; `None` for a writable device.
    pub read_only: Option<&'static str>,
}
