//! virtio-blk, as a device speaks it: its configuration, and descriptor chains in, requests out.
//!
//! The protocol is that of section 5.2 of the Virtual I/O Device specification 1.2 (OASIS). Integers are little-endian, and
//! sectors have 512 bytes. Nothing here knows a queue or a guest's memory: whoever does hands over the segments of a chain
//! and the bytes that were read through it.

use sim::seam::SECTOR_BYTES;

/// Feature bits.
pub mod feature {
    /// A segment has at most `size_max` bytes.
    pub const SIZE_MAX: u32 = 1;
    /// A request has at most `seg_max` segments of data.
    pub const SEG_MAX: u32 = 2;
    /// The device is read-only.
    pub const RO: u32 = 5;
    /// The block size is told.
    pub const BLK_SIZE: u32 = 6;
    /// There is a command to flush the cache.
    pub const FLUSH: u32 = 9;
    /// The physical block size is told.
    pub const TOPOLOGY: u32 = 10;
    /// The driver may turn the write-back cache off and on.
    pub const CONFIG_WCE: u32 = 11;
    /// There are several queues.
    pub const MQ: u32 = 12;
    /// There is a command to discard.
    pub const DISCARD: u32 = 13;
    /// There is a command to write zeroes.
    pub const WRITE_ZEROES: u32 = 14;
}

mod command {
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

/// Bytes of a request before its data: type, reserved, sector.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the configuration, up to and with the limits of WRITE_ZEROES.
pub const CONFIG_BYTES: usize = 60;
/// Place of the byte that turns the write-back cache off and on, in the configuration.
pub const WRITEBACK: usize = 32;
/// Bytes of the answer to GET_ID.
pub const ID_BYTES: usize = 20;
/// Bytes of a range of DISCARD and WRITE_ZEROES: sector, sectors, flags.
pub const RANGE_BYTES: usize = 16;
/// Most segments of data of a request. With those of header and status they fit a queue of 128, the least that is usual.
pub const MOST_SEGMENTS: u32 = 126;
/// Most ranges of a request to discard or to write zeroes.
pub const MOST_RANGES: u32 = 32;
/// Segments of a chain that are looked at: a driver may cut header and data smaller than it has to.
const MOST_SPANS: usize = 1024;

/// What a driver is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its serial number.
    pub id: String,
    /// Bytes, a multiple of 512.
    pub bytes: u64,
    /// Bytes of a physical block: 512 times a power of two.
    pub physical_bytes: u32,
    /// Queues.
    pub queues: u16,
    /// Most bytes of a read, a write, or a range of zeroes.
    pub most_bytes: u32,
    /// Most bytes of a range to discard.
    pub most_discarded: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

impl Disk {
    /// Feature bits of the device; those of its transport are not among them.
    pub fn features(&self) -> u64 {
        use feature::{BLK_SIZE, CONFIG_WCE, DISCARD, FLUSH, MQ, RO, SEG_MAX, SIZE_MAX, TOPOLOGY, WRITE_ZEROES};
        let features = [SIZE_MAX, SEG_MAX, BLK_SIZE, FLUSH, TOPOLOGY, CONFIG_WCE, MQ];
        let writes: &[u32] = if self.read_only { &[RO] } else { &[DISCARD, WRITE_ZEROES] };
        features.iter().chain(writes).fold(0, |bits, feature| bits | 1 << feature)
    }

    /// The configuration, `struct virtio_blk_config`. `write_back`: whether completed writes may be volatile.
    pub fn config(&self, write_back: bool) -> [u8; CONFIG_BYTES] {
        let blocks = (self.physical_bytes / SECTOR_BYTES).max(1);
        let mut config = [0; CONFIG_BYTES];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.bytes / u64::from(SECTOR_BYTES)).to_le_bytes());
        // Segments of this size, as many as there may be, fit a request.
        put(8, &(self.most_bytes / (MOST_SEGMENTS + 2)).to_le_bytes());
        put(12, &MOST_SEGMENTS.to_le_bytes());
        put(20, &SECTOR_BYTES.to_le_bytes());
        put(24, &[blocks.ilog2() as u8]);
        put(26, &(blocks as u16).to_le_bytes());
        put(WRITEBACK, &[u8::from(write_back)]);
        put(34, &self.queues.to_le_bytes());
        put(36, &(self.most_discarded / SECTOR_BYTES).to_le_bytes());
        put(40, &MOST_RANGES.to_le_bytes());
        put(44, &blocks.to_le_bytes());
        put(48, &(self.most_bytes / SECTOR_BYTES).to_le_bytes());
        put(52, &MOST_RANGES.to_le_bytes());
        // `write_zeroes_may_unmap` stays 0: zeroes are written as data.
        config
    }

    /// The answer to GET_ID.
    pub fn id(&self) -> [u8; ID_BYTES] {
        let mut id = [0; ID_BYTES];
        let printable = self.id.bytes().map(|byte| if byte.is_ascii_graphic() { byte } else { b'_' });
        id.iter_mut().zip(printable).for_each(|(to, from)| *to = from);
        id
    }

    /// Whether these bytes are whole sectors of the disk, and not too many.
    fn range(&self, sector: u64, bytes: u64, most: u32) -> Result<Range, Status> {
        let sectors = u64::from(SECTOR_BYTES);
        let offset = sector.checked_mul(sectors).ok_or(Status::IoErr)?;
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        let is_whole = bytes > 0 && bytes.is_multiple_of(sectors) && bytes <= u64::from(most);
        if fits && is_whole { Ok(Range { offset, bytes: bytes as u32 }) } else { Err(Status::IoErr) }
    }

    /// The request of a chain; `header` is what was read through [`Chain::header`].
    /// Errors: the status to answer with, if it cannot be done.
    pub fn request(&self, header: &[u8; HEADER_BYTES], chain: &Chain) -> Result<Request, Status> {
        if chain.fault.is_some() {
            return Err(Status::IoErr);
        }
        let sector = u64_at(header, 8);
        match u32_at(header, 0) {
            command::IN => Ok(Request::Read(self.range(sector, chain.room_bytes, self.most_bytes)?)),
            command::OUT => Ok(Request::Write(self.range(sector, chain.sent_bytes, self.most_bytes)?)),
            command::FLUSH => Ok(Request::Flush),
            command::GET_ID => Ok(Request::Id { bytes: chain.room_bytes.min(ID_BYTES as u64) as usize }),
            kind @ (command::DISCARD | command::WRITE_ZEROES) => {
                let bytes = chain.sent_bytes as usize;
                let most = MOST_RANGES as usize * RANGE_BYTES;
                if bytes == 0 || !bytes.is_multiple_of(RANGE_BYTES) || bytes > most {
                    return Err(Status::IoErr);
                }
                Ok(Request::Ranges { discards: kind == command::DISCARD, bytes })
            }
            _ => Err(Status::Unsupported),
        }
    }

    /// The ranges of a request to discard or to write zeroes; `data` is what was read through [`Chain::sent`].
    /// Errors: the status to answer with, if it cannot be done. Then nothing of it is.
    pub fn ranges(&self, discards: bool, data: &[u8]) -> Result<Vec<Range>, Status> {
        // Zeroes have one flag, "unmap", which permits to discard instead; it is not used.
        let (known, most) = if discards { (0, self.most_discarded) } else { (1, self.most_bytes) };
        let range = |bytes: &[u8]| {
            let (sector, sectors, flags) = (u64_at(bytes, 0), u32_at(bytes, 8), u32_at(bytes, 12));
            if flags & !known != 0 {
                return Err(Status::Unsupported);
            }
            self.range(sector, u64::from(sectors) * u64::from(SECTOR_BYTES), most)
        };
        data.chunks_exact(RANGE_BYTES).map(range).collect()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// How a request ended, as its last byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// The device could not do it, or it makes no sense.
    IoErr = 1,
    /// No such request here.
    Unsupported = 2,
}

/// Bytes of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u32,
}

/// What a driver wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Data into the chain's room.
    Read(Range),
    /// To write the data that the chain sends.
    Write(Range),
    /// That completed writes are durable.
    Flush,
    /// The first `bytes` bytes of the serial number.
    Id {
        /// At most [`ID_BYTES`].
        bytes: usize,
    },
    /// To discard or to write zeroes, in [ranges](Disk::ranges) that the chain sends.
    Ranges {
        /// Whether they are discarded; else zeroes are written.
        discards: bool,
        /// Bytes that it sends.
        bytes: usize,
    },
}

/// A descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte in the guest's memory.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
    /// Whether the device writes it; else it reads it.
    pub is_writable: bool,
}

/// Bytes of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
}

/// The segments of a request, sorted out: a driver may cut its bytes into segments as it likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Where the header is.
    pub header: Vec<Span>,
    /// Where data are that the driver sends.
    pub sent: Vec<Span>,
    /// Bytes in `sent`.
    pub sent_bytes: u64,
    /// Where data go that the driver gets.
    pub room: Vec<Span>,
    /// Bytes in `room`.
    pub room_bytes: u64,
    /// Where the status goes; without it the driver cannot be answered.
    pub status: Option<u64>,
    /// What is wrong with it.
    pub fault: Option<&'static str>,
}

impl Chain {
    /// Sorts the segments of a chain.
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Chain {
        let mut chain = Chain::default();
        let mut header_left = HEADER_BYTES as u32;
        let mut spans = 0;
        for Segment { mut address, mut bytes, is_writable } in segments {
            if bytes == 0 {
                continue;
            }
            if address.checked_add(u64::from(bytes)).is_none() {
                chain.fault = Some("a segment goes beyond the end of all memory");
                continue;
            }
            spans += 1;
            if is_writable {
                // The last byte of all is that of the status.
                chain.status = Some(address + u64::from(bytes) - 1);
            } else if chain.status.is_some() {
                chain.fault = Some("a segment to read stands behind one to write");
            }
            if spans > MOST_SPANS {
                chain.fault = Some("it has too many segments");
            }
            if chain.fault.is_some() {
                continue;
            }
            if is_writable {
                chain.room.push(Span { address, bytes });
                chain.room_bytes += u64::from(bytes);
                continue;
            }
            let of_header = bytes.min(header_left);
            if of_header > 0 {
                chain.header.push(Span { address, bytes: of_header });
                header_left -= of_header;
                address += u64::from(of_header);
                bytes -= of_header;
            }
            if bytes > 0 {
                chain.sent.push(Span { address, bytes });
                chain.sent_bytes += u64::from(bytes);
            }
        }
        if header_left > 0 {
            chain.fault = chain.fault.or(Some("it is shorter than a header"));
        }
        match chain.room.last_mut() {
            Some(Span { bytes: 1, .. }) => drop(chain.room.pop()),
            Some(span) => span.bytes -= 1,
            None => {}
        }
        chain.room_bytes = chain.room_bytes.saturating_sub(1);
        chain
    }
}

/// The part of `spans` that begins `from` bytes after their beginning and has at most `bytes` bytes.
pub fn part(spans: &[Span], from: u64, bytes: u64) -> impl Iterator<Item = Span> + '_ {
    let (mut skip, mut left) = (from, bytes);
    spans.iter().filter_map(move |span| {
        let skipped = skip.min(u64::from(span.bytes));
        skip -= skipped;
        let taken = (u64::from(span.bytes) - skipped).min(left);
        left -= taken;
        (taken > 0).then_some(Span { address: span.address + skipped, bytes: taken as u32 })
    })
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use virtio_bindings::virtio_blk as linux;

    use super::*;

    fn disk() -> Disk {
        let (most_bytes, most_discarded) = (32 << 20, 1 << 30);
        Disk {
            id: "a drive".to_owned(),
            bytes: 1 << 30,
            physical_bytes: 4096,
            queues: 4,
            most_bytes,
            most_discarded,
            read_only: false,
        }
    }

    fn segment(address: u64, bytes: u32, is_writable: bool) -> Segment {
        Segment { address, bytes, is_writable }
    }

    fn header(kind: u32, sector: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        header
    }

    /// Linux's header is the oracle, by way of the bindings that were made of it.
    #[test]
    fn numbers_and_places_are_those_of_the_header_of_linux() {
        assert_eq!(
            [feature::SIZE_MAX, feature::SEG_MAX, feature::BLK_SIZE, feature::FLUSH, feature::TOPOLOGY],
            [
                linux::VIRTIO_BLK_F_SIZE_MAX,
                linux::VIRTIO_BLK_F_SEG_MAX,
                linux::VIRTIO_BLK_F_BLK_SIZE,
                linux::VIRTIO_BLK_F_FLUSH,
                linux::VIRTIO_BLK_F_TOPOLOGY
            ]
        );
        assert_eq!(
            [feature::RO, feature::CONFIG_WCE, feature::MQ, feature::DISCARD, feature::WRITE_ZEROES],
            [
                linux::VIRTIO_BLK_F_RO,
                linux::VIRTIO_BLK_F_CONFIG_WCE,
                linux::VIRTIO_BLK_F_MQ,
                linux::VIRTIO_BLK_F_DISCARD,
                linux::VIRTIO_BLK_F_WRITE_ZEROES
            ]
        );
        assert_eq!(
            [command::IN, command::OUT, command::FLUSH, command::GET_ID, command::DISCARD, command::WRITE_ZEROES],
            [
                linux::VIRTIO_BLK_T_IN,
                linux::VIRTIO_BLK_T_OUT,
                linux::VIRTIO_BLK_T_FLUSH,
                linux::VIRTIO_BLK_T_GET_ID,
                linux::VIRTIO_BLK_T_DISCARD,
                linux::VIRTIO_BLK_T_WRITE_ZEROES
            ]
        );
        let statuses = [Status::Ok, Status::IoErr, Status::Unsupported].map(|status| status as u32);
        assert_eq!(statuses, [linux::VIRTIO_BLK_S_OK, linux::VIRTIO_BLK_S_IOERR, linux::VIRTIO_BLK_S_UNSUPP]);
        assert_eq!(ID_BYTES as u32, linux::VIRTIO_BLK_ID_BYTES);
        assert_eq!(HEADER_BYTES, size_of::<linux::virtio_blk_outhdr>());
        assert_eq!(RANGE_BYTES, size_of::<linux::virtio_blk_discard_write_zeroes>());
        assert_eq!(CONFIG_BYTES, offset_of!(linux::virtio_blk_config, max_secure_erase_sectors));
        let config = disk().config(true);
        let at = |place: usize| u32_at(&config, place);
        assert_eq!(u64_at(&config, offset_of!(linux::virtio_blk_config, capacity)), 1 << 21);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, size_max)), 256 << 10);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, seg_max)), 126);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, blk_size)), 512);
        assert_eq!(config[offset_of!(linux::virtio_blk_config, physical_block_exp)], 3);
        assert_eq!(config[offset_of!(linux::virtio_blk_config, min_io_size)..][..2], [8, 0]);
        assert_eq!(config[offset_of!(linux::virtio_blk_config, wce)], 1);
        assert_eq!(config[offset_of!(linux::virtio_blk_config, num_queues)..][..2], [4, 0]);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, max_discard_sectors)), 1 << 21);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, max_discard_seg)), 32);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, discard_sector_alignment)), 8);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, max_write_zeroes_sectors)), 1 << 16);
        assert_eq!(at(offset_of!(linux::virtio_blk_config, max_write_zeroes_seg)), 32);
        assert_eq!(config[offset_of!(linux::virtio_blk_config, write_zeroes_may_unmap)], 0);
        assert_eq!(disk().config(false)[WRITEBACK], 0);
    }

    #[test]
    fn a_chain_is_the_same_however_it_is_cut() {
        let whole = Chain::new([segment(0, 16 + 1024, false), segment(4096, 513, true)]);
        assert_eq!(whole.header, [Span { address: 0, bytes: 16 }]);
        assert_eq!((&whole.sent[..], whole.sent_bytes), (&[Span { address: 16, bytes: 1024 }][..], 1024));
        assert_eq!((&whole.room[..], whole.room_bytes), (&[Span { address: 4096, bytes: 512 }][..], 512));
        assert_eq!((whole.status, whole.fault), (Some(4096 + 512), None));
        let pieces = [
            segment(0, 7, false),
            segment(7, 0, true),
            segment(7, 9, false),
            segment(16, 1024, false),
            segment(4096, 512, true),
            segment(4608, 1, true),
        ];
        let cut = Chain::new(pieces);
        assert_eq!(cut.header.iter().map(|span| span.bytes).sum::<u32>(), 16);
        let cut = Chain { header: whole.header.clone(), ..cut };
        assert_eq!(cut, whole);
    }

    #[test]
    fn a_chain_that_makes_no_sense_has_a_fault_and_a_status_if_there_is_room_for_one() {
        let short = Chain::new([segment(0, 15, false), segment(64, 1, true)]);
        assert_eq!((short.fault, short.status), (Some("it is shorter than a header"), Some(64)));
        assert_eq!(disk().request(&header(4, 0), &short), Err(Status::IoErr));
        let mute = Chain::new([segment(0, 16, false)]);
        assert_eq!((mute.fault, mute.status), (None, None));
        let late = Chain::new([segment(0, 16, false), segment(64, 1, true), segment(80, 16, false)]);
        assert!(late.fault.is_some());
        let beyond = Chain::new([segment(0, 16, false), segment(u64::MAX - 1, 2, true), segment(64, 1, true)]);
        assert!(beyond.fault.is_some() && beyond.status == Some(64));
        let many = (0..1 << 16).map(|at| segment(at * 16, 16, false));
        let many = Chain::new(many.chain([segment(1 << 21, 9, true)]));
        assert!(many.fault.is_some() && many.status == Some((1 << 21) + 8) && many.sent.len() <= MOST_SPANS);
    }

    #[test]
    fn requests_are_whole_sectors_of_the_disk() {
        let disk = disk();
        let reads = |bytes: u32| Chain::new([segment(0, 16, false), segment(64, bytes + 1, true)]);
        let range = Range { offset: 512 * 3, bytes: 4096 };
        assert_eq!(disk.request(&header(0, 3), &reads(4096)), Ok(Request::Read(range)));
        assert_eq!(disk.request(&header(0, (1 << 21) - 1), &reads(512)).map(|_| ()), Ok(()));
        for (sector, bytes) in
            [(1 << 21, 512), ((1 << 21) - 1, 1024), (u64::MAX, 512), (1 << 55, 512), (0, 0), (0, 100)]
        {
            assert_eq!(disk.request(&header(0, sector), &reads(bytes)), Err(Status::IoErr), "{sector} {bytes}");
        }
        assert_eq!(disk.request(&header(0, 0), &reads((32 << 20) + 512)), Err(Status::IoErr));
        assert_eq!(disk.request(&header(8, 0), &reads(20)), Ok(Request::Id { bytes: 20 }));
        assert_eq!(disk.request(&header(8, 0), &reads(3)), Ok(Request::Id { bytes: 3 }));
        assert_eq!(disk.request(&header(2, 0), &reads(512)), Err(Status::Unsupported));
        let writes = Chain::new([segment(0, 16 + 4096, false), segment(8192, 1, true)]);
        assert_eq!(disk.request(&header(1, 3), &writes), Ok(Request::Write(range)));
        assert_eq!(disk.id()[..8], *b"a_drive\0");
    }

    #[test]
    fn ranges_fit_the_disk_and_have_no_unknown_flag() {
        let disk = disk();
        let range = |sector: u64, sectors: u32, flags: u32| {
            [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
        };
        let two = [range(8, 16, 0), range(0, 1, 0)].concat();
        let found = [Range { offset: 4096, bytes: 8192 }, Range { offset: 0, bytes: 512 }];
        assert_eq!(disk.ranges(true, &two).as_deref(), Ok(&found[..]));
        assert_eq!(disk.ranges(false, &range(8, 16, 1)).as_deref(), Ok(&found[..1]));
        assert_eq!(disk.ranges(true, &range(8, 16, 1)), Err(Status::Unsupported));
        assert_eq!(disk.ranges(false, &range(8, 16, 2)), Err(Status::Unsupported));
        for (sector, sectors) in [(0, 0), (1 << 21, 1), (0, u32::MAX), (u64::MAX, 1)] {
            assert_eq!(disk.ranges(true, &range(sector, sectors, 0)), Err(Status::IoErr), "{sector} {sectors}");
        }
        let sends = |bytes: u32| Chain::new([segment(0, 16 + bytes, false), segment(1 << 20, 1, true)]);
        assert_eq!(disk.request(&header(11, 0), &sends(32)), Ok(Request::Ranges { discards: true, bytes: 32 }));
        assert_eq!(disk.request(&header(13, 0), &sends(16)), Ok(Request::Ranges { discards: false, bytes: 16 }));
        for bytes in [0, 17, 33 * 16] {
            assert_eq!(disk.request(&header(11, 0), &sends(bytes)), Err(Status::IoErr));
        }
    }

    #[test]
    fn a_part_of_spans_is_cut_at_both_ends() {
        let spans =
            [Span { address: 100, bytes: 10 }, Span { address: 200, bytes: 10 }, Span { address: 300, bytes: 10 }];
        let found: Vec<Span> = part(&spans, 5, 20).collect();
        assert_eq!(found, [Span { address: 105, bytes: 5 }, spans[1], Span { address: 300, bytes: 5 }]);
        assert_eq!(part(&spans, 30, 5).count(), 0);
    }
}
