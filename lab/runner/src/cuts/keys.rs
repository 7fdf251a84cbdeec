//! A strict reader of TOML tables: every key is taken by name, and one that nobody took is an error that names its
//! nearest relative.

use toml::{Table, Value};

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: found {found}, expected {expected}")]
pub struct PlanError {
    /// The key, with its tables; empty when the text is no TOML.
    pub key: String,
    /// What is there.
    pub found: String,
    /// What may be there.
    pub expected: String,
}

impl PlanError {
    pub(super) fn new(key: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> PlanError {
        PlanError { key: key.into(), found: found.to_string(), expected: expected.into() }
    }
}

/// A table whose keys are being taken.
pub(super) struct Keys {
    path: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Keys {
    /// Errors: the text is no TOML.
    pub fn parse(text: &str) -> Result<Keys, PlanError> {
        let table = text.parse::<Table>().map_err(|error| {
            let place = error.span().map_or(0, |span| span.start);
            let line = text.as_bytes()[..place.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1;
            PlanError::new(format!("line {line}"), error.message(), "TOML")
        })?;
        Ok(Keys { path: String::new(), table, known: Vec::new() })
    }

    /// The key with its tables.
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    fn mismatch<T>(&self, key: &str, found: &Value, expected: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError::new(self.path(key), found, expected))
    }

    /// The table `key`; an empty one when it is not there.
    pub fn table(&mut self, key: &'static str) -> Result<Keys, PlanError> {
        let path = self.path(key);
        match self.take(key) {
            None => Ok(Keys { path, table: Table::new(), known: Vec::new() }),
            Some(Value::Table(table)) => Ok(Keys { path, table, known: Vec::new() }),
            Some(other) => self.mismatch(key, &other, "a table"),
        }
    }

    /// The values of the table `key` as they stand there, for another reader; `None` when it is not there.
    pub fn values(&mut self, key: &'static str) -> Result<Option<Table>, PlanError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(other) => self.mismatch(key, &other, "a table"),
        }
    }

    /// An integer from `least` to `most`, `default` when it is not there.
    pub fn number(&mut self, key: &'static str, least: u64, most: u64, default: u64) -> Result<u64, PlanError> {
        match self.take(key) {
            None => Ok(default),
            Some(Value::Integer(number)) if u64::try_from(number).is_ok_and(|n| (least..=most).contains(&n)) => {
                Ok(number as u64)
            }
            Some(other) => self.mismatch(key, &other, format!("an integer from {least} to {most}")),
        }
    }

    /// As [`number`](Self::number), for what is 32 bits wide.
    pub fn small(&mut self, key: &'static str, least: u32, most: u32, default: u32) -> Result<u32, PlanError> {
        Ok(self.number(key, least.into(), most.into(), default.into())? as u32)
    }

    /// An integer from `least` to `most`, if it is there.
    pub fn optional(&mut self, key: &'static str, least: u32, most: u32) -> Result<Option<u32>, PlanError> {
        if !self.table.contains_key(key) {
            self.known.push(key);
            return Ok(None);
        }
        self.small(key, least, most, least).map(Some)
    }

    /// `true` or `false`.
    pub fn switch(&mut self, key: &'static str, default: bool) -> Result<bool, PlanError> {
        match self.take(key) {
            None => Ok(default),
            Some(Value::Boolean(on)) => Ok(on),
            Some(other) => self.mismatch(key, &other, "true or false"),
        }
    }

    /// A string, if it is there.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, PlanError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => self.mismatch(key, &other, "a string"),
        }
    }

    /// One of the names in `choices`.
    pub fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
        default: T,
    ) -> Result<T, PlanError> {
        match self.text(key)? {
            None => Ok(default),
            Some(name) => self.chosen(key, &name, choices),
        }
    }

    fn chosen<T: Copy>(&self, key: &str, name: &str, choices: &[(&'static str, T)]) -> Result<T, PlanError> {
        let found = choices.iter().find(|(choice, _)| *choice == name);
        found.map(|&(_, value)| value).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(choice, _)| format!("{choice:?}")).collect();
            PlanError::new(self.path(key), format!("{name:?}"), format!("one of {}", names.join(", ")))
        })
    }

    /// Names out of `choices`, each once, at least one; all of them when the key is not there.
    pub fn choices<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<Vec<(&'static str, T)>, PlanError> {
        let values = match self.take(key) {
            None => return Ok(choices.to_vec()),
            Some(Value::Array(values)) if !values.is_empty() => values,
            Some(other) => return self.mismatch(key, &other, "a list of names, at least one"),
        };
        let mut taken: Vec<(&'static str, T)> = Vec::new();
        for value in &values {
            let Value::String(name) = value else { return self.mismatch(key, value, "a name") };
            let value = self.chosen(key, name, choices)?;
            let name = choices.iter().find(|(choice, _)| choice == name).map_or("", |(choice, _)| choice);
            if taken.iter().any(|(other, _)| *other == name) {
                return Err(PlanError::new(self.path(key), format!("{name:?} twice"), "each name once"));
            }
            taken.push((name, value));
        }
        Ok(taken)
    }

    /// Errors: a key is left that nobody took.
    pub fn finish(self) -> Result<(), PlanError> {
        let Some(key) = self.table.keys().next() else { return Ok(()) };
        let nearest = self.known.iter().min_by_key(|known| distance(known, key));
        let nearest =
            nearest.map_or("nothing here".to_owned(), |known| format!("a known key; the nearest is `{known}`"));
        Err(PlanError::new(self.path(key), "an unknown key", nearest))
    }
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let kept = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = kept.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
