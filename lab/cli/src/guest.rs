//! `nandlab guest`: builds the guest's kernel, and opens a shell in a guest.

pub mod beside;
pub mod logs;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use guest::kernel::{Step, cache};
use guest::{Kernel, KernelError, Wanted, program as programs};
use indicatif::{ProgressBar, ProgressStyle};
use runner::run::guest::Terminal;
use runner::schema::guest::{Fs, Guest, Program};

use crate::Outcome;
use crate::error::CliError;
use crate::parts::PartDirs;
use crate::run::{self, Request};
use crate::{given, output};

/// Subcommands of `nandlab guest`.
#[derive(Subcommand)]
pub enum Command {
    /// Build the guest's kernel from Debian's source, in the user's cache
    Build(BuildArgs),
    /// Open a shell in a guest on the device of an experiment. Commands are read from the terminal or standard input;
    /// no virtual time passes at the prompt
    Shell(ShellArgs),
}

/// A Linux that can be built.
#[derive(Clone, Copy, ValueEnum)]
enum Linux {
    #[value(name = "6.12")]
    V6_12,
    #[value(name = "6.1")]
    V6_1,
}

/// Arguments of `nandlab guest build`.
#[derive(clap::Args)]
pub struct BuildArgs {
    /// Linux to build: Debian's 6.12, or 6.1.176 (UBI before the fastmap series; reiserfs)
    #[arg(long, value_enum, default_value = "6.12")]
    linux: Linux,
    /// Leave out xfs, btrfs, f2fs and nilfs2, which are half of the build
    #[arg(long)]
    small: bool,
    /// Build it even if it is there
    #[arg(long)]
    force: bool,
}

/// Arguments of `nandlab guest shell`.
#[derive(clap::Args)]
pub struct ShellArgs {
    /// The experiment, a TOML file; its load and its guest's job are not used
    experiment: PathBuf,
    /// Contents of the device at the start: a disk image, or a dump of raw flash without OOB
    #[arg(long, value_name = "IMAGE")]
    from: Option<PathBuf>,
    /// Keep the device's contents in this file: a disk image, or of raw flash a dump; of a ubiblock the flash below it
    #[arg(long, value_name = "FILE")]
    flash: Option<PathBuf>,
    /// Keep a block device's contents in this file, a disk image
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,
    /// Override a key of the file, as in `--set nand.pebs=4096`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// The seed; overrides the file's
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    parts: PartDirs,
    /// Overwrite the files of --flash and --disk that exist
    #[arg(long)]
    force: bool,
}

/// Runs the subcommand.
/// Errors: see [`build`] and [`run::execute`].
pub fn run(command: Command) -> Result<Outcome, CliError> {
    match command {
        Command::Build(args) => build(&args),
        Command::Shell(args) => shell(&args),
    }
}

/// The user's cache. Errors: there is no home directory.
pub fn cache_dir() -> Result<PathBuf, CliError> {
    cache().ok_or_else(|| {
        CliError::environment(Path::new("the cache"), "no home directory", "set NANDLAB_CACHE to a directory")
    })
}

/// The kernel that is wanted. Errors: it is not built.
pub fn kernel(wanted: Wanted) -> Result<Kernel, CliError> {
    let dir = cache_dir()?;
    Kernel::find(&dir, wanted).ok_or_else(|| {
        let help = format!("build it: nandlab guest build --linux {}", wanted.version.name());
        CliError::environment(&dir, format!("no kernel {}", Wanted { small: false, ..wanted }.directory()), help)
    })
}

/// The program that an experiment's job calls by its name, if it names one: compiled in the user's cache.
/// Errors: it cannot be built.
pub fn program(guest: &Guest) -> Result<Option<Vec<u8>>, CliError> {
    let compiled = match guest.program {
        Program::None => return Ok(None),
        Program::Promises => return Ok(Some(programs::PROMISES.into())),
        Program::Fsstress => programs::fsstress,
        Program::Load => programs::load,
    };
    let dir = cache_dir()?;
    let path = compiled(&dir).map_err(|error| refused(&dir, &error))?;
    std::fs::read(&path).map(Some).map_err(|error| CliError::read(&path, &error))
}

/// Where a guest, whose root is the host's tree, looks for programs.
const PROGRAM_DIRS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Checks that the programs are there that make (`fresh`) and check (`checks`) a guest's file system.
/// Errors: one is missing.
pub fn tools(fs: &Fs, fresh: bool, checks: bool) -> Result<(), CliError> {
    tools_in(&PROGRAM_DIRS.map(Path::new), fs, fresh, checks)
}

fn tools_in(dirs: &[&Path], fs: &Fs, fresh: bool, checks: bool) -> Result<(), CliError> {
    let is_missing = |program: &str| !dirs.iter().any(|dir| dir.join(program).is_file());
    match runner::run::guest::tools(fs, fresh, checks).into_iter().find(|tool| is_missing(tool.program)) {
        None => Ok(()),
        Some(tool) => {
            let kind = runner::schema::word(&fs.kind);
            let what = format!("there is no such program in /usr/sbin and the like, and {kind} in the guest needs it");
            let help = format!("apt-get install {}", tool.package);
            Err(CliError::environment(Path::new(tool.program), what, help))
        }
    }
}

fn build(args: &BuildArgs) -> Result<Outcome, CliError> {
    let version = match args.linux {
        Linux::V6_12 => guest::Version::V6_12,
        Linux::V6_1 => guest::Version::V6_1,
    };
    let wanted = Wanted { version, small: args.small };
    let dir = cache_dir()?;
    if let (Some(kernel), false) = (Kernel::find(&dir, wanted), args.force) {
        output::print(&format!("Linux {} is there: {}\n", kernel.name(), kernel.linux().display()))?;
        return Ok(Outcome::Done);
    }
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let built = Kernel::build(&dir, wanted, &mut |step| {
        bar.set_message(match step {
            Step::Fetch => "fetching Debian's source".to_owned(),
            Step::Unpack => "unpacking".to_owned(),
            Step::Configure => "configuring".to_owned(),
            Step::Compile(files) => format!("compiling: {files} files"),
        })
    });
    bar.finish_and_clear();
    let kernel = built.map_err(|error| refused(&dir, &error))?;
    output::print(&format!("built Linux {}: {}\n", kernel.name(), kernel.linux().display()))?;
    Ok(Outcome::Done)
}

fn refused(dir: &Path, error: &KernelError) -> CliError {
    let help = match error {
        KernelError::Tools { packages, .. } => format!("apt-get install {}", packages.join(" ")),
        KernelError::Source { .. } => "run `apt-get update` as root, or check the network".to_owned(),
        KernelError::Step { .. } => "read the log; if no tool is missing, please report it".to_owned(),
        KernelError::Cache { .. } => "free some space, or set NANDLAB_CACHE to another directory".to_owned(),
    };
    CliError::environment(dir, error.to_string(), help)
}

/// Prints what the job writes, as it comes.
#[derive(Default)]
pub struct Printer {
    /// Whether to print nothing.
    pub quiet: bool,
}

impl Terminal for Printer {
    fn output(&mut self, bytes: &[u8]) {
        if !self.quiet {
            let mut out = std::io::stdout();
            // A reader that is gone ends the command at its next print.
            let _ = out.write_all(bytes).and_then(|()| out.flush());
        }
    }
}

/// A prompt: lines of standard input for the guest's shell.
#[derive(Default)]
pub struct Prompt {
    /// What the guest has not read of the last line.
    left: Vec<u8>,
}

impl Terminal for Prompt {
    fn output(&mut self, bytes: &[u8]) {
        Printer::default().output(bytes);
    }

    fn input(&mut self, buffer: &mut [u8]) -> usize {
        if self.left.is_empty() {
            let mut input = std::io::stdin().lock();
            if std::io::stdin().is_terminal() {
                let mut out = std::io::stdout();
                let _ = out.write_all(b"guest# ").and_then(|()| out.flush());
            }
            if input.read_until(b'\n', &mut self.left).is_err() {
                return 0;
            }
        }
        let length = self.left.len().min(buffer.len());
        buffer[..length].copy_from_slice(&self.left[..length]);
        self.left.drain(..length);
        length
    }
}

/// The job of a shell: it reads its commands from the terminal.
const SHELL: &str = "exec sh </dev/nandlab";
/// Tables of an experiment that a shell does not use.
const LOADS: [&str; 12] =
    ["workload", "flow", "trace", "iozone", "apps", "fs", "fsstress", "postmark", "sysbench", "strace", "fio", "ubi"];

fn shell(args: &ShellArgs) -> Result<Outcome, CliError> {
    let text = run::read(&args.experiment)?;
    let mut table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| CliError::input(&args.experiment, error.to_string(), "name an experiment"))?;
    // The UBI below a ubiblock is nandlab's.
    let keeps_ubi = table.contains_key("ubiblock");
    let unused = LOADS.iter().filter(|name| !(keeps_ubi && **name == "ubi"));
    unused.for_each(|name| drop(table.remove(*name)));
    let guest = table.entry("guest").or_insert_with(|| toml::Table::new().into());
    if let Some(guest) = guest.as_table_mut() {
        guest.insert("job".to_owned(), SHELL.into());
        // A prompt may stand still for as long as its user likes.
        guest.insert("hung_s".to_owned(), 86_400.into());
    }
    let mut prompt = Prompt::default();
    run::execute_text(
        &Request {
            file: &args.experiment,
            given: given::Given::new(&args.set, args.seed)?,
            inputs: args.parts.inputs(),
            library: &*args.parts.library()?,
            format: None,
            read_opcode: None,
            out: None,
            flash: args.flash.as_deref(),
            disk: args.disk.as_deref(),
            from: args.from.as_deref(),
            logs: logs::Paths::default(),
            flame: None,
            force: args.force,
            json: false,
            serves: false,
            watching: None,
        },
        &table.to_string(),
        &mut prompt,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use runner::schema::guest::FsKind;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let nowhere = tools_in(&[], &Fs { kind: FsKind::Nilfs2, ..Fs::default() }, true, true);
        let Err(CliError::Environment { file, help, .. }) = nowhere else { panic!("{nowhere:?}") };
        assert_eq!((file.as_str(), help.as_str()), ("mkfs.nilfs2", "apt-get install nilfs-tools"));
        // With an image nothing is made, and nilfs2 has no checker.
        assert!(tools_in(&[], &Fs { kind: FsKind::Nilfs2, ..Fs::default() }, false, true).is_ok());
        assert!(tools_in(&[], &Fs::default(), true, true).is_ok());
    }
}
