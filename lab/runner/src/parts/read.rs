//! The form that all parts share: a name, a title, sources, and values with their provenance.

use toml::{Table, Value};

use super::error::PartError;

/// Largest file.
const MAX_BYTES: usize = 64 << 10;
/// Longest name and alias, in bytes.
const MAX_NAME: usize = 64;
/// Most elements of a value that is a list.
const MAX_LIST: usize = 128;
const RECALLED: &str = "recalled";
/// Keys of a figure.
const OF_FIGURE: [&str; 5] = ["value", "source", "derived", "calibrated", RECALLED];
const OF_FILE: [&str; 7] = ["name", "title", "aliases", "kind", "sources", "nand", "ssd"];

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// It was read there.
    Source(String),
    /// It was written down from memory: for design, never for acceptance.
    Recalled,
    /// It was fitted to measured rows, which therefore prove nothing about the model.
    Calibrated(String),
    /// It follows from other figures, as the text says.
    Derived(String),
}

impl Provenance {
    /// `source`, `recalled`, `calibrated` or `derived`.
    pub fn word(&self) -> &'static str {
        match self {
            Provenance::Source(_) => "source",
            Provenance::Recalled => RECALLED,
            Provenance::Calibrated(_) => "calibrated",
            Provenance::Derived(_) => "derived",
        }
    }

    /// The document, the rows or the reasoning; empty for what is recalled.
    pub fn text(&self) -> &str {
        match self {
            Provenance::Source(text) | Provenance::Calibrated(text) | Provenance::Derived(text) => text,
            Provenance::Recalled => "",
        }
    }
}

/// A value of a part.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its key with its tables, as in an experiment: `ssd.timing.read_us`.
    pub key: String,
    /// What the file says.
    pub value: Value,
    /// Where that is from.
    pub provenance: Provenance,
    /// What of it is recalled where not all of it is, or what is recalled where all of it is.
    pub recalled: Option<String>,
}

impl Figure {
    /// Whether it, or a part of it, was written down from memory.
    pub fn is_recalled(&self) -> bool {
        self.provenance == Provenance::Recalled || self.recalled.is_some()
    }
}

/// What every part has.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The file it was read from; for errors.
    pub file: String,
    /// Its name in experiments.
    pub name: String,
    /// Other names that it answers to.
    pub aliases: Vec<String>,
    /// Maker, model, size.
    pub title: String,
    /// The values of its file, in the order of their keys.
    pub figures: Vec<Figure>,
}

impl Head {
    /// The name, then the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).map(String::as_str)
    }

    /// Whether that is one of its names, letters' case apart.
    pub fn answers_to(&self, name: &str) -> bool {
        self.names().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// How many values are recalled, wholly or in part.
    pub fn recalled(&self) -> usize {
        self.figures.iter().filter(|figure| figure.is_recalled()).count()
    }

    pub(super) fn wrong<T>(
        &self,
        key: &str,
        found: impl ToString,
        expected: impl Into<String>,
    ) -> Result<T, PartError> {
        Err(PartError::value(&self.file, key, found, expected))
    }
}

/// A file whose form is right; what its keys mean is not known here.
pub(super) struct Source {
    pub head: Head,
    pub kind: Option<String>,
    pub is_drive: bool,
}

impl Source {
    /// Errors: not TOML, too long, an unknown key beside the values, a value without provenance, a source that is not
    /// listed or that nothing names.
    pub fn parse(file: &str, text: &str) -> Result<Source, PartError> {
        let wrong = |key: &str, found: &dyn std::fmt::Display, expected: &str| {
            Err(PartError::value(file, key, found, expected))
        };
        if text.len() > MAX_BYTES {
            return wrong("the file", &format!("{} bytes", text.len()), "at most 65,536 bytes");
        }
        let mut top: Table = text.parse().map_err(|error: toml::de::Error| {
            let place = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.as_bytes()[..place].iter().filter(|&&byte| byte == b'\n').count() + 1;
            PartError::value(file, &format!("line {line}"), error.message(), "TOML")
        })?;
        if let Some(key) = top.keys().find(|key| !OF_FILE.contains(&key.as_str())) {
            return Err(PartError::unknown_key(file, key, OF_FILE));
        }
        let mut text_of = |key: &str| match top.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(PartError::value(file, key, other, "a string")),
        };
        let missing = |key: &str| PartError::value(file, key, "nothing", "a string");
        let name = text_of("name")?.ok_or_else(|| missing("name"))?;
        let title = text_of("title")?.ok_or_else(|| missing("title"))?;
        let kind = text_of("kind")?;
        let aliases = match top.remove("aliases") {
            None => Vec::new(),
            Some(Value::Array(list)) if list.len() <= MAX_LIST && list.iter().all(Value::is_str) => {
                list.into_iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            }
            Some(other) => return wrong("aliases", &other, "a list of names"),
        };
        let mut names: Vec<String> = Vec::new();
        for (key, name) in std::iter::once(("name", &name)).chain(aliases.iter().map(|alias| ("aliases", alias))) {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
                return wrong(key, &format!("{name:?}"), "1 to 64 letters, digits, dots, dashes and underscores");
            }
            names.push(name.to_ascii_lowercase());
        }
        names.sort();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return wrong("aliases", &"a name twice", "each name once");
        }
        let sources = match top.remove("sources") {
            None => Table::new(),
            Some(Value::Table(sources)) => sources,
            Some(other) => return wrong("sources", &other, "a table of texts"),
        };
        for (key, source) in &sources {
            if key == RECALLED || source.as_str().is_none_or(|text| text.trim().is_empty()) {
                return wrong(&format!("sources.{key}"), source, "a text, under a name other than `recalled`");
            }
        }
        let is_drive = top.contains_key("ssd");
        let (table, values) = match (top.remove("nand"), top.remove("ssd")) {
            (Some(Value::Table(values)), None) => ("nand", values),
            (None, Some(Value::Table(values))) => ("ssd", values),
            _ => return wrong("nand, ssd", &"both, none, or no table", "a table [nand] or a table [ssd]"),
        };
        let mut figures = Vec::new();
        walk(file, table, values, &sources, &mut figures)?;
        let is_named = |text: &str| figures.iter().any(|figure| figure.provenance == Provenance::Source(text.into()));
        if let Some((key, _)) = sources.iter().find(|(_, text)| !text.as_str().is_some_and(is_named)) {
            return wrong(&format!("sources.{key}"), &"a source of nothing", "a source that a value names");
        }
        let head = Head { file: file.to_owned(), name, aliases, title, figures };
        Ok(Source { head, kind, is_drive })
    }
}

/// Collects the figures below `prefix`. The reader of TOML bounds how deep tables lie in each other.
fn walk(file: &str, prefix: &str, table: Table, sources: &Table, into: &mut Vec<Figure>) -> Result<(), PartError> {
    for (name, value) in table {
        let key = format!("{prefix}.{name}");
        match value {
            Value::Table(inner) if OF_FIGURE.iter().any(|key| inner.contains_key(*key)) => {
                into.push(figure(file, key, inner, sources)?);
            }
            Value::Table(inner) => {
                // Deeper than any key, and long: refused before it grows.
                if key.len() > 256 {
                    return Err(PartError::unknown_key(file, &key, []));
                }
                walk(file, &key, inner, sources, into)?;
            }
            bare => {
                let expected = "{ value = …, source = \"…\" }, with derived, calibrated or recalled in place of source";
                return Err(PartError::value(file, &key, format!("{bare} without a source"), expected));
            }
        }
    }
    Ok(())
}

fn figure(file: &str, key: String, mut table: Table, sources: &Table) -> Result<Figure, PartError> {
    let wrong = |found: String, expected: &str| Err(PartError::value(file, &key, found, expected));
    if let Some(extra) = table.keys().find(|name| !OF_FIGURE.contains(&name.as_str())) {
        return Err(PartError::unknown_key(file, &format!("{key}.{extra}"), OF_FIGURE));
    }
    let Some(value) = table.remove("value") else { return wrong("no value".to_owned(), "value = …") };
    let is_finite = |value: &Value| value.as_float().is_none_or(f64::is_finite);
    let is_fine = match &value {
        Value::Array(list) => list.len() <= MAX_LIST && list.iter().all(is_finite),
        Value::Datetime(_) | Value::Table(_) => false,
        single => is_finite(single),
    };
    if !is_fine {
        return wrong(value.to_string(), "a finite number, a word, true or false, or a list of at most 128");
    }
    let mut texts = Vec::new();
    for name in &OF_FIGURE[1..] {
        match table.remove(*name) {
            None => texts.push(None),
            Some(Value::String(text)) if !text.trim().is_empty() => texts.push(Some(text)),
            Some(other) => return wrong(format!("{name} = {other}"), "a text that is not empty"),
        }
    }
    let [source, derived, calibrated, recalled] = <[Option<String>; 4]>::try_from(texts).unwrap_or_default();
    let provenance = match (source, derived, calibrated) {
        (Some(name), None, None) if name == RECALLED => Provenance::Recalled,
        (Some(name), None, None) => match sources.get(&name).and_then(Value::as_str) {
            Some(text) => Provenance::Source(text.to_owned()),
            None => {
                let known: Vec<_> = sources.keys().map(String::as_str).chain([RECALLED]).collect();
                return wrong(format!("source = {name:?}"), &format!("one of {}", known.join(", ")));
            }
        },
        (None, Some(text), None) => Provenance::Derived(text),
        (None, None, Some(text)) => Provenance::Calibrated(text),
        (None, None, None) if recalled.is_some() => Provenance::Recalled,
        (None, None, None) => return wrong("no source".to_owned(), "source, derived, calibrated or recalled"),
        _ => return wrong("more than one provenance".to_owned(), "one of source, derived, calibrated"),
    };
    Ok(Figure { key, value, provenance, recalled })
}
