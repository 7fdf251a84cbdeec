//! `nandlab study`: published tables beside ours, and verdicts.

use std::path::PathBuf;

use runner::report;
use runner::study::{self, Finished, Judgement, Source, StudyError, TablePair, Verdict};

use crate::Outcome;
use crate::error::CliError;
use crate::output;
use crate::progress::Bars;
use crate::store;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// `list`, `all`, or names of studies
    #[arg(required = true)]
    names: Vec<String>,
    /// Stop the runs sooner, and judge only what does not depend on their length
    #[arg(long)]
    quick: bool,
    /// Where to write the results and the report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document: an object for one study, a list for several
    #[arg(long)]
    json: bool,
}

/// Runs studies; a claim that misses makes the exit code 1.
/// Errors: an unknown name, a study that cannot run, results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    if args.names == ["list"] {
        return list(args.json);
    }
    let sources = pick(&args.names)?;
    if let Some(dir) = &args.out {
        store::prepare(dir)?;
    }
    let bars = Bars::new(!args.json);
    let mut finished = Vec::new();
    for source in sources {
        let bar = bars.add(source.name);
        let done = study::run(source, args.quick, &|run, progress| bar.show_part(run, progress)).map_err(failed)?;
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
        let spec = study::Spec::parse(source).map_err(failed)?;
        rows.push((source.name, spec.question, spec.runs.len()));
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

fn pick(names: &[String]) -> Result<Vec<&'static Source>, CliError> {
    if names == ["all"] {
        return Ok(study::ALL.iter().collect());
    }
    names.iter().map(|name| study::by_name(name).map_err(failed)).collect()
}

fn failed(error: StudyError) -> CliError {
    let help = match &error {
        StudyError::Unknown { .. } => "`nandlab study list` shows them all",
        _ => "this is a fault of nandlab: please report it with this message",
    };
    CliError::Input { file: "study".to_owned(), what: error.to_string(), help: help.to_owned() }
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
    text += &format!("\n{:<52} {:>11} {:>11} {:>9}  verdict\n", "claim", "published", "ours", "within");
    for claim in &judgement.claims {
        let verdict = match claim.verdict {
            Verdict::Hit => "hit",
            Verdict::Miss => "MISS",
            Verdict::Calibrated => "calibrated",
        };
        text += &format!(
            "{:<52} {:>11} {:>11} {:>9}  {verdict}\n",
            claim.id,
            number(claim.published),
            number(claim.ours),
            claim.tolerance
        );
        if let Some(reason) = &claim.reason {
            text += &format!("    why: {reason}\n");
        }
    }
    text + &format!(
        "{} hit, {} miss, {} calibrated\n",
        judgement.count(Verdict::Hit),
        judgement.count(Verdict::Miss),
        judgement.count(Verdict::Calibrated)
    )
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() >= 10.0 {
        return report::grouped(value as u64);
    }
    if value.abs() < 10.0 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// A published table and ours, side by side where the rows match.
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
