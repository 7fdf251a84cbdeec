//! Each check has a twin that only it catches: the file system is changed behind its back after a cut, by a mount of its own,
//! and of all checks exactly the expected one notices.

use fs::model::view::{Everything, View};
use fs::ubifs::{KnownBad, Ubifs};
use nand::{PowerCut, Tear};
use sim::seam::{Attr, FileSystem, FileType, Flash, FsError, Ino, NewInode, Payload, SetAttr, SetXattr, Timestamp};
use sim::{Cx, Ns, Peb};

use super::stage::bring_up;
use super::ubifs::GOOD;
use super::{FilesPlan, Sabotage, System, Tape, UbifsPlan, prepare};
use crate::check::Site;
use crate::volume::Volume;
use crate::{Check, Failure, Outcome, Plan, Selection};

const PEBS: u32 = 72;

pub(super) fn plan() -> UbifsPlan {
    let text = format!(
        "title = 't'\nseed = 5\n[nand]\npebs = {PEBS}\npeb_bytes = 16384\npage_bytes = 512\n[ubi]\nbeb_per_1024 = 20\n[fs]\nlebs = 37\n\
         [cuts]\noperations = 150\n[cuts.mix]\nreplace = 0\n"
    );
    match Plan::resolve(&text, &[]) {
        Ok(Plan::Ubifs(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

/// Every so many cuts of a plan.
pub(super) fn run<S: System>(plan: FilesPlan<S>, every: u64) -> Outcome {
    let cuts = prepare(plan).expect("a device that the file system runs on");
    cuts.run(&cuts.list(&Selection::Every(every), None), 2, &|_| {})
}

/// At least five cuts failed, and each by this check alone, in these words.
pub(super) fn only_by(found: &Outcome, check: Check, says: &str) {
    assert!(found.failed >= 5, "{check:?}: only {} of {} cuts were caught", found.failed, found.cuts);
    for failure in &found.failures {
        assert_eq!(failure.checks, [check], "{failure:#?}");
        assert!(failure.broken.iter().all(|what| what.contains(says)), "{says:?}: {failure:#?}");
    }
}

fn only(check: Check, says: &str, sabotage: Sabotage) {
    only_by(&run(UbifsPlan { sabotage: Some(sabotage), ..plan() }, 11), check, says);
}

/// The clock at which a change leaves this time.
fn clock(time: Timestamp) -> Cx {
    let mut cx = Cx::new();
    cx.wait_until(Ns((time.seconds - plan().system.mount.epoch.seconds) * 1_000_000_000));
    cx
}

/// Mounts what is on the flash with a deliberate mistake, lets `change` change it, commits, and leaves it without power. If
/// the flash cannot be mounted or changed it stays as it is.
fn meddle(tape: &mut Tape, known_bad: KnownBad, change: impl FnOnce(&mut Ubifs<Volume>) -> Option<()>) {
    let mut plan = plan();
    plan.system.mount.known_bad = known_bad;
    let mut copy = tape.clone();
    copy.black_box = None;
    copy.array.set_power_cut(None);
    let Ok(mut fs) = bring_up(&plan.system, copy, Ns::ZERO) else { return };
    if change(&mut fs).is_some() && fs.sync(&mut Cx::new()).is_ok() {
        tape.array = fs.lose_power().into_ubi().into_flash().array;
        tape.array.power_on();
    }
}

fn root(fs: &mut Ubifs<Volume>) -> (Ino, Attr) {
    let root = fs.root();
    (root, fs.getattr(&mut Cx::new(), root).expect("there is power"))
}

/// A file with data that was changed last when they were.
fn file(fs: &mut Ubifs<Volume>) -> Option<(Ino, Attr)> {
    let found = Everything::of(fs, &mut Cx::new()).ok()?;
    let is_plain = |view: &View| {
        let Attr { file_type, size, mtime, ctime, .. } = view.attr;
        file_type == FileType::Regular && size > 64 && mtime == ctime
    };
    found.inodes.iter().find(|(_, view)| is_plain(view)).map(|(&ino, view)| (ino, view.attr))
}

/// Writes into a file, which keeps its size and times.
fn write_secretly(fs: &mut Ubifs<Volume>) -> Option<()> {
    let (ino, attr) = file(fs)?;
    fs.write(&mut clock(attr.ctime), ino, 0, Payload::Bytes(&[0xa5; 64])).ok().map(drop)
}

fn done<T>(result: Result<T, FsError>) -> Option<()> {
    result.ok().map(drop)
}

/// The last of the weights is that of renames to the name of another file.
#[test]
fn without_a_twin_nothing_is_found() {
    for replaces in [0, 30] {
        let mut plan = plan();
        *plan.weights.last_mut().expect("a weight") = replaces;
        let found = run(plan, 7);
        assert_eq!((found.failed, found.failures.first()), (0, None), "{replaces}");
        assert!(found.cuts > 50, "only {} cuts", found.cuts);
    }
}

#[test]
fn a_name_that_nobody_made() {
    only(Check::Names, "is too much", |site, tape| {
        if site == Site::Cut {
            meddle(tape, GOOD, |fs| {
                let (root, attr) = root(fs);
                done(fs.create(&mut clock(attr.ctime), root, b"twin", NewInode::of_root(0o644)))
            });
        }
    });
}

#[test]
fn a_mode_that_nobody_set() {
    only(Check::Attributes, "attributes", |site, tape| {
        if site == Site::Cut {
            meddle(tape, GOOD, |fs| {
                let (ino, attr) = root(fs);
                let change = SetAttr { mode: Some(0o4123), ..SetAttr::default() };
                done(fs.setattr(&mut clock(attr.ctime), ino, &change))
            });
        }
    });
}

#[test]
fn an_extended_attribute_that_nobody_set() {
    only(Check::Xattrs, "extended attributes that it never had", |site, tape| {
        if site == Site::Cut {
            meddle(tape, GOOD, |fs| {
                let (ino, attr) = root(fs);
                done(fs.setxattr(&mut clock(attr.ctime), ino, b"user.twin", b"1", SetXattr::Set))
            });
        }
    });
}

#[test]
fn contents_that_nobody_wrote() {
    only(Check::Contents, "contents that it never had", |site, tape| {
        if site == Site::Cut {
            meddle(tape, GOOD, write_secretly);
        }
    });
}

#[test]
fn contents_that_only_a_second_cut_changes() {
    only(Check::Contents, "after a second cut: ", |site, tape| {
        if site == Site::SecondCut {
            meddle(tape, GOOD, write_secretly);
        }
    });
}

#[test]
fn contents_that_are_lost_when_power_is_switched_off_in_the_end() {
    only(Check::Contents, "in the end: ", |site, tape| {
        if site == Site::End {
            meddle(tape, GOOD, write_secretly);
        }
    });
}

/// A file without a name, of which no orphan list knows: names and attributes are as they were.
#[test]
fn a_file_without_a_name_that_stays() {
    only(Check::Structure, "has no name, and 0 links", |site, tape| {
        if site == Site::Cut {
            meddle(tape, KnownBad { forget_orphans: true, ..GOOD }, |fs| {
                let (root, attr) = root(fs);
                let cx = &mut clock(attr.ctime);
                let made = fs.create(cx, root, b"twin", NewInode::of_root(0o644)).ok()?;
                done(fs.open(cx, made.ino))?;
                done(fs.unlink(cx, root, b"twin"))
            });
        }
    });
}

#[test]
fn a_super_block_that_is_gone() {
    // Magic, and node type 6 at byte 20 of the header, where the LEB begins.
    const DATA_AT: usize = 1024;
    only(Check::ComesUp, "UBIFS cannot be mounted", |site, tape| {
        for peb in (0..PEBS).map(Peb).filter(|_| site == Site::Cut) {
            tape.array.tamper(peb, |cells| {
                let leb = &mut cells[DATA_AT..];
                if leb.starts_with(&0x0610_1831_u32.to_le_bytes()) && leb[20] == 6 {
                    leb.fill(0);
                }
            });
        }
    });
}

/// Flips a bit of each data node: type 1 at byte 20 of the header, data from byte 48 on.
pub(super) fn flip_data(tape: &mut Tape) {
    for peb in (0..PEBS).map(Peb) {
        tape.array.tamper(peb, |cells| {
            for at in (0..cells.len() - 48).step_by(8) {
                if cells[at..].starts_with(&0x0610_1831_u32.to_le_bytes()) && cells[at + 20] == 1 {
                    cells[at + 48] ^= 1;
                }
            }
        });
    }
}

/// Data nodes that read wrongly as long as power is on.
#[test]
fn data_that_only_the_used_device_reads_wrongly() {
    only(Check::Reads, "it cannot be read", |site, tape| {
        if matches!(site, Site::Used | Site::End) {
            flip_data(tape);
        }
    });
}

#[test]
fn a_block_without_data_that_went_bad() {
    let sabotage: Sabotage = |site, tape| {
        let mut behind_ec_hdr = [0; 512];
        let unused = (0..PEBS).map(Peb).rfind(|&peb| {
            tape.cells(peb, 512, &mut behind_ec_hdr);
            behind_ec_hdr == [0xff; 512]
        });
        if let (Site::Cut, Some(peb)) = (site, unused) {
            tape.array.mark_bad(&mut Cx::new(), peb).expect("there is power");
        }
    };
    let found = run(UbifsPlan { sabotage: Some(sabotage), ..plan() }, 11);
    only_by(&found, Check::Blocks, "71 of 72 PEBs are good");
    let late = found.failures.iter().find(|failure| failure.broken[0].contains("after the recovery"));
    assert_eq!(late, None, "it is found before the file system is used");
}

/// Power goes in the end, and takes what `sync` of the recovered file system should have written.
#[test]
fn a_recovered_file_system_that_forgets_what_was_synced() {
    let mut system = plan().system;
    system.mount.known_bad.skip_write_buffer = true;
    let found = run(UbifsPlan { once_recovered: Some(system), ..plan() }, 5);
    let in_the_end = |failure: &&Failure| failure.broken[0].starts_with("in the end: ");
    let lost = found.failures.iter().filter(in_the_end).count();
    assert!(lost >= 5, "{lost} of {} failures in {} cuts: {:#?}", found.failed, found.cuts, found.failures.first());
}

#[test]
fn a_cut_that_does_not_strike() {
    only(Check::Power, "the cut did not trip", |site, tape| {
        if site == Site::Armed {
            tape.array.set_power_cut(None);
        }
    });
}

/// A byte that nothing reads: whether the layers leave the same flash is looked at once a step.
#[test]
fn a_flash_that_the_layers_would_leave_otherwise() {
    let sabotage: Sabotage = |site, tape| {
        if site == Site::Armed {
            tape.array.tamper(Peb(0), |cells| cells[500] ^= 1);
        }
    };
    let found = run(UbifsPlan { sabotage: Some(sabotage), ..plan() }, 1);
    let says = |failure: &&Failure| failure.broken[0].contains("the flash is not left as it is without the layers");
    let told = found.failures.iter().filter(says).filter(|failure| failure.checks == [Check::Power]).count();
    assert!(told >= 20, "only {told} of {} failures in {} cuts", found.failed, found.cuts);
}

#[test]
fn power_that_goes_while_the_file_system_is_mounted_in_the_end() {
    only(Check::Power, "power was lost", |site, tape| {
        if site == Site::End {
            tape.array.set_power_cut(Some(PowerCut::at_op(tape.array.ops(), Tear::Clean)));
        }
    });
}

#[test]
fn a_layer_that_panics() {
    only(Check::Invariants, "it panicked", |site, tape| {
        if site == Site::Recovered {
            tape.fastmap_data.clear();
        }
    });
}

/// Each recovery goes on where the last one was cut, with times of its own.
#[test]
fn cuts_in_a_row_lose_nothing() {
    let mut plan = plan();
    plan.rules.further_cuts = 4;
    let found = run(plan, 3);
    assert_eq!(found.failures.first(), None);
    assert!(found.cuts > 300, "{} cuts", found.cuts);
}
