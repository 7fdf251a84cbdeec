//! ATA data that a SATA drive reports or receives: IDENTIFY DEVICE, a vendor-specific log page with the geometry of the
//! flash, and the ranges of DATA SET MANAGEMENT (TRIM).
//!
//! A host that aligns its writes needs the size of the drive's page and erase block, but no word of IDENTIFY DEVICE
//! reports them. Here a vendor-specific log page reports both the physical and the effective sizes; a file system or
//! volume manager aligns to the effective ones. `docs/format/ssd-log.md` describes the page.
//!
//! Sources: ACS-3 (words 69, 75, 76, 82–87, 100–103, 105, 106, 117, 118, 169, 209, 217, 222, 255; DATA SET MANAGEMENT;
//! device vendor-specific logs A0h to DFh), Linux `include/linux/ata.h` for their use.

use crate::Shape;

/// Properties of a drive that its IDENTIFY DEVICE data report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Model number: up to 40 ASCII characters. Longer names are truncated, other characters become `?`.
    pub model: String,
    /// Serial number: up to 20 ASCII characters, handled like the model number.
    pub serial: String,
    /// Capacity in sectors of 512 bytes.
    pub sectors: u64,
    /// Queue depth, 1 to 32; 1 means no NCQ.
    pub queue_depth: u32,
    /// Physical sector size to report, in bytes: a power of two, at least 512.
    pub physical_sector_bytes: u32,
    /// Whether DATA SET MANAGEMENT with TRIM is supported (word 169).
    pub trim: bool,
    /// Whether reads of a trimmed sector return the same data each time (DRAT, word 69).
    pub deterministic_trim: bool,
    /// Whether reads of a trimmed sector return zeroes (RZAT, word 69).
    pub zeroing_trim: bool,
    /// Whether the write cache is enabled (word 85).
    pub write_cache: bool,
}

/// Encodes IDENTIFY DEVICE data: 256 little-endian words, the last with signature and checksum.
pub fn identify(identity: &Identity) -> [u8; 512] {
    let mut words = [0u16; 256];
    text(&mut words[10..20], &identity.serial);
    text(&mut words[23..27], "1.0");
    text(&mut words[27..47], &identity.model);
    words[47] = 0x8001;
    words[49] = 1 << 9 | 1 << 8; // LBA, DMA
    words[53] = 1 << 2 | 1 << 1;
    put(&mut words[60..62], identity.sectors.min(0x0fff_ffff));
    words[69] = bit(identity.deterministic_trim, 14) | bit(identity.zeroing_trim, 5);
    words[75] = identity.queue_depth.clamp(1, 32) as u16 - 1;
    words[76] = bit(identity.queue_depth > 1, 8) | 1 << 2 | 1 << 1; // NCQ, 3 and 1.5 Gb/s
    words[80] = 1 << 9 | 1 << 8; // ACS-2, ATA8-ACS
    words[82] = 1 << 5; // write cache
    words[83] = 1 << 14 | 1 << 13 | 1 << 12 | 1 << 10; // FLUSH CACHE EXT, FLUSH CACHE, 48 bits
    words[84] = 1 << 14 | 1 << 6 | 1 << 5; // FUA, general-purpose logging
    words[85] = bit(identity.write_cache, 5);
    words[86] = words[83] & !(1 << 14);
    words[87] = words[84];
    put(&mut words[100..104], identity.sectors);
    words[105] = u16::from(identity.trim); // 512-byte blocks of a TRIM
    let multiple = (identity.physical_sector_bytes / 512).max(1).ilog2() as u16;
    words[106] = 1 << 14 | bit(multiple > 0, 13) | multiple;
    words[169] = u16::from(identity.trim);
    words[209] = 1 << 14;
    words[217] = 1; // non-rotating
    words[222] = 1 << 12; // serial transport
    let mut bytes = [0; 512];
    for (pair, word) in bytes.chunks_exact_mut(2).zip(words) {
        pair.copy_from_slice(&word.to_le_bytes());
    }
    bytes[510] = 0xa5;
    let sum = bytes[..511].iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
    bytes[511] = sum.wrapping_neg();
    bytes
}

/// Decodes IDENTIFY DEVICE data. `None` if the signature or the checksum is wrong.
pub fn read_identify(bytes: &[u8; 512]) -> Option<Identity> {
    if bytes[510] != 0xa5 || bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte)) != 0 {
        return None;
    }
    let word = |at: usize| u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
    let is_set = |at: usize, bit: u32| word(at) >> bit & 1 == 1;
    let text = |from: usize, to: usize| {
        let characters = (from..to).flat_map(|at| word(at).to_be_bytes()).map(char::from);
        characters.collect::<String>().trim_end().to_owned()
    };
    Some(Identity {
        model: text(27, 47),
        serial: text(10, 20),
        sectors: (100..104).rev().fold(0, |sectors, at| sectors << 16 | u64::from(word(at))),
        queue_depth: if is_set(76, 8) { u32::from(word(75) & 31) + 1 } else { 1 },
        physical_sector_bytes: if is_set(106, 13) { 512 << (word(106) & 15) } else { 512 },
        trim: is_set(169, 0),
        deterministic_trim: is_set(69, 14),
        zeroing_trim: is_set(69, 5),
        write_cache: is_set(85, 5),
    })
}

const fn bit(set: bool, at: u32) -> u16 {
    (set as u16) << at
}

fn put(words: &mut [u16], mut number: u64) {
    for word in words {
        *word = number as u16;
        number >>= 16;
    }
}

/// Writes an ATA string: two characters per word, the first in the high byte, padded with spaces.
fn text(words: &mut [u16], text: &str) {
    let mut characters =
        text.chars().map(|letter| if letter.is_ascii_graphic() || letter == ' ' { letter as u16 } else { 63 });
    for word in words {
        let first = characters.next().unwrap_or(32);
        *word = first << 8 | characters.next().unwrap_or(32);
    }
}

/// Address of the log page with the geometry of the flash: the first device vendor-specific log.
pub const SHAPE_LOG: u8 = 0xa0;
const SHAPE_MAGIC: &[u8; 8] = b"NLSHAPE1";

/// Encodes log page [`SHAPE_LOG`]: 512 bytes, little-endian.
pub fn shape_log(shape: &Shape) -> [u8; 512] {
    let mut page = [0; 512];
    page[..8].copy_from_slice(SHAPE_MAGIC);
    let block = shape.pages * shape.page_bytes;
    let numbers32 =
        [shape.page_bytes, block, shape.channels, shape.ways, shape.dies, shape.planes, u32::from(shape.multi_plane)];
    for (at, number) in numbers32.into_iter().enumerate() {
        page[8 + 4 * at..12 + 4 * at].copy_from_slice(&number.to_le_bytes());
    }
    page[36..40].copy_from_slice(shape.order.name().as_bytes());
    let stripe = u64::from(shape.all_dies() * shape.planes) * u64::from(shape.page_bytes);
    page[40..48].copy_from_slice(&stripe.to_le_bytes());
    page[48..56].copy_from_slice(&shape.effective_block_bytes().to_le_bytes());
    page
}

/// Contents of log page [`SHAPE_LOG`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeLog {
    /// NAND page size in bytes.
    pub page_bytes: u32,
    /// NAND block size in bytes.
    pub block_bytes: u32,
    /// Number of channels.
    pub channels: u32,
    /// Ways: chips per channel.
    pub ways: u32,
    /// Dies per chip.
    pub dies: u32,
    /// Planes per die.
    pub planes: u32,
    /// Whether the planes of a die operate together (multi-plane operations).
    pub planes_in_step: bool,
    /// Striping order as four axis initials, the fastest-changing axis first, as in `cwdp`.
    pub order: String,
    /// Effective page size in bytes: one page of every plane, a stripe over the whole drive.
    pub effective_page_bytes: u64,
    /// Effective erase block size in bytes: one NAND block of every plane. A file system aligns to it.
    pub effective_block_bytes: u64,
}

/// Decodes log page [`SHAPE_LOG`]. `None` if it is another page.
pub fn read_shape_log(page: &[u8; 512]) -> Option<ShapeLog> {
    if &page[..8] != SHAPE_MAGIC {
        return None;
    }
    let number = |at: usize, len: usize| {
        page[at..at + len].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let small = |at: usize| number(at, 4) as u32;
    Some(ShapeLog {
        page_bytes: small(8),
        block_bytes: small(12),
        channels: small(16),
        ways: small(20),
        dies: small(24),
        planes: small(28),
        planes_in_step: small(32) != 0,
        order: String::from_utf8_lossy(&page[36..40]).into_owned(),
        effective_page_bytes: number(40, 8),
        effective_block_bytes: number(48, 8),
    })
}

/// Ranges in the data of DATA SET MANAGEMENT (TRIM), as first sector and number of sectors. Each 8-byte entry holds a
/// 48-bit LBA and a 16-bit count, little-endian. Entries with a count of 0 and an incomplete last entry are skipped.
pub fn trim_ranges(data: &[u8]) -> impl Iterator<Item = (u64, u32)> + '_ {
    data.chunks_exact(8).filter_map(|entry| {
        let number = entry.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
        let sectors = (number >> 48) as u32;
        (sectors > 0).then_some((number & 0xffff_ffff_ffff, sectors))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Order;

    fn identity() -> Identity {
        Identity {
            model: "Vendor M".to_owned(),
            serial: "1".to_owned(),
            sectors: 0x1_2345_6789,
            queue_depth: 32,
            physical_sector_bytes: 4096,
            trim: true,
            deterministic_trim: true,
            zeroing_trim: false,
            write_cache: true,
        }
    }

    fn word(bytes: &[u8; 512], at: usize) -> u16 {
        u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]])
    }

    #[test]
    fn a_drive_identifies_itself_with_the_bits_that_linux_looks_at() {
        let bytes = identify(&identity());
        assert_eq!(&bytes[54..62], b"eVdnroM ", "two characters a word, swapped");
        assert_eq!((word(&bytes, 75), word(&bytes, 76) >> 8 & 1), (31, 1));
        assert_eq!((word(&bytes, 69) >> 14 & 1, word(&bytes, 69) >> 5 & 1), (1, 0));
        assert_eq!((word(&bytes, 169), word(&bytes, 105), word(&bytes, 217)), (1, 1, 1));
        assert_eq!([100, 101, 102, 103].map(|at| word(&bytes, at)), [0x6789, 0x2345, 1, 0]);
        assert_eq!((word(&bytes, 60), word(&bytes, 61)), (0xffff, 0x0fff), "28 bits hold no more");
        assert_eq!(word(&bytes, 106), 0x6003, "eight logical sectors in a physical one");
        assert_eq!(bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte)), 0, "the checksum");
    }

    #[test]
    fn without_ncq_or_trim_it_says_so() {
        let bytes = identify(&Identity { queue_depth: 1, trim: false, ..identity() });
        assert_eq!((word(&bytes, 75), word(&bytes, 76) >> 8 & 1, word(&bytes, 169)), (0, 0, 0));
    }

    #[test]
    fn what_is_told_is_read_back() {
        let [one, two] = [
            identity(),
            Identity { queue_depth: 1, trim: false, zeroing_trim: true, physical_sector_bytes: 512, ..identity() },
        ];
        for told in [one, two] {
            let mut bytes = identify(&told);
            assert_eq!(read_identify(&bytes), Some(told));
            bytes[20] ^= 1;
            assert_eq!(read_identify(&bytes), None, "the checksum");
        }
    }

    #[test]
    fn the_log_page_gives_physical_and_effective_sizes() {
        let shape = Shape {
            channels: 4,
            ways: 2,
            dies: 1,
            planes: 1,
            blocks: 16,
            pages: 64,
            page_bytes: 2048,
            order: Order::CHANNEL_FIRST,
            multi_plane: false,
        };
        let page = shape_log(&shape);
        assert_eq!(&page[36..40], b"cwdp");
        let read = ShapeLog {
            page_bytes: 2048,
            block_bytes: 131_072,
            channels: 4,
            ways: 2,
            dies: 1,
            planes: 1,
            planes_in_step: false,
            order: "cwdp".to_owned(),
            effective_page_bytes: 8 * 2048,
            effective_block_bytes: 8 * 131_072,
        };
        assert_eq!(read_shape_log(&page), Some(read));
        assert_eq!(read_shape_log(&[0; 512]), None);
    }

    #[test]
    fn trim_ranges_are_48_and_16_bits() {
        let mut data = vec![0; 24];
        data[..8].copy_from_slice(&(8u64 << 48 | 0x12_3456_789a).to_le_bytes());
        data[8..16].copy_from_slice(&(7u64).to_le_bytes());
        data[16..24].copy_from_slice(&(0xffff_u64 << 48 | 1).to_le_bytes());
        assert_eq!(trim_ranges(&data).collect::<Vec<_>>(), [(0x12_3456_789a, 8), (1, 65_535)]);
        assert_eq!(trim_ranges(&data[..7]).count(), 0);
    }
}
