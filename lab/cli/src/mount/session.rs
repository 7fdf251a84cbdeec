//! A mount from its beginning to its end: the directory, requests one after another, and how it ends.
//!
//! It ends by `umount DIR`, or by Ctrl-C or SIGTERM, which unmounts. While the mount is in use, the first signal only says
//! so; the second one takes the mount away from whoever uses it. Whoever ends it, the file system is finished in this
//! process before the command ends.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use fuser::{Config, MountOption, Session, SessionACL};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::bridge::Bridge;
use super::requests::{Job, Requests};
use crate::error::CliError;
use crate::interrupt::Ending;

/// What the thread of the file system waits for.
pub enum Event {
    /// A request.
    Request(Job),
    /// There is no mount any more. Errors: the kernel stopped talking to us for another reason.
    Ended(io::Result<()>),
}

/// How a directory is mounted.
#[derive(Clone, Debug)]
pub struct How {
    /// What `mount` shows as the source.
    pub source: String,
    /// Whether every change is refused.
    pub read_only: bool,
    /// Whether users other than the one who mounts may use it.
    pub allow_other: bool,
}

/// A file system that is mounted.
pub struct Mounted {
    dir: PathBuf,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

/// Checks that a directory can be mounted on; returns its whole path.
/// Errors: there is none; it is something else; what was mounted on it before has no process any more.
pub fn mount_point(dir: &Path) -> Result<PathBuf, CliError> {
    let found = fs::metadata(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            CliError::input(dir, "no such directory", format!("make it first: mkdir {}", dir.display()))
        }
        _ if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            let what = "found a FUSE mount whose process is gone, expected a directory";
            CliError::input(dir, what, format!("end that mount first: umount {}", dir.display()))
        }
        _ => CliError::read(dir, &error),
    })?;
    if !found.is_dir() {
        return Err(CliError::input(dir, "found a file, expected a directory to mount on", "name a directory"));
    }
    fs::canonicalize(dir).map_err(|error| CliError::read(dir, &error))
}

impl Mounted {
    /// Mounts on `dir`, a path from [`mount_point`].
    /// Errors: no FUSE here; no permission.
    pub fn new(dir: &Path, how: &How) -> Result<Mounted, CliError> {
        let (sender, events) = channel();
        let mut config = Config::default();
        // A comma or a backslash would end the option.
        let source = how.source.replace([',', '\\'], "_");
        config.mount_options = vec![
            MountOption::FSName(source),
            // fuser gives its own `Subtype` to fusermount3 alone.
            MountOption::CUSTOM("subtype=nandlab".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
            MountOption::NoDev,
            MountOption::NoSuid,
            if how.read_only { MountOption::RO } else { MountOption::RW },
        ];
        config.acl = if how.allow_other { SessionACL::All } else { SessionACL::Owner };
        let session = Session::new(Requests { to: sender.clone() }, dir, &config);
        let session = session.map_err(|error| refused(dir, how, &error))?;
        let ended = sender.clone();
        thread::spawn(move || {
            let result = session.run();
            let _ = ended.send(Event::Ended(result));
        });
        Ok(Mounted { dir: dir.to_owned(), events, sender })
    }

    /// From now on a signal unmounts.
    pub fn end_on_signal(&self, ending: Ending) {
        let (dir, sender) = (self.dir.clone(), self.sender.clone());
        thread::spawn(move || {
            // Who has a file open keeps the connection open; nobody waits for that.
            let _ = sender.send(Event::Ended(unmount_on_signal(&dir, ending)));
        });
    }

    /// Answers requests until the mount is gone, those that were asked before first, and finishes the file system.
    /// Errors: it cannot be finished; the kernel stopped talking to us.
    pub fn serve(self, mut bridge: Bridge<'_>) -> Result<(), CliError> {
        let ended = loop {
            // Where nobody asks, the file system does what it has to do.
            let event = match bridge.idle() {
                None => self.events.recv().ok(),
                Some(idle) => self.events.recv_timeout(idle).ok(),
            };
            match event {
                Some(Event::Request(job)) => {
                    bridge.tick();
                    job(&mut bridge);
                }
                Some(Event::Ended(ended)) => break ended,
                None => bridge.wake(),
            }
        };
        bridge.finish().map_err(|error| {
            let help = "`nandlab image check` lists what is damaged";
            CliError::environment(&self.dir, format!("not everything could be written: {error}"), help)
        })?;
        ended.map_err(|error| {
            let help = "what was written until then is kept; see what `dmesg` says";
            CliError::environment(&self.dir, format!("the mount broke: {error}"), help)
        })
    }
}

/// Waits for the first signal, then unmounts; if the mount is in use, waits for the next one. Returns when signals are
/// ignored and there is no mount.
/// Errors: signals cannot be waited for.
fn unmount_on_signal(dir: &Path, mut ending: Ending) -> io::Result<()> {
    let mut how = Unmount::IfUnused;
    loop {
        while !ending.is_asked() {
            match poll(&mut [PollFd::new(&ending, PollFlags::IN)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The next signal comes here too: nothing interrupts the file system while it is finished.
        ending.renew()?;
        match unmount(dir, how) {
            Ok(()) => {
                // Held until the process ends.
                std::mem::forget(ending);
                return Ok(());
            }
            Err(why) => {
                eprintln!(
                    "note: {} is still mounted: {why}\n  help: leave it and close its files; or send the signal again, \
                     which takes it away from whoever uses it",
                    dir.display()
                );
                how = Unmount::Anyway;
            }
        }
    }
}

/// When a mount is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Only if nobody uses it.
    IfUnused,
    /// Whoever uses it gets errors from then on.
    Anyway,
}

/// Unmounts, as root by itself and as another user by `fusermount3`. Errors: why it is still mounted.
pub fn unmount(dir: &Path, how: Unmount) -> Result<(), String> {
    let flags = match how {
        Unmount::IfUnused => UnmountFlags::empty(),
        Unmount::Anyway => UnmountFlags::FORCE | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => return Ok(()),
        // Somebody else was quicker.
        Err(Errno::INVAL) => return Ok(()),
        Err(Errno::BUSY) => return Err("it is in use".to_owned()),
        Err(Errno::PERM) => {}
        Err(error) => return Err(error.to_string()),
    }
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if how == Unmount::Anyway {
        command.arg("-z");
    }
    match command.arg("--").arg(dir).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("fusermount3 cannot be run: {error}")),
    }
}

/// Why a directory could not be mounted on, and what to do about it.
fn refused(dir: &Path, how: &How, error: &io::Error) -> CliError {
    let device = Path::new("/dev/fuse");
    if !device.exists() {
        let help = "load it as root: modprobe fuse; in a container, give it the device: docker run --device /dev/fuse";
        return CliError::environment(device, "there is no FUSE on this machine", help);
    }
    if error.kind() == io::ErrorKind::PermissionDenied && !how.allow_other {
        let help = "name a directory that is yours, or run as root; /dev/fuse must be writable for you";
        return CliError::environment(dir, format!("permission to mount is denied: {error}"), help);
    }
    let said = error.to_string();
    let said = said.trim();
    let help = match error.kind() {
        _ if said.contains("user_allow_other") => "leave out --allow-other, or add user_allow_other to /etc/fuse.conf",
        io::ErrorKind::NotFound => "only root mounts without fusermount3: run as root, or apt-get install fuse3",
        _ if said.contains("ermission") || said.contains("ermitted") => {
            "name a directory that is yours, or run as root; a container needs the capability SYS_ADMIN"
        }
        _ => "see what `dmesg` says",
    };
    CliError::environment(dir, format!("cannot be mounted on: {said}"), help)
}
