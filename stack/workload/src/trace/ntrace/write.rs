//! Writes a file.

use std::io::{self, Write};

use sim::Ns;

use super::{BlockHead, Footer, Head, INDEX_MAGIC, IndexEntry, MOST_RECORDS, pack};
use crate::trace::TraceRecord;

/// Compression level: zstd's default.
const LEVEL: i32 = 3;

/// Writes a file; [`finish`](NtraceWriter::finish) completes it.
#[derive(Debug)]
pub struct NtraceWriter<W> {
    out: W,
    block: Vec<TraceRecord>,
    raw: Vec<u8>,
    packed: Vec<u8>,
    index: Vec<IndexEntry>,
    offset: u64,
    records: u64,
    last_at: Ns,
}

impl<W: Write> NtraceWriter<W> {
    /// Writes the head.
    pub fn new(mut out: W) -> io::Result<NtraceWriter<W>> {
        out.write_all(&Head::encode())?;
        Ok(NtraceWriter {
            out,
            block: Vec::with_capacity(MOST_RECORDS as usize),
            raw: Vec::new(),
            packed: Vec::new(),
            index: Vec::new(),
            offset: Head::BYTES as u64,
            records: 0,
            last_at: Ns(0),
        })
    }

    /// Appends a record. Panics if its time is before the last one's, or its range is larger than a record may have.
    pub fn write(&mut self, record: &TraceRecord) -> io::Result<()> {
        assert!(record.at >= self.last_at, "times of a trace do not fall");
        assert!(record.len_bytes <= crate::trace::MAX_LEN_BYTES, "a request is below 2 TiB");
        assert!(record.offset_bytes.checked_add(record.len_bytes).is_some(), "a request ends within 64 bits");
        self.last_at = record.at;
        self.block.push(*record);
        if self.block.len() == MOST_RECORDS as usize { self.flush_block() } else { Ok(()) }
    }

    fn flush_block(&mut self) -> io::Result<()> {
        let (Some(first), Some(last)) = (self.block.first(), self.block.last()) else { return Ok(()) };
        pack::pack(&self.block, &mut self.raw);
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        zstd::bulk::Compressor::new(LEVEL)?.compress_to_buffer(&self.raw, &mut self.packed)?;
        let head = BlockHead {
            records: self.block.len() as u32,
            packed_bytes: self.packed.len() as u32,
            raw_bytes: self.raw.len() as u32,
            first_record: self.records,
            first_at: first.at,
            last_at: last.at,
            payload_sum: crc32fast::hash(&self.packed),
        };
        self.index.push(IndexEntry { first_at: first.at, first_record: self.records, offset: self.offset });
        self.out.write_all(&head.encode())?;
        self.out.write_all(&self.packed)?;
        self.offset += (BlockHead::BYTES + self.packed.len()) as u64;
        self.records += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }

    /// Writes the last block, the index and the footer, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_block()?;
        let mut index = Vec::with_capacity(8 + self.index.len() * IndexEntry::BYTES + 4);
        index.extend_from_slice(&INDEX_MAGIC);
        index.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        for entry in &self.index {
            index.extend_from_slice(&entry.encode());
        }
        let sum = crc32fast::hash(&index);
        index.extend_from_slice(&sum.to_le_bytes());
        self.out.write_all(&index)?;
        let footer = Footer { index_at: self.offset, records: self.records, last_at: self.last_at };
        self.out.write_all(&footer.encode())?;
        self.out.flush()?;
        Ok(self.out)
    }
}
