//! Options one by one, and the streams that result.

use proptest::prelude::*;
use sim::seam::{BlockOp, BlockRequest};
use sim::{Ns, Seed};

use super::*;

const MIB: u64 = 2048;

fn job(options: &str) -> Job {
    let text = format!("[job]\n{}\n", options.replace(' ', "\n"));
    parse(&text).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn generator(options: &str, sectors: u64) -> Generator {
    Generator::new(&job(options), 0, sectors, Seed(1)).unwrap_or_else(|error| panic!("{error}"))
}

fn requests(options: &str, sectors: u64, count: usize) -> Vec<BlockRequest> {
    generator(options, sectors).take(count).collect()
}

fn places(options: &str, sectors: u64, count: usize) -> Vec<(u64, u32)> {
    requests(options, sectors, count).iter().map(|request| (request.sector, request.sectors)).collect()
}

fn error(text: &str) -> String {
    parse(text).expect_err("it is wrong").to_string()
}

fn share(requests: &[BlockRequest], of: impl Fn(&BlockRequest) -> bool) -> f64 {
    requests.iter().filter(|request| of(request)).count() as f64 / requests.len() as f64
}

#[test]
fn jobs_inherit_from_the_global_sections_before_them() {
    let text = "; a comment\n[global]\nbs=8k ; behind a value\niodepth=4\nioengine=libaio\n# another\n[a]\nrw=write\n\
                [global]\niodepth=16\n[b]\nbs = 16k\n[a]\nstonewall\n";
    let jobs = parse(text).unwrap();
    let told: Vec<_> = jobs.iter().map(|job| (&job.name[..], job.twin, job.sizes[0].min(), job.depth)).collect();
    assert_eq!(told, [("a", 0, 8192, 4), ("b", 0, 16384, 16), ("a", 1, 8192, 16)]);
    assert_eq!((jobs[0].mix, jobs[1].mix), (Mix::Write, Mix::Read));
    assert_eq!((jobs[1].stonewall, jobs[2].stonewall), (false, true));
    assert_eq!(jobs[1].line, 11);
}

#[test]
fn errors_name_line_option_and_the_nearest_known_one() {
    assert_eq!(
        error("[a]\nrw=read\niodeph=4\n"),
        "line 3: unknown option `iodeph`; the nearest known one is `iodepth`"
    );
    assert_eq!(
        error("[a]\nverify=crc32c\n"),
        "line 2: `verify` is known but not supported: no contents are written that could be verified"
    );
    assert_eq!(error("[a]\nbs=1000\n"), "line 2: bs=1000: expected a multiple of the sector, 512 bytes");
    assert_eq!(
        error("[a]\ninclude more.fio\n"),
        "line 2: `include` is known but not supported: other files are not read"
    );
    assert_eq!(
        error("[a]\nsize=${SIZE}\n"),
        "line 2: `size=${SIZE}` is known but not supported: variables and keywords are not substituted"
    );
    assert_eq!(error("rw=read\n"), "line 1: found rw=read; expected a section: [global] or [name]");
    assert_eq!(error("[global]\n"), "line 1: found the end of the file; expected a job: [name]");
    assert_eq!(error("[a]\nrw=read\ntime_based\n"), "job `a` (line 1): time_based needs a runtime");
    for (text, told) in [
        ("[a]\nrw=sideways\n", "randtrimwrite"),
        ("[a]\nrw=read:8\n", "known but not supported"),
        ("[a]\nrw=randread\nrandom_distribution=zipf:nan\n", "decimal"),
        ("[a]\nrandom_distribution=zipf:0\n", "theta"),
        ("[a]\nrandom_distribution=pareto:1\n", "power"),
        ("[a]\nrandom_distribution=normal:101\n", "deviation"),
        ("[a]\nrandom_distribution=zoned:50/10:40/90\n", "add up to 100"),
        ("[a]\nrandom_distribution=sequence:1,2\n", "known but not supported"),
        ("[a]\nbssplit=4k/60:8k/50\n", "add up to 100"),
        ("[a]\nrate=1m\nrate_iops=,10\n", "exclude each other"),
        ("[a]\niodepth=0\n", "from 1 to 65535"),
        ("[a]\nnumjobs=5000\n", "from 1 to 4096"),
        ("[a]\nnumjobs=3000\n[b]\nnumjobs=3000\n", "more than 4096"),
        ("[a]\nioengine=net\n", "known but not supported"),
        ("[a]\nioengine=libaoi\n", "libaio"),
        ("[a]\nruntime=1x\n", "a time"),
        ("[a]\nsize=0%\n", "1 to 100"),
        ("[global-x]\n", "another name"),
        ("[]\n", "a name"),
        ("[a\n", "a section"),
    ] {
        match parse(text) {
            Err(error) => assert!(error.to_string().contains(told), "{text}: {error}"),
            Ok(_) => panic!("{text} is taken"),
        }
    }
}

#[test]
fn options_without_effect_and_unsupported_ones_that_stay_off_are_taken() {
    let plain = job("rw=randread bs=4k");
    let full = job("rw=randread bs=4k direct=1 filename=/dev/nvme0n1 group_reporting thread buffered=0 invalidate=1 \
         filename_format=$jobname.$jobnum verify=0 zonemode=none nrfiles=1 io_submit_mode=inline exitall=0 randrepeat=0");
    assert_eq!(plain, full);
}

#[test]
fn a_synchronous_engine_has_depth_1_and_says_so() {
    assert_eq!(job("iodepth=32 ioengine=libaio").depth, 32);
    for options in ["iodepth=32", "iodepth=32 ioengine=psync", "iodepth=32 ioengine=sync"] {
        let job = job(options);
        assert_eq!((job.depth, job.remarks().len()), (1, 1));
    }
}

#[test]
fn sizes_follow_kb_base_wherever_it_stands_in_its_section() {
    assert_eq!(job("size=512k").size, Some(Extent::Bytes(512 << 10)));
    assert_eq!(job("size=512k kb_base=1000").size, Some(Extent::Bytes(512_000)));
    assert_eq!(job("startdelay=5-2").start_delay, (Ns::from_s(2), Ns::from_s(5)));
    assert_eq!((job("thinktime=5").think, job("ramp_time=5").ramp), (Ns::from_us(5), Ns::from_s(5)));
}

#[test]
fn sequential_requests_continue_and_wrap() {
    assert_eq!(places("rw=read bs=4k size=12k", MIB, 9), [(0, 8), (8, 8), (16, 8)]);
    assert_eq!(
        places("rw=write bs=4k size=12k io_size=20k offset=8k", MIB, 9),
        [(16, 8), (24, 8), (32, 8), (16, 8), (24, 8)]
    );
    assert_eq!(places("rw=trim bs=4k size=8k loops=2", MIB, 9), [(0, 8), (8, 8), (0, 8), (8, 8)]);
    assert_eq!(places("rw=read bs=4k size=1m number_ios=3", MIB, 9).len(), 3);
    assert_eq!(places("rw=read bs=4k size=8k time_based runtime=1", MIB, 900).len(), 900);
    // A remainder smaller than a block at the end of the region is not used.
    assert_eq!(places("rw=read bs=4k", 20, 9), [(0, 8), (8, 8)]);
}

#[test]
fn size_and_offset_may_be_parts_of_the_device() {
    assert_eq!(generator("size=20%", 10_000).region(), (0, 2000));
    assert_eq!(generator("offset=20% bs=4k", 10_000).region(), (2000, 8000));
    // Rounded up to a block, or to offset_align.
    assert_eq!(generator("offset=21% bs=16k", 10_000).region().0, 2112);
    assert_eq!(generator("offset=21% offset_align=512k", 10_000).region().0, 3072);
    assert_eq!(generator("offset=50% size=80%", 10_000).region(), (5000, 5000));
    let clones = job("numjobs=3 offset=4k offset_increment=1m size=64k");
    let firsts = (0..3).map(|clone| Generator::new(&clones, clone, 10_000, Seed(1)).unwrap().region().0);
    assert_eq!(firsts.collect::<Vec<_>>(), [8, 2056, 4104]);
    for (options, told) in [
        ("size=2m", "the device has"),
        ("offset=1m", "begins at sector 2048"),
        ("offset=1020k bs=8k", "smaller than"),
        ("rw=rw bs=4k,2m", "no block"),
        ("rw=randread random_distribution=zoned_abs:50/1m:50/4k", "zone 2"),
    ] {
        let error = Generator::new(&job(options), 0, MIB, Seed(1)).expect_err(options);
        assert!(error.to_string().contains(told), "{options}: {error}");
    }
}

#[test]
fn each_random_pass_covers_every_block_once() {
    for options in ["rw=randread bs=4k", "rw=randwrite bs=4k", "rw=randrw bs=4k", "rw=randtrim bs=4k"] {
        let both = requests(&format!("{options} loops=2"), 10_000, 9999);
        assert_eq!(both.len(), 2500);
        for pass in both.chunks(1250) {
            let mut blocks: Vec<_> = pass.iter().map(|request| request.sector / 8).collect();
            assert!(!blocks.is_sorted());
            blocks.sort();
            assert!(blocks.into_iter().eq(0..1250), "{options}");
        }
    }
    let free = requests("rw=randread bs=4k norandommap", 10_000, 1250);
    let mut blocks: Vec<_> = free.iter().map(|request| request.sector).collect();
    blocks.sort();
    blocks.dedup();
    // 1 - 1/e of them.
    assert!((750..830).contains(&blocks.len()), "{}", blocks.len());
}

proptest! {
    #[test]
    fn mixed_sizes_cover_every_sector_once_a_pass(
        sectors in 100u64..3000, small in 1u64..8, large in 1u64..8, reads in 0u8..100,
    ) {
        let options = format!(
            "rw=randrw rwmixread={reads} bssplit={}/40:{}/60,{}/100 io_size=1g",
            small * 512, small * 512 * large, small * 1024,
        );
        let mut seen = vec![false; sectors as usize];
        let mut generator = generator(&options, sectors);
        let (first, len) = generator.region();
        prop_assert!(first == 0 && sectors - len < small * 2);
        let mut covered = 0;
        while covered < len / small * small {
            let request = generator.next().unwrap();
            for sector in request.sector..request.end() {
                prop_assert!(!std::mem::replace(&mut seen[sector as usize], true), "sector {} twice", sector);
            }
            covered += u64::from(request.sectors);
        }
    }

    #[test]
    fn requests_stay_inside_their_region(
        pattern in prop::sample::select(vec!["read", "randwrite", "randrw", "randtrimwrite", "trimwrite", "randtrim"]),
        sizes in prop::sample::select(vec!["bs=4k", "bs=512,1k,2k", "bsrange=1k-9k", "bssplit=512/10:16k/:3k/", "bs=4k ba=512"]),
        how in prop::sample::select(vec![
            "norandommap=0", "norandommap", "random_distribution=zipf:1.1", "random_distribution=pareto:0.3:0.9",
            "random_distribution=normal:30", "random_distribution=zoned:70/10:30/90", "percentage_random=40",
        ]),
        offset in 0u64..20, sectors in 400u64..2000,
    ) {
        let options = format!("rw={pattern} {sizes} {how} offset={} io_size=10m", offset * 512);
        let mut generator = generator(&options, sectors);
        let (first, len) = generator.region();
        prop_assert!(first == offset && first + len <= sectors);
        for request in generator.by_ref().take(2000) {
            prop_assert!(request.sectors > 0);
            prop_assert!(request.sector >= first && request.end() <= first + len, "{:?}", request);
        }
    }
}

#[test]
fn directions_mix_by_percentage() {
    for (options, reads) in [("rw=randrw", 0.5), ("rw=rw rwmixread=70", 0.7), ("rw=rw rwmixread=70 rwmixwrite=80", 0.2)]
    {
        let requests = requests(&format!("{options} io_size=1g"), MIB, 20_000);
        assert!((share(&requests, |it| it.op == BlockOp::Read) - reads).abs() < 0.015, "{options}");
    }
    // In a sequential mix, reads and writes each have their own position.
    let mixed = requests("rw=rw size=64k", MIB, 16);
    for op in [BlockOp::Read, BlockOp::Write] {
        let places = mixed.iter().filter(|request| request.op == op).map(|request| request.sector / 8);
        assert!(places.clone().eq(0..places.count() as u64));
    }
}

#[test]
fn a_trimwrite_writes_what_it_trimmed() {
    for options in ["rw=trimwrite size=16k", "rw=randtrimwrite size=16k bs=4k"] {
        let requests = requests(options, MIB, 99);
        assert_eq!(requests.len(), 8);
        for pair in requests.chunks(2) {
            assert_eq!((pair[0].op, pair[1].op), (BlockOp::Trim, BlockOp::Write));
            assert_eq!((pair[0].sector, pair[0].sectors), (pair[1].sector, pair[1].sectors));
        }
    }
}

#[test]
fn block_sizes_come_with_their_weights_and_directions() {
    let requests = requests("rw=randrw norandommap bssplit=4k/50:1k/:32k/,8k io_size=1g", 1 << 20, 20_000);
    let of = |op, sectors| {
        let of_op: Vec<_> = requests.iter().filter(|request| request.op == op).copied().collect();
        share(&of_op, |request| request.sectors == sectors)
    };
    for (sectors, expected) in [(8, 0.5), (2, 0.25), (64, 0.25)] {
        assert!((of(BlockOp::Read, sectors) - expected).abs() < 0.015);
    }
    assert_eq!(of(BlockOp::Write, 16), 1.0);
    let ranged = places("rw=read bsrange=1k-4k io_size=1g", 1 << 20, 8000);
    for sectors in [2, 4, 6, 8] {
        let count = ranged.iter().filter(|place| place.1 == sectors).count();
        assert!((1850..2150).contains(&count), "{sectors}: {count}");
    }
    let sizes = |options: &str| job(options).sizes.map(|sizes| sizes.min());
    assert_eq!(sizes("bs=8k,32k,"), [8 << 10, 32 << 10, 4096]);
    assert_eq!(sizes("bs=,8k"), [4096, 8 << 10, 8 << 10]);
}

#[test]
fn blockalign_moves_positions_and_turns_the_map_off() {
    let job = job("rw=randread bs=8k ba=1k");
    assert!(!job.random_map);
    let places = places("rw=randread bs=8k ba=1k io_size=1g", 4096, 5000);
    assert!(places.iter().all(|place| place.0 % 2 == 0) && places.iter().any(|place| place.0 % 16 == 2));
    assert!(places.iter().any(|place| place.0 == 4096 - 16));
}

#[test]
fn percentage_random_continues_behind_the_last_request() {
    let places = places("rw=randread percentage_random=30 norandommap io_size=1g", 1 << 20, 20_000);
    let follows = places.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 8).count() as f64 / 20_000.0;
    assert!((follows - 0.7).abs() < 0.02, "{follows}");
}

#[test]
fn a_flush_follows_every_nth_write_but_not_the_last() {
    let ops = |options: &str| {
        let letter = |request: &BlockRequest| request.op.name().as_bytes()[0] as char;
        requests(options, MIB, 99).iter().map(letter).collect::<String>()
    };
    assert_eq!(ops("rw=write size=16k fsync=1"), "wfwfwfw");
    assert_eq!(ops("rw=write size=16k fdatasync=2"), "wwfww");
    assert_eq!(ops("rw=write size=16k fsync=2 end_fsync=1"), "wwfwwf");
    assert_eq!(ops("rw=write size=16k end_fsync=1 fsync=3 fdatasync=3"), "wwwfwf");
    assert_eq!(ops("rw=read size=16k fsync=1 end_fsync"), "rrrr");
    assert!(requests("rw=write sync=dsync", MIB, 9).iter().all(|request| request.fua));
}

#[test]
fn a_barrier_has_a_flush_on_either_side() {
    let ops = |every| {
        let mut job = parse("[a]\nrw=write\nsize=32k\n").unwrap().remove(0);
        (job.fsync, job.barrier) = (every, true);
        let letter = |request: BlockRequest| request.op.name().as_bytes()[0] as char;
        Generator::new(&job, 0, MIB, Seed(1)).unwrap().map(letter).collect::<String>()
    };
    assert_eq!(ops(4), "wwwfwfwwwfw");
    assert_eq!(ops(2), "wfwfwfwfwfwfwfw", "every second write");
    assert_eq!(ops(1), "wfwfwfwfwfwfwfw", "the flush after one is that before the next");
}

#[test]
fn streams_repeat_and_keep_apart() {
    let draw = |text: &str, clone, seed| {
        let jobs = parse(text).unwrap();
        let last = jobs.last().unwrap();
        let requests = Generator::new(last, clone, 1 << 20, Seed(seed)).unwrap().take(50);
        // The queue is the job's place in the file.
        requests.map(|request| BlockRequest { queue: 0, ..request }).collect::<Vec<_>>()
    };
    let one = "[a]\nrw=randrw\n";
    assert_eq!(draw(one, 0, 1), draw(one, 0, 1));
    assert_ne!(draw(one, 0, 1), draw(one, 0, 2));
    assert_ne!(draw(one, 0, 1), draw(one, 1, 1));
    assert_ne!(draw(one, 0, 1), draw("[a]\n[a]\nrw=randrw\n", 0, 1));
    assert_eq!(draw(one, 0, 1), draw("[b]\n[a]\nrw=randrw\n", 0, 1));
    assert_eq!(draw("[a]\nrw=randrw\nrandseed=7\n", 0, 1), draw("[a]\nrw=randrw\nrandseed=7\n", 0, 2));
}

/// A golden stream: another generator would change every result.
#[test]
fn the_first_requests_are_the_golden_ones() {
    let sectors = |options: &str| places(options, 1 << 24, 4).iter().map(|place| place.0).collect::<Vec<_>>();
    assert_eq!(sectors("rw=randread"), [4196056, 9861944, 3906648, 1827240]);
    assert_eq!(sectors("rw=randread random_distribution=zipf:1.2"), [11845960, 16139200, 5776528, 16080304]);
}
