//! How cells look after a cut: the table `[cuts]` that every enumeration has.

use nand::{CutAt, PowerCut, PrefixBytes, Tear};
use sim::{Rng, Seed};

use super::keys::{Keys, PlanError};

/// How a reader notices torn cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// ECC fails on them.
    Always,
    /// They read as if they were good.
    Never,
    /// The one or the other, drawn for each cut.
    Drawn,
}

/// What a cut does, and where draws come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Seed of everything that is drawn.
    pub seed: Seed,
    /// What a cut leaves, by name: each NAND operation is cut once for each.
    pub tears: Vec<(&'static str, Tear)>,
    /// How a reader notices it.
    pub noticed: Noticed,
    /// Whether recovery is cut again, at an operation that is drawn.
    pub second_cut: bool,
}

const TEARS: [(&str, Tear); 3] =
    [("clean", Tear::Clean), ("prefix", Tear::Prefix(PrefixBytes::Drawn)), ("random-bits", Tear::RandomBits)];

impl Rules {
    pub(super) fn resolve(seed: Seed, keys: &mut Keys) -> Result<Rules, PlanError> {
        let noticed = [("sees", Noticed::Always), ("blind", Noticed::Never), ("drawn", Noticed::Drawn)];
        Ok(Rules {
            seed,
            tears: keys.choices("tear", &TEARS)?,
            noticed: keys.choice("ecc", &noticed, Noticed::Drawn)?,
            second_cut: keys.switch("second_cut", true)?,
        })
    }

    /// A cut after so many operations, what it leaves drawn.
    pub(super) fn power_cut(&self, rng: &mut Rng, after_ops: u64, tear: usize) -> PowerCut {
        let sees = match self.noticed {
            Noticed::Always => true,
            Noticed::Never => false,
            Noticed::Drawn => rng.chance(0.5),
        };
        PowerCut {
            at: CutAt::Op(after_ops),
            tear: self.tears[tear].1,
            ecc_sees_torn: sees,
            unstable: false,
            seed: Seed(rng.bits()),
        }
    }

    /// A second cut, within so many operations.
    pub(super) fn second(&self, rng: &mut Rng, within: u64) -> PowerCut {
        let tear = rng.below(self.tears.len() as u64) as usize;
        let cut = self.power_cut(rng, 0, tear);
        PowerCut { at: CutAt::Op(rng.below(within)), ..cut }
    }
}
