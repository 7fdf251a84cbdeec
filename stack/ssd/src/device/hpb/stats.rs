//! Counters of an HPB device. No host sees them.

/// What a device has counted of the entries that came with reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Pages read by an entry that was right.
    pub entries_right: u64,
    /// Entries whose page had moved: it was looked up.
    pub entries_stale: u64,
    /// Entries whose checksum was wrong: the device never gave them for that page.
    pub entries_damaged: u64,
    /// Bytes of entries given to the host.
    pub map_bytes: u64,
}
