//! Sets erase counters in a dump: in EC headers, and in the fastmap that lists them.
//!
//! Linux takes the counters of a flash from its fastmap without looking at the headers, so both have to agree.

use std::collections::BTreeMap;

use sim::Peb;

use super::Scan;
use super::dump::{Dump, Geometry};
use super::survey::ec_of_any_version;
use super::whole::set_ec;
use crate::media::{EcHdr, FmHdr, FmPool, FmSb, MAX_ERASE_COUNT, crc};

/// Why counters cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// A PEB beyond the dump.
    #[error("PEB {peb} is not in the dump, which has {pebs}")]
    NoSuchPeb {
        /// The PEB.
        peb: Peb,
        /// PEBs of the dump.
        pebs: u32,
    },
    /// A PEB without an EC header, as a bad one.
    #[error("PEB {peb} has no EC header")]
    NoHeader {
        /// The PEB.
        peb: Peb,
    },
    /// A counter that UBI does not have.
    #[error("counter {ec} of PEB {peb} is above {MAX_ERASE_COUNT}")]
    TooHigh {
        /// The PEB.
        peb: Peb,
        /// The counter.
        ec: u64,
    },
}

/// PEBs whose counters agree with a dump and can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterEdit {
    geometry: Geometry,
    counters: BTreeMap<Peb, u64>,
    /// Blocks of the valid fastmap, anchor first; empty without one.
    fastmap: Vec<Peb>,
}

impl CounterEdit {
    /// Checks the counters against a dump.
    /// Errors: a PEB that is not in it or has no EC header; a counter that UBI does not have.
    pub fn new(dump: &Dump<'_>, counters: BTreeMap<Peb, u64>) -> Result<CounterEdit, CounterError> {
        let pebs = dump.geometry().pebs;
        for (&peb, &ec) in &counters {
            if peb.0 >= pebs {
                return Err(CounterError::NoSuchPeb { peb, pebs });
            }
            if ec > MAX_ERASE_COUNT {
                return Err(CounterError::TooHigh { peb, ec });
            }
            if dump.read(peb, 0, EcHdr::BYTES as u32).first_chunk().and_then(ec_of_any_version).is_none() {
                return Err(CounterError::NoHeader { peb });
            }
        }
        let scan = Scan::new(dump);
        let fastmap = scan.fastmap().filter(|fastmap| fastmap.is_valid());
        let fastmap = fastmap.map_or(Vec::new(), |fastmap| fastmap.blocks.iter().map(|&(peb, _)| peb).collect());
        Ok(CounterEdit { geometry: dump.geometry().clone(), counters, fastmap })
    }

    /// Sets the counters in `bytes`, the dump that was checked.
    pub fn apply(&self, bytes: &mut [u8]) {
        for (&peb, &ec) in &self.counters {
            let mut header = self.read(bytes, peb, 0, EcHdr::BYTES as u32);
            if set_ec(&mut header, ec, None).is_some() {
                self.write(bytes, peb, 0, &header);
            }
        }
        let (at, length) = (self.geometry.data_offset, self.geometry.leb_bytes());
        let mut stream: Vec<u8> = Vec::new();
        self.fastmap.iter().for_each(|&peb| stream.extend(self.read(bytes, peb, at, length)));
        if self.put_in_fastmap(&mut stream).is_some() {
            for (&peb, block) in self.fastmap.iter().zip(stream.chunks(length as usize)) {
                self.write(bytes, peb, at, block);
            }
        }
    }

    /// Sets the counters in the bytes of a fastmap; `None` if they are none.
    fn put_in_fastmap(&self, stream: &mut [u8]) -> Option<()> {
        let counter = |peb: u32| self.counters.get(&Peb(peb)).map(|&ec| ec as u32); // at most MAX_ERASE_COUNT
        let mut sb = FmSb::decode(stream).ok()?;
        let hdr = FmHdr::decode(stream.get(FmSb::BYTES..)?).ok()?;
        for (peb, ec) in &mut sb.blocks {
            *ec = counter(*peb).unwrap_or(*ec);
        }
        let listed = [hdr.free, hdr.used, hdr.scrub, hdr.erase].iter().map(|&count| count as usize).sum::<usize>();
        let pairs = stream.get_mut(FmSb::BYTES + FmHdr::BYTES + 2 * FmPool::BYTES..)?;
        for pair in pairs.chunks_exact_mut(8).take(listed) {
            let (peb, ec) = pair.split_at_mut(4);
            let peb = u32::from_be_bytes(peb.try_into().ok()?);
            if let Some(set) = counter(peb) {
                ec.copy_from_slice(&set.to_be_bytes());
            }
        }
        FmSb { data_crc: 0, ..sb.clone() }.encode(stream);
        let data_crc = crc(stream);
        FmSb { data_crc, ..sb }.encode(stream);
        Some(())
    }

    fn read(&self, bytes: &[u8], peb: Peb, offset: u32, length: u32) -> Vec<u8> {
        self.pieces(peb, offset, length).flat_map(|(at, length)| &bytes[at..at + length]).copied().collect()
    }

    fn write(&self, bytes: &mut [u8], peb: Peb, offset: u32, data: &[u8]) {
        let mut done = 0;
        for (at, length) in self.pieces(peb, offset, data.len() as u32) {
            bytes[at..at + length].copy_from_slice(&data[done..done + length]);
            done += length;
        }
    }

    /// Where a range of a PEB is in the dump: offsets and lengths.
    fn pieces(&self, peb: Peb, offset: u32, length: u32) -> impl Iterator<Item = (usize, usize)> + use<> {
        let start = self.geometry.start as usize + peb.at() * self.geometry.raw_peb_bytes() as usize;
        let (page, oob) =
            self.geometry.oob.map_or((usize::MAX, 0), |oob| (oob.page_bytes as usize, oob.oob_bytes as usize));
        let (mut at, end) = (offset as usize, (offset + length) as usize);
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let piece = (end - at).min(page - at % page);
                let place = start + at + at / page * oob;
                at += piece;
                (place, piece)
            })
        })
    }
}
