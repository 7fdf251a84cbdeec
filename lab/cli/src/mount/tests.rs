//! The bridge over the oracle of file systems: without a kernel, and through a FUSE mount.

mod calls;
mod kernel;
mod random;

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
fn with_mount<F: Served + Send>(name: &str, mut fs: F, how: &How, work: impl FnOnce(&Path) + Send) -> F {
    let dir = std::env::temp_dir().join(format!("nandlab-mount-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the test");
    let dir = mount_point(&dir).expect("it is one");
    assert!(Path::new("/dev/fuse").exists(), "/dev/fuse is missing: modprobe fuse");
    let mounted = Mounted::new(&dir, how).unwrap_or_else(|error| panic!("{}", error.report()));
    let end = Unmounting(dir.clone());
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut cx = Cx::new();
            mounted
                .serve(Bridge::new(&mut fs, &mut cx, Clock::SINCE_1970))
                .unwrap_or_else(|error| panic!("{}", error.report()));
        });
        work(&dir);
        drop(end);
        server.join().expect("the server ends with the mount");
    });
    std::fs::remove_dir(&dir).expect("it is empty");
    fs
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
