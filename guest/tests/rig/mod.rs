//! A machine with a disk in memory, and a log of its requests.

use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

use guest::protocol::{Request, Status, feature};
use guest::{BlockShape, Devices, End, Kernel, Machine, MachineError, Setup, Version, Wanted};
use sim::Ns;
use sim::seam::{BlockDevice, BlockOp, Payload, RamDisk, SECTOR_BYTES};

const DEPTH: u32 = 32;

pub struct Rig {
    disk: RamDisk,
    pub seed: u64,
    /// Processor time of a system call, and of a request.
    pub cpu: (Ns, Ns),
    inputs: Vec<Vec<u8>>,
    output: Vec<u8>,
    exit: Option<i32>,
    log: Vec<(Request, u64)>,
    console: Vec<u8>,
}

/// The cache that `nandlab guest build` fills.
fn kernel() -> Kernel {
    let cache = guest::kernel::cache().expect("a home directory");
    let wanted = Wanted { version: Version::V6_12, small: true };
    Kernel::find(&cache, wanted).unwrap_or_else(|| {
        let wanted = wanted.directory();
        panic!("no {wanted} in {}: run `nandlab guest build` first", PathBuf::from(&cache).display())
    })
}

impl Rig {
    pub fn with_disk(sectors: u64) -> Rig {
        Rig {
            disk: RamDisk::new(sectors, DEPTH, 1, Ns(100_000)),
            seed: 1,
            cpu: (Ns::ZERO, Ns::ZERO),
            inputs: Vec::new(),
            output: Vec::new(),
            exit: None,
            log: Vec::new(),
            console: Vec::new(),
        }
    }

    pub fn run(&mut self, job: &str) -> Result<End, MachineError> {
        self.run_for(job, 120)
    }

    pub fn run_for(&mut self, job: &str, hung_after_s: u64) -> Result<End, MachineError> {
        let setup = Setup {
            memory_mib: 128,
            seed: self.seed,
            starts_ns: 1_700_000_000_000_000_000,
            syscall: self.cpu.0,
            request: self.cpu.1,
            log_ubi: false,
            block: Some(BlockShape {
                sectors: self.disk.sectors(),
                logical_bytes: 512,
                physical_bytes: 4096,
                depth: DEPTH,
                request_bytes: 512 << 10,
                features: feature::CACHE | feature::FUA | feature::TRIM,
            }),
            flash: None,
            arguments: String::new(),
            hung_after: Duration::from_secs(hung_after_s),
        };
        self.inputs = vec![Vec::new(), job.as_bytes().to_vec()];
        let mut machine = Machine::start(&kernel(), &setup)?;
        let end = machine.serve(self);
        self.console = machine.console().expect("the console");
        end
    }

    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    pub fn exit(&self) -> Option<i32> {
        self.exit
    }

    pub fn log(&self) -> &[(Request, u64)] {
        &self.log
    }

    pub fn console(&self) -> String {
        String::from_utf8_lossy(&self.console).into_owned()
    }

    /// The disk's contents.
    pub fn image(&self) -> Vec<u8> {
        let mut disk = self.disk.clone();
        let mut image = vec![0; (disk.sectors() * u64::from(SECTOR_BYTES)) as usize];
        let whole = sim::seam::BlockRequest::read(0, disk.sectors() as u32);
        disk.submit(Ns(u64::MAX / 2), 0, whole, Payload::Length(0)).expect("in bounds");
        while disk.next_done(Ns(u64::MAX)).is_some() {}
        disk.take(0, &mut image);
        image
    }
}

impl Devices for Rig {
    fn submit(&mut self, request: &Request, data: &[u8]) -> Result<(), Status> {
        let mut hash = std::hash::DefaultHasher::new();
        if request.request.op == BlockOp::Write {
            data.hash(&mut hash);
        }
        self.log.push((*request, hash.finish()));
        let zeroes = vec![0; request.request.bytes() as usize];
        let payload = match request.request.op {
            BlockOp::Write if request.zeroes => Payload::Bytes(&zeroes),
            BlockOp::Write => Payload::Bytes(data),
            _ => Payload::Length(0),
        };
        self.disk.submit(request.at, request.tag, request.request, payload).map_err(|_| Status::Error)
    }

    fn next_done(&mut self, until: Ns) -> Option<(u32, Ns, Status)> {
        self.disk.next_done(until).map(|done| (done.tag, done.at, Status::Ok))
    }

    fn take(&mut self, tag: u32, data: &mut [u8]) {
        self.disk.take(tag, data);
    }

    fn output(&mut self, _now: Ns, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    fn input(&mut self, _now: Ns, buffer: &mut [u8]) -> usize {
        let Some(mut next) = self.inputs.pop() else { return 0 };
        let length = next.len().min(buffer.len());
        buffer[..length].copy_from_slice(&next[..length]);
        if next.len() > length {
            self.inputs.push(next.split_off(length));
        }
        length
    }

    fn mark(&mut self, _now: Ns, text: &str) {
        if let Some(code) = text.strip_prefix("exit ") {
            self.exit = code.parse().ok();
        }
    }

    fn stopped(&self) -> bool {
        self.exit.is_some()
    }
}
