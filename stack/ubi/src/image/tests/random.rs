//! Any input: nothing panics, and no result exceeds the dump.

use proptest::prelude::*;

use super::*;

fn read_everything(bytes: &[u8], given: &Overrides) {
    let pieces = input::Pieces::new(bytes);
    let read = Dump::probe_input(&pieces, given);
    let dump = match Dump::probe(bytes, given) {
        Ok(dump) => dump,
        Err(error) => return assert_eq!(read.map(|_| ()), Err(error)),
    };
    let scan = Scan::new(&dump);
    let findings = check(&scan);
    assert_eq!(check(&Scan::new(&read.expect("as in memory"))), findings);
    for device in scan.devices() {
        let given = Overrides { image_seq: Some(device.image_seq), ..*given };
        if let Ok(dump) = Dump::probe(bytes, &given) {
            assert!(u64::from(dump.geometry().pebs) * u64::from(dump.geometry().raw_peb_bytes()) <= dump.len());
            check(&Scan::new(&dump));
        }
    }
    if let Ok(dump) = dump.clone().with_bad_blocks(&BadBlocks::Skipped(None)) {
        check(&Scan::new(&dump));
    }
    for finding in findings {
        if let (Some(peb), Some(offset)) = (finding.peb, finding.offset) {
            assert!(dump.file_offset(peb, offset) <= dump.len(), "{finding:?}");
        }
    }
    scan.wear();
    let limit = u64::from(scan.believable_lebs()) * u64::from(dump.geometry().leb_bytes());
    for volume in scan.volumes() {
        assert!(volume.data_bytes <= limit);
        for damaged in [false, true] {
            let Ok(contents) = scan.contents(volume.id, damaged) else { continue };
            let usable = u64::from(volume.usable_leb_bytes);
            let given = contents.lebs().map(|leb| leb.map_or(usable, |leb| leb.len() as u64)).sum::<u64>();
            assert_eq!(given, contents.bytes());
        }
    }
}

/// A PEB, an offset in it, the byte to write, and whether to correct the checksum of a header that it hits.
fn changes() -> impl Strategy<Value = Vec<(usize, usize, u8, bool)>> {
    let place = prop_oneof![0..64usize, VID_AT..VID_AT + 64, DATA_AT..DATA_AT + 6000, 0..PEB_BYTES];
    prop::collection::vec((0..PEBS, place, any::<u8>(), any::<bool>()), 1..12)
}

fn damaged(changes: Vec<(usize, usize, u8, bool)>, cut: usize) -> Vec<u8> {
    let mut flash = Flash::new();
    for (peb, at, byte, mend) in changes {
        let peb = flash.peb(peb);
        peb[at] = byte;
        for header in [0, VID_AT] {
            if mend && (header..header + 60).contains(&at) {
                let sum = crc(&peb[header..header + 60]).to_be_bytes();
                peb[header + 60..header + 64].copy_from_slice(&sum);
            }
        }
    }
    flash.bytes.truncate(PEBS * PEB_BYTES - cut);
    flash.bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_flash_is_read(changes in changes(), cut in prop_oneof![Just(0), 0..PEB_BYTES]) {
        read_everything(&damaged(changes, cut), &Overrides::default());
    }

    #[test]
    fn a_lying_fastmap_is_read(
        words in prop::collection::vec((0..3000usize, prop_oneof![Just(u32::MAX), 0..40u32, any::<u32>()]), 1..6),
    ) {
        let mut flash = Flash::new();
        flash.put_fastmap(|stream| {
            for (word, value) in words {
                stream[word * 4..][..4].copy_from_slice(&value.to_be_bytes());
            }
        });
        read_everything(&flash.bytes, &Overrides::default());
    }

    #[test]
    fn random_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        read_everything(&bytes, &Overrides::default());
    }

    /// Headers at random offsets, so that any distance occurs.
    #[test]
    fn random_headers_are_read(
        places in prop::collection::vec((0..60_000usize, any::<u64>(), 0..9000u32, 0..9000u32), 1..40),
        peb_bytes in prop::option::of(0..70_000u32),
        oob_bytes in prop::option::of(0..300u32),
    ) {
        let mut bytes = vec![0xff; 64 << 10];
        for (at, number, vid_hdr_offset, data_offset) in places {
            let hdr = EcHdr { ec: number & 0x7fff_ffff, vid_hdr_offset, data_offset, image_seq: number as u32 };
            bytes[at..at + 64].copy_from_slice(&hdr.encode());
            let sqnum = number >> 40;
            let hdr = vid(VolType::Dynamic, (number >> 8) as u32 & 0x7fff_ffff, number as u32 & 0xff, sqnum);
            let at = at + vid_hdr_offset as usize;
            if let Some(place) = bytes.get_mut(at..at + 64) {
                place.copy_from_slice(&hdr.encode());
            }
        }
        read_everything(&bytes, &Overrides { peb_bytes, oob_bytes, ..Overrides::default() });
        read_everything(&bytes, &Overrides::default());
    }

    #[test]
    fn any_ini_file_is_read(text in prop::collection::vec(prop_oneof![
        Just("[v]"), Just("\n"), Just("mode=ubi"), Just("vol_id="), Just("0"), Just("vol_name="), Just("\""), Just("\\"),
        Just(";"), Just("="), Just("]"), Just("vol_size=1GiB"), Just("9999999999999999999999"), Just(" "),
    ], 0..30)) {
        let _ = ini::parse(text.concat().as_bytes());
    }
}
