//! Logs of guest runs: from a study's directory, from the user's cache, or of a guest that runs now.
//!
//! An entry of the cache is `logs/FINGERPRINT.toml` with its `.ntrace` or `.json`. The fingerprint covers what can be known
//! of everything that made it: the resolved experiment, the kernel, nandlab's model and program, and the SHA-256 of each
//! executable on the guest's PATH whose name is a word of mkfs, mount, setup or job. Libraries, interpreters and files that
//! a program reads are not covered.

use std::borrow::Cow;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex};

use runner::parts::Library;
use runner::run::guest::log::{self, GuestLog, HostProgram, Made, Recorder};
use runner::run::guest::{Backing, may_be_outside};
use runner::run::{Host, Prepared, Progress};
use runner::schema::guest::{Guest, Program};
use runner::schema::word;
use study::RunSpec;
use study::guest::{self as of_studies, From, Logs, NoLog, Taken};
use workload::trace::TraceRecord;

use crate::error::CliError;
use crate::guest;
use crate::guest::beside::Beside;
use crate::output::{self, Overwrite};

/// PATH in the guest (`guest/init.sh`).
const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Largest executable whose SHA-256 is taken; a larger one counts by its length.
const MOST_PROGRAM: u64 = 256 << 20;
/// Most guests at a time, for their memory.
const MOST_GUESTS: usize = 2;

/// Logs as the command line finds them.
pub struct FromHost<'a> {
    /// Whether to run the guests, whatever logs there are.
    pub refresh: bool,
    /// Directory for copies of the logs of guests that ran.
    pub keep: Option<&'a Path>,
    /// Directory of the study, if it is the user's own.
    pub dir: Option<&'a Path>,
    /// Parts that the experiments may name.
    pub library: &'a Library,
    /// What may be overwritten in `keep`.
    pub overwrite: &'a Overwrite,
    running: Mutex<usize>,
    ended: Condvar,
}

impl<'a> FromHost<'a> {
    /// Logs of the study in `dir`, or of a built-in one.
    pub fn new(
        (refresh, keep): (bool, Option<&'a Path>),
        dir: Option<&'a Path>,
        library: &'a Library,
        overwrite: &'a Overwrite,
    ) -> FromHost<'a> {
        FromHost { refresh, keep, dir, library, overwrite, running: Mutex::new(0), ended: Condvar::new() }
    }

    /// A file of the study's own logs.
    fn own(&self, study: &str, name: &str) -> Option<Cow<'static, [u8]>> {
        match self.dir {
            None => of_studies::built_in(study, name),
            Some(dir) => read_bounded(&dir.join("logs").join(name)).ok().map(Cow::Owned),
        }
    }

    /// Runs the guest, and keeps its log.
    /// Errors: no kernel; a run or a job that fails; a file that cannot be written.
    pub fn fresh(
        &self,
        run: &RunSpec,
        prepared: &Prepared,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<GuestLog, NoLog> {
        let section = prepared.experiment.guest.clone().unwrap_or_default();
        let kernel = guest::kernel(runner::run::guest::wanted(&section)).map_err(no_log)?;
        let program = guest::program(&section).map_err(no_log)?;
        let made = made(prepared, &section, kernel.name(), true);
        let mut recorder = Recorder::default();
        let mut record = |request: &TraceRecord, is_measured: bool| recorder.record(request, is_measured);
        let mut beside = may_be_outside(&prepared.experiment).then(Beside::create).transpose().map_err(no_log)?;
        guest::tools(&section.fs, true, section.fs.fsck).map_err(no_log)?;
        let host = Host {
            kernel: &kernel,
            terminal: &mut (),
            program: program.as_deref(),
            image: None,
            keep: None,
            keep_flash: None,
            backing: beside.as_mut().map(|beside| beside as &mut dyn Backing),
            requests: None,
            log: Some(&mut record),
            ubi: None,
        };
        let turn = self.wait();
        let found = prepared.run_guest(host, watch);
        drop(turn);
        let help = "run its experiment with `nandlab run` to see more";
        let found = found.map_err(|error| wrong(error.to_string(), help))?;
        if let Some(guest) = &found.measured.guest
            && let Some(code) = guest.exit.filter(|&code| code != 0)
        {
            let said = guest.output.lines().rev().take(10).collect::<Vec<_>>();
            let said = said.into_iter().rev().collect::<Vec<_>>().join("\n");
            return Err(wrong(format!("the guest's job exited with {code}; the end of its output:\n{said}"), help));
        }
        let log = recorder.finish(made, &found).map_err(|error| wrong(error.to_string(), help))?;
        let dir = cache_dir().map_err(no_log)?;
        let ending = of_studies::body_ending(&prepared.experiment);
        let names = ["toml", ending].map(|ending| format!("{}.{ending}", log.head.fingerprint));
        write(&dir, &names, &log, &Overwrite::new(true, [])).map_err(no_log)?;
        if let Some(keep) = self.keep {
            let names = of_studies::file_names(&run.id, &prepared.experiment);
            write(keep, &names, &log, self.overwrite).map_err(no_log)?;
        }
        Ok(log)
    }

    /// Waits until few enough guests run.
    fn wait(&self) -> Turn<'_> {
        let running = self.running.lock().unwrap_or_else(|held| held.into_inner());
        let waited = self.ended.wait_while(running, |running| *running >= MOST_GUESTS);
        *waited.unwrap_or_else(|held| held.into_inner()) += 1;
        Turn { running: &self.running, ended: &self.ended }
    }
}

/// A guest that may run.
struct Turn<'a> {
    running: &'a Mutex<usize>,
    ended: &'a Condvar,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.running.lock().unwrap_or_else(|held| held.into_inner()) -= 1;
        self.ended.notify_one();
    }
}

impl Logs for FromHost<'_> {
    fn of(&self, study: &str, run: &RunSpec, prepared: &Prepared, watch: &mut dyn FnMut(Progress)) -> Taken {
        if self.refresh {
            return Ok(Some((self.fresh(run, prepared, watch)?, From::Fresh)));
        }
        let read = |name: &str| self.own(study, name);
        if let Some(log) = of_studies::beside(study, run, &prepared.experiment, self.library, &read)? {
            return Ok(Some((log, From::Tree)));
        }
        Ok(cached(prepared)?.map(|log| (log, From::Cache)))
    }

    fn command(&self, study: &str, run: &RunSpec) -> String {
        match self.dir {
            None => of_studies::command(study, run),
            Some(dir) => of_studies::command(&dir.to_string_lossy(), run),
        }
    }
}

/// The log of an experiment in the cache, if it has one. Without the kernel there is none: nobody knows which it would be.
/// Errors: a damaged entry.
fn cached(prepared: &Prepared) -> Result<Option<GuestLog>, NoLog> {
    let section = prepared.experiment.guest.clone().unwrap_or_default();
    let Ok(kernel) = guest::kernel(runner::run::guest::wanted(&section)) else { return Ok(None) };
    let fingerprint = made(prepared, &section, kernel.name(), false).fingerprint(&prepared.experiment);
    let dir = cache_dir().map_err(no_log)?;
    let head = dir.join(format!("{fingerprint}.toml"));
    if !head.is_file() {
        return Ok(None);
    }
    let body = head.with_extension(of_studies::body_ending(&prepared.experiment));
    let damaged = |path: &Path, what: String| NoLog {
        what: format!("{}: {what}", path.display()),
        help: "delete the file, and make it again: nandlab study NAME --refresh".to_owned(),
        is_the_machines: false,
    };
    let text = read_bounded(&head).map_err(|error| damaged(&head, error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| damaged(&head, error.to_string()))?;
    let bytes = read_bounded(&body).map_err(|error| damaged(&body, error.to_string()))?;
    let log = GuestLog::parse(&text, bytes.into()).map_err(|error| damaged(&head, error.to_string()))?;
    if log.head.fingerprint != fingerprint {
        return Err(damaged(
            &head,
            format!("found the fingerprint {}, expected that of its name", log.head.fingerprint),
        ));
    }
    Ok(Some(log))
}

/// What makes the log of an experiment now. `with_packages`: with the names of Debian's packages.
fn made(prepared: &Prepared, section: &Guest, linux: String, with_packages: bool) -> Made {
    let port = match section.program {
        Program::None => String::new(),
        Program::Fsstress => log::digest(::guest::program::FSSTRESS.as_bytes()),
        Program::Load => log::digest(::guest::program::LOAD.as_bytes()),
        Program::Promises => log::digest(::guest::program::PROMISES.as_bytes()),
    };
    let own = word(&section.program);
    let program = log::programs_named(&prepared.experiment, |name| {
        let path = (name != own).then(|| executable(name)).flatten()?;
        let package = if with_packages { package(&path) } else { String::new() };
        Some(HostProgram { name: name.to_owned(), sha256: digest(&path)?, package })
    });
    Made { linux, model_version: runner::GUEST_MODEL_VERSION, port, program }
}

/// The executable of a name: on the guest's PATH, or by its path.
fn executable(name: &str) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_absolute() && is_program(path));
    }
    PATH.iter().map(|dir| Path::new(dir).join(name)).find(is_program)
}

fn digest(path: &Path) -> Option<String> {
    let length = path.metadata().ok()?.len();
    if length > MOST_PROGRAM {
        return Some(format!("{length} bytes"));
    }
    std::fs::read(path).ok().map(|bytes| log::digest(&bytes))
}

/// Debian's package of a file, with its version; empty where nobody knows.
fn package(path: &Path) -> String {
    let said = |args: &[&str]| {
        let said = Command::new("dpkg-query").args(args).stderr(std::process::Stdio::null()).output().ok()?;
        said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
    };
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let names = [path.clone(), path.strip_prefix("/usr").map_or(path.clone(), |inner| Path::new("/").join(inner))];
    let owner = names.iter().find_map(|name| said(&["-S", &name.to_string_lossy()]));
    let Some(owner) = owner.as_deref().and_then(|line| line.split_once(':')).map(|(owner, _)| owner) else {
        return String::new();
    };
    said(&["-W", "-f", "${Package} ${Version}", owner]).unwrap_or_default()
}

fn cache_dir() -> Result<PathBuf, CliError> {
    Ok(guest::cache_dir()?.join("logs"))
}

fn write(dir: &Path, [head, body]: &[String; 2], log: &GuestLog, overwrite: &Overwrite) -> Result<(), CliError> {
    output::make_dir(dir)?;
    let (text, bytes) = log.files();
    // The head names the sum of the body: it comes last.
    output::write(&dir.join(body), &bytes, overwrite)?;
    output::write(&dir.join(head), text.as_bytes(), overwrite)
}

/// Reads a file that is not longer than a log may be.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(log::MOST_BODY as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn wrong(what: String, help: &str) -> NoLog {
    NoLog { what, help: help.to_owned(), is_the_machines: false }
}

fn no_log(error: CliError) -> NoLog {
    let is_the_machines = matches!(error, CliError::Environment { .. });
    let what = error.to_string();
    let (CliError::Input { help, .. } | CliError::Environment { help, .. }) = error;
    NoLog { what, help, is_the_machines }
}
