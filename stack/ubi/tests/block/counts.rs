//! The counters, and where the time of requests goes, against a model of the cache.

use sim::seam::{BlockDevice, BlockOp, BlockRequest, LebVolume, Payload};
use sim::{Cx, Ns, Seed};
use ubi::block::{Because, BlockConfig, BlockStats, Breakdown, Form, UbiBlock};

use crate::rig::{Host, Noted, SECTOR, WRITING, block, pattern};

/// Sectors of a LEB of [`Noted`] here.
const LEB: u64 = 7;
const LEBS: u64 = 8;

/// LEBs in memory, the one used last at the end, each with whether it is dirty; and which LEBs are mapped.
struct Model {
    form: Form,
    most: usize,
    cache: Vec<(u64, bool)>,
    mapped: [bool; LEBS as usize],
    stats: BlockStats,
}

impl Model {
    fn place(&self, leb: u64) -> Option<usize> {
        self.cache.iter().position(|&(other, _)| other == leb)
    }

    fn write_back(&mut self, at: usize, because: Because) {
        if std::mem::take(&mut self.cache[at].1) {
            self.mapped[self.cache[at].0 as usize] = true;
            self.stats.write_backs[because as usize] += 1;
        }
    }

    fn write_back_all(&mut self, because: Because) {
        (0..self.cache.len()).for_each(|at| self.write_back(at, because));
    }

    fn apply(&mut self, request: &BlockRequest) {
        let (start, end) = (request.sector, request.end());
        let touched = start / LEB..end.div_ceil(LEB);
        match request.op {
            BlockOp::Flush => self.write_back_all(Because::Flushed),
            BlockOp::Read => {
                for leb in touched {
                    match self.place(leb) {
                        Some(at) => {
                            self.stats.read_hits += 1;
                            let slot = self.cache.remove(at);
                            self.cache.push(slot);
                        }
                        None => self.stats.read_misses += 1,
                    }
                }
            }
            BlockOp::Write => {
                for leb in touched.clone() {
                    let was = self.place(leb).map(|at| self.cache.remove(at));
                    if was.is_some() {
                        self.stats.write_hits += 1;
                    } else {
                        if self.cache.len() == self.most {
                            self.write_back(0, Because::Evicted);
                            self.cache.remove(0);
                        }
                        let whole = start <= leb * LEB && end >= (leb + 1) * LEB;
                        let count = if whole { &mut self.stats.whole_lebs } else { &mut self.stats.loads };
                        *count += 1;
                    }
                    if self.form == Form::UnmapFirst && was != Some((leb, true)) {
                        self.mapped[leb as usize] = false;
                    }
                    self.cache.push((leb, true));
                }
                if request.fua {
                    touched.filter_map(|leb| self.place(leb)).collect::<Vec<_>>().into_iter().for_each(|at| {
                        self.write_back(at, Because::Forced);
                    });
                }
            }
            BlockOp::Trim => {
                for leb in start.div_ceil(LEB)..end / LEB {
                    let at = self.place(leb);
                    self.cache.retain(|&(other, _)| other != leb);
                    let mapped = std::mem::take(&mut self.mapped[leb as usize]);
                    self.stats.discarded += u64::from(at.is_some() || mapped);
                }
            }
        }
    }
}

#[test]
fn everything_that_is_done_is_counted_once() {
    for form in WRITING {
        for most in 1..=4 {
            let config = BlockConfig { idle: Some(Ns::from_s(2)), ..block(form, most) };
            let mut host = Host::new(Noted::new(LEBS as u32, LEB as u32 * SECTOR as u32), config);
            let stats = BlockStats::default();
            let mut model = Model { form, most: most as usize, cache: Vec::new(), mapped: [false; 8], stats };
            let mut rng = Seed(most.into()).stream("test/block");
            for step in 0..600 {
                let sector = rng.below(LEBS * LEB);
                let sectors = (1 + rng.below(16)).min(LEBS * LEB - sector) as u32;
                let request = match rng.below(12) {
                    0..5 => BlockRequest::write(sector, sectors),
                    5 => BlockRequest { fua: true, ..BlockRequest::write(sector, sectors) },
                    6 => BlockRequest::flush(),
                    7 => BlockRequest::trim(sector, sectors),
                    8 => {
                        host.wait(Ns::from_s(3));
                        model.write_back_all(Because::Idle);
                        BlockRequest::read(sector, sectors)
                    }
                    _ => BlockRequest::read(sector, sectors),
                };
                model.apply(&request);
                host.ask(request, &pattern(step, sector, sectors)).result.unwrap();
                let place = format!("{form:?}, {most} LEBs, step {step}: {request:?}");
                assert_eq!(*host.device.stats(), model.stats, "{place}");
                let dirty = model.cache.iter().filter(|(_, dirty)| *dirty).count();
                assert_eq!(host.device.dirty_lebs() as usize, dirty, "{place}");
                for leb in 0..LEBS {
                    let lnum = sim::Lnum(leb as u32);
                    assert_eq!(host.device.volume().is_mapped(lnum), model.mapped[leb as usize], "{place}, LEB {leb}");
                }
            }
            let all: u64 = model.stats.write_backs.iter().sum();
            assert_eq!(host.device.stats().all_written_back(), all);
            let counts = Because::ALL.map(|because| host.device.stats().written_back(because));
            assert_eq!(counts, model.stats.write_backs);
            assert!(counts[..4].iter().all(|&count| count > 0), "{counts:?}");
            model.write_back_all(Because::Closed);
            host.device.last_close(host.now).unwrap();
            assert_eq!(*host.device.stats(), model.stats);
        }
    }
}

/// A volume whose operations take time: a read 3 µs, a change 100, a write 50, an unmapping 7.
#[derive(Clone)]
struct Slow(Noted);

mod slow {
    use super::*;
    use sim::Lnum;
    use sim::seam::LebError;
    use ubi::block::Backing;

    impl LebVolume for Slow {
        fn keeps_bytes() -> bool {
            true
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
            cx.spend(Ns::from_us(3));
            self.0.read(cx, lnum, offset, buf)
        }
        fn write(&mut self, cx: &mut Cx, lnum: Lnum, offset: u32, data: Payload<'_>) -> Result<(), LebError> {
            cx.spend(Ns::from_us(50));
            self.0.write(cx, lnum, offset, data)
        }
        fn change(&mut self, cx: &mut Cx, lnum: Lnum, data: Payload<'_>) -> Result<(), LebError> {
            cx.spend(Ns::from_us(100));
            self.0.change(cx, lnum, data)
        }
        fn map(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
            self.0.map(cx, lnum)
        }
        fn unmap(&mut self, cx: &mut Cx, lnum: Lnum) -> Result<(), LebError> {
            cx.spend(Ns::from_us(7));
            self.0.unmap(cx, lnum)
        }
        fn is_mapped(&self, lnum: Lnum) -> bool {
            self.0.is_mapped(lnum)
        }
        fn sync(&mut self, cx: &mut Cx) -> Result<(), LebError> {
            self.0.sync(cx)
        }
    }

    // How many works there are is left at its default, none.
    impl Backing for Slow {
        const KEEPS_BYTES: bool = true;
        fn step_background(&mut self, _: &mut Cx) -> Result<(), LebError> {
            self.0.worked += 1;
            Ok(())
        }
    }
}

/// Four requests at once: each waits for those before it, takes a microsecond of the driver, and what its volume takes. The
/// parts of a request sum to its time.
#[test]
fn the_time_of_a_request_is_that_of_its_parts() {
    for (form, back, unmap) in [(Form::Atomic, 100, 0), (Form::V2Like, 57, 0), (Form::UnmapFirst, 50, 7)] {
        let mut noted = Noted::new(LEBS as u32, LEB as u32 * SECTOR as u32);
        let leb_bytes = noted.leb_bytes() as usize;
        for lnum in 0..8 {
            let data = vec![1; leb_bytes];
            noted.ram.change(&mut Cx::new(), sim::Lnum(lnum), Payload::Bytes(&data)).unwrap();
        }
        let config = BlockConfig { idle: None, ..block(form, 1) };
        let mut device = UbiBlock::new(Slow(noted), Ns::ZERO, config).unwrap();
        let requests = [
            // Misses: one LEB, then two.
            (BlockRequest::read(3, 1), [0, 1, 3, 0, 0, 0]),
            (BlockRequest::read(6, 2), [4, 1, 6, 0, 0, 0]),
            // A part of LEB 2 is loaded, and dirty then.
            (BlockRequest::write(15, 2), [11, 1, 0, 3, 0, unmap]),
            // It goes when LEB 3 comes, of which a part is loaded.
            (BlockRequest::write(22, 1), [15 + unmap, 1, 0, 3, back, unmap]),
            (BlockRequest::flush(), [19 + 2 * unmap + back, 1, 0, 0, back, 0]),
        ];
        for (tag, (request, _)) in (0..).zip(&requests) {
            let data = vec![5; request.bytes() as usize];
            device.submit(Ns::ZERO, tag, *request, Payload::Bytes(&data)).unwrap();
        }
        for (tag, (request, us)) in (0..).zip(&requests) {
            let done = device.next_done(Ns(u64::MAX)).unwrap();
            assert_eq!((done.tag, done.result), (tag, Ok(())));
            let found = *device.breakdown_of(tag);
            let values = found.values();
            assert_eq!(values, us.map(|us| us * 1000), "{form:?}, {request:?}");
            assert_eq!(values.iter().sum::<u64>(), done.at.0, "all were submitted at 0");
            let Breakdown { queue, driver, read, load, write_back, unmap } = found;
            assert_eq!(values, [queue, driver, read, load, write_back, unmap]);
        }
        assert_eq!(device.now(), Ns::from_us(20 + 2 * unmap + 2 * back));
        assert_eq!(device.volume().0.worked, 0, "a volume without a background has no work for it");
    }
}

/// A device is made of what its volume allows.
#[test]
fn a_device_that_its_volume_does_not_allow_is_refused() {
    let made = |config| UbiBlock::new(Noted::new(3, 512), Ns::ZERO, config).map(drop).map_err(|error| error.what);
    assert_eq!(made(block(Form::Atomic, 3)), Ok(()));
    assert_eq!(made(block(Form::Atomic, 4)), Err("cache_lebs"));
    assert_eq!(made(block(Form::V2Like, 0)), Err("cache_lebs"));
    assert_eq!(made(block(Form::ReadOnly, 0)), Ok(()));
    for (depth, expected) in [(0, Err("depth")), (1, Ok(())), (10_240, Ok(())), (10_241, Err("depth"))] {
        assert_eq!(made(BlockConfig { depth, ..block(Form::Atomic, 1) }), expected);
    }
    let empty = UbiBlock::new(Noted::new(3, 100), Ns::ZERO, block(Form::Atomic, 1)).map(drop);
    assert_eq!(empty.unwrap_err().what, "sectors of the volume");
    let expected = BlockConfig {
        form: Form::Atomic,
        cache_lebs: 1,
        idle: Some(Ns::from_s(1)),
        discard: true,
        depth: 64,
        per_request: Ns::from_us(1),
    };
    assert_eq!(BlockConfig::default(), expected);
    assert_eq!(Because::ALL.map(Because::name), ["evicted", "flushed", "forced", "idle", "closed"]);
    assert_eq!(Breakdown::COMPONENTS, ["queue", "driver", "read", "load", "write back", "unmap"]);
}

/// A volume of bytes keeps what a request gives, or zeroes where it gives a length only.
#[test]
fn a_write_of_a_length_writes_zeroes_and_nothing_old_is_read() {
    let mut device = UbiBlock::new(Noted::new(4, 3584), Ns::ZERO, block(Form::Atomic, 1)).unwrap();
    let mut ask = |at: u64, request: BlockRequest, data: Payload<'_>| {
        device.submit(Ns::from_us(at), 0, request, data).unwrap();
        device.next_done(Ns(u64::MAX)).unwrap().result.unwrap();
        let mut buf = vec![9; request.bytes() as usize];
        device.take(0, &mut buf);
        buf
    };
    ask(0, BlockRequest::write(0, 4), Payload::Bytes(&[7; 2048]));
    ask(1000, BlockRequest::write(1, 2), Payload::Length(1024));
    let found = ask(2000, BlockRequest::read(0, 4), Payload::Length(0));
    assert_eq!(found, [[7u8; 512], [0; 512], [0; 512], [7; 512]].concat());
    assert_eq!(ask(3000, BlockRequest::read(5, 2), Payload::Length(0)), [0xff; 1024], "not what was read before");
}

/// What is taken of another length than was read is zeroes.
#[test]
fn a_take_of_another_length_gives_zeroes() {
    let mut host = Host::new(Noted::new(4, 3584), block(Form::Atomic, 1));
    host.write(3, 0, 4).unwrap();
    assert_eq!(host.read(0, 4).unwrap(), pattern(3, 0, 4));
    for len in [0, 512, 2047, 2049, 4096] {
        let mut buf = vec![9; len];
        host.device.take(0, &mut buf);
        assert_eq!(buf, vec![0; len]);
    }
}

/// A volume of UBI below a ubiblock is still a volume: it tells its write unit, and syncs.
#[test]
fn a_volume_below_is_a_volume() {
    let mut volume = crate::rig::plain(crate::rig::NAND, &crate::rig::without_fastmap(), 6);
    assert_eq!((volume.lebs(), volume.leb_bytes(), volume.min_io_bytes()), (6, 3584, 256));
    let cx = &mut Cx::new();
    volume.write(cx, sim::Lnum(1), 0, Payload::Bytes(&[1; 256])).unwrap();
    volume.unmap(cx, sim::Lnum(1)).unwrap();
    volume.map(cx, sim::Lnum(2)).unwrap();
    assert!(volume.is_mapped(sim::Lnum(2)) && !volume.is_mapped(sim::Lnum(1)) && !volume.is_mapped(sim::Lnum(6)));
    assert!(volume.ubi().has_background_work());
    volume.sync(cx).unwrap();
    assert!(!volume.ubi().has_background_work());
}
