//! Flashes with one field changed, made from a flash that Linux wrote.
//!
//! The fields and their places are stated here once more, from the kernel's `ubi-media.h`, so that a mistake in
//! `ubi::media` does not hide itself.

use std::collections::BTreeSet;

/// A flash and what is where on it.
pub struct Base<'a> {
    pub bytes: &'a [u8],
    pub peb_bytes: usize,
    pub vid_at: usize,
    pub data_at: usize,
}

/// A change of some bytes of one PEB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    pub peb: usize,
    pub offset: usize,
    pub bytes: Vec<u8>,
}

/// A name, and the changes that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub name: String,
    pub patches: Vec<Patch>,
}

impl Mutation {
    /// The flash as it is.
    pub fn none() -> Mutation {
        Mutation { name: "none".to_owned(), patches: Vec::new() }
    }

    /// The changed flash.
    #[allow(dead_code, reason = "the test applies it, the example prints it")]
    pub fn applied(&self, base: &Base<'_>) -> Vec<u8> {
        let mut bytes = base.bytes.to_vec();
        for Patch { peb, offset, bytes: new } in &self.patches {
            bytes[peb * base.peb_bytes + offset..][..new.len()].copy_from_slice(new);
        }
        bytes
    }

    /// One line for `guest/jobs/ubi.py`.
    #[allow(dead_code, reason = "the example prints it, the test does not")]
    pub fn line(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let patch = |patch: &Patch| format!("{}:{}:{}", patch.peb, patch.offset, hex(&patch.bytes));
        format!("{} {}", self.name, self.patches.iter().map(patch).collect::<Vec<_>>().join(","))
    }
}

/// Name, offset and bytes of a field, and values worth trying beside those that every field gets.
type Field = (&'static str, usize, usize, &'static [u64]);

const EC_HDR: [Field; 9] = [
    ("magic", 0, 4, &[]),
    ("version", 4, 1, &[2]),
    ("padding1", 5, 3, &[]),
    ("ec", 8, 8, &[0x7fff_ffff, 0x8000_0000, 1 << 32]),
    ("vid_hdr_offset", 16, 4, &[64, 4096]),
    ("data_offset", 20, 4, &[128, 8192]),
    ("image_seq", 24, 4, &[]),
    ("padding2", 28, 4, &[]),
    ("hdr_crc", 60, 4, &[]),
];

const VID_HDR: [Field; 16] = [
    ("magic", 0, 4, &[]),
    ("version", 4, 1, &[2]),
    ("vol_type", 5, 1, &[1, 2, 3]),
    ("copy_flag", 6, 1, &[1, 2]),
    ("compat", 7, 1, &[1, 2, 4, 5]),
    ("vol_id", 8, 4, &[1, 2, 3, 5, 127, 128, 0x7fff_effe, 0x7fff_efff, 0x7fff_f000, 0x7fff_f001, 0x7fff_f002]),
    ("lnum", 12, 4, &[1, 2, 3, 7, 8, 100]),
    ("padding1", 16, 4, &[]),
    ("data_size", 20, 4, &[512, 4096, 14336, 14337, 16256]),
    ("used_ebs", 24, 4, &[2, 3, 4, 6, 7]),
    ("data_pad", 28, 4, &[512, 2048, 7167, 7168]),
    ("data_crc", 32, 4, &[]),
    ("padding2", 36, 4, &[]),
    ("sqnum", 40, 8, &[2, 100, 1000]),
    ("padding3", 48, 4, &[]),
    ("hdr_crc", 60, 4, &[]),
];

const RECORD: [Field; 10] = [
    ("reserved_pebs", 0, 4, &[2, 5, 9, 40, 71, 73]),
    ("alignment", 4, 4, &[3, 512, 2048, 3072, 4096, 8192, 14336, 14337]),
    ("data_pad", 8, 4, &[2048]),
    ("vol_type", 12, 1, &[2, 3]),
    ("upd_marker", 13, 1, &[1, 2]),
    ("name_len", 14, 2, &[4, 6, 127, 128]),
    ("name", 16, 1, &[]),
    ("flags", 144, 1, &[2, 3, 4]),
    ("padding", 145, 1, &[]),
    ("crc", 168, 4, &[]),
];

const SUPER_BLOCK: [Field; 10] = [
    ("magic", 0, 4, &[]),
    ("version", 4, 1, &[2]),
    ("padding1", 5, 3, &[]),
    ("data_crc", 8, 4, &[]),
    ("used_blocks", 12, 4, &[2, 32, 33]),
    ("block_loc0", 16, 4, &[3, 63, 64, 71, 72]),
    ("block_loc1", 20, 4, &[]),
    ("block_ec0", 144, 4, &[]),
    ("sqnum", 272, 8, &[]),
    ("padding2", 280, 4, &[]),
];

const FM_HDR: [Field; 8] = [
    ("magic", 0, 4, &[]),
    ("free", 4, 4, &[]),
    ("used", 8, 4, &[]),
    ("scrub", 12, 4, &[]),
    ("bad", 16, 4, &[]),
    ("erase", 20, 4, &[]),
    ("vol_count", 24, 4, &[2, 3, 5, 6]),
    ("padding", 28, 4, &[]),
];

const POOL: [Field; 6] = [
    ("magic", 0, 4, &[]),
    ("size", 4, 2, &[2, 256, 257]),
    ("max_size", 6, 2, &[8, 256, 257]),
    ("peb0", 8, 4, &[70, 71]),
    ("peb1", 12, 4, &[70, 71]),
    ("padding", 1032, 4, &[]),
];

const LISTED: [Field; 2] = [("peb", 0, 4, &[70, 71]), ("ec", 4, 4, &[0x7fff_ffff])];

const VOLUME: [Field; 8] = [
    ("magic", 0, 4, &[]),
    ("vol_id", 4, 4, &[2, 3, 88, 89, 127, 128, 0x7fff_efff]),
    ("vol_type", 8, 1, &[1, 2, 3, 4]),
    ("padding1", 9, 3, &[]),
    ("data_pad", 12, 4, &[2048]),
    ("used_ebs", 16, 4, &[2, 4, 8]),
    ("last_eb_bytes", 20, 4, &[100, 14336, 14337]),
    ("padding2", 24, 4, &[]),
];

const EBA: [Field; 4] = [
    ("magic", 0, 4, &[]),
    ("reserved_pebs", 4, 4, &[2, 3, 5, 7, 9]),
    ("peb0", 8, 4, &[70, 71]),
    ("peb1", 12, 4, &[70, 71]),
];

/// CRC-32 as UBI uses it: not inverted at the end.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    crc
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// What a field of `width` bytes is changed to.
fn values(now: u64, width: usize, more: &[u64]) -> BTreeSet<u64> {
    let most = u64::MAX >> (64 - 8 * width);
    let every = [0, 1, now ^ 1, now.wrapping_add(1), now.wrapping_sub(1), most, most - most / 2];
    every.into_iter().chain(more.iter().copied()).map(|value| value & most).filter(|&value| value != now).collect()
}

/// A structure on flash with a checksum.
struct Place<'a> {
    /// Name in the mutations' names.
    name: String,
    peb: usize,
    /// Offset of the structure in the PEB.
    at: usize,
    fields: &'a [Field],
    /// What the checksum covers, its offset in the PEB, and its own bytes counting as zero.
    covered: std::ops::Range<usize>,
    crc_at: usize,
}

impl Base<'_> {
    fn pebs(&self) -> usize {
        self.bytes.len() / self.peb_bytes
    }

    fn peb(&self, peb: usize) -> &[u8] {
        &self.bytes[peb * self.peb_bytes..][..self.peb_bytes]
    }

    /// Volume, LEB and sequence number of a PEB.
    fn leb(&self, peb: usize) -> Option<(u32, u32, u32)> {
        let hdr = &self.peb(peb)[self.vid_at..][..64];
        hdr.starts_with(b"UBI!").then(|| (word(hdr, 8), word(hdr, 12), word(hdr, 44)))
    }

    /// The newest PEB of a LEB.
    fn find(&self, volume: u32, lnum: u32) -> Option<usize> {
        let holders = (0..self.pebs()).filter_map(|peb| Some((peb, self.leb(peb)?)));
        let ours = holders.filter(|(_, (v, l, _))| (*v, *l) == (volume, lnum));
        ours.max_by_key(|(_, (_, _, sqnum))| *sqnum).map(|(peb, _)| peb)
    }

    fn free(&self, from: usize) -> Option<usize> {
        (from..self.pebs()).find(|&peb| self.peb(peb).starts_with(b"UBI#") && self.leb(peb).is_none())
    }

    /// Every mutation of `place`: each field with each value, the checksum mended; and once with it left.
    fn mutate(&self, place: &Place<'_>, list: &mut Vec<Mutation>) {
        let peb = self.peb(place.peb);
        for &(field, offset, width, more) in place.fields {
            let at = place.at + offset;
            let mut now = [0; 8];
            now[8 - width..].copy_from_slice(&peb[at..at + width]);
            let now = u64::from_be_bytes(now);
            let is_crc = place.crc_at == at;
            let left = now ^ 1;
            let mended = if is_crc { BTreeSet::new() } else { values(now, width, more) };
            for (value, mends) in mended.into_iter().map(|value| (value, true)).chain([(left, false)]) {
                let new = value.to_be_bytes()[8 - width..].to_vec();
                let mut patches = vec![Patch { peb: place.peb, offset: at, bytes: new.clone() }];
                if mends {
                    let mut whole = peb.to_vec();
                    whole[at..at + width].copy_from_slice(&new);
                    if place.covered.contains(&place.crc_at) {
                        whole[place.crc_at..place.crc_at + 4].fill(0);
                    }
                    let sum = crc(&whole[place.covered.clone()]).to_be_bytes();
                    patches.push(Patch { peb: place.peb, offset: place.crc_at, bytes: sum.to_vec() });
                }
                let crc = if mends { "" } else { "/crc-left" };
                list.push(Mutation { name: format!("{}/{field}={value:x}{crc}", place.name), patches });
            }
        }
    }

    fn header(&self, kind: &str, what: &str, peb: usize) -> Place<'static> {
        let (at, fields): (_, &[Field]) = if kind == "ec" { (0, &EC_HDR) } else { (self.vid_at, &VID_HDR) };
        Place { name: format!("{kind}/{what}"), peb, at, fields, covered: at..at + 60, crc_at: at + 60 }
    }

    /// Structures of the fastmap whose anchor is `anchor`; it has one block.
    fn fastmap(&self, anchor: usize) -> Vec<Place<'static>> {
        let peb = self.peb(anchor);
        let mut at = self.data_at;
        let mut places = Vec::new();
        let mut piece = |name: String, at: usize, fields: &'static [Field]| {
            let (covered, crc_at) = (self.data_at..self.peb_bytes, self.data_at + 8);
            places.push(Place { name: format!("fm/{name}"), peb: anchor, at, fields, covered, crc_at });
        };
        piece("sb".to_owned(), at, &SUPER_BLOCK);
        at += 312;
        piece("hdr".to_owned(), at, &FM_HDR);
        let counts = [4, 8, 12, 20].map(|count| word(peb, at + count) as usize);
        let volumes = word(peb, at + 24);
        at += 32;
        for pool in ["user-pool", "wl-pool"] {
            piece(pool.to_owned(), at, &POOL);
            at += 1048;
        }
        for (list, count) in ["free", "used", "scrub", "erase"].into_iter().zip(counts) {
            if count > 0 {
                piece(list.to_owned(), at, &LISTED);
            }
            at += 8 * count;
        }
        for _ in 0..volumes {
            let name = match word(peb, at + 4) {
                0x7fff_efff => "layout".to_owned(),
                volume => format!("volume{volume}"),
            };
            piece(name.clone(), at, &VOLUME);
            piece(format!("{name}-eba"), at + 32, &EBA);
            at += 40 + 4 * word(peb, at + 36) as usize;
        }
        places
    }

    /// Every mutation, in a fixed order; the first changes nothing.
    pub fn mutations(&self) -> Vec<Mutation> {
        let mut list = vec![Mutation::none()];
        let anchor = (0..64).filter(|&peb| self.leb(peb).is_some_and(|(volume, ..)| volume == 0x7fff_f000));
        let anchor = anchor.max_by_key(|&peb| self.leb(peb).map(|(.., sqnum)| sqnum)).expect("an anchor");
        let layout = [0, 1].map(|lnum| self.find(0x7fff_efff, lnum).expect("a volume table"));
        let lebs = [
            ("anchor", Some(anchor)),
            ("layout0", Some(layout[0])),
            ("layout1", Some(layout[1])),
            ("plain0", self.find(0, 0)),
            ("plain1", self.find(0, 1)),
            ("plain5", self.find(0, 5)),
            ("fixed0", self.find(1, 0)),
            ("fixed2", self.find(1, 2)),
            ("unchecked1", self.find(3, 1)),
            ("aligned0", self.find(4, 0)),
        ];
        let frees = [("free", self.free(0)), ("free-late", self.free(64))];
        for (what, peb) in lebs.into_iter().chain(frees).filter_map(|(what, peb)| Some((what, peb?))) {
            self.mutate(&self.header("ec", what, peb), &mut list);
        }
        for (what, peb) in lebs.into_iter().filter_map(|(what, peb)| Some((what, peb?))) {
            self.mutate(&self.header("vid", what, peb), &mut list);
        }
        self.tables(layout, &mut list);
        for place in self.fastmap(anchor) {
            self.mutate(&place, &mut list);
        }
        list
    }

    /// Changes of records in the first copy of the volume table, in the second, and in both.
    fn tables(&self, layout: [usize; 2], list: &mut Vec<Mutation>) {
        for (volume, record) in [("plain", 0), ("fixed", 1), ("unused", 2), ("aligned", 4)] {
            let copies = layout.map(|peb| {
                let at = self.data_at + 172 * record;
                let place = |name: &str| {
                    let name = format!("{name}/{volume}");
                    Place { name, peb, at, fields: &RECORD[..], covered: at..at + 168, crc_at: at + 168 }
                };
                let mut of_copy = Vec::new();
                self.mutate(&place("vtbl"), &mut of_copy);
                of_copy
            });
            for (first, second) in copies[0].iter().zip(&copies[1]) {
                let patches = [&first.patches[..], &second.patches[..]].concat();
                list.push(Mutation { name: first.name.clone(), patches });
            }
            if volume == "plain" {
                for (copy, name) in copies.into_iter().zip(["vtbl0", "vtbl1"]) {
                    list.extend(copy.into_iter().map(|mutation| {
                        let name = mutation.name.replacen("vtbl", name, 1);
                        Mutation { name, ..mutation }
                    }));
                }
            }
        }
    }
}
