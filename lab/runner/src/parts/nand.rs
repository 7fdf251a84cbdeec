//! Flash parts: geometry, times, bus, code and rating of a chip.

use std::fmt;

use nand::wearout::{BitErrors, WearOut};
use nand::{ArrayConfig, BusMode, CellTimes, Ecc, FaultPlan, HostPrice, Layout, NorRule, PageOrder, Rules, Timing};
use sim::seam::{Geometry, Medium};
use sim::{Ns, Seed};
use toml::{Table, Value};

use super::error::PartError;
use super::read::{Figure, Head, Source};

/// Every key of a flash part.
const KEYS: [&str; 16] = [
    "nand.pebs",
    "nand.peb_bytes",
    "nand.page_bytes",
    "nand.subpage_bytes",
    "nand.oob_bytes",
    "nand.planes",
    "nand.programs_per_page",
    "nand.endurance",
    "nand.retention_years",
    "nand.id",
    "nand.timing.read_us",
    "nand.timing.program_us",
    "nand.timing.erase_us",
    "nand.timing.bus",
    "nand.ecc.bits",
    "nand.ecc.step_bytes",
];
/// Those that a NOR does not have: it has no pages, no spare bytes and no code, and is read at the speed of its bus.
const OF_NAND: [&str; 8] = [
    "nand.page_bytes",
    "nand.subpage_bytes",
    "nand.oob_bytes",
    "nand.planes",
    "nand.programs_per_page",
    "nand.timing.read_us",
    "nand.ecc.bits",
    "nand.ecc.step_bytes",
];
const BUS: &str = "sdr-0 to sdr-5 or nv-ddr-0 to nv-ddr-5; behind SPI spi-<MHz>x<lines>; of a parallel NOR parallel-<ns>x<bytes of a word>";

/// What kind of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One bit a cell, parallel bus.
    Slc,
    /// Two bits a cell, parallel bus; pages are programmed one after another, without gaps.
    Mlc,
    /// Three bits a cell, otherwise as [`Mlc`](Self::Mlc).
    Tlc,
    /// SLC NAND behind SPI.
    SpiNand,
    /// NOR on a memory bus.
    ParallelNor,
    /// NOR behind SPI.
    SpiNor,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [Kind::Slc, Kind::Mlc, Kind::Tlc, Kind::SpiNand, Kind::ParallelNor, Kind::SpiNor];

    /// As a file writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Slc => "slc",
            Kind::Mlc => "mlc",
            Kind::Tlc => "tlc",
            Kind::SpiNand => "spi-nand",
            Kind::ParallelNor => "parallel-nor",
            Kind::SpiNor => "spi-nor",
        }
    }

    /// Whether it is a NOR.
    pub const fn is_nor(self) -> bool {
        matches!(self, Kind::ParallelNor | Kind::SpiNor)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A flash part.
#[derive(Clone, Debug, PartialEq)]
pub struct NandPart {
    /// Name, title, values.
    pub head: Head,
    /// Kind of flash.
    pub kind: Kind,
    /// The part as an array: its rules, bus, cell times and code; no faults, and a host that copies for free.
    pub config: ArrayConfig,
    /// Rated program–erase cycles.
    pub endurance: u32,
    /// Rated data retention in years.
    pub retention_years: u32,
    /// What it answers to READ ID; empty where unknown.
    pub id: Vec<u8>,
}

impl NandPart {
    /// What wears out and flips in the part as the laboratory models it: [`WearOut::by_rating`] and, on NAND,
    /// [`BitErrors::by_rating`]. Factory bad blocks are not in it.
    pub fn faults(&self, seed: Seed) -> FaultPlan {
        FaultPlan {
            wear_out: Some(WearOut::by_rating(self.endurance)),
            bit_errors: (!self.kind.is_nor()).then(|| BitErrors::by_rating(self.endurance)),
            ..FaultPlan::none(seed)
        }
    }

    /// Its values for an experiment's table `[nand]`.
    pub fn values(&self) -> Table {
        let geometry = self.config.geometry;
        let word = |word: &str| Value::String(word.to_owned());
        let numbers = [
            ("pebs", geometry.pebs),
            ("peb_bytes", geometry.peb_bytes),
            ("page_bytes", geometry.page_bytes),
            ("subpage_bytes", geometry.subpage_bytes),
            ("endurance", self.endurance),
        ];
        let numbers = numbers.into_iter().map(|(key, value)| (key.to_owned(), Value::Integer(value.into())));
        let medium = word(if self.kind.is_nor() { "nor" } else { "nand" });
        numbers.chain([("medium".to_owned(), medium), ("delays".to_owned(), word("part"))]).collect()
    }

    /// Errors: a key missing, unknown or out of range; values that make no array.
    pub(super) fn read(source: Source) -> Result<NandPart, PartError> {
        let Source { head, kind, .. } = source;
        let known = || Kind::ALL.map(Kind::word).join(", ");
        let kind = match kind {
            None => return head.wrong("kind", "nothing", format!("one of {}", known())),
            Some(word) => match Kind::ALL.into_iter().find(|kind| kind.word() == word) {
                Some(kind) => kind,
                None => return head.wrong("kind", format!("{word:?}"), format!("one of {}", known())),
            },
        };
        for figure in &head.figures {
            if !KEYS.contains(&figure.key.as_str()) {
                return Err(PartError::unknown_key(&head.file, &figure.key, KEYS));
            }
            if kind.is_nor() && OF_NAND.contains(&figure.key.as_str()) {
                return head.wrong(&figure.key, "a value", "no such key: a NOR has none");
            }
        }
        let values = Values(&head);
        // A NOR is programmed by the byte, as often as bits can fall; the field's largest number stands for that.
        let of_nand = |key: &str, most: u32, nor: u32| if kind.is_nor() { Ok(nor) } else { values.number(key, most) };
        let geometry = Geometry {
            medium: if kind.is_nor() { Medium::Nor } else { Medium::Nand },
            pebs: values.number("nand.pebs", 1 << 24)?,
            peb_bytes: values.number("nand.peb_bytes", 1 << 26)?,
            page_bytes: of_nand("nand.page_bytes", 1 << 18, 1)?,
            subpage_bytes: of_nand("nand.subpage_bytes", 1 << 18, 1)?,
            oob_bytes: of_nand("nand.oob_bytes", 1 << 16, 0)?,
        };
        let cells = CellTimes {
            read: if kind.is_nor() { Ns::ZERO } else { values.time("nand.timing.read_us")? },
            program: values.time("nand.timing.program_us")?,
            erase: values.time("nand.timing.erase_us")?,
        };
        let order = if matches!(kind, Kind::Mlc | Kind::Tlc) { PageOrder::Consecutive } else { PageOrder::Ascending };
        let programs_per_page = of_nand("nand.programs_per_page", 255, 255)? as u8;
        let ecc = match kind.is_nor() {
            true => None,
            false => {
                Some(Ecc::new(values.number("nand.ecc.bits", 1024)?, values.number("nand.ecc.step_bytes", 1 << 18)?))
            }
        };
        let config = ArrayConfig {
            geometry,
            layout: Layout { planes: of_nand("nand.planes", 64, 1)?, ..Layout::SINGLE },
            rules: Rules { order, programs_per_page, nor: NorRule::RefuseRaise },
            timing: Timing::Bus { mode: values.bus(kind)?, cells },
            host: HostPrice::FREE,
            ecc,
            faults: None,
        };
        let endurance = values.number("nand.endurance", 1_000_000_000)?;
        if endurance == 0 {
            return head.wrong("nand.endurance", 0, "1 or more");
        }
        let retention_years = values.number("nand.retention_years", 1000)?;
        let id = values.id()?;
        if let Err(error) = config.validate() {
            let (place, key) = error.field.split_once('.').unwrap_or(("", error.field));
            let key = match place {
                "timing" => "nand.timing.bus".to_owned(),
                "ecc" => format!("nand.ecc.{key}"),
                _ => format!("nand.{key}"),
            };
            return head.wrong(&key, error.found, error.expected);
        }
        Ok(NandPart { kind, config, endurance, retention_years, id, head })
    }
}

/// Values by their keys.
struct Values<'a>(&'a Head);

impl Values<'_> {
    fn get(&self, key: &str) -> Option<&Figure> {
        self.0.figures.iter().find(|figure| figure.key == key)
    }

    fn required(&self, key: &str, expected: &str) -> Result<&Value, PartError> {
        match self.get(key) {
            Some(figure) => Ok(&figure.value),
            None => self.0.wrong(key, "nothing", expected),
        }
    }

    fn number(&self, key: &str, most: u32) -> Result<u32, PartError> {
        let expected = format!("an integer from 0 to {most}");
        let value = self.required(key, &expected)?;
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        match number.filter(|&number| number <= most) {
            Some(number) => Ok(number),
            None => self.0.wrong(key, value, expected),
        }
    }

    /// Microseconds, to the nanosecond.
    fn time(&self, key: &str) -> Result<Ns, PartError> {
        let expected = "microseconds above 0, at most 1e8";
        let value = self.required(key, expected)?;
        let us = value.as_float().or(value.as_integer().map(|us| us as f64));
        match us.filter(|us| (0.001..=1e8).contains(us)) {
            Some(us) => Ok(Ns((us * 1e3).round() as u64)),
            None => self.0.wrong(key, value, expected),
        }
    }

    fn bus(&self, kind: Kind) -> Result<BusMode, PartError> {
        let key = "nand.timing.bus";
        let value = self.required(key, BUS)?;
        match value.as_str().and_then(|word| bus(word, kind)) {
            Some(mode) => Ok(mode),
            None => self.0.wrong(key, value, format!("{BUS}; this part is of the kind {kind}")),
        }
    }

    fn id(&self) -> Result<Vec<u8>, PartError> {
        let Some(figure) = self.get("nand.id") else { return Ok(Vec::new()) };
        let byte = |value: &Value| value.as_integer().and_then(|byte| u8::try_from(byte).ok());
        let id: Option<Vec<u8>> = figure.value.as_array().and_then(|list| list.iter().map(byte).collect());
        match id.filter(|id| (1..=16).contains(&id.len())) {
            Some(id) => Ok(id),
            None => self.0.wrong("nand.id", &figure.value, "a list of 1 to 16 bytes"),
        }
    }
}

fn bus(word: &str, kind: Kind) -> Option<BusMode> {
    let (bus, mode) = word.rsplit_once('-')?;
    let pair = || {
        let (left, right) = mode.split_once('x')?;
        let (left, right) = (left.parse().ok()?, right.parse().ok()?);
        ((1..=10_000).contains(&left) && [1, 2, 4, 8].contains(&right)).then_some((left, right))
    };
    match (kind, bus) {
        (Kind::Slc | Kind::Mlc | Kind::Tlc, "sdr") => mode.parse().ok().map(BusMode::Sdr),
        (Kind::Slc | Kind::Mlc | Kind::Tlc, "nv-ddr") => mode.parse().ok().map(BusMode::NvDdr),
        (Kind::SpiNand | Kind::SpiNor, "spi") => pair().map(|(mhz, lanes)| BusMode::Spi { mhz, lanes }),
        (Kind::ParallelNor, "parallel") => {
            pair().map(|(cycle_ns, word_bytes)| BusMode::Parallel { cycle_ns, word_bytes })
        }
        _ => None,
    }
}
