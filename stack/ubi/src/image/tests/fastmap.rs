//! The fastmap: read completely, and refused with the reason.

use super::*;

const POOL_AT: usize = FmSb::BYTES + FmHdr::BYTES;
const EC_LIST_AT: usize = POOL_AT + 2 * FmPool::BYTES;

fn faults(change: impl FnOnce(&mut Vec<u8>)) -> Vec<String> {
    let mut flash = Flash::new();
    flash.put_fastmap(change);
    flash.scanned(|scan| scan.fastmap().unwrap().faults.iter().map(|fault| fault.what.clone()).collect())
}

fn disagreements(flash: &Flash) -> Vec<(Severity, String)> {
    let findings = flash.findings().into_iter().filter(|it| it.class == Class::FastmapDisagrees);
    findings.map(|it| (it.severity, it.what)).collect()
}

fn put(stream: &mut [u8], at: usize, word: u32) {
    stream[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

#[test]
fn a_whole_fastmap_is_read_whole() {
    Flash::new().scanned(|scan| {
        let fastmap = scan.fastmap().unwrap();
        assert!(fastmap.is_valid());
        assert_eq!((fastmap.anchor, fastmap.sqnum), (Peb(2), 50));
        let lists = fastmap.lists.as_ref().unwrap();
        assert_eq!((lists.free.len(), lists.used.len(), lists.erase.len()), (68, 7, 1));
        assert_eq!((&lists.user_pool[..], &lists.wl_pool[..]), (&[Peb(8), Peb(9)][..], &[Peb(10)][..]));
        let mapped: Vec<_> = lists.volumes[0].mapped().collect();
        assert_eq!(mapped, [(Lnum(0), Peb(3)), (Lnum(1), Peb(4)), (Lnum(3), Peb(5))]);
    });
}

#[test]
fn the_reason_is_exact() {
    type Case = (fn(&mut Vec<u8>), &'static str);
    let cases: [Case; 9] = [
        (|it| put(it, 0, 7), "super block: magic 0x00000007, expected 0x7b11d69f"),
        (|it| put(it, 12, 33), "super block: used_blocks = 33, expected 1 to 32"),
        (|it| put(it, 16, 3), "block_loc[0] is PEB 3, expected the anchor, PEB 2"),
        (|it| put(it, FmSb::BYTES, 7), "magic 0x00000007, expected 0xd4b82ef7"),
        (|it| put(it, POOL_AT + 4, 0x0200_0008), "user pool: pool size = 512, expected at most 256"),
        (|it| put(it, POOL_AT + FmPool::BYTES, 0), "WL pool: magic 0x00000000, expected 0x67af4d08"),
        (
            |it| put(it, FmSb::BYTES + 4, u32::MAX),
            "the list of 4294967295 free PEBs ends after 1615, at the end of the fastmap",
        ),
        (|it| put(it, EC_LIST_AT + 76 * 8, 7), "volume 0: magic 0x00000007, expected 0xfa370ed1"),
        (|it| put(it, FmSb::BYTES + 16, 1), "accounts for 79 PEBs, expected 78: all but the bad ones and its own"),
    ];
    for (change, expected) in cases {
        let found = faults(change);
        assert!(found.iter().any(|it| it == expected), "{found:?}, expected {expected}");
    }
}

#[test]
fn a_broken_checksum_is_named() {
    let mut flash = Flash::new();
    flash.peb(2)[DATA_AT + 9000] ^= 1;
    flash.scanned(|scan| {
        let fastmap = scan.fastmap().unwrap();
        assert!(fastmap.faults[0].what.starts_with("data_crc "), "{:?}", fastmap.faults);
        assert_eq!((fastmap.faults[0].peb, fastmap.faults[0].offset), (Peb(2), DATA_AT as u32 + 8));
        assert!(fastmap.lists.is_some());
    });
}

#[test]
fn what_happened_since_is_no_error() {
    let mut flash = Flash::new();
    // A PEB of the pool took a LEB, another LEB was unmapped and its PEB erased, a free PEB was erased once more.
    flash.put(8, &vid(VolType::Dynamic, 0, 2, 60), &[1; 9]);
    flash.peb(5)[VID_AT..].fill(0xff);
    flash.put_ec(5, 16, IMAGE_SEQ);
    flash.put_ec(20, 31, IMAGE_SEQ);
    let found = disagreements(&flash);
    assert!(found.iter().all(|(severity, _)| *severity == Severity::Note), "{found:?}");
    assert_eq!(found.len(), 3, "{found:?}");
}

/// An erasure that loses power leaves both headers broken, as in a flash of Linux 6.12 that was cut there: Linux erases the block
/// without a word, so that nothing is lost.
#[test]
fn a_block_whose_erasure_lost_power_is_no_error() {
    // What Linux's flash had at PEB 95, and its VID header.
    let ec = "75c249231100004400004000000010040c00020008048422f1b6023203200010000000000202000820000400000030000000000000058000000000206e95a0a9";
    let vid = "5542492101010002000004410808001c01040000082108000080001022000000000001040000000400400800000081dd000000000000080880000000c6936123";
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    };
    let found = |ec: &[u8], vid: &[u8]| {
        let mut flash = Flash::new();
        // It holds LEB 1.
        flash.peb(4)[..64].copy_from_slice(ec);
        flash.peb(4)[VID_AT..VID_AT + 64].copy_from_slice(vid);
        let found: Vec<_> = flash.findings().into_iter().filter(|found| found.peb == Some(Peb(4))).collect();
        let of = |class| found.iter().find(|found| found.class == class).map(|found| found.severity);
        (of(Class::EcHeader), of(Class::FastmapDisagrees))
    };
    let (ec, vid) = (bytes(ec), bytes(vid));
    assert_eq!(found(&ec, &vid), (Some(Severity::Warning), Some(Severity::Warning)));
    // Two more of its flashes: an erasure cut at once leaves the data behind it, and the EC header is torn that follows an erasure.
    let torn = "fff7fbffefbfbd7efb7be577dfedbffee7f7dffff77f7fe7fbfeffff95fbfeffe7ffbfdfff7be33bbb77fdfff6fd77f7dee3bdf77fe4717fff7f56fff7ffffef";
    for ec in [bytes(torn), vec![0xff; 64]] {
        assert_eq!(found(&ec, &[0xff; 64]), (Some(Severity::Warning), Some(Severity::Warning)));
    }
    assert_eq!(found(&[0xff; 64], &vid), (Some(Severity::Warning), Some(Severity::Warning)));
    // One bit that fell is no erasure, and neither are few that rose: then data may be lost.
    let fallen = [&ec[..3], &[0x03], &ec[4..]].concat();
    assert_eq!(found(&fallen, &vid), (Some(Severity::Error), Some(Severity::Error)));
    let whole =
        EcHdr { ec: 14, vid_hdr_offset: VID_AT as u32, data_offset: DATA_AT as u32, image_seq: IMAGE_SEQ }.encode();
    for (risen, severity) in [(0x7f, Severity::Error), (0xff, Severity::Warning)] {
        let some = [&whole[..30], &[risen], &whole[31..]].concat();
        assert_eq!(found(&some, &vid).0, Some(severity), "{risen:#x}");
    }
    // A counter that no header can have, under a right checksum: Linux refuses to attach.
    let impossible =
        EcHdr { ec: 0xff << 32, vid_hdr_offset: VID_AT as u32, data_offset: DATA_AT as u32, image_seq: IMAGE_SEQ };
    assert_eq!(found(&impossible.encode(), &vid).0, Some(Severity::Error));
}

#[test]
fn what_no_past_explains_is_an_error() {
    let cases: [fn(&mut Flash); 5] = [
        |flash| flash.put(20, &vid(VolType::Dynamic, 0, 2, 60), &[1; 9]),
        |flash| flash.put_ec(20, 1, IMAGE_SEQ),
        |flash| flash.put(5, &vid(VolType::Dynamic, 0, 4, 60), &[1; 9]),
        |flash| flash.put_fastmap(|it| put(it, EC_LIST_AT, 3)),
        |flash| flash.put_fastmap(|it| put(it, EC_LIST_AT, 4000)),
    ];
    for (i, change) in cases.into_iter().enumerate() {
        let mut flash = Flash::new();
        change(&mut flash);
        let found = disagreements(&flash);
        assert!(found.iter().any(|(severity, _)| *severity == Severity::Error), "case {i}: {found:?}");
    }
}
