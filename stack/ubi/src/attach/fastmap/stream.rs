//! The fastmap's byte stream, decoded into arrays. Every number is checked before it is used.
//!
//! Knows of the flash only the set of bad PEBs. Memory is bounded whatever the stream says: 16 bytes per PEB of the
//! device, 8 per entry that the buffer really holds.

use sim::{EraseCount, Peb};

use super::FastmapUnusable;
use crate::layout::Layout;
use crate::media::{
    FmEba, FmHdr, FmPool, FmVolHdr, LAYOUT_LEBS, LAYOUT_VOLUME_ID, MAX_ERASE_COUNT, MediaError, UNMAPPED, VolType,
    u32_at, vtbl_slots,
};

/// How the fastmap lists a PEB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unlisted,
    Bad,
    Block(u32),
    Pool,
    Free,
    Used,
    Scrub,
    Erase,
}

/// A volume of the fastmap.
#[derive(Debug)]
pub(super) struct FmVolume {
    pub(super) hdr: FmVolHdr,
    pub(super) vol_type: VolType,
    pub(super) eba: Vec<Option<Peb>>,
}

/// Contents of a fastmap.
pub(super) struct Stream {
    pub(super) places: Vec<Place>,
    /// Erase counts of listed PEBs; 0 for blocks and pools, whose headers are read.
    pub(super) erase_counts: Vec<EraseCount>,
    pub(super) pools: [Vec<Peb>; 2],
    pub(super) layout_eba: [Option<Peb>; 2],
    /// Volumes by number, as many as the volume table has slots.
    pub(super) volumes: Vec<Option<FmVolume>>,
}

/// Reads the buffer from `at` on, and knows where on flash it is.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    blocks: &'a [Peb],
    layout: &'a Layout,
}

impl<'a> Cursor<'a> {
    fn invalid(&self, why: impl ToString) -> FastmapUnusable {
        let leb_bytes = self.layout.leb_bytes as usize;
        let block = (self.at / leb_bytes).min(self.blocks.len() - 1);
        let offset = self.layout.data_offset + (self.at - block * leb_bytes) as u32;
        FastmapUnusable::Invalid { peb: self.blocks[block], offset, why: why.to_string() }
    }

    /// Decodes a piece of `len` bytes and steps over it.
    fn piece<T>(&mut self, len: usize, decode: fn(&[u8]) -> Result<T, MediaError>) -> Result<T, FastmapUnusable> {
        let piece = decode(&self.bytes[self.at..]).map_err(|why| self.invalid(why))?;
        self.at += len; // `decode` refuses a piece that is cut short
        Ok(piece)
    }

    /// Reads the next `words` words, if the buffer holds so many.
    fn words(&mut self, words: u32, what: &str) -> Result<&'a [[u8; 4]], FastmapUnusable> {
        let (rest, _) = self.bytes[self.at..].as_chunks::<4>();
        let taken =
            rest.get(..words as usize).ok_or_else(|| self.invalid(format!("{what} do not fit in the buffer")))?;
        self.at += 4 * words as usize;
        Ok(taken)
    }
}

impl Stream {
    /// Decodes `bytes` from `at` on, where [`FmHdr`] is. `places` already holds bad PEBs and the fastmap's blocks.
    /// Errors: `Invalid`, at the piece that is inconsistent.
    pub(super) fn parse(
        bytes: &[u8],
        at: usize,
        blocks: &[Peb],
        places: Vec<Place>,
        layout: &Layout,
    ) -> Result<Stream, FastmapUnusable> {
        let mut cursor = Cursor { bytes, at, blocks, layout };
        let mut stream = Stream {
            erase_counts: vec![EraseCount(0); places.len()],
            places,
            pools: [Vec::new(), Vec::new()],
            layout_eba: [None; 2],
            volumes: (0..vtbl_slots(layout.leb_bytes)).map(|_| None).collect(),
        };
        let hdr = cursor.piece(FmHdr::BYTES, FmHdr::decode)?;
        let bad = stream.places.iter().filter(|place| **place == Place::Bad).count();
        if hdr.bad as usize != bad {
            return Err(cursor.invalid(format!("{} bad PEBs listed, {bad} PEBs are bad", hdr.bad)));
        }
        for pool in 0..2 {
            let list = cursor.piece(FmPool::BYTES, FmPool::decode)?;
            for peb in list.pebs {
                stream.list(&cursor, peb, Place::Pool)?;
                stream.pools[pool].push(Peb(peb));
            }
        }
        for (count, place) in
            [(hdr.free, Place::Free), (hdr.used, Place::Used), (hdr.scrub, Place::Scrub), (hdr.erase, Place::Erase)]
        {
            stream.parse_erase_counts(&mut cursor, count, place)?;
        }
        if let Some(peb) = stream.places.iter().position(|place| *place == Place::Unlisted) {
            return Err(cursor.invalid(format!("PEB {peb} is good and not listed")));
        }
        stream.parse_volumes(&mut cursor, hdr.volumes)?;
        Ok(stream)
    }

    /// Lists a PEB; every good PEB may be listed only once.
    fn list(&mut self, cursor: &Cursor<'_>, peb: u32, place: Place) -> Result<(), FastmapUnusable> {
        match self.places.get_mut(peb as usize) {
            Some(listed @ Place::Unlisted) => *listed = place,
            Some(listed) => return Err(cursor.invalid(format!("PEB {peb} is listed as {place:?}, and is {listed:?}"))),
            None => return Err(cursor.invalid(format!("PEB {peb} is listed as {place:?}, and does not exist"))),
        }
        Ok(())
    }

    fn parse_erase_counts(&mut self, cursor: &mut Cursor<'_>, count: u32, place: Place) -> Result<(), FastmapUnusable> {
        for _ in 0..count {
            let pair = cursor.words(2, "erase counts")?;
            let (peb, ec) = (u32_at(&pair[0], 0), u32_at(&pair[1], 0));
            self.list(cursor, peb, place)?;
            if u64::from(ec) > MAX_ERASE_COUNT {
                return Err(cursor.invalid(format!("PEB {peb}: ec = {ec}")));
            }
            self.erase_counts[peb as usize] = EraseCount(ec);
        }
        Ok(())
    }

    fn parse_volumes(&mut self, cursor: &mut Cursor<'_>, count: u32) -> Result<(), FastmapUnusable> {
        let mut mapped = vec![false; self.places.len()];
        let mut has_layout_volume = false;
        for _ in 0..count {
            let start = cursor.at;
            let hdr = cursor.piece(FmVolHdr::BYTES, FmVolHdr::decode)?;
            let vol_type = VolType::decode_in_fastmap(hdr.vol_type)
                .map_err(|why| Cursor { at: start + FmVolHdr::VOL_TYPE_AT, ..*cursor }.invalid(why))?;
            let lebs = cursor.piece(FmEba::HEADER_BYTES, FmEba::decode)?.reserved_pebs;
            if lebs > cursor.layout.pebs {
                return Err(cursor.invalid(format!("volume {} has {lebs} LEBs", hdr.vol_id)));
            }
            let eba = cursor
                .words(lebs, "LEBs")?
                .iter()
                .map(|word| self.mapped_peb(cursor, &mut mapped, u32_at(word, 0)))
                .collect::<Result<Vec<_>, _>>()?;
            let again = || Cursor { at: start, ..*cursor }.invalid(format!("volume {} is listed twice", hdr.vol_id));
            if hdr.vol_id == LAYOUT_VOLUME_ID {
                let [first, second] = eba[..] else {
                    return Err(cursor.invalid(format!("the layout volume has {lebs} LEBs, not {LAYOUT_LEBS}")));
                };
                if std::mem::replace(&mut has_layout_volume, true) {
                    return Err(again());
                }
                self.layout_eba = [first, second];
                continue;
            }
            match self.volumes.get_mut(hdr.vol_id as usize) {
                Some(slot @ None) => *slot = Some(FmVolume { hdr, vol_type, eba }),
                Some(Some(_)) => return Err(again()),
                None => return Err(cursor.invalid(format!("volume {} cannot exist", hdr.vol_id))),
            }
        }
        if !has_layout_volume {
            return Err(cursor.invalid("the layout volume is not listed"));
        }
        Ok(())
    }

    /// Checks a used PEB, which may hold only one LEB.
    fn mapped_peb(&self, cursor: &Cursor<'_>, mapped: &mut [bool], peb: u32) -> Result<Option<Peb>, FastmapUnusable> {
        if peb == UNMAPPED {
            return Ok(None);
        }
        match self.places.get(peb as usize) {
            Some(Place::Used | Place::Scrub) => {}
            Some(place) => return Err(cursor.invalid(format!("PEB {peb} holds a LEB, and is {place:?}"))),
            None => return Err(cursor.invalid(format!("PEB {peb} holds a LEB, and does not exist"))),
        }
        if std::mem::replace(&mut mapped[peb as usize], true) {
            return Err(cursor.invalid(format!("PEB {peb} holds two LEBs")));
        }
        Ok(Some(Peb(peb)))
    }
}
