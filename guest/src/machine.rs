//! The machine: a process of user-mode Linux, and the loop that answers its calls.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use memmap2::MmapMut;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, StatVfsMountFlags, memfd_create, statvfs};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use sim::Ns;
use sim::seam::BlockOp;
use thiserror::Error;

use crate::home::Home;
use crate::kernel::{self, Kernel};
use crate::protocol::{
    self, DATA_AT, DONE_BYTES, JOB_AT, JOB_BYTES, MAGIC, MOST_TAGS, Op, REQUEST_BYTES, Request, Status, UbiCall, UbiOp,
    VERSION, at, turn,
};

/// Descriptors of the channel inside the guest's process.
const MEMORY_FD: i32 = 10;
const TO_FD: i32 = 11;
const FROM_FD: i32 = 12;
/// What the end of the guest's process adds to the counter of calls.
const ENDED: u64 = 1 << 32;
/// Most bytes of the console that an error repeats.
const LAST_WORDS: u64 = 4 << 10;

/// A block device, as the guest sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    /// Capacity in sectors of 512 bytes.
    pub sectors: u64,
    /// Smallest request in bytes.
    pub logical_bytes: u32,
    /// Smallest write, in bytes, that the device does not have to read for.
    pub physical_bytes: u32,
    /// Requests outstanding at a time, 1 to [`MOST_TAGS`].
    pub depth: u32,
    /// Most bytes of a read or write.
    pub request_bytes: u32,
    /// Of [`feature`](crate::protocol::feature).
    pub features: u32,
}

/// A raw flash, as the guest's MTD layer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashShape {
    /// Geometry.
    pub geometry: sim::seam::Geometry,
    /// Bits that ECC corrects in a step; 0 without ECC.
    pub ecc_bits: u32,
    /// Bytes of a step.
    pub ecc_step_bytes: u32,
    /// Corrected bits of a step from which on MTD reports a read (`bitflip_threshold`).
    pub bitflip_threshold: u32,
}

/// What a machine is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Memory of the guest in MiB.
    pub memory_mib: u32,
    /// Seed of the guest's random numbers.
    pub seed: u64,
    /// Date at which the guest starts, in nanoseconds since 1970.
    pub starts_ns: u64,
    /// Processor time of a system call; 0: none.
    pub syscall: Ns,
    /// Processor time of a request to a device; 0: none.
    pub request: Ns,
    /// The block device, if there is one.
    pub block: Option<BlockShape>,
    /// The raw flash, if there is one.
    pub flash: Option<FlashShape>,
    /// Whether [`Devices::ubi`] hears of UBI's calls.
    pub log_ubi: bool,
    /// More of the kernel's command line.
    pub arguments: String,
    /// The guest is taken for hung when it has made no call for so long on the host's clock.
    pub hung_after: Duration,
}

/// An operation of a raw flash, as the guest's MTD layer asks for it.
#[derive(Debug)]
pub enum FlashCall<'a> {
    /// Reads page data, and OOB bytes of the page.
    Read {
        /// Bytes to fill.
        data: &'a mut [u8],
        /// First OOB byte.
        oob_at: u32,
        /// OOB bytes to fill.
        oob: &'a mut [u8],
    },
    /// Programs page data, and OOB bytes of the page.
    Program {
        /// Bytes to program.
        data: &'a [u8],
        /// First OOB byte.
        oob_at: u32,
        /// OOB bytes to program.
        oob: &'a [u8],
    },
    /// Erases an eraseblock.
    Erase,
    /// Marks an eraseblock bad.
    MarkBad,
}

/// What comes of an operation of a raw flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashDone {
    /// When it ends.
    pub at: Ns,
    /// How.
    pub status: Status,
    /// Most bits that ECC corrected in a step of a read.
    pub corrected: u32,
}

/// Whoever simulates the guest's devices and talks to its job. Times never run backwards.
pub trait Devices {
    /// Submits a request to the block device. `data` is the request's room in the memory, as long as a read or write.
    /// Errors: the device refuses it.
    fn submit(&mut self, _request: &Request, _data: &[u8]) -> Result<(), Status> {
        Err(Status::Error)
    }

    /// Runs the block device to its next completion, or to `until` if there is none up to then. Returns tag, time and
    /// result.
    fn next_done(&mut self, _until: Ns) -> Option<(u32, Ns, Status)> {
        None
    }

    /// Copies the data of a completed read.
    fn take(&mut self, _tag: u32, _data: &mut [u8]) {}

    /// Does an operation of the raw flash for a process, at `address` in bytes without OOB.
    fn flash(&mut self, now: Ns, _process: &[u8], _address: u64, _call: FlashCall<'_>) -> FlashDone {
        FlashDone { at: now, status: Status::Error, corrected: 0 }
    }

    /// Linux's UBI is called by a process. Only where [`Setup::log_ubi`] asks for it.
    fn ubi(&mut self, _now: Ns, _process: &[u8], _call: UbiCall) {}

    /// Whether the eraseblock at `address` is marked bad.
    fn is_bad(&mut self, _address: u64) -> bool {
        false
    }

    /// Output of the job.
    fn output(&mut self, now: Ns, bytes: &[u8]);

    /// Input of the job: fills `buffer` and returns how much of it, 0 at the end.
    fn input(&mut self, now: Ns, buffer: &mut [u8]) -> usize;

    /// A mark of the job, without its line end.
    fn mark(&mut self, now: Ns, text: &str);

    /// Whether the guest is to be stopped at once, as after `exit` or when power failed.
    fn stopped(&self) -> bool;
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The devices stopped it.
    Stopped,
    /// The guest ended by itself: it was halted.
    Halted,
}

/// Why a machine could not run to its end.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The host refuses a process, a pipe or memory.
    #[error("the guest cannot be started: {what}: {error}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        error: std::io::Error,
    },
    /// The guest's kernel panicked or its process died.
    #[error("the guest died; its last lines:\n{console}")]
    Died {
        /// End of the console.
        console: String,
    },
    /// The guest made no call for too long.
    #[error(
        "the guest made no request and ended no command for {seconds} s, and was stopped; its last lines:\n{console}"
    )]
    Hung {
        /// How long, on the host's clock.
        seconds: u64,
        /// End of the console.
        console: String,
    },
    /// The guest's driver broke the protocol.
    #[error("the guest's driver and this nandlab do not fit: {0}; run `nandlab guest build --force`")]
    Protocol(String),
}

fn host(what: &'static str) -> impl FnOnce(std::io::Error) -> MachineError {
    move |error| MachineError::Host { what, error }
}

/// A started guest.
pub struct Machine {
    memory: MmapMut,
    tag_bytes: usize,
    depth: u32,
    peb_bytes: usize,
    oob_bytes: usize,
    /// Operation of each tag, and its bytes.
    asked: Vec<(BlockOp, usize)>,
    /// Refused requests, which complete at once.
    refused: Vec<(u32, Ns, Status)>,
    /// An eventfd: the guest adds 1 for a call, the end of its process [`ENDED`].
    calls: File,
    /// A pipe: a byte wakes the guest up where it sleeps.
    replies: File,
    console: File,
    process: Pid,
    keeper: Option<thread::JoinHandle<()>>,
    /// What is left of the guest's first input, its first program, and whether its end was read.
    init: Option<&'static [u8]>,
    calls_made: Arc<AtomicU64>,
    hung: Arc<AtomicBool>,
    hung_after: Duration,
    home: Home,
}

impl Machine {
    /// Starts a guest, which boots at its first call. `init` is the host's path of its first program.
    /// Errors: the host refuses.
    pub fn start(kernel: &Kernel, setup: &Setup) -> Result<Machine, MachineError> {
        let depth = setup.block.map_or(0, |block| block.depth.clamp(1, MOST_TAGS));
        let request_bytes = setup.block.map_or(0, |block| block.request_bytes as usize);
        let (peb_bytes, oob_bytes) =
            setup.flash.map_or((0, 0), |flash| (flash.geometry.peb_bytes as usize, flash.geometry.oob_bytes as usize));
        let tag_bytes = request_bytes.max(peb_bytes + oob_bytes).next_multiple_of(4096);
        let bytes = DATA_AT as usize + tag_bytes * depth.max(1) as usize;

        let memfd = |what| memfd_create("nandlab", MemfdFlags::CLOEXEC).map_err(|error| host(what)(error.into()));
        let shared = File::from(memfd("the channel's memory")?);
        shared.set_len(bytes as u64).map_err(host("the channel's memory"))?;
        let memory = map(&shared).map_err(host("the channel's memory"))?;
        let console = File::from(memfd("the console")?);
        let calls = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| host("an eventfd")(error.into()))?;
        let again = || calls.try_clone().map_err(host("an eventfd"));
        let (to, end) = (again()?, again()?);
        let (from, replies) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| host("a pipe")(error.into()))?;

        let mut machine = Machine {
            memory,
            tag_bytes,
            depth,
            peb_bytes,
            oob_bytes,
            asked: vec![(BlockOp::Flush, 0); depth as usize],
            refused: Vec::new(),
            calls: calls.into(),
            replies: replies.into(),
            console: console.try_clone().map_err(host("the console"))?,
            process: rustix::process::getpid(),
            keeper: None,
            init: Some(kernel::INIT.as_bytes()),
            calls_made: Arc::default(),
            hung: Arc::default(),
            hung_after: setup.hung_after,
            home: Home(None),
        };
        machine.describe(setup, bytes as u64);
        let home = Home::choose();
        let child = {
            let _here = home.stay();
            spawn(kernel, setup, &console, [shared.into(), to, from])?
        };
        machine.home = home;
        machine.keep(child, end)?;
        Ok(machine)
    }

    fn describe(&mut self, setup: &Setup, bytes: u64) {
        self.put32(at::MAGIC, MAGIC);
        self.put32(at::VERSION, VERSION);
        self.put64(at::BYTES, bytes);
        self.put64(at::SEED, setup.seed);
        self.put64(at::SYSCALL_NS, setup.syscall.0);
        self.put64(at::REQUEST_NS, setup.request.0);
        self.put32(at::JOB_AT, JOB_AT);
        self.put32(at::JOB_BYTES, JOB_BYTES);
        self.put32(at::DATA_AT, DATA_AT);
        self.put32(at::TAG_BYTES, self.tag_bytes as u32);
        if let Some(block) = setup.block {
            self.put64(at::SECTORS, block.sectors);
            self.put32(at::LOGICAL_BYTES, block.logical_bytes);
            self.put32(at::PHYSICAL_BYTES, block.physical_bytes);
            self.put32(at::DEPTH, self.depth);
            self.put32(at::FEATURES, block.features);
        }
        if let Some(flash) = setup.flash {
            let geometry = flash.geometry;
            self.put32(at::PEBS, geometry.pebs);
            self.put32(at::PEB_BYTES, geometry.peb_bytes);
            self.put32(at::PAGE_BYTES, geometry.page_bytes);
            self.put32(at::SUBPAGE_BYTES, geometry.subpage_bytes);
            self.put32(at::OOB_BYTES, geometry.oob_bytes);
            self.put32(at::IS_NOR, u32::from(geometry.medium == sim::seam::Medium::Nor));
            self.put32(at::ECC_BITS, flash.ecc_bits);
            self.put32(at::ECC_STEP_BYTES, flash.ecc_step_bytes);
            self.put32(at::BITFLIP_THRESHOLD, flash.bitflip_threshold);
            self.put32(at::LOG_UBI, u32::from(setup.log_ubi));
        }
    }

    /// Waits for the guest's process in a thread of its own, and ends it if it hangs. `end` wakes the loop up.
    fn keep(&mut self, mut child: Child, end: OwnedFd) -> Result<(), MachineError> {
        let process = Pid::from_child(&child);
        self.process = process;
        let handle = pidfd_open(process, PidfdFlags::empty()).map_err(|error| host("its process")(error.into()))?;
        let (calls_made, hung) = (Arc::clone(&self.calls_made), Arc::clone(&self.hung));
        let hung_after = self.hung_after;
        self.keeper = Some(thread::spawn(move || {
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            let (mut seen, mut still) = (0, Duration::ZERO);
            loop {
                let mut waits = [PollFd::new(&handle, PollFlags::IN)];
                if poll(&mut waits, Some(&second)).is_ok_and(|ready| ready > 0) {
                    break;
                }
                let made = calls_made.load(Ordering::Relaxed);
                still = if made == seen { still + Duration::from_secs(1) } else { Duration::ZERO };
                seen = made;
                if still >= hung_after {
                    hung.store(true, Ordering::Relaxed);
                    let _ = kill_process_group(process, Signal::KILL);
                }
            }
            let _ = child.wait();
            let _ = kill_process_group(process, Signal::KILL);
            let _ = File::from(end).write_all(&ENDED.to_ne_bytes());
        }));
        Ok(())
    }

    /// Answers the guest's calls until it ends or the devices stop it.
    /// Errors: [`MachineError`].
    pub fn serve(&mut self, devices: &mut dyn Devices) -> Result<End, MachineError> {
        let _here = self.home.stay();
        loop {
            let mut calls = [0; 8];
            if self.calls.read_exact(&mut calls).is_err() || u64::from_ne_bytes(calls) >= ENDED {
                return self.ended();
            }
            // A guest that waits for input is not hung.
            self.calls_made.fetch_add(1, Ordering::Relaxed);
            self.answer(devices)?;
            self.calls_made.fetch_add(1, Ordering::Relaxed);
            if devices.stopped() {
                return Ok(End::Stopped);
            }
            let asleep = word(&mut self.memory, at::TURN).swap(turn::REPLIED, Ordering::AcqRel) == turn::ASLEEP;
            if asleep && self.replies.write_all(&[1]).is_err() {
                return self.ended();
            }
        }
    }

    /// The guest's console up to now: what its kernel printed.
    /// Errors: the host's.
    pub fn console(&mut self) -> std::io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.console.seek(SeekFrom::Start(0))?;
        self.console.read_to_end(&mut text)?;
        Ok(text)
    }

    fn ended(&mut self) -> Result<End, MachineError> {
        let whole = self.console().unwrap_or_default();
        let from = whole.len().saturating_sub(LAST_WORDS as usize);
        let console = String::from_utf8_lossy(&whole[from..]).replace('\r', "");
        if self.hung.load(Ordering::Relaxed) {
            return Err(MachineError::Hung { seconds: self.hung_after.as_secs(), console });
        }
        if console.contains("reboot: System halted") || console.contains("reboot: Power down") {
            return Ok(End::Halted);
        }
        Err(MachineError::Died { console })
    }

    fn answer(&mut self, devices: &mut dyn Devices) -> Result<(), MachineError> {
        let code = self.get32(at::OP);
        let op = Op::of(code).ok_or_else(|| MachineError::Protocol(format!("a call {code}")))?;
        let now = Ns(self.get64(at::NOW));
        match op {
            Op::Run => self.run_block(devices)?,
            Op::Read | Op::Program | Op::Erase | Op::MarkBad => self.operate_flash(op, now, devices)?,
            Op::IsBad => {
                let address = self.get64(at::ADDRESS);
                self.put32(at::DONE, u32::from(devices.is_bad(address)));
            }
            Op::Ubi => self.log_ubi(now, devices)?,
            Op::Output => {
                let length = self.job_length();
                devices.output(now, &self.memory[JOB_AT as usize..][..length]);
            }
            Op::Input => {
                let length = self.job_length();
                let buffer = &mut self.memory[JOB_AT as usize..][..length];
                let got = match self.init {
                    None => devices.input(now, buffer),
                    Some(init) => {
                        let got = init.len().min(length);
                        buffer[..got].copy_from_slice(&init[..got]);
                        self.init = (got > 0).then_some(&init[got..]);
                        got
                    }
                };
                self.put32(at::DONE, got.min(length) as u32);
            }
            Op::Mark => {
                let length = self.job_length();
                let text = String::from_utf8_lossy(&self.memory[JOB_AT as usize..][..length]).into_owned();
                text.lines().for_each(|line| devices.mark(now, line));
            }
        }
        Ok(())
    }

    fn job_length(&self) -> usize {
        (self.get32(at::LENGTH) as usize).min(JOB_BYTES as usize)
    }

    fn run_block(&mut self, devices: &mut dyn Devices) -> Result<(), MachineError> {
        let count = self.get32(at::COUNT);
        if count > self.depth {
            return Err(MachineError::Protocol(format!("{count} requests at a depth of {}", self.depth)));
        }
        for index in 0..count as usize {
            let place = at::REQUESTS + index * REQUEST_BYTES;
            let request = Request::read(&self.memory[place..place + REQUEST_BYTES]).filter(|it| it.tag < self.depth);
            let Some(request) = request else {
                return Err(MachineError::Protocol("a request with an unknown operation or tag".to_owned()));
            };
            let has_data = matches!(request.request.op, BlockOp::Read | BlockOp::Write) && !request.zeroes;
            let bytes = if has_data { request.request.bytes() as usize } else { 0 };
            if bytes > self.tag_bytes {
                return Err(MachineError::Protocol(format!("a request of {bytes} bytes")));
            }
            self.asked[request.tag as usize] = (request.request.op, bytes);
            let data = DATA_AT as usize + request.tag as usize * self.tag_bytes;
            if let Err(status) = devices.submit(&request, &self.memory[data..data + bytes]) {
                self.refused.push((request.tag, request.at, status));
            }
        }
        let limit = Ns(self.get64(at::LIMIT));
        let mut done = 0;
        let mut time = Ns::ZERO;
        let mut put = |machine: &mut Machine, (tag, at, status): (u32, Ns, Status)| {
            let place = at::DONES + done * DONE_BYTES;
            machine.memory[place..place + 4].copy_from_slice(&tag.to_le_bytes());
            machine.memory[place + 4..place + 8].copy_from_slice(&(status as u32).to_le_bytes());
            time = time.max(at);
            done += 1;
        };
        if self.refused.is_empty() {
            // Those that complete at the same time go together.
            let mut until = limit;
            while let Some((tag, at, status)) = devices.next_done(until) {
                let (op, bytes) = self.asked[tag as usize];
                if op == BlockOp::Read && status == Status::Ok {
                    let data = DATA_AT as usize + tag as usize * self.tag_bytes;
                    devices.take(tag, &mut self.memory[data..data + bytes]);
                }
                put(self, (tag, at, status));
                until = at;
            }
        } else {
            for refused in std::mem::take(&mut self.refused) {
                put(self, refused);
            }
        }
        self.put64(at::AT, time.0);
        self.put32(at::DONE, done as u32);
        Ok(())
    }

    fn operate_flash(&mut self, op: Op, now: Ns, devices: &mut dyn Devices) -> Result<(), MachineError> {
        let address = self.get64(at::ADDRESS);
        let (length, oob_at, oob_length) =
            (self.get32(at::LENGTH) as usize, self.get32(at::OOB_AT), self.get32(at::OOB_LENGTH) as usize);
        if length > self.peb_bytes || oob_at as usize + oob_length > self.oob_bytes {
            return Err(MachineError::Protocol(format!("an operation of {length} and {oob_length} bytes")));
        }
        let comm = self.comm();
        let (data, oob) = self.memory[DATA_AT as usize..].split_at_mut(self.peb_bytes);
        let (data, oob) = (&mut data[..length], &mut oob[..oob_length]);
        let call = match op {
            Op::Read => FlashCall::Read { data, oob_at, oob },
            Op::Program => FlashCall::Program { data, oob_at, oob },
            Op::Erase => FlashCall::Erase,
            _ => FlashCall::MarkBad,
        };
        let done = devices.flash(now, protocol::process(&comm), address, call);
        self.put64(at::AT, done.at.0);
        self.put32(at::STATUS, done.status as u32);
        self.put32(at::DONE, done.corrected);
        Ok(())
    }

    fn log_ubi(&self, now: Ns, devices: &mut dyn Devices) -> Result<(), MachineError> {
        let code = self.get32(at::COUNT);
        let op = UbiOp::of(code).ok_or_else(|| MachineError::Protocol(format!("a call {code} of UBI")))?;
        let call = UbiCall {
            op,
            volume: self.get32(at::OOB_LENGTH),
            leb: self.get64(at::ADDRESS) as u32,
            offset: self.get32(at::OOB_AT),
            bytes: self.get32(at::LENGTH),
        };
        devices.ubi(now, protocol::process(&self.comm()), call);
        Ok(())
    }

    /// Name of the process that calls.
    fn comm(&self) -> [u8; 16] {
        self.memory[at::COMM..at::COMM + 16].try_into().expect("sixteen bytes")
    }

    fn get32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.memory[at..at + 4].try_into().expect("four bytes"))
    }

    fn get64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.memory[at..at + 8].try_into().expect("eight bytes"))
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.memory[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put64(&mut self, at: usize, value: u64) {
        self.memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            let _ = kill_process_group(self.process, Signal::KILL);
            let _ = keeper.join();
        }
    }
}

/// Maps the channel's memory.
#[allow(unsafe_code)]
fn map(memory: &File) -> std::io::Result<MmapMut> {
    // SAFETY: the file is ours and keeps its length. The guest writes to it only while it calls, and then this process
    // waits for it.
    unsafe { MmapMut::map_mut(memory) }
}

/// A word of the channel's memory that guest and nandlab may change at the same time.
#[allow(unsafe_code)]
fn word(memory: &mut MmapMut, at: usize) -> &AtomicU32 {
    let bytes = &mut memory[at..at + 4];
    // SAFETY: the four bytes are in the memory, which begins at a page, so they are aligned; while the reference lives
    // this process uses them by it alone.
    unsafe { AtomicU32::from_ptr(bytes.as_mut_ptr().cast()) }
}

/// Whether a file system can hold the guest's memory, which is a file that is mapped for execution. User-mode Linux takes
/// /dev/shm, else `$TMPDIR`; in a container /dev/shm may have 64 MiB.
fn can_hold(directory: &str, bytes: u64) -> bool {
    statvfs(directory).is_ok_and(|found| {
        !found.f_flag.contains(StatVfsMountFlags::NOEXEC) && found.f_bavail.saturating_mul(found.f_frsize) >= bytes
    })
}

/// Starts the process. `fds` are the guest's ends of the channel: memory, calls, replies.
fn spawn(kernel: &Kernel, setup: &Setup, console: &File, fds: [OwnedFd; 3]) -> Result<Child, MachineError> {
    let out = || console.as_fd().try_clone_to_owned().map_err(host("the console"));
    // The gap that address space randomization leaves behind the program would become memory of the guest.
    let mut command = Command::new("setpriv");
    command
        // A guest that computes makes no call and would not notice that nandlab is gone.
        .args(["--pdeathsig", "KILL", "setarch", "-R"])
        .arg(kernel.linux())
        .arg(format!("mem={}M", setup.memory_mib))
        .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "con=null", "con0=null,fd:1", "ssl=null"])
        .args(["time-travel=inf-cpu", "panic=-1"])
        .arg(format!("time-travel-start={}", setup.starts_ns))
        .arg(format!("nandlab={MEMORY_FD},{TO_FD},{FROM_FD}"))
        .args(setup.arguments.split_whitespace())
        // The kernel's random numbers follow from its command line too: it names nothing of the host.
        .args(["init=/bin/sh", "--", "-c", r#""cat /dev/nandlab >/dev/init; exec sh /dev/init""#])
        .env_clear()
        // User-mode Linux would keep its process number in a directory below it, for tools that are not used here.
        .env("HOME", "/dev/null")
        .env("NANDLAB_SEED", setup.seed.to_string())
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(out()?))
        .stderr(Stdio::from(out()?))
        .process_group(0);
    if !can_hold("/dev/shm", u64::from(setup.memory_mib) << 20) {
        command.env("TMPDIR", std::env::temp_dir());
    }
    let parents = fds.into_iter().zip([MEMORY_FD, TO_FD, FROM_FD]);
    let mappings = parents.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }).collect();
    command.fd_mappings(mappings).map_err(|error| host("its descriptors")(std::io::Error::other(error)))?;
    command.spawn().map_err(host("its process"))
}
