//! `nandlab run`: runs one experiment and writes its results.

use std::path::{Path, PathBuf};

use runner::measure::Outcome as Found;
use runner::measure::outcome::drive::Status;
use runner::parts::Library;
use runner::run::{DriveRunError, Failed, Prepared};
use runner::schema::{self, ExperimentError, document};
use workload::replay::Arrival;
use workload::trace::Format;

use crate::Outcome;
use crate::error::CliError;
use crate::mapped_file::MappedFile;
use crate::parts::PartDirs;
use crate::progress::Bars;
use crate::trace::Replay;
use crate::{output, store, summary};

/// Arguments of `nandlab run`.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment, a TOML file: on raw flash with UBI, or on a drive
    #[arg(required_unless_present = "help_keys")]
    file: Option<PathBuf>,
    /// List every key of an experiment with its meaning, values and default
    #[arg(long)]
    help_keys: bool,
    /// Use this fio job instead of the experiment's workload
    #[arg(long, value_name = "JOB.fio")]
    fio: Option<PathBuf>,
    /// Override a key of the file, as in `--set nand.pebs=4096`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed; overrides the file's
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    parts: PartDirs,
    /// Directory for the results [default: none are written]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the flash's contents in this file, a raw image that `nandlab image` reads; it is mapped into memory, so the
    /// device may be larger than memory
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Overwrite the file of --flash if it exists
    #[arg(long)]
    force: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: a file that cannot be read or is no experiment; a run that fails; results that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    if args.help_keys {
        output::print(&document::help())?;
        return Ok(Outcome::Done);
    }
    let file = args.file.as_deref().unwrap_or(Path::new(""));
    let mut pairs = pairs(&args.set, args.seed)?;
    if let Some(job) = &args.fio {
        pairs.push(job_file(job)?);
    }
    execute(&Request {
        file,
        pairs,
        library: &*args.parts.library()?,
        format: None,
        read_opcode: None,
        out: args.out.as_deref(),
        flash: args.flash.as_deref(),
        force: args.force,
        json: args.json,
    })
}

/// A run to execute, for `nandlab run` and `nandlab trace replay`.
pub struct Request<'a> {
    /// Path of the experiment.
    pub file: &'a Path,
    /// Keys and values that override the file's.
    pub pairs: Vec<(String, String)>,
    /// Parts that the experiment may name.
    pub library: &'a Library,
    /// Format of the trace; `None` to detect it.
    pub format: Option<Format>,
    /// Code of a read in the trace; `None` for the format's own.
    pub read_opcode: Option<u8>,
    /// Directory for the results.
    pub out: Option<&'a Path>,
    /// File for the flash's contents.
    pub flash: Option<&'a Path>,
    /// Whether to overwrite that file.
    pub force: bool,
    /// Whether to print the result as JSON.
    pub json: bool,
}

/// Runs an experiment, from its file to its results.
/// Errors: an experiment or a load that cannot be used; results that cannot be written. A worn-out drive makes the
/// outcome [`Outcome::Failed`].
pub fn execute(request: &Request<'_>) -> Result<Outcome, CliError> {
    let text = read(request.file)?;
    let beside = request.file.parent().unwrap_or(Path::new(""));
    let mut pairs = request.pairs.clone();
    if let Some(path) = schema::job_path(&text, &pairs) {
        pairs.push(job_file(&beside.join(path))?);
    }
    let prepared =
        Prepared::resolve_with(&text, &pairs, request.library).map_err(|error| refused(request.file, &error))?;
    if let Some(dir) = request.out {
        store::prepare(dir)?;
    }
    let trace = prepared.experiment.trace.as_ref().map(|trace| {
        let given = request.pairs.iter().any(|(key, _)| key == "trace.file");
        if given { PathBuf::from(&trace.file) } else { beside.join(&trace.file) }
    });
    let found = match on_store(&prepared, trace.as_deref(), request) {
        Ok(found) => found,
        Err(Stopped::Cli(error)) => return Err(error),
        Err(Stopped::Run(Failed::Drive(error))) if error.is_the_drives() => {
            eprintln!("failed: {}: {error}", request.file.display());
            return Ok(Outcome::Failed);
        }
        Err(Stopped::Run(error)) => return Err(CliError::input(request.file, error.to_string(), help(&error))),
    };
    let mut summary = summary::of(&found);
    if let Some(dir) = request.out {
        store::write_run(dir, &found)?;
        summary += &format!("results in {}; open {}\n", dir.display(), dir.join("report.html").display());
    }
    if request.json {
        output::print_json(&found)?
    } else {
        output::print(&summary)?
    }
    Ok(match found.drive() {
        Some(drive) if drive.status == Status::WornOut => {
            let why = drive.end_of_life.as_ref().map_or("", |end| end.why.as_str());
            eprintln!("failed: the drive accepts no more writes: {why}");
            Outcome::Failed
        }
        _ => Outcome::Done,
    })
}

/// Why there is no result.
pub enum Stopped {
    Cli(CliError),
    Run(Failed),
}

impl From<CliError> for Stopped {
    fn from(error: CliError) -> Stopped {
        Stopped::Cli(error)
    }
}

impl From<Failed> for Stopped {
    fn from(error: Failed) -> Stopped {
        Stopped::Run(error)
    }
}

fn help(error: &Failed) -> &'static str {
    match error {
        Failed::Drive(DriveRunError::Load(_)) => {
            "make the load fit the drive: see workload.offset_bytes, workload.size_bytes, or the job file"
        }
        Failed::Drive(DriveRunError::Recording(_)) => "replay it in another mode: --mode open or closed",
        Failed::Drive(DriveRunError::Device { .. }) => {
            "give the drive more capacity, or wrap the trace's addresses with trace.wrap"
        }
        _ => "change the experiment so that it can run",
    }
}

/// Runs a prepared experiment, with its trace if it has one, on the store that the request names.
pub fn on_store(prepared: &Prepared, trace: Option<&Path>, request: &Request<'_>) -> Result<Found, Stopped> {
    let device = prepared.experiment.trace.as_ref().and_then(|trace| trace.device);
    let mut replay = trace.map(|path| Replay::open(path, device, request.format, request.read_opcode)).transpose()?;
    let arrivals = replay.as_mut().map(|replay| replay as &mut dyn Iterator<Item = Arrival>);
    // A trace shows its own progress.
    let bars = Bars::new(!request.json && trace.is_none());
    let bar = bars.add(&prepared.experiment.title);
    let is_drive = prepared.experiment.ssd.is_some();
    let mut watch = |progress| if is_drive { bar.show_requests(progress) } else { bar.show(progress) };
    let found = match request.flash {
        None => prepared.run(arrivals, &mut watch)?,
        Some(path) => {
            let geometry = prepared.geometry();
            let file = MappedFile::create(path, geometry.bytes(), request.force)?;
            let store = nand::Mapped::erased(geometry, file, false).map_err(|error| {
                CliError::input(path, error.to_string(), "this is a fault of nandlab: please report it")
            })?;
            let (found, store) = prepared.run_on(store, arrivals, &mut watch)?;
            store.into_buffer().finish(request.force)?;
            found
        }
    };
    bar.finish();
    match replay.and_then(Replay::into_error) {
        Some(error) => Err(error.into()),
        None => Ok(found),
    }
}

/// A text as a TOML string, for a key-value pair.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

/// The pair that makes a job file the experiment's load.
/// Errors: the file cannot be read.
pub fn job_file(path: &Path) -> Result<(String, String), CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::read(path, &error))?;
    Ok(("workload.fio".to_owned(), quoted(&text)))
}

/// Reads an experiment's file.
/// Errors: it cannot be read, or is not UTF-8 text.
pub fn read(file: &Path) -> Result<String, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => CliError::input(
            file,
            "found bytes that are no text, expected TOML",
            "name an experiment; those of the tree are in experiments/",
        ),
        _ => CliError::read(file, &error),
    })?;
    Ok(text)
}

/// Splits `--set`, and adds `--seed`, as keys and values.
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

/// The error for a refused experiment.
pub fn refused(file: &Path, error: &ExperimentError) -> CliError {
    let help = match error {
        ExperimentError::Syntax(_) => "mend the line that the message shows",
        ExperimentError::UnknownKey { .. } => "correct the key, or remove it; `nandlab run --help-keys` lists all keys",
        ExperimentError::Value { .. } => "give the key a value in its range",
    };
    CliError::input(file, error.to_string(), help)
}
