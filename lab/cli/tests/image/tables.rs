//! `map`, `pebs` and `compare`, against what Linux says of flashes that it wrote: a fastmap is its own table of PEBs.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use sim::VolId;
use ubi::image::{Dump, FastmapLists, Overrides, Scan};
use ubi::media::{FmHdr, FmPool, FmSb, INTERNAL_VOLUME_START, crc};

use super::support::{Bench, noise, with_oob};

const PEB: usize = 128 << 10;

macro_rules! fixture {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../../../stack/ubi/tests/fixtures/small/", $name, ".bin.gz")))
    };
}

/// Flashes that Linux 6.12 detached cleanly.
const BY_LINUX: [(&str, &[u8]); 5] =
    [fixture!("nor"), fixture!("nand512"), fixture!("nand2048-sub"), fixture!("nand4096"), fixture!("nand16384")];

/// The flash and the lists of its fastmap.
fn by_linux(gz: &[u8]) -> (Vec<u8>, FastmapLists) {
    let mut bytes = Vec::new();
    GzDecoder::new(gz).read_to_end(&mut bytes).expect("a gzip file");
    let dump = Dump::probe(&bytes, &Overrides::default()).expect("UBI");
    let scan = Scan::new(&dump);
    let fastmap = scan.fastmap().expect("Linux wrote one");
    assert!(fastmap.is_valid());
    let lists = fastmap.lists.clone().expect("it is whole");
    (bytes, lists)
}

#[test]
fn the_map_is_that_of_the_kernels_fastmap() {
    let bench = Bench::new("tables-map");
    for (name, gz) in BY_LINUX {
        let (bytes, lists) = by_linux(gz);
        bench.put("flash.bin", bytes);
        let mut expected: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for volume in &lists.volumes {
            expected.extend(volume.mapped().map(|(lnum, peb)| ((volume.id().0, lnum.0), peb.0)));
        }
        let json = bench.run("map flash.bin --json").ended(0).json();
        let mut found: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for row in json["lebs"].as_array().unwrap() {
            let [volume, leb, peb] = ["volume", "leb", "peb"].map(|key| row[key].as_u64().unwrap() as u32);
            // The fastmap does not map its own blocks.
            if volume < INTERNAL_VOLUME_START || expected.contains_key(&(volume, leb)) {
                found.insert((volume, leb), peb);
            }
        }
        assert_eq!(found, expected, "{name}");
        assert!(found.len() > 10, "{name}: {} LEBs", found.len());
    }
}

#[test]
fn the_table_of_pebs_has_the_counters_of_the_kernels_fastmap() {
    let bench = Bench::new("tables-pebs");
    for (name, gz) in BY_LINUX {
        let (bytes, lists) = by_linux(gz);
        bench.put("flash.bin", bytes);
        let csv = bench.run("pebs flash.bin --csv").ended(0).stdout;
        let mut lines = csv.lines();
        assert_eq!(lines.next(), Some("peb,state,volume,name,leb,sqnum,erase_counter,file_offset"));
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
        for (list, peb, ec) in lists.listed() {
            let row = &rows[peb.at()];
            // What waited to be erased may have been, after the fastmap was written.
            let erased = if list == "erase" && row[6] != ec.0.to_string() { 1 } else { 0 };
            assert_eq!((row[0], row[6]), (&*peb.to_string(), &*(ec.0 + erased).to_string()), "{name}: {list}, {row:?}");
            let states: &[&str] = match list {
                "free" => &["free"],
                "used" | "scrub" => &["used"],
                _ => &["free", "stale", "used", "erased", "corrupt-ec", "corrupt-vid"],
            };
            assert!(states.contains(&row[1]), "{name}: {list} and {row:?}");
        }
        for (volume, (leb, peb)) in lists.volumes.iter().flat_map(|it| it.mapped().map(move |leb| (it.id(), leb))) {
            let row = &rows[peb.at()];
            assert_eq!((row[1], row[2], row[4]), ("used", &*volume.0.to_string(), &*leb.to_string()), "{name}");
        }
    }
}

#[test]
fn a_table_is_for_people_and_csv_for_programs() {
    let bench = Bench::with_image("tables-text");
    let map = bench.run("map u.ubi").ended(0).stdout;
    let lines: Vec<&str> = map.lines().collect();
    assert!(lines[0].contains("volume") && lines[0].contains("file offset"), "{map}");
    assert!(lines.iter().any(|line| line.contains("0x7fffefff") && line.contains("layout volume")), "{map}");
    let cells: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(cells, ["0", "rootfs", "0", "2", "0", "5", "262144"], "{map}");
    let csv = bench.run("map u.ubi --csv").ended(0).stdout;
    assert!(csv.contains("\r\n3,boot,1,6,0,5,786432\r\n2147479551,layout volume,0,0,0,5,0\r\n"), "{csv}");
    // A name is quoted where it must be.
    bench.put("u.ini", "[v]\nmode=ubi\nimage=boot.bin\nvol_id=0\nvol_name=\"a,b\"\n");
    bench.run("pack -p 128KiB -m 2048 -o q.ubi u.ini").ended(0);
    assert!(bench.run("map q.ubi --csv").ended(0).stdout.contains("0,\"a,b\",0,2,"));
    bench.run("map u.ubi --csv --json").ended(2);
    // Stale claims are told from the LEB itself.
    bench.change(|bytes| {
        let copy = bytes[2 * PEB..3 * PEB].to_vec();
        bytes.extend(copy);
    });
    let pebs = bench.run("pebs u.ubi --csv").ended(0).stdout;
    assert!(pebs.contains("\r\n2,used,0,rootfs,0,") && pebs.contains("\r\n7,stale,0,rootfs,0,"), "{pebs}");
}

/// Linux wrote the flash, and both files hold it.
#[test]
fn what_is_equal_is_called_equal() {
    let bench = Bench::new("tables-equal");
    let (bytes, _) = by_linux(BY_LINUX[1].1);
    bench.put("oob.bin", with_oob(&bytes, 512, &[0xff; 16]));
    bench.put("flash.bin", bytes);
    for pair in ["flash.bin flash.bin", "flash.bin oob.bin", "oob.bin flash.bin"] {
        let ran = bench.run(&format!("compare {pair}")).ended(0);
        assert!(ran.stdout.ends_with("are equal\n"), "{}", ran.stdout);
    }
    let json = bench.run("compare flash.bin oob.bin --json").ended(0).json();
    assert_eq!((&json["equal"], json["differences"].as_array().unwrap().len()), (&true.into(), 0));
}

/// Our packer and `ubinize` make the same; one byte, another counter and another number are found.
#[test]
fn what_differs_is_named() {
    let bench = Bench::with_image("tables-differ");
    bench.ubinize("-p 128KiB -m 2048 -Q 2 -e 9 -o other.ubi u.ini").ended(0);
    bench.run("compare u.ubi other.ubi --volumes").ended(0);
    let ran = bench.run("compare u.ubi other.ubi").ended(1);
    for expected in [
        "image-seq\n  A: 0x00000001\n  B: 0x00000002\n",
        "erase-counters: 7 PEBs: 0-6\n  A: sum 35, min 5, max 5 over 7 PEBs\n  B: sum 63, min 9, max 9 over 7 PEBs\n",
        "u.ubi (A) and other.ubi (B): 2 differences\n",
    ] {
        assert!(ran.stdout.contains(expected), "{}\nexpected {expected}", ran.stdout);
    }
    let mut bytes = bench.get("other.ubi");
    bytes[3 * PEB + 4096 + 77] ^= 0xff;
    bytes[5 * PEB + 4096] ^= 0xff;
    bench.put("other.ubi", bytes);
    let json = bench.run("compare u.ubi other.ubi --volumes --json").ended(1).json();
    let found = json["differences"].as_array().unwrap();
    let of =
        |at: usize| (found[at]["aspect"].as_str().unwrap(), found[at]["volume"].as_u64(), found[at]["lebs"].clone());
    assert_eq!(found.len(), 2, "{json}");
    assert_eq!(of(0), ("contents", Some(0), serde_json::json!([1])));
    assert_eq!(of(1), ("contents", Some(3), serde_json::json!([0])));
    assert!(found[0]["a"].as_str().unwrap().ends_with(" at byte 77"), "{json}");
    bench.put("more.bin", noise(1000, 3));
    let ini = std::fs::read_to_string(bench.dir.join("u.ini")).unwrap();
    bench.put(
        "u.ini",
        ini.replace("vol_name=boot", "vol_name=loader") + "[more]\nmode=ubi\nimage=more.bin\nvol_id=5\nvol_name=more\n",
    );
    bench.ubinize("-p 128KiB -m 2048 -Q 1 -e 5 -o more.ubi u.ini").ended(0);
    let ran = bench.run("compare u.ubi more.ubi").ended(1);
    assert!(ran.stdout.contains("name volume 3 (boot)\n  A: \"boot\"\n  B: \"loader\"\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("volume volume 5 (more)\n  A: missing\n  B: \"more\", dynamic"), "{}", ran.stdout);
    bench.put("no.bin", noise(1000, 4));
    bench.run("compare u.ubi no.bin").refused("no.bin: found other data");
}

/// The document's LEBs are numbers of the volume that it names.
#[test]
fn internal_volumes_have_names() {
    let bench = Bench::new("tables-internal");
    let (bytes, lists) = by_linux(BY_LINUX[3].1);
    bench.put("flash.bin", bytes);
    let json = bench.run("map flash.bin --json").ended(0).json();
    let rows = json["lebs"].as_array().unwrap();
    let named = |name: &str| rows.iter().filter(|row| row["name"] == name).count();
    assert_eq!((named("layout volume"), named("fastmap super block")), (2, 1));
    assert!(lists.volumes.iter().any(|volume| volume.id() == VolId(0x7fff_efff)));
}

/// Linux's flash with one more bad block, as `nanddump --bb=skipbad` would write it: a free PEB is taken out of the list of
/// Linux's fastmap and counted as bad, and the dump leaves it out. The map is then that of the flash, not of the dump.
#[test]
fn the_kernels_fastmap_tells_which_block_a_dump_leaves_out() {
    const FREE_AT: usize = FmSb::BYTES + FmHdr::BYTES + 2 * FmPool::BYTES;
    let bench = Bench::new("tables-skipbad");
    for (name, gz) in &BY_LINUX[1..] {
        let (mut bytes, lists) = by_linux(gz);
        bench.put("flash.bin", &bytes);
        let dump = Dump::probe(&bytes, &Overrides::default()).unwrap();
        let geometry = dump.geometry().clone();
        let anchor = Scan::new(&dump).fastmap().unwrap().anchor;
        let (peb_bytes, data_at) = (geometry.peb_bytes as usize, geometry.data_offset as usize);
        let stream = &mut bytes[anchor.at() * peb_bytes..][data_at..peb_bytes];
        let (index, bad) = lists.free.iter().enumerate().map(|(at, (peb, _))| (at, peb.0)).nth(3).expect("a free PEB");
        let entry = FREE_AT + 8 * index;
        stream.copy_within(entry + 8.., entry);
        for (field, value) in [(4, lists.free.len() as u32 - 1), (16, lists.hdr.bad + 1)] {
            stream[FmSb::BYTES + field..][..4].copy_from_slice(&value.to_be_bytes());
        }
        stream[FmSb::DATA_CRC_AT..][..4].fill(0);
        let sum = crc(stream).to_be_bytes();
        stream[FmSb::DATA_CRC_AT..][..4].copy_from_slice(&sum);
        bytes.drain(bad as usize * peb_bytes..(bad as usize + 1) * peb_bytes);
        bench.put("skipped.bin", bytes);
        let without_places = |csv: &str| -> Vec<String> {
            csv.lines().map(|line| line.rsplit_once(',').expect("columns").0.to_owned()).collect()
        };
        let expected = without_places(&bench.run("map flash.bin --csv").ended(0).stdout);
        let ran = bench.run("map skipped.bin --bad-blocks skipbad --csv").ended(0);
        assert_eq!(without_places(&ran.stdout), expected, "{name}");
        assert!(ran.stderr.contains(&format!("by its fastmap: {bad}\n")), "{name}: {}", ran.stderr);
        let json = bench.run("info skipped.bin --bad-blocks skipbad --json").ended(0).json();
        assert_eq!((&json["fastmap"]["valid"], &json["pebs"]["bad"]), (&true.into(), &1.into()), "{name}");
        let json = bench.run("info skipped.bin --json").ended(0).json();
        assert_eq!(json["fastmap"]["valid"], false, "{name}: without the option");
    }
}
