//! Subjects that are made of models: one that loses in a power cut what UBIFS may lose, and twins with a flaw each.

use std::collections::BTreeMap;
use std::sync::Arc;

use fs::model::Model;
use fs::model::view::{BLOCK, Everything, View};
use sim::seam::{
    Attr, DeviceNumber, Dirent, FileSystem, FileType, FlashError, FsError, Ino, LebError, NewInode, Payload, ReadInto,
    RenameFlags, SetAttr, SetXattr, StatFs, Timestamp,
};
use sim::{Cx, Rng, Seed};

use super::run::{Failure, Subject};

const EPOCH: Timestamp = Timestamp { seconds: 1_600_000_000, nanos: 0 };
const POWER_LOST: FsError = FsError::Medium(LebError::Flash(FlashError::PowerLost));

/// What is wrong with a twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// `sync` does nothing.
    NoSync,
    /// `fsync` does nothing.
    NoFsync,
    /// `fsync` forgets the data.
    FsyncWithoutData,
    /// `fsync` of a directory forgets the names in it.
    FsyncWithoutNames,
    /// A power cut can take a name away that is safe.
    LosesName,
    /// A power cut can come between the names of a rename: neither is there.
    NeitherName,
    /// The same, but both are there.
    BothNames,
    /// A power cut brings a block back that is older than what is safe.
    StaleBlock,
    /// A power cut leaves a block of which one half is new and the other old.
    TornBlock,
    /// A power cut leaves a size that the file never had.
    WrongSize,
    /// A power cut puts the owner of one time beside the mode of another.
    TornAttributes,
    /// A power cut takes an extended attribute away.
    LosesXattr,
    /// `NO_REPLACE` replaces.
    Replaces,
    /// A hole does not read as zeroes.
    DirtyHole,
    /// A directory that is read on with a cookie lacks an entry.
    SkipsEntry,
    /// A change that does not find space is made.
    NoSpaceButDone,
    /// Unmounting takes an extended attribute away.
    UnmountLosesXattr,
    /// The check finds something.
    FailsCheck,
}

pub struct Fake {
    live: Model,
    /// What was, after each change.
    past: Vec<Model>,
    /// Which of that is half of a rename.
    half: Option<usize>,
    synced: usize,
    /// Since when names are safe, which an `fsync` of a directory can bring forward.
    names_safe: usize,
    /// Since when an inode is safe, and since when its data are.
    safe: BTreeMap<Ino, (usize, usize)>,
    events: u64,
    cut_at: Option<u64>,
    is_off: bool,
    /// Whether space ends now and then.
    is_tight: bool,
    rng: Rng,
    flaw: Option<Flaw>,
}

impl Fake {
    pub fn new(seed: u64, is_tight: bool, flaw: Option<Flaw>) -> Fake {
        let mut live = Model::new(EPOCH);
        let mut cx = Cx::new();
        // Numbers of inodes are not to be those of the other model.
        let root = live.root();
        live.create(&mut cx, root, b"first", NewInode::of_root(0)).expect("free");
        live.unlink(&mut cx, root, b"first").expect("there");
        Fake {
            past: vec![live.clone()],
            half: None,
            live,
            synced: 0,
            names_safe: 0,
            safe: BTreeMap::new(),
            events: 0,
            cut_at: None,
            is_off: false,
            is_tight,
            rng: Seed(seed).stream("fs/fake"),
            flaw,
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Something happens on the medium. Returns whether power is lost in it.
    fn event(&mut self) -> bool {
        self.events += 1;
        self.is_off = self.cut_at.is_some_and(|at| self.events > at);
        self.is_off
    }

    fn on(&mut self) -> Result<&mut Model, FsError> {
        if self.is_off { Err(POWER_LOST) } else { Ok(&mut self.live) }
    }

    /// A change, which a power cut lets happen or not.
    fn change<T>(&mut self, change: impl FnOnce(&mut Model) -> Result<T, FsError>) -> Result<T, FsError> {
        self.on()?;
        let is_refused = self.is_tight && self.rng.chance(0.1);
        if is_refused && !self.has(Flaw::NoSpaceButDone) {
            return Err(FsError::NoSpace);
        }
        let is_lost = self.event();
        if is_lost && self.rng.chance(0.5) {
            return Err(POWER_LOST);
        }
        let result = change(&mut self.live);
        if result.is_ok() {
            self.past.push(self.live.clone());
        }
        match is_lost {
            true => Err(POWER_LOST),
            false if is_refused => Err(FsError::NoSpace),
            false => result,
        }
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.rng.below(of.len() as u64) as usize]
    }

    /// What an inode was since `safe`, as long as it was.
    fn versions(&mut self, ino: Ino, safe: usize) -> Vec<View> {
        let mut cx = Cx::new();
        let past = &mut self.past[safe..];
        past.iter_mut().filter_map(|model| View::of(model, &mut cx, ino).ok()).collect()
    }

    /// One of the things that may be left of an inode.
    fn remains(&mut self, ino: Ino) -> View {
        let (safe, data_safe) = self.safe.get(&ino).copied().unwrap_or_default();
        let (safe, data_safe) = (safe.max(self.synced), data_safe.max(self.synced));
        let versions = self.versions(ino, safe);
        let mut view = self.pick(&versions).clone();
        view.xattrs = self.pick(&versions).xattrs.clone();
        if self.has(Flaw::TornAttributes) {
            view.attr.mode = self.pick(&versions).attr.mode;
        }
        if self.has(Flaw::LosesXattr) {
            view.xattrs.pop_first();
        }
        if view.attr.file_type == FileType::Regular {
            let data_safe = if self.has(Flaw::StaleBlock) { 0 } else { data_safe };
            let data = self.versions(ino, data_safe);
            let sizes = self.versions(ino, safe.max(self.safe.get(&ino).map_or(0, |safe| safe.1)));
            view.attr.size = self.pick(&sizes).attr.size;
            if self.has(Flaw::WrongSize) && view.attr.size > 0 {
                view.attr.size -= 1;
            }
            view.blocks.clear();
            for block in 0..view.attr.size.div_ceil(BLOCK) {
                let mut bytes = *self.pick(&data).block(block);
                if self.has(Flaw::TornBlock) {
                    let half = bytes.len() / 2;
                    bytes[half..].copy_from_slice(&self.pick(&data).block(block)[half..]);
                }
                view.blocks.insert(block, Arc::new(bytes));
            }
        }
        view
    }

    /// What a power cut leaves.
    fn lose_power(&mut self) {
        let count = self.past.len() as u64;
        let first = self.synced.max(self.names_safe);
        let drawn = first + self.rng.below(count - first as u64) as usize;
        let names_of = self.half.filter(|&half| half >= first).unwrap_or(drawn);
        let mut left = Everything::of(&mut self.past[names_of], &mut Cx::new()).expect("a model");
        let inos: Vec<Ino> = left.inodes.keys().copied().collect();
        for ino in inos {
            let remains = self.remains(ino);
            left.inodes.insert(ino, remains);
        }
        if self.has(Flaw::LosesName) {
            let is_dir = |ino: &Ino| left.inodes[ino].attr.file_type == FileType::Directory;
            let last = left.names.iter().rfind(|(_, ino)| !is_dir(ino)).map(|(path, _)| path.clone());
            last.map(|path| left.names.remove(&path));
        }
        self.restart(left.model(EPOCH));
    }

    fn restart(&mut self, live: Model) {
        self.past = vec![live.clone()];
        self.half = None;
        self.live = live;
        self.synced = 0;
        self.names_safe = 0;
        self.safe.clear();
        self.is_off = false;
    }

    /// What an interrupted rename of a file would leave if it were two changes.
    fn half_of_rename(&self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8])) -> Result<Model, FsError> {
        let mut half = self.live.clone();
        let ino = half.lookup(cx, from.0, from.1)?.ino;
        half.open(cx, ino)?;
        if self.has(Flaw::BothNames) {
            half.link(cx, ino, to.0, to.1)?;
        } else {
            half.unlink(cx, from.0, from.1)?;
        }
        Ok(half)
    }
}

/// Names in a directory, none if it is not there.
fn entries(model: &mut Model, dir: Ino) -> Vec<(Vec<u8>, Ino)> {
    let mut entries = Vec::new();
    let listed = model.readdir(&mut Cx::new(), dir, 0, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.ino));
        true
    });
    listed.map_or_else(|_| Vec::new(), |()| entries)
}

impl Subject for Fake {
    type Fs = Fake;

    fn fs(&mut self) -> &mut Fake {
        self
    }

    fn epoch(&self) -> Timestamp {
        EPOCH
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn cut_after(&mut self, events: Option<u64>) {
        self.cut_at = events.map(|events| self.events + events);
    }

    fn remount(&mut self, cx: &mut Cx, clean: bool) -> Result<(), Failure> {
        if clean {
            if self.event() {
                return Err(Failure::PowerLost);
            }
            if self.has(Flaw::UnmountLosesXattr) {
                let Everything { inodes, .. } = Everything::of(&mut self.live, cx)?;
                let found = inodes.iter().find_map(|(ino, view)| Some((*ino, view.xattrs.keys().next()?.clone())));
                if let Some((ino, name)) = found {
                    self.live.removexattr(cx, ino, &name)?;
                }
            }
            self.restart(self.live.clone());
            return Ok(());
        }
        self.lose_power();
        if self.event() { Err(Failure::PowerLost) } else { Ok(()) }
    }

    fn idle(&mut self, _cx: &mut Cx) -> Result<(), FsError> {
        self.on().map(|_| ())
    }

    fn check(&mut self, _cx: &mut Cx) -> Result<(), String> {
        self.live.check();
        if self.has(Flaw::FailsCheck) { Err("a flaw".to_owned()) } else { Ok(()) }
    }
}

impl FileSystem for Fake {
    fn keeps_bytes(&self) -> bool {
        true
    }

    fn root(&self) -> Ino {
        self.live.root()
    }

    fn lookup(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.on()?.lookup(cx, dir, name)
    }

    fn getattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Attr, FsError> {
        self.on()?.getattr(cx, ino)
    }

    fn setattr(&mut self, cx: &mut Cx, ino: Ino, change: &SetAttr) -> Result<Attr, FsError> {
        self.change(|live| live.setattr(cx, ino, change))
    }

    fn create(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.change(|live| live.create(cx, dir, name, new))
    }

    fn mkdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.change(|live| live.mkdir(cx, dir, name, new))
    }

    fn mknod(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        name: &[u8],
        new: NewInode,
        file_type: FileType,
        device: DeviceNumber,
    ) -> Result<Attr, FsError> {
        self.change(|live| live.mknod(cx, dir, name, new, file_type, device))
    }

    fn symlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8], target: &[u8], new: NewInode) -> Result<Attr, FsError> {
        self.change(|live| live.symlink(cx, dir, name, target, new))
    }

    fn readlink(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<u8>, FsError> {
        self.on()?.readlink(cx, ino)
    }

    fn link(&mut self, cx: &mut Cx, ino: Ino, dir: Ino, name: &[u8]) -> Result<Attr, FsError> {
        self.change(|live| live.link(cx, ino, dir, name))
    }

    fn unlink(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.change(|live| live.unlink(cx, dir, name))
    }

    fn rmdir(&mut self, cx: &mut Cx, dir: Ino, name: &[u8]) -> Result<(), FsError> {
        self.change(|live| live.rmdir(cx, dir, name))
    }

    fn rename(&mut self, cx: &mut Cx, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<(), FsError> {
        let keeps = if self.has(Flaw::Replaces) { RenameFlags::NO_REPLACE.0 } else { 0 };
        if (self.has(Flaw::NeitherName) || self.has(Flaw::BothNames))
            && let Ok(half) = self.half_of_rename(cx, from, to)
        {
            self.half = Some(self.past.len());
            self.past.push(half);
        }
        self.change(|live| live.rename(cx, from, to, RenameFlags(flags.0 & !keeps)))
    }

    fn read(&mut self, cx: &mut Cx, ino: Ino, offset: u64, into: ReadInto<'_>) -> Result<u32, FsError> {
        self.on()?.read(cx, ino, offset, into)
    }

    fn write(&mut self, cx: &mut Cx, ino: Ino, offset: u64, data: Payload<'_>) -> Result<u32, FsError> {
        let size = self.on()?.getattr(cx, ino)?.size;
        if self.has(Flaw::DirtyHole) && offset > size {
            self.live.write(cx, ino, offset - 1, Payload::Bytes(&[0xaa]))?;
        }
        let is_short = self.is_tight && data.len() > 1 && self.rng.chance(0.2);
        let length = if is_short { 1 + self.rng.below(u64::from(data.len()) - 1) as u32 } else { data.len() };
        let mut done = 0;
        // Each block by itself, as it reaches the medium.
        while done < length {
            let place = offset + u64::from(done);
            let next = (BLOCK - place % BLOCK).min(u64::from(length - done)) as u32;
            let part = data.part(done, next);
            let written = self.change(|live| live.write(cx, ino, place, part));
            match written {
                Err(FsError::NoSpace) if done > 0 && !self.has(Flaw::NoSpaceButDone) => break,
                other => done += other?,
            }
        }
        if length == 0 { self.on()?.write(cx, ino, offset, data) } else { Ok(done) }
    }

    fn getxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.on()?.getxattr(cx, ino, name)
    }

    fn setxattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<(), FsError> {
        self.change(|live| live.setxattr(cx, ino, name, value, how))
    }

    fn listxattr(&mut self, cx: &mut Cx, ino: Ino) -> Result<Vec<Vec<u8>>, FsError> {
        self.on()?.listxattr(cx, ino)
    }

    fn removexattr(&mut self, cx: &mut Cx, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        self.change(|live| live.removexattr(cx, ino, name))
    }

    fn readdir(
        &mut self,
        cx: &mut Cx,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), FsError> {
        let mut skips = cookie > 0 && self.has(Flaw::SkipsEntry);
        self.on()?.readdir(cx, dir, cookie, &mut |entry| std::mem::take(&mut skips) || each(entry))
    }

    fn statfs(&mut self, cx: &mut Cx) -> Result<StatFs, FsError> {
        self.on()?.statfs(cx)
    }

    fn open(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.on()?.open(cx, ino)
    }

    fn release(&mut self, cx: &mut Cx, ino: Ino) -> Result<(), FsError> {
        self.on()?.release(cx, ino)
    }

    fn fsync(&mut self, cx: &mut Cx, ino: Ino, data_only: bool) -> Result<(), FsError> {
        let attr = self.on()?.getattr(cx, ino)?;
        if self.event() {
            return Err(POWER_LOST);
        }
        let now = self.past.len() - 1;
        if self.has(Flaw::NoFsync) {
            return Ok(());
        }
        let (safe, data_safe) = self.safe.entry(ino).or_default();
        if !data_only {
            *safe = now;
        }
        if self.flaw != Some(Flaw::FsyncWithoutData) {
            *data_safe = now;
        }
        if attr.file_type == FileType::Directory && !self.has(Flaw::FsyncWithoutNames) {
            // No more than is promised: since when the names in it are as they are.
            let latest = entries(&mut self.past[now], ino);
            let before = self.past.iter_mut().rposition(|model| entries(model, ino) != latest);
            self.names_safe = self.names_safe.max(before.map_or(0, |before| before + 1));
        }
        Ok(())
    }

    fn sync(&mut self, _cx: &mut Cx) -> Result<(), FsError> {
        self.on()?;
        if self.event() {
            return Err(POWER_LOST);
        }
        if !self.has(Flaw::NoSync) {
            self.synced = self.past.len() - 1;
        }
        Ok(())
    }
}
