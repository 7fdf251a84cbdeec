//! What Linux's names in memory keep: a directory that was removed stays as long as a file is open that was found in it.

use sim::seam::{FileSystem, Ino, RenameFlags};

use crate::ops::{At, Caller, Op, opened_at};

/// Directory and name.
type Place = (Ino, Vec<u8>);
/// And what is there.
type Found = (Place, Option<Ino>);

/// A name by which something is open.
struct Dentry {
    dir: Ino,
    /// `None`: it was removed.
    name: Option<Vec<u8>>,
}

/// Names of what is open, in its order, and removed directories that they keep.
#[derive(Default)]
pub struct Dentries {
    opened: Vec<Dentry>,
    /// With the directory above.
    removed: Vec<(Ino, Ino)>,
}

fn place<F: FileSystem>(caller: &mut Caller<'_, F>, at: &At) -> Option<Found> {
    let (dir, name) = caller.place(at).ok()?;
    let ino = caller.fs.lookup(caller.cx, dir, name).ok().map(|attr| attr.ino);
    Some(((dir, name.to_vec()), ino))
}

/// Looks up the names of a call, as Linux does before it makes it: what exists is read then, and may be collected in another way. Returns
/// where a call moves a name from, and the name that it is about.
fn look_up<F: FileSystem>(caller: &mut Caller<'_, F>, op: &Op) -> (Option<Found>, Option<Found>) {
    match op {
        Op::Rename(from, to, _) if caller.place(to).is_ok() => match place(caller, from) {
            Some(from @ (_, Some(_))) => (Some(from), place(caller, to)),
            _ => (None, None),
        },
        Op::Link(from, to) => match place(caller, from) {
            Some((_, Some(_))) => (None, place(caller, to)),
            _ => (None, None),
        },
        Op::Create(at, _)
        | Op::Mkdir(at, _)
        | Op::Mknod(at, ..)
        | Op::Symlink(at, 1..4096)
        | Op::LinkOpened(_, at)
        | Op::Unlink(at)
        | Op::Rmdir(at)
        | Op::Open(at) => (None, place(caller, at)),
        _ => (None, None),
    }
}

impl Dentries {
    /// Makes a call. Returns what it returns.
    pub fn call<F: FileSystem>(&mut self, caller: &mut Caller<'_, F>, op: &Op) -> Result<Vec<u8>, i32> {
        let (from, to) = look_up(caller, op);
        // What loses its name may be a directory that stays.
        let exchanges = matches!(op, Op::Rename(_, _, flags) if flags.has(RenameFlags::EXCHANGE));
        let takes = matches!(op, Op::Unlink(_) | Op::Rmdir(_) | Op::Rename(..)) && !exchanges;
        let loses = to.as_ref().and_then(|(_, ino)| *ino).filter(|_| takes);
        let kept = loses.filter(|&ino| self.keeps(ino));
        if let Some(ino) = kept {
            caller.fs.open(caller.cx, ino).unwrap();
        }
        let before = caller.session.opened.len();
        let outcome = caller.call(op).map_err(|error| error.errno());
        match (op, outcome.is_ok()) {
            (Op::Open(_), true) if caller.session.opened.len() > before => {
                let ((dir, name), _) = to.expect("it was opened");
                self.opened.push(Dentry { dir, name: Some(name) });
            }
            (Op::Release(at), true) if before > 1 => drop(self.opened.swap_remove(opened_at(*at, before) - 1)),
            (Op::Unlink(_) | Op::Rmdir(_), true) => self.remove(&to.expect("it was removed"), kept),
            (Op::Rename(..), true) => {
                let (from, to) = (from.expect("it was moved"), to.expect("it was moved there"));
                if from.1 != to.1 {
                    self.rename(&from, &to, exchanges, kept);
                } else if let Some(ino) = kept {
                    caller.fs.release(caller.cx, ino).unwrap();
                }
            }
            _ => {
                if let Some(ino) = kept {
                    caller.fs.release(caller.cx, ino).unwrap();
                }
            }
        }
        while let Some(at) = self.removed.iter().position(|&(ino, _)| !self.keeps(ino)) {
            let (ino, _) = self.removed.swap_remove(at);
            caller.fs.release(caller.cx, ino).unwrap();
        }
        outcome
    }

    /// Whether something is open that was found in a directory.
    fn keeps(&self, dir: Ino) -> bool {
        self.opened.iter().any(|one| one.dir == dir) || self.removed.iter().any(|&(_, above)| above == dir)
    }

    fn remove(&mut self, (place, _): &Found, kept: Option<Ino>) {
        for at in self.indices(place) {
            self.opened[at].name = None;
        }
        self.removed.extend(kept.map(|ino| (ino, place.0)));
    }

    fn rename(&mut self, (from, _): &Found, to: &Found, exchanges: bool, kept: Option<Ino>) {
        let moved = self.indices(from);
        if exchanges {
            for at in self.indices(&to.0) {
                self.opened[at] = Dentry { dir: from.0, name: Some(from.1.clone()) };
            }
        } else {
            self.remove(to, kept);
        }
        for at in moved {
            self.opened[at] = Dentry { dir: to.0.0, name: Some(to.0.1.clone()) };
        }
    }

    fn indices(&self, (dir, name): &Place) -> Vec<usize> {
        let is_there = |one: &Dentry| one.dir == *dir && one.name.as_ref() == Some(name);
        (0..self.opened.len()).filter(|&at| is_there(&self.opened[at])).collect()
    }
}
