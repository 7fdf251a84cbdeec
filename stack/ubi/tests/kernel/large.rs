//! Flashes written by Linux 6.12.117, with UBIFS, a fastmap and a power cut at the end, compared with what the same
//! kernel printed when it attached them again: erase counters (`detailed_erase_block_info`), volumes, SHA-1 of their
//! contents.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use nand::{Array, ArrayConfig, Bytes};
use sim::seam::{Geometry, LebVolume, Medium};
use sim::{Cx, Lnum, Peb};
use ubi::attach::{AttachedBy, FastmapUnusable, attach_by_fastmap, attach_by_scan, compare};
use ubi::image::{Class, Dump, Overrides, Scan, Severity, check};
use ubi::layout::Layout;
use ubi::media::{FmSb, VolType, crc};
use ubi::{Config, Policy, Ubi};

/// A flash, and the kernel's output about it.
struct Flash {
    name: &'static str,
    geometry: Geometry,
    gz: &'static [u8],
    pebs: &'static str,
    volumes: &'static str,
}

const FLASHES: [Flash; 2] = [
    Flash {
        name: "kc2",
        geometry: Geometry {
            medium: Medium::Nand,
            pebs: 400,
            peb_bytes: 128 << 10,
            page_bytes: 2048,
            subpage_bytes: 512,
            oob_bytes: 64,
        },
        gz: include_bytes!("../fixtures/kc2.bin.gz"),
        pebs: include_str!("../fixtures/kc2.pebs.txt"),
        volumes: include_str!("../fixtures/kc2.volumes.txt"),
    },
    Flash {
        name: "kc24",
        geometry: Geometry {
            medium: Medium::Nor,
            pebs: 500,
            peb_bytes: 64 << 10,
            page_bytes: 1,
            subpage_bytes: 1,
            oob_bytes: 0,
        },
        gz: include_bytes!("../fixtures/kc24.bin.gz"),
        pebs: include_str!("../fixtures/kc24.pebs.txt"),
        volumes: include_str!("../fixtures/kc24.volumes.txt"),
    },
];

/// A volume in the kernel's output.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    name: String,
    vol_type: String,
    reserved: u32,
    usable: u32,
    bytes: u64,
    alignment: u32,
    sha: String,
}

impl Flash {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        GzDecoder::new(self.gz).read_to_end(&mut bytes).expect("a gzip file");
        assert_eq!(bytes.len() as u64, self.geometry.bytes());
        bytes
    }

    fn array(&self, bytes: &[u8]) -> Array<Bytes> {
        Array::load(ArrayConfig::plain(self.geometry), bytes, false).expect("of the right length")
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.geometry, None).expect("a layout")
    }

    /// The kernel's erase counter of each PEB.
    fn erase_counts(&self) -> Vec<u32> {
        let lines = self.pebs.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let pairs = lines.map(|words| (words[0].parse::<usize>().unwrap(), words[1].parse().unwrap()));
        pairs.enumerate().map(|(i, (peb, ec))| if peb == i { ec } else { panic!("PEB {i} is missing") }).collect()
    }

    fn said(&self) -> BTreeMap<u32, Said> {
        let volume = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let value = |key: &str| {
                let found = words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
                found.unwrap_or_else(|| panic!("{key} in {line}"))
            };
            assert_eq!((value("corrupted"), value("upd")), ("0", "0"));
            let said = Said {
                name: value("name").to_owned(),
                vol_type: value("type").to_owned(),
                reserved: value("res").parse().unwrap(),
                usable: value("usable").parse().unwrap(),
                bytes: value("bytes").parse().unwrap(),
                alignment: value("align").parse().unwrap(),
                sha: value("sha").to_owned(),
            };
            (words[1].strip_prefix("ubi0_").unwrap().parse().unwrap(), said)
        };
        self.volumes.lines().map(volume).collect()
    }
}

/// What this crate finds about the volumes of an attached flash, in the same form.
fn volumes(ubi: &mut Ubi<Array<Bytes>>) -> BTreeMap<u32, Said> {
    let infos: Vec<_> = ubi.volume_infos().collect();
    let cx = &mut Cx::new();
    let mut said = BTreeMap::new();
    for info in infos {
        let mut contents = vec![0; info.data_bytes as usize];
        let mut volume = ubi.volume(info.vol_id).expect("it exists");
        for (lnum, leb) in (0..).map(Lnum).zip(contents.chunks_mut(info.leb_bytes as usize)) {
            volume.read(cx, lnum, 0, leb).expect("it is readable");
        }
        let volume = Said {
            name: String::from_utf8(info.record.name).unwrap(),
            vol_type: info.record.vol_type.name().to_owned(),
            reserved: info.record.reserved_pebs,
            usable: info.leb_bytes,
            bytes: info.data_bytes,
            alignment: info.record.alignment,
            sha: sha1_smol::Sha1::from(&contents).digest().to_string(),
        };
        said.insert(info.vol_id.0, volume);
    }
    said
}

#[test]
fn a_kernels_flash_attaches_by_fastmap_and_by_scan_and_both_are_right() {
    for flash in &FLASHES {
        let bytes = flash.bytes();
        let mut array = flash.array(&bytes);
        let cx = &mut Cx::new();
        let by_fastmap = attach_by_fastmap(&mut array, cx, &flash.layout()).unwrap_or_else(|why| panic!("{why}"));
        let by_scan = attach_by_scan(&mut array, cx, &flash.layout()).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(compare(&by_scan, &by_fastmap), Vec::<String>::new(), "{}", flash.name);
        // The fastmap's counts may be older, as `compare` allows; a scan's are current.
        let counts: Vec<u32> = by_scan.erase_counts.iter().map(|ec| ec.0).collect();
        assert_eq!(counts, flash.erase_counts(), "{}", flash.name);
    }
}

#[test]
fn the_volumes_of_a_kernels_flash_are_those_that_the_kernel_found() {
    for flash in &FLASHES {
        let bytes = flash.bytes();
        for fastmap in [true, false] {
            let config = Config { fastmap, ..Config::linux(Policy::LINUX_6_7) };
            let Ok(mut ubi) = Ubi::attach(flash.array(&bytes), &mut Cx::new(), &config) else {
                panic!("{} does not attach", flash.name);
            };
            assert_eq!(*ubi.attached_by() == AttachedBy::Fastmap, fastmap, "{}", flash.name);
            assert_eq!(volumes(&mut ubi), flash.said(), "{}, fastmap {fastmap}", flash.name);
        }
    }
}

#[test]
fn check_finds_no_error_on_a_flash_that_the_kernel_attaches() {
    for flash in &FLASHES {
        let bytes = flash.bytes();
        let dump = Dump::probe(&bytes, &Overrides::default()).expect("UBI");
        let scan = Scan::new(&dump);
        assert!(scan.fastmap().is_some_and(|fastmap| fastmap.is_valid()), "{}", flash.name);
        let errors: Vec<_> = check(&scan).into_iter().filter(|it| it.severity == Severity::Error).collect();
        assert_eq!(errors, [], "{}", flash.name);
    }
}

/// With 1 and 2 instead of 3 and 4 and right checksums, Linux refuses the device.
#[test]
fn volume_types_of_the_volume_table_in_a_kernels_fastmap_are_named_and_not_trusted() {
    let flash = &FLASHES[0];
    let layout = flash.layout();
    let mut bytes = flash.bytes();
    let sound =
        attach_by_fastmap(&mut flash.array(&bytes), &mut Cx::new(), &layout).unwrap_or_else(|why| panic!("{why}"));
    let [anchor] = sound.fastmap_blocks[..] else { panic!("a fastmap of one block") };
    let data_at = anchor.at() * flash.geometry.peb_bytes as usize + layout.data_offset as usize;
    let stream = &mut bytes[data_at..][..layout.leb_bytes as usize];
    let magic = 0xfa37_0ed1_u32.to_be_bytes();
    let hdrs: Vec<usize> = (0..stream.len()).step_by(4).filter(|&at| stream[at..at + 4] == magic).collect();
    assert_eq!(hdrs.len(), flash.said().len() + 1, "the layout volume too");
    let types: Vec<u8> = hdrs.iter().map(|at| stream[at + 8]).collect();
    assert_eq!(types, [3, 4, 3, 3, 3, 3], "what the kernel wrote");
    hdrs.iter().for_each(|at| stream[at + 8] -= 2);
    stream[FmSb::DATA_CRC_AT..][..4].fill(0);
    let sum = crc(stream);
    stream[FmSb::DATA_CRC_AT..][..4].copy_from_slice(&sum.to_be_bytes());

    let offset = layout.data_offset + hdrs[0] as u32 + 8;
    let why = "vol_type = 1, expected 3 (dynamic) or 4 (static)";
    match attach_by_fastmap(&mut flash.array(&bytes), &mut Cx::new(), &layout) {
        Err(unusable) => assert_eq!(unusable, FastmapUnusable::Invalid { peb: anchor, offset, why: why.to_owned() }),
        Ok(_) => panic!("attached by a fastmap that Linux refuses"),
    }
    let dump = Dump::probe(&bytes, &Overrides::default()).expect("UBI");
    let mut found: Vec<_> = check(&Scan::new(&dump)).into_iter().filter(|it| it.severity == Severity::Error).collect();
    assert_eq!(found.pop().map(|it| it.class), Some(Class::LinuxRefuses));
    let place = |at: &usize| (Class::FastmapInvalid, Some(anchor), Some(layout.data_offset + *at as u32 + 8));
    let places: Vec<(Class, Option<Peb>, Option<u32>)> = found.iter().map(|it| (it.class, it.peb, it.offset)).collect();
    assert_eq!(places, hdrs.iter().map(place).collect::<Vec<_>>());
    assert_eq!(found[0].what, format!("fastmap: volume 0: {why}; Linux refuses to attach"));
    assert!(found[1].what.contains("volume 1: vol_type = 2, expected 3"), "{}", found[1].what);
    assert_eq!(sound.volumes[1].as_ref().map(|volume| volume.record.vol_type), Some(VolType::Static));
}
