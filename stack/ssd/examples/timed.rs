//! Requests per second of processor time of the timed drive: `cargo run --release -p ssd --example timed -- write|read N`.

use nand::{Array, ArrayConfig, Tags};
use sim::seam::{BlockDevice, BlockRequest, Payload};
use sim::{Ns, Seed};
use ssd::ftl::page::{PageConfig, PageFtl};
use ssd::untimed::{SteadyUntil, Untimed, lpns_per_unit};
use ssd::{
    Cells, DispatchConfig, Dispatcher, DriveConfig, FrontConfig, Order, Protocol, Scheduling, Shape, Ssd, Striping,
    Timing,
};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let write = args.get(1).is_none_or(|op| op == "write");
    let count: u64 = args.get(2).map_or(5_000_000, |n| n.parse().expect("a number"));
    let shape = Shape {
        channels: 8,
        ways: 4,
        dies: 1,
        planes: 2,
        blocks: 256,
        pages: 256,
        page_bytes: 4096,
        order: Order::CHANNEL_FIRST,
        multi_plane: true,
    };
    let pages = (shape.raw_pages() as f64 / 1.125) as u32;
    let seed = Seed(1);
    let unit =
        PageConfig { planes: 2, ..PageConfig::new(shape.blocks, shape.unit_pages(), lpns_per_unit(&shape, pages)) };
    let units = (0..shape.units()).map(|_| PageFtl::new(unit.clone(), seed.stream("gc")).expect("fits")).collect();
    let mut untimed = Untimed::new(Striping::new(&shape), units, pages);
    let mut rng = seed.stream("precondition");
    let began = cpu();
    untimed.fill_sequential(pages).expect("room");
    eprintln!("sequential fill {:.2} CPU-s", cpu() - began);
    let began = cpu();
    let steady = untimed.steady_state(SteadyUntil::default(), &mut rng).expect("room");
    eprintln!("steady state {:.2} CPU-s {steady:?}", cpu() - began);
    let mut units = untimed.into_units();
    units.iter_mut().for_each(|unit| unit.set_foreground(ssd::ftl::page::Foreground::Paced));
    let mut cells = Cells::new(&shape, Array::new(ArrayConfig::plain(ssd::cells::geometry(&shape, 0)), Tags));
    for (at, unit) in (0..).zip(&units) {
        cells.adopt(at, unit).expect("no faults");
    }
    let timing =
        Timing::plain(Ns::from_us(50), Ns::from_us(600), Ns::from_ms(3), Ns(200), Timing::transfer_of(4096, 224, 400));
    let config = DispatchConfig { timing, scheduling: Scheduling::ReadsFirst, background_after: None };
    let dispatcher = Dispatcher::new(&shape, config, cells, units);
    let front = FrontConfig {
        protocol: Protocol::Nvme { weights: vec![1] },
        depth: 32,
        command: Ns(0),
        link_bytes_per_s: 0,
        half_duplex: false,
        write_cache: false,
    };
    let mut drive =
        Ssd::new(DriveConfig { pages, front, cache: None, map: None }, &shape, dispatcher).expect("a drive");
    let began = cpu();
    let ask = |lpn: u64| if write { BlockRequest::write(lpn * 8, 8) } else { BlockRequest::read(lpn * 8, 8) };
    let length = if write { Payload::Length(4096) } else { Payload::Length(0) };
    let mut ahead: std::collections::VecDeque<BlockRequest> =
        (0..16).map(|_| ask(rng.below(u64::from(pages)))).collect();
    let mut draw = |drive: &Ssd<_, _>| {
        let request = ask(rng.below(u64::from(pages)));
        drive.expect(&request);
        ahead.push_back(request);
        ahead.pop_front().expect("some are ahead")
    };
    for tag in 0..32 {
        let request = draw(&drive);
        drive.submit(Ns(0), tag, request, length).expect("taken");
    }
    let (mut done, mut at, mut sum) = (0, Ns(0), 0);
    while done < count {
        let next = drive.next_done(Ns(u64::MAX)).expect("requests are under way");
        next.result.expect("no faults");
        (done, at, sum) = (done + 1, next.at, sum + drive.split_of(next.tag).total());
        let request = draw(&drive);
        drive.submit(next.at, next.tag, request, length).expect("taken");
    }
    let spent = cpu() - began;
    println!(
        "{:.2} M requests per CPU-s; {:.0} IOPS; mean latency {:.1} us; {:?}",
        count as f64 / spent / 1e6,
        count as f64 / at.as_s(),
        sum as f64 / count as f64 / 1e3,
        drive.dispatcher().counts()
    );
}

fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    fields.get(11).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
}
