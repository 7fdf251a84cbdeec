//! What differs between two images.
//!
//! Volumes are matched by number, LEBs by volume and number. A LEB that no PEB holds reads as 0xFF, so it equals a LEB
//! of 0xFF. The PEBs themselves are compared by number: erase counters, which LEB is where, bad blocks.

use std::borrow::Cow;
use std::collections::BTreeSet;

use sim::{Lnum, Peb, VolId};

use super::fastmap::Fastmap;
use super::scan::{PebState, Scan, Volume};
use crate::media::{INTERNAL_VOLUME_START, VolType, VtblRecord};

macro_rules! aspects {
    ($($(#[$doc:meta])* $aspect:ident = $name:literal,)*) => {
        /// What two images are compared in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Aspect {
            $($(#[$doc])* $aspect,)*
        }

        impl Aspect {
            /// Every aspect.
            pub const ALL: &'static [Aspect] = &[$(Aspect::$aspect),*];

            /// Name in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Aspect::$aspect => $name,)*
                }
            }
        }
    };
}

aspects! {
    /// Sizes and offsets of PEBs and LEBs, and their number.
    Geometry = "geometry",
    /// Image sequence numbers.
    ImageSeq = "image-seq",
    /// A volume that only one image has, or has in its volume table.
    Volume = "volume",
    /// Name of a volume.
    Name = "name",
    /// Type of a volume.
    Type = "type",
    /// LEBs that a volume reserves, or their usable bytes.
    Size = "size",
    /// Flags of a volume.
    Flags = "flags",
    /// Whether an update of a volume was interrupted.
    UpdateMarker = "update-marker",
    /// Contents of LEBs.
    Contents = "contents",
    /// PEBs that hold LEBs.
    Placement = "placement",
    /// Erase counters of PEBs.
    EraseCounters = "erase-counters",
    /// Bad PEBs.
    BadBlocks = "bad-blocks",
    /// The fastmap.
    Fastmap = "fastmap",
}

impl Aspect {
    /// Whether it is about what the volumes are and hold, rather than about the flash that they are on.
    pub const fn is_of_volumes(self) -> bool {
        use Aspect::{Contents, Flags, Name, Size, Type, UpdateMarker, Volume};
        matches!(self, Volume | Name | Type | Size | Flags | UpdateMarker | Contents)
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub aspect: Aspect,
    /// The volume concerned, if it is one.
    pub volume: Option<VolId>,
    /// What the first image has.
    pub a: String,
    /// What the second image has.
    pub b: String,
    /// LEBs of the volume, or without one PEBs of the flash, that differ.
    pub numbers: Vec<u32>,
}

/// Which parts to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Volumes and flash.
    Everything,
    /// Only what volumes are and hold.
    Volumes,
}

/// Lists what differs between two images, in the order of [`Aspect`], for volumes by their number.
pub fn compare(a: &Scan<'_>, b: &Scan<'_>, extent: Extent) -> Vec<Difference> {
    let mut both = Both { a, b, list: Vec::new() };
    if extent == Extent::Everything {
        both.geometry();
        both.image_seq();
    }
    both.volumes();
    if extent == Extent::Everything {
        both.placement();
        both.erase_counters();
        both.bad_blocks();
        both.fastmap();
    }
    both.list
}

struct Both<'s, 'a> {
    a: &'s Scan<'a>,
    b: &'s Scan<'a>,
    list: Vec<Difference>,
}

impl Both<'_, '_> {
    /// Adds a difference if the texts differ.
    fn differ(&mut self, aspect: Aspect, volume: Option<VolId>, of: impl Fn(&Scan<'_>) -> String) {
        let (a, b) = (of(self.a), of(self.b));
        if a != b {
            self.list.push(Difference { aspect, volume, a, b, numbers: Vec::new() });
        }
    }

    /// Adds a difference if there are `numbers`.
    fn add(&mut self, aspect: Aspect, volume: Option<VolId>, said: (String, String), numbers: Vec<u32>) {
        if !numbers.is_empty() {
            let (a, b) = said;
            self.list.push(Difference { aspect, volume, a, b, numbers });
        }
    }

    fn geometry(&mut self) {
        self.differ(Aspect::Geometry, None, |scan| {
            let it = scan.dump().geometry();
            format!(
                "{} PEBs of {} bytes, VID headers at {}, data at {}",
                it.pebs, it.peb_bytes, it.vid_hdr_offset, it.data_offset
            )
        });
    }

    fn image_seq(&mut self) {
        self.differ(Aspect::ImageSeq, None, |scan| {
            let seqs: Vec<String> = scan.image_seqs().keys().map(|seq| format!("{seq:#010x}")).collect();
            if seqs.is_empty() { "none".to_owned() } else { seqs.join(", ") }
        });
    }

    fn volumes(&mut self) {
        let (ours, theirs) = (self.a.volumes(), self.b.volumes());
        let ids: BTreeSet<VolId> = ours.iter().chain(&theirs).map(|volume| volume.id).collect();
        for id in ids {
            let find = |volumes: &[Volume]| volumes.iter().find(|volume| volume.id == id).cloned();
            match (find(&ours), find(&theirs)) {
                (Some(a), Some(b)) => self.volume(&a, &b),
                (a, b) => {
                    let said = |volume: Option<Volume>| volume.map_or("missing".to_owned(), |it| described(&it));
                    let (a, b) = (said(a), said(b));
                    let (aspect, volume) = (Aspect::Volume, Some(id));
                    self.list.push(Difference { aspect, volume, a, b, numbers: Vec::new() });
                }
            }
        }
    }

    fn volume(&mut self, a: &Volume, b: &Volume) {
        let mut differ = |aspect: Aspect, of: &dyn Fn(&Volume) -> String| {
            let (ours, theirs) = (of(a), of(b));
            if ours != theirs {
                let volume = Some(a.id);
                self.list.push(Difference { aspect, volume, a: ours, b: theirs, numbers: Vec::new() });
            }
        };
        let (record_a, record_b) = (a.record.is_some(), b.record.is_some());
        if record_a != record_b {
            differ(Aspect::Volume, &described);
            return self.contents(a, b);
        }
        differ(Aspect::Name, &|it| it.record.as_ref().map_or(String::new(), |it| quoted(&it.name)));
        differ(Aspect::Type, &|it| it.vol_type.name().to_owned());
        differ(Aspect::Size, &size);
        differ(Aspect::Flags, &|it| it.record.as_ref().map_or(String::new(), |it| flags(it.flags)));
        differ(Aspect::UpdateMarker, &|it| {
            let is_marked = it.record.as_ref().is_some_and(|it| it.upd_marker);
            if is_marked { "interrupted".to_owned() } else { "whole".to_owned() }
        });
        self.contents(a, b);
    }

    fn contents(&mut self, a: &Volume, b: &Volume) {
        if a.usable_leb_bytes != b.usable_leb_bytes {
            let said = |it: &Volume| format!("LEBs of {} bytes: contents not compared", it.usable_leb_bytes);
            let (aspect, volume) = (Aspect::Contents, Some(a.id));
            return self.list.push(Difference { aspect, volume, a: said(a), b: said(b), numbers: Vec::new() });
        }
        let lnums: BTreeSet<Lnum> = self.a.lebs_of(a.id).chain(self.b.lebs_of(b.id)).map(|(lnum, _)| lnum).collect();
        let mut numbers = Vec::new();
        let mut first = None;
        for lnum in lnums {
            let (ours, theirs) = (leb(self.a, a, lnum), leb(self.b, b, lnum));
            let Some(at) = first_difference(&ours, &theirs) else { continue };
            let said = |bytes: &[u8]| match bytes.get(at) {
                Some(byte) => format!("LEB {lnum} has {byte:#04x} at byte {at}"),
                None if bytes.is_empty() => format!("LEB {lnum} is not mapped"),
                None => format!("LEB {lnum} ends at byte {}", bytes.len()),
            };
            first.get_or_insert_with(|| (said(&ours), said(&theirs)));
            numbers.push(lnum.0);
        }
        self.add(Aspect::Contents, Some(a.id), first.unwrap_or_default(), numbers);
    }

    fn placement(&mut self) {
        let mut volumes: BTreeSet<VolId> = self.a.lebs().keys().map(|&(volume, _)| volume).collect();
        volumes.extend(self.b.lebs().keys().map(|&(volume, _)| volume));
        for volume in volumes.into_iter().filter(|volume| volume.0 < INTERNAL_VOLUME_START) {
            let mut numbers = Vec::new();
            let mut first = None;
            let lnums: BTreeSet<Lnum> =
                self.a.lebs_of(volume).chain(self.b.lebs_of(volume)).map(|(lnum, _)| lnum).collect();
            for lnum in lnums {
                let place = |scan: &Scan<'_>| scan.lebs().get(&(volume, lnum)).map(|leb| leb.peb);
                let (ours, theirs) = (place(self.a), place(self.b));
                if ours != theirs {
                    let said = |peb: Option<Peb>| match peb {
                        Some(peb) => format!("LEB {lnum} is in PEB {peb}"),
                        None => format!("LEB {lnum} is not mapped"),
                    };
                    first.get_or_insert_with(|| (said(ours), said(theirs)));
                    numbers.push(lnum.0);
                }
            }
            self.add(Aspect::Placement, Some(volume), first.unwrap_or_default(), numbers);
        }
    }

    fn erase_counters(&mut self) {
        let ec = |scan: &Scan<'_>, peb: u32| scan.pebs().get(peb as usize).and_then(|it| it.ec().map(|ec| ec.ec));
        let pebs = self.a.pebs().len().max(self.b.pebs().len()) as u32;
        let numbers: Vec<u32> = (0..pebs).filter(|&peb| ec(self.a, peb) != ec(self.b, peb)).collect();
        let said = |scan: &Scan<'_>| {
            let total = scan.wear().all.total;
            format!("sum {}, min {}, max {} over {} PEBs", total.sum, total.min, total.max, total.count)
        };
        self.add(Aspect::EraseCounters, None, (said(self.a), said(self.b)), numbers);
    }

    fn bad_blocks(&mut self) {
        let is_bad = |scan: &Scan<'_>, peb: u32| matches!(scan.pebs().get(peb as usize), Some(PebState::Bad(_)));
        let pebs = self.a.pebs().len().max(self.b.pebs().len()) as u32;
        let numbers: Vec<u32> = (0..pebs).filter(|&peb| is_bad(self.a, peb) != is_bad(self.b, peb)).collect();
        let said = |scan: &Scan<'_>| format!("{} bad", scan.counts().bad);
        self.add(Aspect::BadBlocks, None, (said(self.a), said(self.b)), numbers);
    }

    fn fastmap(&mut self) {
        let (a, b) = (self.a.fastmap(), self.b.fastmap());
        let said = |fastmap: Option<&Fastmap>| match fastmap {
            None => "none".to_owned(),
            Some(it) => {
                let is_valid = if it.is_valid() { "valid" } else { "not valid" };
                format!("{is_valid}, anchor PEB {}, sqnum {}", it.anchor, it.sqnum)
            }
        };
        if said(a) != said(b) || a.map(|it| &it.lists) != b.map(|it| &it.lists) {
            let (a, b) = (said(a), said(b));
            self.list.push(Difference { aspect: Aspect::Fastmap, volume: None, a, b, numbers: Vec::new() });
        }
    }
}

/// The bytes of a LEB that count: of a static volume its data, else all; none if it is not mapped.
fn leb<'a>(scan: &Scan<'a>, volume: &Volume, lnum: Lnum) -> Cow<'a, [u8]> {
    let Some(leb) = scan.lebs().get(&(volume.id, lnum)) else { return Cow::Borrowed(&[]) };
    let bytes = match volume.vol_type {
        VolType::Static => leb.vid.data_size.min(volume.usable_leb_bytes),
        VolType::Dynamic => volume.usable_leb_bytes,
    };
    scan.dump().read(leb.peb, scan.dump().geometry().data_offset, bytes)
}

/// The first byte that differs; what one lacks is 0xFF if it is not mapped.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let common = a.len().min(b.len());
    if a[..common] != b[..common] {
        return a.iter().zip(b).position(|(a, b)| a != b);
    }
    let rest = if a.len() > b.len() { &a[common..] } else { &b[common..] };
    match common {
        0 => rest.iter().position(|&byte| byte != 0xff),
        _ => (!rest.is_empty()).then_some(common),
    }
}

fn described(volume: &Volume) -> String {
    let name = volume.record.as_ref().map_or("not in the table".to_owned(), |record| quoted(&record.name));
    format!("{name}, {}, {}", volume.vol_type.name(), size(volume))
}

fn size(volume: &Volume) -> String {
    match &volume.record {
        Some(it) => {
            format!("{} LEBs of {} bytes, alignment {}", it.reserved_pebs, volume.usable_leb_bytes, it.alignment)
        }
        None => format!("LEBs of {} bytes", volume.usable_leb_bytes),
    }
}

fn quoted(name: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(name))
}

fn flags(flags: u8) -> String {
    let known = [(VtblRecord::AUTORESIZE, "autoresize"), (VtblRecord::SKIP_CHECK, "skip-check")];
    let mut names: Vec<String> =
        known.into_iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| name.to_owned()).collect();
    let others = flags & !(VtblRecord::AUTORESIZE | VtblRecord::SKIP_CHECK);
    if others != 0 {
        names.push(format!("{others:#04x}"));
    }
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
