//! Parts (stand-in until the library of parts arrives).
use crate::schema::nearest;
use crate::ssd::presets;
use toml::{Table, Value};

/// Library.
pub struct Library;
/// Error.
pub struct PartError {
    name: String,
    known: Vec<String>,
}
impl PartError {
    /// Found.
    pub fn found(&self) -> String {
        self.name.clone()
    }
    /// Expected.
    pub fn expected(&self) -> String {
        let near = nearest(&self.name, self.known.iter().map(String::as_str));
        format!(
            "one of {}{}",
            self.known.join(", "),
            near.map_or(String::new(), |near| format!("; did you mean `{near}`?"))
        )
    }
}
impl Library {
    /// Embedded.
    pub fn embedded() -> &'static Library {
        &Library
    }
    /// Nand.
    pub fn nand(&self, name: &str) -> Result<nand::ArrayConfig, PartError> {
        nand::presets::by_name(name)
            .map(|part| part.config())
            .map_err(|_| PartError { name: name.into(), known: vec![] })
    }
    /// Values of `[nand]`.
    pub fn nand_values(&self, name: &str) -> Result<Table, PartError> {
        let geometry = self.nand(name)?.geometry;
        let mut table = Table::new();
        let medium = if geometry.medium == sim::seam::Medium::Nor { "nor" } else { "nand" };
        table.insert("medium".into(), Value::String(medium.into()));
        for (key, value) in [
            ("pebs", geometry.pebs),
            ("peb_bytes", geometry.peb_bytes),
            ("page_bytes", geometry.page_bytes),
            ("subpage_bytes", geometry.subpage_bytes),
        ] {
            table.insert(key.into(), Value::Integer(value.into()));
        }
        table.insert("delays".into(), Value::String("part".into()));
        Ok(table)
    }
    /// Drive.
    pub fn drive(&self, name: &str) -> Result<Table, PartError> {
        let preset = presets::by_name(name).map_err(|name| PartError {
            name,
            known: presets::names().iter().map(|name| (*name).to_owned()).collect(),
        })?;
        if name == "base" {
            return Ok(Table::new());
        }
        Ok(preset.own())
    }
}
