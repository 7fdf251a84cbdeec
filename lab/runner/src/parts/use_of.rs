//! What an experiment takes from its part.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::{Library, Part};
use crate::schema::Experiment;

/// The part of an experiment, and which of its figures were written down from memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartUse {
    /// Its name.
    pub name: String,
    /// Maker, model, size.
    pub title: String,
    /// How many values its file has.
    pub values: usize,
    /// Those of them that the experiment uses and that are recalled, wholly or in part.
    pub recalled: Vec<RecalledFigure>,
}

/// A figure that was written down from memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecalledFigure {
    /// Its key.
    pub key: String,
    /// The value as TOML.
    pub value: String,
    /// What of it is recalled; empty where all of it is.
    pub what: String,
}

impl PartUse {
    /// Of an experiment; none where it names no part that the library has.
    pub fn of(experiment: &Experiment, library: &Library) -> Option<PartUse> {
        let nand = experiment.nand.as_ref().and_then(|nand| library.nand(nand.part.as_ref()?).ok());
        let drive = experiment.ssd.as_ref().and_then(|ssd| library.drive(&ssd.part).ok());
        let part = nand.map(Part::Nand).or(drive.map(Part::Drive))?;
        let resolved = toml::Table::try_from(experiment).ok()?;
        let found = |key: &str| {
            let (first, rest) = key.split_once('.')?;
            rest.split('.').try_fold(resolved.get(first)?, |at, name| at.get(name))
        };
        // A key of a flash part that no experiment has (its OOB, its ECC) comes from the part.
        let is_used = |key: &str, value: &Value| found(key).is_none_or(|used| same(used, value));
        let figures = part.head().figures.iter().filter(|figure| figure.is_recalled());
        let recalled = figures.filter(|figure| is_used(&figure.key, &figure.value)).map(|figure| RecalledFigure {
            key: figure.key.clone(),
            value: figure.value.to_string(),
            what: figure.recalled.clone().unwrap_or_default(),
        });
        let head = part.head();
        Some(PartUse {
            name: head.name.clone(),
            title: head.title.clone(),
            values: head.figures.len(),
            recalled: recalled.collect(),
        })
    }
}

/// Whether two values are the same number, text or list: `1` and `1.0` are.
fn same(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|value| value as f64));
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => match (a.as_array(), b.as_array()) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            _ => a == b,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recalled(sets: &str) -> Vec<String> {
        let text = format!("title = 't'\n[ssd]\npart = 'nvme-tlc'\n{sets}");
        let part = PartUse::of(&Experiment::resolve(&text, &[]).unwrap(), Library::embedded()).unwrap();
        assert_eq!(part.name, "970-evo");
        part.recalled.into_iter().map(|figure| figure.key).collect()
    }

    #[test]
    fn a_figure_that_the_experiment_replaces_is_not_taken_from_memory() {
        let all = recalled("");
        assert!(all.iter().any(|key| key == "ssd.timing.erase_us") && all.len() > 10, "{all:?}");
        let fewer = recalled("timing.erase_us = 3000.0\n");
        assert!(!fewer.iter().any(|key| key == "ssd.timing.erase_us") && fewer.len() == all.len() - 1, "{fewer:?}");
        assert_eq!(recalled("timing.erase_us = 3500\n"), all);
    }

    #[test]
    fn the_base_drive_takes_nothing_from_memory() {
        let experiment = Experiment::resolve("title = 't'\n[ssd]\n", &[]).unwrap();
        assert_eq!(PartUse::of(&experiment, Library::embedded()).unwrap().recalled, []);
    }
}
