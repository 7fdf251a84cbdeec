//! Our fsstress against the program: `real.txt` is what the real one did and left (`record.py` says how it was made), and
//! ours does the same on the oracle, operation by operation, to the same tree.

use fs::model::{Model, tree};
use sim::Cx;
use sim::seam::{FileType, Timestamp};
use workload::fsstress::{Fsstress, Op, Options, Outcome, Step};

const REAL: &str = include_str!("real.txt");

/// What the program prints of an operation, as far as `record.py` and [`real`] keep it. `None`: nothing.
fn printed(step: &Step) -> Option<String> {
    let names = [step.file, step.other].into_iter().flatten().map(|name| name.to_string());
    let names = names.collect::<Vec<_>>().join(" ");
    let (offset, length) = step.range.unwrap_or_default();
    let errno = match &step.outcome {
        Outcome::Failed(error) => error.errno(),
        _ => 0,
    };
    let numbers = match step.op {
        Op::Deduperange if step.file.is_none() => return None,
        Op::Dread | Op::Dwrite | Op::Aread | Op::Awrite if step.outcome == Outcome::Refused => "22".to_owned(),
        Op::Chown | Op::Getattr | Op::Listfattr | Op::Setxattr | Op::Bulkstat | Op::Bulkstat1 => String::new(),
        Op::Sync => String::new(),
        Op::Getdents => errno.to_string(),
        // There was no file, it was empty, or two directories of which one is in the other.
        _ if step.outcome == Outcome::Nothing && step.range.is_none() => String::new(),
        Op::Clonerange => format!("{offset} {length} {} {length} 95", step.other_offset.unwrap()),
        Op::Copyrange => format!("{offset} {length} {} {length}", step.other_offset.unwrap()),
        Op::Splice => format!("{offset} {length} {} {length} {errno}", step.other_offset.unwrap()),
        Op::Fiemap => format!("{offset} {length} -1"),
        Op::Truncate | Op::Removefattr => format!("{offset} {errno}"),
        Op::Getfattr if errno != 0 => format!("{offset} {errno}"),
        Op::Creat => format!("{errno} 0"),
        Op::Mkdir | Op::Mknod | Op::Symlink => errno.to_string(),
        _ if step.outcome == Outcome::Refused => format!("{offset} {length} 95"),
        _ if step.range.is_some() => format!("{offset} {length} {errno}"),
        _ => errno.to_string(),
    };
    Some([names, numbers].join(" ").trim().to_owned())
}

/// A line of the program without what is not compared: the label, owners (the tree has them), flags, which it prints
/// without having read them, projects of XFS, lengths of lists.
fn real(line: &str, op: Op) -> String {
    let fields = line.split(' ').skip(3);
    let is_number = |field: &&str| field.parse::<i64>().is_ok();
    match op {
        Op::Bulkstat | Op::Bulkstat1 => String::new(),
        Op::Chown | Op::Getattr | Op::Listfattr | Op::Setxattr => {
            fields.filter(|field| !is_number(field)).collect::<Vec<_>>().join(" ")
        }
        _ => fields.collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn every_operation_is_that_of_the_program_and_so_is_the_tree() {
    let options = Options { operations: 400, loops: 2, seed: 7, ..Options::default() };
    let mut fs = Model::new(Timestamp::default());
    let mut cx = Cx::new();
    let mut lines = REAL.lines().skip(1).take_while(|line| !line.starts_with('/')).peekable();
    for process in 0..2 {
        let mut ours = Fsstress::new(&mut fs, &mut cx, &options, process).unwrap();
        for done in 0.. {
            let Some(step) = ours.step(&mut fs, &mut cx) else { break };
            let Some(printed) = printed(&step) else { continue };
            let line = lines.next().unwrap();
            let number = done % options.operations;
            assert!(line.starts_with(&format!("{process} {number} ")), "{line}: {step:?}");
            let printed = if step.op == Op::Bulkstat1 { String::new() } else { printed };
            assert_eq!(printed, real(line, step.op), "{line}: {step:?}");
        }
    }
    assert_eq!(lines.next(), None);
    fs.check();

    let mut rows = Vec::new();
    for (path, node) in &tree(&mut fs, &mut cx).unwrap().nodes {
        if path.is_empty() {
            continue;
        }
        let attr = node.attr;
        let (kind, size) = match attr.file_type {
            FileType::Directory => ('d', 0),
            FileType::Regular => ('f', attr.size),
            FileType::Symlink => ('l', attr.size),
            _ => ('c', 0),
        };
        rows.push(format!(
            "/{} {kind} {:o} {}:{} {} {size} {:08x}",
            path.escape_ascii(),
            attr.mode,
            attr.uid,
            attr.gid,
            attr.nlink,
            node.crc
        ));
    }
    rows.sort();
    let expected: Vec<&str> = REAL.lines().filter(|line| line.starts_with('/')).collect();
    for (ours, real) in rows.iter().zip(&expected) {
        assert_eq!(ours, real);
    }
    assert_eq!(rows.len(), expected.len());
}
