//! Drives: the values that lie under an experiment's `[ssd]`.

use toml::{Table, Value};

use super::error::PartError;
use super::read::{Figure, Head, Source};
use crate::ssd::experiment::{SsdSection, keys, lay_over};

/// Two ways to say how much of the flash is spare; a part gives one of them.
const CAPACITY: [&str; 2] = ["ssd.over_provisioning_percent", "ssd.capacity_bytes"];

/// A drive.
#[derive(Clone, Debug, PartialEq)]
pub struct DrivePart {
    /// Name, title, values of its own file.
    pub head: Head,
    table: Table,
}

/// Whether a value of `key` takes the place of one of `below`.
pub(super) fn replaces(key: &str, below: &str) -> bool {
    key == below || CAPACITY.contains(&key) && CAPACITY.contains(&below)
}

impl DrivePart {
    /// All values as plain TOML, its own over those of the drive `base`: a table `ssd`, to lie under an experiment.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Errors: a key that no experiment has, or a value of the wrong type. Whether the numbers make a drive is found
    /// when an experiment is built on it.
    pub(super) fn read(source: Source, base: Option<&DrivePart>) -> Result<DrivePart, PartError> {
        let Source { head, kind, .. } = source;
        if let Some(kind) = kind {
            return head.wrong("kind", format!("{kind:?}"), "no such key: a drive has none");
        }
        let known: Vec<_> = keys().into_iter().filter(|key| key.starts_with("ssd.") && *key != "ssd.preset").collect();
        if let Some(figure) = head.figures.iter().find(|figure| !known.contains(&figure.key.as_str())) {
            return Err(PartError::unknown_key(&head.file, &figure.key, known));
        }
        if CAPACITY.iter().all(|key| head.figures.iter().any(|figure| figure.key == *key)) {
            return head.wrong(CAPACITY[1], format!("it and {}", CAPACITY[0]), "one of the two");
        }
        let mut table = base.map_or_else(Table::new, |base| base.table.clone());
        lay_over(&mut table, plain(&head.figures));
        if let Err(whole) = types(&table) {
            // One value after the other, to name the one that is wrong.
            for figure in &head.figures {
                let mut alone = base.map_or_else(Table::new, |base| base.table.clone());
                lay_over(&mut alone, plain(std::slice::from_ref(figure)));
                if let (Some(_), Err(expected)) = (base, types(&alone)) {
                    return head.wrong(&figure.key, &figure.value, expected);
                }
            }
            return head.wrong("ssd", "values that do not fit together", whole);
        }
        Ok(DrivePart { head, table })
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

/// Whether the values have the types of an experiment's.
/// Errors: what was expected.
fn types(table: &Table) -> Result<(), String> {
    let mut ssd = table.get("ssd").and_then(Value::as_table).cloned().unwrap_or_default();
    ssd.insert("preset".to_owned(), "".into());
    Value::Table(ssd).try_into::<SsdSection>().map(drop).map_err(|error| {
        let message = error.message();
        message.rsplit_once("expected ").map_or(message, |(_, expected)| expected).to_owned()
    })
}
