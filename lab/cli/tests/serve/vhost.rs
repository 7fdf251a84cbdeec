//! Over vhost-user-blk: QEMU, whose firmware drives the disk, and a front end on the crate `vhost` with queues of our own
//! making, for what no good driver does.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures as Protocol};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::{NBD, Server, VHOST, noise};

/// A boot sector, for BIOS: prints `r`; sixteen times reads eight sectors from LBA 8 on, inverts every byte, and writes them
/// 4,096 sectors further on; prints `w`; reads beyond the end, prints `k` if that fails, and ends QEMU with 0. If anything
/// else happens it prints `f` and ends QEMU with 1.
const BOOT: [&[u8]; 12] = [
    // cli; xor ax, ax; mov ds, ax; mov es, ax; mov ss, ax; mov sp, 0x7c00; sti; mov [0x7c83], dl
    b"\xfa\x31\xc0\x8e\xd8\x8e\xc0\x8e\xd0\xbc\x00\x7c\xfb\x88\x16\x83\x7c",
    // mov al, 'r'; call say; mov cx, 16; again: push cx
    b"\xb0\x72\xe8\x68\x00\xb9\x10\x00\x51",
    // mov ah, 0x42; call bios; jc failed
    b"\xb4\x42\xe8\x55\x00\x72\x4a",
    // mov si, 0x8000; mov cx, 4096; invert: not byte [si]; inc si; loop invert
    b"\xbe\x00\x80\xb9\x00\x10\xf6\x14\x46\xe2\xfb",
    // add dword [lba], 4096; mov ah, 0x43; xor al, al; call bios; jc failed
    b"\x66\x81\x06\x8c\x7c\x00\x10\x00\x00\xb4\x43\x30\xc0\xe8\x38\x00\x72\x2d",
    // sub dword [lba], 4088; pop cx; loop again; mov al, 'w'; call say
    b"\x66\x81\x2e\x8c\x7c\xf8\x0f\x00\x00\x59\xe2\xcf\xb0\x77\xe8\x2f\x00",
    // mov dword [lba], 0x7fffffff; mov ah, 0x42; call bios; jnc failed
    b"\x66\xc7\x06\x8c\x7c\xff\xff\xff\x7f\xb4\x42\xe8\x17\x00\x73\x0c",
    // mov al, 'k'; call say; xor al, al; exit: out 0xf4, al; hlt; jmp exit
    b"\xb0\x6b\xe8\x1a\x00\x30\xc0\xe6\xf4\xf4\xeb\xfb",
    // failed: mov al, 'f'; call say; mov al, 1; jmp exit
    b"\xb0\x66\xe8\x0e\x00\xb0\x01\xeb\xf2",
    // bios: mov dl, [0x7c83]; mov si, packet; int 0x13; ret
    b"\x8a\x16\x83\x7c\xbe\x84\x7c\xcd\x13\xc3",
    // say: mov dx, 0x3f8; out dx, al; ret; the drive's number
    b"\xba\xf8\x03\xee\xc3\x00",
    // packet: 16 bytes, eight sectors, to 0000:8000; lba: 8
    b"\x10\x00\x08\x00\x00\x80\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00",
];

#[test]
fn qemu_boots_from_the_drive_reads_it_and_writes_it() {
    let mut image = BOOT.concat();
    image.resize(510, 0);
    image.extend([0x55, 0xaa]);
    image.resize(4096, 0);
    let data = noise(16 * 4096);
    image.extend(&data);
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let disk = dir.join("serve-boot.img");
    std::fs::write(&disk, &image).unwrap();
    let server = Server::start("boot", &VHOST, &["--once", "--from", disk.to_str().unwrap(), "--flash", "kept.img"]);
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.current_dir(&server.dir).args(["-nodefaults", "-display", "none", "-no-reboot", "-accel", "tcg", "-m", "64M"]);
    qemu.args(["-object", "memory-backend-memfd,id=mem,size=64M,share=on", "-machine", "q35,memory-backend=mem"]);
    qemu.args(["-chardev", "socket,id=c,path=blk.sock", "-device", "vhost-user-blk-pci,chardev=c,bootindex=1"]);
    qemu.args(["-serial", "file:serial.txt", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    let said = qemu.output().expect("QEMU runs");
    let serial = std::fs::read_to_string(server.dir.join("serial.txt")).unwrap();
    // The device makes 2n + 1 of n.
    let error = String::from_utf8_lossy(&said.stderr);
    assert_eq!((said.status.code(), &serial[..]), (Some(1), "rwk"), "{error}{}", server.said());
    let kept = server.dir.join("kept.img");
    let result = server.ended();
    assert_eq!((&result["status"], result["flows"].as_array().map(Vec::len)), (&"done".into(), Some(1)));
    let kept = std::fs::read(kept).unwrap();
    let inverted: Vec<u8> = data.iter().map(|byte| !byte).collect();
    assert!(kept[..image.len()] == image && kept[(4096 + 8) * 512..][..data.len()] == inverted);
}

/// Where the front end's memory begins, for the guest and for the front end.
const GUEST: u64 = 1 << 20;
const USER: u64 = 0x7000_0000;
const MEMORY: u64 = 4 << 20;
const QUEUE_SIZE: u16 = 16;
/// Where data lie in the guest's memory; before them are queues of 16 KiB, headers, and a status.
const DATA: u64 = GUEST + (1 << 20);
const HEADER: u64 = GUEST + (512 << 10);
const STATUS: u64 = HEADER + 4096;

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

/// A front end, and the driver of its guest.
struct Driver {
    frontend: Frontend,
    memory: File,
    kicks: Vec<EventFd>,
    calls: Vec<EventFd>,
    /// Requests made, by queue.
    made: Vec<u16>,
}

impl Driver {
    /// Connects, and takes all features except those of `without`.
    fn connect(server: &Server, queues: usize, without: u64) -> Driver {
        let mut frontend = Frontend::connect(server.dir.join("blk.sock"), 16).unwrap();
        frontend.set_owner().unwrap();
        frontend.set_features(frontend.get_features().unwrap() & !without).unwrap();
        let features = frontend.get_protocol_features().unwrap();
        assert!(features.contains(Protocol::CONFIG | Protocol::MQ | Protocol::REPLY_ACK));
        frontend.set_protocol_features(features).unwrap();
        let memory = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        memory.set_len(MEMORY).unwrap();
        let event = || EventFd::new(EFD_NONBLOCK).unwrap();
        let events = || (0..queues).map(|_| event()).collect();
        let (kicks, calls) = (events(), events());
        let mut driver = Driver { frontend, memory, kicks, calls, made: vec![0; queues] };
        driver.frontend.set_mem_table(&[driver.region(MEMORY)]).unwrap();
        (0..queues).for_each(|queue| driver.start(queue));
        driver
    }

    fn region(&self, bytes: u64) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST,
            memory_size: bytes,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: self.memory.as_raw_fd(),
        }
    }

    fn start(&mut self, queue: usize) {
        let at = USER + queue as u64 * (16 << 10);
        let config = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: at,
            avail_ring_addr: at + 4096,
            used_ring_addr: at + 8192,
            log_addr: None,
        };
        self.frontend.set_vring_num(queue, QUEUE_SIZE).unwrap();
        self.frontend.set_vring_addr(queue, &config).unwrap();
        self.frontend.set_vring_base(queue, self.made[queue]).unwrap();
        self.frontend.set_vring_call(queue, &self.calls[queue]).unwrap();
        self.frontend.set_vring_kick(queue, &self.kicks[queue]).unwrap();
        self.frontend.set_vring_enable(queue, true).unwrap();
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at - GUEST).unwrap();
    }

    fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, at - GUEST).unwrap();
        bytes
    }

    fn data(&self, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.memory.read_exact_at(&mut data, DATA - GUEST).unwrap();
        data
    }

    fn place(&self, queue: usize) -> u64 {
        GUEST + queue as u64 * (16 << 10)
    }

    /// Makes a chain of address, bytes, flags and next available, from descriptor 0 on; `ahead` is how far the index goes.
    fn make(&mut self, queue: usize, chain: &[(u64, u32, u16, u16)], ahead: u16) {
        let place = self.place(queue);
        for (at, (address, bytes, flags, next)) in (0..).zip(chain) {
            let descriptor =
                [&address.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()];
            self.put(place + 16 * at, &descriptor.concat());
        }
        let slot = u64::from(self.made[queue] % QUEUE_SIZE);
        self.put(place + 4096 + 4 + 2 * slot, &0u16.to_le_bytes());
        self.made[queue] = self.made[queue].wrapping_add(ahead);
        self.put(place + 4096 + 2, &self.made[queue].to_le_bytes());
        self.kicks[queue].write(1).unwrap();
    }

    fn used(&self, queue: usize) -> u16 {
        u16::from_le_bytes(self.get(self.place(queue) + 8192 + 2))
    }

    /// Waits for the answer to the last request of a queue; returns its status.
    #[track_caller]
    fn status(&self, queue: usize) -> u8 {
        let since = Instant::now();
        while self.used(queue) != self.made[queue] {
            assert!(since.elapsed() < Duration::from_secs(20), "no answer");
            std::thread::sleep(Duration::from_micros(100));
        }
        let [status] = self.get(STATUS);
        status
    }

    /// A request of header, data and status. `data` are bytes, and whether the device writes them.
    #[track_caller]
    fn request(&mut self, queue: usize, kind: u32, sector: u64, data: Option<(u32, bool)>) -> u8 {
        self.put(HEADER, &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat());
        self.put(STATUS, &[0xee]);
        let mut chain = vec![(HEADER, 16, 1, 1)];
        chain.extend(data.map(|(bytes, written)| (DATA, bytes, if written { 3 } else { 1 }, 2)));
        chain.push((STATUS, 1, 2, 0));
        self.make(queue, &chain, 1);
        self.status(queue)
    }
}

#[test]
fn a_driver_finds_a_disk_that_nbd_sees_too() {
    let endpoints = [NBD, VHOST].concat();
    let server = Server::start("driver", &endpoints, &[]);
    let mut driver = Driver::connect(&server, 4, 0);
    // VERSION_1, EVENT_IDX and INDIRECT_DESC, by their numbers; then those of virtio-blk.
    let features = driver.frontend.get_features().unwrap();
    for bit in [32, 29, 28, 1, 2, 6, 9, 10, 11, 12, 13, 14] {
        assert!(features >> bit & 1 == 1, "feature {bit} of {features:x}");
    }
    assert_eq!(driver.frontend.get_queue_num().unwrap(), 16);
    let config = driver.frontend.get_config(0, 60, VhostUserConfigFlags::empty(), &[0; 60]).unwrap().1;
    assert_eq!(config[..8], (65536u64).to_le_bytes());
    assert_eq!(driver.request(0, GET_ID, 0, Some((20, true))), 0);
    assert_eq!(&driver.data(20), b"live\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");

    // Each queue writes, another one reads. The longest request is of more pieces than one.
    for (queue, bytes) in [(0, 512), (1, 4096), (2, 12_800), (3, 2_500_096)] {
        let data = noise(bytes as usize);
        driver.put(DATA, &data);
        assert_eq!(driver.request(queue, OUT, 8 + 8 * queue as u64, Some((bytes, false))), 0);
        driver.put(DATA, &vec![0; bytes as usize]);
        assert_eq!(driver.request((queue + 1) % 4, IN, 8 + 8 * queue as u64, Some((bytes, true))), 0);
        assert!(driver.data(bytes as usize) == data, "{bytes} bytes of queue {queue}");
        assert!(driver.calls[queue].read().unwrap() > 0, "the driver is told");
    }
    assert_eq!(driver.request(0, FLUSH, 0, None), 0);
    let range = |sector: u64, sectors: u32, flags: u32| {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    };
    driver.put(DATA, &[range(32, 8, 0), range(48, 8, 0)].concat());
    assert_eq!(driver.request(1, DISCARD, 0, Some((32, false))), 0);
    driver.put(DATA, &range(64, 8, 1));
    assert_eq!(driver.request(1, WRITE_ZEROES, 0, Some((16, false))), 0);
    let mut expected = noise(2_500_096);
    for sector in [0, 16, 32] {
        expected[sector * 512..][..4096].fill(0);
    }
    std::fs::write(server.dir.join("expected.img"), &expected).unwrap();
    server.client("nbdcopy", &["URI", "found.img"]);
    let found = std::fs::read(server.dir.join("found.img")).unwrap();
    assert!(found[32 * 512..][..expected.len()] == expected);
    server.client("qemu-io", &["-f", "raw", "-c", "write -P 7 1M 4k", "URI"]);
    assert_eq!(driver.request(3, IN, 2048, Some((4096, true))), 0);
    assert!(driver.data(4096).iter().all(|&byte| byte == 7));

    // A queue that is stopped is done with its requests, and goes on where it was.
    driver.make(0, &[(HEADER, 16, 1, 1), (DATA, 4096, 3, 2), (STATUS, 1, 2, 0)], 1);
    let since = Instant::now();
    while driver.used(0) != driver.made[0] && since.elapsed() < Duration::from_secs(20) {}
    assert_eq!(driver.frontend.get_vring_base(0).unwrap(), u32::from(driver.made[0]));
    assert_eq!(driver.used(0), driver.made[0]);
    driver.start(0);
    assert_eq!(driver.request(0, IN, 2048, Some((4096, true))), 0);
    drop(driver);
    let result = server.result();
    assert!(result["flows"].as_array().unwrap().len() >= 2);
}

#[test]
fn writes_are_durable_at_once_for_a_driver_that_cannot_flush() {
    let flushed = |without: u64, writeback: Option<u8>| {
        let server = Server::start(&format!("wce-{without:x}-{}", writeback.unwrap_or(2)), &VHOST, &["--once"]);
        let mut driver = Driver::connect(&server, 1, without);
        if let Some(value) = writeback {
            driver.frontend.set_config(32, VhostUserConfigFlags::WRITABLE, &[value]).unwrap();
            // A kick does not wait for a message before it; an answer does.
            let set = driver.frontend.get_config(32, 1, VhostUserConfigFlags::empty(), &[0]).unwrap().1;
            assert_eq!(set, [value]);
        }
        assert_eq!(driver.request(0, OUT, 0, Some((4096, false))), 0);
        drop(driver);
        let result = server.ended();
        result["measured_ns"].as_f64().unwrap()
    };
    let (flush, wce) = (1 << 9, 1 << 11);
    let volatile = flushed(0, None);
    // A program takes 200 µs; the cache takes a write in far less.
    assert!(volatile < 200_000.0, "{volatile}");
    assert_eq!(flushed(0, Some(1)), volatile);
    for through in [flushed(flush | wce, None), flushed(0, Some(0))] {
        assert!(through >= 200_000.0, "{through}");
    }
}

#[test]
fn requests_without_sense_get_an_error_and_the_next_one_is_served() {
    let server = Server::start("odd", &VHOST, &[]);
    let mut driver = Driver::connect(&server, 1, 0);
    let (ok, io, unsupported) = (0, 1, 2);
    let sectors = 65_536;
    assert_eq!(driver.request(0, IN, sectors, Some((512, true))), io);
    assert_eq!(driver.request(0, IN, u64::MAX, Some((512, true))), io);
    assert_eq!(driver.request(0, OUT, sectors - 1, Some((1024, false))), io);
    assert_eq!(driver.request(0, IN, 0, Some((100, true))), io);
    assert_eq!(driver.request(0, IN, 0, None), io);
    assert_eq!(driver.request(0, 2, 0, Some((512, true))), unsupported);
    assert_eq!(driver.request(0, 99, 0, None), unsupported);
    driver.put(DATA, &[0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(driver.request(0, DISCARD, 0, Some((16, false))), unsupported);
    assert_eq!(driver.request(0, DISCARD, 0, Some((15, false))), io);
    let odd = |driver: &mut Driver, chain: &[(u64, u32, u16, u16)]| {
        driver.put(STATUS, &[0xee]);
        driver.make(0, chain, 1);
        driver.status(0)
    };
    // Data in memory that is not there: before, behind, and across the end of it. A header that is not there; too short.
    driver.put(HEADER, &[0; 16]);
    for address in [0, GUEST + MEMORY, GUEST + MEMORY - 512, u64::MAX - 4095, 1 << 60] {
        for (kind, flags) in [(IN, 3), (OUT, 1)] {
            driver.put(HEADER, &kind.to_le_bytes());
            assert_eq!(odd(&mut driver, &[(HEADER, 16, 1, 1), (address, 4096, flags, 2), (STATUS, 1, 2, 0)]), io);
        }
    }
    assert_eq!(odd(&mut driver, &[(0, 16, 1, 1), (STATUS, 1, 2, 0)]), io);
    assert_eq!(odd(&mut driver, &[(HEADER, 15, 1, 1), (STATUS, 1, 2, 0)]), io);
    // More than 32 MiB, in memory that is there; what is to be read behind what is to be written; a loop.
    driver.put(HEADER, &[0; 16]);
    let long: Vec<_> = (1..13).map(|at| (DATA, 3 << 20, 3, at + 1)).collect();
    assert_eq!(odd(&mut driver, &[&[(HEADER, 16, 1, 1)], &long[..], &[(STATUS, 1, 2, 0)]].concat()), io);
    assert_eq!(odd(&mut driver, &[(STATUS, 1, 3, 1), (HEADER, 16, 0, 0)]), io);
    assert_eq!(odd(&mut driver, &[(HEADER, 16, 1, 1), (DATA, 512, 1, 2), (STATUS, 1, 3, 1)]), io);
    // An indirect table makes a good request.
    let table: Vec<u8> = [(HEADER, 16u32, 1u16, 1u16), (DATA, 512, 3, 2), (STATUS, 1, 2, 0)]
        .iter()
        .flat_map(|(address, bytes, flags, next)| {
            [&address.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
        })
        .collect();
    driver.put(HEADER + 8192, &table);
    assert_eq!(odd(&mut driver, &[(HEADER + 8192, 48, 4, 0)]), ok);
    assert_eq!(driver.request(0, IN, 0, Some((4096, true))), ok);
    assert!(driver.data(4096).iter().all(|&byte| byte == 0), "nothing was written");
    // An event that takes no more, and would block whoever writes to it: the answer comes all the same.
    let full = EventFd::new(0).unwrap();
    full.write(u64::MAX - 1).unwrap();
    driver.frontend.set_vring_call(0, &full).unwrap();
    assert_eq!(driver.request(0, IN, 0, Some((4096, true))), ok);
    assert_eq!(driver.request(0, IN, 0, Some((4096, true))), ok);
    drop(driver);
    server.result();
}

#[test]
fn front_ends_that_lie_or_die_are_let_go_and_the_others_are_served() {
    let server = Server::start("front-ends", &VHOST, &[]);
    let mut good = Driver::connect(&server, 1, 0);
    // No message of the protocol.
    let mut raw = UnixStream::connect(server.dir.join("blk.sock")).unwrap();
    std::io::Write::write_all(&mut raw, &[0x55; 100]).unwrap();
    server.says("client 1: the front end broke the protocol");
    // A request that cannot be answered; an index that is ahead of what the queue holds; memory that the file does not have.
    let mut mute = Driver::connect(&server, 1, 0);
    mute.make(0, &[(HEADER, 16, 0, 0)], 1);
    server.says("client 2: queue 0: a request has no room for its status");
    let mut ahead = Driver::connect(&server, 1, 0);
    ahead.make(0, &[(HEADER, 16, 1, 1), (STATUS, 1, 2, 0)], QUEUE_SIZE + 1);
    server.says("client 3: queue 0: ");
    let mut lost = Driver::connect(&server, 1, 0);
    lost.make(0, &[(HEADER, 16, 1, 1), (GUEST + MEMORY, 1, 2, 0)], 1);
    server.says("client 4: queue 0: a status cannot be written");
    let short = Driver::connect(&server, 1, 0);
    let _ = short.frontend.set_mem_table(&[short.region(MEMORY * 2)]);
    server.says("client 5: the front end broke the protocol");
    // One that dies with a request under way, and one that dies in the middle of a message.
    let mut dies = Driver::connect(&server, 1, 0);
    dies.make(0, &[(HEADER, 16, 1, 1), (DATA, 2 << 20, 3, 2), (STATUS, 1, 2, 0)], 1);
    drop(dies);
    let mut dies = UnixStream::connect(server.dir.join("blk.sock")).unwrap();
    std::io::Write::write_all(&mut dies, &[1, 0, 0]).unwrap();
    drop(dies);
    assert_eq!(good.request(0, IN, 0, Some((4096, true))), 0);
    drop((mute, ahead, lost, short));
    // At most sixteen at a time; descriptors are not used up.
    for _ in 0..100 {
        drop(Driver::connect(&server, 1, 0));
    }
    let process = server.process.as_ref().unwrap().id();
    let since = Instant::now();
    let open = || std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    while open() > 40 {
        assert!(since.elapsed() < Duration::from_secs(20), "{} descriptors", open());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(good.request(0, IN, 0, Some((4096, true))), 0);
    assert!(!server.said().contains("panicked"), "{}", server.said());
    drop(good);
    server.result();
}

#[test]
fn a_paced_answer_comes_no_sooner_than_the_drive_has_it() {
    let server = Server::start("paced-vhost", &VHOST, &["--paced", "--once"]);
    let mut driver = Driver::connect(&server, 1, 0);
    let began = Instant::now();
    for at in 0..20 {
        assert_eq!(driver.request(0, OUT, at * 8, Some((4096, false))), 0);
    }
    let wall = began.elapsed().as_nanos() as f64;
    drop(driver);
    let virtual_ns = server.ended()["measured_ns"].as_f64().unwrap();
    assert!(virtual_ns > 0.0 && wall >= virtual_ns, "{wall} ns on the wall, {virtual_ns} ns of the drive");
}

#[test]
fn there_must_be_a_socket_that_nobody_listens_at() {
    let mut server = Server::start("sockets", &VHOST, &[]);
    let said = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandlab"));
        let said = command.current_dir(&server.dir).args(["serve", "drive.toml"]).args(args).output().unwrap();
        (said.status.code(), String::from_utf8(said.stderr).unwrap())
    };
    let (code, error) = said(&[]);
    assert!(code == Some(2) && error.contains("--nbd") && error.contains("--vhost-user-blk"), "{error}");
    let (code, error) = said(&VHOST);
    assert!(code == Some(2) && error.contains("somebody listens"), "{error}");
    let (code, error) = said(&["--vhost-user-blk", "drive.toml"]);
    assert!(code == Some(2) && error.contains("no socket"), "{error}");
    let dir = server.dir.clone();
    let mut process = server.process.take().unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(dir.join("blk.sock").exists());
    let again = Server::go_on(dir, &VHOST, &[]);
    assert_eq!(Driver::connect(&again, 1, 0).request(0, FLUSH, 0, None), 0);
    again.result();
}
