//! Faults of the flash of a subject.

use nand::{ArrayConfig, BitErrors, ConfigError, Ecc, FaultPlan, NandsimFaults, WearOut};
use sim::seam::Medium;
use sim::{Ns, Seed};

use crate::schema::faults::Faults;
use crate::schema::{ExperimentError, wrong};

/// Bytes of an ECC step where neither the part nor the experiment says.
const STEP_BYTES: u32 = 512;

/// The endurance of a subject.
pub(super) struct Endurance {
    /// Its key.
    pub key: &'static str,
    /// Erasures for which blocks are rated; 0 if not stated.
    pub cycles: u32,
    /// Whether blocks wear out where `[faults]` does not say.
    pub wears_out: bool,
}

/// Adds faults to a flash, whose ECC is the one that its part requires.
/// Errors: a key without effect; a value that the flash cannot have.
pub(super) fn add(
    faults: &Faults,
    endurance: &Endurance,
    seed: u64,
    config: &mut ArrayConfig,
) -> Result<(), ExperimentError> {
    let wears_out = faults.wear_out.unwrap_or(endurance.wears_out);
    let required = config.ecc;
    config.ecc = ecc(faults, required)?;
    let needs_endurance = [("wear_out", wears_out), ("bit_errors", faults.bit_errors)];
    if let Some((key, _)) = needs_endurance.into_iter().find(|(_, on)| *on && endurance.cycles == 0) {
        return wrong(format!("faults.{key}"), true, format!("{} beside it", endurance.key));
    }
    if config.geometry.medium == Medium::Nor && (faults.bit_errors || config.ecc.is_some()) {
        let key = if faults.bit_errors { "bit_errors" } else { "ecc_bits" };
        return wrong(format!("faults.{key}"), "it on a NOR", "none: a NOR has neither bit errors nor ECC here");
    }
    let default = Faults::default();
    for (key, is_set) in [
        ("reads_at_limit", faults.reads_at_limit != default.reads_at_limit),
        ("shelf_s", faults.shelf_s > 0.0),
        ("worn_cycles", faults.worn_cycles > 0 && !wears_out),
    ] {
        if is_set && !faults.bit_errors {
            return wrong(format!("faults.{key}"), "it alone", "faults.bit_errors = true beside it");
        }
    }
    let flips = [("bit_errors", faults.bit_errors), ("bitflips", faults.bitflips > 0)];
    if let Some((key, _)) = flips.into_iter().find(|(_, on)| *on)
        && faults.ecc_bits.is_none()
        && required.is_none()
        && config.geometry.medium == Medium::Nand
    {
        return wrong(format!("faults.{key}"), "no ECC", "faults.ecc_bits beside it (0 for none)");
    }
    if faults.rated_ecc_bits.is_some() && !faults.bit_errors {
        return wrong("faults.rated_ecc_bits", "it alone", "faults.bit_errors = true beside it");
    }
    let bit_errors = faults.bit_errors.then(|| {
        let model = BitErrors::by_rating(endurance.cycles);
        let step = config.ecc.or(required).map_or(STEP_BYTES, |ecc| ecc.step_bytes);
        let rated =
            faults.rated_ecc_bits.map(|bits| Ecc::new(bits, step)).or(required.filter(|_| config.ecc != required));
        BitErrors { reads_at_limit: faults.reads_at_limit, limit_rber: rated.map(|rated| model.limit(rated)), ..model }
    });
    let nandsim = NandsimFaults::parse(
        &faults.badblocks,
        &faults.weakblocks,
        &faults.weakpages,
        &faults.gravepages,
        faults.bitflips,
    );
    let nandsim = nandsim.map_err(|error| {
        let found = format!("{:?} at byte {}", error.found, error.at);
        ExperimentError::value(format!("faults.{}", error.parameter), found, error.expected)
    })?;
    config.faults = Some(FaultPlan {
        nandsim,
        wear_out: wears_out.then(|| WearOut::by_rating(endurance.cycles)),
        program_failure: faults.program_failure,
        erase_failure: faults.erase_failure,
        worn_cycles: faults.worn_cycles,
        bit_errors,
        ..FaultPlan::none(Seed(seed))
    });
    config.validate().map_err(|error| named(&error))
}

fn ecc(faults: &Faults, required: Option<Ecc>) -> Result<Option<Ecc>, ExperimentError> {
    let bits = faults.ecc_bits.unwrap_or(required.map_or(0, |ecc| ecc.bits));
    if bits == 0 {
        for (key, value) in [("ecc_step_bytes", faults.ecc_step_bytes), ("bitflip_threshold", faults.bitflip_threshold)]
        {
            if let Some(value) = value {
                return wrong(format!("faults.{key}"), value, "faults.ecc_bits beside it");
            }
        }
        return Ok(None);
    }
    let step = faults.ecc_step_bytes.unwrap_or(required.map_or(STEP_BYTES, |ecc| ecc.step_bytes));
    let default = match required {
        Some(ecc) if (ecc.bits, ecc.step_bytes) == (bits, step) => ecc,
        _ => Ecc::new(bits, step),
    };
    Ok(Some(Ecc { scrub_at: faults.bitflip_threshold.unwrap_or(default.scrub_at), ..default }))
}

/// An error of the flash by the key of `[faults]`.
fn named(error: &ConfigError) -> ExperimentError {
    let key = match error.field {
        "ecc.bits" => "ecc_bits",
        "ecc.step_bytes" => "ecc_step_bytes",
        "ecc.scrub_at" => "bitflip_threshold",
        field => field.rsplit('.').next().unwrap_or(field),
    };
    ExperimentError::value(format!("faults.{key}"), error.found, error.expected)
}

/// Time that data written before the load age until it begins.
pub(super) fn shelf(faults: &Faults) -> Ns {
    Ns((faults.shelf_s * 1e9) as u64)
}

/// Whether reads meet faults, so that the flash must be read where it otherwise keeps no bytes.
pub fn reach_reads(config: &ArrayConfig) -> bool {
    let Some(plan) = &config.faults else { return false };
    plan.bit_errors.is_some() || plan.nandsim.bitflips > 0 || !plan.nandsim.grave_pages.is_empty()
}
