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
            if let Some(each) = named(node) {
                return walk(each, &format!("{prefix}{NAME}."), keys);
            }
            for (name, inner) in forms(node).into_iter().filter_map(properties).flatten() {
                let key = format!("{prefix}{name}");
                if is_table(inner) {
                    walk(inner, &format!("{key}."), keys);
                } else if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        let mut keys = Vec::new();
        walk(document::json_schema(), "", &mut keys);
        keys
    });
    &KEYS
}

/// Stands for the name of a table in a key.
pub(super) const NAME: &str = "<name>";

/// Whether a dotted key is one of an experiment, and no table.
pub fn is_key(key: &str) -> bool {
    node_of(key).is_some()
}

/// Schema of a dotted key that is not a table.
pub fn node_of(key: &str) -> Option<&'static Node> {
    fn find<'a>(node: &'a Node, parts: &[&str]) -> Option<&'a Node> {
        let Some((first, rest)) = parts.split_first() else { return (!is_table(node)).then_some(node) };
        if let Some(each) = named(node) {
            return find(each, rest);
        }
        forms(node).into_iter().find_map(|form| find(properties(form)?.get(*first)?, rest))
    }
    find(document::json_schema(), &key.split('.').collect::<Vec<_>>())
}

/// Keys and tables of earlier versions, and what there is instead.
pub(super) const FORMER: [(&str, &str); 4] = [
    ("near_full", "it stood for a full UBIFS; raw flash has UBIFS itself, with `[fs]` and a load as `[fsstress]`"),
    ("device", "the flash is `[nand]`, and UBI on it `[ubi]`"),
    ("ubi.policy", "it is `ubi.wl`"),
    ("ssd.preset", "it is `ssd.part`"),
];

/// What there is instead of a key of an earlier version, or of the table that it was in.
pub fn formerly(key: &str) -> Option<&'static str> {
    let is_of = |table: &str| key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    FORMER.iter().find(|(former, _)| is_of(former)).map(|&(_, instead)| instead)
}

/// The known key nearest to `key`, or the table of keys, with the names of tables that `key` has.
pub fn nearest_key(key: &str) -> Option<String> {
    let known = |key: &'static String| key.match_indices('.').map(|(end, _)| &key[..end]).chain([key.as_str()]);
    let near = nearest(key, keys().iter().flat_map(known))?;
    let given = key.split('.').chain(std::iter::repeat(NAME));
    Some(
        near.split('.')
            .zip(given)
            .map(|(part, name)| if part == NAME { name } else { part })
            .collect::<Vec<_>>()
            .join("."),
    )
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

/// The keys of a table that has one form.
pub(super) fn properties(node: &Node) -> Option<&serde_json::Map<String, Node>> {
    plain(node).get("properties")?.as_object()
}

/// The forms of a table, which one of its keys names ([`tag`]); most tables have one. None if the node is no table.
pub(super) fn forms(node: &Node) -> Vec<&Node> {
    let node = plain(node);
    if node.get("properties").is_some() {
        return vec![node];
    }
    let alternatives = ["oneOf", "anyOf"].iter().filter_map(|name| node.get(*name)?.as_array()).flatten();
    alternatives.map(plain).filter(|form| form.get("properties").is_some()).collect()
}

/// The schema of each table in a table of tables by name.
pub(super) fn named(node: &Node) -> Option<&Node> {
    plain(node).get("additionalProperties").filter(|each| each.is_object())
}

/// Whether the node is a table, and no value.
pub(super) fn is_table(node: &Node) -> bool {
    named(node).is_some() || !forms(node).is_empty()
}

/// The key that tells the forms of a table apart: it has one word in each.
pub(super) fn tag<'a>(forms: &[&'a Node]) -> Option<&'a str> {
    let [first, _, ..] = forms else { return None };
    let one_word = |form: &Node, key: &str| properties(form)?.get(key).map(|node| words(node).len() == 1);
    let mut keys = properties(first)?.keys();
    keys.find(|key| forms.iter().all(|form| one_word(form, key) == Some(true))).map(String::as_str)
}

/// The form of a table; the first one that does not require the tag if the table has none.
/// Errors: a tag that no form has, or none where all require it.
fn form_of<'a>(node: &'a Node, table: &Table, prefix: &str) -> Result<&'a Node, ExperimentError> {
    let forms = forms(node);
    let Some(tag) = tag(&forms) else { return Ok(forms[0]) };
    let word = |form: &&'a Node| words(&properties(form).expect("a form has keys")[tag])[0];
    let is_required = |form: &Node| form["required"].as_array().is_some_and(|keys| keys.iter().any(|key| key == tag));
    let found = table.get(tag).map(shown);
    let form = match &found {
        Some(found) => forms.iter().find(|form| word(form) == found),
        None => forms.iter().find(|form| !is_required(form)),
    };
    if let Some(form) = form {
        return Ok(form);
    }
    let known: Vec<&str> = forms.iter().map(word).collect();
    let near = found.as_ref().and_then(|found| nearest(found, known.iter().copied()));
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    wrong(format!("{prefix}{tag}"), found.unwrap_or("nothing".to_owned()), format!("{}{near}", one_of(&known)))
}

fn table_is(node: &Node, table: &mut Table, prefix: &str) -> Result<(), ExperimentError> {
    if let Some(each) = named(node) {
        return table.iter_mut().try_for_each(|(name, value)| value_is(each, value, &format!("{prefix}{name}")));
    }
    let forms = forms(node);
    let form = form_of(node, table, prefix)?;
    let known = properties(form).expect("a table has properties");
    for (name, value) in table.iter_mut() {
        let key = format!("{prefix}{name}");
        let Some(node) = known.get(name) else {
            if let Some(other) = forms.iter().find(|form| properties(form).is_some_and(|keys| keys.contains_key(name)))
            {
                return not_of_this_form(&forms, form, other, prefix, name, value);
            }
            return Err(ExperimentError::unknown(key));
        };
        value_is(node, value, &key)?;
    }
    let required = form.get("required").and_then(Node::as_array);
    for name in required.into_iter().flatten().filter_map(Node::as_str) {
        if !table.contains_key(name) {
            return wrong(format!("{prefix}{name}"), "nothing", describe(&known[name]));
        }
    }
    Ok(())
}

/// The error for a key that another form of the table has.
fn not_of_this_form(
    forms: &[&Node],
    form: &Node,
    other: &Node,
    prefix: &str,
    name: &str,
    value: &Value,
) -> Result<(), ExperimentError> {
    let tag = tag(forms).expect("several forms have a tag");
    let word = |form: &Node| words(&properties(form).expect("a form has keys")[tag])[0].to_owned();
    let expected = format!("no such key where `{prefix}{tag}` is `{}`: it is of `{}`", word(form), word(other));
    wrong(format!("{prefix}{name}"), shown(value), expected)
}

fn value_is(node: &Node, value: &mut Value, key: &str) -> Result<(), ExperimentError> {
    if is_table(node) {
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
    if is_table(node) {
        return "a table".to_owned();
    }
    let words = words(node);
    let numbers = match node.get("anyOf").and_then(Node::as_array) {
        Some(alternatives) => alternatives.iter().find(|one| one.get("type").is_some()).map(of_type),
        None => words.is_empty().then(|| of_type(node)),
    };
    let words = (!words.is_empty()).then(|| one_of(&words));
    [numbers, words].into_iter().flatten().collect::<Vec<_>>().join(", or ")
}

fn one_of(words: &[&str]) -> String {
    format!("one of {}", words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "))
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
