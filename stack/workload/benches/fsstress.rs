//! fsstress on the oracle, which costs next to nothing: how many operations a second the generator makes. Then on UBIFS.
//!
//! Fails below 500,000 a second of the generator in a release build.
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::time::Instant;

use fs::model::Model;
use fs::ubifs::media::Compression;
use fs::ubifs::{Ubifs, mkfs};
use sim::seam::{LebError, LebVolume, Payload, RamVolume, Timestamp};
use sim::{Cx, Lnum, Ns};
use workload::fsstress::{Fsstress, Options};

fn main() {
    let is_release = !cfg!(debug_assertions);
    let operations = if is_release { 2_000_000 } else { 10_000 };
    for keeps_bytes in [false, true] {
        let mut fs =
            if keeps_bytes { Model::new(Timestamp::default()) } else { Model::without_bytes(Timestamp::default()) };
        let operations = if keeps_bytes { operations / 20 } else { operations };
        let mut cx = Cx::new();
        // 10,000 operations of each process, as in long runs of the studies: the trees stay small.
        let options = Options { operations: 10_000, ..Options::default() };
        let began = Instant::now();
        let mut done = 0;
        for process in 0.. {
            if done >= operations {
                break;
            }
            let mut load = Fsstress::new(&mut fs, &mut cx, &options, process).expect("the oracle has space");
            while load.step(&mut fs, &mut cx).is_some() {
                done += 1;
            }
        }
        let rate = f64::from(done) / began.elapsed().as_secs_f64();
        println!("{} bytes: {rate:.0} operations a second", if keeps_bytes { "with" } else { "without" });
        assert!(keeps_bytes || !is_release || rate >= 500_000.0, "the generator is too slow");
    }
    ubifs::<false>("without", operations / 2);
    ubifs::<true>("with", operations / 10);
}

/// The same on UBIFS, on a volume of 1,000 LEBs that costs nothing.
fn ubifs<const KEEPS: bool>(name: &str, operations: u32) {
    const LEB_BYTES: u32 = 126_976;
    let make = mkfs::Options {
        compress: mkfs::Compress::Always(Compression::None),
        ..mkfs::Options::new(2048, LEB_BYTES, 1000)
    };
    // 10,000 operations of each process and two on a file system, so that it does not fill up.
    let options = Options { operations: 10_000, ..Options::default() };
    let began = Instant::now();
    let (mut done, mut commits, mut collected) = (0, 0, 0);
    while done < operations {
        let mut cx = Cx::new();
        let volume = Plain::<KEEPS>(RamVolume::new(1000, LEB_BYTES, 2048), vec![false; 1000]);
        let mut fs =
            Ubifs::format(volume, &mut cx, &make, fs::ubifs::Options::default()).expect("the options go together");
        for process in 0..2 {
            let mut load = Fsstress::new(&mut fs, &mut cx, &options, process + done).expect("there is space");
            while load.step(&mut fs, &mut cx).is_some() {
                done += 1;
                cx.spend(Ns(1_000_000));
                while fs.next_wake().is_some_and(|due| due <= cx.now()) {
                    fs.wake(&mut cx).expect("nothing fails");
                }
            }
        }
        commits += fs.counters().commits;
        collected += fs.counters().collected;
    }
    let rate = f64::from(done) / began.elapsed().as_secs_f64();
    println!("UBIFS {name} bytes: {rate:.0} operations a second, {commits} commits, {collected} LEBs collected");
}

/// A volume of which only this is kept: bytes, or which LEBs are mapped.
struct Plain<const KEEPS: bool>(RamVolume, Vec<bool>);

impl<const KEEPS: bool> LebVolume for Plain<KEEPS> {
    fn keeps_bytes() -> bool {
        KEEPS
    }

    fn lebs(&self) -> u32 {
        self.0.lebs()
    }

    fn leb_bytes(&self) -> u32 {
        self.0.leb_bytes()
    }

    fn min_io_bytes(&self) -> u32 {
        self.0.min_io_bytes()
    }

    fn read(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, buf: &mut [u8]) -> Result<(), LebError> {
        if KEEPS { self.0.read(cx, lnum, offset, buf) } else { Ok(()) }
    }

    fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
        self.1[lnum.at()] = true;
        if KEEPS { self.0.write(cx, lnum, offset, data) } else { Ok(()) }
    }

    fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
        self.1[lnum.at()] = !data.is_empty();
        if KEEPS { self.0.change(cx, lnum, data) } else { Ok(()) }
    }

    fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.1[lnum.at()] = true;
        if KEEPS { self.0.map(cx, lnum) } else { Ok(()) }
    }

    fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
        self.1[lnum.at()] = false;
        if KEEPS { self.0.unmap(cx, lnum) } else { Ok(()) }
    }

    fn is_mapped(&self, lnum: Lnum) -> bool {
        self.1[lnum.at()]
    }

    fn sync(&mut self, _: &mut Cx) -> Result<(), LebError> {
        Ok(())
    }
}
