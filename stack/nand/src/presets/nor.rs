//! NOR: bytes are programmed one by one or through a write buffer, blocks erased in fractions of a second.

use super::{Figure, Kind, Part, ms, nor};
use crate::timing::BusMode;

const M29EW: &str = "Micron 256Mb-2Gb 3V Embedded Parallel NOR M29EW data sheet Rev. E 11/16, Features";
const M29W400D: &str = "Numonyx M29W400DT/DB data sheet, table 4 (program and erase times, typical)";
const GLS: &str = "Cypress S29GL-S data sheet 001-98285, Distinctive Characteristics";
const KH25: &str = "Macronix KH25L8005 data sheet PM1307 Rev. 1.1, Features";
const W25Q: &str = "Winbond W25Q128FV, as described at ar-ic.com/News/1654";
/// A NOR has one plane, is programmed as often as bits can fall, and asks for no code.
const NOR: &str = "holds for every NOR";

/// Programs of a page have no bound on a NOR; the field's largest number stands for it.
const UNBOUNDED: Figure<u8> = Figure::of(u8::MAX, NOR);

pub(super) const PARTS: &[Part] = &[
    Part {
        name: "M29EW256",
        vendor: "Micron",
        kind: Kind::ParallelNor,
        geometry: Figure::of(nor(256, 128 * 1024), M29EW),
        planes: Figure::of(1, NOR),
        read_ns: Figure::of(0, NOR),
        program_ns: Figure::of(880, M29EW),
        erase_ns: Figure::recalled(ms(800)),
        bus: Figure::of(BusMode::Parallel { cycle_ns: 100, word_bytes: 2 }, M29EW),
        ecc: Figure::of(None, NOR),
        endurance_cycles: Figure::of(100_000, M29EW),
        retention_years: Figure::of(20, M29EW),
        programs_per_page: UNBOUNDED,
        id: Figure::recalled(&[0x89, 0x7e, 0x22, 0x22, 0x01]),
    },
    Part {
        name: "M29W400D",
        vendor: "Numonyx",
        kind: Kind::ParallelNor,
        // The boot block's smaller blocks are counted as one of 64 KiB.
        geometry: Figure::of(nor(8, 64 * 1024), M29W400D),
        planes: Figure::of(1, NOR),
        read_ns: Figure::of(0, NOR),
        program_ns: Figure::of(10_000, M29W400D),
        erase_ns: Figure::of(ms(800), M29W400D),
        bus: Figure::of(BusMode::Parallel { cycle_ns: 45, word_bytes: 2 }, "name of the part M29W400DB45: 45 ns"),
        ecc: Figure::of(None, NOR),
        endurance_cycles: Figure::of(100_000, M29W400D),
        retention_years: Figure::of(20, M29W400D),
        programs_per_page: UNBOUNDED,
        id: Figure::recalled(&[0x20, 0xee]),
    },
    Part {
        name: "S29GL256S",
        vendor: "Cypress (Spansion)",
        kind: Kind::ParallelNor,
        geometry: Figure::of(nor(256, 128 * 1024), GLS),
        planes: Figure::of(1, NOR),
        read_ns: Figure::of(0, NOR),
        // 340 µs for a full buffer of 512 bytes.
        program_ns: Figure::recalled(664),
        erase_ns: Figure::recalled(ms(275)),
        bus: Figure::of(BusMode::Parallel { cycle_ns: 90, word_bytes: 2 }, GLS),
        ecc: Figure::of(None, NOR),
        endurance_cycles: Figure::of(100_000, GLS),
        retention_years: Figure::of(20, GLS),
        programs_per_page: UNBOUNDED,
        id: Figure::recalled(&[0x01, 0x7e, 0x22, 0x22, 0x01]),
    },
    Part {
        name: "W25Q128FV",
        vendor: "Winbond",
        kind: Kind::SpiNor,
        geometry: Figure::of(nor(256, 64 * 1024), W25Q),
        planes: Figure::of(1, NOR),
        read_ns: Figure::of(0, NOR),
        // 0.7 ms for a page of 256 bytes.
        program_ns: Figure::recalled(2_734),
        erase_ns: Figure::recalled(ms(150)),
        bus: Figure::of(BusMode::Spi { mhz: 104, lanes: 4 }, W25Q),
        ecc: Figure::of(None, NOR),
        endurance_cycles: Figure::recalled(100_000),
        retention_years: Figure::recalled(20),
        programs_per_page: UNBOUNDED,
        id: Figure::recalled(&[0xef, 0x40, 0x18]),
    },
    Part {
        name: "KH25L8005",
        vendor: "Macronix",
        kind: Kind::SpiNor,
        geometry: Figure::of(nor(256, 4 * 1024), KH25),
        planes: Figure::of(1, NOR),
        read_ns: Figure::of(0, NOR),
        // 1.4 ms for a page of 256 bytes.
        program_ns: Figure::of(5_469, KH25),
        erase_ns: Figure::of(ms(60), KH25),
        bus: Figure::of(BusMode::Spi { mhz: 66, lanes: 1 }, KH25),
        ecc: Figure::of(None, NOR),
        endurance_cycles: Figure::of(100_000, KH25),
        retention_years: Figure::recalled(20),
        programs_per_page: UNBOUNDED,
        id: Figure::recalled(&[0xc2, 0x20, 0x14]),
    },
];
