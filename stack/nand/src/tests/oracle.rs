//! Every store and both paths against `RamFlash`.

use proptest::prelude::*;
use sim::seam::{Flash, FlashError, Geometry, Payload, RamFlash};
use sim::{Cx, Peb, Seed};

use super::{NAND, NOR};
use crate::{Array, ArrayConfig, Bytes, FaultPlan, Mapped, Overlay, Store, Tags};

#[derive(Clone, Debug)]
enum Op {
    Program(u32, u32, Vec<u8>),
    Fill(u32, u32, u32),
    Erase(u32),
    Read(u32, u32, usize),
    MarkBad(u32),
}

/// Operations in units of sub-pages, a few of them past the end or in halves of a unit.
fn ops(geometry: Geometry) -> impl Strategy<Value = Vec<Op>> {
    let unit = geometry.subpage_bytes.max(64);
    let peb = 0..geometry.pebs + 1;
    let place = prop_oneof![
        9 => (0..=geometry.peb_bytes / unit).prop_map(move |at| at * unit),
        1 => 0..geometry.peb_bytes,
    ];
    let len = prop_oneof![9 => (1u32..6).prop_map(move |n| n * unit), 1 => 1u32..300];
    let op = prop_oneof![
        6 => (peb.clone(), place.clone(), len.clone(), any::<u64>()).prop_map(|(peb, at, len, seed)| {
            let mut rng = Seed(seed).stream("test/data");
            Op::Program(peb, at, (0..len).map(|_| rng.bits() as u8).collect())
        }),
        1 => (peb.clone(), place.clone(), len).prop_map(|(peb, at, len)| Op::Fill(peb, at, len)),
        2 => peb.clone().prop_map(Op::Erase),
        4 => (peb.clone(), place, 0usize..1500).prop_map(|(peb, at, len)| Op::Read(peb, at, len)),
        1 => peb.prop_filter("RamFlash has no bounds there", move |&peb| peb < geometry.pebs).prop_map(Op::MarkBad),
    ];
    prop::collection::vec(op, 1..60)
}

/// What the caller sees of one operation.
fn apply<F: Flash>(flash: &mut F, op: &Op) -> (Result<(), FlashError>, Vec<u8>) {
    let cx = &mut Cx::new();
    match op {
        Op::Program(peb, at, data) => (flash.program(cx, Peb(*peb), *at, Payload::Bytes(data)), Vec::new()),
        Op::Fill(peb, at, len) => (flash.program(cx, Peb(*peb), *at, Payload::Length(*len)), Vec::new()),
        Op::Erase(peb) => (flash.erase(cx, Peb(*peb)), Vec::new()),
        Op::MarkBad(peb) => (flash.mark_bad(cx, Peb(*peb)), Vec::new()),
        Op::Read(peb, at, len) => {
            let mut buf = vec![0; *len];
            let result = flash.read(cx, Peb(*peb), *at, &mut buf).map(|_| ());
            (result, buf)
        }
    }
}

/// Runs `ops` on the array and the oracle, and again on an array attached to the contents halfway.
fn agree<S: Store>(config: ArrayConfig, store: S, ops: &[Op]) {
    let mut oracle = RamFlash::new(config.geometry);
    let mut array = Array::new(config, store);
    for op in ops {
        assert_eq!(apply(&mut array, op), apply(&mut oracle, op), "{op:?}");
        array.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_store_does_as_ram_flash_does(ops in ops(NAND)) {
        let config = ArrayConfig::plain(NAND);
        let blank = vec![0xff; NAND.bytes() as usize];
        agree(config.clone(), Bytes::new(), &ops);
        agree(config.clone(), Overlay::new(NAND, &blank[..], false).unwrap(), &ops);
        agree(config.clone(), Mapped::erased(NAND, blank, false).unwrap(), &ops);
        let with_oob = vec![0; NAND.bytes() as usize + 32 * 16];
        agree(config, Mapped::erased(NAND, with_oob, true).unwrap(), &ops);
    }

    #[test]
    fn the_careful_path_does_as_the_fast_one(ops in ops(NAND)) {
        let mut config = ArrayConfig::plain(NAND);
        config.faults = Some(FaultPlan::none(Seed(0)));
        agree(config, Bytes::new(), &ops);
    }

    #[test]
    fn nor_does_as_ram_flash_does(ops in ops(NOR)) {
        agree(ArrayConfig::plain(NOR), Bytes::new(), &ops);
    }

    #[test]
    fn tags_refuse_what_bytes_refuse_and_count_the_same(ops in ops(NAND)) {
        let mut bytes = Array::new(ArrayConfig::plain(NAND), Bytes::new());
        let mut tags = Array::new(ArrayConfig::plain(NAND), Tags);
        for op in &ops {
            prop_assert_eq!(apply(&mut tags, op).0, apply(&mut bytes, op).0);
        }
        prop_assert_eq!(tags.erase_counts(), bytes.erase_counts());
        prop_assert_eq!(tags.programmed_bytes(), bytes.programmed_bytes());
        prop_assert_eq!((tags.ops(), tags.reads()), (bytes.ops(), bytes.reads()));
    }
}
