//! As the twins of UBIFS: JFFS is changed behind its back after a cut, and of all checks exactly the expected one notices.

use fs::jffs1::media::{Endian, RawInode};
use fs::jffs1::{Jffs1, KnownBad};
use fs::model::view::{Everything, View};
use sim::seam::{Attr, FileSystem, FileType, FsError, Ino, NewInode, Payload, SetAttr};
use sim::{Cx, Ns, Peb};

use super::jffs1::KNOWN_BAD;
use super::stage::bring_up;
use super::twins::{only_by, run};
use super::{Jffs1Plan, Sabotage, Tape, prepare};
use crate::check::Site;
use crate::{Check, Plan, Selection};

const PEBS: u32 = 16;

fn plan_of(operations: u32, more: &str) -> Jffs1Plan {
    let text = format!(
        "title = 't'\nseed = 5\n[nand]\nmedium = 'nor'\npebs = {PEBS}\npeb_bytes = 8192\npage_bytes = 1\n\
         [fs]\nkind = 'jffs1'\n[fs.jffs1]\nmin_free_sectors = 2\n{more}\n[cuts]\noperations = {operations}\n\
         [fsstress.weights]\nrename = 30\nwrite = 20\n"
    );
    match Plan::resolve(&text, &[]) {
        Ok(Plan::Jffs1(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

fn plan() -> Jffs1Plan {
    plan_of(150, "")
}

fn only(check: Check, says: &str, sabotage: Sabotage) {
    only_by(&run(Jffs1Plan { sabotage: Some(sabotage), ..plan() }, 3), check, says);
}

/// Mounts what is on the flash, lets `change` change it, and leaves it without power. If it cannot be mounted or changed it
/// stays as it is.
fn meddle(tape: &mut Tape, change: impl FnOnce(&mut Jffs1<Tape>) -> Option<()>) {
    let mut copy = tape.clone();
    copy.black_box = None;
    copy.array.set_power_cut(None);
    let Ok(mut fs) = bring_up(&plan().system, copy, Ns::ZERO) else { return };
    if change(&mut fs).is_some() {
        tape.array = fs.unmount().array;
        tape.array.power_on();
    }
}

fn done<T>(result: Result<T, FsError>) -> Option<()> {
    result.ok().map(drop)
}

fn write_secretly(fs: &mut Jffs1<Tape>) -> Option<()> {
    let found = Everything::of(fs, &mut Cx::new()).ok()?;
    let is_plain = |view: &View| {
        let Attr { file_type, size, .. } = view.attr;
        file_type == FileType::Regular && size > 64
    };
    let ino: Ino = found.inodes.iter().find(|(_, view)| is_plain(view)).map(|(&ino, _)| ino)?;
    done(fs.write(&mut Cx::new(), ino, 0, Payload::Bytes(&[0xa5; 64])))
}

#[test]
fn without_a_twin_nothing_is_found() {
    for mount_gc in ["none", "full"] {
        let found = run(plan_of(400, &format!("mount_gc = '{mount_gc}'")), 5);
        assert_eq!((found.failed, found.failures.first()), (0, None), "{mount_gc}");
        assert!(found.cuts > 200, "only {} cuts", found.cuts);
    }
}

/// Without `fsync` what a call wrote is there once it has returned: a name that is gone then is noticed.
#[test]
fn each_call_is_safe_when_it_returns() {
    only(Check::Names, "is missing", |site, tape| {
        if site == Site::Cut {
            meddle(tape, |fs| {
                let names = Everything::of(fs, &mut Cx::new()).ok()?.names;
                let removes = |path: &Vec<u8>| {
                    let slash = path.iter().rposition(|&byte| byte == b'/')?;
                    done(fs.unlink(&mut Cx::new(), names[&path[..slash]], &path[slash + 1..]))
                };
                names.keys().find_map(removes)
            });
        }
    });
}

/// That of clearing takes a longer run, which is among the tests of the command (`lab/cli/tests/cuts.rs`).
#[test]
fn each_known_bad_one_is_found() {
    for (word, known_bad) in KNOWN_BAD.into_iter().filter(|(_, known_bad)| !known_bad.clear_first) {
        let mut plan = plan_of(2000, "");
        plan.system.mount.known_bad = known_bad;
        let cuts = prepare(plan).expect("a device that JFFS runs on");
        let found = cuts.run(&cuts.list(&Selection::Every(11), None), 2, &|_| {});
        let is_found = found.failed > 0 || cuts.uncut().is_some();
        assert_eq!(
            is_found,
            known_bad != KnownBad::default(),
            "{word:?}: {} cuts, {:?}",
            found.cuts,
            found.failures.first()
        );
    }
}

#[test]
fn a_name_that_nobody_made() {
    only(Check::Names, "is too much", |site, tape| {
        if site == Site::Cut {
            meddle(tape, |fs| done(fs.create(&mut Cx::new(), fs.root(), b"twin", NewInode::of_root(0o644))));
        }
    });
}

#[test]
fn a_mode_that_nobody_set() {
    only(Check::Attributes, "attributes", |site, tape| {
        if site == Site::Cut {
            let change = SetAttr { mode: Some(0o4123), ..SetAttr::default() };
            meddle(tape, |fs| done(fs.setattr(&mut Cx::new(), fs.root(), &change)));
        }
    });
}

#[test]
fn contents_that_nobody_wrote() {
    for (at, says) in [
        (Site::Cut, "contents that it never had"),
        (Site::SecondCut, "after a second cut: "),
        (Site::End, "in the end: "),
    ] {
        let sabotage: Sabotage = match at {
            Site::Cut => |site, tape| {
                if site == Site::Cut {
                    meddle(tape, write_secretly);
                }
            },
            Site::SecondCut => |site, tape| {
                if site == Site::SecondCut {
                    meddle(tape, write_secretly);
                }
            },
            _ => |site, tape| {
                if site == Site::End {
                    meddle(tape, write_secretly);
                }
            },
        };
        only(Check::Contents, says, sabotage);
    }
}

/// Contents are read without a look at their checksum, which only a mount makes. In the end they are as they were.
#[test]
fn data_that_only_the_used_device_reads_wrongly() {
    only(Check::Reads, "has other contents", |site, tape| {
        if !matches!(site, Site::Used | Site::End) {
            return;
        }
        for peb in (0..PEBS).map(Peb) {
            tape.array.tamper(peb, |cells| {
                let mut at = 0;
                while let Some(head) = cells.get(at..).and_then(|rest| rest.first_chunk()) {
                    let Ok(raw) = RawInode::decode(head, Endian::Little) else {
                        at += 4;
                        continue;
                    };
                    let first = at + raw.data_offset() as usize;
                    let is_contents = raw.mode & 0o170_000 == 0o100_000 && raw.data_bytes > 0 && !raw.renames;
                    if let (true, Some(byte)) = (is_contents, cells.get_mut(first)) {
                        *byte ^= 1;
                    }
                    at += raw.node_bytes() as usize;
                }
            });
        }
    });
}

#[test]
fn a_flash_that_no_mount_understands() {
    only(Check::ComesUp, "JFFS cannot be mounted", |site, tape| {
        if site == Site::Cut {
            // Erased space in more than one place.
            for peb in (0..PEBS).map(Peb) {
                tape.array.tamper(peb, |cells| cells.fill(if peb.0.is_multiple_of(4) { 0 } else { 0xff }));
            }
        }
    });
}

#[test]
fn a_cut_that_does_not_strike() {
    only(Check::Power, "the cut did not trip", |site, tape| {
        if site == Site::Armed {
            tape.array.set_power_cut(None);
        }
    });
}
