//! Plan for a drive: its configuration, the requests, and how cells look after a cut.

use nand::ArrayConfig;
use runner::schema::faults::Faults;
use runner::schema::limits::{Cuts, KnownBad as Word};
use runner::schema::{ExperimentError, word, wrong};
use runner::subject::{Drive, Layer};
use ssd::{KnownBad, Protocol, TrimmedReads};

use super::drive::{OOB, Wear};
use super::host::{Kind, Load};
use crate::check::Site;
use crate::rules::Rules;
use crate::tape::Tape;
use crate::weights;

/// An enumeration of a drive, with every choice explicit.
#[derive(Clone, Debug)]
pub struct SsdPlan {
    /// How a cut acts.
    pub rules: Rules,
    /// The drive under test.
    pub drive: Drive,
    /// Its flash, which may fail.
    pub(super) array: ArrayConfig,
    /// Requests of the host.
    pub(super) load: Load,
    /// Deliberate mistakes of the drive.
    pub known_bad: KnownBad,
    /// What a test does behind the drive's back.
    pub(super) sabotage: Option<Sabotage>,
}

/// Changes the medium, or what is known of its wear, behind the drive's back: a test so finds the check that notices.
pub(super) type Sabotage = fn(Site, &mut Tape, &mut Wear);

/// Most raw pages of a drive: every cut reads all of them.
const MOST_PAGES: u64 = (1 << 16) - 1;

const GOOD: KnownBad = KnownBad {
    flush_at_once: false,
    flush_own_pages_only: false,
    ignore_fua: false,
    copies_are_new_versions: false,
    trust_torn_pages: false,
    trust_blank_blocks: false,
    ignore_versions: false,
    restart_versions: false,
    forget_erase_counts: false,
    trust_entries: false,
};

/// Deliberate mistakes by their names in a file.
pub const KNOWN_BAD: [(Word, KnownBad); 11] = [
    (Word::None, GOOD),
    (Word::FlushAtOnce, KnownBad { flush_at_once: true, ..GOOD }),
    (Word::FlushOwnPagesOnly, KnownBad { flush_own_pages_only: true, ..GOOD }),
    (Word::IgnoreFua, KnownBad { ignore_fua: true, ..GOOD }),
    (Word::CopiesAreNewVersions, KnownBad { copies_are_new_versions: true, ..GOOD }),
    (Word::TrustTornPages, KnownBad { trust_torn_pages: true, ..GOOD }),
    (Word::TrustBlankBlocks, KnownBad { trust_blank_blocks: true, ..GOOD }),
    (Word::IgnoreVersions, KnownBad { ignore_versions: true, ..GOOD }),
    (Word::RestartVersions, KnownBad { restart_versions: true, ..GOOD }),
    (Word::ForgetEraseCounts, KnownBad { forget_erase_counts: true, ..GOOD }),
    (Word::TrustEntries, KnownBad { trust_entries: true, ..GOOD }),
];

impl SsdPlan {
    /// Plans the cuts of a drive. Its flash does not fail nor wear out.
    pub(crate) fn new(drive: &Drive, rules: Rules, cuts: &Cuts) -> Result<SsdPlan, ExperimentError> {
        let raw = drive.shape.raw_pages();
        if raw > MOST_PAGES {
            let expected =
                format!("{MOST_PAGES} at most: every cut reads all of them; make the drive smaller by --set");
            return wrong("ssd.blocks", format!("{raw} pages in all"), expected);
        }
        let front = &drive.config.front;
        if front.trimmed_reads == TrimmedReads::Deterministic {
            let expected = "`zeroes` or `undefined`: the drive does not keep over a loss of power what was trimmed";
            return wrong("ssd.front.trimmed_reads", "deterministic", expected);
        }
        let mut load = Load {
            requests: cuts.operations,
            depth: cuts.depth.min(front.depth),
            most_pages: cuts.most_pages,
            queues: if let Protocol::Nvme { weights } = &front.protocol { weights.len() as u16 } else { 1 },
            weights: Load::WEIGHTS,
        };
        weights(&cuts.mix, &Kind::ALL.map(Kind::name), &mut load.weights)?;
        let Some(&(_, known_bad)) = KNOWN_BAD.iter().find(|(word, _)| *word == cuts.known_bad) else {
            return wrong("cuts.known_bad", word(&cuts.known_bad), "a mistake of a drive");
        };
        let array = ArrayConfig::plain(ssd::cells::geometry(&drive.shape, OOB));
        Ok(SsdPlan { rules, drive: drive.clone(), array, load, known_bad, sabotage: None })
    }

    /// Lets the flash fail as `faults` say, which `configured` has.
    /// Errors: a fault that loses contents, as then nothing is promised; a mapping that retires no block.
    pub(crate) fn with(mut self, faults: Option<&Faults>, configured: ArrayConfig) -> Result<SsdPlan, ExperimentError> {
        let Some(faults) = faults else { return Ok(self) };
        if !matches!(self.drive.layer, Layer::Page(_)) {
            return wrong(
                "faults",
                "it",
                "no faults with this ssd.ftl.mapping: only page-level mapping goes on after them",
            );
        }
        let corrected = configured.ecc.map_or(0, |ecc| ecc.bits);
        if faults.bitflips > corrected {
            let expected = format!("at most {corrected}, as many as ECC corrects: a drive loses what it cannot read");
            return wrong("faults.bitflips", faults.bitflips, expected);
        }
        for (key, is_set) in [("gravepages", !faults.gravepages.is_empty()), ("bit_errors", faults.bit_errors)] {
            if is_set {
                return wrong(
                    format!("faults.{key}"),
                    "it",
                    "none in cuts of a drive, which loses what it cannot read",
                );
            }
        }
        (self.array.ecc, self.array.faults) = (configured.ecc, configured.faults);
        Ok(self)
    }
}
