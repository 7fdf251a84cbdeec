//! `nandlab run`: runs one experiment and writes its results.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use runner::measure::outcome::drive::Status;
use runner::measure::{Detail, Outcome as Found};
use runner::parts::Library;
use runner::report::drive::{bytes, span};
use runner::report::grouped;
use runner::run::UbiEvent;
use runner::run::guest::{Backing, Terminal};
use runner::run::{DriveRunError, Failed, FlashRunError, GuestError, Host, Prepared, Progress};
use runner::schema::fs::FsKind;
use runner::schema::{self, document};
use sim::seam::{BlockError, SECTOR_BYTES};
use workload::file::strace::{StraceError, Trace as Calls};
use workload::replay::Arrival;
use workload::trace::{Format, TraceRecord};

use crate::Outcome;
use crate::error::CliError;
use crate::given::Given;
use crate::guest::Printer;
use crate::guest::beside::Beside;
use crate::guest::logs::{Logs, Paths};
use crate::kept::{Kept, sink};
use crate::mapped_file::MappedFile;
use crate::output::{self, Overwrite};
use crate::parts::PartDirs;
use crate::progress::{Bars, Work};
use crate::trace::Replay;
use crate::watch::{Flag, Watching};
use crate::{flame, store, summary};

/// Arguments of `nandlab run`.
#[derive(clap::Args)]
pub struct Args {
    /// The experiment, a TOML file: on raw flash with UBI, on a ubiblock, or on a drive
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
    /// Keep the flash's contents in this file: of raw flash, and of that below a ubiblock, an image that `nandlab image`
    /// reads, of a drive the pages of its units one after the other. It is mapped into memory, so the device may be larger than memory
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// With a guest on a drive or a ubiblock: keep what the guest sees of it in this file, a disk image
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,
    /// With a guest: contents of the device at the start, of raw flash a dump without OOB, of a block device a disk image.
    /// --flash keeps what they are at the end, of a ubiblock --disk
    #[arg(long, value_name = "IMAGE")]
    from: Option<PathBuf>,
    /// With a guest on a block device: record its requests as a trace, which `nandlab trace` reads; the file name's ending
    /// selects the format, as .ntrace
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// On raw flash: record the calls of UBI, nandlab's or that of Linux in the guest, and erasures, as CSV
    #[arg(long, value_name = "FILE")]
    ubi_log: Option<PathBuf>,
    /// Draw where the virtual time went, by thread, operation and cause, as a flame graph in this file, or, if its name
    /// ends in .folded, write the stacks as text for other programs; of a drive the latency by
    /// operation and part, and the time of dies and buses by cause; of a guest on raw flash by process
    #[arg(long, value_name = "FILE.svg")]
    flame: Option<PathBuf>,
    #[command(flatten)]
    watch: Flag,
    /// Overwrite the files of --out, --flash, --disk, --trace, --ubi-log and --flame that exist; inputs are never overwritten
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
    let mut given = Given::new(&args.set, args.seed)?;
    if let Some(job) = &args.fio {
        given.push("workload.fio", job_file(job)?, format!("--fio {}", job.display()));
    }
    let mut inputs = args.parts.inputs();
    inputs.extend(args.fio.clone());
    inputs.extend(args.from.clone());
    execute(&Request {
        file,
        given,
        inputs,
        library: &*args.parts.library()?,
        format: None,
        read_opcode: None,
        out: args.out.as_deref(),
        flash: args.flash.as_deref(),
        disk: args.disk.as_deref(),
        from: args.from.as_deref(),
        logs: Paths { trace: args.trace.as_deref(), ubi: args.ubi_log.as_deref(), kept: None },
        flame: args.flame.as_deref(),
        force: args.force,
        json: args.json,
        serves: false,
        watching: args.watch.start()?.as_ref(),
    })
}

/// A run to execute, for `nandlab run` and `nandlab trace replay`.
pub struct Request<'a> {
    /// Path of the experiment.
    pub file: &'a Path,
    /// Keys and values that override the file's.
    pub given: Given,
    /// Files that are read besides the experiment and what it names.
    pub inputs: Vec<PathBuf>,
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
    /// File for what the guest of a block device sees of it.
    pub disk: Option<&'a Path>,
    /// File with the device's contents at the start, for a guest.
    pub from: Option<&'a Path>,
    /// Recordings of requests and calls.
    pub logs: Paths<'a>,
    /// File for the flame graph.
    pub flame: Option<&'a Path>,
    /// Whether to overwrite what exists there.
    pub force: bool,
    /// Whether to print the result as JSON.
    pub json: bool,
    /// Whether clients were the load.
    pub serves: bool,
    /// The page of the run, if one is wanted.
    pub watching: Option<&'a Watching>,
}

impl Request<'_> {
    /// Checks that no file is named for two contents.
    /// Errors: it is, by two options, or by one and as a result of `--out`.
    fn written_once(&self) -> Result<(), CliError> {
        let options = [
            ("--flash", self.flash),
            ("--disk", self.disk),
            ("--trace", self.logs.trace),
            ("--ubi-log", self.logs.ubi),
            ("--flame", self.flame),
        ];
        let mut named: Vec<(PathBuf, String, String)> = Vec::new();
        if let Some(dir) = self.out {
            let help = |name: &str| match name {
                store::REQUESTS => "leave --trace out: --out keeps the requests there".to_owned(),
                _ => "give another name or directory".to_owned(),
            };
            let results = store::OF_RUN.iter();
            named.extend(results.map(|name| (output::place_of(&dir.join(name)), "--out".to_owned(), help(name))));
        }
        for (option, path) in options {
            let Some(path) = path else { continue };
            let place = output::place_of(path);
            if let Some((_, other, help)) = named.iter().find(|(at, ..)| *at == place) {
                let what = format!("{option} and {other} both write it, expected a file for each");
                return Err(CliError::input(path, what, help));
            }
            named.push((place, option.to_owned(), "give another name or directory".to_owned()));
        }
        Ok(())
    }
}

/// Runs an experiment, from its file to its results.
/// Errors: an experiment or a load that cannot be used; results that cannot be written. A worn-out drive makes the
/// outcome [`Outcome::Failed`].
pub fn execute(request: &Request<'_>) -> Result<Outcome, CliError> {
    execute_text(request, &read(request.file)?, &mut Printer { quiet: request.json })
}

/// As [`execute`], with the text of the experiment, and a terminal for a guest's job.
/// Errors: as [`execute`].
pub fn execute_text(request: &Request<'_>, text: &str, terminal: &mut dyn Terminal) -> Result<Outcome, CliError> {
    let beside = request.file.parent().unwrap_or(Path::new(""));
    let mut given = request.given.clone();
    let mut inputs = request.inputs.clone();
    inputs.push(request.file.to_owned());
    let is_text = given.option_of("workload.fio").is_some_and(|option| option.starts_with("--fio"));
    if !is_text && let Some(path) = schema::job_path(text, given.pairs()) {
        let path = beside.join(path);
        given.push("workload.fio", job_file(&path)?, path.display().to_string());
        inputs.push(path);
    }
    let mut prepared = Prepared::resolve_with(text, given.pairs(), request.library)
        .map_err(|error| given.refused(request.file, &error))?;
    let trace = prepared.experiment.trace.as_ref().map(|trace| {
        if given.option_of("trace.file").is_some() { PathBuf::from(&trace.file) } else { beside.join(&trace.file) }
    });
    inputs.extend(trace.clone());
    if let Some(strace) = &prepared.experiment.strace {
        let path = if given.option_of("strace.file").is_some() {
            PathBuf::from(&strace.file)
        } else {
            beside.join(&strace.file)
        };
        let calls = calls(&path, &strace.root)?;
        prepared = prepared.with_calls(calls.into());
        inputs.push(path);
    }
    let overwrite = Overwrite::new(request.force, inputs.iter().map(PathBuf::as_path));
    request.written_once()?;
    if let Some(dir) = request.out {
        store::prepare_run(dir, &overwrite)?;
    }
    if let Some(path) = request.flame {
        prepared = flame::prepare(prepared, path, &overwrite)?;
    }
    request.watching.iter().for_each(|watching| watching.begin(&prepared));
    let ran = match &prepared.experiment.guest {
        Some(guest) => in_guest(&prepared, guest, request, &overwrite, terminal),
        None if request.from.is_some() || request.disk.is_some() || request.logs.trace.is_some() => {
            let help = "give the experiment a table [guest], or leave the option out";
            return Err(CliError::input(request.file, "--from, --disk or --trace without a guest", help));
        }
        None => on_store(&prepared, trace.as_deref(), request, &overwrite),
    };
    conclude(request, ran, trace.as_deref(), &overwrite)
}

/// Prints what came of a run, and writes what is to be kept.
/// Errors: the run failed by its input; results that cannot be written.
pub fn conclude(
    request: &Request<'_>,
    ran: Result<(Found, Kept), Stopped>,
    trace: Option<&Path>,
    overwrite: &Overwrite,
) -> Result<Outcome, CliError> {
    let (found, files) = match ran {
        Ok(found) => found,
        Err(Stopped::Cli(error)) => return Err(error),
        Err(Stopped::Run(Failed::Drive(error))) if error.is_the_drives() => {
            eprintln!("failed: {}: {error}", request.file.display());
            return Ok(Outcome::Failed);
        }
        Err(Stopped::Run(error)) => return Err(failed(request.file, trace, &error)),
    };
    request.watching.iter().for_each(|watching| watching.end(&found));
    // The result first: a full disk must not lose it.
    if request.json {
        output::print_json(store::RUN, &found)?;
    } else {
        // The job's output may stop within a line.
        let open = found
            .measured
            .guest
            .as_ref()
            .is_some_and(|guest| !guest.output.ends_with(['\n']) && !guest.output.is_empty());
        output::print(&format!("{}{}", if open { "\n" } else { "" }, summary::of(&found)))?;
    }
    let mut kept = String::new();
    if let Some(file) = files.device {
        let what = if request.disk == Some(file.target()) { "disk" } else { "flash" };
        kept += &format!("{what} in {}: {}\n", file.target().display(), contents(&found, request.serves));
        file.finish(overwrite)?;
    }
    if let Some(file) = files.flash {
        kept += &format!("flash in {}: {UBI_IMAGE}\n", file.target().display());
        file.finish(overwrite)?;
    }
    if let Some(path) = request.flame {
        kept += &flame::write(path, &found, overwrite)?;
    }
    if let Some(dir) = request.out {
        store::write_run(dir, &found, overwrite)?;
        kept += &format!("results in {}; open {}\n", dir.display(), dir.join("report.html").display());
    }
    if !request.json {
        output::print(&kept)?;
    }
    if let Detail::Flash(flash) = &found.measured.detail
        && let Some(failure) = &flash.failure
    {
        eprintln!("failed: {failure}");
        return Ok(Outcome::Failed);
    }
    if let Some(guest) = &found.measured.guest
        && let Some(code) = guest.exit.filter(|&code| code != 0)
    {
        let is_damaged = guest.marks.iter().any(|mark| mark.text == runner::run::guest::DAMAGED);
        eprintln!("failed: the guest's job exited with {code}");
        if is_damaged {
            eprintln!("failed: the checker of the guest's file system found damage; its last lines end the output");
        }
        return Ok(Outcome::Failed);
    }
    Ok(match found.drive() {
        Some(drive) if drive.status == Status::WornOut => {
            let why = drive.end_of_life.as_ref().map_or("", |end| end.why.as_str());
            let what = if found.experiment.ubiblock.is_some() { "UBI" } else { "the drive" };
            eprintln!("failed: {what} accepts no more writes: {why}");
            Outcome::Failed
        }
        _ => Outcome::Done,
    })
}

/// What the flash of UBI is.
const UBI_IMAGE: &str = "a UBI image, see `nandlab image info`";

/// Describes the file with what a device holds.
fn contents(found: &Found, serves: bool) -> String {
    match found.drive() {
        _ if found.measured.guest.is_some() || serves => "the device's contents, for --from".to_owned(),
        None if found.experiment.jffs().is_some_and(|fs| fs.kind == FsKind::Jffs1) => {
            "JFFS version 1, byte by byte".to_owned()
        }
        None if found.experiment.jffs().is_some() => "JFFS2 without OOB, see `nandlab image info`".to_owned(),
        None => UBI_IMAGE.to_owned(),
        Some(_) if found.experiment.ubiblock.is_some() => UBI_IMAGE.to_owned(),
        Some(drive) => format!(
            "the drive's {} pages of {} bytes, unit by unit, without OOB; no UBI image",
            grouped(drive.raw_bytes / u64::from(drive.page_bytes)),
            grouped(u64::from(drive.page_bytes))
        ),
    }
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

/// The error for a run that failed because of its input.
fn failed(file: &Path, trace: Option<&Path>, error: &Failed) -> CliError {
    if let Failed::Drive(DriveRunError::Device {
        error: BlockError::OutOfBounds { sector, end, sectors }, at_ns, ..
    }) = error
        && let Some(trace) = trace
    {
        let what = format!(
            "found a request of sectors {sector} to {end} (after {} of the run), expected at most {sectors}: the drive of {} has {}",
            span(*at_ns as f64),
            file.display(),
            bytes(sectors * u64::from(SECTOR_BYTES))
        );
        let help = "wrap the trace's addresses around with --wrap (trace.wrap = true), or give the drive more capacity";
        return CliError::input(trace, what, help);
    }
    CliError::input(file, error.to_string(), help(error))
}

fn help(error: &Failed) -> &'static str {
    match error {
        Failed::Drive(DriveRunError::Device { error: BlockError::ReadOnly { .. }, .. }) => {
            "let the load only read (workload.rw), or choose a form of ubiblock.form that takes writes"
        }
        Failed::Drive(DriveRunError::Load(_)) => {
            "make the load fit the drive: see workload.offset_bytes, workload.size_bytes, or the job file"
        }
        Failed::Drive(DriveRunError::Guest(error)) | Failed::Flash(FlashRunError::Guest(error)) => match error {
            GuestError::Contents(_) => "free some space in the cache, or set ssd.store = \"bytes\"",
            GuestError::Image { .. } => "give the device the size of the image, or another image",
            GuestError::SteadyImage => "precondition in another way, or not at all",
            GuestError::Load(_) => {
                "see what the load says: it may find no space, or Linux may not mount what a power cut left"
            }
            GuestError::Setup(_) => "see what the setup says: a tool may be missing on the host",
            GuestError::Machine(_) => "see what the guest's kernel says; guest.memory_mib may be too small",
            GuestError::NoHost => "run it with `nandlab run`",
        },
        Failed::Flash(FlashRunError::SetUp { .. }) => {
            "make the load fit the file system: see sysbench.file_total_bytes, fio.size_bytes, fs.lebs, nand.pebs"
        }
        Failed::Drive(DriveRunError::Recording(_)) => "replay it in another mode: --mode open or closed",
        _ => "change the experiment so that it can run",
    }
}

/// Runs a prepared experiment, with its trace if it has one, on the store that the request names. Returns the result, and
/// the flash if it is kept, in a file to finish.
pub fn on_store(
    prepared: &Prepared,
    trace: Option<&Path>,
    request: &Request<'_>,
    overwrite: &Overwrite,
) -> Result<(Found, Kept), Stopped> {
    let device = prepared.experiment.trace.as_ref().and_then(|trace| trace.device);
    let mut replay = trace.map(|path| Replay::open(path, device, request.format, request.read_opcode)).transpose()?;
    let of_trace = replay.as_ref().map(Replay::bar);
    let arrivals = replay.as_mut().map(|replay| replay as &mut dyn Iterator<Item = Arrival>);
    let bars = Bars::new(!request.json && trace.is_none());
    let title = &prepared.experiment.title;
    let work = if prepared.experiment.has_block_device() { Work::Requests } else { Work::Erasures };
    let bar = bars.add(title, work, 1);
    // The bar of a trace shows how far it is read.
    let of_trace = of_trace.map(|bar| (bar, Instant::now()));
    let mut watch = |progress: Progress| {
        request.watching.iter().for_each(|watching| watching.show(&progress));
        match &of_trace {
            Some((bar, began)) => {
                bar.set_message(work.rate(progress.work as f64 / began.elapsed().as_secs_f64().max(1e-3)))
            }
            None => bar.show(title, progress),
        }
    };
    let mut logs = Logs::create(request.logs, &prepared.subject, overwrite)?;
    let (_, is_logged) = logs.wanted();
    let mut note = |event: &UbiEvent<'_>| logs.ubi(event);
    let mut file = match request.flash {
        Some(path) => Some(MappedFile::create(path, prepared.geometry().bytes(), overwrite)?),
        None => None,
    };
    let store = file.as_mut().map(|file| {
        let path = file.target().to_owned();
        let buffer: &mut dyn nand::Buffer = file;
        let store = nand::Mapped::erased(prepared.geometry(), buffer, false);
        store
            .map(nand::AnyStore::Mapped)
            .map_err(|error| CliError::input(&path, error.to_string(), "this is a fault of nandlab: please report it"))
    });
    let found = match store.transpose()? {
        store if is_logged => prepared.run_logged(store, &mut note, &mut watch)?.0,
        Some(store) => prepared.run_on(store, arrivals, &mut watch)?.0,
        None => prepared.run(arrivals, &mut watch)?,
    };
    logs.finish()?;
    bar.finish();
    let flash = Kept { device: file, flash: None };
    match replay.and_then(Replay::into_error) {
        Some(error) => Err(error.into()),
        None => Ok((found, flash)),
    }
}

/// Runs the guest of an experiment.
fn in_guest(
    prepared: &Prepared,
    guest: &schema::guest::Guest,
    request: &Request<'_>,
    overwrite: &Overwrite,
    terminal: &mut dyn Terminal,
) -> Result<(Found, Kept), Stopped> {
    let kernel = crate::guest::kernel(runner::run::guest::wanted(guest))?;
    let image =
        request.from.map(|path| std::fs::read(path).map_err(|error| CliError::read(path, &error))).transpose()?;
    let mut kept = Kept::create(&prepared.subject, request.flash, request.disk, overwrite)?;
    let [mut device, mut flash] = kept.filled(&prepared.subject);
    let requests = request.out.map(|dir| dir.join(store::REQUESTS));
    let paths = Paths { kept: requests.as_deref(), ..request.logs };
    let logs = RefCell::new(Logs::create(paths, &prepared.subject, overwrite)?);
    let (mut put, mut note) =
        (|record: &TraceRecord| logs.borrow_mut().request(record), |event: &UbiEvent<'_>| logs.borrow_mut().ubi(event));
    let (requests, ubi) = logs.borrow().wanted();
    let program = crate::guest::program(guest)?;
    crate::guest::tools(&guest.fs, request.from.is_none(), guest.fs.fsck)?;
    let mut beside = runner::run::guest::may_be_outside(&prepared.experiment).then(Beside::create).transpose()?;
    let host = Host {
        kernel: &kernel,
        terminal,
        program: program.as_deref(),
        image: image.as_deref(),
        keep: sink(&mut device),
        keep_flash: sink(&mut flash),
        backing: beside.as_mut().map(|beside| beside as &mut dyn Backing),
        requests: requests.then_some(&mut put),
        log: None,
        ubi: ubi.then_some(&mut note),
    };
    let found = prepared.run_guest(host, &mut |progress| {
        request.watching.iter().for_each(|watching| watching.show(&progress));
    })?;
    logs.into_inner().finish()?;
    drop((device, flash));
    Ok((found, kept))
}

/// A text as a TOML string, for a key-value pair.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

/// A job file as a TOML string.
/// Errors: the file cannot be read, or is no job file.
pub fn job_file(path: &Path) -> Result<String, CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::read(path, &error))?;
    workload::fio::parse(&text).map_err(|error| {
        CliError::input(path, error.to_string(), "write a job file as docs/format/fio.md describes it")
    })?;
    Ok(quoted(&text))
}

/// Reads a trace of strace.
/// Errors: a file that cannot be read; a line that is not strace's; no call on a file of the directory.
pub fn calls(path: &Path, root: &str) -> Result<Calls, CliError> {
    let file = std::fs::File::open(path).map_err(|error| CliError::read(path, &error))?;
    Calls::read(std::io::BufReader::new(file), root).map_err(|error| match error {
        StraceError::Io(error) => CliError::read(path, &error),
        StraceError::Line { .. } => CliError::input(
            path,
            error.to_string(),
            "record with strace -f -ttt -y -s 0 -o FILE: docs/format/strace.md",
        ),
        StraceError::Nothing { .. } => {
            CliError::input(path, error.to_string(), "name the directory of the traced system in strace.root")
        }
    })
}

/// Reads an experiment's file.
/// Errors: it cannot be read, or is not UTF-8 text.
pub fn read(file: &Path) -> Result<String, CliError> {
    read_text(file, "name an experiment; those of the tree are in experiments/")
}

/// Reads a file of TOML. `help` is the remedy where it is none.
/// Errors: it cannot be read, or is not UTF-8 text.
pub fn read_text(file: &Path, help: &str) -> Result<String, CliError> {
    std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => CliError::input(file, "found bytes that are no text, expected TOML", help),
        _ => CliError::read(file, &error),
    })
}
