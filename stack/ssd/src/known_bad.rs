//! Deliberate firmware faults, to test that checkers find such faults.

/// Firmware faults, all off by default. See [`Ssd::set_known_bad`](crate::Ssd::set_known_bad) and
/// [`Ssd::power_on_with`](crate::Ssd::power_on_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBad {
    /// A flush, or a write with FUA, completes when the buffered pages are on their way, before they are programmed.
    pub flush_at_once: bool,
    /// A flush waits for the pages that it evicts from the buffer, but not for those already on their way.
    pub flush_own_pages_only: bool,
    /// FUA is ignored.
    pub ignore_fua: bool,
    /// A copy of a page gets a new version instead of that of its source.
    pub copies_are_new_versions: bool,
    /// At power-on, contents are not compared with the CRC in their tag.
    pub trust_torn_pages: bool,
    /// At power-on, a block that looks erased counts as erased, although its erase may have been interrupted.
    pub trust_blank_blocks: bool,
    /// At power-on, versions are ignored: of several versions of a page any may win.
    pub ignore_versions: bool,
    /// After power-on, versions start again from the beginning.
    pub restart_versions: bool,
    /// At power-on, erase counts are ignored.
    pub forget_erase_counts: bool,
    /// HPB entries are not verified: a read reads the physical page in its entry, even if the logical page has moved.
    pub trust_entries: bool,
}
