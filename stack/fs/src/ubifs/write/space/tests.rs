use super::find::Victims;
use super::*;

/// Main area of 10 LEBs of 16 KiB with pages of 2 KiB, which begins at LEB 10.
fn space(props: [(u32, u32, bool); 10]) -> Space {
    let props = props.map(|(free, dirty, is_index)| LebProps { free, dirty, is_index });
    read(20, &props)
}

/// A table whose LEBs are all known. Of each category the one with the lowest number was found last.
fn read(lebs: u32, props: &[LebProps]) -> Space {
    let mut space = Space::new(&SuperBlock::of_test(lebs, 16_384, 2048), 10, props);
    for at in (0..props.len() as u32).rev() {
        space.add(at, space.category(&space.lebs[at as usize]));
    }
    space.unread = 0;
    space
}

const FULL: (u32, u32, bool) = (0, 0, false);

#[test]
fn totals_are_those_of_a_recount() {
    let mut table = space([
        (16_384, 0, false),
        (8192, 0, true),
        (0, 4096, false),
        (2048, 8192, false),
        (0, 16_384, false),
        (8, 0, false),
        FULL,
        FULL,
        (0, 16_384, true),
        (4096, 1024, false),
    ]);
    // By hand: dead below 2048, dark the rest up to 6144; a LEB of 10,240 bytes of space has 6144 of dark.
    let expected = Totals {
        empty_lebs: 1,
        taken_empty_lebs: 0,
        index_lebs: 2,
        free: 16_384 + 8192 + 2048 + 8 + 4096,
        dirty: 4096 + 8192 + 16_384 + 16_384 + 1024,
        used: (16_384 - 4096) + (16_384 - 10_240) + (16_384 - 8) + 2 * 16_384 + (16_384 - 5120),
        dead: 8,
        dark: 6144 + 4096 + 6144 + 6144 + 5120,
    };
    assert_eq!(table.totals, expected);
    let mut state = 1_u32;
    for _ in 0..20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let lnum = 10 + (state >> 8) % 10;
        let free = ((state >> 12) % 2049 * 8) as i32;
        let dirty = ((state >> 3) % 2049 * 8) as i32 % (16_384 - free + 8);
        let (set, clear) = [(1, 0), (0, 1), (2, 0), (0, 2), (0, 0), (0, 3)][(state >> 25) as usize % 6];
        table.change(lnum, Change { free: Some(free), dirty: Some(dirty), set, clear });
    }
    let again = read(20, &(0..10).map(|at| table.props(at)).collect::<Vec<_>>());
    let taken = table.lebs.iter().filter(|leb| leb.has(flags::TAKEN) && leb.free == 16_384).count() as i32;
    assert_eq!(table.totals, Totals { taken_empty_lebs: taken, ..again.totals });
    for (list, category) in [Category::Empty, Category::Freeable, Category::FreeableIndex].into_iter().enumerate() {
        let mut kept: Vec<u32> = table.lists.members(list).collect();
        kept.sort_unstable();
        let expected = (0..10).filter(|&at| table.category(&table.lebs[at as usize]) == category);
        assert_eq!(kept, expected.collect::<Vec<_>>(), "{category:?}");
    }
    for (heap, category) in [Category::Dirty, Category::DirtyIndex, Category::Free].into_iter().enumerate() {
        let kept: Vec<u32> = table.heaps[heap].members().collect();
        let value = |at: u32| weight(category, &table.lebs[at as usize]).expect("a heap").1;
        assert!((1..kept.len()).all(|at| value(kept[(at - 1) / 2]) >= value(kept[at])), "{category:?} {kept:?}");
        let expected = (0..10).filter(|&at| table.category(&table.lebs[at as usize]) == category).count();
        assert_eq!(kept.len(), expected, "{category:?}");
    }
}

#[test]
fn the_journal_gets_an_empty_leb_unless_the_index_needs_it() {
    let props = [(16_384, 0, false), (4096, 0, false), (8192, 0, true), FULL, FULL, FULL, FULL, FULL, FULL, FULL];
    assert_eq!(space(props).take_free(100, 1, 0, false), Some((10, 0)));
    // The inodes' head fills the LEB that is half full.
    assert_eq!(space(props).take_free(100, 1, 0, true), Some((11, 12_288)));
    // The index has one LEB and may need two.
    assert_eq!(space(props).take_free(100, 2, 0, false), Some((11, 12_288)));
    assert_eq!(space(props).take_free(5000, 2, 0, false), None);
    // One more becomes empty with the next commit.
    assert_eq!(space(props).take_free(5000, 2, 1, false), Some((10, 0)));
}

#[test]
fn the_collector_takes_the_dirtiest() {
    let props =
        [(0, 8192, false), (0, 12_288, true), (0, 4096, false), FULL, FULL, FULL, FULL, FULL, FULL, (0, 16_384, false)];
    let taken =
        |table: &mut Space, least, victims, index| table.take_dirty(least, victims, index, 0).map(|(lnum, _)| lnum);
    let mut table = space(props);
    // As many LEBs for the index as it has: none of them is moved.
    assert_eq!(taken(&mut table, 2048, Victims::Dirty, 1), Some(10));
    assert_eq!(taken(&mut table, 2048, Victims::Dirty, 0), Some(11));
    assert_eq!(taken(&mut table, 2048, Victims::Dirty, 0), Some(12));
    assert_eq!(taken(&mut table, 2048, Victims::Dirty, 0), None);
    assert_eq!(taken(&mut table, 2048, Victims::Any, 0), Some(19));
    assert_eq!(taken(&mut space(props), 8200, Victims::Dirty, 1), None);
}

/// Linux, `scan_for_dirty`: one with more free space than dirt is worth it with 2,048 dirty bytes, and if both are as much as is wanted.
#[test]
fn the_collector_takes_what_is_free_rather_than_dirty_if_it_is_enough() {
    for (dirty, least, is_taken) in [(2048, 6144, true), (2048, 6152, false), (2040, 2048, false)] {
        let mut props = [FULL; 10];
        props[4] = (4096, dirty, false);
        let found = space(props).take_dirty(least, Victims::Dirty, 0, 0).map(|(lnum, _)| lnum);
        assert_eq!(found, is_taken.then_some(14), "{dirty} dirty bytes, {least} wanted");
    }
}

/// Main area with so many LEBs, these bytes of each dirty. The last comes first into its heap.
fn dirty(lebs: impl IntoIterator<Item = u32>) -> Space {
    let props: Vec<LebProps> = lebs.into_iter().map(|dirty| LebProps { free: 0, dirty, is_index: false }).collect();
    read(10 + props.len() as u32, &props)
}

/// The collector's next victim with so much space, which it does not release.
fn victim(table: &mut Space, least: i32) -> Option<u32> {
    table.take_dirty(least, Victims::Dirty, 1, 0).map(|(lnum, _)| lnum - 10)
}

#[test]
fn a_heap_holds_256_and_the_newest_of_the_others_comes_after_them() {
    let mut table = dirty((0..300).map(|at| if at < 44 { 6144 } else { 8192 }));
    let mut first: Vec<_> = (0..256).map(|_| victim(&mut table, 2048).unwrap()).collect();
    first.sort_unstable();
    assert_eq!(first, (44..300).collect::<Vec<_>>());
    // Nothing is left in the heap. What changes comes into it, and is taken although the others have more.
    table.change(10 + 7, Change { dirty: Some(2048), ..Change::default() });
    assert_eq!(victim(&mut table, 2048), Some(7));
    assert_eq!([(); 3].map(|()| victim(&mut table, 2048)), [Some(0), Some(1), Some(2)]);
    // A collector that has made no progress wants more than what is in the heap.
    table.change(10 + 9, Change { dirty: Some(2048), ..Change::default() });
    assert_eq!(victim(&mut table, 4096), Some(3));
    assert_eq!(victim(&mut table, 2048), Some(9));
}

#[test]
fn the_rival_is_that_of_the_address_of_the_properties() {
    // By hand. LEB 1 is at 40 + 32 = 72, 72 / 16 = 4; LEB 4 at 192 + 40 = 232, 14; LEB 83 at 20 * 192 + 40 + 96 = 3976, 248 - 128 = 120;
    // LEB 84 begins another page. The lower half begins at 127.
    let rivals = [(0, 2), (1, 4), (4, 14), (83, 120), (84, 2), (85, 4)];
    assert_eq!(rivals.map(|(at, _)| heap::rival(at)), rivals.map(|(_, of)| of + 127));
}

#[test]
fn a_leb_with_more_dirt_takes_its_rivals_place_in_a_full_heap() {
    let mut table = dirty((0..257).map(|at| if at == 0 { 6144 } else { 4096 }));
    assert_eq!(victim(&mut table, 2048), Some(0));
    // LEB 0 is 40 bytes into an object: place 40 / 16 + 127 = 129 of the heap, where the 130th to come is, 256 - 129.
    let mut rest: Vec<_> = (0..255).map(|_| victim(&mut table, 2048).unwrap()).collect();
    assert!(!rest.contains(&127));
    assert_eq!(victim(&mut table, 2048), Some(127));
    assert_eq!(victim(&mut table, 2048), None);
    rest.push(127);
    rest.sort_unstable();
    assert_eq!(rest, (1..257).collect::<Vec<_>>());
}

#[test]
fn what_a_full_heap_has_no_room_for_is_found_for_journal_and_index() {
    let all = |props: LebProps| vec![props; 258];
    let space = |props: Vec<LebProps>| read(268, &props);
    // The collector has the 256 of the heap; the journal gets the two that have no room there.
    let mut table = space(all(LebProps { free: 8192, dirty: 0, is_index: false }));
    let found: Vec<_> = (0..259).map(|_| table.take_free(8192, 0, 0, false)).collect();
    assert_eq!(found[256..], [Some((10, 8192)), Some((11, 8192)), None]);
    // The same of the index, of which the collector and the commit take them. As data they are of no use.
    let of_index = LebProps { free: 0, dirty: 4096, is_index: true };
    let mut table = space(all(of_index));
    let found: Vec<_> = (0..259).map(|_| table.take_index(None)).collect();
    assert_eq!(found[256..], [Some(10), Some(11), None]);
    let mut table = space(all(of_index));
    assert_eq!(table.take_free(2048, 0, 0, false), None);
    assert!(table.take_dirty(2048, Victims::NoIndex, 0, 0).is_none());
    // Of the index's heap one is taken only if half of it is dirt, of the others any.
    assert_eq!(table.take_dirty(2048, Victims::Dirty, 0, 0).map(|(lnum, _)| lnum), Some(10));
}

/// A table of so many LEBs of which no leaf was read; the last scan ended at the first LEB.
fn unread(props: &[(u32, u32)]) -> Space {
    let props: Vec<LebProps> = props.iter().map(|&(free, dirty)| LebProps { free, dirty, is_index: false }).collect();
    Space::new(&SuperBlock::of_test(10 + props.len() as u32, 16_384, 2048), 10, &props)
}

/// On a volume that Linux 6.12 had just made, with the LEBs 10 to 13 of the main area read or in use, its journal took LEB 14 first, and
/// then, but for 17, which the index took, 16, 15, 18, 21, 20, 19, 22, 25, 24 and 23 (`.ci/kernel-nodes ubifs 204 204`).
#[test]
fn empty_lebs_are_taken_leaf_by_leaf_as_linux_reads_them() {
    let mut table = unread(&[(16_384, 0); 16]);
    for lnum in 10..14 {
        table.change(lnum, Change { set: flags::TAKEN, ..Change::default() });
    }
    let mut next = || table.take_free(100, 0, 0, false).map(|(lnum, _)| lnum);
    let found: Vec<_> = (0..12).map_while(|_| next()).collect();
    assert_eq!(found, [14, 17, 16, 15, 18, 21, 20, 19, 22, 25, 24, 23]);
}

/// Linux 6.12 `valuable`: what a scan comes by is read if it is freeable, has space for a heap that has room, or is empty while fewer than
/// 256 LEBs are known to be so (the size of the save table).
#[test]
fn a_scan_reads_what_it_comes_by_and_is_worth_it() {
    for (empty, left) in [(255, 0), (256, 64)] {
        // So many empty ones, full ones up to the leaf's end, and the one that is looked for in the last leaf.
        let mut props = vec![(16_384, 0); empty];
        props.resize(256, (0, 0));
        props.extend([(0, 8192), (0, 0), (0, 0), (0, 0)]);
        let mut table = unread(&props);
        assert_eq!(table.unread, 65);
        assert_eq!(victim(&mut table, 4096), Some(256));
        assert_eq!((table.unread, table.scan_lnum()), (left, 266), "{empty} empty LEBs");
    }
    // A leaf without space is left; the others go by free space, dirt, and nothing but both.
    let leaf = |of: (u32, u32)| [of, (0, 0), (0, 0), (0, 0)];
    let mut table =
        unread(&[leaf((0, 0)), leaf((2048, 0)), leaf((0, 4096)), leaf((2048, 14_336)), leaf((0, 8192))].concat());
    assert_eq!(victim(&mut table, 8192), Some(16));
    assert_eq!((table.unread, table.freeable()), (1, Some(22)));
    // What is known is found without a scan.
    assert_eq!((victim(&mut table, 4096), table.scan_lnum()), (Some(8), 26));
}

/// Linux 6.12 `valuable`: where the heap is full a leaf is worth it for a LEB with 6,144 bytes of space, the dark watermark.
#[test]
fn a_scan_reads_for_a_full_heap_what_is_above_the_dark_watermark() {
    for (dirt, left) in [(6136, 1), (6144, 0)] {
        let mut props = vec![(0, 4096); 256];
        props.extend([[(0, dirt), (0, 0), (0, 0), (0, 0)], [(0, 12_288), (0, 0), (0, 0), (0, 0)]].concat());
        let mut table = unread(&props);
        assert_eq!((victim(&mut table, 12_288), table.unread), (Some(260), left), "{dirt} bytes");
    }
}
