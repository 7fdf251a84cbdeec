//! Output of the schema: JSON Schema, the reference page, and the list of `--help-keys`.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Value as Node, json};

use super::Experiment;
use super::check::{NAME, describe, forms, is_number, is_table, named, plain, properties, tag, words};
use super::unit::{Kind, Unit};

/// The JSON Schema (draft 2020-12) of an experiment.
pub fn json_schema() -> &'static Node {
    static SCHEMA: LazyLock<Node> = LazyLock::new(|| {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut schema = settings.into_generator().into_root_schema_for::<Experiment>().to_value();
        schema["title"] = json!("nandlab experiment");
        schema
    });
    &SCHEMA
}

/// As [`json_schema`], for editors and other tools: a key with a unit takes text too.
pub fn json_schema_of_files() -> Node {
    fn with_text(node: &mut Node, unit: Unit) {
        let reference = json!({"$ref": format!("#/$defs/{}", unit.kind.name())});
        if is_number(node) {
            let Some(table) = node.as_object_mut() else { return };
            let said = ["description", "default"].map(|name| table.remove_entry(name));
            let number = std::mem::take(table);
            table.insert("anyOf".to_owned(), json!([number, reference]));
            table.extend(said.into_iter().flatten());
        } else if let Some(items) = node.get_mut("items").filter(|items| is_number(items)) {
            *items = json!({"anyOf": [items.take(), reference]});
        }
    }
    fn walk(node: &mut Node) {
        match node {
            Node::Object(table) => {
                for (name, inner) in table.get_mut("properties").and_then(Node::as_object_mut).into_iter().flatten() {
                    if let Some(unit) = Unit::of(name) {
                        with_text(inner, unit);
                    }
                }
                table.values_mut().for_each(walk);
            }
            Node::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    let mut schema = json_schema().clone();
    walk(&mut schema);
    let kinds = Kind::ALL.map(|kind| {
        let text = json!({"type": "string", "pattern": kind.pattern(), "description": kind.described()});
        (kind.name().to_owned(), text)
    });
    schema["$defs"] = Node::Object(kinds.into_iter().collect());
    schema
}

/// A key as documented.
struct Key<'a> {
    name: String,
    meaning: &'a str,
    takes: String,
    default: String,
    words: Vec<(&'a str, &'a str)>,
}

impl Key<'_> {
    fn of<'a>(name: String, node: &'a Node) -> Key<'a> {
        let inner = plain(node);
        let meaning = [node, inner].iter().find_map(|node| node["description"].as_str()).unwrap_or_default();
        let alternatives = ["oneOf", "anyOf"].iter().filter_map(|name| inner.get(*name)?.as_array()).flatten();
        let words = alternatives
            .filter_map(|one| Some((one.get("const")?.as_str()?, one.get("description")?.as_str()?)))
            .collect();
        let default = match &node["default"] {
            Node::Null => String::new(),
            Node::String(text) => format!("\"{text}\""),
            other => other.to_string(),
        };
        Key { name, meaning, takes: describe(node), default, words }
    }
}

/// A table as documented: one for each form.
struct Section {
    /// Dotted name; empty for the top level.
    name: String,
    /// What tells the form apart, as in `kind = "fio"`; empty if there is one form.
    form: String,
    meaning: &'static str,
    keys: Vec<Key<'static>>,
}

/// The tables of the schema in order, the top level first.
fn tables() -> Vec<Section> {
    fn walk(name: &str, node: &'static Node, sections: &mut Vec<Section>) {
        let dotted = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        if let Some(each) = named(node) {
            return walk(&dotted(NAME), each, sections);
        }
        let forms = forms(node);
        let tag = tag(&forms);
        for form in forms {
            let at = sections.len();
            let meaning = [form, node].iter().find_map(|node| node["description"].as_str()).unwrap_or_default();
            let known = properties(form).expect("a table has keys");
            let form = tag.map_or(String::new(), |tag| format!("{tag} = \"{}\"", words(&known[tag])[0]));
            sections.push(Section { name: name.to_owned(), form, meaning, keys: Vec::new() });
            for (key, inner) in known {
                if is_table(inner) {
                    walk(&dotted(key), inner, sections);
                } else {
                    let mut key = Key::of(key.clone(), inner);
                    if key.meaning.is_empty() && Some(key.name.as_str()) == tag {
                        key.meaning = meaning;
                    }
                    sections[at].keys.push(key);
                }
            }
        }
    }
    let mut found = Vec::new();
    walk("", json_schema(), &mut found);
    found
}

/// First paragraphs of the reference page.
const OPENING: &str = "\
# The experiment file

One TOML file asks one question of one device: raw flash with UBI (`[nand]`, `[ubi]`), or a drive (`[ssd]`). `nandlab run`, `cuts`,
`identify`, `trace replay --on` and studies read the same file. A key that is left out has its default; an unknown key, a word that a
key does not have and a value out of its bounds are errors that name the key.

`ssd.part` and `nand.part` name a part: its values are used where the file gives none (`nandlab parts` lists them, `parts.md` describes their files). `--set KEY=VALUE` overrides
the file. The resolved experiment, with every value, is stored with the result.

A key whose name ends in a unit takes a number in that unit, or text with a unit, in the file and in `--set`: sizes (`_bytes`, `_kib`,
`_mib`) as `'4k'` or `'64GiB'`, where k, M, G, T and KiB, MiB, GiB, TiB are powers of 1,024 and kB, MB, GB, TB powers of 1,000; times
(`_ns`, `_us`, `_ms`, `_s`, `seconds`, `days`, `years`) as `'40us'` or `'5y'`, with ns, us, ms, s, min, h, d, w and y (365.25 days); shares
(`_percent`) as `'28%'`.

A drive has one load: `[workload]` (a fio job), several `[[flow]]`, `[trace]`, `[iozone]` or `[apps]`. Raw flash has a file
system, `[fs]`, with `[fsstress]`, `[postmark]`, `[sysbench]`, `[strace]` or `[fio]`, or volumes that are written at a rate: `[workload]` with
`kind = \"volumes\"` and a table `[workload.volume.NAME]` for each volume. A run without either has UBIFS under fsstress. `[cuts]` is used by `nandlab cuts` alone, which draws operations of its own and
ignores the load.

This page is generated: `make reference` writes it from the schema that the reader uses, and a test holds the two equal.
`nandlab schema` prints that as a JSON Schema, `nandlab run --help-keys` prints the keys.

";

/// The reference page, `docs/format/experiment.md`.
pub fn markdown() -> String {
    let mut text = OPENING.to_owned();
    for Section { name, form, meaning, keys } in tables() {
        let heading = if name.is_empty() { "Top level".to_owned() } else { format!("`[{name}]`") };
        let form = if form.is_empty() { form } else { format!(", `{form}`") };
        text += &format!("## {heading}{form}\n\n");
        if !name.is_empty() {
            text += &format!("{}\n\n", one_line(meaning));
        }
        text += "| key | default | takes | meaning |\n|---|---|---|---|\n";
        for key in &keys {
            let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
            text += &format!("| `{}` | {default} | {} | {} |\n", key.name, key.takes, one_line(key.meaning));
        }
        text.push('\n');
        for key in keys.iter().filter(|key| !key.words.is_empty()) {
            text += &format!("`{}`:\n", key.name);
            for (word, meaning) in &key.words {
                text += &format!("- `{word}`: {}\n", one_line(meaning));
            }
            text.push('\n');
        }
    }
    text.trim_end().to_owned() + "\n"
}

/// Every key with its meaning, for a terminal.
pub fn help() -> String {
    let mut text = String::new();
    for Section { name, form, keys, .. } in tables() {
        for key in keys {
            let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
            let form = if form.is_empty() { String::new() } else { format!("  ({form})") };
            text += &format!("{prefix}{}{form}\n    {}\n    {}", key.name, one_line(key.meaning), key.takes);
            text += &if key.default.is_empty() { "\n".to_owned() } else { format!("; default {}\n", key.default) };
            for (word, meaning) in key.words {
                text += &format!("      {word:<20} {}\n", one_line(meaning));
            }
        }
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::check::words;

    #[test]
    fn every_key_has_a_meaning() {
        for Section { name: table, keys, .. } in tables() {
            for key in keys {
                assert!(!key.meaning.is_empty() && !key.takes.is_empty(), "{table}.{}", key.name);
                assert!(key.words.is_empty() || key.words.len() == words_of(&table, &key.name), "{table}.{}", key.name);
            }
        }
    }

    fn words_of(table: &str, key: &str) -> usize {
        let dotted = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        words(plain(super::super::check::node_of(&dotted).unwrap())).len()
    }
}
