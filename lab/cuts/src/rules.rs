//! How cells look after a cut.

use nand::{CutAt, Pairing, PowerCut, PrefixBytes, Tear};
use sim::{Rng, Seed};

use runner::schema::limits::{CutEcc, Cuts, PairedPages, Tear as TearWord};
use runner::schema::{ExperimentError, word, wrong};

/// Whether a reader notices torn cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// ECC fails on torn cells.
    Always,
    /// Torn cells read as if they were good.
    Never,
    /// Either of the two, drawn for each cut.
    Drawn,
}

/// How a cut acts, and the seed of its draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Seed of everything that is drawn.
    pub seed: Seed,
    /// Tears by name; each NAND operation is cut once with each.
    pub tears: Vec<(&'static str, Tear)>,
    /// Whether a reader notices a tear.
    pub noticed: Noticed,
    /// Most cuts after the first, each in the recovery from the one before or soon after.
    pub further_cuts: u32,
    /// Whether torn cells may read differently each time.
    pub unstable: bool,
    /// Which pages share cells.
    pub pairing: Pairing,
}

impl Rules {
    /// Reads the rules from the table `[cuts]`.
    /// Errors: a tear that is named twice.
    pub(super) fn of(seed: Seed, cuts: &Cuts) -> Result<Rules, ExperimentError> {
        let tear = |word: &TearWord| match word {
            TearWord::Clean => ("clean", Tear::Clean),
            TearWord::Prefix => ("prefix", Tear::Prefix(PrefixBytes::Drawn)),
            TearWord::RandomBits => ("random-bits", Tear::RandomBits),
        };
        if let Some(twice) = cuts.tear.iter().enumerate().find(|(at, tear)| cuts.tear[..*at].contains(tear)) {
            return wrong("cuts.tear", format!("{} twice", word(twice.1)), "each word once");
        }
        Ok(Rules {
            seed,
            tears: cuts.tear.iter().map(tear).collect(),
            noticed: match cuts.ecc {
                CutEcc::Sees => Noticed::Always,
                CutEcc::Blind => Noticed::Never,
                CutEcc::Drawn => Noticed::Drawn,
            },
            further_cuts: if cuts.second_cut { cuts.further_cuts } else { 0 },
            unstable: cuts.unstable,
            pairing: match cuts.paired_pages {
                PairedPages::None => Pairing::None,
                PairedPages::Mlc => Pairing::Mlc,
            },
        })
    }

    /// A cut after this many operations with this tear; the other properties are drawn.
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
            unstable: self.unstable && rng.chance(0.5),
            pairing: self.pairing,
            seed: Seed(rng.bits()),
        }
    }

    /// A second cut, within this many operations.
    pub(super) fn second(&self, rng: &mut Rng, within: u64) -> PowerCut {
        let tear = rng.below(self.tears.len() as u64) as usize;
        let cut = self.power_cut(rng, 0, tear);
        PowerCut { at: CutAt::Op(rng.below(within)), ..cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(change: impl FnOnce(&mut Cuts)) -> Rules {
        let mut cuts = Cuts { tear: vec![TearWord::Clean, TearWord::RandomBits], ..Cuts::default() };
        change(&mut cuts);
        Rules::of(Seed(1), &cuts).expect("each tear once")
    }

    /// How many of 200 cuts have a property.
    fn of_200(rules: &Rules, has: impl Fn(&PowerCut) -> bool) -> usize {
        let mut rng = Seed(3).stream("test");
        (0..200).filter(|&at| has(&rules.power_cut(&mut rng, at, 0))).count()
    }

    #[test]
    fn what_is_always_or_never_so_is_so_in_every_cut_and_what_is_drawn_in_some() {
        for (ecc, counts) in [(CutEcc::Sees, 200..201), (CutEcc::Blind, 0..1), (CutEcc::Drawn, 60..140)] {
            assert!(counts.contains(&of_200(&rules(|cuts| cuts.ecc = ecc), |cut| cut.ecc_sees_torn)), "{ecc:?}");
        }
        for (unstable, counts) in [(false, 0..1), (true, 60..140)] {
            assert!(counts.contains(&of_200(&rules(|cuts| cuts.unstable = unstable), |cut| cut.unstable)));
        }
    }

    #[test]
    fn no_cut_follows_unless_a_second_one_is_asked_for() {
        for further in [1, 3] {
            let of = |second| rules(|cuts| (cuts.second_cut, cuts.further_cuts) = (second, further)).further_cuts;
            assert_eq!((of(false), of(true)), (0, further));
        }
    }

    #[test]
    fn a_second_cut_comes_within_its_operations_and_tears_in_every_way() {
        let (rules, mut rng) = (rules(|_| {}), Seed(5).stream("test"));
        let cuts: Vec<PowerCut> = (0..200).map(|_| rules.second(&mut rng, 5)).collect();
        for operation in 0..5 {
            assert!(cuts.iter().any(|cut| cut.at == CutAt::Op(operation)), "never at {operation}");
        }
        assert!(cuts.iter().all(|cut| (0..5).any(|operation| cut.at == CutAt::Op(operation))));
        let clean = cuts.iter().filter(|cut| cut.tear == Tear::Clean).count();
        assert!((60..140).contains(&clean), "{clean} of 200 are clean");
        assert_eq!(rules.power_cut(&mut rng, 17, 1).at, CutAt::Op(17));
        assert_eq!(rules.power_cut(&mut rng, 17, 1).tear, Tear::RandomBits);
    }
}
