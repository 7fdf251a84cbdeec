//! Keys of an experiment that have their effect where it is meant, by hand.

use runner::parts::Library;
use runner::run::Prepared;
use runner::schema::Experiment;
use runner::schema::limits::Stop;
use runner::subject::{Drive, Subject, identify, load};

fn drive(text: &str) -> Drive {
    let experiment = Experiment::resolve(&format!("title = 't'\n[ssd]\n{text}"), &[]).unwrap();
    match Subject::build_with(&experiment, Library::embedded()).unwrap() {
        Subject::Drive(drive) => *drive,
        _ => unreachable!("a table `ssd` is a drive"),
    }
}

#[test]
fn of_several_times_the_first_ends_a_run() {
    let first = |virtual_s, days, years| Stop { virtual_s, days, years, ..Stop::default() }.first_time();
    assert_eq!(first(10.0, Some(1.0), Some(1.0)), Some((10.0, "virtual_s")));
    assert_eq!(first(100_000.0, Some(1.0), None), Some((86_400.0, "days")));
    assert_eq!(first(0.0, Some(366.0), Some(1.0)), Some((31_557_600.0, "years")));
    assert_eq!(first(0.0, None, None), None);
    let text = "title = 't'\n[ssd]\nblocks = 64\n[workload]\ndepth = 1\n[stop]\nvirtual_s = 0.01\nrequests = 1000000\n";
    let found = Prepared::resolve(text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
    assert_eq!(found.measured.stopped_by, "virtual_s");
}

#[test]
fn writes_are_durable_where_the_workload_says_so() {
    let job = |fua: &str| {
        let experiment = Experiment::resolve(&format!("title = 't'\n[ssd]\n[workload]\n{fua}"), &[]).unwrap();
        load::jobs_of(&experiment).remove(0).fua
    };
    assert_eq!(["", "fua = false\n", "fua = true\n"].map(job), [false, false, true]);
    // A buffer completes a write in its memory, unless it must be durable.
    let mean = |fua: bool| {
        let text = format!(
            "title = 't'\n[ssd]\nblocks = 64\ncache.policy = 'lru'\ncache.mib = 4\nfront.write_cache = true\n\
             [workload]\nrequests = 50\ndepth = 1\nfua = {fua}\n"
        );
        let found = Prepared::resolve(&text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
        found.metrics().value("write.mean_us").unwrap()
    };
    // A program takes 200 us.
    assert!(mean(false) < 100.0 && mean(true) > 200.0, "{} and {}", mean(false), mean(true));
}

/// Each way to say how much is spare replaces the others, in whichever order.
#[test]
fn a_pair_replaces_what_the_file_says_in_another_way() {
    let keys = ["capacity_bytes", "effective_over_provisioning_percent", "over_provisioning_percent"];
    let value = |key: &str| if key == "capacity_bytes" { "1000000000" } else { "28" };
    for file in keys {
        for pair in keys {
            let text = format!("title = 't'\n[ssd]\n{file} = {}\n", value(file));
            let sets = [(format!("ssd.{pair}"), value(pair).to_owned())];
            let ssd = Experiment::resolve(&text, &sets)
                .unwrap_or_else(|error| panic!("{file}, {pair}: {error}"))
                .ssd
                .unwrap();
            let found = [
                ssd.capacity_bytes.is_some(),
                ssd.effective_over_provisioning_percent.is_some(),
                ssd.over_provisioning_percent.is_some(),
            ];
            assert_eq!(found, keys.map(|key| key == pair), "{file} in the file, {pair} in a pair");
        }
    }
}

/// HPB 1.0 knows no HPB WRITE BUFFER command, by which version 2.0 sends entries ahead.
#[test]
fn only_the_second_version_of_hpb_has_pre_requests() {
    for (version, has) in [("1.0", false), ("2.0", true)] {
        let text = format!(
            "blocks = 64\nfront.protocol = 'ufs'\nfront.depth = 32\n[ssd.hpb]\nversion = '{version}'\npre_requests = true\n"
        );
        assert_eq!(drive(&text).config.hpb.unwrap().pre_requests, has, "{version}");
    }
}

/// IDENTIFY word 82, bit 5: a drive without a buffer has no write cache to turn off.
#[test]
fn a_drive_has_a_write_cache_only_where_it_has_a_buffer() {
    for (text, has) in [
        ("front.write_cache = true\n", false),
        ("front.write_cache = true\ncache.policy = 'lru'\ncache.mib = 1\n", true),
        ("front.write_cache = false\ncache.policy = 'lru'\ncache.mib = 1\n", false),
    ] {
        let answers =
            identify::answers(&drive(&format!("front.protocol = 'sata'\nfront.depth = 32\n{text}")), 1).unwrap();
        assert_eq!(identify::document(&answers)["write_cache"], has, "{text}");
    }
}
