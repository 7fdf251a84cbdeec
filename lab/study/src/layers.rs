//! What a load cost the flash, by the same measures for raw flash under a guest, a ubiblock and a drive.
//!
//! Their results have these numbers under names of their own, because they know more than this. A study that compares
//! the three asks for `layers.*(run)`. They follow from a result and are not part of it. `docs/format/study.md` lists them.

use runner::measure::{Detail, Outcome};
use runner::schema::nearest;

/// Beginning of their names.
const PREFIX: &str = "layers.";

const NAMES: [&str; 5] = ["device_bytes", "flash_bytes", "erases", "worn_bytes", "endurance"];

/// What the measured part of a run cost its flash.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Layers {
    /// Bytes that the file system wrote to its device. On raw flash the device is the flash.
    device_bytes: f64,
    /// Bytes programmed.
    flash_bytes: f64,
    /// Blocks erased.
    erases: f64,
    /// Bytes of a block.
    block_bytes: f64,
    /// Erasures for which a block is rated; 0: not stated.
    endurance: u32,
}

impl Layers {
    /// The layers of a run.
    /// Errors: a run on nandlab's own UBI, whose measured part begins elsewhere.
    fn of(found: &Outcome) -> Result<Layers, &'static str> {
        let count = |id: &str| found.metrics().value(id).unwrap_or(0.0);
        let nand = found.experiment.nand.as_ref();
        let rated = |endurance: Option<u32>| endurance.unwrap_or(0);
        match &found.measured.detail {
            Detail::Flash(flash) if found.measured.guest.is_some() => Ok(Layers {
                // Programmed in the measured part; counts of causes and erase counts are since the flash was new.
                device_bytes: flash.host_bytes as f64,
                flash_bytes: flash.host_bytes as f64,
                erases: count("erase.count"),
                block_bytes: nand.map_or(0.0, |nand| f64::from(nand.peb_bytes)),
                endurance: rated(nand.map(|nand| nand.endurance)),
            }),
            Detail::Flash(_) => Err("is for a guest or a block device; here `waf` and `wear.erases` say it"),
            Detail::Drive(drive) | Detail::Ubiblock(drive) => Ok(Layers {
                device_bytes: drive.write_amplification.host_bytes as f64,
                flash_bytes: drive.write_amplification.flash_bytes as f64,
                erases: drive.wear.erases as f64,
                block_bytes: drive.block_bytes as f64,
                endurance: rated(match &found.experiment.ssd {
                    Some(ssd) => Some(ssd.endurance),
                    None => nand.map(|nand| nand.endurance),
                }),
            }),
        }
    }

    /// Bytes of flash that were worn by one erasure each: those of the blocks erased, or those programmed if they are more,
    /// because a page is erased before it is programmed again.
    fn worn_bytes(&self) -> f64 {
        self.flash_bytes.max(self.erases * self.block_bytes)
    }
}

/// Whether there is the measure `what`; `None` if the name is not one of these.
/// Errors: none is called so, with the nearest.
pub(super) fn check(what: &str) -> Option<Result<(), String>> {
    let name = what.strip_prefix(PREFIX)?;
    if NAMES.contains(&name) {
        return Some(Ok(()));
    }
    let hint = nearest(name, NAMES).map_or(String::new(), |near| format!("; did you mean `{PREFIX}{near}`?"));
    Some(Err(format!("no measure `{what}`{hint}")))
}

/// The measure `what` of a run; `None` if the name is not one of these.
/// Errors: what is wrong, in words.
pub(super) fn value(what: &str, found: &Outcome) -> Option<Result<f64, String>> {
    if let Err(why) = check(what)? {
        return Some(Err(why));
    }
    let name = what.strip_prefix(PREFIX)?;
    let value = |layers: Layers| match name {
        "device_bytes" => Ok(layers.device_bytes),
        "flash_bytes" => Ok(layers.flash_bytes),
        "erases" => Ok(layers.erases),
        "worn_bytes" => Ok(layers.worn_bytes()),
        _ if layers.endurance == 0 => Err("no rated endurance is stated".to_owned()),
        _ => Ok(f64::from(layers.endurance)),
    };
    Some(Layers::of(found).map_err(str::to_owned).and_then(value))
}

#[cfg(test)]
mod tests {
    use runner::parts::Library;
    use runner::run::Prepared;

    use super::*;
    use crate::{Logs, Spec, by_name};

    fn run(text: &str) -> Outcome {
        Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap()
    }

    fn of(found: &Outcome, name: &str) -> f64 {
        value(name, found).unwrap().unwrap()
    }

    /// A drive that collects: it programs more than it is sent.
    fn drive(endurance: u32) -> Outcome {
        run(&format!(
            "title = 't'\n[ssd]\nchannels = 1\nways = 1\nplanes = 1\nblocks = 32\npages = 8\nendurance = {endurance}\n\
             over_provisioning_percent = 40\n[workload]\nrw = 'randwrite'\nrequests = 600\n[precondition]\nkind = 'sequential'\n"
        ))
    }

    #[test]
    fn of_a_drive_they_are_its_write_amplification_and_wear() {
        let found = drive(3000);
        let metric = |id: &str| found.metrics().value(id).unwrap();
        let causes = found.metrics().all().iter().filter(|metric| metric.id.starts_with("programmed."));
        let programmed: f64 = causes.map(|metric| metric.value).sum();
        assert_eq!(of(&found, "layers.flash_bytes"), programmed);
        assert_eq!(of(&found, "layers.device_bytes"), found.drive().unwrap().op("write").unwrap().bytes as f64);
        assert_eq!(of(&found, "layers.erases"), metric("wear.erases"));
        assert_eq!(of(&found, "layers.endurance"), 3000.0);
        assert!(of(&found, "layers.flash_bytes") > of(&found, "layers.device_bytes"));
    }

    #[test]
    fn of_a_guest_on_raw_flash_they_leave_out_what_came_before_the_job() {
        let spec = Spec::parse(by_name("ubiblock-wear").unwrap()).unwrap();
        let stated = spec.runs.iter().find(|run| run.id == "ubifs-none-rndwr").unwrap();
        let prepared = spec.question_of(stated, false, Library::embedded()).unwrap();
        let (log, _) = ().of(&spec.name, stated, &prepared, &mut |_| ()).unwrap().unwrap();
        let found = prepared.replay_guest(&log, &mut |_| ()).unwrap();
        let metric = |id: &str| found.metrics().value(id).unwrap();
        assert_eq!(of(&found, "layers.flash_bytes"), metric("host.bytes"));
        assert_eq!(of(&found, "layers.device_bytes"), metric("host.bytes"));
        assert_eq!(of(&found, "layers.erases"), metric("erase.count"));
        assert!(of(&found, "layers.erases") < metric("wear.erases"), "the setup fills the volume");
    }

    #[test]
    fn what_was_programmed_is_worn_even_if_it_is_not_erased_yet() {
        let layers = Layers { device_bytes: 1.0, flash_bytes: 5e6, erases: 3.0, block_bytes: 1e6, endurance: 0 };
        assert_eq!(layers.worn_bytes(), 5e6);
        assert_eq!(Layers { erases: 7.0, ..layers }.worn_bytes(), 7e6);
    }

    #[test]
    fn what_they_do_not_know_is_said() {
        let found = drive(0);
        let wrong = |name: &str| value(name, &found).unwrap().unwrap_err();
        assert!(wrong("layers.endurance").contains("no rated endurance"));
        assert!(wrong("layers.flash_byte").contains("did you mean `layers.flash_bytes`?"));
        assert!(value("waf", &found).is_none());
        let own = run("title = 't'\n[nand]\npebs = 256\n[stop]\nvirtual_s = 1.0\n");
        assert!(value("layers.erases", &own).unwrap().unwrap_err().contains("`waf`"));
    }
}
