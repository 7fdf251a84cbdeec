//! Stores against each other: what one keeps, all keep, whatever is done to the array.

use std::io;

use sim::seam::{Flash, FlashError, Geometry, Medium, Payload, is_erased};
use sim::{Cx, Peb, Seed};

use super::{NAND, NOR};
use crate::image::{Guess, check_length, dump_bytes};
use crate::{
    AnyStore, Array, ArrayConfig, Blank, Buffer, Bytes, Ecc, FaultPlan, Mapped, NandsimFaults, Overlay, PageOrder,
    Pairing, PowerCut, PrefixBytes, Sparse, Store, Tear,
};

/// A hundred things done to an array, the same for every store of the same seed.
fn busy<S: Store>(array: &mut Array<S>, seed: u64) {
    let mut rng = Seed(seed).stream("test/stores");
    let cx = &mut Cx::new();
    for _ in 0..100 {
        let peb = Peb(rng.below(4) as u32);
        let page = rng.below(8) as u32;
        let bytes: Vec<u8> = (0..1024).map(|_| rng.bits() as u8).collect();
        let (at, len) = (rng.below(32) as u32 * 128, rng.below(8) as usize * 128);
        // Whether a rule refuses it is another test's concern: the stores must agree.
        match rng.below(16) {
            0..4 => drop(array.program(cx, peb, at, Payload::Bytes(&bytes[..len]))),
            4..7 => drop(array.program_with_oob(cx, peb, page * 512, Payload::Bytes(&bytes[..512]), &bytes[512..528])),
            7 => drop(array.program(cx, peb, at, Payload::Length(len as u32))),
            8 => drop(array.program_oob(cx, peb, page, &bytes[..len % 17])),
            9 => drop(array.erase(cx, peb)),
            10 => array.tamper(peb, |cells| cells[at as usize..][..128].copy_from_slice(&bytes[..128])),
            11 if rng.below(8) == 0 => drop(array.mark_bad(cx, peb)),
            _ => {
                let tear = match rng.below(3) {
                    0 => Tear::RandomBits,
                    1 => Tear::Prefix(PrefixBytes::Drawn),
                    _ => Tear::Prefix(PrefixBytes::Exactly(rng.below(1500) as u32)),
                };
                let cut = PowerCut::at_op(array.ops(), tear).seeded(Seed(rng.bits())).paired(Pairing::Mlc);
                array.set_power_cut(Some(cut));
                match rng.below(3) {
                    0 => drop(array.erase(cx, peb)),
                    1 => drop(array.program(cx, peb, at, Payload::Bytes(&bytes))),
                    _ => drop(array.program_with_oob(
                        cx,
                        peb,
                        page * 512,
                        Payload::Bytes(&bytes[..512]),
                        &bytes[512..528],
                    )),
                }
                array.set_power_cut(None);
                array.power_on();
            }
        }
    }
    array.check();
}

/// Everything that can be seen of an array.
fn seen<S: Store>(array: &mut Array<S>) -> (Vec<u8>, Vec<u32>, Vec<Peb>) {
    let mut dump = Vec::new();
    array.dump(array.store().keeps_oob(), &mut dump).unwrap();
    for (peb, block) in (0..4).zip(dump.chunks(dump.len() / 4)) {
        for (page, cells) in (0..8).zip(block.chunks(block.len() / 8)) {
            let (mut data, mut oob) = ([0; 512], [0; 16]);
            // What is torn is read too.
            let _ = array.read(&mut Cx::new(), Peb(peb), page * 512, &mut data);
            array.read_oob(Peb(peb), page, &mut oob).unwrap();
            assert_eq!(cells[..512], data);
            assert_eq!(cells.get(512..528).unwrap_or(&[0xff; 16]), oob, "without OOB it reads as erased");
        }
    }
    let marks = (0..4).map(|peb| array.mark(Peb(peb))).collect();
    (dump, marks, array.bad_pebs().collect())
}

#[test]
fn all_stores_keep_the_same() {
    for order in [PageOrder::Ascending, PageOrder::Any] {
        for seed in 0..40 {
            for with_oob in [false, true] {
                let mut config = ArrayConfig::plain(NAND);
                config.rules.order = order;
                let blank = vec![0xff; dump_bytes(&NAND, with_oob) as usize];
                let in_memory = || if with_oob { Bytes::with_oob() } else { Bytes::new() };
                let mut bytes = Array::new(config.clone(), in_memory());
                let erased = Mapped::erased(NAND, vec![0; blank.len()], with_oob).unwrap();
                let mut mapped = Array::new(config.clone(), erased);
                let mut overlay = Array::new(config.clone(), Overlay::new(NAND, blank, with_oob).unwrap());
                busy(&mut bytes, seed);
                busy(&mut mapped, seed);
                busy(&mut overlay, seed);
                let of_bytes = seen(&mut bytes);
                assert_eq!(of_bytes, seen(&mut mapped));
                assert_eq!(of_bytes, seen(&mut overlay));
                if !with_oob {
                    let mut sparse = Array::new(config.clone(), AnyStore::from(Sparse::new()));
                    busy(&mut sparse, seed);
                    assert_eq!(of_bytes, seen(&mut sparse));
                }
                let buffer: &mut dyn Buffer = &mut vec![0; of_bytes.0.len()];
                let mapped = Mapped::erased(NAND, buffer, with_oob).unwrap();
                for store in [AnyStore::from(in_memory()), AnyStore::Mapped(mapped)] {
                    let mut any = Array::new(config.clone(), store);
                    busy(&mut any, seed);
                    assert_eq!(of_bytes, seen(&mut any));
                    let (any, all) = (any.into_store(), dump_bytes(&NAND, with_oob) as usize);
                    assert!(any.held_bytes() > 0 && any.held_bytes() <= all + 1024, "{}", any.held_bytes());
                }
                // An array made of the contents holds the same, and is marked as far as they reach.
                let dump = of_bytes.0;
                let base = Overlay::new(NAND, dump.clone(), with_oob).unwrap();
                let mut again = [
                    seen(&mut Array::load(config.clone(), &dump, with_oob).unwrap()),
                    seen(&mut Array::new(config.clone(), Mapped::new(NAND, dump.clone(), with_oob).unwrap())),
                    seen(&mut Array::new(config.clone(), base.clone())),
                ];
                let expected: Vec<u32> = (0..4)
                    .map(|peb| {
                        let block = dump.len() / 4;
                        let pages = dump[peb * block..][..block].chunks(block / 8);
                        let cells: Vec<u8> = pages.flat_map(|page| &page[..512]).copied().collect();
                        let end = cells.iter().rposition(|&byte| byte != 0xff).map_or(0, |at| at as u32 + 1);
                        end.next_multiple_of(128)
                    })
                    .collect();
                for found in &mut again {
                    assert_eq!((&found.0, &found.1), (&dump, &expected));
                }
                // What is done to the contents afterwards is the same too: blocks of the base are copied.
                let mut mapped = Array::new(config.clone(), Mapped::new(NAND, dump.clone(), with_oob).unwrap());
                let mut overlay = Array::new(config.clone(), base);
                busy(&mut mapped, seed + 1000);
                busy(&mut overlay, seed + 1000);
                assert_eq!(seen(&mut mapped), seen(&mut overlay));
                assert!(overlay.store().changed_pebs() > 1);
            }
        }
    }
}

/// One of two equal arrays reads, the other one is asked whether a range is erased: whatever became of the cells, and whether bits
/// flip. Each read counts.
#[test]
fn whether_a_range_is_erased_is_what_a_read_of_it_shows() {
    fn compare<S: Store>(make: impl Fn() -> Array<S>, seed: u64) -> (u32, u32) {
        let (mut read, mut asked) = (make(), make());
        busy(&mut read, seed);
        busy(&mut asked, seed);
        let cx = &mut Cx::new();
        let (mut erased, mut failed) = (0, 0);
        for place in 0..4 * 8 {
            let (peb, offset, len) = (Peb(place / 8), place % 8 * 512, 512 - place * 4);
            let (mut bytes, mut buffer) = (vec![1; len as usize], vec![7; 9]);
            let expected = read.read(cx, peb, offset, &mut bytes).map(|_| is_erased(&bytes));
            assert_eq!(asked.reads_erased(cx, peb, offset, len, &mut buffer), expected, "{peb}, {offset}, seed {seed}");
            if expected.is_err() {
                assert_eq!(buffer, bytes, "{peb}, {offset}, seed {seed}");
            }
            assert_eq!(asked.reads(), read.reads());
            erased += u32::from(expected == Ok(true));
            failed += u32::from(expected.is_err());
        }
        let beyond = asked.reads_erased(cx, Peb(3), 4096 - 100, 101, &mut Vec::new());
        assert_eq!(beyond, Err(FlashError::OutOfBounds { peb: Peb(3), offset: 3996, len: 101 }));
        asked.power_off();
        assert_eq!(asked.reads_erased(cx, Peb(2), 0, 512, &mut Vec::new()), Err(FlashError::PowerLost));
        (erased, failed)
    }
    let bitflips = NandsimFaults { bitflips: 9, ..NandsimFaults::default() };
    let faults = FaultPlan { nandsim: bitflips, ..FaultPlan::none(Seed(1)) };
    let (mut erased, mut failed) = (0, 0);
    for seed in 0..40 {
        for faults in [None, Some(faults.clone())] {
            let ecc = faults.as_ref().map(|_| Ecc::new(4, 512));
            let config = ArrayConfig { faults, ecc, ..ArrayConfig::plain(NAND) };
            let of_bytes = compare(|| Array::new(config.clone(), Bytes::new()), seed);
            assert_eq!(compare(|| Array::new(config.clone(), AnyStore::from(Sparse::new())), seed), of_bytes);
            let mapped = || Mapped::erased(NAND, vec![0; 16_384], false).unwrap();
            assert_eq!(compare(|| Array::new(config.clone(), mapped()), seed), of_bytes);
            (erased, failed) = (erased + of_bytes.0, failed + of_bytes.1);
        }
    }
    assert!(erased > 100 && failed > 3, "{erased} ranges were erased, {failed} reads failed");
}

/// By hand: a full block of zeroes is a table of 4 bytes for each 128, and each 128 bytes that are not all zero take theirs.
#[test]
fn zeroes_take_the_memory_of_a_table_alone() {
    let geometry = Geometry { peb_bytes: 65_536, page_bytes: 2048, subpage_bytes: 512, ..NAND };
    let mut array = Array::new(ArrayConfig::plain(geometry), Sparse::new());
    let cx = &mut Cx::new();
    let empty = array.store().held_bytes();
    let held = |array: &Array<Sparse>| array.store().held_bytes() - empty;
    array.program(cx, Peb(1), 0, Payload::Bytes(&[0; 32_768])).unwrap();
    array.program(cx, Peb(1), 32_768, Payload::Length(32_768)).unwrap();
    assert_eq!((held(&array), array.store().programmed_end(Peb(1))), (65_536 / 128 * 4, 65_536));
    // 68 bytes that are other, as the head of a node, and erased ones behind.
    let mut page = [0; 2048];
    page[..68].fill(0x5a);
    page[1100..].fill(0xff);
    array.program(cx, Peb(2), 0, Payload::Bytes(&page)).unwrap();
    let table = 65_536 / 128 * 4;
    assert!((2 * table + 256..2 * table + 1024).contains(&held(&array)), "{}", held(&array));
    assert_eq!(array.store().programmed_end(Peb(2)), 1100);
    let mut found = [1; 2048];
    array.read(cx, Peb(2), 0, &mut found).unwrap();
    assert_eq!(found, page);
    array.erase(cx, Peb(1)).unwrap();
    array.erase(cx, Peb(2)).unwrap();
    assert_eq!(held(&array), 0);
}

/// A NOR, where any byte is programmed alone: zeroes leave what is beside them, and take nothing from what is there.
#[test]
fn zeroes_of_a_few_bytes_leave_what_is_beside_them() {
    let mut array = Array::new(ArrayConfig::plain(NOR), Sparse::new());
    let cx = &mut Cx::new();
    let mut expected = vec![0xff; 4096];
    for (at, bytes) in
        [(100, &[0; 4][..]), (1000, &[0; 300]), (98, &[0x0f; 4]), (1290, &[0; 118]), (2000, &[0xff; 500])]
    {
        array.program(cx, Peb(1), at, Payload::Bytes(bytes)).unwrap();
        expected[at as usize..].iter_mut().zip(bytes).for_each(|(cell, byte)| *cell &= byte);
        let mut found = vec![1; 4096];
        array.read(cx, Peb(1), 0, &mut found).unwrap();
        assert_eq!(found, expected, "{} bytes at {at}", bytes.len());
    }
    assert_eq!(array.store().programmed_end(Peb(1)), 1408);
}

#[test]
fn a_store_chosen_at_run_time_is_the_one_that_was_chosen() {
    let mut blank = Array::new(ArrayConfig::plain(NAND), AnyStore::Blank(Blank));
    busy(&mut blank, 1);
    let mut page = [1; 512];
    blank.store().read(Peb(0), 0, &mut page);
    assert!(page == [0; 512] && blank.store().held_bytes() == 0);
    assert!(blank.into_store().into_bytes().is_none());
    let mut bytes = Array::new(ArrayConfig::plain(NAND), AnyStore::from(Bytes::new()));
    busy(&mut bytes, 1);
    let held = bytes.store().held_bytes();
    assert_eq!(bytes.into_store().into_bytes().map(|bytes| bytes.held_bytes()), Some(held));
}

#[test]
fn a_block_ends_at_its_last_byte_that_is_not_erased() {
    for len in 0..40_usize {
        for value in [0, 0xfe, 0x7f] {
            let mut image = vec![0xff; NOR.bytes() as usize];
            if len > 0 {
                image[4096 + len - 1] = value;
            }
            let ends = |store: &dyn Fn(Peb) -> u32| [store(Peb(0)), store(Peb(1)), store(Peb(2))];
            let mapped = Mapped::new(NOR, &mut image[..], false).unwrap();
            let expected = [0, len as u32, 0];
            assert_eq!(ends(&|peb| mapped.programmed_end(peb)), expected);
            let overlay = Overlay::new(NOR, &image[..], false).unwrap();
            assert_eq!(ends(&|peb| overlay.programmed_end(peb)), expected);
            let array = Array::load(ArrayConfig::plain(NOR), &image, false).unwrap();
            assert_eq!(ends(&|peb| array.store().programmed_end(peb)), expected);
        }
    }
}

#[test]
fn a_store_without_oob_has_none() {
    let of = |store: Bytes, oob_bytes| {
        Array::new(ArrayConfig::plain(Geometry { oob_bytes, ..NAND }), store).oob_of(Peb(1)).len()
    };
    assert_eq!((of(Bytes::new(), 16), of(Bytes::with_oob(), 0), of(Bytes::with_oob(), 16)), (0, 0, 8 * 16));
}

/// A mark is in byte 0 of the first page's OOB, in byte 5 of pages up to 512 bytes; an OOB that has no such byte holds none.
#[test]
fn bad_marks_survive_where_the_oob_has_room_for_them() {
    for (page_bytes, oob_bytes, at) in [(512, 16, Some(5)), (512, 6, Some(5)), (512, 5, None), (2048, 1, Some(0))] {
        let geometry = Geometry { page_bytes, oob_bytes, subpage_bytes: 512, peb_bytes: 4 * page_bytes, ..NAND };
        let config = ArrayConfig::plain(geometry);
        let mut array = Array::new(config.clone(), Bytes::with_oob());
        array.mark_bad(&mut Cx::new(), Peb(2)).unwrap();
        let mut oob = vec![0; oob_bytes as usize];
        array.read_oob(Peb(2), 0, &mut oob).unwrap();
        assert_eq!(oob.iter().position(|&byte| byte != 0xff), at);
        array.read_oob(Peb(2), 1, &mut oob).unwrap();
        assert!(oob.iter().all(|&byte| byte == 0xff), "only the first page is marked");
        let again = Array::new(config, array.into_store());
        assert_eq!(again.bad_pebs().collect::<Vec<_>>(), if at.is_some() { vec![Peb(2)] } else { vec![] });
    }
}

#[test]
fn a_buffer_of_another_length_is_no_device() {
    let expected = |with_oob| dump_bytes(&NAND, with_oob);
    for len in [0, 4096, 16383, 16385, 16896] {
        for with_oob in [false, true].into_iter().filter(|&oob| expected(oob) != len) {
            let buffer = vec![0; len as usize];
            let errors = [
                Mapped::new(NAND, buffer.clone(), with_oob).map(drop),
                Mapped::erased(NAND, buffer.clone(), with_oob).map(drop),
                Overlay::new(NAND, buffer.clone(), with_oob).map(drop),
                Array::load(ArrayConfig::plain(NAND), &buffer, with_oob).map(drop),
            ];
            for error in errors.map(Result::unwrap_err) {
                assert_eq!((error.found, error.expected), (len, expected(with_oob)));
            }
        }
    }
    assert_eq!(check_length(&NAND, 0, false).unwrap_err().guess, Guess::Unknown, "nothing is no block");
    assert_eq!(check_length(&NAND, 4096, false).unwrap_err().guess, Guess::Blocks(1));
    // An image of the first blocks may be as long as the device.
    let whole = vec![7; 16384];
    let mut array = Array::load_front(ArrayConfig::plain(NAND), &whole, false).unwrap();
    assert_eq!(super::read(&mut array, 3, 0, 4096), [7; 4096]);
    // A device without OOB has the same dump with OOB as without.
    let bare = Geometry { oob_bytes: 0, ..NAND };
    let mut array = Array::load(ArrayConfig::plain(bare), &whole, true).unwrap();
    assert_eq!(super::read(&mut array, 0, 0, 4096), [7; 4096]);
    let mut dump = Vec::new();
    array.dump(true, &mut dump).unwrap();
    assert_eq!(dump, whole);
}

#[test]
#[should_panic(expected = "another device")]
fn a_mapped_store_of_another_device_is_refused() {
    let other = Geometry { medium: Medium::Nand, pebs: 2, peb_bytes: 8192, ..NAND };
    Array::new(ArrayConfig::plain(NAND), Mapped::erased(other, vec![0; 16384], false).unwrap());
}

#[test]
#[should_panic(expected = "another device")]
fn an_overlay_of_another_device_is_refused() {
    let other = Geometry { medium: Medium::Nand, pebs: 2, peb_bytes: 8192, ..NAND };
    Array::new(ArrayConfig::plain(NAND), Overlay::new(other, vec![0; 16384], false).unwrap());
}

/// Takes so many bytes, and then no more.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_dump_to_a_full_sink_fails() {
    let array = Array::new(ArrayConfig::plain(NAND), Bytes::with_oob());
    for with_oob in [false, true] {
        let bytes = dump_bytes(&NAND, with_oob) as usize;
        array.dump(with_oob, &mut Full(bytes)).unwrap();
        for room in [0, 512, bytes - 1] {
            assert!(array.dump(with_oob, &mut Full(room)).is_err(), "{room}");
        }
    }
}

/// A store in memory takes what was programmed: a block that is full takes its size, one that is erased nothing.
#[test]
fn stores_hold_what_they_say() {
    // Seven pages: a buffer that doubled with each page would be larger than the block.
    let seven = ArrayConfig::plain(Geometry { peb_bytes: 7 * 512, ..NAND });
    let empty = Array::new(seven.clone(), Bytes::with_oob()).store().held_bytes();
    let mut array = Array::new(seven, Bytes::with_oob());
    let cx = &mut Cx::new();
    for page in 0..7 {
        let (data, oob) = (Payload::Bytes(&[1; 512]), [2; 16]);
        array.program_with_oob(cx, Peb(1), page * 512, data, &oob).unwrap();
    }
    assert_eq!(array.store().held_bytes(), empty + 7 * (512 + 16));
    array.erase(cx, Peb(1)).unwrap();
    assert_eq!(array.store().held_bytes(), empty);
    assert_eq!(Mapped::erased(NAND, vec![0; 16384], false).unwrap().held_bytes(), 16384);
    let mut array = Array::new(ArrayConfig::plain(NAND), Overlay::new(NAND, vec![0xff; 16384], false).unwrap());
    let empty = array.store().held_bytes();
    array.program(cx, Peb(1), 0, Payload::Bytes(&[1; 4096])).unwrap();
    assert_eq!(array.store().held_bytes(), empty + 4096);
}
