//! Two devices in one dump, known by their image sequence numbers.

use super::*;

const OTHER_SEQ: u32 = 0x0bad_cafe;

/// The same flash, of another device.
fn other() -> Flash {
    let mut flash = Flash::new();
    for peb in (0..PEBS).filter(|&peb| peb != 31) {
        flash.put_ec(peb, 500, OTHER_SEQ);
    }
    flash
}

fn chosen(bytes: &[u8], image_seq: u32) -> Dump<'_> {
    let given = Overrides { image_seq: Some(image_seq), ..Overrides::default() };
    Dump::probe(bytes, &given).expect("it is there")
}

fn seqs(bytes: &[u8]) -> Vec<(u32, bool)> {
    let dump = Dump::probe(bytes, &Overrides::default()).expect("UBI");
    Scan::new(&dump).devices().iter().map(|it| (it.image_seq, it.is_on_grid)).collect()
}

#[test]
fn two_partitions_are_told_apart() {
    let gap = vec![0xff; 3 * PEB_BYTES];
    let bytes = [&Flash::new().bytes[..], &gap, &other().bytes].concat();
    assert_eq!(seqs(&bytes), [(IMAGE_SEQ, true), (OTHER_SEQ, true)]);
    for (image_seq, start) in [(IMAGE_SEQ, 0), (OTHER_SEQ, PEBS + 3)] {
        let dump = chosen(&bytes, image_seq);
        let scan = Scan::new(&dump);
        assert_eq!(dump.geometry().start, (start * PEB_BYTES) as u64);
        assert_eq!(scan.image_seqs().keys().collect::<Vec<_>>(), [&image_seq]);
        assert_eq!(scan.counts().foreign, 0);
        assert_eq!(scan.volumes().len(), 2);
        // The blank PEBs between the two are of the first, whose fastmap does not know them.
        assert_eq!(scan.fastmap().unwrap().is_valid(), image_seq == OTHER_SEQ);
    }
}

/// The second device begins with a PEB that has no EC header; its fastmap tells where it begins.
#[test]
fn a_fastmap_tells_where_the_device_begins() {
    let mut second = other();
    second.peb(0).fill(0xff);
    let bytes = [&Flash::new().bytes[..], &second.bytes].concat();
    let dump = chosen(&bytes, OTHER_SEQ);
    assert_eq!((dump.geometry().start, dump.geometry().pebs), ((PEBS * PEB_BYTES) as u64, PEBS as u32));
    let mut without = second.clone();
    without.peb(2).fill(0xff);
    let bytes = [&Flash::new().bytes[..], &without.bytes].concat();
    let dump = chosen(&bytes, OTHER_SEQ);
    assert_eq!((dump.geometry().start, dump.geometry().pebs), (((PEBS + 1) * PEB_BYTES) as u64, PEBS as u32 - 1));
}

#[test]
fn leftovers_of_an_old_device_are_foreign_to_the_new_one() {
    let mut flash = Flash::new();
    let old = other();
    for peb in [40, 41, 60] {
        flash.peb(peb).copy_from_slice(&old.bytes[peb * PEB_BYTES..][..PEB_BYTES]);
    }
    // A newer LEB 0 of volume 0, of the old device.
    flash.put_ec(42, 500, OTHER_SEQ);
    flash.put(42, &vid(VolType::Dynamic, 0, 0, 99), &[0xee; 100]);
    assert_eq!(seqs(&flash.bytes), [(IMAGE_SEQ, true), (OTHER_SEQ, true)]);
    let dump = chosen(&flash.bytes, IMAGE_SEQ);
    let scan = Scan::new(&dump);
    assert_eq!((scan.counts().foreign, scan.pebs().len()), (4, PEBS));
    assert_eq!(scan.lebs()[&(VolId(0), Lnum(0))].peb, Peb(3));
    assert!(scan.wear().ecs.iter().flatten().all(|&ec| ec < 500));
    let said: Vec<String> =
        check(&scan).into_iter().filter(|it| it.class == Class::ImageSeq).map(|it| it.what).collect();
    assert_eq!(said, ["4 PEBs from this one on have image_seq 0x0badcafe: left out, as asked for"]);
    // Linux does not choose.
    assert_eq!(scan.linux().how, linux::How::Refused);
}

#[test]
fn a_mixture_has_one_finding_for_each_other_device() {
    let mut flash = Flash::new();
    [50, 51, 70].iter().for_each(|&peb| flash.put_ec(peb, 30, OTHER_SEQ));
    let found: Vec<_> = flash.findings().into_iter().filter(|it| it.class == Class::ImageSeq).collect();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].severity, found[0].peb), (Severity::Error, Some(Peb(50))));
    assert!(
        found[0].what.starts_with("image_seq 0x0badcafe, on this and 2 more PEBs up to PEB 70, expected 0x12345678")
    );
}

#[test]
fn a_device_at_other_distances_is_named() {
    let mut small = Vec::new();
    for peb in Flash::new().bytes.chunks(PEB_BYTES).take(20) {
        let hdr = EcHdr { ec: 1, vid_hdr_offset: 64, data_offset: 128, image_seq: OTHER_SEQ };
        small.extend_from_slice(&hdr.encode());
        small.extend_from_slice(&peb[64..4096]);
    }
    let bytes = [Flash::new().bytes, vec![0xff; 100], small].concat();
    assert_eq!(seqs(&bytes), [(IMAGE_SEQ, true), (OTHER_SEQ, false)]);
    let dump = chosen(&bytes, OTHER_SEQ);
    assert_eq!((dump.geometry().peb_bytes, dump.geometry().start), (4096, (PEBS * PEB_BYTES + 100) as u64));
    let dump = Dump::probe(&bytes, &Overrides::default()).unwrap();
    assert!(check(&Scan::new(&dump)).iter().any(|it| it.class == Class::ImageSeq && it.peb.is_none()));
}

#[test]
fn an_image_inside_a_volume_is_no_device() {
    let mut flash = Flash::new();
    let inner = other();
    for (peb, data) in (11..30).zip(inner.bytes.chunks(LEB_BYTES as usize)) {
        flash.put(peb, &vid(VolType::Dynamic, 0, peb as u32, 90 + peb as u64), data);
    }
    assert_eq!(seqs(&flash.bytes), [(IMAGE_SEQ, true)]);
}

/// Linux accepts 0 next to another number.
#[test]
fn zero_is_no_device_beside_another() {
    let mut flash = Flash::new();
    flash.put_ec(20, 30, 0);
    assert_eq!(seqs(&flash.bytes), [(IMAGE_SEQ, true)]);
    let dump = chosen(&flash.bytes, IMAGE_SEQ);
    assert_eq!(Scan::new(&dump).counts().foreign, 0);
    let error = Dump::probe(&flash.bytes, &Overrides { image_seq: Some(7), ..Overrides::default() }).unwrap_err();
    assert_eq!(error.to_string(), "found no EC header with image_seq 0x00000007, expected 0x00000000 or 0x12345678");
}

/// A block that went bad before the flash was formatted again keeps its old header.
#[test]
fn a_bad_block_is_no_device() {
    let mut flash = Flash::new();
    flash.put_ec(40, 500, OTHER_SEQ);
    let mut dump = with_oob(&flash.bytes, 2048, &[0xff; 64]);
    assert_eq!(seqs(&dump).len(), 2);
    dump[40 * (PEB_BYTES + 8 * 64) + 2048] = 0;
    assert_eq!(seqs(&dump), [(IMAGE_SEQ, true)]);
    let bad = BadBlocks::Listed(vec![40]);
    let dump = Dump::probe(&flash.bytes, &Overrides::default()).unwrap().with_bad_blocks(&bad).unwrap();
    assert_eq!(Scan::new(&dump).devices().len(), 1);
}
