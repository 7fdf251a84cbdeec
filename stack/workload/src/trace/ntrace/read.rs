//! Reads blocks from a stream, one after another.

use std::io::Read;

use super::{BLOCK_MAGIC, BlockHead, Footer, Head, INDEX_HEAD_BYTES, INDEX_MAGIC, IndexEntry, Wrong, pack, u32_at};
use crate::trace::error::{Place, TraceError, quoted};
use crate::trace::source::Source;
use crate::trace::{Cut, TraceRecord};

/// State of the reader between blocks.
#[derive(Debug)]
pub(in crate::trace) struct Blocks {
    records: Vec<TraceRecord>,
    /// Index in `records` of the next record to return.
    next: usize,
    /// Number of the first record of the next block.
    next_record: u64,
    head_is_read: bool,
    ended: bool,
    raw: Vec<u8>,
}

fn place(offset: u64, wrong: Wrong) -> TraceError {
    let place = Place::Byte(offset.saturating_add(wrong.at as u64));
    TraceError::Malformed { place, found: wrong.found, expected: wrong.expected }
}

/// The next record, or why there is none.
pub(in crate::trace) enum Next {
    Record(TraceRecord),
    End,
    Cut(Cut),
}

impl Blocks {
    /// Starts at the beginning of a file.
    pub fn of_file() -> Blocks {
        Blocks { records: Vec::new(), next: 0, next_record: 0, head_is_read: false, ended: false, raw: Vec::new() }
    }

    /// Starts at a block whose first record has this number.
    pub fn from_block(first_record: u64) -> Blocks {
        Blocks { next_record: first_record, head_is_read: true, ..Blocks::of_file() }
    }

    /// Reads the next record.
    pub fn next<R: Read>(&mut self, source: &mut Source<R>) -> Result<Next, TraceError> {
        loop {
            if let Some(&record) = self.records.get(self.next) {
                self.next += 1;
                return Ok(Next::Record(record));
            }
            if self.ended {
                return Ok(Next::End);
            }
            let begins = source.offset();
            if !self.head_is_read {
                let bytes = source.peek(Head::BYTES)?;
                let Some(head) = bytes.first_chunk() else { return Ok(self.cut(begins, bytes.len())) };
                Head::check(head).map_err(|wrong| place(begins, wrong))?;
                source.consume(Head::BYTES);
                self.head_is_read = true;
                continue;
            }
            let bytes = source.peek(4)?;
            match bytes.first_chunk::<4>() {
                None => return Ok(self.cut(begins, bytes.len())),
                Some(&BLOCK_MAGIC) => {
                    if let Some(cut) = self.block(source)? {
                        return Ok(cut);
                    }
                }
                Some(&INDEX_MAGIC) => {
                    if let Some(cut) = self.index(source)? {
                        return Ok(cut);
                    }
                    self.ended = true;
                }
                Some(other) => {
                    let wrong = Wrong { at: 0, found: quoted(other), expected: "a block or the index".to_owned() };
                    return Err(place(begins, wrong));
                }
            }
        }
    }

    fn cut(&mut self, offset: u64, left: usize) -> Next {
        self.ended = true;
        Next::Cut(Cut { byte: offset + left as u64, records: self.next_record })
    }

    fn block<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Next>, TraceError> {
        let begins = source.offset();
        let bytes = source.peek(BlockHead::BYTES)?;
        let Some(head) = bytes.first_chunk() else {
            let left = bytes.len();
            return Ok(Some(self.cut(begins, left)));
        };
        let head = BlockHead::decode(head).map_err(|wrong| place(begins, wrong))?;
        if head.first_record != self.next_record {
            let expected = format!("{}", self.next_record);
            let wrong = Wrong { at: 16, found: format!("record number {}", head.first_record), expected };
            return Err(place(begins, wrong));
        }
        let whole = BlockHead::BYTES + head.packed_bytes as usize;
        let bytes = source.peek(whole)?;
        let Some(packed) = bytes.get(BlockHead::BYTES..whole) else {
            let left = bytes.len();
            return Ok(Some(self.cut(begins, left)));
        };
        let sum = crc32fast::hash(packed);
        if sum != head.payload_sum {
            return Wrong::sum(40, head.payload_sum, sum).map_err(|wrong| place(begins, wrong));
        }
        self.raw.clear();
        self.raw.reserve_exact(head.raw_bytes as usize);
        let unpacked =
            zstd::bulk::Decompressor::new().and_then(|mut it| it.decompress_to_buffer(packed, &mut self.raw));
        if !unpacked.as_ref().is_ok_and(|&bytes| bytes == head.raw_bytes as usize) {
            let found = unpacked.map_or_else(|error| format!("{error}"), |bytes| format!("{bytes} bytes"));
            let expected = format!("a zstd frame of {} bytes", head.raw_bytes);
            return Err(place(begins, Wrong { at: BlockHead::BYTES, found, expected }));
        }
        pack::unpack(&head, &self.raw, &mut self.records).map_err(|mut wrong| {
            wrong.found = format!("{}, at byte {} unpacked,", wrong.found, wrong.at);
            wrong.at = BlockHead::BYTES;
            place(begins, wrong)
        })?;
        self.next = 0;
        self.next_record += u64::from(head.records);
        source.consume(whole);
        Ok(None)
    }

    /// Reads and checks the rest of the index and the footer, after the last record.
    fn index<R: Read>(&mut self, source: &mut Source<R>) -> Result<Option<Next>, TraceError> {
        let begins = source.offset();
        let bytes = source.peek(INDEX_HEAD_BYTES)?;
        if bytes.len() < INDEX_HEAD_BYTES {
            let left = bytes.len();
            return Ok(Some(self.cut(begins, left)));
        }
        let mut entries = u64::from(u32_at(bytes, 4));
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..INDEX_HEAD_BYTES]);
        source.consume(INDEX_HEAD_BYTES);
        while entries > 0 {
            let bytes = source.peek(IndexEntry::BYTES)?;
            let whole = ((bytes.len() / IndexEntry::BYTES) as u64).min(entries);
            if whole == 0 {
                let left = bytes.len();
                return Ok(Some(self.cut(source.offset(), left)));
            }
            let step = whole as usize * IndexEntry::BYTES;
            hasher.update(&bytes[..step]);
            source.consume(step);
            entries -= whole;
        }
        let sum_at = source.offset();
        let bytes = source.peek(4 + Footer::BYTES + 1)?;
        if bytes.len() < 4 + Footer::BYTES {
            let left = bytes.len();
            return Ok(Some(self.cut(sum_at, left)));
        }
        let (found, sum) = (u32_at(bytes, 0), hasher.finalize());
        if found != sum {
            return Wrong::sum(0, found, sum).map_err(|wrong| place(sum_at, wrong));
        }
        let footer = bytes[4..].first_chunk().expect("its length was looked at");
        let footer = Footer::decode(footer).map_err(|wrong| place(sum_at + 4, wrong))?;
        let wrong = |at, found: String, expected: String| Err(place(sum_at + 4, Wrong { at, found, expected }));
        if footer.index_at != begins {
            return wrong(0, format!("an index at byte {}", footer.index_at), format!("byte {begins}"));
        }
        if footer.records != self.next_record {
            return wrong(8, format!("{} records", footer.records), format!("{}", self.next_record));
        }
        if bytes.len() > 4 + Footer::BYTES {
            return wrong(Footer::BYTES, "bytes behind the footer".to_owned(), "the end of the file".to_owned());
        }
        source.consume(4 + Footer::BYTES);
        Ok(None)
    }
}
