//! Bytes written to the volume, by what they are for.

use std::ops::{Index, IndexMut};

/// What is written to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Part {
    /// Data nodes of the data head: headers, and data after compression.
    Data,
    /// Nodes of the base head: inodes, entries and truncations, with the last block of a file that was cut.
    Inodes,
    /// Nodes that garbage collection moved.
    Moved,
    /// What fills write buffers up to write units.
    Padding,
    /// The log, in whole write units.
    Log,
    /// Index nodes, in whole write units; a LEB whose gaps were filled counts whole.
    Index,
    /// LEB properties, in whole write units.
    Lpt,
    /// Orphans, in whole write units.
    Orphans,
    /// Master nodes, in whole write units.
    Master,
    /// What a mount writes to recover, and the super block.
    Mount,
}

impl Part {
    /// Every part, in the order of reports.
    pub const ALL: [Part; 10] = [
        Part::Data,
        Part::Inodes,
        Part::Moved,
        Part::Padding,
        Part::Log,
        Part::Index,
        Part::Lpt,
        Part::Orphans,
        Part::Master,
        Part::Mount,
    ];

    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Data => "data",
            Part::Inodes => "inodes",
            Part::Moved => "moved",
            Part::Padding => "padding",
            Part::Log => "log",
            Part::Index => "index",
            Part::Lpt => "lpt",
            Part::Orphans => "orphans",
            Part::Master => "master",
            Part::Mount => "mount",
        }
    }
}

/// Bytes by part. What waits in a write buffer does not count yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written([u64; Part::ALL.len()]);

impl Written {
    /// Parts with bytes, in the order of reports.
    pub fn nonzero(&self) -> impl Iterator<Item = (Part, u64)> + '_ {
        Part::ALL.into_iter().map(|part| (part, self[part])).filter(|&(_, bytes)| bytes > 0)
    }

    /// Bytes since `before`, an earlier state of the same counts.
    pub fn since(&self, before: &Written) -> Written {
        Written(std::array::from_fn(|part| self.0[part] - before.0[part]))
    }
}

impl Index<Part> for Written {
    type Output = u64;
    fn index(&self, part: Part) -> &u64 {
        &self.0[part as usize]
    }
}

impl IndexMut<Part> for Written {
    fn index_mut(&mut self, part: Part) -> &mut u64 {
        &mut self.0[part as usize]
    }
}
