//! Parts by name: what lies below an experiment that names one.
//!
//! NAND and NOR parts are those of `nand::presets`, drives those of [`crate::ssd::presets`]; both have a source for each figure.
//! Nothing else of the runner knows where a part comes from.

use sim::seam::Medium;
use toml::{Table, Value};

use crate::schema::nearest;
use crate::ssd::presets;

/// The parts that an experiment may name.
#[derive(Debug)]
pub struct Library;

/// A name that no part has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no part is called `{name}`, expected {}", self.expected())]
pub struct PartError {
    name: String,
    known: Vec<&'static str>,
}

impl PartError {
    /// The name that was given.
    pub fn found(&self) -> &str {
        &self.name
    }

    /// The known names, and the nearest of them.
    pub fn expected(&self) -> String {
        let near = nearest(&self.name, self.known.iter().copied());
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        format!("one of {}{near}", self.known.join(", "))
    }
}

impl Library {
    /// The parts that nandlab has.
    pub fn embedded() -> &'static Library {
        &Library
    }

    /// Geometry, rules and times of a NAND or NOR part.
    /// Errors: no part has that name.
    pub fn nand(&self, name: &str) -> Result<nand::ArrayConfig, PartError> {
        let known = || nand::presets::all().map(|part| part.name).collect();
        let part = nand::presets::by_name(name).map_err(|_| PartError { name: name.to_owned(), known: known() })?;
        Ok(part.config())
    }

    /// Values of the table `[nand]` for such a part.
    /// Errors: as there.
    pub fn nand_values(&self, name: &str) -> Result<Table, PartError> {
        let geometry = self.nand(name)?.geometry;
        let word = |word: &str| Value::String(word.to_owned());
        let numbers = [
            ("pebs", geometry.pebs),
            ("peb_bytes", geometry.peb_bytes),
            ("page_bytes", geometry.page_bytes),
            ("subpage_bytes", geometry.subpage_bytes),
        ];
        let mut values: Table =
            numbers.into_iter().map(|(key, value)| (key.to_owned(), Value::Integer(value.into()))).collect();
        values.insert("medium".to_owned(), word(if geometry.medium == Medium::Nor { "nor" } else { "nand" }));
        values.insert("delays".to_owned(), word("part"));
        Ok(values)
    }

    /// Values of a drive: the table `[ssd]`, those that differ from the schema's defaults.
    /// Errors: no drive has that name.
    pub fn drive(&self, name: &str) -> Result<Table, PartError> {
        if name == "base" {
            return Ok(Table::new());
        }
        let preset = presets::by_name(name).map_err(|name| PartError { name, known: presets::names() })?;
        Ok(preset.own())
    }
}

#[cfg(test)]
mod tests {
    use crate::schema::Experiment;
    use crate::subject::Subject;

    #[test]
    fn every_nand_part_is_raw_flash_with_its_geometry_and_times() {
        for part in nand::presets::all() {
            let text = format!("title = 't'\n[nand]\npart = '{}'\n", part.name);
            let experiment = Experiment::resolve(&text, &[]).unwrap();
            // UBI needs room for its headers, which byte-wide EEPROMs and the like may not have.
            let Ok(Subject::Flash(flash)) = Subject::build(&experiment) else { continue };
            let config = part.config();
            assert_eq!(flash.array.timing, config.timing, "{}", part.name);
            assert_eq!((flash.array.rules, flash.array.geometry.pebs), (config.rules, config.geometry.pebs));
        }
    }

    #[test]
    fn an_unknown_part_names_the_nearest() {
        let refused = |text: &str| Experiment::resolve(text, &[]).unwrap_err().to_string();
        let first = nand::presets::all().next().unwrap().name;
        let error = refused(&format!("title = 't'\n[nand]\npart = '{first}x'\n"));
        assert!(
            error.starts_with("key `nand.part`") && error.ends_with(&format!("did you mean `{first}`?")),
            "{error}"
        );
        let error = refused("title = 't'\n[ssd]\npart = 'nvme-tcl'\n");
        assert!(error.starts_with("key `ssd.part`") && error.ends_with("did you mean `nvme-tlc`?"), "{error}");
    }
}
