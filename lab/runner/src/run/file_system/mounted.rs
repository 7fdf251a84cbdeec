//! A mounted file system, with Linux's page cache above it or without, and the threads that work beside its programs.

use fs::cache::{Config, PageCache};
use fs::ubifs::{Counters, Ubifs};
use sim::seam::{FileSystem, FsError, LebVolume, StatFs};
use sim::{Cx, Flame, Ns, Pass};

use crate::run::ubi_log::{FLUSHER, UBIFS_THREAD};

/// The file system, and what is above it.
enum Layers<V: LebVolume> {
    Bare(Box<Ubifs<V>>),
    Cached(Box<PageCache<Ubifs<V>>>),
}

/// What is done with a file system, whatever is above it.
pub(super) trait Use<T> {
    fn of<F: FileSystem>(self, fs: &mut F) -> T;
}

/// A mounted file system with the clocks of its threads.
pub(super) struct Mounted<V: LebVolume> {
    layers: Layers<V>,
    /// UBIFS's background thread.
    background: Cx,
    /// The thread that writes back what is dirty in the page cache.
    flusher: Cx,
    /// Commits of the background thread.
    commits: u64,
}

/// Which thread is due.
enum Thread {
    Background,
    Flusher,
}

impl<V: LebVolume> Mounted<V> {
    /// The threads begin at `now`.
    pub fn new(fs: Ubifs<V>, cache: Option<Config>, now: Ns) -> Mounted<V> {
        let layers = match cache {
            Some(config) => Layers::Cached(Box::new(PageCache::new(fs, config))),
            None => Layers::Bare(Box::new(fs)),
        };
        let [mut background, mut flusher] = [UBIFS_THREAD, FLUSHER].map(Cx::named);
        background.wait_until(now);
        flusher.wait_until(now);
        Mounted { layers, background, flusher, commits: 0 }
    }

    /// Does something with the layer that programs see.
    pub fn with<T>(&mut self, what: impl Use<T>) -> T {
        match &mut self.layers {
            Layers::Bare(fs) => what.of(fs.as_mut()),
            Layers::Cached(fs) => what.of(fs.as_mut()),
        }
    }

    /// The file system.
    pub fn ubifs(&self) -> &Ubifs<V> {
        match &self.layers {
            Layers::Bare(fs) => fs,
            Layers::Cached(cache) => cache.inner(),
        }
    }

    fn ubifs_mut(&mut self) -> &mut Ubifs<V> {
        match &mut self.layers {
            Layers::Bare(fs) => fs,
            Layers::Cached(cache) => cache.inner_mut(),
        }
    }

    /// The volume, for changes that UBIFS knows nothing of.
    pub fn volume_mut(&mut self) -> &mut V {
        self.ubifs_mut().volume_mut()
    }

    /// What the page cache did, if there is one.
    pub fn cache(&self) -> Option<&fs::cache::Counters> {
        match &self.layers {
            Layers::Bare(_) => None,
            Layers::Cached(cache) => Some(cache.counters()),
        }
    }

    /// What UBIFS did.
    pub fn counters(&self) -> &Counters {
        self.ubifs().counters()
    }

    /// Commits of the background thread.
    pub fn background_commits(&self) -> u64 {
        self.commits
    }

    /// When both threads have ended what they were about.
    pub fn idle_from(&self) -> Ns {
        self.background.now().max(self.flusher.now())
    }

    /// Keeps from now on the passes of garbage collection that the threads do.
    pub fn keep_passes(&mut self) {
        self.background.keep_passes();
        self.flusher.keep_passes();
    }

    /// The passes since the last call.
    pub fn take_passes(&mut self) -> impl Iterator<Item = Pass> {
        let background = self.background.take_passes();
        background.into_iter().chain(self.flusher.take_passes())
    }

    /// Records from now on where the time of the threads goes.
    pub fn record(&mut self) {
        self.background.record();
        self.flusher.record();
    }

    /// Ends the records of UBIFS's thread and of the flusher, if there are any.
    pub fn stop_recording(&mut self) -> Vec<(&'static str, Flame)> {
        let threads = [("UBIFS", &mut self.background), ("flusher", &mut self.flusher)];
        threads.into_iter().filter_map(|(name, cx)| Some((name, cx.stop_recording()?))).collect()
    }

    /// The thread that is due first, and when, if that is up to `now`. A commit has been due since the last operation,
    /// which ended at `queued`.
    fn due(&self, queued: Ns, now: Ns) -> Option<(Ns, Thread)> {
        let background = self.ubifs().next_wake().map(|due| if due == Ns::ZERO { queued } else { due });
        let flusher = match &self.layers {
            Layers::Bare(_) => None,
            Layers::Cached(cache) => cache.next_wake(),
        };
        let first = match (background, flusher) {
            (Some(background), Some(flusher)) if flusher < background => (flusher, Thread::Flusher),
            (Some(background), _) => (background, Thread::Background),
            (None, flusher) => (flusher?, Thread::Flusher),
        };
        (first.0 <= now).then_some(first)
    }

    /// Lets the threads do what is due up to `now`.
    /// Errors: the file system's.
    pub fn wake(&mut self, queued: Ns, now: Ns) -> Result<(), FsError> {
        while let Some((due, thread)) = self.due(queued, now) {
            match (thread, &mut self.layers) {
                (Thread::Flusher, Layers::Cached(cache)) => {
                    self.flusher.idle_until(due);
                    let done = cache.wake(&mut self.flusher);
                    self.flusher.file("write back");
                    done?;
                }
                _ => {
                    let before = self.counters().commits;
                    let mut background = std::mem::take(&mut self.background);
                    background.idle_until(due);
                    let done = self.ubifs_mut().wake(&mut background);
                    background.file("wake");
                    self.background = background;
                    done?;
                    self.commits += self.counters().commits - before;
                }
            }
        }
        Ok(())
    }

    /// Writes everything.
    /// Errors: the file system's.
    pub fn sync(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        self.with(Sync(cx))
    }

    /// Sizes and free space.
    /// Errors: the file system's.
    pub fn statfs(&mut self, cx: &mut Cx) -> Result<StatFs, FsError> {
        self.ubifs_mut().statfs(cx)
    }

    /// Does what an unmount does of what is in sync.
    /// Errors: the file system's.
    pub fn finish(&mut self, cx: &mut Cx) -> Result<(), FsError> {
        self.ubifs_mut().finish(cx)
    }

    /// Ends without a write. Returns the volume.
    pub fn lose_power(self) -> V {
        self.into_ubifs().lose_power()
    }

    fn into_ubifs(self) -> Ubifs<V> {
        match self.layers {
            Layers::Bare(fs) => *fs,
            Layers::Cached(cache) => cache.into_inner(),
        }
    }
}

struct Sync<'a>(&'a mut Cx);

impl Use<Result<(), FsError>> for Sync<'_> {
    fn of<F: FileSystem>(self, fs: &mut F) -> Result<(), FsError> {
        fs.sync(self.0)
    }
}
