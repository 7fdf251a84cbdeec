//! Bad blocks that the dump does not show.

use super::*;

/// The flash with PEB 40 bad: its fastmap counts it and lists it no more.
fn with_bad() -> Flash {
    const FREE_AT: usize = FmSb::BYTES + FmHdr::BYTES + 2 * FmPool::BYTES;
    let mut flash = Flash::new();
    flash.put_fastmap(|stream| {
        let entry = (FREE_AT..).step_by(8).find(|&at| stream[at..at + 4] == 40u32.to_be_bytes()).unwrap();
        stream.copy_within(entry + 8.., entry);
        let [free, bad] = [4, 16].map(|field| FmSb::BYTES + field);
        stream[free..free + 4].copy_from_slice(&67u32.to_be_bytes());
        stream[bad..bad + 4].copy_from_slice(&1u32.to_be_bytes());
    });
    flash.peb(40).fill(0x5a);
    flash
}

/// The flash as `nanddump --bb=skipbad` writes it.
fn skipped() -> Vec<u8> {
    let mut bytes = with_bad().bytes;
    bytes.drain(40 * PEB_BYTES..41 * PEB_BYTES);
    bytes
}

fn dump<'a>(bytes: &'a [u8], bad: &str) -> Dump<'a> {
    let dump = Dump::probe(bytes, &Overrides::default()).unwrap();
    dump.with_bad_blocks(&BadBlocks::parse(bad).unwrap()).unwrap()
}

#[test]
fn a_listed_block_is_bad_whatever_it_holds() {
    let flash = with_bad();
    assert!(!flash.scanned(|scan| scan.fastmap().unwrap().is_valid()));
    let dump = dump(&flash.bytes, "40");
    let scan = Scan::new(&dump);
    assert_eq!(scan.pebs()[40], PebState::Bad(BadWhy::Listed));
    assert_eq!(scan.linux().how, linux::How::Fastmap);
    assert!(check(&scan).iter().all(|it| it.class == Class::BadPeb), "{:#?}", check(&scan));
}

#[test]
fn a_fastmap_tells_which_blocks_a_dump_leaves_out() {
    let bytes = skipped();
    for bad in ["skipbad", "skipbad:40"] {
        let dump = dump(&bytes, bad);
        let scan = Scan::new(&dump);
        assert_eq!((dump.geometry().pebs, dump.known_bad().pebs()), (PEBS as u32, &[40][..]));
        assert_eq!(scan.pebs()[40], PebState::Bad(BadWhy::LeftOut));
        assert_eq!(scan.linux().how, linux::How::Fastmap);
        assert_eq!(check(&scan).len(), 1, "{:#?}", check(&scan));
        assert_eq!(dump.peb(Peb(41)), &with_bad().bytes[41 * PEB_BYTES..42 * PEB_BYTES]);
        assert_eq!(dump.file_offset(Peb(41), 7), (40 * PEB_BYTES + 7) as u64);
        for (slot, peb) in [(0, 0), (39, 39), (40, 41), (PEBS - 2, PEBS - 1)] {
            assert_eq!(dump.peb_at((slot * PEB_BYTES + 7) as u64), Some((Peb(peb as u32), 7)));
        }
        assert_eq!(dump.peb_at(((PEBS - 1) * PEB_BYTES) as u64), None);
        assert_eq!(scan.wear().ecs[41], Some(51));
    }
}

#[test]
fn without_a_fastmap_nothing_tells_which_blocks_are_left_out() {
    let mut flash = Flash { bytes: skipped() };
    flash.peb(2)[DATA_AT + 400] ^= 1;
    let dump = dump(&flash.bytes, "skipbad");
    assert_eq!(dump.known_bad().left_out(), Some(LeftOut::Unknown));
    assert_eq!(dump.geometry().pebs, PEBS as u32 - 1);
    let found = check(&Scan::new(&dump));
    assert!(found.iter().any(|it| it.class == Class::BadPeb && it.peb.is_none()), "{found:#?}");
}

#[test]
fn padded_blocks_are_bad_unless_most_are() {
    let mut flash = with_bad();
    flash.peb(40).fill(0xff);
    let state = |bytes: &[u8]| {
        let dump = dump(bytes, "padbad");
        let scan = Scan::new(&dump);
        (scan.counts().bad, scan.padded())
    };
    // PEB 31 is erased, and looks the same.
    assert_eq!(state(&flash.bytes), (2, (2, true)));
    flash.bytes[45 * PEB_BYTES..60 * PEB_BYTES].fill(0xff);
    assert_eq!(state(&flash.bytes), (0, (17, false)));
}

#[test]
fn a_block_behind_the_flash_is_refused() {
    let bytes = skipped();
    let refused = |bad: &str| {
        let dump = Dump::probe(&bytes, &Overrides::default()).unwrap();
        dump.with_bad_blocks(&BadBlocks::parse(bad).unwrap()).unwrap_err()
    };
    assert_eq!(refused("79"), NoSuchPeb { peb: 79, pebs: 79 });
    assert_eq!(refused("skipbad:80"), NoSuchPeb { peb: 80, pebs: 80 });
    assert_eq!(dump(&bytes, "skipbad:79").geometry().pebs, 80);
}

/// A list that leaves nothing of the flash where it was, or a fastmap that lies: nothing panics.
#[test]
fn any_list_is_read() {
    let bytes = skipped();
    for bad in ["skipbad:0-78", "skipbad:0-200", "0-78", "skipbad:2", "2", "0,1", "skipbad:0,1,78-90"] {
        let dump = Dump::probe(&bytes, &Overrides::default()).unwrap();
        let Ok(dump) = dump.with_bad_blocks(&BadBlocks::parse(bad).unwrap()) else { continue };
        let scan = Scan::new(&dump);
        check(&scan);
        scan.volumes();
    }
}
