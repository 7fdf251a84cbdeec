//! The oracle: contents of the device, and those allowed after a cut in the middle of an operation.
//!
//! | LEB | after a cut in another operation | after a cut in the operation itself |
//! |---|---|---|
//! | mapped | its contents, to the bit | write: these, and of the new data what the medium left; change: these or the new |
//! | unmapped, synced | 0xFF, unmapped | write, change, map: that, or mapped with what the medium left of the new data |
//! | unmapped, not synced | 0xFF, or any contents since the last sync, perhaps half erased | likewise |
//!
//! An atomic change of an unmapped LEB has nothing to preserve: as on Linux, a torn first copy is used. Knows no PEB.
//! Volumes are compared by number, name, type, size and update marker.

use std::collections::BTreeMap;
use std::sync::Arc;

use ubi::media::VolType;

use super::workload::{Content, Limits, Op};

/// Whether a LEB is mapped, and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unmapped,
    Mapped(Content),
}

/// Allowed states of a LEB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leb {
    pub state: State,
    /// Earlier contents that may not have been erased yet: they may reappear while the LEB is unmapped. An intact newer
    /// copy wins over them; but once that is unmapped, attach may erase it first.
    pub ghosts: Vec<Content>,
    /// Whether a cut left cells in it that must not be programmed.
    pub torn: bool,
    /// Whether it reappeared after being unmapped, or is the torn first copy of a change: it may vanish again.
    pub fragile: bool,
    /// Whether cells past its contents may read differently each time.
    pub shaky: bool,
    /// Whether this holds for one of the ghosts: a copy of it, made when its block is scrubbed, has what was read then.
    pub shaky_ghosts: bool,
}

impl Leb {
    const EMPTY: Leb = Leb {
        state: State::Unmapped,
        ghosts: Vec::new(),
        torn: false,
        fragile: false,
        shaky: false,
        shaky_ghosts: false,
    };

    /// Marks its contents as ones that may reappear.
    fn remember(&mut self) {
        if let State::Mapped(old) = &self.state {
            self.ghosts.push(old.clone());
            self.shaky_ghosts |= self.shaky;
        }
    }

    /// Forgets contents that may reappear.
    fn forget_ghosts(&mut self) {
        self.ghosts.clear();
        self.shaky_ghosts = false;
    }

    /// Sets its state; forgets the effects of an earlier cut.
    pub fn become_sound(&mut self, state: State) {
        self.state = state;
        self.torn = false;
        self.fragile = false;
        self.shaky = false;
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vol {
    pub name: String,
    pub kind: VolType,
    pub lebs: Vec<Leb>,
    /// Whether an update of it was interrupted.
    pub updating: bool,
    /// Whether the medium destroyed some of it, so that nothing is promised until it is updated. Static volumes only.
    pub damaged: bool,
}

/// All promises of UBI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct World {
    pub volumes: BTreeMap<u32, Arc<Vol>>,
    /// Names and contents drawn so far.
    pub serial: u64,
}

/// An allowed state of a LEB.
#[derive(Clone, Debug)]
pub(super) enum Legal {
    Unmapped,
    Exactly(Content),
    /// Contents whose bits may have risen: an erasure was cut or is pending.
    Ghost(Content),
    /// As a ghost, and past the contents are cells that read differently each time, or a copy of them.
    Shaky(Content),
    /// `data` written after `base`, as far as it was programmed.
    Torn {
        base: Content,
        data: Content,
    },
}

/// State of the volume table that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Before,
    /// The old table, with the update marker of the volume set.
    Marked(u32),
    After,
}

impl World {
    /// The model after `op`. For `Crash` and `Detach` only what is certain.
    pub fn after(&self, op: &Op, leb_bytes: u32) -> World {
        let mut world = self.clone();
        match op {
            Op::Create { vol_id, name, kind, lebs } => {
                let vol = Vol {
                    name: name.clone(),
                    kind: *kind,
                    lebs: vec![Leb::EMPTY; *lebs as usize],
                    updating: false,
                    damaged: false,
                };
                world.volumes.insert(*vol_id, Arc::new(vol));
            }
            Op::Remove { vol_id } => drop(world.volumes.remove(vol_id)),
            Op::Resize { vol_id, lebs } => world.vol(*vol_id).lebs.resize(*lebs as usize, Leb::EMPTY),
            Op::Rename { renames } => {
                renames.iter().for_each(|(vol_id, name)| world.vol(*vol_id).name.clone_from(name));
            }
            Op::Update { vol_id, data } => {
                world.forget_ghosts();
                let vol = world.vol(*vol_id);
                (vol.updating, vol.damaged) = (false, false);
                vol.lebs.fill(Leb::EMPTY);
                for (leb, chunk) in vol.lebs.iter_mut().zip(data.chunks(leb_bytes as usize)) {
                    leb.state = State::Mapped(Arc::new(chunk.to_vec()));
                }
            }
            Op::Write { vol_id, lnum, data, .. } => {
                let leb = world.leb(*vol_id, *lnum);
                leb.state = State::Mapped(match &leb.state {
                    State::Unmapped => data.clone(),
                    State::Mapped(old) => Arc::new([&old[..], data].concat()),
                });
            }
            Op::Change { vol_id, lnum, data } => {
                let leb = world.leb(*vol_id, *lnum);
                leb.remember();
                leb.become_sound(State::Mapped(data.clone()));
            }
            Op::Map { vol_id, lnum } => world.leb(*vol_id, *lnum).state = State::Mapped(Content::default()),
            Op::Unmap { vol_id, lnum } => {
                let leb = world.leb(*vol_id, *lnum);
                leb.remember();
                leb.become_sound(State::Unmapped);
            }
            Op::Sync | Op::Detach => world.forget_ghosts(),
            Op::Background | Op::Crash => {}
        }
        world
    }

    /// Whether `op` can be done now: what it names exists and has the state that the operation needs.
    pub fn allows(&self, op: &Op, limits: Limits) -> bool {
        let taken: usize = self.volumes.values().map(|vol| vol.lebs.len()).sum();
        let free = (limits.lebs as usize).saturating_sub(taken);
        let dynamic =
            |vol_id: &u32| self.volumes.get(vol_id).filter(|vol| vol.kind == VolType::Dynamic && !vol.updating);
        let leb = |vol_id: &u32, lnum: &u32| dynamic(vol_id)?.lebs.get(*lnum as usize);
        match op {
            Op::Create { vol_id, lebs, name, .. } => {
                let named = self.volumes.values().any(|vol| vol.name == *name);
                !self.volumes.contains_key(vol_id) && !named && *lebs as usize <= free
            }
            Op::Remove { vol_id } => self.volumes.contains_key(vol_id),
            Op::Resize { vol_id, lebs } => dynamic(vol_id)
                .is_some_and(|vol| *lebs as usize != vol.lebs.len() && *lebs as usize <= vol.lebs.len() + free),
            Op::Rename { renames } => {
                let new_name = |vol_id: &u32, vol: &Vol| {
                    let renamed = renames.iter().find(|(renamed, _)| renamed == vol_id);
                    renamed.map_or_else(|| vol.name.clone(), |(_, name)| name.clone())
                };
                let mut names: Vec<String> = self.volumes.iter().map(|(vol_id, vol)| new_name(vol_id, vol)).collect();
                names.sort_unstable();
                names.dedup();
                names.len() == self.volumes.len()
                    && renames
                        .iter()
                        .all(|(vol_id, name)| self.volumes.get(vol_id).is_some_and(|vol| vol.name != *name))
            }
            Op::Update { vol_id, data } => {
                let room = |vol: &Vol| vol.lebs.len() * limits.leb_bytes as usize;
                self.volumes.get(vol_id).is_some_and(|vol| data.len() <= room(vol))
            }
            Op::Write { vol_id, lnum, offset, .. } => leb(vol_id, lnum).is_some_and(|leb| match &leb.state {
                State::Unmapped => *offset == 0,
                State::Mapped(content) => !leb.torn && content.len() == *offset as usize,
            }),
            Op::Change { vol_id, lnum, .. } => leb(vol_id, lnum).is_some(),
            Op::Map { vol_id, lnum } => leb(vol_id, lnum).is_some_and(|leb| leb.state == State::Unmapped),
            Op::Unmap { vol_id, lnum } => leb(vol_id, lnum).is_some_and(|leb| leb.state != State::Unmapped),
            Op::Sync | Op::Background | Op::Detach | Op::Crash => true,
        }
    }

    fn vol(&mut self, vol_id: u32) -> &mut Vol {
        Arc::make_mut(self.volumes.get_mut(&vol_id).expect("operations are drawn from volumes that exist"))
    }

    fn leb(&mut self, vol_id: u32, lnum: u32) -> &mut Leb {
        &mut self.vol(vol_id).lebs[lnum as usize]
    }

    /// Forgets contents that may reappear: everything unmapped is erased.
    fn forget_ghosts(&mut self) {
        let haunted = |vol: &&mut Arc<Vol>| vol.lebs.iter().any(|leb| leb.shaky_ghosts || !leb.ghosts.is_empty());
        let volumes = self.volumes.values_mut().filter(haunted);
        volumes.flat_map(|vol| &mut Arc::make_mut(vol).lebs).for_each(Leb::forget_ghosts);
    }
}

/// States allowed for a LEB of `before` after a cut in `op`, if the volume table is that from before it.
pub(super) fn legal_before(leb: &Leb, vol_id: u32, lnum: u32, op: &Op) -> Vec<Legal> {
    let mut legal = Vec::with_capacity(2);
    match &leb.state {
        State::Mapped(content) => legal.push(Legal::Exactly(content.clone())),
        State::Unmapped => legal.push(Legal::Unmapped),
    }
    match &leb.state {
        State::Mapped(content) if leb.fragile => legal.extend([Legal::Unmapped, Legal::Ghost(content.clone())]),
        State::Mapped(_) | State::Unmapped => {}
    }
    if leb.fragile || leb.state == State::Unmapped {
        let ghost = if leb.shaky_ghosts { Legal::Shaky } else { Legal::Ghost };
        legal.extend(leb.ghosts.iter().cloned().map(ghost));
    }
    let base = || match &leb.state {
        State::Mapped(content) => content.clone(),
        State::Unmapped => Content::default(),
    };
    let here = (vol_id, lnum);
    match op {
        Op::Write { vol_id, lnum, data, .. } if (*vol_id, *lnum) == here => {
            legal.push(Legal::Torn { base: base(), data: data.clone() });
        }
        Op::Change { vol_id, lnum, data } if (*vol_id, *lnum) == here => match leb.state {
            State::Mapped(_) => legal.push(Legal::Exactly(data.clone())),
            State::Unmapped => legal.push(Legal::Torn { base: base(), data: data.clone() }),
        },
        Op::Map { vol_id, lnum } if (*vol_id, *lnum) == here => legal.push(Legal::Exactly(Content::default())),
        _ if is_cut_off(op, vol_id, lnum) => {
            // LEBs beyond the new end are unmapped before the table changes.
            legal.push(Legal::Unmapped);
            legal.push(Legal::Ghost(base()));
        }
        _ => {}
    }
    legal
}

/// Whether a cut in `op` may leave the LEB in another state than before, under the volume table from before.
pub(super) fn touches(op: &Op, vol_id: u32, lnum: u32) -> bool {
    match op {
        Op::Write { vol_id: v, lnum: l, .. }
        | Op::Change { vol_id: v, lnum: l, .. }
        | Op::Map { vol_id: v, lnum: l } => (*v, *l) == (vol_id, lnum),
        _ => is_cut_off(op, vol_id, lnum),
    }
}

/// Whether `op` shrinks the volume below the LEB.
fn is_cut_off(op: &Op, vol_id: u32, lnum: u32) -> bool {
    matches!(op, Op::Resize { vol_id: shrunk, lebs } if *shrunk == vol_id && lnum >= *lebs)
}

impl Leb {
    /// Adopts the state found, which was `legal` after a cut in `op`.
    pub fn settle(&mut self, legal: &Legal, seen: &Seen<'_>, op: &Op, vol_id: u32, lnum: u32) {
        let was_mapped = self.state != State::Unmapped;
        if let Op::Write { vol_id: v, lnum: l, data, .. } | Op::Change { vol_id: v, lnum: l, data } = op
            && (*v, *l) == (vol_id, lnum)
        {
            self.remember();
            self.ghosts.push(data.clone());
        }
        if is_cut_off(op, vol_id, lnum) {
            self.remember();
        }
        match legal {
            _ if !seen.mapped => self.become_sound(State::Unmapped),
            Legal::Exactly(content) if is_cut_off(op, vol_id, lnum) => {
                *self = Leb { state: State::Mapped(content.clone()), torn: true, fragile: true, ..self.clone() };
            }
            Legal::Exactly(content) if self.state == State::Mapped(content.clone()) => {}
            Legal::Exactly(content) => self.become_sound(State::Mapped(content.clone())),
            Legal::Unmapped => unreachable!("it is mapped"),
            Legal::Ghost(_) | Legal::Shaky(_) | Legal::Torn { .. } if seen.unstable => {
                let certain = if let Legal::Torn { base, .. } = legal { base.clone() } else { Content::default() };
                let fragile = !was_mapped && matches!(op, Op::Change { .. })
                    || matches!(legal, Legal::Ghost(_) | Legal::Shaky(_));
                let fragile = fragile || self.fragile || !was_mapped && seen.header_is_unstable;
                *self = Leb {
                    state: State::Mapped(certain),
                    torn: true,
                    fragile,
                    shaky: true,
                    ghosts: self.ghosts.clone(),
                    shaky_ghosts: self.shaky_ghosts,
                };
            }
            Legal::Ghost(_) | Legal::Shaky(_) | Legal::Torn { .. } => {
                let end = seen.bytes.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
                let first_copy = matches!(op, Op::Change { .. }) && !was_mapped;
                self.fragile |= first_copy || matches!(legal, Legal::Ghost(_) | Legal::Shaky(_));
                self.torn = true;
                self.state = State::Mapped(Content::new(seen.bytes[..end].to_vec()));
            }
        }
    }
}

impl Leb {
    /// Adopts whatever was found after the medium destroyed some of it. Returns whether that is an older version.
    pub fn adopt(&mut self, seen: &Seen<'_>) -> bool {
        let end = seen.bytes.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
        let older = seen.mapped && self.ghosts.iter().any(|ghost| ghost[..] == seen.bytes[..end]);
        self.remember();
        let (ghosts, shaky, shaky_ghosts) = (self.ghosts.clone(), seen.unstable, self.shaky_ghosts);
        if seen.mapped {
            let content = if shaky { Content::default() } else { Content::new(seen.bytes[..end].to_vec()) };
            *self = Leb { state: State::Mapped(content), ghosts, torn: true, fragile: true, shaky, shaky_ghosts };
        } else {
            *self = Leb { ghosts, shaky_ghosts, ..Leb::EMPTY };
        }
        older
    }
}

/// Contents read from a LEB.
pub(super) struct Seen<'a> {
    pub mapped: bool,
    pub bytes: &'a [u8],
    /// Offsets of pages that ECC could not correct.
    pub unreadable: &'a [u32],
    pub page_bytes: u32,
    /// Whether its PEB has torn cells that may read differently each time.
    pub unstable: bool,
    /// Whether these are cells of its headers: it may be mapped at one attach and not at the next.
    pub header_is_unstable: bool,
    /// Offsets of pages that a cut destroyed although it interrupted the program of another.
    pub destroyed: &'a [u32],
}

impl Seen<'_> {
    /// Whether the bytes at `at` could be read.
    fn readable(&self, at: usize) -> bool {
        let at = at as u32;
        !self.unreadable.iter().any(|&page| (page..page + self.page_bytes).contains(&at))
    }

    fn erased_from(&self, start: usize) -> bool {
        sim::seam::is_erased(&self.bytes[start..])
    }

    /// Whether these are the contents, but for pages that ECC could not correct.
    pub fn is_where_readable(&self, content: &[u8]) -> bool {
        let same = |(at, byte): (usize, &u8)| *byte == content.get(at).copied().unwrap_or(0xff) || !self.readable(at);
        self.mapped && self.bytes.iter().enumerate().all(same)
    }

    /// Whether the contents match `legal`.
    pub fn is(&self, legal: &Legal) -> bool {
        match legal {
            Legal::Unmapped => !self.mapped && self.unreadable.is_empty() && self.erased_from(0),
            Legal::Exactly(content) => {
                self.mapped
                    && self.unreadable.is_empty()
                    && self.bytes[..content.len()] == content[..]
                    && self.erased_from(content.len())
            }
            Legal::Ghost(_) | Legal::Shaky(_) if self.unstable => true,
            Legal::Shaky(content) => {
                let mut pairs = self.bytes.iter().zip(content.iter()).enumerate();
                pairs.all(|(at, (byte, was))| byte & was == *was || !self.readable(at))
            }
            Legal::Ghost(content) => {
                self.erased_from(content.len().max(self.last_unreadable()))
                    && (self.bytes.iter().zip(content.iter()).enumerate())
                        .all(|(at, (byte, was))| byte & was == *was || !self.readable(at))
            }
            Legal::Torn { base, data } => self.mapped && self.is_torn(base, data),
        }
    }

    fn last_unreadable(&self) -> usize {
        let end = self.unreadable.iter().map(|&page| (page + self.page_bytes) as usize).max().unwrap_or(0);
        end.min(self.bytes.len())
    }

    /// Whether there are whole new pages, then at most one torn page, then none.
    fn is_torn(&self, base: &[u8], data: &[u8]) -> bool {
        let (from, to) = (base.len(), base.len() + data.len());
        if self.bytes[..from] != *base || !self.erased_from(to) {
            return false;
        }
        if self.unreadable.iter().any(|&page| (page as usize) < from) {
            return false;
        }
        let page_bytes = self.page_bytes as usize;
        let mut torn = false;
        for start in (from..to).step_by(page_bytes) {
            // A page of the same write, which shares cells with the torn one.
            if self.destroyed.contains(&(start as u32)) {
                continue;
            }
            let end = (start + page_bytes).min(to);
            let (cells, new) = (&self.bytes[start..end], &data[start - from..end - from]);
            if !torn && cells == new && self.readable(start) {
                continue;
            }
            if torn && !sim::seam::is_erased(cells) {
                return false;
            }
            // Bits to be cleared may still be set; no other bit may be cleared.
            if !self.unstable && !cells.iter().zip(new).all(|(cell, new)| cell & new == *new) {
                return false;
            }
            torn = true;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(name: u8, len: usize) -> Content {
        Arc::new(vec![name; len])
    }

    fn write(lnum: u32, offset: u32, name: u8) -> Op {
        Op::Write { vol_id: 0, lnum, offset, data: content(name, 512) }
    }

    fn change(lnum: u32, name: u8) -> Op {
        Op::Change { vol_id: 0, lnum, data: content(name, 512) }
    }

    /// A volume of four LEBs after these operations.
    fn world(ops: &[Op]) -> World {
        let create = Op::Create { vol_id: 0, name: "v".to_owned(), kind: VolType::Dynamic, lebs: 4 };
        std::iter::once(&create).chain(ops).fold(World::default(), |world, op| world.after(op, 4096))
    }

    /// What a LEB may be after a cut in `op`: its contents by their first letters, those of a ghost behind a tilde.
    fn legal(world: &World, op: &Op, lnum: u32) -> Vec<String> {
        let name = |content: &Content| content.chunks(512).map(|page| char::from(page[0])).collect::<String>();
        let said =
            legal_before(&world.volumes[&0].lebs[lnum as usize], 0, lnum, op).into_iter().map(|legal| match legal {
                Legal::Unmapped => "unmapped".to_owned(),
                Legal::Exactly(content) => format!("={}", name(&content)),
                Legal::Ghost(content) => format!("~{}", name(&content)),
                Legal::Shaky(content) => format!("?{}", name(&content)),
                Legal::Torn { base, data } => format!("{}+{}", name(&base), name(&data)),
            });
        let mut said: Vec<String> = said.collect();
        said.sort();
        said.dedup();
        said
    }

    /// The table of the module, row by row.
    #[test]
    fn a_leb_may_be_what_the_table_says() {
        let mapped = world(&[write(0, 0, b'A')]);
        let elsewhere = Op::Write { vol_id: 1, lnum: 0, offset: 0, data: content(b'X', 512) };
        for other in [Op::Sync, Op::Background, Op::Detach, Op::Crash, write(1, 0, b'X'), change(1, b'X'), elsewhere] {
            assert_eq!(legal(&mapped, &other, 0), ["=A"], "{other}");
        }
        assert_eq!(legal(&mapped, &write(0, 512, b'B'), 0), ["=A", "A+B"]);
        assert_eq!(legal(&mapped, &change(0, b'C'), 0), ["=A", "=C"]);
        assert_eq!(legal(&mapped, &Op::Unmap { vol_id: 0, lnum: 0 }, 0), ["=A"], "the erasure comes later");
        let empty = world(&[]);
        assert_eq!(legal(&empty, &write(0, 0, b'B'), 0), ["+B", "unmapped"]);
        assert_eq!(legal(&empty, &change(0, b'B'), 0), ["+B", "unmapped"]);
        assert_eq!(legal(&empty, &Op::Map { vol_id: 0, lnum: 0 }, 0), ["=", "unmapped"]);
        assert_eq!(legal(&empty, &write(1, 0, b'B'), 0), ["unmapped"]);
    }

    /// All contents since the last sync may reappear while a LEB is unmapped.
    #[test]
    fn contents_are_ghosts_until_they_are_erased() {
        let gone = [write(0, 0, b'A'), change(0, b'C'), change(0, b'D'), Op::Unmap { vol_id: 0, lnum: 0 }];
        let and = |op: Op| world(&[&gone[..], &[op]].concat());
        let ghosts = ["unmapped", "~A", "~C", "~D"];
        assert_eq!(legal(&world(&gone), &Op::Background, 0), ghosts);
        assert_eq!(legal(&and(Op::Background), &Op::Background, 0), ghosts);
        assert_eq!(legal(&and(Op::Crash), &Op::Background, 0), ghosts);
        assert_eq!(legal(&world(&gone), &write(0, 0, b'E'), 0), ["+E", "unmapped", "~A", "~C", "~D"]);
        assert_eq!(legal(&and(Op::Sync), &Op::Background, 0), ["unmapped"]);
        assert_eq!(legal(&and(Op::Detach), &Op::Background, 0), ["unmapped"]);
        assert_eq!(legal(&and(write(0, 0, b'E')), &Op::Background, 0), ["=E"], "a newer copy wins over them");
    }

    #[test]
    fn lebs_that_a_volume_loses_may_be_gone_first() {
        let lebs = world(&[write(1, 0, b'A'), write(2, 0, b'B')]);
        let shrink = Op::Resize { vol_id: 0, lebs: 2 };
        assert_eq!(legal(&lebs, &shrink, 1), ["=A"]);
        assert_eq!(legal(&lebs, &shrink, 2), ["=B", "unmapped", "~B"]);
        assert!(touches(&shrink, 0, 2) && !touches(&shrink, 0, 1) && !touches(&shrink, 1, 2));
    }

    fn seen(bytes: &[u8]) -> Seen<'_> {
        let (unreadable, destroyed) = (&[][..], &[][..]);
        Seen { mapped: true, bytes, unreadable, page_bytes: 512, unstable: false, header_is_unstable: false, destroyed }
    }

    /// A LEB of four pages: these, and then erased ones.
    fn leb(pages: &[[u8; 512]]) -> Vec<u8> {
        let mut bytes = pages.concat();
        bytes.resize(2048, 0xff);
        bytes
    }

    #[test]
    fn what_is_read_is_exact_or_has_bits_that_rose() {
        let old = content(0x5a, 512);
        let (same, risen) = (leb(&[[0x5a; 512]]), leb(&[[0x5b; 512]]));
        let (fallen, longer) = (leb(&[[0x4a; 512]]), leb(&[[0x5a; 512], [0x77; 512]]));
        let is = |bytes: &[u8], legal: &Legal| seen(bytes).is(legal);
        let all = |legal: &Legal| [&same, &risen, &fallen, &longer].map(|bytes| is(bytes, legal));
        assert_eq!(all(&Legal::Exactly(old.clone())), [true, false, false, false]);
        assert_eq!(all(&Legal::Ghost(old.clone())), [true, true, false, false]);
        assert_eq!(all(&Legal::Shaky(old.clone())), [true, true, false, true], "what is behind is not known");
        let unmapped = |bytes: &[u8], legal: &Legal| Seen { mapped: false, ..seen(bytes) }.is(legal);
        assert!(unmapped(&leb(&[]), &Legal::Unmapped) && !unmapped(&same, &Legal::Unmapped));
        assert!(!unmapped(&same, &Legal::Exactly(old.clone())) && !is(&leb(&[]), &Legal::Unmapped));
        let unreadable = Seen { unreadable: &[512], ..seen(&same) };
        assert!(!unreadable.is(&Legal::Exactly(old.clone())) && unreadable.is_where_readable(&old));
        assert!(!seen(&fallen).is_where_readable(&old));
    }

    #[test]
    fn what_a_cut_left_of_a_program_is_whole_pages_then_one_torn() {
        let (base, new) = ([0x11; 512], [0x0f; 512]);
        let legal = Legal::Torn { base: Arc::new(base.to_vec()), data: Arc::new([new, new].concat()) };
        let is = |pages: &[[u8; 512]]| seen(&leb(pages)).is(&legal);
        let (torn, wrong, erased) = ([0xcf; 512], [0x0e; 512], [0xff; 512]);
        assert!(
            [vec![base], vec![base, new], vec![base, new, new], vec![base, torn], vec![base, new, torn]]
                .iter()
                .all(|pages| is(pages))
        );
        for pages in [
            vec![new],
            vec![base, torn, new],
            vec![base, torn, torn],
            vec![base, erased, new],
            vec![base, wrong],
            vec![base, new, new, new],
        ] {
            assert!(!is(&pages), "{:x?}", pages.iter().map(|page| page[0]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_older_version_that_came_back_is_told_from_nothing_and_from_another() {
        let held = world(&[write(0, 0, b'A'), change(0, b'C')]).volumes[&0].lebs[0].clone();
        let adopt = |mapped, bytes: &[u8]| held.clone().adopt(&Seen { mapped, ..seen(bytes) });
        assert!(adopt(true, &leb(&[[b'A'; 512]])));
        assert!(!adopt(true, &leb(&[[b'B'; 512]])) && !adopt(false, &leb(&[[b'A'; 512]])));
        assert!(!adopt(true, &leb(&[[b'C'; 512]])), "the newest is no older one");
    }
}
