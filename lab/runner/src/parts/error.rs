//! What can be wrong with a part or its name.

use super::Part;
use crate::schema::nearest;

/// Longest text of a file that an error repeats, in characters.
const SHOWN: usize = 60;
/// Longest name for which a nearest one is looked for, in bytes.
const LOOKED_UP: usize = 64;

/// Why a part cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// A file says something that no part says.
    #[error("{file}: {key}: found {found}, expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// The key with its tables, or the line of text that is no TOML.
        key: String,
        /// What is there.
        found: String,
        /// What may be there.
        expected: String,
    },
    /// No part has that name.
    #[error("no {what} is called {name:?}{}", nearest.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?")))]
    Unknown {
        /// `part`, `flash part` or `drive`.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// The name nearest to it, if one is near.
        nearest: Option<String>,
    },
}

impl PartError {
    pub(super) fn value(file: &str, key: &str, found: impl ToString, expected: impl Into<String>) -> PartError {
        let found = short(&found.to_string());
        PartError::Value { file: file.to_owned(), key: short(key), found, expected: expected.into() }
    }

    pub(super) fn unknown_key<'a>(file: &str, key: &str, known: impl IntoIterator<Item = &'a str>) -> PartError {
        let near = near(key, known).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        PartError::value(file, key, "an unknown key", format!("a known one{near}"))
    }

    pub(super) fn unknown<'a>(what: &'static str, name: &str, parts: impl Iterator<Item = Part<'a>>) -> PartError {
        let names: Vec<_> = parts.flat_map(|part| part.head().names()).collect();
        let lower: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let nearest = near(&name.to_ascii_lowercase(), lower.iter().map(String::as_str));
        // As the part writes it.
        let written =
            |near: String| names.iter().find(|name| name.eq_ignore_ascii_case(&near)).map(ToString::to_string);
        PartError::Unknown { what, name: short(name), nearest: nearest.and_then(written) }
    }

    /// What was found.
    pub fn found(&self) -> &str {
        match self {
            PartError::Value { found, .. } => found,
            PartError::Unknown { name, .. } => name,
        }
    }

    /// What may be there instead.
    pub fn expected(&self) -> String {
        match self {
            PartError::Value { expected, .. } => expected.clone(),
            PartError::Unknown { what, nearest, .. } => {
                let near = nearest.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                format!("a {what} that `nandlab parts` lists, or one of your own with --parts DIR{near}")
            }
        }
    }
}

fn near<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    (key.len() <= LOOKED_UP).then(|| nearest(key, known)).flatten()
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
