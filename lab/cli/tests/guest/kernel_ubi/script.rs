//! What users do with UBI volumes, as lines of a script that nandlab's UBI (`ours`) and Linux's (`guest/jobs/ubi.py`)
//! carry out, and a model of what the volumes hold afterwards.

use std::collections::BTreeMap;
use std::fmt;

use sim::Rng;

/// An operation. Contents are [`text`] with this tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Create {
        id: u32,
        name: String,
        is_static: bool,
        lebs: u32,
        align: u32,
        skip_check: bool,
    },
    Remove {
        id: u32,
    },
    Resize {
        id: u32,
        lebs: u32,
    },
    Rename {
        names: Vec<(u32, String)>,
    },
    Update {
        id: u32,
        tag: u32,
        bytes: u32,
    },
    Change {
        id: u32,
        lnum: u32,
        tag: u32,
        bytes: u32,
    },
    Write {
        id: u32,
        lnum: u32,
        offset: u32,
        tag: u32,
        bytes: u32,
    },
    Map {
        id: u32,
        lnum: u32,
    },
    Unmap {
        id: u32,
        lnum: u32,
    },
    /// Waits until the background thread has nothing to do.
    Settle,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create { id, name, is_static, lebs, align, skip_check } => {
                let kind = if *is_static { "static" } else { "dynamic" };
                write!(f, "create {id} {name} {kind} {lebs} {align} {}", u8::from(*skip_check))
            }
            Op::Remove { id } => write!(f, "remove {id}"),
            Op::Resize { id, lebs } => write!(f, "resize {id} {lebs}"),
            Op::Rename { names } => {
                f.write_str("rename")?;
                names.iter().try_for_each(|(id, name)| write!(f, " {id} {name}"))
            }
            Op::Update { id, tag, bytes } => write!(f, "update {id} {tag} {bytes}"),
            Op::Change { id, lnum, tag, bytes } => write!(f, "change {id} {lnum} {tag} {bytes}"),
            Op::Write { id, lnum, offset, tag, bytes } => write!(f, "write {id} {lnum} {offset} {tag} {bytes}"),
            Op::Map { id, lnum } => write!(f, "map {id} {lnum}"),
            Op::Unmap { id, lnum } => write!(f, "unmap {id} {lnum}"),
            Op::Settle => f.write_str("settle"),
        }
    }
}

/// Contents that compress well and differ from tag to tag. `guest/jobs/ubi.py` has the same.
pub fn text(tag: u32, bytes: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes as usize + 32);
    for line in 0.. {
        if text.len() >= bytes as usize {
            break;
        }
        text.extend_from_slice(format!("volume {tag}, line {line}\n").as_bytes());
    }
    text.truncate(bytes as usize);
    text
}

/// A volume of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Volume {
    name: String,
    is_static: bool,
    leb_bytes: u32,
    /// Contents of mapped LEBs, in whole write units.
    lebs: Vec<Option<Vec<u8>>>,
    /// Bytes of the last update; of static volumes only.
    data_bytes: u64,
}

impl Volume {
    fn contents(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for leb in &self.lebs {
            let start = all.len();
            all.extend_from_slice(leb.as_deref().unwrap_or_default());
            all.resize(start + self.leb_bytes as usize, 0xff);
        }
        if self.is_static {
            all.truncate(self.data_bytes as usize);
        }
        all
    }
}

/// The last operation before the wait at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Any,
    /// A change of the volume table, with which both write a fastmap. Without it Linux's may have the old size of a static
    /// volume, which ours does not use.
    Table,
}

/// What the volumes of a device are and hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    leb_bytes: u32,
    /// Bytes of a write unit.
    unit: u32,
    /// Most LEBs that the volumes may have together.
    most_lebs: u32,
    volumes: BTreeMap<u32, Volume>,
    /// Names and tags given so far.
    serial: u32,
}

/// Most volumes at a time.
const MOST_VOLUMES: usize = 6;

impl Model {
    /// No volume, on a device with LEBs of so many bytes.
    pub fn new(leb_bytes: u32, unit: u32, most_lebs: u32) -> Model {
        Model { leb_bytes, unit, most_lebs, volumes: BTreeMap::new(), serial: 0 }
    }

    /// The volumes in the form of `guest/jobs/ubi.py`, with the CRC-32 of their contents.
    pub fn volumes(&self) -> String {
        let volume = |(id, volume): (&u32, &Volume)| {
            let kind = if volume.is_static { "static" } else { "dynamic" };
            let contents = volume.contents();
            let (lebs, bytes, crc) = (volume.lebs.len(), contents.len(), !ubi::media::crc(&contents));
            format!("{id}:{}:{kind}:{lebs}:{bytes}:{crc:08x}", volume.name)
        };
        self.volumes.iter().map(volume).collect::<Vec<_>>().join(" ")
    }

    /// Does an operation.
    pub fn apply(&mut self, op: &Op) {
        let unit = self.unit as usize;
        let whole = |mut bytes: Vec<u8>| {
            bytes.resize(bytes.len().next_multiple_of(unit), 0xff);
            bytes
        };
        match op {
            Op::Create { id, name, is_static, lebs, align, .. } => {
                let volume = Volume {
                    name: name.clone(),
                    is_static: *is_static,
                    leb_bytes: self.leb_bytes - self.leb_bytes % align,
                    lebs: vec![None; *lebs as usize],
                    data_bytes: 0,
                };
                self.volumes.insert(*id, volume);
            }
            Op::Remove { id } => drop(self.volumes.remove(id)),
            Op::Resize { id, lebs } => self.of(*id).lebs.resize(*lebs as usize, None),
            Op::Rename { names } => names.iter().for_each(|(id, name)| self.of(*id).name.clone_from(name)),
            Op::Update { id, tag, bytes } => {
                let volume = self.of(*id);
                volume.lebs.fill(None);
                volume.data_bytes = (*bytes).into();
                let data = text(*tag, *bytes);
                for (leb, piece) in volume.lebs.iter_mut().zip(data.chunks(volume.leb_bytes as usize)) {
                    *leb = Some(whole(piece.to_vec()));
                }
            }
            Op::Change { id, lnum, tag, bytes } => {
                self.of(*id).lebs[*lnum as usize] = Some(whole(text(*tag, *bytes)));
            }
            Op::Write { id, lnum, tag, bytes, .. } => {
                let data = text(*tag, *bytes);
                self.of(*id).lebs[*lnum as usize].get_or_insert_default().extend_from_slice(&data);
            }
            Op::Map { id, lnum } => drop(self.of(*id).lebs[*lnum as usize].get_or_insert_default()),
            Op::Unmap { id, lnum } => self.of(*id).lebs[*lnum as usize] = None,
            Op::Settle => {}
        }
    }

    fn of(&mut self, id: u32) -> &mut Volume {
        self.volumes.get_mut(&id).expect("the script knows its volumes")
    }

    /// Draws so many operations and does them, and waits at the end. A last change follows, so that a device that is left
    /// attached has a PEB in use that its fastmap does not list.
    pub fn draw(&mut self, rng: &mut Rng, number: usize, last: Last) -> Vec<Op> {
        let mut ops = Vec::new();
        while ops.len() < number {
            if let Some(op) = self.one(rng) {
                self.apply(&op);
                ops.push(op);
            }
        }
        if last == Last::Table
            && let Some(op) = self.rename(rng)
        {
            self.apply(&op);
            ops.push(op);
        }
        ops.push(Op::Settle);
        if let Some(op) = self.change(rng) {
            self.apply(&op);
            ops.push(op);
        }
        ops
    }

    fn one(&mut self, rng: &mut Rng) -> Option<Op> {
        match rng.below(16) {
            0..3 => self.create(rng),
            3 => Some(Op::Remove { id: self.any(rng, |_| true)? }).filter(|_| self.volumes.len() > 2),
            4 => self.resize(rng),
            5 => self.rename(rng),
            6..8 => self.update(rng),
            8..11 => self.change(rng),
            11..14 => self.write(rng),
            14 => {
                let (id, lnum) = self.leb(rng, Option::is_none)?;
                Some(Op::Map { id, lnum })
            }
            _ => {
                let (id, lnum) = self.leb(rng, Option::is_some)?;
                Some(Op::Unmap { id, lnum })
            }
        }
    }

    fn free(&self) -> u32 {
        self.most_lebs - self.volumes.values().map(|volume| volume.lebs.len() as u32).sum::<u32>()
    }

    fn serial(&mut self) -> u32 {
        self.serial += 1;
        self.serial
    }

    fn any(&self, rng: &mut Rng, wanted: impl Fn(&Volume) -> bool) -> Option<u32> {
        let ids: Vec<u32> = self.volumes.iter().filter(|(_, volume)| wanted(volume)).map(|(id, _)| *id).collect();
        (!ids.is_empty()).then(|| ids[rng.below(ids.len() as u64) as usize])
    }

    /// A LEB of a dynamic volume.
    fn leb(&self, rng: &mut Rng, wanted: impl Fn(&Option<Vec<u8>>) -> bool) -> Option<(u32, u32)> {
        let id = self.any(rng, |volume| !volume.is_static)?;
        let lebs = self.volumes[&id].lebs.iter().zip(0..).filter(|(leb, _)| wanted(leb));
        let lnums: Vec<u32> = lebs.map(|(_, lnum)| lnum).collect();
        (!lnums.is_empty()).then(|| (id, lnums[rng.below(lnums.len() as u64) as usize]))
    }

    fn create(&mut self, rng: &mut Rng) -> Option<Op> {
        let free = self.free().min(8);
        if self.volumes.len() >= MOST_VOLUMES || free == 0 {
            return None;
        }
        let id = (0..12).cycle().skip(rng.below(12) as usize).find(|id| !self.volumes.contains_key(id))?;
        let is_static = rng.chance(0.4);
        let align = if rng.chance(0.3) { self.unit.max(250) * 4 } else { 1 };
        let align = if align > self.leb_bytes { 1 } else { align };
        let (lebs, skip_check) = (1 + rng.below(free.into()) as u32, is_static && rng.chance(0.3));
        Some(Op::Create { id, name: format!("v{}", self.serial()), is_static, lebs, align, skip_check })
    }

    fn resize(&mut self, rng: &mut Rng) -> Option<Op> {
        let id = self.any(rng, |_| true)?;
        let (volume, free) = (&self.volumes[&id], self.free());
        let has = volume.lebs.len() as u32;
        // A static volume keeps its data.
        let least =
            if volume.is_static { volume.data_bytes.div_ceil(volume.leb_bytes.into()).max(1) as u32 } else { 1 };
        let lebs = least + rng.below((has + free.min(4) - least + 1).into()) as u32;
        (lebs != has).then_some(Op::Resize { id, lebs })
    }

    fn rename(&mut self, rng: &mut Rng) -> Option<Op> {
        let (a, b) = (self.any(rng, |_| true)?, self.any(rng, |_| true)?);
        let names = if a == b {
            vec![(a, format!("renamed-{}", self.serial()))]
        } else {
            vec![(a, self.volumes[&b].name.clone()), (b, self.volumes[&a].name.clone())]
        };
        Some(Op::Rename { names })
    }

    fn update(&mut self, rng: &mut Rng) -> Option<Op> {
        let id = self.any(rng, |volume| volume.is_static).or_else(|| self.any(rng, |_| true))?;
        let volume = &self.volumes[&id];
        let most = u64::from(volume.leb_bytes) * volume.lebs.len().min(3) as u64;
        let bytes = 1 + rng.below(most) as u32;
        Some(Op::Update { id, tag: self.serial(), bytes })
    }

    fn change(&mut self, rng: &mut Rng) -> Option<Op> {
        let (id, lnum) = self.leb(rng, |_| true)?;
        let bytes = self.some_bytes(rng, self.volumes[&id].leb_bytes)?;
        Some(Op::Change { id, lnum, tag: self.serial(), bytes })
    }

    /// Writes to a LEB, mapped or not, behind what it holds.
    fn write(&mut self, rng: &mut Rng) -> Option<Op> {
        let (id, lnum) = self.leb(rng, |_| true)?;
        let volume = &self.volumes[&id];
        let offset = volume.lebs[lnum as usize].as_ref().map_or(0, |leb| leb.len() as u32);
        let bytes = self.some_bytes(rng, volume.leb_bytes - offset)?;
        Some(Op::Write { id, lnum, offset, tag: self.serial(), bytes })
    }

    /// Bytes of a write of whole units into so much room: mostly a few.
    fn some_bytes(&self, rng: &mut Rng, room: u32) -> Option<u32> {
        let unit = if self.unit == 1 { 1 + rng.below(200) as u32 } else { self.unit };
        let units = u64::from(room / unit);
        let most = if rng.chance(0.2) { units } else { units.min(4) };
        (units > 0).then(|| unit * (1 + rng.below(most) as u32))
    }
}
