//! The calls that a program elsewhere makes leave what the generator leaves on a file system.

use std::collections::BTreeMap;

use fs::model::{Model, tree};
use sim::seam::{FileSystem, Ino, NewInode, Payload, ReadInto, RenameFlags, SetAttr, Timestamp};
use sim::{Cx, Ns, Seed};
use workload::file::FileStep;
use workload::file::calls::Calls;
use workload::file::logger::{self, Logger};
use workload::file::reboots::{self, Reboots, Stage};

/// What `load` of the guest does: a file system under calls. Files in slots, and what was read and waited.
struct Program {
    fs: Model,
    cx: Cx,
    slots: BTreeMap<String, Ino>,
    read: u64,
    slept: u64,
}

impl Program {
    fn new() -> Program {
        let fs = Model::new(Timestamp::default());
        Program { fs, cx: Cx::new(), slots: BTreeMap::new(), read: 0, slept: 0 }
    }

    fn make(&mut self, mut calls: &[u8]) {
        let (fs, cx, root) = (&mut self.fs, &mut self.cx, Ino(1));
        assert_eq!(fs.root(), root);
        while !calls.is_empty() {
            let end = calls.iter().position(|&byte| byte == b'\n').unwrap();
            let line = std::str::from_utf8(&calls[..end]).unwrap();
            calls = &calls[end + 1..];
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[0] {
                "open" => {
                    let found = fs.lookup(cx, root, words[2].as_bytes()).unwrap();
                    self.slots.insert(words[1].to_owned(), found.ino);
                }
                "create" => {
                    let made = fs.create(cx, root, words[2].as_bytes(), NewInode::of_root(0o644)).unwrap();
                    self.slots.insert(words[1].to_owned(), made.ino);
                }
                "close" => assert!(self.slots.remove(words[1]).is_some()),
                "read" => {
                    let bytes = number(3) as u32;
                    let got = fs.read(cx, self.slots[words[1]], number(2), ReadInto::Length(bytes)).unwrap();
                    assert_eq!(got, bytes, "{line}");
                    self.read += number(3);
                }
                "write" => {
                    let (data, rest) = calls.split_at(number(3) as usize);
                    fs.write(cx, self.slots[words[1]], number(2), Payload::Bytes(data)).unwrap();
                    calls = rest;
                }
                "truncate" => {
                    fs.setattr(cx, self.slots[words[1]], &SetAttr::size(number(2))).unwrap();
                }
                "fsync" => fs.fsync(cx, self.slots[words[1]], false).unwrap(),
                "rename" => {
                    let (from, to) = ((root, words[1].as_bytes()), (root, words[2].as_bytes()));
                    fs.rename(cx, from, to, RenameFlags::NONE).unwrap();
                }
                "sleep" => self.slept += number(1),
                other => panic!("{other}"),
            }
        }
    }
}

/// Names, sizes and contents.
fn assert_same(program: &mut Program, fs: &mut Model) {
    let [there, here] = [&mut program.fs, fs].map(|fs| {
        let found = tree(fs, &mut Cx::new()).unwrap();
        let files = found.nodes.into_iter().map(|(path, node)| (path, node.attr.size, node.crc));
        files.collect::<Vec<_>>()
    });
    assert_eq!(there, here);
    assert!(here.len() > 5);
}

const LOGGER: logger::Options = logger::Options {
    static_files: 40,
    static_bytes: 5_000,
    logs: 2,
    log_bytes: 1_000,
    entry_bytes: (1, 200),
    entries: 200,
    burst: 50,
    every: Ns(2_000_000_000),
    fsync: true,
    compressible_percent: 50,
};

#[test]
fn logs_that_a_program_writes_are_those_of_the_generator() {
    let (mut here, mut there) = (Logger::new(&LOGGER, Seed(7)).unwrap(), Logger::new(&LOGGER, Seed(7)).unwrap());
    let (mut fs, mut cx, mut calls) = (Model::new(Timestamp::default()), Cx::new(), Calls::default());
    let (mut program, mut elsewhere, mut text) = (Program::new(), Cx::new(), Vec::new());
    loop {
        here.due().into_iter().for_each(|due| cx.idle_until(due));
        if let Some(due) = there.due().filter(|&due| due > elsewhere.now()) {
            calls.sleep(due - elsewhere.now());
            elsewhere.idle_until(due);
        }
        let steps = (here.step(&mut fs, &mut cx), there.step(&mut calls, &mut elsewhere));
        assert_eq!(steps.0, steps.1);
        calls.take(&mut text);
        program.make(&text);
        text.clear();
        if steps.0.is_none() {
            break;
        }
    }
    // Four bursts, two seconds apart: the last three wait, and so does the end, for a fifth that does not come.
    assert_eq!(program.slept, 8_000_000_000);
    assert_same(&mut program, &mut fs);
}

const REBOOTS: reboots::Options = reboots::Options {
    system: (3, 5_000),
    read: 2,
    state: (3, 100),
    copied: (2, 9_000),
    write_bytes: 4096,
    compressible_percent: 50,
};

/// Steps a device on, until a stage has ended or after so many steps.
fn stage<F: FileSystem>(load: &mut Reboots, fs: &mut F, most: usize) -> Vec<FileStep> {
    let mut cx = Cx::new();
    std::iter::from_fn(|| load.step(fs, &mut cx)).take(most).collect()
}

#[test]
fn a_device_elsewhere_writes_the_same_however_far_power_let_it_come() {
    let (mut here, mut there) = (Reboots::new(&REBOOTS, Seed(7)).unwrap(), Reboots::new(&REBOOTS, Seed(7)).unwrap());
    let (mut fs, mut calls) = (Model::new(Timestamp::default()), Calls::default());
    let (mut program, mut text) = (Program::new(), Vec::new());
    assert_eq!(stage(&mut here, &mut fs, usize::MAX), stage(&mut there, &mut calls, usize::MAX));
    for (on_here, on_there) in [(5, 1), (0, 3), (1, 0)] {
        for load in [&mut here, &mut there] {
            load.switch_on();
        }
        calls.restart();
        for expected in [Stage::Init, Stage::Copy] {
            assert_eq!(here.stage(), expected);
            assert_eq!(stage(&mut here, &mut fs, usize::MAX), stage(&mut there, &mut calls, usize::MAX));
        }
        calls.take(&mut text);
        program.make(&text);
        text.clear();
        assert_same(&mut program, &mut fs);
        // Power fails at different calls of the next copy.
        stage(&mut here, &mut fs, on_here);
        stage(&mut there, &mut calls, on_there);
    }
    assert_eq!(program.read, 3 * 2 * 5_000);
}
