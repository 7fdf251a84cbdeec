//! States in which the host has logical units, regions and sub-regions, and the tables of their legal moves.

/// A logical unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuState {
    /// Being brought up.
    Init,
    /// HPB is in use.
    Present,
    /// Asleep: nothing is loaded, no entry is used.
    Suspend,
    /// Brought up in vain: HPB is not used.
    Failed,
    /// The device is being reset.
    Reset,
}

impl LuState {
    /// The table of legal moves.
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

/// A region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionState {
    /// None of its sub-regions has memory.
    Inactive,
    /// Among those that may be dropped for others.
    Active,
    /// Never dropped.
    Pinned,
}

impl RegionState {
    /// The table of legal moves.
    pub const fn may_become(self, next: RegionState) -> bool {
        use RegionState::*;
        matches!((self, next), (Inactive, Active | Pinned) | (Active, Inactive))
    }
}

/// A sub-region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubState {
    /// Without memory.
    Unused,
    /// With memory whose contents are not to be used.
    Invalid,
    /// Its entries are on their way (HPB READ BUFFER).
    Issued,
    /// Its entries are in use, but for those of dirty pages.
    Valid,
}

impl SubState {
    /// The table of legal moves. Memory is not taken away while entries are on their way into it.
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
