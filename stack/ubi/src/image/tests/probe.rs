//! Guessing the geometry of dumps.

use super::*;

fn probe(bytes: &[u8]) -> Result<Geometry, ProbeError> {
    Dump::probe(bytes, &Overrides::default()).map(|dump| dump.geometry().clone())
}

#[test]
fn the_shape_is_found_without_help() {
    let geometry = probe(&Flash::new().bytes).unwrap();
    assert_eq!((geometry.peb_bytes, geometry.pebs, geometry.start), (PEB_BYTES as u32, PEBS as u32, 0));
    assert_eq!((geometry.vid_hdr_offset, geometry.data_offset, geometry.min_io_bytes), (512, 1024, 512));
    assert_eq!((geometry.ec_headers, geometry.oob, geometry.partial_bytes), (79, None, 0));
}

#[test]
fn oob_is_found_and_taken_out() {
    let flash = Flash::new();
    for (page_bytes, oob_bytes) in [(512, 16), (2048, 64), (2048, 128), (4096, 128), (4096, 224), (4096, 256)] {
        for filling in [0xff, 0xec] {
            let mut oob = vec![filling; oob_bytes];
            oob[..6].fill(0xff);
            let dump = with_oob(&flash.bytes, page_bytes, &oob);
            let found = Dump::probe(&dump, &Overrides::default()).unwrap();
            let expected = Oob { page_bytes: page_bytes as u32, oob_bytes: oob_bytes as u32 };
            assert_eq!(found.geometry().oob, Some(expected), "filling {filling:#x}");
            assert_eq!(check(&Scan::new(&found)), vec![]);
            for peb in 0..PEBS {
                assert_eq!(found.peb(Peb(peb as u32)), &flash.bytes[peb * PEB_BYTES..][..PEB_BYTES]);
            }
            let at = found.file_offset(Peb(3), 5000) as usize;
            assert_eq!(dump[at], flash.bytes[3 * PEB_BYTES + 5000]);
            let in_peb = 5000 + 5000 / page_bytes * oob_bytes;
            assert_eq!(found.peb_at(at as u64), Some((Peb(3), in_peb as u32)));
        }
    }
}

#[test]
fn marked_blocks_are_bad_unless_most_are() {
    let mut flash = Flash::new();
    flash.peb(20)[9999] = 0;
    let dump = with_oob(&flash.bytes, 2048, &[0xff; 64]);
    let states = |marked: &[usize]| {
        let mut dump = dump.clone();
        for peb in marked {
            dump[peb * (PEB_BYTES + 8 * 64) + 2048] = 0;
        }
        let dump = Dump::probe(&dump, &Overrides::default()).unwrap();
        let scan = Scan::new(&dump);
        (scan.counts().bad, scan.bad_markers())
    };
    assert_eq!(states(&[11]), (1, (1, true)));
    assert_eq!(states(&(8..24).collect::<Vec<_>>()), (0, (16, false)));
}

#[test]
fn a_cut_dump_keeps_its_whole_pebs() {
    let mut flash = Flash::new();
    flash.bytes.truncate(20 * PEB_BYTES + 500);
    let geometry = probe(&flash.bytes).unwrap();
    assert_eq!((geometry.pebs, geometry.partial_bytes, geometry.missing_bytes()), (20, 500, PEB_BYTES as u32 - 500));
}

#[test]
fn what_comes_before_is_skipped() {
    let mut bytes = b"a boot loader's header".to_vec();
    bytes.extend(Flash::new().bytes);
    let geometry = probe(&bytes).unwrap();
    assert_eq!((geometry.start, geometry.peb_bytes, geometry.pebs), (22, PEB_BYTES as u32, PEBS as u32));
}

#[test]
fn missing_headers_do_not_change_the_distance() {
    let mut flash = Flash::new();
    for peb in (0..31).filter(|peb| peb % 3 == 0) {
        flash.peb(peb).fill(0);
    }
    assert_eq!(probe(&flash.bytes).unwrap().peb_bytes, PEB_BYTES as u32);
}

#[test]
fn an_image_inside_a_volume_does_not_change_the_distance() {
    let mut flash = Flash::new();
    let inner = with_oob(&flash.bytes.clone(), 64, &[]);
    let mut small = Vec::new();
    for peb in inner.chunks(PEB_BYTES).take(20) {
        small.extend_from_slice(&peb[..2048]);
    }
    for (peb, data) in (11..30).zip(small.chunks(LEB_BYTES as usize)) {
        flash.put(peb, &vid(VolType::Dynamic, 0, peb as u32, 90 + peb as u64), data);
    }
    let geometry = probe(&flash.bytes).unwrap();
    assert_eq!((geometry.peb_bytes, geometry.start), (PEB_BYTES as u32, 0));
}

#[test]
fn a_header_that_lies_is_refused_with_its_place() {
    let mut flash = Flash::new();
    for peb in 0..PEBS {
        let hdr = EcHdr { ec: 1, vid_hdr_offset: 0xffff_fff0, data_offset: 0x10, image_seq: 1 };
        flash.peb(peb)[..64].copy_from_slice(&hdr.encode());
    }
    let error = probe(&flash.bytes).unwrap_err();
    assert!(matches!(error, ProbeError::Offsets { vid_hdr_offset: 0xffff_fff0, at: 0, .. }), "{error}");
}

#[test]
fn what_is_not_ubi_is_named() {
    let cases: [(&[u8], &str); 5] = [
        (&[0xff; 100], "only 0xFF"),
        (&[0; 100], "only 0x00"),
        (&[0x31, 0x18, 0x10, 0x06, 0, 0], "a UBIFS image"),
        (b"hsqs....", "a squashfs image"),
        (b"....BU#I....", "16-bit word swapped"),
    ];
    for (bytes, expected) in cases {
        let error = probe(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(probe(&[]), Err(ProbeError::Empty));
    assert!(matches!(probe(b"UBI# and nothing else"), Err(ProbeError::NoWholeHeader { magics: 1, first: 0 })));
}

#[test]
fn one_header_needs_the_peb_size() {
    let flash = Flash::new();
    let one = &flash.bytes[..PEB_BYTES];
    assert_eq!(probe(one), Err(ProbeError::OneHeader { at: 0 }));
    let headers = flash.bytes[..64].repeat(100);
    assert_eq!(probe(&headers), Err(ProbeError::Distances { headers: 100, distance: 64 }));
    let given = Overrides { peb_bytes: Some(PEB_BYTES as u32), ..Overrides::default() };
    assert_eq!(Dump::probe(one, &given).unwrap().geometry().pebs, 1);
}

#[test]
fn what_is_given_is_compared_with_what_is_found() {
    let flash = Flash::new();
    let given = |peb_bytes| Overrides { peb_bytes: Some(peb_bytes), ..Overrides::default() };
    let error = Dump::probe(&flash.bytes, &given(10_000)).unwrap_err();
    assert_eq!(error, ProbeError::PebSize { given: 10_000, found: PEB_BYTES as u64 });
    assert!(Dump::probe(&flash.bytes, &given(PEB_BYTES as u32)).is_ok());
    assert!(matches!(Dump::probe(&flash.bytes, &given(1)), Err(ProbeError::Given { .. })));
    let dump = with_oob(&flash.bytes, 2048, &[0xff; 64]);
    assert!(Dump::probe(&dump, &given(PEB_BYTES as u32)).unwrap().geometry().oob.is_some());
}

/// What a file is that is no UBI image. The first bytes are those of the formats themselves.
#[test]
fn what_is_no_ubi_image_is_named() {
    let found = |bytes: &[u8]| match probe(bytes) {
        Err(ProbeError::NotUbi { found, bytes: length, .. }) => {
            assert_eq!(length, bytes.len() as u64);
            found
        }
        other => panic!("{other:?}"),
    };
    let beginning = |first: &[u8]| [first, &[0x5a; 4096]].concat();
    for (first, name) in [
        (&[0x31, 0x18, 0x10, 0x06][..], "a UBIFS image without UBI"),
        (&[0x85, 0x19, 0x03, 0x20], "a JFFS2 image"),
        (&[0x19, 0x85, 0x20, 0x03], "a JFFS2 image"),
        (b"hsqs", "a squashfs image"),
        (&[0x1f, 0x8b, 0x08], "gzip data"),
        (b"\xfd7zXZ\0", "xz data"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd data"),
        (&[0x3a, 0xff, 0x26, 0xed], "an Android sparse image"),
        (b"\x7fELF", "an ELF file"),
        (b"PK\x03\x04", "other data"),
        (&[], "other data"),
    ] {
        assert_eq!(found(&beginning(first)), name, "{first:?}");
    }
    assert_eq!(found(&[0xff; 4096]), "only 0xFF, as erased flash reads,");
    assert_eq!(found(&[0; 4096]), "only 0x00");
    // A single other byte, at the end, and it is other data.
    for (filling, last) in [(0xff, 0xfe), (0, 1)] {
        let mut bytes = [filling; 4096];
        bytes[4095] = last;
        assert_eq!(found(&bytes), "other data");
    }
    let swapped = |unit: usize| {
        let flash = Flash::new();
        flash.bytes.chunks(unit).flat_map(|word| word.iter().rev().copied()).collect::<Vec<_>>()
    };
    assert_eq!(found(&swapped(2)), "UBI with the bytes of each 16-bit word swapped");
    assert_eq!(found(&swapped(4)), "UBI with the bytes of each 32-bit word reversed");
}
