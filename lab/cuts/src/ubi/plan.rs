//! Plan for UBI: the device, the operations, and how cells look after a cut.

use nand::{ArrayConfig, Pairing};
use runner::schema::limits::{Cuts, Destroys, KnownBad as Word};
use runner::schema::{ExperimentError, word, wrong};
use runner::subject::RawFlash;
use ubi::{Config, KnownBad};

use super::Scene;
use super::workload::{Kind, Mix};
use crate::check::Site;
use crate::rules::Rules;
use crate::tape::Tape;
use crate::weights;

/// An enumeration of UBI, with every choice explicit.
#[derive(Clone, Debug)]
pub struct UbiPlan {
    /// How a cut acts.
    pub rules: Rules,
    /// Configuration of the flash.
    pub array: ArrayConfig,
    /// Attach parameters of UBI.
    pub ubi: Config,
    /// Number of operations of the workload.
    pub operations: u32,
    /// Kinds of operations and their weights.
    pub mix: Mix,
    /// Deliberate mistakes of UBI.
    pub known_bad: KnownBad,
    /// What the medium destroys while power is off.
    pub destroys: Destroys,
    /// What a test does behind UBI's back.
    pub(super) sabotage: Option<Sabotage>,
    /// Mistakes that a test puts into the recovered device alone.
    pub(super) once_recovered: Option<KnownBad>,
}

/// Changes the medium behind UBI's back: a test so finds the check that notices.
pub(super) type Sabotage = fn(Site, &mut Tape, &Scene);

const GOOD: KnownBad = KnownBad {
    erase_before_change: false,
    change_without_copy_flag: false,
    hand_out_before_fastmap: false,
    forget_erase_count: false,
    trust_old_mappings: false,
    write_one_table: false,
    forget_erased: false,
};

/// Deliberate mistakes by their names in a file.
pub const KNOWN_BAD: [(Word, KnownBad); 8] = [
    (Word::None, GOOD),
    (Word::EraseBeforeChange, KnownBad { erase_before_change: true, ..GOOD }),
    (Word::ChangeWithoutCopyFlag, KnownBad { change_without_copy_flag: true, ..GOOD }),
    (Word::HandOutBeforeFastmap, KnownBad { hand_out_before_fastmap: true, ..GOOD }),
    (Word::ForgetEraseCount, KnownBad { forget_erase_count: true, ..GOOD }),
    (Word::TrustOldMappings, KnownBad { trust_old_mappings: true, ..GOOD }),
    (Word::WriteOneTable, KnownBad { write_one_table: true, ..GOOD }),
    (Word::ForgetErased, KnownBad { forget_erased: true, ..GOOD }),
];

impl UbiPlan {
    /// Whether the medium may destroy what UBI promised, so that promises have exceptions.
    pub(super) fn is_harsh(&self) -> bool {
        self.array.faults.is_some() || self.rules.pairing != Pairing::None
    }

    /// Plans the cuts of raw flash with UBI. The flash takes no time; it fails as `faults` of the experiment says.
    pub(crate) fn new(flash: &RawFlash, rules: Rules, cuts: &Cuts) -> Result<UbiPlan, ExperimentError> {
        let kinds = Kind::ALL.map(Kind::name);
        let mut mix = Mix { volumes: cuts.volumes, weights: Mix::WEIGHTS };
        weights(&cuts.mix, &kinds, &mut mix.weights)?;
        let Some(&(_, known_bad)) = KNOWN_BAD.iter().find(|(word, _)| *word == cuts.known_bad) else {
            return wrong("cuts.known_bad", word(&cuts.known_bad), "a mistake of UBI");
        };
        let mut array = ArrayConfig { rules: flash.array.rules, ..ArrayConfig::plain(flash.array.geometry) };
        if let Some(faults) = &flash.array.faults {
            let corrected = flash.array.ecc.map_or(0, |ecc| ecc.bits);
            if faults.nandsim.bitflips > corrected {
                let expected = format!(
                    "at most {corrected}, as many as ECC corrects: UBI loses what it cannot read when it attaches"
                );
                return wrong("faults.bitflips", faults.nandsim.bitflips, expected);
            }
            (array.ecc, array.faults) = (flash.array.ecc, flash.array.faults.clone());
        }
        Ok(UbiPlan {
            rules,
            array,
            ubi: flash.ubi.clone(),
            operations: cuts.operations,
            mix,
            known_bad,
            destroys: cuts.destroys,
            sabotage: None,
            once_recovered: None,
        })
    }
}
