//! Drives: values of an experiment's table `[ssd]`, over the defaults of the schema.

use toml::{Table, Value};

use super::Library;
use super::error::PartError;
use super::read::{Figure, Head, Source};
use crate::schema::{self, Experiment, ExperimentError};
use crate::subject::Subject;

/// A drive.
#[derive(Clone, Debug, PartialEq)]
pub struct DrivePart {
    /// Name, title, values of its own file.
    pub head: Head,
    table: Table,
}

impl DrivePart {
    /// Its values as plain TOML: a table `ssd`, to lie under an experiment's.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Errors: a key that no drive has, a value out of its bounds.
    pub(super) fn read(source: Source) -> Result<DrivePart, PartError> {
        let Source { head, kind, .. } = source;
        if let Some(kind) = kind {
            return head.wrong("kind", format!("{kind:?}"), "no such key: a drive has none");
        }
        if let Some(figure) = head.figures.iter().find(|figure| figure.key == "ssd.part") {
            return head.wrong("ssd.part", &figure.value, "no such key: a drive lies over no other");
        }
        let mut table = plain(&head.figures);
        schema::check_drive(&mut table).map_err(|error| of_file(&head, error))?;
        Ok(DrivePart { head, table })
    }

    /// Whether the values make a drive.
    /// Errors: the first key whose value does not.
    pub(super) fn build(&self) -> Result<(), PartError> {
        let mut whole = self.table.clone();
        whole.insert("title".to_owned(), Value::String(self.head.name.clone()));
        Experiment::from_table(whole, &[], &Library::default())
            .and_then(|experiment| Subject::build_with(&experiment, &Library::default()))
            .map(drop)
            .map_err(|error| of_file(&self.head, error))
    }
}

/// Whether a value of `key` replaces one of the drive `base` under the key `below`.
pub(super) fn replaces(key: &str, below: &str) -> bool {
    key == below || schema::are_rivals(key, below)
}

fn of_file(head: &Head, error: ExperimentError) -> PartError {
    match error {
        ExperimentError::Syntax(text) => PartError::value(&head.file, "ssd", text, "a table"),
        ExperimentError::UnknownKey { key, .. } => {
            let known = schema::keys().iter().filter(|key| key.starts_with("ssd.") && *key != "ssd.part");
            PartError::unknown_key(&head.file, &key, known.map(String::as_str))
        }
        ExperimentError::Value { key, found, expected } => PartError::value(&head.file, &key, found, expected),
    }
}

/// The values without their provenance.
fn plain(figures: &[Figure]) -> Table {
    let mut top = Table::new();
    for figure in figures {
        let mut at = &mut top;
        let mut path: Vec<&str> = figure.key.split('.').collect();
        let leaf = path.pop().unwrap_or_default();
        for name in path {
            let below = at.entry(name).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = below else { return top };
            at = inner;
        }
        at.insert(leaf.to_owned(), figure.value.clone());
    }
    top
}
