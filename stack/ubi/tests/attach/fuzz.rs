//! Any flash contents: attach returns without a panic and believes no false count. Memory is bounded by construction
//! (see the modules' headers); believing a false count would exhaust it here.

use proptest::prelude::*;
use sim::Cx;
use ubi::attach::{AttachInfo, attach_by_fastmap, attach_by_scan, compare};

use crate::support::*;

/// Checks what holds after every successful attach; `AttachInfo::check` has run inside.
fn sound(image: &Image, info: &AttachInfo) {
    assert_eq!(info.fates.len(), image.geometry.pebs as usize);
    let reserved: usize = info.volumes.iter().flatten().map(|volume| volume.eba.len()).sum();
    assert!(reserved <= info.fates.len());
    assert!(info.pools.iter().map(Vec::len).sum::<usize>() <= info.fates.len());
    assert!(info.notes.len() < 200);
}

fn attach_both_ways(image: &Image) {
    let (mut flash, mut cx) = (image.flash(), Cx::new());
    let scan = attach_by_scan(&mut flash, &mut cx, &image.layout);
    let fastmap = attach_by_fastmap(&mut flash, &mut cx, &image.layout);
    for info in scan.iter().chain(&fastmap) {
        sound(image, info);
    }
    if let (Ok(scan), Ok(fastmap)) = (scan, fastmap) {
        let _ = compare(&scan, &fastmap);
    }
}

/// A change to the image: a value at an offset, more often among headers and table than in data.
fn change() -> impl Strategy<Value = (u32, usize, Vec<u8>)> {
    let peb = prop_oneof![Just(ANCHOR), Just(2), Just(3), 66u32..68, 70u32..92, 100u32..103, 0u32..128];
    let at = prop_oneof![0usize..64, 512usize..576, 1024usize..5000, 0usize..16_000];
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..8),
        Just(vec![0xff; 4]),
        Just(vec![0x7f, 0xff, 0xff, 0xff]),
        Just(vec![0; 4]),
        Just(vec![0xff; 64]),
    ];
    (peb, at, bytes)
}

fn put_checksum(image: &mut Image, peb: u32, at: u32, covered: u32) {
    let sum = ubi::media::crc(&image.peb(peb)[at as usize..][..covered as usize]);
    image.put(peb, at + covered, &sum.to_be_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 4096), pebs in 1u32..100) {
        let mut image = Image::blank(geometry(pebs));
        for peb in 0..pebs {
            let from = (peb as usize * 37) % 3000;
            image.put(peb, 0, &bytes[from..from + 1000]);
        }
        attach_both_ways(&image);
    }

    #[test]
    fn damage_never_panics(changes in prop::collection::vec(change(), 1..12)) {
        let (mut image, _) = lab_with_fastmap();
        for (peb, at, bytes) in changes {
            image.put(peb, at as u32, &bytes);
        }
        attach_both_ways(&image);
    }

    /// Changes behind right checksums, as in a hostile image.
    #[test]
    fn lies_behind_right_checksums_never_panic(
        changes in prop::collection::vec(change(), 1..12),
        fastmap_changes in prop::collection::vec((0usize..4000, any::<u32>(), 0u32..3), 0..4),
    ) {
        let (mut image, spec) = lab_with_fastmap();
        spec.write(&mut image, FM_SQNUM, |stream| {
            for (at, word, kind) in fastmap_changes {
                let word = [word, word % 130, u32::MAX - word % 4][kind as usize];
                stream[at..at + 4].copy_from_slice(&word.to_be_bytes());
            }
        });
        for (peb, at, bytes) in changes {
            image.put(peb, at as u32, &bytes);
            match at {
                0..60 => {
                    image.put(peb, 0, b"UBI#\x01");
                    put_checksum(&mut image, peb, 0, 60);
                }
                512..572 => {
                    image.put(peb, 512, b"UBI!\x01");
                    put_checksum(&mut image, peb, 512, 60);
                }
                1024..5000 => {
                    let record = 1024 + (at as u32 - 1024) / 172 * 172;
                    put_checksum(&mut image, peb, record, 168);
                }
                _ => {}
            }
        }
        attach_both_ways(&image);
    }
}
