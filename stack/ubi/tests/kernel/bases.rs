//! Small flashes that Linux 6.12.117 wrote (`.ci/kernel-ubi write` and `torn`), in several geometries.

use std::io::Read;

use flate2::read::GzDecoder;
use sim::seam::{Geometry, Medium};

use crate::mutations::{Base, Mutation};

/// A flash by Linux, and Linux's verdicts on it and on its mutations.
pub struct Small {
    pub name: &'static str,
    pub geometry: Geometry,
    gz: &'static [u8],
    #[allow(dead_code, reason = "the example does not read them")]
    verdicts_gz: &'static [u8],
    /// Whether its fields were changed; else only the flash itself was tried.
    is_mutated: bool,
    /// Erase counter of each PEB as Linux had it when it attached, where that is recorded.
    #[allow(dead_code, reason = "the example does not read them")]
    pub counters: Option<&'static str>,
}

macro_rules! small {
    ($name:literal, $medium:ident, $pebs:literal, $peb_bytes:literal, $page:literal, $sub:literal, $mutated:literal) => {
        Small {
            name: $name,
            geometry: Geometry {
                medium: Medium::$medium,
                pebs: $pebs,
                peb_bytes: $peb_bytes,
                page_bytes: $page,
                subpage_bytes: $sub,
                oob_bytes: 0,
            },
            gz: include_bytes!(concat!("../fixtures/small/", $name, ".bin.gz")),
            verdicts_gz: include_bytes!(concat!("../fixtures/small/", $name, ".tsv.gz")),
            is_mutated: $mutated,
            counters: None,
        }
    };
}

/// A flash that was left attached or lost power, with the counters that Linux found (`.ci/kernel-ubi torn`).
macro_rules! left {
    ($name:literal, $medium:ident, $pebs:literal, $peb_bytes:literal, $page:literal, $sub:literal) => {
        Small {
            counters: Some(include_str!(concat!("../fixtures/small/", $name, ".counters.txt"))),
            ..small!($name, $medium, $pebs, $peb_bytes, $page, $sub, false)
        }
    };
}

/// The rows are those of `.ci/kernel-ubi`.
pub const SMALL: [Small; 19] = [
    small!("nor", Nor, 80, 16384, 1, 1, false),
    small!("nor-idle", Nor, 80, 16384, 1, 1, false),
    small!("nand512", Nand, 80, 16384, 512, 512, false),
    small!("nand512-idle", Nand, 80, 16384, 512, 512, true),
    small!("nand512-two", Nand, 96, 8192, 512, 512, false),
    small!("nand2048-sub", Nand, 72, 16384, 2048, 512, true),
    small!("nand2048-sub-idle", Nand, 72, 16384, 2048, 512, false),
    small!("nand2048", Nand, 72, 32768, 2048, 2048, false),
    small!("nand4096", Nand, 68, 32768, 4096, 4096, false),
    small!("nand16384", Nand, 68, 131072, 16384, 16384, false),
    left!("nor-torn-erase", Nor, 80, 16384, 1, 1),
    left!("nor-torn-fastmap", Nor, 80, 16384, 1, 1),
    left!("nor-torn-update", Nor, 80, 16384, 1, 1),
    left!("nor-64k-updated", Nor, 70, 65536, 1, 1),
    left!("nand512-torn-pool", Nand, 80, 16384, 512, 512),
    left!("nand512-torn-counter", Nand, 80, 16384, 512, 512),
    left!("nand2048-sub-torn-erase", Nand, 72, 16384, 2048, 512),
    left!("nand2048-torn-table", Nand, 72, 32768, 2048, 2048),
    left!("nand4096-torn-fastmap", Nand, 68, 32768, 4096, 4096),
];

fn unpacked(gz: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(gz).read_to_end(&mut bytes).expect("a gzip file");
    bytes
}

impl Small {
    pub fn bytes(&self) -> Vec<u8> {
        let bytes = unpacked(self.gz);
        assert_eq!(bytes.len() as u64, self.geometry.bytes());
        bytes
    }

    /// The rows that `.ci/kernel-ubi record` wrote.
    #[allow(dead_code, reason = "the example does not read them")]
    pub fn verdicts(&self) -> String {
        String::from_utf8(unpacked(self.verdicts_gz)).expect("text")
    }

    /// Whether power was cut in the middle of a program or erase.
    #[allow(dead_code, reason = "the example asks for no verdict")]
    pub fn is_torn(&self) -> bool {
        self.name.contains("-torn-")
    }

    /// What was tried: the flash itself, and its mutations.
    pub fn tried(&self, base: &Base<'_>) -> Vec<Mutation> {
        if self.is_mutated { base.mutations() } else { vec![Mutation::none()] }
    }

    /// The flash as its mutations see it.
    pub fn base<'a>(&self, bytes: &'a [u8]) -> Base<'a> {
        let Geometry { peb_bytes, page_bytes, subpage_bytes, .. } = self.geometry;
        let vid_at = subpage_bytes.max(64) as usize;
        Base {
            bytes,
            peb_bytes: peb_bytes as usize,
            vid_at,
            data_at: (vid_at + 64).next_multiple_of(page_bytes as usize),
        }
    }
}
