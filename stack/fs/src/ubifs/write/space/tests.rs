use super::find::Victims;
use super::*;

/// Main area of 10 LEBs of 16 KiB with pages of 2 KiB, which begins at LEB 10.
fn space(props: [(u32, u32, bool); 10]) -> Space {
    let sb = SuperBlock::of_test(20, 16_384, 2048);
    Space::new(&sb, &props.map(|(free, dirty, is_index)| LebProps { free, dirty, is_index }))
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
    let again =
        Space::new(&SuperBlock::of_test(20, 16_384, 2048), &(0..10).map(|at| table.props(at)).collect::<Vec<_>>());
    let taken = table.lebs.iter().filter(|leb| leb.has(flags::TAKEN) && leb.free == 16_384).count() as i32;
    assert_eq!(table.totals, Totals { taken_empty_lebs: taken, ..again.totals });
    for (list, category) in [Category::Empty, Category::Freeable, Category::FreeableIndex].into_iter().enumerate() {
        let mut kept = table.lists[list].clone();
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
