//! Ctrl-C (SIGINT) and SIGTERM: removes temporary files, says in one line what is kept, and exits with code 130.
//!
//! A thread waits for the signal, so that no loop has to ask for it: a command ends at once wherever it is. A second
//! signal ends the process without waiting for the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Exit code of an interrupted command: 128 and the number of SIGINT.
const EXIT_CODE: i32 = 130;

/// What an interruption has to know.
struct State {
    temporaries: Vec<PathBuf>,
    /// What the last line says.
    kept: String,
}

static STATE: Mutex<State> = Mutex::new(State { temporaries: Vec::new(), kept: String::new() });
/// Held, shared, while files that belong together are written.
static WRITING: RwLock<()> = RwLock::new(());

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to wait for the signals.
pub fn watch() {
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // If this fails, the signal keeps its default: the process ends, and temporary files stay.
        let _ = flag::register_conditional_shutdown(signal, EXIT_CODE, Arc::clone(&stopping));
    }
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let asks = ENDING.lock().unwrap_or_else(PoisonError::into_inner).take();
            match asks {
                // The command ends by itself; the next signal interrupts it.
                Some(mut wake) => drop(wake.write_all(&[1])),
                None => {
                    stopping.store(true, Ordering::SeqCst);
                    stop();
                }
            }
        }
    });
}

/// Where the next signal is told to a command that ends by itself.
static ENDING: Mutex<Option<UnixStream>> = Mutex::new(None);

/// The wish of a user that a command which would go on for ever ends.
#[derive(Debug)]
pub struct Ending(UnixStream);

impl Ending {
    /// From now on the next signal is such a wish, and no interruption.
    /// Errors: the system has no room for a pair of sockets.
    pub fn on_signal() -> io::Result<Ending> {
        Ok(Ending(Ending::socket()?))
    }

    /// After a signal came: the next one is such a wish again, and no interruption.
    /// Errors: as [`on_signal`](Self::on_signal).
    pub fn renew(&mut self) -> io::Result<()> {
        self.0 = Ending::socket()?;
        Ok(())
    }

    fn socket() -> io::Result<UnixStream> {
        let (wake, ending) = UnixStream::pair()?;
        ending.set_nonblocking(true)?;
        *ENDING.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
        Ok(ending)
    }

    /// Whether the signal came.
    pub fn is_asked(&self) -> bool {
        matches!((&self.0).read(&mut [0]), Ok(1))
    }
}

/// Can be read when the signal came.
impl AsFd for Ending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        ENDING.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn stop() -> ! {
    let _written = WRITING.write();
    // Never released: no temporary file appears, and none becomes a result.
    let state = state();
    let removed = state.temporaries.iter().filter(|path| fs::remove_file(path).is_ok()).count();
    let kept = if state.kept.is_empty() { "the command had not finished" } else { &state.kept };
    let removed = match removed {
        0 => String::new(),
        1 => "; removed a temporary file".to_owned(),
        several => format!("; removed {several} temporary files"),
    };
    let clear = if io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    eprintln!("{clear}interrupted: {kept}{removed}");
    std::process::exit(EXIT_CODE)
}

/// Sets what the last line of an interrupted command says is kept.
pub fn keeps(kept: String) {
    state().kept = kept;
}

/// Writes files that belong together: an interruption waits until all are there.
pub fn together<T>(write: impl FnOnce() -> T) -> T {
    let _writing = WRITING.read();
    write()
}

/// A file that is removed when it is dropped, or when the command is interrupted.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Creates the file. Errors: it exists, or cannot be created.
    pub fn create(path: PathBuf) -> io::Result<(Temporary, File)> {
        let mut state = state();
        // `create_new` neither follows a link nor takes what somebody else left there.
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        state.temporaries.push(path.clone());
        Ok((Temporary { path }, file))
    }

    /// Gives the file its name. Errors: it cannot be renamed; then it is removed.
    pub fn rename(self, target: &Path) -> io::Result<()> {
        let state = state();
        let renamed = fs::rename(&self.path, target);
        drop(state);
        renamed
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut state = state();
        state.temporaries.retain(|path| *path != self.path);
        // After `rename` there is no file of this name.
        let _ = fs::remove_file(&self.path);
    }
}
