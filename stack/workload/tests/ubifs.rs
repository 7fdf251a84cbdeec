//! fsstress on UBIFS: a volume that keeps no bytes sees the same operations as one that keeps them.

use fs::ubifs::media::Compression;
use fs::ubifs::mkfs::{self, Compress};
use fs::ubifs::{Counters, Options, Ubifs};
use sim::seam::{FileSystem, LebError, LebVolume, NewInode, Payload, RamVolume};
use sim::{Cx, Lnum, Ns};
use workload::fsstress::{self, Fsstress, Outcome};

const LEBS: u32 = 120;
const LEB_BYTES: u32 = 30_720;
const MIN_IO: u32 = 512;

/// An operation of the volume: what, LEB, offset, length.
type Call = (char, u32, u32, u32);

/// A volume that writes down what is done to it. With `KEEPS` it keeps bytes.
struct Noted<const KEEPS: bool> {
    bytes: RamVolume,
    calls: Vec<Call>,
}

impl<const KEEPS: bool> LebVolume for Noted<KEEPS> {
    fn keeps_bytes() -> bool {
        KEEPS
    }

    fn lebs(&self) -> u32 {
        self.bytes.lebs()
    }

    fn leb_bytes(&self) -> u32 {
        LEB_BYTES
    }

    fn min_io_bytes(&self) -> u32 {
        MIN_IO
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        self.calls.push(('r', lnum.0, offset, buf.len() as u32));
        self.bytes.read(cx, lnum, offset, buf)?;
        if !KEEPS {
            buf.fill(0xee);
        }
        Ok(())
    }

    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        assert_eq!(data.bytes().is_some(), KEEPS);
        self.calls.push(('w', lnum.0, offset, data.len()));
        self.bytes.write(cx, lnum, offset, data)
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.calls.push(('c', lnum.0, 0, data.len()));
        self.bytes.change(cx, lnum, data)
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.calls.push(('m', lnum.0, 0, 0));
        self.bytes.map(cx, lnum)
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.calls.push(('u', lnum.0, 0, 0));
        self.bytes.unmap(cx, lnum)
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.bytes.is_mapped(lnum)
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), LebError> {
        Ok(())
    }
}

fn volume<const KEEPS: bool>(lebs: u32) -> Noted<KEEPS> {
    Noted { bytes: RamVolume::new(lebs, LEB_BYTES, MIN_IO), calls: Vec::new() }
}

fn is_same(with: &[Call], without: &[Call]) {
    let differ = with.iter().zip(without).position(|(with, without)| with != without);
    assert!(differ.is_none(), "call {differ:?}");
    assert_eq!(with.len(), without.len());
}

fn stress<const KEEPS: bool>(operations: u64) -> (Vec<Call>, Counters, Vec<Outcome>) {
    let cx = &mut Cx::new();
    let make =
        mkfs::Options { compress: Compress::Always(Compression::None), ..mkfs::Options::new(MIN_IO, LEB_BYTES, LEBS) };
    let mut fs = Ubifs::format(volume::<KEEPS>(LEBS), cx, &make, Options::default()).expect("the options go together");
    let options = fsstress::Options { operations, seed: 5, ..fsstress::Options::default() };
    let mut load = Fsstress::new(&mut fs, cx, &options, 0).expect("there is space");
    let mut outcomes = Vec::new();
    while let Some(step) = load.step(&mut fs, cx) {
        assert!(!step.is_power_loss());
        outcomes.push(step.outcome);
        cx.spend(Ns(10_000_000));
        while fs.next_wake().is_some_and(|due| due <= cx.now()) {
            fs.wake(cx).expect("nothing fails");
        }
    }
    let counters = *fs.counters();
    (fs.unmount(cx).expect("nothing fails").calls, counters, outcomes)
}

#[test]
fn without_bytes_the_volume_sees_the_same() {
    let (with, counted, ended) = stress::<true>(6000);
    let (without, counters, outcomes) = stress::<false>(6000);
    assert_eq!((counters, &outcomes), (counted, &ended));
    assert!(counters.collected > 50 && counters.commits > 20 && counters.data_nodes > 1000, "{counters:?}");
    is_same(&with, &without);
}

/// Makes so many files, looks at all of them, removes half, and looks again.
fn many_files<const KEEPS: bool>(files: u32) -> (Vec<Call>, u64) {
    const LEBS: u32 = 4000;
    let cx = &mut Cx::new();
    let make = mkfs::Options { fanout: 3, ..mkfs::Options::new(MIN_IO, LEB_BYTES, LEBS) };
    let mut fs = Ubifs::format(volume::<KEEPS>(LEBS), cx, &make, Options::default()).expect("the options go together");
    let root = fs.root();
    let mut found = 0;
    for round in 0..2 {
        for file in 0..files {
            let name = format!("{file}");
            match round {
                0 => fs.create(cx, root, name.as_bytes(), NewInode::of_root(0o644)).map(|_| ()),
                _ if file % 2 == 0 => fs.unlink(cx, root, name.as_bytes()),
                _ => Ok(()),
            }
            .expect("there is space");
        }
        fs.sync(cx).expect("nothing fails");
        for file in (0..files).map(|at| at * 7 % files) {
            found += u64::from(fs.lookup(cx, root, format!("{file}").as_bytes()).is_ok());
        }
    }
    (fs.unmount(cx).expect("nothing fails").calls, found)
}

/// More than 131,072 nodes of the index do not stay in memory: the lowest level is read again.
#[test]
fn without_bytes_an_index_larger_than_memory_is_read_as_with_bytes() {
    const FILES: u32 = 100_000;
    let (with, found) = many_files::<true>(FILES);
    assert_eq!(found, u64::from(FILES + FILES / 2));
    // Nodes of 1 to 3 branches: 28 bytes and 20 each.
    let index_nodes = with.iter().filter(|call| call.0 == 'r' && [48, 68, 88].contains(&call.3)).count();
    assert!(index_nodes > 10_000, "{index_nodes} index nodes were read");
    let (without, found_without) = many_files::<false>(FILES);
    assert_eq!(found_without, found);
    is_same(&with, &without);
}
