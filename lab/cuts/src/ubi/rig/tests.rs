//! What the device is held against, and what excuses it.

use nand::Store;

use super::*;
use crate::Plan;
use crate::tape::Tape;

fn plan(more: &str) -> UbiPlan {
    plan_of(64, more)
}

fn plan_of(pebs: u32, more: &str) -> UbiPlan {
    let flash = format!("[nand]\npebs = {pebs}\npeb_bytes = 4096\npage_bytes = 512\n");
    match Plan::resolve(&format!("title = 't'\nseed = 1\n{flash}[ubi]\n{more}\n[cuts]\n"), &[]) {
        Ok(Plan::Ubi(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

/// A device with a dynamic volume whose LEB 0 is mapped.
fn device(plan: &UbiPlan) -> Ubi<Tape> {
    let Ok(mut ubi) = bring_up(plan, &plan.ubi, Tape::new(&plan.array, Bytes::new())) else { panic!("no device") };
    let cx = &mut Cx::new();
    ubi.create_volume(cx, &VolumeRequest::dynamic("v", VolumeSize::Lebs(4))).expect("room for it");
    ubi.volume(VolId(0)).expect("it was made").map(cx, Lnum(0)).expect("a free PEB");
    ubi.flush(cx).expect("a flash without faults");
    ubi
}

/// Without power an operation that touches no flash goes well for UBI. Nobody could rely on it.
#[test]
fn nothing_that_is_done_without_power_counts_as_done() {
    let plan = plan("fastmap = false");
    let unpowered = || {
        let mut ubi = device(&plan);
        ubi.flash_mut().array.power_off();
        ubi
    };
    let unmap = Op::Unmap { vol_id: 0, lnum: 0 };
    for op in [unmap, Op::Sync, Op::Background, Op::Map { vol_id: 0, lnum: 1 }, Op::Detach] {
        match perform(&plan, unpowered(), &op) {
            Err(Down::Broken(Breach { check: Check::Power, .. }) | Down::Power(_)) => {}
            Err(Down::Broken(other)) => panic!("{op}: {other:?}"),
            Ok(_) => panic!("{op}: it is said to be done"),
        }
    }
    match take_down(unpowered(), &Op::Detach) {
        Err(Down::Broken(Breach { check: Check::Power, what })) => assert!(what.starts_with("detach succeeded")),
        _ => panic!("a detach without power"),
    }
    // A crash needs none, and with power all of them go well.
    assert!(take_down(unpowered(), &Op::Crash).is_ok());
    assert!(take_down(device(&plan), &Op::Detach).is_ok());
}

/// A count on flash is that of the attach and of every erasure since. One fewer if the last was interrupted, fewer if it may
/// lag; and nothing is said of a PEB that was not erased.
#[test]
fn a_ledger_takes_no_count_but_the_right_one() {
    let plan = plan("fastmap = false");
    let mut tape = Tape::new(&plan.array, Bytes::new());
    for (peb, erases) in [(1, 1), (2, 2), (3, 3), (4, 14)] {
        (0..erases).for_each(|_| tape.erase(&mut Cx::new(), Peb(peb)).expect("power"));
    }
    // Linux 6.1 counts erasures of a block of the fastmap in place on flash alone: of those of PEB 4 memory lacks three.
    let mut at_attach = [(10, 0); 64];
    at_attach[4] = (10, 13);
    let ledger = Ledger { at_attach: at_attach.into() };
    let accepted = |peb: usize, lags: bool, cut: bool| -> Vec<u32> {
        let accepts = |&on_flash: &u32| {
            let (mut now, mut may_lag, mut broken) = (vec![None; 64], vec![false; 64], Broken::new());
            (now[peb], may_lag[peb]) = (Some(on_flash), lags);
            ledger.audit(&tape, &now, &may_lag, cut.then_some(Peb(peb as u32)), &mut broken);
            assert!(broken.iter().all(|breach| breach.check == Check::Ledger));
            broken.is_empty()
        };
        (8..16).filter(accepts).collect()
    };
    assert_eq!(accepted(0, false, false), (8..16).collect::<Vec<_>>());
    for since in 1..4 {
        let right = 10 + since as u32;
        assert_eq!(accepted(since, false, false), [right], "{since} erasures");
        assert_eq!(accepted(since, false, true), [right - 1, right], "{since} erasures, the last was cut");
        for cut in [false, true] {
            assert_eq!(accepted(since, true, cut), (8..=right).collect::<Vec<_>>(), "{since} erasures, in the end");
        }
    }
    assert_eq!(accepted(4, true, false), [8, 9, 10, 11]);
    assert_eq!(
        accepted(4, true, true),
        [8, 9, 10, 11, 12, 13],
        "the header that the cut left is from before the erasure"
    );
}

/// What was found stands for an attach only where an attach would find the same: on these cells, and where no read fails.
#[test]
fn what_was_found_is_used_again_on_the_same_cells_of_a_flash_that_does_not_fail() {
    let found_on = |plan: &UbiPlan, tape: &Tape| {
        let (layout, none) = (*device(plan).layout(), vec![None; 72]);
        let mut broken = Broken::new();
        let found =
            both_ways_agree(tape, &layout, &Known::default(), &none, &[false; 72], &mut Story::silent(), &mut broken);
        assert_eq!(broken, []);
        found
    };
    let plan = plan_of(72, "fastmap = true");
    let Ok(mut tape) = take_down(device(&plan), &Op::Detach) else { panic!("a detach with power") };
    let mut found = found_on(&plan, &tape).expect("a flash without faults");
    assert!(found.is_of(&tape));
    assert!(found.scanned().is_some_and(|info| info.by == ubi::attach::AttachedBy::Scan));
    assert!(found.chosen().is_some_and(|info| info.by == ubi::attach::AttachedBy::Fastmap));
    for peb in (0..72).map(Peb) {
        let mut other = tape.clone();
        other.array.tamper(peb, |cells| cells[4095] ^= 1);
        assert!(!found.is_of(&other), "PEB {peb} has other cells");
    }
    // The counts that stand for an attach are those on flash, whatever was compared.
    let mut counted = tape.clone();
    let by_scan =
        |tape: &Tape| found_on(&plan, tape).and_then(|mut found| found.scanned()).expect("no faults").erase_counts;
    let were = by_scan(&counted);
    counted.array.tamper(Peb(60), |cells| {
        let mut hdr = ubi::media::EcHdr::decode(cells[..64].try_into().expect("64 bytes")).expect("a header");
        hdr.ec += 5;
        cells[..64].copy_from_slice(&hdr.encode());
    });
    let are: Vec<u32> = by_scan(&counted).iter().zip(were).map(|(now, was)| now.0 - was.0).collect();
    assert_eq!((are[60], are.iter().sum::<u32>()), (5, 5));
    let mut failing = plan.clone();
    failing.array.faults = Some(nand::FaultPlan::none(sim::Seed(1)));
    let Ok(other) = take_down(device(&failing), &Op::Detach) else { panic!("a detach with power") };
    assert!(found_on(&failing, &other).is_none(), "reads may fail");
    tape.array.tamper(Peb(0), |cells| cells[0] ^= 1);
    assert!(!found.is_of(&tape));
}

/// Holds a device against a model of it between two operations.
fn held(ubi: &mut Ubi<Tape>, world: &World, hit: &Hit) -> Result<Tally, Broken> {
    let mut tally = Tally::default();
    hold_against(ubi, world, &Op::Background, world, &Known::default(), (hit, &mut tally)).map(|_| tally)
}

fn checks(held: Result<Tally, Broken>) -> Vec<Check> {
    held.map_or_else(|broken| broken.iter().map(|breach| breach.check).collect(), |_| Vec::new())
}

/// The model of [`device`].
fn world() -> World {
    let create = Op::Create { vol_id: 0, name: "v".to_owned(), kind: VolType::Dynamic, lebs: 4 };
    World::default().after(&create, 3072).after(&Op::Map { vol_id: 0, lnum: 0 }, 3072)
}

/// A block that is kept as corrupt is excused if a cut destroyed a page of that block, not of another.
#[test]
fn a_destroyed_page_excuses_its_own_block_alone() {
    let plan = plan("fastmap = false");
    let ubi = device(&plan);
    let free = (0..64).map(Peb).find(|&peb| ubi.wear().state(peb) == ubi::wl::PebState::Free).expect("a free PEB");
    let mut tape = ubi.into_flash();
    tape.array.tamper(free, |cells| cells[512..].fill(0x5a));
    let Ok(mut ubi) = bring_up(&plan, &plan.ubi, tape) else { panic!("one corrupt PEB is no reason") };
    assert_eq!(ubi.wear().state(free), ubi::wl::PebState::Kept);
    let of = |peb| Hit { pebs: vec![peb], ..Hit::default() };
    assert_eq!(checks(held(&mut ubi, &world(), &of(free))), []);
    for other in [Hit::default(), of(Peb((free.0 + 1) % 64)), Hit { faults: true, ..Hit::default() }] {
        assert_eq!(checks(held(&mut ubi, &world(), &other)), [Check::Blocks], "{other:?}");
    }
}

/// What the device has in memory is checked whenever it is held against the model.
#[test]
fn a_peb_in_no_list_is_noticed() {
    let mut ubi = device(&plan("fastmap = false"));
    assert_eq!(checks(held(&mut ubi, &world(), &Hit::default())), []);
    ubi.set_known_bad(ubi::KnownBad { forget_erased: true, ..ubi::KnownBad::default() });
    ubi.volume(VolId(0)).expect("it was made").unmap(&mut Cx::new(), Lnum(0)).expect("a mapped LEB");
    ubi.flush(&mut Cx::new()).expect("a flash without faults");
    let world = world().after(&Op::Unmap { vol_id: 0, lnum: 0 }, 3072).after(&Op::Sync, 3072);
    let found = crate::engine::unless_it_panics(|| held(&mut ubi, &world, &Hit::default()));
    assert_eq!(checks(found), [Check::Invariants]);
}

/// A static volume fails its checksum without a breach only if the medium destroyed a LEB of that volume, and then it is lost.
#[test]
fn a_destroyed_leb_excuses_the_checksum_of_its_own_volume_alone() {
    let plan = plan("fastmap = false");
    let (mut ubi, data) = (device(&plan), Arc::new(vec![0x51; 700]));
    let create = Op::Create { vol_id: 1, name: "s".to_owned(), kind: VolType::Static, lebs: 2 };
    let update = Op::Update { vol_id: 1, data };
    let mut world = world();
    for op in [create, update, Op::Sync] {
        world = world.after(&op, 3072);
        perform_up(&mut ubi, &mut Cx::new(), &op).expect("a flash without faults");
    }
    assert_eq!(checks(held(&mut ubi, &world, &Hit::default())), []);
    let peb = ubi.peb_of(VolId(1), Lnum(0)).expect("it was written");
    ubi.flash_mut().array.tamper(peb, |cells| cells[1024 + 300] ^= 1);
    let of = |leb| Hit { lebs: vec![leb], ..Hit::default() };
    let lost = held(&mut ubi, &world, &of((1, 0))).expect("the medium destroyed it");
    assert_eq!((lost.lost, lost.older), (1, 0));
    for other in [Hit::default(), of((0, 0)), of((2, 1))] {
        assert_eq!(checks(held(&mut ubi, &world, &other)), [Check::StaticCrc], "{other:?}");
    }
}

/// A static volume is read up to its last byte: 700 of the two pages that they take. Of a dynamic one every cell is looked at.
#[test]
fn cells_behind_the_data_of_a_static_volume_are_nobodys() {
    let plan = plan("fastmap = false");
    for (kind, behind) in [(VolType::Static, vec![]), (VolType::Dynamic, vec![Check::Contents])] {
        let mut ubi = device(&plan);
        let create = Op::Create { vol_id: 1, name: "s".to_owned(), kind, lebs: 2 };
        let bytes = if kind == VolType::Static { 700 } else { 1024 };
        let update = Op::Update { vol_id: 1, data: Arc::new(vec![0x51; bytes]) };
        let mut world = world();
        for op in [create, update, Op::Sync] {
            world = world.after(&op, 3072);
            perform_up(&mut ubi, &mut Cx::new(), &op).expect("a flash without faults");
        }
        let peb = ubi.peb_of(VolId(1), Lnum(0)).expect("it was written");
        ubi.flash_mut().array.tamper(peb, |cells| cells[1024 + bytes] &= 0x5a);
        assert_eq!(checks(held(&mut ubi, &world, &Hit::default())), behind, "{kind:?}");
    }
}

/// A copy of the last LEB of a static volume: 532 bytes, of which 20 are in a page whose program was cut. One read in twelve of them is
/// right. If the attach is one, the copy replaces the original, and is lost. Bytes that read the same each time are no such excuse.
#[test]
fn few_unstable_bytes_at_the_end_excuse_a_copy_and_nothing_else() {
    let plan = plan("fastmap = false");
    let (mut ubi, bytes) = (device(&plan), 532);
    let create = Op::Create { vol_id: 1, name: "s".to_owned(), kind: VolType::Static, lebs: 2 };
    let mut world = world();
    for op in [create, Op::Update { vol_id: 1, data: Arc::new(vec![0x51; bytes]) }, Op::Sync] {
        world = world.after(&op, 3072);
        perform_up(&mut ubi, &mut Cx::new(), &op).expect("a flash without faults");
    }
    let from = ubi.peb_of(VolId(1), Lnum(0)).expect("it was written");
    let is_free = |&peb: &Peb| ubi.wear().state(peb) == ubi::wl::PebState::Free;
    let to = (0..64).map(Peb).find(is_free).expect("a free PEB");
    let Ok(whole) = take_down(ubi, &Op::Crash) else { panic!("a crash needs no power") };
    let copied = |seed: u64, is_copy: bool| {
        let (mut tape, cx) = (whole.clone(), &mut Cx::new());
        let (mut page, mut data) = ([0xff; 512], [0; 1024]);
        tape.cells(from, 1024, &mut data);
        tape.cells(from, 512, &mut page);
        let mut hdr = VidHdr::decode(page[..64].try_into().expect("64 bytes")).expect("a header");
        (hdr.copy_flag, hdr.sqnum) = (is_copy, hdr.sqnum + 1000);
        page[..64].copy_from_slice(&hdr.encode());
        tape.program(cx, to, 512, Payload::Bytes(&page)).expect("it is free");
        let cut = nand::PowerCut::at_op(tape.array.ops(), nand::Tear::Prefix(nand::PrefixBytes::Exactly(1000)));
        tape.array.set_power_cut(Some(cut.unstable().seeded(sim::Seed(seed))));
        tape.program(cx, to, 1024, Payload::Bytes(&data)).expect_err("power is cut");
        tape.array.set_power_cut(None);
        tape.array.power_on();
        bring_up(&plan, &plan.ubi, tape).ok().filter(|ubi| ubi.peb_of(VolId(1), Lnum(0)) == Some(to))
    };
    let found = |ubi: &mut Ubi<Tape>| match held(ubi, &world, &Hit::default()) {
        Ok(tally) => Ok(tally.lost),
        Err(broken) => Err(broken[0].check),
    };
    let mut by_chance: Vec<Ubi<Tape>> = (0..100).filter_map(|seed| copied(seed, true)).collect();
    assert!((1..30).contains(&by_chance.len()), "one in twelve of 100, not {}", by_chance.len());
    let all: Vec<_> = by_chance.iter_mut().map(&found).collect();
    assert!(all.contains(&Ok(1)) && all.iter().all(|found| matches!(found, Ok(0 | 1))), "{all:?}");
    // A byte of the page before, which was written.
    let ubi = &mut by_chance[0];
    ubi.flash_mut().array.tamper(to, |cells| cells[1024 + 511] ^= 1);
    assert_eq!(found(ubi), Err(Check::StaticCrc));
    // What is no copy counts without a checksum.
    let mut ubi = copied(0, false).expect("it is newer");
    let all: Vec<_> = (0..10).map(|_| found(&mut ubi)).collect();
    assert!(all.contains(&Err(Check::StaticCrc)), "{all:?}");
}

/// A page that ECC cannot correct excuses a LEB only on a flash whose bits flip, and nothing else in the LEB. Otherwise only a page of
/// a program that was cut may be unreadable.
#[test]
fn an_unreadable_page_is_lost_where_bits_flip_and_a_breach_elsewhere() {
    let plan = plan("fastmap = false");
    let write = |offset, byte| Op::Write { vol_id: 0, lnum: 0, offset, data: Arc::new(vec![byte; 512]) };
    let mut ubi = device(&plan);
    perform_up(&mut ubi, &mut Cx::new(), &write(0, 0x33)).expect("a flash without faults");
    let (ops, tape) = (ubi.flash().array.ops(), ubi.flash_mut());
    tape.array.set_power_cut(Some(nand::PowerCut::at_op(ops, nand::Tear::RandomBits).seen_by_ecc()));
    let Err(Down::Power(mut tape)) = perform(&plan, ubi, &write(512, 0x0f)) else { panic!("power is cut") };
    tape.array.set_power_cut(None);
    tape.array.power_on();
    let Ok(mut ubi) = bring_up(&plan, &plan.ubi, *tape) else { panic!("it comes up") };
    // The model without that write.
    let world = world().after(&write(0, 0x33), 3072);
    let faults = |faults| Hit { faults, ..Hit::default() };
    assert_eq!(held(&mut ubi, &world, &faults(true)).map(|tally| (tally.lost, tally.older)), Ok((1, 0)));
    assert_eq!(checks(held(&mut ubi, &world, &faults(false))), [Check::Contents]);
    let other = self::world().after(&write(0, 0x32), 3072);
    assert_eq!(checks(held(&mut ubi, &other, &faults(true))), [Check::Contents], "the page before it is readable");
    // The operation that was cut may leave it so.
    let after = world.after(&write(512, 0x0f), 3072);
    let hit = (&faults(false), &mut Tally::default());
    assert!(hold_against(&mut ubi, &world, &write(512, 0x0f), &after, &Known::default(), hit).is_ok());
}

/// Volumes are compared by number, name, kind, size and update marker, and there is no other.
#[test]
fn a_volume_table_is_that_of_the_model_in_every_field() {
    let mut ubi = device(&plan("fastmap = false"));
    let create = |vol_id, name: &str, kind, lebs| Op::Create { vol_id, name: name.to_owned(), kind, lebs };
    use VolType::{Dynamic, Static};
    let mut others = vec![
        vec![create(0, "v", Static, 4)],
        vec![create(0, "w", Dynamic, 4)],
        vec![create(0, "v", Dynamic, 5)],
        vec![create(1, "v", Dynamic, 4)],
        vec![create(0, "v", Dynamic, 4), create(1, "w", Dynamic, 1)],
        vec![],
    ];
    let mut models: Vec<World> =
        others.drain(..).map(|ops| ops.iter().fold(World::default(), |world, op| world.after(op, 3072))).collect();
    let mut marked = world();
    Arc::make_mut(marked.volumes.get_mut(&0).expect("it was made")).updating = true;
    models.push(marked);
    for model in models {
        assert_eq!(checks(held(&mut ubi, &model, &Hit::default())), [Check::Table], "{model:?}");
    }
}

/// Contents may be wrong only in a LEB that the medium destroyed, and then they are lost.
#[test]
fn a_destroyed_leb_excuses_its_own_contents_alone() {
    let mut ubi = device(&plan("fastmap = false"));
    let write = Op::Write { vol_id: 0, lnum: 0, offset: 0, data: Arc::new(vec![0x33; 512]) };
    perform_up(&mut ubi, &mut Cx::new(), &write).expect("a flash without faults");
    let world = world().after(&write, 3072);
    let peb = ubi.peb_of(VolId(0), Lnum(0)).expect("it was written");
    ubi.flash_mut().array.tamper(peb, |cells| cells[1024 + 7] ^= 0x10);
    let of = |leb| Hit { lebs: vec![leb], ..Hit::default() };
    let lost = held(&mut ubi, &world, &of((0, 0))).expect("the medium destroyed it");
    assert_eq!((lost.lost, lost.older), (1, 0));
    for other in [Hit::default(), of((0, 1)), of((1, 0))] {
        assert_eq!(checks(held(&mut ubi, &world, &other)), [Check::Contents], "{other:?}");
    }
}

/// A LEB that an earlier cut tore has its contents, and behind them nothing.
#[test]
fn cells_behind_the_contents_of_a_torn_leb_are_noticed() {
    let mut ubi = device(&plan("fastmap = false"));
    let write = |offset, byte| Op::Write { vol_id: 0, lnum: 0, offset, data: Arc::new(vec![byte; 512]) };
    perform_up(&mut ubi, &mut Cx::new(), &write(0, 0x33)).expect("a flash without faults");
    let mut world = world().after(&write(0, 0x33), 3072);
    Arc::make_mut(world.volumes.get_mut(&0).expect("it was made")).lebs[0].torn = true;
    assert_eq!(checks(held(&mut ubi, &world, &Hit::default())), []);
    perform_up(&mut ubi, &mut Cx::new(), &write(512, 0x44)).expect("a flash without faults");
    assert_eq!(checks(held(&mut ubi, &world, &Hit::default())), [Check::Contents]);
}

#[test]
fn what_a_cut_destroyed_stays_destroyed_behind_the_next() {
    let tape = Tape::new(&plan("fastmap = false").array, Bytes::new());
    let earlier = Hit { pebs: vec![Peb(3)], lebs: vec![(1, 2)], faults: false, table: true };
    let both = Hit::of(&tape, &Owners::new(), true, false).and(&earlier);
    assert_eq!((both.pebs, both.lebs, both.faults, both.table), (vec![Peb(3)], vec![(1, 2)], true, true));
}

/// Beyond the first 64 PEBs an attach by fastmap does not see what makes a scan refuse the flash.
#[test]
fn a_flash_that_only_a_fastmap_can_attach_is_no_good() {
    let plan = plan_of(96, "fastmap = true");
    let ubi = device(&plan);
    let layout = *ubi.layout();
    let Ok(mut tape) = take_down(ubi, &Op::Detach) else { panic!("a detach with power") };
    let hdr = VidHdr {
        vol_type: VolType::Dynamic,
        copy_flag: false,
        compat: ubi::media::compat::REJECT,
        vol_id: ubi::media::INTERNAL_VOLUME_START + 9,
        lnum: 0,
        data_size: 0,
        used_ebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum: 1,
    };
    let agree = |tape: &Tape| {
        let (known, story, mut broken) = (Known::default(), &mut Story::silent(), Broken::new());
        let found = both_ways_agree(tape, &layout, &known, &[None; 96], &[false; 96], story, &mut broken);
        (found.is_some(), broken.iter().map(|breach| breach.check).collect::<Vec<_>>())
    };
    assert_eq!(agree(&tape), (true, vec![]));
    let listed_as_free = |peb: &Peb| tape.array.store().programmed_end(*peb) <= 512;
    let peb = (64..96).map(Peb).rev().find(listed_as_free).expect("a free PEB");
    tape.array.tamper(peb, |cells| cells[512..][..VidHdr::BYTES].copy_from_slice(&hdr.encode()));
    assert_eq!(agree(&tape), (false, vec![Check::ComesUp]));
}
