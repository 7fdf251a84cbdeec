//! Setting erase counters: in the headers and in the fastmap, and nowhere else.

use std::collections::BTreeMap;

use super::counters::{CounterEdit, CounterError};
use super::*;

fn edit(bytes: &[u8], counters: &BTreeMap<Peb, u64>) -> Vec<u8> {
    let dump = Dump::probe(bytes, &Overrides::default()).unwrap();
    let edit = CounterEdit::new(&dump, counters.clone()).unwrap();
    let mut edited = bytes.to_vec();
    edit.apply(&mut edited);
    edited
}

/// The pages of a dump without OOB.
fn pages(bytes: &[u8], page: usize, oob: usize) -> Vec<u8> {
    bytes.chunks(page + oob).flat_map(|piece| &piece[..page]).copied().collect()
}

/// PEBs of every list of the fastmap: its own block 2, the pools' 8 and 10, free 11 and 79, used 0, 3 and 7.
#[test]
fn headers_and_fastmap_have_the_counters_and_nothing_else_changes() {
    let flash = Flash::new();
    let counters: BTreeMap<Peb, u64> =
        [0, 2, 3, 7, 8, 10, 11, 79].into_iter().map(|peb| (Peb(peb), 1000 + u64::from(peb) * 3)).collect();
    let expected = |peb: u32| counters.get(&Peb(peb)).copied().unwrap_or(10 + u64::from(peb)) as u32;
    let oob = [0xff; 16];
    let with_oob = with_oob(&flash.bytes, 512, &oob);
    for (bytes, stride) in [(&flash.bytes, 512), (&with_oob, 528)] {
        let edited = edit(bytes, &counters);
        assert_eq!(edited.len(), bytes.len());
        if stride == 528 {
            assert!(edited.chunks(528).all(|page| page[512..] == oob), "OOB stays");
        }
        let after = Flash { bytes: pages(&edited, 512, stride - 512) };
        after.scanned(|scan| {
            let fastmap = scan.fastmap().unwrap();
            assert!(fastmap.is_valid(), "{:?}", fastmap.faults);
            assert_eq!(fastmap.blocks, [(Peb(2), sim::EraseCount(expected(2)))]);
            for (list, peb, ec) in fastmap.lists.as_ref().unwrap().listed().filter(|(_, peb, _)| *peb != Peb(31)) {
                assert_eq!(ec.0, expected(peb.0), "PEB {peb}, {list}");
            }
            assert_eq!(check(scan), vec![]);
        });
        for peb in (0..PEBS).filter(|&peb| peb != 31) {
            let before = &flash.bytes[peb * PEB_BYTES..][..PEB_BYTES];
            let now = &after.bytes[peb * PEB_BYTES..][..PEB_BYTES];
            let ec = EcHdr::decode(now[..64].try_into().unwrap()).unwrap();
            let was = EcHdr::decode(before[..64].try_into().unwrap()).unwrap();
            assert_eq!(ec, EcHdr { ec: expected(peb as u32).into(), ..was }, "PEB {peb}");
            if peb != 2 {
                assert!(before[64..] == now[64..], "PEB {peb}");
            }
        }
        assert_eq!(edit(bytes, &BTreeMap::new()), *bytes, "no counter, no change");
    }
    // Bytes before the device are left alone.
    let shifted = [vec![0x5a; 1536], flash.bytes.clone()].concat();
    let edited = edit(&shifted, &counters);
    assert_eq!(edited[..1536], shifted[..1536]);
    assert_eq!(edited[1536..], edit(&flash.bytes, &counters));
}

#[test]
fn counters_that_cannot_be_set_are_refused() {
    let flash = Flash::new();
    let dump = Dump::probe(&flash.bytes, &Overrides::default()).unwrap();
    let refused = |peb: u32, ec: u64| CounterEdit::new(&dump, [(Peb(peb), ec)].into()).err();
    assert_eq!((refused(79, 0x7fff_ffff), refused(0, 0)), (None, None));
    assert_eq!(refused(80, 1), Some(CounterError::NoSuchPeb { peb: Peb(80), pebs: 80 }));
    assert_eq!(refused(5, 0x8000_0000), Some(CounterError::TooHigh { peb: Peb(5), ec: 0x8000_0000 }));
    assert_eq!(refused(31, 1), Some(CounterError::NoHeader { peb: Peb(31) }));
}
