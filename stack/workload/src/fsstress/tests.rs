use fs::model::view::names;
use fs::model::{Model, tree};
use sim::Cx;
use sim::seam::{FileSystem, FileType, FsError, Timestamp};

use super::random::Random;
use super::{Fsstress, OPS, Op, Options, Outcome, Step};

fn run(fs: &mut Model, options: &Options, processes: u32) -> Vec<Step> {
    let mut cx = Cx::new();
    let mut steps = Vec::new();
    for process in 0..processes {
        let mut load = Fsstress::new(fs, &mut cx, options, process).unwrap();
        steps.extend(std::iter::from_fn(|| load.step(fs, &mut cx)));
    }
    fs.check();
    steps
}

/// The sum and the heaviest weights as published in the table of fsstress.
#[test]
fn weights_are_those_of_fsstress() {
    let sum: u32 = Op::TABLE.iter().map(|(_, _, weight)| weight).sum();
    assert_eq!((OPS, sum), (60, 90));
    let of = |wanted: u32| Op::TABLE.iter().filter(move |(_, _, weight)| *weight == wanted).map(|(_, name, _)| *name);
    assert_eq!(
        of(4).collect::<Vec<_>>(),
        ["clonerange", "copyrange", "creat", "deduperange", "dread", "dwrite", "write", "writev"]
    );
    assert_eq!(of(3).collect::<Vec<_>>(), ["chown"]);
    assert_eq!(Op::named("rwhiteout"), Some(Op::Rwhiteout));
    assert_eq!(Op::named("nothing"), None);
    assert_eq!(Op::SubvolDelete.name(), "subvol_delete");
}

/// Chi-square of 200,000 draws over 53 operations: 52 degrees of freedom, whose 99.9 % bound is 90.6 and whose 0.1 %
/// bound is 26.2.
#[test]
fn operations_are_drawn_by_their_weights() {
    let options = Options { operations: 200_000, ..Options::default() };
    let mut fs = Model::without_bytes(Timestamp::default());
    let steps = run(&mut fs, &options, 1);
    let chi_square: f64 = Op::TABLE
        .iter()
        .filter(|(_, _, weight)| *weight > 0)
        .map(|&(op, _, weight)| {
            let expected = steps.len() as f64 * f64::from(weight) / 90.0;
            let counted = steps.iter().filter(|step| step.op == op).count() as f64;
            (counted - expected).powi(2) / expected
        })
        .sum();
    assert!((26.2..90.6).contains(&chi_square), "{chi_square}");
}

/// A directory can be removed of which the process believes that something is in it.
#[test]
fn other_hands_may_empty_a_directory() {
    let mut options = Options { operations: 5_000, ..Options::default() };
    options.weights[Op::TABLE.iter().position(|(op, ..)| *op == Op::Rmdir).unwrap()] = 10;
    let (mut fs, mut cx) = (Model::without_bytes(Timestamp::default()), Cx::new());
    let mut load = Fsstress::new(&mut fs, &mut cx, &options, 0).unwrap();
    let mut removed = 0;
    while load.step(&mut fs, &mut cx).is_some() {
        let names = names(&mut fs, &mut cx).unwrap();
        let mut paths = names.iter();
        let file = paths.find(|(_, ino)| fs.getattr(&mut cx, **ino).unwrap().file_type != FileType::Directory);
        if let Some((path, _)) = file {
            let slash = path.iter().rposition(|&byte| byte == b'/').unwrap();
            fs.unlink(&mut cx, names[&path[..slash]], &path[slash + 1..]).unwrap();
            removed += 1;
        }
    }
    fs.check();
    assert!(removed > 100, "{removed} removed");
}

#[test]
fn one_seed_is_one_sequence_with_bytes_and_without() {
    let options = Options { operations: 3_000, loops: 2, seed: 5, ..Options::default() };
    let (mut one, mut other) = (Model::new(Timestamp::default()), Model::new(Timestamp::default()));
    let steps = run(&mut one, &options, 2);
    assert_eq!(steps, run(&mut other, &options, 2));
    assert_eq!(steps.len(), 12_000);
    let mut cx = Cx::new();
    let trees = [&mut one, &mut other].map(|fs| tree(fs, &mut cx).unwrap());
    assert_eq!(trees[0].difference(&trees[1]), None);

    let mut tags = Model::without_bytes(Timestamp::default());
    assert_eq!(steps, run(&mut tags, &options, 2));
    let mut without = tree(&mut tags, &mut cx).unwrap();
    for (path, node) in &mut without.nodes {
        node.crc = trees[0].nodes[path].crc;
    }
    assert_eq!(trees[0].difference(&without), None);

    let mut fs = Model::new(Timestamp::default());
    assert_ne!(steps, run(&mut fs, &Options { seed: 6, ..options }, 2));
}

/// The generator's own table of powers begins with the 128th power of 69,069 and ends with the first.
#[test]
fn random_numbers_are_those_that_xfstests_brings() {
    let mut random = Random::new(1);
    // By hand: the register begins at 1, and the draw of the seeding makes it 2 and the sum 1. Then it is 4, and the sum
    // becomes 1 * 69069^(128-3) + 3.
    let power = (0..125).fold(1_u32, |power, _| power.wrapping_mul(69_069));
    let sum = power.wrapping_add(3);
    let expected = if sum >> 31 == 1 { !sum } else { sum };
    assert_eq!(random.draw(), u64::from(expected));
    let draws: Vec<u64> = (0..1_000).map(|_| random.draw()).collect();
    assert!(draws.iter().all(|&draw| draw < 1 << 31));
    assert!(draws.iter().filter(|&&draw| draw >= 1 << 30).count().abs_diff(500) < 60);
}

#[test]
fn options_choose_operations_and_ends() {
    let mut weights = [0; OPS];
    let mut fs = Model::new(Timestamp::default());
    let mut cx = Cx::new();
    let none = Fsstress::new(&mut fs, &mut cx, &Options { weights, ..Options::default() }, 0);
    assert_eq!(none.err(), Some(FsError::Invalid { why: "every weight is 0" }));
    weights[Op::Creat as usize] = 1;
    let options = Options { operations: 3, loops: 0, weights, ..Options::default() };
    let mut load = Fsstress::new(&mut fs, &mut cx, &options, 0x1f).unwrap();
    for _ in 0..1_000 {
        assert_eq!(load.step(&mut fs, &mut cx).unwrap().outcome, Outcome::Done);
    }
    let root = fs.root();
    let home = fs.lookup(&mut cx, root, b"p1f").unwrap();
    assert_eq!(home.mode, 0o777);
    assert!(fs.lookup(&mut cx, home.ino, b"f3e7").is_ok(), "the thousandth file");
}

/// Direct I/O goes to whole blocks where the file system has it, and is refused where not.
#[test]
fn direct_io_is_aligned_or_refused() {
    for direct_io in [false, true] {
        let options = Options { operations: 5_000, direct_io, ..Options::default() };
        let steps = run(&mut Model::new(Timestamp::default()), &options, 1);
        let direct = [Op::Dread, Op::Dwrite, Op::Aread, Op::Awrite];
        let ranges: Vec<_> =
            steps.iter().filter(|step| direct.contains(&step.op)).filter_map(|step| step.range).collect();
        assert_eq!(ranges.is_empty(), !direct_io);
        assert!(ranges.iter().all(|(offset, length)| offset % 4096 == 0 && length % 4096 == 0 && *length > 0));
        assert_eq!(steps.iter().any(|step| step.op == Op::Dwrite && step.outcome == Outcome::Refused), !direct_io);
    }
}

/// Lengths and offsets as fsstress draws them: 1 to 131,072 bytes, up to 1 MiB beyond the end of the file.
#[test]
fn writes_are_as_long_and_as_far_as_those_of_fsstress() {
    let options = Options { operations: 100_000, ..Options::default() };
    let steps = run(&mut Model::without_bytes(Timestamp::default()), &options, 1);
    let lengths: Vec<u64> =
        steps.iter().filter(|step| step.op == Op::Write).filter_map(|step| step.range).map(|range| range.1).collect();
    let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
    // Uniform: the standard deviation of the mean of about 4,400 is 570.
    assert!((65_536.5 - mean).abs() < 3.0 * 570.0, "{mean}");
    assert!(lengths.iter().all(|length| (1..=131_072).contains(length)));
    assert!(steps.iter().all(|step| step.outcome != Outcome::Done || step.op != Op::Write || step.written > 0));
}

#[test]
fn what_lost_its_last_name_is_deleted_when_its_process_goes_on() {
    let weights = Op::TABLE.map(|(op, ..)| match op {
        Op::Creat | Op::Mkdir => 3,
        Op::Unlink | Op::Rmdir => 1,
        _ => 0,
    });
    let mut left = 0;
    for overlaps in [false, true] {
        let (mut fs, mut cx) = (Model::new(Timestamp::default()), Cx::new());
        let options = Options { operations: 400, seed: 3, weights, overlaps, ..Options::default() };
        let mut process = Fsstress::new(&mut fs, &mut cx, &options, 0).unwrap();
        let mut before = None;
        while let Some(step) = process.step(&mut fs, &mut cx) {
            if let Some(ino) = before.take() {
                assert!(fs.getattr(&mut cx, ino).is_err(), "{step:?}: the inode of the step before is there");
            }
            let is_taken = matches!(step.op, Op::Unlink | Op::Rmdir) && step.outcome == Outcome::Done;
            assert_eq!(process.unnamed.is_some(), is_taken && overlaps, "{step:?}");
            if let Some(ino) = process.unnamed {
                assert_eq!(fs.getattr(&mut cx, ino).unwrap().nlink, 0, "{step:?}");
                before = Some(ino);
                left += 1;
            }
        }
        assert_eq!(process.unnamed, None);
    }
    assert!(left > 30, "{left}");
}
