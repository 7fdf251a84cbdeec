//! The devices of jffs-dev: what they write is counted by hand.

use std::collections::BTreeMap;

use fs::model::Model;
use sim::seam::{FileSystem, Timestamp};
use sim::{Cx, Ns, Seed};
use workload::file::logger::{self, Logger};
use workload::file::reboots::{self, Reboots, Stage};
use workload::file::{FileOp, FileStep};

fn model() -> (Model, Cx) {
    (Model::new(Timestamp::default()), Cx::new())
}

fn sizes(fs: &mut Model) -> Vec<(String, u64)> {
    let (root, cx) = (fs.root(), &mut Cx::new());
    let mut names = Vec::new();
    fs.readdir(cx, root, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    })
    .unwrap();
    names.sort();
    let size = |name: &Vec<u8>| fs.lookup(&mut Cx::new(), root, name).unwrap().size;
    let sizes: Vec<u64> = names.iter().map(size).collect();
    names.into_iter().map(|name| String::from_utf8(name).unwrap()).zip(sizes).collect()
}

const LOGGER: logger::Options = logger::Options {
    static_files: 2,
    static_bytes: 5_000,
    logs: 2,
    log_bytes: 1_000,
    entry_bytes: (100, 100),
    entries: 54,
    burst: 10,
    every: Ns(2_000_000_000),
    fsync: true,
    compressible_percent: 50,
};

/// 54 entries of 100 bytes go to two logs in turn. A log is renamed after its tenth entry: after 20 and 40 entries both were
/// twice, and 7 entries follow in each.
#[test]
fn logs_grow_entry_by_entry_and_are_renamed_when_they_are_full() {
    let (mut fs, mut cx) = model();
    let mut load = Logger::new(&LOGGER, Seed(1)).unwrap();
    let (mut entries, mut others, mut times) = (0, Vec::new(), Vec::new());
    while let Some(FileStep { op, bytes, result, .. }) = {
        load.due().into_iter().for_each(|due| cx.idle_until(due));
        load.step(&mut fs, &mut cx)
    } {
        assert_eq!(result, Ok(()));
        match op {
            FileOp::Append => {
                assert_eq!(bytes, 100);
                entries += 1;
                times.push(cx.now().0 / 1_000_000_000);
            }
            op => others.push(op),
        }
    }
    let count = |op: FileOp| others.iter().filter(|&&other| other == op).count();
    assert_eq!((entries, count(FileOp::Fsync), count(FileOp::Rename)), (54, 54, 4));
    // Two files that never change, of two writes each; each of the two logs is made three times.
    assert_eq!((count(FileOp::Create), count(FileOp::Write)), (2 + 6, 4));
    let expected = [("log.0", 700), ("log.0.old", 1_000), ("log.1", 700), ("log.1.old", 1_000)];
    let files = [("static.0", 5_000), ("static.1", 5_000)];
    assert_eq!(
        sizes(&mut fs),
        expected.into_iter().chain(files).map(|(name, size)| (name.to_owned(), size)).collect::<Vec<_>>()
    );
    // Ten entries every two seconds.
    assert_eq!(times, (0..54).map(|entry| entry / 10 * 2).collect::<Vec<u64>>());
}

/// Log by log and entry by entry. A log has room for its last entry whole, and the one that is next is there when the load
/// ends.
#[test]
fn logs_are_renamed_with_and_without_fsync_and_never_if_they_have_no_limit() {
    for (fsync, logs, log_bytes, entries) in [
        (false, 2, 1_000, 54),
        (true, 2, 1_000, 54),
        (false, 1, 250, 10),
        (true, 1, 250, 9),
        (false, 3, 100, 7),
        (true, 3, 100, 6),
        (false, 2, 0, 31),
        (true, 2, 0, 31),
    ] {
        let options = logger::Options { static_files: 0, logs, log_bytes, entries, fsync, ..LOGGER };
        let (mut expected, mut made, mut renamed) = (BTreeMap::new(), 0, 0);
        for entry in 0..entries {
            let name = format!("log.{}", entry % u64::from(logs));
            made += u64::from(!expected.contains_key(&name));
            let size = expected.entry(name.clone()).or_insert(0);
            *size += 100;
            if log_bytes > 0 && *size >= log_bytes {
                let size = expected.remove(&name).unwrap();
                expected.insert(format!("{name}.old"), size);
                renamed += 1;
            }
        }
        let next = format!("log.{}", entries % u64::from(logs));
        made += u64::from(expected.insert(next.clone(), expected.get(&next).copied().unwrap_or(0)).is_none());

        let (mut fs, mut cx) = model();
        let mut load = Logger::new(&options, Seed(1)).unwrap();
        let steps: Vec<FileStep> = std::iter::from_fn(|| load.step(&mut fs, &mut cx)).collect();
        assert!(steps.iter().all(|step| step.result == Ok(())), "{options:?}");
        let count = |op| steps.iter().filter(|step| step.op == op).count() as u64;
        assert_eq!(sizes(&mut fs), expected.into_iter().collect::<Vec<_>>(), "{options:?}");
        let synced = if fsync { entries } else { 0 };
        assert_eq!([count(FileOp::Append), count(FileOp::Fsync)], [entries, synced], "{options:?}");
        assert_eq!([count(FileOp::Create), count(FileOp::Rename)], [made, renamed], "{options:?}");
    }
}

#[test]
fn a_device_reads_its_system_writes_its_state_and_copies() {
    let options = reboots::Options {
        system: (3, 5_000),
        read: 2,
        state: (3, 100),
        copied: (2, 9_000),
        write_bytes: 4096,
        compressible_percent: 50,
    };
    let (mut fs, mut cx) = model();
    let mut load = Reboots::new(&options, Seed(1)).unwrap();
    let mut stage = || {
        let (mut read, mut written, mut calls) = (0, 0, 0);
        let stage = load.stage();
        while let Some(FileStep { op, bytes, result, .. }) = load.step(&mut fs, &mut cx) {
            assert_eq!(result, Ok(()));
            calls += 1;
            *(if op == FileOp::Read { &mut read } else { &mut written }) += bytes;
        }
        if load.stage() == Stage::Copy && stage == Stage::Setup {
            load.switch_on();
        }
        (stage, read, written, calls)
    };
    // Each file is opened, and then read or written in pieces of 4096 bytes: 2, 1 and 3 of them.
    assert_eq!(stage(), (Stage::Setup, 0, 15_000 + 300 + 18_000, 3 * 3 + 3 * 2 + 2 * 4));
    assert_eq!(stage(), (Stage::Init, 10_000, 300, 2 * 3 + 3 * 2));
    assert_eq!(stage(), (Stage::Copy, 0, 18_000, 2 * 4));
    for _ in 0..3 {
        assert_eq!(stage(), (Stage::On, 0, 18_000, 2 * 4));
    }
    let expected = [("copied", 2, 9_000), ("state", 3, 100), ("system", 3, 5_000)];
    let expected = expected
        .iter()
        .flat_map(|(name, files, bytes)| (0..*files).map(move |file| (format!("{name}.{file}"), *bytes)));
    assert_eq!(sizes(&mut fs), expected.collect::<Vec<_>>());
}

#[test]
fn a_load_that_writes_nothing_is_refused() {
    for options in [
        logger::Options { logs: 0, ..LOGGER },
        logger::Options { entry_bytes: (0, 5), ..LOGGER },
        logger::Options { entry_bytes: (6, 5), ..LOGGER },
    ] {
        assert!(Logger::new(&options, Seed(1)).is_err(), "{options:?}");
    }
}
