//! Random requests, several at a time, against a disk that is a vector of bytes.

use std::collections::BTreeMap;

use nand::{Array, Bytes};
use proptest::prelude::*;
use sim::seam::{BlockDevice, BlockOp, BlockRequest, Payload, RamVolume};
use sim::{Cx, Ns};
use ubi::block::{Backing, OnUbi, UbiBlock};
use ubi::{Config, Policy, Ubi};

use crate::rig::{NAND, SECTOR, UNEVEN, WRITING, block, pattern, plain, without_fastmap};

/// What the host does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Submits a request. The sector is taken modulo the device, the length shortened to fit.
    Ask { op: BlockOp, sector: u64, sectors: u32, fua: bool },
    /// Waits for this long.
    Wait(Ns),
    /// Closes the device and makes another of its volume.
    Reopen,
}

pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![4 => Just(BlockOp::Read), 8 => Just(BlockOp::Write), 1 => Just(BlockOp::Flush),
        2 => Just(BlockOp::Trim)];
    let ask = (op, 0..256u64, prop_oneof![3 => 1..4u32, 1 => 1..24u32], prop::bool::weighted(0.1))
        .prop_map(|(op, sector, sectors, fua)| Step::Ask { op, sector, sectors, fua });
    let wait = prop_oneof![1..5_000u64, 500_000_000..2_000_000_000u64].prop_map(|ns| Step::Wait(Ns(ns)));
    prop::collection::vec(prop_oneof![12 => ask, 2 => wait, 1 => Just(Step::Reopen)], 1..most)
}

/// The disk that is a vector, with what the host waits for.
pub struct Oracle {
    bytes: Vec<u8>,
    leb_bytes: usize,
    version: u32,
    /// By tag: the request, and what a read must return.
    expected: BTreeMap<u32, (BlockRequest, Vec<u8>)>,
    pub now: Ns,
}

impl Oracle {
    pub fn of<V: Backing>(device: &UbiBlock<V>) -> Oracle {
        let bytes = vec![0xff; device.sectors() as usize * SECTOR];
        let leb_bytes = device.volume().leb_bytes() as usize;
        Oracle { bytes, leb_bytes, version: 0, expected: BTreeMap::new(), now: Ns::ZERO }
    }

    /// Submits a request and applies it here: a ubiblock serves in the order of submission.
    fn ask<V: Backing>(&mut self, device: &mut UbiBlock<V>, request: BlockRequest) {
        while self.expected.len() as u32 == device.queue_depth() {
            assert!(self.hear(device, Ns(u64::MAX)), "the device stalls");
        }
        let range = request.sector as usize * SECTOR..request.end() as usize * SECTOR;
        let mut payload = Payload::Length(0);
        let mut data = Vec::new();
        let mut expected = Vec::new();
        match request.op {
            BlockOp::Write => {
                self.version += 1;
                data = pattern(self.version, request.sector, request.sectors);
                payload = Payload::Bytes(&data);
            }
            BlockOp::Read => expected = self.bytes[range.clone()].to_vec(),
            BlockOp::Trim => {
                let last = self.bytes.len();
                for leb in 0..last.div_ceil(self.leb_bytes) {
                    let bytes = leb * self.leb_bytes..((leb + 1) * self.leb_bytes).min(last);
                    if range.start <= bytes.start && bytes.end <= range.end {
                        self.bytes[bytes].fill(0xff);
                    }
                }
            }
            BlockOp::Flush => {}
        }
        let tag = (0..).find(|tag| !self.expected.contains_key(tag)).expect("one is free");
        device.submit(self.now, tag, request, payload).expect("it fits");
        if request.op == BlockOp::Write {
            self.bytes[range].copy_from_slice(&data);
        }
        self.expected.insert(tag, (request, expected));
    }

    /// Takes a completion up to `until`, and returns whether there was one.
    fn hear<V: Backing>(&mut self, device: &mut UbiBlock<V>, until: Ns) -> bool {
        let Some(done) = device.next_done(until) else { return false };
        assert!(done.at <= until && done.at >= self.now, "{done:?}");
        self.now = done.at;
        assert_eq!(done.result, Ok(()));
        let (request, expected) = self.expected.remove(&done.tag).expect("it was asked for");
        if request.op == BlockOp::Read {
            let mut data = vec![0x77; expected.len()];
            device.take(done.tag, &mut data);
            assert!(data == expected, "{request:?}");
        }
        true
    }

    /// Takes all completions, and compares the whole device.
    pub fn compare<V: Backing>(&mut self, device: &mut UbiBlock<V>) {
        self.ask(device, BlockRequest::read(0, device.sectors() as u32));
        while !self.expected.is_empty() {
            assert!(self.hear(device, Ns(u64::MAX)), "the device stalls");
        }
    }

    /// Does a step; `reopen` makes a volume that was closed ready for another device.
    pub fn step<V: Backing>(&mut self, mut device: UbiBlock<V>, step: Step, reopen: impl Fn(V) -> V) -> UbiBlock<V> {
        match step {
            Step::Ask { op, sector, sectors, fua } => {
                let sector = sector % device.sectors();
                let sectors = u64::from(sectors).min(device.sectors() - sector) as u32;
                let request = match op {
                    BlockOp::Flush => BlockRequest::flush(),
                    _ => BlockRequest { op, sector, sectors, fua: fua && op == BlockOp::Write, queue: 0 },
                };
                self.ask(&mut device, request);
            }
            Step::Wait(span) => {
                let until = self.now + span;
                while self.hear(&mut device, until) {}
                self.now = until;
            }
            Step::Reopen => {
                while self.hear(&mut device, Ns(u64::MAX)) {}
                let config = device.config().clone();
                let (volume, closed) = device.close(self.now);
                self.now = closed.expect("no faults");
                device = UbiBlock::new(reopen(volume), self.now, config).expect("as before");
            }
        }
        device
    }
}

fn hold<V: Backing>(
    volume: V,
    config: ubi::block::BlockConfig,
    steps: &[Step],
    reopen: impl Fn(V) -> V,
) -> UbiBlock<V> {
    let mut device = UbiBlock::new(volume, Ns::ZERO, config).expect("possible");
    let mut oracle = Oracle::of(&device);
    for &step in steps {
        device = oracle.step(device, step, &reopen);
    }
    oracle.compare(&mut device);
    device = oracle.step(device, Step::Reopen, reopen);
    oracle.compare(&mut device);
    device
}

/// Detaches and attaches: what was written back is read from the flash.
fn from_flash(volume: OnUbi<Array<Bytes>>) -> OnUbi<Array<Bytes>> {
    volume.ubi().check();
    let config = volume.ubi().config().clone();
    let (flash, detached) = volume.into_ubi().detach(&mut Cx::new());
    detached.expect("no faults");
    let ubi = Ubi::attach(flash, &mut Cx::new(), &config).unwrap_or_else(|failure| panic!("{}", failure.error));
    let vol_id = ubi.find_volume("v").expect("the volume is there");
    OnUbi::open(ubi, &mut Cx::new(), vol_id).unwrap_or_else(|failure| panic!("{}", failure.error))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn on_memory_a_ubiblock_is_a_disk(
        steps in steps(120),
        form in prop::sample::select(&WRITING),
        cache_lebs in 1..=4u32,
        leb_bytes in prop::sample::select(&[256, 1280, 2048, 3840]),
        depth in 1..=4u32,
    ) {
        let config = ubi::block::BlockConfig { depth, ..block(form, cache_lebs) };
        hold(RamVolume::new(6, leb_bytes, 256), config, &steps, |volume| volume);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn on_ubi_a_ubiblock_is_a_disk(
        steps in steps(120),
        form in prop::sample::select(&WRITING),
        cache_lebs in 1..=4u32,
        uneven in any::<bool>(),
        fastmap in any::<bool>(),
        wl_threshold in prop::sample::select(&[3, 4096]),
    ) {
        let config = if fastmap { Config::linux(Policy::LINUX_6_7) } else { without_fastmap() };
        let config = Config { wl_threshold, ..config };
        let geometry = if uneven { UNEVEN } else { NAND };
        let volume = plain(geometry, &config, 6);
        let device = hold(volume, block(form, cache_lebs), &steps, from_flash);
        device.volume().ubi().check();
    }
}
