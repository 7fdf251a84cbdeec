//! Flash parts and drives as data: one TOML file a part, each value beside its source.
//!
//! Knows how such a file is written and what its values mean. Does not know any folder: the files of `parts/` are
//! embedded, and a user's own arrive as text. The format is described in `docs/format/parts.md`.
//!
//! Invariants: names and aliases are unique, letters' case apart; every value has a provenance; every flash part makes a
//! valid `nand::ArrayConfig`; every drive makes a drive, its values over the schema's defaults, which are those of `base`.

mod drive;
mod embedded;
mod error;
mod nand;
mod read;
mod use_of;

use std::sync::OnceLock;

pub use drive::DrivePart;
pub use embedded::FILES;
pub use error::PartError;
pub use nand::{Kind, NandPart};
pub use read::{Figure, Head, Provenance};
pub use use_of::{PartUse, RecalledFigure};

/// The drive whose values are the defaults of the schema.
pub const BASE: &str = "base";

/// Most parts that a library holds.
pub const MOST_PARTS: usize = 4096;

/// A part of either kind.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A flash part.
    Nand(&'a NandPart),
    /// A drive.
    Drive(&'a DrivePart),
}

impl<'a> Part<'a> {
    /// Name, title, and the values of its file.
    pub fn head(self) -> &'a Head {
        match self {
            Part::Nand(part) => &part.head,
            Part::Drive(part) => &part.head,
        }
    }

    /// `drive`, or the kind of flash as a file writes it: `slc`, `spi-nor`.
    pub fn kind(self) -> &'static str {
        match self {
            Part::Nand(part) => part.kind.word(),
            Part::Drive(_) => "drive",
        }
    }
}

/// Every part that is known, the embedded ones before a user's own.
#[derive(Clone, Debug, Default)]
pub struct Library {
    nand: Vec<NandPart>,
    drives: Vec<DrivePart>,
}

impl Library {
    /// The parts that nandlab brings along, read at the first call. A clone takes a user's own.
    pub fn embedded() -> &'static Library {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            let mut library = Library::default();
            for (file, text) in FILES {
                // A test builds each; here that would be time of every start.
                library.read(file, text).unwrap_or_else(|error| panic!("an embedded part is wrong: {error}"));
            }
            library
        })
    }

    /// Reads a part and checks that it makes a device; `file` is named in errors only.
    /// Errors: what is wrong with the file, or a name that another part has.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), PartError> {
        let drives = self.drives.len();
        self.read(file, text)?;
        self.drives[drives..].iter().try_for_each(DrivePart::build).inspect_err(|_| self.drives.truncate(drives))
    }

    fn read(&mut self, file: &str, text: &str) -> Result<(), PartError> {
        let source = read::Source::parse(file, text)?;
        for name in source.head.names() {
            if let Some(part) = self.get(name) {
                let found = format!("{name:?}, which {} has", part.head().file);
                return Err(PartError::value(file, "name", found, "a name that no other part has"));
            }
        }
        if self.nand.len() + self.drives.len() >= MOST_PARTS {
            return Err(PartError::value(file, "name", "one part more", format!("at most {MOST_PARTS} parts")));
        }
        if source.is_drive {
            self.drives.push(DrivePart::read(source)?);
        } else {
            self.nand.push(NandPart::read(source)?);
        }
        Ok(())
    }

    /// Every part: flash, then drives, in the order of their names as they were added.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.nand.iter().map(Part::Nand).chain(self.drives.iter().map(Part::Drive))
    }

    fn get(&self, name: &str) -> Option<Part<'_>> {
        self.parts().find(|part| part.head().answers_to(name))
    }

    /// The part of that name or alias; case does not matter.
    /// Errors: there is none; the nearest names.
    pub fn part(&self, name: &str) -> Result<Part<'_>, PartError> {
        self.get(name).ok_or_else(|| PartError::unknown("part", name, self.parts()))
    }

    /// The flash part of that name.
    /// Errors: as [`part`](Self::part); a drive is none.
    pub fn nand(&self, name: &str) -> Result<&NandPart, PartError> {
        let found = self.nand.iter().find(|part| part.head.answers_to(name));
        found.ok_or_else(|| PartError::unknown("flash part", name, self.nand.iter().map(Part::Nand)))
    }

    /// The drive of that name.
    /// Errors: as [`part`](Self::part); a flash part is none.
    pub fn drive(&self, name: &str) -> Result<&DrivePart, PartError> {
        let found = self.drives.iter().find(|part| part.head.answers_to(name));
        found.ok_or_else(|| PartError::unknown("drive", name, self.drives.iter().map(Part::Drive)))
    }

    /// The values that `part` does not give itself and takes from the drive `base`; none for a flash part.
    pub fn from_base<'a>(&'a self, part: Part<'a>) -> impl Iterator<Item = &'a Figure> {
        let base = self.drives.iter().find(|drive| drive.head.name == BASE);
        let below = base.filter(|_| matches!(part, Part::Drive(_))).map_or(&[][..], |base| &base.head.figures);
        let own = &part.head().figures;
        below.iter().filter(move |figure| !own.iter().any(|other| drive::replaces(&other.key, &figure.key)))
    }
}
