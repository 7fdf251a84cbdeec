//! NAND behind SPI. Linux programs whole pages on it, so the sub-page is the page.

use super::{Figure, Kind, Part, ms, nand, us};
use crate::ecc::Ecc;
use crate::timing::BusMode;

const WINBOND_C: &str = "Linux drivers/mtd/nand/spi/winbond.c, chip table";
const MACRONIX_C: &str = "Linux drivers/mtd/nand/spi/macronix.c, chip table";
const GD5F: &str = "GigaDevice GD5F1GQ4UAYIG data sheet, Feature";

const fn spi(mhz: u32) -> BusMode {
    BusMode::Spi { mhz, lanes: 4 }
}

pub(super) const PARTS: &[Part] = &[
    Part {
        name: "W25N01GV",
        vendor: "Winbond",
        kind: Kind::SpiNand,
        geometry: Figure::of(nand(1024, 64, 2048, 64, 2048), WINBOND_C),
        planes: Figure::of(1, WINBOND_C),
        read_ns: Figure::recalled(us(60)),
        program_ns: Figure::recalled(us(250)),
        erase_ns: Figure::recalled(ms(2)),
        bus: Figure::of(spi(104), "W25N01GVxxIG/IT, as described at nick-black.com/dankwiki: 104 MHz, quad"),
        ecc: Figure::of(Some(Ecc::new(1, 512)), WINBOND_C),
        endurance_cycles: Figure::recalled(100_000),
        retention_years: Figure::recalled(10),
        programs_per_page: Figure::recalled(4),
        id: Figure::of(&[0xef, 0xaa, 0x21], WINBOND_C),
    },
    Part {
        name: "W25N02KV",
        vendor: "Winbond",
        kind: Kind::SpiNand,
        geometry: Figure::of(nand(2048, 64, 2048, 128, 2048), WINBOND_C),
        planes: Figure::of(1, WINBOND_C),
        read_ns: Figure::recalled(us(60)),
        program_ns: Figure::recalled(us(250)),
        erase_ns: Figure::recalled(ms(2)),
        bus: Figure::recalled(spi(104)),
        ecc: Figure::of(Some(Ecc::new(8, 512)), WINBOND_C),
        endurance_cycles: Figure::recalled(60_000),
        retention_years: Figure::recalled(10),
        programs_per_page: Figure::recalled(4),
        id: Figure::of(&[0xef, 0xaa, 0x22], WINBOND_C),
    },
    Part {
        name: "MX35LF1GE4AB",
        vendor: "Macronix",
        kind: Kind::SpiNand,
        geometry: Figure::of(nand(1024, 64, 2048, 64, 2048), MACRONIX_C),
        planes: Figure::of(1, MACRONIX_C),
        read_ns: Figure::recalled(us(45)),
        program_ns: Figure::recalled(us(320)),
        erase_ns: Figure::recalled(ms(1)),
        bus: Figure::recalled(spi(104)),
        ecc: Figure::of(Some(Ecc::new(4, 512)), MACRONIX_C),
        endurance_cycles: Figure::recalled(100_000),
        retention_years: Figure::recalled(10),
        programs_per_page: Figure::recalled(4),
        id: Figure::of(&[0xc2, 0x12], MACRONIX_C),
    },
    Part {
        name: "MX35LF2GE4AB",
        vendor: "Macronix",
        kind: Kind::SpiNand,
        geometry: Figure::of(nand(2048, 64, 2048, 64, 2048), MACRONIX_C),
        planes: Figure::of(2, MACRONIX_C),
        read_ns: Figure::recalled(us(45)),
        program_ns: Figure::recalled(us(320)),
        erase_ns: Figure::recalled(ms(1)),
        bus: Figure::recalled(spi(104)),
        ecc: Figure::of(Some(Ecc::new(4, 512)), MACRONIX_C),
        endurance_cycles: Figure::recalled(100_000),
        retention_years: Figure::recalled(10),
        programs_per_page: Figure::recalled(4),
        id: Figure::of(&[0xc2, 0x22], MACRONIX_C),
    },
    Part {
        name: "GD5F1GQ4UAYIG",
        vendor: "GigaDevice",
        kind: Kind::SpiNand,
        geometry: Figure::of(nand(1024, 64, 2048, 64, 2048), GD5F),
        planes: Figure::recalled(1),
        read_ns: Figure::of(us(120), GD5F),
        program_ns: Figure::of(us(400), GD5F),
        erase_ns: Figure::of(ms(3), GD5F),
        // 480 Mbit/s on four lines is 120 MHz; the sheet's clock for fast reads is 108 MHz.
        bus: Figure::of(spi(108), GD5F),
        ecc: Figure::recalled(Some(Ecc::new(8, 512))),
        endurance_cycles: Figure::recalled(100_000),
        retention_years: Figure::recalled(10),
        programs_per_page: Figure::recalled(4),
        id: Figure::recalled(&[0xc8, 0xf1]),
    },
];
