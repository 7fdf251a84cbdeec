//! As the twins of UBIFS: JFFS2 is changed behind its back after a cut, and of all checks exactly the expected one notices.

use fs::jffs2::media::{DirentNode, Endian, HEADER_BYTES, Header, node_type};
use fs::jffs2::{Jffs2, KnownBad};
use fs::model::view::{Everything, View};
use runner::schema::limits::KnownBad as Word;
use sim::seam::{Attr, FileSystem, FileType, Flash, FsError, Ino, NewInode, Payload, SetAttr, SetXattr};
use sim::{Cx, Ns, Peb};

use super::jffs2::{GOOD, Ground, Jffs2On, KNOWN_BAD};
use super::stage::bring_up;
use super::twins::{only_by, run};
use super::{FilesPlan, Jffs2Plan, Jffs2UbiPlan, Sabotage, Tape, prepare};
use crate::check::Site;
use crate::{Check, Plan, Selection};

const PEBS: u32 = 20;
const PAGE: usize = 512;

fn plan_of(medium: &str, page_bytes: usize, operations: u32) -> Jffs2Plan {
    let text = format!(
        "title = 't'\nseed = 5\n[nand]\nmedium = '{medium}'\npebs = {PEBS}\npeb_bytes = 8192\npage_bytes = {page_bytes}\n\
         [fs]\nkind = 'jffs2'\n[fs.jffs2]\ncompressors = ['rtime']\n[cuts]\noperations = {operations}\n\
         [cuts.mix]\nreplace = 0\n"
    );
    match Plan::resolve(&text, &[]) {
        Ok(Plan::Jffs2(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

pub(super) fn plan() -> Jffs2Plan {
    plan_of("nand", PAGE, 150)
}

fn only(check: Check, says: &str, sabotage: Sabotage) {
    only_by(&run(Jffs2Plan { sabotage: Some(sabotage), ..plan() }, 3), check, says);
}

/// The clock at which a change of contents leaves the time of these attributes.
fn clock(attr: &Attr) -> Cx {
    let mut cx = Cx::new();
    cx.wait_until(Ns(attr.mtime.seconds.saturating_sub(plan().system.mount.epoch.seconds) * 1_000_000_000));
    cx
}

/// Mounts what is on the flash, lets `change` change it, unmounts, and leaves it without power. If the flash cannot be mounted
/// or changed it stays as it is.
fn meddle(tape: &mut Tape, change: impl FnOnce(&mut Jffs2<Tape>) -> Option<()>) {
    let mut copy = tape.clone();
    copy.black_box = None;
    copy.array.set_power_cut(None);
    let Ok(mut fs) = bring_up(&plan().system, copy, Ns::ZERO) else { return };
    if change(&mut fs).is_some()
        && let Ok(left) = fs.unmount(&mut Cx::new())
    {
        tape.array = left.array;
        tape.array.power_on();
    }
}

fn root(fs: &mut Jffs2<Tape>) -> (Ino, Attr) {
    let root = fs.root();
    (root, fs.getattr(&mut Cx::new(), root).expect("there is power"))
}

/// Writes into a file, which keeps its size and the time at which its contents changed.
fn write_secretly(fs: &mut Jffs2<Tape>) -> Option<()> {
    let found = Everything::of(fs, &mut Cx::new()).ok()?;
    let epoch = plan().system.mount.epoch;
    let is_plain = |view: &View| {
        let Attr { file_type, size, mtime, .. } = view.attr;
        file_type == FileType::Regular && size > 64 && mtime >= epoch
    };
    let (ino, attr) = found.inodes.iter().find(|(_, view)| is_plain(view)).map(|(&ino, view)| (ino, view.attr))?;
    fs.write(&mut clock(&attr), ino, 0, Payload::Bytes(&[0xa5; 64])).ok().map(drop)
}

fn done<T>(result: Result<T, FsError>) -> Option<()> {
    result.ok().map(drop)
}

/// Changes each node of a type in place; `change` gets the node and returns what it becomes.
fn rewrite(tape: &mut Tape, node_type: u16, change: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for peb in (0..PEBS).map(Peb) {
        tape.array.tamper(peb, |cells| {
            let mut at = 0;
            while let Some(head) = cells.get(at..at + HEADER_BYTES) {
                let header = Header::read(Endian::Little, head).ok();
                let Some(header) = header.filter(|header| at + header.len as usize <= cells.len()) else {
                    at += 4;
                    continue;
                };
                let node = at..at + header.len as usize;
                if header.node_type == node_type
                    && let Some(new) = change(&cells[node.clone()])
                {
                    cells[node.clone()].copy_from_slice(&new[..node.len()]);
                }
                at += (header.padded() as usize).max(4);
            }
        });
    }
}

#[test]
fn without_a_twin_nothing_is_found() {
    for (medium, page_bytes, replaces) in [("nand", PAGE, 0), ("nand", PAGE, 30), ("nor", 1, 0), ("nor", 1, 30)] {
        let mut plan = plan_of(medium, page_bytes, 400);
        *plan.weights.last_mut().expect("that of renames to the name of another file") = replaces;
        let found = run(plan, 5);
        assert_eq!((found.failed, found.failures.first()), (0, None), "{medium}, {replaces}");
        assert!(found.cuts > 50, "only {} cuts", found.cuts);
    }
}

fn plan_on_ubi(operations: u32) -> Jffs2UbiPlan {
    let text = format!(
        "title = 't'\nseed = 5\n[nand]\npebs = 72\npeb_bytes = 8192\npage_bytes = 512\n[ubi]\nbeb_per_1024 = 20\n\
         [fs]\nkind = 'jffs2'\nlebs = 20\n[fs.jffs2]\non = 'ubi'\ncompressors = ['rtime']\n[cuts]\noperations = {operations}\n"
    );
    match Plan::resolve(&text, &[]) {
        Ok(Plan::Jffs2OnUbi(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

/// A power cut may also come while UBI moves a block or erases one.
#[test]
fn on_ubi_nothing_is_found_without_a_twin() {
    let found = run(plan_on_ubi(300), 7);
    assert_eq!((found.failed, found.failures.first()), (0, None));
    assert!(found.cuts > 50, "only {} cuts", found.cuts);
}

/// Every third cut of 500 calls with a deliberate mistake: how many are there, and whether it was found.
fn is_found<G: Ground>(mut plan: FilesPlan<Jffs2On<G>>, known_bad: KnownBad) -> (u64, bool) {
    plan.system.mount.known_bad = known_bad;
    let cuts = prepare(plan).expect("a device that JFFS2 runs on");
    let found = cuts.run(&cuts.list(&Selection::Every(3), None), 2, &|_| {});
    (found.cuts, found.failed > 0 || cuts.uncut().is_some())
}

/// On UBI nothing is marked obsolete in place, and a LEB is erased whole or not at all: two mistakes are none there.
#[test]
fn on_ubi_mistakes_of_jffs2_are_found_too() {
    for (word, known_bad) in KNOWN_BAD {
        let is_none = matches!(word, Word::None | Word::ObsoleteFirst | Word::TrustSummary);
        let (cuts, found) = is_found(plan_on_ubi(500), known_bad);
        assert_eq!(found, !is_none, "{word:?}: {cuts} cuts");
    }
}

#[test]
fn on_ubi_a_peb_that_went_bad() {
    let mark: Sabotage = |site, tape| {
        if site == Site::Used {
            tape.array.mark_bad(&mut Cx::new(), Peb(0)).expect("there is power");
        }
    };
    let found = run(Jffs2UbiPlan { sabotage: Some(mark), ..plan_on_ubi(150) }, 7);
    only_by(&found, Check::Blocks, "71 of 72 PEBs are good");
}

/// Each deliberate mistake of JFFS2 itself is found, on the flash on which it is one. That of summaries takes a longer run, which is
/// among the tests of the command (`lab/cli/tests/cuts.rs`).
#[test]
fn each_known_bad_one_is_found() {
    for (word, known_bad) in KNOWN_BAD.into_iter().skip(1).filter(|(_, known_bad)| !known_bad.trust_summary) {
        let (medium, page_bytes) = if known_bad.obsolete_first { ("nor", 1) } else { ("nand", PAGE) };
        let (cuts, found) = is_found(plan_of(medium, page_bytes, 500), known_bad);
        assert!(found, "{word:?}: {cuts} cuts");
    }
    assert_eq!(KNOWN_BAD[0].1, GOOD);
    assert_eq!(GOOD, KnownBad::default());
}

#[test]
fn a_name_that_nobody_made() {
    only(Check::Names, "is too much", |site, tape| {
        if site == Site::Cut {
            meddle(tape, |fs| {
                let (root, attr) = root(fs);
                done(fs.create(&mut clock(&attr), root, b"twin", NewInode::of_root(0o644)))
            });
        }
    });
}

#[test]
fn a_mode_that_nobody_set() {
    only(Check::Attributes, "attributes", |site, tape| {
        if site == Site::Cut {
            meddle(tape, |fs| {
                let (ino, attr) = root(fs);
                let change = SetAttr { mode: Some(0o4123), ..SetAttr::default() };
                done(fs.setattr(&mut clock(&attr), ino, &change))
            });
        }
    });
}

#[test]
fn an_extended_attribute_that_nobody_set() {
    only(Check::Xattrs, "extended attributes that it never had", |site, tape| {
        if site == Site::Cut {
            meddle(tape, |fs| {
                let (ino, attr) = root(fs);
                done(fs.setxattr(&mut clock(&attr), ino, b"user.twin", b"1", SetXattr::Set))
            });
        }
    });
}

#[test]
fn contents_that_nobody_wrote() {
    only(Check::Contents, "contents that it never had", |site, tape| {
        if site == Site::Cut {
            meddle(tape, write_secretly);
        }
    });
}

#[test]
fn contents_that_only_a_second_cut_changes() {
    only(Check::Contents, "after a second cut: ", |site, tape| {
        if site == Site::SecondCut {
            meddle(tape, write_secretly);
        }
    });
}

#[test]
fn contents_that_are_lost_when_power_is_switched_off_in_the_end() {
    only(Check::Contents, "in the end: ", |site, tape| {
        if site == Site::End {
            meddle(tape, write_secretly);
        }
    });
}

/// Lets names of files say that they are pipes: every name and every attribute is as it was.
pub(super) fn rename_types(tape: &mut Tape) {
    rewrite(tape, node_type::DIRENT, |node| {
        let dirent = DirentNode::read(Endian::Little, &node[..DirentNode::BYTES])?;
        let kind_of = |file_type: FileType| (file_type.mode_bits() >> 12) as u8;
        if dirent.kind != kind_of(FileType::Regular) {
            return None;
        }
        let mut out = Vec::new();
        let kind = kind_of(FileType::Fifo);
        DirentNode { kind, ..dirent }.write(Endian::Little, &node[DirentNode::BYTES..], &mut out);
        Some(out)
    });
}

#[test]
fn names_that_say_another_type() {
    only(Check::Structure, "its name says Fifo", |site, tape| {
        if site == Site::Cut {
            rename_types(tape);
        }
    });
}

#[test]
fn a_flash_that_holds_no_node() {
    only(Check::ComesUp, "JFFS2 cannot be mounted", |site, tape| {
        for peb in (0..PEBS).map(Peb).filter(|_| site == Site::Cut) {
            tape.array.tamper(peb, |cells| {
                if cells.iter().any(|&byte| byte != 0xff) {
                    cells.fill(0);
                }
            });
        }
    });
}

/// Data that read wrongly as long as power is on: they begin at byte 68 of a node.
#[test]
fn data_that_only_the_used_device_reads_wrongly() {
    only(Check::Reads, "it cannot be read", |site, tape| {
        if matches!(site, Site::Used | Site::End) {
            rewrite(tape, node_type::INODE, |node| {
                let mut changed = node.to_vec();
                *changed.get_mut(68)? ^= 1;
                Some(changed)
            });
        }
    });
}

#[test]
fn a_block_without_data_that_went_bad() {
    only(Check::Blocks, "are in bad eraseblocks", |site, tape| {
        let mut cells = [0; 8192];
        let unused = (0..PEBS).map(Peb).rfind(|&peb| {
            tape.cells(peb, 0, &mut cells);
            cells.iter().all(|&byte| byte == 0xff)
        });
        if let (Site::Cut, Some(peb)) = (site, unused) {
            tape.array.mark_bad(&mut Cx::new(), peb).expect("there is power");
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

#[test]
fn a_recovered_file_system_that_refuses_to_write() {
    let mut system = plan().system;
    system.mount.read_only = true;
    let found = run(Jffs2Plan { once_recovered: Some(system), ..plan() }, 3);
    only_by(&found, Check::Works, "after the recovery: ");
}

#[test]
fn a_layer_that_panics() {
    only(Check::Invariants, "it panicked", |site, tape| {
        if site == Site::Recovered {
            tape.fastmap_data.clear();
        }
    });
}
