//! The workload: operations of UBI's users, drawn one after another from the state of the model.
//!
//! Knows volumes and LEBs from the model alone, so draws do not depend on what the device did.

use std::fmt;
use std::sync::Arc;

use sim::Rng;
use ubi::media::VolType;

use super::model::{State, Vol, World};

/// Contents of a LEB: bytes from its first; the rest is 0xFF.
pub(super) type Content = Arc<Vec<u8>>;

/// Kinds of operations, as named in `[workload.mix]` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// Creates a volume.
    Create,
    /// Removes a volume.
    Remove,
    /// Grows or shrinks a volume.
    Resize,
    /// Renames a volume, or exchanges the names of two.
    Rename,
    /// Replaces the contents of a volume.
    Update,
    /// Writes to a LEB, mapping it if it is unmapped.
    Write,
    /// Changes a LEB atomically.
    Change,
    /// Maps an unmapped LEB.
    Map,
    /// Unmaps a LEB.
    Unmap,
    /// Does all background work.
    Sync,
    /// Does one step of the background thread.
    Background,
    /// Detaches and attaches again.
    Detach,
    /// Loses power between two NAND operations and attaches again.
    Crash,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 13] = [
        Kind::Create,
        Kind::Remove,
        Kind::Resize,
        Kind::Rename,
        Kind::Update,
        Kind::Write,
        Kind::Change,
        Kind::Map,
        Kind::Unmap,
        Kind::Sync,
        Kind::Background,
        Kind::Detach,
        Kind::Crash,
    ];

    /// Name of the kind in a file.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 13] = [
            "create",
            "remove",
            "resize",
            "rename",
            "update",
            "write",
            "change",
            "map",
            "unmap",
            "sync",
            "background",
            "detach",
            "crash",
        ];
        NAMES[self as usize]
    }
}

/// Kinds of operations and their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Most volumes at a time.
    pub volumes: u32,
    /// Weight of each kind, in the order of [`Kind::ALL`].
    pub weights: [u32; 13],
}

impl Mix {
    /// Default weights: mostly operations on LEBs, with an occasional change of the volume table.
    pub const WEIGHTS: [u32; 13] = [3, 1, 2, 1, 1, 40, 24, 4, 12, 3, 40, 1, 1];
}

/// One operation of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Create { vol_id: u32, name: String, kind: VolType, lebs: u32 },
    Remove { vol_id: u32 },
    Resize { vol_id: u32, lebs: u32 },
    Rename { renames: Vec<(u32, String)> },
    Update { vol_id: u32, data: Content },
    Write { vol_id: u32, lnum: u32, offset: u32, data: Content },
    Change { vol_id: u32, lnum: u32, data: Content },
    Map { vol_id: u32, lnum: u32 },
    Unmap { vol_id: u32, lnum: u32 },
    Sync,
    Background,
    Detach,
    Crash,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create { vol_id, name, kind, lebs } => {
                write!(f, "create {} volume {vol_id} {name:?} of {lebs} LEBs", kind.name())
            }
            Op::Remove { vol_id } => write!(f, "remove volume {vol_id}"),
            Op::Resize { vol_id, lebs } => write!(f, "resize volume {vol_id} to {lebs} LEBs"),
            Op::Rename { renames } => {
                f.write_str("rename")?;
                renames.iter().try_for_each(|(vol_id, name)| write!(f, " volume {vol_id} to {name:?}"))
            }
            Op::Update { vol_id, data } => write!(f, "update volume {vol_id} with {} bytes", data.len()),
            Op::Write { vol_id, lnum, offset, data } => {
                write!(f, "write {} bytes to volume {vol_id} LEB {lnum} at offset {offset}", data.len())
            }
            Op::Change { vol_id, lnum, data } => {
                write!(f, "change volume {vol_id} LEB {lnum} to {} bytes", data.len())
            }
            Op::Map { vol_id, lnum } => write!(f, "map volume {vol_id} LEB {lnum}"),
            Op::Unmap { vol_id, lnum } => write!(f, "unmap volume {vol_id} LEB {lnum}"),
            Op::Sync => f.write_str("sync"),
            Op::Background => f.write_str("background step"),
            Op::Detach => f.write_str("detach, attach"),
            Op::Crash => f.write_str("power off, attach"),
        }
    }
}

/// What draws need to know of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub leb_bytes: u32,
    pub min_io_bytes: u32,
    /// LEBs available to all volumes together.
    pub lebs: u32,
}

/// Attempts to draw an operation that is possible.
const DRAWS: u32 = 32;

/// Draws an operation that is possible in `world`. Background work always is.
pub(super) fn draw(rng: &mut Rng, mix: &Mix, world: &mut World, limits: Limits) -> Op {
    let total: u64 = mix.weights.iter().map(|&weight| u64::from(weight)).sum();
    if world.volumes.is_empty()
        && mix.weights[Kind::Create as usize] > 0
        && let Some(op) = (Draw { rng, world, limits, volumes: mix.volumes }).create()
    {
        return op;
    }
    for _ in 0..DRAWS {
        let mut ticket = rng.below(total);
        let kind = Kind::ALL.into_iter().find(|&kind| {
            let weight = u64::from(mix.weights[kind as usize]);
            let hit = ticket < weight;
            ticket = ticket.saturating_sub(weight);
            hit
        });
        let drawn = kind.and_then(|kind| Draw { rng, world, limits, volumes: mix.volumes }.of(kind));
        if let Some(op) = drawn {
            return op;
        }
    }
    Op::Background
}

struct Draw<'a> {
    rng: &'a mut Rng,
    world: &'a mut World,
    limits: Limits,
    volumes: u32,
}

impl Draw<'_> {
    fn below(&mut self, bound: u32) -> u32 {
        self.rng.below(bound.into()) as u32
    }

    fn of(&mut self, kind: Kind) -> Option<Op> {
        match kind {
            Kind::Create => self.create(),
            Kind::Remove => self.volume(|_| true).map(|vol_id| Op::Remove { vol_id }),
            Kind::Resize => self.resize(),
            Kind::Rename => self.rename(),
            Kind::Update => self.update(),
            Kind::Write => self.write(),
            Kind::Change => {
                let (vol_id, lnum) = self.leb(|_| true)?;
                let data = self.content(self.limits.leb_bytes);
                Some(Op::Change { vol_id, lnum, data })
            }
            Kind::Map => {
                let (vol_id, lnum) = self.leb(|state| *state == State::Unmapped)?;
                Some(Op::Map { vol_id, lnum })
            }
            Kind::Unmap => {
                let (vol_id, lnum) = self.leb(|state| *state != State::Unmapped)?;
                Some(Op::Unmap { vol_id, lnum })
            }
            Kind::Sync => Some(Op::Sync),
            Kind::Background => Some(Op::Background),
            Kind::Detach => Some(Op::Detach),
            Kind::Crash => Some(Op::Crash),
        }
    }

    fn free_lebs(&self) -> u32 {
        let taken: usize = self.world.volumes.values().map(|vol| vol.lebs.len()).sum();
        self.limits.lebs.saturating_sub(taken as u32)
    }

    fn name(&mut self) -> String {
        self.world.serial += 1;
        format!("v{}", self.world.serial)
    }

    /// One of the `wanted` volumes.
    fn volume(&mut self, wanted: impl Fn(&Vol) -> bool) -> Option<u32> {
        let ids: Vec<u32> = self.world.volumes.iter().filter(|(_, vol)| wanted(vol)).map(|(&id, _)| id).collect();
        if ids.is_empty() { None } else { Some(ids[self.below(ids.len() as u32) as usize]) }
    }

    /// One of the `wanted` LEBs of dynamic volumes.
    fn leb(&mut self, wanted: impl Fn(&State) -> bool) -> Option<(u32, u32)> {
        let vol_id = self.volume(|vol| vol.kind == VolType::Dynamic && !vol.updating)?;
        let lebs = &self.world.volumes[&vol_id].lebs;
        let lnums: Vec<u32> = (0..).zip(lebs).filter(|(_, leb)| wanted(&leb.state)).map(|(lnum, _)| lnum).collect();
        if lnums.is_empty() { None } else { Some((vol_id, lnums[self.below(lnums.len() as u32) as usize])) }
    }

    /// Creates a volume with the lowest free number, so that numbers are soon reused.
    fn create(&mut self) -> Option<Op> {
        let free = self.free_lebs();
        if self.world.volumes.len() as u32 >= self.volumes || free == 0 {
            return None;
        }
        let vol_id = (0..).find(|id| !self.world.volumes.contains_key(id)).expect("numbers do not end");
        let kind = if self.below(4) == 0 { VolType::Static } else { VolType::Dynamic };
        let lebs = self.some_lebs(free);
        let name = self.name();
        Some(Op::Create { vol_id, name, kind, lebs })
    }

    /// Mostly an even share of the free LEBs, sometimes all.
    fn some_lebs(&mut self, free: u32) -> u32 {
        if self.below(6) == 0 {
            return free;
        }
        let share = (self.limits.lebs / self.volumes).clamp(1, free);
        1 + self.below(share)
    }

    fn resize(&mut self) -> Option<Op> {
        let vol_id = self.volume(|vol| vol.kind == VolType::Dynamic && !vol.updating)?;
        let has = self.world.volumes[&vol_id].lebs.len() as u32;
        let free = self.free_lebs();
        let lebs = if self.below(2) == 0 || free == 0 { 1 + self.below(has) } else { has + self.some_lebs(free) };
        (lebs != has).then_some(Op::Resize { vol_id, lebs })
    }

    fn rename(&mut self) -> Option<Op> {
        let first = self.volume(|_| true)?;
        let second = self.volume(|_| true)?;
        let name_of = |vol_id| self.world.volumes[&vol_id].name.clone();
        let renames = if first == second {
            vec![(first, self.name())]
        } else {
            vec![(first, name_of(second)), (second, name_of(first))]
        };
        Some(Op::Rename { renames })
    }

    /// Static volumes first: they can only be updated.
    fn update(&mut self) -> Option<Op> {
        let interrupted = self.volume(|vol| vol.updating);
        let vol_id = match interrupted {
            Some(vol_id) => vol_id,
            None if self.below(4) == 0 => self.volume(|_| true)?,
            None => self.volume(|vol| vol.kind == VolType::Static)?,
        };
        let lebs = (self.world.volumes[&vol_id].lebs.len() as u32).min(6);
        let mut bytes = self.below(lebs * self.limits.leb_bytes + 1);
        if self.world.volumes[&vol_id].kind == VolType::Dynamic {
            // Whole write units, so that more can be appended.
            bytes -= bytes % self.limits.min_io_bytes;
        }
        let data = self.bytes(bytes);
        Some(Op::Update { vol_id, data })
    }

    /// Appends to a LEB that has data, or maps one.
    fn write(&mut self) -> Option<Op> {
        let leb_bytes = self.limits.leb_bytes;
        let (vol_id, lnum) = self.leb(|_| true)?;
        let leb = &self.world.volumes[&vol_id].lebs[lnum as usize];
        let offset = match &leb.state {
            State::Unmapped => 0,
            State::Mapped(_) if leb.torn => return None,
            State::Mapped(content) => content.len() as u32,
        };
        if offset >= leb_bytes {
            return None;
        }
        let data = self.content(leb_bytes - offset);
        Some(Op::Write { vol_id, lnum, offset, data })
    }

    /// Data of whole write units, at most `room`: mostly a few units, sometimes all.
    fn content(&mut self, room: u32) -> Content {
        let unit = self.limits.min_io_bytes.max(64);
        let units = room / unit;
        let bytes = if units <= 1 {
            room
        } else {
            let most = if self.below(5) == 0 { units } else { units.min(4) };
            unit * (1 + self.below(most))
        };
        self.bytes(bytes)
    }

    /// Unique bytes, mixed from the serial number. None is 0xFF, so that the end of data can be seen.
    fn bytes(&mut self, len: u32) -> Content {
        self.world.serial += 1;
        let mut state = self.world.serial.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = Vec::with_capacity(len as usize + 8);
        while bytes.len() < len as usize {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&(state & 0x7f7f_7f7f_7f7f_7f7f).to_le_bytes());
        }
        bytes.truncate(len as usize);
        Arc::new(bytes)
    }
}
