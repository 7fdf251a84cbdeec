//! Seeking in a file: any time can be reached without reading what comes before.

use std::io::{Read, Seek, SeekFrom};

use sim::Ns;

use super::{BlockHead, Footer, Head, INDEX_HEAD_BYTES, INDEX_MAGIC, IndexEntry, Wrong, u32_at};
use crate::trace::error::{Place, TraceError, quoted};
use crate::trace::{TraceReader, TraceRecord};

/// An .ntrace file with its index in memory: 24 bytes per block.
#[derive(Debug)]
pub struct NtraceFile<R> {
    input: R,
    index: Vec<IndexEntry>,
    footer: Footer,
}

fn read_at<R: Read + Seek>(input: &mut R, byte: u64, bytes: &mut [u8]) -> Result<(), TraceError> {
    let read = input.seek(SeekFrom::Start(byte)).and_then(|_| input.read_exact(bytes));
    read.map_err(|error| TraceError::Read { byte, error })
}

fn wrong(offset: u64, wrong: Wrong) -> TraceError {
    let place = Place::Byte(offset + wrong.at as u64);
    TraceError::Malformed { place, found: wrong.found, expected: wrong.expected }
}

impl<R: Read + Seek> NtraceFile<R> {
    /// Reads head, footer and index.
    /// Errors: one of them is damaged or missing; a truncated file can still be read from its beginning.
    pub fn open(mut input: R) -> Result<NtraceFile<R>, TraceError> {
        let mut head = [0; Head::BYTES];
        read_at(&mut input, 0, &mut head)?;
        Head::check(&head).map_err(|it| wrong(0, it))?;
        let end = input.seek(SeekFrom::End(0)).map_err(|error| TraceError::Read { byte: 0, error })?;
        let footer_at = end.saturating_sub(Footer::BYTES as u64);
        let mut bytes = [0; Footer::BYTES];
        read_at(&mut input, footer_at, &mut bytes)?;
        let footer = Footer::decode(&bytes).map_err(|it| wrong(footer_at, it))?;
        let index_bytes = footer_at.checked_sub(footer.index_at).filter(|&bytes| bytes >= INDEX_HEAD_BYTES as u64 + 4);
        // Every block has a head and at least one byte, so a footer cannot demand more memory than an index can need.
        let most = footer.index_at / (BlockHead::BYTES as u64 + 1);
        let room = |bytes: &u64| (bytes - INDEX_HEAD_BYTES as u64 - 4) / IndexEntry::BYTES as u64 <= most;
        let Some(index_bytes) = index_bytes.filter(room) else {
            let found = format!("an index at byte {}", footer.index_at);
            let expected = format!("one before byte {footer_at}, with an entry for each block before it");
            return Wrong::new(0, found, expected).map_err(|it| wrong(footer_at, it));
        };
        let mut bytes = vec![0; index_bytes as usize];
        read_at(&mut input, footer.index_at, &mut bytes)?;
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        let (found, sum) = (u32_at(sum, 0), (crc32fast::hash(body)));
        if body[..4] != INDEX_MAGIC {
            let it = Wrong { at: 0, found: quoted(&body[..4]), expected: "the index \"NTIX\"".to_owned() };
            return Err(wrong(footer.index_at, it));
        }
        if found != sum {
            return Wrong::sum(body.len(), found, sum).map_err(|it| wrong(footer.index_at, it));
        }
        let entries = &body[INDEX_HEAD_BYTES..];
        let count = u32_at(body, 4);
        if entries.len() != count as usize * IndexEntry::BYTES {
            let it =
                Wrong { at: 4, found: format!("{count} blocks"), expected: format!("{} bytes of them", entries.len()) };
            return Err(wrong(footer.index_at, it));
        }
        let index = entries.chunks_exact(IndexEntry::BYTES).map(IndexEntry::decode).collect();
        Ok(NtraceFile { input, index, footer })
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.footer.records
    }

    /// Time of the last record.
    pub fn last_at(&self) -> Ns {
        self.footer.last_at
    }

    /// Calls `each` with every record at or after `from`, in order, until it returns `false`. Reads only blocks that
    /// may hold one.
    pub fn records_from(&mut self, from: Ns, mut each: impl FnMut(TraceRecord) -> bool) -> Result<(), TraceError> {
        // The block before the first that begins at `from` or later may contain `from`.
        let after = self.index.partition_point(|entry| entry.first_at < from);
        let Some(entry) = self.index.get(after.saturating_sub(1)) else { return Ok(()) };
        let seek = self.input.seek(SeekFrom::Start(entry.offset));
        seek.map_err(|error| TraceError::Read { byte: entry.offset, error })?;
        let mut reader = TraceReader::from_block(&mut self.input, entry.offset, entry.first_record);
        while let Some(record) = reader.next_record()? {
            if record.at >= from && !each(record) {
                break;
            }
        }
        Ok(())
    }
}
