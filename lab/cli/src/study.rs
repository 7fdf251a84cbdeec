//! `nandlab study`: published tables beside ours, with verdicts.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use runner::report::{self, four_digits};
use runner::study::{self, Claim, Figure, Finished, Judgement, Kind, Source, StudyError, TablePair, Verdict};

use crate::Outcome;
use crate::error::CliError;
use crate::output;
use crate::parts::PartDirs;
use crate::progress::Bars;
use crate::store;

/// File with a study's runs and claims.
const FILE: &str = "study.toml";
/// File with a study's published numbers.
const PUBLISHED: &str = "published.json";

/// Arguments of `nandlab study`.
#[derive(clap::Args)]
pub struct Args {
    /// `list`, `all`, names of studies, or directories with a study.toml of your own
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    parts: PartDirs,
    /// Stop the runs sooner, and judge only claims that do not depend on their length
    #[arg(long)]
    quick: bool,
    /// Directory for the results and the report [default: none are written]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document: an object for one study, a list for several
    #[arg(long)]
    json: bool,
}

/// Runs the command; a claim that misses gives exit code 1.
/// Errors: an unknown name; a study that fails; results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    if args.names == ["list"] {
        return list(args.json);
    }
    let sources = pick(&args.names)?;
    let library = args.parts.library()?;
    if let Some(dir) = &args.out {
        store::prepare(dir)?;
    }
    let bars = Bars::new(!args.json);
    let mut finished = Vec::new();
    for (source, dir) in &sources {
        let bar = bars.add(&source.name);
        let done = study::run(source, args.quick, &library, &|run, progress| bar.show_part(run, progress))
            .map_err(|error| failed(dir.as_deref(), error))?;
        bar.finish();
        if !args.json {
            output::print(&print(&done))?;
        }
        finished.push(done);
    }
    if let Some(dir) = &args.out {
        store::write_studies(dir, &finished)?;
        if !args.json {
            output::print(&format!("results in {}; open {}\n", dir.display(), dir.join("report.html").display()))?;
        }
    }
    let judgements: Vec<&Judgement> = finished.iter().map(|done| &done.judgement).collect();
    if args.json {
        match judgements[..] {
            [one] => output::print_json(one)?,
            _ => output::print_json(&judgements)?,
        }
    }
    let misses: usize = judgements.iter().map(|judgement| judgement.count(Verdict::Miss)).sum();
    Ok(if misses == 0 { Outcome::Done } else { Outcome::Failed })
}

fn list(json: bool) -> Result<Outcome, CliError> {
    let mut rows = Vec::new();
    for source in study::ALL {
        let spec = study::Spec::parse(source).map_err(|error| failed(None, error))?;
        rows.push((&source.name, spec.question, spec.runs.len()));
    }
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, question, runs)| serde_json::json!({"study": name, "question": question, "runs": runs}))
            .collect();
        output::print_json(&rows)?;
    } else {
        let mut text = String::new();
        for (name, question, runs) in rows {
            text += &format!("{name:<20} {runs:>2} runs   {question}\n");
        }
        output::print(&text)?;
    }
    Ok(Outcome::Done)
}

/// A study, with its directory if it is the user's own.
type Picked = (Cow<'static, Source>, Option<PathBuf>);

fn pick(names: &[String]) -> Result<Vec<Picked>, CliError> {
    if names == ["all"] {
        return Ok(study::ALL.iter().map(|source| (Cow::Borrowed(source), None)).collect());
    }
    names.iter().map(|name| one(name)).collect()
}

/// Finds a study. A path has a separator or leads to a study.toml; anything else is a name.
fn one(name: &str) -> Result<Picked, CliError> {
    let dir = Path::new(name);
    match study::by_name(name) {
        Ok(source) => Ok((Cow::Borrowed(source), None)),
        Err(_) if name.contains(['/', '\\']) || dir.join(FILE).is_file() => {
            Ok((Cow::Owned(read(dir)?), Some(dir.to_owned())))
        }
        Err(error) => Err(failed(None, error)),
    }
}

/// Reads a study of the user's own. Without a published.json it has no published numbers.
/// Errors: there is no study.toml; a file that is not UTF-8 text.
fn read(dir: &Path) -> Result<Source, CliError> {
    let file = dir.join(FILE);
    let toml = std::fs::read_to_string(&file).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => CliError::input(
            dir,
            format!("found no {FILE} in it"),
            "name a directory as docs/format/study.md describes it",
        ),
        _ => CliError::read(&file, &error),
    })?;
    let published = match std::fs::read_to_string(dir.join(PUBLISHED)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => "{}".to_owned(),
        Err(error) => return Err(CliError::read(&dir.join(PUBLISHED), &error)),
    };
    // Even `.` has a directory name.
    let whole = dir.canonicalize().map_err(|error| CliError::read(dir, &error))?;
    let name = whole.file_name().map_or("study".into(), |name| name.to_string_lossy().into_owned());
    Ok(Source { name: name.into(), toml: toml.into(), published: published.into() })
}

fn failed(dir: Option<&Path>, error: StudyError) -> CliError {
    let help = match (&error, dir) {
        (StudyError::Unknown { .. }, _) => {
            "`nandlab study list` shows them all; a directory is named with a /, as ./my-study"
        }
        (_, Some(_)) => {
            "mend the study; docs/format/study.md describes it, and `nandlab run --help-keys` lists the keys of its runs"
        }
        (_, None) => "this is a fault of nandlab: please report it with this message",
    };
    let file = dir.map_or("study".to_owned(), |dir| dir.join(FILE).display().to_string());
    CliError::Input { file, what: error.to_string(), help: help.to_owned() }
}

fn print(done: &Finished) -> String {
    let judgement = &done.judgement;
    let mut text = format!("\n== {} ==\n{}\n", judgement.study, judgement.question);
    if judgement.quick {
        text += "quick: the runs were cut short; only claims that do not depend on their length are judged\n";
    }
    for table in &judgement.tables {
        text += &pair(table);
    }
    for figure in &judgement.figures {
        text += &picture(figure);
    }
    text += &claims(&judgement.claims);
    text + &judgement.counts().join("\n") + "\n"
}

/// The claims as a table: those on published numbers, then those on derived ones.
fn claims(claims: &[Claim]) -> String {
    let mut text = String::new();
    for (kind, heading) in [(Kind::Published, "published"), (Kind::Derived, "derived")] {
        let mut claims = claims.iter().filter(|claim| claim.kind == kind).peekable();
        if claims.peek().is_none() {
            continue;
        }
        text += &format!("\n{:<52} {heading:>11} {:>11} {:>9}  verdict\n", "claim", "ours", "expected");
        for claim in claims {
            let verdict = match claim.verdict {
                Verdict::Hit => "hit",
                Verdict::Miss => "MISS",
                Verdict::Calibrated => "calibrated",
            };
            let expected = claim.expected.map_or("-".to_owned(), number);
            let relation = claim.relation.to_string();
            text += &format!("{:<52} {expected:>11} {:>11} {relation:>9}  {verdict}\n", claim.id, number(claim.ours));
            if let Some(reason) = &claim.reason {
                text += &format!("    why: {reason}\n");
            }
        }
    }
    text
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() >= 10.0 {
        return report::grouped(value as u64);
    }
    if value.abs() < 10.0 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// A figure as a table, with the greatest `y` first, and its marks below.
fn picture(figure: &Figure) -> String {
    let unit = if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) };
    let mut rows = vec![vec![String::new()]];
    rows[0].extend(figure.x.values.iter().map(f64::to_string));
    for (y, cells) in figure.y.values.iter().zip(&figure.z).rev() {
        let cells = cells.iter().map(|cell| cell.map_or("-".to_owned(), four_digits));
        rows.push(std::iter::once(y.to_string()).chain(cells).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut text = format!("\n{}{unit}\ndown: {}; across: {}\n", figure.title, figure.y.label, figure.x.label);
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        text += &format!("{}\n", cells.join("  "));
    }
    for mark in &figure.marks {
        let z = mark.z.map_or(String::new(), |z| format!(": {}", four_digits(z)));
        text += &format!("{} (at {}, {}){z}\n", mark.label, mark.x, mark.y);
    }
    text
}

/// A published table and ours, side by side if the rows match.
fn pair(table: &TablePair) -> String {
    let cell = |value: Option<&serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(serde_json::Value::Number(value)) => value.to_string(),
        _ => "-".to_owned(),
    };
    let widths: Vec<usize> = (0..table.columns.len())
        .map(|column| {
            let rows = table.published.iter().chain(&table.ours);
            rows.map(|row| cell(row.get(column)).chars().count())
                .chain([table.columns[column].chars().count().min(14)])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |row: Vec<String>| {
        let mut text = String::new();
        for (column, (value, width)) in row.iter().zip(&widths).enumerate() {
            text += &if column == 0 { format!("{value:<width$}") } else { format!("  {value:>width$}") };
        }
        text
    };
    let heads = line(table.columns.iter().map(|head| head.chars().take(14).collect()).collect());
    let cells = |row: &Vec<serde_json::Value>| line((0..widths.len()).map(|column| cell(row.get(column))).collect());
    let mut text = format!("\n{}\n", table.title);
    if table.published.len() == table.ours.len() {
        let gap = "   |   ";
        let width = heads.chars().count();
        text += &format!("{:<width$}{gap}ours\n{heads}{gap}{heads}\n", "published");
        for (theirs, ours) in table.published.iter().zip(&table.ours) {
            text += &format!("{}{gap}{}\n", cells(theirs), cells(ours));
        }
        return text;
    }
    text += &format!("{heads}\n");
    for row in &table.published {
        text += &format!("{}   (published)\n", cells(row));
    }
    for row in &table.ours {
        text += &format!("{}\n", cells(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use runner::study::{Axis, Mark};

    use super::*;

    #[test]
    fn a_picture_is_a_table_with_its_heads_and_empty_cells() {
        let axis = |label: &str, values: &[f64]| Axis { label: label.to_owned(), log: true, values: values.to_vec() };
        let figure = Figure {
            id: "sram".to_owned(),
            title: "Gain".to_owned(),
            unit: "%".to_owned(),
            x: axis("set, GiB", &[1.0, 16.0]),
            y: axis("cache, MiB", &[0.5, 2.0]),
            z: vec![vec![Some(63.712_34), None], vec![Some(-0.5), Some(12_345.6)]],
            levels: vec![10.0],
            marks: vec![Mark { x: 4.0, y: 1.26, z: Some(63.7), label: "published".to_owned() }],
        };
        let table =
            "\nGain, %\ndown: cache, MiB; across: set, GiB\n         1     16\n  2   -0.5  12346\n0.5  63.71      -\n";
        assert_eq!(picture(&figure), format!("{table}published (at 4, 1.26): 63.7\n"));
    }
}
