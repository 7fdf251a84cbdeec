//! `nandlab run`: one experiment, and the files that hold what it found.

use std::path::{Path, PathBuf};

use runner::experiment::{Experiment, ExperimentError};
use runner::outcome::Outcome as Found;
use runner::{report, wear};

use crate::Outcome;
use crate::error::CliError;
use crate::mapped_file::MappedFile;
use crate::output;
use crate::progress::Bars;
use crate::ssd;
use crate::store;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment, a TOML file: on raw flash with UBI, or on a solid-state drive
    file: PathBuf,
    /// A fio job file in the place of the load of an experiment on a drive
    #[arg(long, value_name = "JOB.fio")]
    fio: Option<PathBuf>,
    /// Set a key over the file, as in `--set nand.pebs=4096`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed, over the file's
    #[arg(long)]
    seed: Option<u64>,
    /// Where to write the results
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the flash's contents in this file, a raw image that `nandlab image` reads; it is mapped, so the device may
    /// be larger than memory
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Overwrite that file
    #[arg(long)]
    force: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs.
/// Errors: a file that cannot be read or is no experiment, a run that cannot go on, results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let text = read(&args.file)?;
    let mut sets = pairs(&args.set, args.seed)?;
    if runner::ssd::is_ssd(&text) {
        if let Some(job) = &args.fio {
            sets.push(ssd::job_file(job)?);
        }
        return ssd::run(&ssd::Request {
            file: &args.file,
            text: &text,
            pairs: sets,
            format: None,
            read_opcode: None,
            out: args.out.as_deref(),
            flash: args.flash.as_deref(),
            force: args.force,
            json: args.json,
        });
    }
    if let Some(job) = &args.fio {
        return Err(CliError::input(
            job,
            format!("found a job file beside {}, which has no table `ssd`", args.file.display()),
            "name an experiment on a drive: experiments/ssd-*.toml",
        ));
    }
    let experiment = Experiment::resolve(&text, &sets).map_err(|error| refused(&args.file, &error))?;
    if let Some(dir) = &args.out {
        store::prepare(dir)?;
    }
    let bars = Bars::new(!args.json);
    let bar = bars.add(&experiment.title);
    let failed = |error: wear::RunError| {
        CliError::input(&args.file, error.to_string(), "change the experiment so that it can run")
    };
    let found = match &args.flash {
        None => wear::run(&experiment, &mut |progress| bar.show(progress)).map_err(failed)?,
        Some(path) => {
            let file = MappedFile::create(path, experiment.geometry().bytes(), args.force)?;
            let store = nand::Mapped::erased(experiment.geometry(), file, false).map_err(|error| {
                CliError::input(path, error.to_string(), "this is a fault of nandlab: please report it")
            })?;
            let (found, store) =
                wear::run_on(&experiment, store, &mut |progress| bar.show(progress)).map_err(failed)?;
            store.into_buffer().finish(args.force)?;
            found
        }
    };
    bar.finish();
    if let Some(dir) = &args.out {
        store::write_run(dir, &found)?;
    }
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&summary(&found, args.out.as_deref()))?;
    }
    Ok(Outcome::Done)
}

/// The text of an experiment's file.
/// Errors: it cannot be read, is no text, or is no experiment but an enumeration of power cuts.
pub fn read(file: &Path) -> Result<String, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => CliError::input(
            file,
            "found bytes that are no text, expected TOML",
            "name an experiment; those of the tree are in experiments/",
        ),
        _ => CliError::read(file, &error),
    })?;
    if runner::cuts::is_plan(&text) {
        let what = "found an enumeration of power cuts (a table `cuts`), expected an experiment";
        return Err(CliError::input(file, what, "run it with `nandlab cuts`"));
    }
    Ok(text)
}

/// Errors: an experiment that is not on a drive.
pub fn check_is_ssd(file: &Path, text: &str) -> Result<(), CliError> {
    if runner::ssd::is_ssd(text) {
        return Ok(());
    }
    let what = "found no table `ssd`, expected an experiment on a drive";
    Err(CliError::input(file, what, "name one of experiments/ssd-*.toml"))
}

/// `--set` and `--seed` as keys and values.
/// Errors: one without an equals sign.
pub fn pairs(sets: &[String], seed: Option<u64>) -> Result<Vec<(String, String)>, CliError> {
    let mut pairs = Vec::new();
    for set in sets {
        let Some((key, value)) = set.split_once('=') else {
            return Err(CliError::input(
                Path::new("--set"),
                format!("found `{set}`, expected KEY=VALUE"),
                "write it as nand.pebs=4096",
            ));
        };
        pairs.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    if let Some(seed) = seed {
        pairs.push(("seed".to_owned(), seed.to_string()));
    }
    Ok(pairs)
}

/// The user's error for an experiment that is refused.
pub fn refused(file: &Path, error: &ExperimentError) -> CliError {
    let help = match error {
        ExperimentError::Syntax(_) => "mend the line that the message shows",
        ExperimentError::UnknownKey { .. } => "correct the key, or remove it; docs/format/experiment.md lists all keys",
        ExperimentError::Value { .. } => "give the key a value in its range",
    };
    CliError::input(file, error.to_string(), help)
}

fn summary(found: &Found, out: Option<&Path>) -> String {
    let (peb, ec) = found.most_worn();
    let groups = &found.groups;
    let mut text = format!(
        "{}: {} steps, {} erasures, {:.1} virtual hours (stopped by {})\n\n{}\n",
        found.experiment.title,
        report::grouped(found.steps),
        report::grouped(found.erase_counts.iter().map(|&ec| u64::from(ec)).sum()),
        found.virtual_ns as f64 / 3.6e12,
        found.stopped_by,
        found.table.print(),
    );
    text += &format!("first 64 PEBs: {}~{}\n", groups.first64.min, groups.first64.max);
    text += &format!("others: {}~{}\n", groups.others.min, groups.others.max);
    text += &format!("first 64 over others: {:.2}; most worn: PEB {peb}, {ec}\n", found.head_ratio());
    text += &format!(
        "fastmap writes per PEB {:.4}, mean user pool {:.2}, anchors in place {:.1} %\n",
        found.fastmap.writes_per_user_peb,
        found.fastmap.mean_user_pool,
        100.0 * found.fastmap.anchors_in_place_share,
    );
    text += &format!("fingerprint {}\n", found.fingerprint);
    if let Some(dir) = out {
        text += &format!("results in {}; open {}\n", dir.display(), dir.join("report.html").display());
    }
    text
}
