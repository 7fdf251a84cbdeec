//! fsstress on the oracle, which costs next to nothing: how many operations a second the generator makes.
//!
//! Fails below 500,000 a second in a release build.
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::time::Instant;

use fs::model::Model;
use sim::Cx;
use sim::seam::Timestamp;
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
}
