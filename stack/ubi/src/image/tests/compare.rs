//! Each aspect that differs is named, and nothing else: one change of each kind tests the comparison.

use super::*;

fn differences(a: &Flash, b: &Flash, extent: Extent) -> Vec<Difference> {
    a.scanned(|a| b.scanned(|b| compare(a, b, extent)))
}

type Change = fn(&mut Flash);

/// What differs, in which volume, in which LEBs or PEBs, after the change.
const CHANGES: &[(Aspect, Option<u32>, &[u32], Change)] = &[
    (Aspect::Geometry, None, &[], |flash| flash.bytes.truncate((PEBS - 1) * PEB_BYTES)),
    (Aspect::ImageSeq, None, &[], |flash| {
        (0..PEBS).filter(|&peb| peb != 31).for_each(|peb| flash.put_ec(peb, 10 + peb as u64, 7));
    }),
    (Aspect::Volume, Some(1), &[], |flash| flash.put_table(&records()[..1])),
    (Aspect::Volume, Some(2), &[], |flash| {
        flash.put_table(&[records(), vec![record("more", 3, VolType::Dynamic)]].concat());
    }),
    (Aspect::Name, Some(0), &[], |flash| flash.put_table(&[record("root", 8, VolType::Dynamic), records()[1].clone()])),
    (Aspect::Size, Some(0), &[], |flash| {
        flash.put_table(&[record("rootfs", 9, VolType::Dynamic), records()[1].clone()])
    }),
    (Aspect::Type, Some(1), &[], |flash| flash.put_table(&[records()[0].clone(), record("boot", 2, VolType::Dynamic)])),
    (Aspect::Flags, Some(0), &[], |flash| {
        let grow = VtblRecord { flags: VtblRecord::AUTORESIZE, ..records()[0].clone() };
        flash.put_table(&[grow, records()[1].clone()]);
    }),
    (Aspect::UpdateMarker, Some(0), &[], |flash| {
        let marked = VtblRecord { upd_marker: true, ..records()[0].clone() };
        flash.put_table(&[marked, records()[1].clone()]);
    }),
    (Aspect::Contents, Some(0), &[1, 3], |flash| {
        [4, 5].iter().for_each(|&peb| flash.peb(peb)[DATA_AT + 7] ^= 1);
    }),
    (Aspect::Contents, Some(0), &[6], |flash| flash.put(9, &vid(VolType::Dynamic, 0, 6, 99), &[1])),
    (Aspect::Placement, Some(0), &[1], |flash| flash.put(9, &vid(VolType::Dynamic, 0, 1, 99), &[1; 2000])),
    (Aspect::EraseCounters, None, &[4, 9], |flash| {
        [4, 9].iter().for_each(|&peb| flash.put_ec(peb, 99, IMAGE_SEQ));
    }),
    (Aspect::BadBlocks, None, &[20], |flash| flash.peb(20).fill(0)),
    (Aspect::Fastmap, None, &[], |flash| flash.peb(2)[DATA_AT + 400] ^= 1),
];

#[test]
fn each_change_is_named_with_its_place() {
    let whole = Flash::new();
    for (aspect, volume, numbers, change) in CHANGES {
        let mut changed = whole.clone();
        change(&mut changed);
        let found = differences(&whole, &changed, Extent::Everything);
        let is_it = |it: &&Difference| {
            (it.aspect, it.volume.map(|id| id.0), &it.numbers[..]) == (*aspect, *volume, *numbers) && it.a != it.b
        };
        assert!(found.iter().find(is_it).is_some(), "{aspect:?}: {found:#?}");
        let back = differences(&changed, &whole, Extent::Everything);
        assert_eq!(back.len(), found.len());
        let of_volumes = differences(&whole, &changed, Extent::Volumes);
        let expected: Vec<_> = found.into_iter().filter(|it| it.aspect.is_of_volumes()).collect();
        assert_eq!(of_volumes, expected, "{aspect:?}");
    }
    for aspect in Aspect::ALL {
        assert!(CHANGES.iter().any(|(tried, ..)| tried == aspect), "{aspect:?} has no test");
    }
}

#[test]
fn a_flash_equals_itself() {
    let whole = Flash::new();
    assert_eq!(differences(&whole, &whole, Extent::Everything), []);
}

/// A LEB of 0xFF and a LEB that no PEB holds read the same.
#[test]
fn a_blank_leb_equals_an_unmapped_one() {
    let mut changed = Flash::new();
    changed.put(9, &vid(VolType::Dynamic, 0, 6, 99), &[]);
    assert_eq!(differences(&Flash::new(), &changed, Extent::Volumes), []);
}

/// Where LEBs have other sizes, their contents are not compared, and that is said.
#[test]
fn other_leb_sizes_are_a_difference() {
    let mut table = records();
    table[0] = VtblRecord { alignment: 512, data_pad: 0, ..table[0].clone() };
    table[1] = VtblRecord { alignment: 10240, data_pad: LEB_BYTES % 10240, ..table[1].clone() };
    let mut changed = Flash::new();
    changed.put_table(&table);
    let found = differences(&Flash::new(), &changed, Extent::Volumes);
    let aspects: Vec<_> = found.iter().map(|it| (it.aspect, it.volume.unwrap().0)).collect();
    assert_eq!(aspects, [(Aspect::Size, 0), (Aspect::Size, 1), (Aspect::Contents, 1)]);
    assert!(found[2].b.contains("contents not compared"));
}
