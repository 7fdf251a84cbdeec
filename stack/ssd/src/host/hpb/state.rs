//! States of logical units, regions and sub-regions in the HPB driver, and the tables of their legal transitions.

/// State of a logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuState {
    /// HPB is being initialized.
    Init,
    /// HPB is in use.
    Present,
    /// Suspended: nothing is loaded, no entry is used.
    Suspend,
    /// Initialization failed: HPB is not used.
    Failed,
    /// The device is being reset.
    Reset,
}

impl LuState {
    /// The table of legal transitions.
    pub const fn may_become(self, next: LuState) -> bool {
        use LuState::*;
        matches!(
            (self, next),
            (Init, Present | Failed)
                | (Present, Suspend | Reset | Failed)
                | (Suspend, Present | Reset)
                | (Reset, Present | Failed)
        )
    }
}

/// State of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionState {
    /// Not active: none of its sub-regions has memory.
    Inactive,
    /// Active: may be evicted for another region.
    Active,
    /// Always active: never evicted.
    Pinned,
}

impl RegionState {
    /// The table of legal transitions.
    pub const fn may_become(self, next: RegionState) -> bool {
        use RegionState::*;
        matches!((self, next), (Inactive, Active | Pinned) | (Active, Inactive))
    }
}

/// State of a sub-region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubState {
    /// It has no memory.
    Unused,
    /// It has memory, whose contents must not be used.
    Invalid,
    /// Its entries are being loaded (HPB READ BUFFER).
    Issued,
    /// Its entries are in use, except those of dirty pages.
    Valid,
}

impl SubState {
    /// The table of legal transitions. Memory is not freed while entries are being loaded into it.
    pub const fn may_become(self, next: SubState) -> bool {
        use SubState::*;
        matches!(
            (self, next),
            (Unused, Invalid | Issued)
                | (Invalid, Issued | Unused)
                | (Issued, Valid | Invalid)
                | (Valid, Invalid | Unused)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_being_filled_is_not_taken_away() {
        assert!(!SubState::Issued.may_become(SubState::Unused));
        assert!(!SubState::Valid.may_become(SubState::Issued), "an entry in use is made invalid first");
    }

    #[test]
    fn a_pinned_region_stays() {
        assert!([RegionState::Inactive, RegionState::Active].iter().all(|&next| !RegionState::Pinned.may_become(next)));
    }

    #[test]
    fn a_failed_unit_stays_so() {
        use LuState::*;
        assert!([Init, Present, Suspend, Reset].iter().all(|&next| !Failed.may_become(next)));
    }
}
