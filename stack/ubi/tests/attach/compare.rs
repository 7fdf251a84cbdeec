//! `compare` finds what it must, and accepts what is legitimate. Each twin differs in one thing.

use sim::{Cx, EraseCount, Lnum, Peb, VolId};
use ubi::attach::{AttachError, AttachInfo, PebFate, TableCopy, compare, still_holds};

use crate::support::*;

fn of(image: &Image) -> Vec<String> {
    compare(&image.scan().unwrap(), &image.fastmap().unwrap())
}

#[test]
fn erased_since_the_fastmap_is_legitimate() {
    let (mut image, _) = lab_with_fastmap();
    assert_eq!(of(&image), [] as [String; 0]);
    // Unmapped and erased; unmapped, erased by half; waiting for erasure, and erased.
    image.erase(80);
    image.ec(80, Image::ec_of(80) + 1);
    image.erase(81);
    image.erase(91);
    image.ec(91, Image::ec_of(91) + 1);
    assert_eq!(of(&image), [] as [String; 0]);
    let info = image.fastmap().unwrap();
    let lebs = |info: &AttachInfo| info.volumes[0].as_ref().unwrap().eba[10..12].to_vec();
    assert_eq!(lebs(&info), [Some(Peb(80)), Some(Peb(81))]);
    assert_eq!(lebs(&image.scan().unwrap()), [None, None]);
}

#[test]
fn a_stale_mapping_is_told_from_a_true_one() {
    let (mut image, _) = lab_with_fastmap();
    image.erase(80);
    image.ec(80, Image::ec_of(80) + 1);
    image.spoil_vid(81);
    let mut flash = image.flash();
    let mut ask = |peb, lnum| still_holds(&mut flash, &mut Cx::new(), &image.layout, Peb(peb), VolId(0), Lnum(lnum));
    assert_eq!((ask(79, 9), ask(80, 10), ask(81, 11)), (Ok(true), Ok(false), Ok(false)));
    assert!(matches!(ask(82, 9), Err(AttachError::Volume { .. })));
    assert!(matches!(ask(101, 1), Err(AttachError::Volume { .. })));
}

#[test]
fn an_unmapped_leb_may_come_back_by_scan() {
    let (mut image, spec) = lab_with_fastmap();
    let mut unmapped = spec.clone();
    let peb = unmapped.used.iter().position(|&(peb, _)| peb == 85).unwrap();
    let waiting = unmapped.used.remove(peb);
    unmapped.erase.push(waiting);
    unmapped.volumes[0].1[15] = u32::MAX;
    unmapped.write(&mut image, FM_SQNUM, |_| {});
    assert_eq!(of(&image), [] as [String; 0]);
    // But not if the fastmap has the LEB elsewhere: then one of the two is lost.
    unmapped.volumes[0].1[15] = 92;
    unmapped.volumes[0].1[30] = u32::MAX;
    unmapped.write(&mut image, FM_SQNUM, |_| {});
    assert!(of(&image).iter().any(|line| line.starts_with("volume 0 LEB 15: Some(Peb(85)) by scan, Some(Peb(92))")));
}

#[test]
fn fastmaps_that_are_whole_and_wrong_are_told_apart() {
    type Lie = fn(&mut FmSpec);
    let swap: Lie = |spec| spec.volumes[0].1.swap(4, 5);
    let forget: Lie = |spec| spec.volumes[0].1[4] = u32::MAX;
    let wrong_count: Lie = |spec| spec.used[3].1 += 1;
    let wrong_free_count: Lie = |spec| spec.free[9].1 -= 1;
    let lost: Lie = |spec| {
        let peb = spec.used.remove(8);
        let leb = spec.volumes[0].1.iter().position(|&leb| leb == peb.0).unwrap();
        spec.volumes[0].1[leb] = u32::MAX;
        spec.free.push(peb);
    };
    let stolen: Lie = |spec| {
        let peb = spec.free.pop().unwrap();
        spec.used.push(peb);
        spec.volumes[0].1[39] = peb.0;
    };
    let stolen_waiting: Lie = |spec| {
        let peb = spec.free.pop().unwrap();
        spec.erase.push((peb.0, peb.1 + 1));
    };
    for (lie, said) in [
        (swap, "volume 0 LEB 4: Some(Peb(74)) by scan, Some(Peb(75)) by fastmap"),
        (wrong_count, "erase count"),
        (wrong_free_count, "erase count"),
        (lost, "volume 0 LEB"),
        (stolen, "PEB 127: erase count 11 by scan, 11 by fastmap"),
        (stolen_waiting, "PEB 127: erase count 11 by scan, 12 by fastmap"),
    ] {
        let (mut image, mut spec) = lab_with_fastmap();
        lie(&mut spec);
        spec.write(&mut image, FM_SQNUM, |_| {});
        let found = of(&image);
        assert!(found.iter().any(|line| line.contains(said)), "{found:?} instead of {said}");
    }
    // A PEB in use without a LEB waits for erasure: as if unmapped. A scan finds the old data again.
    let (mut image, mut spec) = lab_with_fastmap();
    forget(&mut spec);
    spec.write(&mut image, FM_SQNUM, |_| {});
    assert_eq!(of(&image), [] as [String; 0]);
}

#[test]
fn every_field_is_compared() {
    let (image, _) = lab_with_fastmap();
    let (scan, fastmap) = (image.scan().unwrap(), image.fastmap().unwrap());
    type Twin = fn(&mut AttachInfo);
    let twins: [(Twin, &str); 14] = [
        (|twin| twin.empty = true, "empty"),
        (|twin| twin.layout_eba[1] = None, "layout volume"),
        (|twin| twin.table[1] = TableCopy::Bad, "volume table"),
        (|twin| twin.max_sqnum -= 1, "highest sqnum"),
        (|twin| twin.image_seq = 3, "image_seq"),
        (|twin| twin.read_only = true, "read-only"),
        (|twin| twin.volumes.truncate(5), "volume slots"),
        (|twin| twin.fates.truncate(5), "PEBs"),
        (|twin| twin.volumes[1] = None, "volume 1 exists by one way only"),
        (|twin| twin.volumes[0].as_mut().unwrap().record.flags = 1, "volume 0: VtblRecord"),
        (|twin| twin.volumes[1].as_mut().unwrap().last_eb_bytes = 1, "volume 1: size (3, 1000)"),
        (|twin| twin.fates[30] = PebFate::Corrupt, "PEB 30: Free by scan, Corrupt by fastmap"),
        (|twin| twin.fates[30] = PebFate::Bad, "PEB 30: Free by scan, Bad by fastmap"),
        (|twin| twin.erase_counts[30] = EraseCount(1), "PEB 30: erase count"),
    ];
    for (change, said) in twins {
        let mut twin = fastmap.clone();
        change(&mut twin);
        let found = compare(&scan, &twin);
        assert!(found.len() == 1 && found[0].starts_with(said), "{found:?} instead of {said}");
    }
}

#[test]
#[should_panic(expected = "is in two places")]
fn a_peb_in_two_places_fails_the_check() {
    let mut info = lab(128).scan().unwrap();
    info.volumes[0].as_mut().unwrap().eba[20] = Some(Peb(70));
    info.check();
}

#[test]
#[should_panic(expected = "PEBs in use that no LEB is in")]
fn a_peb_in_no_place_fails_the_check() {
    let mut info = lab(128).scan().unwrap();
    info.volumes[0].as_mut().unwrap().eba[3] = None;
    info.check();
}

#[test]
fn every_mapping_is_listed() {
    let info = lab(128).scan().unwrap();
    let mapped: Vec<_> = info.mapped().collect();
    assert_eq!(mapped.len(), 2 + 20 + 3);
    assert_eq!(mapped[2], (VolId(0), Lnum(0), Peb(70)));
    assert_eq!(mapped[24], (VolId(1), Lnum(2), Peb(102)));
}
