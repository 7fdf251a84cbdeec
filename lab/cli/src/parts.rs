//! `nandlab parts`: lists the known flash chips and drives, with the source of each value.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use runner::parts::{Figure, Library, Part, PartError};
use serde_json::{Value, json};

use crate::Outcome;
use crate::error::CliError;
use crate::output;
use crate::table::{self, Table};

/// Arguments for directories of user-defined parts, for every command that reads an experiment.
#[derive(clap::Args)]
pub struct PartDirs {
    /// Add the parts in this directory, one TOML file each; may be given several times
    #[arg(long, value_name = "DIR")]
    parts: Vec<PathBuf>,
}

/// Arguments of `nandlab parts`.
#[derive(clap::Args)]
pub struct Args {
    /// Show every value of this part with its provenance; without a name, list all parts
    name: Option<String>,
    #[command(flatten)]
    dirs: PartDirs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: an unknown name; a directory or file that cannot be read; a file that is not a part.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let library = args.dirs.library()?;
    match (&args.name, args.json) {
        (None, true) => {
            let parts: Vec<_> = library.parts().map(summary).collect();
            output::print_json("nandlab/parts/1", &json!({ "parts": parts }))?;
        }
        (None, false) => output::print(&list(&library))?,
        (Some(name), as_json) => {
            let part = library.part(name).map_err(|error| refused("nandlab parts", &error))?;
            if as_json {
                output::print_json("nandlab/part/1", &document(&library, part))?
            } else {
                output::print(&show(&library, part))?
            }
        }
    }
    Ok(Outcome::Done)
}

impl PartDirs {
    /// The built-in parts and the user's own.
    /// Errors: a directory or file that cannot be read; a file that is not a part.
    pub fn library(&self) -> Result<Cow<'static, Library>, CliError> {
        let mut library = Cow::Borrowed(Library::embedded());
        for dir in &self.parts {
            add_all(library.to_mut(), dir)?;
        }
        Ok(library)
    }

    /// Files in the directories: inputs, which are never overwritten.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let entries = self.parts.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

fn add_all(library: &mut Library, dir: &Path) -> Result<(), CliError> {
    let entries = fs::read_dir(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotADirectory => {
            CliError::input(dir, "found a file, expected a directory", "name the directory that the file is in")
        }
        _ => CliError::read(dir, &error),
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| CliError::read(dir, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let help = "copy a part of nandlab's that comes near (its directory parts/), and see docs/format/parts.md";
        return Err(CliError::input(dir, "found no file *.toml, expected one at least", help));
    }
    files.iter().try_for_each(|file| add(library, file))
}

fn add(library: &mut Library, file: &Path) -> Result<(), CliError> {
    let bytes = fs::read(file).map_err(|error| CliError::read(file, &error))?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(CliError::input(file, "found bytes that are no UTF-8, expected TOML", "see docs/format/parts.md"));
    };
    let name = file.display().to_string();
    library.add(&name, &text).map_err(|error| refused(&name, &error))
}

fn refused(file: &str, error: &PartError) -> CliError {
    let what = error.to_string();
    let what = what.strip_prefix(&format!("{file}: ")).unwrap_or(&what);
    let help = match error {
        PartError::Unknown { .. } => "`nandlab parts` lists all names",
        PartError::Value { .. } => "see docs/format/parts.md",
    };
    CliError::input(Path::new(file), what, help)
}

fn summary(part: Part<'_>) -> Value {
    let head = part.head();
    json!({
        "name": head.name, "aliases": head.aliases, "title": head.title, "kind": part.kind(), "file": head.file,
        "values": head.figures.len(), "recalled": head.recalled(),
    })
}

fn figure(figure: &Figure) -> Value {
    json!({
        "key": figure.key, "value": figure.value, "provenance": figure.provenance.word(),
        "text": figure.provenance.text(), "recalled": figure.recalled,
    })
}

fn document(library: &Library, part: Part<'_>) -> Value {
    let mut document = summary(part);
    document["values"] = part.head().figures.iter().map(figure).collect();
    if let Part::Drive(_) = part {
        document["from_base"] = library.from_base(part).map(figure).collect();
    }
    document
}

fn list(library: &Library) -> String {
    let mut table = Table::new(["name", "kind", "recalled", "title"]).text_last();
    for part in library.parts() {
        let head = part.head();
        let recalled = format!("{} of {}", head.recalled(), head.figures.len());
        table.row(vec![head.name.to_string(), part.kind().to_owned(), recalled, head.title.to_string()]);
    }
    table.print(table::text_width())
}

fn show(library: &Library, part: Part<'_>) -> String {
    let head = part.head();
    let mut out = format!("{}: {}\n", head.name, head.title);
    if !head.aliases.is_empty() {
        out += &format!("also called {}\n", head.aliases.join(", "));
    }
    out +=
        &format!("{}, {} of {} values recalled, {}\n\n", part.kind(), head.recalled(), head.figures.len(), head.file);
    out += &values(&mut head.figures.iter());
    let mut below = library.from_base(part).peekable();
    if below.peek().is_some() {
        out += "\nfrom the drive `base`\n";
        out += &values(&mut below);
    }
    out
}

fn values(figures: &mut dyn Iterator<Item = &Figure>) -> String {
    let mut table = Table::new(["", "", ""]).text_last();
    for figure in figures {
        let (word, text) = (figure.provenance.word(), figure.provenance.text());
        let mut from = if text.is_empty() { word.to_owned() } else { format!("{word}: {text}") };
        match &figure.recalled {
            Some(what) if text.is_empty() => from += &format!(": {what}"),
            Some(what) => from += &format!("; recalled: {what}"),
            None => {}
        }
        table.row(vec![figure.key.clone(), figure.value.to_string(), from]);
    }
    table.print(table::text_width())
}
