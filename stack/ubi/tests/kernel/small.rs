//! What Linux made of small flashes that it wrote and of each changed field, against what we make of them.
//!
//! Three are held to the recorded verdict: `check` with its model of Linux, `fastmap.valid`, and our own attach, which
//! differs where [`CHOICES`] says so.

use ubi::image::{Class, Dump, Finding, Overrides, Scan, Severity, check};

use crate::bases::{SMALL, Small};
use crate::verdicts::{How, Recorded, Verdict, counters, modelled, ours, recorded, scanned, without_interrupted};

/// Where our attach does otherwise than Linux: Linux's way, ours, the fields concerned, and the reason.
const CHOICES: [(How, How, &[&str], &str); 7] = [
    (
        How::Scan,
        How::FellBack,
        &["vid/", "none"],
        "the same: we call it falling back where Linux looks for no fastmap at all",
    ),
    (
        How::Fastmap,
        How::FellBack,
        &["fm/", "vid/"],
        "we trust no fastmap that contradicts itself or a header: a scan is right",
    ),
    (How::Refused, How::FellBack, &["fm/"], "only the fastmap is wrong, and a scan does without it"),
    (
        How::Refused,
        How::FellBack,
        &["vid/plain"],
        "a LEB beyond the end of a volume, in a pool: we scan, and erase it as the rest of a resize",
    ),
    (
        How::Fastmap,
        How::Refused,
        &["vid/"],
        "a header contradicts the volume table: Linux refuses such a flash too when it scans it",
    ),
    (
        How::Refused,
        How::Fastmap,
        &["vid/", "vtbl/", "vtbl0/"],
        "the volume table wins over a header that the fastmap lists as used, and over the fastmap after a resize that \
         a power cut interrupted",
    ),
    (How::FellBack, How::Refused, &["vid/"], "a volume number that the volume table has no room for: Linux ignores it"),
];

/// What Linux changes when it attaches: the model does not say how much a volume grows.
fn is_resized(row: &Recorded<'_>) -> bool {
    let flags = row.name.split_once("/flags=").map(|(_, value)| u8::from_str_radix(value, 16));
    matches!(flags, Some(Ok(flags)) if flags & 1 == 1)
}

/// Calls `judge` with each flash and Linux's verdict.
fn each(mut judge: impl FnMut(&Small, &Recorded<'_>, &[u8])) {
    for small in &SMALL {
        let bytes = small.bytes();
        let base = small.base(&bytes);
        let (tried, rows) = (small.tried(&base), small.verdicts());
        let rows = recorded(&rows);
        let names = (tried.iter().map(|it| &it.name[..])).zip(rows.iter().map(|row| row.name));
        names.for_each(|(mutation, row)| assert_eq!(mutation, row, "{}: record it again", small.name));
        assert_eq!(tried.len(), rows.len(), "{}: record it again", small.name);
        for (mutation, row) in tried.iter().zip(&rows) {
            judge(small, row, &mutation.applied(&base));
        }
    }
}

fn checked(small: &Small, bytes: &[u8]) -> (Vec<Finding>, Option<bool>) {
    let given = Overrides { peb_bytes: Some(small.geometry.peb_bytes), ..Overrides::default() };
    let dump = Dump::probe(bytes, &given).expect("UBI");
    let scan = Scan::new(&dump);
    (check(&scan), scan.fastmap().map(|fastmap| fastmap.is_valid()))
}

#[test]
fn linux_attaches_what_it_wrote_by_fastmap_and_so_do_we_with_equal_volumes_and_erase_counters() {
    each(|small, row, bytes| {
        if row.name != "none" || small.is_torn() {
            return;
        }
        assert_eq!(row.verdict.how, How::Fastmap, "{}", small.name);
        // With a fastmap of two blocks Linux 6.12 asserts on its own flashes too.
        assert_eq!(row.said != "-", small.name == "nand512-two", "{}: {}", small.name, row.said);
        assert_eq!(ours(small, bytes).0, row.verdict, "{}", small.name);
        let (findings, valid) = checked(small, bytes);
        let errors: Vec<_> = findings.iter().filter(|it| it.severity == Severity::Error).collect();
        assert!(errors.is_empty() && valid == Some(true), "{}: {errors:?}, valid {valid:?}", small.name);
    });
}

#[test]
fn a_flash_after_a_power_cut_is_attached_as_linux_does_with_equal_volumes_and_the_counter_of_each_peb() {
    let mut ways = [0; 2];
    each(|small, row, bytes| {
        let Some(counters_of_linux) = small.counters else { return };
        let linux = &row.verdict;
        let (we, why) = ours(small, bytes);
        let by_fastmap = linux.how == How::Fastmap;
        ways[usize::from(by_fastmap)] += 1;
        assert_eq!(we.how == How::Fastmap, by_fastmap, "{}: {why}", small.name);
        assert_eq!(we.is_read_only, linux.is_read_only, "{}", small.name);
        assert_eq!(without_interrupted(&we.volumes), without_interrupted(&linux.volumes), "{}", small.name);
        let found: Vec<String> = counters(small, bytes, we.how).iter().map(u32::to_string).collect();
        assert_eq!(found.join(" "), counters_of_linux.trim_end(), "{}", small.name);
    });
    assert!(ways.iter().all(|&flashes| flashes >= 3), "by scan and by fastmap: {ways:?}");
}

#[test]
fn the_model_in_check_does_what_linux_did_with_every_changed_field() {
    let mut tried = 0;
    each(|small, row, bytes| {
        let place = format!("{} {}: {}", small.name, row.name, row.said);
        let (model, why) = modelled(small, bytes);
        let linux = &row.verdict;
        tried += 1;
        if linux.how == How::Died {
            return;
        }
        assert_eq!(model.how, linux.how, "{place}; {why}");
        assert_eq!(model.is_read_only, linux.is_read_only, "{place}");
        if !is_resized(row) {
            assert_eq!(model.volumes, linux.volumes, "{place}");
        }
    });
    assert!(tried > 5000, "{tried}");
}

#[test]
fn check_names_every_flash_that_linux_refuses_or_reads_otherwise_and_valid_means_valid() {
    each(|small, row, bytes| {
        let place = format!("{} {}: {}", small.name, row.name, row.said);
        let (findings, valid) = checked(small, bytes);
        let linux = &row.verdict;
        let has = |class| findings.iter().any(|it| it.class == class && it.severity == Severity::Error);
        let names_it = findings.iter().any(|it| it.severity > Severity::Note);
        if linux.how == How::Died {
            assert!(names_it, "{place}");
            return;
        }
        assert_eq!(has(Class::LinuxRefuses), linux.how == How::Refused, "{place}: {findings:?}");
        assert_eq!(valid.unwrap_or(false), linux.how == How::Fastmap, "{place}: {findings:?}");
        let reads_otherwise =
            linux.how != How::Refused && !is_resized(row) && linux.volumes != scanned(small, bytes).volumes;
        assert!(!reads_otherwise || names_it, "{place}: {} is not named", linux.volumes);
        let falls_back = matches!(linux.how, How::Scan | How::FellBack);
        assert!(!falls_back || names_it || valid.is_none(), "{place}: not named");
    });
}

#[test]
fn our_attach_does_what_linux_did_or_what_a_choice_says() {
    let mut used = [0; CHOICES.len()];
    each(|small, row, bytes| {
        let place = format!("{} {}: {}", small.name, row.name, row.said);
        let (we, why) = ours(small, bytes);
        let linux = &row.verdict;
        if linux.how == How::Died {
            assert_ne!(we.how, How::Fastmap, "{place}");
            return;
        }
        if we.how != linux.how {
            let fits = |(theirs, own, fields, _): &(How, How, &[&str], &str)| {
                (*theirs, *own) == (linux.how, we.how) && fields.iter().any(|field| row.name.starts_with(field))
            };
            let choice = CHOICES.iter().position(fits);
            used[choice.unwrap_or_else(|| panic!("{place}: Linux {:?}, we {:?} ({why})", linux.how, we.how))] += 1;
        }
        if [linux.how, we.how].contains(&How::Refused) {
            return;
        }
        // The sequence numbers are used up: we write no more, Linux begins at 0.
        let is_last = row.name.ends_with("sqnum=ffffffffffffffff");
        assert!(we.is_read_only == linux.is_read_only || (is_last && we.is_read_only), "{place}");
        if volumes_may_differ(row) {
            return;
        }
        if we.volumes != linux.volumes {
            let findings = checked(small, bytes).0;
            let named = findings.iter().any(|it| it.severity == Severity::Error);
            assert!(named, "{place}: Linux {}, we {}, and check says nothing", linux.volumes, we.volumes);
        }
    });
    for ((linux, we, fields, reason), used) in CHOICES.iter().zip(used) {
        assert!(used > 0, "no flash needs the choice {linux:?}, {we:?}, {fields:?}: {reason}");
    }
}

/// An interrupted update: what is left has no size that counts.
fn volumes_may_differ(row: &Recorded<'_>) -> bool {
    row.name.contains("/upd_marker=1") || row.verdict.volumes.contains(":EBADF")
}

/// The harness itself: a wrong verdict is noticed.
#[test]
fn a_row_with_another_verdict_is_another_verdict() {
    let rows = "none\tfastmap\trw\t2\t0:a\t-\nx\trefused\t-\t-\t-\twhy\ny\tscan\tro\t3\t=\t-\n";
    let read = recorded(rows);
    let expected =
        |how, is_read_only, max_ec, volumes: &str| Verdict { how, is_read_only, max_ec, volumes: volumes.to_owned() };
    assert_eq!(read[0].verdict, expected(How::Fastmap, false, 2, "0:a"));
    assert_eq!((&read[1].verdict, read[1].said), (&expected(How::Refused, false, 0, ""), "why"));
    assert_eq!(read[2].verdict, expected(How::Scan, true, 3, "0:a"));
}
