//! The bridge over the oracle of file systems: without a kernel, and through a FUSE mount.

mod calls;
mod kernel;
mod random;
mod writes;

use std::path::{Path, PathBuf};
use std::thread;

use fs::model::Model;
use sim::Cx;
use sim::seam::Timestamp;

use super::bridge::{Bridge, Served};
use super::clock::Clock;
use super::session::{How, Mounted, Unmount, mount_point, unmount};

impl Served for Model {}

/// A file system in memory whose virtual time 0 is the beginning of 1970.
fn model() -> Model {
    Model::new(Timestamp::default())
}

/// Calls `work` with a directory on which `fs` is mounted, then unmounts. Returns the file system.
fn with_mount(name: &str, mut fs: Model, how: &How, work: impl FnOnce(&Path) + Send) -> Model {
    serve_while(name, &mut fs, &mut Cx::new(), how, work);
    fs
}

/// Serves `fs` on a directory until `work`, which gets the directory, is done.
fn serve_while(name: &str, fs: &mut dyn Served, cx: &mut Cx, how: &How, work: impl FnOnce(&Path) + Send) {
    let dir = std::env::temp_dir().join(format!("nandlab-mount-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the test");
    let dir = mount_point(&dir).expect("it is one");
    assert!(Path::new("/dev/fuse").exists(), "/dev/fuse is missing: modprobe fuse");
    let mounted = Mounted::new(&dir, how).unwrap_or_else(|error| panic!("{}", error.report()));
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _end = Unmounting(dir.clone());
            work(&dir);
        });
        let served = mounted.serve(Bridge::new(fs, cx, Clock::SINCE_1970));
        if let Err(panic) = worker.join() {
            std::panic::resume_unwind(panic);
        }
        served.unwrap_or_else(|error| panic!("{}", error.report()));
    });
    std::fs::remove_dir(&dir).expect("it is empty");
}

/// Unmounts when the work is done, or panics: the thread that serves would wait for ever.
struct Unmounting(PathBuf);

impl Drop for Unmounting {
    fn drop(&mut self) {
        if thread::panicking() || unmount(&self.0, Unmount::IfUnused).is_err() {
            let _ = unmount(&self.0, Unmount::Anyway);
        }
    }
}

fn how() -> How {
    // Of other users only root may let others in, unless /etc/fuse.conf says so.
    let allow_other = rustix::process::geteuid().is_root();
    How { source: "a, test".to_owned(), read_only: false, allow_other }
}
