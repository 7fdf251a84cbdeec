//! Power cuts of a ubiblock, enumerated: one form of write-back keeps what a flush promised, the other two are its twins.

use cuts::{Enumeration, Outcome, Plan, Selection};

const SMALL: &str = "title = 't'\n[nand]\npebs = 72\npeb_bytes = 4096\npage_bytes = 512\n[cuts]\nmost_pages = 14\n\
                     operations = 240\n[ubiblock]\nsize_bytes = 21504\n";

fn resolve(more: &str, sets: &[(&str, &str)]) -> Result<Plan, String> {
    let sets: Vec<_> = sets.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Plan::resolve(&format!("{SMALL}{more}"), &sets).map_err(|error| error.to_string())
}

fn cut(more: &str, sets: &[(&str, &str)]) -> Outcome {
    let enumeration = Enumeration::prepare(resolve(more, sets).unwrap()).unwrap();
    assert!(enumeration.cuts() > 600, "{}", enumeration.cuts());
    enumeration.run(&enumeration.list(&Selection::Every(1)).unwrap(), 2, &|_| {})
}

fn says(outcome: &Outcome, what: &str) -> bool {
    outcome.failures.iter().flat_map(|failure| &failure.broken).any(|broken| broken.contains(what))
}

#[test]
fn atomic_write_back_keeps_what_a_flush_promised_through_every_cut() {
    for (more, sets) in [
        ("", &[][..]),
        ("cache_lebs = 3\n", &[("seed", "2")][..]),
        ("idle_s = 0\n", &[("seed", "3"), ("ubi.fastmap", "false")]),
        ("discard = false\n", &[("seed", "4"), ("ubi.wl", "linux-6.1")]),
    ] {
        let found = cut(more, sets);
        assert!(found.failed == 0, "{more}{sets:?}: {:?}", found.failures.first());
    }
}

#[test]
fn unmap_first_is_caught_with_a_leb_that_is_gone_and_one_that_is_torn() {
    let found = cut("form = 'unmap-first'\n", &[]);
    assert!(found.failed > 20 && says(&found, "is gone: no PEB holds it") && says(&found, "is torn"), "{found:?}");
}

#[test]
fn v2_like_is_caught() {
    assert!(cut("form = 'v2-like'\n", &[]).failed > 0);
}

#[test]
fn a_cut_has_a_story_and_results_do_not_depend_on_threads() {
    let enumeration = Enumeration::prepare(resolve("form = 'unmap-first'\n", &[]).unwrap()).unwrap();
    let list = enumeration.list(&Selection::Every(7)).unwrap();
    let run = |jobs| enumeration.run(&list, jobs, &|_| {});
    assert_eq!(run(1), run(3));
    let at = run(2).failures[0].at;
    let mut image = vec![0xff; 64 * 4096];
    let (story, failure) = enumeration
        .tell(at, Some(&mut |at: u64, bytes: &[u8]| image[at as usize..][..bytes.len()].copy_from_slice(bytes)))
        .unwrap();
    let text = story.lines().join("\n");
    assert!(text.contains("step ") && text.contains("power on: UBI attaches"), "{text}");
    assert!(!failure.unwrap().broken.is_empty() && image.starts_with(b"UBI#"));
}

#[test]
fn what_cannot_be_cut_is_refused_by_its_key() {
    for (more, key) in [
        ("form = 'read-only'\n", "ubiblock.form"),
        ("[cuts]\nknown_bad = 'flush-at-once'\n", "cuts.known_bad"),
        ("[faults]\nbadblocks = '1'\n", "faults"),
        ("[cuts.mix]\nchange = 1\n", "cuts.mix.change"),
    ] {
        let text = if more.starts_with("[cuts]") { SMALL.replace("[cuts]\n", more) } else { format!("{SMALL}{more}") };
        let error = Plan::resolve(&text, &[]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(&format!("key `{key}`")), "{more}: {error}");
    }
}
