//! fsstress on UBIFS: a volume that keeps no bytes sees the same operations as one that keeps them.

use fs::ubifs::media::Compression;
use fs::ubifs::mkfs::{self, Compress};
use fs::ubifs::{Counters, Options, Ubifs};
use sim::seam::{LebError, LebVolume, Payload, RamVolume};
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
        LEBS
    }

    fn leb_bytes(&self) -> u32 {
        LEB_BYTES
    }

    fn min_io_bytes(&self) -> u32 {
        MIN_IO
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
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

fn stress<const KEEPS: bool>(operations: u64) -> (Vec<Call>, Counters, Vec<Outcome>) {
    let cx = &mut Cx::new();
    let volume = Noted::<KEEPS> { bytes: RamVolume::new(LEBS, LEB_BYTES, MIN_IO), calls: Vec::new() };
    let make =
        mkfs::Options { compress: Compress::Always(Compression::None), ..mkfs::Options::new(MIN_IO, LEB_BYTES, LEBS) };
    let mut fs = Ubifs::format(volume, cx, &make, Options::default()).expect("the options go together");
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
    let differ = with.iter().zip(&without).position(|(with, without)| with != without);
    assert!(differ.is_none(), "call {differ:?}");
    assert_eq!(with.len(), without.len());
}
