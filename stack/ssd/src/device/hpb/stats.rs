//! HPB counters of a device. The host cannot read them.

/// Counters of the HPB entries that came with reads, and of those sent to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Pages read through a correct entry.
    pub entries_right: u64,
    /// Entries whose page had moved, so that the device looked it up. A pre-request with such an entry counts once.
    pub entries_stale: u64,
    /// Entries with a wrong checksum: the device never issued them for that page.
    pub entries_damaged: u64,
    /// Bytes of entries transferred to the host.
    pub map_bytes: u64,
}
