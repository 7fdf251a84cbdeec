//! Checks a file against the schema: unknown keys, wrong types, unknown words, numbers out of bounds.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::Value as Node;
use toml::{Table, Value};

use super::unit::Unit;
use super::{ExperimentError, document, wrong};

/// Every key and table, in the order of the schema.
pub fn keys() -> &'static [String] {
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
        fn walk(node: &Node, prefix: &str, keys: &mut Vec<String>) {
            for (name, inner) in properties(node).into_iter().flatten() {
                let key = format!("{prefix}{name}");
                if properties(inner).is_some() { walk(inner, &format!("{key}."), keys) } else { keys.push(key) }
            }
        }
        let mut keys = Vec::new();
        walk(document::json_schema(), "", &mut keys);
        keys
    });
    &KEYS
}

/// Schema of a dotted key that is not a table.
pub fn node_of(key: &str) -> Option<&'static Node> {
    let found = key.split('.').try_fold(document::json_schema(), |node, part| properties(node)?.get(part))?;
    properties(found).is_none().then_some(found)
}

/// The known name nearest to `name`, if one is near enough. All suggestions come from here.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &str| {
        let whole = strsim::damerau_levenshtein(name, known);
        whole.min(1 + strsim::damerau_levenshtein(&last(name), &last(known)))
    };
    known
        .into_iter()
        .map(|known| (distance(known), known))
        .min()
        .filter(|&(distance, known)| distance <= known.len().max(3) / 3 + 1)
        .map(|(_, known)| known.to_owned())
}

/// How a word is written in a file.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Node::String(word)) => word,
        other => other.map_or_else(|error| error.to_string(), |node| node.to_string()),
    }
}

/// Checks a table. Errors: the first fault, in the order of the file's keys. Numbers that stand for a word (`version =
/// 2.0`) are converted to it, and text with a unit (`"4k"`) to a number.
pub fn check(table: &mut Table) -> Result<(), ExperimentError> {
    table_is(document::json_schema(), table, "")
}

/// As [`check`], of the value of one key of the file.
/// Errors: a value that the key cannot have. Panics if no experiment has the key.
pub fn check_key(key: &str, value: &mut Value) -> Result<(), ExperimentError> {
    value_is(&properties(document::json_schema()).expect("the schema is a table")[key], value, key)
}

/// Removes the `null` that an optional key has in JSON.
pub(super) fn plain(node: &Node) -> &Node {
    let alternatives = node.get("anyOf").and_then(Node::as_array);
    let mut others = alternatives.into_iter().flatten().filter(|one| one["type"] != "null");
    match (others.next(), others.next()) {
        (Some(one), None) => one,
        _ => node,
    }
}

pub(super) fn properties(node: &Node) -> Option<&serde_json::Map<String, Node>> {
    plain(node).get("properties")?.as_object()
}

fn table_is(node: &Node, table: &mut Table, prefix: &str) -> Result<(), ExperimentError> {
    let known = properties(node).expect("a table has properties");
    for (name, value) in table.iter_mut() {
        let key = format!("{prefix}{name}");
        let Some(node) = known.get(name) else {
            let nearest = nearest(&key, keys().iter().map(String::as_str));
            return Err(ExperimentError::UnknownKey { key, nearest });
        };
        value_is(node, value, &key)?;
    }
    let required = plain(node).get("required").and_then(Node::as_array);
    for name in required.into_iter().flatten().filter_map(Node::as_str) {
        if !table.contains_key(name) {
            return wrong(format!("{prefix}{name}"), "nothing", describe(&known[name]));
        }
    }
    Ok(())
}

fn value_is(node: &Node, value: &mut Value, key: &str) -> Result<(), ExperimentError> {
    if properties(node).is_some() {
        return match value {
            Value::Table(table) => table_is(node, table, &format!("{key}.")),
            other => wrong(key, shown(other), "a table"),
        };
    }
    let node = plain(node);
    let mut written = None;
    if let Value::String(text) = &*value
        && is_number(node)
        && let Some(unit) = Unit::of(key)
    {
        match unit.read(text, !has_type(node, "number")) {
            Ok(number) => written = Some(std::mem::replace(value, number)),
            Err(expected) => return wrong(key, text, format!("{}{expected}", describe(node))),
        }
    }
    let words = words(node);
    if let Value::Integer(_) | Value::Float(_) = value
        && let Some(number) = value.as_float().or(value.as_integer().map(|number| number as f64))
        && words.contains(&format!("{number:.1}").as_str())
    {
        *value = Value::String(format!("{number:.1}"));
    }
    if let Value::Array(items) = value
        && has_type(node, "array")
    {
        let length = items.len() as u64;
        let bound = |name: &str, otherwise| node.get(name).and_then(Node::as_u64).unwrap_or(otherwise);
        if length < bound("minItems", 0) || length > bound("maxItems", u64::MAX) {
            return wrong(key, format!("{length} values"), describe(node));
        }
        return items
            .iter_mut()
            .enumerate()
            .try_for_each(|(at, item)| value_is(&node["items"], item, &format!("{key}[{at}]")));
    }
    let alternatives = node.get("anyOf").and_then(Node::as_array);
    let fits = match alternatives {
        Some(alternatives) => alternatives.iter().any(|one| fits(one, value)),
        None => fits(node, value),
    };
    if fits {
        return Ok(());
    }
    let mut expected = describe(node);
    if let Value::String(found) = &*value
        && let Some(near) = nearest(found, words)
    {
        expected += &format!("; did you mean `{near}`?");
    }
    match written {
        Some(text) => wrong(key, format!("{}, {}", shown(&text), shown(value)), expected),
        None => wrong(key, shown(value), expected),
    }
}

/// Whether a key takes a number.
pub(super) fn is_number(node: &Node) -> bool {
    ["integer", "number"].iter().any(|name| has_type(plain(node), name))
}

fn has_type(node: &Node, name: &str) -> bool {
    match &node["type"] {
        Node::String(one) => one == name,
        Node::Array(several) => several.iter().any(|one| one == name),
        _ => false,
    }
}

/// Whether a key takes only text.
pub fn is_text(node: &Node) -> bool {
    let node = plain(node);
    has_type(node, "string") || (!words(node).is_empty() && node.get("anyOf").is_none())
}

/// Words that a key takes; empty if it takes any value of its type.
pub(super) fn words(node: &Node) -> Vec<&str> {
    let mut found: Vec<&str> = node.get("const").and_then(Node::as_str).into_iter().collect();
    found.extend(node.get("enum").and_then(Node::as_array).into_iter().flatten().filter_map(Node::as_str));
    for name in ["oneOf", "anyOf"] {
        found.extend(node.get(name).and_then(Node::as_array).into_iter().flatten().flat_map(words));
    }
    found
}

fn fits(node: &Node, value: &Value) -> bool {
    let words = words(node);
    match value {
        Value::String(text) if !words.is_empty() => words.contains(&text.as_str()),
        Value::String(text) => {
            let length = text.chars().count() as u64;
            let bound = |name: &str, otherwise| node.get(name).and_then(Node::as_u64).unwrap_or(otherwise);
            has_type(node, "string") && (bound("minLength", 0)..=bound("maxLength", u64::MAX)).contains(&length)
        }
        Value::Boolean(_) => has_type(node, "boolean"),
        Value::Integer(number) if has_type(node, "integer") => within(node, *number as f64),
        Value::Integer(number) => has_type(node, "number") && within(node, *number as f64),
        Value::Float(number) => has_type(node, "number") && number.is_finite() && within(node, *number),
        _ => false,
    }
}

/// Least and greatest value, and whether the least is excluded.
pub(super) fn bounds(node: &Node) -> (Option<f64>, Option<f64>, bool) {
    let number = |name: &str| node.get(name).and_then(Node::as_f64);
    let above = number("exclusiveMinimum");
    let widest = match node["format"].as_str() {
        Some("uint32") => Some(f64::from(u32::MAX)),
        _ => None,
    };
    (above.or(number("minimum")), number("maximum").or(widest), above.is_some())
}

fn within(node: &Node, number: f64) -> bool {
    let (least, most, excluded) = bounds(node);
    least.is_none_or(|least| if excluded { number > least } else { number >= least })
        && most.is_none_or(|most| number <= most)
}

/// Describes the values that a key takes.
pub(super) fn describe(node: &Node) -> String {
    let node = plain(node);
    if properties(node).is_some() {
        return "a table".to_owned();
    }
    let words = words(node);
    let numbers = match node.get("anyOf").and_then(Node::as_array) {
        Some(alternatives) => alternatives.iter().find(|one| one.get("type").is_some()).map(of_type),
        None => words.is_empty().then(|| of_type(node)),
    };
    let words = (!words.is_empty())
        .then(|| format!("one of {}", words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")));
    [numbers, words].into_iter().flatten().collect::<Vec<_>>().join(", or ")
}

fn of_type(node: &Node) -> String {
    let (least, most, excluded) = bounds(node);
    let most = most.filter(|&most| most < f64::from(u32::MAX));
    let range = match (least, most) {
        (Some(least), Some(most)) if excluded => format!(" above {}, at most {}", number(least), number(most)),
        (Some(least), Some(most)) => format!(" from {} to {}", number(least), number(most)),
        (Some(least), None) if least > 0.0 => format!(" of at least {}", number(least)),
        (None, Some(most)) => format!(" of at most {}", number(most)),
        _ => String::new(),
    };
    if has_type(node, "array") {
        let count = |name: &str| node.get(name).and_then(Node::as_u64);
        let length = match (count("minItems"), count("maxItems")) {
            (Some(least), Some(most)) => format!(" of {least} to {most} values"),
            (Some(least), None) => format!(" of at least {least} value{}", if least == 1 { "" } else { "s" }),
            _ => String::new(),
        };
        return format!("a list{length}, each {}", describe(&node["items"]));
    }
    let kind = [("integer", "an integer"), ("number", "a number"), ("boolean", "true or false")];
    let kind = kind.into_iter().find(|(name, _)| has_type(node, name)).map_or("a string", |(_, kind)| kind);
    format!("{kind}{range}")
}

/// A bound with thousands separators.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        crate::report::grouped(value as u64)
    } else {
        format!("{value}")
    }
}

/// A value for a message.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Table(_) => "a table".to_owned(),
        other => other.to_string(),
    }
}
