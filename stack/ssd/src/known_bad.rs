//! Deliberate mistakes of a drive's firmware, to test that whoever looks for such mistakes finds them.

/// Mistakes, all off by default. See [`Ssd::set_known_bad`](crate::Ssd::set_known_bad) and
/// [`Ssd::power_on_with`](crate::Ssd::power_on_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownBad {
    /// A flush completes as soon as the pages of the buffer are on their way, before they are in the cells. So does a write
    /// with FUA.
    pub flush_at_once: bool,
    /// A flush waits for the pages that leave the buffer for it, and not for those that were on their way already.
    pub flush_own_pages_only: bool,
    /// FUA is taken for an ordinary write.
    pub ignore_fua: bool,
    /// Copies get a new version in place of their source's.
    pub copies_are_new_versions: bool,
    /// At power-on, contents are not held against their tag's CRC.
    pub trust_torn_pages: bool,
    /// At power-on, a block that looks erased counts as erased, although its erase may not have come to its end.
    pub trust_blank_blocks: bool,
    /// At power-on, the version of a page is not looked at: where there are several, any may win.
    pub ignore_versions: bool,
    /// After power-on, versions begin anew.
    pub restart_versions: bool,
    /// At power-on, erase counts are not looked at.
    pub forget_erase_counts: bool,
    /// A read with an entry (HPB) is read where the entry says, whether or not the page is still there.
    pub trust_entries: bool,
}
